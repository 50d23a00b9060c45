//! The type `marker`: empty files in a directory.
use std::{fs, io, path::PathBuf};

use kilter_model::{Attributes, Behaviour, Change, Outcome, State, TypeSchema};
use kilter_provider::{Context, Mode, Provider, ProviderError, Query};

/// The provider of a directory.
pub struct Markers(pub PathBuf, pub TypeSchema);

/// Returns the schema of the type.
pub fn schema() -> TypeSchema {
    TypeSchema::new("marker", "Empty files in a directory.")
        .attribute("ensure", "Enum[present, absent]", Behaviour::Property, "Desired existence.")
        .attribute("name", r"Pattern[/\A\w+\z/]", Behaviour::Namevar, "Name of the file.")
}

impl Provider for Markers {
    fn schema(&self) -> &TypeSchema {
        &self.1
    }
    fn name(&self) -> &'static str {
        "directory"
    }
    fn get(&self, _: &Context<'_>, _: Query<'_>) -> Result<Vec<State>, ProviderError> {
        let names = fs::read_dir(&self.0).and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect());
        let names: Vec<_> = names.map_err(|error: io::Error| ProviderError::new(error.to_string()))?;
        let attributes = |name| Attributes::from_iter([("ensure", "present"), ("name", name)]);
        Ok(names.iter().filter_map(|name| name.to_str()).map(|name| State::present(name, attributes(name))).collect())
    }
    fn set(&self, _: &Context<'_>, changes: &[Change<'_>], _: Mode) -> Vec<Outcome> {
        let set = |change: &Change<'_>| {
            let path = self.0.join(change.name.as_str());
            let is_present = change.should.is_some_and(|should| should.text("ensure") == Some("present"));
            let result = if is_present { fs::write(path, "") } else { fs::remove_file(path) };
            result.map_or_else(|error| Outcome::failed(error.to_string()), |()| Outcome::done())
        };
        changes.iter().map(set).collect()
    }
}
