//! The type `nspawn`: machines of systemd-nspawn.
//!
//! A machine is an instance of the unit `systemd-nspawn@.service`. The provider of the type `service` reads and changes
//! it.

use std::collections::BTreeSet;

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Behaviour, Change, Feature, Outcome, State, TypeSchema};
use kilter_provider::{
    AutoEdge, Batch, Context, Effect, Insync, Match, Mode, PathState, Predict, Provider, ProviderError, Query, Refresh,
    Relations, Scheduling, SideEffects, Suitability, ValidationError, Wanted, Watch, WatchSink, WatchSource,
};

use crate::ServiceProvider;
use crate::accounts::System;

/// Program that the unit starts.
const PROGRAM: &str = "/usr/bin/systemd-nspawn";
/// Debian's package with the program.
const PACKAGE: &str = "systemd-container";
const TEMPLATE: &str = "systemd-nspawn@";
/// Unit that starts the enabled machines at boot.
const TARGET: &str = "machines.target";
/// Directory of the file systems of machines.
const IMAGES: &str = "/var/lib/machines";
/// Directory of their settings.
const SETTINGS: &str = "/etc/systemd/nspawn";

/// Maximum length of a name in bytes.
const MAX_NAME_BYTES: usize = 64;

const DESC: &str = "\
Machines of systemd-nspawn: containers that boot an operating system of their own.

```yaml
resources:
  archive[/srv/images/web.tar.xz]: {extract_path: /var/lib/machines/web}
  file:
    /var/lib/machines/web: {ensure: directory, mode: \"0755\"}
    /etc/systemd/nspawn/web.nspawn:
      content: |
        [Network]
        Port=tcp:8080:80
      notify: nspawn[web]
  nspawn[web]: {ensure: running, enable: true}
```

A machine is the unit `systemd-nspawn@NAME.service`. Its file system is the directory `/var/lib/machines/NAME` or the \
image `/var/lib/machines/NAME.raw`; other resources create it, and kilter removes none. Its settings are \
`/etc/systemd/nspawn/NAME.nspawn` (systemd.nspawn(5)) and drop-ins of the unit. `kilter get` lists the file systems in \
`/var/lib/machines` and the running units.

A refresh restarts a running machine. If a machine ends directly after its start, the resource fails with the last \
lines of its journal.

**Automatic edges.** The resource runs after the declared package `systemd-container`, and after the files of its \
settings and of its unit. It runs after files, archives, checkouts and mounts at the path of the file system or above \
it. Order resources below the file system by `require`.

**Limits.** kilter does not see a machine that was started without the unit, as by `systemd-nspawn --boot` in a \
terminal.";

fn schema() -> TypeSchema {
    TypeSchema::new("nspawn", DESC)
        .attribute("name", "String[1]", Behaviour::Namevar, "Name of the machine: `web`.")
        .attribute(
            "ensure",
            "Enum[running, stopped]",
            Behaviour::Property,
            "Activity of the machine. `stopped` includes a machine that failed.",
        )
        .attribute(
            "enable",
            "Enum['true', 'false', mask]",
            Behaviour::Property,
            "Start at boot. `true` also enables `machines.target`, which starts the machines. `mask` also prevents a \
             manual start. A masked machine is in sync with `false`.",
        )
        .features(&[Feature::CustomInsync, Feature::Refresh, Feature::SimpleGetFilter])
}

/// Provides the type `nspawn`.
pub struct NspawnProvider {
    system: System,
    /// Has its own connections, because its watch reports the names of machines.
    services: ServiceProvider,
}

impl NspawnProvider {
    /// Creates a provider for the machines of this host.
    pub fn new() -> NspawnProvider {
        NspawnProvider::on(System::real(), ServiceProvider::new())
    }

    fn on(system: System, services: ServiceProvider) -> NspawnProvider {
        NspawnProvider { system, services }
    }

    fn has_image(&self, name: &str) -> bool {
        images(name).iter().any(|path| std::fs::symlink_metadata(self.system.path(path)).is_ok())
    }

