//! `kilter undo`: restores the state of resources before recorded changes.
//!
//! The saved states become declarations, so that an undo is a run like any other: with a plan, a report and a record.

use std::sync::Arc;

use kilter_history::{EventId, History};
use kilter_model::{Catalog, Relation, RelationKind, Resource, ResourceRef, SourceId, Span, TypeName};
use kilter_provider::Registry;
use kilter_runtime::{Mode, Prepared, SealingKey, plan_of};

use super::exec_options::ExecOptions;
use crate::cli::{ReportFormat, UndoArgs};
use crate::exit::Exit;
use crate::past::{self, RecordedChange, RecordedRefresh, RecordedResource, UndoRefusal, found_run, open};
use crate::recorder::OnFailure;
use crate::run_inputs::RunInputs;
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
    let ChosenChanges { changes, subject, head } = chosen(&history, args)?;
    if changes.is_empty() {
        output::line(format_args!(
            "there is nothing to undo: no change{} is on record, or its events were removed because of their age",
            subject.strip_prefix("run ").map(|run| format!(" of run {run}")).unwrap_or_default()
        ));
        return Ok(Exit::Done);
    }
    if let Some(head) = head.filter(|_| !session.global.quiet) {
        output::line(head);
    }
    let registry = providers::registry(session)?;
    let mut restored = restored(&history, &changes, session, &registry)?;
    let prepared = prepared(&mut restored, &registry)?;
    if restored.refused > 0 && !args.partly && !args.noop {
        let text =
            format_args!("{} of {} changes cannot be undone; nothing was changed", restored.refused, changes.len());
        return Err(output::fail_with(text, ["--partly undoes the others, --noop shows them"]));
    }
    if prepared.resources().is_empty() {
        return Ok(Exit::Failed);
    }
    if restored.has_secrets() && !session.global.quiet {
        output::hint("secrets are not shown, and neither are saved contents that the undone run did not declare");
    }
    session.set_inputs(RunInputs::of_undo(&subject));
    signals::listen()?;
    let mode = if args.noop { Mode::Noop } else { Mode::Apply };
    let pass = ExecOptions::one_by_one(mode, args.format, args.even_if_paused);
    let exit = pass.carry_out(&prepared, session);
    if !args.noop && exit == Exit::Done && !session.global.quiet {
        output::hint("a manifest that still declares these resources changes them again at its next run");
    }
    Ok(exit)
}

/// Undoes all changes of the apply of a process that can be undone. A history that cannot be written does not prevent
/// that.
pub(super) fn undo_apply(history: &History, after: EventId, pid: u32, session: &Session) -> Exit {
    match undone_apply(history, after, pid, session) {
        Ok(exit) | Err(exit) => exit,
    }
}

fn undone_apply(history: &History, after: EventId, pid: u32, session: &Session) -> Result<Exit, Exit> {
    // Without a record, nothing was changed.
    let Some(run) = past::run_of_process(history, after, pid)? else { return Ok(Exit::Done) };
    let changes = past::of_unconfirmed(history, run)?;
    let registry = providers::registry(session)?;
    let mut restored = restored(history, &changes, session, &registry)?;
    restored.refresh(&past::refreshes(history, run)?);
    let prepared = prepared(&mut restored, &registry)?;
    let pass = ExecOptions {
        on_unrecorded: OnFailure::Continue,
        ..ExecOptions::one_by_one(Mode::Apply, ReportFormat::Human, true)
    };
    let exit = if prepared.resources().is_empty() { Exit::Done } else { pass.carry_out(&prepared, session) };
    Ok(if restored.refused == 0 { exit } else { Exit::Failed })
}

/// Declarations that restore the state before some changes.
struct Restored {
    /// Resources with the time of their change. The last change comes first.
    resources: Vec<(Resource, i64)>,
    /// Number of changes that cannot be undone; reported.
    refused: usize,
    /// Services that read restored files, each with the resources that refresh it.
    refreshed: Vec<(Resource, Vec<ResourceRef>)>,
}

impl Restored {
    /// Returns true if the report redacts a restored value.
    fn has_secrets(&self) -> bool {
        let mut values = self.resources.iter().flat_map(|(resource, _)| resource.attributes.iter());
        values.any(|(_, value)| value.holds_sensitive())
    }

