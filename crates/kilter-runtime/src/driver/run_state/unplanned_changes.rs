//! Changes that a provider reports beyond the differences found.

use kilter_model::{Difference, TypeSchema, Value};

/// Returns the entries of `told` that are not in `differences`: other attributes, and other values than the
/// declared ones.
pub(super) fn unplanned_changes(
    schema: &TypeSchema,
    told: &[Difference],
    differences: &[Difference],
) -> Vec<Difference> {
    let is_news = |told: &&Difference| {
        let is_it = |one: &&Difference| one.attribute == told.attribute && one.entry == told.entry;
        match differences.iter().find(is_it) {
            Some(known) => !is_as_wanted(schema, told, &known.should),
            None => !told.is.is_same(&told.should),
        }
    };
    told.iter().filter(is_news).cloned().collect()
}

/// Returns true if the new value of an attribute is the declared one. Without a known type, equal texts count as
/// equal.
fn is_as_wanted(schema: &TypeSchema, told: &Difference, wanted: &Value) -> bool {
    let comparison = schema.known(told.attribute.as_str()).map(|known| known.comparison).unwrap_or_default();
    let is_open = !told.should.holds_sensitive() && !wanted.holds_sensitive();
    comparison.holds(&told.should, wanted) || is_open && told.should.to_string() == wanted.to_string()
}

#[cfg(test)]
mod tests {
    use kilter_model::{Behaviour, Comparison};

    use super::*;

    fn schema() -> TypeSchema {
        let mut schema = TypeSchema::new("thing", "A thing.")
            .attribute("name", "String", Behaviour::Namevar, "Its name.")
            .attribute("size", "Integer", Behaviour::Property, "How large.")
            .attribute("tags", "Array[String]", Behaviour::Property, "Words.");
        schema.attributes[2].comparison = Comparison::Set;
        schema
    }

    fn of(told: Difference, difference: Difference) -> usize {
        unplanned_changes(&schema(), &[told], &[difference]).len()
    }

    #[test]
    fn change_to_the_planned_value_is_no_deviation() {
        let size = || Difference::new("size", 1.into(), 2.into());
        assert_eq!(of(size(), size()), 0);
        assert_eq!(of(Difference::new("size", Value::Undef, 2.into()), size()), 0, "whatever was before");
        let tags = |values: [&str; 2]| Difference::new("tags", Value::Undef, Value::strings(values));
        assert_eq!(of(tags(["a", "b"]), tags(["b", "a"])), 0);
        let other = |value: Value| Difference::new("other", Value::Undef, value);
        assert_eq!(of(other(5.into()), other("5".into())), 0);
    }

    #[test]
    fn another_value_and_another_attribute_are() {
        let size = |should: i64| Difference::new("size", 1.into(), should.into());
        assert_eq!(of(size(3), size(2)), 1);
        assert_eq!(of(size(1), size(2)), 1, "it says that it would leave it");
        assert_eq!(of(size(2).of_entry("x"), size(2)), 1);
        assert_eq!(of(Difference::new("other", 1.into(), 2.into()), size(2)), 1);
        assert_eq!(of(Difference::new("other", 1.into(), 1.into()), size(2)), 0, "that one does not change");
        let secret = |text: &str| Difference::new("other", Value::Undef, Value::sensitive(text.into()));
        assert_eq!((of(secret("one"), secret("two")), of(secret("one"), secret("one"))), (1, 0));
    }
}
