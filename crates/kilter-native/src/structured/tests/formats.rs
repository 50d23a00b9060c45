//! The notations of the formats.

use super::super::converge::{Document, Format};
use super::super::keys::Key;
use super::*;
use crate::edit::{Edits, TextFile};

fn steps(path: &str) -> Vec<Key> {
    let step = |step: &str| step.parse().map_or_else(|_| Key::Name(step.into()), Key::Index);
    path.split('/').map(step).collect()
}

/// Returns a value that is written as JSON.
fn value(json: &str) -> Value {
    kilter_model::from_json(&json.parse().unwrap())
}

/// Assigns a value, or removes it (`-`).
fn edited(format: Format, text: &str, path: &str, new: &str) -> Result<String, String> {
    let file = TextFile::parse("/x", text.as_bytes()).unwrap();
    let mut edits = Edits::new(&file);
    let mut document = Document::new(format, &mut edits).map_err(String::from)?;
    let done = match new {
        "-" => document.remove(&steps(path)),
        new => document.assign(&mut steps(path), &value(new), false),
    };
    done.map_err(String::from)?;
    document.store();
    Ok(String::from_utf8(edits.bytes()).unwrap())
}

#[track_caller]
fn becomes(format: Format, cases: &[(&str, &str, &str, &str)]) {
    for (text, path, new, expected) in cases {
        assert_eq!(edited(format, text, path, new).as_deref(), Ok(*expected), "{text:?} {path} {new}");
    }
}

#[test]
fn json_keeps_its_notation() {
    becomes(
        Format::Json,
        &[
            // Replacements.
            ("{\"a\":1,\"b\":2}", "a", "[true,null]", "{\"a\":[true, null],\"b\":2}"),
            (
                "{\n\t\"a\": {\n\t\t\"b\": 1\n\t}\n}\n",
                "a/b",
                "{\"c\":1}",
                "{\n\t\"a\": {\n\t\t\"b\": {\n\t\t\t\"c\": 1\n\t\t}\n\t}\n}\n",
            ),
            ("{\"a\": [1, 2, 3]}", "a", "[1, 5]", "{\"a\": [1, 5]}"),
            ("{\"a\": \"x\\\"}\"}", "a", "\"\\\\\"", "{\"a\": \"\\\\\"}"),
            // New members.
            ("{}", "a", "1", "{\n  \"a\": 1\n}"),
            ("", "a", "1", "{\n  \"a\": 1\n}\n"),
            ("null\n", "a", "1", "{\n  \"a\": 1\n}\n"),
            ("{\n    \"a\": 1\n}\n", "b/c", "2", "{\n    \"a\": 1,\n    \"b\": {\n        \"c\": 2\n    }\n}\n"),
            ("{\n  \"a\": 1, // one\n  // end\n}\n", "b", "2", "{\n  \"a\": 1, // one\n  \"b\": 2,\n  // end\n}\n"),
            ("{\n  \"a\": 1 /* one */ // x\n}\n", "b", "2", "{\n  \"a\": 1, /* one */ // x\n  \"b\": 2\n}\n"),
            ("{\n  \"a\": 1 }", "b", "2", "{\n  \"a\": 1,\n  \"b\": 2 }"),
            ("{\"a\": 1,}", "b", "2", "{\"a\": 1, \"b\": 2,}"),
            ("{\n  \"a\": {}\n}", "a/b", "2", "{\n  \"a\": {\n    \"b\": 2\n  }\n}"),
            ("{\"a\": {}}", "a/b", "2", "{\"a\": {\"b\": 2}}"),
            ("{ // nothing\n}\n", "b", "2", "{ // nothing\n  \"b\": 2\n}\n"),
            ("[\n  1\n]\n", "1", "2", "[\n  1,\n  2\n]\n"),
            ("{\"a\": null}", "a/b", "1", "{\"a\": {\"b\": 1}}"),
            ("{\r\n  \"a\": 1\r\n}\r\n", "b", "2", "{\r\n  \"a\": 1,\r\n  \"b\": 2\r\n}\r\n"),
            // Removals.
            ("{\n  \"a\": 1,\n  \"b\": 2\n}\n", "b", "-", "{\n  \"a\": 1\n}\n"),
            ("{\n  \"a\": 1, // x\n  \"b\": 2\n}\n", "a", "-", "{\n  \"b\": 2\n}\n"),
            ("{\n  \"a\": 1,\n  \"b\": [\n    2\n  ],\n}\n", "b", "-", "{\n  \"a\": 1,\n}\n"),
            ("{\"a\": 1, \"b\": 2}", "b", "-", "{\"a\": 1}"),
            ("{\"a\": 1, \"b\": 2}", "a", "-", "{\"b\": 2}"),
            ("{\"a\": 1}", "a", "-", "{}"),
            ("[1, 2,]", "0", "-", "[2,]"),
            ("{\"a\": 1, \"a\": 2, \"b\": 3}", "a", "-", "{\"b\": 3}"),
            ("{\"a\": 1, \"a\": 2}", "a", "3", "{\"a\": 1, \"a\": 3}"),
        ],
    );
}

