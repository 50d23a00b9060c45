//! Promises of a run to its providers, and checks of the providers (Puppet Resource API).

#![expect(clippy::unwrap_used, reason = "a test may end where it cannot go on")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use ecow::EcoString;
use kilter_model::expr::Template;
use kilter_model::{
    Attributes, Behaviour, Catalog, Change, Deferred, Feature, Meta, Outcome, Relation, RelationKind, Resource,
    ResourceRef, SourceId, Span, State, TypeSchema,
};
use kilter_provider::{
    Capabilities, Context, Declaration, Durability, INSYNC_TRIGGER, Insync, Mode as Setting, Owner, Provider,
    ProviderError, Query, Registry, Session, Strictness, Suitability, ValidationError,
};
use kilter_runtime::{Mode, NullObserver, Options, Report, ShutdownHandle, Status, plan_of};

type Judge = Box<dyn Fn(&str, &State, &Attributes) -> Insync + Send + Sync>;

/// A provider whose resources are hashes in memory, and that remembers how it was called.
struct Store {
    schema: TypeSchema,
    name: &'static str,
    world: Mutex<BTreeMap<EcoString, Attributes>>,
    calls: Mutex<Vec<String>>,
    is_suitable: Arc<AtomicBool>,
    /// Command that a change in this store makes available.
    brings: Option<Arc<AtomicBool>>,
    failing: Mutex<u32>,
    insync: Option<Judge>,
    /// Failures of changes, by name.
    outcomes: BTreeMap<&'static str, Outcome>,
    /// True if the provider omits the outcome of the last change of a call.
    forgets: bool,
    /// True if its resources own files, as packages do.
    is_owner: bool,
}

impl Owner for Store {
    fn owned(&self, _: &str, _: &Attributes, _: &dyn Fn(&str) -> bool) -> Vec<EcoString> {
        Vec::new()
    }
}

impl Store {
    fn new(schema: TypeSchema) -> Store {
        Store {
            schema,
            name: "memory",
            world: Mutex::default(),
            calls: Mutex::default(),
            is_suitable: Arc::new(AtomicBool::new(true)),
            brings: None,
            failing: Mutex::new(0),
            insync: None,
            outcomes: BTreeMap::new(),
            forgets: false,
            is_owner: false,
        }
    }

    /// A type with a name, a value and a state.
    fn things(type_name: &str, features: &[Feature]) -> Store {
        Store::new(thing_type(type_name).features(features))
    }

    fn holding<'a>(self, names: impl IntoIterator<Item = &'a str>) -> Store {
        for name in names {
            self.put(name, "x");
        }
        self
    }

    fn put(&self, name: &str, value: &str) {
        let attributes = Attributes::from_iter([("name", name), ("ensure", "present"), ("value", value)]);
        self.world.lock().unwrap().insert(name.into(), attributes);
    }

    fn called(&self, what: String) {
        self.calls.lock().unwrap().push(what);
    }

    fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }
}

fn thing_type(type_name: &str) -> TypeSchema {
    TypeSchema::new(type_name, "A thing in memory.")
        .attribute("ensure", "Enum[present, absent]", Behaviour::Property, "Whether it is there.")
        .attribute("name", "String", Behaviour::Namevar, "Its name.")
        .attribute("value", "String", Behaviour::Property, "What it holds.")
        .attribute("base", "String", Behaviour::InitOnly, "What it was made of.")
}

