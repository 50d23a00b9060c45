//! Environment of the commands of a resource.

use std::time::{Duration, Instant};

use ecow::EcoString;
use kilter_model::{Attributes, Value};
use kilter_process::{Confinement, DEFAULT_PATH, Identity, Invocation, KillMode, Output, Signal, SpawnError};
use kilter_provider::{Context, ValidationError};

use super::command::CommandLine;
use super::secrets::SensitiveTexts;
use crate::accounts::{Accounts, number_problem};
use crate::tool::{self, RecordedPart};

/// Starts the commands of a resource.
pub(super) struct CommandRunner<'a> {
    pub(super) cx: &'a Context<'a>,
    /// Name of the resource.
    pub(super) name: &'a str,
    pub(super) should: &'a Attributes,
    pub(super) accounts: &'a Accounts,
    pub(super) confinement: Confinement,
}

/// Returns the confinement of guards and watches. A noop run changes nothing, so its guards must not either. The
/// attribute `confine` disables the confinement.
pub(super) fn confinement_of(should: &Attributes, noop: bool) -> Confinement {
    match noop && should.get_bool("confine") != Some(false) {
        true => Confinement::ReadOnly,
        false => Confinement::None,
    }
}

impl CommandRunner<'_> {
    /// Runs a command. `keep` sets the captures of its outputs.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(super) fn run(&self, command: &CommandLine, keep: impl FnOnce(&mut Invocation)) -> Result<Output, EcoString> {
        let mut invocation = self.invocation(command)?;
        keep(&mut invocation);
        let begun = Instant::now();
        let result = kilter_process::run(&invocation, Some(tool::cancel(self.cx)));
        if self.cx.records_processes() {
            let record = tool::record(&invocation, &result, begun.elapsed(), self.recorded_part(command));
            let secrets = SensitiveTexts::of(self.should);
            self.cx.record_process(record.redacted_by(&|text| secrets.redact(text)));
        }
        result.map_err(|error| {
            match error {
                SpawnError::Cancelled { .. } => "it was interrupted".into(),
                // The error names the program, which is part of the secret.
                _ if command.is_sealed => "its sensitive command cannot be started".into(),
                error => error.with_sources().into(),
            }
        })
    }

    /// Returns the part of a command that the history records.
    fn recorded_part(&self, command: &CommandLine) -> RecordedPart {
        match (command.is_sealed, self.should.get_bool("logoutput")) {
            (true, _) => RecordedPart::End,
            (false, Some(false)) => RecordedPart::Arguments,
            (false, _) => RecordedPart::Outputs,
        }
    }

    /// Returns the invocation of a command.
    ///
    /// # Errors
    /// If its user is unknown.
    pub(super) fn invocation(&self, command: &CommandLine) -> Result<Invocation, EcoString> {
        let (program, args) = command.argv.split_first().ok_or("the command is empty")?;
        let cwd = command.cwd.as_deref().or(self.should.text("cwd")).unwrap_or("/");
        let mut invocation = Invocation::new(program).args(args).cwd(cwd);
        invocation = invocation.env("PATH", search_path(self.should));
        for (name, value) in environment(self.should) {
            invocation = invocation.env(name, value);
        }
        invocation.deadline = self.timeout();
        invocation.stop_signal = self.should.text("stop_signal").and_then(Signal::named).unwrap_or(Signal::TERM);
        invocation.identity = self.identity()?;
        invocation.umask = self.should.text("umask").and_then(|umask| u32::from_str_radix(umask, 8).ok());
        if self.confinement != Confinement::None {
            invocation.confinement = self.confinement;
            // The kernel asks kilter about the writes of a confined process only while kilter waits for it.
            invocation.leftovers = KillMode::Ended;
        }
        Ok(invocation)
    }

    /// Returns the maximum duration of a command.
    pub(super) fn timeout(&self) -> Option<Duration> {
        seconds(self.should.get("timeout")).or(Some(Duration::from_secs(300))).filter(|timeout| !timeout.is_zero())
    }

    fn identity(&self) -> Result<Option<Identity>, EcoString> {
        let (user, group) = (self.should.get("user"), self.should.get("group"));
        // A guard may use values of other resources before their validation.
        if let Some(problem) = account_problems(self.should).next() {
            return Err(problem.to_string().into());
        }
        self.accounts.identity(self.cx, user, group)
    }
}

/// Returns the problems of `user` and `group`.
pub(super) fn account_problems(should: &Attributes) -> impl Iterator<Item = ValidationError> {
    ["user", "group"].into_iter().filter_map(|attribute| number_problem(attribute, should.get(attribute)?))
}

/// Returns a duration given in seconds.
pub(super) fn seconds(value: Option<&Value>) -> Option<Duration> {
    match value?.unwrap_sensitive() {
        Value::Float(seconds) => Duration::try_from_secs_f64(*seconds).ok(),
        other => Some(Duration::from_secs(u64::try_from(other.as_integer()?).ok()?)),
    }
}

/// Returns the search path, separated by colons.
pub(super) fn search_path(should: &Attributes) -> String {
    match should.get("path") {
        Some(path) => crate::value_text::texts(Some(path)).join(":"),
        None => DEFAULT_PATH.to_owned(),
    }
}

/// Returns the given variables as names and values. A text without `=` gets an empty name.
pub(super) fn environment(should: &Attributes) -> Vec<(String, String)> {
    let Some(environment) = should.get("environment") else { return Vec::new() };
    let text = |value: &Value| value.unwrap_sensitive().to_string();
    match environment.as_hash() {
        Some(hash) => hash.iter().map(|(name, value)| (name.to_string(), text(value))).collect(),
        None => environment
            .as_list()
            .iter()
            .map(|entry| {
                let entry = text(entry);
                entry.split_once('=').map_or_else(Default::default, |(name, value)| (name.to_owned(), value.to_owned()))
            })
            .collect(),
    }
}
