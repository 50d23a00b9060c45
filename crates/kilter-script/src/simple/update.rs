//! Parses the changes reported by an update.

use ecow::EcoString;
use kilter_model::Value;

use super::decode::{MOST, body, entry, too_many, unknown};
use crate::convention::size::{AllocationCounter, MemoryBudget};
use crate::convention::{AttributeChange, ChangeReport, ProtocolError, attribute_name, beginning};

/// Parses the output of an update of `asked`.
pub(super) fn decode(text: &str, asked: &str, room: MemoryBudget) -> Result<ChangeReport, ProtocolError> {
    let name = EcoString::from(asked);
    let (mut report, mut made) = (ChangeReport::default(), AllocationCounter::new(room, text));
    for (number, line) in body(text)? {
        // libral's documentation contains an example of this line without a colon.
        if line == "ral_derive true" {
            report.derive = true;
            continue;
        }
        let (key, value) = entry(number, line)?;
        match key {
            "name" if value == asked => report.told = vec![name.clone()],
            "name" => {
                return Err(ProtocolError::OtherName { told: beginning(value, 80), asked: beginning(asked, 80) });
            }
            "ral_derive" => match value.to_ascii_lowercase().as_str() {
                "true" => report.derive = true,
                "false" => report.derive = false,
                _ => return Err(ProtocolError::line(number, line, "`ral_derive` is true or false")),
            },
            "ral_unknown" if !value.eq_ignore_ascii_case("false") => {
                report.errors = vec![(name.clone(), unknown(asked))];
            }
            "ral_unknown" => {}
            "ral_was" => match report.changes.last_mut() {
                Some(last) => last.was = Value::String(value.into()),
                None => {
                    return Err(ProtocolError::line(number, line, "`ral_was` comes after the attribute it is about"));
                }
            },
            _ if report.changes.len() >= MOST => return Err(too_many(number, line)),
            key => {
                made.value()?;
                let key = attribute_name(key).map_err(|why| ProtocolError::line(number, line, why))?;
                report.changes.retain(|change| change.attribute != key);
                let (attribute, is) = (key.into(), Value::String(value.into()));
                report.changes.push(AttributeChange { name: name.clone(), attribute, is, was: Value::Undef });
            }
        }
    }
    Ok(report)
}
