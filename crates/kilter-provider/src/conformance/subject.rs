//! What a suite is run on.

use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ecow::EcoString;

use super::specimen::Specimen;
use super::suite::give_up;
use crate::contract::Provider;

/// Something that a subject does not have to offer, with the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// No name is unknown: whatever is asked for exists.
    Unknown,
    /// No change that the type allows can fail.
    Failing,
    /// No change takes long enough to be interrupted.
    Slow,
    /// `get` of all does not list the resources that can be asked for by name.
    Listing,
    /// Resources cannot be removed.
    Removal,
}

/// A provider on a world of its own, and what can be done with it there.
///
/// What a suite needs is given with the methods below, or excused with [`Subject::without`]; what is
/// neither given nor excused leaves laws untried, and a report with those is no pass.
pub struct Subject {
    provider: Arc<dyn Provider>,
    again: Box<dyn Fn() -> Arc<dyn Provider> + Send + Sync>,
    enter: Box<dyn Fn() -> Result<(), String> + Send + Sync>,
    fingerprint: Box<dyn Fn() -> String + Send + Sync>,
    tried: Box<dyn Fn() -> Option<String> + Send + Sync>,
    specimens: Vec<Specimen>,
    unknown: Vec<EcoString>,
    failing: Option<Specimen>,
    slow: Option<Slow>,
    lacks: Vec<(Lack, String)>,
    spared: Vec<(String, String)>,
    name_like: Box<dyn Fn(&str) -> String + Send + Sync>,
    var_dir: Option<PathBuf>,
    kept: Vec<Box<dyn Any + Send + Sync>>,
}

/// A change that takes long, and how to see that it is under way.
pub(super) struct Slow {
    pub(super) specimen: Specimen,
    pub(super) has_begun: Box<dyn Fn() -> bool + Send + Sync>,
}

