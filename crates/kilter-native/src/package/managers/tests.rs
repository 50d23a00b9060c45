//! The providers with a runner that answers as the package managers do.

use std::sync::Arc;

use kilter_model::Value;
use kilter_process::{Cancel, Captured, SpawnError, Status};
use kilter_provider::{canonicalize_one, check};

use super::*;
use crate::accounts::Runner;

/// Answers reads, and fails changes that contain one of these words.
#[derive(Default)]
struct FakeManager {
    listed: &'static str,
    newer: &'static str,
    code: i32,
    calls: Mutex<Vec<String>>,
    failing: Mutex<Vec<&'static str>>,
}

impl Runner for FakeManager {
    fn run(&self, invocation: &Invocation, _: Cancel<'_>) -> Result<Output, SpawnError> {
        let args: Vec<String> = invocation.args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
        let answer = |code: i32, text: &str| Output {
            stdout: Captured { bytes: text.into(), dropped: 0 },
            ..Output::of(Status::Code(code))
        };
        let reads = |words: &[&str]| words.iter().any(|word| args.iter().any(|arg| arg == word));
        if reads(&["-qa", "-Q", "list"]) {
            return Ok(answer(0, self.listed));
        }
        if reads(&["repoquery", "-Qu", "list-updates", "outdated", "version"]) {
            return Ok(answer(self.code, self.newer));
        }
        self.calls.lock().unwrap().push(format!("{} {}", invocation.program.to_string_lossy(), args.join(" ")));
        let is_failing = self.failing.lock().unwrap().iter().any(|word| args.iter().any(|arg| arg == word));
        Ok(if is_failing { answer(1, "No match for argument") } else { answer(0, "") })
    }
}

struct ManagersBench {
    runner: Arc<FakeManager>,
    provider: ManagedPackageProvider,
    state_dir: tempfile::TempDir,
}

const RPMS: &str = "bash\t0\t5.2-1\tx86_64\nvim\t2\t9.0-1\tx86_64\nkernel\t0\t6.1-1\tx86_64\nkernel\t0\t6.2-1\tx86_64\n\
                    glibc\t0\t2.37-1\ti686\nglibc\t0\t2.37-1\tnoarch\n";

impl ManagersBench {
    fn new(name: &str, runner: FakeManager) -> ManagersBench {
        let runner = Arc::new(runner);
        let system = System::new("/", runner.clone());
        let provider = package_managers(&system, &TrustPolicy::any()).find(|one| one.name() == name).unwrap();
        ManagersBench { runner, provider, state_dir: tempfile::tempdir().unwrap() }
    }

    fn dnf() -> ManagersBench {
        ManagersBench::new("dnf", FakeManager { listed: RPMS, newer: "vim.x86_64\n", ..FakeManager::default() })
    }

    fn cx(&self) -> Context<'_> {
        Context::empty().with_var_dir(Some(self.state_dir.path()))
    }

    /// Sets packages in one call; returns the failures.
    fn set(&self, declared: &[(&str, &[(&str, &str)])]) -> Vec<Option<EcoString>> {
        let cx = self.cx();
        let resources: Vec<(EcoString, Attributes)> = declared
            .iter()
            .map(|(name, attributes)| {
                let mut should = Attributes::from_iter([("ensure", "present")]);
                attributes.iter().for_each(|(name, value)| should.set(*name, Value::from(*value)));
                let mut name = EcoString::from(*name);
                canonicalize_one(&self.provider, &cx, &mut name, &mut should).unwrap();
                (name, should)
            })
            .collect();
        let wanted: Vec<Wanted<'_>> = resources.iter().map(|(name, should)| Wanted::new(name, Some(should))).collect();
        let found: Vec<_> = check(&self.provider, &cx, &wanted).into_iter().map(Result::unwrap).collect();
        let pairs = resources.iter().zip(&found).filter(|(_, found)| !found.differences.is_empty());
        let changes: Vec<Change<'_>> = pairs
            .map(|((name, should), found)| Change::new(name, &found.state, Some(should), &found.differences))
            .collect();
        self.provider.set(&cx, &changes, Mode::Apply).into_iter().map(|outcome| outcome.failure).collect()
    }

    fn calls(&self) -> Vec<String> {
        std::mem::take(&mut *self.runner.calls.lock().unwrap())
    }
}

#[test]
fn packages_are_read_with_architectures_and_versions_beside_each_other() {
    let bench = ManagersBench::dnf();
    let cx = bench.cx();
    let all = bench.provider.get(&cx, Query::All).unwrap();
    let names: Vec<&str> = all.iter().map(|state| state.name.as_str()).collect();
    assert_eq!(names, ["bash", "glibc.i686", "glibc", "kernel", "vim"]);
    let in_sync = bench.set(&[
        ("bash", &[("version", "5.2")]),
        ("vim", &[("version", "2:9.00-1")]),
        ("kernel", &[("version", "6.1-1")]),
        ("glibc.i686", &[]),
        ("bash", &[("ensure", "latest")]),
        ("nothing", &[("ensure", "purged")]),
    ]);
    assert_eq!((in_sync, bench.calls()), (vec![], vec![]));
}

