//! Facts by dotted path.

use kilter_model::Value;
use kilter_model::suggest::nearest;

use crate::facts::Facts;

/// Reason why a path does not lead to a fact.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// The fact, or a part of it, does not exist.
    #[error("there is no fact `{path}`{}", did_you_mean(.nearest.as_deref()))]
    Missing {
        /// The path up to the missing part.
        path: String,
        /// The most similar path.
        nearest: Option<String>,
    },
    /// The path leads into a value without parts.
    #[error("the fact `{path}` is of kind {kind} and has no parts")]
    NoParts {
        /// Path of the value.
        path: String,
        /// Kind of the value.
        kind: &'static str,
    },
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map(|path| format!("; did you mean `{path}`?")).unwrap_or_default()
}

impl Facts {
    /// Returns the value at a dotted path: `os.release.major`, `processors.models.0`.
    ///
    /// A key may contain dots (`/etc/ssl.d` in `mountpoints`, `eth0.5` in `interfaces`). The longest matching
    /// key wins.
    ///
    /// # Errors
    /// If the path does not lead to a value.
    pub fn lookup(&self, path: &str) -> Result<Value, LookupError> {
        let (name, rest) = path.split_once('.').map_or((path, None), |(name, rest)| (name, Some(rest)));
        let Some(value) = self.get(name) else {
            // The name of an external fact may contain dots. This comes second, because a query for an unknown
            // name runs executables, which `os.name` must not do.
            return self.get(path).ok_or_else(|| {
                let names = self.names();
                // An existing fact that this machine does not have is not a misspelling.
                let others = names.iter().map(|name| name.as_str());
                let nearest = nearest(name, others).filter(|near| *near != name).map(str::to_owned);
                LookupError::Missing { path: name.to_owned(), nearest }
            });
        };
        match rest {
            // Mold's script `os.sh` is a fact of that name, independent of `os`. A misspelled path runs no
            // executables.
            Some(rest) => descend(&value, name, rest).or_else(|error| self.top_level(path).ok_or(error)),
            None => Ok(value),
        }
    }
}

/// Follows `rest` from `value`, which was found at `walked`.
fn descend(value: &Value, walked: &str, rest: &str) -> Result<Value, LookupError> {
    let (inner, taken) = match value.unwrap_sensitive() {
        Value::Hash(entries) => {
            let part = prefixes(rest).find_map(|part| Some((entries.get(part)?, part)));
            part.ok_or_else(|| missing(walked, rest, entries.keys().map(|key| key.as_str())))?
        }
        Value::Array(values) => {
            let part = first(rest);
            let index: Option<usize> = part.parse().ok();
            let inner = index.and_then(|index| values.get(index));
            (inner.ok_or_else(|| missing(walked, rest, std::iter::empty()))?, part)
        }
        other => return Err(LookupError::NoParts { path: walked.to_owned(), kind: other.kind() }),
    };
    match rest[taken.len()..].strip_prefix('.') {
        Some(rest) => descend(inner, &format!("{walked}.{taken}"), rest),
        None => Ok(inner.clone()),
    }
}

/// Returns the prefixes of a path that end at a dot or at the end, the longest first.
fn prefixes(path: &str) -> impl Iterator<Item = &str> {
    let ends = std::iter::once(path.len()).chain(path.rmatch_indices('.').map(|(at, _)| at));
    ends.map(move |end| &path[..end])
}

fn first(path: &str) -> &str {
    path.split_once('.').map_or(path, |(part, _)| part)
}

fn missing<'a>(walked: &str, rest: &str, known: impl Iterator<Item = &'a str>) -> LookupError {
    let part = first(rest);
    LookupError::Missing {
        path: format!("{walked}.{part}"),
        nearest: nearest(part, known).map(|part| format!("{walked}.{part}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FactSource;

    fn facts() -> Facts {
        let list = Value::strings(["a", "b"]);
        let deep = Value::hash([("eth0.5", Value::hash([("mtu", Value::from(1500))])), ("list", list)]);
        Facts::new(FactSource::new("/nonexistent", crate::LiveKernel)).with_fact("deep", deep)
    }

    #[test]
    fn a_path_leads_through_hashes_arrays_and_keys_with_dots() {
        assert_eq!(facts().lookup("deep.list.1"), Ok(Value::from("b")));
        assert_eq!(facts().lookup("deep.eth0.5.mtu"), Ok(Value::from(1500)));
    }

    #[test]
    fn fact_name_with_dots_coexists_with_its_prefix() {
        let facts = facts().with_fact("deep.sh", Value::from("external"));
        assert_eq!(facts.lookup("deep.sh"), Ok(Value::from("external")));
        assert_eq!(facts.lookup("deep.list.1"), Ok(Value::from("b")));
    }

    #[test]
    fn unknown_path_suggests_nearest_fact() {
        let said = |path: &str| facts().lookup(path).unwrap_err().to_string();
        assert_eq!(said("dep.list"), "there is no fact `dep`; did you mean `deep`?");
        assert_eq!(said("deep.lits.1"), "there is no fact `deep.lits`; did you mean `deep.list`?");
        assert_eq!(said("deep.list.2"), "there is no fact `deep.list.2`");
        assert_eq!(said("deep.list.1.x"), "the fact `deep.list.1` is of kind String and has no parts");
    }
}
