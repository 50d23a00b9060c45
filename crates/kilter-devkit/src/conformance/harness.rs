//! Test sandboxes for the laws. They declare, read and change resources as the engine does.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ecow::EcoString;
use kilter_model::{Attributes, Behaviour, Change, Difference, Outcome, State, TypeSchema, Value};

use super::fingerprint;
use super::interrupt::{CancelToken, Halt};
use super::specimen::Sample;
use super::subject::{Subject, Unsupported};
use kilter_provider::canonicalize_one;
use kilter_provider::compare;
use kilter_provider::read;
use kilter_provider::{Batch, Mode, Provider, Query, Wanted};
use kilter_provider::{Context, Level, Log};

/// Reason why the trial of a law ended early.
#[derive(Debug)]
pub(super) enum EarlyEnd {
    Broken(String),
    NotApplicable(String),
    Untried(String),
}

impl EarlyEnd {
    /// Returns the observation or the reason.
    pub(super) fn why(self) -> String {
        let (EarlyEnd::Broken(why) | EarlyEnd::NotApplicable(why) | EarlyEnd::Untried(why)) = self;
        why
    }
}

/// Result of a trial: the law holds, with an optional note, or the trial ended early.
pub(super) type Trial = Result<Option<String>, EarlyEnd>;

/// Ends a trial because the law is broken.
pub(super) fn broken<T>(seen: impl Into<String>) -> Result<T, EarlyEnd> {
    Err(EarlyEnd::Broken(seen.into()))
}

/// Ends a trial because the law does not apply.
pub(super) fn not_applicable<T>(why: impl Into<String>) -> Result<T, EarlyEnd> {
    Err(EarlyEnd::NotApplicable(why.into()))
}

/// Ends a trial because it is impossible to run.
pub(super) fn untried<T>(why: impl Into<String>) -> Result<T, EarlyEnd> {
    Err(EarlyEnd::Untried(why.into()))
}

/// Factory for test sandboxes.
pub(super) struct Harness {
    pub(super) make: Arc<dyn Fn() -> Subject + Send + Sync>,
    pub(super) soon: Duration,
    /// Cancels the trial.
    pub(super) halt: Arc<Halt>,
}

impl Harness {
    /// Creates a sandbox.
    pub(super) fn world(&self) -> Result<ProviderUnderTest, EarlyEnd> {
        let alarm = self.halt.alarm().or_else(|error| untried(format!("there is no pair of sockets: {error}")))?;
        let world = ProviderUnderTest { subject: (self.make)(), lines: CapturedLog::default(), alarm };
        if world.subject.specimens().is_empty() {
            return untried("the subject has no specimen");
        }
        match world.provider().capabilities().session().open(&world.cx()) {
            Ok(()) => Ok(world),
            Err(error) => untried(format!("the provider cannot be opened: {error}")),
        }
    }

    /// Creates a sandbox with all specimens. A provider that accepts several changes at once creates them in one call.
    pub(super) fn made(&self) -> Result<ProviderUnderTest, EarlyEnd> {
        let world = self.world()?;
        world.arrange_all(world.subject.specimens())?;
        Ok(world)
    }

    /// Creates a sandbox without specimens and one with all of them, for laws about fingerprints.
    pub(super) fn fingerprinted(&self) -> Result<[ProviderUnderTest; 2], EarlyEnd> {
        self.fingerprinted_by(ProviderUnderTest::arrange_all)
    }

    /// Like [`Harness::fingerprinted`], with each specimen created by calls of its own.
    pub(super) fn fingerprinted_one_by_one(&self) -> Result<[ProviderUnderTest; 2], EarlyEnd> {
        self.fingerprinted_by(ProviderUnderTest::arrange_each)
    }

    /// Creates two sandboxes, and the specimens in the second one. Ends the trial if the fingerprints are unusable:
    /// they must be equal for equal sandboxes, and different for sandboxes with and without specimens.
    fn fingerprinted_by(
        &self,
        arrange: fn(&ProviderUnderTest, &[Sample]) -> Result<(), EarlyEnd>,
    ) -> Result<[ProviderUnderTest; 2], EarlyEnd> {
        let [fresh, made] = [self.world()?, self.world()?];
        let before = fresh.subject.fingerprint();
        if let Some(change) = fingerprint::unlike(&before, &made.subject.fingerprint()) {
            let why = "the fingerprints of two fresh sandboxes differ: they contain times or random paths";
            return untried(format!("{why}{change}"));
        }
        arrange(&made, made.subject.specimens())?;
        if before == made.subject.fingerprint() {
            return not_applicable("making the specimens leaves no trace in the fingerprint of the sandbox");
        }
        Ok([fresh, made])
    }
}

