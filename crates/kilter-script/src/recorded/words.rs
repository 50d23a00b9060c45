//! Keywords for endings, confinement and attempts in JSON.

use kilter_process::{Confined, Confinement, MissingFeature, Operation, Termination};
use serde_json::{Value as Json, json};

const ENDINGS: [(Termination, &str); 4] = [
    (Termination::Exited, "exited"),
    (Termination::Deadline, "deadline"),
    (Termination::Cancelled, "cancelled"),
    (Termination::OutputLimit, "flooded"),
];

const CONFINEMENTS: [(Confinement, &str); 3] = [
    (Confinement::None, "none"),
    (Confinement::ReadOnly, "read_only"),
    (Confinement::ReadOnlyAlone, "read_only_alone"),
];

const GAPS: [(MissingFeature, &str); 5] = [
    (MissingFeature::Truncation, "truncation"),
    (MissingFeature::Devices, "devices"),
    (MissingFeature::Signals, "signals"),
    (MissingFeature::Capabilities, "capabilities"),
    (MissingFeature::Calls, "calls"),
];

const OPERATIONS: [(Operation, &str); 13] = [
    (Operation::Write, "write"),
    (Operation::Make, "make"),
    (Operation::Remove, "remove"),
    (Operation::Rename, "rename"),
    (Operation::Mode, "mode"),
    (Operation::Owner, "owner"),
    (Operation::Times, "times"),
    (Operation::Attributes, "attributes"),
    (Operation::Mount, "mount"),
    (Operation::HostName, "host_name"),
    (Operation::Clock, "clock"),
    (Operation::Kernel, "kernel"),
    (Operation::Power, "power"),
];

fn word<T: Copy + PartialEq>(all: &[(T, &'static str)], of: T) -> &'static str {
    all.iter().find(|(one, _)| *one == of).map_or("", |(_, word)| word)
}

fn meant<T: Copy>(all: &[(T, &'static str)], word: &str) -> Option<T> {
    all.iter().find(|(_, known)| *known == word).map(|(one, _)| *one)
}

pub(super) fn ending(of: Termination) -> &'static str {
    word(&ENDINGS, of)
}

pub(super) fn to_ending(word: &str) -> Option<Termination> {
    meant(&ENDINGS, word)
}

pub(super) fn operation(of: Operation) -> &'static str {
    word(&OPERATIONS, of)
}

pub(super) fn to_operation(word: &str) -> Option<Operation> {
    meant(&OPERATIONS, word)
}

pub(super) fn confinement(of: Confinement) -> &'static str {
    word(&CONFINEMENTS, of)
}

pub(super) fn to_confinement(word: &str) -> Option<Confinement> {
    meant(&CONFINEMENTS, word)
}

pub(super) fn confined(of: &Confined) -> Json {
    match of {
        Confined::NotAsked => json!("not_asked"),
        Confined::Fully => json!("fully"),
        Confined::Partly { gaps } => json!({ "partly": gaps.iter().map(|gap| word(&GAPS, *gap)).collect::<Vec<_>>() }),
        Confined::No { why } => json!({ "no": why }),
    }
}

pub(super) fn to_confined(json: &Json) -> Option<Confined> {
    match json.as_str() {
        Some("not_asked") => return Some(Confined::NotAsked),
        Some("fully") => return Some(Confined::Fully),
        Some(_) => return None,
        None => {}
    }
    if let Some(why) = json.get("no") {
        return Some(Confined::No { why: why.as_str()?.to_owned() });
    }
    let gaps = json.get("partly")?.as_array()?.iter().map(|gap| meant(&GAPS, gap.as_str()?));
    Some(Confined::Partly { gaps: gaps.collect::<Option<_>>()? })
}
