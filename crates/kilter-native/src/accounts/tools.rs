//! The shadow tools.

use std::time::Duration;

use ecow::EcoString;
use kilter_process::{Invocation, Output};
use kilter_provider::{Context, ProviderError};

use super::Accounts;
use crate::tool::{self, RecordedPart};

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
            let done = tool::run(self.system.runner(), cx, tool, TOOL);
            self.forget();
            done?;
        }
        Ok(())
    }

    pub(super) fn query(&self, cx: &Context<'_>, tool: &Invocation) -> Result<Output, ProviderError> {
        let tool = tool.clone().captured(MAX_OUTPUT_BYTES).deadline(QUERY);
        tool::start(self.system.runner(), cx, &tool, RecordedPart::Errors)
            .map_err(|error| ProviderError::new(error.with_sources()))
    }
}
