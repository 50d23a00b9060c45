//! `kilter provider`: for authors of providers.

mod check;
mod new;
mod record;
mod replay;

use crate::cli::{Global, ProviderArgs, ProviderCommand};
use crate::exit::Exit;
use crate::session::Session;
use crate::trust;

/// Function that runs a command in a session.
pub(crate) type InSession<'a> = dyn Fn(&dyn Fn(&Session) -> Exit) -> Exit + 'a;

/// Runs the command, in a session if it needs one.
pub(crate) fn run(args: &ProviderArgs, global: &Global, in_session: &InSession<'_>) -> Exit {
    match &args.command {
        ProviderCommand::Check(args) => in_session(&|session| check::run(args, session)),
        ProviderCommand::New(args) => in_session(&|session| new::run(args, &session.global)),
        // A recording or a replay opens the session of another command.
        ProviderCommand::Record(args) => trusted(global, || record::run(args, global)),
        ProviderCommand::Replay(args) => trusted(global, || replay::run(args, global)),
    }
}

/// Runs a command if the options of the trust rule are valid.
fn trusted(global: &Global, command: impl FnOnce() -> Exit) -> Exit {
    trust::policy(global).map_or_else(|exit| exit, |_| command())
}
