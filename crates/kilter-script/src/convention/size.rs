//! How much of an answer is taken: its text, and what is made of it.

use kilter_process::{Capture, Invocation};

use super::{ProtocolError, Request};

/// Calls about one resource may run side by side: each may print so much less than one about all.
const SHARE: usize = 4;

/// A resource in memory, on its way from a record to a line of a table, without its attributes.
const RESOURCE: usize = 184;

/// A value in memory.
const VALUE: usize = 56;

/// An object, as a tree of JSON and then as a value.
const OBJECT: usize = 1000;

/// What is added for each resource that is asked for by its name: kilter has room for those.
const ASKED: usize = 2 << 10;

/// What a call about one resource may print.
pub(crate) fn of_one(most: usize) -> usize {
    most / SHARE
}

/// The process that asks, which may print as much as is fit for the request.
pub(crate) fn limited(base: &Invocation, request: &Request<'_>) -> Invocation {
    let mut invocation = base.clone();
    if let (Capture::AtMost(most), true) = (base.stdout, is_about_one(request)) {
        invocation.stdout = Capture::AtMost(of_one(most));
    }
    invocation
}

fn is_about_one(request: &Request<'_>) -> bool {
    matches!(request, Request::Find([_]) | Request::FindAs([_], _) | Request::Update([_], _) | Request::Refresh(_))
}

/// What may be made of an answer, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room(usize);

impl Room {
    /// What goes with a text of so many bytes.
    pub(crate) fn of(text: usize) -> Room {
        Room(text.saturating_mul(7) / 2)
    }

    /// What goes with a request; without end where its output has none.
    pub(crate) fn of_request(base: &Invocation, request: &Request<'_>) -> Room {
        let Capture::AtMost(most) = limited(base, request).stdout else { return Room(usize::MAX) };
        let asked = match request {
            Request::Find(names) | Request::FindAs(names, _) => names.len(),
            Request::Update(updates, _) => updates.len(),
            Request::Refresh(_) => 1,
            Request::Describe | Request::List | Request::Watch => 0,
        };
        Room(Room::of(most).0.saturating_add(asked.saturating_mul(ASKED)))
    }

    /// Whether a text of JSON fits as records that are made of it at once.
    pub(crate) fn holds_records(self, text: &str) -> Result<(), ProtocolError> {
        self.holds(text, RESOURCE + VALUE)
    }

    /// Whether a text of JSON fits as a tree.
    pub(crate) fn holds_tree(self, text: &str) -> Result<(), ProtocolError> {
        self.holds(text, OBJECT)
    }

    fn holds(self, text: &str, object: usize) -> Result<(), ProtocolError> {
        // What stands in texts counts as if it were structure: that is cheap, and nearly always few.
        let objects = count(text, |byte| byte == b'{');
        let values = count(text, |byte| byte == b',' || byte == b'[');
        self.check(text.len() + objects * object + values * VALUE)
    }

    fn check(self, bytes: usize) -> Result<(), ProtocolError> {
        if bytes > self.0 { Err(ProtocolError::TooMuch { room: self.0 }) } else { Ok(()) }
    }
}

/// How many bytes of a text are it.
pub(crate) fn count(text: &str, is_it: impl Fn(u8) -> bool) -> usize {
    // Few enough at a time that bytes can count them.
    text.as_bytes()
        .chunks(192)
        .map(|part| usize::from(part.iter().map(|byte| u8::from(is_it(*byte))).sum::<u8>()))
        .sum()
}

/// What has been made of lines so far.
pub(crate) struct Made {
    room: Room,
    bytes: usize,
}

impl Made {
    /// Of a text, of which nothing has been made yet.
    pub(crate) fn new(room: Room, text: &str) -> Made {
        // Lists are values in a value.
        Made { room, bytes: text.len() + VALUE * count(text, |byte| matches!(byte, b',' | b'[' | b'{')) }
    }

    /// A resource is made.
    pub(crate) fn resource(&mut self) -> Result<(), ProtocolError> {
        self.bytes += RESOURCE + VALUE;
        self.room.check(self.bytes)
    }

    /// A value is made.
    pub(crate) fn value(&mut self) -> Result<(), ProtocolError> {
        self.bytes += VALUE;
        self.room.check(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_about_one_resource_may_print_a_quarter() {
        let mut base = Invocation::new("x");
        base.stdout = Capture::AtMost(400);
        assert_eq!(limited(&base, &Request::List).stdout, Capture::AtMost(400));
        assert_eq!(limited(&base, &Request::Find(&["a"])).stdout, Capture::AtMost(100));
        assert_eq!(limited(&base, &Request::Find(&["a", "b"])).stdout, Capture::AtMost(400));
    }

    #[test]
    fn many_values_take_more_room_than_a_long_one() {
        let room = Room::of(1000);
        assert!(room.holds_tree(&"x".repeat(3000)).is_ok());
        assert!(room.holds_tree("[{},{}]").is_ok());
        assert!(room.holds_tree("[{},{},{},{}]").is_err() && room.holds_records("[{},{},{},{}]").is_ok());
        assert!(room.holds_records(&",".repeat(100)).is_err());
        assert_eq!(count(&",".repeat(100_000), |byte| byte == b','), 100_000);
        let mut made = Made::new(room, "a,b");
        assert_eq!((0..100).take_while(|_| made.value().is_ok()).count(), 61);
    }
}
