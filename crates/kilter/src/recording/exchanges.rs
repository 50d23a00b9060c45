//! Scripts under recording, and replayed scripts.

use std::sync::Arc;
use std::time::Instant;

use kilter_process::{Cancel, Finished, Observer, SpawnError};
use kilter_script::recorded::{Overheard, RecordedExchange};
use kilter_script::{Exchange, Exchanges, Live};

use super::player::Player;
use super::recorder::Recorder;

/// Runs scripts and records the results.
pub(super) struct Recorded(pub(super) Arc<Recorder>);

impl Exchanges for Recorded {
    fn run<'a>(
        &self,
        exchange: &Exchange<'a>,
        cancel: Option<Cancel<'_>>,
        observer: Observer<'a>,
    ) -> Result<Finished, SpawnError> {
        // A call without an end cannot be recorded.
        if exchange.is_endless() {
            return Live.run(exchange, cancel, observer);
        }
        let asked = RecordedExchange::asked(exchange);
        let secrets = exchange.seal.texts();
        self.0.learn(|veil| secrets.iter().for_each(|secret| veil.learn(secret)));
        let mut overheard = Overheard::default();
        let began = Instant::now();
        let result = Live.run(exchange, cancel, &mut |event| {
            overheard.observe(&event);
            observer(event);
        });
        self.0.exchanged(asked.answered(&result, overheard, began.elapsed()));
        result
    }
}

/// Replays scripts from a recording.
pub(super) struct Played(pub(super) Arc<Player>);

impl Exchanges for Played {
    fn run<'a>(
        &self,
        exchange: &Exchange<'a>,
        _: Option<Cancel<'_>>,
        observer: Observer<'a>,
    ) -> Result<Finished, SpawnError> {
        if exchange.is_endless() {
            return Err(SpawnError::Told { text: "a recording has no watches".into() });
        }
        let recorded = self.0.exchange(&RecordedExchange::asked(exchange));
        recorded.map_err(|text| SpawnError::Told { text })?.play(exchange.invocation, observer)
    }
}
