//! Titles, and the namevars in them.

use std::fmt;

use ecow::{EcoString, eco_format};

use super::{AttributeSchema, Attributes, TypeSchema};
use crate::data_type::{DataType, Mismatch};
use crate::json::{from_json, to_json};
use crate::names::AttributeName;
use crate::pattern::{PatternError, Regexp};
use crate::value::Value;

/// Maximum length of a title, in bytes.
const MAX_TITLE_BYTES: usize = 16 << 10;

/// A regular expression in Ruby's dialect whose named groups are namevars.
///
/// The expression is compiled on first use, once for all clones.
#[derive(Clone, PartialEq)]
pub struct TitlePattern {
    /// The expression.
    pub pattern: Regexp,
    /// Description of the matching titles.
    pub desc: EcoString,
}

impl TitlePattern {
    /// Creates a pattern without compiling it.
    pub fn new(pattern: impl Into<EcoString>, desc: impl Into<EcoString>) -> TitlePattern {
        TitlePattern { pattern: Regexp::new(pattern), desc: desc.into() }
    }

    /// Returns the names of the groups, in order, without duplicates.
    ///
    /// # Errors
    /// The reason why the pattern is not a valid regular expression.
    pub fn names(&self) -> Result<Vec<EcoString>, EcoString> {
        let regex = self.pattern.compiled().map_err(|error| EcoString::from(error.reason()))?;
        let mut names: Vec<EcoString> = Vec::new();
        for name in regex.capture_names().flatten() {
            if !names.iter().any(|known| known == name) {
                names.push(name.into());
            }
        }
        Ok(names)
    }

    /// Returns the texts of the named groups if the pattern matches. Groups that did not participate are
    /// omitted.
    fn captures(&self, title: &str) -> Result<Option<Vec<(EcoString, EcoString)>>, EcoString> {
        let names = self.names()?;
        let regex = self.pattern.compiled().map_err(|error| EcoString::from(error.reason()))?;
        let found = regex.captures(title).map_err(|error| {
            let error = PatternError::Match(Box::new(error));
            EcoString::from(error.reason())
        })?;
        Ok(found.map(|found| {
            names.into_iter().filter_map(|name| Some((name.clone(), found.name(&name)?.as_str().into()))).collect()
        }))
    }
}

impl fmt::Debug for TitlePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.pattern, self.desc)
    }
}

/// Reason why a title does not identify a resource of its type.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum TitleError {
    /// No pattern of the type matches the title.
    NoMatch {
        /// The title.
        title: EcoString,
        /// The patterns of the type.
        patterns: Vec<EcoString>,
    },
    /// The title is too long.
    TooLong {
        /// Length in bytes.
        length: usize,
    },
    /// Matching a pattern failed.
    Pattern {
        /// The title.
        title: EcoString,
        /// The pattern.
        pattern: EcoString,
        /// Reason of the failure.
        reason: EcoString,
    },
    /// The title contains an invalid value for a namevar.
    Value {
        /// The title.
        title: EcoString,
        /// The namevar.
        attribute: AttributeName,
        /// The mismatch.
        mismatch: Box<Mismatch>,
    },
    /// The title does not contain all namevars.
    Partial {
        /// The title.
        title: EcoString,
        /// Namevars of the type.
        namevars: Vec<AttributeName>,
    },
    /// The title contradicts the attributes of the resource.
    Disagrees {
        /// The title.
        title: EcoString,
        /// Each differing namevar, its value in the title, and its value in the resource.
        namevars: Vec<(AttributeName, Value, Value)>,
    },
}

impl std::error::Error for TitleError {}

impl fmt::Display for TitleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TitleError::NoMatch { title, patterns } => {
                write!(f, "No set of title patterns matched the title {title:?}: tried {}", patterns.join(", "))
            }
            TitleError::TooLong { length } => write!(f, "the title has {length} bytes; it may have {MAX_TITLE_BYTES}"),
            TitleError::Pattern { title, pattern, reason } => {
                write!(f, "cannot hold the title pattern {pattern} against the title {title:?}: {reason}")
            }
            TitleError::Value { title, attribute, mismatch } => {
                write!(f, "the title {title:?} gives the namevar `{attribute}` a wrong value: {attribute} {mismatch}")
            }
            TitleError::Partial { title, namevars } => {
                let names: Vec<&str> = namevars.iter().map(AttributeName::as_str).collect();
                write!(f, "{title:?} does not fully name a resource, which needs {}", names.join(", "))
            }
            TitleError::Disagrees { title, namevars } => {
                write!(f, "the title {title:?} does not match all namevars:")?;
                for (index, (name, titled, given)) in namevars.iter().enumerate() {
                    let comma = if index == 0 { "" } else { "," };
                    write!(f, "{comma} `{name}` is {given:?}, by the title {titled:?}")?;
                }
                Ok(())
            }
        }
    }
}

