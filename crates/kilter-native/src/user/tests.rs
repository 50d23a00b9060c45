use kilter_model::Difference;
use kilter_provider::{canonicalize_one, check, get_checked};

use super::*;
use crate::accounts::fake::{Fake, OneUser};

const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\nalice:x:1000:1000:Alice:/home/alice:/bin/sh\n\
                      old:$6$old:1001:1000::/:\n";
const GROUP: &str = "root:x:0:\nalice:x:1000:\nwheel:x:10:root,alice\nadm:x:4:alice\nbob:x:1002:\n";
const SHADOW: &str = "root:*:19000:0:99999:7:::\nalice:$6$salt$hash:19000:1:90:14::20000:\n";

fn bench() -> (Fake, UserProvider) {
    let fake = Fake::new(PASSWD, GROUP, SHADOW);
    let provider = UserProvider::new(fake.system());
    (fake, provider)
}

fn should(provider: &UserProvider, attributes: &[(&str, Value)]) -> Attributes {
    let mut should: Attributes = attributes.iter().map(|(name, value)| (*name, value.clone())).collect();
    for (name, value) in should.iter() {
        let data_type = &provider.schema().find(name.as_str()).unwrap().data_type;
        assert_eq!(data_type.check(value).map_err(|mismatch| format!("{name} {mismatch}")), Ok(()));
    }
    canonicalize_one(provider, &Context::empty(), &mut "x".into(), &mut should).unwrap();
    should
}

fn differences(provider: &UserProvider, name: &str, should: &Attributes) -> Vec<Difference> {
    let name = name.into();
    check(provider, &Context::empty(), &[Wanted::new(&name, Some(should))]).remove(0).unwrap().differences
}

/// Checks a user and changes the differences.
fn apply(provider: &UserProvider, name: &str, attributes: &[(&str, Value)]) -> Outcome {
    let (name, should) = (name.into(), should(provider, attributes));
    let wanted = Wanted::new(&name, Some(&should));
    let found = check(provider, &Context::empty(), &[wanted]).remove(0).unwrap();
    let change = Change::new(&name, &found.state, Some(&should), &found.differences);
    provider.set(&Context::empty(), &[change], Mode::Apply).remove(0)
}

/// Returns the effects of a change on paths other than the account files.
fn predicted(provider: &UserProvider, name: &str, attributes: &[(&str, Value)]) -> Vec<String> {
    let (name, should) = (name.into(), should(provider, attributes));
    let found = check(provider, &Context::empty(), &[Wanted::new(&name, Some(&should))]).remove(0).unwrap();
    let change = Change::new(&name, &found.state, Some(&should), &found.differences);
    let root = provider.accounts.root().to_str().unwrap();
    let effects = provider.effects(&Context::empty(), &change).unwrap();
    let shown = effects.iter().filter_map(|effect| match effect {
        Effect::Path { path, node } => Some(format!("{}: {node:?}", path.strip_prefix(root)?)),
        _ => None,
    });
    shown.filter(|path| !path.starts_with("/etc/")).collect()
}

#[test]
fn effects_of_user_without_own_home_remove_nothing() {
    let (fake, provider) = bench();
    let absent = [("ensure", Value::from("absent")), ("managehome", true.into())];
    assert_eq!(predicted(&provider, "old", &absent), Vec::<String>::new(), "its home is the root");
    assert_eq!(predicted(&provider, "alice", &absent), Vec::<String>::new(), "its home is missing");
    std::fs::create_dir_all(fake.root.path().join("home/alice")).unwrap();
    assert_eq!(predicted(&provider, "alice", &absent), ["/home/alice: Absent"]);
    for home in ["/", "//"] {
        let new = [("home", home.into()), ("managehome", true.into())];
        assert_eq!(predicted(&provider, "carol", &new), Vec::<String>::new(), "{home}");
        assert_eq!(predicted(&provider, "alice", &new), Vec::<String>::new(), "{home}");
    }
}

