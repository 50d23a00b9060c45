//! Descriptor 3.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use kilter_process::{Capture, Confinement, Identity, Invocation, Output, SpawnError, Termination, run};
use rustix::pipe::{PipeFlags, pipe_with};

fn sh(script: &str) -> Invocation {
    Invocation::new("sh").args(["-c", script]).captured(64 * 1024)
}

fn finished(invocation: &Invocation) -> Output {
    run(invocation, None).expect("the child starts")
}

#[test]
fn channel_output_is_captured_separately() {
    let script = "echo out; echo err >&2; echo three >&3";
    let finished = finished(&sh(script).channel(Capture::First(100)));
    let texts = [&finished.stdout, &finished.stderr, &finished.channel].map(|output| output.text().into_owned());
    assert_eq!(texts, ["out\n", "err\n", "three\n"]);
}

#[test]
fn descriptor_3_is_closed_without_channel() {
    let script = "{ echo three >&3; } 2>/dev/null || echo closed >&2; echo out; exit 4";
    let with = finished(&sh(script).channel(Capture::First(0)));
    let without = finished(&sh(script));
    assert_eq!((with.status, with.stdout.text()), (without.status, without.stdout.text()));
    assert_eq!((with.stderr.text().as_ref(), with.channel.dropped), ("", 6));
    assert_eq!((without.stderr.text().as_ref(), without.channel.dropped), ("closed\n", 0));
}

#[test]
fn child_inherits_only_four_descriptors() {
    let script = "for fd in /proc/$$/fd/*; do test -e $fd && printf '%s ' ${fd##*/}; done";
    // The test itself may have inherited others. The command marks those before its first child.
    let own = Command::new("/bin/sh").args(["-c", script]).stdin(Stdio::null()).output().unwrap();
    let own = String::from_utf8(own.stdout).unwrap();
    let is_foreign = |number: &str| number > "3 " && own.split_inclusive(' ').any(|inherited| inherited == number);
    for (channel, expected) in [(Capture::Nothing, "0 1 2 "), (Capture::First(0), "0 1 2 3 ")] {
        for identity in [None, Some(Identity { uid: 65534, gid: 65534, groups: Vec::new() })] {
            for confinement in [Confinement::None, Confinement::ReadOnly] {
                let mut invocation = sh(script).channel(channel).confined(confinement).stdin("");
                invocation.identity = identity.clone();
                let found = finished(&invocation).stdout.text().into_owned();
                // What the shell has opened itself has a high number.
                let numbers = found.split_inclusive(' ').filter(|number| number.len() == 2 && !is_foreign(number));
                let found: String = numbers.collect();
                assert_eq!(found, expected);
            }
        }
    }
}

#[test]
fn channel_flood_is_dropped_or_ends_child() {
    let flood = "head -c 20000000 /dev/zero >&3; echo end";
    let kept = finished(&sh(flood).channel(Capture::Last(5)));
    assert_eq!((kept.channel.bytes.len(), kept.channel.dropped, kept.is_success()), (5, 19_999_995, true));
    let ended = finished(&sh("cat /dev/zero >&3").channel(Capture::AtMost(1000)));
    assert_eq!((ended.ending, ended.channel.bytes.len()), (Termination::OutputLimit, 1000));
}

#[test]
fn another_user_can_open_the_streams_by_name() {
    let script = "read -r line < /dev/stdin; echo $line > /dev/stdout; echo err > /dev/stderr; echo three > /dev/fd/3";
    let mut invocation = sh(script).stdin("in\n").channel(Capture::First(100));
    for confinement in [Confinement::None, Confinement::ReadOnly] {
        for uid in [0, 65534] {
            invocation.identity = Some(Identity { uid, gid: uid, groups: Vec::new() });
            invocation.confinement = confinement;
            let finished = finished(&invocation);
            let texts =
                [&finished.stdout, &finished.stderr, &finished.channel].map(|output| output.text().into_owned());
            assert_eq!(texts, ["in\n", "err\n", "three\n"], "{uid} {confinement:?}");
        }
    }
}

#[test]
fn descendants_inherit_the_channel() {
    let finished = finished(&sh("sh -c 'sh -c \"echo deep >&3\"'").channel(Capture::First(100)));
    assert_eq!(finished.channel.text(), "deep\n");
}

#[test]
fn failed_start_with_channel_is_reported_with_busy_threads() {
    let path = std::env::temp_dir().join(format!("no-interpreter-{}", std::process::id()));
    std::fs::write(&path, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    let stop = AtomicBool::new(false);
    /// Number of children that each of the two threads starts.
    const TRIES: usize = 300;
    std::thread::scope(|scope| {
        // Descriptors come and go, number 3 among them.
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let pipes: Vec<_> = (0..4).map(|_| pipe_with(PipeFlags::CLOEXEC).unwrap()).collect();
                    drop(pipes);
                }
            });
        }
        let works = scope.spawn(|| {
            for _ in 0..TRIES {
                let finished = finished(&sh("echo x >&3").channel(Capture::First(10)));
                assert_eq!((finished.channel.text().as_ref(), finished.is_success()), ("x\n", true));
            }
        });
        let fails = scope.spawn(|| {
            for _ in 0..TRIES {
                let outcome = run(&Invocation::new(&path).channel(Capture::First(100)), None);
                assert!(matches!(outcome, Err(SpawnError::Start { .. })), "{outcome:?}");
            }
        });
        let ends = (works.join(), fails.join());
        stop.store(true, Ordering::Relaxed);
        ends.0.unwrap();
        ends.1.unwrap();
    });
    std::fs::remove_file(&path).unwrap();
}
