//! Changes of packages: what each resource needs, and the calls of apt that make it so.

mod removals;

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, SystemTime};

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Change, Outcome};
use kilter_provider::{Context, Level, Mode};

use super::apt::{self, Apt, Failed, LISTS, Policy, REFRESHED};
use super::schema::maximum_age;
use super::status::{DpkgStatus, Package, Packages};
use super::{PackageProvider, is_removal, version};
use crate::value_text::texts;
use removals::unneeded_note;

/// Change that a package needs.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PackageAction {
    /// Nothing but perhaps a mark.
    Nothing,
    /// An installation of this argument for apt-get: `nginx`, `nginx=1.0`, or a path.
    Install(String),
    Remove,
    Purge,
}

/// A resource with its goal.
struct TransactionStep<'a> {
    /// Index of the change.
    at: usize,
    name: &'a EcoString,
    should: Option<&'a Attributes>,
    goal: PackageAction,
    /// True if the package is on hold and the goal needs it off hold.
    is_unheld: bool,
    /// Version of a package that is installed only partly.
    broken: Option<EcoString>,
}

impl TransactionStep<'_> {
    fn is_removal(&self) -> bool {
        matches!(self.goal, PackageAction::Remove | PackageAction::Purge)
    }

    fn is_pinned(&self) -> bool {
        matches!(&self.goal, PackageAction::Install(word) if word.contains('=') && !word.starts_with('/'))
    }

    /// Options of the transaction that installs the package.
    fn options(&self) -> (Vec<EcoString>, bool) {
        let Some(should) = self.should else { return (Vec::new(), false) };
        let replaces = should.text("configfiles") == Some("replace");
        (texts(should.get("install_options")), replaces)
    }
}

/// Makes or previews changes, and returns an outcome for each.
pub(super) fn set(provider: &PackageProvider, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
    let run = Run { provider, cx, apt: Apt { system: &provider.system, cx } };
    run.set(changes, mode)
}

struct Run<'a> {
    provider: &'a PackageProvider,
    cx: &'a Context<'a>,
    apt: Apt<'a>,
}

