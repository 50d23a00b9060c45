//! Misbehaviour with processes, descriptors and files.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::answer::{ScriptRequest, good, right};

pub(crate) fn hang() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}

/// Sends a signal to itself and waits for it. Leaves no core file.
pub(crate) fn signal_itself(signal: &str) -> ! {
    let limited = "ulimit -c 0; kill -\"$1\" $$; exec sleep 1000";
    let error = Command::new("/bin/sh").args(["-c", limited, "sh", signal]).exec();
    panic!("the shell cannot be started: {error}");
}

/// Replaces itself by a shell with this script; `$1` is the correct answer.
pub(crate) fn shell(request: &ScriptRequest, script: &str) -> u8 {
    let error = Command::new("/bin/sh").args(["-c", script, "sh", &right(request)]).exec();
    eprintln!("error: the shell cannot be started: {error}");
    70
}

/// Leaves processes behind that keep all outputs open.
pub(crate) fn leak(request: &ScriptRequest, count: usize) {
    for _ in 0..count {
        // The process must outlive this program, so there is no wait.
        let _ = Command::new("sleep").arg("5").stdin(Stdio::null()).spawn();
    }
    good(request);
}
