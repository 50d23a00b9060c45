//! The convention `json`: a JSON object on standard input and on standard output.

mod decode;
mod encode;
mod stream;
pub(crate) mod watch;

#[cfg(test)]
mod tests;

pub(crate) use decode::UNREACHABLE;
use kilter_process::{Invocation, Output};

use crate::convention::size::MemoryBudget;
use crate::convention::{Convention, LineParser, ProtocolError, Refusal, Reply, Request, described, text, unique};

/// The convention `json` (libral, "The `json` calling convention").
///
/// The only argument is `ral_action=describe`, `get`, `set`, `refresh` or `watch`. The request is an object on
/// standard input. A description is YAML.
#[derive(Clone, Debug)]
pub struct Json {
    base: Invocation,
}

impl Json {
    /// Creates the convention for a script. `base` is the process with its limits.
    pub fn new(base: Invocation) -> Json {
        Json { base }
    }
}

impl Convention for Json {
    fn encode(&self, request: &Request<'_>) -> Result<Invocation, Refusal> {
        Ok(encode::encode(&self.base, request))
    }

    fn decode(&self, request: &Request<'_>, finished: &Output) -> Result<Reply, ProtocolError> {
        ProtocolError::of_ending(finished)?;
        if let Request::Describe = request {
            return described(finished);
        }
        if !finished.status.is_success() {
            return Err(ProtocolError::Status(finished.status));
        }
        if let Request::Watch = request {
            return Ok(Reply::Watched);
        }
        let text = text(&finished.stdout.bytes)?;
        if text.trim().is_empty() {
            return Err(ProtocolError::Nothing { expected: "a JSON object" });
        }
        let room = MemoryBudget::of_request(&self.base, request);
        // A valid answer is parsed without a tree. For an invalid one, the tree provides the location of the
        // error.
        if let Request::List | Request::Find(_) | Request::FindAs(..) = request {
            room.holds_records(text)?;
            if let Some(records) = stream::resources(text) {
                return unique(records).map(Reply::Resources);
            }
        }
        room.holds_tree(text)?;
        let json: serde_json::Value =
            serde_json::from_str(text).map_err(|error| ProtocolError::NotJson { why: error.to_string().into() })?;
        match request {
            Request::Update(..) | Request::Refresh(_) => decode::changes(&json).map(Reply::Changed),
            _ => unique(decode::resources(&json)?).map(Reply::Resources),
        }
    }

    fn listener(&self) -> LineParser {
        watch::listener()
    }
}
