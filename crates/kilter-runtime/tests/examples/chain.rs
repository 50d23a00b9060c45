//! A chain of rules with exactly the declared ones: kilter generates all other found rules and removes them
//! (`custom_generate`).

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use kilter_model::{Attributes, Change, Feature, Outcome, ResourceRef, State, TypeSchema, Value};
use kilter_provider::{
    Capabilities, Context, Generate, Mode, Placement, Provider, ProviderError, Query, Scheduling, Wanted,
};

use crate::site::{Ran, Site, defined};

const CHAIN: &str = r"
name: chain
desc: A chain of rules.
features: [custom_generate]
attributes:
  ensure: { type: 'Enum[present, absent]', desc: Whether it is there., default: present }
  name: { type: String, desc: Its name., behaviour: namevar }
  purge: { type: Boolean, desc: Whether it has declared rules only., behaviour: parameter, default: false }
";

const RULE: &str = r"
name: rule
desc: A rule of a chain.
attributes:
  ensure: { type: 'Enum[present, absent]', desc: Whether it is there., default: present }
  name: { type: String, desc: 'Chain and rule, with a space between.', behaviour: namevar }
";

/// The chains and the rules that there are; those of a chain begin with its name.
#[derive(Default)]
struct Firewall {
    chains: Mutex<BTreeSet<String>>,
    rules: Mutex<BTreeSet<String>>,
}

/// The chains, or the rules.
struct KeptCalls {
    schema: TypeSchema,
    firewall: Arc<Firewall>,
    names: fn(&Firewall) -> &Mutex<BTreeSet<String>>,
}

impl KeptCalls {
    fn names(&self) -> MutexGuard<'_, BTreeSet<String>> {
        (self.names)(&self.firewall).lock().unwrap()
    }
}

fn states(names: &BTreeSet<String>) -> Vec<State> {
    let present = |name: &String| {
        let attributes: Attributes =
            [("ensure", Value::from("present")), ("name", Value::from(name.as_str()))].into_iter().collect();
        State::present(name.as_str(), attributes)
    };
    names.iter().map(present).collect()
}

fn converge(names: &mut BTreeSet<String>, change: &Change<'_>) {
    match change.should.and_then(|should| should.text("ensure")) {
        Some("present") => names.insert(change.name.to_string()),
        _ => names.remove(change.name.as_str()),
    };
}

impl Provider for KeptCalls {
    fn schema(&self) -> &TypeSchema {
        &self.schema
    }

    fn name(&self) -> &'static str {
        "memory"
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities {
            scheduling: Some(self),
            generate: self.schema.has(Feature::CustomGenerate).then_some(self as &dyn Generate),
            ..Capabilities::default()
        }
    }

    fn get(&self, _: &Context<'_>, _: Query<'_>) -> Result<Vec<State>, ProviderError> {
        Ok(states(&self.names()))
    }

    fn set(&self, _: &Context<'_>, changes: &[Change<'_>], _: Mode) -> Vec<Outcome> {
        for change in changes {
            converge(&mut self.names(), change);
            for entry in change.differences.iter().filter_map(|difference| difference.entry.as_ref()) {
                let rule: ResourceRef = entry.parse().unwrap();
                self.firewall.rules.lock().unwrap().remove(rule.title.as_str());
            }
        }
        changes.iter().map(|_| Outcome::done()).collect()
    }
}

impl Scheduling for KeptCalls {
    fn placement(&self, _: &Attributes) -> Placement {
        Placement::Inline
    }
}

impl Generate for KeptCalls {
    fn generate(&self, _: &Context<'_>, wanted: Wanted<'_>, is: &State) -> Result<Vec<ResourceRef>, ProviderError> {
        let purges = wanted.should.and_then(|should| should.get_bool("purge")) == Some(true);
        let rules = self.firewall.rules.lock().unwrap();
        let own = rules.iter().filter(|rule| rule.split(' ').next() == Some(is.name.as_str()));
        Ok(own.filter(|_| purges).map(|rule| ResourceRef::new("rule", rule.as_str())).collect())
    }
}

fn site(rules: &[&str]) -> (Site, Arc<Firewall>) {
    site_with(RULE, rules)
}

/// A chain and rules of a type of that definition.
fn site_with(rule: &str, rules: &[&str]) -> (Site, Arc<Firewall>) {
    let firewall = Arc::new(Firewall::default());
    firewall.chains.lock().unwrap().insert("input".into());
    firewall.rules.lock().unwrap().extend(rules.iter().map(|rule| (*rule).to_owned()));
    let kept = |definition, names| {
        Arc::new(KeptCalls { schema: defined(definition), firewall: Arc::clone(&firewall), names }) as Arc<dyn Provider>
    };
    let providers = [kept(CHAIN, |firewall| &firewall.chains), kept(rule, |firewall| &firewall.rules)];
    (Site::new(providers), firewall)
}

const MANIFEST: &str = "resources:\n  chain[input]: { purge: true }\n  rule[input ssh]: {}\n  rule[input dns]: {}\n";

/// Planned changes to entries inside resources.
fn entries(ran: &Ran) -> Vec<String> {
    let differences = ran.report.resources.iter().flat_map(|resource| &resource.differences);
    differences
        .filter_map(|difference| {
            let entry = difference.entry.as_ref()?;
            Some(format!("{entry}: {} → {}", difference.is.to_text()?, difference.should.to_text()?))
        })
        .collect()
}

#[test]
fn undeclared_generated_children_are_previewed_and_removed() {
    let (site, firewall) = site(&["input ssh", "input old", "input older", "output old"]);
    let strays = ["rule[input old]: present → absent", "rule[input older]: present → absent"];
    let plan = site.plan(MANIFEST);
    assert_eq!(entries(&plan), strays);
    assert_eq!(firewall.rules.lock().unwrap().len(), 4, "a plan changes nothing");

    assert_eq!(entries(&site.apply(MANIFEST)), strays);
    let left: Vec<String> = firewall.rules.lock().unwrap().iter().cloned().collect();
    assert_eq!(left, ["input dns", "input ssh", "output old"]);
    assert_eq!(site.apply(MANIFEST).in_sync(), 3);
}

#[test]
fn undeclared_generated_children_stay_by_default() {
    let (site, firewall) = site(&["input old"]);
    let applied = site.apply("resources:\n  chain[input]: {}\n");
    assert_eq!(applied.in_sync(), 1);
    assert_eq!(firewall.rules.lock().unwrap().len(), 1);
}

const PAIR: &str = r"
name: rule
desc: A rule of a chain.
attributes:
  ensure: { type: 'Enum[present, absent]', desc: Whether it is there., default: present }
  chain: { type: String, desc: Its chain., behaviour: namevar }
  rule: { type: String, desc: What it is called there., behaviour: namevar }
title_patterns:
  - { pattern: '\A(?<chain>\w+) (?<rule>\w+)\z', desc: 'Chain and rule, with a space between.' }
  - { pattern: '\A(?<rule>\w+)\z', desc: A rule whose chain is an attribute. }
";

#[test]
fn a_generated_child_with_several_namevars_is_named_by_a_title_of_its_type() {
    let (site, _) = site_with(PAIR, &["input ssh", "input dns", "input old"]);
    let manifest =
        "resources:\n  chain[input]: { purge: true }\n  rule[input ssh]: {}\n  rule[dns]: { chain: input }\n";
    assert_eq!(entries(&site.plan(manifest)), ["rule[input old]: present → absent"]);
}
