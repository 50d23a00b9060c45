//! Boundary values of data types.

use ecow::EcoString;
use kilter_model::{DataType, Field, Hash, Value};

/// Unusual texts: empty, blank, long, or with characters that files, shells and formats treat specially. None
/// is harmful if a shell runs it.
const TEXTS: [&str; 22] = [
    "",
    "x",
    " ",
    " x ",
    "ü–漢字",
    "\u{feff}x",
    "a\nb",
    "a\r\n",
    "a\tb",
    "it's \"quoted\"",
    "$(echo kilter) `echo kilter` $HOME",
    "a:b,c=d#e;f|g&h",
    "%s%n\\n\\",
    "[x]",
    "-x",
    "--help",
    "a\0b",
    "0",
    "0007",
    "true",
    "absent",
    "/a b/ü",
];

/// Lengths of long texts in bytes. They exceed the length of file names and of most lines.
const LONG: [usize; 2] = [300, 5000];

/// Maximum generated size for an array or a text with a bound.
const MAX_GENERATED_LEN: u64 = 10_000;

/// Returns unusual texts for any type.
pub(super) fn texts() -> impl Iterator<Item = EcoString> {
    let long = LONG.into_iter().map(|length| EcoString::from("x".repeat(length)));
    TEXTS.into_iter().map(EcoString::from).chain(long)
}

/// Returns boundary values of a type, without duplicates. All values are of the type.
pub(super) fn values(data_type: &DataType) -> Vec<Value> {
    let mut values: Vec<Value> = Vec::new();
    for value in candidates(data_type) {
        if !value.is_undef() && data_type.check(&value).is_ok() && !values.contains(&value) {
            values.push(value);
        }
    }
    values
}

fn candidates(data_type: &DataType) -> Vec<Value> {
    match data_type {
        DataType::Boolean(_) => vec![Value::Boolean(true), Value::Boolean(false)],
        DataType::Integer(from, to) => integers(*from, *to),
        DataType::Float(from, to) => floats(*from, *to),
        DataType::Numeric => [integers(None, None), floats(None, None)].concat(),
        DataType::String(from, to) => strings(*from, *to),
        DataType::Enum(words) => words.iter().cloned().map(Value::String).collect(),
        DataType::Pattern(_) => strings(None, None),
        DataType::Binary => [&b""[..], b"\0\xff", b"\n"].map(|bytes| Value::Binary(bytes.into())).to_vec(),
        DataType::Array(of, from, to) => arrays(&values(of), *from, *to),
        DataType::Hash(keys, of, from, _) => hashes(&values(keys), &values(of), from.unwrap_or(0)),
        DataType::Struct(fields) => structs(fields),
        DataType::Tuple(types, ..) => vec![Value::array(types.iter().filter_map(|of| values(of).into_iter().next()))],
        DataType::Variant(types) => types.iter().flat_map(values).collect(),
        DataType::Optional(inner) | DataType::NotUndef(inner) => values(inner),
        DataType::Sensitive(inner) => values(inner).into_iter().map(Value::sensitive).collect(),
        DataType::Literal(word) => vec![Value::String(word.clone())],
        DataType::EnumAnyCase(words) => {
            words.iter().flat_map(|word| [word.clone(), word.to_uppercase()]).map(Value::String).collect()
        }
        DataType::Timestamp(from, to) => {
            let bounds = [from, to].into_iter().flatten().copied();
            bounds
                .chain(parsed(&["1970-01-01T00:00:00Z", "2024-02-29T23:59:59.999999999Z"]))
                .map(Value::Timestamp)
                .collect()
        }
        DataType::Timespan(from, to) => {
            let bounds = [from, to].into_iter().flatten().copied();
            bounds.chain(parsed(&["0-00:00:00.0", "-1-00:00:00.0", "9-23:59:59.999"])).map(Value::Timespan).collect()
        }
        DataType::SemVer(_) => words_of(data_type, &["0.0.0", "1.2.3", "1.2.3-rc.1+build.5", "4.0.0"]),
        DataType::SemVerRange => words_of(data_type, &["1.x", ">=1.2.3 <2.0.0", "~1.2"]),
        DataType::Regexp(_) => words_of(data_type, &["/a/", r"/\A[^\/]+\z/"]),
        DataType::Type(_) => words_of(data_type, &["String", "Array[Integer[0, 1]]"]),
        DataType::Alias(alias) => values(&alias.definition()),
        DataType::Iterable(of) => arrays(&values(of), None, None),
        DataType::Collection(..)
        | DataType::Scalar
        | DataType::ScalarData
        | DataType::Data
        | DataType::RichData
        | DataType::Any => anything(),
        _ => Vec::new(),
    }
}

fn parsed<T: std::str::FromStr>(texts: &[&str]) -> impl Iterator<Item = T> {
    texts.iter().filter_map(|text| text.parse().ok())
}

fn words_of(data_type: &DataType, words: &[&str]) -> Vec<Value> {
    words.iter().filter_map(|word| data_type.parse_word(word).ok()).collect()
}

fn integers(from: Option<i64>, to: Option<i64>) -> Vec<Value> {
    [from.unwrap_or(i64::MIN), to.unwrap_or(i64::MAX), 0, 1, -1].map(Value::Integer).to_vec()
}

