use std::os::unix::fs::PermissionsExt;

use kilter_model::Outcome;
use kilter_provider::{Context, Provider, Query, Wanted};

use super::*;

type LineBench = crate::edit::tests::EditBench<Line>;

#[test]
fn missing_line_is_appended() {
    assert_eq!(LineBench::new("").converge(&[("line", "a".into())]), "a\n");
    assert_eq!(LineBench::new("x").converge(&[("line", "a".into())]), "x\na\n");
    assert_eq!(LineBench::new("x\r\n").converge(&[("line", "a".into())]), "x\r\na\r\n");
    LineBench::new("x\na\r\n").is_in_sync(&[("line", "a".into())]);
}

#[test]
fn matching_line_is_replaced_in_place() {
    let declared = [("line", Value::from("a = 2")), ("match", "^a\\s*=".into())];
    let bench = LineBench::new("x\na=1\ny\n");
    let differences = bench.differences(&bench.should(&declared)).unwrap();
    assert_eq!(differences.len(), 1);
    assert_eq!((&differences[0].is, &differences[0].should), (&"a=1".into(), &"a = 2".into()));
    assert!(differences[0].diff.as_ref().unwrap().contains("@@ -2,1 +2,1 @@\n-a=1\n+a = 2\n"));
    assert_eq!(bench.converge(&declared), "x\na = 2\ny\n");
    assert_eq!(LineBench::new("x\n").converge(&declared), "x\na = 2\n");
    LineBench::new("a=1\na = 2\n").is_in_sync(&declared);
}

#[test]
fn several_matches_need_multiple() {
    let bench = LineBench::new("a=1\na=3\n");
    let declared = [("line", Value::from("a=2")), ("match", "^a=".into())];
    let why = bench.differences(&bench.should(&declared)).unwrap_err();
    assert!(why.contains("2 lines match `^a=`") && why.contains(&bench.path), "{why}");
    let failed = bench.set(&[&bench.should(&declared)]).remove(0).failure.unwrap();
    assert!(failed.contains("2 lines match"), "{failed}");
    assert_eq!(bench.content(), "a=1\na=3\n");
    let multiple = [declared[0].clone(), declared[1].clone(), ("multiple", true.into())];
    assert_eq!(bench.converge(&multiple), "a=2\na=2\n");
}

#[test]
fn line_is_inserted_after_a_match() {
    let declared = [("line", Value::from("a")), ("after", "^\\[s\\]".into())];
    assert_eq!(LineBench::new("[r]\n[s]\nb\n").converge(&declared), "[r]\n[s]\na\nb\n");
    assert_eq!(LineBench::new("[s]").converge(&declared), "[s]\na\n");
    assert_eq!(LineBench::new("b\n").converge(&declared), "b\na\n");
    let bench = LineBench::new("[s]\n[s]\n");
    assert!(bench.differences(&bench.should(&declared)).unwrap_err().contains("2 lines match"));
    let both = [declared[0].clone(), declared[1].clone(), ("multiple", true.into())];
    assert_eq!(bench.converge(&both), "[s]\na\n[s]\na\n");
}

#[test]
fn replace_and_append_can_be_switched_off() {
    let line = ("line", Value::from("a=2"));
    let matching = ("match", Value::from("^a="));
    LineBench::new("a=1\n").is_in_sync(&[line.clone(), matching.clone(), ("replace", false.into())]);
    LineBench::new("b\n").is_in_sync(&[line.clone(), matching.clone(), ("append_on_no_match", false.into())]);
    LineBench::new("b\n").is_in_sync(&[line.clone(), ("after", "^c".into()), ("append_on_no_match", false.into())]);
    let kept = LineBench::new("b\n").converge(&[line, matching, ("replace", false.into())]);
    assert_eq!(kept, "b\na=2\n");
}

