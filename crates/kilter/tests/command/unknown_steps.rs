//! Steps that a plan has as *unknown*, when the plan is carried out.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use crate::plans::{applied, content, of, place, plan};
use crate::support::Place;

#[test]
fn a_step_that_was_unknown_is_carried_out_and_marked() {
    let place = place(
        "  exec[token]: { command: echo 1234 }\n  file[DIR/token]: { content: '${exec[token].stdout}' }\n  \
         file[DIR/plain]: { content: x }\n",
    );
    let planned = plan(&place);
    assert!(planned.stdout.contains("not known yet"), "{planned:?}");
    let (code, report) = applied(&place);
    let (status, mark, said) = of(&report, "/token");
    assert_eq!((code, &*status, &*mark), (0, "changed", "unknown"), "{report:#}");
    assert_eq!(said, "it was unknown in the plan");
    assert_eq!((&*of(&report, "/plain").1, content(&place, "token")), ("", "1234".to_owned()));
}

#[test]
fn dependents_of_unknown_step_follow_the_plan() {
    let place = place(
        "  exec[token]: { command: echo 1234 }\n  file[DIR/token]: { content: '${exec[token].stdout}' }\n  \
         file[DIR/same]: { content: x, require: 'file[DIR/token]' }\n  \
         file[DIR/gone]: { ensure: absent, require: 'file[DIR/token]' }\n",
    );
    place.file("same", "x");
    plan(&place);
    place.file("same", "precious");
    place.file("gone", "precious");
    let (code, report) = applied(&place);
    assert_eq!(code, 4, "{report:#}");
    for title in ["/same", "/gone"] {
        let (status, mark, _) = of(&report, title);
        assert_eq!((&*status, &*mark), ("failed", "stale"), "{title}: {report:#}");
    }
    assert_eq!((content(&place, "same"), content(&place, "gone")), ("precious".to_owned(), "precious".to_owned()));
    assert_eq!(content(&place, "token"), "1234");
}

#[test]
fn plan_of_unknown_content_shows_the_differences_of_other_attributes() {
    let place = place(
        "  exec[make]: { command: 'echo b >DIR/part', shell: true }\n  \
         file[DIR/f]: { fragments: [DIR/part], mode: '0640', require: 'exec[make]' }\n",
    );
    place.file("part", "a\n");
    let file = place.file("f", "a\n");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let planned = plan(&place).stdout;
    let lines = "/f] not known yet\n    mode: 0600 → 0640\n    content: known after exec[make]\n";
    assert!(planned.contains(lines), "{planned}");
    let (code, report) = applied(&place);
    let (status, mark, _) = of(&report, "/f");
    assert_eq!((code, &*status, &*mark), (0, "changed", "unknown"), "{report:#}");
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o640);
}

/// Plans a file of unknown content, with other content and the mode 0600. Returns the file.
fn unknown_content(place: &Place) -> String {
    place.file("part", "a\n");
    let file = place.file("f", "other\n");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let planned = plan(place).stdout;
    assert!(planned.contains("/f] not known yet\n"), "{planned}");
    file
}

const UNKNOWN_CONTENT: &str = "  exec[make]: { command: 'echo b >DIR/part', shell: true }\n  \
    file[DIR/f]: { fragments: [DIR/part], mode: '0640', require: 'exec[make]' }\n  \
    file[DIR/later]: { content: x, require: 'file[DIR/f]' }\n";

#[test]
fn unknown_step_is_stale_if_a_known_difference_has_moved() {
    let place = place(UNKNOWN_CONTENT);
    let file = unknown_content(&place);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o604)).unwrap();
    let (code, report) = applied(&place);
    let (status, mark, why) = of(&report, "/f");
    assert_eq!((code, &*status, &*mark), (4, "failed", "stale"), "{report:#}");
    assert!(why.contains("`mode` was 0600 when the plan was made, and is 0604"), "{why}");
    assert_eq!(content(&place, "f"), "other\n");
    assert_eq!((of(&report, "make").0, of(&report, "/later").0), ("changed".to_owned(), "skipped".to_owned()));
}

#[test]
fn unknown_step_is_carried_out_if_only_its_unknown_part_has_moved() {
    let place = place(UNKNOWN_CONTENT);
    unknown_content(&place);
    fs::write(place.path().join("f"), "moved\n").unwrap();
    let (code, report) = applied(&place);
    let (status, mark, _) = of(&report, "/f");
    assert_eq!((code, &*status, &*mark), (0, "changed", "unknown"), "{report:#}");
    assert_eq!(content(&place, "f"), "b\n");
}

#[test]
fn unknown_step_is_stale_if_the_file_appears_or_disappears() {
    for existed in [true, false] {
        let place = place(UNKNOWN_CONTENT);
        let file = unknown_content(&place);
        if existed {
            fs::remove_file(&file).unwrap();
        } else {
            fs::remove_file(&file).unwrap();
            plan(&place);
            fs::write(&file, "foreign\n").unwrap();
        }
        let (code, report) = applied(&place);
        let (status, mark, why) = of(&report, "/f");
        assert_eq!((code, &*status, &*mark), (4, "failed", "stale"), "{report:#}");
        let because = if existed { "`ensure` differs now" } else { "it was absent when the plan was made" };
        assert!(why.contains(because), "{why}");
        assert_eq!(content(&place, "f"), if existed { "" } else { "foreign\n" });
    }
}

#[test]
fn unknown_step_removes_nothing_unlisted() {
    let place = place(
        "  exec[token]: { command: echo 1234 }\n  file[DIR/token]: { content: '${exec[token].stdout}', force: true }\n",
    );
    plan(&place);
    fs::create_dir_all(place.path().join("token/deep")).unwrap();
    place.file("token/deep/a", "precious");
    let (code, report) = applied(&place);
    let (status, mark, why) = of(&report, "/token");
    assert_eq!((code, &*status, &*mark), (4, "failed", "stale"), "{report:#}");
    assert!(why.contains("`ensure` would change from directory to file, which the plan did not show"), "{why}");
    assert_eq!(content(&place, "token/deep/a"), "precious");
}

#[test]
fn line_that_is_read_before_its_predecessors_has_their_prediction() {
    let place = place(
        "  line[early]: { path: DIR/existing, line: here }\n  \
         line[late]: { path: DIR/dir/new, line: here, create: true, require: 'exec[slow]' }\n  \
         exec[slow]: { command: 'true', require: 'file[DIR/dir]' }\n  file[DIR/dir]: { ensure: directory }\n",
    );
    place.file("existing", "here\n");
    let planned = plan(&place).stdout;
    assert!(planned.contains("line[late] not known yet\n    ensure: known after exec[slow]\n"), "{planned}");
}
