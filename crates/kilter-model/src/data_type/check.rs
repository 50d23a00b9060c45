//! Type checks of values.

use std::cell::Cell;

use super::alias::Aliases;
use super::assign::{Seals, is_scalar_data, within_size};
use super::describe::describe;
use super::mismatch::Mismatch;
use super::{DataType, Field};
use crate::value::{Hash, Value};

impl DataType {
    /// Checks that `value` is of this type.
    ///
    /// Ignores sensitivity: a type that accepts the content also accepts the secret, and a `Sensitive` type
    /// accepts its plain content, which then becomes sensitive.
    ///
    /// # Errors
    /// Reports the parts that do not match and the types expected there.
    pub fn check(&self, value: &Value) -> Result<(), Mismatch> {
        self.checked(value, Seals::Ignored)
    }

    /// Returns true if a quick test shows that `value` is of this type and contains no secrets. This covers
    /// most values of most types. False means that the result is unknown.
    #[inline]
    pub fn is_plainly(&self, value: &Value) -> bool {
        match (self, value) {
            (DataType::String(None, None), Value::String(_))
            | (DataType::Integer(None, None), Value::Integer(_))
            | (DataType::Boolean(None), Value::Boolean(_)) => true,
            (DataType::Enum(words), Value::String(text)) => words.contains(text),
            _ => false,
        }
    }

    /// Returns true if `value` is of this type. Unlike [`DataType::check`], it does not describe the mismatch,
    /// which can take more memory than a large value itself.
    pub fn accepts(&self, value: &Value) -> bool {
        let fuel = Fuel { left: Cell::new(FUEL), whole: Cell::new(Some(value)) };
        fits(self, value, CheckScope { seals: Seals::Ignored, table: None, fuel: &fuel })
    }

    /// Checks that `value` is of this type and that exactly the parts declared `Sensitive` are sensitive, as in
    /// Puppet.
    ///
    /// # Errors
    /// Reports the parts that do not match and the types expected there.
    pub fn check_sealed(&self, value: &Value) -> Result<(), Mismatch> {
        self.checked(value, Seals::Exact)
    }

    fn checked(&self, value: &Value, seals: Seals) -> Result<(), Mismatch> {
        let fuel = Fuel { left: Cell::new(FUEL), whole: Cell::new(Some(value)) };
        match fits(self, value, CheckScope { seals, table: None, fuel: &fuel }) {
            true => Ok(()),
            false if fuel.left.get() == 0 => Err(Mismatch::endless(self)),
            false => Err(describe(self, value, seals)),
        }
    }
}

/// Maximum number of alias lookups per value, and the additional lookups per part of the value. Without a
/// limit, a type with several recursive branches would try all of them at each level of a value.
const FUEL: u64 = 10_000;
const FUEL_EACH: u64 = 16;

/// Remaining alias lookups of a check.
struct Fuel<'a> {
    left: Cell<u64>,
    /// The checked value, until its parts have been counted.
    whole: Cell<Option<&'a Value>>,
}

impl Fuel<'_> {
    /// Uses one lookup. Returns false if none is left.
    fn burn(&self) -> bool {
        match self.left.get() {
            // The parts are counted only if the basic limit is not enough, because most values are small.
            0 => false,
            1 => match self.whole.take() {
                Some(value) => {
                    self.left.set(1 + FUEL_EACH * parts(value));
                    true
                }
                None => {
                    self.left.set(0);
                    false
                }
            },
            left => {
                self.left.set(left - 1);
                true
            }
        }
    }
}

fn parts(value: &Value) -> u64 {
    match value.unwrap_sensitive() {
        Value::Array(values) => 1 + values.iter().map(parts).sum::<u64>(),
        Value::Hash(entries) => 1 + entries.values().map(parts).sum::<u64>(),
        _ => 1,
    }
}

/// Context of a check.
#[derive(Clone, Copy)]
struct CheckScope<'a> {
    seals: Seals,
    /// Definitions of the names in the type, inside an alias.
    table: Option<&'a Aliases>,
    fuel: &'a Fuel<'a>,
}

impl CheckScope<'_> {
    /// Returns a component type with its names resolved.
    fn resolved(self, part: &DataType) -> DataType {
        self.table.map_or_else(|| part.clone(), |table| part.resolve(table))
    }
}

