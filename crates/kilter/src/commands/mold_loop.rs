//! The routine of mold: facts, prescription, then observe, choreograph and perform until no steps are left.

use std::sync::Arc;

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Outcome, Resource, ResourceRef, SourceId, Span, Value, to_json};
use kilter_provider::{Context, Level, Provider, Query, Registry, Wanted, get_checked};
use kilter_runtime::{Mode, Prepared, one_time};
use kilter_script::mold::{ActorError, ChoreographyStep, Mold, MoldProvider, Prescribed, manifest_of};
use serde_json::{Value as Json, json};

use super::act::{self, lines_of};
use super::exec_options::{ExecOptions, ExitCodeMode};
use crate::cli::{ManifestArgs, ReportFormat};
use crate::exit::Exit;
use crate::load::{self, Input, Loaded};
use crate::mold::OpenedMold;
use crate::render::progress::PrintedLog;
use crate::session::Session;
use crate::style::{FAILED, NAME, styled};
use crate::visible::visible;
use crate::{facts, output, providers, signals};

/// Maximum number of rounds of a choreography. Beyond that, it counts as endless.
const ROUNDS: usize = 25;

/// Maximum number of rounds with equal steps. Beyond that, the choreography counts as a loop.
const MAX_EQUAL_ROUNDS: usize = 3;

/// Failure of a step whose reason has been reported.
const NOT_STARTED: &str = "it was not started";

/// Prescription of mold's directory, with its inputs.
pub(crate) struct Prescription<'s> {
    mold: &'s Mold,
    facts: Value,
    pub(crate) documents: Vec<Prescribed>,
}

/// Runs the prescriber.
///
/// # Errors
/// If it returns no prescription; reported.
pub(crate) fn prescription<'s>(session: &'s Session, input: &ManifestArgs) -> Result<Prescription<'s>, Exit> {
    let Some(opened) = session.mold() else { return Err(output::fail("name a manifest, or a directory with --mold")) };
    let known = facts::gather(session, &input.facts_dirs, None);
    let facts = Value::hash(known.all());
    facts::warn(&known);
    match opened.mold().prescribe(&session.mold_context(opened), &facts) {
        Ok(documents) => Ok(Prescription { mold: opened.mold(), facts, documents }),
        Err(error) => Err(signals::exit().unwrap_or_else(|| match error {
            ActorError::Missing(_) => output::fail_with(&error, ["without one, name a manifest"]),
            error => output::fail(error),
        })),
    }
}

impl Prescription<'_> {
    /// Returns true if a script orders the prescribed resources.
    pub(crate) fn is_choreographed(&self) -> bool {
        self.mold.has_choreographer()
    }

    /// Prepares the prescription as a run of the engine, which orders it if no script does.
    ///
    /// # Errors
    /// As [`load::load`].
    pub(crate) fn prepare(
        &self,
        session: &Session,
        audience: load::ErrorFormat,
        registry: &Registry,
    ) -> Result<Loaded, Exit> {
        let name = self.mold.directory().join("actors/prescribe").display().to_string();
        let text = format!("{:#}\n", manifest_of(&self.documents));
        let input = Input::Text { name: &format!("{name} (prescription)"), text };
        load::load(session, input, audience, registry)
    }

    /// Performs the steps in the order of the choreographer. The lock prevents changes by other runs.
    pub(crate) fn dance(&self, pass: ExecOptions, registry: &Registry, session: &Session) -> Exit {
        let _lock = match pass.lock_or_borrow(None, session) {
            Ok(lock) => lock,
            Err(exit) => return exit,
        };
        if let Err(exit) = pass.refuse_if_paused(session) {
            return exit;
        }
        let log = PrintedLog { from: if session.global.verbose { Level::Debug } else { Level::Warning } };
        let cx = session.context(&log);
        session.record.settle();
        let mut dance = ChoreographyRun { prescription: self, pass, registry, session, cx, rounds: Vec::new() };
        let ended = dance.until_end();
        dance.conclude(ended)
    }
}

/// Running choreography.
struct ChoreographyRun<'a> {
    prescription: &'a Prescription<'a>,
    pass: ExecOptions,
    registry: &'a Registry,
    session: &'a Session,
    cx: Context<'a>,
    rounds: Vec<Vec<Json>>,
}

/// Its end.
enum ChoreographyResult {
    /// No steps were left.
    Done,
    /// Steps are left, because this is a dry run.
    Pending,
    /// Reason of the failure.
    Failed(EcoString),
}

