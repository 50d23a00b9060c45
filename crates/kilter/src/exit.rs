//! What the command ends with: a part of its interface (docs/reference/exit-codes.md).

use std::process::ExitCode;

/// What the command ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// In the declared state now, or nothing to change, or all that was asked for was shown: 0.
    Done,
    /// Not started: a usage, manifest or environment error; nothing was touched: 1.
    NotStarted,
    /// Changes are pending: 2.
    Pending,
    /// With `--detailed-exitcodes`, something was changed: 2.
    Changed,
    /// A replay went another way than the recording: 3.
    Diverged,
    /// At least one resource failed, could not be checked or was skipped because of a failure: 4.
    Failed,
    /// With `--detailed-exitcodes`, something was changed and something failed: 6.
    ChangedAndFailed,
    /// Interrupted from the terminal: 130.
    Interrupted,
    /// Asked to end by SIGTERM: 143.
    Terminated,
}

impl Exit {
    /// The number that the process ends with.
    pub(crate) fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::NotStarted => 1,
            Exit::Pending | Exit::Changed => 2,
            Exit::Diverged => 3,
            Exit::Failed => 4,
            Exit::ChangedAndFailed => 6,
            Exit::Interrupted => 130,
            Exit::Terminated => 143,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}
