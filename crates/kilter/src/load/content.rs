//! Contents of files that values name, as included texts.

use ecow::{EcoString, eco_format};
use kilter_manifest::Source;
use kilter_model::Value;

/// Begin of the name of a content among the included texts.
const CONTENT: &str = "content of ";

/// Begin of a text that stands for a content in UTF-8.
const TEXT: &str = "text:";

/// Begin of a text that stands for a content in base64.
const BASE64: &str = "base64:";

/// Returns the name of a content among the included texts. The same file may also be included as a text.
pub(super) fn content_name(path: &str) -> EcoString {
    eco_format!("{CONTENT}{path}")
}

/// Returns a text that stands for the content of a file.
pub(super) fn encoded(name: String, bytes: Vec<u8>) -> Source {
    let text = match String::from_utf8(bytes) {
        Ok(text) => format!("{TEXT}{text}"),
        Err(error) => format!("{BASE64}{}", kilter_model::base64(error.as_bytes())),
    };
    Source::new(name, text)
}

/// Returns the content that a text stands for.
pub(super) fn decoded(source: &Source) -> Result<Value, String> {
    if let Some(text) = source.text.strip_prefix(TEXT) {
        return Ok(Value::from(text));
    }
    let bytes = source.text.strip_prefix(BASE64).and_then(kilter_model::from_base64);
    bytes.map(|bytes| Value::Binary(bytes.into())).ok_or_else(|| "the content is damaged".to_owned())
}
