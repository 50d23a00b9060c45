//! The type `hostname`: the names of the machine.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Behaviour, Change, Feature, Outcome, State, TypeSchema};
use kilter_provider::{
    AutoEdge, Claim, Context, Declaration, Effect, Footprint, Mode, PathState, Placement, Predict, Provider,
    ProviderError, Query, Redactor, Relations, Scheduling, Scope, SideEffects, ValidationError, Watch, WatchSink,
    WatchSource, redacted_outcome,
};

use crate::file::atomic_rewrite::{self, AtomicRewrite};
use crate::{proc_watch, shell_settings};

const STATIC: &str = "/etc/hostname";
const INFO: &str = "/etc/machine-info";
const LIVE: &str = "/proc/sys/kernel/hostname";

/// Setting of [`INFO`] with the pretty name (machine-info(5)).
const PRETTY: &str = "PRETTY_HOSTNAME";

/// Maximum length of a host name in bytes (hostname(7)).
const MAX_BYTES: usize = 64;

const DESC: &str = "\
Name of the machine.

```yaml
resources:
  hostname[web1.example.org]:
    pretty: Web server of the shop
```

A machine has one host name, so kilter refuses a second `hostname`. The static name is the content of \
`/etc/hostname` and is used at the boot. The transient name is that of the kernel, which programs see. Both are the \
name of the resource by default. kilter sets the name in the kernel itself, and needs no `hostnamectl`.

Programs that have started before may still show the old name. kilter does not change `/etc/hosts`: declare a \
[`host`](host.md) for the name if programs look it up.";

/// Sets the host name in the kernel.
type SetLive = Box<dyn Fn(&str) -> io::Result<()> + Send + Sync>;

/// Provides the type `hostname`.
pub struct HostnameProvider {
    root: PathBuf,
    set_live: SetLive,
    turn: Mutex<()>,
}

impl Default for HostnameProvider {
    fn default() -> HostnameProvider {
        HostnameProvider::new("/", |name| rustix::system::sethostname(name.as_bytes()).map_err(Into::into))
    }
}

impl HostnameProvider {
    /// Creates a provider for the files below `root` and a kernel that `set_live` changes.
    pub fn new(
        root: impl Into<PathBuf>,
        set_live: impl Fn(&str) -> io::Result<()> + Send + Sync + 'static,
    ) -> HostnameProvider {
        HostnameProvider { root: root.into(), set_live: Box::new(set_live), turn: Mutex::new(()) }
    }

    fn path(&self, path: &str) -> String {
        self.root.join(path.trim_start_matches('/')).to_string_lossy().into_owned()
    }

    fn bytes(&self, path: &str) -> Result<Vec<u8>, ProviderError> {
        let read = atomic_rewrite::read(&self.path(path)).map_err(|error| ProviderError::new(error.to_string()))?;
        Ok(read.unwrap_or_default())
    }

    /// Returns the attributes on the machine.
    fn found(&self) -> Result<Attributes, ProviderError> {
        let live = std::fs::read_to_string(Path::new(&self.path(LIVE)));
        let live = live.map_err(|error| ProviderError::new(eco_format!("cannot read {}: {error}", self.path(LIVE))))?;
        let mut found = Attributes::new();
        if let Some(name) = static_name(&self.bytes(STATIC)?) {
            found.push("static", name);
        }
        found.push("transient", live.trim());
        found.push("pretty", shell_settings::get(&self.bytes(INFO)?, PRETTY).unwrap_or_default());
        Ok(found)
    }

    fn change(&self, cx: &Context<'_>, change: &Change<'_>) -> Result<Outcome, EcoString> {
        let should = change.should.ok_or("a machine always has a name: it cannot be removed")?;
        let mut outcome = Outcome::done();
        // Values from other resources have not been validated before.
        if let Some(problem) = problems(change.name, should).pop() {
            return Err(eco_format!("{problem}"));
        }
        if let Some(name) = should.text("static").filter(|_| change.differs("static")) {
            outcome.notes.extend(self.rewrite(cx, STATIC, |_| format!("{name}\n").into_bytes())?);
        }
        if let Some(pretty) = should.text("pretty").filter(|_| change.differs("pretty")) {
            let pretty = Some(pretty).filter(|pretty| !pretty.is_empty());
            outcome.notes.extend(self.rewrite(cx, INFO, |old| shell_settings::with(old, PRETTY, pretty))?);
        }
        if let Some(name) = should.text("transient").filter(|_| change.differs("transient")) {
            (self.set_live)(name).map_err(|error| eco_format!("cannot set the host name in the kernel: {error}"))?;
        }
        Ok(outcome)
    }

    /// Replaces a file. Returns what could not be kept.
    fn rewrite(
        &self,
        cx: &Context<'_>,
        path: &str,
        new: impl Fn(&[u8]) -> Vec<u8>,
    ) -> Result<Option<EcoString>, EcoString> {
        let path = self.path(path);
        atomic_rewrite::rewritten(|| {
            let file = AtomicRewrite::open(&path)?;
            let bytes = new(file.bytes());
            let lost = file.replace(&bytes, 0o644, cx)?;
            Ok((!lost.is_empty()).then(|| eco_format!("{path}: could not keep {}", lost.join(", "))))
        })
    }
}

/// Returns the name in a hostname(5) file.
fn static_name(bytes: &[u8]) -> Option<EcoString> {
    let text = String::from_utf8_lossy(bytes);
    text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#')).map(EcoString::from)
}

