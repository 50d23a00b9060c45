//! `kilter provider check`: tests a provider.
//!
//! Static findings come first ([`findings`]), then the laws of the conformance suite, each in its own worlds
//! ([`worlds`]). The recorder stores every call of a script ([`recorder`]), so that the report of a broken law
//! includes the last calls.

mod candidate;
mod findings;
mod glob;
mod recorder;
mod scorecard;
mod shown;
mod specimens;
mod worlds;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::Args;
use kilter_devkit::conformance::{LAWS, Progress, Report, Suite};

use crate::cli::{Global, ReportFormat};
use crate::exit::Exit;
use crate::{output, signals};

use candidate::Candidate;
use findings::Finding;
use recorder::Trials;
use scorecard::Scorecard;
use specimens::Specimens;
use worlds::TestLocation;

pub(super) const EXAMPLES: &str = "\
Examples:
  kilter provider check ./colour.prov            a script, with what is in colour.check.yaml
  kilter provider check minion/resources/colour  a script of mold
  kilter provider check host                     the provider of a type, one that kilter brings along too
  kilter provider check package::apt --law get-is-steady
  kilter provider check ./colour.prov --example > colour.check.yaml

Each law is tried in worlds of its own: copies of this machine's files in which what is written stays. What is no
file is shared with the machine: the network, processes. Exits with 0 when the provider conforms, 4 when a law is broken or
could not be tried, or when the provider cannot be used at all, 1 when nothing was started.";

/// Arguments of `kilter provider check`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CheckArgs {
    /// A script (NAME.prov, or a script in `resources` of a directory of mold), or a type, or TYPE::PROVIDER
    #[arg(value_name = "PROVIDER", value_hint = clap::ValueHint::FilePath)]
    provider: String,
    /// Try it with what is in this file [default: NAME.check.yaml beside the script]
    #[arg(long = "with", value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    file: Option<PathBuf>,
    /// Try only this law; repeatable
    #[arg(long = "law", value_name = "LAW", value_parser = law)]
    laws: Vec<&'static str>,
    /// Only print a file to start from, with resources that are made up from the types of the attributes
    #[arg(long)]
    example: bool,
    /// Try it on this machine as it is: whatever the provider changes is changed
    #[arg(long)]
    here: bool,
    /// With `--here`, run the `setup` of the check file on this machine too: it is made for a world that is thrown away
    #[arg(long, requires = "here")]
    setup_here: bool,
    /// Seconds that one law may take
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    limit: u64,
    /// How the scorecard is printed
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    format: ReportFormat,
}

fn law(name: &str) -> Result<&'static str, String> {
    let known = || LAWS.iter().map(|law| law.name);
    known().find(|known| *known == name).ok_or_else(|| {
        let meant = kilter_model::suggest::nearest(name, known());
        match meant {
            Some(meant) => format!("there is no such law; did you mean `{meant}`?"),
            None => "there is no such law; docs/reference/conformance.md has all of them".to_owned(),
        }
    })
}

pub(super) fn run(args: &CheckArgs, global: &Global) -> Exit {
    match check(args, global) {
        Ok(exit) | Err(exit) => exit,
    }
}

fn check(args: &CheckArgs, global: &Global) -> Result<Exit, Exit> {
    let begun = Instant::now();
    signals::listen()?;
    let (candidate, mut findings) = match candidate::find(&args.provider, global)? {
        (Some(candidate), findings) => (candidate, findings),
        (None, findings) => return Ok(signals::exit().unwrap_or_else(|| unusable(args, &findings))),
    };
    let file = specimens::file(args.file.as_deref(), &candidate)?;
    if args.example {
        return Ok(output::data(&specimens::example(&candidate)));
    }
    let specimens = match specimens::read(file, &candidate) {
        Ok(specimens) => specimens,
        Err(told) => return Err(say_all(&told)),
    };
    let has_setup = specimens.file.setup.is_some();
    if args.here && has_setup && !args.setup_here {
        return Err(output::fail_with(
            "the check file has a `setup`: with --here it would be run on this machine itself",
            ["--setup-here runs it: it is made for a world that is thrown away, and may replace what is here"],
        ));
    }
    // Users other than root need a user namespace, which must be created before any thread.
    let place = match args.here {
        true => TestLocation::Here(global.state_dir_if_any()),
        false => TestLocation::Worlds(Arc::new(worlds::prepare()?)),
    };
    if args.here {
        output::warning("the laws are tried on this machine itself: whatever the provider changes is changed");
    }
    if args.here && has_setup {
        output::warning(worlds::SETUP_HERE);
    }
    findings.extend(place.findings(&specimens));
    let card = Scorecard { candidate: &candidate, specimens: &specimens, findings: &findings, place: &place };
    let mut out = scorecard::Out::new(args.format, &card);
    let outcome = tried(args, &candidate, &specimens, &place, &mut out);
    if let Some(exit) = signals::exit() {
        output::error("interrupted: the laws that are left were not tried");
        return Ok(exit);
    }
    let (report, trials) = outcome;
    let told = out.end(&card, &report, &trials, begun.elapsed());
    let is_conforming = report.is_conforming() && !findings.iter().any(Finding::is_fatal);
    Ok(match (is_conforming, told) {
        (_, told) if told != Exit::Done => told,
        (true, _) => Exit::Done,
        (false, _) => Exit::Failed,
    })
}

/// Tries the laws.
fn tried(
    args: &CheckArgs,
    candidate: &Arc<Candidate>,
    specimens: &Arc<Specimens>,
    place: &TestLocation,
    out: &mut scorecard::Out,
) -> (Report, Arc<Trials>) {
    let limit = Duration::from_secs(args.limit);
    let trials = Arc::new(Trials::new(limit));
    let suite = {
        let (candidate, specimens, place, trials) =
            (Arc::clone(candidate), Arc::clone(specimens), place.clone(), Arc::clone(&trials));
        Suite::new(move || worlds::subject(&candidate, &specimens, &place, &trials))
    };
    let suite = suite.limit(limit).until(signals::raised()).only(args.laws.iter().copied());
    let report = suite.run_observed(&mut |progress| {
        if signals::raised().load(Ordering::Acquire) {
            return;
        }
        match progress {
            Progress::Begun(law) => {
                trials.begin(law.name);
                out.begun(law.name);
            }
            Progress::Ended(finding) => out.ended(finding, &trials),
        }
    });
    (report, trials)
}

/// Reports a provider that cannot be loaded.
fn unusable(args: &CheckArgs, findings: &[Finding]) -> Exit {
    match scorecard::unusable(args.format, &args.provider, findings) {
        Exit::Done => Exit::Failed,
        other => other,
    }
}

fn say_all(told: &[String]) -> Exit {
    told.iter().for_each(output::error);
    Exit::NotStarted
}
