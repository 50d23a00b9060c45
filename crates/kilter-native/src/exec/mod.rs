//! The type `exec`.

mod auto_edges;
mod command;
mod command_runner;
mod confined;
mod expected;
mod guard;
mod mtime_snapshot;
mod retry;
mod schema;
mod secrets;
pub(crate) mod split;
mod watch;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ecow::EcoString;
use kilter_model::{Attributes, Change, Difference, Outcome, State, Value};
use kilter_process::Confinement;
use kilter_provider::{
    AutoEdge, Batch, Context, Effect, Footprint, Found, Insync, Mode, OutputDefaults, POLL, PathState, Placement,
    Predict, Provider, ProviderError, Purpose, Query, ReadOne, Redactor, Refresh, Relations, Scheduling, Scope,
    ValidationError, Wanted, Watch, WatchSink, WatchSource, get_each,
};
use rustc_hash::FxHashSet;

use crate::accounts::{Accounts, System};
use crate::builtin::known_before;
use crate::value_text::texts;
use command::{command_of, done_of, option_problem, others_of, refresh_of};
use command_runner::{CommandRunner, account_problems, confinement_of, environment};
use confined::{ConfinedGuards, Naming};
use guard::GuardVerdict;
use mtime_snapshot::MtimeSnapshot;
use secrets::SensitiveTexts;

/// Reason to run a command without a guard.
const EVERY_TIME: &str = "runs every time: it has no `creates`, `unless` or `onlyif`";

/// Provides the type `exec`.
pub struct ExecProvider {
    accounts: Arc<Accounts>,
    /// Resources whose command succeeded and which have not been checked since. The next check verifies the result
    /// of the command. All other checks decide if the command has to run.
    ran: Mutex<FxHashSet<EcoString>>,
    confined: ConfinedGuards,
}

impl ExecProvider {
    /// Creates a provider that looks up users and groups on `system`.
    pub fn new(system: System) -> ExecProvider {
        ExecProvider::sharing(Arc::new(Accounts::new(system)))
    }

    /// Creates a provider that shares accounts with other providers.
    pub(crate) fn sharing(accounts: Arc<Accounts>) -> ExecProvider {
        ExecProvider { accounts, ran: Mutex::default(), confined: ConfinedGuards::default() }
    }

