//! Reads definitions of types.

use ecow::{EcoString, eco_format};

use super::DefinitionReading;
use super::aliases::Aliases;
use super::attribute;
use super::check::{self, Unread};
use super::fault::{Fault, FaultPlace, Path, Warning};
use super::output;
use super::patterns;
use super::relations::{self, KINDS};
use crate::schema::{Feature, PartOf, TypeSchema};
use crate::suggest;
use crate::value::{Hash, Value};

/// Known keys of a type.
const KEYS: [&str; 13] = [
    "name",
    "desc",
    "docs",
    "aliases",
    "attributes",
    "features",
    "title_patterns",
    "outputs",
    "part_of",
    "autorequire",
    "autobefore",
    "autosubscribe",
    "autonotify",
];

/// Collector of faults and warnings.
#[derive(Default)]
pub(super) struct Reader {
    pub(super) faults: Vec<Fault>,
    pub(super) warnings: Vec<Warning>,
    /// Parts that could not be read.
    pub(super) unread: Unread,
}

/// Entries of a hash. Ignores the colons of symbol keys.
pub(super) struct Entries<'v> {
    entries: &'v Hash,
    pub(super) path: Path,
}

impl<'v> Entries<'v> {
    /// Creates the entries at `path`. Reports a key that is present both as a text and as a symbol.
    pub(super) fn new(entries: &'v Hash, path: Path, reader: &mut Reader) -> Entries<'v> {
        for key in entries.keys() {
            let plain = symbol(key);
            if plain != key && entries.contains_key(plain) {
                let message = eco_format!("`{plain}` is declared twice, as a text and as a symbol");
                reader.fault(Fault::new(path.key(key.clone()), message).at(FaultPlace::Key));
            }
        }
        Entries { entries, path }
    }

    /// Returns the value of a key and its path. Treats undef as missing.
    pub(super) fn get(&self, key: &str) -> Option<(&'v Value, Path)> {
        let plain = self.entries.get_key_value(key);
        let (written, value) = plain.or_else(|| self.entries.get_key_value(eco_format!(":{key}").as_str()))?;
        (!value.is_undef()).then(|| (value, self.path.key(written.clone())))
    }

    /// Iterates over keys, paths and values.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'v str, Path, &'v Value)> {
        self.entries.iter().map(|(key, value)| (symbol(key), self.path.key(key.clone()), value))
    }
}

/// Removes the colon of a symbol.
pub(super) fn symbol(text: &str) -> &str {
    let name = text.strip_prefix(':').filter(|name| name.starts_with(|c: char| c.is_alphabetic() || c == '_'));
    name.unwrap_or(text)
}

/// Returns the kind of a value for messages.
pub(super) fn kind(value: &Value) -> EcoString {
    match value {
        Value::Undef => "nothing".into(),
        Value::Array(_) => "an Array".into(),
        Value::Integer(_) => "an Integer".into(),
        other => eco_format!("a {}", other.kind()),
    }
}

impl Reader {
    pub(super) fn fault(&mut self, fault: Fault) {
        self.faults.push(fault);
    }

    pub(super) fn warn(
        &mut self,
        path: Path,
        place: FaultPlace,
        message: impl Into<EcoString>,
        hint: Option<EcoString>,
    ) {
        self.warnings.push(Warning { path, place, message: message.into(), hint });
    }

    /// Reports a value of the wrong kind.
    pub(super) fn expected(&mut self, path: Path, what: &str, value: &Value) {
        self.fault(Fault::new(path, expectation(what, value)));
    }

