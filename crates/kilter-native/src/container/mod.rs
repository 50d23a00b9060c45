//! The types `container` and `image`, through podman or docker.

mod engine;
mod image;
mod schema;
mod settings;

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Change, Outcome, State};
use kilter_provider::{
    AutoEdge, Batch, Capabilities, Context, Declaration, Direction, Effect, Insync, Match, Mode, POLL, PathState,
    Predict, Provider, ProviderError, Query, Redactor, Refresh, Relations, Scheduling, SideEffects, Suitability,
    ValidationError, Wanted, Watch, WatchSink, WatchSource, redacted_outcome,
};
use serde_json::Value as Json;

use crate::accounts::System;
use crate::builtin::is_absent;
use crate::value_text::texts;
use engine::{ContainerEngine, ContainerProgram};
pub use image::ImageProvider;
use settings::{differing, id_of, name_of};

/// Ending of the name of a container that replaces another one.
const NEW: &str = ".kilter-new";

/// Provides the type `container` through a program.
pub struct ContainerProvider {
    engine: ContainerEngine,
}

/// Returns the providers of the types `container` and `image`. podman comes before docker.
pub fn container_providers(system: &System) -> [std::sync::Arc<dyn Provider>; 4] {
    let engine = |program| ContainerEngine::new(program, system.clone());
    [
        std::sync::Arc::new(ContainerProvider { engine: engine(ContainerProgram::Podman) }),
        std::sync::Arc::new(ContainerProvider { engine: engine(ContainerProgram::Docker) }),
        std::sync::Arc::new(ImageProvider { engine: engine(ContainerProgram::Podman) }),
        std::sync::Arc::new(ImageProvider { engine: engine(ContainerProgram::Docker) }),
    ]
}

fn named<'j>(containers: &'j [Json], name: &str) -> Option<&'j Json> {
    containers.iter().find(|container| name_of(container) == name)
}

impl ContainerProvider {
    /// Creates the provider for podman.
    pub fn podman(system: System) -> ContainerProvider {
        ContainerProvider { engine: ContainerEngine::new(ContainerProgram::Podman, system) }
    }

