//! Fuzzes the parser of data types, with checks, messages and command-line words.
//!
//! The input is a data type, optionally followed by a NUL byte and a value as JSON or a word. Properties:
//!
//! - It does not panic.
//! - A printed type can be parsed again.
//! - A check and its message agree.
//! - The time grows linearly with the input (`-timeout` checks that).

use kilter_model::{DataType, Value, from_canonical_json, to_canonical_json_clear};

/// Checks the properties for an input.
pub(crate) fn run(data: &[u8]) {
    let (text, rest) = match data.iter().position(|byte| *byte == 0) {
        Some(at) => (&data[..at], &data[at + 1..]),
        None => (data, &b""[..]),
    };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let _ = DataType::parse_libral(text);
    let Ok(data_type) = text.parse::<DataType>() else { return };
    let printed = data_type.to_string();
    let again: DataType = printed.parse().unwrap_or_else(|error| panic!("{text} is printed as {printed}: {error}"));
    assert_eq!(again.to_string(), printed, "{text}");
    assert!(data_type.accepts_type(&data_type), "{text}");

    let word = String::from_utf8_lossy(rest);
    if let Ok(value) = data_type.parse_word(&word) {
        assert!(data_type.check(&value).is_ok(), "{printed} <- {word}");
    }
    let value = serde_json::from_slice(rest).ok().and_then(|json| from_canonical_json(&json).ok());
    let value = value.unwrap_or_else(|| Value::from_bytes(rest));
    for mismatch in [data_type.check(&value), data_type.check_sealed(&value)].into_iter().filter_map(Result::err) {
        assert!(!mismatch.faults().is_empty());
        let _ = (mismatch.to_string(), mismatch.of("t.x").to_string());
    }
    let sealed = data_type.sealed(value.clone());
    assert!(sealed.is_same(&value) && data_type.sealed(sealed.clone()) == sealed, "{printed}");
    assert_eq!(data_type.check(&sealed).is_ok(), data_type.check(&value).is_ok(), "{printed}");
    let inferred = DataType::infer(&value).to_string();
    assert!(!inferred.is_empty());
    let json = to_canonical_json_clear(&value);
    let back = from_canonical_json(&json).expect("what was written is read");
    assert_eq!(to_canonical_json_clear(&back), json);
}
