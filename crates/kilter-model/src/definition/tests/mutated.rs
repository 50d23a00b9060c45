//! Randomly mutated definitions and titles.

use super::*;
use crate::schema::{Attributes, Behaviour, TitlePattern};

const ROUNDS: u32 = 20_000;

/// Tokens of the languages in a definition.
const PIECES: [&str; 40] = [
    "$",
    "${",
    "}",
    "$${",
    "vars.",
    "vars.name",
    "[",
    "]",
    "(",
    ")",
    "(?<name>",
    "(?<",
    "(?=",
    "(?!",
    "|",
    "*",
    "+",
    "?",
    "{2,}",
    "\\A",
    "\\Z",
    "\\h",
    "\\1",
    "\\k<name>",
    "/",
    "'",
    "\"",
    "::",
    ":",
    ",",
    "=>",
    "Optional[",
    "Enum[",
    "Struct[{",
    "Array[",
    "9999999999999999999",
    "-1",
    "\u{0}",
    "é",
    "\n",
];

/// Deletes, doubles or replaces some characters of a text, and inserts tokens.
fn mutated(random: &mut fastrand::Rng, text: &str) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for _ in 0..random.usize(1..4) {
        let at = random.usize(0..=chars.len());
        match random.u8(0..5) {
            0 if at < chars.len() => {
                chars.remove(at);
            }
            1 => {
                let end = (at + random.usize(0..8)).min(chars.len());
                let part = chars[at..end].to_vec();
                chars.splice(at..at, part);
            }
            2 => chars.truncate(at),
            _ => {
                let piece = PIECES[random.usize(0..PIECES.len())];
                chars.splice(at..at, piece.chars());
            }
        }
    }
    chars.into_iter().collect()
}

/// Changes, removes or replaces one part of a value.
fn changed(random: &mut fastrand::Rng, value: &Value) -> Value {
    match value {
        Value::Hash(entries) if !entries.is_empty() && random.u8(0..8) > 0 => {
            let chosen = random.usize(0..entries.len());
            let mut changed_entries = crate::value::Hash::default();
            for (index, (key, value)) in entries.iter().enumerate() {
                match (index == chosen, random.u8(0..10)) {
                    (false, _) => changed_entries.insert(key.clone(), value.clone()),
                    (true, 0) => None,
                    (true, 1) => changed_entries.insert(mutated(random, key).into(), value.clone()),
                    (true, _) => changed_entries.insert(key.clone(), changed(random, value)),
                };
            }
            Value::hash(changed_entries)
        }
        Value::Array(values) if !values.is_empty() && random.u8(0..8) > 0 => {
            let mut values = values.to_vec();
            let chosen = random.usize(0..values.len());
            values[chosen] = changed(random, &values[chosen]);
            Value::array(values)
        }
        Value::String(text) if random.u8(0..12) > 0 => Value::from(mutated(random, text)),
        other => match random.u8(0..7) {
            0 => Value::Undef,
            1 => Value::Boolean(true),
            2 => Value::Integer(random.i64(..)),
            3 => Value::Float(f64::NAN),
            4 => Value::array([other.clone(), other.clone()]),
            5 => Value::hash([("type", other.clone())]),
            _ => Value::sensitive(other.clone()),
        },
    }
}

/// Returns the seed from KILTER_SEED, or a random one.
fn seed() -> u64 {
    let seed =
        std::env::var("KILTER_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    println!("KILTER_SEED={seed}");
    seed
}

#[test]
fn mutated_definitions_never_panic() {
    let mut random = fastrand::Rng::with_seed(seed());
    let seeds = good::SEEDS.map(value);
    let (mut taken, mut refused) = (0, 0);
    for _ in 0..ROUNDS {
        // The seed without regular expressions is read many times faster.
        let seed = if random.u8(0..64) > 0 { 2 } else { random.usize(0..seeds.len()) };
        let mut definition = seeds[seed].clone();
        for _ in 0..random.usize(1..4) {
            definition = changed(&mut random, &definition);
        }
        let reading = read(&definition);
        for fault in &reading.faults {
            assert!(!fault.message.is_empty() && !fault.to_string().contains("hunter2"));
        }
        let values: Attributes = [("name", "web"), ("version", "1"), ("package", "php")].into_iter().collect();
        let _ = reading.schema.auto_relations(&values, "web", &mut |_, _, _| {});
        let _ = reading.schema.key(&values);
        if reading.faults.is_empty() {
            taken += 1;
            assert_eq!(check(&reading.schema), [], "{definition:?}");
            let _ = read(&to_value(&reading.schema));
        } else {
            refused += 1;
        }
    }
    assert!(taken > ROUNDS / 50 && refused > ROUNDS / 50, "{taken} taken, {refused} refused");
}

#[test]
fn mutated_titles_and_patterns_never_panic() {
    const PATTERNS: [&str; 6] = [
        "^(?<package>.*[^-])-(?<manager>.*)$",
        r"\A(?<name>[^@]+)@(?<device>\S+)\Z",
        r"^(?<name>(?:a|aa)+)(?<!b)c?$",
        r"(?m)(?<name>.*?)\/(?<device>\h+)",
        r"\A(?<name>(?:\w+\.)*\w+)(?::(?<port>\d+))?\z",
        r"(?<name>.)(?<device>.)\k<name>",
    ];
    const TITLES: [&str; 6] =
        ["php-yum", "rule@fw1", "aaaaaaaaaaaaaaaaaaaaaaaa", "a/b/c0ffee", "www.example.com:80", "ää\n-x"];
    /// Number of titles per pattern, because compiling a pattern takes longest.
    const TITLES_EACH: u32 = 50;
    let mut random = fastrand::Rng::with_seed(seed());
    let mut matched = 0;
    for round in 0..ROUNDS / TITLES_EACH {
        let mut schema = TypeSchema::new("t", "");
        for name in ["name", "package", "manager", "device"] {
            schema = schema.attribute(name, "String", Behaviour::Namevar, "");
        }
        let mut schema = schema.attribute("port", "Integer", Behaviour::Namevar, "");
        let pattern = PATTERNS[random.usize(0..PATTERNS.len())];
        let pattern = if round % 8 > 0 { mutated(&mut random, pattern) } else { pattern.to_owned() };
        schema.title_patterns.push(TitlePattern::new(pattern, ""));
        for _ in 0..TITLES_EACH {
            let title = TITLES[random.usize(0..TITLES.len())];
            let title = mutated(&mut random, title);
            if let Ok(namevars) = schema.parse_title(&title) {
                matched += 1;
                let attributes: Attributes = namevars.into_iter().collect();
                assert_eq!(schema.check_title(&title, &attributes), Ok(()));
            }
        }
    }
    assert!(matched > ROUNDS / 50, "{matched} matched");
}
