//! `kilter provider check`: tests a provider.
//!
//! [`Check`] runs it. This module finds the provider and renders the scorecard.

mod find;
mod scorecard;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kilter_devkit::{Candidate, Check, CheckProgress, SETUP_HERE, Specimens, TestLocation};
use kilter_process::world::{SandboxBuilder, SandboxError};

use crate::cli::CheckArgs;
use crate::exit::Exit;
use crate::session::Session;
use crate::{output, signals};

pub(super) fn run(args: &CheckArgs, session: &Session) -> Exit {
    match check(args, session) {
        Ok(exit) | Err(exit) => exit,
    }
}

fn check(args: &CheckArgs, session: &Session) -> Result<Exit, Exit> {
    let begun = Instant::now();
    signals::listen()?;
    let (candidate, mut findings) = match find::find(&args.provider, session)? {
        (Some(candidate), findings) => (candidate, findings),
        (None, findings) => {
            return Ok(signals::exit().unwrap_or_else(|| scorecard::unusable(args.format, &args.provider, &findings)));
        }
    };
    let file = check_file(args, &candidate)?;
    if args.example {
        return Ok(output::data(&Specimens::example(&candidate)));
    }
    let specimens = Arc::new(Specimens::read(file, &candidate).map_err(|problems| {
        problems.iter().for_each(output::error);
        Exit::NotStarted
    })?);
    let has_setup = specimens.file.setup.is_some();
    if args.here && has_setup && !args.setup_here {
        return Err(output::fail_with(
            "the check file has a `setup`: with --here, kilter would run it on this machine",
            ["--setup-here runs it, but it is written for a disposable sandbox and may replace files of this machine"],
        ));
    }
    // Users other than root need a user namespace, which must be created before any thread.
    let location = match args.here {
        true => TestLocation::Here(session.state_dir_if_any()),
        false => TestLocation::Sandboxes(Arc::new(prepare()?)),
    };
    if args.here {
        output::warning("the laws are tested on this machine itself: changes by the provider are real");
    }
    if args.here && has_setup {
        output::warning(SETUP_HERE);
    }
    findings.extend(location.findings(&specimens));
    let (limit, laws) = (Duration::from_secs(args.limit), args.laws.clone());
    let check = Check { candidate, specimens, location, findings, limit, laws };
    let mut out = scorecard::Out::new(args.format, &check);
    let report = check.run(&mut |progress| match progress {
        CheckProgress::Begun(law) => out.begun(law),
        CheckProgress::Ended { finding, same, calls } => out.ended(finding, same, calls),
    });
    if let Some(exit) = signals::exit() {
        output::error("interrupted: the remaining laws were not tested");
        return Ok(exit);
    }
    Ok(match out.end(&check, &report, begun.elapsed()) {
        Exit::Done if !check.is_conforming(&report) => Exit::Failed,
        exit => exit,
    })
}

/// Returns the given check file, or the file beside the script, if it exists.
///
/// # Errors
/// If the given file does not exist; reported.
fn check_file(args: &CheckArgs, candidate: &Candidate) -> Result<Option<PathBuf>, Exit> {
    match &args.file {
        Some(given) if given.exists() => Ok(Some(given.clone())),
        Some(given) => Err(output::fail(format_args!("{}: there is no such file", given.display()))),
        None => Ok(candidate.script().map(Specimens::beside).filter(|path| path.exists())),
    }
}

/// Detects a way to create sandboxes on this machine.
///
/// # Errors
/// If there is none; reported.
fn prepare() -> Result<SandboxBuilder, Exit> {
    SandboxBuilder::prepare().map_err(|error| {
        let why = with_sources(&error);
        let hints: &[&str] = match error {
            SandboxError::NoUserNamespace { .. } => &[
                "run it as root, or let users make namespaces (sysctl user.max_user_namespaces, \
                 kernel.unprivileged_userns_clone, \
                 kernel.apparmor_restrict_unprivileged_userns)",
                "--here tests the laws on this machine itself: changes by the provider are real",
            ],
            _ => &[
                "a container needs the right to mount (CAP_SYS_ADMIN), such as `docker run --privileged`",
                "--here tests the laws on this machine itself: changes by the provider are real",
            ],
        };
        output::fail_with(format!("no sandboxes are available for the laws: {why}"), hints)
    })
}

fn with_sources(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", with_sources(source)),
        None => error.to_string(),
    }
}
