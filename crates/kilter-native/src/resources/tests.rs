use kilter_provider::{Found, PreviewContext, check_one};

use super::*;
use crate::accounts::fake::Fake;

const PASSWD: &str = "root:x:0:0::/root:/bin/sh\npostgres:x:112:120::/var/lib:/bin/sh\n\
                      alice:x:1000:1000::/home/alice:/bin/sh\n\
                      bob:x:1001:1001::/home/bob:/bin/sh\nnobody:x:65534:65534::/nonexistent:/bin/false\n";
const GROUP: &str = "root:x:0:\npostgres:x:120:\nalice:x:1000:\nbob:x:1001:\nteam:x:1100:bob\nnogroup:x:65534:\n";

/// Names that are declared of each type, with their attributes.
#[derive(Default)]
struct Declared(Vec<(&'static str, &'static str, Attributes)>);

impl PreviewContext for Declared {
    fn may_change_before(&self, _: &str) -> bool {
        false
    }

    fn declared(&self, type_name: &str, name: &str) -> Option<&Attributes> {
        self.0.iter().find(|(of, named, _)| *of == type_name && *named == name).map(|(_, _, should)| should)
    }

    fn declares(&self, type_name: &str, is_meant: &dyn Fn(&str, &Attributes) -> bool) -> bool {
        self.0.iter().any(|(of, name, should)| *of == type_name && is_meant(name, should))
    }

    fn required(&self, type_name: &str, add: &mut dyn FnMut(&str)) {
        let attribute = if type_name == "user" { "owner" } else { "group" };
        self.0.iter().filter_map(|(_, _, should)| should.text(attribute)).for_each(add);
    }
}

struct PurgeBench {
    fake: Fake,
    provider: ResourcesProvider,
    declared: Declared,
}

impl PurgeBench {
    fn new(declared: &[(&'static str, &'static str)]) -> PurgeBench {
        let fake = Fake::new(PASSWD, GROUP, "");
        let provider = ResourcesProvider::new(fake.system());
        let declared = declared.iter().map(|(of, name)| (*of, *name, Attributes::new())).collect();
        PurgeBench { fake, provider, declared: Declared(declared) }
    }

    fn found(&self, name: &str, more: &[(&str, Value)]) -> Found {
        let should = should(more);
        let cx = Context::empty().with_preview_context(&self.declared);
        check_one(&self.provider, &cx, Wanted::new(&name.into(), Some(&should))).unwrap()
    }

    fn strays(&self, name: &str, more: &[(&str, Value)]) -> Vec<String> {
        self.found(name, more).differences.iter().map(|one| one.entry.as_ref().unwrap().to_string()).collect()
    }

    fn set(&self, name: &str, mode: Mode) -> Outcome {
        let cx = Context::empty().with_preview_context(&self.declared);
        let found = self.found(name, &[]);
        let (name, should) = (name.into(), should(&[]));
        self.provider.set(&cx, &[Change::new(&name, &found.state, Some(&should), &found.differences)], mode).remove(0)
    }
}

fn should(more: &[(&str, Value)]) -> Attributes {
    let purge = [("purge", Value::Boolean(true))];
    purge.iter().chain(more).map(|(name, value)| (*name, value.clone())).collect()
}

#[test]
fn undeclared_users_of_people_are_removed_and_no_others() {
    let bench = PurgeBench::new(&[("user", "alice"), ("group", "bob")]);
    assert_eq!(bench.strays("user", &[]), ["user[bob]"]);
    for more in [
        [("except", Value::from("bob"))],
        [("unless_uid", Value::Integer(1001))],
        [("unless_system_user", Value::Integer(1001))],
        [("purge", Value::Boolean(false))],
    ] {
        let mut attributes = should(&[]);
        more.iter().for_each(|(name, value)| attributes.set(*name, value.clone()));
        let found = bench.provider.strays(&Context::empty().with_preview_context(&bench.declared), "user", &attributes);
        assert_eq!(found.unwrap(), [], "{more:?}");
    }
    assert_eq!(bench.set("user", Mode::Preview), Outcome::done());
    assert_eq!(bench.fake.argvs(), [""; 0], "a preview changes nothing");
    assert_eq!(bench.set("user", Mode::Apply), Outcome::done());
    assert_eq!(bench.fake.argvs(), ["userdel -- bob"]);
}

#[test]
fn limits_of_the_system_decide_about_users() {
    let bench = PurgeBench::new(&[]);
    assert_eq!(bench.strays("user", &[]), ["user[alice]", "user[bob]"]);
    bench.fake.write("login.defs", "UID_MIN 1001\n");
    assert_eq!(bench.strays("user", &[]), ["user[bob]"]);
    bench.fake.write("login.defs", "UID_MIN 0\nUID_MAX 70000\n");
    assert_eq!(bench.strays("user", &[]), ["user[alice]", "user[bob]"], "accounts of packages stay");
}

