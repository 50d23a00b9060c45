//! The main task on a real machine, as root: users, groups, directories, 200 files, links and guarded commands. The
//! test plans, applies twice, damages the machine in ten ways, and repairs it.
//!
//! It plays in a mount namespace of its own, over a copy of `/etc`: the machine that runs the test
//! keeps its accounts.

#![expect(clippy::unwrap_used, reason = "a test may end where it cannot go on")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value as Json;

const INSIDE: &str = "KILTER_TEST_INSIDE";

/// Runs the named test again in a mount namespace of its own; true in there.
///
/// # Panics
/// When this is not root, or `unshare` is missing: the test cannot be had in a smaller form.
fn inside(name: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    assert!(
        rustix::process::geteuid().is_root(),
        "run the tests as root: this one makes users in a namespace of its own"
    );
    let script = r#"
        copy=$(mktemp -d) && mount -t tmpfs kilter "$copy" && cp -a /etc/. "$copy" && mount --bind "$copy" /etc &&
        : >/etc/.kilter-test && exec "$0" --exact "$1" --nocapture"#;
    let status = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-euc", script])
        .arg(std::env::current_exe().unwrap())
        .arg(name)
        .env(INSIDE, "1")
        .status()
        .expect("`unshare` is part of util-linux: apt-get install util-linux");
    assert!(status.success(), "{name} failed in its namespace");
    false
}

struct TestRoot {
    /// The directory of files, outside of `/etc`.
    root: PathBuf,
    state: PathBuf,
    _temporary: tempfile::TempDir,
}

