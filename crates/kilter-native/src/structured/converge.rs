//! Edits of a document up to the declared value: as few as possible, each one checked.

use std::rc::Rc;

use ecow::{EcoString, eco_format};
use kilter_model::Value;
use toml_edit::DocumentMut;

use super::keys::{self, Key};
use super::tree::TreeNode;
use super::{json, toml, yaml, yaml_tree};
use crate::edit::Edits;

/// Format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    Yaml,
    Toml,
}

impl Format {
    /// Returns the format with a name, or of a file with such a name.
    pub(super) fn of(given: Option<&str>, path: &str) -> Option<Format> {
        match given.or_else(|| path.rsplit('/').next()?.rsplit_once('.').map(|(_, ending)| ending))? {
            "json" | "jsonc" => Some(Format::Json),
            "yaml" | "yml" => Some(Format::Yaml),
            "toml" => Some(Format::Toml),
            _ => None,
        }
    }

    fn parse(self, text: &str) -> Result<DocumentTree, EcoString> {
        match self {
            Format::Json => json::parse(text).map(DocumentTree::Json),
            Format::Yaml => yaml_tree::parse(text).map(DocumentTree::Yaml),
            Format::Toml => toml::parse(text).map(DocumentTree::Toml),
        }
    }
}

/// A parsed text, with the places of its values.
enum DocumentTree {
    Json(TreeNode),
    Yaml(TreeNode),
    Toml(DocumentMut),
}

/// A text with its tree and its value. The edits of a file keep it for the next resource, because parsing takes
/// longest.
struct ParsedDocument {
    format: Format,
    text: String,
    tree: DocumentTree,
    value: Value,
}

impl ParsedDocument {
    fn new(format: Format, text: String) -> Result<ParsedDocument, EcoString> {
        let tree = format.parse(&text)?;
        let value = match &tree {
            DocumentTree::Json(root) | DocumentTree::Yaml(root) => root.value(),
            DocumentTree::Toml(document) => toml::value(document),
        };
        Ok(ParsedDocument { format, text, tree, value })
    }

    fn with(&self, path: &[Key], value: &Value) -> Result<ParsedDocument, EcoString> {
        let text = match &self.tree {
            DocumentTree::Json(root) => json::set(&self.text, root, path, value),
            DocumentTree::Yaml(root) => yaml::set(&self.text, root, path, value),
            DocumentTree::Toml(document) => toml::set(document, path, value),
        };
        ParsedDocument::new(self.format, text?).map_err(|_| unsupported(path))
    }

    fn without(&self, path: &[Key]) -> Result<ParsedDocument, EcoString> {
        let text = match &self.tree {
            DocumentTree::Json(root) => json::remove(&self.text, root, path),
            DocumentTree::Yaml(root) => yaml::remove(&self.text, root, path),
            DocumentTree::Toml(document) => toml::remove(document, path),
        };
        ParsedDocument::new(self.format, text?).map_err(|_| unsupported(path))
    }
}

/// A document in work.
pub(super) struct Document<'e, 't> {
    parsed: Rc<ParsedDocument>,
    edits: &'e mut Edits<'t>,
    is_changed: bool,
}

impl<'e, 't> Document<'e, 't> {
    /// Parses the edited text of a file, unless an earlier resource has done so.
    ///
    /// # Errors
    /// If the text does not have the format.
    pub(super) fn new(format: Format, edits: &'e mut Edits<'t>) -> Result<Document<'e, 't>, EcoString> {
        let known = edits.parsed().and_then(|parsed| parsed.downcast::<ParsedDocument>().ok());
        let parsed = match known.filter(|known| known.format == format) {
            Some(known) => known,
            None => {
                let text = edits.text().ok_or("not a text in UTF-8")?;
                let parsed = Rc::new(ParsedDocument::new(format, text)?);
                edits.keep_parsed(parsed.clone());
                parsed
            }
        };
        Ok(Document { parsed, edits, is_changed: false })
    }

    /// Passes the changes to the edits of the file.
    pub(super) fn store(self) {
        if self.is_changed {
            self.edits.become_text(&self.parsed.text);
            // The edits have no other line breaks, and one after each line.
            if self.parsed.text.ends_with('\n') && !self.parsed.text.contains('\r') {
                self.edits.keep_parsed(self.parsed);
            }
        }
    }

    /// Returns the value at a path.
    pub(super) fn get(&self, path: &[Key]) -> Option<&Value> {
        keys::get(&self.parsed.value, path)
    }

