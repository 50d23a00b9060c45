//! Type inference for values.

use super::assign::Seals;
use super::{DataType, Field};
use crate::semver_range::SemVerRange;
use crate::value::{Hash, Value};

impl DataType {
    /// Infers the narrowest type of a value: `Integer[1, 1]` for 1, a tuple for an array, a struct for a hash.
    /// For a sensitive value, the type reveals only its kind.
    pub fn infer(value: &Value) -> DataType {
        exact(value).discreet()
    }

    /// Returns the type without details of sensitive values.
    pub(super) fn discreet(&self) -> DataType {
        match self {
            DataType::Sensitive(inner) => DataType::Sensitive(Box::new(inner.kind())),
            other => other.with_parts(&mut DataType::discreet),
        }
    }

    /// Returns the kind of a value of the type, without the value itself.
    fn kind(&self) -> DataType {
        match self {
            DataType::Tuple(types, ..) => DataType::Array(Box::new(common(types.iter())), None, None),
            DataType::Struct(fields) => {
                let of = common(fields.iter().map(|field| &field.data_type));
                DataType::Hash(Box::new(DataType::text()), Box::new(of), None, None)
            }
            DataType::Array(of, ..) => DataType::Array(Box::new(of.kind()), None, None),
            DataType::Hash(keys, of, ..) => DataType::Hash(Box::new(keys.kind()), Box::new(of.kind()), None, None),
            DataType::Regexp(_) => DataType::Regexp(None),
            DataType::SemVer(_) => DataType::SemVer(Vec::new()),
            DataType::Enum(_) | DataType::EnumAnyCase(_) | DataType::Pattern(_) => DataType::text(),
            DataType::Variant(types) => common(types.iter()),
            other => other.generalized(),
        }
    }
}

/// Infers the narrowest type of a value, including the content of sensitive values.
pub(super) fn exact(value: &Value) -> DataType {
    match value {
        Value::Undef => DataType::Undef,
        Value::Default => DataType::Default,
        Value::Boolean(truth) => DataType::Boolean(Some(*truth)),
        Value::Integer(number) => DataType::Integer(Some(*number), Some(*number)),
        Value::Float(number) => DataType::Float(Some(*number), Some(*number)),
        Value::String(text) => DataType::Literal(text.clone()),
        Value::Binary(_) => DataType::Binary,
        Value::Timestamp(time) => DataType::Timestamp(Some(*time), Some(*time)),
        Value::Timespan(span) => DataType::Timespan(Some(*span), Some(*span)),
        Value::Regexp(regexp) => DataType::Regexp(Some(regexp.clone())),
        Value::SemVer(version) => DataType::SemVer(vec![SemVerRange::exactly(version)]),
        Value::SemVerRange(_) => DataType::SemVerRange,
        Value::Type(data_type) => DataType::Type(Box::new((**data_type).clone())),
        Value::Sensitive(inner) => DataType::Sensitive(Box::new(exact(inner))),
        Value::Array(values) if values.is_empty() => DataType::Array(Box::new(DataType::Unit), Some(0), Some(0)),
        Value::Array(values) => DataType::Tuple(values.iter().map(exact).collect(), None, None),
        Value::Hash(entries) => of_hash(entries),
    }
}

fn of_hash(entries: &Hash) -> DataType {
    if entries.is_empty() {
        return DataType::Hash(Box::new(DataType::Unit), Box::new(DataType::Unit), Some(0), Some(0));
    }
    if entries.keys().all(|key| !key.is_empty()) {
        let field = |(key, value): (&ecow::EcoString, &Value)| Field {
            name: key.clone(),
            optional: false,
            data_type: exact(value),
        };
        return DataType::Struct(entries.iter().map(field).collect());
    }
    // A struct cannot have an empty key.
    let keys = DataType::either(entries.keys().map(|key| DataType::Literal(key.clone())).collect());
    let values = DataType::either(entries.values().map(exact).collect());
    let size = Some(entries.len() as u64);
    DataType::Hash(Box::new(keys), Box::new(values), size, size)
}

/// Returns the common kind of several types.
fn common<'a>(types: impl Iterator<Item = &'a DataType>) -> DataType {
    types.map(DataType::kind).reduce(|a, b| both(&a, &b)).unwrap_or(DataType::Unit)
}

fn both(a: &DataType, b: &DataType) -> DataType {
    let takes = |wide: &DataType, narrow: &DataType| wide.takes(narrow, Seals::Exact);
    if takes(a, b) {
        return a.clone();
    }
    if takes(b, a) {
        return b.clone();
    }
    match (a, b) {
        (DataType::Undef, other) | (other, DataType::Undef) => return other.clone(),
        (DataType::Array(x, ..), DataType::Array(y, ..)) => return DataType::Array(Box::new(both(x, y)), None, None),
        (DataType::Hash(k, x, ..), DataType::Hash(l, y, ..)) => {
            return DataType::Hash(Box::new(both(k, l)), Box::new(both(x, y)), None, None);
        }
        _ => {}
    }
    let wider = [DataType::Numeric, DataType::ScalarData, DataType::Scalar, DataType::Data, DataType::RichData];
    wider.into_iter().find(|wide| takes(wide, a) && takes(wide, b)).unwrap_or(DataType::Any)
}
