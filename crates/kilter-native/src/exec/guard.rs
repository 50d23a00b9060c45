//! Decides if a command has to run.

use ecow::EcoString;
use kilter_model::{Attributes, Because, Unknown, UnknownCause};
use kilter_process::{Capture, Confinement, Invocation, Status, Termination};
use kilter_provider::{Forecast, PathState, ProviderError};
use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::io::Errno;

use super::command::{CommandLine, guards_of};
use super::command_runner::CommandRunner;
use super::confined::Naming;
use super::expected::Expected;
use super::secrets::SensitiveTexts;
use crate::value_text::texts;

/// Number of bytes of a confined guard's error output that are searched for a refusal.
const STDERR_BYTES: usize = 4096;

/// Result of the guards of a resource.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum GuardVerdict {
    /// The command has to run, for this reason.
    Due(EcoString),
    /// The command need not run.
    Settled,
    /// Unknown in a plan: an earlier resource decides this guard, or its confinement refused an operation.
    Unknown(Unknown),
}

/// Returns true if the resource has another criterion than the exit code of its command.
pub(super) fn has_guards(should: &Attributes) -> bool {
    should.get("creates").is_some() || spawns(should)
}

/// Returns true if the guards start processes.
pub(super) fn spawns(should: &Attributes) -> bool {
    should.get("unless").is_some() || should.get("onlyif").is_some()
}

/// Runs the guards, the cheap ones first, until a guard decides that the command need not run.
///
/// Warnings about confined guards name the resource `naming`. If the confinement refused an operation, the answer of
/// that guard does not count. The other guards then decide, or the verdict is unknown.
///
/// # Errors
/// If a guard cannot be evaluated.
pub(super) fn ask(launch: &CommandRunner<'_>, naming: Option<Naming<'_>>) -> Result<GuardVerdict, ProviderError> {
    let mut reasons = Vec::new();
    let mut unknown = None;
    for path in texts(launch.should.get("creates")) {
        match exists(launch, &path)? {
            Ok(true) => return Ok(GuardVerdict::Settled),
            Ok(false) => reasons.push(format!("`{path}` (creates) does not exist")),
            Err(because) => unknown = Some(Unknown { attribute: "creates".into(), because: because.into() }),
        }
    }
    if let Some(unknown) = unknown {
        return Ok(GuardVerdict::Unknown(unknown));
    }
    for (attribute, success_means_due) in [("unless", false), ("onlyif", true)] {
        for declared in guards_of(attribute, launch.should) {
            let guard = declared.command().map_err(|problem| ProviderError::new(problem.to_string()))?;
            if launch.cx.is_noop()
                && let Some(because) = changed_by(launch, &guard)
            {
                return Ok(GuardVerdict::Unknown(Unknown { attribute: attribute.into(), because: because.into() }));
            }
            if let Some(cwd) = missing_directory(guard.cwd.as_deref().or(launch.should.text("cwd"))) {
                // A guard cannot run before its working directory exists. If the directory is still missing when the
                // command runs, the command fails.
                reasons.push(format!("its working directory {cwd} does not exist yet"));
                return Ok(due(reasons, unknown));
            }
            let (succeeds, how) = match answer(launch, (&guard, attribute), &Expected::of(&declared), naming)? {
                GuardAnswer::NotYet(why) => {
                    reasons.push(format!("`{}` ({attribute}) cannot run yet: {why}", guard.shown));
                    return Ok(due(reasons, unknown));
                }
                GuardAnswer::Refused(why) => {
                    let because = UnknownCause::Refused(why);
                    unknown.get_or_insert(Unknown { attribute: attribute.into(), because });
                    continue;
                }
                GuardAnswer::Yes(how) => (true, how),
                GuardAnswer::No(how) => (false, how),
            };
            if succeeds != success_means_due {
                return Ok(GuardVerdict::Settled);
            }
            reasons.push(format!("`{}` ({attribute}) {how}", guard.shown));
        }
    }
    Ok(due(reasons, unknown))
}

/// Returns the verdict if no guard has decided.
fn due(reasons: Vec<String>, unknown: Option<Unknown>) -> GuardVerdict {
    unknown.map_or_else(|| GuardVerdict::Due(reasons.join(", ").into()), GuardVerdict::Unknown)
}