#[test]
fn home_of_new_user_follows_the_defaults_of_useradd() {
    let (fake, provider) = bench();
    let new = [("managehome", Value::from(true))];
    assert_eq!(predicted(&provider, "carol", &new), ["/home/carol: Directory"]);
    let write = |path: &str, text: &str| {
        let path = fake.root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("etc/default/useradd", "# HOME=/old\nHOME=/srv/users/\nSKEL=/etc/skel.own\n");
    write("etc/skel.own/profile", "");
    let expected = ["/srv/users/carol: Directory", "/srv/users/carol/profile: Unknown"];
    assert_eq!(predicted(&provider, "carol", &new), expected);
    let declared = [("home", Value::from("/opt/carol")), ("managehome", true.into())];
    assert_eq!(predicted(&provider, "carol", &declared)[0], "/opt/carol: Directory");
    let (name, should) = ("carol", should(&provider, &new));
    let mut written = Vec::new();
    let root = provider.accounts.root().to_str().unwrap();
    provider.footprint(name, &should, &mut |one| {
        if let Footprint::Writes { path, .. } = one {
            written.push(path.strip_prefix(root).unwrap().to_owned());
        }
    });
    assert!(written.contains(&"/srv/users/carol".to_owned()), "{written:?}");
}

#[test]
fn listed_users_have_settable_attributes() {
    let (_fake, provider) = bench();
    let states = get_checked(&provider, &Context::empty(), Query::All).unwrap();
    let alice = &states[1].attributes;
    let shown: Vec<String> = alice.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let expected = [
        "ensure=present",
        "name=alice",
        "uid=1000",
        "gid=1000",
        "groups=[adm, wheel]",
        "home=/home/alice",
        "shell=/bin/sh",
        "comment=Alice",
        "password=[redacted]",
        "expiry=2024-10-04",
        "password_min_age=1",
        "password_max_age=90",
        "password_warn_days=14",
    ];
    assert_eq!(shown, expected);
    assert_eq!(states[2].attributes.text("password"), Some("$6$old"));
    assert_eq!(states[2].attributes.get("expiry"), None);
}

#[test]
fn an_export_applied_changes_nothing() {
    let (fake, provider) = bench();
    for mut state in get_checked(&provider, &Context::empty(), Query::All).unwrap() {
        assert_eq!(provider.validate(&state.name, &state.attributes, &[]), []);
        canonicalize_one(&provider, &Context::empty(), &mut state.name, &mut state.attributes).unwrap();
        assert_eq!(differences(&provider, &state.name, &state.attributes), []);
    }
    assert_eq!(fake.argvs(), Vec::<String>::new());
}

#[test]
fn user_is_created_with_declared_attributes() {
    let (fake, provider) = bench();
    let outcome = apply(
        &provider,
        "carol",
        &[
            ("ensure", "present".into()),
            ("uid", Value::Integer(1500)),
            ("gid", "wheel".into()),
            ("groups", Value::strings(["adm", "alice"])),
            ("home", "/srv/carol".into()),
            ("managehome", true.into()),
            ("shell", "/bin/bash".into()),
            ("comment", "Carol C.".into()),
            ("expiry", "2030-12-31".into()),
            ("password", "$6$salt$secret".into()),
            ("password_max_age", Value::Integer(90)),
            ("allowdupe", true.into()),
        ],
    );
    assert_eq!(outcome, Outcome::done());
    let argvs = fake.argvs();
    let expected = [
        "useradd -m -g wheel -G adm,alice -u 1500 -o -d /srv/carol -s /bin/bash -c Carol C. -e 2030-12-31 -- carol",
        "chpasswd -e",
        "chage -M 90 -- carol",
    ];
    assert_eq!(argvs, expected);
}

#[test]
fn password_hash_is_passed_through_pipe() {
    let (fake, provider) = bench();
    let password = [("password", Value::from("$6$salt$secret"))];
    apply(&provider, "alice", &password);
    assert_eq!(fake.inputs(), ["alice:$6$salt$secret\n"]);
    apply(&provider, "alice", &password);
    assert_eq!(fake.argvs(), ["chpasswd -e"]);
}

#[test]
fn a_new_user_takes_the_group_of_its_name_if_there_is_one() {
    let (fake, provider) = bench();
    apply(&provider, "bob", &[("ensure", "present".into()), ("system", true.into())]);
    apply(&provider, "dave", &[("ensure", "present".into())]);
    assert_eq!(fake.argvs(), ["useradd -M -r -g bob -- bob", "useradd -M -- dave"]);
}

#[test]
fn the_expiry_of_a_system_account_is_set_after_it_is_made() {
    let (fake, provider) = bench();
    let attributes = [("ensure", "present".into()), ("system", true.into()), ("expiry", "2040-02-29".into())];
    apply(&provider, "dave", &attributes);
    assert_eq!(fake.argvs(), ["useradd -M -r -- dave", "usermod -e 2040-02-29 -- dave"]);
}

#[test]
fn sensitive_values_stay_sensitive() {
    let (_fake, provider) = bench();
    let secret = |text: &str| Value::sensitive(text.into());
    let sealed = should(&provider, &[("gid", secret("1000")), ("groups", Value::array([secret("wheel")]))]);
    assert_eq!(sealed.get("gid"), Some(&Value::sensitive(Value::Integer(1000))));
    assert_eq!(sealed.get("groups"), Some(&Value::sensitive(Value::strings(["wheel"]))));
    let wrong = Attributes::from_iter([("home", secret("not/absolute")), ("gid", secret("a name"))]);
    let told: Vec<String> = provider.validate("alice", &wrong, &[]).iter().map(ToString::to_string).collect();
    assert!(told.len() == 2 && told.iter().all(|told| !told.contains("a name")), "{told:?}");
    assert_eq!(differences(&provider, "alice", &should(&provider, &[("gid", secret("alice"))])), []);
}

#[test]
fn only_what_differs_is_changed() {
    let (fake, provider) = bench();
    let present = ("ensure", Value::from("present"));
    let change = |attributes: &[(&str, Value)]| {
        let outcome = apply(&provider, "alice", &[std::slice::from_ref(&present), attributes].concat());
        assert_eq!(outcome, Outcome::done());
        fake.argvs()
    };
    assert_eq!(change(&[("shell", "/bin/zsh".into()), ("comment", "Alice".into())]), ["usermod -s /bin/zsh -- alice"]);
    assert_eq!(change(&[("home", "/srv/a".into()), ("managehome", true.into())]), ["usermod -m -d /srv/a -- alice"]);
    assert_eq!(change(&[("home", "/srv/a".into())]), ["usermod -d /srv/a -- alice"]);
    assert_eq!(change(&[("expiry", "absent".into())]), ["usermod -e  -- alice"]);
    assert_eq!(change(&[("gid", "wheel".into())]), ["usermod -g wheel -- alice"]);
    assert_eq!(change(&[("groups", Value::strings(["bob"]))]), ["usermod -a -G bob -- alice"]);
    let inclusive = ("membership", "inclusive".into());
    assert_eq!(change(&[("groups", Value::strings(["adm"])), inclusive.clone()]), ["usermod -G adm -- alice"]);
    assert_eq!(change(&[("groups", Value::array([])), inclusive]), ["usermod -G  -- alice"]);
    assert_eq!(change(&[("password_min_age", Value::Integer(-1))]), ["chage -m -1 -- alice"]);
}

#[test]
fn difference_shows_groups_that_stay() {
    let (_fake, provider) = bench();
    let message = |groups: Value, more: &[(&str, Value)]| {
        let should = should(&provider, &[&[("groups", groups)], more].concat());
        differences(&provider, "alice", &should).remove(0).message.map(String::from)
    };
    let groups = || Value::strings(["bob"]);
    assert_eq!(message(groups(), &[]).as_deref(), Some("[adm, wheel] → [adm, bob, wheel]"));
    assert_eq!(message(groups(), &[("membership", "inclusive".into())]), None);
    assert_eq!(message(Value::sensitive(groups()), &[]), None);
}

#[test]
fn equivalent_values_are_in_sync() {
    let (_fake, provider) = bench();
    for attributes in [
        vec![("gid", Value::from("alice"))],
        vec![("gid", "1000".into())],
        vec![("home", "/home/alice/".into())],
        vec![("groups", Value::strings(["wheel", "adm", "wheel"])), ("membership", "inclusive".into())],
        vec![("groups", Value::strings(["wheel"]))],
        // The primary group may be listed too.
        vec![("groups", Value::strings(["alice", "adm", "wheel"])), ("membership", "inclusive".into())],
        vec![("password", "$6$salt$hash".into()), ("expiry", "2024-10-04".into())],
    ] {
        let should = should(&provider, &attributes);
        assert_eq!(differences(&provider, "alice", &should), [], "{attributes:?}");
    }
    for attributes in [
        vec![("gid", Value::from("no-such-group"))],
        vec![("groups", Value::strings(["wheel"])), ("membership", "inclusive".into())],
    ] {
        let should = should(&provider, &attributes);
        assert_eq!(differences(&provider, "alice", &should).len(), 1, "{attributes:?}");
    }
}

#[test]
fn a_home_is_only_removed_if_it_is_there_and_managed() {
    let (fake, provider) = bench();
    let absent = [("ensure", Value::from("absent")), ("managehome", true.into())];
    apply(&provider, "alice", &absent);
    std::fs::create_dir_all(fake.root.path().join("home/alice")).unwrap();
    apply(&provider, "alice", &absent);
    apply(&provider, "alice", &absent[..1]);
    assert_eq!(fake.argvs(), ["userdel -- alice", "userdel -r -- alice", "userdel -- alice"]);
}

#[test]
fn failing_tool_is_reported_with_its_output() {
    let (fake, provider) = bench();
    *fake.log.answer.lock().unwrap() = (9, "useradd: no room\n".to_owned());
    let outcome = apply(&provider, "carol", &[("ensure", "present".into()), ("password", "*".into())]);
    assert_eq!(outcome.failure.as_deref(), Some("useradd failed with exit code 9: useradd: no room"));
    assert_eq!(fake.argvs().len(), 1);
}

#[test]
fn the_files_are_read_again_when_they_have_changed() {
    let (fake, provider) = bench();
    let wanted = should(&provider, &[("shell", "/bin/zsh".into())]);
    assert_eq!(differences(&provider, "alice", &wanted).len(), 1);
    fake.write("passwd", &PASSWD.replace("/bin/sh", "/bin/zsh"));
    assert_eq!(differences(&provider, "alice", &wanted), []);
}

#[test]
fn name_service_is_queried_only_if_configured() {
    let (fake, provider) = bench();
    let get = |name: &str| {
        let name = name.into();
        provider.get_one(&Context::empty(), Wanted::new(&name, None)).unwrap()
    };
    assert!(!get("ldap").exists);
    assert_eq!(fake.argvs(), Vec::<String>::new());
    fake.write("nsswitch.conf", "passwd: files sss\n");
    *fake.log.answer.lock().unwrap() = (0, "ldap:*:5000:5000:From afar:/home/ldap:/bin/sh\n".to_owned());
    assert_eq!(get("ldap").attributes.get("uid"), Some(&Value::Integer(5000)));
    assert_eq!(get("alice").attributes.get("uid"), Some(&Value::Integer(1000)));
    // getent truncates the number to that of root.
    assert!(!get("4294967296").exists);
    assert_eq!(fake.argvs(), ["getent passwd ldap"]);
}

#[test]
fn invalid_user_is_refused() {
    let (_fake, provider) = bench();
    for (name, attribute, value) in [
        ("-r", "comment", Value::from("x")),
        ("a", "comment", "a:b".into()),
        ("a", "home", "relative".into()),
        ("a", "shell", "bash".into()),
        ("a", "groups", Value::strings(["a,b"])),
        ("a", "gid", "a b".into()),
        ("a", "gid", "4294967295".into()),
        ("a", "gid", "4294967296".into()),
        ("a", "password", "hunter2".into()),
        ("a", "expiry", "2023-02-30".into()),
    ] {
        let problems = provider.validate(name, &should(&provider, &[(attribute, value)]), &[]);
        assert_eq!(problems.len(), 1, "{name} {attribute} {problems:?}");
        assert!(!problems[0].to_string().contains("hunter2"));
    }
}

#[test]
fn user_runs_after_its_groups_and_is_removed_before_them() {
    let (_fake, provider) = bench();
    let edges = |attributes: &[(&str, Value)]| {
        let mut edges = Vec::new();
        let should = should(&provider, attributes);
        provider.auto_edges("alice", &should, &mut |edge| edges.push(format!("{} {:?}", edge.name, edge.direction)));
        edges
    };
    assert_eq!(edges(&[("gid", Value::Integer(10)), ("groups", Value::strings(["adm"]))]), ["10 Before", "adm Before"]);
    assert_eq!(edges(&[("ensure", "absent".into())]), ["alice After"]);
}

#[test]
fn number_of_another_user_is_predicted_to_fail_unless_that_user_leaves_it() {
    let (_fake, provider) = bench();
    let preview = |attributes: &[(&str, Value)], old: &[(&'static str, Value)]| {
        let catalog = OneUser { name: "old", attributes: old.iter().cloned().collect() };
        let cx = Context::empty().with_preview_context(&catalog);
        let (name, is, should) = ("new".into(), State::absent("new"), should(&provider, attributes));
        provider.set(&cx, &[Change::new(&name, &is, Some(&should), &[])], Mode::Preview).remove(0).failure
    };
    let uid = ("uid", Value::Integer(1001));
    let refused = Some("uid: the user old has the number 1001: declare another one, or `allowdupe: true`".into());
    assert_eq!(preview(std::slice::from_ref(&uid), &[]), refused);
    assert_eq!(preview(std::slice::from_ref(&uid), &[("comment", "x".into())]), refused);
    assert_eq!(preview(&[uid.clone(), ("allowdupe", true.into())], &[]), None);
    assert_eq!(preview(&[("uid", Value::Integer(1002))], &[]), None);
    for leaves in [("ensure", Value::from("absent")), ("uid", Value::Integer(1003))] {
        assert_eq!(preview(std::slice::from_ref(&uid), &[leaves]), None);
    }
}
