//! Comparison of version numbers.

use std::cmp::Ordering;

/// Compares two versions part by part, like Puppet's `versioncmp`. Digits compare as numbers, other parts as
/// text. `-` and `.` separate parts. A missing part is smaller.
pub(crate) fn compare(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (parts(a), parts(b));
    loop {
        let ordering = match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(x), Some(y)) if x == y => Ordering::Equal,
            (Some("-"), Some(_)) => Ordering::Less,
            (Some(_), Some("-")) => Ordering::Greater,
            (Some("."), Some(_)) => Ordering::Less,
            (Some(_), Some(".")) => Ordering::Greater,
            (Some(x), Some(y)) if is_number(x) && is_number(y) => by_number(x, y),
            (Some(x), Some(y)) => x.to_uppercase().cmp(&y.to_uppercase()),
        };
        if ordering != Ordering::Equal {
            return ordering;
        }
    }
}

fn is_number(part: &str) -> bool {
    part.starts_with(|c: char| c.is_ascii_digit())
}

/// Compares runs of digits of any length. Digits with a leading zero compare as a fraction (Puppet).
fn by_number(x: &str, y: &str) -> Ordering {
    if x.starts_with('0') || y.starts_with('0') {
        return x.cmp(y);
    }
    x.len().cmp(&y.len()).then_with(|| x.cmp(y))
}

fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let end = match first {
            '.' | '-' => 1,
            _ if first.is_ascii_digit() => rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()),
            _ => rest.find(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-')).unwrap_or(rest.len()),
        };
        let (part, after) = rest.split_at(end);
        rest = after;
        Some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        for (less, more) in [("1.9", "1.10"), ("1.2", "1.2.1"), ("2.4-1", "2.4.1"), ("1.0a", "1.0b"), ("9", "12")] {
            assert_eq!(compare(less, more), Ordering::Less, "{less} {more}");
            assert_eq!(compare(more, less), Ordering::Greater, "{more} {less}");
        }
        assert_eq!(compare("1.2.3", "1.2.3"), Ordering::Equal);
    }
}
