//! Subject of a conformance suite.

use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ecow::EcoString;

use super::specimen::Sample;
use super::suite::give_up;
use kilter_provider::Provider;

/// A capability that a subject may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsupported {
    /// No unknown name: every requested resource exists.
    Unknown,
    /// No change that the type allows can fail.
    Failing,
    /// No change is slow enough to be interrupted.
    Slow,
    /// `get` of all resources does not list the ones that can be read by name.
    Listing,
    /// Resources cannot be removed.
    Removal,
}

/// A provider in a sandbox of its own, with test data for the laws.
///
/// The methods below supply the test data. [`Subject::without`] excuses missing data. Laws without data or an
/// excuse stay untried, so the report does not pass.
pub struct Subject {
    provider: Arc<dyn Provider>,
    again: Box<dyn Fn() -> Arc<dyn Provider> + Send + Sync>,
    enter: Box<dyn Fn() -> Result<(), String> + Send + Sync>,
    fingerprint: Box<dyn Fn() -> String + Send + Sync>,
    tried: Box<dyn Fn() -> Option<String> + Send + Sync>,
    specimens: Vec<Sample>,
    unknown: Vec<EcoString>,
    failing: Option<Sample>,
    slow: Option<Slow>,
    lacks: Vec<(Unsupported, String)>,
    spared: Vec<(String, String)>,
    name_like: Box<dyn Fn(&str) -> String + Send + Sync>,
    var_dir: Option<PathBuf>,
    kept: Vec<Box<dyn Any + Send + Sync>>,
}

/// A slow change, and a way to detect its start.
pub(super) struct Slow {
    pub(super) specimen: Sample,
    pub(super) has_begun: Box<dyn Fn() -> bool + Send + Sync>,
}

impl Subject {
    /// Creates a subject.
    ///
    /// `provider` creates a provider for the same sandbox at each call. `fingerprint` describes everything that
    /// the provider could change. It must be equal for equal sandboxes, so it contains no times and no random
    /// paths.
    pub fn new<P: Provider + 'static>(
        provider: impl Fn() -> P + Send + Sync + 'static,
        fingerprint: impl Fn() -> String + Send + Sync + 'static,
    ) -> Subject {
        Subject::of(move || Arc::new(provider()), fingerprint)
    }

    /// Like [`Subject::new`], for a provider of any kind.
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

    /// Adds a specimen. Some laws need two.
    #[must_use]
    pub fn specimen(mut self, specimen: Sample) -> Subject {
        self.specimens.push(specimen);
        self
    }

    /// Adds names of resources that do not exist.
    #[must_use]
    pub fn unknown<N: Into<EcoString>>(mut self, names: impl IntoIterator<Item = N>) -> Subject {
        self.unknown.extend(names.into_iter().map(Into::into));
        self
    }

    /// Sets a change that fails although the schema allows it. It need not be valid, because values from other
    /// resources are not validated either.
    #[must_use]
    pub fn failing(mut self, specimen: Sample) -> Subject {
        self.failing = Some(specimen);
        self
    }

    /// Sets a change that takes at least a minute, and a function that returns true after it has started.
    #[must_use]
    pub fn slow(mut self, specimen: Sample, has_begun: impl Fn() -> bool + Send + Sync + 'static) -> Subject {
        self.slow = Some(Slow { specimen, has_begun: Box::new(has_begun) });
        self
    }

    /// Excuses a missing capability, with the reason.
    #[must_use]
    pub fn without(mut self, lack: Unsupported, reason: impl Into<String>) -> Subject {
        self.lacks.push((lack, reason.into()));
        self
    }

    /// Excludes an attribute from the trials with boundary values, with the reason.
    #[must_use]
    pub fn sparing(mut self, attribute: impl Into<String>, reason: impl Into<String>) -> Subject {
        self.spared.push((attribute.into(), reason.into()));
        self
    }

    /// Sets the conversion of a text to a name in this sandbox, such as a path below its directory. Required if
    /// not every text is a valid name.
    #[must_use]
    pub fn names_like(mut self, name_like: impl Fn(&str) -> String + Send + Sync + 'static) -> Subject {
        self.name_like = Box::new(name_like);
        self
    }

    /// Sets the directory in which calls keep their data ([`Context::var_dir`](kilter_provider::Context::var_dir)). The
    /// default is none. Data in it counts as changed if the fingerprint includes it.
    #[must_use]
    pub fn var_dir(self, path: impl Into<PathBuf>) -> Subject {
        Subject { var_dir: Some(path.into()), ..self }
    }

    /// Keeps a value alive as long as the sandbox, such as a temporary directory.
    #[must_use]
    pub fn keeping(mut self, kept: impl Any + Send + Sync) -> Subject {
        self.kept.push(Box::new(kept));
        self
    }

    /// Sets a function that moves the current thread into this sandbox, for sandboxes that are namespaces. It is
    /// called before each use of the provider. If it fails, the provider is not used.
    #[must_use]
    pub fn entering(mut self, enter: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Subject {
        self.enter = Box::new(enter);
        self
    }

    /// Sets a function that returns the forbidden change that the provider tried since the last call, such as
    /// `write /etc/motd`. A blocked change leaves no trace in the fingerprint.
    #[must_use]
    pub fn trying(mut self, tried: impl Fn() -> Option<String> + Send + Sync + 'static) -> Subject {
        self.tried = Box::new(tried);
        self
    }

    fn enter(&self) {
        if let Err(why) = (self.enter)() {
            give_up(format!("its sandbox cannot be entered: {why}"));
        }
    }

    pub(super) fn provider(&self) -> &dyn Provider {
        self.enter();
        &*self.provider
    }

    /// Creates another provider for the same sandbox, without the history of the first.
    pub(super) fn provider_anew(&self) -> Arc<dyn Provider> {
        self.enter();
        (self.again)()
    }

    pub(super) fn fingerprint(&self) -> String {
        (self.fingerprint)()
    }

    /// Returns the forbidden change that the provider tried since the last call.
    pub(super) fn tried(&self) -> Option<String> {
        (self.tried)()
    }

    pub(super) fn specimens(&self) -> &[Sample] {
        &self.specimens
    }

    pub(super) fn unknown_names(&self) -> &[EcoString] {
        &self.unknown
    }

    pub(super) fn failing_specimen(&self) -> Option<&Sample> {
        self.failing.as_ref()
    }

    pub(super) fn slow_change(&self) -> Option<&Slow> {
        self.slow.as_ref()
    }

    /// Returns true if the slow change has started.
    pub(super) fn has_begun(&self, slow: &Slow) -> bool {
        self.enter();
        (slow.has_begun)()
    }

    /// Returns the reason why a capability is missing.
    pub(super) fn reason(&self, lack: Unsupported) -> Option<&str> {
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
