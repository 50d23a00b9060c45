//! Properties that must hold whenever all commands have been carried out.

use kilter_engine::{Disposition, ResourceId, Timestamp};

use super::Driver;
use crate::held::SeededBug;
use crate::properties::{Property, Violation, ensure};

impl Driver<'_> {
    /// Returns the time since which the machine reports itself as quiet.
    pub(super) fn quiet_since(&self) -> Option<Timestamp> {
        let claimed = (self.persistent.fault == Some(SeededBug::ClaimsRest)).then_some(self.now);
        claimed.or(self.machine.quiet_since())
    }

    pub(super) fn between(&mut self) -> Result<(), Violation> {
        if self.interrupted {
            return Ok(());
        }
        self.what_failed_comes_back()?;
        self.rests_when_it_says_so()?;
        self.every_lost_watch_is_begun_anew()?;
        if self.paused { Ok(()) } else { self.nothing_ready_is_held_back() }
    }

    /// Checks that a quiet machine has no call in flight, waits for nothing, and was last active before the reported
    /// time.
    fn rests_when_it_says_so(&self) -> Result<(), Violation> {
        let Some(since) = self.quiet_since() else { return Ok(()) };
        let problem = match self.flights.iter().find(|flight| !flight.is_orphan) {
            Some(flight) => format!("{:?} of part {} is under way", flight.act, flight.part),
            None if self.paused => "everything is paused".to_owned(),
            None if !self.watch_all() => "a watch has yet to start".to_owned(),
            None if since < self.active => format!("since {}, and something was done at {}", since.0, self.active.0),
            None => return Ok(()),
        };
        Err(Violation::of(Property::Rests, problem))
    }

    /// Checks that a lost watch is restarted as soon as its vertex has no call in flight, also during a pause.
    fn every_lost_watch_is_begun_anew(&self) -> Result<(), Violation> {
        for vertex in self.graph.graph.vertices() {
            let part = self.part(vertex);
            let seen = &self.seen[&part];
            let is_due = !seen.watches && !seen.asked && !self.flies(part);
            ensure(!is_due, Property::Watched, vertex, || "its watch is not begun anew".into())?;
        }
        Ok(())
    }

    /// Checks that each failed vertex has a timer for a retry.
    fn what_failed_comes_back(&self) -> Result<(), Violation> {
        let has_failed = |vertex: &ResourceId| self.machine.settlement(*vertex) == Some(Disposition::Failed);
        for vertex in self.graph.graph.vertices().filter(has_failed) {
            let part = self.part(vertex);
            let comes = self.wakes.iter().any(|(_, known)| *known == part);
            ensure(comes, Property::Begins, vertex, || "it has failed, and is left so".into())?;
        }
        Ok(())
    }

    /// Checks that each vertex whose watch, timer and parents allow it has started, or has settled because of a
    /// failed parent. Vertices with semaphores may have to wait.
    fn nothing_ready_is_held_back(&self) -> Result<(), Violation> {
        // A vertex that never settled under its current declaration has not settled, even if the machine reports it.
        let has_settled = |vertex: &ResourceId| {
            self.machine.settlement(*vertex).is_some() && self.seen[&self.part(*vertex)].settlement.is_some()
        };
        for vertex in self.graph.graph.vertices().filter(|vertex| !has_settled(vertex)) {
            let part = self.part(vertex);
            let waits = self.flies(part)
                || !self.seen[&part].watches
                || self.wakes.iter().any(|(_, known)| *known == part)
                || self.persistent.site.semaphores.get(&part).is_some_and(|ids| !ids.is_empty())
                || self.graph.parents(vertex).any(|parent| self.machine.settlement(parent).is_none());
            ensure(waits, Property::Begins, vertex, || "it is ready and was not handed over".into())?;
        }
        Ok(())
    }

    /// Returns true if the current vertex of a part has a call in flight.
    pub(super) fn flies(&self, part: u32) -> bool {
        self.flights.iter().any(|flight| flight.part == part && !flight.is_orphan)
    }
}
