//! Ranges in names of hosts: `web[01:50:2]`, `db-[a:f]`.

use std::net::Ipv6Addr;

use ecow::{EcoString, eco_format};

/// Maximum number of names of one text with ranges.
pub(crate) const MAX_RANGE: usize = 65_536;

/// Returns true if a text has a range. An IPv6 address in brackets is none.
pub(crate) fn has_range(text: &str) -> bool {
    let inside = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(inside, _)| inside);
    inside.is_some_and(|inside| inside.contains(':') && inside.parse::<Ipv6Addr>().is_err())
}

/// Returns the names of a text with ranges; the text itself if it has none. The last range varies fastest.
///
/// # Errors
/// The fault of a range, if it is not valid or has too many names.
pub(crate) fn expand(text: &str) -> Result<Vec<EcoString>, EcoString> {
    let mut names = vec![EcoString::new()];
    let mut rest = text;
    while has_range(rest) {
        let Some((before, (range, after))) = rest.split_once('[').and_then(|(b, r)| Some((b, r.split_once(']')?)))
        else {
            break;
        };
        let parts = parts(range)?;
        if names.len().saturating_mul(parts.len()) > MAX_RANGE {
            return Err(too_many(text));
        }
        names =
            names.iter().flat_map(|name| parts.iter().map(move |part| eco_format!("{name}{before}{part}"))).collect();
        rest = after;
    }
    names.iter_mut().for_each(|name| name.push_str(rest));
    Ok(names)
}

fn too_many(text: &str) -> EcoString {
    eco_format!("`{text}` has more than {MAX_RANGE} names")
}

/// Returns the words of one range, without brackets.
fn parts(range: &str) -> Result<Vec<EcoString>, EcoString> {
    let wrong = |reason: &str| eco_format!("`[{range}]` is not a range: {reason}");
    let bounds: Vec<&str> = range.split(':').collect();
    let (first, last, step) = match bounds[..] {
        [first, last] => (first, last, "1"),
        [first, last, step] => (first, last, step),
        _ => return Err(wrong("FIRST:LAST or FIRST:LAST:STEP is expected")),
    };
    let step: usize =
        step.parse().ok().filter(|step| *step > 0).ok_or_else(|| wrong("the step is a number above 0"))?;
    if let (&[first], &[last]) = (first.as_bytes(), last.as_bytes())
        && first.is_ascii_alphabetic()
        && last.is_ascii_alphabetic()
    {
        // As in Python's string.ascii_letters, `Z` comes after `a`.
        let place = |letter: u8| if letter.is_ascii_lowercase() { letter - b'a' } else { letter - b'A' + 26 };
        if place(first) > place(last) {
            return Err(wrong("the last letter comes before the first one"));
        }
        let letter = |at: u8| char::from(if at < 26 { b'a' + at } else { b'A' + at - 26 });
        return Ok((place(first)..=place(last)).step_by(step).map(|at| eco_format!("{}", letter(at))).collect());
    }
    let first = if first.is_empty() { "0" } else { first };
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number
            .then(|| text.parse::<u64>().ok())
            .flatten()
            .ok_or_else(|| wrong("two numbers or two letters are expected"))
    };
    let (from, to) = (number(first)?, number(last)?);
    let width = if first.len() > 1 && first.starts_with('0') { first.len() } else { 0 };
    if width > 0 && last.len() != width {
        return Err(wrong("both numbers have the same number of digits if the first one begins with 0"));
    }
    if from > to {
        return Err(wrong("the last number is below the first one"));
    }
    if (to - from) / step as u64 >= MAX_RANGE as u64 {
        return Err(eco_format!("`[{range}]` has more than {MAX_RANGE} names"));
    }
    Ok((from..=to).step_by(step).map(|number| eco_format!("{number:0width$}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        match expand(text) {
            Ok(names) => names.join(" "),
            Err(fault) => format!("! {fault}"),
        }
    }

    #[test]
    fn ranges_are_expanded() {
        assert_eq!(shown("web1"), "web1");
        assert_eq!(
            shown("www[01:07:2].example.com"),
            "www01.example.com www03.example.com www05.example.com www07.example.com"
        );
        assert_eq!(shown("db-[a:c]"), "db-a db-b db-c");
        assert_eq!(shown("r[1:2]h[8:10]"), "r1h8 r1h9 r1h10 r2h8 r2h9 r2h10");
        assert_eq!(shown("n[:2]"), "n0 n1 n2");
        assert_eq!(shown("n[098:100]"), "n098 n099 n100");
        // An address in brackets is no range of names, and an index is none.
        assert_eq!(shown("web[1]"), "web[1]");
    }

    #[test]
    fn invalid_and_endless_ranges_are_refused() {
        for text in [
            "n[1:999999999]",
            "n[0:9999]m[0:9999]",
            "n[3:1]",
            "n[01:100]",
            "n[a:9]",
            "n[1:9:0]",
            "n[1:2:3:4]",
            "n[c:a]",
            "n[:]",
            "n[1:-1]",
            "n[1:99999999999999999999]",
            "n[0:18446744073709551615]",
        ] {
            assert!(shown(text).starts_with("! "), "{text}: {}", shown(text));
        }
    }
}
