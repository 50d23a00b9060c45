//! The type `sysctl`: kernel parameters, live and at the next boot.

mod boot;
mod live;
mod parameter;
mod schema;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Change, Outcome, State, Value};
use kilter_provider::{
    AutoEdge, Context, Declaration, Direction, Effect, Footprint, Insync, Level, Match, Mode, POLL, PathState,
    Placement, Predict, Provider, ProviderError, Query, Redactor, Relations, Revert, RevertTo, Scheduling, Scope,
    SideEffects, ValidationError, Wanted, Watch, WatchSource, redacted_outcome,
};

use crate::file::atomic_rewrite::{self, AtomicRewrite, RewriteError};
use crate::line_table::LineEntry;
use crate::value_text::sealed_like;
use boot::{BootValue, BootValues};
use live::LiveValue;
use parameter::Parameter;
use schema::schema;

/// Directory of the file.
const DIRECTORY: &str = "etc/sysctl.d";
/// Name of the file. The system reads it after files whose names begin with numbers, such as those of distributions.
const NAME: &str = "zz-kilter.conf";
const FILE: &str = "/etc/sysctl.d/zz-kilter.conf";
/// Directories of sysctl.d(5) with files that the system reads in the order of their names.
const DIRECTORIES: [&str; 4] = [DIRECTORY, "run/sysctl.d", "usr/local/lib/sysctl.d", "usr/lib/sysctl.d"];
/// File that some systems read last.
const LAST: &str = "etc/sysctl.conf";

/// Provides the type `sysctl`.
pub struct SysctlProvider {
    root: PathBuf,
    /// Held from the read of the file to its write.
    turn: Mutex<()>,
}

impl Default for SysctlProvider {
    fn default() -> SysctlProvider {
        SysctlProvider::new("/")
    }
}

/// Values that a change sets.
struct PlannedValues {
    parameter: Parameter,
    live: Option<EcoString>,
    boot: BootChange,
}

/// Change of a value for the next boot.
enum BootChange {
    Keep,
    Set(EcoString),
    Remove,
}

impl PlannedValues {
    /// # Errors
    /// If the name or a value is invalid. Values from other resources have not been validated before.
    fn of(change: &Change<'_>) -> Result<PlannedValues, EcoString> {
        let parameter = Parameter::parse(change.name).ok_or_else(|| not_a_name(change.name))?;
        let Some(should) = change.should else {
            return Ok(PlannedValues { parameter, live: None, boot: BootChange::Remove });
        };
        if let Some(problem) = problems(should).into_iter().next() {
            return Err(problem.to_string().into());
        }
        if is_absent(should) {
            let live = should.get("live").and_then(parameter::declared);
            return Ok(PlannedValues { parameter, live, boot: BootChange::Remove });
        }
        let (live, kept) = (wanted(should, "live"), wanted(should, "kept"));
        let is_kept = || change.is.attributes.get_bool("exists") == Some(true);
        let boot = match kept {
            Some(kept) => BootChange::Set(kept),
            None if should.get_bool("exists") == Some(true) && !is_kept() => {
                return Err("`exists: true` needs `value` or `kept`: the file has no value yet".into());
            }
            None => BootChange::Keep,
        };
        Ok(PlannedValues { parameter, live, boot })
    }
}

/// Returns the declared value of `live` or `kept`, or else that of `value`, which stands for both.
fn wanted(should: &Attributes, attribute: &str) -> Option<EcoString> {
    let given = |name: &str| should.get(name).filter(|value| !value.is_undef());
    given(attribute).or_else(|| given("value")).and_then(parameter::declared)
}

fn is_absent(should: &Attributes) -> bool {
    should.get_bool("exists") == Some(false)
}

fn not_a_name(name: &str) -> EcoString {
    eco_format!("`{name}` is not the name of a kernel parameter, such as net.ipv4.ip_forward")
}

fn problems(should: &Attributes) -> Vec<ValidationError> {
    let mut found = Vec::new();
    for attribute in ["value", "live", "kept"] {
        let value = should.get(attribute).filter(|value| !value.is_undef());
        if value.is_some_and(|value| parameter::declared(value).is_none()) {
            found.push(ValidationError::with(attribute, "a value is one line of text, without control characters"));
        }
    }
    let text = |attribute: &str| should.get(attribute).and_then(parameter::declared);
    for attribute in ["live", "kept"] {
        if let (Some(both), Some(one)) = (text("value"), text(attribute))
            && !parameter::is_same(&both, &one)
        {
            let message = eco_format!("`value` and `{attribute}` say different things");
            found.push(ValidationError::with(attribute, message).hint("remove one of them: `value` stands for both"));
        }
    }
    found
}

