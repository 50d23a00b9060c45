//! Providers that are scripts.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Ended, Place};

/// Keeps resources as files beside itself, in the form of the convention simple.
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
END
  exit;;
esac
echo '# simple'
case "$ral_action" in
list) cat set-* 2>/dev/null;;
find) cat "set-$name" 2>/dev/null || { echo "name: $name"; echo "ensure: absent"; };;
update)
  if [ "$ensure" = absent ]; then rm "set-$name"
  else printf 'name: %s\nensure: present\nvalue: %s\n' "$name" "$value" >"set-$name"; fi
  echo 'info: it is written' >&2
  echo 'ral_derive: true';;
esac
exit 0
"##;

fn script(place: &Place, name: &str, content: &str) {
    let directory = place.path().join("providers");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = directory.join(name);
    std::fs::write(&path, content).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn keeper() -> Place {
    let place = Place::new();
    script(&place, "keeper.prov", KEEPER);
    place
}

#[test]
fn provider_that_a_required_file_makes_suitable_is_unknown_in_a_plan() {
    let place = Place::new();
    let computed = KEEPER.replace("cat <<'END'", "is=false; [ -e ready ] && is=true\n  cat <<END");
    script(&place, "keeper.prov", &computed.replace("{commands: [bash]}", "$is"));
    let ready = place.path().join("providers/ready").display().to_string();
    let manifest = |relation: &str| {
        format!("resources:\n  file[{ready}]: {{ content: x }}\n  setting[a]: {{ value: x{relation} }}\n")
    };
    place.file("free.yaml", manifest(""));
    let ended = place.run(&["-I", "providers", "plan", "free.yaml"]);
    assert!(ended.code == 4 && ended.stdout.contains("✗ setting[a] failed"), "{ended:?}");
    place.file("m.yaml", manifest(&format!(", require: 'file[{ready}]'")));
    let ended = place.run(&["-I", "providers", "plan", "m.yaml"]);
    let expected = "? setting[a] not known yet\n    known after file[DIR/providers/ready] (the provider `keeper` of \
                    setting is not suitable here: its metadata says `false`)\n";
    assert!(ended.code == 2 && ended.stdout.contains(expected), "{ended:?}");
    let ended = place.run(&["-I", "providers", "apply", "m.yaml"]);
    assert!(ended.code == 0 && ended.stdout.contains("2 resources: 2 changed"), "{ended:?}");
}

/// A line of a script that tells something: it cannot write a file while it reads.
fn telling(what: &str, to: &std::net::TcpListener) -> String {
    format!("echo \"{what}\" >/dev/tcp/127.0.0.1/{}\n", to.local_addr().unwrap().port())
}

fn heard(by: &std::net::TcpListener) -> String {
    let mut text = String::new();
    by.accept().unwrap().0.read_to_string(&mut text).unwrap();
    text
}

/// Returns the exit status and output of a command that gets a signal while a script hangs after printing its process
/// number. The script has ended by then.
fn ended_by(signal: Signal, place: &Place, args: &[&str], told: &std::net::TcpListener) -> (Option<i32>, String) {
    let child = place.command(args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let script = heard(told).trim().to_owned();
    kill_process(Pid::from_child(&child), signal).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(!std::path::Path::new(&format!("/proc/{script}")).exists(), "{args:?}");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn run(place: &Place, args: &[&str]) -> Ended {
    place.run(&[args, &["-I", "."]].concat())
}

#[test]
fn a_script_is_a_provider_of_its_type() {
    let place = Place::new();
    let told = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    script(&place, "keeper.prov", &KEEPER.replace("eval \"$@\"", &format!("{}eval \"$@\"", telling("$*", &told))));
    let ended = run(&place, &["types"]);
    let is_it = |line: &str| line.split_whitespace().eq(["setting", "keeper", "Settings", "of", "a", "program."]);
    assert!(ended.stdout.lines().any(is_it), "{}", ended.stdout);
    let described = run(&place, &["types", "setting"]).stdout;
    assert!(described.contains("provider keeper") && described.contains("Enum['present', 'absent']"), "{described}");
    assert_eq!(heard(&told), "ral_action=describe\n");
    told.set_nonblocking(true).unwrap();
    assert!(told.accept().is_err(), "it was asked once what it is");
}

#[test]
fn resources_of_a_script_are_read_set_planned_and_applied() {
    let place = keeper();
    let ended = run(&place, &["set", "setting", "colour", "ensure=present", "value=it's $(id)"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{}", ended.stdout);
    assert!(
        ended.stdout.contains("value: undef → it's $(id)") || ended.stdout.contains("it's $(id)"),
        "{}",
        ended.stdout
    );
    let ended = run(&place, &["get", "setting", "colour"]);
    assert_eq!(ended.stdout, "setting[colour]\n  ensure  present\n  value   it's $(id)\n");
    let manifest = place.file(
        "m.yaml",
        "resources:\n  setting[colour]: { ensure: present, value: red }\n  setting[size]:\n    ensure: present\n    \
         value: big\n    \
         require: setting[colour]\n",
    );
    assert_eq!(run(&place, &["plan", &manifest]).code, 2);
    assert_eq!(
        std::fs::read_to_string(place.path().join("providers/set-colour")).unwrap().lines().last(),
        Some("value: it's $(id)")
    );
    let ended = run(&place, &["apply", &manifest]);
    assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("2 changed"), "{}", ended.stdout);
    let ended = run(&place, &["apply", &manifest]);
    assert_eq!(ended.code, 0);
    assert!(ended.stdout.starts_with("2 resources: 2 unchanged"), "{}", ended.stdout);
    let listed = run(&place, &["get", "setting"]).stdout;
    assert!(listed.contains("colour") && listed.contains("size"), "{listed}");
    assert_eq!(run(&place, &["set", "setting[size]", "ensure=absent"]).code, 0);
    assert!(!place.path().join("providers/set-size").exists());
}

#[test]
fn manifest_is_checked_against_script_type() {
    let place = keeper();
    let manifest = place.file("m.yaml", "resources:\n  setting[colour]: { ensure: bogus, vaule: red }\n");
    let ended = run(&place, &["plan", &manifest]);
    assert_eq!(ended.code, 1);
    assert!(ended.stderr.contains("bogus") && ended.stderr.contains("did you mean `value`?"), "{}", ended.stderr);
}

#[test]
fn provider_directories_come_from_environment_and_default() {
    let place = keeper();
    let run = |list: &str| {
        let output = place.command(&["types"]).env("KILTER_PROVIDERS", list).output().unwrap();
        String::from_utf8(output.stdout).unwrap().contains("setting")
    };
    assert!(run(&format!("/nonexistent:{}", place.path().display())));
    assert!(!run("") && !run(":"), "no directory is not the working directory");
    assert!(!place.run(&["types"]).stdout.contains("setting"));
}

#[test]
fn invalid_script_is_reported_and_ignored() {
    let place = keeper();
    script(&place, "bad.prov", "#!/bin/sh\nexit 3\n");
    let ended = run(&place, &["get", "setting", "nosuch"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "setting[nosuch]\n  ensure  absent\n"));
    assert_eq!(
        ended.stderr,
        "warning: DIR/providers/bad.prov: not used: describe: it failed with exit code 3; a script with mold's \
         convention needs bad.yaml in the same directory; kilter tries again in 10 min, or when the file changes\n"
    );
}

#[test]
fn a_name_with_a_line_break_and_a_colour_forges_no_line() {
    let place = keeper();
    script(&place, "bad\nerror: \u{1b}[31mall is lost.prov", "#!/bin/sh\nexit 3\n");
    let ended = run(&place, &["get", "setting", "nosuch"]);
    let told = "warning: DIR/providers/bad\u{fffd}error: \u{fffd}[31mall is lost.prov: not used:";
    assert!(ended.stderr.starts_with(told) && ended.stderr.lines().count() == 1, "{}", ended.stderr);
    // Nor does what it says that it is.
    for (known, said) in [
        ("invoke: simple", "invoke: \"a\\nerror: b\""),
        ("invoke: simple", "invoke: mold"),
        ("invoke: simple", "invoke: simple\n  autorequire: {\"a\\nerror: b\": [x]}"),
        ("    value:", "    \"v\\nerror: b\": {}\n    value:"),
    ] {
        assert!(KEEPER.contains(known));
        script(&place, "bad\nerror: \u{1b}[31mall is lost.prov", &KEEPER.replacen(known, said, 1));
        let ended = run(&place, &["get", "setting", "nosuch"]);
        assert!(ended.stderr.starts_with(told), "{said}: {}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{said}: {}", ended.stderr);
    }
}

#[test]
fn second_script_of_type_needs_provider_name() {
    let place = keeper();
    script(&place, "other.prov", KEEPER);
    let ended = run(&place, &["get", "setting", "a"]);
    assert_eq!(ended.code, 1);
    assert_eq!(
        ended.stderr,
        "error: the type `setting` has several providers that are suitable, and none is preferred: keeper, other\n  \
         hint: name one: \
         setting::keeper here, `provider: keeper` in a manifest\n"
    );
    assert_eq!(run(&place, &["get", "setting::other", "a"]).stdout, "setting[a]\n  ensure  absent\n");
    let ended = run(&place, &["set", "setting::other[a]", "ensure=present", "value=1"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let manifest =
        place.file("m.yaml", "resources:\n  setting[a]: { ensure: present, value: '1', provider: keeper }\n");
    assert_eq!(run(&place, &["plan", &manifest]).code, 0);
    let manifest = place.file("n.yaml", "resources:\n  setting[a]: { ensure: present }\n");
    let ended = run(&place, &["plan", &manifest]);
    assert_eq!(ended.code, 1);
    assert!(ended.stderr.contains("keeper, other"), "{}", ended.stderr);
}

#[test]
fn an_unsuitable_script_is_listed_and_not_used() {
    let place = Place::new();
    script(&place, "dnf.prov", &KEEPER.replace("[bash]", "[nosuchcommand]"));
    assert!(run(&place, &["types"]).stdout.contains("not suitable here: there is no command nosuchcommand"));
    let ended = run(&place, &["get", "setting"]);
    assert_eq!(ended.code, 1);
    assert_eq!(
        ended.stderr,
        "error: the provider `dnf` of setting is not suitable here: there is no command nosuchcommand\n"
    );
}

#[test]
fn plan_names_the_package_that_the_type_requires() {
    const PACKAGE: &str = "provider:\n  type: pack\n  invoke: simple\n  actions: [find, update]\n  suitable: true\n  \
                           owns: {lists: '/nonexistent/${vars.name}.list'}\n  attributes:\n    name:\n    ensure: \
                           {type: 'enum[present, absent]'}\n";
    const ABSENT: &str = "#!/bin/bash\neval \"$@\"\nprintf '# simple\\nname: %s\\nensure: absent\\n' \"$name\"\n";
    let place = Place::new();
    script(&place, "pack.prov", ABSENT);
    place.file("providers/pack.yaml", PACKAGE);
    script(&place, "gadget.prov", "#!/bin/bash\nexit 1\n");
    let requires = "  suitable: {commands: [nosuchcommand]}\n  autorequire: {pack: [gadget, other-gadget, shell]}\n";
    let metadata = PACKAGE.replace("type: pack", "type: gadget").replace("  suitable: true\n", requires);
    let metadata: Vec<&str> = metadata.lines().filter(|line| !line.contains("owns")).collect();
    place.file("providers/gadget.yaml", metadata.join("\n"));
    let reason = "known after pack[NAME] (the provider `gadget` of gadget is not suitable here";
    for (packages, more, named) in [
        (&["aaa", "shell", "gadget"][..], "", "gadget"),
        (&["aaa", "shell", "gadget"], "require: 'pack[aaa]'", "gadget"),
        (&["shell", "other-gadget"], "require: 'pack[shell]'", "other-gadget"),
        (&["aaa", "bbb"], "require: 'pack[bbb]'", "bbb"),
    ] {
        let packages: Vec<String> = packages.iter().map(|name| format!("  pack[{name}]: {{}}\n")).collect();
        place.file("m.yaml", format!("resources:\n{}  gadget[x]: {{{more}}}\n", packages.join("")));
        let plan = run(&place, &["plan", "m.yaml"]);
        assert_eq!(plan.code, 2, "{plan:?}");
        assert!(plan.stdout.contains(&reason.replace("NAME", named)), "{packages:?} {more}: {plan:?}");
    }
}

#[test]
fn resource_that_needs_a_declared_file_is_unknown_until_the_file_exists() {
    let place = Place::new();
    let at = place.path().display().to_string();
    let metadata = "provider:\n  type: unit\n  invoke: simple\n  actions: [find, update]\n  suitable: true\n  \
                    autorequire: {file: 'DIR/${vars.name}'}\n  attributes:\n    name:\n    ensure: {type: \
                    'enum[running, stopped]'}\n";
    let program = "#!/bin/bash\neval \"$@\"\necho '# simple'\nif [ \"$ral_action\" = update ]; then echo \"$ensure\" \
                   >\"DIR/$name\"; echo 'ral_derive: true'\nelif { read -r is <\"DIR/$name\"; } 2>/dev/null; then \
                   printf 'name: %s\\nensure: %s\\n' \"$name\" \"$is\"\nelse printf 'name: %s\\nral_unknown: true\\n' \
                   \"$name\"; fi\n";
    script(&place, "unit.prov", &program.replace("DIR", &at));
    place.file("providers/unit.yaml", metadata.replace("DIR", &at));
    let manifest =
        "resources:\n  unit[x]: {ensure: running}\n  file[DIR/x]: {content: \"stopped\\n\", replace: false}\n";
    place.file("m.yaml", manifest.replace("DIR", &at));
    let plan = run(&place, &["plan", "m.yaml", "-o", "p"]);
    assert_eq!(plan.code, 2, "{plan:?}");
    assert!(plan.stdout.contains("known after file[DIR/x] (it does not exist yet)"), "{plan:?}");
    let apply = run(&place, &["apply", "p"]);
    assert_eq!(apply.code, 0, "{apply:?}");
    assert_eq!(std::fs::read_to_string(place.path().join("x")).unwrap(), "running\n");
    std::fs::remove_file(place.path().join("x")).unwrap();
    place.file("m.yaml", "resources:\n  unit[x]: {ensure: running}\n");
    let alone = run(&place, &["plan", "m.yaml"]);
    assert!(alone.code == 4 && alone.stdout.contains("does not exist and cannot be created"), "{alone:?}");
}

#[test]
fn a_script_of_a_type_that_kilter_has_is_another_provider_of_it() {
    let place = Place::new();
    script(&place, "keeper.prov", &KEEPER.replace("type: setting", "type: host"));
    let described = run(&place, &["types", "host"]).stdout;
    assert!(
        described.contains("hosts  chosen")
            && described.contains("`hosts` is preferred; declare `provider: keeper` for this one"),
        "{described}"
    );
    script(&place, "keeper.prov", &KEEPER.replace("type: setting", "type: host\n  default: true"));
    assert!(run(&place, &["types", "host"]).stdout.contains("keeper  chosen"));
}

#[test]
fn missing_provider_directory_is_reported() {
    let ended = Place::new().run(&["-I", "nowhere", "get", "host", "x"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (0, "warning: nowhere: there is no such provider directory\n"));
}

#[test]
fn interrupt_ends_running_get() {
    let place = keeper();
    let told = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let find = format!("find) {}sleep 60;;\nnever)", telling("$$", &told));
    script(&place, "keeper.prov", &KEEPER.replace("find)", &find));
    run(&place, &["types"]);
    let begun = std::time::Instant::now();
    let (code, said) = ended_by(Signal::INT, &place, &["-I", ".", "get", "setting", "a"], &told);
    assert_eq!(code, Some(130), "{said}");
    assert!(begun.elapsed().as_secs() < 30, "nobody waits for a minute");
}

#[test]
fn noop_interrupt_ends_running_script() {
    let place = keeper();
    let told = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let find = format!("find) {}sleep 60;;\nnever)", telling("$$", &told));
    script(&place, "keeper.prov", &KEEPER.replace("find)", &find));
    place.file("site.yaml", "resources:\n  setting[a]: { value: x }\n  noop[b]: { require: 'setting[a]' }\n");
    run(&place, &["types"]);
    let commands: [&[&str]; 4] = [
        &["plan", "site.yaml"],
        &["apply", "--noop", "site.yaml"],
        &["run", "--noop", "site.yaml"],
        &["set", "--noop", "setting", "a", "value=x"],
    ];
    let mut child = place.command(&["-I", ".", "plan", "--format", "json", "site.yaml"]);
    let child = child.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    heard(&told);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&child.wait_with_output().unwrap().stdout).unwrap();
    let counts = |name: &str| report["counts"][name].as_u64();
    assert_eq!((counts("failed"), counts("skipped"), counts("interrupted")), (Some(0), Some(0), Some(2)), "{report}");
    for words in commands {
        let begun = std::time::Instant::now();
        let (code, said) = ended_by(Signal::INT, &place, &[&["-I", "."][..], words].concat(), &told);
        assert_eq!(code, Some(130), "{words:?}: {said}");
        assert!(said.contains("interrupted: 1 in flight are being ended; once more kills them"), "{words:?}: {said}");
        assert!(!said.contains("fail"), "it has failed at nothing: {words:?}: {said}");
        assert!(begun.elapsed().as_secs() < 30, "{words:?}: nobody waits for a minute");
    }
}

#[test]
fn a_script_that_hangs_before_its_type_is_known_ends_with_a_signal() {
    let place = keeper();
    let told = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let hanging = KEEPER.replace("describe)", &format!("describe) {}sleep 60;;\nnever)", telling("$$", &told)));
    script(&place, "keeper.prov", &hanging);
    place.file("site.yaml", "resources: {}\n");
    let file = place.path().join("providers/keeper.prov");
    let file = file.to_str().unwrap();
    let commands: [&[&str]; 11] = [
        &["types"],
        &["get", "setting"],
        &["set", "setting", "a", "ensure=present"],
        &["act", "setting[a]", "go"],
        &["apply", "site.yaml"],
        &["plan", "site.yaml"],
        &["graph", "site.yaml"],
        &["schema", "manifest"],
        &["completions", "bash"],
        &["provider", "check", "setting"],
        &["provider", "check", file],
    ];
    for words in commands {
        let (code, said) = ended_by(Signal::INT, &place, &[&["-I", "."][..], words].concat(), &told);
        assert_eq!(code, Some(130), "{words:?}: {said}");
        assert!(said == "interrupted\n" || words[0] == "provider", "{words:?}: {said}");
    }
    // What nobody waited for is asked again, and not believed to be wrong.
    script(&place, "keeper.prov", KEEPER);
    assert_eq!(run(&place, &["get", "setting", "a"]).code, 0);
}

/// The same type as another provider has it, which is not the usual one.
const OTHER_KEEPER: &str = r#"#!/bin/bash
eval "$@"
[ "$ral_action" = describe ] && cat <<'END' && exit
provider:
  type: setting
  invoke: simple
  suitable: true
  default: false
  attributes:
    name: {desc: Its name.}
    ensure: {type: "enum[present, absent]"}
    value: {type: "Integer"}
    colour: {type: "string"}
    password: {type: "Sensitive[String]"}
END
echo '# simple'
[ "$ral_action" = find ] && printf 'name: %s\nensure: absent\n' "$name"
exit 0
"#;

#[test]
fn a_resource_that_names_its_provider_has_the_attributes_of_that() {
    let place = Place::new();
    script(&place, "keeper.prov", &KEEPER.replace("invoke: simple", "invoke: simple\n  default: true"));
    script(&place, "other.prov", OTHER_KEEPER);
    let planned = |resources: &str| {
        place.file("site.yaml", format!("vars: {{p: other}}\nresources:\n{resources}\n"));
        run(&place, &["plan", "site.yaml"])
    };
    let whole = "ensure: present, value: 7, colour: red, password: '${vars.p}'";
    for provider in ["other", "${vars.p}"] {
        let planned = planned(&format!("  setting[a]: {{{whole}, provider: '{provider}'}}"));
        assert_eq!((planned.code, planned.stderr.as_str()), (2, ""), "{}", planned.stdout);
        assert!(planned.stdout.contains("colour") && planned.stdout.contains("[redacted]"), "{}", planned.stdout);
    }
    let wrong = planned("  setting[a]: {ensure: present, provider: other, value: x}");
    assert!(wrong.stderr.contains("`value` expects an Integer"), "{}", wrong.stderr);
    let usual = planned("  setting[a]: {ensure: present, colour: red}");
    assert!(usual.stderr.contains("`setting` has no attribute `colour`"), "{}", usual.stderr);
    assert_eq!(planned("  setting[a]: {ensure: present, value: x, provider: keeper}").code, 2);
    // An editor takes what any of them takes.
    let schema: serde_json::Value = serde_json::from_str(&run(&place, &["schema", "manifest"]).stdout).unwrap();
    let properties = &schema["$defs"]["type.setting"]["properties"];
    let takes = |name: &str, what: &str| properties[name]["anyOf"].to_string().contains(what);
    assert!(takes("colour", "string") && takes("value", "integer") && takes("value", "string"), "{properties}");
}

#[test]
fn kilter_dies_of_signal_during_uninterruptible_work() {
    let place = keeper();
    let commands: [&[&str]; 5] = [
        &["set", "file", "/nowhere/a", "content=-"],
        &["apply", "-"],
        &["plan", "-"],
        &["plan", "/dev/stdin"],
        &["graph", "-"],
    ];
    for words in commands {
        let mut command = place.command(&[&["-I", "."][..], words].concat());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // More than a pipe holds: it is reading its input when that has gone.
        child.stdin.as_mut().unwrap().write_all(&[b'#'; 1 << 18]).unwrap();
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let status = std::os::unix::process::ExitStatusExt::signal(&child.wait().unwrap());
        assert_eq!(status, Some(Signal::INT.as_raw()), "{words:?}");
    }
}

#[test]
fn a_fact_that_hangs_ends_with_a_signal() {
    let place = keeper();
    let told = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    script(&place, "keeper.prov", &KEEPER.replace("suitable: {commands: [bash]}", "suitable: \"slow = 'x'\""));
    let facts = place.path().join("facts");
    std::fs::create_dir(&facts).unwrap();
    std::fs::write(facts.join("slow"), format!("#!/bin/bash\n{}sleep 60\n", telling("$$", &told))).unwrap();
    std::fs::set_permissions(facts.join("slow"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let commands: [&[&str]; 6] = [
        &["facts"],
        &["facts", "slow"],
        &["types"],
        &["types", "setting"],
        &["get", "setting"],
        &["set", "setting", "a", "ensure=present"],
    ];
    for words in commands {
        let (code, said) = ended_by(Signal::TERM, &place, &[&["--mold", ".", "-I", "."][..], words].concat(), &told);
        assert_eq!(code, Some(143), "{words:?}: {said}");
        assert_eq!(said.lines().filter(|line| line.starts_with("interrupted")).count(), 1, "{words:?}: {said}");
    }
}

#[test]
fn leftovers_of_describe_are_ended() {
    let place = keeper();
    let told = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let leaving = format!("describe)\n  sleep 60 &\n  {}", telling("$!", &told));
    script(&place, "keeper.prov", &KEEPER.replace("describe)\n", &leaving));
    let ended = run(&place, &["types", "setting"]);
    assert_eq!(ended.code, 0);
    assert!(ended.stderr.contains("its description left a process"), "{}", ended.stderr);
    // Whoever inherits it may not have looked yet.
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", heard(&told).trim())).unwrap_or_default();
    assert!(stat.is_empty() || stat.contains(") Z "), "{stat}");
}

#[test]
fn a_script_that_lies_about_its_change_fails() {
    let place = keeper();
    script(&place, "keeper.prov", &KEEPER.replace("update)", "update) echo 'ral_derive: true';;\nnever)"));
    let ended = run(&place, &["set", "setting", "a", "ensure=present"]);
    assert_eq!(ended.code, 4);
    assert!(
        ended.stdout.contains(
            "still not in its state after the change: ensure is absent, should be present (update by the provider \
             `keeper`, simple, DIR/providers/keeper.prov)\n"
        ),
        "{}",
        ended.stdout
    );
}

#[test]
fn script_failure_has_full_context() {
    let place = keeper();
    script(&place, "keeper.prov", &KEEPER.replace("update)", "update) echo 'disk full' >&2; exit 5;;\nnever)"));
    let ended = run(&place, &["set", "setting", "a", "ensure=present"]);
    assert_eq!(ended.code, 4);
    let expected = "update of setting[a] by the provider `keeper` (simple, DIR/providers/keeper.prov): it failed with \
                    exit code 5 (last on \
                    its standard error: disk full)";
    assert!(ended.stdout.contains(expected), "{}", ended.stdout);
}

#[test]
fn unchangeable_script_resource_fails_in_plan_unless_noop() {
    let place = Place::new();
    script(&place, "keeper.prov", &KEEPER.replace("  suitable:", "  actions: [list, find]\n  suitable:"));
    let manifest = |of_a: &str| place.file("m.yaml", format!("resources:\n  setting[a]: {{ {of_a} }}\n"));
    let path = manifest("ensure: present");
    let why = "the provider `keeper` of setting can only read: it has no action `update`";
    let set = ["set", "setting", "a", "ensure=present", "--noop"];
    for args in [&set[..], &set[..4], &["plan", &path], &["apply", &path]] {
        let ended = run(&place, args);
        assert!((ended.code, ended.stdout.contains(why)) == (4, true), "{args:?}: {ended:?}");
    }
    let path = manifest("ensure: absent");
    assert_eq!((run(&place, &["plan", &path]).code, run(&place, &["apply", &path]).code), (0, 0));
    let path = manifest("ensure: present, meta: { policy: observe }");
    assert_eq!((run(&place, &["plan", &path]).code, run(&place, &["apply", &path]).code), (2, 0));
    assert!(run(&place, &["apply", &path]).stdout.contains(&format!("    | it could not be changed: {why}\n")));
}

/// A setting whose script answers a preview, and a change, with the contents of the file `answer`.
fn foretelling() -> Place {
    let place = Place::new();
    let told = "update)\n  cat answer; [ -n \"$ral_noop\" ] && exit";
    let keeper = KEEPER.replace("update)", told).replace("  suitable:", "  noop_safe: true\n  suitable:");
    let keeper = keeper.replace("value: {type: string}", "value: {type: string}\n    size: {kind: r, type: Integer}");
    script(&place, "keeper.prov", &keeper.replace("value: %s\\n", "value: %s\\nsize: 5\\n"));
    script(&place, "set-a", "name: a\nensure: present\nvalue: 1\nsize: 5\n");
    place
}

#[test]
fn script_preview_is_shown_with_differences() {
    let place = foretelling();
    let set = |more: &[&str]| run(&place, &[&["set", "setting", "a", "value=2", "--noop"], more].concat());
    let shown = |answer: &str| {
        script(&place, "answer", answer);
        let ended = set(&[]);
        assert_eq!((ended.code, ended.stderr.as_str()), (2, ""), "{ended:?}");
        ended.stdout.lines().skip(1).filter(|line| line.starts_with(' ')).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(shown("ral_derive: true\n"), "    value: 1 → 2");
    assert_eq!(shown("value: 2\n"), "    value: 1 → 2");
    assert_eq!(
        shown("value: 3\nral_was: 1\nsize: 6\nother: x\n"),
        "    value: 1 → 2\n    value: 1 → 3 (reported by its provider)\n    size: 5 → 6 (reported by its \
         provider)\n    \
         other: (none) → x (reported by its provider)"
    );
    assert_eq!(shown(""), "    value: 1 → 2\n    | the provider `keeper` reports that it would change nothing");
    script(&place, "answer", "size: 6\nral_derive: true\n");
    let report: serde_json::Value = serde_json::from_str(&set(&["--format", "json"]).stdout).unwrap();
    let told = serde_json::json!([{ "attribute": "size", "is": 5, "should": 6 }]);
    assert_eq!(report["resources"][0]["unplanned_changes"], told);
    assert_eq!(report["resources"][0]["differences"].as_array().unwrap().len(), 1);
}

#[test]
fn script_preview_redacts_secrets() {
    let place = foretelling();
    let keeper = std::fs::read_to_string(place.path().join("providers/keeper.prov")).unwrap();
    script(&place, "keeper.prov", &keeper.replace("value: {type: string}", "value: {type: \"Sensitive[String]\"}"));
    script(&place, "answer", "value: hunter-3\nral_was: hunter-1\nother: hunter-2 hunter-3\n");
    script(&place, "set-a", "name: a\nensure: present\nvalue: hunter-1\n");
    let shown = [&["set", "setting", "a", "value=hunter-2", "--noop"][..], &["--format", "json"]];
    for args in [shown[0].to_vec(), shown.concat()] {
        let ended = run(&place, &args);
        assert!(ended.code == 2 && ended.stdout.contains("other"), "{ended:?}");
        assert!(!format!("{ended:?}").contains("hunter"), "{ended:?}");
    }
}

#[test]
fn plan_stores_script_preview() {
    let place = foretelling();
    let manifest = place.file("m.yaml", "resources:\n  setting[a]: { ensure: present, value: '2' }\n");
    let said = "    size: 5 → 6 (reported by its provider)\n";
    script(&place, "answer", "size: 6\nral_was: 5\n");
    let plan = run(&place, &["plan", &manifest, "-o", "plan.json"]);
    assert!(plan.code == 2 && plan.stdout.contains(said), "{plan:?}");
    script(&place, "answer", "size: 7\nral_was: 5\n");
    let moved = run(&place, &["apply", "plan.json"]);
    assert!(
        moved.code == 4 && moved.stdout.contains("`size` was planned to become 6, and would become 7"),
        "{moved:?}"
    );
    script(&place, "answer", "size: 6\nral_was: 5\n");
    let applied = run(&place, &["apply", "plan.json"]);
    assert!(applied.code == 0 && applied.stdout.contains(said), "{applied:?}");
}

/// A provider of any kind, and what it says of itself.
fn provider(place: &Place, name: &str, metadata: &str, script: &str) {
    std::fs::create_dir_all(place.path().join("providers")).unwrap();
    place.file(&format!("providers/{name}.yaml"), metadata);
    let script = script.replace("DIR", &place.path().display().to_string());
    let path = place.file(&format!("providers/{name}.prov"), script);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn script_resources_have_outputs_and_relations() {
    let place = Place::new();
    provider(
        &place,
        "site",
        "provider:\n  type: site\n  invoke: simple\n  actions: [find, update]\n  suitable: true\n  \
         identities: www.${vars.name}\n  outputs: {url: Where it is.}\n  autorequire: {file: $root}\n  \
         attributes:\n    \
         name:\n    root: {type: string}\n",
        "#!/bin/bash\neval \"$@\"\ncd DIR\necho '# simple'\ncase $ral_action in\n\
         find) printf 'name: %s\\nroot: %s\\nurl: http://%s:%s/\\n' \"$name\" \"$(cat at)\" \"$name\" \"$(wc -c < \
         at)\" ;;\n\
         update) printf %s \"$root\" > at; echo 'ral_derive: true' ;;\nesac\n",
    );
    provider(
        &place,
        "alias",
        "provider:\n  type: alias\n  invoke: mold\n  actions: [inspect]\n  suitable: true\n  outputs: {length: How \
         long it is.}\n  \
         autorequire: {site: $of}\n  attributes:\n    of: {type: string}\n",
        "#!/bin/sh\necho '{\"kind\": \"alias\", \"name\": \"x\", \"exists\": true, \"of\": \"www.blog\", \"length\": \
         8}'\n",
    );
    place.file("at", "");
    let root = place.path().join("root").display().to_string();
    let text = format!(
        "resources:\n  alias[x]: {{of: www.blog}}\n  file[{root}.url]: {{content: \"${{site[blog].url}} \
         ${{alias[x].length}}\"}}\n  \
         site[blog]: {{root: {root}}}\n  file[{root}]: {{ensure: directory}}\n"
    );
    let path = place.file("m.yaml", text);
    let graph = place.run(&["-I", ".", "graph", &path]);
    let behind =
        ["site[blog]\n    after file[DIR/root] (automatic: name)", "alias[x]\n    after site[blog] (automatic: name)"];
    assert!(behind.iter().all(|edge| graph.stdout.contains(edge)), "{graph:?}");
    let applied = place.run(&["-I", ".", "apply", &path]);
    assert_eq!(applied.code, 0, "{applied:?}");
    let url = std::fs::read_to_string(format!("{root}.url")).unwrap();
    assert_eq!(url, format!("http://blog:{}/ 8", root.len()), "as it is behind the change");
    let again = place.run(&["-I", ".", "apply", &path]);
    assert!(again.stdout.contains("4 unchanged"), "{again:?}");
}

#[test]
fn script_outputs_are_checked_against_declared_types() {
    let place = Place::new();
    let outputs = "outputs: {url: {type: String, desc: Where it is.}, port: {type: Integer, desc: Its port.}}";
    provider(
        &place,
        "site",
        &format!(
            "provider:\n  type: site\n  invoke: simple\n  actions: [find]\n  suitable: true\n  {outputs}\n  \
             attributes:\n    name:\n"
        ),
        "#!/bin/bash\neval \"$@\"\ncd DIR\necho '# simple'\nprintf 'name: %s\\nurl: x\\nport: %s\\n' \"$name\" \
         \"$(cat port)\"\n",
    );
    provider(
        &place,
        "alias",
        &format!("provider:\n  type: alias\n  invoke: mold\n  actions: [inspect]\n  suitable: true\n  {outputs}\n"),
        "#!/bin/sh\ncd DIR\necho '{\"kind\": \"alias\", \"name\": \"x\", \"exists\": true, \"port\": \"'\"$(cat \
         port)\"'\"}'\n",
    );
    let manifest = |attributes: &str| {
        place.file("m.yaml", format!("resources:\n  site[a]: {{}}\n  alias[x]: {{}}\n  test[t]: {{{attributes}}}\n"))
    };
    let refused = place.run(&["-I", ".", "plan", &manifest("int: '${site[a].url}'")]);
    assert!(refused.stderr.contains("`int` takes Integer, but `site[a].url` is String"), "{refused:?}");
    let fits = manifest("int: '${site[a].port}', int8: '${alias[x].port}'");
    place.file("port", "80");
    let applied = place.run(&["-I", ".", "apply", &fits]);
    assert_eq!(applied.code, 0, "{applied:?}");
    place.file("port", "many");
    let applied = place.run(&["-I", ".", "apply", &fits]);
    assert_eq!(applied.stdout.matches("port expects an Integer value, got String").count(), 2, "{applied:?}");
}

#[test]
fn script_output_and_relation_problems_have_places() {
    let place = Place::new();
    let script = "#!/bin/sh\necho '# simple'\n";
    let metadata = |rest: &str| {
        format!(
            "provider:\n  type: site\n  invoke: simple\n  suitable: true\n  attributes:\n    name:\n    root: {{type: \
             string}}\n  {rest}\n"
        )
    };
    for (rest, told) in [
        ("outputs: [url]", "expects a hash of outputs by name"),
        ("outputs: {url: {type: Integr}}", "there is no type Integr"),
        ("outputs: {root: x}", "`root` is an attribute and cannot be an output too"),
        ("autorequire: x", "expects a hash of titles by type"),
        ("autorequire: {file: $rot}", "there is no attribute `rot`"),
        ("autonotify: {file: '${vars.rot}'}", "there is no attribute `rot`"),
        ("outputs: {a-b: x}", "`a-b` cannot be the name of an output"),
        ("outputs: {ral_x: x}", "`ral_x` cannot be the name of an output"),
        ("identities: same", "`same` would be that of every resource"),
        ("identities: {a: b}", "`identities` are texts"),
        ("identities: '${vars.rot}'", "`identities`: there is no attribute `rot`"),
        ("watches: /etc", "`watches` are {path: …}"),
        ("watches: {path: etc}", "the path `etc` is not absolute"),
        ("watches: {path: /etc, scope: all}", "a `scope` is this, entries or tree"),
        ("watches: [{path: /etc}, {every: 0}]", "`every` is from 1 to 86400 seconds"),
        ("watches: {path: '/etc/${vars.rot}'}", "`watches`: there is no attribute `rot`"),
        ("identities: '${facts.os}'", "only the resource's own values may be used"),
    ] {
        provider(&place, "site", &metadata(rest), script);
        let ended = place.run(&["-I", ".", "types", "site"]);
        assert!(
            ended.code == 1 && ended.stderr.contains(told) && ended.stderr.contains("wrong: 8:"),
            "{rest}: {ended:?}"
        );
    }
}

#[test]
fn script_resources_may_be_parts() {
    let place = Place::new();
    provider(
        &place,
        "chain",
        "provider:\n  type: chain\n  invoke: json\n  actions: [get, set]\n  suitable: true\n  attributes:\n    \
         name:\n    \
         rules: {type: \"Hash[String, Struct[{Optional[accept] => String}]]\"}\n",
        "#!/usr/bin/python3\nimport json, os, sys\nplace = 'DIR/chain.'\nasked = json.load(sys.stdin)\n\
         def read(name):\n    try: return {'name': name, 'rules': json.load(open(place + name))}\n    except OSError: \
         return {'name': name, 'rules': {}}\n\
         if sys.argv[1] == 'ral_action=get':\n    names = asked.get('names') or []\n    \
         print(json.dumps({'resources': [read(name) for name in names]}))\n\
         else:\n    changes = []\n    for update in asked['updates']:\n        name, should = update['name'], \
         update['should']['rules']\n        \
         json.dump(should, open(place + name, 'w'))\n        open('DIR/calls', 'a').write('set\\n')\n        \
         changes.append({'name': name, 'rules': {'is': should, 'was': update['is']['rules']}})\n    \
         print(json.dumps({'changes': changes}))\n",
    );
    provider(
        &place,
        "rule",
        "provider:\n  type: rule\n  invoke: simple\n  actions: [list]\n  suitable: true\n  \
         part_of: {type: chain, by: chain, into: rules}\n  attributes:\n    name:\n    chain: {type: string}\n    \
         accept: {type: string}\n",
        "#!/bin/sh\necho '# simple'\n",
    );
    let text = "resources:\n  rule[ssh]: {chain: input, accept: ssh}\n  rule[web]: {chain: input, accept: \
                \"${exec[x].stdout}\"}\n  \
                exec[x]: {command: echo http, creates: DIR/none, verify: false}\n  chain[input]: {}\n";
    let path = place.file("m.yaml", text.replace("DIR", &place.path().display().to_string()));
    let applied = place.run(&["-I", ".", "apply", &path]);
    assert_eq!(applied.code, 0, "{applied:?}");
    let kept = std::fs::read_to_string(place.path().join("chain.input")).unwrap();
    assert_eq!(kept, r#"{"ssh": {"accept": "ssh"}, "web": {"accept": "http"}}"#);
    assert_eq!(std::fs::read_to_string(place.path().join("calls")).unwrap(), "set\n", "both in one call");
    let again = place.run(&["-I", ".", "plan", &path]);
    assert!(again.stdout.contains("1 unchanged") || again.stdout.contains("not known yet"), "{again:?}");
}

/// Finds resources by themselves only; `find` is how.
fn finder(find: &str) -> Place {
    let place = Place::new();
    let text = "#!/bin/bash\neval \"$@\"\nif [ \"$ral_action\" = describe ]; then cat <<'END'\nprovider:\n  type: \
                thing\n  \
                invoke: simple\n  actions: [find, update]\n  suitable: true\n  confine: false\n  attributes:\n    \
                name: {desc: Its name.}\n    \
                value: {type: string}\nEND\nexit; fi\ncd \"$(dirname \"$0\")\" || exit 9\n";
    script(&place, "finder.prov", &format!("{text}{find}\nprintf '# simple\\nname: %s\\nvalue: x\\n' \"$name\"\n"));
    let things: String = (0..6).map(|n| format!("  thing[t{n}]: {{ value: x }}\n")).collect();
    place.file("m.yaml", format!("resources:\n{things}"));
    place
}

#[test]
fn script_reads_are_limited_by_jobs() {
    // Each waits until all have come, but not for ever.
    let all = "$(ls at-* | wc -l) -ge 6";
    let wait = format!("for n in {{1..200}}; do [ {all} ] && break; sleep 0.05; done; [ {all} ] || exit 1");
    let place = finder(&format!("touch \"at-$name\"; {wait}"));
    let ended = run(&place, &["plan", "m.yaml", "-j", "6"]);
    assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
}

#[test]
fn partially_unreadable_script_list_is_shown() {
    let place = finder("[ $name != b ] || { echo 'it is locked' >&2; exit 1; }");
    let ended = run(&place, &["get", "thing", "a", "b", "c", "--format", "json"]);
    assert_eq!(ended.code, 4, "{ended:?}");
    let shown: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let names: Vec<&str> = shown.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["a", "c"]);
    assert!(
        ended.stderr.contains("error: cannot read thing[b]: ") && ended.stderr.contains("it is locked"),
        "{ended:?}"
    );
}

#[test]
fn with_one_job_each_resource_of_a_script_is_read_alone() {
    let place = finder("mkdir alone || exit 1; sleep 0.05; rmdir alone");
    let ended = run(&place, &["plan", "m.yaml", "-j", "1"]);
    assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
}

#[test]
fn missing_included_directory_is_a_warning() {
    let place = Place::new();
    let file = place.file("keeper.prov", KEEPER);
    for path in [file.as_str(), "/no/such/directory"] {
        let ended = place.run(&["-I", path, "types"]);
        let shown = path.replace(&place.path().display().to_string(), "DIR");
        assert_eq!((ended.code, ended.stderr), (0, format!("warning: {shown}: there is no such provider directory\n")));
    }
}

/// A provider of the type `knob`, whose values are what the file `is` says.
fn knob(place: &Place, convention: &str) {
    let metadata = "provider:\n  type: knob\n  invoke: INVOKE\n  suitable: true\n  attributes:\n    name: {desc: Its \
                    name.}\n    \
                    mode: {type: \"enum[low, high]\"}\n    size: {type: string}\n";
    let script = match convention {
        "simple" => {
            "#!/bin/bash\neval \"$@\"\ncd DIR\necho '# simple'\ncase $ral_action in\n\
             find) printf 'name: %s\\nmode: %s\\nsize: s\\n' \"$name\" \"$(cat is)\" ;;\n\
             update) echo \"$mode\" >is; echo 'ral_derive: true' ;;\nesac\n"
        }
        "json" => {
            "#!/usr/bin/python3 -IS\nimport json, os, sys\nos.chdir('DIR')\nasked = json.load(sys.stdin)\n\
             if sys.argv[1] == 'ral_action=get':\n    \
             print(json.dumps({'resources': [{'name': name, 'mode': open('is').read().strip(), 'size': 's'} for name \
             in asked['names']]}))\n\
             else:\n    open('is', 'w').write(asked['updates'][0]['should']['mode'])\n    print('{\"derive\": true}')\n"
        }
        _ => {
            "#!/usr/bin/python3 -IS\nimport json, os, sys\nos.chdir('DIR')\nasked = json.load(sys.stdin)\n\
             if sys.argv[1] == 'inspect':\n    \
             print(json.dumps({'kind': 'knob', 'name': asked['name'], 'exists': True, 'mode': \
             open('is').read().strip(), 'size': 's'}))\n\
             else:\n    open('is', 'w').write(asked['mode'])\n"
        }
    };
    provider(place, "knob", &metadata.replace("INVOKE", convention), script);
}

#[test]
fn found_value_outside_of_its_type_is_repaired_by_a_declared_one() {
    for convention in ["simple", "json", "mold"] {
        let place = Place::new();
        knob(&place, convention);
        place.file("is", "weird\n");
        let manifest = place.file("m.yaml", "resources:\n  knob[k]: {mode: high}\n");
        let plan = place.run(&["-I", ".", "plan", &manifest]);
        assert_eq!(plan.code, 2, "{convention}: {plan:?}");
        assert!(plan.stdout.contains("mode: weird → high"), "{convention}: {plan:?}");
        let applied = place.run(&["-I", ".", "apply", &manifest]);
        assert!(applied.code == 0 && applied.stdout.contains("1 changed"), "{convention}: {applied:?}");
        assert!(place.run(&["-I", ".", "apply", &manifest]).stdout.contains("1 unchanged"), "{convention}");
        // Nothing says what is right where nothing is declared, and a strict run takes no such value.
        place.file("is", "weird\n");
        let undeclared = place.file("m.yaml", "resources:\n  knob[k]: {size: s}\n");
        let plan = place.run(&["-I", ".", "plan", &undeclared]);
        assert!(plan.code == 4 && plan.stdout.contains("mode expects"), "{convention}: {plan:?}");
        place.file("m.yaml", "resources:\n  knob[k]: {mode: high}\n");
        let strict = place.run(&["-I", ".", "plan", &manifest, "--strict", "error"]);
        assert_eq!(strict.code, 4, "{convention}: {strict:?}");
    }
}

#[test]
fn unknown_resource_is_not_shown_as_absent() {
    let place = Place::new();
    provider(
        &place,
        "user",
        "provider:\n  type: account\n  invoke: simple\n  suitable: true\n  attributes:\n    name: {desc: Its \
         name.}\n    \
         ensure: {type: \"enum[present, absent]\"}\n",
        "#!/bin/bash\neval \"$@\"\necho '# simple'\necho \"name: $name\"\n[ \"$name\" = gone ] && echo 'ensure: \
         absent' || echo 'ral_unknown: true'\n",
    );
    let shown = |name: &str, format: &str| {
        let ended = place.run(&["-I", ".", "get", "account", name, "--format", format]);
        assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{ended:?}");
        ended.stdout
    };
    assert_eq!(shown("gone", "human"), "account[gone]\n  ensure  absent\n");
    assert_eq!(shown("x", "human"), "account[x]\n  does not exist and cannot be created\n");
    let json: serde_json::Value = serde_json::from_str(&shown("x", "json")).unwrap();
    assert_eq!((&json[0]["exists"], &json[0]["unknown"]), (&false.into(), &true.into()));
    assert_eq!(json[0]["attributes"], serde_json::json!({}));
    assert_eq!(shown("x", "yaml"), "resources:\n  # account[x] does not exist and cannot be created\n");
    let puppet = shown("x", "puppet");
    assert!(puppet.ends_with("\n# account[x] does not exist and cannot be created\n"), "{puppet}");
}
