use std::fs;
use std::os::unix::fs::{MetadataExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use kilter_model::Difference;
use kilter_provider::{NoPendingChanges, Revert, check};

use super::*;

mod hostile;

/// A source with two commits on `main` (the first is tagged `v1`) and a checkout path.
struct VcsrepoBench {
    home: tempfile::TempDir,
    provider: VcsrepoProvider,
}

/// Runs git as another program would, and returns its output.
#[track_caller]
fn git(directory: &Path, args: &[&str]) -> String {
    let settings = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org", "-c", "safe.directory=*"];
    let mut command = Command::new("git");
    command.current_dir(directory).args(settings).args(args).env("GIT_CONFIG_GLOBAL", "/dev/null");
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    assert!(output.status.success(), "git {args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

#[track_caller]
fn commit(directory: &Path, file: &str, content: &str) -> String {
    fs::write(directory.join(file), content).unwrap();
    git(directory, &["add", "-A"]);
    git(directory, &["commit", "-qm", content]);
    git(directory, &["rev-parse", "HEAD"])
}

impl VcsrepoBench {
    fn new() -> VcsrepoBench {
        let home = tempfile::tempdir().unwrap();
        // Other users read the source.
        fs::set_permissions(home.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let bench = VcsrepoBench { home, provider: VcsrepoProvider::new(System::real()) };
        fs::create_dir(bench.source()).unwrap();
        git(&bench.source(), &["init", "-q", "-b", "main"]);
        commit(&bench.source(), "a", "one");
        git(&bench.source(), &["tag", "-am", "first", "v1"]);
        commit(&bench.source(), "b", "two");
        bench
    }

    fn source(&self) -> PathBuf {
        self.home.path().join("source")
    }

    fn path(&self) -> PathBuf {
        self.home.path().join("checkout")
    }

    fn head(&self) -> String {
        git(&self.path(), &["rev-parse", "HEAD"])
    }

    fn should(&self, more: &[(&str, Value)]) -> Attributes {
        let source = Value::from(self.source().to_str().unwrap());
        let mut should = Attributes::from_iter([("ensure", Value::from("present")), ("source", source)]);
        for (name, value) in more {
            should.set(*name, value.clone());
        }
        should
    }

    fn found(&self, should: &Attributes, noop: bool) -> Result<Found, EcoString> {
        let name = self.path().to_str().unwrap().into();
        let wanted = Wanted::new(&name, Some(should)).with_noop(noop);
        check(&self.provider, &Context::empty(), &[wanted]).remove(0).map_err(|error| error.message)
    }

    #[track_caller]
    fn differences(&self, should: &Attributes) -> Vec<Difference> {
        self.found(should, false).unwrap().differences
    }

    /// Returns the texts of the differences.
    #[track_caller]
    fn texts(&self, should: &Attributes) -> Vec<String> {
        let text = |one: Difference| format!("{}: {}", one.attribute, one.message.unwrap_or_default());
        self.differences(should).into_iter().map(text).collect()
    }

    fn set(&self, should: &Attributes) -> Outcome {
        let name = self.path().to_str().unwrap().into();
        let found = self.found(should, false).unwrap();
        let change = Change::new(&name, &found.state, Some(should), &found.differences);
        self.provider.set(&Context::empty(), &[change], Mode::Apply).remove(0)
    }

    /// Changes the checkout, and expects that it is in sync afterwards.
    #[track_caller]
    fn converge(&self, should: &Attributes) {
        assert_ne!(self.differences(should), []);
        assert_eq!(self.previewed(should), "");
        assert_eq!(self.set(should), Outcome::done());
        assert_eq!(self.differences(should), []);
    }

    #[track_caller]
    fn refuses(&self, should: &Attributes, why: &str) {
        let failure = self.set(should).failure.unwrap_or_default();
        assert!(failure.contains(why), "{failure}");
    }

    /// Expects that the change fails, and that its preview fails with the same text.
    #[track_caller]
    fn predicts(&self, should: &Attributes, why: &str) {
        assert_eq!(self.previewed(should), self.set(should).failure.unwrap_or_default());
        self.refuses(should, why);
    }

    #[track_caller]
    fn previewed(&self, should: &Attributes) -> EcoString {
        let name = self.path().to_str().unwrap().into();
        let found = self.found(should, false).unwrap();
        let change = Change::new(&name, &found.state, Some(should), &found.differences);
        let cx = Context::empty().with_preview_context(&NoPendingChanges);
        self.provider.set(&cx, &[change], Mode::Preview).remove(0).failure.unwrap_or_default()
    }
}

#[test]
fn branch_tag_and_commit_are_checked_out() {
    let bench = VcsrepoBench::new();
    let second = git(&bench.source(), &["rev-parse", "main"]);
    let first = git(&bench.source(), &["rev-parse", "v1^{commit}"]);
    bench.converge(&bench.should(&[("revision", "main".into())]));
    assert_eq!((bench.head(), git(&bench.path(), &["branch", "--show-current"])), (second.clone(), "main".into()));
    assert_eq!(git(&bench.path(), &["rev-parse", "main@{upstream}"]), second);
    bench.converge(&bench.should(&[("revision", "v1".into())]));
    assert_eq!(bench.head(), first);
    assert!(!bench.path().join("b").exists());
    bench.converge(&bench.should(&[("revision", second.as_str().into())]));
    bench.converge(&bench.should(&[("revision", first[..8].into())]));
    assert_eq!(bench.head(), first);
    // A change of the source does not matter.
    let should = bench.should(&[("revision", "main".into())]);
    bench.converge(&should);
    commit(&bench.source(), "c", "three");
    assert_eq!(bench.differences(&should), []);
    bench.converge(&bench.should(&[("ensure", "absent".into())]));
    assert!(!bench.path().exists());
}

#[test]
fn latest_follows_the_source_and_names_both_commits() {
    let bench = VcsrepoBench::new();
    for revision in [None, Some("main")] {
        let more: Vec<(&str, Value)> = revision.map(|name| ("revision", Value::from(name))).into_iter().collect();
        let should = bench.should(&[&[("ensure", "latest".into())], &more[..]].concat());
        let planned = bench.found(&should, true).unwrap().differences.remove(0);
        let old = git(&bench.source(), &["rev-parse", "main"]);
        let planned = planned.message.unwrap();
        assert!(planned.starts_with(&format!("absent → latest at {}", short(&old))), "{planned}");
        bench.converge(&should);
        let new = commit(&bench.source(), "c", &format!("new {revision:?}"));
        let attribute = if revision.is_some() { "revision" } else { "ensure" };
        let named = if revision.is_some() { " (main)" } else { "" };
        assert_eq!(bench.texts(&should), [format!("{attribute}: {} → {}{named}", short(&old), short(&new))]);
        bench.converge(&should);
        assert_eq!(bench.head(), new);
        fs::remove_dir_all(bench.path()).unwrap();
    }
}

#[test]
fn latest_tag_is_fetched_again_after_it_moved() {
    let bench = VcsrepoBench::new();
    let should = bench.should(&[("ensure", "latest".into()), ("revision", "v1".into())]);
    bench.converge(&should);
    git(&bench.source(), &["tag", "-fam", "moved", "v1", "main"]);
    bench.converge(&should);
    assert_eq!(bench.head(), git(&bench.source(), &["rev-parse", "main"]));
}

#[test]
fn branch_that_the_source_rewrote_is_followed() {
    let bench = VcsrepoBench::new();
    let should = bench.should(&[("ensure", "latest".into()), ("revision", "main".into())]);
    bench.converge(&should);
    git(&bench.source(), &["reset", "-q", "--hard", "v1"]);
    let new = commit(&bench.source(), "c", "other");
    bench.converge(&should);
    assert_eq!(bench.head(), new);
}

#[test]
fn damaged_checkout_is_repaired() {
    let bench = VcsrepoBench::new();
    let should = bench.should(&[("revision", "main".into())]);
    bench.converge(&should);
    let head = bench.head();
    fs::remove_file(bench.path().join("a")).unwrap();
    assert_eq!(bench.texts(&should), ["ensure: deleted files: a"]);
    bench.converge(&should);
    assert_eq!(fs::read_to_string(bench.path().join("a")).unwrap(), "one");
    git(&bench.path(), &["checkout", "-q", "--detach", "v1"]);
    bench.converge(&should);
    git(&bench.path(), &["reset", "-q", "--hard", "v1"]);
    bench.converge(&should);
    assert_eq!(bench.head(), head);
    git(&bench.path(), &["remote", "set-url", "origin", "/elsewhere"]);
    bench.converge(&should);
    fs::remove_dir_all(bench.path().join(".git/objects")).unwrap();
    assert!(bench.found(&should, false).is_err());
    fs::remove_dir_all(bench.path()).unwrap();
    bench.converge(&should);
}

#[test]
fn interrupted_clone_is_completed() {
    let bench = VcsrepoBench::new();
    for revision in [None, Some("main")] {
        let more: Vec<(&str, Value)> = revision.map(|name| ("revision", Value::from(name))).into_iter().collect();
        let should = bench.should(&more);
        git(bench.home.path(), &["init", "-q", bench.path().to_str().unwrap()]);
        bench.converge(&should);
        git(&bench.path(), &["update-ref", "-d", "HEAD"]);
        git(&bench.path(), &["rm", "-rq", "--cached", "."]);
        fs::remove_file(bench.path().join("a")).unwrap();
        fs::remove_file(bench.path().join("b")).unwrap();
        bench.converge(&should);
        assert!(bench.path().join("a").exists());
        fs::remove_dir_all(bench.path()).unwrap();
    }
}

#[test]
fn local_changes_survive_without_force() {
    let bench = VcsrepoBench::new();
    let should = bench.should(&[("ensure", "latest".into()), ("revision", "main".into())]);
    bench.converge(&should);
    fs::write(bench.path().join("a"), "mine").unwrap();
    fs::write(bench.path().join("new"), "mine too").unwrap();
    assert_eq!(bench.differences(&should), []);
    // An update of other files keeps them.
    commit(&bench.source(), "b", "2");
    bench.converge(&should);
    assert_eq!(fs::read_to_string(bench.path().join("a")).unwrap(), "mine");
    // A staged change that the new commit contains stays too.
    fs::write(bench.path().join("b"), "22").unwrap();
    git(&bench.path(), &["add", "b"]);
    let new = commit(&bench.source(), "b", "22");
    let text = &bench.texts(&should)[0];
    assert!(text.ends_with(&format!(" → {} (main), with changed files: a, b", short(&new))), "{text}");
    bench.converge(&should);
    // An update of the same files is refused.
    commit(&bench.source(), "a", "1");
    bench.predicts(&should, "would overwrite changed or untracked files: ");
    git(&bench.path(), &["checkout", "-q", "--", "a"]);
    commit(&bench.source(), "new", "3");
    bench.predicts(&should, "would overwrite changed or untracked files: ");
    assert_eq!(fs::read_to_string(bench.path().join("new")).unwrap(), "mine too");
    bench.predicts(&bench.should(&[("ensure", "absent".into())]), "1 changed or untracked files");
    let forced = bench.should(&[("ensure", "latest".into()), ("revision", "main".into()), ("force", true.into())]);
    bench.converge(&forced);
    assert_eq!(fs::read_to_string(bench.path().join("new")).unwrap(), "3");
    fs::write(bench.path().join("a"), "mine").unwrap();
    assert_eq!(bench.texts(&forced), ["ensure: changed files: a"]);
    bench.converge(&forced);
    bench.converge(&bench.should(&[("ensure", "absent".into())]));
}

#[test]
fn local_commits_survive_without_force() {
    let bench = VcsrepoBench::new();
    let should = bench.should(&[("ensure", "latest".into()), ("revision", "main".into())]);
    bench.converge(&should);
    let own = commit(&bench.path(), "own", "own");
    assert_eq!(bench.differences(&should), []);
    commit(&bench.source(), "c", "three");
    bench.refuses(&should, "the branch main has 1 commit that its source does not have");
    bench.predicts(&bench.should(&[("ensure", "absent".into())]), "1 commit that its source does not have");
    git(&bench.path(), &["checkout", "-q", "--detach", "origin/main"]);
    let detached = commit(&bench.path(), "d", "d");
    bench.predicts(&bench.should(&[("revision", "v1".into())]), "1 commit without a branch");
    assert_eq!(bench.head(), detached);
    git(&bench.path(), &["checkout", "-q", "main"]);
    bench.converge(&bench.should(&[("revision", "v1".into())]));
    assert_eq!(git(&bench.path(), &["rev-parse", "main"]), own);
    let forced = bench.should(&[("ensure", "latest".into()), ("revision", "main".into()), ("force", true.into())]);
    bench.converge(&forced);
    assert_eq!(bench.head(), git(&bench.source(), &["rev-parse", "main"]));
}

#[test]
fn other_files_are_replaced_only_by_force() {
    let bench = VcsrepoBench::new();
    let should = bench.should(&[("revision", "main".into())]);
    let forced = bench.should(&[("revision", "main".into()), ("force", true.into())]);
    fs::create_dir(bench.path()).unwrap();
    bench.converge(&should);
    fs::remove_dir_all(bench.path()).unwrap();
    fs::create_dir(bench.path()).unwrap();
    fs::write(bench.path().join("precious"), "").unwrap();
    bench.predicts(&should, "is a directory without a repository");
    bench.converge(&forced);
    assert!(!bench.path().join("precious").exists());
    fs::remove_dir_all(bench.path()).unwrap();
    symlink("/etc", bench.path()).unwrap();
    bench.predicts(&should, "is a link");
    bench.converge(&forced);
    assert!(bench.path().join("a").exists() && Path::new("/etc/passwd").exists());
    let previewed = bench.previewed(&bench.should(&[("ensure", "bare".into())]));
    assert!(previewed.contains("that is not bare"), "{previewed}");
}

#[test]
fn bare_repository_and_empty_source() {
    let bench = VcsrepoBench::new();
    let bare = bench.should(&[("ensure", "bare".into())]);
    bench.converge(&bare);
    assert_eq!(git(&bench.path(), &["rev-parse", "main"]), git(&bench.source(), &["rev-parse", "main"]));
    assert_eq!(git(&bench.path(), &["symbolic-ref", "HEAD"]), "refs/heads/main");
    bench.predicts(&bench.should(&[("ensure", "absent".into())]), "is a bare repository with 2 commits");
    fs::remove_dir_all(bench.path()).unwrap();
    let new = Attributes::from_iter([("ensure", "bare")]);
    bench.converge(&new);
    assert_eq!(git(&bench.path(), &["config", "core.bare"]), "true");
    bench.converge(&bench.should(&[("ensure", "absent".into())]));
    fs::remove_dir_all(bench.source()).unwrap();
    git(bench.home.path(), &["init", "-q", "--bare", "source"]);
    for ensure in ["present", "latest"] {
        bench.converge(&bench.should(&[("ensure", ensure.into())]));
        fs::remove_dir_all(bench.path()).unwrap();
    }
    bench.converge(&Attributes::from_iter([("ensure", "present")]));
}

#[test]
fn depth_fetches_one_revision() {
    let bench = VcsrepoBench::new();
    let depth = ("depth", Value::from(1));
    bench.converge(&bench.should(&[("revision", "main".into()), depth.clone()]));
    assert_eq!(git(&bench.path(), &["rev-list", "--count", "HEAD"]), "1");
    commit(&bench.source(), "c", "three");
    bench.converge(&bench.should(&[("ensure", "latest".into()), ("revision", "main".into()), depth.clone()]));
    bench.converge(&bench.should(&[("revision", "v1".into()), depth.clone()]));
    let first = git(&bench.source(), &["rev-parse", "v1^{commit}"]);
    let second = git(&bench.source(), &["rev-parse", "main~1"]);
    fs::remove_dir_all(bench.path()).unwrap();
    for commit in [first, second] {
        bench.converge(&bench.should(&[("revision", commit.as_str().into()), depth.clone()]));
        assert_eq!(bench.head(), commit);
    }
    assert_eq!(git(&bench.path(), &["rev-list", "--count", "HEAD"]), "1");
}

#[test]
fn unknown_revision_and_unreachable_source_are_reported() {
    let bench = VcsrepoBench::new();
    let should = bench.should(&[("revision", "nothing".into())]);
    bench.refuses(&should, "the source has no branch and no tag `nothing`");
    // The empty repository stays, and the next change completes it.
    bench.converge(&bench.should(&[("revision", "main".into())]));
    let gone = bench.should(&[("source", "/nowhere/at/all".into()), ("revision", "main".into())]);
    let error = bench.found(&gone, false).unwrap_err();
    assert!(error.contains("git ls-remote failed") && error.contains("/nowhere/at/all"), "{error}");
}

/// Serves the repositories below a directory by git's own protocol, and returns the address.
fn serve(base: &Path) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("git://{}", listener.local_addr().unwrap());
    let base = format!("--base-path={}", base.display());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let input: std::os::fd::OwnedFd = stream.unwrap().into();
            let output = input.try_clone().unwrap();
            let mut command = Command::new("git");
            command.args(["daemon", "--inetd", "--export-all", &base]).stdin(input).stdout(output);
            command.status().unwrap();
        }
    });
    address
}

