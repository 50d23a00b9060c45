//! Whether a value is of a type, and if not, why.

use std::fmt;

use super::DataType;
use crate::value::Value;

/// Says which part of a value is not of the type asked for, in Puppet's words:
/// `index 2 expects an Integer value, got String`.
#[derive(Clone, Debug, PartialEq)]
pub struct Mismatch {
    path: Vec<String>,
    what: What,
}

#[derive(Clone, Debug, PartialEq)]
enum What {
    Kind { expected: DataType, got: String },
    Missing,
    Unknown,
    Size { thing: &'static str, got: u64, from: Option<u64>, to: Option<u64> },
}

impl DataType {
    /// Checks that `value` is of this type.
    ///
    /// A sensitive value is of type `T` if what it holds is: a secret may be given wherever its
    /// content may.
    ///
    /// # Errors
    /// Says what the first part that does not fit should have been.
    pub fn check(&self, value: &Value) -> Result<(), Mismatch> {
        let value = value.unwrap_sensitive();
        let fits = match (self, value) {
            (DataType::Any, _) | (DataType::Undef, Value::Undef) => true,
            (DataType::Boolean(wanted), Value::Boolean(truth)) => wanted.is_none_or(|w| w == *truth),
            (DataType::Integer(from, to), Value::Integer(n)) => within(n, from, to),
            (DataType::Float(from, to), Value::Float(n)) => within(n, from, to),
            (DataType::Numeric, Value::Integer(_) | Value::Float(_))
            | (DataType::Scalar, Value::String(_) | Value::Integer(_) | Value::Float(_) | Value::Boolean(_))
            | (DataType::Binary, Value::Binary(_)) => true,
            (DataType::String(from, to), Value::String(text)) => {
                let length = text.chars().count() as u64;
                return size("String", length, *from, *to);
            }
            (DataType::Enum(words), Value::String(text)) => words.contains(text),
            (DataType::Pattern(patterns), Value::String(text)) => patterns.iter().any(|p| matches(p, text)),
            (DataType::Array(of, from, to), Value::Array(values)) => {
                size("Array", values.len() as u64, *from, *to)?;
                return each(values.iter().map(|value| (&**of, value)));
            }
            (DataType::Tuple(types), Value::Array(values)) => {
                let length = types.len() as u64;
                size("Tuple", values.len() as u64, Some(length), Some(length))?;
                return each(types.iter().zip(values.iter()));
            }
            (DataType::Hash(keys, of, from, to), Value::Hash(entries)) => {
                size("Hash", entries.len() as u64, *from, *to)?;
                for (key, value) in entries.iter() {
                    keys.check(&Value::String(key.clone())).map_err(|e| e.below(format!("key of entry '{key}'")))?;
                    of.check(value).map_err(|e| e.below(format!("entry '{key}'")))?;
                }
                true
            }
            (DataType::Struct(_), Value::Hash(_)) => return self.check_struct(value),
            (DataType::Variant(types), value) => types.iter().any(|t| t.check(value).is_ok()),
            (DataType::Optional(_), Value::Undef) => true,
            (DataType::Optional(inner) | DataType::Sensitive(inner), value) => return inner.check(value),
            (DataType::NotUndef(inner), value) if !value.is_undef() => return inner.check(value),
            (DataType::Data, value) => is_data(value),
            _ => false,
        };
        if fits { Ok(()) } else { Err(self.mismatch(value)) }
    }

    fn check_struct(&self, value: &Value) -> Result<(), Mismatch> {
        let (DataType::Struct(fields), Value::Hash(entries)) = (self, value) else {
            return Err(self.mismatch(value));
        };
        for field in fields {
            let path = || format!("entry '{}'", field.name);
            match entries.get(&field.name) {
                Some(value) => field.data_type.check(value).map_err(|e| e.below(path()))?,
                None if field.optional => {}
                None => return Err(Mismatch { path: vec![path()], what: What::Missing }),
            }
        }
        match entries.keys().find(|key| fields.iter().all(|field| field.name != **key)) {
            Some(key) => Err(Mismatch { path: vec![format!("entry '{key}'")], what: What::Unknown }),
            None => Ok(()),
        }
    }

