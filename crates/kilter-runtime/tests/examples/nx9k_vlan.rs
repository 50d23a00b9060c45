//! `nx9k_vlan`: resources on a switch, named by numbers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use kilter_model::{Attributes, State, TypeSchema, Value};
use kilter_provider::{
    ChangeLog, Context, Failure, Name, Provider, ProviderError, Query, Simple, SimpleProvider, Suitability,
};

use crate::site::{Site, defined, definition};

/// The VLANs of a switch: name, and whether it is switched off.
type Switch = Mutex<BTreeMap<i64, (Option<String>, bool)>>;

struct Nexus {
    schema: TypeSchema,
    switch: Option<Switch>,
}

impl Nexus {
    fn connected() -> Arc<Simple<Nexus>> {
        let vlans = BTreeMap::from([(1, (Some("default".to_owned()), false)), (7, (None, true))]);
        Nexus::with(Some(Mutex::new(vlans)))
    }

    fn with(switch: Option<Switch>) -> Arc<Simple<Nexus>> {
        Arc::new(Simple::new(Nexus { schema: defined(definition!("nx9k_vlan")), switch }).unwrap())
    }

    fn switch(&self) -> &Switch {
        self.switch.as_ref().expect("an unsuitable provider is not called")
    }

    fn put(&self, name: Name<'_>, should: &Attributes) -> Result<(), Failure> {
        let id = name.single().and_then(|name| name.parse().ok()).ok_or("a VLAN has a number")?;
        let mut vlans = self.switch().lock().unwrap();
        let vlan = vlans.entry(id).or_default();
        if let Some(name) = should.text("vlan_name") {
            vlan.0 = Some(name.to_owned());
        }
        vlan.1 = should.get_bool("shutdown").unwrap_or(vlan.1);
        Ok(())
    }
}

impl SimpleProvider for Nexus {
    fn schema(&self) -> &TypeSchema {
        &self.schema
    }

    fn name(&self) -> &'static str {
        "nexus"
    }

    fn suitable(&self) -> Suitability {
        match self.switch {
            Some(_) => Suitability::Suitable,
            None => Suitability::Unsuitable("it works on a switch, and there is no connection to one".into()),
        }
    }

    fn get(&self, _: &Context<'_>, _: Query<'_>) -> Result<Vec<State>, ProviderError> {
        let vlans = self.switch().lock().unwrap();
        let state = |(id, (name, shutdown)): (&i64, &(Option<String>, bool))| {
            let mut attributes = Attributes::from_iter([("ensure", "present")]);
            attributes.set("id", *id);
            attributes.set("shutdown", Value::Boolean(*shutdown));
            if let Some(name) = name {
                attributes.set("vlan_name", name.as_str());
            }
            State::present(id.to_string(), attributes)
        };
        Ok(vlans.iter().map(state).collect())
    }

    fn create(&self, _: &mut ChangeLog<'_>, name: Name<'_>, should: &Attributes) -> Result<(), Failure> {
        self.put(name, should)
    }

    fn update(&self, _: &mut ChangeLog<'_>, name: Name<'_>, should: &Attributes) -> Result<(), Failure> {
        self.put(name, should)
    }

    fn delete(&self, _: &mut ChangeLog<'_>, name: Name<'_>) -> Result<(), Failure> {
        let id = name.single().and_then(|name| name.parse().ok()).ok_or("a VLAN has a number")?;
        if id == 1 {
            return Err("VLAN 1 cannot be removed".into());
        }
        self.switch().lock().unwrap().remove(&id);
        Ok(())
    }
}

fn site(nexus: &Arc<Simple<Nexus>>) -> Site {
    Site::new([Arc::clone(nexus) as Arc<dyn Provider>]).strict()
}

#[test]
fn a_number_names_a_resource_as_the_title_and_as_an_attribute() {
    let nexus = Nexus::connected();
    let manifest = "resources:\n  nx9k_vlan[42]: { vlan_name: office }\n  \
        nx9k_vlan[the printers]: { id: 43, shutdown: true }\n  nx9k_vlan[7]: { shutdown: true }\n";
    let ran = site(&nexus).apply(manifest);
    assert_eq!(
        ran.told(),
        [
            "nx9k_vlan[42]: changed",
            "  ensure: absent → present",
            "  vlan_name: undef → office",
            "  shutdown: undef → false",
            "nx9k_vlan[the printers]: changed",
            "  ensure: absent → present",
            "  shutdown: undef → true",
        ]
    );
    let vlans = nexus.inner().switch().lock().unwrap().clone();
    assert_eq!(vlans[&42], (Some("office".to_owned()), false));
    assert_eq!(vlans[&43], (None, true));
    assert_eq!(site(&nexus).apply(manifest).in_sync(), 3);
}

#[test]
fn equal_numbers_are_a_duplicate_resource() {
    let told = site(&Nexus::connected()).refused("resources:\n  nx9k_vlan[7]: {}\n  nx9k_vlan[seven]: { id: 7 }\n");
    assert_eq!(told, ["3:3 two resources manage the nx9k_vlan `7`"]);
}

#[test]
fn defaults_are_applied_like_declared_values() {
    let nexus = Nexus::connected();
    let ran = site(&nexus).apply("resources:\n  nx9k_vlan[7]: {}\n");
    assert_eq!(ran.told(), ["nx9k_vlan[7]: changed", "  shutdown: true → false"]);
}

#[test]
fn a_failure_of_the_switch_is_that_of_its_resource() {
    let nexus = Nexus::connected();
    let ran = site(&nexus).apply("resources:\n  nx9k_vlan[1]: { ensure: absent }\n");
    assert_eq!(ran.told(), ["nx9k_vlan[1]: failed", "  ensure: present → absent", "  VLAN 1 cannot be removed"]);
    assert!(ran.lines.contains(&"err: nx9k_vlan[1]: Deleting: Failed: VLAN 1 cannot be removed".to_owned()));
}

#[test]
fn invalid_values_are_refused_without_a_call_of_the_switch() {
    let told = |body: &str| site(&Nexus::with(None)).refused(&format!("resources:\n  nx9k_vlan{body}\n"));
    for (body, expected) in [
        ("[4095]: {}", "2:3 `id` expects an Integer[1, 4094] value, got 4095"),
        ("[x]: { id: 4095 }", "2:23 `id` expects an Integer[1, 4094] value, got 4095"),
        (
            "[x]: { id: 2, vlan_name: '' }",
            "2:37 `vlan_name` expects a value of type Undef or String[1, 32], got String",
        ),
        ("[2]: { shutdown: 'no' }", "2:29 `shutdown` expects a Boolean value, got String"),
        ("[2]: { ensure: gone }", "2:27 `ensure` expects a match for Enum['absent', 'present'], got 'gone'"),
    ] {
        assert_eq!(told(body), [expected]);
    }
}

#[test]
fn unavailable_switch_is_reported_without_calls() {
    let ran = site(&Nexus::with(None)).apply("resources:\n  nx9k_vlan[42]: {}\n");
    let why = "  the provider `nexus` of nx9k_vlan is not suitable here: it works on a switch, and there is no \
               connection to one";
    assert_eq!(ran.told(), ["nx9k_vlan[42]: failed", why]);
}
