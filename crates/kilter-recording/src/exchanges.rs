//! Scripts under recording, and replayed scripts.

use std::sync::Arc;
use std::time::Instant;

use kilter_process::{Cancel, Observer, Output, SpawnError};
use kilter_script::recorded::{CallRecorder, RecordedExchange};
use kilter_script::{ProcessRunner, ScriptCall, ScriptRunner};

use crate::player::Player;
use crate::recorder::Recorder;

/// Runs scripts and records the results.
pub(crate) struct Recorded(pub(crate) Arc<Recorder>);

impl ScriptRunner for Recorded {
    fn run<'a>(
        &self,
        exchange: &ScriptCall<'a>,
        cancel: Option<Cancel<'_>>,
        observer: Observer<'a>,
    ) -> Result<Output, SpawnError> {
        // A call without an end cannot be recorded.
        if exchange.is_endless() {
            return ProcessRunner.run(exchange, cancel, observer);
        }
        let asked = RecordedExchange::asked(exchange);
        let secrets = exchange.seal.texts();
        self.0.register_secrets(|masker| secrets.iter().for_each(|secret| masker.register_secrets(secret)));
        let mut overheard = CallRecorder::default();
        let began = Instant::now();
        let result = ProcessRunner.run(exchange, cancel, &mut |event| {
            overheard.observe(&event);
            observer(event);
        });
        self.0.exchanged(asked.answered(&result, overheard, began.elapsed()));
        result
    }
}

/// Replays scripts from a recording.
pub(crate) struct Played(pub(crate) Arc<Player>);

impl ScriptRunner for Played {
    fn run<'a>(
        &self,
        exchange: &ScriptCall<'a>,
        _: Option<Cancel<'_>>,
        observer: Observer<'a>,
    ) -> Result<Output, SpawnError> {
        if exchange.is_endless() {
            return Err(SpawnError::Reported { text: "a recording has no watches".into() });
        }
        let recorded = self.0.exchange(&RecordedExchange::asked(exchange));
        recorded.map_err(|text| SpawnError::Reported { text })?.play(exchange.invocation, observer)
    }
}
