//! The guide about mold, followed to the letter.

use std::os::unix::fs::PermissionsExt;

use crate::support::{Place, without_duration};

/// A fenced block of the guide: its words and its text.
fn fences(text: &str) -> Vec<(String, String)> {
    let mut fences: Vec<(String, String)> = Vec::new();
    let mut is_open = false;
    for line in text.lines() {
        match line.strip_prefix("```") {
            Some(_) if is_open => is_open = false,
            Some(words) => {
                is_open = true;
                fences.push((words.to_owned(), String::new()));
            }
            None if is_open => fences.last_mut().unwrap().1 += &format!("{line}\n"),
            None => {}
        }
    }
    fences
}

/// The commands of a block, each with what it prints.
fn commands(text: &str) -> Vec<(String, String)> {
    let mut commands: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        match line.strip_prefix("$ ") {
            Some(command) => commands.push((command.to_owned(), String::new())),
            None => commands.last_mut().unwrap().1 += &format!("{line}\n"),
        }
    }
    commands
}

#[test]
fn guide_commands_print_shown_output() {
    let place = Place::new();
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let kilter = std::path::Path::new(env!("CARGO_BIN_EXE_kilter")).parent().unwrap();
    let guide = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/mold.md")).unwrap();
    let (mut files, mut followed) = (0, 0);
    for (words, text) in fences(&guide) {
        if let Some((_, name)) = words.split_once(" file=") {
            let path = place.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, &text).unwrap();
            if text.starts_with("#!") {
                std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            }
            files += 1;
        }
        for (command, expected) in if words == "console" { commands(&text) } else { Vec::new() } {
            let mut shell = std::process::Command::new("bash");
            shell.args(["-c", &format!("{{ {command}\n}} 2>&1")]).current_dir(place.path()).env_clear();
            shell
                .env("PATH", format!("{}:/usr/bin:/bin", kilter.display()))
                .env("KILTER_STATE_DIR", place.path().join("state"));
            let output = shell.env("HOME", place.path()).output().unwrap();
            let printed = String::from_utf8(output.stdout).unwrap();
            let printed = printed.replace(&place.path().canonicalize().unwrap().display().to_string(), "DIR");
            assert_eq!(without_duration(&printed), without_duration(&expected), "$ {command}");
            followed += 1;
        }
    }
    assert!(files >= 5 && followed >= 10, "{files} files, {followed} commands");
}
