//! Recorded changes, and the declarations that undo them.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use ecow::EcoString;
use kilter_history::{EventId, EventKind, History, HistoryEvent, Order, RunId, RunRecord, Selection};
use kilter_model::{Attributes, Behaviour, Resource, ResourceRef, SourceId, Span, TypeName, TypeSchema};
use kilter_provider::Registry;
use kilter_runtime::{SavedState, SealingKey};
use serde_json::Value as Json;

use super::{RecordedResource, refuse};
use crate::exit::Exit;
use crate::session::Session;

/// Recorded change of a resource, with its state before.
pub(crate) struct RecordedChange {
    type_name: String,
    title: String,
    before: StateBefore,
    /// Time of its batch: changes with the same time did not depend on each other.
    pub(crate) at: i64,
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
pub(crate) enum UndoRefusal {
    /// The history cannot be read; reported.
    History(Exit),
    Reason(EcoString),
}

impl RecordedChange {
    pub(crate) fn name(&self) -> String {
        format!("{}[{}]", self.type_name, self.title)
    }

    /// Returns the declaration that restores the state before the change.
    pub(crate) fn resource(
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
        add_defaults(registry.at(at).schema(), &mut attributes);
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

/// Adds the defaults of parameters, which a saved state does not contain.
pub(crate) fn add_defaults(schema: &TypeSchema, attributes: &mut Attributes) {
    for attribute in &schema.attributes {
        let is_parameter = attribute.behaviour == Behaviour::Parameter;
        if let (Some(default), None, true) = (&attribute.default, attributes.get(attribute.name.as_str()), is_parameter)
        {
            attributes.push(attribute.name.clone(), default.clone());
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
    fn add(&mut self, resource: (&str, &str), before: StateBefore, at: i64) {
        let (type_name, title) = (resource.0.to_owned(), resource.1.to_owned());
        if self.known.insert((type_name.clone(), title.clone())) {
            let change = RecordedChange { type_name, title, before, at, changed_again: None };
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
                self.add((type_name, title), StateBefore::Absent, event.at);
            }
        }
        let Some((type_name, title)) = &event.resource else { return };
        let text = |key: &str| event.body[key].as_str().map(str::to_owned);
        let before = match (text("state"), text("cannot")) {
            (Some(digest), _) => StateBefore::State(digest),
            (None, why) => StateBefore::Unknown(why.unwrap_or_else(|| "its state was not saved".to_owned())),
        };
        self.add((type_name, title), before, event.at);
    }
}

/// Returns true if the history contains changes after an event.
///
/// # Errors
/// If it cannot be read; reported.
pub(crate) fn has_changes(history: &History, after: EventId) -> Result<bool, Exit> {
    Ok(!since(history, i64::MIN, Some(after))?.is_empty())
}

/// Returns the changes since a time, or after an event.
pub(crate) fn since(history: &History, since: i64, after: Option<EventId>) -> Result<Vec<RecordedChange>, Exit> {
    let mut collected = CollectedChanges::default();
    let selection = Selection { since: Some(since), after, order: Order::Ascending, ..Selection::default() };
    let mut take = |event: HistoryEvent| {
        collected.take(&event);
        ControlFlow::Continue(())
    };
    history.events(&selection, &mut take).map_err(|error| refuse(&error))?;
    Ok(collected.changes)
}

pub(crate) fn of_run(history: &History, run: RunId) -> Result<Vec<RecordedChange>, Exit> {
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
pub(crate) fn of_resource(
    history: &History,
    subject: &RecordedResource,
    to: Option<i64>,
) -> Result<Vec<RecordedChange>, Exit> {
    let mut collected = CollectedChanges::default();
    let order = if to.is_some() { Order::Ascending } else { Order::Descending };
    let selection = Selection { since: to, order, ..Selection::default() };
    let (mut last_run, mut created) = (None, None);
    let mut take = |event: HistoryEvent| {
        let has_changed = event.kind == EventKind::Outcome && event.body["status"] == "changed";
        let is_created = has_changed
            && event.body["changes"].as_array().into_iter().flatten().any(|change| {
                change["attribute"] == "ensure" && change["old"] == "absent" && change["entry"] == Json::Null
            });
        if to.is_none() && last_run.is_some_and(|run| run != event.run) {
            return ControlFlow::Break(());
        }
        let absent = |collected: &mut CollectedChanges, at: i64| {
            collected.add((&subject.type_name, &subject.title), StateBefore::Absent, at);
        };
        if has_changed || event.kind == EventKind::Before {
            last_run = Some(event.run);
        }
        match (is_created, event.kind) {
            // The removal may need further values, such as the key of a `kv`: its state is the event before.
            (true, _) if order == Order::Descending => created = Some(event.at),
            (true, _) => absent(&mut collected, event.at),
            (false, EventKind::Outcome) if created.is_some() => absent(&mut collected, created.unwrap_or(event.at)),
            (false, _) => collected.take(&event),
        }
        match collected.changes.is_empty() {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    };
    let read = history.timeline(&subject.type_name, &subject.title, &selection, &mut take);
    read.map_err(|error| refuse(&error))?;
    if let (Some(at), true) = (created, collected.changes.is_empty()) {
        collected.add((&subject.type_name, &subject.title), StateBefore::Absent, at);
    }
    Ok(collected.changes)
}

/// A resource that a run has refreshed, and the resources whose changes were the reason.
pub(crate) struct RecordedRefresh {
    pub(crate) type_name: String,
    pub(crate) title: String,
    pub(crate) causes: Vec<String>,
}

/// Returns the resources that a run has refreshed.
///
/// # Errors
/// If the history cannot be read; reported.
pub(crate) fn refreshes(history: &History, run: RunId) -> Result<Vec<RecordedRefresh>, Exit> {
    let mut found = Vec::new();
    let mut take = |event: HistoryEvent| {
        if let (EventKind::Outcome, Some((type_name, title))) = (event.kind, event.resource)
            && let Some(by) = event.body["refreshed_by"].as_array()
        {
            let causes = by.iter().filter_map(Json::as_str).map(str::to_owned).collect();
            found.push(RecordedRefresh { type_name, title, causes });
        }
        ControlFlow::Continue(())
    };
    history.events_of(run, &mut take).map_err(|error| refuse(&error))?;
    Ok(found)
}

/// Returns the first run of a process after an event.
///
/// # Errors
/// If the history cannot be read; reported.
pub(crate) fn run_of_process(history: &History, after: EventId, pid: u32) -> Result<Option<RunId>, Exit> {
    let mut run = None;
    let mut find = |found: RunRecord| {
        let is_it = found.begin.body["pid"].as_u64() == Some(u64::from(pid));
        run = is_it.then_some(found.id);
        if is_it { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let selection = Selection { after: Some(after), order: Order::Ascending, ..Selection::default() };
    history.runs(&selection, &mut find).map_err(|error| refuse(&error))?;
    Ok(run)
}

/// Returns the changes of a run that an undo, which was killed, may have undone in part.
///
/// # Errors
/// If the history cannot be read; reported.
pub(crate) fn of_unconfirmed(history: &History, run: RunId) -> Result<Vec<RecordedChange>, Exit> {
    let mut changes = of_run(history, run)?;
    for change in &mut changes {
        // An undo that was killed may have restored it already.
        if let Some(later) = change.changed_again
            && let Some(later) = history.run(later).map_err(|error| refuse(&error))?
            && later.begin.body["command"] == "undo"
        {
            change.changed_again = None;
        }
    }
    Ok(changes)
}
