//! Confined children that attempt a change and ignore the error: kilter records the attempts.

#![expect(clippy::unwrap_used, reason = "a test may end where it cannot go on")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use kilter_process::{
    Attempt, Cancel, Confined, Confinement, Event, Identity, Invocation, KillMode, Operation, Output, Status,
    Termination, run, run_observed,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

const NOBODY: u32 = 65534;

/// A directory with a file, a directory and a link in it, which is removed again.
struct AttemptDir(PathBuf);

impl AttemptDir {
    fn new() -> AttemptDir {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("attempts-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        let path = path.canonicalize().unwrap();
        std::fs::create_dir(path.join("d")).unwrap();
        std::fs::write(path.join("f"), "as it was\n").unwrap();
        std::os::unix::fs::symlink("f", path.join("l")).unwrap();
        AttemptDir(path)
    }
}

impl Drop for AttemptDir {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

fn bash(script: &str, cwd: &Path) -> Invocation {
    Invocation::new("bash").args(["-c", script]).captured(64 * 1024).cwd(cwd).confined(Confinement::ReadOnly)
}

fn confined(invocation: &Invocation) -> Output {
    let finished = run(invocation, None).unwrap();
    assert_eq!(finished.confined, Confined::Fully, "these tests need Linux 6.12 with Landlock");
    finished
}

/// Returns the recorded attempts of a script, with paths relative to its directory.
fn told(script: &str, place: &AttemptDir) -> Vec<String> {
    let finished = confined(&bash(script, &place.0));
    assert_eq!(finished.refusal_hint, None, "`{script}` is not quiet: {}", finished.stderr.text());
    lines(&finished, place)
}

fn lines(finished: &Output, place: &AttemptDir) -> Vec<String> {
    let below = format!("{}/", place.0.display());
    finished.attempts.first.iter().map(|attempt| attempt.to_string().replace(&below, "")).collect()
}

const PYTHON: &str = "import os, ctypes, socket; c = ctypes.CDLL(None)";

/// Attempts, with their records.
const QUIET: &[(&str, &[&str])] = &[
    ("echo x > f", &["write f"]),
    ("echo x >> f", &["write f"]),
    ("echo x > new", &["write new"]),
    ("echo x > l", &["write f"]),
    ("echo x > d/../f", &["write f"]),
    ("cd d; echo x > ../d/new", &["write d/new"]),
    ("echo x > $PWD/f", &["write f"]),
    ("exec 3< f; echo x > /dev/fd/3", &["write f"]),
    ("exec 3< f; echo x > /proc/self/fd/3", &["write f"]),
    ("rm -f f", &["remove f"]),
    ("rmdir d", &["remove d"]),
    ("mv f g", &["rename f", "make g"]),
    ("t=$(mktemp); mv $t g", &["make g", "write g"]),
    ("mkdir e", &["make e"]),
    ("mkdir -p e/f/g", &["make e"]),
    ("mkfifo p", &["make p"]),
    ("ln f g", &["make g"]),
    ("ln -s f g", &["make g"]),
    ("truncate -s 3 f", &["write f"]),
    ("chmod 600 f", &["change the mode of f"]),
    ("chmod 600 l", &["change the mode of f"]),
    ("chown 12 f", &["change the owner of f"]),
    ("touch f", &["write f", "change the times of f"]),
    ("touch -c f", &["change the times of f"]),
    ("chattr +d f", &["change the attributes of f"]),
    ("PYTHON; os.truncate('f', 1)", &["write f"]),
    ("PYTHON; os.open('f', os.O_TRUNC)", &["write f"]),
    ("PYTHON; os.open('new', os.O_CREAT)", &["write new"]),
    ("PYTHON; os.open('d', os.O_TMPFILE | os.O_WRONLY)", &["write d"]),
    ("PYTHON; c.creat(b'new', 0o600)", &["write new"]),
    ("PYTHON; c.syscall(437, -100, b'f', (ctypes.c_uint64 * 3)(1, 0, 0), 24)", &["write f"]),
    ("PYTHON; os.mkdir('e', dir_fd=os.open('d', os.O_RDONLY))", &["make d/e"]),
    ("PYTHON; os.fchmod(os.open('f', os.O_RDONLY), 0o600)", &["change the mode of f"]),
    ("PYTHON; os.utime(os.open('f', os.O_RDONLY))", &["change the times of f"]),
    ("PYTHON; os.setxattr('f', 'user.a', b'b')", &["change the attributes of f"]),
    ("PYTHON; socket.socket(socket.AF_UNIX).bind('s')", &["make s"]),
    ("PYTHON; c.sethostname(b'x', 1)", &["change the host name"]),
    ("PYTHON; c.mount(b'none', b'd', b'tmpfs', 0, 0)", &["change what is mounted on d"]),
    ("PYTHON; import time; time.clock_settime(0, time.time())", &["set the clock"]),
    // By descendants of all sorts.
    ("sh -c 'sh -c \"echo x > f\"'", &["write f"]),
    ("setsid -w sh -c 'echo x > f'", &["write f"]),
    ("true | { true; echo x > f; }", &["write f"]),
    ("find . -name f -exec rm -f {} +", &["remove f"]),
    (
        "PYTHON; import threading; t = threading.Thread(target=lambda: os.unlink('f')); t.start(); t.join()",
        &["remove f"],
    ),
    ("chroot / sh -c \"cd '$PWD'; echo x > f\"", &["write f"]),
    ("chroot $PWD /bin/true; PYTHON; os.chroot('.'); os.chdir('/'); open('/d/../new', 'w')", &["write new"]),
    ("setpriv --reuid 65534 --regid 65534 --clear-groups sh -c 'echo x > f'", &["write f"]),
    // Once is enough.
    ("for i in 1 2 3 4 5; do echo x > f; rm -f f; done", &["write f", "remove f"]),
];

#[test]
fn ignored_error_is_recorded_as_attempt() {
    for (script, expected) in QUIET {
        let place = AttemptDir::new();
        let (before, after) = script.split_once("PYTHON").unwrap_or((script, ""));
        let python = if after.is_empty() { String::new() } else { format!("python3 -c \"{PYTHON}{after}\"") };
        let script = format!("{{ {before}{python}; }} 2>/dev/null || true");
        assert_eq!(told(&script, &place), *expected, "`{script}`");
        assert_eq!(std::fs::read_to_string(place.0.join("f")).unwrap(), "as it was\n");
    }
}

/// Calls that change nothing, or only objects of the child itself.
const HARMLESS: &[&str] = &[
    "echo x > /dev/null; echo x 2>/dev/null >&2; exec 3<>/dev/null",
    "echo x > /dev/stderr; echo x >> /dev/stdout; echo x > /dev/fd/1; echo x > /proc/self/fd/2",
    "cat <(echo x); echo x | tee /dev/null /dev/stderr; : > /dev/tty; : <> /dev/ptmx",
    "cd $TMPDIR; echo x > a; mkdir d; mv a d; ln -s d e; echo x > e/a; chmod 600 e/a; touch e/a; rm -r d e; mkfifo p",
    "t=$(mktemp); echo x > $t; echo x > $TMPDIR/../${TMPDIR##*/}/b; rm $t",
    "x=$(printf '%0200000d' 0); cat <<END\n$x\nEND\n",
    // It fails by itself.
    "rm -f gone d/gone gone/gone; rmdir gone; mkdir d; mkdir -p d; ln -s x f; mv gone new; chmod 600 gone; : > \
     gone/f; : > d",
    // Reading.
    "cat f; ls -lR . /etc; exec 3< f; flock 3; python3 -c \"import os; os.open('f', os.O_RDONLY | os.O_CREAT)\"",
    "python3 -c \"import os; os.open('f', os.O_PATH | os.O_WRONLY)\"",
    "python3 -c \"import os; d = os.memfd_create('m'); open('/proc/self/fd/%d' % d, 'w').write('x')\"",
    "python3 -c \"import socket as s; a = s.socket(s.AF_INET); a.bind(('127.0.0.1', 0)); \
     s.socket(s.AF_UNIX).bind('')\"",
    "echo 500 > /proc/self/oom_score_adj; echo x > /proc/$BASHPID/comm",
];

#[test]
fn harmless_call_is_not_recorded() {
    for script in HARMLESS {
        let place = AttemptDir::new();
        let finished = confined(&bash(&format!("{{ {script}\n}} 2>/dev/null; true"), &place.0).stdin(""));
        assert!(finished.attempts.is_empty(), "`{script}`: {}", finished.attempts);
        assert_eq!(finished.status, Status::Code(0), "`{script}`");
    }
}

#[test]
fn unconfined_child_has_no_supervisor() {
    let place = AttemptDir::new();
    let finished = run(&bash("echo x > f", &place.0).confined(Confinement::None), None).unwrap();
    assert!(finished.is_success() && finished.attempts.is_empty());
}

#[test]
fn attempt_by_other_user_is_recorded() {
    let place = AttemptDir::new();
    for path in ["", "f", "d"] {
        std::os::unix::fs::chown(place.0.join(path), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let mut invocation = bash("{ echo x > f; rm -f f; mkdir d/e; : > $TMPDIR/a; } 2>/dev/null", &place.0);
    invocation.identity = Some(Identity { uid: NOBODY, gid: NOBODY, groups: Vec::new() });
    assert_eq!(lines(&confined(&invocation), &place), ["write f", "remove f", "make d/e"]);
}

#[test]
fn unprivileged_caller_records_attempts() {
    let place = AttemptDir::new();
    let finished = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // Of this thread alone.
            let (uid, gid) = (rustix::process::Uid::from_raw(NOBODY), rustix::process::Gid::from_raw(NOBODY));
            rustix::thread::set_thread_groups(&[]).unwrap();
            rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
            rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
            confined(&bash("{ echo x > f; mkdir e; } 2>/dev/null", &place.0))
        });
        thread.join().unwrap()
    });
    assert_eq!(lines(&finished, &place), ["write f", "make e"]);
}

