//! Builds types from their names and parameters.

use ecow::EcoString;
use rustc_hash::FxHashSet;

use super::assign::Seals;
use super::parse::Parameter;
use super::{DataType, Field};
use crate::pattern::Regexp;
use crate::semver_range::SemVerRange;
use crate::time::{Timespan, Timestamp};

/// Puppet types whose values kilter does not support.
const FOREIGN: [&str; 14] = [
    "callable",
    "catalogentry",
    "class",
    "deferred",
    "error",
    "iterator",
    "object",
    "resource",
    "runtime",
    "target",
    "typealias",
    "typereference",
    "typeset",
    "uri",
];

/// Names of the supported types.
pub(crate) const NAMES: [&str; 32] = [
    "Any",
    "Array",
    "Binary",
    "Boolean",
    "Collection",
    "Data",
    "Default",
    "Enum",
    "Float",
    "Hash",
    "Init",
    "Integer",
    "Iterable",
    "NotUndef",
    "Numeric",
    "Optional",
    "Pattern",
    "Regexp",
    "RichData",
    "Scalar",
    "ScalarData",
    "SemVer",
    "SemVerRange",
    "Sensitive",
    "String",
    "Struct",
    "Timespan",
    "Timestamp",
    "Tuple",
    "Type",
    "Undef",
    "Variant",
];

/// Returns true if the parameters of a type are kept as written, because object definitions are a language of
/// their own.
pub(super) fn is_opaque(name: &str) -> bool {
    ["object", "typeset"].contains(&name.to_ascii_lowercase().as_str())
}

/// Builds a type from its name and parameters; `written` is the text of both. Type names of the language are
/// case-insensitive: `SemVer`, `Semver`.
pub(super) fn data_type(name: &str, parameters: Option<Vec<Parameter>>, written: &str) -> Result<DataType, String> {
    let canonical = name.to_ascii_lowercase();
    if FOREIGN.contains(&canonical.as_str()) {
        return Ok(DataType::Foreign(written.into()));
    }
    let Some(parameters) = parameters else {
        return Ok(bare(&canonical).unwrap_or_else(|| DataType::TypeReference(name.into())));
    };
    match canonical.as_str() {
        "boolean" => match parameters.as_slice() {
            [Parameter::Boolean(truth)] => Ok(DataType::Boolean(Some(*truth))),
            _ => Err("Boolean takes true or false".to_owned()),
        },
        "integer" => integers(&parameters),
        "float" => floats(&parameters),
        "string" => size("String", &parameters).map(|(a, b)| DataType::String(a, b)),
        "enum" => words(parameters),
        "pattern" => patterns(parameters),
        "regexp" => match parameters.as_slice() {
            [Parameter::Regex(text) | Parameter::Word(text)] => Ok(DataType::Regexp(Some(Regexp::new(text.clone())))),
            _ => Err("Regexp takes one regular expression".to_owned()),
        },
        "array" => array(parameters),
        "hash" => hash(parameters),
        "collection" => size("Collection", &parameters).map(|(a, b)| DataType::Collection(a, b)),
        "struct" => structure(parameters),
        "tuple" => tuple(parameters),
        "variant" => types("Variant", parameters).map(DataType::either),
        "optional" => one("Optional", parameters).map(DataType::Optional),
        "notundef" => one("NotUndef", parameters).map(DataType::NotUndef),
        "sensitive" => one_type("Sensitive", parameters).map(DataType::Sensitive),
        "type" => one_type("Type", parameters).map(DataType::Type),
        "init" => one_type("Init", parameters).map(DataType::Init),
        "iterable" => one_type("Iterable", parameters).map(DataType::Iterable),
        "timestamp" => timestamps(&parameters),
        "timespan" => timespans(&parameters),
        "semver" => versions(&parameters),
        known if bare(known).is_some() => Err(format!("{name} takes no parameters")),
        _ => Ok(DataType::TypeReference(written.into())),
    }
}

