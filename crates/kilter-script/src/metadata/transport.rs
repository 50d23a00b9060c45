//! Metadata of a transport: its connection info, and the providers that work through it.

use std::time::Duration;

use ecow::{EcoString, eco_format};
use kilter_model::{AttributeSchema, Behaviour, DataType, Value};
use kilter_provider::TransportSchema;

use super::Metadata;
use super::attributes::{data_type, default};
use super::read::{self, MetadataReader, of_provider};
use crate::fault::Fault;
use crate::yaml::{self, Node, YamlKind};

/// Key that makes a document the metadata of a transport.
const TRANSPORT: &str = "transport";

/// Known keys of the document.
const DOCUMENT_KEYS: [&str; 2] = [TRANSPORT, "providers"];

/// Known keys of a transport.
const KEYS: [&str; 5] = ["name", "desc", "connection_info", "confine", "timeout"];

/// Known keys of a connection info key.
const INFO_KEYS: [&str; 5] = ["type", "desc", "default", "sensitive", "required"];

/// Keys of other tools, and the usual ones.
const PREFERRED: [(&str, &str); 4] = [("hostname", "host"), ("address", "host"), ("username", "user"), ("url", "uri")];

/// Parts of the names of keys that are probably secrets.
const SECRET_WORDS: [&str; 4] = ["password", "passphrase", "secret", "token"];

/// Metadata of a transport.
#[derive(Clone, Debug)]
pub struct TransportMetadata {
    /// Schema of the connection info.
    pub schema: TransportSchema,
    /// True if the program is confined, so that it cannot change this machine.
    pub confine: bool,
    /// Timeout of a call. None means kilter's default.
    pub timeout: Option<Duration>,
    /// Providers that work through the transport.
    pub providers: Vec<Metadata>,
    /// Valid constructs that are probably unintended.
    pub warnings: Vec<Fault>,
}

impl TransportMetadata {
    /// Returns true if a text is the metadata of a transport, valid or not.
    pub(crate) fn is_in(text: &str) -> bool {
        text.lines().any(|line| line.strip_prefix(TRANSPORT).is_some_and(|rest| rest.starts_with(':')))
    }

    /// Parses metadata. `stem` is the file name of the program without the extension.
    ///
    /// # Errors
    /// All faults, in order of location.
    pub fn parse(text: &str, stem: &str) -> Result<TransportMetadata, Vec<Fault>> {
        let mut reader = MetadataReader { is_remote: true, ..MetadataReader::default() };
        let root = yaml::parse(text).map_err(|fault| vec![fault])?;
        let Some(transport) = root.get(TRANSPORT).filter(|node| node.entries().is_some()) else {
            reader.fault(&root, "`transport` is a mapping with `desc` and `connection_info`");
            return Err(reader.faults);
        };
        reader.extra(&root, &DOCUMENT_KEYS);
        reader.extra(transport, &KEYS);
        let schema = schema(transport, stem, &mut reader);
        let confine = transport.get("confine").is_none_or(|node| reader.get_bool("confine", node));
        let timeout = transport.get("timeout").and_then(|node| read::timeout(node, &mut reader));
        let provider = |metadata: Metadata| Metadata {
            transport: Some(schema.name.clone()),
            timeout: metadata.timeout.or(timeout),
            ..metadata
        };
        let providers = providers(&root, &schema.name, &mut reader).into_iter().map(provider).collect();
        let MetadataReader { mut faults, mut warnings, .. } = reader;
        faults.sort_by_key(|fault| fault.at);
        warnings.sort_by_key(|fault| fault.at);
        match faults.is_empty() {
            true => Ok(TransportMetadata { schema, confine, timeout, providers, warnings }),
            false => Err(faults),
        }
    }
}

