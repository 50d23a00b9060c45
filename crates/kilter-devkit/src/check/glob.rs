//! Patterns of paths: `*` and `?` within a name, `**` for any names.

/// Returns true if a pattern matches a path or one of its ancestors. A pattern without a leading `/` may start at
/// any directory.
pub(super) fn is_meant(pattern: &str, path: &str) -> bool {
    let names: Vec<&str> = path.trim_matches('/').split('/').collect();
    let parts: Vec<&str> = pattern.trim_matches('/').split('/').filter(|part| !part.is_empty()).collect();
    let starts = if pattern.starts_with('/') { 0..1 } else { 0..names.len() };
    starts.into_iter().any(|start| (start + 1..=names.len()).any(|end| fits(&parts, &names[start..end])))
}

fn fits(parts: &[&str], names: &[&str]) -> bool {
    match (parts.split_first(), names.split_first()) {
        (None, None) => true,
        (Some((&"**", rest)), _) => {
            // It matches the content of a directory, not the directory itself.
            let least = usize::from(rest.is_empty());
            (least..=names.len()).any(|taken| fits(rest, &names[taken..]))
        }
        (Some((part, parts)), Some((name, names))) => {
            let (part, name): (Vec<char>, Vec<char>) = (part.chars().collect(), name.chars().collect());
            matches(&part, &name) && fits(parts, names)
        }
        _ => false,
    }
}

fn matches(part: &[char], name: &[char]) -> bool {
    match (part.split_first(), name.split_first()) {
        (None, None) => true,
        (Some(('*', rest)), _) => (0..=name.len()).any(|taken| matches(rest, &name[taken..])),
        (Some(('?', rest)), Some((_, name))) => matches(rest, name),
        (Some((wanted, rest)), Some((found, name))) => wanted == found && matches(rest, name),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::is_meant;

    #[test]
    fn pattern_matches_path_and_entries_below() {
        assert!(is_meant("/var/log", "/var/log") && is_meant("/var/log", "/var/log/a/b"));
        assert!(!is_meant("/var/log", "/var/logs") && !is_meant("/var/log", "/srv/var/log"));
        assert!(is_meant("__pycache__", "/usr/lib/x/__pycache__/a.pyc") && is_meant("*.log", "/a/b.log"));
    }

    #[test]
    fn stars_match_within_or_across_names() {
        assert!(is_meant("/var/cache/**", "/var/cache/a/b") && !is_meant("/var/cache/**", "/var/cache"));
        assert!(is_meant("/a/**/z", "/a/z") && is_meant("/a/**/z", "/a/b/c/z") && !is_meant("/a/*/z", "/a/b/c/z"));
        assert!(is_meant("/a/b?c*", "/a/bxcd") && !is_meant("/a/b?c", "/a/bc"));
    }
}
