//! Quotes words for a shell.

/// Quotes a word for bash: unchanged, in quotes, or with escapes for characters that cannot be typed.
pub fn shell_quoted(word: &[u8]) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-./:,+@%^=".contains(byte);
    match std::str::from_utf8(word) {
        Ok(text) if !text.is_empty() && word.iter().all(is_plain) => text.to_owned(),
        Ok(text) if !text.chars().any(needs_escape) => format!("'{}'", text.replace('\'', "'\\''")),
        _ => format!("$'{}'", escaped(word)),
    }
}

/// Returns true if a character cannot be typed or is invisible.
pub(super) fn needs_escape(c: char) -> bool {
    let is_hidden =
        matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}');
    c.is_control() || is_hidden
}

fn escaped(word: &[u8]) -> String {
    let mut text = String::new();
    for chunk in word.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\n' => text += "\\n",
                '\t' => text += "\\t",
                '\r' => text += "\\r",
                '\'' => text += "\\'",
                '\\' => text += "\\\\",
                c if needs_escape(c) => {
                    let mut buffer = [0; 4];
                    c.encode_utf8(&mut buffer).bytes().for_each(|byte| text += &format!("\\{byte:03o}"));
                }
                c => text.push(c),
            }
        }
        chunk.invalid().iter().for_each(|byte| text += &format!("\\{byte:03o}"));
    }
    text
}
