//! Diff rendering: unified diffs in colour.

use crate::visible;

use super::{ADDED, FAINT, REMOVED, styled};

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

/// Escapes control characters and marks of writing direction, so that content cannot control a terminal or deceive
/// its reader.
pub(crate) fn visible(line: &str) -> String {
    if line.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t')) {
        return line.to_owned();
    }
    let harmful = |c: char| visible::is_steering(c) && c != '\t';
    if !line.contains(harmful) {
        return line.to_owned();
    }
    line.chars().map(|c| if harmful(c) { c.escape_default().to_string() } else { c.to_string() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_cannot_steer_the_terminal() {
        assert_eq!(visible("a\u{1b}[2Jb\tc"), "a\\u{1b}[2Jb\tc");
    }
}
