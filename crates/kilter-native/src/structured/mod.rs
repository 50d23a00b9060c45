//! The type `structured`: a value in a JSON, YAML or TOML file that others own too.

mod converge;
mod flow;
mod json;
mod keys;
mod toml;
mod tree;
mod yaml;
mod yaml_tree;

use std::sync::LazyLock;

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Behaviour, Feature, TypeSchema, Value};
use kilter_provider::{Claim, Insync, ValidationError};

use crate::builtin::is_absent;
use crate::edit::{Edits, FoundPart, PartProvider, PartType, Probe, about_files, common};
use converge::{Document, Format};
use keys::Key;

/// Provides the type `structured`.
pub type StructuredProvider = PartProvider<Structured>;

/// The values of structured files.
pub struct Structured;

const DESC: &str = concat!(
    "\
Values in JSON, YAML and TOML files that other programs or people own too.

```yaml
resources:
  structured[log driver]:
    path: /etc/docker/daemon.json
    key: log-driver
    value: journald
    create: true
  structured[log limits]:
    path: /etc/docker/daemon.json
    key: log-opts
    value: { max-size: 10m, max-file: '3' }
    merge: true
  structured[first registry]:
    path: /etc/containers/registries.conf
    format: toml
    key: [registry, 0, insecure]
    value: false
```

*Structured data* is the common name of these formats. The type is a counterpart of `ini` for files with nested values.

kilter keeps comments, order and notation of the rest of the file. It replaces only values that differ. If it replaces \
a mapping or a list, it changes only the values inside that differ. kilter inserts a new key last in its mapping, in \
the notation of its neighbours, and makes missing mappings and lists above the key. After each edit, kilter reads the \
new text again. If another value would change, the resource fails and kilter writes nothing.

- JSON may have comments (`//`, `/* */`) and commas before a closing bracket, because many programs allow them.
- kilter reads YAML with the types of YAML 1.2: `yes` and `0644` are texts. A file has one document. kilter changes no \
key through an alias. A merge key (`<<`) is a key like others.
- In TOML, a new mapping becomes a table with a header; in an inline table it becomes an inline table. Dates and times \
are texts.
- If kilter removes a value, it keeps the comment above it.",
    about_files!()
);

static SCHEMA: LazyLock<TypeSchema> = LazyLock::new(|| {
    let schema = TypeSchema::new("structured", DESC)
        .attribute(
            "ensure",
            "Enum[present, absent]",
            Behaviour::Property,
            "State of the value: `present`, or `absent`, which removes its key or item.",
        )
        .default("present")
        .attribute("name", "String[1]", Behaviour::Namevar, "Name of the resource. The file does not contain it.");
    common(schema)
        .attribute(
            "key",
            "Variant[String, Array[Variant[String, Integer], 1]]",
            Behaviour::Parameter,
            "Key of the value: `log-driver`. A list is a path: `[log-opts, max-size]`. A number is the index of an \
             item of a list, from 0: `[registry, 0]`. The number of items appends an item. A dot in a key is part of the key.",
        )
        .required()
        .attribute(
            "value",
            "Data",
            Behaviour::Property,
            "Value: a text, a number, a boolean, a list or a mapping. Its type counts: `\"1\"` is not `1`. The order \
             of keys does not count. Required, unless `ensure` is `absent`.",
        )
        .attribute(
            "merge",
            "Boolean",
            Behaviour::Parameter,
            "Keep the keys of a mapping that `value` does not have. With `false`, they are removed.",
        )
        .default(false)
        .attribute(
            "format",
            "Enum[json, yaml, toml]",
            Behaviour::Parameter,
            "Format of the file. Without it, the name of the file decides: `.json`, `.jsonc`, `.yaml`, `.yml`, \
             `.toml`.",
        )
        .features(&[Feature::CustomInsync, Feature::SimpleGetFilter])
});

fn format(should: &Attributes) -> Option<Format> {
    Format::of(should.text("format"), should.text("path").unwrap_or_default())
}

fn is_merged(should: &Attributes) -> bool {
    should.get_bool("merge") == Some(true)
}

impl PartType for Structured {
    const NAME: &'static str = "structured";
    const PROPERTY: &'static str = "value";
    const NOUN: &'static str = "a value of a file";
    const MERGE: Option<&'static str> = Some("merge");

