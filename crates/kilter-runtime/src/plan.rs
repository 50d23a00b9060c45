//! Plans: the steps of a dry run, and the differences on which each step was planned.
//!
//! The driver compares each resource with its step before it changes the resource. It refuses a resource that has
//! changed since the plan was made, and carries out every other step.

pub(crate) mod document;
pub mod integrity;
pub(crate) mod keys;
pub(crate) mod provenance;

use std::collections::VecDeque;

use ecow::{EcoString, eco_format};
use kilter_model::{Difference, ResourceRef, Value, to_canonical_json, to_canonical_json_clear};
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::{Map, Value as Json, json};

use crate::report::{ResourceReport, Status};
use crate::sealing::SealingKey;

/// Domain of the digests of sensitive values.
const PURPOSE: &[u8] = b"kilter plan 4 value";
/// Attributes of an entry that do not depend on the owner of its directory.
const ENTRY_ATTRIBUTES: [&str; 3] = ["ensure", "content", "target"];
/// Maximum number of characters of a value in a message.
const MAX_SHOWN_CHARS: usize = 80;

/// Comparison of the sensitive values of a plan.
#[derive(Debug)]
pub enum SecretDigests {
    /// By digests with the key of the state directory in which the plan was made.
    Keyed(Box<SealingKey>),
    /// Not possible: the plan was made with another key, so that a step with a sensitive value is always stale.
    Foreign,
    /// Not possible: a recording is replayed, which holds no secrets.
    Replayed,
}

/// Decides if the message of a provider about a difference is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Messages {
    Compared,
    Ignored,
}

/// Steps of a plan.
#[derive(Debug)]
pub struct Plan {
    steps: FxHashMap<ResourceRef, Step>,
    secrets: SecretDigests,
}

/// Step of one resource. A resource without a step was in sync.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) is_unknown: bool,
    /// True if the resource was to be refreshed, or to be started instead: the plan showed a refresh.
    pub(crate) is_refreshed: bool,
    differences: Vec<Json>,
    unplanned_changes: Vec<Json>,
    /// Unknown attributes; an empty name stands for the whole resource.
    unknown: Vec<String>,
    /// Digests of the state that the change reads and replaces; none if there is nothing to compare.
    basis: Option<Json>,
    /// The `ensure` that an unknown step found; none if the plan does not know it.
    found: Option<Json>,
}

impl Step {
    /// Returns true if the resource was to be changed.
    pub(crate) fn changes(&self) -> bool {
        !self.differences.is_empty()
    }

    /// Returns true if the resource was in sync, and only its refresh was unknown.
    pub(crate) fn is_refresh_unknown(&self) -> bool {
        self.is_unknown && !self.unknown.is_empty() && self.unknown.iter().all(|name| name == "refresh")
    }

    /// Returns true if an unknown step found the resource with this `ensure`.
    pub(crate) fn found(&self, ensure: &str) -> bool {
        self.is_unknown && self.found.as_ref().is_some_and(|found| *found == *ensure)
    }

    /// Returns true if the resource was to be created, and a package that comes before may create it first.
    pub(crate) fn may_be_brought(&self) -> bool {
        !self.is_unknown && self.unknown.iter().any(|name| name == "ensure")
    }

    /// Returns true if an unknown step found no such object.
    pub(crate) fn was_absent(&self) -> bool {
        self.found("absent") && !self.is_existence_unknown()
    }

    /// Returns true if the resource was in sync as absent, and a package that comes before may create it.
    pub(crate) fn may_be_removed(&self) -> bool {
        self.found("absent") && self.unknown == ["ensure"]
    }

    /// Returns the entries whose removal the step shows.
    pub(crate) fn removed_entries(&self) -> FxHashSet<&str> {
        let removals = self.differences.iter().filter(|one| one["should"] == *"absent");
        removals.filter_map(|one| one["entry"].as_str()).collect()
    }

