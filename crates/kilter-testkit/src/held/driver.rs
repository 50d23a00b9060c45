//! Carries out the commands of a machine that holds a state, with disturbances.

mod environment;
mod execute;
mod invariants;

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use kilter_engine::{
    ApplyResult, CheckResult, Disposition, IdAllocator, Input, Machine, RefreshToken, ResourceId, Timestamp,
};
use rustc_hash::FxHasher;

use super::SeededBug;
use super::limits::{BackoffState, EventCount, RepairWindow, Tries};
use super::site::{GraphVersion, Site};
use crate::journal::Journal;
use crate::observed::Act;
use crate::properties::{Property, Violation, ensure};
use crate::simulation::SimulationCounts;
use crate::system::{ApplyAnswer, System, reported};

/// State that outlives a run.
pub(super) struct PersistentState {
    pub(super) site: Site,
    /// Managed system. The parts are its vertices.
    pub(super) system: System,
    /// Journal with tokens between parts.
    pub(super) journal: Journal,
    /// For each pair of parts: tick of the last change of the first that notifies the second.
    pub(super) notified: BTreeMap<(u32, u32), u64>,
    pub(super) rng: Rng,
    pub(super) tick: u64,
    pub(super) counts: SimulationCounts,
    pub(super) stream: FxHasher,
    pub(super) fault: Option<SeededBug>,
}

/// A call in flight, identified by its part.
#[derive(Clone, Copy, Debug)]
struct CallInFlight {
    part: u32,
    /// Vertex for which the machine requested the call.
    vertex: ResourceId,
    act: Act,
    began: u64,
    heard: Option<CallAnswer>,
    /// True if the vertex was replaced since the start, so that its answer must change nothing.
    is_orphan: bool,
    /// True if a bug has reported its end to the machine before its end.
    is_answered: bool,
    /// Tick of the start of the check before this call.
    looked: u64,
}

#[derive(Clone, Copy, Debug)]
enum CallAnswer {
    Found(CheckResult),
    Applied(ApplyAnswer),
}

/// Observations of a part in this run.
#[derive(Clone, Debug, Default)]
struct SeenPart {
    /// True if its watch runs, or it needs none.
    watches: bool,
    /// True if the machine has requested its watch.
    asked: bool,
    /// True if a check found a difference, and no event arrived since.
    differs: bool,
    /// Tick of its last event.
    told: u64,
    /// Tick of the start of its last check.
    looked: u64,
    repairs: RepairWindow,
    tries: Tries,
    settlement: Option<Disposition>,
    /// Failed part that it names to its children: itself, or the part that blocks it. Reset by a check.
    blames: Option<u32>,
    /// True if it has settled so that children may run, and was not checked since.
    rests: bool,
    /// True if an event arrived since the start of its last check.
    stirred: bool,
    /// True if the call in flight must be followed by another check, whatever its result.
    outdated: bool,
    heeded: EventCount,
    left_alone: BackoffState,
}

/// A run of a machine.
pub(super) struct Driver<'a> {
    machine: Machine,
    graph: GraphVersion,
    ids: IdAllocator,
    persistent: &'a mut PersistentState,
    flights: Vec<CallInFlight>,
    wakes: Vec<(Timestamp, u32)>,
    /// Parts with an event that has not been delivered yet.
    untold: BTreeSet<u32>,
    seen: BTreeMap<u32, SeenPart>,
    now: Timestamp,
    /// Time of the last activity other than a check that found a vertex in sync.
    active: Timestamp,
    interrupted: bool,
    paused: bool,
    /// True if no operation fails from now on.
    mended: bool,
    /// Parts whose changes and refreshes fail because their tokens could not be journalled.
    unrecorded: BTreeSet<u32>,
}

/// Steps per part within which everything must come to rest.
const MAX_STEPS_TO_REST: u32 = 400;

