//! What is known of a script that handles resources: what it says beside itself, or what holds without that.

use std::time::Duration;

use ecow::{EcoString, eco_format};
use kilter_model::{AttributeSchema, Behaviour, DataType, Feature, Hash, TypeSchema, Value, definition};

use crate::metadata;

/// The longest time that metadata can ask for, in seconds.
const LONGEST_TIMEOUT: i64 = 7 * 24 * 3600;

/// A kind of resources that a script handles.
#[derive(Clone, Debug)]
pub(super) struct Kind {
    /// The type.
    pub(super) schema: TypeSchema,
    /// Which one-time actions there are; none where nobody has said so, and any may be tried.
    pub(super) actions: Option<Vec<EcoString>>,
    /// The action that serves a refresh.
    pub(super) refresh: Option<EcoString>,
    /// Whether it is preferred to other providers of the type.
    pub(super) is_default: bool,
    /// How it is run.
    pub(super) manner: Manner,
}

/// How a script is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Manner {
    /// Whether what only reads is kept from changing the machine.
    pub(super) is_confined: bool,
    /// How long one call may take, where that was said.
    pub(super) timeout: Option<Duration>,
    /// How many bytes it may print, where that was said.
    pub(super) output: Option<usize>,
}

impl Default for Manner {
    fn default() -> Manner {
        Manner { is_confined: true, timeout: None, output: None }
    }
}

/// The attribute that tells whether a resource is there.
pub(super) const EXISTS: &str = "exists";

impl Kind {
    /// What holds of a script that says nothing of itself: resources have a name, exist or not, and have any attributes.
    pub(super) fn without_metadata(name: &EcoString) -> Result<Kind, EcoString> {
        let schema = TypeSchema::new(name.clone(), "Resources that a script of mold handles.");
        let schema = schema.attribute("name", "String[1]", Behaviour::Namevar, "What names the resource.");
        let kind = Kind {
            schema: complete(schema, "name").with_others(other()),
            actions: None,
            refresh: None,
            is_default: false,
            manner: Manner::default(),
        };
        match definition::check(&kind.schema).first() {
            Some(fault) => Err(eco_format!("{}", fault.message)),
            None => Ok(kind),
        }
    }

    /// What the metadata of the script `name` says.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub(super) fn read(name: &EcoString, text: &str) -> Result<Kind, Vec<EcoString>> {
        let mut entries = entries(text)?;
        match entries.get("name").map(|value| value.as_str() == Some(name.as_str())) {
            None => drop(entries.insert("name".into(), Value::from(name.as_str()))),
            Some(true) => {}
            Some(false) => return Err(vec![eco_format!("`name` is that of the script, {name}, or left out")]),
        }
        entries.entry("desc".into()).or_insert_with(|| Value::from("Resources that a script of mold handles."));
        let is_open = !entries.contains_key("attributes");
        entries.entry("attributes".into()).or_insert_with(|| Value::hash::<&str>([]));
        let mut rest = Rest { faults: Vec::new(), entries: &mut entries };
        let key = rest.word("key");
        let actions = rest.words("actions");
        let refresh = rest.word("refresh");
        let is_default = rest.truth("default").unwrap_or(false);
        let is_open = rest.truth("open").unwrap_or(is_open);
        let manner = rest.manner();
        let mut faults = rest.faults;
        if let (Some(actions), Some(refresh)) = (&actions, &refresh)
            && !actions.contains(refresh)
        {
            faults.push(eco_format!("`refresh` is `{refresh}`, which is none of the `actions`"));
        }
        add_namevar(&mut entries, key.as_deref());
        let reading = definition::read(&Value::hash(entries));
        faults.extend(reading.faults.iter().map(|fault| eco_format!("{fault}")));
        if let Some(namevars) = several(&reading.schema) {
            faults.push(namevars);
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let namevar = reading.schema.namevars().next().map(|one| one.name.text().clone()).unwrap_or_default();
        let mut schema = complete(reading.schema, &namevar);
        if refresh.is_some() && !schema.has(Feature::Refresh) {
            schema.features.push(Feature::Refresh);
        }
        let schema = if is_open { schema.with_others(other()) } else { schema };
        Ok(Kind { schema, actions, refresh, is_default, manner })
    }