    /// Brings the value at a path to a value. With `is_merged`, keys that the value does not have stay.
    ///
    /// # Errors
    /// If a part of the path is neither a mapping nor a list, or the edit is not supported.
    pub(super) fn assign(&mut self, path: &mut Vec<Key>, value: &Value, is_merged: bool) -> Result<(), EcoString> {
        match (self.get(path).cloned(), value) {
            (Some(old), new) if old.is_same(new) => Ok(()),
            (Some(Value::Hash(old)), Value::Hash(new)) => {
                let gone = old.keys().filter(|key| !is_merged && !new.contains_key(*key));
                let gone: Vec<Key> = gone.map(|key| Key::Name(key.clone())).collect();
                for (key, value) in new.iter() {
                    self.below(path, Key::Name(key.clone()), |this, path| this.assign(path, value, is_merged))?;
                }
                gone.into_iter().try_for_each(|key| self.below(path, key, |this, path| this.remove(path)))
            }
            (Some(Value::Array(old)), Value::Array(new)) => {
                for (index, value) in new.iter().enumerate() {
                    self.below(path, Key::Index(index), |this, path| this.assign(path, value, is_merged))?;
                }
                let gone = (new.len()..old.len()).rev();
                gone.into_iter().try_for_each(|at| self.below(path, Key::Index(at), |this, path| this.remove(path)))
            }
            (Some(_), new) => self.put(path, new),
            (None, new) => self.add(path, new),
        }
    }

    fn below(
        &mut self,
        path: &mut Vec<Key>,
        key: Key,
        then: impl FnOnce(&mut Self, &mut Vec<Key>) -> Result<(), EcoString>,
    ) -> Result<(), EcoString> {
        path.push(key);
        let done = then(self, path);
        path.pop();
        done
    }

    /// Adds a value, with the mappings and lists above that do not exist.
    fn add(&mut self, path: &[Key], value: &Value) -> Result<(), EcoString> {
        let known = (0..path.len()).rev().find(|length| self.get(&path[..*length]).is_some()).unwrap_or(0);
        let above = self.get(&path[..known]);
        let is_place = match (above, &path[known]) {
            (Some(Value::Hash(_)), Key::Name(_)) => true,
            (Some(Value::Array(items)), Key::Index(index)) if *index <= items.len() => true,
            (Some(Value::Array(items)), Key::Index(index)) => {
                let (list, length) = (named(&path[..known]), items.len());
                return Err(eco_format!("item {index} cannot be added: {list} has {length} items"));
            }
            // An empty place, such as `key:` in YAML.
            (None | Some(Value::Undef), _) => return self.put(&path[..known], &keys::wrapped(&path[known..], value)?),
            _ => false,
        };
        match (is_place, above) {
            (false, Some(above)) => {
                let (name, key, kind) = (named(&path[..known]), &path[known], keys::kind(above));
                Err(eco_format!("there is no {key}, because {name} is {kind}"))
            }
            _ => self.put(&path[..=known], &keys::wrapped(&path[known + 1..], value)?),
        }
    }

    fn put(&mut self, path: &[Key], value: &Value) -> Result<(), EcoString> {
        let expected = keys::with(&self.parsed.value, path, Some(value));
        self.accept(self.parsed.with(path, value)?, &expected, path)
    }

    /// Removes the value at a path, if it exists.
    ///
    /// # Errors
    /// If the edit is not supported.
    pub(super) fn remove(&mut self, path: &[Key]) -> Result<(), EcoString> {
        if self.get(path).is_none() {
            return Ok(());
        }
        let expected = keys::with(&self.parsed.value, path, None);
        let mut parsed = self.parsed.without(path)?;
        // A key can occur several times.
        while matches!(path.last(), Some(Key::Name(_))) && keys::get(&parsed.value, path).is_some() {
            parsed = parsed.without(path)?;
        }
        self.accept(parsed, &expected, path)
    }

    /// Accepts an edited text if it has the expected value, and so no other value has changed.
    fn accept(&mut self, edited: ParsedDocument, expected: &Value, path: &[Key]) -> Result<(), EcoString> {
        let is_expected = edited.value.is_same(expected) || is_void(&edited.value) && is_void(expected);
        if !is_expected {
            return Err(unsupported(path));
        }
        self.parsed = Rc::new(edited);
        self.is_changed = true;
        Ok(())
    }
}

fn unsupported(path: &[Key]) -> EcoString {
    let name = named(path);
    eco_format!(
        "kilter cannot edit {name} without changing other values: the file has a notation that is not supported, such \
         as an anchor with aliases; edit it by hand, or declare the `file`"
    )
}

/// Returns true for an empty document: a reader cannot tell an empty mapping from nothing.
fn is_void(value: &Value) -> bool {
    value.is_undef() || value.as_hash().is_some_and(|entries| entries.is_empty())
}

fn named(path: &[Key]) -> EcoString {
    match path {
        [] => "the document".into(),
        path => eco_format!("`{}`", keys::shown(path)),
    }
}
