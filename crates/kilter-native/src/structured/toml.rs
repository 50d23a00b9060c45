//! Edits of TOML documents.

use ecow::{EcoString, eco_format};
use kilter_model::Value;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike};

use super::keys::Key;

/// Parses a document.
///
/// # Errors
/// If the text is not TOML.
pub(super) fn parse(text: &str) -> Result<DocumentMut, EcoString> {
    text.parse().map_err(|error: toml_edit::TomlError| {
        let at = error.span().map_or(0, |span| span.start);
        eco_format!("not valid TOML at {}: {}", super::tree::place(text, at), error.message())
    })
}

/// Returns the value of a document. Dates and times are texts.
pub(super) fn value(document: &DocumentMut) -> Value {
    read(document.as_item())
}

fn read(item: &Item) -> Value {
    match item {
        Item::None => Value::Undef,
        Item::Table(table) => read_table(table),
        Item::ArrayOfTables(tables) => Value::array(tables.iter().map(|table| read_table(table))),
        Item::Value(value) => read_value(value),
    }
}

fn read_table(table: &dyn TableLike) -> Value {
    Value::hash(table.iter().map(|(key, item)| (key, read(item))))
}

fn read_value(value: &toml_edit::Value) -> Value {
    match value {
        toml_edit::Value::String(text) => Value::from(text.value().as_str()),
        toml_edit::Value::Integer(number) => Value::Integer(*number.value()),
        toml_edit::Value::Float(number) => Value::Float(*number.value()),
        toml_edit::Value::Boolean(truth) => Value::Boolean(*truth.value()),
        toml_edit::Value::Datetime(time) => Value::from(time.value().to_string()),
        toml_edit::Value::Array(items) => Value::array(items.iter().map(read_value)),
        toml_edit::Value::InlineTable(table) => read_table(table),
    }
}

fn null() -> EcoString {
    "TOML has no null".into()
}

/// Returns a value in one line.
fn inline(value: &Value) -> Result<toml_edit::Value, EcoString> {
    Ok(match value {
        Value::Undef => return Err(null()),
        Value::Boolean(truth) => (*truth).into(),
        Value::Integer(number) => (*number).into(),
        Value::Float(number) => (*number).into(),
        Value::Array(items) => toml_edit::Value::Array(items.iter().map(inline).collect::<Result<Array, _>>()?),
        Value::Hash(entries) => {
            let mut table = InlineTable::new();
            for (key, value) in entries.iter() {
                table.insert(key, inline(value)?);
            }
            toml_edit::Value::InlineTable(table)
        }
        other => other.as_str().map_or_else(|| other.to_string(), str::to_owned).into(),
    })
}

/// Returns a mapping as a table with a header of its own.
fn table(value: &Value) -> Result<Table, EcoString> {
    let mut table = Table::new();
    for (key, value) in value.as_hash().into_iter().flatten() {
        let item = match value {
            Value::Hash(entries) if !entries.is_empty() => Item::Table(self::table(value)?),
            value => Item::Value(inline(value)?),
        };
        table.insert(key, item);
    }
    Ok(table)
}

/// Returns the item at a path.
fn at<'d>(root: &'d mut Item, path: &[Key]) -> Result<&'d mut Item, EcoString> {
    path.iter().try_fold(root, |item, key| {
        let found = match key {
            Key::Name(name) => item.as_table_like_mut().and_then(|table| table.get_mut(name)),
            Key::Index(index) => item.get_mut(*index),
        };
        found.ok_or_else(|| eco_format!("there is no {key}"))
    })
}

/// Replaces a value, or adds a member to a table or an array.
///
/// # Errors
/// If TOML cannot express the value.
pub(super) fn set(document: &DocumentMut, path: &[Key], value: &Value) -> Result<String, EcoString> {
    let mut document = document.clone();
    let Some((key, parents)) = path.split_last() else { return Err("the whole document is a table".into()) };
    let parent = at(document.as_item_mut(), parents)?;
    match (parent, key) {
        (Item::Value(toml_edit::Value::Array(items)), Key::Index(index)) => match items.get_mut(*index) {
            Some(old) => replace(old, value)?,
            None => push(items, inline(value)?),
        },
        (Item::ArrayOfTables(tables), Key::Index(index)) => {
            let new = match value {
                Value::Hash(_) => table(value)?,
                _ => return Err(eco_format!("the items of `[[…]]` are tables, not {}", super::keys::kind(value))),
            };
            match *index < tables.len() {
                true => drop(tables.replace(*index, new)),
                false => tables.push(new),
            }
        }
        (Item::Table(parent), Key::Name(name)) => {
            let is_dotted = parent.is_dotted();
            match (parent.get_mut(name), value) {
                (Some(Item::Value(old)), value) => replace(old, value)?,
                (_, Value::Hash(entries)) if !entries.is_empty() && !is_dotted => {
                    parent.insert(name, Item::Table(table(value)?));
                }
                (_, value) => drop(parent.insert(name, Item::Value(inline(value)?))),
            }
        }
        (Item::Value(toml_edit::Value::InlineTable(parent)), Key::Name(name)) => match parent.get_mut(name) {
            Some(old) => replace(old, value)?,
            None => {
                // The blank before the bracket follows the last value.
                let blank = parent.iter_mut().last().and_then(|(_, last)| {
                    let decor = last.decor_mut();
                    let suffix = decor.suffix().and_then(|suffix| suffix.as_str()).unwrap_or_default().to_owned();
                    decor.set_suffix("");
                    Some(suffix).filter(|suffix| !suffix.is_empty())
                });
                let mut new = inline(value)?;
                if let Some(blank) = blank {
                    *new.decor_mut() = toml_edit::Decor::new(" ", blank);
                }
                parent.insert(name, new);
            }
        },
        _ => return Err(eco_format!("there is no place for {key}")),
    }
    Ok(document.to_string())
}

