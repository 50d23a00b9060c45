//! The type `package` through the package managers of other systems, and of Ruby.
//!
//! All of them work in the same way, so the managers are [data](table). Only apt has a provider of its own.

mod rpm_version;
mod table;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Behaviour, Change, Feature, Outcome, State, TypeSchema};
use kilter_process::trust::TrustPolicy;
use kilter_process::{Environment, Invocation, Output};
use kilter_provider::{
    AutoEdge, Capabilities, Context, Declaration, Direction, Footprint, Insync, Level, Match, Mode, Owner, POLL,
    Predict, Preference, Provider, ProviderError, Query, Relations, Scope, Suitability, ValidationError, Wanted, Watch,
    WatchSource, redacted_outcome,
};

use super::schema::maximum_age;
use super::{expand, is_removal};
use crate::accounts::System;
use crate::tool::{self, RecordedPart, ending_of};
use crate::value_text::texts;
use table::{MANAGERS, Manager, ManagerRow, split_architecture};

/// Maximum duration of a change, and of a read.
const CHANGE: Duration = Duration::from_secs(3 * 3600);
const QUERY: Duration = Duration::from_secs(300);

/// Maximum kept output in bytes.
const MAX_OUTPUT_BYTES: usize = 8 << 20;

const DESC: &str = "\
Packages by dnf, zypper, pacman, apk and gem.

```yaml
resources:
  package[nginx]: { provider: dnf }
  package[openssl]: { provider: dnf, ensure: latest }
  package[vim-enhanced]: { provider: dnf, version: 9.0.1592-1.fc38 }
  package[telnet]: { provider: dnf, ensure: absent }
  package[rake]: { provider: gem, version: 13.0.6 }
```

kilter uses the package manager that the machine has: [apt](package.md) if there is one, otherwise dnf, zypper, \
pacman or apk. Resources name it only to choose another one. `gem` needs `provider: gem`.

kilter reads all packages by one call. All installations that are ready at the same time are one transaction of the \
package manager, as are all upgrades and all removals; removals come first. If a transaction fails, kilter repeats \
it for each package.

| provider | reads | changes | a declared `version` is the same if |
|---|---|---|---|
| `dnf` | `rpm -qa`, `dnf repoquery --upgrades` | `dnf install`, `upgrade`, `remove` | rpm finds it equal; a \
version without a release stands for every release |
| `zypper` | `rpm -qa`, `zypper list-updates` | `zypper install`, `update`, `remove` | the same |
| `pacman` | `pacman -Q`, `pacman -Qu` | `pacman -S`, `-U`, `-R` | vercmp finds it equal |
| `apk` | `apk list --installed`, `apk version` | `apk add`, `apk del` | the texts are equal |
| `gem` | `gem list`, `gem outdated` | `gem install`, `gem uninstall` | it is one of the installed versions |

`latest` compares with the package lists that the machine has; `gem outdated` asks the server. A removal does not \
remove packages that were installed as dependencies. dnf and zypper also remove the packages that depend on a \
removed package. With the others the removal fails.

The tests run dnf, zypper, pacman and gem of Debian. apk was not run: its tests use the formats that its manual shows.

**Automatic edges.** A package runs before the service with its name, and after the file of its `source`. An absent \
package runs after its service.";

const VERSION: &str = r"Pattern[/\A[0-9][A-Za-z0-9.:+~^_-]*\z/]";