enum GuardAnswer {
    /// It succeeded and printed the expected output. Contains a description.
    Yes(EcoString),
    /// It failed, or printed another output.
    No(EcoString),
    /// It could not be started in a noop run, and an earlier resource may create its user or install its program.
    NotYet(EcoString),
    /// Its confinement refused an operation, so that its answer does not count.
    Refused(EcoString),
}

/// Returns the working directory of a guard, if it does not exist.
fn missing_directory(cwd: Option<&str>) -> Option<&str> {
    let cwd = cwd?;
    std::fs::metadata(cwd).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound).then_some(cwd)
}

/// Returns the resource of a plan that may change the answer of a guard.
fn changed_by(launch: &CommandRunner<'_>, guard: &CommandLine) -> Option<Because> {
    let cwd = guard.cwd.as_deref().or(launch.should.text("cwd"));
    launch.cx.preview_context().command(launch.name, &guard.argv.join(" "), cwd)
}

/// Returns true if a path exists when the command runs, or the resource that makes this unknown.
fn exists(launch: &CommandRunner<'_>, path: &str) -> Result<Result<bool, Because>, ProviderError> {
    match launch.cx.preview_context().node(launch.name, path) {
        Forecast::Unchanged | Forecast::Changed(PathState::Kept, _) => exists_now(path).map(Ok),
        Forecast::Changed(PathState::Absent, _) => Ok(Ok(false)),
        Forecast::Changed(PathState::Directory | PathState::File { .. }, _) => Ok(Ok(true)),
        Forecast::Changed(PathState::Link(_) | PathState::Unknown, because) | Forecast::Unknown(because) => {
            Ok(Err(because))
        }
    }
}

fn exists_now(path: &str) -> Result<bool, ProviderError> {
    match accessat(CWD, path, Access::EXISTS, AtFlags::empty()) {
        Ok(()) => Ok(true),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
        Err(error) => Err(ProviderError::new(format!("cannot check {path} (creates): {error}"))),
    }
}

fn answer(
    launch: &CommandRunner<'_>,
    (guard, attribute): (&CommandLine, &str),
    expected: &Expected<'_>,
    naming: Option<Naming<'_>>,
) -> Result<GuardAnswer, ProviderError> {
    let unanswered =
        |why: EcoString| ProviderError::new(format!("the guard `{}` ({attribute}) has no result: {why}", guard.shown));
    let keep = |invocation: &mut Invocation| {
        if invocation.confinement != Confinement::None {
            // The last lines may show that an operation was refused.
            invocation.stderr = Capture::Last(STDERR_BYTES);
        }
        expected.keep(invocation);
    };
    let finished = match launch.run(guard, keep) {
        Ok(finished) => finished,
        Err(why) if launch.cx.is_noop() && launch.cx.preview_context().may_change_before(launch.name) => {
            return Ok(GuardAnswer::NotYet(why));
        }
        Err(why) => return Err(unanswered(why)),
    };
    let secrets = SensitiveTexts::of(launch.should);
    let refused = naming.and_then(|naming| naming.report(launch.cx, (guard, attribute), &finished, &secrets));
    if let Some(why) = refused.filter(|_| finished.ending != Termination::Cancelled) {
        return Ok(GuardAnswer::Refused(why));
    }
    match (finished.ending, finished.status) {
        (Termination::Exited, Status::Code(0)) => Ok(match expected.met(&finished, &secrets) {
            (true, how) => GuardAnswer::Yes(how),
            (false, how) => GuardAnswer::No(how),
        }),
        (Termination::Exited, Status::Code(_)) => Ok(GuardAnswer::No("fails".into())),
        (Termination::Exited, signal) => Err(unanswered(format!("{signal} ended it").into())),
        (Termination::Deadline, _) => {
            let timeout = launch.timeout().unwrap_or_default().as_secs_f64();
            Err(unanswered(format!("it took longer than {timeout} s").into()))
        }
        (Termination::OutputLimit, _) => Err(unanswered("it wrote too much".into())),
        (Termination::Cancelled, _) => Err(unanswered("it was interrupted".into())),
    }
}
