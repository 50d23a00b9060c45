use std::path::PathBuf;
use std::sync::Arc;

use kilter_provider::compare;

use super::*;
use crate::accounts::RealRunner;

const HOSTS: &str = "# top\n127.0.0.1\tlocalhost\n10.0.0.1   web www  # first\n";

/// Files below a directory, and the real augtool.
struct Machine {
    directory: tempfile::TempDir,
    provider: AugeasProvider,
}

impl Machine {
    fn new() -> Machine {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(directory.path().join("etc/ssh")).unwrap();
        std::fs::write(directory.path().join("etc/hosts"), HOSTS).unwrap();
        let provider = AugeasProvider::new(System::new(directory.path(), Arc::new(RealRunner)));
        Machine { directory, provider }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn hosts(&self) -> String {
        std::fs::read_to_string(self.path("etc/hosts")).unwrap()
    }

    fn differences(&self, should: &Attributes) -> Result<Vec<Difference>, String> {
        let problems = self.provider.validate("x", should, &[]);
        if let Some(problem) = problems.first() {
            return Err(problem.to_string());
        }
        let (cx, name) = (Context::empty(), "x".into());
        let found = self.provider.get(&cx, Query::Named(&[Wanted::new(&name, Some(should))])).unwrap().remove(0);
        match &found.unreadable {
            Some(why) => Err(why.to_string()),
            None => compare(&self.provider, &cx, &found, should).map_err(|error| error.to_string()),
        }
    }

    /// Makes the changes. Returns the diff that a plan shows.
    fn apply(&self, should: &Attributes) -> Result<Option<String>, String> {
        let differences = self.differences(should)?;
        let (name, is) = ("x".into(), State::present("x", Attributes::new()));
        let change = Change::new(&name, &is, Some(should), &differences);
        let outcome = self.provider.set(&Context::empty(), &[change], Mode::Apply).remove(0);
        match outcome.failure {
            Some(why) => Err(why.into()),
            None => Ok(differences.first().and_then(|difference| difference.diff.clone()).map(Into::into)),
        }
    }
}

fn hosts(changes: &[&str]) -> Attributes {
    let mut should = Attributes::from_iter([("lens", Value::from("Hosts.lns")), ("incl", "/etc/hosts".into())]);
    should.push("changes", Value::strings(changes.iter().copied()));
    should
}

#[test]
fn changes_keep_the_rest_of_the_file() {
    let machine = Machine::new();
    let should =
        hosts(&["ins alias after *[canonical = 'web']/alias[last()]", "set *[canonical = 'web']/alias[last()] w3"]);
    let once = hosts(&["set *[canonical = 'web']/ipaddr 10.0.0.2"]);
    let diff = machine.apply(&once).unwrap().unwrap();
    assert!(diff.contains("-10.0.0.1   web www  # first\n+10.0.0.2   web www  # first\n"), "{diff}");
    assert_eq!(machine.hosts(), HOSTS.replace("10.0.0.1", "10.0.0.2"));
    assert_eq!(machine.differences(&once), Ok(Vec::new()));
    machine.apply(&should).unwrap();
    assert_eq!(machine.hosts(), HOSTS.replace("10.0.0.1   web www", "10.0.0.2   web www w3"));
    assert_eq!(machine.differences(&should).unwrap().len(), 1, "an alias more each time");
    machine.apply(&hosts(&["rm *[canonical = 'web']"])).unwrap();
    assert_eq!(machine.hosts(), "# top\n127.0.0.1\tlocalhost\n");
}

#[test]
fn a_read_changes_nothing() {
    let machine = Machine::new();
    let before = std::fs::read_dir(machine.path("etc")).unwrap().count();
    assert_eq!(machine.differences(&hosts(&["set 1/canonical other"])).unwrap().len(), 1);
    assert_eq!(machine.hosts(), HOSTS);
    assert_eq!(std::fs::read_dir(machine.path("etc")).unwrap().count(), before);
}

#[test]
fn condition_decides_before_the_changes() {
    let machine = Machine::new();
    let mut should = hosts(&["set 01/ipaddr 10.0.0.9", "set 01/canonical new"]);
    should.push("onlyif", "match *[canonical = 'new'] size == 0");
    assert!(machine.apply(&should).unwrap().unwrap().contains("+10.0.0.9\tnew\n"));
    assert_eq!(machine.differences(&should), Ok(Vec::new()));
    should.set("onlyif", "get 1/ipaddr == 1.2.3.4");
    assert_eq!(machine.differences(&should), Ok(Vec::new()));
}

#[test]
fn secret_is_not_shown() {
    let machine = Machine::new();
    let mut should = hosts(&[]);
    should.set("changes", Value::sensitive(Value::strings(["set 1/canonical s3cret"])));
    assert_eq!(machine.apply(&should).unwrap(), None);
    assert!(machine.hosts().contains("s3cret"));
    should.set("changes", Value::sensitive(Value::strings(["s3cret word"])));
    assert!(!machine.differences(&should).unwrap_err().contains("s3cret"));
}

#[test]
fn errors_name_file_and_reason() {
    let machine = Machine::new();
    let refused = |should: &Attributes| machine.differences(should).unwrap_err();
    assert!(refused(&hosts(&["set a[/b c"])).contains("is not closed"));
    let failure = refused(&hosts(&["rm /files/etc/hosts/*[nosuch(1)]"]));
    assert!(failure.contains("augtool failed") && !failure.contains("Failed to execute"), "{failure}");
    let failure = refused(&hosts(&["set 1/nosuch x"]));
    assert!(failure.contains("cannot write the changed tree: /etc/hosts: "), "{failure}");
    std::fs::write(machine.path("etc/hosts"), "127.0.0.1 localhost\nbad\n").unwrap();
    let failure = refused(&hosts(&["set 1/canonical x"]));
    assert!(failure.starts_with("/etc/hosts, line 2: "), "{failure}");
    std::fs::write(machine.path("etc/hosts"), "127.0.0.1 localhost").unwrap();
    assert!(refused(&hosts(&["set 1/canonical x"])).contains("does not end with a line break"));
    std::fs::remove_file(machine.path("etc/hosts")).unwrap();
    assert!(refused(&hosts(&["set 01/ipaddr 1.1.1.1", "set 01/canonical x"])).contains("does not exist or is empty"));
    let mut should = hosts(&["set 1/canonical x"]);
    should.set("lens", "Nosuch.lns");
    assert!(refused(&should).contains("Can not find lens"), "{}", refused(&should));
    should.set("lens", "Hosts.lns incl /etc/shadow");
    assert!(refused(&should).contains("is not a lens"));
    should.remove("lens");
    assert!(refused(&should).contains("`incl` needs `lens`"));
}

#[test]
fn foreign_link_is_not_followed() {
    let machine = Machine::new();
    std::fs::rename(machine.path("etc/hosts"), machine.path("secret")).unwrap();
    std::os::unix::fs::symlink(machine.path("secret"), machine.path("etc/hosts")).unwrap();
    let failure = machine.differences(&hosts(&["set 1/canonical x"])).unwrap_err();
    assert!(failure.contains("not a regular file"), "{failure}");
    assert_eq!(std::fs::read_to_string(machine.path("secret")).unwrap(), HOSTS);
}

#[test]
fn several_files_of_a_pattern_change() {
    let machine = Machine::new();
    std::fs::write(machine.path("etc/hosts2"), HOSTS).unwrap();
    let mut should = hosts(&["setm /files/etc/*/*[canonical = 'web'] ipaddr 10.0.0.3"]);
    should.set("incl", "/etc/hosts*");
    assert_eq!(machine.differences(&should).unwrap().len(), 2);
    machine.apply(&should).unwrap();
    assert_eq!(machine.hosts(), HOSTS.replace("10.0.0.1", "10.0.0.3"));
    assert_eq!(std::fs::read_to_string(machine.path("etc/hosts2")).unwrap(), machine.hosts());
    assert_eq!(machine.differences(&should), Ok(Vec::new()));
}
