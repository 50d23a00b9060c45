//! Values that depend on outputs of other resources.

use ecow::{EcoString, eco_format};
use kilter_engine::ResourceId;
use kilter_model::expr::{EvalError, Lookup as Found, Name, Scope, Template};
use kilter_model::{Attributes, DataType, Deferred, ResourceRef, Value};
use kilter_provider::{Context, canonicalize_one};
use rustc_hash::FxHashMap;

use crate::lookup::Lookup;
use crate::prepare::{Prepared, both, sealed};
use crate::step::catch_panic;

/// Declared attributes of a resource after its senders have run.
pub(super) enum Resolution {
    /// All attributes, canonical, and the value of each expression.
    Known(Attributes, Box<[Value]>),
    /// Unknown attributes, each with the reason.
    Unknown(Vec<(EcoString, EcoString)>),
    /// A received value cannot be used: the reason, and the values as far as they are known.
    Failed(EcoString, Box<[Value]>),
}

/// Replaces expressions by the received values. The provider canonicalises them with the context `cx`.
pub(super) fn resolve(
    prepared: &Prepared,
    cx: &Context<'_>,
    vertex: ResourceId,
    outputs: &FxHashMap<ResourceId, Attributes>,
) -> Resolution {
    let (resource, provider) = (prepared.resource(vertex), prepared.provider(vertex));
    let scope = OutputScope { prepared, outputs, lookup: prepared.lookup() };
    let mut attributes = resource.attributes.clone();
    let (mut unknown, mut sent) = (Vec::new(), Vec::new());
    for deferred in resource.deferred() {
        match deferred.template.render(&scope) {
            Ok(value) => {
                let value = if deferred.sensitive { Value::sensitive(value) } else { value };
                sent.push(value.clone());
                attributes.set(deferred.attribute.clone(), value);
            }
            Err(EvalError::Unknown(why)) => unknown.push((deferred.attribute.text().clone(), why)),
            Err(error) => return Resolution::Failed(eco_format!("{}: {error}", deferred.attribute), sent.into()),
        }
    }
    if !unknown.is_empty() {
        return Resolution::Unknown(unknown);
    }
    let sent = sent.into_boxed_slice();
    let refused = resource.deferred().iter().zip(&sent).find_map(|(deferred, value)| {
        let schema = provider.schema().find(deferred.attribute.as_str())?;
        mismatch(deferred, value, &schema.data_type)
    });
    if let Some(why) = refused {
        return Resolution::Failed(why, sent);
    }
    let before = attributes.clone();
    // Names cannot depend on outputs: this one is canonical already.
    let canonical = catch_panic(provider, || {
        let invalid = provider.validate(&resource.name, &before, &[]);
        let unusable = canonicalize_one(provider, cx, &mut resource.name.clone(), &mut attributes).err();
        let problems = both(invalid, unusable.unwrap_or_default());
        if problems.is_empty() { Ok(attributes) } else { Err(problems) }
    });
    match canonical {
        Ok(Ok(attributes)) => Resolution::Known(attributes, sent),
        Ok(Err(problems)) => {
            let problems = problems.into_iter().map(|problem| sealed(problem, &before).to_string());
            Resolution::Failed(problems.collect::<Vec<_>>().join("; ").into(), sent)
        }
        Err(panicked) => Resolution::Failed(panicked, sent),
    }
}

/// Returns the reason why a received value has the wrong type.
fn mismatch(deferred: &Deferred, value: &Value, data_type: &DataType) -> Option<EcoString> {
    let mismatch = data_type.check(value).err()?;
    let attribute = &deferred.attribute;
    let senders: Vec<String> =
        sources(&deferred.template).iter().map(|(of, output)| format!("{of}.{output}")).collect();
    let what = format!("what {} sends for `{attribute}`", senders.join(", "));
    Some(match value {
        // A mismatch shows the value.
        value if value.holds_sensitive() => eco_format!("the sensitive value sent for `{attribute}` is no {data_type}"),
        Value::String(text) if text.is_empty() => eco_format!("{what} is empty, and has to be {data_type}"),
        Value::Integer(_) | Value::Float(_) => eco_format!("{what} is {value}, and has to be {data_type}"),
        _ => eco_format!("{what} {mismatch}"),
    })
}

/// Returns the outputs that a value depends on.
pub(super) fn sources(template: &Template) -> Box<[(ResourceRef, EcoString)]> {
    let mut sources: Vec<(ResourceRef, EcoString)> = Vec::new();
    template.names(&mut |name, _| {
        if let Name::Output(reference, output) = name
            && !sources.iter().any(|(known, name)| known == reference && name == output)
        {
            sources.push((reference.clone(), output.clone()));
        }
    });
    sources.into()
}

struct OutputScope<'a> {
    prepared: &'a Prepared,
    outputs: &'a FxHashMap<ResourceId, Attributes>,
    lookup: Lookup<'a>,
}

impl Scope for OutputScope<'_> {
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
