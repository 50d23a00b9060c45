//! Attempts of a confined child to make changes.

use std::fmt;
use std::path::{Path, PathBuf};

/// Maximum number of different attempts to keep.
const MAX_KEPT_ATTEMPTS: usize = 10;

/// Changes that a confined child tried to make and could not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attempts {
    /// The first ten different attempts, in the order in which they were made.
    pub first: Vec<Attempt>,
    /// Number of further attempts. Only the first 1,000 attempts are examined.
    pub more: u32,
}

/// An attempt of a confined child to make a change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attempt {
    /// Kind of change.
    pub operation: Operation,
    /// The file; none if the change is not about a file, or the file is unknown.
    pub path: Option<PathBuf>,
}

/// Kind of change that a call would have made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Write to a file, create it for writing, or truncate it.
    Write,
    /// Make a directory, link, device, pipe or socket, or give a file a new name.
    Make,
    /// Remove a file or a directory.
    Remove,
    /// Take a name from a file, in a rename.
    Rename,
    /// Change a mode.
    Mode,
    /// Change an owner or a group.
    Owner,
    /// Change times.
    Times,
    /// Change extended attributes or flags.
    Attributes,
    /// Mount or unmount.
    Mount,
    /// Change the host name.
    HostName,
    /// Set the clock.
    Clock,
    /// Load or unload a kernel module, or start another kernel.
    Kernel,
    /// Restart or halt the machine.
    Power,
}

impl Attempts {
    /// Returns true if there was no attempt.
    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// Adds an attempt, unless it is already in the list.
    pub(super) fn add(&mut self, attempt: Attempt) {
        match self.first.contains(&attempt) {
            true => {}
            false if self.first.len() < MAX_KEPT_ATTEMPTS => self.first.push(attempt),
            false => self.more = self.more.saturating_add(1),
        }
    }
}

/// Prints `write /etc/motd, change the mode of /etc/passwd and 3 more`.
impl fmt::Display for Attempts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, attempt) in self.first.iter().enumerate() {
            write!(f, "{}{attempt}", if at > 0 { ", " } else { "" })?;
        }
        if self.more > 0 { write!(f, " and {} more", self.more) } else { Ok(()) }
    }
}

/// Prints `write /etc/motd` or `set the clock`, with control characters escaped.
impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.as_deref();
        match self.operation {
            Operation::Write => of(f, "write", path),
            Operation::Make => of(f, "make", path),
            Operation::Remove => of(f, "remove", path),
            Operation::Rename => of(f, "rename", path),
            Operation::Mode => of(f, "change the mode of", path),
            Operation::Owner => of(f, "change the owner of", path),
            Operation::Times => of(f, "change the times of", path),
            Operation::Attributes => of(f, "change the attributes of", path),
            Operation::Mount => match path {
                Some(path) => of(f, "change what is mounted on", Some(path)),
                None => f.write_str("change what is mounted"),
            },
            Operation::HostName => f.write_str("change the host name"),
            Operation::Clock => f.write_str("set the clock"),
            Operation::Kernel => f.write_str("change the kernel"),
            Operation::Power => f.write_str("restart or halt the machine"),
        }
    }
}

fn of(f: &mut fmt::Formatter<'_>, operation: &str, path: Option<&Path>) -> fmt::Result {
    let Some(path) = path else { return write!(f, "{operation} a file") };
    write!(f, "{operation} ")?;
    for character in path.to_string_lossy().chars() {
        let turns = matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        match character.is_control() || turns {
            true => write!(f, "{}", character.escape_default())?,
            false => write!(f, "{character}")?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(operation: Operation, path: &str) -> Attempt {
        Attempt { operation, path: Some(path.into()) }
    }

    #[test]
    fn attempts_read_as_the_end_of_a_sentence() {
        let first = vec![
            attempt(Operation::Write, "/etc/a\u{1b}[2J\u{202e}b"),
            attempt(Operation::Mode, "/b"),
            Attempt { operation: Operation::Clock, path: None },
            Attempt { operation: Operation::Owner, path: None },
        ];
        let told = Attempts { first, more: 2 }.to_string();
        let expected = "write /etc/a\\u{1b}[2J\\u{202e}b, change the mode of /b, set the clock, change the owner of a \
                        file and 2 more";
        assert_eq!(told, expected);
    }

    #[test]
    fn first_attempts_are_kept_and_others_counted() {
        let mut attempts = Attempts::default();
        for number in 0..25 {
            attempts.add(attempt(Operation::Write, &format!("/{number}")));
            attempts.add(attempt(Operation::Write, "/0"));
        }
        assert_eq!((attempts.first.len(), attempts.more), (10, 15));
    }
}
