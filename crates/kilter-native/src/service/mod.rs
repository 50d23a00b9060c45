//! The type `service`: units of systemd, through its D-Bus interface.
//!
//! `bus` is the client of D-Bus, `systemd` has the calls of systemd, and `unit` knows names. `offline` is for systems
//! that do not run.

mod bus;
mod change;
#[cfg(test)]
pub(crate) mod fake;
mod files;
mod journal;
mod offline;
mod read;
mod schema;
mod systemd;
mod unit;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Change, Outcome, State};
use kilter_provider::{
    Batch, Context, Insync, Mode, Provider, ProviderError, Query, Redactor, Refresh, Relations, Scheduling,
    Suitability, ValidationError, Wanted, Watch, WatchSink, WatchSource, redacted_outcome,
};

use crate::accounts::{RealRunner, Runner};
use bus::{BusError, Connection, Sockets};
use change::Reloads;
pub use offline::OfflineServiceProvider;
use systemd::Systemd;

/// Files and programs of systemd on a machine.
#[derive(Clone)]
struct ServiceHost {
    sockets: Sockets,
    /// Directory that exists if systemd runs (sd_booted(3)).
    booted: PathBuf,
    /// Directory with the runtime files of systemd.
    run: PathBuf,
    /// Directory with the links of enabled units.
    links: PathBuf,
    runner: Arc<dyn Runner>,
}

/// Provides the type `service` through systemd.
pub struct ServiceProvider {
    machine: ServiceHost,
    /// Connection between two calls.
    idle: Mutex<Option<Connection>>,
    /// True while events are watched. systemd sends every event to every connection with root, so that no connection
    /// stays idle.
    is_watching: AtomicBool,
    reloads: Reloads,
    /// Declared names that are aliases, by the aliased unit.
    aliases: Mutex<BTreeMap<String, BTreeSet<EcoString>>>,
}

impl ServiceProvider {
    /// Creates a provider for the units of this machine.
    pub fn new() -> ServiceProvider {
        let sockets = Sockets { private: "/run/systemd/private".into(), bus: "/run/dbus/system_bus_socket".into() };
        let runner = Arc::new(RealRunner);
        ServiceProvider::on(ServiceHost {
            sockets,
            booted: "/run/systemd/system".into(),
            run: "/run/systemd".into(),
            links: watch::LINKS.into(),
            runner,
        })
    }

    fn on(machine: ServiceHost) -> ServiceProvider {
        ServiceProvider {
            machine,
            idle: Mutex::default(),
            is_watching: AtomicBool::new(false),
            reloads: Reloads::default(),
            aliases: Mutex::default(),
        }
    }

    /// Asks systemd, over the connection of an earlier call if there is one.
    fn ask<T>(
        &self,
        cx: &Context<'_>,
        question: impl Fn(&mut Systemd<'_>) -> Result<T, BusError>,
    ) -> Result<T, BusError> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(connection) = idle {
            let mut systemd = Systemd::on(connection, cx);
            match question(&mut systemd) {
                // systemd closes all connections when it executes itself again.
                Err(BusError::Lost(_)) => {}
                answer => return self.release(systemd, answer),
            }
        }
        let mut systemd = Systemd::open(&self.machine.sockets, cx)?;
        let answer = question(&mut systemd);
        self.release(systemd, answer)
    }

    /// Keeps the connection for the next call, unless the answer to a call may still be on its way.
    fn release<T>(&self, systemd: Systemd<'_>, answer: Result<T, BusError>) -> Result<T, BusError> {
        if answer.is_ok() && !self.is_watching.load(Ordering::Acquire) {
            *self.idle.lock().unwrap_or_else(PoisonError::into_inner) = Some(systemd.into_connection());
        }
        answer
    }
}

impl Default for ServiceProvider {
    fn default() -> ServiceProvider {
        ServiceProvider::new()
    }
}

impl Provider for ServiceProvider {
    crate::builtin::describe!("service", "systemd", schema::schema, [scheduling, relations, refresh, watch]);

    fn suitable(&self) -> Suitability {
        if self.machine.booted.is_dir() {
            return Suitability::Suitable;
        }
        let directory = self.machine.booted.display();
        Suitability::Unsuitable(eco_format!("systemd does not run: there is no directory {directory}"))
    }

