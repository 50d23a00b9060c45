//! Discovery of scripts, and the number of their describe calls.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use kilter_process::{Confined, Confinement, Environment, can_confine};
use kilter_provider::{ChoiceError, Level, Provider, Registry};
use kilter_script::Scripts;

use crate::harness::*;
use crate::unconfined::ConfinedAs;

fn metadata(more: &str) -> String {
    format!("---\nprovider:\n  type: tt\n  invoke: simple\n  suitable: true\n{more}")
}

fn describing(place: &ScriptDir, name: &str, more: &str) {
    place.script(name, &format!("{BASH}[ $ral_action = describe ] && cat <<'END'\n{}END\n", metadata(more)));
}

fn names(found: &Scripts) -> Vec<String> {
    found.providers.iter().map(|provider| format!("{}::{}", provider.schema().name, provider.name())).collect()
}

fn notes(place: &ScriptDir, found: &Scripts) -> Vec<String> {
    found.notes.iter().map(|note| place.plain(note)).collect()
}

#[test]
fn scripts_are_found_in_a_directory_and_in_its_providers() {
    let place = ScriptDir::new();
    describing(&place, "b", "");
    describing(&place, "providers/a", "");
    describing(&place, "providers/deeper/c", "");
    place.file("README.md", "no provider");
    place.script(".hidden", "");
    place.script("", "");
    let found = place.found();
    assert_eq!((names(&found), notes(&place, &found)), (vec!["tt::a".to_owned(), "tt::b".to_owned()], Vec::new()));
    let nowhere = Scripts::find(&["/nonexistent/x".into()], None, &Default::default());
    assert!(nowhere.providers.is_empty() && nowhere.notes.is_empty());
}

#[test]
fn describe_result_is_cached() {
    let place = ScriptDir::new();
    describing(&place, "a", "");
    assert_eq!(names(&place.found()), ["tt::a"]);
    assert_eq!(place.calls(), ["ral_action=describe"]);
    assert_eq!(names(&place.found()), ["tt::a"]);
    assert_eq!(place.calls(), [""; 0]);
    describing(&place, "a", "  name: other\n");
    assert_eq!(names(&place.found()), ["tt::other"], "another size, another time");
    assert_eq!(place.calls(), ["ral_action=describe"]);
}

#[test]
fn a_script_cannot_write_while_it_describes_itself() {
    let place = ScriptDir::new();
    place.script("a", &format!("{BASH}touch changed; cat <<'END'\n{}END\n", metadata("")));
    assert_eq!(names(&place.found()), ["tt::a"]);
    let is_confined = !matches!(can_confine(Confinement::ReadOnly), Confined::No { .. });
    assert_eq!(place.path().join("changed").exists(), !is_confined);
}

#[test]
fn a_script_that_tries_to_write_while_it_describes_itself_is_named() {
    let place = ScriptDir::new();
    place.script("a", &format!("{BASH}touch changed; cat <<'END'\n{}END\n", metadata("")));
    place.script("b", &format!("{BASH}touch changed || exit 1\n"));
    let notes = notes(&place, &place.found());
    for script in ["a", "b"] {
        let said = format!("DIR/{script}.prov: the script tried to write ");
        let named: Vec<&String> = notes.iter().filter(|note| note.starts_with(&said)).collect();
        assert!(named.len() == 1 && !named[0].contains("confine: false"), "{notes:?}");
    }
}

#[test]
fn unconfined_describe_warns_once() {
    for kernel in ConfinedAs::all() {
        let mut place = ScriptDir::new();
        let expected = format!("the script could change the machine: {}", kernel.0);
        place.surroundings.exchanges = Arc::new(kernel);
        describing(&place, "a", "");
        describing(&place, "b", "");
        let found = place.found();
        let notes: Vec<_> = found.notes.iter().map(|note| (note.level, place.plain(note))).collect();
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(notes[0].0 == Level::Warning && notes[0].1.ends_with(&expected), "{notes:?}");
    }
}

#[test]
fn cache_is_invalidated_by_available_commands() {
    let mut place = ScriptDir::new();
    describing(&place, "a", "");
    let bin = place.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    place.surroundings.environment = Environment::new().set("PATH", format!("{}:/usr/bin:/bin", bin.display()));
    place.found();
    assert_eq!(place.calls().len(), 1);
    std::fs::write(bin.join("apt-get"), "").unwrap();
    place.found();
    assert_eq!(place.calls().len(), 1);
}

#[test]
fn describe_failure_is_cached_briefly() {
    let place = ScriptDir::new();
    place.script("a", &format!("{BASH}echo 'no python here' >&2; exit 3\n"));
    for calls in [1, 0] {
        let found = place.found();
        assert_eq!(
            notes(&place, &found),
            ["DIR/a.prov: not used: describe: it failed with exit code 3 (last on its standard error: no python \
                 here); a script with mold's convention needs a.yaml in the same directory; kilter tries again in 10 \
                 min, or when the file changes"]
        );
        assert_eq!(place.calls().len(), calls);
    }
}

