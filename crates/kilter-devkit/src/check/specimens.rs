//! Specimens for a test: from the file beside the provider, or generated from its types.

use std::path::{Path, PathBuf};

use kilter_model::{AttributeSchema, Attributes, Behaviour, DataType, TypeSchema, Value, to_json};
use kilter_provider::{Provider, ValidationError};

use super::candidate::Candidate;
use crate::check_file::CheckFile;
use crate::conformance::{Sample, Unsupported};

/// Specimens for a test.
pub struct Specimens {
    /// The specimens, with the other keys of a check file.
    pub file: CheckFile,
    /// Origin of the specimens.
    pub origin: SpecimenOrigin,
}

/// Origin of specimens.
pub enum SpecimenOrigin {
    /// A check file.
    File(PathBuf),
    /// Generated, because there is no file.
    Types,
}

impl Specimens {
    /// Returns the path of the check file for a script.
    pub fn beside(script: &Path) -> PathBuf {
        let is_named = script.extension().is_some_and(|end| end == "prov");
        let stem = if is_named { script.with_extension("") } else { script.to_owned() };
        PathBuf::from(format!("{}.check.yaml", stem.display()))
    }

    /// Reads a check file. Without one, generates specimens from the types of the attributes.
    ///
    /// # Errors
    /// All problems of the file, each with its place.
    pub fn read(file: Option<PathBuf>, candidate: &Candidate) -> Result<Specimens, Vec<String>> {
        let Some(path) = file else {
            return Ok(Specimens { file: made_up(candidate), origin: SpecimenOrigin::Types });
        };
        let text = std::fs::read_to_string(&path).map_err(|error| vec![format!("{}: {error}", path.display())])?;
        match CheckFile::parse(&text, candidate.schema()) {
            Ok(file) => Ok(Specimens { file, origin: SpecimenOrigin::File(path) }),
            Err(faults) => Err(faults.iter().map(|fault| format!("{}:{fault}", path.display())).collect()),
        }
    }

    /// Returns a template for the check file of a provider.
    pub fn example(candidate: &Candidate) -> String {
        example(candidate)
    }
}

fn made_up(candidate: &Candidate) -> CheckFile {
    let made = GeneratedResource::two(candidate);
    CheckFile {
        specimens: made.iter().map(GeneratedResource::specimen).collect(),
        unknown: vec!["kilter-check-unknown".into()],
        without: lacks(candidate),
        ..CheckFile::default()
    }
}

fn lacks(candidate: &Candidate) -> Vec<(Unsupported, ecow::EcoString)> {
    match candidate.convention() {
        "mold" => vec![(Unsupported::Listing, "a script of mold cannot list its resources".into())],
        _ => Vec::new(),
    }
}

fn example(candidate: &Candidate) -> String {
    let made = GeneratedResource::two(candidate);
    let specimens: String = made.iter().map(GeneratedResource::yaml).collect();
    let listing =
        if lacks(candidate).is_empty() { "" } else { "  listing: a script of mold cannot list its resources\n" };
    let name = candidate.schema().namevars().next().map_or("name", |namevar| namevar.name.as_str());
    format!(
        "# What `kilter provider check` tries the provider `{}` of {} with. All keys: \
         docs/reference/provider-check.md.\n\n\
         # Resources that may be made, changed and removed: two at least. These are made up from the types of the \
         attributes.\n\
         specimens:\n{specimens}\n\
         # Names that do not exist.\n\
         unknown: [kilter-check-unknown]\n\n\
         # Shell commands that prepare each fresh sandbox for the resources.\n\
         # setup: mkdir -p /srv/example\n\n\
         # A change that the types allow, and that cannot be made; or, below, why there is none.\n\
         # failing: {{name: the value of `{name}`, present: {{}}}}\n\n\
         # A change that takes a minute, and a shell command that succeeds once it is under way; or, below, why there \
         is none.\n\
         # slow: {{name: the value of `{name}`, present: {{}}, begun: test -e /run/example}}\n\n\
         # What cannot be had, and why.\n\
         without:\n{listing}  # failing: why no change can fail\n  # slow: why no change takes long enough to be \
         interrupted\n\n\
         # Attributes that are not tried with values at the edge of their types, and why.\n\
         # sparing: {{ATTRIBUTE: why}}\n\n\
         # Files that tell nothing: logs, caches.\n\
         ignore: []\n",
        candidate.provider().name(),
        candidate.schema().name
    )
}

