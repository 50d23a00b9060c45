//! Builds status snapshots for `kilter status`, and answers the other requests of its socket.

use std::sync::Arc;
use std::time::Duration;

use ecow::EcoString;
use kilter_engine::{Disposition, ResourceId, Stage, Timestamp};
use kilter_provider::WatchSource;
use rustc_hash::{FxHashMap, FxHashSet};

use super::Driver;
use super::composite::StatusScope;
use super::reconcile_loop::is_watched;
use super::run_state::HeldStatus;
use super::status_snapshot::{Contest, ResourceStatus, StatusFilter, StatusRequest, StatusSnapshot, Watched};
use crate::options::Mode;

impl Driver<'_, '_, '_, '_> {
    /// Answers a request of another thread.
    pub(super) fn answer_question(&mut self, question: StatusRequest) {
        self.tick();
        // The requester may be gone and need no answer.
        match question {
            StatusRequest::Status(which, answer) => {
                // A requester that waits for changes expects to find them on disk.
                self.flush_what_was_done();
                if let Some(standings) = self.standings(&which) {
                    let _ = answer.send(standings);
                }
            }
            StatusRequest::Pause(pause, answer) => {
                let was_paused = self.pause(&pause);
                let _ = answer.send(was_paused);
            }
            StatusRequest::Resume(answer) => {
                let was_paused = self.resume();
                let _ = answer.send(was_paused);
            }
            StatusRequest::Catalog(answer) => {
                let _ = answer.send(Arc::clone(&self.prepared));
            }
            StatusRequest::Lend(answer) => {
                let is_lent = self.lend();
                let _ = answer.send(is_lent);
            }
            StatusRequest::TakeBack(answer) => {
                self.take_back();
                let _ = answer.send(());
            }
        }
    }

    fn standings(&self, which: &StatusFilter) -> Option<StatusSnapshot> {
        let (holder, held_status) = (self.holder.as_ref()?, self.state.held_status()?);
        let until = |at: Timestamp| Duration::from_millis(at.0.saturating_sub(self.now.0));
        let looks: FxHashMap<ResourceId, Duration> =
            holder.next_looks().map(|(at, vertex)| (vertex, until(at))).collect();
        let all = || self.prepared.graph.vertices();
        let StatusScope { composites, vertices, unknown } = match which {
            StatusFilter::All => self.all_asked(),
            StatusFilter::Notable => self.asked_with_owners(all().filter(|vertex| self.is_notable(*vertex)).collect()),
            StatusFilter::Named(names) => self.asked_by_name(names),
        };
        let under_way = all().filter(|vertex| self.is_open(*vertex)).count();
        let is_at_rest = |vertex: &ResourceId| {
            let is_hidden = || self.prepared.resource(*vertex).is_hidden();
            !self.is_open(*vertex) && self.state.standing_report(*vertex).is_none() && !is_hidden()
        };
        let watches = holder.watches();
        let queued = self.calls.ids_of(&self.workers.queued());
        Some(StatusSnapshot {
            held_for: self.start.elapsed(),
            noop: self.options.mode == Mode::Noop,
            quiet_for: self.quiet_since().map(|since| Duration::from_millis(self.now.0.saturating_sub(since.0))),
            paused: holder.paused.as_ref().map(|paused| paused.status(self.now)),
            in_flight: self.in_flight(),
            counts: self.state.standing_counts(),
            in_sync_now: all().filter(is_at_rest).count(),
            conditions: self.conditions(),
            source: holder.hold.declared.source(),
            polled: holder.polls.polled().count(),
            oldest_check: holder.polls.polled().filter_map(|vertex| held_status.last_check(vertex, self.now)).max(),
            under_way,
            settled: self.state.settled(),
            watches: watches.watches,
            overflows: watches.overflows,
            superseded_calls: self
                .calls
                .superseded(&self.prepared.graph)
                .map(|(call, target)| call.begun(target))
                .collect(),
            composites: composites.into_iter().map(|at| self.composite_standing(at, &queued)).collect(),
            resources: vertices
                .into_iter()
                .map(|vertex| self.held_status(held_status, vertex, looks.get(&vertex).copied(), &queued))
                .collect(),
            unknown,
        })
    }

    /// Returns true if a vertex has not settled, or waits for its next check.
    fn is_open(&self, vertex: ResourceId) -> bool {
        self.is_under_way(vertex) || self.machine.stage(vertex) == Stage::Delayed
    }

    fn is_notable(&self, vertex: ResourceId) -> bool {
        self.is_open(vertex)
            || self.state.standing_report(vertex).is_some()
            || self.machine.is_watched_only(vertex)
            || self.machine.contest(vertex).is_some()
            || self.holder.as_ref().is_some_and(|holder| holder.polls.why(vertex).is_some())
    }

