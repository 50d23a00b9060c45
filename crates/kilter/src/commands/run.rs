//! `kilter run`: brings the machine to the state that is declared, and holds it.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kilter_provider::{Durability, Registry};
use kilter_runtime::{Event, Hold, Mode, Observer, Options, Prepared, Report, StateDir, Stop};

use super::pass::{Pass, fail};
use crate::cli::{Global, ReportFormat, RunArgs};
use crate::exit::Exit;
use crate::load::{self, Audience, Loaded};
use crate::render::progress::Progress;
use crate::{providers, say, signals};

/// For how long everything has to be quiet with `--converged-exit`, if nothing else is said.
const QUIET: Duration = Duration::from_secs(5);

/// Runs the command.
pub(crate) fn run(args: &RunArgs, global: &Global) -> Exit {
    match hold(args, global) {
        Ok(exit) | Err(exit) => exit,
    }
}

fn hold(args: &RunArgs, global: &Global) -> Result<Exit, Exit> {
    signals::listen()?;
    let status = args.converged_status_file.as_deref().map(status_file).transpose()?;
    let registry = providers::registry(global);
    let mut loaded = load::prepare(&args.input, Audience::People, &registry)?;
    let pass = pass(args);
    loop {
        let (report, next) = held(args, &loaded, pass, status.as_ref(), &registry, global)?;
        match next {
            Some(next) => loaded = next,
            None => return Ok(exit(args, &report, pass, global)),
        }
    }
}

fn pass(args: &RunArgs) -> Pass {
    Pass {
        mode: if args.noop { Mode::Noop } else { Mode::Apply },
        format: ReportFormat::Human,
        jobs: args.jobs.count(),
        durability: if args.no_flush { Durability::Unflushed } else { Durability::Flushed },
        detailed: false,
    }
}

/// Holds what is declared, until the end or until something else is declared.
fn held<'r>(
    args: &RunArgs,
    loaded: &Loaded<'r>,
    pass: Pass,
    status: Option<&File>,
    registry: &'r Registry,
    global: &Global,
) -> Result<(Report, Option<Loaded<'r>>), Exit> {
    let mut next = None;
    let mut reload = || match load::prepare(&args.input, Audience::People, registry) {
        Ok(new) if is_same(loaded, &new) => false,
        Ok(new) => {
            next = Some(new);
            true
        }
        Err(_) => {
            say::warning("what was declared before is held until this is mended");
            false
        }
    };
    let hold = Hold {
        converged: args
            .converged_timeout
            .map(Duration::from_secs)
            .or((args.converged_exit || status.is_some()).then_some(QUIET)),
        until_converged: args.converged_exit,
        longest: args.max_runtime.map(Duration::from_secs),
        declared: declared(args, loaded),
        reload: &mut reload,
    };
    let report = carried_out(&loaded.prepared, hold, pass, status, global)?;
    Ok((report, next))
}

fn carried_out(
    prepared: &Prepared<'_>,
    hold: Hold<'_>,
    pass: Pass,
    status: Option<&File>,
    global: &Global,
) -> Result<Report, Exit> {
    let stop = Arc::new(Stop::new().map_err(fail)?);
    signals::stop(&stop);
    let options = Options {
        mode: pass.mode,
        jobs: pass.jobs,
        durability: pass.durability,
        strictness: global.strict.into(),
        state_dir: Some(StateDir::new(global.state_dir()?)),
    };
    let shown = pass.shown(global);
    let shown = crate::render::progress::Shown { resources: !global.quiet, ..shown };
    let mut watching = Watching { progress: Progress::new(shown, prepared.resources().len()), status };
    let result = prepared.hold(&options, hold, &stop, &mut watching);
    watching.progress.clear();
    result.map_err(fail)
}

/// Whether the same is declared as before.
fn is_same(old: &Loaded<'_>, new: &Loaded<'_>) -> bool {
    old.given == new.given && old.includes == new.includes && old.vars == new.vars && old.facts == new.facts
}

/// The files in which it is declared.
fn declared(args: &RunArgs, loaded: &Loaded<'_>) -> Vec<PathBuf> {
    let included = loaded.includes.values().map(|source| Path::new(source.name.as_str()));
    let given = args.input.manifests.iter().map(PathBuf::as_path);
    let files = given.chain(included).filter(|path| path.is_file());
    files.filter_map(|path| std::path::absolute(path).ok()).collect()
}

fn status_file(path: &Path) -> Result<File, Exit> {
    let opened = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
    opened.map_err(|error| say::fail(format_args!("cannot open the status file {}: {error}", path.display())))
}

fn exit(args: &RunArgs, report: &Report, pass: Pass, global: &Global) -> Exit {
    let told = pass.conclude(report, global);
    match signals::exit() {
        Some(signal) => signal,
        // What would be changed is told, and is what was asked for.
        None if args.noop && told == Exit::Pending => Exit::Pending,
        None => told,
    }
}

/// Shows what happens, and writes down whether it is converged.
struct Watching<'a> {
    progress: Progress,
    status: Option<&'a File>,
}

impl Observer for Watching<'_> {
    fn event(&mut self, event: Event<'_>) {
        if let (Event::Converged(converged), Some(mut status)) = (&event, self.status)
            && let Err(error) = status.write_all(format!("{converged}\n").as_bytes())
        {
            say::warning(format_args!("the status file cannot be written: {error}"));
        }
        self.progress.event(event);
    }
}