fn schema() -> TypeSchema {
    let (property, parameter) = (Behaviour::Property, Behaviour::Parameter);
    TypeSchema::new("package", DESC)
        .attribute(
            "ensure",
            &format!("Variant[Enum[present, installed, absent, purged, latest], {VERSION}]"),
            property,
            "State of the package: `present`, `absent`. Short forms: `latest` is `present` with `latest: true`, a \
             version is `present` with that `version`, `installed` is `present`, and `purged` is `absent`.",
        )
        .default("present")
        .attribute(
            "name",
            r"Pattern[/\A[A-Za-z0-9_][A-Za-z0-9_@.+-]*\z/]",
            Behaviour::Namevar,
            "Package: `nginx`. For dnf and zypper also with an architecture: `glibc.i686`.",
        )
        .attribute(
            "version",
            r"Pattern[/\A[A-Za-z0-9][A-Za-z0-9.:+~^_-]*\z/]",
            property,
            "Version as the package manager writes it: `9.0.1592-1.fc38`, `2:9.0-1`.",
        )
        .attribute(
            "latest",
            "Boolean",
            property,
            "`true` if the package manager knows no newer version. `false` cannot be declared.",
        )
        .lazy()
        .attribute(
            "source",
            "String[1]",
            parameter,
            "Absolute path of a package file to install from. kilter uses it for an installation and for another \
             `version`. As root, kilter refuses a file that another user can change.",
        )
        .attribute("install_options", "Array[String[1]]", parameter, "Further arguments for an installation.")
        .attribute(
            "refresh_lists",
            r"Variant[Integer[0], Pattern[/\A[0-9]+[smhd]\z/]]",
            parameter,
            "Maximum age of the package lists for an installation: `3600`, `1h`, `2d`. If kilter has last updated them \
             earlier, it updates them first.",
        )
        .attribute("architecture", "String", Behaviour::ReadOnly, "Architecture of the package.")
        .features(&[Feature::Canonicalize, Feature::CustomInsync, Feature::SimpleGetFilter, Feature::SupportsNoop])
}

/// Provides the type `package` through a package manager.
pub struct ManagedPackageProvider {
    manager: &'static Manager,
    system: System,
    trust: TrustPolicy,
    /// Held during a change. A second call would wait for the lock of the first.
    turn: Mutex<()>,
}

/// Returns a provider for each package manager. Package files must pass a trust rule.
pub fn package_managers(system: &System, trust: &TrustPolicy) -> impl Iterator<Item = ManagedPackageProvider> {
    MANAGERS.iter().map(|manager| ManagedPackageProvider {
        manager,
        system: system.clone(),
        trust: trust.clone(),
        turn: Mutex::new(()),
    })
}

/// Kind of a call. The kinds run in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ManagerKind {
    Remove,
    Install,
    InstallFile,
    Upgrade,
}

/// A change that one call makes together with others: its index, and the argument for the package.
struct ManagerStep {
    at: usize,
    word: String,
}

impl ManagedPackageProvider {
    fn rows(&self, cx: &Context<'_>) -> Result<Vec<ManagerRow>, EcoString> {
        let output = self.run(cx, self.manager.list, &[], QUERY)?;
        match output.is_success() || self.is_empty(&output) {
            true => Ok((self.manager.installed)(&output.stdout.text())),
            false => Err(failure(self.manager.list[0], &output, QUERY)),
        }
    }

    /// Returns true if a read has found no packages.
    fn is_empty(&self, output: &Output) -> bool {
        let is_meant = output.status.code().is_some_and(|code| self.manager.nothing_found.contains(&code));
        is_meant && output.stdout.text().trim().is_empty()
    }

    /// Returns the names of the packages that have newer versions; none if the package manager cannot tell.
    fn newer(&self, cx: &Context<'_>) -> Result<Option<Vec<EcoString>>, EcoString> {
        let command = self.manager.outdated;
        let output = self.run(cx, command, &[], QUERY)?;
        if output.is_success() || self.is_empty(&output) {
            return Ok(Some((self.manager.newer)(&output.stdout.text())));
        }
        // There may be no package lists yet. The upgrade gets them, or fails.
        let message = format!("{}: the latest versions are not known", failure(command[0], &output, QUERY));
        cx.log(Level::Warning, "package", "", &message);
        Ok(None)
    }

