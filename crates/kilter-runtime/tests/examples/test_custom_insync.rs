//! `test_custom_insync`: a provider that compares by itself, with every answer it may give.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use kilter_model::{Attributes, State, TypeSchema, Value};
use kilter_provider::{
    ChangeLog, Context, Failure, Insync, Name, Provider, ProviderError, Query, Simple, SimpleProvider,
};

use crate::relations::Shelf;
use crate::site::{Site, defined, definition};

/// Groups with members; groups are made, filled and emptied as real ones are.
struct Groups {
    schema: TypeSchema,
    world: Mutex<BTreeMap<String, Vec<String>>>,
    /// Checked attributes and changes.
    calls: Mutex<Vec<String>>,
}

impl Groups {
    fn holding(groups: &[(&str, &[&str])]) -> Arc<Simple<Groups>> {
        let members = |members: &&[&str]| members.iter().map(|&member| member.to_owned()).collect();
        let world = groups.iter().map(|(name, of)| ((*name).to_owned(), members(of))).collect();
        let schema = defined(definition!("test_custom_insync"));
        let groups = Groups { schema, world: Mutex::new(world), calls: Mutex::default() };
        Arc::new(Simple::new(groups).unwrap())
    }

    fn called(&self, what: String) {
        self.calls.lock().unwrap().push(what);
    }
}

fn texts(value: Option<&Value>) -> Vec<String> {
    value.map_or(&[][..], Value::as_list).iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

impl SimpleProvider for Groups {
    fn schema(&self) -> &TypeSchema {
        &self.schema
    }

    fn name(&self) -> &'static str {
        "groups"
    }

    fn get(&self, _: &Context<'_>, _: Query<'_>) -> Result<Vec<State>, ProviderError> {
        let world = self.world.lock().unwrap();
        let state = |(name, members): (&String, &Vec<String>)| {
            let mut attributes: Attributes = [("ensure", "present"), ("name", name)].into_iter().collect();
            attributes.set("some_array", Value::strings(members.iter().map(String::as_str)));
            State::present(name.as_str(), attributes)
        };
        Ok(world.iter().map(state).collect())
    }

    fn create(&self, _: &mut ChangeLog<'_>, name: Name<'_>, should: &Attributes) -> Result<(), Failure> {
        self.called(format!("create {name}"));
        self.world.lock().unwrap().insert(name.to_string(), texts(should.get("some_array")));
        Ok(())
    }

    fn update(&self, _: &mut ChangeLog<'_>, name: Name<'_>, should: &Attributes) -> Result<(), Failure> {
        self.called(format!("update {name}"));
        let mut world = self.world.lock().unwrap();
        let members = world.get_mut(&name.to_string()).ok_or("there is no such group")?;
        let wanted = texts(should.get("some_array"));
        if should.get_bool("force") == Some(true) {
            *members = wanted;
        } else {
            let missing: Vec<String> = wanted.into_iter().filter(|member| !members.contains(member)).collect();
            members.extend(missing);
        }
        Ok(())
    }

    fn delete(&self, _: &mut ChangeLog<'_>, name: Name<'_>) -> Result<(), Failure> {
        self.called(format!("delete {name}"));
        self.world.lock().unwrap().remove(&name.to_string());
        Ok(())
    }

    fn insync(&self, _: &Context<'_>, attribute: &str, is: &State, should: &Attributes) -> Insync {
        self.called(format!("insync {attribute} of {}", is.name));
        // There is nothing to compare with in what is still to be created.
        if attribute != "some_array" || !is.exists {
            return Insync::Default;
        }
        let mut members = texts(is.attributes.get("some_array"));
        let mut wanted = texts(should.get("some_array"));
        if wanted.contains(&"!".to_owned()) {
            return Insync::Failed("`!` cannot be compared".into());
        }
        if should.get_bool("force") == Some(true) {
            members.sort();
            wanted.sort();
            return if members == wanted { Insync::Same } else { Insync::Differs(None) };
        }
        wanted.retain(|member| !members.contains(member));
        match wanted.is_empty() {
            true => Insync::Same,
            false => Insync::Differs(Some(format!("Adding missing members ['{}']", wanted.join("', '")).into())),
        }
    }
}

fn site(groups: &Arc<Simple<Groups>>) -> Site {
    Site::new([Arc::clone(groups) as Arc<dyn Provider>]).strict()
}

fn calls(groups: &Simple<Groups>) -> Vec<String> {
    std::mem::take(&mut groups.inner().calls.lock().unwrap())
}

fn members(groups: &Simple<Groups>, name: &str) -> Vec<String> {
    groups.inner().world.lock().unwrap()[name].clone()
}

#[test]
fn attribute_that_custom_insync_accepts_is_unchanged() {
    let groups = Groups::holding(&[("a", &["x", "y"]), ("b", &["x", "y"])]);
    let manifest = "resources:\n  test_custom_insync[a]: { some_array: [y] }\n  \
        test_custom_insync[b]: { some_array: [y, x], force: true }\n";
    let ran = site(&groups).apply(manifest);
    assert_eq!((ran.in_sync(), ran.told()), (2, Vec::new()));
    // Each managed property is asked about once; parameters and namevars are not.
    let mut asked = calls(&groups);
    asked.sort();
    assert_eq!(asked, ["insync ensure of a", "insync ensure of b", "insync some_array of a", "insync some_array of b"]);
}

