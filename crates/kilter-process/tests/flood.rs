//! A flood, in a test program of its own: it looks at the memory of the whole process.

#![expect(clippy::unwrap_used, reason = "a test may end where it cannot go on")]

use kilter_process::{Capture, Event, Invocation, Stream, StreamLines, run_observed};

const GIB: u64 = 1 << 30;

/// The largest memory that this process has had, in KiB (proc_pid_status(5)).
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn gibibyte_of_output_uses_bounded_memory() {
    let script = "head -c 536870912 /dev/zero & head -c 536870912 /dev/zero >&2 & wait; head -c 9999999 /dev/zero >&3";
    let mut invocation = Invocation::new("sh").args(["-c", script]).channel(Capture::First(0));
    invocation.stdout = Capture::First(1 << 20);
    invocation.stderr = Capture::Last(1 << 20);
    let (mut seen, mut lines, mut line_bytes) = (0, StreamLines::new(4096), 0);
    let finished = run_observed(&invocation, None, &mut |event| match &event {
        Event::Chunk { stream: Stream::Channel, .. } => lines.feed(&event, &mut |_, line, _| line_bytes += line.len()),
        Event::Chunk { bytes, .. } => seen += bytes.len() as u64,
        _ => {}
    })
    .unwrap();
    assert!(finished.is_success());
    assert_eq!(seen, GIB);
    assert_eq!(finished.stdout.dropped + finished.stderr.dropped, GIB - (2 << 20));
    assert_eq!((line_bytes, finished.channel.dropped), (4096, 9_999_999), "a line without an end is given once, cut");
    assert!(peak() < 64 * 1024, "{} KiB", peak());
}
