//! Files, directories, links and copies are each other's edge: every kind is put through the suite.

use std::path::Path;

use kilter_devkit::conformance::{Sample, Subject, Suite, Unsupported};
use kilter_model::Value;
use kilter_native::FileProvider;

use crate::{assert_edges, assert_held_but, tree};

const NOT_LISTED: &str = "listing all files is not supported";

const NOT_APPLICABLE: [(&str, &str); 4] = [
    ("some-are-among-all", NOT_LISTED),
    ("each-is-listed-once", NOT_LISTED),
    ("titles-fit-namevars", "the type has one namevar"),
    ("a-refresh-is-served", "the provider does not have the feature `refresh`"),
];

fn specimen(directory: &Path, name: &str) -> Sample {
    Sample::new(directory.join(name).to_string_lossy())
}

fn text(path: &Path) -> Value {
    path.to_string_lossy().into_owned().into()
}

/// A directory, with a source to copy from, and the specimens that `specimens` makes there.
fn subject(specimens: fn(&Path) -> [Sample; 2]) -> Subject {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let root = directory.path().to_owned();
    std::fs::create_dir_all(root.join("source/below")).expect("the directory is new");
    std::fs::create_dir(root.join("names")).expect("the directory is new");
    std::fs::write(root.join("source/below/text"), "copied\n").expect("the directory is new");
    std::fs::write(root.join("source/text"), "copied too\n").expect("the directory is new");
    let (seen, begun, naming) = (root.clone(), root.join("begun"), root.clone());
    let waits = format!("touch {}; exec sleep 50", begun.display());
    let slow = specimen(&root, "slow").present([
        ("content", Value::from("slow\n")),
        ("validate_cmd", Value::strings(["/bin/sh", "-c", &waits, "%"])),
    ]);
    let [one, two] = specimens(&root);
    Subject::new(FileProvider::new, move || tree::fingerprint(&seen))
        .specimen(one)
        .specimen(two)
        .unknown([root.join("nothing").to_string_lossy(), root.join("no/where").to_string_lossy()])
        .failing(specimen(&root, "missing/file").present([("content", "x")]))
        .slow(slow, move || begun.exists())
        .without(Unsupported::Listing, NOT_LISTED)
        .names_like(move |text| format!("{}/names/{text}", naming.display()))
        .keeping(directory)
}

/// Returns the user of the tests, who owns the created files.
fn me() -> Value {
    Value::Integer(rustix::process::geteuid().as_raw().into())
}

fn files(root: &Path) -> [Sample; 2] {
    [
        specimen(root, "motd")
            .present([("content", "Welcome.\n"), ("mode", "0640")])
            .changed([("content", "Go away.\n"), ("mode", "0600")])
            .changed([("mode", "u+x")]),
        specimen(root, "empty").present([("ensure", "file")]).changed([("content", "no more")]),
    ]
}

fn directories(root: &Path) -> [Sample; 2] {
    [
        specimen(root, "srv")
            .present([("ensure", "directory".into()), ("mode", "0750".into()), ("owner", me())])
            .changed([("mode", "0755")]),
        specimen(root, "log/").present([("ensure", "directory")]).changed([("mode", "g+w")]),
    ]
}

fn links(root: &Path) -> [Sample; 2] {
    [
        specimen(root, "localtime")
            .present([("target", "/usr/share/zoneinfo/UTC".into()), ("owner", me())])
            .changed([("target", "nowhere")]),
        specimen(root, "broken").present([("ensure", "link"), ("target", "../x")]).changed([("target", "y")]),
    ]
}

fn copies(root: &Path) -> [Sample; 2] {
    let source = |name: &str| text(&root.join("source").join(name));
    [
        specimen(root, "text")
            .present([("source", source("text")), ("mode", "0640".into()), ("owner", me())])
            .changed([("source", source("below/text")), ("mode", "0600".into())])
            .absent([("ensure", "absent")]),
        specimen(root, "too")
            .present([("source", source("text")), ("checksum", "mtime".into())])
            .changed([("content", "not copied")])
            .absent([("ensure", "absent")]),
    ]
}

fn trees(root: &Path) -> [Sample; 2] {
    let tree = |name: &str| {
        specimen(root, name)
            .present([
                ("source", text(&root.join("source"))),
                ("recurse", true.into()),
                ("mode", "u=rwx,go=rx".into()),
                ("owner", me()),
            ])
            .changed([("recurse", Value::from(true)), ("mode", "u=rwx,go=".into())])
            .absent([("ensure", Value::from("absent")), ("force", true.into())])
    };
    [tree("www"), tree("www2")]
}

#[test]
fn file_conforms() {
    let report = Suite::new(|| subject(files)).run();
    assert_held_but(&report, &NOT_APPLICABLE);
    assert_edges(&report, 150, "");
}

#[test]
fn directory_conforms() {
    let report = Suite::new(|| subject(directories)).run();
    assert_held_but(&report, &NOT_APPLICABLE);
    assert_edges(&report, 150, "");
}

#[test]
fn link_conforms() {
    let report = Suite::new(|| subject(links)).run();
    assert_held_but(&report, &NOT_APPLICABLE);
    assert_edges(&report, 150, "");
}

#[test]
fn copy_conforms() {
    let report = Suite::new(|| subject(copies)).run();
    assert_held_but(&report, &NOT_APPLICABLE);
    assert_edges(&report, 150, "");
}

#[test]
fn tree_conforms() {
    let needs_force = "a directory that holds something is only removed with `force`";
    let report = Suite::new(move || subject(trees).without(Unsupported::Removal, needs_force)).run();
    let mut not_applicable = NOT_APPLICABLE.to_vec();
    not_applicable.push(("ensure-absent-removes", needs_force));
    assert_held_but(&report, &not_applicable);
    assert_edges(&report, 150, "");
}
