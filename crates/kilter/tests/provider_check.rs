//! `kilter provider check`: the output of `kilter provider new` conforms, and a defect of a script breaks its law,
//! with the call that shows it.
//!
//! Sandboxes are mounted: these tests run as root.

#![expect(clippy::unwrap_used, reason = "a test may end where it cannot go on")]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value as Json;

struct CheckDir {
    directory: tempfile::TempDir,
}

impl CheckDir {
    /// A directory with the provider `colour` that `kilter provider new` writes.
    fn of(convention: &str) -> CheckDir {
        assert!(rustix::process::geteuid().is_root(), "run the tests as root: these ones mount file systems");
        let place = CheckDir { directory: tempfile::tempdir().unwrap() };
        std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let ended = place.kilter(&["provider", "new", convention, "colour"]);
        assert!(ended.status.success(), "{}", shown(&ended));
        place
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn kilter(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kilter"));
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", "/root").current_dir(self.path());
        command.env("KILTER_STATE_DIR", self.path().join("state")).args(args).output().unwrap()
    }

    /// Puts another text in the place of one in a file.
    fn change(&self, file: &str, from: &str, to: &str) {
        let path = self.path().join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{file} has no {from:?}");
        std::fs::write(path, text.replace(from, to)).unwrap();
    }

    /// The scorecard of `colour`, as a document.
    fn check(&self, args: &[&str]) -> (i32, Json) {
        let script = if self.path().join("resources").exists() { "resources/colour" } else { "colour.prov" };
        let output = self.kilter(&[&["provider", "check", script, "--format", "json"], args].concat());
        let document =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", shown(&output)));
        (output.status.code().unwrap(), document)
    }

    /// The law, which is broken, or cannot be tried.
    #[track_caller]
    fn broken(&self, law: &str) -> Json {
        let (code, document) = self.check(&["--law", law]);
        let found = document["laws"][0].clone();
        assert_eq!(
            (code, &document["conforming"], &found["law"]),
            (4, &Json::Bool(false), &Json::from(law)),
            "{document:#}"
        );
        assert_eq!(found["verdict"], "broken", "{document:#}");
        found
    }
}

fn shown(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The calls of a law as text: each with its command, its output and its end.
fn calls(law: &Json) -> Vec<String> {
    let text = |call: &Json, key: &str| call[key].as_str().unwrap_or_default().to_owned();
    let calls = law["exchanges"].as_array().unwrap();
    calls
        .iter()
        .map(|call| ["command", "stdin", "stdout", "stderr", "end"].map(|key| text(call, key)).join("\n"))
        .collect()
}

fn conforms(convention: &str, excused: &[&str]) {
    let place = CheckDir::of(convention);
    let (code, document) = place.check(&[]);
    assert_eq!((code, &document["conforming"]), (0, &Json::Bool(true)), "{document:#}");
    let laws = document["laws"].as_array().unwrap();
    let not_held = laws.iter().filter(|law| law["verdict"] != "held").map(|law| law["law"].as_str().unwrap());
    assert_eq!(not_held.collect::<Vec<_>>(), excused, "{document:#}");
    assert_eq!(document["place"], "sandboxes");
    // Nothing has reached the machine.
    assert!(!Path::new("/root/.config/colour.d").exists());
}

#[test]
fn generated_bash_provider_conforms() {
    let of_the_type = ["titles-fit-namevars", "other-attributes-stay", "a-refresh-is-served"];
    let of_the_convention = ["a-batch-is-one-by-one", "an-interrupt-ends-a-call"];
    conforms("simple", &[&of_the_type[..], &of_the_convention].concat());
}

#[test]
fn generated_python_provider_conforms() {
    let excused = ["titles-fit-namevars", "other-attributes-stay", "a-refresh-is-served", "an-interrupt-ends-a-call"];
    conforms("json", &excused);
}

#[test]
fn generated_mold_script_conforms() {
    let of_mold = ["some-are-among-all", "each-is-listed-once", "titles-fit-namevars"];
    let of_the_type = ["other-attributes-stay", "a-refresh-is-served"];
    let without_ensure = ["ensure-absent-removes", "absent-stays-absent", "a-batch-is-one-by-one"];
    let without_noop = ["preview-changes-nothing", "preview-foresees-rightly", "an-interrupt-ends-a-call"];
    conforms("mold", &[&of_mold[..], &of_the_type, &without_ensure, &without_noop].concat());
}

#[test]
fn check_shows_failed_removal() {
    let place = CheckDir::of("simple");
    place.change("colour.prov", "rm -f --", ": rm -f --");
    let law = place.broken("ensure-absent-removes");
    assert!(law["why"].as_str().unwrap().contains("after its set, sky still differs in `ensure`"), "{law:#}");
    let calls = calls(&law);
    assert!(calls.len() == 2 && calls[0].contains("\"ensure='absent'\" ral_action=update"), "{calls:#?}");
    assert!(
        calls[1].contains("\"name='sky'\" ral_action=find\n\n# simple\nname: sky\nensure: present\nvalue: blue\n"),
        "{calls:#?}"
    );
    assert!(calls[1].ends_with("exit code 0"), "{calls:#?}");
    // The command can be typed into a shell as it stands.
    let command = law["exchanges"][1]["command"].as_str().unwrap();
    let typed = Command::new("sh").args(["-c", command]).env("HOME", "/nonexistent").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&typed.stdout), "# simple\nname: sky\nensure: absent\n");
}