    /// Returns the states of containers, by two calls, and a third one if containers share the network of others.
    fn states(&self, cx: &Context<'_>, wanted: &[Wanted<'_>]) -> Result<Vec<State>, EcoString> {
        let names: Vec<EcoString> = wanted.iter().map(|one| one.name.clone()).collect();
        let containers = self.engine.inspect(cx, "container", &names)?;
        let mut needed: Vec<EcoString> = containers.iter().map(|container| id_of(container, "/Image")).collect();
        let declared = |one: &Wanted<'_>| {
            let image = one.should.and_then(|should| should.text("image"));
            image.filter(|_| named(&containers, one.name).is_some()).map(EcoString::from)
        };
        needed.extend(wanted.iter().filter_map(declared));
        needed.sort_unstable();
        needed.dedup();
        let images = image::found(&self.engine, cx, &needed)?;
        let mut owners: Vec<EcoString> =
            containers.iter().filter_map(settings::network_owner).map(From::from).collect();
        owners.sort_unstable();
        owners.dedup();
        let owners = self.engine.inspect(cx, "container", &owners)?;
        let state = |one: &Wanted<'_>| {
            let Some(container) = named(&containers, one.name) else { return State::absent(one.name.clone()) };
            let image = |name: &str| images.iter().find(|(known, _)| known == name).map(|(_, image)| image);
            let declared = one.should.and_then(|should| image(should.text("image")?));
            let image = image(&id_of(container, "/Image"));
            let mut state = settings::state(one.name, container, image, declared, &owners, one.should);
            if let Some(ended) = one.should.and_then(|should| self.end(cx, container, should)) {
                state.attributes.push("ended", ended);
            }
            state
        };
        Ok(wanted.iter().map(state).collect())
    }

    /// Describes the failure of a container that is to run: its exit code, and the last line that it has written.
    fn end(&self, cx: &Context<'_>, container: &Json, should: &Attributes) -> Option<EcoString> {
        let code = settings::failure_code(container).filter(|_| should.text("ensure") == Some("running"))?;
        let said = self.engine.last_words(cx, &id_of(container, "/Id")).unwrap_or_default();
        let said = said.lines().last().map(|line| eco_format!(": {line}")).unwrap_or_default();
        Some(Redactor::of(should).redact(eco_format!("status {code}{said}")))
    }

    fn command(&self, cx: &Context<'_>, words: &[&str]) -> Result<(), EcoString> {
        let words: Vec<EcoString> = words.iter().map(|&word| word.into()).collect();
        self.engine.change(cx, &words, &[]).map(drop)
    }

    /// Stops and removes a container.
    fn remove(&self, cx: &Context<'_>, container: &Json) -> Result<(), EcoString> {
        let id = id_of(container, "/Id");
        self.stop(cx, container)?;
        self.command(cx, &["rm", "--force", &id])
    }

    fn stop(&self, cx: &Context<'_>, container: &Json) -> Result<(), EcoString> {
        let id = id_of(container, "/Id");
        match container.pointer("/State/Status").and_then(Json::as_str).unwrap_or_default() {
            "running" | "restarting" | "stopping" => self.command(cx, &["stop", &id]),
            "paused" => self.command(cx, &["unpause", &id]).and_then(|()| self.command(cx, &["stop", &id])),
            _ => Ok(()),
        }
    }

    /// Starts a container.
    ///
    /// # Errors
    /// If it cannot start, or has ended already.
    fn start(&self, cx: &Context<'_>, id: &str, name: &str, is_paused: bool) -> Result<(), EcoString> {
        self.command(cx, &[if is_paused { "unpause" } else { "start" }, id])?;
        let found = self.engine.inspect(cx, "container", &[id.into()])?;
        let status = |path: &str| found.first().and_then(|container| container.pointer(path));
        match status("/State/Status").and_then(Json::as_str) {
            Some("exited" | "stopped") => {
                let code = status("/State/ExitCode").and_then(Json::as_i64).unwrap_or_default();
                let said = self.engine.last_words(cx, id).map(|said| format!(": {said}")).unwrap_or_default();
                Err(eco_format!("the process of the container {name} has ended with status {code}{said}"))
            }
            _ => Ok(()),
        }
    }

    /// Restarts a container that runs.
    fn restart(&self, cx: &Context<'_>, name: &str) -> Result<(), EcoString> {
        let found = self.engine.inspect(cx, "container", &[name.into()])?;
        let status = named(&found, name).and_then(|container| container.pointer("/State/Status")?.as_str());
        match status {
            Some("running" | "restarting" | "paused") => self.command(cx, &["restart", name]),
            _ => Ok(()),
        }
    }

    fn change(&self, cx: &Context<'_>, change: &Change<'_>) -> Result<(), EcoString> {
        let name = change.name.as_str();
        let successor = eco_format!("{name}{NEW}");
        let found = self.engine.inspect(cx, "container", &[name.into(), successor.clone()])?;
        let old = named(&found, name);
        let Some(should) = change.should.filter(|should| !is_absent(should)) else {
            return old.map_or(Ok(()), |old| self.remove(cx, old));
        };
        // Values from other resources have not been validated before.
        if let Some(problem) = schema::problems(should).pop() {
            return Err(eco_format!("{problem}"));
        }
        let is_running = should.text("ensure") != Some("stopped");
        if let Some(old) = old.filter(|_| differing(change.is, should).is_empty()) {
            let is_paused = old.pointer("/State/Paused").and_then(Json::as_bool) == Some(true);
            return match is_running {
                true => self.start(cx, &id_of(old, "/Id"), name, is_paused),
                false => self.stop(cx, old),
            };
        }
        if let Some(left) = named(&found, &successor) {
            self.remove(cx, left)?;
        }
        let made = settings::creation(self.engine.program, &successor, change.is, should)?;
        let output = self.engine.change(cx, &made.words, &made.secrets)?;
        // The program may have printed warnings before.
        let id = output.lines().last().unwrap_or_default().trim().to_owned();
        if let Some(old) = old
            && let Err(why) = self.remove(cx, old)
        {
            self.command(cx, &["rm", "--force", &id])?;
            return Err(why);
        }
        self.command(cx, &["rename", &id, name])?;
        if is_running { self.start(cx, &id, name, false) } else { Ok(()) }
    }

    /// Fails if a new container has no image.
    fn preview(&self, change: &Change<'_>) -> Result<(), EcoString> {
        match change.should.filter(|should| !is_absent(should)) {
            Some(should) if !change.is.exists => {
                settings::creation(self.engine.program, change.name, change.is, should).map(drop)
            }
            _ => Ok(()),
        }
    }
}

/// Implements the methods of a provider that a program chooses.
macro_rules! describe {
    ($type_name:literal, $schema:path) => {
        #[cold]
        fn schema(&self) -> &kilter_model::TypeSchema {
            static SCHEMA: std::sync::LazyLock<kilter_model::TypeSchema> = std::sync::LazyLock::new($schema);
            &SCHEMA
        }

        #[cold]
        fn type_name(&self) -> &str {
            $type_name
        }

        #[cold]
        fn name(&self) -> &'static str {
            self.engine.program.name()
        }

        #[cold]
        fn capabilities(&self) -> Capabilities<'_> {
            Capabilities {
                scheduling: Some(self),
                relations: Some(self),
                refresh: Some(self),
                predict: Some(self),
                watch: Some(self),
                ..Capabilities::default()
            }
        }

        fn suitable(&self) -> Suitability {
            self.engine.suitable()
        }
    };
}
use describe;