fn schema(transport: &Node, stem: &str, reader: &mut MetadataReader) -> TransportSchema {
    let name = read::name(transport, stem, reader);
    let desc = transport.get("desc").and_then(Node::text).map(|text| text.trim().into());
    if desc.is_none() {
        reader.fault_with(transport, "there is no `desc`", "describe the devices: `desc: Connects to …`");
    }
    let mut connection_info = Vec::new();
    match transport.get("connection_info") {
        Some(node) => match node.entries() {
            Some(entries) => connection_info.extend(entries.iter().map(|(key, value)| info_key(key, value, reader))),
            None => reader.fault(node, eco_format!("`connection_info` is a mapping of keys, not {}", node.what())),
        },
        None => reader.fault_with(
            transport,
            "there is no `connection_info`",
            "list its keys, such as `connection_info: {host: {type: String, desc: …}}`",
        ),
    }
    TransportSchema { name, desc: desc.unwrap_or_default(), connection_info }
}

/// Reads a key of the connection info.
fn info_key(key: &Node, value: &Node, reader: &mut MetadataReader) -> AttributeSchema {
    let name = key.text().cloned().unwrap_or_default();
    if let Some(why) = TransportSchema::reserved(&name) {
        reader.fault_with(
            key,
            why,
            "Bolt uses it for itself; the usual keys are uri, protocol, host, port, user, password",
        );
    }
    if let Some((_, usual)) = PREFERRED.iter().find(|(other, _)| *other == name) {
        reader.warn(key, eco_format!("`{name}` is usually called `{usual}`"));
    }
    let mut schema = AttributeSchema::new(name.clone(), DataType::text(), Behaviour::Parameter, "");
    if value.entries().is_none() && !value.is_null() {
        reader.fault(value, eco_format!("the key `{name}` is a mapping with `type` and `desc`, not {}", value.what()));
        return schema;
    }
    reader.extra(value, &INFO_KEYS);
    schema.desc = value.get("desc").and_then(Node::text).cloned().unwrap_or_default();
    schema.data_type = data_type(value, reader);
    let is_sensitive = value.get("sensitive").is_some_and(|node| reader.get_bool("sensitive", node));
    if is_sensitive && !schema.data_type.may_hold_secrets() {
        schema.data_type = sensitive(schema.data_type);
    }
    if !schema.data_type.may_hold_secrets() && SECRET_WORDS.iter().any(|word| name.contains(word)) {
        reader.warn(key, eco_format!("`{name}` looks like a secret; write `sensitive: true`"));
    }
    schema.default = value.get("default").map(|node| default(&schema.data_type, node));
    if let (Some(default), Some(node)) = (&schema.default, value.get("default"))
        && schema.data_type.check(default).is_err()
    {
        let expected = &schema.data_type;
        reader.fault(node, eco_format!("the default of `{name}` does not match its type {expected}"));
    }
    schema.required = match value.get("required") {
        Some(node) => reader.get_bool("required", node),
        None => schema.default.is_none() && schema.data_type.check(&Value::Undef).is_err(),
    };
    schema
}

/// Returns the type of secrets of this type.
fn sensitive(data_type: DataType) -> DataType {
    match data_type {
        DataType::Optional(inner) => DataType::Optional(Box::new(sensitive(*inner))),
        inner => DataType::Sensitive(Box::new(inner)),
    }
}

/// Reads the providers.
fn providers(root: &Node, transport: &EcoString, reader: &mut MetadataReader) -> Vec<Metadata> {
    let Some(node) = root.get("providers") else {
        reader.fault_with(root, "there are no `providers`", "list them: `providers: [{type: …, attributes: …}]`");
        return Vec::new();
    };
    let YamlKind::Sequence(nodes) = &node.kind else {
        reader.fault(node, eco_format!("`providers` is a list, not {}", node.what()));
        return Vec::new();
    };
    let mut providers = Vec::with_capacity(nodes.len());
    for node in nodes {
        if node.entries().is_none() {
            reader.fault(node, eco_format!("a provider is a mapping, not {}", node.what()));
            continue;
        }
        let metadata = of_provider(node, transport, reader);
        if metadata.actions.watch || !metadata.watches.is_empty() {
            reader.fault(node, "a provider of a transport has no watches");
        }
        providers.push(metadata);
    }
    providers
}

