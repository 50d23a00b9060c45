//! Parses metadata.

use std::time::Duration;

use ecow::{EcoString, eco_format};
use kilter_model::definition::{self, PathSegment};
use kilter_model::suggest::nearest;
use kilter_model::{AttributeSchema, Feature, Hash, TypeSchema, Value};

use super::attributes::Naming;
use super::conditions::{self, Joined};
use super::{Actions, Metadata, Origin, actions, attributes, identities, in_sync, mold, owns};
use crate::condition::Condition;
use crate::convention::ConventionName;
use crate::fault::{Fault, TextPosition};
use crate::yaml::{self, Node, YamlKind};

/// Known keys of a provider.
const KEYS: [&str; 23] = [
    "type",
    "name",
    "desc",
    "invoke",
    "actions",
    "suitable",
    "default",
    "noop_safe",
    "confine",
    "parallel",
    "timeout",
    "output",
    "attributes",
    "outputs",
    "part_of",
    "identities",
    "identifying",
    "owns",
    "watches",
    "autorequire",
    "autobefore",
    "autosubscribe",
    "autonotify",
];

/// Keys with the same meaning as in a type definition.
const OF_DEFINITIONS: [&str; 6] = ["outputs", "part_of", "autorequire", "autobefore", "autosubscribe", "autonotify"];

/// Maximum timeout of a call, in seconds.
const LONGEST_TIMEOUT: i64 = 86_400;

/// Maximum output limit, in MiB.
const LARGEST_OUTPUT: i64 = 1024;

/// Collector of faults and warnings.
#[derive(Default)]
pub(super) struct MetadataReader {
    pub(super) faults: Vec<Fault>,
    pub(super) warnings: Vec<Fault>,
    /// True for the providers of a transport. Their convention is `json`, and the transport decides their suitability.
    pub(super) is_remote: bool,
}

impl MetadataReader {
    pub(super) fn fault(&mut self, node: &Node, message: impl Into<EcoString>) {
        self.faults.push(Fault::new(node.at, message));
    }

    /// Reports a fault with a suggested correction. Ignores an empty hint.
    pub(super) fn fault_with(&mut self, node: &Node, message: impl Into<EcoString>, hint: impl Into<EcoString>) {
        self.fault_hint(node, message, Some(hint.into()).filter(|hint| !hint.is_empty()));
    }

    pub(super) fn fault_hint(&mut self, node: &Node, message: impl Into<EcoString>, hint: Option<EcoString>) {
        self.faults.push(Fault::new(node.at, message).hint_if(hint));
    }

    /// Reports a valid construct that is probably unintended.
    pub(super) fn warn(&mut self, node: &Node, message: impl Into<EcoString>) {
        self.warnings.push(Fault::new(node.at, message));
    }

    pub(super) fn get_bool(&mut self, key: &str, node: &Node) -> bool {
        let truth = node.as_bool();
        if truth.is_none() {
            self.fault(node, eco_format!("`{key}` is true or false, not {}", node.what()));
        }
        truth.unwrap_or(false)
    }

    /// Returns the unknown keys. Warns about keys that are similar to a known key.
    pub(super) fn extra(&mut self, node: &Node, known: &[&'static str]) -> Hash {
        let mut extra = Hash::default();
        for (key, value) in node.entries().unwrap_or_default() {
            let name = key.text().cloned().unwrap_or_default();
            if known.contains(&name.as_str()) {
                continue;
            }
            if let Some(near) = nearest(&name, known.iter().copied()) {
                let message = eco_format!("the key `{name}` is unknown; kilter ignores it");
                self.warnings.push(Fault::new(key.at, message).hint(eco_format!("did you mean `{near}`?")));
            }
            extra.insert(name, value.value());
        }
        extra
    }

    /// Returns the text of a required key.
    fn required<'n>(&mut self, provider: &'n Node, key: &str, hint: &str) -> Option<&'n Node> {
        let found = provider.get(key);
        match found {
            None => self.fault_with(provider, eco_format!("there is no `{key}`"), hint),
            Some(node) if node.text().is_none() => {
                self.fault_with(node, eco_format!("`{key}` is a word, not {}", node.what()), hint);
                return None;
            }
            Some(_) => {}
        }
        found
    }
}

