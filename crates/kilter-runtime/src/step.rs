//! Calls of a provider for the resources of one batch, on any thread.

use std::cell::LazyCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ecow::{EcoString, eco_format};
use kilter_engine::ResourceId;
use kilter_model::{Attributes, Change, Difference, Feature, Outcome, ReceivedValue, Resource, State, Value};
use kilter_provider::{
    Context, Effect, Found, INSYNC_TRIGGER, Mode, ProcessList, Provider, ProviderError, Redactor, Wanted,
};
use rustc_hash::{FxHashMap, FxHashSet};

/// Maximum number of resources whose states are held in memory at the same time.
pub(crate) const CHUNK: usize = 64;

/// Additional result of a read.
#[derive(Debug, Default)]
pub(crate) struct Read {
    /// States of other resources.
    pub(crate) states: Vec<State>,
    /// Requested names of absent resources.
    pub(crate) missing: Vec<EcoString>,
    /// True if everything was read.
    pub(crate) all: bool,
}

/// Declared attributes with received outputs.
#[derive(Debug)]
pub(crate) struct ResolvedInputs {
    pub(crate) attributes: Attributes,
    pub(crate) receipts: Box<[ReceivedValue]>,
    /// Received outputs without conversion, one for each receipt.
    pub(crate) sent: Box<[Value]>,
}

/// Resource to check or change. It shares its declaration, so that it outlives an edit.
pub(crate) struct Job {
    pub(crate) vertex: ResourceId,
    pub(crate) resource: Arc<Resource>,
    /// Declared attributes with received outputs; none if the resource receives none.
    pub(crate) resolved: Option<Arc<ResolvedInputs>>,
    /// Result of the last check; only for changes.
    pub(crate) found: Option<Found>,
    /// True if a refresh is pending, or would be in a plan.
    pub(crate) refresh: bool,
    /// True if other resources use its outputs.
    pub(crate) sends: bool,
    /// True if it is not changed.
    pub(crate) noop: bool,
    /// True if its provider previews the change: for noop resources, and for resources whose change a plan shows.
    pub(crate) previewed: bool,
    /// True if the run makes or carries out a plan, so that the basis of the change is needed.
    pub(crate) based: bool,
    /// True if its own declaration forbids changes, in every run.
    pub(crate) left: bool,
}

impl Job {
    pub(crate) fn name(&self) -> &EcoString {
        &self.resource.name
    }

    /// Returns the declared attributes, with received outputs.
    pub(crate) fn should(&self) -> &Attributes {
        self.resolved.as_ref().map_or(&self.resource.attributes, |resolved| &resolved.attributes)
    }

    /// Returns the received outputs.
    fn received(&self) -> &[ReceivedValue] {
        self.resolved.as_ref().map_or(&[], |resolved| &resolved.receipts)
    }

    fn wanted(&self) -> Wanted<'_> {
        // After a change, the refresh is done.
        let refresh = self.refresh && self.found.is_none();
        let wanted = Wanted::new(self.name(), Some(self.should())).receiving(self.received());
        wanted.with_noop(self.noop).with_refresh(refresh)
    }

    /// Returns the change from the state `found` to the declared state.
    fn change<'a>(&'a self, found: &'a Found) -> Change<'a> {
        Change {
            name: self.name(),
            is: &found.state,
            should: Some(self.should()),
            differences: &found.differences,
            refresh: self.refresh && self.found.is_some(),
            received: self.received(),
        }
    }

    /// Returns the result of a check. For a resource in sync, it keeps only the outputs that others use.
    fn checked(&self, provider: &dyn Provider, cx: &Context<'_>, result: Result<Found, ProviderError>) -> CallResult {
        let mut result = result.map_err(|error| error.message);
        let basis = match &result {
            Ok(found) if self.based && !found.differences.is_empty() => {
                catch_panic(provider, || provider.capabilities().predict().basis(cx, self.wanted(), found))
            }
            _ => Ok(None),
        };
        let basis = basis.unwrap_or_else(|why| {
            result = Err(why);
            None
        });
        if let Ok(found) = &mut result
            && found.differences.is_empty()
            && found.state.unknown.is_empty()
        {
            found.state.attributes = Attributes::new();
            if !self.sends {
                found.state.outputs = Attributes::new();
            }
        }
        let (vertex, duration) = (self.vertex, Duration::ZERO);
        let (effects, processes) = (Vec::new(), ProcessList::default());
        CallResult { vertex, result, outcome: None, differences: Vec::new(), basis, effects, processes, duration }
    }
}