    /// The attribute that names a resource in the documents of the script.
    pub(super) fn key(&self) -> &str {
        self.schema.namevars().next().map_or("name", |namevar| namevar.name.as_str())
    }
}

impl Manner {
    /// What the metadata of a script that is no resource's says: `confine`, `timeout` and `output`.
    pub(super) fn read(text: &str) -> Result<Manner, Vec<EcoString>> {
        let mut entries = entries(text)?;
        let mut rest = Rest { faults: Vec::new(), entries: &mut entries };
        let manner = rest.manner();
        let mut faults = rest.faults;
        faults.extend(entries.keys().map(|key| eco_format!("the key `{key}` means nothing here")));
        if faults.is_empty() { Ok(manner) } else { Err(faults) }
    }
}

fn entries(text: &str) -> Result<Hash, Vec<EcoString>> {
    let is_said = |line: &str| !line.is_empty() && !line.starts_with('#') && line != "---";
    if !text.lines().map(str::trim).any(is_said) {
        return Ok(Hash::default());
    }
    match metadata::value(text).map_err(|fault| vec![eco_format!("{fault}")])? {
        Value::Hash(entries) => Ok((*entries).clone()),
        Value::Undef => Ok(Hash::default()),
        other => Err(vec![eco_format!("it is a mapping, not a value of kind {}", other.kind())]),
    }
}

/// The keys that are mold's, each taken out as it is read.
struct Rest<'e> {
    faults: Vec<EcoString>,
    entries: &'e mut Hash,
}

impl Rest<'_> {
    fn take<T>(&mut self, key: &str, what: &str, read: impl Fn(&Value) -> Option<T>) -> Option<T> {
        let value = self.entries.shift_remove(key)?;
        let read = read(&value);
        if read.is_none() {
            self.faults.push(eco_format!("`{key}` is {what}"));
        }
        read
    }

    fn word(&mut self, key: &str) -> Option<EcoString> {
        self.take(key, "a word", |value| value.as_str().filter(|word| is_word(word)).map(EcoString::from))
    }

    fn words(&mut self, key: &str) -> Option<Vec<EcoString>> {
        self.take(key, "a list of words, none of them inspect or conform", |value| {
            let word = |value: &Value| value.as_str().filter(|word| is_action(word)).map(EcoString::from);
            value.as_array()?.iter().map(word).collect()
        })
    }

    fn truth(&mut self, key: &str) -> Option<bool> {
        self.take(key, "true or false", |value| match value {
            Value::Boolean(truth) => Some(*truth),
            _ => None,
        })
    }

    fn manner(&mut self) -> Manner {
        let timeout = self.take("timeout", "a number of seconds from 1 to 604800", |value| {
            let seconds = value.as_integer().filter(|seconds| (1..=LONGEST_TIMEOUT).contains(seconds))?;
            u64::try_from(seconds).ok().map(Duration::from_secs)
        });
        let output = self.take("output", "a number of MiB from 1 to 1024", metadata::mebibytes);
        Manner { is_confined: self.truth("confine").unwrap_or(true), timeout, output }
    }
}

fn is_word(word: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    word.starts_with(|c: char| c.is_ascii_alphanumeric()) && word.chars().all(is_part)
}

/// Whether a word can be a one-time action.
pub(super) fn is_action(word: &str) -> bool {
    is_word(word) && !matches!(word, "inspect" | "conform")
}

