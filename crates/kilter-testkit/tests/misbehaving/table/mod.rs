//! Expected result of each scenario in each convention.

mod documents;
mod floods;
mod processes;
mod values;

/// Result of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// An error that says this, and how the process ended where that is not what it says.
    Fails { cause: &'static str, status: &'static str },
    /// It is done, and the next look fails with an error that says this.
    FailsLater { cause: &'static str },
    /// No harm: the found state, and a part of the warning; an empty text means no warning.
    Is { found: &'static str, warning: &'static str },
    /// There is no such thing in the convention, for this reason.
    Nothing { why: &'static str },
}

/// A scenario with its results for a read and for a change, in `simple`, `json` and `mold`.
pub(crate) struct Row {
    pub(crate) scenario: &'static str,
    pub(crate) read: [Expected; 3],
    pub(crate) update: [Expected; 3],
}

/// All scenarios, but those of [`GATES`].
pub(crate) fn rows() -> Vec<Row> {
    [floods::rows(), documents::rows(), values::rows(), processes::rows()].into_iter().flatten().collect()
}

/// Scenarios that take as long as a gigabyte takes: `measure --gates` plays them.
pub(crate) const GATES: [&str; 3] = ["gigabyte-on-stderr", "gigabyte-on-the-channel", "gigabyte-of-messages"];

/// Scenarios that write, which a call that only reads cannot: what comes of them in a preview, which cannot either.
pub(crate) const WRITING: [&str; 3] = ["writes", "removes-itself", "changes-its-metadata"];

/// Output of a script that tried to write and was refused.
pub(crate) const TRIED: &str = ", and was refused";
const LATE: &str = "it did not reply in time and was ended";
const TOO_MUCH: &str =
    "it was ended because it exceeded the output limit: 4 MiB (`output` in its metadata allows more)";
const UNDECLARED: &str = "which its metadata does not declare: it is passed over";
/// Message about a script that left a process.
pub(crate) const LEFT: &str = "keeps its output open";
const DAMAGE: &str = "that belong to no message were skipped";
const OTHERS: &str = "was not asked to change";

fn row(scenario: &'static str, read: [Expected; 3], update: [Expected; 3]) -> Row {
    Row { scenario, read, update }
}

/// The same in every convention.
fn all(expected: Expected) -> [Expected; 3] {
    [expected; 3]
}

/// An error, although the process returned 0.
fn bad(cause: &'static str) -> Expected {
    Expected::Fails { cause, status: "" }
}

/// An error that says how the process ended.
fn died(cause: &'static str) -> Expected {
    Expected::Fails { cause, status: "" }
}

fn ended(cause: &'static str, status: &'static str) -> Expected {
    Expected::Fails { cause, status }
}

fn later(cause: &'static str) -> Expected {
    Expected::FailsLater { cause }
}

fn fine(found: &'static str) -> Expected {
    Expected::Is { found, warning: "" }
}

fn warned(found: &'static str, warning: &'static str) -> Expected {
    Expected::Is { found, warning }
}

fn none(why: &'static str) -> Expected {
    Expected::Nothing { why }
}