#[test]
fn computed_suitability_is_queried_until_suitable() {
    let place = ScriptDir::new();
    let description = metadata("").replace("true", "$ready");
    let ready = "ready=false; [ ! -e ready ] || ready=true\n";
    place.script("a", &format!("{BASH}{ready}[ $ral_action = describe ] && cat <<END\n{description}END\n"));
    let is_suitable = |found: &Scripts| found.providers[0].suitable().is_suitable();
    let first = place.found();
    assert!(!is_suitable(&first));
    assert_eq!(place.calls().len(), 1, "what it has just said is believed");
    // What it needs comes during the run.
    place.file("ready", "");
    assert!(is_suitable(&first) && is_suitable(&first));
    assert_eq!(place.calls().len(), 1, "once it is suitable, it stays so for the run");
    // The next run knows the description of the first one.
    let next = place.found();
    assert_eq!(place.calls().len(), 0);
    assert!(is_suitable(&next) && is_suitable(&next));
    assert_eq!(place.calls().len(), 1, "it is asked when the run begins");
    fs::remove_file(place.path().join("ready")).unwrap();
    assert!(!is_suitable(&place.found()));
    // A condition needs no call.
    place.script("a", &format!("{BASH}cat <<'END'\n{}END\n", metadata("").replace("true", "{commands: [bash]}")));
    assert!(is_suitable(&place.found()) && is_suitable(&place.found()));
    assert_eq!(place.calls().len(), 2, "one for the removal, one for the new description");
}

#[test]
fn repeated_describe_failure_backs_off() {
    let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
    let place = ScriptDir::new();
    place.script("a", &format!("{BASH}exit 3\n"));
    let is_asked_at = |age: Duration| {
        for kept in fs::read_dir(place.path().join("cache")).unwrap() {
            let kept = fs::File::options().write(true).open(kept.unwrap().path()).unwrap();
            kept.set_modified(SystemTime::now() - age).unwrap();
        }
        place.found();
        place.calls().len() == 1
    };
    place.found();
    place.calls();
    assert!(!is_asked_at(minutes(9)) && is_asked_at(minutes(11)));
    assert!(!is_asked_at(minutes(19)) && is_asked_at(minutes(21)), "twice as long");
    let asked = (0..10).filter(|_| is_asked_at(minutes(24 * 60 + 1))).count();
    assert_eq!(asked, 10, "a day at most");
    assert!(!is_asked_at(minutes(24 * 60 - 1)));
    place.script("a", &format!("{BASH}exit 30\n"));
    assert!(is_asked_at(minutes(0)), "another script");
    assert!(!is_asked_at(minutes(9)) && is_asked_at(minutes(11)), "has its own count");
}

#[test]
fn unusable_cache_costs_one_call() {
    let place = ScriptDir::new();
    describing(&place, "a", "");
    place.file("cache", "no directory");
    for _ in 0..2 {
        assert_eq!(names(&place.found()), ["tt::a"]);
        assert_eq!(place.calls().len(), 1);
    }
}

#[test]
fn metadata_file_overrides_describe() {
    let place = ScriptDir::new();
    describing(&place, "a", "  name: described\n");
    place.file("a.yaml", &metadata("  name: written\n"));
    assert_eq!(names(&place.found()), ["tt::written"]);
    assert_eq!(place.calls(), [""; 0]);
}

#[test]
fn stderr_of_describe_is_ignored() {
    let place = ScriptDir::new();
    place.script("a", &format!("{BASH}echo careful >&2; echo 'debug: step' >&2; cat <<'END'\n{}END\n", metadata("")));
    let found = place.found();
    assert_eq!(names(&found), ["tt::a"]);
    let lines: Vec<_> = found.notes.iter().map(|note| (note.level, place.plain(note))).collect();
    assert_eq!(lines, [(Level::Warning, "DIR/a.prov: careful".into()), (Level::Debug, "DIR/a.prov: step".into())]);
    assert!(place.found().notes.is_empty(), "what is kept has nothing to log");
}

