//! Children that behave, and children that do not.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kilter_process::{
    Cancel, Capture, Event, Group, Identity, Invocation, Output, Signal, SpawnError, Status, Stream, Termination, run,
    run_observed,
};

/// Less than any of the `sleep`s below, and more than a busy machine needs: only a hang takes so long.
const HANGS: Duration = Duration::from_secs(60);

fn sh(script: &str) -> Invocation {
    Invocation::new("sh").args(["-c", script]).captured(64 * 1024)
}

fn finished(invocation: &Invocation) -> Output {
    run(invocation, None).expect("the child starts")
}

/// The end of a child that another thread cancels after the child has written its first line.
fn cancelled(invocation: &Invocation) -> Output {
    let flag = AtomicBool::new(false);
    observed(invocation, Cancel::new(&flag), |_| flag.store(true, Ordering::Release))
}

/// Runs a child and gives each output that it has written so far to `hear`, on another thread.
fn observed(invocation: &Invocation, cancel: Cancel<'_>, mut hear: impl FnMut(&[u8]) + Send) -> Output {
    let (sender, receiver) = std::sync::mpsc::channel::<Vec<u8>>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut output = Vec::new();
            for bytes in receiver {
                output.extend(bytes);
                hear(&output);
            }
        });
        let mut observe = move |event: Event<'_>| {
            if let Event::Chunk { stream: Stream::Stdout, bytes, .. } = event {
                sender.send(bytes.to_vec()).expect("somebody listens");
            }
        };
        run_observed(invocation, Some(cancel), &mut observe).expect("the child starts")
    })
}

fn output(script: &str) -> String {
    finished(&sh(script)).stdout.text().into_owned()
}

/// Returns true if a process with `mark` in its command line runs.
fn is_running(mark: &str) -> bool {
    std::fs::read_dir("/proc").expect("/proc is mounted").filter_map(Result::ok).any(|entry| {
        std::fs::read(entry.path().join("cmdline"))
            .is_ok_and(|line| line.windows(mark.len()).any(|window| window == mark.as_bytes()))
    })
}

#[test]
fn a_child_returns_its_exit_code_and_both_outputs() {
    let finished = finished(&sh("echo out; echo err >&2; exit 3"));
    assert_eq!(finished.status, Status::Code(3));
    assert_eq!(finished.ending, Termination::Exited);
    assert_eq!((finished.stdout.text().as_ref(), finished.stderr.text().as_ref()), ("out\n", "err\n"));
    assert!(!finished.leaked);
}

#[test]
fn a_child_that_dies_of_a_signal_returns_the_signal() {
    assert_eq!(finished(&sh("kill -9 $$")).status, Status::Signal(9));
}

#[test]
fn environment_has_only_documented_variables() {
    let mut lines: Vec<String> =
        String::from_utf8(finished(&Invocation::new("env").env("HOME", "/h").captured(4096)).stdout.bytes)
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect();
    lines.sort();
    let path = format!("PATH={}", kilter_process::DEFAULT_PATH);
    assert_eq!(lines, ["HOME=/h", "LANG=C.UTF-8", "LC_ALL=C.UTF-8", &path]);
}

#[test]
fn long_input_reaches_child() {
    let input = vec![b'x'; 3_000_000];
    let mut invocation = Invocation::new("cat").stdin(input.clone());
    invocation.stdout = Capture::First(usize::MAX);
    assert!(finished(&invocation).stdout.bytes == input);
}

#[test]
fn child_that_ignores_input_succeeds() {
    assert!(finished(&sh("exit 0").stdin(vec![0; 3_000_000])).is_success());
}

#[test]
fn without_input_the_child_reads_an_end_of_file() {
    assert_eq!(output("cat; echo done"), "done\n");
}

#[test]
fn a_child_that_closes_its_outputs_early_is_still_waited_for() {
    assert_eq!(finished(&sh("exec >&- 2>&-; sleep 0.2; exit 7")).status, Status::Code(7));
}

#[test]
fn output_flood_is_dropped() {
    let mut invocation = sh("head -c 50000000 /dev/zero; echo end >&2");
    invocation.stdout = Capture::First(10);
    let finished = finished(&invocation);
    assert_eq!((finished.stdout.bytes.len(), finished.stdout.dropped), (10, 49_999_990));
    assert_eq!(finished.stderr.text(), "end\n");
}

#[test]
fn descendant_with_open_pipe_delays_briefly_and_survives() {
    let finished = finished(&sh("sleep 31415.9 & echo $!"));
    assert!(finished.is_success() && finished.leaked);
    let pid: i32 = finished.stdout.text().trim().parse().unwrap();
    // Otherwise it was waited for.
    assert!(is_running("31415.9"));
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), rustix::process::Signal::KILL).unwrap();
}

