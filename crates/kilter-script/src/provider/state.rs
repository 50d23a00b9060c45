//! Converts records of a script to states.

use std::sync::Arc;

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, State, Value};
use kilter_provider::{Context, Level, Redactor, Strictness, Wanted};

use super::ScriptProvider;
use super::call::AnsweredCall;
use super::error::circumstances;
use crate::coerce::typed;
use crate::convention::{ErrorKind, Record, beginning};
use crate::metadata::tells_presence;

/// Maximum number of invalid values reported per resource.
const MAX_REPORTED_VALUES: usize = 3;

/// A record with its call.
pub(super) struct DecodedState {
    pub(super) record: Record,
    pub(super) by: Arc<AnsweredCall>,
}

/// Oddities of an answer as a whole, each reported once.
#[derive(Default)]
pub(super) struct Anomaly {
    /// Undeclared attributes, each with a resource that has it.
    undeclared: Vec<(EcoString, EcoString)>,
    /// Attributes written more than once, each with a resource.
    repeated: Vec<(EcoString, EcoString)>,
    /// Resources listed more than once.
    doubles: Vec<EcoString>,
}

impl ScriptProvider {
    /// Converts a listed resource. A value outside of its type is omitted with a warning, so that it does not
    /// affect other resources.
    pub(super) fn listed(&self, cx: &Context<'_>, record: Record, by: &AnsweredCall, odd: &mut Anomaly) -> State {
        let is_double = record.is_double;
        let (name, (attributes, outputs, wrong)) = (record.name.clone(), self.attributes(record, odd, &|_| false));
        if is_double && cx.strictness() == Strictness::Error {
            let why = self.message_of(&name, "it is listed more than once", by);
            return State { unreadable: Some(why), ..State::present(name, attributes) };
        }
        let wrong = sealed(wrong, &by.seal);
        if cx.strictness() == Strictness::Error && !wrong.is_empty() {
            return State { unreadable: Some(self.wrong(&name, &wrong, by)), ..State::present(name, attributes) };
        }
        if !wrong.is_empty() {
            // The log line contains the resource.
            let (provider, convention) = (&self.metadata.name, self.metadata.convention);
            let message = eco_format!(
                "the provider `{provider}` ({convention}, {}) returned a value that is not of its type: {}; kilter \
                 omits it",
                self.path.display(),
                wrong.join("; ")
            );
            cx.log(Level::Warning, self.metadata.schema.name.as_str(), &beginning(&name, 80), &message);
        }
        // Without a `find` action, comparisons also use the list.
        match self.metadata.actions.find {
            true => State { outputs, ..state(name, attributes) },
            false => State { outputs, ..state(name, self.with_presence(attributes)) },
        }
    }

    /// Converts a requested resource.
    pub(super) fn found(&self, cx: &Context<'_>, wanted: &Wanted<'_>, told: DecodedState, odd: &mut Anomaly) -> State {
        let DecodedState { record, by } = told;
        let name = wanted.name.clone();
        if let Some(error) = &record.error {
            let unreadable = match error.kind {
                ErrorKind::Unknown if !is_missed(cx, wanted) => {
                    return State { is_unknown: true, ..State::absent(name) };
                }
                _ => self.message_of(&name, &by.seal.redact(error.message.clone()), &by),
            };
            return State { unreadable: Some(unreadable), ..State::absent(name) };
        }
        // A value outside of its type counts as a difference to repair if another value is declared.
        let is_declared = |name: &str| wanted.should.and_then(|should| should.get(name)).is_some_and(|v| !v.is_undef());
        let is_repairable = |name: &str| cx.strictness() != Strictness::Error && is_declared(name);
        let (attributes, outputs, wrong) = self.attributes(record, odd, &is_repairable);
        let wrong = sealed(wrong, &by.seal);
        match wrong.is_empty() {
            true => State { outputs, ..self.compared(name, attributes, wanted.should) },
            false => State { unreadable: Some(self.wrong(&name, &wrong, &by)), ..State::absent(name) },
        }
    }

    /// Returns a state for comparison. A reported resource exists unless `ensure` says otherwise. If `ensure`
    /// only means presence, it is added.
    fn compared(&self, name: EcoString, attributes: Attributes, should: Option<&Attributes>) -> State {
        let is_asked = should.is_some_and(|should| should.get("ensure").is_some());
        state(name, if is_asked { self.with_presence(attributes) } else { attributes })
    }

    fn with_presence(&self, mut attributes: Attributes) -> Attributes {
        let is_told = attributes.get("ensure").is_some();
        if !is_told && self.metadata.schema.find("ensure").is_some_and(tells_presence) {
            attributes.push("ensure", Value::from("present"));
        }
        attributes
    }