impl ChoreographyRun<'_> {
    fn until_end(&mut self) -> ChoreographyResult {
        let mut former: Vec<Vec<ChoreographyStep>> = Vec::new();
        for round in 1..=ROUNDS + 1 {
            let steps = match self.next_steps() {
                Ok(steps) if steps.is_empty() => return ChoreographyResult::Done,
                Ok(steps) => steps,
                Err(why) => return ChoreographyResult::Failed(why),
            };
            if former.iter().filter(|former| **former == steps).count() >= MAX_EQUAL_ROUNDS {
                let again: Vec<String> = steps.iter().map(described).collect();
                return ChoreographyResult::Failed(eco_format!(
                    "actors/choreograph repeats itself: {MAX_EQUAL_ROUNDS} rounds performed the same steps, and it \
                     asks for them again: {}; \
                     what it observes does not change with them, or it does not compare it",
                    again.join(", ")
                ));
            }
            if round > ROUNDS {
                let left: Vec<String> = steps.iter().map(described).collect();
                return ChoreographyResult::Failed(eco_format!(
                    "the choreography does not end: after {ROUNDS} rounds there are steps left: {}",
                    left.join(", ")
                ));
            }
            if self.is_human() && self.pass.mode == Mode::Apply {
                output::data(&format!("round {round}\n"));
            }
            self.rounds.push(Vec::new());
            for step in &steps {
                if signals::exit().is_some() {
                    return ChoreographyResult::Failed("the run was interrupted".into());
                }
                if self.pass.mode == Mode::Noop {
                    self.report_step(step, "would be performed", &Outcome::done());
                    continue;
                }
                let outcome = self.run_step(step);
                self.report_step(step, if outcome.is_done() { "done" } else { "failed" }, &outcome);
                if !outcome.is_done() {
                    return ChoreographyResult::Failed(eco_format!("{} failed", described(step)));
                }
            }
            if self.pass.mode == Mode::Noop {
                return ChoreographyResult::Pending;
            }
            former.push(steps);
        }
        ChoreographyResult::Done
    }

    fn next_steps(&self) -> Result<Vec<ChoreographyStep>, EcoString> {
        let of = self.prescription;
        let observations: Result<Vec<Json>, EcoString> = of.documents.iter().map(|one| self.observe(one)).collect();
        of.mold.choreograph(&self.cx, &of.facts, &of.documents, &observations?).map_err(|error| eco_format!("{error}"))
    }

    fn observe(&self, one: &Prescribed) -> Result<Json, EcoString> {
        if let Some(provider) = self.prescription.mold.provider(&one.kind) {
            return provider.observe(&self.cx, &one.name).map_err(|error| eco_format!("{error}"));
        }
        let provider = self.native(&one.kind)?;
        let wanted = [Wanted::new(&one.name, Some(&one.attributes))];
        let states = get_checked(provider.as_ref(), &self.cx, Query::Named(&wanted)).map_err(|error| error.message)?;
        let state = states.into_iter().find(|state| state.name == one.name);
        let mut document = json!({ "kind": one.kind.as_str(), "name": one.name.as_str(), "exists": false });
        if let Some(state) = state {
            document["exists"] = Json::Bool(state.exists);
            for (name, value) in state.attributes.iter() {
                document[name.as_str()] = to_json(value);
            }
        }
        Ok(document)
    }

    fn native(&self, kind: &str) -> Result<&Arc<dyn Provider>, EcoString> {
        match self.registry.choose(kind, None) {
            Ok(at) => Ok(self.registry.at(at)),
            Err(error) => Err(eco_format!("{error}")),
        }
    }

    /// Performs a step as a run of its own, in the lock of the choreography.
    fn run_step(&self, step: &ChoreographyStep) -> Outcome {
        let prepared = match step {
            ChoreographyStep::Conform(one) => match self.prescription.mold.provider(&one.kind) {
                Some(provider) => Ok(self.conforming(provider, one)),
                None => self.applying(one),
            },
            ChoreographyStep::Act { kind, name, action } => self.native(kind).and_then(|provider| {
                let prepared = act::prepared(provider, (name, name.clone()), action, self.session);
                prepared.map_err(|problem| eco_format!("{problem}"))
            }),
        };
        match prepared.map(|prepared| self.pass.step(&prepared, self.session)) {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Outcome::failed(NOT_STARTED),
            Err(why) => Outcome::failed(why),
        }
    }

    /// Prepares the step that brings a resource to its state by its script, which is called in any state.
    fn conforming(&self, provider: &Arc<MoldProvider>, one: &Prescribed) -> Prepared {
        let reference = ResourceRef::new(one.kind.as_str(), one.name.clone());
        let resource = Resource::new(reference, one.name.clone(), Span::new(SourceId(0), 0, 0));
        let resource = Resource { attributes: one.attributes.clone(), ..resource };
        let perform = |provider: &MoldProvider, cx: &Context<'_>, wanted: Wanted<'_>| {
            provider.conform(cx, wanted.name, wanted.should.unwrap_or(&Attributes::new()))
        };
        one_time(Arc::clone(provider), resource, "conform", self.session.host(), Box::new(perform))
    }

    /// Prepares the step that applies a resource of a type without a script.
    fn applying(&self, one: &Prescribed) -> Result<Prepared, EcoString> {
        let text = format!("{}\n", manifest_of(std::slice::from_ref(one)));
        let input = Input::Text { name: "a step of actors/choreograph", text };
        let loaded = load::load(self.session, input, load::ErrorFormat::People, self.registry);
        loaded.map(|loaded| loaded.prepared).map_err(|_| NOT_STARTED.into())
    }

    fn is_human(&self) -> bool {
        self.pass.format == ReportFormat::Human && !self.session.global.quiet
    }

    /// Reports the result of a step.
    fn report_step(&mut self, step: &ChoreographyStep, status: &str, outcome: &Outcome) {
        if self.is_human() || (self.pass.format == ReportFormat::Human && !outcome.is_done()) {
            let status = if outcome.is_done() { status.to_owned() } else { styled(FAILED, status) };
            let mut text = format!("  {}: {status}\n", styled(NAME, visible(&described(step))));
            text.extend(outcome.notes.iter().map(|note| format!("    {}\n", visible(note))));
            text.extend(lines_of(outcome).map(|line| format!("    {line}\n")));
            text.extend(outcome.failure.iter().map(|why| format!("    {}\n", visible(why))));
            output::data(&text);
        }
        let (resource, action) = parts(step);
        let mut document = json!({
            "resource": resource,
            "action": action,
            "status": if self.pass.mode == Mode::Noop { "would_perform" } else { status },
            "failure": outcome.failure.as_deref(),
            "notes": outcome.notes.iter().map(EcoString::as_str).collect::<Vec<_>>(),
        });
        if let Some(printed) = &outcome.document {
            document["document"] = to_json(printed);
        }
        self.rounds.last_mut().into_iter().for_each(|round| round.push(document.clone()));
    }

    fn conclude(&self, ended: ChoreographyResult) -> Exit {
        let count: usize = self.rounds.iter().map(Vec::len).sum();
        let failure = match &ended {
            ChoreographyResult::Failed(why) => Some(why),
            _ => None,
        };
        if let Some(why) = failure {
            output::error(visible(why));
        }
        if self.pass.format == ReportFormat::Json {
            let is_noop = self.pass.mode == Mode::Noop;
            let report = json!({ "noop": is_noop, "rounds": self.rounds, "failure": failure.map(|why| why.as_str()) });
            output::data(&format!("{report:#}\n"));
        } else if self.is_human() && failure.is_none() {
            let resources = counted(self.prescription.documents.len(), "resource");
            let (steps, rounds) = (counted(count, "step"), counted(self.rounds.len(), "round"));
            output::data(&match ended {
                ChoreographyResult::Pending => format!("{resources}: {steps} pending\n"),
                _ => format!("{resources}: {steps} in {rounds}, none left\n"),
            });
        }
        match ended {
            ChoreographyResult::Failed(_) => signals::exit().unwrap_or(Exit::Failed),
            ChoreographyResult::Pending => Exit::Pending,
            ChoreographyResult::Done if self.pass.exits == ExitCodeMode::Detailed && count > 0 => Exit::Changed,
            ChoreographyResult::Done => Exit::Done,
        }
    }
}

