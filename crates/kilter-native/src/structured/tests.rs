use kilter_model::{Attributes, Outcome, State};
use kilter_provider::{Context, Mode, Provider};

use super::*;

mod formats;
mod random;

type StructuredBench = crate::edit::tests::EditBench<Structured>;

const DAEMON: &str = "{\n  // by hand\n  \"log-driver\": \"json-file\", // slow\n  \"debug\": false\n}\n";

fn given(key: impl Into<Value>, value: impl Into<Value>) -> Vec<(&'static str, Value)> {
    vec![("format", "json".into()), ("key", key.into()), ("value", value.into())]
}

fn path(steps: &[&str]) -> Value {
    let step = |step: &&str| step.parse().map_or_else(|_| Value::from(*step), Value::Integer);
    Value::array(steps.iter().map(step))
}

#[test]
fn value_is_changed_and_the_rest_stays() {
    let bench = StructuredBench::new(DAEMON);
    assert_eq!(bench.converge(&given("log-driver", "journald")), DAEMON.replace("json-file", "journald"));
    bench.is_in_sync(&given("debug", false));
    let differences = bench.differences(&bench.should(&given("debug", true))).unwrap();
    assert_eq!((&differences[0].is, &differences[0].should), (&false.into(), &true.into()));
    let diff = differences[0].diff.as_ref().unwrap();
    assert!(diff.contains("-  \"debug\": false\n+  \"debug\": true\n"), "{diff}");
    assert!(!diff.contains("by hand"), "{diff}");
}

#[test]
fn new_file_needs_create() {
    let bench = StructuredBench::new("");
    std::fs::remove_file(&bench.path).unwrap();
    let declared = given(path(&["a", "b"]), 1);
    let refused = bench.differences(&bench.should(&declared)).unwrap_err();
    assert!(refused.contains("`create` is false"), "{refused}");
    let created = bench.converge(&[declared, vec![("create", true.into())]].concat());
    assert_eq!(created, "{\n  \"a\": {\n    \"b\": 1\n  }\n}\n");
}

#[test]
fn absent_value_is_removed() {
    let bench = StructuredBench::new(DAEMON);
    let absent = |key: &'static str| {
        vec![("format", "json".into()), ("key", Value::from(key)), ("ensure", Value::from("absent"))]
    };
    assert_eq!(bench.converge(&absent("debug")), "{\n  // by hand\n  \"log-driver\": \"json-file\" // slow\n}\n");
    bench.is_in_sync(&absent("debug"));
    bench.is_in_sync(&absent("none"));
}

#[test]
fn merged_mapping_keeps_other_keys() {
    let options = || Value::hash([("a", 1.into()), ("b", Value::hash([("c", 2.into())]))]);
    let merged = || [given("o", options()), vec![("merge", true.into())]].concat();
    let bench = StructuredBench::new("{\"o\": {\"b\": {\"x\": 9}, \"z\": null}}");
    assert_eq!(bench.converge(&merged()), "{\"o\": {\"b\": {\"x\": 9, \"c\": 2}, \"z\": null, \"a\": 1}}");
    assert_eq!(bench.converge(&given("o", options())), "{\"o\": {\"b\": {\"c\": 2}, \"a\": 1}}");
    bench.is_in_sync(&merged());
    let differences = bench.differences(&bench.should(&given("o", Value::hash([("b", 1.into())])))).unwrap();
    assert_eq!(differences[0].is, options());
}

#[test]
fn all_values_of_a_file_are_one_write() {
    let bench = StructuredBench::new("{}\n");
    let declared: Vec<Attributes> = (0..50).map(|n| bench.should(&given(format!("k{n}"), n))).collect();
    let all: Vec<&Attributes> = declared.iter().collect();
    assert_eq!(bench.set(&all), vec![Outcome::done(); 50]);
    declared.iter().for_each(|should| assert_eq!(bench.differences(should), Ok(Vec::new())));
    assert!(bench.content().starts_with("{\n  \"k0\": 0,\n  \"k1\": 1,\n"), "{}", bench.content());
    assert!(bench.content().ends_with("  \"k49\": 49\n}\n"), "{}", bench.content());
}

#[test]
fn failed_value_stops_no_other_value_of_the_file() {
    let bench = StructuredBench::new("{\"a\": 1}\n");
    let (bad, good) = (bench.should(&given(path(&["a", "b"]), 1)), bench.should(&given("c", 2)));
    let outcomes = bench.set(&[&bad, &good]);
    let why = outcomes[0].failure.as_deref().unwrap_or_default();
    assert!(why.contains("there is no key `b`, because `a` is a number"), "{why}");
    assert_eq!(outcomes[1], Outcome::done());
    assert_eq!(bench.content(), "{\"a\": 1, \"c\": 2}\n");
}

