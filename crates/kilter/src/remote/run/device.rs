//! Run on a device. A device reports no events, so kilter applies the manifests at an interval.

use std::time::{Duration, Instant};

use kilter_process::Stream;
use kilter_remote::RemoteCall;

use super::RemoteRun;
use super::edits::HeldManifests;
use crate::exit::Exit;
use crate::remote::forward;
use crate::remote::hosts::HostAnswer;
use crate::remote::plans::{NoPlan, comparable, show_failed};
use crate::signals;

/// Interval of the checks for a signal and for edits while the device rests.
const TICK: Duration = Duration::from_millis(100);

/// Exit codes of `apply --detailed-exitcodes`: resources were changed, and other resources have failed.
const CHANGED: u8 = 2;
const CHANGED_AND_FAILED: u8 = 6;

/// Result of a check of a device.
#[derive(Debug, PartialEq, Eq)]
struct CheckResult {
    /// Exit code.
    code: u8,
    /// Output without durations, or the reason why there is none.
    text: String,
}

impl CheckResult {
    /// Returns true if the result is shown after the `last` one: changes, other differences or failures than before, and
    /// their end.
    fn is_news(&self, last: Option<&CheckResult>, is_noop: bool) -> bool {
        let Some(last) = last else { return true };
        match self.code {
            CHANGED | CHANGED_AND_FAILED if !is_noop => true,
            0 => !matches!(last.code, 0 | CHANGED) || is_noop && last.code == CHANGED,
            _ => self != last,
        }
    }
}

impl RemoteRun<'_> {
    /// Holds a device until the end. Returns the exit code for it.
    pub(super) fn hold_device(&self, host: usize, held: &HeldManifests<'_>) -> u8 {
        let mut last = None;
        loop {
            let answer = self.check_device(host, held);
            let is_refused = answer.code() == Exit::NotStarted.code();
            last = Some(self.show(host, answer, last.as_ref()));
            match is_refused {
                // The device gets the version before at once.
                true => drop(held.go_back()),
                false => held.accept(),
            }
            loop {
                if !self.rest(held) {
                    return self.exit_code(last.as_ref());
                }
                match self.planner.facts(host) {
                    Ok(facts) => break held.take_facts(facts),
                    // The signal has interrupted the connection.
                    Err(_) if signals::is_raised() => return self.exit_code(last.as_ref()),
                    Err(why) => {
                        self.planner.hosts.rest(host);
                        last = Some(self.show_missing(host, why, last.as_ref()));
                    }
                }
            }
        }
    }

    /// Applies the manifests once.
    fn check_device(&self, host: usize, held: &HeldManifests<'_>) -> HostAnswer {
        let args = self.args;
        let mut words = self.planner.options.to_vec();
        words.extend(["apply", "--received", "-", "--detailed-exitcodes"].map(str::to_owned));
        words.extend(args.noop.then(|| "--noop".to_owned()));
        words.extend(args.no_flush.then(|| "--no-flush".to_owned()));
        words.extend(args.jobs.given().map(|jobs| format!("--jobs={jobs}")));
        let call = RemoteCall { args: words, stdin: held.take(), ..RemoteCall::default() };
        let answer = self.planner.hosts.call(host, &call);
        self.planner.hosts.rest(host);
        answer
    }

    /// Shows the result of a check if it is news.
    fn show(&self, host: usize, answer: HostAnswer, last: Option<&CheckResult>) -> CheckResult {
        let hosts = self.planner.hosts;
        let text = match &answer {
            HostAnswer::Finished { stdout, stderr, .. } => comparable(&[stderr.as_slice(), b"\n", stdout].concat()),
            answer => answer.reason(),
        };
        let result = CheckResult { code: answer.code(), text };
        if !result.is_news(last, self.args.noop) {
            return result;
        }
        match &answer {
            HostAnswer::Finished { stdout, stderr, .. } => {
                forward::show_lines(hosts, host, Stream::Stderr, stderr);
                forward::show_lines(hosts, host, Stream::Stdout, stdout);
            }
            answer => forward::report(hosts.name(host), answer),
        }
        result
    }

    /// Shows why a device has no facts if it is news.
    fn show_missing(&self, host: usize, why: NoPlan, last: Option<&CheckResult>) -> CheckResult {
        let lines = match why {
            NoPlan::NoAnswer(answer) => return self.show(host, answer, last),
            NoPlan::Failed(lines) => lines.lines.join("\n"),
        };
        let result = CheckResult { code: Exit::Failed.code(), text: lines };
        if result.is_news(last, self.args.noop) {
            show_failed(self.planner.hosts.name(host), &result.text);
        }
        result
    }

    /// Returns the exit code after the last check.
    fn exit_code(&self, last: Option<&CheckResult>) -> u8 {
        match last.map_or(0, |last| last.code) {
            CHANGED if !self.args.noop => Exit::Done.code(),
            CHANGED_AND_FAILED => Exit::Failed.code(),
            code => code,
        }
    }

    fn is_ended(&self) -> bool {
        signals::is_raised() || self.end.is_some_and(|end| Instant::now() >= end)
    }

    /// Waits for the next check, or for an edit. Returns false at the end of the run.
    fn rest(&self, held: &HeldManifests<'_>) -> bool {
        let next = Instant::now() + held.interval();
        while Instant::now() < next && !held.is_edited() {
            if self.is_ended() {
                return false;
            }
            std::thread::sleep(TICK);
        }
        !self.is_ended()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_news_is_shown() {
        let result = |code: u8, text: &str| CheckResult { code, text: text.to_owned() };
        let in_sync = || result(0, "1 unchanged");
        let is_news = |last: CheckResult, new: CheckResult| new.is_news(Some(&last), false);
        assert!(in_sync().is_news(None, false));
        assert!(!is_news(in_sync(), in_sync()));
        assert!(is_news(in_sync(), result(CHANGED, "1 changed")));
        assert!(is_news(result(CHANGED, "1 changed"), result(CHANGED, "1 changed")), "another repair");
        assert!(!is_news(result(CHANGED, "1 changed"), in_sync()));
        assert!(is_news(in_sync(), result(4, "1 failed")));
        assert!(!is_news(result(4, "1 failed"), result(4, "1 failed")));
        assert!(is_news(result(4, "1 failed"), in_sync()));
        let pending = || result(CHANGED, "1 to change");
        assert!(!pending().is_news(Some(&pending()), true));
        assert!(in_sync().is_news(Some(&pending()), true));
    }
}
