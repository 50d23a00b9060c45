//! The type `systemd_timer`: commands that systemd runs at given times.
//!
//! `unit` has the unit files. The provider of the type `service` enables and starts the timers.

mod schema;
mod unit;

use std::os::unix::fs::PermissionsExt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Change, Difference, Outcome, State, Value};
use kilter_process::{DEFAULT_PATH, Invocation};
use kilter_provider::{
    AutoEdge, Context, Declaration, Direction, Effect, Footprint, Forecast, Match, Mode, PathState, Predict, Provider,
    ProviderError, Query, Redactor, Relations, SideEffects, Suitability, ValidationError, Wanted, Watch, WatchSink,
    WatchSource, redacted_outcome,
};

use crate::ServiceProvider;
use crate::accounts::{Accounts, System, is_numeric, no_user};
use crate::builtin::is_absent;
use crate::exec::split::split;
use crate::file::atomic_rewrite::{self, AtomicRewrite};
use crate::file::lone;
use crate::tool;
use crate::value_text::sealed_like;
use schema::{SPANS, bad_name, problems, schema};
pub(crate) use unit::HEADER;
use unit::TimerUnit;

const DIRECTORY: &str = "/etc/systemd/system";
/// Directories of the units of packages and generators.
const VENDOR: [&str; 4] =
    ["/usr/lib/systemd/system", "/lib/systemd/system", "/usr/local/lib/systemd/system", "/run/systemd/generator"];
/// Program that checks times.
const ANALYZE: &str = "systemd-analyze";

/// Maximum duration of a program.
const DEADLINE: Duration = Duration::from_secs(90);

/// Provides the type `systemd_timer`.
pub struct SystemdTimerProvider {
    system: System,
    /// Has its own connections, because its watch reports other names than that of the services.
    services: ServiceProvider,
    accounts: Accounts,
    /// Held from the read of the files to the start of the timers.
    turn: Mutex<()>,
}

impl SystemdTimerProvider {
    /// Creates a provider for the timers of this machine.
    pub fn new() -> SystemdTimerProvider {
        SystemdTimerProvider::on(System::real(), ServiceProvider::new())
    }

    fn on(system: System, services: ServiceProvider) -> SystemdTimerProvider {
        SystemdTimerProvider { accounts: Accounts::new(system.clone()), system, services, turn: Mutex::new(()) }
    }

