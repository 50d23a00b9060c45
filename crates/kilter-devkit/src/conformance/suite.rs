//! Runs the laws.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::harness::{EarlyEnd, Harness};
use super::interrupt::Halt;
use super::laws::{LAWS, Law};
use super::report::{Finding, Report, Verdict};
use super::subject::Subject;
use kilter_provider::Suitability;

/// Tries all laws with a provider.
///
/// ```no_run
/// use kilter_devkit::conformance::{Subject, Suite};
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

/// Polling interval of the cancellation flag.
const ASKED: Duration = Duration::from_millis(20);

impl Suite {
    /// Creates a suite. `make` creates the provider and a new sandbox for each trial.
    pub fn new(make: impl Fn() -> Subject + Send + Sync + 'static) -> Suite {
        Suite {
            make: Arc::new(make),
            soon: Duration::from_secs(10),
            limit: Duration::from_secs(600),
            only: Vec::new(),
            until: &NEVER,
        }
    }

    /// Sets the maximum time until an interrupted call ends. The default is 10 s.
    #[must_use]
    pub fn soon(self, soon: Duration) -> Suite {
        Suite { soon, ..self }
    }

    /// Sets the timeout of a law. After that, the provider counts as hanging and is interrupted. The default is
    /// 10 min.
    #[must_use]
    pub fn limit(self, limit: Duration) -> Suite {
        Suite { limit, ..self }
    }

    /// Restricts the suite to the laws with these names. Empty means all.
    #[must_use]
    pub fn only(self, laws: impl IntoIterator<Item = &'static str>) -> Suite {
        Suite { only: laws.into_iter().collect(), ..self }
    }

    /// Sets a cancellation flag. When it is set, the suite interrupts the current trial and starts no other.
    #[must_use]
    pub fn until(self, over: &'static AtomicBool) -> Suite {
        Suite { until: over, ..self }
    }

    /// Tries every law.
    pub fn run(&self) -> Report {
        self.run_observed(&mut |_| {})
    }

    /// Tries every law and reports the progress to `observer`.
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

    /// Returns the names of the type and the provider, and the reason if no law can be tried.
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

    /// Tries a law.
    fn attempt(&self, law: &'static Law) -> Verdict {
        if self.is_over() {
            return Verdict::Untried(OVER.to_owned());
        }
        let halt = Arc::new(Halt::default());
        let bench = Harness { make: self.make.clone(), soon: self.soon, halt: Arc::clone(&halt) };
        match self.apart(law.name, &halt, move || (law.trial)(&bench)).and_then(|trial| trial) {
            Ok(note) => Verdict::Held(note),
            Err(EarlyEnd::Broken(seen)) => Verdict::Broken(seen),
            Err(EarlyEnd::NotApplicable(why)) => Verdict::NotApplicable(why),
            Err(EarlyEnd::Untried(why)) => Verdict::Untried(why),
        }
    }

    /// Runs a closure on a thread of its own. After the timeout, `interrupt` interrupts it. A thread that does not
    /// react is left running.
    fn apart<T: Send + 'static>(
        &self,
        name: &str,
        halt: &Halt,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, EarlyEnd> {
        let (sender, receiver) = mpsc::channel();
        let caught = move || {
            let done = catch_unwind(AssertUnwindSafe(work));
            // The receiver is gone after a timeout.
            let _ = sender.send(done);
        };
        if let Err(error) = std::thread::Builder::new().name(name.to_owned()).spawn(caught) {
            return Err(EarlyEnd::Untried(format!("no thread could be started: {error}")));
        }
        match self.awaited(&receiver) {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(panic)) => Err(end_of(&*panic)),
            Err(stop) => {
                halt.raise();
                // Processes started by the trial end with it. A sandbox that could not be created is the reason for the
                // timeout. Another late result is meaningless.
                let late = receiver.recv_timeout(self.soon);
                Err(late.ok().and_then(Result::err).and_then(|panic| given_up(&*panic)).unwrap_or(stop))
            }
        }
    }

    /// Waits for the result of a trial until the timeout.
    fn awaited<T>(&self, receiver: &Receiver<T>) -> Result<T, EarlyEnd> {
        let begun = Instant::now();
        loop {
            let left = self.limit.saturating_sub(begun.elapsed());
            match receiver.recv_timeout(left.min(ASKED)) {
                Ok(done) => return Ok(done),
                Err(_) if self.is_over() => return Err(EarlyEnd::Untried(OVER.to_owned())),
                Err(RecvTimeoutError::Timeout) if !left.is_zero() => {}
                Err(_) => {
                    return Err(EarlyEnd::Broken(format!("it did not end within {} s", self.limit.as_secs_f32())));
                }
            }
        }
    }

    fn is_over(&self) -> bool {
        self.until.load(Ordering::Acquire)
    }
}

/// Reason of a cancelled trial.
const OVER: &str = "it was interrupted";

/// Progress of a suite.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    /// A law is about to be tried.
    Begun(&'static Law),
    /// A law has been tried.
    Ended(&'a Finding),
}

/// Panic payload of [`give_up`].
struct GivenUp(String);

/// Ends the current trial as not tried, for a sandbox that cannot be created or entered. Unwinds the stack; only
/// a suite catches this.
pub fn give_up(why: impl Into<String>) -> ! {
    std::panic::resume_unwind(Box::new(GivenUp(why.into())))
}

/// Converts a panic to the result of the law.
pub(super) fn end_of(panic: &(dyn Any + Send)) -> EarlyEnd {
    given_up(panic).unwrap_or_else(|| EarlyEnd::Broken(format!("it panicked: {}", message_of(panic))))
}

/// Returns the reason of a trial that [gave up](give_up).
fn given_up(panic: &(dyn Any + Send)) -> Option<EarlyEnd> {
    panic.downcast_ref().map(|GivenUp(why)| EarlyEnd::Untried(why.clone()))
}

/// Returns the message of a panic.
fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no text".to_owned())
}
