//! `kilter confirm`, and the supervisor that undoes an apply without a confirmation.

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kilter_process::{Cancel, Invocation};
use kilter_runtime::StateDir;

use super::undo;
use crate::cli::ConfirmArgs;
use crate::confirmation::{ConfirmationFile, ConfirmationStage};
use crate::exit::Exit;
use crate::past::{has_changes, open, refuse, time};
use crate::session::Session;
use crate::{loan, output, paths, signals};

/// Interval in which processes look at the state of the confirmation.
const INTERVAL: Duration = Duration::from_millis(100);

/// Time that an apply gives its supervisor to undo, before it undoes by itself.
const SUPERVISOR_DELAY: Duration = Duration::from_secs(5);

/// Interval between two calls of the health command.
const HEALTH_INTERVAL: Duration = Duration::from_secs(1);

/// Stages that a confirmation can change.
const OPEN: [ConfirmationStage; 2] = [ConfirmationStage::Applying, ConfirmationStage::Waiting];

/// Directory of units.
const UNITS: &str = "/etc/systemd/system";

/// Runs the command.
pub(crate) fn run(args: &ConfirmArgs, session: &Session) -> Exit {
    match confirmed(args, session) {
        Ok(exit) | Err(exit) => exit,
    }
}

fn confirmed(args: &ConfirmArgs, session: &Session) -> Result<Exit, Exit> {
    let state_dir = session.state_dir()?;
    StateDir::new(&state_dir).verify().map_err(output::fail)?;
    let file = ConfirmationFile::open(&state_dir).map_err(|error| unusable(&state_dir, &error))?;
    let nothing =
        || output::fail_with("no apply waits for a confirmation", ["kilter apply --confirm-within 60s site.yaml"]);
    let Some(file) = file else { return Err(nothing()) };
    if args.supervise {
        return supervise(&file, session, &state_dir);
    }
    if !args.undo && file.read().is_some_and(|state| state.stage == ConfirmationStage::Applying && state.is_applying())
    {
        return Err(output::fail_with("the apply has not ended yet", ["confirm its changes when it has made them"]));
    }
    let to = if args.undo { ConfirmationStage::Undoing } else { ConfirmationStage::Confirmed };
    let before = file.change(&OPEN, to).map_err(|error| unusable(&state_dir, &error))?;
    let state = file.read();
    match before {
        Some(ConfirmationStage::Applying | ConfirmationStage::Waiting | ConfirmationStage::Undoing) if args.undo => {
            Ok(undone(&file, session, &state_dir))
        }
        Some(stage) if stage.is_open() => {
            forget_unit(&state_dir);
            output::line("confirmed: the changes stay");
            Ok(Exit::Done)
        }
        Some(stage @ (ConfirmationStage::Undoing | ConfirmationStage::Undone | ConfirmationStage::Failed)) => {
            let at = state.map(|state| time::shown(state.at)).unwrap_or_default();
            let text = match stage {
                ConfirmationStage::Undoing => format!("too late: the changes are being undone since {at}"),
                ConfirmationStage::Undone => format!("too late: the changes were undone at {at}"),
                _ => format!("too late: since {at} the changes are undone in part; `kilter history` shows the rest"),
            };
            Err(output::fail(text))
        }
        _ => Err(nothing()),
    }
}

/// Undoes the changes, or waits for the process that does.
fn undone(file: &ConfirmationFile, session: &Session, state_dir: &Path) -> Exit {
    loop {
        undo_all(file, session, state_dir);
        match file.read().map(|state| state.stage) {
            Some(ConfirmationStage::Undoing) if signals::exit().is_none() => std::thread::sleep(INTERVAL),
            Some(ConfirmationStage::Undone) => return Exit::Done,
            _ => return signals::exit().unwrap_or(Exit::Failed),
        }
    }
}

fn unusable(state_dir: &Path, error: &std::io::Error) -> Exit {
    output::fail(format_args!("cannot use {}: {error}", ConfirmationFile::path(state_dir).display()))
}

/// Apply that has to be confirmed.
pub(crate) struct PendingApply<'a> {
    file: ConfirmationFile,
    state_dir: PathBuf,
    within: Duration,
    health: Option<&'a str>,
}