#[test]
fn child_without_streams_is_supervised() {
    let place = AttemptDir::new();
    let mut invocation = Invocation::new("sh").args(["-c", "echo x > f || true"]).cwd(&place.0);
    invocation.confinement = Confinement::ReadOnly;
    assert_eq!(lines(&confined(&invocation), &place), ["write f"]);
}

#[test]
fn a_flood_of_attempts_is_bounded_and_quick() {
    let place = AttemptDir::new();
    let begun = Instant::now();
    let script = "for ((i = 0; i < 20000; i++)); do : > n$i; done 2>/dev/null";
    let finished = confined(&bash(script, &place.0).deadline(Duration::from_secs(60)));
    assert_eq!((finished.ending, finished.attempts.first.len()), (Termination::Exited, 10), "{:?}", begun.elapsed());
    assert_eq!(finished.attempts.more, 1000);
    assert_eq!(finished.attempts.first[0], Attempt { operation: Operation::Write, path: Some(place.0.join("n0")) });
    assert!(finished.attempts.to_string().ends_with("/n9 and 1000 more"), "{}", finished.attempts);
}

#[test]
fn concurrent_children_are_supervised() {
    let place = AttemptDir::new();
    let script = "for i in {1..40}; do (for j in {1..20}; do : > n$i; : > /dev/null; done) & done 2>/dev/null; wait";
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let finished = confined(&bash(script, &place.0).deadline(Duration::from_secs(60)));
                assert_eq!((finished.ending, finished.attempts.first.len()), (Termination::Exited, 10));
            });
        }
    });
}