impl Provider for Store {
    fn schema(&self) -> &TypeSchema {
        &self.schema
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn suitable(&self) -> Suitability {
        match self.is_suitable.load(Ordering::SeqCst) {
            true => Suitability::Suitable,
            false => Suitability::Unsuitable("there is no command `stored`".into()),
        }
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities {
            session: Some(self),
            owner: self.is_owner.then_some(self as &dyn Owner),
            ..Capabilities::default()
        }
    }

    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        match query {
            Query::All if cx.must_read(None, "disk") => self.called("get all with disk".into()),
            Query::All => self.called("get all".into()),
            Query::Named(wanted) => {
                let name = |wanted: &kilter_provider::Wanted<'_>| match wanted.namevars.map(|n| self.schema.key(n)) {
                    Some(Some(key)) => key.to_string(),
                    _ => wanted.name.to_string(),
                };
                self.called(format!("get {}", wanted.iter().map(name).collect::<Vec<_>>().join(" ")));
            }
        }
        let mut failing = self.failing.lock().unwrap();
        if *failing > 0 {
            *failing -= 1;
            return Err(ProviderError::new("the store is closed"));
        }
        let world = self.world.lock().unwrap();
        let all = world.iter().map(|(name, attributes)| {
            let mut state = State::present(name.clone(), attributes.clone());
            if !cx.must_read(None, "disk") {
                state.attributes.remove("disk");
            }
            state.title =
                attributes.text("package").zip(attributes.text("manager")).map(|(p, m)| format!("{p}-{m}").into());
            state
        });
        Ok(match query {
            Query::All => all.collect(),
            Query::Named(wanted) => {
                all.filter(|state| wanted.iter().any(|wanted| *wanted.name == state.name)).collect()
            }
        })
    }

    fn set(&self, _: &Context<'_>, changes: &[Change<'_>], mode: Setting) -> Vec<Outcome> {
        let names: Vec<&str> = changes.iter().map(|change| change.name.as_str()).collect();
        let word = if mode == Setting::Preview { "preview" } else { "set" };
        self.called(format!("{word} {}", names.join(" ")));
        if mode == Setting::Preview {
            let told = |change: &Change<'_>| Outcome {
                notes: vec![format!("would store {}", change.name).into()],
                ..Outcome::default()
            };
            return changes[usize::from(self.forgets)..].iter().map(told).collect();
        }
        for change in changes {
            let mut world = self.world.lock().unwrap();
            match change.should.filter(|should| should.text("ensure") != Some("absent")) {
                Some(should) => {
                    let mut attributes = should.clone();
                    attributes.set("ensure", "present");
                    world.insert(change.name.clone(), attributes);
                }
                None => drop(world.remove(change.name)),
            }
        }
        if let Some(brings) = &self.brings {
            brings.store(true, Ordering::SeqCst);
        }
        let outcome = |name: &str| self.outcomes.get(name).cloned().unwrap_or_default();
        names[usize::from(self.forgets)..].iter().map(|name| outcome(name)).collect()
    }

    fn canonicalize(&self, cx: &Context<'_>, resources: &mut [Declaration<'_>]) -> Vec<Vec<ValidationError>> {
        for Declaration { should, .. } in resources.iter_mut() {
            if let Some(value) = should.text("value").map(str::to_lowercase) {
                // What a thing holds of itself is its name.
                let own = should.text("name").filter(|_| value == "@").map(str::to_owned);
                let managed = (value == "managed").then(|| cx.manages("a").to_string());
                should.set("value", own.or(managed).unwrap_or(value));
            }
        }
        vec![Vec::new(); resources.len()]
    }

    fn insync(&self, _: &Context<'_>, attribute: &str, is: &State, should: &Attributes) -> Insync {
        self.called(format!("insync {attribute}"));
        self.insync.as_ref().map_or(Insync::Default, |judge| judge(attribute, is, should))
    }
}

impl Session for Store {
    fn open(&self, _: &Context<'_>) -> Result<(), ProviderError> {
        self.called("open".into());
        Ok(())
    }
}

fn resource(type_name: &str, title: &str, attributes: &[(&str, &str)]) -> Resource {
    Resource {
        reference: ResourceRef::new(type_name, title),
        name: title.into(),
        attributes: attributes.iter().copied().collect(),
        particulars: None,
        span: Span::new(SourceId(0), 0, 0),
    }
}

fn present(name: &str) -> Resource {
    resource("thing", name, &[("ensure", "present"), ("value", "x")])
}

/// Each resource after the one before it.
fn chain(count: u32) -> Vec<Relation> {
    let span = Span::new(SourceId(0), 0, 0);
    (1..count).map(|second| Relation { first: second - 1, second, kind: RelationKind::Require, span }).collect()
}

struct ContractRun {
    mode: Mode,
    strictness: Strictness,
}

impl ContractRun {
    fn of(&self, stores: &[&Arc<Store>], resources: Vec<Resource>, relations: Vec<Relation>) -> Report {
        self.of_registry(stores.iter().map(|store| Arc::clone(store) as Arc<dyn Provider>), resources, relations)
    }

    fn of_registry(
        &self,
        providers: impl IntoIterator<Item = Arc<dyn Provider>>,
        resources: Vec<Resource>,
        relations: Vec<Relation>,
    ) -> Report {
        let registry = Registry::new(providers).unwrap();
        let catalog = Catalog { relations, ..Catalog::of(resources) };
        let prepared =
            plan_of(catalog, &registry, &Context::empty()).unwrap_or_else(|rejected| panic!("{:?}", rejected.problems));
        let ContractRun { mode, strictness } = *self;
        let options = Options { mode, jobs: 4, durability: Durability::Flushed, strictness, state_dir: None };
        prepared.execute(&options, &ShutdownHandle::new().unwrap(), &mut NullObserver).unwrap()
    }
}

const APPLY: ContractRun = ContractRun { mode: Mode::Apply, strictness: Strictness::Warning };
const PLAN: ContractRun = ContractRun { mode: Mode::Noop, strictness: Strictness::Warning };

fn numbered(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("n{n}")).collect()
}

fn failures(report: &Report) -> Vec<String> {
    let failed = report.resources.iter().filter(|resource| resource.status == Status::Failed);
    failed.map(|r| format!("{}: {}", r.reference, r.failure.as_deref().unwrap_or_default())).collect()
}

/// A resource with settings for the engine.
fn governed(name: &str, meta: Meta) -> Resource {
    let mut resource = present(name);
    resource.particulars_mut().meta = Some(meta);
    resource
}

/// A resource for which a provider is named.
fn by(provider: &str, name: &str) -> Resource {
    let mut resource = present(name);
    resource.particulars_mut().provider = Some(provider.into());
    resource
}

