//! Paths that resources read and write, according to their declarations.

use std::sync::OnceLock;

use ecow::EcoString;
use kilter_engine::ResourceId;
use kilter_model::Resource;
use kilter_provider::{Footprint, Provider};
use rustc_hash::{FxHashMap, FxHashSet};

use super::paths::Paths;
use crate::prepare::Prepared;

/// Paths that resources read, and an index of those that they write.
pub(super) struct Footprints {
    readers: FxHashMap<ResourceId, Box<[Read]>>,
    /// True if a resource may write a path that another one manages.
    is_shared: bool,
    /// Sorted by path. Created at the first query for a resource that reads.
    writers: OnceLock<Vec<Written>>,
    /// Packages that own a path which a resource reads. Made when a resource is asked for that reads.
    owners: OnceLock<FxHashMap<EcoString, Vec<ResourceId>>>,
}

#[derive(Clone)]
struct Read {
    path: EcoString,
    below: bool,
}

struct Written {
    path: EcoString,
    by: ResourceId,
    is_whole: bool,
    how: How,
}

/// Way in which a resource writes a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum How {
    /// The resource manages the path.
    Own,
    /// The resource manages another path, and creates this one if it is missing.
    IfMissing,
    /// The resource manages another path, and writes this one as well.
    Aside,
}

/// Selection of the reads of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reads {
    /// Reads of its own paths.
    Own,
    /// Reads of other paths.
    Others,
    /// Both.
    All,
}

/// Resource that writes a path which another one reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Writer {
    pub(super) by: ResourceId,
    pub(super) how: How,
}

impl Written {
    fn writer(&self) -> Writer {
        Writer { by: self.by, how: self.how }
    }
}

impl Footprints {
    pub(super) fn of(prepared: &Prepared) -> Footprints {
        let mut readers = FxHashMap::default();
        let mut is_shared = false;
        for (vertex, resource) in (0..).map(ResourceId::first).zip(prepared.resources()) {
            let mut reads = Vec::new();
            prepared.provider(vertex).capabilities().predict().footprint(
                &resource.name,
                &resource.attributes,
                &mut |part| match part {
                    Footprint::Writes { path, .. } => is_shared |= how(resource, path) != How::Own,
                    Footprint::Links { .. } | Footprint::Creates { .. } => is_shared = true,
                    // A command makes a path unknown only to resources that come after it.
                    Footprint::Makes { .. } | Footprint::Acts { .. } => {}
                    Footprint::Reads { path, below } => reads.push(Read { path: path.into(), below }),
                    Footprint::Runs { text, cwd } => {
                        reads.extend(
                            paths_in(text, cwd).into_iter().map(|path| Read { path: path.into(), below: true }),
                        );
                    }
                },
            );
            if !reads.is_empty() {
                readers.insert(vertex, reads.into_boxed_slice());
            }
        }
        Footprints { readers, is_shared, writers: OnceLock::new(), owners: OnceLock::new() }
    }

    /// Returns true if the check of a resource may read a path that another one writes.
    pub(super) fn reads(&self, vertex: ResourceId) -> bool {
        self.is_shared || self.readers.contains_key(&vertex)
    }

    /// Returns the paths that a resource reads. They include its own paths if others may write these.
    fn reads_of(&self, prepared: &Prepared, vertex: ResourceId, which: Reads) -> Vec<Read> {
        let mut reads = Vec::new();
        if self.is_shared && which != Reads::Others {
            written(prepared.provider(vertex), prepared.resource(vertex), &mut |path, _, how| {
                if how != How::Aside {
                    reads.push(Read { path: path.into(), below: true });
                }
            });
        }
        if which != Reads::Own {
            reads.extend(self.readers.get(&vertex).into_iter().flatten().cloned());
        }
        reads
    }

