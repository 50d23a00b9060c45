//! Changes resources through a script.

use ecow::{EcoString, eco_format};
use kilter_model::{AttributeName, Attributes, Behaviour, Change, Difference, Outcome, Value};
use kilter_provider::{Context, Level, Mode, Redactor, Wanted};
use rustc_hash::FxHashSet;

use super::ScriptProvider;
use super::call::AnsweredCall;
use crate::coerce::typed;
use crate::convention::{AttributeChange, ChangeReport, Reply, Request, Update, beginning};

impl ScriptProvider {
    /// Makes the changes, or previews them if the script supports previews.
    pub(super) fn change(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        if let Some(why) = self.metadata.only_reads() {
            return changes.iter().map(|_| Outcome::failed(why.clone())).collect();
        }
        if mode == Mode::Preview && !self.metadata.noop_safe {
            return changes.iter().map(|_| Outcome::done()).collect();
        }
        let asked: Vec<UpdateInput> = changes.iter().map(|change| self.asked(change)).collect();
        let outcomes: Vec<Outcome> = match self.takes_many() {
            true => self.change_all(cx, changes, &asked, mode),
            false => {
                let pairs = changes.iter().zip(&asked);
                pairs.map(|(change, asked)| self.change_one(cx, change, asked, mode)).collect()
            }
        };
        // A failure message may apply to several resources of a call and contain their secrets.
        let should = asked.iter().map(|asked| &asked.should);
        let seal = Redactor::of_all(should.chain(changes.iter().map(|change| &change.is.attributes)));
        outcomes.into_iter().map(|outcome| seal.outcome(outcome)).collect()
    }

    fn change_one(&self, cx: &Context<'_>, change: &Change<'_>, asked: &UpdateInput, mode: Mode) -> Outcome {
        if !asked.differs {
            return Outcome::done();
        }
        if cx.interrupt().is_raised() {
            return Outcome::failed("not started: the run was interrupted");
        }
        match self.call(cx, &Request::Update(&[update(change, asked)], mode)) {
            Ok((Reply::Changed(report), by)) => self.outcome(change, asked, (&report, &by), mode),
            Ok(_) => Outcome::done(),
            Err(error) => error.outcome(),
        }
    }

