//! Trace of a run: when calls were made and resources settled, for reports.

use std::collections::VecDeque;
use std::time::{Duration, Instant, SystemTime};

use ecow::EcoString;
use kilter_model::ResourceRef;
use kilter_runtime::{Event, Observer, PendingChange, Report, ResourceReport};
use rustc_hash::FxHashMap;

/// Maximum number of calls, and of resources, in a trace. A run that holds a state keeps the newest calls.
const MAX_ENTRIES: usize = 20_000;

/// Maximum number of results in the trace of a run that holds a state, the newest ones.
const MAX_RESULTS: usize = 1_000;

/// Trace of a run. Times are relative to its start.
#[derive(Debug)]
pub(crate) struct Trace {
    /// Time of the start.
    pub(crate) started: SystemTime,
    start: Instant,
    /// Calls on workers that have ended, in the order of their ends.
    pub(crate) calls: VecDeque<TracedCall>,
    /// Last settlement of each resource that was not simply in sync.
    settled: FxHashMap<ResourceRef, Duration>,
    /// For a run that holds a state: the newest results, with their times. Its report has the last ones only.
    pub(crate) results: Option<VecDeque<(Duration, ResourceReport)>>,
}

/// Call on a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TracedCall {
    /// First resource of the call.
    pub(crate) reference: ResourceRef,
    /// Number of its resources.
    pub(crate) resources: usize,
    /// Kind of the call: `checking`, `changing`, `refreshing`.
    pub(crate) doing: &'static str,
    /// Start and end.
    pub(crate) start: Duration,
    pub(crate) end: Duration,
}

impl Trace {
    /// Starts a trace.
    pub(crate) fn new(holds: bool) -> Trace {
        Trace {
            results: holds.then(VecDeque::new),
            started: SystemTime::now(),
            start: Instant::now(),
            calls: VecDeque::new(),
            settled: FxHashMap::default(),
        }
    }

    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Called { reference, resources, doing, duration } => {
                let end = self.start.elapsed();
                if self.calls.len() == MAX_ENTRIES {
                    self.calls.pop_front();
                }
                self.calls.push_back(TracedCall {
                    reference: (*reference).clone(),
                    resources: *resources,
                    doing,
                    start: end.saturating_sub(*duration),
                    end,
                });
            }
            Event::Settled(report) => {
                let at = self.start.elapsed();
                match &mut self.results {
                    Some(results) => {
                        if results.len() == MAX_RESULTS {
                            results.pop_front();
                        }
                        results.push_back((at, (*report).clone()));
                    }
                    None if self.settled.len() < MAX_ENTRIES => drop(self.settled.insert(report.reference.clone(), at)),
                    None => {}
                }
            }
            _ => {}
        }
    }

    /// Returns the end of the run. The trace starts before the clock of the report.
    pub(crate) fn end(&self, report: &Report) -> Duration {
        let calls = self.calls.iter().map(|call| call.end);
        let results = self.results.iter().flatten().map(|(at, _)| *at);
        calls.chain(self.settled.values().copied()).chain(results).fold(report.duration, Duration::max)
    }

    /// Returns the work on resources with a result, and the other calls. The order is that of the report, or that of
    /// time for a run that holds a state.
    pub(crate) fn spans<'a>(&'a self, report: &'a Report) -> (Vec<ResourceSpan<'a>>, Vec<&'a TracedCall>) {
        let span = |end: Duration, report: &'a ResourceReport| ResourceSpan {
            report,
            start: end.saturating_sub(report.duration),
            end,
            calls: Vec::new(),
        };
        let mut spans: Vec<ResourceSpan<'a>> = match &self.results {
            Some(results) => results.iter().map(|(at, report)| span(*at, report)).collect(),
            None => {
                let at = |report: &ResourceReport| self.settled.get(&report.reference).copied();
                report.resources.iter().filter_map(|report| Some(span(at(report)?, report))).collect()
            }
        };
        let mut of_resource: FxHashMap<&ResourceRef, Vec<usize>> = FxHashMap::default();
        for (at, span) in spans.iter().enumerate() {
            of_resource.entry(&span.report.reference).or_default().push(at);
        }
        let mut others = Vec::new();
        for call in &self.calls {
            let results = of_resource.get(&call.reference).filter(|_| call.resources == 1);
            // A call belongs to the next result of its resource.
            match results.and_then(|all| all.iter().find(|at| spans[**at].end >= call.end)) {
                Some(&at) => {
                    spans[at].start = spans[at].start.min(call.start);
                    spans[at].calls.push(call);
                }
                None => others.push(call),
            }
        }
        (spans, others)
    }
}

/// Work on a resource: from its first call, or by the duration of its changes, to its settlement.
pub(crate) struct ResourceSpan<'a> {
    pub(crate) report: &'a ResourceReport,
    pub(crate) start: Duration,
    pub(crate) end: Duration,
    /// Calls for this resource alone.
    pub(crate) calls: Vec<&'a TracedCall>,
}

/// Observer that records a trace and forwards the events.
pub(crate) struct Traced<'a> {
    pub(crate) trace: &'a mut Trace,
    pub(crate) observer: &'a mut dyn Observer,
}

impl Observer for Traced<'_> {
    fn event(&mut self, event: Event<'_>) {
        self.trace.event(&event);
        self.observer.event(event);
    }

    fn before_changes(&mut self, changes: &[PendingChange<'_>]) -> Result<(), EcoString> {
        self.observer.before_changes(changes)
    }
}

#[cfg(test)]
mod tests {
    use kilter_runtime::NullObserver;

    use super::*;

    #[test]
    fn trace_keeps_the_newest_calls() {
        let mut trace = Trace::new(false);
        let mut traced = Traced { trace: &mut trace, observer: &mut NullObserver };
        for at in 0..MAX_ENTRIES + 2 {
            let reference = &ResourceRef::new("exec", at.to_string().as_str());
            let duration = Duration::from_secs(3600);
            traced.event(Event::Called { reference, resources: 1, doing: "checking", duration });
        }
        assert_eq!(trace.calls.len(), MAX_ENTRIES);
        assert_eq!(trace.calls[0].reference, ResourceRef::new("exec", "2"));
        // A call that started before the trace begins at its start.
        assert_eq!(trace.calls[0].start, Duration::ZERO);
    }
}