    /// Refreshes the services again that the run has refreshed: they still use the files that were undone.
    fn refresh(&mut self, refreshes: &[RecordedRefresh]) {
        for refresh in refreshes.iter().filter(|refresh| refresh.type_name == "service") {
            let is_cause = |(resource, _): &&(Resource, i64)| refresh.causes.contains(&resource.reference.to_string());
            let causes: Vec<ResourceRef> =
                self.resources.iter().filter(is_cause).map(|(resource, _)| resource.reference.clone()).collect();
            if causes.is_empty() {
                continue;
            }
            let reference = ResourceRef::new(TypeName::from(refresh.type_name.as_str()), refresh.title.as_str());
            let at = self.resources.iter().position(|(resource, _)| resource.reference == reference);
            // It follows its files, so it leaves the reverse order.
            let resource = match at {
                Some(at) => self.resources.remove(at).0,
                None => Resource::new(reference, refresh.title.clone(), Span::new(SourceId(0), 0, 0)),
            };
            self.refreshed.push((resource, causes));
        }
    }

    /// Returns the declarations and their order.
    fn catalog(&self) -> Catalog {
        let mut relations = reverse_order(&self.resources);
        let first = self.resources.len();
        for (number, (_, causes)) in self.refreshed.iter().enumerate() {
            let position = |cause: &ResourceRef| self.resources.iter().position(|(one, _)| one.reference == *cause);
            for cause in causes.iter().filter_map(position) {
                let (first, second) = (cause as u32, (first + number) as u32);
                let span = Span::new(SourceId(0), 0, 0);
                relations.push(Relation { first, second, kind: RelationKind::Notify, span });
            }
        }
        let restored = self.resources.iter().map(|(resource, _)| resource);
        let refreshed = self.refreshed.iter().map(|(resource, _)| resource);
        let resources = restored.chain(refreshed).cloned().map(Arc::new).collect();
        Catalog { resources, relations, is_undo: true, ..Catalog::default() }
    }
}

fn restored(
    history: &History,
    changes: &[RecordedChange],
    session: &Session,
    registry: &Registry,
) -> Result<Restored, Exit> {
    let key = SealingKey::of(&session.state_dir()?).ok();
    let mut restored = Restored { resources: Vec::new(), refused: 0, refreshed: Vec::new() };
    for change in changes.iter().rev() {
        match change.resource(history, key.as_ref(), registry) {
            Ok(resource) => restored.resources.push((resource, change.at)),
            Err(UndoRefusal::History(exit)) => return Err(exit),
            Err(UndoRefusal::Reason(why)) => {
                restored.refused += 1;
                output::line(format_args!("cannot be undone: {}: {}", visible(&change.name()), visible(&why)));
            }
        }
    }
    Ok(restored)
}

/// Prepares the restoration. A declaration that a provider refuses cannot be undone; it is reported and counted.
fn prepared(restored: &mut Restored, registry: &Registry) -> Result<Prepared, Exit> {
    loop {
        let rejected = match plan_of(restored.catalog(), registry, &providers::declaring(registry.hostname())) {
            Ok(prepared) => return Ok(prepared),
            Err(rejected) => rejected,
        };
        let mut refused: Vec<usize> = rejected.problems.iter().map(|(vertex, _)| vertex.slot()).collect();
        for (vertex, problem) in &rejected.problems {
            let reference = &rejected.catalog.resources[vertex.slot()].reference;
            output::line(format_args!("cannot be undone: {reference}: {}", visible(&problem.message)));
        }
        refused.sort_unstable();
        refused.dedup();
        if refused.is_empty() {
            return Err(signals::exit().unwrap_or_else(|| output::fail("the earlier states depend on each other")));
        }
        restored.refused += refused.len();
        for at in refused.into_iter().rev() {
            match at.checked_sub(restored.resources.len()) {
                Some(at) => drop(restored.refreshed.remove(at)),
                None => drop(restored.resources.remove(at)),
            }
        }
    }
}

/// Maximum number of relations between two batches.
const MAX_RELATIONS: usize = 4096;

