//! Characters of foreign texts that must not reach a terminal unchanged.

use std::borrow::Cow;

/// Returns true for characters that control a terminal or deceive a reader: control characters, and marks that
/// change the direction of writing.
pub(crate) fn is_steering(c: char) -> bool {
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || turns
}

/// Escapes such characters beyond ASCII, for example as `\\u0085`: a valid escape in JSON, and visible to people.
///
/// ASCII control characters stay, because they are the line ends and styles of kilter's own texts. Foreign texts
/// lose them earlier.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    let is_meant = |c: char| c >= '\u{7f}' && is_steering(c);
    if text.bytes().all(|byte| byte < 0x7f) || !text.contains(is_meant) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match is_meant(c) {
            true => out += &format!("\\u{:04x}", u32::from(c)),
            false => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Escapes control characters and marks of writing direction, so that content cannot control a terminal or deceive
/// its reader.
pub(crate) fn visible(line: &str) -> String {
    if line.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t')) {
        return line.to_owned();
    }
    let harmful = |c: char| is_steering(c) && c != '\t';
    if !line.contains(harmful) {
        return line.to_owned();
    }
    line.chars().map(|c| if harmful(c) { c.escape_default().to_string() } else { c.to_string() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_round_trip_through_json() {
        let text = "a\u{9b}2J\u{85}\u{202e}\u{2066}\u{61c}\u{7f}é";
        let json = serde_json::Value::from(text).to_string();
        let shown = escaped(&json);
        assert_eq!(shown, "\"a\\u009b2J\\u0085\\u202e\\u2066\\u061c\\u007fé\"");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), text);
        assert!(matches!(escaped("plain é\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn content_cannot_steer_the_terminal() {
        assert_eq!(visible("a\u{1b}[2Jb\tc"), "a\\u{1b}[2Jb\tc");
    }
}
