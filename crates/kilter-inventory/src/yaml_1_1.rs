//! Values of YAML 1.1, which Ansible and Bolt read: `yes` is true, `0644` is octal, `<<` merges mappings.

use std::sync::Arc;

use ecow::EcoString;
use kilter_model::{Hash, Value};
use kilter_script::yaml::{Node, YamlKind};

/// Returns the value of a node.
pub(crate) fn value(node: &Node) -> Value {
    match &node.kind {
        _ if node.is_null() => Value::Undef,
        YamlKind::Scalar { text, plain: false } => Value::String(text.clone()),
        YamlKind::Scalar { text, plain: true } => scalar(text),
        YamlKind::Sequence(nodes) => Value::Array(nodes.iter().map(value).collect()),
        YamlKind::Mapping(_) => Value::Hash(Arc::new(hash(node))),
    }
}

/// Returns the entries of a mapping, with those that `<<` merges; empty for another node.
pub(crate) fn hash(node: &Node) -> Hash {
    entries(node).into_iter().map(|(key, node)| (key, value(node))).collect()
}

/// Returns the entries of a mapping as nodes, with those that `<<` merges below its own ones.
pub(crate) fn entries(node: &Node) -> indexmap::IndexMap<EcoString, &Node, rustc_hash::FxBuildHasher> {
    let mut found = indexmap::IndexMap::default();
    for (key, value) in node.entries().unwrap_or_default() {
        let name = key.text().cloned().unwrap_or_default();
        let is_merge = name == "<<" && matches!(&key.kind, YamlKind::Scalar { plain: true, .. });
        match &value.kind {
            YamlKind::Mapping(_) if is_merge => entries(value).into_iter().for_each(|(key, value)| {
                found.entry(key).or_insert(value);
            }),
            YamlKind::Sequence(nodes) if is_merge => {
                for (key, value) in nodes.iter().flat_map(entries) {
                    found.entry(key).or_insert(value);
                }
            }
            _ => {
                found.insert(name, value);
            }
        }
    }
    found
}

fn scalar(text: &EcoString) -> Value {
    match text.as_str() {
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => return Value::Boolean(true),
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => return Value::Boolean(false),
        _ => {}
    }
    integer(text).or_else(|| float(text)).unwrap_or_else(|| Value::String(text.clone()))
}

fn integer(text: &str) -> Option<Value> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let clean = digits.replace('_', "");
    let number = match clean.as_bytes() {
        [b'0', b'x', ..] => i128::from_str_radix(&clean[2..], 16).ok()?,
        [b'0', b'b', ..] => i128::from_str_radix(&clean[2..], 2).ok()?,
        [b'0', _, ..] => i128::from_str_radix(&clean, 8).ok()?,
        _ if clean.contains(':') => {
            let mut parts = clean.split(':');
            let mut number: i128 = parts.next()?.parse().ok()?;
            for part in parts {
                let part = Some(part).filter(|part| matches!(part.len(), 1 | 2))?;
                let part: i128 = part.parse().ok().filter(|part| (0..60).contains(part))?;
                number = number.checked_mul(60)?.checked_add(part)?;
            }
            number
        }
        _ => clean.parse().ok()?,
    };
    i64::try_from(sign * number).ok().map(Value::Integer)
}

fn float(text: &str) -> Option<Value> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    match unsigned {
        ".inf" | ".Inf" | ".INF" => {
            return Some(Value::Float(if text.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY }));
        }
        ".nan" | ".NaN" | ".NAN" => return Some(Value::Float(f64::NAN)),
        _ => {}
    }
    let clean = text.replace('_', "");
    let is_form = unsigned.contains('.')
        && unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && unsigned.bytes().any(|byte| byte.is_ascii_digit())
        && unsigned.bytes().all(|byte| byte.is_ascii_digit() || b"._eE+-".contains(&byte));
    // An exponent needs a sign.
    let has_sign = clean.split_once(['e', 'E']).is_none_or(|(_, exponent)| exponent.starts_with(['+', '-']));
    clean.parse().ok().filter(|_| is_form && has_sign).map(Value::Float)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kilter_script::yaml;

    #[test]
    fn scalars_follow_yaml_1_1() {
        for (text, expected) in [
            ("yes", "true"),
            ("Off", "false"),
            ("~", "undef"),
            ("0644", "420"),
            ("0x1f", "31"),
            ("1_000", "1000"),
            ("-7", "-7"),
            ("190:20:30", "685230"),
            ("1.5", "1.5"),
            ("1e3", "\"1e3\""),
            ("1.0e+3", "1000.0"),
            ("1.2.3.4", "\"1.2.3.4\""),
            ("'yes'", "\"yes\""),
            ("2026-01-02", "\"2026-01-02\""),
            ("08", "\"08\""),
            ("22:99", "\"22:99\""),
            ("a", "\"a\""),
            ("!!str 5", "\"5\""),
        ] {
            let limits = yaml::YamlLimits { bytes: 100, nodes: 100, tags: yaml::TagRule::CoreOnly };
            let node = yaml::parse_within(text, &limits).unwrap().unwrap();
            assert_eq!(format!("{:?}", value(&node)), expected, "{text}");
        }
        let text = "base: &b {a: 1, b: 2}\nall: {b: 3, <<: *b, c: 4}\nlist: {<<: [{a: 5}, *b]}\n";
        let node = yaml::parse(text).unwrap();
        assert_eq!(
            format!("{:?}", value(&node)),
            r#"{"base": {"a": 1, "b": 2}, "all": {"b": 3, "a": 1, "c": 4}, "list": {"a": 5, "b": 2}}"#
        );
    }
}
