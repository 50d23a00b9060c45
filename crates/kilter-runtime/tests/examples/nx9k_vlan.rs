//! `nx9k_vlan`: resources on a switch, named by numbers, with the transport of the text.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use kilter_model::{AttributeSchema, Attributes, Behaviour, DataType, Hash, State, TypeSchema, Value};
use kilter_provider::{
    ChangeLog, Context, Device, Failure, Name, Provider, ProviderError, Query, Simple, SimpleProvider, Transport,
    TransportError, TransportSchema, TransportType,
};

use crate::site::{Site, defined, definition};

/// The VLANs of a switch: name, and whether it is switched off.
type Vlans = BTreeMap<i64, (Option<String>, bool)>;

/// A switch that may be unreachable.
#[derive(Clone)]
struct Switch {
    vlans: Arc<Mutex<Vlans>>,
    is_up: bool,
}

impl Switch {
    fn up() -> Switch {
        let vlans = BTreeMap::from([(1, (Some("default".to_owned()), false)), (7, (None, true))]);
        Switch { vlans: Arc::new(Mutex::new(vlans)), is_up: true }
    }

    fn down() -> Switch {
        Switch { is_up: false, ..Switch::up() }
    }
}

/// The transport of the text, with the connection info that it lists.
struct Nexus {
    schema: TransportSchema,
    switch: Switch,
}

impl Nexus {
    fn new(switch: &Switch) -> Nexus {
        let key = |name: &str, data_type: &str| {
            let data_type: DataType = data_type.parse().unwrap();
            AttributeSchema { required: true, ..AttributeSchema::new(name, data_type, Behaviour::Parameter, "") }
        };
        let connection_info = vec![
            key("connector_type", "Enum[nxapi, ssh, grpc, pidgeon]"),
            key("hostname", "String"),
            key("username", "String"),
            key("password", "Sensitive[String]"),
            key("enable_password", "Sensitive[String]"),
            key("port", "Integer"),
        ];
        let schema =
            TransportSchema { name: "nexus".into(), desc: "Connects to a Cisco Nexus device".into(), connection_info };
        Nexus { schema, switch: switch.clone() }
    }
}

impl TransportType for Nexus {
    fn schema(&self) -> &TransportSchema {
        &self.schema
    }

    fn connect(&self, _: &Context<'_>, _: &str, info: &Attributes) -> Result<Box<dyn Transport>, TransportError> {
        let secrets = ["password", "enable_password"];
        assert!(secrets.iter().all(|key| matches!(info.get(key), Some(Value::Sensitive(_)))));
        Ok(Box::new(self.switch.clone()))
    }
}

impl Transport for Switch {
    fn verify(&self, _: &Context<'_>) -> Result<(), TransportError> {
        if self.is_up { Ok(()) } else { Err(TransportError::permanent("password rejected")) }
    }

    fn facts(&self, _: &Context<'_>) -> Result<Hash, TransportError> {
        Ok(Hash::default())
    }

    fn close(&self, _: &Context<'_>) {}

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The provider, which reaches the switch through the transport of its context.
struct NexusVlan {
    schema: TypeSchema,
}

fn switch<'a>(cx: &Context<'a>) -> Result<&'a Switch, ProviderError> {
    let transport = cx.transport()?;
    transport.as_any().downcast_ref().ok_or_else(|| ProviderError::new("the device has another transport"))
}

fn put(cx: &Context<'_>, name: Name<'_>, should: &Attributes) -> Result<(), Failure> {
    let id = name.single().and_then(|name| name.parse().ok()).ok_or("a VLAN has a number")?;
    let mut vlans = switch(cx).map_err(|error| error.message)?.vlans.lock().unwrap();
    let vlan = vlans.entry(id).or_default();
    if let Some(name) = should.text("vlan_name") {
        vlan.0 = Some(name.to_owned());
    }
    vlan.1 = should.get_bool("shutdown").unwrap_or(vlan.1);
    Ok(())
}

impl SimpleProvider for NexusVlan {
    fn schema(&self) -> &TypeSchema {
        &self.schema
    }