    fn ran(&self) -> MutexGuard<'_, FxHashSet<EcoString>> {
        self.ran.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn launch<'a>(&'a self, cx: &'a Context<'a>, name: &'a str, should: &'a Attributes) -> CommandRunner<'a> {
        CommandRunner { cx, name, should, accounts: &self.accounts, confinement: Confinement::None }
    }

    fn verdict(
        &self,
        cx: &Context<'_>,
        wanted: Wanted<'_>,
        should: &Attributes,
    ) -> Result<GuardVerdict, ProviderError> {
        let name = wanted.name;
        let has_run = self.ran().remove(name);
        let is_trusted = !guard::has_guards(should) || should.get_bool("verify") == Some(false);
        let asks_refresh = wanted.refresh && guard::has_guards(should);
        let is_refreshonly = should.get_bool("refreshonly") == Some(true);
        if is_refreshonly && !asks_refresh || has_run && is_trusted {
            return Ok(GuardVerdict::Settled);
        }
        if !guard::has_guards(should) {
            return Ok(GuardVerdict::Due(EVERY_TIME.into()));
        }
        // A file that was modified while the command ran causes another run next time. The command itself has
        // succeeded.
        // A refresh asks only the other guards.
        match mtime_snapshot::newer(cx, name, should).map_err(ProviderError::new)? {
            GuardVerdict::Due(_) if has_run || is_refreshonly => {}
            GuardVerdict::Settled => {}
            newer => return Ok(newer),
        }
        let launch =
            CommandRunner { confinement: confinement_of(should, wanted.noop), ..self.launch(cx, name, should) };
        Ok(match guard::ask(&launch, Some(Naming { confined: &self.confined, name }))? {
            GuardVerdict::Due(why) if has_run => {
                GuardVerdict::Due(format!("the command succeeded, but its guard still requires it: {why}").into())
            }
            verdict => verdict,
        })
    }

    fn run(&self, cx: &Context<'_>, change: &Change<'_>) -> Outcome {
        let Some(should) = change.should else { return Outcome::failed("a command cannot be removed") };
        let command = match self.sound(change.name, should).and_then(|()| command_of(change.name, should)) {
            Ok(command) => command,
            Err(problem) => return Outcome::failed(problem.to_string()),
        };
        let launch = self.launch(cx, change.name, should);
        let seen = MtimeSnapshot::now(should);
        let mut outcome = retry::run_with_retries(&launch, &command);
        if outcome.is_done() {
            outcome = Self::also_done(&launch, outcome);
        }
        if outcome.is_done() {
            outcome = Self::also_kept(&launch, change.name, seen, outcome);
        }
        if outcome.is_done() && change.refresh {
            outcome = self.also_refreshed(&launch, change.name, outcome);
        }
        if outcome.is_done() {
            self.ran().insert(change.name.clone());
        }
        outcome
    }

    /// Runs the command in `done` after a success. It may still fail.
    fn also_done(launch: &CommandRunner<'_>, outcome: Outcome) -> Outcome {
        let done = match done_of(launch.should) {
            None => return outcome,
            Some(Ok(done)) => retry::run_with_retries(launch, &done),
            Some(Err(problem)) => Outcome::failed(problem.to_string()),
        };
        Outcome { failure: done.failure, notes: [outcome.notes, done.notes].concat(), ..outcome }
    }

    /// Stores the file times of `mtimes` after a success.
    fn also_kept(launch: &CommandRunner<'_>, name: &str, seen: MtimeSnapshot, mut outcome: Outcome) -> Outcome {
        match seen.keep(launch.cx, name, launch.should) {
            Ok(note) => outcome.notes.extend(note.map(|note| SensitiveTexts::of(launch.should).redact(&note))),
            Err(why) => outcome.failure = Some(why),
        }
        outcome
    }

    /// Serves a pending refresh after a run of the command. A separate command for refreshes still has to run.
    fn also_refreshed(&self, launch: &CommandRunner<'_>, name: &str, outcome: Outcome) -> Outcome {
        if launch.should.get("refresh").is_none() {
            return Outcome { refreshed: true, ..outcome };
        }
        let refreshed = refresh_of(name, launch.should).map_or_else(
            |problem| Outcome::failed(problem.to_string()),
            |refresh| retry::run_with_retries(launch, &refresh),
        );
        let notes = [outcome.notes, refreshed.notes].concat();
        let is_done = refreshed.failure.is_none();
        Outcome { failure: refreshed.failure, refreshed: is_done, notes, ..outcome }
    }

    /// Validates the values, because values from other resources have not been validated before.
    fn sound(&self, name: &str, should: &Attributes) -> Result<(), ValidationError> {
        self.validate(name, should, &[]).into_iter().next().map_or(Ok(()), Err)
    }

    fn refreshed(&self, cx: &Context<'_>, name: &EcoString, should: &Attributes) -> Result<Outcome, EcoString> {
        self.sound(name, should).map_err(|problem| problem.to_string())?;
        let launch = self.launch(cx, name, should);
        if guard::has_guards(should)
            && guard::ask(&launch, None).map_err(|error| error.message)? == GuardVerdict::Settled
        {
            let notes = vec!["not run: its guards do not require it".into()];
            return Ok(Outcome { refreshed: true, notes, ..Outcome::done() });
        }
        let command = refresh_of(name, should).map_err(|problem| problem.to_string())?;
        let is_command = should.get("refresh").is_none();
        let seen = is_command.then(|| MtimeSnapshot::now(should));
        let mut outcome = retry::run_with_retries(&launch, &command);
        if is_command && outcome.is_done() {
            outcome = Self::also_done(&launch, outcome);
        }
        if let Some(seen) = seen.filter(|_| outcome.is_done()) {
            outcome = Self::also_kept(&launch, name, seen, outcome);
        }
        if !is_command {
            // Outputs are those of `command` only.
            outcome.outputs = Attributes::new();
        }
        Ok(Outcome { refreshed: outcome.is_done(), ..outcome })
    }
}

impl Provider for ExecProvider {
    crate::builtin::describe!(
        "exec",
        "posix",
        schema::schema,
        [read_one, scheduling, relations, refresh, predict, watch, outputs]
    );

