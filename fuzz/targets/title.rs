//! Title patterns and titles.
//!
//! The input is a pattern and, behind a NUL byte, a title. What must hold: nothing panics or takes
//! for ever (`-timeout` sees to that), and a title agrees with the namevars that it gives.

use kilter_model::{Attributes, Behaviour, TitlePattern, TypeSchema};

/// Holds one input against what must hold.
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