    fn name(&self) -> &'static str {
        "nexus"
    }

    fn get(&self, cx: &Context<'_>, _: Query<'_>) -> Result<Vec<State>, ProviderError> {
        let vlans = switch(cx)?.vlans.lock().unwrap();
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

    fn create(&self, log: &mut ChangeLog<'_>, name: Name<'_>, should: &Attributes) -> Result<(), Failure> {
        put(log.context(), name, should)
    }

    fn update(&self, log: &mut ChangeLog<'_>, name: Name<'_>, should: &Attributes) -> Result<(), Failure> {
        put(log.context(), name, should)
    }

    fn delete(&self, log: &mut ChangeLog<'_>, name: Name<'_>) -> Result<(), Failure> {
        let id = name.single().and_then(|name| name.parse().ok()).ok_or("a VLAN has a number")?;
        if id == 1 {
            return Err("VLAN 1 cannot be removed".into());
        }
        switch(log.context()).map_err(|error| error.message)?.vlans.lock().unwrap().remove(&id);
        Ok(())
    }
}

fn here() -> Site {
    let provider = NexusVlan { schema: defined(definition!("nx9k_vlan")) };
    Site::new([Arc::new(Simple::new(provider).unwrap()) as Arc<dyn Provider>]).strict()
}

fn site(switch: &Switch) -> Site {
    let info: Attributes = [
        ("connector_type", "nxapi"),
        ("hostname", "edge1"),
        ("username", "admin"),
        ("password", "hunter2"),
        ("enable_password", "hunter3"),
    ]
    .into_iter()
    .map(|(key, value)| (key, Value::from(value)))
    .chain([("port", Value::Integer(443))])
    .collect();
    here().on(Device::new("edge1", Arc::new(Nexus::new(switch)), &info).unwrap())
}

#[test]
fn a_number_names_a_resource_as_the_title_and_as_an_attribute() {
    let nexus = Switch::up();
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
    let vlans = nexus.vlans.lock().unwrap().clone();
    assert_eq!(vlans[&42], (Some("office".to_owned()), false));
    assert_eq!(vlans[&43], (None, true));
    assert_eq!(site(&nexus).apply(manifest).in_sync(), 3);
}

#[test]
fn equal_numbers_are_a_duplicate_resource() {
    let told = site(&Switch::up()).refused("resources:\n  nx9k_vlan[7]: {}\n  nx9k_vlan[seven]: { id: 7 }\n");
    assert_eq!(told, ["3:3 two resources manage the nx9k_vlan `7`"]);
}

#[test]
fn defaults_are_applied_like_declared_values() {
    let nexus = Switch::up();
    let ran = site(&nexus).apply("resources:\n  nx9k_vlan[7]: {}\n");
    assert_eq!(ran.told(), ["nx9k_vlan[7]: changed", "  shutdown: true → false"]);
}

#[test]
fn a_failure_of_the_switch_is_that_of_its_resource() {
    let nexus = Switch::up();
    let ran = site(&nexus).apply("resources:\n  nx9k_vlan[1]: { ensure: absent }\n");
    assert_eq!(ran.told(), ["nx9k_vlan[1]: failed", "  ensure: present → absent", "  VLAN 1 cannot be removed"]);
    assert!(ran.lines.contains(&"err: nx9k_vlan[1]: Deleting: Failed: VLAN 1 cannot be removed".to_owned()));
}

#[test]
fn invalid_values_are_refused_without_a_call_of_the_switch() {
    let told = |body: &str| site(&Switch::down()).refused(&format!("resources:\n  nx9k_vlan{body}\n"));
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
fn refused_login_is_the_failure_of_the_resources() {
    let ran = site(&Switch::down()).apply("resources:\n  nx9k_vlan[42]: {}\n");
    assert_eq!(ran.told(), ["nx9k_vlan[42]: failed", "  edge1: password rejected"]);
}

#[test]
fn a_remote_type_refuses_to_run_locally() {
    let told = here().refused("resources:\n  nx9k_vlan[42]: {}\n");
    assert_eq!(told, ["nx9k_vlan[42]: the type `nx9k_vlan` manages a device: name the device with --on"]);
}