#[test]
fn deadline_ends_process_group() {
    let start = Instant::now();
    let finished = finished(&sh("sleep 271.828 & sleep 271.828; true").deadline(Duration::from_millis(100)));
    assert_eq!(finished.ending, Termination::Deadline);
    assert_eq!(finished.status, Status::Signal(15));
    assert!(start.elapsed() < HANGS, "{:?}", start.elapsed());
    assert!(!is_running("271.828"));
}

#[test]
fn child_ignoring_sigterm_is_killed() {
    let mut invocation = sh("trap '' TERM; echo armed; while :; do sleep 0.05; done");
    invocation.grace = Duration::from_millis(200);
    let finished = cancelled(&invocation);
    assert_eq!((finished.ending, finished.status), (Termination::Cancelled, Status::Signal(9)));
    assert_eq!(finished.stdout.text(), "armed\n");
}

#[test]
fn descendant_ignoring_sigterm_is_killed() {
    let mut invocation = sh("(trap '' TERM; echo armed; while :; do sleep 0.0577; done) & wait");
    invocation.grace = Duration::from_millis(200);
    assert_eq!(cancelled(&invocation).ending, Termination::Cancelled);
    assert!(!is_running("0.0577"));
}

#[test]
fn child_has_grace_period_after_sigterm() {
    let mut invocation = sh("trap 'sleep 0.2; echo tidied; exit 0' TERM; echo armed; while :; do sleep 0.01; done");
    invocation.grace = HANGS;
    let finished = cancelled(&invocation);
    assert_eq!((finished.ending, finished.status), (Termination::Cancelled, Status::Code(0)));
    assert_eq!(finished.stdout.text(), "armed\ntidied\n");
    assert!(!finished.is_success());
}

#[test]
fn configured_stop_signal_is_sent() {
    let script = "trap 'echo hung up; exit 0' USR1; trap 'exit 9' TERM; echo armed; while :; do sleep 0.01; done";
    let mut invocation = sh(script);
    invocation.grace = HANGS;
    invocation.stop_signal = Signal::named("SIGUSR1").unwrap();
    let finished = cancelled(&invocation);
    assert_eq!((finished.ending, finished.status), (Termination::Cancelled, Status::Code(0)));
    assert_eq!(finished.stdout.text(), "armed\nhung up\n");
}

#[test]
fn a_stopped_child_ends_at_the_deadline() {
    let start = Instant::now();
    let finished = finished(&sh("kill -STOP $$").deadline(Duration::from_millis(100)));
    assert_eq!((finished.ending, finished.status), (Termination::Deadline, Status::Signal(15)));
    assert!(start.elapsed() < HANGS, "{:?}", start.elapsed());
}

#[test]
fn a_cancel_ends_the_child_at_once() {
    let flag = AtomicBool::new(false);
    let (wake, waker) = rustix::pipe::pipe().unwrap();
    for fd in [None, Some(wake.as_fd())] {
        flag.store(false, Ordering::Release);
        let start = Instant::now();
        let cancel = Cancel { flag: &flag, fd, urgent: None };
        let finished = observed(&sh("echo begun; sleep 600"), cancel, |_| {
            flag.store(true, Ordering::Release);
            rustix::io::write(&waker, b"x").unwrap();
        });
        assert_eq!(finished.ending, Termination::Cancelled);
        assert!(start.elapsed() < HANGS, "{:?}", start.elapsed());
    }
}

#[test]
fn urgent_cancel_kills_at_once() {
    let (flag, urgent) = (AtomicBool::new(false), AtomicBool::new(false));
    let start = Instant::now();
    // It reports the polite signal, and goes on: it has its time.
    let script = "trap 'echo deaf' TERM; echo armed; while :; do sleep 0.05; done";
    let deaf = Invocation { grace: Duration::from_secs(600), ..sh(script) };
    let cancel = Cancel { flag: &flag, fd: None, urgent: Some(&urgent) };
    let finished = observed(&deaf, cancel, |output| match output {
        b"armed\n" => flag.store(true, Ordering::Release),
        _ => urgent.store(output == b"armed\ndeaf\n", Ordering::Release),
    });
    assert_eq!((finished.ending, finished.status), (Termination::Cancelled, Status::Signal(9)));
    assert_eq!(finished.stdout.text(), "armed\ndeaf\n");
    assert!(start.elapsed() < HANGS, "{:?}", start.elapsed());
}

