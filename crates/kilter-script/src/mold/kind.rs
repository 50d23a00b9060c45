//! Metadata of mold scripts: from the file next to the script, or defaults.

use std::time::Duration;

use ecow::{EcoString, eco_format};
use kilter_model::{Behaviour, Feature, Hash, TypeSchema, Value, definition};

use crate::condition::Condition;
use crate::convention::ConventionName;
use crate::metadata::{
    self, Metadata, Origin, REFRESH, complete, identities, is_action, is_word, of_words, other, owns,
};

/// Name of the provider for a script in `resources`.
pub(super) const NAME: &str = "mold";

/// Maximum timeout in metadata, in seconds.
const LONGEST_TIMEOUT: i64 = 7 * 24 * 3600;

/// Settings for running a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ScriptMetadata {
    /// True if calls that only read are confined.
    pub(super) is_confined: bool,
    /// Declared timeout of a call.
    pub(super) timeout: Option<Duration>,
    /// Declared output limit in bytes.
    pub(super) output: Option<usize>,
}

impl Default for ScriptMetadata {
    fn default() -> ScriptMetadata {
        ScriptMetadata { is_confined: true, timeout: None, output: None }
    }
}

/// Returns the metadata of a script without a metadata file: resources have a name, exist or not, and may have
/// any attributes.
pub(super) fn without_metadata(name: &EcoString) -> Result<Metadata, EcoString> {
    let schema = TypeSchema::new(name.clone(), "Resources that a script of mold handles.");
    let schema = schema.attribute("name", "String[1]", Behaviour::Namevar, "Name of the resource.");
    let schema = complete(schema, "name", None).with_others(other());
    match definition::check(&schema).first() {
        Some(fault) => Err(eco_format!("{}", fault.message)),
        None => Ok(metadata_of(schema, None, ScriptMetadata::default())),
    }
}

/// Reads the metadata of the script `name` in `resources`.
///
/// # Errors
/// All faults.
pub(super) fn read(name: &EcoString, text: &str) -> Result<Metadata, Vec<EcoString>> {
    let mut entries = entries(text)?;
    if entries.contains_key("provider") {
        let why = "a file `*.prov` has its metadata below `provider:`; the metadata of a script in `resources` has \
                   the keys at the top level";
        return Err(vec![why.into()]);
    }
    match entries.get("name").map(|value| value.as_str() == Some(name.as_str())) {
        None => drop(entries.insert("name".into(), Value::from(name.as_str()))),
        Some(true) => {}
        Some(false) => return Err(vec![eco_format!("`name` is that of the script, {name}, or left out")]),
    }
    entries.entry("desc".into()).or_insert_with(|| Value::from("Resources that a script of mold handles."));
    let is_open = !entries.contains_key("attributes");
    entries.entry("attributes".into()).or_insert_with(|| Value::hash::<&str>([]));
    let mut rest = MoldKeys { faults: Vec::new(), entries: &mut entries };
    let key = rest.word("key");
    let words = rest.words("actions");
    let is_action_refresh = words.as_ref().is_some_and(|words| words.iter().any(|word| word == REFRESH));
    let refresh = rest.word(REFRESH).or_else(|| is_action_refresh.then(|| REFRESH.into()));
    let default = rest.get_bool("default");
    let is_open = rest.get_bool("open").unwrap_or(is_open);
    let parallel = rest.get_bool("parallel").unwrap_or(false);
    let manner = rest.manner();
    let (identities, watches) = (rest.entries.shift_remove("identities"), rest.entries.shift_remove("watches"));
    let owns = rest.entries.shift_remove("owns");
    let mut faults = rest.faults;
    if let Some(refresh) = &refresh
        && (!is_action(refresh) || words.as_ref().is_some_and(|words| !words.contains(refresh)))
    {
        faults.push(eco_format!("`refresh` is `{refresh}`, which is none of the `actions`"));
    }
    add_namevar(&mut entries, key.as_deref());
    let reading = definition::read(&Value::hash(entries));
    faults.extend(reading.faults.iter().map(|fault| eco_format!("{fault}")));
    if let Some(namevars) = several(&reading.schema) {
        faults.push(namevars);
    }
    let identities = identities.map_or(Ok(Vec::new()), |said| identities::identities(&said, &reading.schema));
    let watches = watches.map_or(Ok(Vec::new()), |said| identities::watches(&said, &reading.schema));
    let owns = owns.map(|said| owns::read(&said, &reading.schema)).transpose();
    faults.extend(owns.as_ref().err().cloned());
    faults.extend(identities.as_ref().err().into_iter().chain(watches.as_ref().err()).cloned());
    let (identities, watches) = (identities.unwrap_or_default(), watches.unwrap_or_default());
    if !faults.is_empty() {
        return Err(faults);
    }
    let namevar = reading.schema.namevars().next().map(|one| one.name.text().clone()).unwrap_or_default();
    let schema = complete(reading.schema, &namevar, refresh.as_ref());
    let schema = if is_open { schema.with_others(other()) } else { schema };
    let metadata = metadata_of(schema, words.as_deref(), manner);
    let owns = owns.unwrap_or_default();
    let (is_named_only, default) = (default == Some(false), Condition::Constant(default.unwrap_or(false)));
    Ok(Metadata { identities, owns, watches, refresh, parallel, default, is_named_only, ..metadata })
}

