//! Creates missing directories above a path.

use kilter_model::{Attributes, Change, Difference, State, Value};

use super::apply::FileBatch;
use super::error::FileError;
use super::open;
use super::opened_path::examine;

/// Creates the missing directories above `path`, the topmost first.
pub(super) fn make(batch: &mut FileBatch<'_>, index: usize, path: &str) {
    for above in missing(path) {
        let name = ecow::EcoString::from(above.as_str());
        let is = State::absent(name.clone());
        let should = Attributes::from_iter([("ensure", Value::from("directory"))]);
        let differences = [Difference::new("ensure", "absent".into(), "directory".into())];
        let change = Change::new(&name, &is, Some(&should), &differences);
        batch.change(index, &change);
        if examine(&above, false).is_ok_and(|made| made.is_some()) {
            batch.add_note(index, format!("created the missing directory {above}"));
        }
    }
}

fn missing(path: &str) -> Vec<String> {
    let mut missing = Vec::new();
    let mut above = open::split(path).0;
    while !above.is_empty() && above != "/" {
        let is_missing = match examine(above, false) {
            Ok(found) => found.is_none(),
            Err(error) => FileError::is_missing(&error),
        };
        if !is_missing {
            break;
        }
        missing.push(above.to_owned());
        above = open::split(above).0;
    }
    missing.reverse();
    missing
}