/// Adds the attribute `shade` to a provider in bash; what it has is beside what `value` is kept in.
fn with_shade(place: &CheckDir) {
    place.change(
        "colour.yaml",
        "    value:\n",
        "    shade: {type: 'Enum[light, dark]', desc: Its shade.}\n    value:\n",
    );
    place.change("colour.prov", "ensure: present\\nvalue: %s\\n", "ensure: present\\n%s\\n");
    place.change("colour.check.yaml", "present: {value: blue}", "present: {value: blue, shade: dark}");
    let merge = "        { grep -v -e nothing ${value+-e ^value:} ${shade+-e ^shade:} \"$directory/$name\" \
                 2>/dev/null\n        \
                 ${value+printf 'value: %s\\n' \"$value\"}; ${shade+printf 'shade: %s\\n' \"$shade\"}; true; }";
    place.change(
        "colour.prov",
        "if [ -z \"${value+given}\" ]; then value=$(cat \"$directory/$name\" 2>/dev/null); fi",
        ":",
    );
    place.change("colour.prov", "{ printf '%s\\n' \"$value\" >", &format!("{{ {} >", merge.trim()));
    place.change("colour.prov", "unset value", "unset value shade");
}

#[test]
fn update_that_clears_other_attributes_is_found() {
    let place = CheckDir::of("simple");
    with_shade(&place);
    let (code, document) = place.check(&["--law", "other-attributes-stay", "--law", "set-makes-what-was-asked"]);
    assert_eq!((code, &document["counts"]["held"]), (0, &Json::from(2)), "{document:#}");
    place.change("colour.prov", "grep -v -e nothing", "false");
    let law = place.broken("other-attributes-stay");
    let why = law["why"].as_str().unwrap();
    assert_eq!(
        why, "a change of `value` of sky alone has changed `shade` too: \"dark\" before, nothing after",
        "{law:#}"
    );
    // Where no specimen has two attributes, nothing was tested.
    place.change("colour.check.yaml", ", shade: dark", "");
    let (code, document) = place.check(&["--law", "other-attributes-stay"]);
    assert_eq!((code, &document["laws"][0]["verdict"]), (4, &Json::from("not_tested")), "{document:#}");
}

#[test]
fn error_for_an_absent_name_is_found_also_of_one_entry() {
    let place = CheckDir::of("simple");
    place.change("colour.prov", "echo 'ensure: absent'", "fail \"there is no $1\"");
    let law = place.broken("unknown-is-absent");
    assert!(law["why"].as_str().unwrap().contains("there is no nothing"), "{law:#}");
    let place = CheckDir::of("json");
    let entry = "[read(name) or {\"name\": name, \"error\": {\"message\": \"no such colour\"}} for name in";
    place.change("colour.prov", "[read(name) for name in", entry);
    let law = place.broken("unknown-is-absent");
    assert!(law["why"].as_str().unwrap().contains("no such colour"), "{law:#}");
}

