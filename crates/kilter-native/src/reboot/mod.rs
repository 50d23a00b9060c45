//! The type `reboot`: reboots of the machine that other resources ask for.

mod record;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Behaviour, Change, Difference, Feature, Outcome, State, TypeSchema, Value};
use kilter_process::Invocation;
use kilter_provider::{
    Batch, Context, Found, Mode, Predict, Provider, ProviderError, Purpose, Query, ReadOne, Redactor, Refresh,
    Scheduling, Scope, Session, SideEffects, Suitability, Wanted, Watch, WatchSource, get_each, redacted_outcome,
};
use rustc_hash::FxHashMap;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::accounts::System;
use crate::builtin::present;
use crate::tool;
use record::{RebootProgress, RebootRecord};

/// Unit that reboots the machine. A second one cannot be started.
const UNIT: &str = "kilter-reboot";
/// File of that unit while it waits.
const UNIT_FILE: &str = "run/systemd/transient/kilter-reboot.timer";
/// Files by which packages of Debian ask for a reboot.
const PENDING: &str = "run/reboot-required";
const PENDING_PACKAGES: &str = "run/reboot-required.pkgs";
/// Maximum number of bytes that are read of these files.
const MAX_BYTES: u64 = 16 * 1024;

/// Maximum duration of a program.
const DEADLINE: Duration = Duration::from_secs(60);
/// Maximum time between the reboot and its effect on kilter.
const SHUTDOWN: Duration = Duration::from_secs(600);
/// Interval of the check that the run is about to end.
const INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 250_000_000 };

const DESC: &str = "\
Reboots the machine when another resource asks for it.

```yaml
resources:
  package[linux-image-amd64]:
    latest: true
    notify: reboot[new kernel]
  reboot[new kernel]:
    timeout: 120
  service[nginx]:
    ensure: running
    require: reboot[new kernel]
```

A refresh requests the reboot: `notify` or `subscribe`. systemd reboots after `timeout` seconds, and all users get \
a message before. `systemctl stop kilter-reboot.timer` cancels it: a resource that waits for the reboot fails, and \
requests it again in the next run.

With `apply: immediately`, kilter waits for the reboot: resources that require it are not changed before, but \
independent ones are. With `apply: finished`, kilter completes the run first.

The machine is rebooted at most once per boot for each resource. kilter records the request in the state directory. \
After the reboot, the next run, such as that of the [service](../../guides/service.md), counts the refresh as done \
and continues. If the run was killed before it had asked for the reboot, the next one does so.

The type needs a running systemd, as in a booted container. `kilter plan` shows the reboot and never asks for it. \
The attribute `when: pending` of Puppet's module is `pending: true` here, because `when` is a condition of every \
resource.";

fn schema() -> TypeSchema {
    TypeSchema::new("reboot", DESC)
        .attribute("name", "String[1]", Behaviour::Namevar, "Name of the resource: the reason for the reboot.")
        .attribute(
            "apply",
            "Enum[immediately, finished]",
            Behaviour::Parameter,
            "`immediately`: resources that require it wait for the reboot. `finished`: it follows the run.",
        )
        .default("immediately")
        .attribute(
            "pending",
            "Boolean",
            Behaviour::Parameter,
            "True to reboot also if a package asks for it by `/run/reboot-required`.",
        )
        .default(Value::Boolean(false))
        .attribute(
            "timeout",
            "Integer[1, 86400]",
            Behaviour::Parameter,
            "Seconds between the request and the reboot: `60`.",
        )
        .default(60)
        .attribute("message", "String[1]", Behaviour::Parameter, "Text for the users that are logged in.")
        .default("kilter reboots this machine")
        .features(&[Feature::Refresh, Feature::SimpleGetFilter, Feature::SupportsNoop])
}

/// Provides the type `reboot` through systemd.
pub struct RebootProvider {
    system: System,
    reboots: Mutex<FxHashMap<EcoString, RebootStage>>,
}

/// Stage of the reboot of a resource in a run.
#[derive(Clone, Debug)]
enum RebootStage {
    /// It happened before the run, which has not counted the refresh yet.
    Past,
    /// It follows at the end of the run.
    AtEnd { timeout: i64, message: EcoString },
    /// systemd has been asked.
    Requested,
}