#[test]
fn yaml_keeps_its_notation() {
    becomes(
        Format::Yaml,
        &[
            // Replacements.
            ("a: 1 # one\nb: 2\n", "a", "3", "a: 3 # one\nb: 2\n"),
            ("a: 'x'  # one\n", "a", "\"yes\"", "a: \"yes\"  # one\n"),
            ("a:\n  b: 1\n  c: 2\n# end\n", "a/b", "\"text\"", "a:\n  b: text\n  c: 2\n# end\n"),
            ("a:\n  b: 1 # x\n  c: 2 # y\nd: 4\n", "a", "5", "a: 5\nd: 4\n"),
            ("a: # x\n  b: 1\nd: 4\n", "a", "[1]", "a: # x\n  - 1\nd: 4\n"),
            ("a: 1 # x\nd: 4\n", "a", "{\"b\":{\"c\":1}}", "a: # x\n  b:\n    c: 1\nd: 4\n"),
            ("a: {b: 1, c: [x]}\n", "a", "{\"b\":2,\"c\":[\"w\",\"z: 1\"]}", "a: {b: 2, c: [w, \"z: 1\"]}\n"),
            ("a: |\n  x\n  y\n\nb: 1\n", "a", "\"z\"", "a: z\n\nb: 1\n"),
            ("a: | # x\n  x\nb: 1\n", "a", "\"l1\\n\\nl2\\n\"", "a: | # x\n  l1\n\n  l2\nb: 1\n"),
            ("a: \"x\n  y\" # z\nb: 1\n", "a", "\"l1\\nl2\"", "a: |- # z\n  l1\n  l2\nb: 1\n"),
            ("l:\n- - -8\n  - b\n- c\n", "l/1", "[7]", "l:\n- - -8\n  - b\n- - 7\n"),
            ("--- # x\n- -1\n- 2\n", "1", "-3", "--- # x\n- -1\n- -3\n"),
            ("l: &x !!seq\n- -8\n", "l/1", "7", "l: &x !!seq\n- -8\n- 7\n"),
            ("a:\nb: 1\n", "a", "2", "a: 2\nb: 1\n"),
            ("a: # later\nb: 1\n", "a", "{\"c\":2}", "a: # later\n  c: 2\nb: 1\n"),
            ("a:\n\n  # c\n  - 1\n  - 2 # two\n", "a/1", "3", "a:\n\n  # c\n  - 1\n  - 3 # two\n"),
            (
                "- a: 1\n  b: 2\n- c\n-\n- - d\n  - e\n",
                "1",
                "{\"x\":1,\"z\":2}",
                "- a: 1\n  b: 2\n- x: 1\n  z: 2\n-\n- - d\n  - e\n",
            ),
            ("- a: 1\n  b: 2\n- c\n-\n- - d\n  - e\n", "0", "\"s\"", "- s\n- c\n-\n- - d\n  - e\n"),
            ("- a: 1\n  b: 2\n- c\n-\n- - d\n  - e\n", "2", "7", "- a: 1\n  b: 2\n- c\n- 7\n- - d\n  - e\n"),
            ("- a: 1\n  b: 2\n- c\n-\n- - d\n  - e\n", "3/1", "7", "- a: 1\n  b: 2\n- c\n-\n- - d\n  - 7\n"),
            ("- a\n-\n  b: 1\n- c\n", "1", "7", "- a\n- 7\n- c\n"),
            ("\"a b\": 1\n", "a b", "2", "\"a b\": 2\n"),
            // New members.
            ("", "a/b", "[1,{\"c\":2,\"d\":[]}]", "a:\n  b:\n    - 1\n    - c: 2\n      d: []\n"),
            ("# only\n", "a", "1", "# only\na: 1\n"),
            ("---\na: 1\n", "b", "2", "---\na: 1\nb: 2\n"),
            ("a: 1", "b", "2", "a: 1\nb: 2\n"),
            ("a:\n    b: 1\nc: 2\n", "a/d", "{\"e\":[1]}", "a:\n    b: 1\n    d:\n        e:\n            - 1\nc: 2\n"),
            ("l:\n- 1\n- 2\nc: 2\n", "l/2", "3", "l:\n- 1\n- 2\n- 3\nc: 2\n"),
            ("l:\n- 1\nc: 2\n", "d", "[4]", "l:\n- 1\nc: 2\nd:\n- 4\n"),
            ("a: |\n  x\n  y\n", "b", "2", "a: |\n  x\n  y\nb: 2\n"),
            ("a: {}\nb: []\n", "a/c", "1", "a: { c: 1 }\nb: []\n"),
            ("a: {}\nb: []\n", "b/0", "1", "a: {}\nb: [1]\n"),
            ("a: [\n  x, # one\n]\n", "a/1", "\"w\"", "a: [\n  x, # one\n  w,\n]\n"),
            ("a:\nb: 1\n", "a/x/0", "2", "a:\n  x:\n    - 2\nb: 1\n"),
            (
                "base: &b\n  x: 1\na:\n  <<: *b\n  y: 2\n",
                "a/x",
                "3",
                "base: &b\n  x: 1\na:\n  <<: *b\n  y: 2\n  x: 3\n",
            ),
            ("- a: 1\n- b: 1\n", "0/c", "2", "- a: 1\n  c: 2\n- b: 1\n"),
            ("a: 1\r\nb:\r\n  - x\r\n", "b/1", "\"w\"", "a: 1\r\nb:\r\n  - x\r\n  - w\r\n"),
            // Removals.
            ("a: 1\n# about b\nb: 2 # two\nc: 3\n", "b", "-", "a: 1\n# about b\nc: 3\n"),
            ("a:\n  b: 1\nc: 3\n", "a/b", "-", "a: {}\nc: 3\n"),
            ("a:\n  - b: 1\n    c: 2\n", "a/0/b", "-", "a:\n  - c: 2\n"),
            ("a:\n  - b\nc: 1\n", "a/0", "-", "a: []\nc: 1\n"),
            ("a:\n  - b\n  - c:\n      d: 1\n  - e\n", "a/1", "-", "a:\n  - b\n  - e\n"),
            ("a: 1\n", "a", "-", ""),
            ("a: {b: 1, c: 2}\n", "a/b", "-", "a: {c: 2}\n"),
            ("- - a\n  - b\n", "0/0", "-", "- - b\n"),
        ],
    );
}

