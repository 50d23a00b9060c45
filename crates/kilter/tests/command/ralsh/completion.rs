//! The completion of ralsh, in bash.

use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use super::{SETTING, calls, ralsh, script, settings};
use crate::support::Place;

/// A place with the link, the completion, and two settings.
fn place() -> Place {
    let place = settings();
    symlink(env!("CARGO_BIN_EXE_kilter"), place.path().join("ralsh")).unwrap();
    let completion = place.run(&["completions", "bash", "--for", "ralsh"]);
    assert_eq!((completion.code, completion.stderr.as_str()), (0, ""));
    place.file("completion.bash", completion.stdout);
    for name in ["apple", "apple:pie", "a b"] {
        assert_eq!(ralsh(&place, &["-qI.", "setting", name, "ensure=present"]).code, 0);
    }
    calls(&place);
    std::fs::remove_file(place.path().join("calls")).unwrap();
    place
}

/// Returns bash's completions for the last of `words`, which bash has split at spaces, `=` and `:`.
fn offered(place: &Place, line: &str, words: &[&str]) -> Vec<String> {
    let script = "source ./completion.bash; complete -p ralsh >&2; COMP_LINE=$LINE; COMP_POINT=${#LINE}; \
                  COMP_WORDS=(\"$@\"); \
                  COMP_CWORD=$(($# - 1)); _ralsh; ((${#COMPREPLY[@]})) && printf '%s\\n' \"${COMPREPLY[@]}\"";
    let output = Command::new("/bin/bash")
        .args(["--norc", "-c", script, "bash"])
        .args(words)
        .env_clear()
        .env("PATH", format!("{}:/usr/bin:/bin", place.path().display()))
        .env("LINE", line)
        .env("HOME", place.path().join("home"))
        .env("KILTER_STATE_DIR", place.path().join("state"))
        .current_dir(place.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(told, "complete -F _ralsh ralsh\n", "nothing else is printed on the line of the user");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn types_names_attributes_values_and_options_are_offered() {
    let place = place();
    let offers = |line: &str, words: &[&str]| offered(&place, line, words);
    assert_eq!(offers("ralsh -I. set", &["ralsh", "-I.", "set"]), ["setting", "setting::setting"]);
    assert_eq!(offers("ralsh -I . setting::s", &["ralsh", "-I", ".", "setting", "::", "s"]), ["setting"]);
    assert_eq!(offers("ralsh -I. setting ", &["ralsh", "-I.", "setting", ""]), ["a\\ b", "apple", "apple:pie"]);
    assert_eq!(
        offers("ralsh -I. setting::setting apple:", &["ralsh", "-I.", "setting", "::", "setting", "apple", ":"]),
        ["pie"]
    );
    assert_eq!(offers("ralsh -I. setting a\\ ", &["ralsh", "-I.", "setting", "a\\ "]), ["a\\ b"]);
    assert_eq!(
        offers("ralsh -I. setting apple ", &["ralsh", "-I.", "setting", "apple", ""]),
        ["ensure=present", "ensure=absent", "value=", "loud=true", "loud=false", "tags="]
    );
    assert_eq!(
        offers("ralsh -I. setting apple ensure=", &["ralsh", "-I.", "setting", "apple", "ensure", "="]),
        ["present", "absent"]
    );
    assert_eq!(
        offers("ralsh -I. setting apple ensure=a", &["ralsh", "-I.", "setting", "apple", "ensure", "=", "a"]),
        ["absent"]
    );
    assert_eq!(offers("ralsh --a", &["ralsh", "--a"]), ["--absent"]);
    assert_eq!(offers("ralsh -l w", &["ralsh", "-l", "w"]), ["warn"]);
    assert_eq!(offers("ralsh -I prov", &["ralsh", "-I", "prov"]), ["providers"]);
    assert_eq!(offers("ralsh --include=prov", &["ralsh", "--include", "=", "prov"]), ["providers"]);
    assert!(offers("ralsh nosuch ", &["ralsh", "nosuch", ""]).is_empty());
}

#[test]
fn completion_runs_and_changes_nothing() {
    let place = place();
    let lines: [(&str, &[&str]); 5] = [
        ("ralsh -I. setting ap", &["ralsh", "-I.", "setting", "ap"]),
        ("ralsh -I. setting apple ensure=absent ", &["ralsh", "-I.", "setting", "apple", "ensure", "=", "absent", ""]),
        (
            "ralsh -I. setting apple ensure=absent v",
            &["ralsh", "-I.", "setting", "apple", "ensure", "=", "absent", "v"],
        ),
        ("ralsh -I. setting apple -", &["ralsh", "-I.", "setting", "apple", "-"]),
        ("ralsh -I. $(touch PWNED) ", &["ralsh", "-I.", "$(touch PWNED)", ""]),
    ];
    for (line, words) in lines {
        offered(&place, line, words);
    }
    let calls = calls(&place);
    assert!(calls.iter().all(|call| call == "ral_action=list"), "{calls:?}");
    assert!(place.path().join("providers/set-apple").exists() && !place.path().join("PWNED").exists());
}

#[test]
fn completion_is_printed_for_any_line_without_changes() {
    let place = place();
    let ended = ralsh(&place, &["-I.", "--complete", "names", "setting", "apple", "ensure=absent"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "a b\napple\napple:pie\n"));
    assert_eq!(calls(&place), ["ral_action=list"]);
}

#[test]
fn names_that_would_break_a_line_are_not_offered() {
    let place = Place::new();
    script(&place, "setting.prov", &SETTING.replace("list)", "list) printf 'name: a\\033b\\nname: c\\n';;\nnever)"));
    assert_eq!(ralsh(&place, &["-I.", "--complete", "names", "setting"]).stdout, "c\n");
}

#[test]
fn other_shells_have_no_completion_of_ralsh() {
    let place = Place::new();
    let ended = place.run(&["completions", "fish", "--for", "ralsh"]);
    assert_eq!(
        (ended.code, ended.stderr.as_str()),
        (1, "error: there is a completion of ralsh for bash, not for fish\n")
    );
}