    fn run(&self, cx: &Context<'_>, command: &[&str], words: &[String], limit: Duration) -> Result<Output, EcoString> {
        let invocation = Invocation::new(command[0]).args(&command[1..]).args(words);
        // gem writes to the home of the user. zypper waits for the lock of another one.
        let user = Environment::new().user(rustix::process::geteuid().as_raw());
        let invocation = invocation.environment(&user.set("ZYPP_LOCK_TIMEOUT", "600"));
        let invocation = invocation.captured(MAX_OUTPUT_BYTES).deadline(limit);
        let part = if limit == CHANGE { RecordedPart::Outputs } else { RecordedPart::Errors };
        let finished = tool::start(self.system.runner(), cx, &invocation, part);
        finished.map_err(|error| error.with_sources().into())
    }

    /// Runs a command that changes the machine.
    fn change(&self, cx: &Context<'_>, command: &[&str], words: &[String]) -> Result<(), EcoString> {
        let output = self.run(cx, command, words, CHANGE)?;
        for line in output.stdout.text().lines().filter(|line| !line.trim().is_empty()) {
            cx.log(Level::Debug, "package", "", line.trim_end().rsplit('\r').next().unwrap_or_default());
        }
        let is_tolerated = output.status.code().is_some_and(|code| self.manager.successes.contains(&code));
        if output.is_success() || is_tolerated { Ok(()) } else { Err(failure(command[0], &output, CHANGE)) }
    }

    /// Updates the package lists if an installation asks for newer ones.
    fn refresh_lists(&self, cx: &Context<'_>, changes: &[Change<'_>]) {
        let Some(command) = self.manager.update_lists else { return };
        let Some(maximum) = changes.iter().filter_map(|change| maximum_age(change.should?)).min() else { return };
        let stamp = cx.var_dir().map(|data| data.join("package").join(format!("{}-refreshed", self.manager.name)));
        let modified = stamp.as_ref().and_then(|stamp| fs::metadata(stamp).ok()?.modified().ok());
        let age = modified.and_then(|modified| SystemTime::now().duration_since(modified).ok());
        if age.is_some_and(|age| age < maximum) {
            return;
        }
        match self.change(cx, command, &[]) {
            Ok(()) => {
                if let Some(stamp) = stamp {
                    // Without the stamp, the next installation updates the lists again.
                    let _ = stamp.parent().map(fs::create_dir_all).map(|_| fs::write(&stamp, ""));
                }
            }
            Err(why) => {
                let message = format!("the package lists stay as they are: {why}");
                cx.log(Level::Warning, "package", "", &message);
            }
        }
    }

    /// Returns the call that a change needs; none if the package is in its state.
    fn step(&self, change: &Change<'_>) -> Result<Option<(ManagerKind, String)>, EcoString> {
        let name = change.name.as_str();
        let Some(should) = change.should.filter(|should| !is_removal(should)) else {
            return Ok(change.is.exists.then(|| (ManagerKind::Remove, name.to_owned())));
        };
        let is_other = !change.is.exists || change.differs("version");
        Ok(match (should.text("source").filter(|_| is_other), should.text("version").filter(|_| is_other)) {
            (Some(source), _) => {
                self.trust.open(Path::new(source)).map_err(|why| eco_format!("source: {source}: {why}"))?;
                Some((ManagerKind::InstallFile, source.to_owned()))
            }
            (None, Some(version)) => Some((ManagerKind::Install, (self.manager.pin)(name, version))),
            (None, None) if is_other => Some((ManagerKind::Install, name.to_owned())),
            (None, None) => change.differs("latest").then(|| (ManagerKind::Upgrade, name.to_owned())),
        })
    }

    fn make(&self, cx: &Context<'_>, changes: &[Change<'_>]) -> Vec<Outcome> {
        let mut outcomes = vec![Outcome::done(); changes.len()];
        let mut groups: BTreeMap<(ManagerKind, Vec<EcoString>), Vec<ManagerStep>> = BTreeMap::new();
        for (at, change) in changes.iter().enumerate() {
            match self.step(change) {
                Ok(Some((kind, word))) => {
                    let options = change.should.filter(|_| kind != ManagerKind::Remove);
                    let options = texts(options.and_then(|should| should.get("install_options")));
                    groups.entry((kind, options)).or_default().push(ManagerStep { at, word });
                }
                Ok(None) => {}
                Err(why) => outcomes[at] = Outcome::failed(why),
            }
        }
        if groups.keys().any(|(kind, _)| matches!(kind, ManagerKind::Install | ManagerKind::Upgrade)) {
            self.refresh_lists(cx, changes);
        }
        for ((kind, options), steps) in groups {
            let call = |steps: &[ManagerStep]| {
                let words = options.iter().map(ToString::to_string).chain(steps.iter().map(|step| step.word.clone()));
                let command = match kind {
                    ManagerKind::Remove => self.manager.remove,
                    ManagerKind::Install => self.manager.install,
                    ManagerKind::InstallFile => self.manager.install_file,
                    ManagerKind::Upgrade => self.manager.upgrade,
                };
                self.change(cx, command, &words.collect::<Vec<_>>())
            };
            let Err(why) = call(&steps) else { continue };
            for step in &steps {
                let alone = match steps.len() {
                    1 => Err(why.clone()),
                    _ if cx.interrupt().is_raised() => Err("not changed: the run was interrupted".into()),
                    _ => call(std::slice::from_ref(step)),
                };
                if let Err(why) = alone {
                    outcomes[step.at] = Outcome::failed(why);
                }
            }
        }
        outcomes
    }

    fn state(&self, name: &EcoString, row: &ManagerRow, newer: Option<&Option<Vec<EcoString>>>) -> State {
        let mut attributes = Attributes::with_capacity(5);
        attributes.push("ensure", "present");
        attributes.push("name", name.clone());
        attributes.push("version", row.version.clone());
        if let Some(newer) = newer {
            let whole = eco_format!("{}.{}", row.name, row.architecture);
            let is_latest = newer.as_ref().is_some_and(|newer| !newer.contains(&row.name) && !newer.contains(&whole));
            attributes.push("latest", is_latest);
        }
        if !row.architecture.is_empty() {
            attributes.push("architecture", row.architecture.clone());
        }
        State::present(name.clone(), attributes)
    }
}

