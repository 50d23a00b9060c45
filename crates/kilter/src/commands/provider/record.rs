//! `kilter provider record`: runs a command, and records its external queries.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use clap::Parser;
use kilter_recording::{RecordMode, Recorder};

use crate::cli::{Cli, Command, Global, RecordArgs, Strict};
use crate::exit::Exit;
use crate::{commands, output};

pub(super) fn run(args: &RecordArgs, global: &Global) -> Exit {
    match record(args, global) {
        Ok(exit) | Err(exit) => exit,
    }
}

fn record(args: &RecordArgs, global: &Global) -> Result<Exit, Exit> {
    let words: Vec<OsString> = options(global).into_iter().chain(args.words.iter().cloned()).collect();
    let cli = parsed(&words, global)?;
    let replaced = replaced(args)?;
    let recorder = begin(args, &words, &replaced)?;
    // A panic of kilter is worth a complete recording.
    let mode = RecordMode::Recording(Arc::clone(&recorder));
    let exit = catch_unwind(AssertUnwindSafe(|| commands::run(&cli, &mode)));
    let told = recorder.end(exit.as_ref().ok().map(|exit| exit.code()));
    let shown = args.file.display();
    match told {
        Err(error) => output::error(format_args!("the recording {shown} is incomplete: {error}")),
        Ok(told) if !global.quiet => {
            let calls = counted(told.exchanges, "call");
            let secrets = counted(told.secrets, "secret");
            output::line(format_args!("recorded {calls} of scripts in {shown}; {secrets} replaced"));
            output::hint(format_args!("review it before you share it: kilter provider replay {shown} --list"));
            warn_of_short(told.short);
        }
        Ok(told) => warn_of_short(told.short),
    }
    exit.map_err(|defect| resume_unwind(defect))
}

fn warn_of_short(count: usize) {
    if count > 0 {
        let secrets = counted(count, "secret");
        output::warning(format_args!("{secrets} of fewer than four characters could not be replaced"));
    }
}

fn counted(count: usize, what: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{count} {what}{s}")
}

/// Parses the command to record.
fn parsed(words: &[OsString], global: &Global) -> Result<Cli, Exit> {
    let cli = Cli::try_parse_from(std::iter::once(&OsString::from("kilter")).chain(words));
    let mut cli = cli.map_err(|refused| commands::refuse(&refused))?;
    if !is_recordable(&cli.command) {
        let hint = "get, set, act, plan, apply, types and graph can be";
        return Err(output::fail_with("this command cannot be recorded", [hint]));
    }
    let says_where = words.iter().any(|word| word.as_bytes().starts_with(b"--state-dir"));
    if !says_where {
        cli.global.state_dir.clone_from(&global.state_dir);
    }
    let Global { world, hostname, trust, .. } = &mut cli.global;
    trust.extend(global.trust.iter().cloned());
    *world = world.take().or_else(|| global.world.clone());
    *hostname = hostname.take().or_else(|| global.hostname.clone());
    Ok(cli)
}

/// Returns true if a recording covers all queries of a command.
pub(super) fn is_recordable(command: &Command) -> bool {
    use Command::{Act, Apply, Get, Graph, Plan, Set, Types};
    matches!(command, Get(_) | Set(_) | Act(_) | Plan(_) | Apply(_) | Types(_) | Graph(_))
}

/// Returns the options before the command, as words.
fn options(global: &Global) -> Vec<OsString> {
    let mut words = Vec::new();
    let mut option = |name: &str, value: OsString| words.extend([OsString::from(name), value]);
    global.include.iter().for_each(|directory| option("--include", directory.into()));
    global.mold.iter().for_each(|directory| option("--mold", directory.into()));
    global.channel3.iter().for_each(|file| option("--channel3", file.into()));
    match global.strict {
        Strict::Off => option("--strict", "off".into()),
        Strict::Error => option("--strict", "error".into()),
        Strict::Warning => {}
    }
    words.extend(global.quiet.then(|| "--quiet".into()));
    words.extend(global.verbose.then(|| "--verbose".into()));
    words
}

fn replaced(args: &RecordArgs) -> Result<Vec<String>, Exit> {
    let mut texts = args.replace.clone();
    for path in &args.replace_from {
        let text = std::fs::read_to_string(path)
            .map_err(|error| output::fail(format_args!("cannot read {}: {error}", path.display())))?;
        texts.extend(text.lines().map(str::to_owned));
    }
    Ok(texts)
}

fn begin(args: &RecordArgs, words: &[OsString], replaced: &[String]) -> Result<Arc<Recorder>, Exit> {
    let shown = args.file.display();
    let found = std::fs::symlink_metadata(&args.file);
    if found.as_ref().is_ok_and(|found| !found.is_file() && !found.is_symlink()) {
        return Err(output::fail(format_args!("{shown} is not a file")));
    }
    if args.force && found.is_ok() {
        std::fs::remove_file(&args.file)
            .map_err(|error| output::fail(format_args!("cannot remove {shown}: {error}")))?;
    }
    let words: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
    match Recorder::begin(&args.file, &words, replaced) {
        Ok(recorder) => Ok(Arc::new(recorder)),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            Err(output::fail_with(format_args!("there is a file {shown} already"), ["--force overwrites it"]))
        }
        Err(error) => Err(output::fail(format_args!("cannot write the recording {shown}: {error}"))),
    }
}
