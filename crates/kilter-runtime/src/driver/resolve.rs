//! Values that other resources send.

use ecow::{EcoString, eco_format};
use kilter_engine::VertexId;
use kilter_model::expr::{EvalError, Lookup as Found, Scope};
use kilter_model::{Attributes, ResourceRef, Value};
use kilter_provider::canonicalize;
use rustc_hash::FxHashMap;

use crate::lookup::Lookup;
use crate::prepare::{Prepared, sealed};
use crate::step::guarded;

/// What is wanted of a resource once others have run.
pub(super) enum Resolution {
    /// All of it, canonical.
    Known(Attributes),
    /// These attributes are not known yet, and why.
    Unknown(Vec<(EcoString, EcoString)>),
    /// A value cannot be used.
    Failed(EcoString),
}

/// Puts the values that were sent into the place of their expressions.
pub(super) fn resolve<'l>(
    prepared: &'l Prepared<'l>,
    lookup: &'l Lookup<'l>,
    vertex: VertexId,
    outputs: &FxHashMap<VertexId, Attributes>,
) -> Resolution {
    let resource = prepared.resource(vertex);
    let scope = Sent { prepared, outputs, lookup };
    let mut attributes = resource.attributes.clone();
    let mut unknown = Vec::new();
    for deferred in resource.deferred() {
        match deferred.template.render(&scope) {
            Ok(value) if deferred.sensitive => attributes.set(deferred.attribute.clone(), Value::sensitive(value)),
            Ok(value) => attributes.set(deferred.attribute.clone(), value),
            Err(EvalError::Unknown(why)) => unknown.push((deferred.attribute.text().clone(), why)),
            Err(error) => return Resolution::Failed(eco_format!("{}: {error}", deferred.attribute)),
        }
    }
    if !unknown.is_empty() {
        return Resolution::Unknown(unknown);
    }
    let provider = prepared.provider(vertex);
    for deferred in resource.deferred() {
        let schema = provider.schema().find(deferred.attribute.as_str());
        let value = attributes.get(deferred.attribute.as_str());
        if let (Some(schema), Some(value)) = (schema, value)
            && let Err(mismatch) = schema.data_type.check(value)
        {
            return Resolution::Failed(match value.holds_sensitive() {
                // A mismatch shows the value.
                true => eco_format!("the sensitive value sent for `{}` is no {}", deferred.attribute, schema.data_type),
                false => eco_format!("the value sent for `{}` {mismatch}", deferred.attribute),
            });
        }
    }
    let before = attributes.clone();
    let canonical = guarded(provider, || match provider.validate(&resource.name, &before, &[]).into_iter().next() {
        Some(problem) => Err(problem),
        // Names did not wait for the run: this one is canonical already.
        None => canonicalize(provider, &mut resource.name.clone(), &mut attributes).map(|()| attributes),
    });
    match canonical {
        Ok(Ok(attributes)) => Resolution::Known(attributes),
        Ok(Err(problem)) => Resolution::Failed(eco_format!("{}", sealed(problem, &before))),
        Err(panicked) => Resolution::Failed(panicked),
    }
}

struct Sent<'a, 'l> {
    prepared: &'a Prepared<'l>,
    outputs: &'a FxHashMap<VertexId, Attributes>,
    lookup: &'a Lookup<'l>,
}

impl Scope for Sent<'_, '_> {
    fn var(&self, name: &str) -> Found {
        self.prepared.catalog.vars.get(name).cloned().map_or(Found::Missing, Found::Found)
    }

    fn fact(&self, name: &str) -> Found {
        self.prepared.catalog.facts.get(name).cloned().map_or(Found::Missing, Found::Found)
    }

    fn output(&self, reference: &ResourceRef, name: &str) -> Found {
        let Some(vertex) = self.lookup.referred(reference) else { return Found::Missing };
        match self.outputs.get(&vertex).and_then(|outputs| outputs.get(name)) {
            Some(value) => Found::Found(value.clone()),
            None => Found::Unknown(eco_format!("after {reference} has run")),
        }
    }
}
