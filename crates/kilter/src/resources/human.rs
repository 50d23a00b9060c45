//! Resources for people: a table, or one resource with all its attributes.

use std::borrow::Cow;

use kilter_model::{AttributeSchema, Behaviour, State, TypeSchema, Value};

use super::{SecretHandling, missing};
use crate::style::{FAINT, NAME, styled};
use crate::table::Table;
use crate::visible::visible;

/// Maximum width of a cell on a terminal.
const WIDEST_CELL: usize = 48;

/// Returns a table of the resources with a column for each informative attribute, and the headings of the columns
/// that did not fit.
pub(crate) fn table(
    schema: &TypeSchema,
    states: &[State],
    secrets: SecretHandling,
    room: Option<usize>,
) -> (String, Vec<String>) {
    let columns: Vec<Column<'_>> =
        schema.attributes.iter().map(Column::of).filter(|column| column.is_telling(states, secrets)).collect();
    let mut table = Table::new(["name"].into_iter().chain(columns.iter().map(|column| column.schema.name.as_str())));
    for state in states {
        let cells = columns.iter().map(|column| match column.shown(state) {
            Some(value) => cell(&value, secrets, room.map(|_| WIDEST_CELL)),
            None => String::new(),
        });
        let name = match missing(schema, state) {
            None => visible(state.label()),
            Some(why) => format!("{} ({why})", visible(state.label())),
        };
        table.row([name].into_iter().chain(cells));
    }
    let (text, left) = table.render(room);
    (text, left.into_iter().map(str::to_lowercase).collect())
}

/// Minimum number of resources for which a column with equal values is left out.
const CROWD: usize = 5;

/// Attribute of one or many resources.
struct Column<'a> {
    schema: &'a AttributeSchema,
    may_hold_secrets: bool,
}

impl<'a> Column<'a> {
    fn of(schema: &'a AttributeSchema) -> Column<'a> {
        Column { schema, may_hold_secrets: schema.data_type.may_hold_secrets() }
    }

    /// Returns true if the column is informative. Names, secrets, equal values of many resources, and an `ensure`
    /// that is always present are not.
    fn is_telling(&self, states: &[State], secrets: SecretHandling) -> bool {
        let mut values = states.iter().map(|state| self.shown(state));
        match self.schema.behaviour {
            Behaviour::Namevar | Behaviour::Parameter => false,
            _ if self.schema.data_type.is_sensitive() && secrets == SecretHandling::Hidden => false,
            _ if self.schema.name == "ensure" => {
                let is_plain =
                    |value: Option<Cow<'_, Value>>| value.is_none_or(|value| value.as_str() == Some("present"));
                !values.all(is_plain)
            }
            _ if states.len() >= CROWD => {
                let first = values.next();
                values.any(|value| Some(value) != first)
            }
            _ => values.any(|value| value.is_some()),
        }
    }

    fn shown<'b>(&self, state: &'b State) -> Option<Cow<'b, Value>> {
        if !state.exists && !state.is_unknown && self.schema.name == "ensure" {
            return Some(Cow::Owned(Value::from("absent")));
        }
        let value = state.attributes.get(self.schema.name.as_str())?;
        Some(match self.may_hold_secrets {
            true => Cow::Owned(self.schema.data_type.sealed(value.clone())),
            false => Cow::Borrowed(value),
        })
    }
}

/// Returns one resource with all its attributes.
pub(crate) fn one(schema: &TypeSchema, state: &State, secrets: SecretHandling) -> String {
    let mut text = format!("{}\n", styled(NAME, format!("{}[{}]", schema.name, visible(state.label()))));
    if let Some(why) = missing(schema, state) {
        return text + &format!("  {why}\n");
    }
    let attributes = schema.attributes.iter().filter(|attribute| attribute.behaviour != Behaviour::Namevar);
    let values: Vec<(&str, Cow<'_, Value>)> = attributes
        .filter_map(|attribute| Some((attribute.name.as_str(), Column::of(attribute).shown(state)?)))
        .collect();
    let widest = values.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, value) in values {
        text += &format!("  {}{}  {}\n", name, " ".repeat(widest - name.len()), lines(&value, secrets, widest + 4));
    }
    text
}

/// Returns a value that may take several lines, with all lines but the first indented.
fn lines(value: &Value, secrets: SecretHandling, indent: usize) -> String {
    match &displayed(value, secrets) {
        Value::String(text) if text.trim_end_matches('\n').contains('\n') => {
            let lines: Vec<String> = text.lines().map(visible).collect();
            lines.join(&format!("\n{}", " ".repeat(indent)))
        }
        Value::String(text) if text.is_empty() => styled(FAINT, "(empty)"),
        Value::Array(values) if values.is_empty() => styled(FAINT, "(none)"),
        _ => cell(value, secrets, None),
    }
}

fn displayed(value: &Value, secrets: SecretHandling) -> Value {
    if secrets == SecretHandling::Shown { value.expose() } else { value.clone() }
}

/// Returns a value on one line.
fn cell(value: &Value, secrets: SecretHandling, widest: Option<usize>) -> String {
    let text = match &displayed(value, secrets) {
        Value::Array(values) => values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    };
    let text = visible(&text.trim_end_matches('\n').replace('\n', "\\n"));
    match widest.and_then(|widest| text.char_indices().nth(widest)) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text,
    }
}
