//! What a provider is put to the test with: the file `NAME.check.yaml` beside it.

mod read;

#[cfg(test)]
mod tests;

use ecow::EcoString;
use kilter_model::TypeSchema;
use kilter_provider::conformance::{Lack, Specimen};

use crate::metadata::Fault;

/// What a provider is put to the test with, in the words of the conformance suite.
#[derive(Clone, Debug, Default)]
pub struct CheckFile {
    /// Resources that may be made.
    pub specimens: Vec<Specimen>,
    /// Names that do not exist.
    pub unknown: Vec<EcoString>,
    /// A change that fails when it is made.
    pub failing: Option<Specimen>,
    /// A change that takes long.
    pub slow: Option<Lasting>,
    /// What cannot be had, and why.
    pub without: Vec<(Lack, EcoString)>,
    /// Attributes that are not tried with values at the edge of their types, and why.
    pub sparing: Vec<(EcoString, EcoString)>,
    /// How a text becomes a name: with `{}` for the text, or `{hex}` for its bytes in hexadecimal digits.
    pub names: Option<EcoString>,
    /// What a shell runs in each fresh world.
    pub setup: Option<EcoString>,
    /// Patterns of paths in which nothing is told.
    pub ignore: Vec<EcoString>,
}

/// A change that takes long.
#[derive(Clone, Debug)]
pub struct Lasting {
    /// The change.
    pub specimen: Specimen,
    /// What a shell runs to see that it is under way: it succeeds then.
    pub begun: EcoString,
}

impl CheckFile {
    /// Reads a file, for a provider of a type.
    ///
    /// # Errors
    /// Everything that is wrong with it, in the order of the places.
    pub fn parse(text: &str, schema: &TypeSchema) -> Result<CheckFile, Vec<Fault>> {
        read::read(text, schema)
    }

    /// A text as a name of the type.
    pub fn name_like(&self, text: &str) -> String {
        let hex = || text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
        match &self.names {
            None => text.to_owned(),
            Some(pattern) => pattern.replace("{hex}", &hex()).replace("{}", text).to_string(),
        }
    }
}
