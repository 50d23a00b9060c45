//! Signals that end a run: noted from the start, forwarded to the run once there is one.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use kilter_runtime::Stop;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::exit::Exit;
use crate::say;

/// Whether a signal has come: programs that are run while manifests are read end with it.
pub(crate) static RAISED: AtomicBool = AtomicBool::new(false);
/// The last signal.
static NUMBER: AtomicI32 = AtomicI32::new(0);
/// The run to be stopped.
static RUN: Mutex<Option<Arc<Stop>>> = Mutex::new(None);

/// Notes signals from now on, in the place of ending at once.
///
/// # Errors
/// When the system does not let it; that has been said.
pub(crate) fn listen() -> Result<(), Exit> {
    let hang_up = (!is_ignored(SIGHUP)).then_some(SIGHUP);
    let signals = Signals::new([SIGINT, SIGTERM].into_iter().chain(hang_up));
    let mut signals = signals.map_err(|error| say::fail(format_args!("cannot listen to signals: {error}")))?;
    // The thread lives as long as the program: all it does is forward numbers.
    std::thread::spawn(move || {
        for number in &mut signals {
            NUMBER.store(number, Ordering::Release);
            RAISED.store(true, Ordering::Release);
            if let Some(stop) = &*RUN.lock().unwrap_or_else(PoisonError::into_inner) {
                stop.request();
            }
        }
    });
    Ok(())
}

/// Whether a signal was ignored when the program was started, as by nohup(1).
fn is_ignored(number: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask >> (number - 1) & 1 == 1)
}

/// Has signals stop a run; one that has come already does so now.
pub(crate) fn stop(run: &Arc<Stop>) {
    *RUN.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(run));
    if RAISED.load(Ordering::Acquire) {
        run.request();
    }
}

/// What to end with if a signal has come.
pub(crate) fn exit() -> Option<Exit> {
    match NUMBER.load(Ordering::Acquire) {
        0 => None,
        SIGTERM => Some(Exit::Terminated),
        _ => Some(Exit::Interrupted),
    }
}