#[test]
fn groups_of_existing_users_stay() {
    let bench = PurgeBench::new(&[]);
    assert_eq!(bench.strays("group", &[]), ["group[team]"]);
    bench.fake.write("passwd", PASSWD.replace("bob:x:1001:1001", "bob:x:1001:1000").as_str());
    assert_eq!(bench.strays("group", &[]), ["group[bob]", "group[team]"]);
    assert_eq!(bench.set("group", Mode::Apply), Outcome::done());
    assert_eq!(bench.fake.argvs(), ["groupdel -- bob", "groupdel -- team"]);
}

#[test]
fn accounts_that_a_declared_resource_needs_stay() {
    let mut bench = PurgeBench::new(&[]);
    bench.declared.0.push(("file", "/a", Attributes::from_iter([("owner", "alice"), ("group", "1100")])));
    assert_eq!((bench.strays("user", &[]), bench.strays("group", &[])), (vec!["user[bob]".to_owned()], Vec::new()));
    bench.declared.0.push(("file", "/b", Attributes::from_iter([("owner", "1001")])));
    assert_eq!(bench.strays("user", &[]), [""; 0]);
}

#[test]
fn failure_names_the_resource() {
    let bench = PurgeBench::new(&[]);
    *bench.fake.log.answer.lock().unwrap() = (8, "user is logged in".into());
    let failure = bench.set("user", Mode::Apply).failure.unwrap();
    assert!(failure.starts_with("user[alice]: ") && failure.ends_with(" (and 1 more)"), "{failure}");
}

#[test]
fn local_hosts_stay() {
    let bench = PurgeBench::new(&[("host", "db")]);
    let hosts = "127.0.0.1 localhost\n127.0.1.1 web1\n::1 ip6-localhost\nfe00::0 ip6-localnet\nff02::1 ip6-allnodes\n\
                 10.0.0.1 db\n10.0.0.2 old # x\nfd00::5 six\nname without\n";
    bench.fake.write("hosts", hosts);
    assert_eq!(bench.strays("host", &[("except", Value::strings(["six"]))]), ["host[old]"]);
    assert_eq!(bench.set("host", Mode::Apply), Outcome::done());
    let left = std::fs::read_to_string(bench.fake.root.path().join("etc/hosts")).unwrap();
    assert_eq!(left, hosts.replace("10.0.0.2 old # x\nfd00::5 six\n", ""));
    assert_eq!(bench.strays("host", &[]), [""; 0]);
}

#[test]
fn cron_entry_is_declared_with_its_user() {
    let of = |name: &str, user: &str| {
        let attributes = Attributes::from_iter([("ensure", "present"), ("user", user)]);
        State::present(name, attributes)
    };
    let mut declared = Declared::default();
    declared.0.push(("cron", "alice:mail", Attributes::new()));
    declared.0.push(("cron", "backup", Attributes::from_iter([("user", "root")])));
    declared.0.push(("cron", "any", Attributes::new()));
    let cx = Context::empty().with_preview_context(&declared);
    let is = |name: &str, user: &str| is_declared(&cx, "cron", &of(name, user));
    assert!(is("mail", "alice") && is("alice:mail", "alice") && is("root:backup", "root") && is("backup", "root"));
    assert!(is("any", "alice") && is("any", "root"));
    assert!(!is("mail", "root") && !is("backup", "alice") && !is("alice:backup", "alice") && !is("x", "root"));
    assert_eq!(
        (title(&of("mail", "alice")), title(&of("root:backup", "root"))),
        ("alice:mail".into(), "root:backup".into())
    );
}

/// Returns true if a purge may remove a resource with these attributes.
fn goes(bench: &PurgeBench, type_name: &str, name: &str, attributes: &[(&str, &str)], limits: &SystemLimits) -> bool {
    let cx = Context::empty().with_preview_context(&bench.declared);
    let state = State::present(name, attributes.iter().copied().collect());
    bench.provider.may_go(&cx, &state, type_name, &Attributes::new(), limits).unwrap()
}

#[test]
fn keys_of_system_users_stay_and_root_is_never_locked_out() {
    let mut bench = PurgeBench::new(&[]);
    let may_go = |bench: &PurgeBench, user: &str| {
        let limits = SystemLimits {
            has_root_key: declares_root_key(&Context::empty().with_preview_context(&bench.declared)),
            ..SystemLimits::of(&bench.fake.system())
        };
        goes(bench, "ssh_authorized_key", "key", &[("user", user)], &limits)
    };
    let go = ["root", "postgres", "alice", "nobody", "gone"].map(|user| may_go(&bench, user));
    assert_eq!(go, [false, false, true, false, false]);
    let key = |ensure: &str| Attributes::from_iter([("user", "root"), ("ensure", ensure)]);
    bench.declared.0.push(("ssh_authorized_key", "old", key("absent")));
    assert!(!may_go(&bench, "root"));
    bench.declared.0.push(("ssh_authorized_key", "new", key("present")));
    assert!(may_go(&bench, "root"));
}

