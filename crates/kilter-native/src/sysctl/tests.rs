use std::os::unix::fs::{PermissionsExt, symlink};

use kilter_model::Difference;
use kilter_provider::{Log, canonical_name, check, get_checked};

use super::*;

/// A kernel of plain files.
struct SysctlBench {
    root: tempfile::TempDir,
    provider: SysctlProvider,
}

impl SysctlBench {
    fn new() -> SysctlBench {
        let root = tempfile::tempdir().unwrap();
        let bench = SysctlBench { provider: SysctlProvider::new(root.path()), root };
        for (name, value) in [("net/ipv4/ip_forward", "0\n"), ("net/ipv4/tcp_rmem", "4096\t131072\t6291456\n")] {
            bench.write(&format!("proc/sys/{name}"), value);
        }
        bench
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.root.path().join(path)).unwrap_or_else(|_| "(none)".to_owned())
    }

    fn file(&self) -> String {
        self.read("etc/sysctl.d/zz-kilter.conf")
    }

    fn live(&self) -> String {
        self.read("proc/sys/net/ipv4/ip_forward").trim_end().to_owned()
    }

    fn differences(&self, name: &str, should: &Attributes) -> Vec<Difference> {
        let name = name.into();
        check(&self.provider, &Context::empty(), &[Wanted::new(&name, Some(should))]).remove(0).unwrap().differences
    }

    fn get(&self, name: &str) -> State {
        let name = name.into();
        get_checked(&self.provider, &Context::empty(), Query::Named(&[Wanted::new(&name, None)])).unwrap().remove(0)
    }

    fn call(&self, cx: &Context<'_>, name: &str, should: &Attributes, mode: Mode) -> Outcome {
        let (is, name) = (self.get(name), name.into());
        self.provider.set(cx, &[Change::new(&name, &is, Some(should), &[])], mode).remove(0)
    }

    /// Changes a resource that is out of sync, and expects that it is in sync afterwards.
    #[track_caller]
    fn converges(&self, name: &str, should: &Attributes) {
        assert_ne!(self.differences(name, should), [], "{name}");
        assert_eq!(self.call(&Context::empty(), name, should, Mode::Apply), Outcome::done());
        assert_eq!(self.differences(name, should), [], "{name}");
    }
}

fn should(attributes: &[(&str, &str)]) -> Attributes {
    attributes.iter().map(|(name, value)| (*name, Value::from(*value))).collect()
}

fn gone() -> Attributes {
    Attributes::from_iter([("exists", false)])
}

#[test]
fn value_is_set_live_and_for_the_next_boot() {
    let bench = SysctlBench::new();
    bench.converges("net.ipv4.ip_forward", &Attributes::from_iter([("value", Value::Integer(1))]));
    assert_eq!((bench.live().as_str(), bench.file().as_str()), ("1", "net.ipv4.ip_forward = 1\n"));
    let mode = std::fs::metadata(bench.root.path().join("etc/sysctl.d/zz-kilter.conf")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o644);
    assert_eq!(bench.differences("net/ipv4/ip_forward", &should(&[("value", "1")])), []);
    bench.converges("net.ipv4.ip_forward", &should(&[("live", "0")]));
    assert_eq!((bench.live().as_str(), bench.file().as_str()), ("0", "net.ipv4.ip_forward = 1\n"));
    bench.converges("net.ipv4.ip_forward", &gone());
    assert_eq!((bench.live().as_str(), bench.file().as_str()), ("0", "(none)"));
}

#[test]
fn difference_of_value_names_both_values() {
    let bench = SysctlBench::new();
    bench.write("etc/sysctl.d/zz-kilter.conf", "net.ipv4.ip_forward = 1\n");
    let differences = bench.differences("net.ipv4.ip_forward", &should(&[("value", "1")]));
    assert_eq!(differences[0].message.as_deref(), Some("live 0, at boot 1 → 1"));
    let secret = Attributes::from_iter([("value", Value::sensitive(Value::from("hidden-value")))]);
    assert!(!format!("{:?}", bench.differences("net.ipv4.ip_forward", &secret)[0].message).contains("hidden-value"));
}

