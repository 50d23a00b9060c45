//! Converts nodes to values of the expected data type.

mod names;
mod template;

use std::borrow::Cow;
use std::sync::Arc;

use ecow::{EcoString, eco_format};
use kilter_model::expr::{EvalError, Template, is_plain};
use kilter_model::{DataType, Field, Hash, Value};

use crate::diagnostic::{Diagnostic, choose};
use crate::environment::{Environment, ParsedText};
use crate::index::Index;
use crate::inputs::{EncryptedSecret, EncryptionProgram, SecretSource};
use crate::outputs::Outputs;
use crate::scalar;
use crate::tree::{NodeKind, View};

/// Maximum nesting of values, with aliases expanded.
const MAX_DEPTH: u32 = 100;

static ANY: DataType = DataType::Any;

/// Result of a conversion.
pub(crate) enum BuildResult {
    Value(Value),
    /// The value is known only after other resources have run.
    Deferred(Template),
    /// Not evaluated, because the resource is left out.
    Skipped,
    /// Invalid. The problem has been reported.
    Broken,
}

/// Converts nodes to values.
#[derive(Clone, Copy)]
pub(crate) struct Values<'e, 't> {
    environment: &'e Environment<'t>,
    /// Resources whose outputs may be used; none if outputs are not allowed.
    index: Option<&'e Index<'t>>,
    /// Number of the resource that contains the value.
    asker: u32,
    /// True if expressions are evaluated and secrets fetched.
    evaluate: bool,
    /// True while not all resources are known. References to outputs are checked later.
    is_early: bool,
    /// Attribute that contains the values; none outside of attributes, where outputs are not allowed.
    attribute: Option<&'e str>,
    /// True if the expected type is one of several alternatives.
    is_guess: bool,
    depth: u32,
}

/// Converts the node of a variable to a value; none if it is invalid, which has been reported.
pub(crate) fn of_variable<'t>(environment: &Environment<'t>, view: View<'t>) -> Option<Value> {
    Values::new(environment).build(view, &ANY).value()
}

impl<'e, 't> Values<'e, 't> {
    /// Creates a converter for values without outputs.
    pub(crate) fn new(environment: &'e Environment<'t>) -> Values<'e, 't> {
        Values {
            environment,
            index: None,
            asker: 0,
            evaluate: true,
            is_early: false,
            attribute: None,
            is_guess: false,
            depth: 0,
        }
    }

    /// Creates a converter for the attributes of a resource.
    pub(crate) fn of_resource(
        environment: &'e Environment<'t>,
        index: &'e Index<'t>,
        asker: u32,
        evaluate: bool,
    ) -> Self {
        Values { index: Some(index), asker, evaluate, ..Values::new(environment) }
    }

    /// Creates a converter for the attributes of a composite resource, before all resources are known.
    pub(crate) fn early(environment: &'e Environment<'t>, index: &'e Index<'t>) -> Values<'e, 't> {
        Values { index: Some(index), is_early: true, ..Values::new(environment) }
    }