    /// Returns the texts of the unit files; none if there are none.
    fn read(&self, name: &str) -> Result<Option<[String; 2]>, EcoString> {
        let text = |path: &str| match atomic_rewrite::read(&self.system.path(path)) {
            Ok(bytes) => Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())),
            Err(error) => Err(eco_format!("{error}")),
        };
        let [timer, service] = paths(name).map(|path| text(&path));
        Ok(match (timer?, service?) {
            (None, None) => None,
            (timer, service) => Some([timer.unwrap_or_default(), service.unwrap_or_default()]),
        })
    }

    fn unit(&self, name: &str) -> Result<Option<TimerUnit>, EcoString> {
        self.read(name)?.map(|[timer, service]| TimerUnit::parse(name, &timer, &service)).transpose()
    }

    /// Returns the state that the unit files describe.
    fn state(&self, name: &EcoString) -> Result<State, EcoString> {
        if let Some(problem) = bad_name(name) {
            return Err(eco_format!("{problem}"));
        }
        let Some([timer, service]) = self.read(name)? else { return Ok(State::absent(name.clone())) };
        let unit = TimerUnit::parse(name, &timer, &service)?;
        let mut state = State::present(name.clone(), unit.attributes(name));
        if (timer, service) != (unit.timer(name), unit.service(name)) {
            state.drift.push(differs("the unit files have other lines"));
        }
        Ok(state)
    }

    /// Returns the states of timers, with the activity of their units.
    fn states(&self, cx: &Context<'_>, names: &[&EcoString]) -> Result<Vec<State>, ProviderError> {
        let state = |name: &&EcoString| {
            let unreadable = |why| State { unreadable: Some(why), ..State::absent((*name).clone()) };
            self.state(name).unwrap_or_else(unreadable)
        };
        let mut states: Vec<State> = names.iter().map(state).collect();
        let mut present: Vec<&mut State> = states.iter_mut().filter(|state| state.exists).collect();
        let units: Vec<EcoString> = present.iter().map(|state| timer_of(&state.name)).collect();
        let wanted: Vec<Wanted<'_>> = units.iter().map(|unit| Wanted::new(unit, None)).collect();
        if wanted.is_empty() {
            return Ok(states);
        }
        let found = self.services.get(cx, Query::Named(&wanted))?;
        let files: Vec<EcoString> =
            present.iter().flat_map(|state| [timer_of(&state.name), service_of(&state.name)]).collect();
        let stale = self.services.need_reload(cx, &files).map_err(ProviderError::new)?;
        for ((state, unit), stale) in present.iter_mut().zip(found).zip(stale.chunks(2)) {
            let is = |attribute: &str, value: &str| unit.attributes.text(attribute) == Some(value);
            if stale.contains(&true) {
                state.drift.push(differs("systemd has not read its unit files again"));
            }
            if !is("enable", "true") {
                state.drift.push(differs("not enabled"));
            }
            if !is("ensure", "running") {
                state.drift.push(differs("not running"));
            }
        }
        Ok(states)
    }

    /// Returns the declared unit.
    ///
    /// # Errors
    /// If an attribute is missing or invalid. Values from other resources have not been validated before.
    fn wanted(&self, cx: &Context<'_>, name: &str, should: &Attributes) -> Result<TimerUnit, EcoString> {
        if let Some(problem) = problems(name, should).into_iter().next() {
            return Err(eco_format!("{problem}"));
        }
        let old = self.unit(name)?;
        let unit = TimerUnit::of(should, old.as_ref());
        if unit.command.is_empty() || !unit.has_times() {
            return Err("a timer needs `command`, and `on_calendar`, `on_boot_sec` or `on_unit_active_sec`".into());
        }
        if old.is_none() {
            self.check_vendor(name)?;
        }
        if old.is_none_or(|old| !unit.has_times_of(&old)) {
            self.analyze(cx, "calendar", "on_calendar", &unit.on_calendar)?;
            for attribute in SPANS {
                let span = should.text(attribute).filter(|span| !span.is_empty()).map(EcoString::from);
                self.analyze(cx, "timespan", attribute, span.as_slice())?;
            }
        }
        Ok(unit)
    }

    /// Checks that the user of a timer exists.
    fn check_user(&self, cx: &Context<'_>, unit: &TimerUnit) -> Result<(), EcoString> {
        let user = unit.user.as_str();
        if user.is_empty() || is_numeric(user) || self.accounts.user(cx, user).map_err(|error| error.message)?.is_some()
        {
            return Ok(());
        }
        Err(no_user(user))
    }

    /// Returns a note about a program that does not exist. A later resource, such as a package, may bring it.
    fn missing_program(&self, unit: &TimerUnit) -> Option<EcoString> {
        let is_program = |path: &String| {
            let found = std::fs::metadata(self.system.path(path));
            found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        };
        let program = unit.command.first().map_or("", EcoString::as_str);
        let exists = program_paths(program).iter().any(is_program);
        (!exists).then(|| eco_format!("there is no program {program}: the command fails until it is installed"))
    }

    /// Fails if the change is certain to fail. Returns the notes of the change.
    fn preview(&self, cx: &Context<'_>, change: &Change<'_>) -> Result<Option<EcoString>, EcoString> {
        let Some(should) = declared(change) else { return Ok(None) };
        let (name, earlier) = (change.name, cx.preview_context());
        let unit = self.wanted(cx, name, should)?;
        if earlier.may_change_before(name) || earlier.bringer(name).is_some() {
            return Ok(None);
        }
        if earlier.account(name, "user", &unit.user) == Forecast::Unchanged {
            self.check_user(cx, &unit)?;
        }
        let program = unit.command.first().map_or("", EcoString::as_str);
        let is_unchanged = |path: &String| matches!(earlier.node(name, path), Forecast::Unchanged);
        Ok(self.missing_program(&unit).filter(|_| program_paths(program).iter().all(is_unchanged)))
    }

    /// Checks that a new timer does not replace a unit of a package.
    fn check_vendor(&self, name: &str) -> Result<(), EcoString> {
        let units = [timer_of(name), service_of(name)];
        let paths = VENDOR.iter().flat_map(|directory| units.iter().map(move |unit| format!("{directory}/{unit}")));
        match paths.map(|path| self.system.path(&path)).find(|path| std::fs::symlink_metadata(path).is_ok()) {
            Some(path) => Err(eco_format!("there is already a unit {path}: choose another name")),
            None => Ok(()),
        }
    }

    /// Checks times of an attribute, if there are any.
    fn analyze(&self, cx: &Context<'_>, verb: &str, attribute: &str, times: &[EcoString]) -> Result<(), EcoString> {
        let is_installed = || kilter_process::which(ANALYZE.as_ref(), DEFAULT_PATH.as_ref()).is_some();
        if times.is_empty() || !is_installed() {
            return Ok(());
        }
        let words = [verb, "--"].into_iter().chain(times.iter().map(EcoString::as_str));
        let checked = tool::run(self.system.runner(), cx, Invocation::new(ANALYZE).args(words), DEADLINE);
        checked.map_err(|why| eco_format!("{attribute}: {why}"))
    }

    /// Writes the files of a timer, or stops it and removes them. Returns the notes of the change.
    fn place(&self, cx: &Context<'_>, change: &Change<'_>) -> Result<Option<EcoString>, EcoString> {
        let name = change.name;
        let Some(should) = declared(change) else {
            if bad_name(name).is_none() && self.unit(name)?.is_some() {
                self.service(cx, name, &[("ensure", "stopped"), ("enable", "false")])?;
                for path in paths(name) {
                    lone::remove(&self.system.path(&path), cx).map_err(|error| eco_format!("{error}"))?;
                }
            }
            return Ok(None);
        };
        let unit = self.wanted(cx, name, should)?;
        self.check_user(cx, &unit)?;
        for (path, text) in paths(name).iter().zip([unit.timer(name), unit.service(name)]) {
            atomic_rewrite::rewritten(|| {
                let file = AtomicRewrite::open(&self.system.path(path))?;
                if !file.exists() || file.bytes() != text.as_bytes() {
                    file.replace(text.as_bytes(), 0o644, cx)?;
                }
                Ok(())
            })?;
        }
        Ok(self.missing_program(&unit))
    }

    /// Brings the unit of a timer to a state.
    fn service(&self, cx: &Context<'_>, name: &str, should: &[(&str, &str)]) -> Result<(), EcoString> {
        let (unit, should) = (timer_of(name), should.iter().copied().collect::<Attributes>());
        let is = State::default();
        let outcomes = self.services.set(cx, &[Change::new(&unit, &is, Some(&should), &[])], Mode::Apply);
        outcomes.into_iter().find_map(|outcome| outcome.failure).map_or(Ok(()), Err)
    }

    fn change(&self, cx: &Context<'_>, changes: &[Change<'_>]) -> Vec<Outcome> {
        let placed: Vec<_> = changes.iter().map(|change| self.place(cx, change)).collect();
        let reloaded = match placed.iter().any(Result::is_ok) {
            true => self.services.reload(cx),
            false => Ok(()),
        };
        let start = |change: &Change<'_>| match declared(change) {
            Some(_) => self.service(cx, change.name, &[("ensure", "running"), ("enable", "true")]),
            None => Ok(()),
        };
        let outcome = |(placed, change): (Result<Option<EcoString>, EcoString>, &Change<'_>)| {
            noted(placed.and_then(|note| reloaded.clone().and_then(|()| start(change)).map(|()| note)))
        };
        placed.into_iter().zip(changes).map(outcome).collect()
    }

    /// Returns the timers that kilter has written.
    fn names(&self) -> Vec<EcoString> {
        let entries = std::fs::read_dir(self.system.path(DIRECTORY)).into_iter().flatten();
        let name = |entry: std::fs::DirEntry| {
            let name = entry.file_name().to_str()?.strip_suffix(".timer").map(EcoString::from)?;
            let is_own = entry.file_type().is_ok_and(|kind| kind.is_file()) && bad_name(&name).is_none();
            (is_own && self.unit(&name).is_ok()).then_some(name)
        };
        let mut names: Vec<EcoString> = entries.filter_map(|entry| name(entry.ok()?)).collect();
        names.sort_unstable();
        names
    }
}

