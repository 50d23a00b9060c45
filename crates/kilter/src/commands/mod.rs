//! The commands, one file each.

pub(crate) mod act;
pub(crate) mod apply;
pub(crate) mod blame;
pub(crate) mod check;
pub(crate) mod clean;
pub(crate) mod complete;
pub(crate) mod completions;
pub(crate) mod confirm;
pub(crate) mod exec_options;
pub(crate) mod explain;
pub(crate) mod facts;
pub(crate) mod fmt;
pub(crate) mod get;
pub(crate) mod graph;
pub(crate) mod history;
pub(crate) mod init;
pub(crate) mod inventory;
pub(crate) mod man;
pub(crate) mod mold_loop;
pub(crate) mod pause;
pub(crate) mod plan;
pub(crate) mod provider;
mod pulled;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod set;
pub(crate) mod status;
pub(crate) mod types;
pub(crate) mod undo;

use clap::error::ErrorKind;
use kilter_recording::RecordMode;

use crate::cli::{Cli, Command, Global};
use crate::devices::{self, DeviceTarget, DeviceUse};
use crate::exit::Exit;
use crate::session::Session;
use crate::{output, providers, remote};

/// Runs a command, in a session of its own if it needs one.
pub(crate) fn run(cli: &Cli, record: &RecordMode) -> Exit {
    run_on(None, cli, record)
}

/// Runs a command on a device, or on this machine.
pub(crate) fn run_on(device: Option<&DeviceTarget>, cli: &Cli, record: &RecordMode) -> Exit {
    let global = &cli.global;
    let in_session_of = |global: &Global, command: &dyn Fn(&Session) -> Exit| {
        let session = match Session::open_on(device, global, record.clone(), word(&cli.command)) {
            Ok(session) => session,
            Err(exit) => return exit,
        };
        if let Err(exit) = providers::open_mold(&session) {
            return exit;
        }
        if let Some(Err(exit)) = device.map(|target| on_device(target, &session, &cli.command)) {
            return exit;
        }
        let exit = command(&session);
        session.close();
        exit
    };
    let in_session = |command: &dyn Fn(&Session) -> Exit| in_session_of(global, command);
    match &cli.command {
        Command::Apply(args) => in_session(&|session| apply::run(args, session)),
        Command::Plan(args) => in_session(&|session| plan::run(args, session)),
        Command::Check(args) => in_session(&|session| check::run(args, global.strict, session)),
        Command::Init(args) => in_session(&|session| init::run(args, session)),
        Command::Fmt(args) => fmt::run(args),
        Command::Run(args) => in_session(&|session| run::run(args, session)),
        Command::Status(args) => in_session(&|session| status::run(args, session)),
        Command::Pause(args) => in_session(&|session| pause::pause(args, session)),
        Command::Resume(args) => in_session(&|session| pause::resume(args, session)),
        Command::Clean(args) => in_session(&|session| clean::run(args, session)),
        Command::Get(args) => in_session(&|session| get::run(args, session)),
        Command::Set(args) => in_session(&|session| set::run(args, session)),
        Command::Act(args) => in_session(&|session| act::run(args, session)),
        Command::Types(args) => in_session(&|session| types::run(args, session)),
        Command::Explain(args) => in_session(&|session| explain::run(args, session)),
        Command::Facts(args) => in_session(&|session| facts::run(args, session)),
        Command::Inventory(args) => in_session(&|session| inventory::run(args, session)),
        Command::Rollout(args) => in_session(&|session| remote::run_rollout(&args.command, session)),
        Command::Graph(args) => in_session(&|session| graph::run(args, session)),
        Command::Provider(args) => provider::run(args, global, &in_session),
        Command::Schema(args) => in_session(&|session| schema::run(args, session)),
        Command::Completions(args) => in_session(&|session| completions::run(args, session)),
        // The command that reads the log must not write to it.
        Command::History(args) if global.channel3.is_some() => history::mold_log::run(args, global),
        Command::History(args) => in_session(&|session| history::run(args, session)),
        Command::Confirm(args) => in_session(&|session| confirm::run(args, session)),
        Command::Undo(args) => in_session(&|session| undo::run(args, session)),
        Command::Blame(args) => in_session(&|session| blame::run(args, session)),
        Command::Man(args) => man::run(args),
        Command::Serve(args) => remote::serve(args),
        Command::Complete(args) => match complete::parse(args) {
            Some((global, line)) => in_session_of(&global, &|session| complete::run(&line, session)),
            None => Exit::Done,
        },
    }
}

/// Connects to the device of the command line, if the command needs it.
fn on_device(target: &DeviceTarget, session: &Session, command: &Command) -> Result<(), Exit> {
    match DeviceUse::of(command) {
        DeviceUse::Connected => devices::open(session, target),
        DeviceUse::Stored | DeviceUse::Unsupported => Ok(()),
    }
}

/// Returns the word of a command that may make changes.
fn word(command: &Command) -> &'static str {
    match command {
        Command::Apply(_) => "apply",
        Command::Plan(_) => "plan",
        Command::Run(_) => "run",
        Command::Set(_) => "set",
        Command::Act(_) => "act",
        Command::Undo(_) | Command::Confirm(_) => "undo",
        _ => "kilter",
    }
}

/// Shows help and version, or the error in the arguments.
pub(crate) fn refuse(refused: &clap::Error) -> Exit {
    let text = refused.render();
    match refused.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => output::data(&text.ansi().to_string()),
        _ => {
            output::line(text.ansi().to_string().trim_end());
            Exit::NotStarted
        }
    }
}
