//! Changes and refreshes of units.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Change};
use kilter_provider::{Context, Level, Wanted};

use super::bus::BusError;
use super::read::is_init_script;
use super::systemd::{FileChange, SERVICE, Systemd, UNIT};
use super::{ServiceProvider, impossible_without_unit, missing_unit, unit};

/// Number of checks after a start, and the pause between them. For systemd, a `simple` unit counts as started before
/// its program runs, so that such a unit is observed for 0.25 s.
const CHECKS_AFTER_START: usize = 6;
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Values of `ExecMainCode` for a program that a signal has ended, from waitid(2).
const CLD_KILLED: i32 = 2;
const CLD_DUMPED: i32 = 3;

/// Settings with the commands of a unit before and after its program.
const CONTROL_COMMANDS: [&str; 5] = ["ExecCondition", "ExecStartPre", "ExecStartPost", "ExecStop", "ExecStopPost"];

/// Reloads of systemd, which take a tenth of a second and serve all changes that were made before.
#[derive(Default)]
pub(super) struct Reloads {
    requested: AtomicU64,
    /// Number of the last request that a reload has served.
    served: Mutex<u64>,
}

impl Reloads {
    /// Reloads systemd after a change of unit files, unless the reload of another caller has begun after the change.
    fn reload(&self, systemd: &mut Systemd<'_>) -> Result<(), BusError> {
        let request = self.requested.fetch_add(1, Ordering::AcqRel) + 1;
        let mut served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        if *served < request {
            let latest = self.requested.load(Ordering::Acquire);
            systemd.reload()?;
            *served = latest;
        }
        Ok(())
    }
}

/// One change or refresh of a unit.
struct UnitChange<'p, 'c> {
    provider: &'p ServiceProvider,
    cx: &'p Context<'c>,
    systemd: Systemd<'c>,
    /// Name of the resource.
    name: &'p EcoString,
    unit: String,
    /// State in which systemd has loaded the unit, such as `loaded` or `not-found`.
    load: String,
    begun: SystemTime,
}

impl ServiceProvider {
    /// Brings a unit to its declared state.
    pub(super) fn change(&self, cx: &Context<'_>, change: &Change<'_>) -> Result<(), EcoString> {
        let Some(should) = change.should else {
            return Err("a unit cannot be removed: `ensure: stopped` and `enable: mask` keep it from running".into());
        };
        let mut of = self.begin(cx, change.name)?;
        let ensure = should.text("ensure");
        let is_missing = !change.is.exists && of.is_missing()?;
        if is_missing && impossible_without_unit(change) {
            return Err(missing_unit(change.name));
        }
        if ensure == Some("stopped") && !is_missing {
            of.stop()?;
        }
        if let Some(enable) = should.text("enable") {
            match enable {
                "false" if is_missing => {}
                _ => of.enable(enable, ensure)?,
            }
        }
        if ensure == Some("running") {
            of.start("start", "StartUnit")?;
        }
        Ok(())
    }

    /// Restarts a unit, or reloads it if `refresh` is `reload` and the unit supports it. A stopped unit stays stopped.
    /// A failed unit starts, because kilter requests its refresh only if an earlier refresh did not succeed.
    pub(super) fn restart(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Result<(), EcoString> {
        let mut of = self.begin(cx, wanted.name)?;
        let reloads = wanted.should.and_then(|should: &Attributes| should.text("refresh")) == Some("reload");
        let unit = of.unit.clone();
        let active = of.systemd.text(&unit, UNIT, "ActiveState").map_err(text)?;
        match active.as_str() {
            "failed" => of.start("start", "StartUnit"),
            "inactive" | "deactivating" | "maintenance" => Ok(()),
            _ if reloads && of.systemd.boolean(&unit, "CanReload").map_err(text)? => {
                of.start("reload", "ReloadOrTryRestartUnit")
            }
            _ => of.start("restart", "TryRestartUnit"),
        }
    }

    /// Makes systemd read all unit files again, unless it has done so after the start of this call.
    pub(crate) fn reload(&self, cx: &Context<'_>) -> Result<(), EcoString> {
        let mut systemd = Systemd::open(&self.machine.sockets, cx).map_err(text)?;
        self.reloads.reload(&mut systemd).map_err(text)
    }

    /// Returns true for each unit whose files have changed since systemd has read them.
    pub(crate) fn need_reload(&self, cx: &Context<'_>, units: &[EcoString]) -> Result<Vec<bool>, EcoString> {
        let need = |systemd: &mut Systemd<'_>| {
            units.iter().map(|unit| systemd.boolean(unit, "NeedDaemonReload")).collect::<Result<Vec<bool>, _>>()
        };
        self.ask(cx, need).map_err(text)
    }

