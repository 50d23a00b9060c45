//! Events of an observer, in order.

use std::time::Duration;

use kilter_process::{
    Cancel, Capture, Event, Invocation, LineEnd, Output, Status, Stream, StreamLines, Termination, run_observed,
};

fn sh(script: &str) -> Invocation {
    Invocation::new("sh").args(["-c", script]).captured(64 * 1024)
}

/// Events in words, with how they ended.
fn observed(invocation: &Invocation) -> (Vec<String>, Output) {
    let mut told = Vec::new();
    let finished = run_observed(invocation, None, &mut |event| {
        told.push(match event {
            Event::Spawned { pid, .. } => format!("spawned {}", pid > 1),
            Event::StdinWritten { bytes } => format!("stdin {}", String::from_utf8_lossy(bytes)),
            Event::Chunk { stream, bytes } => format!("{stream:?} {}", String::from_utf8_lossy(bytes)),
            Event::Closed { stream } => format!("{stream:?} closed"),
            Event::Exited { status, ending } => format!("{ending:?} {status}"),
            other => format!("{other:?}"),
        });
    });
    (told, finished.expect("the child starts"))
}

#[test]
fn observer_events_are_ordered() {
    let script = "read -r line; echo got $line; exec >&-; sleep 0.1; echo err >&2; exec 2>&-; sleep 0.1; exit 3";
    let (told, finished) = observed(&sh(script).stdin("x\n"));
    let expected = [
        "spawned true",
        "stdin x\n",
        "Stdout got x\n",
        "Stdout closed",
        "Stderr err\n",
        "Stderr closed",
        "Exited exit code 3",
    ];
    assert_eq!(told, expected);
    assert_eq!(finished.stdout.text(), "got x\n");
}

#[test]
fn combined_output_keeps_read_order() {
    let gate = std::env::temp_dir().join(format!("kilter-gate-{}", std::process::id()));
    // Who opens it anew for each word may miss what is written while the former one is still open.
    let script = r#"mkfifo "$0" && exec 3<>"$0" && for word in 1 2 3 4; do echo "$word"; read -r go <&3; echo "$word" >&2; read -r go <&3; done"#;
    let mut invocation = Invocation::new("sh").args(["-c", script]).arg(&gate).captured(4);
    invocation.together = Capture::First(14);
    let finished = run_observed(&invocation, None, &mut |event| {
        if let Event::Chunk { .. } = event {
            // The child goes on when its last word was read.
            std::fs::write(&gate, "on\n").unwrap();
        }
    });
    std::fs::remove_file(&gate).unwrap();
    let finished = finished.unwrap();
    assert_eq!(finished.together.text(), "1\n1\n2\n2\n3\n3\n4\n");
    assert_eq!((finished.together.dropped, finished.stdout.text().as_ref(), finished.stderr.dropped), (2, "1\n2\n", 4));
}

#[test]
fn output_is_observed_while_child_runs() {
    // The child waits until its first line has come.
    let heard = std::env::temp_dir().join(format!("kilter-observed-{}", std::process::id()));
    let mut chunks = Vec::new();
    let mut invocation = sh(&format!("echo one; until [ -e {} ]; do sleep 0.01; done; echo two", heard.display()));
    invocation.stdout = Capture::First(0);
    let finished = run_observed(&invocation, None, &mut |event| {
        if let Event::Chunk { bytes, .. } = event {
            chunks.push(bytes.to_vec());
            std::fs::write(&heard, "").unwrap();
        }
    });
    std::fs::remove_file(&heard).unwrap();
    let finished = finished.unwrap();
    assert_eq!(chunks, [b"one\n", b"two\n"]);
    assert_eq!((finished.stdout.bytes.len(), finished.stdout.dropped), (0, 8));
}

#[test]
fn leaked_pipe_closes_before_last_event() {
    let (told, finished) = observed(&sh("sleep 0.5 & exit 0"));
    assert_eq!(told[1..], ["Stdout closed", "Stderr closed", "Exited exit code 0"]);
    assert!(finished.leaked);
}

#[test]
fn cancelled_child_gets_all_events() {
    let (mut told, _) = observed(&sh("echo on; sleep 60").deadline(Duration::from_millis(300)));
    let last = "Deadline signal 15";
    told[2..4].sort();
    assert_eq!(told, ["spawned true", "Stdout on\n", "Stderr closed", "Stdout closed", last]);
}

#[test]
fn an_observer_can_cancel() {
    let flag = std::sync::atomic::AtomicBool::new(false);
    let finished = run_observed(&sh("echo enough; sleep 60"), Some(Cancel::new(&flag)), &mut |event| {
        if matches!(event, Event::Chunk { bytes: b"enough\n", .. }) {
            flag.store(true, std::sync::atomic::Ordering::Release);
        }
    });
    assert_eq!(finished.unwrap().ending, Termination::Cancelled);
}

#[test]
fn observed_lines_are_whole_or_marked_partial() {
    let script = "printf 'a\\nlonger than ten\\n'; printf 'half' >&2; printf 'c\\n' >&3; exit 0";
    let mut lines = StreamLines::new(10);
    let mut told = Vec::new();
    let invocation = sh(script).channel(Capture::First(100));
    run_observed(&invocation, None, &mut |event| {
        lines.feed(&event, &mut |stream, line, end| {
            told.push((stream, String::from_utf8(line.to_vec()).unwrap(), end));
        });
    })
    .unwrap();
    told.sort_by_key(|(stream, ..)| *stream);
    let expected = [
        (Stream::Stdout, "a", LineEnd::Newline),
        (Stream::Stdout, "longer tha", LineEnd::Cut),
        (Stream::Stderr, "half", LineEnd::Missing),
        (Stream::Channel, "c", LineEnd::Newline),
    ];
    assert_eq!(told, expected.map(|(stream, line, end)| (stream, line.to_owned(), end)));
}

#[test]
fn a_child_whose_observer_panics_is_ended() {
    let panicked = std::panic::catch_unwind(|| {
        let mut pid = 0;
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            run_observed(&sh("echo on; sleep 60"), None, &mut |event| match event {
                Event::Spawned { pid: spawned, .. } => pid = spawned,
                Event::Chunk { .. } => panic!("the observer has had enough"),
                _ => {}
            })
        }));
        assert!(outcome.is_err());
        pid
    });
    assert!(!std::path::Path::new(&format!("/proc/{}", panicked.unwrap())).exists());
}

#[test]
fn long_input_reports_progress() {
    let input = vec![b'x'; 1_000_000];
    let mut told = Vec::new();
    let mut parts = 0;
    let invocation = sh("sleep 0.1; cat >/dev/null").stdin(input.clone());
    let finished = run_observed(&invocation, None, &mut |event| {
        if let Event::StdinWritten { bytes } = event {
            told.extend_from_slice(bytes);
            parts += 1;
        }
    });
    assert_eq!(finished.unwrap().status, Status::Code(0));
    assert!(told == input && parts > 1, "{parts}");
}
