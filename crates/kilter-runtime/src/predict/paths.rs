//! Predicted paths: the future state of each, and the resource that causes it.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Bound;
use std::path::Path;

use kilter_engine::ResourceId;
use kilter_provider::{Content, PathState};

/// Maximum number of links on the way to a path, as in Linux.
const MAX_LINKS: usize = 40;

/// Changed paths by their place: the path without links above it.
#[derive(Default)]
pub(super) struct Paths {
    entries: BTreeMap<String, (PathState, ResourceId)>,
}

/// Target of a path.
#[derive(Debug, PartialEq)]
pub(super) struct Resolved {
    /// The path without links.
    pub(super) place: String,
    /// Resource that changes a link on the way: on disk the path has another target.
    pub(super) by_link: Option<ResourceId>,
}

/// Prediction for a place.
#[derive(Debug, PartialEq)]
pub(super) enum Spot<'a> {
    /// The place itself is changed.
    Here(&'a PathState),
    /// A path above it is replaced or removed.
    Gone,
    /// It cannot be predicted.
    Unknown,
}

impl Paths {
    /// Follows the links above a path, predicted ones included. Follows a link at the path itself if `last` is
    /// true.
    ///
    /// # Errors
    /// The resource that makes the path unpredictable.
    pub(super) fn resolve(&self, path: &str, last: bool) -> Result<Resolved, ResourceId> {
        let mut todo: Vec<String> = parts(path);
        let mut place = String::new();
        let mut links = 0;
        let mut by_link = None;
        while let Some(part) = todo.pop() {
            match part.as_str() {
                "." => continue,
                ".." => {
                    place.truncate(place.rfind('/').unwrap_or(0));
                    continue;
                }
                _ => {}
            }
            place.push('/');
            place.push_str(&part);
            if todo.is_empty() && !last {
                break;
            }
            let target = match self.find(&place) {
                Some((Spot::Unknown, by)) => return Err(by),
                Some((Spot::Here(PathState::Link(target)), by)) => {
                    by_link = Some(by);
                    Some(target.to_string())
                }
                Some((Spot::Here(PathState::Kept), _)) | None => read_link(&place),
                Some(_) => None,
            };
            let Some(target) = target else { continue };
            links += 1;
            if links > MAX_LINKS {
                continue;
            }
            match target.starts_with('/') {
                true => place.clear(),
                false => place.truncate(place.rfind('/').unwrap_or(0)),
            }
            todo.extend(parts(&target));
        }
        if place.is_empty() {
            place.push('/');
        }
        Ok(Resolved { place, by_link })
    }

    /// Returns the prediction for a place, and the resource that causes it.
    pub(super) fn find(&self, place: &str) -> Option<(Spot<'_>, ResourceId)> {
        if self.entries.is_empty() {
            return None;
        }
        if let Some((node, by)) = self.entries.get(place) {
            return Some((if *node == PathState::Unknown { Spot::Unknown } else { Spot::Here(node) }, *by));
        }
        for (at, _) in place.rmatch_indices('/').filter(|(at, _)| *at > 0) {
            match self.entries.get(&place[..at]) {
                Some((PathState::Kept, _)) | None => {}
                Some((PathState::Unknown, by)) => return Some((Spot::Unknown, *by)),
                Some((PathState::File { content: Content::Kept, .. }, _)) => {}
                Some((_, by)) => return Some((Spot::Gone, *by)),
            }
        }
        None
    }

    /// Returns the changed places below a place.
    pub(super) fn below(&self, place: &str) -> impl Iterator<Item = (&str, ResourceId)> {
        let prefix = if place == "/" { "/".to_owned() } else { format!("{place}/") };
        let from = (Bound::Excluded(prefix.clone()), Bound::Unbounded);
        let range = self.entries.range::<String, _>(from);
        range.take_while(move |(entry, _)| entry.starts_with(&prefix)).map(|(entry, (_, by))| (entry.as_str(), *by))
    }

