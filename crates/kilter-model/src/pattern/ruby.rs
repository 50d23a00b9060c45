//! Translates Ruby's dialect of regular expressions to that of the library.

/// A grapheme cluster: a letter with its marks, a flag, an emoji sequence. Follows Unicode Standard Annex 29,
/// without the rules for Indic conjuncts and Hangul, whose syllables are mostly a single code point. The group
/// is atomic: a cluster never matches in part.
const GRAPHEME_CLUSTER: &str = concat!(
    r"(?>\r\n|\p{Regional_Indicator}{2}|(?s:.)",
    r"(?:[\p{M}\p{Emoji_Modifier}\x{200c}]|\x{200d}\p{Extended_Pictographic}?)*)"
);

/// Translates the expression. The dialects differ in these points:
///
/// - `(?m)` lets `.` match line breaks, which is `(?s)` in the library;
/// - `\d`, `\w`, `\s` and their opposites match ASCII only;
/// - `\Z` in the library matches before several line breaks, in Ruby before a single one;
/// - `[[:alpha:]]` and similar classes match letters of every script;
/// - `\X` is a grapheme cluster;
/// - `\101` is an octal number, unless it refers to a group.
pub(super) fn rewritten(source: &str) -> String {
    let groups = groups(source);
    let mut text = String::with_capacity(source.len() + 16);
    let mut class = 0_u32;
    let mut rest = source;
    while let Some(c) = rest.chars().next() {
        let taken = match c {
            '\\' => escape(rest, class > 0, groups, &mut text),
            '[' if rest.starts_with("[:") && class > 0 => {
                let end = rest.find(":]").map_or(1, |end| end + 2);
                text.push_str(named_class(&rest[..end]));
                end
            }
            '[' => {
                class += 1;
                text.push('[');
                1
            }
            ']' => {
                class = class.saturating_sub(1);
                text.push(']');
                1
            }
            '(' if class == 0 => flags(rest, &mut text),
            other => {
                text.push(other);
                other.len_utf8()
            }
        };
        rest = &rest[taken..];
    }
    text
}

/// Returns the class for a name in brackets. Unlike `\\w`, it is not limited to ASCII.
fn named_class(name: &str) -> &str {
    match name {
        "[:alpha:]" => r"\p{Alphabetic}",
        "[:digit:]" => r"\p{Nd}",
        "[:alnum:]" => r"\p{Alphabetic}\p{Nd}",
        "[:upper:]" => r"\p{Uppercase}",
        "[:lower:]" => r"\p{Lowercase}",
        "[:space:]" => r"\p{White_Space}",
        "[:blank:]" => r"\p{Zs}\t",
        "[:word:]" => r"\p{Alphabetic}\p{M}\p{Nd}\p{Pc}",
        "[:cntrl:]" => r"\p{Cc}",
        "[:^alpha:]" => r"\P{Alphabetic}",
        "[:^digit:]" => r"\P{Nd}",
        "[:^upper:]" => r"\P{Uppercase}",
        "[:^lower:]" => r"\P{Lowercase}",
        "[:^space:]" => r"\P{White_Space}",
        "[:^cntrl:]" => r"\P{Cc}",
        other => other,
    }
}

/// Returns the number of groups that can be referred to by number.
fn groups(source: &str) -> usize {
    let bytes = source.as_bytes();
    let named = source.contains("(?<") || source.contains("(?'");
    let opens = (0..bytes.len()).filter(|&at| {
        bytes[at] == b'(' && (at == 0 || bytes[at - 1] != b'\\') && (named || bytes.get(at + 1) != Some(&b'?'))
    });
    opens.count()
}

/// Translates an escape. Returns its length in bytes.
fn escape(rest: &str, in_class: bool, groups: usize, text: &mut String) -> usize {
    let Some(c) = rest[1..].chars().next() else {
        text.push('\\');
        return 1;
    };
    let ascii = match (c, in_class) {
        ('d', false) => "[0-9]",
        ('D', false) => "[^0-9]",
        ('w', false) => "[0-9A-Za-z_]",
        ('W', false) => "[^0-9A-Za-z_]",
        ('s', false) => r"[ \t\r\n\x0c\x0b]",
        ('S', false) => r"[^ \t\r\n\x0c\x0b]",
        ('h', false) => "[0-9a-fA-F]",
        ('H', false) => "[^0-9a-fA-F]",
        ('Z', false) => r"(?=\n?\z)",
        ('d', true) => "0-9",
        ('w', true) => "0-9A-Za-z_",
        ('s', true) => r" \t\r\n\x0c\x0b",
        ('h', true) => "0-9a-fA-F",
        ('D', true) => "[^0-9]",
        ('W', true) => "[^0-9A-Za-z_]",
        ('S', true) => r"[^ \t\r\n\x0c\x0b]",
        ('H', true) => "[^0-9a-fA-F]",
        ('X', false) => GRAPHEME_CLUSTER,
        ('X', true) => "X",
        ('0'..='7', _) => return octal(rest, in_class, groups, text),
        _ => {
            text.push('\\');
            text.push(c);
            return 1 + c.len_utf8();
        }
    };
    text.push_str(ascii);
    2
}

/// Translates `\101`: an octal character code or a group number.
fn octal(rest: &str, in_class: bool, groups: usize, text: &mut String) -> usize {
    let digits: &str = {
        let end = rest[1..].find(|c: char| !matches!(c, '0'..='7')).unwrap_or(rest.len() - 1);
        &rest[1..=end.min(3)]
    };
    let is_group = !in_class && !digits.starts_with('0') && digits.parse().is_ok_and(|number: usize| number <= groups);
    match u8::from_str_radix(digits, 8) {
        Ok(code) if !is_group && (digits.starts_with('0') || digits.len() > 1 || in_class) => {
            text.push_str(&format!("\\x{code:02x}"));
        }
        _ => {
            text.push('\\');
            text.push_str(digits);
        }
    }
    1 + digits.len()
}

/// Translates the start of a group with its flags.
fn flags(rest: &str, text: &mut String) -> usize {
    let Some(inner) = rest.strip_prefix("(?") else {
        text.push('(');
        return 1;
    };
    let end = inner.find(|c: char| !matches!(c, 'i' | 'm' | 'x' | '-')).unwrap_or(inner.len());
    if end == 0 || !inner[end..].starts_with([':', ')']) {
        text.push_str("(?");
        return 2;
    }
    text.push_str("(?");
    text.push_str(&inner[..end].replace('m', "s"));
    2 + end
}
