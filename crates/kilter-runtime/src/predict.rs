//! Predictions of a plan: the effects of earlier steps, as far as they can be known.
//!
//! The driver reports the settlement of each resource, with the effects of its change ([`PredictedWorld::expect`],
//! [`PredictedWorld::settled`]). Providers query the objects they read through their preview_context. The rules are in
//! `docs/reference/predictions.md`; decision 15 has the reasons.

mod footprints;
mod order;
mod paths;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock};

use kilter_engine::{Disposition, Graph, ResourceId};
use kilter_model::Because;
use kilter_provider::{Account, Content, Effect, Forecast, PathState, SideEffects};
use rustc_hash::FxHashMap;

use crate::prepare::Prepared;
use footprints::{Footprints, How, Reads};
use order::Order;
use paths::{Paths, Resolved, Spot};

/// Predicted state of the system when a resource runs: known, changed, or unknown because of an earlier resource.
pub(crate) struct PredictedWorld {
    prepared: Arc<Prepared>,
    footprints: Footprints,
    order: Order,
    state: RwLock<PredictedState>,
}

#[derive(Default)]
struct PredictedState {
    /// Settlement of each resource.
    effect_state: Vec<EffectState>,
    /// For each resource, a pending resource that comes before it. Empty while no resource is pending.
    behind: Vec<Option<ResourceId>>,
    /// Effects of resources whose check has ended, until they settle.
    expected: FxHashMap<ResourceId, Vec<Effect>>,
    paths: Paths,
    accounts: FxHashMap<(&'static str, String), (Account, ResourceId)>,
    /// Pending resources that may change any file.
    commands: Vec<ResourceId>,
    /// Paths that pending commands name, and so may write.
    named: BTreeMap<String, Vec<ResourceId>>,
    /// Pending resources that install files.
    bringers: Vec<ResourceId>,
    /// Resource that is checked first within a group of resources that wait for each other.
    ahead: Option<ResourceId>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum EffectState {
    /// It has not settled.
    #[default]
    Open,
    /// It changes nothing that others read.
    AtRest,
    /// It changes, or may change, objects that others read.
    Pending,
}

impl PredictedState {
    fn effect_state(&self, vertex: ResourceId) -> EffectState {
        self.effect_state.get(vertex.slot()).copied().unwrap_or_default()
    }

    fn is_empty(&self) -> bool {
        self.behind.is_empty()
    }
}

impl PredictedWorld {
    pub(crate) fn new(prepared: &Arc<Prepared>) -> PredictedWorld {
        PredictedWorld {
            prepared: Arc::clone(prepared),
            footprints: Footprints::of(prepared),
            order: Order::new(Arc::clone(&prepared.graph)),
            state: RwLock::default(),
        }
    }

    fn graph(&self) -> &Graph {
        &self.prepared.graph
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, PredictedState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, PredictedState> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the effects that the change of a resource would have.
    pub(crate) fn expect(&self, vertex: ResourceId, effects: Vec<Effect>) {
        if !effects.is_empty() {
            self.write().expected.insert(vertex, effects);
        }
    }

    /// Records the settlement of a resource. The checks of its dependents follow later.
    pub(crate) fn settled(&self, vertex: ResourceId, settlement: Disposition) {
        let mut state = self.write();
        let expected = state.expected.remove(&vertex).unwrap_or_default();
        let effects = match settlement {
            // A noop resource never changes.
            _ if self.prepared.resource(vertex).meta().is_some_and(kilter_model::Meta::is_observe_only) => Vec::new(),
            Disposition::WouldChange => expected,
            Disposition::WouldRefresh => self.reached(vertex),
            Disposition::Unknown => self.possible(vertex),
            _ => Vec::new(),
        };
        if state.effect_state.is_empty() {
            state.effect_state = vec![EffectState::Open; self.graph().len()];
        }
        state.effect_state[vertex.slot()] = if effects.is_empty() { EffectState::AtRest } else { EffectState::Pending };
        if !effects.is_empty() && state.behind.is_empty() {
            state.behind = vec![None; self.graph().len()];
        }
        if !state.behind.is_empty() {
            state.behind[vertex.slot()] = self.pending_parent(&state, vertex);
        }
        for effect in effects {
            self.take(&mut state, vertex, effect);
        }
    }

    /// Returns the effects of a refresh.
    fn reached(&self, vertex: ResourceId) -> Vec<Effect> {
        let capabilities = self.prepared.provider(vertex).capabilities();
        match capabilities.predict().side_effects(&self.prepared.resource(vertex).attributes) {
            SideEffects::Anything if capabilities.owner.is_none() => vec![Effect::Anything],
            _ => Vec::new(),
        }
    }

    /// Returns the effects of a resource that may change.
    fn possible(&self, vertex: ResourceId) -> Vec<Effect> {
        let (provider, resource) = (self.prepared.provider(vertex), self.prepared.resource(vertex));
        let capabilities = provider.capabilities();
        let mut effects = capabilities.effects_of(capabilities.predict().side_effects(&resource.attributes));
        footprints::written(provider, resource, &mut |path, _, how| {
            let is_kept = || std::fs::symlink_metadata(path).is_ok_and(|found| found.is_file());
            let node = match how {
                How::Aside if is_kept() => PathState::File { content: Content::Unknown, mode: None },
                _ => PathState::Unknown,
            };
            effects.push(Effect::Path { path: path.into(), node });
        });
        if let Some(type_name) =
            ["user", "group"].into_iter().find(|name| resource.reference.type_name.as_str() == *name)
        {
            effects.push(Effect::Account { type_name, name: resource.name.clone(), account: Account::Unknown });
        }
        effects
    }

    fn take(&self, state: &mut PredictedState, vertex: ResourceId, effect: Effect) {
        match effect {
            Effect::Anything => {
                state.commands.push(vertex);
                self.name_paths(state, vertex);
            }
            Effect::Brings => state.bringers.push(vertex),
            Effect::Account { type_name, name, account } => {
                state.accounts.insert((type_name, name.into()), (account, vertex));
            }
            Effect::Path { path, node } => {
                // Below an unpredictable path, every effect is unpredictable already.
                let Ok(found) = state.paths.resolve(&path, false) else { return };
                let is_later = |first: ResourceId| self.comes_before(first, vertex);
                state.paths.insert(found.place, node, vertex, &is_later);
            }
        }
    }

    /// Records the paths that a pending command names, links followed and not.
    fn name_paths(&self, state: &mut PredictedState, vertex: ResourceId) {
        let mut names = Vec::new();
        footprints::named(self.prepared.provider(vertex), self.prepared.resource(vertex), &mut |path| {
            for last in [false, true] {
                names.extend(state.paths.resolve(path, last).map(|found| found.place));
            }
        });
        names.sort_unstable();
        names.dedup();
        for name in names {
            state.named.entry(name).or_default().push(vertex);
        }
    }

    /// A pending command that comes before a resource, and names its path or a directory above.
    fn named_by(&self, state: &PredictedState, reader: ResourceId, place: &str) -> Option<ResourceId> {
        if state.named.is_empty() {
            return None;
        }
        let above = place.match_indices('/').map(|(at, _)| &place[..at]).filter(|above| !above.is_empty());
        let mut commands = above.chain([place]).filter_map(|at| state.named.get(at)).flatten();
        commands.find(|command| self.comes_before(**command, reader)).copied()
    }

    /// Returns true if a resource comes before another one and changes, or may change, objects that others read.
    pub(crate) fn is_pending_before(&self, first: ResourceId, second: ResourceId) -> bool {
        self.read().effect_state(first) == EffectState::Pending && self.comes_before(first, second)
    }

    /// Returns true if `first` comes before `second` in every run.
    fn comes_before(&self, first: ResourceId, second: ResourceId) -> bool {
        self.order.leads_to(first, second)
    }

    fn pending_parent(&self, state: &PredictedState, vertex: ResourceId) -> Option<ResourceId> {
        let parents = self.graph().incoming(vertex).iter().map(|id| self.graph().edge(*id).from);
        let pending = |parent: ResourceId| match state.effect_state(parent) {
            EffectState::Pending => Some(parent),
            _ => state.behind.get(parent.slot()).copied().flatten(),
        };
        parents.filter_map(pending).min()
    }

    fn because(&self, vertex: ResourceId, is_ordered: bool) -> Because {
        Because { resource: self.prepared.resource(vertex).reference.clone(), is_ordered }
    }

    fn after(&self, vertex: ResourceId, reader: ResourceId) -> Because {
        self.because(vertex, self.comes_before(vertex, reader))
    }

    /// Predicts the path that a resource itself manages.
    pub(crate) fn own(&self, reader: ResourceId, path: &str) -> Forecast<PathState> {
        let state = self.read();
        if let Some(by) = self.open_writer(&state, reader, Reads::Own, Some(path)) {
            return Forecast::Unknown(self.after(by, reader));
        }
        if state.is_empty() {
            return Forecast::Unchanged;
        }
        let place = match state.paths.resolve(path, false) {
            // A changed link leads to another file.
            Err(by) | Ok(Resolved { by_link: Some(by), .. }) => return Forecast::Unknown(self.after(by, reader)),
            Ok(found) => found.place,
        };
        match (self.recorded(&state, reader, &place), self.named_by(&state, reader, &place)) {
            (_, Some(command)) => Forecast::Unknown(self.because(command, true)),
            (recorded, None) => recorded.unwrap_or(Forecast::Unchanged),
        }
    }

    /// Returns the recorded prediction for a place; none if there is none.
    fn recorded(&self, state: &PredictedState, reader: ResourceId, place: &str) -> Option<Forecast<PathState>> {
        let (spot, by) = state.paths.find(place)?;
        if by == reader {
            return None;
        }
        let because = self.after(by, reader);
        Some(match spot {
            Spot::Unknown => Forecast::Unknown(because),
            Spot::Here(PathState::File { content: Content::Kept, mode: None }) => return None,
            // The path exists in any order.
            Spot::Here(node @ (PathState::Kept | PathState::File { content: Content::Unknown, mode: None })) => {
                Forecast::Changed(node.clone(), because)
            }
            // The path is absent before and after.
            Spot::Gone if std::fs::symlink_metadata(place).is_err() => Forecast::Changed(PathState::Absent, because),
            _ if !because.is_ordered => Forecast::Unknown(because),
            Spot::Here(node) => Forecast::Changed(node.clone(), because),
            Spot::Gone => Forecast::Changed(PathState::Absent, because),
        })
    }

    /// Predicts a path that a resource reads.
    pub(crate) fn node(&self, reader: ResourceId, path: &str) -> Forecast<PathState> {
        let state = self.read();
        if let Some(by) = self.open_writer(&state, reader, Reads::Others, Some(path)) {
            return Forecast::Unknown(self.after(by, reader));
        }
        if state.is_empty() {
            return Forecast::Unchanged;
        }
        let Resolved { place, by_link } = match state.paths.resolve(path, true) {
            Ok(found) => found,
            Err(by) => return Forecast::Unknown(self.after(by, reader)),
        };
        let recorded = self.recorded(&state, reader, &place);
        let written_by = state.paths.find(&place).map(|(_, by)| by).or_else(|| self.decided_by(&state, reader, &place));
        if let Some(command) = self.command_since(&state, reader, written_by) {
            return Forecast::Unknown(self.because(command, true));
        }
        // A package may also install a path below a directory that an earlier resource creates.
        let may_come = match &recorded {
            None => true,
            Some(Forecast::Changed(PathState::Absent, _)) => std::fs::symlink_metadata(&place).is_err(),
            Some(_) => false,
        };
        if may_come && let Some(by) = self.brought_by(&state, reader, path) {
            return Forecast::Unknown(self.after(by, reader));
        }
        let unordered = by_link.map(|by| self.after(by, reader)).filter(|because| !because.is_ordered);
        if let Some(because) = unordered {
            return Forecast::Unknown(because);
        }
        match (recorded, by_link) {
            (Some(Forecast::Changed(PathState::Kept, because)), Some(_)) => Forecast::Unknown(because),
            (Some(Forecast::Changed(PathState::File { content: Content::Kept, mode }, because)), Some(_)) => {
                Forecast::Changed(PathState::File { content: Content::Of(place.into()), mode }, because)
            }
            (Some(recorded), _) => recorded,
            (None, Some(by)) => led_to(&place, self.because(by, true)),
            (None, None) => Forecast::Unchanged,
        }
    }

    /// Returns a resource that determines the content of a path, has settled, and comes before the reader.
    fn decided_by(&self, state: &PredictedState, reader: ResourceId, place: &str) -> Option<ResourceId> {
        let by = self.footprints.decides(&self.prepared, place)?;
        (state.effect_state(by) != EffectState::Open && self.comes_before(by, reader)).then_some(by)
    }

    /// Returns a pending command that comes before a reader, and may write after the resource `written_by`.
    fn command_since(
        &self,
        state: &PredictedState,
        reader: ResourceId,
        written_by: Option<ResourceId>,
    ) -> Option<ResourceId> {
        let is_since = |command: ResourceId| match written_by {
            Some(by) => by != command && !self.comes_before(command, by),
            None => true,
        };
        let mut commands = state.commands.iter().copied().filter(|command| *command != reader);
        commands.find(|command| self.comes_before(*command, reader) && is_since(*command))
    }

    /// Returns a pending resource that owns a path, or that may install it if it is missing.
    fn brought_by(&self, state: &PredictedState, reader: ResourceId, path: &str) -> Option<ResourceId> {
        if state.bringers.is_empty() {
            return None;
        }
        let is_pending = |by: &&ResourceId| **by != reader && state.bringers.contains(by);
        let mut owners = self.footprints.owners_of(&self.prepared, path).iter().filter(is_pending);
        if let Some(by) = owners.find(|by| !self.order.follows(**by, reader)) {
            return Some(*by);
        }
        let is_missing = std::fs::symlink_metadata(path).is_err();
        let is_before = |by: &&ResourceId| **by != reader && self.comes_before(**by, reader);
        if is_missing { state.bringers.iter().find(is_before).copied() } else { None }
    }

    /// Returns a pending package that comes before a resource, and may install the object that the resource creates.
    pub(crate) fn brought_before(&self, reader: ResourceId) -> Option<Because> {
        let state = self.read();
        let by = state.bringers.iter().find(|by| **by != reader && self.comes_before(**by, reader))?;
        Some(self.because(*by, true))
    }

    /// Returns an earlier resource that changes an entry below a path.
    pub(crate) fn below(&self, reader: ResourceId, path: &str, is_meant: &dyn Fn(&str) -> bool) -> Option<Because> {
        let state = self.read();
        if let Some(by) = self.open_writer(&state, reader, Reads::Others, None) {
            return Some(self.after(by, reader));
        }
        let is_ahead = state.ahead == Some(reader);
        if state.is_empty() && !is_ahead {
            return None;
        }
        let place = match state.paths.resolve(path, true) {
            Ok(Resolved { place, by_link: None }) => place,
            Err(by) | Ok(Resolved { by_link: Some(by), .. }) => return Some(self.after(by, reader)),
        };
        let is_meant = |entry: &str| {
            // Names are compared as declared; both have the same links above.
            let rest = entry.strip_prefix(place.as_str()).unwrap_or_default();
            is_meant(&format!("{}{rest}", path.trim_end_matches('/')))
        };
        let changed = state.paths.below(&place).find(|(entry, by)| *by != reader && is_meant(entry));
        let may_change = || {
            let mut writers = self.footprints.writers_below(&self.prepared, &place).filter(|_| is_ahead);
            writers.find(|(entry, by)| *by != reader && is_meant(entry) && self.is_open_for(&state, *by, reader))
        };
        let named = || {
            let from = (Bound::Excluded(format!("{}/", place.trim_end_matches('/'))), Bound::Unbounded);
            let entries = state.named.range::<String, _>(from);
            let mut entries =
                entries.take_while(|(entry, _)| entry.starts_with(&format!("{}/", place.trim_end_matches('/'))));
            entries.find_map(|(entry, commands)| {
                let mut commands = commands.iter().filter(|_| is_meant(entry));
                Some((entry.as_str(), *commands.find(|command| self.comes_before(**command, reader))?))
            })
        };
        let (_, by) = changed.or_else(may_change).or_else(named)?;
        Some(self.after(by, reader))
    }

    /// Predicts a user or a group.
    pub(crate) fn account(&self, reader: ResourceId, type_name: &str, name: &str) -> Forecast<Account> {
        let state = self.read();
        if state.accounts.is_empty() {
            return Forecast::Unchanged;
        }
        let type_name = if type_name == "group" { "group" } else { "user" };
        let Some((account, by)) = state.accounts.get(&(type_name, name.to_owned())) else { return Forecast::Unchanged };
        let because = self.after(*by, reader);
        match account {
            Account::Unknown => Forecast::Unknown(because),
            _ if !because.is_ordered => Forecast::Unknown(because),
            account => Forecast::Changed(*account, because),
        }
    }

    /// Returns a resource whose change may alter the result of a command.
    pub(crate) fn command(&self, reader: ResourceId, text: &str, cwd: Option<&str>) -> Option<Because> {
        let state = self.read();
        if let Some(by) = self.open_writer(&state, reader, Reads::Others, None) {
            return Some(self.after(by, reader));
        }
        if state.is_empty() {
            return None;
        }
        if let Some(by) = self.pending_parent(&state, reader) {
            return Some(self.because(by, true));
        }
        footprints::paths_in(text, cwd).into_iter().find_map(|path| {
            let by = match state.paths.resolve(&path, true) {
                Err(by) | Ok(Resolved { by_link: Some(by), .. }) => by,
                Ok(found) => match state.paths.find(&found.place) {
                    Some((_, by)) => by,
                    None => {
                        let entry = state.paths.below(&found.place).next().map(|(_, by)| by);
                        entry.or_else(|| self.brought_by(&state, reader, &path))?
                    }
                },
            };
            (by != reader).then(|| self.after(by, reader))
        })
    }

    /// Returns a resource that may write a path, according to its declaration, and need not come after the reader.
    pub(crate) fn writer(&self, reader: ResourceId, path: &str) -> Option<Because> {
        let mut writers = self.footprints.writers_at(&self.prepared, path).filter(|by| *by != reader);
        let by = writers.find(|by| !self.order.follows(*by, reader))?;
        Some(self.after(by, reader))
    }

    /// Returns a pending resource that may install an object which another one misses.
    pub(crate) fn bringer(&self, reader: ResourceId) -> Option<Because> {
        self.bringer_before(reader).map(|by| self.because(by, true))
    }

    /// Returns a pending resource that comes before another one, and may install an object which that one misses.
    pub(crate) fn bringer_before(&self, reader: ResourceId) -> Option<ResourceId> {
        let state = self.read();
        let mut all = state.commands.iter().chain(&state.bringers).copied();
        all.find(|by| *by != reader && self.comes_before(*by, reader))
    }

    /// Returns true if a writer of a path that this resource reads has not settled, and is not ordered after it.
    pub(crate) fn has_to_wait(&self, reader: ResourceId) -> bool {
        self.waits_for(reader, Reads::All)
    }

    /// Returns true if the type of a resource names paths, so that its predicted state may depend on other resources.
    pub(crate) fn may_depend_on_others(&self, reader: ResourceId) -> bool {
        let resource = self.prepared.resource(reader);
        let mut names_path = false;
        let predict = self.prepared.provider(reader).capabilities().predict();
        predict.footprint(&resource.name, &resource.attributes, &mut |_| names_path = true);
        names_path
    }

    /// Returns true if it only has to wait for writers of its own paths.
    pub(crate) fn waits_for_own_paths(&self, reader: ResourceId) -> bool {
        !self.waits_for(reader, Reads::Others)
    }

    fn waits_for(&self, reader: ResourceId, which: Reads) -> bool {
        if !self.footprints.reads(reader) {
            return false;
        }
        let state = self.read();
        let writers = self.footprints.writers_for(&self.prepared, &state.paths, reader, which);
        writers.iter().any(|writer| self.is_open_for(&state, writer.by, reader))
    }

    fn is_open_for(&self, state: &PredictedState, by: ResourceId, reader: ResourceId) -> bool {
        state.effect_state(by) == EffectState::Open && !self.order.follows(by, reader)
    }

    /// Records that a resource is checked first, because it and others wait for each other.
    pub(crate) fn goes_ahead(&self, vertex: ResourceId) {
        self.write().ahead = Some(vertex);
    }

    /// Returns an unsettled resource that may change a path of a reader which is checked first.
    fn open_writer(
        &self,
        state: &PredictedState,
        reader: ResourceId,
        which: Reads,
        path: Option<&str>,
    ) -> Option<ResourceId> {
        if state.ahead != Some(reader) {
            return None;
        }
        let is_missing = path.is_none_or(|path| std::fs::symlink_metadata(path).is_err());
        let mut writers = self.footprints.writers_for(&self.prepared, &state.paths, reader, which).into_iter();
        // Changes of others at the reader's own path count only if they create it.
        let may_change = |how: How| match how {
            How::Own => which == Reads::Others,
            How::IfMissing => is_missing,
            How::Aside => true,
        };
        writers
            .find(|writer| may_change(writer.how) && self.is_open_for(state, writer.by, reader))
            .map(|writer| writer.by)
    }
}

/// Predicts the target of a changed link, which no resource changes itself.
fn led_to(place: &str, because: Because) -> Forecast<PathState> {
    match std::fs::symlink_metadata(place) {
        Ok(found) if found.is_file() => {
            Forecast::Changed(PathState::File { content: Content::Of(place.into()), mode: None }, because)
        }
        Ok(_) => Forecast::Unknown(because),
        Err(_) => Forecast::Changed(PathState::Absent, because),
    }
}
