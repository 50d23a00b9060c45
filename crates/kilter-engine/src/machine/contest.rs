//! Contested vertices: another program undoes their repairs and so uses up the repair budget. The machine repairs
//! them at growing intervals.

use super::limits::{RepairBudget, RepairWindow};
use super::{Command, Machine, Timestamp};
use crate::resource_id::ResourceId;
use crate::vertex::{Disposition, Phase};

/// State of a contested vertex.
///
/// The contest ends when the vertex stays in its state for one whole interval after it may be repaired again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contest {
    /// Number of repairs, including those that used up the budget.
    pub repairs: u32,
    /// Time at which the budget was used up.
    pub since: Timestamp,
    /// Time before which the vertex is not repaired.
    pub next: Timestamp,
    /// Milliseconds between the last repair and `next`.
    interval: u64,
    /// Time of the last timer that the machine requested from the driver.
    wake: Option<Timestamp>,
}

impl Contest {
    fn begun(repairs: u32, now: Timestamp, RepairBudget { first, longest, .. }: RepairBudget) -> Contest {
        let interval = first.min(longest);
        Contest { repairs, since: now, next: later(now, interval), interval, wake: None }
    }

    /// Counts another repair and doubles the interval before the next one.
    fn goes_on(&mut self, now: Timestamp, RepairBudget { longest, .. }: RepairBudget) {
        self.repairs = self.repairs.saturating_add(1);
        self.interval = self.interval.saturating_mul(2).min(longest);
        self.next = later(now, self.interval);
    }

    /// Returns the time at which the contest ends if the vertex stays in its state.
    fn end(&self) -> Timestamp {
        later(self.next, self.interval)
    }

    /// Returns the time at which a settled vertex must be handled again.
    fn due(&self, settlement: Disposition) -> Option<Timestamp> {
        match settlement {
            Disposition::WouldChange => Some(self.next),
            Disposition::InSync | Disposition::Changed | Disposition::Refreshed | Disposition::WouldRefresh => {
                Some(self.end())
            }
            Disposition::Unknown | Disposition::Failed | Disposition::Blocked(_) | Disposition::Interrupted => None,
        }
    }
}

fn later(at: Timestamp, milliseconds: u64) -> Timestamp {
    Timestamp(at.0.saturating_add(milliseconds))
}

impl Machine {
    /// Returns the contest over a vertex if another program undoes its repairs.
    pub fn contest(&self, vertex: ResourceId) -> Option<Contest> {
        self.hold.as_ref()?.contests.get(&vertex).copied()
    }

    /// Number of contested vertices.
    pub fn contested(&self) -> usize {
        self.hold.as_ref().map_or(0, |hold| hold.contests.len())
    }

    /// Number of vertices that are only watched because they used up their repair budget.
    pub fn watched_only(&self) -> usize {
        self.hold.as_ref().map_or(0, |hold| hold.watched_only.len())
    }

    /// Returns true if a vertex is contested and its next repair must wait.
    pub(super) fn is_held_off(&self, vertex: ResourceId) -> bool {
        let now = self.now;
        self.hold.as_ref().and_then(|hold| hold.contests.get(&vertex)).is_some_and(|contest| now < contest.next)
    }

    /// Counts a repair. A vertex that is repaired too often is contested, or demoted if that is its policy.
    pub(super) fn repaired(&mut self, vertex: ResourceId) {
        let now = self.now;
        let Some(hold) = self.hold.as_mut().filter(|hold| !hold.settings.exempt_from_budget.contains(&vertex)) else {
            return;
        };
        let budget = hold.settings.budget;
        match hold.contests.get_mut(&vertex) {
            Some(contest) if now < contest.end() => {
                contest.goes_on(now, budget);
                return self.commands.push(Command::Contested(vertex));
            }
            Some(_) => {
                hold.contests.remove(&vertex);
                self.commands.push(Command::Uncontested(vertex));
            }
            None => {}
        }
        let times = hold.repairs.entry(vertex);
        let times = times.and_modify(|times| times.add(now, budget.within)).or_insert(RepairWindow::Once(now));
        let count = times.count();
        if count <= budget.repairs as usize {
            return;
        }
        hold.repairs.remove(&vertex);
        if hold.settings.yielding.contains(&vertex) {
            hold.watched_only.insert(vertex);
            self.commands.push(Command::Demoted(vertex));
        } else {
            let count = u32::try_from(count).unwrap_or(u32::MAX);
            hold.contests.insert(vertex, Contest::begun(count, now, budget));
            self.commands.push(Command::Contested(vertex));
        }
    }

    /// Sets the timer of a contested vertex that has settled: for its next repair, or for the end of the
    /// contest.
    pub(super) fn wake_contested(&mut self, vertex: ResourceId, settlement: Disposition) {
        let now = self.now;
        let Some(hold) = self.hold.as_mut().filter(|_| !self.interrupted) else { return };
        let Some(contest) = hold.contests.get_mut(&vertex) else { return };
        let Some(at) = contest.due(settlement) else { return };
        hold.due.insert(vertex, at);
        // The machine requests each timer once, even if the vertex is checked often until then. A timer in the
        // past has already fired.
        if contest.wake.replace(at) != Some(at) || at <= now {
            self.commands.push(Command::SetTimer(vertex, at));
        }
    }

    /// Handles the timer of a contested vertex: repairs the vertex, or ends the contest.
    pub(super) fn contest_due(&mut self, vertex: ResourceId) {
        let now = self.now;
        let Phase::Settled(settlement) = self.progress[vertex.slot()].phase else { return };
        let Some(hold) = self.hold.as_mut() else { return };
        let Some(contest) = hold.contests.get_mut(&vertex) else { return };
        contest.wake = None;
        if settlement == Disposition::WouldChange {
            self.requeue(vertex);
        } else if settlement.unblocks_dependents() && now >= contest.end() {
            hold.contests.remove(&vertex);
            self.commands.push(Command::Uncontested(vertex));
        }
    }

    /// Resets the repair budget of a vertex, and repairs it again if it was contested or demoted.
    pub(super) fn reinstate(&mut self, vertex: ResourceId) {
        let Some(hold) = &mut self.hold else { return };
        hold.repairs.remove(&vertex);
        let is_contested = hold.contests.remove(&vertex).is_some();
        let is_demoted = hold.watched_only.remove(&vertex);
        if is_contested {
            self.commands.push(Command::Uncontested(vertex));
        }
        if let Phase::Settled(settlement) = self.progress[vertex.slot()].phase
            && (is_demoted || is_contested && settlement == Disposition::WouldChange)
        {
            self.on_event(vertex, settlement);
        }
    }
}
