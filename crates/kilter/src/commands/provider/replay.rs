//! `kilter provider replay`: runs a recorded command again, without its machine.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Parser;
use kilter_recording::{Player, RecordMode, Recording, VERSION};

use crate::cli::{Cli, Command, Global, GraphFormat, ReplayArgs, ReportFormat, ResourceFormat, TypesFormat};
use crate::exit::Exit;
use crate::table::Table;
use crate::visible::visible;
use crate::{commands, output, signals};

/// Maximum number of differences in the output.
const MAX_REPORTED_DIFFERENCES: usize = 5;

pub(super) fn run(args: &ReplayArgs, global: &Global) -> Exit {
    let recording = match Recording::read(&args.file) {
        Ok(recording) => recording,
        Err(unreadable) => return output::fail(visible(&unreadable.0)),
    };
    if let (Some(why), true) = (&recording.cut, args.list || args.exchange.is_some()) {
        output::warning(format_args!("the recording {} is incomplete: {why}", args.file.display()));
    }
    match (args.list, args.exchange) {
        (true, _) => list(&recording, args.format),
        (_, Some(number)) => show(&recording, number, args.format),
        _ => match replay(args, global, recording) {
            Ok(exit) | Err(exit) => exit,
        },
    }
}

/// Lists the calls, one per line.
fn list(recording: &Recording, format: Option<ResourceFormat>) -> Exit {
    if format == Some(ResourceFormat::Json) {
        let calls: Vec<serde_json::Value> = recording.exchanges().map(|(number, one)| document(number, one)).collect();
        return output::data(&format!("{:#}\n", serde_json::Value::Array(calls)));
    }
    let headings =
        ["call", "type", "provider", "action", "names", "ended", "ms", "stdin", "stdout", "stderr", "channel"];
    let mut table = Table::new(headings);
    for (number, one) in recording.exchanges() {
        let size = |bytes: Option<&[u8]>| bytes.map_or(String::new(), |bytes| bytes.len().to_string());
        let finished = one.answer.as_ref().ok();
        table.row(vec![
            number.to_string(),
            visible(&one.type_name),
            visible(&one.provider),
            visible(&one.action),
            visible(&names(&one.names())),
            one.ended(),
            one.duration.as_millis().to_string(),
            size(one.stdin.as_deref()),
            size(finished.map(|finished| finished.stdout.bytes.as_slice())),
            size(finished.map(|finished| finished.stderr.bytes.as_slice())),
            size(finished.map(|finished| finished.channel.bytes.as_slice()).filter(|bytes| !bytes.is_empty())),
        ]);
    }
    output::data(&table.render(None).0)
}

fn names(names: &[String]) -> String {
    match names {
        [one, two, rest @ ..] if !rest.is_empty() => format!("{one}, {two} and {} more", rest.len()),
        names => names.join(", "),
    }
}

fn document(number: usize, one: &kilter_script::recorded::RecordedExchange) -> serde_json::Value {
    let mut json = one.to_json();
    json["exchange"] = number.into();
    json
}

/// Shows one complete call.
fn show(recording: &Recording, number: usize, format: Option<ResourceFormat>) -> Exit {
    match recording.exchanges().find(|(known, _)| *known == number) {
        Some((_, one)) if format == Some(ResourceFormat::Json) => {
            output::data(&format!("{:#}\n", document(number, one)))
        }
        Some((_, one)) => output::data(&one.shown(usize::MAX)),
        None => {
            let numbers = recording.exchanges().map(|(number, _)| number);
            let hint = match (numbers.clone().min(), numbers.max()) {
                (Some(first), Some(last)) => format!("there are {first} to {last}; --list shows them"),
                _ => "it contains no calls of scripts".to_owned(),
            };
            output::fail_with(format_args!("there is no call {number} in the recording"), [hint])
        }
    }
}

