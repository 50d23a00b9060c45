//! Places in which laws are tried.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use kilter_process::world::{Sandbox, SandboxBuilder};
use kilter_process::{Attempt, Cancel, Invocation, KillMode, Termination, run};

use super::candidate::Candidate;
use super::findings::Finding;
use super::glob::is_meant;
use super::recorder::Trials;
use super::specimens::Specimens;
use crate::conformance::{Subject, give_up};

/// Files that reads may create legitimately: Python caches compiled code.
const NOISE: [&str; 2] = ["__pycache__", STATE];

/// State directory of scripts in a sandbox. A script's own data is no trace.
const STATE: &str = "/tmp/.kilter-check-state";

/// State directory of native types in a sandbox, with all values and passwords.
const STATE_DIRECTORY: &str = "/tmp/.kilter-check-kept";

/// Warning about a check file with `setup` and no sandboxes.
pub const SETUP_HERE: &str = "the `setup` of the check file is run on this machine itself, before each trial";

/// Place in which laws are tried.
#[derive(Clone)]
pub enum TestLocation {
    /// This machine itself, with its state directory.
    Here(Option<PathBuf>),
    /// Separate sandboxes.
    Sandboxes(Arc<SandboxBuilder>),
}

impl TestLocation {
    /// Returns the state directory of a provider.
    fn state_dir(&self, candidate: &Candidate) -> Option<PathBuf> {
        match self {
            TestLocation::Here(state_dir) => state_dir.clone(),
            TestLocation::Sandboxes(_) if candidate.script().is_some() => Some(STATE.into()),
            TestLocation::Sandboxes(_) => Some(STATE_DIRECTORY.into()),
        }
    }

    /// Returns the findings about the place.
    pub fn findings(&self, specimens: &Specimens) -> Vec<Finding> {
        match self {
            TestLocation::Here(_) => {
                let why = "the laws are tested on this machine itself, and changes by the provider are real; kilter \
                           does not compare files";
                let setup = specimens.file.setup.is_some().then_some(SETUP_HERE);
                [why].into_iter().chain(setup).map(|why| Finding::warning(Path::new("/"), why)).collect()
            }
            TestLocation::Sandboxes(worlds) => {
                let told = |path: &Path| {
                    Finding::warning(path, "no layer can be mounted above it: its files are not in the sandboxes")
                };
                worlds.left_out().map(told).collect()
            }
        }
    }
}

fn with_sources(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", with_sources(source)),
        None => error.to_string(),
    }
}

/// Creates a subject in a fresh sandbox, which this thread enters.
pub(super) fn subject(
    candidate: &Arc<Candidate>,
    specimens: &Arc<Specimens>,
    place: &TestLocation,
    trials: &Arc<Trials>,
) -> Subject {
    let world = match place {
        TestLocation::Here(_) => None,
        TestLocation::Sandboxes(worlds) => {
            let world = worlds.make().unwrap_or_else(|error| {
                give_up(format!(
                    "no sandbox is available: \
                                                            {}",
                    with_sources(&error)
                ))
            });
            world.enter().unwrap_or_else(|error| give_up(format!("its sandbox cannot be entered: {error}")));
            Some(Arc::new(world))
        }
    };
    set_up(candidate, specimens, trials);
    let exchanges = trials.recorder();
    let state_dir = place.state_dir(candidate);
    let kept = state_dir.clone().filter(|_| candidate.script().is_none());
    let make = {
        let candidate = Arc::clone(candidate);
        move || candidate.make(Arc::clone(&exchanges), state_dir.clone()).unwrap_or_else(|why| give_up(why))
    };
    let subject = match world {
        None => Subject::of(make, String::new),
        Some(world) => {
            let (seen, specimens) = (Arc::clone(&world), Arc::clone(specimens));
            let subject = Subject::of(make, move || traces(&seen, &specimens));
            subject.entering(move || world.enter().map_err(|error| error.to_string()))
        }
    };
    let (trial, ignoring) = (trials.current(), Arc::clone(specimens));
    let subject = subject.trying(move || {
        let tried = trial.lock().unwrap_or_else(PoisonError::into_inner).tried();
        forbidden_attempts(&tried, &ignoring)
    });
    let subject = kept.into_iter().fold(subject, Subject::var_dir);
    equipped(subject, candidate, specimens, trials)
}