#[test]
fn error_of_one_entry_that_is_there_is_found() {
    let place = CheckDir::of("json");
    let entry = "[dict(read(name), error={\"message\": \"it is locked\"}) if name == \"sky\" and read(name) else \
                 read(name) for name in";
    place.change("colour.prov", "[read(name) for name in", entry);
    let law = place.broken("set-makes-what-was-asked");
    assert!(law["why"].as_str().unwrap().contains("it is locked"), "{law:#}");
}

#[test]
fn update_that_crashes_for_an_attribute_is_found() {
    let place = CheckDir::of("simple");
    with_shade(&place);
    place.change("colour.check.yaml", ", shade: dark", "");
    place.change("colour.prov", "write() {", "write() {\n    [ -z \"${shade+given}\" ] || exit 3");
    let law = place.broken("edge-values-survive");
    let why = law["why"].as_str().unwrap();
    assert!(why.starts_with("shade = ") && why.contains("it crashed: update of colour[sky]"), "{why}");
    assert!(why.contains("it failed with exit code 3"), "{why}");
    assert!(
        calls(&law).iter().any(|call| call.contains("\"shade='light'\"") && call.contains("ral_action=update")),
        "{law:#}"
    );
}

#[test]
fn attribute_that_every_update_refuses_is_not_tested() {
    let place = CheckDir::of("simple");
    with_shade(&place);
    place.change("colour.check.yaml", ", shade: dark", "");
    place.change("colour.prov", "write() {", "write() {\n    [ -z \"${shade+given}\" ] || fail 'no shades today'");
    let (code, document) = place.check(&["--law", "edge-values-survive"]);
    assert_eq!((code, &document["laws"][0]["verdict"]), (4, &Json::from("not_tested")), "{document:#}");
    let why = document["laws"][0]["why"].as_str().unwrap();
    assert!(why.starts_with("no value could be set of `shade` (2 failed)"), "{why}");
    let human = place.kilter(&["provider", "check", "colour.prov", "--law", "edge-values-survive"]);
    assert!(shown(&human).contains("NOT TESTED"), "{}", shown(&human));
}

#[test]
fn set_without_changes_is_not_tested() {
    let place = CheckDir::of("simple");
    let change = |what: &str| {
        let file = place.path().join("colour.check.yaml");
        std::fs::write(file, what).unwrap();
        let (code, document) = place.check(&["--law", "set-makes-what-was-asked"]);
        let law = &document["laws"][0];
        assert_eq!((code, &law["verdict"]), (4, &Json::from("not_tested")), "{document:#}");
        law["why"].as_str().unwrap().to_owned()
    };
    let only_made = "specimens:\n  - {name: sky, present: {value: blue}}\n  - {name: grass, present: {value: green}, \
                     changed: [{value: green}]}\n";
    assert!(change(only_made).starts_with("no change of a resource that exists was tried"));
    let nothing =
        "specimens:\n  - {name: sky, present: {ensure: absent}}\n  - {name: grass, present: {ensure: absent}}\n";
    assert!(change(nothing).starts_with("nothing had to be set"));
}

#[test]
fn list_with_a_resource_twice_is_found() {
    let place = CheckDir::of("simple");
    place.change("colour.prov", "then show \"${file##*/}\"; fi", "then show \"${file##*/}\"; show \"${file##*/}\"; fi");
    let law = place.broken("each-is-listed-once");
    assert!(law["why"].as_str().unwrap().contains("it is listed more than once"), "{law:#}");
}

#[test]
fn set_without_effect_is_found() {
    let place = CheckDir::of("simple");
    place.change("colour.prov", "if [ \"$ensure\" = absent ]; then remove; else write; fi", ":");
    let law = place.broken("set-makes-what-was-asked");
    assert!(law["why"].as_str().unwrap().contains("still differs in"), "{law:#}");
    assert!(calls(&law)[0].contains("ral_derive: true"), "{law:#}");
}