impl Default for SystemdTimerProvider {
    fn default() -> SystemdTimerProvider {
        SystemdTimerProvider::new()
    }
}

fn noted(done: Result<Option<EcoString>, EcoString>) -> Outcome {
    done.map_or_else(Outcome::failed, |note| Outcome { notes: note.into_iter().collect(), ..Outcome::done() })
}

/// Returns the declaration of a timer that exists after a change.
fn declared<'a>(change: &Change<'a>) -> Option<&'a Attributes> {
    change.should.filter(|should| !is_absent(should))
}

fn differs(why: &str) -> Difference {
    Difference::new("ensure", Value::Undef, Value::Undef).saying(why)
}

fn timer_of(name: &str) -> EcoString {
    eco_format!("{name}.timer")
}

fn service_of(name: &str) -> EcoString {
    eco_format!("{name}.service")
}

/// Returns the paths where systemd finds a program.
fn program_paths(program: &str) -> Vec<String> {
    match program.starts_with('/') {
        true => vec![program.to_owned()],
        false => DEFAULT_PATH.split(':').map(|directory| format!("{directory}/{program}")).collect(),
    }
}

/// Returns the paths of the unit files of a timer.
fn paths(name: &str) -> [String; 2] {
    ["timer", "service"].map(|suffix| format!("{DIRECTORY}/{name}.{suffix}"))
}

