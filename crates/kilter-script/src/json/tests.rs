use kilter_model::{Attributes, Value};
use kilter_process::{Captured, Invocation, Output, Status};
use kilter_provider::Mode;

use super::Json;
use crate::convention::{ChangeReport, Convention, ErrorKind, ProtocolError, Record, Reply, Request, Update};

fn json() -> Json {
    Json::new(Invocation::new("/x.prov"))
}

fn ended(code: i32, stdout: &str) -> Output {
    Output { stdout: Captured { bytes: stdout.into(), dropped: 0 }, ..Output::of(Status::Code(code)) }
}

fn got(stdout: &str) -> Result<Vec<Record>, ProtocolError> {
    match json().decode(&Request::List, &ended(0, stdout))? {
        Reply::Resources(records) => Ok(records),
        other => panic!("{other:?}"),
    }
}

fn set(stdout: &str) -> Result<ChangeReport, ProtocolError> {
    match json().decode(&Request::Update(&[], Mode::Apply), &ended(0, stdout))? {
        Reply::Changed(report) => Ok(report),
        other => panic!("{other:?}"),
    }
}

fn asked(request: &Request<'_>) -> (String, String) {
    let invocation = json().encode(request).unwrap();
    let words: Vec<&str> = invocation.args.iter().map(|word| word.to_str().unwrap()).collect();
    (words.join(" "), String::from_utf8(invocation.stdin.unwrap_or_default()).unwrap())
}

