//! Types that change the machine by its own programs, on files below a directory.

use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, LazyLock};

use kilter_devkit::conformance::{Report, Sample, Subject, Suite, Unsupported};
use kilter_model::Value;
use kilter_native::{
    AlternativesProvider, AptRepositoryProvider, CaCertificateProvider, FirewallProvider, HostnameProvider, Runner,
    System, TimezoneProvider,
};
use kilter_process::trust::TrustPolicy;
use kilter_process::{Cancel, Invocation, Output, SpawnError};

use crate::tree;

/// Runs programs with options that put their files below a directory.
struct Rooted(Vec<String>);

impl Runner for Rooted {
    fn run(&self, invocation: &Invocation, cancel: Cancel<'_>) -> Result<Output, SpawnError> {
        let mut rooted = invocation.clone();
        rooted.args = self.0.iter().map(Into::into).chain(invocation.args.iter().cloned()).collect();
        kilter_process::run(&rooted, Some(cancel))
    }
}

fn directory(below: &[&str]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory can be made");
    for below in below {
        std::fs::create_dir_all(directory.path().join(below)).expect("the directory is new");
    }
    directory
}

fn write(root: &Path, path: &str, text: &str) {
    std::fs::write(root.join(path), text).expect("the directory is new");
}

fn alternatives() -> Subject {
    let directory = directory(&["etc/alternatives", "usr/bin", "var/lib/dpkg/alternatives", "var/log"]);
    let root = directory.path().to_owned();
    ["vi", "nano", "ed"].iter().for_each(|name| write(&root, &format!("usr/bin/{name}"), ""));
    let options = ["--root", root.to_str().expect("the path is text"), "--quiet"].map(str::to_owned);
    let system = System::new(&root, Arc::new(Rooted(options.into())));
    let with = |name: &str, path: &str, priority: i64| {
        let link = format!("/usr/bin/{name}");
        [("link", Value::from(link)), ("path", path.into()), ("priority", Value::Integer(priority))]
    };
    let sample = |name: &str| {
        let mode = [("mode", Value::from("manual"))];
        let present = with(name, "/usr/bin/vi", 5).into_iter().chain(mode.clone());
        Sample::new(name).present(present).changed(with(name, "/usr/bin/nano", 7).into_iter().chain(mode))
    };
    // The program writes its calls to a log.
    let fingerprint = move || ["etc", "usr", "var/lib"].map(|path| tree::fingerprint(&root.join(path))).concat();
    Subject::new(move || AlternativesProvider::new(system.clone()), fingerprint)
        .specimen(sample("editor"))
        .specimen(Sample::new("pager").present(with("pager", "/usr/bin/vi", 5)).changed(with(
            "pager",
            "/usr/bin/nano",
            5,
        )))
        .unknown(["nothing"])
        .failing(Sample::new("bad").present([("path", "/usr/bin/nonesuch")]))
        .without(Unsupported::Slow, "update-alternatives renames some links, which cannot be kept waiting")
        .keeping(directory)
}

fn repositories() -> Subject {
    let directory = directory(&[
        "etc/apt/sources.list.d",
        "etc/apt/preferences.d",
        "etc/apt/apt.conf.d",
        "var/lib/dpkg",
        "var/lib/apt/lists/partial",
        "var/cache/apt/archives/partial",
        "one",
        "two",
    ]);
    let root = directory.path().to_owned();
    ["var/lib/dpkg/status", "one/Packages", "two/Packages"].iter().for_each(|path| write(&root, path, ""));
    let below = root.to_str().expect("the path is text").to_owned();
    let options = [
        format!("Dir={below}"),
        format!("Dir::State::status={below}/var/lib/dpkg/status"),
        "Dir::Bin::methods=/usr/lib/apt/methods".to_owned(),
        "APT::Sandbox::User=root".to_owned(),
    ];
    let options = options.into_iter().flat_map(|option| ["-o".to_owned(), option]).collect();
    let system = System::new(&root, Arc::new(Rooted(options)));
    let with = |directory: &str, comment: &str| {
        let uri = format!("file:{below}/{directory}");
        [
            ("uris", Value::strings([uri])),
            ("suites", Value::strings(["./"])),
            ("trusted", Value::Boolean(true)),
            ("comment", comment.into()),
        ]
    };
    // The addresses contain the directory.
    let text = below.clone();
    let fingerprint = move || tree::fingerprint(&root.join("etc")).replace(&text, "ROOT");
    let sample = |name: &str| Sample::new(name).present(with("one", name)).changed(with("two", "changed"));
    let bad = with("one", "bad").into_iter().chain([("key_source", Value::from("/nonexistent.asc"))]);
    Subject::new(move || AptRepositoryProvider::new(system.clone(), TrustPolicy::any()), fingerprint)
        .specimen(sample("vendor"))
        .specimen(sample("other"))
        .unknown(["nothing"])
        .failing(Sample::new("bad").present(bad))
        .without(Unsupported::Slow, "small files are written, which cannot be kept waiting")
        .keeping(directory)
}

