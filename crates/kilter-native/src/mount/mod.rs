//! The type `mount`: entries of `/etc/fstab`, and the file systems and swap areas mounted from them.

mod found;
mod fstab;
mod live;
mod schema;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Change, Outcome, State};
use kilter_process::Invocation;
use kilter_provider::{
    AutoEdge, Context, Direction, Effect, Footprint, Forecast, Insync, Match, Mode, PathState, Predict, Provider,
    ProviderError, Query, Redactor, Refresh, Relations, SideEffects, Suitability, ValidationError, Wanted, Watch,
    WatchSink, WatchSource, redacted_outcome,
};
use rustc_hash::FxHashSet;

use crate::accounts::System;
use crate::builtin::is_absent;
use crate::file::atomic_rewrite::{self, AtomicRewrite, RewriteError};
use crate::line_table::LineEntry;
use crate::{proc_watch, tool};
use found::{FoundMount, MountStep, problems, require_fields, sorted};
use fstab::{FstabEntry, FstabTable, SWAP};
use live::{LiveMount, LiveMounts};
use schema::schema;

const PROGRAMS: [&str; 2] = ["mount", "umount"];

/// Lists below `/proc` that the kernel reports changes of (proc_pid_mountinfo(5)).
const LISTS: [&str; 2] = ["self/mountinfo", "swaps"];

/// Maximum duration of a mount. Network file systems wait for their servers.
const DEADLINE: Duration = Duration::from_secs(300);

/// Provides the type `mount`.
pub struct MountProvider {
    system: System,
    /// Held from the read of the file to the last mount.
    turn: Mutex<()>,
}

/// Returns a name without a slash at the end.
fn trimmed(name: &str) -> &str {
    match name.trim_end_matches('/') {
        "" => name,
        name => name,
    }
}

impl MountProvider {
    /// Creates a provider for the mounts of a system.
    pub fn new(system: System) -> MountProvider {
        MountProvider { system, turn: Mutex::new(()) }
    }

    fn path(&self) -> String {
        self.system.etc("fstab").to_string_lossy().into_owned()
    }

    fn live(&self) -> Result<LiveMounts, EcoString> {
        let path = self.system.root().join("proc");
        LiveMounts::read(&path).map_err(|error| eco_format!("cannot read the mounts below {}: {error}", path.display()))
    }

    fn run(&self, cx: &Context<'_>, tool: Invocation) -> Result<(), EcoString> {
        tool::run(self.system.runner(), cx, tool, DEADLINE)
    }

    /// Mounts a file system or activates a swap area by its entry. Fails if a file system is not mounted afterwards.
    fn mount(&self, cx: &Context<'_>, name: &str, is_swap: bool, options: &str) -> Result<(), EcoString> {
        self.run(cx, Invocation::new(if is_swap { "swapon" } else { "mount" }).args(["--", name]))?;
        let has = |word: &str| options.split(',').any(|option| option == word);
        // mount.nfs(8) continues a mount with `bg` in the background.
        if is_swap || has("bg") || self.is_mounted(name)? {
            return Ok(());
        }
        let hint = if has("nofail") { ": `nofail` hides the failure, such as a missing device" } else { "" };
        Err(eco_format!("mount ended with exit code 0, but {name} is not mounted{hint}"))
    }

    /// Returns true if a file system is mounted at a path, or at the target of a link there.
    fn is_mounted(&self, name: &str) -> Result<bool, EcoString> {
        let live = self.live()?;
        let target = || std::fs::canonicalize(self.system.root().join(name.trim_start_matches('/'))).ok();
        Ok(live.find(name).is_some() || target().is_some_and(|path| live.find(&path.to_string_lossy()).is_some()))
    }

    fn unmount(&self, cx: &Context<'_>, name: &str, live: &LiveMount) -> Result<(), EcoString> {
        self.run(cx, Invocation::new(if live.fstype == SWAP { "swapoff" } else { "umount" }).args(["--", name]))
    }

