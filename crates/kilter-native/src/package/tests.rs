//! The provider over a database in a directory, with a runner that answers as apt does.

use std::fs;
use std::sync::{Arc, Mutex};

use kilter_process::Status as ExitStatus;
use kilter_process::{Cancel, Captured, Invocation, Output, SpawnError};
use kilter_provider::{canonicalize_one, check};

use super::*;
use crate::accounts::Runner;

const STATUS: &str = "\
Package: dpkg
Status: install ok installed
Architecture: amd64
Version: 1.21.22
Description: one
 more about it
 Package: no field

Package: bash
Status: hold ok installed
Architecture: amd64
Version: 5.2.15-2
Provides: sh-shell (= 5), shell

Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.36-9

Package: libc6
Status: install ok installed
Architecture: i386
Version: 2.36-8

Package: gone
Status: deinstall ok config-files
Architecture: all
Version: 1.0

Package: half
Status: install ok half-configured
Architecture: all
Version: 1.0
";

const POLICY: &str = "\
nginx:
  Installed: (none)
  Candidate: 1.2-1
  Version table:
     1.2-1 500
     1.1-1 500
half:
  Installed: 1.0
  Candidate: 1.0
  Version table:
 *** 1.0 500
libc6:
  Installed: 2.36-9
  Candidate: 2.37-1
  Version table:
     2.37-1 500
 *** 2.36-9 100
mta:
  Installed: (none)
  Candidate: (none)
  Version table:
";

const SHOWPKG: &str = "Package: mta\nReverse Provides: \nexim4 4.9 (= )\npostfix 3.7 (= )\n";

/// Answers reads, and fails changes that contain one of these words.
#[derive(Default)]
struct FakeApt {
    calls: Mutex<Vec<String>>,
    failing: Mutex<Vec<&'static str>>,
    /// Arguments of the calls of dpkg-deb.
    read_files: Mutex<Vec<Vec<String>>>,
}

impl Runner for FakeApt {
    fn run(&self, invocation: &Invocation, _: Cancel<'_>) -> Result<Output, SpawnError> {
        let args: Vec<String> = invocation.args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
        let program = invocation.program.to_string_lossy().into_owned();
        let has = |word: &str| args.iter().any(|arg| arg == word);
        if program == "apt-cache" || has("-s") {
            let text = if has("policy") {
                POLICY
            } else if has("showpkg") {
                SHOWPKG
            } else if has("dpkg") {
                "Remv debconf [1.5]\nRemv libc6:i386 [2.36-8]\nRemv dpkg [1.21.22]\n"
            } else {
                "Remv gone\n"
            };
            return Ok(output(0, text));
        }
        if program == "dpkg-deb" {
            self.read_files.lock().unwrap().push(args);
            return Ok(output(0, "Package: agent\nVersion: 2.0\nArchitecture: amd64\n"));
        }
        let is_option =
            |at: usize| args[at] == "-o" || at > 0 && args[at - 1] == "-o" || ["-q", "-y"].contains(&args[at].as_str());
        let words: Vec<&str> = (0..args.len()).filter(|&at| !is_option(at)).map(|at| args[at].as_str()).collect();
        self.calls.lock().unwrap().push(format!("{program} {}", words.join(" ")));
        let is_failing = self.failing.lock().unwrap().iter().any(|word| has(word));
        Ok(output(if is_failing { 100 } else { 0 }, if is_failing { "E: it may not\n" } else { "" }))
    }
}

fn output(code: i32, text: &str) -> Output {
    Output { stdout: Captured { bytes: text.into(), dropped: 0 }, ..Output::of(ExitStatus::Code(code)) }
}

struct AptBench {
    root: tempfile::TempDir,
    apt: Arc<FakeApt>,
    provider: PackageProvider,
}

impl AptBench {
    fn new() -> AptBench {
        AptBench::trusting(TrustPolicy::any())
    }

