//! Helpers for tests of messages on kernels that cannot confine completely.

use kilter_process::{Cancel, Confined, MissingFeature, Observer, Output, SpawnError};
use kilter_script::{ProcessRunner, ScriptCall, ScriptRunner};

/// Runs scripts on a kernel that confines no further than this.
pub(crate) struct ConfinedAs(pub(crate) Confined);

impl ConfinedAs {
    /// A kernel without confinement, and one without restrictions of signals.
    pub(crate) fn all() -> [ConfinedAs; 2] {
        [
            ConfinedAs(Confined::No { why: "no Landlock".into() }),
            ConfinedAs(Confined::Partly { gaps: vec![MissingFeature::Signals] }),
        ]
    }
}

impl ScriptRunner for ConfinedAs {
    fn run<'a>(
        &self,
        exchange: &ScriptCall<'a>,
        cancel: Option<Cancel<'_>>,
        observer: Observer<'a>,
    ) -> Result<Output, SpawnError> {
        let finished = ProcessRunner.run(exchange, cancel, observer)?;
        Ok(Output { confined: self.0.clone(), ..finished })
    }
}
