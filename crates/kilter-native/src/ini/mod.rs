//! The type `ini`: a setting in a section of a file that others own too.

use std::sync::LazyLock;

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Behaviour, Feature, TypeSchema, Value};
use kilter_provider::{Claim, Insync, ValidationError};

use crate::builtin::is_absent;
use crate::edit::{Edits, FoundPart, PartProvider, PartType, Position, Probe, about_files, common, line_problem};

/// Provides the type `ini`.
pub type IniProvider = PartProvider<Ini>;

/// The settings of files in INI format.
pub struct Ini;

const SEPARATOR: &str = " = ";

const DESC: &str = concat!(
    "\
Settings in files with sections (INI format) that other programs or people own too.

```yaml
resources:
  ini[memory]:
    path: /etc/php/8.2/fpm/php.ini
    section: PHP
    setting: memory_limit
    value: 256M
  ini[log level]:
    path: /etc/app.conf
    setting: log_level
    value: warn
    separator: '='
    create: true
```

kilter keeps comments, order and spacing. It replaces the value only. kilter inserts a new setting after the last \
setting of its section, and a new section at the end of the file. If a setting occurs several times in a section, \
kilter compares and changes its last occurrence, because most programs use the last one. `ensure: absent` removes all \
occurrences.

Lines that begin with `#` or `;` are comments. The value is the rest of the line, with quotes and comments that it may \
contain.",
    about_files!()
);

static SCHEMA: LazyLock<TypeSchema> = LazyLock::new(|| {
    let schema = TypeSchema::new("ini", DESC)
        .attribute(
            "ensure",
            "Enum[present, absent]",
            Behaviour::Property,
            "State of the setting: `present`, or `absent`, which removes it. Its section stays, unless it is empty and \
             `create` is `true`.",
        )
        .default("present")
        .attribute("name", "String[1]", Behaviour::Namevar, "Name of the resource. The file does not contain it.");
    common(schema)
        .attribute(
            "section",
            "String",
            Behaviour::Parameter,
            "Section, without brackets: `PHP`. The empty section is the part before the first section.",
        )
        .default("")
        .attribute("setting", "String[1]", Behaviour::Parameter, "Name of the setting: `memory_limit`.")
        .required()
        .attribute(
            "value",
            "Variant[String, Integer, Float, Boolean]",
            Behaviour::Property,
            "Value of the setting: `256M`. Required, unless `ensure` is `absent`.",
        )
        .attribute(
            "separator",
            "String[1]",
            Behaviour::Parameter,
            "Text between setting and value on a new line. In existing lines, kilter ignores blanks around the \
             separator. If the text consists of blanks, any white space separates setting and value.",
        )
        .default(SEPARATOR)
        .features(&[Feature::CustomInsync, Feature::SimpleGetFilter])
});

/// A setting of a line.
struct Setting<'l> {
    name: &'l str,
    /// Offset of the value in the line.
    value_at: usize,
}

/// Returns the setting of a line, if it is one. `separator` has no blanks; an empty one means white space.
fn setting<'l>(line: &'l str, separator: &str) -> Option<Setting<'l>> {
    let start = line.trim_start();
    if start.is_empty() || start.starts_with(['#', ';', '[']) {
        return None;
    }
    let at = line.len() - start.len();
    let end = match separator {
        "" => start.find(char::is_whitespace)?,
        separator => start.find(separator)?,
    };
    let rest = &start[end + separator.len()..];
    let value_at = at + end + separator.len() + (rest.len() - rest.trim_start().len());
    Some(Setting { name: start[..end].trim_end(), value_at })
}

/// Returns the name of the section that a line begins.
fn section(line: &str) -> Option<&str> {
    let inside = line.trim().strip_prefix('[')?;
    Some(inside.split_once(']')?.0.trim())
}

/// Places in a file that matter for a setting.
#[derive(Default)]
struct Places {
    /// Lines with the setting.
    found: Vec<Position>,
    /// Header or last setting of the section.
    last: Option<Position>,
    first_header: Option<Position>,
    is_last_line_blank: bool,
}

fn places(edits: &Edits<'_>, wanted_section: &str, name: &str, separator: &str) -> Places {
    let mut places = Places { is_last_line_blank: true, ..Places::default() };
    let mut is_inside = wanted_section.is_empty();
    for at in edits.all() {
        let line = String::from_utf8_lossy(edits.line(at));
        places.is_last_line_blank = line.trim().is_empty();
        if let Some(header) = section(&line) {
            is_inside = header == wanted_section && !wanted_section.is_empty();
            places.first_header.get_or_insert(at);
            if is_inside {
                places.last = Some(at);
            }
        } else if is_inside && let Some(setting) = setting(&line, separator) {
            places.last = Some(at);
            if setting.name == name {
                places.found.push(at);
            }
        }
    }
    places
}

impl PartType for Ini {
    const NAME: &'static str = "ini";
    const PROPERTY: &'static str = "value";
    const NOUN: &'static str = "a setting";

