//! The hash of a stream of commands.

use std::hash::Hasher;

use kilter_engine::{Batch, Command, Settlement};
use rustc_hash::FxHasher;

/// Adds a command to the hash of the stream.
pub(crate) fn digest(stream: &mut FxHasher, command: &Command) {
    let batch = |stream: &mut FxHasher, kind: u8, batch: &Batch| {
        stream.write_u8(kind);
        stream.write_u16(batch.group);
        batch.vertices.iter().for_each(|vertex| stream.write_u32(vertex.0));
    };
    let (kind, tokens) = match command {
        Command::Owe(tokens) => (0, tokens),
        Command::Paid(tokens) => (1, tokens),
        Command::Check(checks) => return batch(stream, 2, checks),
        Command::Apply(applies) => return batch(stream, 3, applies),
        Command::Refresh(refreshes) => return batch(stream, 4, refreshes),
        Command::Wake(vertex, at) => {
            stream.write_u8(5);
            stream.write_u32(vertex.0);
            return stream.write_u64(at.0);
        }
        Command::Watch(vertex) => {
            stream.write_u8(7);
            return stream.write_u32(vertex.0);
        }
        Command::Demoted(vertex) => {
            stream.write_u8(8);
            return stream.write_u32(vertex.0);
        }
        Command::Contested(vertex) => {
            stream.write_u8(9);
            return stream.write_u32(vertex.0);
        }
        Command::Uncontested(vertex) => {
            stream.write_u8(10);
            return stream.write_u32(vertex.0);
        }
        Command::Settled(vertex, settlement) => {
            stream.write_u8(6);
            stream.write_u32(vertex.0);
            let by = if let Settlement::Blocked(by) = settlement { by.0 } else { u32::MAX };
            stream.write_u32(by);
            return stream.write_u8(settlement_number(*settlement));
        }
    };
    stream.write_u8(kind);
    for token in tokens {
        stream.write_u32(token.first.0);
        stream.write_u32(token.second.0);
    }
}

fn settlement_number(settlement: Settlement) -> u8 {
    match settlement {
        Settlement::InSync => 0,
        Settlement::Changed => 1,
        Settlement::Refreshed => 2,
        Settlement::WouldChange => 3,
        Settlement::WouldRefresh => 4,
        Settlement::Unknown => 5,
        Settlement::Failed => 6,
        Settlement::Blocked(_) => 7,
        Settlement::Interrupted => 8,
    }
}
