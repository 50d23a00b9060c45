use super::cases::CASES;
use super::*;

/// Form of a test case.
#[derive(Clone, Copy, Debug)]
pub(super) enum Make {
    /// The text is a whole definition.
    Whole,
    /// The text has some keys of a type whose only attribute is the namevar `name`.
    Type,
    /// The text has more attributes of such a type.
    Attributes,
    /// The text has the keys of an attribute `x` of such a type.
    Attribute,
}

impl Make {
    pub(super) fn definition(self, text: &str) -> String {
        let namevar = r#""name": {"type": "String", "desc": "d", "behaviour": "namevar"}"#;
        let head = r#""name": "t", "desc": "d""#;
        match self {
            Make::Whole => text.to_owned(),
            Make::Type => format!("{{{head}, {text}, \"attributes\": {{{namevar}}}}}"),
            Make::Attributes => format!("{{{head}, \"attributes\": {{{namevar}, {text}}}}}"),
            Make::Attribute => format!("{{{head}, \"attributes\": {{{namevar}, \"x\": {{{text}}}}}}}"),
        }
    }
}

#[test]
fn definition_faults_have_places() {
    assert!(CASES.len() >= 80, "{}", CASES.len());
    let mut wrong = String::new();
    for (make, text, expected) in CASES {
        let found = told(&make.definition(text));
        if found != *expected || found.is_empty() {
            wrong += &format!("{make:?} {text}\n{found:#?}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
