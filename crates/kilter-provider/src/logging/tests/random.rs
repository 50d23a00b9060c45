//! Properties that hold for any order of log calls.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Call {
    Say(&'static str),
    SayHere,
    Changed(&'static str),
    Ended(&'static str, bool),
    Open(Vec<&'static str>),
    Close(Result<(), Failure>),
}

const TITLES: [&str; 4] = ["a", "b", "c", "outside"];

fn title() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&TITLES[..])
}

fn call() -> impl Strategy<Value = Call> {
    let result = prop_oneof![
        6 => Just(Ok(())),
        2 => Just(Err(Failure::new("plain"))),
        1 => Just(Err(Failure::fatal("fatal"))),
    ];
    prop_oneof![
        title().prop_map(Call::Say),
        Just(Call::SayHere),
        title().prop_map(Call::Changed),
        (title(), any::<bool>()).prop_map(|(title, well)| Call::Ended(title, well)),
        prop::collection::vec(title(), 0..3).prop_map(Call::Open),
        result.prop_map(Call::Close),
    ]
}

fn make(log: &mut ChangeLog<'_>, call: &Call) {
    match call {
        Call::Say(title) => log.info_for(title, "…"),
        Call::SayHere => log.info_for(InScope, "…"),
        Call::Changed(title) => log.attribute_changed(title, "trust", 1.into(), 2.into(), None),
        Call::Ended(title, true) => log.updated(title, None),
        Call::Ended(title, false) => log.failed(title, "plain"),
        Call::Open(titles) => {
            log.open(Action::Updating, titles, None);
        }
        Call::Close(result) => {
            log.close(result.clone());
        }
    }
}

/// Model of a `set`, derived from its events alone.
#[derive(Default)]
struct RandomReader {
    open: BTreeSet<String>,
    ended: BTreeMap<String, bool>,
    changed: BTreeMap<String, usize>,
    misused: bool,
    fatal: bool,
    strayed: bool,
}

impl RandomReader {
    fn read(&mut self, event: &serde_json::Value) {
        let kind = event["event"].as_str().unwrap();
        self.fatal |= event["fatal"] == true;
        self.misused |= kind == "misuse";
        let titles: Vec<String> =
            event["titles"].as_array().unwrap().iter().map(|title| title.as_str().unwrap().to_owned()).collect();
        self.strayed |= kind == "failed" && titles.is_empty();
        for title in titles.into_iter().filter(|_| kind != "misuse") {
            assert_ne!(title, "outside", "{event}");
            let is_failure_again = kind == "failed" && self.ended.get(&title) == Some(&false);
            assert!(!self.ended.contains_key(&title) || is_failure_again, "said after the final status: {event}");
            match kind {
                "started" => assert!(self.open.insert(title), "opened twice: {event}"),
                "finished" | "failed" => {
                    assert!(self.open.remove(&title), "closed without being open: {event}");
                    self.ended.entry(title).or_insert(kind == "finished");
                }
                "ended" => {
                    let well = event["status"] != "failed";
                    assert!(!well || !self.open.contains(&title), "a status inside of the block: {event}");
                    self.ended.insert(title, well);
                }
                "attribute_changed" => *self.changed.entry(title).or_default() += 1,
                _ => {}
            }
        }
    }
}

proptest! {
    #[test]
    fn random_calls_keep_rules_and_match_outcomes(calls in prop::collection::vec(call(), 0..12)) {
        let told = told(|mut log| {
            calls.iter().for_each(|call| make(&mut log, call));
            log.outcomes()
        });
        let mut reader = RandomReader::default();
        told.events.iter().for_each(|event| reader.read(event));
        for (name, outcome) in TITLES.iter().zip(&told.outcomes) {
            let went_well = match reader.ended.get(*name) {
                Some(well) => *well,
                None => !reader.misused && !reader.fatal && !reader.strayed,
            };
            prop_assert_eq!(outcome.is_done(), went_well, "{} {:?}", name, told.lines);
            prop_assert_eq!(outcome.changed.len(), reader.changed.get(*name).copied().unwrap_or(0));
        }
        prop_assert_eq!(told.outcomes.iter().any(|outcome| outcome.fatal), reader.fatal);
    }
}
