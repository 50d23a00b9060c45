//! Escapes for texts in HTML and XML.

use crate::visible::is_steering;

/// Returns a text for the content of an element or a quoted attribute. Characters that XML forbids, and those that
/// could deceive a reader, are shown as `\u{…}`.
pub(crate) fn markup(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            '\n' | '\t' => out.push(c),
            '\u{fffe}' | '\u{ffff}' => out.extend(c.escape_unicode()),
            c if is_steering(c) => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_and_forbidden_characters_are_escaped() {
        assert_eq!(markup("<a b=\"c\">'&'\n\té"), "&lt;a b=&quot;c&quot;&gt;&#39;&amp;&#39;\n\té");
        assert_eq!(markup("a\u{0}\u{1b}]\u{ffff}\u{202e}\r"), "a\\u{0}\\u{1b}]\\u{ffff}\\u{202e}\\r");
    }
}
