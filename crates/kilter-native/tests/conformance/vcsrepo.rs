//! Checkouts of git repositories, with the real program.

use std::path::Path;
use std::process::Command;

use kilter_devkit::conformance::{Sample, Subject, Suite, Unsupported};
use kilter_model::Value;
use kilter_native::{System, VcsrepoProvider};

use crate::{assert_edges, tree};

fn git(directory: &Path, args: &[&str]) {
    let mut command = Command::new("git");
    command.current_dir(directory).args(["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]).args(args);
    assert!(command.status().expect("git is installed").success(), "git {args:?}");
}

fn subject() -> Subject {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let root = directory.path().to_owned();
    let source = root.join("source");
    std::fs::create_dir(&source).expect("the directory is new");
    git(&source, &["init", "-q", "-b", "main"]);
    for tag in ["v1", "v2"] {
        std::fs::write(source.join("file"), tag).expect("the directory is new");
        git(&source, &["add", "file"]);
        git(&source, &["commit", "-qm", tag]);
        git(&source, &["tag", tag]);
    }
    let path = |name: &str| root.join(name).to_str().expect("the path is text").to_owned();
    let (one, two) = (path("one"), path("two"));
    let address = path("source");
    let at = |revision: &str| [("source", Value::from(address.as_str())), ("revision", revision.into())];
    let checkout = Sample::new(&one).present(at("v1")).changed(at("v2"));
    let branch = Sample::new(&two).present(at("main")).changed(at("v1"));
    let failing = Sample::new(path("bad")).present([("source", Value::from("/nonexistent/source"))]);
    let (below, beside) = (root.clone(), root.clone());
    Subject::new(|| VcsrepoProvider::new(System::real()), move || work_trees(&below))
        .specimen(checkout)
        .specimen(branch)
        .unknown([path("nothing")])
        .failing(failing)
        .without(Unsupported::Listing, "checkouts can be anywhere")
        .without(Unsupported::Slow, "a local source answers at once")
        .names_like(move |name| beside.join(name.trim_start_matches('/')).to_string_lossy().into_owned())
        .sparing("source", FETCH)
        .sparing("revision", FETCH)
        .sparing("owner", ACCOUNT)
        .sparing("group", ACCOUNT)
        .keeping(directory)
}

const NOT_APPLICABLE: [&str; 8] = [
    "wanted-is-not-echoed",
    "some-are-among-all",
    "each-is-listed-once",
    "titles-fit-namevars",
    "other-attributes-stay",
    "a-refresh-is-served",
    "a-batch-is-one-by-one",
    "an-interrupt-ends-a-call",
];

const FETCH: &str = "each value needs a repository that has it";
const ACCOUNT: &str = "each value needs an account";

/// Describes the files outside of git's own directories, whose content depends on the time.
fn work_trees(root: &Path) -> String {
    let files = tree::fingerprint(root);
    let files: Vec<&str> = files.lines().filter(|line| !line.contains(".git")).collect();
    files.join("\n")
}

#[test]
fn vcsrepo_conforms() {
    let report = Suite::new(subject).run();
    report.assert();
    assert_eq!(report.not_applicable(), NOT_APPLICABLE, "{report}");
    let spared = format!("source ({FETCH}), revision ({FETCH}), owner ({ACCOUNT}), group ({ACCOUNT})");
    assert_edges(&report, 40, &spared);
}
