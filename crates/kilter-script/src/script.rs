//! Providers that are scripts, in any convention.

use std::path::Path;

use kilter_provider::Provider;

use crate::metadata::Metadata;

/// A provider that is a script, in any convention.
pub trait Script: Provider {
    /// Returns the path of the script.
    fn path(&self) -> &Path;

    /// Returns the metadata from the script or from the file next to it.
    fn metadata(&self) -> &Metadata;
}
