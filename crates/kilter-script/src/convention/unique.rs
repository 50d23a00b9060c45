//! Names that two resources have.

use std::hash::BuildHasher;

use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use super::Record;
use super::error::{ProtocolError, beginning};

/// Resources of which no two have one name. The same one twice is one.
pub(crate) fn unique(records: Vec<Record>) -> Result<Vec<Record>, ProtocolError> {
    // Hashes alone take a third of the memory, and those of different names are nearly always different.
    let mut hashes: FxHashSet<u64> = FxHashSet::default();
    hashes.reserve(records.len());
    match records.iter().all(|record| hashes.insert(FxBuildHasher.hash_one(&record.name))) {
        true => Ok(records),
        false => without_doubles(records),
    }
}

fn without_doubles(mut records: Vec<Record>) -> Result<Vec<Record>, ProtocolError> {
    let mut places: FxHashMap<&str, usize> = FxHashMap::default();
    places.reserve(records.len());
    let mut doubles: Vec<usize> = Vec::new();
    for (at, record) in records.iter().enumerate() {
        match places.insert(&record.name, at) {
            None => {}
            Some(first) if records[first] == *record => doubles.push(at),
            Some(_) => return Err(ProtocolError::NamedTwice(beginning(&record.name, 80))),
        }
    }
    if !doubles.is_empty() {
        let (mut at, mut doubles) = (0, doubles.into_iter().peekable());
        records.retain(|_| {
            at += 1;
            doubles.next_if_eq(&(at - 1)).is_none()
        });
    }
    Ok(records)
}