/// Result for one resource.
pub(crate) struct CallResult {
    pub(crate) vertex: ResourceId,
    pub(crate) result: Result<Found, EcoString>,
    /// Outcome of a change, or of its preview; none after a mere check.
    pub(crate) outcome: Option<Outcome>,
    /// Differences before the change.
    pub(crate) differences: Vec<Difference>,
    /// Digest of the state that a change reads and replaces; only for checks with plans.
    pub(crate) basis: Option<Value>,
    /// Effects of the change, in a plan.
    pub(crate) effects: Vec<Effect>,
    /// Processes that the provider started for it.
    pub(crate) processes: ProcessList,
    pub(crate) duration: Duration,
}

/// Checks each resource separately.
pub(crate) fn check(provider: &dyn Provider, cx: &Context<'_>, items: &[Job], done: &mut Vec<CallResult>) {
    let check = |item: &Job| {
        let result = catch_panic(provider, || kilter_provider::check_one(provider, cx, item.wanted()));
        result.unwrap_or_else(|why| Err(ProviderError::new(&*why)))
    };
    if !previews(provider, items) {
        let first = done.len();
        done.extend(items.iter().map(|item| {
            let result = item.checked(provider, cx, check(item));
            CallResult { processes: cx.take_processes(), ..result }
        }));
        return predict(provider, cx, items, &mut done[first..]);
    }
    for chunk in items.chunks(CHUNK) {
        let first = done.len();
        let results = chunk.iter().map(check).collect();
        preview(provider, cx, chunk, results, done);
        predict(provider, cx, chunk, &mut done[first..]);
    }
}

/// Adds the effects that the changes of a plan would have.
fn predict(provider: &dyn Provider, cx: &Context<'_>, items: &[Job], done: &mut [CallResult]) {
    if !cx.is_noop() {
        return;
    }
    for (item, done) in items.iter().zip(done).filter(|(item, _)| item.noop && !item.left) {
        let Ok(found) = &done.result else { continue };
        if found.differences.is_empty() || !found.state.unknown.is_empty() {
            continue;
        }
        done.effects = catch_panic(provider, || provider.capabilities().effects(cx, &item.change(found)))
            .unwrap_or_else(|_| vec![Effect::Anything]);
    }
}

