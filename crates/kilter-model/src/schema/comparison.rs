//! Comparisons of current with desired values.

use std::cmp::Ordering;

use ecow::{EcoString, eco_format};

use crate::data_type::DataType;
use crate::expr::compare_versions;
use crate::value::Value;

/// Method of comparing the current value with the desired value.
///
/// Replaces the most common custom code in providers. A provider that compares an attribute itself
/// (`custom_insync`) has priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Comparison {
    /// The values are equal.
    #[default]
    Equal,
    /// The lists have the same elements. Order and duplicates do not matter.
    Set,
    /// The current list or hash contains all desired elements or entries.
    Subset,
    /// The values are equal, ignoring case.
    CaseInsensitive,
    /// The values have the same words, ignoring white space. Numbers count as words.
    Words,
    /// The current number or version is at least the desired one.
    AtLeast,
    /// The current number or version is at most the desired one.
    AtMost,
    /// The current version satisfies the desired bounds: `">= 1.2, < 2"`.
    Bounds,
}

impl Comparison {
    /// All comparisons.
    pub const ALL: [Comparison; 8] = [
        Comparison::Equal,
        Comparison::Set,
        Comparison::Subset,
        Comparison::CaseInsensitive,
        Comparison::Words,
        Comparison::AtLeast,
        Comparison::AtMost,
        Comparison::Bounds,
    ];

    /// Returns the keyword in definitions and output.
    pub fn word(self) -> &'static str {
        match self {
            Comparison::Equal => "equal",
            Comparison::Set => "set",
            Comparison::Subset => "subset",
            Comparison::CaseInsensitive => "case_insensitive",
            Comparison::Words => "words",
            Comparison::AtLeast => "at_least",
            Comparison::AtMost => "at_most",
            Comparison::Bounds => "bounds",
        }
    }

    /// Returns the comparison of a keyword.
    pub fn from_word(word: &str) -> Option<Comparison> {
        Comparison::ALL.into_iter().find(|comparison| comparison.word() == word)
    }

    /// Returns true if `is` satisfies `should`. Values that the comparison does not support are tested for
    /// equality.
    pub fn holds(self, is: &Value, should: &Value) -> bool {
        let (is, should) = (is.unwrap_sensitive(), should.unwrap_sensitive());
        match (self, is, should) {
            (Comparison::Set, Value::Array(is), Value::Array(should)) => {
                is.iter().all(|one| holds_one(should, one)) && should.iter().all(|one| holds_one(is, one))
            }
            (Comparison::Subset, Value::Array(is), Value::Array(should)) => {
                should.iter().all(|wanted| holds_one(is, wanted))
            }
            (Comparison::Subset, Value::Array(is), wanted) => holds_one(is, wanted),
            (Comparison::Subset, Value::Hash(is), Value::Hash(should)) => {
                should.iter().all(|(key, wanted)| is.get(key).is_some_and(|is| is.is_same(wanted)))
            }
            (Comparison::CaseInsensitive, is, should) => same_but_capitals(is, should),
            (Comparison::Words, is, should) => same_words(is, should),
            (Comparison::AtLeast, is, should) => order(is, should).map_or_else(|| is.is_same(should), Ordering::is_ge),
            (Comparison::AtMost, is, should) => order(is, should).map_or_else(|| is.is_same(should), Ordering::is_le),
            (Comparison::Bounds, is, Value::String(bounds)) => match parse_bounds(bounds) {
                Some(bounds) => bounds.iter().all(|bound| bound.holds(is)),
                None => is == should,
            },
            (_, is, should) => is.is_same(should),
        }
    }

    /// Returns a text to show instead of "is → should" if the comparison has a better one. Returns none for
    /// sensitive values.
    pub fn explain(self, is: &Value, should: &Value) -> Option<EcoString> {
        if is.holds_sensitive() || should.holds_sensitive() {
            return None;
        }
        match (self, is, should) {
            (Comparison::Subset, Value::Array(is), Value::Array(should)) => {
                let missing = should.iter().filter(|wanted| !holds_one(is, wanted));
                let missing: Vec<String> = missing.map(ToString::to_string).collect();
                Some(eco_format!("adding missing members {}", missing.join(", ")))
            }
            (Comparison::Subset, Value::Hash(is), Value::Hash(should)) => {
                let missing = should.iter().filter(|(key, wanted)| is.get(*key) != Some(*wanted));
                let missing: Vec<String> = missing.map(|(key, wanted)| format!("{key}: {wanted}")).collect();
                Some(eco_format!("setting entries {}", missing.join(", ")))
            }
            (Comparison::AtLeast, is, should) if !is.is_undef() => Some(eco_format!("{is} is less than {should}")),
            (Comparison::AtMost, is, should) if !is.is_undef() => Some(eco_format!("{is} is more than {should}")),
            (Comparison::Bounds, is, should) if !is.is_undef() => {
                Some(eco_format!("{is} is not within the bounds {should}"))
            }
            _ => None,
        }
    }

    /// Returns the kinds of values that the comparison requires, or none if `data_type` includes such values.
    pub(crate) fn lacks(self, data_type: &DataType) -> Option<&'static str> {
        use Sort::{Hash, List, Number, Text};
        let (sorts, wanted): (&[Sort], _) = match self {
            Comparison::Equal => return None,
            Comparison::Set => (&[List], "arrays"),
            Comparison::Subset => (&[List, Hash], "arrays or hashes"),
            Comparison::CaseInsensitive => (&[Text, List], "texts"),
            Comparison::AtLeast | Comparison::AtMost => (&[Number, Text], "numbers or versions"),
            Comparison::Words | Comparison::Bounds => (&[Text], "texts"),
        };
        (!sorts.iter().any(|sort| takes(data_type, *sort))).then_some(wanted)
    }
}

