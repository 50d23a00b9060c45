//! Sources of events for a resource.

use std::path::Path;

use kilter_provider::WatchSource;

use crate::driver::clock::millis;
use crate::watch::{EventSource, PathWatch, Scope};

/// Sources of events for a resource.
#[derive(Default)]
pub(super) struct WatchPlan {
    pub(super) paths: Vec<PathWatch>,
    pub(super) event_sources: Vec<EventSource>,
    /// Poll interval in milliseconds.
    pub(super) interval: Option<u64>,
    /// Events of the provider, by the name of the resource.
    pub(super) telling: Option<NotifyScope>,
}

/// Selection of a provider's events: all of its resources, or one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotifyScope {
    All,
    Alone,
}

impl WatchPlan {
    pub(super) fn of(watches: Vec<WatchSource>, state_dir: Option<&Path>) -> WatchPlan {
        let mut ways = WatchPlan::default();
        for watch in watches {
            match watch {
                WatchSource::Path { path, scope } => ways.paths.push(PathWatch { path, scope }),
                WatchSource::StateFile(path) => {
                    ways.paths.extend(state_dir.map(|kept| PathWatch { path: kept.join(path), scope: Scope::This }));
                }
                WatchSource::Network(what) => ways.event_sources.push(EventSource::Network(what)),
                WatchSource::Process(file) => {
                    ways.paths.push(PathWatch { path: file.clone(), scope: Scope::This });
                    ways.event_sources.push(EventSource::Process(file));
                }
                WatchSource::Poll(interval) => {
                    let interval = millis(interval).max(1);
                    ways.interval = Some(ways.interval.map_or(interval, |known| interval.min(known)));
                }
                WatchSource::Provider => ways.telling = Some(NotifyScope::All),
                WatchSource::ProviderPerResource => ways.telling = Some(NotifyScope::Alone),
            }
        }
        ways
    }
}
