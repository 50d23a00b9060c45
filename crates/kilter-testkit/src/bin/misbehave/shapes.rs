//! Answers in a wrong format.

use super::answer::{Action, ReportedAttribute, ScriptRequest, good, of_names, print, right, telling};

/// Terminal escapes and a bell.
const ESCAPES: &str = "\u{1b}[2J\u{7}gone";

/// The same in a JSON string.
const ESCAPED: &str = "\\u001b[2J\\u0007gone";

/// Plays a scenario and returns the exit code.
pub(crate) fn play(scenario: &str, request: &ScriptRequest) -> u8 {
    if let Some((key, text, json)) = value(scenario) {
        print(telling(request, &[ReportedAttribute::new(key, text, json)]));
        return 0;
    }
    if let Some(answer) = document(scenario, request) {
        print(answer);
        return 0;
    }
    if let Some(answer) = naming(scenario, request).or_else(|| reporting(scenario, request)) {
        print(answer);
        return u8::from(scenario == "error-and-status");
    }
    match scenario {
        "error-on-stderr" => {
            eprintln!("error: it has failed");
            good(request);
            0
        }
        "last-words-that-move-the-cursor" => {
            eprintln!("{ESCAPES}");
            1
        }
        "last-words-of-bytes" => {
            use std::io::Write;
            let _ = std::io::stderr().write_all(b"\xff\xfe\0\x80 bytes\n");
            1
        }
        "no-last-words" => {
            eprintln!("{}", " \n".repeat(1 << 19));
            1
        }
        other => {
            eprintln!("error: the scenario {other} is listed and not there");
            64
        }
    }
}

/// Returns an unusual value: its attribute, as a line, as JSON.
fn value(scenario: &str) -> Option<(&'static str, &'static str, &'static str)> {
    Some(match scenario {
        "wrong-type" => ("n", "many", "\"many\""),
        "huge-integer" => ("n", "99999999999999999999999999", "99999999999999999999999999"),
        "endless-number" => ("f", "1e400", "1e400"),
        "not-a-number" => ("f", "NaN", "NaN"),
        "largest-number" => ("f", "1e308", "1e308"),
        "minus-zero" => ("f", "-0", "-0"),
        "misspelled-truth" => ("b", "yes", "\"yes\""),
        "misspelled-word" => ("mode", "c", "\"c\""),
        "control-value" => ("n", ESCAPES, "\"\\u001b[2J\\u0007gone\""),
        "read-only" => ("r", "2", "\"2\""),
        _ => return None,
    })
}

/// Returns an unusual document.
fn document(scenario: &str, request: &ScriptRequest) -> Option<Vec<u8>> {
    let good = || right(request);
    let either = |simple, json, mold| request.either(simple, json, mold).to_owned();
    let long = |bytes| format!("\"{}\"", "x".repeat(bytes));
    let text = match scenario {
        "nothing" => String::new(),
        "spaces" => " \n\t\r\n".repeat(100),
        "half-a-line" => {
            let good = good();
            good[..good.trim_end().len() - 2].to_owned() + if good.starts_with('#') { "\nna" } else { "" }
        }
        "trailing" => good() + "# simple\n{}",
        "bom" => format!("\u{feff}{}", good()),
        "crlf" => good().replace('\n', "\r\n"),
        "nul" => good().replace(": ", ": \0").replace("\":", "\":\0"),
        "wrong-shape" => either("name: a\n", "[]", "[]"),
        "deep-document" => "[".repeat(100_000),
        "long-line" => "x".repeat(3 << 20),
        "large-value" => telling(request, &[ReportedAttribute::new("v", &"x".repeat(1 << 20), &long(1 << 20))]),
        "deep-value" => {
            let deep = "[".repeat(100_000);
            telling(request, &[ReportedAttribute::new("list", &deep, &deep)])
        }
        "another-action" => {
            let action = if request.action == Action::Read { Action::Update } else { Action::Read };
            right(&ScriptRequest { action, names: request.names.clone(), ..*request })
        }
        "another-convention" => either("{\"resources\":[]}", "# simple\nname: a\nv: 1\n", "# simple\nname: a\n"),
        "bad-utf8" => {
            return Some(
                good().bytes().flat_map(|byte| [byte, 0xff].into_iter().take(1 + usize::from(byte == b':'))).collect(),
            );
        }
        "utf16" => return Some(good().encode_utf16().flat_map(u16::to_le_bytes).collect()),
        _ => return None,
    };
    Some(text.into_bytes())
}

