//! The key `in_sync` of an attribute: a condition under which a found value needs no change although it differs from
//! the declared one.

use ecow::{EcoString, eco_format};
use kilter_model::expr::{EvalError, Expr, Lookup, Name, Scope};
use kilter_model::{Attributes, Hash, ResourceRef, State, TypeSchema, Value};
use kilter_provider::Insync;

use super::read::MetadataReader;
use crate::convention::ConventionName;
use crate::yaml::Node;

/// Condition under which an attribute is in sync.
#[derive(Clone, Debug)]
pub struct InSyncRule {
    attribute: EcoString,
    text: EcoString,
    expr: Expr,
}

/// Reads the conditions of all attributes.
pub(super) fn read(
    provider: &Node,
    convention: ConventionName,
    schema: &TypeSchema,
    reader: &mut MetadataReader,
) -> Vec<InSyncRule> {
    let attributes = provider.get("attributes").and_then(Node::entries).unwrap_or_default();
    let mut rules = Vec::new();
    for (name, attribute) in attributes {
        let (Some(name), Some(node)) = (name.text(), attribute.get("in_sync")) else { continue };
        if convention == ConventionName::Mold {
            reader.fault(node, "`in_sync` is for the conventions simple and json");
        } else if !schema.find(name).is_some_and(|found| found.behaviour.is_compared()) {
            reader.fault(node, eco_format!("`in_sync`: kilter never compares `{name}`"));
        } else {
            rules.extend(rule(name, node, reader));
        }
    }
    rules
}

fn rule(attribute: &EcoString, node: &Node, reader: &mut MetadataReader) -> Option<InSyncRule> {
    let example = "such as vars.is.enable == \"static\" && vars.should.enable != \"mask\"";
    let Some(text) = node.text() else {
        reader.fault_with(node, eco_format!("`in_sync` is an expression, not {}", node.what()), example);
        return None;
    };
    let expr = match Expr::parse(text) {
        Ok(expr) => expr,
        Err(error) => {
            reader.fault_hint(node, eco_format!("`in_sync`: {}", error.message), error.hint);
            return None;
        }
    };
    let mut is_other = false;
    expr.names(&mut |name, _| is_other |= !matches!(name, Name::Var(name) if name == "is" || name == "should"));
    if is_other {
        reader.fault_with(node, "`in_sync`: only vars.is.ATTRIBUTE and vars.should.ATTRIBUTE may be used", example);
        return None;
    }
    Some(InSyncRule { attribute: attribute.clone(), text: text.clone(), expr })
}

/// Compares an attribute by its condition, if it has one.
pub(super) fn compare(
    rules: &[InSyncRule],
    schema: &TypeSchema,
    attribute: &str,
    is: &State,
    should: &Attributes,
) -> Insync {
    let Some(rule) = rules.iter().find(|rule| rule.attribute == attribute) else { return Insync::Default };
    let values = |attributes: &Attributes| {
        let value = |name: &str| attributes.get(name).cloned().unwrap_or_default();
        let all = schema.attributes.iter().map(|one| (one.name.text().clone(), value(one.name.as_str())));
        Value::hash(all.collect::<Hash>())
    };
    match rule.expr.eval(&Both { is: values(&is.attributes), should: values(should) }) {
        Ok(Value::Boolean(true)) => Insync::Same,
        Ok(Value::Boolean(false)) => Insync::Default,
        Ok(other) => Insync::Failed(eco_format!("`in_sync` is {}, not true or false: {}", other.kind(), rule.text)),
        Err(EvalError::Failed { message, .. }) => Insync::Failed(eco_format!("`in_sync`: {message}: {}", rule.text)),
        Err(unknown) => Insync::Failed(eco_format!("`in_sync` is {unknown}: {}", rule.text)),
    }
}

/// The found and the declared attributes as variables.
struct Both {
    is: Value,
    should: Value,
}

impl Scope for Both {
    fn var(&self, name: &str) -> Lookup {
        match name {
            "is" => Lookup::Found(self.is.clone()),
            "should" => Lookup::Found(self.should.clone()),
            _ => Lookup::Missing,
        }
    }

    fn fact(&self, _: &str) -> Lookup {
        Lookup::Missing
    }

    fn output(&self, _: &ResourceRef, _: &str) -> Lookup {
        Lookup::Missing
    }
}
