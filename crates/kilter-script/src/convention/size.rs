//! Limits on answers: size of the text, and memory for the parsed values.

use kilter_process::{Capture, Invocation};

use super::{ProtocolError, Request};

/// Calls for single resources may run concurrently, so each may print only this fraction of the limit.
const SHARE: usize = 4;

/// Estimated memory of a resource without its attributes, in bytes, from a record to a line of a table.
const RESOURCE: usize = 184;

/// Estimated memory of a value, in bytes.
const VALUE: usize = 56;

/// Estimated memory of an object as a JSON tree and as a value, in bytes.
const OBJECT: usize = 1000;

/// Additional memory per requested resource, in bytes.
const ASKED: usize = 2 << 10;

/// Returns the output limit of a call for a single resource.
pub(crate) fn of_one(most: usize) -> usize {
    most / SHARE
}

/// Returns the process with the output limit for the request.
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

/// Memory limit for the values of an answer, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryBudget(usize);

impl MemoryBudget {
    /// Returns the limit for a text of this size.
    pub(crate) fn of(text: usize) -> MemoryBudget {
        MemoryBudget(text.saturating_mul(7) / 2)
    }

    /// Returns the limit for a request. Unlimited if the output is unlimited.
    pub(crate) fn of_request(base: &Invocation, request: &Request<'_>) -> MemoryBudget {
        let Capture::AtMost(most) = limited(base, request).stdout else { return MemoryBudget(usize::MAX) };
        let asked = match request {
            Request::Find(names) | Request::FindAs(names, _) => names.len(),
            Request::Update(updates, _) => updates.len(),
            Request::Refresh(_) => 1,
            Request::Describe | Request::List | Request::Watch => 0,
        };
        MemoryBudget(MemoryBudget::of(most).0.saturating_add(asked.saturating_mul(ASKED)))
    }

    /// Checks that the records in a JSON text fit when they are built directly.
    pub(crate) fn holds_records(self, text: &str) -> Result<(), ProtocolError> {
        self.holds(text, RESOURCE + VALUE)
    }

    /// Checks that a JSON text fits as a tree.
    pub(crate) fn holds_tree(self, text: &str) -> Result<(), ProtocolError> {
        self.holds(text, OBJECT)
    }

    fn holds(self, text: &str, object: usize) -> Result<(), ProtocolError> {
        // Counts structural characters in strings too, because this is fast and they are rare.
        let objects = count(text, |byte| byte == b'{');
        let values = count(text, |byte| byte == b',' || byte == b'[');
        self.check(text.len() + objects * object + values * VALUE)
    }

    fn check(self, bytes: usize) -> Result<(), ProtocolError> {
        if bytes > self.0 { Err(ProtocolError::TooMuch { room: self.0 }) } else { Ok(()) }
    }
}

/// Counts the matching bytes of a text.
pub(crate) fn count(text: &str, is_it: impl Fn(u8) -> bool) -> usize {
    // The chunks are small enough for a count in a single byte.
    text.as_bytes()
        .chunks(192)
        .map(|part| usize::from(part.iter().map(|byte| u8::from(is_it(*byte))).sum::<u8>()))
        .sum()
}

/// Memory of the values parsed from lines so far.
pub(crate) struct AllocationCounter {
    room: MemoryBudget,
    bytes: usize,
}

impl AllocationCounter {
    /// Starts the count for a text.
    pub(crate) fn new(room: MemoryBudget, text: &str) -> AllocationCounter {
        // Elements of lists are values too.
        AllocationCounter { room, bytes: text.len() + VALUE * count(text, |byte| matches!(byte, b',' | b'[' | b'{')) }
    }

    /// Counts a resource.
    pub(crate) fn resource(&mut self) -> Result<(), ProtocolError> {
        self.bytes += RESOURCE + VALUE;
        self.room.check(self.bytes)
    }

    /// Counts a value.
    pub(crate) fn value(&mut self) -> Result<(), ProtocolError> {
        self.bytes += VALUE;
        self.room.check(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_resource_call_has_quarter_of_output_limit() {
        let mut base = Invocation::new("x");
        base.stdout = Capture::AtMost(400);
        assert_eq!(limited(&base, &Request::List).stdout, Capture::AtMost(400));
        assert_eq!(limited(&base, &Request::Find(&["a"])).stdout, Capture::AtMost(100));
        assert_eq!(limited(&base, &Request::Find(&["a", "b"])).stdout, Capture::AtMost(400));
    }

    #[test]
    fn many_values_take_more_room_than_a_long_one() {
        let room = MemoryBudget::of(1000);
        assert!(room.holds_tree(&"x".repeat(3000)).is_ok());
        assert!(room.holds_tree("[{},{}]").is_ok());
        assert!(room.holds_tree("[{},{},{},{}]").is_err() && room.holds_records("[{},{},{},{}]").is_ok());
        assert!(room.holds_records(&",".repeat(100)).is_err());
        assert_eq!(count(&",".repeat(100_000), |byte| byte == b','), 100_000);
        let mut made = AllocationCounter::new(room, "a,b");
        assert_eq!((0..100).take_while(|_| made.value().is_ok()).count(), 61);
    }
}
