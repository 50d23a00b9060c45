//! Scripts that do wrong, in every convention: each is a clear error, or does no harm.

#![expect(clippy::unwrap_used, reason = "a test may end where it cannot go on")]

mod describing;
mod harness;
mod many;
mod table;

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use harness::{CONVENTIONS, Came, ScenarioDir, TestedCall, play};
use table::{Expected, GATES, LEFT, Row, TRIED, WRITING, rows};

/// However long a script takes: its deadline, the grace that it is given, and a busy machine.
const LONGEST: Duration = Duration::from_secs(30);

/// Number of concurrent scenarios; most of them wait.
const AT_A_TIME: usize = 4;

#[test]
fn every_scenario_is_in_the_table_and_there_are_enough() {
    let list = Command::new(env!("CARGO_BIN_EXE_misbehave")).arg("--list").output().unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    let known: Vec<&str> = list.lines().map(|line| line.split('\t').next().unwrap()).collect();
    let rows = rows();
    let told: Vec<&str> = rows.iter().map(|row| row.scenario).chain(GATES).collect();
    assert_eq!(known.iter().collect::<BTreeSet<_>>(), told.iter().collect::<BTreeSet<_>>());
    assert_eq!((known.len(), told.len()), (told.len(), told.iter().collect::<BTreeSet<_>>().len()), "each once");
    for (at, convention) in CONVENTIONS.iter().enumerate() {
        let there = |row: &&Row| !matches!(row.read[at], Expected::Nothing { .. });
        assert!(rows.iter().filter(there).count() >= 40, "{convention}");
    }
}

#[test]
fn misbehaving_get_is_reported_or_harmless() {
    CONVENTIONS.iter().enumerate().for_each(|(at, convention)| {
        played(convention, TestedCall::Read, |row| row.read[at]);
    });
}

#[test]
fn misbehaving_set_is_reported_or_harmless() {
    CONVENTIONS.iter().enumerate().for_each(|(at, convention)| {
        played(convention, TestedCall::Update, |row| row.update[at]);
    });
}

/// mold has no previews: nothing is run.
#[test]
fn misbehaving_preview_is_reported_and_confined() {
    CONVENTIONS[..2].iter().enumerate().for_each(|(at, convention)| {
        played(convention, TestedCall::Preview, |row| match WRITING.contains(&row.scenario) {
            true => Expected::Is { found: "v=2 again", warning: TRIED },
            false => row.update[at],
        });
    });
    for Row { scenario, .. } in rows() {
        let came = play(&*ScenarioDir::new("mold", TestedCall::Preview, scenario).provider(), TestedCall::Preview);
        assert_eq!((came.result.as_deref(), came.warnings.len()), (Ok("again"), 0), "{scenario}");
    }
}

/// Plays all scenarios and holds what comes of them against the table; tells everything that is not as it should be.
fn played(convention: &'static str, phase: TestedCall, expected: impl Fn(&Row) -> Expected + Sync) {
    let (rows, next) = (rows(), AtomicUsize::new(0));
    let worker = || {
        let mut wrong = Vec::new();
        while let Some(row) = rows.get(next.fetch_add(1, Ordering::Relaxed)) {
            let expected = expected(row);
            if !matches!(expected, Expected::Nothing { .. })
                && let Err(why) = one(convention, phase, row.scenario, expected)
            {
                wrong.push(format!("{convention}, {phase:?}, {}: {why}", row.scenario));
            }
        }
        wrong
    };
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_A_TIME).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

fn one(convention: &'static str, phase: TestedCall, scenario: &str, expected: Expected) -> Result<(), String> {
    let place = ScenarioDir::new(convention, phase, scenario);
    let provider = place.provider();
    let begun = Instant::now();
    let came = play(&*provider, phase);
    let took = begun.elapsed();
    if took > LONGEST {
        return Err(format!("it took {took:?}"));
    }
    if place.path("written").exists() != (scenario == "writes" && phase == TestedCall::Update) {
        return Err("what was to be written was not, or the other way round".to_owned());
    }
    let lines = came.warnings.iter().map(|line| line.chars().count());
    if lines.clone().any(|length| length > 2500) || came.warnings.iter().any(|line| has_control(line)) {
        return Err(format!("lines of {:?} characters", lines.collect::<Vec<_>>()));
    }
    as_expected(&place, phase, scenario, &came, expected)
}

fn as_expected(
    place: &ScenarioDir,
    phase: TestedCall,
    scenario: &str,
    came: &Came,
    expected: Expected,
) -> Result<(), String> {
    let shown = || format!("{expected:?} is expected, and not {came:?}");
    let is_so = match (expected, &came.result) {
        (Expected::Fails { cause, status }, Err(why)) => {
            let said = if scenario == "no-last-words" { String::new() } else { format!("last words of {scenario}") };
            let said = if said.is_empty() { said } else { format!("last on its standard error: {said}") };
            why.starts_with(&format!("{}{cause}", place.head(phase)))
                && [status, &said].iter().all(|part| why.contains(part))
                && is_short(why)
        }
        (Expected::FailsLater { cause }, Err(why)) => {
            why.starts_with(&format!("{}{cause}", place.head(TestedCall::Read))) && is_short(why)
        }
        (Expected::Is { found, warning }, Ok(is)) => {
            // What it says itself is logged, and is no warning of kilter's.
            let own = |line: &&String| !line.contains("last words of") && !line.contains("tt[a] xxxxxxxx");
            // A process that another thread is just starting holds the pipes of all others until it is another program:
            // on a busy machine that can look like one that was left behind.
            let of_others = |line: &&String| warning != LEFT && line.contains(LEFT);
            let warnings: Vec<&String> = came.warnings.iter().filter(own).filter(|line| !of_others(line)).collect();
            is == found && warning.is_empty() == warnings.is_empty() && warnings.iter().all(|one| is_of(one, warning))
        }
        _ => false,
    };
    if is_so { Ok(()) } else { Err(shown()) }
}

/// Returns true if a warning is the expected one, or output of the script before it.
fn is_of(line: &str, warning: &str) -> bool {
    line.contains(warning) || warning == TRIED && line.contains("Permission denied")
}

/// Lines are lines; nothing else that moves a cursor is in an error.
fn is_short(why: &str) -> bool {
    why.chars().count() <= 1500 && !has_control(&why.replace('\n', ""))
}

fn has_control(text: &str) -> bool {
    text.contains(|c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'))
}