/// Declares the attribute that names resources, if metadata does not: `key`, or else `name`.
fn add_namevar(entries: &mut Hash, key: Option<&str>) {
    let Some(Value::Hash(attributes)) = entries.get("attributes") else { return };
    let behaviour = |value: &Value| match value {
        Value::Hash(of) => {
            of.get("behaviour").and_then(Value::as_str).map(|word| word.trim_start_matches(':').to_owned())
        }
        _ => None,
    };
    if attributes.values().any(|value| behaviour(value).as_deref() == Some("namevar")) && key.is_none() {
        return;
    }
    let key = key.unwrap_or("name");
    let mut attributes = (**attributes).clone();
    let mut declared = match attributes.shift_remove(key) {
        Some(Value::Hash(declared)) => (*declared).clone(),
        _ => [("type".into(), Value::from("String[1]")), ("desc".into(), Value::from("What names the resource."))]
            .into_iter()
            .collect(),
    };
    declared.insert("behaviour".into(), Value::from("namevar"));
    let first = [(EcoString::from(key), Value::hash(declared))];
    entries.insert("attributes".into(), Value::hash(first.into_iter().chain(attributes)));
}

fn several(schema: &TypeSchema) -> Option<EcoString> {
    let namevars: Vec<&str> = schema.namevars().map(|namevar| namevar.name.as_str()).collect();
    (namevars.len() > 1).then(|| eco_format!("one attribute names a resource, not {}", namevars.join(" and ")))
}

/// Adds what every kind has: whether a resource is there, and what the provider can do.
fn complete(mut schema: TypeSchema, key: &str) -> TypeSchema {
    if schema.find(EXISTS).is_none() {
        let data_type = "Boolean".parse().unwrap_or(DataType::Any);
        let exists = AttributeSchema::new(EXISTS, data_type, Behaviour::Property, "Whether the resource is there.");
        let after = schema.attributes.iter().position(|one| one.name == *key).map_or(0, |at| at + 1);
        schema.attributes.insert(after, exists);
    }
    for feature in [Feature::CustomInsync, Feature::SimpleGetFilter] {
        if !schema.has(feature) {
            schema.features.push(feature);
        }
    }
    schema
}

fn other() -> AttributeSchema {
    AttributeSchema::new("other", DataType::Any, Behaviour::Property, "An attribute that only the script knows.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Kind, Vec<EcoString>> {
        Kind::read(&"file".into(), text)
    }

    #[test]
    fn metadata_may_say_all_or_nothing() {
        let plain = read("").unwrap();
        assert!(plain.schema.others.is_some() && plain.actions.is_none() && plain.manner == Manner::default());
        assert_eq!(plain.key(), "name");
        let said = "key: path\nactions: [touch, rotate]\nrefresh: touch\nconfine: false\ntimeout: 30\noutput: 2\ndefault: true\nattributes:\n  \
                    mode: {type: String, desc: Its mode.}\n";
        let kind = read(said).unwrap();
        let names: Vec<&str> = kind.schema.attributes.iter().map(|one| one.name.as_str()).collect();
        assert_eq!((kind.key(), names.as_slice()), ("path", &["path", "exists", "mode"][..]));
        assert!(kind.schema.others.is_none() && kind.schema.has(Feature::Refresh) && kind.is_default);
        assert_eq!(
            kind.manner,
            Manner { is_confined: false, timeout: Some(Duration::from_secs(30)), output: Some(2 << 20) }
        );
        assert_eq!(definition::check(&kind.schema), []);
        assert!(
            read("open: true\nattributes: {path: {type: String, behaviour: namevar}}").unwrap().schema.others.is_some()
        );
    }

    #[test]
    fn what_is_wrong_in_metadata_is_told_at_once() {
        let faults = read("name: other").unwrap_err();
        assert!(faults[0].contains("that of the script"), "{faults:?}");
        let faults =
            read("actions: [inspect]\ntimeout: 0\noutput: 2 GB\nconfine: maybe\nrefresh: -x\nattributes: {a: {type: Nosuch}}")
                .unwrap_err();
        assert_eq!(faults.len(), 6, "{faults:?}");
        assert!(read("actions: [a]\nrefresh: b").unwrap_err()[0].contains("none of the `actions`"));
        assert!(read("[a]").is_err() && read("a: [").is_err());
        assert!(Manner::read("confine: false\nkey: x").unwrap_err()[0].contains("`key` means nothing here"));
    }

    #[test]
    fn the_name_of_a_script_is_that_of_a_type() {
        assert!(Kind::without_metadata(&"file".into()).is_ok());
        assert!(Kind::without_metadata(&"file.py".into()).is_err());
    }
}
