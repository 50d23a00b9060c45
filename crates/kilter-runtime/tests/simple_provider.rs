//! A simple provider in a run: its lines reach the observer, its failures the report.

#![expect(clippy::unwrap_used, reason = "a test may end where it cannot go on")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use kilter_model::{Attributes, Behaviour, Catalog, Resource, ResourceRef, SourceId, Span, State, TypeSchema, Value};
use kilter_provider::{
    ChangeLog, Context, Durability, Failure, InScope, Name, Provider, ProviderError, Query, Registry, Simple,
    SimpleProvider, Strictness,
};
use kilter_runtime::{Event, Mode, Observer, Options, Report, ShutdownHandle, Status, plan_of};

/// Keys in a map; `bad` cannot be created.
struct KeyStore {
    schema: TypeSchema,
    world: Mutex<BTreeMap<String, Attributes>>,
}

impl KeyStore {
    fn new() -> KeyStore {
        let schema = TypeSchema::new("key", "Keys in memory.")
            .attribute("ensure", "Enum[absent, present]", Behaviour::Property, "Whether it is there.")
            .attribute("name", "String", Behaviour::Namevar, "Its name.")
            .attribute("secret", "Optional[Sensitive[String]]", Behaviour::Property, "What it opens with.");
        let gone = Attributes::from_iter([("ensure", "present"), ("name", "old")]);
        KeyStore { schema, world: Mutex::new([("old".to_owned(), gone)].into()) }
    }
}

impl SimpleProvider for KeyStore {
    fn schema(&self) -> &TypeSchema {
        &self.schema
    }

    fn name(&self) -> &'static str {
        "memory"
    }

    fn get(&self, _: &Context<'_>, _: Query<'_>) -> Result<Vec<State>, ProviderError> {
        let world = self.world.lock().unwrap();
        Ok(world.iter().map(|(name, key)| State::present(name.as_str(), key.clone())).collect())
    }

    fn create(&self, log: &mut ChangeLog<'_>, name: Name<'_>, should: &Attributes) -> Result<(), Failure> {
        if let Some(secret) = should.get("secret") {
            log.info(&format!("it opens with {}", secret.as_str().unwrap()));
            log.attribute_changed(InScope, "secret", Value::Undef, secret.clone(), None);
        }
        if name.single() == Some("bad") {
            return Err("no server knows it".into());
        }
        self.world.lock().unwrap().insert(name.to_string(), should.clone());
        Ok(())
    }

    fn update(&self, log: &mut ChangeLog<'_>, name: Name<'_>, should: &Attributes) -> Result<(), Failure> {
        self.create(log, name, should)
    }

    fn delete(&self, _: &mut ChangeLog<'_>, name: Name<'_>) -> Result<(), Failure> {
        self.world.lock().unwrap().remove(name.single().unwrap());
        Ok(())
    }
}

/// Keeps the lines of providers, times taken out.
#[derive(Default)]
struct ProviderLines(Vec<String>);

impl Observer for ProviderLines {
    fn event(&mut self, event: Event<'_>) {
        if let Event::Log { level, type_name, name, message } = event {
            let text = message.split(" in ").next().unwrap().split(" after ").next().unwrap();
            self.0.push(format!("{}: {type_name}[{name}]: {text}", level.word()));
        }
    }

    fn before_changes(&mut self, _: &[kilter_runtime::PendingChange<'_>]) -> Result<(), ecow::EcoString> {
        Ok(())
    }
}

fn run(mode: Mode, resources: &[(&str, &str, Option<&str>)]) -> (Report, Vec<String>) {
    let registry = Registry::new([Arc::new(Simple::new(KeyStore::new()).unwrap()) as Arc<dyn Provider>]).unwrap();
    let resource = |(name, ensure, secret): &(&str, &str, Option<&str>)| {
        let mut attributes = Attributes::from_iter([("ensure", *ensure)]);
        if let Some(secret) = secret {
            attributes.set("secret", Value::sensitive((*secret).into()));
        }
        Resource {
            reference: ResourceRef::new("key", *name),
            name: (*name).into(),
            attributes,
            particulars: None,
            span: Span::new(SourceId(0), 0, 0),
        }
    };
    let catalog = Catalog::of(resources.iter().map(resource));
    let prepared = plan_of(catalog, &registry, &Context::empty()).unwrap_or_else(|rejected| panic!("{rejected:?}"));
    let options = Options {
        mode,
        jobs: 2,
        durability: Durability::Unflushed,
        state_dir: None,
        strictness: Strictness::default(),
    };
    let mut lines = ProviderLines::default();
    let report = prepared.execute(&options, &ShutdownHandle::new().unwrap(), &mut lines).unwrap();
    (report, lines.0)
}

#[test]
fn its_lines_reach_the_observer_without_secrets_and_its_failures_the_report() {
    let resources = [("new", "present", Some("hunter2")), ("bad", "present", None), ("old", "absent", None)];
    let (report, lines) = run(Mode::Apply, &resources);
    assert_eq!(
        lines,
        [
            "debug: key[new]: Creating: Start",
            "info: key[new]: Creating: it opens with [redacted]",
            "notice: key[new]: Creating secret: undef → [redacted]",
            "notice: key[new]: Creating: Finished",
            "debug: key[bad]: Creating: Start",
            "err: key[bad]: Creating: Failed",
            "debug: key[old]: Deleting: Start",
            "notice: key[old]: Deleting: Finished",
        ]
    );
    let statuses: Vec<Status> = report.resources.iter().map(|resource| resource.status).collect();
    assert_eq!(statuses, [Status::Changed, Status::Failed, Status::Changed]);
    assert_eq!(report.resources[1].failure.as_deref(), Some("no server knows it"));
}

#[test]
fn a_plan_calls_none_of_it() {
    let (report, lines) = run(Mode::Noop, &[("new", "present", None)]);
    assert_eq!((report.counts.would_change, lines.len()), (1, 0));
}
