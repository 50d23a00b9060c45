use std::fs::{self, File, FileTimes};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use kilter_provider::{Log, PreviewContext, check_one};

use super::*;

/// A directory with files of several ages.
struct TidyBench {
    home: tempfile::TempDir,
    state: tempfile::TempDir,
    provider: TidyProvider,
}

/// Another resource that writes a path.
struct WrittenPath(PathBuf);

impl PreviewContext for WrittenPath {
    fn may_change_before(&self, _: &str) -> bool {
        false
    }

    fn declared(&self, _: &str, _: &str) -> Option<&Attributes> {
        None
    }

    fn is_written(&self, path: &str) -> bool {
        self.0.starts_with(path)
    }
}

impl TidyBench {
    fn new() -> TidyBench {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("d")).unwrap();
        TidyBench { home, state: tempfile::tempdir().unwrap(), provider: TidyProvider::default() }
    }

    fn path(&self) -> PathBuf {
        self.home.path().join("d")
    }

    /// Creates a file below the directory, that is some days old.
    fn file(&self, name: &str, days: u64, bytes: usize) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, vec![b'x'; bytes]).unwrap();
        age(&path, days);
    }

    fn name(&self) -> EcoString {
        self.path().to_str().unwrap().into()
    }

    fn found_in(&self, cx: &Context<'_>, should: &Attributes) -> Result<Found, ProviderError> {
        let name = self.name();
        check_one(&self.provider, &cx.with_var_dir(Some(self.state.path())), Wanted::new(&name, Some(should)))
    }

    fn planned_in(&self, cx: &Context<'_>, should: &Attributes) -> Vec<String> {
        let found = self.found_in(cx, should).unwrap();
        found.differences.iter().map(|one| one.entry.as_ref().or(one.message.as_ref()).unwrap().to_string()).collect()
    }

    fn planned(&self, should: &Attributes) -> Vec<String> {
        self.planned_in(&Context::empty(), should)
    }

    fn set(&self, should: &Attributes, found: &Found) -> Outcome {
        let cx = Context::empty().with_var_dir(Some(self.state.path()));
        let name = self.name();
        let change = Change::new(&name, &found.state, Some(should), &found.differences);
        assert_eq!(self.provider.set(&cx, &[change], Mode::Preview), [Outcome::done()]);
        self.provider.set(&cx, &[change], Mode::Apply).remove(0)
    }

    /// Applies a declaration, and expects that exactly these entries are removed.
    #[track_caller]
    fn removes(&self, should: &Attributes, expected: &[&str]) {
        let before = self.left();
        assert_eq!(self.planned(should), expected);
        assert_eq!(self.left(), before, "a check changes nothing");
        assert_eq!(self.set(should, &self.found_in(&Context::empty(), should).unwrap()), Outcome::done());
        let gone: Vec<String> = before.into_iter().filter(|name| !self.left().contains(name)).collect();
        let mut expected: Vec<&str> = expected.to_vec();
        expected.sort_unstable();
        assert_eq!(gone, expected);
        assert_eq!(self.planned(should), [""; 0]);
    }

    /// Returns all entries below the directory.
    fn left(&self) -> Vec<String> {
        let mut names = Vec::new();
        let mut open = vec![self.path()];
        while let Some(directory) = open.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                names.push(path.strip_prefix(self.path()).unwrap().to_string_lossy().into_owned());
                open.extend(path.symlink_metadata().unwrap().is_dir().then_some(path));
            }
        }
        names.sort_unstable();
        names
    }
}

/// Sets the times of a file or directory.
fn age(path: &Path, days: u64) {
    let time = SystemTime::now() - Duration::from_secs(days * 86_400 + 60);
    File::open(path).unwrap().set_times(FileTimes::new().set_accessed(time).set_modified(time)).unwrap();
}

fn should(attributes: &[(&str, Value)]) -> Attributes {
    attributes.iter().map(|(name, value)| (*name, value.clone())).collect()
}

fn recursive(attributes: &[(&str, Value)]) -> Attributes {
    let mut should = should(attributes);
    should.set("recurse", true);
    should
}

#[test]
fn old_or_large_files_are_removed() {
    let bench = TidyBench::new();
    for (name, days, bytes) in [("new", 0, 9), ("old", 8, 9), ("sub/older", 30, 9), ("sub/large", 0, 2048)] {
        bench.file(name, days, bytes);
    }
    let both = recursive(&[("age", "1w".into()), ("size", 2.into())]);
    bench.removes(&both, &["old", "sub/large", "sub/older"]);
    assert_eq!(bench.left(), ["new", "sub"]);
}

