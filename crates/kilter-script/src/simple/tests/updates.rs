use kilter_model::Attributes;
use kilter_provider::Mode;

use super::*;
use crate::convention::{ChangeReport, ErrorKind, Update};

fn updated(stdout: &str) -> Result<ChangeReport, ProtocolError> {
    let should = Attributes::new();
    let update = Update { name: "a", is: None, should: &should, received: &[] };
    match simple().decode(&Request::Update(&[update], Mode::Apply), &ended(0, stdout))? {
        Reply::Changed(report) => Ok(report),
        other => panic!("{other:?}"),
    }
}

/// Formats changes: `v: 1 -> 2`.
fn told(stdout: &str) -> String {
    let report = updated(stdout).unwrap();
    let changes: Vec<String> =
        report.changes.iter().map(|change| format!("{}: {} -> {}", change.attribute, change.was, change.is)).collect();
    format!("{}{}", changes.join(", "), if report.derive { " derive" } else { "" })
}

#[test]
fn changes_have_old_values() {
    assert_eq!(told("# simple\nname: a\nv: 2\nral_was: 1\nw: x\nral_was: y\n"), "v: 1 -> 2, w: y -> x");
}

#[test]
fn old_values_are_optional() {
    let report = updated("# simple\nname: a\nv: 2\n").unwrap();
    assert_eq!((report.changes[0].is.clone(), report.changes[0].was.clone()), (Value::from("2"), Value::Undef));
}

#[test]
fn derive_alone_is_the_simplest_answer() {
    assert_eq!(told("# simple\nral_derive: true\n"), " derive");
    assert_eq!(told("# simple\nral_derive true\n"), " derive");
    assert_eq!(told("# simple\nral_derive: True\n"), " derive");
    let why = updated("# simple\nral_derive: perhaps\n").unwrap_err().to_string();
    assert_eq!(why, "line 2 of its output is `ral_derive: perhaps`: `ral_derive` is true or false");
    assert_eq!(told("# simple\nral_derive: false\nv: 1\nral_was: 0\n"), "v: 0 -> 1");
}

#[test]
fn empty_update_reply_is_not_a_change() {
    assert_eq!(updated("# simple\n"), Ok(ChangeReport::default()));
    assert_eq!(updated("# simple\nname: a\n").unwrap().told, ["a"]);
}

#[test]
fn another_name_is_refused() {
    assert_eq!(
        updated("# simple\nname: b\nv: 1\n").unwrap_err().to_string(),
        "it returned `b` for the request for `a`"
    );
}

#[test]
fn old_value_without_attribute_is_refused() {
    let why = updated("# simple\nname: a\nral_was: 1\n").unwrap_err().to_string();
    assert_eq!(why, "line 3 of its output is `ral_was: 1`: `ral_was` comes after the attribute it is about");
}

#[test]
fn an_unknown_resource_is_an_error_and_no_change() {
    let report = updated("# simple\nral_derive: true\nname: a\nral_unknown: true\n").unwrap();
    assert_eq!(report.errors[0].1.kind, ErrorKind::Unknown);
    assert!(report.changes.is_empty());
    assert!(updated("# simple\nral_unknown: false\n").unwrap().errors.is_empty());
}

#[test]
fn repeated_change_counts_once() {
    assert_eq!(told("# simple\nname: a\nv: 2\nral_was: 1\nv: 3\nral_was: 1\n"), "v: 1 -> 3");
}

#[test]
fn empty_output_of_update_is_an_error() {
    assert_eq!(updated("").unwrap_err().to_string(), "it printed nothing, where `# simple` is expected");
}

#[test]
fn update_error_is_reported() {
    assert_eq!(updated("# simple\nral_derive: true\nral_error: no\nral_eom\n").unwrap_err().to_string(), "no");
}