    fn remount(&self, cx: &Context<'_>, name: &str, options: &str) -> Result<(), EcoString> {
        // Without `bind`, mount(8) would change the options of the file system, which other mounts share.
        let mut words = if options.split(',').any(is_bind) { "remount,bind".to_owned() } else { "remount".to_owned() };
        // Without options, mount(8) takes those of the entry, and keeps others of the mount that the entry no longer
        // has.
        for option in options.split(',').filter(|option| !matches!(*option, "bind" | "rbind" | "defaults" | "")) {
            words.push(',');
            words.push_str(option);
        }
        self.run(cx, Invocation::new("mount").args(["-o", &words, "--", name]))
    }

    /// Makes systemd read the file again. It makes units of the entries, and would act on the former ones.
    fn reload_systemd(&self, cx: &Context<'_>) -> Result<(), EcoString> {
        match self.system.root().join("run/systemd/system").is_dir() {
            true => self.run(cx, Invocation::new("systemctl").arg("daemon-reload")),
            false => Ok(()),
        }
    }

    /// Fails if a file system has no mount point, which mount(8) would refuse.
    fn require_mount_point(&self, name: &str, options: &str) -> Result<(), EcoString> {
        let path = self.system.root().join(name.trim_start_matches('/'));
        let mut options = options.split(',');
        // A file can be mounted on a file. mount(8) makes the directory for the second option.
        let is_enough = |option| is_bind(option) && path.exists() || option.starts_with("X-mount.mkdir");
        match path.is_dir() || options.any(is_enough) {
            true => Ok(()),
            false => Err(eco_format!(
                "the mount point {name} is not a directory: declare `file[{name}]` with `ensure: directory`"
            )),
        }
    }

    /// Restores the line of an entry whose mount failed: the next boot would wait for it, or stop. Returns the failure
    /// with the result.
    fn restore_line(
        &self,
        cx: &Context<'_>,
        old: &FstabTable,
        entry: &FstabEntry,
        step: MountStep,
        why: EcoString,
    ) -> EcoString {
        let (path, name) = (self.path(), entry.name());
        let previous = old.find(name);
        if previous == Some(entry) {
            return why;
        }
        let restored = atomic_rewrite::rewritten(|| {
            let file = AtomicRewrite::open(&path)?;
            let mut table = FstabTable::parse(file.bytes());
            if table.find(name) != Some(entry) {
                return Err(RewriteError::Text("another program changed the line".into()));
            }
            table.restore(old, name);
            file.replace(&table.bytes(), 0o644, cx)?;
            Ok(())
        });
        let restored = restored.and_then(|()| self.reload_systemd(cx)).and_then(|()| match (step, previous) {
            (MountStep::MountAgain, Some(previous)) => self.mount(cx, name, previous.is_swap(), &previous.options),
            _ => Ok(()),
        });
        match (restored, previous) {
            (Ok(()), Some(_)) => eco_format!("kilter restored the previous line in {path}, because {why}"),
            (Ok(()), None) => eco_format!("kilter removed the new line from {path}, because {why}"),
            (Err(error), _) => eco_format!("kilter could not restore {path} or its mount ({error}) after {why}"),
        }
    }