#[test]
fn time_is_the_declared_one() {
    let bench = TidyBench::new();
    bench.file("read", 9, 1);
    let opened = File::open(bench.path().join("read")).unwrap();
    opened.set_times(FileTimes::new().set_accessed(SystemTime::now())).unwrap();
    let by = |time: &str| bench.planned(&recursive(&[("age", "5d".into()), ("type", time.into())]));
    assert_eq!((by("atime"), by("mtime"), by("ctime")), (vec![], vec!["read".to_owned()], vec![]));
}

#[test]
fn patterns_and_levels_choose_files() {
    let bench = TidyBench::new();
    ["a.log", "b.txt", ".c.log", "1/d.log", "1/2/e.log"].iter().for_each(|name| bench.file(name, 0, 1));
    let of = |levels: Value| should(&[("recurse", levels), ("matches", Value::strings(["*.log", "e*"]))]);
    assert_eq!(bench.planned(&of(2.into())), ["1/d.log", "a.log"]);
    assert_eq!(bench.planned(&of("inf".into())), ["1/2/e.log", "1/d.log", "a.log"]);
    bench.removes(&of(1.into()), &["a.log"]);
}

#[test]
fn directories_go_after_their_entries() {
    let bench = TidyBench::new();
    for (name, days) in [("old/a", 9), ("old/deep/b", 9), ("young/c", 9), ("kept/d", 0)] {
        bench.file(name, days, 1);
    }
    ["old/deep", "old", "kept"].iter().for_each(|name| age(&bench.path().join(name), 9));
    age(&bench.path(), 9);
    let aged = recursive(&[("age", 5.into()), ("rmdirs", true.into())]);
    bench.removes(&aged, &["old/a", "old/deep/b", "old/deep", "old", "young/c"]);
    assert_eq!(bench.left(), ["kept", "kept/d", "young"]);
    bench.removes(&recursive(&[("rmdirs", true.into())]), &["kept/d", "kept", "young"]);
    assert!(bench.path().exists(), "the directory itself stays");
}

#[test]
fn links_are_removed_and_never_followed() {
    let bench = TidyBench::new();
    fs::create_dir(bench.home.path().join("other")).unwrap();
    fs::write(bench.home.path().join("other/secret"), "").unwrap();
    symlink("../other", bench.path().join("link")).unwrap();
    bench.removes(&recursive(&[("rmdirs", true.into())]), &["link"]);
    assert!(bench.home.path().join("other/secret").exists());
    fs::remove_dir(bench.path()).unwrap();
    symlink("other", bench.path()).unwrap();
    let refused = bench.found_in(&Context::empty(), &recursive(&[])).unwrap_err().to_string();
    assert!(refused.contains("is a symbolic link: `recurse` needs a directory"), "{refused}");
    bench.file("../x", 0, 0);
    let one = should(&[]);
    assert_eq!(bench.planned(&one), ["d"]);
    assert_eq!(bench.set(&one, &bench.found_in(&Context::empty(), &one).unwrap()), Outcome::done());
    assert!(bench.path().symlink_metadata().is_err() && bench.home.path().join("other/secret").exists());
}

