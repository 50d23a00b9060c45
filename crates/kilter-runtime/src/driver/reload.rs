//! Reload of the manifest: triggers, delays and polling.

use kilter_engine::{ResourceId, Stage, Timestamp};
use rustc_hash::FxHashSet;

use super::Driver;
use super::manifest_source::{LOOK_AT_REALIZED, Reading, Reload, ReloadNotifier};
use crate::observer::Event;

impl Driver<'_, '_, '_, '_> {
    /// Reads the manifest after a write, when no further write has followed.
    pub(super) fn look_at_declared(&mut self) {
        let Some(holder) = &mut self.holder else { return };
        if holder.is_enough || self.next.is_some() {
            // It is compared with the last read after the edit.
            holder.reading = Reading::default();
            return;
        }
        if holder.reading.look.is_some_and(|at| at <= self.now) {
            holder.finds_declared();
        }
        let reading = &mut holder.reading;
        if reading.look.is_some_and(|at| at <= self.now) {
            if reading.due.is_none() && holder.hold.declared.may_have_changed() {
                reading.touched(self.now);
            }
            reading.looked(self.now);
        }
        if reading.again.is_some_and(|at| at <= self.now) {
            reading.read_again_after(holder.hold.declared.reread_interval(), self.now);
            reading.due = reading.due.or(Some(self.now));
        }
        if reading.is_under_way || reading.due.is_none_or(|at| at > self.now) {
            return;
        }
        // A paused resource settles only after a resume, which may need the new manifest.
        if self.is_realizing() && self.holder.as_ref().is_some_and(|holder| holder.paused.is_none()) {
            // The driver reads it as soon as they have settled.
            let Some(holder) = &mut self.holder else { return };
            holder.reading.due = Some(Timestamp(self.now.0.saturating_add(LOOK_AT_REALIZED)));
            return;
        }
        let Some(holder) = &mut self.holder else { return };
        let reading = &mut holder.reading;
        (reading.due, reading.first_touched, reading.is_under_way) = (None, None, true);
        holder.hold.declared.begin_reading(ReloadNotifier(self.sender.clone()));
    }

    /// Handles the end of a read.
    pub(super) fn take_declared(&mut self) {
        let is_stopping = self.is_stopping();
        let Some(holder) = self.holder.as_mut().filter(|holder| holder.reading.is_under_way) else { return };
        let reading = &mut holder.reading;
        reading.is_under_way = false;
        if is_stopping {
            return;
        }
        let read = holder.hold.declared.read();
        reading.is_wrong = matches!(read, Reload::Wrong);
        if !matches!(read, Reload::Unsettled) {
            reading.outdated = holder.hold.declared.outdated();
        }
        reading.looked(self.now);
        match read {
            // Queued work starts.
            Reload::Same | Reload::Wrong => self.go_on(),
            Reload::Unsettled => reading.touched(self.now),
            Reload::Other(next) => {
                self.next = Some(next);
                self.observer.event(Event::Reloading);
                self.pause_for_edit();
            }
        }
    }

    /// Returns true if a resource with `realize` must still settle once before an edit may take effect.
    ///
    /// A resource that is retried forever, or waits for one, does not count.
    fn is_realizing(&self) -> bool {
        let mut realizing =
            self.prepared.each().filter(|(resource, _)| resource.meta().is_some_and(|meta| meta.realize));
        realizing.any(|(_, vertex)| {
            self.machine.settlement(vertex).is_none()
                && !self.state.held_status().is_some_and(|held_status| held_status.has_settled(vertex))
                && !self.is_held_up(vertex)
        })
    }

    /// Returns true if a vertex or one of its unsettled ancestors is retried forever, or waits for its rate limit.
    fn is_held_up(&self, vertex: ResourceId) -> bool {
        let graph = self.machine.graph();
        let (mut open, mut seen) = (vec![vertex], FxHashSet::default());
        while let Some(vertex) = open.pop() {
            if !seen.insert(vertex) || self.machine.settlement(vertex).is_some() {
                continue;
            }
            let is_tried = self.state.is_tried_again(vertex);
            let is_endless = self.prepared.resource(vertex).meta().is_some_and(|meta| meta.retry < 0);
            if is_tried && is_endless || !is_tried && self.machine.stage(vertex) == Stage::Delayed {
                return true;
            }
            open.extend(graph.incoming(vertex).iter().map(|edge| graph.edge(*edge).from));
        }
        false
    }
}
