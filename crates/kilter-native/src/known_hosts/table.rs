//! Lines of a known_hosts file (sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT").

use ecow::{EcoString, eco_format};
use kilter_model::from_base64;
use sha1::{Digest, Sha1};

use crate::line_table::{LineEntry, LineTable};
use crate::ssh_key::key_line::KeyLine;

pub(super) type KnownHosts = LineTable<HostKey>;

/// A key of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct HostKey {
    /// Host and type, as in a name of a resource: `db.example.org@ssh-ed25519`.
    id: EcoString,
    pub(super) host: EcoString,
    pub(super) aliases: Vec<EcoString>,
    pub(super) kind: EcoString,
    pub(super) key: EcoString,
    comment: EcoString,
}

/// Returns the name of the entry of a host and a type.
pub(super) fn id(host: &str, kind: &str) -> EcoString {
    eco_format!("{host}@{kind}")
}

impl HostKey {
    pub(super) fn new(host: &str, kind: &str) -> HostKey {
        HostKey { id: id(host, kind), host: host.into(), kind: kind.into(), ..HostKey::default() }
    }

    /// Returns true if the line is about this host, in clear or hashed.
    pub(super) fn is_of(&self, host: &str) -> bool {
        self.host == host || self.is_hashed() && is_hash_of(&self.host, host).unwrap_or(false)
    }

    /// Returns true if the line has the hash of a name.
    pub(super) fn is_hashed(&self) -> bool {
        self.host.starts_with('|')
    }
}

/// Returns true if `|1|SALT|HASH` is the hash of a name: HMAC-SHA1 of the name with the salt as the key (RFC 2104).
fn is_hash_of(hashed: &str, host: &str) -> Option<bool> {
    const BLOCK_BYTES: usize = 64;
    let (salt, hash) = hashed.strip_prefix("|1|")?.split_once('|')?;
    let (salt, hash) = (from_base64(salt)?, from_base64(hash)?);
    if salt.len() > BLOCK_BYTES {
        return None;
    }
    let pad = |with: u8| -> Vec<u8> { (0..BLOCK_BYTES).map(|at| salt.get(at).copied().unwrap_or(0) ^ with).collect() };
    let inner = Sha1::new().chain_update(pad(0x36)).chain_update(host.to_ascii_lowercase()).finalize();
    let outer = Sha1::new().chain_update(pad(0x5c)).chain_update(inner).finalize();
    Some(outer[..] == hash[..])
}

impl LineEntry for HostKey {
    /// Parses `host,alias type key comment`. Lines with a marker are not managed.
    fn parse(line: &[u8]) -> Option<HostKey> {
        let line = std::str::from_utf8(line).ok()?.trim_ascii();
        if line.starts_with(['#', '@']) {
            return None;
        }
        let (hosts, rest) = line.split_once([' ', '\t'])?;
        let key = KeyLine::without_options(rest.trim_start_matches([' ', '\t']))?;
        let mut hosts = hosts.split(',').filter(|host| !host.is_empty()).map(EcoString::from);
        let host = hosts.next()?;
        Some(HostKey {
            id: id(&host, &key.kind),
            host,
            aliases: hosts.collect(),
            kind: key.kind,
            key: key.key,
            comment: key.comment,
        })
    }

    fn line(&self) -> String {
        let hosts = std::iter::once(&self.host).chain(&self.aliases).map(EcoString::as_str).collect::<Vec<_>>();
        let mut line = format!("{} {} {}", hosts.join(","), self.kind, self.key);
        if !self.comment.is_empty() {
            line.push(' ');
            line.push_str(&self.comment);
        }
        line.push('\n');
        line
    }

    fn name(&self) -> &EcoString {
        &self.id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIHB5dGhvbiBpcyBmdW4gYW5kIHNvIGlzIHJ1c3QhISEh";

    #[test]
    fn other_lines_stay_byte_for_byte() {
        let text = format!(
            "# mine\n|2|x=|y= ssh-other {KEY}\n@revoked * ssh-ed25519 {KEY}\n\na,b  ssh-ed25519\t{KEY} c d\n\
             x 2048 35 123\n[h]:22 ssh-ed25519 {KEY}"
        );
        let mut table = KnownHosts::parse(text.as_bytes());
        let names: Vec<&str> = table.entries().iter().map(|entry| entry.name().as_str()).collect();
        assert_eq!(names, ["a@ssh-ed25519", "[h]:22@ssh-ed25519"]);
        let found = table.find("a@ssh-ed25519").unwrap().clone();
        assert_eq!((found.aliases.len(), found.comment.as_str()), (1, "c d"));
        table.put(found);
        assert_eq!(table.bytes(), text.as_bytes());
        table.put(HostKey { key: KEY.into(), ..HostKey::new("a", "ssh-ed25519") });
        let text = String::from_utf8(table.bytes()).unwrap();
        assert!(text.contains(&format!("\n\na ssh-ed25519 {KEY}\nx 2048 35 123\n")), "{text}");
    }

    #[test]
    fn hashed_name_is_recognised() {
        // Written by `ssh-keygen -H`.
        let line = format!("|1|Hm+M90MC/yOd2Gpa9gIb1zA/e60=|qmFYtqUyO34RwjOKtr8BpRGdVwM= ssh-ed25519 {KEY}\n");
        let entry = HostKey::parse(line.as_bytes()).unwrap();
        assert!(entry.is_hashed() && entry.is_of("git.example.org") && entry.is_of("GIT.example.org"));
        assert!(!entry.is_of("git.example.com") && !entry.is_of(""));
        assert_eq!(entry.line(), line);
        for damaged in ["|1|", "|1|x", "|1||", "|1|!|!", "|1|AAAA|AAAA"] {
            assert_ne!(is_hash_of(damaged, "git.example.org"), Some(true), "{damaged}");
        }
    }

    #[test]
    fn entry_reads_as_it_was_written() {
        let line = format!("a,b ssh-ed25519 {KEY} c d\n");
        assert_eq!(HostKey::parse(line.as_bytes()).unwrap().line(), line);
    }
}