#[test]
fn silent_write_in_get_is_found_with_path() {
    let place = CheckDir::of("simple");
    place.change("colour.prov", "list) list ;;", "list) mkdir -p /srv/looked 2>/dev/null; list ;;");
    let law = place.broken("get-changes-nothing");
    assert_eq!(law["why"].as_str().unwrap(), "a get of all tried to make /srv/looked, and was refused", "{law:#}");
    assert!(calls(&law).last().unwrap().contains("ral_action=list"), "{law:#}");
    place.change("colour.check.yaml", "ignore: []", "ignore: [/srv/looked]");
    assert_eq!(place.check(&["--law", "get-changes-nothing"]).0, 0);
}

#[test]
fn write_in_get_is_found_with_path() {
    let place = CheckDir::of("simple");
    place.change("colour.prov", "list) list ;;", "list) mkdir -p /srv/looked; list ;;");
    place.change("colour.yaml", "noop_safe: true", "noop_safe: true\n  confine: false");
    let law = place.broken("get-changes-nothing");
    let why = law["why"].as_str().unwrap();
    assert!(
        why.starts_with("a get of all changed the fingerprint of the sandbox: now `+ /srv/looked 0755 0:0 directory`"),
        "{why}"
    );
    assert!(calls(&law).last().unwrap().contains("ral_action=list"), "{law:#}");
    assert!(!Path::new("/srv/looked").exists());
    // Where the author says that it is noise, it is none.
    place.change("colour.check.yaml", "ignore: []", "ignore: [/srv/looked]");
    assert_eq!(place.check(&["--law", "get-changes-nothing"]).0, 0);
}

#[test]
fn unstable_get_is_shown_twice() {
    let place = CheckDir::of("simple");
    place.change("colour.prov", "\"$(cat \"$directory/$1\")\"", "\"$(cat \"$directory/$1\")-$RANDOM-$RANDOM\"");
    place.change("colour.prov", "if [ \"$ensure\" = absent ]; then remove; else write; fi", "write");
    // Nothing can be made that is told otherwise each time.
    let law = place.broken("set-makes-what-was-asked");
    let calls = calls(&law);
    assert!(calls.iter().filter(|call| call.contains("ral_action=find")).count() == 1, "{calls:#?}");
    let (code, document) = place.check(&["--law", "get-is-steady"]);
    assert_eq!((code, &document["laws"][0]["verdict"]), (4, &Json::from("not_tested")), "{document:#}");
    assert!(document["laws"][0]["exchanges"].as_array().is_some_and(|calls| !calls.is_empty()), "{document:#}");
}

#[test]
fn hanging_dying_or_binary_script_is_reported() {
    for (fault, told) in [
        ("exit 3", "exit code 3"),
        ("kill -9 $$", "signal 9"),
        ("printf '# simple\\nname: \\377\\n'; exit", "exit code 0"),
        ("printf '# simple\\nname: sk'; exit", "exit code 0"),
        ("exec sleep 100", "signal 15, since its time was up"),
        ("while :; do printf 'x\\033[2J'; done", "signal 15, since"),
    ] {
        let place = CheckDir::of("simple");
        place.change("colour.prov", "find) show \"$name\" ;;", &format!("find) {fault} ;;"));
        place.change("colour.yaml", "noop_safe: true", "noop_safe: true\n  timeout: 1");
        let law = place.broken("set-makes-what-was-asked");
        let calls = calls(&law);
        let last = calls.last().unwrap();
        assert!(
            last.contains("ral_action=find") && last.lines().last().unwrap().starts_with(told),
            "{fault}: {calls:#?}"
        );
    }
}

