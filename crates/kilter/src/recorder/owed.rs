//! Refreshes that an earlier run owed.

use std::ops::ControlFlow;

use kilter_history::{EventKind, HistoryEvent, RunId, Selection};
use kilter_model::ResourceRef;

use super::Recorder;

impl Recorder {
    /// Returns the last run before this one that changed a notifier of a resource.
    pub(super) fn owed_from(&self, refreshed: &ResourceRef) -> Option<RunId> {
        let run = self.open.as_ref()?;
        let graph = self.prepared.graph();
        let vertex = graph.vertices().find(|vertex| self.prepared.resource(*vertex).reference == *refreshed)?;
        let notifiers = graph.incoming(vertex).iter().map(|id| graph.edge(*id)).filter(|edge| edge.notify);
        let last_change = |notifier: &ResourceRef| {
            let mut last = None;
            let mut look = |event: HistoryEvent| {
                let is_change = matches!(event.body["status"].as_str(), Some("changed" | "refreshed"));
                if event.kind == EventKind::Outcome && event.run < run.id && is_change {
                    last = Some(event.run);
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            };
            let (type_name, title) = (notifier.type_name.as_str(), notifier.title.as_str());
            run.history.timeline(type_name, title, &Selection::default(), &mut look).ok()?;
            last
        };
        notifiers.filter_map(|edge| last_change(&self.prepared.resource(edge.from).reference)).max()
    }
}
