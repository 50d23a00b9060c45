//! Signals that end the program: noted while something heeds them, so that what it has started ends with it, and forwarded to
//! the run once there is one. While nothing does, they end it as they end any program.

use std::fs::File;
use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use kilter_runtime::Stop;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals;

use crate::exit::Exit;
use crate::say;

static RAISED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);
/// Whether nothing heeds signals: what goes on then could not be ended otherwise.
static UNHEEDED: LazyLock<Arc<AtomicBool>> = LazyLock::new(|| Arc::new(AtomicBool::new(true)));
/// Whether it was said that one has ended what was going on.
static IS_TOLD: AtomicBool = AtomicBool::new(false);
/// The last signal.
static NUMBER: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);
static FORWARD: Mutex<Forward> = Mutex::new(Forward { is_noting: false, coming: None, run: None });

/// Where signals go.
struct Forward {
    /// Whether signals come here at all.
    is_noting: bool,
    /// The signals that come, until there is a run that they could stop: until then a thread for them would be wasted.
    coming: Option<Signals>,
    /// The run to be stopped.
    run: Option<Arc<Stop>>,
}

/// Sets what a program inherits from its parent and must not depend on: the umask, and signals that would end it or hide
/// the end of its children. A handler, other than ignoring, is no more there in a program that kilter starts.
pub(crate) fn set_up() {
    rustix::process::umask(UMASK);
    // A write beyond `ulimit -f` fails with EFBIG instead. That a handler cannot be set is no reason not to start.
    let _ = flag::register(SIGXFSZ, Arc::default());
    if is_ignored(SIGCHLD) {
        let _ = flag::register(SIGCHLD, Arc::default());
    }
}

/// The umask of kilter and of the programs that it starts.
const UMASK: rustix::fs::Mode = rustix::fs::Mode::from_bits_truncate(0o022);

/// Notes signals from now on, in the place of ending at once.
///
/// # Errors
/// When the system does not let it; that has been said.
pub(crate) fn listen() -> Result<(), Exit> {
    note().map_err(|error| say::fail(format_args!("cannot listen to signals: {error}")))?;
    UNHEEDED.store(false, Ordering::Release);
    Ok(())
}

/// Does something that heeds signals, which are noted at least until it has ended.
///
/// # Errors
/// When the system does not let it, or when a signal has come; it has been said, and is what to end with.
pub(crate) fn heeded<T>(work: impl FnOnce() -> T) -> Result<T, Exit> {
    let was_unheeded = UNHEEDED.load(Ordering::Acquire);
    listen()?;
    let done = work();
    UNHEEDED.store(was_unheeded, Ordering::Release);
    // One that comes now ends the program by itself, if that was so before.
    match exit() {
        Some(exit) => {
            if !IS_TOLD.swap(true, Ordering::AcqRel) {
                say::line("interrupted");
            }
            Err(exit)
        }
        None => Ok(done),
    }
}

/// Does something that heeds no signal, such as waiting for what somebody else writes: one that comes ends the program.
pub(crate) fn unheeded<T>(work: impl FnOnce() -> T) -> T {
    let was_unheeded = UNHEEDED.swap(true, Ordering::AcqRel);
    let done = work();
    UNHEEDED.store(was_unheeded, Ordering::Release);
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
        flag::register_conditional_default(*number, Arc::clone(&UNHEEDED))?;
        flag::register_usize(*number, Arc::clone(&NUMBER), number.unsigned_abs() as usize)?;
        flag::register(*number, Arc::clone(&RAISED))?;
    }
    forward.coming = Some(Signals::new(numbers)?);
    Ok(())
}

/// Whether a signal has come: programs that are run while manifests are read end with it.
pub(crate) fn raised() -> &'static AtomicBool {
    &RAISED
}

/// Ends the programs that manifests are made by, as a signal does: nobody waits for them any more.
pub(crate) fn end_programs() {
    RAISED.store(true, Ordering::Release);
}

/// Whether a signal was ignored when the program was started, as by nohup(1).
fn is_ignored(number: i32) -> bool {
    // It has some 1,500 bytes, and its size is not known before it is read: in parts it would be read seven times.
    let mut status = Vec::with_capacity(4096);
    let _ = File::open("/proc/self/status").and_then(|mut file| file.read_to_end(&mut status));
    let status = String::from_utf8_lossy(&status);
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask >> (number - 1) & 1 == 1)
}

/// Has signals stop a run; one that has come already does so now.
pub(crate) fn stop(run: &Arc<Stop>) {
    let mut forward = forward();
    forward.run = Some(Arc::clone(run));
    let mut coming = forward.coming.take();
    // However many have come before, they are one wish to end.
    coming.iter_mut().flat_map(Signals::pending).for_each(drop);
    if raised().load(Ordering::Acquire) {
        run.request();
    }
    if let Some(mut coming) = coming {
        // The thread lives as long as the program: all it does is pass them on.
        let thread = std::thread::Builder::new().name("signals".into());
        if thread.spawn(move || coming.forever().for_each(|_| pass_on())).is_err() {
            // Without a thread no signal reaches the run, so a signal ends the program.
            UNHEEDED.store(true, Ordering::Release);
        }
    }
}

fn pass_on() {
    if let Some(run) = &self::forward().run {
        run.request();
    }
}

fn forward() -> MutexGuard<'static, Forward> {
    FORWARD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What to end with if a signal has come.
pub(crate) fn exit() -> Option<Exit> {
    match NUMBER.load(Ordering::Acquire) as i32 {
        0 => None,
        SIGTERM => Some(Exit::Terminated),
        _ => Some(Exit::Interrupted),
    }
}
