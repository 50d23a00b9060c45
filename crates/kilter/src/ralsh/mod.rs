//! kilter called by the name `ralsh`: the command line of libral (docs/reference/ralsh.md).
//!
//! It has libral's flags, outputs, exit codes and environment variables for scripts, so that existing tools for
//! libral continue to work. Providers, runs and state are kilter's.
//!
//! - `args`: the flags; `lookup`: the choice of the provider;
//! - `read` and `update`: the two operations; `parse_value`: values on the command line;
//! - `emit`: the outputs; `explain`: the attributes of a type; `log`: the lines of providers;
//! - `complete`: completion of shells.

mod args;
mod complete;
mod emit;
mod error;
mod explain;
mod log;
mod lookup;
mod parse_value;
mod read;
mod update;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use clap::error::ErrorKind;

pub(crate) use complete::{BASH, assignments, is_settable};

use self::args::Args;
use self::emit::OutputFormat;
use self::error::Error;
use self::log::Logger;
use crate::exit::Exit;
use crate::session::Session;
use crate::{output, remote, signals};

/// Result of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RalshResult {
    /// Success: 0.
    Well,
    /// There is no such resource: 1.
    NotFound,
    /// There was an error: 2.
    Wrong,
}

impl From<RalshResult> for ExitCode {
    fn from(ended: RalshResult) -> ExitCode {
        ExitCode::from(match ended {
            RalshResult::Well => 0,
            RalshResult::NotFound => 1,
            RalshResult::Wrong => 2,
        })
    }
}

/// Returns the words of the command line if the program was called by that name, or as `kilter ralsh`.
pub(crate) fn called() -> Option<Vec<OsString>> {
    let words: Vec<OsString> = std::env::args_os().take(2).collect();
    let name = |word: Option<&OsString>| word.map(Path::new).and_then(Path::file_name) == Some(OsStr::new("ralsh"));
    let skipped = match (name(words.first()), words.get(1).is_some_and(|word| word == "ralsh")) {
        (true, _) => 0,
        (false, true) => 1,
        (false, false) => return None,
    };
    Some(std::env::args_os().skip(skipped).collect())
}

/// Runs the command of these words.
pub(crate) fn run(words: Vec<OsString>) -> ExitCode {
    let args = match args::parse(words.into_iter()) {
        Ok(args) => args,
        Err(refused) => return refuse(&refused).into(),
    };
    if args.version {
        return shown(output::data(&format!("{} (kilter)\n", env!("CARGO_PKG_VERSION")))).into();
    }
    let logger = Logger::new(args.log_level);
    if let (Some(target), Ok(())) = (&args.target, args.check()) {
        return on_target(target, &args);
    }
    let ended = match carry_out(&args, &logger) {
        Ok(ended) => ended,
        Err(trouble) => {
            OutputFormat::of(&args).fail(&trouble);
            trouble.ends_with
        }
    };
    // After a signal, the exit code is that of the signal.
    match signals::exit() {
        Some(exit) => exit.into(),
        None if ended == RalshResult::Well && logger.has_errors() => RalshResult::Wrong.into(),
        None => ended.into(),
    }
}

/// Runs the command on another machine.
fn on_target(target: &str, args: &Args) -> ExitCode {
    let mut words = vec!["ralsh".to_owned()];
    words.extend(args.words_for_target());
    let scripts = args.include.iter().map(|directory| directory.join("providers")).filter(|path| path.is_dir());
    match remote::run_on(target, args.sudo, &scripts.collect::<Vec<_>>(), words) {
        Ok(code) => ExitCode::from(code),
        Err(why) => {
            OutputFormat::of(args).fail(&Error::new(format!("failed to connect to {target}: {why}")));
            RalshResult::Wrong.into()
        }
    }
}

/// Reports the error in the arguments, or shows the requested help.
fn refuse(refused: &clap::Error) -> RalshResult {
    if refused.kind() == ErrorKind::DisplayHelp {
        return shown(output::data(&refused.render().ansi().to_string()));
    }
    output::line(format_args!("error: {}\n\ntry 'ralsh -h' for more information.", args::complaint(refused)));
    RalshResult::Wrong
}

fn carry_out(args: &Args, logger: &Logger) -> Result<RalshResult, Error> {
    args.check()?;
    if (args.sudo || args.keep) && args.target.is_none() {
        output::warning("--keep and --sudo without --target have no effect");
    }
    if args.explain && args.resource_type.is_none() {
        return Err(Error::new("please provide a type").hint("run 'ralsh' to see a list of all types"));
    }
    signals::listen().map_err(|_| Error::reported())?;
    let session = &*Session::of_environment();
    let providers = lookup::providers(session, args, logger)?;
    if let Some(what) = args.complete {
        return Ok(shown(output::data(&complete::words(session, what, args, &providers)?)));
    }
    let form = OutputFormat::of(args);
    let Some(type_name) = &args.resource_type else {
        return Ok(shown(form.providers(&providers)));
    };
    let provider = lookup::find(&providers, type_name)?;
    if args.explain {
        return Ok(shown(output::data(&explain::explain(provider, &lookup::source(&providers, provider)))));
    }
    logger.speak_for(&lookup::qualified(provider));
    match &args.name {
        None => read::list(session, provider, form, logger),
        Some(name) if args.words.is_empty() => read::find(session, provider, name, args.absent, form, logger),
        Some(name) => update::update(session, &providers.registry, provider, name, &args.words, form, logger),
    }
}

/// Converts the result of a command that only prints.
fn shown(exit: Exit) -> RalshResult {
    if exit == Exit::Done { RalshResult::Well } else { RalshResult::Wrong }
}