#[test]
fn absent_line_is_removed_everywhere() {
    let absent = ("ensure", Value::from("absent"));
    assert_eq!(LineBench::new("a\nb\na").converge(&[absent.clone(), ("line", "a".into())]), "b\n");
    let matching = [absent.clone(), ("match", "^a".into()), ("match_for_absence", true.into())];
    assert_eq!(LineBench::new("b\na 1\n").converge(&matching), "b\n");
    let bench = LineBench::new("a 1\na 2\n");
    assert!(bench.differences(&bench.should(&matching)).unwrap_err().contains("2 lines match"));
    LineBench::new("b\n").is_in_sync(&matching);
    // Without `match_for_absence`, only equal lines count.
    LineBench::new("a 1\n").is_in_sync(&[absent, ("line", "a".into()), ("match", "^a".into())]);
}

#[test]
fn missing_file_is_an_error_unless_it_may_be_created() {
    let bench = LineBench::new("");
    std::fs::remove_file(&bench.path).unwrap();
    let declared = [("line", Value::from("a"))];
    assert!(bench.differences(&bench.should(&declared)).unwrap_err().contains("`create` is false"));
    assert!(bench.set(&[&bench.should(&declared)])[0].failure.as_ref().unwrap().contains("does not exist"));
    bench.is_in_sync(&[("line", "a".into()), ("ensure", "absent".into())]);
    assert_eq!(bench.converge(&[("line", "a".into()), ("create", true.into())]), "a\n");
    assert_eq!(std::fs::metadata(&bench.path).unwrap().permissions().mode() & 0o777, 0o644);
}

#[test]
fn file_that_is_no_text_or_no_file_is_refused() {
    let bench = LineBench::new("a\0b");
    assert!(bench.differences(&bench.should(&[("line", "a".into())])).unwrap_err().contains("is not a text file"));
    std::fs::remove_file(&bench.path).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", &bench.path).unwrap();
    let why = bench.differences(&bench.should(&[("line", "a".into())])).unwrap_err();
    assert!(why.contains("is not a regular file but a link"), "{why}");
    std::fs::remove_file(&bench.path).unwrap();
    std::fs::File::create(&bench.path).unwrap().set_len((64 << 20) + 1).unwrap();
    let why = bench.differences(&bench.should(&[("line", "a".into())])).unwrap_err();
    assert!(why.contains("is larger than"), "{why}");
}

#[test]
fn other_bytes_stay() {
    let bench = LineBench::new("");
    std::fs::write(&bench.path, b"\xff\xfe\na=1\n\x80").unwrap();
    let should = bench.should(&[("line", "a=2".into()), ("match", "^a=".into())]);
    assert_eq!(bench.set(&[&should]), [Outcome::done()]);
    assert_eq!(std::fs::read(&bench.path).unwrap(), b"\xff\xfe\na=2\n\x80");
}

#[test]
fn lines_of_a_file_are_one_write_and_one_command() {
    let bench = LineBench::new("x\n");
    let log = bench.directory().join("log");
    let command = format!("sh -c \"cat % >> {}\"", log.display());
    let should = |line: &str| bench.should(&[("line", line.into()), ("validate_cmd", command.as_str().into())]);
    let shoulds = [should("a"), should("b"), should("c")];
    assert_eq!(bench.set(&shoulds.iter().collect::<Vec<_>>()), vec![Outcome::done(); 3]);
    assert_eq!(bench.content(), "x\na\nb\nc\n");
    assert_eq!(std::fs::read_to_string(log).unwrap(), "x\na\nb\nc\n", "the command saw the whole result, once");
}

#[test]
fn refused_line_does_not_stop_others() {
    let bench = LineBench::new("x\n");
    let command = "sh -c \"! grep -q bad %\"";
    let should = |line: &str| bench.should(&[("line", line.into()), ("validate_cmd", command.into())]);
    let shoulds = [should("a"), should("bad"), should("c")];
    let outcomes = bench.set(&shoulds.iter().collect::<Vec<_>>());
    assert!(outcomes[0].is_done() && outcomes[2].is_done());
    assert!(outcomes[1].failure.as_ref().unwrap().contains("validate_cmd refused"), "{outcomes:?}");
    assert_eq!(bench.content(), "x\na\nc\n");
}

