//! Resources that left the manifests since their last run.
//!
//! The history knows the declarations of the last run. By default a resource that is no longer declared stays as it
//! is, and the command says so.

use std::collections::HashSet;

use kilter_history::History;
use kilter_model::{Catalog, Resource};
use kilter_provider::Registry;
use kilter_runtime::{Prepared, StateDir};

use crate::cli::Released;
use crate::exit::Exit;
use crate::recorder::{Unchanged, kept_text, names_digest, stays};
use crate::session::Session;
use crate::visible::visible;
use crate::{output, past, providers, recorder};

/// Resource that left the manifests. It stays as it is, unless `reverse` restores it.
pub(crate) struct KeptResource {
    type_name: String,
    title: String,
    /// Its name on the system.
    name: String,
    /// True if it may still be on the machine as it was declared.
    stays: bool,
}

/// Returns the resources to restore, and those to keep.
///
/// # Errors
/// If a state cannot be restored, or the history cannot be read; reported.
pub(crate) fn restorations(
    session: &Session,
    catalog: &Catalog,
    registry: &Registry,
) -> Result<(Vec<Resource>, Vec<KeptResource>), Exit> {
    let nothing = Ok((Vec::new(), Vec::new()));
    // The recorder of `run` has the database open, and names them.
    let is_meant = ["apply", "plan"].contains(&session.command()) && !session.record.is_recorded();
    let Some(state_dir) = session.state_dir_if_any().filter(|_| is_meant && !catalog.origin.is_empty()) else {
        return nothing;
    };
    // Without a lock, the run has not verified it yet.
    if StateDir::new(&state_dir).verify().is_err() {
        return nothing;
    }
    // This file is smaller than the database.
    if Unchanged::of(&state_dir).has_names(&catalog.origin, &names_digest(&catalog.resources)) {
        return nothing;
    }
    // A history that cannot be read is reported by the run.
    let Ok(Some(history)) = History::read(&recorder::directory(&state_dir)) else { return nothing };
    let Ok(known) = history.declarations(&catalog.origin) else { return nothing };
    let declared: HashSet<(&str, &str)> =
        catalog.resources.iter().map(|one| (one.reference.type_name.as_str(), one.reference.title.as_str())).collect();
    let rules = session.released();
    for type_name in rules.types() {
        providers::find(registry, type_name)?;
    }
    let mut left = Vec::new();
    for ((type_name, title), known) in known {
        if declared.contains(&(type_name.as_str(), title.as_str())) {
            continue;
        }
        let Ok(stays) = stays(&history, &type_name, &title, &known) else { return nothing };
        left.push(KeptResource { type_name, title, name: known.name, stays });
    }
    left.sort_unstable_by(|one, other| (&one.type_name, &one.title).cmp(&(&other.type_name, &other.title)));
    let (mut restored, mut kept, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    for one in left {
        let how = rules.of(&one.type_name, [&one.title, &one.name]);
        if how == Released::Keep {
            kept.push(one);
            continue;
        }
        match past::restoration(&history, &one.type_name, &one.title, session, registry)? {
            Ok(resource) => {
                let was_created = resource.attributes.text("ensure") == Some("absent");
                match how == Released::Revert || was_created {
                    true => restored.push(resource),
                    false => kept.push(one),
                }
            }
            Err(why) if how == Released::Revert => refused.push(format!("{}: {why}", one.shown())),
            Err(_) => kept.push(one),
        }
    }
    if !refused.is_empty() {
        refused.iter().for_each(|line| output::line(format_args!("cannot be restored: {line}")));
        let hints =
            ["`--released keep` leaves them as they are, `--released remove` removes those that kilter created"];
        return Err(output::fail_with("some resources that left the manifest cannot be restored", hints));
    }
    Ok((restored, kept))
}

impl KeptResource {
    fn shown(&self) -> String {
        visible(&format!("{}[{}]", self.type_name, self.title))
    }
}

/// Names the resources that stay as they are: those that `reverse` does not restore in this run.
pub(crate) fn name_kept(session: &Session, mut kept: Vec<KeptResource>, prepared: &Prepared) {
    let is_restored = |one: &KeptResource| {
        let mut restored = prepared.resources().iter().filter(|resource| resource.is_reversal());
        restored.any(|resource| resource.reference.type_name == *one.type_name && resource.name == one.name)
    };
    kept.retain(|one| one.stays && !is_restored(one));
    if !kept.is_empty() && !session.global.quiet {
        output::line(kept_text(&kept.iter().map(KeptResource::shown).collect::<Vec<_>>()));
    }
}
