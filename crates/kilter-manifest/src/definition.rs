//! Type definitions in YAML and JSON. Reports the faults that [`kilter_model::definition`] finds, each at its
//! position in the text.

use std::cell::Cell;

use ecow::eco_format;
use kilter_model::definition::{self, FaultPlace, Path, PathSegment};
use kilter_model::{SourceId, Span, TypeSchema, Value};

use crate::diagnostic::{Diagnostic, sorted};
use crate::scalar;
use crate::scalar_span::place;
use crate::source::Sources;
use crate::tree::{NodeKind, View};
use crate::yaml::{Parsed, parse_text};

/// Maximum nesting of values, with aliases expanded.
const MAX_DEPTH: u32 = 100;

/// Maximum number of values in a definition, with aliases expanded.
const MAX_VALUES: u32 = 100_000;

/// A type definition that was read from a text.
#[derive(Clone, Debug)]
pub struct Defined {
    /// The type.
    pub schema: TypeSchema,
    /// Warnings about valid input that is probably a mistake.
    pub warnings: Vec<Diagnostic>,
}

/// Reads the definition of a type.
///
/// Afterwards, the defaults of sensitive attributes are masked when the text is shown.
///
/// # Errors
/// All faults, in the order of their positions.
pub fn define(sources: &mut Sources, id: SourceId) -> Result<Defined, Vec<Diagnostic>> {
    let Parsed { tree, mut problems, complete, .. } = parse_text(id, sources);
    let mut roots = tree.roots();
    let (first, second) = (roots.next(), roots.next());
    if let Some(second) = second {
        problems.push(Diagnostic::new("a definition is one document: this is a second one").at(second.span()));
    }
    let Some(root) = first.filter(|_| complete) else {
        if complete {
            let nothing = Diagnostic::new("the document has no definition").at(Span::new(id, 0, 0));
            problems.push(nothing.hint("begin with `name:`, `desc:` and `attributes:`"));
        }
        return Err(sorted(problems));
    };
    sources.secrets.extend(secrets(root));
    let value = match value_of(root) {
        Ok(value) => value,
        Err(problem) => {
            problems.push(problem);
            return Err(sorted(problems));
        }
    };
    let reading = definition::read(&value);
    let faults = reading.faults.into_iter();
    problems.extend(faults.map(|fault| shown(root, &fault.path, &fault.place, &fault.message, fault.hint)));
    if !problems.is_empty() {
        return Err(sorted(problems));
    }
    let warnings = reading.warnings.into_iter();
    let warnings = warnings.map(|odd| shown(root, &odd.path, &odd.place, &odd.message, odd.hint)).collect();
    Ok(Defined { schema: reading.schema, warnings: sorted(warnings) })
}

/// Converts a node to a value without evaluating expressions.
///
/// # Errors
/// If it exceeds the limits.
pub(crate) fn value_of(root: View<'_>) -> Result<Value, Diagnostic> {
    let values = PlainValues { left: Cell::new(MAX_VALUES), problem: Cell::new(None) };
    let value = values.of(root, 0);
    if !root.tree().is_exhausted() && values.problem.get().is_none() {
        return Ok(value);
    }
    let span = values.problem.get().unwrap_or(root.span());
    let message = eco_format!(
        "the definition is nested more than {MAX_DEPTH} levels deep, or its aliases add up to more than {MAX_VALUES} \
         values"
    );
    Err(Diagnostic::new(message).at(span))
}

/// Creates a diagnostic at the position of a part of the definition.
pub(crate) fn shown(
    root: View<'_>,
    path: &Path,
    place: &FaultPlace,
    message: &str,
    hint: Option<ecow::EcoString>,
) -> Diagnostic {
    Diagnostic::new(eco_format!("{path}: {message}")).at(locate(root, path, place)).hint_if(hint)
}

/// Returns the position of a part of the definition, or of the nearest enclosing part if it is missing.
fn locate(root: View<'_>, path: &Path, part: &FaultPlace) -> Span {
    let (mut key, mut value) = (None, root);
    for step in path.steps() {
        let next = match step {
            PathSegment::Key(name) => entry(value, name).map(|(key, value)| (Some(key), value)),
            PathSegment::Index(index) => value.elements().nth(*index).map(|element| (None, element)),
        };
        match next {
            Some(next) => (key, value) = next,
            None => break,
        }
    }
    match part {
        FaultPlace::Key => key.unwrap_or(value).span(),
        FaultPlace::Value => value.span(),
        FaultPlace::Within(range) => {
            // A single title may be a list with one element.
            let value = value.elements().next().unwrap_or(value);
            place(value, range.start, range.end)
        }
    }
}

/// Returns the entry of a key, which may be written as a symbol or in upper case.
fn entry<'t>(view: View<'t>, name: &str) -> Option<(View<'t>, View<'t>)> {
    let plain = |text: &str| text.strip_prefix(':').unwrap_or(text).to_lowercase();
    let exact = view.entries().find(|(key, _)| key.text() == name);
    exact.or_else(|| view.entries().find(|(key, _)| plain(key.text()) == plain(name)))
}

/// Returns the positions of defaults that are secrets.
fn secrets(root: View<'_>) -> Vec<Span> {
    let attributes = entry(root, "attributes").into_iter().flat_map(|(_, attributes)| attributes.entries());
    let secret = |(_, attribute): (View<'_>, View<'_>)| {
        let (_, data_type) = entry(attribute, "type")?;
        let (_, default) = entry(attribute, "default").filter(|_| data_type.text().contains("Sensitive"))?;
        Some(default.span())
    };
    attributes.filter_map(secret).collect()
}

/// Converts nodes to values without evaluating expressions.
struct PlainValues {
    left: Cell<u32>,
    /// Position of the first node beyond the limits.
    problem: Cell<Option<Span>>,
}

impl PlainValues {
    fn of(&self, view: View<'_>, depth: u32) -> Value {
        if self.left.get() == 0 || depth > MAX_DEPTH {
            self.problem.set(self.problem.get().or(Some(view.span())));
            return Value::Undef;
        }
        self.left.set(self.left.get() - 1);
        match view.kind() {
            NodeKind::Mapping => {
                Value::hash(view.entries().map(|(key, value)| (key.text(), self.of(value, depth + 1))))
            }
            NodeKind::Sequence => Value::array(view.elements().map(|element| self.of(element, depth + 1))),
            NodeKind::Plain => scalar::typed(view.text()).unwrap_or_else(|| view.text_value()),
            _ => view.text_value(),
        }
    }
}
