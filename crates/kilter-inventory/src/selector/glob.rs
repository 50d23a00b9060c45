//! Shell patterns for names: `*`, `?`, `[a-c]`, `[!x]`.

/// Returns true if a pattern matches a whole name. Needs at most the product of both lengths in steps.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    let (mut p, mut n) = (0, 0);
    // Place of the last `*`, and of the text that it has consumed so far.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match step(&pattern, p, name[n]) {
            GlobStep::Star => {
                star = Some((p, n));
                p += 1;
            }
            GlobStep::To(next) => {
                p = next;
                n += 1;
            }
            GlobStep::Differs => match star {
                Some((at, consumed)) => {
                    star = Some((at, consumed + 1));
                    (p, n) = (at + 1, consumed + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

enum GlobStep {
    Star,
    /// The character matches, and the pattern continues there.
    To(usize),
    Differs,
}

fn step(pattern: &[char], at: usize, c: char) -> GlobStep {
    let matched = |is_match: bool, next: usize| if is_match { GlobStep::To(next) } else { GlobStep::Differs };
    match pattern.get(at) {
        Some('*') => GlobStep::Star,
        Some('?') => GlobStep::To(at + 1),
        Some('[') => match set(&pattern[at..], c) {
            Some((is_match, length)) => matched(is_match, at + length),
            None => matched(c == '[', at + 1),
        },
        Some(literal) => matched(*literal == c, at + 1),
        None => GlobStep::Differs,
    }
}

/// Reads a set of characters. Returns if it contains a character, and its length; none if it is not closed.
fn set(pattern: &[char], c: char) -> Option<(bool, usize)> {
    let is_negated = pattern.get(1) == Some(&'!');
    let first = if is_negated { 2 } else { 1 };
    let close = first + 1 + pattern.get(first + 1..)?.iter().position(|c| *c == ']')?;
    let inside = &pattern[first..close];
    let mut at = 0;
    let mut is_in = false;
    while at < inside.len() {
        match inside.get(at + 1..at + 3) {
            Some(['-', last]) => {
                is_in |= (inside[at]..=*last).contains(&c);
                at += 3;
            }
            _ => {
                is_in |= inside[at] == c;
                at += 1;
            }
        }
    }
    Some((is_in != is_negated, close + 1))
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name) in [
            ("web*", "web"),
            ("*.example.com", "a.example.com"),
            ("web?", "web1"),
            ("w*b*1", "webbb1"),
            ("[a-c]1", "b1"),
            ("[!a-c]1", "d1"),
            ("*", ""),
            ("a[", "a["),
            ("[]]", "]"),
            ("**", "x"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in
            [("web", "web1"), ("web?", "web"), ("[a-c]1", "d1"), ("[!a]", "a"), ("*x", "xy"), ("", "x")]
        {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
        let (pattern, name) = ("*a".repeat(500), "a".repeat(5000) + "b");
        assert!(!matches(&pattern, &name));
    }
}