#[test]
fn child_killed_during_notification_is_handled() {
    let place = AttemptDir::new();
    for _ in 0..20 {
        let script = "while :; do : > n; : > /dev/null; done 2>/dev/null & while :; do rm -f f; done 2>/dev/null";
        let finished = confined(&bash(script, &place.0).deadline(Duration::from_millis(30)));
        assert_eq!(finished.ending, Termination::Deadline);
    }
    let flag = AtomicBool::new(false);
    let script = bash("while :; do : > n; echo; done 2>/dev/null", &place.0);
    let mut cancel = |event: Event<'_>| _ = flag.fetch_or(matches!(event, Event::Chunk { .. }), Ordering::AcqRel);
    let finished = run_observed(&script, Some(Cancel::new(&flag)), &mut cancel).unwrap();
    assert_eq!((finished.ending, lines(&finished, &place)), (Termination::Cancelled, vec!["write n".to_owned()]));
}

#[test]
fn stopped_and_continued_child_is_supervised() {
    let place = AttemptDir::new();
    let script = "(for i in {1..300}; do : > n; done 2>/dev/null; echo done) & \
        for i in {1..20}; do kill -STOP $!; sleep 0.002; kill -CONT $!; sleep 0.002; done 2>/dev/null; wait";
    let finished = confined(&bash(script, &place.0).deadline(Duration::from_secs(60)));
    assert_eq!((&*finished.stdout.text(), lines(&finished, &place)), ("done\n", vec!["write n".to_owned()]));
}

