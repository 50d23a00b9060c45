//! Changing one resource, as a manifest with just that resource would.

use std::sync::Arc;

use kilter_model::{Attributes, Behaviour, Catalog, Difference, Resource, ResourceRef, SourceId, Span, Value};
use kilter_provider::{Durability, Level, Provider, Registry, Strictness};
use kilter_runtime::{Mode, Options, Rejected, ResourceReport, RunError, StateDir, Status, Stop, plan_of};

use super::emit::Form;
use super::log::{Listening, Logger};
use super::trouble::Trouble;
use super::{Ended, read, shown, words};
use crate::{paths, signals};

/// Brings a resource to what the words say of it, and tells what was changed.
pub(super) fn update(
    registry: &Registry,
    provider: &dyn Provider,
    name: &str,
    words: &[String],
    form: Form,
    logger: &Logger,
) -> Result<Ended, Trouble> {
    let mut should = words::attributes(provider, words)?;
    if should.get("ensure").is_none() && can_be_made(provider) && is_absent(provider, name, logger)? {
        // A script that is told of attributes alone makes what is not there.
        should.set("ensure", "present");
    }
    let catalog = Catalog { resources: vec![resource(provider, name, &should)?], ..Catalog::default() };
    let prepared = plan_of(catalog, registry).map_err(|rejected| refused(&rejected))?;
    let stop = Arc::new(Stop::new().map_err(|error| not_started(&error))?);
    signals::stop(&stop);
    let report = prepared.execute(&options()?, &stop, &mut Listening(logger)).map_err(|error| not_started(&error))?;
    let Some(report) = report.resources.into_iter().next() else {
        // A resource that is as it should be is only counted.
        return tell(provider, name, &should, (&[], &[]), form, logger);
    };
    if report.is_unsettled {
        // libral believes what a provider says of its change; that it is not seen is worth a line.
        logger.line(Level::Warning, report.failure.as_deref().unwrap_or_default());
    } else if let Status::Failed | Status::Skipped | Status::Interrupted = report.status {
        return Err(failed(provider, name, &report, logger));
    }
    let changes = changes(&report);
    tell(provider, name, &should, (&changes, &report.told), form, logger)
}

/// Whether what is said of a resource does not say yet that it is to be there, but can.
fn can_be_made(provider: &dyn Provider) -> bool {
    let ensure = provider.schema().find("ensure");
    ensure.is_some_and(|ensure| ensure.default.is_none() && ensure.data_type.check(&Value::from("present")).is_ok())
}

fn is_absent(provider: &dyn Provider, name: &str, logger: &Logger) -> Result<bool, Trouble> {
    let state = read::one(provider, name, logger)?;
    Ok(state.is_some_and(|state| state.attributes.text("ensure") == Some("absent")))
}

/// The resource as it was declared by the words.
fn resource(provider: &dyn Provider, title: &str, should: &Attributes) -> Result<Resource, Trouble> {
    let schema = provider.schema();
    let refused = |why: &dyn std::fmt::Display| Trouble::failed(format_args!("{}[{title}]: {why}", schema.name));
    let (name, namevars) = schema.identify(title, should).map_err(|error| refused(&error))?;
    let mut attributes = should.clone();
    if namevars.len() > 1 {
        namevars.iter().for_each(|(name, value)| attributes.set(name.clone(), value.clone()));
    }
    for attribute in schema.attributes.iter().filter(|attribute| attribute.behaviour != Behaviour::Namevar) {
        match (&attribute.default, attributes.get(attribute.name.as_str())) {
            (Some(default), None) => attributes.push(attribute.name.clone(), default.clone()),
            (None, None) if attribute.required => {
                return Err(refused(&format_args!("it needs the attribute {}", attribute.name)));
            }
            _ => {}
        }
    }
    let reference = ResourceRef::new(schema.name.clone(), title);
    let mut resource = Resource { attributes, ..Resource::new(reference, name, Span::new(SourceId(0), 0, 0)) };
    resource.particulars_mut().provider = Some(provider.name().into());
    Ok(resource)
}

fn options() -> Result<Options, Trouble> {
    let given = std::env::var_os("KILTER_STATE_DIR").map(std::path::PathBuf::from);
    let state_dir = given.filter(|path| !path.as_os_str().is_empty()).or_else(paths::state_dir);
    let state_dir = state_dir.ok_or_else(|| {
        Trouble::failed("there is no directory to keep state in: HOME is not set").hint("set KILTER_STATE_DIR")
    })?;
    Ok(Options {
        mode: Mode::Apply,
        jobs: 1,
        durability: Durability::Flushed,
        strictness: Strictness::Warning,
        state_dir: Some(StateDir::new(state_dir)),
    })
}

/// What was changed: as the provider tells it, or else what differed and does no more.
fn changes(report: &ResourceReport) -> Vec<Difference> {
    let mut changes = match report.told.is_empty() && !report.is_unsettled {
        true => report.differences.clone(),
        false => report.told.clone(),
    };
    changes.sort_by(|one, other| one.attribute.as_str().cmp(other.attribute.as_str()));
    changes
}

/// Tells what the resource is like now: as it is found, with what the provider says of its changes. Parameters
/// are never read back: they are what was asked for.
fn tell(
    provider: &dyn Provider,
    name: &str,
    should: &Attributes,
    (changes, told): (&[Difference], &[Difference]),
    form: Form,
    logger: &Logger,
) -> Result<Ended, Trouble> {
    if form == Form::Quiet {
        return Ok(Ended::Well);
    }
    let state = read::one(provider, name, logger)?;
    let (name, mut attributes) = match state {
        Some(state) => (state.name, state.attributes),
        None => (name.into(), Attributes::new()),
    };
    for change in told.iter().filter(|change| change.entry.is_none()) {
        attributes.set(change.attribute.clone(), change.should.clone());
    }
    let is_parameter =
        |name: &str| provider.schema().find(name).is_some_and(|attribute| attribute.behaviour == Behaviour::Parameter);
    for (attribute, value) in should.iter().filter(|(attribute, _)| is_parameter(attribute.as_str())) {
        if attributes.get(attribute.as_str()).is_none() {
            attributes.set(attribute.clone(), value.clone());
        }
    }
    Ok(shown(form.updated(provider, &name, &attributes, changes)))
}

/// What a run that failed is to tell. Of what cannot be created nothing was found.
fn failed(provider: &dyn Provider, name: &str, report: &ResourceReport, logger: &Logger) -> Trouble {
    let trouble = Trouble::failed(report.failure.as_deref().unwrap_or("the run was interrupted"));
    let failed_before_its_change = report.status == Status::Failed && report.differences.is_empty();
    let is_missing = || matches!(read::one(provider, name, logger), Ok(None));
    let ends_with = if failed_before_its_change && is_missing() { Ended::NotFound } else { Ended::Wrong };
    Trouble { ends_with, ..trouble }
}

fn refused(rejected: &Rejected) -> Trouble {
    let told = rejected.problems.iter().map(|(_, problem)| problem.to_string());
    Trouble::failed(told.collect::<Vec<_>>().join("; "))
}

fn not_started(error: &RunError) -> Trouble {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    Trouble::failed(text)
}
