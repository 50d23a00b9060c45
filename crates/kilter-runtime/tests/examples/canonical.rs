//! Calls of `canonicalize`, and features that contradict the capabilities of a provider.

use std::sync::{Arc, Mutex};

use kilter_model::{Change, Feature, Outcome, State, TypeSchema};
use kilter_provider::{Context, Declaration, Level, Mode, Provider, ProviderError, Query, Registry, ValidationError};

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
#[should_panic(expected = "has either the feature `refresh` or its capability")]
fn feature_without_its_capability_panics_at_the_first_use_of_the_type() {
    let words = Words { schema: defined(WORD).features(&[Feature::Refresh]), calls: Mutex::default() };
    let registry = Registry::new([Arc::new(words) as Arc<dyn Provider>]);
    let _ = registry.schema("word");
}