impl Provider for ContainerProvider {
    describe!("container", schema::schema);

    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        let states = match query {
            Query::Named(wanted) => self.states(cx, wanted),
            Query::All => self.engine.lines(cx, &["ps", "--all", "--format={{.Names}}"]).and_then(|names| {
                let wanted: Vec<_> = names.iter().map(|name| Wanted::new(name, None)).collect();
                self.states(cx, &wanted)
            }),
        };
        states.map_err(ProviderError::new)
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        let one = |change: &Change<'_>| {
            let done = match mode {
                Mode::Preview => self.preview(change),
                Mode::Apply => self.change(cx, change),
            };
            redacted_outcome(change, done.map_or_else(Outcome::failed, |()| Outcome::done()))
        };
        changes.iter().map(one).collect()
    }

    fn validate(&self, _: &str, should: &Attributes, _: &[&str]) -> Vec<ValidationError> {
        let seal = Redactor::of(should);
        schema::problems(should).into_iter().map(|problem| seal.problem(problem)).collect()
    }

    fn canonicalize(&self, _: &Context<'_>, resources: &mut [Declaration<'_>]) -> Vec<Vec<ValidationError>> {
        resources.iter_mut().for_each(|one| settings::canonicalize(one.should));
        vec![Vec::new(); resources.len()]
    }

    fn insync(&self, _: &Context<'_>, attribute: &str, is: &State, should: &Attributes) -> Insync {
        settings::insync(attribute, is, should)
    }
}

impl Scheduling for ContainerProvider {
    fn batch_size(&self) -> Batch {
        Batch::One
    }
}

impl Refresh for ContainerProvider {
    fn refresh(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Outcome {
        let done = self.restart(cx, wanted.name);
        let outcome = done.map_or_else(Outcome::failed, |()| Outcome { refreshed: true, ..Outcome::done() });
        wanted.should.map(Redactor::of).unwrap_or_default().outcome(outcome)
    }

    /// Returns true for a container that ran before and that the change does not replace.
    fn acts_on_refresh(&self, is: &State, should: &Attributes) -> bool {
        let runs = |attributes: &Attributes| attributes.text("ensure") == Some("running");
        runs(&is.attributes) && runs(should) && differing(is, should).is_empty()
    }
}

impl Relations for ContainerProvider {
    fn auto_edges(&self, _: &str, should: &Attributes, add: &mut dyn FnMut(AutoEdge<'_>)) {
        let is_absent = is_absent(should);
        let direction = if is_absent { Direction::After } else { Direction::Before };
        if let Some(image) = should.text("image") {
            add(AutoEdge { direction, ..AutoEdge::require("image", image) });
        }
        for package in self.engine.program.packages() {
            add(AutoEdge { direction, ..AutoEdge::require("package", package) });
        }
        if is_absent {
            return;
        }
        for volume in texts(should.get("volumes")) {
            if let Some((source, _)) = settings::bind(&volume) {
                add(AutoEdge { by: Match::PathOrAncestor, ..AutoEdge::require("file", source) });
                add(AutoEdge { by: Match::PathOrAncestor, ..AutoEdge::require("mount", source) });
            }
        }
        if let Some(other) = should.text("network").and_then(|network| network.strip_prefix("container:")) {
            add(AutoEdge::require("container", other));
        }
    }
}

impl Predict for ContainerProvider {
    fn side_effects(&self, _: &Attributes) -> SideEffects {
        SideEffects::Own
    }

    /// Returns the paths that the container may write.
    fn effects(&self, _: &Context<'_>, change: &Change<'_>) -> Option<Vec<Effect>> {
        let volumes = change.should.and_then(|should| should.get("volumes")).or(change.is.attributes.get("volumes"));
        let written = texts(volumes).into_iter().filter_map(|volume| {
            let (path, is_writable) = settings::bind(&volume)?;
            is_writable.then(|| Effect::Path { path: path.into(), node: PathState::Unknown })
        });
        Some(written.collect())
    }
}

impl Watch for ContainerProvider {
    fn watches(&self, _: &str, _: &Attributes) -> Vec<WatchSource> {
        vec![WatchSource::Provider, WatchSource::Poll(POLL)]
    }

    fn watch(&self, cx: &Context<'_>, _: Option<Wanted<'_>>, tell: &dyn WatchSink) -> Result<(), ProviderError> {
        self.engine.follow(cx, "container", tell)
    }
}
