//! Who ends with a child: the members of its process group, and what descends from these in other groups.
//!
//! A descendant is found by its parents, as long as these live: the orphan of a parent that has ended belongs to init,
//! and nothing tells any more where it came from.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, kill_process_group, pidfd_open, pidfd_send_signal, test_kill_process,
};

/// How often it is looked at most, where each time somebody new is found.
const ROUNDS: usize = 50;

/// How long all of them may take to stand once they are told to: what the kernel holds (a read from a lost server) does not.
const STANDING: Duration = Duration::from_millis(200);

/// How often it is looked whether one of them stands: it takes as long as the next tick of its processor at most.
const GLANCE: Duration = Duration::from_micros(200);

/// Those who end with a child, as of the last look.
pub(crate) struct Kin {
    /// The number of the child, and of its group.
    group: Pid,
    members: Vec<Process>,
    /// Descendants in other groups, parents before their children.
    strays: Vec<Process>,
    /// Whether `/proc` told nothing: then only the group is known.
    is_dark: bool,
}

impl Kin {
    pub(crate) fn of(group: Pid) -> Kin {
        Kin { group, members: Vec::new(), strays: Vec::new(), is_dark: false }
    }

    /// Looks who is there. Says whether there is anybody who was not known.
    ///
    /// The group must be the child's still: either the child has not been waited for, or the number names no process.
    pub(crate) fn look(&mut self) -> bool {
        let told = living();
        self.is_dark = told.is_none();
        let all = told.unwrap_or_default();
        let members = all.values().filter(|process| process.group == self.group.as_raw_pid()).copied().collect();
        let known = std::mem::replace(&mut self.members, members);
        let has_new_members = self.members.iter().any(|member| !known.iter().any(|known| known.is(member)));
        self.strays.retain(|stray| all.get(&stray.number).is_some_and(|process| process.is(stray)));
        let known = self.strays.len();
        loop {
            let found: Vec<Process> = all.values().filter(|process| self.is_new(process, &all)).copied().collect();
            if found.is_empty() {
                return has_new_members || self.strays.len() > known;
            }
            self.strays.extend(found);
        }
    }

    /// Stops all of them, and looks until nobody is new: what stands starts nobody. The child has not been waited for.
    ///
    /// Parents stand before their children are stopped: a shell that finds a job stopped goes on with what comes next.
    pub(crate) fn freeze(&mut self) {
        let until = Instant::now() + STANDING;
        for _ in 0..ROUNDS {
            self.signal_group(Signal::STOP);
            self.members.iter().for_each(|member| member.stands_by(until));
            for stray in &self.strays {
                stray.send(Signal::STOP);
                stray.stands_by(until);
            }
            if !self.look() {
                return;
            }
        }
    }

    /// Has them go on: children before their parents, for the reason that [`Kin::freeze`] tells.
    pub(crate) fn thaw(&self) {
        self.strays.iter().rev().for_each(|stray| stray.send(Signal::CONT));
        self.signal_group(Signal::CONT);
    }

    /// Sends a signal to the group of a child that has not been waited for, and to the strays.
    pub(crate) fn signal(&self, signal: Signal) {
        self.signal_group(signal);
        self.strays.iter().for_each(|stray| stray.send(signal));
    }

    fn signal_group(&self, signal: Signal) {
        // They may be gone already, or belong to another user: whether they end is what counts.
        let _ = kill_process_group(self.group, signal);
    }

    fn is_new(&self, process: &Process, all: &BTreeMap<i32, Process>) -> bool {
        let holds = |known: &[Process], process: &Process| known.iter().any(|known| known.is(process));
        let Some(parent) = all.get(&process.parent) else { return false };
        process.group != self.group.as_raw_pid()
            && (holds(&self.members, parent) || holds(&self.strays, parent))
            && !holds(&self.strays, process)
            && process.is_child_of(parent)
    }

    /// Whether any of them may run. When `/proc` does not tell: yes.
    pub(crate) fn may_run(&self) -> bool {
        self.is_dark || !self.members.is_empty() || !self.strays.is_empty()
    }

    /// Those that can be signalled, which those of another user (`sudo`) cannot.
    pub(crate) fn reachable(&self) -> impl Iterator<Item = Process> {
        let all = self.members.iter().chain(&self.strays).copied();
        all.filter(|process| process.pid().is_some_and(|pid| test_kill_process(pid).is_ok()))
    }
}

/// A process, as it was when it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    number: i32,
    parent: i32,
    group: i32,
    /// In clock ticks since boot: with the number it names one process and no other.
    started: u64,
}

impl Process {
    fn read(number: i32) -> Option<Process> {
        Process::parse(number, &std::fs::read(format!("/proc/{number}/stat")).ok()?)
    }

    /// Reads `/proc/PID/stat` (`proc_pid_stat(5)`): `PID (NAME) STATE PPID PGRP …`, the number of threads as the 20th, the
    /// time of its start as the 22nd. None if it has exited.
    fn parse(number: i32, stat: &[u8]) -> Option<Process> {
        let mut fields = fields_behind_the_name(stat)?;
        let state = fields.next()?;
        let (parent, group) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        let (threads, started) = (fields.nth(14)?.parse::<u32>().ok()?, fields.nth(1)?.parse().ok()?);
        // The state is that of the first thread, and others may outlive that one.
        let has_exited = state == "X" || state == "Z" && threads <= 1;
        (!has_exited).then_some(Process { number, parent, group, started })
    }

