//! The shadow tools.

use std::time::Duration;

use ecow::{EcoString, eco_format};
use kilter_process::{Invocation, Output};
use kilter_provider::{Context, ProviderError};

use super::Accounts;
use crate::tool::{self, RecordedPart};

/// Maximum duration of a change. Moving a home directory or changing the owner of its files can take long.
const TOOL: Duration = Duration::from_secs(3600);
const QUERY: Duration = Duration::from_secs(60);
const MAX_OUTPUT_BYTES: usize = 64 * 1024;

/// Rule of the shadow tools since 4.17. Those of Debian 12 accept more names.
const ALLOWED: &str = "allowed are letters, digits, `_`, `.`, `-` and a final `$`, but no `-` at the beginning";

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
            done.map_err(with_rule_of_names)?;
        }
        Ok(())
    }

    pub(super) fn query(&self, cx: &Context<'_>, tool: &Invocation) -> Result<Output, ProviderError> {
        let tool = tool.clone().captured(MAX_OUTPUT_BYTES).deadline(QUERY);
        tool::start(self.system.runner(), cx, &tool, RecordedPart::Errors)
            .map_err(|error| ProviderError::new(error.with_sources()))
    }
}

/// Adds the rule to a failure that refuses a name. The tools name an option instead, which kilter does not use.
fn with_rule_of_names(failure: EcoString) -> EcoString {
    match ["invalid user name", "valid group name"].iter().any(|refusal| failure.contains(refusal)) {
        true => eco_format!("{failure} ({ALLOWED})"),
        false => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_name_comes_with_the_rule() {
        for failure in
            ["useradd: invalid user name 'a@b': use --badname to ignore", "groupadd: 'a@b' is not a valid group name"]
        {
            let shown = with_rule_of_names(failure.into());
            assert!(shown.starts_with(failure) && shown.contains("final `$`"), "{shown}");
        }
        let other = "useradd: cannot lock /etc/passwd; try again later.";
        assert_eq!(with_rule_of_names(other.into()), other);
    }
}
