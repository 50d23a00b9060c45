//! The type `virt`: virtual machines of libvirt.

mod definition;
mod schema;
mod virsh;

use std::time::{Duration, Instant};

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Change, Outcome, State, Value};
use kilter_provider::{
    AutoEdge, Batch, Context, Declaration, Direction, Effect, Insync, Match, Mode, POLL, PathState, Predict, Provider,
    ProviderError, Query, Refresh, Relations, Scheduling, SideEffects, Suitability, ValidationError, Wanted, Watch,
    WatchSink, WatchSource,
};

use crate::accounts::System;
use crate::builtin::is_absent;
use crate::tool;
use crate::value_text::{sealed_like, texts};
use definition::{Definition, canonical_disks, path_and_format};
use virsh::{MachineLists, Virsh};

/// Packages of Debian that contain virsh and the daemon.
const PACKAGES: [&str; 3] = ["libvirt-clients", "libvirt-daemon-system", "libvirt-daemon"];

/// Units of the daemon, as one program and as one for each hypervisor.
const SERVICES: [&str; 2] = ["libvirtd", "virtqemud"];

/// Time between two checks of a machine that shuts down.
const PAUSE: Duration = Duration::from_millis(200);

/// Attributes of the definition.
const DEFINED: [&str; 7] = ["kind", "memory", "cpus", "boot", "disks", "cdroms", "networks"];

/// Provides the type `virt`.
pub struct VirtProvider {
    system: System,
}

/// A machine, with the settings of its resource.
struct VirtualMachine<'m> {
    virsh: Virsh<'m>,
    name: &'m EcoString,
    shutdown_timeout: Duration,
    is_forced: bool,
}

