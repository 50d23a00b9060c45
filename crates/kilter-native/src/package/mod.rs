//! The type `package`.

pub(crate) mod apt;
mod lock;
pub(crate) mod managers;
mod needed;
mod owned;
mod schema;
mod status;
mod transaction;
mod version;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Because, Change, Outcome, State, Unknown, Value};
use kilter_process::trust::TrustPolicy;
use kilter_provider::{
    AutoEdge, Context, Declaration, Direction, Footprint, Forecast, Insync, Match, Mode, Owner, POLL, Predict,
    Provider, ProviderError, Query, Relations, Revert, RevertTo, Scope, Suitability, ValidationError, Wanted, Watch,
    WatchSource,
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::accounts::System;
use crate::tool;
use crate::value_text::sealed_like;
use apt::{Apt, LISTS, Policy};
use schema::schema;
use status::{Database, DpkgStatus, Package, Packages};

/// Programs that change packages.
const PROGRAMS: [&str; 4] = ["apt-get", "apt-cache", "apt-mark", "dpkg"];

/// Provides the type `package` through dpkg and apt.
pub struct PackageProvider {
    system: System,
    database: Database,
    trust: TrustPolicy,
    /// Held during a change. A second call of apt-get would wait for the lock of the first.
    turn: Arc<Mutex<()>>,
}

impl PackageProvider {
    /// Creates a provider for the packages of a system, whose files must pass a trust rule.
    pub fn new(system: System, trust: TrustPolicy) -> PackageProvider {
        PackageProvider::sharing(system, trust, Arc::default())
    }

    /// Creates a provider that holds a lock during its changes.
    pub(crate) fn sharing(system: System, trust: TrustPolicy, turn: Arc<Mutex<()>>) -> PackageProvider {
        let database = Database::new(system.root().join("var/lib/dpkg"), trust.clone());
        PackageProvider { system, database, trust, turn }
    }

    /// Returns the names of installed packages that have to stay: those of the system, those that are wanted by their
    /// name or by a unit that they contain, and all that these need.
    pub(crate) fn needed(
        &self,
        is_wanted: &dyn Fn(&str) -> bool,
        is_wanted_unit: &dyn Fn(&str) -> bool,
    ) -> Result<FxHashSet<EcoString>, ProviderError> {
        needed::needed(&self.database, &self.trust, is_wanted, is_wanted_unit)
    }

    fn path(&self, path: &str) -> PathBuf {
        self.system.root().join(path)
    }

    /// Returns the versions that apt knows of those installed packages whose `latest` is wanted.
    fn policies(
        &self,
        cx: &Context<'_>,
        packages: &Packages,
        names: &[&str],
    ) -> Result<FxHashMap<EcoString, Policy>, ProviderError> {
        let is_there = |name: &&str| packages.find(name).is_some_and(Package::is_there);
        let names: Vec<&str> = names.iter().copied().filter(is_there).collect();
        Apt { system: &self.system, cx }.policies(&names).map_err(ProviderError::new)
    }

    fn all(&self, cx: &Context<'_>) -> Result<Vec<State>, ProviderError> {
        let packages = self.database.packages()?;
        let there: Vec<(EcoString, &Package)> =
            packages.all().iter().filter(|row| row.is_there()).map(|row| (packages.title(row), row)).collect();
        let mut policies = FxHashMap::default();
        if cx.must_read(None, "latest") {
            let names: Vec<&str> = there.iter().map(|(name, _)| name.as_str()).collect();
            policies = self.policies(cx, &packages, &names)?;
        }
        Ok(there.iter().map(|(name, row)| present(name, row, policies.get(name))).collect())
    }

    fn named(&self, cx: &Context<'_>, wanted: &[Wanted<'_>]) -> Result<Vec<State>, ProviderError> {
        let packages = self.database.packages()?;
        let asks = |one: &&Wanted<'_>| match one.should {
            Some(_) => one.manages("latest"),
            None => cx.must_read(None, "latest"),
        };
        let asked: Vec<&str> = wanted.iter().filter(asks).map(|one| one.name.as_str()).collect();
        let policies = if asked.is_empty() { FxHashMap::default() } else { self.policies(cx, &packages, &asked)? };
        let state = |wanted: &Wanted<'_>| self.state(cx, &packages, wanted, &policies);
        Ok(wanted.iter().map(state).collect())
    }

    fn state(
        &self,
        cx: &Context<'_>,
        packages: &Packages,
        wanted: &Wanted<'_>,
        policies: &FxHashMap<EcoString, Policy>,
    ) -> State {
        let row = packages.find(wanted.name);
        if let Some(row) = row.filter(|row| row.is_there()) {
            let name = packages.title(row);
            let policy = policies.get(wanted.name).or_else(|| policies.get(&name));
            let mut state = present(wanted.name, row, policy);
            if let Some(source) =
                wanted.should.filter(|_| wanted.manages("latest")).and_then(|should| should.text("source"))
            {
                let is_latest = self.is_file_installed(cx, source, row);
                state.attributes.set("latest", Value::Boolean(is_latest));
            } else if wanted.manages("latest")
                && let Some(because) = pending_repository(cx, wanted.name)
            {
                state.unknown.push(Unknown { attribute: "latest".into(), because: because.into() });
            }
            return state;
        }
        let is_removed = wanted.should.is_some_and(is_removal);
        let providers: Vec<EcoString> = packages.providers(wanted.name).map(|(row, _)| packages.title(row)).collect();
        if !is_removed
            && !providers.is_empty()
            && wanted.should.is_none_or(|should| is_provided(packages, wanted.name, should))
        {
            let mut attributes = Attributes::from_iter([("ensure", "present"), ("name", wanted.name.as_str())]);
            attributes.push("provided_by", Value::strings(providers));
            if wanted.manages("latest") {
                attributes.push("latest", Value::Boolean(true));
            }
            return State::present(wanted.name.clone(), attributes);
        }
        let mut state = State::absent(wanted.name.clone());
        if row.is_some_and(|row| row.status == DpkgStatus::ConfigFiles) {
            state.attributes.push("ensure", "absent");
            state.attributes.push("config_files", Value::Boolean(true));
        }
        state
    }

    /// Returns name, version and architecture of a package file.
    ///
    /// # Errors
    /// If another user can change the file, or it is no package.
    fn file_fields(&self, apt: &Apt<'_>, source: &str) -> Result<[EcoString; 3], EcoString> {
        self.trust.open(Path::new(source)).map_err(|why| eco_format!("source: {source}: {why}"))?;
        apt.fields(source)
    }

    /// Returns true if a package file has no newer version than the installed one. An unusable file is no newer
    /// version; the change reports it.
    fn is_file_installed(&self, cx: &Context<'_>, source: &str, row: &Package) -> bool {
        let fields = self.file_fields(&Apt { system: &self.system, cx }, source);
        fields.is_ok_and(|[_, version, _]| version::compare(&version, &row.version).is_le())
    }
}