    /// Makes all changes in a single call.
    fn change_all(&self, cx: &Context<'_>, changes: &[Change<'_>], asked: &[UpdateInput], mode: Mode) -> Vec<Outcome> {
        let differing = || changes.iter().zip(asked).filter(|(_, asked)| asked.differs);
        let updates: Vec<Update<'_>> = differing().map(|(change, asked)| update(change, asked)).collect();
        if updates.is_empty() {
            return changes.iter().map(|_| Outcome::done()).collect();
        }
        if cx.interrupt().is_raised() {
            return changes.iter().map(|_| Outcome::failed("not started: the run was interrupted")).collect();
        }
        let reply = self.call(cx, &Request::Update(&updates, mode)).map_err(|error| error.outcome());
        if let Ok((Reply::Changed(report), _)) = &reply {
            self.tell_of_others(cx, report, &updates);
        }
        let outcome = |(change, asked): (&Change<'_>, &UpdateInput)| match &reply {
            _ if !asked.differs => Outcome::done(),
            Ok((Reply::Changed(report), by)) => self.outcome(change, asked, (report, by), mode),
            Ok(_) => Outcome::done(),
            Err(failed) => failed.clone(),
        };
        changes.iter().zip(asked).map(outcome).collect()
    }

    /// Warns about reported changes of resources that were not in the call.
    fn tell_of_others(&self, cx: &Context<'_>, report: &ChangeReport, updates: &[Update<'_>]) {
        let asked: FxHashSet<&str> = updates.iter().map(|update| update.name).collect();
        let others: Vec<&EcoString> = report.told.iter().filter(|name| !asked.contains(name.as_str())).collect();
        if let Some(first) = others.first() {
            let message = eco_format!(
                "the provider `{}` reported {} that it was not asked to change, `{}` first; kilter ignores that",
                self.metadata.name,
                if others.len() == 1 { "a resource".into() } else { eco_format!("{} resources", others.len()) },
                beginning(first, 80)
            );
            cx.log(Level::Warning, self.metadata.schema.name.as_str(), "", &message);
        }
    }

    /// Returns the input of the script for a change: the differing attributes and all parameters.
    fn asked(&self, change: &Change<'_>) -> UpdateInput {
        let mut asked = UpdateInput::default();
        let none = Attributes::new();
        let wanted = change.should.unwrap_or(&none);
        let is_removal = change.should.is_none() || wanted.text("ensure") == Some("absent");
        if change.should.is_none() {
            asked.should.set("ensure", "absent");
            asked.differs = true;
        }
        for (name, value) in wanted.iter().filter(|(_, value)| !value.is_undef()) {
            let Some(attribute) = self.metadata.schema.find(name.as_str()) else { continue };
            let differs = match attribute.behaviour {
                Behaviour::Parameter => {
                    asked.should.set(name.clone(), value.clone());
                    continue;
                }
                Behaviour::Namevar | Behaviour::ReadOnly => false,
                Behaviour::Property | Behaviour::InitOnly if is_removal && *name != "ensure" => false,
                Behaviour::Property | Behaviour::InitOnly => {
                    !attribute.comparison.holds(found(change, name.as_str()).unwrap_or(&Value::Undef), value)
                }
            };
            if differs || self.metadata.identifying.iter().any(|identifying| *name == **identifying) {
                asked.should.set(name.clone(), value.clone());
            }
            asked.differs |= differs;
        }
        asked
    }

    /// Returns the outcome of a change according to the report of the script.
    fn outcome(
        &self,
        change: &Change<'_>,
        asked: &UpdateInput,
        (report, by): (&ChangeReport, &AnsweredCall),
        mode: Mode,
    ) -> Outcome {
        if let Some((_, error)) = report.errors.iter().find(|(name, _)| name == change.name) {
            return Outcome::failed(self.message_of(change.name, &by.seal.redact(error.message.clone()), by));
        }
        let told = report.changes.iter().filter(|told| told.name == *change.name);
        let mut changed: Vec<Difference> = told.map(|told| self.difference(told)).collect();
        let derives = report.derive && (!self.takes_many() || !report.told.contains(change.name));
        if derives && !is_gone(&changed) {
            for (name, value) in self.properties(asked) {
                if !tells(&changed, name) {
                    let is = found(change, name.as_str()).cloned().unwrap_or_default();
                    changed.push(Difference::new(name.clone(), is, value.clone()));
                }
            }
        }
        let notes = match mode {
            Mode::Preview => self.foretold(change, asked, &mut changed),
            Mode::Apply => Vec::new(),
        };
        for difference in &mut changed {
            let is_secret = |value: &Value| value.holds_sensitive() && !difference.should.holds_sensitive();
            if asked.should.get(difference.attribute.as_str()).is_some_and(is_secret) {
                difference.is = Value::sensitive(std::mem::take(&mut difference.is));
                difference.should = Value::sensitive(std::mem::take(&mut difference.should));
            }
        }
        let changed = changed.into_iter().map(|each| by.seal.redact_difference(each)).collect();
        Outcome { changed, notes, by: self.made_by(by), ..Outcome::done() }
    }

    /// Refreshes a resource. The script receives all declared attributes.
    pub(super) fn act_on_refresh(&self, cx: &Context<'_>, wanted: &Wanted<'_>) -> Outcome {
        if cx.interrupt().is_raised() {
            return Outcome::failed("not started: the run was interrupted");
        }
        let none = Attributes::new();
        let should = wanted.should.unwrap_or(&none);
        let request = Update { name: wanted.name, is: None, should, received: wanted.received };
        let outcome = match self.call(cx, &Request::Refresh(&request)) {
            Ok((Reply::Changed(report), by)) => match report.errors.iter().find(|(name, _)| name == wanted.name) {
                Some((_, error)) => {
                    Outcome::failed(self.message_of(wanted.name, &by.seal.redact(error.message.clone()), &by))
                }
                None => Outcome { refreshed: true, by: self.made_by(&by), ..Outcome::done() },
            },
            Ok(_) => Outcome { refreshed: true, ..Outcome::done() },
            Err(error) => error.outcome(),
        };
        Redactor::of(should).outcome(outcome)
    }

    /// Completes the changes of a preview with the current values. Returns notes about requested changes that
    /// the preview does not mention.
    fn foretold(&self, change: &Change<'_>, asked: &UpdateInput, told: &mut [Difference]) -> Vec<EcoString> {
        for difference in told.iter_mut().filter(|difference| difference.is.is_undef()) {
            difference.is = found(change, difference.attribute.as_str()).cloned().unwrap_or_default();
        }
        if told.is_empty() {
            return vec![eco_format!("the provider `{}` reports that it would change nothing", self.metadata.name)];
        }
        let untold = self.properties(asked).filter(|(name, _)| !tells(told, name) && !is_gone(told));
        let untold: Vec<String> = untold.map(|(name, _)| format!("`{name}`")).collect();
        let note = || {
            eco_format!(
                "the provider `{}` does not report that it would change {}",
                self.metadata.name,
                untold.join(", ")
            )
        };
        (!untold.is_empty()).then(note).into_iter().collect()
    }

    /// Returns the requested changes without parameters.
    fn properties<'a>(&'a self, asked: &'a UpdateInput) -> impl Iterator<Item = (&'a AttributeName, &'a Value)> {
        let is_parameter =
            |name: &str| self.metadata.schema.find(name).is_some_and(|known| !known.behaviour.is_compared());
        asked.should.iter().filter(move |(name, _)| !is_parameter(name.as_str()))
    }

    /// Converts a reported change. Values are converted to their type if possible.
    fn difference(&self, told: &AttributeChange) -> Difference {
        let of_type = |raw: &Value| -> Value {
            let attribute = self.metadata.schema.find(&told.attribute);
            let typed = attribute.and_then(|attribute| typed(&attribute.data_type, raw).ok());
            let is_secret = attribute.is_some_and(|attribute| attribute.data_type.may_hold_secrets());
            let as_told = || if is_secret { Value::sensitive(raw.clone()) } else { raw.clone() };
            typed.map_or_else(as_told, Option::unwrap_or_default)
        };
        Difference::new(EcoString::clone(&told.attribute), of_type(&told.was), of_type(&told.is))
    }
}