impl TestRoot {
    fn new() -> TestRoot {
        assert!(Path::new("/etc/.kilter-test").exists(), "this is not the copy of /etc");
        let temporary = tempfile::tempdir().unwrap();
        std::fs::set_permissions(temporary.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let at = |name: &str| temporary.path().join(name);
        TestRoot { root: at("root"), state: at("state"), _temporary: temporary }
    }

    fn kilter(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kilter"));
        command.env_clear().env("HOME", "/root").env("KILTER_STATE_DIR", &self.state).args(args);
        command
    }

    fn manifest(&self) -> PathBuf {
        let root = self.root.display();
        let mut text = format!(
            "vars: {{ root: \"{root}\" }}
resources:
  group[kilterweb]: {{ gid: 7001 }}
  user[kilterweb]:
    uid: 7001
    gid: kilterweb
    home: ${{vars.root}}/home
    shell: /bin/sh
    comment: Web server
    password: {{ sensitive: \"*\" }}
  group[kilterops]: {{ members: [kilterweb], require: \"user[kilterweb]\" }}
  host[db.kilter.test]: {{ ip: 192.0.2.7, host_aliases: [db] }}
  file[${{vars.root}}]: {{ ensure: directory, mode: \"0755\" }}
  file[${{vars.root}}/home]: {{ ensure: directory, owner: kilterweb, group: kilterweb, mode: \"0750\" }}
  file[${{vars.root}}/bin]: {{ ensure: directory, mode: \"u=rwx,go=rx\" }}
  file[${{vars.root}}/bin/tool]: {{ content: \"#!/bin/sh\\n\", mode: \"4755\", owner: root, group: kilterweb }}
  file[${{vars.root}}/only]: {{ ensure: directory, recurse: true, purge: true }}
  file[${{vars.root}}/only/kept]: {{ content: kept }}
  file[${{vars.root}}/link]: {{ ensure: link, target: bin/tool }}
  file[${{vars.root}}/gone]: {{ ensure: absent }}
  exec[database]:
    command: [/bin/sh, -c, \"echo made >>database\"]
    cwd: ${{vars.root}}
    creates: ${{vars.root}}/database
  exec[index]:
    command: echo indexed >>index.log
    shell: true
    cwd: ${{vars.root}}
    unless: [[/usr/bin/test, -s, index.log]]
  exec[reload]:
    command: [/bin/sh, -c, \"echo reloaded >>reloads\"]
    cwd: ${{vars.root}}
    refreshonly: true
    subscribe: file[${{vars.root}}/f000]
"
        );
        for n in 0..200 {
            let _ = writeln!(
                text,
                "  file[${{vars.root}}/f{n:03}]: {{ content: \"file {n}\\n\", mode: \"0640\", group: kilterweb }}"
            );
        }
        let path = self.state.with_file_name("manifest.yaml");
        std::fs::write(&path, text).unwrap();
        path
    }

    fn run(&self, command: &str, manifest: &Path) -> (i32, Json) {
        let output = self.kilter(&[command, manifest.to_str().unwrap(), "--format", "json"]);
        let json = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
        (output.status.code().unwrap(), json)
    }
}

/// The resources of a report that have a status.
fn with_status(report: &Json, status: &str) -> BTreeSet<String> {
    let all = report["resources"].as_array().unwrap().iter();
    all.filter(|r| r["status"] == status).map(|r| r["resource"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn machine_converges_and_is_repaired() {
    if !inside("machine_converges_and_is_repaired") {
        return;
    }
    let machine = TestRoot::new();
    let manifest = machine.manifest();
    let total = 215;

    let (code, plan) = machine.run("plan", &manifest);
    assert_eq!((code, plan["counts"]["total"].as_u64()), (2, Some(total)), "{plan:#}");
    assert!(!machine.root.exists(), "a plan touches nothing");

    let (code, report) = machine.run("apply", &manifest);
    assert_eq!(code, 0, "{report:#}");
    let mut announced = with_status(&plan, "would_change");
    // Its guard needs the working directory, which the run makes.
    assert_eq!(with_status(&plan, "unknown"), BTreeSet::from(["exec[index]".to_owned()]));
    announced.insert("exec[index]".to_owned());
    assert_eq!(with_status(&report, "changed"), announced, "apply did what plan said");
    check_state(&machine);

    let (code, report) = machine.run("apply", &manifest);
    assert_eq!((code, report["counts"]["in_sync"].as_u64()), (0, Some(total)), "{report:#}");
    nothing_is_written(&machine, &manifest);

    let damaged = damage(&machine);
    let (code, plan) = machine.run("plan", &manifest);
    assert_eq!(code, 2);
    assert_eq!(with_status(&plan, "would_change"), damaged, "{plan:#}");
    let (code, report) = machine.run("apply", &manifest);
    assert_eq!(code, 0, "{report:#}");
    assert_eq!(with_status(&report, "changed"), damaged);
    check_state(&machine);
    let reloads = std::fs::read_to_string(machine.root.join("reloads")).unwrap();
    assert_eq!(reloads, "reloaded\nreloaded\n", "once for the first apply, once for the damage to f000");
    let (code, report) = machine.run("apply", &manifest);
    assert_eq!((code, report["counts"]["in_sync"].as_u64()), (0, Some(total)), "{report:#}");
}

fn check_state(machine: &TestRoot) {
    let at = |name: &str| machine.root.join(name);
    let of = |name: &str| std::fs::symlink_metadata(at(name)).unwrap();
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap();
    let entry = format!("kilterweb:x:7001:7001:Web server:{}/home:/bin/sh", machine.root.display());
    assert!(passwd.contains(&entry), "{passwd}");
    assert!(
        std::fs::read_to_string("/etc/group")
            .unwrap()
            .lines()
            .any(|l| l.starts_with("kilterops:") && l.ends_with(":kilterweb"))
    );
    assert!(std::fs::read_to_string("/etc/hosts").unwrap().contains("192.0.2.7"));
    assert_eq!((of("home").uid(), of("home").mode() & 0o7777), (7001, 0o750));
    assert_eq!((of("bin/tool").mode() & 0o7777, of("bin/tool").gid()), (0o4755, 7001));
    assert_eq!(std::fs::read_link(at("link")).unwrap(), Path::new("bin/tool"));
    assert_eq!(std::fs::read_dir(at("only")).unwrap().count(), 1);
    assert!(!at("gone").exists());
    assert_eq!(std::fs::read_to_string(at("database")).unwrap(), "made\n", "a guarded command runs once");
    assert_eq!(std::fs::read_to_string(at("index.log")).unwrap(), "indexed\n");
    for n in 0..200 {
        let name = format!("f{n:03}");
        assert_eq!(std::fs::read_to_string(at(&name)).unwrap(), format!("file {n}\n"));
        assert_eq!((of(&name).mode() & 0o7777, of(&name).gid()), (0o640, 7001));
    }
}

/// Ten kinds of damage, with the resources that repair them.
fn damage(machine: &TestRoot) -> BTreeSet<String> {
    let at = |name: &str| machine.root.join(name);
    let run = |program: &str, args: &[&str]| assert!(Command::new(program).args(args).status().unwrap().success());
    std::fs::write(at("f000"), "tampered\n").unwrap();
    std::fs::remove_file(at("f001")).unwrap();
    std::fs::set_permissions(at("f002"), std::fs::Permissions::from_mode(0o666)).unwrap();
    std::os::unix::fs::chown(at("f003"), Some(7001), Some(0)).unwrap();
    std::fs::remove_file(at("f004")).unwrap();
    symlink("/etc/passwd", at("f004")).unwrap();
    std::fs::remove_file(at("link")).unwrap();
    symlink("elsewhere", at("link")).unwrap();
    std::fs::write(at("only/stray"), "x").unwrap();
    std::fs::write(at("gone"), "back again").unwrap();
    run("usermod", &["--shell", "/bin/false", "kilterweb"]);
    let hosts = std::fs::read_to_string("/etc/hosts").unwrap().replace("192.0.2.7", "192.0.2.9");
    std::fs::write("/etc/hosts", hosts).unwrap();
    // A change of owner takes the setuid bit away as well.
    std::os::unix::fs::chown(at("bin/tool"), Some(7001), None).unwrap();
    let files = ["f000", "f001", "f002", "f003", "f004", "link", "only", "gone", "bin/tool"];
    let files = files.iter().map(|name| format!("file[{}]", at(name).display()));
    files.chain(["user[kilterweb]".to_owned(), "host[db.kilter.test]".to_owned()]).collect()
}

/// An apply in sync opens only its lock for writing, and changes nothing.
fn nothing_is_written(machine: &TestRoot, manifest: &Path) {
    let log = machine.state.with_file_name("strace.log");
    let trace = "trace=open,openat,openat2,creat,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,rmdir,link,linkat,symlink,symlinkat,chmod,fchmod,fchmodat,?fchmodat2,chown,fchown,lchown,fchownat,utimensat,truncate,ftruncate,setxattr,fsetxattr,lsetxattr,pwrite64,mknodat,fsync,fdatasync,syncfs";
    let apply = machine.command(&["apply", manifest.to_str().unwrap()]);
    let output = Command::new("strace")
        .args(["-f", "-qq", "-e", trace, "-o"])
        .arg(&log)
        .arg(apply.get_program())
        .args(apply.get_args())
        .env_clear()
        .envs(apply.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .output()
        .expect("strace: apt-get install strace");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(&log).unwrap();
    let opens = |line: &str| line.contains("open");
    let writes = |line: &&str| match opens(line) {
        true => ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC"].iter().any(|flag| line.contains(flag)),
        false => !line.contains("+++") && !line.contains("---"),
    };
    // The two locks of a run: one in the state directory, one below /run, which ends with the run.
    let is_lock = |line: &str| line.contains("/lock\"") || line.contains("/run/kilter-locks/");
    // A run without changes is counted.
    let is_count = |line: &str| line.contains("/state/history/unchanged.");
    let harmless = |line: &&str| !is_lock(line) && !is_count(line) && !line.contains("/dev/null");
    let wrote: Vec<&str> = text.lines().filter(writes).filter(harmless).collect();
    assert!(wrote.is_empty(), "{}", wrote.join("\n"));
    assert!(text.contains("openat2"), "the trace saw the checks");
}

#[test]
fn an_export_of_users_groups_and_hosts_applied_changes_nothing() {
    if !inside("an_export_of_users_groups_and_hosts_applied_changes_nothing") {
        return;
    }
    let machine = TestRoot::new();
    for (kind, more) in [("user", &[][..]), ("group", &[]), ("host", &[]), ("user", &["--show-sensitive"])] {
        let export = machine.kilter(&[&["get", kind, "--format", "yaml"], more].concat());
        assert!(export.status.success(), "{}", String::from_utf8_lossy(&export.stderr));
        let path = machine.state.with_file_name(format!("{kind}.yaml"));
        std::fs::write(&path, &export.stdout).unwrap();
        let (code, report) = machine.run("apply", &path);
        assert_eq!(code, 0, "{report:#}");
        assert_eq!(report["counts"]["in_sync"], report["counts"]["total"], "{report:#}");
        assert!(report["counts"]["total"].as_u64().unwrap() > 0, "something was exported");
    }
}

#[test]
fn saved_plan_is_applied_exactly_or_refused() {
    if !inside("saved_plan_is_applied_exactly_or_refused") {
        return;
    }
    let machine = TestRoot::new();
    let manifest = machine.manifest();
    let plan = machine.state.with_file_name("plan");
    let output = machine.kilter(&["plan", manifest.to_str().unwrap(), "-o", plan.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(std::fs::metadata(&plan).unwrap().mode() & 0o7777, 0o600);
    std::fs::remove_file(&manifest).unwrap();
    let output = machine.kilter(&["apply", plan.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    check_state(&machine);
    let output = machine.kilter(&["apply", plan.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("nothing is left to do"), "{said}");
}
