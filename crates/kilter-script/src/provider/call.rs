//! Calls of a script.

use std::time::{Duration, Instant};

use ecow::{EcoString, eco_format};
use kilter_process::{Capture, Confinement, Event, Invocation, KillMode, Output};
use kilter_provider::{Context, Level, Mode, ProcessRecord, Redactor};

use super::ScriptProvider;
use super::error::{Cause, ScriptError, last_words, status};
use crate::convention::size::MemoryBudget;
use crate::convention::{ConventionName, ProtocolError, Reply, Request};
use crate::coprocess::ScriptConnection;
use crate::exchange::{ScriptCall, cancel, process_record};
use crate::secrets::{self, BufferedLines, has_secrets};
use crate::stderr_forwarder::StderrForwarder;

/// An answered call, as context for errors of single resources.
#[derive(Clone, Debug)]
pub(super) struct AnsweredCall {
    /// Action of the call.
    pub(super) action: &'static str,
    /// Exit status.
    pub(super) status: EcoString,
    /// True if it ended with exit code 0.
    pub(super) is_success: bool,
    /// Last lines of stderr.
    pub(super) last_words: EcoString,
    /// Secrets in the call and its answer. A message about a resource may contain secrets of another.
    pub(super) seal: Redactor,
}

impl AnsweredCall {
    /// Returns the exit status if the script failed.
    pub(super) fn failed_status(&self) -> Option<&EcoString> {
        (!self.is_success).then_some(&self.status)
    }
}

impl ScriptProvider {
    /// Runs the script for a request, forwards its log lines and parses its answer.
    pub(super) fn call(
        &self,
        cx: &Context<'_>,
        request: &Request<'_>,
    ) -> Result<(Reply, AnsweredCall), Box<ScriptError>> {
        self.call_observed(cx, request, &mut |_| {})
    }

    /// Like [`ScriptProvider::call`]; `observe` receives the events of the process.
    pub(super) fn call_observed(
        &self,
        cx: &Context<'_>,
        request: &Request<'_>,
        observe: &mut dyn FnMut(&Event<'_>),
    ) -> Result<(Reply, AnsweredCall), Box<ScriptError>> {
        let invocation = self.convention.encode(request);
        let invocation = invocation.map_err(|refusal| self.error(request, Cause::Refused(refusal), None))?;
        let invocation = self.limited(invocation, request);
        let _turn = match request {
            Request::Update(_, Mode::Apply) | Request::Refresh(_) => Some(self.turns.to_change(self.metadata.parallel)),
            // A watch with a turn would block all changes.
            Request::Watch => None,
            _ => Some(self.turns.to_read(self.metadata.parallel)),
        };
        let type_name = self.metadata.schema.name.as_str();
        let connection = self.connection(cx).map_err(|why| self.error(request, Cause::NoTransport(why), None))?;
        let seal =
            connection.map_or_else(|| given(request), |connection| given(request).and(connection.seal().clone()));
        let log_now = |level: Level, message: &str| cx.log(level, type_name, subject(request), message);
        // A script may repeat secrets from its input, and print secrets of its answer.
        let (tells_secrets, held) = (self.tells_secrets(request), BufferedLines::default());
        let log = |level: Level, message: &str| match (seal.redact(message.into()), tells_secrets) {
            (message, true) => held.hold(level, message),
            (message, false) => log_now(level, &message),
        };
        // kilter's own remarks contain no secrets of the answer, so they are logged immediately. They may be
        // the only message.
        let remark = |level: Level, message: &str| log_now(level, &seal.redact(message.into()));
        let invocation = match connection {
            None => {
                let invocation = self.surroundings.introducing(invocation);
                self.surroundings.keeping(invocation, &self.keeps, |why| remark(Level::Warning, why))
            }
            Some(_) => invocation,
        };
        let mut spoken = StderrForwarder::new(self.surroundings.limits.error, Level::Warning, &seal, &log);
        let exchange = ScriptCall {
            type_name,
            provider: self.name,
            convention: self.metadata.convention.word(),
            action: self.action(request),
            path: &self.path,
            invocation: &invocation,
            seal: &seal,
        };
        let mut observer = |event: Event<'_>| {
            spoken.observe(&event);
            observe(&event);
        };
        let begun = Instant::now();
        let finished = match connection {
            None => self.surroundings.exchanges.run(&exchange, Some(cancel(cx)), &mut observer),
            Some(connection) => connection.run(cx, &exchange, &mut observer),
        };
        let finished = finished.map_err(|error| {
            held.log(Some(&Redactor::default()), &log_now);
            cx.record_process(process_record(&invocation, Err(&error), begun.elapsed()).redacted(&seal));
            self.error(request, Cause::NotStarted(error), None)
        })?;
        let reply = self.convention.decode(request, &finished);
        let told = if tells_secrets { self.secrets_in(&reply, &finished) } else { Some(Redactor::default()) };
        held.log(told.as_ref(), &log_now);
        self.remark(request, &finished, spoken.dropped(), &remark);
        let duration = begun.elapsed();
        let argv_seal = seal.clone();
        let seal = told.map(|told| seal.and(told));
        // A coprocess answers many calls.
        if connection.is_none() && cx.records_processes() && !matches!(request, Request::Watch) {
            let record = process_record(&invocation, Ok(&finished), duration);
            let record = match &seal {
                Some(seal) => with_outputs(record, request, &finished).redacted(seal),
                None => record.redacted(&argv_seal),
            };
            match subject(request) {
                "" => cx.record_process(record),
                name => cx.about(name).record_process(record),
            }
        }
        let fail = |error| self.error(request, Cause::Answer(error), Some((&finished, seal.as_ref())));
        let reply = reply.map_err(fail)?;
        let (action, status) = (self.action(request), eco_format!("{}", finished.status));
        let last_words = last_words(&finished, seal.as_ref());
        let is_success = finished.status.is_success();
        Ok((reply, AnsweredCall { action, status, is_success, last_words, seal: seal.unwrap_or_default() }))
    }