    /// Returns true if the plan could not know the existence of the resource.
    pub(crate) fn is_existence_unknown(&self) -> bool {
        self.is_unknown
            && (self.unknown.is_empty() || self.unknown.iter().any(|name| name.is_empty() || name == "ensure"))
    }
}

impl Plan {
    /// Returns the steps of a dry run as JSON. Sensitive values become digests, keyed with `key`.
    pub fn steps(resources: &[ResourceReport], key: &SealingKey) -> Vec<Json> {
        let is_step =
            |one: &&ResourceReport| matches!(one.status, Status::WouldChange | Status::WouldRefresh | Status::Unknown);
        resources.iter().filter(is_step).map(|one| step(one, key)).collect()
    }

    /// Reads steps; none if they do not have the form of [`Plan::steps`].
    pub fn read(steps: &[Json], secrets: SecretDigests) -> Option<Plan> {
        let read = |json: &Json| {
            let list = |key: &str| json.get(key).and_then(Json::as_array).cloned().unwrap_or_default();
            let reference = json.get("resource")?.as_str()?.parse().ok()?;
            let name = |one: &Json| one["attribute"].as_str().unwrap_or_default().to_owned();
            let step = Step {
                is_unknown: json.get("status")?.as_str()? == Status::Unknown.word(),
                is_refreshed: json.get("refreshed_by").or_else(|| json.get("refresh_not_needed")).is_some(),
                differences: list("differences"),
                unplanned_changes: list("unplanned_changes"),
                unknown: list("unknown").iter().map(name).collect(),
                basis: json.get("basis").cloned(),
                found: json.get("found").cloned(),
            };
            Some((reference, step))
        };
        Some(Plan { steps: steps.iter().map(read).collect::<Option<_>>()?, secrets })
    }

    /// Returns the step of a resource.
    pub(crate) fn step(&self, reference: &ResourceRef) -> Option<&Step> {
        self.steps.get(reference)
    }

    /// Returns how a resource differs from the state that its step was planned on; none if it does not.
    pub(crate) fn drift(
        &self,
        reference: &ResourceRef,
        step: &Step,
        differences: &[Difference],
        unplanned_changes: &[Difference],
        basis: Option<&Value>,
    ) -> Option<EcoString> {
        let json = |all: &[Difference]| -> Vec<Json> {
            all.iter().map(|one| difference(one, |side, value| self.digest(reference, one, side, value))).collect()
        };
        // A basis is more exact than the message, which may contain times.
        let messages = if step.basis.is_some() && basis.is_some() { Messages::Ignored } else { Messages::Compared };
        let found = drift(step.differences.iter(), &json(differences), &self.secrets, messages);
        let unplanned =
            || drift(step.unplanned_changes.iter(), &json(unplanned_changes), &self.secrets, Messages::Compared);
        let found = found.or_else(unplanned);
        found.or_else(|| self.moved_basis(reference, step, basis?))
    }

    /// Returns how a resource differs from the known part of an unknown step; none if it does not.
    ///
    /// The step knows the existence, which is its `found`, and the differences of all attributes that are not unknown.
    /// Its `basis` has the digests of the data that it knows.
    /// Entries below a directory belong to its `content`. If only the owner of a directory is unknown, owner, mode and
    /// access list of its entries are unknown as well.
    pub(crate) fn known_drift(
        &self,
        reference: &ResourceRef,
        step: &Step,
        differences: &[Difference],
        basis: Option<&Value>,
    ) -> Option<EcoString> {
        let moved = || self.moved_basis(reference, step, basis?);
        let known = || step.found.as_ref().filter(|_| step.is_unknown && !step.is_existence_unknown());
        let Some(found) = known() else { return moved() };
        if *found == "absent" {
            let is_absent = |one: &Difference| {
                one.attribute == "ensure" && one.entry.is_none() && one.is.as_str() == Some("absent")
            };
            let why = "it was absent when the plan was made, and exists now";
            return if differences.iter().any(is_absent) { moved() } else { Some(why.into()) };
        }
        let is_unknown = |attribute: &str| step.unknown.iter().any(|unknown| unknown == attribute);
        let are_entries_known = !is_unknown("content");
        let is_known = |one: &&Difference| match one.entry {
            Some(_) => are_entries_known && ENTRY_ATTRIBUTES.contains(&one.attribute.as_str()),
            None => !is_unknown(one.attribute.as_str()),
        };
        let known = differences.iter().filter(is_known);
        let known: Vec<Json> =
            known.map(|one| difference(one, |side, value| self.digest(reference, one, side, value))).collect();
        let planned = step.differences.iter().filter(|one| are_entries_known || one.get("entry").is_none());
        drift(planned, &known, &self.secrets, Messages::Compared).or_else(moved)
    }

