//! Trying the laws.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::bench::{Bench, Stop};
use super::halt::Halt;
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
    only: Vec<&'static str>,
    until: &'static AtomicBool,
}

static NEVER: AtomicBool = AtomicBool::new(false);

/// How often it is asked whether nobody wants to know any more.
const ASKED: Duration = Duration::from_millis(20);

impl Suite {
    /// A suite for the provider of the subjects that `make` makes, each on a fresh world.
    pub fn new(make: impl Fn() -> Subject + Send + Sync + 'static) -> Suite {
        Suite {
            make: Arc::new(make),
            soon: Duration::from_secs(10),
            limit: Duration::from_secs(600),
            only: Vec::new(),
            until: &NEVER,
        }
    }

    /// Says how soon an interrupted call has to end; ten seconds if nothing is said.
    #[must_use]
    pub fn soon(self, soon: Duration) -> Suite {
        Suite { soon, ..self }
    }

    /// Says how long one law may take before the provider counts as hanging, and is interrupted; ten minutes
    /// if nothing is said.
    #[must_use]
    pub fn limit(self, limit: Duration) -> Suite {
        Suite { limit, ..self }
    }

    /// Tries some laws only, those with these names; all if there are none.
    #[must_use]
    pub fn only(self, laws: impl IntoIterator<Item = &'static str>) -> Suite {
        Suite { only: laws.into_iter().collect(), ..self }
    }

    /// Says when nobody wants to know any more: what is under way is interrupted then, and nothing else is tried.
    #[must_use]
    pub fn until(self, over: &'static AtomicBool) -> Suite {
        Suite { until: over, ..self }
    }

    /// Tries every law.
    pub fn run(&self) -> Report {
        self.run_observed(&mut |_| {})
    }

    /// Tries every law, and tells `observer` how far it has come.
    pub fn run_observed(&self, observer: &mut dyn FnMut(Progress<'_>)) -> Report {
        let (type_name, provider, hindrance) = self.introduce();
        let is_meant = |law: &&Law| self.only.is_empty() || self.only.contains(&law.name);
        let findings = LAWS.iter().filter(is_meant).map(|law| {
            observer(Progress::Begun(law));
            let verdict = match &hindrance {
                None => self.attempt(law),
                Some(why) => Verdict::Untried(why.clone()),
            };
            let finding = Finding { law: law.name, sentence: law.sentence, verdict };
            observer(Progress::Ended(&finding));
            finding
        });
        Report { findings: findings.collect(), type_name, provider }
    }

    /// The names of the type and the provider, and why no law can be tried, if there is such a reason.
    fn introduce(&self) -> (String, String, Option<String>) {
        let make = self.make.clone();
        let introduced = self.apart("introduction", &Halt::default(), move || {
            let subject = make();
            let provider = subject.provider();
            let hindrance = match provider.suitable() {
                Suitability::Suitable => None,
                Suitability::Unsuitable(why) => Some(format!("the provider cannot work here: {why}")),
            };
            (provider.schema().name.to_string(), provider.name().to_owned(), hindrance)
        });
        introduced.unwrap_or_else(|stop| (String::new(), String::new(), Some(stop.why())))
    }

    /// Tries one law.
    fn attempt(&self, law: &'static Law) -> Verdict {
        if self.is_over() {
            return Verdict::Untried(OVER.to_owned());
        }
        let halt = Arc::new(Halt::default());
        let bench = Bench { make: self.make.clone(), soon: self.soon, halt: Arc::clone(&halt) };
        match self.apart(law.name, &halt, move || (law.trial)(&bench)).and_then(|trial| trial) {
            Ok(note) => Verdict::Held(note),
            Err(Stop::Broken(seen)) => Verdict::Broken(seen),
            Err(Stop::NotApplicable(why)) => Verdict::NotApplicable(why),
            Err(Stop::Untried(why)) => Verdict::Untried(why),
        }
    }

    /// Does something on a thread of its own. What takes too long is interrupted by `halt`; it is left behind if it does
    /// not heed that.
    fn apart<T: Send + 'static>(
        &self,
        name: &str,
        halt: &Halt,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Stop> {
        let (sender, receiver) = mpsc::channel();
        let caught = move || {
            let done = catch_unwind(AssertUnwindSafe(work));
            // Nobody waits any more when it took too long.
            let _ = sender.send(done);
        };
        if let Err(error) = std::thread::Builder::new().name(name.to_owned()).spawn(caught) {
            return Err(Stop::Untried(format!("no thread could be started: {error}")));
        }
        match self.awaited(&receiver) {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(panic)) => Err(end_of(&*panic)),
            Err(stop) => {
                halt.raise();
                // What it has started ends with it. What comes of the trial now tells nothing.
                let _ = receiver.recv_timeout(self.soon);
                Err(stop)
            }
        }
    }

    /// What comes of a trial in time.
    fn awaited<T>(&self, receiver: &Receiver<T>) -> Result<T, Stop> {
        let begun = Instant::now();
        loop {
            let left = self.limit.saturating_sub(begun.elapsed());
            match receiver.recv_timeout(left.min(ASKED)) {
                Ok(done) => return Ok(done),
                Err(_) if self.is_over() => return Err(Stop::Untried(OVER.to_owned())),
                Err(RecvTimeoutError::Timeout) if !left.is_zero() => {}
                Err(_) => {
                    return Err(Stop::Broken(format!("it did not end within {} s", self.limit.as_secs_f32())));
                }
            }
        }
    }

    fn is_over(&self) -> bool {
        self.until.load(Ordering::Acquire)
    }
}

/// Why a law is not tried to its end that nobody wants to know of.
const OVER: &str = "it was interrupted";

/// How far a suite has come.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    /// A law is about to be tried.
    Begun(&'static Law),
    /// What has become of it.
    Ended(&'a Finding),
}

/// Why a trial cannot go on.
struct GivenUp(String);

/// Ends the trial that is under way, as one that could not be made: for those who make worlds and cannot, or cannot
/// enter one. It unwinds, which only a suite catches.
pub fn give_up(why: impl Into<String>) -> ! {
    std::panic::resume_unwind(Box::new(GivenUp(why.into())))
}

/// What a panic means for the law that was tried.
pub(super) fn end_of(panic: &(dyn Any + Send)) -> Stop {
    match panic.downcast_ref::<GivenUp>() {
        Some(GivenUp(why)) => Stop::Untried(why.clone()),
        None => Stop::Broken(format!("it panicked: {}", message_of(panic))),
    }
}

/// What a panic said.
fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no text".to_owned())
}
