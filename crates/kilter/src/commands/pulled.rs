//! Manifests from a source for commands.

use crate::cli::{ManifestArgs, SourceArgs};
use crate::exit::Exit;
use crate::output;
use crate::pull::{Pull, StoreKind};
use crate::render::status::holding_source;
use crate::session::Session;

/// Manifests of the newest usable version.
pub(crate) struct PulledInput {
    /// Arguments with the manifests of the version.
    pub(crate) input: ManifestArgs,
    /// True if the newest version of the source could not be used, and the command uses the last one.
    is_older: bool,
    /// Store that contains the files.
    _pull: Pull,
}

impl PulledInput {
    /// Returns the exit code of a command that ended with `exit`: an older version is a failure.
    pub(crate) fn exit(&self, exit: Exit) -> Exit {
        match exit {
            Exit::Done | Exit::Pending if self.is_older => Exit::Failed,
            Exit::Changed if self.is_older => Exit::ChangedAndFailed,
            exit => exit,
        }
    }
}

/// Fetches the manifests of a command, if its arguments name a source.
///
/// # Errors
/// If there is no usable version; reported.
pub(crate) fn once(
    args: &SourceArgs,
    input: &ManifestArgs,
    session: &Session,
    kind: StoreKind,
) -> Result<Option<PulledInput>, Exit> {
    let Some(pull) = Pull::open(args, session, kind)? else { return Ok(None) };
    fetch(&pull, session)?;
    let Some(version) = pull.current() else { return Err(output::fail("the source has no version")) };
    let manifests = pull.manifests(&version).map_err(output::fail)?;
    // A one-time command does not know if the manifests are valid before it reads them: it has no older version.
    let is_older = pull.failure().is_some();
    let input = ManifestArgs { manifests, ..input.clone() };
    Ok(Some(PulledInput { input, is_older, _pull: pull }))
}

/// Fetches, and reports the version or why an older one is used.
///
/// # Errors
/// If there is no version; reported.
pub(super) fn fetch(pull: &Pull, session: &Session) -> Result<(), Exit> {
    pull.fetch();
    crate::signals::exit().map_or(Ok(()), Err)?;
    let failure = pull.failure();
    match (pull.current(), &failure) {
        (Some(version), Some(_)) => output::warning(holding_source(&pull.describe(&version))),
        (Some(version), None) if !session.global.quiet => {
            output::line(format_args!("using {}", pull.shown(&version)));
        }
        (Some(_), None) => {}
        (None, _) => {
            let why = failure.map(|failure| failure.why).unwrap_or_default();
            return Err(output::fail(format_args!("cannot fetch {}: {why}", pull.name())));
        }
    }
    Ok(())
}
