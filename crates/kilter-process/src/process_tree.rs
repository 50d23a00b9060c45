//! Processes that end together with a child: its process group, and the group's descendants in other groups.
//!
//! kilter finds a descendant through its parents, so it finds only descendants whose parents still run. An orphan
//! belongs to init, and `/proc` no longer shows its origin.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, kill_process_group, pidfd_open, pidfd_send_signal, test_kill_process,
};

/// Maximum number of scans if each scan finds a new process.
const ROUNDS: usize = 50;

/// Maximum time for all processes to stop after SIGSTOP. A process inside the kernel (a read from a lost server)
/// does not stop.
const STOP_TIMEOUT: Duration = Duration::from_millis(200);

/// Interval between checks for a stopped process. A process stops at the next tick of its processor at the latest.
const GLANCE: Duration = Duration::from_micros(200);

/// Processes that end together with a child, as of the last scan.
pub(crate) struct ProcessTree {
    /// Process id of the child, which is also the id of its group.
    group: Pid,
    members: Vec<Process>,
    /// Descendants in other groups, parents before their children.
    escaped: Vec<Process>,
    /// True if `/proc` is unusable. Only the group is known then.
    proc_unavailable: bool,
}

impl ProcessTree {
    pub(crate) fn of(group: Pid) -> ProcessTree {
        ProcessTree { group, members: Vec::new(), escaped: Vec::new(), proc_unavailable: false }
    }

    /// Scans `/proc` again. Returns true if there is a process that was not known.
    ///
    /// The group must still be the child's: either nobody has waited for the child, or no process has its number.
    pub(crate) fn rescan(&mut self) -> bool {
        let told = living();
        self.proc_unavailable = told.is_none();
        let all = told.unwrap_or_default();
        let members = all.values().filter(|process| process.group == self.group.as_raw_pid()).copied().collect();
        let known = std::mem::replace(&mut self.members, members);
        let has_new_members = self.members.iter().any(|member| !known.iter().any(|known| known.is(member)));
        self.escaped.retain(|stray| all.get(&stray.number).is_some_and(|process| process.is(stray)));
        let known = self.escaped.len();
        loop {
            let found: Vec<Process> = all.values().filter(|process| self.is_new(process, &all)).copied().collect();
            if found.is_empty() {
                return has_new_members || self.escaped.len() > known;
            }
            self.escaped.extend(found);
        }
    }

    /// Stops all processes, and scans until there is no new one, because a stopped process starts none. The child
    /// must not have been waited for.
    ///
    /// Parents stop before their children, because a shell that sees a stopped job continues with its next command.
    pub(crate) fn stop(&mut self) {
        let until = Instant::now() + STOP_TIMEOUT;
        for _ in 0..ROUNDS {
            self.signal_group(Signal::STOP);
            self.members.iter().for_each(|member| member.stands_by(until));
            for stray in &self.escaped {
                stray.send(Signal::STOP);
                stray.stands_by(until);
            }
            if !self.rescan() {
                return;
            }
        }
    }

    /// Continues all processes. Children continue before their parents, for the reason given in [`ProcessTree::stop`].
    pub(crate) fn thaw(&self) {
        self.escaped.iter().rev().for_each(|stray| stray.send(Signal::CONT));
        self.signal_group(Signal::CONT);
    }

    /// Sends a signal to the group of a child that has not been waited for, and to the strays.
    pub(crate) fn signal(&self, signal: Signal) {
        self.signal_group(signal);
        self.escaped.iter().for_each(|stray| stray.send(signal));
    }

    fn signal_group(&self, signal: Signal) {
        // The processes may have ended already, or belong to another user. The caller checks later if they run.
        let _ = kill_process_group(self.group, signal);
    }

    fn is_new(&self, process: &Process, all: &BTreeMap<i32, Process>) -> bool {
        let holds = |known: &[Process], process: &Process| known.iter().any(|known| known.is(process));
        let Some(parent) = all.get(&process.parent) else { return false };
        process.group != self.group.as_raw_pid()
            && (holds(&self.members, parent) || holds(&self.escaped, parent))
            && !holds(&self.escaped, process)
            && process.is_child_of(parent)
    }

