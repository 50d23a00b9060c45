//! Lines of an authorized_keys file (sshd(8), "AUTHORIZED_KEYS FILE FORMAT").
//!
//! Users write the file, so a line of any length is parsed in linear time.

use ecow::EcoString;
use kilter_model::from_base64;

/// Types of keys.
pub(crate) const KINDS: [&str; 8] = [
    "ssh-ed25519",
    "ssh-rsa",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
    "ssh-dss",
];

/// White space between the parts of a line.
const BLANK: [char; 2] = [' ', '\t'];

/// A line with a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyLine {
    pub(crate) options: Vec<EcoString>,
    pub(crate) kind: EcoString,
    /// The key in base64.
    pub(crate) key: EcoString,
    /// Empty if there is none.
    pub(crate) comment: EcoString,
}

impl KeyLine {
    /// Parses `options type key comment`. Options and comment may be missing.
    pub(crate) fn parse(line: &str) -> Option<KeyLine> {
        let line = line.trim_ascii();
        if line.starts_with('#') {
            return None;
        }
        KeyLine::without_options(line).or_else(|| {
            let (options, rest) = line.split_at(end_of_options(line)?);
            let key = KeyLine::without_options(rest.trim_start_matches(BLANK))?;
            Some(KeyLine { options: split_options(options), ..key })
        })
    }

    /// Parses `type key comment`.
    pub(crate) fn without_options(line: &str) -> Option<KeyLine> {
        let (kind, rest) = line.split_once(BLANK)?;
        let rest = rest.trim_start_matches(BLANK);
        let (key, comment) = rest.split_once(BLANK).unwrap_or((rest, ""));
        (KINDS.contains(&kind) && is_base64(key)).then(|| KeyLine {
            options: Vec::new(),
            kind: kind.into(),
            key: key.into(),
            comment: comment.trim_matches(BLANK).into(),
        })
    }

    /// Returns the line with its line break.
    pub(crate) fn line(&self) -> String {
        let mut line = self.options.join(",");
        for part in [&self.kind, &self.key, &self.comment] {
            if !line.is_empty() && !part.is_empty() {
                line.push(' ');
            }
            line.push_str(part);
        }
        line.push('\n');
        line
    }
}

fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
}

/// Returns the index of the first blank outside of quotes. As in sshd, a backslash is an escape only before a quote.
/// None if the line or a quote ends before.
fn end_of_options(line: &str) -> Option<usize> {
    let mut quotes = Quotes::default();
    line.bytes().position(|byte| quotes.is_outside(byte) && matches!(byte, b' ' | b'\t'))
}

/// Splits options at the commas outside of quotes.
fn split_options(text: &str) -> Vec<EcoString> {
    let mut quotes = Quotes::default();
    let parts = text.split(|c: char| {
        // Only ASCII characters matter.
        let byte = u8::try_from(c).unwrap_or(b'x');
        quotes.is_outside(byte) && byte == b','
    });
    parts.filter(|part| !part.is_empty()).map(EcoString::from).collect()
}

/// Position in a text with quotes.
#[derive(Default)]
struct Quotes {
    is_quoted: bool,
    is_escaped: bool,
}

impl Quotes {
    /// Takes the next byte. Returns true if it is outside of quotes and no quote itself.
    fn is_outside(&mut self, byte: u8) -> bool {
        if byte == b'"' && !self.is_escaped {
            self.is_quoted = !self.is_quoted;
            return false;
        }
        self.is_escaped = byte == b'\\';
        !self.is_quoted
    }
}

/// Returns true if a text is one option: a word, with blanks and commas only in quotes.
pub(crate) fn is_option(text: &str) -> bool {
    let mut quotes = Quotes::default();
    let is_plain = text.bytes().all(|byte| !(quotes.is_outside(byte) && matches!(byte, b' ' | b'\t' | b',')));
    is_plain && !quotes.is_quoted && !text.is_empty() && !text.starts_with('#') && !text.contains(char::is_control)
}

