//! Saved pre-change state of resources that the manifests no longer declare (`reverse`).

use std::path::PathBuf;
use std::sync::Arc;

use ecow::EcoString;
use kilter_manifest::Source;
use kilter_model::{Catalog, Resource};
use kilter_provider::Registry;
use kilter_recording::RecordMode;
use kilter_runtime::{Prepared, Rejected, RevertStore, StateDir, plan_of};

use crate::past::add_defaults;
use crate::pull::Checkout;
use crate::{output, providers};

/// Returns the identity of these manifests, independent of the paths used and of the
/// version of a source; empty if a manifest is no file.
///
/// It is also empty during a recording. The recording covers only the queries of the run, not the state saved
/// earlier, and newly saved state would become part of it.
pub(crate) fn origin(record: &RecordMode, given: &[Source]) -> EcoString {
    if record.is_recorded() {
        return EcoString::new();
    }
    let path = |source: &Source| {
        let path = std::fs::canonicalize(source.name.strip_suffix(" (output)").unwrap_or(&source.name)).ok()?;
        let pulled = Checkout::of(&path).and_then(|checkout| checkout.identity(&path));
        Some(pulled.unwrap_or_else(|| path.display().to_string()))
    };
    let paths = given.iter().map(path).collect::<Option<Vec<String>>>();
    paths
        .map(|mut paths| {
            paths.sort_unstable();
            paths.join("\n").into()
        })
        .unwrap_or_default()
}

/// Prepares the run of a catalog, together with `restored`, and the resources to restore from a state directory.
///
/// # Errors
/// Problems of the catalog itself. A resource that cannot be restored is left out, with a warning.
pub(crate) fn prepare(
    state_dir: Option<PathBuf>,
    catalog: Catalog,
    restored: Vec<Resource>,
    registry: &Registry,
) -> Result<Prepared, Box<Rejected>> {
    let catalog = match restored.is_empty() {
        true => catalog,
        false => {
            let mut catalog = catalog;
            catalog.resources.extend(restored.into_iter().map(Arc::new));
            catalog
        }
    };
    let state = state_dir.map(StateDir::new);
    let Some(reversals) = state.and_then(|state| RevertStore::of(&state, &catalog.origin)).filter(RevertStore::exists)
    else {
        return plan_of(catalog, registry, &providers::declaring(registry.hostname()));
    };
    let declared = catalog.clone();
    let prepared = plan_of(catalog, registry, &providers::declaring(registry.hostname()))?;
    let is_declared = |type_name: &str, name: &str| {
        let is_it = |one: &Resource| {
            let is_named = one.name == name || one.reference.title.as_str() == name;
            one.reference.type_name == *type_name && is_named
        };
        prepared.resources().iter().any(|one| is_it(one))
    };
    let (mut pending, unreadable) = reversals.pending(&is_declared);
    for why in unreadable {
        output::warning(format_args!("the earlier state of a resource cannot be restored: {why}"));
    }
    for resource in &mut pending {
        let provider = resource.provider().cloned();
        // Without its provider, the restoration is refused below.
        if let Ok(at) = registry.choose(resource.reference.type_name.as_str(), provider.as_deref()) {
            add_defaults(registry.at(at).schema(), &mut resource.attributes);
        }
    }
    let count = declared.resources.len();
    while !pending.is_empty() {
        let mut whole = declared.clone();
        whole.resources.extend(pending.iter().cloned().map(Arc::new));
        let rejected = match plan_of(whole, registry, &providers::declaring(registry.hostname())) {
            Ok(prepared) => return Ok(prepared),
            Err(rejected) => rejected,
        };
        // It conflicts with the catalog, or its provider is gone.
        let at_fault = rejected
            .problems
            .iter()
            .filter_map(|(vertex, problem)| Some(((vertex.slot()).checked_sub(count)?, problem.to_string())));
        let (at, why) =
            at_fault.max().unwrap_or((pending.len() - 1, "it conflicts with the declared resources".into()));
        let resource = pending.remove(at);
        output::warning(format_args!("the earlier state of {} is not restored: {why}", resource.reference));
    }
    Ok(prepared)
}