    pub(super) fn text<'v>(&mut self, found: Option<(&'v Value, Path)>, what: &str) -> Option<&'v str> {
        let (value, path) = found?;
        let text = value.as_str();
        if text.is_none() {
            self.expected(path, what, value);
        }
        text
    }

    pub(super) fn get_bool(&mut self, found: Option<(&Value, Path)>) -> bool {
        let Some((value, path)) = found else { return false };
        if value.as_bool().is_none() {
            self.expected(path, "true or false", value);
        }
        value.as_bool().unwrap_or(false)
    }

    /// Reads a list of words. Accepts a single word as a list.
    pub(super) fn words(&mut self, found: Option<(&Value, Path)>, what: &str) -> Vec<(EcoString, Path)> {
        let Some((value, path)) = found else { return Vec::new() };
        let list = match value.unwrap_sensitive() {
            Value::Array(_) | Value::String(_) => value.as_list(),
            other => {
                self.expected(path, &eco_format!("a list of {what}"), other);
                return Vec::new();
            }
        };
        let single = value.as_array().is_none();
        let mut words: Vec<(EcoString, Path)> = Vec::new();
        for (index, one) in list.iter().enumerate() {
            let path = if single { path.clone() } else { path.index(index) };
            match one.as_str().map(symbol) {
                Some(word) if !word.is_empty() => words.push((word.into(), path)),
                Some(_) => self.fault(Fault::new(path, eco_format!("one of the {what} is empty"))),
                None => self.expected(path, &eco_format!("a text among the {what}"), one),
            }
        }
        words
    }

    /// Reads the text of `desc` or its alias `docs`. Warns if it is missing.
    pub(super) fn desc(&mut self, entries: &Entries<'_>, alias: Option<&str>) -> EcoString {
        let (desc, docs) = (entries.get("desc"), alias.and_then(|alias| entries.get(alias)));
        if let (Some(_), Some((_, path))) = (&desc, &docs) {
            let fault = Fault::new(path.clone(), "there are both `desc` and `docs`, which mean the same");
            self.fault(fault.at(FaultPlace::Key).hint("keep `desc`"));
        }
        let text = match desc.or(docs) {
            None => "",
            Some(found) => match self.text(Some(found), "a text") {
                Some(text) => text,
                None => return EcoString::new(),
            },
        };
        if text.trim().is_empty() {
            self.warn(entries.path.clone(), FaultPlace::Key, "it has no documentation", Some("add a `desc`".into()));
        }
        text.into()
    }

    /// Returns the unknown keys. Warns about keys that are similar to a known key.
    pub(super) fn extra(&mut self, entries: &Entries<'_>, known: &[&'static str]) -> Hash {
        let mut extra = Hash::default();
        for (key, path, value) in entries.iter().filter(|(key, ..)| !known.contains(key)) {
            if let Some(near) = suggest::nearest(key, known.iter().copied()) {
                let message = eco_format!("the key `{key}` is unknown; kilter ignores it");
                self.warn(path, FaultPlace::Key, message, Some(eco_format!("did you mean `{near}`?")));
            }
            extra.insert(key.into(), value.clone());
        }
        extra
    }
}

/// Reads a definition as far as possible.
pub(super) fn read(value: &Value) -> DefinitionReading {
    let mut reader = Reader::default();
    let schema = match value.as_hash() {
        Some(entries) => {
            let entries = Entries::new(entries, Path::root(), &mut reader);
            definition(&entries, &mut reader)
        }
        None => {
            reader.expected(Path::root(), "a hash with the keys `name`, `desc` and `attributes`", value);
            TypeSchema::new("", "")
        }
    };
    DefinitionReading { schema, faults: reader.faults, warnings: reader.warnings }
}

fn definition(entries: &Entries<'_>, reader: &mut Reader) -> TypeSchema {
    let name = name(entries, reader);
    let desc = reader.desc(entries, Some("docs"));
    let mut schema = TypeSchema::new(name.unwrap_or_default(), desc);
    let aliases = match entries.get("aliases") {
        None => Aliases::default(),
        Some((Value::Hash(table), path)) => {
            let texts = table.iter().filter_map(|(name, text)| Some((name.clone(), text.as_str()?.into())));
            schema.aliases = texts.collect();
            Aliases::read(table, &path, reader)
        }
        Some((other, path)) => {
            reader.expected(path, "a hash of types by name", other);
            Aliases::default()
        }
    };
    attributes(entries, &aliases, &mut schema, reader);
    features(entries, &mut schema, reader);
    schema.title_patterns = patterns::read(entries.get("title_patterns"), reader);
    for kind in KINDS {
        schema.relations.extend(relations::read(kind, entries, reader));
    }
    outputs(entries, &aliases, &mut schema, reader);
    schema.part_of = part_of(entries, &schema, reader);
    schema.extra = reader.extra(entries, &KEYS);
    reader.unread.name = name.is_none();
    reader.faults.extend(check::faults(&schema, reader.unread));
    schema
}