    /// Lists no resources: commands do not exist on the system.
    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        get_each(self, cx, query, || Ok(Vec::new()))
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        let run = |change| match mode {
            Mode::Preview => Outcome::done(),
            Mode::Apply => self.run(cx, change),
        };
        changes.iter().map(run).collect()
    }

    fn validate(&self, name: &str, should: &Attributes, deferred: &[&str]) -> Vec<ValidationError> {
        let mut problems = Vec::new();
        if !deferred.contains(&"shell") {
            let command = (!deferred.contains(&"command")).then(|| command_of(name, should));
            let program = |command: &command::CommandLine| command.argv.first().cloned().unwrap_or_default();
            match command {
                Some(Ok(command))
                    if is_relative(&program(&command)) && should.text("cwd").is_none_or(|cwd| cwd == "/") =>
                {
                    let problem = ValidationError::with("command", "a relative path needs a directory to start from");
                    problems.push(problem.hint("give `cwd`, or an absolute path"));
                }
                Some(Ok(_)) | None => {}
                Some(Err(problem)) => problems.push(problem),
            }
            problems.extend(others_of(should).filter_map(|declared| declared.command().err()));
            problems.extend(["unless", "onlyif"].iter().filter_map(|attribute| option_problem(attribute, should)));
        }
        if should.get("watch").is_some() || deferred.contains(&"watch") {
            // The watch starts before other resources run, and must not run as the wrong user.
            let needed = ["watch", "user", "group", "environment", "path", "umask", "cwd", "shell", "stop_signal"];
            problems.extend(needed.into_iter().filter(|name| deferred.contains(name)).map(needed_to_watch));
        }
        let paths = ["watchfiles", "mtimes"].into_iter().filter(|name| deferred.contains(name));
        problems.extend(paths.map(|name| known_before(name, "these files are watched from the beginning")));
        problems.extend(relative_paths(should));
        problems.extend(account_problems(should));
        for (name, value) in environment(should) {
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                problems.push(ValidationError::with("environment", "an entry has the form NAME=value"));
            }
        }
        let seal = Redactor::of(should);
        problems.into_iter().map(|problem| seal.problem(problem)).collect()
    }

    /// Returns no differences. The need to run the command is reported as drift.
    fn insync(&self, _: &Context<'_>, _: &str, _: &State, _: &Attributes) -> Insync {
        Insync::Same
    }
}

impl ReadOne for ExecProvider {
    fn get_one(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Result<State, ProviderError> {
        let Some(should) = wanted.should else { return Ok(State::absent(wanted.name.clone())) };
        let mut state = State::present(wanted.name.clone(), Attributes::with_capacity(1));
        let verdict = self.verdict(cx, wanted, should);
        let verdict = verdict.map_err(|error| ProviderError::new(SensitiveTexts::of(should).redact(&error.message)))?;
        let is_refresh = should.get_bool("refreshonly") == Some(true);
        match verdict {
            // The refresh runs the command.
            GuardVerdict::Due(_) if is_refresh => {}
            GuardVerdict::Due(why) => {
                let why = SensitiveTexts::of(should).redact(&why);
                state.attributes.push("due", why.clone());
                state.drift.push(Difference::new("command", Value::Undef, Value::Undef).saying(why));
            }
            GuardVerdict::Unknown(unknown) => state.unknown.push(unknown),
            // The guards also decide if a refresh runs the command.
            GuardVerdict::Settled if wanted.refresh && guard::has_guards(should) => {
                state.attributes.push("due", "");
            }
            GuardVerdict::Settled => {}
        }
        Ok(state)
    }
}

impl Scheduling for ExecProvider {
    fn placement(&self, should: &Attributes) -> Placement {
        if guard::spawns(should) { Placement::Worker } else { Placement::Inline }
    }

    fn set_placement(&self, _: &Attributes) -> Placement {
        Placement::Worker
    }

    fn batch_size(&self) -> Batch {
        Batch::One
    }
}

impl Relations for ExecProvider {
    fn auto_edges(&self, name: &str, should: &Attributes, add: &mut dyn FnMut(AutoEdge<'_>)) {
        auto_edges::auto_edges(name, should, add);
    }
}

impl Refresh for ExecProvider {
    fn refresh(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Outcome {
        let none = Attributes::new();
        let should = wanted.should.unwrap_or(&none);
        let failed = |why: EcoString| Outcome::failed(SensitiveTexts::of(should).redact(&why));
        self.refreshed(cx, wanted.name, should).unwrap_or_else(failed)
    }

    /// Returns true if a refresh needs a run of its own. A command that has to run anyway runs once, unless there is
    /// a separate command for refreshes. Guards can make a refresh needless.
    fn acts_on_refresh(&self, is: &State, should: &Attributes) -> bool {
        let is_settled = is.attributes.text("due") == Some("");
        !is_settled && (is.drift.is_empty() || should.get("refresh").is_some())
    }
}

impl Predict for ExecProvider {
    /// Returns a constant, because the reason contains times. A command that has to run is the same step for any
    /// reason.
    fn basis(&self, _: &Context<'_>, _: Wanted<'_>, _: &Found) -> Option<Value> {
        Some("due".into())
    }

    /// Predicts the paths in `creates` with unknown content. A command can have any other effect.
    fn effects(&self, _: &Context<'_>, change: &Change<'_>) -> Option<Vec<Effect>> {
        let made = texts(change.should.and_then(|should| should.get("creates"))).into_iter();
        let made = made.map(|path| Effect::Path { path, node: PathState::Unknown });
        Some(made.chain([Effect::Anything]).collect())
    }