    fn writers(&self, prepared: &Prepared) -> &[Written] {
        self.writers.get_or_init(|| {
            let (mut writers, mut links) = (Vec::new(), Vec::new());
            let mut places = Places::default();
            for (vertex, resource) in (0..).map(ResourceId::first).zip(prepared.resources()) {
                let provider = prepared.provider(vertex);
                written(provider, resource, &mut |path, is_whole, how| {
                    let place = places.place(path);
                    if place != path {
                        writers.push(Written { path: path.into(), by: vertex, is_whole: false, how });
                    }
                    writers.push(Written { path: place, by: vertex, is_whole, how });
                });
                provider.capabilities().predict().footprint(&resource.name, &resource.attributes, &mut |part| {
                    if let Footprint::Links { path, target } = part {
                        links.push((vertex, format!("{path}/"), led_to(path, target)));
                    }
                });
            }
            // The entries of a link's target also appear below the link.
            for (link, prefix, target) in links {
                let below: Vec<Written> = writers
                    .iter()
                    .filter_map(|one| Some((one.path.strip_prefix(prefix.as_str())?, one.by)))
                    .flat_map(|(rest, by)| [(rest, by), (rest, link)])
                    .map(|(rest, by)| (real(&format!("{target}/{rest}")), by))
                    .map(|(path, by)| Written { path, by, is_whole: false, how: How::Own })
                    .collect();
                writers.extend(below);
            }
            writers.sort_by(|one, other| one.path.cmp(&other.path));
            writers
        })
    }

    /// The resources that own a path which a resource reads, as packages do.
    pub(super) fn owners_of(&self, prepared: &Prepared, path: &str) -> &[ResourceId] {
        let owners = self.owners.get_or_init(|| {
            let wanted: FxHashSet<&str> = self.readers.values().flatten().map(|read| &*read.path).collect();
            let mut owners: FxHashMap<EcoString, Vec<ResourceId>> = FxHashMap::default();
            if wanted.is_empty() {
                return owners;
            }
            for (vertex, resource) in (0..).map(ResourceId::first).zip(prepared.resources()) {
                let Some(owner) = prepared.provider(vertex).capabilities().owner else { continue };
                for path in owner.owned(&resource.name, &resource.attributes, &|path| wanted.contains(path)) {
                    owners.entry(path).or_default().push(vertex);
                }
            }
            owners
        });
        owners.get(path).map_or(&[], Vec::as_slice)
    }

