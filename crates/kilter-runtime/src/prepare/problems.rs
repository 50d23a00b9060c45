//! Problems of the resources of a catalog, and their canonical values.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use ecow::EcoString;
use kilter_engine::ResourceId;
use kilter_model::{AttributeName, Attributes, Behaviour, Catalog, Feature, Resource, ResourceRef, TypeName, Value};
use kilter_provider::{
    Context, Provider, Redactor, Registry, RevertTo, ValidationError, canonicalize, canonicalize_one,
};
use rustc_hash::FxHashMap;

use super::choice::ProviderChoice;
use crate::lookup::{Indexes, Lookup};
use crate::step::catch_panic;

/// Returns the provider of each resource, and all problems. Makes the resources canonical.
pub(super) fn surveyed(
    catalog: &mut Catalog,
    registry: &Registry,
    cx: &Context<'_>,
) -> (Vec<u16>, Vec<(ResourceId, ValidationError)>) {
    let mut choice = ProviderChoice::new(catalog, registry);
    let mut providers = Vec::with_capacity(catalog.resources.len());
    let mut problems = Vec::new();
    let mut particular = vec![None; registry.len()];
    let mut valid: Vec<Vec<(ResourceId, &mut Resource)>> = Vec::new();
    valid.resize_with(registry.len(), Vec::new);
    let mut invalid: Vec<(usize, ResourceId, &mut Resource, Vec<ValidationError>)> = Vec::new();
    for (resource, vertex) in catalog.resources.iter_mut().map(Arc::make_mut).zip((0..).map(ResourceId::first)) {
        let at = match choice.choose(resource) {
            Ok(at) => at,
            Err(error) => {
                problems.push((vertex, ValidationError::new(error.to_string())));
                // Another provider of the type finds the other problems.
                registry.first(resource.reference.type_name.as_str()).unwrap_or_default()
            }
        };
        providers.push(at as u16);
        if resource.is_hidden() {
            continue;
        }
        let provider = registry.at(at).as_ref();
        let particular = *particular[at].get_or_insert_with(|| is_particular(provider));
        match faults(provider, resource, particular) {
            found if found.is_empty() => valid[at].push((vertex, resource)),
            found => invalid.push((at, vertex, resource, found)),
        }
    }
    let cx = cx.with_hostname(registry.hostname()).with_device(registry.device());
    for (at, vertex, resource, found) in invalid {
        let found = both(found, unusable(registry.at(at).as_ref(), &cx, resource));
        problems.extend(reportable(resource, found).into_iter().map(|problem| (vertex, problem)));
    }
    let mut renamed = Vec::new();
    for (at, resources) in valid.into_iter().enumerate().filter(|(_, resources)| !resources.is_empty()) {
        make_canonical(registry.at(at).as_ref(), &cx, resources, &mut renamed, &mut problems);
    }
    renamed.sort_unstable();
    problems.sort_by_key(|(vertex, _)| *vertex);
    problems.extend(hidden_senders(catalog));
    problems.extend(duplicate_names(catalog, registry, &providers, &renamed));
    problems.extend(duplicate_resources(catalog, registry, &providers));
    let is_left_out = |vertex: ResourceId| {
        let resource = &catalog.resources[vertex.slot()];
        resource.is_hidden() || !resource.broken().is_empty()
    };
    // An undo restores the former states of an object in their order.
    if !catalog.is_undo {
        for find in [duplicate_claims, conflicts, opposites] {
            problems.extend(find(catalog, registry, &providers, &is_left_out));
        }
    }
    (providers, problems)
}

