//! `kilter run`: what somebody else changes is brought back, until it is stopped.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::support::*;

/// Timeout for an expected event.
const SOON: Duration = Duration::from_secs(180);

/// Message about an invalid manifest.
const HELD: &str = "kilter uses the previous manifest until this one is corrected";

/// Message about a changed manifest.
const ANEW: &str = "the manifest has changed: reloading";

/// A running `kilter run`, ended at drop at the latest, with a file for its standard error.
pub(crate) struct Running(Child, PathBuf);

impl Running {
    pub(crate) fn begin(place: &Place, args: &[&str]) -> Running {
        Running::of(place, &[&["run"], args].concat())
    }

    /// Starts another command.
    pub(crate) fn of(place: &Place, args: &[&str]) -> Running {
        Running::spawn(place, place.command(args))
    }

    /// Starts a command of this program.
    pub(crate) fn spawn(place: &Place, mut command: std::process::Command) -> Running {
        let path = place.path().join("errors");
        let errors = std::fs::File::create(&path).unwrap();
        Running(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors).spawn().unwrap(), path)
    }

    /// The same behind these words of a shell, in a namespace of its own for users: what limits them there concerns
    /// nobody else.
    pub(crate) fn secluded(place: &Place, words: &str, args: &[&str]) -> Running {
        Running::in_namespaces(place, &["--user", "--map-root-user"], words, args)
    }

    /// The same in new namespaces, by options of unshare(1).
    pub(crate) fn in_namespaces(place: &Place, namespaces: &[&str], words: &str, args: &[&str]) -> Running {
        let run = place.command(&[&["run"], args].concat());
        let mut command = std::process::Command::new("unshare");
        command.args(namespaces).args(["sh", "-c", &format!("{words}; exec \"$0\" \"$@\"")]);
        command.arg(run.get_program()).args(run.get_args()).env_clear();
        command.envs(run.get_envs().filter_map(|(name, value)| Some((name, value?)))).current_dir(place.path());
        Running::spawn(place, command)
    }

    /// Returns the number of occurrences of a text in its standard error.
    pub(crate) fn told(&self, text: &str) -> usize {
        content(&self.1).matches(text).count()
    }

    /// Returns true after it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Asks it to end.
    pub(crate) fn terminate(&self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }

    /// Ends it by SIGTERM: its exit code, its output and its errors.
    pub(crate) fn end(mut self) -> (Option<i32>, String, String) {
        if !self.has_ended() {
            self.terminate();
        }
        let mut out = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        (self.0.wait().unwrap().code(), out, content(&self.1))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended by itself, as a rule.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[track_caller]
pub(crate) fn wait(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < SOON, "it never came: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until the run reports that it has been idle, so that all pending work is done.
#[track_caller]
pub(crate) fn rest(place: &Place) {
    rest_for(place, 300);
}

/// Waits until the run reports that it has been idle for this number of milliseconds.
#[track_caller]
pub(crate) fn rest_for(place: &Place, milliseconds: u64) {
    wait("the run to rest", || {
        let ended = place.run(&["status", "--format", "json"]);
        let status: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap_or_default();
        status["quiet_for_ms"].as_u64().is_some_and(|quiet| quiet >= milliseconds)
    });
}

/// A resource that the run checks once per second. Each check adds a line to the file `ticks`.
pub(crate) const TICKS: &str =
    "  exec[tick]: {command: \"true\", unless: [[sh, -c, \"echo x >> DIR/ticks\"]], meta: {poll: 1}}\n";

/// Waits until the run has checked the resource of [`TICKS`] this number of times, so that at least as many seconds
/// have passed on its own clock.
#[track_caller]
pub(crate) fn ticks(place: &Place, count: usize) {
    let ticks = || content(&place.path().join("ticks")).lines().count();
    let before = ticks();
    wait("checks at intervals", || ticks() >= before + count);
}

pub(crate) fn content(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

pub(crate) fn manifest(place: &Place, text: &str) -> String {
    place.file("m.yaml", text.replace("DIR", &place.path().display().to_string()))
}

#[test]
fn stored_values_are_watched_for_any_state_directory_path() {
    let place = Place::new();
    std::fs::create_dir(place.path().join("x")).unwrap();
    let path = manifest(&place, "resources:\n  value[v]: {any: one}\n");
    let kept = place.path().join("kept/kept/value/v");
    let running = Running::begin(&place, &[&path, "--state-dir", &format!("{}/x/../kept", place.path().display())]);
    for _ in 0..2 {
        wait("the value", || content(&kept).contains("one"));
        std::fs::remove_file(&kept).unwrap();
    }
    wait("it again", || content(&kept).contains("one"));
    let (_, _, err) = running.end();
    assert!(!err.contains("cannot be watched") && !err.contains("only absolute"), "{err}");
}

const TREE: &str = "resources:\n  file[DIR/a]: {content: \"as declared\\n\", mode: \"0644\"}\n  file[DIR/d]: {ensure: \
                    directory}\n  \
                    file[DIR/d/b]: {content: \"below\\n\", notify: \"exec[note]\"}\n  \
                    exec[note]: {command: \"echo noted >> DIR/log\", shell: true, refreshonly: true}\n";

#[test]
fn foreign_change_is_repaired() {
    let place = Place::new();
    let (a, b) = (place.path().join("a"), place.path().join("d/b"));
    let running = Running::begin(&place, &[&manifest(&place, TREE)]);
    wait("everything as declared", || content(&a) == "as declared\n" && content(&b) == "below\n");
    wait("the refresh", || content(&place.path().join("log")) == "noted\n");

    std::fs::write(&a, "changed").unwrap();
    wait("a written file", || content(&a) == "as declared\n");
    std::fs::remove_file(&a).unwrap();
    wait("a removed file", || content(&a) == "as declared\n");
    std::fs::write(place.path().join("other"), "other").unwrap();
    std::fs::rename(place.path().join("other"), &a).unwrap();
    wait("a file in its place", || content(&a) == "as declared\n");
    std::fs::rename(place.path().join("d"), place.path().join("moved")).unwrap();
    wait("a directory moved away", || content(&b) == "below\n");
    wait("the refresh by what was made anew", || content(&place.path().join("log")) == "noted\nnoted\n");

    let (code, out, err) = running.end();
    // What the test has seen of a refresh is not its end: it may have been interrupted.
    assert!(code == Some(143) && err.starts_with("interrupted"), "{code:?} {err}");
    assert!(out.lines().any(|line| line.starts_with("4 resources: ")), "{out}");
}

#[test]
fn edited_manifest_is_reloaded_and_invalid_one_ignored() {
    let place = Place::new();
    let a = place.path().join("a");
    let path = manifest(&place, "resources:\n  file[DIR/a]: {content: one}\n");
    let running = Running::begin(&place, &[&path]);
    wait("the first", || content(&a) == "one");
    manifest(&place, "resources:\n  file[DIR/a]: {content: two}\n");
    wait("the second", || content(&a) == "two");
    manifest(&place, "resources:\n  file[DIR/a]: {content: [}\n");
    std::fs::write(&a, "changed").unwrap();
    wait("the second, in spite of a wrong one", || content(&a) == "two");
    wait("the wrong one", || running.told(HELD) == 1);
    manifest(&place, "resources:\n  file[DIR/a]: {content: three}\n");
    wait("the third", || content(&a) == "three");
    let (code, _, err) = running.end();
    assert_eq!(code, Some(143));
    assert_eq!(err.matches(ANEW).count(), 2, "{err}");
}

#[test]
fn manifest_restored_to_old_text_is_reported_once() {
    let place = Place::new();
    let (good, wrong) = ("resources:\n  file[DIR/a]: {content: one}\n", "resources: [\n");
    let path = manifest(&place, good);
    let running = Running::begin(&place, &[&path]);
    wait("the first", || content(&place.path().join("a")) == "one");
    for count in [1, 2] {
        manifest(&place, wrong);
        wait("the wrong one", || running.told(HELD) == count);
        manifest(&place, good);
        wait("the mended one", || running.told("the manifest is valid again, and unchanged") == count);
    }
    // It was right before that.
    manifest(&place, &format!("{good}  file[DIR/b]: {{content: two}}\n"));
    wait("the second", || content(&place.path().join("b")) == "two");
    let (_, _, err) = running.end();
    assert_eq!((err.matches("valid again, and unchanged").count(), err.matches(ANEW).count()), (2, 1), "{err}");
}

#[test]
fn manifest_program_error_is_reported_once() {
    let place = Place::new();
    let file = |name: &str| place.path().join(name);
    let program = "#!/bin/sh\necho x >> DIR/asked\ncat DIR/said || exit 5\n";
    let path = place.file("program", program.replace("DIR", &place.path().display().to_string()));
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    place.file("said", "resources: {}");
    let running = Running::begin(&place, &["--reread", "1", &path]);
    let asked = || content(&file("asked")).lines().count();
    let again = |what: &str| {
        let before = asked();
        wait(what, || asked() > before + 2);
    };
    again("the right one");
    std::fs::remove_file(file("said")).unwrap();
    again("the one that fails");
    assert_eq!((running.told("ended with exit code 5"), running.told(HELD)), (1, 1));
    place.file("said.new", "resources: [");
    std::fs::rename(file("said.new"), file("said")).unwrap();
    again("what is no manifest");
    assert_eq!((running.told("1 problem"), running.told(HELD)), (1, 2));
    // Who writes the program is told, whatever it says.
    place.file(&path, content(Path::new(&path)));
    wait("the written one", || running.told(HELD) == 3);
    running.end();
}

#[test]
fn manifest_warning_is_reported_once() {
    let place = Place::new();
    let types = "types:\n  site: {attributes: {port: {type: Integer}}}\n";
    let file = |name: &str| format!("resources:\n  file[DIR/{name}]: {{content: x}}\n");
    let path = manifest(&place, &format!("{types}{}", file("a")));
    let running = Running::begin(&place, &[&path]);
    let undocumented = || running.told("it has no documentation");
    wait("the first", || place.path().join("a").exists());
    assert_eq!(undocumented(), 1);
    manifest(&place, &format!("# Elsewhere.\n{types}{}", file("b")));
    wait("the second", || place.path().join("b").exists());
    assert_eq!(undocumented(), 1);
    manifest(&place, &format!("{types}  other: {{attributes: {{port: {{type: Integer}}}}}}\n{}", file("c")));
    wait("the third", || place.path().join("c").exists());
    assert_eq!(undocumented(), 2);
    running.end();
}

#[test]
fn converged_timeout_of_minus_one_never_converges() {
    let place = Place::new();
    let path = manifest(&place, "resources:\n  file[DIR/a]: {content: a}\n");
    for how in [&["--converged-timeout", "-1"][..], &["--converged-timeout=-1"]] {
        let ended = place.run(&[&["run", &path, "--converged-exit", "--max-runtime", "1"], how].concat());
        assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{ended:?}");
    }
    let refused = place.run(&["run", &path, "--converged-timeout", "-2"]);
    assert!(refused.code == 1 && refused.stderr.contains("-2 is not in -1.."), "{refused:?}");
}

#[test]
fn converged_timeout_ends_run() {
    let place = Place::new();
    let status = place.path().join("status").display().to_string();
    let args = ["--converged-exit", "--converged-timeout", "1", "--converged-status-file", &status];
    let path = manifest(&place, TREE);
    let ended = place.run(&[&["run", &path], &args[..]].concat());
    assert_eq!((ended.code, ended.stderr.as_str()), (0, "converged: everything is settled\n"));
    assert_eq!(content(Path::new(&status)), "true\n");

    // What failed counts as settled, and is told.
    let path = manifest(&place, "resources:\n  file[DIR/no/such/a]: {content: a}\n  file[DIR/b]: {content: b}\n");
    let ended = place.run(&[&["run", &path], &args[..]].concat());
    assert_eq!(ended.code, 4, "{ended:?}");
    assert!(ended.stdout.contains("2 resources: 1 failed, 1 unchanged"), "{ended:?}");
    assert_eq!(content(&place.path().join("b")), "b");
}

#[test]
fn noop_and_empty_runs_converge_after_full_timeout() {
    let place = Place::new();
    let args = ["--converged-exit", "--converged-timeout", "1"];
    let path = manifest(&place, "resources:\n  file[DIR/a]: {content: a}\n");
    let ended = place.run(&[&["run", &path, "--noop"], &args[..]].concat());
    assert_eq!((ended.code, ended.stderr.as_str()), (2, "converged: everything is settled\n"), "{ended:?}");
    assert!(!place.path().join("a").exists());
    let path = manifest(&place, "resources: {}\n");
    let begun = Instant::now();
    let ended = place.run(&[&["run", &path], &args[..]].concat());
    assert_eq!((ended.code, ended.stderr.as_str()), (0, "converged: everything is settled\n"), "{ended:?}");
    assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[test]
fn work_restarts_converged_timeout() {
    let place = Place::new();
    let (a, status) = (place.path().join("a"), place.path().join("status"));
    let path = manifest(&place, "resources:\n  file[DIR/a]: {content: a}\n");
    let text = status.display().to_string();
    let running = Running::begin(&place, &[&path, "--converged-timeout", "2", "--converged-status-file", &text]);
    wait("the file", || content(&a) == "a");
    // A repair begins half of the time later.
    rest_for(&place, 1000);
    let converged = || content(&status).matches("true\n").count();
    let before = converged();
    let changed = Instant::now();
    std::fs::write(&a, "changed").unwrap();
    wait("the file, repaired", || content(&a) == "a");
    wait("the rest", || converged() > before);
    assert!(changed.elapsed() >= Duration::from_secs(2), "{:?} after the change", changed.elapsed());
    let earlier = content(&status);
    std::fs::write(&a, "changed").unwrap();
    wait("the end of the rest, and another one", || content(&status) == format!("{earlier}false\ntrue\n"));
    assert_eq!(running.end().0, Some(143));
}

#[test]
fn interrupts_escalate_from_finish_to_kill() {
    use rustix::process::{Pid, Signal, kill_process};
    for (interrupts, seconds) in [(1, 2), (2, 60), (3, 60)] {
        let place = Place::new();
        let file = |name: &str| place.path().join(name);
        // What does not heed the second is killed by the third.
        let heeds = if interrupts == 3 { "trap '' TERM;" } else { "" };
        let text = format!(
            "resources:\n  exec[first]: {{command: \"{heeds} touch DIR/begun; sleep {seconds}; touch DIR/done\", \
             shell: true}}\n  \
             exec[second]: {{command: touch DIR/second, require: \"exec[first]\"}}\n"
        );
        let path = manifest(&place, &text);
        let mut command = place.command(&["apply", &path]);
        let errors = std::fs::File::create(file("errors")).unwrap();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors).spawn().unwrap();
        wait("the first", || file("begun").exists());
        let pid = Pid::from_child(&child);
        for _ in 0..interrupts {
            let said = content(&file("errors")).lines().count();
            kill_process(pid, Signal::INT).unwrap();
            // Two signals that come together count as one.
            wait("the answer to a signal", || content(&file("errors")).lines().count() > said);
        }
        let output = child.wait_with_output().unwrap();
        let said = content(&file("errors"));
        assert_eq!(output.status.code(), Some(130), "{said}");
        assert_eq!((file("done").exists(), file("second").exists()), (interrupts == 1, false), "{said}");
        assert_eq!(said.contains("1 in flight are killed"), interrupts == 3, "{said}");
    }
}

#[test]
fn exit_code_reports_resources_out_of_sync() {
    let place = Place::new();
    place.file("theirs", "theirs");
    let drifting = "command: \"echo $$ > DIR/theirs\", shell: true";
    let cases = [
        (0, "file[DIR/theirs]: {}".to_owned(), "unchanged"),
        (
            4,
            "exec[a]: {command: sleep 3}\n  exec[b]: {command: touch DIR/b, require: \"exec[a]\"}".to_owned(),
            "1 not checked",
        ),
        (2, "file[DIR/theirs]: {content: ours, meta: {policy: warn}}".to_owned(), "1 left out of sync"),
        (2, "file[DIR/theirs]: {content: ours, meta: {noop: true}}".to_owned(), "1 left out of sync"),
        (
            4,
            format!(
                "file[DIR/theirs]: {{content: ours, meta: {{limit: 0.01, burst: 1}}}}\n  exec[x]: {{{drifting}, \
                 notify: \"exec[y]\"}}\n  exec[y]: {{{drifting}, refreshonly: true}}"
            ),
            "1 not checked",
        ),
    ];
    for (code, text, told) in cases {
        let path = manifest(&place, &format!("resources:\n  {text}\n"));
        let ended = place.run(&["run", &path, "--max-runtime", "1"]);
        assert!(ended.code == code && ended.stdout.contains(told), "{text}: {ended:?}");
    }
}

#[test]
fn pending_polls_do_not_change_final_summary() {
    let place = Place::new();
    let path = manifest(
        &place,
        "resources:\n  exec[a]: {command: \"false\", unless: sleep 0.3, meta: {poll: 1}}\n  \
                                 exec[b]: {command: \"false\", unless: sleep 0.3, meta: {poll: 1}}\n",
    );
    let ended = place.run(&["run", &path, "--jobs", "1", "--max-runtime", "2"]);
    assert!(ended.code == 0 && ended.stdout.starts_with("2 resources: 2 unchanged"), "{ended:?}");
}

#[test]
fn noop_run_only_reports_differences() {
    let place = Place::new();
    let path = manifest(&place, "resources:\n  file[DIR/a]: {content: a}\n");
    let ended = place.run(&["run", &path, "--noop", "--max-runtime", "1"]);
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(ended.stdout.contains("file[DIR/a]") && !place.path().join("a").exists(), "{ended:?}");
}

#[test]
fn failed_resource_is_retried_when_dependency_recovers() {
    let place = Place::new();
    let a = place.path().join("later/a");
    let running = Running::begin(&place, &[&manifest(&place, "resources:\n  file[DIR/later/a]: {content: a}\n")]);
    let failed = || place.run(&["status", "--format", "json"]).stdout.contains("\"state\": \"failed\"");
    wait("the failure", failed);
    std::fs::create_dir(place.path().join("later")).unwrap();
    wait("the file in the directory", || content(&a) == "a");
    assert_eq!(running.end().0, Some(143));
}

#[test]
fn unwatched_failure_is_retried_with_dependents() {
    let place = Place::new();
    let text = "resources:\n  exec[may]: {command: \"echo tried >> DIR/tries; test -e DIR/may\", shell: true}\n  \
                file[DIR/a]: {content: a, require: \"exec[may]\"}\n";
    let running = Running::begin(&place, &[&manifest(&place, text)]);
    let a = place.path().join("a");
    wait("a second try", || content(&place.path().join("tries")).lines().count() == 2);
    assert!(!a.exists());
    std::fs::write(place.path().join("may"), "").unwrap();
    wait("what was behind it", || content(&a) == "a");
    let (code, out, _) = running.end();
    assert_eq!((code, out.matches("exec[may] failed").count()), (Some(143), 1), "to fail again is nothing new: {out}");
}

#[test]
fn two_runs_exclude_each_other() {
    let place = Place::new();
    let path = manifest(&place, "resources:\n  file[DIR/a]: {content: a}\n");
    let running = Running::begin(&place, &[&path]);
    wait("the first run", || place.path().join("a").exists());
    let ended = place.run(&["run", &path]);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.stderr.contains("another run holds the lock"), "{ended:?}");
    assert_eq!(running.end().0, Some(143));
}

#[test]
fn edit_at_end_of_pass_is_not_lost() {
    let place = Place::new();
    let text = |content: &str| {
        format!(
            "resources:\n  file[DIR/a]: {{content: {content}}}\n  \
             exec[slow]: {{command: \"touch DIR/begun; sleep 2; touch DIR/done\", shell: true, creates: DIR/done}}\n"
        )
    };
    let running = Running::begin(&place, &[&manifest(&place, &text("one"))]);
    wait("the slow one", || place.path().join("begun").exists());
    manifest(&place, &text("two"));
    // The pass makes way, and waits for the slow one.
    wait("the first edit", || running.told(ANEW) == 1);
    assert!(!place.path().join("done").exists(), "the slow one is too fast");
    manifest(&place, &text("three"));
    wait("the last edit", || content(&place.path().join("a")) == "three");
    let (code, _, err) = running.end();
    assert_eq!(code, Some(143));
    assert_eq!(err.matches(ANEW).count(), 2, "{err}");
}

#[test]
fn lock_is_held_during_reload() {
    let place = Place::new();
    let path = manifest(&place, "resources:\n  file[DIR/a]: {content: start}\n");
    let running = Running::begin(&place, &[&path]);
    wait("the first", || content(&place.path().join("a")) == "start");
    let lock = std::fs::OpenOptions::new().write(true).open(place.path().join("state/lock")).unwrap();
    let exclusive = rustix::fs::FlockOperation::NonBlockingLockExclusive;
    for at in 0..3 {
        manifest(&place, &format!("resources:\n  file[DIR/a]: {{content: number{at}}}\n"));
        let wanted = format!("number{at}");
        let begun = Instant::now();
        while content(&place.path().join("a")) != wanted {
            assert!(rustix::fs::fcntl_lock(&lock, exclusive).is_err(), "the lock was free");
            assert!(begun.elapsed() < SOON, "it never came: {wanted}");
        }
    }
    assert_eq!(running.end().0, Some(143));
}

#[test]
fn run_without_manifest_is_refused() {
    let place = Place::new();
    let ended = place.run(&["run", "--max-runtime", "1"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (1, ""), "{ended:?}");
    assert_eq!(ended.stderr, "error: `kilter run` needs a manifest\n");
}

#[test]
fn run_refuses_manifest_from_pipe() {
    let place = Place::new();
    for (path, message) in
        [("-", "does not read the standard input"), ("/dev/null", "needs files, but /dev/null is not a file")]
    {
        let ended = place.run(&["run", path]);
        assert_eq!(ended.code, 1, "{ended:?}");
        assert!(ended.stderr.contains(message) && ended.stderr.contains("write it to a file"), "{ended:?}");
    }
}

#[test]
fn fixed_new_include_is_reloaded() {
    let place = Place::new();
    let a = place.path().join("a");
    let path = manifest(&place, "resources:\n  file[DIR/a]: {content: one}\n");
    // It is asked each time that the manifests are read.
    let program = place
        .file("program", format!("#!/bin/sh\necho x >> {}/asked\necho 'resources: {{}}'\n", place.path().display()));
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let asked = || content(&place.path().join("asked")).lines().count();
    let running = Running::begin(&place, &["--reread", "1", &program, &path]);
    wait("the first", || content(&a) == "one");
    std::fs::write(place.path().join("other.yaml"), "resources: [").unwrap();
    manifest(&place, "include: [other.yaml, third.yaml]\n");
    wait("the wrong one", || running.told(HELD) == 1);
    // One of them was wrong, the other was not even there.
    std::fs::write(place.path().join("other.yaml"), format!("resources:\n  file[{}]: {{content: two}}\n", a.display()))
        .unwrap();
    wait("the missing one", || running.told(HELD) == 2);
    let before = asked();
    wait("further readings", || asked() > before + 2);
    assert_eq!((running.told(HELD), content(&a).as_str()), (2, "one"), "the same is not said again and again");
    std::fs::write(place.path().join("third.yaml"), "resources: {}\n").unwrap();
    wait("the included", || content(&a) == "two");
    assert_eq!(running.end().0, Some(143));
}

#[test]
fn status_file_link_is_not_followed() {
    let place = Place::new();
    let path = manifest(&place, "resources:\n  file[DIR/a]: {content: a}\n");
    let link = place.path().join("status");
    std::os::unix::fs::symlink(place.path().join("precious"), &link).unwrap();
    let ended = place.run(&["run", &path, "--converged-exit", "--converged-status-file", &link.display().to_string()]);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(
        ended.stderr.contains("cannot open the status file") && !place.path().join("precious").exists(),
        "{ended:?}"
    );
}

#[test]
fn failed_refresh_is_retried_without_events() {
    let place = Place::new();
    let text = "resources:\n  file[DIR/a]: {content: a, notify: \"exec[note]\"}\n  exec[note]: {command: \"echo tried \
                >> DIR/tries; \
                test -e DIR/may && echo noted >> DIR/log\", shell: true, refreshonly: true}\n";
    let running = Running::begin(&place, &[&manifest(&place, text)]);
    wait("a failure", || content(&place.path().join("tries")).lines().count() == 2);
    std::fs::write(place.path().join("may"), "").unwrap();
    wait("the refresh", || content(&place.path().join("log")) == "noted\n");
    assert_eq!(running.told("again in"), 0, "what has failed for now is not told as if it had tries left");
    assert_eq!(running.end().0, Some(143));
}

#[test]
fn refresh_event_has_only_its_own_causes() {
    let place = Place::new();
    let text = "resources:\n  file[DIR/a]: {content: a, notify: \"exec[note]\"}\n  file[DIR/b]: {content: b, notify: \
                \"exec[note]\"}\n  \
                exec[note]: {command: \"echo noted >> DIR/log\", shell: true, refreshonly: true}\n";
    let running = Running::begin(&place, &[&manifest(&place, text)]);
    let noted = || content(&place.path().join("log")).lines().count();
    wait("the first refresh", || noted() == 1);
    for (file, count) in [("a", 2), ("b", 3)] {
        // What is told of the refresh before is told when it has ended.
        rest(&place);
        std::fs::write(place.path().join(file), "changed").unwrap();
        wait("a refresh", || noted() == count);
    }
    let (code, out, _) = running.end();
    assert_eq!(code, Some(143));
    let causes: Vec<String> = out
        .lines()
        .filter_map(|line| line.trim().strip_prefix("refreshed by "))
        .map(|causes| causes.replace(&place.path().display().to_string(), ""))
        .collect();
    assert_eq!(causes, ["file[/a], file[/b]", "file[/a]", "file[/b]"], "{out}");
}

#[test]
fn changed_manifest_program_and_facts_are_reloaded() {
    let place = Place::new();
    let file = |name: &str| place.path().join(name);
    let program = "#!/bin/sh\ncat >/dev/null\necho x >> DIR/asked\necho \"resources: {'file[DIR/a]': {content: '$(cat \
                   DIR/said)'}}\"\n";
    let path = place.file("program", program.replace("DIR", &place.path().display().to_string()));
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::create_dir(file("facts")).unwrap();
    place.file("facts/role.txt", "role=web\n");
    place.file("said", "one");
    let written = manifest(&place, &format!("resources:\n  file[DIR/b]: {{content: \"${{facts.role}}\"}}\n{TICKS}"));
    let facts = file("facts").display().to_string();
    let running = Running::begin(&place, &["--reread", "1", "--facts-dir", &facts, &path, &written]);
    wait("the first", || content(&file("a")) == "one" && content(&file("b")) == "web");
    let settled = place.run(&["status", "--format", "json"]).stdout;
    wait("it to be asked again", || content(&file("asked")).lines().count() >= 3);
    assert_eq!(running.told("the manifest has changed"), 0, "{settled}");
    // It may be read just now.
    place.file("said.new", "two");
    std::fs::rename(file("said.new"), file("said")).unwrap();
    wait("what the program prints now", || content(&file("a")) == "two");
    place.file("role.new", "role=database\n");
    std::fs::rename(file("role.new"), file("facts/role.txt")).unwrap();
    wait("what the fact says now", || content(&file("b")) == "database");
    assert_eq!(running.told("the manifest has changed"), 2);
    running.end();

    let asked = content(&file("asked")).lines().count();
    let running = Running::begin(&place, &["--reread", "0", "--facts-dir", &facts, &path, &written]);
    wait("it to be asked", || content(&file("asked")).lines().count() > asked);
    ticks(&place, 3);
    assert_eq!(content(&file("asked")).lines().count(), asked + 1);
    running.end();
}
