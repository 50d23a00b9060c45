//! The completion of `kilter`: types, resources and attributes.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use crate::support::Place;

const WORD: &str = r#"#!/bin/bash
eval "$@"
if [ "$ral_action" = describe ]; then
  cat <<'END'
provider:
  type: word
  desc: Words.
  invoke: simple
  suitable: true
  attributes:
    name: {desc: Its name.}
    ensure: {type: "enum[present, absent]"}
    value: {}
END
  exit
fi
echo '# simple'
[ "$ral_action" = list ] || exit 7
for name in apple apple:pie 'a b' 'x[1]' getty@tty1; do printf 'name: %s\nensure: present\n' "$name"; done
"#;

fn place() -> Place {
    let place = Place::new();
    std::fs::create_dir(place.path().join("providers")).unwrap();
    let path = place.file("providers/word.prov", WORD);
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    place
}

/// Returns the words for a line, of which the last one is at the cursor.
fn words(place: &Place, line: &[&str]) -> Vec<String> {
    let ended = place.run(&[&["complete", "--"], line].concat());
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{line:?}");
    ended.stdout.lines().map(str::to_owned).collect()
}

const NAMES: [&str; 5] = ["apple", "apple:pie", "a b", "x[1]", "getty@tty1"];

#[test]
fn words_depend_on_the_command_and_its_arguments() {
    let place = place();
    let words = |line: &[&str]| words(&place, &[&["-I", "."], line].concat());
    for command in ["get", "set", "act", "types", "init"] {
        assert!(words(&[command, ""]).contains(&"word".to_owned()), "{command}");
    }
    assert!(words(&["explain", "fi"]).contains(&"file[".to_owned()));
    assert_eq!(words(&["get", "word", "a"]), NAMES);
    assert_eq!(words(&["get", "--format", "json", "word", "apple", ""]), NAMES);
    assert_eq!(words(&["set", "word", ""]), NAMES);
    assert_eq!(words(&["act", "word[a\\ "]), NAMES.map(|name| format!("word[{name}]")));
    assert_eq!(words(&["explain", "word["]), NAMES.map(|name| format!("word[{name}]")));
    let attributes = ["ensure=present", "ensure=absent", "value="];
    assert_eq!(words(&["set", "word", "apple", ""]), attributes);
    assert_eq!(words(&["set", "word[apple]", "ensure=absent", "v"]), attributes);
}

#[test]
fn other_places_have_no_words() {
    let place = place();
    for line in [
        &["-I", ""][..],
        &["g"],
        &[""],
        &["get", "-"],
        &["get", "word", "--format", ""],
        &["apply", ""],
        &["act", "word[apple]", ""],
        &["types", "word", ""],
    ] {
        assert!(words(&place, line).is_empty(), "{line:?}");
    }
    let ended = place.run(&["complete"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, ""));
}

/// Returns bash's completions for the last of `words`, which bash has split at spaces, `=`, `:` and `@`.
fn offered(place: &Place, line: &str, words: &[&str]) -> Vec<String> {
    let script = "source ./completion.bash; COMP_LINE=$LINE; COMP_POINT=${#LINE}; COMP_WORDS=(\"$@\"); \
                  COMP_CWORD=$(($# - 1)); _kilter_words \"$1\" \"${@: -1}\" \"${@: -2:1}\"; \
                  ((${#COMPREPLY[@]})) && printf '%s\\n' \"${COMPREPLY[@]}\"";
    let output = Command::new("/bin/bash")
        .args(["--norc", "-c", script, "bash"])
        .args(words)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("LINE", line)
        .env("KILTER_CONFIG", "")
        .env("KILTER_STATE_DIR", place.path().join("state"))
        .current_dir(place.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn bash_offers_them_quoted_and_otherwise_commands_and_options() {
    let place = place();
    place.file("completion.bash", place.run(&["completions", "bash"]).stdout);
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_kilter"), place.path().join("kilter")).unwrap();
    let offers = |line: &str, words: &[&str]| offered(&place, line, words);
    let start = ["./kilter", "-I", ".", "get", "word"];
    let with = |words: &[&'static str]| [&start, words].concat();
    assert_eq!(
        offers("./kilter -I . get word ", &with(&[""])),
        ["apple", "apple:pie", "a\\ b", "x\\[1\\]", "getty@tty1"]
    );
    assert_eq!(offers("./kilter -I . get word a\\ ", &with(&["a\\ "])), ["a\\ b"]);
    assert_eq!(offers("./kilter -I . get word apple:", &with(&["apple", ":"])), ["pie"]);
    assert_eq!(offers("./kilter -I . get word getty@", &with(&["getty", "@"])), ["tty1"]);
    assert_eq!(offers("./kilter -I . act word[x", &["./kilter", "-I", ".", "act", "word[x"]), ["word\\[x\\[1\\]\\]"]);
    assert_eq!(offers("./kilter appl", &["./kilter", "appl"]), ["apply"]);
    assert_eq!(offers("./kilter get --form", &["./kilter", "get", "--form"]), ["--format"]);
}