    /// Returns true if a planned creation may be carried out on an object that a package has brought.
    ///
    /// The step must read no source and remove or replace nothing. Each value must be the planned one, or follow from
    /// the declaration.
    pub(crate) fn permits_brought(&self, reference: &ResourceRef, step: &Step, differences: &[Difference]) -> bool {
        let is_unknown = |now: &Difference| step.unknown.iter().any(|unknown| unknown == now.attribute.as_str());
        let is_planned = |now: &Difference| {
            let then = step.differences.iter().find(|then| then["attribute"] == now.attribute.as_str());
            let Some(then) = then else { return !now.should.holds_sensitive() };
            if now.should.holds_sensitive() {
                return match &self.secrets {
                    SecretDigests::Replayed => true,
                    _ => then["should_digest"] == self.digest(reference, now, "should", &now.should),
                };
            }
            then.get("should") == Some(&to_canonical_json(&now.should))
        };
        let is_change = |now: &Difference| now.entry.is_none() && now.attribute != "ensure";
        let is_awaited = (step.was_absent() || step.may_be_brought()) && step.basis.is_none();
        is_awaited
            && step.unplanned_changes.is_empty()
            && differences.iter().all(|now| is_change(now) && (is_unknown(now) || is_planned(now)))
    }

    /// Compares the state that a change reads and replaces with the digests in the plan; describes a deviation.
    fn moved_basis(&self, reference: &ResourceRef, step: &Step, now: &Value) -> Option<EcoString> {
        let is_same = self.is_same_basis(reference, step.is_unknown, step.basis.as_ref()?, now);
        let why = "the content of its source, or the content that it replaces, has changed since the plan was made";
        (!is_same).then(|| why.into())
    }

    /// Returns true if the digests are the same. Of an unknown step, only the digests in both are compared.
    fn is_same_basis(&self, reference: &ResourceRef, is_unknown: bool, planned: &Json, now: &Value) -> bool {
        match (now, &self.secrets) {
            (Value::Hash(now), _) => {
                let Some(planned) = planned.as_object() else { return false };
                (is_unknown || planned.len() == now.len())
                    && now.iter().all(|(name, now)| match planned.get(name.as_str()) {
                        Some(planned) => self.is_same_basis(reference, is_unknown, planned, now),
                        None => is_unknown,
                    })
            }
            (now, _) if !now.holds_sensitive() => *planned == to_canonical_json(now),
            (_, SecretDigests::Replayed) => true,
            (_, SecretDigests::Foreign) => false,
            (now, SecretDigests::Keyed(key)) => *planned == digest_of_basis(key, reference, now).as_str(),
        }
    }

    fn digest(&self, reference: &ResourceRef, of: &Difference, side: &str, value: &Value) -> String {
        match &self.secrets {
            SecretDigests::Keyed(key) => digest(key, reference, of, side, value),
            SecretDigests::Foreign | SecretDigests::Replayed => String::new(),
        }
    }
}

