//! Trying the laws.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use super::bench::{Bench, Stop};
use super::laws::{LAWS, Law};
use super::report::{Finding, Report, Verdict};
use super::subject::Subject;
use crate::contract::Suitability;

/// Puts a provider through every law.
///
/// ```no_run
/// use kilter_provider::conformance::{Subject, Suite};
///
/// fn assert_conforms(subject: fn() -> Subject) {
///     Suite::new(subject).run().assert();
/// }
/// ```
pub struct Suite {
    make: Arc<dyn Fn() -> Subject + Send + Sync>,
    soon: Duration,
    limit: Duration,
}

impl Suite {
    /// A suite for the provider of the subjects that `make` makes, each on a fresh world.
    pub fn new(make: impl Fn() -> Subject + Send + Sync + 'static) -> Suite {
        Suite { make: Arc::new(make), soon: Duration::from_secs(10), limit: Duration::from_secs(600) }
    }

    /// Says how soon an interrupted call has to end; ten seconds if nothing is said.
    #[must_use]
    pub fn soon(self, soon: Duration) -> Suite {
        Suite { soon, ..self }
    }

    /// Says how long one law may take before the provider counts as hanging; ten minutes if nothing
    /// is said.
    #[must_use]
    pub fn limit(self, limit: Duration) -> Suite {
        Suite { limit, ..self }
    }

    /// Tries every law.
    pub fn run(&self) -> Report {
        let subject = (self.make)();
        let type_name = subject.provider().schema().name.to_string();
        let provider = subject.provider().name().to_owned();
        let suitability = subject.provider().suitable();
        drop(subject);
        let verdict = |law: &'static Law| match &suitability {
            Suitability::Suitable => self.attempt(law),
            Suitability::Unsuitable(why) => Verdict::Untried(format!("the provider cannot work here: {why}")),
        };
        let finding = |law: &'static Law| Finding { law: law.name, sentence: law.sentence, verdict: verdict(law) };
        Report { type_name, provider, findings: LAWS.iter().map(finding).collect() }
    }

    /// Tries one law, on a thread that is left behind if it does not end.
    fn attempt(&self, law: &'static Law) -> Verdict {
        let bench = Bench { make: self.make.clone(), soon: self.soon };
        let (sender, receiver) = mpsc::channel();
        let trial = move || {
            let seen = catch_unwind(AssertUnwindSafe(|| (law.trial)(&bench)));
            // Nobody waits any more when the law took too long.
            let _ = sender.send(seen);
        };
        if let Err(error) = std::thread::Builder::new().name(law.name.to_owned()).spawn(trial) {
            return Verdict::Untried(format!("no thread could be started: {error}"));
        }
        match receiver.recv_timeout(self.limit) {
            Ok(Ok(Ok(note))) => Verdict::Held(note),
            Ok(Ok(Err(Stop::Broken(seen)))) => Verdict::Broken(seen),
            Ok(Ok(Err(Stop::NotApplicable(why)))) => Verdict::NotApplicable(why),
            Ok(Ok(Err(Stop::Untried(why)))) => Verdict::Untried(why),
            Ok(Err(panic)) => Verdict::Broken(format!("it panicked: {}", message_of(&*panic))),
            Err(_) => Verdict::Broken(format!("it did not end within {} s", self.limit.as_secs_f32())),
        }
    }
}

/// What a panic said.
pub(super) fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no text".to_owned())
}
