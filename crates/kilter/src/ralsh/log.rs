//! Log lines of providers, on standard error in libral's format.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use anstyle::{AnsiColor, Style};
use kilter_model::Timestamp;
use kilter_provider::{Level, Log};
use kilter_runtime::{Event, Observer};

use crate::output;
use crate::render::progress::interrupted;
use crate::style::{FAILED, FAINT, styled};
use crate::visible::visible;

const WARNING: Style = AnsiColor::Yellow.on_default();

/// Minimum severity of shown lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LogLevel {
    Trace,
    Debug,
    Info,
    Warn,
    Error,
    Fatal,
    None,
}

impl LogLevel {
    fn of(level: Level) -> LogLevel {
        match level {
            Level::Debug => LogLevel::Debug,
            Level::Info | Level::Notice => LogLevel::Info,
            Level::Warning => LogLevel::Warn,
            Level::Err => LogLevel::Error,
            Level::Critical | Level::Alert | Level::Emerg => LogLevel::Fatal,
        }
    }

    fn word(self) -> &'static str {
        match self {
            LogLevel::Trace => "TRACE",
            LogLevel::Debug => "DEBUG",
            LogLevel::Info => "INFO",
            LogLevel::Warn => "WARN",
            LogLevel::Error => "ERROR",
            LogLevel::Fatal => "FATAL",
            LogLevel::None => "",
        }
    }
}

/// Logger that shows lines from a severity on.
pub(super) struct Logger {
    from: LogLevel,
    /// Provider of the lines.
    speaker: Mutex<String>,
    has_errors: AtomicBool,
}

impl Logger {
    /// Creates a logger that shows lines from a severity on.
    pub(super) fn new(from: LogLevel) -> Logger {
        Logger { from, speaker: Mutex::new("kilter".to_owned()), has_errors: AtomicBool::new(false) }
    }

    /// Sets the provider of the following lines.
    pub(super) fn speak_for(&self, name: &str) {
        name.clone_into(&mut self.speaker.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Returns true if an error was shown.
    pub(super) fn has_errors(&self) -> bool {
        self.has_errors.load(Ordering::Acquire)
    }

    /// Logs a line.
    pub(super) fn line(&self, level: Level, message: &str) {
        let level = LogLevel::of(level);
        if level < self.from {
            return;
        }
        if level >= LogLevel::Error {
            self.has_errors.store(true, Ordering::Release);
        }
        let style = match level {
            LogLevel::Error | LogLevel::Fatal => FAILED,
            LogLevel::Warn => WARNING,
            _ => FAINT,
        };
        let speaker = self.speaker.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let text = format!("{:<5} {speaker} - {}", level.word(), visible(message));
        output::line(format_args!("{} {}", now(), styled(style, text)));
    }
}

/// Returns the time in UTC: `2026-01-31 12:00:00.000000`.
fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let time = Timestamp::from_seconds(since.as_secs_f64()).map(|time| time.to_string()).unwrap_or_default();
    // Nine digits of a second become six.
    time.chars().take("2026-01-31T12:00:00.000000".len()).map(|c| if c == 'T' { ' ' } else { c }).collect()
}

impl Log for Logger {
    fn log(&self, level: Level, _: &str, _: &str, message: &str) {
        self.line(level, message);
    }
}

/// Observer that logs the lines of providers.
pub(super) struct LogObserver<'a>(pub(super) &'a Logger);

impl Observer for LogObserver<'_> {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Log { level, message, .. } => self.0.line(level, message),
            Event::Retrying { failure, delay, .. } => {
                self.0.line(Level::Warning, &format!("{failure} (tried again in {delay} ms)"));
            }
            Event::Interrupted { in_flight, fate } => self.0.line(Level::Warning, &interrupted(in_flight, fate)),
            _ => {}
        }
    }

    fn before_changes(&mut self, _: &[kilter_runtime::PendingChange<'_>]) -> Result<(), ecow::EcoString> {
        Ok(())
    }
}
