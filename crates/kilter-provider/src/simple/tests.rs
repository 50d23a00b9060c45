use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use kilter_model::{Difference, Value};

use super::*;
use crate::capabilities::{Capabilities, Watch};
use crate::logging::tests::EventLog;
use crate::logging::{Failure, InScope};
use crate::{Interrupt, Scope, WatchSource};

/// Provider that records its calls.
struct KeyProvider {
    schema: TypeSchema,
    calls: Mutex<Vec<String>>,
}

impl KeyProvider {
    fn new(ensure: &str, namevars: &[&str]) -> KeyProvider {
        let schema = TypeSchema::new("key", "Keys.").attribute("ensure", ensure, Behaviour::Property, "");
        let add = |schema: TypeSchema, name: &&str| schema.attribute(name, "String", Behaviour::Namevar, "");
        let schema = namevars.iter().fold(schema, add).attribute("size", "Optional[Integer]", Behaviour::Property, "");
        KeyProvider { schema, calls: Mutex::default() }
    }

    /// Fails for the name `bad`, and fails fatally for the name `fatal`.
    fn call(&self, call: &str, name: Name<'_>) -> Result<(), Failure> {
        self.calls.lock().unwrap().push(format!("{call} {name}"));
        match name.single() {
            Some("bad") => Err("no such server".into()),
            Some("fatal") => Err(Failure::fatal("no power")),
            _ => Ok(()),
        }
    }
}

impl SimpleProvider for KeyProvider {
    fn schema(&self) -> &TypeSchema {
        &self.schema
    }

    fn name(&self) -> &'static str {
        "keys"
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities { watch: Some(self), ..Capabilities::default() }
    }

    fn get(&self, _: &Context<'_>, _: Query<'_>) -> Result<Vec<State>, ProviderError> {
        Ok(vec![State::absent("x")])
    }

    fn create(&self, log: &mut ChangeLog<'_>, name: Name<'_>, should: &Attributes) -> Result<(), Failure> {
        if let Some(size) = should.get("size") {
            log.attribute_changed(InScope, "size", Value::Undef, size.clone(), None);
        }
        self.call("create", name)
    }

    fn update(&self, log: &mut ChangeLog<'_>, name: Name<'_>, _: &Attributes) -> Result<(), Failure> {
        log.warning("in use");
        self.call("update", name)
    }

    fn delete(&self, _: &mut ChangeLog<'_>, name: Name<'_>) -> Result<(), Failure> {
        self.call("delete", name)
    }
}

impl Watch for KeyProvider {
    fn watches(&self, name: &str, _: &Attributes) -> Vec<WatchSource> {
        vec![WatchSource::Path { path: name.into(), scope: Scope::This }]
    }
}

fn simple() -> Simple<KeyProvider> {
    Simple::new(KeyProvider::new("Enum[absent, present]", &["name"])).unwrap()
}

fn state(name: &str, ensure: &str) -> State {
    let attributes = Attributes::from_iter([("ensure", ensure), ("name", name)]);
    State { exists: ensure == "present", ..State::present(name, attributes) }
}

fn wanted(entries: &[(&str, Value)]) -> Attributes {
    entries.iter().map(|(name, value)| (*name, value.clone())).collect()
}

/// Sets resources one after another, each with its current and desired `ensure`. Returns the outcomes, the
/// calls, and the log lines without durations.
fn set(
    provider: &Simple<KeyProvider>,
    cx: Context<'_>,
    changes: &[(&str, &str, Option<Attributes>)],
    mode: Mode,
) -> (Vec<Outcome>, Vec<String>, Vec<String>) {
    let recorder = EventLog::default();
    let states: Vec<State> = changes.iter().map(|(name, ensure, _)| state(name, ensure)).collect();
    let differences: [Difference; 0] = [];
    let changes: Vec<Change<'_>> = states
        .iter()
        .zip(changes)
        .map(|(is, (.., should))| Change::new(&is.name, is, should.as_ref(), &differences))
        .collect();
    let outcomes = provider.set(&cx.with_log(&recorder), &changes, mode);
    let calls = std::mem::take(&mut *provider.inner().calls.lock().unwrap());
    let timeless = |line: String| match line.split_once(" seconds") {
        Some((before, after)) => format!("{} N seconds{after}", before.rsplit_once(' ').unwrap().0),
        None => line,
    };
    (outcomes, calls, recorder.lines().into_iter().map(timeless).collect())
}