    /// Makes the changes, again if another program changes the file meanwhile.
    fn change(&self, cx: &Context<'_>, changes: &[Change<'_>]) -> Result<Vec<Outcome>, EcoString> {
        let mut unmounted = FxHashSet::default();
        atomic_rewrite::rewritten(|| self.attempt(cx, changes, &mut unmounted))
    }

    /// Unmounts, writes the file once, mounts. `unmounted` has the names that are to be mounted again.
    fn attempt<'c>(
        &self,
        cx: &Context<'_>,
        changes: &[Change<'c>],
        unmounted: &mut FxHashSet<&'c str>,
    ) -> Result<Vec<Outcome>, RewriteError> {
        let path = self.path();
        let file = AtomicRewrite::open(&path)?;
        let old = FstabTable::parse(file.bytes());
        let mut table = FstabTable::parse(file.bytes());
        let live = self.live()?;
        let mut outcomes = vec![Outcome::done(); changes.len()];
        let mut later = Vec::new();
        // A mount inside of another one is unmounted first and mounted last.
        let mut order: Vec<usize> = (0..changes.len()).collect();
        order.sort_by_key(|&at| std::cmp::Reverse(trimmed(changes[at].name).len()));
        for at in order {
            let name = trimmed(changes[at].name);
            let found = FoundMount { entry: old.find(name), live: live.find(name) };
            let planned = match changes[at].should.filter(|should| !is_absent(should)) {
                None => (None, if found.live.is_some() { MountStep::Unmount } else { MountStep::Nothing }),
                Some(should) => {
                    let entry = found.merged(name, should);
                    if let Err(why) = require_fields(Some(&entry.device), Some(&entry.fstype)) {
                        outcomes[at] = Outcome::failed(why);
                        continue;
                    }
                    if let Some(problem) =
                        problems(name, Some(&entry.device), Some(&entry.fstype), &entry.options).pop()
                    {
                        // Values from other resources have not been validated before.
                        outcomes[at] = Outcome::failed(problem.to_string());
                        continue;
                    }
                    let step = match unmounted.contains(name) {
                        true => MountStep::MountAgain,
                        false => found.step(&entry, should),
                    };
                    if step == MountStep::Mount
                        && !entry.is_swap()
                        && let Err(why) = self.require_mount_point(name, &entry.options)
                    {
                        outcomes[at] = Outcome::failed(why);
                        continue;
                    }
                    (Some(entry), step)
                }
            };
            let (entry, step) = planned;
            if let (MountStep::Unmount | MountStep::MountAgain, Some(live)) = (step, found.live)
                && let Err(why) = self.unmount(cx, name, live)
            {
                outcomes[at] = Outcome::failed(why);
                continue;
            }
            if step == MountStep::MountAgain {
                unmounted.insert(name);
            }
            match entry {
                Some(entry) => {
                    later.push((at, name, step, entry.clone()));
                    table.put(entry);
                }
                None => table.remove(name),
            }
        }
        if table.bytes() != file.bytes() {
            let lost = file.replace(&table.bytes(), 0o644, cx)?;
            let lost = (!lost.is_empty()).then(|| eco_format!("{path}: could not keep {}", lost.join(", ")));
            let outdated =
                self.reload_systemd(cx).err().map(|why| eco_format!("systemd still uses the old {path}: {why}"));
            if let Some(first) = outcomes.first_mut() {
                first.notes.extend(lost.into_iter().chain(outdated));
            }
        }
        for (at, name, step, entry) in later.into_iter().rev() {
            let done = match step {
                MountStep::Mount | MountStep::MountAgain => self.mount(cx, name, entry.is_swap(), &entry.options),
                MountStep::Remount => self.remount(cx, name, &entry.options),
                MountStep::Nothing | MountStep::Unmount => Ok(()),
            };
            if let Err(why) = done {
                outcomes[at] = Outcome::failed(self.restore_line(cx, &old, &entry, step, why));
            }
        }
        Ok(outcomes)
    }

    /// Fails if a new entry lacks a field, or if the mount point does not exist and no earlier resource may create it.
    fn preview(&self, cx: &Context<'_>, change: &Change<'_>) -> Result<(), EcoString> {
        let name = trimmed(change.name);
        let Some(should) = change.should.filter(|should| !is_absent(should)) else { return Ok(()) };
        if !matches!(change.is.attributes.text("ensure"), Some("mounted" | "unmounted")) {
            require_fields(should.text("device"), should.text("fstype"))?;
        }
        let is_mounted = should.text("ensure").is_none_or(|ensure| ensure == "mounted");
        let declared_or_found = |attribute| should.text(attribute).or_else(|| change.is.attributes.text(attribute));
        let is_swap = declared_or_found("fstype") == Some(SWAP);
        // An earlier resource, such as the file of the mount point, may create it.
        let may_come = cx.preview_context().may_change_before(change.name)
            || !matches!(cx.preview_context().node(change.name, name), Forecast::Unchanged);
        match is_mounted && !is_swap && !may_come {
            true => self.require_mount_point(name, declared_or_found("options").unwrap_or_default()),
            false => Ok(()),
        }
    }
}