/// Returns true if a declaration asks for the absence of a package.
fn is_removal(should: &Attributes) -> bool {
    should.text("ensure") == Some("absent")
}

/// Returns a repository that changes before a package in a plan. The package lists are unknown then.
fn pending_repository(cx: &Context<'_>, name: &str) -> Option<Because> {
    match cx.preview_context().node(name, LISTS) {
        Forecast::Changed(_, because) | Forecast::Unknown(because) => {
            Some(because).filter(|because| because.resource.type_name == "apt_repository")
        }
        Forecast::Unchanged => None,
    }
}

/// Returns true if installed packages provide a virtual package as declared.
fn is_provided(packages: &Packages, name: &str, should: &Attributes) -> bool {
    let wanted = should.text("version");
    let fits = |provided: Option<&EcoString>| match (wanted, provided) {
        (None, _) => true,
        (Some(wanted), Some(provided)) => version::is_same(wanted, provided),
        (Some(_), None) => false,
    };
    packages.providers(name).any(|(_, provided)| fits(provided))
}

fn present(name: &EcoString, row: &Package, policy: Option<&Policy>) -> State {
    let is_whole = row.status == DpkgStatus::Installed;
    let mut attributes = Attributes::with_capacity(6);
    attributes.push("ensure", if is_whole { "present" } else { "broken" });
    attributes.push("name", name.clone());
    attributes.push("version", row.version.clone());
    if let Some(policy) = policy {
        attributes.push("latest", Value::Boolean(policy.is_latest(&row.version)));
    }
    attributes.push("mark", if row.is_held { "hold" } else { "none" });
    attributes.push("architecture", row.architecture.clone());
    State::present(name.clone(), attributes)
}

