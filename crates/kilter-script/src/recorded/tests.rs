use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use kilter_model::{Value, base64};
use kilter_process::{
    Attempt, Attempts, Capture, Captured, Confined, Confinement, Event, Invocation, MissingFeature, Operation, Output,
    Status, Stream, Termination,
};

use super::call::RecordedExchange;
use super::masker::SecretMasker;
use super::shell::shell_quoted;

fn exchange() -> RecordedExchange {
    let finished = Output {
        ending: Termination::Deadline,
        stdout: Captured { bytes: b"# simple\n\xff\x1b[1m\n".to_vec(), dropped: 7 },
        stderr: Captured { bytes: b"err".to_vec(), dropped: 3 },
        channel: Captured { bytes: b"3:abc,".to_vec(), dropped: 0 },
        leaked: true,
        confined: Confined::Partly { gaps: vec![MissingFeature::Devices, MissingFeature::Calls] },
        attempts: Attempts {
            first: vec![
                Attempt { operation: Operation::Remove, path: Some("/etc/it".into()) },
                Attempt { operation: Operation::Write, path: Some(OsString::from_vec(b"/\xff".to_vec()).into()) },
                Attempt { operation: Operation::HostName, path: None },
            ],
            more: 3,
        },
        refusal_hint: Some("Permission denied".into()),
        ..Output::of(Status::Signal(15))
    };
    RecordedExchange {
        type_name: "package".into(),
        provider: "apt".into(),
        convention: "simple".into(),
        action: "update".into(),
        path: "/p/apt.prov".into(),
        argv: vec!["/p/apt.prov".into(), "name='it'\\''s'".into(), "ral_action=update".into()],
        env: vec![("PATH".into(), "/bin".into())],
        cwd: Some("/".into()),
        stdin: Some(b"{}".to_vec()),
        deadline: Some(Duration::from_secs(3)),
        confinement: Confinement::ReadOnly,
        duration: Duration::from_millis(12),
        stderr_head: b"an err".to_vec(),
        answer: Ok(finished),
    }
}

#[test]
fn exchange_json_round_trips() {
    let one = exchange();
    assert_eq!(RecordedExchange::from_json(&one.to_json()), Some(one.clone()));
    let other = RecordedExchange { answer: Err("no such file".into()), stdin: None, stderr_head: Vec::new(), ..one };
    assert_eq!(RecordedExchange::from_json(&other.to_json()), Some(other.clone()));
    let mut json = exchange().to_json();
    json["attempts"][0]["operation"] = "guess".into();
    assert_eq!(RecordedExchange::from_json(&json), None);
    let mut json = other.to_json();
    json["argv"] = serde_json::json!([]);
    assert_eq!(RecordedExchange::from_json(&json), None);
}

#[test]
fn exchange_is_displayed_escaped_and_bounded() {
    let shown = exchange().shown(10);
    assert!(shown.contains("update of package by `apt` (simple): its time was up, 12 ms\n"), "{shown}");
    assert!(shown.contains("\\xff") && !shown.contains('\x1b') && shown.contains("bytes more"), "{shown}");
    let line = exchange().command_line();
    assert_eq!(
        line,
        "cd / && printf %s '{}' | env -i PATH=/bin /p/apt.prov 'name='\\''it'\\''\\'\\'''\\''s'\\''' ral_action=update"
    );
}

#[test]
fn quoted_word_round_trips_through_shell() {
    let words: [&[u8]; 7] =
        [b"", b"a b", b"it's $(id) `x` \"y\" \\", b"a\nb\t\x01'", b"\xff\xfe", "ä\u{202e}".as_bytes(), b"~!*?#"];
    for word in words {
        let script = format!("printf %s {}", shell_quoted(word));
        let output = std::process::Command::new("bash").args(["-c", &script]).output().unwrap();
        assert_eq!(output.stdout, word, "{script}");
    }
}