/// Returns unusual names of resources and attributes.
fn naming(scenario: &str, request: &ScriptRequest) -> Option<String> {
    let v = || [ReportedAttribute::new("v", "1", "\"1\"")];
    let named = |name: &str| of_names(request, &[name], &v());
    let either =
        |simple: String, json: &str| if request.either("s", "", "").is_empty() { json.to_owned() } else { simple };
    let attribute = |key: &str| {
        telling(request, &[ReportedAttribute::new("v", "1", "\"1\""), ReportedAttribute::new(key, "x", "\"x\"")])
    };
    Some(match scenario {
        "wrong-name" => named("other"),
        "wrong-kind" => right(request).replacen('{', "{\"kind\":\"other\",", 1),
        "null-name" => named("null").replace("\"null\"", "null"),
        "empty-name" => named(""),
        "long-name" => named(&"x".repeat(1 << 20)),
        "control-name" => named(&either(ESCAPES.to_owned(), ESCAPED)),
        "bidi-name" => named("\u{202e}a\u{2066}"),
        "many-others" => of_names(request, &others(1000), &v()),
        "many-with-it" => {
            of_names(request, &others(1000).into_iter().chain(["a".to_owned()]).collect::<Vec<_>>(), &v())
        }
        "duplicates" => {
            let one = named("a");
            match request.either("lines", "", "") {
                "" => one.replace(
                    "]}",
                    &format!(",{}", &one[one.find('[').map_or(0, |at| at + 1)..].replace("\"1\"", "\"2\"")),
                ),
                _ => one.clone() + "name: a\nv: 2\n",
            }
        }
        "twice" => of_names(request, &["a", "a"], &v()),
        "duplicate-keys" => {
            telling(request, &[ReportedAttribute::new("v", "0", "\"0\""), ReportedAttribute::new("v", "1", "\"1\"")])
        }
        "unknown-keys" => attribute("nosuch"),
        "many-unknown-keys" => {
            let keys: Vec<String> = (0..10_000).map(|number| format!("nosuch{number}")).collect();
            let told: Vec<ReportedAttribute<'_>> =
                keys.iter().map(|key| ReportedAttribute::new(key, "x", "\"x\"")).collect();
            telling(request, &told)
        }
        "empty-attribute" => attribute(""),
        "long-attribute" => attribute(&"x".repeat(1 << 20)),
        "control-attribute" => attribute(&either(ESCAPES.to_owned(), ESCAPED)),
        "reserved-attribute" => {
            let keys = ["ral_x", "ral", "__proto__", "constructor"];
            telling(request, &keys.map(|key| ReportedAttribute::new(key, "x", "\"x\"")))
        }
        "no-ensure" => match request.either("ensure", "ensure", "exists") {
            "exists" => "{\"exists\":\"perhaps\"}".to_owned(),
            ensure => telling(request, &[ReportedAttribute::new(ensure, "perhaps", "\"perhaps\"")]),
        },
        _ => return None,
    })
}

fn others(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("other{number}")).collect()
}

/// Returns unusual changes and errors.
fn reporting(scenario: &str, request: &ScriptRequest) -> Option<String> {
    let either = |simple: &str, json: &str, mold: &str| request.either(simple, json, mold).to_owned();
    let list = if request.action == Action::Read { "resources" } else { "changes" };
    Some(match scenario {
        "claims-others" => {
            let others = ["other", "a"];
            of_names(request, &others, &[ReportedAttribute::new("v", "2", "\"2\"")])
        }
        "error-of-another" => either(
            "# simple\nname: other\nral_unknown: true\n",
            &format!("{{\"{list}\":[{{\"name\":\"other\",\"error\":{{\"message\":\"it is broken\"}}}}]}}"),
            "{\"name\":\"other\",\"error\":\"it is broken\"}",
        ),
        "error-of-it" => either(
            "# simple\nname: a\nral_unknown: true\n",
            &format!("{{\"{list}\":[{{\"name\":\"a\",\"error\":{{\"message\":\"it is broken\"}}}}]}}"),
            "{\"name\":\"a\",\"error\":\"it is broken\"}",
        ),
        "was-first" => either("# simple\nname: a\nral_was: 1\nv: 1\n", "", ""),
        "end-without-error" => either("# simple\nname: a\nv: 1\nral_eom\n", "", ""),
        "odd-derive" => either("# simple\nral_derive: perhaps\n", "{\"derive\":\"perhaps\"}", ""),
        "error" | "error-and-status" => {
            either("ral_error: said\nral_eom\n", "{\"error\":{\"message\":\"said\"}}", "{\"error\":\"said\"}")
        }
        "error-without-end" => {
            either("# simple\nral_error: half\nmore", "{\"error\":\"half\"}", "{\"error\":[\"half\"]}")
        }
        "error-that-moves-the-cursor" => told_error(request, ESCAPES, ESCAPED),
        "long-error" => {
            let long = "long and \u{20ac} ".repeat(1 << 17);
            told_error(request, &long, &long)
        }
        _ => return None,
    })
}

fn told_error(request: &ScriptRequest, lines: &str, json: &str) -> String {
    match request.either("simple", "json", "mold") {
        "simple" => format!("ral_error: {lines}\nral_eom\n"),
        "json" => format!("{{\"error\":{{\"message\":\"{json}\"}}}}"),
        _ => format!("{{\"error\":\"{json}\"}}"),
    }
}
