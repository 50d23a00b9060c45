//! Automatic relations of all four kinds, and a small type for what others relate to.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use kilter_model::{Attributes, Feature, Outcome, State, TypeSchema};
use kilter_provider::{
    Capabilities, ChangeLog, Context, Failure, InScope, Name, Provider, ProviderError, Query, Refresh, Simple,
    SimpleProvider, Wanted,
};

use crate::site::{Site, defined};

/// A type whose resources are only there or not, and can be refreshed.
pub(crate) struct Shelf {
    schema: TypeSchema,
    items: Mutex<BTreeSet<String>>,
    on_create: Box<dyn Fn(&str) + Send + Sync>,
    /// Log of the calls of all shelves that share it.
    history: Arc<Mutex<Vec<String>>>,
}

impl Shelf {
    pub(crate) fn new(type_name: &str) -> Shelf {
        Shelf::with_relations(type_name, "", "")
    }

    /// A type with more attributes and relations.
    fn with_relations(type_name: &str, attributes: &str, relations: &str) -> Shelf {
        let text = format!(
            "name: {type_name}\ndesc: Things on a shelf.\nfeatures: [refresh]\n\
             outputs: {{ path: Where it is. }}\nattributes:\n  \
             ensure: {{ type: 'Enum[absent, present]', desc: Whether it is there. }}\n  \
             name: {{ type: String, desc: Its name., behaviour: namevar }}\n{attributes}{relations}"
        );
        let (items, history) = (Mutex::default(), Arc::default());
        Shelf { schema: defined(&text), items, on_create: Box::new(|_| {}), history }
    }

    pub(crate) fn on_create(self, hook: impl Fn(&str) + Send + Sync + 'static) -> Shelf {
        Shelf { on_create: Box::new(hook), ..self }
    }

    fn holding(self, name: &str) -> Shelf {
        self.items.lock().unwrap().insert(name.into());
        self
    }

    pub(crate) fn provider(self) -> Arc<dyn Provider> {
        Arc::new(Simple::new(self).unwrap())
    }

    fn happened(&self, what: &str, name: &str) {
        self.history.lock().unwrap().push(format!("{what} {}[{name}]", self.schema.name));
    }
}

impl SimpleProvider for Shelf {
    fn schema(&self) -> &TypeSchema {
        &self.schema
    }

    fn name(&self) -> &'static str {
        "memory"
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities {
            refresh: self.schema.has(Feature::Refresh).then_some(self as &dyn Refresh),
            ..Capabilities::default()
        }
    }

    fn get(&self, _: &Context<'_>, _: Query<'_>) -> Result<Vec<State>, ProviderError> {
        let items = self.items.lock().unwrap();
        let state = |name: &String| {
            State::present(name.as_str(), [("ensure", "present"), ("name", name)].into_iter().collect())
        };
        Ok(items.iter().map(state).collect())
    }

    fn create(&self, log: &mut ChangeLog<'_>, name: Name<'_>, _: &Attributes) -> Result<(), Failure> {
        log.send(InScope, "path", format!("/srv/{name}"));
        let name = name.to_string();
        self.happened("created", &name);
        (self.on_create)(&name);
        self.items.lock().unwrap().insert(name);
        Ok(())
    }

    fn update(&self, _: &mut ChangeLog<'_>, _: Name<'_>, _: &Attributes) -> Result<(), Failure> {
        Ok(())
    }

    fn delete(&self, _: &mut ChangeLog<'_>, name: Name<'_>) -> Result<(), Failure> {
        self.items.lock().unwrap().remove(&name.to_string());
        Ok(())
    }
}

impl Refresh for Shelf {
    fn refresh(&self, _: &Context<'_>, wanted: Wanted<'_>) -> Outcome {
        self.happened("refreshed", wanted.name);
        Outcome { refreshed: true, ..Outcome::default() }
    }
}

/// A hub and its spokes, which share their history.
fn wheel() -> (Site, Arc<Mutex<Vec<String>>>) {
    let attributes = "  \
        ahead: { type: 'Optional[Array[String]]', desc: Spokes before it., behaviour: parameter }\n  \
        behind: { type: 'Optional[String]', desc: A spoke behind it., behaviour: parameter }\n  \
        told: { type: 'Optional[String]', desc: A spoke that it tells., behaviour: parameter }\n  \
        heard: { type: 'Optional[String]', desc: A spoke that it hears., behaviour: parameter }\n";
    let relations = "autorequire:\n  spoke: [always, $ahead, '${vars.name}-axle']\n\
        autobefore:\n  spoke: $behind\nautonotify:\n  spoke: $told\nautosubscribe:\n  spoke: $heard\n";
    let hub = Shelf::with_relations("hub", attributes, relations).holding("old");
    let history = Arc::clone(&hub.history);
    let spoke = Shelf { history: Arc::clone(&history), ..Shelf::new("spoke") }.holding("quiet");
    (Site::new([hub.provider(), spoke.provider()]), history)
}

#[test]
fn relations_create_edges_to_declared_resources_only() {
    let (site, history) = wheel();
    let manifest = "resources:\n  spoke[late]: { ensure: present }\n  \
        hub[h]: { ensure: present, ahead: [a, gone], behind: late }\n  spoke[a]: { ensure: present }\n  \
        spoke[always]: { ensure: present }\n  spoke[h-axle]: { ensure: present }\n";
    let prepared = site.prepare(manifest).unwrap();
    let mut edges: Vec<(usize, usize)> =
        prepared.graph().edges().iter().map(|edge| (edge.from.slot(), edge.to.slot())).collect();
    edges.sort_unstable();
    assert_eq!(edges, [(1, 0), (2, 1), (3, 1), (4, 1)]);
    assert_eq!(site.apply(manifest).report.counts.changed, 5);
    let history = history.lock().unwrap();
    let at = |what: &str| history.iter().position(|line| line == what).unwrap();
    for before in ["created spoke[a]", "created spoke[always]", "created spoke[h-axle]"] {
        assert!(at(before) < at("created hub[h]"), "{history:?}");
    }
    assert!(at("created hub[h]") < at("created spoke[late]"), "{history:?}");
}

#[test]
fn a_change_refreshes_along_the_relations_that_notify() {
    let (site, history) = wheel();
    site.apply("resources:\n  spoke[quiet]: { ensure: present }\n  hub[new]: { ensure: present, told: quiet }\n");
    assert_eq!(*history.lock().unwrap(), ["created hub[new]", "refreshed spoke[quiet]"]);
    history.lock().unwrap().clear();
    site.apply("resources:\n  hub[old]: { ensure: present, heard: loud }\n  spoke[loud]: { ensure: present }\n");
    assert_eq!(*history.lock().unwrap(), ["created spoke[loud]", "refreshed hub[old]"]);
}

#[test]
fn relations_that_wait_for_each_other_are_a_cycle() {
    let (site, _) = wheel();
    let manifest = "resources:\n  spoke[a]: {}\n  hub[h]: { behind: a, ahead: [a] }\n";
    assert_eq!(site.refused(manifest), ["a cycle: spoke[a] → hub[h], hub[h] → spoke[a]"]);
}