#[test]
fn filtering_provider_reads_declared_names_with_one_call() {
    let names = numbered(1000);
    let store = Store::things("thing", &[Feature::SimpleGetFilter]).holding(names.iter().map(String::as_str));
    let store = Arc::new(store);
    let report = APPLY.of(&[&store], names[..10].iter().map(|name| present(name)).collect(), Vec::new());
    assert_eq!(report.counts.in_sync, 10);
    assert_eq!(store.calls(), ["open", "get n0 n1 n2 n3 n4 n5 n6 n7 n8 n9"]);
}

#[test]
fn provider_without_filter_reads_all_once() {
    let names = numbered(100);
    let store = Arc::new(Store::things("thing", &[]).holding(names.iter().map(String::as_str)));
    APPLY.of(&[&store], names[..10].iter().map(|name| present(name)).collect(), chain(10));
    assert_eq!(store.calls(), ["open", "get all"]);
}

#[test]
fn dependent_resources_are_read_together_and_absent_ones_once() {
    let store = Arc::new(Store::things("thing", &[Feature::SimpleGetFilter]).holding(["a", "c"]));
    let gone = resource("thing", "b", &[("ensure", "absent")]);
    let report = APPLY.of(&[&store], vec![present("a"), gone, present("c")], chain(3));
    assert_eq!(report.counts.in_sync, 3);
    assert_eq!(store.calls(), ["open", "get a b c"]);
}

#[test]
fn own_change_of_provider_invalidates_only_that_resource() {
    let store = Arc::new(Store::things("thing", &[Feature::SimpleGetFilter]));
    let report = APPLY.of(&[&store], vec![present("a"), present("b"), present("c")], chain(3));
    assert_eq!(report.counts.changed, 3);
    assert_eq!(store.calls(), ["open", "get a b c", "set a", "get a", "set b", "get b", "set c", "get c"]);
}

#[test]
fn independent_changes_are_made_in_one_batch() {
    let store = Arc::new(Store::things("thing", &[]));
    APPLY.of(&[&store], vec![present("a"), present("b"), present("c")], Vec::new());
    assert_eq!(store.calls(), ["open", "get all", "set a b c", "get all"]);
}

#[test]
fn batch_is_verified_with_one_call() {
    let names = numbered(200);
    for (features, reads) in
        [(&[][..], "get all".to_owned()), (&[Feature::SimpleGetFilter][..], format!("get {}", names.join(" ")))]
    {
        let store = Arc::new(Store::things("thing", features));
        let report = APPLY.of(&[&store], names.iter().map(|name| present(name)).collect(), Vec::new());
        assert_eq!(report.counts.changed, 200);
        assert_eq!(store.calls(), ["open", &reads, &format!("set {}", names.join(" ")), &reads]);
    }
}

#[test]
fn change_by_another_provider_invalidates_cached_reads() {
    let store = Arc::new(Store::things("thing", &[Feature::SimpleGetFilter]).holding(["a", "b"]));
    let other = Arc::new(Store::things("other", &[Feature::SimpleGetFilter]));
    let change = resource("other", "o", &[("ensure", "present")]);
    APPLY.of(&[&store, &other], vec![present("a"), change, present("b")], chain(3));
    assert_eq!(store.calls(), ["open", "get a b", "get b"]);
}

#[test]
fn a_provider_that_cannot_read_is_unavailable_for_the_run_and_fails_its_resources_only() {
    let store = Arc::new(Store::things("thing", &[Feature::SimpleGetFilter]).holding(["a", "b"]));
    *store.failing.lock().unwrap() = u32::MAX;
    let other = Arc::new(Store::things("other", &[]));
    let sound = resource("other", "o", &[("ensure", "present")]);
    let late = resource("other", "late", &[("ensure", "present")]);
    let resources = vec![present("a"), sound, late, present("b")];
    let span = Span::new(SourceId(0), 0, 0);
    // The second thing comes long after the first.
    let after = Relation { first: 2, second: 3, kind: RelationKind::Require, span };
    let report = APPLY.of(&[&store, &other], resources, vec![after]);
    assert_eq!(failures(&report), ["thing[a]: the store is closed", "thing[b]: the store is closed"]);
    assert_eq!(report.counts.changed, 2);
    assert_eq!(store.calls(), ["open", "get a b"]);
}

#[test]
fn retry_queries_an_unavailable_provider_again() {
    let store = Arc::new(Store::things("thing", &[Feature::SimpleGetFilter]).holding(["a"]));
    *store.failing.lock().unwrap() = 1;
    let meta = Meta { retry: 1, delay: 1, ..Meta::default() };
    let again = governed("a", meta);
    let report = APPLY.of(&[&store], vec![again], Vec::new());
    assert_eq!(failures(&report), [""; 0]);
    assert_eq!(store.calls(), ["open", "get a", "get a"]);
}

