//! Exit codes, which are part of the command's interface (docs/reference/exit-codes.md).

use std::process::ExitCode;

/// Result of the command, with its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Exit code 0: in sync, no change needed, or all requested data shown.
    Done,
    /// Exit code 1: not started because of a usage, manifest or environment error; the system is unchanged.
    NotStarted,
    /// Exit code 2: changes are pending.
    Pending,
    /// Exit code 2 with `--detailed-exitcodes`: resources were changed.
    Changed,
    /// Exit code 3: a replay deviated from the recording.
    Diverged,
    /// Exit code 4: at least one resource failed, could not be checked or was skipped because of a failure.
    Failed,
    /// Exit code 5: the changes were not confirmed, and were undone.
    Reverted,
    /// Exit code 6 with `--detailed-exitcodes`: resources were changed and resources failed.
    ChangedAndFailed,
    /// Exit code 7: outside of the maintenance windows; the system is unchanged.
    OutsideWindow,
    /// Exit code 130: interrupted from the terminal.
    Interrupted,
    /// Exit code 143: terminated by SIGTERM.
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
            Exit::Reverted => 5,
            Exit::ChangedAndFailed => 6,
            Exit::OutsideWindow => 7,
            Exit::Interrupted => 130,
            Exit::Terminated => 143,
        }
    }
}

impl Exit {
    /// Returns the result with this exit code, as a command on another host reports it.
    pub(crate) fn of_code(code: u8) -> Exit {
        let all = [
            Exit::Done,
            Exit::NotStarted,
            Exit::Pending,
            Exit::Diverged,
            Exit::Reverted,
            Exit::ChangedAndFailed,
            Exit::OutsideWindow,
            Exit::Interrupted,
            Exit::Terminated,
        ];
        all.into_iter().find(|exit| exit.code() == code).unwrap_or(Exit::Failed)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}