impl VirtualMachine<'_> {
    fn command(&self, cx: &Context<'_>, words: &[&str]) -> Result<(), EcoString> {
        self.virsh.command(cx, words, self.name)
    }

    /// Returns the value of `ensure`. None if the machine does not exist.
    fn activity(&self, cx: &Context<'_>) -> Result<Option<&'static str>, EcoString> {
        let lists = self.virsh.lists(cx)?;
        Ok(lists.all.contains(self.name).then(|| lists.activity(self.name)))
    }

    /// Shuts the machine down.
    ///
    /// # Errors
    /// If it has not ended in time, and `force` does not allow to power it off.
    fn stop(&self, cx: &Context<'_>) -> Result<(), EcoString> {
        match self.activity(cx)? {
            None | Some("stopped") => return Ok(()),
            // A paused machine cannot shut down.
            Some("paused") => self.command(cx, &["resume"])?,
            Some(_) => {}
        }
        let begun = Instant::now();
        self.command(cx, &["shutdown"])?;
        while !matches!(self.activity(cx)?, None | Some("stopped")) {
            if cx.interrupt().is_raised() {
                return Err("interrupted; the machine may still shut down".into());
            }
            if begun.elapsed() >= self.shutdown_timeout {
                let seconds = self.shutdown_timeout.as_secs();
                return match self.is_forced {
                    true => self.command(cx, &["destroy"]),
                    false => Err(eco_format!(
                        "the machine has not shut down within {seconds} s: increase `shutdown_timeout`, or declare \
                         `force: true` to power it off"
                    )),
                };
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    fn remove(&self, cx: &Context<'_>) -> Result<(), EcoString> {
        self.stop(cx)?;
        // A transient machine has gone with its end.
        if self.activity(cx)?.is_none() {
            return Ok(());
        }
        match self.command(cx, &["undefine", "--managed-save", "--snapshots-metadata", "--nvram"]) {
            // Not every hypervisor has variables of UEFI.
            Err(why) if why.contains("unsupported flags") => self.command(cx, &["undefine"]),
            done => done,
        }
    }

    fn start(&self, cx: &Context<'_>, is: &str, should: &str) -> Result<(), EcoString> {
        match (is, should) {
            ("stopped", "paused") => self.command(cx, &["start", "--paused"]),
            ("stopped", "running") => self.command(cx, &["start"]),
            ("paused", "running") => self.command(cx, &["resume"]),
            ("running", "paused") => self.command(cx, &["suspend"]),
            (_, "stopped") => self.stop(cx),
            _ => Ok(()),
        }
    }
}

impl VirtProvider {
    /// Creates a provider for the hypervisors that virsh reaches.
    pub fn new(system: System) -> VirtProvider {
        VirtProvider { system }
    }

    fn virsh<'v>(&'v self, should: Option<&'v Attributes>) -> Virsh<'v> {
        Virsh { system: &self.system, uri: should.and_then(|should| should.text("uri")) }
    }

    fn machine<'m>(&'m self, name: &'m EcoString, should: Option<&'m Attributes>) -> VirtualMachine<'m> {
        let seconds = should.and_then(|should| should.get("shutdown_timeout")).and_then(Value::as_integer);
        VirtualMachine {
            virsh: self.virsh(should),
            name,
            shutdown_timeout: Duration::from_secs(seconds.and_then(|n| u64::try_from(n).ok()).unwrap_or(120)),
            is_forced: should.and_then(|should| should.get_bool("force")) == Some(true),
        }
    }

    fn state(virsh: &Virsh<'_>, cx: &Context<'_>, lists: &MachineLists, name: &EcoString) -> State {
        if !lists.all.contains(name) {
            return State::absent(name.clone());
        }
        let found = virsh.definition(cx, name).and_then(|xml| Definition::parse(&xml)).map(|found| found.read());
        let found = match found {
            Ok(found) => found,
            Err(why) => return State { unreadable: Some(why), ..State::absent(name.clone()) },
        };
        let mut attributes = Attributes::with_capacity(10);
        attributes.push("ensure", lists.activity(name));
        attributes.push("name", name.clone());
        attributes.push("autostart", lists.starts_with_host(name));
        for (attribute, value) in found.iter() {
            attributes.push(attribute.clone(), value.clone());
        }
        State::present(name.clone(), attributes)
    }

    /// Returns the states of machines. The machines of a hypervisor are listed once.
    fn states(&self, cx: &Context<'_>, wanted: &[Wanted<'_>]) -> Vec<State> {
        let mut known: Vec<(Option<EcoString>, Result<MachineLists, EcoString>)> = Vec::new();
        let state = |one: &Wanted<'_>| {
            let virsh = self.virsh(one.should);
            let at = known.iter().position(|(uri, _)| uri.as_deref() == virsh.uri).unwrap_or_else(|| {
                known.push((virsh.uri.map(EcoString::from), virsh.lists(cx)));
                known.len() - 1
            });
            match &known[at].1 {
                Ok(lists) => VirtProvider::state(&virsh, cx, lists, one.name),
                Err(why) => State { unreadable: Some(why.clone()), ..State::absent(one.name.clone()) },
            }
        };
        wanted.iter().map(state).collect()
    }

    fn all(&self, cx: &Context<'_>) -> Result<Vec<State>, EcoString> {
        let virsh = self.virsh(None);
        let lists = virsh.lists(cx)?;
        let names = lists.all.iter().filter(|name| schema::name_problem(name).is_none());
        Ok(names.map(|name| VirtProvider::state(&virsh, cx, &lists, name)).collect())
    }

    fn change(&self, cx: &Context<'_>, change: &Change<'_>) -> Result<(), EcoString> {
        // Values from other resources have not been validated before.
        let none = Attributes::new();
        if let Some(problem) = schema::problems(change.name, change.should.unwrap_or(&none)).pop() {
            return Err(eco_format!("{problem}"));
        }
        let machine = self.machine(change.name, change.should);
        let Some(should) = change.should.filter(|should| !is_absent(should)) else { return machine.remove(cx) };
        let activity = machine.activity(cx)?;
        preview(should, activity.is_some())?;
        let mut definition = match activity {
            Some(_) => Definition::parse(&machine.virsh.definition(cx, change.name)?)?,
            None => match should.text("kind") {
                Some(kind) => Definition::new(change.name, kind),
                None => Definition::new(change.name, schema::default_kind(&machine.virsh.hypervisor(cx)?)),
            },
        };
        let found = definition.read();
        // Other parts of the definition stay, such as the number of the processors that are online.
        let differing: Attributes = should
            .iter()
            .filter(|(name, value)| DEFINED.contains(&name.as_str()) && found.get(name.as_str()) != Some(value))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        if activity.is_none() || !differing.is_empty() {
            definition.apply(&differing);
            machine.virsh.define(cx, definition.xml()?)?;
        }
        match should.get_bool("autostart") {
            Some(is) if change.is.attributes.get_bool("autostart").unwrap_or_default() != is => {
                machine.command(cx, if is { &["autostart"] } else { &["autostart", "--disable"] })?;
            }
            _ => {}
        }
        match should.text("ensure") {
            Some(ensure) => machine.start(cx, activity.unwrap_or("stopped"), ensure),
            None => Ok(()),
        }
    }
}

/// Fails if a new machine has no memory.
fn preview(should: &Attributes, exists: bool) -> Result<(), EcoString> {
    match !exists && !is_absent(should) && should.get("memory").is_none() {
        true => Err("a new machine needs `memory`, in MiB".into()),
        false => Ok(()),
    }
}

impl Provider for VirtProvider {
    crate::builtin::describe!("virt", "libvirt", schema::schema, [scheduling, relations, predict, refresh, watch]);