    /// Returns true if any of the processes may run. Always true if `/proc` is unusable.
    pub(crate) fn may_run(&self) -> bool {
        self.proc_unavailable || !self.members.is_empty() || !self.escaped.is_empty()
    }

    /// Returns the processes that kilter can signal. It cannot signal processes of another user (`sudo`).
    pub(crate) fn reachable(&self) -> impl Iterator<Item = Process> {
        let all = self.members.iter().chain(&self.escaped).copied();
        all.filter(|process| process.pid().is_some_and(|pid| test_kill_process(pid).is_ok()))
    }
}

/// A process at the time of its reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    number: i32,
    parent: i32,
    group: i32,
    /// Start time in clock ticks since boot. Together with the number it identifies one process.
    started: u64,
}

impl Process {
    fn read(number: i32) -> Option<Process> {
        Process::parse(number, &std::fs::read(format!("/proc/{number}/stat")).ok()?)
    }

    /// Parses `/proc/PID/stat` (`proc_pid_stat(5)`): `PID (NAME) STATE PPID PGRP …`, number of threads in field 20,
    /// start time in field 22. Returns none if the process has exited.
    fn parse(number: i32, stat: &[u8]) -> Option<Process> {
        let mut fields = fields_behind_the_name(stat)?;
        let state = fields.next()?;
        let (parent, group) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        let (threads, started) = (fields.nth(14)?.parse::<u32>().ok()?, fields.nth(1)?.parse().ok()?);
        // The state is that of the first thread. Other threads may outlive it.
        let has_exited = state == "X" || state == "Z" && threads <= 1;
        (!has_exited).then_some(Process { number, parent, group, started })
    }

    fn pid(&self) -> Option<Pid> {
        Pid::from_raw(self.number)
    }

    /// Returns true if both are the same process. Parent and group may differ.
    pub(crate) fn is(&self, other: &Process) -> bool {
        (self.number, self.started) == (other.number, other.started)
    }

    fn is_there(&self) -> bool {
        Process::read(self.number).is_some_and(|now| now.is(self))
    }

    /// Waits until the process has stopped or ended, at most until this time.
    fn stands_by(&self, until: Instant) {
        while self.may_go_on() && Instant::now() < until {
            std::thread::sleep(GLANCE);
        }
    }

    /// Returns true if the process exists and has not stopped yet.
    fn may_go_on(&self) -> bool {
        let Ok(stat) = std::fs::read(format!("/proc/{}/stat", self.number)) else { return false };
        // kilter cannot signal a process of another user (`sudo`), so it does not stop.
        if self.pid().is_none_or(|pid| test_kill_process(pid).is_err()) {
            return false;
        }
        let has_stopped = fields_behind_the_name(&stat)
            .and_then(|mut fields| fields.next())
            .is_some_and(|state| state.eq_ignore_ascii_case("t"));
        !has_stopped && Process::parse(self.number, &stat).is_some_and(|now| now.is(self))
    }

    /// Returns true if the process is a child of `parent` now. The caller has read the parent before. If the parent
    /// still exists afterwards, no other process had its number in between.
    fn is_child_of(&self, parent: &Process) -> bool {
        Process::read(self.number).is_some_and(|now| now.is(self) && now.parent == parent.number) && parent.is_there()
    }

    /// Sends a signal through a descriptor that identifies this process only.
    pub(crate) fn send(&self, signal: Signal) {
        // A process that has already ended needs no signal.
        let Some(Ok(process)) = self.pid().map(|pid| pidfd_open(pid, PidfdFlags::empty())) else { return };
        if self.is_there() {
            let _ = pidfd_send_signal(&process, signal);
        }
    }
}

