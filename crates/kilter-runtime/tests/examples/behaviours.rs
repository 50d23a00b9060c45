//! Behaviours of attributes, with a type as in the specification: the image of a virtual machine is set at creation,
//! its address is read-only.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use kilter_model::{Attributes, Change, Outcome, State, TypeSchema};
use kilter_provider::{Context, Mode, Provider, ProviderError, Query, Wanted, get_checked};

use crate::site::{Site, defined};

const DEFINITION: &str = "\
name: virtual_machine
desc: Virtual machines.
features: [supports_noop, simple_get_filter]
attributes:
  ensure: { type: 'Enum[present, absent]', desc: Whether it is there., default: present }
  name: { type: 'String[1]', desc: Its name., behavior: namevar }
  image: { type: 'Optional[String]', desc: What it is made of., behaviour: init_only }
  memory: { type: 'Integer[64]', desc: Megabytes., default: 512 }
  address: { type: String, desc: Where it is found., behaviour: read_only }
  disk: { type: 'Optional[Integer]', desc: 'Megabytes on disk, which takes a while to count.', lazy: true }
  wait: { type: Boolean, desc: Whether to wait for it., behaviour: parameter, default: true }
";

/// A hypervisor, and how it was called.
struct Hypervisor {
    schema: TypeSchema,
    machines: Mutex<BTreeMap<String, Attributes>>,
    calls: Mutex<Vec<String>>,
}

fn hypervisor() -> Arc<Hypervisor> {
    let mut machine: Attributes =
        [("ensure", "present"), ("image", "debian"), ("address", "10.0.0.7")].into_iter().collect();
    machine.set("memory", 512);
    let machines = Mutex::new([("old".to_owned(), machine)].into());
    Arc::new(Hypervisor { schema: defined(DEFINITION), machines, calls: Mutex::default() })
}

impl Hypervisor {
    fn called(&self, what: String) {
        self.calls.lock().unwrap().push(what);
    }

    fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }
}

impl Provider for Hypervisor {
    fn schema(&self) -> &TypeSchema {
        &self.schema
    }

    fn name(&self) -> &'static str {
        "memory"
    }

    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        let Query::Named(wanted) = query else { return Err(ProviderError::new("there are far too many machines")) };
        let names: Vec<&str> = wanted.iter().map(|wanted| wanted.name.as_str()).collect();
        self.called(format!("get {}", names.join(" ")));
        let machines = self.machines.lock().unwrap();
        let found = wanted.iter().filter_map(|wanted| {
            let mut machine = machines.get(wanted.name.as_str())?.clone();
            if cx.must_read(Some(wanted), "disk") {
                self.called(format!("count the disk of {}", wanted.name));
                machine.set("disk", 2048);
            }
            Some(State::present(wanted.name.clone(), machine))
        });
        Ok(found.collect())
    }

    fn set(&self, _: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        for change in changes {
            let should = change.should.unwrap();
            let values: Vec<String> = should.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let word = if mode == Mode::Preview { "preview" } else { "set" };
            self.called(format!("{word} {} {}", change.name, values.join(" ")));
            let mut outcome = Outcome::done();
            if mode == Mode::Preview {
                outcome.notes.push(format!("virsh define {}", change.name).into());
            } else {
                let kept = ["ensure", "image", "memory"].into_iter();
                let kept = kept.filter_map(|name| Some((name, should.get(name)?.clone()))).collect();
                self.machines.lock().unwrap().insert(change.name.to_string(), kept);
            }
            outcomes.push(outcome);
        }
        outcomes
    }
}

fn site(hypervisor: &Arc<Hypervisor>) -> Site {
    Site::new([Arc::clone(hypervisor) as Arc<dyn Provider>]).strict()
}

#[test]
fn an_init_only_attribute_is_set_when_the_resource_is_created() {
    let hypervisor = hypervisor();
    let manifest = "resources:\n  virtual_machine[new]: { image: alpine }\n";
    let ran = site(&hypervisor).apply(manifest);
    assert_eq!(
        ran.told(),
        [
            "virtual_machine[new]: changed",
            "  ensure: absent → present",
            "  image: undef → alpine",
            "  memory: undef → 512",
        ]
    );
    // Parameters are there for the provider, defaults included.
    assert_eq!(hypervisor.calls(), ["get new", "set new image=alpine ensure=present memory=512 wait=true", "get new"]);
    assert_eq!(site(&hypervisor).apply(manifest).in_sync(), 1);
    assert_eq!(hypervisor.calls(), ["get new"]);
}

