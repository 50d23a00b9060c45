//! Laws about sensitive values.

use kilter_model::{AttributeSchema, Behaviour, Change, DataType, Difference, Hash, Outcome, State, Value};

use crate::conformance::harness::{EarlyEnd, Harness, ProviderUnderTest, Trial, broken, not_applicable};
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
    let attributes: Vec<&AttributeSchema> = world.schema().attributes.iter().filter(is_meant).collect();
    let shows_changes = !attributes.is_empty() && shows_changes(&bench.world()?);
    for attribute in attributes {
        let name = attribute.name.as_str();
        let mut secrets: Vec<Secret> = Vec::new();
        for text in SECRETS {
            let values = sealed(&attribute.data_type, text).into_iter();
            secrets.extend(values.map(|value| Secret { text: text.to_owned(), value }));
        }
        secrets.extend(own_texts(&world.subject.specimens()[0], name));
        tried += secrets.len();
        SecretAttempts { bench, name, secrets: &secrets, shows_changes }.run()?;
    }
    match tried {
        0 => not_applicable("no attribute accepts texts"),
        _ => Ok(Some(format!("{tried} sealed values"))),
    }
}

/// Returns true if the creation of the first specimen changes the fingerprint of a sandbox.
fn shows_changes(world: &ProviderUnderTest) -> bool {
    let before = world.subject.fingerprint();
    let is_made = world.arrange_all(&world.subject.specimens()[..1]).is_ok();
    is_made && world.subject.fingerprint() != before
}

/// A sealed value, and the text that no message may contain.
struct Secret {
    text: String,
    value: Value,
}

/// Trials of all secrets of an attribute: a resource is created with a secret, changed to a declaration without it, and
/// changed back.
///
/// Most providers refuse most secrets, and a call can take seconds. So a secret that left no trace leaves its sandbox
/// to the next one, and a resource without the secret is created once for all of these.
struct SecretAttempts<'a> {
    bench: &'a Harness,
    name: &'a str,
    secrets: &'a [Secret],
    /// True if fingerprints show changes.
    shows_changes: bool,
}

impl SecretAttempts<'_> {
    fn run(&self) -> Result<(), EarlyEnd> {
        let mut world = self.bench.world()?;
        let mut before = world.subject.fingerprint();
        let mut refused: Vec<&Secret> = Vec::new();
        for secret in self.secrets {
            refused.push(secret);
            self.pass(&world, Some(secret), &refused)?;
            if self.is_unchanged(&world, &before) {
                continue;
            }
            self.pass(&world, None, &refused)?;
            self.pass(&world, Some(secret), &refused)?;
            refused.pop();
            world = self.bench.world()?;
            before = world.subject.fingerprint();
        }
        if refused.is_empty() {
            return Ok(());
        }
        self.pass(&world, None, &refused)?;
        if self.is_unchanged(&world, &before) {
            // Without the attribute nothing can be created, so a change would be another creation.
            return Ok(());
        }
        before = world.subject.fingerprint();
        for secret in &refused {
            self.pass(&world, Some(secret), &refused)?;
            if !self.is_unchanged(&world, &before) {
                self.pass(&world, None, &refused)?;
                world = self.bench.world()?;
                self.pass(&world, None, &refused)?;
                before = world.subject.fingerprint();
            }
        }
        Ok(())
    }

    fn is_unchanged(&self, world: &ProviderUnderTest, before: &str) -> bool {
        self.shows_changes && world.subject.fingerprint() == before
    }

    /// Declares a resource with a secret or without the attribute. Searches all messages for the secret, and for those
    /// that the provider got before.
    fn pass(&self, world: &ProviderUnderTest, secret: Option<&Secret>, earlier: &[&Secret]) -> Result<(), EarlyEnd> {
        let specimen = &world.subject.specimens()[0];
        let mut given = specimen.first().clone();
        match secret {
            Some(secret) => given.set(self.name, secret.value.clone()),
            None => drop(given.remove(self.name)),
        }
        let mut said = CollectedMessages::default();
        if let Err(EarlyEnd::Broken(why) | EarlyEnd::Untried(why)) = pass(world, specimen, &given, &mut said) {
            said.add("an error", why);
        }
        for line in world.lines.take() {
            said.add("the log", line);
        }
        for Secret { text, value } in secret.into_iter().chain(earlier.iter().copied()) {
            if let Some(leak) = said.0.iter().find(|said| said.contains(text)) {
                let leak = leak.replace(text, "<the secret>");
                return broken(format!("{} = {value}, found in {leak}", self.name));
            }
        }
        Ok(())
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
fn own_texts(specimen: &Sample, name: &str) -> Option<Secret> {
    let given = specimen.first().get(name)?;
    let text = given.as_str()?;
    let is_told_elsewhere =
        specimen.first().iter().any(|(other, value)| *other != name && value.to_string().contains(text));
    (text.len() >= TELLING && !is_told_elsewhere)
        .then(|| Secret { text: text.to_owned(), value: Value::sensitive(given.clone()) })
}

/// All messages about a resource.
#[derive(Default)]
struct CollectedMessages(Vec<String>);

impl CollectedMessages {
    fn add(&mut self, whence: &str, text: impl std::fmt::Display) {
        self.0.push(format!("{whence}: {text}"));
    }

    fn outcome(&mut self, outcome: &Outcome) {
        outcome.failure.iter().for_each(|failure| self.add("a failure", failure));
        outcome.notes.iter().for_each(|note| self.add("a note", note));
        outcome.outputs.iter().for_each(|(name, value)| self.add("an output", format!("{name}: {value}")));
    }

    fn difference(&mut self, difference: &Difference) {
        self.add("a difference", format!("{difference:?}"));
    }
}

/// Declares a resource, and records all messages.
fn pass(
    world: &ProviderUnderTest,
    specimen: &Sample,
    given: &kilter_model::Attributes,
    said: &mut CollectedMessages,
) -> Result<(), EarlyEnd> {
    let complete = world.complete(specimen, given).or_else(broken)?;
    let provider = world.provider();
    for problem in provider.validate(&complete.name, &complete.should, &[]) {
        said.add("a problem", problem);
    }
    // Values from other resources are not validated, so the trial continues.
    let one = world.canonical(complete).or_else(broken)?;
    let is = world.see(&one).unwrap_or_else(|why| {
        said.add("an error of get", why);
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