impl<'a> Driver<'a> {
    pub(super) fn new(persistent: &'a mut PersistentState) -> Driver<'a> {
        let graph = persistent.site.incarnate(&mut persistent.rng, false);
        persistent.journal.begin();
        let (seen, unwatched) = watches(&persistent.site, &graph);
        let owed = owed(&persistent.journal, &graph);
        let holding = persistent.site.holding(&graph, unwatched, persistent.fault);
        let now = Timestamp(persistent.rng.u64(..1000));
        let machine = Machine::holding(
            graph.graph.clone(),
            Site::vertices_for_machine(&graph, persistent.fault),
            &owed,
            now,
            holding,
        );
        let machine = machine.with_semaphores(persistent.site.shared(&graph, persistent.fault));
        Driver {
            machine,
            ids: IdAllocator::of_first(graph.part_of.len()),
            graph,
            persistent,
            flights: Vec::new(),
            wakes: Vec::new(),
            untold: BTreeSet::new(),
            seen,
            now,
            active: now,
            interrupted: false,
            paused: false,
            mended: false,
            unrecorded: BTreeSet::new(),
        }
    }

    /// Runs with disturbances, and ends by a crash or an interrupt.
    pub(super) fn hostile(mut self, length: u32) -> Result<(), Violation> {
        self.live(length)?;
        if self.persistent.rng.bool() {
            return self.die();
        }
        self.persistent.counts.interrupts += 1;
        self.interrupted = true;
        self.give(Input::Interrupt);
        self.obey()?;
        while !self.flights.is_empty() {
            self.land()?;
            self.obey()?;
        }
        let what = "nothing is under way, and an interrupted run goes on";
        if self.machine.is_finished() { Ok(()) } else { Err(Violation::of(Property::Ending, what)) }
    }

    fn live(&mut self, length: u32) -> Result<(), Violation> {
        for _ in 0..length {
            self.obey()?;
            self.now.0 += self.persistent.rng.u64(..60);
            match self.persistent.rng.u32(..100) {
                0..40 => self.land()?,
                40..60 => self.drift(),
                60..75 => self.deliver_event()?,
                75..85 => self.wake()?,
                85..92 => self.watch(),
                92..95 => self.unwatch()?,
                95..97 => self.toggle(),
                97..99 => self.swap(false)?,
                _ => self.reinstate(),
            }
        }
        Ok(())
    }

    /// Crashes the driver. Each call in flight has taken effect or never will. The end of the journal may be lost.
    fn die(mut self) -> Result<(), Violation> {
        self.persistent.counts.crashes += 1;
        for at in 0..self.flights.len() {
            if self.persistent.rng.bool() {
                self.happen(at)?;
            }
        }
        let rng = &mut self.persistent.rng;
        self.persistent.journal.crash(|loose| rng.usize(..=loose));
        Ok(())
    }

    /// Runs without further disturbances. All parts must converge.
    pub(super) fn peaceful(mut self, length: u32) -> Result<(), Violation> {
        self.live(length)?;
        self.obey()?;
        self.swap(true)?;
        self.persistent.system.heal();
        // The causes of failures are removed, with an event, except for parts that retry by themselves.
        let is_mended = |seen: &SeenPart| matches!(seen.settlement, Some(Disposition::Failed | Disposition::Unknown));
        let mended = self.seen.iter().filter(|(_, seen)| is_mended(seen)).map(|(part, _)| *part);
        let mended: Vec<u32> = mended.filter(|part| !self.comes_back(*part)).collect();
        self.untold.extend(mended);
        self.mended = true;
        for _ in 0..MAX_STEPS_TO_REST * (self.persistent.site.parts() + 2) {
            self.obey()?;
            self.now.0 += self.persistent.rng.u64(..200);
            match self.persistent.rng.u32(..4) {
                0 => self.watch(),
                1 => self.wake()?,
                2 => self.deliver_event()?,
                _ => self.land()?,
            }
            let rests = self.flights.is_empty() && self.wakes.is_empty() && self.untold.is_empty();
            if rests && self.quiet_since().is_some() && self.watch_all() {
                if self.seen.values().any(|seen| seen.repairs.is_watched_only) {
                    self.reinstate();
                    continue;
                }
                let contested = self.machine.contested();
                if contested > 0 {
                    let what = format!("{contested} are contested, and nobody disturbs them");
                    return Err(Violation::of(Property::Converges, what));
                }
                return self.is_as_declared();
            }
        }
        let unsettled: Vec<u32> = self
            .graph
            .graph
            .vertices()
            .filter(|v| self.machine.settlement(*v).is_none())
            .map(|v| self.part(v))
            .collect();
        let what = format!(
            "it does not come to rest: {} under way, wakes {:?}, untold {:?}, unsettled {unsettled:?}, quiet since \
             {:?}",
            self.flights.len(),
            self.wakes,
            self.untold,
            self.machine.quiet_since()
        );
        Err(Violation::of(Property::Converges, what))
    }

    /// Returns true if a part has failed, so that the machine retries it without an event.
    fn comes_back(&self, part: u32) -> bool {
        let vertex = self.graph.vertex_of(part);
        vertex.is_some_and(|vertex| self.machine.settlement(vertex) == Some(Disposition::Failed))
    }

    /// Applies the effect of a call to the system.
    fn happen(&mut self, at: usize) -> Result<(), Violation> {
        let CallInFlight { part, act, began, heard, is_orphan, .. } = self.flights[at];
        if heard.is_some() {
            return Ok(());
        }
        self.persistent.tick += 1;
        let (id, tick) = (ResourceId::first(part), self.persistent.tick);
        let system = &mut self.persistent.system;
        let answer = match act {
            Act::Check => CallAnswer::Found(system.check(id)),
            Act::Apply => CallAnswer::Applied(system.apply(&mut self.persistent.rng, id, began, tick)),
            Act::Refresh => CallAnswer::Applied(system.refresh(id, began, tick)),
        };
        self.flights[at].heard = Some(answer);
        // The call of a replaced vertex notified the children that it had at its start.
        if system.changed(id) == tick && !is_orphan { self.notifies(part) } else { Ok(()) }
    }

    /// Checks that a crash after this change would lose no refresh.
    fn notifies(&mut self, part: u32) -> Result<(), Violation> {
        let Some(vertex) = self.graph.vertex_of(part) else { return Ok(()) };
        for receiver in self.graph.refreshing(vertex) {
            let token = RefreshToken { first: ResourceId::first(part), second: ResourceId::first(self.part(receiver)) };
            let what = || format!("it changed, and the refresh of {} is not in the journal", receiver.slot());
            ensure(self.persistent.journal.owes(token), Property::Refreshes, vertex, what)?;
            self.persistent.notified.insert((part, token.second.slot() as u32), self.persistent.tick);
        }
        Ok(())
    }

    /// Ends a call in flight.
    fn land(&mut self) -> Result<(), Violation> {
        if self.flights.is_empty() {
            return Ok(());
        }
        let at = self.persistent.rng.usize(..self.flights.len());
        self.happen(at)?;
        let flight = self.flights.swap_remove(at);
        let vertex = flight.vertex;
        let in_sync = self.persistent.system.is_in_sync(ResourceId::first(flight.part));
        let input = match (flight.act, flight.heard.expect("it has just happened")) {
            (_, CallAnswer::Found(verdict)) => {
                Input::Checked(vertex, reported(verdict, &self.machine, &mut self.persistent.rng))
            }
            (Act::Refresh, CallAnswer::Applied(heard)) => Input::Refreshed(vertex, heard != ApplyAnswer::Failed),
            (_, CallAnswer::Applied(ApplyAnswer::Done { refreshed })) if in_sync => {
                Input::Applied(vertex, ApplyResult::Done { refreshed })
            }
            (_, CallAnswer::Applied(_)) => Input::Applied(vertex, ApplyResult::Failed),
        };
        if flight.is_orphan {
            if !flight.is_answered {
                self.answer_orphan(flight, input)?;
            }
            // The vertex that replaced it may start now.
            self.untold.insert(flight.part);
            return Ok(());
        }
        self.is_in_flight(vertex, flight.act)?;
        let failed = matches!(
            input,
            Input::Checked(_, CheckResult::Failed)
                | Input::Applied(_, ApplyResult::Failed)
                | Input::Refreshed(_, false)
        );
        self.persistent.counts.failures += u64::from(failed);
        let now = self.now;
        let delay = self.graph.described(vertex).delay;
        let is_stale = matches!(input, Input::Checked(..)) && self.is_stale(vertex);
        let budget = self.persistent.site.budget;
        let is_exempt = self.persistent.site.exempt_from_budget.contains(&flight.part);
        let is_demoted = is_exempt && self.machine.is_watched_only(vertex);
        ensure(!is_demoted, Property::Limits, vertex, || "it has no budget, and is demoted".to_owned())?;
        let seen = self.seen_of(flight.part);
        match input {
            Input::Checked(_, verdict) => seen.differs = verdict == CheckResult::Differs && seen.told <= flight.began,
            Input::Applied(_, ApplyResult::Done { .. }) => {
                seen.repairs.add(now, budget);
                let repairs = seen.repairs.count();
                let what = || format!("{repairs} repairs in {} ms", budget.within);
                ensure(is_exempt || repairs <= budget.repairs + 1, Property::Limits, vertex, what)?;
            }
            _ => {}
        }
        if failed && !is_stale {
            seen.tries.record_failure(now, delay);
        }
        self.give(input);
        Ok(())
    }

    /// Checks at rest that all parts are as declared and no refresh is pending.
    fn is_as_declared(&mut self) -> Result<(), Violation> {
        for vertex in self.graph.graph.vertices() {
            let part = self.part(vertex);
            let described = *self.graph.described(vertex);
            let settlement = self.machine.settlement(vertex);
            let what = || format!("it has come to rest as {settlement:?}");
            ensure(settlement.is_some_and(Disposition::unblocks_dependents), Property::Converges, vertex, what)?;
            let in_sync = self.persistent.system.is_in_sync(ResourceId::first(part));
            let what = || format!("it is not in its state, and said to be {settlement:?}");
            ensure(in_sync || described.noop, Property::Converges, vertex, what)?;
            let owed = self.persistent.journal.owed().iter().any(|token| token.second == ResourceId::first(part));
            let may_owe = described.noop || !described.refreshable;
            ensure(!owed || may_owe, Property::Refreshes, vertex, || "a refresh is owed to it for ever".into())?;
            let seen = &self.seen[&part];
            let looked = seen.looked >= seen.told;
            ensure(looked, Property::Watched, vertex, || "nobody looked after the last event".into())?;
        }
        Ok(())
    }

    /// Returns true if the result of a check does not count, because of an event on the vertex or on its parents
    /// meanwhile.
    fn is_stale(&self, vertex: ResourceId) -> bool {
        let seen = &self.seen[&self.part(vertex)];
        seen.outdated || self.graph.parents(vertex).any(|parent| self.machine.settlement(parent).is_none())
    }

    /// Marks the call in flight as outdated by an event on its part.
    fn outdate(&mut self, part: u32) {
        if self.flies(part) {
            self.seen_of(part).outdated = true;
        }
    }

    fn outdate_children(&mut self, vertex: ResourceId) {
        let children: Vec<u32> = self.graph.graph.children(vertex).map(|child| self.part(child)).collect();
        children.into_iter().for_each(|child| self.outdate(child));
    }

    fn part(&self, vertex: ResourceId) -> u32 {
        self.graph.part(vertex)
    }

    fn seen_of(&mut self, part: u32) -> &mut SeenPart {
        self.seen.entry(part).or_default()
    }

    fn of_parts(&self, tokens: &[RefreshToken]) -> Vec<RefreshToken> {
        let part = |vertex| ResourceId::first(self.part(vertex));
        tokens.iter().map(|token| RefreshToken { first: part(token.first), second: part(token.second) }).collect()
    }

    fn give(&mut self, input: Input) {
        self.machine.input(self.now, input);
    }
}

/// Returns the initial observations of the parts, and the vertices whose watches have not started.
fn watches(site: &Site, graph: &GraphVersion) -> (BTreeMap<u32, SeenPart>, BTreeSet<ResourceId>) {
    let mut unwatched = BTreeSet::new();
    let mut seen = BTreeMap::new();
    for (at, part) in graph.part_of.iter().enumerate() {
        let watches = !site.is_watched[*part as usize];
        let tries = Tries::of(graph.vertices[at].retry);
        seen.insert(*part, SeenPart { watches, asked: true, stirred: true, tries, ..SeenPart::default() });
        if !watches {
            unwatched.insert(graph.graph.order()[at]);
        }
    }
    (seen, unwatched)
}

/// Returns the pending refreshes for a machine over this graph. A receiver inherits the refreshes of senders that no
/// longer precede it.
fn owed(journal: &Journal, graph: &GraphVersion) -> Vec<RefreshToken> {
    let mut owed: Vec<RefreshToken> = journal
        .owed()
        .iter()
        .filter_map(|token| {
            let second = graph.vertex_of(token.second.slot() as u32)?;
            let first =
                graph.vertex_of(token.first.slot() as u32).filter(|first| graph.graph.find(*first, second).is_some());
            Some(first.map_or(RefreshToken::orphaned(second), |first| RefreshToken { first, second }))
        })
        .collect();
    owed.sort_unstable();
    owed.dedup();
    owed
}
