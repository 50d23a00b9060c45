//! Laws about interrupts.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use kilter_model::{Change, Difference, State};

use super::reading::{agrees_anew, declared, seen};
use crate::conformance::harness::{DeclaredCase, EarlyEnd, Harness, ProviderUnderTest, Trial, broken, untried};
use crate::conformance::subject::Unsupported;
use kilter_provider::Mode;
use kilter_provider::compare;

/// Polling interval while waiting for the start of a slow change.
const ASKED: Duration = Duration::from_millis(2);

pub(super) fn ends_a_call(bench: &Harness) -> Trial {
    let world = Arc::new(bench.world()?);
    world.needs(Unsupported::Slow)?;
    let Some(slow) = world.subject.slow_change() else {
        return untried("the subject has neither a slow change nor a reason for its absence");
    };
    let one = world.first(&slow.specimen)?;
    let (sender, receiver) = channel();
    let (setting, setting_one) = (world.clone(), one.clone());
    let due = Due::of(&world, &one)?;
    // The thread remains if the provider never returns, which is the subject of this law.
    std::thread::spawn(move || sender.send(due.set(&setting, &setting_one)));
    let begun = Instant::now();
    while !world.subject.has_begun(slow) {
        match receiver.recv_timeout(ASKED) {
            Ok(_) => return untried("the slow change ended before its start was observed"),
            Err(_) if begun.elapsed() > bench.soon => return untried("the start of the slow change was not observed"),
            Err(_) => {}
        }
    }
    world.interrupt();
    match receiver.recv_timeout(bench.soon) {
        Ok(outcome) => {
            world.calm();
            told_truly(&world, &one, outcome?)?;
            agrees_anew(&world, &[one])
        }
        Err(RecvTimeoutError::Disconnected) => broken("set panicked when it was interrupted"),
        Err(RecvTimeoutError::Timeout) => {
            broken(format!("set did not end within {} s of the interrupt", bench.soon.as_secs_f32()))
        }
    }
}

/// A pending change. It is read before any interrupt, because an interrupt may also end a `get`.
struct Due {
    is: State,
    differences: Vec<Difference>,
}

impl Due {
    fn of(world: &ProviderUnderTest, one: &DeclaredCase) -> Result<Due, EarlyEnd> {
        let is = seen(world, one)?;
        let differences = compare(world.provider(), &world.cx(), &is, &one.should)
            .or_else(|error| untried(error.message.to_string()))?;
        Ok(Due { is, differences })
    }

    /// Applies the change. Returns the reason if it failed.
    fn set(&self, world: &ProviderUnderTest, one: &DeclaredCase) -> Result<Option<String>, EarlyEnd> {
        let change = Change::new(&one.name, &self.is, Some(&one.should), &self.differences);
        match world.set(&[change], Mode::Apply).into_iter().next() {
            Some(outcome) => Ok(outcome.failure.map(|failure| failure.to_string())),
            None => broken(format!("the interrupted set of {} answered nothing", one.name)),
        }
    }
}

/// Checks that a successful change was really made.
fn told_truly(world: &ProviderUnderTest, one: &DeclaredCase, failure: Option<String>) -> Result<(), EarlyEnd> {
    match (failure, world.check(one)) {
        (_, Err(why)) => broken(format!("{} cannot be read after the interrupt: {why}", one.name)),
        (None, Ok((_, left))) if !left.is_empty() => {
            broken(format!("the interrupted set of {} did not fail, but did not make it", one.name))
        }
        _ => Ok(()),
    }
}

pub(super) fn leaves_the_truth(bench: &Harness) -> Trial {
    let world = bench.world()?;
    let all = declared(&world)?;
    for one in &all {
        let due = Due::of(&world, one)?;
        world.interrupt();
        let failure = due.set(&world, one);
        world.calm();
        told_truly(&world, one, failure?)?;
    }
    agrees_anew(&world, &all)?;
    for one in &all {
        world.converge(one).or_else(|why| broken(format!("it could not be repeated after the interrupt: {why}")))?;
    }
    Ok(None)
}
