//! Versions of Debian packages: `[EPOCH:]UPSTREAM[-REVISION]` (deb-version(7)).

use std::cmp::Ordering;

/// Compares two versions as dpkg does.
pub(super) fn compare(one: &str, other: &str) -> Ordering {
    let (one, other) = (Version::of(one), Version::of(other));
    let by_epoch = compare_numbers(one.epoch, other.epoch);
    by_epoch.then_with(|| part(one.upstream, other.upstream)).then_with(|| part(one.revision, other.revision))
}

/// Returns true if dpkg treats both versions as the same: `1.0` and `0:1.0-0`.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    one == other || compare(one, other).is_eq()
}

/// Parts of a version.
struct Version<'a> {
    epoch: &'a [u8],
    upstream: &'a [u8],
    revision: &'a [u8],
}

impl Version<'_> {
    fn of(text: &str) -> Version<'_> {
        let (epoch, rest) = text.split_once(':').unwrap_or(("", text));
        let (upstream, revision) = rest.rsplit_once('-').unwrap_or((rest, ""));
        Version { epoch: epoch.as_bytes(), upstream: upstream.as_bytes(), revision: revision.as_bytes() }
    }
}

/// Compares two upstream versions, or two revisions: alternately a part without digits, and a number.
fn part(mut one: &[u8], mut other: &[u8]) -> Ordering {
    while !one.is_empty() || !other.is_empty() {
        let (text, text_other) =
            (split(&mut one, |byte| !byte.is_ascii_digit()), split(&mut other, |byte| !byte.is_ascii_digit()));
        let (number, number_other) = (split(&mut one, u8::is_ascii_digit), split(&mut other, u8::is_ascii_digit));
        let ordering = compare_texts(text, text_other).then_with(|| compare_numbers(number, number_other));
        if ordering.is_ne() {
            return ordering;
        }
    }
    Ordering::Equal
}

/// Removes the longest prefix of such bytes, and returns it.
fn split<'a>(bytes: &mut &'a [u8], is_meant: impl Fn(&u8) -> bool) -> &'a [u8] {
    let end = bytes.iter().position(|byte| !is_meant(byte)).unwrap_or(bytes.len());
    let (prefix, rest) = bytes.split_at(end);
    *bytes = rest;
    prefix
}

/// Compares parts without digits. The end of a part comes after `~` and before everything else, and letters come before
/// other characters.
fn compare_texts(one: &[u8], other: &[u8]) -> Ordering {
    let length = one.len().max(other.len());
    let order = |text: &[u8], at: usize| match text.get(at) {
        Some(b'~') => -1,
        None => 0,
        Some(byte) if byte.is_ascii_alphabetic() => i32::from(*byte),
        Some(byte) => i32::from(*byte) + 256,
    };
    (0..length)
        .map(|at| order(one, at).cmp(&order(other, at)))
        .find(|ordering| ordering.is_ne())
        .unwrap_or(Ordering::Equal)
}

/// Compares decimal numbers of any length. No digits are zero.
fn compare_numbers(one: &[u8], other: &[u8]) -> Ordering {
    let significant = |digits: &'_ [u8]| digits.iter().position(|digit| *digit != b'0').unwrap_or(digits.len());
    let (one, other) = (&one[significant(one)..], &other[significant(other)..]);
    one.len().cmp(&other.len()).then_with(|| one.cmp(other))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn versions_of_the_policy_are_ordered() {
        let ascending = [
            "1.0~~", "1.0~~a", "1.0~", "1.0-0~1", "1.0", "1.0-1", "1.0a", "1.0+b1", "1.0.1", "1.0.9", "1.0.10", "2",
            "10", "1:0.1", "2:0",
        ];
        for (at, one) in ascending.iter().enumerate() {
            for (behind, other) in ascending.iter().enumerate() {
                assert_eq!(compare(one, other), at.cmp(&behind), "{one} {other}");
            }
        }
        assert!(is_same("1.0", "0:1.0-0") && is_same("1.01", "1.1") && !is_same("1.0", "1.0~"));
    }

    /// Returns a pseudo-random number below `limit`.
    fn next(state: &mut u64, limit: usize) -> usize {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) as usize % limit
    }

    fn random(state: &mut u64) -> String {
        const PIECES: [&str; 18] =
            ["0", "1", "9", "10", "00", "09", "a", "B", "z", "~", "~~", "+", ".", "rc", "git", "+b1", "1.2", "-"];
        let mut text = ["", "", "0:", "1:", "12:"][next(state, 5)].to_owned();
        text += ["0", "1", "2", "01"][next(state, 4)];
        for _ in 0..next(state, 6) {
            text += PIECES[next(state, PIECES.len())];
        }
        // dpkg refuses an empty revision.
        text.truncate(text.trim_end_matches('-').len());
        text + ["", "", "-1", "-0", "-1~deb12u1", "-0ubuntu1"][next(state, 6)]
    }

    #[test]
    fn random_versions_are_ordered_as_by_dpkg() {
        let mut state = 20_384;
        let pairs: Vec<(String, String)> = (0..2500).map(|_| (random(&mut state), random(&mut state))).collect();
        // One shell makes all comparisons.
        let mut script = String::from(
            "compare() {\n for order in lt gt; do\n  dpkg --compare-versions \"$1\" $order \"$2\" && echo $order && \
             return\n done\n echo eq\n}\n",
        );
        for (one, other) in &pairs {
            script += &format!("compare '{one}' '{other}'\n");
        }
        let output = Command::new("bash").args(["-c", &script]).output().unwrap();
        let told = String::from_utf8(output.stdout).unwrap();
        assert_eq!(told.lines().count(), pairs.len());
        for ((one, other), word) in pairs.iter().zip(told.lines()) {
            let expected = match word {
                "lt" => Ordering::Less,
                "gt" => Ordering::Greater,
                _ => Ordering::Equal,
            };
            assert_eq!(compare(one, other), expected, "{one} {other}");
        }
    }
}
