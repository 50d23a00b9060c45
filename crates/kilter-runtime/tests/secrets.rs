//! Secrets stay sealed whoever repeats them, and of whichever resource.

#![expect(clippy::unwrap_used, reason = "a test may end where it cannot go on")]

use std::sync::Arc;

use kilter_model::{
    Attributes, Behaviour, Catalog, Change, Feature, Outcome, Resource, ResourceRef, SourceId, Span, State, TypeSchema,
    Value,
};
use kilter_provider::{
    ChangeLog, Context, Declaration, Durability, Insync, Level, Mode as Setting, Provider, ProviderError, Query,
    Registry, Strictness, ValidationError,
};
use kilter_runtime::{Event, Mode, Observer, Options, ShutdownHandle, plan_of};

use ecow::eco_format;

/// Uses of secrets by a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slip {
    /// It says, of no resource, what it logs in with.
    Says,
    /// It says so of an instance that is not declared.
    SaysOfAnother,
    /// It gives up a `set` with an error that repeats the secret.
    GivesUp,
    /// It panics in `set` with a text that repeats it.
    Panics,
    /// It cannot read, with an error that repeats it.
    CannotRead,
    /// It tells what it found when it compares.
    Compares,
    /// It cannot compare, and says what it found.
    CannotCompare,
    /// It cannot bring what it found into a canonical form, and says so.
    CannotCanonicalize,
}

/// Accounts with passwords: that of `ann` is found as `before` and is to be `hunter2`, `bob` has none.
struct Accounts {
    schema: TypeSchema,
    slip: Slip,
}

impl Accounts {
    fn new(slip: Slip) -> Accounts {
        let features: &[Feature] = match slip {
            Slip::Compares | Slip::CannotCompare => &[Feature::CustomInsync],
            Slip::CannotCanonicalize => &[Feature::Canonicalize],
            _ => &[],
        };
        let schema = TypeSchema::new("account", "An account.")
            .attribute("name", "String", Behaviour::Namevar, "Its name.")
            .attribute("shell", "Optional[String]", Behaviour::Property, "What it begins with.")
            .attribute("password", "Optional[Sensitive[String]]", Behaviour::Property, "What it opens with.")
            .features(features);
        Accounts { schema, slip }
    }
}

impl Provider for Accounts {
    fn schema(&self) -> &TypeSchema {
        &self.schema
    }

    fn name(&self) -> &'static str {
        "ldap"
    }

    fn get(&self, _: &Context<'_>, _: Query<'_>) -> Result<Vec<State>, ProviderError> {
        if self.slip == Slip::CannotRead {
            return Err(ProviderError::new("the server refuses hunter2"));
        }
        let ann = Attributes::from_iter([("name", "ann"), ("password", "before")]);
        Ok(vec![State::present("ann", ann), State::present("bob", Attributes::from_iter([("name", "bob")]))])
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Setting) -> Vec<Outcome> {
        let mut log = ChangeLog::new(self, cx, changes, mode);
        match self.slip {
            Slip::Says => log.info("logging in with hunter2"),
            Slip::SaysOfAnother => log.unmanaged("eve", Level::Notice, "she knows hunter2"),
            Slip::GivesUp => return log.run(|_| Err("the server refuses hunter2".into())),
            Slip::Panics => panic!("no rule for hunter2"),
            _ => {}
        }
        log.outcomes()
    }

    fn canonicalize(&self, _: &Context<'_>, resources: &mut [Declaration<'_>]) -> Vec<Vec<ValidationError>> {
        let canonicalize = |one: &Declaration<'_>| match one.should.text("password") {
            Some(text @ "before") => vec![ValidationError::with("password", eco_format!("`{text}` is no hash"))],
            _ => Vec::new(),
        };
        resources.iter().map(canonicalize).collect()
    }

    fn insync(&self, _: &Context<'_>, attribute: &str, is: &State, _: &Attributes) -> Insync {
        let message = eco_format!("it was {}", is.attributes.text(attribute).unwrap_or_default());
        match self.slip {
            _ if attribute != "password" => Insync::Default,
            Slip::CannotCompare => Insync::Failed(message),
            _ => Insync::Differs(Some(message)),
        }
    }
}

#[derive(Default)]
struct LogLines(Vec<String>);

impl Observer for LogLines {
    fn event(&mut self, event: Event<'_>) {
        if let Event::Log { message, .. } = event {
            self.0.push(message.to_owned());
        }
    }

    fn before_changes(&mut self, _: &[kilter_runtime::PendingChange<'_>]) -> Result<(), ecow::EcoString> {
        Ok(())
    }
}

/// Everything that a run tells.
fn told(slip: Slip, strictness: Strictness) -> String {
    let registry = Registry::new([Arc::new(Accounts::new(slip)) as Arc<dyn Provider>]).unwrap();
    let account = |name: &str, attribute: &str, value: Value| {
        let mut resource = Resource::new(ResourceRef::new("account", name), name, Span::new(SourceId(0), 0, 0));
        resource.attributes.set(attribute, value);
        resource
    };
    let ann = account("ann", "password", Value::sensitive("hunter2".into()));
    let resources = vec![ann, account("bob", "shell", "/bin/sh".into())];
    let prepared = plan_of(Catalog::of(resources), &registry, &Context::empty()).unwrap();
    let options =
        Options { mode: Mode::Apply, jobs: 2, durability: Durability::Unflushed, strictness, state_dir: None };
    let mut lines = LogLines::default();
    let report = prepared.execute(&options, &ShutdownHandle::new().unwrap(), &mut lines).unwrap();
    format!("{:#?}\n{:#?}", lines.0, report.resources)
}

#[test]
fn secrets_are_redacted_in_all_messages_of_a_provider() {
    for slip in [
        Slip::Says,
        Slip::SaysOfAnother,
        Slip::GivesUp,
        Slip::Panics,
        Slip::CannotRead,
        Slip::Compares,
        Slip::CannotCompare,
        Slip::CannotCanonicalize,
    ] {
        for strictness in [Strictness::Off, Strictness::Warning, Strictness::Error] {
            let told = told(slip, strictness);
            assert!(!told.contains("hunter2") && !told.contains("before"), "{slip:?}, {strictness:?}: {told}");
            assert!(told.contains("[redacted]"), "{slip:?}, {strictness:?}: {told}");
        }
    }
}
