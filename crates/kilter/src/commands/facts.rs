//! `kilter facts`: shows the facts of this machine.

use kilter_model::{Value, to_json};

use crate::cli::{FactsArgs, FactsFormat};
use crate::exit::Exit;
use crate::output;
use crate::session::Session;
use crate::style::{NAME, styled};
use crate::visible::visible;
use crate::yaml::{Texts, Yaml};
use crate::{facts, signals};

pub(crate) fn run(args: &FactsArgs, session: &Session) -> Exit {
    let asked = signals::interruptible(|| {
        let known = facts::gather(session, &args.facts_dirs, None);
        let value = match &args.name {
            None => Ok(Value::Hash(known.live().all().into())),
            Some(name) => known.live().lookup(name),
        };
        (known, value)
    });
    let (known, value) = match asked {
        Ok(asked) => asked,
        Err(exit) => return exit,
    };
    if !session.global.quiet {
        facts::warn(&known);
    }
    match value {
        Ok(value) => output::data(&shown(&value, args.format)),
        Err(error) => output::fail(error),
    }
}

fn shown(value: &Value, format: FactsFormat) -> String {
    match format {
        FactsFormat::Human => human(value),
        FactsFormat::Json => format!("{:#}\n", to_json(value)),
        FactsFormat::Yaml => {
            let mut yaml = Yaml::new(Texts::Data);
            yaml.document(value);
            yaml.finish()
        }
    }
}

/// Returns a value for people: entries on lines of their own.
pub(crate) fn human(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Hash(entries) if !entries.is_empty() => tree(&mut text, 0, value),
        Value::Array(values) => values.iter().for_each(|value| text += &format!("{}\n", visible(&value.to_string()))),
        value => text = format!("{}\n", visible(&value.to_string())),
    }
    text
}

/// Writes entries on separate lines, with their parts indented.
fn tree(text: &mut String, depth: usize, value: &Value) {
    let Value::Hash(entries) = value else { return };
    for (key, value) in entries.iter() {
        *text += &"  ".repeat(depth);
        *text += &styled(NAME, format!("{}:", visible(key)));
        match value {
            Value::Hash(inner) if !inner.is_empty() => {
                text.push('\n');
                tree(text, depth + 1, value);
            }
            Value::Array(values) if values.iter().any(|value| matches!(value, Value::Hash(_))) => {
                text.push('\n');
                items(text, depth + 1, values);
            }
            Value::Array(values) => {
                let values: Vec<String> = values.iter().map(|value| visible(&value.to_string())).collect();
                *text += &format!(" {}\n", values.join(", "));
            }
            value => *text += &format!(" {}\n", visible(&value.to_string())),
        }
    }
}

/// Writes the elements of a list by number, as in a path.
fn items(text: &mut String, depth: usize, values: &[Value]) {
    let entries = values.iter().enumerate().map(|(at, value)| (at.to_string(), value.clone()));
    tree(text, depth, &Value::hash(entries));
}
