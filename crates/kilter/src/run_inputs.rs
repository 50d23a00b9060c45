//! Manifests and facts of a run, for its record.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use ecow::EcoString;
use indexmap::IndexMap;
use kilter_manifest::{SourceOrigin, Sources};
use kilter_model::{Span, Value, to_json};
use serde_json::{Value as Json, json};

use crate::pull::Checkout;

/// Maximum size of a file of git in bytes.
const MAX_GIT_BYTES: u64 = 1 << 20;

/// Inputs of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunInputs {
    sources: Vec<SourceDigest>,
    /// Facts that the manifests use.
    pub(crate) facts: Json,
    /// Changes that the run undoes.
    pub(crate) subject: Option<String>,
    /// Id of the plan that the run applies.
    pub(crate) plan: Option<String>,
}

/// A manifest, or a file that it includes.
#[derive(Clone, Debug)]
struct SourceDigest {
    name: EcoString,
    length: u64,
    sha256: String,
    /// File when the text was read, and the starts of its lines; none if this run has read the file.
    origin: Option<(Arc<SourceOrigin>, Vec<usize>)>,
}

impl RunInputs {
    /// Returns the inputs of a compilation.
    pub(crate) fn of(sources: &Sources, facts: &IndexMap<EcoString, Value>) -> RunInputs {
        let digest = |id| {
            let source = sources.get(id);
            let sha256 = kilter_history::sha256(source.text.as_bytes());
            let origin = source.origin.clone().map(|origin| (origin, starts(&source.text)));
            SourceDigest { name: source.name.clone(), length: source.text.len() as u64, sha256, origin }
        };
        let facts = match facts.is_empty() {
            true => Json::Null,
            false => Json::Object(facts.iter().map(|(name, value)| (name.to_string(), to_json(value))).collect()),
        };
        RunInputs { sources: sources.ids().map(digest).collect(), facts, subject: None, plan: None }
    }

    /// Returns the inputs of an undo.
    pub(crate) fn of_undo(subject: &str) -> RunInputs {
        RunInputs { subject: Some(subject.to_owned()), ..RunInputs::default() }
    }

    /// Returns these inputs as those of the plan with this id.
    pub(crate) fn of_plan(self, id: &str) -> RunInputs {
        RunInputs { plan: Some(id.to_owned()), ..self }
    }

    /// Returns the manifests with their digests and commits.
    pub(crate) fn manifests(&self) -> Json {
        let manifest = |source: &SourceDigest| {
            let found = match &source.origin {
                Some((origin, _)) => Some(SourceOrigin::clone(origin)),
                None => origin_of(&source.name),
            };
            let SourceOrigin { path, version } =
                found.unwrap_or_else(|| SourceOrigin { path: source.name.clone(), version: Vec::new() });
            let mut manifest = json!({ "path": path.as_str(), "sha256": source.sha256 });
            for (key, text) in version {
                manifest[key.as_str()] = text.as_str().into();
            }
            manifest
        };
        self.sources.iter().map(manifest).collect()
    }
}

/// Lines of the manifests. A file is read again when a change in it is recorded, so that a run without changes keeps no
/// texts.
#[derive(Debug, Default)]
pub(crate) struct ManifestLines {
    /// Shown path and starts of the lines of each source; no starts if the file has changed meanwhile.
    read: HashMap<u16, (String, Vec<usize>)>,
}

impl ManifestLines {
    /// Returns the file and the line of a span.
    pub(crate) fn place(&mut self, inputs: &RunInputs, span: Span) -> Option<String> {
        // A resource that is restored has no place.
        let source = inputs.sources.get(usize::from(span.source.0)).filter(|_| span.end > 0)?;
        let (shown, starts) = self.read.entry(span.source.0).or_insert_with(|| {
            if let Some((origin, starts)) = &source.origin {
                return (origin.path.to_string(), starts.clone());
            }
            let path = std::fs::canonicalize(source.name.as_str()).ok();
            let shown = path.as_ref().map_or_else(|| source.name.to_string(), |path| path.display().to_string());
            (shown, path.and_then(|path| starts_of(&path, source)).unwrap_or_default())
        });
        Some(match starts.partition_point(|start| *start <= span.start as usize) {
            0 => shown.clone(),
            line => format!("{shown}:{line}"),
        })
    }
}

