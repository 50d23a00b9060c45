//! Restoration of the earlier parts of files.

use ecow::EcoString;
use kilter_model::{Attributes, State, Value};
use kilter_provider::{Context, Revert, RevertTo, Wanted};

use super::{PartProvider, PartType, may_create, path_of};

impl<T: PartType> Revert for PartProvider<T> {
    fn revert_to(&self) -> RevertTo {
        RevertTo::Values
    }

    /// Restores the whole value of a mapping that was merged, because its new keys have to go.
    fn revert_values(&self, should: &Attributes, is: &State, before: &mut Attributes) -> Result<(), EcoString> {
        let is_merged = |parameter: &&str| should.get_bool(parameter) == Some(true);
        let Some(parameter) = T::MERGE.filter(is_merged) else { return Ok(()) };
        let Some(declared) = before.get(T::PROPERTY).cloned() else { return Ok(()) };
        let mut exact = should.clone();
        exact.set(parameter, false);
        let whole = self.check(&Context::empty(), path_of(should), &[&Wanted::new(&is.name, Some(&exact))]).remove(0);
        if let Some(why) = whole.unreadable {
            return Err(why);
        }
        let value = whole.attributes.get(T::PROPERTY).ok_or("its earlier value cannot be read")?;
        // A key that the declaration does not name may contain a secret.
        let is_secret = declared.holds_sensitive() || !declared.is_same(value);
        before.set(T::PROPERTY, if is_secret { Value::sensitive(value.clone()) } else { value.clone() });
        before.set(parameter, false);
        Ok(())
    }

    /// Removes a file that the creation made, unless it has other content.
    fn revert_creation(&self, _: &State, removal: &mut Attributes) -> Result<(), EcoString> {
        if may_create(removal) && std::fs::symlink_metadata(path_of(removal)).is_ok() {
            removal.set("create", false);
        }
        Ok(())
    }
}
