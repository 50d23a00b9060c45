//! Display forms of compiled manifests.

use kilter_manifest::render;
use kilter_model::{Catalog, Resource};

use crate::support::World;

pub(crate) fn find<'c>(catalog: &'c Catalog, reference: &str) -> &'c Resource {
    catalog.resources.iter().find(|r| r.reference.to_string() == reference).unwrap_or_else(|| panic!("{reference}"))
}

pub(crate) fn references(catalog: &Catalog) -> Vec<String> {
    catalog.resources.iter().map(|r| r.reference.to_string()).collect()
}

/// Returns the problems of a manifest.
pub(crate) fn told(text: &str) -> String {
    let (compiled, sources) = World::new().compile(text);
    render(&compiled.map(|_| ()).expect_err("the manifest is wrong"), &sources, false)
}