#[test]
fn message_of_the_provider_replaces_the_change() {
    let groups = Groups::holding(&[("something", &["a"])]);
    let manifest = "resources:\n  test_custom_insync[something]: { some_array: [a, SomeValue] }\n";
    let ran = site(&groups).apply(manifest);
    let message = "  some_array: Adding missing members ['SomeValue']";
    assert_eq!(ran.told(), ["test_custom_insync[something]: changed", message]);
    assert_eq!(members(&groups, "something"), ["a", "SomeValue"]);
    assert_eq!(site(&groups).apply(manifest).in_sync(), 1);
}

#[test]
fn change_without_message_shows_the_values() {
    let groups = Groups::holding(&[("a", &["x", "y"])]);
    let ran = site(&groups).apply("resources:\n  test_custom_insync[a]: { some_array: [z], force: true }\n");
    assert_eq!(ran.told(), ["test_custom_insync[a]: changed", "  some_array: [x, y] → [z]"]);
    assert_eq!(members(&groups, "a"), ["z"]);
}

#[test]
fn attribute_without_custom_insync_is_compared_by_equality() {
    let groups = Groups::holding(&[("a", &[])]);
    let ran = site(&groups).apply("resources:\n  test_custom_insync[a]: { ensure: absent }\n");
    assert_eq!(ran.told(), ["test_custom_insync[a]: changed", "  ensure: present → absent"]);
    assert_eq!(calls(&groups)[..2], ["insync ensure of a", "delete a"]);
}

#[test]
fn custom_insync_is_not_called_without_managed_properties() {
    let text = definition!("test_custom_insync").replace("    default: present\n", "");
    let world = Mutex::new([("a".to_owned(), Vec::new())].into());
    let groups = Groups { schema: defined(&text), world, calls: Mutex::default() };
    let groups = Arc::new(Simple::new(groups).unwrap());
    let ran = site(&groups).apply("resources:\n  test_custom_insync[a]: { force: true }\n");
    assert_eq!(ran.in_sync(), 1);
    assert_eq!(calls(&groups), [""; 0]);
}

#[test]
fn custom_insync_is_not_called_for_absent_resources() {
    let groups = Groups::holding(&[]);
    let ran = site(&groups).apply("resources:\n  test_custom_insync[a]: { some_array: [x] }\n");
    assert_eq!(
        ran.told(),
        ["test_custom_insync[a]: changed", "  ensure: absent → present", "  some_array: undef → [x]"]
    );
    let asked = ["insync ensure of a", "create a", "insync ensure of a", "insync some_array of a"];
    assert_eq!(calls(&groups), asked);
}

#[test]
fn failed_comparison_fails_its_resource_and_skips_dependents() {
    let groups = Groups::holding(&[("a", &["x"]), ("b", &["x"])]);
    let site = Site::new([Arc::clone(&groups) as Arc<dyn Provider>, Shelf::new("thing").provider()]);
    let ran = site.apply(
        "resources:\n  test_custom_insync[a]: { some_array: ['!'] }\n  \
         thing[t]: { ensure: present, require: 'test_custom_insync[a]' }\n  \
         test_custom_insync[b]: { some_array: [y] }\n",
    );
    assert_eq!(
        ran.told(),
        [
            "test_custom_insync[a]: failed",
            "  cannot compare `some_array` of test_custom_insync[a]: `!` cannot be compared",
            "thing[t]: skipped",
            "test_custom_insync[b]: changed",
            "  some_array: Adding missing members ['y']",
        ]
    );
    assert_eq!(members(&groups, "a"), ["x"]);
}

#[test]
fn noop_reports_the_message_without_changes() {
    let groups = Groups::holding(&[("a", &["x"])]);
    let expected = ["test_custom_insync[a]: would_change", "  some_array: Adding missing members ['y']"];
    let plan = site(&groups).plan("resources:\n  test_custom_insync[a]: { some_array: [y] }\n");
    assert_eq!(plan.told(), expected);
    let own = site(&groups).apply("resources:\n  test_custom_insync[a]: { some_array: [y], meta: { noop: true } }\n");
    assert_eq!(own.told(), expected);
    assert_eq!(members(&groups, "a"), ["x"]);
    assert!(calls(&groups).iter().all(|call| call.starts_with("insync")));
}

#[test]
fn value_of_wrong_type_is_reported_with_the_message_of_the_type() {
    let groups = Groups::holding(&[]);
    let manifest = "resources:\n  test_custom_insync[a]: { some_array: [x, 1], force: maybe }\n";
    // A number that is not quoted is a text where a text is wanted.
    assert_eq!(site(&groups).refused(manifest), ["2:55 `force` expects a Boolean value, got String"]);
    let manifest = "resources:\n  test_custom_insync[a]: { some_array: x }\n";
    assert_eq!(
        site(&groups).refused(manifest),
        ["2:40 `some_array` expects a value of type Undef or Array, got String"]
    );
}