impl RebootProvider {
    /// Creates a provider for a system.
    pub fn new(system: System) -> RebootProvider {
        RebootProvider { system, reboots: Mutex::default() }
    }

    fn reboots(&self) -> MutexGuard<'_, FxHashMap<EcoString, RebootStage>> {
        self.reboots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn text(&self, path: &str) -> Option<String> {
        use std::io::Read as _;
        let mut text = String::new();
        let file = std::fs::File::open(self.system.root().join(path)).ok()?;
        file.take(MAX_BYTES).read_to_string(&mut text).ok()?;
        Some(text)
    }

    /// Returns the id of the current boot.
    fn boot(&self) -> Result<EcoString, EcoString> {
        let id = self.text("proc/sys/kernel/random/boot_id").ok_or("the kernel does not report the id of this boot")?;
        Ok(id.trim().into())
    }

    /// Returns true while systemd waits for the time of the reboot.
    fn is_under_way(&self) -> bool {
        self.system.root().join(UNIT_FILE).exists()
    }

    /// Returns the packages that ask for a reboot; none if no package does. A file from before the boot does not count:
    /// not every system removes it.
    fn pending(&self) -> Option<Vec<EcoString>> {
        let written = std::fs::metadata(self.system.root().join(PENDING)).ok()?.modified().ok()?;
        let uptime = u64::try_from(rustix::system::sysinfo().uptime).unwrap_or_default();
        let is_old = SystemTime::now().duration_since(written).is_ok_and(|age| age.as_secs() > uptime + 1);
        let mut packages: Vec<EcoString> =
            self.text(PENDING_PACKAGES).unwrap_or_default().split_ascii_whitespace().map(EcoString::from).collect();
        packages.sort_unstable();
        packages.dedup();
        (!is_old).then_some(packages)
    }