    fn mismatch(&self, value: &Value) -> Mismatch {
        let got = match (self, value) {
            (DataType::Enum(_) | DataType::Pattern(_), Value::String(text)) => format!("'{text}'"),
            (DataType::Integer(..), Value::Integer(n)) => format!("Integer[{n}, {n}]"),
            (_, value) => value.kind().to_owned(),
        };
        Mismatch { path: Vec::new(), what: What::Kind { expected: self.clone(), got } }
    }
}

fn each<'a>(pairs: impl Iterator<Item = (&'a DataType, &'a Value)>) -> Result<(), Mismatch> {
    for (index, (data_type, value)) in pairs.enumerate() {
        data_type.check(value).map_err(|e| e.below(format!("index {index}")))?;
    }
    Ok(())
}

fn within<T: PartialOrd>(n: &T, from: &Option<T>, to: &Option<T>) -> bool {
    from.as_ref().is_none_or(|from| from <= n) && to.as_ref().is_none_or(|to| n <= to)
}

fn size(thing: &'static str, got: u64, from: Option<u64>, to: Option<u64>) -> Result<(), Mismatch> {
    if within(&got, &from, &to) {
        return Ok(());
    }
    Err(Mismatch { path: Vec::new(), what: What::Size { thing, got, from, to } })
}

fn matches(pattern: &str, text: &str) -> bool {
    crate::pattern::is_match(pattern, text).unwrap_or(false)
}

fn is_data(value: &Value) -> bool {
    match value.unwrap_sensitive() {
        Value::Binary(_) => false,
        Value::Array(values) => values.iter().all(is_data),
        Value::Hash(entries) => entries.values().all(is_data),
        _ => true,
    }
}

impl Mismatch {
    fn below(mut self, step: String) -> Mismatch {
        self.path.insert(0, step);
        self
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.path {
            write!(f, "{step} ")?;
        }
        match &self.what {
            What::Kind { expected, got } => match expected.allowed() {
                words if words.is_empty() => write!(f, "expects {}, got {got}", expected.described()),
                _ => write!(f, "expects a match for {expected}, got {got}"),
            },
            What::Missing => f.write_str("is missing"),
            What::Unknown => f.write_str("is not expected here"),
            What::Size { thing, got, from, to } => {
                let bounds = match (from, to) {
                    (Some(from), Some(to)) if from == to => format!("to be {from}"),
                    (Some(from), Some(to)) => format!("to be between {from} and {to}"),
                    (Some(from), None) => format!("to be at least {from}"),
                    (None, Some(to)) => format!("to be at most {to}"),
                    (None, None) => "to be anything".to_owned(),
                };
                write!(f, "expects size of {thing} {bounds}, got {got}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(data_type: &str, value: Value) -> String {
        data_type.parse::<DataType>().unwrap().check(&value).unwrap_err().to_string()
    }

    #[test]
    fn a_mismatch_speaks_in_puppets_words() {
        assert_eq!(refused("Integer", "x".into()), "expects an Integer value, got String");
        assert_eq!(
            refused("Enum[present, absent]", "x".into()),
            "expects a match for Enum['present', 'absent'], got 'x'"
        );
        assert_eq!(refused("Array[Integer]", Value::strings(["a"])), "index 0 expects an Integer value, got String");
        assert_eq!(refused("Array[String, 1]", Value::array([])), "expects size of Array to be at least 1, got 0");
    }

    #[test]
    fn a_secret_fits_where_its_content_does() {
        let secret = Value::sensitive("x".into());
        assert!(DataType::text().check(&secret).is_ok());
        assert!(DataType::Integer(None, None).check(&secret).is_err());
    }
}