#[test]
fn fields_are_compared_and_not_the_white_space() {
    let bench = SysctlBench::new();
    bench.converges("net.ipv4.tcp_rmem", &should(&[("value", "4096 \t131072 6291456")]));
    assert_eq!(bench.file(), "net.ipv4.tcp_rmem = 4096 131072 6291456\n");
    assert_eq!(bench.read("proc/sys/net/ipv4/tcp_rmem"), "4096\t131072\t6291456\n", "the live value was the same");
    assert_eq!(bench.get("net.ipv4.tcp_rmem").attributes.text("value"), Some("4096 131072 6291456"));
    bench.converges("net.ipv4.tcp_rmem", &should(&[("live", "1 2 3")]));
    assert_eq!(bench.read("proc/sys/net/ipv4/tcp_rmem"), "1 2 3\n");
}

#[test]
fn name_has_dots_in_its_canonical_form() {
    let bench = SysctlBench::new();
    let canonical = |name: &str| canonical_name(&bench.provider, &Context::empty(), &name.into(), &Attributes::new());
    assert_eq!(canonical("net/ipv4/conf/eth0.7/tag").unwrap().0, "net.ipv4.conf.eth0/7.tag");
    assert_eq!(canonical("net.ipv4.conf.eth0/7.tag"), None);
    bench.write("proc/sys/net/ipv4/conf/eth0.7/tag", "0\n");
    bench.converges("net.ipv4.conf.eth0/7.tag", &should(&[("value", "1")]));
    assert_eq!(bench.file(), "net.ipv4.conf.eth0/7.tag = 1\n");
}

#[test]
fn refused_change_has_no_effect() {
    let bench = SysctlBench::new();
    bench.write("etc/sysctl.d/zz-kilter.conf", "a.b = 1\n");
    for (name, attributes, why) in [
        ("net.ipv4.nosuch", &[("value", "1")][..], "this kernel has no parameter net.ipv4.nosuch"),
        ("net.ipv4", &[("value", "1")], "has parameters below it"),
        ("net.ipv4.ip_forward", &[("value", "1\nkernel.panic = 1")], "a value is one line of text"),
        ("net.ipv4.ip_forward", &[("value", "1"), ("kept", "0")], "`value` and `kept` say different things"),
        ("ip_forward", &[("kept", "1")], "is not the name of a kernel parameter"),
        ("../../etc/passwd", &[("live", "1")], "is not the name of a kernel parameter"),
    ] {
        let (is, key) = (State::absent(name), name.into());
        let change = Change::new(&key, &is, None, &[]);
        let should = should(attributes);
        let change = Change { should: Some(&should), ..change };
        for mode in [Mode::Preview, Mode::Apply] {
            let failure = bench.provider.set(&Context::empty(), &[change], mode).remove(0).failure.unwrap();
            assert!(failure.contains(why), "{name}: {failure}");
        }
    }
    assert_eq!((bench.live().as_str(), bench.file().as_str()), ("0", "a.b = 1\n"));
}

#[test]
fn parameter_without_a_value_cannot_be_kept() {
    let bench = SysctlBench::new();
    let exists = Attributes::from_iter([("exists", true)]);
    let failed = bench.call(&Context::empty(), "net.ipv4.ip_forward", &exists, Mode::Apply).failure.unwrap();
    assert!(failed.contains("needs `value` or `kept`"), "{failed}");
    bench.write("etc/sysctl.d/zz-kilter.conf", "net.ipv4.ip_forward = 1\n");
    assert_eq!(bench.differences("net.ipv4.ip_forward", &exists), []);
}

