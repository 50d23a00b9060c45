//! Choice of the provider of each resource.

use ecow::EcoString;
use kilter_model::{Catalog, Resource};
use kilter_provider::{ChoiceError, Preference, Registry};
use rustc_hash::FxHashSet;

/// Chooses the providers of the resources of a catalog.
pub(super) struct ProviderChoice<'r> {
    registry: &'r Registry,
    /// Names of the packages that the catalog declares and does not remove.
    packages: FxHashSet<EcoString>,
    /// Suitability of each provider, if it is known.
    suitable: Vec<Option<bool>>,
}

impl<'r> ProviderChoice<'r> {
    pub(super) fn new(catalog: &Catalog, registry: &'r Registry) -> ProviderChoice<'r> {
        let packages = catalog.resources.iter().filter(|resource| {
            resource.reference.type_name == "package"
                && !matches!(resource.attributes.text("ensure"), Some("absent" | "purged"))
                // A package of gem or pip has another meaning.
                && resource.provider().is_none()
        });
        let packages = packages.map(|package| package.name.clone()).collect();
        ProviderChoice { registry, packages, suitable: vec![None; registry.len()] }
    }

    /// Returns the provider of a resource: the declared one, otherwise the preferred one of the type. If that is not
    /// suitable, returns the first one whose package the catalog declares, because the run installs it.
    ///
    /// # Errors
    /// If there is no such provider.
    pub(super) fn choose(&mut self, resource: &Resource) -> Result<usize, ChoiceError> {
        let (registry, type_name) = (self.registry, resource.reference.type_name.as_str());
        let named = resource.provider();
        let at = registry.choose(type_name, named.map(|name| name.as_str()))?;
        if named.is_some() || self.packages.is_empty() || self.is_suitable(at) {
            return Ok(at);
        }
        let candidates = registry.candidates(type_name);
        let mut candidates = candidates.iter().filter(|one| one.preference != Preference::NamedOnly);
        Ok(candidates.find(|one| self.is_installed(one.index, resource)).map_or(at, |one| one.index))
    }

    fn is_suitable(&mut self, at: usize) -> bool {
        *self.suitable[at].get_or_insert_with(|| self.registry.at(at).suitable().is_suitable())
    }

    /// Returns true if the provider orders the resource after a declared package.
    fn is_installed(&self, at: usize, resource: &Resource) -> bool {
        let mut is_installed = false;
        let relations = self.registry.at(at).capabilities();
        relations.relations().auto_edges(&resource.name, &resource.attributes, &mut |edge| {
            is_installed |= edge.type_name == "package" && self.packages.contains(edge.name);
        });
        is_installed
    }
}
