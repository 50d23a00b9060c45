//! The routine of mold: facts, prescription, then observe, choreograph and perform until no steps are left.

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Outcome, Value, to_json};
use kilter_provider::{Context, Interrupt, Level, Provider, Query, Registry, Wanted, get_checked};
use kilter_runtime::Mode;
use kilter_script::mold::{ActorError, Mold, Prescribed, Step, manifest_of};
use serde_json::{Value as Json, json};

use super::act::lines_of;
use super::get::Lines;
use super::pass::{ExecOptions, ExitCodeMode};
use crate::cli::{ManifestArgs, ReportFormat};
use crate::exit::Exit;
use crate::load::{self, Loaded};
use crate::mold::OpenedMold;
use crate::render::diff::visible;
use crate::render::progress::Shown;
use crate::render::{FAILED, NAME, styled};
use crate::session::Session;
use crate::{facts, output, providers, signals};

/// Maximum number of rounds of a choreography. Beyond that, it counts as endless.
const ROUNDS: usize = 25;

/// Maximum number of rounds with equal steps. Beyond that, the choreography counts as a loop.
const MAX_EQUAL_ROUNDS: usize = 3;

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
    match opened.mold().prescribe(&opened.context(session), &facts) {
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
    /// As [`load::prepare`].
    pub(crate) fn prepare(
        &self,
        session: &Session,
        audience: load::ErrorFormat,
        registry: &Registry,
    ) -> Result<Loaded, Exit> {
        let name = self.mold.directory().join("actors/prescribe").display().to_string();
        let text = format!("{:#}\n", manifest_of(&self.documents));
        load::prepare_text(session, &format!("{name} (prescription)"), text, audience, registry)
    }

    /// Performs the steps in the order of the choreographer. The lock prevents changes by other runs.
    pub(crate) fn dance(&self, pass: ExecOptions, registry: &Registry, session: &Session) -> Exit {
        let _lock = match pass.lock(session) {
            Ok(lock) => lock,
            Err(exit) => return exit,
        };
        if let Err(exit) = pass.refuse_if_paused(session) {
            return exit;
        }
        let log = Lines { from: if session.global.verbose { Level::Debug } else { Level::Warning } };
        let interrupt = Interrupt::new(signals::raised(), None);
        let cx = Context::empty()
            .with_log(&log)
            .with_strictness(session.global.strict.into())
            .with_interrupt(interrupt)
            .with_hostname(session.host());
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
enum Ended {
    /// No steps were left.
    Done,
    /// Steps are left, because this is a dry run.
    Pending,
    /// Reason of the failure.
    Failed(EcoString),
}

impl ChoreographyRun<'_> {
    fn until_end(&mut self) -> Ended {
        let mut former: Vec<Vec<Step>> = Vec::new();
        for round in 1..=ROUNDS + 1 {
            let steps = match self.next_steps() {
                Ok(steps) if steps.is_empty() => return Ended::Done,
                Ok(steps) => steps,
                Err(why) => return Ended::Failed(why),
            };
            if former.iter().filter(|former| **former == steps).count() >= MAX_EQUAL_ROUNDS {
                let again: Vec<String> = steps.iter().map(described).collect();
                return Ended::Failed(eco_format!(
                    "actors/choreograph repeats itself: {MAX_EQUAL_ROUNDS} rounds performed the same steps, and it \
                     asks for them again: {}; \
                     what it observes does not change with them, or it does not compare it",
                    again.join(", ")
                ));
            }
            if round > ROUNDS {
                let left: Vec<String> = steps.iter().map(described).collect();
                return Ended::Failed(eco_format!(
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
                    return Ended::Failed("the run was interrupted".into());
                }
                if self.pass.mode == Mode::Noop {
                    self.tell(step, "would be performed", &Outcome::done());
                    continue;
                }
                let outcome = self.perform(step);
                self.tell(step, if outcome.is_done() { "done" } else { "failed" }, &outcome);
                if !outcome.is_done() {
                    return Ended::Failed(eco_format!("{} failed", described(step)));
                }
            }
            if self.pass.mode == Mode::Noop {
                return Ended::Pending;
            }
            former.push(steps);
        }
        Ended::Done
    }

    fn next_steps(&self) -> Result<Vec<Step>, EcoString> {
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
        let states = get_checked(provider, &self.cx, Query::Named(&wanted)).map_err(|error| error.message)?;
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

    fn native(&self, kind: &str) -> Result<&dyn Provider, EcoString> {
        match self.registry.choose(kind, None) {
            Ok(at) => Ok(self.registry.at(at).as_ref()),
            Err(error) => Err(eco_format!("{error}")),
        }
    }

    fn perform(&self, step: &Step) -> Outcome {
        match step {
            Step::Conform(one) => match self.prescription.mold.provider(&one.kind) {
                Some(provider) => provider.conform(&self.cx, &one.name, &one.attributes),
                None => self.apply(one),
            },
            Step::Act { kind, name, action } => match self.native(kind) {
                Err(why) => Outcome::failed(why),
                Ok(provider) => match kilter_provider::actions(provider, action) {
                    Err(problem) => Outcome::failed(eco_format!("{problem}")),
                    Ok(actions) => actions.act(&self.cx, Wanted::new(name, Some(&Attributes::new())), action),
                },
            },
        }
    }

    /// Applies a resource that no script handles.
    fn apply(&self, one: &Prescribed) -> Outcome {
        let text = format!("{}\n", manifest_of(std::slice::from_ref(one)));
        let loaded = load::prepare_text(
            self.session,
            "a step of actors/choreograph",
            text,
            load::ErrorFormat::People,
            self.registry,
        );
        let shown = Shown { resources: false, log: Level::Warning, quiet: true };
        let report = loaded.and_then(|loaded| self.pass.report_as(shown, &loaded.prepared, self.session));
        match report {
            Err(_) => Outcome::failed("it was not started"),
            Ok(report) => {
                let failure = report.resources.iter().find_map(|resource| resource.failure.clone());
                let notes = report.resources.into_iter().flat_map(|resource| resource.notes).collect();
                Outcome { failure, notes, ..Outcome::done() }
            }
        }
    }

    fn is_human(&self) -> bool {
        self.pass.format == ReportFormat::Human && !self.session.global.quiet
    }

    /// Reports the result of a step.
    fn tell(&mut self, step: &Step, status: &str, outcome: &Outcome) {
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

    fn conclude(&self, ended: Ended) -> Exit {
        let count: usize = self.rounds.iter().map(Vec::len).sum();
        let failure = match &ended {
            Ended::Failed(why) => Some(why),
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
                Ended::Pending => format!("{resources}: {steps} pending\n"),
                _ => format!("{resources}: {steps} in {rounds}, none left\n"),
            });
        }
        match ended {
            Ended::Failed(_) => signals::exit().unwrap_or(Exit::Failed),
            Ended::Pending => Exit::Pending,
            Ended::Done if self.pass.exits == ExitCodeMode::Detailed && count > 0 => Exit::Changed,
            Ended::Done => Exit::Done,
        }
    }
}

fn counted(count: usize, what: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{count} {what}{s}")
}

/// Returns the resource and the action of a step.
fn parts(step: &Step) -> (String, &str) {
    match step {
        Step::Conform(one) => (format!("{}[{}]", one.kind, one.name), "conform"),
        Step::Act { kind, name, action } => (format!("{kind}[{name}]"), action),
    }
}

fn described(step: &Step) -> String {
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
    Ok(Registry::new(chosen).on_machine(all.hostname()))
}