#[test]
fn yaml_with_aliases_is_changed_only_if_no_other_value_changes() {
    let text = "base: &b { x: 1 }\na: *b\nc: *b\n";
    let refused = |path: &str, new: &str| edited(Format::Yaml, text, path, new).unwrap_err();
    assert!(refused("a/x", "2").contains("alias"), "{}", refused("a/x", "2"));
    assert!(refused("base/x", "2").contains("without changing other values"));
    assert_eq!(edited(Format::Yaml, text, "a", "2").unwrap(), "base: &b { x: 1 }\na: 2\nc: *b\n");
}

#[test]
fn toml_keeps_its_notation() {
    becomes(
        Format::Toml,
        &[
            // Replacements.
            ("# head\n\na = 1 # one\nb = 2\n", "a", "\"x\"", "# head\n\na = \"x\" # one\nb = 2\n"),
            ("[s]\na   =   1\n[t]\n", "s/a", "2", "[s]\na   =   2\n[t]\n"),
            ("a = { b = 1, c = 'x' }\n", "a/b", "2", "a = { b = 2, c = 'x' }\n"),
            ("[[r]]\nx = 1\n\n[[r]]\nx = 2\n", "r/1/x", "3", "[[r]]\nx = 1\n\n[[r]]\nx = 3\n"),
            ("a.b.c = 1\n", "a/b/c", "2", "a.b.c = 2\n"),
            ("a = [1, 2, 3]\n", "a", "[1, 5]", "a = [1, 5]\n"),
            ("[a]\nb = 1\n[c]\n", "a", "7", "a = 7\n[c]\n"),
            // New members.
            ("", "a/b", "1", "[a]\nb = 1\n"),
            ("a = 1\n", "s", "{\"x\":1,\"y\":{\"z\":[{\"q\":1}]}}", "a = 1\n\n[s]\nx = 1\n\n[s.y]\nz = [{ q = 1 }]\n"),
            ("# head\n[s]\na = 1\n# tail\n", "s/b", "true", "# head\n[s]\na = 1\nb = true\n# tail\n"),
            ("[s]\na = 1\n\n[t]\nx = 1\n", "s/b", "1.5", "[s]\na = 1\nb = 1.5\n\n[t]\nx = 1\n"),
            ("[s]\na = 1\n\n[t]\nx = 1\n", "s/u/v", "1", "[s]\na = 1\n\n[s.u]\nv = 1\n\n[t]\nx = 1\n"),
            ("a = [\n  1, # one\n  2,\n]\n", "a/2", "3", "a = [\n  1, # one\n  2,\n  3,\n]\n"),
            ("a = [\n  1,\n  2\n]\n", "a/2", "3", "a = [\n  1,\n  2,\n  3\n]\n"),
            ("a = [1]\n", "a/1", "2", "a = [1, 2]\n"),
            ("a = []\n", "a/0", "2", "a = [2]\n"),
            ("a = { b = 1 }\n", "a/c", "2", "a = { b = 1, c = 2 }\n"),
            ("a = {}\n", "a/c", "2", "a = { c = 2 }\n"),
            ("a.b = 1\n", "a/c", "{\"d\":1}", "a.b = 1\na.c = { d = 1 }\n"),
            ("[[r]]\nx = 1\n", "r/1", "{\"x\":2}", "[[r]]\nx = 1\n\n[[r]]\nx = 2\n"),
            ("a = 1\r\n[s]\r\nb = 2\r\n", "s/c", "3", "a = 1\r\n[s]\r\nb = 2\r\nc = 3\r\n"),
            // Removals.
            ("# head\n\n# about a\na = 1 # one\nb = 2\n", "a", "-", "# head\n\n# about a\nb = 2\n"),
            ("[s]\na = 1\n[t]\n", "s", "-", "[t]\n"),
            ("[s]\na = 1\n[t]\n", "s/a", "-", "[s]\n[t]\n"),
            ("[s.u]\na = 1\n", "s/u", "-", "[s]\n"),
            ("a = [1, 2]\n", "a/0", "-", "a = [2]\n"),
            ("a = { b = 1, c = 2 }\n", "a/c", "-", "a = { b = 1 }\n"),
            ("[[r]]\nx = 1\n\n[[r]]\nx = 2\n", "r/0", "-", "\n[[r]]\nx = 2\n"),
        ],
    );
    let date = "at = 2026-11-26T10:00:00Z # x\n";
    assert_eq!(edited(Format::Toml, date, "at", "\"2026-11-26T10:00:00Z\"").unwrap(), date);
}

#[test]
fn path_that_leads_nowhere_is_refused() {
    let refused = |text: &str, path: &str| edited(Format::Json, text, path, "1").unwrap_err();
    assert_eq!(refused("[1]", "3"), "item 3 cannot be added: the document has 1 items");
    assert_eq!(refused("{}", "a/2"), "item 2 cannot be added to a list without items");
    assert_eq!(refused("{\"a\": [1]}", "a/b"), "there is no key `b`, because `a` is a list");
    assert_eq!(refused("{\"a\": {}}", "a/0"), "there is no item 0, because `a` is a mapping");
    assert_eq!(refused("7", "a"), "there is no key `a`, because the document is a number");
}
