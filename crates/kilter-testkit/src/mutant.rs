//! Deliberate bugs in the command stream, which prove that the properties can fail.

use kilter_engine::{Batch, Command, Disposition, RefreshToken, ResourceId};

use crate::journal::Journal;
use crate::observed::{Observed, RunMode};
use crate::properties::Property;

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// Checks a blocked vertex.
    StartsBlocked,
    /// Checks the children of a vertex together with it.
    StartsEarly,
    /// Starts a batch twice.
    ChecksTwice,
    /// Changes a noop vertex.
    IgnoresNoop,
    /// Changes a vertex that is in sync.
    AppliesUnasked,
    /// Checks remaining vertices after an interrupt.
    IgnoresInterrupt,
    /// Lets a blocked vertex blame itself.
    BlamesWrong,
    /// Does not journal refreshes that will be pending.
    DropsOwe,
    /// Journals refreshes only after the change has started.
    OwesLate,
    /// Pays a refresh that is not pending.
    PaysUnowed,
    /// Does not journal paid refreshes.
    DropsPaid,
    /// Skips a refresh and counts it as paid.
    PaysUnserved,
    /// Hides a token from a new run.
    LosesToken,
    /// Also deletes a token from the journal.
    LosesRecord,
    /// Writes to the journal in a run without changes.
    WritesWhenCalm,
    /// Drops the settlement of a vertex without children.
    DropsSettled,
    /// Settles a vertex twice.
    SettlesTwice,
    /// Drops a check.
    DropsCheck,
    /// Reports a failed vertex as in sync.
    HidesFailure,
    /// Reorders batches in the second simulation of a seed.
    Wavers,
    /// Reorders the vertices of a batch.
    ShufflesBatch,
    /// Retries a vertex too early.
    HurriesRetry,
    /// Retries a vertex once too often.
    RetriesTooOften,
    /// Omits a change from a plan.
    HidesChange,
    /// Splits a batch.
    SplitsBatch,
    /// Combines vertices that must be single.
    JoinsSingles,
    /// Assigns a batch to another group.
    MixesGroups,
    /// Omits a change if there are no batches.
    NeedsBatches,
}

/// Context in which commands are distorted.
#[derive(Debug)]
pub(crate) struct Moment<'a> {
    pub(crate) observed: &'a Observed<'a>,
    pub(crate) journal: &'a Journal,
    /// True in the second simulation of the same seed.
    pub(crate) second: bool,
}

impl Mutant {
    /// All bugs, with the property that must detect each.
    pub const ALL: [(Mutant, Property); 28] = [
        (Mutant::StartsBlocked, Property::ParentsFirst),
        (Mutant::StartsEarly, Property::ParentsFirst),
        (Mutant::ChecksTwice, Property::OneAtATime),
        (Mutant::IgnoresNoop, Property::Entitled),
        (Mutant::AppliesUnasked, Property::Entitled),
        (Mutant::IgnoresInterrupt, Property::Entitled),
        (Mutant::BlamesWrong, Property::Blocking),
        (Mutant::DropsOwe, Property::Refreshes),
        (Mutant::OwesLate, Property::Refreshes),
        (Mutant::PaysUnowed, Property::Refreshes),
        (Mutant::DropsPaid, Property::Refreshes),
        (Mutant::PaysUnserved, Property::Refreshes),
        (Mutant::LosesToken, Property::Refreshes),
        (Mutant::LosesRecord, Property::Refreshes),
        (Mutant::WritesWhenCalm, Property::Calm),
        (Mutant::DropsSettled, Property::Begins),
        (Mutant::SettlesTwice, Property::Ending),
        (Mutant::DropsCheck, Property::Begins),
        (Mutant::HidesFailure, Property::Ending),
        (Mutant::Wavers, Property::Determinism),
        (Mutant::ShufflesBatch, Property::ManifestOrder),
        (Mutant::HurriesRetry, Property::Retries),
        (Mutant::RetriesTooOften, Property::Retries),
        (Mutant::HidesChange, Property::Plan),
        (Mutant::SplitsBatch, Property::Batches),
        (Mutant::JoinsSingles, Property::Batches),
        (Mutant::MixesGroups, Property::Batches),
        (Mutant::NeedsBatches, Property::Batches),
    ];

