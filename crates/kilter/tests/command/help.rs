//! Help: a change of it is seen.

use crate::support::{Place, snapshot};

/// All commands.
const COMMANDS: [&str; 21] = [
    "apply",
    "plan",
    "check",
    "explain",
    "run",
    "clean",
    "get",
    "set",
    "act",
    "types",
    "facts",
    "inventory",
    "rollout",
    "graph",
    "history",
    "provider",
    "schema",
    "init",
    "fmt",
    "completions",
    "man",
];

#[test]
fn help_matches_snapshots() {
    let place = Place::new();
    for command in [""].iter().chain(&COMMANDS) {
        let args: Vec<&str> = [*command, "--help"].into_iter().filter(|word| !word.is_empty()).collect();
        let ended = place.run(&args);
        assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
        let name = if command.is_empty() { "kilter" } else { command };
        snapshot(&format!("help-{name}.txt"), &ended.stdout);
    }
}

#[test]
fn every_command_shows_examples() {
    let place = Place::new();
    for command in COMMANDS {
        let help = place.run(&[command, "-h"]).stdout;
        let examples = help.split("Examples:").nth(1).unwrap_or_default();
        assert!(examples.lines().filter(|line| line.starts_with("  ")).count() >= 1, "{command}");
        assert!(help.lines().all(|line| line.chars().count() <= 120), "{command}");
    }
}

#[test]
fn help_of_resume_names_no_other_option_as_condition() {
    let help = Place::new().run(&["rollout", "resume", "--help"]).stdout;
    assert!(help.contains("Apply without a question") && !help.contains("With --on:"), "{help}");
}

#[test]
fn every_shell_and_manual_page_can_be_made() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ended = place.run(&["completions", shell]);
        assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{shell}");
        assert!(ended.stdout.contains("detailed-exitcodes"), "{shell}");
    }
    for (shell, function) in [("bash", "_kilter_words"), ("zsh", "_kilter_generated"), ("fish", "__kilter_words")] {
        assert!(place.run(&["completions", shell]).stdout.contains(function), "{shell}");
    }
    assert_eq!(place.run(&["man", "pages"]).code, 0);
    let page = std::fs::read_to_string(place.path().join("pages/kilter-apply.1")).unwrap();
    assert!(page.starts_with(".ie") && page.contains("detailed"));
}

#[test]
fn closed_pager_is_not_an_error() {
    let place = Place::new();
    let mut command = place.command(&["types", "file"]);
    let mut child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap()), (Some(0), String::new()));
}
