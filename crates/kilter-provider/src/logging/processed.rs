//! Default report of the changes between two states.

use kilter_model::{Attributes, Behaviour, Difference, TypeSchema, Value};

use super::status::FinalStatus;

/// Returns the declared, changeable attributes that differ, with their desired values. For a removal, the only
/// difference is `ensure`.
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

/// Returns the status of a resource that was brought from `is` to `should`.
pub(super) fn status_of(
    is: Option<&Attributes>,
    should: Option<&Attributes>,
    differences: &[Difference],
) -> FinalStatus {
    match (is_absent(is), is_removal(should)) {
        (true, false) => FinalStatus::Created,
        (false, true) => FinalStatus::Deleted,
        (true, true) => FinalStatus::Unchanged,
        (false, false) if differences.is_empty() => FinalStatus::Unchanged,
        (false, false) => FinalStatus::Updated,
    }
}

fn is_removal(should: Option<&Attributes>) -> bool {
    should.is_none_or(|attributes| attributes.text("ensure") == Some("absent"))
}

/// Returns true for an absent resource. It has no attributes except `ensure`.
fn is_absent(attributes: Option<&Attributes>) -> bool {
    attributes.is_none_or(|attributes| attributes.is_empty() || attributes.text("ensure") == Some("absent"))
}

/// Makes the values of a difference sensitive if any of them is secret. Removes a message that contains a
/// secret.
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

/// Returns true if `message` contains a scalar of a value.
fn is_told(value: &Value, message: &str) -> bool {
    match value.unwrap_sensitive() {
        Value::Array(values) => values.iter().any(|value| is_told(value, message)),
        Value::Hash(entries) => entries.values().any(|value| is_told(value, message)),
        Value::Undef | Value::Boolean(_) | Value::Binary(_) => false,
        scalar => scalar.to_text().is_some_and(|text| !text.is_empty() && message.contains(text.as_str())),
    }
}
