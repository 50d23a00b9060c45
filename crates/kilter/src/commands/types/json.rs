//! Types for programs (docs/reference/json.md).

use kilter_model::{AttributeSchema, OutputSchema, to_json};
use kilter_provider::{Candidate, Preference, Provider, Registry};
use serde_json::{Value as Json, json};

/// Returns all types.
pub(super) fn list(providers: &[&dyn Provider], registry: &Registry) -> Json {
    let one = |provider: &&dyn Provider| describe(*provider, &registry.candidates(provider.schema().name.as_str()));
    providers.iter().map(one).collect()
}

/// Returns one type.
pub(super) fn describe(provider: &dyn Provider, candidates: &[Candidate]) -> Json {
    let schema = provider.schema();
    let outputs = schema.outputs.iter().map(output);
    let own = schema.own_features.iter().map(|feature| feature.as_str());
    let features = schema.features.iter().map(|feature| feature.word()).chain(own);
    let patterns = schema.title_patterns.iter();
    let patterns = patterns.map(|one| json!({"pattern": one.pattern.source().as_str(), "desc": one.desc.as_str()}));
    let relations = schema.relations.iter().map(|relation| {
        let titles: Vec<String> = relation.titles.iter().map(|title| title.source().to_string()).collect();
        json!({"kind": relation.kind.word(), "type": relation.type_name.as_str(), "titles": titles})
    });
    json!({
        "name": schema.name.as_str(),
        "provider": provider.name(),
        "providers": candidates.iter().map(|each| candidate(each, provider.name())).collect::<Vec<_>>(),
        "desc": schema.desc.as_str(),
        "features": features.collect::<Vec<_>>(),
        "title_patterns": patterns.collect::<Vec<_>>(),
        "attributes": schema.attributes.iter().map(attribute).collect::<Vec<_>>(),
        "takes_others": schema.others.is_some(),
        "relations": relations.collect::<Vec<_>>(),
        "outputs": outputs.collect::<Vec<_>>(),
    })
}

fn output(output: &OutputSchema) -> Json {
    json!({
        "name": output.name.as_str(),
        "type": output.data_type.to_string(),
        "sensitive": output.data_type.may_hold_secrets(),
        "desc": output.desc.as_str(),
    })
}

fn candidate(candidate: &Candidate, chosen: &str) -> Json {
    json!({
        "name": candidate.name,
        "chosen": candidate.is_chosen,
        "suitable": candidate.suitability.is_suitable(),
        "default": candidate.preference == Preference::Default,
        "why_not": candidate.why_not(chosen).as_deref(),
    })
}

fn attribute(attribute: &AttributeSchema) -> Json {
    json!({
        "name": attribute.name.as_str(),
        "type": attribute.data_type.to_string(),
        "behaviour": attribute.behaviour.word(),
        "required": attribute.required,
        "default": attribute.default.as_ref().map(to_json),
        "allowed": attribute.data_type.allowed(),
        "sensitive": attribute.data_type.may_hold_secrets(),
        "comparison": attribute.comparison.word(),
        "lazy": attribute.lazy,
        "providers": attribute.providers.iter().map(|name| name.as_str()).collect::<Vec<_>>(),
        "required_features": attribute.required_features.iter().map(|name| name.as_str()).collect::<Vec<_>>(),
        "desc": attribute.desc.as_str(),
    })
}
