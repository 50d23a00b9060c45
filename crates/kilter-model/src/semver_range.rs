//! Ranges of semantic versions.

use std::fmt;
use std::str::FromStr;

use ecow::{EcoString, eco_format};
use semver::Version;

/// The text is not a version range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a range of versions")]
pub struct SemVerRangeError {
    text: String,
}

/// A version range: `>=1.0.0 <2.0.0`, `1.x`, `~1.2`, `^1.2.3`, `1.0.0 - 2.0.0`, and alternatives separated by
/// `||`.
///
/// The range contains a pre-release only if one of its ends is a pre-release of the same version.
#[derive(Clone)]
pub struct SemVerRange {
    text: EcoString,
    alternatives: Vec<Interval>,
}

/// End of an interval, included or excluded.
#[derive(Clone, Debug, PartialEq)]
struct End {
    version: Version,
    included: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Interval {
    low: Option<End>,
    high: Option<End>,
}

impl SemVerRange {
    /// Creates the range of a single version.
    pub fn exactly(version: &Version) -> SemVerRange {
        let text = eco_format!("{version} - {version}");
        SemVerRange { text, alternatives: vec![Interval::exactly(version.clone())] }
    }

    /// Returns true if the range contains a version.
    pub fn includes(&self, version: &Version) -> bool {
        self.alternatives.iter().any(|interval| interval.includes(version))
    }

    /// Returns true if the range contains every version of `other`, as far as the ends show.
    pub fn covers(&self, other: &SemVerRange) -> bool {
        other.alternatives.iter().all(|inner| self.alternatives.iter().any(|outer| outer.covers(inner)))
    }
}

impl Interval {
    fn exactly(version: Version) -> Interval {
        let end = End { version, included: true };
        Interval { low: Some(end.clone()), high: Some(end) }
    }

    fn includes(&self, version: &Version) -> bool {
        let above = self.low.as_ref().is_none_or(|low| match low.version.cmp_precedence(version) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Equal => low.included,
            std::cmp::Ordering::Greater => false,
        });
        let below = self.high.as_ref().is_none_or(|high| match version.cmp_precedence(&high.version) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Equal => high.included,
            std::cmp::Ordering::Greater => false,
        });
        above && below && (version.pre.is_empty() || self.names_prerelease(version))
    }

    fn names_prerelease(&self, version: &Version) -> bool {
        let same = |end: &End| {
            let (a, b) = (&end.version, version);
            !a.pre.is_empty() && (a.major, a.minor, a.patch) == (b.major, b.minor, b.patch)
        };
        match (&self.low, &self.high) {
            (None, None) => true,
            (low, high) => low.iter().chain(high).any(same),
        }
    }

    fn covers(&self, inner: &Interval) -> bool {
        if let (Some(only), true) = (&inner.low, inner.low == inner.high) {
            return self.includes(&only.version);
        }
        let low = match (&self.low, &inner.low) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(outer), Some(inner)) => {
                outer.version < inner.version || outer.version == inner.version && (outer.included || !inner.included)
            }
        };
        let high = match (&self.high, &inner.high) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(outer), Some(inner)) => {
                outer.version > inner.version || outer.version == inner.version && (outer.included || !inner.included)
            }
        };
        low && high
    }

    /// Returns the intersection.
    fn and(self, other: Interval) -> Interval {
        let low = match (self.low, other.low) {
            (Some(a), Some(b)) if (&a.version, !a.included) >= (&b.version, !b.included) => Some(a),
            (Some(_), Some(b)) => Some(b),
            (a, b) => a.or(b),
        };
        let high = match (self.high, other.high) {
            (Some(a), Some(b)) if (&a.version, a.included) <= (&b.version, b.included) => Some(a),
            (Some(_), Some(b)) => Some(b),
            (a, b) => a.or(b),
        };
        Interval { low, high }
    }
}

impl PartialEq for SemVerRange {
    fn eq(&self, other: &SemVerRange) -> bool {
        self.alternatives == other.alternatives
    }
}

impl fmt::Display for SemVerRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for SemVerRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for SemVerRange {
    type Err = SemVerRangeError;

    fn from_str(text: &str) -> Result<SemVerRange, SemVerRangeError> {
        let alternatives: Option<Vec<Interval>> = match text.trim().is_empty() {
            true => Some(vec![Interval::default()]),
            false => text.split("||").map(|part| interval(part.trim())).collect(),
        };
        match alternatives {
            Some(alternatives) => Ok(SemVerRange { text: text.into(), alternatives }),
            None => Err(SemVerRangeError { text: text.to_owned() }),
        }
    }
}

fn interval(text: &str) -> Option<Interval> {
    let words: Vec<&str> = text.split_whitespace().collect();
    if let [low, "-", high] = words.as_slice() {
        let low = End { version: partial(low)?.filled(), included: true };
        let high = End { version: partial(high)?.filled(), included: true };
        return Some(Interval { low: Some(low), high: Some(high) });
    }
    let mut whole: Option<Interval> = None;
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let (operator, version) =
            word.split_at(word.find(|c| !matches!(c, '<' | '>' | '=' | '~' | '^')).unwrap_or(word.len()));
        let version = if version.is_empty() && !operator.is_empty() { words.next()? } else { version };
        let version = if operator.is_empty() { version } else { version.strip_prefix('v').unwrap_or(version) };
        let next = simple(operator, &partial(version)?)?;
        whole = Some(whole.map_or(next.clone(), |whole| whole.and(next)));
    }
    whole
}

