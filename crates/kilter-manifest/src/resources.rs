//! Compiles the bodies of all registered resources to a catalog.

use std::sync::Arc;

use ecow::{EcoString, eco_format};
use kilter_model::{Catalog, Resource, Span};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::attributes::Body;
use crate::diagnostic::Diagnostic;
use crate::environment::Environment;
use crate::export;
use crate::index::Index;
use crate::meta::Defaults;
use crate::parts;
use crate::register::{Registered, Repeated};
use crate::text_scope::TextScope;

/// A resource whose name differs from its title.
struct ExplicitName {
    number: u32,
    type_id: u32,
    name: EcoString,
}

/// Compiles the catalog. It is complete only if there were no problems. Also returns the index of all resources.
pub(crate) fn compile<'t>(
    environment: &Environment<'t>,
    registered: Registered<'t>,
    defaults: &Defaults<'t>,
) -> (Catalog, Index<'t>) {
    let Registered { index, composites, kept, left_out, doubtful, repeated } = registered;
    let resources = Vec::with_capacity(kept as usize);
    let mut catalog = Catalog { resources, composites, left_out, ..Catalog::default() };
    let mut explicit = Vec::new();
    let mut body = Body::new(environment, &index, defaults);
    for (number, type_id, title, entry) in index.iter() {
        let type_ = index.types.get(type_id);
        if type_.schema.is_none() {
            continue;
        }
        if index.has_scopes() {
            environment.within(index.scope(number));
        }
        // A resource that may not be part of the run must not run the commands of its secrets.
        let is_certain = !doubtful.contains(&number);
        let fetches = environment.allow_fetches(environment.fetches() && is_certain);
        let resource = body.compile(number, type_, title, entry, &mut catalog);
        environment.allow_fetches(fetches);
        if resource.name != *title && !resource.is_hidden() {
            explicit.push(ExplicitName { number, type_id, name: resource.name.clone() });
        }
        if entry.at().is_some() {
            catalog.resources.push(Arc::new(resource));
        }
    }
    environment.within(TextScope::default());
    let repeated = compile_repeated(environment, &index, &repeated, &mut body);
    if !doubtful.is_empty() {
        let doubtful: FxHashSet<u32> = doubtful.iter().filter_map(|number| index.position(*number)).collect();
        catalog.relations.retain(|one| !doubtful.contains(&one.first) && !doubtful.contains(&one.second));
    }
    check_names(environment, &index, &doubtful, &explicit, &catalog);
    let is_declared = |type_name: &str, title: &str| index.find(type_name, title).is_some();
    let may_be_declared = |type_name: &str, title: &str| index.lacks_resources || is_declared(type_name, title);
    // An exported part is exported by itself, and not again with its owner.
    let is_exported = |resource: &Resource| resource.meta().is_some_and(|meta| !meta.export.is_empty());
    parts::fold(&mut catalog, &|resource| !is_exported(resource), &may_be_declared, environment);
    export::add(&mut catalog, &is_declared, environment);
    parts::fold(&mut catalog, &is_exported, &may_be_declared, environment);
    catalog.resources.extend(repeated);
    (catalog, index)
}

/// Compiles the resources that are written a second time, because providers check them too. Their relations are
/// ignored, and their secrets are not fetched.
fn compile_repeated<'t>(
    environment: &Environment<'t>,
    index: &Index<'t>,
    repeated: &[Repeated<'t>],
    body: &mut Body<'_, 't>,
) -> Vec<Arc<Resource>> {
    let mut resources = Vec::new();
    let fetches = environment.allow_fetches(false);
    for Repeated { number, type_id, title, entry, scope } in repeated {
        let type_ = index.types.get(*type_id);
        environment.within(scope.clone());
        if type_.schema.is_some() {
            let resource = body.compile(*number, type_, title, entry, &mut Catalog::default());
            // A composite resource has no provider.
            resources.extend(type_.composite.is_none().then(|| Arc::new(resource)));
        }
    }
    environment.within(TextScope::default());
    environment.allow_fetches(fetches);
    resources
}

/// Reports explicit names that are already used by another resource of the same type. Hidden resources do not
/// count.
fn check_names(
    environment: &Environment<'_>,
    index: &Index<'_>,
    doubtful: &FxHashSet<u32>,
    explicit: &[ExplicitName],
    catalog: &Catalog,
) {
    if explicit.is_empty() {
        return;
    }
    let renamed: FxHashSet<u32> = explicit.iter().map(|one| one.number).collect();
    let is_held = |at: u32| catalog.resources.get(at as usize).is_some_and(|resource| !resource.is_hidden());
    let mut owners: FxHashMap<(u32, &str), u32> = FxHashMap::default();
    for (number, type_id, title, _) in index.iter() {
        let is_certain = !doubtful.contains(&number);
        if is_certain && !renamed.contains(&number) && index.position(number).is_some_and(is_held) {
            owners.insert((type_id, title), number);
        }
    }
    for ExplicitName { number, type_id, name } in explicit {
        if index.position(*number).is_none() || doubtful.contains(number) {
            continue;
        }
        let other = owners.insert((*type_id, name), *number);
        let place = |number: u32| index.entry(number).map(|entry| entry.key.span());
        if let (Some(one), Some(other)) = (other.and_then(place), place(*number)) {
            environment.report(used_twice(index.types.get(*type_id).name.as_str(), name, one, other));
        }
    }
}

/// Creates the problem of two resources with the same name.
fn used_twice(type_name: &str, name: &str, one: Span, other: Span) -> Diagnostic {
    let order = |span: Span| (span.source.0, span.start);
    let (first, second) = if order(one) < order(other) { (one, other) } else { (other, one) };
    let message = eco_format!("two resources manage the {type_name} `{name}`");
    Diagnostic::new(message).at(second).also(first, "first managed here")
}
