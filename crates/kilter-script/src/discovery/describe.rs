//! Metadata of a script: from the file next to it, from the cache, or from the script itself.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ecow::{EcoString, eco_format};
use kilter_process::{Cancel, Capture, Confinement, Invocation, KillMode, Output};
use kilter_provider::{Level, Redactor};

use super::cache::{Cache, CachedDescription as DescribedText};
use super::candidate::ExecutableFile;
use super::{FoundScript, Note, trusted_text};
use crate::confined::{ConfinementPolicy, ConfinementReporter, Confining};
use crate::convention::{Convention, ProtocolError, Reply, Request, beginning};
use crate::exchange::ScriptCall;
use crate::fault::Fault;
use crate::metadata::{Metadata, Origin, TransportMetadata};
use crate::script_environment::ScriptEnvironment;
use crate::simple::Simple;
use crate::stderr_forwarder::level;

/// Maximum size of metadata, in bytes.
const MAX_METADATA_BYTES: usize = 1 << 20;

/// Maximum number of reported faults per file.
const MAX_REPORTED_FAULTS: usize = 5;

/// Reads the metadata of a script, with warnings. All scripts share `watch`.
pub(super) fn read_metadata(
    candidate: &ExecutableFile,
    cache: Option<&Path>,
    surroundings: &Arc<ScriptEnvironment>,
    watch: &ConfinementReporter,
) -> FoundScript {
    let beside = candidate.path.with_extension("yaml");
    let mut notes = Vec::new();
    let (file, described, is_cached) = match std::fs::metadata(&beside) {
        Ok(_) => (beside.clone(), trusted_text(&surroundings.trust, &beside, MAX_METADATA_BYTES), false),
        Err(_) => {
            let (described, is_cached) = described(candidate, cache, surroundings, watch, &mut notes);
            (candidate.path.clone(), described, is_cached)
        }
    };
    FoundScript {
        path: candidate.path.clone(),
        stem: candidate.stem.as_str().into(),
        file,
        described,
        notes,
        is_cached,
    }
}

/// Metadata of a script.
pub(crate) enum Described {
    /// The script is a provider.
    Provider(Box<Metadata>),
    /// The script is a transport with its providers.
    Transport(Box<TransportMetadata>),
}

/// Parses the metadata of a script. Returns none if it is unusable, and the notes about it.
pub(crate) fn read(script: &FoundScript) -> (Option<Described>, Vec<Note>) {
    let mut notes = script.notes.clone();
    match parsed(script) {
        Ok(described) => {
            let warnings = match &described {
                Described::Provider(metadata) => &metadata.warnings,
                Described::Transport(metadata) => &metadata.warnings,
            };
            notes.extend(warnings.iter().map(|odd| Note {
                file: script.file.clone(),
                level: Level::Notice,
                message: eco_format!("{odd}"),
            }));
            (Some(described), notes)
        }
        Err(why) => {
            notes.push(Note::warning(&script.file, why));
            (None, notes)
        }
    }
}

fn parsed(script: &FoundScript) -> Result<Described, EcoString> {
    let text = script.described.as_ref().map_err(|why| eco_format!("not used: {why}"))?;
    if TransportMetadata::is_in(text) {
        let metadata = TransportMetadata::parse(text, &script.stem).map_err(|faults| wrong(&faults))?;
        return Ok(Described::Transport(Box::new(metadata)));
    }
    let parse = if script.file == script.path { Metadata::described } else { Metadata::parse };
    let metadata = parse(text, &script.stem).map_err(|faults| wrong(&faults))?;
    let origin = if script.is_cached { Origin::Cached } else { metadata.origin };
    Ok(Described::Provider(Box::new(Metadata { origin, ..metadata })))
}

fn wrong(faults: &[Fault]) -> EcoString {
    let shown: Vec<String> = faults.iter().take(MAX_REPORTED_FAULTS).map(ToString::to_string).collect();
    let more = faults.len().saturating_sub(MAX_REPORTED_FAULTS);
    let more = if more > 0 { eco_format!("; and {more} more") } else { EcoString::new() };
    eco_format!("not used: its metadata is wrong: {}{more}", shown.join("; "))
}