fn floats(from: Option<f64>, to: Option<f64>) -> Vec<Value> {
    [from.unwrap_or(f64::MIN), to.unwrap_or(f64::MAX), 0.0, f64::MIN_POSITIVE, 1e21].map(Value::Float).to_vec()
}

fn strings(from: Option<u64>, to: Option<u64>) -> Vec<Value> {
    let of_length = |length: u64| (length <= MAX_GENERATED_LEN).then(|| EcoString::from("x".repeat(length as usize)));
    let bounds = [from, to].into_iter().flatten().filter_map(of_length);
    texts().chain(bounds).map(Value::String).collect()
}

fn arrays(of: &[Value], from: Option<u64>, to: Option<u64>) -> Vec<Value> {
    let least = from.unwrap_or(0).min(MAX_GENERATED_LEN) as usize;
    let filled = |value: &Value, count: usize| Value::array(std::iter::repeat_n(value.clone(), count));
    let mut arrays = vec![Value::array([]), Value::array(of.iter().take(least.max(2)).cloned())];
    arrays.extend(of.iter().map(|value| filled(value, least.max(1))));
    arrays
        .extend(of.get(1).or(of.first()).map(|value| filled(value, to.unwrap_or(100).min(MAX_GENERATED_LEN) as usize)));
    arrays
}

fn hashes(keys: &[Value], of: &[Value], least: u64) -> Vec<Value> {
    let hash = |key: &Value, value: &Value| {
        let mut entries = Hash::default();
        entries.insert(key.to_text().unwrap_or_default(), value.clone());
        Value::hash(entries)
    };
    let mut hashes = vec![Value::hash(Hash::default())];
    hashes.extend(of.first().into_iter().flat_map(|value| keys.iter().map(move |key| hash(key, value))));
    hashes
        .extend(keys.get(1).or(keys.first()).into_iter().flat_map(|key| of.iter().map(move |value| hash(key, value))));
    let full = keys.iter().zip(of.iter().cycle()).take(least as usize);
    hashes.push(Value::hash(full.map(|(key, value)| (key.to_text().unwrap_or_default(), value.clone()))));
    hashes
}

fn structs(fields: &[Field]) -> Vec<Value> {
    let first = |field: &Field| Some((field.name.clone(), values(&field.data_type).into_iter().next()?));
    let last = |field: &Field| Some((field.name.clone(), values(&field.data_type).into_iter().next_back()?));
    let needed = fields.iter().filter(|field| !field.optional);
    vec![
        Value::hash(needed.filter_map(first)),
        Value::hash(fields.iter().filter_map(first)),
        Value::hash(fields.iter().filter_map(last)),
    ]
}

fn anything() -> Vec<Value> {
    let mut values = strings(None, None);
    values.extend(integers(None, None));
    values.extend(floats(None, None));
    values.extend([Value::Boolean(false), Value::array([]), Value::hash(Hash::default()), Value::strings(["a\nb"])]);
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(data_type: &str) -> Vec<Value> {
        let schema =
            kilter_model::TypeSchema::new("t", "").attribute("a", data_type, kilter_model::Behaviour::Property, "");
        values(&schema.attributes[0].data_type)
    }

    #[test]
    fn edge_values_include_bounds_only() {
        let numbers: Vec<i64> = edge("Integer[-5, 7]").iter().filter_map(Value::as_integer).collect();
        assert_eq!(numbers, [-5, 7, 0, 1, -1]);
        let open: Vec<i64> = edge("Optional[Integer]").iter().filter_map(Value::as_integer).collect();
        assert_eq!(open, [i64::MIN, i64::MAX, 0, 1, -1]);
        let lengths: Vec<usize> =
            edge("String[2, 4]").iter().filter_map(Value::as_str).map(|text| text.chars().count()).collect();
        assert!(lengths.contains(&2) && lengths.contains(&4) && lengths.iter().all(|length| (2..=4).contains(length)));
    }

    #[test]
    fn edge_collections_are_empty_single_and_large() {
        let sizes = |data_type| edge(data_type).iter().map(|value| value.as_list().len()).collect::<Vec<_>>();
        assert!(sizes("Array[String]").starts_with(&[0]) && sizes("Array[String]").contains(&100));
        assert_eq!(sizes("Array[Integer[0, 0], 3, 3]"), [3]);
        assert_eq!(edge("Hash[String, Integer]")[0], Value::hash(Hash::default()));
        assert_eq!(edge("Struct[{a => Enum[x], Optional[b] => Enum[y]}]").len(), 2);
        assert_eq!(edge("Tuple[Enum[x], Enum[y]]"), [Value::strings(["x", "y"])]);
    }

    #[test]
    fn time_version_and_type_have_edge_values() {
        for data_type in ["Timestamp", "Timespan", "SemVer", "SemVerRange", "Regexp", "Type", "Enum[a, true]"] {
            assert!(edge(data_type).len() >= 2, "{data_type}: {:?}", edge(data_type));
        }
        assert!(edge("Collection[1, 1]").iter().all(|value| value.as_list().len() == 1));
    }

    #[test]
    fn sensitive_types_get_sensitive_values_and_all_enum_values() {
        assert!(edge("Sensitive[String[1]]").iter().all(Value::holds_sensitive));
        assert_eq!(edge("Variant[Enum[a, b], Boolean]").len(), 4);
        assert_eq!(edge("Pattern[/\\A0[0-7]{3}\\z/]"), [Value::from("0007")]);
    }
}
