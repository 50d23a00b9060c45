use std::path::Path;

use kilter_devkit::conformance::{Sample, Subject, Suite, Unsupported};
use kilter_model::Value;
use kilter_native::{ExecProvider, System};

use crate::{assert_edges, assert_held_but, tree};

const OTHER_COMMAND: &str = "another command does not make the file that tells that it has run";
const OTHER_GUARD: &str = "another guard does not tell whether the command has run";
const OTHER_FILE: &str = "the command does not make another file, and without one runs every time";

/// A command that makes a directory, which tells that it has run. To set it again is to run it again:
/// one that may be repeated is needed.
fn making(directory: &Path, name: &str) -> Sample {
    let path = directory.join(name).to_string_lossy().into_owned();
    Sample::new(name).present([("command", format!("/bin/mkdir -p -m 0755 {path}")), ("creates", path)])
}

/// The same, in a shell and asked for by a command.
fn making_in_a_shell(directory: &Path, name: &str) -> Sample {
    let path = directory.join(name).to_string_lossy().into_owned();
    Sample::new(name).present([
        ("command", Value::from(format!("mkdir -p -m 0755 '{path}' && echo made | cat"))),
        ("shell", true.into()),
        ("unless", Value::array([Value::strings(["test", "-d", &path])])),
        ("cwd", directory.to_string_lossy().into_owned().into()),
        ("refresh", "true".into()),
        ("tries", Value::Integer(2)),
        ("user", "root".into()),
        ("umask", "0077".into()),
    ])
}

fn subject(first: fn(&Path, &str) -> Sample) -> Subject {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let root = directory.path().to_owned();
    let begun = root.join("begun");
    let shown = begun.display().to_string();
    let slow = Sample::new("slow").present([
        ("command", format!("touch {shown}; exec sleep 100")),
        ("creates", format!("{shown}.never")),
        ("shell", "/bin/sh".to_owned()),
    ]);
    let failing = Sample::new("failing")
        .present([("command", "/bin/false".to_owned()), ("creates", root.join("never").display().to_string())]);
    Subject::new(|| ExecProvider::new(System::real()), {
        let root = root.clone();
        move || tree::fingerprint(&root)
    })
    .specimen(first(&root, "one"))
    .specimen(making(&root, "two"))
    .unknown(["nothing"])
    .failing(failing)
    .slow(slow, move || begun.exists())
    .without(Unsupported::Listing, "commands are not on the system")
    .without(Unsupported::Removal, "what a command has done cannot be taken back")
    .keeping(directory)
}

const NOT_APPLICABLE: [(&str, &str); 10] = [
    ("wanted-is-not-echoed", "no specimen has an attribute that is read back and has another value when it is changed"),
    ("some-are-among-all", "commands are not on the system"),
    ("each-is-listed-once", "commands are not on the system"),
    ("titles-fit-namevars", "the type has one namevar"),
    ("others-are-left-alone", "what a command has done cannot be taken back"),
    ("other-attributes-stay", "the type has fewer than two attributes that can be changed"),
    ("absence-in-any-form", "the specimens exist before the trial creates them"),
    ("ensure-absent-removes", "what a command has done cannot be taken back"),
    ("absent-stays-absent", "the type has no `ensure: absent`"),
    ("a-batch-is-one-by-one", "the provider accepts one change at a time"),
];

#[test]
fn exec_conforms() {
    let making = || subject(making).sparing("command", OTHER_COMMAND).sparing("creates", OTHER_FILE);
    let report = Suite::new(making).run();
    assert_held_but(&report, &NOT_APPLICABLE);
    assert_edges(&report, 200, &format!("command ({OTHER_COMMAND}), creates ({OTHER_FILE})"));
}

#[test]
fn exec_with_shell_conforms() {
    crate::need_root();
    let making = || subject(making_in_a_shell).sparing("command", OTHER_COMMAND).sparing("unless", OTHER_GUARD);
    let report = Suite::new(making).run();
    assert_held_but(&report, &NOT_APPLICABLE);
    let spared = format!("command ({OTHER_COMMAND}), unless ({OTHER_GUARD})");
    assert_edges(&report, 200, &spared);
}
