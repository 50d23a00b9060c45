//! Changing one resource, as a manifest with only this resource would.

mod declared;

use std::path::Path;

use ecow::EcoString;
use kilter_model::{Attributes, Behaviour, Difference, State};
use kilter_provider::{Durability, Level, Provider, Registry, Strictness};
use kilter_runtime::{Mode, Options, ResourceReport, RunError, StateDir, Status};

use self::declared::{can_be_made, completed, prepared};
use super::emit::OutputFormat;
use super::error::Error;
use super::log::{LogObserver, Logger};
use super::{RalshResult, parse_value, read, shown};
use crate::execute::{executed, fail_text};
use crate::recorder::{OnFailure, RecordedObserver, Recorder};
use crate::session::Session;
use crate::{pauses, signals};

/// Changes a resource according to the words, and prints the changes.
pub(super) fn update(
    session: &Session,
    registry: &Registry,
    provider: &dyn Provider,
    name: &str,
    words: &[String],
    form: OutputFormat,
    logger: &Logger,
) -> Result<RalshResult, Error> {
    let options = options(session)?;
    options.state_dir.as_ref().map_or(Ok(()), |state_dir| refuse_if_paused(state_dir.path()))?;
    let mut should = parse_value::attributes(provider, words)?;
    if should.get("ensure").is_none() && can_be_made(provider) && is_absent(session, provider, name, &should, logger)? {
        // A script that gets only attributes creates a missing resource.
        should.set("ensure", "present");
    }
    let prepared = prepared(registry, provider, name, &should).or_else(|refused| {
        // A type may require more attributes than those to change: the current values are added.
        let state = found(session, provider, name, &should, logger)?;
        let more = state.and_then(|state| completed(provider, &should, &state)).ok_or(refused)?;
        prepared(registry, provider, name, &more)
    })?;
    let lock = options.state_dir.as_ref().map(StateDir::hold).transpose();
    let _lock = lock.map_err(|error| not_started(&error.into()))?;
    // A pause may have been added before the lock was taken.
    options.state_dir.as_ref().map_or(Ok(()), |state_dir| refuse_if_paused(state_dir.path()))?;
    let mut recorder = Recorder::of(session, &prepared, options.mode, OnFailure::End);
    let mut shown = LogObserver(logger);
    let mut recorded = RecordedObserver { recorder: recorder.as_mut(), shown: &mut shown };
    let mut report = executed(&prepared, &options, &mut recorded).map_err(|error| not_started(&error))?;
    if let Some(recorder) = &mut recorder {
        recorder.finish(&mut report);
    }
    let Some(report) = report.resources.into_iter().next() else {
        // A resource in sync is only counted.
        return print_state(session, provider, name, &should, (&[], &[]), form, logger);
    };
    if report.is_unsettled {
        // libral trusts a provider's report of a change. A warning reports that the change is not visible.
        logger.line(Level::Warning, report.failure.as_deref().unwrap_or_default());
    } else if let Status::Failed | Status::Skipped | Status::Interrupted = report.status {
        return Err(failed(session, provider, name, &should, &report, logger));
    }
    let changes = changes(&report);
    print_state(session, provider, name, &should, (&changes, &report.told), form, logger)
}

fn is_absent(
    session: &Session,
    provider: &dyn Provider,
    name: &str,
    should: &Attributes,
    logger: &Logger,
) -> Result<bool, Error> {
    let state = found(session, provider, name, should, logger)?;
    Ok(state.is_some_and(|state| state.attributes.text("ensure") == Some("absent")))
}

/// Returns the declared parameters.
fn parameters(provider: &dyn Provider, should: &Attributes) -> Attributes {
    let is_parameter =
        |name: &str| provider.schema().find(name).is_some_and(|attribute| attribute.behaviour == Behaviour::Parameter);
    let said = should.iter().filter(|(name, _)| is_parameter(name.as_str()));
    said.map(|(name, value)| (name.as_str(), value.clone())).collect()
}

