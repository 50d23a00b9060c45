//! Resources in each of the formats that `kilter get` prints.

mod human;
mod json;
mod puppet;
mod yaml;

use kilter_model::{AttributeName, Behaviour, State, TypeSchema, Value};

pub(crate) use human::{one, table};
pub(crate) use json::json;
pub(crate) use puppet::puppet;
pub(crate) use yaml::{entries as yaml_entries, yaml};

/// Treatment of secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SecretHandling {
    /// Secrets are left out, or redacted in formats that are not read back.
    Hidden,
    /// Secrets are shown.
    Shown,
}

/// Declaration of a resource: attributes that can be set, and the names of the secret ones that are left out.
struct ManifestView<'a> {
    attributes: Vec<(&'a AttributeName, Value)>,
    left_out: Vec<&'a str>,
}

fn declared<'a>(schema: &'a TypeSchema, state: &'a State, secrets: SecretHandling) -> ManifestView<'a> {
    let mut declared = ManifestView { attributes: Vec::new(), left_out: Vec::new() };
    if !state.exists {
        return declared;
    }
    let several_namevars = schema.namevars().count() > 1;
    for attribute in &schema.attributes {
        let Some(value) = state.attributes.get(attribute.name.as_str()) else { continue };
        let is_told = match attribute.behaviour {
            Behaviour::Property | Behaviour::InitOnly => true,
            Behaviour::Namevar => several_namevars,
            Behaviour::ReadOnly | Behaviour::Parameter => false,
        };
        let value = attribute.data_type.sealed(value.clone());
        match (is_told, value.holds_sensitive() && secrets == SecretHandling::Hidden) {
            (true, false) => declared.attributes.push((&attribute.name, value)),
            (true, true) => declared.left_out.push(attribute.name.as_str()),
            (false, _) => {}
        }
    }
    declared
}

/// Returns true if a missing resource can be declared absent.
fn can_be_absent(schema: &TypeSchema) -> bool {
    schema.find("ensure").is_some_and(|ensure| ensure.data_type.check(&Value::from("absent")).is_ok())
}

/// Returns the reason why a missing resource is not shown as absent; none if it exists, or can be declared absent.
fn missing(schema: &TypeSchema, state: &State) -> Option<&'static str> {
    match state.exists {
        true => None,
        false if state.is_unknown => Some("does not exist and cannot be created"),
        false => (!can_be_absent(schema)).then_some("does not exist"),
    }
}

/// Returns the note about secrets that were left out.
fn left_out(names: &[&str]) -> String {
    let are = if names.len() == 1 { "is secret and" } else { "are secret and" };
    format!("{} {are} omitted; --show-sensitive includes secrets", names.join(", "))
}

#[cfg(test)]
mod tests {
    use kilter_model::Attributes;

    use super::*;

    fn schema() -> TypeSchema {
        TypeSchema::new("user", "A user.")
            .attribute("name", "String", Behaviour::Namevar, "")
            .attribute("ensure", "Enum[present, absent]", Behaviour::Property, "")
            .attribute("uid", "Integer", Behaviour::Property, "")
            .attribute("groups", "Array[String]", Behaviour::Property, "")
            .attribute("password", "Sensitive[String]", Behaviour::Property, "")
            .attribute("managehome", "Boolean", Behaviour::Parameter, "")
            .attribute("age", "Integer", Behaviour::ReadOnly, "")
    }

    fn states() -> Vec<State> {
        let attributes: Attributes = [
            ("age", Value::from(1)),
            ("uid", Value::from(7)),
            ("ensure", Value::from("present")),
            ("groups", Value::strings(["a", "b's"])),
            ("password", Value::sensitive(Value::from("x$1"))),
        ]
        .into_iter()
        .collect();
        vec![State::present("bob", attributes), State::absent("no")]
    }

