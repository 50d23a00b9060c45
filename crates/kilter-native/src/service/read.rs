//! Reads units.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::PoisonError;
use std::time::Duration;

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, State};
use kilter_process::Invocation;
use kilter_provider::{Context, ProviderError, Wanted};

use super::bus::BusError;
use super::files::UnitFiles;
use super::systemd::{LoadedUnit, Systemd, UNIT};
use super::{ServiceHost, ServiceProvider, unit};
use crate::tool::{self, RecordedPart};

/// Maximum duration of a program that reads or changes an init script.
const INIT_SCRIPT_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum size of its output in bytes.
const MAX_OUTPUT_BYTES: usize = 64 * 1024;

/// Directory of init scripts.
const INIT_SCRIPTS: &str = "/etc/init.d/";

/// Returns the value of `ensure` of a unit.
pub(super) fn ensure_of(active: &str) -> &'static str {
    match active {
        "active" | "activating" | "reloading" | "refreshing" => "running",
        _ => "stopped",
    }
}

impl ServiceHost {
    /// Converts systemd's state of a unit file to a value of `enable`.
    pub(super) fn enable_of(&self, file: &str, unit: &str) -> &'static str {
        match file {
            "enabled" => "true",
            "enabled-runtime" if self.is_enabled_by_generator(unit) => "true",
            "enabled-runtime" | "disabled" | "linked" | "linked-runtime" => "false",
            "masked" | "masked-runtime" => "mask",
            _ => "static",
        }
    }

    /// Returns true if a generator enables the unit at each boot.
    pub(super) fn is_enabled_by_generator(&self, unit: &str) -> bool {
        let directories = ["generator", "generator.early", "generator.late"].map(|name| self.run.join(name));
        let entries = directories.iter().filter_map(|directory| std::fs::read_dir(directory).ok()).flatten().flatten();
        let is_link = |path: &Path| path.symlink_metadata().is_ok_and(|found| found.is_symlink());
        entries.map(|entry| entry.path()).any(|path| {
            let end = path.extension().and_then(|end| end.to_str());
            matches!(end, Some("wants" | "requires")) && is_link(&path.join(unit))
        })
    }

    fn state(&self, name: &EcoString, unit: &LoadedUnit, file: &str) -> State {
        let mut attributes = Attributes::with_capacity(4);
        attributes.push("name", name.clone());
        attributes.push("ensure", ensure_of(&unit.active));
        attributes.push("enable", self.enable_of(file, &unit.id));
        if !file.is_empty() {
            attributes.push("unit_file", file);
        }
        State::present(name.clone(), attributes)
    }

    /// Runs systemctl for a unit that is an init script. systemd leaves these to a program of the distribution.
    pub(super) fn init_script(&self, cx: &Context<'_>, verb: &str, unit: &str) -> Result<String, EcoString> {
        let systemctl = Invocation::new("systemctl").args([verb, "--", unit]);
        let systemctl = systemctl.captured(MAX_OUTPUT_BYTES).deadline(INIT_SCRIPT_TIMEOUT);
        let output = tool::start(&*self.runner, cx, &systemctl, RecordedPart::Outputs);
        let output = output.map_err(|error| EcoString::from(error.with_sources()))?;
        if verb != "is-enabled" && !output.is_success() {
            let said = crate::tool::ending_of(&output.stderr.text()).unwrap_or_default();
            return Err(eco_format!("systemctl {verb} {unit}: {said}"));
        }
        Ok(output.stdout.text().lines().last().unwrap_or_default().trim().to_owned())
    }

    /// Replaces the states of generated files that represent init scripts.
    fn complete(
        &self,
        cx: &Context<'_>,
        systemd: &mut Systemd<'_>,
        units: &[LoadedUnit],
        files: &mut [String],
    ) -> Result<(), BusError> {
        for (unit, file) in units.iter().zip(files).filter(|(_, file)| *file == "generated") {
            if is_init_script(systemd, &unit.id)?
                && let Ok(state) = self.init_script(cx, "is-enabled", &unit.id)
            {
                *file = state;
            }
        }
        Ok(())
    }
}

/// Returns true if a generated unit represents an init script.
pub(super) fn is_init_script(systemd: &mut Systemd<'_>, unit: &str) -> Result<bool, BusError> {
    Ok(systemd.text(unit, UNIT, "SourcePath")?.starts_with(INIT_SCRIPTS))
}

/// Result of a request for a unit.
enum FoundUnit {
    /// A unit: its index in the list of all found units.
    Unit(usize),
    Missing,
    Unreadable(EcoString),
}

