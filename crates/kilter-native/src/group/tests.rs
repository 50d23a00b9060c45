use kilter_provider::{canonicalize_one, check, get_checked};

use super::*;
use crate::accounts::fake::{Fake, OneUser};

fn bench() -> (Fake, GroupProvider) {
    let fake = Fake::new(
        "root:x:0:0:::\nalice:x:1000:1000:::\nbob:x:1001:1001:::\n",
        "root:x:0:\nops:x:50:bob,alice\nempty:x:51:\n",
        "",
    );
    let provider = GroupProvider::new(fake.system());
    (fake, provider)
}

fn apply(provider: &GroupProvider, name: &str, attributes: &[(&str, Value)]) -> Outcome {
    let mut should: Attributes = attributes.iter().map(|(name, value)| (*name, value.clone())).collect();
    should.push("ensure", "present");
    canonicalize_one(provider, &Context::empty(), &mut name.into(), &mut should).unwrap();
    let name = name.into();
    let found = check(provider, &Context::empty(), &[Wanted::new(&name, Some(&should))]).remove(0).unwrap();
    if found.differences.is_empty() {
        return Outcome::done();
    }
    let change = Change::new(&name, &found.state, Some(&should), &found.differences);
    provider.set(&Context::empty(), &[change], Mode::Apply).remove(0)
}

#[test]
fn an_export_applied_changes_nothing() {
    let (fake, provider) = bench();
    let states = get_checked(&provider, &Context::empty(), Query::All).unwrap();
    assert_eq!(states.len(), 3);
    assert_eq!(states[1].attributes.get("members"), Some(&Value::strings(["alice", "bob"])));
    for state in states {
        assert_eq!(provider.validate(&state.name, &state.attributes, &[]), []);
        let attributes: Vec<(&str, Value)> =
            state.attributes.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        assert_eq!(apply(&provider, &state.name, &attributes), Outcome::done());
    }
    assert_eq!(fake.argvs(), Vec::<String>::new());
}

#[test]
fn groups_are_created_changed_and_removed() {
    let (fake, provider) = bench();
    let gid = |gid| ("gid", Value::Integer(gid));
    apply(&provider, "new", &[gid(60), ("system", true.into()), ("members", Value::strings(["bob", "alice"]))]);
    assert_eq!(fake.argvs(), ["groupadd -r -g 60 -- new", "gpasswd -M alice,bob -- new"]);
    apply(&provider, "new", &[]);
    assert_eq!(fake.argvs(), ["groupadd -- new"]);
    apply(&provider, "ops", &[gid(61), ("allowdupe", true.into())]);
    assert_eq!(fake.argvs(), ["groupmod -g 61 -o -- ops"]);
    let is = State::present("ops", Attributes::new());
    let name = "ops".into();
    let change = Change::new(&name, &is, None, &[]);
    provider.set(&Context::empty(), &[change], Mode::Preview);
    assert_eq!(fake.argvs(), Vec::<String>::new());
    provider.set(&Context::empty(), &[change], Mode::Apply);
    assert_eq!(fake.argvs(), ["groupdel -- ops"]);
}

#[test]
fn members_follow_auth_membership() {
    let (fake, provider) = bench();
    let members = |names: &[&str]| ("members", Value::strings(names.iter().copied()));
    let at_least = ("auth_membership", Value::from(false));
    let change = |name: &str, attributes: &[(&str, Value)]| {
        assert_eq!(apply(&provider, name, attributes), Outcome::done());
        fake.argvs()
    };
    assert_eq!(change("ops", &[members(&["bob", "alice", "bob"])]), [""; 0]);
    assert_eq!(change("ops", &[members(&["alice"])]), ["gpasswd -M alice -- ops"]);
    assert_eq!(change("ops", &[members(&[])]), ["gpasswd -M  -- ops"]);
    assert_eq!(change("ops", &[members(&["alice"]), at_least.clone()]), [""; 0]);
    let missing = change("empty", &[members(&["bob", "alice"]), at_least]);
    assert_eq!(missing, ["gpasswd -a alice -- empty", "gpasswd -a bob -- empty"]);
}

#[test]
fn missing_member_fails_before_changes() {
    let (fake, provider) = bench();
    let outcome = apply(&provider, "new", &[("members", Value::strings(["alice", "zoe"]))]);
    let failure = outcome.failure.unwrap();
    assert_eq!(failure, "members: there is no user `zoe`");
    assert_eq!(fake.argvs(), Vec::<String>::new());
}

#[test]
fn sensitive_members_stay_sensitive() {
    let (_fake, provider) = bench();
    let mut should = Attributes::from_iter([("members", Value::array([Value::sensitive("alice".into())]))]);
    canonicalize_one(&provider, &Context::empty(), &mut "wheel".into(), &mut should).unwrap();
    assert_eq!(should.get("members"), Some(&Value::sensitive(Value::strings(["alice"]))));
}

#[test]
fn gid_of_minus_one_is_refused() {
    let (fake, provider) = bench();
    let outcome = apply(&provider, "new", &[("gid", Value::Integer(4_294_967_295))]);
    assert!(outcome.failure.unwrap().contains("`4294967295` is not an account number"));
    assert_eq!(fake.argvs(), Vec::<String>::new());
}

#[test]
fn group_is_found_by_number() {
    let mut names = Vec::new();
    let should = Attributes::from_iter([("gid", Value::Integer(60))]);
    bench().1.identities("new", &should, &mut |name| names.push(name.to_owned()));
    assert_eq!(names, ["60"]);
}

#[test]
fn removal_of_a_primary_group_is_predicted_to_fail_unless_its_user_leaves_it() {
    let (fake, provider) = bench();
    fake.write("group", "bob:x:1001:\nempty:x:51:\n");
    let preview = |name: &str, user: &[(&'static str, Value)]| {
        let catalog = OneUser { name: "bob", attributes: user.iter().cloned().collect() };
        let (name, is) = (name.into(), State::present(name, Attributes::new()));
        let cx = Context::empty().with_preview_context(&catalog);
        provider.set(&cx, &[Change::new(&name, &is, None, &[])], Mode::Preview).remove(0).failure
    };
    let refused =
        Some("it is the primary group of the user bob: declare `user[bob]` with another `gid`, or as absent".into());
    assert_eq!(preview("empty", &[]), None);
    for stays in [&[][..], &[("gid", Value::Integer(1001))], &[("gid", "bob".into())]] {
        assert_eq!(preview("bob", stays), refused, "{stays:?}");
    }
    for leaves in [[("gid", Value::from("users"))], [("ensure", "absent".into())]] {
        assert_eq!(preview("bob", &leaves), None, "{leaves:?}");
    }
}

#[test]
fn removed_group_runs_after_the_users_whose_primary_group_it_is() {
    let (fake, provider) = bench();
    fake.write("group", "staff:x:1001:alice\n");
    let mut users = Vec::new();
    let absent = Attributes::from_iter([("ensure", "absent")]);
    provider.auto_edges("staff", &absent, &mut |edge| users.push((edge.name.to_owned(), edge.direction)));
    assert_eq!(users, [("bob".to_owned(), kilter_provider::Direction::Before)]);
}
