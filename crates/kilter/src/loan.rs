//! Loan of the state directory that a `kilter run` holds, for one command that makes changes.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use kilter_runtime::{Lock, Prepared, SealingKey, StateDir, StateDirError};
use serde_json::{Value as Json, json};

use crate::execute::fail_text;
use crate::exit::Exit;
use crate::recorder::CatalogDigests;
use crate::{output, paths, pauses, signals};

/// Interval of checks for signals.
const POLL: Duration = Duration::from_millis(100);

/// Time after which the command says that it waits.
const QUIET: Duration = Duration::from_secs(1);

/// Maximum size of an answer in bytes.
const MAX_ANSWER: usize = 1 << 20;

/// Maximum number of conflicts that a message shows.
const MAX_SHOWN: usize = 10;

/// Lock of a command that makes changes. The run gets its state directory back when this is dropped.
#[derive(Debug)]
pub(crate) struct CommandLock {
    // Released before the end of the loan.
    lock: Lock,
    _loan: Option<UnixStream>,
}

impl CommandLock {
    /// Returns the reason if the lock outside of the state directory could not be taken.
    pub(crate) fn failure(&self) -> Option<String> {
        self.lock.failure()
    }
}

/// Reason why a command gets no lock.
enum LockRefusal {
    /// Another command holds it, or the directory cannot be used.
    StateDir(StateDirError),
    /// The run that holds it does not lend it.
    Run {
        holder: String,
        why: String,
    },
    /// The run declares these resources differently.
    Conflicts {
        holder: String,
        names: Vec<String>,
    },
    Interrupted(Exit),
}

/// Locks a state directory. A `kilter run` that holds it ends its running calls and waits meanwhile. Waits up to
/// `timeout` for another command.
///
/// The run keeps its own declarations. So it must not declare a resource of `prepared` differently, unless it is
/// paused.
///
/// # Errors
/// If another command holds the lock, the directory cannot be used, or the run would undo the changes; reported.
pub(crate) fn lock(
    state_dir: &StateDir,
    prepared: Option<&Prepared>,
    command: &str,
    timeout: Duration,
) -> Result<CommandLock, Exit> {
    let begun = Instant::now();
    let mut is_told = false;
    loop {
        let refusal = match attempt(state_dir, prepared, command) {
            Ok(lock) => return Ok(lock),
            Err(refusal) => refusal,
        };
        match refusal {
            LockRefusal::StateDir(StateDirError::Locked { holder, .. }) if begun.elapsed() < timeout => {
                if let Some(exit) = signals::exit() {
                    return Err(exit);
                }
                if !std::mem::replace(&mut is_told, true) {
                    output::line(format_args!("waiting for the end of another command (process {holder})"));
                }
                std::thread::sleep(POLL);
            }
            LockRefusal::StateDir(error @ StateDirError::Locked { .. }) => {
                let hint = (command == "apply").then_some("--lock-timeout 5m waits for it");
                return Err(output::fail_with(fail_text(&error), hint));
            }
            LockRefusal::StateDir(error) => return Err(output::fail(fail_text(&error))),
            LockRefusal::Run { holder, why } => {
                let holder = format_args!("`kilter run` (process {holder})");
                return Err(output::fail(format_args!("{holder} does not lend the state directory: {why}")));
            }
            LockRefusal::Conflicts { holder, names } => return Err(conflicting(&holder, &names)),
            LockRefusal::Interrupted(exit) => return Err(exit),
        }
    }
}

/// Locks a state directory, and waits for other commands that hold it. Returns none after a signal.
///
/// # Errors
/// If the directory cannot be used.
pub(crate) fn lock_or_wait(state_dir: &StateDir, command: &str) -> Result<Option<CommandLock>, StateDirError> {
    loop {
        match attempt(state_dir, None, command) {
            Ok(lock) => return Ok(Some(lock)),
            Err(LockRefusal::StateDir(error)) if !matches!(error, StateDirError::Locked { .. }) => return Err(error),
            Err(_) if signals::exit().is_some() => return Ok(None),
            Err(_) => std::thread::sleep(POLL),
        }
    }
}

fn attempt(state_dir: &StateDir, prepared: Option<&Prepared>, command: &str) -> Result<CommandLock, LockRefusal> {
    let hold = |loan| {
        let lock = state_dir.hold().map_err(LockRefusal::StateDir)?;
        Ok(CommandLock { lock, _loan: loan })
    };
    match state_dir.hold() {
        Ok(lock) => return Ok(CommandLock { lock, _loan: None }),
        Err(StateDirError::Locked { .. }) => {}
        Err(error) => return Err(LockRefusal::StateDir(error)),
    }
    // Another command has no socket, unless a run has lent it the directory.
    let Ok(stream) = UnixStream::connect(paths::status_socket(state_dir.path())) else { return hold(None) };
    borrow(&stream, &request(state_dir.path(), prepared, command), &run_of(&stream))?;
    hold(Some(stream))
}