fn metadata_of(mut schema: TypeSchema, words: Option<&[EcoString]>, manner: ScriptMetadata) -> Metadata {
    let (actions, one_time) = of_words(words);
    // A provider without changes needs no call for a preview.
    if !actions.update && !schema.has(Feature::SupportsNoop) {
        schema.features.push(Feature::SupportsNoop);
    }
    Metadata {
        name: NAME.into(),
        convention: ConventionName::Mold,
        actions,
        one_time,
        refresh: None,
        suitable: Condition::Constant(true),
        default: Condition::Constant(false),
        is_named_only: false,
        noop_safe: false,
        confine: manner.is_confined,
        parallel: false,
        timeout: manner.timeout,
        output: manner.output,
        identities: Vec::new(),
        identifying: Vec::new(),
        in_sync: Vec::new(),
        owns: None,
        watches: Vec::new(),
        schema,
        transport: None,
        warnings: Vec::new(),
        origin: Origin::Beside,
    }
}

impl ScriptMetadata {
    /// Reads the metadata of a script that does not handle resources: `confine`, `timeout` and `output`.
    pub(super) fn read(text: &str) -> Result<ScriptMetadata, Vec<EcoString>> {
        let mut entries = entries(text)?;
        let mut rest = MoldKeys { faults: Vec::new(), entries: &mut entries };
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

/// Reader for mold's own keys. Removes them from the entries.
struct MoldKeys<'e> {
    faults: Vec<EcoString>,
    entries: &'e mut Hash,
}

impl MoldKeys<'_> {
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
        self.take(key, "a list of words", |value| {
            let word = |value: &Value| value.as_str().filter(|word| is_word(word)).map(EcoString::from);
            value.as_array()?.iter().map(word).collect()
        })
    }

    fn get_bool(&mut self, key: &str) -> Option<bool> {
        self.take(key, "true or false", |value| match value {
            Value::Boolean(truth) => Some(*truth),
            _ => None,
        })
    }

    fn manner(&mut self) -> ScriptMetadata {
        let timeout = self.take("timeout", "a number of seconds from 1 to 604800", |value| {
            let seconds = value.as_integer().filter(|seconds| (1..=LONGEST_TIMEOUT).contains(seconds))?;
            u64::try_from(seconds).ok().map(Duration::from_secs)
        });
        let output = self.take("output", "a number of MiB from 1 to 1024", metadata::mebibytes);
        ScriptMetadata { is_confined: self.get_bool("confine").unwrap_or(true), timeout, output }
    }
}

/// Declares the namevar if the metadata does not: `key`, otherwise `name`.
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
        _ => [("type".into(), Value::from("String[1]")), ("desc".into(), Value::from("Name of the resource."))]
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

#[cfg(test)]
mod tests {
    use kilter_model::Feature;

    use super::*;
    use crate::metadata::Actions;

    fn read(text: &str) -> Result<Metadata, Vec<EcoString>> {
        super::read(&"file".into(), text)
    }

    #[test]
    fn mold_metadata_may_be_complete_or_empty() {
        let plain = read("").unwrap();
        assert!(plain.schema.others.is_some() && plain.one_time.is_none() && plain.confine && plain.timeout.is_none());
        assert_eq!(plain.key(), "name");
        let said = "key: path\nactions: [touch, rotate]\nrefresh: touch\nconfine: false\ntimeout: 30\noutput: \
                    2\ndefault: true\nattributes:\n  \
                    mode: {type: String, desc: Its mode.}\n";
        let kind = read(said).unwrap();
        let names: Vec<&str> = kind.schema.attributes.iter().map(|one| one.name.as_str()).collect();
        assert_eq!((kind.key(), names.as_slice()), ("path", &["path", "exists", "mode"][..]));
        assert!(
            kind.schema.others.is_none()
                && kind.schema.has(Feature::Refresh)
                && matches!(kind.default, Condition::Constant(true))
        );
        assert_eq!((kind.confine, kind.timeout), (false, Some(Duration::from_secs(30))));
        assert_eq!(kind.output, Some(2 << 20));
        assert_eq!(kind.actions, Actions { list: false, find: true, update: true, refresh: false, watch: false });
        assert_eq!(definition::check(&kind.schema), []);
        assert!(
            read("open: true\nattributes: {path: {type: String, behaviour: namevar}}").unwrap().schema.others.is_some()
        );
    }

    #[test]
    fn actions_enable_list_and_read_only() {
        let of = |words: &str| read(&format!("actions: {words}")).unwrap();
        let all = of("[list, inspect, conform, rotate]");
        assert_eq!((all.actions, all.one_time), (Actions::ALL, Some(vec!["rotate".into()])));
        assert_eq!(
            of("[inspect]").actions,
            Actions { list: false, find: true, update: false, refresh: false, watch: false }
        );
        assert_eq!(of("[list]").actions, Actions::ALL);
    }

    #[test]
    fn metadata_problems_are_reported_together() {
        let faults = read("name: other").unwrap_err();
        assert!(faults[0].contains("that of the script"), "{faults:?}");
        let faults = read(
            "actions: [two words]\ntimeout: 0\noutput: 2 GB\nconfine: maybe\nrefresh: -x\nattributes: {a: {type: \
                  Nosuch}}",
        )
        .unwrap_err();
        assert_eq!(faults.len(), 6, "{faults:?}");
        assert!(read("actions: [a]\nrefresh: b").unwrap_err()[0].contains("none of the `actions`"));
        assert!(read("actions: [list]\nrefresh: list").unwrap_err()[0].contains("none of the `actions`"));
        assert!(read("provider: {type: file}").unwrap_err()[0].contains("below `provider:`"));
        assert!(read("[a]").is_err() && read("a: [").is_err());
        assert!(ScriptMetadata::read("confine: false\nkey: x").unwrap_err()[0].contains("`key` means nothing here"));
    }

    #[test]
    fn the_name_of_a_script_is_that_of_a_type() {
        assert!(without_metadata(&"file".into()).is_ok());
        assert!(without_metadata(&"file.py".into()).is_err());
    }
}
