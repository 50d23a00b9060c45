//! Tests of stored outputs, and of the encryption of secrets among them.

use std::os::unix::fs::PermissionsExt;

use kilter_model::base64;

use std::fs;

use super::*;

/// Creates a state directory that only its owner can use.
fn state_dir() -> tempfile::TempDir {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    tempfile::Builder::new().permissions(mode).tempdir().unwrap()
}

fn reference() -> ResourceRef {
    ResourceRef::new("exec", "token")
}

fn attributes(entries: &[(&str, Value)]) -> Attributes {
    entries.iter().cloned().collect()
}

fn secret() -> Value {
    Value::sensitive("hunter2".into())
}

/// Returns all files of the state directory, with their content.
fn files(state: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut open = vec![state.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { open.push(path) } else { found.push((path.clone(), fs::read(&path).unwrap())) }
        }
    }
    found
}

#[track_caller]
fn holds_no_secret(state: &Path) {
    let forms = ["hunter2".to_owned(), base64(b"hunter2"), "68756e74657232".to_owned()];
    for (path, bytes) in files(state) {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert!(!forms.iter().any(|form| text.contains(form.trim_end_matches('='))), "{}: {text}", path.display());
    }
}

/// Returns the record of the only resource.
fn record(state: &Path) -> PathBuf {
    Outputs::new(state).path(&reference())
}

/// Returns the JSON of a record, as text.
fn text(path: &Path) -> String {
    json_of(&fs::read(path).unwrap()).unwrap().to_string()
}

/// Writes a record with a valid checksum, as an attacker could do.
fn forge(path: &Path, text: &str) {
    fs::write(path, line(&serde_json::from_str(text).unwrap())).unwrap();
}

#[test]
fn outputs_are_read_back_unchanged() {
    let state = state_dir();
    let reference = reference();
    let sent = attributes(&[
        ("stdout", Value::Binary(b"\xff\x00".as_slice().into())),
        ("at", Value::Timestamp("2026-01-31".parse().unwrap())),
        ("stderr", secret()),
        ("lines", Value::array([secret(), "two".into(), Value::Float(1.0)])),
    ]);
    for should in [attributes(&[("command", "x".into())]), attributes(&[("command", Value::array([secret()]))])] {
        let declared =
            OutputDeclaration { reference: &reference, attributes: &should, confidential: false, apart: &[] };
        Outputs::new(state.path()).keep(&declared, &sent).unwrap();
        holds_no_secret(state.path());
        assert!(fs::read_to_string(record(state.path())).unwrap().contains("2026-01-31"), "no secret, readable");
        // A later run reads the key.
        let later = Outputs::new(state.path());
        assert_eq!(later.kept(&declared, false).unwrap().as_ref(), Some(&sent));
        let other = attributes(&[("command", "y".into())]);
        let other = OutputDeclaration { attributes: &other, ..declared };
        assert_eq!(later.kept(&other, false).unwrap(), None, "something else was declared then");
    }
}

#[test]
fn no_key_is_created_without_secrets() {
    let state = state_dir();
    let (reference, should) = (reference(), attributes(&[("command", "x".into())]));
    let declared = OutputDeclaration { reference: &reference, attributes: &should, confidential: false, apart: &[] };
    let sent = attributes(&[("stdout", "open".into())]);
    Outputs::new(state.path()).keep(&declared, &sent).unwrap();
    assert_eq!(Outputs::new(state.path()).kept(&declared, true).unwrap(), Some(sent));
    assert!(!SealingKey::path(state.path()).exists());
}

#[test]
fn stored_outputs_do_not_reveal_equal_secrets() {
    let state = state_dir();
    let reference = reference();
    let sent = attributes(&[("exit_code", Value::Integer(0))]);
    let secret = |pin: &str| attributes(&[("pin", Value::sensitive(pin.into()))]);
    let text = |should: &Attributes| {
        let declared = OutputDeclaration { reference: &reference, attributes: should, confidential: false, apart: &[] };
        Outputs::new(state.path()).keep(&declared, &sent).unwrap();
        fs::read_to_string(record(state.path())).unwrap()
    };
    let (one, again, other) = (text(&secret("1234")), text(&secret("1234")), text(&secret("12345678")));
    assert_ne!(one, again, "not even whether it is the same");
    assert_eq!(one.len(), other.len());
    let kept = |should: &Attributes| {
        let declared = OutputDeclaration { reference: &reference, attributes: should, confidential: false, apart: &[] };
        Outputs::new(state.path()).kept(&declared, false)
    };
    assert_eq!(kept(&secret("12345678")).unwrap().as_ref(), Some(&sent));
    let error = kept(&secret("1234")).unwrap_err();
    assert!(matches!(error, KeptError::Sealed { .. }), "{error}");
}

