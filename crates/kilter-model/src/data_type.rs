//! Data types of attributes, in the notation of the Puppet language.

mod alias;
mod assign;
mod build;
mod check;
mod describe;
mod display;
mod infer;
mod libral;
mod mismatch;
mod normal;
mod overlaps;
mod parse;
mod parse_cli;
mod sensitive;

use std::borrow::Cow;

use ecow::EcoString;
use rustc_hash::FxHashSet;

pub(crate) use alias::is_type_name;
pub use alias::{Alias, AliasError, Aliases};
pub(crate) use build::NAMES;
pub use mismatch::{Mismatch, MismatchFault, NamedMismatch, Problem, Step};
pub use parse::DataTypeError;
pub(crate) use parse::parse;

use crate::pattern::Regexp;
use crate::semver_range::SemVerRange;
use crate::time::{Timespan, Timestamp};

/// The set of values that an attribute accepts.
///
/// Written in the Puppet language: `Enum[present, absent]`, `Optional[Integer[0, 255]]`. Bounds are inclusive.
/// The size of a text is in characters, the size of an array or hash in elements.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum DataType {
    /// All values.
    Any,
    /// Element type of an empty collection: a member of every type. It is inferred, never written.
    Unit,
    /// The missing value only.
    Undef,
    /// The value `default` only.
    Default,
    /// `true` and `false`, or only the given value.
    Boolean(Option<bool>),
    /// Integers, with a lower and an upper bound.
    Integer(Option<i64>, Option<i64>),
    /// Floating-point numbers, with a lower and an upper bound.
    Float(Option<f64>, Option<f64>),
    /// Integers and floating-point numbers.
    Numeric,
    /// Texts, with a minimum and a maximum length.
    String(Option<u64>, Option<u64>),
    /// A single text. Written only inside other types: `Optional['x']`.
    Literal(EcoString),
    /// Any of these texts.
    Enum(Vec<EcoString>),
    /// Any of these texts, ignoring case: `Enum[a, b, true]`.
    EnumAnyCase(Vec<EcoString>),
    /// Texts that match any of these regular expressions. All texts if the list is empty.
    Pattern(Vec<Regexp>),
    /// Regular expressions, or only the given expression.
    Regexp(Option<Regexp>),
    /// Bytes.
    Binary,
    /// Points in time, with a lower and an upper bound.
    Timestamp(Option<Timestamp>, Option<Timestamp>),
    /// Durations, with a lower and an upper bound.
    Timespan(Option<Timespan>, Option<Timespan>),
    /// Semantic versions, or only versions in any of the given ranges.
    SemVer(Vec<SemVerRange>),
    /// Ranges of semantic versions.
    SemVerRange,
    /// Arrays: element type, minimum and maximum size.
    Array(Box<DataType>, Option<u64>, Option<u64>),
    /// Hashes: key type, value type, minimum and maximum size.
    Hash(Box<DataType>, Box<DataType>, Option<u64>, Option<u64>),
    /// Arrays and hashes, with a minimum and a maximum size.
    Collection(Option<u64>, Option<u64>),
    /// Values that can be iterated over, with their element type.
    Iterable(Box<DataType>),
    /// Hashes with exactly these keys.
    Struct(Vec<Field>),
    /// Arrays with these element types, in order. With size bounds, the last type repeats and trailing elements
    /// may be missing.
    Tuple(Vec<DataType>, Option<u64>, Option<u64>),
    /// Values of any of these types.
    Variant(Vec<DataType>),
    /// Values of the type, and undef.
    Optional(Box<DataType>),
    /// Values of the type, except undef.
    NotUndef(Box<DataType>),
    /// Texts, numbers, booleans, regular expressions, times, versions.
    Scalar,
    /// Texts, numbers, booleans.
    ScalarData,
    /// Texts, numbers, booleans, undef, and arrays and hashes of them.
    Data,
    /// All values that can be serialised: data and rich data.
    RichData,
    /// Values of the type that are never shown.
    Sensitive(Box<DataType>),
    /// Data types that accept only values of the type.
    Type(Box<DataType>),
    /// Values of the type, and texts that can be converted to it.
    Init(Box<DataType>),
    /// A Puppet type whose values kilter does not support (`Callable`, `Resource`, …), as written. It accepts
    /// no values.
    Foreign(EcoString),
    /// The name of a type that has not been resolved, as written.
    TypeReference(EcoString),
    /// A type with a name of its own.
    Alias(Alias),
}

/// A key of a [`DataType::Struct`].
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// The key.
    pub name: EcoString,
    /// True if the key may be missing.
    pub optional: bool,
    /// The type of its value.
    pub data_type: DataType,
}

impl DataType {
    /// Returns the type of all texts.
    pub fn text() -> DataType {
        DataType::String(None, None)
    }