fn replay(args: &ReplayArgs, global: &Global, recording: Recording) -> Result<Exit, Exit> {
    let shown = args.file.display();
    if let Some(why) = &recording.cut {
        let hint = "kilter was killed, or the file was truncated; --list and --exchange show its contents";
        return Err(output::fail_with(format_args!("the recording {shown} is incomplete: {why}"), [hint]));
    }
    let directory = Scratch::make()
        .map_err(|error| output::fail(format_args!("cannot make a temporary directory for the replay: {error}")))?;
    let cli = parsed(args, global, &recording, &directory.0)?;
    let (version, exit) = (recording.kilter_version.clone(), recording.exit);
    let player = Arc::new(Player::new(recording));
    let ended = commands::run(&cli, &RecordMode::Replaying(Arc::clone(&player)));
    let divergences = player.divergences();
    if divergences.is_empty() {
        return match exit.filter(|code| *code != ended.code() && args.format.is_none()) {
            // A signal ended the replay, which is no difference.
            Some(_) if signals::exit().is_some() => Ok(ended),
            Some(code) => {
                output::error(format_args!("the recorded command ended with {code}, this one with {}", ended.code()));
                Err(Exit::Diverged)
            }
            None => Ok(ended),
        };
    }
    output::error("the command went another way than the recording");
    divergences.iter().take(MAX_REPORTED_DIFFERENCES).for_each(|told| output::line(format_args!("  {told}")));
    if divergences.len() > MAX_REPORTED_DIFFERENCES {
        output::line(format_args!("  and {} more", divergences.len() - MAX_REPORTED_DIFFERENCES));
    }
    output::hint(format_args!(
        "it was recorded by kilter {version} (format {VERSION}), this is {}: the calls have changed, or the recording \
         was",
        env!("CARGO_PKG_VERSION")
    ));
    Err(Exit::Diverged)
}

/// Parses the recorded command, with another state directory.
fn parsed(args: &ReplayArgs, global: &Global, recording: &Recording, state: &Path) -> Result<Cli, Exit> {
    let words = recording.words.iter().map(|word| OsString::from_vec(word.clone()));
    let cli = Cli::try_parse_from(std::iter::once(OsString::from("kilter")).chain(words));
    let mut cli = cli.map_err(|refused| commands::refuse(&refused))?;
    if !super::record::is_recordable(&cli.command) {
        return Err(output::fail(format_args!(
            "{} is a recording of no command that can be recorded",
            args.file.display()
        )));
    }
    cli.global.state_dir = Some(state.to_owned());
    cli.global.color = global.color;
    cli.global.trust.extend(global.trust.iter().cloned());
    cli.global.verbose |= global.verbose && !cli.global.quiet;
    if cli.global.channel3.is_some() {
        cli.global.channel3 = Some(state.join("channel3"));
    }
    if let Some(format) = args.format {
        reformat(&mut cli.command, format)?;
    }
    Ok(cli)
}

/// Changes the output format of a command.
fn reformat(command: &mut Command, format: ResourceFormat) -> Result<(), Exit> {
    let report = match format {
        ResourceFormat::Human => Some(ReportFormat::Human),
        ResourceFormat::Json => Some(ReportFormat::Json),
        ResourceFormat::Yaml | ResourceFormat::Puppet => None,
    };
    let is_json = format == ResourceFormat::Json;
    match (command, report) {
        (Command::Get(args), _) => args.format = format,
        (Command::Set(args), Some(report)) => args.format = report,
        (Command::Act(args), Some(report)) => args.format = report,
        (Command::Plan(args), Some(report)) => args.format = report,
        (Command::Apply(args), Some(report)) => args.format = report,
        (Command::Check(args), Some(report)) => args.format = report,
        (Command::Types(args), Some(_)) => args.format = if is_json { TypesFormat::Json } else { TypesFormat::Human },
        (Command::Graph(args), Some(_)) => args.format = if is_json { GraphFormat::Json } else { GraphFormat::Human },
        _ => return Err(output::fail("the recorded command does not print in this format")),
    }
    Ok(())
}

/// Directory that is removed on drop.
struct Scratch(PathBuf);

impl Scratch {
    fn make() -> std::io::Result<Scratch> {
        let mut number = 0_u32;
        loop {
            let path = std::env::temp_dir().join(format!("kilter-replay-{}-{number}", std::process::id()));
            match std::fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Scratch(path)),
                // The name is in use by an earlier process.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && number < 1000 => number += 1,
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A directory that cannot be removed contains at most the state of the replay.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
