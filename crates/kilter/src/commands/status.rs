//! `kilter status`: the resources of a run, and the reasons why they are out of sync.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use kilter_model::ResourceRef;
use serde_json::{Value as Json, json};

use crate::cli::{StatusArgs, StatusFormat};
use crate::exit::Exit;
use crate::render::{metrics, status};
use crate::session::Session;
use crate::{output, paths};

/// Timeout for the answer of a run: longer than the run's own timeout, so that a busy run can report that.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(70);

/// Runs the command.
pub(crate) fn run(args: &StatusArgs, session: &Session) -> Exit {
    match ask(args, session) {
        Ok(exit) | Err(exit) => exit,
    }
}

fn ask(args: &StatusArgs, session: &Session) -> Result<Exit, Exit> {
    check_format(args)?;
    let which = which(args)?;
    let state_dir = session.state_dir()?;
    let stream = connect(&state_dir)?;
    if args.follow {
        return follow(stream);
    }
    let answer = answer(&stream, &which)?;
    let unknown = answer["unknown"].as_array().map_or(0, Vec::len);
    for name in answer["unknown"].as_array().into_iter().flatten().filter_map(Json::as_str) {
        output::error(format_args!("{name} is not a resource of this run"));
    }
    let shown = match args.format {
        StatusFormat::Json => output::data(&format!("{answer:#}\n")),
        StatusFormat::Human => output::data(&status::text(&answer)),
        StatusFormat::Prometheus => output::data(&metrics::text(&answer)),
    };
    let count = |key: &str| answer["counts"][key].as_u64().unwrap_or(0);
    let source = &answer["source"]["failure"];
    let is_failed = count("failed") + count("skipped") > 0
        || answer["outdated"].is_object()
        || source["rejected"] == true
        || answer["journal"].is_string();
    let is_hampered = count("contested") + count("watched_only") + count("unwatched") > 0
        || answer["declared_polled"] == true
        || answer["collected"].is_object()
        || source.is_object()
        || answer["paused"].is_object();
    Ok(match shown {
        Exit::Done if unknown > 0 => Exit::NotStarted,
        Exit::Done if is_failed => Exit::Failed,
        Exit::Done if is_hampered => Exit::Pending,
        Exit::Done if count("would_change") + count("would_refresh") + count("unknown") > 0 => Exit::Pending,
        other => other,
    })
}

/// Verifies that the request is possible in the format.
fn check_format(args: &StatusArgs) -> Result<(), Exit> {
    let what = match args.format {
        StatusFormat::Prometheus if args.follow => "`--follow`",
        StatusFormat::Prometheus if !args.resources.is_empty() => "a resource",
        _ => return Ok(()),
    };
    Err(output::fail(format_args!("metrics cover all resources: {what} cannot be used with `--format prometheus`")))
}

/// Returns the state of each resource of a run.
///
/// # Errors
/// If there is no run, or it does not answer; reported.
pub(crate) fn states(session: &Session) -> Result<HashMap<String, String>, Exit> {
    let answer = answer(&connect(&session.state_dir()?)?, &json!("all"))?;
    let state = |one: &Json| Some((one["resource"].as_str()?.to_owned(), one["state"].as_str()?.to_owned()));
    Ok(answer["resources"].as_array().into_iter().flatten().filter_map(state).collect())
}

/// Returns the status of these resources.
fn answer(stream: &UnixStream, filter: &Json) -> Result<Json, Exit> {
    ask_for(stream, &json!({"request": "status", "filter": filter}))
}

/// Returns the answer of a run to a request.
pub(super) fn ask_for(stream: &UnixStream, question: &Json) -> Result<Json, Exit> {
    let answer =
        asked(stream, question).map_err(|error| output::fail(format_args!("the run does not reply: {error}")))?;
    match answer["error"].as_str() {
        Some(why) => Err(output::fail(why)),
        None => Ok(answer),
    }
}

/// Returns the requested selection. A resource may be written as type and title.
fn which(args: &StatusArgs) -> Result<Json, Exit> {
    if args.all {
        return Ok("all".into());
    }
    let parsed = args.resources.iter().map(|name| match name.parse::<ResourceRef>() {
        Ok(reference) => Ok(reference.to_string()),
        Err(error) => Err(output::fail_with(
            format_args!("`{name}` names no resource: {error}"),
            ["a resource is written `type[title]`: 'file[/etc/motd]'"],
        )),
    });
    let named = parsed.collect::<Result<Vec<_>, _>>()?;
    Ok(if named.is_empty() { "notable".into() } else { named.into() })
}

pub(super) fn connect(state_dir: &Path) -> Result<UnixStream, Exit> {
    let path = paths::status_socket(state_dir);
    UnixStream::connect(&path).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => output::fail_with(
            format_args!("no `kilter run` is active with the state directory {}", state_dir.display()),
            ["start one: kilter run MANIFEST", "or name its directory with --state-dir"],
        ),
        _ => output::fail(format_args!("cannot query the run at {}: {error}", path.display())),
    })
}

/// Sends a request, and reads the complete answer.
fn asked(mut stream: &UnixStream, question: &Json) -> io::Result<Json> {
    // The reason of a refusal can be read even if the write failed.
    let asked = stream.write_all(format!("{question}\n").as_bytes());
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    if answer.is_empty() {
        asked?;
        return Err(io::Error::new(ErrorKind::UnexpectedEof, "it has ended meanwhile"));
    }
    serde_json::from_str(&answer).map_err(io::Error::from)
}

/// Prints events until the run ends.
fn follow(mut stream: UnixStream) -> Result<Exit, Exit> {
    let told = |error: io::Error| output::fail(format_args!("the run does not reply: {error}"));
    let asked = stream.write_all(format!("{}\n", json!({"request": "follow"})).as_bytes());
    for line in BufReader::new(stream).lines() {
        let line = line.map_err(told)?;
        if line == "{\"event\":\"end\"}" {
            return Ok(Exit::Done);
        }
        if let Some(why) = refused(&line) {
            return Err(output::fail(why));
        }
        match output::write(&format!("{line}\n")) {
            Ok(()) => {}
            // The reader has closed the pipe.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(Exit::Done),
            Err(error) => return Err(output::fail(format_args!("cannot write to the standard output: {error}"))),
        }
    }
    asked.map_err(told)?;
    Err(output::fail("the run has ended without a notice: it was killed"))
}

/// Returns the reason if the line is a refusal.
fn refused(line: &str) -> Option<String> {
    let json: Json = serde_json::from_str(line).ok()?;
    Some(json["error"].as_str()?.to_owned())
}
