//! The type `image`: images of containers on this machine.

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Behaviour, Change, Feature, Outcome, State, TypeSchema, Value};
use kilter_provider::{
    AutoEdge, Batch, Capabilities, Context, Direction, Footprint, Match, Mode, POLL, Predict, Provider, ProviderError,
    Query, Redactor, Refresh, Relations, Scheduling, SideEffects, Suitability, ValidationError, Wanted, Watch,
    WatchSink, WatchSource, redacted_outcome,
};
use serde_json::Value as Json;

use super::describe;
use super::engine::{ContainerEngine, ContainerProgram};
use super::schema::is_word;
use super::settings::id_of;
use crate::accounts::System;
use crate::builtin::is_absent;
use crate::file::atomic_rewrite;

const DESC: &str = "\
Images of containers on this machine, by podman or docker.

```yaml
resources:
  image[docker.io/library/nginx:1.27]: {}
  image[localhost/app:4.2]:
    source: /srv/images/app-4.2.tar
  image[docker.io/library/nginx:1.25]:
    ensure: absent
```

A missing image is fetched from its registry, or loaded from the archive `source`. A name without a tag means \
`:latest`. kilter does not ask the registry for a newer image; a refresh fetches or loads the image again. Credentials \
for a registry are those of `podman login`.

The removal fails if a container uses the image.

**Automatic edges.** An image runs after the file of its `source`, and after the package of podman or docker. An \
absent image runs after all declared containers.";

fn schema() -> TypeSchema {
    TypeSchema::new("image", DESC)
        .attribute("ensure", "Enum[present, absent]", Behaviour::Property, "State: `present`, `absent`.")
        .default("present")
        .attribute(
            "name",
            "String[1]",
            Behaviour::Namevar,
            "Name with registry and tag: `docker.io/library/nginx:1.27`.",
        )
        .attribute(
            "source",
            "String[1]",
            Behaviour::Parameter,
            "Absolute path of an archive of `podman save` or `docker save` to load a missing image from.",
        )
        .attribute("id", "String[1]", Behaviour::ReadOnly, "Identifier of the image.")
        .attribute("digest", "String[1]", Behaviour::ReadOnly, "Digest of the image in its registry.")
        .features(&[Feature::Refresh, Feature::SimpleGetFilter, Feature::SupportsNoop])
}

/// Provides the type `image` through a program.
pub struct ImageProvider {
    pub(super) engine: ContainerEngine,
}

/// Returns the images with names or identifiers, in pairs. One call reads all of them if none is missing.
pub(super) fn found(
    engine: &ContainerEngine,
    cx: &Context<'_>,
    names: &[EcoString],
) -> Result<Vec<(EcoString, Json)>, EcoString> {
    let images = engine.inspect(cx, "image", names)?;
    // The programs print the images in the order of the names, without a sign of the name.
    if images.len() == names.len() {
        return Ok(names.iter().cloned().zip(images).collect());
    }
    let mut found = Vec::with_capacity(images.len());
    for name in names {
        let known = images.iter().find(|image| is_named(image, name));
        let image = match known {
            Some(known) => Some(known.clone()),
            None => engine.inspect(cx, "image", std::slice::from_ref(name))?.into_iter().next(),
        };
        found.extend(image.map(|image| (name.clone(), image)));
    }
    Ok(found)
}

/// Returns true if a name or an identifier is certain to be of an image.
fn is_named(image: &Json, name: &str) -> bool {
    let tags = image.get("RepoTags").and_then(Json::as_array);
    id_of(image, "/Id") == name || tags.into_iter().flatten().any(|tag| tag.as_str() == Some(name))
}

/// Returns the name with its tag. A digest needs none.
fn with_tag(name: &str) -> EcoString {
    let last = name.rsplit('/').next().unwrap_or(name);
    if last.contains([':', '@']) { name.into() } else { eco_format!("{name}:latest") }
}