#[test]
fn exchange_replays_unchanged() {
    let one = exchange();
    let mut heard = (Vec::new(), Vec::new(), Vec::new());
    let invocation = Invocation::new("x").captured(100).channel(Capture::First(0));
    let finished = one.play(&invocation, &mut |event| match event {
        Event::Chunk { stream: Stream::Stdout, bytes } => heard.0.extend_from_slice(bytes),
        Event::Chunk { stream: Stream::Stderr, bytes } => heard.1.extend_from_slice(bytes),
        Event::Chunk { stream: Stream::Channel, bytes } => heard.2.extend_from_slice(bytes),
        _ => {}
    });
    let finished = finished.unwrap();
    assert_eq!(finished.stdout, one.answer.as_ref().unwrap().stdout);
    assert_eq!(finished.channel, Captured { bytes: Vec::new(), dropped: 6 });
    assert_eq!(
        (heard.0, heard.1, heard.2),
        (b"# simple\n\xff\x1b[1m\n".to_vec(), b"an err".to_vec(), b"3:abc,".to_vec())
    );
}

#[test]
fn large_dropped_count_does_not_delay_replay() {
    let mut one = exchange();
    let finished = one.answer.as_mut().unwrap();
    (finished.stderr.dropped, finished.stdout.dropped, finished.channel.dropped) = (u64::MAX, u64::MAX, u64::MAX);
    let (mut seen, mut unseen) = (0, 0);
    let invocation = Invocation::new("x").channel(Capture::First(0));
    let finished = one.play(&invocation, &mut |event| match event {
        Event::Chunk { stream: Stream::Stderr, bytes } => seen += bytes.len(),
        Event::Unseen { stream: Stream::Stderr, bytes } => unseen += bytes,
        _ => {}
    });
    assert_eq!((seen, unseen), (6, u64::MAX - 6));
    assert_eq!(finished.unwrap().channel.dropped, u64::MAX);
    assert!(one.shown(10).contains(&format!("{} bytes more", u64::MAX)));
}

#[test]
fn secret_has_one_placeholder_in_every_encoding() {
    let mut masker = SecretMasker::default();
    masker.register_secrets("it's \"hunter2\" ü/\\");
    let secret = "it's \"hunter2\" ü/\\";
    let json = serde_json::Value::from(secret).to_string();
    let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    for text in [
        secret.to_owned(),
        secret.replace('\'', "'\\''"),
        json.clone(),
        json.replace('ü', "\\u00fc"),
        hex.to_uppercase(),
        hex,
        base64(secret.as_bytes()),
        base64(format!("{secret}\n").as_bytes()),
        base64(format!("x:{secret}").as_bytes()),
        base64(format!("{secret} and so on").as_bytes()),
    ] {
        let hidden = masker.mask(&format!("a {text} b"));
        assert!(hidden != format!("a {text} b"), "{text}");
        assert!(!hidden.contains("hunter2"), "{hidden}");
    }
    assert_eq!(masker.mask(&format!("password='{}'", secret.replace('\'', "'\\''"))), "password='secret-1'");
    assert_eq!(masker.mask(&format!("{{\"p\":{json}}}")), "{\"p\":\"secret-1\"}");
}

#[test]
fn parts_of_structured_secrets_are_replaced() {
    let mut masker = SecretMasker::default();
    masker.register_secrets("hunter2");
    masker.register_secrets("Bearer hunter2");
    assert_eq!(
        masker.mask("Bearer ${vars.token}; hunter2; Bearer hunter2"),
        "secret-2 ${vars.token}; secret-1; secret-2 secret-1"
    );
    let mut masker = SecretMasker::default();
    masker.register_secrets("first line\n  second line\n");
    assert_eq!(masker.mask("|\n    first line\n      second line\n"), "|\n    secret-1\n      secret-2\n");
    assert_eq!(masker.mask("\"first line\\n  second line\\n\""), "\"secret-1\\n  secret-2\\n\"");
    assert_eq!(masker.mask(&base64(b"first line\n  second line\n")), base64(b"secret-1\n  secret-2\n"));
}

#[test]
fn overlapping_secrets_are_replaced_completely() {
    let mut masker = SecretMasker::default();
    masker.register_secrets("abc123xyz");
    masker.register_secrets("xyz789secret");
    assert_eq!(masker.mask("1 abc123xyz789secret 2"), "1 secret-1 2");
}

#[test]
fn numbers_stay_numbers_and_short_secrets_are_counted() {
    let mut masker = SecretMasker::default();
    masker.learn_value(&Value::sensitive(Value::Integer(98765)));
    masker.register_secrets("abc");
    masker.register_secrets("true");
    assert_eq!(
        masker.mask_json(serde_json::json!({ "pin": 98765, "a": [98764, true] })),
        serde_json::json!({ "pin": 7_000_001, "a": [98764, true] })
    );
    assert_eq!((masker.count(), masker.too_short()), (1, 1));
    // A placeholder is not a secret.
    masker.register_secrets("7000001");
    assert_eq!(masker.count(), 1);
}

