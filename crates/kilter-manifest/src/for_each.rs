//! Entries that declare several resources: the elements of `for_each`, and lists of titles.

use ecow::{EcoString, eco_format};
use kilter_model::{DataType, Value};

use crate::diagnostic::Diagnostic;
use crate::environment::Environment;
use crate::tree::{NodeKind, View};
use crate::value::{BuildResult, Values};

/// Key of a list of titles.
pub(crate) const TITLES: &str = "titles";

/// Hint for a wrong `for_each`.
const FOR_EACH_FORM: &str = "such as for_each: [a, b], for_each: { a: 1, b: 2 } or for_each: ${vars.users}";

/// Hint for a wrong list of titles.
const TITLES_FORM: &str = "such as titles: [a, b] or titles: ${vars.packages}";

/// An element of `for_each`.
pub(crate) struct Element<'t> {
    /// The key in a mapping; the value in a list.
    pub(crate) key: Value,
    pub(crate) value: Value,
    /// Position: the element itself, or the expression that contains it.
    pub(crate) view: View<'t>,
}

/// Evaluates `for_each`; none if it is invalid, which has been reported.
pub(crate) fn elements<'t>(environment: &Environment<'t>, view: View<'t>) -> Option<Vec<Element<'t>>> {
    let value = evaluated(environment, view)?;
    let place = |views: &[View<'t>], count: usize, at: usize| {
        views.get(at).copied().filter(|_| views.len() == count).unwrap_or(view)
    };
    match &value {
        Value::Array(values) => {
            let views: Vec<View<'t>> = view.elements().collect();
            let element = |(at, value): (usize, &Value)| {
                let (key, value) = (value.clone(), value.clone());
                Element { key, value, view: place(&views, values.len(), at) }
            };
            Some(values.iter().enumerate().map(element).collect())
        }
        Value::Hash(entries) => {
            let views: Vec<View<'t>> = view.entries().map(|(key, _)| key).collect();
            let element = |(at, (key, value)): (usize, (&EcoString, &Value))| {
                let (key, value) = (Value::String(key.clone()), value.clone());
                Element { key, value, view: place(&views, entries.len(), at) }
            };
            Some(entries.iter().enumerate().map(element).collect())
        }
        other => {
            let problem = Diagnostic::new(eco_format!("`for_each` expects a list or a mapping, got {}", kind(other)));
            environment.report(problem.at(view.span()).hint(without_braces(view).unwrap_or(FOR_EACH_FORM.into())));
            None
        }
    }
}

/// Evaluates a list of titles: each title with its position. Reports invalid ones, and returns none if any is.
pub(crate) fn titles<'t>(environment: &Environment<'t>, view: View<'t>) -> Option<Vec<(EcoString, View<'t>)>> {
    let wrong = |view: View<'t>, found: &str| {
        let problem = Diagnostic::new(eco_format!("`{TITLES}` expects a list of texts, got {found}"));
        environment.report(problem.at(view.span()).hint(without_braces(view).unwrap_or(TITLES_FORM.into())));
    };
    if view.kind() == NodeKind::Sequence {
        let title = |element: View<'t>| {
            let found = match element.kind() {
                NodeKind::Sequence => "an Array in it",
                NodeKind::Mapping => "a Hash in it",
                _ if element.is_null() => "an Undef value in it",
                _ => return environment.text(element).map(|text| (EcoString::from(text), element)),
            };
            wrong(element, found);
            None
        };
        let all: Vec<Option<(EcoString, View<'t>)>> = view.elements().map(title).collect();
        return all.into_iter().collect();
    }
    let value = evaluated(environment, view)?;
    let Some(values) = value.as_array() else {
        wrong(view, &kind(&value));
        return None;
    };
    let title = |value: &Value| value.to_text().filter(|_| !value.holds_sensitive());
    match values.iter().find(|value| title(value).is_none()) {
        Some(other) => {
            wrong(view, &eco_format!("{} in it", kind(other)));
            None
        }
        None => Some(values.iter().filter_map(|value| Some((title(value)?, view))).collect()),
    }
}

/// Returns the value of a node that may not contain outputs.
fn evaluated<'t>(environment: &Environment<'t>, view: View<'t>) -> Option<Value> {
    match Values::new(environment).build(view, &DataType::Any) {
        BuildResult::Value(value) => Some(value),
        BuildResult::Deferred(_) | BuildResult::Skipped | BuildResult::Broken => None,
    }
}

/// Returns the kind of a value with its article.
fn kind(value: &Value) -> EcoString {
    match value {
        Value::Sensitive(_) => "a sensitive value, which cannot be shown in titles".into(),
        Value::Undef => "an Undef value".into(),
        value => {
            let kind = value.kind().to_string();
            let article = if kind.starts_with(['A', 'E', 'I', 'O', 'U']) { "an" } else { "a" };
            eco_format!("{article} {kind}")
        }
    }
}

/// Returns a hint for a name that is written without `${…}`.
fn without_braces(view: View<'_>) -> Option<EcoString> {
    let text = view.text();
    let is_name = ["vars.", "facts.", "self.", "each."].iter().any(|root| text.starts_with(root));
    is_name.then(|| eco_format!("an expression needs braces: ${{{text}}}"))
}

/// Returns the groups of titles below the name of a type. Each is a mapping with `titles`, or a title alone.
pub(crate) fn groups<'t>(key: View<'t>, body: View<'t>) -> Option<impl Iterator<Item = View<'t>>> {
    // Nearly all keys are references.
    if !key.is_scalar() || key.text().contains('[') {
        return None;
    }
    let is_group = body.get(TITLES).is_some();
    let is_list = body.kind() == NodeKind::Sequence;
    (is_list || is_group).then(|| body.elements().chain(is_group.then_some(body)))
}
