//! `kilter set`: changes one resource, as a manifest with only this resource would.

use std::borrow::Cow;

use ecow::EcoString;
use kilter_model::{
    AttributeSchema, Attributes, Behaviour, Catalog, Resource, ResourceRef, SourceId, Span, TypeSchema, Value,
};
use kilter_provider::Durability;
use kilter_recording::RecordMode;
use kilter_runtime::{Mode, Rejected, plan_of};

use super::exec_options::ExecOptions;
use crate::cli::SetArgs;
use crate::exit::Exit;
use crate::parse_value::{self, WordError};
use crate::reports::Reports;
use crate::session::Session;
use crate::{output, pauses, providers, signals, streams};

/// Maximum number of bytes from the standard input for one attribute.
const LONGEST_INPUT: u64 = 64 << 20;

pub(crate) fn run(args: &SetArgs, session: &Session) -> Exit {
    match set(args, session) {
        Ok(exit) | Err(exit) => exit,
    }
}

fn set(args: &SetArgs, session: &Session) -> Result<Exit, Exit> {
    let state_dir = session.state_dir_if_any().filter(|_| !args.noop && !args.even_if_paused);
    state_dir.as_deref().map_or(Ok(()), pauses::refuse)?;
    Reports::open(&args.reports, "set", &[], session)?;
    let registry = providers::registry(session)?;
    let SetRequest { type_name, name, words } = parsed_args(args)?;
    let provider =
        providers::find(&registry, type_name).inspect_err(|_| register_secrets(session, None, &words))?.as_ref();
    let schema = provider.schema();
    register_secrets(session, Some(schema), &words);
    let attributes = attributes(session, schema, &words)?;
    session.record.register_secrets(attributes.iter().map(|(_, value)| value));
    session.record.settle();
    let mut resource = resource(schema, name, attributes)?;
    if let Some(provider) = providers::named(provider, type_name) {
        resource.particulars_mut().provider = Some(provider.into());
    }
    let catalog = Catalog::of([resource]);
    signals::listen()?;
    let prepared = plan_of(catalog, &registry, &providers::declaring(registry.hostname()))
        .map_err(|rejected| signals::exit().unwrap_or_else(|| refuse(&rejected)))?;
    let mode = if args.noop { Mode::Noop } else { Mode::Apply };
    let pass = ExecOptions {
        durability: if args.no_flush { Durability::Unflushed } else { Durability::Flushed },
        ..ExecOptions::one_by_one(mode, args.format, args.even_if_paused)
    };
    Ok(pass.carry_out(&prepared, session))
}

/// Parsed arguments: the resource, and pairs of an attribute and a word.
struct SetRequest<'a> {
    type_name: &'a str,
    name: &'a str,
    words: Vec<(&'a str, &'a str)>,
}

/// Reads `TYPE NAME ATTR=VALUE…` or `TYPE[NAME] ATTR=VALUE…`.
fn parsed_args(args: &SetArgs) -> Result<SetRequest<'_>, Exit> {
    let (type_name, name) = providers::split(&args.type_name);
    let (name, rest) = match (name, args.words.split_first()) {
        (Some(name), _) => (name, args.words.as_slice()),
        (None, Some((name, rest))) => (name.as_str(), rest),
        (None, None) => return Err(output::fail("the name of a resource is missing")),
    };
    if rest.is_empty() {
        let hint = format!("`kilter types {type_name}` lists the attributes, such as mode=0644 of a file");
        return Err(output::fail_with(format_args!("ATTR=VALUE is missing for {type_name}[{name}]"), [hint]));
    }
    let words: Result<_, Exit> = rest.iter().map(|word| pair(word)).collect();
    Ok(SetRequest { type_name, name, words: words? })
}

fn pair(word: &str) -> Result<(&str, &str), Exit> {
    word.split_once('=').filter(|(attribute, _)| !attribute.is_empty()).ok_or_else(|| {
        let hint = "the name of the resource comes first, then its attributes";
        output::fail_with(format_args!("`{word}` is not of the form ATTR=VALUE"), [hint])
    })
}

/// Returns the attributes of the words. It reports every invalid word.
fn attributes(session: &Session, schema: &TypeSchema, words: &[(&str, &str)]) -> Result<Attributes, Exit> {
    let mut attributes = Attributes::new();
    let mut refused = None;
    let mut input = SetInput { record: &session.record, read_for: None };
    for (at, (name, _)) in words.iter().enumerate() {
        if words[..at].iter().any(|(earlier, _)| earlier == name) {
            continue;
        }
        let values: Vec<&str> = words.iter().filter(|(other, _)| other == name).map(|(_, value)| *value).collect();
        match settable(schema, name).and_then(|attribute| value(schema, &attribute, &values, &mut input)) {
            Ok(value) => attributes.push(*name, value),
            Err(exit) => refused = Some(exit),
        }
    }
    for attribute in schema.attributes.iter().filter(|attribute| is_missing(attribute, words)) {
        refused = Some(output::fail(format_args!("the type {} needs the attribute `{}`", schema.name, attribute.name)));
    }
    match refused {
        Some(exit) => Err(exit),
        None => Ok(attributes),
    }
}

