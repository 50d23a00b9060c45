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
    /// True to save all declared attributes, and not only those that change.
    pub(crate) is_whole: bool,
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
        let revert = self.provider.capabilities().revert;
        if let Some(revert) = revert.filter(|revert| revert.revert_to() == RevertTo::Absence) {
            return catch_panic(self.provider, || revert.revert_state(self.should, &self.found.state))?;
        }
        // A kernel parameter has a value although no file declares it.
        let has_values =
            || schema.known("exists").is_some() || self.found.differences.iter().any(|one| !one.is.is_undef());
        let is_own = self.is_whole && revert.is_some_and(|revert| revert.revert_to() == RevertTo::Earlier);
        if !self.found.state.exists && !is_own && (self.can_be_absent() || !has_values()) {
            return self.absence();
        }
        match revert {
            Some(revert) if revert.revert_to() == RevertTo::Earlier => {
                let is = if self.found.state.exists { self.read()? } else { self.found.state.clone() };
                let state = catch_panic(self.provider, || revert.revert_state(self.should, &is));
                let mut state = state.and_then(|state| state)?;
                // Content that the declaration does not name may be a secret of an earlier one.
                if let Some(content) = state.get("content").filter(|_| self.should.get("content").is_none()) {
                    let content = Value::sensitive(content.unwrap_sensitive().clone());
                    state.set("content", content);
                }
                Ok(state)
            }
            _ => {
                let is_removed = self.should.text("ensure") == Some("absent");
                let is_meant = |name: &str| {
                    is_removed
                        || self.is_whole && self.should.get(name).is_some()
                        || self.found.differences.iter().any(|one| one.attribute == *name)
                };
                let mut before = self.parameters();
                let parameters = before.len();
                for (name, value) in self.found.state.attributes.iter() {
                    let attribute = schema.known(name.as_str());
                    let is_settable =
                        attribute.is_some_and(|one| matches!(one.behaviour, Behaviour::Property | Behaviour::InitOnly));
                    if is_settable && is_meant(name.as_str()) && !value.is_undef() {
                        before.set(name.clone(), self.sealed(name.as_str(), value));
                    }
                }
                let exists = schema.known("exists").filter(|_| !self.found.state.exists);
                if exists.is_some_and(|exists| exists.data_type.accepts(&Value::from(false))) {
                    before.set("exists", false);
                }
                if let Some(revert) = revert {
                    let is = &self.found.state;
                    catch_panic(self.provider, || revert.revert_values(self.should, is, &mut before))??;
                }
                match before.len() == parameters {
                    true => Err(eco_format!("the effects of {} are not known", self.resource.reference)),
                    false => Ok(before),
                }
            }
        }
    }

    /// Returns the declaration that removes the resource.
    fn absence(&self) -> Result<Attributes, EcoString> {
        if !self.can_be_absent() {
            return Err(eco_format!("a resource of the type `{}` cannot be removed", self.provider.schema().name));
        }
        let revert = self.provider.capabilities().revert;
        // Other values, such as the text of a line, may identify the resource.
        let mut before = match revert.is_some_and(|revert| revert.revert_to() != RevertTo::Values) {
            true => Attributes::new(),
            false => self.should.clone(),
        };
        before.set("ensure", "absent");
        if let Some(revert) = revert {
            catch_panic(self.provider, || revert.revert_creation(&self.found.state, &mut before))??;
        }
        Ok(before)
    }

    /// Returns true if the type has resources that are absent.
    fn can_be_absent(&self) -> bool {
        let ensure = self.provider.schema().known("ensure");
        ensure.is_some_and(|ensure| ensure.data_type.accepts(&Value::from("absent")))
    }

    /// Returns the declared parameters, such as the file that contains the resource, without those that have their
    /// default.
    fn parameters(&self) -> Attributes {
        let schema = self.provider.schema();
        let mut parameters = Attributes::new();
        for (name, value) in self.should.iter() {
            let is_parameter = schema.known(name.as_str()).is_some_and(|attribute| {
                attribute.behaviour == Behaviour::Parameter && attribute.default.as_ref() != Some(value)
            });
            if is_parameter && !value.is_undef() {
                parameters.set(name.clone(), value.clone());
            }
        }
        parameters
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