impl<'a> PendingApply<'a> {
    /// Starts the supervisor. Afterwards no change can stay without a confirmation.
    ///
    /// # Errors
    /// If that is not possible, or another apply waits for its confirmation; reported.
    pub(crate) fn begin(
        session: &Session,
        within: Duration,
        health: Option<&'a str>,
    ) -> Result<PendingApply<'a>, Exit> {
        let state_dir = session.state_dir()?;
        StateDir::new(&state_dir).prepare().map_err(output::fail)?;
        if session.global.without_history {
            return Err(output::fail("--confirm-within needs the history: leave out --without-history"));
        }
        // Without the key, no state can be saved, and nothing be undone.
        kilter_runtime::SealingKey::made(&state_dir).map_err(output::fail)?;
        let history = kilter_history::History::open(&crate::recorder::directory(&state_dir));
        let after = history.and_then(|history| history.last()).map_err(|error| refuse(&error))?;
        let begun = ConfirmationFile::begin(&state_dir, within, after).map_err(|error| unusable(&state_dir, &error))?;
        let Some(file) = begun else {
            let hints = ["`kilter confirm` keeps its changes, `kilter confirm --undo` undoes them"];
            return Err(output::fail_with("an earlier apply waits for its confirmation", hints));
        };
        let pending = PendingApply { file, state_dir, within, health };
        let supervisor = supervisor(session, &pending.state_dir);
        let started = pending.start_supervisor(supervisor.clone());
        if let Err(error) = started {
            let _ = pending.file.change(&OPEN, ConfirmationStage::Confirmed);
            return Err(output::fail(format_args!("cannot start the supervisor of the confirmation: {error}")));
        }
        remember_unit(&pending.state_dir, &supervisor);
        Ok(pending)
    }

    fn start_supervisor(&self, args: Vec<OsString>) -> std::io::Result<()> {
        kilter_process::start_detached(&std::env::current_exe()?, &args)
    }

    /// Returns false if the apply has changed nothing.
    fn has_changes(&self, session: &Session) -> bool {
        let Some(after) = self.file.read().map(|state| state.after) else { return true };
        open(session).and_then(|history| has_changes(&history, after)).unwrap_or(true)
    }

    /// Gives up before the first change.
    pub(crate) fn cancel(self) {
        let _ = self.file.change(&OPEN, ConfirmationStage::Confirmed);
        forget_unit(&self.state_dir);
    }

    /// Waits for the confirmation, or for the undo. `exit` is the result of the apply.
    pub(crate) fn wait(self, exit: Exit, session: &Session) -> Exit {
        if !self.has_changes(session) {
            self.cancel();
            return exit;
        }
        let _ = self.file.change(&[ConfirmationStage::Applying], ConfirmationStage::Waiting);
        let seconds = self.within.as_secs_f64();
        match self.health {
            Some(command) => {
                output::line(format_args!("the changes are undone in {seconds} s unless `{command}` succeeds"))
            }
            None => {
                output::line(format_args!("the changes are undone in {seconds} s, unless `kilter confirm` keeps them"))
            }
        }
        let begun = Instant::now();
        let mut next_health = Instant::now();
        loop {
            let state = self.file.read();
            let within = state.as_ref().map_or(self.within, |state| state.within);
            match state.map(|state| state.stage) {
                Some(ConfirmationStage::Confirmed) => {
                    output::line("confirmed");
                    return exit;
                }
                Some(ConfirmationStage::Undone) => {
                    output::line("not confirmed: the changes were undone");
                    return Exit::Reverted;
                }
                Some(ConfirmationStage::Failed) => {
                    output::error("not confirmed, and some changes could not be undone: `kilter history` shows them");
                    return Exit::Failed;
                }
                // The process that undoes the changes may have been killed.
                Some(ConfirmationStage::Undoing) => {
                    undo_all(&self.file, session, &self.state_dir);
                }
                _ => {}
            }
            if signals::exit().is_some() {
                output::line("interrupted: the supervisor still waits for `kilter confirm`");
                return signals::exit().unwrap_or(exit);
            }
            if let Some(command) = self.health.filter(|_| Instant::now() >= next_health) {
                let left = within.saturating_sub(begun.elapsed()).max(INTERVAL);
                if is_healthy(command, left) {
                    let _ = self.file.change(&OPEN, ConfirmationStage::Confirmed);
                    forget_unit(&self.state_dir);
                    continue;
                }
                next_health = Instant::now() + HEALTH_INTERVAL;
            }
            if begun.elapsed() > within + SUPERVISOR_DELAY
                && self
                    .file
                    .change(&OPEN, ConfirmationStage::Undoing)
                    .ok()
                    .flatten()
                    .is_some_and(ConfirmationStage::is_open)
            {
                // The supervisor was killed.
                undo_all(&self.file, session, &self.state_dir);
            }
            std::thread::sleep(INTERVAL);
        }
    }
}

/// Runs the health command.
fn is_healthy(command: &str, left: Duration) -> bool {
    let mut invocation = Invocation::new("/bin/sh");
    invocation.args = vec!["-c".into(), command.into()];
    invocation.deadline = Some(left);
    let finished = kilter_process::run(&invocation, Some(Cancel::new(signals::raised())));
    finished.is_ok_and(|finished| finished.is_success())
}

/// Returns the arguments of the supervisor. It finds the same provider scripts as the apply, because it undoes the
/// changes with them.
fn supervisor(session: &Session, state_dir: &Path) -> Vec<OsString> {
    let global = &session.global;
    let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone()).into_os_string();
    let scripts = global.include.iter().cloned().chain(paths::given_providers_dirs());
    let mut words: Vec<OsString> = vec!["--quiet".into()];
    words.extend(scripts.flat_map(|path| ["-I".into(), absolute(&path)]));
    words.extend(global.mold.iter().flat_map(|path| ["--mold".into(), absolute(path)]));
    words.extend(global.trust.iter().flat_map(|path| ["--trust".into(), absolute(path)]));
    words.extend(["--state-dir".into(), state_dir.into(), "confirm".into(), "--supervise".into()]);
    words
}