    /// Returns the declared attributes and outputs of a record, and the faults of omitted values. A value
    /// outside of its type stays unchanged if its attribute `is_repairable`.
    fn attributes(
        &self,
        record: Record,
        odd: &mut Anomaly,
        is_repairable: &dyn Fn(&str) -> bool,
    ) -> (Attributes, Attributes, Vec<EcoString>) {
        let Record { name: of, mut attributes, repeated, is_double, error: _ } = record;
        if is_double {
            odd.doubles.push(beginning(&of, 80));
        }
        let schema = &self.metadata.schema;
        let (mut next, mut wrong, mut outputs) = (0, Vec::new(), Attributes::new());
        attributes.retain_mut(|name, value| {
            let Some(at) = schema.place_of(name, &mut next) else {
                match self.metadata.sent(name.as_str(), value) {
                    Some(Ok(Some(sent))) => outputs.set(name.clone(), sent),
                    Some(Ok(None)) => {}
                    Some(Err(why)) => wrong.push(eco_format!("{name} {}", beginning(&why, 200))),
                    None => remember(&mut odd.undeclared, name.text(), &of),
                }
                return false;
            };
            let data_type = &schema.attributes[at].data_type;
            if data_type.is_plainly(value) {
                return true;
            }
            match typed(data_type, value) {
                Ok(Some(typed)) => *value = typed,
                Ok(None) => return false,
                Err(_) if is_repairable(name.as_str()) => {
                    if data_type.may_hold_secrets() {
                        *value = Value::sensitive(std::mem::take(value));
                    }
                }
                Err(why) => {
                    wrong.push(eco_format!("{name} {}", beginning(&why, 200)));
                    return false;
                }
            }
            true
        });
        for name in &repeated {
            remember(&mut odd.repeated, name, &of);
        }
        (attributes, outputs, wrong)
    }

    fn wrong(&self, name: &str, wrong: &[EcoString], by: &AnsweredCall) -> EcoString {
        let shown = wrong[..wrong.len().min(MAX_REPORTED_VALUES)].join("; ");
        let more = wrong.len().saturating_sub(MAX_REPORTED_VALUES);
        let more = if more > 0 { eco_format!("; and {more} more") } else { EcoString::new() };
        self.message_of(name, &eco_format!("it returned a value that is not of its type: {shown}{more}"), by)
    }

    /// Returns the message about a resource in an answer.
    pub(super) fn message_of(&self, name: &str, message: &str, by: &AnsweredCall) -> EcoString {
        let (type_name, convention) = (&self.metadata.schema.name, self.metadata.convention);
        eco_format!(
            "{} of {type_name}[{}] by the provider `{}` ({convention}, {}): {message}{}",
            by.action,
            beginning(name, 80),
            self.metadata.name,
            self.path.display(),
            circumstances(by.failed_status(), &by.last_words)
        )
    }

    /// Describes the call that made a change. Its exit status is left out if it succeeded.
    pub(super) fn made_by(&self, by: &AnsweredCall) -> EcoString {
        let mut text = eco_format!(
            "{} by the provider `{}`, {}, {}",
            by.action,
            self.metadata.name,
            self.metadata.convention,
            self.path.display()
        );
        let status = by.failed_status().map(|status| eco_format!(": {status}"));
        let last_words = Some(&by.last_words)
            .filter(|words| !words.is_empty())
            .map(|words| eco_format!("; last on its standard error: {words}"));
        status.into_iter().chain(last_words).for_each(|part| text.push_str(&part));
        text
    }

    /// Logs the oddities.
    pub(super) fn log_anomaly(&self, cx: &Context<'_>, odd: &Anomaly) {
        let type_name = self.metadata.schema.name.as_str();
        for (attribute, name) in &odd.undeclared {
            let message = eco_format!(
                "the provider `{}` returned the attribute `{attribute}`, which its metadata does not declare: it is \
                 passed over",
                self.metadata.name
            );
            cx.log(Level::Warning, type_name, name, &message);
        }
        if let Some(first) = odd.doubles.first() {
            let count = odd.doubles.len();
            let more = if count > 1 { eco_format!(" and {} others", count - 1) } else { EcoString::new() };
            let message = eco_format!("the provider `{}` listed `{first}`{more} more than once", self.metadata.name);
            cx.log(Level::Warning, type_name, "", &message);
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

fn sealed(texts: Vec<EcoString>, seal: &Redactor) -> Vec<EcoString> {
    texts.into_iter().map(|text| seal.redact(text)).collect()
}

/// Records an attribute if it is new.
fn remember(seen: &mut Vec<(EcoString, EcoString)>, attribute: &EcoString, name: &EcoString) {
    if seen.len() >= 20 {
        return;
    }
    let shown = beginning(attribute, 80);
    if !seen.iter().any(|(known, _)| *known == shown) {
        seen.push((shown, beginning(name, 80)));
    }
}

/// Returns true if a resource that cannot be created is an error: it should exist, and no earlier resource can
/// provide it.
fn is_missed(cx: &Context<'_>, wanted: &Wanted<'_>) -> bool {
    let is_wanted = wanted.should.is_some_and(|should| should.text("ensure") != Some("absent"));
    is_wanted && !(cx.is_noop() && cx.preview_context().may_change_before(wanted.name))
}

fn state(name: EcoString, attributes: Attributes) -> State {
    let is_absent = attributes.get("ensure").and_then(Value::as_str) == Some("absent");
    State { exists: !is_absent, ..State::present(name, attributes) }
}