#[test]
fn one_bad_change_of_a_call_does_not_stop_the_others() {
    let bench = SysctlBench::new();
    let (good, bad) = (should(&[("value", "1")]), should(&[("value", "a\nb")]));
    let names: Vec<EcoString> = ["net.ipv4.ip_forward", "net.ipv4.tcp_rmem", "a.b"].map(EcoString::from).to_vec();
    let is = State::absent("x");
    let kept = should(&[("kept", "2")]);
    let changes = [&good, &bad, &kept].into_iter().zip(&names);
    let changes: Vec<Change<'_>> = changes.map(|(should, name)| Change::new(name, &is, Some(should), &[])).collect();
    let outcomes = bench.provider.set(&Context::empty(), &changes, Mode::Apply);
    assert_eq!(outcomes.iter().map(Outcome::is_done).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(bench.file(), "net.ipv4.ip_forward = 1\na.b = 2\n");
}

#[test]
fn list_has_the_parameters_of_the_file() {
    let bench = SysctlBench::new();
    bench.write("etc/sysctl.d/zz-kilter.conf", "net.ipv4.ip_forward=0\nnet.ipv4 = 1\n# x.y = 1\na.b = x y\n");
    let states = get_checked(&bench.provider, &Context::empty(), Query::All).unwrap();
    let names: Vec<&str> = states.iter().map(|state| state.name.as_str()).collect();
    assert_eq!(names, ["a.b", "net.ipv4", "net.ipv4.ip_forward"]);
    for state in states {
        assert_eq!(bench.provider.validate(&state.name, &state.attributes, &[]), []);
        assert_eq!(bench.differences(&state.name, &state.attributes), []);
    }
    bench.converges("net.ipv4", &gone());
    assert_eq!(bench.file(), "net.ipv4.ip_forward=0\n# x.y = 1\na.b = x y\n");
}

#[test]
fn link_in_place_of_the_file_is_refused() {
    let bench = SysctlBench::new();
    std::fs::create_dir_all(bench.root.path().join("etc/sysctl.d")).unwrap();
    symlink("/root/elsewhere", bench.root.path().join("etc/sysctl.d/zz-kilter.conf")).unwrap();
    let failed = bench.provider.set(
        &Context::empty(),
        &[Change::new(&"a.b".into(), &State::absent("a.b"), Some(&should(&[("kept", "1")])), &[])],
        Mode::Apply,
    );
    assert!(failed[0].failure.as_ref().unwrap().contains("is not a regular file but a link"), "{failed:?}");
}

#[derive(Default)]
struct SysctlLog(Mutex<Vec<String>>);

impl Log for SysctlLog {
    fn log(&self, _: Level, _: &str, name: &str, message: &str) {
        self.0.lock().unwrap().push(format!("{name}: {message}"));
    }
}

#[test]
fn later_file_with_another_value_is_reported() {
    let bench = SysctlBench::new();
    for (file, value) in [
        ("etc/sysctl.conf", "0"),
        ("etc/sysctl.d/10-early.conf", "0"),
        ("etc/sysctl.d/zzz.conf", "1"),
        ("run/sysctl.d/zzz.conf", "2"),
        ("etc/sysctl.d/zzz.conf.bak", "3"),
    ] {
        bench.write(file, &format!("net.ipv4.ip_forward = {value}\n"));
    }
    let lines = SysctlLog::default();
    let cx = Context::empty().with_log(&lines);
    assert!(bench.call(&cx, "net.ipv4.ip_forward", &should(&[("value", "1")]), Mode::Apply).is_done());
    let said = |file: &str, value: &str| {
        format!("net.ipv4.ip_forward: {file} says net.ipv4.ip_forward = {value}, and may be read later")
    };
    assert_eq!(*lines.0.lock().unwrap(), [said("/run/sysctl.d/zzz.conf", "2"), said("/etc/sysctl.conf", "0")]);
}

#[test]
fn restoration_sets_both_earlier_values() {
    let name = "net.ipv4.ip_forward";
    let no_line = |live: &str| Attributes::from_iter([("live", Value::from(live)), ("exists", Value::from(false))]);
    for (declared, line, restored) in [
        (should(&[("value", "1")]), None, no_line("0")),
        (should(&[("value", "1")]), Some("5"), should(&[("live", "0"), ("kept", "5")])),
        (should(&[("live", "1")]), None, should(&[("live", "0")])),
        (should(&[("kept", "1")]), None, gone()),
        (gone(), Some("5"), should(&[("kept", "5")])),
    ] {
        let bench = SysctlBench::new();
        if let Some(line) = line {
            bench.write("etc/sysctl.d/zz-kilter.conf", &format!("{name} = {line}\n"));
        }
        let (earlier, is) = ((bench.live(), bench.file()), bench.get(name));
        let mut before = Attributes::new();
        bench.provider.revert_values(&declared, &is, &mut before).unwrap();
        assert_eq!(before, restored, "{declared:?}");
        bench.converges(name, &declared);
        bench.converges(name, &before);
        assert_eq!((bench.live(), bench.file()), earlier, "{declared:?}");
    }
}