    fn trusting(trust: TrustPolicy) -> AptBench {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("var/lib/dpkg/updates")).unwrap();
        fs::write(root.path().join("var/lib/dpkg/status"), STATUS).unwrap();
        let apt = Arc::new(FakeApt::default());
        let provider = PackageProvider::new(System::new(root.path(), apt.clone()), trust);
        AptBench { root, apt, provider }
    }

    /// Sets packages in one call; returns the failures.
    fn set(&self, declared: &[(&str, &[(&str, &str)])]) -> Vec<Option<EcoString>> {
        let cx = Context::empty();
        let resources: Vec<(EcoString, Attributes)> = declared
            .iter()
            .map(|(name, attributes)| {
                let mut should =
                    Attributes::from_iter([("ensure", "present".into()), ("purge", Value::Boolean(false))]);
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
        let outcomes = self.provider.set(&cx, &changes, Mode::Apply);
        outcomes.into_iter().map(|outcome| outcome.failure).collect()
    }

    fn calls(&self) -> Vec<String> {
        std::mem::take(&mut *self.apt.calls.lock().unwrap())
    }

    fn state(&self, name: &str) -> State {
        let name = EcoString::from(name);
        self.provider.get(&Context::empty(), Query::Named(&[Wanted::new(&name, None)])).unwrap().remove(0)
    }
}

#[test]
fn database_is_read_with_architectures_holds_and_provided_names() {
    let bench = AptBench::new();
    let all = bench.provider.get(&Context::empty(), Query::All).unwrap();
    let names: Vec<&str> = all.iter().map(|state| state.name.as_str()).collect();
    assert_eq!(names, ["dpkg", "bash", "libc6", "libc6:i386", "half"]);
    let text = |name: &str, attribute: &str| bench.state(name).attributes.text(attribute).unwrap_or("-").to_owned();
    assert_eq!((text("libc6", "version"), text("libc6:i386", "version")), ("2.36-9".into(), "2.36-8".into()));
    assert_eq!((text("libc6:amd64", "version"), text("libc6:arm64", "version")), ("2.36-9".into(), "-".into()));
    assert_eq!((text("bash", "mark"), text("dpkg", "mark")), ("hold".into(), "none".into()));
    assert_eq!((text("half", "ensure"), text("gone", "ensure")), ("broken".into(), "absent".into()));
    let shell = bench.state("shell");
    assert_eq!(shell.attributes.get("provided_by"), Some(&Value::strings(["bash"])));
    assert!(shell.exists && !bench.state("gone").exists && !bench.state("nothing").exists);
    assert_eq!(bench.calls(), [""; 0], "a read starts no program");
}

#[test]
fn journal_of_a_running_dpkg_counts() {
    let bench = AptBench::new();
    assert_eq!(bench.state("dpkg").attributes.text("version"), Some("1.21.22"));
    let row = "Package: dpkg\nStatus: install ok half-installed\nArchitecture: amd64\nVersion: 1.22\n";
    fs::write(bench.root.path().join("var/lib/dpkg/updates/0000"), row).unwrap();
    assert_eq!(bench.state("dpkg").attributes.text("ensure"), Some("broken"));
}

#[test]
fn plan_of_a_removal_names_the_packages_that_it_takes_along() {
    /// Declares `debconf`, and the absence of `libc6:i386`.
    struct OtherPackages([Attributes; 2]);
    impl kilter_provider::PreviewContext for OtherPackages {
        fn may_change_before(&self, _: &str) -> bool {
            false
        }

        fn declared(&self, _: &str, name: &str) -> Option<&Attributes> {
            let at = ["debconf", "libc6:i386"].iter().position(|known| *known == name)?;
            self.0.get(at)
        }
    }
    #[derive(Default)]
    struct LogLines(Mutex<Vec<String>>);
    impl kilter_provider::Log for LogLines {
        fn log(&self, _: kilter_provider::Level, _: &str, _: &str, message: &str) {
            self.0.lock().unwrap().push(message.to_owned());
        }
    }
    let bench = AptBench::new();
    let [dpkg, gone] = ["dpkg", "half"].map(EcoString::from);
    let should = Attributes::from_iter([("ensure", "absent")]);
    let states = [&dpkg, &gone].map(|name| bench.state(name));
    let previewed = |cx: &Context<'_>, count: usize| -> Vec<Vec<EcoString>> {
        let changes =
            [Change::new(&dpkg, &states[0], Some(&should), &[]), Change::new(&gone, &states[1], Some(&should), &[])];
        let outcomes = bench.provider.set(cx, &changes[..count], Mode::Preview);
        outcomes.into_iter().map(|outcome| outcome.notes).collect()
    };
    let all = "also removes the packages that depend on it: debconf libc6:i386";
    assert_eq!(previewed(&Context::empty(), 1), [[all]]);
    assert_eq!(previewed(&Context::empty(), 2)[0], [all]);
    let others = OtherPackages(["present", "absent"].map(|ensure| Attributes::from_iter([("ensure", ensure)])));
    let lines = LogLines::default();
    let cx = Context::empty().with_preview_context(&others).with_log(&lines);
    let why = "the removal also removes debconf, which depends on it, but `package[debconf]` is declared present";
    let removal = Change::new(&dpkg, &states[0], Some(&should), &[]);
    bench.calls();
    for mode in [Mode::Preview, Mode::Apply] {
        let outcomes = bench.provider.set(&cx, &[removal], mode);
        assert_eq!(outcomes[0].failure.as_deref(), Some(why));
    }
    assert_eq!(bench.calls(), [""; 0], "nothing was removed");
    // An installation may replace the removed package.
    let (nginx, present) = (EcoString::from("nginx"), Attributes::from_iter([("ensure", "present")]));
    let absent = bench.state("nginx");
    let both = [removal, Change::new(&nginx, &absent, Some(&present), &[])];
    let outcomes = bench.provider.set(&cx, &both, Mode::Preview);
    assert_eq!(outcomes[0].notes, ["also removes the packages that depend on it: debconf"]);
    assert_eq!(*lines.0.lock().unwrap(), [why]);
}