/// Replaces a value and keeps the blanks and comments around it.
fn replace(old: &mut toml_edit::Value, value: &Value) -> Result<(), EcoString> {
    let decor = old.decor().clone();
    *old = inline(value)?;
    *old.decor_mut() = decor;
    Ok(())
}

/// Adds an item to an array, in the layout of the last one.
fn push(items: &mut Array, mut new: toml_edit::Value) {
    let is_single = items.len() == 1;
    if let Some(last) = items.iter_mut().last() {
        let decor = last.decor_mut();
        let part = |raw: Option<&toml_edit::RawString>| raw.and_then(|raw| raw.as_str()).unwrap_or_default().to_owned();
        let (prefix, suffix) = (part(decor.prefix()), part(decor.suffix()));
        let prefix = match prefix.rfind('\n') {
            Some(line) => prefix[line..].to_owned(),
            None if is_single => " ".to_owned(),
            None => prefix,
        };
        // Without a comma at the end, the line break before the bracket follows the last item.
        decor.set_suffix("");
        *new.decor_mut() = toml_edit::Decor::new(prefix, suffix);
    }
    items.push_formatted(new);
}

/// Removes a member. Comments above an entry move to the next entry of its table.
///
/// # Errors
/// If there is none.
pub(super) fn remove(document: &DocumentMut, path: &[Key]) -> Result<String, EcoString> {
    let mut document = document.clone();
    let Some((key, parents)) = path.split_last() else { return Err("the whole document cannot be removed".into()) };
    let parent = at(document.as_item_mut(), parents)?;
    match (parent, key) {
        (Item::Value(toml_edit::Value::Array(items)), Key::Index(index)) => {
            let removed = items.remove(*index);
            if let Some(first) = items.get_mut(0).filter(|_| *index == 0) {
                let prefix = removed.decor().prefix().cloned().unwrap_or_default();
                first.decor_mut().set_prefix(prefix);
            }
        }
        (Item::ArrayOfTables(tables), Key::Index(index)) => {
            tables.remove(*index);
            if tables.is_empty() {
                let empty = Item::Value(toml_edit::Value::Array(Array::new()));
                *at(document.as_item_mut(), parents)? = empty;
            }
        }
        (Item::Table(parent), Key::Name(name)) => {
            let comments = parent.key(name).and_then(|key| key.leaf_decor().prefix()?.as_str());
            let comments = comments.filter(|text| text.contains('#')).map(str::to_owned);
            let next = parent.iter().skip_while(|(key, _)| key != name).skip(1).find(|(_, item)| item.is_value());
            let next = next.map(|(key, _)| key.to_owned());
            parent.remove(name);
            if parent.is_empty() {
                parent.set_implicit(false);
                parent.set_dotted(false);
            }
            if let (Some(comments), Some(mut next)) = (comments, next.and_then(|next| parent.key_mut(&next))) {
                let own = next.leaf_decor().prefix().and_then(|prefix| prefix.as_str()).unwrap_or_default().to_owned();
                next.leaf_decor_mut().set_prefix(comments + &own);
            }
        }
        (Item::Value(toml_edit::Value::InlineTable(parent)), Key::Name(name)) => {
            let is_last = parent.iter().last().is_some_and(|(last, _)| last == name);
            let removed = parent.remove(name).filter(|_| is_last);
            // The blank before the bracket follows the last value.
            if let (Some(removed), Some((_, last))) = (removed, parent.iter_mut().last()) {
                last.decor_mut().set_suffix(removed.decor().suffix().cloned().unwrap_or_default());
            }
        }
        _ => return Err(eco_format!("there is no {key}")),
    }
    Ok(document.to_string())
}
