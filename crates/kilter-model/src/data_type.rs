//! Data types of attributes, in the notation of the Puppet language.

mod check;
mod parse;
mod show;

use ecow::EcoString;

pub use check::Mismatch;
pub use parse::DataTypeError;
pub(crate) use parse::parse;

/// The values that an attribute may take.
///
/// Written as in the Puppet language: `Enum[present, absent]`, `Optional[Integer[0, 255]]`. Bounds
/// are inclusive; sizes of texts count characters, those of arrays and hashes elements.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum DataType {
    /// Every value.
    Any,
    /// Only the missing value.
    Undef,
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
    /// One of these texts.
    Enum(Vec<EcoString>),
    /// Texts that match one of these regular expressions (in Ruby's dialect).
    Pattern(Vec<EcoString>),
    /// Bytes.
    Binary,
    /// Values of one type, so many from … to.
    Array(Box<DataType>, Option<u64>, Option<u64>),
    /// Keys and values of one type each, so many from … to.
    Hash(Box<DataType>, Box<DataType>, Option<u64>, Option<u64>),
    /// A hash with just these keys.
    Struct(Vec<Field>),
    /// An array with these values, in order.
    Tuple(Vec<DataType>),
    /// A value of one of these types.
    Variant(Vec<DataType>),
    /// A value of the type, or none.
    Optional(Box<DataType>),
    /// A value of the type, but some.
    NotUndef(Box<DataType>),
    /// Texts, numbers, booleans.
    Scalar,
    /// Texts, numbers, booleans, undef, and arrays and hashes of them.
    Data,
    /// A value that is never shown.
    Sensitive(Box<DataType>),
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
            DataType::Enum(words) => words.iter().map(EcoString::as_str).collect(),
            DataType::Optional(inner) | DataType::NotUndef(inner) | DataType::Sensitive(inner) => inner.allowed(),
            DataType::Variant(types) => types.iter().flat_map(DataType::allowed).collect(),
            _ => Vec::new(),
        }
    }

    /// Whether values of the type are sealed.
    pub fn is_sensitive(&self) -> bool {
        match self {
            DataType::Sensitive(_) => true,
            DataType::Optional(inner) | DataType::NotUndef(inner) => inner.is_sensitive(),
            _ => false,
        }
    }
}