fn schema() -> TypeSchema {
    TypeSchema::new("hostname", DESC)
        .attribute("name", "String[1]", Behaviour::Namevar, "Host name: `web1`, `web1.example.org`.")
        .attribute(
            "static",
            "String[1]",
            Behaviour::Property,
            "Name in `/etc/hostname`. The default is the name of the resource.",
        )
        .attribute("transient", "String[1]", Behaviour::Property, "Name in the kernel. The default is the static name.")
        .attribute(
            "pretty",
            "String",
            Behaviour::Property,
            "Name for people, in `/etc/machine-info`: `Web server of the shop`; `\"\"` removes it.",
        )
        .features(&[Feature::Canonicalize, Feature::SimpleGetFilter])
}

fn problems(name: &str, should: &Attributes) -> Vec<ValidationError> {
    let names = ["static", "transient"].map(|attribute| (attribute, should.text(attribute)));
    let mut found = Vec::new();
    for (attribute, name) in std::iter::once(("name", Some(name))).chain(names) {
        let Some(name) = name.filter(|name| !is_hostname(name)) else { continue };
        let problem = ValidationError::with(attribute, format!("`{name}` is not a host name"));
        found.push(problem.hint(
            "a host name has at most 64 letters, digits and hyphens, and dots between its parts: web1.example.org",
        ));
    }
    for attribute in ["static", "transient"] {
        if should.get(attribute).is_some_and(kilter_model::Value::holds_sensitive) {
            let problem = ValidationError::with(attribute, "a host name cannot be a secret: every user can read it");
            found.push(problem.hint("use a value that is not secret"));
        }
    }
    if should.text("pretty").is_some_and(|pretty| pretty.contains(char::is_control)) {
        found.push(ValidationError::with("pretty", "the name for people is a single line"));
    }
    found
}

fn is_hostname(name: &str) -> bool {
    let is_label = |label: &str| {
        let letters = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        letters && !label.is_empty() && !label.starts_with('-') && !label.ends_with('-')
    };
    name.len() <= MAX_BYTES && name.split('.').all(is_label)
}

impl Provider for HostnameProvider {
    crate::builtin::describe!("hostname", "kernel", schema, [scheduling, relations, predict, watch]);

    fn get(&self, _: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        let found = self.found()?;
        let state = |name: EcoString| {
            let mut attributes = Attributes::from_iter([("name", name.clone())]);
            found.iter().for_each(|(attribute, value)| attributes.push(attribute.clone(), value.clone()));
            State::present(name, attributes)
        };
        Ok(match query {
            Query::All => {
                let name = found.text("static").or(found.text("transient")).unwrap_or_default();
                vec![state(name.into())]
            }
            Query::Named(wanted) => wanted.iter().map(|one| state(one.name.clone())).collect(),
        })
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        if mode == Mode::Preview {
            return vec![Outcome::done(); changes.len()];
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = |change| {
            let outcome = self.change(cx, change).unwrap_or_else(Outcome::failed);
            redacted_outcome(change, outcome)
        };
        changes.iter().map(changed).collect()
    }

    fn validate(&self, name: &str, should: &Attributes, _: &[&str]) -> Vec<ValidationError> {
        let seal = Redactor::of(should);
        problems(name, should).into_iter().map(|problem| seal.problem(problem)).collect()
    }

    fn canonicalize(&self, _: &Context<'_>, resources: &mut [Declaration<'_>]) -> Vec<Vec<ValidationError>> {
        for Declaration { name, should } in resources.iter_mut() {
            if should.get("static").is_none() {
                should.set("static", EcoString::clone(name));
            }
            if should.get("transient").is_none()
                && let Some(name) = should.get("static").cloned()
            {
                should.set("transient", name);
            }
        }
        vec![Vec::new(); resources.len()]
    }
}

impl Scheduling for HostnameProvider {
    fn placement(&self, _: &Attributes) -> Placement {
        Placement::Inline
    }

    fn set_placement(&self, _: &Attributes) -> Placement {
        Placement::Worker
    }
}

impl Relations for HostnameProvider {
    fn claims(&self, _: &str, _: &Attributes, say: &mut dyn FnMut(Claim<'_>)) {
        say(Claim::whole(STATIC));
    }

    fn auto_edges(&self, _: &str, _: &Attributes, add: &mut dyn FnMut(AutoEdge<'_>)) {
        [STATIC, INFO].iter().for_each(|path| add(AutoEdge::require("file", path)));
    }
}

impl Predict for HostnameProvider {
    fn side_effects(&self, _: &Attributes) -> SideEffects {
        SideEffects::Own
    }

    fn effects(&self, _: &Context<'_>, _: &Change<'_>) -> Option<Vec<Effect>> {
        let unknown = |path: &str| Effect::Path { path: path.into(), node: PathState::Unknown };
        Some([STATIC, INFO].map(unknown).into())
    }

    fn footprint(&self, _: &str, _: &Attributes, say: &mut dyn FnMut(Footprint<'_>)) {
        [STATIC, INFO].iter().for_each(|path| say(Footprint::Writes { path, is_whole: false }));
    }
}

impl Watch for HostnameProvider {
    /// Returns the watches for the files. The kernel reports its name to the provider.
    fn watches(&self, _: &str, _: &Attributes) -> Vec<WatchSource> {
        let file = |path| WatchSource::Path { path: self.path(path).into(), scope: Scope::This };
        vec![file(STATIC), file(INFO), WatchSource::Provider]
    }

    fn watch(
        &self,
        cx: &Context<'_>,
        _: Option<kilter_provider::Wanted<'_>>,
        tell: &dyn WatchSink,
    ) -> Result<(), ProviderError> {
        let live = self.path(LIVE);
        proc_watch::follow(&[PathBuf::from(&live)], cx, tell)
            .map_err(|errno| ProviderError::new(eco_format!("watch of {live}: {errno}")))
    }
}

#[cfg(test)]
mod tests;
