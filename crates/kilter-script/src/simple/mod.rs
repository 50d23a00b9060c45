//! The convention `simple`: command-line arguments in, lines on standard output.

mod decode;
mod encode;
mod update;
mod watch;

#[cfg(test)]
mod tests;

use ecow::EcoString;
use kilter_process::{Invocation, Output};

use crate::convention::size::MemoryBudget;
use crate::convention::{Convention, LineParser, ProtocolError, Refusal, Reply, Request, described, text, unique};

/// The convention `simple` (libral, "The `simple` calling convention").
///
/// A request consists of the arguments `KEY='VALUE'`, sorted by key, followed by `ral_action=ACTION`. A quote
/// in a value is written `'\''`. So a shell that evaluates the arguments takes each value literally and runs no
/// part of it.
#[derive(Clone, Debug)]
pub struct Simple {
    base: Invocation,
}

impl Simple {
    /// Creates the convention for a script. `base` is the process with its limits.
    pub fn new(base: Invocation) -> Simple {
        Simple { base }
    }
}

impl Convention for Simple {
    fn encode(&self, request: &Request<'_>) -> Result<Invocation, Refusal> {
        encode::encode(&self.base, request)
    }

    fn decode(&self, request: &Request<'_>, finished: &Output) -> Result<Reply, ProtocolError> {
        ProtocolError::of_ending(finished)?;
        if let Request::Describe = request {
            return described(finished);
        }
        let printed = text(&finished.stdout.bytes);
        let text = match (printed, finished.status.is_success()) {
            (Ok(text), _) => text,
            (Err(_), false) => return Err(ProtocolError::Status(finished.status)),
            (Err(error), true) => return Err(error),
        };
        if let Some(error) = decode::told_error(text) {
            return Err(error);
        }
        if !finished.status.is_success() {
            return Err(ProtocolError::Status(finished.status));
        }
        if let Request::Watch = request {
            return Ok(Reply::Watched);
        }
        let room = MemoryBudget::of_request(&self.base, request);
        match request {
            Request::Update(updates, _) => {
                let asked = updates.first().map(|update| update.name).unwrap_or_default();
                update::decode(text, asked, room).map(Reply::Changed)
            }
            Request::Refresh(of) => update::decode(text, of.name, room).map(Reply::Changed),
            Request::Find(names) | Request::FindAs(names, _) => {
                let records = decode::records(text, room)?;
                let asked: EcoString = names.first().copied().unwrap_or_default().into();
                decode::found(records, &asked).map(Reply::Resources)
            }
            Request::List | Request::Describe | Request::Watch => {
                decode::records(text, room).and_then(unique).map(Reply::Resources)
            }
        }
    }

    fn listener(&self) -> LineParser {
        watch::listener()
    }
}