impl SysctlProvider {
    /// Creates a provider for the files below `root`.
    pub fn new(root: impl Into<PathBuf>) -> SysctlProvider {
        SysctlProvider { root: root.into(), turn: Mutex::new(()) }
    }

    fn path(&self) -> String {
        self.root.join(DIRECTORY).join(NAME).to_string_lossy().into_owned()
    }

    fn boot_values(&self) -> Result<BootValues, EcoString> {
        let bytes = atomic_rewrite::read(&self.path()).map_err(|error| eco_format!("{error}"))?;
        Ok(BootValues::parse(&bytes.unwrap_or_default()))
    }

    fn state(
        &self,
        name: &EcoString,
        should: Option<&Attributes>,
        boot: Result<&BootValues, &EcoString>,
    ) -> Result<State, EcoString> {
        let parameter = Parameter::parse(name).ok_or_else(|| not_a_name(name))?;
        let kept = boot.map_err(Clone::clone)?.find(parameter.dotted());
        let live = match live::read(&self.root, &parameter) {
            // A line about a directory of parameters can be removed.
            Err(_) if kept.is_some() || should.is_some_and(is_absent) => LiveValue::Hidden,
            live => live?,
        };
        let mut attributes = Attributes::with_capacity(4);
        attributes.push("exists", kept.is_some());
        if let (Some(live), Some(kept)) = (live.text(), kept)
            && parameter::is_same(live, &kept.value)
        {
            attributes.push("value", live.clone());
        }
        if let Some(live) = live.text() {
            attributes.push("live", live.clone());
        }
        if let Some(kept) = kept {
            attributes.push("kept", kept.value.clone());
        }
        Ok(State { name: name.clone(), exists: kept.is_some(), attributes, ..State::default() })
    }

    /// Sets the live value if it differs.
    fn set_live(&self, planned: &PlannedValues) -> Result<(), EcoString> {
        let Some(wanted) = &planned.live else { return Ok(()) };
        match live::read(&self.root, &planned.parameter)? {
            LiveValue::Missing => Err(live::missing(&planned.parameter)),
            LiveValue::Text(found) if parameter::is_same(&found, wanted) => Ok(()),
            _ => live::write(&self.root, &planned.parameter, wanted),
        }
    }

    /// Changes the file once for all values.
    fn rewrite(&self, cx: &Context<'_>, all: &[&PlannedValues]) -> Result<Vec<String>, RewriteError> {
        let path = self.path();
        let file = match AtomicRewrite::open(&path) {
            Err(error) if error.is_missing() => {
                if !all.iter().any(|planned| matches!(planned.boot, BootChange::Set(_))) {
                    return Ok(Vec::new());
                }
                atomic_rewrite::open_in_new_directory(&path)?
            }
            file => file?,
        };
        let mut values = BootValues::parse(file.bytes());
        for planned in all {
            let name = planned.parameter.dotted();
            match &planned.boot {
                BootChange::Set(value) => values.put(BootValue { name: name.clone(), value: value.clone() }),
                BootChange::Remove => values.remove(name),
                BootChange::Keep => {}
            }
        }
        let bytes = values.bytes();
        if bytes == file.bytes() {
            return Ok(Vec::new());
        }
        match bytes.is_empty() {
            true => file.remove(cx).map(|()| Vec::new()).map_err(Into::into),
            false => Ok(file.replace(&bytes, 0o644, cx)?),
        }
    }

    /// Warns about files that the system reads later and that have another value.
    fn warn_of_later(&self, cx: &Context<'_>, name: &str, parameter: &Parameter, value: &str) {
        let beside = DIRECTORIES.iter().filter_map(|directory| std::fs::read_dir(self.root.join(directory)).ok());
        let names = beside.flatten().filter_map(Result::ok);
        let is_later = |path: &PathBuf| {
            let is_conf = path.extension().is_some_and(|extension| extension == "conf");
            is_conf && path.file_name().is_some_and(|name| name > NAME)
        };
        let mut files: Vec<PathBuf> = names.map(|entry| entry.path()).filter(is_later).collect();
        files.sort_unstable();
        files.push(self.root.join(LAST));
        for path in files {
            let shown = Path::new("/").join(path.strip_prefix(&self.root).unwrap_or(&path));
            let Ok(Some(bytes)) = atomic_rewrite::read(&path.to_string_lossy()) else { continue };
            if let Some(message) = boot::overridden(&shown.to_string_lossy(), &bytes, parameter.dotted(), value) {
                cx.log(Level::Warning, "sysctl", name, &message);
            }
        }
    }