    fn state(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Result<State, EcoString> {
        let mut state = present(wanted.name);
        let Some(should) = wanted.should else { return Ok(state) };
        let mut differs = |why: EcoString| {
            state.drift.push(Difference::new("pending", Value::Undef, Value::Undef).saying(why));
        };
        let reboot = self.reboots().get(wanted.name).cloned();
        match RebootRecord::read(cx, wanted.name)? {
            Some(record) if record.boot == self.boot()? => match record.progress {
                RebootProgress::Due if reboot.is_none() => {
                    differs("an earlier run ended before it asked for the reboot".into())
                }
                RebootProgress::Due => {}
                // The resources that require it come after the boot.
                RebootProgress::Requested | RebootProgress::Settled if is_immediate(should) && self.is_under_way() => {
                    differs("the reboot has been requested".into());
                }
                RebootProgress::Requested | RebootProgress::Settled => {}
            },
            Some(record) if record.progress != RebootProgress::Settled => {
                state.attributes.push("rebooted", wanted.refresh)
            }
            _ => {
                if let Some(RebootStage::Past) = reboot {
                    state.attributes.push("rebooted", wanted.refresh);
                    // A later refresh has another cause.
                    self.reboots().remove(wanted.name);
                }
                if should.get_bool("pending") == Some(true)
                    && let Some(packages) = self.pending()
                {
                    differs(match packages.is_empty() {
                        true => "a package asks for a reboot".into(),
                        false => eco_format!("for {}", packages.join(", ")),
                    });
                }
            }
        }
        Ok(state)
    }

    /// Requests a reboot, unless that has happened in this boot. Waits for it, or leaves it to the end of the run.
    fn reboot(&self, cx: &Context<'_>, name: &EcoString, should: &Attributes) -> Result<Vec<EcoString>, EcoString> {
        self.check()?;
        let boot = self.boot()?;
        let record = RebootRecord::read(cx, name)?.filter(|record| record.boot == boot);
        let progress = record.map(|record| record.progress);
        let is_under_way = self.is_under_way();
        let timeout = should.get("timeout").and_then(Value::as_integer).unwrap_or(60);
        let message = EcoString::from(should.text("message").unwrap_or_default());
        let is_requested = match progress {
            Some(RebootProgress::Settled) => true,
            // Without a countdown, a user has cancelled the reboot of a run that was killed.
            Some(RebootProgress::Requested) => is_under_way || !is_immediate(should),
            Some(RebootProgress::Due) | None => false,
        };
        if is_requested && !(is_immediate(should) && is_under_way) {
            return Ok(vec!["a reboot has been requested in this boot already".into()]);
        }
        if !is_immediate(should) {
            RebootRecord { boot, progress: RebootProgress::Due }.write(cx, name)?;
            self.reboots().insert(name.clone(), RebootStage::AtEnd { timeout, message });
            return Ok(vec![eco_format!("the machine reboots {timeout} s after the end of this run")]);
        }
        let start = Instant::now();
        if !is_requested {
            RebootRecord { boot, progress: RebootProgress::Requested }.write(cx, name)?;
            self.reboots().insert(name.clone(), RebootStage::Requested);
            if let Err(why) = self.request(cx, timeout, &message) {
                self.reboots().remove(name);
                RebootRecord::remove(cx, name)?;
                return Err(why);
            }
        }
        cx.log(kilter_provider::Level::Notice, "reboot", name, &format!("waits for the reboot in {timeout} s"));
        let countdown = Duration::from_secs(timeout.unsigned_abs());
        let is_cancelled = || !is_requested && start.elapsed() < countdown && !self.is_under_way();
        if wait(cx, countdown + SHUTDOWN, &is_cancelled)? {
            self.reboots().remove(name);
            RebootRecord::remove(cx, name)?;
            return Err(eco_format!("the reboot was cancelled: {UNIT}.timer was stopped"));
        }
        Ok(Vec::new())
    }

    /// Asks systemd to reboot the machine.
    fn request(&self, cx: &Context<'_>, timeout: i64, message: &str) -> Result<(), EcoString> {
        let timer = Invocation::new("systemd-run").args([
            "--quiet".to_owned(),
            "--collect".to_owned(),
            format!("--unit={UNIT}"),
            format!("--on-active={timeout}s"),
            "--timer-property=AccuracySec=1s".to_owned(),
            "systemctl".to_owned(),
            "reboot".to_owned(),
        ]);
        let started = tool::run(self.system.runner(), cx, timer, DEADLINE);
        // Another resource may have asked before.
        if !self.is_under_way() {
            started?;
        }
        let text = format!("{message}: in {timeout} s (systemctl stop {UNIT}.timer cancels it)");
        let _ = tool::run(self.system.runner(), cx, Invocation::new("wall").arg(text), DEADLINE);
        Ok(())
    }

    /// # Errors
    /// If nothing can reboot the machine.
    fn check(&self) -> Result<(), EcoString> {
        match self.system.root().join("run/systemd/system").is_dir() {
            true => Ok(()),
            false => {
                Err("systemd does not run here, as in a container without init: nothing can reboot the machine".into())
            }
        }
    }
}

fn is_immediate(should: &Attributes) -> bool {
    should.text("apply") == Some("immediately")
}

/// Waits until the run is about to end, because the machine shuts down. Returns true if the reboot is cancelled before.
///
/// # Errors
/// If neither happens.
fn wait(cx: &Context<'_>, limit: Duration, is_cancelled: &dyn Fn() -> bool) -> Result<bool, EcoString> {
    let start = Instant::now();
    let interrupt = cx.interrupt();
    while !cx.is_stopping() && !interrupt.is_raised() {
        if start.elapsed() >= limit {
            return Err(eco_format!("the machine has not rebooted within {} s", limit.as_secs()));
        }
        if is_cancelled() {
            return Ok(true);
        }
        let mut polled: Vec<PollFd<'_>> =
            interrupt.fd().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).into_iter().collect();
        let _ = poll(&mut polled, Some(&INTERVAL));
    }
    Ok(false)
}

impl Provider for RebootProvider {
    crate::builtin::describe!("reboot", "systemd", schema, [read_one, session, scheduling, refresh, predict, watch]);