fn bare(canonical: &str) -> Option<DataType> {
    let any = || Box::new(DataType::Any);
    Some(match canonical {
        "any" => DataType::Any,
        "undef" => DataType::Undef,
        "default" => DataType::Default,
        "boolean" => DataType::Boolean(None),
        "integer" => DataType::Integer(None, None),
        "float" => DataType::Float(None, None),
        "numeric" => DataType::Numeric,
        "string" => DataType::String(None, None),
        "enum" => DataType::Enum(Vec::new()),
        "pattern" => DataType::Pattern(Vec::new()),
        "regexp" => DataType::Regexp(None),
        "binary" => DataType::Binary,
        "timestamp" => DataType::Timestamp(None, None),
        "timespan" => DataType::Timespan(None, None),
        "semver" => DataType::SemVer(Vec::new()),
        "semverrange" => DataType::SemVerRange,
        "array" => DataType::Array(any(), None, None),
        "hash" => DataType::Hash(any(), any(), None, None),
        "collection" => DataType::Collection(None, None),
        "iterable" => DataType::Iterable(any()),
        "struct" => DataType::Struct(Vec::new()),
        "tuple" => DataType::Tuple(Vec::new(), None, None),
        "variant" => DataType::Variant(Vec::new()),
        "optional" => DataType::Optional(any()),
        "notundef" => DataType::NotUndef(any()),
        "scalar" => DataType::Scalar,
        "scalardata" => DataType::ScalarData,
        "data" => DataType::Data,
        "richdata" => DataType::RichData,
        "sensitive" => DataType::Sensitive(any()),
        "type" => DataType::Type(any()),
        "init" => DataType::Init(any()),
        _ => return None,
    })
}

fn integers(parameters: &[Parameter]) -> Result<DataType, String> {
    let bound = |parameter: &Parameter| match parameter {
        Parameter::Integer(number) => Ok(Some(*number)),
        Parameter::Default => Ok(None),
        _ => Err("Integer takes whole numbers or `default`".to_owned()),
    };
    let (from, to) = match parameters {
        [from] => (bound(from)?, None),
        [from, to] => (bound(from)?, bound(to)?),
        _ => return Err("Integer takes one or two bounds".to_owned()),
    };
    ordered(from, to).map(|(from, to)| DataType::Integer(from, to))
}

fn floats(parameters: &[Parameter]) -> Result<DataType, String> {
    let bound = |parameter: &Parameter| match parameter {
        Parameter::Float(number) => Ok(Some(*number)),
        #[expect(clippy::cast_precision_loss, reason = "a bound of floats is a float")]
        Parameter::Integer(number) => Ok(Some(*number as f64)),
        Parameter::Default => Ok(None),
        _ => Err("Float takes numbers or `default`".to_owned()),
    };
    let (from, to) = match parameters {
        [from] => (bound(from)?, None),
        [from, to] => (bound(from)?, bound(to)?),
        _ => return Err("Float takes one or two bounds".to_owned()),
    };
    ordered(from, to).map(|(from, to)| DataType::Float(from, to))
}

fn ordered<T: PartialOrd + std::fmt::Display>(
    from: Option<T>,
    to: Option<T>,
) -> Result<(Option<T>, Option<T>), String> {
    match (&from, &to) {
        (Some(a), Some(b)) if a > b => Err(format!("the lower bound {a} is above the upper bound {b}")),
        _ => Ok((from, to)),
    }
}

/// Reads size bounds: `1`, `1, 2` or `Integer[1, 2]`. A negative size counts as zero, as in Puppet.
fn size(name: &str, parameters: &[Parameter]) -> Result<(Option<u64>, Option<u64>), String> {
    let wrong = || format!("{name} takes sizes or `default`");
    let whole = |number: i64| u64::try_from(number).unwrap_or(0);
    let bound = |parameter: &Parameter| match parameter {
        Parameter::Integer(number) => Ok(Some(whole(*number))),
        Parameter::Default => Ok(None),
        _ => Err(wrong()),
    };
    let (from, to) = match parameters {
        [] => return Ok((None, None)),
        [Parameter::Type(DataType::Integer(from, to))] => (from.map(whole), to.map(whole)),
        [from] => (bound(from)?, None),
        [from, to] => (bound(from)?, bound(to)?),
        _ => return Err(wrong()),
    };
    ordered(Some(from.unwrap_or(0)), to)
}

fn words(mut parameters: Vec<Parameter>) -> Result<DataType, String> {
    let any_case = match parameters.last() {
        Some(Parameter::Boolean(truth)) => Some(*truth),
        _ => None,
    };
    if any_case.is_some() {
        parameters.pop();
    }
    if parameters.is_empty() {
        return Err("Enum takes one word at least".to_owned());
    }
    let mut seen = FxHashSet::default();
    let mut words = Vec::with_capacity(parameters.len());
    for parameter in parameters {
        match parameter {
            Parameter::Word(word) => {
                if seen.insert(word.clone()) {
                    words.push(word);
                }
            }
            _ => return Err("Enum takes words".to_owned()),
        }
    }
    Ok(if any_case == Some(true) { DataType::EnumAnyCase(words) } else { DataType::Enum(words) })
}