fn step(report: &ResourceReport, key: &SealingKey) -> Json {
    let reference = &report.reference;
    let all = |differences: &[Difference]| -> Json {
        let json = |one: &Difference| difference(one, |side, value| digest(key, reference, one, side, value));
        differences.iter().map(json).collect()
    };
    let mut step = Map::new();
    step.insert("resource".into(), reference.to_string().into());
    step.insert("status".into(), report.status.word().into());
    if !report.differences.is_empty() {
        step.insert("differences".into(), all(&report.differences));
    }
    if !report.unplanned_changes.is_empty() {
        step.insert("unplanned_changes".into(), all(&report.unplanned_changes));
    }
    if let Some(basis) = &report.basis {
        step.insert("basis".into(), json_of_basis(key, reference, basis));
    }
    if let Some(found) = &report.found {
        step.insert("found".into(), to_canonical_json(found));
    }
    if !report.unknown.is_empty() {
        let unknown = report.unknown.iter().map(|(name, why)| json!({"attribute": &**name, "reason": &**why}));
        step.insert("unknown".into(), unknown.collect());
    }
    if let Some(cause) = &report.because_of {
        step.insert("because_of".into(), cause.to_string().into());
    }
    if report.refreshed {
        step.insert("refreshed_by".into(), report.refreshed_by.iter().map(ToString::to_string).collect());
    }
    if !report.refresh_not_needed.is_empty() {
        let by = report.refresh_not_needed.iter().map(ToString::to_string).collect();
        step.insert("refresh_not_needed".into(), by);
    }
    Json::Object(step)
}

/// Returns a difference as JSON, with the digests that `digest` returns for sensitive values.
fn difference(difference: &Difference, digest: impl Fn(&str, &Value) -> String) -> Json {
    let mut json = Map::new();
    json.insert("attribute".into(), difference.attribute.as_str().into());
    if let Some(entry) = &difference.entry {
        json.insert("entry".into(), entry.as_str().into());
    }
    for (side, value) in [("is", &difference.is), ("should", &difference.should)] {
        match value.holds_sensitive() {
            true => json.insert(format!("{side}_digest"), digest(side, value).into()),
            false => json.insert(side.into(), to_canonical_json(value)),
        };
    }
    if let Some(message) = &difference.message {
        json.insert("message".into(), message.as_str().into());
    }
    if let Some(diff) = &difference.diff {
        json.insert("diff".into(), diff.as_str().into());
    }
    Json::Object(json)
}

fn digest(key: &SealingKey, reference: &ResourceRef, of: &Difference, side: &str, value: &Value) -> String {
    let (reference, value) = (reference.to_string(), to_canonical_json_clear(value).to_string());
    let entry = of.entry.as_deref().unwrap_or_default();
    let parts = [&reference, of.attribute.as_str(), entry, side, &value].map(str::as_bytes);
    key.digest([PURPOSE].into_iter().chain(parts))
}

/// Returns the basis of a step as JSON, with digests of its sensitive values.
fn json_of_basis(key: &SealingKey, reference: &ResourceRef, basis: &Value) -> Json {
    match basis {
        Value::Hash(parts) => {
            let part = |(name, part): (&EcoString, &Value)| (name.to_string(), json_of_basis(key, reference, part));
            Json::Object(parts.iter().map(part).collect())
        }
        basis if basis.holds_sensitive() => digest_of_basis(key, reference, basis).into(),
        basis => to_canonical_json(basis),
    }
}

fn digest_of_basis(key: &SealingKey, reference: &ResourceRef, basis: &Value) -> String {
    let (reference, value) = (reference.to_string(), to_canonical_json_clear(basis).to_string());
    key.digest([PURPOSE, reference.as_bytes(), b"basis", value.as_bytes()])
}