/// Returns true if a text in base64 is a key of this type: it begins with the type.
pub(crate) fn is_key_of(kind: &str, key: &str) -> bool {
    let length = u32::try_from(kind.len()).unwrap_or(u32::MAX).to_be_bytes();
    let Some(data) = from_base64(key).filter(|_| is_base64(key)) else { return false };
    let rest = data.strip_prefix(&length[..]).and_then(|data| data.strip_prefix(kind.as_bytes()));
    rest.is_some_and(|rest| !rest.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIHB5dGhvbiBpcyBmdW4gYW5kIHNvIGlzIHJ1c3QhISEh";

    fn parse(line: &str) -> Option<(Vec<String>, String)> {
        let key = KeyLine::parse(line)?;
        assert_eq!((key.kind.as_str(), key.key.as_str()), ("ssh-ed25519", KEY));
        Some((key.options.iter().map(ToString::to_string).collect(), key.comment.to_string()))
    }

    #[test]
    fn parts_of_a_line_are_found_as_by_sshd() {
        for (line, options, comment) in [
            (format!("ssh-ed25519 {KEY}"), &[][..], ""),
            (format!("  ssh-ed25519\t{KEY}  a  b \r\n"), &[], "a  b"),
            (format!("no-pty,no-X11-forwarding ssh-ed25519 {KEY} x"), &["no-pty", "no-X11-forwarding"], "x"),
            (
                format!("from=\"10.0.0.*,10.1.0.1\",command=\"echo \\\"a b\\\", c\" ssh-ed25519 {KEY} x"),
                &["from=\"10.0.0.*,10.1.0.1\"", "command=\"echo \\\"a b\\\", c\""],
                "x",
            ),
            (
                format!("command=\"a\\b \\d \\\"c d\\\"\",no-pty ssh-ed25519 {KEY} x"),
                &["command=\"a\\b \\d \\\"c d\\\"\"", "no-pty"],
                "x",
            ),
            (
                format!("from=\"\\\\\"\",command=\"\" ssh-ed25519 {KEY} the last  "),
                &["from=\"\\\\\"\"", "command=\"\""],
                "the last",
            ),
            (format!("a=\"\u{e9} x\" ssh-ed25519 {KEY} \u{e9}"), &["a=\"\u{e9} x\""], "\u{e9}"),
        ] {
            let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
            assert_eq!(parse(&line), Some((options, comment.to_owned())), "{line}");
        }
    }

    #[test]
    fn other_lines_have_no_key() {
        for line in [
            String::new(),
            "# mine".into(),
            format!("#ssh-ed25519 {KEY}"),
            format!("# x ssh-ed25519 {KEY}"),
            format!("command=\"never ends\\\" ssh-ed25519 {KEY} open"),
            format!("ssh-ed25519 {KEY}! x"),
            format!("ssh-other {KEY}"),
            "ssh-ed25519".into(),
        ] {
            assert_eq!(parse(&line), None, "{line}");
        }
    }

    #[test]
    fn every_written_line_reads_the_same() {
        for (options, comment) in [(vec![], ""), (vec!["no-pty", "from=\"a b,c\""], "me@laptop"), (vec!["x"], "a b")] {
            let options = options.into_iter().map(EcoString::from).collect();
            let key = KeyLine { options, kind: "ssh-ed25519".into(), key: KEY.into(), comment: comment.into() };
            assert_eq!(KeyLine::parse(&key.line()), Some(key));
        }
    }

    #[test]
    fn key_begins_with_its_type() {
        assert!(is_key_of("ssh-ed25519", KEY));
        for key in ["", "AAAA", "AAAAC3NzaC1lZDI1NTE5", &KEY[1..], &format!("{KEY} x"), "AAAA\n"] {
            assert!(!is_key_of("ssh-ed25519", key), "{key}");
        }
        assert!(!is_key_of("ssh-rsa", KEY));
    }

    #[test]
    fn option_has_blanks_only_in_quotes() {
        for option in ["no-pty", "from=\"10.0.0.*, x\"", "command=\"echo \\\"a b\\\"\"", "x=\"\""] {
            assert!(is_option(option), "{option}");
        }
        for option in ["", "no pty", "a,b", "command=\"x", "a=\"\\\"", "a\nb", "#a", "a=\"\u{7}\""] {
            assert!(!is_option(option), "{option}");
        }
    }
}