    fn begin<'p, 'c>(&'p self, cx: &'p Context<'c>, name: &'p EcoString) -> Result<UnitChange<'p, 'c>, EcoString> {
        if let Some(problem) = unit::problem(name) {
            return Err(problem);
        }
        let mut systemd = Systemd::open(&self.machine.sockets, cx).map_err(text)?;
        let mut loaded = systemd.load(&[&unit::unit_of(name)]).map_err(text)?;
        let loaded = loaded.pop().ok_or("systemd did not return the unit")?.map_err(text)?;
        Ok(UnitChange {
            provider: self,
            cx,
            systemd,
            name,
            unit: loaded.id,
            load: loaded.load,
            begun: SystemTime::now(),
        })
    }
}

impl UnitChange<'_, '_> {
    /// Returns true if the unit does not exist, also after systemd has read the unit files again.
    fn is_missing(&mut self) -> Result<bool, EcoString> {
        if self.load != "not-found" {
            return Ok(false);
        }
        self.reload()?;
        let loaded = self.systemd.load(&[&self.unit]).map_err(text)?.pop().ok_or("systemd did not return the unit")?;
        let loaded = loaded.map_err(text)?;
        self.unit = loaded.id;
        Ok(loaded.load == "not-found")
    }

    fn stop(&mut self) -> Result<(), EcoString> {
        let result = self.systemd.job("StopUnit", &self.unit).map_err(text)?;
        match result.as_str() {
            "done" => Ok(()),
            _ => Err(eco_format!("systemd could not stop {}: {}", self.unit, job_problem(&result))),
        }
    }

    /// Enables, disables or masks the unit. Removes a mask first if the unit is to be enabled or to run, because all
    /// other operations fail while it exists.
    fn enable(&mut self, enable: &str, ensure: Option<&str>) -> Result<(), EcoString> {
        let mut file = self.file_state()?;
        if enable != "mask" && (enable != "false" || ensure == Some("running")) {
            let until_boot = file == "masked-runtime";
            if until_boot || file == "masked" {
                self.change_file(FileChange::Unmask { until_boot })?;
                file = self.file_state()?;
            }
        }
        let is = self.provider.machine.enable_of(&file, &self.unit);
        match (enable, is) {
            // systemd cannot enable a static unit. A masked unit does not start at boot.
            ("true" | "false", "static") | ("false", "mask") | ("static", "static") => Ok(()),
            ("true", _) => self.change_file(FileChange::Enable),
            ("false", _) => {
                if file != "disabled" {
                    self.change_file(FileChange::Disable)?;
                }
                let is_generated = self.provider.machine.is_enabled_by_generator(&self.unit);
                if is_generated && self.file_state()? == "enabled-runtime" {
                    return Err(eco_format!("a generator enables {} at each boot: it can only be masked", self.unit));
                }
                Ok(())
            }
            ("mask", _) => self.change_file(FileChange::Mask),
            _ => Err(eco_format!("{} is {file}: it cannot be made static", self.unit)),
        }
    }

    /// Changes the links of the unit, or the links of its init script.
    fn change_file(&mut self, change: FileChange) -> Result<(), EcoString> {
        let verb = match change {
            FileChange::Enable => Some("enable"),
            FileChange::Disable => Some("disable"),
            FileChange::Mask | FileChange::Unmask { .. } => None,
        };
        if let Some(verb) = verb
            && is_init_script(&mut self.systemd, &self.unit).map_err(text)?
        {
            return self.provider.machine.init_script(self.cx, verb, &self.unit).map(drop);
        }
        self.systemd.change_files(&self.unit, change).map_err(text)?;
        self.reload()
    }

    fn file_state(&mut self) -> Result<String, EcoString> {
        let state = self.systemd.file_states(&[&self.unit]).map_err(text)?.pop().unwrap_or_default();
        if state == "generated" && is_init_script(&mut self.systemd, &self.unit).map_err(text)? {
            return self.provider.machine.init_script(self.cx, "is-enabled", &self.unit);
        }
        Ok(state)
    }