#[test]
fn batch_is_one_transaction() {
    let bench = AptBench::new();
    let failures = bench.set(&[
        ("nginx", &[("ensure", "1.1-1")]),
        ("libc6", &[("ensure", "latest")]),
        ("half", &[("ensure", "present")]),
        ("dpkg", &[("ensure", "installed")]),
    ]);
    assert_eq!(failures, [None, None, None]);
    let expected = ["apt-get install --allow-downgrades --no-remove -- nginx=1.1-1 libc6 half"];
    assert_eq!(bench.calls(), expected);
}

#[test]
fn removals_join_the_transaction_if_they_remove_nothing_else() {
    let bench = AptBench::new();
    bench.set(&[("nginx", &[("ensure", "present")]), ("libc6:i386", &[("ensure", "absent")])]);
    assert_eq!(bench.calls(), ["apt-get install -- nginx libc6:i386-"]);
    bench.set(&[("libc6:i386", &[("ensure", "absent")]), ("half", &[("ensure", "purged")])]);
    assert_eq!(bench.calls(), ["apt-get remove -- libc6:i386 half", "apt-get purge -- half"]);
    bench.set(&[("gone", &[("ensure", "purged")]), ("half", &[("ensure", "purged")])]);
    assert_eq!(bench.calls(), ["apt-get remove --purge -- gone half"]);
    assert_eq!(bench.set(&[("gone", &[("ensure", "absent")]), ("nothing", &[("ensure", "purged")])]), []);
}

#[test]
fn failed_transaction_is_repeated_for_each_package() {
    let bench = AptBench::new();
    bench.apt.failing.lock().unwrap().push("nginx");
    let failures = bench.set(&[("nginx", &[("ensure", "present")]), ("half", &[("ensure", "present")])]);
    assert!(failures[0].as_ref().is_some_and(|why| why.contains("E: it may not")), "{failures:?}");
    assert_eq!(failures[1], None);
    let expected = ["nginx half", "nginx", "half"].map(|words| format!("apt-get install --no-remove -- {words}"));
    assert_eq!(bench.calls(), expected);
}

#[test]
fn unknown_names_and_versions_fail_before_the_transaction() {
    let bench = AptBench::new();
    let failures = bench.set(&[
        ("nosuch", &[("ensure", "present")]),
        ("nginx", &[("version", "9")]),
        ("mta", &[("ensure", "present")]),
        ("half", &[("ensure", "present")]),
    ]);
    let failed = |at: usize| failures[at].as_deref().unwrap_or_default();
    assert!(failed(0).starts_with("apt has no package `nosuch` to install"), "{failures:?}");
    assert_eq!(failed(1), "apt has no version `9` of nginx, but 1.2-1, 1.1-1");
    assert!(failed(2).ends_with("that provide it: exim4, postfix"), "{failures:?}");
    assert_eq!(bench.calls(), ["apt-get install --no-remove -- half"]);
}

