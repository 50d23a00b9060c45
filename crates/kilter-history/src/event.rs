//! Events of the history.

use serde_json::Value as Json;

/// Number of an event. Later events have greater numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId(pub i64);

/// Number of a run: the number of the event that begins it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub i64);

/// Kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A run begins: user, command, manifests.
    Run,
    /// A run ends: counts, duration.
    End,
    /// The declarations of the run differ from those before.
    Declared,
    /// State of resources before a change.
    Before,
    /// Result of a resource that was not simply in sync.
    Outcome,
    /// Line of a log.
    Log,
    /// Process that a script or kilter started.
    Process,
    /// Earlier events were removed.
    Pruned,
}

impl EventKind {
    /// All kinds.
    pub const ALL: [EventKind; 8] = [
        EventKind::Run,
        EventKind::End,
        EventKind::Declared,
        EventKind::Before,
        EventKind::Outcome,
        EventKind::Log,
        EventKind::Process,
        EventKind::Pruned,
    ];

    /// Returns the word of the column `kind`.
    pub fn word(self) -> &'static str {
        match self {
            EventKind::Run => "run",
            EventKind::End => "end",
            EventKind::Declared => "declared",
            EventKind::Before => "before",
            EventKind::Outcome => "outcome",
            EventKind::Log => "log",
            EventKind::Process => "process",
            EventKind::Pruned => "pruned",
        }
    }

    pub(crate) fn of(word: &str) -> Option<EventKind> {
        EventKind::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

/// Resource of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceKey<'a> {
    /// Type.
    pub type_name: &'a str,
    /// Title in the manifest.
    pub title: &'a str,
    /// Name on the system.
    pub name: &'a str,
}

/// HistoryEvent to write.
#[derive(Clone, Copy, Debug)]
pub struct NewEvent<'a> {
    /// Time in milliseconds since 1970.
    pub at: i64,
    /// Kind.
    pub kind: EventKind,
    /// Resource, if the event is about one.
    pub resource: Option<ResourceKey<'a>>,
    /// Content: the JSON text of an object.
    pub body: &'a str,
}

/// HistoryEvent of the history.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryEvent {
    /// Number.
    pub id: EventId,
    /// Run of the event.
    pub run: RunId,
    /// Time in milliseconds since 1970.
    pub at: i64,
    /// Kind.
    pub kind: EventKind,
    /// Type and title of the resource, if the event is about one.
    pub resource: Option<(String, String)>,
    /// Content, an object.
    pub body: Json,
}
