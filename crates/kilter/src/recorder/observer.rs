//! Observer between a run and its output.

use ecow::EcoString;
use kilter_runtime::{Event, Observer, PendingChange};

use super::Recorder;

/// Observer that records a run, and forwards its events.
pub(crate) struct RecordedObserver<'a> {
    /// Recorder; none if the run is not recorded.
    pub(crate) recorder: Option<&'a mut Recorder>,
    /// Observer of the output.
    pub(crate) shown: &'a mut dyn Observer,
}

impl Observer for RecordedObserver<'_> {
    fn event(&mut self, event: Event<'_>) {
        if let Some(recorder) = &mut self.recorder {
            recorder.event(event);
        }
        self.shown.event(event);
    }

    fn before_changes(&mut self, changes: &[PendingChange<'_>]) -> Result<(), EcoString> {
        self.recorder.as_mut().map_or(Ok(()), |recorder| recorder.before_changes(changes))
    }
}
