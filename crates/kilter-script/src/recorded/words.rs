//! Keywords for endings, confinement and attempts in JSON.

use kilter_process::{Confined, Confinement, Deed, Ending, Gap};
use serde_json::{Value as Json, json};

const ENDINGS: [(Ending, &str); 4] = [
    (Ending::Exited, "exited"),
    (Ending::Deadline, "deadline"),
    (Ending::Cancelled, "cancelled"),
    (Ending::Flooded, "flooded"),
];

const CONFINEMENTS: [(Confinement, &str); 3] = [
    (Confinement::None, "none"),
    (Confinement::ReadOnly, "read_only"),
    (Confinement::ReadOnlyAlone, "read_only_alone"),
];

const GAPS: [(Gap, &str); 5] = [
    (Gap::Truncation, "truncation"),
    (Gap::Devices, "devices"),
    (Gap::Signals, "signals"),
    (Gap::Capabilities, "capabilities"),
    (Gap::Calls, "calls"),
];

const DEEDS: [(Deed, &str); 13] = [
    (Deed::Write, "write"),
    (Deed::Make, "make"),
    (Deed::Remove, "remove"),
    (Deed::Rename, "rename"),
    (Deed::Mode, "mode"),
    (Deed::Owner, "owner"),
    (Deed::Times, "times"),
    (Deed::Attributes, "attributes"),
    (Deed::Mount, "mount"),
    (Deed::HostName, "host_name"),
    (Deed::Clock, "clock"),
    (Deed::Kernel, "kernel"),
    (Deed::Power, "power"),
];

fn word<T: Copy + PartialEq>(all: &[(T, &'static str)], of: T) -> &'static str {
    all.iter().find(|(one, _)| *one == of).map_or("", |(_, word)| word)
}

fn meant<T: Copy>(all: &[(T, &'static str)], word: &str) -> Option<T> {
    all.iter().find(|(_, known)| *known == word).map(|(one, _)| *one)
}

pub(super) fn ending(of: Ending) -> &'static str {
    word(&ENDINGS, of)
}

pub(super) fn to_ending(word: &str) -> Option<Ending> {
    meant(&ENDINGS, word)
}

pub(super) fn deed(of: Deed) -> &'static str {
    word(&DEEDS, of)
}

pub(super) fn to_deed(word: &str) -> Option<Deed> {
    meant(&DEEDS, word)
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