fn name<'v>(entries: &Entries<'v>, reader: &mut Reader) -> Option<&'v str> {
    let found = entries.get("name");
    if found.is_none() {
        reader.fault(Fault::new(Path::root(), "it has no `name`").at(FaultPlace::Key));
    }
    reader.text(found, "a text").map(symbol)
}

fn attributes(entries: &Entries<'_>, aliases: &Aliases, schema: &mut TypeSchema, reader: &mut Reader) {
    match entries.get("attributes") {
        Some((Value::Hash(attributes), path)) => {
            let attributes = Entries::new(attributes, path, reader);
            let is_ensurable = attributes.get("ensure").is_some();
            for (name, path, value) in attributes.iter() {
                // A second spelling of the name has already been reported.
                if schema.find(name).is_none() {
                    schema.attributes.push(attribute::read(name, value, &path, aliases, is_ensurable, reader));
                }
            }
        }
        Some((other, path)) => {
            reader.unread.attributes = true;
            reader.expected(path, "a hash of attributes by name", other);
        }
        None => {
            reader.unread.attributes = true;
            reader.fault(Fault::new(Path::root(), "it has no `attributes`").at(FaultPlace::Key));
        }
    }
}

fn features(entries: &Entries<'_>, schema: &mut TypeSchema, reader: &mut Reader) {
    for (word, path) in reader.words(entries.get("features"), "features") {
        match Feature::from_word(&word) {
            Some(feature) if !schema.has(feature) => schema.features.push(feature),
            Some(_) => {}
            None => {
                let known = Feature::ALL.map(Feature::word);
                let hint = match suggest::nearest(&word, known) {
                    Some(near) => eco_format!("did you mean `{near}`?"),
                    None => eco_format!("kilter knows {}", known.join(", ")),
                };
                let message = eco_format!("the feature `{word}` is unknown; kilter ignores it");
                reader.warn(path, FaultPlace::Value, message, Some(hint));
                schema.own_features.push(word);
            }
        }
    }
}

/// Reads `part_of: { type: file, by: path, into: parts }`.
fn part_of(entries: &Entries<'_>, schema: &TypeSchema, reader: &mut Reader) -> Option<PartOf> {
    let (value, path) = entries.get("part_of")?;
    let Some(table) = value.as_hash() else {
        reader.expected(path, "a hash such as {type: file, by: path, into: parts}", value);
        return None;
    };
    let entries = Entries::new(table, path.clone(), reader);
    let mut word = |key: &str| {
        let found = entries.get(key);
        if found.is_none() {
            reader.fault(Fault::new(path.clone(), eco_format!("it has no `{key}`")).at(FaultPlace::Key));
        }
        reader.text(found, "a text").map(|text| EcoString::from(symbol(text)))
    };
    let (type_name, by, into) = (word("type")?, word("by")?, word("into")?);
    if schema.find(&by).is_none() && !reader.unread.attributes {
        let message = eco_format!("there is no attribute `{by}` that could name the containing resource");
        reader.fault(Fault::new(path.key("by"), message));
    }
    Some(PartOf { type_name: type_name.as_str().into(), by: by.as_str().into(), into: into.as_str().into() })
}

fn outputs(entries: &Entries<'_>, aliases: &Aliases, schema: &mut TypeSchema, reader: &mut Reader) {
    match entries.get("outputs") {
        None => {}
        Some((Value::Hash(outputs), path)) => {
            for (name, path, value) in Entries::new(outputs, path, reader).iter() {
                schema.outputs.push(output::read(name, value, path, aliases, reader));
            }
        }
        Some((other, path)) => reader.expected(path, "a hash of outputs by name", other),
    }
}

/// Returns the message for a value of the wrong kind.
pub(super) fn expectation(what: &str, value: &Value) -> EcoString {
    eco_format!("expects {what}, got {}", kind(value))
}