    /// Returns the connection through which the provider works. None for a provider that is a program itself.
    fn connection<'a>(&self, cx: &Context<'a>) -> Result<Option<&'a ScriptConnection>, EcoString> {
        let Some(transport) = &self.metadata.transport else { return Ok(None) };
        let connection = cx.transport().map_err(|error| error.message)?;
        match connection.as_any().downcast_ref::<ScriptConnection>() {
            Some(connection) if connection.transport() == transport => Ok(Some(connection)),
            _ => Err(eco_format!("the type works through the transport `{transport}`, and the device has another one")),
        }
    }

    /// Returns true if the answer may contain secrets that are unknown before it is parsed.
    fn tells_secrets(&self, request: &Request<'_>) -> bool {
        !matches!(request, Request::Describe | Request::Watch) && has_secrets(&self.metadata.schema)
    }

    /// Returns the secrets in an answer, also if it is invalid. None if they cannot be determined.
    fn secrets_in(&self, reply: &Result<Reply, ProtocolError>, finished: &Output) -> Option<Redactor> {
        let schema = &self.metadata.schema;
        if let Ok(reply) = reply {
            return Some(secrets::of_reply(schema, reply));
        }
        let text = finished.stdout.text();
        if self.metadata.convention == ConventionName::Simple || text.trim().is_empty() {
            return Some(secrets::of_lines(schema, &text));
        }
        MemoryBudget::of(self.surroundings.limits.output).holds_tree(&text).ok()?;
        let document = serde_json::from_str(&text).ok()?;
        Some(secrets::of_document(&[schema], &document))
    }

    /// Sets the limits of a call. A call that only reads leaves no processes behind and is confined unless the
    /// metadata lifts the confinement. A preview is always confined.
    fn limited(&self, mut invocation: Invocation, request: &Request<'_>) -> Invocation {
        let is_preview = matches!(request, Request::Update(_, Mode::Preview));
        let is_read = !matches!(request, Request::Update(..) | Request::Refresh(_));
        let confined = is_preview || is_read && self.metadata.confine;
        invocation.deadline = self.deadline(request);
        if let Request::Watch = request {
            // The output is processed as a stream.
            invocation.stdout = Capture::First(0);
        }
        let invocation = invocation.confined(if confined { Confinement::ReadOnly } else { Confinement::None });
        invocation.leftovers(if is_preview || is_read { KillMode::Ended } else { KillMode::LeftAlone })
    }

    /// Returns the timeout of a call. None for a watch.
    fn deadline(&self, request: &Request<'_>) -> Option<Duration> {
        let limits = &self.surroundings.limits;
        match request {
            Request::Describe => Some(limits.describe),
            Request::List | Request::Find(_) | Request::FindAs(..) => {
                Some(self.metadata.timeout.unwrap_or(limits.read))
            }
            Request::Update(..) | Request::Refresh(_) => Some(self.metadata.timeout.unwrap_or(limits.change)),
            Request::Watch => None,
        }
    }

    fn error(
        &self,
        request: &Request<'_>,
        cause: Cause,
        finished: Option<(&Output, Option<&Redactor>)>,
    ) -> Box<ScriptError> {
        let status = match (&cause, finished) {
            (Cause::Answer(error), Some((finished, _))) => status(finished, error, self.deadline(request)),
            _ => None,
        };
        Box::new(ScriptError {
            provider: self.metadata.name.clone(),
            path: self.path.clone(),
            convention: self.metadata.convention,
            action: self.action(request),
            of: of(&self.metadata.schema.name, request),
            cause,
            status,
            last_words: finished.map(|(finished, seal)| last_words(finished, seal)).unwrap_or_default(),
            seal: finished.map_or_else(|| Some(Redactor::default()), |(_, seal)| seal.cloned()),
        })
    }

    pub(super) fn action(&self, request: &Request<'_>) -> &'static str {
        match (request, self.takes_many()) {
            (Request::Describe, _) => "describe",
            (Request::Refresh(_), _) => "refresh",
            (Request::Watch, _) => "watch",
            (Request::List, false) => "list",
            (Request::Find(_) | Request::FindAs(..), false) => "find",
            (Request::Update(..), false) => "update",
            (Request::List | Request::Find(_) | Request::FindAs(..), true) => "get",
            (Request::Update(..), true) => "set",
        }
    }
}