#[test]
fn provider_is_opened_late_after_its_requirements() {
    let is_there = Arc::new(AtomicBool::new(false));
    let needy = Arc::new(Store { is_suitable: Arc::clone(&is_there), ..Store::things("thing", &[]) });
    let bringer = Arc::new(Store { brings: Some(is_there), ..Store::things("other", &[]) });
    let resources = || vec![resource("other", "package", &[("ensure", "present")]), present("a")];
    let plan = PLAN.of(&[&needy, &bringer], resources(), chain(2));
    let [unknown] = &unknown(&plan)[..] else { panic!("{plan:?}") };
    let refusal = "the provider `memory` of thing is not suitable here: there is no command `stored`";
    assert_eq!(*unknown, format!("thing[a] is known after other[package] ({refusal})"));
    let report = APPLY.of(&[&needy, &bringer], resources(), chain(2));
    assert_eq!(report.counts.changed, 2, "{:?}", failures(&report));
    needy.is_suitable.store(false, Ordering::SeqCst);
    let plan = PLAN.of(&[&needy, &bringer], resources(), chain(2));
    assert_eq!(failures(&plan), [format!("thing[a]: {refusal}")], "other[package] is there, and changes nothing");
}

#[test]
fn provider_compares_nothing_of_a_resource_that_is_not_there() {
    let store = || Arc::new(Store::things("thing", &[Feature::CustomInsync]).holding(["there"]));
    let wanted =
        || ["new", "there"].map(|name| resource("thing", name, &[("ensure", "present"), ("value", "y")])).into();
    let (planning, applying) = (store(), store());
    assert_eq!(PLAN.of(&[&planning], wanted(), Vec::new()).counts.would_change, 2);
    let asked = |calls: Vec<String>| calls.into_iter().filter(|call| call == "insync value").count();
    assert_eq!(asked(planning.calls()), 1, "of the one that is there");
    assert_eq!(APPLY.of(&[&applying], wanted(), Vec::new()).counts.changed, 2);
    assert_eq!(asked(applying.calls()), 3, "and of both when they have been changed");
}

/// Unknown steps of a plan.
fn unknown(report: &Report) -> Vec<String> {
    let unknown = report.resources.iter().filter(|resource| resource.status == Status::Unknown);
    unknown.map(|r| format!("{} is known {}", r.reference, r.unknown[0].1)).collect()
}

#[test]
fn unsuitable_provider_waits_for_packages_that_no_relation_names() {
    let is_there = Arc::new(AtomicBool::new(false));
    let needy = Arc::new(Store { is_suitable: Arc::clone(&is_there), ..Store::things("thing", &[]) });
    let packages = Store { brings: Some(Arc::clone(&is_there)), is_owner: true, ..Store::things("pack", &[]) };
    let packages = Arc::new(packages.holding(["there"]));
    // The resource that needs the program is declared first.
    let pack = |name| resource("pack", name, &[("ensure", "present")]);
    let resources = || vec![present("a"), pack("there"), pack("new"), resource("pack", "old", &[("ensure", "absent")])];
    let plan = PLAN.of(&[&needy, &packages], resources(), Vec::new());
    assert_eq!(unknown(&plan).len(), 1, "{plan:?}");
    assert!(unknown(&plan)[0].starts_with("thing[a] is known after pack[new] ("), "{plan:?}");
    let report = APPLY.of(&[&needy, &packages], resources(), Vec::new());
    assert_eq!((report.counts.changed, failures(&report)), (2, vec![]));
}

#[test]
fn unsuitable_provider_is_known_after_the_package_that_a_relation_names() {
    let is_there = Arc::new(AtomicBool::new(false));
    let needy = Arc::new(Store { is_suitable: is_there, ..Store::things("thing", &[]) });
    let packages = Arc::new(Store { is_owner: true, ..Store::things("pack", &[]) });
    let pack = |name| resource("pack", name, &[("ensure", "present")]);
    let relation = Relation { first: 1, second: 2, kind: RelationKind::Require, span: Span::new(SourceId(0), 0, 0) };
    let plan = PLAN.of(&[&needy, &packages], vec![pack("other"), pack("needed"), present("a")], vec![relation]);
    assert_eq!(unknown(&plan).len(), 1, "{plan:?}");
    assert!(unknown(&plan)[0].starts_with("thing[a] is known after pack[needed] ("), "{plan:?}");
}

#[test]
fn resource_that_its_provider_cannot_create_is_unknown_until_its_package_is_installed() {
    let schema = TypeSchema::new("unit", "A unit in memory.")
        .attribute("ensure", "Enum[running, stopped]", Behaviour::Property, "Whether it runs.")
        .attribute("name", "String", Behaviour::Namevar, "Its name.");
    let (units, packages) = (Arc::new(Store::new(schema)), Arc::new(Store::things("pack", &[])));
    let resources =
        || vec![resource("pack", "web", &[("ensure", "present")]), resource("unit", "web", &[("ensure", "running")])];
    let plan = PLAN.of(&[&units, &packages], resources(), chain(2));
    assert_eq!(unknown(&plan), ["unit[web] is known after pack[web] (it does not exist yet)"]);
    let installed = Arc::new(Store::things("pack", &[]).holding(["web"]));
    let plan = PLAN.of(&[&units, &installed], resources(), chain(2));
    assert_eq!((unknown(&plan), plan.counts.would_change), (vec![], 1), "nothing is going to bring it");
}

