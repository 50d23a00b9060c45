//! Commands that report changes, one line each.

use std::time::{Duration, Instant};

use ecow::EcoString;
use kilter_process::{Capture, Event, Stream};
use kilter_provider::{Context, Level, Wanted, WatchSink};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::command::watch_of;
use super::command_runner::{CommandRunner, confinement_of};
use super::secrets::SensitiveTexts;
use super::{ExecProvider, guard};
use crate::tool::{cancel, ending_of};

/// Initial pause after a command has ended. It doubles each time.
const FIRST: Duration = Duration::from_secs(1);
/// Maximum pause.
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(300);
/// Run time after which the pause is reset.
const LONG: Duration = Duration::from_secs(60);

/// Maximum number of bytes of standard error in a message.
const STDERR: usize = 4096;

/// Runs the watch command of a resource repeatedly, until the watch ends.
pub(super) fn listen(provider: &ExecProvider, cx: &Context<'_>, wanted: Wanted<'_>, tell: &dyn WatchSink) {
    let (Some(should), name) = (wanted.should, wanted.name) else { return };
    // Changes before the start of the command cause no event, so the watch counts as started only now.
    tell.watching();
    let mut pause = FIRST;
    let launch =
        CommandRunner { confinement: confinement_of(should, wanted.noop), ..provider.launch(cx, name, should) };
    let secrets = SensitiveTexts::of(should);
    loop {
        let begun = Instant::now();
        let why = once(&launch, name, tell);
        if cx.interrupt().is_raised() {
            return;
        }
        if begun.elapsed() >= LONG {
            pause = FIRST;
        }
        let why = secrets.redact(&format!("watch: {why}; kilter restarts it in {} s", pause.as_secs()));
        cx.log(Level::Warning, "exec", name, &why);
        tell.unwatched(name, &why);
        wait(cx, pause);
        if cx.interrupt().is_raised() {
            return;
        }
        // Changes during the pause are unknown, so report an event. Without guards there is no check that could
        // follow.
        if guard::has_guards(should) {
            tell.changed(name);
        }
        pause = MAX_RETRY_PAUSE.min(pause * 2);
    }
}

/// Runs the command to its end. Returns the reason of its end.
fn once(launch: &CommandRunner<'_>, name: &EcoString, tell: &dyn WatchSink) -> EcoString {
    let command = match watch_of(launch.should) {
        Ok(command) => command,
        Err(problem) => return problem.to_string().into(),
    };
    let mut invocation = match launch.invocation(&command) {
        Ok(invocation) => invocation,
        Err(why) => return why,
    };
    invocation.deadline = None;
    invocation.stdout = Capture::First(0);
    invocation.stderr = Capture::Last(STDERR);
    // Empty lines are ignored.
    let mut says_something = false;
    let mut hear = |event: Event<'_>| {
        let bytes = match event {
            Event::Spawned { .. } => return tell.rewatched(name),
            Event::Chunk { stream: Stream::Stdout, bytes } => bytes,
            _ => return,
        };
        let mut changed = false;
        for &byte in bytes {
            changed |= byte == b'\n' && std::mem::take(&mut says_something);
            says_something |= !byte.is_ascii_whitespace();
        }
        if changed {
            tell.changed(name);
        }
    };
    match kilter_process::run_observed(&invocation, Some(cancel(launch.cx)), &mut hear) {
        Err(_) if command.is_sealed => "its sensitive command cannot be started".into(),
        Err(error) => error.with_sources().into(),
        Ok(finished) => {
            let last_words = ending_of(&finished.stderr.text()).filter(|_| !command.is_sealed);
            let said = last_words.map(|said| format!(": {said}")).unwrap_or_default();
            format!("`{}` has ended ({}){said}", command.shown, finished.status).into()
        }
    }
}

/// Waits, unless it is interrupted.
fn wait(cx: &Context<'_>, pause: Duration) {
    let interrupt = cx.interrupt();
    let Some(fd) = interrupt.fd() else { return std::thread::sleep(pause) };
    let until = Instant::now() + pause;
    while !interrupt.is_raised() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        let timeout = Timespec { tv_sec: left.as_secs().try_into().unwrap_or(1), tv_nsec: left.subsec_nanos().into() };
        let _ = poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout));
    }
}
