//! A change that is about to be made, and the declaration that would undo it.

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Behaviour, Resource, State, Value};
use kilter_provider::{Context, Found, Provider, Query, RevertTo, Wanted};

use crate::step::catch_panic;

/// Change that is about to be made.
pub struct PendingChange<'a> {
    pub(crate) resource: &'a Resource,
    pub(crate) should: &'a Attributes,
    pub(crate) found: &'a Found,
    pub(crate) provider: &'a dyn Provider,
    pub(crate) hostname: &'a str,
}

impl<'a> PendingChange<'a> {
    /// Returns the resource.
    pub fn resource(&self) -> &'a Resource {
        self.resource
    }

    /// Returns the name of its provider.
    pub fn provider(&self) -> &'a str {
        self.provider.name()
    }

    /// Returns true if the resource exists.
    pub fn exists(&self) -> bool {
        self.found.state.exists
    }

    /// Returns the declaration that restores the state before the change.
    ///
    /// # Errors
    /// The reason why it cannot be restored.
    pub fn undone(&self) -> Result<Attributes, EcoString> {
        let schema = self.provider.schema();
        if !self.found.state.exists {
            return absence(self.provider);
        }
        match self.provider.capabilities().revert {
            Some(revert) if revert.revert_to() == RevertTo::Earlier => {
                let is = self.read()?;
                catch_panic(self.provider, || revert.revert_state(self.should, &is)).and_then(|state| state)
            }
            _ => {
                let is_removed = self.should.text("ensure") == Some("absent");
                let is_meant =
                    |name: &str| is_removed || self.found.differences.iter().any(|one| one.attribute == *name);
                let mut before = Attributes::new();
                for (name, value) in self.found.state.attributes.iter() {
                    let attribute = schema.known(name.as_str());
                    let is_settable =
                        attribute.is_some_and(|one| matches!(one.behaviour, Behaviour::Property | Behaviour::InitOnly));
                    if is_settable && is_meant(name.as_str()) && !value.is_undef() {
                        before.set(name.clone(), self.sealed(name.as_str(), value));
                    }
                }
                match before.is_empty() {
                    true => Err(eco_format!("the effects of {} are not known", self.resource.reference)),
                    false => Ok(before),
                }
            }
        }
    }

    /// Returns a value as a secret if its declaration is one.
    fn sealed(&self, name: &str, value: &Value) -> Value {
        let is_secret = self.should.get(name).is_some_and(Value::holds_sensitive) && !value.holds_sensitive();
        if is_secret { Value::sensitive(value.clone()) } else { value.clone() }
    }

    /// Reads the whole state.
    fn read(&self) -> Result<State, EcoString> {
        let wanted = Wanted {
            name: &self.resource.name,
            namevars: Some(&self.resource.attributes),
            should: None,
            received: &[],
            noop: false,
            refresh: false,
        };
        let requested = [EcoString::from("content")];
        let cx = Context::empty().with_hostname(self.hostname).with_requested_attributes(&requested);
        let get = || self.provider.get(&cx, Query::Named(&[wanted])).map_err(|error| error.message);
        let found = catch_panic(self.provider, get).and_then(|found| found)?;
        let is = found.into_iter().find(|state| state.name == self.resource.name);
        Ok(is.unwrap_or_else(|| State::absent(self.resource.name.clone())))
    }
}

/// Returns the declaration that removes a resource.
fn absence(provider: &dyn Provider) -> Result<Attributes, EcoString> {
    let schema = provider.schema();
    let absent = Value::from("absent");
    if schema.known("ensure").is_none_or(|ensure| !ensure.data_type.accepts(&absent)) {
        return Err(eco_format!("a resource of the type `{}` cannot be removed", schema.name));
    }
    let mut before = Attributes::new();
    before.set("ensure", absent);
    Ok(before)
}