    fn pid(&self) -> Option<Pid> {
        Pid::from_raw(self.number)
    }

    /// Whether both are the same process, whatever has become of its parent and its group.
    pub(crate) fn is(&self, other: &Process) -> bool {
        (self.number, self.started) == (other.number, other.started)
    }

    fn is_there(&self) -> bool {
        Process::read(self.number).is_some_and(|now| now.is(self))
    }

    /// Waits until it has stopped, or has ended, no longer than that.
    fn stands_by(&self, until: Instant) {
        while self.may_go_on() && Instant::now() < until {
            std::thread::sleep(GLANCE);
        }
    }

    /// Whether it is there and has not stopped (yet).
    fn may_go_on(&self) -> bool {
        let Ok(stat) = std::fs::read(format!("/proc/{}/stat", self.number)) else { return false };
        // One of another user (`sudo`) is not told anything.
        if self.pid().is_none_or(|pid| test_kill_process(pid).is_err()) {
            return false;
        }
        let has_stopped = fields_behind_the_name(&stat)
            .and_then(|mut fields| fields.next())
            .is_some_and(|state| state.eq_ignore_ascii_case("t"));
        !has_stopped && Process::parse(self.number, &stat).is_some_and(|now| now.is(self))
    }

    /// Whether it is one now. The parent was read before: if it is there afterwards, its number has named
    /// nobody else in between.
    fn is_child_of(&self, parent: &Process) -> bool {
        Process::read(self.number).is_some_and(|now| now.is(self) && now.parent == parent.number) && parent.is_there()
    }

    /// Sends a signal through a descriptor that names it and nobody else.
    pub(crate) fn send(&self, signal: Signal) {
        // It may be gone: that is what is wanted.
        let Some(Ok(process)) = self.pid().map(|pid| pidfd_open(pid, PidfdFlags::empty())) else { return };
        if self.is_there() {
            let _ = pidfd_send_signal(&process, signal);
        }
    }
}

/// The fields of `/proc/PID/stat` from the state on. The name before them is the process's own choice.
fn fields_behind_the_name(stat: &[u8]) -> Option<std::str::SplitAsciiWhitespace<'_>> {
    let end = stat.iter().rposition(|&byte| byte == b')')?;
    Some(std::str::from_utf8(&stat[end + 1..]).ok()?.split_ascii_whitespace())
}

/// All processes that have not exited; none when `/proc` does not tell.
fn living() -> Option<BTreeMap<i32, Process>> {
    let own = std::fs::read("/proc/self/status").ok()?;
    if !is_of_own_namespace(&String::from_utf8_lossy(&own), getpid()) {
        return None;
    }
    let entries = std::fs::read_dir("/proc").ok()?.filter_map(Result::ok);
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Some(numbers.filter_map(|number| Some((number, Process::read(number)?))).collect())
}

/// Whether the numbers in this `/proc` are those that kilter uses, by its own `/proc/self/status` (`proc_pid_status(5)`) there: seen
/// from outside its PID namespace it has a number in each namespace down to its own.
fn is_of_own_namespace(status: &str, own: Pid) -> bool {
    let told = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    let own = own.as_raw_pid().to_string();
    told("Pid:") == Some(&own) && told("NSpid:").is_none_or(|numbers| numbers == own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_whatever_it_calls_itself() {
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
    fn a_process_whose_first_thread_has_ended_runs_as_long_as_another_one_does() {
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
    fn numbers_of_another_namespace_are_not_taken_for_own_ones() {
        let own = Pid::from_raw(7).unwrap();
        let is_own = |pids: &str| is_of_own_namespace(&format!("Name:\tNSpid:\nTgid:\t7\n{pids}PPid:\t1\n"), own);
        assert!(is_own("Pid:\t7\nNStgid:\t7\nNSpid:\t7\n"));
        assert!(is_own("Pid:\t7\n"), "a kernel without namespaces");
        assert!(!is_own("Pid:\t4711\nNStgid:\t4711\t7\nNSpid:\t4711\t7\n"));
        assert!(!is_own("Pid:\t7\nNSpid:\t7\t7\n"), "by chance the same number in both");
        assert!(!is_own(""));
    }

    #[test]
    fn a_number_that_names_another_process_by_now_is_not_signalled() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let process = Process::read(Pid::from_child(&child).as_raw_pid()).unwrap();
        Process { started: process.started - 1, ..process }.send(Signal::KILL);
        assert!(process.is_there());
        process.send(Signal::KILL);
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&child.wait().unwrap()), Some(9));
    }

    #[test]
    fn a_child_of_nobody_that_belongs_is_no_stray() {
        let own = Process::read(rustix::process::getpid().as_raw_pid()).unwrap();
        let parent = Process::read(own.parent).unwrap();
        assert!(own.is_child_of(&parent));
        assert!(!own.is_child_of(&Process { started: parent.started + 1, ..parent }));
        assert!(!parent.is_child_of(&own));
    }
}
