//! Providers that are scripts, in any convention.

use std::path::Path;
use std::sync::Arc;

use kilter_process::Capture;
use kilter_provider::Provider;

use crate::convention::ConventionName;
use crate::json::Json;
use crate::metadata::Metadata;
use crate::mold::MoldProvider;
use crate::provider::ScriptProvider;
use crate::simple::Simple;
use crate::surroundings::ScriptEnvironment;

/// A provider that is a script, in any convention.
pub trait Script: Provider {
    /// Returns the path of the script.
    fn path(&self) -> &Path;

    /// Returns the metadata from the script or from the file next to it.
    fn metadata(&self) -> &Metadata;
}

/// Creates the provider of the script at `path` with `metadata`.
pub fn script(path: &Path, metadata: Metadata, surroundings: &Arc<ScriptEnvironment>) -> Arc<dyn Script> {
    let mut base = surroundings.invocation(path);
    base.stdout = Capture::AtMost(metadata.output.unwrap_or(surroundings.limits.output));
    let surroundings = Arc::clone(surroundings);
    match metadata.convention {
        ConventionName::Simple => {
            Arc::new(ScriptProvider::new(path, metadata, Box::new(Simple::new(base)), surroundings))
        }
        ConventionName::Json => Arc::new(ScriptProvider::new(path, metadata, Box::new(Json::new(base)), surroundings)),
        ConventionName::Mold => Arc::new(MoldProvider::of_file(path, metadata, surroundings)),
    }
}