/// Returns the file of a manifest with its version; none if it is no file.
pub(crate) fn origin_of(name: &str) -> Option<SourceOrigin> {
    let path = std::fs::canonicalize(name).ok()?;
    let version = match Checkout::of(&path) {
        Some(checkout) => {
            let keys = ["from", "ref", "commit", "version"].into_iter();
            keys.filter_map(|key| Some((key.into(), checkout.text(key)?.into()))).collect()
        }
        None => commit(&path).map(|commit| ("commit".into(), commit.into())).into_iter().collect(),
    };
    Some(SourceOrigin { path: path.display().to_string().into(), version })
}

/// Returns the starts of the lines of a text.
fn starts(text: &str) -> Vec<usize> {
    let after_newlines = text.match_indices('\n').map(|(at, _)| at + 1);
    std::iter::once(0).chain(after_newlines).collect()
}

/// Returns the starts of the lines of a manifest, unless it has changed meanwhile.
fn starts_of(path: &Path, source: &SourceDigest) -> Option<Vec<usize>> {
    let found = std::fs::metadata(path).ok()?;
    // A byte order mark is no part of the text.
    if !found.is_file() || found.len().abs_diff(source.length) > 3 {
        return None;
    }
    let text = std::fs::read_to_string(path).ok()?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    if kilter_history::sha256(text.as_bytes()) != source.sha256 {
        return None;
    }
    Some(starts(text))
}

/// Returns the commit that is checked out in the git repository of a file. It starts no program.
fn commit(path: &Path) -> Option<String> {
    let directory = path.ancestors().skip(1).map(|parent| parent.join(".git")).find(|git| git.exists())?;
    let directory = match directory.is_dir() {
        true => directory,
        // A work tree or a submodule.
        false => directory.parent()?.join(text(&directory)?.strip_prefix("gitdir: ")?.trim()),
    };
    let head = text(&directory.join("HEAD"))?;
    let Some(reference) = head.strip_prefix("ref: ").map(str::trim) else { return hash(&head) };
    let common = text(&directory.join("commondir")).map(|common| directory.join(common.trim()));
    let places = [Some(directory), common];
    let places = places.iter().flatten();
    let loose = places.clone().find_map(|place| text(&place.join(reference)).and_then(|found| hash(&found)));
    loose.or_else(|| {
        let packed = places.clone().find_map(|place| text(&place.join("packed-refs")))?;
        packed.lines().find_map(|line| line.strip_suffix(reference).and_then(|start| hash(start.trim_end())))
    })
}

fn hash(text: &str) -> Option<String> {
    let text = text.trim();
    let is_hash = [40, 64].contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash.then(|| text.to_owned())
}

fn text(path: &Path) -> Option<String> {
    let found = std::fs::metadata(path).ok()?;
    if !found.is_file() || found.len() > MAX_GIT_BYTES {
        return None;
    }
    std::fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "0123456789abcdef0123456789abcdef01234567";

    #[test]
    fn commit_is_found_in_loose_and_packed_references_and_work_trees() {
        let place = tempfile::tempdir().unwrap();
        let git = place.path().join(".git");
        std::fs::create_dir_all(git.join("refs/heads")).unwrap();
        std::fs::create_dir(place.path().join("sub")).unwrap();
        let manifest = place.path().join("sub/site.yaml");
        std::fs::write(&manifest, "").unwrap();
        assert_eq!(commit(&manifest), None);
        std::fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        std::fs::write(git.join("packed-refs"), format!("# pack-refs\n{HASH} refs/heads/main\n")).unwrap();
        assert_eq!(commit(&manifest).as_deref(), Some(HASH));
        let other = HASH.replace('0', "f");
        std::fs::write(git.join("refs/heads/main"), format!("{other}\n")).unwrap();
        assert_eq!(commit(&manifest), Some(other));
        std::fs::write(git.join("HEAD"), format!("{HASH}\n")).unwrap();
        assert_eq!(commit(&manifest).as_deref(), Some(HASH));
        std::fs::write(git.join("HEAD"), "ref: ../../etc/passwd").unwrap();
        assert_eq!(commit(&manifest), None);
    }
}
