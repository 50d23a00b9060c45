//! Resources that left the manifests since their last run.
//!
//! The history knows the declarations of the last run. By default a resource that is no longer declared stays as it
//! is, and the command says so.

use std::collections::HashSet;

use kilter_history::History;
use kilter_model::{Catalog, Resource};
use kilter_provider::Registry;
use kilter_runtime::StateDir;

use crate::cli::Released;
use crate::exit::Exit;
use crate::recorder::{Unchanged, kept_text, names_digest};
use crate::session::Session;
use crate::visible::visible;
use crate::{output, past, recorder};

/// Returns the resources to restore, and names those that stay.
///
/// # Errors
/// If a state cannot be restored, or the history cannot be read; reported.
pub(crate) fn restorations(session: &Session, catalog: &Catalog, registry: &Registry) -> Result<Vec<Resource>, Exit> {
    // The recorder of `run` has the database open, and names them.
    let is_meant = ["apply", "plan"].contains(&session.command()) && !session.record.is_recorded();
    let Some(state_dir) = session.state_dir_if_any().filter(|_| is_meant && !catalog.origin.is_empty()) else {
        return Ok(Vec::new());
    };
    // Without a lock, the run has not verified it yet.
    if StateDir::new(&state_dir).verify().is_err() {
        return Ok(Vec::new());
    }
    // This file is smaller than the database.
    if Unchanged::of(&state_dir).has_names(&catalog.origin, &names_digest(&catalog.resources)) {
        return Ok(Vec::new());
    }
    // A history that cannot be read is reported by the run.
    let Ok(Some(history)) = History::read(&recorder::directory(&state_dir)) else { return Ok(Vec::new()) };
    let Ok(known) = history.declarations(&catalog.origin) else { return Ok(Vec::new()) };
    let declared: HashSet<(&str, &str)> =
        catalog.resources.iter().map(|one| (one.reference.type_name.as_str(), one.reference.title.as_str())).collect();
    let mut left: Vec<(String, String)> = known
        .into_keys()
        .filter(|(type_name, title)| !declared.contains(&(type_name.as_str(), title.as_str())))
        .collect();
    left.sort_unstable();
    let (mut restored, mut kept, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    for (type_name, title) in left {
        let name = visible(&format!("{type_name}[{title}]"));
        if session.released() == Released::Keep {
            kept.push(name);
            continue;
        }
        match past::restoration(&history, &type_name, &title, session, registry)? {
            Ok(resource) => {
                let was_created = resource.attributes.text("ensure") == Some("absent");
                match session.released() == Released::Revert || was_created {
                    true => restored.push(resource),
                    false => kept.push(name),
                }
            }
            Err(why) if session.released() == Released::Revert => refused.push(format!("{name}: {why}")),
            Err(_) => kept.push(name),
        }
    }
    if !refused.is_empty() {
        refused.iter().for_each(|line| output::line(format_args!("cannot be restored: {line}")));
        let hints =
            ["`--released keep` leaves them as they are, `--released remove` removes those that kilter created"];
        return Err(output::fail_with("some resources that left the manifest cannot be restored", hints));
    }
    if !kept.is_empty() && !session.global.quiet {
        output::line(kept_text(&kept));
    }
    Ok(restored)
}