    fn is_empty(bytes: &[u8]) -> bool {
        let text: Vec<u8> = bytes.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
        matches!(&*text, b"" | b"{}" | b"[]" | b"null" | b"---")
    }

    fn schema() -> &'static TypeSchema {
        &SCHEMA
    }

    fn probes(_: &str, _: &Attributes) -> Vec<Probe> {
        Vec::new()
    }

    fn edit(_: &str, should: &Attributes, edits: &mut Edits<'_>) -> Result<FoundPart, EcoString> {
        let format = format(should).ok_or("its format is not known")?;
        let mut path = keys::path(should.get("key"))?;
        let wanted = should.get("value").map(Value::expose).unwrap_or_default();
        let mut document = Document::new(format, edits)?;
        let found = document.get(&path).cloned();
        let is_merged = is_merged(should);
        match is_absent(should) {
            true => document.remove(&path)?,
            false => document.assign(&mut path, &wanted, is_merged)?,
        }
        document.store();
        Ok(match found {
            Some(value) => {
                let value = if is_merged { keys::restricted(&value, &wanted) } else { value };
                FoundPart { exists: true, value: Some(value).filter(|value| !value.is_undef()) }
            }
            None => FoundPart::ABSENT,
        })
    }

    fn validate(_: &str, should: &Attributes, deferred: &[&str]) -> Vec<ValidationError> {
        let mut problems = Vec::new();
        if format(should).is_none() && !["format", "path"].iter().any(|name| deferred.contains(name)) {
            let path = should.text("path").unwrap_or_default();
            let problem = ValidationError::with("format", eco_format!("the name of {path} does not tell its format"));
            problems.push(problem.hint("add `format: json`, `yaml` or `toml`"));
        }
        if !deferred.contains(&"key")
            && let Err(why) = keys::path(should.get("key"))
        {
            problems.push(ValidationError::with("key", why));
        }
        if !is_absent(should) && should.get("value").is_none() && !deferred.contains(&"value") {
            let problem = ValidationError::with("value", "a key needs a value");
            problems.push(problem.hint("add `value`, or `ensure: absent`"));
        }
        if let Some(value) = should.get("value") {
            let value = value.expose();
            if is_merged(should) && value.as_hash().is_none() {
                let message = eco_format!("only a mapping can be merged, not {}", keys::kind(&value));
                problems.push(ValidationError::with("merge", message).hint("remove `merge`, or write a mapping"));
            }
            if let Some(why) = format(should).and_then(|format| impossible(format, &value)) {
                problems.push(ValidationError::with("value", why));
            }
        }
        problems
    }

    fn claims(_: &str, should: &Attributes, say: &mut dyn FnMut(Claim<'_>)) {
        let Ok(mut path) = keys::path(should.get("key")) else { return };
        (1..path.len()).for_each(|len| say(Claim::part(&keys::shown(&path[..len]))));
        // A value from another resource is not known yet.
        let value = should.get("value").map_or_else(|| Value::hash::<EcoString>([]), Value::expose);
        claim(&mut path, Some(&value).filter(|_| is_merged(should) && !is_absent(should)), say);
    }

    fn insync(is: Option<&Value>, should: &Attributes) -> Insync {
        match (is, should.get("value")) {
            (Some(is), Some(wanted)) if is.is_same(&wanted.expose()) => Insync::Same,
            _ => Insync::Differs(None),
        }
    }
}

/// Claims the value at a path. Of a mapping that is merged, claims the values inside.
fn claim(path: &mut Vec<Key>, merged: Option<&Value>, say: &mut dyn FnMut(Claim<'_>)) {
    let Some(entries) = merged.and_then(Value::as_hash) else { return say(Claim::whole(&keys::shown(path))) };
    say(Claim::part(&keys::shown(path)));
    for (key, value) in entries.iter() {
        path.push(Key::Name(key.clone()));
        claim(path, Some(value), say);
        path.pop();
    }
}

/// Returns the reason why a format cannot express a value.
fn impossible(format: Format, value: &Value) -> Option<EcoString> {
    match value {
        Value::Undef if format == Format::Toml => Some("TOML has no null".into()),
        Value::Float(number) if format == Format::Json && !number.is_finite() => {
            Some(eco_format!("JSON cannot express the number {number}"))
        }
        Value::Array(items) => items.iter().find_map(|item| impossible(format, item)),
        Value::Hash(entries) => entries.values().find_map(|value| impossible(format, value)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