/// Returns the fields of `/proc/PID/stat` from the state on. They follow the name, which the process itself can
/// choose.
fn fields_behind_the_name(stat: &[u8]) -> Option<std::str::SplitAsciiWhitespace<'_>> {
    let end = stat.iter().rposition(|&byte| byte == b')')?;
    Some(std::str::from_utf8(&stat[end + 1..]).ok()?.split_ascii_whitespace())
}

/// Returns all processes that have not exited; none if `/proc` is unusable.
fn living() -> Option<BTreeMap<i32, Process>> {
    let own = std::fs::read("/proc/self/status").ok()?;
    if !is_of_own_namespace(&String::from_utf8_lossy(&own), getpid()) {
        return None;
    }
    let entries = std::fs::read_dir("/proc").ok()?.filter_map(Result::ok);
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Some(numbers.filter_map(|number| Some((number, Process::read(number)?))).collect())
}

/// Returns true if this `/proc` shows the process numbers of kilter's PID namespace.
///
/// `status` is kilter's own `/proc/self/status` (`proc_pid_status(5)`). A `/proc` of an outer namespace shows one
/// number for each namespace down to kilter's.
fn is_of_own_namespace(status: &str, own: Pid) -> bool {
    let told = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    let own = own.as_raw_pid().to_string();
    told("Pid:") == Some(&own) && told("NSpid:").is_none_or(|numbers| numbers == own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_with_odd_name_is_read() {
        let stat = |name: &str, state: &str| {
            format!("7 ({name}) {state} 5 6 6 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 4711 8192 9 18446744073709551615\n")
        };
        let read = Some(Process { number: 7, parent: 5, group: 6, started: 4711 });
        assert_eq!(Process::parse(7, stat("sh", "S").as_bytes()), read);
        assert_eq!(Process::parse(7, stat("a) Z 1 1", "R").as_bytes()), read);
        assert_eq!(Process::parse(7, stat("sh", "Z").as_bytes()), None);
        assert_eq!(Process::parse(7, b"7 (sh) S 5"), None);
    }

    #[test]
    fn process_runs_until_its_last_thread_ends() {
        let stat = |state: &str, threads: u32| {
            format!(
                "7 (sh) {state} 5 6 6 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 {threads} 0 4711 8192 9 18446744073709551615\n"
            )
        };
        let read = Some(Process { number: 7, parent: 5, group: 6, started: 4711 });
        assert_eq!(Process::parse(7, stat("Z", 2).as_bytes()), read);
        assert_eq!(Process::parse(7, stat("X", 2).as_bytes()), None);
    }

    #[test]
    fn pids_of_other_namespaces_are_not_confused() {
        let own = Pid::from_raw(7).unwrap();
        let is_own = |pids: &str| is_of_own_namespace(&format!("Name:\tNSpid:\nTgid:\t7\n{pids}PPid:\t1\n"), own);
        assert!(is_own("Pid:\t7\nNStgid:\t7\nNSpid:\t7\n"));
        assert!(is_own("Pid:\t7\n"), "a kernel without namespaces");
        assert!(!is_own("Pid:\t4711\nNStgid:\t4711\t7\nNSpid:\t4711\t7\n"));
        assert!(!is_own("Pid:\t7\nNSpid:\t7\t7\n"), "by chance the same number in both");
        assert!(!is_own(""));
    }

    #[test]
    fn reused_pid_is_not_signalled() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let process = Process::read(Pid::from_child(&child).as_raw_pid()).unwrap();
        Process { started: process.started - 1, ..process }.send(Signal::KILL);
        assert!(process.is_there());
        process.send(Signal::KILL);
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&child.wait().unwrap()), Some(9));
    }

    #[test]
    fn child_of_foreign_process_is_not_escaped() {
        let own = Process::read(rustix::process::getpid().as_raw_pid()).unwrap();
        let parent = Process::read(own.parent).unwrap();
        assert!(own.is_child_of(&parent));
        assert!(!own.is_child_of(&Process { started: parent.started + 1, ..parent }));
        assert!(!parent.is_child_of(&own));
    }
}
