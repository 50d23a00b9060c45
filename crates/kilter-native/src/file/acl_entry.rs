//! Texts of entries of access control lists, as the attribute `acl` declares and shows them.

use ecow::{EcoString, eco_format};
use kilter_model::Value;
use kilter_process::acl::{AclEntry, GROUP, GROUP_OBJ, MASK, NO_ID, OTHER, USER, USER_OBJ};

use super::error::FileError;
use crate::accounts::Ids;
use crate::value_text::texts;

/// A declared entry: `user:NAME:rwx` or `group:NAME:rwx`, with the prefix `default:` for new files in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeclaredEntry {
    pub(super) is_default: bool,
    tag: u16,
    /// The user or group; empty for unnamed entries.
    pub(super) name: EcoString,
    pub(super) permissions: u32,
}

impl DeclaredEntry {
    /// Parses an entry; returns none for other texts.
    pub(super) fn parse(text: &str) -> Option<DeclaredEntry> {
        let (is_default, rest) = match text.split_once(':')? {
            ("default" | "d", rest) => (true, rest),
            _ => (false, text),
        };
        let (word, rest) = rest.split_once(':')?;
        let (name, permissions) = rest.rsplit_once(':')?;
        let is_named = !name.is_empty();
        let tag = match (word, is_named) {
            ("user" | "u", true) => USER,
            ("group" | "g", true) => GROUP,
            ("user" | "u", false) if is_default => USER_OBJ,
            ("group" | "g", false) if is_default => GROUP_OBJ,
            ("mask" | "m", false) => MASK,
            ("other" | "o", false) if is_default => OTHER,
            _ => return None,
        };
        if name.contains([':', '\0', '\n']) {
            return None;
        }
        Some(DeclaredEntry { is_default, tag, name: name.into(), permissions: permission_bits(permissions)? })
    }

    /// Returns true for the mask of the access list.
    pub(super) fn is_mask(&self) -> bool {
        self.tag == MASK && !self.is_default
    }

    /// Returns true for an entry of the access list that names a user or a group.
    pub(super) fn names_access(&self) -> bool {
        !self.is_default && !self.name.is_empty()
    }

    /// Returns true if the entry is for a user.
    pub(super) fn is_user(&self) -> bool {
        self.tag == USER
    }

    /// Returns the canonical text.
    pub(super) fn text(&self) -> EcoString {
        let word = match self.tag {
            USER | USER_OBJ => "user",
            GROUP | GROUP_OBJ => "group",
            MASK => "mask",
            _ => "other",
        };
        let default = if self.is_default { "default:" } else { "" };
        eco_format!("{default}{word}:{}:{}", self.name, letters(self.permissions))
    }

    /// Returns the entry with the number of its account.
    ///
    /// # Errors
    /// If there is no such user or group.
    pub(super) fn resolve(&self, accounts: &Ids) -> Result<AclEntry, FileError> {
        let missing = |kind| FileError::NoAccount { kind, name: self.name.to_string() };
        let id = match self.tag {
            USER => accounts.uid(&self.name).ok_or_else(|| missing("user"))?,
            GROUP => accounts.gid(&self.name).ok_or_else(|| missing("group"))?,
            _ => NO_ID,
        };
        Ok(AclEntry { tag: self.tag, id, permissions: self.permissions })
    }
}

fn permission_bits(text: &str) -> Option<u32> {
    if let [digit @ b'0'..=b'7'] = text.as_bytes() {
        return Some(u32::from(digit - b'0'));
    }
    let bit = |letter| match letter {
        'r' => Some(4),
        'w' => Some(2),
        'x' => Some(1),
        '-' => Some(0),
        _ => None,
    };
    if text.is_empty() || text.len() > 3 {
        return None;
    }
    text.chars().try_fold(0, |bits, letter| Some(bits | bit(letter)?))
}

/// Returns permissions as `rwx`.
pub(super) fn letters(permissions: u32) -> EcoString {
    let letter = |(bit, letter)| if permissions & bit != 0 { letter } else { '-' };
    [(4, 'r'), (2, 'w'), (1, 'x')].into_iter().map(letter).collect()
}

/// Returns the entries of `acl: { managed: … }`.
pub(super) fn managed(acl: &Value) -> Vec<EcoString> {
    texts(acl.as_hash().and_then(|acl| acl.get("managed")))
}

/// Returns the entries that can be declared. The mode contains the others.
pub(super) fn declarable(mut entries: Vec<EcoString>) -> Vec<EcoString> {
    let parse = DeclaredEntry::parse;
    let is_access = |entry: &EcoString| parse(entry).is_some_and(|entry| entry.names_access());
    let names_anybody = entries.iter().any(is_access);
    entries.retain(|entry| parse(entry).is_some_and(|entry| !entry.is_mask() || names_anybody));
    entries
}

/// Returns the value of the attribute `acl` with these entries.
pub(super) fn value_of(entries: &[EcoString]) -> Value {
    match entries {
        [] => "none".into(),
        entries => Value::hash([("managed", Value::strings(entries.iter().cloned()))]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_as_setfacl_reads_them() {
        let canonical = |text: &str| DeclaredEntry::parse(text).map(|entry| entry.text().to_string());
        for (text, expected) in [
            ("u:eve:r", "user:eve:r--"),
            ("group:adm:rx", "group:adm:r-x"),
            ("d:u:1000:6", "default:user:1000:rw-"),
            ("default:group::r-x", "default:group::r-x"),
            ("d:o::0", "default:other::---"),
            ("m::rw", "mask::rw-"),
        ] {
            assert_eq!(canonical(text).as_deref(), Some(expected), "{text}");
        }
        for bad in
            ["eve:r", "user::rwx", "user:eve", "user:eve:rwq", "user:eve:", "mask:x:rwx", "x:eve:r", "user:eve:rwxr"]
        {
            assert_eq!(canonical(bad), None, "{bad}");
        }
    }
}