    fn validate(&self, name: &str, _: &Attributes, _: &[&str]) -> Vec<ValidationError> {
        unit::problem(name).map(|problem| ValidationError::with("name", problem)).into_iter().collect()
    }

    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        match query {
            Query::All => self.list(cx),
            Query::Named(wanted) => self.named(cx, wanted),
        }
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        let change = |change: &Change<'_>| match mode {
            Mode::Preview => preview(cx, change, impossible_without_unit(change)),
            Mode::Apply => self.change(cx, change).map_or_else(Outcome::failed, |()| Outcome::done()),
        };
        changes.iter().map(|each| redacted_outcome(each, change(each))).collect()
    }

    fn insync(&self, _: &Context<'_>, attribute: &str, is: &State, should: &Attributes) -> Insync {
        match (attribute, should.text("ensure")) {
            ("ensure", Some("stopped")) if !is.exists => Insync::Same,
            _ => enable_insync(attribute, is, should),
        }
    }
}

/// Returns the error of a change of a unit that does not exist.
fn missing_unit(name: &str) -> EcoString {
    eco_format!("there is no unit {name}")
}

/// Returns true if a change needs a unit that does not exist. systemd can mask a unit without a file.
fn impossible_without_unit(change: &Change<'_>) -> bool {
    let declared = |attribute| change.should.and_then(|should| should.text(attribute));
    !change.is.exists
        && (declared("ensure") == Some("running") || matches!(declared("enable"), Some("true" | "static")))
}

/// Previews a change. A missing unit is a failure, or a note if an unordered resource may create the unit first.
fn preview(cx: &Context<'_>, change: &Change<'_>, is_impossible: bool) -> Outcome {
    if !is_impossible {
        return Outcome::done();
    }
    let why = missing_unit(change.name);
    if !cx.preview_context().may_change_before(change.name) {
        return Outcome::failed(why);
    }
    let note = eco_format!("{why}: the change fails unless another resource creates the unit first");
    Outcome { notes: vec![note], ..Outcome::done() }
}

/// Compares `enable` as Puppet's provider for systemd does: `enabled_insync?` of a static or an indirect unit, and
/// `enabled?` of a masked one and of one that does not exist.
fn enable_insync(attribute: &str, is: &State, should: &Attributes) -> Insync {
    if attribute != "enable" {
        return Insync::Default;
    }
    match (is.attributes.text("enable"), should.text("enable")) {
        (None, Some("false")) if !is.exists => Insync::Same,
        (Some("static"), Some("true" | "false")) | (Some("mask"), Some("false")) => Insync::Same,
        _ => Insync::Default,
    }
}

impl Scheduling for ServiceProvider {
    /// Each start waits for its own job.
    fn batch_size(&self) -> Batch {
        Batch::One
    }
}

impl Relations for ServiceProvider {
    fn identities(&self, name: &str, _: &Attributes, say: &mut dyn FnMut(&str)) {
        match name.strip_suffix(".service") {
            Some(short) => say(short),
            None => say(&eco_format!("{name}.service")),
        }
    }
}

impl Refresh for ServiceProvider {
    fn refresh(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Outcome {
        let refreshed = |()| Outcome { refreshed: true, ..Outcome::done() };
        let outcome = self.restart(cx, wanted).map_or_else(Outcome::failed, refreshed);
        match wanted.should {
            Some(should) => Redactor::of(should).outcome(outcome),
            None => outcome,
        }
    }

    fn acts_on_refresh(&self, is: &State, should: &Attributes) -> bool {
        let was_running = is.exists && is.attributes.text("ensure") == Some("running");
        match should.text("ensure") {
            Some("running") => was_running,
            Some(_) => false,
            None => was_running,
        }
    }
}

impl Watch for ServiceProvider {
    /// systemd reports changes of units, and the changes of unit files that it makes itself. Links that other programs
    /// make have no event but that of the directory.
    fn watches(&self, _: &str, _: &Attributes) -> Vec<WatchSource> {
        watch::sources()
    }

    fn watch(&self, cx: &Context<'_>, _: Option<Wanted<'_>>, tell: &dyn WatchSink) -> Result<(), ProviderError> {
        self.follow(cx, tell)
    }
}

#[cfg(test)]
mod tests;
