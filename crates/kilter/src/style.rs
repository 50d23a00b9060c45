//! Styles of the output for people.

use anstyle::{AnsiColor, Style};

/// Style of creations and added lines.
pub(crate) const ADDED: Style = AnsiColor::Green.on_default();
/// Style of removals and removed lines.
pub(crate) const REMOVED: Style = AnsiColor::Red.on_default();
/// Style of changes.
pub(crate) const CHANGED: Style = AnsiColor::Yellow.on_default();
/// Style of failures.
pub(crate) const FAILED: Style = AnsiColor::Red.on_default().bold();
/// Style of secondary information.
pub(crate) const FAINT: Style = Style::new().dimmed();
/// Style of resource names.
pub(crate) const NAME: Style = Style::new().bold();

/// Returns `text` in a style. The stream removes the style if it does not support colours.
pub(crate) fn styled(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}
