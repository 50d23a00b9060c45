//! The hash of a stream of commands.

use std::hash::Hasher;

use kilter_engine::{Batch, Command, Disposition};
use rustc_hash::FxHasher;

/// Adds a command to the hash of the stream.
pub(crate) fn command_hash(stream: &mut FxHasher, command: &Command) {
    let batch = |stream: &mut FxHasher, kind: u8, batch: &Batch| {
        stream.write_u8(kind);
        stream.write_u16(batch.group.provider);
        batch.vertices.iter().for_each(|vertex| stream.write_u32(vertex.slot() as u32));
    };
    let (kind, tokens) = match command {
        Command::JournalRefresh(tokens) => (0, tokens),
        Command::ClearRefresh(tokens) => (1, tokens),
        Command::Check(checks) => return batch(stream, 2, checks),
        Command::Apply(applies) => return batch(stream, 3, applies),
        Command::Refresh(refreshes) => return batch(stream, 4, refreshes),
        Command::SetTimer(vertex, at) => {
            stream.write_u8(5);
            stream.write_u32(vertex.slot() as u32);
            return stream.write_u64(at.0);
        }
        Command::Watch(vertex) => {
            stream.write_u8(7);
            return stream.write_u32(vertex.slot() as u32);
        }
        Command::Demoted(vertex) => {
            stream.write_u8(8);
            return stream.write_u32(vertex.slot() as u32);
        }
        Command::Contested(vertex) => {
            stream.write_u8(9);
            return stream.write_u32(vertex.slot() as u32);
        }
        Command::Uncontested(vertex) => {
            stream.write_u8(10);
            return stream.write_u32(vertex.slot() as u32);
        }
        Command::Settled(vertex, settlement) => {
            stream.write_u8(6);
            stream.write_u32(vertex.slot() as u32);
            let by = if let Disposition::Blocked(by) = settlement { by.slot() as u32 } else { u32::MAX };
            stream.write_u32(by);
            return stream.write_u8(settlement_number(*settlement));
        }
    };
    stream.write_u8(kind);
    for token in tokens {
        stream.write_u32(token.first.slot() as u32);
        stream.write_u32(token.second.slot() as u32);
    }
}

fn settlement_number(settlement: Disposition) -> u8 {
    match settlement {
        Disposition::InSync => 0,
        Disposition::Changed => 1,
        Disposition::Refreshed => 2,
        Disposition::WouldChange => 3,
        Disposition::WouldRefresh => 4,
        Disposition::Unknown => 5,
        Disposition::Failed => 6,
        Disposition::Blocked(_) => 7,
        Disposition::Interrupted => 8,
    }
}