fn problems(name: &str, should: &Attributes) -> Vec<ValidationError> {
    let mut found = Vec::new();
    if !is_word(name) {
        let problem = ValidationError::with("name", format!("`{name}` is not the name of an image"));
        found.push(problem.hint("write a name without white space: docker.io/library/nginx:1.27"));
    }
    if let Some(source) = should.text("source").filter(|source| !atomic_rewrite::is_normal(source)) {
        let problem = ValidationError::with("source", format!("`{source}` is not an absolute path"));
        found.push(problem.hint("write the path of an archive: /srv/images/app.tar"));
    }
    found
}

impl ImageProvider {
    /// Creates the provider for podman.
    pub fn podman(system: System) -> ImageProvider {
        ImageProvider { engine: ContainerEngine::new(ContainerProgram::Podman, system) }
    }

    fn state(name: &EcoString, image: &Json) -> State {
        let mut attributes = Attributes::from_iter([("ensure", "present".into()), ("name", name.clone())]);
        attributes.push("id", id_of(image, "/Id"));
        let digests = image.get("RepoDigests").and_then(Json::as_array);
        let digest = digests.into_iter().flatten().filter_map(|one| one.as_str()?.split_once('@')).next();
        if let Some((_, digest)) = digest {
            attributes.push("digest", digest);
        }
        State::present(name.clone(), attributes)
    }

    /// Fetches an image, or loads it.
    fn fetch(&self, cx: &Context<'_>, name: &str, should: &Attributes) -> Result<(), EcoString> {
        let Some(source) = should.text("source") else {
            return self.engine.change(cx, &["pull".into(), "--quiet".into(), name.into()], &[]).map(drop);
        };
        let before = self.names(cx)?;
        let output =
            self.engine.change(cx, &["load".into(), "--quiet".into(), "--input".into(), source.into()], &[])?;
        // `Loaded image: NAME`, `Loaded image(s): NAME`, `Loaded image ID: sha256:…`
        let line = output.lines().rev().find(|line| line.starts_with("Loaded image"));
        let loaded = line.and_then(|line| line.split_once(": ")).map(|(_, loaded)| loaded.trim());
        let loaded = loaded.ok_or_else(|| eco_format!("{source} contains no image"))?;
        let loaded = loaded.split(',').next().unwrap_or(loaded);
        if with_tag(loaded) == with_tag(name) {
            return Ok(());
        }
        self.engine.change(cx, &["tag".into(), loaded.into(), name.into()], &[])?;
        // The name in the archive is not declared. An identifier is no name.
        match before.contains(&with_tag(loaded)) || loaded.starts_with("sha256:") {
            true => Ok(()),
            false => self.engine.change(cx, &["rmi".into(), loaded.into()], &[]).map(drop),
        }
    }

    /// Returns the names of all images.
    fn names(&self, cx: &Context<'_>) -> Result<Vec<EcoString>, EcoString> {
        let lines = self.engine.lines(cx, &["images", "--format={{.Repository}}:{{.Tag}}"])?;
        let mut names: Vec<EcoString> = lines.into_iter().filter(|name| !name.contains("<none>")).collect();
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    fn change(&self, cx: &Context<'_>, change: &Change<'_>) -> Result<(), EcoString> {
        let none = Attributes::new();
        let should = change.should.unwrap_or(&none);
        if let Some(problem) = problems(change.name, should).pop() {
            return Err(eco_format!("{problem}"));
        }
        match change.should.is_none_or(is_absent) {
            true => self.engine.change(cx, &["rmi".into(), change.name.clone()], &[]).map(drop),
            false => self.fetch(cx, change.name, should),
        }
    }

    fn states(&self, cx: &Context<'_>, names: &[EcoString]) -> Result<Vec<State>, EcoString> {
        let images = found(&self.engine, cx, names)?;
        let state = |name: &EcoString| {
            let image = images.iter().find(|(known, _)| known == name);
            image.map_or_else(|| State::absent(name.clone()), |(_, image)| ImageProvider::state(name, image))
        };
        Ok(names.iter().map(state).collect())
    }
}

impl Provider for ImageProvider {
    describe!("image", schema);

    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        let names = match query {
            Query::Named(wanted) => Ok(wanted.iter().map(|one| one.name.clone()).collect()),
            Query::All => self.names(cx),
        };
        names.and_then(|names| self.states(cx, &names)).map_err(ProviderError::new)
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        let one = |change: &Change<'_>| {
            let done = match mode {
                Mode::Preview => Ok(()),
                Mode::Apply => self.change(cx, change),
            };
            redacted_outcome(change, done.map_or_else(Outcome::failed, |()| Outcome::done()))
        };
        changes.iter().map(one).collect()
    }

    fn validate(&self, name: &str, should: &Attributes, _: &[&str]) -> Vec<ValidationError> {
        let mut found = problems(name, should);
        if should.get("source").is_some_and(Value::holds_sensitive) {
            let problem = ValidationError::with("source", "the path of an archive cannot be a secret");
            found = vec![problem.hint("use a value that is not secret")];
        }
        found
    }
}

