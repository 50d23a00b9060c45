//! The default report of what has changed between two states.

use kilter_model::{Attributes, Behaviour, Difference, TypeSchema, Value};

use super::status::Status;

/// The attributes that differ, as of what should be: those that can be changed and that something was said
/// of. Of a resource that was removed only that.
pub(super) fn differences(
    schema: &TypeSchema,
    is: Option<&Attributes>,
    should: Option<&Attributes>,
) -> Vec<Difference> {
    let none = Attributes::new();
    let found = is.unwrap_or(&none);
    let Some(should) = should.filter(|_| !is_removal(should)) else {
        let removed = schema.is_ensurable() && !is_absent(is);
        let difference = || Difference::new("ensure", "present".into(), "absent".into());
        return removed.then(difference).into_iter().collect();
    };
    let mut differences = Vec::new();
    for attribute in &schema.attributes {
        let name = attribute.name.as_str();
        let can_change = matches!(attribute.behaviour, Behaviour::Property | Behaviour::InitOnly);
        let Some(wanted) = should.get(name).filter(|_| can_change) else { continue };
        let absent = Value::from("absent");
        let found = match found.get(name) {
            None if name == "ensure" => &absent,
            found => found.unwrap_or(&Value::Undef),
        };
        if !found.is_same(wanted) {
            differences.push(sealed(schema, Difference::new(name, found.clone(), wanted.clone())));
        }
    }
    differences
}

/// What became of a resource that went from `is` to `should`.
pub(super) fn status_of(is: Option<&Attributes>, should: Option<&Attributes>, differences: &[Difference]) -> Status {
    match (is_absent(is), is_removal(should)) {
        (true, false) => Status::Created,
        (false, true) => Status::Deleted,
        (true, true) => Status::Unchanged,
        (false, false) if differences.is_empty() => Status::Unchanged,
        (false, false) => Status::Updated,
    }
}

fn is_removal(should: Option<&Attributes>) -> bool {
    should.is_none_or(|attributes| attributes.text("ensure") == Some("absent"))
}

/// Of what is not there nothing is known, unless that it is absent.
fn is_absent(attributes: Option<&Attributes>) -> bool {
    attributes.is_none_or(|attributes| attributes.is_empty() || attributes.text("ensure") == Some("absent"))
}

/// The difference with its values sealed, if one of them is secret. A message that repeats a sealed value is
/// left out.
pub(super) fn sealed(schema: &TypeSchema, mut difference: Difference) -> Difference {
    let by_type = schema.find(difference.attribute.as_str()).is_some_and(|found| found.data_type.may_hold_secrets());
    if !by_type && !difference.is.holds_sensitive() && !difference.should.holds_sensitive() {
        return difference;
    }
    for value in [&mut difference.is, &mut difference.should] {
        if !value.is_undef() {
            *value = Value::sensitive(std::mem::take(value));
        }
    }
    let tells = |message: &str| [&difference.is, &difference.should].iter().any(|value| is_told(value, message));
    if difference.message.as_deref().is_some_and(tells) {
        difference.message = None;
    }
    difference
}

/// Whether `message` holds a scalar of a value.
fn is_told(value: &Value, message: &str) -> bool {
    match value.unwrap_sensitive() {
        Value::Array(values) => values.iter().any(|value| is_told(value, message)),
        Value::Hash(entries) => entries.values().any(|value| is_told(value, message)),
        Value::Undef | Value::Boolean(_) | Value::Binary(_) => false,
        scalar => scalar.to_text().is_some_and(|text| !text.is_empty() && message.contains(text.as_str())),
    }
}
