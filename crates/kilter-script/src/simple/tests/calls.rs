use kilter_model::Attributes;
use kilter_provider::Mode;

use super::*;
use crate::convention::Update;

fn words(request: &Request<'_>) -> Vec<String> {
    let invocation = simple().encode(request).unwrap();
    assert_eq!(invocation.program, "/x.prov");
    invocation.args.iter().map(|word| word.to_str().unwrap().to_owned()).collect()
}

fn should(pairs: &[(&str, Value)]) -> Attributes {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

fn update(should: &Attributes, mode: Mode) -> Vec<String> {
    words(&Request::Update(&[Update { name: "a", is: None, should, received: &[] }], mode))
}

#[test]
fn action_has_its_arguments_and_comes_last() {
    assert_eq!(words(&Request::Describe), ["ral_action=describe"]);
    assert_eq!(words(&Request::List), ["ral_action=list"]);
    assert_eq!(words(&Request::Find(&["a"])), ["name='a'", "ral_action=find"]);
}

#[test]
fn update_passes_attributes_in_alphabetical_order() {
    let should =
        should(&[("w", "2".into()), ("ensure", "present".into()), ("name", "z".into()), ("b", Value::Boolean(true))]);
    assert_eq!(
        update(&should, Mode::Apply),
        ["name='a'", "b='true'", "ensure='present'", "w='2'", "ral_action=update"]
    );
}

#[test]
fn preview_messages_are_marked() {
    assert_eq!(
        update(&should(&[("v", "1".into())]), Mode::Preview),
        ["name='a'", "v='1'", "ral_noop='true'", "ral_action=update"]
    );
}

#[test]
fn quotes_are_closed_escaped_and_opened_again() {
    assert_eq!(words(&Request::Find(&["it's"]))[0], r"name='it'\''s'");
    assert_eq!(words(&Request::Find(&["''"]))[0], r"name=''\'''\'''");
    assert_eq!(words(&Request::Find(&["x'; touch PWNED; echo '"]))[0], r"name='x'\''; touch PWNED; echo '\'''");
    assert_eq!(words(&Request::Find(&["$(id) `id` \"\n\\"]))[0], "name='$(id) `id` \"\n\\'");
    assert_eq!(words(&Request::Find(&[""]))[0], "name=''");
}

#[test]
fn values_of_every_type_have_a_word() {
    let should = should(&[
        ("a_list", Value::strings(["x", "y z"])),
        ("b_empty", Value::array([])),
        ("c_odd", Value::strings(["x,y", "it's"])),
        ("d_number", Value::Integer(-7)),
        ("e_hash", Value::hash([("k", Value::Boolean(true))])),
        ("f_secret", Value::sensitive("hunter2".into())),
        ("g_none", Value::Undef),
    ]);
    assert_eq!(
        update(&should, Mode::Apply)[1..7],
        [
            "a_list='[x, y z]'",
            "b_empty='[]'",
            r#"c_odd='["x,y","it'\''s"]'"#,
            "d_number='-7'",
            r#"e_hash='{"k":true}'"#,
            "f_secret='hunter2'",
        ]
    );
}

#[test]
fn a_nul_and_a_word_that_is_too_long_are_refused() {
    let refused = |value: Value| {
        let should = should(&[("v", value)]);
        let request = Request::Update(&[Update { name: "a", is: None, should: &should, received: &[] }], Mode::Apply);
        simple().encode(&request).unwrap_err().to_string()
    };
    assert_eq!(refused("x\0y".into()), "the value of `v` holds a NUL byte, which the convention simple cannot carry");
    assert_eq!(
        refused("x".repeat(200_000).into()),
        "the value of `v` takes 200004 bytes on the command line; the system permits 131071"
    );
    assert!(simple().encode(&Request::Find(&["a\0"])).is_err());
    let longest = "x".repeat(131_071 - 7);
    assert!(simple().encode(&Request::Find(&[&longest])).is_ok());
}

#[test]
fn one_call_is_about_one_resource() {
    let why = simple().encode(&Request::Find(&["a", "b"])).unwrap_err().to_string();
    assert_eq!(why, "the convention simple handles one resource at a time, not 2");
}

#[test]
fn describe_returns_printed_text() {
    let describe = |code, text: &str| simple().decode(&Request::Describe, &ended(code, text));
    assert_eq!(describe(0, "---\nprovider: {}\n"), Ok(Reply::Described("---\nprovider: {}\n".into())));
    assert_eq!(describe(3, "provider: {}").unwrap_err().to_string(), "it failed with exit code 3");
    assert_eq!(
        describe(0, " \n").unwrap_err().to_string(),
        "it printed nothing, where YAML that describes the provider is expected"
    );
}