    fn states(&self, cx: &Context<'_>, names: &[&EcoString]) -> Result<Vec<State>, ProviderError> {
        let units: Vec<EcoString> = names.iter().map(|name| unit_of(name)).chain([TARGET.into()]).collect();
        let wanted: Vec<Wanted<'_>> = units.iter().map(|unit| Wanted::new(unit, None)).collect();
        let mut found = self.services.get(cx, Query::Named(&wanted))?;
        let is_booted = found.pop().is_some_and(|target| target.attributes.text("enable") == Some("true"));
        let found = found.into_iter().zip(names);
        Ok(found.map(|(unit, name)| self.state(name, &unit, is_booted)).collect())
    }

    /// Returns the state of a machine. `is_booted` is true if enabled machines start at boot.
    fn state(&self, name: &EcoString, unit: &State, is_booted: bool) -> State {
        let missing = State { is_unknown: true, ..State::absent(name.clone()) };
        if let Some(why) = problem(name).or_else(|| unit.unreadable.clone()) {
            return State { unreadable: Some(why), ..State::absent(name.clone()) };
        }
        let ensure = unit.attributes.text("ensure").unwrap_or("stopped");
        let enable = match unit.attributes.text("enable") {
            Some("true") if is_booted => "true",
            Some("mask") => "mask",
            _ => "false",
        };
        if !unit.exists || (ensure, enable) == ("stopped", "false") && !self.has_image(name) {
            return missing;
        }
        let attributes = [("name", name.as_str()), ("ensure", ensure), ("enable", enable)];
        State::present(name.clone(), Attributes::from_iter(attributes))
    }

    /// Returns the names of the machines with a file system, and of the units that systemd has loaded.
    fn names(&self, cx: &Context<'_>) -> Result<BTreeSet<EcoString>, ProviderError> {
        let entries = std::fs::read_dir(self.system.path(IMAGES)).into_iter().flatten().flatten();
        let image = |entry: std::fs::DirEntry| {
            let name = entry.file_name().into_string().ok()?;
            Some(EcoString::from(name.strip_suffix(".raw").unwrap_or(&name)))
        };
        let services = self.services.get(cx, Query::All)?;
        let units = services.iter().filter_map(|unit| unit.name.strip_prefix(TEMPLATE)).map(EcoString::from);
        Ok(entries.filter_map(image).chain(units).filter(|name| problem(name).is_none()).collect())
    }

    fn change(&self, cx: &Context<'_>, change: &Change<'_>, mode: Mode) -> Outcome {
        if let Some(why) = problem(change.name) {
            return Outcome::failed(why);
        }
        let Some(should) = change.should else {
            return Outcome::failed("kilter removes no machines: declare `ensure: stopped`, and remove its files");
        };
        let set = |unit: &EcoString, should: &Attributes| {
            let is = State::default();
            let outcome = self.services.set(cx, &[Change::new(unit, &is, Some(should), &[])], mode).pop();
            outcome.unwrap_or_default()
        };
        if should.text("enable") == Some("true") {
            let outcome = set(&TARGET.into(), &Attributes::from_iter([("enable", "true")]));
            if outcome.failure.is_some() {
                return outcome;
            }
        }
        set(&unit_of(change.name), should)
    }
}

impl Default for NspawnProvider {
    fn default() -> NspawnProvider {
        NspawnProvider::new()
    }
}

fn unit_of(name: &str) -> EcoString {
    eco_format!("{TEMPLATE}{name}.service")
}

/// Returns the paths that the file system of a machine may have.
fn images(name: &str) -> [String; 2] {
    ["", ".raw"].map(|end| format!("{IMAGES}/{name}{end}"))
}

/// Returns the problem of a name that no machine can have.
fn problem(name: &str) -> Option<EcoString> {
    let is_label = |label: &str| {
        let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        !label.is_empty() && label.bytes().all(is_inner) && !label.starts_with('-') && !label.ends_with('-')
    };
    let is_valid = name.len() <= MAX_NAME_BYTES && name.split('.').all(is_label);
    (!is_valid).then(|| {
        eco_format!("`{name}` is not the name of a machine, which has letters, digits, `-`, `_` and `.`, at most 64")
    })
}

