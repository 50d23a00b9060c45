//! Resource that the words declare.

use kilter_model::{
    AttributeSchema, Attributes, Behaviour, Catalog, Resource, ResourceRef, SourceId, Span, State, Value,
};
use kilter_provider::{Provider, Registry};
use kilter_runtime::{Prepared, Rejected, plan_of};

use crate::providers;
use crate::ralsh::error::Error;

/// Prepares a run with only this resource.
pub(super) fn prepared(
    registry: &Registry,
    provider: &dyn Provider,
    name: &str,
    should: &Attributes,
) -> Result<Prepared, Error> {
    let catalog = Catalog::of([resource(provider, name, should)?]);
    plan_of(catalog, registry, &providers::declaring(registry.hostname())).map_err(|rejected| refused(&rejected))
}

/// Returns the declared attributes, with the current values of all others; none if there are no others.
pub(super) fn completed(provider: &dyn Provider, should: &Attributes, state: &State) -> Option<Attributes> {
    let is_missing = |attribute: &AttributeSchema| {
        attribute.behaviour == Behaviour::Property
            && !attribute.data_type.is_sensitive()
            && should.get(attribute.name.as_str()).is_none()
    };
    let mut attributes = should.clone();
    for attribute in provider.schema().attributes.iter().filter(|attribute| is_missing(attribute)) {
        if let Some(value) = state.attributes.get(attribute.name.as_str()).filter(|_| state.exists) {
            attributes.set(attribute.name.clone(), value.clone());
        }
    }
    (attributes.len() > should.len()).then_some(attributes)
}

/// Returns true if the type accepts `ensure: present`, and the default does not set it.
pub(super) fn can_be_made(provider: &dyn Provider) -> bool {
    let ensure = provider.schema().find("ensure");
    ensure.is_some_and(|ensure| ensure.default.is_none() && ensure.data_type.check(&Value::from("present")).is_ok())
}

/// Returns the resource that the words declare.
fn resource(provider: &dyn Provider, title: &str, should: &Attributes) -> Result<Resource, Error> {
    let schema = provider.schema();
    let refused = |why: &dyn std::fmt::Display| Error::failed(format_args!("{}[{title}]: {why}", schema.name));
    let (name, namevars) = schema.identify(title, should).map_err(|error| refused(&error))?;
    let mut attributes = should.clone();
    if namevars.len() > 1 {
        namevars.iter().for_each(|(name, value)| attributes.set(name.clone(), value.clone()));
    }
    for attribute in schema.attributes.iter().filter(|attribute| attribute.behaviour != Behaviour::Namevar) {
        match (&attribute.default, attributes.get(attribute.name.as_str())) {
            (Some(default), None) => attributes.push(attribute.name.clone(), default.clone()),
            (None, None) if attribute.required => {
                return Err(refused(&format_args!("it needs the attribute {}", attribute.name)));
            }
            _ => {}
        }
    }
    let reference = ResourceRef::new(schema.name.clone(), title);
    let mut resource = Resource { attributes, ..Resource::new(reference, name, Span::new(SourceId(0), 0, 0)) };
    resource.particulars_mut().provider = Some(provider.name().into());
    Ok(resource)
}

fn refused(rejected: &Rejected) -> Error {
    let told = rejected.problems.iter().map(|(_, problem)| problem.to_string());
    Error::failed(told.collect::<Vec<_>>().join("; "))
}
