use super::*;

fn should(attributes: &[(&str, Value)]) -> Attributes {
    attributes.iter().map(|(name, value)| (*name, value.clone())).collect()
}

#[track_caller]
fn refused(attributes: &[(&str, Value)], why: &str) {
    let problems = NetProvider::default().validate("eth0", &should(attributes), &[]);
    assert!(problems.len() == 1 && problems[0].to_string().contains(why), "{why}: {problems:?}");
}

#[test]
fn invalid_declaration_is_refused() {
    refused(&[("peer", "b".into())], "only an interface of the kind veth");
    refused(&[("addresses", "10.0.0.300/8".into())], "is not an address with a prefix length");
    refused(&[("routes", Value::strings(["10.1.2.3/16"]))], "the network is 10.1.0.0/16");
    refused(&[("ensure", "down".into()), ("gateway", "10.0.0.1".into())], "down has no routes");
    refused(&[("master", "a/b".into())], "is not the name of an interface");
    refused(&[("gateway", Value::sensitive("10.0.0.1".into()))], "cannot hold a secret");
    let provider = NetProvider::default();
    assert_eq!(provider.validate("this-name-is-long", &should(&[]), &[]).len(), 1);
    assert!(provider.validate("eth0", &should(&[("master", "".into()), ("ensure", "down".into())]), &[]).is_empty());
}

#[test]
fn new_interface_needs_the_parts_of_its_kind() {
    let previewed = |attributes: &[(&str, Value)]| {
        let (is, name, should) = (State::absent("x"), "x".into(), should(attributes));
        let change = Change::new(&name, &is, Some(&should), &[]);
        NetProvider::default().set(&Context::empty(), &[change], Mode::Preview).remove(0).failure
    };
    let vlan = [("kind", Value::from("vlan")), ("parent", "eth0".into())];
    assert!(previewed(&vlan).unwrap().contains("needs `vlan_id`"));
    assert!(previewed(&[("kind", "veth".into())]).unwrap().contains("needs `peer`"));
    assert_eq!(previewed(&[("kind", "bridge".into())]), None);
    assert_eq!(previewed(&[("kind", "veth".into()), ("ensure", "absent".into())]), None);
}

#[test]
fn plan_fails_if_nothing_makes_the_interface() {
    let previewed = |provider: &NetProvider, is: State, attributes: &[(&str, Value)]| {
        let should = should(attributes);
        let change = Change::new(&is.name, &is, Some(&should), &[]);
        provider.set(&Context::empty(), &[change], Mode::Preview).remove(0).failure
    };
    let provider = NetProvider::default();
    let up = [("ensure", Value::from("up"))];
    assert!(previewed(&provider, State::absent("b"), &up).unwrap().contains("add `kind`"));
    let name = "a".into();
    let mut veth = should(&[("kind", "veth".into()), ("peer", "b".into())]);
    provider.canonicalize(&Context::empty(), &mut [Declaration { name: &name, should: &mut veth }]);
    assert_eq!(previewed(&provider, State::absent("b"), &up), None);
    let device = || State::present("eth0", should(&up));
    let failure = previewed(&provider, device(), &[("kind", "bridge".into())]).unwrap();
    assert!(failure.contains("eth0 exists and is a device, not a bridge"), "{failure}");
    let failure = previewed(&provider, device(), &[("ensure", "absent".into())]).unwrap();
    assert!(failure.contains("write `ensure: down`"), "{failure}");
    assert_eq!(previewed(&provider, device(), &up), None);
}

#[test]
fn lists_have_one_form() {
    let mut attributes = should(&[
        ("addresses", Value::strings(["FD00::1/64", "10.0.0.1", "10.0.0.1/32"])),
        ("gateway", "10.0.0.2".into()),
    ]);
    let name = "eth0".into();
    let mut declared = [Declaration { name: &name, should: &mut attributes }];
    NetProvider::default().canonicalize(&Context::empty(), &mut declared);
    assert_eq!(attributes.get("addresses"), Some(&Value::strings(["10.0.0.1/32", "fd00::1/64"])));
    assert_eq!(attributes.get("gateway"), Some(&Value::strings(["10.0.0.2"])));
}

#[test]
fn interfaces_are_ordered() {
    let edges = |attributes: &[(&str, Value)]| {
        let mut edges = Vec::new();
        NetProvider::default().auto_edges("x", &should(attributes), &mut |edge| {
            edges.push((edge.name.to_owned(), edge.direction == Direction::Before));
        });
        edges
    };
    let veth = [("kind", Value::from("veth")), ("peer", "b".into()), ("master", "br0".into())];
    assert_eq!(edges(&veth), [("br0".to_owned(), true), ("b".to_owned(), false)]);
    let absent = [("ensure", Value::from("absent")), ("parent", "eth0".into())];
    assert_eq!(edges(&absent), [("eth0".to_owned(), false)]);
    assert!(edges(&[("master", "".into())]).is_empty());
}

#[test]
fn loopback_interface_is_read() {
    let provider = NetProvider::default();
    let all = provider.get(&Context::empty(), Query::All).unwrap();
    let loopback = all.iter().find(|state| state.name == "lo").unwrap();
    assert!(loopback.exists && loopback.attributes.get("mtu").is_some(), "{loopback:?}");
    assert!(loopback.attributes.get("kind").is_none(), "{loopback:?}");
}