/// Parses metadata.
pub(super) fn read(text: &str, stem: &str, origin: Origin) -> Result<Metadata, Vec<Fault>> {
    let mut reader = MetadataReader::default();
    let root = yaml::parse(text).map_err(|fault| vec![fault])?;
    if root.entries().is_none() {
        reader.fault_with(&root, eco_format!("metadata is a mapping, not {}", root.what()), "begin with `provider:`");
    }
    let Some(provider) = root.get("provider") else {
        if reader.faults.is_empty() {
            reader.fault_with(&root, "the key `provider` is missing", "begin with `provider:`");
        }
        return Err(reader.faults);
    };
    if provider.entries().is_none() {
        reader.fault(provider, eco_format!("`provider` is a mapping, not {}", provider.what()));
        return Err(reader.faults);
    }
    let metadata = of_provider(provider, stem, &mut reader);
    if metadata.convention == ConventionName::Mold && origin == Origin::Described {
        let hint = eco_format!("write it to {stem}.yaml in the directory of the script");
        let invoke = provider.get("invoke").unwrap_or(provider);
        reader.fault_with(invoke, "the convention mold has no word for a script to describe itself", hint);
    }
    let MetadataReader { mut faults, mut warnings, .. } = reader;
    faults.sort_by_key(|fault| fault.at);
    warnings.sort_by_key(|fault| fault.at);
    if faults.is_empty() { Ok(Metadata { warnings, origin, ..metadata }) } else { Err(faults) }
}

pub(super) fn of_provider(provider: &Node, stem: &str, reader: &mut MetadataReader) -> Metadata {
    let convention = convention(provider, reader);
    let (actions, one_time) = actions::read(provider, convention, reader);
    let suitable = match provider.get("suitable") {
        Some(node) => conditions::read("suitable", node, Joined::And, reader),
        None if reader.is_remote => Condition::Constant(true),
        None => {
            reader.fault_with(provider, "`suitable` is missing", "write `suitable: true`, or when it can be used");
            Condition::Constant(false)
        }
    };
    let default = provider.get("default").map(|node| conditions::read("default", node, Joined::Or, reader));
    let noop_safe = provider.get("noop_safe").is_some_and(|node| reader.get_bool("noop_safe", node));
    let confine = provider.get("confine").is_none_or(|node| reader.get_bool("confine", node));
    let parallel = provider.get("parallel").is_some_and(|node| reader.get_bool("parallel", node));
    let timeout = provider.get("timeout").and_then(|node| timeout(node, reader));
    let output = provider.get("output").and_then(|node| output(node, reader));
    let refresh = match convention {
        ConventionName::Mold => mold::refresh(provider, actions, one_time.as_deref(), reader),
        ConventionName::Simple | ConventionName::Json => actions.refresh.then(|| mold::REFRESH.into()),
    };
    let schema = schema(provider, convention, actions, noop_safe, reader);
    let schema = match convention {
        ConventionName::Mold => of_mold(provider, schema, refresh.as_ref(), reader),
        ConventionName::Simple | ConventionName::Json => schema,
    };
    let in_sync = in_sync::read(provider, convention, &schema, reader);
    let features = (!in_sync.is_empty()).then_some(Feature::CustomInsync);
    let schema = TypeSchema { features: schema.features.into_iter().chain(features).collect(), ..schema };
    let identities = by_titles(provider, "identities", &schema, identities::identities, reader);
    let owns =
        by_titles(provider, "owns", &schema, |value, schema| owns::read(value, schema).map(|owns| vec![owns]), reader);
    let watches = by_titles(provider, "watches", &schema, identities::watches, reader);
    let identifying = by_titles(provider, "identifying", &schema, identities::identifying, reader);
    Metadata {
        identities,
        identifying,
        in_sync,
        owns: owns.into_iter().next(),
        watches,
        name: name(provider, stem, reader),
        convention,
        actions,
        one_time,
        refresh,
        suitable,
        is_named_only: matches!(default, Some(Condition::Constant(false))),
        default: default.unwrap_or(Condition::Constant(false)),
        noop_safe,
        confine,
        parallel,
        timeout,
        output,
        schema,
        transport: None,
        warnings: Vec::new(),
        origin: Origin::Beside,
    }
}

