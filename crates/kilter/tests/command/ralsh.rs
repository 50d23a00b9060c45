//! kilter called by the name `ralsh`.

mod completion;
mod differences;
mod search;

use std::io::{BufRead, BufReader, Read};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::run::wait;
use crate::support::{Ended, Place, snapshot};

/// Keeps resources as files beside itself, in the form of the convention simple.
const SETTING: &str = r##"#!/bin/bash
cd "$(dirname "$0")" || exit 9
[ -e port ] && echo "$*" >"/dev/tcp/127.0.0.1/$(<port)"
eval "$@"
if [ "$ral_action" = describe ]; then
  cat <<'END'
provider:
  type: setting
  desc: Settings of a program.
  invoke: simple
  suitable: true
  attributes:
    name: {desc: Its name.}
    ensure: {desc: Whether it is set., type: "enum[present, absent]"}
    value: {desc: "What it is set to,\nas a text."}
    loud: {type: boolean}
    tags: {type: "array[string]"}
    size: {kind: r}
END
  exit
fi
echo '# simple'
case "$ral_action" in
list) cat set-* 2>/dev/null;;
find)
  case "$name" in
  no*) echo "name: $name"; echo 'ral_unknown: true';;
  *) cat "set-$name" 2>/dev/null || { echo "name: $name"; echo 'ensure: absent'; };;
  esac;;
update)
  if [ "$name" = stuck ]; then echo 'ral_error: it is stuck'; echo 'for ever'; echo ral_eom; exit; fi
  if [ "$ensure" = absent ]; then rm "set-$name"
  else
    { [ -e "set-$name" ] && cat "set-$name" || printf 'name: %s\nensure: present\nsize: 1\n' "$name"; } >new
    for key in value loud tags; do
      [ -n "${!key+set}" ] && { grep -v "^$key:" new >newer; echo "$key: ${!key}" >>newer; mv newer new; }
    done
    mv new "set-$name"
  fi
  echo 'info: it is written' >&2
  echo 'ral_derive: true';;
esac
exit 0
"##;

/// The same in the convention json, with a state in one file.
const KNOB: &str = r##"#!/usr/bin/env python3
import json, os, sys
os.chdir(os.path.dirname(os.path.abspath(__file__)))
action = sys.argv[1].split("=", 1)[1]
if action == "describe":
    print('{"provider": {"type": "knob", "invoke": "json", "desc": "Knobs.", "suitable": true, "attributes": {"name": {},'
          '"ensure": {"type": "enum[present, absent]"}, "turn": {"type": "string"}, "on": {"type": "boolean"},'
          '"marks": {"type": "array[string]"}}}}')
    sys.exit()
request = json.load(sys.stdin)
knobs = json.load(open("knobs")) if os.path.exists("knobs") else {}
if action == "get":
    names = request["names"] or list(knobs)
    absent = lambda name: {"name": name, "ensure": "absent"}
    found = [knobs.get(name, absent(name)) for name in names if name != "nothing"]
    print(json.dumps({"resources": found}))
else:
    changes = []
    for update in request["updates"]:
        name, is_, should = update["name"], update["is"], update["should"]
        if name == "stuck":
            print(json.dumps({"error": {"message": "it is stuck", "kind": "failed"}}))
            sys.exit()
        if should.get("ensure") == "absent":
            knobs.pop(name, None)
        else:
            knobs[name] = {**knobs.get(name, {"name": name}), "ensure": "present", **should}
        change = {key: {"is": value, "was": is_.get(key)} for key, value in should.items()}
        changes.append({"name": name, **change})
    json.dump(knobs, open("knobs", "w"))
    print(json.dumps({"changes": changes}))
"##;

fn script(place: &Place, name: &str, content: &str) {
    script_in(place, "providers", name, content);
}

