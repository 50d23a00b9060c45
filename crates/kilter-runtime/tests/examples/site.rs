//! A machine with types: definitions, compilation, runs and reports.

use std::sync::Arc;

use ecow::EcoString;
use kilter_manifest::{
    Facts, Inputs, Loader, Schemas, SecretSource, Secrets, Source, Sources, compile, define, render,
};
use kilter_model::expr::Lookup;
use kilter_model::{Catalog, TypeSchema, Value};
use kilter_provider::{Context, Device, Durability, Provider, Registry, Strictness};
use kilter_runtime::{Event, Mode, Observer, Options, Prepared, Report, ShutdownHandle, plan_of};

/// A definition of the text, kept with the tests of definitions.
macro_rules! definition {
    ($name:literal) => {
        include_str!(concat!("../../../kilter-manifest/tests/definitions/", $name, ".yaml"))
    };
}
pub(crate) use definition;

/// The type that a text in YAML defines.
pub(crate) fn defined(text: &str) -> TypeSchema {
    let mut sources = Sources::new();
    let id = sources.add(Source::new("type.yaml", text));
    match define(&mut sources, id) {
        Ok(defined) => defined.schema,
        Err(problems) => panic!("{}", render(&problems, &sources, false)),
    }
}

/// A machine whose resources are managed by some providers.
pub(crate) struct Site {
    registry: Registry,
    strictness: Strictness,
}

impl Site {
    pub(crate) fn new(providers: impl IntoIterator<Item = Arc<dyn Provider>>) -> Site {
        Site { registry: Registry::new(providers).unwrap(), strictness: Strictness::Warning }
    }

    /// The same providers, which work on a device.
    pub(crate) fn on(self, device: Device) -> Site {
        Site { registry: self.registry.on_device(Arc::new(device)), ..self }
    }

    pub(crate) fn strict(self) -> Site {
        Site { strictness: Strictness::Error, ..self }
    }

    fn compile(&self, manifest: &str) -> Result<Catalog, Vec<String>> {
        let mut sources = Sources::new();
        sources.add(Source::new("site.yaml", manifest));
        let nothing = NoFacts;
        let inputs = Inputs { schemas: self, facts: &nothing, secrets: &nothing, loader: &nothing, overrides: &[] };
        let compiled = compile(&mut sources, &inputs);
        compiled.map(|compiled| compiled.catalog).map_err(|problems| {
            let told = |problem: &kilter_manifest::Diagnostic| {
                let place = problem.span.map(|span| sources.locate(span));
                let place = place.map(|at| format!("{}:{} ", at.line, at.column)).unwrap_or_default();
                format!("{place}{}", problem.message)
            };
            problems.iter().map(told).collect()
        })
    }

    /// The run that a manifest amounts to, or every problem there is with it.
    pub(crate) fn prepare(&self, manifest: &str) -> Result<Prepared, Vec<String>> {
        plan_of(self.compile(manifest)?, &self.registry, &Context::empty()).map_err(|rejected| {
            let reference = |at: kilter_engine::ResourceId| &rejected.catalog.resources[at.slot()].reference;
            let problems = rejected.problems.iter().map(|(at, problem)| format!("{}: {problem}", reference(*at)));
            let cycles = rejected.cycles.iter().map(|cycle| {
                let waits: Vec<String> = cycle
                    .edges
                    .iter()
                    .map(|edge| format!("{} → {}", reference(edge.from), reference(edge.to)))
                    .collect();
                format!("a cycle: {}", waits.join(", "))
            });
            problems.chain(cycles).collect()
        })
    }

    /// Returns the problems of a manifest.
    pub(crate) fn refused(&self, manifest: &str) -> Vec<String> {
        self.prepare(manifest).map(|_| ()).expect_err("the manifest is wrong")
    }

    pub(crate) fn apply(&self, manifest: &str) -> Ran {
        self.run(manifest, Mode::Apply)
    }

