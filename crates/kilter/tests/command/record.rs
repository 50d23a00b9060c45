//! Recordings: what a run asked of scripts and of the machine, and the same run without them.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::support::{Ended, Place, is_root};

/// Keeps settings as files beside itself; `BUG` is put in by tests.
const KEEPER: &str = r##"#!/bin/bash
cd "$(dirname "$0")" || exit 9
eval "$@"
case "$ral_action" in
describe)
  cat <<'END'
provider:
  type: setting
  desc: Settings of a program.
  invoke: simple
  suitable: {commands: [bash]}
  attributes:
    name: {desc: Its name.}
    ensure: {type: "enum[present, absent]"}
    value: {type: string}
    size: {type: Integer}
    password: {type: "Sensitive[String]"}
END
  exit;;
esac
#BUG
echo '# simple'
case "$ral_action" in
list) cat set-* 2>/dev/null;;
find) cat "set-$name" 2>/dev/null || { echo "name: $name"; echo "ensure: absent"; };;
update)
  { echo "name: $name"; echo "ensure: $ensure"; echo "value: $value"; [ -z "$password" ] || echo "password: $password"; } >"set-$name"
  echo "info: $name is written" >&2
  echo 'ral_derive: true';;
esac
exit 0
"##;

/// A place with the script in `scripts`, in which a bug may be.
fn keeper(bug: &str) -> Place {
    let place = Place::new();
    std::fs::create_dir(place.path().join("scripts")).unwrap();
    script(&place, "keeper.prov", &KEEPER.replace("#BUG", bug));
    place
}