/// Returns true if a package is for this machine and not for a second architecture.
fn is_native(row: &ManagerRow) -> bool {
    row.architecture == std::env::consts::ARCH || row.architecture == "noarch"
}

/// Returns the package with a name, which may end with its architecture.
fn find<'r>(rows: &'r [ManagerRow], name: &str) -> Option<&'r ManagerRow> {
    let named = |name: &str| rows.iter().filter(|row| row.name == name).max_by_key(|row| is_native(row));
    named(name).or_else(|| {
        let (plain, architecture) = split_architecture(name);
        let architecture = architecture?;
        rows.iter().find(|row| row.name == plain && row.architecture == architecture)
    })
}

/// Returns the name of a package in manifests: with an architecture if another one has the name alone.
fn title(rows: &[ManagerRow], row: &ManagerRow) -> EcoString {
    match find(rows, &row.name) == Some(row) {
        true => row.name.clone(),
        false => eco_format!("{}.{}", row.name, row.architecture),
    }
}

fn failure(program: &str, output: &Output, limit: Duration) -> EcoString {
    let said = ending_of(&output.stderr.text()).or_else(|| ending_of(&output.stdout.text()));
    tool::failure(program, output, limit, said)
}

impl Provider for ManagedPackageProvider {
    #[cold]
    fn schema(&self) -> &TypeSchema {
        static SCHEMA: std::sync::LazyLock<TypeSchema> = std::sync::LazyLock::new(schema);
        &SCHEMA
    }

    #[cold]
    fn type_name(&self) -> &str {
        "package"
    }