#[test]
fn spurious_wake_does_not_cancel() {
    let flag = AtomicBool::new(false);
    let (wake, waker) = rustix::pipe::pipe().unwrap();
    rustix::io::write(&waker, b"x").unwrap();
    let outcome =
        run(&sh("sleep 0.2; echo done"), Some(Cancel { flag: &flag, fd: Some(wake.as_fd()), urgent: None })).unwrap();
    assert!(outcome.is_success());
    assert_eq!(outcome.stdout.text(), "done\n");
}

#[test]
fn cancelled_command_is_not_started() {
    let flag = AtomicBool::new(true);
    let outcome = run(&sh("true"), Some(Cancel::new(&flag)));
    assert!(matches!(outcome, Err(SpawnError::Cancelled { .. })), "{outcome:?}");
}

#[test]
fn child_gets_umask() {
    let mut invocation = sh("umask");
    invocation.umask = Some(0o027);
    assert_eq!(finished(&invocation).stdout.text(), "0027\n");
}

#[test]
fn file_larger_than_the_limit_ends_its_writer() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let mut invocation = sh("head -c $1 /dev/zero >$0; echo $?").arg(path.as_os_str());
    invocation.max_file_bytes = Some(8192);
    assert_eq!(finished(&invocation.clone().arg("8192")).stdout.text(), "0\n");
    // 128 + SIGXFSZ.
    assert_eq!(finished(&invocation.arg("8193")).stdout.text(), "153\n");
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 8192);
}

#[test]
fn child_gets_identity_with_its_groups_only() {
    assert!(rustix::process::geteuid().is_root(), "run this test as root: only root can become another user");
    let mut invocation = sh("id -u; id -g; id -G; cat /etc/shadow 2>/dev/null || echo refused");
    invocation.identity = Some(Identity { uid: 65534, gid: 12, groups: vec![12, 34, 56] });
    assert_eq!(finished(&invocation).stdout.text(), "65534\n12\n12 34 56\nrefused\n");
}

fn as_nobody(script: &str) -> Invocation {
    assert!(rustix::process::geteuid().is_root(), "run this test as root: only root can become another user");
    let mut invocation = sh(script);
    invocation.identity = Some(Identity { uid: 65534, gid: 65534, groups: Vec::new() });
    invocation
}

#[test]
fn another_user_gets_a_session_without_the_callers_terminal() {
    for group in [Group::Own, Group::Inherited] {
        let mut invocation = as_nobody("read -r _ _ _ _ group session _ < /proc/$$/stat; echo $$ $group $session");
        invocation.group = group;
        let text = finished(&invocation).stdout.text().into_owned();
        let numbers: Vec<&str> = text.split_whitespace().collect();
        assert!(numbers.len() == 3 && numbers.iter().all(|number| *number == numbers[0]), "{text}");
    }
}

#[test]
fn deadline_ends_session_of_other_user() {
    let start = Instant::now();
    let finished = finished(&as_nobody("sleep 141.421 & sleep 141.421; true").deadline(Duration::from_millis(100)));
    assert_eq!((finished.ending, finished.status), (Termination::Deadline, Status::Signal(15)));
    assert!(start.elapsed() < HANGS, "{:?}", start.elapsed());
    assert!(!is_running("141.421"));
}