fn script(place: &Place, name: &str, text: &str) {
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = place.file(&format!("scripts/{name}"), text);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn record(place: &Place, args: &[&str]) -> Ended {
    place.run(&[&["provider", "record", "r.jsonl", "-I", "scripts"], args].concat())
}

/// Standard error of the recorded command.
fn own(stderr: &str) -> String {
    stderr.split_inclusive('\n').take_while(|line| !line.starts_with("recorded ")).collect()
}

/// Runs the recording in another place, where nothing is that the recorded command had: as another user where the
/// tests may choose.
fn replay(recording: &Path, args: &[&str]) -> Ended {
    let elsewhere = Place::new();
    std::fs::set_permissions(elsewhere.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::copy(recording, elsewhere.path().join("r.jsonl")).unwrap();
    std::fs::set_permissions(elsewhere.path().join("r.jsonl"), std::fs::Permissions::from_mode(0o644)).unwrap();
    let before = listed(elsewhere.path());
    let args = [&["provider", "replay", "r.jsonl"], args].concat();
    let output = if is_root() {
        let program = elsewhere.path().join("home/kilter");
        // Copied by this process, another test could start something that keeps it from being run.
        assert!(Command::new("cp").arg(env!("CARGO_BIN_EXE_kilter")).arg(&program).status().unwrap().success());
        let mut command = Command::new(&program);
        command.args(&args).env_clear().env("TERM", "dumb").env("PATH", "/nowhere").current_dir(elsewhere.path());
        let output = command.uid(65534).gid(65534).output().unwrap();
        std::fs::remove_file(program).unwrap();
        output
    } else {
        elsewhere.command(&args).output().unwrap()
    };
    assert_eq!(listed(elsewhere.path()), before, "a replay leaves nothing behind");
    elsewhere.ended(output)
}

fn listed(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The lines in some order, since what ran side by side comes in any, without the time that it took.
fn sorted(text: &str) -> Vec<String> {
    let timeless = |line: &str| match line.split_once(" (") {
        Some((counts, _)) if counts.contains(" resources: ") || counts.contains(" resource: ") => counts.to_owned(),
        _ => line.to_owned(),
    };
    let mut lines: Vec<String> = text.lines().map(timeless).collect();
    lines.sort();
    lines
}

/// Records a command, takes everything away, and has the replay do the same.
fn is_the_same_again(place: &Place, args: &[&str]) -> Ended {
    is_the_same_again_but(place, args, &[])
}

/// The same where the command itself tells texts that are replaced in the recording.
fn is_the_same_again_but(place: &Place, args: &[&str], replaced: &[(&str, &str)]) -> Ended {
    let recorded = record(place, args);
    let recording = place.path().join("r.jsonl");
    assert_eq!(std::fs::metadata(&recording).unwrap().permissions().mode() & 0o7777, 0o600);
    std::fs::rename(place.path().join("scripts"), place.path().join("gone")).unwrap();
    std::fs::remove_dir_all(place.path().join("state")).unwrap_or_default();
    let replayed = replay(&recording, &[]);
    let there = |text: &str| text.replace("DIR", "");
    // The paths of the recorded run are those of its place.
    let path = place.path().display().to_string();
    let told = |text: &str| {
        let text = there(&text.replace(&path, ""));
        let text = replaced.iter().fold(text, |text, (secret, other)| text.replace(secret, other));
        // As many stars are shown as a secret has letters.
        sorted(&(0..5).fold(text, |text, _| text.replace("**", "*")))
    };
    assert_eq!(told(&replayed.stdout), told(&recorded.stdout));
    assert_eq!(told(&replayed.stderr), told(&own(&recorded.stderr)));
    assert_eq!(replayed.code, recorded.code, "{}", replayed.stderr);
    std::fs::rename(place.path().join("gone"), place.path().join("scripts")).unwrap();
    recorded
}

#[test]
fn script_bug_is_reproduced_from_recording() {
    let bugs = [
        ("[ $ral_action != find ] || { echo 'nonsense'; echo oops >&2; exit 3; }", &["get", "setting", "a"][..], 4),
        (
            "[ $ral_action != find ] || { printf '# simple\\nname: a\\nsize: many\\n'; exit 0; }",
            &["get", "setting", "a"],
            4,
        ),
        ("[ $ral_action != find ] || { printf '# simple\\nname: \\xff\\n'; exit 0; }", &["get", "setting", "a"], 4),
        ("[ $ral_action != find ] || kill -9 $$", &["get", "setting[a]", "--format", "json"], 4),
        // It says that it has done what it has not.
        (
            "[ $ral_action != update ] || { printf '# simple\\nral_derive: true\\n'; exit 0; }",
            &["set", "setting", "a", "ensure=present"],
            4,
        ),
        (
            "[ $ral_action != update ] || { echo '# simple'; echo 'ral_error: no'; echo ral_eom; exit 0; }",
            &["set", "setting", "a", "ensure=present"],
            4,
        ),
        (":", &["get", "setting"], 0),
        (":", &["types"], 0),
        (":", &["get", "nothing"], 1),
    ];
    for (bug, args, code) in bugs {
        let place = keeper(bug);
        let recorded = is_the_same_again(&place, args);
        assert_eq!(recorded.code, code, "{bug}: {}{}", recorded.stdout, recorded.stderr);
    }
}

#[test]
fn invalid_metadata_is_replayed() {
    let place = keeper(":");
    script(&place, "keeper.prov", &KEEPER.replace("desc: Settings", "dessc: [Settings"));
    let recorded = is_the_same_again(&place, &["types"]);
    assert!(recorded.stderr.contains("its metadata is wrong"), "{}", recorded.stderr);
}

#[test]
fn replay_of_plan_and_apply_changes_nothing() {
    let place = keeper(":");
    let file = place.path().join("native.txt");
    let included =
        place.file("more.yaml", "resources:\n  setting[c]: { ensure: present, value: \"${facts.kernel}\" }\n");
    let manifest = place.file(
        "m.yaml",
        format!(
            "include: [more.yaml]\nvars: {{ v: one }}\nresources:\n  setting[a]: {{ ensure: present, value: \
             \"${{vars.v}}\" }}\n  \
             setting[b]: {{ ensure: present, value: two, require: \"file[{0}]\" }}\n  file[{0}]: {{ content: hello \
             }}\n  \
             exec[/bin/echo hi]: {{}}\n",
            file.display()
        ),
    );
    let _ = included;
    for args in [
        &["plan", &manifest, "--var", "v=three"][..],
        &["apply", &manifest, "--format", "human"],
        &["apply", &manifest],
    ] {
        let _ = std::fs::remove_file(place.path().join("r.jsonl"));
        let recorded = record(&place, args);
        assert!([0, 2].contains(&recorded.code), "{}{}", recorded.stdout, recorded.stderr);
        let was_there = file.exists();
        let _ = std::fs::remove_file(&file);
        let replayed = replay(&place.path().join("r.jsonl"), &[]);
        let path = place.path().display().to_string();
        assert_eq!(sorted(&replayed.stdout.replace(&path, "DIR")), sorted(&recorded.stdout));
        assert_eq!((replayed.stderr.replace(&path, "DIR"), replayed.code), (own(&recorded.stderr), recorded.code));
        assert!(!file.exists(), "a replay touches nothing");
        if was_there {
            std::fs::write(&file, "hello").unwrap();
        }
    }
    let json = replay(&place.path().join("r.jsonl"), &["--format", "json"]);
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&json.stdout).unwrap()["counts"]["failed"],
        0,
        "{}",
        json.stdout
    );
}

#[test]
fn concurrent_calls_replay_in_any_order() {
    let place = keeper("sleep 0.0$((RANDOM % 5))");
    let resources: String = (0..12).map(|n| format!("  setting[s{n}]: {{ ensure: present, value: v{n} }}\n")).collect();
    let manifest = place.file("m.yaml", format!("resources:\n{resources}"));
    let recorded = record(&place, &["apply", &manifest, "--jobs", "8"]);
    assert_eq!(recorded.code, 0, "{}{}", recorded.stdout, recorded.stderr);
    let replayed = replay(&place.path().join("r.jsonl"), &[]);
    assert_eq!((replayed.code, sorted(&replayed.stdout)), (0, sorted(&recorded.stdout)), "{}", replayed.stderr);
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// The forms in which a secret could be in a text.
fn forms(secret: &str) -> Vec<String> {
    let json = serde_json::Value::from(secret).to_string();
    vec![
        secret.to_owned(),
        secret.replace('\'', "'\\''"),
        serde_json::Value::from(secret.replace('\'', "'\\''").as_str()).to_string().trim_matches('"').to_owned(),
        json.trim_matches('"').to_owned(),
        hex(secret).to_uppercase(),
        hex(secret),
        kilter_model::base64(secret.as_bytes()).trim_end_matches('=').to_owned(),
        secret.split(['\'', '"', ' ']).max_by_key(|part| part.len()).unwrap().to_owned(),
    ]
}

fn holds_no(text: &str, secret: &str) {
    for form in forms(secret) {
        assert!(!text.contains(&form), "{form} is in\n{text}");
    }
}

#[test]
fn recorded_secrets_are_replaced_in_every_form() {
    let secret = "hunter2'quoted\" \\top";
    let tells = "[ -z \"$password\" ] || { printf '%s' \"$password\" | base64 -w0 >&2; printf '%s' \"$password\" | od \
                 -An -tx1 | tr -d ' \\n' >&2; echo \"I was told $password\" >&2; }";
    let place = keeper(tells);
    let word = format!("password={secret}");
    let encoded = [kilter_model::base64(secret.as_bytes()), hex(secret)];
    let others = [kilter_model::base64(b"secret-1"), hex("secret-1")];
    let replaced = [(&*encoded[0], &*others[0]), (&*encoded[1], &*others[1])];
    let args = ["--verbose", "set", "setting", "a", "ensure=present", "value=x", &word];
    is_the_same_again_but(&place, &args, &replaced);
    let text = std::fs::read_to_string(place.path().join("r.jsonl")).unwrap();
    holds_no(&text, secret);
    assert!(text.contains("secret-1"), "{text}");
    // What is read is secret as well.
    std::fs::remove_file(place.path().join("r.jsonl")).unwrap();
    is_the_same_again(&place, &["get", "setting", "a", "--format", "json"]);
    let text = std::fs::read_to_string(place.path().join("r.jsonl")).unwrap();
    holds_no(&text, secret);
    assert!(text.contains("password: secret-1"), "{text}");
    // So it is in manifests, in variables and in what is fetched.
    let manifest = place.file(
        "m.yaml",
        "vars:\n  w: { sensitive: { file: token } }\n  x: { sensitive: { env: HOME } }\n  y: \
         plain-part\nresources:\n  setting[b]:\n    ensure: present\n    value: plain\n    \
         password: |-\n      first of it\n      second of it\n  setting[c]: { ensure: present, password: \
         \"pre-${vars.w}\" }\n  \
         setting[d]: { ensure: present, value: \"${vars.w}\" }\n  setting[e]: { ensure: present, password: \
         \"prefix-part-${vars.y}\" }\n",
    );
    place.file("token", "t0ken-of-mine\n");
    let _ = std::fs::remove_file(place.path().join("r.jsonl"));
    script(&place, "keeper.prov", KEEPER);
    is_the_same_again(&place, &["--verbose", "apply", &manifest]);
    let text = std::fs::read_to_string(place.path().join("r.jsonl")).unwrap();
    ["first of it", "second of it", "t0ken-of-mine", "pre-t0ken", "prefix-part"]
        .iter()
        .for_each(|secret| holds_no(&text, secret));
}

#[test]
fn secrets_in_invalid_replies_and_manifests_are_replaced() {
    let place =
        keeper("[ $ral_action != find ] || { printf '# simple\\npassword: hunter2 and more\\nname: a\\n'; exit 0; }");
    let recorded = is_the_same_again_but(&place, &["get", "setting", "a"], &[("hunter2 and more", "secret-1")]);
    assert_eq!(recorded.code, 4);
    holds_no(&std::fs::read_to_string(place.path().join("r.jsonl")).unwrap(), "hunter2 and more");
    std::fs::remove_file(place.path().join("r.jsonl")).unwrap();
    let manifest = place.file(
        "m.yaml",
        "resources:\n  setting[b]: { ensure: presnt, password: hunter2 }\n  user[x]: { password: { sensitive: \
         s3cr3t-thing } }\n",
    );
    let recorded = is_the_same_again(&place, &["plan", &manifest]);
    assert_eq!(recorded.code, 1);
    let text = std::fs::read_to_string(place.path().join("r.jsonl")).unwrap();
    holds_no(&text, "hunter2");
    holds_no(&text, "s3cr3t-thing");
    std::fs::remove_file(place.path().join("r.jsonl")).unwrap();
    // Nobody declares this one as sensitive, and there is no such attribute.
    let recorded = is_the_same_again(&place, &["set", "setting", "a", "pasword=hunter2"]);
    assert_eq!(recorded.code, 1);
    holds_no(&std::fs::read_to_string(place.path().join("r.jsonl")).unwrap(), "hunter2");
}

#[test]
fn other_texts_are_replaced_on_request() {
    let place = keeper(":");
    place.file("texts", "example.com\n");
    let args = ["provider", "record", "r.jsonl", "-I", "scripts", "--replace", "my-host", "--replace-from", "texts"];
    let ended =
        place.run(&[&args[..], &["set", "setting", "my-host", "ensure=present", "value=www.example.com"]].concat());
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let text = std::fs::read_to_string(place.path().join("r.jsonl")).unwrap();
    holds_no(&text, "my-host");
    holds_no(&text, "example.com");
    assert_eq!(replay(&place.path().join("r.jsonl"), &[]).code, 0);
}

#[test]
fn paths_and_notes_are_replaced_on_request() {
    let place = keeper(":");
    place.file("scripts/nonsense.prov", "no script");
    let directory = place.path().to_str().unwrap();
    let scripts = format!("{directory}/scripts");
    let args = ["provider", "record", "r.jsonl", "-I", &scripts, "--replace", directory, "--replace", "nonsense"];
    let ended = place.run(&[&args[..], &["get", "setting", "a"]].concat());
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let text = std::fs::read_to_string(place.path().join("r.jsonl")).unwrap();
    assert!(text.contains("keeper.prov"), "{text}");
    holds_no(&text, directory);
    holds_no(&text, "nonsense");
    assert_eq!(replay(&place.path().join("r.jsonl"), &[]).code, 0);
}

#[test]
fn truncated_recording_is_refused_and_still_shown() {
    let place = keeper(":");
    assert_eq!(record(&place, &["get", "setting", "a"]).code, 0);
    let whole = std::fs::read(place.path().join("r.jsonl")).unwrap();
    let step = (whole.len() / 60).max(1);
    let ends = whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n').flat_map(|(at, _)| [at, at + 1]);
    let cuts: Vec<usize> =
        (0..whole.len()).step_by(step).chain(0..40).chain(ends).filter(|at| *at < whole.len()).collect();
    for at in cuts {
        place.file("cut.jsonl", &whole[..at]);
        let ended = place.run(&["provider", "replay", "cut.jsonl"]);
        assert_eq!((ended.code, ended.stdout.as_str()), (1, ""), "cut at {at}: {}", ended.stderr);
        let errors = ended.stderr.lines().filter(|line| line.starts_with("error: ")).count();
        assert!(errors == 1 && ended.stderr.contains("cut.jsonl"), "cut at {at}: {}", ended.stderr);
        let listed = place.run(&["provider", "replay", "cut.jsonl", "--list"]);
        let has_header = whole[..at].contains(&b'\n');
        assert_eq!(listed.code, i32::from(!has_header), "cut at {at}: {}", listed.stderr);
    }
}

#[test]
fn invalid_recording_is_refused_with_one_error() {
    let place = keeper(":");
    assert_eq!(record(&place, &["get", "setting", "a"]).code, 0);
    let text = std::fs::read_to_string(place.path().join("r.jsonl")).unwrap();
    let cases = [
        ("hello\n".to_owned(), "is not a recording"),
        (String::new(), "is not a recording"),
        ("{\"kilter_plan\":1}\n".to_owned(), "is not a recording"),
        (text.replace("\"kilter_recording\":2", "\"kilter_recording\":9"), "version 9"),
        (text.replace("\"kilter_recording\":2", "\"kilter_recording\":1"), "is a recording of version 1: this kilter"),
        (text.replacen("\"argv\":[", "\"argv\":7,\"old\":[", 1), ": it is not a line of a recording"),
        (text.replacen("{\"asked\"", "{asked", 1), ": it is not JSON"),
        (format!("{text}{text}"), "after the end"),
        (text.replacen("\"command\":[", "\"command\":[\"man\",", 1), ""),
    ];
    for (content, expected) in cases {
        place.file("x.jsonl", &content);
        let ended = place.run(&["provider", "replay", "x.jsonl"]);
        assert_eq!(ended.code, 1, "{expected}: {}", ended.stderr);
        assert!(
            ended.stderr.contains(expected) && ended.stderr.matches("error:").count() == 1,
            "{expected}: {}",
            ended.stderr
        );
    }
    place.file("binary", b"\xff\xfe\x00\n".repeat(5000));
    assert!(place.run(&["provider", "replay", "binary"]).stderr.contains("is not a recording"));
    assert_eq!(place.run(&["provider", "replay", "missing"]).code, 1);
    assert_eq!(place.run(&["provider", "replay", "."]).code, 1);
}

#[test]
fn deviating_replay_shows_expected_call() {
    let place = keeper(":");
    assert_eq!(record(&place, &["set", "setting", "a", "ensure=present", "value=it's"]).code, 0);
    let text = std::fs::read_to_string(place.path().join("r.jsonl")).unwrap();
    // As a kilter would have recorded that quotes in another way.
    let other = text.replace("value='it'\\\\''s'", "value=it\\\\'s");
    assert!(other != text);
    std::fs::write(place.path().join("other.jsonl"), other).unwrap();
    let ended = replay(&place.path().join("other.jsonl"), &[]);
    assert_eq!(ended.code, 3, "{}", ended.stderr);
    assert!(
        ended.stderr.contains(
            "`update` of setting by `keeper` was called in a way that is not in the recording (expected was call "
        ),
        "{}",
        ended.stderr
    );
    let differs =
        |sign: &str| ended.stderr.lines().any(|line| line.trim_start().starts_with(sign) && line.contains("value="));
    assert!(differs("- ") && differs("+ "), "{}", ended.stderr);
    assert!(ended.stderr.contains("was not made"), "{}", ended.stderr);
    // Calls that were recorded and are not made are told as well.
    let more: String = text
        .split_inclusive('\n')
        .flat_map(|line| std::iter::repeat_n(line, if line.contains("\"action\":\"update\"") { 2 } else { 1 }))
        .collect();
    std::fs::write(place.path().join("more.jsonl"), more).unwrap();
    assert_eq!(replay(&place.path().join("more.jsonl"), &[]).code, 3);
}

#[test]
fn replay_with_other_exit_code_fails() {
    let place = keeper(":");
    assert_eq!(record(&place, &["set", "setting", "a", "ensure=present", "value=red"]).code, 0);
    let text = std::fs::read_to_string(place.path().join("r.jsonl")).unwrap();
    let other = text.replace(r#"{"ended":{"exit":0}}"#, r#"{"ended":{"exit":4}}"#);
    assert!(other != text);
    std::fs::write(place.path().join("other.jsonl"), other).unwrap();
    let ended = replay(&place.path().join("other.jsonl"), &[]);
    assert_eq!(ended.code, 3, "{}", ended.stderr);
    assert!(ended.stderr.contains("the recorded command ended with 4, this one with 0"), "{}", ended.stderr);
}

#[test]
fn recording_does_not_overwrite_without_option() {
    let place = keeper(":");
    for args in [&["man"][..], &["provider", "new", "simple", "x"], &["get"], &["nonsense"]] {
        assert_eq!(record(&place, args).code, 1, "{args:?}");
        assert!(!place.path().join("r.jsonl").exists(), "{args:?}");
    }
    let kept = place.file("r.jsonl", "mine");
    let ended = record(&place, &["get", "setting", "a"]);
    assert!(ended.code == 1 && ended.stderr.contains("there is a file r.jsonl already"), "{}", ended.stderr);
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), "mine");
    assert_eq!(record(&place, &["--force", "get", "setting", "a"]).code, 0);
    assert_eq!(std::fs::metadata(&kept).unwrap().permissions().mode() & 0o7777, 0o600);
    assert_eq!(place.run(&["provider", "record", "no/such/r.jsonl", "types"]).code, 1);
    assert_eq!(place.run(&["provider", "record", "--force", "scripts", "types"]).code, 1);
}

#[test]
fn recorded_call_is_shown_as_command_line() {
    let place = keeper(":");
    record(&place, &["set", "setting", "it's", "ensure=present", "value=x"]);
    let listed = place.run(&["provider", "replay", "r.jsonl", "--list"]).stdout;
    let update = listed.lines().find(|line| line.contains("update")).unwrap();
    assert!(update.contains("it's") && update.contains("exit code 0"), "{listed}");
    let number = update.split_whitespace().next().unwrap();
    let shown = place.run(&["provider", "replay", "r.jsonl", "--exchange", number]).stdout;
    let line = shown.lines().find_map(|line| line.trim_start().strip_prefix("$ ")).unwrap();
    std::fs::remove_file(place.path().join("scripts/set-it's")).unwrap();
    let line = line.replace("DIR", &place.path().display().to_string());
    let output = Command::new("bash").args(["-c", &line]).output().unwrap();
    assert!(output.status.success(), "{line}");
    assert!(place.path().join("scripts/set-it's").exists(), "{line}");
    let missing = place.run(&["provider", "replay", "r.jsonl", "--exchange", "99"]);
    assert!(missing.code == 1 && missing.stderr.contains("there is no call 99"), "{}", missing.stderr);
    let json = place.run(&["provider", "replay", "r.jsonl", "--list", "--format", "json"]).stdout;
    assert!(serde_json::from_str::<Vec<serde_json::Value>>(&json).unwrap().len() >= 3);
}

#[test]
fn killed_recording_keeps_old_file() {
    let place = keeper("[ $ral_action != update ] || { kill -9 $PPID; sleep 1; }");
    let mut child = place
        .command(&["provider", "record", "r.jsonl", "-I", "scripts", "set", "setting", "a", "ensure=present"])
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    child.wait().unwrap();
    let listed = place.run(&["provider", "replay", "r.jsonl", "--list"]);
    assert!(
        listed.stdout.contains("find") && listed.stderr.contains("is incomplete"),
        "{}{}",
        listed.stdout,
        listed.stderr
    );
    let ended = place.run(&["provider", "replay", "r.jsonl"]);
    assert!(ended.code == 1 && ended.stderr.contains("its end is missing"), "{}", ended.stderr);
}

/// A directory of mold with a kind of things, which a choreographer brings into their state one by one.
fn minion() -> Place {
    let place = Place::new();
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let thing = r#"#!/bin/bash
state=$(dirname "$0")/../../state-$(grep -o '"name":"[a-z]*"' | head -1 | tr -dc 'a-z' | cut -c5-)
printf '15:{"key":"hello"},' >&3
echo "notice: $1" >&2
case "$1" in
inspect) printf '{"kind":"thing","name":"%s","exists":%s}\n' "${state##*-}" "$([ -e "$state" ] && echo true || echo false)";;
conform) : >"$state";;
*) exit 3;;
esac
"#;
    let prescribe = r#"#!/bin/sh
