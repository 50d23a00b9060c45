//! Descendants that outlive a child.

#![expect(clippy::unwrap_used, reason = "a test may end where it cannot go on")]

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kilter_process::{
    Cancel, Capture, Confinement, Event, Group, Identity, Invocation, KillMode, Output, Stream, Termination, run,
    run_observed,
};

fn sh(script: &str) -> Invocation {
    Invocation::new("sh").args(["-c", script]).captured(64 * 1024)
}

fn finished(invocation: &Invocation) -> Output {
    run(invocation, None).expect("the child starts")
}

/// Returns true if the process runs whose number a child printed. Zombies do not count.
fn is_running(pid: &str) -> bool {
    let pid: u32 = pid.trim().parse().expect("the child has printed a number");
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"));
    stat.is_ok_and(|stat| !stat.rsplit(')').next().unwrap().trim_start().starts_with(['Z', 'X']))
}

/// Waits until a process whose number a child printed has ended, no longer than only a hang takes.
fn until_ended(pid: &str) {
    let pid = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    // Without a process of that number it has ended, and somebody has waited for it.
    let Ok(process) = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) else { return };
    let longest = rustix::event::Timespec { tv_sec: 60, tv_nsec: 0 };
    let mut ended = [rustix::event::PollFd::new(&process, rustix::event::PollFlags::IN)];
    assert_eq!(rustix::event::poll(&mut ended, Some(&longest)), Ok(1), "{pid:?} goes on");
}