#[test]
fn lost_edge_values_are_found() {
    let place = CheckDir::of("simple");
    let path = place.path().join("colour.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, _) = text.split_once("      type: 'Pattern[/\\A[[:graph:]]").unwrap();
    std::fs::write(&path, format!("{before}      type: string\n      desc: What it is set to.\n")).unwrap();
    let law = place.broken("edge-values-survive");
    assert!(law["why"].as_str().unwrap().starts_with("value = "), "{law:#}");
    assert!(calls(&law).iter().any(|call| call.contains("ral_action=update")), "{law:#}");
}

#[test]
fn changing_preview_is_found() {
    let place = CheckDir::of("simple");
    place.change("colour.prov", "if [ -z \"$ral_noop\" ]; then", "if true; then");
    let law = place.broken("preview-foresees-rightly");
    assert!(calls(&law).iter().any(|call| call.contains("ral_noop='true'")), "{law:#}");
}

#[test]
fn failure_that_affects_others_is_found() {
    let place = CheckDir::of("json");
    place.change(
        "colour.prov",
        "        except OSError as error:\n            changes",
        "        except ValueError as error:\n            changes",
    );
    let law = place.broken("one-failure-is-alone");
    assert!(law["why"].as_str().unwrap().contains("was not made in a call in which another change failed"), "{law:#}");
    let calls = calls(&law);
    assert!(
        calls.iter().any(|call| call.contains("ral_action=set\n{\"ral\"") && call.contains("\"blocked\"")),
        "{calls:#?}"
    );
}

#[test]
fn broken_mold_script_is_found() {
    let place = CheckDir::of("mold");
    place.change("resources/colour", "            conform(document)", "            pass");
    let law = place.broken("set-makes-what-was-asked");
    assert!(calls(&law)[0].contains("resources/colour conform\n{\"kind\":\"colour\",\"name\":\"sky\""), "{law:#}");
}

#[test]
fn no_secret_is_in_the_calls_that_are_shown() {
    let place = CheckDir::of("json");
    place.change("colour.yaml", "type: string", "type: 'Sensitive[String]'");
    place.change("colour.check.yaml", "{value: blue}", "{value: \"hunter\\\"2\"}");
    place.change(
        "colour.prov",
        "        write(name, should.get(\"value\"",
        "        print(should.get(\"value\"), file=sys.stderr)\n        write(name, should.get(\"nothing\"",
    );
    let output = place.kilter(&["provider", "check", "colour.prov", "--law", "set-makes-what-was-asked"]);
    let text = shown(&output);
    assert!(
        output.status.code() == Some(4) && text.contains("[redacted]") && text.contains("ral_action=set"),
        "{text}"
    );
    assert!(!text.contains("hunter"), "{text}");
}

#[test]
fn obstacles_are_reported_before_trials() {
    let place = CheckDir::of("simple");
    place.change("colour.yaml", "invoke: simple", "invoke: simpel\n  suitabel: true");
    let output = place.kilter(&["provider", "check", "colour.prov"]);
    let text = shown(&output);
    assert_eq!(output.status.code(), Some(4), "{text}");
    assert!(text.contains("colour.yaml: 6:11: there is no calling convention `simpel`"), "{text}");
    assert!(text.ends_with("colour.prov cannot be used: no law was tested\n"), "{text}");
    let place = CheckDir::of("simple");
    place.change("colour.prov", "#!/bin/bash", "#!/bin/nosuchshell");
    let (code, document) = place.check(&[]);
    assert_eq!((code, &document["findings"][0]["weight"]), (4, &Json::from("fault")), "{document:#}");
    assert!(
        document["findings"][0]["message"].as_str().unwrap().contains("no interpreter /bin/nosuchshell"),
        "{document:#}"
    );
}

#[test]
fn a_script_that_describes_itself_in_two_ways_does_not_conform() {
    let place = CheckDir::of("simple");
    let metadata = std::fs::read_to_string(place.path().join("colour.yaml")).unwrap();
    std::fs::remove_file(place.path().join("colour.yaml")).unwrap();
    let describe = format!(
        "describe) cat <<'END'\n{metadata}END\n    echo \"# $RANDOM$RANDOM$RANDOM\"\n    exit ;;\nlist) list ;;"
    );
    place.change("colour.prov", "list) list ;;", &describe);
    place.change("colour.prov", "echo '# simple'\n", "[ \"$ral_action\" = describe ] || echo '# simple'\n");
    let (code, document) = place.check(&["--law", "get-is-steady"]);
    assert_eq!((code, &document["laws"][0]["verdict"]), (4, &Json::from("held")), "{document:#}");
    assert!(
        document["findings"].to_string().contains("two calls of describe return different descriptions"),
        "{document:#}"
    );
}

#[test]
fn missing_check_file_generates_specimens_and_example() {
    let place = CheckDir::of("simple");
    std::fs::remove_file(place.path().join("colour.check.yaml")).unwrap();
    let (code, document) = place.check(&["--law", "get-is-steady", "--law", "one-failure-is-alone"]);
    assert_eq!((code, &document["specimens"]), (4, &Json::Null), "{document:#}");
    let verdicts: Vec<&str> =
        document["laws"].as_array().unwrap().iter().map(|law| law["verdict"].as_str().unwrap()).collect();
    assert_eq!(verdicts, ["held", "not_tested"], "what cannot be made up is not passed over");
    let example = place.kilter(&["provider", "check", "colour.prov", "--example"]);
    std::fs::write(place.path().join("colour.check.yaml"), &example.stdout).unwrap();
    let (code, document) = place.check(&["--law", "get-is-steady"]);
    assert_eq!((code, document["specimens"].is_string()), (0, true), "{document:#}");
}

#[test]
fn invalid_check_file_or_arguments_start_nothing() {
    let place = CheckDir::of("simple");
    place.change("colour.check.yaml", "present: {value: blue}", "present: {valeu: blue}");
    let output = place.kilter(&["provider", "check", "colour.prov"]);
    assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(1), true));
    let text = shown(&output);
    assert!(
        text.contains("colour.check.yaml:8:15: the type colour has no attribute `valeu` (did you mean `value`?)"),
        "{text}"
    );
    for (args, why) in [
        (&["nosuch.prov"][..], "there is no such file"),
        (&["nosuchtype"], "there is no type `nosuchtype`"),
        (&["colour.yaml/"], "there is no such file"),
        (&["./colour.yaml"], "neither called NAME.prov"),
        (&["colour.prov", "--law", "get-is-staedy"], "did you mean `get-is-steady`?"),
        (&["colour.prov", "--with", "nosuch.yaml"], "there is no such file"),
    ] {
        let output = place.kilter(&[&["provider", "check"], args].concat());
        let text = shown(&output);
        assert!(output.status.code() == Some(1) && text.contains(why), "{args:?}: {text}");
    }
}

