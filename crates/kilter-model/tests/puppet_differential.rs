//! Random types and values, answered by Puppet itself and by kilter, must be answered alike.
//!
//! It needs the program `puppet` with its libraries (Debian: the package `puppet`). The seed is
//! printed; `KILTER_SEED` sets it, `KILTER_PAIRS` how many pairs are asked.

#[path = "puppet/generate.rs"]
mod generate;

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use kilter_model::{DataType, Value, to_canonical_json_clear};
use serde_json::{Value as Json, json};

/// Default seed, so that each test run is the same.
const SEED: u64 = 7;

/// Default number of pairs.
const PAIRS: usize = 2000;

/// Answer of Puppet or kilter about a value.
#[derive(Clone, Debug, PartialEq)]
enum Acceptance {
    Accepted,
    Refused(String),
    /// The question could not be answered.
    Failed(String),
}

struct TypedValue {
    data_type: String,
    value: Value,
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text}")))
}

fn pairs(seed: u64, count: usize) -> Vec<TypedValue> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut pairs = Vec::with_capacity(count);
    while pairs.len() < count {
        let data_type = generate::data_type(&mut rng, 3);
        let parsed: DataType = data_type.parse().unwrap_or_else(|error| panic!("generated, but {error}"));
        pairs.push(TypedValue { data_type, value: generate::value_for(&mut rng, &parsed) });
    }
    pairs
}

/// Asks Puppet for all answers at once: it takes a second to start.
fn puppet(pairs: &[TypedValue]) -> Vec<Acceptance> {
    let questions = pairs.iter().fold(String::new(), |mut lines, pair| {
        let question = json!({ "type": pair.data_type, "value": to_canonical_json_clear(&pair.value) });
        writeln!(lines, "{question}").expect("a text takes all that is written to it");
        lines
    });
    let home = tempfile::tempdir().expect("a directory for Puppet");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/puppet/answers.rb");
    let mut child = Command::new("ruby")
        .args([script.as_ref(), home.path()])
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("ruby cannot be started ({error}): install Debian's package `puppet`"));
    let mut stdin = child.stdin.take().expect("it is a pipe");
    let writer = std::thread::spawn(move || stdin.write_all(questions.as_bytes()));
    let output = child.wait_with_output().expect("it was started");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "Puppet does not answer; is Debian's package `puppet` installed?\n{stderr}");
    writer.join().expect("writing does not panic").expect("Puppet reads all questions");
    let stdout = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    let answers: Vec<Acceptance> = stdout.lines().map(answer).collect();
    assert_eq!(answers.len(), pairs.len(), "{stderr}");
    answers
}

fn answer(line: &str) -> Acceptance {
    let json: Json = serde_json::from_str(line).expect("an answer is JSON");
    let text = |key: &str| json[key].as_str().map(str::to_owned);
    match (json["accept"].as_bool(), text("message"), text("error")) {
        (Some(true), ..) => Acceptance::Accepted,
        (_, Some(message), _) => Acceptance::Refused(message),
        (_, _, error) => Acceptance::Failed(error.unwrap_or_default()),
    }
}

fn kilter(pair: &TypedValue) -> Acceptance {
    let data_type: DataType = pair.data_type.parse().expect("it was parsed when it was made");
    match data_type.check_sealed(&pair.value) {
        Ok(()) => Acceptance::Accepted,
        Err(mismatch) => Acceptance::Refused(mismatch.of("t.x").to_string()),
    }
}

/// Why an answer may differ, if it may: what Puppet says is no help there, and kilter says more or
/// less on purpose (docs/reference/data-types.md, "Where kilter differs").
fn known(pair: &TypedValue, puppet: &Acceptance, kilter: &Acceptance) -> Option<&'static str> {
    let mentions = |word: &str| pair.data_type.matches(word).count();
    if let Acceptance::Failed(_) = puppet {
        return Some("Puppet fails");
    }
    if mentions("Iterable[") > 0 {
        return Some("Puppet takes undef for an element of any type");
    }
    let (Acceptance::Refused(puppet), Acceptance::Refused(kilter)) = (puppet, kilter) else { return None };
    if puppet.is_empty() {
        return Some("Puppet refuses without a message");
    }
    if mentions("SemVer") > 1 && mentions("SemVer[") > 0 {
        return Some("Puppet joins ranges of versions that do not touch");
    }
    if mentions("Timespan[") > 1 || mentions("Timestamp[") > 1 {
        return Some("Puppet does not know that two times are the same, and orders choices by that");
    }
    // The numbers of variants are left out of a message that is the only one.
    let lines = |message: &str| -> Vec<String> {
        let plain =
            |line: &str| line.split(" variant ").map(|part| part.trim_start_matches(char::is_numeric)).collect();
        message.lines().map(|line| plain(line.trim())).collect()
    };
    let (theirs, ours) = (lines(puppet), lines(kilter));
    let less = |few: &[String], many: &[String]| few.len() < many.len() && few.iter().all(|line| many.contains(line));
    if mentions("Tuple[") > 0 && less(&ours, &theirs) {
        return Some("Puppet blames elements of a tuple that fit");
    }
    (mentions("Iterable") > 0 && less(&theirs, &ours)).then_some("Puppet does not blame numbers below zero")
}

#[test]
fn puppet_and_kilter_give_the_same_answers() {
    let seed = number("KILTER_SEED").unwrap_or(SEED);
    let count = number("KILTER_PAIRS").map_or(PAIRS, |count| usize::try_from(count).expect("it fits"));
    println!("KILTER_SEED={seed}");
    let pairs = pairs(seed, count);
    let mut wrong = Vec::new();
    let mut tally = [0_usize; 3];
    let mut otherwise = std::collections::BTreeMap::new();
    for (pair, puppet) in pairs.iter().zip(puppet(&pairs)) {
        let kilter = kilter(pair);
        let kind = match &kilter {
            Acceptance::Accepted => 0,
            Acceptance::Refused(message) if !message.contains('\n') => 1,
            _ => 2,
        };
        tally[kind] += 1;
        if let (true, Some(reason)) = (kilter != puppet, known(pair, &puppet, &kilter)) {
            *otherwise.entry(reason).or_insert(0_usize) += 1;
        } else if kilter != puppet {
            let value = to_canonical_json_clear(&pair.value);
            wrong.push(format!("{} <- {value}\n  puppet {puppet:?}\n  kilter {kilter:?}", pair.data_type));
        }
    }
    let [accepted, one, several] = tally;
    println!("{count} pairs: {accepted} accepted, {one} refused for one reason, {several} for several");
    assert!(wrong.is_empty(), "KILTER_SEED={seed}: {} of {count} differ:\n{}", wrong.len(), wrong.join("\n"));
    println!("otherwise on purpose: {otherwise:?}");
    assert!(otherwise.values().sum::<usize>() * 25 <= count, "{otherwise:?}");
    // A generator that makes only what is taken, or only what is not, would show little.
    assert!(accepted * 5 > count && (one + several) * 5 > count, "{tally:?}");
}
