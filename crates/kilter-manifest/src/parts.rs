//! Parts: resources that become entries in an attribute of their owner. Relations of a part move to the owner.

use std::collections::BTreeMap;
use std::sync::Arc;

use ecow::{EcoString, eco_format};
use kilter_model::expr::Template;
use kilter_model::{Catalog, Deferred, Hash, PartOf, Resource, Span, Value};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::diagnostic::{Diagnostic, KNOWN_BEFORE};
use crate::environment::Environment;
use crate::schemas::Schemas;
use crate::source::small;

/// Returns true if a resource is a part of another resource.
fn is_part(resource: &Resource, schemas: &dyn Schemas) -> bool {
    part_of(resource, schemas).is_some()
}

/// Returns the owner relation of a resource's type. A hidden resource has none.
fn part_of<'s>(resource: &Resource, schemas: &'s dyn Schemas) -> Option<&'s PartOf> {
    let part_of = schemas.schema(resource.reference.type_name.as_str())?.part_of.as_ref()?;
    (!resource.is_hidden()).then_some(part_of)
}

/// Converts the selected parts to entries of their owners.
///
/// `is_declared` returns true if a resource with this type and title exists, even if its `when` is false. The parts
/// of such an owner are left out as well.
pub(crate) fn fold(
    catalog: &mut Catalog,
    is_meant: &dyn Fn(&Resource) -> bool,
    is_declared: &dyn Fn(&str, &str) -> bool,
    environment: &Environment<'_>,
) {
    let schemas = environment.inputs.schemas;
    if !catalog.resources.iter().any(|resource| is_part(resource, schemas) && is_meant(resource)) {
        return;
    }
    // A visible resource takes precedence over a hidden one with the same name.
    let (hidden, held): (Vec<_>, Vec<_>) = (0..).zip(&catalog.resources).partition(|(_, one)| one.is_hidden());
    let named: FxHashMap<(EcoString, EcoString), usize> = (hidden.into_iter().chain(held))
        .map(|(at, one)| ((one.reference.type_name.text().clone(), one.name.clone()), at))
        .collect();
    let mut owners: Vec<Option<usize>> = vec![None; catalog.resources.len()];
    let mut gone = vec![false; catalog.resources.len()];
    let mut parts: BTreeMap<(usize, EcoString), Vec<OwnedEntry>> = BTreeMap::new();
    for (at, resource) in catalog.resources.iter().enumerate() {
        let Some(PartOf { type_name, by, into }) = part_of(resource, schemas).filter(|_| is_meant(resource)) else {
            continue;
        };
        gone[at] = true;
        let report = |message: EcoString, hint: EcoString| {
            environment.report(Diagnostic::new(message).at(resource.span).hint(hint));
        };
        let Some(schema) = schemas.schema(type_name.as_str()) else {
            let message = eco_format!("`{}` is a part of a {type_name}, but there is no such type", resource.reference);
            report(message, "see `part_of` in its definition".into());
            continue;
        };
        if schema.part_of.is_some() || schema.find(into.as_str()).is_none() {
            let why = match schema.part_of {
                Some(_) => "which is itself a part of another resource",
                None => "which has no such attribute",
            };
            let message = eco_format!("`{}` would be an entry of `{into}` of a {type_name}, {why}", resource.reference);
            report(message, "see `part_of` in its definition".into());
            continue;
        }
        let Some(owner) = resource.get(by.as_str()).and_then(Value::to_text) else {
            // The missing attribute has been reported.
            if resource.deferred().iter().any(|deferred| deferred.attribute == *by) {
                let message = eco_format!("`{by}` names the containing resource and must be known before the run");
                report(message, KNOWN_BEFORE.into());
            }
            continue;
        };
        match named.get(&(type_name.text().clone(), owner.clone())) {
            Some(to) => {
                owners[at] = Some(*to);
                let (title, span) = (resource.reference.title.text().clone(), resource.span);
                let part = OwnedEntry { title, entry: entry(resource, by.as_str(), schemas), span };
                parts.entry((*to, into.text().clone())).or_default().push(part);
            }
            None if is_declared(type_name.as_str(), &owner) => {}
            None => {
                let message =
                    eco_format!("`{}` is a part of `{type_name}[{owner}]`, which is not declared", resource.reference);
                report(
                    message,
                    eco_format!(
                        "declare {type_name}[{owner}] with its attributes: `kilter types {type_name}` shows an example"
                    ),
                );
            }
        }
    }
    for ((owner, into), parts) in parts {
        add(Arc::make_mut(&mut catalog.resources[owner]), &into, parts, environment);
    }
    leave(catalog, &owners, &gone);
}

/// A resource as an entry of its owner.
struct OwnedEntry {
    title: EcoString,
    entry: Template,
    span: Span,
}