/// Returns the process of the run. A command to which it has lent the directory may hold the lock.
fn run_of(stream: &UnixStream) -> String {
    let run = rustix::net::sockopt::socket_peercred(stream);
    run.map_or("unknown".to_owned(), |run| run.pid.as_raw_nonzero().to_string())
}

/// Returns the request for a loan.
fn request(state_dir: &Path, prepared: Option<&Prepared>, command: &str) -> Json {
    let caller = pauses::caller();
    let by = format!("kilter {command} by {}", caller["by"].as_str().unwrap_or("unknown"));
    let declared = prepared.map(|prepared| digests(state_dir, prepared).to_json());
    json!({"request": "lend", "by": by, "declared": declared})
}

fn digests(state_dir: &Path, prepared: &Prepared) -> CatalogDigests {
    CatalogDigests::of(prepared, SealingKey::of(state_dir).ok().as_ref())
}

/// Asks for the loan, and waits for it.
fn borrow(mut stream: &UnixStream, request: &Json, holder: &str) -> Result<(), LockRefusal> {
    let cannot = |why: String| LockRefusal::Run { holder: holder.to_owned(), why };
    // The reason of a refusal can be read even if the write failed.
    let _ = stream.write_all(format!("{request}\n").as_bytes());
    stream.set_read_timeout(Some(POLL)).map_err(|error| cannot(error.to_string()))?;
    let (begun, mut is_told) = (Instant::now(), false);
    let mut answer = Vec::new();
    while answer.last() != Some(&b'\n') && answer.len() < MAX_ANSWER {
        if let Some(exit) = signals::exit() {
            return Err(LockRefusal::Interrupted(exit));
        }
        if !is_told && begun.elapsed() > QUIET {
            is_told = true;
            output::line(format_args!("waiting until `kilter run` (process {holder}) lends the state directory"));
        }
        let mut bytes = [0; 4096];
        match stream.read(&mut bytes) {
            Ok(0) => return Err(cannot("it has ended".to_owned())),
            Ok(count) => answer.extend_from_slice(&bytes[..count]),
            Err(error) if is_retried(error.kind()) => {}
            Err(error) => return Err(cannot(error.to_string())),
        }
    }
    let answer: Json = serde_json::from_slice(&answer).map_err(|error| cannot(error.to_string()))?;
    if let Some(names) = answer["conflicts"].as_array() {
        let names = names.iter().filter_map(Json::as_str).map(str::to_owned).collect();
        return Err(LockRefusal::Conflicts { holder: holder.to_owned(), names });
    }
    match answer["error"].as_str() {
        Some(why) => Err(cannot(why.to_owned())),
        None => Ok(()),
    }
}

fn is_retried(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

fn conflicting(holder: &str, names: &[String]) -> Exit {
    let more = names.len().saturating_sub(MAX_SHOWN);
    let mut shown = names[..names.len() - more].join(", ");
    if more > 0 {
        shown += &format!(" and {more} more");
    }
    output::fail_with(
        format_args!("`kilter run` (process {holder}) declares other values and would undo the changes: {shown}"),
        ["change its manifest instead", "or pause it by `kilter pause`, and give --even-if-paused"],
    )
}

/// Returns the attributes that a held catalog declares with another value than a request; none if the request is
/// damaged.
pub(crate) fn conflicts(state_dir: &Path, held: &Prepared, declared: &Json) -> Option<Vec<String>> {
    if declared.is_null() {
        return Some(Vec::new());
    }
    let asked = CatalogDigests::from_json(declared)?;
    let held_digests = digests(state_dir, held);
    let by_name: HashMap<_, _> = held_digests.resources().map(|one| ((one.type_name, one.name), one)).collect();
    let mut found = Vec::new();
    for one in asked.resources() {
        let Some(held) = by_name.get(&(one.type_name, one.name)) else { continue };
        let differs = |name: u32, value: u64| held.values.iter().any(|held| held.name == name && held.value != value);
        if one.values.iter().any(|asked| differs(asked.name, asked.value)) {
            found.push(format!("{}[{}]", held.type_name, held.title));
        }
    }
    Some(found)
}