/// Registers secret words with a recording. The value of an unknown attribute may be a secret.
fn register_secrets(session: &Session, schema: Option<&TypeSchema>, words: &[(&str, &str)]) {
    let known = |name: &str| schema.and_then(|schema| schema.known(name));
    let is_secret = |(name, value): &&(&str, &str)| {
        *value != "-" && known(name).is_none_or(|attribute| attribute.data_type.to_string().contains("Sensitive"))
    };
    session.record.learn_texts(words.iter().filter(is_secret).map(|(_, value)| value));
}

fn is_missing(attribute: &AttributeSchema, words: &[(&str, &str)]) -> bool {
    let is_absent = words.contains(&("ensure", "absent"));
    attribute.required
        && (!is_absent || attribute.behaviour == Behaviour::Parameter)
        && attribute.default.is_none()
        && attribute.behaviour != Behaviour::Namevar
        && words.iter().all(|(name, _)| attribute.name != *name)
}

fn settable<'s>(schema: &'s TypeSchema, name: &str) -> Result<Cow<'s, AttributeSchema>, Exit> {
    let type_name = &schema.name;
    let found = if is_reserved(name) { schema.find(name).map(Cow::Borrowed) } else { schema.known(name) };
    let Some(attribute) = found else {
        return Err(match name {
            _ if is_reserved(name) => {
                let hint =
                    format!("`{name}` is about other resources, or about how a run treats one: write a manifest");
                output::fail_with(format_args!("the type {type_name} has no attribute `{name}`"), [hint])
            }
            _ => parse_value::no_attribute(schema, name),
        });
    };
    match attribute.behaviour {
        Behaviour::ReadOnly => {
            Err(output::fail(format_args!("the attribute `{name}` of {type_name} can only be read")))
        }
        Behaviour::Namevar if schema.namevars().count() == 1 => {
            Err(output::fail(format_args!("`{name}` is the name of a {type_name}: pass it as NAME")))
        }
        _ => Ok(attribute),
    }
}

/// Returns true if the engine reserves a name in every resource.
fn is_reserved(name: &str) -> bool {
    matches!(name, "require" | "before" | "notify" | "subscribe" | "meta" | "when")
}

fn value(
    schema: &TypeSchema,
    attribute: &AttributeSchema,
    words: &[&str],
    input: &mut SetInput<'_>,
) -> Result<Value, Exit> {
    let result = match words {
        ["-"] => parse_value::value_of_bytes(attribute, &input.read(attribute)?),
        words => parse_value::value_of(attribute, words),
    };
    result.map_err(|error: WordError| output::fail_with(&error, error.hint_of(schema.name.as_str())))
}

/// Standard input, from which only one attribute can be read.
struct SetInput<'a> {
    record: &'a RecordMode,
    read_for: Option<EcoString>,
}

impl SetInput<'_> {
    /// Reads all of it. For a secret, a newline at the end is removed.
    fn read(&mut self, attribute: &AttributeSchema) -> Result<Vec<u8>, Exit> {
        let name = attribute.name.text();
        if let Some(other) = self.read_for.replace(name.clone()) {
            return Err(output::fail(format_args!(
                "`{other}` and `{name}` cannot both be read from the standard input"
            )));
        }
        let read = self.record.record_or_replay("input", || name.as_str().into(), || standard_input(name));
        let mut bytes = read.map_err(output::fail)?.as_bytes().unwrap_or_default().to_vec();
        if attribute.data_type.may_hold_secrets() {
            self.record.register_secrets([&Value::sensitive(Value::from_bytes(&bytes))]);
        }
        if attribute.data_type.may_hold_secrets() && bytes.last() == Some(&b'\n') {
            bytes.pop();
        }
        Ok(bytes)
    }
}

/// Reads all of the standard input, for an attribute.
fn standard_input(name: &str) -> Result<Value, String> {
    let limit = LONGEST_INPUT + 1;
    let bytes = streams::read_stdin(limit);
    let bytes = bytes.map_err(|error| format!("cannot read `{name}` from the standard input: {error}"))?;
    if bytes.len() as u64 == limit {
        return Err(format!("the standard input is too long for `{name}`"));
    }
    Ok(Value::from_bytes(&bytes))
}

/// Returns the resource with the defaults of its type. If there are several namevars, it includes those of the
/// name.
fn resource(schema: &TypeSchema, title: &str, mut attributes: Attributes) -> Result<Resource, Exit> {
    let (name, namevars) =
        schema.identify(title, &attributes).map_err(|error| parse_value::misnamed(schema, title, &error))?;
    if namevars.len() > 1 {
        namevars.iter().for_each(|(name, value)| attributes.set(name.clone(), value.clone()));
    }
    for attribute in &schema.attributes {
        if let (Some(default), None) = (&attribute.default, attributes.get(attribute.name.as_str())) {
            attributes.push(attribute.name.clone(), default.clone());
        }
    }
    let reference = ResourceRef::new(schema.name.clone(), title);
    Ok(Resource { attributes, ..Resource::new(reference, name, Span::new(SourceId(0), 0, 0)) })
}

/// Reports the problems that the provider found in the resource.
fn refuse(rejected: &Rejected) -> Exit {
    for (vertex, problem) in &rejected.problems {
        let reference = &rejected.catalog.resources[vertex.slot()].reference;
        let attribute = problem.attribute.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
        output::error(format_args!("{reference}: {attribute}{}", problem.message));
        problem.hint.iter().for_each(output::hint);
    }
    Exit::NotStarted
}
