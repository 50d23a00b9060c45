//! Data types in the notation of libral.

use super::DataType;
use super::parse::DataTypeError;

impl DataType {
    /// Parses a data type of libral's metadata: `string`, `boolean`, `array[string]` or `enum[a, b]`.
    ///
    /// # Errors
    /// If `text` is none of these.
    pub fn parse_libral(text: &str) -> Result<DataType, DataTypeError> {
        let trimmed = text.trim();
        let error = |why: &str| DataTypeError::new(text, why, 0);
        if let Some(words) = inside(trimmed, "enum") {
            let words: Vec<&str> = words.split(',').map(str::trim).collect();
            return match words.iter().all(|word| !word.is_empty() && !word.contains(['[', ']'])) {
                true => Ok(DataType::words(words)),
                false => Err(error("enum takes words with commas between, as in enum[a, b]")),
            };
        }
        if let Some(of) = inside(trimmed, "array") {
            return match of.trim() {
                "string" => Ok(DataType::Array(Box::new(DataType::text()), None, None)),
                _ => Err(error("the only array is array[string]")),
            };
        }
        match trimmed {
            "string" => Ok(DataType::text()),
            "boolean" => Ok(DataType::Boolean(None)),
            _ => Err(error("the types are string, boolean, array[string] and enum[a, b]")),
        }
    }
}

/// Returns the text in brackets after a name.
fn inside<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.strip_prefix(name)?.trim_start().strip_prefix('[')?.strip_suffix(']')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libral_types_map_to_puppet_types() {
        for (libral, puppet) in [
            ("string", "String"),
            ("boolean", "Boolean"),
            ("array[string]", "Array[String]"),
            ("enum[a, b]", "Enum['a', 'b']"),
            (" enum [ on-failure,b ] ", "Enum['on-failure', 'b']"),
        ] {
            assert_eq!(DataType::parse_libral(libral).unwrap().to_string(), puppet);
        }
        for wrong in ["String", "enum", "enum[]", "enum[a,]", "array", "array[boolean]", "array[enum[a]]", ""] {
            assert!(DataType::parse_libral(wrong).is_err(), "{wrong}");
        }
    }
}