#[test]
fn cleanup_after_sigterm_is_supervised() {
    let place = AttemptDir::new();
    // The child by itself, and a descendant that it leaves behind.
    let child =
        "trap 'rm -f f 2>/dev/null; : > /dev/null && echo tidy; exit' TERM; echo armed; while :; do sleep 0.01; done";
    let mut invocation = bash(child, &place.0);
    invocation.grace = Duration::from_secs(60);
    let flag = AtomicBool::new(false);
    let mut cancel = |event: Event<'_>| _ = flag.fetch_or(matches!(event, Event::Chunk { .. }), Ordering::AcqRel);
    let finished = run_observed(&invocation, Some(Cancel::new(&flag)), &mut cancel).unwrap();
    assert_eq!((&*finished.stdout.text(), finished.status), ("armed\ntidy\n", Status::Code(0)));
    assert_eq!(lines(&finished, &place), ["remove f"]);

    // Not by a process of its own, which would be told to end as well.
    let ready = "mkfifo $TMPDIR/p; (trap ': > f 2>/dev/null; exit' TERM; : > $TMPDIR/p; while :; do sleep 0.01; done) \
        >/dev/null 2>&1 & : < $TMPDIR/p";
    let mut invocation = bash(ready, &place.0).leftovers(KillMode::Ended);
    invocation.grace = Duration::from_secs(600);
    let begun = Instant::now();
    assert_eq!(lines(&confined(&invocation), &place), ["write f"]);
    assert!(begun.elapsed() < Duration::from_secs(120), "{:?}", begun.elapsed());
}

#[test]
fn leftover_process_gets_answers() {
    let place = AttemptDir::new();
    let socket = place.0.join("s");
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let script = "import socket, os; s = socket.socket(socket.AF_UNIX); s.connect('s'); s.recv(1)\n\
        try: os.open('/dev/null', os.O_WRONLY)\n\
        except OSError as e: s.send(str(e.errno).encode())";
    let script = format!("python3 -c \"{script}\" >/dev/null 2>&1 &");
    let finished = confined(&bash(&script, &place.0));
    assert_eq!((finished.status, finished.attempts.is_empty()), (Status::Code(0), true));
    let (mut left, _) = listener.accept().unwrap();
    left.write_all(b"!").unwrap();
    assert_eq!(std::io::read_to_string(left).unwrap(), libc::ENOSYS.to_string());
}

#[test]
fn existing_listener_disables_recording() {
    let place = AttemptDir::new();
    // A child of a confined process has its own filter, and nobody to tell.
    let test = std::env::current_exe().unwrap();
    let inner = format!("INNER={} {} --exact inner --ignored --nocapture", place.0.display(), test.display());
    let finished = confined(&bash(&inner, &place.0));
    assert!(finished.is_success(), "{}{}", finished.stdout.text(), finished.stderr.text());
    assert_eq!(lines(&finished, &place), ["write f"]);
}

#[test]
fn kernel_without_listeners_disables_recording() {
    let place = AttemptDir::new();
    let finished = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // A kernel without them, as far as this thread and its children can tell.
            let listens = SeccompCmpOp::MaskedEq(libc::SECCOMP_FILTER_FLAG_NEW_LISTENER);
            let asked = SeccompCondition::new(1, SeccompCmpArgLen::Qword, listens, 8).unwrap();
            let rules = [(libc::SYS_seccomp, vec![SeccompRule::new(vec![asked]).unwrap()])].into_iter().collect();
            let unknown = SeccompAction::Errno(libc::EINVAL as u32);
            let target = std::env::consts::ARCH.try_into().unwrap();
            let filter = SeccompFilter::new(rules, SeccompAction::Allow, unknown, target).unwrap();
            let filter: BpfProgram = filter.try_into().unwrap();
            seccompiler::apply_filter(&filter).unwrap();
            confined(&bash("{ echo x > f; chmod 600 f; } 2>/dev/null; echo x > f", &place.0))
        });
        thread.join().unwrap()
    });
    assert!(finished.attempts.is_empty() && !finished.is_success());
    assert!(finished.refusal_hint.unwrap().ends_with("f: Permission denied"));
}

/// Is run by another test.
#[test]
#[ignore = "it is run in a confined process, by the test above"]
fn inner() {
    let place = PathBuf::from(std::env::var_os("INNER").unwrap());
    let finished = run(&bash("{ echo x > f; chmod 600 f; } 2>/dev/null", &place), None).unwrap();
    assert_eq!((finished.attempts.first.len(), finished.status), (0, Status::Code(1)));
    let loud = run(&bash("chmod 600 f", &place), None).unwrap();
    assert!(loud.refusal_hint.is_some() && !loud.is_success(), "{}", loud.stderr.text());
}
