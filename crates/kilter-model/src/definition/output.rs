//! Reads outputs of a definition.

use ecow::eco_format;

use super::aliases::Aliases;
use super::attribute;
use super::fault::{Fault, FaultPlace, Path};
use super::read::{Entries, Reader};
use crate::data_type::DataType;
use crate::schema::OutputSchema;
use crate::suggest;
use crate::value::Value;

const KEYS: [&str; 2] = ["type", "desc"];

/// Reads an output: a description, or a hash with its type and description.
pub(super) fn read(name: &str, value: &Value, path: Path, aliases: &Aliases, reader: &mut Reader) -> OutputSchema {
    let mut output = OutputSchema { name: name.into(), data_type: DataType::Any, desc: "".into() };
    match value {
        Value::Hash(table) => {
            let entries = Entries::new(table, path, reader);
            if entries.get("type").is_some() {
                output.data_type = attribute::data_type(&entries, aliases, reader);
            }
            output.desc = reader.desc(&entries, None);
            unknown(&entries, reader);
        }
        other => {
            let what = "a description, or a hash with `type` and `desc`";
            output.desc = reader.text(Some((other, path)), what).unwrap_or_default().into();
        }
    }
    output
}

fn unknown(entries: &Entries<'_>, reader: &mut Reader) {
    for (key, path, _) in entries.iter().filter(|(key, ..)| !KEYS.contains(key)) {
        let near = suggest::nearest(key, KEYS).map(|near| eco_format!("did you mean `{near}`?"));
        let hint = near.unwrap_or_else(|| eco_format!("its keys: {}", KEYS.join(", ")));
        reader.fault(Fault::new(path, eco_format!("an output has no key `{key}`")).at(FaultPlace::Key).hint(hint));
    }
}