#[test]
fn hold_is_kept_unless_the_mark_is_declared() {
    let bench = AptBench::new();
    let failures = bench.set(&[("bash", &[("ensure", "absent")])]);
    assert!(failures[0].as_deref().is_some_and(|why| why.starts_with("bash is on hold at 5.2.15-2")), "{failures:?}");
    assert_eq!(bench.set(&[("bash", &[("ensure", "held")])]), []);
    bench.set(&[("bash", &[("mark", "none")]), ("dpkg", &[("mark", "hold")])]);
    assert_eq!(bench.calls(), ["apt-mark hold -- dpkg", "apt-mark unhold -- bash"]);
}

#[test]
fn package_file_must_be_the_package() {
    let bench = AptBench::new();
    let path = bench.root.path().join("agent.deb").display().to_string();
    fs::write(&path, "").unwrap();
    assert_eq!(bench.set(&[("agent", &[("source", &path)])]), [None]);
    assert_eq!(bench.calls(), [format!("apt-get install --allow-downgrades --no-remove -- {path}")]);
    let failures = bench.set(&[("nginx", &[("source", &path)]), ("agent", &[("source", &path), ("version", "3")])]);
    assert!(failures[0].as_deref().unwrap().ends_with("is the package `agent`, not `nginx`"), "{failures:?}");
    assert!(failures[1].as_deref().unwrap().ends_with("has the version 2.0, not 3"), "{failures:?}");
}

#[test]
fn package_file_that_others_can_change_is_not_read() {
    use std::os::unix::fs::PermissionsExt as _;
    let bench = AptBench::trusting(TrustPolicy::current());
    let path = bench.root.path().join("dpkg.deb");
    fs::write(&path, "").unwrap();
    for (mode, reads) in [(0o666, 0), (0o644, 1)] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let should = Attributes::from_iter([
            ("ensure", Value::from("present")),
            ("source", Value::from(path.display().to_string().as_str())),
            ("latest", Value::Boolean(true)),
        ]);
        let name = EcoString::from("dpkg");
        let query = [Wanted::new(&name, Some(&should))];
        bench.provider.get(&Context::empty(), Query::Named(&query)).unwrap();
        assert_eq!(bench.apt.read_files.lock().unwrap().len(), reads, "{mode:o}");
    }
}

#[test]
fn old_lists_are_refreshed_before_an_installation() {
    let bench = AptBench::new();
    bench.set(&[("nginx", &[("refresh_lists", "1h")])]);
    let installed = "apt-get install --no-remove -- nginx";
    assert_eq!(bench.calls(), ["apt-get update", installed]);
    let lists = bench.root.path().join("var/lib/apt/lists");
    fs::create_dir_all(&lists).unwrap();
    bench.set(&[("nginx", &[("refresh_lists", "1h")])]);
    assert_eq!(bench.calls(), ["apt-get update", installed], "an image without lists");
    fs::write(lists.join("deb.debian.org_debian_dists_bookworm_main_binary-amd64_Packages"), "").unwrap();
    bench.set(&[("nginx", &[("refresh_lists", "1h")])]);
    assert_eq!(bench.calls(), [installed]);
    bench.set(&[("nginx", &[("refresh_lists", "0s")])]);
    assert_eq!(bench.calls(), ["apt-get update", installed]);
}

#[test]
fn options_separate_transactions() {
    let bench = AptBench::new();
    let options = Value::strings(["--no-install-recommends"]);
    let (name, other) = (EcoString::from("nginx"), EcoString::from("half"));
    let with = Attributes::from_iter([("ensure", Value::from("present")), ("install_options", options)]);
    let without = Attributes::from_iter([("ensure", "present"), ("configfiles", "replace")]);
    let (absent, broken) = (State::absent(name.clone()), bench.state("half"));
    let changes = [Change::new(&name, &absent, Some(&with), &[]), Change::new(&other, &broken, Some(&without), &[])];
    assert!(bench.provider.set(&Context::empty(), &changes, Mode::Apply).iter().all(Outcome::is_done));
    let expected =
        ["apt-get install --no-remove -- half", "apt-get install --no-install-recommends --no-remove -- nginx"];
    assert_eq!(bench.calls(), expected);
}