/// Kinds of values for which comparisons exist.
#[derive(Clone, Copy, PartialEq)]
enum Sort {
    List,
    Hash,
    Text,
    Number,
}

/// Returns true if the type may include values of this kind.
fn takes(data_type: &DataType, sort: Sort) -> bool {
    match &*data_type.open() {
        DataType::Undef | DataType::Boolean(_) | DataType::Binary | DataType::Regexp(_) | DataType::Type(_) => false,
        DataType::Integer(..) | DataType::Float(..) | DataType::Numeric => sort == Sort::Number,
        DataType::String(..)
        | DataType::Enum(_)
        | DataType::EnumAnyCase(_)
        | DataType::Literal(_)
        | DataType::Pattern(_) => sort == Sort::Text,
        DataType::Array(..) | DataType::Tuple(..) => sort == Sort::List,
        DataType::Hash(..) | DataType::Struct(_) => sort == Sort::Hash,
        DataType::Variant(types) => types.iter().any(|data_type| takes(data_type, sort)),
        _ => true,
    }
}

fn holds_one(values: &[Value], wanted: &Value) -> bool {
    values.iter().any(|value| value.is_same(wanted))
}

fn same_but_capitals(is: &Value, should: &Value) -> bool {
    match (is.unwrap_sensitive(), should.unwrap_sensitive()) {
        (Value::String(is), Value::String(should)) => is.to_lowercase() == should.to_lowercase(),
        (Value::Array(is), Value::Array(should)) => {
            is.len() == should.len() && is.iter().zip(should.iter()).all(|(is, should)| same_but_capitals(is, should))
        }
        (is, should) => is.is_same(should),
    }
}

fn same_words(is: &Value, should: &Value) -> bool {
    match (is.to_text(), should.to_text()) {
        (Some(is), Some(should)) => is.split_whitespace().eq(should.split_whitespace()),
        _ => is.is_same(should),
    }
}

/// Returns the order of two numbers, or of two texts as versions.
fn order(is: &Value, should: &Value) -> Option<Ordering> {
    match (is, should) {
        (Value::Integer(is), Value::Integer(should)) => Some(is.cmp(should)),
        (Value::Integer(is), Value::Float(should)) => (*is as f64).partial_cmp(should),
        (Value::Float(is), Value::Integer(should)) => is.partial_cmp(&(*should as f64)),
        (Value::Float(is), Value::Float(should)) => is.partial_cmp(should),
        (Value::String(is), Value::String(should)) => Some(compare_versions(is, should)),
        _ => None,
    }
}

/// A single bound in `">= 1.2, < 2"`.
struct VersionBound<'a> {
    operator: &'a str,
    version: &'a str,
}

impl VersionBound<'_> {
    fn holds(&self, is: &Value) -> bool {
        let Some(is) = is.to_text() else { return false };
        let order = compare_versions(&is, self.version);
        match self.operator {
            ">=" => order.is_ge(),
            "<=" => order.is_le(),
            ">" => order.is_gt(),
            "<" => order.is_lt(),
            "!=" => order.is_ne(),
            _ => order.is_eq(),
        }
    }
}