    /// Returns the resources that write a path which a resource reads, or a path above or below it. `paths` follows
    /// predicted links.
    pub(super) fn writers_for(
        &self,
        prepared: &Prepared,
        paths: &Paths,
        reader: ResourceId,
        which: Reads,
    ) -> Vec<Writer> {
        let writers = self.writers(prepared);
        let mut found = Vec::new();
        let mut places = Places::default();
        for read in self.reads_of(prepared, reader, which) {
            let owners = self.owners_of(prepared, &read.path).iter();
            found.extend(owners.map(|by| Writer { by: *by, how: How::Aside }));
            // An unknown path on the way belongs to a writer that has settled.
            let led_to = paths.resolve(&read.path, true).map(|found| EcoString::from(found.place));
            let now = [read.path.clone(), places.place(&read.path), real(&read.path)];
            for path in now.into_iter().chain(led_to.ok()) {
                let above = path.match_indices('/').map(|(at, _)| &path[..at]).filter(|above| !above.is_empty());
                found.extend(above.chain([path.as_str()]).flat_map(|at| at_path(writers, at)).map(Written::writer));
                if read.below {
                    let prefix = format!("{path}/");
                    let first = writers.partition_point(|one| one.path.as_str() < prefix.as_str());
                    let below = writers[first..].iter().take_while(|one| one.path.starts_with(&prefix));
                    found.extend(below.map(Written::writer));
                }
            }
        }
        found.retain(|writer| writer.by != reader);
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The resources that write a path below a place, with that path.
    pub(super) fn writers_below(&self, prepared: &Prepared, place: &str) -> impl Iterator<Item = (&str, ResourceId)> {
        let prefix = format!("{}/", place.trim_end_matches('/'));
        let writers = self.writers(prepared);
        let first = writers.partition_point(|one| one.path.as_str() < prefix.as_str());
        let below = writers[first..].iter().take_while(move |one| one.path.starts_with(&prefix));
        below.map(|one| (one.path.as_str(), one.by))
    }

    /// Returns the resources that write a path.
    pub(super) fn writers_at(&self, prepared: &Prepared, path: &str) -> impl Iterator<Item = ResourceId> {
        let place = Places::default().place(path);
        let found: Vec<ResourceId> = at_path(self.writers(prepared), &place).map(|one| one.by).collect();
        found.into_iter()
    }

    /// Returns the resource whose declaration determines the content of a place.
    pub(super) fn decides(&self, prepared: &Prepared, place: &str) -> Option<ResourceId> {
        at_path(self.writers(prepared), place).find(|one| one.is_whole).map(|one| one.by)
    }
}

fn at_path<'a>(writers: &'a [Written], path: &'a str) -> impl Iterator<Item = &'a Written> {
    let first = writers.partition_point(|one| one.path.as_str() < path);
    writers[first..].iter().take_while(move |one| one.path == path)
}

/// Returns the way in which a resource writes a path of [`Footprint::Writes`].
fn how(resource: &Resource, path: &str) -> How {
    if path == resource.name.trim_end_matches('/') || path == resource.name { How::Own } else { How::Aside }
}

/// Calls `say` with each path that a change of a resource may write, and with true if the declaration determines
/// its content.
pub(super) fn written(provider: &dyn Provider, resource: &Resource, say: &mut dyn FnMut(&str, bool, How)) {
    provider.capabilities().predict().footprint(&resource.name, &resource.attributes, &mut |part| match part {
        Footprint::Writes { path, is_whole } => say(path, is_whole, how(resource, path)),
        Footprint::Makes { path } if std::fs::symlink_metadata(path).is_err() => say(path, false, How::IfMissing),
        Footprint::Creates { path } => say(path, false, How::IfMissing),
        _ => {}
    });
}

/// Calls `say` with each path in the commands of a resource: they may write it and the paths below it.
pub(super) fn named(provider: &dyn Provider, resource: &Resource, say: &mut dyn FnMut(&str)) {
    provider.capabilities().predict().footprint(&resource.name, &resource.attributes, &mut |part| match part {
        Footprint::Acts { text, cwd } => {
            paths_in(text, None).iter().map(String::as_str).chain(cwd).filter(|path| *path != "/").for_each(&mut *say);
        }
        Footprint::Creates { path } => say(path),
        _ => {}
    });
}

/// Cache of paths without the links above them, as on disk.
#[derive(Default)]
struct Places {
    directory: String,
    real: String,
}

impl Places {
    fn place(&mut self, path: &str) -> EcoString {
        let path = path.trim_end_matches('/');
        let Some((directory, leaf)) = path.rsplit_once('/') else { return "/".into() };
        // Most resources lie in the same directory as the previous one.
        if self.directory != directory {
            self.real = real(directory).into();
            directory.clone_into(&mut self.directory);
        }
        ecow::eco_format!("{}/{leaf}", self.real.trim_end_matches('/'))
    }
}

/// Returns a path with all links followed, as on disk.
fn real(path: &str) -> EcoString {
    match Paths::default().resolve(path, true) {
        Ok(found) => found.place.into(),
        Err(_) => path.into(),
    }
}

/// Returns the path of a link's target.
fn led_to(path: &str, target: &str) -> String {
    let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
    if target.starts_with('/') { target.to_owned() } else { format!("{directory}/{target}") }
}

/// Returns the paths that may occur in a command.
pub(super) fn paths_in(text: &str, cwd: Option<&str>) -> Vec<String> {
    let is_part = |c: char| c.is_alphanumeric() || "._/+@%:,~-".contains(c);
    let mut paths = Vec::new();
    for word in text.split(|c: char| !is_part(c)).filter(|word| !word.is_empty()) {
        if let Some(at) = word.find('/')
            && (at == 0 || !word[..at].ends_with(['.', '~']))
        {
            let path = word[at..].trim_end_matches(['/', ',', ':', '.']);
            if !path.is_empty() {
                paths.push(path.to_owned());
            }
        }
        if let Some(cwd) = cwd
            && !word.starts_with('/')
        {
            let word = word.trim_start_matches("./");
            paths.push(format!("{}/{word}", cwd.trim_end_matches('/')));
        }
    }
    paths.sort_unstable();
    paths.dedup();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_in_command_are_absolute_or_below_its_directory() {
        assert_eq!(paths_in("grep -q 'a' /etc/app.conf; test -e x", None), ["/etc/app.conf"]);
        assert_eq!(paths_in("sh -c \"test --file=/etc/x\"", None), ["/etc/x"]);
        assert!(paths_in("test -e ./x", Some("/srv")).contains(&"/srv/x".to_owned()));
        assert_eq!(paths_in("true", None), Vec::<String>::new());
    }
}
