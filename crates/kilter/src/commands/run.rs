//! `kilter run`: brings the machine to the state that is declared, and holds it.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kilter_provider::{Durability, Registry};
use kilter_runtime::{
    Anew, Declared, Event, Handover, Held, Hold, Mode, Observer, Options, Report, RunError, StateDir, Stop, Takeover,
    Window,
};

use super::pass::{Pass, fail};
use crate::attendant::Attendant;
use crate::cli::{Global, ReportFormat, RunArgs};
use crate::desk::Desk;
use crate::exit::Exit;
use crate::load::{self, Audience, Loaded, Noted};
use crate::render::progress::{Progress, Shown};
use crate::{manager, metrics, providers, say, signals, world};

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
    are_files(&args.input.manifests)?;
    let registry = providers::registry(global);
    let noted = Noted::default();
    let loaded = load::prepare_noting(&args.input, Audience::People, &registry, &noted)?;
    let pass = pass(args);
    // Nobody comes in between when what is declared is read anew.
    let _lock = pass.lock(global)?;
    let window = Arc::new(Window::default());
    let desk = desk(pass, global, &window)?;
    let metrics = args.metrics.map(|at| answer(at, &window)).transpose()?;
    let outside = Outside { status: status.as_ref(), desk: desk.as_ref() };
    let stop = Arc::new(Stop::new().map_err(fail)?);
    signals::stop(&stop);
    let options = Options {
        mode: pass.mode,
        jobs: pass.jobs,
        durability: pass.durability,
        strictness: global.strict.into(),
        state_dir: Some(StateDir::new(global.state_dir()?)),
    };
    let shown = Shown { resources: !global.quiet, ..pass.shown(global) };
    let window = (desk.is_some() || metrics.is_some()).then_some(&*window);
    let keeping = Keeping { args, registry: &registry, options, shown, stop: &stop, window, outside };
    let report = keeping.until_the_end(loaded, noted).map_err(fail)?;
    Ok(conclude(&report, pass, global))
}

/// All that stays the same while what is declared is edited.
struct Keeping<'a, 'r> {
    args: &'a RunArgs,
    registry: &'r Registry,
    options: Options,
    shown: Shown,
    stop: &'a Stop,
    window: Option<&'a Window>,
    outside: Outside<'a>,
}

/// What was held for a while, and what comes next.
struct Former<'r> {
    held: Held,
    noted: Noted,
    /// What is to be held next.
    next: Option<Loaded<'r>>,
    /// What was held last, if that was edited while something went on that was begun before.
    last: Option<Loaded<'r>>,
}

impl<'r> Keeping<'_, 'r> {
    /// Holds what is declared, and what it is edited into, until the end.
    fn until_the_end(&self, mut loaded: Loaded<'r>, mut noted: Noted) -> Result<Report, RunError> {
        std::thread::scope(|scope| {
            let mut takeover = None;
            loop {
                let former = self.hold(&loaded, noted, takeover)?;
                let (handover, next) = match (former.held, former.next) {
                    (Held::Ended(report), _) => return Ok(*report),
                    (Held::Superseded(handover), next) => (handover, next.expect(READ)),
                };
                takeover = Some(handover.onto(&former.last.as_ref().unwrap_or(&loaded).prepared, &next.prepared));
                noted = former.noted;
                let former = (former.last, std::mem::replace(&mut loaded, next));
                // To take many resources apart takes longer than to hold others in their place.
                let taking_apart = std::thread::Builder::new().name("former".into());
                // Without a thread it is done here.
                drop(taking_apart.spawn_scoped(scope, move || drop(former)));
            }
        })
    }

    /// Holds what is declared until it is edited.
    fn hold(&self, loaded: &Loaded<'r>, noted: Noted, takeover: Option<Takeover>) -> Result<Former<'r>, RunError> {
        let mut declared = Manifests { keeping: self, loaded, noted, next: None, last: None };
        let hold = held(self.args, &mut declared, self.outside.status.is_some(), self.window);
        let progress = Progress::new(self.shown, loaded.prepared.resources().len());
        let mut watching = Watching { progress, outside: self.outside };
        let held = match takeover {
            Some(takeover) => loaded.prepared.take_over(takeover, &self.options, hold, self.stop, &mut watching),
            None => loaded.prepared.hold(&self.options, hold, self.stop, &mut watching),
        };
        watching.progress.clear();
        let Manifests { noted, next, last, .. } = declared;
        Ok(Former { held: held?, noted, next, last })
    }
}

/// Where the run is asked for what it holds. One that changes nothing leaves no trace, and is asked nothing.
fn desk(pass: Pass, global: &Global, window: &Arc<Window>) -> Result<Option<Desk>, Exit> {
    if pass.mode == Mode::Noop {
        return Ok(None);
    }
    let opened = Desk::open(&global.state_dir()?, window);
    Ok(opened.map_err(|error| say::warning(format_args!("`kilter status` cannot ask this run: {error}"))).ok())
}

/// Where metrics are told. Somebody relies on them, so without them there is no run.
fn answer(at: SocketAddr, window: &Arc<Window>) -> Result<Attendant, Exit> {
    metrics::open(at, window).map_err(|error| {
        say::fail_with(format_args!("cannot tell metrics at {at}: {error}"), ["give another address with --metrics"])
    })
}

