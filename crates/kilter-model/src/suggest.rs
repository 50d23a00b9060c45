//! Suggestions for misspelled words ("did you mean").

use crate::foreign_words::are_opposites;

/// Returns the word of `known` that is most similar to `word`, if it is similar enough. Otherwise, returns the
/// only known word that ends with `word`. Never returns an opposite of `word`: `started` is not a misspelling
/// of `stopped`.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let known: Vec<&str> = known.into_iter().filter(|candidate| !are_opposites(word, candidate)).collect();
    near(word, known.iter().copied()).or_else(|| completed(word, known))
}

/// Returns the only word that ends with `word`, ignoring case: `SIGTERM` for `term`.
fn completed<'a>(word: &str, known: Vec<&'a str>) -> Option<&'a str> {
    let ends = |candidate: &&str| {
        let at = candidate.len().checked_sub(word.len());
        at.and_then(|at| candidate.get(at..)).is_some_and(|end| end.eq_ignore_ascii_case(word))
    };
    let mut completed = known.into_iter().filter(ends);
    completed.next().filter(|_| word.len() > 1 && completed.next().is_none())
}

fn near<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().count();
    let limit = length.div_ceil(3).max(1);
    known
        // The distance is at least the difference of the lengths.
        .filter(|candidate| candidate.chars().count().abs_diff(length) <= limit)
        .map(|candidate| (strsim::osa_distance(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_word_is_suggested() {
        assert_eq!(nearest("ower", ["mode", "owner", "group"]), Some("owner"));
        assert_eq!(nearest("mdoe", ["mode", "owner"]), Some("mode"));
    }

    #[test]
    fn only_word_with_same_ending_is_suggested() {
        assert_eq!(nearest("TERM", ["SIGINT", "SIGTERM", "SIGTTIN"]), Some("SIGTERM"));
        assert_eq!(nearest("sigint", ["SIGINT", "SIGTERM"]), Some("SIGINT"));
        assert_eq!(nearest("size", ["minimal_size", "maximal_size"]), None);
        assert_eq!(nearest("", ["mode"]), None);
    }

    #[test]
    fn opposite_is_never_suggested() {
        for (word, known) in [
            ("started", ["running", "stopped"]),
            ("enabled", ["mask", "disabled"]),
            ("present", ["prevent", "absent"]),
            ("mounted", ["here", "unmounted"]),
        ] {
            assert_ne!(nearest(word, known), Some(known[1]), "{word}");
        }
        assert_eq!(nearest("stoped", ["running", "stopped"]), Some("stopped"));
    }

    #[test]
    fn distant_word_is_not_suggested() {
        assert_eq!(nearest("wibble", ["mode", "owner"]), None);
    }
}
