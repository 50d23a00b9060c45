//! Output during a run.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use kilter_model::Difference;
use kilter_provider::{Level, Log};
use kilter_runtime::{Event, InFlight, Observer};

use super::{json, report};
use crate::style::{CHANGED, FAILED, FAINT, styled};
use crate::visible::visible;
use crate::{output, streams, terminal};

/// Minimum interval between two updates of the status line.
const PAINTING: Duration = Duration::from_millis(80);

/// Size in bytes from which buffered output of the report is written.
const HELD: usize = 16 * 1024;

/// Selection of the output during a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutputSelection {
    /// Resources as they settle, on standard output.
    pub(crate) resources: bool,
    /// Minimum severity of log lines.
    pub(crate) log: Level,
    /// Failures only.
    pub(crate) quiet: bool,
}

/// Shows a run on a terminal or in a file: resources as they settle, and long calls.
pub(crate) struct Progress {
    shown: OutputSelection,
    status_line: bool,
    painted: Option<Instant>,
    settled: usize,
    total: usize,
    doing: String,
    /// Buffered output of the report. A write for each resource would cost more than its change.
    held: String,
}

impl Progress {
    pub(crate) fn new(shown: OutputSelection, total: usize) -> Progress {
        let status_line = !shown.quiet && std::io::stderr().is_terminal() && !streams::is_in_memory();
        let (doing, held) = (String::new(), String::new());
        Progress { shown, status_line, painted: None, settled: 0, total, doing, held }
    }

    /// Writes the buffered output, and removes the status line.
    pub(crate) fn clear(&mut self) {
        self.unpaint();
        if !self.held.is_empty() {
            // A reader that closes the pipe early does not matter. The summary reports a full disk.
            let _ = output::write(&self.held);
            self.held.clear();
        }
    }

    fn unpaint(&mut self) {
        if self.painted.take().is_some() {
            let mut stderr = std::io::stderr().lock();
            // A failure of the terminal does not matter.
            let _ = write!(stderr, "\r\x1b[K").and_then(|()| stderr.flush());
        }
    }

    fn paint(&mut self) {
        if !self.status_line || self.painted.is_some_and(|at| at.elapsed() < PAINTING) {
            return;
        }
        let mut stderr = std::io::stderr().lock();
        let text = visible(&format!("{}/{} {}", self.settled, self.total, self.doing));
        let text: String = text.chars().take(terminal::status_width().saturating_sub(1)).collect();
        let _ = write!(stderr, "\r\x1b[K{text}").and_then(|()| stderr.flush());
        self.painted = Some(Instant::now());
    }

    fn print_styled(&mut self, style: anstyle::Style, line: &str) {
        if !self.shown.quiet || style == FAILED {
            self.print_line(&styled(style, visible(line)));
        }
    }

    fn print_line(&mut self, line: &str) {
        self.clear();
        streams::error_line(line, output::is_styled());
    }
}

impl Observer for Progress {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Idle => {
                if !self.held.is_empty() {
                    self.clear();
                }
            }
            Event::Begun { reference, doing } => {
                self.doing = format!("{doing} {reference}");
                self.paint();
            }
            Event::Waiting { reference, is_former, calls, since } => {
                let former = if is_former { " (started before the edit)" } else { "" };
                let more = if calls > 1 { format!(" and {} more", calls - 1) } else { String::new() };
                self.doing = format!("{reference}{former}{more}, {} s", since.as_secs());
                self.paint();
            }
            Event::Progress { settled, total } => {
                (self.settled, self.total) = (settled, total);
                if self.status_line && settled % 64 == 0 {
                    self.paint();
                }
            }
            Event::Settled(resource) => {
                if self.shown.resources {
                    self.held += &report::resource(resource, false);
                    if self.held.len() >= HELD {
                        self.clear();
                    }
                }
            }
            Event::Retrying { reference, failure, delay } => {
                if !self.shown.quiet {
                    let line = format!("{reference}: {failure} (tried again in {delay} ms)");
                    self.print_line(&styled(CHANGED, visible(&line)));
                }
            }
            Event::Log { level, type_name, name, message } => {
                if level >= self.shown.log {
                    self.print_line(&log_line(level, type_name, name, message));
                }
            }
            Event::Converged(true) => self.print_styled(FAINT, "converged: everything is settled"),
            Event::Converged(false) => {}
            Event::Contested { reference, repairs, next, differences, opponent } => {
                let by = opponent.map(|by| format!(", last {}", report::process(&json::process(by))));
                let what = format!(
                    "{reference} is contested: another program undoes its repairs ({repairs} so far{}). The next \
                     repair comes in {} s at the earliest",
                    by.unwrap_or_default(),
                    next.as_secs_f64().ceil()
                );
                self.contest(&what, differences);
            }
            Event::Uncontested { reference } => {
                self.print_styled(CHANGED, &format!("{reference} is no longer contested"));
            }
            Event::Demoted { reference, repairs, within, differences } => {
                let what = format!(
                    "{reference} is contested: it was repaired more than {repairs} times in {} s. It is only watched \
                     until the manifest is edited (`contested: observe`)",
                    within / 1000
                );
                self.contest(&what, differences);
            }
            Event::Unwatched { count, why, every } => self.print_styled(CHANGED, &unwatched(count, why, every)),
            Event::DeclaredUnwatched { why, every } => {
                let seconds = every.as_secs();
                self.print_styled(
                    CHANGED,
                    &format!("the manifest cannot be watched and is polled every {seconds} s: {why}"),
                );
            }
            Event::Called { .. }
            | Event::Quiet(_)
            | Event::Conditions(_)
            | Event::Flushed
            | Event::Watchdog
            | Event::StatusSocketChanged => {}
            Event::Rewatched { count: 1 } => self.print_styled(FAINT, "1 resource is watched again"),
            Event::Rewatched { count } => self.print_styled(FAINT, &format!("{count} resources are watched again")),
            Event::Paused { why, longest, is_loan } => self.print_styled(CHANGED, &paused(why, longest, is_loan)),
            Event::Resumed => self.print_styled(CHANGED, "resumed: delayed calls start"),
            Event::Reloading => self.print_styled(FAINT, "the manifest has changed: reloading"),
            Event::Interrupted { in_flight, fate } => self.print_line(&styled(FAILED, interrupted(in_flight, fate))),
        }
    }

    fn before_changes(&mut self, _: &[kilter_runtime::PendingChange<'_>]) -> Result<(), ecow::EcoString> {
        Ok(())
    }
}

