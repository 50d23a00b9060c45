//! Scripts that try to write where they must not, and keep quiet about it.

use std::sync::Arc;

use kilter_model::{Change, State};
use kilter_process::Confined;
use kilter_provider::{Context, Mode, Provider, Wanted, get_one};

use crate::harness::*;
use crate::unconfined::ConfinedAs;

const TYPED: &str =
    "type: tt\ninvoke: simple\nsuitable: true\nnoop_safe: true\nattributes:\n  name:\n  v: {type: string}";

/// The warnings of reads, each named once.
fn warned(provider: &dyn Provider, names: &[&str]) -> Vec<String> {
    let log = ScriptTestLog::default();
    let cx = Context::empty().with_log(&log);
    for name in names {
        let name = ecow::EcoString::from(*name);
        get_one(provider, &cx, Wanted::new(&name, None)).unwrap();
    }
    log.all().into_iter().filter(|line| line.starts_with("warning")).collect()
}

#[test]
fn silent_write_attempt_is_named() {
    let place = ScriptDir::new();
    let find = "echo >changed; rm -f t.yaml; mkdir -p new/dir; : >/dev/null; : >$TMPDIR/mine; chmod 600 t.prov";
    let body = format!("{{ {find}; }} 2>/dev/null; echo '# simple'; echo 'name: a'; exit 0");
    let provider = place.bash("t", TYPED, &body);
    let at = |path: &str| place.path().canonicalize().unwrap().join(path).display().to_string();
    let tried = format!(
        "write {}, remove {}, make {}, change the mode of {}",
        at("changed"),
        at("t.yaml"),
        at("new"),
        at("t.prov")
    );
    let expected = format!(
        "the provider `t` tried to {tried} while it was only read (find), and was refused; `confine: false` in its \
         metadata lets it while it reads"
    );
    let lines = warned(&*provider, &["a", "b", "c"]);
    assert!(lines.len() == 1 && lines[0].ends_with(&expected), "{lines:#?}\n{expected}");
}

#[test]
fn missing_kernel_features_are_reported_once_with_attempts() {
    for kernel in ConfinedAs::all() {
        let mut place = ScriptDir::new();
        let confined = kernel.0.clone();
        place.surroundings.exchanges = Arc::new(kernel);
        let provider = place.bash("t", TYPED, "{ echo >changed; } 2>/dev/null; echo '# simple'; echo 'name: a'");
        let lines = warned(&*provider, &["a", "b", "c"]);
        assert!(lines[0].ends_with(&format!("the provider `t` could change the machine: {confined}")), "{lines:#?}");
        // Where nothing is confined, nothing was refused.
        let is_partly = matches!(confined, Confined::Partly { .. });
        assert_eq!(lines.len(), 1 + usize::from(is_partly), "{lines:#?}");
        assert!(!is_partly || lines[1].contains("tried to write "), "{lines:#?}");
    }
}

#[test]
fn attempts_per_resource_are_limited_in_reports() {
    let place = ScriptDir::new();
    let body = "case $* in *ral_action=find*) n=$(echo \"$*\" | tr -dc 0-9); echo >lock.$n; echo >lock; esac \
                2>/dev/null\n\
        echo '# simple'";
    let provider = place.bash("t", TYPED, body);
    let names: Vec<String> = (0..60).map(|number| format!("n{number}")).collect();
    let lines = warned(&*provider, &names.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(lines[0].contains("lock.0, write ") && lines[0].contains("/lock while"), "{}", lines[0]);
    assert!(lines[1].contains("lock.1 while it was only read"), "{}", lines[1]);
    assert!(lines.len() == 49 && lines[48].ends_with("; further attempts are not reported"), "{lines:#?}");
}

#[test]
fn silent_write_attempt_in_preview_is_named() {
    let place = ScriptDir::new();
    let provider = place.bash("t", TYPED, "{ echo >changed; } 2>/dev/null; echo '# simple'; echo 'ral_derive: true'");
    let (log, name, should) = (ScriptTestLog::default(), "a".into(), attributes(&[("v", "2".into())]));
    let is = State::present("a", attributes(&[("v", "1".into())]));
    let change = Change::new(&name, &is, Some(&should), &[]);
    provider.set(&Context::empty().with_log(&log), &[change], Mode::Preview);
    let lines = log.all();
    assert!(lines.iter().any(|line| line.ends_with("/changed in a preview (update), and was refused")), "{lines:?}");
}

#[test]
fn silent_write_attempt_in_describe_is_named() {
    let place = ScriptDir::new();
    let text: String = TYPED.lines().map(|line| format!("  {line}\n")).collect();
    place.script("t", &format!("#!/bin/bash\n{{ : >changed; }} 2>/dev/null; cat <<'END'\nprovider:\n{text}END\n"));
    let notes: Vec<String> = place.found().notes.iter().map(|note| note.message.to_string()).collect();
    let expected = "/changed while it was only read (describe), and was refused";
    assert!(notes.len() == 1 && notes[0].ends_with(expected), "{notes:?}");
}