    fn suitable(&self) -> Suitability {
        self.check().map_or_else(Suitability::Unsuitable, |()| Suitability::Suitable)
    }

    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        get_each(self, cx, query, || Ok(Vec::new()))
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        let one = |change: &Change<'_>| {
            let done = match (mode, change.should) {
                (Mode::Preview, _) => self.check().map(|()| Vec::new()),
                // Without a reason, there is no reboot.
                (Mode::Apply, Some(_)) if change.differences.is_empty() && !change.refresh => Ok(Vec::new()),
                (Mode::Apply, Some(should)) => self.reboot(cx, change.name, should),
                (Mode::Apply, None) => Err("a reboot cannot be taken back".into()),
            };
            let refreshed = change.refresh;
            let outcome = done.map_or_else(Outcome::failed, |notes| Outcome { refreshed, notes, ..Outcome::done() });
            redacted_outcome(change, outcome)
        };
        changes.iter().map(one).collect()
    }
}

impl ReadOne for RebootProvider {
    fn get_one(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Result<State, ProviderError> {
        self.state(cx, wanted).map_err(ProviderError::new)
    }
}

impl Session for RebootProvider {
    /// Finds the reboots that earlier runs asked for and that have happened.
    fn open(&self, cx: &Context<'_>) -> Result<(), ProviderError> {
        let mut reboots = self.reboots();
        reboots.clear();
        if cx.is_noop() {
            return Ok(());
        }
        let boot = self.boot().map_err(ProviderError::new)?;
        for name in RebootRecord::names(cx).map_err(ProviderError::new)? {
            let Some(record) = RebootRecord::read(cx, &name).map_err(ProviderError::new)? else { continue };
            if record.boot == boot {
                continue;
            }
            RebootRecord::remove(cx, &name).map_err(ProviderError::new)?;
            if record.progress != RebootProgress::Settled {
                reboots.insert(name, RebootStage::Past);
            }
        }
        Ok(())
    }

    /// Requests the reboots at the end of the run. Its refreshes are recorded as done before.
    fn flush(&self, cx: &Context<'_>) -> Result<(), ProviderError> {
        let reboots: Vec<(EcoString, RebootStage)> =
            self.reboots().iter().map(|(name, reboot)| (name.clone(), reboot.clone())).collect();
        let boot = self.boot().map_err(ProviderError::new)?;
        for (name, reboot) in reboots {
            match reboot {
                RebootStage::Past => continue,
                RebootStage::AtEnd { timeout, message } => {
                    self.request(cx, timeout, &message).map_err(|why| {
                        ProviderError::new(eco_format!("reboot[{name}]: the reboot was not requested: {why}"))
                    })?;
                    self.reboots().insert(name.clone(), RebootStage::Requested);
                }
                RebootStage::Requested => {}
            }
            let record = RebootRecord { boot: boot.clone(), progress: RebootProgress::Settled };
            record.write(cx, &name).map_err(ProviderError::new)?;
        }
        Ok(())
    }
}

impl Scheduling for RebootProvider {
    fn batch_size(&self) -> Batch {
        Batch::One
    }
}

impl Refresh for RebootProvider {
    fn refresh(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Outcome {
        let none = Attributes::new();
        let should = wanted.should.unwrap_or(&none);
        let done = self.reboot(cx, wanted.name, should);
        let outcome = done.map_or_else(Outcome::failed, |notes| Outcome { refreshed: true, notes, ..Outcome::done() });
        Redactor::of(should).outcome(outcome)
    }

    /// Returns false for a refresh whose reboot has happened: the run that asked for it could not record that.
    fn acts_on_refresh(&self, is: &State, _: &Attributes) -> bool {
        is.attributes.get_bool("rebooted") != Some(true)
    }
}

impl Predict for RebootProvider {
    /// Returns a constant. A reboot is the same step for any reason.
    fn basis(&self, _: &Context<'_>, _: Wanted<'_>, _: &Found) -> Option<Value> {
        Some("due".into())
    }

    fn side_effects(&self, _: &Attributes) -> SideEffects {
        SideEffects::Own
    }
}

impl Watch for RebootProvider {
    fn watches(&self, _: &str, should: &Attributes) -> Vec<WatchSource> {
        let watch = WatchSource::Path { path: self.system.root().join(PENDING), scope: Scope::This };
        if should.get_bool("pending") == Some(true) { vec![watch] } else { Vec::new() }
    }

    fn purpose(&self, _: &Attributes) -> Purpose {
        Purpose::Action
    }
}

#[cfg(test)]
mod tests;
