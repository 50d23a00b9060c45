//! Attribute values of a resource.

use crate::names::AttributeName;
use crate::value::Value;

/// Ordered map of attributes to values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attributes(Vec<(AttributeName, Value)>);

impl Attributes {
    /// Creates an empty map.
    pub fn new() -> Attributes {
        Attributes::default()
    }

    /// Creates an empty map with room for `count` attributes.
    pub fn with_capacity(count: usize) -> Attributes {
        Attributes(Vec::with_capacity(count))
    }

    /// Returns the value of an attribute. Treats undef as missing.
    #[inline]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(key, value)| key == name && !value.is_undef()).map(|(_, value)| value)
    }

    /// Returns the value of an attribute if it is a text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(Value::as_str)
    }

    /// Returns the value of an attribute if it is a boolean.
    pub fn get_bool(&self, name: &str) -> Option<bool> {
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

    /// Adds an attribute that is not in the map yet.
    pub fn push(&mut self, name: impl Into<AttributeName>, value: impl Into<Value>) {
        self.0.push((name.into(), value.into()));
    }

    /// Keeps the attributes for which `keep` returns true.
    pub fn retain(&mut self, mut keep: impl FnMut(&AttributeName, &Value) -> bool) {
        self.0.retain(|(name, value)| keep(name, value));
    }

    /// Keeps the attributes for which `keep` returns true. `keep` may change their values.
    pub fn retain_mut(&mut self, mut keep: impl FnMut(&AttributeName, &mut Value) -> bool) {
        self.0.retain_mut(|(name, value)| keep(name, value));
    }

    /// Removes an attribute and returns its value.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        let at = self.0.iter().position(|(key, _)| key == name)?;
        Some(self.0.remove(at).1)
    }

    /// Iterates over the attributes, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&AttributeName, &Value)> {
        self.0.iter().map(|(name, value)| (name, value))
    }

    /// Iterates over the attributes with mutable values, in order.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&AttributeName, &mut Value)> {
        self.0.iter_mut().map(|(name, value)| (&*name, value))
    }

    /// Number of attributes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if the map is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Frees unused memory, except room for `spare` attributes.
    pub fn shrink(&mut self, spare: usize) {
        self.0.shrink_to(self.0.len() + spare);
    }
}

impl<N: Into<AttributeName>, V: Into<Value>> FromIterator<(N, V)> for Attributes {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(entries: I) -> Attributes {
        Attributes(entries.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}