/// Reports values from hidden resources, which never run.
fn hidden_senders(catalog: &Catalog) -> Vec<(ResourceId, ValidationError)> {
    let hidden: Vec<&ResourceRef> =
        catalog.resources.iter().filter(|one| one.is_hidden()).map(|one| &one.reference).collect();
    let mut problems = Vec::new();
    if hidden.is_empty() {
        return problems;
    }
    for (resource, vertex) in catalog.resources.iter().zip((0..).map(ResourceId::first)) {
        for deferred in resource.deferred() {
            let sender = deferred.template.references().into_iter().find(|reference| hidden.contains(&reference));
            if let Some(sender) = sender {
                let problem = ValidationError::with(
                    deferred.attribute.as_str(),
                    format!("{sender} is hidden, and sends nothing"),
                );
                problems.push((vertex, problem.hint("take `hidden` out of its `meta`, or give a value")));
            }
        }
    }
    problems
}

/// Reports resources with equal canonical names, such as `0xa123` and `A123`. Hidden resources do not count.
fn duplicate_names(
    catalog: &Catalog,
    registry: &Registry,
    providers: &[u16],
    renamed: &[ResourceId],
) -> Vec<(ResourceId, ValidationError)> {
    let mut problems = Vec::new();
    if renamed.is_empty() {
        return problems;
    }
    let mut owners: FxHashMap<(u16, &str), ResourceId> = FxHashMap::default();
    for ((resource, at), vertex) in catalog.resources.iter().zip(providers).zip((0..).map(ResourceId::first)) {
        if resource.is_hidden() {
            continue;
        }
        let name = resource.name.as_str();
        let Some(first) = owners.insert((registry.slot(usize::from(*at)), name), vertex) else { continue };
        let is_news = renamed.binary_search(&first).is_ok() || renamed.binary_search(&vertex).is_ok();
        if is_news {
            let first = &catalog.resources[first.slot()].reference;
            problems.push((vertex, ValidationError::new(format!("{first} manages the same `{name}`"))));
        }
    }
    problems
}

/// Reports resources whose identity is the name of another one, such as `/etc/motd` and `/etc/motd/`.
///
/// A shared identity that is no name, such as a uid, is permitted (`allowdupe`).
fn duplicate_resources(
    catalog: &Catalog,
    registry: &Registry,
    providers: &[u16],
) -> Vec<(ResourceId, ValidationError)> {
    let mut problems = Vec::new();
    let indexes = Indexes::new(registry);
    let lookup = Lookup::new(&catalog.resources, providers, registry, &indexes);
    let resource_of = |vertex: ResourceId| &catalog.resources[vertex.slot()];
    for ((resource, at), vertex) in catalog.resources.iter().zip(providers).zip((0..).map(ResourceId::first)) {
        if resource.is_hidden() {
            continue;
        }
        let provider = registry.at(usize::from(*at));
        provider.capabilities().relations().identities(&resource.name, &resource.attributes, &mut |name| {
            let other = lookup.named(*at, name).filter(|other| *other != vertex).map(resource_of);
            if let Some(other) = other.filter(|other| !other.is_hidden()) {
                let message = format!("{} manages the same `{name}`", other.reference);
                problems.push((vertex, ValidationError::new(message)));
            }
        });
    }
    problems
}

/// Reports resources that set the same object under different names, such as two resources for a line of a file.
fn duplicate_claims(
    catalog: &Catalog,
    registry: &Registry,
    providers: &[u16],
    is_left_out: &dyn Fn(ResourceId) -> bool,
) -> Vec<(ResourceId, ValidationError)> {
    let mut problems = Vec::new();
    let mut owners: FxHashMap<(u16, EcoString), (&Resource, bool)> = FxHashMap::default();
    let all = catalog.resources.iter().zip(providers).zip((0..).map(ResourceId::first));
    for ((resource, at), vertex) in all.filter(|(_, vertex)| !is_left_out(*vertex)) {
        let (at, mut problem) = (usize::from(*at), None);
        let relations = registry.at(at).capabilities().relations();
        relations.claims(&resource.name, &resource.attributes, &mut |claim| {
            let owner = owners.entry((registry.slot(at), claim.target.into()));
            let (first, is_whole) = owner.or_insert((resource, claim.is_whole));
            // An equal name has been reported.
            if first.name != resource.name && (*is_whole || claim.is_whole) {
                let message = format!("{} manages the same `{}`", first.reference, claim.target);
                problem.get_or_insert_with(|| ValidationError::new(message).hint("remove one of the two"));
            }
        });
        problems.extend(problem.map(|problem| (vertex, Redactor::of(&resource.attributes).problem(problem))));
    }
    problems
}

