use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use kilter_model::{Difference, Value};
use kilter_process::{Cancel, Output, SpawnError};
use kilter_provider::{Wanted, check, get_checked};

use super::*;
use crate::accounts::Runner;

/// Runs the real program with its directories below a root.
struct Rooted(String, Mutex<Vec<String>>);

impl Runner for Rooted {
    fn run(&self, invocation: &Invocation, cancel: Cancel<'_>) -> Result<Output, SpawnError> {
        let words: Vec<&str> = invocation.args.iter().map(|word| word.to_str().unwrap()).collect();
        self.1.lock().unwrap().push(words.join(" "));
        let mut rooted = invocation.clone();
        for (option, path) in [
            ("--certsconf", "etc/ca-certificates.conf"),
            ("--certsdir", "usr/share/ca-certificates"),
            ("--localcertsdir", "usr/local/share/ca-certificates"),
            ("--etccertsdir", "etc/ssl/certs"),
            ("--hooksdir", "etc/ca-certificates/update.d"),
        ] {
            rooted = rooted.args([option.to_owned(), format!("{}/{path}", self.0)]);
        }
        kilter_process::run(&rooted, Some(cancel))
    }
}

struct CaCertificateFixture {
    root: tempfile::TempDir,
    tools: Arc<Rooted>,
    provider: CaCertificateProvider,
}

/// Creates a certificate with this subject.
fn made(name: &str) -> String {
    let words =
        ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "/dev/null"];
    let made = Command::new("openssl").args(words).args(["-subj", &format!("/CN={name}")]).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    String::from_utf8(made.stdout).unwrap()
}

impl CaCertificateFixture {
    fn new() -> CaCertificateFixture {
        let root = tempfile::tempdir().unwrap();
        for directory in ["etc/ssl/certs", "etc/ca-certificates/update.d", "usr/share/ca-certificates", "srv"] {
            std::fs::create_dir_all(root.path().join(directory)).unwrap();
        }
        std::fs::write(root.path().join("etc/ca-certificates.conf"), "# none\n").unwrap();
        let tools = Arc::new(Rooted(root.path().to_str().unwrap().to_owned(), Mutex::default()));
        let provider = CaCertificateProvider::new(System::new(root.path(), tools.clone()));
        CaCertificateFixture { root, tools, provider }
    }

    fn path(&self, path: &str) -> std::path::PathBuf {
        self.root.path().join(path)
    }

    fn bundle(&self) -> String {
        std::fs::read_to_string(self.path("etc/ssl/certs/ca-certificates.crt")).unwrap_or_default()
    }

    fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.tools.1.lock().unwrap())
    }

    fn differences(&self, name: &str, should: &Attributes) -> Vec<Difference> {
        let name = name.into();
        check(&self.provider, &Context::empty(), &[Wanted::new(&name, Some(should))]).remove(0).unwrap().differences
    }

    fn set(&self, wanted: &[(&str, Attributes)], mode: Mode) -> Vec<Outcome> {
        let names: Vec<EcoString> = wanted.iter().map(|(name, _)| (*name).into()).collect();
        let absent: Vec<State> = names.iter().map(|name| State::absent(name.clone())).collect();
        let change = |at: usize| Change::new(&names[at], &absent[at], Some(&wanted[at].1), &[]);
        let changes: Vec<Change<'_>> = (0..names.len()).map(change).collect();
        self.provider.set(&Context::empty(), &changes, mode)
    }

    #[track_caller]
    fn converges(&self, wanted: &[(&str, Attributes)]) {
        for outcome in self.set(wanted, Mode::Apply) {
            assert!(outcome.is_done(), "{outcome:?}");
        }
        for (name, should) in wanted {
            assert_eq!(self.differences(name, should), [], "{name}");
        }
    }
}

fn should(attributes: &[(&str, &str)]) -> Attributes {
    let given = attributes.iter().map(|(name, value)| (*name, Value::from(*value)));
    Attributes::from_iter([("ensure", Value::from("present"))].into_iter().chain(given))
}

fn absent() -> Attributes {
    Attributes::from_iter([("ensure", "absent")])
}

