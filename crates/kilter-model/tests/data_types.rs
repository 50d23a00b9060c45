//! The data types held against what Puppet says of them. The cases are data: `data_types/*.txt`.

use kilter_model::{DataType, Value, from_canonical_json, to_canonical_json_clear};

/// One case: the question, Puppet's answer, and kilter's answer if it differs.
struct PuppetCase<'a> {
    question: &'a str,
    puppet: &'a str,
    kilter: &'a str,
}

fn cases(text: &str) -> Vec<PuppetCase<'_>> {
    let blocks = text.split("\n\n").map(|block| block.lines().filter(|line| !line.starts_with('#')).collect());
    let blocks = blocks.filter(|lines: &Vec<&str>| !lines.is_empty());
    blocks
        .map(|lines| match lines.as_slice() {
            [question, puppet] => PuppetCase { question, puppet: puppet.trim_start(), kilter: puppet.trim_start() },
            [question, puppet, kilter, because] => {
                assert!(because.starts_with("  because "), "{question}: {because}");
                let kilter = kilter.strip_prefix("  kilter: ").expect("the third line is kilter's answer");
                PuppetCase { question, puppet: puppet.trim_start(), kilter }
            }
            other => panic!("a case has two or four lines: {other:?}"),
        })
        .collect()
}

/// Says every difference at once, and how many cases there were.
fn compare(cases: &[PuppetCase<'_>], answer: &dyn Fn(&str) -> String) {
    let wrong: Vec<String> = cases
        .iter()
        .filter(|case| !case.kilter.starts_with("no such "))
        .filter_map(|case| {
            let (wanted, got) = (case.kilter.replace('⏎', "\n"), answer(case.question));
            // The words of another library follow the message.
            let fits = wanted == got || wanted.starts_with("fails /") && got.starts_with(&wanted);
            (!fits).then(|| format!("{}\n  wanted {wanted}\n  got    {got}", case.question))
        })
        .collect();
    let otherwise = cases.iter().filter(|case| case.puppet != case.kilter).count();
    println!("{} cases, {otherwise} of them decided otherwise", cases.len());
    assert!(wrong.is_empty(), "{} of {} cases differ:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

fn question(text: &str) -> (DataType, &str) {
    let (data_type, value) = text.split_once(" <- ").expect("a question is a type <- a value");
    (data_type.parse().unwrap_or_else(|error| panic!("{error}")), value)
}

fn read(json: &str) -> Value {
    let json = serde_json::from_str(json).unwrap_or_else(|error| panic!("{json}: {error}"));
    from_canonical_json(&json).unwrap_or_else(|error| panic!("{json}: {error}"))
}

#[test]
fn value_checks_match_puppet() {
    let cases = cases(include_str!("data_types/checks.txt"));
    assert!(cases.len() >= 140, "{}", cases.len());
    compare(&cases, &|text| {
        let (data_type, value) = question(text);
        match data_type.check_sealed(&read(value)) {
            Ok(()) => "accept".to_owned(),
            Err(mismatch) => format!("reject {}", mismatch.of("t.x")),
        }
    });
}

#[test]
fn parsed_types_match_puppet() {
    let cases = cases(include_str!("data_types/texts.txt"));
    assert!(cases.len() >= 34, "{}", cases.len());
    compare(&cases, &|text| {
        let text = if text == "<empty>" { "" } else { text };
        match text.parse::<DataType>() {
            Ok(data_type) => format!("is {data_type}"),
            Err(error) => {
                let message = error.to_string();
                let (_, why) = message.split_once("is not a data type: ").expect("a message says what it is about");
                format!("fails {why}")
            }
        }
    });
}

#[test]
fn command_line_words_match_puppet() {
    let cases = cases(include_str!("data_types/words.txt"));
    assert!(cases.len() >= 39, "{}", cases.len());
    compare(&cases, &|text| {
        let (data_type, words) = question(text);
        let words = read(words);
        let words: Vec<&str> = words.as_list().iter().filter_map(Value::as_str).collect();
        match data_type.parse_words(&words) {
            Ok(Value::Timestamp(time)) => {
                format!("is {{\"__ptype\":\"Timestamp\",\"__pvalue\":\"{}\"}}", &time.to_string()[..10])
            }
            Ok(value) => format!("is {}", spaced(&to_canonical_json_clear(&value))),
            Err(mismatch) => format!("reject {}", mismatch.of("t.x")),
        }
    });
}

/// A list with spaces behind its commas.
fn spaced(json: &serde_json::Value) -> String {
    match json {
        serde_json::Value::Array(values) => {
            let values: Vec<String> = values.iter().map(ToString::to_string).collect();
            format!("[{}]", values.join(", "))
        }
        other => other.to_string(),
    }
}

#[test]
fn overlaps_holds_for_types_with_common_value() {
    let cases = cases(include_str!("data_types/checks.txt"));
    let questions: Vec<(DataType, Value)> = cases
        .iter()
        .filter(|case| !case.kilter.starts_with("no such "))
        .map(|case| question(case.question))
        .map(|(data_type, value)| (data_type, read(value)))
        .collect();
    let (mut pairs, mut disjoint) = (0, 0);
    for (one, _) in &questions {
        for (other, _) in &questions {
            let common = questions.iter().find(|(_, value)| one.accepts(value) && other.accepts(value));
            pairs += usize::from(common.is_some());
            disjoint += usize::from(!one.overlaps(other));
            let Some((_, value)) = common else { continue };
            assert!(one.overlaps(other), "both {one} and {other} accept {value}");
        }
    }
    assert!(pairs > 1000 && disjoint > 1000, "{pairs} pairs, {disjoint} disjoint");
}
