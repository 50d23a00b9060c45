//! Types and values by chance; values mostly of the type, or nearly.
//!
//! Omits cases in which kilter deviates from Puppet on purpose (docs/reference/data-types.md, "Where kilter differs").

use fastrand::Rng;
use kilter_model::{DataType, Regexp, Value};

const WORDS: [&str; 8] = ["present", "absent", "a", "b", "ab", "running", "é€", "x y"];
const KEYS: [&str; 4] = ["a", "b", "c", "long_key"];
const PATTERNS: [&str; 9] = [
    r"/^a/",
    r"/b$/",
    r"/\A[a-z]+\z/",
    r"/\A\w+\Z/",
    r"/(?i:PRESENT|absent)/",
    r"/(?<!x)a/",
    r"/\A\h{2,}\z/",
    r"/\A(?<first>.)\k<first>*\z/",
    r"/a\/b|\s/",
];

fn pick<'a>(rng: &mut Rng, from: &[&'a str]) -> &'a str {
    from[rng.usize(..from.len())]
}

fn word(rng: &mut Rng) -> String {
    let word = pick(rng, &WORDS);
    match word.bytes().all(|b| b.is_ascii_lowercase()) && rng.bool() {
        true => word.to_owned(),
        false => format!("'{word}'"),
    }
}

fn some(rng: &mut Rng, least: usize, most: usize, mut make: impl FnMut(&mut Rng) -> String) -> Vec<String> {
    (0..rng.usize(least..=most)).map(|_| make(rng)).collect()
}

fn sizes(rng: &mut Rng) -> String {
    let from = rng.u8(0..3);
    match rng.u8(..4) {
        0 => format!(", {from}"),
        1 => format!(", {from}, {}", from + rng.u8(0..3)),
        2 => format!(", default, {}", rng.u8(1..3)),
        _ => String::new(),
    }
}

/// A type as text.
pub(crate) fn data_type(rng: &mut Rng, depth: u32) -> String {
    match depth > 0 && rng.u8(..10) < 6 {
        true => composed(rng, depth - 1),
        false => simple(rng),
    }
}

fn simple(rng: &mut Rng) -> String {
    match rng.u8(..28) {
        0 => "Any".to_owned(),
        1 => "Undef".to_owned(),
        2 => "Default".to_owned(),
        3 => pick(rng, &["Boolean", "Boolean[true]", "Boolean[false]"]).to_owned(),
        4 => "Integer".to_owned(),
        5 => integers(rng),
        6 => pick(rng, &["Float", "Float[0.0, 1.5]", "Float[default, 1e-7]", "Float[1e20]", "Float[-2.5]"]).to_owned(),
        7 => "Numeric".to_owned(),
        8 | 9 => "String".to_owned(),
        10 => pick(rng, &["String[1]", "String[2, 3]", "String[default, 2]", "String[0]"]).to_owned(),
        11..=13 => enumeration(rng),
        14 => format!("Pattern[{}]", some(rng, 1, 2, |rng| pick(rng, &PATTERNS).to_owned()).join(", ")),
        15 => pick(rng, &["Regexp", "Regexp[/a/]"]).to_owned(),
        16 => pick(rng, &["Scalar", "ScalarData"]).to_owned(),
        17 => pick(rng, &["Data", "RichData"]).to_owned(),
        18 => pick(rng, &["Collection", "Iterable", "Iterable[Integer]"]).to_owned(),
        19 => sensitive(rng),
        20 => {
            pick(rng, &["Timestamp", "Timestamp['2021-01-01']", "Timestamp[default, '2020-01-01T12:00:00']"]).to_owned()
        }
        21 => pick(rng, &["Timespan", "Timespan['0-00:00:01', '1-00:00:00']", "Timespan[default, 5]"]).to_owned(),
        22 => pick(rng, &["SemVer", "SemVer['>=1.0.0 <2.0.0']", "SemVer['1.x']", "SemVer['1.0.0 - 2.0.0']"]).to_owned(),
        23 => "SemVerRange".to_owned(),
        24 => "Binary".to_owned(),
        25 => pick(rng, &["Type", "Type[String]", "Type[Integer[0, 9]]", "Type[Numeric]"]).to_owned(),
        26 => pick(rng, &["Stdlib::HTTPUrl", "Wibble"]).to_owned(),
        _ => pick(rng, &["Array", "Hash", "Struct", "Tuple", "Callable"]).to_owned(),
    }
}

fn integers(rng: &mut Rng) -> String {
    let from = rng.i64(-3..10);
    match rng.u8(..4) {
        0 => format!("Integer[{from}]"),
        1 => format!("Integer[default, {from}]"),
        _ => format!("Integer[{from}, {}]", from + rng.i64(0..300)),
    }
}