grep -q '"breed":"tabby"' || exit 5
echo '[{"kind":"thing","name":"a","exists":true,"pin":"hunter2"},{"kind":"thing","name":"b","exists":true}]'
"#;
    let choreograph = r#"#!/bin/bash
read -r all
for name in a b; do
  case "$all" in
  *'{"exists":false,"kind":"thing","name":"'$name'"}'*) echo '[{"kind":"thing","name":"'$name'","exists":true,"pin":"hunter2"}]'; exit;;
  *'"kind":"thing","name":"'$name'","exists":false'*) echo '[{"kind":"thing","name":"'$name'","exists":true,"pin":"hunter2"}]'; exit;;
  esac
done
echo '[]'
"#;
    let kind = "attributes:\n  pin: { type: \"Optional[Sensitive[String]]\", behaviour: parameter, desc: Its pin. }\n";
    for (name, text) in [
        ("resources/thing", thing),
        ("resources/thing.yaml", kind),
        ("facts/cat", "#!/bin/sh\necho '{\"breed\":\"tabby\"}'\n"),
        ("actors/prescribe", prescribe),
        ("actors/choreograph", choreograph),
    ] {
        let path = place.path().join("minion").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        let mode = if name.ends_with(".yaml") { 0o644 } else { 0o755 };
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    place
}

