//! Tests that manifests read the written YAML back.

use kilter_manifest::{Facts, Inputs, Loader, Schemas, SecretSource, Secrets, Source, Sources, compile};
use kilter_model::expr::Lookup;
use kilter_model::{Behaviour, TypeSchema, Value};
use proptest::prelude::*;

use super::*;

/// Inputs with one type, whose attribute accepts every value.
struct OneType(TypeSchema);

impl Schemas for OneType {
    fn schema(&self, type_name: &str) -> Option<&TypeSchema> {
        (type_name == "t").then_some(&self.0)
    }

    fn names(&self) -> Vec<&str> {
        vec!["t"]
    }
}

impl Facts for OneType {
    fn fact(&self, _: &str) -> Lookup {
        Lookup::Missing
    }

    fn names(&self) -> Vec<ecow::EcoString> {
        Vec::new()
    }
}

impl Loader for OneType {
    fn load(&self, _: &str, path: &str) -> Result<Source, String> {
        Err(path.to_owned())
    }
}

impl Secrets for OneType {
    fn resolve(&self, _: &SecretSource) -> Result<Value, String> {
        Err(String::new())
    }
}

/// Returns the title and the value after they were written to a manifest and read back.
fn read_back(title: &str, value: &Value) -> (String, Value) {
    let mut yaml = Yaml::new(Texts::Manifest);
    yaml.open(0, "resources");
    yaml.open(1, &format!("t[{title}]"));
    yaml.entry(2, "v", value);
    yaml.entry(2, "w", &Value::from("end"));
    let text = yaml.finish();
    let schema = TypeSchema::new("t", "").attribute("v", "Any", Behaviour::Property, "");
    let world = OneType(schema.attribute("w", "Any", Behaviour::Property, ""));
    let mut sources = Sources::new();
    sources.add(Source::new("manifest", &text));
    let inputs = Inputs { schemas: &world, facts: &world, secrets: &world, loader: &world, overrides: &[] };
    let compiled = compile(&mut sources, &inputs);
    let catalog = compiled.unwrap_or_else(|problems| panic!("{problems:?}\n{text}")).catalog;
    let resource = &catalog.resources[0];
    assert_eq!(resource.get("w"), Some(&Value::from("end")), "{text}");
    (resource.reference.title.to_string(), resource.get("v").cloned().unwrap_or_default())
}

#[test]
fn nasty_texts_read_back_as_they_were() {
    let nasty = [
        "",
        " ",
        "  x",
        "x  ",
        "\n",
        "\n\n",
        "x\n",
        "x\n\n",
        "\nx",
        "x\n ",
        " x\ny",
        "x\n\ty\n",
        "\tx",
        "x\t",
        "x\r\n",
        "x\ry",
        "~",
        "null",
        "Null",
        "true",
        "NO",
        "on",
        "y",
        "0",
        "00",
        "0644",
        "0o7",
        "0x1F",
        "1e3",
        "1_0",
        ".5",
        "-.inf",
        ".nan",
        "12:30:45",
        "2026-01-01",
        "=",
        "<<",
        "-",
        "- x",
        "?",
        "? x",
        ":",
        "a:",
        ": a",
        "a: b",
        "a:b",
        "#",
        "a #b",
        "a#b",
        "&a",
        "*a",
        "!a",
        "%a",
        "@a",
        "`a",
        "|",
        ">",
        "{}",
        "[]",
        "{a: b}",
        "[a, b]",
        "a, b",
        "'",
        "\"",
        "\\",
        "\\n",
        "'a'",
        "${",
        "$${",
        "$$${",
        "${vars.x}",
        "$",
        "${vars.x}\n${y}\n",
        "---",
        "...",
        "--- a\nb\n",
        "...\nb\n",
        "a\n---\nb\n",
        "\u{0}",
        "\u{7}",
        "\u{7f}",
        "\u{85}",
        "\u{a0}",
        "\u{feff}",
        "a\u{feff}",
        "\u{2028}",
        "\u{2029}x\n",
        "\u{202e}",
        "\u{fffe}",
        "\u{10ffff}",
        "é",
        "日本\n語\n",
        "😀",
        "x\n\n\ny\n",
        "x\n  \ny\n",
        "x\n   ",
        "#\n#\n",
        "a\n# b\n",
    ];
    for text in nasty {
        let value = Value::from(text);
        assert_eq!(read_back("x", &value).1, value, "{text:?}");
        let nested =
            Value::array([value.clone(), Value::hash([("k", value.clone()), ("l", Value::array([value.clone()]))])]);
        assert_eq!(read_back("x", &nested).1, nested, "{text:?}");
        if !text.is_empty() {
            assert_eq!(read_back(text, &value).0, text, "{text:?}");
        }
    }
}

#[test]
fn secrets_read_back_as_secrets() {
    let secret = Value::sensitive(Value::from("${x}: 1\n"));
    assert_eq!(read_back("x", &secret).1, secret);
}

fn text() -> impl Strategy<Value = String> {
    let signs =
        prop::sample::select(" \n\t\r#:-?,[]{}&*!|>'\"%@`$\\=<~.0e_aZé\u{85}\u{2028}\u{1}".chars().collect::<Vec<_>>());
    prop_oneof![prop::collection::vec(signs, 0..12).prop_map(String::from_iter), any::<String>()]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        text().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter("is a number", |number| !number.is_nan()).prop_map(Value::Float),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::array),
            prop::collection::vec((text(), inner), 0..4)
                .prop_filter("is no secret", |entries| entries.len() != 1 || entries[0].0 != "sensitive")
                .prop_map(Value::hash),
        ]
    })
}

proptest! {
    #[test]
    fn every_value_reads_back_as_it_was(value in value()) {
        prop_assert_eq!(read_back("x", &value).1, value);
    }
}