/// Describes forbidden attempts of a provider, if they matter.
fn forbidden_attempts(tried: &[Attempt], specimens: &Specimens) -> Option<String> {
    let matters =
        |attempt: &&Attempt| attempt.path.as_deref().is_none_or(|path| !is_noise(specimens, &path.to_string_lossy()));
    let told: Vec<String> = tried.iter().filter(matters).map(ToString::to_string).collect();
    (!told.is_empty()).then(|| told.join(", "))
}

/// Returns true if a file is irrelevant.
fn is_noise(specimens: &Specimens, path: &str) -> bool {
    NOISE
        .into_iter()
        .chain(specimens.file.ignore.iter().map(ecow::EcoString::as_str))
        .any(|pattern| is_meant(pattern, path))
}

/// Runs the author's setup of a fresh sandbox.
fn set_up(candidate: &Candidate, specimens: &Specimens, trials: &Trials) {
    let Some(setup) = &specimens.file.setup else { return };
    if let Err(why) = shell(candidate, setup, trials.left()) {
        give_up(format!("the `setup` of its sandbox failed: {why}"));
    }
}

/// Runs a command in the environment of the provider. It ends before the law does, with all processes it has
/// started.
fn shell(candidate: &Candidate, command: &str, limit: Duration) -> Result<(), String> {
    let environment = &candidate.environment().environment;
    let invocation =
        Invocation::new("/bin/sh").args(["-euc", command]).environment(environment).cwd("/").captured(4096);
    let invocation = invocation.deadline(limit).leftovers(KillMode::Ended);
    let cancel = candidate.environment().cancelled.map(Cancel::new);
    let finished = run(&invocation, cancel).map_err(|error| error.with_sources())?;
    match finished.ending {
        Termination::Deadline => Err(format!("it has not ended within {:.1} s", limit.as_secs_f32())),
        Termination::Cancelled => Err("it was interrupted".to_owned()),
        _ if finished.is_success() => Ok(()),
        _ => {
            let said = finished.stderr.text();
            Err(format!("{} {}", finished.status, said.lines().next_back().unwrap_or_default()).trim_end().to_owned())
        }
    }
}

fn traces(world: &Sandbox, specimens: &Specimens) -> String {
    world
        .traces(&|path| is_noise(specimens, path))
        .unwrap_or_else(|error| give_up(format!("the traces in its sandbox cannot be read: {error}")))
}

/// Adds the author's specimens and settings to a subject.
fn equipped(subject: Subject, candidate: &Arc<Candidate>, specimens: &Arc<Specimens>, trials: &Arc<Trials>) -> Subject {
    let file = &specimens.file;
    let mut subject = subject.unknown(file.unknown.iter().cloned());
    for specimen in &file.specimens {
        subject = subject.specimen(specimen.clone());
    }
    for (lack, why) in &file.without {
        subject = subject.without(*lack, why.as_str());
    }
    for (attribute, why) in &file.sparing {
        subject = subject.sparing(attribute.as_str(), why.as_str());
    }
    if let Some(failing) = &file.failing {
        subject = subject.failing(failing.clone());
    }
    if let Some(slow) = &file.slow {
        let (candidate, trials, begun) = (Arc::clone(candidate), Arc::clone(trials), slow.begun.clone());
        subject = subject.slow(slow.specimen.clone(), move || shell(&candidate, &begun, trials.left()).is_ok());
    }
    let specimens = Arc::clone(specimens);
    subject.names_like(move |text| specimens.file.name_like(text))
}
