//! `kilter provider check`: tests a provider.
//!
//! [`Check`] runs it. This module finds the provider and renders the scorecard.

mod find;
mod scorecard;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use kilter_devkit::conformance::LAWS;
use kilter_devkit::{Candidate, Check, CheckProgress, SETUP_HERE, Specimens, TestLocation};
use kilter_process::world::{SandboxBuilder, SandboxError};

use crate::cli::ReportFormat;
use crate::exit::Exit;
use crate::session::Session;
use crate::{output, signals};

pub(super) const EXAMPLES: &str = "\
Examples:
  kilter provider check ./colour.prov            a script, with the resources of colour.check.yaml
  kilter provider check minion/resources/colour  a script of mold
  kilter provider check host                     the provider of a type, also a built-in one
  kilter provider check package::apt --law get-is-steady
  kilter provider check ./colour.prov --example > colour.check.yaml

kilter tests each law in separate sandboxes: copies of this machine's files, whose changes are
discarded. Sandboxes share the network and the processes of this machine. Exits with 0 if the
provider conforms, 4 if a law is broken or could not be tested or the provider cannot be used,
1 if the check did not start.";

/// Arguments of `kilter provider check`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CheckArgs {
    /// A script (NAME.prov, or a script in `resources` of a directory of mold), or a type, or TYPE::PROVIDER
    #[arg(value_name = "PROVIDER", value_hint = clap::ValueHint::FilePath)]
    provider: String,
    /// Check file [default: NAME.check.yaml in the directory of the script]
    #[arg(long = "with", value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    file: Option<PathBuf>,
    /// Test only this law; repeatable
    #[arg(long = "law", value_name = "LAW", value_parser = law)]
    laws: Vec<&'static str>,
    /// Only print a check file to start from, with resources generated from the types of the attributes
    #[arg(long)]
    example: bool,
    /// Test on this machine itself, without sandboxes: the provider changes this machine
    #[arg(long)]
    here: bool,
    /// With `--here`, also run the `setup` of the check file on this machine: it is written for disposable sandboxes
    #[arg(long, requires = "here")]
    setup_here: bool,
    /// Time limit of each law, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    limit: u64,
    /// Format of the scorecard
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    format: ReportFormat,
}

fn law(name: &str) -> Result<&'static str, String> {
    let known = || LAWS.iter().map(|law| law.name);
    known().find(|known| *known == name).ok_or_else(|| {
        let meant = kilter_model::suggest::nearest(name, known());
        match meant {
            Some(meant) => format!("there is no such law; did you mean `{meant}`?"),
            None => "there is no such law; docs/reference/conformance.md lists all laws".to_owned(),
        }
    })
}

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
