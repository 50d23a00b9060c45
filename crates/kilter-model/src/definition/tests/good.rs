use super::*;
use crate::catalog::RelationKind;
use crate::data_type::DataType;
use crate::schema::{AutoTitle, Behaviour, Comparison, Feature};

/// Definitions that together use every key.
pub(super) const SEEDS: [&str; 4] = [
    r#"{
        "name": "apt_key",
        "desc": "Keys of apt.\n",
        "features": ["canonicalize", "remote_resource", "wibble"],
        "attributes": {
            "ensure": {"type": "Enum[present, absent]", "desc": "Whether it is there."},
            "id": {
                "type": "Variant[Pattern[/\\A(0x)?[0-9a-fA-F]{8}\\Z/], Pattern[/\\A(0x)?[0-9a-fA-F]{16}\\Z/]]",
                "behaviour": "namevar",
                "desc": "The id."
            },
            "source": {"type": "Optional[String]", "behaviour": "parameter", "desc": "Where it comes from."},
            "created": {"type": "String", "behaviour": "read_only", "desc": "When it was made.", "lazy": true}
        },
        "autorequire": {"file": "$source", "package": "apt"},
        "part_of": {"type": "repository", "by": "source", "into": "parts"}
    }"#,
    r#"{
        "name": "software",
        "desc": "Packages of several managers.",
        "title_patterns": [
            {"pattern": "^(?<package>.*[^-])-(?<manager>.*)$", "desc": "with a hyphen"},
            {"pattern": "^(?<package>.*)$", "desc": "the package alone"}
        ],
        "attributes": {
            "ensure": {"type": "Enum[present, absent]", "desc": "Whether it is there.", "default": "present"},
            "package": {"type": "String", "desc": "The package.", "behaviour": "namevar"},
            "manager": {"type": "String", "desc": "The manager.", "behaviour": "namevar"}
        }
    }"#,
    r#"{
        ":name": ":fan",
        ":desc": "Everything at once.",
        ":docs": null,
        "aliases": {"My::Port": "Integer[1, 65535]", "My::Ports": "Array[My::Port, 1]"},
        "features": [":custom_insync", "custom_generate"],
        "base_xpath": {"deep": ["kept"]},
        ":attributes": {
            ":name": {":type": "String", ":behavior": ":namevar", ":desc": "The name.", "mof_type": "String"},
            "ports": {"type": "My::Ports", "desc": "Ports.", "comparison": "set", "default": [80]},
            "version": {"type": "Optional[String]", "desc": "Bounds.", "comparison": "bounds", "providers": ["apt", "yum"]},
            "size": {"type": "Integer", "desc": "Room.", "behaviour": "init_only", "comparison": "at_least"},
            "token": {"type": "Sensitive[String]", "desc": "A secret.", "behaviour": "parameter", "default": "x", "required": true},
            "quota": {"type": "Integer", "desc": "Quota.", "lazy": true, "required_features": "custom_insync"}
        },
        "autorequire": {"Bind::Zone": ["$name", ["a", ["b"]], null, 7]},
        "autobefore": {"service": "${has(vars.version) ? vars.version : null}"},
        "autosubscribe": {"file": "/etc/${vars.name}"},
        "autonotify": {"exec": ["$ports", "$${vars.name}", ":80"]},
        "::odd": 1,
        "outputs": {"stdout": "What it said.", "ports": {"type": "Array[My::Port]", "desc": "Its ports."}}
    }"#,
    r#"{
        "name": "rule",
        "docs": "Rules.",
        "title_patterns": [{"pattern": "%r{\\A(?<number>\\d+)\\z}i", "desc": "a number"}],
        "attributes": {
            "number": {"type": "Integer", "desc": "Its number.", "behaviour": "namevar"},
            "ensure": {"type": "Variant[Undef, Enum[present, absent, 'present']]", "desc": "Whether it is there."}
        }
    }"#,
];

fn schema(seed: usize) -> (TypeSchema, Vec<Warning>) {
    from_value(&value(SEEDS[seed])).unwrap_or_else(|faults| panic!("{faults:#?}"))
}

#[test]
fn definition_in_yaml_is_read() {
    let (schema, warnings) = schema(0);
    assert_eq!(schema.name, "apt_key");
    assert_eq!(schema.desc, "Keys of apt.\n");
    assert!(schema.is_ensurable() && schema.has(Feature::RemoteResource) && schema.has_word("wibble"));
    assert!(!schema.has_word("supports_noop"));
    let behaviours: Vec<&str> = schema.attributes.iter().map(|attribute| attribute.behaviour.word()).collect();
    assert_eq!(behaviours, ["property", "namevar", "parameter", "read_only"]);
    assert!(schema.find("created").unwrap().lazy);
    let mut seen = Vec::new();
    let values = [("source", Value::from("/k"))].into_iter().collect();
    let errors =
        schema.auto_relations(&values, "1", &mut |kind, name, title| seen.push(format!("{kind:?} {name}[{title}]")));
    assert_eq!(seen, ["Require file[/k]", "Require package[apt]"]);
    assert!(errors.is_empty());
    let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        ["features[2]: the feature `wibble` is unknown; kilter ignores it (kilter knows canonicalize, \
          custom_insync, custom_generate, simple_get_filter, supports_noop, remote_resource, refresh)"]
    );
}

#[test]
fn title_patterns_split_titles() {
    assert_eq!(schema(1).0.parse_title("php-yum").unwrap().len(), 2);
    assert_eq!(schema(3).0.parse_title("42").unwrap(), [("number".into(), Value::Integer(42))]);
}

