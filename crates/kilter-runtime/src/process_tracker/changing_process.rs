//! Process that changed a file.

use ecow::EcoString;

/// Origin of a difference that a run has found in a held file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangedBy {
    /// Last process that changed the file.
    Process(ChangingProcess),
    /// The process is unknown, for this reason.
    Unknown(EcoString),
}

/// Process that changed a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangingProcess {
    /// Number of the process.
    pub pid: u32,
    /// None if the process ended before kilter could read them.
    pub details: Option<ProcessDetails>,
    /// True if kilter or a process of kilter started it. None if it has ended, and that is unknown.
    pub is_own: Option<bool>,
}

impl ChangingProcess {
    /// Returns true if kilter certainly did not start the process.
    pub(crate) fn is_foreign(&self) -> bool {
        self.is_own == Some(false)
    }
}

/// Program, user and origin of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessDetails {
    /// Name of the program.
    pub program: EcoString,
    /// Command line, up to 4 KiB; empty if the process has ended.
    pub command: Vec<EcoString>,
    /// Real user.
    pub uid: u32,
    /// Unit of systemd.
    pub unit: Option<EcoString>,
    /// Controlling terminal.
    pub terminal: Option<EcoString>,
}