impl Run<'_> {
    fn set(&self, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        let mut outcomes = vec![Outcome::done(); changes.len()];
        // The goals depend on the state that the other program leaves.
        if mode == Mode::Apply
            && let Err(failed) = self.apt.wait_for_lock()
        {
            return vec![Outcome::failed(failed.message); changes.len()];
        }
        let packages = match self.provider.database.packages() {
            Ok(packages) => packages,
            Err(error) => return vec![Outcome::failed(error.message); changes.len()],
        };
        let mut steps = Vec::with_capacity(changes.len());
        for (at, change) in changes.iter().enumerate() {
            match self.step(at, change, &packages) {
                Ok(step) => steps.push(step),
                Err(why) => outcomes[at] = Outcome::failed(why),
            }
        }
        let is_stale = self.is_refresh_due(&steps);
        if is_stale && mode == Mode::Apply {
            self.refresh_lists();
        }
        self.resolve(&mut steps, &mut outcomes);
        if mode == Mode::Preview {
            self.keep_certain(changes, is_stale, &mut outcomes);
        }
        let unneeded = self.judge_removals(&steps, &mut outcomes);
        if mode == Mode::Preview {
            let first = steps.iter().find(|step| step.is_removal() && outcomes[step.at].is_done());
            if let Some(first) = first {
                outcomes[first.at].notes.extend(unneeded_note(&unneeded));
            }
            return outcomes;
        }
        steps.retain(|step| outcomes[step.at].is_done());
        self.carry_out(&steps, &mut outcomes);
        outcomes
    }

    /// Determines the goal of a change from the present state of the package.
    ///
    /// # Errors
    /// If the package is on hold, or its file cannot be used.
    fn step<'c>(&self, at: usize, change: &Change<'c>, packages: &Packages) -> Result<TransactionStep<'c>, EcoString> {
        let (name, row) = (change.name, packages.find(change.name));
        let goal = match change.should.filter(|should| !is_removal(should)) {
            None => removal(change.should, row),
            Some(should) => self.installation(change, should, row, packages)?,
        };
        let is_held = row.is_some_and(|row| row.is_held && row.is_there()) && goal != PackageAction::Nothing;
        if is_held && change.should.is_none_or(|should| should.get("mark").is_none()) {
            let version = row.map(|row| row.version.as_str()).unwrap_or_default();
            return Err(eco_format!(
                "{name} is on hold at {version}: declare `mark: none` or `mark: hold`, or run `apt-mark unhold {name}`"
            ));
        }
        let broken = row.filter(|row| row.status == DpkgStatus::Broken).map(|row| row.version.clone());
        Ok(TransactionStep { at, name, should: change.should, goal, is_unheld: is_held, broken })
    }

    fn installation(
        &self,
        change: &Change<'_>,
        should: &Attributes,
        row: Option<&Package>,
        packages: &Packages,
    ) -> Result<PackageAction, EcoString> {
        let name = change.name.as_str();
        let there = row.filter(|row| row.is_there());
        if there.is_none() && super::is_provided(packages, name, should) {
            return Ok(PackageAction::Nothing);
        }
        let wanted = should.text("version");
        if let Some(source) = should.text("source") {
            return self.file_goal(source, name, wanted, there, change);
        }
        let is_whole = there.is_some_and(|row| row.status == DpkgStatus::Installed);
        Ok(match (there, wanted) {
            (Some(row), Some(wanted)) if is_whole && version::is_same(&row.version, wanted) => PackageAction::Nothing,
            (_, Some(wanted)) => PackageAction::Install(format!("{name}={wanted}")),
            (Some(_), None) if is_whole && !change.differs("latest") => PackageAction::Nothing,
            _ => PackageAction::Install(name.to_owned()),
        })
    }

    /// Determines the goal of a package with a file.
    ///
    /// # Errors
    /// If the file is another package or version, or another user can change it.
    fn file_goal(
        &self,
        source: &str,
        name: &str,
        wanted: Option<&str>,
        there: Option<&Package>,
        change: &Change<'_>,
    ) -> Result<PackageAction, EcoString> {
        let is_whole = there.filter(|row| row.status == DpkgStatus::Installed);
        let has_version = |row: &Package| wanted.is_none_or(|wanted| version::is_same(&row.version, wanted));
        if is_whole.is_some_and(has_version) && !change.differs("latest") {
            return Ok(PackageAction::Nothing);
        }
        let [package, held, architecture] = self.provider.file_fields(&self.apt, source)?;
        let plain = name.split(':').next().unwrap_or(name);
        if package != plain {
            return Err(eco_format!("source: {source} is the package `{package}`, not `{plain}`"));
        }
        if name.split_once(':').is_some_and(|(_, wanted)| wanted != architecture) {
            return Err(eco_format!("source: {source} is for the architecture {architecture}"));
        }
        if let Some(wanted) = wanted.filter(|wanted| !version::is_same(wanted, &held)) {
            return Err(eco_format!("source: {source} has the version {held}, not {wanted}"));
        }
        Ok(PackageAction::Install(source.to_owned()))
    }

    /// Returns true if an installation asks for newer package lists.
    fn is_refresh_due(&self, steps: &[TransactionStep<'_>]) -> bool {
        let installs =
            steps.iter().filter(|step| matches!(&step.goal, PackageAction::Install(word) if !word.starts_with('/')));
        let maximum = installs.filter_map(|step| maximum_age(step.should?)).min();
        maximum.is_some_and(|maximum| self.age_of_lists().is_none_or(|age| age >= maximum))
    }

    /// Returns the age of the package lists; none if there are none, or the clock is wrong. `apt-get update` changes
    /// the directory only if it gets a new list.
    fn age_of_lists(&self) -> Option<Duration> {
        let root = self.provider.system.root();
        // Images of containers have the directory without lists.
        let mut entries = fs::read_dir(root.join(LISTS.trim_start_matches('/'))).ok()?.flatten();
        if !entries.any(|entry| entry.file_name().to_string_lossy().contains("_Packages")) {
            return None;
        }
        let own = self.cx.var_dir().map(|data| data.join(REFRESHED));
        let places = ["var/lib/apt/lists", "var/lib/apt/periodic/update-success-stamp"].map(|path| root.join(path));
        let times = places.into_iter().chain(own).filter_map(|path| fs::metadata(path).ok()?.modified().ok());
        SystemTime::now().duration_since(times.max()?).ok()
    }

    fn refresh_lists(&self) {
        match self.apt.update() {
            Ok(()) => {}
            Err(failed) => {
                let message = format!("the package lists stay as they are: {}", failed.message);
                self.cx.log(Level::Warning, "package", "", &message);
            }
        }
    }

    /// Replaces virtual packages by the package that provides them, and fails installations that apt does not know.
    /// apt-get would read an unknown name as a pattern or an order: `foo-` removes foo, `fo.` installs similar
    /// packages.
    fn resolve(&self, steps: &mut Vec<TransactionStep<'_>>, outcomes: &mut [Outcome]) {
        let is_named =
            |step: &TransactionStep<'_>| matches!(&step.goal, PackageAction::Install(word) if !word.starts_with('/'));
        let names: Vec<&str> = steps.iter().filter(|step| is_named(step)).map(|step| step.name.as_str()).collect();
        let policies = match self.apt.policies(&names) {
            Ok(policies) => policies,
            Err(why) => return fail(steps, outcomes, &why, is_named),
        };
        let is_virtual = |name: &&str| policies.get(*name).is_none_or(|policy| policy.versions.is_empty());
        let virtuals: Vec<&str> = names.iter().copied().filter(is_virtual).collect();
        let providers = self.apt.providers(&virtuals).unwrap_or_default();
        steps.retain_mut(|step| {
            if !is_named(step) {
                return true;
            }
            let policy = policies.get(step.name).cloned().unwrap_or_default();
            let provided = providers.get(step.name).map(Vec::as_slice).unwrap_or_default();
            match word(step, &policy, provided) {
                Ok(word) => step.goal = PackageAction::Install(word),
                Err(why) => outcomes[step.at] = Outcome::failed(why),
            }
            outcomes[step.at].is_done()
        });
    }

    /// Keeps the failures of a preview that nothing can prevent: no earlier resource, and no newer package lists.
    fn keep_certain(&self, changes: &[Change<'_>], is_stale: bool, outcomes: &mut [Outcome]) {
        for (change, outcome) in changes.iter().zip(outcomes) {
            let is_open = is_stale || super::pending_repository(self.cx, change.name).is_some();
            if is_open || self.cx.preview_context().may_change_before(change.name) {
                *outcome = Outcome::done();
            }
        }
    }

    fn carry_out(&self, steps: &[TransactionStep<'_>], outcomes: &mut [Outcome]) {
        let names = |is_meant: &dyn Fn(&TransactionStep<'_>) -> bool| -> Vec<&str> {
            steps.iter().filter(|step| is_meant(step)).map(|step| step.name.as_str()).collect()
        };
        if let Err(failed) = self.apt.mark("unhold", &names(&|step| step.is_unheld)) {
            return fail_all(steps, outcomes, &failed.message);
        }
        let mut groups: BTreeMap<(Vec<EcoString>, bool), Vec<&TransactionStep<'_>>> = BTreeMap::new();
        for step in steps.iter().filter(|step| step.goal != PackageAction::Nothing) {
            // Options matter only to installations, so removals join any of these transactions.
            let key = if matches!(step.goal, PackageAction::Install(_)) { step.options() } else { (Vec::new(), false) };
            groups.entry(key).or_default().push(step);
        }
        for (options, group) in &groups {
            self.transaction(options, group, outcomes);
        }
        self.set_marks(steps, outcomes);
    }

    /// Changes packages in one transaction. If it fails, changes each package on its own.
    fn transaction(&self, options: &(Vec<EcoString>, bool), steps: &[&TransactionStep<'_>], outcomes: &mut [Outcome]) {
        let failed = match self.try_transaction(options, steps) {
            Ok(left) => {
                if let Some(first) = steps.iter().find(|step| step.is_removal()) {
                    outcomes[first.at].notes.extend(unneeded_note(&left));
                }
                return;
            }
            Err(failed) => failed,
        };
        if steps.len() == 1 || failed.is_locked {
            for step in steps {
                outcomes[step.at] = Outcome::failed(failed.message.clone());
            }
            return;
        }
        for step in steps {
            if self.cx.interrupt().is_raised() {
                outcomes[step.at] = Outcome::failed("not changed: the run was interrupted");
            } else if !self.is_reached(step) {
                let single = self.try_transaction(options, &[step]);
                outcomes[step.at] = single.map_or_else(
                    |failed| Outcome::failed(failed.message),
                    |left| Outcome { notes: unneeded_note(&left).into_iter().collect(), ..Outcome::done() },
                );
            }
        }
    }

    /// Returns the packages that nothing needs after the removals.
    fn try_transaction(
        &self,
        (options, replaces): &(Vec<EcoString>, bool),
        steps: &[&TransactionStep<'_>],
    ) -> Result<Vec<EcoString>, Failed> {
        let mut left = Vec::new();
        let mut words = Vec::new();
        let mut removed = Vec::new();
        for step in steps {
            match &step.goal {
                PackageAction::Install(word) => words.push(word.clone()),
                PackageAction::Remove | PackageAction::Purge => removed.push(step.name.to_string()),
                PackageAction::Nothing => {}
            }
        }
        let is_purge = |step: &&&TransactionStep<'_>| step.goal == PackageAction::Purge;
        let purged: Vec<String> = steps.iter().filter(is_purge).map(|step| step.name.to_string()).collect();
        let is_pure_purge = !purged.is_empty() && purged.len() == removed.len();
        let mut common: Vec<String> = options.iter().map(ToString::to_string).collect();
        if *replaces {
            // The last of these options counts.
            common.extend(["-o".to_owned(), "Dpkg::Options::=--force-confnew".to_owned()]);
        }
        if steps
            .iter()
            .any(|step| step.is_pinned() || matches!(&step.goal, PackageAction::Install(word) if word.starts_with('/')))
        {
            common.push("--allow-downgrades".to_owned());
        }
        let call = |command: &str, more: &[&str], words: &[String]| -> Vec<String> {
            let more = more.iter().map(|word| (*word).to_owned());
            [command.to_owned()]
                .into_iter()
                .chain(common.iter().cloned())
                .chain(more)
                .chain(["--".to_owned()])
                .chain(words.iter().cloned())
                .collect()
        };
        let purge: &[&str] = if is_pure_purge { &["--purge"] } else { &[] };
        if !words.is_empty() && !removed.is_empty() {
            let orders = removed.iter().map(|name| format!("{name}-"));
            let both: Vec<String> = words.iter().cloned().chain(orders).collect();
            let whole = call("install", purge, &both);
            if self.removes_only(&whole, &removed) {
                left = apt::unneeded(&self.apt.transaction(&whole)?);
            } else {
                // apt-get itself names the packages that it would have to remove.
                self.apt.transaction(&call("install", &["--no-remove"], &words))?;
                left = apt::unneeded(&self.apt.transaction(&call("remove", purge, &removed))?);
            }
        } else if !words.is_empty() {
            self.apt.transaction(&call("install", &["--no-remove"], &words))?;
        } else if !removed.is_empty() {
            left = apt::unneeded(&self.apt.transaction(&call("remove", purge, &removed))?);
        }
        if !is_pure_purge && !purged.is_empty() {
            self.apt.transaction(&call("purge", &[], &purged))?;
        }
        Ok(left)
    }

    /// Returns true if a transaction removes no packages except declared ones and those that depend on them.
    fn removes_only(&self, whole: &[String], removed: &[String]) -> bool {
        let alone: Vec<String> =
            ["remove", "--"].into_iter().map(str::to_owned).chain(removed.iter().cloned()).collect();
        match (self.apt.removals(whole), self.apt.removals(&alone)) {
            (Ok(all), Ok(expected)) => all.iter().all(|name| expected.contains(name)),
            _ => false,
        }
    }

    /// Returns true if a package has reached its goal.
    fn is_reached(&self, step: &TransactionStep<'_>) -> bool {
        let Ok(packages) = self.provider.database.packages() else { return false };
        let row = packages.find(step.name);
        match &step.goal {
            PackageAction::Nothing => true,
            PackageAction::Remove => row.is_none_or(|row| !row.is_there()),
            PackageAction::Purge => row.is_none_or(|row| row.status == DpkgStatus::NotInstalled),
            // Only apt knows whether the version is the latest, and a file may have replaced another version.
            PackageAction::Install(word) => row.is_some_and(|row| {
                let version = word.split_once('=').filter(|_| !word.starts_with('/')).map(|(_, version)| version);
                row.status == DpkgStatus::Installed
                    && version.is_some_and(|version| version::is_same(version, &row.version))
            }),
        }
    }

    /// Sets the declared marks, also of packages whose change has failed.
    fn set_marks(&self, steps: &[TransactionStep<'_>], outcomes: &mut [Outcome]) {
        let Ok(packages) = self.provider.database.packages() else { return };
        for (mark, word) in [("hold", "hold"), ("none", "unhold")] {
            let is_other = |step: &&TransactionStep<'_>| {
                let is_declared =
                    step.should.is_some_and(|should| !is_removal(should) && should.text("mark") == Some(mark));
                let row = packages.find(step.name).filter(|row| row.is_there());
                is_declared && row.is_some_and(|row| row.is_held != (mark == "hold"))
            };
            let marked: Vec<&TransactionStep<'_>> = steps.iter().filter(is_other).collect();
            let names: Vec<&str> = marked.iter().map(|step| step.name.as_str()).collect();
            if let Err(failed) = self.apt.mark(word, &names) {
                for step in marked.iter().filter(|step| outcomes[step.at].is_done()).collect::<Vec<_>>() {
                    outcomes[step.at] = Outcome::failed(failed.message.clone());
                }
            }
        }
    }
}

fn removal(should: Option<&Attributes>, row: Option<&Package>) -> PackageAction {
    let is_purge = should.is_some_and(|should| should.get_bool("purge") == Some(true));
    match row.map(|row| row.status) {
        None | Some(DpkgStatus::NotInstalled) => PackageAction::Nothing,
        Some(DpkgStatus::ConfigFiles) if !is_purge => PackageAction::Nothing,
        Some(_) if is_purge => PackageAction::Purge,
        Some(_) => PackageAction::Remove,
    }
}

/// Returns the argument of apt-get that installs a package.
///
/// # Errors
/// If apt has no such package or version.
fn word(step: &TransactionStep<'_>, policy: &Policy, providers: &[EcoString]) -> Result<String, EcoString> {
    let name = step.name;
    let wanted = step.should.and_then(|should| should.text("version"));
    let unknown = || {
        eco_format!(
            "apt has no package `{name}` to install: `apt-cache policy {name}` shows its versions, `apt-get update` or \
             `refresh_lists` updates the package lists"
        )
    };
    match (wanted, &policy.candidate, providers) {
        (Some(wanted), ..) if policy.versions.iter().any(|version| version == wanted) => Ok(format!("{name}={wanted}")),
        (Some(wanted), ..) if !policy.versions.is_empty() => {
            // apt has the name, and dpkg may write the version in another form.
            let same = policy.versions.iter().find(|version| version::is_same(version, wanted));
            let versions = policy.versions.join(", ");
            let known = same.map(|version| format!("{name}={version}"));
            known.ok_or_else(|| eco_format!("apt has no version `{wanted}` of {name}, but {versions}"))
        }
        // If a pin prefers an older version than the partly installed one, apt-get would have to go back, and refuses.
        (None, Some(candidate), _) => Ok(match &step.broken {
            Some(broken) if version::compare(broken, candidate).is_gt() => format!("{name}={broken}"),
            _ => name.to_string(),
        }),
        (None, None, [only]) if policy.versions.is_empty() => Ok(only.to_string()),
        (None, None, [_, ..]) if policy.versions.is_empty() => {
            let all = providers.join(", ");
            Err(eco_format!("{name} is a virtual package: declare one of the packages that provide it: {all}"))
        }
        _ => Err(unknown()),
    }
}

/// Fails the steps that are meant, and removes them.
fn fail(
    steps: &mut Vec<TransactionStep<'_>>,
    outcomes: &mut [Outcome],
    why: &str,
    is_meant: impl Fn(&TransactionStep<'_>) -> bool,
) {
    steps.retain(|step| {
        if is_meant(step) {
            outcomes[step.at] = Outcome::failed(why);
        }
        !is_meant(step)
    });
}

fn fail_all(steps: &[TransactionStep<'_>], outcomes: &mut [Outcome], why: &str) {
    for step in steps {
        outcomes[step.at] = Outcome::failed(why);
    }
}