#[test]
fn suitable_provider_is_chosen_and_named_provider_is_used() {
    let unsuitable = Arc::new(AtomicBool::new(false));
    let [dnf, apt, dpkg] = ["dnf", "apt", "dpkg"].map(|name| Store { name, ..Store::things("thing", &[]) });
    let (dnf, apt, dpkg) = (Arc::new(Store { is_suitable: unsuitable, ..dnf }), Arc::new(apt), Arc::new(dpkg));
    let named = by("dpkg", "b");
    APPLY.of(&[&dnf, &apt, &dpkg], vec![present("a"), named], Vec::new());
    assert_eq!(dnf.calls(), [""; 0]);
    assert_eq!(apt.calls(), ["open", "get all", "set a", "get all"]);
    assert_eq!(dpkg.calls(), ["open", "get all", "set b", "get all"]);

    let registry = Registry::new([apt as Arc<dyn Provider>, dpkg]).unwrap();
    let unknown = by("rpm", "b");
    let catalog = Catalog::of([unknown]);
    let Err(rejected) = plan_of(catalog, &registry, &Context::empty()) else { panic!("there is no such provider") };
    assert_eq!(rejected.problems[0].1.message, "the type `thing` has no provider `rpm`: it has apt, dpkg");
}

#[test]
fn an_attribute_that_only_some_providers_have_is_refused_with_the_others() {
    let schema =
        thing_type("thing").attribute("flavour", "String", Behaviour::Property, "What it tastes of.").only_for(["apt"]);
    let store = Store { name: "dpkg", ..Store::new(schema) };
    let registry = Registry::new([Arc::new(store) as Arc<dyn Provider>]).unwrap();
    let resources = vec![resource("thing", "a", &[("flavour", "sweet")])];
    let Err(rejected) = plan_of(Catalog::of(resources), &registry, &Context::empty()) else {
        panic!("dpkg has no flavour")
    };
    let said = rejected.problems[0].1.to_string();
    assert!(said.starts_with("flavour: the provider `dpkg` of thing does not support it"), "{said}");
    assert!(said.contains("apt"), "{said}");
}

#[test]
fn invalid_state_fails_only_its_managed_resource() {
    let store = Store::things("thing", &[]).holding(["good", "bad", "unmanaged"]);
    for name in ["bad", "unmanaged"] {
        store.world.lock().unwrap().get_mut(name).unwrap().set("value", 7);
    }
    let store = Arc::new(store);
    let bad = resource("thing", "bad", &[("ensure", "present")]);
    let report = APPLY.of(&[&store], vec![present("good"), bad], Vec::new());
    let [failure] = failures(&report).try_into().unwrap();
    assert!(failure.starts_with("thing[bad]: the provider `memory` does not keep its promises"), "{failure}");
    assert!(failure.contains("expects a String value, got Integer"), "{failure}");
    assert_eq!(report.counts.in_sync, 1);
}

#[test]
fn found_value_outside_of_its_type_is_repaired_if_it_is_declared() {
    let store = Store::things("thing", &[]).holding(["bad"]);
    store.world.lock().unwrap().get_mut("bad").unwrap().set("value", 7);
    let store = Arc::new(store);
    let report = APPLY.of(&[&store], vec![present("bad")], Vec::new());
    assert_eq!((failures(&report), report.counts.changed), (Vec::new(), 1));
    assert_eq!(store.world.lock().unwrap()["bad"].text("value"), Some("x"));
}

#[test]
fn values_that_get_returns_must_be_canonical_when_that_is_asked_for() {
    let store = || {
        let store = Store::things("thing", &[Feature::Canonicalize]);
        store.put("a", "LOUD");
        Arc::new(store)
    };
    let wanted = || vec![resource("thing", "a", &[("value", "Quiet")])];
    let strict = ContractRun { strictness: Strictness::Error, ..APPLY };
    let [failure] = failures(&strict.of(&[&store()], wanted(), Vec::new())).try_into().unwrap();
    assert!(failure.contains("it returned `value` as LOUD, which is not canonical: loud"), "{failure}");
    let report = APPLY.of(&[&store()], wanted(), Vec::new());
    let difference = &report.resources[0].differences[0];
    // What is wanted was made canonical before it was compared, and what is set is.
    assert_eq!((difference.is.to_string(), difference.should.to_string()), ("LOUD".into(), "quiet".into()));
}

#[test]
fn only_providers_with_previews_are_called_in_dry_runs() {
    let store = Arc::new(Store::things("thing", &[Feature::SupportsNoop]));
    let report = PLAN.of(&[&store], vec![present("a"), present("b")], Vec::new());
    assert_eq!(report.resources[0].notes, ["would store a"]);
    assert_eq!(store.calls(), ["open", "get all", "preview a b"]);

    let noop = |name| governed(name, Meta { noop: true, ..Meta::default() });
    let report = APPLY.of(&[&store], vec![noop("a"), present("b")], Vec::new());
    assert_eq!(report.resources[0].notes, ["would store a"]);
    assert_eq!(report.counts.changed, 1);
    assert_eq!(store.calls(), ["open", "get all", "preview a", "set b", "get all"]);

    let other = Arc::new(Store::things("thing", &[]));
    let report = PLAN.of(&[&other], vec![present("a")], Vec::new());
    assert_eq!(report.resources[0].status, Status::WouldChange);
    assert_eq!(other.calls(), ["open", "get all"]);
}

