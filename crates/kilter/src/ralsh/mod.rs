//! kilter called by the name `ralsh`: the command line of libral (docs/reference/ralsh.md).
//!
//! Flags, outputs, exit codes and the variables that say where scripts are, so that what was written
//! around libral's command goes on working. Providers, runs and state are kilter's.
//!
//! - `args`: the flags; `lookup`: which provider is meant;
//! - `read` and `update`: the two things that are done; `words`: values on the command line;
//! - `emit`: the outputs; `explain`: the attributes of a type; `log`: the lines of providers;
//! - `complete`: what the completion of shells asks for.

mod args;
mod complete;
mod emit;
mod explain;
mod log;
mod lookup;
mod read;
mod trouble;
mod update;
mod words;

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

use clap::error::ErrorKind;

pub(crate) use complete::BASH;

use self::args::Args;
use self::emit::Form;
use self::log::Logger;
use self::trouble::Trouble;
use crate::exit::Exit;
use crate::{say, signals};

/// What the command ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// All went well: 0.
    Well,
    /// There is no such resource: 1.
    NotFound,
    /// There was an error: 2.
    Wrong,
}

impl From<Ended> for ExitCode {
    fn from(ended: Ended) -> ExitCode {
        ExitCode::from(match ended {
            Ended::Well => 0,
            Ended::NotFound => 1,
            Ended::Wrong => 2,
        })
    }
}

/// Whether the program was called by that name.
pub(crate) fn is_called() -> bool {
    let name = std::env::args_os().next();
    name.as_deref().map(Path::new).and_then(Path::file_name) == Some(OsStr::new("ralsh"))
}

/// Does what the arguments of the process ask for.
pub(crate) fn run() -> ExitCode {
    let args = match args::parse(std::env::args_os()) {
        Ok(args) => args,
        Err(refused) => return refuse(&refused).into(),
    };
    if args.version {
        return shown(say::data(&format!("{} (kilter)\n", env!("CARGO_PKG_VERSION")))).into();
    }
    let logger = Logger::new(args.log_level);
    let ended = match carry_out(&args, &logger) {
        Ok(ended) => ended,
        Err(trouble) => {
            Form::of(&args).fail(&trouble);
            trouble.ends_with
        }
    };
    // A signal ends the command as it would have done by itself.
    match signals::exit() {
        Some(exit) => exit.into(),
        None if ended == Ended::Well && logger.has_errors() => Ended::Wrong.into(),
        None => ended.into(),
    }
}

/// Says what is wrong with the arguments, or shows the help that was asked for.
fn refuse(refused: &clap::Error) -> Ended {
    if refused.kind() == ErrorKind::DisplayHelp {
        return shown(say::data(&refused.render().ansi().to_string()));
    }
    say::line(format_args!("error: {}\n\ntry 'ralsh -h' for more information.", args::complaint(refused)));
    Ended::Wrong
}

fn carry_out(args: &Args, logger: &Logger) -> Result<Ended, Trouble> {
    args.check()?;
    if (args.sudo || args.keep) && args.target.is_none() {
        say::warning("--keep and --sudo without --target have no effect");
    }
    if args.explain && args.resource_type.is_none() {
        return Err(Trouble::new("please provide a type").hint("run 'ralsh' to see a list of all types"));
    }
    signals::listen().map_err(|_| Trouble::said())?;
    let providers = lookup::providers(args, logger)?;
    if let Some(what) = args.complete {
        return Ok(shown(say::data(&complete::words(what, args, &providers)?)));
    }
    let form = Form::of(args);
    let Some(type_name) = &args.resource_type else {
        return Ok(shown(form.providers(&providers)));
    };
    let provider = lookup::find(&providers, type_name)?;
    if args.explain {
        return Ok(shown(say::data(&explain::explain(provider, &lookup::source(&providers, provider)))));
    }
    logger.speak_for(&lookup::qualified(provider));
    match &args.name {
        None => read::list(provider, form, logger),
        Some(name) if args.words.is_empty() => read::find(provider, name, args.absent, form, logger),
        Some(name) => update::update(&providers.registry, provider, name, &args.words, form, logger),
    }
}

/// What was shown was all that there was to do.
fn shown(exit: Exit) -> Ended {
    if exit == Exit::Done { Ended::Well } else { Ended::Wrong }
}