#[test]
fn certificates_of_a_batch_are_trusted_by_one_run() {
    let machine = CaCertificateFixture::new();
    let (one, two) = (made("one"), made("two"));
    std::fs::write(machine.path("srv/two.pem"), format!("Subject: two\n{two}")).unwrap();
    let both = [("one", should(&[("content", &one)])), ("two", should(&[("source", "/srv/two.pem")]))];
    machine.converges(&both);
    assert_eq!(machine.calls(), [""]);
    assert!(machine.bundle().contains(&one) && machine.bundle().contains(&two));
    assert!(Path::new(&machine.path("etc/ssl/certs/one.pem")).is_symlink());
    let listed = get_checked(&machine.provider, &Context::empty(), Query::All).unwrap();
    assert_eq!(listed.iter().map(|state| state.name.as_str()).collect::<Vec<_>>(), ["one", "two"]);
    machine.converges(&[("one", absent())]);
    assert_eq!(machine.calls(), ["--fresh"]);
    assert!(!machine.bundle().contains(&one) && machine.bundle().contains(&two));
    let links = std::fs::read_dir(machine.path("etc/ssl/certs")).unwrap();
    let dangling = links.filter(|link| !link.as_ref().unwrap().path().exists()).count();
    assert_eq!(dangling, 0);
}

#[test]
fn damages_are_found_and_repaired() {
    let machine = CaCertificateFixture::new();
    let one = made("one");
    let declared = [("one", should(&[("content", &one)]))];
    machine.converges(&declared);
    std::fs::write(machine.path("etc/ssl/certs/ca-certificates.crt"), "").unwrap();
    let found = machine.differences("one", &declared[0].1);
    assert!(found[0].message.as_deref().unwrap().contains("is not in /etc/ssl/certs/ca-certificates.crt"), "{found:?}");
    machine.converges(&declared);
    std::fs::write(machine.path("usr/local/share/ca-certificates/one.crt"), made("other")).unwrap();
    assert_eq!(machine.differences("one", &declared[0].1)[0].message.as_deref(), Some("another certificate"));
    machine.converges(&declared);
    assert!(machine.bundle().contains(&one));
}

#[test]
fn only_a_single_certificate_is_accepted() {
    let one = made("one");
    let truncated = one.lines().take(4).chain(["-----END CERTIFICATE-----"]).collect::<Vec<_>>().join("\n");
    for (text, why) in [
        ("", "it has no line `-----BEGIN CERTIFICATE-----`"),
        ("-----BEGIN CERTIFICATE-----\nMII", "has no line `-----END CERTIFICATE-----`"),
        ("-----BEGIN CERTIFICATE-----\n????\n-----END CERTIFICATE-----\n", "not valid base64"),
        ("-----BEGIN CERTIFICATE-----\n\n-----END CERTIFICATE-----\n", "its length does not match"),
        ("-----BEGIN CERTIFICATE-----\nMIT/////\n-----END CERTIFICATE-----\n", "its length does not match"),
        (&truncated, "its length does not match"),
        (&format!("{one}{one}"), "several certificates"),
        (&format!("-----BEGIN PRIVATE KEY-----\n{one}"), "a private key"),
    ] {
        let found = certificate(text);
        assert!(found.is_err_and(|found| found.contains(why)), "{text}: {found:?}");
    }
    assert!(certificate(&format!("issuer: x\n{one}")).is_ok());
}

#[test]
fn invalid_declarations_are_refused() {
    let machine = CaCertificateFixture::new();
    let validate = |name: &str, attributes: &Attributes| {
        let found = machine.provider.validate(name, attributes, &[]);
        found.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    };
    for name in ["", "../x", "a/b", ".x", "a b", "-x", "a\nb", &"x".repeat(201)] {
        assert!(validate(name, &absent()).contains("cannot be the name"), "{name}");
    }
    assert!(validate("x", &should(&[])).contains("needs a text"));
    assert!(validate("x", &should(&[("content", "x"), ("source", "/x")])).contains("exclude each other"));
    assert!(validate("x", &should(&[("content", "x")])).contains("not a PEM certificate"));
    assert!(validate("x", &should(&[("source", "x.pem")])).contains("absolute path"));
    assert_eq!(validate("x", &absent()), "");
    for mode in [Mode::Preview, Mode::Apply] {
        let missing = machine.set(&[("x", should(&[("source", "/srv/none.pem")]))], mode);
        assert!(format!("{missing:?}").contains("there is no /srv/none.pem"), "{missing:?}");
        std::fs::write(machine.path("srv/key.pem"), "-----BEGIN PRIVATE KEY-----\n").unwrap();
        let key = machine.set(&[("x", should(&[("source", "/srv/key.pem")]))], mode);
        assert!(format!("{key:?}").contains("/srv/key.pem: it contains a private key"), "{key:?}");
    }
    assert!(!machine.path("usr/local/share/ca-certificates/x.crt").exists());
    assert_eq!(machine.calls(), [""; 0]);
}