#[test]
fn kilter_keys_are_read_and_unknown_keys_kept() {
    let (schema, warnings) = schema(2);
    assert_eq!(warnings, []);
    assert_eq!(schema.extra["base_xpath"], Value::hash([("deep", Value::strings(["kept"]))]));
    assert_eq!(schema.find("name").unwrap().extra["mof_type"], "String".into());
    assert_eq!(schema.find("name").unwrap().behaviour, Behaviour::Namevar);
    let ports = schema.find("ports").unwrap();
    assert_eq!(ports.comparison, Comparison::Set);
    assert!(ports.data_type.check(&Value::array([Value::Integer(70_000)])).is_err());
    let version = schema.find("version").unwrap();
    assert!(version.is_supported_by("apt", &|_| false) && !version.is_supported_by("gem", &|_| true));
    let quota = schema.find("quota").unwrap();
    assert!(
        quota.is_supported_by("any", &|feature| schema.has_word(feature)) && !quota.is_supported_by("any", &|_| false)
    );
    let token = schema.find("token").unwrap();
    assert!(token.required && token.default == Some(Value::sensitive("x".into())));
    assert_eq!(schema.relations.len(), 4);
    assert_eq!(schema.relations[0].type_name, "bind::zone");
    let constant = |text: &str| AutoTitle::Constant(text.into());
    assert_eq!(
        schema.relations[0].titles,
        [AutoTitle::Attribute("name".into()), constant("a"), constant("b"), constant("7")]
    );
    assert_eq!(schema.relations[1].kind, RelationKind::Before);
    assert_eq!(schema.relations[3].titles[1..], [constant("${vars.name}"), constant(":80")]);
    assert_eq!(schema.extra["::odd"], Value::Integer(1));
    let [stdout, ports] = &schema.outputs[..] else { panic!("{:?}", schema.outputs) };
    assert_eq!(
        (stdout.name.as_str(), &stdout.data_type, stdout.desc.as_str()),
        ("stdout", &DataType::Any, "What it said.")
    );
    assert_eq!((ports.desc.as_str(), ports.data_type.to_string().as_str()), ("Its ports.", "Array[My::Port]"));
}

#[test]
fn a_schema_is_written_as_it_is_read() {
    for seed in 0..SEEDS.len() {
        let (schema, _) = schema(seed);
        let again = from_value(&to_value(&schema)).unwrap_or_else(|faults| panic!("{faults:#?}"));
        assert_eq!(again.0, schema);
        assert_eq!(attributes(&schema).as_hash().unwrap().len(), schema.attributes.len());
    }
    let attributes = attributes(&schema(2).0);
    let name = &attributes.as_hash().unwrap()["name"].as_hash().unwrap();
    assert_eq!((&name["mof_type"], &name["behaviour"]), (&"String".into(), &"namevar".into()));
}

#[test]
fn rust_and_data_make_the_same_schema() {
    let built = TypeSchema::new("software", "Packages of several managers.")
        .title_pattern("^(?<package>.*[^-])-(?<manager>.*)$", "with a hyphen")
        .title_pattern("^(?<package>.*)$", "the package alone")
        .attribute("ensure", "Enum[present, absent]", Behaviour::Property, "Whether it is there.")
        .default("present")
        .attribute("package", "String", Behaviour::Namevar, "The package.")
        .attribute("manager", "String", Behaviour::Namevar, "The manager.");
    assert_eq!(check(&built), []);
    assert_eq!(built, schema(1).0);
    let twice = built.attribute("manager", "String", Behaviour::Property, "Again.").compare(Comparison::Set);
    let told: Vec<String> = check(&twice).iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "attributes.manager: the attribute `manager` is declared twice",
            "attributes.manager.comparison: the comparison `set` is one of arrays, and the type String has none",
        ]
    );
}

#[test]
fn puppet_tolerated_faults_are_distinguished() {
    let reading = read(&value(
        r#"{"name": "git_config", "desc": "Settings of git.", "attributes": {
            "key": {"type": "String", "desc": "The key.", "behavior": "namevar"},
            "user": {"type": "String", "desc": "The user.", "behavior": "namevar"},
            "force": {"type": "Boolean", "desc": "Whether to.", "behavior": "parameter", "default": "no"}}}"#,
    ));
    assert_eq!(reading.faults.len(), 2);
    assert!(reading.faults.iter().all(Fault::is_tolerated));
    assert_eq!(reading.schema.parse_title("user.name").unwrap(), [("key".into(), "user.name".into())]);
    assert!(!read(&value(r#"{"name": 1}"#)).faults.iter().any(Fault::is_tolerated));
}

#[test]
fn odd_definitions_cause_warnings() {
    let reading = read(&value(
        r#"{"name": "t", "tittle_patterns": [], "features": ["custom_insyc"], "attributes": {
            "name": {"type": "String", "behaviour": "namevar", "descr": "x"},
            "found": {"type": "String", "behaviour": "read_only", "desc": "x", "default": "y"}}}"#,
    ));
    assert_eq!(reading.faults, []);
    let warnings: Vec<String> = reading.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "the definition: it has no documentation (add a `desc`)",
            "attributes.name: it has no documentation (add a `desc`)",
            "attributes.name.descr: the key `descr` is unknown; kilter ignores it (did you mean `desc`?)",
            "attributes.found.default: the default of a read_only attribute is never used",
            "features[0]: the feature `custom_insyc` is unknown; kilter ignores it (did you mean `custom_insync`?)",
            "tittle_patterns: the key `tittle_patterns` is unknown; kilter ignores it (did you mean `title_patterns`?)",
        ]
    );
}
