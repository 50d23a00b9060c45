//! Events that a historian records.

use kilter_model::{Change, State, Value};
use kilter_provider::{Actions, Context, Mode, Provider, Query, ReadOne, Wanted};
use kilter_script::mold::{ChannelEvent, Frame, Historian, Message, RawLog, read_log};

use crate::harness::{MoldDir, MoldTestLog, act, attributes, conform, inspect};

#[test]
fn script_events_are_recorded_in_order() {
    let place = MoldDir::new();
    place.script("resources/job", "#!/bin/sh\nread document\necho '{\"a\": 1}'\necho careful >&2\n");
    inspect(&place.provider("job"), "x").unwrap();
    let mut heard: Vec<String> = place.heard.lines().iter().map(|line| place.plain(line)).collect();
    // Between two streams there is no order.
    heard[2..4].sort();
    assert_eq!(
        heard,
        [
            r#"resources/job#1 spawn {"path":"DIR/resources/job","args":["DIR/resources/job","inspect"]}"#,
            r#"resources/job#1 stdin {"line":"{\"kind\":\"job\",\"name\":\"x\"}\n"}"#,
            r#"resources/job#1 stderr {"line":"careful\n"}"#,
            r#"resources/job#1 stdout {"line":"{\"a\": 1}\n"}"#,
            "resources/job#1 exitcode 0",
        ]
    );
}

#[test]
fn script_messages_have_joined_names_and_damage_is_reported() {
    let place = MoldDir::new();
    place.script(
        "resources/job",
        "#!/bin/bash\nprintf '57:[\"jim\", \"stdout\", {\"line\": \"This is a line of stdout\\\\n\"}],' >&3\n\
         printf 'what?17:[null, \"step\", 1],20:[\"a.b\", \"x\", [null]],' >&3\nkill -9 $$\n",
    );
    let log = MoldTestLog::default();
    let failed = {
        let provider = place.provider("job");
        let cx = Context::empty().with_log(&log);
        provider.act(&cx, Wanted::new(&"x".into(), None), "go").failure.unwrap()
    };
    assert!(failed.contains("signal 9"), "{failed}");
    let heard = place.heard.lines();
    let heard: Vec<&str> = heard
        .iter()
        .map(String::as_str)
        .filter(|line| !line.contains(" spawn ") && !line.contains(" stdin "))
        .collect();
    assert_eq!(
        heard,
        [
            r#"resources/job#1.jim stdout {"line":"This is a line of stdout\n"}"#,
            r#"resources/job#1 damaged {"bytes":5,"line":"what?"}"#,
            r#"resources/job#1 step 1"#,
            r#"resources/job#1.a.b x [null]"#,
            r#"resources/job#1 exit {"code":null,"signal":9}"#,
        ]
    );
    let lines = log.0.lock().unwrap();
    assert!(
        lines.iter().any(|line| line.contains("5 bytes that belong to no message were skipped: `what?`")),
        "{lines:?}"
    );
}

#[test]
fn a_script_runs_the_same_with_descriptor_3_at_dev_null_closed_or_a_pipe() {
    let place = MoldDir::new();
    let body = "#!/bin/bash\nread document\n{ echo '17:[null, \"step\", 1],' >&3; } 2>/dev/null\necho \"got \
                $document\"\necho err >&2\nexit 0\n";
    let script = place.script("resources/job", body);
    let by_hand = |redirection: &str| {
        let command = format!("echo '{{\"kind\":\"job\",\"name\":\"x\"}}' | '{}' go {redirection}", script.display());
        let output = std::process::Command::new("bash").args(["-c", &command]).output().unwrap();
        (output.status.code(), output.stdout, output.stderr)
    };
    let expected = (Some(0), b"got {\"kind\":\"job\",\"name\":\"x\"}\n".to_vec(), b"err\n".to_vec());
    assert_eq!(by_hand("3>/dev/null"), expected);
    assert_eq!(by_hand("3>&-"), expected);
    let outcome = act(&place.provider("job"), "x", "go");
    assert_eq!(outcome.notes, ["got {\"kind\":\"job\",\"name\":\"x\"}"]);
    assert!(place.heard.lines().iter().any(|line| line == "resources/job#1 step 1"));
}

