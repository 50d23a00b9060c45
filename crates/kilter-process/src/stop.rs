//! The end of a child that has to end.

use std::io;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open, pidfd_send_signal, test_kill_process,
    test_kill_process_group,
};

use crate::invocation::Group;
use crate::run::Cancel;
use crate::running::Running;

/// How long a killed process may take to be gone.
const KILLED: Duration = Duration::from_secs(10);

/// How often it is looked whether there is still any grace.
const GLANCE: Duration = Duration::from_millis(50);

/// How often it is looked whether the rest of a process group is gone.
const LOOK: Duration = Duration::from_millis(10);

impl Running<'_> {
    /// Ends the child and, where it has a process group of its own, its descendants in it: its signal,
    /// then SIGKILL when its grace is over, or when `cancel` says that there is no more. Returns whether the child has ended.
    ///
    /// The child is not waited for before the last signal is sent: as long as it is a zombie, its
    /// number, which is that of the group, cannot come to name somebody else.
    pub(crate) fn stop(&mut self, cancel: Option<Cancel<'_>>) -> io::Result<bool> {
        self.signal(self.invocation.stop_signal.raw());
        // What is stopped (by reading from a terminal, say) cannot act on the signal.
        self.signal(Signal::CONT);
        let mut ended = self.until_gone(Instant::now() + self.invocation.grace, cancel)?;
        if !ended {
            self.kill();
            let until = Instant::now() + KILLED;
            ended = self.until_exit(until, None)?;
            // Others may be stuck in the kernel, with the signal waiting for them: nothing is left to do.
            while self.group == Group::Own && reachable(self.pid()).is_some() && Instant::now() < until {
                std::thread::sleep(LOOK);
            }
        }
        self.over = !ended;
        Ok(ended)
    }

    /// Ends what is left of the group of a child that has been waited for.
    ///
    /// The number of the group cannot come to name another one while it has a member, but the last member may go
    /// at any time. Signals are hence sent to members, through descriptors that name them and nobody else.
    pub(crate) fn end_leftovers(&self) {
        if self.group != Group::Own || test_kill_process_group(self.pid()) == Err(Errno::SRCH) {
            return;
        }
        for (signal, time) in [(self.invocation.stop_signal.raw(), self.invocation.grace), (Signal::KILL, KILLED)] {
            let until = Instant::now() + time;
            let mut told = Vec::new();
            while let Some(members) = leftovers_of(self.pid()) {
                for member in members {
                    if signal == Signal::KILL || !told.contains(&member) {
                        send(member, self.pid(), signal);
                        told.push(member);
                    }
                }
                if Instant::now() >= until {
                    break;
                }
                std::thread::sleep(LOOK);
            }
        }
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

    fn until_exit(&mut self, until: Instant, cancel: Option<Cancel<'_>>) -> io::Result<bool> {
        let urgent = cancel.filter(|cancel| cancel.urgent.is_some());
        loop {
            let now = Instant::now();
            let pause = if urgent.is_some() { until.min(now + GLANCE) } else { until };
            if self.step(Some(pause), None)?.exited {
                return Ok(true);
            }
            if Instant::now() >= until || urgent.is_some_and(|cancel| cancel.is_urgent()) {
                return Ok(false);
            }
        }
    }

    /// Waits for the child, then for the others of its group; says whether all are gone in time.
    fn until_gone(&mut self, until: Instant, cancel: Option<Cancel<'_>>) -> io::Result<bool> {
        if !self.until_exit(until, cancel)? {
            return Ok(false);
        }
        while self.group == Group::Own && is_populated(self.pid()) {
            if Instant::now() >= until || cancel.is_some_and(|cancel| cancel.is_urgent()) {
                return Ok(false);
            }
            std::thread::sleep(LOOK);
        }
        Ok(true)
    }
}

/// The members of a group whose leader has been waited for; none if there are none.
fn leftovers_of(group: Pid) -> Option<Vec<Pid>> {
    // A leader that is there is another one: its group only has the number.
    let is_another = test_kill_process(group) != Err(Errno::SRCH);
    reachable(group).filter(|_| !is_another)
}

/// The members of a group that can be signalled, which those of another user (`sudo`) cannot; none if there are none.
fn reachable(group: Pid) -> Option<Vec<Pid>> {
    let mut members = members(group)?;
    members.retain(|&member| test_kill_process(member).is_ok());
    (!members.is_empty()).then_some(members)
}

fn send(member: Pid, group: Pid, signal: Signal) {
    // It may be gone: that is what is wanted.
    let Ok(process) = pidfd_open(member, PidfdFlags::empty()) else { return };
    if is_member(member.as_raw_nonzero().get(), group) {
        let _ = pidfd_send_signal(&process, signal);
        // What is stopped cannot act on a signal.
        let _ = pidfd_send_signal(&process, Signal::CONT);
    }
}

/// Whether a process group has members that have not exited. When `/proc` does not tell: yes.
fn is_populated(group: Pid) -> bool {
    members(group).is_none_or(|members| !members.is_empty())
}

/// The members of a process group that have not exited. When `/proc` does not tell: none at all.
fn members(group: Pid) -> Option<Vec<Pid>> {
    let processes = std::fs::read_dir("/proc").ok()?.filter_map(Result::ok);
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Some(numbers.filter(|&number| is_member(number, group)).filter_map(Pid::from_raw).collect())
}

fn is_member(process: i32, group: Pid) -> bool {
    std::fs::read(format!("/proc/{process}/stat")).is_ok_and(|stat| is_alive_in(&stat, group))
}

/// Reads state and group from `/proc/PID/stat` (proc_pid_stat(5)): `PID (NAME) STATE PPID PGRP …`.
fn is_alive_in(stat: &[u8], group: Pid) -> bool {
    let Some(end) = stat.iter().rposition(|&b| b == b')') else { return false };
    let rest = String::from_utf8_lossy(&stat[end + 1..]);
    let mut fields = rest.split_ascii_whitespace();
    let (state, pgrp) = (fields.next(), fields.nth(1));
    !matches!(state, Some("Z" | "X")) && pgrp == Some(group.as_raw_nonzero().to_string().as_str())
}
