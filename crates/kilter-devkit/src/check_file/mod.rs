//! Conformance test data of a provider: the file `NAME.check.yaml` next to it.

mod read;

#[cfg(test)]
mod tests;

use crate::conformance::{Sample, Unsupported};
use ecow::EcoString;
use kilter_model::TypeSchema;

use kilter_script::Fault;

/// Test data of a provider for the conformance suite.
#[derive(Clone, Debug, Default)]
pub struct CheckFile {
    /// Resources that the suite may create.
    pub specimens: Vec<Sample>,
    /// Names of resources that do not exist.
    pub unknown: Vec<EcoString>,
    /// A change that fails.
    pub failing: Option<Sample>,
    /// A slow change.
    pub slow: Option<InterruptCase>,
    /// Missing capabilities, with the reasons.
    pub without: Vec<(Unsupported, EcoString)>,
    /// Attributes excluded from the trials with boundary values, with the reasons.
    pub sparing: Vec<(EcoString, EcoString)>,
    /// Pattern that converts a text to a name. `{}` is the text, and `{hex}` its bytes in hexadecimal digits.
    pub names: Option<EcoString>,
    /// Shell command that prepares each new sandbox.
    pub setup: Option<EcoString>,
    /// Patterns of paths that the fingerprint ignores.
    pub ignore: Vec<EcoString>,
}

/// A slow change.
#[derive(Clone, Debug)]
pub struct InterruptCase {
    /// The change.
    pub specimen: Sample,
    /// Shell command that succeeds after the change has started.
    pub begun: EcoString,
}

impl CheckFile {
    /// Parses a file for a provider of a type.
    ///
    /// # Errors
    /// All faults of the file, in order of location.
    pub fn parse(text: &str, schema: &TypeSchema) -> Result<CheckFile, Vec<Fault>> {
        read::read(text, schema)
    }

    /// Converts a text to a name of the type.
    pub fn name_like(&self, text: &str) -> String {
        let hex = || text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
        match &self.names {
            None => text.to_owned(),
            Some(pattern) => pattern.replace("{hex}", &hex()).replace("{}", text).to_string(),
        }
    }
}