#[test]
fn secrets_reach_only_the_script() {
    let place = MoldDir::new();
    let body = "#!/bin/bash\ncat >\"$0.got\"\nsecret=$(cat \"$0.got\")\necho \"$secret\"\necho \"$secret\" >&2\n\
                echo '33:[null, \"step\", \"hunter2 hunter2\"],' >&3\necho hunter2 >&3\nexit 1\n";
    let script = place.script("resources/job", body);
    let secret = Value::sensitive("hunter2".into());
    let outcome = conform(&place.provider("job"), "x", &[("password", secret)]);
    let got = std::fs::read_to_string(format!("{}.got", script.display())).unwrap();
    assert!(got.contains("hunter2"), "{got}");
    let told = format!("{outcome:?} {:?}", place.heard.lines());
    assert!(!told.contains("hunter2"), "{told}");
    assert!(told.contains("[redacted]") && told.contains(" step ") && told.contains(" damaged "), "{told}");
}

/// Knows a secret, and tells it in all ways.
const TELLING: &str = "#!/bin/bash\ncat >/dev/null\nold='Old-Secret-\"1'\njson='Old-Secret-\\\"1'\necho \"read $old\" \
                       >&2\n\
    echo \"27:[null, \\\"$json\\\", 1],\" >&3\necho \"$old\" >&3\n";