impl TypeSchema {
    /// Returns the namevars in a title, from the first pattern that matches. The attributes of the resource
    /// supply the others.
    ///
    /// The [key](TypeSchema::key) of a resource with several namevars is also a valid title.
    ///
    /// Without patterns, the title is the value of the first namevar, as in Puppet.
    /// [`definition`](crate::definition) requires patterns for a type with several namevars. A type without
    /// namevars gets no values from a title.
    ///
    /// # Errors
    /// If no pattern matches, a pattern takes too many steps, or a namevar does not accept the value.
    pub fn parse_title(&self, title: &str) -> Result<Vec<(AttributeName, Value)>, TitleError> {
        if title.len() > MAX_TITLE_BYTES {
            return Err(TitleError::TooLong { length: title.len() });
        }
        let typed = |attribute: &AttributeSchema, text: &str| {
            let value = from_text(&attribute.data_type, text).map_err(|mismatch| TitleError::Value {
                title: title.into(),
                attribute: attribute.name.clone(),
                mismatch: Box::new(mismatch),
            })?;
            Ok((attribute.name.clone(), value))
        };
        if self.title_patterns.is_empty() {
            return self.namevars().next().map(|namevar| typed(namevar, title)).into_iter().collect();
        }
        if let Some(namevars) = self.taken_from_key(title) {
            return Ok(namevars);
        }
        for pattern in &self.title_patterns {
            let found = pattern.captures(title).map_err(|reason| TitleError::Pattern {
                title: title.into(),
                pattern: eco_format!("{}", pattern.pattern),
                reason,
            })?;
            let Some(found) = found else { continue };
            let namevars = found.iter().filter_map(|(name, text)| Some((self.find(name)?, text)));
            return namevars.map(|(attribute, text)| typed(attribute, text)).collect();
        }
        let patterns = self.title_patterns.iter().map(|pattern| eco_format!("{}", pattern.pattern)).collect();
        Err(TitleError::NoMatch { title: title.into(), patterns })
    }

    /// Returns the namevars in a key, or none if the title is not a key.
    fn taken_from_key(&self, title: &str) -> Option<Vec<(AttributeName, Value)>> {
        if !title.starts_with('{') || self.namevars().nth(1).is_none() {
            return None;
        }
        let Ok(serde_json::Value::Object(object)) = serde_json::from_str(title) else { return None };
        if object.len() != self.namevars().count() {
            return None;
        }
        self.namevars()
            .map(|namevar| {
                let value = from_json(object.get(namevar.name.as_str())?);
                namevar.data_type.check(&value).is_ok().then(|| (namevar.name.clone(), value))
            })
            .collect()
    }

    /// Returns the key and the namevars of a resource from its title and its attributes. Attributes override
    /// the title.
    ///
    /// # Errors
    /// If the title cannot be parsed, or if a namevar is missing.
    pub fn identify(&self, title: &str, given: &Attributes) -> Result<(EcoString, Attributes), TitleError> {
        let mut namevars = Attributes::default();
        for namevar in self.namevars() {
            if let Some(value) = given.get(namevar.name.as_str()) {
                namevars.set(namevar.name.clone(), value.clone());
            }
        }
        let titled = self.parse_title(title)?;
        for (name, value) in titled {
            if namevars.get(name.as_str()).is_none() {
                namevars.set(name, value);
            }
        }
        match self.key(&namevars) {
            Some(key) => Ok((key, namevars)),
            None if self.namevars().next().is_none() => Ok((title.into(), namevars)),
            None => Err(TitleError::Partial {
                title: title.into(),
                namevars: self.namevars().map(|namevar| namevar.name.clone()).collect(),
            }),
        }
    }

    /// Returns the key that identifies a resource within its type: the text of its namevar, or a JSON object of
    /// several namevars in schema order. Two resources have the same key if and only if their namevars are
    /// equal.
    ///
    /// Returns none if a required namevar is missing, or if a namevar is sensitive, because keys are shown.
    pub fn key(&self, attributes: &Attributes) -> Option<EcoString> {
        let mut namevars = self.namevars();
        let first = namevars.next()?;
        if namevars.next().is_none() {
            let value = attributes.get(first.name.as_str()).filter(|value| !value.holds_sensitive())?;
            return Some(value.to_text().unwrap_or_else(|| eco_format!("{}", to_json(value))));
        }
        let mut object = serde_json::Map::new();
        for namevar in self.namevars() {
            let value = attributes.get(namevar.name.as_str()).unwrap_or(&Value::Undef);
            if value.holds_sensitive() || value.is_undef() && namevar.data_type.check(value).is_err() {
                return None;
            }
            object.insert(namevar.name.to_string(), to_json(value));
        }
        Some(eco_format!("{}", serde_json::Value::Object(object)))
    }

    /// Checks a title from a provider: a pattern must match, and its namevars must equal those of the resource
    /// (Puppet Resource API, "Resource implementation").
    ///
    /// # Errors
    /// If no pattern matches, or if a namevar differs.
    pub fn check_title(&self, title: &str, attributes: &Attributes) -> Result<(), TitleError> {
        let mut namevars = Vec::new();
        for (name, titled) in self.parse_title(title)? {
            let given = attributes.get(name.as_str()).unwrap_or(&Value::Undef);
            if given.unwrap_sensitive() != titled.unwrap_sensitive() {
                namevars.push((name, titled, given.clone()));
            }
        }
        if namevars.is_empty() { Ok(()) } else { Err(TitleError::Disagrees { title: title.into(), namevars }) }
    }
}

/// Converts a title part to a value of a type. Returns the text itself if the type accepts it.
pub(crate) fn from_text(data_type: &DataType, text: &str) -> Result<Value, Mismatch> {
    let plain = data_type.sealed(Value::from(text));
    match data_type.check(&plain) {
        Ok(()) => Ok(plain),
        Err(_) => data_type.parse_word(text),
    }
}

#[cfg(test)]
mod tests;
