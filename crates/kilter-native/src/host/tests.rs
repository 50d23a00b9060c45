use std::os::unix::fs::{MetadataExt, PermissionsExt};

use kilter_model::Difference;
use kilter_provider::{Wanted, check, get_checked};

use super::*;

fn provider(hosts: &str) -> (tempfile::TempDir, HostProvider) {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("etc")).unwrap();
    std::fs::write(root.path().join("etc/hosts"), hosts).unwrap();
    let provider = HostProvider::new(root.path());
    (root, provider)
}

fn should(attributes: &[(&str, Value)]) -> Attributes {
    attributes.iter().map(|(name, value)| (*name, value.clone())).collect()
}

fn differences(provider: &HostProvider, name: &str, should: &Attributes) -> Vec<Difference> {
    let name = name.into();
    check(provider, &Context::empty(), &[Wanted::new(&name, Some(should))]).remove(0).unwrap().differences
}

/// Checks and changes a resource, and checks it again. Returns the remaining differences.
fn converge(provider: &HostProvider, name: &str, should: &Attributes) -> Vec<Difference> {
    let (is, differences) = (State::absent(name), differences(provider, name, should));
    let name = name.into();
    let change = Change::new(&name, &is, Some(should), &differences);
    let outcomes = provider.set(&Context::empty(), &[change], Mode::Apply);
    assert_eq!(outcomes, [Outcome::done()]);
    self::differences(provider, &name, should)
}

#[test]
fn an_entry_is_added_changed_and_removed() {
    let (root, provider) = provider("127.0.0.1 localhost\n# keep\n");
    let read = || std::fs::read_to_string(root.path().join("etc/hosts")).unwrap();
    let wanted = should(&[
        ("ensure", "present".into()),
        ("ip", "10.0.0.1".into()),
        ("host_aliases", Value::strings(["b", "c"])),
    ]);
    assert_eq!(differences(&provider, "a", &wanted).len(), 3);
    assert_eq!(converge(&provider, "a", &wanted), []);
    assert_eq!(read(), "127.0.0.1 localhost\n# keep\n10.0.0.1\ta\tb c\n");
    let commented = should(&[("ensure", "present".into()), ("ip", "10.0.0.2".into()), ("comment", "hi".into())]);
    assert_eq!(differences(&provider, "a", &commented).len(), 2);
    assert_eq!(converge(&provider, "a", &commented), []);
    assert_eq!(read(), "127.0.0.1 localhost\n# keep\n10.0.0.2\ta\tb c\t# hi\n");
    assert_eq!(converge(&provider, "a", &should(&[("ensure", "absent".into())])), []);
    assert_eq!(read(), "127.0.0.1 localhost\n# keep\n");
}

#[test]
fn equivalent_notations_are_in_sync() {
    let (_root, provider) = provider("2001:db8:0:0::7 a c b\n");
    let wanted =
        should(&[("ip", "2001:db8::7".into()), ("host_aliases", Value::strings(["b", "c"])), ("comment", "".into())]);
    assert_eq!(differences(&provider, "a", &wanted), []);
}

#[test]
fn an_export_applied_changes_nothing_and_has_each_name_once() {
    let (_root, provider) = provider("127.0.0.1 localhost\n::1 localhost ip6-localhost\n10.0.0.1 a b # c\n\n");
    let states = get_checked(&provider, &Context::empty(), Query::All).unwrap();
    assert_eq!(states.iter().map(|state| state.name.as_str()).collect::<Vec<_>>(), ["localhost", "a"]);
    for state in states {
        assert_eq!(provider.validate(&state.name, &state.attributes, &[]), []);
        assert_eq!(differences(&provider, &state.name, &state.attributes), []);
    }
}

#[test]
fn owner_and_mode_are_kept_and_no_temporary_file_stays() {
    let (root, provider) = provider("127.0.0.1 localhost\n");
    let path = root.path().join("etc/hosts");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(converge(&provider, "a", &should(&[("ip", "10.0.0.1".into()), ("ensure", "present".into())])), []);
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o640);
    assert_eq!(std::fs::read_dir(root.path().join("etc")).unwrap().count(), 1);
}

#[test]
fn a_symbolic_link_is_not_followed() {
    let (root, provider) = provider("");
    let path = root.path().join("etc/hosts");
    std::fs::rename(&path, root.path().join("etc/real")).unwrap();
    std::os::unix::fs::symlink("real", &path).unwrap();
    let wanted = should(&[("ip", "10.0.0.1".into())]);
    let name = "a".into();
    let is = State::absent("a");
    let change = Change::new(&name, &is, Some(&wanted), &[]);
    let outcome = provider.set(&Context::empty(), &[change], Mode::Apply).remove(0);
    assert!(outcome.failure.unwrap().contains("not a regular file"));
    assert_eq!(std::fs::read(root.path().join("etc/real")).unwrap(), b"");
}

#[test]
fn fifo_does_not_block_check() {
    let (root, provider) = provider("");
    let path = root.path().join("etc/hosts");
    std::fs::remove_file(&path).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
    let why = provider.read(TARGET).err().unwrap().to_string();
    assert!(why.contains("not a regular file"), "{why}");
}

#[test]
fn target_path_cannot_escape() {
    let (_root, provider) = provider("");
    let wanted = should(&[("ip", "10.0.0.1".into()), ("target", "/etc/../hosts".into())]);
    assert_eq!(provider.validate("a", &wanted, &[]).len(), 1);
    let name = "a".into();
    let is = State::absent("a");
    let change = Change::new(&name, &is, Some(&wanted), &[]);
    assert!(!provider.set(&Context::empty(), &[change], Mode::Apply)[0].is_done());
}

#[test]
fn failed_change_does_not_affect_others() {
    let (_root, provider) = provider("");
    let (good, bad) = (should(&[("ip", "10.0.0.1".into())]), should(&[("ip", "10.0.0.300".into())]));
    let (a, b, absent) = ("a".into(), "b".into(), State::default());
    let change = |name, should| Change::new(name, &absent, Some(should), &[]);
    let outcomes = provider.set(&Context::empty(), &[change(&a, &bad), change(&b, &good)], Mode::Apply);
    assert!(!outcomes[0].is_done() && outcomes[1].is_done());
    assert_eq!(provider.read(TARGET).unwrap().entries().len(), 1);
}

#[test]
fn a_preview_writes_nothing() {
    let (_root, provider) = provider("");
    let wanted = should(&[("ip", "10.0.0.1".into())]);
    let name = "a".into();
    let is = State::absent("a");
    let change = Change::new(&name, &is, Some(&wanted), &[]);
    provider.set(&Context::empty(), &[change], Mode::Preview);
    assert!(provider.read(TARGET).unwrap().entries().is_empty());
}

#[test]
fn invalid_host_entry_is_refused() {
    let (_root, provider) = provider("");
    let refused = |name: &str, attributes: &[(&str, Value)]| provider.validate(name, &should(attributes), &[]).len();
    assert_eq!(refused("a", &[]), 1);
    assert_eq!(refused("a", &[("ensure", "absent".into())]), 0);
    assert_eq!(
        refused("a b", &[("ip", "10.0.0.300".into()), ("comment", "x\ny".into()), ("target", "hosts".into())]),
        4
    );
    assert_eq!(provider.validate("a", &Attributes::new(), &["ip"]), []);
}
