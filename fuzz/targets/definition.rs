//! Fuzzes the reader of type definitions.
//!
//! The input is a definition as JSON. Properties:
//!
//! - It does not panic.
//! - Every fault has a message.
//! - A schema without faults passes its check, and can be read again after it is written.

use kilter_model::{Attributes, DataType, definition, from_json};

/// Checks the properties for an input.
pub(crate) fn run(data: &[u8]) {
    let Ok(json) = serde_json::from_slice::<serde_json::Value>(data) else { return };
    let reading = definition::read(&from_json(&json));
    assert!(reading.faults.iter().all(|fault| !fault.message.is_empty()));
    let schema = reading.schema;
    let values: Attributes = schema.attributes.iter().map(|one| (one.name.clone(), one.name.as_str())).collect();
    let _ =
        (schema.auto_relations(&values, "web", &mut |_, _, _| {}), schema.key(&values), schema.parse_title("php-yum"));
    if !reading.faults.is_empty() {
        return;
    }
    assert_eq!(definition::check(&schema), []);
    let printed =
        |data_type: &DataType| data_type.to_string().parse::<DataType>().is_ok_and(|again| again == *data_type);
    if schema.attributes.iter().all(|attribute| printed(&attribute.data_type)) {
        let again = definition::from_value(&definition::to_value(&schema));
        assert_eq!(again.map(|(schema, _)| schema), Ok(schema));
    }
}