/// Reports resources that would undo each other in every run, each pair once.
fn conflicts(
    catalog: &Catalog,
    registry: &Registry,
    providers: &[u16],
    is_left_out: &dyn Fn(ResourceId) -> bool,
) -> Vec<(ResourceId, ValidationError)> {
    let indexes = Indexes::new(registry);
    let lookup = Lookup::new(&catalog.resources, providers, registry, &indexes);
    // Usually the same type as in the last call.
    let last = RefCell::new((TypeName::from(""), None));
    let index = |type_name: &str| {
        let mut last = last.borrow_mut();
        if last.0 != *type_name {
            *last = (type_name.into(), registry.index(type_name));
        }
        last.1
    };
    let declared = |type_name: &str, name: &str| {
        let vertex = lookup.identified(index(type_name)? as u16, name)?;
        let other = &catalog.resources[vertex.slot()];
        (!is_left_out(vertex)).then_some(&other.attributes)
    };
    let all = catalog.resources.iter().zip(providers).zip((0..).map(ResourceId::first));
    all.filter(|(_, vertex)| !is_left_out(*vertex))
        .flat_map(|((resource, at), vertex)| {
            let provider = registry.at(usize::from(*at));
            let problems =
                provider.capabilities().relations().conflicts(&resource.name, &resource.attributes, &declared);
            problems.into_iter().map(move |problem| (vertex, sealed(problem, &resource.attributes)))
        })
        .collect()
}

/// Reports pairs of resources of a type that would undo each other in every run.
fn opposites(
    catalog: &Catalog,
    registry: &Registry,
    providers: &[u16],
    is_left_out: &dyn Fn(ResourceId) -> bool,
) -> Vec<(ResourceId, ValidationError)> {
    let mut problems = Vec::new();
    let used: BTreeSet<usize> = providers.iter().map(|at| usize::from(*at)).collect();
    for at in used {
        let vertices = || {
            let all = providers.iter().zip((0..).map(ResourceId::first));
            all.filter(|(by, vertex)| usize::from(**by) == at && !is_left_out(*vertex)).map(|(_, vertex)| vertex)
        };
        let attributes = || vertices().map(|vertex| &catalog.resources[vertex.slot()].attributes).collect();
        for found in registry.at(at).capabilities().relations().opposites(&attributes) {
            let (Some(first), Some(second)) = (vertices().nth(found.pair.0), vertices().nth(found.pair.1)) else {
                continue;
            };
            let message = format!("{} {}", catalog.resources[first.slot()].reference, found.reason);
            problems.push((second, ValidationError::new(message).hint("remove one of the two")));
        }
    }
    problems
}

/// Returns the state that a provider restores for a resource that is no longer declared; none if it cannot.
pub(crate) fn reverts_to(provider: &dyn Provider) -> Option<RevertTo> {
    let usual = || {
        let mut attributes = provider.schema().attributes.iter();
        // An attribute with a default, such as the exit code of a command, is no state by itself.
        let is_state = attributes.any(|one| {
            let is_settable = matches!(one.behaviour, Behaviour::Property | Behaviour::InitOnly);
            is_settable && (one.default.is_none() || matches!(one.name.as_str(), "ensure" | "exists"))
        });
        is_state.then_some(RevertTo::Values)
    };
    provider.capabilities().revert.map(|revert| revert.revert_to()).or_else(usual)
}

