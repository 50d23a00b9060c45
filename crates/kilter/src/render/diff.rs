//! Diff rendering: unified diffs in colour.

use crate::visible::visible;

use crate::style::{ADDED, FAINT, REMOVED, styled};

/// Returns a unified diff with each line after `indent`.
pub(crate) fn diff(text: &str, indent: &str) -> String {
    text.lines().map(|line| format!("{indent}{}\n", coloured(line))).collect()
}

fn coloured(line: &str) -> String {
    let line = visible(line);
    match line.as_bytes().first() {
        _ if line.starts_with("---") || line.starts_with("+++") || line.starts_with("@@") => styled(FAINT, &line),
        Some(b'+') => styled(ADDED, &line),
        Some(b'-') => styled(REMOVED, &line),
        _ => line,
    }
}
