//! Types whose resources are parts of files.

use kilter_devkit::conformance::{Report, Sample, Subject, Suite, Unsupported};
use kilter_model::Value;
use kilter_native::{BlockProvider, IniProvider, LineProvider, StructuredProvider};
use kilter_provider::Provider;

use crate::tree;

const CONF: &str = "# kept\n[one]\na = 1\n\n[two]\nb=2 ; by hand\nlast";

/// Returns a subject with two files.
fn subject<P: Provider + Default + 'static>(samples: impl FnOnce(&str, &str) -> Vec<Sample>, bad: Sample) -> Subject {
    subject_with::<P>(CONF, samples, bad)
}

/// Returns a subject with two files of this content.
fn subject_with<P: Provider + Default + 'static>(
    content: &str,
    samples: impl FnOnce(&str, &str) -> Vec<Sample>,
    bad: Sample,
) -> Subject {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let root = directory.path().to_owned();
    let path = |name: &str| root.join(name).to_str().expect("the path is text").to_owned();
    let (one, two) = (path("one.conf"), path("two.conf"));
    for path in [&one, &two] {
        std::fs::write(path, content).expect("the directory is new");
    }
    let specimens = samples(&one, &two);
    let subject = Subject::new(P::default, move || tree::fingerprint(&root));
    specimens
        .into_iter()
        .fold(subject, Subject::specimen)
        .failing(bad)
        .without(Unsupported::Unknown, "a part is found only by its declaration")
        .without(Unsupported::Listing, "a part is found only by its declaration")
        .without(Unsupported::Removal, "a part is removed only by its declaration, which names the file")
        .without(Unsupported::Slow, "one small file is written, which cannot be kept waiting")
        .keeping(directory)
}

/// Passes if all laws hold except those that read a resource without its declaration, or remove it so.
fn assert_conforms(report: &Report) {
    println!("{report}");
    assert!(!report.to_string().contains("BROKEN"), "{report}");
    assert_eq!(report.untried(), UNDECLARED, "{report}");
    assert_eq!(report.not_applicable(), EXCUSED, "{report}");
}

/// Laws that read a resource by its name only.
const UNDECLARED: [&str; 3] = ["values-fit-the-schema", "what-is-read-is-canonical", "what-is-read-can-be-declared"];

const EXCUSED: [&str; 10] = [
    "unknown-is-absent",
    "some-are-among-all",
    "each-is-listed-once",
    "titles-fit-namevars",
    "other-attributes-stay",
    "a-refresh-is-served",
    "ensure-absent-removes",
    "preview-changes-nothing",
    "preview-foresees-rightly",
    "an-interrupt-ends-a-call",
];

const NO_FILE: &str = "/nonexistent/conf";

fn lines() -> Subject {
    let samples = |one: &str, two: &str| {
        let line = |path: &str, line: &str| [("path", Value::from(path)), ("line", line.into())];
        let setting = |text: &str| [&line(one, text)[..], &[("match", "^c =".into())]].concat();
        let after =
            |text: &str| [&line(two, text)[..], &[("match", "^d =".into()), ("after", "^\\[one\\]".into())]].concat();
        vec![
            Sample::new("setting").present(setting("c = 3")).changed(setting("c = 4")).absent(line(one, "c = 3")),
            Sample::new("after").present(after("d = 1")).changed(after("d = 2")).absent(line(two, "d = 1")),
        ]
    };
    subject::<LineProvider>(samples, Sample::new("bad").present([("path", NO_FILE), ("line", "x")]))
}

#[test]
fn line_conforms() {
    let report = Suite::new(lines).run();
    assert_conforms(&report);
}

fn blocks() -> Subject {
    let samples = |one: &str, two: &str| {
        let value = |text: &str| Value::from(text);
        vec![
            Sample::new("first")
                .present([("path", value(one)), ("content", value("x = 1\ny = 2\n"))])
                .changed([("path", value(one)), ("content", value("x = 2\n"))]),
            Sample::new("second")
                .present([("path", value(two)), ("content", value("z\n")), ("insert_after", value("^\\[one\\]"))])
                .changed([("path", value(two)), ("content", value("zz\n"))]),
        ]
    };
    subject::<BlockProvider>(samples, Sample::new("bad").present([("path", NO_FILE), ("content", "x")]))
}

#[test]
fn block_conforms() {
    let report = Suite::new(blocks).run();
    assert_conforms(&report);
}

fn settings() -> Subject {
    let samples = |one: &str, two: &str| {
        let value = |text: &str| Value::from(text);
        vec![
            Sample::new("new")
                .present([
                    ("path", value(one)),
                    ("section", value("one")),
                    ("setting", value("c")),
                    ("value", value("3")),
                ])
                .changed([
                    ("path", value(one)),
                    ("section", value("one")),
                    ("setting", value("c")),
                    ("value", value("4")),
                ]),
            Sample::new("section")
                .present([
                    ("path", value(two)),
                    ("section", value("three")),
                    ("setting", value("d")),
                    ("value", value("5")),
                ])
                .changed([
                    ("path", value(two)),
                    ("section", value("three")),
                    ("setting", value("d")),
                    ("value", value("6")),
                ]),
        ]
    };
    let bad = [("path", NO_FILE), ("setting", "x"), ("value", "y")];
    subject::<IniProvider>(samples, Sample::new("bad").present(bad))
}

#[test]
fn ini_conforms() {
    let report = Suite::new(settings).run();
    assert_conforms(&report);
}

const JSON: &str = "{\n  // kept\n  \"one\": {\"a\": 1}, \"two\": [2]\n}\n";

fn values() -> Subject {
    let samples = |one: &str, two: &str| {
        let value = |path: &str, key: Value, value: Value| {
            [("path", Value::from(path)), ("format", "json".into()), ("key", key), ("value", value)]
        };
        let (list, nested) = (|| Value::from("new"), || Value::strings(["one", "b", "c"]));
        vec![
            Sample::new("list").present(value(one, list(), Value::strings(["x", "y"]))).changed(value(
                one,
                list(),
                Value::strings(["x"]),
            )),
            Sample::new("nested").present(value(two, nested(), Value::Boolean(true))).changed(value(
                two,
                nested(),
                Value::hash([("d", 1.into())]),
            )),
        ]
    };
    let bad = [("path", Value::from(NO_FILE)), ("format", "json".into()), ("key", "x".into()), ("value", 1.into())];
    subject_with::<StructuredProvider>(JSON, samples, Sample::new("bad").present(bad))
}

#[test]
fn structured_conforms() {
    let report = Suite::new(values).run();
    assert_conforms(&report);
}