fn present() -> Option<Attributes> {
    Some(wanted(&[("ensure", "present".into())]))
}

fn failures(outcomes: &[Outcome]) -> Vec<Option<&str>> {
    outcomes.iter().map(|outcome| outcome.failure.as_deref()).collect()
}

#[test]
fn each_change_becomes_one_call_in_a_block() {
    let sized = Some(wanted(&[("ensure", "present".into()), ("size", Value::Integer(4))]));
    let absent = Some(wanted(&[("ensure", "absent".into())]));
    let changes =
        [("a", "absent", sized), ("b", "present", present()), ("c", "present", absent), ("d", "present", None)];
    let (outcomes, calls, lines) = set(&simple(), Context::empty(), &changes, Mode::Apply);
    assert_eq!(failures(&outcomes), [None; 4]);
    assert_eq!(calls, ["create a", "update b", "delete c", "delete d"]);
    assert_eq!(
        lines,
        [
            "debug: key[a]: Creating: Start",
            "notice: key[a]: Creating size: undef → 4",
            "notice: key[a]: Creating: Finished in N seconds",
            "debug: key[b]: Updating: Start",
            "warning: key[b]: Updating: in use",
            "notice: key[b]: Updating: Finished in N seconds",
            "debug: key[c]: Deleting: Start",
            "notice: key[c]: Deleting: Finished in N seconds",
            "debug: key[d]: Deleting: Start",
            "notice: key[d]: Deleting: Finished in N seconds",
        ]
    );
    assert_eq!(outcomes[0].changed.len(), 1);
}

#[test]
fn simple_provider_skips_needless_delete_and_create() {
    let absent = Some(wanted(&[("ensure", "absent".into())]));
    let silent = wanted(&[("size", Value::Integer(4))]);
    let changes = [
        ("a", "absent", absent),
        ("b", "absent", None),
        ("c", "absent", Some(silent.clone())),
        ("d", "present", Some(silent)),
    ];
    let (outcomes, calls, lines) = set(&simple(), Context::empty(), &changes, Mode::Apply);
    assert_eq!(failures(&outcomes), [None; 4]);
    assert_eq!(calls, ["update d"]);
    assert_eq!(lines[..3], ["info: key[a]: Unchanged", "info: key[b]: Unchanged", "info: key[c]: Unchanged"]);
}

#[test]
fn failure_affects_only_its_resource() {
    let changes = [("bad", "absent", present()), ("b", "absent", present())];
    let (outcomes, calls, lines) = set(&simple(), Context::empty(), &changes, Mode::Apply);
    assert_eq!(failures(&outcomes), [Some("no such server"), None]);
    assert_eq!(calls, ["create bad", "create b"]);
    assert_eq!(lines[1], "err: key[bad]: Creating: Failed after N seconds: no such server");
}

#[test]
fn fatal_failure_skips_remaining_changes() {
    let changes = [("fatal", "present", None), ("b", "absent", present()), ("c", "absent", None)];
    let (outcomes, calls, _) = set(&simple(), Context::empty(), &changes, Mode::Apply);
    let rest = Some("not changed because of a fatal error: no power");
    assert_eq!(failures(&outcomes), [Some("no power"), rest, rest]);
    assert!(outcomes[0].fatal && !outcomes[1].fatal);
    assert_eq!(calls, ["delete fatal"]);
}