    /// Returns a converter for a single attribute.
    pub(crate) fn of_attribute<'a>(&self, attribute: &'a str) -> Values<'a, 't>
    where
        'e: 'a,
    {
        Values { attribute: Some(attribute), ..*self }
    }

    pub(crate) fn build(&self, view: View<'t>, wanted: &DataType) -> BuildResult {
        if !self.environment.spend(view) {
            return BuildResult::Broken;
        }
        let sealed = wanted.is_sensitive();
        let built = match view.kind() {
            NodeKind::Mapping => self.mapping(view, wanted),
            NodeKind::Sequence => self.sequence(view, wanted),
            _ => {
                if sealed {
                    self.environment.hide(view.span());
                }
                self.scalar(view, wanted)
            }
        };
        // An output may be any value of the type, and its secret parts are unknown before the run. So the complete
        // value counts as sensitive.
        let is_open = matches!(built, BuildResult::Deferred(_)) && wanted.may_hold_secrets();
        if sealed || is_open { built.sealed() } else { built }
    }

    fn deeper(&self, view: View<'_>, wanted: &DataType) -> Option<Values<'e, 't>> {
        if self.depth >= MAX_DEPTH {
            let message = eco_format!("values are nested more than {MAX_DEPTH} levels deep");
            self.environment.report(Diagnostic::new(message).at(view.span()));
            return None;
        }
        let is_guess = self.is_guess || matches!(*wanted.open(), DataType::Variant(_));
        Some(Values { depth: self.depth + 1, is_guess, ..*self })
    }

    #[inline]
    fn scalar(&self, view: View<'t>, wanted: &DataType) -> BuildResult {
        let text = view.text();
        if !is_plain(text) && !view.tree().is_literal() {
            return self.template(view, wanted);
        }
        if let Some(value) = read_as(&wanted.open(), text) {
            return BuildResult::Value(value);
        }
        if view.kind() != NodeKind::Plain {
            return BuildResult::Value(view.text_value());
        }
        BuildResult::Value(match scalar::typed(text) {
            None => view.text_value(),
            Some(Value::Undef) => Value::Undef,
            Some(value) => match &*wanted.open() {
                DataType::String(..) => view.text_value(),
                wanted if accepts(wanted, &value) => value,
                wanted if accepts(wanted, &Value::from(text)) => Value::from(text),
                _ => value,
            },
        })
    }

    fn template(&self, view: View<'t>, wanted: &DataType) -> BuildResult {
        let Some(read) = self.environment.template(view) else { return BuildResult::Broken };
        let built = self.rendered(&read, view);
        if let BuildResult::Deferred(template) = &built {
            self.check_type(template, view, wanted);
        }
        if read.is_sealed() { built.sealed() } else { built }
    }

    fn rendered(&self, read: &ParsedText<Template>, view: View<'t>) -> BuildResult {
        let template = &read.parsed;
        let has_outputs = self.check_outputs(read, view);
        if !self.evaluate {
            return if has_outputs { BuildResult::Skipped } else { BuildResult::Broken };
        }
        if !has_outputs {
            self.check_names(read, view);
            return BuildResult::Broken;
        }
        let scope = Outputs { environment: self.environment, index: self.index.filter(|_| !self.is_early) };
        let rendered = template.render(&scope);
        template.fact_comparisons(&mut |compared| self.environment.check_comparison(read, &compared, view));
        match rendered {
            Ok(value) => BuildResult::Value(value),
            Err(EvalError::Unknown(_)) if !template.references().is_empty() => {
                let is_failure = |error: &EvalError| matches!(error, EvalError::Failed { .. });
                let failures: Vec<EvalError> = template.errors(&scope).into_iter().filter(is_failure).collect();
                let is_sound = failures.is_empty();
                self.environment.report_all(read, failures, view);
                self.check_names(read, view);
                if is_sound { BuildResult::Deferred(template.clone()) } else { BuildResult::Broken }
            }
            Err(_) => {
                self.environment.report_all(read, template.errors(&scope), view);
                BuildResult::Broken
            }
        }
    }

    fn sequence(&self, view: View<'t>, wanted: &DataType) -> BuildResult {
        let Some(values) = self.deeper(view, wanted) else { return BuildResult::Broken };
        let built: Vec<BuildResult> =
            view.elements().enumerate().map(|(index, v)| values.build(v, &element(wanted, index))).collect();
        match BuildResult::verdict(built.iter()) {
            PartKinds::Values => BuildResult::Value(Value::array(built.into_iter().filter_map(BuildResult::value))),
            PartKinds::Deferred => {
                BuildResult::Deferred(Template::array(built.into_iter().map(BuildResult::template).collect()))
            }
            PartKinds::Skipped => BuildResult::Skipped,
            PartKinds::Broken => BuildResult::Broken,
        }
    }

    fn mapping(&self, view: View<'t>, wanted: &DataType) -> BuildResult {
        let Some(values) = self.deeper(view, wanted) else { return BuildResult::Broken };
        let mut entries = view.entries();
        if let (Some((key, value)), None) = (entries.next(), entries.next()) {
            match key.text() {
                "sensitive" if !view.tree().is_literal() => return self.sensitive(value, wanted),
                "base64" if value.is_scalar() && takes_bytes(wanted) => return values.bytes(value, wanted),
                "template" if !view.tree().is_literal() && template::is_wanted(wanted) => {
                    return values.templated(value, false);
                }
                "file" if !view.tree().is_literal() && template::is_wanted(wanted) => {
                    return values.content(value, wanted);
                }
                _ => {}
            }
        }
        let is_template = !view.tree().is_literal() && template::is_wanted(wanted);
        if is_template && view.entries().any(|(key, _)| key.text() == "template") {
            let other =
                view.entries().find(|(key, _)| key.text() != "template").map_or(view.span(), |(key, _)| key.span());
            let problem = Diagnostic::new("`template` has no keys beside it").at(other);
            self.environment
                .report(problem.hint("a template uses `vars`, `facts` and outputs: put the values below `vars:`"));
            return BuildResult::Broken;
        }
        let mut keys = Vec::with_capacity(view.count());
        let mut built = Vec::with_capacity(view.count());
        for (key, value) in view.entries() {
            let literal = || view.tree().is_literal().then(|| Cow::Borrowed(key.text()));
            let Some(name) = literal().or_else(|| self.environment.text(key)) else {
                built.push(BuildResult::Broken);
                continue;
            };
            built.push(values.build(value, &entry(wanted, &name)));
            keys.push(EcoString::from(name));
        }
        match BuildResult::verdict(built.iter()) {
            PartKinds::Values => {
                let entries: Hash = keys.into_iter().zip(built.into_iter().filter_map(BuildResult::value)).collect();
                BuildResult::Value(Value::Hash(Arc::new(entries)))
            }
            PartKinds::Deferred => BuildResult::Deferred(Template::hash(
                keys.into_iter().zip(built.into_iter().map(BuildResult::template)).collect(),
            )),
            PartKinds::Skipped => BuildResult::Skipped,
            PartKinds::Broken => BuildResult::Broken,
        }
    }

    /// Returns the content of the file at the path below `file`.
    fn content(&self, view: View<'t>, wanted: &DataType) -> BuildResult {
        if !view.is_scalar() || view.is_null() {
            let problem = Diagnostic::new("`file` is the path of a file, relative to the manifest");
            self.environment.report(problem.at(view.span()).hint("such as { file: files/app.conf }"));
            return BuildResult::Broken;
        }
        if !self.evaluate {
            return BuildResult::Skipped;
        }
        let Some(path) = self.environment.text(view) else { return BuildResult::Broken };
        let from = self.environment.file_name(view.span().source);
        let broken = |why: EcoString| {
            self.environment.report(Diagnostic::new(why).at(view.span()));
            BuildResult::Broken
        };
        match self.environment.inputs.loader.content(&from, &path) {
            Ok(value) if accepts(wanted, &value) => BuildResult::Value(value),
            Ok(Value::String(text)) if takes_bytes(wanted) => {
                BuildResult::Value(Value::Binary(text.as_bytes().to_vec().into()))
            }
            Ok(_) => broken(eco_format!("the content of `{path}` is not a text, and this attribute takes no bytes")),
            Err(why) => broken(eco_format!("cannot read the content `{path}`: {why}")),
        }
    }

    /// Decodes the bytes below `base64`.
    fn bytes(&self, view: View<'t>, wanted: &DataType) -> BuildResult {
        if !self.evaluate {
            return BuildResult::Skipped;
        }
        let Some(text) = self.environment.text(view) else { return BuildResult::Broken };
        let Some(bytes) = kilter_model::from_base64(&text) else {
            let hint = "such as { base64: \"aGVsbG8=\" }, what `base64 FILE` prints";
            self.environment.report(Diagnostic::new("the text below `base64` is none").at(view.span()).hint(hint));
            return BuildResult::Broken;
        };
        // Bytes that are valid text become a text if the type accepts texts.
        let value = Value::from_bytes(&bytes);
        BuildResult::Value(if accepts(wanted, &value) { value } else { Value::Binary(bytes.into()) })
    }

    /// Converts the value below `sensitive`.
    fn sensitive(&self, view: View<'t>, wanted: &DataType) -> BuildResult {
        if view.is_scalar() && !view.is_null() {
            self.environment.hide(view.span());
            return match is_plain(view.text()) {
                true => self.scalar(view, &DataType::String(None, None)).sealed(),
                false => self.template(view, wanted).sealed(),
            };
        }
        let mut entries = view.entries();
        let source = match (entries.next(), entries.next()) {
            (Some((key, value)), None) if key.text() == "base64" && value.is_scalar() => {
                self.environment.hide(value.span());
                return self.bytes(value, &ANY).sealed();
            }
            (Some((key, value)), None) if key.text() == "template" => return self.templated(value, true).sealed(),
            (Some((key, value)), None) => self.secret_source(key, value),
            _ => {
                let hint = "write a text, or one of { file: PATH }, { env: NAME }, { command: [ARG, …] }, { base64: \
                    TEXT }, { template: PATH }, { age: PATH }, { systemd_creds: PATH }";
                self.environment
                    .report(Diagnostic::new("`sensitive` needs exactly one source").at(view.span()).hint(hint));
                None
            }
        };
        let Some(source) = source else { return BuildResult::Broken };
        if !self.evaluate || !self.environment.fetches() {
            return BuildResult::Skipped;
        }
        match self.environment.inputs.secrets.resolve(&source) {
            Ok(value) => BuildResult::Value(Value::sensitive(trimmed(value, &source))),
            Err(why) => {
                let problem = Diagnostic::new(eco_format!("cannot fetch the secret: {why}"));
                self.environment.report(problem.at(view.span()));
                BuildResult::Broken
            }
        }
    }

    fn secret_source(&self, key: View<'t>, value: View<'t>) -> Option<SecretSource> {
        let wrong = |message: &str, hint: EcoString, view: View<'_>| {
            self.environment.report(Diagnostic::new(message).at(view.span()).hint(hint));
        };
        match key.text() {
            "file" | "env" if !value.is_scalar() || value.is_null() => {
                wrong("the source of a secret is a text", "such as { file: /etc/secret }".into(), value);
                None
            }
            "file" => self.argument(value).map(SecretSource::File),
            "env" => self.argument(value).map(SecretSource::Env),
            "command" if value.count() == 0 || !value.elements().all(View::is_scalar) => {
                let hint = "such as { command: [pass, show, web] }; no shell is involved".into();
                wrong("the command of a secret is a list of texts", hint, value);
                None
            }
            "command" => value.elements().map(|v| self.argument(v)).collect::<Option<_>>().map(SecretSource::Command),
            key if EncryptionProgram::of_key(key).is_some() => self.encrypted(key, value),
            other => {
                let known = ["file", "env", "command", "base64", "template", "age", "systemd_creds"];
                let hint = choose(other, &known, "secrets come from");
                let message = eco_format!("unknown source of a secret `{other}`");
                wrong(&message, hint, key);
                None
            }
        }
    }

    /// Returns the source below `age` or `systemd_creds`: a path, or a mapping with `file` and an option.
    fn encrypted(&self, key: &str, view: View<'t>) -> Option<SecretSource> {
        let (program, option) = EncryptionProgram::of_key(key)?;
        let is_text = |view: View<'_>| view.is_scalar() && !view.is_null();
        let known = |(name, value): (View<'_>, View<'_>)| [option, "file"].contains(&name.text()) && is_text(value);
        let file = if view.is_mapping() { view.get("file") } else { Some(view) };
        let Some(file) = file.filter(|file| is_text(*file) && view.entries().all(known)) else {
            let hint = eco_format!("such as {{ {key}: db.secret }} or {{ {key}: {{ file: db.secret, {option}: … }} }}");
            let problem = Diagnostic::new(eco_format!("`{key}` is the path of an encrypted file"));
            self.environment.report(problem.at(view.span()).hint(hint));
            return None;
        };
        let option = match view.get(option) {
            Some(option) => Some(self.argument(option)?),
            None => None,
        };
        let (from, path) = (self.environment.file_name(view.span().source), self.argument(file)?);
        Some(SecretSource::Encrypted(EncryptedSecret { program, from, path, option }))
    }

    fn argument(&self, view: View<'t>) -> Option<EcoString> {
        match self.evaluate || is_plain(view.text()) {
            true => self.environment.text(view).map(EcoString::from),
            false => Some(EcoString::new()),
        }
    }
}