impl Subject {
    /// A subject whose provider is made by `provider`, each time for the same world, and whose world
    /// is told by `fingerprint`: all that the provider could change, in words that are the same for two
    /// worlds made alike (no times, no random paths).
    pub fn new<P: Provider + 'static>(
        provider: impl Fn() -> P + Send + Sync + 'static,
        fingerprint: impl Fn() -> String + Send + Sync + 'static,
    ) -> Subject {
        Subject::of(move || Arc::new(provider()), fingerprint)
    }

    /// A subject like [`Subject::new`], whose provider may be of any kind.
    pub fn of(
        provider: impl Fn() -> Arc<dyn Provider> + Send + Sync + 'static,
        fingerprint: impl Fn() -> String + Send + Sync + 'static,
    ) -> Subject {
        Subject {
            provider: provider(),
            again: Box::new(provider),
            enter: Box::new(|| Ok(())),
            fingerprint: Box::new(fingerprint),
            tried: Box::new(|| None),
            specimens: Vec::new(),
            unknown: Vec::new(),
            failing: None,
            slow: None,
            lacks: Vec::new(),
            spared: Vec::new(),
            name_like: Box::new(str::to_owned),
            var_dir: None,
            kept: Vec::new(),
        }
    }

    /// Adds a resource that can be made. Some laws need two of them.
    #[must_use]
    pub fn specimen(mut self, specimen: Specimen) -> Subject {
        self.specimens.push(specimen);
        self
    }

    /// Names resources that do not exist.
    #[must_use]
    pub fn unknown<N: Into<EcoString>>(mut self, names: impl IntoIterator<Item = N>) -> Subject {
        self.unknown.extend(names.into_iter().map(Into::into));
        self
    }

    /// Gives a change that fails when it is made, though the schema allows it. It need not be valid:
    /// values that come from other resources during a run are not validated either.
    #[must_use]
    pub fn failing(mut self, specimen: Specimen) -> Subject {
        self.failing = Some(specimen);
        self
    }

    /// Gives a change that takes at least a minute, and a way to see that it is under way.
    #[must_use]
    pub fn slow(mut self, specimen: Specimen, has_begun: impl Fn() -> bool + Send + Sync + 'static) -> Subject {
        self.slow = Some(Slow { specimen, has_begun: Box::new(has_begun) });
        self
    }

    /// Says why the subject has not got something.
    #[must_use]
    pub fn without(mut self, lack: Lack, reason: impl Into<String>) -> Subject {
        self.lacks.push((lack, reason.into()));
        self
    }

    /// Leaves an attribute out where values at the edge of its type are tried, and says why.
    #[must_use]
    pub fn sparing(mut self, attribute: impl Into<String>, reason: impl Into<String>) -> Subject {
        self.spared.push((attribute.into(), reason.into()));
        self
    }

    /// Says how a text becomes a name within this world, where not every text is one: a path below its
    /// directory.
    #[must_use]
    pub fn names_like(mut self, name_like: impl Fn(&str) -> String + Send + Sync + 'static) -> Subject {
        self.name_like = Box::new(name_like);
        self
    }

    /// Says which directory of this world calls are given to keep things in ([`Context::var_dir`](crate::Context::var_dir));
    /// none if nothing is said. What is kept there counts as changed where the fingerprint tells of it.
    #[must_use]
    pub fn var_dir(self, path: impl Into<PathBuf>) -> Subject {
        Subject { var_dir: Some(path.into()), ..self }
    }

    /// Keeps something alive as long as the world is needed: a temporary directory.
    #[must_use]
    pub fn keeping(mut self, kept: impl Any + Send + Sync) -> Subject {
        self.kept.push(Box::new(kept));
        self
    }

    /// Says what takes a thread into this world, where worlds are not directories but namespaces: it is called
    /// whenever the provider is about to be used, on the thread that uses it. Where it fails nothing is used.
    #[must_use]
    pub fn entering(mut self, enter: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Subject {
        self.enter = Box::new(enter);
        self
    }

    /// Says what the provider has tried to change in calls in which it must not, since this was last asked: `write
    /// /etc/motd`. Who is kept from it leaves no trace in the fingerprint.
    #[must_use]
    pub fn trying(mut self, tried: impl Fn() -> Option<String> + Send + Sync + 'static) -> Subject {
        self.tried = Box::new(tried);
        self
    }

    fn enter(&self) {
        if let Err(why) = (self.enter)() {
            give_up(format!("its world cannot be entered: {why}"));
        }
    }

    pub(super) fn provider(&self) -> &dyn Provider {
        self.enter();
        &*self.provider
    }

    /// Another provider on the same world, which has not seen what the first one did.
    pub(super) fn provider_anew(&self) -> Arc<dyn Provider> {
        self.enter();
        (self.again)()
    }

    pub(super) fn fingerprint(&self) -> String {
        (self.fingerprint)()
    }

    /// What the provider has tried since this was last asked.
    pub(super) fn tried(&self) -> Option<String> {
        (self.tried)()
    }

    pub(super) fn specimens(&self) -> &[Specimen] {
        &self.specimens
    }

    pub(super) fn unknown_names(&self) -> &[EcoString] {
        &self.unknown
    }

    pub(super) fn failing_specimen(&self) -> Option<&Specimen> {
        self.failing.as_ref()
    }

    pub(super) fn slow_change(&self) -> Option<&Slow> {
        self.slow.as_ref()
    }

    /// Whether the slow change is seen to be under way.
    pub(super) fn has_begun(&self, slow: &Slow) -> bool {
        self.enter();
        (slow.has_begun)()
    }

    /// Why something is lacking, if it is.
    pub(super) fn reason(&self, lack: Lack) -> Option<&str> {
        self.lacks.iter().find(|(known, _)| *known == lack).map(|(_, reason)| reason.as_str())
    }

    pub(super) fn spared(&self) -> &[(String, String)] {
        &self.spared
    }

    pub(super) fn kept_in(&self) -> Option<&Path> {
        self.var_dir.as_deref()
    }

    pub(super) fn name_like(&self, text: &str) -> String {
        (self.name_like)(text)
    }
}