#[test]
fn only_managed_properties_are_compared_by_the_provider() {
    let store =
        Store { insync: Some(Box::new(|_, _, _| Insync::Default)), ..Store::things("thing", &[Feature::CustomInsync]) };
    store.put("a", "x");
    store.world.lock().unwrap().get_mut("a").unwrap().set("base", "oak");
    let store = Arc::new(store);
    APPLY.of(&[&store], vec![resource("thing", "a", &[("value", "x"), ("base", "oak")])], Vec::new());
    assert_eq!(store.calls(), ["open", "get all", "insync value"]);
}

#[test]
fn the_answers_of_a_comparison_are_kept_to() {
    let judge: Judge = Box::new(|_, _, should| match should.text("value") {
        Some("same") => Insync::Same,
        Some("other") => Insync::Differs(Some("Adding missing members [c]".into())),
        Some("boom") => Insync::Failed("it returned a String with a value of \"yes\"".into()),
        _ => Insync::Default,
    });
    let store = Store { insync: Some(judge), ..Store::things("thing", &[Feature::CustomInsync]) };
    let store = Arc::new(store.holding(["a", "b", "c"]));
    let wanted = |name: &str, value: &str| resource("thing", name, &[("value", value)]);
    let resources = || vec![wanted("a", "same"), wanted("b", "other"), wanted("c", "boom")];
    let report = PLAN.of(&[&store], resources(), Vec::new());
    let by_name = |name: &str| report.resources.iter().find(|r| r.reference.title.as_str() == name);
    assert!(by_name("a").is_none());
    assert_eq!(by_name("b").unwrap().differences[0].message.as_deref(), Some("Adding missing members [c]"));
    assert_eq!(
        failures(&report),
        ["thing[c]: cannot compare `value` of thing[c]: it returned a String with a value of \"yes\""]
    );
}

#[test]
fn comparison_receives_canonical_values() {
    let judge: Judge = Box::new(|_, is, should| {
        assert_eq!((is.attributes.text("value"), should.text("value")), (Some("loud"), Some("loud")));
        Insync::Default
    });
    let features = [Feature::CustomInsync, Feature::Canonicalize];
    let store = Store { insync: Some(judge), ..Store::things("thing", &features) };
    store.put("a", "loud");
    let store = Arc::new(store);
    let report = APPLY.of(&[&store], vec![resource("thing", "a", &[("value", "LOUD")])], Vec::new());
    assert_eq!(report.counts.in_sync, 1);
    assert_eq!(store.calls(), ["open", "get all", "insync value"]);
}

/// Returns the value of a resource that has received `sent` from another one.
fn received(sent: &str) -> Option<String> {
    let sent = Outcome { outputs: Attributes::from_iter([("sent", sent)]), ..Outcome::done() };
    let sender = Arc::new(Store { outcomes: [("s", sent)].into(), ..Store::things("sender", &[]) });
    let store = Arc::new(Store::things("thing", &[Feature::Canonicalize]));
    let mut receiver = resource("thing", "a", &[("ensure", "present")]);
    receiver.particulars_mut().deferred.push(Deferred {
        attribute: "value".into(),
        template: Template::parse("${sender[s].sent}").unwrap(),
        sensitive: false,
        span: Span::new(SourceId(0), 0, 0),
    });
    let sends = resource("sender", "s", &[("ensure", "present")]);
    let report = APPLY.of(&[&sender, &store], vec![sends, receiver], Vec::new());
    assert_eq!(failures(&report), [""; 0]);
    store.world.lock().unwrap()["a"].text("value").map(str::to_owned)
}

#[test]
fn received_value_is_canonicalised_with_the_namevar() {
    assert_eq!(received("@").as_deref(), Some("a"));
}

#[test]
fn received_value_is_canonicalised_with_the_context_of_the_run() {
    assert_eq!(received("managed").as_deref(), Some("true"));
}

#[test]
fn fatal_failure_ends_the_run_before_later_resources() {
    let fatal = Outcome { fatal: true, ..Outcome::failed("no power") };
    let store = Store { outcomes: [("b", fatal)].into(), ..Store::things("thing", &[]) };
    let store = Arc::new(store);
    let other = Arc::new(Store::things("other", &[]));
    let last = resource("other", "last", &[("ensure", "present")]);
    // The last one does not depend on the failure; it is its turn later all the same.
    let span = Span::new(SourceId(0), 0, 0);
    let relation = |first, second| Relation { first, second, kind: RelationKind::Require, span };
    let resources = vec![present("a"), present("b"), present("c"), last];
    let report = APPLY.of(&[&store, &other], resources, vec![relation(0, 2), relation(2, 3)]);
    assert_eq!(failures(&report), ["thing[b]: no power"]);
    let statuses: Vec<&str> = report.resources.iter().map(|resource| resource.status.word()).collect();
    assert_eq!(statuses, ["changed", "failed", "interrupted", "interrupted"]);
    assert_eq!(store.calls(), ["open", "get all", "set a b", "get all"]);
    assert_eq!(other.calls(), [""; 0]);
    assert!(!report.interrupted, "nobody asked for it");
    let by = |at: usize| report.resources[at].because_of.as_ref().map(ToString::to_string);
    assert_eq!((by(2), by(3)), (Some("thing[b]".into()), Some("thing[b]".into())));
    assert_eq!(report.ended_by.map(|by| by.to_string()).as_deref(), Some("thing[b]"));
}