fn script_in(place: &Place, directory: &str, name: &str, content: &str) {
    let directory = place.path().join(directory);
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = directory.join(name);
    std::fs::write(&path, content).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn settings() -> Place {
    let place = Place::new();
    script(&place, "setting.prov", SETTING);
    listen(&place);
    place
}

/// Keeps what scripts are called with: they cannot write a file themselves while they read.
fn listen(place: &Place) {
    let told = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = told.local_addr().unwrap().port().to_string();
    std::fs::write(place.path().join("providers/port"), port).unwrap();
    let calls = place.path().join("calls");
    std::thread::spawn(move || {
        while let Ok((mut caller, _)) = told.accept() {
            let mut call = String::new();
            caller.read_to_string(&mut call).unwrap();
            let kept = std::fs::read_to_string(&calls).unwrap_or_default();
            // The directory goes when the test ends.
            let _ = std::fs::write(&calls, kept + &call);
        }
    });
}

/// Runs the command by that name, and replaces the times of log lines.
pub(crate) fn ralsh(place: &Place, args: &[&str]) -> Ended {
    ralsh_with(place, args, &[])
}

fn ralsh_with(place: &Place, args: &[&str], variables: &[(&str, &str)]) -> Ended {
    let mut command = place.command(args);
    command.arg0("ralsh").envs(variables.iter().copied()).stdin(Stdio::null());
    let ended = place.ended(command.output().unwrap());
    let timeless = |line: &str| match line.get(26..) {
        Some(rest) if line.starts_with("20") && rest.starts_with(' ') => format!("TIME{rest}\n"),
        _ => format!("{line}\n"),
    };
    Ended { stderr: ended.stderr.lines().map(timeless).collect(), ..ended }
}

/// Commands, one a line, with what they print and end with.
fn transcript(place: &Place, commands: &str) -> String {
    let mut text = String::new();
    for line in commands.lines() {
        let words: Vec<&str> = line.split('|').collect();
        let ended = ralsh(place, &words);
        text += &format!("$ ralsh {}\n{}", words.join(" "), ended.stdout);
        text.extend(ended.stderr.lines().map(|line| format!("2> {line}\n")));
        text += &format!("[{}]\n\n", ended.code);
    }
    text
}

fn calls(place: &Place) -> Vec<String> {
    // Callers are heard one after the other: whoever came before this one has been.
    let port = std::fs::read_to_string(place.path().join("providers/port")).unwrap();
    let mut last = TcpStream::connect(("127.0.0.1", port.parse().unwrap())).unwrap();
    last.shutdown(Shutdown::Write).unwrap();
    last.read_to_end(&mut Vec::new()).unwrap();
    let calls = std::fs::read_to_string(place.path().join("calls")).unwrap_or_default();
    calls.lines().map(str::to_owned).collect()
}

#[test]
fn help_and_version_match_snapshots() {
    snapshot("ralsh-help.txt", &transcript(&Place::new(), "-h\n--help\n--version\n-h|--bogus"));
}

#[test]
fn link_named_ralsh_accepts_libral_arguments() {
    let place = settings();
    let link = place.path().join("ralsh");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_kilter"), &link).unwrap();
    let output = std::process::Command::new(link).args(["-I", "."]).current_dir(place.path()).output().unwrap();
    let listed = String::from_utf8(output.stdout).unwrap();
    assert!(listed.lines().any(|line| line == "setting::setting"), "{listed}");
    assert!(listed.lines().is_sorted());
}

#[test]
fn resources_of_a_simple_script_are_listed_found_and_changed() {
    let place = settings();
    let commands = "-I|.|-e|setting\n-I|.|setting\n-I|.|setting|a\n-I|.|setting|a|-a\n-I|.|setting|nothing\n\
                    -I|.|setting|a|ensure=present|value=it's $(id)|loud=True|tags=x, y\n\
                    -I|.|setting|a|ensure=present|value=it's $(id)|loud=True|tags=x, y\n\
                    -I|.|setting|a|value=2|value=3\n-I|.|setting::setting|a\n-I|.|setting|b|ensure=present|tags=\n\
                    -I|.|setting\n-I|.|setting|stuck|ensure=present\n-I|.|setting|nothing|ensure=present\n\
                    -I|.|setting|a|ensure=absent\n-I|.|setting|a|ensure=absent";
    snapshot("ralsh-simple.txt", &transcript(&place, commands));
}

#[test]
fn simple_script_results_are_available_as_json() {
    let place = settings();
    let commands = "-j|-I|.|setting\n-j|-I|.|setting|a\n-j|-I|.|setting|a|-a\n-j|-I|.|setting|nothing\n\
                    -j|-I|.|setting|a|ensure=present|value=1|loud=true|tags=x,y\n-j|-I|.|setting|a|value=1\n\
                    -j|-I|.|setting|a\n-j|-I|.|setting\n-j|-I|.|setting|stuck|ensure=present\n\
                    -j|-I|.|setting|nothing|ensure=present\n-j|-I|.|setting|a|ensure=absent";
    snapshot("ralsh-simple-json.txt", &transcript(&place, commands));
}

#[test]
fn resources_of_a_json_script_are_listed_found_and_changed() {
    let place = Place::new();
    script(&place, "knob.prov", KNOB);
    let commands = "-I|.|knob\n-I|.|knob|a\n-I|.|knob|nothing\n-I|.|knob|a|ensure=present|turn=5|on=true|marks=x,y\n\
                    -I|.|knob|a|ensure=present|turn=5|on=true|marks=x,y\n-j|-I|.|knob|a|on=false\n-j|-I|.|knob|a\n\
                    -j|-I|.|knob\n-j|-I|.|knob|nothing\n-I|.|knob|stuck|ensure=present\n\
                    -j|-I|.|knob|stuck|ensure=present\n-I|.|knob|a|ensure=absent\n-I|.|knob";
    snapshot("ralsh-knob.txt", &transcript(&place, commands));
}

#[test]
fn invalid_ralsh_request_is_refused_before_calls() {
    let place = settings();
    let commands = "--bogus\n-x\n-l|bogus|-I|.\n-l\n-I\n-t|-x\n-t|h|-I|.\n-e\n-e|-j\n-e|-j|setting\nnosuch\n\
                    -j|nosuch\nsetting::nosuch|-I|.\n-I|.|setting|a|zzz=1\n-I|.|setting|a|size=1\n\
                    -I|.|setting|a|name=b\n-I|.|setting|a|value\n-I|.|setting|a|=1\n-I|.|setting|a|ensure=bogus\n\
                    -I|.|setting|a|loud=yes\n-I|.|setting|a|tags=a,,b\n-j|-I|.|setting|a|zzz=1";
    snapshot("ralsh-refused.txt", &transcript(&place, commands));
    assert_eq!(calls(&place), ["ral_action=describe"]);
}

#[test]
fn options_accept_every_libral_form() {
    let place = settings();
    let run = |args: &[&str]| ralsh(&place, args);
    let found = run(&["-I", ".", "setting", "a"]);
    for args in [
        ["--include", ".", "setting", "a"].as_slice(),
        &["--incl=.", "setting", "a"],
        &["-I.", "setting", "a"],
        &["setting", "-I.", "a"],
        &["-I.", "--", "setting", "a"],
        &["-I", ".", "-I", ".", "setting", "a"],
    ] {
        assert_eq!(run(args), found, "{args:?}");
    }
    assert_eq!(run(&["-I.", "--abs", "setting", "a"]).code, 1);
    assert_eq!(run(&["-aI.", "setting", "a"]).code, 1);
    assert_eq!(run(&["-I.", "setting", "--", "-a"]).stdout.lines().next(), Some("setting::setting { '-a':"));
}

#[test]
fn quiet_prints_only_errors_and_overrides_json() {
    let place = settings();
    let commands = "-q\n-q|-I|.|setting\n-q|-I|.|setting|a\n-q|-a|-I|.|setting|a\n-q|-I|.|setting|nothing\n\
                    -q|-I|.|setting|a|ensure=present\n-qj|-I|.|setting|a\n-q|-I|.|setting|stuck|ensure=present\n\
                    -qj|nosuch\n-q|-s";
    snapshot("ralsh-quiet.txt", &transcript(&place, commands));
    assert!(place.path().join("providers/set-a").exists());
}

#[test]
fn provider_lines_are_filtered_by_level() {
    let place = Place::new();
    let noisy = SETTING.replace(
        "list)",
        "list) for level in debug info warn error; do echo \"$level: a $level\" >&2; done; echo 'warning: two' >&2; \
         echo plain >&2;",
    );
    script(&place, "setting.prov", &noisy);
    let commands = "-I.|setting\n-I.|-l|none|setting\n-I.|-l|fatal|setting\n-I.|-l|ERROR|setting\n\
                    -I.|-l|info|setting\n-I.|-l|debug|setting";
    snapshot("ralsh-levels.txt", &transcript(&place, commands));
}

#[test]
fn libral_type_names_are_aliases() {
    let place = Place::new();
    for name in ["user", "user::shadow", "user::useradd"] {
        let ended = ralsh(&place, &["-j", name, "root"]);
        let told: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!((ended.code, &told["resource"]["uid"]), (0, &serde_json::json!(0)), "{name}");
        assert_eq!(told["resource"]["ral"]["provider"], "user::shadow");
        assert_eq!(told["resource"]["password"], "[redacted]");
    }
    assert_eq!(
        ralsh(&place, &["user", "no-such-user"]).stdout,
        "user::shadow { 'no-such-user':\n  ensure => 'absent',\n}\n"
    );
    assert_eq!(ralsh(&place, &["-a", "user", "no-such-user"]).code, 1);
    let path = place.file("a file", "x");
    let linked = ralsh(&place, &["-jq", "file", &path, "ensure=absent"]);
    assert_eq!((linked.code, linked.stdout.as_str()), (0, ""));
    let linked = ralsh(&place, &["-j", "file", &path, "ensure=link", "target=/nowhere"]);
    let told: serde_json::Value = serde_json::from_str(&linked.stdout).unwrap();
    assert_eq!((&told["result"][0]["resource"]["ensure"], linked.code), (&serde_json::json!("link"), 0));
    assert!(told["result"][0]["resource"].get("mode").is_none_or(|mode| mode == "0777"), "{}", linked.stdout);
    let ended = ralsh(&place, &["file::posix", &path, "ensure=absent"]);
    assert_eq!(
        ended.stdout, "file::posix { 'DIR/a file':\n  ensure => 'absent',\n}\nensure(link->absent)\n\n",
        "{}",
        ended.stderr
    );
    assert!(!std::path::Path::new(&path).exists());
}

#[test]
fn single_attribute_change_fills_required_attributes() {
    let place = Place::new();
    let hosts = place.file("hosts", "10.0.0.1\tdb\n");
    let target = format!("target={hosts}");
    let ended = ralsh(&place, &["host", "db", "comment=old", &target]);
    let told = "host::hosts { 'db':\n  ensure       => 'present',\n  comment      => 'old',\n  host_aliases => [],\n  \
                ip           => '10.0.0.1',\n  target       => 'DIR/hosts',\n}\ncomment((none)->old)\n\n";
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (0, told, ""));
    assert_eq!(std::fs::read_to_string(&hosts).unwrap(), "10.0.0.1\tdb\t# old\n");
    let ended = ralsh(&place, &["host", "new", "comment=old", &target]);
    assert_eq!((ended.code, ended.stdout.as_str()), (2, ""));
    assert!(ended.stderr.contains("an entry needs an address"), "{}", ended.stderr);
}