    /// Applies the bug to the journal of a new run.
    pub(crate) fn forget(self, owed: &mut Vec<RefreshToken>, journal: &mut Journal) {
        match self {
            Mutant::LosesToken => drop(owed.pop()),
            Mutant::LosesRecord if journal.forget_one() => drop(owed.remove(0)),
            _ => {}
        }
    }

    /// Applies the bug to the commands of a step.
    pub(crate) fn distort(self, commands: &mut Vec<Command>, moment: &Moment<'_>) {
        match self {
            Mutant::Wavers if moment.second => swap_batches(commands),
            Mutant::Wavers | Mutant::LosesToken | Mutant::LosesRecord => {}
            Mutant::OwesLate => owe_late(commands),
            Mutant::JoinsSingles => join_singles(commands),
            _ => {
                let taken = std::mem::take(commands);
                taken.into_iter().for_each(|command| commands.extend(self.instead(command, moment)));
            }
        }
    }

    fn instead(self, command: Command, moment: &Moment<'_>) -> Vec<Command> {
        let world = moment.observed.world;
        let check = |vertex: ResourceId| Command::Check(alone(moment, vertex));
        match (self, command) {
            (Mutant::StartsBlocked, Command::Settled(vertex, Disposition::Blocked(_))) => vec![check(vertex)],
            (Mutant::StartsEarly, Command::Check(batch)) => {
                let children = batch.vertices.iter().flat_map(|vertex| world.graph.children(*vertex));
                let early: Vec<Command> = children.take(1).map(check).collect();
                [Command::Check(batch)].into_iter().chain(early).collect()
            }
            (Mutant::ChecksTwice, Command::Check(batch)) => vec![Command::Check(batch.clone()), Command::Check(batch)],
            (Mutant::IgnoresNoop, Command::Settled(vertex, Disposition::WouldChange)) => {
                vec![Command::Apply(alone(moment, vertex))]
            }
            (Mutant::AppliesUnasked, Command::Settled(vertex, Disposition::InSync)) => {
                vec![Command::Apply(alone(moment, vertex))]
            }
            (Mutant::IgnoresInterrupt, Command::Settled(vertex, Disposition::Interrupted))
                if world.graph.parent_count(vertex) == 0 =>
            {
                vec![check(vertex)]
            }
            (Mutant::BlamesWrong, Command::Settled(vertex, Disposition::Blocked(_))) => {
                vec![Command::Settled(vertex, Disposition::Blocked(vertex))]
            }
            (Mutant::DropsOwe, Command::JournalRefresh(_)) | (Mutant::DropsPaid, Command::ClearRefresh(_)) => {
                Vec::new()
            }
            (Mutant::PaysUnowed, Command::Check(batch)) => {
                let first = batch.vertices[0];
                let unowed = world.refreshing(first).map(Observed::token).filter(|token| !moment.journal.owes(*token));
                let paid = Command::ClearRefresh(unowed.collect());
                vec![paid, Command::Check(batch)]
            }
            (Mutant::PaysUnserved, Command::Refresh(batch)) => {
                let second = batch.vertices[0];
                let tokens = world.parents(second).map(|first| RefreshToken { first, second });
                vec![Command::ClearRefresh(tokens.filter(|token| moment.journal.owes(*token)).collect())]
            }
            (Mutant::WritesWhenCalm, Command::Check(batch)) if moment.observed.mode == RunMode::Calm => {
                let tokens: Vec<RefreshToken> = world.refreshing(batch.vertices[0]).map(Observed::token).collect();
                vec![Command::JournalRefresh(tokens), Command::Check(batch)]
            }
            (Mutant::DropsSettled, Command::Settled(vertex, _)) if world.graph.outgoing(vertex).next().is_none() => {
                Vec::new()
            }
            (Mutant::DropsCheck, Command::Check(_)) => Vec::new(),
            (Mutant::SettlesTwice, Command::Settled(vertex, settlement)) => {
                vec![Command::Settled(vertex, settlement), Command::Settled(vertex, settlement)]
            }
            (Mutant::HidesFailure, Command::Settled(vertex, Disposition::Failed)) => {
                vec![Command::Settled(vertex, Disposition::InSync)]
            }
            (Mutant::ShufflesBatch, Command::Check(mut batch)) => {
                batch.vertices.reverse();
                vec![Command::Check(batch)]
            }
            (Mutant::SplitsBatch, Command::Check(batch)) => split(batch).into_iter().map(Command::Check).collect(),
            (Mutant::MixesGroups, Command::Check(mut batch)) => {
                batch.group.provider += 1;
                vec![Command::Check(batch)]
            }
            (Mutant::HurriesRetry, Command::SetTimer(vertex, mut at)) => {
                at.0 = at.0.saturating_sub(1);
                vec![Command::SetTimer(vertex, at)]
            }
            (Mutant::RetriesTooOften, Command::Settled(vertex, Disposition::Failed)) => {
                let mut at = moment.observed.of(vertex).answered;
                at.0 += world.vertex(vertex).delay;
                vec![Command::SetTimer(vertex, at)]
            }
            (_, command) => vec![command],
        }
    }