fn fits<'a>(data_type: &'a DataType, value: &Value, scope: CheckScope<'a>) -> bool {
    let value = match scope.seals {
        Seals::Ignored => value.unwrap_sensitive(),
        Seals::Exact => value,
    };
    match (data_type, value) {
        (DataType::Any | DataType::RichData | DataType::Unit, _)
        | (DataType::Undef | DataType::Optional(_), Value::Undef)
        | (DataType::Default, Value::Default)
        | (DataType::Numeric, Value::Integer(_))
        | (DataType::Binary, Value::Binary(_))
        | (DataType::SemVerRange, Value::SemVerRange(_)) => true,
        (DataType::Boolean(wanted), Value::Boolean(truth)) => wanted.is_none_or(|w| w == *truth),
        (DataType::Integer(from, to), Value::Integer(n)) => within(n, from, to),
        (DataType::Numeric, Value::Float(n)) => !n.is_nan(),
        (DataType::Float(from, to), Value::Float(n)) => !n.is_nan() && within(n, from, to),
        (DataType::String(None, None), Value::String(_)) => true,
        (DataType::String(from, to), Value::String(text)) => sized(text.chars().count(), from, to),
        (DataType::Literal(word), Value::String(text)) => word == text,
        (DataType::Enum(words), Value::String(text)) => words.contains(text),
        (DataType::EnumAnyCase(words), Value::String(text)) => words.iter().any(|word| word.eq_ignore_ascii_case(text)),
        (DataType::Pattern(patterns), Value::String(text)) => {
            patterns.is_empty() || patterns.iter().any(|pattern| pattern.is_match(text).unwrap_or(false))
        }
        (DataType::Regexp(wanted), Value::Regexp(regexp)) => wanted.as_ref().is_none_or(|w| w == regexp),
        (DataType::Timestamp(from, to), Value::Timestamp(time)) => within(time, from, to),
        (DataType::Timespan(from, to), Value::Timespan(span)) => within(span, from, to),
        (DataType::SemVer(ranges), Value::SemVer(version)) => {
            ranges.is_empty() || ranges.iter().any(|range| range.includes(version))
        }
        (DataType::Array(of, from, to), Value::Array(values)) => {
            sized(values.len(), from, to) && values.iter().all(|value| fits(of, value, scope))
        }
        (DataType::Tuple(types, from, to), Value::Array(values)) => {
            let (least, most) = super::assign::tuple_size(types, from, to);
            let at = |index: usize| types.get(index).or(types.last());
            sized(values.len(), &Some(least), &most)
                && values.iter().enumerate().all(|(i, value)| at(i).is_none_or(|t| fits(t, value, scope)))
        }
        (DataType::Hash(keys, of, from, to), Value::Hash(entries)) => {
            sized(entries.len(), from, to)
                && entries.values().all(|value| fits(of, value, scope))
                && (is_any_text(keys) || entries.keys().all(|key| fits(keys, &Value::String(key.clone()), scope)))
        }
        (DataType::Struct(fields), Value::Hash(entries)) => fits_struct(fields, entries, scope),
        (DataType::Collection(from, to), Value::Array(values)) => sized(values.len(), from, to),
        (DataType::Collection(from, to), Value::Hash(entries)) => sized(entries.len(), from, to),
        (DataType::Variant(types), value) => types.iter().any(|part| fits(part, value, scope)),
        (DataType::Optional(inner), value) => fits(inner, value, scope),
        (DataType::Sensitive(inner), Value::Sensitive(value)) => fits(inner, value, scope),
        (DataType::Sensitive(inner), value) => scope.seals == Seals::Ignored && fits(inner, value, scope),
        (DataType::NotUndef(inner), value) => !value.is_undef() && fits(inner, value, scope),
        (DataType::Scalar, value) => is_scalar(value),
        (DataType::ScalarData, value) => is_plain(value),
        (DataType::Data, value) => is_data(value, scope.seals),
        (DataType::Type(of), Value::Type(value)) => **of == DataType::Any || scope.resolved(of).accepts_type(value),
        (DataType::Iterable(of), value) => fits_elements(of, value, scope),
        (DataType::Init(of), value) => fits(of, value, scope) || stands_for(&scope.resolved(of), value),
        (DataType::Alias(alias), value) => {
            scope.fuel.burn() && fits(alias.body(), value, CheckScope { table: Some(&alias.table), ..scope })
        }
        (DataType::TypeReference(name), value) => {
            let definition = scope.table.and_then(|table| table.definition(name));
            definition.is_some_and(|definition| scope.fuel.burn() && fits(definition, value, scope))
        }
        _ => false,
    }
}

fn within<T: PartialOrd>(n: &T, from: &Option<T>, to: &Option<T>) -> bool {
    from.as_ref().is_none_or(|from| from <= n) && to.as_ref().is_none_or(|to| n <= to)
}

fn sized(count: usize, from: &Option<u64>, to: &Option<u64>) -> bool {
    within_size(from, to, count as u64, Some(count as u64))
}

