//! Files of settings in shell notation, such as `/etc/machine-info` and `/etc/default/locale` (`NAME="value"`).

use ecow::EcoString;

/// Returns the value of a setting. The last line with the name counts, as in a shell.
pub(crate) fn get(bytes: &[u8], name: &str) -> Option<EcoString> {
    let lines = bytes.split(|byte| *byte == b'\n');
    lines.filter_map(|line| value_of(line, name)).next_back().map(|value| unquoted(&value))
}

/// Returns the file with another value of a setting, or without the setting. Other lines stay byte for byte.
pub(crate) fn with(bytes: &[u8], name: &str, value: Option<&str>) -> Vec<u8> {
    let mut lines: Vec<Vec<u8>> = bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    let last = lines.iter().rposition(|line| value_of(line, name).is_some());
    let new = value.map(|value| format!("{name}={}\n", quoted(value)).into_bytes());
    match (last, new) {
        (Some(last), Some(new)) => lines[last] = new,
        (None, Some(new)) => {
            if let Some(end) = lines.last_mut().filter(|line| !line.ends_with(b"\n")) {
                end.push(b'\n');
            }
            lines.push(new);
        }
        (_, None) => lines.retain(|line| value_of(line, name).is_none()),
    }
    lines.concat()
}

/// Returns the text after `NAME=` of a line.
fn value_of(line: &[u8], name: &str) -> Option<String> {
    let line = String::from_utf8_lossy(line);
    let line = line.trim();
    let line = line.strip_prefix("export ").unwrap_or(line).trim_start();
    line.strip_prefix(name)?.strip_prefix('=').map(str::to_owned)
}

fn unquoted(text: &str) -> EcoString {
    let text = text.trim_end();
    if let Some(inner) = text.strip_prefix('\'') {
        return inner.strip_suffix('\'').unwrap_or(inner).into();
    }
    let text = text.strip_prefix('"').map_or(text, |inner| inner.strip_suffix('"').unwrap_or(inner));
    let mut value = EcoString::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        value.push(if letter == '\\' { letters.next().unwrap_or('\\') } else { letter });
    }
    value
}

fn quoted(value: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-@:/+,".contains(letter);
    if !value.is_empty() && value.chars().all(is_plain) {
        return value.to_owned();
    }
    let mut text = String::from('"');
    for letter in value.chars() {
        if "\"\\$`".contains(letter) {
            text.push('\\');
        }
        text.push(letter);
    }
    text + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_read_as_they_were_written() {
        for value in ["", "plain", "two words", r#"a "quoted" \ $HOME `x` 'y'"#, "Grüße #1"] {
            let file = with(b"A=1\n", "NAME", Some(value));
            assert_eq!(get(&file, "NAME").as_deref(), Some(value));
            assert_eq!(with(&file, "NAME", None), b"A=1\n");
        }
        assert_eq!(get(b"export LANG='C'\n", "LANG").as_deref(), Some("C"));
    }

    #[test]
    fn last_line_counts_and_others_stay() {
        let file = b"# LANG=x\nLANG=a\n\xff\nLANGUAGE=z\nLANG=b\nlast";
        assert_eq!(get(file, "LANG").as_deref(), Some("b"));
        assert_eq!(with(file, "LANG", Some("c")), b"# LANG=x\nLANG=a\n\xff\nLANGUAGE=z\nLANG=c\nlast");
        assert_eq!(with(file, "LANG", None), b"# LANG=x\n\xff\nLANGUAGE=z\nlast");
        assert_eq!(with(b"last", "LANG", Some("c")), b"last\nLANG=c\n");
        assert_eq!(get(file, "LC_ALL"), None);
    }
}