    fn reload(&mut self) -> Result<(), EcoString> {
        self.provider.reloads.reload(&mut self.systemd).map_err(text)
    }

    /// Starts, restarts or reloads the unit, and fails if the unit ends at once.
    fn start(&mut self, verb: &str, member: &str) -> Result<(), EcoString> {
        if self.systemd.boolean(&self.unit, "NeedDaemonReload").map_err(text)? {
            self.reload()?;
        }
        let problem = match self.systemd.job(member, &self.unit) {
            Ok(result) if matches!(result.as_str(), "done" | "skipped") => return self.observe(),
            Ok(result) if result == "failed" => self.ending()?,
            Ok(result) => job_problem(&result).into(),
            Err(BusError::Refused { message, .. }) => message.into(),
            Err(error) => return Err(text(error)),
        };
        Err(self.with_lines(eco_format!("systemd could not {verb} {}: {problem}", self.unit)))
    }

    /// Observes a unit that counts as started before its program runs.
    fn observe(&mut self) -> Result<(), EcoString> {
        let service_type = self.systemd.text(&self.unit, SERVICE, "Type").map_err(text)?;
        if !matches!(service_type.as_str(), "simple" | "exec" | "idle") {
            return Ok(());
        }
        for check in 1..=CHECKS_AFTER_START {
            let active = self.systemd.text(&self.unit, UNIT, "ActiveState").map_err(text)?;
            if matches!(active.as_str(), "failed" | "inactive") {
                let ending = self.ending()?;
                return Err(self.with_lines(eco_format!("{} has ended after its start: {ending}", self.unit)));
            }
            if self.systemd.text(&self.unit, UNIT, "SubState").map_err(text)? == "auto-restart" {
                let ending = self.ending()?;
                let unit = &self.unit;
                let why = eco_format!("{unit} has ended after its start, and systemd starts it again: {ending}");
                let why = self.with_lines(why);
                self.cx.log(Level::Warning, "service", self.name, &why);
                return Ok(());
            }
            if check < CHECKS_AFTER_START {
                self.systemd.pause(CHECK_INTERVAL).map_err(text)?;
            }
        }
        Ok(())
    }

    /// Returns the result of the process of the unit that failed.
    fn ending(&mut self) -> Result<EcoString, EcoString> {
        if self.unit.ends_with(".service") {
            let result = self.systemd.text(&self.unit, SERVICE, "Result").map_err(text)?;
            let status = self.systemd.number(&self.unit, SERVICE, "ExecMainStatus").map_err(text)?;
            let code = self.systemd.number(&self.unit, SERVICE, "ExecMainCode").map_err(text)?;
            let kind = |code| if matches!(code, CLD_KILLED | CLD_DUMPED) { "signal" } else { "status" };
            if status != 0 || result == "success" {
                let how = if result == "success" { "its program ended without an error" } else { &result };
                return Ok(eco_format!("{how} ({} {status})", kind(code)));
            }
            for setting in CONTROL_COMMANDS {
                if let Some(failed) = self.systemd.failed_command(&self.unit, setting).map_err(text)? {
                    let (path, kind, status) = (failed.path, kind(failed.code), failed.status);
                    return Ok(eco_format!("{result} ({setting} {path}, {kind} {status})"));
                }
            }
            return Ok(result.into());
        }
        Ok(job_problem("failed").into())
    }

    fn with_lines(&mut self, why: EcoString) -> EcoString {
        let lines = self.provider.machine.last_lines(self.cx, &mut self.systemd, &self.unit, self.begun);
        why + lines.as_str()
    }
}

/// Returns the reason for which a job with this result has failed.
fn job_problem(result: &str) -> String {
    match result {
        "failed" => "it failed".into(),
        "timeout" => "it took longer than its own limit".into(),
        "dependency" => "a unit that it depends on failed".into(),
        "canceled" => "another job has replaced this one".into(),
        "assert" => "an assertion of the unit (Assert…=) does not hold".into(),
        "unsupported" => "this machine does not support units of its type".into(),
        other => format!("the result of the job is `{other}`"),
    }
}

fn text(error: BusError) -> EcoString {
    error.to_string().into()
}