/// Checks resources, and reads all unknown states with one call, together with those of `ahead`. Returns the
/// additional states.
///
/// # Errors
/// The reason why the provider cannot read at all. It is the result of each item, too.
pub(crate) fn check_together(
    provider: &dyn Provider,
    cx: &Context<'_>,
    mut items: Vec<(Job, Option<State>)>,
    ahead: &[Job],
    done: &mut Vec<CallResult>,
) -> Result<Read, EcoString> {
    let mut rest = Read::default();
    if items.iter().any(|(_, state)| state.is_none()) {
        let asked = items.iter().filter(|(_, state)| state.is_none()).map(|(item, _)| item);
        let wanted: Vec<Wanted<'_>> = asked.chain(ahead).map(Job::wanted).collect();
        let states = catch_panic(provider, || kilter_provider::read(provider, cx, &wanted));
        let states = states.and_then(|states| states.map_err(|error| error.message));
        let states = states.map_err(|why| {
            let seal = Redactor::of_all(wanted.iter().filter_map(|one| one.should));
            let (why, processes) = (seal.redact(why), cx.take_processes().redacted(&seal));
            let vertices: Vec<ResourceId> = items.iter().map(|(item, _)| item.vertex).collect();
            let failed = failed(&vertices, &why).into_iter();
            done.extend(failed.map(|one| CallResult { processes: processes.clone(), ..one }));
            why
        })?;
        let mut states: FxHashMap<EcoString, State> =
            states.into_iter().map(|state| (state.name.clone(), state)).collect();
        for (item, state) in items.iter_mut().filter(|(_, state)| state.is_none()) {
            *state = Some(states.remove(item.name()).unwrap_or_else(|| State::absent(item.name().clone())));
        }
        rest.all = !provider.schema().has(Feature::SimpleGetFilter);
        rest.missing =
            ahead.iter().filter(|item| !states.contains_key(item.name())).map(|i| i.name().clone()).collect();
        rest.states = states.into_values().collect();
    }
    let (items, states): (Vec<_>, Vec<_>) = items.into_iter().unzip();
    let compared = items.iter().zip(states).map(|(item, state)| {
        let state = state.expect("every state that was not known has been read");
        let found = catch_panic(provider, || kilter_provider::check_state(provider, cx, state, item.wanted()));
        found.unwrap_or_else(|why| Err(ProviderError::new(&*why)))
    });
    let results: Vec<_> = compared.collect();
    let first = done.len();
    if previews(provider, &items) {
        preview(provider, cx, &items, results, done);
    } else {
        done.extend(items.iter().zip(results).map(|(item, result)| item.checked(provider, cx, result)));
    }
    let processes = shared_processes(cx, &items);
    done[first..].iter_mut().zip(processes).for_each(|(one, processes)| one.processes = processes);
    predict(provider, cx, &items, &mut done[first..]);
    Ok(rest)
}

/// Returns true if the provider previews a change of one of these.
pub(crate) fn previews(provider: &dyn Provider, items: &[Job]) -> bool {
    provider.schema().has(Feature::SupportsNoop) && items.iter().any(|item| item.previewed)
}

/// Returns the same failure for each resource.
pub(crate) fn failed(vertices: &[ResourceId], why: &EcoString) -> Vec<CallResult> {
    let failed = |vertex: &ResourceId| CallResult {
        vertex: *vertex,
        result: Err(why.clone()),
        outcome: None,
        differences: Vec::new(),
        basis: None,
        effects: Vec::new(),
        processes: ProcessList::default(),
        duration: Duration::ZERO,
    };
    vertices.iter().map(failed).collect()
}

