//! Failures that escape a block.

use ecow::{EcoString, eco_format};

use crate::contract::ProviderError;

/// Why a block, or a `set` as a whole, did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Its resources have failed; the others go on.
    #[error("{0}")]
    Plain(EcoString),
    /// Its resources have failed, and the run is to end, in order: nothing further is begun.
    #[error("{0}")]
    Fatal(EcoString),
}

impl Failure {
    /// A failure of the resources alone.
    pub fn new(why: impl Into<EcoString>) -> Failure {
        Failure::Plain(why.into())
    }

    /// A failure after which the run is to end.
    pub fn fatal(why: impl Into<EcoString>) -> Failure {
        Failure::Fatal(why.into())
    }

    /// Why.
    pub fn why(&self) -> &EcoString {
        match self {
            Failure::Plain(why) | Failure::Fatal(why) => why,
        }
    }

    /// Whether the run is to end.
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
