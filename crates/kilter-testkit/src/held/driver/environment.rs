//! Disturbances around a machine: drift, events, watches, timers and graph swaps.

use std::collections::BTreeSet;
use std::sync::Arc;

use kilter_engine::{ChangedVertex, Command, Disposition, GraphDiff, Input, ResourceId, Stage};

use super::{CallInFlight, Driver, owed, watches};
use crate::held::SeededBug;
use crate::held::limits::RepairWindow;
use crate::held::site::{GraphVersion, Site};
use crate::observed::Act;
use crate::properties::{Property, Violation, ensure};

impl Driver<'_> {
    /// Changes a part from outside, or brings it in sync.
    pub(super) fn drift(&mut self) {
        let rng = &mut self.persistent.rng;
        let part = rng.u32(..self.persistent.site.parts());
        match rng.u32(..4) {
            0 => self.persistent.system.repair(ResourceId::first(part)),
            _ => self.persistent.system.drift(ResourceId::first(part)),
        }
        if self.persistent.fault != Some(SeededBug::LosesEvents) {
            self.untold.insert(part);
        }
    }

    /// Delivers an event.
    pub(super) fn deliver_event(&mut self) -> Result<(), Violation> {
        let parts: Vec<u32> = self.untold.iter().copied().collect();
        let Some(part) = self.persistent.rng.choice(parts) else { return Ok(()) };
        let flies = self.flights.iter().any(|flight| flight.part == part && flight.is_orphan);
        if flies {
            return Ok(());
        }
        self.untold.remove(&part);
        let Some(vertex) = self.graph.vertex_of(part) else { return Ok(()) };
        self.persistent.tick += 1;
        let tick = self.persistent.tick;
        let is_worked_on = self.flights.iter().any(|flight| flight.part == part);
        let has_failed = self.machine.settlement(vertex) == Some(Disposition::Failed);
        let seen = self.seen_of(part);
        if !seen.watches {
            // The part is checked when its watch starts.
            return Ok(());
        }
        seen.told = tick;
        seen.differs = false;
        seen.stirred = true;
        seen.left_alone.had_event |= has_failed;
        let is_settled = self.machine.settlement(vertex).is_some();
        match self.persistent.fault {
            Some(SeededBug::SwallowsEvents) if is_worked_on => return Ok(()),
            Some(SeededBug::HearsLate) if is_settled => return Ok(()),
            Some(SeededBug::WakesDependants) => {
                let children: Vec<ResourceId> = self.graph.graph.children(vertex).collect();
                children.into_iter().for_each(|child| self.give(Input::Stale(child)));
            }
            _ => {}
        }
        self.outdate(part);
        self.give_counted(vertex, Input::Stale(vertex), |_| true)
    }

    /// Gives an input that may restart a settled vertex, and counts the restart against its limit.
    fn give_counted(
        &mut self,
        vertex: ResourceId,
        input: Input,
        counts: impl FnOnce(Disposition) -> bool,
    ) -> Result<(), Violation> {
        let before = self.machine.settlement(vertex);
        let is_late = matches!(input, Input::TimerFired(_));
        self.give(input);
        let is_taken_up = before.is_some_and(counts) && self.machine.settlement(vertex).is_none();
        if !is_taken_up {
            return Ok(());
        }
        let part = self.part(vertex);
        let (now, limit) = (self.now, self.persistent.site.limits.get(&part).copied());
        let most = self.seen_of(part).heeded.count(now, limit, is_late);
        ensure(most.is_none(), Property::Limits, vertex, || format!("of {most:?} events by now one more is heeded"))
    }

    pub(super) fn wake(&mut self) -> Result<(), Violation> {
        if self.flights.is_empty() && !self.wakes.iter().any(|(at, _)| *at <= self.now) {
            self.now = self.wakes.iter().map(|(at, _)| *at).min().unwrap_or(self.now).max(self.now);
        }
        let Some(at) = self.wakes.iter().position(|(at, _)| *at <= self.now) else { return Ok(()) };
        let (_, part) = self.wakes.swap_remove(at);
        let Some(vertex) = self.graph.vertex_of(part) else { return Ok(()) };
        // A contested part is repaired when its interval has passed.
        let (now, is_left) = (self.now, self.machine.settlement(vertex) == Some(Disposition::WouldChange));
        let seen = self.seen_of(part);
        let is_repaired = is_left && seen.repairs.contest.is_some_and(|contest| now >= contest.next);
        seen.stirred |= is_repaired;
        // A failed part may retry without an event, like a contested part.
        self.give_counted(vertex, Input::TimerFired(vertex), |settlement| {
            settlement != Disposition::Failed && !is_repaired
        })
    }

    /// Starts a requested watch, but not before the calls of the replaced vertex have ended.
    pub(super) fn watch(&mut self) {
        let late: Vec<u32> =
            self.seen.iter().filter(|(_, seen)| !seen.watches && seen.asked).map(|(part, _)| *part).collect();
        let Some(part) = self.persistent.rng.choice(late) else { return };
        if self.flights.iter().any(|flight| flight.part == part) {
            return;
        }
        let Some(vertex) = self.graph.vertex_of(part) else { return };
        let watches = self.persistent.fault != Some(SeededBug::WatchesTooLate);
        let seen = self.seen_of(part);
        seen.watches = watches;
        seen.stirred = true;
        seen.left_alone.until = None;
        self.give(Input::WatchEstablished(vertex));
    }

    pub(super) fn watch_all(&self) -> bool {
        self.seen.values().all(|seen| seen.watches)
    }

    /// Ends a watch.
    pub(super) fn unwatch(&mut self) -> Result<(), Violation> {
        let on: Vec<u32> = self.seen.iter().filter(|(_, seen)| seen.watches).map(|(part, _)| *part).collect();
        let on = on.into_iter().filter(|part| self.persistent.site.is_watched[*part as usize]);
        let Some(part) = self.persistent.rng.choice(on.collect::<Vec<_>>()) else { return Ok(()) };
        let Some(vertex) = self.graph.vertex_of(part) else { return Ok(()) };
        let seen = self.seen_of(part);
        seen.watches = false;
        seen.asked = false;
        seen.differs = false;
        self.outdate(part);
        self.give(Input::WatchLost(vertex));
        match self.persistent.fault {
            Some(SeededBug::WatchesBeside) => self.carry_out(Command::Watch(vertex)),
            _ => Ok(()),
        }
    }

    pub(super) fn toggle(&mut self) {
        self.paused = !self.paused;
        if self.persistent.fault == Some(SeededBug::IgnoresPause) {
            return;
        }
        self.give(if self.paused { Input::Pause } else { Input::Resume });
        if self.paused {
            self.return_some();
        } else {
            self.look_again_at_what_is_about_to_be_done();
        }
    }

    /// Returns some calls that had not started at a pause.
    fn return_some(&mut self) {
        self.take_back(|act| act != Act::Check);
    }

    /// Returns some of these calls, which no worker has started.
    fn take_back(&mut self, is_meant: impl Fn(Act) -> bool) {
        for at in (0..self.flights.len()).rev() {
            let CallInFlight { part, vertex, act, heard, is_orphan, looked, .. } = self.flights[at];
            if !is_meant(act) || heard.is_some() || is_orphan || self.persistent.rng.bool() {
                continue;
            }
            self.flights.swap_remove(at);
            let seen = self.seen_of(part);
            seen.looked = looked;
            seen.outdated = false;
            // The part has not been checked since whatever the check was for.
            seen.stirred |= act == Act::Check;
            if self.persistent.fault != Some(SeededBug::LosesReturned) {
                self.give(Input::Requeued(vertex));
            }
        }
    }

    /// Starts nothing new before an edit, and returns calls that no worker has started. Returns true if the run was
    /// paused already.
    fn pause_for_edit(&mut self) -> Result<bool, Violation> {
        let was_paused = std::mem::replace(&mut self.paused, true);
        if self.persistent.fault != Some(SeededBug::IgnoresPause) {
            self.give(Input::Pause);
        }
        self.take_back(|_| true);
        // The commands are for the graph before the edit.
        self.obey()?;
        Ok(was_paused)
    }

    /// Starts work again after an edit, unless the run is paused.
    fn go_on(&mut self, is_paused: bool) {
        self.paused = is_paused;
        if !is_paused {
            self.give(Input::Resume);
        }
    }

    /// Checks that a vertex has this call in flight according to the machine.
    pub(super) fn is_in_flight(&self, vertex: ResourceId, act: Act) -> Result<(), Violation> {
        let stage = self.machine.stage(vertex);
        let is_awaited = match act {
            Act::Check => stage == Stage::Checking,
            Act::Apply => stage == Stage::Changing,
            Act::Refresh => stage == Stage::Refreshing,
        };
        ensure(is_awaited, Property::Answers, vertex, || format!("{act:?} ends, and the machine knows it as {stage:?}"))
    }

    /// Gives the answer to a call whose vertex was removed or changed, which must change no vertex.
    pub(super) fn answer_orphan(&mut self, flight: CallInFlight, input: Input) -> Result<(), Violation> {
        let stages = |driver: &Self| -> Vec<(ResourceId, Stage)> {
            driver.graph.graph.vertices().map(|vertex| (vertex, driver.machine.stage(vertex))).collect()
        };
        let newcomer =
            self.graph.vertex_of(flight.part).filter(|_| self.persistent.fault == Some(SeededBug::AnswersNewcomer));
        let of = newcomer.unwrap_or(flight.vertex);
        let input = match input {
            Input::Checked(_, verdict) => Input::Checked(of, verdict),
            Input::Applied(_, ran) => Input::Applied(of, ran),
            Input::Refreshed(_, done) => Input::Refreshed(of, done),
            input => input,
        };
        if self.graph.graph.contains(of) {
            self.is_in_flight(of, flight.act)?;
        }
        let before = stages(self);
        self.give(input);
        for ((vertex, before), (_, after)) in before.into_iter().zip(stages(self)) {
            // The call may have held the semaphore that a ready vertex waits for.
            let is_kept = before == after || matches!(before, Stage::Parked { .. });
            let what = || format!("it was {before:?}, and is {after:?} by an answer for {:?}", flight.vertex);
            ensure(is_kept, Property::Answers, vertex, what)?;
        }
        Ok(())
    }

    /// Invalidates the results of earlier checks, because the system may have changed during the pause.
    fn look_again_at_what_is_about_to_be_done(&mut self) {
        for vertex in self.graph.graph.order().to_vec() {
            let part = self.part(vertex);
            if matches!(self.machine.stage(vertex), Stage::Ready | Stage::Owed) && !self.flies(part) {
                self.seen_of(part).differs = false;
                self.give(Input::Stale(vertex));
            }
        }
    }

    pub(super) fn reinstate(&mut self) {
        let is_meant = |v: &ResourceId| self.machine.is_watched_only(*v) || self.machine.contest(*v).is_some();
        let all: Vec<ResourceId> = self.graph.graph.vertices().filter(is_meant).collect();
        let Some(vertex) = self.persistent.rng.choice(all) else { return };
        let part = self.part(vertex);
        // A call in flight continues and causes no additional check. A contested part that is in sync stays so.
        let is_left = self.machine.settlement(vertex) == Some(Disposition::WouldChange);
        let is_checked = !self.flies(part) && (is_left || self.machine.is_watched_only(vertex));
        let seen = self.seen_of(part);
        seen.repairs = RepairWindow::default();
        seen.stirred |= is_checked;
        self.give(Input::ResetBudget(vertex));
    }

    /// Marks calls as outdated if a parent of their vertex has not settled in this graph.
    fn outdate_behind_others(&mut self) {
        let passes = |parent| self.machine.settlement(parent).is_some_and(Disposition::unblocks_dependents);
        let behind = self.graph.graph.vertices().filter(|vertex| !self.graph.parents(*vertex).all(passes));
        let behind: Vec<u32> = behind.map(|vertex| self.part(vertex)).collect();
        behind.into_iter().for_each(|part| self.outdate(part));
    }

    /// Replaces the graph.
    pub(super) fn swap(&mut self, is_whole: bool) -> Result<(), Violation> {
        let was_paused = self.pause_for_edit()?;
        // In the other graph, the parent may be missing.
        self.outdate_behind_others();
        let persistent = &mut *self.persistent;
        persistent.site.edit(&mut persistent.rng);
        let new = persistent.site.incarnate(&mut persistent.rng, is_whole);
        let blindly = persistent.fault == Some(SeededBug::SwapsBlindly);
        // The vertex that stays the same, by place.
        let kept: Vec<Option<ResourceId>> = (0..new.part_of.len())
            .map(|at| {
                let old = self.graph.vertex_of(new.part_of[at])?;
                (self.graph.version[self.graph.graph.place(old)] == new.version[at] && !blindly).then_some(old)
            })
            .collect();
        // The vertex that the machine is told to keep.
        let whole = persistent.fault == Some(SeededBug::SwapsWhole);
        let is_under_way = |old: &ResourceId| self.flights.iter().any(|flight| flight.vertex == *old);
        let mut told: Vec<Option<ResourceId>> =
            kept.iter().map(|old| old.filter(|old| !whole || is_under_way(old))).collect();
        if persistent.fault == Some(SeededBug::KeepsFailed) {
            for (told, part) in told.iter_mut().zip(&new.part_of) {
                let old = self.graph.vertex_of(*part);
                *told = told.or(old.filter(|old| self.machine.settlement(*old) == Some(Disposition::Failed)));
            }
        }
        let removed: Vec<ResourceId> =
            self.graph.graph.vertices().filter(|old| new.vertex_of(self.graph.part(*old)).is_none()).collect();
        removed.iter().for_each(|old| self.ids.remove(*old));
        let (mut added, mut changed) = (Vec::new(), Vec::new());
        let mut inheriting: BTreeSet<u32> = BTreeSet::new();
        let described = Site::vertices_for_machine(&new, persistent.fault);
        let mut ids = Vec::with_capacity(told.len());
        for (((told, kept), part), vertex) in told.iter().zip(&kept).zip(&new.part_of).zip(described) {
            ids.push(match (told, self.graph.vertex_of(*part)) {
                (Some(kept), _) => *kept,
                (None, Some(before)) => {
                    if kept.is_none() && persistent.rng.bool() {
                        inheriting.insert(*part);
                    }
                    let inherits_retries =
                        inheriting.contains(part) && persistent.fault != Some(SeededBug::RestoresRetries);
                    changed.push(ChangedVertex { before, vertex, inherits_retries });
                    self.ids.change(before)
                }
                (None, None) => {
                    let id = self.ids.add();
                    let former = self.flights.iter().map(|flight| flight.vertex).find(|old| old.slot() == id.slot());
                    let reused = former.filter(|_| persistent.fault == Some(SeededBug::ReusesIds));
                    let id = reused.unwrap_or(id);
                    added.push((id, vertex));
                    id
                }
            });
        }
        let new = GraphVersion { graph: new.graph.with_ids(ids), ..new };
        let (mut seen, mut unwatched) = watches(&persistent.site, &new);
        for ((old, part), vertex) in kept.iter().zip(&new.part_of).zip(new.graph.vertices()) {
            match (old, self.seen.get(part)) {
                (Some(_), Some(known)) => {
                    unwatched.remove(&vertex);
                    seen.insert(*part, known.clone());
                }
                (_, known) => {
                    if let Some(known) = known.filter(|_| inheriting.contains(part)) {
                        let tries = known.tries.carried_over(new.described(vertex).retry);
                        seen.entry(*part).or_default().tries = tries;
                    }
                    let flies = self.flights.iter().any(|flight| flight.part == *part);
                    if flies && !blindly {
                        // The watch starts when the earlier calls have ended.
                        unwatched.insert(vertex);
                        seen.entry(*part).or_default().watches = false;
                    }
                }
            }
        }
        let is_kept = |part: u32| new.vertex_of(part).is_some_and(|vertex| kept[new.graph.place(vertex)].is_some());
        for flight in &mut self.flights {
            flight.is_orphan |= !is_kept(flight.part);
        }
        let orphans = || self.flights.iter().filter(|flight| flight.is_orphan).map(|flight| flight.vertex);
        if let Some(id) = orphans().find(|id| new.graph.contains(*id)) {
            let what = "it is the id of a removed vertex, whose call is in flight";
            return Err(Violation::at(Property::Answers, id, what));
        }
        self.wakes.retain(|(_, part)| is_kept(*part));
        self.graph = new;
        self.seen = seen;
        let news: BTreeSet<ResourceId> =
            added.iter().map(|(id, _)| *id).chain(changed.iter().map(|changed| changed.before.next())).collect();
        let mut holding = self.persistent.site.holding(&self.graph, unwatched, self.persistent.fault);
        holding.limits.retain(|vertex, _| news.contains(vertex));
        for set in [&mut holding.retry_reset, &mut holding.exempt_from_budget, &mut holding.yielding] {
            set.retain(|vertex| news.contains(vertex));
        }
        let mut semaphores = self.persistent.site.shared(&self.graph, self.persistent.fault);
        semaphores.of.retain(|vertex, _| news.contains(vertex));
        let owed = owed(&self.persistent.journal, &self.graph);
        let edges = Arc::new(self.graph.graph.clone());
        self.give(Input::Edit(GraphDiff { added, changed, removed, edges, holding, semaphores, owed }.into()));
        self.outdate_behind_others();
        if self.persistent.fault == Some(SeededBug::FreesEarly) {
            let gone = self.flights.iter_mut().filter(|flight| flight.is_orphan && !flight.is_answered);
            let gone: Vec<ResourceId> = gone
                .map(|flight| {
                    flight.is_answered = true;
                    flight.vertex
                })
                .collect();
            gone.into_iter().for_each(|vertex| self.give(Input::Cancelled(vertex)));
        }
        self.go_on(was_paused);
        if is_whole && self.paused {
            self.toggle();
        }
        self.obey()
    }
}
