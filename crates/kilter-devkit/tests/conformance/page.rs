//! The page about the laws, held against the laws.

use kilter_devkit::conformance::LAWS;

use crate::report;

const PAGE: &str = include_str!("../../../../docs/reference/conformance.md");

/// The parts of the page below headings that name laws.
fn laws_of_the_page() -> Vec<(&'static str, &'static str)> {
    let parts = PAGE.split("\n### ").skip(1);
    parts.map(|part| part.split("\n## ").next().unwrap_or(part).split_once('\n').expect("a part has a text")).collect()
}

#[test]
fn the_page_has_every_law_in_its_order_and_no_other() {
    let told: Vec<&str> = laws_of_the_page().iter().map(|(name, _)| *name).collect();
    let laws: Vec<&str> = LAWS.iter().map(|law| law.name).collect();
    assert_eq!(told, laws);
}

#[test]
fn page_has_sentence_reason_and_defect_of_each_law() {
    for ((name, text), law) in laws_of_the_page().into_iter().zip(LAWS) {
        let quoted = text.lines().find_map(|line| line.strip_prefix("> "));
        assert_eq!(quoted, Some(law.sentence), "{name}");
        for part in ["\n**Why.** ", "\n**Broken by** "] {
            assert_eq!(text.matches(part).count(), 1, "{name} needs one{part}");
        }
    }
}

#[test]
fn the_page_shows_the_keys_that_the_report_has_in_json() {
    let shown = PAGE.split("```json\n").nth(1).and_then(|rest| rest.split("```").next()).expect("it shows one");
    let shown: serde_json::Value = serde_json::from_str(shown).expect("it is JSON");
    let real = report(None).to_json();
    let keys = |json: &serde_json::Value| json.as_object().map(|entries| entries.keys().cloned().collect::<Vec<_>>());
    assert_eq!(keys(&shown), keys(&real));
    assert_eq!(keys(&shown["counts"]), keys(&real["counts"]));
    let held = real["laws"].as_array().and_then(|laws| laws.iter().find(|law| law["law"] == "edge-values-survive"));
    assert_eq!(keys(&shown["laws"][0]), held.and_then(keys));
    assert_eq!(shown["counts"]["total"], LAWS.len());
}

#[test]
fn page_shows_lines_of_the_report() {
    let text = report(None).to_string();
    for line in ["  held            schema-is-described\n", "  not applicable  titles-fit-namevars: "] {
        assert!(text.contains(line), "{text}");
    }
    for start in
        ["conformance of ", "  held            ", "  not applicable  ", "  NOT TESTED      ", "  BROKEN          "]
    {
        assert!(PAGE.contains(&format!("\n{start}")), "{start}");
    }
}
