//! Detection of duplicate names.

use std::hash::BuildHasher;

use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use super::Record;
use super::error::{ProtocolError, beginning};

/// Checks that the names of the resources are unique. Merges identical resources.
pub(crate) fn unique(records: Vec<Record>) -> Result<Vec<Record>, ProtocolError> {
    // Comparing only hashes takes a third of the memory. Collisions are rare.
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
    let (mut doubles, mut firsts): (Vec<usize>, Vec<usize>) = Default::default();
    for (at, record) in records.iter().enumerate() {
        match places.insert(&record.name, at) {
            None => {}
            Some(first) if is_same(&records[first], record) => {
                doubles.push(at);
                firsts.push(first);
            }
            Some(_) => return Err(ProtocolError::NamedTwice(beginning(&record.name, 80))),
        }
    }
    firsts.into_iter().for_each(|first| records[first].is_double = true);
    if !doubles.is_empty() {
        let (mut at, mut doubles) = (0, doubles.into_iter().peekable());
        records.retain(|_| {
            at += 1;
            doubles.next_if_eq(&(at - 1)).is_none()
        });
    }
    Ok(records)
}

/// Returns true if two resources with the same name are identical. Overwritten values do not count.
fn is_same(one: &Record, other: &Record) -> bool {
    one.attributes == other.attributes && one.error == other.error
}

#[cfg(test)]
mod tests {
    use kilter_model::{Attributes, Value};

    use super::*;

    fn record(name: &str, value: i64, repeated: &[&str]) -> Record {
        let mut attributes = Attributes::new();
        attributes.push("v", Value::Integer(value));
        Record { attributes, repeated: repeated.iter().copied().map(Into::into).collect(), ..of(name) }
    }

    fn of(name: &str) -> Record {
        Record { name: name.into(), ..Record::default() }
    }

    #[test]
    fn equal_duplicate_resources_are_merged() {
        let records = vec![record("a", 1, &[]), record("b", 1, &[]), record("a", 1, &["v"])];
        let names: Vec<_> = unique(records).unwrap().into_iter().map(|record| record.name).collect();
        assert_eq!(names, ["a", "b"]);
        let other = vec![record("a", 1, &[]), record("a", 2, &[])];
        assert!(matches!(unique(other), Err(ProtocolError::NamedTwice(name)) if name == "a"));
    }
}
