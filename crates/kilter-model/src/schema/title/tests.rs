use super::*;
use crate::schema::Behaviour;

fn software() -> TypeSchema {
    TypeSchema::new("software", "Packages of several managers.")
        .title_pattern("^(?<package>.*[^-])-(?<manager>.*)$", "package and manager with a hyphen between")
        .title_pattern("^(?<package>.*)$", "the package alone")
        .attribute("ensure", "Enum[present, absent]", Behaviour::Property, "Whether it is there.")
        .attribute("package", "String", Behaviour::Namevar, "The package.")
        .attribute("manager", "String", Behaviour::Namevar, "What installs it.")
}

fn attributes(entries: &[(&str, &str)]) -> Attributes {
    entries.iter().map(|(name, value)| (*name, *value)).collect()
}

#[test]
fn first_matching_title_pattern_wins() {
    let named = |title| software().parse_title(title).unwrap();
    assert_eq!(named("php-yum"), [("package".into(), "php".into()), ("manager".into(), "yum".into())]);
    assert_eq!(named("php"), [("package".into(), "php".into())]);
}

#[test]
fn unmatched_title_error_lists_patterns() {
    let schema = TypeSchema::new("composite", "")
        .title_pattern("^(?<package>[a-z]+)-(?<manager>[a-z]+)$", "with a hyphen")
        .title_pattern("^(?<package>[a-z]+)$", "alone")
        .attribute("package", "String", Behaviour::Namevar, "")
        .attribute("manager", "String", Behaviour::Namevar, "");
    assert_eq!(
        schema.parse_title("php123").unwrap_err().to_string(),
        "No set of title patterns matched the title \"php123\": \
         tried /^(?<package>[a-z]+)-(?<manager>[a-z]+)$/, /^(?<package>[a-z]+)$/"
    );
}

#[test]
fn without_patterns_the_title_is_the_namevar() {
    let schema = TypeSchema::new("t", "").attribute("path", "String", Behaviour::Namevar, "");
    assert_eq!(schema.parse_title("/a b\n-").unwrap(), [("path".into(), "/a b\n-".into())]);
    assert_eq!(TypeSchema::new("t", "").parse_title("x").unwrap(), []);
}

#[test]
fn value_from_title_has_type_of_namevar() {
    let schema = TypeSchema::new("rule", "")
        .title_pattern(r"\A(?<number>-?\d+)(?: (?<chain>\S+))?\z", "number and chain")
        .attribute("number", "Integer[0, 999]", Behaviour::Namevar, "")
        .attribute("chain", "Enum['INPUT', 'OUTPUT']", Behaviour::Namevar, "");
    assert_eq!(schema.parse_title("10").unwrap(), [("number".into(), Value::Integer(10))]);
    assert_eq!(schema.parse_title("7 INPUT").unwrap()[1], ("chain".into(), "INPUT".into()));
    let wrong = schema.parse_title("7 WIBBLE").unwrap_err().to_string();
    assert!(
        wrong.starts_with("the title \"7 WIBBLE\" gives the namevar `chain` a wrong value: chain expects"),
        "{wrong}"
    );
    assert!(matches!(schema.parse_title("1000"), Err(TitleError::Value { .. })));
    let truth = |text| from_text(&"Boolean".parse().unwrap(), text);
    assert_eq!(truth("true").unwrap(), Value::Boolean(true));
    assert!(truth("yes").is_err());
    assert_eq!(from_text(&"Float".parse().unwrap(), "1.5").unwrap(), Value::Float(1.5));
    assert_eq!(from_text(&"Variant[Integer, String]".parse().unwrap(), "1").unwrap(), "1".into());
}

#[test]
fn title_matching_time_is_bounded() {
    let evil = TypeSchema::new("t", "")
        .attribute("name", "String", Behaviour::Namevar, "")
        .title_pattern(r"\A(?<name>(a|a(?=a)|aa)+)(?<!a)b\z", "goes back exponentially often");
    let title = "a".repeat(5000);
    assert!(matches!(evil.parse_title(&title), Err(TitleError::Pattern { .. })));
    assert!(matches!(evil.parse_title(&"a".repeat(MAX_TITLE_BYTES + 1)), Err(TitleError::TooLong { .. })));
    let wrong = TypeSchema::new("t", "").attribute("name", "String", Behaviour::Namevar, "").title_pattern("(", "");
    assert!(matches!(wrong.parse_title("x"), Err(TitleError::Pattern { .. })));
}