#[cfg(test)]
mod tests {
    use kilter_model::Feature;

    use super::*;
    use crate::convention::ConventionName;

    const GOOD: &str = r#"transport:
  desc: Connects to a box.
  timeout: 9
  connection_info:
    host: {type: String, desc: Its name.}
    port: {type: Integer, default: 443}
    password: {type: String, sensitive: true}
    pin: {type: "Optional[Integer]", sensitive: true}
providers:
- type: box_user
  attributes: {name: {}, role: {type: string}}
- type: box_vlan
  timeout: 3
"#;

    fn wrong(text: &str) -> Vec<String> {
        TransportMetadata::parse(text, "box").unwrap_err().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn transport_has_connection_info_and_remote_providers() {
        assert!(TransportMetadata::is_in(GOOD) && !TransportMetadata::is_in("provider:\n  transport: x\n"));
        let metadata = TransportMetadata::parse(GOOD, "box").unwrap();
        let schema = &metadata.schema;
        assert_eq!((schema.name.as_str(), metadata.confine, metadata.warnings.len()), ("box", true, 0));
        let types: Vec<String> = schema.connection_info.iter().map(|key| key.data_type.to_string()).collect();
        assert_eq!(types, ["String", "Integer", "Sensitive[String]", "Optional[Sensitive[Integer]]"]);
        let required: Vec<bool> = schema.connection_info.iter().map(|key| key.required).collect();
        assert_eq!(required, [true, false, true, false]);
        let [user, vlan] = &metadata.providers[..] else { panic!("there are two providers") };
        assert!(user.schema.has(Feature::RemoteResource) && user.convention == ConventionName::Json);
        assert_eq!((user.name.as_str(), user.transport.as_deref()), ("box", Some("box")));
        assert_eq!([user.timeout, vlan.timeout], [9, 3].map(|seconds| Some(Duration::from_secs(seconds))));
    }

    #[test]
    fn transport_faults_have_places() {
        let text = "transport:
  name: box
  connection_info:
    name: {type: String}
    remote-x: {}
    port: {type: Integer, default: https}
providers:
- type: t
  invoke: simple
  actions: [get, watch]
- text
";
        assert_eq!(
            wrong(text),
            [
                "2:3: there is no `desc` (describe the devices: `desc: Connects to …`)",
                "4:5: the key `name` is reserved (Bolt uses it for itself; the usual keys are uri, protocol, host, \
                 port, user, password)",
                "5:5: the key `remote-x` is reserved (Bolt uses it for itself; the usual keys are uri, protocol, host, \
                 port, user, password)",
                "6:36: the default of `port` does not match its type Integer",
                "8:3: a provider of a transport has no watches",
                "9:11: a provider of a transport has the convention json",
                "11:3: a provider is a mapping, not `text`",
            ]
        );
        assert_eq!(wrong("transport: x")[0], "1:1: `transport` is a mapping with `desc` and `connection_info`");
        let missing = wrong("transport: {desc: x}");
        assert!(
            missing[0].contains("there are no `providers`") && missing[1].contains("there is no `connection_info`")
        );
    }

    #[test]
    fn unusual_keys_are_noted() {
        let text = "transport: {desc: x, connection_info: {hostname: {}, api_token: {}}}\nproviders: [{type: t}]\n";
        let metadata = TransportMetadata::parse(text, "box").unwrap();
        let notes: Vec<&str> = metadata.warnings.iter().map(|note| note.message.as_str()).collect();
        assert_eq!(
            notes,
            ["`hostname` is usually called `host`", "`api_token` looks like a secret; write `sensitive: true`",]
        );
    }
}
