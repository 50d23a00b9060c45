//! Schemas of resource types, and the attributes of a resource.

use ecow::EcoString;

use crate::data_type::DataType;
use crate::names::{AttributeName, TypeName};
use crate::value::Value;

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
}

/// What a provider can do beyond `get` and `set`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Feature {
    /// Brings values that mean the same into one form.
    Canonicalize,
    /// Compares some attributes by itself.
    CustomInsync,
    /// Reads single resources without reading all of them.
    SimpleGetFilter,
    /// Can preview a `set`.
    SupportsNoop,
    /// Lives on a remote target.
    RemoteResource,
    /// Acts on a refresh.
    Refresh,
}

impl Feature {
    /// The word for it in schemas and output.
    pub fn word(self) -> &'static str {
        match self {
            Feature::Canonicalize => "canonicalize",
            Feature::CustomInsync => "custom_insync",
            Feature::SimpleGetFilter => "simple_get_filter",
            Feature::SupportsNoop => "supports_noop",
            Feature::RemoteResource => "remote_resource",
            Feature::Refresh => "refresh",
        }
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
}

/// A type of resources: what it is for and which attributes it has.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeSchema {
    /// Its name.
    pub name: TypeName,
    /// What it is for, in Markdown, examples included.
    pub desc: EcoString,
    /// Its attributes, in the order in which they are shown and compared.
    pub attributes: Vec<AttributeSchema>,
    /// What its provider can do.
    pub features: Vec<Feature>,
    /// The values that a resource sends to others, with what each holds: `stdout`, ….
    pub outputs: Vec<(EcoString, EcoString)>,
}

impl TypeSchema {
    /// A type without attributes.
    pub fn new(name: impl Into<TypeName>, desc: impl Into<EcoString>) -> TypeSchema {
        TypeSchema {
            name: name.into(),
            desc: desc.into(),
            attributes: Vec::new(),
            features: Vec::new(),
            outputs: Vec::new(),
        }
    }

    /// Adds an attribute whose type is written in the Puppet language. Its regular expressions are
    /// not compiled before a value is checked.
    ///
    /// # Panics
    /// When `data_type` is not a data type: schemas of built-in types are part of the program.
    #[must_use]
    pub fn attribute(self, name: &str, data_type: &str, behaviour: Behaviour, desc: &str) -> TypeSchema {
        let data_type = crate::data_type::parse(data_type).expect("built-in schemas hold valid data types");
        self.with(AttributeSchema {
            name: name.into(),
            data_type,
            desc: desc.into(),
            default: None,
            behaviour,
            required: false,
        })
    }

    /// Gives the attribute added last a default.
    #[must_use]
    pub fn default(mut self, value: impl Into<Value>) -> TypeSchema {
        if let Some(last) = self.attributes.last_mut() {
            last.default = Some(value.into());
        }
        self
    }

    /// Makes the attribute added last one that must be given.
    #[must_use]
    pub fn required(mut self) -> TypeSchema {
        if let Some(last) = self.attributes.last_mut() {
            last.required = true;
        }
        self
    }

    /// Adds an attribute.
    #[must_use]
    pub fn with(mut self, attribute: AttributeSchema) -> TypeSchema {
        self.attributes.push(attribute);
        self
    }

    /// Declares what the provider can do.
    #[must_use]
    pub fn features(mut self, features: &[Feature]) -> TypeSchema {
        self.features = features.to_vec();
        self
    }

    /// Declares a value that resources of the type send.
    #[must_use]
    pub fn output(mut self, name: &str, desc: &str) -> TypeSchema {
        self.outputs.push((name.into(), desc.into()));
        self
    }

    /// The attribute of a name.
    pub fn find(&self, name: &str) -> Option<&AttributeSchema> {
        self.attributes.iter().find(|attribute| attribute.name == name)
    }

    /// The attributes that identify a resource.
    pub fn namevars(&self) -> impl Iterator<Item = &AttributeSchema> {
        self.attributes.iter().filter(|attribute| attribute.behaviour == Behaviour::Namevar)
    }

    /// Whether resources of the type can be present or absent.
    pub fn is_ensurable(&self) -> bool {
        self.find("ensure").is_some()
    }

    /// Whether the provider declares `feature`.
    pub fn has(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }
}

/// Values by attribute, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attributes(Vec<(AttributeName, Value)>);

impl Attributes {
    /// No values.
    pub fn new() -> Attributes {
        Attributes::default()
    }

    /// No values, with room for `count`.
    pub fn with_capacity(count: usize) -> Attributes {
        Attributes(Vec::with_capacity(count))
    }

    /// The value of an attribute; undef counts as none.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(key, value)| key == name && !value.is_undef()).map(|(_, value)| value)
    }

    /// The text of an attribute.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(Value::as_str)
    }

    /// The truth of an attribute.
    pub fn truth(&self, name: &str) -> Option<bool> {
        self.get(name).and_then(Value::as_bool)
    }

    /// Sets the value of an attribute.
    pub fn set(&mut self, name: impl Into<AttributeName>, value: impl Into<Value>) {
        let (name, value) = (name.into(), value.into());
        match self.0.iter_mut().find(|(key, _)| *key == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name, value)),
        }
    }

    /// Adds the value of an attribute that is known not to be there yet.
    pub fn push(&mut self, name: impl Into<AttributeName>, value: impl Into<Value>) {
        self.0.push((name.into(), value.into()));
    }

    /// Takes an attribute out.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        let at = self.0.iter().position(|(key, _)| key == name)?;
        Some(self.0.remove(at).1)
    }

    /// The attributes in order.
    pub fn iter(&self) -> impl Iterator<Item = (&AttributeName, &Value)> {
        self.0.iter().map(|(name, value)| (name, value))
    }

    /// The attributes in order, values to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&AttributeName, &mut Value)> {
        self.0.iter_mut().map(|(name, value)| (&*name, value))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Gives back memory that is not used.
    pub fn shrink(&mut self) {
        self.0.shrink_to_fit();
    }
}

impl<N: Into<AttributeName>, V: Into<Value>> FromIterator<(N, V)> for Attributes {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(entries: I) -> Attributes {
        Attributes(entries.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}
