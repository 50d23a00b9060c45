//! Predictions of a plan: what changes are going to do to the parts of a system that other resources read.

use ecow::EcoString;
use kilter_model::{Because, Value};

/// What a change is going to do to the system, as far as other resources can read it.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// A path becomes this.
    Path {
        /// The path, absolute.
        path: EcoString,
        /// What it becomes.
        node: Node,
    },
    /// A user or a group becomes this.
    Account {
        /// `user` or `group`.
        type_name: &'static str,
        /// Its name.
        name: EcoString,
        /// What it becomes.
        account: Account,
    },
    /// The change brings files along, as a package does. [`Owner`](crate::Owner) knows those that are there already.
    Brings,
    /// The change can reach every file: a command.
    Anything,
}

/// What a path is going to be.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// Nothing.
    Absent,
    /// A directory without entries; those that it gets are effects of their own.
    Directory,
    /// A symbolic link with this target.
    Link(EcoString),
    /// A regular file.
    File {
        /// Its content.
        content: Content,
        /// Its permission bits; none if they stay as they are on the disk.
        mode: Option<u32>,
    },
    /// What it is now, with another owner or mode.
    Kept,
    /// It cannot be predicted; nor can anything below it.
    Unknown,
}

/// The content that a file is going to have.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// The one on the disk.
    Kept,
    /// These bytes: a text or binary value, perhaps sensitive.
    Bytes(Value),
    /// The content that another path has on the disk.
    Of(EcoString),
}

/// What a user or a group is going to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Account {
    /// It is created with this number.
    Id(u32),
    /// It is created with a number that is free.
    New,
    /// It is removed, or its number changes: files may change their owner with it.
    Unknown,
}

/// A prediction about a part of the system.
#[derive(Clone, Debug, PartialEq)]
pub enum Forecast<T> {
    /// No earlier resource of the plan changes it: the system tells what it is.
    Unchanged,
    /// It is going to be this, by the change of that resource.
    Changed(T, Because),
    /// That resource makes a prediction impossible.
    Unknown(Because),
}

/// A part of the system on which a resource depends, or which it decides. It follows from the declaration alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Footprint<'a> {
    /// A change may write this path, or below it.
    Writes {
        /// The path, absolute.
        path: &'a str,
        /// True if the content of the path follows from the declaration, whatever was there before.
        is_whole: bool,
    },
    /// A change makes this directory if it is missing.
    Makes {
        /// The path, absolute.
        path: &'a str,
    },
    /// The path becomes a symbolic link, so that paths below it lead elsewhere.
    Links {
        /// The path, absolute.
        path: &'a str,
        /// Its target.
        target: &'a str,
    },
    /// A check reads this path.
    Reads {
        /// The path, absolute.
        path: &'a str,
        /// True if it also reads what is below.
        below: bool,
    },
    /// A check runs this command, which may read whatever it names.
    Runs {
        /// The words of the command.
        text: &'a str,
        /// The directory that it runs in.
        cwd: Option<&'a str>,
    },
}
