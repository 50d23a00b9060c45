//! Comparison of fingerprints.

/// Maximum number of lines in a message.
const MAX_MESSAGE_LINES: usize = 3;

/// Maximum number of characters of a line in a message.
const MAX_LINE_CHARS: usize = 200;

/// Returns the difference of two fingerprints as the end of a sentence, or none if they are equal.
pub(super) fn unlike(one: &str, other: &str) -> Option<String> {
    if one == other {
        return None;
    }
    let lacking = one.lines().filter(|line| other.lines().all(|known| known != *line)).map(|line| ("before", line));
    let added = other.lines().filter(|line| one.lines().all(|known| known != *line)).map(|line| ("now", line));
    let all: Vec<(&str, &str)> = lacking.chain(added).collect();
    let told = all.iter().take(MAX_MESSAGE_LINES).map(|(when, line)| format!("{when} `{}`", beginning(line)));
    let more = if all.len() > MAX_MESSAGE_LINES {
        format!(", and {} more", all.len() - MAX_MESSAGE_LINES)
    } else {
        String::new()
    };
    match all.is_empty() {
        true => Some(String::new()),
        false => Some(format!(": {}{more}", told.collect::<Vec<_>>().join(", "))),
    }
}

fn beginning(line: &str) -> String {
    let short: String = line.chars().take(MAX_LINE_CHARS).collect();
    if short.len() < line.len() { format!("{short}…") } else { short }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_in_one_fingerprint_only_are_shown() {
        assert_eq!(unlike("a\nb\n", "a\nb\n"), None);
        assert_eq!(unlike("a\nb\n", "a\nc\n").unwrap(), ": before `b`, now `c`");
        assert_eq!(unlike("", "a\nb\nc\nd\n").unwrap(), ": now `a`, now `b`, now `c`, and 1 more");
        assert_eq!(unlike("a\nb\n", "b\na\n").unwrap(), "");
    }

    #[test]
    fn a_long_line_is_cut() {
        let told = unlike("", &format!("{}\n", "x".repeat(300))).unwrap();
        assert_eq!(told.chars().count(), ": now `".len() + MAX_LINE_CHARS + 2);
    }
}