#[test]
fn failed_setup_leaves_laws_not_tested() {
    let place = CheckDir::of("simple");
    place.change("colour.check.yaml", "setup: mkdir -p", "setup: false; mkdir -p");
    let (code, document) = place.check(&["--law", "get-is-steady"]);
    assert_eq!((code, &document["laws"][0]["verdict"]), (4, &Json::from("not_tested")));
    assert!(
        document["laws"][0]["why"].as_str().unwrap().contains("the `setup` of its sandbox failed: exit code 1"),
        "{document:#}"
    );
}

#[test]
fn builtin_providers_can_be_checked() {
    let place = CheckDir::of("simple");
    let hosts = std::fs::read("/etc/hosts").unwrap();
    let output = place.kilter(&[
        "provider",
        "check",
        "host",
        "--law",
        "set-makes-what-was-asked",
        "--law",
        "others-are-left-alone",
    ]);
    let text = shown(&output);
    assert!(
        output.status.success() && text.starts_with("host::hosts (native)\n") && text.contains("2 held, 0 broken"),
        "{text}"
    );
    assert_eq!(std::fs::read("/etc/hosts").unwrap(), hosts);
}

#[test]
fn types_with_state_files_conform() {
    let place = CheckDir::of("simple");
    let excused = "without: {failing: nothing is in the way, slow: a file is written at once}";
    for (name, attributes, spared) in [
        ("kv", ["{value: one}", "{value: two}"], "key: which value it is about, mapped: whose it is"),
        ("value", ["{any: one}", "{any: [2, {three: 4}]}"], ""),
        ("password", ["{length: 20, check_recovery: true}", "{length: 21, check_recovery: true}"], ""),
    ] {
        let [present, changed] = attributes;
        let specimen = |name: &str| format!("  - {{name: {name}, present: {present}, changed: [{changed}]}}\n");
        let specimens = [specimen("first"), specimen("second")].concat();
        let file = format!("specimens:\n{specimens}unknown: [nobody]\n{excused}\nsparing: {{{spared}}}\n");
        std::fs::write(place.path().join("kept.yaml"), file).unwrap();
        let output = place.kilter(&["provider", "check", name, "--with", "kept.yaml"]);
        assert!(output.status.success(), "{}", shown(&output));
        assert!(!place.path().join("state/kept").exists(), "nothing leaves its sandbox");
    }
    let here =
        ["provider", "check", "value", "--here", "--state-dir", "kept-here", "--law", "set-makes-what-was-asked"];
    let output = place.kilter(&here);
    let kept = place.path().join("kept-here/kept/value/kilter-check-1");
    assert!(output.status.success() && kept.exists(), "{}", shown(&output));
}

