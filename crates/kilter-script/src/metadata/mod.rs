//! Metadata of a provider: the YAML that `describe` prints, or the file next to the script.

mod actions;
mod attributes;
mod conditions;
pub(crate) mod identities;
mod in_sync;
mod mold;
mod owned;
pub(crate) mod owns;
mod read;
mod transport;

#[cfg(test)]
mod tests;

use std::time::Duration;

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, AutoTitle, DataType, State, TypeSchema, Value};
use kilter_process::trust::TrustPolicy;

use kilter_provider::{Insync, WatchSource};

use crate::coerce::typed;
use crate::condition::Condition;
use crate::convention::ConventionName;
use crate::fault::Fault;
use crate::yaml;

pub use actions::Actions;
pub(crate) use attributes::tells_presence;
pub use in_sync::InSyncRule;
pub(crate) use mold::{EXISTS, REFRESH, complete, is_action, is_word, of_words, other};
pub(crate) use owns::Owns;

/// Attribute for the presence or the activity of a resource.
const ENSURE: &str = "ensure";

/// Value of `ensure` for an existing, inactive resource.
const STOPPED: &str = "stopped";

/// Origin of metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The file next to the script.
    Beside,
    /// The script, called by this process.
    Described,
    /// The script, called by an earlier process.
    Cached,
}

/// Metadata of a provider.
#[derive(Clone, Debug)]
pub struct Metadata {
    /// Name: `provider.name`, otherwise the file name without the extension.
    pub name: EcoString,
    /// Calling convention.
    pub convention: ConventionName,
    /// Supported actions.
    pub actions: Actions,
    /// One-time actions. None if they are not listed, so that any word is allowed.
    pub one_time: Option<Vec<EcoString>>,
    /// Action that implements a refresh.
    pub refresh: Option<EcoString>,
    /// Suitability for this machine.
    pub suitable: Condition,
    /// Preference over other providers of its type.
    pub default: Condition,
    /// True if only resources that name the provider use it: `default: false`.
    pub is_named_only: bool,
    /// True if the provider supports previews: it obeys `ral_noop`.
    pub noop_safe: bool,
    /// True if calls that only read are confined, so that they cannot change the machine.
    pub confine: bool,
    /// True if its calls may run concurrently, including changes.
    pub parallel: bool,
    /// Timeout of a call. None means kilter's default.
    pub timeout: Option<Duration>,
    /// Maximum output of a call in bytes. None means kilter's default.
    pub output: Option<usize>,
    /// Additional names under which the automatic edges of other resources find a resource.
    pub identities: Vec<AutoTitle>,
    /// Attributes that identify a resource in addition to its name. The `json` convention passes their declared
    /// values in a read.
    pub identifying: Vec<EcoString>,
    /// Conditions under which attributes with other found values are in sync.
    pub in_sync: Vec<InSyncRule>,
    /// Files that list the paths owned by a resource.
    pub owns: Option<Owns>,
    /// Event sources of a resource, in addition to the action `watch`.
    pub watches: Vec<identities::WatchRule>,
    /// Schema of the type. Unknown keys are in [`TypeSchema::extra`] and in that of the attributes.
    pub schema: TypeSchema,
    /// Name of the transport through which the provider works. None for a provider that is a program itself.
    pub transport: Option<EcoString>,
    /// Valid constructs that are probably unintended.
    pub warnings: Vec<Fault>,
    /// Origin of the metadata.
    pub(crate) origin: Origin,
}

impl Metadata {
    /// Parses metadata. `stem` is the file name of the provider without the extension.
    ///
    /// # Errors
    /// All faults, in order of location.
    pub fn parse(text: &str, stem: &str) -> Result<Metadata, Vec<Fault>> {
        read::read(text, stem, Origin::Beside)
    }

    /// Parses metadata printed by a script.
    ///
    /// # Errors
    /// As [`Metadata::parse`], and if the convention has no `describe` action.
    pub(crate) fn described(text: &str, stem: &str) -> Result<Metadata, Vec<Fault>> {
        read::read(text, stem, Origin::Described)
    }

