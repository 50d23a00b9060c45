//! The scripts that are embedded in kilter: their descriptions, their text, and the tests of those that need no machine
//! of their own. The others are put through their tests on hosts that are booted (`tests/host`).
//!
//! Some built-in types have such a test too (`tests/native`).
//!
//! A test plays in namespaces of its own, over copies of `/etc`, `/home`, `/opt`, `/root`, `/srv`, `/usr` and
//! `/var`: the machine that runs it keeps its state. What it needs beside kilter is installed by `cargo xtask test`.

#![expect(clippy::unwrap_used, reason = "a test may end where it cannot go on")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const KILTER: &str = env!("CARGO_BIN_EXE_kilter");

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../providers").canonicalize().unwrap()
}

/// The scripts that a built-in type has replaced.
fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/providers").canonicalize().unwrap()
}

/// The tests of built-in types that change programs and names of the machine.
fn native() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/native")
}

/// Mounts writable copies over the directories, copies the tests of the providers, and runs the given command. No
/// systemd runs there, and `/run` is empty.
const SANDBOX: &str = r#"
    space=$(mktemp -d) && mount -t tmpfs -o mode=755 kilter "$space"
    for over in etc home opt root srv usr var; do
        mkdir "$space/$over" "$space/$over.work"
        mount -t overlay kilter -o "lowerdir=/$over,upperdir=$space/$over,workdir=$space/$over.work" "/$over"
    done
    : >/etc/.kilter-test
    mount -t tmpfs -o mode=755 kilter /run && mkdir /run/lock
    rm -rf /usr/local/share/kilter
    install -D -o root -g root -m 755 -t /var/lib/providers "$PROVIDERS"/*
    install -o root -g root -m 755 -t /var/lib/providers "$EXAMPLES"/* "$NATIVE"/*
    cd /
    exec "$@""#;

/// Runs a command in the sandbox, with nothing of the environment.
///
/// # Panics
/// When this is not root, or `unshare` is missing: the tests cannot be had in a smaller form.
fn sandboxed(command: &[&str]) -> Output {
    assert!(
        rustix::process::geteuid().is_root(),
        "run the tests as root: these ones install packages in a namespace of their own"
    );
    Command::new("unshare")
        .args(["--mount", "--uts", "--net", "--propagation", "private", "bash", "-euc", SANDBOX, "sandbox"])
        .args(command)
        .env_clear()
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .env("HOME", "/root")
        .env("LC_ALL", "C.UTF-8")
        .env("KILTER", KILTER)
        .env("PROVIDERS", directory())
        .env("EXAMPLES", examples())
        .env("NATIVE", native())
        .env("GUIDES", native().join("../../../../docs/guides").canonicalize().unwrap())
        .output()
        .expect("`unshare` is part of util-linux: apt-get install util-linux")
}

fn shown(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs the test of a provider.
fn hold(provider: &str) {
    let output = sandboxed(&[&format!("/var/lib/providers/{provider}.test")]);
    let shown = shown(&output);
    assert!(output.status.success(), "{provider}: {}\n{shown}", output.status);
    // A test that ended before its end has held nothing.
    let told = String::from_utf8_lossy(&output.stdout);
    let checks = told.lines().last().and_then(|line| line.strip_suffix(" checks, 0 failed"));
    assert!(checks.is_some_and(|checks| checks.parse::<u32>().is_ok_and(|checks| checks > 0)), "{provider}: {shown}");
    println!("{provider}: {shown}");
}

#[test]
fn units_are_enabled_without_running_systemd() {
    hold("systemctl");
}

#[test]
fn pip_packages_converge_in_environments() {
    hold("pip");
}

#[test]
fn npm_packages_converge_globally_and_in_directories() {
    hold("npm");
}

#[test]
fn names_zones_locales_and_certificates_converge() {
    hold("names");
}

#[test]
fn repositories_converge_with_real_apt_and_are_held() {
    hold("apt_repository");
}

#[test]
fn packages_of_other_managers_converge() {
    hold("managers");
}

#[test]
fn firewall_converges_and_is_held() {
    hold("firewall");
}

#[test]
fn interfaces_converge_and_are_held() {
    hold("net");
}

#[test]
fn containers_converge_and_are_held() {
    hold("container");
}

#[test]
fn containers_of_docker_converge_and_are_held() {
    hold("docker");
}

#[test]
fn guide_to_system_files_works() {
    hold("guide");
}

fn files_with(end: &str) -> BTreeSet<String> {
    let entries = std::fs::read_dir(directory()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names = names.filter(|name| end == ".check.yaml" || !name.ends_with(".check.yaml"));
    names.filter_map(|name| name.strip_suffix(end).map(str::to_owned)).collect()
}

#[test]
fn every_provider_has_its_metadata_and_its_test() {
    let providers = files_with(".prov");
    assert_eq!(providers, files_with(".yaml"));
    assert_eq!(providers, files_with(".test"));
    let tests = [include_str!("providers.rs"), include_str!("host/providers.rs")].concat();
    for provider in &providers {
        assert!(tests.contains(&format!("hold(\"{provider}\")")), "{provider}.test is not run");
    }
}

/// Laws that tell most about a provider of a package manager, and about an example that a built-in type has replaced.
/// Each call takes a package manager seconds, and names and values at the edge of their types take it half an hour.
const MAIN_LAWS: [&str; 10] = [
    "get-changes-nothing",
    "what-is-there-is-returned",
    "get-is-steady",
    "unknown-is-absent",
    "set-makes-what-was-asked",
    "set-again-changes-nothing",
    "others-are-left-alone",
    "ensure-absent-removes",
    "no-should-removes",
    "one-failure-is-alone",
];

/// Puts a provider to the test with the main laws.
fn conforms_in_the_main(provider: &str) {
    let places = [directory(), examples()].map(|place| place.join(format!("{provider}.prov")));
    let script = places.iter().find(|path| path.exists()).unwrap();
    let laws = MAIN_LAWS.iter().flat_map(|law| ["--law", law]);
    let output = Command::new(KILTER).args(["provider", "check"]).arg(script).args(laws).output().unwrap();
    assert!(output.status.success(), "{}", shown(&output));
}

#[test]
fn cron_conforms() {
    conforms_in_the_main("cron");
}

#[test]
fn ssh_authorized_key_conforms() {
    conforms_in_the_main("ssh_authorized_key");
}

#[test]
fn sysctl_conforms() {
    conforms_in_the_main("sysctl");
}

#[test]
fn systemctl_conforms() {
    conforms_in_the_main("systemctl");
}

#[test]
fn apt_conforms() {
    conforms_in_the_main("apt");
}

#[test]
fn pip_conforms() {
    conforms_in_the_main("pip");
}

#[test]
fn npm_conforms() {
    conforms_in_the_main("npm");
}

#[test]
fn every_check_file_is_used() {
    let this = include_str!("providers.rs");
    for provider in files_with(".check.yaml") {
        let call = format!("conforms_in_the_main(\"{provider}\")");
        assert!(this.contains(&call), "{provider}.check.yaml is not used");
    }
}

#[test]
fn kilter_describes_every_provider_and_each_of_its_attributes() {
    for name in files_with(".prov") {
        let metadata = std::fs::read_to_string(directory().join(format!("{name}.yaml"))).unwrap();
        let of_type = metadata.lines().find_map(|line| line.strip_prefix("  type: ")).unwrap();
        let of = format!("{of_type}::{name}");
        let output = Command::new(KILTER).args(["types", &of, "--format", "json"]).env_clear().output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "nothing is wrong with {name}");
        let described: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((described["name"].as_str(), described["provider"].as_str()), (Some(of_type), Some(&*name)));
        assert!(described["desc"].as_str().is_some_and(|desc| desc.contains("```yaml")), "{name}: an example");
        for attribute in described["attributes"].as_array().unwrap() {
            let desc = attribute["desc"].as_str().unwrap_or_default();
            assert!(desc.len() > 10, "{} of {name}: {desc}", attribute["name"]);
        }
    }
}

#[test]
fn the_programs_are_clean() {
    let (mut bash, mut python) = (Vec::new(), Vec::new());
    let tests = ["units.test", "package.bash", "sysctl.bash", "cron.bash", "ssh_authorized_key.bash"]
        .map(|name| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/host").join(name));
    let entries = [directory(), examples()].into_iter().flat_map(|all| std::fs::read_dir(all).unwrap());
    for path in entries.map(|entry| entry.unwrap().path()).chain(tests) {
        let text = std::fs::read_to_string(&path).unwrap();
        match text.lines().next() {
            Some("#!/bin/bash" | "# shellcheck shell=bash") => bash.push(path),
            Some("#!/usr/bin/python3 -I") => python.push(path),
            _ => assert!(path.extension().is_some_and(|end| end == "yaml"), "{}: what is it?", path.display()),
        }
    }
    clean(Command::new("shellcheck").arg("--external-sources").args(&bash), "shellcheck");
    clean(Command::new("pyflakes3").args(&python), "pyflakes3");
}

fn clean(command: &mut Command, package: &str) {
    let output = command.output().unwrap_or_else(|error| panic!("{error}: apt-get install {package}"));
    assert!(output.status.success(), "{}", shown(&output));
}