#[test]
fn choreography_replays_without_scripts() {
    for args in [
        &["apply"][..],
        &["plan"],
        &["get", "thing", "a"],
        &["--verbose", "set", "thing", "a", "exists=true", "pin=hunter2"],
    ] {
        let place = minion();
        let words = [&["provider", "record", "r.jsonl", "--mold", "minion", "--channel3", "log"], args].concat();
        let recorded = place.run(&words);
        assert!([0, 2].contains(&recorded.code), "{args:?}: {}{}", recorded.stdout, recorded.stderr);
        if args == ["apply"] {
            assert!(recorded.stdout.contains("2 steps in 2 rounds"), "{}", recorded.stdout);
        }
        std::fs::remove_dir_all(place.path().join("minion")).unwrap();
        let replayed = replay(&place.path().join("r.jsonl"), &[]);
        assert_eq!(replayed.code, recorded.code, "{args:?}: {}", replayed.stderr);
        let path = place.path().display().to_string();
        assert_eq!(sorted(&replayed.stdout), sorted(&recorded.stdout), "{args:?}");
        assert_eq!(sorted(&replayed.stderr.replace(&path, "DIR")), sorted(&own(&recorded.stderr)), "{args:?}");
        holds_no(&std::fs::read_to_string(place.path().join("r.jsonl")).unwrap(), "hunter2");
    }
}