impl ServiceProvider {
    /// Returns the requested units.
    pub(super) fn named(&self, cx: &Context<'_>, wanted: &[Wanted<'_>]) -> Result<Vec<State>, ProviderError> {
        self.ask(cx, |systemd| self.read(cx, systemd, wanted)).map_err(failed)
    }

    fn read(&self, cx: &Context<'_>, systemd: &mut Systemd<'_>, wanted: &[Wanted<'_>]) -> Result<Vec<State>, BusError> {
        let valid = wanted.iter().filter(|wanted| unit::problem(wanted.name).is_none());
        let names: Vec<EcoString> = valid.map(|wanted| unit::unit_of(wanted.name)).collect();
        let mut loaded = systemd.load(&names.iter().map(EcoString::as_str).collect::<Vec<_>>())?.into_iter();
        let (mut found, mut units) = (Vec::with_capacity(wanted.len()), Vec::new());
        for wanted in wanted {
            found.push(match unit::problem(wanted.name) {
                Some(problem) => FoundUnit::Unreadable(problem),
                None => match loaded.next().ok_or(BusError::Malformed("an answer is missing"))? {
                    Ok(unit) if unit.load == "not-found" => FoundUnit::Missing,
                    Ok(unit) => {
                        self.remember(wanted.name, &unit.id);
                        units.push(unit);
                        FoundUnit::Unit(units.len() - 1)
                    }
                    Err(BusError::Refused { message, .. }) => FoundUnit::Unreadable(message.into()),
                    Err(error) => return Err(error),
                },
            });
        }
        let mut files = systemd.file_states(&ids(&units))?;
        self.machine.complete(cx, systemd, &units, &mut files)?;
        let state = |(wanted, found): (&Wanted<'_>, FoundUnit)| match found {
            FoundUnit::Unit(at) => self.machine.state(wanted.name, &units[at], &files[at]),
            FoundUnit::Missing => State { is_unknown: true, ..State::absent(wanted.name.clone()) },
            FoundUnit::Unreadable(why) => State { unreadable: Some(why), ..State::absent(wanted.name.clone()) },
        };
        Ok(wanted.iter().zip(found).map(state).collect())
    }

    /// Remembers the name of a resource that is an alias, because events have the name of the unit.
    fn remember(&self, name: &EcoString, id: &str) {
        if unit::unit_of(name) != id {
            let mut aliases = self.aliases.lock().unwrap_or_else(PoisonError::into_inner);
            aliases.entry(id.to_owned()).or_default().insert(name.clone());
        }
    }

    /// Returns all services: those in memory, and those of which there are only files. systemd would need 0.4 s for the
    /// states of the files, be it in `ListUnitFiles` or unit by unit.
    pub(super) fn list(&self, cx: &Context<'_>) -> Result<Vec<State>, ProviderError> {
        self.ask(cx, |systemd| {
            let mut units: Vec<LoadedUnit> = systemd.units()?;
            units.retain(|unit| unit.id.ends_with(".service") && unit.load != "not-found");
            let files = UnitFiles::read(&systemd.unit_directories()?, &self.machine.links);
            let known: BTreeSet<&str> = units.iter().map(|unit| unit.id.as_str()).collect();
            let new = files.services().filter(|name| !known.contains(name));
            let (told, asked): (Vec<&str>, Vec<&str>) = new.partition(|name| files.state(name).is_some());
            units.extend(told.into_iter().map(|name| LoadedUnit {
                id: name.to_owned(),
                load: "loaded".into(),
                active: "inactive".into(),
            }));
            let loaded = systemd.load(&asked)?.into_iter().flatten();
            units.extend(loaded.filter(|unit| unit.load != "not-found"));
            let mut states = states_of(systemd, &files, &units)?;
            self.machine.complete(cx, systemd, &units, &mut states)?;
            let mut listed: Vec<(LoadedUnit, String)> = units.into_iter().zip(states).collect();
            listed.sort_by(|(one, _), (other, _)| one.id.cmp(&other.id));
            listed.dedup_by(|(one, _), (other, _)| one.id == other.id);
            let state = |(unit, file): &(LoadedUnit, String)| {
                self.machine.state(&unit::listed_name(&unit.id).into(), unit, file)
            };
            Ok(listed.iter().map(state).collect())
        })
        .map_err(failed)
    }
}

/// Returns the states of the files of units. systemd tells only those that are not certain from the files.
fn states_of(systemd: &mut Systemd<'_>, files: &UnitFiles, units: &[LoadedUnit]) -> Result<Vec<String>, BusError> {
    let states: Vec<Option<&str>> = units.iter().map(|unit| files.state(&unit.id)).collect();
    let asked = units.iter().zip(&states).filter(|(_, state)| state.is_none()).map(|(unit, _)| unit.id.as_str());
    let mut told = systemd.file_states(&asked.collect::<Vec<_>>())?.into_iter();
    let state = |state: Option<&str>| state.map_or_else(|| told.next().unwrap_or_default(), str::to_owned);
    Ok(states.into_iter().map(state).collect())
}

fn ids(units: &[LoadedUnit]) -> Vec<&str> {
    units.iter().map(|unit| unit.id.as_str()).collect()
}

fn failed(error: BusError) -> ProviderError {
    ProviderError::new(error.to_string())
}