/// Returns the relations that restore batches of changes in their reverse order.
fn reverse_order(restored: &[(Resource, i64)]) -> Vec<Relation> {
    let mut relations = Vec::new();
    let mut before = 0..0;
    let mut start = 0;
    for batch in restored.chunk_by(|(_, one), (_, other)| one == other) {
        let now = start..start + batch.len() as u32;
        start = now.end;
        let mut add = |first, second| {
            let span = Span::new(SourceId(0), 0, 0);
            relations.push(Relation { first, second, kind: RelationKind::Before, span });
        };
        if before.len() * now.len() <= MAX_RELATIONS {
            before.clone().for_each(|first| now.clone().for_each(|second| add(first, second)));
        } else {
            // The first one of a large batch waits for all, and the others wait for it.
            before.clone().for_each(|first| add(first, now.start));
            (now.start + 1..now.end).for_each(|second| add(now.start, second));
        }
        before = now;
    }
    relations
}

/// Changes to undo.
struct ChosenChanges {
    /// Each resource once, with its state before the first of its changes.
    changes: Vec<RecordedChange>,
    /// The changes in words.
    subject: String,
    /// Line above the plan that names the run of `last`.
    head: Option<String>,
}

/// Returns the changes that the arguments choose.
fn chosen(history: &History, args: &UndoArgs) -> Result<ChosenChanges, Exit> {
    // The state at a time contains the changes of its millisecond.
    let to = args.to.as_deref().map(past::time::parsed).transpose()?.map(|to| to.saturating_add(1));
    let mut subject: Vec<String> = args.subject.clone().into_iter().collect();
    let mut head = None;
    let changes = match (args.subject.as_deref(), to) {
        (None, None) => Err(output::fail_with(
            "what to undo is missing",
            ["name a run (`kilter history` lists them), `last`, a resource such as 'file[/etc/motd]', or a time: \
                 --to 2h"],
        )),
        (None, Some(to)) => past::since(history, to, None),
        (Some(subject), to) if subject.contains('[') => {
            let subject = RecordedResource::of(history, subject)?;
            past::of_resource(history, &subject, to)
        }
        (Some(_), Some(_)) => {
            Err(output::fail_with("--to names the time of a resource", ["leave it out to undo a run"]))
        }
        (Some("last"), None) => match past::last_changing_run(history)? {
            Some(run) => {
                subject = vec![format!("run {}", run.id.0)];
                let command = past::command(&run.begin.body);
                head = Some(format!("undo of run {} ({command}, {})", run.id.0, past::time::shown(run.begin.at)));
                past::of_run(history, run.id)
            }
            None => Ok(Vec::new()),
        },
        (Some(run), None) => {
            let run = found_run(history, run)?;
            subject = vec![format!("run {}", run.id.0)];
            past::of_run(history, run.id)
        }
    }?;
    subject.extend(args.to.as_deref().map(|to| format!("to {to}")));
    Ok(ChosenChanges { changes, subject: subject.join(" "), head })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(type_name: &str, title: &str) -> Resource {
        let reference = ResourceRef::new(TypeName::from(type_name), title);
        Resource::new(reference, title, Span::new(SourceId(0), 0, 0))
    }

    #[test]
    fn refreshed_service_follows_its_restored_file_and_is_refreshed_by_it() {
        let refresh = |title: &str, cause: &str| RecordedRefresh {
            type_name: "service".to_owned(),
            title: title.to_owned(),
            causes: vec![cause.to_owned()],
        };
        let resources = vec![(resource("service", "ssh"), 2), (resource("file", "/x"), 1)];
        let mut restored = Restored { resources, refused: 0, refreshed: Vec::new() };
        restored.refresh(&[refresh("ssh", "file[/x]"), refresh("cron", "file[/x]"), refresh("other", "file[/y]")]);
        let catalog = restored.catalog();
        let names: Vec<String> = catalog.resources.iter().map(|one| one.reference.to_string()).collect();
        assert_eq!(names, ["file[/x]", "service[ssh]", "service[cron]"]);
        let relations: Vec<(u32, u32)> = catalog.relations.iter().map(|one| (one.first, one.second)).collect();
        assert_eq!(relations, [(0, 1), (0, 2)]);
        assert!(catalog.relations.iter().all(|one| one.kind == RelationKind::Notify));
    }
}
