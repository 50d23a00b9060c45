//! Signals that end the program.
//!
//! While a part of the program handles signals, they are recorded, so that started programs end with it. They are
//! forwarded to the run as soon as there is one. At other times they have their default effect.

use std::fs::File;
use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

use kilter_runtime::ShutdownHandle;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals;

use crate::exit::Exit;
use crate::{output, streams};

static RAISED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);
/// True if a signal ends the program, because no code handles it.
static ENDS_PROGRAM: LazyLock<Arc<AtomicBool>> = LazyLock::new(|| Arc::new(AtomicBool::new(true)));
/// True if an interruption has been reported.
static REPORTED: AtomicBool = AtomicBool::new(false);
/// Number of the last signal.
static NUMBER: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);
static FORWARD: Mutex<Forward> = Mutex::new(Forward { is_noting: false, coming: None, runs: Vec::new() });

/// State of the handling of signals.
struct Forward {
    /// True if the handlers are installed.
    is_noting: bool,
    /// Signals that have arrived, until there is a run. A thread starts only then.
    coming: Option<Signals>,
    /// Runs to stop. Several devices have one each.
    runs: Vec<Weak<ShutdownHandle>>,
}

/// Resets inherited settings that must not affect kilter: the umask, SIGXFSZ and an ignored SIGCHLD. Programs that
/// kilter starts do not inherit handlers, in contrast to ignored signals.
pub(crate) fn set_up() {
    rustix::process::umask(UMASK);
    // A write beyond `ulimit -f` then fails with EFBIG. A failure to install a handler does not prevent the start.
    let _ = flag::register(SIGXFSZ, Arc::default());
    if is_ignored(SIGCHLD) {
        let _ = flag::register(SIGCHLD, Arc::default());
    }
}

/// Continues after the end of the terminal.
pub(crate) fn ignore_hangup() {
    let _ = flag::register(signal_hook::consts::SIGHUP, Arc::default());
}

/// The umask of kilter and of the programs that it starts.
const UMASK: rustix::fs::Mode = rustix::fs::Mode::from_bits_truncate(0o022);

/// Records signals from now on, so that they no longer end the program.
///
/// # Errors
/// If the system refuses; reported.
pub(crate) fn listen() -> Result<(), Exit> {
    note().map_err(|error| output::fail(format_args!("cannot listen to signals: {error}")))?;
    ENDS_PROGRAM.store(false, Ordering::Release);
    Ok(())
}

/// Runs code that handles signals, which are recorded until it has ended.
///
/// # Errors
/// If the system refuses, or if a signal has arrived; reported.
pub(crate) fn interruptible<T>(work: impl FnOnce() -> T) -> Result<T, Exit> {
    let ended_program = ENDS_PROGRAM.load(Ordering::Acquire);
    listen()?;
    let done = work();
    ENDS_PROGRAM.store(ended_program, Ordering::Release);
    // If signals ended the program before, the next one does so again.
    match exit() {
        Some(exit) => {
            if !REPORTED.swap(true, Ordering::AcqRel) {
                output::line("interrupted");
            }
            Err(exit)
        }
        None => Ok(done),
    }
}

/// Runs code that handles no signals, such as a read from standard input: a signal ends the program.
pub(crate) fn killable<T>(work: impl FnOnce() -> T) -> T {
    if streams::is_in_memory() {
        return work();
    }
    let ended_program = ENDS_PROGRAM.swap(true, Ordering::AcqRel);
    let done = work();
    ENDS_PROGRAM.store(ended_program, Ordering::Release);
    done
}

fn note() -> std::io::Result<()> {
    let mut forward = forward();
    if std::mem::replace(&mut forward.is_noting, true) {
        return Ok(());
    }
    let hang_up = (!is_ignored(SIGHUP)).then_some(SIGHUP);
    let numbers: Vec<i32> = [SIGINT, SIGTERM].into_iter().chain(hang_up).collect();
    for number in &numbers {
        flag::register_conditional_default(*number, Arc::clone(&ENDS_PROGRAM))?;
        flag::register_usize(*number, Arc::clone(&NUMBER), number.unsigned_abs() as usize)?;
        flag::register(*number, Arc::clone(&RAISED))?;
    }
    forward.coming = Some(Signals::new(numbers)?);
    Ok(())
}

/// Returns the flag for an arrived signal: it ends programs that run while manifests are read.
pub(crate) fn raised() -> &'static AtomicBool {
    &RAISED
}

/// Returns true if a signal has arrived.
pub(crate) fn is_raised() -> bool {
    RAISED.load(Ordering::Acquire)
}

/// Ends the programs of manifests, as a signal does, because their output is no longer needed.
pub(crate) fn end_programs() {
    RAISED.store(true, Ordering::Release);
}

/// Returns true if a signal was ignored when the program started, as by nohup(1).
fn is_ignored(number: i32) -> bool {
    // The file has about 1,500 bytes, and its size is unknown before the read: a small buffer would need seven
    // reads.
    let mut status = Vec::with_capacity(4096);
    let _ = File::open("/proc/self/status").and_then(|mut file| file.read_to_end(&mut status));
    let status = String::from_utf8_lossy(&status);
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask >> (number - 1) & 1 == 1)
}

/// Forwards signals to a run. A signal that has already arrived stops it at once.
pub(crate) fn stop(run: &Arc<ShutdownHandle>) {
    let mut forward = forward();
    forward.runs.retain(|known| known.strong_count() > 0);
    forward.runs.push(Arc::downgrade(run));
    let mut coming = forward.coming.take();
    // All signals before this count as one request.
    coming.iter_mut().flat_map(Signals::pending).for_each(drop);
    if raised().load(Ordering::Acquire) {
        run.request();
    }
    if let Some(mut coming) = coming {
        // The thread lives as long as the program.
        let thread = std::thread::Builder::new().name("signals".into());
        if thread.spawn(move || coming.forever().for_each(|_| pass_on())).is_err() {
            // Without a thread no signal reaches the run, so a signal ends the program.
            ENDS_PROGRAM.store(true, Ordering::Release);
        }
    }
}

fn pass_on() {
    self::forward().runs.iter().filter_map(Weak::upgrade).for_each(|run| run.request());
}

fn forward() -> MutexGuard<'static, Forward> {
    FORWARD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the exit code if a signal has arrived.
pub(crate) fn exit() -> Option<Exit> {
    match NUMBER.load(Ordering::Acquire) as i32 {
        0 => None,
        SIGTERM => Some(Exit::Terminated),
        _ => Some(Exit::Interrupted),
    }
}
