//! Schema of an attribute.

use ecow::EcoString;

use super::comparison::Comparison;
use crate::data_type::DataType;
use crate::names::AttributeName;
use crate::value::{Hash, Value};

/// Behaviour of an attribute (Puppet Resource API, "Resource definition").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Behaviour {
    /// Read from the system, compared, and changed.
    #[default]
    Property,
    /// Part of the identity of a resource.
    Namevar,
    /// Set when the resource is created. Reported, but never changed later.
    InitOnly,
    /// Reported, never set.
    ReadOnly,
    /// Controls the provider. Cannot be read from the system.
    Parameter,
}

impl Behaviour {
    /// Returns the keyword in schemas and output.
    pub fn word(self) -> &'static str {
        match self {
            Behaviour::Property => "property",
            Behaviour::Namevar => "namevar",
            Behaviour::InitOnly => "init_only",
            Behaviour::ReadOnly => "read_only",
            Behaviour::Parameter => "parameter",
        }
    }

    /// Returns the behaviour of a keyword.
    pub fn from_word(word: &str) -> Option<Behaviour> {
        Behaviour::ALL.into_iter().find(|behaviour| behaviour.word() == word)
    }

    /// All behaviours.
    pub const ALL: [Behaviour; 5] =
        [Behaviour::Property, Behaviour::Namevar, Behaviour::InitOnly, Behaviour::ReadOnly, Behaviour::Parameter];

    /// Returns true if the current value is compared with the desired value.
    pub fn is_compared(self) -> bool {
        matches!(self, Behaviour::Property | Behaviour::InitOnly)
    }
}

/// Schema of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub struct AttributeSchema {
    /// Name of the attribute.
    pub name: AttributeName,
    /// Accepted values.
    pub data_type: DataType,
    /// Description in Markdown.
    pub desc: EcoString,
    /// Default value.
    pub default: Option<Value>,
    /// Behaviour of the attribute.
    pub behaviour: Behaviour,
    /// True if a value is required.
    pub required: bool,
    /// Comparison of the current with the desired value.
    pub comparison: Comparison,
    /// True if reading the attribute is expensive. It is read only if it is managed or requested.
    pub lazy: bool,
    /// Providers that support the attribute. Empty means all.
    pub providers: Vec<EcoString>,
    /// Provider features that the attribute requires.
    pub required_features: Vec<EcoString>,
    /// Additional keys of the definition, which kilter does not use.
    pub extra: Hash,
}

impl AttributeSchema {
    /// Creates an optional attribute without a default.
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

    /// Returns true if `provider` supports the attribute. `has` returns true for the features of the provider.
    pub fn is_supported_by(&self, provider: &str, has: &dyn Fn(&str) -> bool) -> bool {
        let named = self.providers.is_empty() || self.providers.iter().any(|name| name == provider);
        named && self.required_features.iter().all(|feature| has(feature))
    }
}