#[test]
fn provider_list_as_json_is_complete() {
    let place = settings();
    let ended = ralsh(&place, &["-j", "-I."]);
    let told: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(ended.stdout.lines().count(), 1);
    let providers = told["providers"].as_array().unwrap();
    let names: Vec<&str> = providers.iter().map(|provider| provider["name"].as_str().unwrap()).collect();
    assert_eq!(ralsh(&place, &["-I."]).stdout.lines().collect::<Vec<_>>(), names);
    let setting = providers.iter().find(|provider| provider["type"] == "setting").unwrap();
    snapshot("ralsh-provider.json", &format!("{setting:#}\n"));
    assert_eq!(providers[0]["source"], "builtin");
}

#[test]
fn first_interrupt_lets_change_finish() {
    let place = Place::new();
    script(&place, "setting.prov", &SETTING.replace("update)\n", "update)\n  touch begun; sleep 60\n"));
    let mut command = place.command(&["-I", ".", "setting", "colour", "value=red"]);
    command.arg0("ralsh").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let (mut child, begun) = (command.spawn().unwrap(), Instant::now());
    wait("the change", || place.path().join("providers/begun").exists());
    let interrupt = |child: &Child| kill_process(Pid::from_child(child), Signal::INT).unwrap();
    interrupt(&child);
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let told = lines.find(|line| line.contains("interrupted")).unwrap();
    assert!(told.contains("1 in flight will be finished; once more ends them too"), "{told}");
    interrupt(&child);
    lines.for_each(drop);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(begun.elapsed() < Duration::from_secs(30), "nobody waits for a minute");
}

#[test]
fn interrupted_change_is_reported_correctly() {
    let place = Place::new();
    let slow = "update)\n  touch begun; while [ ! -e go ]; do sleep 0.01; done\n";
    script(&place, "setting.prov", &SETTING.replace("update)\n", slow));
    let mut command = place.command(&["-I", ".", "setting", "colour", "value=red"]);
    command.arg0("ralsh").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    wait("the change", || place.path().join("providers/begun").exists());
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    std::fs::write(place.path().join("providers/go"), "").unwrap();
    let ended = place.ended(child.wait_with_output().unwrap());
    assert_eq!(ended.code, 130, "{}", ended.stderr);
    assert!(ended.stdout.contains("setting::setting") && ended.stdout.contains("red"), "{}", ended.stdout);
    assert!(!ended.stderr.contains("failed"), "{}", ended.stderr);
}