    /// Records the future state of a place. `is_later` returns true if a resource comes before the one that changes
    /// it now.
    pub(super) fn insert(
        &mut self,
        place: String,
        node: PathState,
        by: ResourceId,
        is_later: &dyn Fn(ResourceId) -> bool,
    ) {
        // No change replaces the root. An entry for it would discard all others.
        if place == "/" {
            return;
        }
        let node = match self.find(&place) {
            // Both resources create the directory if it is missing.
            Some((Spot::Here(PathState::Directory), _)) if node == PathState::Directory => return,
            Some((_, former)) if former != by && !is_later(former) => PathState::Unknown,
            Some((Spot::Unknown, _))
                if matches!(node, PathState::Kept | PathState::File { content: Content::Kept, .. }) =>
            {
                PathState::Unknown
            }
            Some((Spot::Here(former), _)) => merged(former, node),
            _ => node,
        };
        if !matches!(node, PathState::Kept | PathState::File { content: Content::Kept, .. }) {
            let below: Vec<String> = self.below(&place).map(|(entry, _)| entry.to_owned()).collect();
            below.iter().for_each(|entry| drop(self.entries.remove(entry)));
        }
        self.entries.insert(place, (node, by));
    }
}

/// Returns the state of a place after `node`, if `former` was predicted before.
fn merged(former: &PathState, node: PathState) -> PathState {
    match (former, node) {
        (former, PathState::Kept) => former.clone(),
        (PathState::File { content, mode: former }, PathState::File { content: Content::Kept, mode }) => {
            PathState::File { content: content.clone(), mode: mode.or(*former) }
        }
        (_, node) => node,
    }
}

fn read_link(place: &str) -> Option<String> {
    // Errors mean that there is no link, or that this user cannot read it.
    let target = fs::read_link(Path::new(place)).ok()?;
    target.into_os_string().into_string().ok()
}

/// Returns the components of a path in reverse order.
fn parts(path: &str) -> Vec<String> {
    path.split('/').rev().filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(entries: &[(&str, PathState, u32)]) -> Paths {
        let mut paths = Paths::default();
        for (place, node, by) in entries {
            paths.insert((*place).to_owned(), node.clone(), ResourceId::first(*by), &|_| true);
        }
        paths
    }

    #[test]
    fn find_replaced_directory_hides_entries_below() {
        let paths = paths(&[("/nowhere/d", PathState::Absent, 1), ("/nowhere/e", PathState::Kept, 2)]);
        assert_eq!(paths.find("/nowhere/d/x/y"), Some((Spot::Gone, ResourceId::first(1))));
        assert_eq!(paths.find("/nowhere/e/x"), None);
        assert_eq!(paths.find("/nowhere/dx"), None);
    }

    #[test]
    fn resolve_predicted_link_leads_to_its_target() {
        let paths =
            paths(&[("/nowhere/l", PathState::Link("real/d".into()), 1), ("/nowhere/u", PathState::Unknown, 2)]);
        let place = |path: &str, last| paths.resolve(path, last).map(|found| (found.place, found.by_link));
        assert_eq!(place("/nowhere/l/x", true), Ok(("/nowhere/real/d/x".to_owned(), Some(ResourceId::first(1)))));
        assert_eq!(place("/nowhere/l", false), Ok(("/nowhere/l".to_owned(), None)));
        assert_eq!(place("/nowhere/u/x", true), Err(ResourceId::first(2)));
    }

    #[test]
    fn resolve_link_to_itself_ends() {
        let paths = paths(&[("/nowhere/l", PathState::Link("l".into()), 1)]);
        assert_eq!(paths.resolve("/nowhere/l", true).map(|found| found.place), Ok("/nowhere/l".to_owned()));
    }

    #[test]
    fn insert_root_keeps_other_predictions() {
        let paths = paths(&[("/nowhere/f", PathState::Absent, 1), ("/", PathState::Absent, 2)]);
        assert_eq!(paths.find("/nowhere/f"), Some((Spot::Here(&PathState::Absent), ResourceId::first(1))));
        assert_eq!(paths.find("/nowhere/g"), None);
    }

    #[test]
    fn insert_after_unordered_change_is_unknown() {
        let mut paths = paths(&[("/nowhere/f", PathState::Absent, 1)]);
        paths.insert("/nowhere/f".to_owned(), PathState::Directory, ResourceId::first(2), &|_| false);
        assert_eq!(paths.find("/nowhere/f"), Some((Spot::Unknown, ResourceId::first(2))));
    }

    #[test]
    fn insert_mode_keeps_predicted_content() {
        let content = Content::Bytes("a".into());
        let mut paths = paths(&[("/nowhere/f", PathState::File { content: content.clone(), mode: Some(0o644) }, 1)]);
        let mode = PathState::File { content: Content::Kept, mode: Some(0o600) };
        paths.insert("/nowhere/f".to_owned(), mode, ResourceId::first(2), &|_| true);
        let whole = PathState::File { content, mode: Some(0o600) };
        assert_eq!(paths.find("/nowhere/f"), Some((Spot::Here(&whole), ResourceId::first(2))));
    }
}
