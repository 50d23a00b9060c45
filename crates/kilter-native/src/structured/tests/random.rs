//! Random edits of random documents: each one gives exactly the declared value, which `Document` checks itself.

use super::super::converge::{Document, Format};
use super::super::keys::{self, Key};
use super::*;
use crate::edit::{Edits, TextFile};

/// A small generator of numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    fn value(&mut self, depth: usize, format: Format) -> Value {
        const TEXTS: [&str; 16] = [
            "x",
            "",
            "yes",
            "a: b",
            "# c",
            "0644",
            "1",
            "null",
            "- y",
            "two\nlines\n",
            "tab\there",
            " blank ",
            "[z]",
            "é{}",
            "'\"\\",
            "three\n\n  lines",
        ];
        match self.below(if depth == 0 { 5 } else { 9 }) {
            0 => Value::Integer(self.below(2000) as i64 - 1000),
            1 => Value::Boolean(self.below(2) == 0),
            2 => Value::Float(self.below(100) as f64 / 8.0),
            3 if format != Format::Toml && depth < 3 => Value::Undef,
            3 | 4 => TEXTS[self.below(TEXTS.len())].into(),
            5 | 6 => Value::array((0..self.below(4)).map(|_| self.value(depth - 1, format)).collect::<Vec<_>>()),
            _ => Value::hash(
                (0..self.below(4)).map(|_| (self.name(), self.value(depth - 1, format))).collect::<Vec<_>>(),
            ),
        }
    }

    fn name(&mut self) -> EcoString {
        const NAMES: [&str; 8] = ["a", "b", "c", "d", "long-key", "with blank", "x.y", "80"];
        NAMES[self.below(NAMES.len())].into()
    }

    /// Returns a path to a value, or to a place for one.
    fn path(&mut self, value: &Value) -> Vec<Key> {
        let mut path = Vec::new();
        loop {
            let here = keys::get(value, &path).cloned();
            let key = match here {
                Some(Value::Hash(entries)) if !entries.is_empty() && self.below(3) > 0 => {
                    Key::Name(entries.get_index(self.below(entries.len())).unwrap().0.clone())
                }
                Some(Value::Hash(_)) => Key::Name(self.name()),
                Some(Value::Array(items)) => Key::Index(self.below(items.len() + 1)),
                _ => return path,
            };
            path.push(key);
            if self.below(3) == 0 {
                return path;
            }
        }
    }
}

fn edits_are_exact(format: Format, noise: &[(&str, &str)]) {
    for seed in 1..=60 {
        let mut random = Random(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed));
        let mut text = if format == Format::Json { "{}\n".to_owned() } else { String::new() };
        for step in 0..12 {
            let file = TextFile::parse("/x", text.as_bytes()).unwrap();
            let mut edits = Edits::new(&file);
            let mut document = Document::new(format, &mut edits).unwrap();
            let mut path = match document.get(&[]) {
                Some(value @ Value::Hash(_)) => random.path(value),
                _ => vec![Key::Name(random.name())],
            };
            let done = match random.below(4) {
                0 => document.remove(&path),
                _ => {
                    let value = random.value(3, format);
                    document.assign(&mut path, &value, random.below(4) == 0)
                }
            };
            document.store();
            let diff = edits.diff("/x");
            if let Err(why) = done {
                panic!("seed {seed}, step {step}: {why}\n{path:?}\n{text}\n{diff:?}");
            }
            text = String::from_utf8(edits.bytes()).unwrap();
            let (old, new) = noise[random.below(noise.len())];
            let noisy = text.replacen(old, new, 1);
            let file = TextFile::parse("/x", noisy.as_bytes()).unwrap();
            if Document::new(format, &mut Edits::new(&file)).is_ok() {
                text = noisy;
            }
        }
    }
}

#[test]
fn json_edits_are_exact() {
    edits_are_exact(
        Format::Json,
        &[(",\n", ", // note\n"), (": ", " :  "), ("[", "[ /* list */ "), ("\n}\n", "\n\n}\n")],
    );
}

#[test]
fn yaml_edits_are_exact() {
    edits_are_exact(
        Format::Yaml,
        &[("\n", " # note\n"), ("\n", "\n\n# about\n"), (": {}", ": {  }"), ("\n", " # x: y\n")],
    );
}

#[test]
fn toml_edits_are_exact() {
    edits_are_exact(Format::Toml, &[("1\n", "1 # note\n"), ("\n", "\n\n"), (" = ", "  =  "), ("[", "[")]);
}