#[test]
fn invalid_script_does_not_affect_others() {
    let place = ScriptDir::new();
    describing(&place, "good", "");
    place.file("plain.prov", "#!/bin/sh\n");
    symlink("/nonexistent/target", place.path().join("dangling.prov")).unwrap();
    std::fs::create_dir(place.path().join("directory.prov")).unwrap();
    place.script("noshebang", "echo nothing\n\u{1}");
    place.script("nointerpreter", "#!/nonexistent/interpreter\n");
    place.script("broken", "#!/bin/sh\nexit 1\n");
    place.file("broken.yaml", "provider: {type: t, invoke: soap}\n");
    place.script("silent", "#!/bin/sh\n");
    let found = place.found();
    assert_eq!(names(&found), ["tt::good"]);
    let notes = notes(&place, &found);
    let about = |name: &str| {
        notes
            .iter()
            .find(|note| note.starts_with(&format!("DIR/{name}")))
            .unwrap_or_else(|| panic!("{name}: {notes:?}"))
            .as_str()
    };
    assert_eq!(
        about("plain"),
        "DIR/plain.prov: not used: it looks like a provider, but is not executable (correct it with chmod +x)"
    );
    assert_eq!(about("dangling"), "DIR/dangling.prov: not used: it is a symbolic link that leads nowhere");
    assert!(about("nointerpreter").contains("cannot describe itself: cannot start"), "{}", about("nointerpreter"));
    assert!(about("noshebang").contains("cannot describe itself"), "{}", about("noshebang"));
    assert_eq!(
        about("broken"),
        "DIR/broken.yaml: not used: its metadata is wrong: 1:11: `suitable` is missing (write `suitable: true`, or \
         when it can be used); \
         1:29: there is no calling convention `soap` (the conventions are simple, json and mold)"
    );
    assert_eq!(
        about("silent"),
        "DIR/silent.prov: not used: describe: it printed nothing, where YAML that describes the provider is expected; \
         kilter tries again in 10 min, or when the file changes"
    );
    assert_eq!(notes.len(), 6, "{notes:?}");
}

#[test]
fn hanging_describe_is_ended() {
    let mut place = ScriptDir::new();
    place.surroundings.limits.describe = std::time::Duration::from_millis(200);
    place.script("a", "#!/bin/sh\nsleep 60\n");
    describing(&place, "b", "");
    let found = place.found();
    assert_eq!(names(&found), ["tt::b"]);
    assert_eq!(
        notes(&place, &found),
        ["DIR/a.prov: not used: describe: it did not reply in time and was ended (its limit is 0.2 s); kilter tries \
             again in 10 min, or when the file changes"]
    );
}

#[test]
fn misspelled_keys_are_reported() {
    let place = ScriptDir::new();
    describing(&place, "a", "  suitabel: x\n");
    let found = place.found();
    assert_eq!((names(&found).len(), found.notes[0].level), (1, Level::Notice));
}

#[test]
fn of_two_scripts_with_one_name_the_first_is_used() {
    let place = ScriptDir::new();
    describing(&place, "a", "  name: same\n");
    describing(&place, "b", "  name: same\n");
    let found = place.found();
    assert_eq!(names(&found), ["tt::same"]);
    assert_eq!(notes(&place, &found), ["DIR/b.prov: not used: DIR/a.prov is the provider `same` of tt already"]);
    let twice = [place.path().to_owned(), place.path().to_owned()];
    let found = Scripts::find(&twice[..], None, &Default::default());
    assert_eq!(found.notes.len(), 1, "a directory that is given twice is read once: {:?}", found.notes);
}

#[test]
fn root_refuses_script_of_other_user() {
    let mut place = ScriptDir::new();
    place.surroundings.trust = kilter_process::trust::TrustPolicy::root();
    describing(&place, "a", "");
    let path = place.path().join("a.prov");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).unwrap();
    let found = place.found();
    let told = notes(&place, &found);
    assert!(found.providers.is_empty());
    // Who is not root has no files that root trusts.
    let expected = [
        "DIR/a.prov: not used by root: it can be written by everybody (mode 0777); change that (chmod go-w \
         DIR/a.prov) or ",
        "DIR: not used by root: it belongs to user ",
    ];
    assert!(expected.iter().any(|expected| told[0].starts_with(expected)), "{told:?}");
    assert_eq!(place.calls(), [""; 0]);
}

#[test]
fn equal_scripts_need_a_provider_name() {
    let place = ScriptDir::new();
    describing(&place, "a", "");
    describing(&place, "b", "");
    let registry = |place: &ScriptDir| {
        Registry::new(place.found().providers.into_iter().map(|one| one as std::sync::Arc<dyn Provider>)).unwrap()
    };
    let chosen = registry(&place).choose("tt", None);
    assert_eq!(chosen, Err(ChoiceError::Ambiguous { type_name: "tt".into(), among: vec!["a", "b"] }));
    assert!(chosen.unwrap_err().to_string().ends_with("none is preferred: a, b"));
    assert!(registry(&place).choose("tt", Some("b")).is_ok());
    describing(&place, "b", "  default:\n    - command(sh)\n");
    let registry = registry(&place);
    assert_eq!(registry.at(registry.choose("tt", None).unwrap()).name(), "b");
}
