//! Splits a command line into words.

/// The reason why a text is not a plain command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SplitError {
    #[error("the command is empty")]
    Empty,
    #[error("the closing {0} is missing")]
    Unclosed(char),
    #[error("nothing follows the last `\\`")]
    Dangling,
    #[error("`{0}` needs a shell")]
    Meta(char),
    #[error("a line break ends a command in a shell only")]
    Line,
    #[error("variables before a command are set by a shell only")]
    Assignment,
}

impl SplitError {
    /// Returns a hint for the repair.
    pub(super) fn hint(self) -> &'static str {
        match self {
            SplitError::Empty => "name a program",
            SplitError::Unclosed(_) | SplitError::Dangling => "or write the command as a list of its words",
            SplitError::Meta(_) | SplitError::Line => "add `shell: true`, or write the command as a list of its words",
            SplitError::Assignment => "use `environment`, or add `shell: true`",
        }
    }
}

/// Splits a text into words by the quoting rules of POSIX shells (XCU 2.2).
///
/// `\` quotes one character, `'…'` all characters, `"…"` all except `\`. No expansions take place. Characters that a
/// shell would expand or interpret are errors instead of literals.
pub(crate) fn split(text: &str) -> Result<Vec<String>, SplitError> {
    let mut words = Vec::new();
    let mut rest = text.trim().chars();
    let mut word: Option<String> = None;
    while let Some(c) = rest.next() {
        match c {
            '\n' => return Err(SplitError::Line),
            c if c.is_whitespace() => words.extend(word.take()),
            '\'' => single(&mut rest, word.get_or_insert_default())?,
            '"' => double(&mut rest, word.get_or_insert_default())?,
            '\\' => word.get_or_insert_default().push(rest.next().ok_or(SplitError::Dangling)?),
            '|' | '&' | ';' | '<' | '>' | '(' | ')' | '$' | '`' | '*' | '?' => return Err(SplitError::Meta(c)),
            // A shell interprets these characters only at the start of a word.
            '~' | '#' if word.is_none() => return Err(SplitError::Meta(c)),
            '=' if words.is_empty() && word.as_deref().is_some_and(is_name) => return Err(SplitError::Assignment),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    match words.first().map(String::as_str) {
        None | Some("") => Err(SplitError::Empty),
        Some("!") => Err(SplitError::Meta('!')),
        Some(_) => Ok(words),
    }
}

fn single(rest: &mut std::str::Chars<'_>, word: &mut String) -> Result<(), SplitError> {
    for c in rest {
        match c {
            '\'' => return Ok(()),
            c => word.push(c),
        }
    }
    Err(SplitError::Unclosed('\''))
}

fn double(rest: &mut std::str::Chars<'_>, word: &mut String) -> Result<(), SplitError> {
    while let Some(c) = rest.next() {
        match c {
            '"' => return Ok(()),
            '$' | '`' => return Err(SplitError::Meta(c)),
            '\\' => match rest.next().ok_or(SplitError::Dangling)? {
                c @ ('$' | '`' | '"' | '\\') => word.push(c),
                '\n' => {}
                c => word.extend(['\\', c]),
            },
            c => word.push(c),
        }
    }
    Err(SplitError::Unclosed('"'))
}

fn is_name(word: &str) -> bool {
    word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') && !word.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_like_a_shell() {
        let script = r#"printf '%s\n' "$@""#;
        for text in [
            "/bin/echo one  two\tthree",
            r"echo 'a b' c\ d e'f'g",
            r#"echo "a 'b'" "c\"d" "e\\f" "g\h" "\$HOME""#,
            r"echo '' x=y a~b a#b '$HOME' \* [ -e ]",
            "echo \"\" ''",
        ] {
            let shell = std::process::Command::new("/bin/sh")
                .args(["-c", &format!("words() {{ {script}; }}; words {text}")])
                .output()
                .unwrap();
            let words: String = split(text).unwrap().iter().map(|word| format!("{word}\n")).collect();
            assert_eq!(words, String::from_utf8(shell.stdout).unwrap(), "{text}");
        }
    }

    #[test]
    fn shell_syntax_without_shell_is_refused() {
        for (text, error) in [
            ("a | b", SplitError::Meta('|')),
            ("a && b", SplitError::Meta('&')),
            ("a; b", SplitError::Meta(';')),
            ("a > /x", SplitError::Meta('>')),
            ("echo $HOME", SplitError::Meta('$')),
            ("echo \"$HOME\"", SplitError::Meta('$')),
            ("echo `id`", SplitError::Meta('`')),
            ("ls *.conf", SplitError::Meta('*')),
            ("ls ~/x", SplitError::Meta('~')),
            ("ls # all", SplitError::Meta('#')),
            ("! test -e /x", SplitError::Meta('!')),
            ("A=b env", SplitError::Assignment),
            ("a\nb", SplitError::Line),
            ("echo 'a", SplitError::Unclosed('\'')),
            ("echo \"a", SplitError::Unclosed('"')),
            ("echo a\\", SplitError::Dangling),
            ("  ", SplitError::Empty),
            ("'' x", SplitError::Empty),
        ] {
            assert_eq!(split(text), Err(error), "{text}");
        }
    }
}
