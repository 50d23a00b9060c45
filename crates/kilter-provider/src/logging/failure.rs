//! Failures returned by a block.

use ecow::{EcoString, eco_format};

use crate::contract::ProviderError;

/// Reason why a block or a `set` failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Its resources have failed. Other resources are unaffected.
    #[error("{0}")]
    Plain(EcoString),
    /// Its resources have failed, and the run ends in an orderly way: no other work starts.
    #[error("{0}")]
    Fatal(EcoString),
}

impl Failure {
    /// Creates a failure of the resources only.
    pub fn new(why: impl Into<EcoString>) -> Failure {
        Failure::Plain(why.into())
    }

    /// Creates a failure that ends the run.
    pub fn fatal(why: impl Into<EcoString>) -> Failure {
        Failure::Fatal(why.into())
    }

    /// Returns the reason.
    pub fn why(&self) -> &EcoString {
        match self {
            Failure::Plain(why) | Failure::Fatal(why) => why,
        }
    }

    /// Returns true if the failure ends the run.
    pub fn is_fatal(&self) -> bool {
        matches!(self, Failure::Fatal(_))
    }
}

impl From<EcoString> for Failure {
    fn from(why: EcoString) -> Failure {
        Failure::Plain(why)
    }
}

impl From<String> for Failure {
    fn from(why: String) -> Failure {
        Failure::Plain(why.into())
    }
}

impl From<&str> for Failure {
    fn from(why: &str) -> Failure {
        Failure::Plain(why.into())
    }
}

impl From<ProviderError> for Failure {
    fn from(error: ProviderError) -> Failure {
        Failure::Plain(error.message)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Failure::Plain(eco_format!("{error}"))
    }
}