/// Returns true if the report says that the resource was removed. No other attributes matter then.
fn is_gone(told: &[Difference]) -> bool {
    let is_absent = |value: &Value| value.unwrap_sensitive().as_str() == Some("absent");
    told.iter().any(|one| one.attribute == *"ensure" && is_absent(&one.should))
}

fn tells(told: &[Difference], name: &AttributeName) -> bool {
    told.iter().any(|one| one.attribute == *name)
}

/// Returns the current value of an attribute. A missing `ensure` means absent.
fn found<'a>(change: &'a Change<'_>, name: &str) -> Option<&'a Value> {
    static ABSENT: Value = Value::String(EcoString::inline("absent"));
    let found = change.is.attributes.get(name);
    found.or_else(|| (name == "ensure").then_some(&ABSENT))
}

/// Input of the script for a change.
#[derive(Default)]
struct UpdateInput {
    should: Attributes,
    /// True if a change is necessary.
    differs: bool,
}

fn update<'a>(change: &'a Change<'_>, asked: &'a UpdateInput) -> Update<'a> {
    let is = change.is.exists.then_some(&change.is.attributes);
    let is = is.or_else(|| (!change.is.attributes.is_empty()).then_some(&change.is.attributes));
    Update { name: change.name, is, should: &asked.should, received: change.received }
}