/// Removes the final line break of a file or of the output of a command.
fn trimmed(value: Value, source: &SecretSource) -> Value {
    match (value.unwrap_sensitive(), source) {
        (Value::String(text), SecretSource::File(_) | SecretSource::Command(_) | SecretSource::Encrypted(_))
            if text.ends_with('\n') =>
        {
            let line = &text[..text.len() - 1];
            Value::from(line.strip_suffix('\r').unwrap_or(line))
        }
        _ => value,
    }
}

enum PartKinds {
    Values,
    Deferred,
    Skipped,
    Broken,
}

impl BuildResult {
    fn verdict<'a>(parts: impl Iterator<Item = &'a BuildResult>) -> PartKinds {
        let mut verdict = PartKinds::Values;
        for part in parts {
            match (part, &verdict) {
                (BuildResult::Broken, _) => return PartKinds::Broken,
                (BuildResult::Skipped, _) => verdict = PartKinds::Skipped,
                (BuildResult::Deferred(_), PartKinds::Values) => verdict = PartKinds::Deferred,
                _ => {}
            }
        }
        verdict
    }

    fn value(self) -> Option<Value> {
        match self {
            BuildResult::Value(value) => Some(value),
            _ => None,
        }
    }

    fn template(self) -> Template {
        match self {
            BuildResult::Deferred(template) => template,
            other => Template::value(other.value().unwrap_or_default()),
        }
    }

    fn sealed(self) -> BuildResult {
        match self {
            BuildResult::Value(Value::Undef) => BuildResult::Value(Value::Undef),
            BuildResult::Value(value) => BuildResult::Value(Value::sensitive(value)),
            BuildResult::Deferred(template) => BuildResult::Deferred(template.sealed()),
            other => other,
        }
    }
}