    #[cold]
    fn name(&self) -> &'static str {
        self.manager.name
    }

    #[cold]
    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities {
            relations: Some(self),
            owner: Some(self),
            predict: Some(self),
            watch: Some(self),
            ..Capabilities::default()
        }
    }

    fn suitable(&self) -> Suitability {
        tool::installed(self.manager.programs, None)
    }

    fn preference(&self) -> Preference {
        if self.manager.is_named_only { Preference::NamedOnly } else { Preference::Normal }
    }

    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        let rows = self.rows(cx).map_err(ProviderError::new)?;
        let asks = |one: &Wanted<'_>| one.manages("latest") || one.should.is_none() && cx.must_read(None, "latest");
        let is_asked = match query {
            Query::All => cx.must_read(None, "latest"),
            Query::Named(wanted) => wanted.iter().any(asks),
        };
        let newer = if is_asked { Some(self.newer(cx).map_err(ProviderError::new)?) } else { None };
        Ok(match query {
            Query::All => rows.iter().map(|row| self.state(&title(&rows, row), row, newer.as_ref())).collect(),
            Query::Named(wanted) => {
                let state = |one: &Wanted<'_>| match find(&rows, one.name) {
                    Some(row) => {
                        let mut state = self.state(one.name, row, newer.as_ref().filter(|_| asks(one)));
                        let is_wanted = |version: &&EcoString| {
                            let wanted = one.should.and_then(|should| should.text("version"));
                            wanted.is_some_and(|wanted| self.manager.is_same(version, wanted))
                        };
                        // Several versions may be installed beside each other.
                        if let Some(version) = row.others.iter().find(is_wanted) {
                            state.attributes.set("version", version.clone());
                        }
                        state
                    }
                    None => State::absent(one.name.clone()),
                };
                wanted.iter().map(state).collect()
            }
        })
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if mode == Mode::Preview {
            return vec![Outcome::done(); changes.len()];
        }
        let outcomes = self.make(cx, changes);
        outcomes.into_iter().zip(changes).map(|(outcome, change)| redacted_outcome(change, outcome)).collect()
    }

    fn validate(&self, _: &str, should: &Attributes, deferred: &[&str]) -> Vec<ValidationError> {
        super::common_problems(should, deferred)
    }

    fn canonicalize(&self, _: &Context<'_>, resources: &mut [Declaration<'_>]) -> Vec<Vec<ValidationError>> {
        let expanded = resources.iter_mut().map(|one| {
            let problem = expand(one.should).err();
            // No package has configuration files that a removal leaves.
            one.should.remove("purge");
            problem.into_iter().collect()
        });
        expanded.collect()
    }

    fn insync(&self, _: &Context<'_>, attribute: &str, is: &State, should: &Attributes) -> Insync {
        match (attribute, is.attributes.text("version"), should.text("version")) {
            ("version", Some(is), Some(should)) if self.manager.is_same(is, should) => Insync::Same,
            _ => Insync::Default,
        }
    }
}

impl Relations for ManagedPackageProvider {
    fn auto_edges(&self, name: &str, should: &Attributes, add: &mut dyn FnMut(AutoEdge<'_>)) {
        let direction = if is_removal(should) { Direction::Before } else { Direction::After };
        add(AutoEdge { type_name: "service", name, by: Match::Name, direction });
        if let Some(source) = should.text("source") {
            add(AutoEdge { by: Match::PathOrAncestor, ..AutoEdge::require("file", source) });
        }
    }
}

impl Owner for ManagedPackageProvider {
    /// Returns no paths: only the package managers know them.
    fn owned(&self, _: &str, _: &Attributes, _: &dyn Fn(&str) -> bool) -> Vec<EcoString> {
        Vec::new()
    }
}

impl Predict for ManagedPackageProvider {
    fn footprint(&self, _: &str, should: &Attributes, say: &mut dyn FnMut(Footprint<'_>)) {
        if let Some(path) = should.text("source") {
            say(Footprint::Reads { path, below: false });
        }
    }
}

impl Watch for ManagedPackageProvider {
    fn watches(&self, _: &str, _: &Attributes) -> Vec<WatchSource> {
        let path = |path: &&str| -> PathBuf { self.system.root().join(path) };
        let watch = |name: &&str| WatchSource::Path { path: path(name), scope: Scope::Entries };
        self.manager.databases.iter().map(watch).chain([WatchSource::Poll(POLL)]).collect()
    }
}

#[cfg(test)]
mod tests;
