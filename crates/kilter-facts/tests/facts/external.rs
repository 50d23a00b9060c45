//! External facts: files and executables in directories.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::support::{FakeKernel, FakeRoot};
use kilter_facts::{ExternalFacts, FactSource, Facts, Ids};
use kilter_model::{Value, to_json};
use serde_json::json;
use tempfile::TempDir;

/// A directory of facts.
struct Directory(TempDir);

impl Directory {
    fn new() -> Directory {
        Directory(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(self, name: &str, text: &str) -> Directory {
        std::fs::write(self.path(name), text).unwrap();
        mode(&self.path(name), 0o644);
        self
    }

    /// A shell script. It is written elsewhere by a process of its own: a descriptor that a
    /// parallel test's child inherits while it is open for writing would make it "busy".
    fn script(self, name: &str, body: &str) -> Directory {
        let source = self.path(".source");
        std::fs::write(&source, format!("#!/bin/sh\n{body}\n")).unwrap();
        let status =
            std::process::Command::new("install").args(["-m", "755"]).arg(&source).arg(self.path(name)).status();
        assert!(status.unwrap().success());
        self
    }

    fn facts_for(&self, uid: u32) -> Facts {
        let kernel = FakeKernel { ids: Ids { uid, gid: uid }, ..FakeKernel::default() };
        let external = ExternalFacts::in_directories([self.0.path()]).with_deadline(Duration::from_secs(3));
        Facts::new(FactSource::new(self.path("no-root"), kernel)).with_external(external)
    }

    fn facts(&self) -> Facts {
        self.facts_for(1000)
    }
}

fn mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// The problems, as file names and reasons.
fn problems(facts: &Facts) -> Vec<(String, String)> {
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    facts.problems().into_iter().map(|problem| (name(&problem.file), problem.why)).collect()
}

#[test]
fn json_lines_and_both_kinds_of_output_are_read() {
    let directory = Directory::new()
        .file("a.json", r#"{"rack": {"row": 3}}"#)
        .file("b.txt", "# site\n\nsite = north\n")
        .script("c", "echo '{\"tier\": [1, true]}'")
        .script("d.sh", "echo role=web; echo \"path=$PATH\"; pwd >&2");
    let facts = directory.facts();
    assert_eq!(facts.lookup("rack.row"), Ok(Value::from(3)));
    assert_eq!(facts.get("site"), Some(Value::from("north")));
    assert_eq!(facts.get("tier").map(|tier| to_json(&tier)), Some(json!([1, true])));
    assert_eq!(facts.get("role"), Some(Value::from("web")));
    assert_eq!(problems(&facts), []);
}

#[test]
fn later_names_and_later_directories_replace_earlier_ones() {
    let first = Directory::new().file("b.txt", "x=2\ny=2\n").file("a.txt", "x=1\n").file("c.txt", "z=first\n");
    let second = Directory::new().file("a.txt", "z=second\n");
    let external = ExternalFacts::in_directories([first.0.path(), second.0.path()]);
    let facts = FakeRoot::new().facts().with_external(external);
    assert_eq!([facts.get("x"), facts.get("z")], [Some(Value::from("2")), Some(Value::from("second"))]);
}

#[test]
fn a_file_replaces_a_whole_builtin_fact() {
    let directory = Directory::new().file("os.json", r#"{"os": {"name": "mine"}}"#);
    let facts = directory.facts();
    assert_eq!(facts.get("os").map(|os| to_json(&os)), Some(json!({ "name": "mine" })));
}

#[test]
fn executables_run_only_for_facts_without_another_source() {
    let directory = Directory::new().file("a.txt", "site=north\n");
    let witness = directory.path("witness");
    let directory = directory.script("run", &format!("echo ran >>'{}'; echo role=web", witness.display()));
    let facts = directory.facts();
    assert!(facts.lookup("kernel").is_ok() && facts.get("site").is_some() && facts.lookup("os.release.full").is_err());
    assert!(!witness.exists());
    assert_eq!(facts.get("role"), Some(Value::from("web")));
    assert_eq!(facts.get("nothing"), None);
    assert!(facts.all().contains_key("role"));
    assert_eq!(std::fs::read_to_string(witness).unwrap(), "ran\n");
}

#[test]
fn executable_cannot_replace_builtin_facts() {
    let directory = Directory::new().script("run", "echo kernel=other").file("a.txt", "kilter=fake\n");
    let facts = directory.facts().with_fact("kilter", Value::from("own"));
    let all = facts.all();
    assert_eq!(all["kernel"], Value::from("Linux"));
    assert_eq!(all["kilter"], Value::from("own"));
    let problems = problems(&facts);
    assert_eq!(problems[0].0, "a.txt");
    assert!(problems[0].1.contains("kilter's own"), "{problems:?}");
    assert_eq!(problems[1].0, "run");
    assert!(problems[1].1.contains("built-in"), "{problems:?}");
}

#[test]
fn invalid_fact_file_does_not_affect_others() {
    let directory = Directory::new()
        .file("b.json", "{\"a\": ")
        .file("c.json", "[1]")
        .file("d.txt", "no equals sign\n")
        .file("e.txt", "bad name=1\n")
        .file("f.yaml", "a: 1\n")
        .file("g.md", "read me\n")
        .script("h", "echo oops >&2; exit 3")
        .script("i", "echo a=1; sleep 60")
        .script("j", "head -c 2000000 /dev/zero | tr '\\0' x")
        .script("k", "printf '\\377\\376'")
        .script("l", "echo '{\"a\": 1} trailing'")
        .file("m", "no interpreter")
        .file("z.txt", "good=yes\n")
        .file(".hidden", "x")
        .file("old.txt~", "x");
    mode(&directory.path("m"), 0o755);
    let facts = directory.facts();
    let before = Instant::now();
    assert_eq!(facts.get("good"), Some(Value::from("yes")));
    assert!(!facts.all().contains_key("a"));
    assert!(before.elapsed() < Duration::from_secs(20), "the hanging script was not ended");
    let problems = problems(&facts);
    let expected = [
        ("b.json", "not JSON"),
        ("c.json", "a JSON object of facts is needed, not a value of kind Array"),
        ("d.txt", "line 1 is not of the form name=value"),
        ("e.txt", "`bad name` cannot be the name of a fact"),
        ("f.yaml", "YAML is not read here"),
        ("g.md", "neither .json nor .txt, and not executable"),
        ("h", "it failed with exit code 3: oops"),
        ("i", "ended after 3 seconds"),
        ("j", "it prints more than"),
        ("k", "its output is not UTF-8"),
        ("l", "its output: not JSON"),
        ("m", "cannot start"),
    ];
    let names: Vec<&str> = problems.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, expected.map(|(name, _)| name), "{problems:?}");
    for ((name, why), (_, expected)) in problems.iter().zip(expected) {
        assert!(why.contains(expected), "{name}: {why}");
    }
}

#[test]
fn fifo_is_refused_without_blocking() {
    let directory = Directory::new();
    let status = std::process::Command::new("mkfifo").arg(directory.path("a.txt")).status();
    assert!(status.unwrap().success());
    let facts = directory.facts();
    assert_eq!(facts.get("a"), None);
    assert_eq!(problems(&facts), [("a.txt".to_owned(), "not a regular file".to_owned())]);
}

/// Fails without root: only root owns files that root trusts, and can give them to others.
fn need_root() {
    use std::os::unix::fs::MetadataExt;
    let own = std::fs::metadata("/proc/self").expect("/proc is mounted");
    assert_eq!(own.uid(), 0, "run this test as root: it gives files to another user");
}

#[test]
fn root_refuses_fact_file_of_another_user() {
    need_root();
    let directory = Directory::new().file("a.txt", "a=1\n").file("b.txt", "b=1\n");
    mode(&directory.path("b.txt"), 0o666);
    let facts = directory.facts_for(0);
    let problems_of = |facts: &Facts| {
        facts.get("nothing");
        problems(facts)
    };
    assert_eq!(facts.get("a"), Some(Value::from("1")));
    assert_eq!(facts.get("b"), None);
    let [(file, why)] = &problems_of(&facts)[..] else { panic!("one problem is expected") };
    assert_eq!(file, "b.txt");
    assert!(
        why.starts_with("not used by root: it can be written by everybody (mode 0666); change that (chmod go-w "),
        "{why}"
    );
    std::os::unix::fs::chown(directory.path("a.txt"), Some(4711), None).unwrap();
    let why = &problems_of(&directory.facts_for(0))[0].1;
    assert!(
        why.starts_with("not used by root: it belongs to user 4711 (mode 0644); change that (chown -h root "),
        "{why}"
    );
}

#[test]
fn root_refuses_fact_directory_of_another_user() {
    need_root();
    let directory = Directory::new();
    let inner = directory.path("inner");
    std::fs::create_dir(&inner).unwrap();
    std::fs::write(inner.join("a.txt"), "a=1\n").unwrap();
    let facts = |path: &Path| {
        let kernel = FakeKernel { ids: Ids { uid: 0, gid: 0 }, ..FakeKernel::default() };
        Facts::new(FactSource::new("/nonexistent", kernel)).with_external(ExternalFacts::in_directories([path]))
    };
    assert_eq!(facts(&inner).get("a"), Some(Value::from("1")));
    mode(&inner, 0o777);
    assert_eq!(facts(&inner).get("a"), None);
    mode(&inner, 0o755);
    std::os::unix::fs::chown(directory.0.path(), Some(4711), None).unwrap();
    let facts = facts(&inner);
    assert_eq!(facts.get("a"), None);
    assert!(problems(&facts)[0].1.contains("belongs to user 4711"), "{:?}", problems(&facts));
    std::os::unix::fs::chown(directory.0.path(), Some(0), None).unwrap();
}
