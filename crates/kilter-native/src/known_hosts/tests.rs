use kilter_model::Difference;
use kilter_provider::{check, get_checked};

use super::*;

const ONE: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIHB5dGhvbiBpcyBmdW4gYW5kIHNvIGlzIHJ1c3QhISEh";
const TWO: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIGtleXMgYXJlIG1hZGUgb2YgMzIgYnl0ZXMgYXQgbGVh";
/// The beginning of a key of the type ssh-rsa.
const RSA: &str = "AAAAB3NzaC1yc2EAAAADAQABAAAAgQ==";

struct KnownHostsBench {
    root: tempfile::TempDir,
    provider: KnownHostsProvider,
}

impl KnownHostsBench {
    fn new(text: &str) -> KnownHostsBench {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("etc/ssh")).unwrap();
        std::fs::write(root.path().join("etc/ssh/ssh_known_hosts"), text).unwrap();
        KnownHostsBench { provider: KnownHostsProvider::new(root.path()), root }
    }

    fn read(&self) -> String {
        std::fs::read_to_string(self.root.path().join("etc/ssh/ssh_known_hosts")).unwrap()
    }

    fn check(&self, name: &str, should: &Attributes) -> Result<Vec<Difference>, ProviderError> {
        let name = name.into();
        let found = check(&self.provider, &Context::empty(), &[Wanted::new(&name, Some(should))]).remove(0);
        found.map(|found| found.differences)
    }

    fn set(&self, name: &str, should: &Attributes, mode: Mode) -> Outcome {
        let (name, is) = (name.into(), State::absent(name));
        self.provider.set(&Context::empty(), &[Change::new(&name, &is, Some(should), &[])], mode).remove(0)
    }

    #[track_caller]
    fn converges(&self, name: &str, should: &Attributes) {
        assert_ne!(self.check(name, should).unwrap(), [], "{name}");
        assert_eq!(self.set(name, should, Mode::Apply), Outcome::done());
        assert_eq!(self.check(name, should).unwrap(), [], "{name}");
    }
}

fn should(attributes: &[(&str, &str)]) -> Attributes {
    let ensure = [("ensure", "present")].into_iter().filter(|_| !attributes.iter().any(|(name, _)| *name == "ensure"));
    ensure.chain(attributes.iter().copied()).map(|(name, value)| (name, Value::from(value))).collect()
}

#[test]
fn key_is_added_changed_and_removed() {
    let bench = KnownHostsBench::new("# mine\n|1|a=|b= ssh-rsa AAAA");
    let mut declared = should(&[("type", "ssh-ed25519"), ("key", ONE)]);
    declared.push("host_aliases", Value::strings(["b", "10.0.0.7"]));
    bench.converges("a", &declared);
    let before = "# mine\n|1|a=|b= ssh-rsa AAAA\n";
    assert_eq!(bench.read(), format!("{before}a,b,10.0.0.7 ssh-ed25519 {ONE}\n"));
    declared.set("host_aliases", Value::strings(["10.0.0.7", "b"]));
    assert_eq!(bench.check("a", &declared).unwrap(), [], "the order does not matter");
    bench.converges("a@ssh-ed25519", &should(&[("key", TWO)]));
    assert_eq!(bench.read(), format!("{before}a,b,10.0.0.7 ssh-ed25519 {TWO}\n"));
    bench.converges("a", &should(&[("ensure", "absent")]));
    assert_eq!(bench.read(), before);
}

#[test]
fn host_has_a_key_of_each_type() {
    let bench = KnownHostsBench::new("");
    bench.converges("a", &should(&[("type", "ssh-ed25519"), ("key", ONE)]));
    bench.converges("a", &should(&[("type", "ssh-rsa"), ("key", RSA)]));
    assert_eq!(bench.read(), format!("a ssh-ed25519 {ONE}\na ssh-rsa {RSA}\n"));
    let why = bench.check("a", &should(&[("key", ONE)])).unwrap_err().to_string();
    assert!(why.contains("a has several keys: write the type, such as a@ssh-ed25519"), "{why}");
    let states = get_checked(&bench.provider, &Context::empty(), Query::All).unwrap();
    assert_eq!(states.iter().map(|state| state.name.as_str()).collect::<Vec<_>>(), ["a@ssh-ed25519", "a@ssh-rsa"]);
    for state in states {
        assert_eq!(bench.provider.validate(&state.name, &state.attributes, &[]), []);
        assert_eq!(bench.check(&state.name, &state.attributes).unwrap(), []);
    }
    bench.converges("a@ssh-rsa", &should(&[("ensure", "absent")]));
    bench.converges("a", &should(&[("ensure", "absent")]));
    assert_eq!(bench.read(), "");
}

#[test]
fn hashed_name_is_the_same_host() {
    let hashed = "|1|Hm+M90MC/yOd2Gpa9gIb1zA/e60=|qmFYtqUyO34RwjOKtr8BpRGdVwM=";
    let bench = KnownHostsBench::new(&format!("{hashed} ssh-ed25519 {ONE}\n"));
    let mut declared = should(&[("type", "ssh-ed25519"), ("key", ONE)]);
    assert_eq!(bench.check("git.example.org", &declared).unwrap(), []);
    assert_eq!(get_checked(&bench.provider, &Context::empty(), Query::All).unwrap(), []);
    declared.set("key", TWO);
    bench.converges("git.example.org", &declared);
    assert_eq!(bench.read(), format!("{hashed} ssh-ed25519 {TWO}\n"));
    declared.push("host_aliases", Value::strings(["git"]));
    bench.converges("git.example.org", &declared);
    assert_eq!(bench.read(), format!("git.example.org,git ssh-ed25519 {TWO}\n"));
    let bench = KnownHostsBench::new(&format!("{hashed} ssh-ed25519 {ONE}\n{hashed} ssh-rsa {RSA}\n"));
    bench.converges("git.example.org", &should(&[("ensure", "absent")]));
    assert_eq!(bench.read(), "");
}

#[test]
fn refused_change_has_no_effect() {
    let bench = KnownHostsBench::new("# mine\n");
    for (name, declared, why) in [
        ("a", should(&[("key", ONE)]), "a new key needs"),
        ("a", should(&[("type", "ssh-ed25519")]), "a new key needs"),
        ("a", should(&[("type", "ssh-rsa"), ("key", ONE)]), "no key of the kind ssh-rsa"),
        ("a@ssh-rsa", should(&[("type", "ssh-ed25519"), ("key", ONE)]), "the name says ssh-rsa"),
        ("a b", should(&[("type", "ssh-ed25519"), ("key", ONE)]), "cannot be the name of a host"),
        ("@revoked", should(&[("type", "ssh-ed25519"), ("key", ONE)]), "cannot be the name of a host"),
    ] {
        for mode in [Mode::Preview, Mode::Apply] {
            let failed = bench.set(name, &declared, mode).failure.unwrap_or_default();
            assert!(failed.contains(why), "{name}: {failed}");
        }
    }
    assert_eq!(bench.read(), "# mine\n");
}