/// Returns the problems of attributes that all package managers have.
fn common_problems(should: &Attributes, deferred: &[&str]) -> Vec<ValidationError> {
    let mut problems = Vec::new();
    if should.get_bool("latest") == Some(false) {
        let problem = ValidationError::with("latest", "`false` can be read and not declared");
        problems.push(problem.hint("to have an old version, declare `version`"));
    }
    if should.get_bool("latest") == Some(true) && (should.get("version").is_some() || deferred.contains(&"version")) {
        problems.push(ValidationError::with("latest", "`latest` and `version` exclude each other"));
    }
    if should.text("source").is_some_and(|source| !source.starts_with('/')) {
        problems.push(ValidationError::with("source", "a package file needs an absolute path"));
    }
    problems
}

/// Rewrites the short forms of `ensure`.
///
/// # Errors
/// If another attribute says something else.
fn expand(should: &mut Attributes) -> Result<(), ValidationError> {
    let Some(ensure) = should.get("ensure").cloned() else { return Ok(()) };
    let Some(word) = ensure.to_text() else { return Ok(()) };
    let (canonical, more): (&str, Option<(&str, Value)>) = match word.as_str() {
        "present" | "absent" | "broken" => return Ok(()),
        "installed" => ("present", None),
        "latest" => ("present", Some(("latest", Value::Boolean(true)))),
        "held" => ("present", Some(("mark", "hold".into()))),
        "purged" => ("absent", Some(("purge", Value::Boolean(true)))),
        version => ("present", Some(("version", version.into()))),
    };
    should.set("ensure", sealed_like(&ensure, canonical));
    let Some((attribute, value)) = more else { return Ok(()) };
    // `purge` has a default.
    let is_other = attribute != "purge" && should.get(attribute).is_some_and(|declared| *declared != value);
    if is_other || attribute == "latest" && should.get("version").is_some() {
        return Err(ValidationError::with(attribute, eco_format!("`ensure: {word}` says something else")));
    }
    should.set(attribute, sealed_like(&ensure, value));
    Ok(())
}

impl Provider for PackageProvider {
    crate::builtin::describe!("package", "apt", schema, [relations, owner, predict, watch, revert]);

    fn suitable(&self) -> Suitability {
        match tool::installed(&PROGRAMS, None) {
            Suitability::Suitable if !self.database.exists() => {
                Suitability::Unsuitable(eco_format!("there is no {}", self.database.path().display()))
            }
            found => found,
        }
    }

    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        match query {
            Query::All => self.all(cx),
            Query::Named(wanted) => self.named(cx, wanted),
        }
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        transaction::set(self, cx, changes, mode)
    }

    fn validate(&self, name: &str, should: &Attributes, deferred: &[&str]) -> Vec<ValidationError> {
        let mut problems = Vec::new();
        if let Some(architecture) = name.split_once(':').map(|(_, architecture)| architecture)
            && matches!(architecture, "all" | "any" | "native")
        {
            problems.push(
                ValidationError::with("name", eco_format!("`{architecture}` is no architecture of a machine"))
                    .hint("leave it out"),
            );
        }
        if should.text("ensure") == Some("broken") {
            problems.push(ValidationError::with("ensure", "`broken` can be read and not declared"));
        }
        problems.extend(common_problems(should, deferred));
        problems
    }

    fn canonicalize(&self, _: &Context<'_>, resources: &mut [Declaration<'_>]) -> Vec<Vec<ValidationError>> {
        resources.iter_mut().map(|one| expand(one.should).err().into_iter().collect()).collect()
    }

    fn insync(&self, _: &Context<'_>, attribute: &str, is: &State, should: &Attributes) -> Insync {
        match attribute {
            "ensure" if is_removal(should) && !is.exists => {
                let has_files = is.attributes.get_bool("config_files") == Some(true);
                match has_files && should.get_bool("purge") == Some(true) {
                    true => Insync::Differs(Some("its configuration files are left".into())),
                    false => Insync::Same,
                }
            }
            "version" => {
                // A virtual package has no version of its own.
                let is_virtual = is.attributes.get("provided_by").is_some();
                let texts = is.attributes.text("version").zip(should.text("version"));
                match is_virtual || texts.is_some_and(|(is, should)| version::is_same(is, should)) {
                    true => Insync::Same,
                    false => Insync::Differs(None),
                }
            }
            "mark" if is.attributes.get("provided_by").is_some() => Insync::Same,
            _ => Insync::Default,
        }
    }
}