/// A declared resource in canonical form.
#[derive(Clone, Debug)]
pub(super) struct DeclaredCase {
    pub(super) name: EcoString,
    pub(super) should: Attributes,
}

impl DeclaredCase {
    pub(super) fn wanted(&self) -> Wanted<'_> {
        Wanted::new(&self.name, Some(&self.should))
    }
}

/// A subject, with the log and the interrupt of its provider.
pub(super) struct ProviderUnderTest {
    pub(super) subject: Subject,
    pub(super) lines: CapturedLog,
    alarm: Arc<CancelToken>,
}

impl ProviderUnderTest {
    pub(super) fn provider(&self) -> &dyn Provider {
        self.subject.provider()
    }

    pub(super) fn schema(&self) -> &TypeSchema {
        self.provider().schema()
    }

    pub(super) fn cx(&self) -> Context<'_> {
        let cx = Context::empty().with_log(&self.lines).with_interrupt(self.alarm.interrupt());
        cx.with_var_dir(self.subject.kept_in())
    }

    /// Raises the interrupt.
    pub(super) fn interrupt(&self) {
        self.alarm.cancel();
    }

    /// Resets the interrupt, as a new run would.
    pub(super) fn calm(&self) {
        self.alarm.calm();
    }

    /// Ends the trial if the subject excuses `lack`.
    pub(super) fn needs(&self, lack: Unsupported) -> Result<(), EarlyEnd> {
        self.subject.reason(lack).map_or(Ok(()), not_applicable)
    }

    /// Completes a declaration as for a manifest, validates it and returns its canonical form.
    ///
    /// # Errors
    /// The first problem of the declaration.
    pub(super) fn declare(&self, specimen: &Sample, given: &Attributes) -> Result<DeclaredCase, String> {
        let declared = self.complete(specimen, given)?;
        for (name, value) in declared.should.iter() {
            let Some(attribute) = self.schema().find(name.as_str()) else {
                return Err(format!("`{name}` is not an attribute of the type"));
            };
            attribute.data_type.check(value).map_err(|mismatch| format!("{name} {mismatch}"))?;
        }
        let problems = self.provider().validate(&declared.name, &declared.should, &[]);
        match problems.first() {
            Some(problem) => Err(problem.to_string()),
            None => self.canonical(declared),
        }
    }

    /// Returns the canonical form of a declaration.
    pub(super) fn canonical(&self, mut declared: DeclaredCase) -> Result<DeclaredCase, String> {
        let DeclaredCase { name, should } = &mut declared;
        match canonicalize_one(self.provider(), &self.cx(), name, should) {
            Ok(()) => Ok(declared),
            Err(problems) => Err(problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")),
        }
    }

    /// Adds namevars, `ensure` and the defaults to a declaration.
    pub(super) fn complete(&self, specimen: &Sample, given: &Attributes) -> Result<DeclaredCase, String> {
        let schema = self.schema();
        let mut should = specimen.namevars(schema);
        let name = schema.key(&should).ok_or("a namevar has no value")?;
        given.iter().for_each(|(name, value)| should.set(name.clone(), value.clone()));
        for attribute in &schema.attributes {
            let is_given = should.iter().any(|(name, _)| *name == attribute.name);
            let is_settable = !matches!(attribute.behaviour, Behaviour::Namevar | Behaviour::ReadOnly);
            if let (false, true, Some(default)) = (is_given, is_settable, &attribute.default) {
                should.push(attribute.name.clone(), default.clone());
            }
        }
        let present = Value::from("present");
        if let Some(ensure) = schema.find("ensure")
            && should.get("ensure").is_none()
            && ensure.data_type.check(&present).is_ok()
            && self.says_present()
        {
            should.push("ensure", present);
        }
        Ok(DeclaredCase { name, should })
    }

    /// Returns true if `ensure` accepts only `present` and `absent`. Otherwise, a provider may derive it.
    fn says_present(&self) -> bool {
        let words = self.schema().find("ensure").map(|ensure| ensure.data_type.allowed()).unwrap_or_default();
        words.len() == 2
    }

    /// Returns the first declaration of a specimen.
    pub(super) fn first(&self, specimen: &Sample) -> Result<DeclaredCase, EarlyEnd> {
        self.valid_declaration(specimen, specimen.first())
    }

    /// Returns a declaration that must be valid according to the author of the subject.
    pub(super) fn valid_declaration(&self, specimen: &Sample, given: &Attributes) -> Result<DeclaredCase, EarlyEnd> {
        self.declare(specimen, given).or_else(|why| untried(format!("the specimen is not valid: {why}")))
    }

    /// Declares a specimen as absent. Returns none if the type does not support this.
    pub(super) fn absence(&self, specimen: &Sample) -> Result<Option<DeclaredCase>, EarlyEnd> {
        let absent = Value::from("absent");
        let schema = self.schema();
        if schema.find("ensure").is_none_or(|ensure| ensure.data_type.check(&absent).is_err()) {
            return Ok(None);
        }
        let steers = |name: &str| schema.find(name).is_some_and(|found| found.behaviour == Behaviour::Parameter);
        let mut given = match specimen.removal() {
            Some(removal) => removal.clone(),
            None => specimen.first().iter().filter(|(name, _)| steers(name.as_str())).map(owned).collect(),
        };
        given.set("ensure", absent);
        self.valid_declaration(specimen, &given).map(Some)
    }

    /// Reads a declared resource with its desired state.
    pub(super) fn see(&self, declared: &DeclaredCase) -> Result<State, String> {
        self.state(self.provider(), declared.wanted())
    }

    /// Reads a resource without a desired state.
    pub(super) fn read_undeclared(&self, declared: &DeclaredCase) -> Result<State, String> {
        self.state(self.provider(), self.nameless(declared))
    }

    /// Reads a resource after its removal. A type without `ensure` may report a resource as existing if a
    /// desired state is given.
    pub(super) fn read_removed(&self, declared: &DeclaredCase) -> Result<State, String> {
        if self.schema().find("ensure").is_some() { self.see(declared) } else { self.read_undeclared(declared) }
    }

    /// Returns a query for a resource without a desired state.
    pub(super) fn nameless<'a>(&self, declared: &'a DeclaredCase) -> Wanted<'a> {
        let has_several = self.schema().namevars().nth(1).is_some();
        Wanted {
            name: &declared.name,
            namevars: has_several.then_some(&declared.should),
            should: None,
            received: &[],
            noop: false,
            refresh: false,
        }
    }

    /// Reads a resource with any provider.
    pub(super) fn state(&self, provider: &dyn Provider, wanted: Wanted<'_>) -> Result<State, String> {
        if let Some(reader) = provider.capabilities().read_one {
            let state = reader.get_one(&self.cx(), wanted).map_err(|error| error.message.to_string())?;
            return readable(state);
        }
        let states = read(provider, &self.cx(), &[wanted]).map_err(|error| error.message.to_string())?;
        let found = states.into_iter().find(|state| state.name == *wanted.name);
        readable(found.unwrap_or_else(|| State::absent(wanted.name.clone())))
    }

    /// Returns all states of a query.
    pub(super) fn get(&self, query: Query<'_>) -> Result<Vec<State>, String> {
        match query {
            Query::All => {
                let mut states = self.provider().get(&self.cx(), query).map_err(|error| error.message.to_string())?;
                let keyed = self.schema().namevars().nth(1).is_some();
                for state in states.iter_mut().filter(|_| keyed) {
                    state.name = self.schema().key(&state.attributes).unwrap_or_else(|| state.name.clone());
                }
                Ok(states)
            }
            Query::Named(wanted) => {
                let states = read(self.provider(), &self.cx(), wanted).map_err(|error| error.message.to_string())?;
                let is_asked = |state: &State| wanted.iter().any(|wanted| *wanted.name == state.name);
                states.into_iter().map(|state| if is_asked(&state) { readable(state) } else { Ok(state) }).collect()
            }
        }
    }

    /// Reads a resource. Returns its state and its differences from the declaration.
    pub(super) fn check(&self, declared: &DeclaredCase) -> Result<(State, Vec<Difference>), String> {
        let state = self.see(declared)?;
        let differences = compare(self.provider(), &self.cx(), &state, &declared.should)
            .map_err(|error| error.message.to_string())?;
        Ok((state, differences))
    }

    /// Brings a resource to its declared state as the engine does: check, set, check again. Returns true if a
    /// change was necessary.
    pub(super) fn converge(&self, declared: &DeclaredCase) -> Result<bool, String> {
        let (is, differences) = self.check(declared)?;
        if differences.is_empty() {
            return Ok(false);
        }
        let change = Change::new(&declared.name, &is, Some(&declared.should), &differences);
        let outcome = self.set(&[change], Mode::Apply).into_iter().next().ok_or("set answered nothing")?;
        if let Some(failure) = outcome.failure {
            return Err(format!("set of {} failed: {failure}", declared.name));
        }
        match &self.check(declared)?.1[..] {
            [] => Ok(true),
            left => Err(format!("after its set, {} still differs in {}", declared.name, differences_text(left))),
        }
    }

    /// Brings a resource to its declared state as preparation of a trial.
    pub(super) fn arrange(&self, declared: &DeclaredCase) -> Result<(), EarlyEnd> {
        self.converge(declared).map(drop).or_else(untried)
    }

    /// Creates specimens as preparation of a trial. A provider that accepts several changes at once gets one call for
    /// each step, because a start of a package manager takes seconds.
    pub(super) fn arrange_all(&self, specimens: &[Sample]) -> Result<(), EarlyEnd> {
        let is_whole = self.provider().capabilities().scheduling().batch_size() == Batch::Whole;
        match is_whole && specimens.len() > 1 && self.bring_together(specimens).is_some() {
            true => Ok(()),
            false => self.arrange_each(specimens),
        }
    }

    /// Creates specimens as preparation of a trial, each by calls of its own.
    fn arrange_each(&self, specimens: &[Sample]) -> Result<(), EarlyEnd> {
        specimens.iter().try_for_each(|specimen| self.arrange(&self.first(specimen)?))
    }

    /// Creates specimens in one call. Returns none if not all of them are in sync after it: other laws cover batches.
    fn bring_together(&self, specimens: &[Sample]) -> Option<()> {
        let all = specimens.iter().map(|specimen| self.first(specimen).ok()).collect::<Option<Vec<DeclaredCase>>>()?;
        let checked = self.check_together(&all)?;
        let pending = all.iter().zip(&checked).filter(|(_, (_, differences))| !differences.is_empty());
        let changes: Vec<Change<'_>> = pending
            .map(|(one, (is, differences))| Change::new(&one.name, is, Some(&one.should), differences))
            .collect();
        self.set(&changes, Mode::Apply);
        let is_in_sync = |(_, differences): &(State, Vec<Difference>)| differences.is_empty();
        self.check_together(&all)?.iter().all(is_in_sync).then_some(())
    }

    /// Reads several resources in one call. Returns none if one of them cannot be read or compared.
    fn check_together(&self, all: &[DeclaredCase]) -> Option<Vec<(State, Vec<Difference>)>> {
        let wanted: Vec<Wanted<'_>> = all.iter().map(DeclaredCase::wanted).collect();
        let states = self.get(Query::Named(&wanted)).ok()?;
        let check = |one: &DeclaredCase| {
            let found = states.iter().find(|state| state.name == one.name).cloned();
            let state = found.unwrap_or_else(|| State::absent(one.name.clone()));
            let differences = compare(self.provider(), &self.cx(), &state, &one.should).ok()?;
            Some((state, differences))
        };
        all.iter().map(check).collect()
    }

    /// Applies changes, in batches of the size that the provider supports.
    pub(super) fn set(&self, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        let cx = self.cx().with_noop(mode == Mode::Preview);
        match self.provider().capabilities().scheduling().batch_size() {
            Batch::Whole => self.provider().set(&cx, changes, mode),
            Batch::One => changes.chunks(1).flat_map(|one| self.provider().set(&cx, one, mode)).collect(),
        }
    }

    /// Removes a resource with a change without `should`.
    pub(super) fn remove(&self, is: &State) -> Result<(), String> {
        let change = Change::new(&is.name, is, None, &[]);
        match self.set(&[change], Mode::Apply).into_iter().next() {
            Some(Outcome { failure: None, .. }) => Ok(()),
            Some(Outcome { failure: Some(failure), .. }) => Err(failure.to_string()),
            None => Err("set answered nothing".to_owned()),
        }
    }
}

/// Returns a state, or the reason why the provider could not read it.
fn readable(state: State) -> Result<State, String> {
    match &state.unreadable {
        None => Ok(state),
        Some(why) => Err(why.to_string()),
    }
}

fn owned<'a>((name, value): (&'a kilter_model::AttributeName, &'a Value)) -> (kilter_model::AttributeName, Value) {
    (name.clone(), value.clone())
}

/// Formats differences in one line.
pub(super) fn differences_text(differences: &[Difference]) -> String {
    let tell = |difference: &Difference| match &difference.message {
        Some(message) => format!("`{}` ({message})", difference.attribute),
        None => format!("`{}` ({:?}, not {:?})", difference.attribute, difference.is, difference.should),
    };
    differences.iter().map(tell).collect::<Vec<_>>().join(", ")
}

/// Log that records the lines of a provider.
#[derive(Default)]
pub(super) struct CapturedLog(Mutex<Vec<String>>);

impl CapturedLog {
    /// Returns the lines since the last call.
    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Log for CapturedLog {
    fn log(&self, level: Level, type_name: &str, name: &str, message: &str) {
        let line = format!("{}: {type_name}[{name}]: {message}", level.word());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }
}