/// Returns the problem of a resource with `reverse` whose state cannot be restored. A `reverse` from the defaults
/// of all types is switched off instead.
fn irreversible(provider: &dyn Provider, resource: &mut Resource) -> Option<ValidationError> {
    let meta = resource.meta().filter(|meta| meta.reverse)?;
    let why = match reverts_to(provider) {
        None => {
            let type_name = &provider.schema().name;
            format!("a resource of the type `{type_name}` cannot be restored (`reverse`)")
        }
        Some(RevertTo::Earlier | RevertTo::Values) if !resource.deferred().is_empty() => {
            "it receives outputs of other resources, and cannot be restored (`reverse`)".to_owned()
        }
        _ => return None,
    };
    if meta.reverse_of_all {
        resource.particulars_mut().meta.get_or_insert_default().reverse = false;
        return None;
    }
    Some(ValidationError::new(why).hint("take `reverse` out of its `meta`, or out of the `defaults` of its type"))
}

/// Returns the problems of one resource.
fn faults(provider: &dyn Provider, resource: &mut Resource, particular: bool) -> Vec<ValidationError> {
    let irreversible = irreversible(provider, resource);
    let deferred = unknown_attributes(resource);
    let mut problems = provider.validate(&resource.name, &resource.attributes, &deferred);
    problems.extend(irreversible);
    if particular {
        problems.extend(unsupported(provider, resource));
    }
    problems
}

/// Returns the problems that the provider finds when it canonicalises a resource that it does not accept. The resource
/// stays unchanged.
fn unusable(provider: &dyn Provider, cx: &Context<'_>, resource: &Resource) -> Vec<ValidationError> {
    // Without all values, a problem may be a result of the missing ones.
    if !unknown_attributes(resource).is_empty() {
        return Vec::new();
    }
    let (mut name, mut should) = (resource.name.clone(), resource.attributes.clone());
    // A provider may rely on values that it accepts: its panic says nothing new about the others.
    let result = catch_panic(provider, || canonicalize_one(provider, cx, &mut name, &mut should));
    result.ok().and_then(Result::err).unwrap_or_default()
}

/// Joins the problems of `validate` and of `canonicalize`. Of an attribute with both, those of `validate` count.
pub(crate) fn both(mut invalid: Vec<ValidationError>, unusable: Vec<ValidationError>) -> Vec<ValidationError> {
    let is_known = |one: &ValidationError| {
        let is_same = |known: &ValidationError| known.attribute.is_some() && known.attribute == one.attribute;
        invalid.iter().any(|known| is_same(known) || known.message == one.message)
    };
    let more: Vec<ValidationError> = unusable.into_iter().filter(|one| !is_known(one)).collect();
    invalid.extend(more);
    invalid
}

/// Returns the attributes without a known value: deferred and broken ones.
fn unknown_attributes(resource: &Resource) -> Vec<&str> {
    let deferred = resource.deferred().iter().map(|deferred| deferred.attribute.as_str());
    deferred.chain(resource.broken().iter().map(EcoString::as_str)).collect()
}

/// Returns the problems of a resource to report. If attributes are broken, a problem of the resource as a whole may be
/// a result of that.
fn reportable(resource: &Resource, problems: Vec<ValidationError>) -> Vec<ValidationError> {
    let is_of_a_value = |name: &AttributeName| resource.attributes.get(name.as_str()).is_some();
    let is_meant = |problem: &ValidationError| {
        resource.broken().is_empty() || problem.attribute.as_ref().is_some_and(is_of_a_value)
    };
    problems.into_iter().filter(is_meant).map(|problem| sealed(problem, &resource.attributes)).collect()
}