/// A version with optional trailing parts, missing or `x`.
struct Partial {
    major: Option<u64>,
    minor: Option<u64>,
    patch: Option<u64>,
    /// The version if all parts are present.
    whole: Option<Version>,
}

impl Partial {
    fn filled(&self) -> Version {
        let parts = (self.major.unwrap_or(0), self.minor.unwrap_or(0), self.patch.unwrap_or(0));
        self.whole.clone().unwrap_or_else(|| Version::new(parts.0, parts.1, parts.2))
    }

    /// Returns the first version after all versions with the same prefix. None if there is no such version.
    fn next(&self) -> Option<Version> {
        match (self.major, self.minor, self.patch) {
            (None, ..) => None,
            (Some(major), None, _) => Some(Version::new(major.checked_add(1)?, 0, 0)),
            (Some(major), Some(minor), _) => Some(Version::new(major, minor.checked_add(1)?, 0)),
        }
    }
}

fn partial(text: &str) -> Option<Partial> {
    let numbers = text.split(['-', '+']).next().unwrap_or_default();
    let mut parts = numbers.split('.').map(|part| match part {
        "x" | "X" | "*" => Some(None),
        digits if digits.bytes().all(|b| b.is_ascii_digit()) && !(digits.len() > 1 && digits.starts_with('0')) => {
            digits.parse().ok().map(Some)
        }
        _ => None,
    });
    let major = parts.next()??;
    let minor = parts.next().unwrap_or(Some(None))?;
    let patch = parts.next().unwrap_or(Some(None))?;
    if parts.next().is_some() || (numbers.len() < text.len() && patch.is_none()) {
        return None;
    }
    // Parts after an `x` match any number.
    let minor = major.and(minor);
    let patch = minor.and(patch);
    let whole = match patch {
        Some(_) => Some(Version::parse(text).ok()?),
        None => None,
    };
    Some(Partial { major, minor, patch, whole })
}

fn simple(operator: &str, partial: &Partial) -> Option<Interval> {
    let at = |version, included| Some(End { version, included });
    let from = at(partial.filled(), true);
    let below = |version: Option<Version>| version.map(|version| End { version, included: false });
    let alike = Interval { low: from.clone().filter(|_| partial.major.is_some()), high: below(partial.next()) };
    Some(match (operator, partial.patch) {
        ("" | "=", Some(_)) => Interval::exactly(partial.filled()),
        ("" | "=" | "~" | "~>" | "~=", _) => alike,
        ("^", _) => match (partial.major, partial.minor) {
            (None, _) => Interval::default(),
            (Some(0), Some(_)) => alike,
            (Some(major), _) => Interval { low: from, high: below(Some(Version::new(major.checked_add(1)?, 0, 0))) },
        },
        (">=", _) => Interval { low: from, high: None },
        ("<", _) => Interval { low: None, high: at(partial.filled(), false) },
        (">", Some(_)) => Interval { low: at(partial.filled(), false), high: None },
        (">", None) => match partial.next() {
            Some(next) => Interval { low: at(next, true), high: None },
            None => Interval { low: None, high: at(Version::new(0, 0, 0), false) },
        },
        ("<=", Some(_)) => Interval { low: None, high: at(partial.filled(), true) },
        ("<=", None) => Interval { low: None, high: below(partial.next()) },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_contains_expected_versions() {
        for (range, inside, outside) in [
            (">=1.0.0 <2.0.0", &["1.0.0", "1.9.9"][..], &["2.0.0", "0.9.0", "1.5.0-rc1"][..]),
            ("1.x", &["1.0.0", "1.99.0"], &["2.0.0"]),
            ("1.0.0 - 2.0.0", &["1.0.0", "2.0.0"], &["2.0.1"]),
            ("~1.2.3", &["1.2.3", "1.2.9"], &["1.3.0"]),
            ("^1.2.3", &["1.9.0"], &["2.0.0", "1.2.2"]),
            ("^0.2.3", &["0.2.9"], &["0.3.0"]),
            (">1.2", &["1.3.0"], &["1.2.9"]),
            ("<=1.2", &["1.2.9"], &["1.3.0"]),
            ("1.0.0 || 3.x", &["1.0.0", "3.1.0"], &["2.0.0"]),
            (">=1.0.0-rc1", &["1.0.0-rc2", "1.0.0", "2.0.0"], &["1.0.0-beta", "2.0.0-rc1"]),
            (">= 1.0.0", &["1.0.0"], &["0.1.0"]),
            ("*", &["0.0.1", "1.0.0-a"], &[]),
            ("", &["0.0.1"], &[]),
            (">*", &[], &["1.0.0"]),
        ] {
            let range: SemVerRange = range.parse().unwrap();
            for version in inside {
                assert!(range.includes(&version.parse().unwrap()), "{version} in {range}");
            }
            for version in outside {
                assert!(!range.includes(&version.parse().unwrap()), "{version} in {range}");
            }
        }
    }

    #[test]
    fn a_range_covers_another() {
        let covers = |a: &str, b: &str| a.parse::<SemVerRange>().unwrap().covers(&b.parse().unwrap());
        assert!(covers(">=1.0.0", "1.x") && !covers("1.x", ">=1.0.0") && covers("1.x || 2.x", "2.1.x"));
        assert!(covers(">=1.0.0", "1.0.0") && !covers(">1.0.0", "1.0.0"));
    }

    #[test]
    fn invalid_range_is_refused() {
        for text in ["a", "1.2.3.4", ">>1", "01.2.3", "1.2.3 -", "=", "1.x-rc1", "99999999999999999999.x"] {
            assert!(text.parse::<SemVerRange>().is_err(), "{text}");
        }
    }
}