#[test]
fn preview_fails_only_for_what_nothing_can_prevent() {
    let bench = AptBench::new();
    let (name, absent) = (EcoString::from("nosuch"), State::absent("nosuch"));
    let preview = |should: &Attributes| {
        let change = Change::new(&name, &absent, Some(should), &[]);
        bench.provider.set(&Context::empty(), &[change], Mode::Preview).remove(0)
    };
    assert!(!preview(&Attributes::from_iter([("ensure", "present")])).is_done());
    assert!(preview(&Attributes::from_iter([("ensure", "present"), ("refresh_lists", "0s")])).is_done());
    assert_eq!(bench.calls(), [""; 0]);
}

#[test]
fn short_forms_and_contradictions_of_ensure() {
    let bench = AptBench::new();
    let canonical = |attributes: &[(&str, &str)]| {
        let mut should: Attributes = attributes.iter().map(|(name, value)| (*name, Value::from(*value))).collect();
        let problems = canonicalize_one(&bench.provider, &Context::empty(), &mut "x".into(), &mut should);
        problems.map(|()| should).map_err(|problems| format!("{problems:?}"))
    };
    let purged = canonical(&[("ensure", "purged")]).unwrap();
    assert_eq!((purged.text("ensure"), purged.get_bool("purge")), (Some("absent"), Some(true)));
    assert_eq!(canonical(&[("ensure", "1.0")]).unwrap().text("version"), Some("1.0"));
    assert!(canonical(&[("ensure", "1.0"), ("version", "2.0")]).is_err());
    assert!(canonical(&[("ensure", "latest"), ("version", "2.0")]).is_err());
    let should = Attributes::from_iter([("ensure", "broken")]);
    assert_eq!(bench.provider.validate("x:all", &should, &[]).len(), 2);
}

#[test]
fn needed_packages_are_those_of_the_system_and_of_declarations() {
    let root = tempfile::tempdir().unwrap();
    let dpkg = root.path().join("var/lib/dpkg");
    fs::create_dir_all(dpkg.join("info")).unwrap();
    let row = |name: &str, status: &str, more: &str| {
        format!("Package: {name}\nStatus: {status}\nArchitecture: amd64\nVersion: 1\n{more}\n")
    };
    let there = "install ok installed";
    let rows = [
        row("base", there, "Essential: yes\nPre-Depends: libbase (>= 2) | libother:any\n"),
        row("libbase", there, "Priority: optional\nDescription: one\n more\n Depends: stray\n"),
        row("less", there, "Priority: important\n"),
        row("kernel-1", there, "Section: non-free/kernel\n"),
        row("grub-pc", there, ""),
        row("held", "hold ok installed", ""),
        row("web", there, "Depends: libweb, mta\nRecommends: extra\n"),
        row("libweb", there, ""),
        row("extra", there, ""),
        row("exim", there, "Provides: mta (= 1)\nSuggests: stray\n"),
        row("daemon", there, "Depends: libdaemon\n"),
        row("libdaemon", there, ""),
        row("stray", there, "Depends: libstray\n"),
        row("libstray", "install ok half-configured", ""),
        row("gone", "deinstall ok config-files", "Essential: yes\nDepends: stray\n"),
    ];
    fs::write(dpkg.join("status"), rows.concat()).unwrap();
    fs::write(dpkg.join("info/daemon:amd64.list"), "/.\n/lib/systemd/system/daemond.service\n").unwrap();
    fs::write(dpkg.join("info/stray.list"), "/usr/lib/systemd/system/stray.service\n").unwrap();
    let provider = PackageProvider::new(System::new(root.path(), Arc::new(FakeApt::default())), TrustPolicy::any());
    let needed = |wanted: &'static str, unit: &'static str| {
        let mut needed: Vec<String> = provider
            .needed(&|name| name == wanted, &|name| name == unit)
            .unwrap()
            .iter()
            .map(ToString::to_string)
            .collect();
        needed.sort_unstable();
        needed.join(" ")
    };
    let system = "base grub-pc held kernel-1 less libbase";
    assert_eq!(needed("", ""), system);
    let sorted = |more: &str| {
        let mut names: Vec<&str> = system.split(' ').chain(more.split(' ')).collect();
        names.sort_unstable();
        names.join(" ")
    };
    assert_eq!(needed("web", ""), sorted("web libweb extra exim"));
    assert_eq!(needed("web:amd64", ""), sorted("web libweb extra exim"));
    assert_eq!(needed("mta", ""), sorted("exim"));
    assert_eq!(needed("", "daemond.service"), sorted("daemon libdaemon"));
}
