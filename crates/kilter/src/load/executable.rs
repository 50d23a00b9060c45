//! Executables that print manifests, and other programs that a manifest needs.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use kilter_model::{Value, to_json};
use kilter_process::{Cancel, Capture, Invocation, Output, Termination};

use crate::facts::Gathered;
use crate::session::Session;
use crate::signals;

/// Maximum size of a printed manifest in bytes.
const MAX_MANIFEST_BYTES: usize = 64 << 20;
/// Maximum size of the shown error output of a program, in bytes.
const COMPLAINT: usize = 2048;

/// Returns true if a manifest is a program.
pub(super) fn is(found: &Metadata) -> bool {
    found.is_file() && found.permissions().mode() & 0o111 != 0
}

/// Runs an executable with the facts on standard input; returns its output.
pub(super) fn output(session: &Session, path: &Path, facts: &Gathered, timeout: Duration) -> Result<String, String> {
    let shown = path.display();
    let absolute = std::path::absolute(path).map_err(|error| format!("cannot run {shown}: {error}"))?;
    let facts = to_json(&Value::Hash(std::sync::Arc::new(facts.live().all())));
    let mut invocation = invocation(session, absolute, timeout);
    invocation.stdin = Some(format!("{facts}\n").into_bytes());
    invocation.stdout = Capture::AtMost(MAX_MANIFEST_BYTES);
    invocation.stderr = Capture::Last(COMPLAINT);
    let finished =
        run(session, "manifest", &invocation).map_err(|why| format!("the executable manifest {shown}: {why}"))?;
    let name = format!("{shown} (output)");
    let bytes = finished.stdout.bytes;
    String::from_utf8(bytes).map_err(|error| super::not_text(&name, error.as_bytes(), error.utf8_error().valid_up_to()))
}

/// Returns a program in the documented environment, with `HOME`. As root, another user cannot have changed it.
pub(super) fn invocation(session: &Session, program: impl AsRef<OsStr>, timeout: Duration) -> Invocation {
    let mut invocation = Invocation::new(program.as_ref()).trusted(&session.trust);
    invocation.env.extend(std::env::var_os("HOME").map(|home| ("HOME".into(), home)));
    invocation.deadline = Some(timeout);
    invocation
}

/// Runs a program to its successful end. `purpose` says for what it runs, for the history.
///
/// # Errors
/// The reason why it did not start or how it ended, with the end of its error output.
pub(super) fn run(session: &Session, purpose: &str, invocation: &Invocation) -> Result<Output, String> {
    let cancel = Cancel::new(signals::raised());
    let begun = Instant::now();
    let result = kilter_process::run(invocation, Some(cancel));
    session.early_processes.add(purpose, invocation, &result, begun.elapsed());
    let finished = result.map_err(|error| {
        let text = error.with_sources();
        let no_program = text.contains("it is not a program");
        if no_program { format!("{text}; if it is not a program: chmod a-x") } else { text }
    })?;
    let why = match finished.ending {
        Termination::Exited if finished.leaked => "it left a process that may have had more output".to_owned(),
        Termination::Exited if finished.is_success() => return Ok(finished),
        Termination::Exited => format!("it ended with {}", finished.status),
        Termination::Deadline => {
            format!("it did not end within {} s", invocation.deadline.unwrap_or_default().as_secs())
        }
        Termination::OutputLimit => "it printed more than is allowed and was ended".to_owned(),
        Termination::Cancelled => "it was interrupted".to_owned(),
    };
    let complaint = finished.stderr.text();
    let lines: String = complaint.lines().map(|line| format!("\n    {}", crate::visible::visible(line))).collect();
    Err(format!("{why}{lines}"))
}
