//! The examples of the reference are right.

mod support;

use kilter_manifest::{Source, Sources, define, render};
use kilter_model::Value;
use kilter_model::expr::Expr;
use support::World;

/// The fenced blocks of a language in a page of the reference.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let path = format!("{}/../../docs/reference/{page}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let fence = format!("```{language}\n");
    let fences = text.split(&fence).skip(1);
    fences.filter_map(|rest| rest.split("```").next().map(str::to_owned)).collect()
}

#[test]
fn every_manifest_of_the_reference_compiles() {
    let examples = blocks("manifest.md", "yaml");
    assert!(examples.len() >= 8);
    for example in examples {
        assert!(!World::new().catalog(&example).resources.is_empty(), "{example}");
    }
}

#[test]
fn definitions_of_the_reference_are_valid() {
    let examples = blocks("type-definitions.md", "yaml");
    assert!(examples.len() >= 5);
    for example in examples {
        let mut sources = Sources::new();
        let id = sources.add(Source::new("type.yaml", example));
        let defined = define(&mut sources, id);
        let defined = defined.unwrap_or_else(|problems| panic!("{}", render(&problems, &sources, false)));
        assert!(defined.warnings.is_empty(), "{}", render(&defined.warnings, &sources, false));
    }
}

struct DocsFacts(World);

impl kilter_model::expr::Scope for DocsFacts {
    fn var(&self, _: &str) -> kilter_model::expr::Lookup {
        kilter_model::expr::Lookup::Missing
    }

    fn fact(&self, name: &str) -> kilter_model::expr::Lookup {
        kilter_manifest::Facts::fact(&self.0, name)
    }

    fn output(&self, _: &kilter_model::ResourceRef, _: &str) -> kilter_model::expr::Lookup {
        kilter_model::expr::Lookup::Missing
    }
}

#[test]
fn expressions_of_the_reference_are_true() {
    let lines: Vec<String> = blocks("expressions.md", "expressions")
        .iter()
        .flat_map(|b| b.lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    assert!(lines.len() >= 15);
    for line in lines {
        let value = Expr::parse(&line).unwrap_or_else(|e| panic!("{line}: {e}")).eval(&DocsFacts(World::new()));
        assert_eq!(value, Ok(Value::Boolean(true)), "{line}");
    }
}