#[test]
fn a_call_with_too_few_answers_fails_all_of_its_changes() {
    let store = Arc::new(Store { forgets: true, ..Store::things("thing", &[]) });
    let report = APPLY.of(&[&store], vec![present("a"), present("b")], Vec::new());
    let why = "the provider answered 1 of 2 changes";
    assert_eq!(failures(&report), [format!("thing[a]: {why}"), format!("thing[b]: {why}")]);
}

#[test]
fn a_preview_with_too_few_answers_fails_all_of_its_changes() {
    let store = Arc::new(Store { forgets: true, ..Store::things("thing", &[Feature::SupportsNoop]) });
    let report = PLAN.of(&[&store], vec![present("a"), present("b")], Vec::new());
    let why = "the provider answered 1 of 2 changes";
    assert_eq!(failures(&report), [format!("thing[a]: {why}"), format!("thing[b]: {why}")]);
}

/// A provider of a type that no resource has.
struct Unused;

impl Provider for Unused {
    fn schema(&self) -> &TypeSchema {
        panic!("the schema of a type without resources is built")
    }

    fn type_name(&self) -> &str {
        "unused"
    }

    fn name(&self) -> &'static str {
        "memory"
    }

    fn get(&self, _: &Context<'_>, _: Query<'_>) -> Result<Vec<State>, ProviderError> {
        unreachable!("it has no resources")
    }

    fn set(&self, _: &Context<'_>, _: &[Change<'_>], _: Setting) -> Vec<Outcome> {
        unreachable!("it has no resources")
    }
}

#[test]
fn schema_of_provider_without_resources_is_not_built() {
    let store: Arc<dyn Provider> = Arc::new(Store::things("thing", &[]));
    let report = APPLY.of_registry([Arc::new(Unused), store], vec![present("a")], Vec::new());
    assert_eq!(report.counts.changed, 1, "{:?}", report.resources);
}

#[test]
fn managed_lazy_attribute_is_read_for_all_without_a_filter() {
    let schema = thing_type("thing").attribute("disk", "String", Behaviour::Property, "What it takes.").lazy();
    let store = Store::new(schema).holding(["a", "b"]);
    for thing in store.world.lock().unwrap().values_mut() {
        thing.set("disk", "10G");
    }
    let store = Arc::new(store);
    let report = PLAN.of(&[&store], vec![present("a"), present("b")], Vec::new());
    assert_eq!(report.counts.in_sync, 2);
    assert_eq!(store.calls(), ["open", "get all"]);
    let managed = resource("thing", "b", &[("disk", "10G")]);
    let report = PLAN.of(&[&store], vec![present("a"), managed], Vec::new());
    assert_eq!(report.counts.in_sync, 2, "{:?}", report.resources);
    assert_eq!(store.calls(), ["open", "get all with disk"]);
    let changed = resource("thing", "b", &[("disk", "20G")]);
    let report = APPLY.of(&[&store], vec![changed], Vec::new());
    assert_eq!(report.counts.changed, 1, "{:?}", report.resources);
}

#[test]
fn a_type_without_properties_is_compared_as_a_whole() {
    let schema = TypeSchema::new("example", "No properties.")
        .attribute("name", "String", Behaviour::Namevar, "Its name.")
        .attribute("force", "String", Behaviour::Parameter, "Whether it is out of sync.")
        .features(&[Feature::CustomInsync]);
    let judge: Judge = Box::new(|attribute, _, should| {
        assert_eq!(attribute, INSYNC_TRIGGER);
        if should.text("force").is_some() { Insync::Differs(None) } else { Insync::Same }
    });
    let store = Store { insync: Some(judge), ..Store::new(schema) };
    store.world.lock().unwrap().insert("example".into(), Attributes::from_iter([("name", "example")]));
    let store = Arc::new(store);
    let report = PLAN.of(&[&store], vec![resource("example", "example", &[])], Vec::new());
    assert_eq!(report.counts.in_sync, 1);
    let report = PLAN.of(&[&store], vec![resource("example", "example", &[("force", "yes")])], Vec::new());
    let message = report.resources[0].differences[0].message.as_deref();
    assert_eq!(message, Some("Custom insync logic determined that this resource is out of sync"));
}

#[test]
fn an_init_only_attribute_of_a_resource_that_exists_is_never_changed() {
    let store = Store::things("thing", &[]).holding(["a"]);
    store.world.lock().unwrap().get_mut("a").unwrap().set("base", "oak");
    let store = Arc::new(store);
    let report = APPLY.of(&[&store], vec![resource("thing", "a", &[("base", "ash")])], Vec::new());
    assert_eq!(
        failures(&report),
        ["thing[a]: cannot change the init_only attribute `base` of thing[a] from oak to ash: it can only be set \
             when the \
          resource is created"]
    );
    assert_eq!(store.calls(), ["open", "get all"]);
}

