//! A provider that misbehaves: `misbehave CONVENTION SCENARIO WORDS…`.
//!
//! It answers `list`, `find` and `get` with the resource `a` (or those that it is asked for) and `update` and `set`
//! with `derive`, but for what its scenario does wrong. On standard error it says `last words of SCENARIO`.

mod answer;
mod scenario;

use std::process::ExitCode;

use answer::{Action, Convention, Request};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some(([convention, scenario], words)) = args.split_first_chunk::<2>() else {
        eprintln!("usage: misbehave simple|json SCENARIO WORDS…");
        return ExitCode::from(64);
    };
    let convention = if convention == "json" { Convention::Json } else { Convention::Simple };
    let Some(request) = Request::read(convention, scenario != "ignores-stdin", words) else {
        eprintln!("error: no action among {words:?}");
        return ExitCode::from(64);
    };
    let is_of_updates = scenario.starts_with("update-");
    if is_of_updates != (request.action == Action::Update) {
        answer::good(&request);
        return ExitCode::SUCCESS;
    }
    eprintln!("last words of {scenario}");
    ExitCode::from(scenario::play(scenario.strip_prefix("update-").unwrap_or(scenario), &request))
}