fn accepts(wanted: &DataType, value: &Value) -> bool {
    wanted.check(value).is_ok()
}

/// Returns true if bytes that are not text can be a value of the type.
fn takes_bytes(wanted: &DataType) -> bool {
    match &*wanted.open() {
        DataType::Any | DataType::RichData | DataType::Binary => true,
        DataType::Variant(types) => types.iter().any(takes_bytes),
        _ => false,
    }
}

/// Parses a text as a value of a type that has no form of its own in YAML.
fn read_as(wanted: &DataType, text: &str) -> Option<Value> {
    match wanted {
        DataType::Timestamp(..)
        | DataType::Timespan(..)
        | DataType::SemVer(_)
        | DataType::SemVerRange
        | DataType::Regexp(_)
        | DataType::Type(_) => wanted.parse_word(text).ok(),
        _ => None,
    }
}

/// Returns the type of a list element.
fn element(wanted: &DataType, index: usize) -> Cow<'_, DataType> {
    let inside = |open: &DataType| match open {
        DataType::Array(of, ..) => (**of).clone(),
        DataType::Tuple(types, ..) => types.get(index).or(types.last()).unwrap_or(&ANY).clone(),
        _ => DataType::Any,
    };
    match wanted.open() {
        Cow::Borrowed(DataType::Array(of, ..)) => Cow::Borrowed(of),
        Cow::Borrowed(DataType::Tuple(types, ..)) => Cow::Borrowed(types.get(index).or(types.last()).unwrap_or(&ANY)),
        open => match &*open {
            DataType::Variant(types) => {
                let lists = types.iter().map(DataType::open);
                let found = lists.into_iter().find(|t| matches!(**t, DataType::Array(..) | DataType::Tuple(..)));
                Cow::Owned(found.map_or(DataType::Any, |list| inside(&list)))
            }
            other => Cow::Owned(inside(other)),
        },
    }
}

/// Returns the type of a hash entry.
fn entry<'d>(wanted: &'d DataType, key: &str) -> Cow<'d, DataType> {
    let field = |fields: &[Field]| fields.iter().find(|field| field.name == key).map(|field| field.data_type.clone());
    let inside = |open: &DataType| match open {
        DataType::Hash(_, of, ..) => (**of).clone(),
        DataType::Struct(fields) => field(fields).unwrap_or(DataType::Any),
        _ => DataType::Any,
    };
    match wanted.open() {
        Cow::Borrowed(DataType::Hash(_, of, ..)) => Cow::Borrowed(of),
        open => match &*open {
            DataType::Variant(types) => {
                let hashes = types.iter().map(DataType::open);
                let found = hashes.into_iter().find(|t| matches!(**t, DataType::Hash(..) | DataType::Struct(_)));
                Cow::Owned(found.map_or(DataType::Any, |hash| inside(&hash)))
            }
            other => Cow::Owned(inside(other)),
        },
    }
}
