//! Versions of rpm and pacman: `[EPOCH:]VERSION[-RELEASE]`.
//!
//! Both compare the parts segment by segment: digits as numbers, letters as texts, everything else only separates
//! (rpm-version(7), vercmp(8)).

use std::cmp::Ordering;

/// Rules in which the two differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rules {
    /// `1.0~rc` is older than `1.0`, `1.0^git` and `1.0a` are newer.
    Rpm,
    /// `1.0rc` is older than `1.0`. `~` and `^` only separate.
    Pacman,
}

/// Compares two versions. A missing epoch is 0. A release counts only if both versions have one.
pub(super) fn compare(one: &str, other: &str, rules: Rules) -> Ordering {
    let (one, other) = (RpmVersion::of(one), RpmVersion::of(other));
    let by_epoch = compare_parts(one.epoch, other.epoch, rules);
    let by_version = by_epoch.then_with(|| compare_parts(one.version, other.version, rules));
    by_version.then_with(|| match (one.release, other.release) {
        (Some(one), Some(other)) => compare_parts(one, other, rules),
        _ => Ordering::Equal,
    })
}

struct RpmVersion<'a> {
    epoch: &'a str,
    version: &'a str,
    release: Option<&'a str>,
}

impl RpmVersion<'_> {
    fn of(text: &str) -> RpmVersion<'_> {
        let (epoch, rest) = text.split_once(':').filter(|(epoch, _)| !epoch.is_empty()).unwrap_or(("0", text));
        match rest.rsplit_once('-') {
            Some((version, release)) => RpmVersion { epoch, version, release: Some(release) },
            None => RpmVersion { epoch, version: rest, release: None },
        }
    }
}

/// Compares two versions without epoch and release, or two releases.
fn compare_parts(one: &str, other: &str, rules: Rules) -> Ordering {
    let (mut one, mut other) = (one.as_bytes(), other.as_bytes());
    loop {
        // For pacman, a separator at the end is a rest too.
        if rules == Rules::Pacman && (one.is_empty() || other.is_empty()) {
            return ends(one, other, rules);
        }
        let skipped = (separators(&mut one, rules), separators(&mut other, rules));
        if rules == Rules::Rpm {
            // `~` is older than the end of a version. `^` is newer than the end, but older than any other part.
            match (one.first(), other.first()) {
                (Some(b'~'), Some(b'~')) | (Some(b'^'), Some(b'^')) => {
                    (one, other) = (&one[1..], &other[1..]);
                    continue;
                }
                (Some(b'~'), _) => return Ordering::Less,
                (_, Some(b'~')) => return Ordering::Greater,
                (Some(b'^'), None) => return Ordering::Greater,
                (None, Some(b'^')) => return Ordering::Less,
                (Some(b'^'), Some(_)) => return Ordering::Less,
                (Some(_), Some(b'^')) => return Ordering::Greater,
                _ => {}
            }
        }
        if one.is_empty() || other.is_empty() {
            return ends(one, other, rules);
        }
        // For pacman, a part after more separators is newer: `1..0` and `1.0`.
        if rules == Rules::Pacman && skipped.0 != skipped.1 {
            return skipped.0.cmp(&skipped.1);
        }
        let is_number = one[0].is_ascii_digit();
        let segment = |bytes: &mut &'_ [u8]| match is_number {
            true => take(bytes, u8::is_ascii_digit).len(),
            false => take(bytes, u8::is_ascii_alphabetic).len(),
        };
        let (whole, whole_other) = (one, other);
        let (length, length_other) = (segment(&mut one), segment(&mut other));
        if length_other == 0 {
            // Numbers are newer than letters.
            return if is_number { Ordering::Greater } else { Ordering::Less };
        }
        let (left, right) = (&whole[..length], &whole_other[..length_other]);
        let ordering = if is_number { compare_numbers(left, right) } else { left.cmp(right) };
        if ordering.is_ne() {
            return ordering;
        }
    }
}

/// Compares the rests of two versions, of which one has ended.
fn ends(one: &[u8], other: &[u8], rules: Rules) -> Ordering {
    let is_letter = |rest: &[u8]| rules == Rules::Pacman && rest.first().is_some_and(u8::is_ascii_alphabetic);
    match (one.is_empty(), other.is_empty()) {
        (true, true) => Ordering::Equal,
        (true, false) if is_letter(other) => Ordering::Greater,
        (true, false) => Ordering::Less,
        (false, _) if is_letter(one) => Ordering::Less,
        (false, _) => Ordering::Greater,
    }
}

/// Removes separators, and returns their number.
fn separators(bytes: &mut &[u8], rules: Rules) -> usize {
    let is_special = |byte: &u8| rules == Rules::Rpm && matches!(byte, b'~' | b'^');
    take(bytes, |byte| !byte.is_ascii_alphanumeric() && !is_special(byte)).len()
}

/// Removes the longest prefix of such bytes, and returns it.
fn take<'a>(bytes: &mut &'a [u8], is_meant: impl Fn(&u8) -> bool) -> &'a [u8] {
    let end = bytes.iter().position(|byte| !is_meant(byte)).unwrap_or(bytes.len());
    let (prefix, rest) = bytes.split_at(end);
    *bytes = rest;
    prefix
}