impl Provider for MountProvider {
    crate::builtin::describe!("mount", "fstab", schema, [relations, refresh, predict, watch]);

    fn suitable(&self) -> Suitability {
        tool::installed(&PROGRAMS, None)
    }

    fn get(&self, _: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        let bytes = atomic_rewrite::read(&self.path()).map_err(|error| ProviderError::new(error.to_string()))?;
        let table = FstabTable::parse(&bytes.unwrap_or_default());
        let live = self.live().map_err(ProviderError::new)?;
        let found = |name: &str| FoundMount { entry: table.find(name), live: live.find(name) };
        Ok(match query {
            Query::All => table.entries().iter().map(|entry| found(entry.name()).state(entry.name())).collect(),
            Query::Named(wanted) => wanted.iter().map(|one| found(trimmed(one.name)).state(one.name)).collect(),
        })
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        if mode == Mode::Preview {
            return crate::builtin::previews(changes, |change| self.preview(cx, change));
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let outcomes = self.change(cx, changes);
        let outcomes = outcomes.unwrap_or_else(|why| vec![Outcome::failed(why); changes.len()]);
        outcomes.into_iter().zip(changes).map(|(outcome, change)| redacted_outcome(change, outcome)).collect()
    }

    fn validate(&self, name: &str, should: &Attributes, _: &[&str]) -> Vec<ValidationError> {
        let (device, fstype) = (should.text("device"), should.text("fstype"));
        let mut found = problems(name, device, fstype, should.text("options").unwrap_or("defaults"));
        if should.text("ensure") == Some("ghost") {
            found.push(
                ValidationError::with("ensure", "`ghost` is a state that kilter finds: mounted without an entry")
                    .hint("write `mounted` to add the entry, or `absent` to unmount"),
            );
        }
        if let Some(device) = device.filter(|device| fstype == Some(SWAP) && *device != name) {
            let problem =
                ValidationError::with("device", format!("the device of a swap area is its name, not `{device}`"));
            found.push(problem.hint("remove `device`"));
        }
        let seal = Redactor::of(should);
        found.into_iter().map(|problem| seal.problem(problem)).collect()
    }

    fn insync(&self, _: &Context<'_>, attribute: &str, is: &State, should: &Attributes) -> Insync {
        let (found, wanted) = (is.attributes.text(attribute), should.text(attribute));
        match attribute {
            "ensure" if matches!(wanted, Some("defined" | "present")) => {
                match matches!(found, Some("mounted" | "unmounted")) {
                    true => Insync::Same,
                    false => Insync::Differs(None),
                }
            }
            "options" => {
                let (found, wanted) = (found.unwrap_or_default(), wanted.unwrap_or_default());
                if sorted(found) != sorted(wanted) {
                    return Insync::Differs(None);
                }
                let active = is.attributes.text("active_options").filter(|_| is_kept_mounted(should));
                match active.map(|active| live::missing_flags(wanted, active)) {
                    Some(missing) if !missing.is_empty() => {
                        Insync::Differs(Some(eco_format!("the mount does not have `{}`", missing.join(","))))
                    }
                    _ => Insync::Same,
                }
            }
            _ => Insync::Default,
        }
    }
}

fn is_bind(option: &str) -> bool {
    matches!(option, "bind" | "rbind")
}

/// Returns true if a mounted file system stays mounted.
fn is_kept_mounted(should: &Attributes) -> bool {
    should.text("ensure") != Some("unmounted") && !is_absent(should)
}

impl Refresh for MountProvider {
    /// Remounts a mounted file system.
    fn refresh(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Outcome {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let name = trimmed(wanted.name);
        let none = Attributes::new();
        let should = wanted.should.unwrap_or(&none);
        let options = should.text("options").unwrap_or("defaults");
        let done = self.live().and_then(|live| match live.find(name) {
            Some(live) if live.fstype == SWAP || should.get_bool("remounts") == Some(false) => {
                self.unmount(cx, name, live).and_then(|()| self.mount(cx, name, live.fstype == SWAP, options))
            }
            Some(_) => self.remount(cx, name, options),
            None => Ok(()),
        });
        let outcome = done.map_or_else(Outcome::failed, |()| Outcome { refreshed: true, ..Outcome::done() });
        Redactor::of(should).outcome(outcome)
    }

    fn acts_on_refresh(&self, is: &State, should: &Attributes) -> bool {
        matches!(is.attributes.text("ensure"), Some("mounted" | "ghost")) && is_kept_mounted(should)
    }
}

impl Relations for MountProvider {
    fn identities(&self, name: &str, _: &Attributes, say: &mut dyn FnMut(&str)) {
        if trimmed(name) != name {
            say(trimmed(name));
        }
    }

