//! Changes of held files by people, programs and edits, compared with the history.

use std::path::Path;

use kilter_testkit::hosts::sandboxed;

use crate::host_with_kilter;

#[test]
fn history_is_right_about_fifty_changes() {
    sandboxed("who::history_is_right_about_fifty_changes", || {
        let host = host_with_kilter("who");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/host/fifty_changes.py");
        host.copy(&[(&script, "/srv/fifty_changes.py")]);
        let ended = host.run(&["python3", "/srv/fifty_changes.py"]);
        println!("{}", ended.stdout);
        assert!(ended.code == 0 && ended.stdout.contains("50 changes, 0 wrong"), "{ended:?}");
    });
}
