//! Scripts that do wrong while they describe themselves. mold has no such call: metadata lies beside a script.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kilter_script::{Limits, ScriptEnvironment, Scripts};

/// Scenario, and the expected message about the script.
const DESCRIBING: [(&str, &str); 15] = [
    ("hang", "describe: it did not reply in time and was ended (its limit is"),
    ("flood", "describe: it was ended because it exceeded the output limit: 1 MiB"),
    ("nothing", "describe: it printed nothing, where YAML that describes the provider is expected"),
    ("dies", "describe: it failed with exit code 3"),
    ("bad-utf8", "describe: line 1 of its output is not UTF-8 (byte 0xff)"),
    ("utf16", "describe: line 1 of its output holds a NUL byte"),
    ("deep", "its metadata is wrong: "),
    ("deep-blocks", "its metadata is wrong: "),
    ("aliases", "its metadata is wrong: "),
    ("loop", "its metadata is wrong: "),
    ("list", "metadata is a mapping, not a list"),
    ("tab", "its metadata is wrong: "),
    ("two-documents", "one document is expected: this is a second one"),
    ("reserved", "its metadata is wrong: "),
    ("escapes", "its metadata is wrong: "),
];

#[test]
fn misbehaving_describe_is_reported() {
    let limits = Limits { describe: Duration::from_secs(1), ..Limits::default() };
    let surroundings = Arc::new(ScriptEnvironment { limits, ..ScriptEnvironment::new() });
    for (scenario, expected) in DESCRIBING {
        let place = tempfile::tempdir().unwrap();
        let script = place.path().join("t.prov");
        let text = format!("#!/bin/sh\nexec '{}' simple describe {scenario} \"$@\"\n", env!("CARGO_BIN_EXE_misbehave"));
        std::fs::write(&script, text).unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        let begun = Instant::now();
        let found = Scripts::find(&[place.path().to_owned()], None, &surroundings);
        assert!(begun.elapsed() < Duration::from_secs(10), "{scenario}: {:?}", begun.elapsed());
        let notes: Vec<&str> = found.notes.iter().map(|note| note.message.as_str()).collect();
        assert!(found.providers.is_empty(), "{scenario}: {notes:?}");
        let why = notes.iter().find(|note| note.starts_with("not used: "));
        let why = why.unwrap_or_else(|| panic!("{scenario}: {notes:?}"));
        assert!(why.contains(expected), "{scenario}: {why}");
        assert!(!why.contains("in its metadata"), "{scenario} has none yet: {why}");
        assert!(why.chars().count() < 1500 && !why.contains(|c: char| c.is_control()), "{scenario}: {why:?}");
    }
}