#[test]
fn submodules_are_checked_out_and_repaired() {
    let bench = VcsrepoBench::new();
    let address = serve(bench.home.path());
    let library = bench.home.path().join("library");
    fs::create_dir(&library).unwrap();
    git(&library, &["init", "-q", "-b", "main"]);
    let old = commit(&library, "code", "old");
    git(&bench.source(), &["submodule", "--quiet", "add", &format!("{address}/library"), "lib"]);
    git(&bench.source(), &["commit", "-qm", "library"]);
    let should = bench.should(&[("ensure", "latest".into()), ("submodules", true.into())]);
    bench.converge(&should);
    let code = bench.path().join("lib/code");
    assert_eq!(fs::read_to_string(&code).unwrap(), "old");
    // The source moves to another commit of the library.
    commit(&library, "code", "new");
    git(&bench.source().join("lib"), &["pull", "-q"]);
    git(&bench.source(), &["commit", "-qam", "newer library"]);
    bench.converge(&should);
    assert_eq!(fs::read_to_string(&code).unwrap(), "new");
    git(&bench.path().join("lib"), &["checkout", "-q", &old]);
    assert_eq!(bench.texts(&should), ["ensure: submodules at another commit: lib"]);
    bench.converge(&should);
    git(&bench.path().join("lib"), &["checkout", "-q", "--detach", &old]);
    commit(&bench.path().join("lib"), "own", "own");
    bench.refuses(&should, "a submodule has commits without a branch");
    bench.converge(&bench.should(&[("ensure", "latest".into()), ("submodules", true.into()), ("force", true.into())]));
    fs::remove_dir_all(bench.path().join("lib")).unwrap();
    bench.converge(&should);
    assert_eq!(fs::read_to_string(&code).unwrap(), "new");
}