fn enumeration(rng: &mut Rng) -> String {
    let words = some(rng, 1, 4, word).join(", ");
    match rng.u8(..6) {
        0 => format!("Enum[{words}, true]"),
        _ => format!("Enum[{words}]"),
    }
}

fn sensitive(rng: &mut Rng) -> String {
    pick(rng, &["Sensitive", "Sensitive[String]", "Sensitive[Integer]", "Sensitive[Array[Integer]]", "Sensitive[Data]"])
        .to_owned()
}

fn composed(rng: &mut Rng, depth: u32) -> String {
    match rng.u8(..16) {
        0..=2 => match data_type(rng, depth) {
            // Puppet forgets the size of arrays of anything.
            any if any == "Any" => "Array".to_owned(),
            of => format!("Array[{of}{}]", sizes(rng)),
        },
        3 | 4 => {
            let keys = match rng.u8(..4) {
                0 => enumeration(rng),
                1 => format!("Pattern[{}]", pick(rng, &PATTERNS)),
                _ => "String".to_owned(),
            };
            format!("Hash[{keys}, {}{}]", data_type(rng, depth), sizes(rng))
        }
        5..=7 => structure(rng, depth),
        8 => format!("Tuple[{}]", some(rng, 1, 3, |rng| data_type(rng, depth)).join(", ")),
        9 | 10 => format!("Optional[{}]", data_type(rng, depth)),
        11 => format!("NotUndef[{}]", data_type(rng, depth)),
        _ => format!("Variant[{}]", some(rng, 1, 3, |rng| data_type(rng, depth)).join(", ")),
    }
}

fn structure(rng: &mut Rng, depth: u32) -> String {
    let mut fields = Vec::new();
    for key in KEYS {
        if rng.bool() {
            let of = data_type(rng, depth);
            fields.push(match rng.u8(..4) {
                0 => format!("Optional[{key}] => {of}"),
                1 => format!("NotUndef[{key}] => {of}"),
                2 => format!("'{key}' => {of}"),
                _ => format!("{key} => {of}"),
            });
        }
    }
    match fields.is_empty() {
        true => "Struct[{a => Integer}]".to_owned(),
        false => format!("Struct[{{{}}}]", fields.join(", ")),
    }
}

/// A value of the type, or one that is not quite.
pub(crate) fn value_for(rng: &mut Rng, data_type: &DataType) -> Value {
    let slips = if rng.u8(..4) == 0 { 0 } else { rng.u8(5..40) };
    fitting(rng, data_type, slips)
}

/// A value of the type, but for slips: one in `100 / slips` parts is any value.
fn fitting(rng: &mut Rng, data_type: &DataType, slips: u8) -> Value {
    if rng.u8(..100) < slips {
        return any(rng, 2);
    }
    let number = |rng: &mut Rng, from: Option<i64>, to: Option<i64>| {
        let from = from.unwrap_or(to.unwrap_or(0).saturating_sub(5));
        rng.i64(from..=to.unwrap_or(from.saturating_add(10)).max(from))
    };
    let count = |rng: &mut Rng, from: Option<u64>, to: Option<u64>| {
        let from = from.unwrap_or(0);
        rng.u64(from..=to.unwrap_or(from + 2).max(from))
    };
    match data_type {
        DataType::Undef => Value::Undef,
        DataType::Default => Value::Default,
        DataType::Boolean(truth) => Value::Boolean(truth.unwrap_or_else(|| rng.bool())),
        DataType::Integer(from, to) => Value::Integer(number(rng, *from, *to)),
        DataType::Float(from, to) => Value::Float(from.or(*to).unwrap_or(0.25)),
        DataType::Numeric => Value::Integer(rng.i64(-5..5)),
        DataType::String(from, to) => {
            let length = count(rng, *from, *to);
            Value::from((0..length).map(|_| rng.choice(['a', 'é', ' ']).unwrap_or('a')).collect::<String>())
        }
        DataType::Enum(words) | DataType::EnumAnyCase(words) => {
            words.get(rng.usize(..words.len().max(1))).map_or(Value::Undef, |word| Value::from(word.as_str()))
        }
        DataType::Pattern(_) => Value::from(pick(rng, &WORDS)),
        DataType::Regexp(regexp) => Value::Regexp(regexp.clone().unwrap_or_else(|| Regexp::new("b+"))),
        DataType::Binary => Value::Binary([rng.u8(..), 0xff].as_slice().into()),
        DataType::Timestamp(..) => rich(rng, 0),
        DataType::Timespan(..) => rich(rng, 1),
        DataType::SemVer(_) => rich(rng, 2),
        DataType::SemVerRange => rich(rng, 3),
        DataType::Type(_) => rich(rng, 4),
        DataType::Array(of, from, to) => {
            let length = count(rng, *from, *to);
            Value::array((0..length).map(|_| fitting(rng, of, slips)).collect::<Vec<_>>())
        }
        DataType::Tuple(types, ..) => Value::array(types.iter().map(|of| fitting(rng, of, slips)).collect::<Vec<_>>()),
        DataType::Hash(keys, of, from, to) => {
            let length = usize::try_from(count(rng, *from, *to)).unwrap_or(0).min(KEYS.len());
            let entries: Vec<(String, Value)> = (0..length)
                .map(|index| {
                    let key = match fitting(rng, keys, slips) {
                        Value::String(key) if **keys != DataType::text() => key.to_string(),
                        _ => KEYS[index].to_owned(),
                    };
                    (key, fitting(rng, of, slips))
                })
                .collect();
            Value::hash(entries)
        }
        DataType::Struct(fields) => {
            let mut entries = Vec::new();
            for field in fields {
                if !(field.optional && rng.bool()) && rng.u8(..100) >= slips {
                    entries.push((field.name.clone(), fitting(rng, &field.data_type, slips)));
                }
            }
            if rng.u8(..100) < slips {
                entries.push(("zz".into(), Value::Undef));
            }
            Value::hash(entries)
        }
        DataType::Variant(types) if !types.is_empty() => {
            let chosen = rng.usize(..types.len());
            fitting(rng, &types[chosen], slips)
        }
        DataType::Optional(inner) if rng.u8(..4) > 0 => fitting(rng, inner, slips),
        DataType::NotUndef(inner) => fitting(rng, inner, slips),
        DataType::Optional(_) => Value::Undef,
        DataType::Sensitive(inner) => Value::sensitive(match &**inner {
            DataType::Array(..) => Value::array([Value::Integer(1), Value::Integer(rng.i64(0..3))]),
            DataType::Integer(..) => Value::Integer(3),
            _ => Value::from("hidden"),
        }),
        _ => any(rng, 2),
    }
}

