//! `kilter undo`: restores the state of resources before recorded changes.
//!
//! The saved states become declarations, so that an undo is a run like any other: with a plan, a report and a record.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use ecow::EcoString;
use kilter_history::{EventId, EventKind, History, HistoryEvent, Order, RunId, RunRecord, Selection};
use kilter_model::{Attributes, Behaviour, Catalog, Resource, ResourceRef, SourceId, Span, TypeName};
use kilter_provider::{Durability, Registry};
use kilter_runtime::{Mode, Prepared, SavedState, SealingKey, plan_of};
use serde_json::Value as Json;

use super::history::{RecordedResource, found_run, open, parsed_time, refuse};
use super::pass::{ExecOptions, ExitCodeMode};
use crate::cli::{ReportFormat, UndoArgs};
use crate::exit::Exit;
use crate::recorder::{OnFailure, RunInputs};
use crate::session::Session;
use crate::visible::visible;
use crate::{output, pauses, providers, signals};

/// Runs the command.
pub(crate) fn run(args: &UndoArgs, session: &Session) -> Exit {
    match undone(args, session) {
        Ok(exit) | Err(exit) => exit,
    }
}

fn undone(args: &UndoArgs, session: &Session) -> Result<Exit, Exit> {
    let state_dir = session.state_dir()?;
    if !args.noop && !args.even_if_paused {
        pauses::refuse(&state_dir)?;
    }
    let history = open(session)?;
    let changes = chosen(&history, args)?;
    if changes.is_empty() {
        output::line(
            "there is nothing to undo: no change is on record, or its events were removed because of their age",
        );
        return Ok(Exit::Done);
    }
    let registry = providers::registry(session)?;
    let restored = restored(&history, &changes, session, &registry)?;
    let prepared = prepared(restored.resources, &registry)?;
    if restored.refused > 0 && !args.partly && !args.noop {
        let text =
            format_args!("{} of {} changes cannot be undone; nothing was changed", restored.refused, changes.len());
        return Err(output::fail_with(text, ["--partly undoes the others, --noop shows them"]));
    }
    if prepared.resources().is_empty() {
        return Ok(Exit::Failed);
    }
    session.set_inputs(RunInputs::of_undo(&shown_subject(args)));
    signals::listen()?;
    let pass = ExecOptions {
        mode: if args.noop { Mode::Noop } else { Mode::Apply },
        format: args.format,
        jobs: 1,
        durability: Durability::Flushed,
        exits: ExitCodeMode::Plain,
        even_if_paused: args.even_if_paused,
        on_unrecorded: OnFailure::End,
    };
    let exit = pass.carry_out(&prepared, session);
    if !args.noop && exit == Exit::Done && !session.global.quiet {
        output::hint("a manifest that still declares these resources changes them again at its next run");
    }
    Ok(exit)
}

/// Returns the changes that an undo undoes, in words.
fn shown_subject(args: &UndoArgs) -> String {
    let subject = args.subject.as_deref().map(|subject| match subject.parse::<i64>() {
        Ok(_) => format!("run {subject}"),
        Err(_) => subject.to_owned(),
    });
    let to = args.to.as_deref().map(|to| format!("to {to}"));
    subject.into_iter().chain(to).collect::<Vec<_>>().join(" ")
}

/// Undoes all changes of the apply of a process that can be undone. A history that cannot be written does not prevent
/// that.
pub(super) fn undo_apply(history: &History, after: EventId, pid: u32, session: &Session) -> Exit {
    match undone_apply(history, after, pid, session) {
        Ok(exit) | Err(exit) => exit,
    }
}