#[test]
fn a_later_change_of_an_init_only_attribute_is_an_error_that_names_it_and_nothing_is_changed() {
    let hypervisor = hypervisor();
    let ran = site(&hypervisor).apply("resources:\n  virtual_machine[old]: { image: alpine, memory: 1024 }\n");
    let why = "  cannot change the init_only attribute `image` of virtual_machine[old] from debian to alpine: \
        it can only be set when the resource is created";
    assert_eq!(ran.told(), ["virtual_machine[old]: failed", why]);
    assert_eq!(hypervisor.calls(), ["get old"]);
    // The same value is no change.
    let ran = site(&hypervisor).apply("resources:\n  virtual_machine[old]: { image: debian, memory: 1024 }\n");
    assert_eq!(ran.told(), ["virtual_machine[old]: changed", "  memory: 512 → 1024"]);
}

#[test]
fn read_only_attribute_in_a_manifest_is_named_in_the_error() {
    let hypervisor = hypervisor();
    for ensure in ["present", "absent"] {
        let manifest = format!("resources:\n  virtual_machine[old]: {{ ensure: {ensure}, address: 10.0.0.7 }}\n");
        let [problem] = site(&hypervisor).refused(&manifest).try_into().unwrap();
        assert!(problem.ends_with("`address` is read_only: it is reported, and cannot be set"), "{problem}");
    }
    assert_eq!(hypervisor.calls(), [""; 0]);
}

#[test]
fn absent_resource_is_not_compared_further() {
    let hypervisor = hypervisor();
    let plan = site(&hypervisor).plan("resources:\n  virtual_machine[old]: { ensure: absent, image: alpine }\n");
    assert_eq!(plan.told()[..2], ["virtual_machine[old]: would_change", "  ensure: present → absent"]);
}

#[test]
fn noop_provider_reports_changes_and_makes_none() {
    let hypervisor = hypervisor();
    let manifest = "resources:\n  virtual_machine[new]: { image: alpine }\n  virtual_machine[old]: {}\n";
    let plan = site(&hypervisor).plan(manifest);
    assert_eq!(plan.told().last().map(String::as_str), Some("  virsh define new"));
    let calls = hypervisor.calls();
    assert_eq!(calls[0], "get new old");
    assert!(calls[1].starts_with("preview new"), "{calls:?}");
    assert_eq!(calls.len(), 2);
    assert!(!hypervisor.machines.lock().unwrap().contains_key("new"));
}

#[test]
fn resource_that_get_omits_is_absent() {
    let hypervisor = hypervisor();
    let ran = site(&hypervisor).apply("resources:\n  virtual_machine[gone]: { ensure: absent }\n");
    assert_eq!((ran.in_sync(), ran.told()), (1, Vec::new()));
    assert_eq!(hypervisor.calls(), ["get gone"]);
}

#[test]
fn lazy_attribute_is_read_only_if_managed_or_requested() {
    let hypervisor = hypervisor();
    assert_eq!(site(&hypervisor).apply("resources:\n  virtual_machine[old]: {}\n").in_sync(), 1);
    assert_eq!(hypervisor.calls(), ["get old"]);
    let ran = site(&hypervisor).apply("resources:\n  virtual_machine[old]: { disk: 2048 }\n");
    assert_eq!(ran.in_sync(), 1);
    assert_eq!(hypervisor.calls(), ["get old", "count the disk of old"]);
    let (name, asked) = ("old".into(), ["disk".into()]);
    let cx = Context::empty().with_requested_attributes(&asked);
    let states = get_checked(&*hypervisor, &cx, Query::Named(&[Wanted::new(&name, None)])).unwrap();
    assert_eq!(states[0].attributes.get("disk"), Some(&2048.into()));
}