/// Compares the differences found with the planned ones; describes a deviation. Diffs are only for readers, because
/// they follow from the values.
fn drift<'a>(
    planned: impl Iterator<Item = &'a Json>,
    found: &[Json],
    secrets: &SecretDigests,
    messages: Messages,
) -> Option<EcoString> {
    let name = |one: &Json| match one["entry"].as_str() {
        Some(entry) => format!("`{}` of {entry}", text(&one["attribute"])),
        None => format!("`{}`", text(&one["attribute"])),
    };
    // Another user can make many entries of a directory differ.
    let mut left: Vec<Option<&Json>> = planned.map(Some).collect();
    let mut places: FxHashMap<_, VecDeque<usize>> = FxHashMap::default();
    for (at, then) in left.iter().enumerate() {
        places.entry(then.map(place)).or_default().push_back(at);
    }
    let mut lines = Vec::new();
    for now in found {
        let at = places.get_mut(&Some(place(now))).and_then(VecDeque::pop_front);
        let Some(then) = at.and_then(|at| left[at].take()) else {
            lines.push(format!("{} {}", name(now), display(now, "differs now and did not when the plan was made")));
            continue;
        };
        if let Some(how) = changed(then, now, secrets, messages) {
            lines.push(format!("{} {how}", name(now)));
        }
    }
    let gone = |then: &&Json| match then.get("is") {
        Some(is) => format!("{} was {} when the plan was made, and needs no change now", name(then), value(Some(is))),
        None => format!("{} needs no change now", name(then)),
    };
    let lines: Vec<String> = left.iter().flatten().map(gone).chain(lines).collect();
    match lines.as_slice() {
        [] => None,
        [one] => Some(one.into()),
        [one, rest @ ..] => Some(eco_format!("{one}; and {} more", rest.len())),
    }
}

/// Returns the attribute and the entry of a difference.
fn place(difference: &Json) -> (&str, Option<&str>) {
    (text(&difference["attribute"]), difference["entry"].as_str())
}

/// Describes how a difference deviates from the planned one at the same place.
fn changed(then: &Json, now: &Json, secrets: &SecretDigests, messages: Messages) -> Option<String> {
    let differs = |key: &str| then.get(key) != now.get(key);
    if ["is_digest", "should_digest"].iter().any(|key| differs(key)) {
        match secrets {
            SecretDigests::Keyed(_) => {
                return Some("has another sensitive value than when the plan was made".to_owned());
            }
            SecretDigests::Foreign => {
                return Some("is sensitive, and only the machine where the plan was made can compare it".to_owned());
            }
            SecretDigests::Replayed => {}
        }
    }
    let is_told_otherwise = differs("message");
    if is_told_otherwise && (messages == Messages::Compared || differs("is") || differs("should")) {
        return Some(format!("was planned as “{}”, and is now “{}”", message(then), message(now)));
    }
    if differs("is") {
        return Some(format!("was {} when the plan was made, and is {}", value(then.get("is")), value(now.get("is"))));
    }
    if differs("should") {
        let (then, now) = (value(then.get("should")), value(now.get("should")));
        return Some(format!("was planned to become {then}, and would become {now}"));
    }
    None
}

/// Returns the text of a difference in a report.
fn message(difference: &Json) -> String {
    match difference.get("message") {
        Some(message) => value(Some(message)),
        None => format!("{} → {}", value(difference.get("is")), value(difference.get("should"))),
    }
}

fn display(difference: &Json, otherwise: &str) -> String {
    let is_shown =
        difference.get("message").is_some() || difference.get("is").is_some() && difference.get("should").is_some();
    if is_shown { format!("{otherwise}: {}", message(difference)) } else { otherwise.to_owned() }
}

fn text(json: &Json) -> &str {
    json.as_str().unwrap_or_default()
}

/// Returns a value on one line, cut if it is long.
fn value(json: Option<&Json>) -> String {
    let text = match json {
        None | Some(Json::Null) => return "(none)".to_owned(),
        Some(Json::String(text)) => text.replace('\n', "\\n"),
        Some(other) => other.to_string(),
    };
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text,
    }
}

#[cfg(test)]
mod tests;
