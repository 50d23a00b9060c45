//! Data types of attributes, in the notation of the Puppet language.

mod alias;
mod assign;
mod build;
mod check;
mod describe;
mod infer;
mod libral;
mod may;
mod mismatch;
mod normal;
mod parse;
mod seal;
mod show;
mod words;

use std::borrow::Cow;

use ecow::EcoString;
use rustc_hash::FxHashSet;

pub(crate) use alias::is_type_name;
pub use alias::{Alias, AliasError, Aliases};
pub(crate) use build::NAMES;
pub use mismatch::{Fault, Mismatch, Problem, Step, Subject};
pub use parse::DataTypeError;
pub(crate) use parse::parse;

use crate::pattern::Regexp;
use crate::semver_range::SemVerRange;
use crate::time::{Timespan, Timestamp};

/// The values that an attribute may take.
///
/// Written as in the Puppet language: `Enum[present, absent]`, `Optional[Integer[0, 255]]`. Bounds
/// are inclusive; sizes of texts count characters, those of arrays and hashes elements.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum DataType {
    /// Every value.
    Any,
    /// The type of the elements of what is empty: of every type. It is inferred, never written.
    Unit,
    /// Only the missing value.
    Undef,
    /// Only `default`.
    Default,
    /// `true`, `false`; with a truth only that one.
    Boolean(Option<bool>),
    /// Whole numbers from … to.
    Integer(Option<i64>, Option<i64>),
    /// Numbers with a fraction from … to.
    Float(Option<f64>, Option<f64>),
    /// Whole numbers and those with a fraction.
    Numeric,
    /// Texts of a length from … to.
    String(Option<u64>, Option<u64>),
    /// One text alone; written inside of others: `Optional['x']`.
    Literal(EcoString),
    /// One of these texts.
    Enum(Vec<EcoString>),
    /// One of these texts, in capitals or not: `Enum[a, b, true]`.
    EnumAnyCase(Vec<EcoString>),
    /// Texts that match one of these regular expressions; any text if there are none.
    Pattern(Vec<Regexp>),
    /// Regular expressions; with one only that.
    Regexp(Option<Regexp>),
    /// Bytes.
    Binary,
    /// Points in time from … to.
    Timestamp(Option<Timestamp>, Option<Timestamp>),
    /// Spans of time from … to.
    Timespan(Option<Timespan>, Option<Timespan>),
    /// Semantic versions; with ranges only those in one of them.
    SemVer(Vec<SemVerRange>),
    /// Ranges of semantic versions.
    SemVerRange,
    /// Values of one type, so many from … to.
    Array(Box<DataType>, Option<u64>, Option<u64>),
    /// Keys and values of one type each, so many from … to.
    Hash(Box<DataType>, Box<DataType>, Option<u64>, Option<u64>),
    /// Arrays and hashes of so many elements from … to.
    Collection(Option<u64>, Option<u64>),
    /// What can be gone through one by one, with elements of one type.
    Iterable(Box<DataType>),
    /// A hash with just these keys.
    Struct(Vec<Field>),
    /// An array with these values, in order. With a size from … to the last type repeats, and
    /// those in the end may be missing.
    Tuple(Vec<DataType>, Option<u64>, Option<u64>),
    /// A value of one of these types.
    Variant(Vec<DataType>),
    /// A value of the type, or none.
    Optional(Box<DataType>),
    /// A value of the type, but some.
    NotUndef(Box<DataType>),
    /// Texts, numbers, booleans, regular expressions, times, versions.
    Scalar,
    /// Texts, numbers, booleans.
    ScalarData,
    /// Texts, numbers, booleans, undef, and arrays and hashes of them.
    Data,
    /// Every value that can be written down: data and all else.
    RichData,
    /// A value that is never shown.
    Sensitive(Box<DataType>),
    /// A data type that has only values of the type.
    Type(Box<DataType>),
    /// A value of the type, or a text that stands for one.
    Init(Box<DataType>),
    /// A type of Puppet's whose values kilter does not have (`Callable`, `Resource`, …), as it was
    /// written. It has no values here.
    Foreign(EcoString),
    /// The name of a type that is not known (yet), as it was written.
    TypeReference(EcoString),
    /// A type by a name of its own.
    Alias(Alias),
}

/// A key of a [`DataType::Struct`].
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// The key.
    pub name: EcoString,
    /// Whether the key may be missing.
    pub optional: bool,
    /// The type of its value.
    pub data_type: DataType,
}

impl DataType {
    /// Any text.
    pub fn text() -> DataType {
        DataType::String(None, None)
    }

    /// One of `words`.
    pub fn words<T: Into<EcoString>>(words: impl IntoIterator<Item = T>) -> DataType {
        DataType::Enum(words.into_iter().map(Into::into).collect())
    }

    /// The words that are allowed, where the type is made of words alone.
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

    /// Whether values of the type are sealed: those of one of several types, where those of any of them are.
    pub fn is_sensitive(&self) -> bool {
        match self {
            DataType::Sensitive(_) => true,
            DataType::Optional(inner) | DataType::NotUndef(inner) => inner.is_sensitive(),
            DataType::Variant(types) => types.iter().any(DataType::is_sensitive),
            DataType::Alias(alias) => alias.definition().is_sensitive(),
            _ => false,
        }
    }

    /// Whether values of the type may hold secrets, also where they are not sealed as a whole.
    pub fn may_hold_secrets(&self) -> bool {
        describe::mentions_seals(self, &mut FxHashSet::default())
    }

    /// The type without what only says that a value may be missing or is sealed, and what a name
    /// stands for in the place of the name.
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

    /// The types that this one is made of, those of aliases excepted.
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

    /// The same with `change` made to the types that it is made of.
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
    fn a_value_that_may_be_a_secret_is_sealed_and_one_that_may_hold_one_is_known() {
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