#[test]
fn secrets_printed_by_script_are_redacted() {
    for (action, answer, code) in [
        ("inspect", r#"{\"exists\": true, \"password\": \"$json\"}"#, 0),
        ("inspect", r#"{\"password\": \"$json\", \"error\": \"cannot read $json\"}"#, 0),
        ("list", r#"[{\"name\": \"x\", \"password\": \"$json\", \"error\": \"cannot read $json\"}]"#, 0),
        ("conform", "replaced $old", 0),
        ("conform", r#"{\"error\": \"cannot replace $json\"}"#, 0),
        ("conform", r#"{\"changed\": {\"password\": {\"was\": \"$json\", \"is\": \"$json\"}}}"#, 0),
    ] {
        let place = MoldDir::new();
        place.script("resources/job", format!("{TELLING}echo \"{answer}\"\nexit {code}\n"));
        place.file("resources/job.yaml", "actions: [list]\nattributes:\n  password: {type: \"Sensitive[String]\"}\n");
        let (provider, log, name) = (place.provider("job"), MoldTestLog::default(), "x".into());
        let cx = Context::empty().with_log(&log);
        let old = attributes(&[("password", Value::sensitive("Old-Secret-\"1".into()))]);
        let (is, should) = (State::present("x", old), attributes(&[("password", Value::sensitive("other".into()))]));
        let said = match action {
            "inspect" => format!("{:?}", provider.get_one(&cx, Wanted::new(&name, None))),
            "list" => format!("{:?}", provider.get(&cx, Query::All)),
            _ => format!("{:?}", provider.set(&cx, &[Change::new(&name, &is, Some(&should), &[])], Mode::Apply)),
        };
        let lines = log.0.into_inner().unwrap();
        let told = format!("{said}\n{lines:?}\n{}", place.heard.lines().join("\n"));
        assert!(!told.contains("Old-Sec"), "{answer}: {told}");
        assert!(told.contains("[redacted]") && told.contains(" spawn ") && told.contains(" exitcode "), "{told}");
    }
}

#[test]
fn script_messages_are_dropped_if_secrets_are_unknown() {
    for (action, answer) in [
        ("inspect", "{\"password\": \"$json\", "),
        ("inspect", "checking...\n{\"password\": \"$json\"}"),
        ("conform", "{\"changed\": {\"password\": {\"was\": \"$json\", "),
        ("conform", "\u{feff}{\"changed\": {}}"),
    ] {
        let place = MoldDir::new();
        let leaving = "sleep 5 2>/dev/null 3>&- &\n";
        place.script("resources/job", format!("{TELLING}{leaving}cat <<END\n{answer}\nEND\n"));
        place.file("resources/job.yaml", "attributes:\n  password: {type: \"Sensitive[String]\"}\n");
        let (provider, log, name) = (place.provider("job"), MoldTestLog::default(), "x".into());
        let cx = Context::empty().with_log(&log);
        let said = match action {
            "inspect" => provider.get_one(&cx, Wanted::new(&name, None)).unwrap_err().to_string(),
            _ => provider.conform(&cx, &name, &attributes(&[])).failure.unwrap().to_string(),
        };
        let lines = log.0.into_inner().unwrap();
        let heard = place.heard.lines().join("\n");
        let told = format!("{said}\n{lines:?}\n{heard}");
        assert!(!told.contains("Old-Sec") && heard.contains(r#"stdout {"line":"[redacted]"}"#), "{answer}: {told}");
        assert!(said.contains("last on its standard error: [redacted]"), "{answer}: {said}");
        assert_eq!(lines[0], "info job[x] [redacted]");
        // What kilter says of itself is no secret.
        assert!(lines.iter().any(|line| line.contains("left a process")), "{lines:?}");
    }
}

#[test]
fn secrets_between_actors_are_redacted() {
    let place = MoldDir::new();
    place.script("resources/job", "#!/bin/sh\n");
    place.file("resources/job.yaml", "attributes:\n  password: {type: \"Sensitive[String]\"}\n");
    let document = r#"{\"kind\": \"job\", \"name\": \"x\", \"password\": \"hunter2\"}"#;
    place.script("actors/prescribe", format!("#!/bin/sh\necho it is hunter2 >&2\necho \"[{document}]\"\n"));
    place.script("actors/choreograph", "#!/bin/sh\ncat >&2\necho '[]'\n");
    let (mold, log) = (place.mold(), MoldTestLog::default());
    let cx = Context::empty().with_log(&log);
    let prescription = mold.prescribe(&cx, &Value::Undef).unwrap();
    assert_eq!(prescription[0].document["password"], "hunter2");
    mold.choreograph(&cx, &Value::Undef, &prescription, &[]).unwrap();
    let told = format!("{:?} {}", log.0.into_inner().unwrap(), place.heard.lines().join("\n"));
    assert!(!told.contains("hunter2") && told.contains("it is [redacted]"), "{told}");
}

/// All messages of a log, which is whole.
fn read_back(path: &std::path::Path) -> Vec<Message> {
    let mut messages = Vec::new();
    let mut keep = |frames| {
        messages.extend::<Vec<_>>(frames);
        std::ops::ControlFlow::Continue(())
    };
    read_log(std::fs::File::open(path).unwrap(), &mut keep).unwrap();
    let message = |frame| match frame {
        Frame::Message(message) => message,
        Frame::Damage(damage) => panic!("{damage} at {}", damage.at),
    };
    messages.into_iter().map(message).collect()
}

#[test]
fn several_may_append_to_a_log_and_each_message_stays_whole() {
    let place = MoldDir::new();
    let path = place.path().join("log");
    let write = |name: &str| {
        let log = RawLog::open(&path).unwrap();
        for number in 0..200 {
            log.record(&Message::part("stdout", "x".repeat(number * 50).as_bytes()).of_child(name));
        }
        assert!(log.failure().is_none());
    };
    std::thread::scope(|scope| {
        scope.spawn(|| write("a"));
        scope.spawn(|| write("b"));
        // One that knows nothing of JSON.
        let by_hand = "for i in $(seq 200); do printf '28:[\"c\", \"stdout\", {\"line\": 1}],'; done >>\"$0\"";
        std::process::Command::new("sh").args(["-c", by_hand]).arg(&path).status().unwrap();
    });
    let messages = read_back(&path);
    for name in ["a", "b", "c"] {
        let of = messages.iter().filter(|message| message.name.as_deref() == Some(name));
        assert_eq!(of.count(), 200, "{name}");
    }
}

#[test]
fn a_raw_log_is_appended_to_and_read_back() {
    use std::os::unix::fs::PermissionsExt;
    let place = MoldDir::new();
    let path = place.path().join("log");
    for text in ["one\n", "two"] {
        let log = RawLog::open(&path).unwrap();
        log.record(&Message::part("stdout", text.as_bytes()).of_child("a"));
        assert!(log.failure().is_none());
    }
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let mut said = Vec::new();
    read_back(&path).iter().for_each(|message| said.push(message.event()));
    let stream = |text: &str| ChannelEvent::Stream { descriptor: 1, bytes: text.into() };
    assert_eq!(said, [stream("one\n"), stream("two")]);
    assert!(RawLog::open(place.path()).is_err());
    let full = RawLog::open(std::path::Path::new("/dev/full")).unwrap();
    full.record(&Message::part("stdout", b"x"));
    assert!(full.failure().is_some() && full.failure().is_none(), "it is told once");
}
