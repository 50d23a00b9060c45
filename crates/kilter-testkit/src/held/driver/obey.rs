//! Commands are carried out, and held against what must hold when something begins.

use kilter_engine::{Batch, Command, Input, Settlement, Token, VertexId};

use super::{Driver, Flight};
use crate::held::Fault;
use crate::journal::Record;
use crate::observed::Act;
use crate::properties::{Property, Violation, ensure};
use crate::stream::digest;

impl Driver<'_> {
    pub(super) fn obey(&mut self) -> Result<(), Violation> {
        let mut rounds = 0;
        loop {
            let commands = self.machine.commands();
            if commands.is_empty() {
                return Ok(());
            }
            rounds += 1;
            if rounds > 100_000 {
                return Err(Violation::of(Property::Ending, "the machine commands without end"));
            }
            for command in commands {
                digest(&mut self.lasting.stream, &command);
                self.lasting.counts.commands += 1;
                self.lasting.tick += 1;
                self.lasting.journal.rely();
                self.carry_out(command)?;
            }
        }
    }

    pub(super) fn carry_out(&mut self, command: Command) -> Result<(), Violation> {
        match command {
            Command::Owe(_) if self.lasting.fault == Some(Fault::OwesNothing) => {}
            Command::Owe(tokens) => self.lasting.journal.write(Record::Owe(self.of_parts(&tokens))),
            Command::Paid(tokens) => self.pay(&tokens),
            Command::Check(batch) => self.take_off(Act::Check, batch)?,
            Command::Apply(batch) => self.take_off(Act::Apply, batch)?,
            Command::Refresh(batch) => self.take_off(Act::Refresh, batch)?,
            Command::Wake(vertex, at) => self.wakes.push((at, self.part(vertex))),
            Command::Settled(vertex, settlement) => self.settled(vertex, settlement)?,
            Command::Watch(vertex) => {
                let flying = self.flights.iter().any(|flight| flight.part == self.part(vertex) && !flight.is_orphan);
                ensure(!flying, Property::Watched, vertex, || "its watch starts while it is worked on".into())?;
            }
            Command::Demoted(vertex) if self.lasting.fault == Some(Fault::NeverTires) => {
                self.give(Input::Reinstate(vertex));
            }
            Command::Demoted(_) => {}
        }
        Ok(())
    }

    pub(super) fn settled(&mut self, vertex: VertexId, settlement: Settlement) -> Result<(), Violation> {
        if let Settlement::Blocked(by) = settlement {
            let failed = self.machine.settlement(by);
            // It may have been taken up since, in the same breath.
            let is_failed = matches!(failed, Some(Settlement::Failed) | None);
            ensure(is_failed, Property::Blocking, vertex, || format!("blocked by {}, which is {failed:?}", by.0))?;
        }
        let part = self.part(vertex);
        self.seen_of(part).settlement = Some(settlement);
        if self.mended && matches!(settlement, Settlement::Failed | Settlement::Unknown) && !self.comes_back(part) {
            // It began before it was mended.
            self.untold.insert(part);
        }
        Ok(())
    }

    /// Pays what it is told to; nothing is paid that was not owed.
    pub(super) fn pay(&mut self, tokens: &[Token]) {
        let tokens = self.of_parts(tokens);
        // What somebody owed who comes before it no longer is paid by its receiver alone.
        let inherited = |token: &Token| token.first == token.second;
        let all: Vec<Token> = self.lasting.journal.owed();
        let paid = tokens.iter().flat_map(|token| {
            let part = |part: VertexId| self.graph.vertex_of(part.0);
            let to = token.second;
            let is_edge = |known: &Token| {
                part(known.first).zip(part(to)).is_some_and(|(a, b)| self.graph.graph.find(a, b).is_some())
            };
            let rest = all.iter().filter(move |known| known.second == to && !is_edge(known)).copied();
            let rest: Vec<Token> = if inherited(token) { rest.collect() } else { vec![*token] };
            rest
        });
        let paid = paid.collect();
        self.lasting.journal.write(Record::Paid(paid));
    }

    pub(super) fn take_off(&mut self, act: Act, batch: Batch) -> Result<(), Violation> {
        for vertex in batch.vertices {
            self.begin(act, vertex)?;
            if self.lasting.rng.u32(..4) == 0 {
                self.happen(self.flights.len() - 1)?;
            }
        }
        Ok(())
    }

    pub(super) fn begin(&mut self, act: Act, vertex: VertexId) -> Result<(), Violation> {
        let part = self.part(vertex);
        let tick = self.lasting.tick;
        ensure(!self.interrupted, Property::Entitled, vertex, || format!("{act:?} after an interrupt"))?;
        ensure(!self.paused, Property::Entitled, vertex, || format!("{act:?} while paused"))?;
        let flies = self.flights.iter().any(|flight| flight.part == part);
        ensure(!flies, Property::OneAtATime, vertex, || format!("{act:?} while something is under way"))?;
        ensure(self.seen_of(part).watches, Property::Watched, vertex, || format!("{act:?} before its watch"))?;
        for parent in self.graph.parents(vertex).collect::<Vec<_>>() {
            let settlement = self.machine.settlement(parent);
            let passes = settlement.is_some_and(Settlement::lets_pass);
            ensure(passes, Property::ParentsFirst, vertex, || format!("{act:?}, and {} is {settlement:?}", parent.0))?;
        }
        self.semaphores_are_kept(vertex)?;
        let seen = self.seen.entry(part).or_default();
        match act {
            Act::Check => {
                seen.looked = tick;
                seen.differs = false;
            }
            Act::Apply => {
                ensure(seen.differs, Property::Entitled, vertex, || "an apply without a difference".into())?;
                seen.differs = false;
            }
            Act::Refresh => {
                let owed = self.lasting.journal.owed().iter().any(|token| token.second.0 == part);
                ensure(owed, Property::Entitled, vertex, || "a refresh that nobody owes".into())?;
            }
        }
        if act != Act::Check {
            let described = self.graph.vertices[vertex.0 as usize];
            ensure(!described.noop, Property::Entitled, vertex, || format!("{act:?} of what is only looked at"))?;
        }
        self.flights.push(Flight { part, act, began: tick, heard: None, is_orphan: false });
        Ok(())
    }

    pub(super) fn semaphores_are_kept(&self, vertex: VertexId) -> Result<(), Violation> {
        let site = &self.lasting.site;
        let part = self.part(vertex);
        for at in site.semaphores.get(&part).into_iter().flatten() {
            let others = self.flights.iter().filter(|flight| {
                !flight.is_orphan && site.semaphores.get(&flight.part).is_some_and(|ids| ids.contains(at))
            });
            let count = others.count() as u32 + 1;
            let most = site.counts[usize::from(*at)];
            ensure(count <= most, Property::Limits, vertex, || format!("{count} hold semaphore {at} of {most}"))?;
        }
        Ok(())
    }
}