    /// Fails if the values are invalid, or if the kernel lacks the parameter and no earlier resource may bring it.
    fn preview(&self, cx: &Context<'_>, change: &Change<'_>) -> Result<(), EcoString> {
        let planned = PlannedValues::of(change)?;
        let is_live = planned.live.is_some() && !cx.preview_context().may_change_before(change.name);
        match is_live && live::read(&self.root, &planned.parameter)? == LiveValue::Missing {
            true => Err(live::missing(&planned.parameter)),
            false => Ok(()),
        }
    }
}

impl Provider for SysctlProvider {
    crate::builtin::describe!("sysctl", "sysctl", schema, [scheduling, relations, predict, watch, revert]);

    fn get(&self, _: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        let boot = self.boot_values();
        match query {
            Query::All => {
                let values = boot.map_err(ProviderError::new)?;
                let mut names: Vec<EcoString> = values.entries().iter().map(|entry| entry.name().clone()).collect();
                names.sort_unstable();
                let state = |name: &EcoString| self.state(name, None, Ok(&values)).map_err(ProviderError::new);
                names.iter().map(state).collect()
            }
            Query::Named(wanted) => {
                let unreadable = |name: &EcoString, why| State { unreadable: Some(why), ..State::absent(name.clone()) };
                let state = |one: &Wanted<'_>| {
                    let state = self.state(one.name, one.should, boot.as_ref());
                    state.unwrap_or_else(|why| unreadable(one.name, why))
                };
                Ok(wanted.iter().map(state).collect())
            }
        }
    }

    fn canonicalize(&self, _: &Context<'_>, resources: &mut [Declaration<'_>]) -> Vec<Vec<ValidationError>> {
        for Declaration { should, .. } in resources.iter_mut() {
            if let Some(parameter) = should.text("name").and_then(Parameter::parse) {
                should.set("name", parameter.dotted().clone());
            }
        }
        vec![Vec::new(); resources.len()]
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        if mode == Mode::Preview {
            return crate::builtin::previews(changes, |change| self.preview(cx, change));
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let set = |change: &Change<'_>| {
            let planned = PlannedValues::of(change)?;
            // A value that the kernel refuses is not kept for the next boot.
            self.set_live(&planned).map(|()| planned)
        };
        let set: Vec<Result<PlannedValues, EcoString>> = changes.iter().map(set).collect();
        let kept: Vec<&PlannedValues> = set.iter().filter_map(|one| one.as_ref().ok()).collect();
        let kept = atomic_rewrite::rewritten(|| self.rewrite(cx, &kept));
        let mut lost = kept.as_ref().ok().filter(|lost| !lost.is_empty());
        let outcome = |(planned, change): (&Result<PlannedValues, EcoString>, &Change<'_>)| {
            let outcome = match (planned, &kept) {
                (Err(why), _) => Outcome::failed(why.clone()),
                (Ok(planned), Err(why)) if !matches!(planned.boot, BootChange::Keep) => Outcome::failed(why.clone()),
                (Ok(planned), _) => {
                    if let BootChange::Set(value) = &planned.boot {
                        self.warn_of_later(cx, change.name, &planned.parameter, value);
                    }
                    let notes = lost.take().map(|lost| eco_format!("{FILE}: could not keep {}", lost.join(", ")));
                    Outcome { notes: notes.into_iter().collect(), ..Outcome::done() }
                }
            };
            redacted_outcome(change, outcome)
        };
        set.iter().zip(changes).map(outcome).collect()
    }

    fn validate(&self, name: &str, should: &Attributes, _: &[&str]) -> Vec<ValidationError> {
        let mut found = problems(should);
        if Parameter::parse(name).is_none() {
            let problem = ValidationError::with("name", eco_format!("`{name}` is not the name of a kernel parameter"));
            found.push(problem.hint("write it as in sysctl(8), such as net.ipv4.ip_forward"));
        }
        let seal = Redactor::of(should);
        found.into_iter().map(|problem| seal.problem(problem)).collect()
    }

    fn insync(&self, _: &Context<'_>, attribute: &str, is: &State, should: &Attributes) -> Insync {
        match attribute {
            "exists" | "live" => Insync::Default,
            // If the value for the next boot is to be removed, `value` and `kept` do not matter.
            _ if is_absent(should) => Insync::Same,
            "value" if is.attributes.get("value").is_none() => {
                let found = |attribute: &str| is.attributes.text(attribute).unwrap_or("(none)");
                let wanted = should.get("value").and_then(Value::to_text).unwrap_or_default();
                let (live, kept) = (found("live"), found("kept"));
                Insync::Differs(Some(eco_format!("live {live}, at boot {kept} → {wanted}")))
            }
            _ => Insync::Default,
        }
    }
}