#[test]
fn batch_is_one_transaction_of_each_kind() {
    let bench = ManagersBench::dnf();
    let failures = bench.set(&[
        ("nginx", &[]),
        ("glibc.i686", &[("version", "2.36-1")]),
        ("vim", &[("ensure", "latest")]),
        ("bash", &[("ensure", "absent")]),
        ("kernel", &[("ensure", "purged")]),
    ]);
    assert_eq!(failures, vec![None; 5]);
    let expected = [
        "dnf -y --setopt=clean_requirements_on_remove=False remove bash kernel",
        "dnf -y install nginx glibc-2.36-1.i686",
        "dnf -y upgrade vim",
    ];
    assert_eq!(bench.calls(), expected);
}

#[test]
fn failed_transaction_is_repeated_for_each_package() {
    let bench = ManagersBench::dnf();
    bench.runner.failing.lock().unwrap().push("nosuch");
    let failures = bench.set(&[("nginx", &[]), ("nosuch", &[])]);
    assert_eq!(failures[0], None);
    assert_eq!(failures[1].as_deref(), Some("dnf failed with exit code 1: No match for argument"));
    assert_eq!(bench.calls(), ["nginx nosuch", "nginx", "nosuch"].map(|words| format!("dnf -y install {words}")));
}

#[test]
fn unknown_latest_version_needs_an_upgrade() {
    let bench = ManagersBench::new("dnf", FakeManager { listed: RPMS, code: 1, ..FakeManager::default() });
    bench.set(&[("bash", &[("ensure", "latest")])]);
    assert_eq!(bench.calls(), ["dnf -y upgrade bash"]);
    let bench = ManagersBench::new("pacman", FakeManager { listed: "bash 5.2-1\n", code: 1, ..FakeManager::default() });
    bench.set(&[("bash", &[("ensure", "latest")])]);
    assert_eq!(bench.calls(), [""; 0], "pacman ends with 1 if nothing is newer");
}

#[test]
fn lists_are_updated_once_per_age() {
    let bench = ManagersBench::dnf();
    bench.set(&[("nginx", &[("refresh_lists", "1h")])]);
    bench.set(&[("nginx", &[("refresh_lists", "1h")])]);
    bench.set(&[("nginx", &[("refresh_lists", "0s")])]);
    let (update, install) = ("dnf -y --refresh makecache", "dnf -y install nginx");
    assert_eq!(bench.calls(), [update, install, install, update, install]);
}

#[test]
fn package_file_that_others_can_change_is_not_installed() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut bench = ManagersBench::new("gem", FakeManager::default());
    let path = bench.state_dir.path().join("rake.gem");
    fs::write(&path, "").unwrap();
    let source = path.to_str().unwrap().to_owned();
    assert_eq!(bench.set(&[("rake", &[("source", &source)])]), [None]);
    assert_eq!(bench.calls(), [format!("gem install --no-document {source}")]);
    bench.provider.trust = TrustPolicy::root();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    let failures = bench.set(&[("rake", &[("source", &source)])]);
    assert!(failures[0].as_ref().is_some_and(|why| why.starts_with("source: ")), "{failures:?}");
    assert_eq!(bench.calls(), [""; 0]);
}

#[test]
fn names_that_programs_would_read_as_options_or_patterns_are_refused() {
    let bench = ManagersBench::dnf();
    let schema = bench.provider.schema();
    let pattern = &schema.attributes.iter().find(|attribute| attribute.name == "name").unwrap().data_type;
    for name in ["-y", "@core", "kernel*", "a b", "", "+vim", "!vim", "/x.rpm", "a\n"] {
        assert!(!pattern.accepts(&Value::from(name)), "{name}");
    }
    for name in ["python3.11", "ImageMagick", "gtk+", "libstdc++", "glibc.i686", "perl-App_cpanminus"] {
        assert!(pattern.accepts(&Value::from(name)), "{name}");
    }
}

#[test]
fn other_managers_are_used_only_by_name() {
    let preferences: Vec<(&str, Preference)> =
        package_managers(&System::real(), &TrustPolicy::any()).map(|one| (one.name(), one.preference())).collect();
    let normal = ["dnf", "zypper", "pacman", "apk"].map(|name| (name, Preference::Normal));
    assert_eq!(preferences, [&normal[..], &[("gem", Preference::NamedOnly)]].concat());
}
