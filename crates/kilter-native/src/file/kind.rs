//! Kinds of files.

use std::fmt;

use rustix::fs::{FileType, Stat};

/// Kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Directory,
    Link,
    /// A named pipe.
    Fifo,
    Socket,
    Block,
    Char,
}

impl Kind {
    /// Returns the kind in `stat`.
    pub(super) fn of(stat: &Stat) -> Kind {
        Kind::of_type(FileType::from_raw_mode(stat.st_mode))
    }

    fn of_type(file_type: FileType) -> Kind {
        match file_type {
            FileType::Directory => Kind::Directory,
            FileType::Symlink => Kind::Link,
            FileType::Fifo => Kind::Fifo,
            FileType::Socket => Kind::Socket,
            FileType::BlockDevice => Kind::Block,
            FileType::CharacterDevice => Kind::Char,
            _ => Kind::File,
        }
    }

    /// Returns the value of `ensure` for this kind.
    pub(super) fn ensure(self) -> &'static str {
        match self {
            Kind::File => "file",
            Kind::Directory => "directory",
            Kind::Link => "link",
            _ => "present",
        }
    }

    /// Returns the value of the attribute `kind`.
    pub(super) fn word(self) -> &'static str {
        match self {
            Kind::File => "file",
            Kind::Directory => "directory",
            Kind::Link => "link",
            Kind::Fifo => "fifo",
            Kind::Socket => "socket",
            Kind::Block => "block",
            Kind::Char => "char",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Link => "symbolic link",
            Kind::Block => "block device",
            Kind::Char => "character device",
            other => other.word(),
        })
    }
}
