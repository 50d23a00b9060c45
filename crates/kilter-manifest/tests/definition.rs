//! Type definitions in YAML and JSON.

#[expect(dead_code, reason = "it serves several test files")]
mod support;

use support::World;

use kilter_manifest::{Defined, Diagnostic, Source, Sources, define, render, render_warnings, to_json};
use kilter_model::{Behaviour, Feature, RelationKind, TypeSchema, Value};

fn define_as(name: &str, text: &str) -> (Result<Defined, Vec<Diagnostic>>, Sources) {
    let mut sources = Sources::new();
    let id = sources.add(Source::new(name, text));
    (define(&mut sources, id), sources)
}

/// A definition that is right and gives no warnings.
fn defined(text: &str) -> Defined {
    let (result, sources) = define_as("type.yaml", text);
    let defined = result.unwrap_or_else(|problems| panic!("{}", render(&problems, &sources, false)));
    assert!(defined.warnings.is_empty(), "{}", render_warnings(&defined.warnings, &sources, false));
    defined
}

/// Returns the messages for a definition, with `line:column`.
fn told(text: &str) -> Vec<String> {
    let (result, sources) = define_as("type.yaml", text);
    let problems = result.expect_err("the definition is wrong");
    let place = |problem: &Diagnostic| problem.span.map(|span| sources.locate(span));
    let line = |problem: &Diagnostic| {
        let place = place(problem).map_or_else(String::new, |place| format!("{}:{} ", place.line, place.column));
        format!("{place}{}", problem.message)
    };
    problems.iter().map(line).collect()
}

#[test]
fn a_remote_type_is_defined() {
    let schema = defined(include_str!("definitions/nx9k_vlan.yaml")).schema;
    assert!(schema.has(Feature::RemoteResource) && schema.is_ensurable());
    assert_eq!(schema.parse_title("42").unwrap(), [("id".into(), Value::Integer(42))]);
    assert!(schema.parse_title("4095").is_err());
    assert_eq!(schema.find("shutdown").unwrap().default, Some(Value::Boolean(false)));
}

#[test]
fn the_first_example_of_the_resource_api_is_defined() {
    let schema = defined(include_str!("definitions/apt_key.yaml")).schema;
    let behaviours: Vec<Behaviour> = schema.attributes.iter().map(|attribute| attribute.behaviour).collect();
    assert_eq!(behaviours, [Behaviour::Property, Behaviour::Namevar, Behaviour::Parameter, Behaviour::ReadOnly]);
    let id = &schema.find("id").unwrap().data_type;
    assert!(id.check(&"0xA123BCDE".into()).is_ok() && id.check(&"0xA123BCD".into()).is_err());
    let mut seen = Vec::new();
    let values = [("id", "A123BCDE"), ("source", "/k")].into_iter().collect();
    let errors = schema
        .auto_relations(&values, "A123BCDE", &mut |kind, name, title| seen.push((kind, format!("{name}[{title}]"))));
    assert!(errors.is_empty());
    assert_eq!(seen, [(RelationKind::Require, "file[/k]".into()), (RelationKind::Require, "package[apt]".into())]);
}