impl Scheduling for ImageProvider {
    fn batch_size(&self) -> Batch {
        Batch::One
    }
}

impl Refresh for ImageProvider {
    /// Fetches or loads the image again.
    fn refresh(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Outcome {
        let none = Attributes::new();
        let done = self.fetch(cx, wanted.name, wanted.should.unwrap_or(&none));
        let outcome = done.map_or_else(Outcome::failed, |()| Outcome { refreshed: true, ..Outcome::done() });
        wanted.should.map(Redactor::of).unwrap_or_default().outcome(outcome)
    }

    fn acts_on_refresh(&self, is: &State, should: &Attributes) -> bool {
        is.exists && !is_absent(should)
    }
}

impl Relations for ImageProvider {
    fn identities(&self, name: &str, _: &Attributes, say: &mut dyn FnMut(&str)) {
        let whole = with_tag(name);
        match whole == name {
            true => name.strip_suffix(":latest").into_iter().for_each(say),
            false => say(&whole),
        }
    }

    fn auto_edges(&self, _: &str, should: &Attributes, add: &mut dyn FnMut(AutoEdge<'_>)) {
        // An absent container need not name its image, and a changed one uses another image.
        if is_absent(should) {
            add(AutoEdge { by: Match::Every, ..AutoEdge::require("container", "") });
        }
        let direction = if is_absent(should) { Direction::After } else { Direction::Before };
        for package in self.engine.program.packages() {
            add(AutoEdge { direction, ..AutoEdge::require("package", package) });
        }
        if let Some(source) = should.text("source").filter(|_| !is_absent(should)) {
            add(AutoEdge { by: Match::PathOrAncestor, ..AutoEdge::require("file", source) });
            add(AutoEdge { by: Match::Ancestor, ..AutoEdge::require("mount", source) });
        }
    }
}

impl Predict for ImageProvider {
    fn side_effects(&self, _: &Attributes) -> SideEffects {
        SideEffects::Own
    }

    fn footprint(&self, _: &str, should: &Attributes, say: &mut dyn FnMut(Footprint<'_>)) {
        if let Some(path) = should.text("source") {
            say(Footprint::Reads { path, below: false });
        }
    }
}

impl Watch for ImageProvider {
    fn watches(&self, _: &str, _: &Attributes) -> Vec<WatchSource> {
        vec![WatchSource::Provider, WatchSource::Poll(POLL)]
    }

    fn watch(&self, cx: &Context<'_>, _: Option<Wanted<'_>>, tell: &dyn WatchSink) -> Result<(), ProviderError> {
        self.engine.follow(cx, "image", tell)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_get_a_tag() {
        assert_eq!(with_tag("nginx"), "nginx:latest");
        assert_eq!(with_tag("localhost:5000/nginx"), "localhost:5000/nginx:latest");
        assert_eq!(with_tag("localhost/nginx:1"), "localhost/nginx:1");
        assert_eq!(with_tag("nginx@sha256:12"), "nginx@sha256:12");
    }
}
