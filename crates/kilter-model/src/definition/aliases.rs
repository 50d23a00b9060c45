//! Names that a definition gives to types of its own.

use ecow::{EcoString, eco_format};
use indexmap::IndexMap;

use super::fault::{Fault, Path};
use super::read::Reader;
use crate::data_type::DataType;
use crate::suggest;
use crate::value::Hash;

/// How long a type may become when names in it are replaced by what they stand for.
const LONGEST: usize = 64 << 10;

/// The types of the language.
const TYPES: [&str; 22] = [
    "Any",
    "Array",
    "Binary",
    "Boolean",
    "Data",
    "Enum",
    "Float",
    "Hash",
    "Integer",
    "NotUndef",
    "Numeric",
    "Optional",
    "Pattern",
    "Regexp",
    "Scalar",
    "Sensitive",
    "String",
    "Struct",
    "Tuple",
    "Undef",
    "Variant",
    "Timestamp",
];

/// The names, with the texts of the types that they stand for; those at fault have none.
#[derive(Default)]
pub(super) struct Aliases {
    texts: IndexMap<EcoString, EcoString>,
    broken: Vec<EcoString>,
}

/// Why a name in a type could not be replaced.
enum Stop {
    /// It leads back to itself.
    Circular(EcoString),
    /// What it stands for is at fault, which has been told.
    Broken,
    /// The type becomes too long.
    Long,
}

impl Aliases {
    /// Reads the table, and tells what is wrong with each name.
    pub(super) fn read(entries: &Hash, path: &Path, reader: &mut Reader) -> Aliases {
        let mut aliases = Aliases::default();
        for (name, value) in entries {
            let path = path.key(name.clone());
            match value.as_str() {
                _ if TYPES.contains(&name.as_str()) => {
                    reader.fault(Fault::new(path, eco_format!("`{name}` is a type of the language")));
                }
                _ if !is_name(name) => {
                    let message = eco_format!("`{name}` is not the name of a type: it begins with a capital letter");
                    reader.fault(Fault::new(path, message).hint("such as Port or My::Port"));
                }
                Some(text) => {
                    aliases.texts.insert(name.clone(), text.into());
                    continue;
                }
                None => reader.expected(path, "the text of a data type", value),
            }
            aliases.broken.push(name.clone());
        }
        let names: Vec<EcoString> = aliases.texts.keys().cloned().collect();
        for name in names {
            if let Err(fault) = aliases.data_type(&name) {
                aliases.broken.push(name.clone());
                reader.faults.extend(fault.map(|(message, hint)| Fault::new(path.key(name), message).hint_if(hint)));
            }
        }
        aliases
    }

    /// The type that a text stands for. An error without a message has been told already.
    pub(super) fn data_type(&self, text: &str) -> Result<DataType, Option<(EcoString, Option<EcoString>)>> {
        let mut expanded = String::new();
        self.expand(text, &mut Vec::new(), &mut expanded).map_err(|stop| match stop {
            Stop::Broken => None,
            Stop::Circular(name) => Some((eco_format!("the type `{name}` is defined by itself"), None)),
            Stop::Long => Some((eco_format!("the type takes more than {LONGEST} bytes"), None)),
        })?;
        expanded.parse().map_err(|error: crate::data_type::DataTypeError| {
            Some((eco_format!("{error}"), self.suggestion(&expanded)))
        })
    }

    /// Puts what names stand for in their places.
    fn expand<'a>(&'a self, text: &'a str, way: &mut Vec<&'a str>, into: &mut String) -> Result<(), Stop> {
        for part in parts(text) {
            if into.len() > LONGEST {
                return Err(Stop::Long);
            }
            let known = self.texts.get_key_value(part);
            match known {
                _ if self.broken.iter().any(|broken| broken == part) => return Err(Stop::Broken),
                Some((name, _)) if way.contains(&name.as_str()) => return Err(Stop::Circular(name.clone())),
                Some((name, text)) => {
                    way.push(name);
                    self.expand(text, way, into)?;
                    way.pop();
                }
                None => into.push_str(part),
            }
        }
        Ok(())
    }

    /// The type that was meant by the first name that there is not.
    fn suggestion(&self, text: &str) -> Option<EcoString> {
        let known = || TYPES.into_iter().chain(self.texts.keys().map(EcoString::as_str));
        let names = parts(text).filter(|part| part.starts_with(|c: char| c.is_ascii_alphabetic()));
        let wrong = names.into_iter().find(|name| !known().any(|known| known == *name))?;
        let same = known().find(|known| known.eq_ignore_ascii_case(wrong));
        same.or_else(|| suggest::nearest(wrong, known())).map(|near| eco_format!("did you mean `{near}`?"))
    }
}

fn is_name(text: &str) -> bool {
    text.split("::").all(|part| {
        part.starts_with(|c: char| c.is_ascii_uppercase())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

/// A text in parts: names, quoted texts and regular expressions as a whole, all else by character.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let end = match first {
            '\'' | '"' | '/' => quoted(rest, first),
            c if c.is_alphanumeric() || c == '_' => {
                rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).unwrap_or(rest.len())
            }
            c => c.len_utf8(),
        };
        let (part, after) = rest.split_at(end);
        rest = after;
        Some(part)
    })
}

/// Where a quoted text ends.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}
