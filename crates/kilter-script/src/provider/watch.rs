//! Watch of a script.

use ecow::eco_format;
use kilter_provider::{Context, ProviderError, WatchSink};

use super::ScriptProvider;
use super::error::circumstances;
use crate::convention::Request;
use crate::watch_reader::WatchReader;

impl ScriptProvider {
    /// Runs the script and forwards its events until it is interrupted.
    pub(super) fn listen(&self, cx: &Context<'_>, tell: &dyn WatchSink) -> Result<(), ProviderError> {
        let type_name = self.metadata.schema.name.as_str();
        let mut hearing = WatchReader::new(self.convention.listener(), type_name, cx, tell);
        let ended = self.call_observed(cx, &Request::Watch, &mut |event| hearing.observe(event));
        match ended {
            // An interrupted watch is not an error.
            _ if cx.interrupt().is_raised() => Ok(()),
            Err(error) => Err(error.into()),
            Ok((_, by)) => Err(ProviderError::new(eco_format!(
                "watch by the provider `{}` ({}, {}): it has ended{}",
                self.metadata.name,
                self.metadata.convention,
                self.path.display(),
                circumstances(Some(&by.status), &by.last_words)
            ))),
        }
    }
}