/// Adds the outputs of a call to its record. The answer of a query is no part of it.
fn with_outputs(record: ProcessRecord, request: &Request<'_>, finished: &Output) -> ProcessRecord {
    let is_change = matches!(request, Request::Update(..) | Request::Refresh(_));
    let stdout = if is_change || !finished.is_success() { &*finished.stdout.bytes } else { &[] };
    record.with_outputs(stdout, &finished.stderr.bytes)
}

/// Returns the secrets in a request.
fn given(request: &Request<'_>) -> Redactor {
    match request {
        Request::Update(updates, _) => {
            Redactor::of_all(updates.iter().flat_map(|one| one.is.into_iter().chain([one.should])))
        }
        Request::Refresh(of) => Redactor::of(of.should),
        Request::FindAs(_, declared) => Redactor::of_all(declared.iter()),
        Request::Describe | Request::List | Request::Find(_) | Request::Watch => Redactor::default(),
    }
}

/// Returns the name of the resource if the request is about a single one.
fn subject<'a>(request: &Request<'a>) -> &'a str {
    match request {
        Request::Find([name]) | Request::FindAs([name], _) => name,
        Request::Update([update], _) => update.name,
        Request::Refresh(of) => of.name,
        _ => "",
    }
}

fn of(type_name: &kilter_model::TypeName, request: &Request<'_>) -> EcoString {
    let count = match request {
        Request::Describe | Request::List | Request::Watch => return eco_format!(" of {type_name}"),
        Request::Find(names) | Request::FindAs(names, _) => names.len(),
        Request::Update(updates, _) => updates.len(),
        Request::Refresh(_) => 1,
    };
    match count {
        1 => eco_format!(" of {type_name}[{}]", subject(request)),
        count => eco_format!(" of {count} resources of {type_name}"),
    }
}