#[test]
fn working_directory_is_entered_as_target_user() {
    let open = std::env::temp_dir();
    assert_eq!(finished(&as_nobody("pwd").cwd(&open)).stdout.text().trim_end(), open.to_str().unwrap());
    let private = std::env::temp_dir().join(format!("kilter-process-{}", std::process::id()));
    std::fs::create_dir(&private).unwrap();
    std::fs::set_permissions(&private, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let refused = run(&as_nobody("pwd").cwd(&private), None);
    std::fs::remove_dir(&private).unwrap();
    let refused = refused.unwrap_err();
    assert!(matches!(&refused, SpawnError::Cwd { source, .. } if source.raw_os_error() == Some(13)), "{refused:?}");
    let why = format!("cannot enter the working directory {}: Permission denied (os error 13)", private.display());
    assert_eq!(refused.with_sources(), why);
    let missing = run(&as_nobody("pwd").cwd("/no/such/dir"), None).unwrap_err();
    assert!(matches!(&missing, SpawnError::Cwd { source, .. } if source.raw_os_error() == Some(2)), "{missing:?}");
}

#[test]
fn id_of_minus_one_is_refused() {
    let (one, no) = (65534, u32::MAX);
    for (uid, gid, groups) in [(no, one, vec![]), (one, no, vec![]), (one, one, vec![one, no])] {
        let mut invocation = sh("id -u");
        invocation.identity = Some(Identity { uid, gid, groups });
        let refused = run(&invocation, None);
        assert!(matches!(refused, Err(SpawnError::NoSuchIdentity { .. })), "{refused:?}");
    }
}

#[test]
fn start_failure_has_reason() {
    let missing = run(&Invocation::new("no-such-program"), None).unwrap_err();
    assert!(matches!(missing, SpawnError::NotFound { .. }), "{missing:?}");
    let absolute = run(&Invocation::new("/no/such/program"), None).unwrap_err();
    assert!(matches!(absolute, SpawnError::Start { .. }), "{absolute:?}");
    let nowhere = run(&Invocation::new("true").cwd("/no/such/dir"), None).unwrap_err();
    assert_eq!(nowhere.to_string(), "cannot enter the working directory /no/such/dir");
    let not_a_dir = run(&Invocation::new("true").cwd("/etc/passwd"), None).unwrap_err();
    assert!(matches!(not_a_dir, SpawnError::Cwd { .. }), "{not_a_dir:?}");
    let nul = run(&Invocation::new("true").arg("a\0b"), None).unwrap_err();
    assert!(matches!(nul, SpawnError::Start { .. }), "{nul:?}");
}

#[test]
fn no_descriptor_outlives_a_run() {
    let count = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let invocation = sh("cat").stdin("x").deadline(Duration::from_secs(60));
    finished(&invocation);
    let before = count();
    for _ in 0..20 {
        finished(&invocation);
    }
    // Other tests of this program come and go in between, a few descriptors each.
    assert!(count() < before + 20);
}

#[test]
fn missing_interpreter_is_reported() {
    use std::os::unix::fs::PermissionsExt;
    let path = std::env::temp_dir().join(format!("kilter-process-script-{}", std::process::id()));
    let told = |text: &str| {
        // A file that was just open to be written cannot be run: each is another one.
        let _ = std::fs::remove_file(&path);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let error = run(&Invocation::new(path.as_os_str()), None).unwrap_err().with_sources();
        error.replace(&path.display().to_string(), "SCRIPT")
    };
    let missing = "cannot start `SCRIPT`: its first line names the interpreter `/no/such` which does not exist";
    assert_eq!(told("#!/no/such -x\n").replace("`,", "`"), missing);
    assert!(told("#! /bin/sh\r\n").contains("`/bin/sh` followed by a carriage return, which does not exist"));
    assert!(told("echo\n").contains("it is neither a program nor a script with a first line such as #!/bin/sh"));
    std::fs::remove_file(&path).unwrap();
}

/// Waits until a thread of this process sleeps in the kernel.
fn until_asleep(thread: rustix::process::Pid) {
    let stat = format!("/proc/self/task/{}/stat", thread.as_raw_nonzero());
    let is_asleep = || {
        let text = std::fs::read_to_string(&stat).expect("the thread runs");
        text.rsplit(')').next().is_some_and(|state| state.starts_with(" S"))
    };
    while !is_asleep() {
        std::thread::yield_now();
    }
}

#[test]
fn text_file_busy_is_retried() {
    use std::os::unix::fs::PermissionsExt;
    let path = std::env::temp_dir().join(format!("kilter-process-busy-{}", std::process::id()));
    std::fs::write(&path, "#!/bin/sh\necho done\n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let writer = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
    let told = std::thread::scope(|scope| {
        let (sender, receiver) = std::sync::mpsc::channel();
        let invocation = Invocation::new(path.as_os_str()).captured(100);
        let run = scope.spawn(move || {
            sender.send(rustix::thread::gettid()).unwrap();
            run(&invocation, None)
        });
        // It sleeps between two tries.
        until_asleep(receiver.recv().unwrap());
        drop(writer);
        run.join().unwrap()
    });
    std::fs::remove_file(&path).unwrap();
    assert_eq!(told.unwrap().stdout.text(), "done\n");
}

#[test]
fn script_without_a_file_runs_with_input_arguments_and_channel() {
    let text = "#!/bin/bash -e\nread -r line\necho \"$line $1\"\necho noted >&3\n";
    let call = || Invocation::new("told.prov").script(text).arg("argument").stdin("input\n").captured(1024);
    let output = finished(&call().channel(Capture::First(1024)));
    assert_eq!(output.stdout.text(), "input argument\n", "{output:?}");
    assert_eq!(output.channel.text(), "noted\n");
    // Without the channel, the shell reports its missing descriptor.
    assert_ne!(finished(&call()).status, Status::Code(0));
}

#[test]
fn missing_interpreter_of_script_without_a_file_is_named() {
    let error = run(&Invocation::new("lost.prov").script("#!/nowhere/python3\n"), None).unwrap_err();
    assert!(error.with_sources().contains("cannot start `/nowhere/python3`"), "{}", error.with_sources());
    let error = run(&Invocation::new("lost.prov").script("echo\n"), None).unwrap_err();
    assert!(error.with_sources().contains("cannot start `lost.prov`"), "{}", error.with_sources());
}
