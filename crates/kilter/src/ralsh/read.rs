//! Listing and finding resources.

use kilter_model::{Attributes, State, Value};
use kilter_provider::{Provider, ProviderError, Query, Wanted, get_checked};

use super::emit::OutputFormat;
use super::error::Error;
use super::log::Logger;
use super::{RalshResult, shown};
use crate::providers;
use crate::session::Session;

/// Prints all resources of a provider.
pub(super) fn list(
    session: &Session,
    provider: &dyn Provider,
    form: OutputFormat,
    logger: &Logger,
) -> Result<RalshResult, Error> {
    Ok(shown(form.list(provider, &all(session, provider, logger).map_err(Error::failed)?)))
}

/// Returns all resources of a provider.
pub(super) fn all(session: &Session, provider: &dyn Provider, logger: &Logger) -> Result<Vec<State>, ProviderError> {
    let cx = session.context(logger);
    provider.capabilities().session().open(&cx)?;
    get_checked(provider, &cx, Query::All)
}

/// Prints one resource.
pub(super) fn find(
    session: &Session,
    provider: &dyn Provider,
    name: &str,
    is_absent_missing: bool,
    form: OutputFormat,
    logger: &Logger,
) -> Result<RalshResult, Error> {
    let state = one(session, provider, name, None, logger)?;
    let told = shown(form.found(provider, state.as_ref()));
    let is_missing = match &state {
        None => true,
        Some(state) => is_absent_missing && state.attributes.text("ensure") == Some("absent"),
    };
    Ok(if is_missing && told == RalshResult::Well { RalshResult::NotFound } else { told })
}

/// Returns one resource; none if it does not exist and the provider does not report it as absent. Parameters may
/// determine its place.
///
/// # Errors
/// If it cannot be read.
pub(super) fn one(
    session: &Session,
    provider: &dyn Provider,
    title: &str,
    parameters: Option<&Attributes>,
    logger: &Logger,
) -> Result<Option<State>, Error> {
    let cx = session.context(logger);
    let identified = providers::identified(provider, session.host(), title);
    let (name, namevars) =
        identified.map_err(|error| Error::failed(format_args!("{}[{title}]: {error}", provider.schema().name)))?;
    let wanted = [Wanted {
        name: &name,
        namevars: namevars.as_ref(),
        should: parameters,
        received: &[],
        noop: false,
        refresh: false,
    }];
    let read = || {
        provider.capabilities().session().open(&cx)?;
        get_checked(provider, &cx, Query::Named(&wanted))
    };
    let states = read().map_err(Error::failed)?;
    let state = states.into_iter().find(|state| state.name == name).unwrap_or_else(|| State::absent(name.clone()));
    Ok(if state.exists || state.attributes.get("ensure").is_some() {
        Some(state)
    } else if !provider.is_external() && can_be_absent(provider) {
        // A missing resource of a native type can be created.
        let attributes: Attributes = [("ensure", Value::from("absent"))].into_iter().collect();
        Some(State { attributes, ..state })
    } else {
        None
    })
}

fn can_be_absent(provider: &dyn Provider) -> bool {
    let ensure = provider.schema().find("ensure");
    ensure.is_some_and(|ensure| ensure.data_type.check(&Value::from("absent")).is_ok())
}
