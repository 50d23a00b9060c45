//! For tests of what is told where not everything can be confined.

use kilter_process::{Cancel, Confined, Finished, Gap, Observer, SpawnError};
use kilter_script::{Exchange, Exchanges, Live};

/// Runs scripts on a kernel that confines no further than this.
pub(crate) struct ConfinedAs(pub(crate) Confined);

impl ConfinedAs {
    /// A kernel that confines nobody, and one that keeps nobody from signalling.
    pub(crate) fn all() -> [ConfinedAs; 2] {
        [
            ConfinedAs(Confined::No { why: "no Landlock".into() }),
            ConfinedAs(Confined::Partly { gaps: vec![Gap::Signals] }),
        ]
    }
}

impl Exchanges for ConfinedAs {
    fn run<'a>(
        &self,
        exchange: &Exchange<'a>,
        cancel: Option<Cancel<'_>>,
        observer: Observer<'a>,
    ) -> Result<Finished, SpawnError> {
        let finished = Live.run(exchange, cancel, observer)?;
        Ok(Finished { confined: self.0.clone(), ..finished })
    }
}