fn convention(provider: &Node, reader: &mut MetadataReader) -> ConventionName {
    if reader.is_remote {
        if let Some(node) = provider.get("invoke").filter(|node| node.text().is_none_or(|text| text != "json")) {
            reader.fault(node, "a provider of a transport has the convention json");
        }
        return ConventionName::Json;
    }
    let found = reader.required(provider, "invoke", "the conventions are simple, json and mold");
    match found.and_then(Node::text).map(|text| text.as_str()) {
        Some("simple") | None => ConventionName::Simple,
        Some("json") => ConventionName::Json,
        Some("mold") => ConventionName::Mold,
        Some(other) => {
            let message = eco_format!("there is no calling convention `{other}`");
            reader.fault_with(found.unwrap_or(provider), message, "the conventions are simple, json and mold");
            ConventionName::Simple
        }
    }
}

/// Reads the name of the provider. Ignores a name that is not a text, as libral does.
pub(super) fn name(provider: &Node, stem: &str, reader: &mut MetadataReader) -> EcoString {
    let given = provider.get("name").filter(|node| matches!(node.kind, YamlKind::Scalar { .. }));
    let name = given.and_then(Node::text).cloned().unwrap_or_else(|| stem.into());
    let is_name =
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '+'));
    if !is_name {
        let message =
            eco_format!("`{name}` cannot be the name of a provider: a name has letters, digits, `_`, `-`, `.` and `+`");
        reader.fault(given.unwrap_or(provider), message);
    }
    name
}

pub(super) fn timeout(node: &Node, reader: &mut MetadataReader) -> Option<Duration> {
    let seconds = node.value().as_integer().filter(|seconds| (1..=LONGEST_TIMEOUT).contains(seconds));
    if seconds.is_none() {
        reader.fault(
            node,
            eco_format!("`timeout` is a number of seconds from 1 to {LONGEST_TIMEOUT}, not {}", node.what()),
        );
    }
    seconds.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs)
}

fn output(node: &Node, reader: &mut MetadataReader) -> Option<usize> {
    let bytes = mebibytes(&node.value());
    if bytes.is_none() {
        reader.fault(node, eco_format!("`output` is a number of MiB from 1 to {LARGEST_OUTPUT}, not {}", node.what()));
    }
    bytes
}

/// Converts a number of MiB to bytes.
pub(crate) fn mebibytes(value: &Value) -> Option<usize> {
    let number = value.as_integer().filter(|number| (1..=LARGEST_OUTPUT).contains(number))?;
    usize::try_from(number).ok().map(|number| number << 20)
}

/// Adds the specifics of a mold type to the schema.
fn of_mold(
    provider: &Node,
    schema: TypeSchema,
    refresh: Option<&EcoString>,
    reader: &mut MetadataReader,
) -> TypeSchema {
    let is_open = provider.get("open").map(|node| reader.get_bool("open", node));
    let key = schema.namevars().next().map(|key| key.name.text().clone()).unwrap_or_default();
    let schema = mold::complete(schema, &key, refresh);
    let is_open = is_open.unwrap_or_else(|| provider.get("attributes").is_none());
    if is_open { schema.with_others(mold::other()) } else { schema }
}

fn schema(
    provider: &Node,
    convention: ConventionName,
    actions: Actions,
    noop_safe: bool,
    reader: &mut MetadataReader,
) -> TypeSchema {
    let is_of_mold = convention == ConventionName::Mold;
    let key = if is_of_mold { mold::key(provider, reader) } else { "name".into() };
    let type_name = reader.required(provider, "type", "such as `type: service`").and_then(Node::text).cloned();
    let desc: Option<EcoString> = provider.get("desc").and_then(Node::text).map(|text| text.trim().into());
    let mut schema = TypeSchema::new(type_name.clone().unwrap_or_default(), desc.unwrap_or_default());
    schema.attributes = attributes::read(provider, Naming { key: &key, convention }, reader);
    if !is_of_mold {
        mold::misplaced(provider, reader);
    }
    as_defined(provider, &mut schema, reader);
    let known: Vec<&'static str> = KEYS.into_iter().chain(mold::KEYS.into_iter().filter(|_| is_of_mold)).collect();
    schema.extra = reader.extra(provider, &known);
    if actions.find {
        schema.features.push(Feature::SimpleGetFilter);
    }
    if reader.is_remote {
        schema.features.push(Feature::RemoteResource);
    }
    if actions.refresh && !is_of_mold {
        schema.features.push(Feature::Refresh);
    }
    // A provider without changes needs no call for a preview.
    if noop_safe || !actions.update {
        schema.features.push(Feature::SupportsNoop);
    }
    let faults = definition::check(&schema).into_iter();
    for fault in faults.filter(|fault| type_name.is_some() && !is_as_defined(fault.path.steps())) {
        // A missing namevar has already been reported at the location of the attribute.
        if fault.path.steps() != [PathSegment::Key("attributes".into())] || reader.faults.is_empty() {
            reader.faults.push(Fault {
                at: place(provider, fault.path.steps()),
                message: fault.message,
                hint: fault.hint,
            });
        }
    }
    schema
}

