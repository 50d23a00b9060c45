//! Values of plain scalars in the core schema of YAML 1.2.
//!
//! Exception: a whole number with a leading zero (`0644`) is a text. As a number it would be 644, which is never
//! intended.

use kilter_model::Value;

/// Returns the value of a plain scalar; none for a text.
#[inline]
pub(crate) fn typed(text: &str) -> Option<Value> {
    match text.as_bytes().first() {
        None => Some(Value::Undef),
        Some(b'0'..=b'9' | b'-' | b'+' | b'.') => number(text),
        Some(b't' | b'T' | b'f' | b'F' | b'n' | b'N' | b'~') => word(text),
        Some(_) => None,
    }
}

fn word(text: &str) -> Option<Value> {
    match text {
        "~" | "null" | "Null" | "NULL" => Some(Value::Undef),
        "true" | "True" | "TRUE" => Some(Value::Boolean(true)),
        "false" | "False" | "FALSE" => Some(Value::Boolean(false)),
        _ => None,
    }
}

fn number(text: &str) -> Option<Value> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if let Some(digits) = text.strip_prefix("0x").filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit())) {
        return i64::from_str_radix(digits, 16).ok().map(Value::Integer);
    }
    if let Some(digits) = text.strip_prefix("0o").filter(|d| d.bytes().all(|b| matches!(b, b'0'..=b'7'))) {
        return i64::from_str_radix(digits, 8).ok().map(Value::Integer);
    }
    match unsigned {
        ".inf" | ".Inf" | ".INF" => {
            return Some(Value::Float(if text.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY }));
        }
        ".nan" | ".NaN" | ".NAN" if text == unsigned => return Some(Value::Float(f64::NAN)),
        _ => {}
    }
    if has_leading_zero(unsigned) {
        return None;
    }
    if !unsigned.is_empty() && unsigned.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse().map(Value::Integer).or_else(|_| text.parse().map(Value::Float)).ok();
    }
    is_float(unsigned).then(|| text.parse().ok().map(Value::Float)).flatten()
}

/// Returns true if a text is a whole number with a leading zero, such as an octal mode.
pub(crate) fn has_leading_zero(text: &str) -> bool {
    text.len() > 1 && text.starts_with('0') && text.bytes().all(|b| b.is_ascii_digit())
}

/// Returns true for `[0-9]+ ( \. [0-9]* )? ( [eE] [-+]? [0-9]+ )?`, or `\.[0-9]+` in place of the first part.
fn is_float(text: &str) -> bool {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['-', '+']).unwrap_or(exponent))),
        None => (text, None),
    };
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    digits(whole)
        && digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_none_or(|exponent| !exponent.is_empty() && digits(exponent))
}

/// Returns true if a word is a number in the grammar of JSON.
pub(crate) fn is_json_number(word: &str) -> bool {
    let unsigned = word.strip_prefix('-').unwrap_or(word);
    let starts_well = unsigned.starts_with(|c: char| c.is_ascii_digit());
    let whole = unsigned.split(['.', 'e', 'E']).next().unwrap_or_default();
    let ends_in_dot = unsigned.split(['e', 'E']).next().is_some_and(|mantissa| mantissa.ends_with('.'));
    starts_well && !has_leading_zero(whole) && !ends_in_dot && is_float(unsigned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_scalars_are_typed_by_the_core_schema() {
        for (text, value) in [
            ("1", Some(Value::Integer(1))),
            ("-12", Some(Value::Integer(-12))),
            ("0", Some(Value::Integer(0))),
            ("0o644", Some(Value::Integer(0o644))),
            ("0x1F", Some(Value::Integer(31))),
            ("1.5", Some(Value::Float(1.5))),
            ("1e3", Some(Value::Float(1000.0))),
            (".5", Some(Value::Float(0.5))),
            ("true", Some(Value::Boolean(true))),
            ("~", Some(Value::Undef)),
            ("", Some(Value::Undef)),
            ("0644", None),
            ("yes", None),
            ("off", None),
            ("1.2.3", None),
            ("-", None),
            (".", None),
            ("1e", None),
            ("12:30", None),
            ("2026-01-01", None),
            ("nobody", None),
        ] {
            assert_eq!(typed(text), value, "{text}");
        }
    }

    #[test]
    fn json_and_yaml_numbers_are_distinguished() {
        for good in ["0", "-1", "1.5", "1e5", "1E-5", "10"] {
            assert!(is_json_number(good), "{good}");
        }
        for bad in ["01", "+1", ".5", "1.", "1e", "-", "0x1", "tru", "1.e5"] {
            assert!(!is_json_number(bad), "{bad}");
        }
    }
}
