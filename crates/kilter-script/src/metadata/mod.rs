//! What a provider says of itself: the YAML of `describe`, or of the file beside the script.

mod actions;
mod attributes;
mod conditions;
mod fault;
mod mold;
pub(crate) mod node;
pub(crate) mod owns;
mod read;
pub(crate) mod titles;

#[cfg(test)]
mod tests;

use std::time::Duration;

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, AutoTitle, DataType, State, TypeSchema, Value};
use kilter_process::trust::TrustPolicy;

use kilter_provider::Watch;

use crate::condition::Condition;
use crate::convention::ConventionName;
use crate::owned;
use crate::typed::typed;

pub use actions::Actions;
pub(crate) use attributes::tells_presence;
pub use fault::{Fault, Place};
pub(crate) use mold::{EXISTS, REFRESH, complete, is_action, is_word, of_words, other};
pub(crate) use owns::Owns;

/// The attribute for the presence or the activity of a resource.
const ENSURE: &str = "ensure";

/// The value of `ensure` for a resource that is there and inactive.
const STOPPED: &str = "stopped";

/// Where metadata was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// In the file beside the script.
    Beside,
    /// By the script itself, in this process.
    Described,
    /// By the script itself, in an earlier process.
    Cached,
}

/// What a provider says of itself.
#[derive(Clone, Debug)]
pub struct Metadata {
    /// Its name: `provider.name`, or else the stem of its file.
    pub name: EcoString,
    /// How it is called.
    pub convention: ConventionName,
    /// What it can do.
    pub actions: Actions,
    /// Its one-time actions; none where nobody has said which there are, and any word may be tried.
    pub one_time: Option<Vec<EcoString>>,
    /// The action that serves a refresh.
    pub refresh: Option<EcoString>,
    /// When it can be used.
    pub suitable: Condition,
    /// When it is preferred to others of its type.
    pub default: Condition,
    /// Whether it may be called to tell what it would change: it then heeds `ral_noop`.
    pub noop_safe: bool,
    /// Whether it is confined while it reads, unless it says otherwise: it then cannot change the machine.
    pub confine: bool,
    /// Whether its calls may go side by side, those that change something too.
    pub parallel: bool,
    /// How long one call may take; kilter's own limit if none.
    pub timeout: Option<Duration>,
    /// How many bytes one call may print; kilter's own limit if none.
    pub output: Option<usize>,
    /// The names, beside its own, under which others find a resource.
    pub identities: Vec<AutoTitle>,
    /// The attributes that identify a resource beside its name. The convention `json` passes their declared values when it reads.
    pub identifying: Vec<EcoString>,
    /// Where the paths are listed that a resource owns.
    pub owns: Option<Owns>,
    /// What tells that a resource may have changed, beside the action `watch`.
    pub watches: Vec<titles::WatchRule>,
    /// The type, as this provider has it. Keys that kilter does not know are in
    /// [`TypeSchema::extra`] and in that of the attributes.
    pub schema: TypeSchema,
    /// What is allowed, but hardly meant.
    pub warnings: Vec<Fault>,
    /// Where it was written.
    pub(crate) origin: Origin,
}

impl Metadata {
    /// Reads metadata. `stem` is the name of the provider's file without its ending.
    ///
    /// # Errors
    /// Everything that is wrong with it, in the order of the places.
    pub fn parse(text: &str, stem: &str) -> Result<Metadata, Vec<Fault>> {
        read::read(text, stem, Origin::Beside)
    }

    /// Reads the metadata that a script printed.
    ///
    /// # Errors
    /// As [`Metadata::parse`]; and where the convention has no word to ask for it.
    pub(crate) fn described(text: &str, stem: &str) -> Result<Metadata, Vec<Fault>> {
        read::read(text, stem, Origin::Described)
    }

    /// Says under which names, beside its own, others find a resource. What cannot be told is left out.
    pub(crate) fn identify(&self, name: &str, should: &Attributes, say: &mut dyn FnMut(&str)) {
        for title in &self.identities {
            let names = self.schema.titles(title, should, name).unwrap_or_default();
            names.iter().filter(|identity| *identity != name).for_each(|identity| say(identity));
        }
    }

    /// Those paths that are wanted and that a resource owns.
    pub(crate) fn owned(
        &self,
        trust: &TrustPolicy,
        resource: (&str, &Attributes),
        is_wanted: &dyn Fn(&str) -> bool,
    ) -> Vec<EcoString> {
        let owned = |owns| owned::owned(owns, &self.schema, trust, resource, is_wanted);
        self.owns.as_ref().map(owned).unwrap_or_default()
    }

    /// What tells that a resource may have changed.
    pub(crate) fn watched(&self, name: &str, should: &Attributes) -> Vec<Watch> {
        titles::watched(&self.watches, self.actions.watch, &self.schema, name, should)
    }

    /// Returns true if a refresh of a resource does something after its change: one that is absent or stopped has nothing to
    /// refresh, and one that the change starts runs with everything that was changed before.
    pub(crate) fn acts_on_refresh(&self, is: &State, should: &Attributes) -> bool {
        if self.is_started(is, should) {
            return false;
        }
        match (should.text(ENSURE).or_else(|| is.attributes.text(ENSURE)), should.truth(EXISTS)) {
            (Some(ensure), _) => !matches!(ensure, "absent" | STOPPED),
            (None, Some(exists)) => exists,
            (None, None) => is.exists,
        }
    }

    /// Returns true if a change from `is` to `should` starts a resource of a type that knows `stopped`.
    fn is_started(&self, is: &State, should: &Attributes) -> bool {
        let can_stop =
            || self.schema.find(ENSURE).is_some_and(|ensure| ensure.data_type.check(&STOPPED.into()).is_ok());
        let was_down = !is.exists || matches!(is.attributes.text(ENSURE), Some("absent" | STOPPED));
        was_down && should.text(ENSURE).is_some_and(|wanted| !matches!(wanted, "absent" | STOPPED)) && can_stop()
    }

    /// Why it changes nothing, where its actions are without a word for that.
    pub(crate) fn only_reads(&self) -> Option<EcoString> {
        let word = match self.convention {
            _ if self.actions.update => return None,
            ConventionName::Simple => "update",
            ConventionName::Json => "set",
            ConventionName::Mold => "conform",
        };
        let type_name = &self.schema.name;
        Some(eco_format!("the provider `{}` of {type_name} can only read: its actions are without `{word}`", self.name))
    }

    /// What is sent as the output of a name, if there is such an output: of its type where it has one. None where the
    /// script does not know it.
    pub(crate) fn sent(&self, name: &str, raw: &Value) -> Option<Result<Option<Value>, EcoString>> {
        let output = self.schema.find_output(name)?;
        Some(match &output.data_type {
            // What nobody has given a type is passed on as it is.
            DataType::Any => Ok(Some(raw.clone())),
            known => typed(known, raw),
        })
    }

    /// The attribute that names a resource.
    pub(crate) fn key(&self) -> &str {
        self.schema.namevars().next().map_or("name", |namevar| namevar.name.as_str())
    }
}

pub(crate) use read::mebibytes;

/// The value that a text in YAML stands for.
pub(crate) fn value(text: &str) -> Result<Value, Fault> {
    node::parse(text).map(|node| node.value())
}
