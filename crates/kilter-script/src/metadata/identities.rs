//! Metadata keys with titles, which are derived from a resource's attributes: additional names and event
//! sources.

use std::path::PathBuf;
use std::time::Duration;

use ecow::{EcoString, eco_format};
use kilter_model::expr::Name;
use kilter_model::{Attributes, AutoTitle, TypeSchema, Value};
use kilter_provider::{Network, POLL, Scope, WatchSource};

/// Maximum polling interval, in seconds.
const MAX_POLL_SECONDS: i64 = 24 * 3600;

/// An event source of a resource.
#[derive(Clone, Debug, PartialEq)]
pub enum WatchRule {
    /// A change of a path.
    Path(AutoTitle, Scope),
    /// The end of the process whose number is in a file.
    Process(AutoTitle),
    /// A change of the network configuration.
    Network(Network),
    /// Polling at this interval.
    Every(Duration),
}

/// Returns the event sources of a resource from its metadata. `is_told` is true if the script also reports
/// events.
pub(crate) fn watched(
    rules: &[WatchRule],
    is_told: bool,
    schema: &TypeSchema,
    name: &str,
    should: &Attributes,
) -> Vec<WatchSource> {
    let mut watches: Vec<WatchSource> = is_told.then_some(WatchSource::Provider).into_iter().collect();
    let mut is_missed = rules.is_empty() && !is_told;
    for rule in rules {
        let mut paths = |title: &AutoTitle| {
            let paths = schema.titles(title, should, name).unwrap_or_default().into_iter();
            let paths = paths.filter(|path| path.starts_with('/')).map(|path| PathBuf::from(path.as_str()));
            let paths: Vec<PathBuf> = paths.collect();
            is_missed |= paths.is_empty();
            paths.into_iter()
        };
        match rule {
            WatchRule::Every(interval) => watches.push(WatchSource::Poll(*interval)),
            WatchRule::Network(what) => watches.push(WatchSource::Network(*what)),
            WatchRule::Process(file) => watches.extend(paths(file).map(WatchSource::Process)),
            WatchRule::Path(title, scope) => {
                watches.extend(paths(title).map(|path| WatchSource::Path { path, scope: *scope }));
            }
        }
    }
    // A resource without a valid event source is polled.
    if is_missed && !watches.iter().any(|watch| matches!(watch, WatchSource::Poll(_))) {
        watches.push(WatchSource::Poll(POLL));
    }
    watches
}

/// Reads the additional names of a resource: a text or a list.
///
/// # Errors
/// Description of the fault.
pub(crate) fn identities(value: &Value, schema: &TypeSchema) -> Result<Vec<AutoTitle>, EcoString> {
    let of_its_own = |value: &Value| match title("identities", value, schema)? {
        AutoTitle::Constant(text) => Err(eco_format!("`identities`: `{text}` would be that of every resource")),
        title => Ok(title),
    };
    each(value).iter().map(of_its_own).collect()
}

/// Reads the attributes that identify a resource in addition to its name: an attribute or a list.
///
/// # Errors
/// If an attribute does not exist.
pub(crate) fn identifying(value: &Value, schema: &TypeSchema) -> Result<Vec<EcoString>, EcoString> {
    let attribute = |value: &Value| match value.as_str().filter(|name| schema.find(name).is_some()) {
        Some(name) => Ok(EcoString::from(name)),
        None => Err(eco_format!("`identifying`: {value} is no attribute")),
    };
    each(value).iter().map(attribute).collect()
}

/// Reads the event sources: `{path: TITLE, scope: SCOPE}`, `{process: TITLE}`, `{network: NETWORK}` or `{every:
/// SECONDS}`, or a list of these.
///
/// # Errors
/// Description of the fault.
pub(crate) fn watches(value: &Value, schema: &TypeSchema) -> Result<Vec<WatchRule>, EcoString> {
    each(value).iter().map(|value| rule(value, schema)).collect()
}

fn rule(value: &Value, schema: &TypeSchema) -> Result<WatchRule, EcoString> {
    let wrong = || {
        EcoString::from(
            "`watches` are {path: …}, with a `scope`, {process: PID_FILE}, {network: links|addresses|routes} or \
             {every: SECONDS}",
        )
    };
    let entries = value.as_hash().ok_or_else(wrong)?;
    let mut others = entries.iter().filter(|(key, _)| *key != "scope");
    let (Some((kind, said)), None) = (others.next(), others.next()) else { return Err(wrong()) };
    if entries.contains_key("scope") && kind != "path" {
        return Err(wrong());
    }
    let path = || {
        let path = title("watches", said, schema)?;
        match &path {
            AutoTitle::Constant(path) if !path.starts_with('/') => {
                Err(eco_format!("`watches`: the path `{path}` is not absolute"))
            }
            _ => Ok(path),
        }
    };
    match kind.as_str() {
        "path" => {
            let scope = match entries.get("scope").map(|scope| scope.as_str().unwrap_or_default()) {
                None | Some("this") => Scope::This,
                Some("entries") => Scope::Entries,
                Some("tree") => Scope::Tree,
                Some(_) => return Err("`watches`: a `scope` is this, entries or tree".into()),
            };
            Ok(WatchRule::Path(path()?, scope))
        }
        "process" => Ok(WatchRule::Process(path()?)),
        "network" => match said.as_str() {
            Some("links") => Ok(WatchRule::Network(Network::Links)),
            Some("addresses") => Ok(WatchRule::Network(Network::Addresses)),
            Some("routes") => Ok(WatchRule::Network(Network::Routes)),
            _ => Err("`watches`: the `network` has links, addresses and routes".into()),
        },
        "every" => {
            let seconds = said.as_integer().filter(|seconds| (1..=MAX_POLL_SECONDS).contains(seconds));
            let seconds =
                seconds.ok_or_else(|| eco_format!("`watches`: `every` is from 1 to {MAX_POLL_SECONDS} seconds"))?;
            Ok(WatchRule::Every(Duration::from_secs(seconds.unsigned_abs())))
        }
        _ => Err(wrong()),
    }
}

/// Returns the elements of a list, or the value itself.
pub(super) fn each(value: &Value) -> &[Value] {
    value.as_array().unwrap_or(std::slice::from_ref(value))
}

/// Parses a title that uses only the resource's own attributes.
pub(super) fn title(key: &str, value: &Value, schema: &TypeSchema) -> Result<AutoTitle, EcoString> {
    let text = value.as_str().ok_or_else(|| eco_format!("`{key}` are texts, not {}", value.kind()))?;
    let title = AutoTitle::parse(text).map_err(|error| eco_format!("`{key}`: {error}"))?;
    let unknown = |name: &str| eco_format!("`{key}`: there is no attribute `{name}`");
    match &title {
        AutoTitle::Attribute(name) if schema.find(name.as_str()).is_none() => return Err(unknown(name.as_str())),
        AutoTitle::Expression(template) => {
            let mut wrong = None;
            template.names(&mut |name, _| match name {
                Name::Var(name) if schema.find(name).is_some() => {}
                Name::Var(name) => wrong = wrong.take().or_else(|| Some(unknown(name))),
                _ => wrong = Some(eco_format!("`{key}`: only the resource's own values may be used, as vars.NAME")),
            });
            if let Some(wrong) = wrong {
                return Err(wrong);
            }
        }
        _ => {}
    }
    Ok(title)
}
