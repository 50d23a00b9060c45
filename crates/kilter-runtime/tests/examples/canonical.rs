//! Calls of `canonicalize`, and features that contradict the capabilities of a provider.

use std::sync::{Arc, Mutex};

use kilter_model::{Attributes, Change, Feature, Outcome, State, TypeSchema};
use kilter_provider::{
    Capabilities, Context, Declaration, Level, Mode, Provider, ProviderError, Query, ValidationError,
};

use crate::site::{Site, defined};

const WORD: &str = "name: word\ndesc: Words.\nfeatures: [canonicalize]\nattributes:\n  \
    name: { type: String, desc: The word., behaviour: namevar }\n  \
    first: { type: 'Optional[String]', desc: Its first form. }\n  \
    second: { type: 'Optional[String]', desc: Its second form. }\n";

/// Provider that accepts only words in lower case, and records the calls.
struct Words {
    schema: TypeSchema,
    calls: Mutex<Vec<usize>>,
}

impl Words {
    fn new() -> Arc<Words> {
        Arc::new(Words { schema: defined(WORD), calls: Mutex::default() })
    }
}

impl Provider for Words {
    fn schema(&self) -> &TypeSchema {
        &self.schema
    }

    fn name(&self) -> &'static str {
        "memory"
    }

    fn validate(&self, _: &str, should: &Attributes, _: &[&str]) -> Vec<ValidationError> {
        let is_long = |name: &&str| should.text(name).is_some_and(|text| text.len() > 3);
        ["first", "second"].into_iter().filter(is_long).map(|name| ValidationError::with(name, "too long")).collect()
    }

    fn canonicalize(&self, cx: &Context<'_>, resources: &mut [Declaration<'_>]) -> Vec<Vec<ValidationError>> {
        self.calls.lock().unwrap().push(resources.len());
        cx.log(Level::Info, "word", "", &format!("on {}", cx.hostname()));
        let problems = |one: &mut Declaration<'_>| {
            let is_upper = |(name, text): &(&str, Option<String>)| {
                *name != "name" && text.as_deref().is_some_and(|text| text.to_lowercase() != text)
            };
            let values = ["first", "second"].map(|name| (name, one.should.text(name).map(str::to_owned)));
            values
                .iter()
                .filter(|value| is_upper(value))
                .map(|(name, _)| ValidationError::with(name, "upper case"))
                .collect()
        };
        resources.iter_mut().map(problems).collect()
    }

    fn get(&self, _: &Context<'_>, _: Query<'_>) -> Result<Vec<State>, ProviderError> {
        Ok(Vec::new())
    }

    fn set(&self, _: &Context<'_>, changes: &[Change<'_>], _: Mode) -> Vec<Outcome> {
        vec![Outcome::done(); changes.len()]
    }
}

#[test]
fn canonicalize_gets_all_resources_of_a_type_in_one_call() {
    let words = Words::new();
    let site = Site::new([Arc::clone(&words) as Arc<dyn Provider>]);
    let manifest = "resources:\n  word[a]: { first: x }\n  word[b]: { second: y }\n  word[c]: {}\n";
    assert!(site.prepare(manifest).is_ok());
    assert_eq!(*words.calls.lock().unwrap(), [3]);
}

#[test]
fn canonicalize_reports_every_problem_of_every_resource() {
    let site = Site::new([Words::new() as Arc<dyn Provider>]);
    let manifest =
        "resources:\n  word[a]: { first: X, second: Y }\n  word[b]: { first: x }\n  word[c]: { second: Z }\n";
    let Err(problems) = site.prepare(manifest) else { panic!("upper case is accepted") };
    assert_eq!(problems.len(), 3, "{problems:?}");
}

#[test]
fn invalid_resource_reports_its_canonicalisation_problems_too() {
    let site = Site::new([Words::new() as Arc<dyn Provider>]);
    let manifest = "resources:\n  word[a]: { first: longer, second: Y }\n  word[b]: { first: LONGER }\n";
    let expected = ["word[a]: first: too long", "word[a]: second: upper case", "word[b]: first: too long"];
    assert_eq!(site.refused(manifest), expected);
}

#[test]
fn feature_without_its_capability_is_an_error_of_each_resource() {
    let expected = "the provider `memory` of word declares the feature `refresh` without the capability: the schema \
                    must declare a feature if, and only if, the provider has its capability";
    let schema = defined(WORD).features(&[Feature::Refresh]);
    let site = Site::new([Arc::new(Words { schema, calls: Mutex::default() }) as Arc<dyn Provider>]);
    assert_eq!(site.refused("resources:\n  word[a]: {}\n"), [format!("word[a]: {expected}")]);
}

/// Provider that is part of the registry and is never used.
struct Unused;

impl Provider for Unused {
    fn schema(&self) -> &TypeSchema {
        panic!("the schema is built without a use of the type")
    }

    fn type_name(&self) -> &str {
        "unused"
    }

    fn name(&self) -> &'static str {
        "lazy"
    }

    fn capabilities(&self) -> Capabilities<'_> {
        panic!("the capabilities are read without a use of the type")
    }

    fn is_external(&self) -> bool {
        true
    }

    fn get(&self, _: &Context<'_>, _: Query<'_>) -> Result<Vec<State>, ProviderError> {
        Ok(Vec::new())
    }

    fn set(&self, _: &Context<'_>, _: &[Change<'_>], _: Mode) -> Vec<Outcome> {
        Vec::new()
    }
}

#[test]
fn unused_provider_builds_no_schema() {
    let words = Words::new();
    let site = Site::new([Arc::clone(&words) as Arc<dyn Provider>, Arc::new(Unused)]);
    site.apply("resources:\n  word[a]: { first: x }\n");
    assert_eq!(*words.calls.lock().unwrap(), [1]);
}