#[test]
fn interrupt_skips_remaining_changes() {
    let raised = AtomicBool::new(true);
    let cx = Context::empty().with_interrupt(Interrupt::new(&raised, None));
    let (outcomes, calls, _) = set(&simple(), cx, &[("a", "absent", present())], Mode::Apply);
    assert_eq!(failures(&outcomes), [Some("not started: the run was interrupted")]);
    assert!(calls.is_empty());
    raised.store(false, Ordering::Release);
    let (outcomes, ..) = set(&simple(), cx, &[("a", "absent", present())], Mode::Apply);
    assert_eq!(failures(&outcomes), [None]);
}

#[test]
fn preview_makes_no_calls() {
    let (outcomes, calls, lines) = set(&simple(), Context::empty(), &[("a", "absent", present())], Mode::Preview);
    assert_eq!(failures(&outcomes), [None]);
    assert!(calls.is_empty() && lines.is_empty());
}

#[test]
fn several_namevars_form_a_hash() {
    let provider = Simple::new(KeyProvider::new("Enum[absent, present]", &["name", "group"])).unwrap();
    let wanted = wanted(&[("ensure", "present".into()), ("name", "bar".into()), ("group", "foo".into())]);
    let (outcomes, calls, _) = set(&provider, Context::empty(), &[("foo/bar", "absent", Some(wanted))], Mode::Apply);
    assert_eq!((failures(&outcomes), &calls[..]), (vec![None], &["create name: bar, group: foo".to_owned()][..]));

    let (name, is) = (
        EcoString::from("foo/bar"),
        State::present("foo/bar", Attributes::from_iter([("name", "bar"), ("group", "foo")])),
    );
    let removal = Change::new(&name, &is, None, &[]);
    assert!(provider.set(&Context::empty(), &[removal], Mode::Apply)[0].is_done());
    assert_eq!(*provider.inner().calls.lock().unwrap(), ["delete name: bar, group: foo"]);
}

#[test]
fn a_resource_fails_alone_when_a_namevar_is_not_known() {
    let provider = Simple::new(KeyProvider::new("Enum[absent, present]", &["name", "group"])).unwrap();
    let (outcomes, calls, _) = set(&provider, Context::empty(), &[("bar", "present", None)], Mode::Apply);
    assert_eq!(failures(&outcomes), [Some("no value is known for its namevar `group`")]);
    assert!(calls.is_empty());
}

#[test]
fn simple_provider_is_watched_as_declared() {
    let watches = simple().capabilities().watch().watches("/etc/keys", &Attributes::default());
    assert_eq!(watches, [WatchSource::Path { path: "/etc/keys".into(), scope: Scope::This }]);
}

#[test]
fn name_is_split_into_namevars() {
    let values = Attributes::from_iter([("name", "bar"), ("group", "foo")]);
    let (single, composite) = (Name::Single("bar"), Name::Composite(&values));
    assert_eq!((single.single(), single.get("name")), (Some("bar"), None));
    assert_eq!((composite.single(), composite.get("group")), (None, Some(&"foo".into())));
}

#[test]
fn a_type_that_does_not_follow_the_conventions_is_refused() {
    let refused = |keys: KeyProvider| Simple::new(keys).map(drop).unwrap_err().to_string();
    let other =
        "a simple provider needs `ensure` to be a property of the type Enum[absent, present]: that of key is not";
    for ensure in ["String", "Enum[present]", "Enum[present, absent, latest]", "Boolean"] {
        assert_eq!(refused(KeyProvider::new(ensure, &["name"])), other, "{ensure}");
    }
    assert_eq!(
        refused(KeyProvider::new("Enum[present, absent]", &[])),
        "a simple provider needs a namevar: key has none"
    );
    let mut keys = KeyProvider::new("Enum[present, absent]", &["name"]);
    keys.schema.attributes.remove(0);
    assert_eq!(refused(keys), "a simple provider needs a type that is ensurable: key has no attribute `ensure`");
    for ensure in ["Enum[present, absent]", "Optional[Enum[absent, present]]"] {
        assert!(Simple::new(KeyProvider::new(ensure, &["id"])).is_ok(), "{ensure}");
    }
}