#[test]
fn resource_is_identified_by_all_its_namevars() {
    let schema = TypeSchema::new("software", "Packages of package managers.")
        .attribute("ensure", "Enum[present, absent]", Behaviour::Property, "Whether it is there.")
        .attribute("package", "String", Behaviour::Namevar, "The package.")
        .attribute("manager", "String", Behaviour::Namevar, "What installs it.")
        .title_pattern(r"^(?<package>.*[^-])-(?<manager>.*)$", "the package and the manager, with a hyphen between")
        .title_pattern(r"^(?<package>.*)$", "the package")
        .features(&[Feature::SimpleGetFilter]);
    let store = Arc::new(Store::new(schema.clone()));
    let named = |title: &str, package: &str, manager: &str, ensure: &str| {
        let mut resource =
            resource("software", title, &[("ensure", ensure), ("package", package), ("manager", manager)]);
        resource.name = schema.key(&resource.attributes).unwrap();
        resource
    };
    let yum = named("php-yum", "php", "yum", "present");
    let gem = named("php-gem", "php", "gem", "absent");
    store.world.lock().unwrap().insert(gem.name.clone(), gem.attributes.clone());
    store.world.lock().unwrap().get_mut(&gem.name).unwrap().set("ensure", "present");
    let wanted = r#"{"package":"php","manager":"yum"} {"package":"php","manager":"gem"}"#;
    let plan = PLAN.of(&[&store], vec![yum.clone()], Vec::new());
    assert_eq!(plan.resources[0].status, Status::WouldChange);
    store.calls();
    APPLY.of(&[&store], vec![yum, gem], Vec::new());
    let calls = store.calls();
    assert_eq!(calls[1], format!("get {wanted}"));
    assert_eq!(calls[2], format!("set {wanted}"));
}

#[test]
fn relations_that_a_type_declares_order_its_resources() {
    let schema = thing_type("thing")
        .attribute("source", "String", Behaviour::Parameter, "Where it comes from.")
        .autorequire("other", ["$source", "always"]);
    let store = Arc::new(Store::new(schema));
    let other = Arc::new(Store::things("other", &[]));
    let made = |title: &str| resource("other", title, &[("ensure", "present")]);
    let sourced = resource("thing", "a", &[("ensure", "present"), ("source", "file")]);
    // Declared first, and made last.
    let order = Arc::new(Mutex::new(Vec::new()));
    let report = APPLY.of(&[&store, &other], vec![sourced, made("file"), made("always"), made("beside")], Vec::new());
    assert_eq!(report.counts.changed, 4);
    order.lock().unwrap().extend(other.calls());
    let schema = store.schema();
    assert_eq!(schema.relations.len(), 1);
    let registry = Registry::new([Arc::clone(&store) as Arc<dyn Provider>, other]).unwrap();
    let resources = vec![
        resource("thing", "a", &[("ensure", "present"), ("source", "file")]),
        made("file"),
        made("always"),
        made("beside"),
    ];
    let prepared = plan_of(Catalog::of(resources), &registry, &Context::empty()).unwrap_or_else(|_| panic!("sound"));
    let edges: Vec<(usize, usize)> =
        prepared.graph().edges().iter().map(|edge| (edge.from.slot(), edge.to.slot())).collect();
    assert_eq!(edges, [(1, 0), (2, 0)]);
}

#[test]
fn line_at_the_end_of_a_call_does_not_block_the_run() {
    // Each reading writes a warning just before it answers; whichever of the two is taken first, and
    // wherever the driver is meanwhile, the run goes on.
    for _ in 0..300 {
        let store = Store::things("thing", &[Feature::Canonicalize]);
        store.put("a", "LOUD");
        let report = APPLY.of(&[&Arc::new(store)], vec![resource("thing", "a", &[("value", "Quiet")])], Vec::new());
        assert_eq!(report.counts.changed, 1);
    }
}

#[test]
fn resource_without_ensure_is_managed_only_if_it_exists() {
    let store = Arc::new(Store::things("thing", &[]).holding(["a"]));
    let only_if_present = |name| resource("thing", name, &[("value", "y")]);
    let report = APPLY.of(&[&store], vec![only_if_present("a"), only_if_present("b")], Vec::new());
    assert_eq!((report.counts.changed, report.counts.in_sync), (1, 1));
    assert_eq!(store.calls(), ["open", "get all", "set a", "get all"]);
}

#[test]
fn read_only_attribute_is_refused_in_any_catalog() {
    let mut schema = thing_type("thing");
    schema = schema.attribute("size", "Integer", Behaviour::ReadOnly, "How large it is.");
    let store = Store { schema, ..Store::things("thing", &[]) };
    let registry = Registry::new([Arc::new(store) as Arc<dyn Provider>]).unwrap();
    let mut wanted = present("a");
    wanted.attributes.set("size", 7);
    let catalog = Catalog::of([wanted]);
    let Err(rejected) = plan_of(catalog, &registry, &Context::empty()) else { panic!("it cannot be set") };
    assert_eq!(rejected.problems[0].1.message, "it is read_only: it is reported, and cannot be set");
}