    pub(crate) fn plan(&self, manifest: &str) -> Ran {
        self.run(manifest, Mode::Noop)
    }

    fn run(&self, manifest: &str, mode: Mode) -> Ran {
        let prepared = self.prepare(manifest).unwrap_or_else(|problems| panic!("{}", problems.join("\n")));
        let durability = Durability::Unflushed;
        let options = Options { mode, jobs: 2, durability, strictness: self.strictness, state_dir: None };
        let mut lines = SiteLog::default();
        let report = prepared.execute(&options, &ShutdownHandle::new().unwrap(), &mut lines).unwrap();
        Ran { report, lines: lines.0 }
    }
}

impl Schemas for Site {
    fn schema(&self, type_name: &str) -> Option<&TypeSchema> {
        self.registry.schema(type_name)
    }

    fn names(&self) -> Vec<&str> {
        self.registry.types().map(|provider| provider.schema().name.as_str()).collect()
    }
}

/// Result of a run.
pub(crate) struct Ran {
    pub(crate) report: Report,
    /// The lines of the providers, without the times in them.
    pub(crate) lines: Vec<String>,
}

impl Ran {
    /// The resources that were not simply in their state: how each ended, what differed, why it failed,
    /// and the lines for who reads the report.
    pub(crate) fn told(&self) -> Vec<String> {
        let mut told = Vec::new();
        for resource in &self.report.resources {
            told.push(format!("{}: {}", resource.reference, resource.status.word()));
            told.extend(resource.differences.iter().map(|difference| match &difference.message {
                Some(message) => format!("  {}: {message}", difference.attribute),
                None => format!("  {}: {} → {}", difference.attribute, difference.is, difference.should),
            }));
            told.extend(resource.failure.iter().map(|why| format!("  {why}")));
            told.extend(resource.notes.iter().map(|note| format!("  {note}")));
        }
        told
    }

    /// Number of resources in sync.
    pub(crate) fn in_sync(&self) -> usize {
        self.report.counts.in_sync
    }
}

#[derive(Default)]
struct SiteLog(Vec<String>);

impl Observer for SiteLog {
    fn event(&mut self, event: Event<'_>) {
        if let Event::Log { level, type_name, name, message } = event {
            let name = if name.is_empty() { String::new() } else { format!("[{name}]") };
            self.0.push(format!("{}: {type_name}{name}: {}", level.word(), timeless(message)));
        }
    }

    fn before_changes(&mut self, _: &[kilter_runtime::PendingChange<'_>]) -> Result<(), ecow::EcoString> {
        Ok(())
    }
}

/// A line without the time that something took.
fn timeless(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let is_time = |at: usize| {
        let number = words.get(at + 1).is_some_and(|word| word.parse::<f64>().is_ok());
        let unit = words.get(at + 2).is_some_and(|word| word.trim_end_matches(':') == "seconds");
        matches!(words[at], "in" | "after") && number && unit
    };
    match (0..words.len()).find(|at| is_time(*at)) {
        Some(at) => {
            let colon = if words[at + 2].ends_with(':') { ":" } else { "" };
            let rest: String = words[at + 3..].iter().map(|word| format!(" {word}")).collect();
            format!("{}{colon}{rest}", words[..at].join(" "))
        }
        None => line.to_owned(),
    }
}

/// No facts, secrets or includes.
struct NoFacts;

impl Facts for NoFacts {
    fn fact(&self, _: &str) -> Lookup {
        Lookup::Missing
    }

    fn names(&self) -> Vec<EcoString> {
        Vec::new()
    }
}

impl Secrets for NoFacts {
    fn resolve(&self, _: &SecretSource) -> Result<Value, String> {
        Err("there are no secrets here".into())
    }
}

impl Loader for NoFacts {
    fn load(&self, _: &str, path: &str) -> Result<Source, String> {
        Err(format!("there is no {path}"))
    }
}