impl Relations for PackageProvider {
    fn identities(&self, name: &str, _: &Attributes, say: &mut dyn FnMut(&str)) {
        let native = self.database.packages().map(|packages| packages.native.clone()).unwrap_or_default();
        match name.split_once(':') {
            Some((plain, architecture)) if architecture == native => say(plain),
            None if !native.is_empty() => say(&format!("{name}:{native}")),
            _ => {}
        }
    }

    fn auto_edges(&self, name: &str, should: &Attributes, add: &mut dyn FnMut(AutoEdge<'_>)) {
        // Most services have the name of their package. Other services need a declared relation.
        let direction = if is_removal(should) { Direction::Before } else { Direction::After };
        let name = name.split(':').next().unwrap_or(name);
        add(AutoEdge { type_name: "service", name, by: Match::Name, direction });
        if let Some(source) = should.text("source") {
            add(AutoEdge { type_name: "file", name: source, by: Match::PathOrAncestor, direction: Direction::Before });
        }
        if !is_removal(should) {
            add(AutoEdge { by: Match::Every, ..AutoEdge::require("apt_repository", "") });
        }
    }
}

impl Owner for PackageProvider {
    fn owned(&self, name: &str, should: &Attributes, is_wanted: &dyn Fn(&str) -> bool) -> Vec<EcoString> {
        if is_removal(should) || name.contains('/') {
            return Vec::new();
        }
        let native = self.database.packages().map(|packages| packages.native.clone()).unwrap_or_default();
        let info = self.database.info();
        let lists = [info.join(format!("{name}.list")), info.join(format!("{name}:{native}.list"))];
        owned::paths(&lists, &self.trust, is_wanted)
    }
}

impl Revert for PackageProvider {
    fn revert_to(&self) -> RevertTo {
        RevertTo::Values
    }

    fn revert_state(&self, _: &Attributes, _: &State) -> Result<Attributes, EcoString> {
        Err("the values of its attributes are its state".into())
    }

    /// Removes configuration files too, unless an earlier installation had left some.
    fn revert_creation(&self, is: &State, removal: &mut Attributes) -> Result<(), EcoString> {
        if is.attributes.get_bool("config_files") != Some(true) {
            removal.set("purge", true);
        }
        Ok(())
    }
}

impl Predict for PackageProvider {
    fn footprint(&self, _: &str, should: &Attributes, say: &mut dyn FnMut(Footprint<'_>)) {
        if let Some(path) = should.text("source") {
            say(Footprint::Reads { path, below: false });
        }
    }
}

impl Watch for PackageProvider {
    /// Returns the watch for dpkg's database, and for a `latest` package also those for the lists and pins of apt.
    fn watches(&self, _: &str, should: &Attributes) -> Vec<WatchSource> {
        let mut watches = vec![WatchSource::Path { path: self.database.path(), scope: Scope::This }];
        if should.get_bool("latest") == Some(true) {
            for path in ["var/lib/apt/lists", "etc/apt/preferences.d"] {
                watches.push(WatchSource::Path { path: self.path(path), scope: Scope::Entries });
            }
            watches.push(WatchSource::Poll(POLL));
        }
        watches
    }
}

#[cfg(test)]
mod tests;
