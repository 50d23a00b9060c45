//! Ends a child, its group and its descendants.

use std::io;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Signal, kill_process, test_kill_process, test_kill_process_group};

use crate::invocation::Group;
use crate::process_tree::Process;
use crate::run::Cancel;
use crate::running::Running;

/// Maximum time for a killed process to end.
const KILLED: Duration = Duration::from_secs(10);

/// Interval of checks for the end of the grace.
const GLANCE: Duration = Duration::from_millis(50);

/// Interval of checks for the end of the other processes.
const POLL: Duration = Duration::from_millis(10);

impl Running<'_> {
    /// Ends the child. If the child has its own process group, ends that group and its descendants too. Returns true
    /// if the child has ended.
    ///
    /// First sends the stop signal, then SIGKILL after the grace, or earlier if `cancel` is urgent. The child is not
    /// waited for before the last signal. While it is a zombie, no other process can get its number, which is also
    /// the number of the group.
    pub(crate) fn stop(&mut self, cancel: Option<Cancel<'_>>) -> io::Result<bool> {
        self.signal(self.invocation.stop_signal.raw());
        // A stopped process (stopped by a read from a terminal, for example) cannot handle the signal.
        match self.group {
            Group::Own => self.kin.thaw(),
            Group::Inherited => drop(kill_process(self.pid(), Signal::CONT)),
        }
        let mut ended = self.until_gone(Instant::now() + self.invocation.grace, cancel)?;
        if !ended {
            self.kill();
            let until = Instant::now() + KILLED;
            ended = self.until_exit(until, None)?;
            // Other processes may be stuck in the kernel with the signal pending. kilter can do no more for them.
            while self.group == Group::Own && self.is_any_reachable() && Instant::now() < until {
                std::thread::sleep(POLL);
            }
        }
        self.over = !ended;
        Ok(ended)
    }

    fn is_any_reachable(&mut self) -> bool {
        self.kin.rescan();
        self.kin.reachable().next().is_some()
    }

    /// Ends the remaining members of the group of a child that has been waited for.
    ///
    /// While the group has a member, no other group gets its number, but the last member may end at any time. So
    /// signals go to members, through descriptors that identify exactly these processes.
    pub(crate) fn end_leftovers(&mut self) {
        if self.group != Group::Own || test_kill_process_group(self.pid()) == Err(Errno::SRCH) {
            return;
        }
        for (signal, time) in [(self.invocation.stop_signal.raw(), self.invocation.grace), (Signal::KILL, KILLED)] {
            let until = Instant::now() + time;
            let mut told: Vec<Process> = Vec::new();
            while let Some(leftovers) = self.leftovers() {
                for leftover in leftovers {
                    if signal == Signal::KILL || !told.iter().any(|told| told.is(&leftover)) {
                        leftover.send(signal);
                        // A stopped process cannot handle a signal.
                        leftover.send(Signal::CONT);
                        told.push(leftover);
                    }
                }
                if Instant::now() >= until {
                    break;
                }
                self.sleep(POLL);
            }
        }
    }

    /// Returns the processes left over from a child that has been waited for; none if there are none.
    fn leftovers(&mut self) -> Option<Vec<Process>> {
        // If a process has the number of the child, it is the leader of a new group.
        if test_kill_process(self.pid()) != Err(Errno::SRCH) {
            return None;
        }
        self.kin.rescan();
        let leftovers: Vec<Process> = self.kin.reachable().collect();
        (!leftovers.is_empty()).then_some(leftovers)
    }

    /// Kills the child and all processes that end with it.
    pub(crate) fn kill(&mut self) {
        self.signal(Signal::KILL);
    }

    fn signal(&mut self, signal: Signal) {
        match self.group {
            Group::Own => {
                // Stop all processes first: kilter cannot attribute the orphans of a parent that has ended.
                self.kin.stop();
                self.kin.signal(signal);
            }
            // The child may have ended already, or belong to another user. The caller checks later if it has ended.
            Group::Inherited => drop(kill_process(self.pid(), signal)),
        }
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

    /// Waits for the child, then for the others. Returns true if all have ended in time.
    fn until_gone(&mut self, until: Instant, cancel: Option<Cancel<'_>>) -> io::Result<bool> {
        if !self.until_exit(until, cancel)? {
            return Ok(false);
        }
        while self.group == Group::Own && self.may_others_run() {
            if Instant::now() >= until || cancel.is_some_and(|cancel| cancel.is_urgent()) {
                return Ok(false);
            }
            self.sleep(POLL);
        }
        Ok(true)
    }
    fn may_others_run(&mut self) -> bool {
        self.kin.rescan();
        self.kin.may_run()
    }
}