impl Provider for NspawnProvider {
    crate::builtin::describe!("nspawn", "systemd", schema, [scheduling, relations, predict, refresh, watch]);

    fn suitable(&self) -> Suitability {
        match self.services.suitable() {
            Suitability::Suitable if !std::path::Path::new(&self.system.path(PROGRAM)).exists() => {
                Suitability::Unsuitable(eco_format!("there is no program {PROGRAM}: install the package {PACKAGE}"))
            }
            suitability => suitability,
        }
    }

    fn validate(&self, name: &str, _: &Attributes, _: &[&str]) -> Vec<ValidationError> {
        problem(name).map(|problem| ValidationError::with("name", problem)).into_iter().collect()
    }

    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        match query {
            Query::All => self.states(cx, &self.names(cx)?.iter().collect::<Vec<_>>()),
            Query::Named(wanted) => self.states(cx, &wanted.iter().map(|one| one.name).collect::<Vec<_>>()),
        }
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        changes.iter().map(|change| self.change(cx, change, mode)).collect()
    }

    fn insync(&self, cx: &Context<'_>, attribute: &str, is: &State, should: &Attributes) -> Insync {
        self.services.insync(cx, attribute, is, should)
    }
}

impl Scheduling for NspawnProvider {
    /// Each start waits for its own job.
    fn batch_size(&self) -> Batch {
        Batch::One
    }
}

impl Relations for NspawnProvider {
    fn auto_edges(&self, name: &str, _: &Attributes, add: &mut dyn FnMut(AutoEdge<'_>)) {
        add(AutoEdge::require("package", PACKAGE));
        for image in images(name) {
            for type_name in ["file", "archive", "vcsrepo", "mount"] {
                add(AutoEdge { by: Match::PathOrAncestor, ..AutoEdge::require(type_name, &image) });
            }
        }
        let units = [unit_of(name), eco_format!("{TEMPLATE}.service")];
        let unit_files = units.iter().flat_map(|unit| ["", ".d"].map(|end| format!("/etc/systemd/system/{unit}{end}")));
        for path in unit_files.chain([format!("{SETTINGS}/{name}.nspawn")]) {
            add(AutoEdge { by: Match::PathOrAncestor, ..AutoEdge::require("file", &path) });
        }
    }
}

impl Predict for NspawnProvider {
    fn side_effects(&self, _: &Attributes) -> SideEffects {
        SideEffects::Own
    }

    /// Returns the file system, to which a running machine writes.
    fn effects(&self, _: &Context<'_>, change: &Change<'_>) -> Option<Vec<Effect>> {
        Some(images(change.name).map(|path| Effect::Path { path: path.into(), node: PathState::Unknown }).into())
    }
}

impl Refresh for NspawnProvider {
    fn refresh(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Outcome {
        self.services.refresh(cx, Wanted::new(&unit_of(wanted.name), None))
    }

    fn acts_on_refresh(&self, is: &State, should: &Attributes) -> bool {
        self.services.acts_on_refresh(is, should)
    }
}

/// Receives the events of units, and passes on those of machines.
struct MachineSink<'a>(&'a dyn WatchSink);

impl WatchSink for MachineSink<'_> {
    fn watching(&self) {
        self.0.watching();
    }

    fn changed(&self, unit: &str) {
        if let Some(name) = unit.strip_prefix(TEMPLATE).and_then(|unit| unit.strip_suffix(".service")) {
            self.0.changed(name);
        }
    }

    fn all_changed(&self) {
        self.0.all_changed();
    }
}

impl Watch for NspawnProvider {
    /// Returns the sources of the service: systemd, and the directory of the links of enabled units.
    fn watches(&self, name: &str, should: &Attributes) -> Vec<WatchSource> {
        self.services.watches(name, should)
    }

    fn watch(&self, cx: &Context<'_>, _: Option<Wanted<'_>>, tell: &dyn WatchSink) -> Result<(), ProviderError> {
        self.services.watch(cx, None, &MachineSink(tell))
    }
}

#[cfg(test)]
mod tests;