    fn schema() -> &'static TypeSchema {
        &SCHEMA
    }

    fn probes(_: &str, _: &Attributes) -> Vec<Probe> {
        Vec::new()
    }

    fn edit(_: &str, should: &Attributes, edits: &mut Edits<'_>) -> Result<FoundPart, EcoString> {
        // Values from other resources have not been validated before.
        if let Some(problem) = problems(should).into_iter().next() {
            return Err(problem.message);
        }
        let given = should.text("separator").unwrap_or(SEPARATOR);
        let separator = given.trim();
        let header = should.text("section").unwrap_or_default();
        let name = should.text("setting").unwrap_or_default();
        let value = should.get("value").and_then(Value::to_text).unwrap_or_default();
        let places = places(edits, header, name, separator);
        let Some(at) = places.found.last().copied() else {
            if !is_absent(should) {
                let line = format!("{name}{given}{value}");
                add(edits, &places, header, line.as_bytes());
            }
            return Ok(FoundPart::ABSENT);
        };
        let line = String::from_utf8_lossy(edits.line(at)).into_owned();
        let value_at = setting(&line, separator).map_or(line.len(), |setting| setting.value_at);
        let (head, old) = line.split_at(value_at);
        let before = FoundPart::text(old.trim_end().as_bytes());
        if is_absent(should) {
            edits.remove(&places.found);
            if should.get_bool("create") == Some(true) {
                remove_empty_section(edits, header);
            }
        } else if old.trim_end() != value {
            let has_blank = head.ends_with(char::is_whitespace) || !given.ends_with(char::is_whitespace);
            let blank = if has_blank || !old.is_empty() { "" } else { " " };
            edits.replace(&[at], format!("{head}{blank}{value}").as_bytes());
        }
        Ok(before)
    }

    fn validate(_: &str, should: &Attributes, deferred: &[&str]) -> Vec<ValidationError> {
        let mut problems = problems(should);
        if !is_absent(should) && should.get("value").is_none() && !deferred.contains(&"value") {
            let problem = ValidationError::with("value", "a setting needs a value");
            problems.push(problem.hint("add `value`, or `ensure: absent`"));
        }
        problems
    }

    fn claims(_: &str, should: &Attributes, say: &mut dyn FnMut(Claim<'_>)) {
        // An attribute without a value receives it from another resource.
        if let (Some(section), Some(setting)) = (should.text("section"), should.text("setting")) {
            say(Claim::whole(&format!("[{section}] {setting}")));
        }
    }

    fn insync(is: Option<&Value>, should: &Attributes) -> Insync {
        let text = |value: Option<&Value>| value.and_then(Value::to_text).unwrap_or_default();
        match text(is) == text(should.get("value")) {
            true => Insync::Same,
            false => Insync::Differs(None),
        }
    }
}

/// Removes the header of a section without lines, and the blank line before it.
fn remove_empty_section(edits: &mut Edits<'_>, header: &str) {
    let lines: Vec<Position> = edits.all().collect();
    let text = |at: Position| String::from_utf8_lossy(edits.line(at)).into_owned();
    let is_blank = |at: &Position| text(*at).trim().is_empty();
    let is_header = |at: &Position| section(&text(*at)).is_some();
    let is_it = |at: &Position| section(&text(*at)).is_some_and(|found| found == header && !header.is_empty());
    let Some(first) = lines.iter().position(is_it) else { return };
    let inside = lines[first + 1..].iter().take_while(|at| !is_header(at));
    if !inside.clone().all(is_blank) {
        return;
    }
    let end = first + 1 + inside.count();
    let start = if first > 0 && is_blank(&lines[first - 1]) && end == lines.len() { first - 1 } else { first };
    edits.remove(&lines[start..end]);
}

/// Adds a setting that the file does not have.
fn add(edits: &mut Edits<'_>, places: &Places, header: &str, line: &[u8]) {
    match (places.last, places.first_header) {
        (Some(last), _) => edits.insert_after(&[last], line),
        (None, Some(first)) if header.is_empty() => edits.insert_before(first, line),
        _ => {
            if !header.is_empty() {
                if !places.is_last_line_blank {
                    edits.append(b"");
                }
                edits.append(format!("[{header}]").as_bytes());
            }
            edits.append(line);
        }
    }
}

/// Returns the problems of texts that would not be read back as they are.
fn problems(should: &Attributes) -> Vec<ValidationError> {
    let separator = should.text("separator").unwrap_or(SEPARATOR);
    let name = should.text("setting").unwrap_or_default();
    let header = should.text("section").unwrap_or_default();
    let value = should.get("value").and_then(Value::to_text).unwrap_or_default();
    let mut problems = Vec::new();
    for (attribute, text) in [("separator", separator), ("setting", name), ("section", header), ("value", &value)] {
        problems.extend(line_problem(attribute, text));
    }
    let is_edge = |text: &str| text.trim() != text;
    let has_separator = match separator.trim() {
        "" => name.contains(char::is_whitespace),
        separator => name.contains(separator),
    };
    if is_edge(name) || has_separator || name.starts_with(['#', ';', '[']) {
        let message = eco_format!(
            "`{name}` is not a setting: it has blanks at an end, contains the separator, or begins with `#`, `;` or `[`"
        );
        problems.push(ValidationError::with("setting", message));
    }
    if is_edge(header) || header.contains([']', '[']) {
        problems.push(ValidationError::with(
            "section",
            eco_format!("`{header}` is not a section: write it without brackets"),
        ));
    }
    if is_edge(&value) {
        let problem = ValidationError::with("value", "blanks at the ends of a value are not part of it");
        problems.push(problem.hint("remove them, or write quotes into the value"));
    }
    problems
}

#[cfg(test)]
mod tests;