fn counted(count: usize, what: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{count} {what}{s}")
}

/// Returns the resource and the action of a step.
fn parts(step: &ChoreographyStep) -> (String, &str) {
    match step {
        ChoreographyStep::Conform(one) => (format!("{}[{}]", one.kind, one.name), "conform"),
        ChoreographyStep::Act { kind, name, action } => (format!("{kind}[{name}]"), action),
    }
}

fn described(step: &ChoreographyStep) -> String {
    let (resource, action) = parts(step);
    format!("{resource} {action}")
}

/// Returns the providers of a run with mold's directory: its scripts replace all others of their types.
///
/// # Errors
/// If a signal has arrived.
pub(crate) fn registry(session: &Session, jobs: Option<usize>) -> Result<Registry, Exit> {
    let all = providers::registry_with(session, jobs)?;
    let Some(mold) = session.mold().map(OpenedMold::mold) else { return Ok(all) };
    let is_ours = |provider: &dyn Provider| mold.provider(provider.schema().name.as_str()).is_none();
    let of_mold = mold.providers().iter().map(|one| std::sync::Arc::clone(one) as std::sync::Arc<dyn Provider>);
    let chosen = all.iter().filter(|one| is_ours(one.as_ref())).cloned().chain(of_mold);
    Ok(Registry::new(chosen).map_err(output::fail)?.on_machine(all.hostname()))
}