fn is_any_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Any | DataType::String(None, None) | DataType::Scalar | DataType::ScalarData)
}

fn fits_struct<'a>(fields: &'a [Field], entries: &Hash, scope: CheckScope<'a>) -> bool {
    let mut matched = 0;
    let fit = fields.iter().all(|field| match entries.get(&field.name) {
        None => field.optional,
        Some(value) => {
            matched += 1;
            fits(&field.data_type, value, scope)
        }
    });
    fit && matched == entries.len()
}

fn is_plain(value: &Value) -> bool {
    matches!(value, Value::String(_) | Value::Integer(_) | Value::Float(_) | Value::Boolean(_))
}

fn is_scalar(value: &Value) -> bool {
    let rich = matches!(
        value,
        Value::Regexp(_) | Value::SemVer(_) | Value::SemVerRange(_) | Value::Timestamp(_) | Value::Timespan(_)
    );
    rich || is_plain(value)
}

fn is_data(value: &Value, seals: Seals) -> bool {
    match value {
        Value::Sensitive(inner) => seals == Seals::Ignored && is_data(inner, seals),
        Value::Undef => true,
        Value::Array(values) => values.iter().all(|value| is_data(value, seals)),
        Value::Hash(entries) => entries.values().all(|value| is_data(value, seals)),
        other => is_plain(other),
    }
}

/// Returns true if a value can be iterated over and all its elements are of type `of`.
fn fits_elements<'a>(of: &'a DataType, value: &Value, scope: CheckScope<'a>) -> bool {
    match value {
        Value::Array(values) => values.iter().all(|value| fits(of, value, scope)),
        Value::Hash(_) if *of == DataType::Any => true,
        Value::Hash(entries) if entries.is_empty() => {
            scope.resolved(of).takes(&DataType::Tuple(vec![DataType::Unit, DataType::Unit], None, None), scope.seals)
        }
        Value::Hash(entries) => entries.iter().all(|(key, value)| {
            let pair = Value::array([Value::String(key.clone()), value.clone()]);
            fits(of, &pair, scope)
        }),
        // Elements of a text are its characters. Elements of an integer are the smaller integers. Elements of a
        // type are its values.
        Value::String(_) => scope.resolved(of).takes(&DataType::String(Some(1), Some(1)), scope.seals),
        Value::Integer(number) if *of == DataType::Any => *number >= 0,
        Value::Integer(_) => scope.resolved(of).takes(&DataType::Integer(None, None), scope.seals),
        Value::Type(data_type) => {
            let iterable = DataType::Iterable(Box::new(scope.resolved(of)));
            iterable.takes(&DataType::Type(Box::new((**data_type).clone())), scope.seals)
        }
        _ => false,
    }
}

