//! Contents that are put together, files that are not created, and directories that are made on the way.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use kilter_model::Value;

use crate::harness::*;

fn list(paths: &[&std::path::Path]) -> Value {
    Value::array(paths.iter().map(|path| path_text(path)))
}

#[test]
fn fragments_are_concatenated_in_order() {
    let home = directory();
    let (head, parts, path) = (home.path().join("head"), home.path().join("parts"), home.path().join("x"));
    fs::write(&head, "head\n").unwrap();
    fs::create_dir_all(parts.join("below")).unwrap();
    for (name, content) in [("20", "two\n"), ("10", "one\n"), ("below/30", "never\n")] {
        fs::write(parts.join(name), content).unwrap();
    }
    let declared = file(&path, [("fragments", list(&[&head, &parts, &head]))]);
    converge(&declared);
    assert_eq!(fs::read_to_string(&path).unwrap(), "head\none\ntwo\nhead\n");
    assert_eq!(plan(&declared), []);
    fs::write(parts.join("15"), "between\n").unwrap();
    let differences = converge(&declared);
    assert!(differences[0].diff.as_deref().unwrap().contains("+between\n"), "{differences:?}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "head\none\nbetween\ntwo\nhead\n");
    fs::write(&path, "drift").unwrap();
    assert_eq!(told(&plan(&declared)), ["content"]);
    converge(&declared);
    assert_eq!(plan(&declared), []);
}

#[test]
fn a_fragment_that_is_missing_is_a_failure_and_changes_nothing() {
    let home = directory();
    let path = home.path().join("x");
    fs::write(&path, "old").unwrap();
    let declared = file(&path, [("fragments", list(&[&home.path().join("gone")]))]);
    let error = apply(&declared).unwrap_err();
    assert!(error.contains("gone"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
}

#[test]
fn create_false_fails_until_file_exists() {
    let home = directory();
    let path = home.path().join("x");
    let declared = file(&path, [("content", text("mine\n")), ("create", Value::Boolean(false))]);
    let error = apply(&declared).unwrap_err();
    assert!(error.ends_with("and `create` is false"), "{error}");
    fs::write(&path, "theirs\n").unwrap();
    converge(&declared);
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine\n");
}

#[test]
fn parents_true_creates_directories() {
    let home = directory();
    let path = home.path().join("a/b/c");
    let without = file(&path, [("ensure", text("directory"))]);
    let error = apply(&without).unwrap_err();
    assert!(error.contains("a/b"), "{error}");
    let declared = file(&path, [("ensure", text("directory")), ("parents", Value::Boolean(true))]);
    converge(&declared);
    assert!(path.is_dir());
    assert_eq!(fs::metadata(home.path().join("a")).unwrap().permissions().mode() & 0o777, 0o755);
    assert_eq!(plan(&declared), []);
    let content = file(home.path().join("d/e/f"), [("content", text("x")), ("parents", Value::Boolean(true))]);
    converge(&content);
    assert_eq!(fs::read_to_string(home.path().join("d/e/f")).unwrap(), "x");
    // What stands in the way is left, and told.
    let blocked = file(home.path().join("d/e/f/g/h"), [("content", text("x")), ("parents", Value::Boolean(true))]);
    let error = apply(&blocked).unwrap_err();
    assert!(error.contains("d/e/f"), "{error}");
    assert_eq!(fs::read_to_string(home.path().join("d/e/f")).unwrap(), "x");
}

#[test]
fn fragments_result_is_as_private_as_its_fragments() {
    let home = directory();
    let (open, private, path) = (home.path().join("open"), home.path().join("private"), home.path().join("x"));
    fs::write(&open, "open\n").unwrap();
    fs::write(&private, "private\n").unwrap();
    set_mode(&open, 0o644);
    set_mode(&private, 0o600);
    converge(&file(&path, [("fragments", list(&[&open, &private]))]));
    assert_eq!(mode(&path), 0o600);
    let declared = file(home.path().join("y"), [("fragments", list(&[&private])), ("mode", text("0640"))]);
    converge(&declared);
    assert_eq!(mode(home.path().join("y")), 0o640);
    assert_eq!(plan(&declared), []);
}

#[test]
fn file_cannot_be_its_own_fragment() {
    let problems = |path: &str, fragments: &[&str]| {
        let fragments = Value::strings(fragments.iter().copied());
        let should = [("fragments", fragments)].into_iter().collect();
        kilter_provider::Provider::validate(&kilter_native::FileProvider::new(), path, &should, &[]).len()
    };
    assert_eq!((problems("/d/x", &["/d"]), problems("/d/x", &["/d/x"]), problems("/d/x", &["/d/y", "/e"])), (1, 1, 0));
}
