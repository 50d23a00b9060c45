use std::sync::Arc;

use kilter_model::{Difference, Value};
use kilter_provider::{Wanted, check, get_checked};

use super::*;

struct HostnameFixture {
    root: tempfile::TempDir,
    provider: HostnameProvider,
}

impl HostnameFixture {
    fn new() -> HostnameFixture {
        let root = tempfile::tempdir().unwrap();
        for directory in ["etc", "proc/sys/kernel"] {
            std::fs::create_dir_all(root.path().join(directory)).unwrap();
        }
        let live = root.path().join("proc/sys/kernel/hostname");
        std::fs::write(&live, "old\n").unwrap();
        std::fs::write(root.path().join("etc/hostname"), "# the name\nold\n").unwrap();
        let provider = HostnameProvider::new(root.path(), move |name| match name {
            "denied" => Err(io::ErrorKind::PermissionDenied.into()),
            name => std::fs::write(&live, format!("{name}\n")),
        });
        HostnameFixture { root, provider }
    }

    fn text(&self, path: &str) -> String {
        std::fs::read_to_string(self.root.path().join(path)).unwrap()
    }

    fn should(&self, name: &str, attributes: &[(&str, &str)]) -> Attributes {
        let mut should: Attributes = attributes.iter().map(|(name, value)| (*name, Value::from(*value))).collect();
        let name = EcoString::from(name);
        self.provider.canonicalize(&Context::empty(), &mut [Declaration { name: &name, should: &mut should }]);
        should
    }

    fn differences(&self, name: &str, should: &Attributes) -> Vec<Difference> {
        let name = name.into();
        check(&self.provider, &Context::empty(), &[Wanted::new(&name, Some(should))]).remove(0).unwrap().differences
    }

    fn set(&self, name: &str, attributes: &[(&str, &str)]) -> Outcome {
        let should = self.should(name, attributes);
        let differences = self.differences(name, &should);
        let name = EcoString::from(name);
        let is = State::absent(name.clone());
        let change = Change::new(&name, &is, Some(&should), &differences);
        let outcome = self.provider.set(&Context::empty(), &[change], Mode::Apply).remove(0);
        if outcome.is_done() {
            assert_eq!(self.differences(&name, &should), []);
        }
        outcome
    }
}

#[test]
fn all_names_change_and_are_read() {
    let machine = HostnameFixture::new();
    assert!(machine.set("web1.example.org", &[("pretty", "The \"shop\"")]).is_done());
    assert_eq!(machine.text("etc/hostname"), "web1.example.org\n");
    assert_eq!(machine.text("proc/sys/kernel/hostname"), "web1.example.org\n");
    assert_eq!(machine.text("etc/machine-info"), "PRETTY_HOSTNAME=\"The \\\"shop\\\"\"\n");
    std::fs::write(machine.root.path().join("etc/machine-info"), "ICON_NAME=computer\nPRETTY_HOSTNAME=x\n").unwrap();
    assert!(machine.set("web1", &[("pretty", ""), ("transient", "dhcp-7")]).is_done());
    assert_eq!(machine.text("etc/machine-info"), "ICON_NAME=computer\n");
    assert_eq!(machine.text("etc/hostname"), "web1\n");
    assert_eq!(machine.text("proc/sys/kernel/hostname"), "dhcp-7\n");
    let listed = get_checked(&machine.provider, &Context::empty(), Query::All).unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!((&*listed[0].name, listed[0].attributes.text("pretty")), ("web1", Some("")));
}

#[test]
fn only_what_differs_is_written() {
    let machine = HostnameFixture::new();
    std::fs::write(machine.root.path().join("proc/sys/kernel/hostname"), "stray\n").unwrap();
    let should = machine.should("old", &[]);
    let differing: Vec<String> =
        machine.differences("old", &should).iter().map(|one| one.attribute.to_string()).collect();
    assert_eq!(differing, ["transient"]);
    assert!(machine.set("old", &[]).is_done());
    assert_eq!(machine.text("etc/hostname"), "# the name\nold\n");
}

#[test]
fn invalid_names_are_refused() {
    let machine = HostnameFixture::new();
    for name in ["", "-a", "a-", "a..b", "a b", "a_b", "über", &"x".repeat(65)] {
        assert!(!machine.provider.validate(name, &Attributes::new(), &[]).is_empty(), "{name}");
    }
    for name in ["a", "A1-b.c", &"x".repeat(64)] {
        assert!(machine.provider.validate(name, &Attributes::new(), &[]).is_empty(), "{name}");
    }
    let outcome = machine.set("ok", &[("static", "not ok")]);
    assert!(format!("{outcome:?}").contains("`not ok` is not a host name"), "{outcome:?}");
    let outcome = machine.set("denied", &[]);
    assert!(format!("{outcome:?}").contains("cannot set the host name in the kernel"), "{outcome:?}");
}

#[test]
fn link_in_place_of_the_file_is_not_followed() {
    let machine = HostnameFixture::new();
    let secret = machine.root.path().join("secret");
    std::fs::write(&secret, "kept").unwrap();
    std::fs::remove_file(machine.root.path().join("etc/hostname")).unwrap();
    std::os::unix::fs::symlink(&secret, machine.root.path().join("etc/hostname")).unwrap();
    assert!(!machine.set("new", &[]).is_done());
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "kept");
}

#[test]
fn kernel_name_changes_are_reported() {
    struct Told(std::sync::mpsc::Sender<&'static str>);
    impl WatchSink for Told {
        fn watching(&self) {
            self.0.send("watching").unwrap();
        }
        fn changed(&self, _: &str) {}
        fn all_changed(&self) {}
    }
    let (send, receive) = std::sync::mpsc::channel();
    let flag = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let cx = Context::empty();
    let cx = cx.with_interrupt(kilter_provider::Interrupt::new(&flag, None));
    HostnameProvider::default().watch(&cx, None, &Told(send)).unwrap();
    assert_eq!(receive.try_recv(), Ok("watching"));
}