#[test]
fn file_that_is_not_the_format_is_not_changed() {
    for (format, text, why) in [
        ("json", "{\"a\": }", "not valid JSON at line 1, column 7: expected a value, found `}`"),
        ("json", "{\"a\": 1\n\"b\": 2}", "line 2, column 1: expected `,` or `}`, found `\"`"),
        ("json", "{a: 1}", "expected a key in double quotes"),
        ("json", "{} x", "expected the end of the file"),
        ("json", "{\"a\": 1", "found the end of the file"),
        ("json", "[01]", "expected a value"),
        ("json", "{\"a\": /* 1}", "expected a value, found the end of the file"),
        ("yaml", "a: [1\n", "not valid YAML at line"),
        ("yaml", "a: 1\n---\nb: 2\n", "several documents"),
        ("toml", "a = \n", "not valid TOML at line 1, column 5"),
        ("toml", "a = 1\na = 2\n", "not valid TOML at line 2"),
    ] {
        let bench = StructuredBench::new(text);
        let should = bench.should(&[("format", format.into()), ("key", "a".into()), ("value", 2.into())]);
        let refused = bench.differences(&should).unwrap_err();
        assert!(refused.contains(why), "{format}: {refused}");
        assert!(bench.set(&[&should])[0].failure.is_some());
        assert_eq!(bench.content(), text);
    }
    let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
    for format in ["json", "yaml", "toml"] {
        let text = if format == "toml" { format!("a = {deep}") } else { deep.clone() };
        let bench = StructuredBench::new(&text);
        let should = bench.should(&[("format", format.into()), ("key", "b".into()), ("value", 2.into())]);
        assert!(bench.differences(&should).is_err(), "{format}");
    }
    let bench = StructuredBench::new("");
    std::fs::write(&bench.path, b"{\"a\": \"\xff\"}").unwrap();
    assert!(bench.differences(&bench.should(&given("a", 1))).unwrap_err().contains("UTF-8"));
}

#[test]
fn aliases_of_many_nodes_are_refused() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for n in 1..12 {
        let before = n - 1;
        text += &format!("a{n}: &a{n} [{}]\n", vec![format!("*a{before}"); 10].join(", "));
    }
    let bench = StructuredBench::new(&text);
    let should = bench.should(&[("format", "yaml".into()), ("key", "b".into()), ("value", 2.into())]);
    let refused = bench.differences(&should).unwrap_err();
    assert!(refused.contains("with aliases followed"), "{refused}");
}

#[test]
fn secret_is_written_and_not_shown() {
    let bench = StructuredBench::new("{\"password\": \"old\"}\n");
    let secret = given("password", Value::sensitive("hunter2".into()));
    let differences = bench.differences(&bench.should(&secret)).unwrap();
    assert!(!format!("{differences:?}").contains("hunter2"), "{differences:?}");
    assert!(differences[0].diff.is_none());
    assert_eq!(bench.converge(&secret), "{\"password\": \"hunter2\"}\n");
    let nested = given("nested", Value::hash([("token", Value::sensitive("s3cret".into()))]));
    assert_eq!(bench.converge(&nested), "{\"password\": \"hunter2\", \"nested\": {\"token\": \"s3cret\"}}\n");
}

#[test]
fn invalid_declaration_is_refused() {
    let bench = StructuredBench::new("");
    let problems = |attributes: &[(&str, Value)]| -> Vec<String> {
        let problems = bench.provider.validate("x", &bench.should(attributes), &[]);
        problems.iter().map(ToString::to_string).collect()
    };
    let one = |attributes: &[(&str, Value)], why: &str| {
        let problems = problems(attributes);
        assert!(problems.len() == 1 && problems[0].contains(why), "{why}: {problems:?}");
    };
    one(&[("key", "a".into()), ("value", 1.into())], "does not tell its format");
    one(&[("format", "json".into()), ("key", "a".into())], "a key needs a value");
    one(&[("format", "json".into()), ("key", Value::array([])), ("value", 1.into())], "at least one key");
    one(&[("format", "json".into()), ("key", path(&["a", "-1"])), ("value", 1.into())], "counts from 0");
    one(&[given("a", 1), vec![("merge", true.into())]].concat(), "only a mapping can be merged, not a number");
    one(&given("a", f64::NAN), "JSON cannot express");
    let toml = [("format", "toml".into()), ("key", "a".into()), ("value", Value::array([Value::Undef]))];
    one(&toml, "TOML has no null");
    assert!(problems(&[given("a", 1), vec![("path", "/x/y.yaml".into())]].concat()).is_empty());
    assert!(problems(&[("path", "/x/y.yml".into()), ("key", "a".into()), ("value", 1.into())]).is_empty());
    let is_known = |path: &str| Format::of(None, path).is_some();
    assert!(is_known("/a/b.jsonc") && is_known("/a/b.toml") && !is_known("/a.json/b") && !is_known("/a/json"));
}

#[test]
fn deferred_values_are_checked_at_the_change() {
    let bench = StructuredBench::new("{}");
    let should = bench.should(&[("format", "json".into()), ("key", "a".into())]);
    assert!(bench.provider.validate("x", &should, &["value"]).is_empty());
    let is = State::absent("x");
    let name = "x".into();
    let toml = bench.should(&[("format", "toml".into()), ("key", "a".into()), ("value", Value::array([Value::Undef]))]);
    let change = kilter_model::Change::new(&name, &is, Some(&toml), &[]);
    std::fs::write(&bench.path, "").unwrap();
    let outcome = bench.provider.set(&Context::empty(), &[change], Mode::Apply).remove(0);
    assert!(outcome.failure.unwrap().contains("TOML has no null"));
}
