//! The reader of the metadata of scripts, and the conditions in it.
//!
//! The input is YAML. What must hold: nothing panics or takes more than 5 s; what is wrong is said; a type that is
//! read has no faults when it is checked; its conditions come to something.

use kilter_model::{Value, definition};
use kilter_script::{Machine, Metadata, condition::Clause};

struct Somewhere;

impl Machine for Somewhere {
    fn fact(&self, name: &str) -> Option<Value> {
        (name == "os").then(|| Value::hash([("family", Value::from("debian"))]))
    }

    fn has_command(&self, name: &str) -> bool {
        name.len().is_multiple_of(2)
    }
}

/// Holds one input against what must hold.
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