/// Reads the resource at the place that the parameters determine. Parameters of scripts do not.
fn found(
    session: &Session,
    provider: &dyn Provider,
    name: &str,
    should: &Attributes,
    logger: &Logger,
) -> Result<Option<State>, Error> {
    let parameters = parameters(provider, should);
    let parameters = (!provider.is_external() && !parameters.is_empty()).then_some(&parameters);
    read::one(session, provider, name, parameters, logger)
}

/// Refuses a change while the runs with this state directory are paused.
fn refuse_if_paused(state_dir: &Path) -> Result<(), Error> {
    let refusal = pauses::refusal(state_dir)
        .map_err(|error| Error::failed(format!("cannot read the pauses in {}: {error}", state_dir.display())))?;
    let hint = "`kilter resume ID` ends a pause; `kilter set --even-if-paused` makes a change meanwhile";
    refusal.map_or(Ok(()), |refusal| Err(Error::failed(refusal.why).hint(hint)))
}

fn options(session: &Session) -> Result<Options, Error> {
    let state_dir = session
        .state_dir_if_any()
        .ok_or_else(|| Error::failed("there is no state directory: HOME is not set").hint("set KILTER_STATE_DIR"))?;
    Ok(Options {
        mode: Mode::Apply,
        jobs: 1,
        durability: Durability::Flushed,
        strictness: Strictness::Warning,
        state_dir: Some(StateDir::new(state_dir)),
    })
}

/// Returns the changes: as the provider reports them, or the differences that are gone.
fn changes(report: &ResourceReport) -> Vec<Difference> {
    let mut changes = match report.told.is_empty() && !report.is_unsettled {
        true => report.differences.clone(),
        false => report.told.clone(),
    };
    changes.sort_unstable_by(|one, other| one.attribute.as_str().cmp(other.attribute.as_str()));
    changes
}

/// Prints the current state of the resource, with the changes that the provider reports. Parameters are never read
/// back and show the requested values.
fn print_state(
    session: &Session,
    provider: &dyn Provider,
    name: &str,
    should: &Attributes,
    (changes, told): (&[Difference], &[Difference]),
    form: OutputFormat,
    logger: &Logger,
) -> Result<RalshResult, Error> {
    if form == OutputFormat::Quiet {
        return Ok(RalshResult::Well);
    }
    // After an interrupt no read starts: the change is complete.
    let state = match signals::exit() {
        Some(_) => Some(State::present(EcoString::from(name), should.clone())),
        None => found(session, provider, name, should, logger)?,
    };
    let (name, mut attributes) = match state {
        Some(state) => (state.name, state.attributes),
        None => (name.into(), Attributes::new()),
    };
    for change in told.iter().filter(|change| change.entry.is_none()) {
        attributes.set(change.attribute.clone(), change.should.clone());
    }
    for (attribute, value) in parameters(provider, should).iter() {
        if attributes.get(attribute.as_str()).is_none() {
            attributes.set(attribute.clone(), value.clone());
        }
    }
    Ok(shown(form.updated(provider, &name, &attributes, changes)))
}

/// Returns the error of a failed run. For a resource that cannot be created it is "not found".
fn failed(
    session: &Session,
    provider: &dyn Provider,
    name: &str,
    should: &Attributes,
    report: &ResourceReport,
    logger: &Logger,
) -> Error {
    let trouble = Error::failed(report.failure.as_deref().unwrap_or("the run was interrupted"));
    let failed_before_its_change = report.status == Status::Failed && report.differences.is_empty();
    let is_missing = || matches!(found(session, provider, name, should, logger), Ok(None));
    let ends_with = if failed_before_its_change && is_missing() { RalshResult::NotFound } else { RalshResult::Wrong };
    Error { ends_with, ..trouble }
}

fn not_started(error: &RunError) -> Error {
    Error::failed(fail_text(error))
}
