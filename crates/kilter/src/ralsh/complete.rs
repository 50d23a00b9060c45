//! Words for the completion of shells. It may list resources, and never finds or changes them.

use kilter_model::{AttributeSchema, Behaviour, DataType};
use kilter_provider::Provider;

use super::args::Args;
use super::error::Error;
use super::log::{LogLevel, Logger};
use super::lookup;
use super::read;
use crate::providers::Providers;
use crate::session::Session;

/// Completion for bash.
pub(crate) const BASH: &str = concat!(include_str!("../words.bash"), "\n", include_str!("completion.bash"));

/// Kind of words to complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Completed {
    /// Types and providers.
    Types,
    /// The names of resources of a type.
    Names,
    /// Attributes of a type that can be set, with the values that there are.
    Attributes,
}

/// Returns the words, one per line.
///
/// # Errors
/// If there is no such type, or its resources cannot be read.
pub(super) fn words(session: &Session, what: Completed, args: &Args, providers: &Providers) -> Result<String, Error> {
    let provider = || lookup::find(providers, args.resource_type.as_deref().unwrap_or_default());
    let words = match what {
        Completed::Types => types(&lookup::suitable(providers)),
        Completed::Names => names(session, provider()?)?,
        Completed::Attributes => {
            let attributes = provider()?.schema().attributes.iter();
            attributes.filter(|attribute| is_settable(attribute)).flat_map(assignments).collect()
        }
    };
    let words = words.into_iter().filter(|word| !word.contains(char::is_control));
    Ok(words.map(|word| word + "\n").collect())
}

/// Returns each type once, and each provider.
fn types(providers: &[&dyn Provider]) -> Vec<String> {
    let mut words: Vec<String> = providers.iter().map(|provider| provider.schema().name.to_string()).collect();
    words.dedup();
    words.extend(providers.iter().map(|provider| lookup::qualified(*provider)));
    words
}

fn names(session: &Session, provider: &dyn Provider) -> Result<Vec<String>, Error> {
    let states = read::all(session, provider, &Logger::new(LogLevel::None)).map_err(Error::failed)?;
    Ok(states.into_iter().map(|state| state.label().to_string()).collect())
}

pub(crate) fn is_settable(attribute: &AttributeSchema) -> bool {
    !matches!(attribute.behaviour, Behaviour::Namevar | Behaviour::ReadOnly)
}

/// Returns `ATTRIBUTE=` with each of its values, or without a value if they cannot be listed.
pub(crate) fn assignments(attribute: &AttributeSchema) -> Vec<String> {
    let allowed = match &*attribute.data_type.open() {
        DataType::Boolean(None) => vec!["true", "false"],
        _ => attribute.data_type.allowed(),
    };
    let assignment = |value: &str| format!("{}={value}", attribute.name);
    if allowed.is_empty() { vec![assignment("")] } else { allowed.into_iter().map(assignment).collect() }
}
