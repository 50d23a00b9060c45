//! Parts of keys as names of files.

use ecow::EcoString;

/// A name has at most so many bytes; what is longer goes on in a directory of that name.
const LONGEST: usize = 200;

/// What follows a name that goes on.
const GOES_ON: char = '+';

/// A part as names, one in the other: what is harmless stands for itself, everything else as `%XX`.
pub(crate) fn names(part: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    for (at, byte) in part.bytes().enumerate() {
        let last = names.last_mut().expect("there is one to begin with");
        if last.len() >= LONGEST {
            last.push(GOES_ON);
            names.push(String::new());
        }
        let last = names.last_mut().expect("there is one to begin with");
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' | b'*' => last.push(char::from(byte)),
            // What begins with a dot is somebody's who writes.
            b'.' if at > 0 && !last.is_empty() => last.push('.'),
            byte => last.push_str(&format!("%{byte:02x}")),
        }
    }
    names
}

/// The part of a key that a name is, or begins; none where it is the name of something else. The second says whether it goes on.
pub(crate) fn part(name: &str) -> Option<(Vec<u8>, bool)> {
    let (escaped, goes_on) = match name.strip_suffix(GOES_ON) {
        Some(escaped) => (escaped, true),
        None => (name, false),
    };
    if escaped.starts_with('.') || escaped.is_empty() {
        return None;
    }
    let mut bytes = Vec::with_capacity(escaped.len());
    let mut rest = escaped.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = rest.get(..2).and_then(|digits| std::str::from_utf8(digits).ok())?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
    }
    Some((bytes, goes_on))
}

/// A part that was put together of its names.
fn text(bytes: Vec<u8>) -> Option<EcoString> {
    String::from_utf8(bytes).ok().map(EcoString::from)
}

/// How far a key is known.
#[derive(Clone, Default)]
pub(crate) struct Begun {
    parts: Vec<EcoString>,
    /// The beginning of a part that goes on.
    begun: Vec<u8>,
    depth: usize,
}

impl Begun {
    /// The same with what one name more says.
    pub(crate) fn and(&self, (bytes, goes_on): (Vec<u8>, bool)) -> Option<Begun> {
        let (mut parts, mut begun) = (self.parts.clone(), self.begun.clone());
        begun.extend(bytes);
        if !goes_on {
            parts.push(text(std::mem::take(&mut begun))?);
        }
        Some(Begun { parts, begun, depth: self.depth + 1 })
    }

    /// How many names there were.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// The parts that are whole.
    pub(crate) fn known(self) -> Vec<EcoString> {
        self.parts
    }

    /// The parts, if none is left to go on.
    pub(crate) fn finished(self) -> Option<Vec<EcoString>> {
        self.begun.is_empty().then_some(self.parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_found_again_from_its_names_whatever_is_in_it() {
        let long = "ü/".repeat(500);
        for whole in ["a", "*", "/etc/motd", "..", ".new", "a+", "100%", "Grüße\n", &long] {
            let names = names(whole);
            assert!(
                names.iter().all(|name| name.len() <= LONGEST + 4 && !name.contains('/') && !name.starts_with('.'))
            );
            let mut bytes = Vec::new();
            for (at, name) in names.iter().enumerate() {
                let (more, goes_on) = part(name).unwrap();
                assert_eq!(goes_on, at + 1 < names.len(), "{name}");
                bytes.extend(more);
            }
            assert_eq!(text(bytes).as_deref(), Some(whole));
        }
        assert_eq!((part(".new-1"), part(""), part("%zz"), part("%4")), (None, None, None, None));
    }
}