impl Progress {
    /// Reports a contest with the values of both sides.
    fn contest(&mut self, what: &str, differences: &[Difference]) {
        self.print_styled(FAILED, what);
        let values: String = differences.iter().map(report::attribute).collect();
        if !values.is_empty() {
            self.print_line(values.trim_end());
        }
    }
}

/// Returns the message about an interrupt, and its effect on calls in flight.
pub(crate) fn interrupted(in_flight: usize, fate: InFlight) -> String {
    match (in_flight, fate) {
        (0, _) => "interrupted".to_owned(),
        (n, InFlight::Finished) => format!("interrupted: {n} in flight will be finished; once more ends them too"),
        (n, InFlight::Ended) => format!("interrupted: {n} in flight are being ended; once more kills them"),
        (n, InFlight::Killed) => format!("interrupted: {n} in flight are killed"),
    }
}

/// Returns the message about a pause, with its duration and reason.
pub(crate) fn paused(why: &str, longest: Option<Duration>, is_loan: bool) -> String {
    if is_loan {
        return format!("lent to {}: nothing new starts until it ends", visible(why));
    }
    let why = if why.is_empty() { String::new() } else { format!(" ({})", visible(why)) };
    match longest {
        Some(longest) => format!("paused for {} s at most{why}: nothing new starts", longest.as_secs_f64()),
        None => format!("paused until `kilter resume`{why}: nothing new starts"),
    }
}

/// Returns the message about resources that cannot be watched.
fn unwatched(count: usize, why: &str, every: Option<Duration>) -> String {
    let (resources, are) = if count == 1 { ("resource", "is") } else { ("resources", "are") };
    let instead = match every {
        Some(every) => format!(", and {are} polled every {} s", every.as_secs()),
        None => String::new(),
    };
    format!("{count} {resources} cannot be watched{instead}: {why}")
}

/// Prints log lines of providers.
pub(crate) struct PrintedLog {
    pub(crate) from: Level,
}

impl Log for PrintedLog {
    fn log(&self, level: Level, type_name: &str, name: &str, message: &str) {
        if level >= self.from {
            output::line(log_line(level, type_name, name, message));
        }
    }
}

/// Returns a log line of a provider.
pub(crate) fn log_line(level: Level, type_name: &str, name: &str, message: &str) -> String {
    let style = match level {
        Level::Err | Level::Critical | Level::Alert | Level::Emerg => FAILED,
        Level::Warning => CHANGED,
        _ => FAINT,
    };
    let whose = if name.is_empty() { type_name.to_owned() } else { format!("{type_name}[{name}]") };
    format!("{} {}: {}", styled(style, format!("{}:", level.word())), visible(&whose), visible(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unwatched_resources_are_shown_with_poll_interval() {
        let every = Some(Duration::from_secs(300));
        assert_eq!(unwatched(1, "no more", every), "1 resource cannot be watched, and is polled every 300 s: no more");
        assert_eq!(
            unwatched(2, "no more", every),
            "2 resources cannot be watched, and are polled every 300 s: no more"
        );
        assert_eq!(unwatched(1, "no more", None), "1 resource cannot be watched: no more");
    }
}
