//! Numbers of the accounts of people, from `/etc/login.defs`.

use std::fs::File;
use std::io::Read;

use crate::accounts::System;

/// Maximum number of bytes that are read.
const MAX_BYTES: u64 = 64 * 1024;

/// Smallest and largest number of users and groups that do not belong to the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PurgeLimits {
    pub(super) users: (i64, i64),
    pub(super) groups: (i64, i64),
}

impl PurgeLimits {
    /// Reads the limits of a system. A missing or unreadable file has the built-in limits.
    pub(super) fn of(system: &System) -> PurgeLimits {
        let mut text = String::new();
        let read = File::open(system.etc("login.defs")).and_then(|file| file.take(MAX_BYTES).read_to_string(&mut text));
        PurgeLimits::parse(if read.is_ok() { &text } else { "" })
    }

    fn parse(text: &str) -> PurgeLimits {
        let value = |key: &str, default: i64| {
            let mut values = text.lines().filter_map(|line| {
                let mut words = line.split_ascii_whitespace();
                words.next().filter(|word| *word == key)?;
                words.next()?.parse().ok()
            });
            values.next_back().unwrap_or(default)
        };
        // Smaller limits would include accounts that packages create.
        let range = |min, max| (value(min, 1000).max(500), value(max, 60_000).min(65_533));
        PurgeLimits { users: range("UID_MIN", "UID_MAX"), groups: range("GID_MIN", "GID_MAX") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_of_the_file_but_never_those_of_the_system() {
        let default = PurgeLimits { users: (1000, 60_000), groups: (1000, 60_000) };
        assert_eq!(PurgeLimits::parse("#UID_MIN 7\nUID_MINI 8\nUID_MIN\nUID_MAX many\n"), default);
        let read = PurgeLimits::parse("UID_MIN\t\t 2000\nUID_MAX 3000 # x\nGID_MIN 0\nGID_MAX 99999\n");
        assert_eq!(read, PurgeLimits { users: (2000, 3000), groups: (500, 65_533) });
    }
}