#[test]
fn setup_on_the_machine_needs_option() {
    let place = CheckDir::of("simple");
    let made = place.path().join("made");
    place.change("colour.check.yaml", "setup: ", &format!("setup: touch {}; ", made.display()));
    let output = place.kilter(&["provider", "check", "colour.prov", "--here", "--law", "get-is-steady"]);
    let text = shown(&output);
    assert!(output.status.code() == Some(1) && text.contains("--setup-here"), "{text}");
    assert!(!made.exists());
    let output = place.kilter(&["provider", "check", "colour.prov", "--setup-here", "--law", "get-is-steady"]);
    assert!(output.status.code() != Some(0) && shown(&output).contains("--here"), "{}", shown(&output));
    assert!(!made.exists());
}

/// Returns true if `sleep` runs with this duration.
fn is_asleep(seconds: &str) -> bool {
    let command = format!("sleep\0{seconds}\0");
    let mut processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes.any(|one| std::fs::read(one.path().join("cmdline")).is_ok_and(|found| found == command.as_bytes()))
}

#[test]
fn hanging_setup_and_its_processes_are_ended() {
    let one_of_its_own = |what: &str| format!("{what}.{}", std::process::id());

    let place = CheckDir::of("simple");
    let long = one_of_its_own("987");
    place.change("colour.check.yaml", "setup: ", &format!("setup: sleep {long}; "));
    let output = place.kilter(&["provider", "check", "colour.prov", "--limit", "1", "--law", "get-is-steady"]);
    let text = shown(&output);
    assert!(
        output.status.code() == Some(4) && text.contains("`setup` of its sandbox failed: it has not ended"),
        "{text}"
    );
    assert!(!is_asleep(&long));

    let place = CheckDir::of("simple");
    let left = one_of_its_own("1987");
    place.change("colour.check.yaml", "setup: ", &format!("setup: sleep {left} & "));
    let output = place.kilter(&["provider", "check", "colour.prov", "--law", "get-is-steady"]);
    assert!(output.status.success(), "{}", shown(&output));
    assert!(!is_asleep(&left));
}

/// Begins to try a law of `colour`, and ends it by a signal as soon as something sleeps.
fn ended_while_asleep(place: &CheckDir, seconds: &str, law: &str) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_kilter"))
        .args(["provider", "check", "colour.prov", "--law", law])
        .current_dir(place.path())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !is_asleep(seconds) && std::time::Instant::now() < until {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(is_asleep(seconds), "it has not begun");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert!(!is_asleep(seconds));
}

#[test]
fn signal_ends_running_setup() {
    let place = CheckDir::of("simple");
    let seconds = format!("2987.{}", std::process::id());
    place.change("colour.check.yaml", "setup: ", &format!("setup: sleep {seconds}; "));
    ended_while_asleep(&place, &seconds, "get-is-steady");
}

#[test]
fn signal_ends_running_script() {
    let place = CheckDir::of("simple");
    let seconds = format!("3987.{}", std::process::id());
    place.change("colour.prov", "write() {\n", &format!("write() {{\n    sleep {seconds}\n"));
    ended_while_asleep(&place, &seconds, "set-makes-what-was-asked");
}

#[test]
fn a_script_that_does_not_end_in_time_is_ended_and_shown() {
    let place = CheckDir::of("simple");
    let seconds = format!("4987.{}", std::process::id());
    place.change("colour.prov", "write() {\n", &format!("write() {{\n    sleep {seconds}\n"));
    let (code, document) = place.check(&["--law", "set-makes-what-was-asked", "--limit", "2"]);
    let law = &document["laws"][0];
    assert_eq!((code, &law["verdict"], &law["why"]), (4, &"broken".into(), &"it did not end within 2 s".into()));
    assert!(calls(law).last().is_some_and(|last| last.contains("it was interrupted")), "{law:#}");
    assert!(!is_asleep(&seconds));
}