/// Adds previews to the results of checks: other changes, and certain failures.
///
/// A certain failure fails the resource (Puppet Resource API, "supports_noop"), except for resources that are never
/// changed.
fn preview(
    provider: &dyn Provider,
    cx: &Context<'_>,
    items: &[Job],
    results: Vec<Result<Found, ProviderError>>,
    done: &mut Vec<CallResult>,
) {
    let differs = |found: &&Found| !found.differences.is_empty() && found.state.unknown.is_empty();
    let (places, changes): (Vec<usize>, Vec<Change<'_>>) = items
        .iter()
        .zip(&results)
        .enumerate()
        .filter(|(_, (item, _))| item.previewed)
        .filter_map(|(at, (item, result))| {
            let found = result.as_ref().ok().filter(differs)?;
            Some((at, item.change(found)))
        })
        .unzip();
    let outcomes = match changes.is_empty() {
        true => Ok(Vec::new()),
        false => catch_panic(provider, || provider.set(cx, &changes, Mode::Preview)),
    };
    let outcomes = answered(outcomes, &changes);
    let first = done.len();
    done.extend(items.iter().zip(results).map(|(item, result)| item.checked(provider, cx, result)));
    for (at, mut outcome) in places.into_iter().zip(outcomes) {
        let answer = &mut done[first + at];
        match &outcome.failure {
            Some(why) if items[at].left => outcome.notes.push(eco_format!("it could not be changed: {why}")),
            Some(why) => answer.result = Err(why.clone()),
            None => {}
        }
        answer.outcome = Some(outcome);
    }
}

/// Changes each resource, and checks each changed one again. A resource that is still out of sync has failed.
pub(crate) fn apply(provider: &dyn Provider, cx: &Context<'_>, items: Vec<Job>, done: &mut Vec<CallResult>) {
    let start = Instant::now();
    let changes: Vec<Change<'_>> = items.iter().filter_map(|item| Some(item.change(item.found.as_ref()?))).collect();
    assert_eq!(changes.len(), items.len(), "what is changed was checked before");
    let outcomes = catch_panic(provider, || provider.set(cx, &changes, Mode::Apply));
    let outcomes = answered(outcomes, &changes);
    let again: Vec<(&Job, &str)> = items
        .iter()
        .zip(&outcomes)
        .filter(|(_, outcome)| outcome.is_done())
        .map(|(item, outcome)| (item, outcome.by.as_str()))
        .collect();
    let mut checked = recheck(provider, cx, &again).into_iter();
    let mut processes = shared_processes(cx, &items).into_iter();
    let each = start.elapsed() / items.len().max(1) as u32;
    for (item, mut outcome) in items.into_iter().zip(outcomes) {
        let mut result = match &outcome.failure {
            Some(why) => Err(why.clone()),
            None => checked.next().expect("every change that succeeded was checked again"),
        };
        if let (Ok(found), true) = (&mut result, outcome.outputs.is_empty()) {
            // The outputs may be part of the state.
            outcome.outputs = std::mem::take(&mut found.state.outputs);
        }
        let processes = processes.next().unwrap_or_default();
        let (differences, acted) =
            item.found.map(|found| (found.differences, found.acts_on_refresh)).unwrap_or_default();
        if let Ok(found) = &mut result {
            // The change itself may have made a refresh needless.
            found.acts_on_refresh &= acted;
        }
        done.push(CallResult {
            vertex: item.vertex,
            result,
            outcome: Some(outcome),
            differences,
            basis: None,
            effects: Vec::new(),
            processes,
            duration: each,
        });
    }
}

/// Returns the processes of each resource of a call. They must not show the secrets of another one.
fn shared_processes(cx: &Context<'_>, items: &[Job]) -> Vec<ProcessList> {
    let processes = cx.take_processes();
    match items {
        _ if processes.is_empty() => Vec::new(),
        [_] => vec![processes],
        items => {
            let processes = processes.redacted(&Redactor::of_all(items.iter().map(Job::should)));
            let names: FxHashSet<&str> = items.iter().map(|item| item.name().as_str()).collect();
            items.iter().map(|item| processes.about(item.name(), |name| names.contains(name))).collect()
        }
    }
}

/// Returns one outcome for each change, for any answer of the provider. A common failure of several changes must
/// not show the secrets of any of them.
fn answered(outcomes: Result<Vec<Outcome>, EcoString>, changes: &[Change<'_>]) -> Vec<Outcome> {
    let count = changes.len();
    let mut outcomes = match outcomes {
        Ok(outcomes) if outcomes.len() == count => outcomes,
        Ok(outcomes) => {
            vec![Outcome::failed(eco_format!("the provider answered {} of {count} changes", outcomes.len())); count]
        }
        Err(why) => vec![Outcome::failed(why); count],
    };
    if outcomes.iter().any(|outcome| !outcome.is_done()) {
        let seal = Redactor::of_all(changes.iter().filter_map(|change| change.should));
        for outcome in &mut outcomes {
            outcome.failure = outcome.failure.take().map(|why| seal.redact(why));
        }
    }
    outcomes
}

/// Checks resources again after their changes. `by` names the author of each change.
fn recheck(provider: &dyn Provider, cx: &Context<'_>, items: &[(&Job, &str)]) -> Vec<Result<Found, EcoString>> {
    let mut all = Vec::with_capacity(items.len());
    if provider.capabilities().read_one.is_some() {
        all.extend(items.iter().map(|(item, by)| {
            let result = catch_panic(provider, || kilter_provider::check_one(provider, cx, item.wanted()))?;
            settled(result.map_err(|error| error.message), by)
        }));
        return all;
    }
    if items.is_empty() {
        return all;
    }
    // It makes one call for all, because a provider that cannot filter reads everything in each call.
    let wanted: Vec<Wanted<'_>> = items.iter().map(|(item, _)| item.wanted()).collect();
    let results = match catch_panic(provider, || kilter_provider::check(provider, cx, &wanted)) {
        Ok(results) => {
            let results = results.into_iter().zip(items);
            results.map(|(result, (_, by))| settled(result.map_err(|error| error.message), by)).collect()
        }
        Err(why) => vec![Err(why); items.len()],
    };
    let seal = LazyCell::new(|| Redactor::of_all(wanted.iter().filter_map(|one| one.should)));
    all.extend(results.into_iter().map(|result| result.map_err(|why| seal.redact(why))));
    all
}

/// Fails a resource that is still out of sync after its change.
///
/// A difference of the resource as a whole is ignored, because it only requested the change.
fn settled(result: Result<Found, EcoString>, by: &str) -> Result<Found, EcoString> {
    let mut found = result?;
    found.differences.retain(|difference| difference.attribute != *INSYNC_TRIGGER);
    if found.differences.is_empty() {
        found.state.attributes = Attributes::new();
        return Ok(found);
    }
    let by = if by.is_empty() { EcoString::new() } else { eco_format!(" ({by})") };
    Err(eco_format!("still not in its state after the change: {}{by}", remaining(&found.differences)))
}

/// Maximum number of characters of the remaining differences in a message.
const LEFT: usize = 600;

/// Describes the remaining differences, up to a readable length.
fn remaining(differences: &[Difference]) -> String {
    let mut left = described(&differences[0]);
    for (at, difference) in differences.iter().enumerate().skip(1) {
        let next = described(difference);
        if left.chars().count() + next.chars().count() > LEFT {
            return format!("{left}; and {} more", differences.len() - at);
        }
        left = format!("{left}; {next}");
    }
    left
}

fn described(difference: &Difference) -> String {
    let entry = difference.entry.as_ref().map(|entry| format!("{entry}: ")).unwrap_or_default();
    match &difference.message {
        Some(message) => format!("{entry}{}: {}", difference.attribute, shortened(message, 400)),
        None => format!(
            "{entry}{} is {}, should be {}",
            difference.attribute,
            shortened(&difference.is.to_string(), 200),
            shortened(&difference.should.to_string(), 200)
        ),
    }
}

/// Shortens a text in the middle if it has more characters than `most`, and adds their number.
fn shortened(text: &str, most: usize) -> String {
    let count = text.chars().count();
    if count <= most {
        return text.to_owned();
    }
    let ends = most / 2;
    let (beginning, end): (String, String) =
        (text.chars().take(ends).collect(), text.chars().skip(count - ends).collect());
    format!("{beginning}…{end} ({count} characters)")
}

/// Refreshes each resource.
pub(crate) fn refresh(provider: &dyn Provider, cx: &Context<'_>, items: &[Job], done: &mut Vec<CallResult>) {
    for item in items {
        let start = Instant::now();
        let none = || Outcome::failed("its provider cannot refresh it");
        let refresh =
            || provider.capabilities().refresh.map_or_else(none, |refresh| refresh.refresh(cx, item.wanted()));
        let outcome = catch_panic(provider, refresh).unwrap_or_else(Outcome::failed);
        let result = match &outcome.failure {
            Some(why) => Err(why.clone()),
            None => Ok(Found { state: kilter_model::State::default(), differences: Vec::new(), acts_on_refresh: true }),
        };
        let duration = start.elapsed();
        done.push(CallResult {
            vertex: item.vertex,
            result,
            outcome: Some(outcome),
            differences: Vec::new(),
            basis: None,
            effects: Vec::new(),
            processes: cx.take_processes(),
            duration,
        });
    }
}

/// Returns the results of a batch that was lost to a panic outside of its provider.
pub(crate) fn lost(vertices: &[ResourceId]) -> Vec<CallResult> {
    failed(vertices, &"kilter failed in handling this resource: this is a defect of kilter".into())
}

/// Converts a panic of a provider to a failure of its own resources.
pub(crate) fn catch_panic<T>(provider: &dyn Provider, call: impl FnOnce() -> T) -> Result<T, EcoString> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
        let said = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let said = said.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        eco_format!("the provider `{}` of {} panicked: {said}", provider.name(), provider.schema().name)
    })
}
