//! Carries out commands and checks the properties that must hold when a call starts.

use kilter_engine::{Batch, Command, Disposition, Input, RefreshToken, ResourceId};

use super::{CallAnswer, CallInFlight, Driver, owed};
use crate::held::SeededBug;
use crate::held::limits::Tries;
use crate::journal::Record;
use crate::mutant::{split, swap_batches};
use crate::observed::Act;
use crate::properties::{Property, Violation, ensure, order};
use crate::stream::command_hash;
use crate::system::ApplyAnswer;

impl Driver<'_> {
    pub(super) fn obey(&mut self) -> Result<(), Violation> {
        let mut rounds = 0;
        loop {
            let mut commands = self.machine.commands();
            self.distort(&mut commands);
            if commands.is_empty() {
                return self.between();
            }
            let graph = &self.graph;
            order::batches_are_whole(&commands, |vertex| graph.described(vertex))?;
            rounds += 1;
            if rounds > 100_000 {
                return Err(Violation::of(Property::Ending, "the machine commands without end"));
            }
            for command in commands {
                command_hash(&mut self.persistent.stream, &command);
                self.persistent.counts.commands += 1;
                self.persistent.tick += 1;
                self.persistent.journal.rely();
                self.carry_out(command)?;
            }
        }
    }

    /// Applies the bug to the commands.
    fn distort(&self, commands: &mut Vec<Command>) {
        match self.persistent.fault {
            Some(SeededBug::Wavers) => swap_batches(commands),
            Some(SeededBug::SwapsLate) if self.flights.iter().any(|flight| flight.is_orphan) => {
                commands.retain(|command| !matches!(command, Command::Check(_)));
            }
            Some(SeededBug::BlamesWrong) => {
                for command in commands.iter_mut() {
                    if let Command::Settled(vertex, Disposition::Blocked(by)) = command {
                        *by = *vertex;
                    }
                }
            }
            Some(SeededBug::SplitsBatches) => {
                let parts = |command| match command {
                    Command::Check(batch) => split(batch).into_iter().map(Command::Check).collect(),
                    command => vec![command],
                };
                *commands = std::mem::take(commands).into_iter().flat_map(parts).collect();
            }
            _ => {}
        }
    }

    pub(super) fn carry_out(&mut self, command: Command) -> Result<(), Violation> {
        match command {
            Command::JournalRefresh(_) if self.persistent.fault == Some(SeededBug::OwesNothing) => {}
            Command::JournalRefresh(tokens) if self.is_full(&tokens) => self.cannot_record(&tokens),
            Command::JournalRefresh(tokens) => self.persistent.journal.write(Record::Owe(self.of_parts(&tokens))),
            Command::ClearRefresh(tokens) => self.clear_refreshes(&tokens)?,
            Command::Check(batch) => self.take_off(Act::Check, batch)?,
            Command::Apply(batch) => self.take_off(Act::Apply, batch)?,
            Command::Refresh(batch) => self.take_off(Act::Refresh, batch)?,
            Command::SetTimer(vertex, _)
                if self.persistent.fault == Some(SeededBug::ForgetsWakes)
                    && self.machine.settlement(vertex) == Some(Disposition::Failed) => {}
            Command::SetTimer(vertex, _)
                if self.persistent.fault == Some(SeededBug::ForgetsContests)
                    && self.machine.settlement(vertex) == Some(Disposition::WouldChange) => {}
            Command::SetTimer(vertex, at) => self.wakes.push((at, self.part(vertex))),
            Command::Settled(vertex, settlement) => self.settled(vertex, settlement)?,
            Command::Watch(_) if self.paused && self.persistent.fault == Some(SeededBug::WatchesNotWhilePaused) => {}
            Command::Watch(vertex) => {
                let part = self.part(vertex);
                self.seen_of(part).asked = true;
                let flying = self.flights.iter().any(|flight| flight.part == self.part(vertex) && !flight.is_orphan);
                ensure(!flying, Property::Watched, vertex, || "its watch starts while it is worked on".into())?;
            }
            Command::Demoted(vertex) | Command::Contested(vertex)
                if self.persistent.fault == Some(SeededBug::NeverTires) =>
            {
                let part = self.part(vertex);
                self.seen_of(part).stirred = true;
                self.give(Input::ResetBudget(vertex));
            }
            Command::Contested(vertex) => self.contested(vertex)?,
            Command::Uncontested(vertex) => self.uncontested(vertex)?,
            Command::Demoted(vertex) => self.demoted(vertex)?,
        }
        Ok(())
    }

    /// Returns true if the journal is not writable now. It is always writable for a part with a call in flight.
    fn is_full(&mut self, tokens: &[RefreshToken]) -> bool {
        let may_be = !self.mended && !tokens.iter().any(|token| self.flies(self.part(token.first)));
        may_be && self.persistent.rng.u32(..30) == 0
    }

    /// Reports that the journal cannot be written.
    fn cannot_record(&mut self, tokens: &[RefreshToken]) {
        for token in tokens {
            self.unrecorded.insert(self.part(token.first));
            self.give(Input::Unrecorded(*token));
        }
    }

    /// Checks that a contested part has exceeded its budget.
    fn contested(&mut self, vertex: ResourceId) -> Result<(), Violation> {
        let (part, budget, now) = (self.part(vertex), self.persistent.site.budget, self.now);
        let may_be =
            !self.persistent.site.exempt_from_budget.contains(&part) && !self.persistent.site.yielding.contains(&part);
        ensure(may_be, Property::Limits, vertex, || "it has no budget, or yields, and is contested".to_owned())?;
        let repairs = &mut self.seen_of(part).repairs;
        let is_used_up = repairs.contest.is_some() || repairs.count() > budget.repairs;
        let what = || format!("it is contested after {} repairs in {} ms", repairs.count(), budget.within);
        ensure(is_used_up, Property::Limits, vertex, what)?;
        repairs.contend(now, budget);
        Ok(())
    }

    /// Checks that a contest ends only after one quiet interval, or after a reset.
    fn uncontested(&mut self, vertex: ResourceId) -> Result<(), Violation> {
        let (part, now) = (self.part(vertex), self.now);
        let contest = self.seen_of(part).repairs.contest;
        let is_over = contest.is_none_or(|contest| contest.is_over(now));
        ensure(is_over, Property::Limits, vertex, || format!("the contest ends at {now:?}, of {contest:?}"))?;
        self.seen_of(part).repairs.contest = None;
        Ok(())
    }

    /// Checks that a demoted part has exceeded its budget.
    fn demoted(&mut self, vertex: ResourceId) -> Result<(), Violation> {
        let (part, budget) = (self.part(vertex), self.persistent.site.budget);
        let is_exempt = self.persistent.site.exempt_from_budget.contains(&part);
        let may_be = !is_exempt && self.persistent.site.yielding.contains(&part);
        ensure(may_be, Property::Limits, vertex, || "it has no budget, or does not yield, and is given up".to_owned())?;
        let repairs = &mut self.seen_of(part).repairs;
        let what = || format!("it is given up behind {} repairs in {} ms", repairs.count(), budget.within);
        ensure(repairs.count() > budget.repairs, Property::Limits, vertex, what)?;
        repairs.is_watched_only = true;
        Ok(())
    }

    /// Checks that a blocked vertex names a failed vertex, which is one of its parents or is named by a parent.
    fn is_blocked_by(&self, vertex: ResourceId, by: ResourceId) -> Result<(), Violation> {
        let blamed = Some(self.part(by));
        let failed = self.seen[&self.part(by)].settlement;
        let is_failed = by != vertex && failed == Some(Disposition::Failed);
        ensure(is_failed, Property::Blocking, vertex, || format!("blocked by {}, which is {failed:?}", by.slot()))?;
        let comes = self.graph.parents(vertex).any(|parent| self.seen[&self.part(parent)].blames == blamed);
        ensure(comes, Property::Blocking, vertex, || format!("blocked by {}, which no parent is or names", by.slot()))
    }

    /// Checks that each parent has settled so that children may run, has no call in flight, and no event that the
    /// child must wait for.
    fn parents_pass(&self, act: Act, vertex: ResourceId) -> Result<(), Violation> {
        for parent in self.graph.parents(vertex) {
            let part = self.part(parent);
            let seen = &self.seen[&part];
            let is_put_off = self.persistent.site.limits.contains_key(&part);
            let passes = seen.rests && !self.flies(part) && (!seen.stirred || is_put_off);
            let settlement = seen.settlement;
            ensure(passes, Property::ParentsFirst, vertex, || {
                format!("{act:?}, and {} has come to {settlement:?}, or is to be looked at", parent.slot())
            })?;
        }
        Ok(())
    }

    pub(super) fn settled(&mut self, vertex: ResourceId, settlement: Disposition) -> Result<(), Violation> {
        if let Disposition::Blocked(by) = settlement {
            self.is_blocked_by(vertex, by)?;
        }
        let part = self.part(vertex);
        let blames = match settlement {
            Disposition::Failed => Some(part),
            Disposition::Blocked(by) => Some(self.part(by)),
            _ => None,
        };
        let retry = self.graph.described(vertex).retry;
        let is_forgiving = self.persistent.site.is_forgiving(part, None);
        // A vertex that was already out of sync causes no activity.
        let is_left = matches!(
            settlement,
            Disposition::WouldChange
                | Disposition::WouldRefresh
                | Disposition::Unknown
                | Disposition::Failed
                | Disposition::Blocked(_)
        );
        let is_known = is_left && self.seen_of(part).settlement == Some(settlement);
        if settlement != Disposition::InSync && !is_known {
            self.active = self.now;
        }
        let (now, backoff, interrupted) = (self.now, self.persistent.site.backoff, self.interrupted);
        let seen = self.seen_of(part);
        seen.settlement = Some(settlement);
        seen.blames = blames;
        seen.rests = settlement.unblocks_dependents();
        match settlement {
            Disposition::Failed => {
                let had_all = std::mem::take(&mut seen.tries.are_used_up) || interrupted;
                ensure(had_all, Property::Retries, vertex, || format!("it has failed, with {:?}", seen.tries))?;
                seen.left_alone.record_failure(now, backoff);
            }
            Disposition::Blocked(_) | Disposition::Interrupted => seen.left_alone.until = None,
            _ => {
                seen.left_alone.recovers();
                if is_forgiving {
                    seen.tries = Tries::of(retry);
                }
            }
        }
        let is_seen = seen.looked >= seen.told || !seen.rests || interrupted;
        ensure(is_seen, Property::Watched, vertex, || "it settles without a look behind the last event".into())?;
        self.outdate_children(vertex);
        if self.mended && matches!(settlement, Disposition::Failed | Disposition::Unknown) && !self.comes_back(part) {
            // The operation started before failures were switched off.
            self.untold.insert(part);
        }
        Ok(())
    }

    /// Records paid refreshes, and checks that they were pending.
    pub(super) fn clear_refreshes(&mut self, tokens: &[RefreshToken]) -> Result<(), Violation> {
        let tokens = self.of_parts(tokens);
        // A refresh whose sender no longer precedes the receiver is paid for the receiver alone.
        let orphaned = |token: &RefreshToken| token.first == token.second;
        let all: Vec<RefreshToken> = self.persistent.journal.owed();
        let paid = tokens.iter().flat_map(|token| {
            let part = |part: ResourceId| self.graph.vertex_of(part.slot() as u32);
            let to = token.second;
            let is_edge = |known: &RefreshToken| {
                part(known.first).zip(part(to)).is_some_and(|(a, b)| self.graph.graph.find(a, b).is_some())
            };
            let rest = all.iter().filter(move |known| known.second == to && !is_edge(known)).copied();
            let rest: Vec<RefreshToken> = if orphaned(token) { rest.collect() } else { vec![*token] };
            rest
        });
        let paid: Vec<RefreshToken> = paid.collect();
        for RefreshToken { first, second } in &paid {
            let Some(vertex) = self.graph.vertex_of(second.slot() as u32) else { continue };
            if !self.graph.described(vertex).refreshable {
                continue;
            }
            let system = &self.persistent.system;
            let (served, looked) = (system.served(*second), self.seen[&(second.slot() as u32)].looked);
            let what =
                || format!("it is paid what {} owes, and was not refreshed since it was looked at", first.slot());
            ensure(served > looked, Property::Refreshes, vertex, what)?;
            let is_served = self
                .persistent
                .notified
                .get(&(first.slot() as u32, second.slot() as u32))
                .is_none_or(|changed| *changed <= served);
            let what = || format!("it is paid what {} owes, and was not refreshed since that changed", first.slot());
            ensure(is_served, Property::Refreshes, vertex, what)?;
        }
        self.persistent.journal.write(Record::Paid(paid));
        Ok(())
    }

    pub(super) fn take_off(&mut self, act: Act, batch: Batch) -> Result<(), Violation> {
        for vertex in batch.vertices {
            self.begin(act, vertex)?;
            let part = self.part(vertex);
            if act != Act::Check
                && self.unrecorded.remove(&part)
                && self.persistent.fault != Some(SeededBug::ChangesUnrecorded)
            {
                // The call fails without a start.
                if let Some(flight) = self.flights.last_mut() {
                    flight.heard = Some(CallAnswer::Applied(ApplyAnswer::Failed));
                }
                continue;
            }
            match (self.persistent.fault, act) {
                (Some(SeededBug::PaysEarly), Act::Refresh) => {
                    let owed = owed(&self.persistent.journal, &self.graph);
                    self.clear_refreshes(&owed.into_iter().filter(|token| token.second == vertex).collect::<Vec<_>>())?;
                }
                (Some(SeededBug::StartsEarly), Act::Check) => {
                    let child = self.graph.graph.children(vertex).next();
                    child.map_or(Ok(()), |child| self.begin(act, child))?;
                }
                _ => {}
            }
            if self.persistent.rng.u32(..4) == 0 {
                self.happen(self.flights.len() - 1)?;
            }
        }
        Ok(())
    }

    pub(super) fn begin(&mut self, act: Act, vertex: ResourceId) -> Result<(), Violation> {
        let part = self.part(vertex);
        let tick = self.persistent.tick;
        ensure(!self.interrupted, Property::Entitled, vertex, || format!("{act:?} after an interrupt"))?;
        ensure(!self.paused, Property::Entitled, vertex, || format!("{act:?} while paused"))?;
        let flies = self.flights.iter().any(|flight| flight.part == part);
        ensure(!flies, Property::OneAtATime, vertex, || format!("{act:?} while something is under way"))?;
        ensure(self.seen_of(part).watches, Property::Watched, vertex, || format!("{act:?} before its watch"))?;
        self.parents_pass(act, vertex)?;
        self.semaphores_are_kept(vertex)?;
        let owed = self.persistent.journal.owed().iter().any(|token| token.second == ResourceId::first(part));
        let now = self.now;
        let seen = self.seen.entry(part).or_default();
        let looked = seen.looked;
        match act {
            Act::Check => {
                let has_reason = !seen.rests || seen.stirred || owed;
                ensure(has_reason, Property::Entitled, vertex, || "a check, and nothing has happened to it".into())?;
                let until = seen.left_alone.until.take();
                let in_time = until.is_none_or(|until| until <= now);
                ensure(in_time, Property::Retries, vertex, || format!("a check at {now:?}, before {until:?}"))?;
                let next = seen.tries.next.take();
                let in_time = next.is_none_or(|next| next <= now) && !seen.tries.are_used_up;
                ensure(in_time, Property::Retries, vertex, || {
                    format!("a check at {now:?}, before {next:?}, with {:?}", seen.tries)
                })?;
                seen.blames = None;
                seen.outdated = false;
                seen.looked = tick;
                seen.differs = false;
                seen.rests = false;
                seen.stirred = false;
            }
            Act::Apply => {
                ensure(seen.differs, Property::Entitled, vertex, || "an apply without a difference".into())?;
                seen.differs = false;
            }
            Act::Refresh => {
                ensure(owed, Property::Entitled, vertex, || "a refresh that nobody owes".into())?;
            }
        }
        if act != Act::Check {
            let is_watched_only = seen.repairs.is_watched_only;
            ensure(!is_watched_only, Property::Limits, vertex, || format!("{act:?} of what is given up"))?;
            let contest = seen.repairs.contest.filter(|contest| act == Act::Apply && now < contest.next);
            ensure(contest.is_none(), Property::Limits, vertex, || format!("a repair at {now:?}, before {contest:?}"))?;
            let described = self.graph.described(vertex);
            ensure(!described.noop, Property::Entitled, vertex, || format!("{act:?} of what is only looked at"))?;
        }
        if act == Act::Check {
            self.outdate_children(vertex);
        }
        self.flights.push(CallInFlight {
            part,
            vertex,
            act,
            began: tick,
            heard: None,
            is_orphan: false,
            is_answered: false,
            looked,
        });
        Ok(())
    }

    pub(super) fn semaphores_are_kept(&self, vertex: ResourceId) -> Result<(), Violation> {
        let site = &self.persistent.site;
        let part = self.part(vertex);
        for at in site.semaphores.get(&part).into_iter().flatten() {
            let holds = |flight: &&CallInFlight| site.semaphores.get(&flight.part).is_some_and(|ids| ids.contains(at));
            let others = self.flights.iter().filter(holds);
            let count = others.count() as u32 + 1;
            let most = site.counts[usize::from(*at)];
            ensure(count <= most, Property::Limits, vertex, || format!("{count} hold semaphore {at} of {most}"))?;
        }
        Ok(())
    }
}
