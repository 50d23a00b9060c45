//! Words of a line, as a POSIX shell divides them: quotes, backslashes, and `#` for a comment.

use ecow::EcoString;

/// Divides a line into words. A `#` outside of quotes begins a comment, also inside of a word.
///
/// # Errors
/// If a quote is not closed, or a backslash ends the line.
pub(crate) fn split(line: &str) -> Result<Vec<String>, EcoString> {
    divide(line, true)
}

/// Divides arguments of a program, which have no comments.
///
/// # Errors
/// As [`split`].
pub(crate) fn arguments(line: &str) -> Result<Vec<String>, EcoString> {
    divide(line, false)
}

fn divide(line: &str, has_comments: bool) -> Result<Vec<String>, EcoString> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '#' if has_comments => break,
            c if c.is_whitespace() => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some('\'') => break,
                        Some(c) => word.push(c),
                        None => return Err("a quote is not closed".into()),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some('"') => break,
                        Some('\\') => match chars.next() {
                            Some(c @ ('"' | '\\')) => word.push(c),
                            Some(c) => word.extend(['\\', c]),
                            None => return Err("a quote is not closed".into()),
                        },
                        Some(c) => word.push(c),
                        None => return Err("a quote is not closed".into()),
                    }
                }
            }
            '\\' => match chars.next() {
                Some(c) => word.get_or_insert_default().push(c),
                None => return Err("a backslash ends the line".into()),
            },
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_divided_as_by_a_shell() {
        for (line, expected) in [
            ("a b=1\tc", "a|b=1|c"),
            (r#"a x="1 2" y='3 "4' z=5\ 6"#, "a|x=1 2|y=3 \"4|z=5 6"),
            (r#"a x="q\"w\e""#, "a|x=q\"w\\e"),
            ("a b # comment", "a|b"),
            ("a b=c#d e", "a|b=c"),
            ("a b='c#d'", "a|b=c#d"),
            ("a ''", "a|"),
        ] {
            assert_eq!(split(line).unwrap().join("|"), expected, "{line}");
        }
        assert_eq!(arguments("-o 'User #1'  -4#").unwrap(), ["-o", "User #1", "-4#"]);
        for line in ["a 'b", "a \"b", "a \"b\\", "a\\"] {
            assert!(split(line).is_err(), "{line}");
        }
    }
}