#[test]
fn a_request_is_one_word_and_an_object() {
    let pair = |word: &str, input: &str| (word.to_owned(), input.to_owned());
    assert_eq!(asked(&Request::Describe), pair("ral_action=describe", ""));
    assert_eq!(asked(&Request::List), pair("ral_action=get", r#"{"names":[]}"#));
    assert_eq!(asked(&Request::Find(&["a", "it's \u{0}"])), pair("ral_action=get", r#"{"names":["a","it's \u0000"]}"#));
    let declared = [Attributes::new(), [("user", "bob")].into_iter().collect()];
    let input = r#"{"names":["a","b"],"should":{"b":{"user":"bob"}}}"#;
    assert_eq!(asked(&Request::FindAs(&["a", "b"], &declared)), pair("ral_action=get", input));
}

#[test]
fn set_request_has_found_state_and_changes() {
    let is: Attributes = [
        ("v", Value::from("1")),
        ("ensure", "present".into()),
        ("arr", Value::strings(["x", "y"])),
        ("none", Value::Undef),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into_iter()
    .collect();
    let should: Attributes = [("v", Value::from("2")), ("secret", Value::sensitive("s".into()))]
        .map(|(name, value)| (name.to_owned(), value))
        .into_iter()
        .collect();
    let updates = [Update { name: "a", is: Some(&is), should: &should, received: &[] }];
    let (word, input) = asked(&Request::Update(&updates, Mode::Apply));
    assert_eq!(word, "ral_action=set");
    assert_eq!(
        input,
        r#"{"ral":{"noop":false},"updates":[{"name":"a","is":{"arr":["x","y"],"ensure":"present","v":"1"},"should":{"secret":"s","v":"2"}}]}"#
    );
    assert!(asked(&Request::Update(&updates, Mode::Preview)).1.contains(r#""noop":true"#));
}

#[test]
fn missing_resource_is_absent() {
    let should: Attributes = [("ensure".to_owned(), Value::from("present"))].into_iter().collect();
    let (_, input) =
        asked(&Request::Update(&[Update { name: "a", is: None, should: &should, received: &[] }], Mode::Apply));
    assert!(input.contains(r#""is":{"ensure":"absent"}"#), "{input}");
    let none = Attributes::new();
    let (_, input) =
        asked(&Request::Update(&[Update { name: "a", is: None, should: &none, received: &[] }], Mode::Apply));
    assert!(input.contains(r#""is":{}"#), "{input}");
}

#[test]
fn resources_keep_the_types_of_json() {
    let records = got(r#"{"resources":[{"name":"a","ensure":"present","flag":true,"arr":["x","y"],"n":5,"f":1.5,"o":{"k":null},"z":null}]}"#).unwrap();
    let of = |name: &str| records[0].attributes.iter().find(|(key, _)| *key == name).unwrap().1.clone();
    assert_eq!(records[0].name, "a");
    assert_eq!(of("ensure"), Value::from("present"));
    assert_eq!(of("flag"), Value::Boolean(true));
    assert_eq!(of("arr"), Value::strings(["x", "y"]));
    assert_eq!(of("n"), Value::Integer(5));
    assert_eq!(of("f"), Value::Float(1.5));
    assert_eq!(of("o"), Value::hash([("k", Value::Undef)]));
    assert_eq!(of("z"), Value::Undef);
    assert_eq!(got(r#"{"resources":[]}"#), Ok(Vec::new()));
}

#[test]
fn entry_may_have_its_own_error() {
    let records = got(r#"{"resources":[{"name":"a","error":{"message":"no","kind":"unknown"}},{"name":"b","error":{"kind":"forbidden","message":"x"}}]}"#).unwrap();
    let errors: Vec<_> =
        records.iter().map(|record| record.error.clone().unwrap()).map(|error| (error.kind, error.message)).collect();
    assert_eq!(errors, [(ErrorKind::Unknown, "no".into()), (ErrorKind::Forbidden, "forbidden: x".into())]);
}

/// Every row of libral's table of error cases, with kilter's message.
#[test]
fn malformed_reply_is_reported_with_place() {
    let odd = |text: &str| format!("its output does not follow the convention json: {text}");
    for (reply, told) in [
        (r#"{"error":{"message":"denied","kind":"failed"}}"#, "denied".to_owned()),
        (r#"{"error":{"message":"denied","kind":"forbidden"},"resources":[]}"#, "forbidden: denied".to_owned()),
        (r#"{"error":{"message":"away","kind":"unreachable"}}"#, "away".to_owned()),
        (r#"{"error":{"kind":"failed"}}"#, "it failed without a reason".to_owned()),
        (r#"{"error":{"message":"no kind"}}"#, "no kind".to_owned()),
        (r#"{"error":{"message":["in parts","more stuff"],"kind":"failed"}}"#, "in parts\nmore stuff".to_owned()),
        (r#"{"error":{"message":"m","kind":"odd"}}"#, "m (of the unknown kind `odd`)".to_owned()),
        (r#"{"error":"text"}"#, odd("error: an object with `message` and `kind` is expected, not a text")),
        (r#"{"error":null}"#, odd("error: an object with `message` and `kind` is expected, not null")),
        (r#"{"error":{"message":5}}"#, odd("error.message: a text is expected, not a number")),
        (r#"{"resources":[{"ensure":"present"}]}"#, odd("resources[0]: `name` is missing")),
        (r#"{"resources":[{"name":5}]}"#, odd("resources[0].name: a text is expected, not a number")),
        (r#"{"resources":[{"name":""}]}"#, odd("resources[0].name: it is empty")),
        (r#"{"resources":["a"]}"#, odd("resources[0]: an object is expected, not a text")),
        (r#"{"resources":{"name":"a"}}"#, odd("resources: an array is expected, not an object")),
        (r#"{}"#, odd("the reply: `resources` is missing")),
        (r#"[]"#, odd("the reply: an object is expected, not an array")),
        (
            r#"{"resources":[{"name":"a","v":1},{"name":"a","v":2}]}"#,
            "it gave two different resources the name `a`".to_owned(),
        ),
        ("", "it printed nothing, where a JSON object is expected".to_owned()),
    ] {
        assert_eq!(got(reply).unwrap_err().to_string(), told, "{reply}");
    }
    assert!(got("no json").unwrap_err().to_string().starts_with("its output is not JSON: "));
    assert!(got(r#"{"resources":[]} trailing"#).unwrap_err().to_string().starts_with("its output is not JSON: "));
    assert!(got(&"[".repeat(100_000)).unwrap_err().to_string().contains("recursion limit"));
}

#[test]
fn failed_process_output_is_ignored() {
    for stdout in ["", r#"{"resources":[]}"#] {
        let finished = Output { stderr: Captured { bytes: b"on stderr".to_vec(), dropped: 0 }, ..ended(3, stdout) };
        assert_eq!(json().decode(&Request::List, &finished).unwrap_err().to_string(), "it failed with exit code 3");
    }
}

#[test]
fn changes_are_accepted_in_every_specified_form() {
    let report =
        set(r#"{"changes":[{"name":"a","v":{"is":"3","was":"1"},"error":{"is":"x","was":null}}],"derive":true}"#)
            .unwrap();
    assert!(report.derive && report.errors.is_empty());
    let changes: Vec<String> =
        report.changes.iter().map(|c| format!("{}.{}: {} -> {}", c.name, c.attribute, c.was, c.is)).collect();
    assert_eq!((changes[0].as_str(), changes.len(), &report.told[..]), ("a.v: 1 -> 3", 2, &["a".into()][..]));
    assert!(set(r#"{"derive":true}"#).unwrap().derive);
    for nothing in ["{}", r#"{"changes":[]}"#, r#"{"changes":[],"derive":false}"#] {
        assert_eq!(set(nothing), Ok(ChangeReport::default()), "{nothing}");
    }
}

#[test]
fn change_may_have_its_own_error() {
    let report =
        set(r#"{"changes":[{"name":"foobar","error":{"message":"could not be created","kind":"unknown"}}]}"#).unwrap();
    assert_eq!(report.errors[0].0, "foobar");
    assert_eq!(report.errors[0].1.kind, ErrorKind::Unknown);
}

#[test]
fn malformed_changes_are_refused_with_place() {
    let odd = |text: &str| format!("its output does not follow the convention json: {text}");
    for (reply, told) in [
        (r#"{"error":{"message":"no perms"}}"#, "no perms".to_owned()),
        (r#"{"changes":[{"name":"a","v":{"was":"1"}}]}"#, odd("changes[0].v: there is no `is`")),
        (r#"{"changes":[{"name":"a","v":{"is":"1"}}]}"#, odd("changes[0].v: there is no `was`")),
        (r#"{"changes":[{"v":{"is":"1","was":"2"}}]}"#, odd("changes[0]: `name` is missing")),
        (
            r#"{"changes":[{"name":"a","v":"1"}]}"#,
            odd("changes[0].v: an object with `is` and `was` is expected, not a text"),
        ),
        (r#"{"changes":{}}"#, odd("changes: an array is expected, not an object")),
        (r#"{"derive":"yes"}"#, odd("derive: true or false is expected, not a text")),
        (
            r#"{"changes":[{"name":"a","error":"x"}]}"#,
            odd("changes[0].error: an object with `message` and `kind` is expected, not a text"),
        ),
    ] {
        assert_eq!(set(reply).unwrap_err().to_string(), told, "{reply}");
    }
}
