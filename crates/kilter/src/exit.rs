//! Exit codes, which are part of the command's interface (docs/reference/exit-codes.md).

use std::process::ExitCode;

/// Result of the command, with its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// In sync, no change needed, or all requested data shown: 0.
    Done,
    /// Not started because of a usage, manifest or environment error; the system is unchanged: 1.
    NotStarted,
    /// Changes are pending: 2.
    Pending,
    /// With `--detailed-exitcodes`, resources were changed: 2.
    Changed,
    /// A replay deviated from the recording: 3.
    Diverged,
    /// At least one resource failed, could not be checked or was skipped because of a failure: 4.
    Failed,
    /// With `--detailed-exitcodes`, resources were changed and resources failed: 6.
    ChangedAndFailed,
    /// Interrupted from the terminal: 130.
    Interrupted,
    /// Terminated by SIGTERM: 143.
    Terminated,
}

impl Exit {
    /// Returns the exit code of the process.
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
