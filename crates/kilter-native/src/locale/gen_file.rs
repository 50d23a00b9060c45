//! The file `/etc/locale.gen`, and lists in the same format: `NAME CHARSET` lines.

use ecow::EcoString;

/// A locale and its character set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LocaleEntry {
    pub(super) name: EcoString,
    pub(super) charset: EcoString,
}

fn entry(line: &str) -> Option<LocaleEntry> {
    let mut words = line.split_ascii_whitespace();
    let (name, charset) = (words.next()?, words.next()?);
    let is_entry = !name.starts_with('#') && words.next().is_none_or(|word| word.starts_with('#'));
    is_entry.then(|| LocaleEntry { name: name.into(), charset: charset.into() })
}

/// Returns the entries of a file.
pub(super) fn entries(bytes: &[u8]) -> Vec<LocaleEntry> {
    String::from_utf8_lossy(bytes).lines().filter_map(entry).collect()
}

/// Returns the file with these entries, and without those of the unwanted names. An entry that is a comment loses its
/// `#`; an unwanted entry becomes a comment. All other lines stay byte for byte.
pub(super) fn with(bytes: &[u8], wanted: &[LocaleEntry], unwanted: &[&str]) -> Vec<u8> {
    let mut there: Vec<LocaleEntry> = entries(bytes);
    let mut new = Vec::with_capacity(bytes.len());
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let text = String::from_utf8_lossy(line);
        match entry(&text) {
            Some(entry) if unwanted.contains(&entry.name.as_str()) => {
                new.extend_from_slice(b"# ");
                new.extend_from_slice(line);
            }
            Some(_) => new.extend_from_slice(line),
            None => match text.strip_prefix('#').and_then(entry) {
                Some(entry) if wanted.contains(&entry) && !there.iter().any(|one| one.name == entry.name) => {
                    new.extend_from_slice(text[1..].trim_start().as_bytes());
                    there.push(entry);
                }
                _ => new.extend_from_slice(line),
            },
        }
    }
    for entry in wanted {
        if !there.iter().any(|one| one.name == entry.name) {
            if !new.is_empty() && !new.ends_with(b"\n") {
                new.push(b'\n');
            }
            new.extend_from_slice(format!("{} {}\n", entry.name, entry.charset).as_bytes());
            there.push(entry.clone());
        }
    }
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &[u8] = b"# This file lists locales that you wish\n\n# de_DE.UTF-8 UTF-8\n#fr_FR ISO-8859-1\n\
                        en_US.UTF-8 UTF-8\n\xff\n# aa_ER UTF-8";

    fn entry_of(name: &str, charset: &str) -> LocaleEntry {
        LocaleEntry { name: name.into(), charset: charset.into() }
    }

    #[test]
    fn comments_become_entries_and_entries_comments() {
        assert_eq!(entries(FILE), [entry_of("en_US.UTF-8", "UTF-8")]);
        let wanted = [entry_of("de_DE.UTF-8", "UTF-8"), entry_of("en_US.UTF-8", "UTF-8"), entry_of("xx_YY", "UTF-8")];
        let new = with(FILE, &wanted, &[]);
        let expected = b"# This file lists locales that you wish\n\nde_DE.UTF-8 UTF-8\n#fr_FR ISO-8859-1\n\
                        en_US.UTF-8 UTF-8\n\xff\n# aa_ER UTF-8\nxx_YY UTF-8\n";
        assert_eq!(new, expected);
        assert_eq!(with(&new, &wanted, &[]), expected, "nothing is left to do");
        let without = with(&new, &[], &["de_DE.UTF-8", "xx_YY"]);
        assert_eq!(entries(&without), [entry_of("en_US.UTF-8", "UTF-8")]);
        assert!(without.starts_with(b"# This file lists locales that you wish\n\n# de_DE.UTF-8 UTF-8\n#fr_FR"));
    }

    #[test]
    fn repeated_comment_becomes_one_entry() {
        let file = b"# a UTF-8\n# a UTF-8\n";
        assert_eq!(with(file, &[entry_of("a", "UTF-8")], &[]), b"a UTF-8\n# a UTF-8\n");
    }
}
