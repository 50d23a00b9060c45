//! Users and groups through the real shadow tools.
//!
//! The test starts itself again in a mount namespace of its own, in which a copy lies over `/etc`
//! and empty file systems over `/home` and `/var/mail`: the machine's accounts stay as they are.

use std::path::Path;
use std::process::Command;

use kilter_model::{Attributes, Change, Difference, State, Value};
use kilter_native::{GroupProvider, System, UserProvider};
use kilter_provider::{Context, Mode, Provider, Query, Wanted, canonicalize_one, check, get_checked, get_one};

const INSIDE: &str = "KILTER_INSIDE_NAMESPACE";

#[test]
fn users_and_groups_converge_through_the_shadow_tools() {
    if std::env::var_os(INSIDE).is_some() {
        return inside();
    }
    assert!(
        rustix::process::geteuid().is_root(),
        "this test changes accounts in a mount namespace and needs root: sudo -E cargo test -p kilter-native --test \
         shadow"
    );
    let before = std::fs::read("/etc/passwd").unwrap();
    let copy = tempfile::tempdir().unwrap();
    let script = "set -e; cp -a /etc/. \"$1\"; mount --bind \"$1\" /etc; \
                  mount -t tmpfs none /home; mount -t tmpfs none /var/mail; \
                  exec \"$2\" --exact users_and_groups_converge_through_the_shadow_tools --nocapture";
    let output = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "--", "sh", "-c", script, "sh"])
        .args([copy.path(), &std::env::current_exe().unwrap()])
        .env(INSIDE, "1")
        .output()
        .expect("unshare(1) of util-linux starts: apt install util-linux");
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "{}\n{}", said[0], said[1]);
    assert!(said[0].contains("1 passed"), "{}", said[0]);
    assert_eq!(std::fs::read("/etc/passwd").unwrap(), before, "the machine's own accounts stay as they are");
}

fn inside() {
    for tool in ["useradd", "usermod", "userdel", "groupadd", "groupmod", "groupdel", "gpasswd", "chpasswd", "chage"] {
        let path = kilter_process::DEFAULT_PATH.as_ref();
        assert!(kilter_process::which(tool.as_ref(), path).is_some(), "{tool} is missing: apt install passwd");
    }
    let users = UserProvider::new(System::real());
    let groups = GroupProvider::new(System::real());
    an_export_applied_changes_nothing(&users);
    an_export_applied_changes_nothing(&groups);
    groups_are_made_and_changed(&groups);
    users_are_made(&users);
    users_are_changed(&users);
    members_are_those_given(&groups);
    an_export_applied_changes_nothing(&users);
    an_export_applied_changes_nothing(&groups);
    accounts_are_removed(&users, &groups);
}

fn groups_are_made_and_changed(groups: &dyn Provider) {
    converge(groups, "kiltera", &[present(), ("gid", Value::Integer(54321))]);
    converge(groups, "kilterb", &[present(), ("system", true.into())]);
    converge(groups, "kiltera", &[("gid", Value::Integer(54322))]);
    assert!(refused(groups, "kiltera", &[("gid", Value::Integer(0))]).contains("groupmod failed"));
    converge(groups, "kilterb", &[("gid", Value::Integer(54322)), ("allowdupe", true.into())]);
    converge(groups, "kilterb", &[("gid", Value::Integer(54323))]);
}

fn users_are_made(users: &dyn Provider) {
    converge(users, "kilteru", &[present()]);
    converge(users, "kiltersys", &[present(), ("system", true.into())]);
    let uid = get(users, "kiltersys").attributes.get("uid").and_then(Value::as_integer);
    assert!(uid.is_some_and(|uid| uid < 1000), "{uid:?}");
    converge(
        users,
        "kilterv",
        &[
            present(),
            ("uid", Value::Integer(54400)),
            ("gid", "kiltera".into()),
            ("groups", Value::strings(["kilterb"])),
            ("home", "/home/made".into()),
            ("managehome", true.into()),
            ("shell", "/bin/sh".into()),
            ("comment", "Made by a test, really".into()),
            ("expiry", "2040-02-29".into()),
            ("password", Value::sensitive("$6$salt$made".into())),
            ("password_min_age", Value::Integer(1)),
            ("password_max_age", Value::Integer(80)),
            ("password_warn_days", Value::Integer(9)),
        ],
    );
    assert!(Path::new("/home/made").is_dir());
}