impl Scheduling for SysctlProvider {
    fn placement(&self, _: &Attributes) -> Placement {
        Placement::Inline
    }

    fn set_placement(&self, _: &Attributes) -> Placement {
        Placement::Worker
    }
}

/// Returns true if the declaration manages a live value.
fn is_live(should: &Attributes) -> bool {
    should.get("live").is_some() || !is_absent(should) && should.get("value").is_some()
}

/// Returns true if the declaration manages a value for the next boot.
fn is_kept(should: &Attributes) -> bool {
    ["value", "kept", "exists"].iter().any(|attribute| should.get(attribute).is_some())
}

/// Returns the path of a live value.
fn live_path(name: &str) -> Option<String> {
    Some(format!("/proc/sys/{}", Parameter::parse(name)?.path()))
}

impl Relations for SysctlProvider {
    fn auto_edges(&self, _: &str, should: &Attributes, add: &mut dyn FnMut(AutoEdge<'_>)) {
        if is_kept(should) {
            add(AutoEdge { type_name: "file", name: FILE, by: Match::PathOrAncestor, direction: Direction::Before });
        }
    }
}

impl Predict for SysctlProvider {
    fn side_effects(&self, _: &Attributes) -> SideEffects {
        SideEffects::Own
    }

    fn effects(&self, _: &Context<'_>, change: &Change<'_>) -> Option<Vec<Effect>> {
        let none = Attributes::new();
        let should = change.should.unwrap_or(&none);
        let live = live_path(change.name).filter(|_| is_live(should));
        let file = (is_kept(should) || change.should.is_none()).then(|| FILE.to_owned());
        let unknown = |path: String| Effect::Path { path: path.into(), node: PathState::Unknown };
        Some(live.into_iter().chain(file).map(unknown).collect())
    }

    fn footprint(&self, name: &str, should: &Attributes, say: &mut dyn FnMut(Footprint<'_>)) {
        if is_kept(should) {
            say(Footprint::Writes { path: FILE, is_whole: false });
        }
        if let Some(path) = live_path(name).filter(|_| is_live(should)) {
            say(Footprint::Writes { path: &path, is_whole: false });
        }
    }
}

impl Revert for SysctlProvider {
    fn revert_to(&self) -> RevertTo {
        RevertTo::Values
    }

    /// Restores each value on its own: `value` is read only if both values are equal.
    fn revert_values(&self, should: &Attributes, is: &State, before: &mut Attributes) -> Result<(), EcoString> {
        *before = Attributes::with_capacity(2);
        let old = |attribute: &str| {
            let declared = should.get(attribute).or_else(|| should.get("value"));
            let value = is.attributes.get(attribute)?.clone();
            Some(declared.map_or(value.clone(), |declared| sealed_like(declared, value)))
        };
        if let Some(live) = old("live").filter(|_| is_live(should)) {
            before.push("live", live);
        }
        match old("kept") {
            _ if !is_kept(should) => {}
            Some(kept) => before.push("kept", kept),
            None => before.push("exists", false),
        }
        Ok(())
    }
}

impl Watch for SysctlProvider {
    /// Returns the watches for the file and for writes of the live value. The kernel does not report its own changes.
    fn watches(&self, name: &str, should: &Attributes) -> Vec<WatchSource> {
        let watch = |path: PathBuf| WatchSource::Path { path, scope: Scope::This };
        let file = is_kept(should).then(|| watch(self.path().into()));
        let path = live_path(name).filter(|_| is_live(should));
        let live = path.map(|path| [watch(self.root.join(path.trim_start_matches('/'))), WatchSource::Poll(POLL)]);
        file.into_iter().chain(live.into_iter().flatten()).collect()
    }
}

#[cfg(test)]
mod tests;