    fn suitable(&self) -> Suitability {
        tool::installed(&["virsh"], Some(PACKAGES[0]))
    }

    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        match query {
            Query::Named(wanted) => Ok(self.states(cx, wanted)),
            Query::All => self.all(cx).map_err(ProviderError::new),
        }
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        let one = |change: &Change<'_>| {
            let done = match (mode, change.should) {
                (Mode::Apply, _) => self.change(cx, change),
                (Mode::Preview, Some(should)) => preview(should, change.is.exists),
                (Mode::Preview, None) => Ok(()),
            };
            done.map_or_else(Outcome::failed, |()| Outcome::done())
        };
        changes.iter().map(one).collect()
    }

    fn validate(&self, name: &str, should: &Attributes, _: &[&str]) -> Vec<ValidationError> {
        schema::problems(name, should)
    }

    fn canonicalize(&self, _: &Context<'_>, resources: &mut [Declaration<'_>]) -> Vec<Vec<ValidationError>> {
        for one in resources.iter_mut() {
            if let Some(given) = one.should.get("disks") {
                let disks = sealed_like(given, canonical_disks(given));
                one.should.set("disks", disks);
            }
        }
        vec![Vec::new(); resources.len()]
    }

    fn insync(&self, _: &Context<'_>, attribute: &str, is: &State, should: &Attributes) -> Insync {
        let is_active = is.exists && is.attributes.text("ensure") != Some("stopped");
        // The change stops the machine after it has changed the definition.
        let stays = is_active && !matches!(should.text("ensure"), Some("stopped" | "absent"));
        match (is.attributes.get(attribute), should.get(attribute)) {
            (Some(found), Some(wanted)) if stays && DEFINED.contains(&attribute) && found != wanted => {
                Insync::Differs(Some(eco_format!("{found} → {wanted}, from the next start")))
            }
            _ => Insync::Default,
        }
    }
}

impl Scheduling for VirtProvider {
    fn batch_size(&self) -> Batch {
        Batch::One
    }
}

impl Refresh for VirtProvider {
    /// Restarts a machine that runs, so that it has its new definition.
    fn refresh(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Outcome {
        let machine = self.machine(wanted.name, wanted.should);
        let restart = || match machine.activity(cx)? {
            None | Some("stopped") => Ok(()),
            Some(activity) => {
                machine.stop(cx)?;
                machine.start(cx, "stopped", activity)
            }
        };
        restart().map_or_else(Outcome::failed, |()| Outcome { refreshed: true, ..Outcome::done() })
    }

    fn acts_on_refresh(&self, is: &State, should: &Attributes) -> bool {
        let is_active = |ensure: Option<&str>| matches!(ensure, Some("running" | "paused"));
        is_active(is.attributes.text("ensure")) && is_active(should.text("ensure").or(Some("running")))
    }
}

/// Returns the paths of the images of a machine.
fn images(attributes: &Attributes) -> Vec<EcoString> {
    let disks = attributes.get("disks").map(Value::as_list).unwrap_or_default();
    let disks = disks.iter().filter_map(path_and_format).map(|(path, _)| path.into());
    disks.chain(texts(attributes.get("cdroms"))).collect()
}

impl Relations for VirtProvider {
    fn auto_edges(&self, _: &str, should: &Attributes, add: &mut dyn FnMut(AutoEdge<'_>)) {
        let is_absent = is_absent(should);
        let direction = if is_absent { Direction::After } else { Direction::Before };
        for package in PACKAGES {
            add(AutoEdge { direction, ..AutoEdge::require("package", package) });
        }
        for service in SERVICES {
            add(AutoEdge { direction, ..AutoEdge::require("service", service) });
        }
        for image in images(should) {
            for type_name in ["virtual_disk", "file", "mount"] {
                add(AutoEdge { by: Match::PathOrAncestor, direction, ..AutoEdge::require(type_name, &image) });
            }
        }
    }
}

impl Predict for VirtProvider {
    fn side_effects(&self, _: &Attributes) -> SideEffects {
        SideEffects::Own
    }

    /// Returns the disks, to which a running machine writes.
    fn effects(&self, _: &Context<'_>, change: &Change<'_>) -> Option<Vec<Effect>> {
        let images = images(change.should.unwrap_or(&change.is.attributes));
        Some(images.into_iter().map(|path| Effect::Path { path, node: PathState::Unknown }).collect())
    }
}

impl Watch for VirtProvider {
    fn watches(&self, _: &str, _: &Attributes) -> Vec<WatchSource> {
        vec![WatchSource::ProviderPerResource, WatchSource::Poll(POLL)]
    }

    fn watch(&self, cx: &Context<'_>, wanted: Option<Wanted<'_>>, tell: &dyn WatchSink) -> Result<(), ProviderError> {
        self.virsh(wanted.and_then(|one| one.should)).follow(cx, tell)
    }
}