fn users_are_changed(users: &dyn Provider) {
    for attributes in [
        vec![("uid", Value::Integer(54401))],
        vec![("uid", Value::Integer(1)), ("allowdupe", true.into())],
        vec![("uid", Value::Integer(54402))],
        vec![("gid", "kilterb".into())],
        vec![("gid", Value::Integer(54322))],
        vec![("groups", Value::strings(["adm", "kilterb"]))],
        vec![("groups", Value::strings(["daemon"]))],
        vec![("groups", Value::strings(["daemon", "kilterb"])), ("membership", "inclusive".into())],
        vec![("groups", Value::array([])), ("membership", "inclusive".into())],
        vec![("home", "/home/moved".into()), ("managehome", true.into())],
        vec![("home", "/home/elsewhere/".into())],
        vec![("home", "/home/moved".into())],
        vec![("shell", "/usr/sbin/nologin".into())],
        vec![("comment", "".into())],
        vec![("comment", "-c: odd, but fine".replace(':', "").into())],
        vec![("expiry", "absent".into())],
        vec![("expiry", "2041-01-01".into())],
        vec![("password", Value::sensitive("!".into()))],
        vec![("password", Value::sensitive("*".into()))],
        vec![("password", Value::sensitive("$y$j9T$salt$changed".into()))],
        vec![("password_min_age", Value::Integer(0)), ("password_max_age", Value::Integer(-1))],
        vec![("password_warn_days", Value::Integer(0))],
        vec![("password_min_age", Value::Integer(-1)), ("password_warn_days", Value::Integer(-1))],
    ] {
        converge(users, "kilterv", &attributes);
    }
    assert!(Path::new("/home/moved").is_dir() && !Path::new("/home/made").exists());
    assert!(refused(users, "kilterv", &[("uid", Value::Integer(0))]).contains("usermod failed"));
}

fn members_are_those_given(groups: &dyn Provider) {
    let members = |names: &[&str]| ("members", Value::strings(names.iter().copied()));
    let at_least = ("auth_membership", Value::from(false));
    converge(groups, "kilterb", &[members(&["kilteru", "kilterv"])]);
    converge(groups, "kilterb", &[members(&["kilterv"])]);
    converge(groups, "kilterb", &[members(&["daemon"]), at_least]);
    assert_eq!(get(groups, "kilterb").attributes.get("members"), Some(&Value::strings(["daemon", "kilterv"])));
    converge(groups, "kilterc", &[present(), members(&["kilteru"])]);
    converge(groups, "kilterb", &[members(&[])]);
    assert!(refused(groups, "kilterb", &[members(&["nobody-here"])]).contains("no user `nobody-here`"));
}

fn accounts_are_removed(users: &dyn Provider, groups: &dyn Provider) {
    let absent = || ("ensure", Value::from("absent"));
    assert!(refused(groups, "kiltera", &[absent()]).contains("groupdel failed"));
    converge(users, "kilterv", &[absent(), ("managehome", true.into())]);
    assert!(!Path::new("/home/moved").exists());
    converge(users, "kilteru", &[absent(), ("managehome", true.into())]);
    converge(users, "kiltersys", &[absent()]);
    for group in ["kiltera", "kilterb", "kilterc"] {
        converge(groups, group, &[absent()]);
    }
}

fn an_export_applied_changes_nothing(provider: &dyn Provider) {
    for mut state in get_checked(provider, &Context::empty(), Query::All).expect("all can be read") {
        assert_eq!(provider.validate(&state.name, &state.attributes, &[]), []);
        canonicalize_one(provider, &Context::empty(), &mut state.name, &mut state.attributes).expect("it has a form");
        assert_eq!(differences(provider, &state.name, &state.attributes).1, [], "{}", state.name);
    }
}

fn present() -> (&'static str, Value) {
    ("ensure", "present".into())
}

fn get(provider: &dyn Provider, name: &str) -> State {
    get_one(provider, &Context::empty(), Wanted::new(&name.into(), None)).expect("it can be read")
}

fn differences(provider: &dyn Provider, name: &str, should: &Attributes) -> (State, Vec<Difference>) {
    let name = name.into();
    let wanted = [Wanted::new(&name, Some(should))];
    let found = check(provider, &Context::empty(), &wanted).remove(0).expect("it can be checked");
    (found.state, found.differences)
}

fn declared(provider: &dyn Provider, name: &str, attributes: &[(&str, Value)]) -> Attributes {
    let mut should: Attributes = attributes.iter().map(|(name, value)| (*name, value.clone())).collect();
    assert_eq!(provider.validate(name, &should, &[]), []);
    canonicalize_one(provider, &Context::empty(), &mut name.into(), &mut should).expect("it has a form");
    should
}

fn set(provider: &dyn Provider, name: &str, should: &Attributes) -> Option<String> {
    let (is, differences) = differences(provider, name, should);
    assert_ne!(differences, [], "{name} was to differ in {should:?}");
    let name = name.into();
    let change = Change::new(&name, &is, Some(should), &differences);
    provider.set(&Context::empty(), &[change], Mode::Apply).remove(0).failure.map(Into::into)
}

/// Something differs, is changed without a failure, and then is as it should be.
fn converge(provider: &dyn Provider, name: &str, attributes: &[(&str, Value)]) {
    let should = declared(provider, name, attributes);
    assert_eq!(set(provider, name, &should), None, "{name}: {should:?}");
    assert_eq!(differences(provider, name, &should).1, [], "{name}: {should:?}");
}

fn refused(provider: &dyn Provider, name: &str, attributes: &[(&str, Value)]) -> String {
    set(provider, name, &declared(provider, name, attributes)).expect("it is refused")
}