/// Returns the attributes of a part except its name and its owner.
fn entry(resource: &Resource, by: &str, schemas: &dyn Schemas) -> Template {
    let schema = schemas.schema(resource.reference.type_name.as_str());
    let is_said =
        |name: &str| name != by && !schema.is_some_and(|schema| schema.namevars().any(|one| one.name == *name));
    let known = resource.attributes.iter().filter(|(name, _)| is_said(name.as_str()));
    let known = known.map(|(name, value)| (name.text().clone(), value.clone()));
    if resource.deferred().is_empty() {
        return Template::value(Value::Hash(Arc::new(known.collect())));
    }
    let known = known.map(|(name, value)| (name, Template::value(value)));
    let sent = resource.deferred().iter().map(|Deferred { attribute, template, sensitive, .. }| {
        let template = if *sensitive { template.clone().sealed() } else { template.clone() };
        (attribute.text().clone(), template)
    });
    Template::hash(known.chain(sent).collect())
}

/// Adds entries to an attribute of an owner, which may already have entries.
fn add(owner: &mut Resource, into: &str, parts: Vec<OwnedEntry>, environment: &Environment<'_>) {
    let reference = owner.reference.clone();
    let report = |message: EcoString, span: Span| environment.report(Diagnostic::new(message).at(span));
    let is_it = |deferred: &Deferred| deferred.attribute == *into;
    let begun = owner.deferred().iter().find(|deferred| is_it(deferred));
    let begun = begun.map(|deferred| deferred.template.entries().map(<[_]>::to_vec));
    let given = owner.attributes.get(into).map(|given| given.as_hash().cloned());
    let mut entries: Vec<(EcoString, Template)> = match (given, begun) {
        (None, None) => Vec::new(),
        (Some(Some(given)), _) => given.into_iter().map(|(key, value)| (key, Template::value(value))).collect(),
        (None, Some(Some(begun))) => begun,
        _ => {
            let message = eco_format!(
                "`{into}` of `{reference}` is no mapping that is known, and its parts would be entries of it"
            );
            return report(message, owner.span);
        }
    };
    let mut known: FxHashSet<EcoString> = entries.iter().map(|(key, _)| key.clone()).collect();
    for OwnedEntry { title, entry, span } in parts {
        match known.insert(title.clone()) {
            true => entries.push((title, entry)),
            false => report(eco_format!("`{reference}` has two parts `{title}`"), span),
        }
    }
    owner.attributes.remove(into);
    let constant: Option<Hash> =
        entries.iter().map(|(key, entry)| Some((key.clone(), entry.constant()?.clone()))).collect();
    if let Some(constant) = constant {
        return owner.attributes.push(into, Value::Hash(Arc::new(constant)));
    }
    let (template, span) = (Template::hash(entries), owner.span);
    let deferred = &mut owner.particulars_mut().deferred;
    deferred.retain(|deferred| !is_it(deferred));
    deferred.push(Deferred { attribute: into.into(), template, sensitive: false, span });
}

/// Records in composite resources the owners whose entries were their members.
fn add_entries(catalog: &mut Catalog, owners: &[Option<usize>]) {
    if catalog.composites.is_empty() {
        return;
    }
    for (part, owner) in (0..).zip(owners) {
        let Some(owner) = owner.map(small) else { continue };
        let mut next = catalog.owner_of(part);
        while let Some(at) = next {
            let composite = &mut catalog.composites[at as usize];
            if !composite.parts.contains(&owner) {
                composite.entries_in.push(owner);
            }
            next = composite.owner;
        }
    }
}

/// Removes the folded parts from a catalog. Their relations move to their owners.
fn leave(catalog: &mut Catalog, owners: &[Option<usize>], gone: &[bool]) {
    let mut next = 0;
    let mut places: Vec<Option<u32>> = Vec::with_capacity(gone.len());
    // For each position, and for the end: number of remaining resources before it.
    let mut left: Vec<u32> = Vec::with_capacity(gone.len() + 1);
    for is_gone in gone {
        left.push(next);
        places.push((!is_gone).then_some(next));
        next += u32::from(!is_gone);
    }
    left.push(next);
    let place = |at: u32| {
        let at = at as usize;
        places[at].or_else(|| places[owners[at]?])
    };
    add_entries(catalog, owners);
    for composite in &mut catalog.composites {
        composite.parts = left[composite.parts.start as usize]..left[composite.parts.end as usize];
        composite.entries_in = composite.entries_in.iter().filter_map(|at| place(*at)).collect();
        composite.entries_in.sort_unstable();
        composite.entries_in.dedup();
    }
    catalog.relations.retain_mut(|relation| match (place(relation.first), place(relation.second)) {
        (Some(first), Some(second)) if first != second => {
            (relation.first, relation.second) = (first, second);
            true
        }
        _ => false,
    });
    let mut at = 0;
    catalog.resources.retain(|_| {
        at += 1;
        !gone[at - 1]
    });
    debug_assert_eq!(small(catalog.resources.len()), next);
}
