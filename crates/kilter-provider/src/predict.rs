//! Predictions of a plan: effects of changes on parts of the system that other resources read.

use ecow::EcoString;
use kilter_model::{Because, Value};

/// Effect of a change that other resources can observe.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// A path gets a new state.
    Path {
        /// Absolute path.
        path: EcoString,
        /// Its new state.
        node: PathState,
    },
    /// A user or a group gets a new state.
    Account {
        /// `user` or `group`.
        type_name: &'static str,
        /// Name of the account.
        name: EcoString,
        /// Its new state.
        account: Account,
    },
    /// The change installs files, as a package does. [`Owner`](crate::Owner) lists the files that already
    /// exist.
    Brings,
    /// The change, such as a command, may affect every file.
    Anything,
}

/// Predicted state of a path.
#[derive(Clone, Debug, PartialEq)]
pub enum PathState {
    /// The path does not exist.
    Absent,
    /// An empty directory. Its entries are separate effects.
    Directory,
    /// A symbolic link with this target.
    Link(EcoString),
    /// A regular file.
    File {
        /// Its content.
        content: Content,
        /// Permission bits. None if they do not change.
        mode: Option<u32>,
    },
    /// The current node, with another owner or mode.
    Kept,
    /// No prediction is possible for the path and everything below it.
    Unknown,
}

/// Predicted content of a file.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// The current content.
    Kept,
    /// These bytes: a text or binary value, possibly sensitive.
    Bytes(Value),
    /// The current content of another path.
    Of(EcoString),
    /// An unpredictable content. The file keeps its owner and its mode.
    Unknown,
}

/// Predicted state of a user or a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Account {
    /// The account is created with this number.
    Id(u32),
    /// The account is created with a free number.
    New,
    /// The account is removed, or its number changes. Files may then change their owner.
    Unknown,
}

/// Prediction for a part of the system.
#[derive(Clone, Debug, PartialEq)]
pub enum Forecast<T> {
    /// No earlier resource of the plan changes it, so its current state is valid.
    Unchanged,
    /// That resource changes it to this state.
    Changed(T, Because),
    /// That resource makes a prediction impossible.
    Unknown(Because),
}

/// A part of the system that a resource reads or changes. It follows from the declaration alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Footprint<'a> {
    /// A change may write this path or a path below it.
    Writes {
        /// Absolute path.
        path: &'a str,
        /// True if the declaration alone determines the new content.
        is_whole: bool,
    },
    /// A change creates this directory if it is missing.
    Makes {
        /// Absolute path.
        path: &'a str,
    },
    /// A change creates this path if it is missing. The resource does not stand for the path: `creates` of a command, a
    /// backup.
    Creates {
        /// Absolute path.
        path: &'a str,
    },
    /// A change runs this command. The command may write each path that it names, and paths below.
    Acts {
        /// Words of the command.
        text: &'a str,
        /// Working directory.
        cwd: Option<&'a str>,
    },
    /// The path becomes a symbolic link, which redirects the paths below it.
    Links {
        /// Absolute path.
        path: &'a str,
        /// Target of the link.
        target: &'a str,
    },
    /// A check reads this path.
    Reads {
        /// Absolute path.
        path: &'a str,
        /// True if it also reads the paths below.
        below: bool,
    },
    /// A check runs this command, which may read every path that it names.
    Runs {
        /// Words of the command.
        text: &'a str,
        /// Working directory of the command.
        cwd: Option<&'a str>,
    },
}