#[test]
fn mold_recording_has_channel_output() {
    let place = Place::new();
    let resources = place.path().join("minion/resources");
    std::fs::create_dir_all(&resources).unwrap();
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let text = "#!/bin/sh\ncat >/dev/null\nprintf '15:{\"key\":\"hello\"},' >&3\necho \
                '{\"kind\":\"thing\",\"name\":\"a\",\"exists\":true}'\n";
    let path = place.file("minion/resources/thing", text);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let ended = place.run(&["provider", "record", "r.jsonl", "--mold", "minion", "get", "thing", "a"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let listed = place.run(&["provider", "replay", "r.jsonl", "--list", "--format", "json"]).stdout;
    let calls: Vec<serde_json::Value> = serde_json::from_str(&listed).unwrap();
    let inspect = calls.iter().find(|call| call["action"] == "inspect").unwrap();
    assert_eq!((&inspect["convention"], &inspect["channel"]), (&"mold".into(), &"15:{\"key\":\"hello\"},".into()));
    assert!(inspect["stdin"].as_str().unwrap().contains("\"name\":\"a\""), "{listed}");
}

/// Keeps vaults in a file beside itself, in the form of the convention json.
const VAULT: &str = r##"#!/usr/bin/python3
import json, os, sys
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "vaults.json")
if sys.argv[1] == "ral_action=describe":
    print("""provider:
  type: vault
  desc: Vaults.
  invoke: json
  suitable: true
  attributes:
    name: {desc: Its name.}
    ensure: {type: "enum[present, absent]"}
    code: {type: "Sensitive[String]"}
""")
    sys.exit()
kept = json.load(open(path)) if os.path.exists(path) else {}
asked = json.load(sys.stdin)
if sys.argv[1] == "ral_action=get":
    names = asked["names"] or list(kept)
    found = [{"name": name, "ensure": "present", **kept[name]} if name in kept else {"name": name, "ensure": "absent"} for name in names]
    print(json.dumps({"resources": found}))
else:
    for update in asked["updates"]:
        kept[update["name"]] = {"code": update["should"].get("code", "")}
        print("info: the code of", update["name"], "is", json.dumps(update["should"].get("code")), file=sys.stderr)
    json.dump(kept, open(path, "w"))
    print(json.dumps({"changes": [], "derive": True}))
"##;

#[test]
fn json_batch_replays_with_replaced_secrets() {
    let place = keeper(":");
    script(&place, "vault.prov", VAULT);
    let secrets = ["0pen \"sesame\" \u{fc}", "back\\slash'quote", "98765"];
    let vaults: String = secrets
        .iter()
        .enumerate()
        .map(|(n, code)| format!("  vault[v{n}]: {{ ensure: present, code: {} }}\n", serde_json::Value::from(*code)))
        .collect();
    let manifest = place.file("m.yaml", format!("resources:\n{vaults}"));
    for args in [&["--verbose", "apply", &manifest][..], &["get", "vault"], &["apply", &manifest, "--format", "json"]] {
        let _ = std::fs::remove_file(place.path().join("r.jsonl"));
        let recorded = record(&place, args);
        assert_eq!(recorded.code, 0, "{}{}", recorded.stdout, recorded.stderr);
        let text = std::fs::read_to_string(place.path().join("r.jsonl")).unwrap();
        secrets.iter().for_each(|secret| holds_no(&text, secret));
        assert!(!text.contains("sesame") && !text.contains("slash"), "{text}");
        let replayed = replay(&place.path().join("r.jsonl"), &[]);
        assert_eq!(replayed.code, 0, "{}", replayed.stderr);
        let timeless = |text: &str| {
            let lines = text.lines().filter(|line| !line.contains("duration_ms") && !line.contains("\"run\""));
            sorted(&lines.collect::<Vec<_>>().join("\n"))
        };
        assert_eq!(timeless(&replayed.stdout), timeless(&recorded.stdout));
    }
}

#[test]
fn later_secret_is_replaced_in_earlier_lines() {
    let place = keeper(
        "[ $ral_action != find ] || { printf '# simple\\nname: a\\nensure: present\\npassword: late-secret\\n'; exit \
         0; }",
    );
    let args = ["set", "setting", "a", "ensure=present", "value=late-secret"];
    // Its own report shows the value, which nobody has called secret there.
    let recorded = is_the_same_again_but(&place, &args, &[("late-secret", "secret-1")]);
    assert!(recorded.stdout.contains("late-secret"), "{}", recorded.stdout);
    let text = std::fs::read_to_string(place.path().join("r.jsonl")).unwrap();
    holds_no(&text, "late-secret");
    assert!(text.contains("\"value=secret-1\""), "{text}");
    assert!(!listed(place.path()).iter().any(|name| name.contains(".new")), "{:?}", listed(place.path()));
}
