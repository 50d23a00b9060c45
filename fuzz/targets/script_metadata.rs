//! Fuzzes the reader of script metadata and its conditions.
//!
//! The input is YAML. Properties:
//!
//! - It does not panic and takes at most 5 s.
//! - Every fault has a message.
//! - A valid type passes its check.
//! - Its conditions can be evaluated.

use kilter_model::{Value, definition};
use kilter_script::{ConditionFacts, Metadata, condition::Clause};

struct Somewhere;

impl ConditionFacts for Somewhere {
    fn fact(&self, name: &str) -> Option<Value> {
        (name == "os").then(|| Value::hash([("family", Value::from("debian"))]))
    }

    fn has_command(&self, name: &str) -> bool {
        name.len().is_multiple_of(2)
    }
}

/// Checks the properties for an input.
pub(crate) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(clause) = Clause::parse(text) {
        let _ = clause.evaluate(&Somewhere);
    }
    match Metadata::parse(text, "stem") {
        Ok(metadata) => {
            assert_eq!(definition::check(&metadata.schema), []);
            assert!(metadata.schema.namevars().count() == 1 && !metadata.name.is_empty());
            let _ = (metadata.suitable.evaluate(&Somewhere), metadata.default.evaluate(&Somewhere));
        }
        Err(faults) => assert!(!faults.is_empty() && faults.iter().all(|fault| !fault.message.is_empty())),
    }
}