fn undone_apply(history: &History, after: EventId, pid: u32, session: &Session) -> Result<Exit, Exit> {
    let mut run = None;
    let mut find = |found: RunRecord| {
        let is_it = found.begin.body["pid"].as_u64() == Some(u64::from(pid));
        run = is_it.then_some(found.id);
        if is_it { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let selection = Selection { after: Some(after), order: Order::Ascending, ..Selection::default() };
    history.runs(&selection, &mut find).map_err(|error| refuse(&error))?;
    // Without a record, nothing was changed.
    let Some(run) = run else { return Ok(Exit::Done) };
    let mut collected = CollectedChanges::default();
    let mut take = |event: HistoryEvent| {
        collected.take(&event);
        ControlFlow::Continue(())
    };
    history.events_of(run, &mut take).map_err(|error| refuse(&error))?;
    let registry = providers::registry(session)?;
    let restored = restored(history, &collected.changes, session, &registry)?;
    let prepared = prepared(restored.resources, &registry)?;
    let pass = ExecOptions {
        mode: Mode::Apply,
        format: ReportFormat::Human,
        jobs: 1,
        durability: Durability::Flushed,
        exits: ExitCodeMode::Plain,
        even_if_paused: true,
        on_unrecorded: OnFailure::Continue,
    };
    let exit = if prepared.resources().is_empty() { Exit::Done } else { pass.carry_out(&prepared, session) };
    Ok(if restored.refused == 0 { exit } else { Exit::Failed })
}

/// Declarations that restore the state before some changes.
struct Restored {
    /// The last change comes first.
    resources: Vec<Resource>,
    /// Number of changes that cannot be undone; reported.
    refused: usize,
}

fn restored(
    history: &History,
    changes: &[RecordedChange],
    session: &Session,
    registry: &Registry,
) -> Result<Restored, Exit> {
    let key = SealingKey::of(&session.state_dir()?).ok();
    let mut restored = Restored { resources: Vec::new(), refused: 0 };
    for change in changes.iter().rev() {
        match change.resource(history, key.as_ref(), registry) {
            Ok(resource) => restored.resources.push(resource),
            Err(UndoRefusal::History(exit)) => return Err(exit),
            Err(UndoRefusal::Reason(why)) => {
                restored.refused += 1;
                output::line(format_args!("cannot be undone: {}: {}", visible(&change.name()), visible(&why)));
            }
        }
    }
    Ok(restored)
}

/// Prepares the restoration. A resource that conflicts with another one is reported.
fn prepared(resources: Vec<Resource>, registry: &Registry) -> Result<Prepared, Exit> {
    let catalog = Catalog { resources: resources.into_iter().map(Arc::new).collect(), ..Catalog::default() };
    plan_of(catalog, registry, &providers::declaring(registry.hostname())).map_err(|rejected| {
        for (vertex, problem) in &rejected.problems {
            let reference = &rejected.catalog.resources[vertex.slot()].reference;
            output::error(format_args!("{reference}: {}", problem.message));
        }
        signals::exit().unwrap_or(Exit::NotStarted)
    })
}

/// Recorded change of a resource, with its state before.
pub(super) struct RecordedChange {
    type_name: String,
    title: String,
    before: StateBefore,
    /// Later run that changed the resource again.
    changed_again: Option<RunId>,
}

enum StateBefore {
    /// The resource did not exist.
    Absent,
    /// Digest of the saved state.
    State(String),
    /// Reason why the state could not be saved.
    Unknown(String),
}

/// Reason why a change is not undone.
enum UndoRefusal {
    /// The history cannot be read; reported.
    History(Exit),
    Reason(EcoString),
}

impl RecordedChange {
    fn name(&self) -> String {
        format!("{}[{}]", self.type_name, self.title)
    }

    /// Returns the declaration that restores the state before the change.
    fn resource(
        &self,
        history: &History,
        key: Option<&SealingKey>,
        registry: &Registry,
    ) -> Result<Resource, UndoRefusal> {
        if let Some(run) = self.changed_again {
            let text = format!("run {} has changed it again; --to with a time restores it in any case", run.0);
            return Err(UndoRefusal::Reason(text.into()));
        }
        let mut provider = None;
        let mut attributes = Attributes::new();
        match &self.before {
            StateBefore::Absent => attributes.set("ensure", "absent"),
            StateBefore::Unknown(why) => return Err(UndoRefusal::Reason(why.as_str().into())),
            StateBefore::State(digest) => {
                let key = key.ok_or_else(|| UndoRefusal::Reason("the key of the saved state is gone".into()))?;
                let sealed = history.state(digest).map_err(|error| UndoRefusal::History(refuse(&error)))?;
                let sealed =
                    sealed.ok_or_else(|| UndoRefusal::Reason("its state was removed because of its age".into()))?;
                let state = SavedState::open(&sealed, key)
                    .ok_or_else(|| UndoRefusal::Reason("its state was saved with another key, or is damaged".into()))?;
                provider = Some(state.provider);
                attributes = state.attributes;
            }
        }
        let at = registry.choose(&self.type_name, provider.as_deref());
        let at = at.map_err(|error| UndoRefusal::Reason(error.to_string().into()))?;
        for attribute in &registry.at(at).schema().attributes {
            let is_parameter = attribute.behaviour == Behaviour::Parameter;
            if let (Some(default), None, true) =
                (&attribute.default, attributes.get(attribute.name.as_str()), is_parameter)
            {
                attributes.push(attribute.name.clone(), default.clone());
            }
        }
        let name = history.name(&self.type_name, &self.title).map_err(|error| UndoRefusal::History(refuse(&error)))?;
        let reference = ResourceRef::new(TypeName::from(self.type_name.as_str()), self.title.as_str());
        let mut resource =
            Resource::new(reference, name.unwrap_or_else(|| self.title.clone()), Span::new(SourceId(0), 0, 0));
        resource.attributes = attributes;
        if let Some(provider) = provider {
            resource.particulars_mut().provider = Some(provider);
        }
        Ok(resource)
    }
}

/// Returns the declaration that restores the state of a resource before its first recorded change, or the reason why
/// there is none.
///
/// # Errors
/// If the history cannot be read; reported.
pub(crate) fn restoration(
    history: &History,
    type_name: &str,
    title: &str,
    session: &Session,
    registry: &Registry,
) -> Result<Result<Resource, EcoString>, Exit> {
    let subject = RecordedResource { type_name: type_name.to_owned(), title: title.to_owned() };
    let key = SealingKey::of(&session.state_dir()?).ok();
    let changes = of_resource(history, &subject, Some(i64::MIN))?;
    let Some(change) = changes.first() else { return Ok(Err("kilter has never changed it".into())) };
    match change.resource(history, key.as_ref(), registry) {
        Ok(mut resource) => {
            resource.particulars_mut().is_reversal = true;
            Ok(Ok(resource))
        }
        Err(UndoRefusal::Reason(why)) => Ok(Err(why)),
        Err(UndoRefusal::History(exit)) => Err(exit),
    }
}

/// Returns the chosen changes, each resource once with its state before the first of them.
fn chosen(history: &History, args: &UndoArgs) -> Result<Vec<RecordedChange>, Exit> {
    let to = args.to.as_deref().map(parsed_time).transpose()?;
    match (&args.subject, to) {
        (None, None) => Err(output::fail_with(
            "what to undo is missing",
            [
                "name a run (`kilter history` lists them), `last`, a resource such as 'file[/etc/motd]', or a time: --to 2h",
            ],
        )),
        (None, Some(to)) => changes_since(history, to, None),
        (Some(subject), to) if subject.contains('[') => {
            let subject = RecordedResource::of(history, subject)?;
            of_resource(history, &subject, to)
        }
        (Some(_), Some(_)) => {
            Err(output::fail_with("--to names the time of a resource", ["leave it out to undo a run"]))
        }
        (Some(run), None) => {
            let run = found_run(history, run)?;
            of_run(history, run.id)
        }
    }
}

/// Collects changes in their order.
#[derive(Default)]
struct CollectedChanges {
    changes: Vec<RecordedChange>,
    known: HashSet<(String, String)>,
}

impl CollectedChanges {
    fn add(&mut self, resource: (&str, &str), before: StateBefore) {
        let (type_name, title) = (resource.0.to_owned(), resource.1.to_owned());
        if self.known.insert((type_name.clone(), title.clone())) {
            let change = RecordedChange { type_name, title, before, changed_again: None };
            self.changes.push(change);
        }
    }

    /// Adds the states that an event has saved.
    fn take(&mut self, event: &HistoryEvent) {
        if event.kind != EventKind::Before {
            return;
        }
        for created in event.body["created"].as_array().into_iter().flatten() {
            if let (Some(type_name), Some(title)) = (created[0].as_str(), created[1].as_str()) {
                self.add((type_name, title), StateBefore::Absent);
            }
        }
        let Some((type_name, title)) = &event.resource else { return };
        let text = |key: &str| event.body[key].as_str().map(str::to_owned);
        let before = match (text("state"), text("cannot")) {
            (Some(digest), _) => StateBefore::State(digest),
            (None, why) => StateBefore::Unknown(why.unwrap_or_else(|| "its state was not saved".to_owned())),
        };
        self.add((type_name, title), before);
    }
}

/// Returns the changes since a time, or after an event.
pub(super) fn changes_since(
    history: &History,
    since: i64,
    after: Option<EventId>,
) -> Result<Vec<RecordedChange>, Exit> {
    let mut collected = CollectedChanges::default();
    let selection = Selection { since: Some(since), after, order: Order::Ascending, ..Selection::default() };
    let mut take = |event: HistoryEvent| {
        collected.take(&event);
        ControlFlow::Continue(())
    };
    history.events(&selection, &mut take).map_err(|error| refuse(&error))?;
    Ok(collected.changes)
}

fn of_run(history: &History, run: RunId) -> Result<Vec<RecordedChange>, Exit> {
    let mut collected = CollectedChanges::default();
    let mut take = |event: HistoryEvent| {
        collected.take(&event);
        ControlFlow::Continue(())
    };
    history.events_of(run, &mut take).map_err(|error| refuse(&error))?;
    let mut later: HashMap<(String, String), RunId> = HashMap::new();
    let selection = Selection { after: Some(EventId(run.0)), order: Order::Ascending, ..Selection::default() };
    let mut look = |event: HistoryEvent| {
        if event.run != run && event.kind == EventKind::Outcome && event.body["status"] == "changed" {
            later.extend(event.resource.map(|resource| (resource, event.run)));
        }
        ControlFlow::Continue(())
    };
    history.events(&selection, &mut look).map_err(|error| refuse(&error))?;
    for change in &mut collected.changes {
        change.changed_again = later.get(&(change.type_name.clone(), change.title.clone())).copied();
    }
    Ok(collected.changes)
}

/// Returns the change of a resource: the last one, or the first one since a time.
fn of_resource(history: &History, subject: &RecordedResource, to: Option<i64>) -> Result<Vec<RecordedChange>, Exit> {
    let mut collected = CollectedChanges::default();
    let order = if to.is_some() { Order::Ascending } else { Order::Descending };
    let selection = Selection { since: to, order, ..Selection::default() };
    let mut last_run = None;
    let mut take = |event: HistoryEvent| {
        let has_changed = event.kind == EventKind::Outcome && event.body["status"] == "changed";
        let is_created = has_changed
            && event.body["changes"].as_array().into_iter().flatten().any(|change| {
                change["attribute"] == "ensure" && change["old"] == "absent" && change["entry"] == Json::Null
            });
        if to.is_none() && last_run.is_some_and(|run| run != event.run) {
            return ControlFlow::Break(());
        }
        if has_changed || event.kind == EventKind::Before {
            last_run = Some(event.run);
        }
        match is_created {
            true => collected.add((&subject.type_name, &subject.title), StateBefore::Absent),
            false => collected.take(&event),
        }
        match collected.changes.is_empty() {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    };
    let read = history.timeline(&subject.type_name, &subject.title, &selection, &mut take);
    read.map_err(|error| refuse(&error))?;
    Ok(collected.changes)
}
