//! The end of a child that has to end.

use std::io;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::invocation::Group;
use crate::run::Running;

/// How long a killed process may take to be gone.
const KILLED: Duration = Duration::from_secs(10);

/// How often it is looked whether the rest of a process group is gone.
const LOOK: Duration = Duration::from_millis(10);

impl Running<'_> {
    /// Ends the child and, where it has a process group of its own, its descendants in it: SIGTERM,
    /// then SIGKILL when `grace` is over. Returns whether the child has ended.
    ///
    /// The child is not waited for before the last signal is sent: as long as it is a zombie, its
    /// number, which is that of the group, cannot come to name somebody else.
    pub(crate) fn stop(&mut self, grace: Duration) -> io::Result<bool> {
        self.signal(Signal::TERM);
        // What is stopped (by reading from a terminal, say) cannot act on the signal.
        self.signal(Signal::CONT);
        let all_gone = self.until_gone(Instant::now() + grace)?;
        if !all_gone {
            self.kill();
        }
        let ended = all_gone || self.until_exit(Instant::now() + KILLED)?;
        self.over = !ended;
        Ok(ended)
    }

    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        // It may be gone already, or belong to another user: whether it ends is what counts.
        let _ = match self.group {
            Group::Own => kill_process_group(self.pid(), signal),
            Group::Inherited => kill_process(self.pid(), signal),
        };
    }

    fn until_exit(&mut self, until: Instant) -> io::Result<bool> {
        while !self.step(Some(until), None)?.exited {
            if Instant::now() >= until {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Waits for the child, then for the others of its group; says whether all are gone in time.
    fn until_gone(&mut self, until: Instant) -> io::Result<bool> {
        if !self.until_exit(until)? {
            return Ok(false);
        }
        while self.group == Group::Own && is_populated(self.pid()) {
            if Instant::now() >= until {
                return Ok(false);
            }
            std::thread::sleep(LOOK);
        }
        Ok(true)
    }
}

/// Whether a process group has members that have not exited. When `/proc` does not tell: yes.
fn is_populated(group: Pid) -> bool {
    let Ok(processes) = std::fs::read_dir("/proc") else { return true };
    processes.filter_map(Result::ok).any(|entry| {
        let is_process = entry.file_name().as_encoded_bytes().first().is_some_and(u8::is_ascii_digit);
        is_process && std::fs::read(entry.path().join("stat")).is_ok_and(|stat| is_alive_in(&stat, group))
    })
}

/// Reads state and group from `/proc/PID/stat` (proc_pid_stat(5)): `PID (NAME) STATE PPID PGRP …`.
fn is_alive_in(stat: &[u8], group: Pid) -> bool {
    let Some(end) = stat.iter().rposition(|&b| b == b')') else { return false };
    let rest = String::from_utf8_lossy(&stat[end + 1..]);
    let mut fields = rest.split_ascii_whitespace();
    let (state, pgrp) = (fields.next(), fields.nth(1));
    !matches!(state, Some("Z" | "X")) && pgrp == Some(group.as_raw_nonzero().to_string().as_str())
}
