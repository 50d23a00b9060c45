//! Output of hosts on this terminal.

use std::io::{IsTerminal as _, Write as _};

use kilter_process::Stream;

/// Writes output of a host. At a terminal, it keeps colours and escapes all other control sequences, because a host
/// must not control the terminal. A file or a pipe gets the bytes unchanged.
pub(crate) fn write(stream: Stream, bytes: &[u8]) {
    // A reader that closes the pipe early causes no error.
    let _ = match stream {
        Stream::Stdout if std::io::stdout().is_terminal() => std::io::stdout().write_all(safe(bytes).as_bytes()),
        Stream::Stdout => std::io::stdout().write_all(bytes),
        _ if std::io::stderr().is_terminal() => std::io::stderr().write_all(safe(bytes).as_bytes()),
        _ => std::io::stderr().write_all(bytes),
    };
    if stream == Stream::Stdout {
        let _ = std::io::stdout().flush();
    }
}

/// Returns a line of a host for the output of this process.
pub(crate) fn line(line: &str) -> String {
    safe(line.as_bytes())
}

/// Returns the text with all control characters escaped, except line breaks, tabs and the sequences of colours.
fn safe(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_ref();
    while let Some(c) = rest.chars().next() {
        if let Some(length) = colour(rest) {
            out.push_str(&rest[..length]);
            rest = &rest[length..];
            continue;
        }
        match c {
            '\n' | '\t' => out.push(c),
            c if crate::visible::is_steering(c) => out.extend(c.escape_default()),
            c => out.push(c),
        }
        rest = &rest[c.len_utf8()..];
    }
    out
}

/// Returns the length of a sequence that sets colours, at the start of a text.
fn colour(text: &str) -> Option<usize> {
    let parameters = text.strip_prefix("\u{1b}[")?;
    let length = parameters.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b';').count();
    parameters[length..].starts_with('m').then_some(length + 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_colours_reach_the_terminal() {
        assert_eq!(safe(b"\x1b[1;31mred\x1b[0m\tok\n"), "\u{1b}[1;31mred\u{1b}[0m\tok\n");
        assert_eq!(safe(b"\x1b]0;title\x07\x1b[2J\r"), "\\u{1b}]0;title\\u{7}\\u{1b}[2J\\r");
        assert_eq!(safe("\u{202e}".as_bytes()), "\\u{202e}");
    }
}