#[test]
fn a_type_with_several_namevars_is_defined() {
    let schema = defined(include_str!("definitions/software.yaml")).schema;
    let named = schema.parse_title("php-yum").unwrap();
    assert_eq!(named, [("package".into(), "php".into()), ("manager".into(), "yum".into())]);
    assert_eq!(schema.parse_title("php").unwrap(), [("package".into(), "php".into())]);
    let values = named.into_iter().collect();
    assert_eq!(schema.key(&values).unwrap(), r#"{"package":"php","manager":"yum"}"#);
    assert_eq!(schema.check_title("php-yum", &values), Ok(()));
}

#[test]
fn types_that_compare_by_themselves_are_defined() {
    let schema = defined(include_str!("definitions/test_custom_insync.yaml")).schema;
    assert!(schema.has(Feature::CustomInsync));
    assert!(schema.find("some_array").unwrap().data_type.check(&Value::strings(["a"])).is_ok());
    let hidden = defined(include_str!("definitions/test_custom_insync_hidden_property.yaml")).schema;
    assert!(hidden.attributes.iter().all(|attribute| !attribute.behaviour.is_compared()));
    assert_eq!(hidden.desc, "A type without properties.");
}

#[test]
fn definition_problems_have_places() {
    let (result, sources) = define_as("broken.yaml", include_str!("definitions/broken.yaml"));
    let problems = result.expect_err("the definition is wrong");
    let shown = render(&problems, &sources, false);
    assert!(!shown.contains("hunter2"), "{shown}");
    let expected = include_str!("definitions/broken.txt");
    assert_eq!(shown, expected, "\n{shown}");
    let json = to_json(&problems, &sources);
    assert_eq!(json[0]["line"], 1);
    assert!(json.as_array().is_some_and(|all| all.len() == problems.len()));
}

/// As Puppet's library does it: it asks for everything that is neither `Optional[…]` nor has a default, for properties
/// only if the resource has an `ensure` other than `absent`.
#[test]
fn missing_attributes_are_mandatory_as_in_puppet() {
    const TYPE: &str = "\
name: gate
desc: Gates.
aliases: { Word: 'Optional[String]' }
attributes:
  name: { type: String, desc: d, behaviour: namevar }
  ensure: { type: 'Enum[present, absent]', desc: d, default: present }
  chain: { type: String, desc: d }
  jump: { type: 'Variant[Undef, String]', desc: d, behaviour: init_only }
  way: { type: Integer, desc: d, behaviour: parameter }
  by: { type: Word, desc: d, behaviour: parameter }
  comment: { type: 'Optional[String]', desc: d }
  weight: { type: Integer, desc: d, default: 1 }
  owner: { type: String, desc: d, required: false }
  seen: { type: Integer, desc: d, behaviour: read_only }
";
    let problems = |definition: &str, body: &str| {
        let mut world = World::new();
        world.types.push(defined(definition).schema);
        let (result, _) = world.compile(&format!("resources:\n  gate[x]: {body}\n"));
        let problems = result.err().unwrap_or_default();
        problems.iter().map(|problem| problem.message.to_string()).collect::<Vec<_>>().join("\n")
    };
    let missing = |names: &str| format!("`gate[x]`: mandatory attributes were not provided: {names}");
    assert_eq!(problems(TYPE, "{}"), missing("`chain`, `jump`, `way`"));
    assert_eq!(problems(TYPE, "{ chain: a, jump: b, way: 1 }"), "");
    assert_eq!(problems(TYPE, "{ ensure: absent }"), missing("`way`"));

    let optional = TYPE
        .replace("'Enum[present, absent]', desc: d, default: present", "'Optional[Enum[present, absent]]', desc: d");
    assert_eq!(problems(&optional, "{ way: 1 }"), "");
    assert_eq!(problems(&optional, "{ way: 1, ensure: present }"), missing("`chain`, `jump`"));

    let without: String =
        TYPE.lines().filter(|line| !line.contains("ensure:")).map(|line| format!("{line}\n")).collect();
    assert_eq!(problems(&without, "{}"), missing("`way`"));
    let always = without.replace("chain: { type: String, ", "chain: { type: String, required: true, ");
    assert_eq!(problems(&always, "{}"), missing("`chain`, `way`"));
}

#[test]
fn required_property_is_mandatory_without_ensure_of_another_type() {
    for (ensure, is_needed) in [("Enum[present, absent]", false), ("String", true), ("Enum[running, stopped]", true)] {
        let mut world = World::new();
        let unit = TypeSchema::new("unit", "Units.").attribute("name", "String", Behaviour::Namevar, "Its name.");
        let unit = unit.attribute("ensure", ensure, Behaviour::Property, "Its state.");
        world.types.push(unit.attribute("size", "String", Behaviour::Property, "Its size.").required());
        let (result, _) = world.compile("resources:\n  unit[x]: {}\n");
        assert_eq!(result.is_err(), is_needed, "{ensure}");
    }
}

#[test]
fn json_is_read_as_yaml_is() {
    let text =
        r#"{"name": "t", "desc": "d", "attributes": {"n": {"type": "String", "desc": "d", "behaviour": "namevar"}}}"#;
    assert_eq!(define_as("t.json", text).0.unwrap().schema, defined(text).schema);
    assert_eq!(told(&text.replace("String", "Strin")).len(), 1);
    assert!(define_as("t.json", "{").0.is_err());
}

#[test]
fn problem_within_text_points_into_text() {
    let head = "name: t\ndesc: d\nattributes:\n  n: { type: String, desc: d, behaviour: namevar }\n";
    for (keys, expected) in [
        ("autorequire: { file: '/a/${vars.m}' }", "5:28 autorequire.file: there is no attribute `m`"),
        ("autorequire:\n  File:\n    - \"/a/\\\n      ${vars.m}\"", "8:9 autorequire.file: there is no attribute `m`"),
        ("autobefore: { exec: ['a', '${1 +}'] }", "5:33 autobefore.exec[1]: unexpected `}`, expected a value"),
    ] {
        assert_eq!(told(&format!("{head}{keys}\n")), [expected]);
    }
}

#[test]
fn invalid_definition_is_refused() {
    assert_eq!(told(""), ["1:1 the document has no definition"]);
    assert_eq!(
        told("- name\n"),
        ["1:1 the definition: expects a hash with the keys `name`, `desc` and `attributes`, got an Array"]
    );
    assert_eq!(told("{")[0], "1:1 not valid YAML: unclosed bracket '{'");
    let one = include_str!("definitions/software.yaml");
    assert_eq!(told(&format!("{one}---\n{one}")), ["22:1 a definition is one document: this is a second one"]);
    let deep = format!("name: {}x{}\n", "[".repeat(150), "]".repeat(150));
    assert!(told(&deep)[0].contains("levels deep"), "{:?}", told(&deep));
    let mut laughs = String::from("a0: &a0 [ha, ha, ha, ha, ha, ha, ha, ha, ha]\n");
    for level in 1..9 {
        let inner = vec![format!("*a{}", level - 1); 9].join(", ");
        laughs += &format!("a{level}: &a{level} [{inner}]\n");
    }
    assert!(told(&laughs)[0].contains("aliases add up"), "{:?}", told(&laughs));
}

#[test]
fn warnings_are_shown_at_their_places() {
    let text =
        "name: t\ndesc: d\nfeatures: [canonicalise]\nattributes:\n  n:\n    type: String\n    behaviour: namevar\n";
    let (result, sources) = define_as("type.yaml", text);
    let shown = render_warnings(&result.unwrap().warnings, &sources, false);
    let lines: Vec<&str> = shown.lines().filter(|line| line.starts_with("warning") || line.contains("-->")).collect();
    assert_eq!(
        lines,
        [
            "warning: features[0]: the feature `canonicalise` is unknown; kilter ignores it",
            " --> type.yaml:3:12",
            "warning: attributes.n: it has no documentation",
            " --> type.yaml:5:3",
        ]
    );
}

#[test]
fn random_definition_never_panics() {
    const ROUNDS: u32 = 20_000;
    const PIECES: [&str; 24] = [
        ":",
        "\n",
        "  ",
        "- ",
        "{",
        "}",
        "[",
        "]",
        "'",
        "\"",
        "#",
        "&a ",
        "*a",
        "<<: *a",
        "|\n",
        "$",
        "${vars.",
        "null",
        "\t",
        "\u{0}",
        "é",
        "type: ",
        "default: 1",
        "\n---\n",
    ];
    let seed =
        std::env::var("KILTER_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    println!("KILTER_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let seeds = [
        include_str!("definitions/nx9k_vlan.yaml"),
        include_str!("definitions/test_custom_insync.yaml"),
        include_str!("definitions/test_custom_insync_hidden_property.yaml"),
        r#"{"name": "t", "desc": "d", "autorequire": {"file": ["$n", "${vars.n}"]}, "attributes": {"n": {"type": "String"}}}"#,
    ];
    let mut taken = 0;
    for _ in 0..ROUNDS {
        let mut text: Vec<char> = seeds[random.usize(0..seeds.len())].chars().collect();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(0..text.len());
            match random.u8(0..4) {
                0 => drop(text.drain(at..(at + random.usize(1..6)).min(text.len()))),
                1 if at > 0 => text.swap(at, at - 1),
                _ => drop(text.splice(at..at, PIECES[random.usize(0..PIECES.len())].chars()).collect::<Vec<_>>()),
            }
        }
        let text: String = text.into_iter().collect();
        let (result, sources) = define_as("type.yaml", &text);
        taken += u32::from(result.is_ok());
        if let (Err(problems), 0) = (result, random.u8(0..10)) {
            assert!(!problems.is_empty() && !render(&problems, &sources, false).is_empty());
        }
    }
    assert!(taken > ROUNDS / 100 && taken < ROUNDS, "{taken} taken");
}