    /// Lists the additional names under which other resources find a resource. Skips names that cannot be
    /// determined.
    pub(crate) fn identify(&self, name: &str, should: &Attributes, say: &mut dyn FnMut(&str)) {
        for title in &self.identities {
            let names = self.schema.titles(title, should, name).unwrap_or_default();
            names.iter().filter(|identity| *identity != name).for_each(|identity| say(identity));
        }
    }

    /// Compares an attribute by its condition, if it has one.
    pub(crate) fn compare(&self, attribute: &str, is: &State, should: &Attributes) -> Insync {
        in_sync::compare(&self.in_sync, &self.schema, attribute, is, should)
    }

    /// Returns the wanted paths that a resource owns.
    pub(crate) fn owned(
        &self,
        trust: &TrustPolicy,
        resource: (&str, &Attributes),
        is_wanted: &dyn Fn(&str) -> bool,
    ) -> Vec<EcoString> {
        let owned = |owns| owned::owned(owns, &self.schema, trust, resource, is_wanted);
        self.owns.as_ref().map(owned).unwrap_or_default()
    }

    /// Returns the event sources of a resource.
    pub(crate) fn watched(&self, name: &str, should: &Attributes) -> Vec<WatchSource> {
        identities::watched(&self.watches, self.actions.watch, &self.schema, name, should)
    }

    /// Returns true if a refresh of a resource has an effect after its change. An absent or stopped resource
    /// has no state to refresh, and a resource that the change starts already runs with all earlier changes.
    pub(crate) fn acts_on_refresh(&self, is: &State, should: &Attributes) -> bool {
        if self.is_started(is, should) {
            return false;
        }
        match (should.text(ENSURE).or_else(|| is.attributes.text(ENSURE)), should.get_bool(EXISTS)) {
            (Some(ensure), _) => !matches!(ensure, "absent" | STOPPED),
            (None, Some(exists)) => exists,
            (None, None) => is.exists,
        }
    }

    /// Returns true if a change from `is` to `should` starts a resource of a type that supports `stopped`.
    fn is_started(&self, is: &State, should: &Attributes) -> bool {
        // A type that accepts any text accepts `stopped` as well, although the resource may have no such state.
        let can_stop = || self.schema.find(ENSURE).is_some_and(|ensure| ensure.data_type.allowed().contains(&STOPPED));
        let was_down = !is.exists || matches!(is.attributes.text(ENSURE), Some("absent" | STOPPED));
        was_down && should.text(ENSURE).is_some_and(|wanted| !matches!(wanted, "absent" | STOPPED)) && can_stop()
    }

    /// Returns the reason why the provider cannot change resources, if it has no such action.
    pub(crate) fn only_reads(&self) -> Option<EcoString> {
        let word = match self.convention {
            _ if self.actions.update => return None,
            ConventionName::Simple => "update",
            ConventionName::Json => "set",
            ConventionName::Mold => "conform",
        };
        let type_name = &self.schema.name;
        Some(eco_format!("the provider `{}` of {type_name} can only read: it has no action `{word}`", self.name))
    }

    /// Converts the raw value of an output to its declared type. Returns none if the provider declares no such
    /// output.
    pub(crate) fn sent(&self, name: &str, raw: &Value) -> Option<Result<Option<Value>, EcoString>> {
        let output = self.schema.find_output(name)?;
        Some(match &output.data_type {
            // A value without a declared type is passed on unchanged.
            DataType::Any => Ok(Some(raw.clone())),
            known => typed(known, raw),
        })
    }

    /// Returns the attribute that names a resource.
    pub(crate) fn key(&self) -> &str {
        self.schema.namevars().next().map_or("name", |namevar| namevar.name.as_str())
    }
}

pub(crate) use read::mebibytes;
pub use transport::TransportMetadata;

/// Parses a YAML text as a value.
pub(crate) fn value(text: &str) -> Result<Value, Fault> {
    yaml::parse(text).map(|node| node.value())
}