    /// Returns the type of the texts in `words`.
    pub fn words<T: Into<EcoString>>(words: impl IntoIterator<Item = T>) -> DataType {
        DataType::Enum(words.into_iter().map(Into::into).collect())
    }

    /// Returns the allowed words if the type consists only of words.
    pub fn allowed(&self) -> Vec<&str> {
        match self {
            DataType::Enum(words) | DataType::EnumAnyCase(words) => words.iter().map(EcoString::as_str).collect(),
            DataType::Literal(word) => vec![word],
            DataType::Optional(inner) | DataType::NotUndef(inner) | DataType::Sensitive(inner) => inner.allowed(),
            DataType::Variant(types) => types.iter().flat_map(DataType::allowed).collect(),
            DataType::Alias(alias) => alias.body().allowed(),
            _ => Vec::new(),
        }
    }

    /// Returns true if values of the type are sensitive. A variant is sensitive if any of its types is.
    pub fn is_sensitive(&self) -> bool {
        match self {
            DataType::Sensitive(_) => true,
            DataType::Optional(inner) | DataType::NotUndef(inner) => inner.is_sensitive(),
            DataType::Variant(types) => types.iter().any(DataType::is_sensitive),
            DataType::Alias(alias) => alias.definition().is_sensitive(),
            _ => false,
        }
    }

    /// Returns true if values of the type may contain secrets, even if the value as a whole is not sensitive.
    pub fn may_hold_secrets(&self) -> bool {
        describe::mentions_seals(self, &mut FxHashSet::default())
    }

    /// Returns the type without `Optional`, `NotUndef`, `Sensitive` and `Init`, and with aliases replaced by
    /// their definitions.
    pub fn open(&self) -> Cow<'_, DataType> {
        match self {
            DataType::Optional(inner)
            | DataType::NotUndef(inner)
            | DataType::Sensitive(inner)
            | DataType::Init(inner) => inner.open(),
            DataType::Alias(alias) => Cow::Owned(alias.definition().open().into_owned()),
            other => Cow::Borrowed(other),
        }
    }

    /// Returns the component types, except those of aliases.
    fn parts(&self) -> Vec<&DataType> {
        match self {
            DataType::Array(inner, ..)
            | DataType::Iterable(inner)
            | DataType::Optional(inner)
            | DataType::NotUndef(inner)
            | DataType::Sensitive(inner)
            | DataType::Type(inner)
            | DataType::Init(inner) => vec![inner],
            DataType::Hash(keys, of, ..) => vec![keys, of],
            DataType::Struct(fields) => fields.iter().map(|field| &field.data_type).collect(),
            DataType::Tuple(types, ..) | DataType::Variant(types) => types.iter().collect(),
            _ => Vec::new(),
        }
    }

    /// Returns a copy of the type with `change` applied to its component types.
    fn with_parts(&self, change: &mut dyn FnMut(&DataType) -> DataType) -> DataType {
        let mut boxed = |inner: &DataType| Box::new(change(inner));
        match self {
            DataType::Array(inner, from, to) => DataType::Array(boxed(inner), *from, *to),
            DataType::Hash(keys, of, from, to) => DataType::Hash(boxed(keys), boxed(of), *from, *to),
            DataType::Iterable(inner) => DataType::Iterable(boxed(inner)),
            DataType::Optional(inner) => DataType::Optional(boxed(inner)),
            DataType::NotUndef(inner) => DataType::NotUndef(boxed(inner)),
            DataType::Sensitive(inner) => DataType::Sensitive(boxed(inner)),
            DataType::Type(inner) => DataType::Type(boxed(inner)),
            DataType::Init(inner) => DataType::Init(boxed(inner)),
            DataType::Struct(fields) => DataType::Struct(
                fields.iter().map(|field| Field { data_type: change(&field.data_type), ..field.clone() }).collect(),
            ),
            DataType::Tuple(types, from, to) => DataType::Tuple(types.iter().map(change).collect(), *from, *to),
            DataType::Variant(types) => DataType::Variant(types.iter().map(change).collect()),
            other => other.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sensitive_types_are_recognised_directly_and_nested() {
        for (data_type, is_sensitive, may_hold_secrets) in [
            ("Sensitive[String]", true, true),
            ("Variant[Sensitive[String], Undef]", true, true),
            ("Optional[Variant[Integer, NotUndef[Sensitive]]]", true, true),
            ("Array[Sensitive[String]]", false, true),
            ("Struct[{user => String, pin => Sensitive[String]}]", false, true),
            ("Variant[String, Array[Integer]]", false, false),
        ] {
            let parsed: DataType = data_type.parse().unwrap();
            assert_eq!(
                (parsed.is_sensitive(), parsed.may_hold_secrets()),
                (is_sensitive, may_hold_secrets),
                "{data_type}"
            );
        }
    }
}