#[test]
fn output_is_encrypted_if_a_receiver_declares_it_sensitive() {
    let state = state_dir();
    let (reference, should) = (reference(), attributes(&[("command", "x".into())]));
    let open = OutputDeclaration { reference: &reference, attributes: &should, confidential: false, apart: &[] };
    let confidential = OutputDeclaration { confidential: true, ..open };
    let sent = attributes(&[("stdout", "hunter2".into())]);
    let outputs = Outputs::new(state.path());
    outputs.keep(&open, &sent).unwrap();
    let before = files(state.path());
    assert_eq!(outputs.kept(&confidential, false).unwrap().as_ref(), Some(&sent));
    assert_eq!(files(state.path()), before, "who only looks writes nothing");
    assert_eq!(outputs.kept(&confidential, true).unwrap().as_ref(), Some(&sent));
    holds_no_secret(state.path());
    assert_eq!(outputs.kept(&open, true).unwrap(), Some(sent), "it is sent all the same");
}

#[test]
fn clear_text_output_of_earlier_version_is_encrypted_on_read() {
    let state = state_dir();
    let (reference, should) = (reference(), attributes(&[("command", Value::array([secret()]))]));
    let declared = OutputDeclaration { reference: &reference, attributes: &should, confidential: false, apart: &[] };
    let sent = attributes(&[("stdout", secret())]);
    let clear = json!({
        "resource": "exec[token]",
        "declared": declared.checksum(),
        "sent": { "stdout": to_canonical_json_clear(&secret()) },
    });
    fs::create_dir(state.path().join("outputs")).unwrap();
    fs::write(record(state.path()), clear.to_string()).unwrap();
    assert_eq!(Outputs::new(state.path()).kept(&declared, true).unwrap().as_ref(), Some(&sent));
    holds_no_secret(state.path());
    let text = fs::read_to_string(record(state.path())).unwrap();
    assert!(!text.contains(&declared.checksum()), "secrets could be tried out against it: {text}");
    assert_eq!(Outputs::new(state.path()).kept(&declared, true).unwrap(), Some(sent));
    // Without a usable key, the clear text is not accepted.
    fs::write(record(state.path()), clear.to_string()).unwrap();
    fs::set_permissions(SealingKey::path(state.path()), fs::Permissions::from_mode(0o644)).unwrap();
    let error = Outputs::new(state.path()).kept(&declared, true).unwrap_err();
    assert!(matches!(error, KeptError::Clear { .. }), "{error}");
}

#[test]
fn encrypted_output_is_bound_to_its_resource_and_name() {
    let state = state_dir();
    let should = attributes(&[("command", "x".into())]);
    let (one, other) = (reference(), ResourceRef::new("exec", "other"));
    let declared = |reference| OutputDeclaration { reference, attributes: &should, confidential: false, apart: &[] };
    let outputs = Outputs::new(state.path());
    outputs.keep(&declared(&one), &attributes(&[("stdout", secret()), ("stderr", "e".into())])).unwrap();
    let text = text(&outputs.path(&one));
    forge(&outputs.path(&other), &text);
    assert_eq!(outputs.kept(&declared(&other), true).unwrap(), None, "it says whose it is");
    forge(&outputs.path(&other), &text.replace("exec[token]", "exec[other]"));
    let error = outputs.kept(&declared(&other), true).unwrap_err();
    assert!(matches!(error, KeptError::Sealed { .. }), "{error}");
    forge(&outputs.path(&one), &text.replace("stdout", "stdxxx"));
    let error = outputs.kept(&declared(&one), true).unwrap_err();
    assert!(matches!(error, KeptError::Sealed { .. }), "{error}");
}

#[test]
fn truncated_or_changed_record_is_damaged() {
    let state = state_dir();
    let (reference, should) = (reference(), attributes(&[("command", Value::array([secret()]))]));
    let declared = OutputDeclaration { reference: &reference, attributes: &should, confidential: false, apart: &[] };
    let outputs = Outputs::new(state.path());
    outputs.keep(&declared, &attributes(&[("stdout", secret()), ("exit_code", Value::Integer(0))])).unwrap();
    let whole = fs::read(record(state.path())).unwrap();
    for at in 0..whole.len() {
        fs::write(record(state.path()), &whole[..at]).unwrap();
        assert!(matches!(outputs.kept(&declared, true), Err(KeptError::Damaged { .. })), "cut at {at}");
        for bit in 0..8 {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << bit;
            fs::write(record(state.path()), &flipped).unwrap();
            let found = outputs.kept(&declared, true);
            // Hexadecimal digits in capitals have the same value.
            let is_same = at < 8 && flipped[at].eq_ignore_ascii_case(&whole[at]);
            assert!(is_same || matches!(found, Err(KeptError::Damaged { .. })), "bit {bit} of byte {at}: {found:?}");
        }
    }
}
