//! The shadow tools.

use std::time::Duration;

use ecow::EcoString;
use kilter_process::{Invocation, Output, SpawnError, Termination};
use kilter_provider::{Context, ProviderError};

use super::Accounts;
use crate::words::{cancel, ending_of};

/// Maximum duration of a change. Moving a home directory or changing the owner of its files can take long.
const TOOL: Duration = Duration::from_secs(3600);
const QUERY: Duration = Duration::from_secs(60);
const MAX_OUTPUT_BYTES: usize = 64 * 1024;

impl Accounts {
    /// Runs the tools in sequence, up to the first failure.
    ///
    /// # Errors
    /// Names the failed tool and the reason, but no arguments.
    pub(crate) fn change(&self, cx: &Context<'_>, tools: Vec<Invocation>) -> Result<(), EcoString> {
        let _turn = self.lock();
        for tool in tools {
            let name = tool.program.to_string_lossy().into_owned();
            let finished = self.start(cx, tool.captured(MAX_OUTPUT_BYTES).deadline(TOOL));
            self.forget();
            let finished = finished.map_err(|error| EcoString::from(error.with_sources()))?;
            if !finished.is_success() {
                return Err(failure(&name, &finished));
            }
        }
        Ok(())
    }

    pub(super) fn query(&self, cx: &Context<'_>, tool: &Invocation) -> Result<Output, ProviderError> {
        self.start(cx, tool.clone().captured(MAX_OUTPUT_BYTES).deadline(QUERY))
            .map_err(|error| ProviderError::new(error.with_sources()))
    }

    fn start(&self, cx: &Context<'_>, tool: Invocation) -> Result<Output, SpawnError> {
        self.system.runner().run(&tool, cancel(cx))
    }
}

fn failure(name: &str, finished: &Output) -> EcoString {
    let how = match finished.ending {
        Termination::Exited => format!("{name} failed with {}", finished.status),
        Termination::Deadline => format!("{name} did not finish within {} s", TOOL.as_secs()),
        Termination::OutputLimit => format!("{name} wrote too much"),
        Termination::Cancelled => format!("{name} was interrupted"),
    };
    match ending_of(&finished.stderr.text()) {
        Some(said) => format!("{how}: {said}").into(),
        None => how.into(),
    }
}
