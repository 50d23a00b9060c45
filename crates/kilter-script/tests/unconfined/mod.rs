//! For tests of what is told where nothing can be confined.

use kilter_process::{Cancel, Confined, Finished, Observer, SpawnError};
use kilter_script::{Exchange, Exchanges, Live};

/// Runs scripts on a kernel that cannot confine them.
pub(crate) struct Unconfined;

impl Exchanges for Unconfined {
    fn run<'a>(
        &self,
        exchange: &Exchange<'a>,
        cancel: Option<Cancel<'_>>,
        observer: Observer<'a>,
    ) -> Result<Finished, SpawnError> {
        let finished = Live.run(exchange, cancel, observer)?;
        Ok(Finished { confined: Confined::No { why: "no Landlock".into() }, ..finished })
    }
}