    fn footprint(&self, name: &str, should: &Attributes, say: &mut dyn FnMut(Footprint<'_>)) {
        for path in texts(should.get("creates")) {
            say(Footprint::Creates { path: trimmed(&path) });
            say(Footprint::Reads { path: trimmed(&path), below: false });
        }
        for path in texts(should.get("mtimes")) {
            say(Footprint::Reads { path: trimmed(&path), below: true });
        }
        for guard in ["unless", "onlyif"].into_iter().flat_map(|attribute| guard_commands(attribute, should)) {
            let cwd = guard.cwd.as_deref().or(should.text("cwd"));
            say(Footprint::Runs { text: &guard.argv.join(" "), cwd });
        }
        let refresh = should.get("refresh").map(|_| command::refresh_of(name, should));
        let commands = [Some(command::command_of(name, should)), refresh, command::done_of(should)];
        for command in commands.into_iter().flatten().flatten() {
            let cwd = command.cwd.as_deref().or(should.text("cwd")).map(trimmed);
            // Its program it only reads.
            say(Footprint::Acts { text: &command.argv[1..].join(" "), cwd });
        }
    }
}

impl Watch for ExecProvider {
    /// Returns the watches for `creates`, `watchfiles`, `mtimes` and `watch`. Guards with commands are polled if
    /// there is no `watch`. A command without any of these runs at the start of the run, and on a refresh.
    fn watches(&self, _: &str, should: &Attributes) -> Vec<WatchSource> {
        let made = texts(should.get("creates"));
        let made = made.into_iter().map(|path| WatchSource::Path { path: path.as_str().into(), scope: Scope::This });
        let is_told = should.get("watch").is_some();
        // A command whose guards do not run again has no state to hold.
        let is_state = should.get_bool("verify") != Some(false);
        let asked = (guard::spawns(should) && !is_told && is_state).then_some(WatchSource::Poll(POLL));
        let paths = ["watchfiles", "mtimes"].into_iter().flat_map(|attribute| texts(should.get(attribute)));
        let paths = paths.map(|path| WatchSource::Path { path: trimmed(&path).into(), scope: Scope::Entries });
        made.chain(paths).chain(is_told.then_some(WatchSource::ProviderPerResource)).chain(asked).collect()
    }

    /// Returns the purpose of a command. Without a guard it has no state. With `mtimes` it handles the event of each
    /// modified file. A command with a watch and a guard holds a state that others may change back.
    fn purpose(&self, should: &Attributes) -> Purpose {
        match should.get("mtimes") {
            _ if !guard::has_guards(should) || should.get_bool("verify") == Some(false) => Purpose::Action,
            Some(_) => Purpose::EventHandler,
            None => Purpose::State,
        }
    }

    fn watch(&self, cx: &Context<'_>, alone: Option<Wanted<'_>>, tell: &dyn WatchSink) -> Result<(), ProviderError> {
        if let Some(wanted) = alone {
            watch::listen(self, cx, wanted, tell);
        }
        Ok(())
    }
}

impl OutputDefaults for ExecProvider {
    fn output_independent_attributes(&self) -> &'static [&'static str] {
        &["confine", "fallback", "stop_signal"]
    }

    fn default_outputs(&self, should: &Attributes) -> Attributes {
        let secrets = SensitiveTexts::of(should);
        let given = should.get("fallback").and_then(Value::as_hash).into_iter().flat_map(|given| given.iter());
        given.map(|(output, value)| (output.clone(), secrets.sealing(value.clone()))).collect()
    }
}

/// Returns the commands of the guards that are valid.
fn guard_commands<'a>(attribute: &'a str, should: &'a Attributes) -> impl Iterator<Item = command::CommandLine> {
    command::guards_of(attribute, should).filter_map(|declared| declared.command().ok())
}

/// Returns a path without trailing slashes.
fn trimmed(path: &str) -> &str {
    match path.trim_end_matches('/') {
        "" => "/",
        path => path,
    }
}

fn needed_to_watch(attribute: &str) -> ValidationError {
    known_before(attribute, "its `watch` runs from the beginning")
}

fn is_relative(program: &str) -> bool {
    program.contains('/') && !program.starts_with('/')
}

fn relative_paths(should: &Attributes) -> Vec<ValidationError> {
    let mut paths: Vec<(&str, EcoString)> = Vec::new();
    paths.extend(should.text("cwd").map(|cwd| ("cwd", cwd.into())));
    paths.extend(others_of(should).filter_map(|declared| Some((declared.attribute, declared.cwd()?.into()))));
    for attribute in ["creates", "watchfiles", "mtimes"] {
        paths.extend(texts(should.get(attribute)).into_iter().map(|path| (attribute, path)));
    }
    let directories = texts(should.get("path"));
    paths.extend(directories.iter().flat_map(|part| part.split(':')).map(|directory| ("path", directory.into())));
    paths.retain(|(_, path)| !path.starts_with('/'));
    let problem = |(attribute, path): (&str, EcoString)| {
        ValidationError::with(attribute, format!("`{path}` is not an absolute path"))
    };
    paths.into_iter().map(problem).collect()
}

#[cfg(test)]
mod tests;
