//! `kilter check`: validates and lints manifests, without any access to resources.

use crate::cli::{CheckManifestArgs, Strict};
use crate::exit::Exit;
use crate::session::Session;
use crate::{load, output, providers, signals};

/// Runs the command.
pub(crate) fn run(args: &CheckManifestArgs, strict: Strict, session: &Session) -> Exit {
    if let Err(exit) = signals::listen() {
        return exit;
    }
    if args.input.manifests.is_empty() {
        return output::fail_with("there is no manifest to check", ["name one or more: kilter check site.yaml"]);
    }
    let registry = match providers::registry(session) {
        Ok(registry) => registry,
        Err(exit) => return exit,
    };
    let checked = load::check(session, &args.input, args.format.into(), strict == Strict::Error, &registry);
    checked.unwrap_or_else(|exit| exit)
}