    /// Applies the bug to the result of a plan.
    pub(crate) fn shown(self, planned: &mut [Option<Disposition>]) {
        let change = planned.iter_mut().find(|settled| **settled == Some(Disposition::WouldChange));
        if let (Mutant::HidesChange, Some(change)) = (self, change) {
            *change = Some(Disposition::InSync);
        }
    }

    /// Applies the bug to the result of an apply without batches.
    pub(crate) fn done_singly(self, applied: &mut [Option<Disposition>]) {
        let change = applied.iter_mut().find(|settled| **settled == Some(Disposition::Changed));
        if let (Mutant::NeedsBatches, Some(change)) = (self, change) {
            *change = Some(Disposition::InSync);
        }
    }
}

/// Splits a batch into two parts if it has several vertices.
pub(crate) fn split(batch: Batch) -> Vec<Batch> {
    let Batch { group, mut vertices } = batch;
    let rest = vertices.split_off(vertices.len().div_ceil(2));
    let parts = [vertices, rest].into_iter().filter(|vertices| !vertices.is_empty());
    parts.map(|vertices| Batch { group, vertices }).collect()
}

/// Combines the first two single-vertex checks of the same group.
fn join_singles(commands: &mut Vec<Command>) {
    let alone = |command: &Command| match command {
        Command::Check(batch) if batch.vertices.len() == 1 => Some(batch.group),
        _ => None,
    };
    for first in 0..commands.len() {
        let Some(group) = alone(&commands[first]) else { continue };
        let Some(second) = (first + 1..commands.len()).find(|at| alone(&commands[*at]) == Some(group)) else {
            continue;
        };
        if let Command::Check(Batch { vertices, .. }) = commands.remove(second)
            && let Command::Check(batch) = &mut commands[first]
        {
            batch.vertices.extend(vertices);
            batch.vertices.sort_unstable();
        }
        return;
    }
}

fn alone(moment: &Moment<'_>, vertex: ResourceId) -> Batch {
    Batch { group: moment.observed.world.vertex(vertex).group, vertices: vec![vertex] }
}

/// Swaps the first two batches of checks.
pub(crate) fn swap_batches(commands: &mut [Command]) {
    let checks: Vec<usize> =
        (0..commands.len()).filter(|at| matches!(commands[*at], Command::Check(_))).take(2).collect();
    if let [first, second] = checks[..] {
        commands.swap(first, second);
    }
}

/// Moves all `JournalRefresh` commands to the end.
fn owe_late(commands: &mut Vec<Command>) {
    let (owes, mut others): (Vec<_>, Vec<_>) =
        commands.drain(..).partition(|command| matches!(command, Command::JournalRefresh(_)));
    others.extend(owes);
    *commands = others;
}