#[test]
fn a_key_is_the_namevar_or_all_of_them_in_order() {
    let single = TypeSchema::new("t", "").attribute("id", "Variant[Integer, String]", Behaviour::Namevar, "");
    assert_eq!(single.key(&[("id", Value::Integer(7))].into_iter().collect()).unwrap(), "7");
    assert_eq!(single.key(&Attributes::new()), None);
    let both = attributes(&[("manager", "yum"), ("ensure", "present"), ("package", "p\"hp")]);
    assert_eq!(software().key(&both).unwrap(), r#"{"package":"p\"hp","manager":"yum"}"#);
    assert_eq!(software().key(&attributes(&[("package", "php")])), None);
    let optional = TypeSchema::new("t", "").attribute("name", "String", Behaviour::Namevar, "").attribute(
        "device",
        "Optional[String]",
        Behaviour::Namevar,
        "",
    );
    assert_eq!(optional.key(&attributes(&[("name", "x")])).unwrap(), r#"{"name":"x","device":null}"#);
    let sealed: Attributes = [("id", Value::sensitive("x".into()))].into_iter().collect();
    assert_eq!(single.key(&sealed), None);
}

#[test]
fn a_title_must_agree_with_the_namevars() {
    let php = attributes(&[("package", "php"), ("manager", "yum")]);
    assert_eq!(software().check_title("php-yum", &php), Ok(()));
    assert_eq!(software().check_title("php", &php), Ok(()));
    assert_eq!(
        software().check_title("ruby-gem", &php).unwrap_err().to_string(),
        "the title \"ruby-gem\" does not match all namevars: \
         `package` is \"php\", by the title \"ruby\", `manager` is \"yum\", by the title \"gem\""
    );
    assert!(matches!(software().check_title("", &php), Err(TitleError::Disagrees { .. })));
}

#[test]
fn title_and_attributes_combine_to_name() {
    let schema = TypeSchema::new("software", "")
        .title_pattern(r"^(?<package>.*[^-])-(?<manager>.*)$", "PACKAGE-MANAGER")
        .title_pattern("^(?<package>.*)$", "PACKAGE, with a manager")
        .attribute("package", "String", Behaviour::Namevar, "")
        .attribute("manager", "Enum[apt, gem]", Behaviour::Namevar, "");
    let key = |title: &str, given: &[(&str, &str)]| {
        let given = attributes(given);
        schema.identify(title, &given).map(|(key, _)| key.to_string()).map_err(|error| error.to_string())
    };
    let php = r#"{"package":"php","manager":"apt"}"#;
    assert_eq!(key("php-apt", &[]).as_deref(), Ok(php));
    assert_eq!(key("php", &[("manager", "apt")]).as_deref(), Ok(php));
    assert_eq!(key(php, &[]).as_deref(), Ok(php), "a key is a title");
    assert_eq!(key("x-gem", &[("package", "php"), ("manager", "apt")]).as_deref(), Ok(php), "what is given counts");
    assert_eq!(key("php", &[]).unwrap_err(), r#""php" does not fully name a resource, which needs package, manager"#);
    assert!(key("php-yum", &[]).unwrap_err().contains("Enum['apt', 'gem']"));
    assert_eq!(
        key(r#"{"package":"php"}"#, &[("manager", "apt")]).unwrap(),
        r#"{"package":"{\"package\":\"php\"}","manager":"apt"}"#
    );
}

#[test]
fn duplicate_group_name_gives_one_value() {
    let schema = TypeSchema::new("t", "")
        .title_pattern(r"^(?<package>.*[^-])-(?<package>.*)$|^(?<package>x)$", "")
        .attribute("package", "String", Behaviour::Namevar, "");
    for title in ["php-yum", "x"] {
        let namevars = schema.parse_title(title).unwrap();
        assert!(namevars.len() <= 1, "{title}: {namevars:?}");
    }
}
