//! Manifests from a source: versions, failures of the source, and what `kilter status` shows of them.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::remote::Sshd;
use crate::run::{Running, content, wait};
use crate::status::status;
use crate::support::*;

/// A git repository with the manifests of a test.
pub(crate) struct Repository {
    pub(crate) path: PathBuf,
    place: PathBuf,
}

impl Repository {
    /// Creates a repository `repo` whose manifest declares the file `out` with this content.
    pub(crate) fn new(place: &Place, content: &str) -> Repository {
        let repository = Repository { path: place.path().join("repo"), place: place.path().to_owned() };
        std::fs::create_dir(&repository.path).unwrap();
        repository.git(&["init", "--quiet", "-b", "main"]);
        repository.declare(content);
        repository
    }

    /// Runs git in the repository.
    #[track_caller]
    pub(crate) fn git(&self, args: &[&str]) -> String {
        let mut command = Command::new("git");
        command
            .args(["-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "gpg.format=ssh"])
            .args(args)
            .current_dir(&self.path)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", "/nonexistent")
            .env("GIT_CONFIG_NOSYSTEM", "1");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Writes a file of the repository.
    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.path.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Returns a manifest that declares the file `out` with this content.
    pub(crate) fn manifest(&self, content: &str) -> String {
        format!("resources:\n  file[{}/out]: {{content: {content}}}\n", self.place.display())
    }

    /// Commits a manifest that declares the file `out` with this content. Returns the commit.
    pub(crate) fn declare(&self, content: &str) -> String {
        self.write("site.yaml", self.manifest(content));
        self.commit(&[])
    }

    /// Commits all files, with these options.
    #[track_caller]
    pub(crate) fn commit(&self, options: &[&str]) -> String {
        self.git(&["add", "--all"]);
        self.git(&[&["commit", "--quiet", "--allow-empty", "-m", "change"], options].concat());
        self.git(&["rev-parse", "HEAD"])
    }

    /// Returns the address of the repository.
    pub(crate) fn url(&self) -> String {
        format!("git+file://{}", self.path.display())
    }

    /// Starts `kilter run`, which fetches each second.
    pub(crate) fn run(&self, place: &Place, options: &[&str]) -> Running {
        let url = self.url();
        Running::begin(place, &[&["--from", &url, "--interval", "1s", "--splay", "0"], options].concat())
    }
}

/// Returns the content of the declared file.
pub(crate) fn out(place: &Place) -> String {
    content(&place.path().join("out"))
}

/// Returns the store of the only source.
pub(crate) fn store(place: &Place) -> PathBuf {
    let stores = std::fs::read_dir(place.path().join("state/pull")).unwrap();
    let stores: Vec<PathBuf> = stores.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(stores.len(), 1, "{stores:?}");
    stores[0].clone()
}

/// Returns the names of the stored versions.
fn versions(place: &Place) -> Vec<String> {
    let entries = std::fs::read_dir(store(place).join("versions")).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

#[test]
fn new_version_is_taken_up_and_recorded() {
    let place = Place::new();
    let repository = Repository::new(&place, "one");
    let first = repository.git(&["rev-parse", "HEAD"]);
    let running = repository.run(&place, &[]);
    wait("the first version", || out(&place) == "one");
    let mut commits = vec![first];
    for content in ["two", "three"] {
        let commit = repository.declare(content);
        wait("the next version", || out(&place) == content);
        wait("its commit", || status(&place, &[])["source"]["version"] == commit.as_str());
        commits.push(commit);
    }
    let shown = place.run(&["status"]).stdout;
    let last = commits[2].clone();
    assert!(
        shown.contains(&format!("from {} of main in git+file://DIR/repo, last seen there", &last[..12])),
        "{shown}"
    );
    assert_eq!(running.told(&format!("using commit {} of main", &last[..12])), 1);
    assert_eq!(place.run(&["status"]).code, 0);
    // The held version and its predecessor, whose calls may be in flight.
    commits.remove(0);
    commits.sort_unstable();
    assert_eq!(versions(&place), commits);
    let history = place.run(&["history", "show", "last"]).stdout;
    assert!(history.contains(" of main in git+file://DIR/repo)"), "{history}");
    let blame = place.run(&["blame", &format!("file[{}/out]", place.path().display())]).stdout;
    assert!(blame.contains(&last[..12]), "{blame}");
    assert_eq!(running.end().0, Some(143));
}

#[test]
fn last_version_is_held_while_the_source_is_away() {
    let place = Place::new();
    let repository = Repository::new(&place, "one");
    let running = repository.run(&place, &[]);
    wait("the first version", || out(&place) == "one");
    let mut follow = place.command(&["status", "--follow"]);
    let mut follow = follow.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines();
    let away = place.path().join("away");
    std::fs::rename(&repository.path, &away).unwrap();
    let event = lines.by_ref().map(Result::unwrap).find(|line| line.contains("\"event\":\"conditions\"")).unwrap();
    let event: serde_json::Value = serde_json::from_str(&event).unwrap();
    assert!(event["source"]["failure"]["why"].as_str().unwrap().starts_with("git ls-remote: "), "{event}");
    let ended = place.run(&["status"]);
    assert!(ended.code == 2 && ended.stdout.contains("holding "), "{}", ended.stdout);
    assert!(ended.stdout.contains("main in git+file://DIR/repo, last seen there at 20"), "{}", ended.stdout);
    let metrics = place.run(&["status", "--format", "prometheus"]).stdout;
    assert!(metrics.contains("\nkilter_source_failed{reason=\"unavailable\"} 1\n"), "{metrics}");
    assert!(metrics.contains("\nkilter_source_failed{reason=\"rejected\"} 0\n"), "{metrics}");
    // Drift is repaired as usual.
    place.file("out", "drift");
    wait("the repair", || out(&place) == "one");
    wait("the message", || running.told("last seen there at") > 0);
    // There is one message for all attempts.
    assert_eq!(running.told("last seen there at"), 1);
    assert_eq!(running.end().0, Some(143));
    follow.wait().unwrap();
    std::fs::remove_file(place.path().join("out")).unwrap();

    let running = repository.run(&place, &[]);
    wait("the stored version", || out(&place) == "one");
    wait("the failure", || status(&place, &[])["source"]["failure"].is_object());
    std::fs::rename(&away, &repository.path).unwrap();
    wait("the source", || status(&place, &[])["source"]["failure"].is_null());
    repository.declare("two");
    wait("the next version", || out(&place) == "two");
    assert_eq!(running.told("can be used again"), 1);
    drop(running);

    std::fs::rename(&repository.path, &away).unwrap();
    place.file("out", "drift");
    let applied = place.run(&["apply", "--from", &repository.url()]);
    assert_eq!((applied.code, out(&place)), (4, "two".to_owned()), "{}", applied.stderr);
    assert!(applied.stderr.contains("warning: holding "), "{}", applied.stderr);
    let plan = place.run(&["plan", "--from", &repository.url()]);
    assert!(plan.code == 1 && plan.stderr.contains("cannot fetch main in git+file"), "{}", plan.stderr);
}

#[test]
fn version_with_errors_is_not_held_even_after_a_restart() {
    let place = Place::new();
    let repository = Repository::new(&place, "one");
    let good = repository.git(&["rev-parse", "HEAD"]);
    let running = repository.run(&place, &[]);
    wait("the first version", || out(&place) == "one");
    repository.write("site.yaml", repository.manifest("two") + "  file[/x]: {foo: 1}\n");
    let broken = repository.commit(&[]);
    let errors = || status(&place, &[])["outdated"]["errors"] == 1;
    wait("the errors", errors);
    let shown = place.run(&["status"]);
    assert!(shown.code == 4 && shown.stdout.contains("; the manifest has 1 error\n"), "{}", shown.stdout);
    assert!(shown.stdout.contains(&format!("; the newest one there is {}\n", &broken[..12])), "{}", shown.stdout);
    let document = status(&place, &[]);
    assert_eq!(document["source"]["version"], good.as_str());
    assert_eq!(document["source"]["newest"], broken.as_str());
    drop(running);
    place.file("out", "drift");

    // The source is not needed.
    std::fs::rename(&repository.path, place.path().join("away")).unwrap();
    let running = repository.run(&place, &[]);
    // There is no moment at which the status is that of a valid manifest.
    wait("the run", || status(&place, &[]).is_object());
    assert!(errors());
    wait("the last version without errors", || out(&place) == "one");
    let held = status(&place, &[])["outdated"]["held_unix_ms"].as_u64().unwrap();
    assert!(held < document["source"]["seen_unix_ms"].as_u64().unwrap(), "the time of the version: {held}");
    std::fs::rename(place.path().join("away"), &repository.path).unwrap();
    repository.declare("three");
    wait("the corrected version", || out(&place) == "three");
    wait("the end of the errors", || status(&place, &[])["outdated"].is_null());
    drop(running);
    repository.write("site.yaml", "resources: [");
    repository.commit(&[]);
    let applied = place.run(&["apply", "--from", &repository.url()]);
    assert_eq!((applied.code, out(&place)), (1, "three".to_owned()), "{}", applied.stderr);
}

#[test]
fn resource_that_left_the_source_is_known_over_versions() {
    let place = Place::new();
    let repository = Repository::new(&place, "one");
    let url = repository.url();
    let gone = place.path().join("gone");
    let declared = format!("  file[{}]: {{content: x}}\n", gone.display());
    repository.write("site.yaml", repository.manifest("one") + &declared);
    repository.commit(&[]);
    assert_eq!(place.run(&["apply", "--from", &url]).code, 0);
    repository.declare("two");
    let planned = place.run(&["plan", "--from", &url]);
    let left = "no longer declared, and left as they are: file[DIR/gone]";
    assert!(planned.code == 2 && planned.stderr.contains(left), "{}", planned.stderr);
    assert!(gone.exists());
    let removed = place.run(&["apply", "--from", &url, "--released", "remove"]);
    assert_eq!((removed.code, gone.exists()), (0, false), "{}", removed.stderr);
}

#[test]
fn plan_and_dry_runs_leave_no_traces() {
    let place = Place::new();
    let repository = Repository::new(&place, "one");
    let temporary = place.path().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let url = repository.url();
    for args in [&["plan", "--from", &url][..], &["apply", "--noop", "--from", &url]] {
        let planned = place.end(place.command(args).env("TMPDIR", &temporary));
        assert_eq!(planned.code, 2, "{}", planned.stderr);
        assert!(planned.stdout.contains("ensure: absent → file"), "{}", planned.stdout);
        assert!(!place.path().join("state").exists() && !place.path().join("out").exists());
        assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
    }
}

#[test]
fn paths_select_manifests_in_the_source() {
    let place = Place::new();
    let repository = Repository::new(&place, "one");
    let path = place.path().display().to_string();
    let declares = |name: &str| format!("resources:\n  file[{path}/{name}]: {{content: {name}}}\n");
    repository.write("web/b.yaml", declares("b"));
    repository.write("web/a.yml", format!("include: [../common/c.yaml]\n{}", declares("a")));
    repository.write("web/notes.txt", "no manifest");
    repository.write("common/c.yaml", declares("c"));
    repository.commit(&[]);
    let url = repository.url();
    let applied = place.run(&["apply", "--from", &url, "--path", "web", "--path", "./site.yaml"]);
    assert_eq!(applied.code, 0, "{}", applied.stderr);
    for name in ["a", "b", "c"] {
        assert_eq!(content(&place.path().join(name)), name);
    }
    assert_eq!(out(&place), "one");
    for (path, message) in [
        ("../state", "leads out of the source"),
        ("/etc/passwd", "leads out of the source"),
        ("no.yaml", "has no usable no.yaml"),
        ("common/empty", "has no usable"),
    ] {
        let refused = place.run(&["plan", "--from", &url, "--path", path]);
        assert!(refused.code == 1 && refused.stderr.contains(message), "{path}: {}", refused.stderr);
    }
}

#[test]
fn branch_goes_before_a_tag_of_the_same_name() {
    let place = Place::new();
    let repository = Repository::new(&place, "branch");
    repository.declare("tag");
    repository.git(&["tag", "main"]);
    repository.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
    repository.git(&["tag", "-a", "-m", "release", "v1", "tags/main"]);
    let url = repository.url();
    for (reference, content) in [("main", "branch"), ("v1", "tag"), ("refs/tags/main", "tag")] {
        let applied = place.run(&["apply", "--from", &url, "--ref", reference]);
        assert_eq!((applied.code, out(&place).as_str()), (0, content), "{}", applied.stderr);
    }
    let unknown = place.run(&["apply", "--from", &url, "--ref", "nosuch"]);
    assert!(unknown.code == 1 && unknown.stderr.contains("has no branch or tag `nosuch`"), "{}", unknown.stderr);
}

#[test]
fn killed_fetch_leaves_the_old_or_the_new_version() {
    let place = Place::new();
    let repository = Repository::new(&place, "one");
    for number in 0..300 {
        repository.write(&format!("data/{number}"), format!("{number}\n").repeat(100));
    }
    repository.declare("one");
    let url = repository.url();
    let args = ["apply", "--from", &url];
    assert_eq!(place.run(&args).code, 0);
    let store = store(&place);
    let old = repository.git(&["rev-parse", "HEAD"]);
    repository.write("data/300", "more");
    let new = repository.declare("two");
    let is_new_directory = || {
        let mut entries = std::fs::read_dir(store.join("versions")).unwrap();
        entries.any(|entry| entry.unwrap().file_name().to_str().unwrap().starts_with("new-"))
    };
    let fetched = store.join("repo.git/refs/kilter/fetched");
    let stages: [(&str, &dyn Fn() -> bool); 4] = [
        ("the start of a call", &|| true),
        ("the fetched commit", &|| content(&fetched).trim() == new),
        ("the start of the checkout", &is_new_directory),
        ("the end of the checkout", &|| store.join("versions").join(&new).exists()),
    ];
    for (stage, is_reached) in stages {
        // Each kill comes as early as its stage, or after the end of a fast command.
        let mut child = place.command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait(stage, || is_reached() || child.try_wait().unwrap().is_some());
        let _ = child.kill();
        child.wait().unwrap();
        let state: serde_json::Value = serde_json::from_str(&content(&store.join("state.json"))).unwrap();
        let current = state["current"]["version"].as_str().unwrap().to_owned();
        assert!([&old, &new].contains(&&current), "{stage}: {current}");
        let tree = store.join("versions").join(&current).join("tree");
        assert_eq!(tree.join("data/300").exists(), current == new, "{stage}");
        assert_eq!(std::fs::read_dir(tree.join("data")).unwrap().count(), if current == new { 301 } else { 300 });
        // The next kill finds the old version again.
        let restored = content(&store.join("state.json")).replace(&new, &old);
        std::fs::write(store.join("state.json"), restored).unwrap();
        let _ = std::fs::remove_dir_all(store.join("versions").join(&new));
    }
    // What a killed git leaves behind.
    for leftover in ["refs/kilter/fetched.lock", "refs/kilter/held.lock", "packed-refs.lock", "objects/pack/tmp_pack_x"]
    {
        std::fs::write(store.join("repo.git").join(leftover), "").unwrap();
    }
    std::fs::create_dir_all(store.join("versions/new-1-1/tree")).unwrap();
    for reference in ["held", "fetched"] {
        std::fs::write(store.join("repo.git/refs/kilter").join(reference), "").unwrap();
    }
    let applied = place.run(&args);
    assert_eq!((applied.code, out(&place)), (0, "two".to_owned()), "{}", applied.stderr);
    assert!(!store.join("repo.git/objects/pack/tmp_pack_x").exists());
    let mut expected = vec![old, new];
    expected.retain(|version| store.join("versions").join(version).exists());
    expected.sort_unstable();
    assert_eq!(versions(&place), expected);
}

#[test]
fn removed_store_is_fetched_again() {
    let place = Place::new();
    let repository = Repository::new(&place, "one");
    let running = repository.run(&place, &[]);
    wait("the first version", || out(&place) == "one");
    std::fs::remove_dir_all(store(&place).join("versions")).unwrap();
    std::fs::remove_dir_all(store(&place).join("repo.git")).unwrap();
    wait("the version", || !versions_or_none(&place).is_empty());
    repository.declare("two");
    wait("the next version", || out(&place) == "two");
    drop(running);
}

fn versions_or_none(place: &Place) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(store(place).join("versions")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path().join("tree")).filter(|tree| tree.is_dir()).collect()
}

#[test]
fn directory_is_used_when_it_is_complete() {
    let place = Place::new();
    let site = place.path().join("site");
    std::fs::create_dir_all(site.join("files")).unwrap();
    let path = site.display().to_string();
    let out_path = place.path().join("out").display().to_string();
    let write = |text: &str| std::fs::write(site.join("files/motd"), text).unwrap();
    let sums = || {
        let script = "find . -type f ! -name SHA256SUMS -exec sha256sum {} + >SHA256SUMS";
        assert!(Command::new("sh").args(["-c", script]).current_dir(&site).status().unwrap().success());
    };
    let manifest = format!("resources:\n  file[{out_path}]: {{content: {{template: files/motd}}}}\n");
    std::fs::write(site.join("site.yaml"), manifest).unwrap();
    write("one");
    let early = place.run(&["apply", "--from", &path]);
    assert!(early.code == 1 && early.stderr.contains("SHA256SUMS does not exist; write it"), "{}", early.stderr);
    sums();
    let running = Running::begin(&place, &["--from", &path, "--interval", "1s"]);
    wait("the first version", || out(&place) == "one");
    write("two");
    sums();
    // An update in progress.
    write("three");
    wait("the failure", || status(&place, &[])["source"]["failure"].is_object());
    let failure = status(&place, &[])["source"]["failure"].clone();
    assert!(failure["why"].as_str().unwrap().contains("files/motd does not have its digest"), "{failure}");
    assert_eq!((&failure["rejected"], out(&place).as_str()), (&false.into(), "one"));
    sums();
    wait("the complete version", || out(&place) == "three");
    assert_eq!(running.end().0, Some(143));
    let history = place.run(&["history", "show", "last"]).stdout;
    assert!(history.contains(", version ") && history.contains(" of DIR/site)"), "{history}");
}

#[test]
fn repository_is_fetched_over_ssh() {
    let sshd = Sshd::start();
    let place = &sshd.place;
    let repository = Repository::new(place, "one");
    let url = format!("git+ssh://h1{}", repository.path.display());
    let config = sshd.path("ssh_config");
    let running =
        Running::begin(place, &["--ssh-config", &config, "--from", &url, "--interval", "1s", "--path", "site.yaml"]);
    wait("the first version", || out(place) == "one");
    repository.declare("two");
    wait("the next version", || out(place) == "two");
    std::fs::write(sshd.path("known_hosts"), "").unwrap();
    repository.declare("three");
    wait("the refusal", || {
        let why = status(place, &[])["source"]["failure"]["why"].to_string();
        why.contains("Host key verification failed")
    });
    assert_eq!((running.end().0, out(place)), (Some(143), "two".to_owned()));
}

#[test]
fn configuration_file_names_the_source() {
    let place = Place::new();
    let repository = Repository::new(&place, "one");
    let config = place.file(
        "kilter.yaml",
        format!("manifest: site.yaml\napply:\n  from: {}\n  path: [site.yaml]\n", repository.url()),
    );
    let applied = place.end(place.command(&["apply"]).env("KILTER_CONFIG", &config));
    assert_eq!((applied.code, out(&place)), (0, "one".to_owned()), "{}", applied.stderr);
    // The command line goes first.
    let refused = place.end(place.command(&["plan", "--from", "ext::sh"]).env("KILTER_CONFIG", &config));
    assert!(refused.code == 1 && refused.stderr.contains("`ext::sh` is no source"), "{}", refused.stderr);
}

#[test]
fn only_one_command_uses_a_store() {
    let place = Place::new();
    let repository = Repository::new(&place, "one");
    let _running = repository.run(&place, &[]);
    wait("the first version", || out(&place) == "one");
    let second = place.run(&["apply", "--from", &repository.url()]);
    assert!(second.code == 1 && second.stderr.contains("another run holds the lock"), "{}", second.stderr);
    // A plan has its own copy.
    assert_eq!(place.run(&["plan", "--from", &repository.url()]).code, 0);
    assert!(Path::new(&store(&place)).is_dir());
}