#[test]
fn keys_with_the_same_comment_are_removed_too() {
    let bench = PurgeBench::new(&[]);
    let home = bench.fake.root.path().join("home/alice");
    std::fs::create_dir_all(home.join(".ssh")).unwrap();
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHB5dGhvbiBpcyBmdW4gYW5kIHNvIGlzIHJ1c3QhISEh same\n";
    std::fs::write(home.join(".ssh/authorized_keys"), key.repeat(2)).unwrap();
    for path in ["", ".ssh", ".ssh/authorized_keys"] {
        std::os::unix::fs::chown(home.join(path), Some(1000), Some(1000)).unwrap();
    }
    bench.fake.write("passwd", &format!("alice:x:1000:1000::{}:/bin/sh\n", home.display()));
    assert_eq!(bench.strays("ssh_authorized_key", &[]), ["ssh_authorized_key[alice:same]"]);
    assert_eq!(bench.set("ssh_authorized_key", Mode::Apply), Outcome::done());
    assert_eq!(bench.strays("ssh_authorized_key", &[]), [""; 0]);
}

#[test]
fn only_undeclared_services_of_the_administrator_are_stopped() {
    let mut bench = PurgeBench::new(&[]);
    let directory = bench.fake.root.path().join("etc/systemd/system");
    std::fs::create_dir_all(directory.join("folder.service")).unwrap();
    std::fs::create_dir_all(bench.fake.root.path().join("proc/self")).unwrap();
    std::fs::write(bench.fake.root.path().join("proc/self/cgroup"), "0::/system.slice/own.service\n").unwrap();
    for name in ["app.service", "own.service", "kilter.service", "template@.service", "app.timer"] {
        std::fs::write(directory.join(name), "[Service]\n").unwrap();
    }
    std::fs::write(directory.join("timed.service"), "# systemd_timer[timed]: kilter writes this file").unwrap();
    for (alias, target) in
        [("alias.service", "app.service"), ("vendor.service", "/usr/lib/systemd/system/vendor.service")]
    {
        std::os::unix::fs::symlink(target, directory.join(alias)).unwrap();
    }
    let limits =
        SystemLimits { units: local_units::find(&bench.fake.system()), ..SystemLimits::of(&bench.fake.system()) };
    let is_local = |unit: &str| local_units::is_local(&bench.fake.system(), unit);
    assert!(is_local("app.service") && !is_local("app") && !is_local("app.timer") && !is_local("ssh.service"));
    assert_eq!(limits.units, [LocalUnit { name: "app".into(), aliases: vec!["alias".into()] }]);
    let (running, enabled) = ([("ensure", "running")], [("ensure", "stopped"), ("enable", "true")]);
    let stopped = [("ensure", "stopped"), ("enable", "static")];
    assert!(goes(&bench, "service", "app", &running, &limits) && goes(&bench, "service", "app", &enabled, &limits));
    assert!(!goes(&bench, "service", "app", &stopped, &limits) && !goes(&bench, "service", "ssh", &running, &limits));
    for declared in [("service", "app"), ("service", "alias"), ("service", "app.socket"), ("systemd_timer", "app")] {
        bench.declared.0 = vec![(declared.0, declared.1, Attributes::new())];
        assert!(!goes(&bench, "service", "app", &running, &limits), "{declared:?}");
    }
}

#[test]
fn packages_that_a_declared_resource_needs_stay() {
    let mut bench = PurgeBench::new(&[("vcsrepo", "/srv/x"), ("package", "nginx")]);
    bench.declared.0.push(("package", "apache2", Attributes::from_iter([("ensure", "absent")])));
    let cx = Context::empty().with_preview_context(&bench.declared);
    assert!(is_tool(&cx, "git") && !is_tool(&cx, "cron") && !is_tool(&cx, "gi"));
    assert!(is_kept_present(&cx, "package", "nginx") && !is_kept_present(&cx, "package", "apache2"));
}

#[test]
fn order_is_entries_then_users_then_groups() {
    let bench = PurgeBench::new(&[]);
    let first_of = |name: &str| {
        let mut names = Vec::new();
        bench.provider.auto_edges(name, &Attributes::new(), &mut |edge| names.push(edge.name.to_owned()));
        names
    };
    assert_eq!(
        (first_of("group"), first_of("user")),
        (vec!["user".to_owned()], vec!["cron".to_owned(), "ssh_authorized_key".to_owned()])
    );
    assert_eq!((first_of("cron"), first_of("host")), (vec![], vec![]));
}

#[test]
fn bad_values_are_refused() {
    let bench = PurgeBench::new(&[]);
    let problems = |name: &str, more: &[(&str, Value)]| bench.provider.validate(name, &should(more), &[]);
    assert!(problems("user", &[("unless_system_user", false.into())])[0].message.contains("never purges system users"));
    assert_eq!(problems("host", &[("unless_uid", 1.into()), ("unless_system_user", 5.into())]).len(), 2);
    assert_eq!(problems("host", &[("unless_system_user", true.into())]), []);
    let name = &bench.provider.schema().find("name").unwrap().data_type;
    assert!(name.check(&"user".into()).is_ok() && name.check(&"mount".into()).is_err());
}