/// Waits for the confirmation, and undoes the changes without it. It uses the clock that nobody can set.
fn supervise(file: &ConfirmationFile, session: &Session, state_dir: &Path) -> Result<Exit, Exit> {
    // A process that leads its group, such as a service, has no terminal of another session.
    let _ = rustix::process::setsid();
    signals::ignore_hangup();
    let mut out = std::io::stdout();
    let _ = out.write_all(b"ready\n").and_then(|()| out.flush());
    let mut waits_since = None;
    loop {
        let Some(state) = file.read() else { return Ok(Exit::Failed) };
        match state.stage {
            ConfirmationStage::Confirmed | ConfirmationStage::Undone | ConfirmationStage::Failed => {
                return Ok(Exit::Done);
            }
            // Another process undoes the changes, unless it was killed.
            ConfirmationStage::Undoing => {
                undo_all(file, session, state_dir);
            }
            ConfirmationStage::Applying if state.is_applying() => {}
            ConfirmationStage::Applying | ConfirmationStage::Waiting => {
                let since = *waits_since.get_or_insert_with(Instant::now);
                let is_over = since.elapsed() >= state.within || state.is_of_earlier_boot();
                let changed = || {
                    file.change(&OPEN, ConfirmationStage::Undoing)
                        .ok()
                        .flatten()
                        .is_some_and(ConfirmationStage::is_open)
                };
                if is_over && changed() {
                    return Ok(undo_all(file, session, state_dir));
                }
            }
        }
        std::thread::sleep(INTERVAL);
    }
}

/// Undoes all changes of the apply, and records the result. It does nothing while another process undoes them.
fn undo_all(file: &ConfirmationFile, session: &Session, state_dir: &Path) -> Exit {
    let Ok(Some(_lock)) = ConfirmationFile::undo_lock(state_dir) else { return Exit::NotStarted };
    let Some(state) = file.read().filter(|state| state.stage == ConfirmationStage::Undoing) else {
        return Exit::NotStarted;
    };
    // The apply itself, or another run, may still work. Its end is awaited, because the changes must not stay.
    let _held = match loan::lock_or_wait(&StateDir::new(state_dir), session.command()) {
        Ok(None) => return Exit::NotStarted,
        Ok(held) => held,
        // The undo reports it.
        Err(_) => None,
    };
    let exit = match open(session) {
        Ok(history) => undo::undo_apply(&history, state.after, state.pid, session),
        Err(exit) => exit,
    };
    let stage = if exit == Exit::Done { ConfirmationStage::Undone } else { ConfirmationStage::Failed };
    let _ = file.change(&[ConfirmationStage::Undoing], stage);
    forget_unit(state_dir);
    exit
}

/// Returns the name of the unit of systemd that continues the supervision of a state directory after a reboot.
fn unit(state_dir: &Path) -> String {
    let digest = kilter_history::sha256(state_dir.as_os_str().as_encoded_bytes());
    format!("kilter-confirmation-{}.service", &digest[..8])
}

/// Makes the unit that continues the supervision after a reboot, on a machine with systemd.
fn remember_unit(state_dir: &Path, supervisor: &[OsString]) {
    let is_root = rustix::process::geteuid().is_root();
    let Some(program) = std::env::current_exe().ok().filter(|_| is_root && Path::new("/run/systemd/system").is_dir())
    else {
        return;
    };
    let quoted = |word: &OsStr| {
        let text = word.to_string_lossy();
        format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%"))
    };
    // systemd replaces variables in the arguments only.
    let args = supervisor.iter().map(|word| quoted(word).replace('$', "$$"));
    let command: Vec<String> = std::iter::once(quoted(program.as_os_str())).chain(args).collect();
    let text = format!(
        "# Undoes the changes of an apply that was not confirmed before a reboot. kilter removes this file.\n\
         [Unit]\nDescription=Undo of unconfirmed changes\nRequiresMountsFor={}\nBefore=kilter.service\n\n\
         [Service]\nType=oneshot\nExecStart={}\n",
        state_dir.display(),
        command.join(" "),
    );
    let path = Path::new(UNITS).join(unit(state_dir));
    let wanted = Path::new(UNITS).join("multi-user.target.wants");
    let made = std::fs::create_dir_all(&wanted)
        .and_then(|()| crate::durable::replace(&path, text.as_bytes()))
        .and_then(|()| match std::os::unix::fs::symlink(&path, wanted.join(unit(state_dir))) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            made => made,
        });
    if let Err(error) = made {
        output::warning(format_args!(
            "a reboot would keep the changes without a confirmation: {}: {error}",
            path.display()
        ));
    }
}

fn forget_unit(state_dir: &Path) {
    if rustix::process::geteuid().is_root() {
        let _ = std::fs::remove_file(Path::new(UNITS).join("multi-user.target.wants").join(unit(state_dir)));
        let _ = std::fs::remove_file(Path::new(UNITS).join(unit(state_dir)));
    }
}