#[test]
fn sockets_and_fifos_stay() {
    let bench = TidyBench::new();
    let _socket = std::os::unix::net::UnixListener::bind(bench.path().join("socket")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        bench.path().join("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    bench.file("file", 0, 0);
    bench.removes(&recursive(&[("rmdirs", true.into())]), &["file"]);
}

#[test]
fn paths_of_other_resources_and_the_state_directory_stay() {
    let bench = TidyBench::new();
    ["a/kept", "a/stray", "state/x"].iter().for_each(|name| bench.file(name, 0, 0));
    let other = WrittenPath(bench.path().join("a/kept"));
    let state = bench.path().join("state");
    let cx = Context::empty().with_preview_context(&other);
    let name = bench.name();
    let all = recursive(&[("rmdirs", true.into())]);
    let found = check_one(&bench.provider, &cx.with_var_dir(Some(&state)), Wanted::new(&name, Some(&all))).unwrap();
    let planned: Vec<_> = found.differences.iter().filter_map(|one| one.entry.as_deref()).collect();
    assert_eq!(planned, ["a/stray"]);
    fs::remove_file(bench.path().join("a/kept")).unwrap();
    fs::remove_file(bench.path().join("a/stray")).unwrap();
    assert_eq!(bench.planned_in(&cx, &all), ["state/x", "state"], "a directory above a declared file stays");
}

#[test]
fn files_that_have_changed_since_the_check_stay() {
    let bench = TidyBench::new();
    ["used", "unused"].iter().for_each(|name| bench.file(name, 9, 0));
    let aged = recursive(&[("age", "2d".into())]);
    let found = bench.found_in(&Context::empty(), &aged).unwrap();
    age(&bench.path().join("used"), 0);
    bench.file("later", 9, 0);
    assert_eq!(bench.set(&aged, &found), Outcome::done());
    assert_eq!(bench.left(), ["later", "used"], "only entries of the plan are removed");
}

#[test]
fn many_files_are_counted_and_removed() {
    let bench = TidyBench::new();
    (0..MAX_LISTED + 7).for_each(|at| fs::write(bench.path().join(format!("{at:05}")), "").unwrap());
    let all = recursive(&[]);
    let planned = bench.planned(&all);
    assert_eq!((planned.len(), planned.last().unwrap().as_str()), (MAX_LISTED + 1, "and 7 more to remove"));
    assert_eq!(bench.set(&all, &bench.found_in(&Context::empty(), &all).unwrap()), Outcome::done());
    assert_eq!(bench.left(), [""; 0]);
}

#[test]
fn name_of_any_bytes_is_removed() {
    let bench = TidyBench::new();
    fs::write(bench.path().join(std::ffi::OsStr::from_bytes(b"a\xff\\")), "").unwrap();
    let all = recursive(&[]);
    assert_eq!(bench.planned(&all), ["a\\xff\\\\"]);
    assert_eq!(bench.set(&all, &bench.found_in(&Context::empty(), &all).unwrap()), Outcome::done());
    assert_eq!(bench.left(), [""; 0]);
}

#[test]
fn removed_files_can_be_kept_in_the_state_directory() {
    let bench = TidyBench::new();
    bench.file("x", 0, 5);
    bench.removes(&recursive(&[("backup", true.into())]), &["x"]);
    let mut kept = Vec::new();
    let mut open = vec![bench.state.path().to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { open.push(path) } else { kept.push(fs::read_to_string(path).unwrap_or_default()) }
        }
    }
    assert!(kept.iter().any(|content| content == "xxxxx"), "{kept:?}");
}

#[test]
fn deep_directories_are_reported_and_left() {
    struct TidyLog(std::sync::Mutex<Vec<String>>);
    impl Log for TidyLog {
        fn log(&self, _: Level, _: &str, _: &str, message: &str) {
            self.0.lock().unwrap().push(message.to_owned());
        }
    }
    let bench = TidyBench::new();
    bench.file("flat", 0, 0);
    fs::create_dir_all(bench.path().join("e/".repeat(120))).unwrap();
    let lines = TidyLog(std::sync::Mutex::default());
    let planned = bench.planned_in(&Context::empty().with_log(&lines), &recursive(&[("rmdirs", true.into())]));
    assert_eq!(planned, ["flat"]);
    assert!(lines.0.lock().unwrap()[0].ends_with("directories are nested too deeply"));
}

#[test]
fn missing_path_is_tidy() {
    let bench = TidyBench::new();
    fs::remove_dir(bench.path()).unwrap();
    assert_eq!((bench.planned(&recursive(&[])), bench.planned(&should(&[]))), (vec![], vec![]));
}

#[test]
fn bad_values_are_refused_together() {
    let bench = TidyBench::new();
    let refused = |path: &str, attributes: &[(&str, Value)]| -> Vec<String> {
        let problems = bench.provider.validate(path, &should(attributes), &[]);
        problems.iter().map(ToString::to_string).collect()
    };
    let problems = refused("x/../y", &[("age", "1y".into()), ("size", "big".into()), ("matches", "a/b".into())]);
    for expected in ["`1y` is not an age", "`big` is not a size", "add `recurse: true`", "contains `/`", "`x/../y`"] {
        assert!(problems.iter().any(|problem| problem.contains(expected)), "{expected}: {problems:?}");
    }
    assert_eq!(problems.len(), 5);
    assert!(refused("/", &[])[0].contains("the root directory"));
    assert_eq!(refused("/tmp/", &[("age", 30.into()), ("size", "10m".into())]), [""; 0]);
}
