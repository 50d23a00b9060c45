//! What people and programs see of a run.

pub(crate) mod diff;
pub(crate) mod json;
pub(crate) mod metrics;
pub(crate) mod progress;
pub(crate) mod report;
pub(crate) mod status;

use anstyle::{AnsiColor, Style};

/// Something that was or would be created, or an added line.
pub(crate) const ADDED: Style = AnsiColor::Green.on_default();
/// Something that was or would be removed, or a removed line.
pub(crate) const REMOVED: Style = AnsiColor::Red.on_default();
/// Something that was or would be changed.
pub(crate) const CHANGED: Style = AnsiColor::Yellow.on_default();
/// Something that failed.
pub(crate) const FAILED: Style = AnsiColor::Red.on_default().bold();
/// Something beside the point.
pub(crate) const FAINT: Style = Style::new().dimmed();
/// The name of a resource.
pub(crate) const NAME: Style = Style::new().bold();

/// `text` in a style; the stream strips it where colours are not wanted.
pub(crate) fn styled(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}