fn patterns(parameters: Vec<Parameter>) -> Result<DataType, String> {
    let mut patterns = Vec::new();
    for parameter in parameters {
        match parameter {
            Parameter::Regex(text) => patterns.push(Regexp::new(text)),
            Parameter::Word(text) => patterns.push(compiled(text)?),
            Parameter::Type(DataType::Regexp(Some(regexp))) => patterns.push(regexp),
            Parameter::Type(DataType::Pattern(inner)) => patterns.extend(inner),
            _ => return Err("Pattern takes regular expressions".to_owned()),
        }
    }
    let mut seen = FxHashSet::default();
    patterns.retain(|pattern| seen.insert(pattern.source().clone()));
    Ok(DataType::Pattern(patterns))
}

fn compiled(text: EcoString) -> Result<Regexp, String> {
    let regexp = Regexp::new(text);
    regexp.compile().map_err(|error| format!("/{}/ is not a regular expression: {error}", regexp.source()))?;
    Ok(regexp)
}

/// Returns the element type, or [`DataType::Unit`] if the size allows no elements.
fn unless_empty(of: DataType, size: (Option<u64>, Option<u64>)) -> DataType {
    if size == (Some(0), Some(0)) { DataType::Unit } else { of }
}

fn array(mut parameters: Vec<Parameter>) -> Result<DataType, String> {
    let wrong = || "Array takes a type and sizes".to_owned();
    // Puppet 7 reads `Array[0, 2]` as an array of `default` values, which is never intended.
    let of = match parameters.first() {
        Some(Parameter::Type(_)) => match parameters.remove(0) {
            Parameter::Type(of) => of,
            _ => return Err(wrong()),
        },
        _ => DataType::Any,
    };
    let (from, to) = size("Array", &parameters).map_err(|_| wrong())?;
    Ok(DataType::Array(Box::new(unless_empty(of, (from, to))), from, to))
}

fn hash(parameters: Vec<Parameter>) -> Result<DataType, String> {
    let wrong = || "Hash takes the types of keys and values, and sizes".to_owned();
    let mut rest = parameters.into_iter().peekable();
    let mut types = Vec::new();
    while types.len() < 2
        && let Some(Parameter::Type(data_type)) = rest.next_if(|parameter| matches!(parameter, Parameter::Type(_)))
    {
        types.push(data_type);
    }
    let rest: Vec<Parameter> = rest.collect();
    let (keys, of) = match (types.pop(), types.pop(), rest.len()) {
        (None, None, 2) => (DataType::Any, DataType::Any),
        (Some(of), Some(keys), 0..=2) => (keys, of),
        _ => return Err(wrong()),
    };
    let (from, to) = size("Hash", &rest).map_err(|_| wrong())?;
    let [keys, of] = [keys, of].map(|part| Box::new(unless_empty(part, (from, to))));
    Ok(DataType::Hash(keys, of, from, to))
}

fn structure(parameters: Vec<Parameter>) -> Result<DataType, String> {
    let mut parameters = parameters.into_iter();
    let (Some(Parameter::Fields(given)), None) = (parameters.next(), parameters.next()) else {
        return Err("Struct takes {key => Type, …}".to_owned());
    };
    let mut seen = FxHashSet::default();
    let mut fields = Vec::with_capacity(given.len());
    for (key, data_type, _) in given {
        let (name, presence) = field_key(key)?;
        let optional = presence.unwrap_or_else(|| data_type.takes(&DataType::Undef, Seals::Exact));
        if !seen.insert(name.clone()) {
            return Err(format!("the key '{name}' of the Struct is written twice"));
        }
        fields.push(Field { name, optional, data_type });
    }
    Ok(DataType::Struct(fields))
}

/// Returns the name of a key and, if declared, whether it is optional.
fn field_key(key: Parameter) -> Result<(EcoString, Option<bool>), String> {
    let wrong = || "the key of a Struct is a word, Optional[word] or NotUndef[word]".to_owned();
    let literal = |inner: &DataType| match inner {
        DataType::Literal(word) if !word.is_empty() => Ok(word.clone()),
        _ => Err(wrong()),
    };
    match key {
        Parameter::Word(word) if !word.is_empty() => Ok((word, None)),
        Parameter::Type(DataType::Optional(inner)) => Ok((literal(&inner)?, Some(true))),
        Parameter::Type(DataType::NotUndef(inner)) => Ok((literal(&inner)?, Some(false))),
        Parameter::Type(DataType::Enum(mut words)) if words.len() == 1 => Ok((words.remove(0), Some(false))),
        _ => Err(wrong()),
    }
}