/// Returns the metadata, and true if it comes from the cache.
fn described(
    candidate: &ExecutableFile,
    cache: Option<&Path>,
    surroundings: &ScriptEnvironment,
    watch: &ConfinementReporter,
    notes: &mut Vec<Note>,
) -> (DescribedText, bool) {
    let cache = cache.map(|directory| Cache::new(directory, candidate, surroundings));
    if let Some((known, left)) = cache.as_ref().and_then(Cache::get) {
        return (known.map_err(|why| remembered(&why, left)), true);
    }
    let described = ask(candidate, surroundings, watch, notes);
    // A cancelled call reveals nothing about the script.
    let is_cut_short = surroundings.cancelled.is_some_and(|cancelled| cancelled.load(Ordering::Acquire));
    let left = cache.filter(|_| !is_cut_short).and_then(|cache| cache.put(&described));
    (described.map_err(|why| left.map_or(why.clone(), |left| remembered(&why, left))), false)
}

/// Returns the reason of a failure with its remaining validity.
fn remembered(why: &str, left: Duration) -> EcoString {
    let minutes = left.as_secs().div_ceil(60);
    eco_format!("{why}; kilter tries again in {minutes} min, or when the file changes")
}

/// Returns warnings about a script that tried or was able to change the machine.
fn warned(candidate: &ExecutableFile, watch: &ConfinementReporter, finished: &Output) -> impl Iterator<Item = Note> {
    let call = Confining { who: "the script", action: "describe", is_preview: false, lifted: ConfinementPolicy::Never };
    // Incomplete confinement applies to all scripts; attempts belong to one script.
    let messages = watch.gap(call, finished).into_iter().chain(ConfinementReporter::default().tried(call, finished));
    messages.map(|message| Note::warning(&candidate.path, message))
}

fn ask(
    candidate: &ExecutableFile,
    surroundings: &ScriptEnvironment,
    watch: &ConfinementReporter,
    notes: &mut Vec<Note>,
) -> DescribedText {
    let limits = &surroundings.limits;
    let base = surroundings.invocation(&candidate.path);
    let base = Invocation { deadline: Some(limits.describe), stdout: Capture::AtMost(MAX_METADATA_BYTES), ..base };
    // The permissions of the script are not known yet.
    let base = base.confined(Confinement::ReadOnly).leftovers(KillMode::Ended);
    // Both conventions with `describe` have the same answer.
    let convention = Simple::new(base);
    let invocation = convention.encode(&Request::Describe).map_err(|refusal| eco_format!("{refusal}"))?;
    let cancel = surroundings.cancelled.map(Cancel::new);
    let exchange = ScriptCall {
        type_name: "",
        provider: &candidate.stem,
        convention: "simple",
        action: "describe",
        path: &candidate.path,
        invocation: &invocation,
        seal: &Redactor::default(),
    };
    let finished = surroundings
        .exchanges
        .run(&exchange, cancel, &mut |_| {})
        .map_err(|error| eco_format!("cannot describe itself: {}", error.with_sources()))?;
    notes.extend(warned(candidate, watch, &finished));
    if finished.leaked {
        let message = "its description left a process that keeps the output open";
        notes.push(Note::warning(&candidate.path, message));
    }
    match convention.decode(&Request::Describe, &finished) {
        Ok(Reply::Described(text)) => {
            let lines = finished.stderr.text();
            let lines = lines.lines().map(|line| level(line.trim())).filter(|(_, message)| !message.is_empty());
            notes.extend(lines.map(|(level, message)| Note {
                file: candidate.path.clone(),
                level,
                message: beginning(message, 200),
            }));
            Ok(text)
        }
        Ok(_) => Err("it did not describe itself".into()),
        Err(error) => {
            let stderr = finished.stderr.text();
            let last = stderr.lines().map(str::trim).rfind(|line| !line.is_empty());
            let limit = (error == ProtocolError::TimedOut).then_some(limits.describe);
            let limit = limit.map(|limit| eco_format!("its limit is {} s", limit.as_secs_f64()));
            let last = last.map(|line| eco_format!("last on its standard error: {}", beginning(line, 200)));
            let said: Vec<EcoString> = limit.into_iter().chain(last).collect();
            let said = (!said.is_empty()).then(|| eco_format!(" ({})", said.join("; ")));
            let beside = match error {
                ProtocolError::Status(_) => {
                    eco_format!("; a script with mold's convention needs {}.yaml in the same directory", candidate.stem)
                }
                _ => EcoString::new(),
            };
            let error = error.without_advice();
            Err(eco_format!("describe: {error}{}{beside}", said.unwrap_or_default()))
        }
    }
}