#[test]
fn invalid_values_are_refused_with_a_remedy() {
    let provider = VcsrepoProvider::new(System::real());
    let problems = |path: &str, should: &[(&str, Value)]| {
        let should = should.iter().map(|(name, value)| (*name, value.clone())).collect();
        let problems = provider.validate(path, &should, &[]);
        problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    for (path, should, why) in [
        ("srv", vec![], "`srv` is no absolute path"),
        ("/", vec![], "no absolute path"),
        ("/srv/x", vec![("source", "ext::sh -c id".into())], "is no address of a repository (write https://"),
        ("/srv/x", vec![("revision", "--force".into())], "names no branch, tag or commit"),
        ("/srv/x", vec![("remote", "../x".into())], "is no name of a remote"),
        ("/srv/x", vec![("ensure", "latest".into())], "`ensure: latest` needs a source"),
        ("/srv/x", vec![("ensure", "bare".into()), ("revision", "v1".into())], "has no checkout"),
        ("/srv/x", vec![("user", "ann".into()), ("owner", "bob".into())], "git runs as `ann`"),
        ("/srv/x", vec![("user", 4294967296_i64.into())], "is not an account number"),
    ] {
        let found = problems(path, &should);
        assert!(found.contains(why), "{path} {should:?}: {found}");
    }
    assert_eq!(problems("/srv/x/", &[("source", "/srv/y".into()), ("ensure", "latest".into())]), "");
}

impl VcsrepoBench {
    /// Returns the declaration that restores the checkout after a change.
    fn before(&self, should: &Attributes) -> Result<Attributes, EcoString> {
        let found = self.found(should, false)?;
        let mut before = Attributes::from_iter([("ensure", found.state.attributes.get("ensure").unwrap().clone())]);
        self.provider.revert_values(should, &found.state, &mut before).map(|()| before)
    }
}

#[test]
fn removed_checkout_is_restored_at_its_commit() {
    let bench = VcsrepoBench::new();
    bench.converge(&bench.should(&[]));
    let (head, absent) = (bench.head(), Attributes::from_iter([("ensure", "absent")]));
    let before = bench.before(&absent).unwrap();
    assert_eq!(before, bench.should(&[("revision", head.as_str().into())]));
    bench.converge(&absent);
    commit(&bench.source(), "c", "three");
    bench.converge(&before);
    assert_eq!(bench.head(), head);
    let forced = Attributes::from_iter([("ensure", Value::from("absent")), ("force", Value::from(true))]);
    fs::write(bench.path().join("a"), "edited").unwrap();
    assert_eq!(bench.before(&forced).unwrap_err(), "its changed files are not saved");
    git(&bench.path(), &["checkout", "-q", "."]);
    git(&bench.path(), &["remote", "remove", "origin"]);
    assert_eq!(bench.before(&forced).unwrap_err(), "it has no source, and its commits are not saved");
}

#[test]
fn moved_branch_is_restored_at_its_commit() {
    let bench = VcsrepoBench::new();
    let latest = bench.should(&[("ensure", "latest".into()), ("revision", "main".into())]);
    bench.converge(&latest);
    let head = bench.head();
    commit(&bench.source(), "c", "three");
    let mut before = bench.before(&latest).unwrap();
    assert_eq!(before, Attributes::from_iter([("ensure", "present"), ("revision", &*head)]));
    bench.converge(&latest);
    before.set("source", latest.get("source").unwrap().clone());
    bench.converge(&before);
    assert_eq!(bench.head(), head);
}