/// Generated resource.
struct GeneratedResource {
    namevars: Attributes,
    present: Attributes,
    changed: Attributes,
}

impl GeneratedResource {
    fn two(candidate: &Candidate) -> [GeneratedResource; 2] {
        [1, 2].map(|number| GeneratedResource::new(candidate, number))
    }

    fn new(candidate: &Candidate, number: usize) -> GeneratedResource {
        let schema = candidate.schema();
        let (present, changed) = attributes(candidate.provider());
        let namevars = schema
            .namevars()
            .map(|namevar| (namevar.name.clone(), name(candidate.provider(), namevar, number)))
            .collect();
        GeneratedResource { namevars, present, changed }
    }

    fn specimen(&self) -> Sample {
        let mut namevars = self.namevars.iter();
        let specimen = match (namevars.next(), namevars.next()) {
            (Some((_, Value::String(name))), None) => Sample::new(name.clone()),
            _ => Sample::keyed(borrowed(&self.namevars)),
        };
        let specimen = specimen.present(borrowed(&self.present));
        if self.changed.is_empty() { specimen } else { specimen.changed(borrowed(&self.changed)) }
    }

    fn yaml(&self) -> String {
        let flow = |attributes: &Attributes| {
            let entries = attributes.iter().map(|(name, value)| format!("{name}: {}", to_json(value)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        };
        let mut namevars = self.namevars.iter();
        let name = match (namevars.next(), namevars.next()) {
            (Some((_, name)), None) => to_json(name).to_string(),
            _ => flow(&self.namevars),
        };
        let changed =
            if self.changed.is_empty() { String::new() } else { format!("    changed: [{}]\n", flow(&self.changed)) };
        format!("  - name: {name}\n    present: {}\n{changed}", flow(&self.present))
    }
}

fn borrowed(attributes: &Attributes) -> Vec<(&str, Value)> {
    attributes.iter().map(|(name, value)| (name.as_str(), value.clone())).collect()
}

/// Returns a name that the provider accepts, if possible.
fn name(provider: &dyn Provider, namevar: &AttributeSchema, number: usize) -> Value {
    let words = [
        format!("kilter-check-{number}"),
        format!("kilter_check_{number}"),
        format!("kiltercheck{number}"),
        format!("/tmp/kilter-check-{number}"),
    ];
    let is_taken = |word: &str| {
        let of_name = |problem: &ValidationError| problem.attribute.as_ref().is_some_and(|of| *of == namevar.name);
        namevar.data_type.check(&Value::from(word)).is_ok()
            && !provider.validate(word, &Attributes::new(), &[]).iter().any(of_name)
    };
    let others = || samples(&namevar.data_type).into_iter().nth(number - 1);
    let fitting = words.iter().find(|word| is_taken(word)).map(|word| Value::from(word.as_str()));
    fitting.or_else(others).unwrap_or_else(|| Value::from(words[0].as_str()))
}

/// Returns two declarations of a resource, with as many compatible attributes as possible.
fn attributes(provider: &dyn Provider) -> (Attributes, Attributes) {
    let (mut present, mut changed) = (Attributes::new(), Attributes::new());
    for attribute in settable(provider.schema()) {
        let mut taken = Vec::new();
        for value in samples(&attribute.data_type) {
            let mut more = present.clone();
            more.set(attribute.name.clone(), value.clone());
            if goes_with(provider, attribute.name.as_str(), &more, &present) {
                taken.push(value);
            }
        }
        let mut taken = taken.into_iter();
        if let Some(first) = taken.next() {
            present.set(attribute.name.clone(), first);
        }
        if let Some(second) = taken.next().filter(|_| attribute.behaviour == Behaviour::Property) {
            changed.set(attribute.name.clone(), second);
        }
    }
    (present, changed)
}

/// Returns true if a provider accepts an additional attribute. Earlier problems of the others do not matter.
fn goes_with(provider: &dyn Provider, attribute: &str, more: &Attributes, before: &Attributes) -> bool {
    let problems = |given: &Attributes| {
        let mut should = given.clone();
        let present = Value::from("present");
        let ensure = provider.schema().find("ensure");
        if ensure.is_some_and(|ensure| ensure.data_type.check(&present).is_ok()) {
            should.set("ensure", present);
        }
        provider.validate("kilter-check", &should, &[])
    };
    let is_of = |problem: &ValidationError| problem.attribute.as_ref().is_some_and(|of| *of == attribute);
    let now = problems(more);
    !now.iter().any(is_of) && now.len() <= problems(before).len()
}

/// Returns the attributes to set, required ones first.
fn settable(schema: &TypeSchema) -> impl Iterator<Item = &AttributeSchema> {
    let is_meant = |attribute: &&AttributeSchema| {
        let is_usual = matches!(attribute.behaviour, Behaviour::Property | Behaviour::InitOnly);
        attribute.name != "ensure" && (is_usual || attribute.required && attribute.behaviour == Behaviour::Parameter)
    };
    let (required, others): (Vec<_>, Vec<_>) =
        schema.attributes.iter().filter(is_meant).partition(|attribute| attribute.required);
    required.into_iter().chain(others)
}

/// Returns generated values of a type, without its limits.
fn samples(data_type: &DataType) -> Vec<Value> {
    let mut values: Vec<Value> = Vec::new();
    for value in made_of(data_type) {
        if !value.is_undef() && data_type.check(&value).is_ok() && !values.contains(&value) {
            values.push(value);
        }
    }
    values
}

fn made_of(data_type: &DataType) -> Vec<Value> {
    match data_type {
        DataType::Boolean(_) => vec![Value::Boolean(true), Value::Boolean(false)],
        DataType::Integer(from, to) => {
            let least = from.unwrap_or(1).max(1);
            [Some(least), least.checked_add(1), *to, *from].into_iter().flatten().map(Value::Integer).collect()
        }
        DataType::Float(from, _) => [1.5, 2.5].map(|add| Value::Float(from.unwrap_or(0.0) + add)).to_vec(),
        DataType::Enum(words) | DataType::EnumAnyCase(words) => words.iter().cloned().map(Value::String).collect(),
        DataType::Literal(word) => vec![Value::String(word.clone())],
        DataType::Array(of, least, _) => {
            let count = usize::try_from(least.unwrap_or(1).clamp(1, 16)).unwrap_or(1);
            made_of(of).into_iter().map(|value| Value::array(std::iter::repeat_n(value, count))).collect()
        }
        DataType::Hash(_, of, ..) => made_of(of).into_iter().map(|value| Value::hash([("kilter", value)])).collect(),
        DataType::Variant(types) => types.iter().flat_map(made_of).collect(),
        DataType::Optional(inner) | DataType::NotUndef(inner) => made_of(inner),
        DataType::Sensitive(inner) => made_of(inner).into_iter().map(Value::sensitive).collect(),
        DataType::Alias(alias) => made_of(&alias.definition()),
        _ => words(),
    }
}

fn words() -> Vec<Value> {
    let plain = ["one kind", "another", "kilter", "check", "kilterchecks", "a", "b", "1", "2"];
    let of_a_form = ["0644", "0600", "192.0.2.1", "192.0.2.2", "/tmp/kilter", "/tmp/check", "a=b", "b=c"];
    plain.into_iter().chain(of_a_form).map(Value::from).collect()
}