fn kill(pid: &str) {
    let pid = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn leftovers_are_killed_on_request() {
    // They would still run at the end of the test if `run` waited for them.
    let quiet = "sleep 36000 >/dev/null 2>&1 & echo $!";
    let loud = "sleep 36000 & echo $!";
    let nested = "sh -c 'sleep 36000 & echo $!'";
    for script in [quiet, loud, nested] {
        for nobody in [false, true] {
            let mut invocation = sh(script).leftovers(KillMode::Ended);
            invocation.identity = nobody.then(|| Identity { uid: 65534, gid: 65534, groups: Vec::new() });
            let ended = finished(&invocation);
            assert!(ended.is_success());
            assert_eq!(ended.leaked, script != quiet, "{script}");
            assert!(!is_running(&ended.stdout.text()), "{script}");
        }
    }
}

#[test]
fn leftovers_survive_by_default() {
    for script in ["sleep 60 >/dev/null 2>&1 & echo $!", "sleep 60 & echo $!"] {
        let left = finished(&sh(script));
        assert!(is_running(&left.stdout.text()), "{script}");
        kill(&left.stdout.text());
    }
    // In the caller's own group nobody knows what belongs to the child.
    let mut invocation = sh("sleep 60 & echo $!").leftovers(KillMode::Ended);
    invocation.group = Group::Inherited;
    let left = finished(&invocation);
    assert!(is_running(&left.stdout.text()));
    kill(&left.stdout.text());
}

#[test]
fn leftover_ignoring_sigterm_or_stopped_is_killed() {
    for script in ["sh -c 'trap \"\" TERM; exec sleep 60' & echo $!; sleep 0.2", "sleep 60 & kill -STOP $!; echo $!"] {
        let mut invocation = sh(script).leftovers(KillMode::Ended).confined(Confinement::ReadOnly);
        invocation.grace = Duration::from_millis(200);
        let ended = finished(&invocation);
        // What is stopped may be hung up by the kernel when the child exits, before anybody looks.
        assert!(ended.is_success(), "{}", ended.status);
        assert!(!is_running(&ended.stdout.text()), "{script}");
    }
}

#[test]
fn child_without_leftovers_has_no_delay() {
    // Whoever waited for the grace would wait for days.
    let mut invocation = sh("exit 0").leftovers(KillMode::Ended);
    invocation.grace = Duration::from_secs(360_000);
    (0..20).for_each(|_| assert!(finished(&invocation).is_success()));
}

#[test]
fn flooding_leftover_is_ended() {
    let mut invocation = sh("cat /dev/zero & echo $! >&2; exit 0");
    invocation.stdout = Capture::AtMost(1 << 20);
    // On a busy machine, the leftover may not run within 0.1 s after the end of the child: it ends by SIGPIPE then.
    let is_ended = |_| {
        let ended = finished(&invocation);
        until_ended(&ended.stderr.text());
        ended.ending == Termination::OutputLimit
    };
    assert!((0..100).any(is_ended));
}

#[test]
fn at_the_deadline_every_process_of_the_group_has_ended_when_run_returns() {
    // The leader ends at the polite signal; what it leaves behind ignores it and holds the pipes.
    let script = "(trap '' TERM; echo $(sh -c 'echo $PPID'); while :; do sleep 0.02; done) & wait";
    let mut invocation = sh(script).deadline(Duration::from_secs(2));
    invocation.grace = Duration::from_millis(200);
    for _ in 0..2 {
        let ended = finished(&invocation);
        assert_eq!(ended.ending, Termination::Deadline);
        assert!(!ended.leaked);
        assert!(!is_running(&ended.stdout.text()));
    }
}

/// Ways into another process group, each for a command that ends with `sleep 60`: the shell that it runs in tells its
/// number first.
const OTHER_GROUPS: [&str; 5] = [
    "timeout 100 sh -c 'echo $$; sleep 60; echo late'",
    "setsid --wait sh -c 'echo $$; sleep 60; echo late'",
    "setsid sh -c 'echo $$; sleep 60; echo late' & sleep 60",
    "bash -c 'set -m; sh -c \"echo \\$\\$; sleep 60; echo late\" & wait'",
    "(timeout 100 setsid --wait bash -c 'set -m; (echo $BASHPID; sleep 60; echo late) & wait') & wait",
];

#[test]
fn a_deadline_ends_descendants_in_other_groups_too() {
    for script in &OTHER_GROUPS[..2] {
        let ended = finished(&sh(script).deadline(Duration::from_secs(1)));
        assert_ends(&ended, Termination::Deadline, script);
    }
}

fn assert_ends(ended: &Output, ending: Termination, script: &str) {
    assert_eq!((ended.ending, ended.leaked), (ending, false), "{script}");
    let told = ended.stdout.text();
    assert_eq!(told.lines().count(), 1, "{script} goes on: {told}");
    assert!(!is_running(&told), "{script}");
}

/// Returns the result of a child that is cancelled after its first output.
fn cancelled(invocation: &Invocation) -> Output {
    let flag = AtomicBool::new(false);
    run_observed(invocation, Some(Cancel::new(&flag)), &mut |event| {
        if matches!(event, Event::Chunk { stream: Stream::Stdout, .. }) {
            flag.store(true, Ordering::Release);
        }
    })
    .expect("the child starts")
}

#[test]
fn a_cancel_ends_descendants_in_other_groups_too() {
    for script in OTHER_GROUPS {
        assert_ends(&cancelled(&sh(script)), Termination::Cancelled, script);
    }
}

#[test]
fn group_is_killed_without_proc() {
    assert!(rustix::process::geteuid().is_root(), "run this test as root: it mounts a file system");
    let script = "(trap '' TERM; sh -c 'echo $PPID'; for i in $(seq 500); do sleep 0.02; done) & wait";
    let mut invocation = sh(script).deadline(Duration::from_millis(300));
    invocation.grace = Duration::from_millis(200);
    let ended = std::thread::scope(|scope| {
        let apart = scope.spawn(|| {
            hide_proc();
            finished(&invocation)
        });
        apart.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    assert_eq!(ended.ending, Termination::Deadline);
    // Nobody could tell when it was gone.
    until_ended(&ended.stdout.text());
}

/// For this thread, which does not come back from there, and for what it starts.
#[expect(deprecated, reason = "it is unsafe with a table of descriptors of its own only")]
fn hide_proc() {
    use rustix::thread::UnshareFlags;
    rustix::thread::unshare(UnshareFlags::NEWNS | UnshareFlags::FS).unwrap();
    let hidden = finished(&sh("mount --make-rprivate / && mount -t tmpfs none /proc"));
    assert!(hidden.is_success(), "{}", hidden.stderr.text());
}

#[test]
fn escaped_descendants_ignoring_sigterm_or_stopped_are_killed() {
    let busy = "setsid --wait sh -c 'trap \"\" TERM; echo $$; while :; do setsid --wait sleep 0.02; done'";
    let orphan = "setsid --wait sh -c '(trap \"\" TERM; sh -c \"echo \\$PPID\"; while :; do sleep 0.02; done) & wait'";
    let stopped = "setsid --wait sh -c 'trap \"\" TERM; echo $$; kill -STOP $$; sleep 60'";
    for script in [busy, orphan, stopped] {
        let mut invocation = sh(script);
        invocation.grace = Duration::from_millis(200);
        assert_ends(&cancelled(&invocation), Termination::Cancelled, script);
    }
}

#[test]
fn escaped_descendants_have_grace_period() {
    let ended =
        cancelled(&sh("setsid sh -c 'trap \"sleep 0.2; echo tidied; exit\" TERM; echo on; sleep 60 & wait' & wait"));
    assert_eq!(ended.stdout.text(), "on\ntidied\n");
}

#[test]
fn shell_does_not_see_jobs_stop_at_termination() {
    let job = "sh -c 'trap \"\" TERM; echo on; sleep 0.3; echo done'";
    let script = format!("set -m; trap : TERM; {job}; echo next");
    let ended = cancelled(&Invocation::new("bash").args(["-c", &script]).captured(100));
    assert_eq!(ended.stdout.text(), "on\ndone\nnext\n");
}

#[test]
fn escaped_children_of_leftovers_are_killed() {
    let leftover = r#"timeout 100 sh -c "echo \$\$; exec sleep 60"; true"#;
    let script = format!("read -r pid < <({leftover}); echo $pid");
    let invocation = Invocation::new("bash").args(["-c", &script]).captured(100).leftovers(KillMode::Ended);
    let ended = finished(&invocation);
    assert!(ended.is_success() && !is_running(&ended.stdout.text()));
}

#[test]
fn reparented_daemon_survives() {
    // The child goes on when the daemon has a session of its own, and its parent has ended.
    let daemon = r#"setsid sh -c "echo \$\$; exec sleep 60 >/dev/null 2>&1" &"#;
    let ended = cancelled(&sh(&format!("pid=$(sh -c '{daemon}'); echo $pid; sleep 60")));
    assert_eq!((ended.ending, ended.leaked), (Termination::Cancelled, false));
    assert!(is_running(&ended.stdout.text()));
    kill(&ended.stdout.text());
}
