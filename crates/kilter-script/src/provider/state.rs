//! What a script wrote of a resource, as a state of its type.

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, State, Value};
use kilter_provider::{Context, Level, Strictness, Wanted};

use super::ScriptProvider;
use crate::convention::{ErrorKind, Record};
use crate::typed::typed;

/// What was odd in an answer as a whole, told once.
#[derive(Default)]
pub(super) struct Odd {
    /// Attributes that the metadata does not declare, and a resource that has each.
    undeclared: Vec<(EcoString, EcoString)>,
    /// Attributes that are written more than once in a resource.
    repeated: Vec<(EcoString, EcoString)>,
}

impl ScriptProvider {
    /// A resource of a list. A value that is none of its type is left out, with a warning: one odd
    /// resource does not hide all others.
    pub(super) fn listed(&self, cx: &Context<'_>, record: Record, odd: &mut Odd) -> State {
        let (name, (attributes, wrong)) = (record.name.clone(), self.attributes(record, odd));
        if cx.strictness() == Strictness::Error && !wrong.is_empty() {
            return State { unreadable: Some(self.wrong(&name, &wrong)), ..State::present(name, attributes) };
        }
        if !wrong.is_empty() {
            // The log says of which resource.
            let (provider, convention) = (&self.metadata.name, self.metadata.convention);
            let message = eco_format!(
                "the provider `{provider}` ({convention}, {}) returned what is not of its type: {}; it is left out",
                self.path.display(),
                wrong.join("; ")
            );
            cx.log(Level::Warning, self.metadata.schema.name.as_str(), &name, &message);
        }
        state(name, attributes)
    }

    /// A resource that was asked for.
    pub(super) fn found(&self, cx: &Context<'_>, wanted: &Wanted<'_>, record: Record, odd: &mut Odd) -> State {
        let name = wanted.name.clone();
        if let Some(error) = &record.error {
            let unreadable = match error.kind {
                ErrorKind::Unknown if !is_missed(cx, wanted) => return State::absent(name),
                _ => self.told(&name, &error.message),
            };
            return State { unreadable: Some(unreadable), ..State::absent(name) };
        }
        let (attributes, wrong) = self.attributes(record, odd);
        match wrong.is_empty() {
            true => state(name, attributes),
            false => State { unreadable: Some(self.wrong(&name, &wrong)), ..State::absent(name) },
        }
    }

    /// The declared attributes of a record, and what is wrong with those that are not here.
    fn attributes(&self, record: Record, odd: &mut Odd) -> (Attributes, Vec<EcoString>) {
        let mut attributes = Attributes::with_capacity(record.attributes.len());
        let mut wrong = Vec::new();
        for (name, raw) in record.attributes.iter() {
            let Some(attribute) = self.metadata.schema.find(name.as_str()) else {
                remember(&mut odd.undeclared, name.text(), &record.name);
                continue;
            };
            match typed(&attribute.data_type, raw) {
                Ok(Some(value)) => attributes.push(attribute.name.clone(), value),
                Ok(None) => {}
                Err(why) => wrong.push(eco_format!("{name} {why}")),
            }
        }
        for name in &record.repeated {
            remember(&mut odd.repeated, name, &record.name);
        }
        (attributes, wrong)
    }

    fn wrong(&self, name: &str, wrong: &[EcoString]) -> EcoString {
        self.told(name, &eco_format!("it returned what is not of its type: {}", wrong.join("; ")))
    }

    fn told(&self, name: &str, message: &str) -> EcoString {
        let (type_name, convention) = (&self.metadata.schema.name, self.metadata.convention);
        eco_format!(
            "{type_name}[{name}] by the provider `{}` ({convention}, {}): {message}",
            self.metadata.name,
            self.path.display()
        )
    }

    /// Tells what was odd.
    pub(super) fn tell(&self, cx: &Context<'_>, odd: &Odd) {
        let type_name = self.metadata.schema.name.as_str();
        for (attribute, name) in &odd.undeclared {
            let message = eco_format!(
                "the provider `{}` returned the attribute `{attribute}`, which its metadata does not declare: it is passed over",
                self.metadata.name
            );
            cx.log(Level::Warning, type_name, name, &message);
        }
        for (attribute, name) in &odd.repeated {
            let message = eco_format!(
                "the provider `{}` returned the attribute `{attribute}` more than once: the last value counts",
                self.metadata.name
            );
            cx.log(Level::Warning, type_name, name, &message);
        }
    }
}

/// Notes an attribute the first time that it is seen.
fn remember(seen: &mut Vec<(EcoString, EcoString)>, attribute: &EcoString, name: &EcoString) {
    if seen.len() < 20 && !seen.iter().any(|(known, _)| known == attribute) {
        seen.push((attribute.clone(), name.clone()));
    }
}

fn state(name: EcoString, attributes: Attributes) -> State {
    let is_absent = attributes.get("ensure").and_then(Value::as_str) == Some("absent");
    State { exists: !is_absent, ..State::present(name, attributes) }
}

/// Whether it matters that a resource cannot be created: it should be there, and nothing that comes first can
/// bring it.
fn is_missed(cx: &Context<'_>, wanted: &Wanted<'_>) -> bool {
    let is_wanted = wanted.should.is_some_and(|should| should.text("ensure") != Some("absent"));
    is_wanted && !(cx.only_looks() && cx.outlook().is_open_before(wanted.name))
}