impl Provider for SystemdTimerProvider {
    crate::builtin::describe!("systemd_timer", "systemd", schema, [relations, predict, watch]);

    fn suitable(&self) -> Suitability {
        self.services.suitable()
    }

    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        match query {
            Query::All => self.states(cx, &self.names().iter().collect::<Vec<_>>()),
            Query::Named(wanted) => self.states(cx, &wanted.iter().map(|one| one.name).collect::<Vec<_>>()),
        }
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let outcomes = match mode {
            Mode::Apply => self.change(cx, changes),
            Mode::Preview => changes.iter().map(|change| noted(self.preview(cx, change))).collect(),
        };
        outcomes.into_iter().zip(changes).map(|(outcome, change)| redacted_outcome(change, outcome)).collect()
    }

    fn validate(&self, name: &str, should: &Attributes, _: &[&str]) -> Vec<ValidationError> {
        let seal = Redactor::of(should);
        problems(name, should).into_iter().map(|problem| seal.problem(problem)).collect()
    }

    fn canonicalize(&self, _: &Context<'_>, resources: &mut [Declaration<'_>]) -> Vec<Vec<ValidationError>> {
        for Declaration { should, .. } in resources.iter_mut() {
            // A sensitive value stays sensitive, although `validate` refuses it.
            let set = |should: &mut Attributes, attribute: &str, words: Vec<EcoString>| {
                let old = should.get(attribute).cloned().unwrap_or_default();
                should.set(attribute, sealed_like(&old, Value::strings(words)));
            };
            if let Some(words) = should.text("command").and_then(|command| split(command).ok()) {
                set(should, "command", words.into_iter().map(EcoString::from).collect());
            }
            if let Some(calendar) = should.text("on_calendar").map(EcoString::from) {
                set(should, "on_calendar", vec![calendar]);
            }
        }
        vec![Vec::new(); resources.len()]
    }
}

impl Relations for SystemdTimerProvider {
    fn auto_edges(&self, name: &str, should: &Attributes, add: &mut dyn FnMut(AutoEdge<'_>)) {
        for path in paths(name) {
            add(AutoEdge { by: Match::PathOrAncestor, ..AutoEdge::require("file", &path) });
        }
        if let Some(program) = should.get("command").map(Value::as_list).and_then(|words| words.first()?.as_str())
            && program.starts_with('/')
        {
            add(AutoEdge { by: Match::PathOrAncestor, ..AutoEdge::require("file", program) });
        }
        if let Some(user) = should.text("user").filter(|user| !user.is_empty()) {
            add(AutoEdge { direction: Direction::BeforeUnlessRemoved, ..AutoEdge::require("user", user) });
        }
    }
}

impl Predict for SystemdTimerProvider {
    fn side_effects(&self, _: &Attributes) -> SideEffects {
        SideEffects::Own
    }

    fn effects(&self, _: &Context<'_>, change: &Change<'_>) -> Option<Vec<Effect>> {
        Some(paths(change.name).map(|path| Effect::Path { path: path.into(), node: PathState::Unknown }).into())
    }

    fn footprint(&self, name: &str, _: &Attributes, say: &mut dyn FnMut(Footprint<'_>)) {
        paths(name).iter().for_each(|path| say(Footprint::Writes { path, is_whole: false }));
    }
}

/// Receives the events of units, and passes on those of timers.
struct TimerSink<'a>(&'a dyn WatchSink);

impl WatchSink for TimerSink<'_> {
    fn watching(&self) {
        self.0.watching();
    }

    fn changed(&self, unit: &str) {
        if let Some(name) = unit.strip_suffix(".timer") {
            self.0.changed(name);
        }
    }

    fn all_changed(&self) {
        self.0.all_changed();
    }
}

impl Watch for SystemdTimerProvider {
    /// Returns the sources of the service: systemd, and the directory of the unit files.
    fn watches(&self, name: &str, should: &Attributes) -> Vec<WatchSource> {
        self.services.watches(name, should)
    }

    fn watch(&self, cx: &Context<'_>, _: Option<Wanted<'_>>, tell: &dyn WatchSink) -> Result<(), ProviderError> {
        self.services.watch(cx, None, &TimerSink(tell))
    }
}

#[cfg(test)]
mod tests;