/// Makes the resources of a provider canonical, in one call.
///
/// Names become canonical now, because other resources refer to them. The attributes of a resource with deferred values
/// become canonical during the run.
fn make_canonical(
    provider: &dyn Provider,
    cx: &Context<'_>,
    mut resources: Vec<(ResourceId, &mut Resource)>,
    renamed: &mut Vec<ResourceId>,
    problems: &mut Vec<(ResourceId, ValidationError)>,
) {
    if !provider.schema().has(Feature::Canonicalize) {
        resources.into_iter().for_each(|(_, resource)| resource.attributes.shrink(0));
        return;
    }
    let values = |resource: &mut Resource| match unknown_attributes(resource).is_empty() {
        true => std::mem::take(&mut resource.attributes),
        false => resource.attributes.clone(),
    };
    let mut declared: Vec<(EcoString, Attributes)> =
        resources.iter_mut().map(|(_, resource)| (resource.name.clone(), values(resource))).collect();
    let mut refs: Vec<(&mut EcoString, &mut Attributes)> =
        declared.iter_mut().map(|(name, should)| (name, should)).collect();
    let found = canonicalize(provider, cx, &mut refs);
    for (((vertex, resource), (name, should)), found) in resources.into_iter().zip(declared).zip(found) {
        let is_whole = unknown_attributes(resource).is_empty();
        if !found.is_empty() {
            // Without all values, a problem may be a result of the missing ones.
            if is_whole {
                resource.attributes = should;
                problems.extend(reportable(resource, found).into_iter().map(|problem| (vertex, problem)));
            }
            continue;
        }
        let is_renamed = name != resource.name;
        if is_renamed {
            renamed.push(vertex);
            resource.name = name;
        }
        if is_whole {
            resource.attributes = should;
            resource.attributes.shrink(0);
        } else if is_renamed {
            for namevar in provider.schema().namevars() {
                if let Some(value) = should.get(namevar.name.as_str()) {
                    resource.attributes.set(namevar.name.clone(), value.clone());
                }
            }
        }
    }
}

/// Returns true if a type has read-only attributes, attributes that only some providers support, or relations of
/// its own.
fn is_particular(provider: &dyn Provider) -> bool {
    let schema = provider.schema();
    let has_particular = |attribute: &kilter_model::AttributeSchema| {
        !attribute.providers.is_empty()
            || !attribute.required_features.is_empty()
            || attribute.behaviour == Behaviour::ReadOnly
    };
    !schema.relations.is_empty() || schema.attributes.iter().any(has_particular)
}

/// Reports attributes that the provider does not support, and relations of the type that cannot be determined.
fn unsupported(provider: &dyn Provider, resource: &Resource) -> Vec<ValidationError> {
    let schema = provider.schema();
    let has = |feature: &str| schema.has_word(feature);
    let mut problems = Vec::new();
    for (name, _) in resource.attributes.iter() {
        let Some(attribute) = schema.find(name.as_str()) else { continue };
        if attribute.behaviour == Behaviour::ReadOnly {
            let problem = ValidationError::with(name.as_str(), "it is read_only: it is reported, and cannot be set");
            problems.push(problem.hint("take it out"));
        }
        // Nearly all attributes are supported by all providers.
        let is_open = attribute.providers.is_empty() && attribute.required_features.is_empty();
        if is_open || attribute.is_supported_by(provider.name(), &has) || attribute.default.is_some() {
            continue;
        }
        let message = format!("the provider `{}` of {} does not support it", provider.name(), schema.name);
        let problem = ValidationError::with(name.as_str(), message);
        problems.push(match attribute.providers.is_empty() {
            true => problem.hint(format!("it needs {}", attribute.required_features.join(", "))),
            false => problem.hint(format!("name one with `provider:` that does: {}", attribute.providers.join(", "))),
        });
    }
    if !schema.relations.is_empty() {
        let errors = schema.auto_relations(&resource.attributes, &resource.name, &mut |_, _, _| {});
        problems.extend(errors.into_iter().map(|error| ValidationError::new(error.to_string())));
    }
    problems
}

/// Removes sensitive values from the message of a problem.
pub(crate) fn sealed(problem: ValidationError, attributes: &Attributes) -> ValidationError {
    let secret = |name: &AttributeName| attributes.get(name.as_str()).is_some_and(Value::holds_sensitive);
    match &problem.attribute {
        Some(name) if secret(name) => {
            ValidationError { message: "the attribute does not accept the sensitive value".into(), ..problem }
        }
        None if attributes.iter().any(|(name, _)| secret(name)) => ValidationError {
            message: "its attributes contradict each other; one is sensitive, so details are hidden".into(),
            ..problem
        },
        _ => problem,
    }
}
