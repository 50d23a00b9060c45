//! The key `owns`: files that list the owned paths of a resource, and shared directories.

use std::path::PathBuf;

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, AutoTitle, TypeSchema, Value};

use super::identities;

/// Sources of the paths that a resource owns.
#[derive(Clone, Debug, PartialEq)]
pub struct Owns {
    /// Files with one path per line. The first existing file is used.
    lists: Vec<AutoTitle>,
    /// Directories that several resources share.
    shared: Vec<EcoString>,
}

impl Owns {
    /// Returns the files that may list the paths of a resource.
    pub(crate) fn lists(&self, schema: &TypeSchema, name: &str, should: &Attributes) -> Vec<PathBuf> {
        let titles = self.lists.iter().flat_map(|title| schema.titles(title, should, name).unwrap_or_default());
        titles
            .filter(|path| path.starts_with('/') && !leads_up(path))
            .map(|path| PathBuf::from(path.as_str()))
            .collect()
    }

    /// Returns true if a path, as a directory, is shared.
    pub(crate) fn is_shared(&self, path: &str) -> bool {
        self.shared.iter().any(|pattern| matches(pattern, path))
    }
}

/// Returns true if a path contains `..`, which indicates a resource name that is not a file name.
fn leads_up(path: &str) -> bool {
    path.split('/').any(|part| part == "..")
}

/// Reads `{lists: TITLES, shared: PATTERNS}`, or only the titles.
///
/// # Errors
/// Description of the fault.
pub(crate) fn read(value: &Value, schema: &TypeSchema) -> Result<Owns, EcoString> {
    let Some(entries) = value.as_hash() else { return Ok(Owns { lists: lists(value, schema)?, shared: Vec::new() }) };
    if let Some(key) = entries.keys().find(|key| !matches!(key.as_str(), "lists" | "shared")) {
        return Err(eco_format!("`owns` has `lists` and `shared`, and no `{key}`"));
    }
    let named = entries.get("lists").ok_or("`owns` needs `lists`: files with one path per line")?;
    let shared = entries.get("shared").map(identities::each).unwrap_or_default();
    let shared = shared.iter().map(pattern).collect::<Result<Vec<_>, _>>()?;
    Ok(Owns { lists: lists(named, schema)?, shared })
}

fn lists(value: &Value, schema: &TypeSchema) -> Result<Vec<AutoTitle>, EcoString> {
    let list = |value: &Value| match identities::title("owns", value, schema)? {
        AutoTitle::Constant(path) => Err(eco_format!("`owns`: `{path}` would be the list of every resource")),
        title => Ok(title),
    };
    identities::each(value).iter().map(list).collect()
}

fn pattern(value: &Value) -> Result<EcoString, EcoString> {
    let pattern = value.as_str().filter(|text| text.starts_with('/') && !text.trim_end_matches("/**").contains("**"));
    pattern.map(EcoString::from).ok_or_else(|| {
        let found = value.as_str().map_or_else(|| eco_format!("{}", value.kind()), |text| eco_format!("`{text}`"));
        eco_format!("`owns`: an entry of `shared` is a path such as /etc, /etc/*.d or /usr/**, not {found}")
    })
}

/// Matches a path with a pattern. `*` matches any part of a name, and `/**` at the end everything below.
fn matches(pattern: &str, path: &str) -> bool {
    let (pattern, below) = match pattern.strip_suffix("/**") {
        Some(top) => (top, true),
        None => (pattern, false),
    };
    let mut names = path.split('/');
    let is_met = pattern.split('/').all(|pattern| names.next().is_some_and(|name| matches_name(pattern, name)));
    is_met && (below || names.next().is_none())
}

fn matches_name(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(name) = name.strip_prefix(start) else { return false };
    name.char_indices().map(|(at, _)| at).chain([name.len()]).any(|at| matches_name(rest, &name[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_paths() {
        let met = [
            ("/etc", "/etc"),
            ("/*", "/srv"),
            ("/etc/*.d", "/etc/cron.d"),
            ("/usr/**", "/usr"),
            ("/usr/**", "/usr/a/b"),
        ];
        for (pattern, path) in met {
            assert!(matches(pattern, path), "{pattern} {path}");
        }
        for (pattern, path) in
            [("/etc", "/etc/a"), ("/*", "/a/b"), ("/etc/*.d", "/etc/x/y.d"), ("/usr/**", "/usrlocal")]
        {
            assert!(!matches(pattern, path), "{pattern} {path}");
        }
    }
}
