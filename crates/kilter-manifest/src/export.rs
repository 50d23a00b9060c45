//! Exports: adds a resource that shares the original with other machines, for each resource with `export`.

use std::sync::Arc;

use ecow::{EcoString, eco_format};
use kilter_model::expr::Template;
use kilter_model::{
    Attributes, Catalog, Deferred, Hash, Meta, Relation, RelationKind, Resource, ResourceRef, Title, Value,
};

use crate::diagnostic::Diagnostic;
use crate::environment::Environment;

/// Type of the added resources.
const TYPE: &str = "exported";

/// Adds the exports to a catalog, each after its original.
pub(crate) fn add(catalog: &mut Catalog, is_declared: &dyn Fn(&str, &str) -> bool, environment: &Environment<'_>) {
    let mut added = Vec::new();
    for (at, resource) in (0..).zip(&catalog.resources) {
        let Some(meta) = resource.meta().filter(|meta| !meta.export.is_empty()) else { continue };
        if holds_secret(resource) {
            let message = eco_format!("`{}` is exported, but contains a secret", resource.reference);
            let problem = Diagnostic::new(message).at(resource.span);
            environment.report(problem.hint("other machines can read exports: remove `export` or the secret"));
            continue;
        }
        for to in &meta.export {
            let title = eco_format!("{} for {to}", resource.reference);
            if is_declared(TYPE, &title) {
                let message = eco_format!("`{TYPE}[{title}]` is declared, and follows from `export` too");
                environment.report(Diagnostic::new(message).at(resource.span).hint("take one of them out"));
                continue;
            }
            added.push((at, exported(resource, meta, title)));
        }
    }
    for (first, resource) in added {
        let second = u32::try_from(catalog.resources.len()).unwrap_or(u32::MAX);
        catalog.relations.push(Relation { first, second, kind: RelationKind::Before, span: resource.span });
        catalog.resources.push(Arc::new(resource));
    }
}

fn holds_secret(resource: &Resource) -> bool {
    let is_sealed = |deferred: &Deferred| deferred.sensitive || deferred.template.is_sealed();
    resource.attributes.iter().any(|(_, value)| value.holds_sensitive()) || resource.deferred().iter().any(is_sealed)
}

/// Creates the resource that shares another resource. Its `reverse` removes the export when the original is no
/// longer declared.
fn exported(resource: &Resource, meta: &Meta, title: EcoString) -> Resource {
    let known: Hash = resource.attributes.iter().map(|(name, value)| (name.text().clone(), value.clone())).collect();
    let mut exported = Resource {
        reference: ResourceRef::new(TYPE, Title::from(title.clone())),
        name: title,
        attributes: Attributes::from_iter([("ensure", Value::from("present"))]),
        particulars: None,
        span: resource.span,
    };
    let (noop, policy, retry, delay) = (meta.noop, meta.policy, meta.retry, meta.delay);
    exported.particulars_mut().meta = Some(Meta { noop, policy, retry, delay, reverse: true, ..Meta::default() });
    match resource.deferred() {
        [] => exported.attributes.push("attributes", Value::Hash(Arc::new(known))),
        deferred => {
            let known = known.into_iter().map(|(name, value)| (name, Template::value(value)));
            let sent = deferred.iter().map(|one| (one.attribute.text().clone(), one.template.clone()));
            let template = Template::hash(known.chain(sent).collect());
            let (attribute, span) = ("attributes".into(), resource.span);
            exported.particulars_mut().deferred.push(Deferred { attribute, template, sensitive: false, span });
        }
    }
    exported
}
