//! What metadata says by titles, which are made of a resource's own values: who it is beside its name, and what tells of it.

use std::path::PathBuf;
use std::time::Duration;

use ecow::{EcoString, eco_format};
use kilter_model::expr::Name;
use kilter_model::{Attributes, AutoTitle, TypeSchema, Value};
use kilter_provider::{POLL, Scope, Watch};

/// The longest time between two looks at a resource, in seconds.
const LONGEST: i64 = 24 * 3600;

/// What tells that a resource may have changed.
#[derive(Clone, Debug, PartialEq)]
pub enum WatchRule {
    /// Something happens to a path.
    Path(AutoTitle, Scope),
    /// It is looked at every so often.
    Every(Duration),
}

/// What tells that a resource may have changed, by what its metadata says; `is_told` if its script tells as well.
pub(crate) fn watched(
    rules: &[WatchRule],
    is_told: bool,
    schema: &TypeSchema,
    name: &str,
    should: &Attributes,
) -> Vec<Watch> {
    let mut watches: Vec<Watch> = is_told.then_some(Watch::Told).into_iter().collect();
    for rule in rules {
        match rule {
            WatchRule::Every(interval) => watches.push(Watch::Every(*interval)),
            WatchRule::Path(title, scope) => {
                let paths = schema.titles(title, should, name).unwrap_or_default();
                let paths = paths.into_iter().filter(|path| path.starts_with('/'));
                watches.extend(paths.map(|path| Watch::Path { path: PathBuf::from(path.as_str()), scope: *scope }));
            }
        }
    }
    // Where nothing can tell, it has to be looked at.
    if watches.is_empty() { vec![Watch::Every(POLL)] } else { watches }
}

/// The names under which others find a resource, beside its own: a text, or a list of them.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn identities(value: &Value, schema: &TypeSchema) -> Result<Vec<AutoTitle>, EcoString> {
    each(value).iter().map(|value| title("identities", value, schema)).collect()
}

/// What tells that a resource may have changed: `{path: TITLE, scope: SCOPE}` or `{every: SECONDS}`, or a list of them.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn watches(value: &Value, schema: &TypeSchema) -> Result<Vec<WatchRule>, EcoString> {
    each(value).iter().map(|value| rule(value, schema)).collect()
}

fn rule(value: &Value, schema: &TypeSchema) -> Result<WatchRule, EcoString> {
    let wrong = || eco_format!("`watches` are {{path: …}}, with a `scope`, or {{every: SECONDS}}");
    let entries = value.as_hash().ok_or_else(wrong)?;
    if entries.keys().any(|key| !matches!(key.as_str(), "path" | "scope" | "every")) {
        return Err(wrong());
    }
    match (entries.get("path"), entries.get("every")) {
        (Some(path), None) => {
            let path = title("watches", path, schema)?;
            if matches!(&path, AutoTitle::Constant(path) if !path.starts_with('/')) {
                return Err(eco_format!("`watches`: the path `{}` is not absolute", path.source()));
            }
            let scope = match entries.get("scope").map(|scope| scope.as_str().unwrap_or_default()) {
                None | Some("this") => Scope::This,
                Some("entries") => Scope::Entries,
                Some("tree") => Scope::Tree,
                Some(_) => return Err("`watches`: a `scope` is this, entries or tree".into()),
            };
            Ok(WatchRule::Path(path, scope))
        }
        (None, Some(every)) if !entries.contains_key("scope") => {
            let seconds = every.as_integer().filter(|seconds| (1..=LONGEST).contains(seconds));
            let seconds = seconds.ok_or_else(|| eco_format!("`watches`: `every` is from 1 to {LONGEST} seconds"))?;
            Ok(WatchRule::Every(Duration::from_secs(seconds.unsigned_abs())))
        }
        _ => Err(wrong()),
    }
}

/// The elements of a list, or what stands alone.
fn each(value: &Value) -> &[Value] {
    value.as_array().unwrap_or(std::slice::from_ref(value))
}

/// A title that is made of the resource's own values.
fn title(key: &str, value: &Value, schema: &TypeSchema) -> Result<AutoTitle, EcoString> {
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