fn tuple(mut parameters: Vec<Parameter>) -> Result<DataType, String> {
    let is_size = |parameter: &Parameter| matches!(parameter, Parameter::Integer(_) | Parameter::Default);
    let sizes = parameters.iter().rev().take(2).take_while(|parameter| is_size(parameter)).count();
    let size_parameters = parameters.split_off(parameters.len() - sizes);
    let (from, to) = size("Tuple", &size_parameters)?;
    Ok(DataType::Tuple(types("Tuple", parameters)?, from, to))
}

fn types(name: &str, parameters: Vec<Parameter>) -> Result<Vec<DataType>, String> {
    parameters
        .into_iter()
        .map(|parameter| match parameter {
            Parameter::Type(data_type) => Ok(data_type),
            _ => Err(format!("{name} takes types")),
        })
        .collect()
}

fn one_type(name: &str, mut parameters: Vec<Parameter>) -> Result<Box<DataType>, String> {
    match (parameters.pop(), parameters.len()) {
        (Some(Parameter::Type(data_type)), 0) => Ok(Box::new(data_type)),
        _ => Err(format!("{name} takes one type")),
    }
}

/// Returns the type parameter. A text parameter becomes a literal type.
fn one(name: &str, mut parameters: Vec<Parameter>) -> Result<Box<DataType>, String> {
    match (parameters.pop(), parameters.len()) {
        (Some(Parameter::Type(data_type)), 0) => Ok(Box::new(data_type)),
        (Some(Parameter::Word(word)), 0) => Ok(Box::new(DataType::Literal(word))),
        _ => Err(format!("{name} takes one type or text")),
    }
}

fn timestamps(parameters: &[Parameter]) -> Result<DataType, String> {
    let bound = |parameter: &Parameter| match parameter {
        Parameter::Word(text) => text.parse().map(Some).map_err(|error: crate::time::TimeError| error.to_string()),
        Parameter::Default => Ok(None),
        other => match seconds(other).and_then(Timestamp::from_seconds) {
            Some(time) => Ok(Some(time)),
            None => Err("Timestamp takes points in time, as texts or seconds, or `default`".to_owned()),
        },
    };
    let (from, to) = bounds("Timestamp", parameters, &bound)?;
    ordered(from, to).map(|(from, to)| DataType::Timestamp(from, to))
}

fn timespans(parameters: &[Parameter]) -> Result<DataType, String> {
    let bound = |parameter: &Parameter| match parameter {
        Parameter::Word(text) => text.parse().map(Some).map_err(|error: crate::time::TimeError| error.to_string()),
        Parameter::Default => Ok(None),
        other => match seconds(other).and_then(Timespan::from_seconds) {
            Some(span) => Ok(Some(span)),
            None => Err("Timespan takes spans of time, as texts or seconds, or `default`".to_owned()),
        },
    };
    let (from, to) = bounds("Timespan", parameters, &bound)?;
    ordered(from, to).map(|(from, to)| DataType::Timespan(from, to))
}

fn seconds(parameter: &Parameter) -> Option<f64> {
    match parameter {
        #[expect(clippy::cast_precision_loss, reason = "the seconds of any date are exact")]
        Parameter::Integer(number) => Some(*number as f64),
        Parameter::Float(number) => Some(*number),
        _ => None,
    }
}

type Bound<'a, T> = &'a dyn Fn(&Parameter) -> Result<Option<T>, String>;

fn bounds<T>(name: &str, parameters: &[Parameter], bound: Bound<'_, T>) -> Result<(Option<T>, Option<T>), String> {
    match parameters {
        [from] => Ok((bound(from)?, None)),
        [from, to] => Ok((bound(from)?, bound(to)?)),
        _ => Err(format!("{name} takes one or two bounds")),
    }
}

fn versions(parameters: &[Parameter]) -> Result<DataType, String> {
    let range = |parameter: &Parameter| match parameter {
        Parameter::Word(text) => {
            text.parse::<SemVerRange>().map_err(|error: crate::semver_range::SemVerRangeError| error.to_string())
        }
        _ => Err("SemVer takes ranges of versions as texts".to_owned()),
    };
    parameters.iter().map(range).collect::<Result<_, _>>().map(DataType::SemVer)
}