#[test]
fn foreign_edit_during_a_change_is_kept() {
    let bench = LineBench::new("x\n");
    let other = bench.directory().join("other");
    // The command stands for an editor: it changes the file the first time it runs.
    let command = format!("sh -c \"test -e {0} || echo theirs >> {1}; touch {0}\" %", other.display(), bench.path);
    let should = bench.should(&[("line", "ours".into()), ("validate_cmd", command.as_str().into())]);
    assert_eq!(bench.set(&[&should]), [Outcome::done()]);
    assert_eq!(bench.content(), "x\ntheirs\nours\n");
}

#[test]
fn endless_foreign_edits_are_a_failure_and_not_lost() {
    let bench = LineBench::new("x\n");
    let command = format!("sh -c \"echo theirs >> {}\" %", bench.path);
    let should = bench.should(&[("line", "ours".into()), ("validate_cmd", command.as_str().into())]);
    let failure = bench.set(&[&should]).remove(0).failure.unwrap();
    assert!(failure.contains("replaced by another program meanwhile"), "{failure}");
    assert!(bench.content().matches("theirs").count() > 1 && !bench.content().contains("ours"));
}

#[test]
fn backup_has_the_old_content() {
    let bench = LineBench::new("x\n");
    bench.converge(&[("line", "a".into()), ("backup", ".orig".into())]);
    assert_eq!(std::fs::read_to_string(format!("{}.orig", bench.path)).unwrap(), "x\n");
    assert_eq!(bench.content(), "x\na\n");
}

#[test]
fn secret_has_no_diff_and_no_wide_mode() {
    let bench = LineBench::new("");
    std::fs::remove_file(&bench.path).unwrap();
    let declared = [("line", Value::sensitive("key=hunter2".into())), ("create", true.into())];
    let differences = bench.differences(&bench.should(&declared)).unwrap();
    assert!(!format!("{differences:?}").contains("hunter2"), "{differences:?}");
    assert!(differences.iter().all(|difference| difference.diff.is_none()));
    bench.converge(&declared);
    assert_eq!(std::fs::metadata(&bench.path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn undeclared_lines_cannot_be_read() {
    let bench = LineBench::new("a\n");
    let name = "x".into();
    let query = [Wanted::new(&name, None)];
    let states = bench.provider.get(&Context::empty(), Query::Named(&query)).unwrap();
    assert!(states[0].unreadable.as_ref().unwrap().contains("found only by its declaration"));
    assert!(bench.provider.get(&Context::empty(), Query::All).is_err());
}

#[test]
fn invalid_declaration_is_refused() {
    let bench = LineBench::new("");
    let refused = |attributes: &[(&str, Value)]| bench.provider.validate("x", &bench.should(attributes), &[]).len();
    assert_eq!(refused(&[]), 1, "no line");
    assert_eq!(refused(&[("line", "a\nb".into())]), 1);
    assert_eq!(refused(&[("line", "a".into()), ("match", "(".into()), ("after", "[".into())]), 2);
    assert_eq!(refused(&[("line", "a".into()), ("path", "etc/x".into())]), 1);
    assert_eq!(refused(&[("line", "a".into()), ("validate_cmd", "true".into())]), 1);
    assert_eq!(refused(&[("line", "a".into()), ("backup", "a/b".into())]), 1);
    assert_eq!(refused(&[("line", Value::sensitive("a".into())), ("backup", true.into())]), 1);
    let absent = ("ensure", Value::from("absent"));
    assert_eq!(refused(&[absent.clone(), ("match_for_absence", true.into())]), 1);
    assert_eq!(refused(&[absent, ("match_for_absence", true.into()), ("match", "a".into())]), 0);
    assert_eq!(bench.provider.validate("x", &bench.should(&[]), &["line"]), []);
}