/// Reads the keys of a type definition: outputs and relations.
fn as_defined(provider: &Node, schema: &mut TypeSchema, reader: &mut MetadataReader) {
    let given = OF_DEFINITIONS.into_iter().filter_map(|key| Some((key, provider.get(key)?)));
    let mut keys: Vec<(&str, Value)> = given.map(|(key, node)| (key, node.value())).collect();
    if keys.is_empty() {
        return;
    }
    // Only the names of the attributes matter here. The other keys are read elsewhere.
    let any = |attribute: &AttributeSchema| {
        (attribute.name.text().clone(), Value::hash([("type", Value::from("Any")), ("desc", Value::from("x"))]))
    };
    let attributes = Value::hash(schema.attributes.iter().map(any));
    keys.extend([("name", Value::from("type")), ("desc", Value::from("x")), ("attributes", attributes)]);
    let reading = definition::read(&Value::hash(keys));
    for fault in reading.faults.into_iter().filter(|fault| is_as_defined(fault.path.steps())) {
        let at = place(provider, fault.path.steps());
        reader.faults.push(Fault { at, message: fault.message, hint: fault.hint });
    }
    schema.relations = reading.schema.relations;
    schema.outputs = reading.schema.outputs;
    schema.part_of = reading.schema.part_of;
    if let Some(name) = schema.outputs.iter().map(|output| &output.name).find(|name| !is_output_name(name)) {
        let at = provider.get("outputs").unwrap_or(provider);
        reader.fault(at, eco_format!("`{name}` cannot be the name of an output"));
    }
    if let Some(name) = schema.outputs.iter().map(|output| &output.name).find(|name| schema.find(name).is_some()) {
        let at = provider.get("outputs").unwrap_or(provider);
        reader.fault(at, eco_format!("`{name}` is an attribute and cannot be an output too"));
    }
}

/// Returns true if `${type[title].NAME}` is valid syntax and the name is not reserved for scripts.
fn is_output_name(name: &str) -> bool {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(is_name) && !name.starts_with("ral_")
}

/// Returns true if the path starts at a key of a type definition.
fn is_as_defined(steps: &[PathSegment]) -> bool {
    matches!(steps.first(), Some(PathSegment::Key(key)) if OF_DEFINITIONS.contains(&key.as_str()))
}

/// Reads a key with titles.
fn by_titles<T>(
    provider: &Node,
    key: &str,
    schema: &TypeSchema,
    read: impl Fn(&Value, &TypeSchema) -> Result<Vec<T>, EcoString>,
    reader: &mut MetadataReader,
) -> Vec<T> {
    let Some(node) = provider.get(key) else { return Vec::new() };
    read(&node.value(), schema).unwrap_or_else(|why| {
        reader.fault(node, why);
        Vec::new()
    })
}

/// Returns the location of a part of the definition.
fn place(provider: &Node, steps: &[PathSegment]) -> TextPosition {
    let mut at = provider;
    for step in steps {
        let name = match step {
            // The definition calls the type name `name`.
            PathSegment::Key(key) if key == "name" && steps.len() == 1 => "type",
            PathSegment::Key(key) => key.as_str(),
            PathSegment::Index(_) => break,
        };
        match at.get(name) {
            Some(next) => at = next,
            None => break,
        }
    }
    at.at
}