    fn held_status(
        &self,
        held_status: &HeldStatus,
        vertex: ResourceId,
        next_look: Option<Duration>,
        queued: &FxHashSet<ResourceId>,
    ) -> ResourceStatus {
        let resource = self.prepared.resource(vertex);
        let report = held_status.report(vertex);
        let until = |at: Timestamp| Duration::from_millis(at.0.saturating_sub(self.now.0));
        let (waits_for, semaphore, awaited) = match self.machine.stage(vertex) {
            Stage::Unwatched => (None, None, self.awaited(vertex)),
            Stage::Waiting(parent) => (Some(parent), None, None),
            Stage::Parked { semaphore: at, holder } => {
                let semaphore = resource.meta().and_then(|meta| Some(meta.semaphores.get(at)?.id.clone()));
                let awaited = holder.and_then(|holder| self.superseded_call(holder));
                (holder.filter(|holder| self.prepared.graph.contains(*holder)), semaphore, awaited)
            }
            _ => (None, None, None),
        };
        let failure = report.map_or_else(|| self.state.failure_under_way(vertex), |report| report.failure.clone());
        ResourceStatus {
            reference: resource.reference.clone(),
            owner: self.owner(vertex),
            word: self.word(vertex, queued),
            because_of: match waits_for {
                Some(parent) => Some(self.prepared.resource(parent).reference.clone()),
                None => report.and_then(|report| report.because_of.clone()),
            },
            semaphore,
            awaits: awaited.map(|(call, target)| call.begun(target)),
            failure: failure.filter(|failure: &EcoString| !failure.is_empty()),
            owed_by: self.owed_by(vertex),
            report: report.cloned(),
            received: self.state.outputs.received(vertex),
            watched_only: self.machine.is_watched_only(vertex),
            contest: self.contest(vertex),
            watched: self.watched(vertex),
            unwatched: self.why_unwatched(vertex),
            last_check: held_status.last_check(vertex, self.now),
            next_look: self.machine.wakes_at(vertex).map(until).into_iter().chain(next_look).min(),
            tally: held_status.counters().of(vertex),
        }
    }

    /// Contest over a resource, if there is one.
    fn contest(&self, vertex: ResourceId) -> Option<Contest> {
        let contest = self.machine.contest(vertex)?;
        let between = |from: Timestamp, to: Timestamp| Duration::from_millis(to.0.saturating_sub(from.0));
        Some(Contest {
            repairs: contest.repairs,
            since: between(contest.since, self.now),
            next_repair: between(self.now, contest.next),
            differences: self.state.contests.repaired(vertex).to_vec(),
            opponent: self.state.contests.opponent(vertex).cloned(),
        })
    }

    /// Returns the word for the state of a resource.
    pub(super) fn word(&self, vertex: ResourceId, queued: &FxHashSet<ResourceId>) -> &'static str {
        let report = self.state.standing_report(vertex);
        match self.machine.stage(vertex) {
            Stage::Unwatched if self.awaited(vertex).is_some() => "waiting",
            Stage::Unwatched => "unwatched",
            Stage::Waiting(_) | Stage::Parked { .. } => "waiting",
            Stage::Ready | Stage::Owed => "ready",
            Stage::Checking | Stage::Changing | Stage::Refreshing if queued.contains(&vertex) => "queued",
            Stage::Checking => "checking",
            Stage::Changing => "changing",
            Stage::Refreshing => "refreshing",
            Stage::Delayed => "delayed",
            Stage::Settled(Disposition::Interrupted) if report.is_none() => "ready",
            Stage::Settled(_) if self.prepared.resource(vertex).is_hidden() => "hidden",
            // A changed resource is in sync.
            Stage::Settled(_) => report.map_or("in_sync", |report| report.status.word()),
        }
    }

    /// Returns the reason why a provider does not watch a resource.
    fn unwatched(&self, vertex: ResourceId) -> Option<&EcoString> {
        self.holder.as_ref()?.provider_watches.why_unwatched(vertex)
    }

    /// Returns the reason why a resource is polled instead of watched.
    fn why_unwatched(&self, vertex: ResourceId) -> Option<EcoString> {
        let of_provider = self.unwatched(vertex).cloned();
        of_provider.or_else(|| self.holder.as_ref()?.polls.why(vertex).map(EcoString::from))
    }

    fn watched(&self, vertex: ResourceId) -> Watched {
        let resource = self.prepared.resource(vertex);
        if let Some(interval) = self.holder.as_ref().and_then(|holder| holder.interval(vertex)) {
            return Watched::Polled(interval);
        }
        let followed = self.holder.as_ref().and_then(|holder| holder.followed.get(&vertex));
        let attributes = followed.map_or(&resource.attributes, |received| &received.attributes);
        let watches = self.prepared.provider(vertex).capabilities().watch().watches(&resource.name, attributes);
        let is_silent = self.unwatched(vertex).is_some();
        let tells = watches.iter().any(|watch| match watch {
            WatchSource::Poll(_) => false,
            WatchSource::Provider | WatchSource::ProviderPerResource => !is_silent,
            _ => true,
        });
        if tells && is_watched(resource) { Watched::ByEvents } else { Watched::Once }
    }
}
