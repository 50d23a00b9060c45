//! Files of apt in deb822 format with one stanza (sources.list(5)), edited line by line.

use ecow::{EcoString, eco_format};

/// A file with at most one stanza.
#[derive(Debug, Default)]
pub(super) struct Stanza<'a> {
    lines: Vec<(StanzaLine, &'a str)>,
    fields: Vec<&'a str>,
}

/// Meaning of a line. A number is the index of the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StanzaLine {
    Blank,
    Comment,
    First(usize),
    Continuation(usize),
}

/// A new value of a field: one line, several lines, or none to remove the field.
pub(super) type Edit<'e> = (&'e str, Option<EcoString>);

impl<'a> Stanza<'a> {
    /// Parses a file.
    ///
    /// # Errors
    /// If it is not in deb822 format, or has several stanzas.
    pub(super) fn parse(text: &'a str) -> Result<Stanza<'a>, EcoString> {
        let mut stanza = Stanza::default();
        let mut is_closed = false;
        for (line, number) in text.lines().zip(1..) {
            let kind = match line.as_bytes().first() {
                Some(b'#') => StanzaLine::Comment,
                _ if line.trim().is_empty() => StanzaLine::Blank,
                Some(b' ' | b'\t') => match stanza.fields.len().checked_sub(1).filter(|_| !is_closed) {
                    Some(field) => StanzaLine::Continuation(field),
                    None => return Err(eco_format!("line {number} continues no field")),
                },
                _ => StanzaLine::First(stanza.add(line, number, is_closed)?),
            };
            is_closed |= kind == StanzaLine::Blank && !stanza.fields.is_empty();
            stanza.lines.push((kind, line));
        }
        Ok(stanza)
    }

    fn add(&mut self, line: &'a str, number: usize, is_closed: bool) -> Result<usize, EcoString> {
        if line.starts_with("deb ") || line.starts_with("deb-src ") || line.starts_with("deb\t") {
            return Err(eco_format!(
                "line {number} has the one-line format, which belongs in a file with the extension .list"
            ));
        }
        let name = line.split_once(':').map(|(name, _)| name).filter(|name| is_field(name));
        let name = name.ok_or_else(|| eco_format!("line {number} is no field `Name: value`"))?;
        if is_closed {
            return Err(eco_format!(
                "line {number} begins a second stanza: kilter manages files with one; declare a resource for each"
            ));
        }
        if self.index(name).is_some() {
            return Err(eco_format!("line {number} has the field {name} a second time"));
        }
        self.fields.push(name);
        Ok(self.fields.len() - 1)
    }

    fn index(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|field| field.eq_ignore_ascii_case(name))
    }

    /// Returns the names of all fields.
    pub(super) fn fields(&self) -> &[&'a str] {
        &self.fields
    }

    /// Returns the value of a field: its lines without indentation. A line with a dot is empty.
    pub(super) fn value(&self, name: &str) -> Option<String> {
        let index = self.index(name)?;
        let part = |(kind, line): &(StanzaLine, &'a str)| match kind {
            StanzaLine::First(at) if *at == index => Some(line[self.fields[index].len() + 1..].trim()),
            StanzaLine::Continuation(at) if *at == index => Some(line.trim()),
            _ => None,
        };
        let lines = self.lines.iter().filter_map(part).map(|line| if line == "." { "" } else { line });
        Some(lines.collect::<Vec<_>>().join("\n").trim().to_owned())
    }

    /// Returns the comment before the first field; none if there is none.
    pub(super) fn comment(&self) -> Option<String> {
        let lines = self.leading().iter().filter(|(kind, _)| *kind == StanzaLine::Comment);
        let lines: Vec<&str> = lines.map(|(_, line)| line[1..].trim()).collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }

    /// Returns the lines before the first field.
    fn leading(&self) -> &[(StanzaLine, &'a str)] {
        let end = self.lines.iter().position(|(kind, _)| matches!(kind, StanzaLine::First(_)));
        &self.lines[..end.unwrap_or(self.lines.len())]
    }

    /// Returns the file with other values of some fields, and with another comment if there is one. All other lines
    /// stay as they are.
    pub(super) fn edited(&self, edits: &[Edit<'_>], comment: Option<&str>) -> String {
        let mut text = String::new();
        for line in comment.into_iter().flat_map(str::lines) {
            text.extend([if line.is_empty() { "#" } else { "# " }, line, "\n"]);
        }
        let kept = if comment.is_some() { self.leading().len() } else { 0 };
        let edit_of = |index: usize| edits.iter().find(|(name, _)| name.eq_ignore_ascii_case(self.fields[index]));
        let last =
            self.lines.iter().rposition(|(kind, _)| matches!(kind, StanzaLine::First(_) | StanzaLine::Continuation(_)));
        for (at, (kind, line)) in self.lines.iter().enumerate().skip(kept) {
            match kind {
                StanzaLine::First(index) | StanzaLine::Continuation(index) if edit_of(*index).is_some() => {
                    if let (StanzaLine::First(_), Some((_, Some(value)))) = (kind, edit_of(*index)) {
                        field(&mut text, self.fields[*index], value);
                    }
                }
                _ => {
                    text.extend([*line, "\n"]);
                }
            }
            if Some(at) == last {
                self.append(&mut text, edits);
            }
        }
        if last.is_none() {
            self.append(&mut text, edits);
        }
        text
    }

    /// Adds the edited fields that the file does not have.
    fn append(&self, text: &mut String, edits: &[Edit<'_>]) {
        for (name, value) in edits {
            if let Some(value) = value.as_ref().filter(|_| self.index(name).is_none()) {
                field(text, name, value);
            }
        }
    }
}

/// Returns true for the name of a field (deb822(5)).
pub(super) fn is_field(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(['-', '#'])
        && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':')
}

/// Writes a field. Several lines follow its name, because an armored key begins on a line of its own.
fn field(text: &mut String, name: &str, value: &str) {
    text.push_str(name);
    text.push(':');
    if !value.contains('\n') {
        text.extend([" ", value, "\n"]);
        return;
    }
    text.push('\n');
    for line in value.lines() {
        text.extend([" ", if line.is_empty() { "." } else { line }, "\n"]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
# Packages of the vendor.
#
# Do not edit.

Types: deb
URIs: https://vendor.example/debian
# Tracked by hand.
 https://mirror.example/debian
suites: stable
X-Repolib-Name: Vendor
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 AAAA
 -----END PGP PUBLIC KEY BLOCK-----

# The end.
";

    #[test]
    fn fields_and_comment_are_read() {
        let stanza = Stanza::parse(FILE).unwrap();
        assert_eq!(stanza.comment().as_deref(), Some("Packages of the vendor.\n\nDo not edit."));
        assert_eq!(stanza.fields(), ["Types", "URIs", "suites", "X-Repolib-Name", "Signed-By"]);
        let uris = "https://vendor.example/debian\nhttps://mirror.example/debian";
        assert_eq!(stanza.value("uris").as_deref(), Some(uris));
        let key = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nAAAA\n-----END PGP PUBLIC KEY BLOCK-----";
        assert_eq!(stanza.value("Signed-By").as_deref(), Some(key));
        assert_eq!(stanza.value("Components"), None);
    }

    #[test]
    fn edits_keep_all_other_lines() {
        let stanza = Stanza::parse(FILE).unwrap();
        assert_eq!(stanza.edited(&[], None), FILE);
        let edits: [Edit<'_>; 4] = [
            ("URIs", Some("https://new.example".into())),
            ("Components", Some("main".into())),
            ("Signed-By", Some("a\n\nb".into())),
            ("X-Repolib-Name", None),
        ];
        let expected = "\
# One
#
# two

Types: deb
URIs: https://new.example
# Tracked by hand.
suites: stable
Signed-By:
 a
 .
 b
Components: main

# The end.
";
        assert_eq!(stanza.edited(&edits, Some("One\n\ntwo")), expected.replacen("two\n\n", "two\n", 1));
        let new = Stanza::parse("").unwrap().edited(&edits[..2], Some("New"));
        assert_eq!(new, "# New\nURIs: https://new.example\nComponents: main\n");
    }

    #[test]
    fn other_formats_are_refused_with_their_line() {
        for (text, reason) in [
            (
                "# x\ndeb http://a b c\n",
                "line 2 has the one-line format, which belongs in a file with the extension .list",
            ),
            (
                "Types: deb\n\nTypes: deb-src\n",
                "line 3 begins a second stanza: kilter manages files with one; declare a resource for each",
            ),
            ("Types: deb\ntypes: deb\n", "line 2 has the field types a second time"),
            ("nonsense\n", "line 1 is no field `Name: value`"),
            (" more\n", "line 1 continues no field"),
            ("Types: deb\n\n more\n", "line 3 continues no field"),
        ] {
            assert_eq!(Stanza::parse(text).unwrap_err(), reason);
        }
    }
}
