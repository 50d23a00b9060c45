//! Laws about the schema.

use kilter_model::{AttributeSchema, TypeSchema};

use crate::conformance::harness::{Harness, Trial, broken};
use kilter_provider::contradiction;

pub(super) fn is_described(bench: &Harness) -> Trial {
    let world = bench.world()?;
    let schema = world.schema();
    if *schema != *world.subject.provider_anew().schema() {
        return broken("two instances of the provider have different schemas");
    }
    if schema.desc.trim().is_empty() {
        return broken("the type is not described");
    }
    match schema.attributes.iter().find(|attribute| attribute.desc.trim().is_empty()) {
        Some(attribute) => broken(format!("`{}` is not described", attribute.name)),
        None if world.provider().name().is_empty() => broken("the provider has no name"),
        None => Ok(None),
    }
}

pub(super) fn is_sound(bench: &Harness) -> Trial {
    let world = bench.world()?;
    let schema = world.schema();
    if schema.namevars().next().is_none() {
        return broken("there is no namevar");
    }
    for (at, attribute) in schema.attributes.iter().enumerate() {
        if schema.attributes[..at].iter().any(|other| other.name == attribute.name) {
            return broken(format!("`{}` is declared twice", attribute.name));
        }
        if let Some(why) = unsound_default(attribute) {
            return broken(why);
        }
    }
    if let Some(feature) = contradiction(schema, &world.provider().capabilities()) {
        return broken(format!("the feature `{}` and the capabilities of the provider contradict", feature.word()));
    }
    unsound_ensure(schema).or_else(|| unsound_titles(schema)).map_or(Ok(None), broken)
}

fn unsound_default(attribute: &AttributeSchema) -> Option<String> {
    let default = attribute.default.as_ref()?;
    let mismatch = attribute.data_type.check(default).err()?;
    Some(format!("the default of `{}` {mismatch}", attribute.name))
}

fn unsound_ensure(schema: &TypeSchema) -> Option<String> {
    let words = schema.find("ensure")?.data_type.allowed();
    if words.is_empty() {
        return Some("`ensure` is not an Enum".to_owned());
    }
    let is_half = words.contains(&"present") != words.contains(&"absent");
    is_half.then(|| format!("`ensure` has one of `present` and `absent` but not the other: {}", words.join(", ")))
}

fn unsound_titles(schema: &TypeSchema) -> Option<String> {
    for pattern in &schema.title_patterns {
        let names = match pattern.names() {
            Ok(names) => names,
            Err(why) => {
                return Some(format!("the title pattern /{}/ is not a regular expression: {why}", pattern.pattern));
            }
        };
        if let Some(name) = names.iter().find(|name| schema.namevars().all(|namevar| namevar.name != name.as_str())) {
            return Some(format!("the title pattern /{}/ gives `{name}`, which is not a namevar", pattern.pattern));
        }
    }
    None
}