    fn auto_edges(&self, name: &str, should: &Attributes, add: &mut dyn FnMut(AutoEdge<'_>)) {
        let path = trimmed(name);
        if is_absent(should) {
            add(AutoEdge { by: Match::Ancestor, direction: Direction::After, ..AutoEdge::require("mount", path) });
            add(AutoEdge { direction: Direction::After, ..AutoEdge::require("file", path) });
            return;
        }
        add(AutoEdge { by: Match::Ancestor, ..AutoEdge::require("mount", path) });
        add(AutoEdge { by: Match::PathOrAncestor, ..AutoEdge::require("file", path) });
        if let Some(device) = should.text("device").filter(|device| device.starts_with('/')) {
            add(AutoEdge { by: Match::PathOrAncestor, ..AutoEdge::require("file", device) });
            add(AutoEdge { by: Match::PathOrAncestor, ..AutoEdge::require("mount", device) });
        }
    }

    fn names_are_paths(&self) -> bool {
        true
    }
}

impl Predict for MountProvider {
    fn side_effects(&self, _: &Attributes) -> SideEffects {
        SideEffects::Own
    }

    fn effects(&self, _: &Context<'_>, change: &Change<'_>) -> Option<Vec<Effect>> {
        let unknown = |path: &str| Effect::Path { path: path.into(), node: PathState::Unknown };
        Some(vec![unknown("/etc/fstab"), unknown(trimmed(change.name))])
    }

    fn footprint(&self, name: &str, _: &Attributes, say: &mut dyn FnMut(Footprint<'_>)) {
        say(Footprint::Writes { path: "/etc/fstab", is_whole: false });
        say(Footprint::Writes { path: trimmed(name), is_whole: false });
    }
}

impl Watch for MountProvider {
    /// Returns the watch for the file. The kernel reports mounts to the provider.
    fn watches(&self, _: &str, _: &Attributes) -> Vec<WatchSource> {
        let path = self.path().into();
        vec![WatchSource::Path { path, scope: kilter_provider::Scope::This }, WatchSource::Provider]
    }

    fn watch(&self, cx: &Context<'_>, _: Option<Wanted<'_>>, tell: &dyn WatchSink) -> Result<(), ProviderError> {
        let proc = self.system.root().join("proc");
        proc_watch::follow(&LISTS.map(|name| proc.join(name)), cx, tell)
            .map_err(|errno| ProviderError::new(format!("watch of the mounts below {}: {errno}", proc.display())))
    }
}

#[cfg(test)]
mod tests;
