//! The log of kilter's own modules, for administrators who look for the cause of a problem: a filter by module and
//! level (`--log`, `KILTER_LOG`), and a writer to standard error.
//!
//! Modules log with the macros of `tracing`. Without a filter nothing is installed, and a log statement costs one
//! comparison. The only spans are calls of providers: they show for which resources a program runs.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::{Debug, Write as _};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::output;

/// Levels by name, for messages.
const LEVELS: &str = "off, error, warn, info, debug or trace";

/// Levels for modules, as in `RUST_LOG`: `kilter_native=debug,info`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogFilter {
    /// Modules with their levels, the longest names first. The empty name is that of all other modules.
    modules: Vec<(String, LevelFilter)>,
}

impl FromStr for LogFilter {
    type Err = String;

    fn from_str(text: &str) -> Result<LogFilter, String> {
        let mut modules = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let is_module = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_:".contains(&byte));
            modules.push(match part.split_once('=') {
                Some((module, level)) if is_module(module) => (module.to_owned(), level_of(level.trim())?),
                None if level_of(part).is_ok() => (String::new(), level_of(part)?),
                // All levels of a module.
                None if part.starts_with("kilter") && is_module(part) => (part.to_owned(), LevelFilter::TRACE),
                _ => return Err(format!("`{part}` is neither a level nor MODULE=LEVEL, such as kilter_native=debug")),
            });
        }
        modules.sort_by_key(|(module, _)| std::cmp::Reverse(module.len()));
        Ok(LogFilter { modules })
    }
}

fn level_of(text: &str) -> Result<LevelFilter, String> {
    // `tracing` also knows numbers.
    match text.parse() {
        Ok(level) if text.bytes().all(|byte| byte.is_ascii_alphabetic()) => Ok(level),
        _ => Err(format!("`{text}` is not a level: write {LEVELS}")),
    }
}

impl LogFilter {
    fn allows(&self, module: &str, level: Level) -> bool {
        let is_in = |name: &str| match module.strip_prefix(name) {
            Some(rest) => name.is_empty() || rest.is_empty() || rest.starts_with("::"),
            None => false,
        };
        self.modules.iter().find(|(name, _)| is_in(name)).is_some_and(|(_, most)| level <= *most)
    }

    fn most(&self) -> LevelFilter {
        self.modules.iter().map(|(_, level)| *level).max().unwrap_or(LevelFilter::OFF)
    }
}

/// Starts the log.
pub(crate) fn start(filter: &LogFilter) {
    let writer = LogWriter {
        filter: filter.clone(),
        is_journal: is_journal(),
        next_span: AtomicU64::new(1),
        spans: Mutex::default(),
    };
    // It fails if a log has been started before, and that one stays.
    let _ = tracing::subscriber::set_global_default(writer);
}

/// Returns true if standard error is a stream of the journal (systemd.exec(5), `$JOURNAL_STREAM`).
fn is_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else { return false };
    let own = rustix::fs::fstat(std::io::stderr());
    own.is_ok_and(|own| stream == format!("{}:{}", own.st_dev, own.st_ino))
}

/// Writes the log to standard error.
struct LogWriter {
    filter: LogFilter,
    /// The journal adds the time itself, and reads the level from a prefix.
    is_journal: bool,
    next_span: AtomicU64,
    /// Texts of the open spans.
    spans: Mutex<BTreeMap<u64, String>>,
}

thread_local! {
    /// Spans that this thread has entered.
    static ENTERED: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

impl LogWriter {
    fn spans(&self) -> MutexGuard<'_, BTreeMap<u64, String>> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subscriber for LogWriter {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() || self.filter.allows(metadata.target(), *metadata.level())
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.filter.most())
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut text = FieldText::default();
        span.record(&mut text);
        let id = self.next_span.fetch_add(1, Ordering::Relaxed);
        self.spans().insert(id, text.0);
        Id::from_u64(id)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = FieldText::default();
        event.record(&mut fields);
        let entered = ENTERED.with_borrow(|entered| entered.last().copied());
        let span = entered.and_then(|id| self.spans().get(&id).map(|text| format!(" [{}]", text.trim_start())));
        let (level, module) = (*event.metadata().level(), event.metadata().target());
        let start = match self.is_journal {
            true => format!("<{}>", priority(level)),
            false => format!("{:.3} {level} ", jiff::Timestamp::now()),
        };
        output::line(format_args!("{start}{module}{}:{}", span.unwrap_or_default(), fields.0));
    }

    fn enter(&self, span: &Id) {
        ENTERED.with_borrow_mut(|entered| entered.push(span.into_u64()));
    }

    fn exit(&self, _: &Id) {
        ENTERED.with_borrow_mut(|entered| entered.pop());
    }

    fn try_close(&self, id: Id) -> bool {
        self.spans().remove(&id.into_u64());
        true
    }
}

/// Returns the priority of a level in the journal (sd-daemon(3)).
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}

/// Message and fields of an event or a span, each after a blank.
#[derive(Default)]
struct FieldText(String);

impl Visit for FieldText {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // A text takes whatever is written to it.
        let _ = match field.name() {
            "message" => write!(self.0, " {value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(text: &str) -> LogFilter {
        text.parse().unwrap()
    }

    #[test]
    fn longest_module_decides() {
        let filter = filter("kilter_native=debug, info,kilter_native::service=off,kilter_fetch");
        for (module, level, is_allowed) in [
            ("kilter_native", Level::DEBUG, true),
            ("kilter_native::package", Level::DEBUG, true),
            ("kilter_native::package", Level::TRACE, false),
            ("kilter_native::service", Level::ERROR, false),
            ("kilter_native::service::bus", Level::ERROR, false),
            ("kilter_natives", Level::DEBUG, false),
            ("kilter_natives", Level::INFO, true),
            ("kilter_fetch", Level::TRACE, true),
            ("kilter", Level::WARN, true),
        ] {
            assert_eq!(filter.allows(module, level), is_allowed, "{module} {level}");
        }
        assert_eq!(filter.most(), LevelFilter::TRACE);
    }

    #[test]
    fn filter_without_default_is_silent_for_other_modules() {
        assert!(!filter("kilter_native=DEBUG").allows("kilter", Level::ERROR));
        assert!(!filter("").allows("kilter", Level::ERROR));
        assert_eq!(filter("off").most(), LevelFilter::OFF);
    }

    #[test]
    fn invalid_part_is_named() {
        let refused = |text: &str| text.parse::<LogFilter>().unwrap_err();
        assert_eq!(refused("info,kilter=loud"), format!("`loud` is not a level: write {LEVELS}"));
        assert_eq!(refused("kilter=3"), format!("`3` is not a level: write {LEVELS}"));
        for text in ["inof", "kilter[span]=info", "a b=info"] {
            assert!(refused(text).contains("is neither a level nor MODULE=LEVEL"), "{text}");
        }
    }
}
