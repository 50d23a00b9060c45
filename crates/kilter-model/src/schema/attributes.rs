//! The attributes of a resource, with their values.

use crate::names::AttributeName;
use crate::value::Value;

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
    #[inline]
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

    /// Keeps those attributes for which `keep` says so.
    pub fn retain(&mut self, mut keep: impl FnMut(&AttributeName, &Value) -> bool) {
        self.0.retain(|(name, value)| keep(name, value));
    }

    /// Keeps those attributes for which `keep` says so, which may change their values.
    pub fn retain_mut(&mut self, mut keep: impl FnMut(&AttributeName, &mut Value) -> bool) {
        self.0.retain_mut(|(name, value)| keep(name, value));
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

    /// Gives back memory that is not used, but for `spare` attributes.
    pub fn shrink(&mut self, spare: usize) {
        self.0.shrink_to(self.0.len() + spare);
    }
}

impl<N: Into<AttributeName>, V: Into<Value>> FromIterator<(N, V)> for Attributes {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(entries: I) -> Attributes {
        Attributes(entries.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}