/// A value of the rarer kinds.
fn rich(rng: &mut Rng, kind: u8) -> Value {
    match kind {
        0 => {
            let text = pick(rng, &["2020-01-01", "2021-06-01T12:00:00.5", "2022-02-02T02:02:02"]);
            Value::Timestamp(text.parse().expect("a point in time"))
        }
        1 => {
            let text = pick(rng, &["0-00:00:01.5", "1-02:03:04.0", "-0-00:00:01.0"]);
            Value::Timespan(text.parse().expect("a span of time"))
        }
        2 => {
            let text = pick(rng, &["1.2.3", "2.0.0", "1.5.0", "0.1.0+build"]);
            Value::from(text.parse::<semver::Version>().expect("a version"))
        }
        3 => Value::semver_range(pick(rng, &[">=1.0.0", "1.x || 3.x"]).parse().expect("a range")),
        4 => {
            let text = pick(rng, &["Integer[1, 2]", "String", "Array[Float]", "Enum['a', 'b']", "Optional[String[1]]"]);
            Value::from(text.parse::<DataType>().expect("a type"))
        }
        5 => Value::Regexp(Regexp::new(pick(rng, &["a", "b|c"]))),
        6 => Value::Default,
        7 => Value::Binary(b"\x00\xff".as_slice().into()),
        _ => Value::sensitive(Value::from("hidden")),
    }
}

fn any(rng: &mut Rng, depth: u32) -> Value {
    match rng.u8(..if depth > 0 { 14 } else { 11 }) {
        0 => Value::Undef,
        1 => Value::Boolean(rng.bool()),
        2 | 3 => Value::Integer(rng.i64(-10..400)),
        4 => Value::Float(f64::from(rng.i16(..)) / 8.0),
        5 => Value::Float([1e-9, 1e21, 0.1, 123_456_789.0][rng.usize(..4)]),
        6..=8 => Value::from(pick(rng, &["", "a", "gone", "it's", "x/b", "AB", "line\nbreak", "PRESENT", "aa"])),
        9 | 10 => {
            let kind = rng.u8(..9);
            rich(rng, kind)
        }
        11 | 12 => {
            let length = rng.usize(..3);
            Value::array((0..length).map(|_| any(rng, depth - 1)).collect::<Vec<_>>())
        }
        _ => {
            let length = rng.usize(..3);
            let key = |rng: &mut Rng| if rng.u8(..8) == 0 { "" } else { pick(rng, &KEYS) };
            Value::hash((0..length).map(|_| (key(rng), any(rng, depth - 1))).collect::<Vec<_>>())
        }
    }
}
