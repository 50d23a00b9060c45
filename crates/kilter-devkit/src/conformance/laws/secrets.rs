//! Laws about sensitive values.

use kilter_model::{AttributeSchema, Behaviour, Change, DataType, Difference, Hash, Outcome, State, Value};

use crate::conformance::bench::{Harness, Stop, Trial, World, broken, not_applicable};
use crate::conformance::specimen::Sample;
use kilter_provider::Mode;
use kilter_provider::compare;

/// Test secrets, in forms that pass the validation of most providers.
const SECRETS: [&str; 3] = ["kilter-secret-1", "/kilter-secret-1", "kilter secret\n1"];

/// Minimum length of a text of a specimen that is used as a secret, in bytes.
const TELLING: usize = 8;

pub(super) fn stay_secret(bench: &Harness) -> Trial {
    let world = bench.world()?;
    let mut tried = 0;
    let is_meant = |attribute: &&AttributeSchema| {
        !matches!(attribute.behaviour, Behaviour::Namevar | Behaviour::ReadOnly) && attribute.name != "ensure"
    };
    for attribute in world.schema().attributes.iter().filter(is_meant) {
        let name = attribute.name.as_str();
        let mut values: Vec<(String, Value)> = Vec::new();
        for secret in SECRETS {
            values.extend(sealed(&attribute.data_type, secret).into_iter().map(|value| (secret.to_owned(), value)));
        }
        values.extend(own_texts(&world.subject.specimens()[0], name));
        for (secret, value) in values {
            tried += 1;
            let mut said = Said::default();
            put_through(&bench.world()?, name, &value, &mut said);
            if let Some(leak) = said.0.iter().find(|said| said.contains(&secret)) {
                let leak = leak.replace(&secret, "<the secret>");
                return broken(format!("{name} = {value}, found in {leak}"));
            }
        }
    }
    match tried {
        0 => not_applicable("no attribute accepts texts"),
        _ => Ok(Some(format!("{tried} sealed values"))),
    }
}

/// Returns a secret in all forms that a type accepts.
fn sealed(data_type: &DataType, secret: &str) -> Vec<Value> {
    let one = || Value::sensitive(secret.into());
    let mut entries = Hash::default();
    entries.insert("KEY".into(), one());
    let forms = [one(), Value::array([one()]), Value::sensitive(Value::strings([secret])), Value::hash(entries)];
    forms.into_iter().filter(|value| data_type.check(value).is_ok()).collect()
}

/// Returns the first specimen's value of an attribute as a secret, if no other attribute contains the same
/// text.
fn own_texts(specimen: &Sample, name: &str) -> Option<(String, Value)> {
    let given = specimen.first().get(name)?;
    let text = given.as_str()?;
    let is_told_elsewhere =
        specimen.first().iter().any(|(other, value)| *other != name && value.to_string().contains(text));
    (text.len() >= TELLING && !is_told_elsewhere).then(|| (text.to_owned(), Value::sensitive(given.clone())))
}

/// All messages about a resource.
#[derive(Default)]
struct Said(Vec<String>);

impl Said {
    fn hear(&mut self, whence: &str, text: impl std::fmt::Display) {
        self.0.push(format!("{whence}: {text}"));
    }

    fn outcome(&mut self, outcome: &Outcome) {
        outcome.failure.iter().for_each(|failure| self.hear("a failure", failure));
        outcome.notes.iter().for_each(|note| self.hear("a note", note));
        outcome.outputs.iter().for_each(|(name, value)| self.hear("an output", format!("{name}: {value}")));
    }

    fn difference(&mut self, difference: &Difference) {
        self.hear("a difference", format!("{difference:?}"));
    }
}

/// Creates, changes and removes a resource, and records all messages.
fn put_through(world: &World, name: &str, value: &Value, said: &mut Said) {
    let specimen = &world.subject.specimens()[0];
    let (mut first, mut bare) = (specimen.first().clone(), specimen.first().clone());
    first.set(name, value.clone());
    bare.remove(name);
    for given in [&first, &bare, &first] {
        if let Err(Stop::Broken(why) | Stop::Untried(why)) = pass(world, specimen, given, said) {
            said.hear("an error", why);
        }
    }
    for line in world.lines.take() {
        said.hear("the log", line);
    }
}

fn pass(world: &World, specimen: &Sample, given: &kilter_model::Attributes, said: &mut Said) -> Result<(), Stop> {
    let complete = world.complete(specimen, given).or_else(broken)?;
    let provider = world.provider();
    for problem in provider.validate(&complete.name, &complete.should, &[]) {
        said.hear("a problem", problem);
    }
    // Values from other resources are not validated, so the trial continues.
    let one = world.canonical(complete).or_else(broken)?;
    let is = world.see(&one).unwrap_or_else(|why| {
        said.hear("an error of get", why);
        State::absent(one.name.clone())
    });
    let differences =
        compare(provider, &world.cx(), &is, &one.should).or_else(|error| broken(error.message.to_string()))?;
    differences.iter().for_each(|difference| said.difference(difference));
    let change = Change {
        name: &one.name,
        is: &is,
        should: Some(&one.should),
        differences: &differences,
        refresh: true,
        received: &[],
    };
    if provider.schema().has(kilter_model::Feature::SupportsNoop) {
        world.set(&[change], Mode::Preview).iter().for_each(|outcome| said.outcome(outcome));
    }
    world.set(&[change], Mode::Apply).iter().for_each(|outcome| said.outcome(outcome));
    if let Some(refresh) = provider.capabilities().refresh {
        said.outcome(&refresh.refresh(&world.cx(), one.wanted()));
    }
    Ok(())
}
