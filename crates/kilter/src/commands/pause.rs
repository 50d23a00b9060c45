//! `kilter pause` and `kilter resume`: a run begins nothing further, and goes on.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::status::{ask_for, connect};
use crate::cli::{Global, PauseArgs};
use crate::exit::Exit;
use crate::render::diff::visible;
use crate::say;

/// How often it is looked whether what is under way has ended.
const LOOK: Duration = Duration::from_millis(100);

/// Runs `kilter pause`.
pub(crate) fn pause(args: &PauseArgs, global: &Global) -> Exit {
    match paused(args, global) {
        Ok(exit) | Err(exit) => exit,
    }
}

/// Runs `kilter resume`.
pub(crate) fn resume(global: &Global) -> Exit {
    match ask(global, &json!({"ask": "resume"})) {
        Ok(answer) if answer["was_paused"] == false => {
            say::line("it was not paused");
            Exit::Done
        }
        Ok(_) => Exit::Done,
        Err(exit) => exit,
    }
}

fn paused(args: &PauseArgs, global: &Global) -> Result<Exit, Exit> {
    let for_ms = args.longest.map(|seconds| seconds.saturating_mul(1000));
    ask(global, &json!({"ask": "pause", "for_ms": for_ms, "why": args.why}))?;
    if !args.no_wait {
        until_nothing_is_under_way(global)?;
    }
    Ok(Exit::Done)
}

fn until_nothing_is_under_way(global: &Global) -> Result<(), Exit> {
    let mut told = String::new();
    loop {
        let status = ask(global, &json!({"ask": "status"}))?;
        if !status["paused"].is_object() {
            return Err(say::fail(
                "the pause is over, by `--for` or `kilter resume`, before all that was under way has ended",
            ));
        }
        if status["in_flight"] == 0 {
            return Ok(());
        }
        let under_way = under_way(&status);
        if under_way != told && !global.quiet {
            say::line(format_args!("paused; waiting for what is under way: {under_way}"));
        }
        told = under_way;
        std::thread::sleep(LOOK);
    }
}

/// What something is done to, as it is declared or was before an edit.
fn under_way(status: &Json) -> String {
    let of = |key: &str| status[key].as_array().into_iter().flatten();
    let is_under_way = |one: &&Json| matches!(one["state"].as_str(), Some("checking" | "changing" | "refreshing"));
    let resources = of("resources").filter(is_under_way).chain(of("begun_before"));
    let names: Vec<String> = resources.filter_map(|one| one["resource"].as_str()).map(visible).collect();
    names.join(", ")
}

fn ask(global: &Global, question: &Json) -> Result<Json, Exit> {
    ask_for(&connect(&global.state_dir()?)?, question)
}