/// Parses bounds separated by commas. Returns none if a bound has no version.
fn parse_bounds(text: &str) -> Option<Vec<VersionBound<'_>>> {
    let bound = |text| {
        let text = str::trim(text);
        let end = text.find(|c| !matches!(c, '<' | '>' | '=' | '!')).unwrap_or(text.len());
        let (operator, version) = (&text[..end], text[end..].trim());
        let known = matches!(operator, "" | "=" | "==" | "!=" | "<" | "<=" | ">" | ">=");
        (known && !version.is_empty()).then_some(VersionBound { operator, version })
    };
    text.split(',').map(bound).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(comparison: Comparison, is: impl Into<Value>, should: impl Into<Value>) -> bool {
        comparison.holds(&is.into(), &should.into())
    }

    #[test]
    fn set_comparison_ignores_order_and_repetition() {
        let list = |words: &[&str]| Value::strings(words.iter().copied());
        assert!(holds(Comparison::Set, list(&["a", "b", "a"]), list(&["b", "a"])));
        assert!(!holds(Comparison::Set, list(&["a", "b"]), list(&["a"])));
        assert!(!holds(Comparison::Set, list(&["a"]), list(&["a", "b"])));
        assert!(!holds(Comparison::Equal, list(&["a", "b"]), list(&["b", "a"])));
        assert!(holds(Comparison::Equal, f64::NAN, f64::NAN) && !holds(Comparison::Equal, f64::NAN, 1.0));
    }

    #[test]
    fn words_comparison_ignores_white_space() {
        assert!(holds(Comparison::Words, "4096\t87380\t6291456", "4096 87380  6291456\n"));
        assert!(holds(Comparison::Words, "1", 1) && holds(Comparison::Words, "", " "));
        assert!(!holds(Comparison::Words, "1 2", "12") && !holds(Comparison::Words, "1 2", "2 1"));
        assert!(!holds(Comparison::Words, Value::Undef, ""));
        assert!(!holds(Comparison::Equal, "1 2", "1  2"));
    }

    #[test]
    fn subset_comparison_accepts_additional_values() {
        let list = |words: &[&str]| Value::strings(words.iter().copied());
        let (is, should) = (list(&["a", "b"]), list(&["b", "c", "d"]));
        assert!(holds(Comparison::Subset, is.clone(), list(&["b"])));
        assert!(holds(Comparison::Subset, is.clone(), "a"));
        assert!(!holds(Comparison::Subset, is.clone(), should.clone()));
        assert_eq!(Comparison::Subset.explain(&is, &should).unwrap(), "adding missing members c, d");
        let hash = Value::hash([("a", Value::Integer(1)), ("b", Value::Integer(2))]);
        assert!(holds(Comparison::Subset, hash.clone(), Value::hash([("b", Value::Integer(2))])));
        assert!(!holds(Comparison::Subset, hash, Value::hash([("b", Value::Integer(3))])));
    }

    #[test]
    fn caseless_comparison_ignores_case() {
        assert!(holds(Comparison::CaseInsensitive, "FooBar", "fooBAR"));
        assert!(holds(Comparison::CaseInsensitive, Value::strings(["ÄB"]), Value::strings(["äb"])));
        assert!(!holds(Comparison::CaseInsensitive, "a", "b"));
        assert!(!holds(Comparison::Equal, "A", "a"));
    }

    #[test]
    fn bounds_apply_to_numbers_and_versions() {
        assert!(holds(Comparison::AtLeast, 5_i64, 3_i64) && !holds(Comparison::AtLeast, 2_i64, 3_i64));
        assert!(holds(Comparison::AtLeast, "1.10", "1.9") && !holds(Comparison::AtMost, "1.10", "1.9"));
        assert!(holds(Comparison::AtMost, Value::Float(0.5), 1_i64));
        assert!(!holds(Comparison::AtLeast, Value::Undef, 3_i64));
        assert!(holds(Comparison::Bounds, "2.4.1", "> 2.0.0, < 3"));
        assert!(!holds(Comparison::Bounds, "1.2.3", "> 2.0.0"));
        assert!(holds(Comparison::Bounds, "1.2.3", "1.2.3") && !holds(Comparison::Bounds, "1.2.3", "~~"));
        assert!(!holds(Comparison::Bounds, Value::Undef, "> 1"));
    }

    #[test]
    fn comparison_never_shows_secrets() {
        let (is, should) = (Value::sensitive(Value::strings(["a"])), Value::sensitive(Value::strings(["b"])));
        assert!(!Comparison::Subset.holds(&is, &should));
        assert!(Comparison::Subset.holds(&is, &Value::strings(["a"])));
        assert_eq!(Comparison::Subset.explain(&is, &should), None);
        let nested = |inner: Value| Value::array([Value::hash([("a", inner)]), "b".into()]);
        for comparison in Comparison::ALL {
            let sealed = nested(Value::sensitive("x".into()));
            assert!(comparison.holds(&nested("x".into()), &sealed), "{comparison:?}");
            assert!(!comparison.holds(&nested("y".into()), &sealed), "{comparison:?}");
        }
    }
}
