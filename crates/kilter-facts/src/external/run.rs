//! Runs executables that print facts.

use std::path::Path;
use std::time::Instant;

use kilter_model::Hash;
use kilter_process::trust::TrustPolicy;
use kilter_process::{Cancel, Capture, Invocation, Output, Termination, run};

use super::{ExecutableObserver, ExternalFacts, MAX_FACTS_BYTES, from_json_text, from_lines};

/// Runs an executable and parses its output: a JSON object, or lines of `name=value`.
pub(super) fn executable(path: &Path, policy: &TrustPolicy, external: &ExternalFacts) -> Result<Hash, String> {
    let deadline = external.deadline;
    let mut invocation = Invocation::new(path).captured(MAX_FACTS_BYTES).deadline(deadline).cwd("/").trusted(policy);
    invocation.stdout = Capture::AtMost(MAX_FACTS_BYTES);
    let begun = Instant::now();
    let result = run(&invocation, external.cancelled.map(Cancel::new));
    if let Some(ExecutableObserver(observe)) = &external.observer {
        observe(&invocation, &result, begun.elapsed());
    }
    let finished = result.map_err(|error| error.with_sources())?;
    match finished.ending {
        Termination::Deadline => {
            return Err(format!("ended after {} seconds without an answer", deadline.as_secs_f32()));
        }
        Termination::OutputLimit => return Err(format!("it prints more than {MAX_FACTS_BYTES} bytes")),
        Termination::Cancelled => return Err("ended because the run was interrupted".to_owned()),
        Termination::Exited if !finished.status.is_success() => return Err(failure(&finished)),
        Termination::Exited => {}
    }
    let text = std::str::from_utf8(&finished.stdout.bytes).map_err(|_| "its output is not UTF-8".to_owned())?;
    let facts = if text.trim_start().starts_with('{') { from_json_text(text) } else { from_lines(text) };
    facts.map_err(|why| format!("its output: {why}"))
}

/// Returns the exit status and the last line of stderr.
fn failure(finished: &Output) -> String {
    let stderr = finished.stderr.text();
    match stderr.lines().map(str::trim).rfind(|line| !line.is_empty()) {
        Some(line) => format!("it failed with {}: {line}", finished.status),
        None => format!("it failed with {}", finished.status),
    }
}