/// Compares decimal numbers of any length.
fn compare_numbers(one: &[u8], other: &[u8]) -> Ordering {
    let significant = |digits: &[u8]| digits.iter().position(|digit| *digit != b'0').unwrap_or(digits.len());
    let (one, other) = (&one[significant(one)..], &other[significant(other)..]);
    one.len().cmp(&other.len()).then_with(|| one.cmp(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_rpm_are_ordered() {
        for (one, other, expected) in [
            ("1.0", "1.0", Ordering::Equal),
            ("1.0", "2.0", Ordering::Less),
            ("2.0.1", "2.0", Ordering::Greater),
            ("2.0.1a", "2.0.1", Ordering::Greater),
            ("5.5p1", "5.5p2", Ordering::Less),
            ("5.5p10", "5.5p1", Ordering::Greater),
            ("10xyz", "10.1xyz", Ordering::Less),
            ("xyz10", "xyz10.1", Ordering::Less),
            ("xyz.4", "8", Ordering::Less),
            ("xyz.4", "2", Ordering::Less),
            ("5.5p2", "5.6p1", Ordering::Less),
            ("5.6p1", "6.5p1", Ordering::Less),
            ("6.0.rc1", "6.0", Ordering::Greater),
            ("10b2", "10a1", Ordering::Greater),
            ("1.0aa", "1.0a", Ordering::Greater),
            ("10.0001", "10.1", Ordering::Equal),
            ("10.0001", "10.0039", Ordering::Less),
            ("4.999.9", "5.0", Ordering::Less),
            ("20101121", "20101122", Ordering::Less),
            ("2_0", "2.0", Ordering::Equal),
            ("a+", "a_", Ordering::Equal),
            ("+", "_", Ordering::Equal),
            ("1.0~rc1", "1.0", Ordering::Less),
            ("1.0~rc1", "1.0~rc2", Ordering::Less),
            ("1.0~rc1~git123", "1.0~rc1", Ordering::Less),
            ("1.0^", "1.0", Ordering::Greater),
            ("1.0^git1", "1.0^git2", Ordering::Less),
            ("1.0^git1", "1.01", Ordering::Less),
            ("1.0^20160101", "1.0.1", Ordering::Less),
            ("1.0~rc1^git1", "1.0~rc1", Ordering::Greater),
            ("1.0^git1~pre", "1.0^git1", Ordering::Less),
            ("1:1.0", "2.0", Ordering::Greater),
            ("0:1.0-1", "1.0-1", Ordering::Equal),
            ("1.0-1", "1.0-2", Ordering::Less),
            ("1.0-1", "1.0", Ordering::Equal),
            ("18446744073709551616", "18446744073709551617", Ordering::Less),
        ] {
            assert_eq!(compare(one, other, Rules::Rpm), expected, "{one} {other}");
            assert_eq!(compare(other, one, Rules::Rpm), expected.reverse(), "{other} {one}");
        }
    }

    #[test]
    fn versions_of_pacman_are_ordered() {
        let ascending = ["1.0a", "1.0b", "1.0beta", "1.0p", "1.0pre", "1.0rc", "1.0", "1.0.a", "1.0.1", "1:0.1"];
        for (at, one) in ascending.iter().enumerate() {
            for (behind, other) in ascending.iter().enumerate() {
                assert_eq!(compare(one, other, Rules::Pacman), at.cmp(&behind), "{one} {other}");
            }
        }
        assert_eq!(compare("1.5.0-1", "1.5.0-2", Rules::Pacman), Ordering::Less);
        assert_eq!(compare("1.5-1", "1.5", Rules::Pacman), Ordering::Equal);
        assert_eq!(compare("2.0.", "2.0", Rules::Pacman), Ordering::Greater);
    }

    /// Returns pairs of pseudo-random versions.
    pub(super) fn random(seed: u64, pieces: &[&str]) -> Vec<(String, String)> {
        let mut state = seed;
        let mut next = |limit: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % limit
        };
        let mut version = || -> String { (0..1 + next(5)).map(|_| pieces[next(pieces.len())]).collect() };
        (0..2000).map(|_| (version(), version())).collect()
    }

    #[test]
    fn random_versions_are_ordered_as_by_rpm() {
        let pieces = ["0", "1", "9", "10", "00", "a", "B", "rc", "~", "^", ".", "..", "+", "_", "1.2"];
        let pairs = random(7, &pieces);
        let script: String =
            pairs.iter().map(|(one, other)| format!("print(rpm.vercmp('{one}', '{other}'))\n")).collect();
        let output = std::process::Command::new("rpm").args(["--eval", &format!("%{{lua:{script}}}")]).output();
        let output = output.expect("rpm is installed");
        assert!(output.status.success(), "{output:?}");
        let told = String::from_utf8(output.stdout).unwrap();
        let signs: Vec<i32> = told.replace("-1", "m").chars().filter_map(sign).collect();
        assert_eq!(signs.len(), pairs.len());
        for ((one, other), sign) in pairs.iter().zip(signs) {
            assert_eq!(compare_parts(one, other, Rules::Rpm) as i32, sign, "{one} {other}");
        }
    }

    fn sign(c: char) -> Option<i32> {
        match c {
            'm' => Some(-1),
            '0' => Some(0),
            '1' => Some(1),
            _ => None,
        }
    }
}
