//! What the resources of manifests were before, which are declared no longer (`reverse`).

use std::path::PathBuf;
use std::sync::OnceLock;

use kilter_manifest::Source;
use kilter_model::Catalog;
use kilter_runtime::{Reversals, StateDir};

use crate::cli::Global;
use crate::{recording, say};

static STATE: OnceLock<Option<PathBuf>> = OnceLock::new();

/// Remembers where it is kept.
pub(crate) fn open(global: &Global) {
    // The command is parsed once.
    let _ = STATE.set(global.state_dir_if_any());
}

/// Adds what has to be restored to the catalog of these manifests.
pub(crate) fn append(catalog: &mut Catalog, given: &[Source]) {
    // What is no file is not read again next time.
    let path = |source: &Source| {
        let path = std::path::absolute(source.name.strip_suffix(" (output)").unwrap_or(&source.name)).ok()?;
        path.exists().then(|| path.display().to_string())
    };
    let Some(paths) = given.iter().map(path).collect::<Option<Vec<String>>>() else { return };
    catalog.origin = paths.join("\n").into();
    let Some(Some(state)) = STATE.get() else { return };
    // A replay has no state directory, and a recording would be of this one alone.
    if recording::is_replay() {
        return;
    }
    let Some(reversals) = Reversals::of(&StateDir::new(state.clone()), &catalog.origin) else { return };
    for why in reversals.append(catalog) {
        say::warning(format_args!("what a resource was before cannot be restored: {why}"));
    }
}
