//! The end of a child that has to end.

use std::io;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Signal, kill_process, test_kill_process, test_kill_process_group};

use crate::invocation::Group;
use crate::kin::Process;
use crate::run::Cancel;
use crate::running::Running;

/// How long a killed process may take to be gone.
const KILLED: Duration = Duration::from_secs(10);

/// How often it is looked whether there is still any grace.
const GLANCE: Duration = Duration::from_millis(50);

/// How often it is looked whether the others are gone.
const LOOK: Duration = Duration::from_millis(10);

impl Running<'_> {
    /// Ends the child and, where it has a process group of its own, that group and what descends from it: its signal,
    /// then SIGKILL when its grace is over, or when `cancel` says that there is no more. Returns whether the child has ended.
    ///
    /// The child is not waited for before the last signal is sent: as long as it is a zombie, its
    /// number, which is that of the group, cannot come to name somebody else.
    pub(crate) fn stop(&mut self, cancel: Option<Cancel<'_>>) -> io::Result<bool> {
        self.signal(self.invocation.stop_signal.raw());
        // What is stopped (by reading from a terminal, say) cannot act on the signal.
        match self.group {
            Group::Own => self.kin.thaw(),
            Group::Inherited => drop(kill_process(self.pid(), Signal::CONT)),
        }
        let mut ended = self.until_gone(Instant::now() + self.invocation.grace, cancel)?;
        if !ended {
            self.kill();
            let until = Instant::now() + KILLED;
            ended = self.until_exit(until, None)?;
            // Others may be stuck in the kernel, with the signal waiting for them: nothing is left to do.
            while self.group == Group::Own && self.is_any_reachable() && Instant::now() < until {
                std::thread::sleep(LOOK);
            }
        }
        self.over = !ended;
        Ok(ended)
    }

    fn is_any_reachable(&mut self) -> bool {
        self.kin.look();
        self.kin.reachable().next().is_some()
    }

    /// Ends what is left of the group of a child that has been waited for.
    ///
    /// The number of the group cannot come to name another one while it has a member, but the last member may go
    /// at any time. Signals are hence sent to members, through descriptors that name them and nobody else.
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
                        // What is stopped cannot act on a signal.
                        leftover.send(Signal::CONT);
                        told.push(leftover);
                    }
                }
                if Instant::now() >= until {
                    break;
                }
                self.rest(LOOK);
            }
        }
    }

    /// Who is left of a child that has been waited for; none if nobody is.
    fn leftovers(&mut self) -> Option<Vec<Process>> {
        // A leader that is there is another one: its group only has the number.
        if test_kill_process(self.pid()) != Err(Errno::SRCH) {
            return None;
        }
        self.kin.look();
        let leftovers: Vec<Process> = self.kin.reachable().collect();
        (!leftovers.is_empty()).then_some(leftovers)
    }

    /// Kills the child and all that ends with it.
    pub(crate) fn kill(&mut self) {
        self.signal(Signal::KILL);
    }

    fn signal(&mut self, signal: Signal) {
        match self.group {
            Group::Own => {
                // What a parent leaves behind when it ends is not known to be its own any more.
                self.kin.freeze();
                self.kin.signal(signal);
            }
            // It may be gone already, or belong to another user: whether it ends is what counts.
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

    /// Waits for the child, then for the others; says whether all are gone in time.
    fn until_gone(&mut self, until: Instant, cancel: Option<Cancel<'_>>) -> io::Result<bool> {
        if !self.until_exit(until, cancel)? {
            return Ok(false);
        }
        while self.group == Group::Own && self.may_others_run() {
            if Instant::now() >= until || cancel.is_some_and(|cancel| cancel.is_urgent()) {
                return Ok(false);
            }
            self.rest(LOOK);
        }
        Ok(true)
    }
    fn may_others_run(&mut self) -> bool {
        self.kin.look();
        self.kin.may_run()
    }
}