#[test]
fn check_on_the_machine_warns() {
    let place = CheckDir::of("simple");
    let kept = place.path().join("kept").display().to_string();
    place.change("colour.prov", "$HOME/.config/colour.d", &kept);
    place.change("colour.check.yaml", "$HOME/.config/colour.d", &kept);
    let (code, document) = place.check(&["--here", "--setup-here", "--law", "get-is-steady"]);
    assert_eq!((code, &document["place"]), (0, &Json::from("machine")));
    let findings = document["findings"].to_string();
    assert!(findings.contains("on this machine itself") && findings.contains("`setup`"), "{document:#}");
    assert!(Path::new(&kept).join("sky").exists());
}

/// Returns the output of `kilter provider check` for an unprivileged user on a machine with further mounts, which only
/// this user sees.
fn by_user(place: &CheckDir, mounts: &str, laws: &[&str]) -> Output {
    let kilter = place.path().join("kilter");
    // Copied by this process, another test could start a child that keeps it from being run.
    assert!(Command::new("cp").arg(env!("CARGO_BIN_EXE_kilter")).arg(&kilter).status().unwrap().success());
    let script = format!(
        "{mounts}\nexec setpriv --reuid=65534 --regid=65534 --clear-groups \"$0\" provider check colour.prov \"$@\""
    );
    Command::new("unshare")
        .args(["--mount", "/bin/sh", "-euc", &script])
        .arg(&kilter)
        .args(laws.iter().flat_map(|law| ["--law", law]))
        .env("KILTER_STATE_DIR", "/nonexistent")
        .current_dir(place.path())
        .output()
        .expect("`unshare` and `setpriv` are part of util-linux: apt-get install util-linux")
}

/// All laws are held, or there are no sandboxes for this user.
fn is_held_or_told(output: &Output, laws: usize) {
    let text = shown(output);
    match output.status.code() {
        Some(0) => assert!(text.contains(&format!("{laws} held, 0 broken")), "{text}"),
        code => assert!(
            code == Some(1) && text.contains("namespaces only to root") && text.contains("run it as root"),
            "{text}"
        ),
    }
}

#[test]
fn unprivileged_user_has_sandboxes_or_a_reason() {
    let place = CheckDir::of("simple");
    let kept = "/tmp/kilter-check-of-a-user";
    place.change("colour.prov", "$HOME/.config/colour.d", kept);
    place.change("colour.check.yaml", "$HOME/.config/colour.d", kept);
    let output = by_user(&place, "", &["set-makes-what-was-asked", "get-changes-nothing"]);
    is_held_or_told(&output, 2);
    assert!(!Path::new(kept).exists());
}

#[test]
fn unprivileged_sandbox_is_isolated() {
    let place = CheckDir::of("simple");
    let home = place.path().join("home");
    let kept = home.join("mounted/colour.d").display().to_string();
    place.change("colour.prov", "$HOME/.config/colour.d", &kept);
    place.change("colour.check.yaml", "$HOME/.config/colour.d", &kept);
    std::fs::create_dir_all(home.join("mounted")).unwrap();
    std::fs::write(home.join(".bashrc"), "mine\n").unwrap();
    for path in [home.clone(), home.join(".bashrc")] {
        std::os::unix::fs::chown(path, Some(65534), Some(65534)).unwrap();
    }
    let shared = format!("/dev/shm/kilter-check-{}", std::process::id());
    let bashrc = home.join(".bashrc").display().to_string();
    let setup = format!(
        "setup: |\n  if ( echo x >>{bashrc} ) 2>/dev/null; then exit 1; fi\n  cat {bashrc}\n  echo x >{shared}\n  "
    );
    place.change("colour.check.yaml", "setup: ", &setup);
    let output = by_user(
        &place,
        &format!("mount -t tmpfs -o uid=65534 t {}/mounted", home.display()),
        &["set-makes-what-was-asked"],
    );
    is_held_or_told(&output, 1);
    assert_eq!(std::fs::read_to_string(bashrc).unwrap(), "mine\n");
    assert!(!Path::new(&shared).exists() && !Path::new(&kept).exists());
}