/// What is read again and again has to be there again and again.
fn are_files(manifests: &[PathBuf]) -> Result<(), Exit> {
    for path in manifests {
        let hint = "write it to a file, which is read again whenever it is edited";
        if path.as_os_str() == "-" {
            return Err(say::fail_with("`kilter run` does not read the standard input", [hint]));
        }
        // What is not there at all is told when it is to be read.
        if std::fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
            let path = path.display();
            return Err(say::fail_with(format_args!("`kilter run` takes files, and {path} is none"), [hint]));
        }
    }
    Ok(())
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

/// How what is declared is held.
fn held<'a>(
    args: &RunArgs,
    declared: &'a mut Manifests<'_, '_>,
    is_asked: bool,
    window: Option<&'a Window>,
) -> Hold<'a> {
    // What is only written changes when it is written.
    let may_differ = !declared.loaded.facts.is_empty()
        || !declared.noted.trees().is_empty()
        || args.input.manifests.iter().any(|path| load::is_program(path));
    Hold {
        reread: (may_differ && args.reread > 0).then(|| Duration::from_secs(args.reread)),
        converged: args
            .converged_timeout
            .map(Duration::from_secs)
            .or((args.converged_exit || is_asked).then_some(QUIET)),
        until_converged: args.converged_exit,
        longest: args.max_runtime.map(Duration::from_secs),
        declared,
        alive: manager::watchdog(),
        window,
    }
}

/// The manifests of a run, as they are edited.
struct Manifests<'a, 'r> {
    keeping: &'a Keeping<'a, 'r>,
    /// What is held.
    loaded: &'a Loaded<'r>,
    /// The files that were read last.
    noted: Noted,
    /// What is to be held.
    next: Option<Loaded<'r>>,
    /// What took the place of `loaded` and was held last.
    last: Option<Loaded<'r>>,
}

/// What supersedes something was read before that.
const READ: &str = "what is declared now was read";

impl Declared for Manifests<'_, '_> {
    fn files(&self) -> Vec<PathBuf> {
        self.noted.files()
    }

    fn trees(&self) -> Vec<PathBuf> {
        let trees = self.noted.trees();
        if !trees.is_empty() {
            world::follow();
        }
        trees
    }

    fn is_touched(&mut self) -> bool {
        self.noted.is_touched()
    }

    fn read_anew(&mut self) -> Anew {
        self.noted = Noted::default();
        match load::prepare_noting(&self.keeping.args.input, Audience::People, self.keeping.registry, &self.noted) {
            // Somebody is writing still.
            Ok(_) if self.noted.has_changed() => Anew::Unsettled,
            Ok(new) if is_same(self.loaded, &new) => Anew::Same,
            Ok(new) => {
                self.next = Some(new);
                Anew::Other
            }
            Err(_) => {
                // Reading ends with a signal, and so does holding.
                if signals::exit().is_none() {
                    say::warning("what was declared before is held until this is mended");
                }
                Anew::Wrong
            }
        }
    }

    fn succeed(&mut self, handover: Box<Handover>) -> Result<Held, RunError> {
        let next = self.next.take().expect(READ);
        let before = self.last.as_ref().unwrap_or(self.loaded);
        let takeover = handover.onto(&before.prepared, &next.prepared);
        self.last = None;
        let former = self.keeping.hold(&next, std::mem::take(&mut self.noted), Some(takeover))?;
        (self.noted, self.next) = (former.noted, former.next);
        self.last = Some(former.last.unwrap_or(next));
        Ok(former.held)
    }
}

/// Whether the same is declared as before.
fn is_same(old: &Loaded<'_>, new: &Loaded<'_>) -> bool {
    old.given == new.given && old.includes == new.includes && old.vars == new.vars && old.facts == new.facts
}

fn status_file(path: &Path) -> Result<File, Exit> {
    // Where it lies may be a directory of others, who are not to choose another file.
    let no_links = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let opened = OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(no_links).open(path);
    opened.map_err(|error| say::fail(format_args!("cannot open the status file {}: {error}", path.display())))
}

/// Shows what is not in its state at the end; a signal tells what to end with, whatever that is.
fn conclude(report: &Report, pass: Pass, global: &Global) -> Exit {
    let told = pass.conclude(report, global);
    signals::exit().unwrap_or(told)
}

/// Who is told of what happens, beside those who sit in front of it.
#[derive(Clone, Copy)]
struct Outside<'a> {
    /// Where it is written down whether the run is converged.
    status: Option<&'a File>,
    desk: Option<&'a Desk>,
}

/// Shows what happens, and tells it.
struct Watching<'a> {
    progress: Progress,
    outside: Outside<'a>,
}

impl Observer for Watching<'_> {
    fn event(&mut self, event: Event<'_>) {
        if let Some(desk) = self.outside.desk {
            desk.tell(&event);
        }
        manager::tell(&event);
        if let (Event::Converged(converged), Some(mut status)) = (&event, self.outside.status)
            && let Err(error) = status.write_all(format!("{converged}\n").as_bytes())
        {
            say::warning(format_args!("the status file cannot be written: {error}"));
        }
        self.progress.event(event);
    }
}