    #[test]
    fn exported_manifest_has_settable_attributes_and_no_secrets() {
        let expected = "\
resources:
  user[bob]:
    ensure: present
    uid: 7
    groups:
      - a
      - \"b's\"
    # password is secret and omitted; --show-sensitive includes secrets
  user[no]:
    ensure: absent
";
        assert_eq!(yaml(&schema(), &states(), SecretHandling::Hidden), expected);
        assert!(
            yaml(&schema(), &states(), SecretHandling::Shown).contains("    password:\n      sensitive: \"x$1\"\n")
        );
        assert_eq!(yaml(&schema(), &[], SecretHandling::Hidden), "resources: {}\n");
    }

    #[test]
    fn puppet_gets_aligned_arrows() {
        let expected = "\
user { 'bob':
  ensure => 'present',
  uid    => 7,
  groups => ['a', 'b\\'s'],
  # password is secret and omitted; --show-sensitive includes secrets
}

user { 'no':
  ensure => 'absent',
}
";
        let puppet = |secrets| puppet(&schema(), "shadow", &states(), secrets).unwrap();
        assert_eq!(puppet(SecretHandling::Hidden), expected);
        assert!(puppet(SecretHandling::Shown).contains("  password => Sensitive('x$1'),\n"));
    }

    /// Returns one resource in the Puppet language. Attributes are texts, or lists if they contain `;`.
    fn in_puppet(type_name: &str, name: &str, attributes: &[(&str, &str)]) -> Result<String, String> {
        let mut schema = TypeSchema::new(type_name, "").attribute("name", "String", Behaviour::Namevar, "").attribute(
            "ensure",
            "Enum[present, absent, broken, running, stopped, file]",
            Behaviour::Property,
            "",
        );
        let mut values = Attributes::new();
        for (attribute, text) in attributes {
            if *attribute != "ensure" {
                schema = schema.attribute(attribute, "Any", Behaviour::Property, "");
            }
            let list = text.split(';').filter(|part| !part.is_empty());
            values.push(*attribute, if text.contains(';') { Value::strings(list) } else { Value::from(*text) });
        }
        let provider = if type_name == "package" { "apt" } else { "any" };
        puppet(&schema, provider, &[State::present(name, values)], SecretHandling::Hidden)
    }

    #[test]
    fn resources_are_those_that_puppet_has() {
        let times = [("minute", "15,45"), ("hour", "3"), ("weekday", "*")];
        for (type_name, name, attributes, expected) in [
            (
                "cron",
                "backup",
                [&[("command", "x"), ("special", "none"), ("environment", ";")][..], &times].concat(),
                "command => 'x',\nminute  => ['15', '45'],\nhour    => '3',\nweekday => '*',\n",
            ),
            (
                "cron",
                "bob:daily",
                [&[("user", "bob"), ("special", "daily"), ("environment", "A=b;")][..], &times].concat(),
                "name        => 'daily',\nuser        => 'bob',\nspecial     => 'daily',\nenvironment => ['A=b'],\n",
            ),
            ("package", "a", vec![("ensure", "present"), ("version", "1.0"), ("latest", "x")], "ensure => '1.0',\n"),
            ("package", "a", vec![("ensure", "absent")], "ensure => 'absent',\n"),
            ("service", "a", vec![("ensure", "stopped"), ("enable", "static")], "ensure => 'stopped',\n"),
            (
                "service",
                "a",
                vec![("ensure", "running"), ("enable", "true")],
                "ensure => 'running',\nenable => 'true',\n",
            ),
            (
                "ssh_authorized_key",
                "bob:b@c",
                vec![("user", "bob"), ("options", ";")],
                "name => 'b@c',\nuser => 'bob',\n",
            ),
            (
                "file",
                "/a",
                vec![("ensure", "file"), ("acl", "x")],
                "ensure => 'file',\n# left out, since Puppet's `file` has nothing like it: acl\n",
            ),
        ] {
            let text = in_puppet(type_name, name, &attributes).unwrap();
            let lines: String = expected.lines().map(|line| format!("  {line}\n")).collect();
            assert_eq!(text, format!("{type_name} {{ '{name}':\n{lines}}}\n"));
        }
        let broken = in_puppet("package", "a", &[("ensure", "broken")]).unwrap();
        assert_eq!(broken, "# package[a] is left out: it is half installed\n");
    }

