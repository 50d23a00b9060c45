//! What is known of one attribute of a type.

use ecow::EcoString;

use super::comparison::Comparison;
use crate::data_type::DataType;
use crate::names::AttributeName;
use crate::value::{Hash, Value};

/// How an attribute behaves (Puppet Resource API, "Resource definition").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Behaviour {
    /// Read from the system, compared, and changed.
    #[default]
    Property,
    /// Part of what identifies a resource.
    Namevar,
    /// Set when the resource is created; reported, but never changed later.
    InitOnly,
    /// Reported, never set.
    ReadOnly,
    /// Steers the provider; cannot be read from the system.
    Parameter,
}

impl Behaviour {
    /// The word for it in schemas and output.
    pub fn word(self) -> &'static str {
        match self {
            Behaviour::Property => "property",
            Behaviour::Namevar => "namevar",
            Behaviour::InitOnly => "init_only",
            Behaviour::ReadOnly => "read_only",
            Behaviour::Parameter => "parameter",
        }
    }

    /// The behaviour of a word.
    pub fn from_word(word: &str) -> Option<Behaviour> {
        Behaviour::ALL.into_iter().find(|behaviour| behaviour.word() == word)
    }

    /// All there are.
    pub const ALL: [Behaviour; 5] =
        [Behaviour::Property, Behaviour::Namevar, Behaviour::InitOnly, Behaviour::ReadOnly, Behaviour::Parameter];

    /// Whether what is found is compared with what is wanted.
    pub fn is_compared(self) -> bool {
        matches!(self, Behaviour::Property | Behaviour::InitOnly)
    }
}

/// An attribute of a type.
#[derive(Clone, Debug, PartialEq)]
pub struct AttributeSchema {
    /// Its name.
    pub name: AttributeName,
    /// The values it takes.
    pub data_type: DataType,
    /// What it is for, in Markdown.
    pub desc: EcoString,
    /// The value when none is given.
    pub default: Option<Value>,
    /// How it behaves.
    pub behaviour: Behaviour,
    /// Whether it must be given.
    pub required: bool,
    /// When what is found is as it was wanted.
    pub comparison: Comparison,
    /// Whether it costs something to find out: it is only read when it is managed or asked for.
    pub lazy: bool,
    /// The providers that have it; all of them when none is named.
    pub providers: Vec<EcoString>,
    /// The features that a provider must have for it.
    pub required_features: Vec<EcoString>,
    /// What else its author said of it; kilter does not look into it.
    pub extra: Hash,
}

impl AttributeSchema {
    /// An attribute without a default that need not be given.
    pub fn new(
        name: impl Into<AttributeName>,
        data_type: DataType,
        behaviour: Behaviour,
        desc: impl Into<EcoString>,
    ) -> AttributeSchema {
        AttributeSchema {
            name: name.into(),
            data_type,
            desc: desc.into(),
            default: None,
            behaviour,
            required: false,
            comparison: Comparison::Equal,
            lazy: false,
            providers: Vec::new(),
            required_features: Vec::new(),
            extra: Hash::default(),
        }
    }

    /// Whether `provider`, which has these features, supports the attribute.
    pub fn is_supported_by(&self, provider: &str, has: &dyn Fn(&str) -> bool) -> bool {
        let named = self.providers.is_empty() || self.providers.iter().any(|name| name == provider);
        named && self.required_features.iter().all(|feature| has(feature))
    }
}