fn certificate(name: &str) -> String {
    let words =
        ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "/dev/null"];
    let made = Command::new("openssl").args(words).args(["-subj", &format!("/CN={name}")]).output();
    String::from_utf8(made.expect("openssl is installed").stdout).expect("PEM is text")
}

fn certificates() -> Subject {
    let directory =
        directory(&["etc/ssl/certs", "etc/hooks", "usr/share/ca-certificates", "usr/local/share/ca-certificates"]);
    let root = directory.path().to_owned();
    write(&root, "etc/ca-certificates.conf", "# none\n");
    let below = |path: &str| root.join(path).to_str().expect("the path is text").to_owned();
    let options = [
        ("--certsconf", "etc/ca-certificates.conf"),
        ("--certsdir", "usr/share/ca-certificates"),
        ("--localcertsdir", "usr/local/share/ca-certificates"),
        ("--etccertsdir", "etc/ssl/certs"),
        ("--hooksdir", "etc/hooks"),
    ];
    let options = options.into_iter().flat_map(|(option, path)| [option.to_owned(), below(path)]).collect();
    let system = System::new(&root, Arc::new(Rooted(options)));
    static CERTIFICATES: LazyLock<[String; 3]> = LazyLock::new(|| ["one", "two", "three"].map(certificate));
    let [one, two, three] = &*CERTIFICATES;
    // The links of `openssl rehash` depend on the number of its runs.
    let fingerprint = move || {
        let bundle = std::fs::read_to_string(root.join("etc/ssl/certs/ca-certificates.crt"));
        tree::fingerprint(&root.join("usr/local")) + &bundle.unwrap_or_default()
    };
    Subject::new(move || CaCertificateProvider::new(system.clone()), fingerprint)
        .specimen(Sample::new("first").present([("content", one.as_str())]).changed([("content", two.as_str())]))
        .specimen(Sample::new("second").present([("content", three.as_str())]).changed([("content", one.as_str())]))
        .unknown(["nothing"])
        .failing(Sample::new("bad").present([("source", "/nonexistent.pem")]))
        .without(Unsupported::Slow, "update-ca-certificates writes one file, which cannot be kept waiting")
        .keeping(directory)
}

fn hostname() -> Subject {
    let directory = directory(&["etc", "proc/sys/kernel"]);
    let root = directory.path().to_owned();
    let live = root.join("proc/sys/kernel/hostname");
    write(&root, "proc/sys/kernel/hostname", "old\n");
    write(&root, "etc/hostname", "old\n");
    let below = root.clone();
    let provider = move || {
        let live = live.clone();
        HostnameProvider::new(&root, move |name| std::fs::write(&live, format!("{name}\n")))
    };
    Subject::new(provider, move || tree::fingerprint(&below))
        .specimen(
            Sample::new("web1").present([("static", "web1"), ("transient", "web1"), ("pretty", "The shop")]).changed([
                ("static", "web2"),
                ("transient", "web3"),
                ("pretty", ""),
            ]),
        )
        .without(Unsupported::Unknown, "a machine always has a name")
        .without(Unsupported::Listing, "a machine has one name, which is listed")
        .without(Unsupported::Removal, "a machine always has a name")
        .without(Unsupported::Slow, "small files are written, which cannot be kept waiting")
        .keeping(directory)
}

fn timezone() -> Subject {
    let directory = directory(&["etc", "usr/share/zoneinfo/Etc"]);
    let root = directory.path().to_owned();
    ["UTC", "Etc/UTC", "CET"].iter().for_each(|zone| write(&root, &format!("usr/share/zoneinfo/{zone}"), "TZif2"));
    write(&root, "etc/timezone", "Etc/UTC\n");
    std::os::unix::fs::symlink("/usr/share/zoneinfo/Etc/UTC", root.join("etc/localtime"))
        .expect("the directory is new");
    let below = root.clone();
    Subject::new(move || TimezoneProvider::new(&root), move || tree::fingerprint(&below))
        .specimen(Sample::new("CET").present([("zone", "CET")]).changed([("zone", "UTC")]))
        .failing(Sample::new("bad").present([("zone", "Nowhere")]))
        .without(Unsupported::Unknown, "a machine always has a time zone")
        .without(Unsupported::Listing, "a machine has one time zone, which is listed")
        .without(Unsupported::Removal, "a machine always has a time zone")
        .without(Unsupported::Slow, "small files are written, which cannot be kept waiting")
        .keeping(directory)
}

/// A process in a network namespace of its own, which ends with it.
struct Namespace(Child);