#[test]
fn secret_in_binary_data_is_replaced() {
    let mut masker = SecretMasker::default();
    masker.learn_value(&Value::sensitive(Value::Binary(b"\xff\xfesecret"[..].into())));
    let hidden = masker.mask_bytes(b"x \xff\xfesecret y");
    assert!(!hidden.windows(2).any(|pair| pair == b"\xff\xfe"), "{hidden:?}");
    assert!(!masker.mask(&base64(b"\xff\xfesecret")).contains(base64(b"\xff\xfesecret").trim_end_matches('=')));
}

#[test]
fn secret_is_replaced_plain_and_in_base64() {
    let mut masker = SecretMasker::default();
    let binary = |bytes: &[u8]| Value::sensitive(Value::Binary(bytes.into()));
    masker.learn_value(&binary(b" hunter2 "));
    masker.learn_value(&binary(b"ab\ncd\n"));
    masker.learn_value(&binary(b"first line\nsecond line\n"));
    for text in [&b"hunter2"[..], b"ab\ncd\n", b"first line\nsecond line\n", b"second line"] {
        for written in [text.to_vec(), base64(text).into_bytes(), [b"x ", text, b" y"].concat()] {
            let hidden = masker.mask_bytes(&written);
            assert!(!hidden.windows(text.len()).any(|part| part == text), "{}", text.escape_ascii());
            assert_ne!(hidden, written, "{}", written.escape_ascii());
        }
    }
    assert_ne!(masker.mask(&base64(b" hunter2 ")), base64(b" hunter2 "));
    assert_eq!((masker.mask("x"), masker.mask("hunter2")), ("x".to_owned(), "secret-1".to_owned()));
}

#[test]
fn sensitive_values_in_malformed_replies_are_replaced() {
    let hidden = |text: &str| {
        let mut masker = SecretMasker::default();
        masker.learn_written(text.as_bytes(), &["password"]);
        masker.mask(text)
    };
    assert_eq!(
        hidden("# simple\nname: x\npassword: hun ter2\nother: y\n"),
        "# simple\nname: x\npassword: secret-1\nother: y\n"
    );
    assert_eq!(hidden("password: new one\nral_was: old one\n"), "password: secret-1\nral_was: secret-2\n");
    assert_eq!(hidden("{\"password\": \"hun\\\"ter2\", \"x\": 1"), "{\"password\": \"secret-1\", \"x\": 1");
    assert_eq!(hidden("{\"password\":\"hunter2"), "{\"password\":\"secret-1");
    assert_eq!(hidden("{\"password\":12345,\"x\":1}"), "{\"password\":7000001,\"x\":1}");
    assert_eq!(
        hidden("{\"password\":[\"hunter2\",{\"a\":\"s3cret\"}],\"x\":\"open\"}"),
        "{\"password\":[\"secret-1\",{\"a\":\"secret-2\"}],\"x\":\"open\"}"
    );
    assert_eq!(hidden("set password='hunter2'\n"), "set password='secret-1'\n");
    assert_eq!(
        hidden("{\"changes\":[{\"name\":\"a\",\"attr\":\"password\",\"is\":\"hunter2\",\"was\":\"hunter1\"}]}"),
        "{\"changes\":[{\"name\":\"a\",\"attr\":\"password\",\"is\":\"secret-1\",\"was\":\"secret-2\"}]}"
    );
    assert_eq!(hidden("passwords: none; my_password: no"), "passwords: none; my_password: no");
    for cut in 0..40 {
        hidden(&"{\"password\":[\"hünter2\",{\"a\":\"s3cret\\\\"[..].chars().take(cut).collect::<String>());
    }
}

#[test]
fn secret_in_escaped_notation_has_same_placeholder() {
    let mut masker = SecretMasker::default();
    masker.register_secrets("0pen \"sesame\" ü");
    masker.register_secrets("0pen \\\"sesame\\\" \\u00fc");
    masker.register_secrets("secret-1");
    assert_eq!((masker.count(), masker.mask("\"0pen \\\"sesame\\\" ü\"")), (1, "\"secret-1\"".to_owned()));
}
