//! Fuzzes title patterns and titles.
//!
//! The input is a pattern, optionally followed by a NUL byte and a title. Properties:
//!
//! - It does not panic and ends in bounded time (`-timeout` checks that).
//! - A title agrees with its namevars.

use kilter_model::{Attributes, Behaviour, TitlePattern, TypeSchema};

/// Checks the properties for an input.
pub(crate) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (pattern, title) = text.split_once('\0').unwrap_or((text, "php-yum"));
    let mut schema = TypeSchema::new("t", "").title_pattern(pattern, "");
    let Ok(names) = TitlePattern::new(pattern, "").names() else { return };
    for name in &names {
        schema = schema.attribute(name, "Variant[Integer, String]", Behaviour::Namevar, "");
    }
    if let Ok(namevars) = schema.parse_title(title) {
        let attributes: Attributes = namevars.into_iter().collect();
        assert_eq!(schema.check_title(title, &attributes), Ok(()));
        assert_eq!(schema.key(&attributes).is_some(), !names.is_empty() && attributes.len() == names.len());
    }
}