impl Namespace {
    fn new() -> Namespace {
        crate::need_root();
        let mut keeper = Command::new("unshare");
        keeper.args(["--net", "--", "sh", "-c", "echo; exec cat"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut keeper = keeper.spawn().expect("unshare is part of util-linux");
        // It writes a line when it is in its namespace.
        keeper.stdout.as_mut().expect("it is piped").read_exact(&mut [0]).expect("a namespace can be made");
        Namespace(keeper)
    }

    fn option(&self) -> String {
        format!("--net=/proc/{}/ns/net", self.0.id())
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs programs in a network namespace.
struct Inside(String);

impl Runner for Inside {
    fn run(&self, invocation: &Invocation, cancel: Cancel<'_>) -> Result<Output, SpawnError> {
        let mut inside = invocation.clone();
        inside.program = "nsenter".into();
        inside.args = vec![(&self.0).into(), "--".into(), invocation.program.clone()];
        inside.args.extend(invocation.args.iter().cloned());
        kilter_process::run(&inside, Some(cancel))
    }
}

fn firewall() -> Subject {
    let directory = directory(&["etc"]);
    let root = directory.path().to_owned();
    let namespace = Namespace::new();
    let option = namespace.option();
    let system = System::new(&root, Arc::new(Inside(option.clone())));
    let fingerprint = move || {
        let listed = Command::new("nsenter").args([&option, "--", "nft", "-s", "list", "ruleset"]).output();
        format!("{}{}", tree::fingerprint(&root), String::from_utf8_lossy(&listed.expect("nft is installed").stdout))
    };
    let with = |content: &str, persist: bool| [("content", Value::from(content)), ("persist", Value::Boolean(persist))];
    let one = "chain input {\n\ttcp dport 22 accept\n}\n";
    let two = "chain input {\n\ttcp dport 23 accept\n}\n";
    Subject::new(move || FirewallProvider::new(system.clone()), fingerprint)
        .specimen(Sample::new("inet filter").present(with(one, true)).changed(with(two, false)))
        .specimen(Sample::new("ip nat").present(with(two, false)).changed(with(one, true)))
        .unknown(["inet nothing"])
        .failing(Sample::new("inet bad").present([("content", "chain a { nonsense\n}\n")]))
        .without(Unsupported::Slow, "the kernel replaces a table at once")
        .keeping((directory, namespace))
}

/// Passes if no law is broken, and exactly these are not tried or do not apply.
fn assert_conforms(report: &Report, untried: &[&str], not_applicable: &[&str]) {
    println!("{report}");
    assert!(!report.to_string().contains("BROKEN"), "{report}");
    assert_eq!(report.untried(), untried, "{report}");
    assert_eq!(report.not_applicable(), not_applicable, "{report}");
}

/// Laws about several namevars, refreshes and interrupts.
const USUAL: [&str; 3] = ["titles-fit-namevars", "a-refresh-is-served", "an-interrupt-ends-a-call"];

#[test]
fn alternatives_conform() {
    assert_conforms(&Suite::new(alternatives).run(), &["other-attributes-stay"], &USUAL);
}

#[test]
fn apt_repositories_conform() {
    assert_conforms(&Suite::new(repositories).run(), &["other-attributes-stay"], &USUAL);
}

#[test]
fn ca_certificates_conform() {
    assert_conforms(&Suite::new(certificates).run(), &["other-attributes-stay"], &USUAL);
}

#[test]
fn hostname_conforms() {
    let untried = ["others-are-left-alone", "a-batch-is-one-by-one", "one-failure-is-alone"];
    let not_applicable = [
        "unknown-is-absent",
        "some-are-among-all",
        "each-is-listed-once",
        "titles-fit-namevars",
        "absence-in-any-form",
        "a-refresh-is-served",
        "ensure-absent-removes",
        "absent-stays-absent",
        "preview-changes-nothing",
        "preview-foresees-rightly",
        "an-interrupt-ends-a-call",
    ];
    assert_conforms(&Suite::new(hostname).run(), &untried, &not_applicable);
}

#[test]
fn timezone_conforms() {
    let untried = ["others-are-left-alone", "a-batch-is-one-by-one"];
    let not_applicable = [
        "unknown-is-absent",
        "some-are-among-all",
        "each-is-listed-once",
        "titles-fit-namevars",
        "other-attributes-stay",
        "absence-in-any-form",
        "a-refresh-is-served",
        "ensure-absent-removes",
        "absent-stays-absent",
        "an-interrupt-ends-a-call",
    ];
    assert_conforms(&Suite::new(timezone).run(), &untried, &not_applicable);
}

#[test]
fn firewall_conforms() {
    assert_conforms(&Suite::new(firewall).run(), &[], &USUAL);
}
