//! Watch of a mold script: the action `watch` prints a document per line.

use ecow::EcoString;
use kilter_model::Value;
use kilter_provider::{Context, ProviderError, WatchSink};

use super::error::MoldCause;
use super::resource::MoldProvider;
use super::runner::WATCH;
use crate::json;
use crate::watch_reader::WatchReader;

impl MoldProvider {
    /// Runs the script and forwards its events until it is interrupted. The documents are the same as in the
    /// `json` convention.
    pub(super) fn listen(&self, cx: &Context<'_>, tell: &dyn WatchSink) -> Result<(), ProviderError> {
        let kind = self.known().schema.name.as_str();
        let input = Value::hash([("kind", Value::from(kind))]);
        let nobody = EcoString::new();
        let call = self.call(WATCH, &nobody, &input);
        let mut hearing = WatchReader::new(json::watch::listener(), kind, cx, tell);
        let ended = self.runner().run_observed(cx, &call, &mut |event| hearing.observe(event));
        match ended {
            // An interrupted watch is not an error.
            _ if cx.interrupt().is_raised() => Ok(()),
            Err(error) => Err(error.into()),
            Ok(finished) => Err(call.error(MoldCause::Ended, Some(&finished)).into()),
        }
    }
}