    #[test]
    fn types_unknown_to_puppet_are_refused_or_reported() {
        for type_name in ["sysctl", "kv", "exec", "notify", "timer"] {
            assert!(in_puppet(type_name, "a", &[]).is_err(), "{type_name}");
        }
        let schema = TypeSchema::new("package", "").attribute("name", "String", Behaviour::Namevar, "");
        assert!(puppet(&schema, "npm", &[], SecretHandling::Hidden).unwrap_err().contains("`npm`"));
        let told = in_puppet("thing", "a", &[]).unwrap();
        assert!(told.starts_with("# The type `thing` does not come with Puppet"), "{told}");
    }

    #[test]
    fn equal_puppet_titles_are_exported_once() {
        let schema = TypeSchema::new("cron", "").attribute("name", "String", Behaviour::Namevar, "").attribute(
            "user",
            "String",
            Behaviour::InitOnly,
            "",
        );
        let of = |user: &str| State::present(format!("{user}:x"), [("user", Value::from(user))].into_iter().collect());
        let text = puppet(&schema, "cron", &[of("a"), of("b")], SecretHandling::Hidden).unwrap();
        assert!(text.ends_with("}\n\n# cron[b:x] is omitted: Puppet accepts each name only once\n"), "{text}");
    }

    #[test]
    fn json_export_is_complete_and_redacted() {
        let tree = |secrets| {
            serde_json::from_str::<serde_json::Value>(&json(&schema(), states(), secrets).collect::<String>()).unwrap()
        };
        let shown = tree(SecretHandling::Hidden);
        assert_eq!(shown[0]["attributes"]["age"], 1);
        assert_eq!(shown[0]["attributes"]["password"], "[redacted]");
        assert_eq!(shown[1]["exists"], false);
        assert_eq!(tree(SecretHandling::Shown)[0]["attributes"]["password"], "x$1");
        for states in [&[][..], &states()[..1], &states()] {
            let text: String = json(&schema(), states.to_vec(), SecretHandling::Shown).collect();
            let tree: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(text, format!("{tree:#}"));
        }
    }

    #[test]
    fn table_omits_uniform_columns() {
        let (text, _) = table(&schema(), &states(), SecretHandling::Hidden, None);
        let text = anstream::adapter::strip_str(&text).to_string();
        assert_eq!(text, "NAME  ENSURE   UID  GROUPS  AGE\nbob   present  7    a, b's  1\nno    absent\n");
    }

    #[test]
    fn one_resource_is_shown_attribute_by_attribute() {
        let text = one(&schema(), &states()[0], SecretHandling::Hidden);
        let text = anstream::adapter::strip_str(&text).to_string();
        let expected = "\
user[bob]
  ensure    present
  uid       7
  groups    a, b's
  password  [redacted]
  age       1
";
        assert_eq!(text, expected);
    }

    #[test]
    fn bytes_that_are_not_text_are_base_64() {
        let schema =
            TypeSchema::new("blob", "").attribute("content", "Variant[String, Binary]", Behaviour::Property, "");
        let bytes = Value::Binary(b"\xff\x00".as_slice().into());
        let states = [State::present("a", [("content", bytes)].into_iter().collect())];
        let manifest = yaml(&schema, &states, SecretHandling::Hidden);
        assert!(
            manifest.contains("    content:\n      base64: \"/wA=\"\n") || manifest.contains("base64: /wA="),
            "{manifest}"
        );
        let exported = puppet(&schema, "any", &states, SecretHandling::Hidden).unwrap();
        assert!(
            exported.contains("content => Binary('/wA=')") && exported.starts_with("# The type `blob`"),
            "{exported}"
        );
        let shown: serde_json::Value =
            serde_json::from_str(&json(&schema, states.to_vec(), SecretHandling::Hidden).collect::<String>()).unwrap();
        assert_eq!(shown[0]["attributes"]["content"]["base64"], "/wA=");
    }
}