/// Returns true if a text can be converted to a value of the type.
fn stands_for(of: &DataType, value: &Value) -> bool {
    match value {
        Value::String(text) => of.parse_word(text).is_ok(),
        Value::Integer(_) => is_scalar_data(of) && matches!(of, DataType::Float(..) | DataType::Numeric),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(data_type: &str, value: Value) -> String {
        data_type.parse::<DataType>().unwrap().check(&value).unwrap_err().to_string()
    }

    #[test]
    fn quick_check_agrees_with_full_check() {
        let types = [
            "String",
            "String[2]",
            "Integer",
            "Integer[2]",
            "Boolean",
            "Boolean[false]",
            "Enum['a', 'b']",
            "Any",
            "Sensitive[String]",
        ];
        let values = [
            Value::from("a"),
            Value::from("c"),
            Value::Integer(1),
            Value::Boolean(true),
            Value::Undef,
            Value::array([]),
        ];
        let mut plain = Vec::new();
        for data_type in types {
            let parsed: DataType = data_type.parse().unwrap();
            for value in values.iter().filter(|value| parsed.is_plainly(value)) {
                assert!(parsed.accepts(value), "{data_type}: {value}");
                assert_eq!(parsed.sealed(value.clone()), *value, "{data_type}");
                plain.push(format!("{data_type}: {value}"));
            }
        }
        assert_eq!(plain, ["String: a", "String: c", "Integer: 1", "Boolean: true", "Enum['a', 'b']: a"]);
    }

    #[test]
    fn mismatch_uses_puppet_wording() {
        assert_eq!(refused("Integer", "x".into()), "expects an Integer value, got String");
        assert_eq!(refused("Integer[-1]", Value::Integer(-2)), "expects an Integer[-1] value, got -2");
        assert_eq!(refused("Float[0.0, 1.0]", Value::Float(1.5)), "expects a Float[0.0, 1.0] value, got 1.5");
        let sealed = refused("Sensitive[Integer[0]]", Value::sensitive(Value::Integer(-2)));
        assert!(!sealed.contains("-2"), "{sealed}");
        assert_eq!(
            refused("Enum[present, absent]", "x".into()),
            "expects a match for Enum['absent', 'present'], got 'x'"
        );
        assert_eq!(refused("Array[Integer]", Value::strings(["a"])), "index 0 expects an Integer value, got String");
        assert_eq!(refused("Array[String, 1]", Value::array([])), "expects size to be at least 1, got 0");
    }

    #[test]
    fn sensitive_value_matches_type_of_its_content() {
        let secret = Value::sensitive("x".into());
        let sealed = DataType::Sensitive(Box::new(DataType::text()));
        assert!(DataType::text().check(&secret).is_ok());
        assert!(sealed.check(&"x".into()).is_ok());
        assert!(DataType::Integer(None, None).check(&secret).is_err());
        assert!(DataType::text().check_sealed(&secret).is_err());
        assert!(sealed.check_sealed(&"x".into()).is_err());
        assert!(sealed.check_sealed(&secret).is_ok());
    }

    #[test]
    fn mismatch_message_hides_secret() {
        let secret = |value: Value| Value::sensitive(value);
        for (data_type, value) in [
            ("Enum[a, b]", secret("hunter2".into())),
            ("Sensitive[Enum[a, b]]", "hunter2".into()),
            ("Sensitive[Enum[a, b]]", secret("hunter2".into())),
            ("Sensitive[Integer[0, 3]]", Value::Integer(4711)),
            ("Integer[0, 3]", secret(Value::Integer(4711))),
            (
                "Struct[{a => Sensitive[Integer[0, 3]], b => Enum[x]}]",
                Value::hash([("a", Value::Integer(4711)), ("b", "hunter2".into())]),
            ),
            ("Array[Sensitive[Enum[a]]]", Value::array([secret("hunter2".into())])),
            (
                "Variant[Sensitive[Integer[1, 2]], Enum[a]]",
                secret(Value::array([Value::Integer(4711), "hunter2".into()])),
            ),
            ("Hash[String, Integer]", secret(Value::hash([("hunter2", Value::from("4711"))]))),
            ("Sensitive[Hash[Enum[a], Integer]]", secret(Value::hash([("hunter2", Value::Integer(4711))]))),
        ] {
            let data_type: DataType = data_type.parse().unwrap();
            let mismatches = [data_type.check(&value), data_type.check_sealed(&value)].map(Result::unwrap_err);
            let [loose, exact] = mismatches.map(|mismatch| mismatch.of("t.x").to_string());
            assert!(!(loose.contains("hunter2") || loose.contains("4711")), "{loose}");
            // A part that is not sensitive may appear in the message if sensitivity is checked exactly.
            let told = exact.contains("hunter2") || exact.contains("4711");
            assert!(!value.holds_sensitive() || !told, "{exact}");
        }
    }

    #[test]
    fn ambiguously_recursive_type_is_refused() {
        let definition = "Variant[Array[T, 0, 1], Array[T, 0, 2], Array[T, 0, 3], Integer]".parse().unwrap();
        let aliases = Aliases::new([("T".into(), definition)]).unwrap();
        let repeating = aliases.get("T").unwrap();
        let nested = |levels: usize, leaf: Value| (0..levels).fold(leaf, |inner, _| Value::array([inner]));
        assert!(repeating.check(&nested(100, Value::Integer(1))).is_ok());
        let mismatch = repeating.check(&nested(100, Value::from("x"))).unwrap_err();
        assert_eq!(mismatch.to_string(), "cannot be checked against T: the type is recursive in too many ways");
        assert!(!repeating.check(&nested(6, Value::from("x"))).unwrap_err().faults().is_empty());
        let wide = Value::array((0..2).map(|_| Value::array((0..3).map(Value::Integer).collect::<Vec<_>>())));
        assert!(repeating.check(&wide).is_ok());
        let tree = "Variant[Integer, Array[Tree]]".parse().unwrap();
        let tree = Aliases::new([("Tree".into(), tree)]).unwrap().get("Tree").unwrap();
        assert!(tree.check(&Value::array((0..100_000).map(Value::Integer).collect::<Vec<_>>())).is_ok());
    }

    #[test]
    fn slow_pattern_is_reported() {
        let text = "a".repeat(40);
        let message = refused(r"Pattern[/\A((a|a)+)\1b(?!x)\z/]", text.as_str().into());
        assert!(message.starts_with("cannot be checked against the pattern /"), "{message}");
    }
}
