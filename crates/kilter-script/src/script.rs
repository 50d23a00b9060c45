//! A provider that is a script, in whichever convention.

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
use crate::surroundings::Surroundings;

/// A provider that is a script, in whichever convention.
pub trait Script: Provider {
    /// The script.
    fn path(&self) -> &Path;

    /// What is known of it, by its own words or by those of the file beside it.
    fn metadata(&self) -> &Metadata;
}

/// The provider of the script at `path`, of which `metadata` is said.
pub fn script(path: &Path, metadata: Metadata, surroundings: &Arc<Surroundings>) -> Arc<dyn Script> {
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
