//! `kilter pause` and `kilter resume`: stop a run from starting new work, and continue it.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use kilter_runtime::StateDir;
use serde_json::{Value as Json, json};

use super::status::{ask_for, connect};
use crate::cli::{PauseArgs, ResumeArgs};
use crate::exit::Exit;
use crate::pauses::{self, PauseSelection, Pauses};
use crate::session::Session;
use crate::visible::visible;
use crate::{output, paths};

/// Interval of checks whether running calls have ended.
const POLL: Duration = Duration::from_millis(100);

/// Runs `kilter pause`.
pub(crate) fn pause(args: &PauseArgs, session: &Session) -> Exit {
    match paused(args, session) {
        Ok(exit) | Err(exit) => exit,
    }
}

/// Runs `kilter resume`.
pub(crate) fn resume(args: &ResumeArgs, session: &Session) -> Exit {
    match resumed(args, session) {
        Ok(exit) | Err(exit) => exit,
    }
}

fn resumed(args: &ResumeArgs, session: &Session) -> Result<Exit, Exit> {
    let caller = pauses::caller();
    let which = match args.id {
        Some(id) => PauseSelection::One(id),
        None if args.all => PauseSelection::All,
        None => PauseSelection::Session(caller["session"].as_str().unwrap_or_default().to_owned()),
    };
    let state_dir = session.state_dir()?;
    let answer = match without_run(&state_dir, &which)? {
        Some(answer) => answer,
        None => {
            let caller_session = caller["session"].clone();
            ask(session, &json!({"request": "resume", "id": args.id, "all": args.all, "session": caller_session}))?
        }
    };
    let left: Vec<&str> = answer["left"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
    match (answer["was_paused"] == true, answer["ended"].as_u64().unwrap_or(0)) {
        (false, _) => output::line("it was not paused"),
        (true, 0) => {
            let what = match args.id {
                Some(id) => format!("there is no pause {id}"),
                None if caller["session"] == "" => {
                    "the session of this process is outside of its PID namespace: name a pause by its number".to_owned()
                }
                None => "this session has paused nothing".to_owned(),
            };
            let hints = ["`kilter resume ID` ends one of them, `kilter resume --all` ends all"];
            return Err(output::fail_with(format_args!("{what}; still paused: {}", left.join("; ")), hints));
        }
        (true, _) if !left.is_empty() => output::line(format_args!("still paused: {}", left.join("; "))),
        (true, _) => {}
    }
    Ok(Exit::Done)
}

/// Ends pauses of a state directory without a run. Returns `None` if a run holds it, or there is no pause.
fn without_run(state_dir: &Path, which: &PauseSelection) -> Result<Option<Json>, Exit> {
    let fail = |error: io::Error| output::fail(format_args!("the pause cannot be ended: {error}"));
    let is_paused = |pauses: &Pauses| pauses.as_one().is_some();
    if UnixStream::connect(paths::status_socket(state_dir)).is_ok()
        || !Pauses::read(state_dir).is_ok_and(|one| is_paused(&one))
    {
        return Ok(None);
    }
    // The lock prevents the start of a run meanwhile.
    let Ok(_lock) = StateDir::new(state_dir).hold() else { return Ok(None) };
    let mut pauses = Pauses::read(state_dir).map_err(fail)?;
    let was_paused = is_paused(&pauses);
    let ended = pauses.end(which).map_err(fail)?;
    Ok(Some(json!({"was_paused": was_paused, "ended": ended, "left": pauses.lines()})))
}

/// Adds a pause to a state directory without a run, so that no command makes changes. Returns `None` if a run holds it.
fn reserved(args: &PauseArgs, caller: &Json, state_dir: &Path) -> Result<Option<Json>, Exit> {
    if UnixStream::connect(paths::status_socket(state_dir)).is_ok() {
        return Ok(None);
    }
    let fail = |error: io::Error| output::fail(format_args!("the pause cannot be stored: {error}"));
    // A command that makes changes holds the lock until its end.
    let _lock = StateDir::new(state_dir).hold().map_err(output::fail)?;
    let (longest, why) = (args.longest.map(Duration::from_secs), args.why.as_deref().unwrap_or_default());
    let id = Pauses::read(state_dir).and_then(|mut pauses| pauses.add(caller, longest, why)).map_err(fail)?;
    output::line("no `kilter run` is active: changes by commands are refused");
    Ok(Some(json!({ "id": id })))
}

fn paused(args: &PauseArgs, session: &Session) -> Result<Exit, Exit> {
    let for_ms = args.longest.map(|seconds| seconds.saturating_mul(1000));
    let caller = pauses::caller();
    let answer = match reserved(args, &caller, &session.state_dir()?)? {
        Some(answer) => answer,
        None => {
            let request = json!({"request": "pause", "for_ms": for_ms, "why": args.why, "by": caller});
            let answer = ask(session, &request)?;
            if !args.no_wait {
                until_nothing_is_under_way(session)?;
            }
            answer
        }
    };
    if !session.global.quiet {
        let id = &answer["id"];
        match caller["session"] == "" {
            true => output::line(format_args!("pause {id}: `kilter resume {id}` ends it")),
            false => output::line(format_args!(
                "pause {id}: `kilter resume` ends it in this session, `kilter resume {id}` anywhere"
            )),
        }
    }
    Ok(Exit::Done)
}

fn until_nothing_is_under_way(session: &Session) -> Result<(), Exit> {
    let mut told = String::new();
    loop {
        let status = ask(session, &json!({"request": "status"}))?;
        if !status["paused"].is_object() {
            return Err(output::fail(
                "the pause is over, by `--for` or `kilter resume`, before all running calls have ended",
            ));
        }
        if status["in_flight"] == 0 {
            return Ok(());
        }
        let under_way = under_way(&status);
        if under_way != told && !session.global.quiet {
            output::line(format_args!("paused; waiting for running calls: {under_way}"));
        }
        told = under_way;
        std::thread::sleep(POLL);
    }
}

/// Returns the names of resources with running calls, calls of changed and removed resources included.
fn under_way(status: &Json) -> String {
    let of = |key: &str| status[key].as_array().into_iter().flatten();
    let is_under_way = |one: &&Json| matches!(one["state"].as_str(), Some("checking" | "changing" | "refreshing"));
    let resources = of("resources").filter(is_under_way).chain(of("superseded_calls"));
    let names: Vec<String> = resources.filter_map(|one| one["resource"].as_str()).map(visible).collect();
    names.join(", ")
}

fn ask(session: &Session, question: &Json) -> Result<Json, Exit> {
    ask_for(&connect(&session.state_dir()?)?, question)
}
