use kilter_model::Value;

use super::*;

struct Debian;

impl ConditionFacts for Debian {
    fn fact(&self, name: &str) -> Option<Value> {
        let release = Value::hash([("major", "12".into()), ("full", "12.5".into())]);
        match name {
            "os" => Some(Value::hash([("family", "debian".into()), ("name", "debian".into()), ("release", release)])),
            "cores" => Some(Value::Integer(2)),
            "is_virtual" => Some(Value::Boolean(false)),
            _ => None,
        }
    }

    fn has_command(&self, name: &str) -> bool {
        matches!(name, "dpkg" | "apt-get" | "/bin/sh")
    }
}

fn verdict(text: &str) -> ConditionResult {
    Clause::parse(text).unwrap_or_else(|(message, _)| panic!("{text}: {message}")).evaluate(&Debian)
}

fn why(text: &str) -> String {
    match verdict(text) {
        ConditionResult::Holds => panic!("{text} holds"),
        ConditionResult::Fails(why) => why.into(),
    }
}

#[test]
fn specification_clauses_are_parsed() {
    for holds in [
        "command(dpkg)",
        "command( apt-get )",
        "command('/bin/sh')",
        "osfamily == 'debian'",
        "osfamily = 'Debian'",
        "osfamily != 'redhat'",
        "os.family = debian",
        "osfamily = 'debian' and operatingsystemmajrelease = '12'",
        "osfamily = 'redhat' and operatingsystem = 'fedora' or osfamily = \"debian\"",
        "not command(dnf)",
        "not (osfamily = 'redhat' or osfamily = 'suse')",
        "command(dpkg) and not command(dnf)",
        "cores == 2",
        "cores",
        "true",
    ] {
        assert_eq!(verdict(holds), ConditionResult::Holds, "{holds}");
    }
}

#[test]
fn false_clause_has_a_reason() {
    assert_eq!(why("command(dnf)"), "there is no command dnf");
    assert_eq!(why("command(not dpkg)"), "there is the command dpkg");
    assert_eq!(why("osfamily == 'redhat'"), "the fact osfamily is debian, not redhat");
    assert_eq!(why("osfamily != 'debian'"), "the fact osfamily is debian");
    assert_eq!(why("nosuch = 'x'"), "there is no fact nosuch");
    assert_eq!(why("is_virtual"), "the fact is_virtual is false");
    assert_eq!(
        why("osfamily = 'redhat' or command(dnf)"),
        "the fact osfamily is debian, not redhat; there is no command dnf"
    );
    assert_eq!(why("osfamily = 'debian' and command(dnf)"), "there is no command dnf");
}

#[test]
fn kilter_expressions_are_accepted_as_clauses() {
    assert_eq!(verdict("facts.os.family == \"debian\" && facts.cores >= 2"), ConditionResult::Holds);
    assert_eq!(why("facts.os.family == \"redhat\""), "`facts.os.family == \"redhat\"` does not hold");
    assert_eq!(why("facts.os.family + \"x\""), "`facts.os.family + \"x\"` is debianx, not true or false");
    assert!(why("facts.nosuch == 1").contains("nosuch"));
}

#[test]
fn invalid_clause_is_refused_with_reason() {
    let wrong = |text: &str| Clause::parse(text).expect_err(text).0.to_string();
    assert_eq!(wrong("command(dpkg"), "`command(` is not closed");
    assert_eq!(wrong("command()"), "command(NAME) takes the name of one command");
    assert_eq!(wrong("osfamily = 'debian"), "a text in quotes does not end");
    assert_eq!(wrong("osfamily = "), "a text is expected after the comparison");
    assert_eq!(wrong("a = 'x' and"), "it ends where a fact or command(NAME) is expected");
    assert_eq!(wrong("bla bla bla"), "unexpected `bla bla`");
    assert_eq!(wrong("(a = 'x'"), "a `(` is not closed");
    assert_eq!(wrong("vars.a == 1 && facts.b"), "only facts may be used here");
    assert!(wrong(&"(".repeat(10_000)).contains("nested"));
}

#[test]
fn suitable_needs_every_clause_and_default_one_of_them() {
    let clauses = || ["command(dpkg)", "command(dnf)"].map(|text| Clause::parse(text).unwrap()).to_vec();
    assert_eq!(Condition::Every(clauses()).evaluate(&Debian), ConditionResult::Fails("there is no command dnf".into()));
    assert!(Condition::Any(clauses()).evaluate(&Debian).holds());
    assert!(Condition::Every(Vec::new()).evaluate(&Debian).holds());
    assert!(!Condition::Any(Vec::new()).evaluate(&Debian).holds());
    assert!(!Condition::Constant(false).evaluate(&Debian).holds());
}
