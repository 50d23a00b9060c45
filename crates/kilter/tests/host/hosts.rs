//! The test hosts themselves: several at once, crashes and leftovers.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kilter_testkit::hosts::{Host, program, sandboxed};

#[test]
fn hosts_reach_each_other_and_nothing_else() {
    sandboxed("hosts::hosts_reach_each_other_and_nothing_else", || {
        let hosts = std::thread::scope(|scope| {
            let threads = ["a", "b", "c"].map(|name| scope.spawn(move || Host::up(name, &[])));
            threads.map(|thread| thread.join().unwrap())
        });
        let addresses = hosts.each_ref().map(Host::address);
        for host in &hosts {
            for address in &addresses {
                host.bash(&format!("ping -q -c 1 -W 5 {address}"));
            }
            let outside = host.run(&["ping", "-q", "-c", "1", "-W", "1", "192.0.2.1"]);
            assert_ne!(outside.code, 0, "{outside:#?}");
        }
        let interfaces = std::fs::read_to_string("/proc/net/dev").unwrap();
        let known = |name: &str| name == "lo" || name.starts_with("kilter");
        let others = interfaces.lines().filter_map(|line| line.split_once(':')).filter(|(name, _)| !known(name.trim()));
        // Kernels put tunnels into every namespace that lead nowhere until they are set up.
        let up = |name: &str| {
            std::fs::read_to_string(format!("/sys/class/net/{name}/operstate")).is_ok_and(|state| state == "up\n")
        };
        assert_eq!(others.filter(|(name, _)| up(name.trim())).count(), 0, "{interfaces}");
    });
}

#[test]
fn a_host_keeps_its_disk_when_it_crashes_and_loses_it_when_it_is_removed() {
    sandboxed("hosts::a_host_keeps_its_disk_when_it_crashes_and_loses_it_when_it_is_removed", || {
        std::fs::write("/run/file", "copied\n").unwrap();
        let host = Host::up("a", &[(Path::new("/run/file"), "/srv/copied/file")]);
        host.bash(
            "grep -qx copied /srv/copied/file; systemctl stop cron; echo kept >/srv/disk; echo lost >/run/memory",
        );
        host.crash();
        assert_eq!(host.run(&["true"]).code, 125, "it does not run");
        host.start();
        assert_eq!(
            host.bash("cat /srv/disk; systemctl is-active cron; ls /run/memory 2>/dev/null || true"),
            "kept\nactive\n"
        );
        host.reboot();
        assert_eq!(host.bash("cat /srv/disk"), "kept\n");
        host.down();
        let host = Host::up("a", &[]);
        host.bash("[ ! -e /srv/disk ]");
    });
}

#[test]
fn a_command_runs_as_a_unit_and_cannot_set_the_clock() {
    sandboxed("hosts::a_command_runs_as_a_unit_and_cannot_set_the_clock", || {
        let host = Host::up("a", &[]);
        let group = host.bash("grep ^0:: /proc/self/cgroup");
        assert!(group.starts_with("0::/system.slice/run-") && group.ends_with(".service\n"), "{group}");
        let answer = host.run(&["bash", "-c", "echo out; echo err >&2; exit 7"]);
        assert_eq!((answer.code, &*answer.stdout, &*answer.stderr), (7, "out\n", "err\n"));
        assert_eq!(host.bash("v=1; echo $v ${v} '${v} $$ %n'"), "1 1 ${v} $$ %n\n");
        let answer = host.run(&["date", "--set=2020-01-01"]);
        assert!(answer.code == 1 && answer.stderr.contains("not permitted"), "{answer:#?}");
    });
}

/// The processes of this machine whose command line has a word.
fn processes_with(word: &str) -> Vec<String> {
    let all = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    let lines = all.filter_map(|path| std::fs::read(path.join("cmdline")).ok());
    lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " ")).filter(|line| line.contains(word)).collect()
}

#[test]
fn a_sandbox_that_is_killed_leaves_no_process_and_no_mount() {
    // Unlike any other on this machine.
    let name = format!("k{}", std::process::id());
    let word = format!("--machine={name}");
    let mut sandbox = Command::new(program("sandbox"))
        .args(["bash", "-euc", "\"$0\" up \"$1\"; echo up; exec sleep 100000"])
        .arg(program("host"))
        .arg(&name)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(sandbox.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "up\n");
    assert_ne!(processes_with(&word), [""; 0]);
    sandbox.kill().unwrap();
    sandbox.wait().unwrap();
    let end = Instant::now() + Duration::from_secs(30);
    while !processes_with(&word).is_empty() {
        assert!(Instant::now() < end, "{:?}", processes_with(&word));
        std::thread::sleep(Duration::from_millis(20));
    }
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains("/run/kilter"), "{mounts}");
}

/// Stands in for the program that makes root file systems. It counts its calls and fails once on request.
const MAKER: &str = r#"#!/bin/sh
cd "${0%/*}/.." && echo made >>count
for word; do [ "$before" != bookworm ] || place=$word; before=$word; done
mkdir -p "$place/usr/bin" "$place/usr/lib/any"
[ ! -e fails ] || { rm fails; touch "$place/half"; exit 1; }
touch "$place/usr/bin/systemd-nspawn"
printf '#!/bin/sh\n[ "$1" = --library-path ] && [ -e "$3" ]\n' >"$place/usr/lib/any/ld-linux-any.so.2"
chmod 755 "$place/usr/lib/any/ld-linux-any.so.2"
"#;

#[test]
fn base_image_is_cached_and_rebuilt_if_damaged() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    std::fs::create_dir_all(at("bin")).unwrap();
    std::fs::write(at("bin/mmdebstrap"), MAKER).unwrap();
    std::fs::set_permissions(at("bin/mmdebstrap"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", at("bin").display(), std::env::var("PATH").unwrap());
    let base = || {
        let mut command = Command::new(program("base"));
        let output = command
            .env("PATH", &path)
            .env("KILTER_HOSTS_CACHE", at("cache"))
            .env_remove("KILTER_HOSTS_RELEASE")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        PathBuf::from(String::from_utf8(output.stdout).unwrap().trim_end())
    };
    let count = || std::fs::read_to_string(at("count")).unwrap().lines().count();

    let places = std::thread::scope(|scope| [(); 3].map(|()| scope.spawn(base)).map(|thread| thread.join().unwrap()));
    assert!(places.iter().all(|place| *place == places[0] && place.join(".complete").exists()), "{places:?}");
    assert_eq!((base(), count()), (places[0].clone(), 1), "the other two calls use the result of the first");

    std::fs::remove_file(places[0].join(".complete")).unwrap();
    std::fs::write(places[0].join("half"), "").unwrap();
    assert_eq!((base().join("half").exists(), count()), (false, 2), "an incomplete root file system is not used");

    std::fs::remove_file(places[0].join("usr/bin/systemd-nspawn")).unwrap();
    assert_eq!((base(), count()), (places[0].clone(), 3), "a root file system that does not start is not used");

    for (old, days) in [("unused", "40 days ago"), ("other", "3 days ago")] {
        std::fs::create_dir(at("cache").join(old)).unwrap();
        let stamp = at("cache").join(old).join(".complete");
        assert!(Command::new("touch").arg("--date").arg(days).arg(stamp).status().unwrap().success());
    }
    std::fs::write(at("fails"), "").unwrap();
    std::fs::remove_file(places[0].join(".complete")).unwrap();
    assert_eq!(
        (base().join("half").exists(), count()),
        (false, 5),
        "a build that fails is repeated from the beginning"
    );
    assert_eq!(
        (at("cache/unused").exists(), at("cache/other").exists()),
        (false, true),
        "only the root file system that was not used for 30 days is removed"
    );
}

#[test]
fn missing_host_requirements_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let copy = directory.path().join("hosts");
    let open =
        format!("chmod 755 {0} && cp -R {1} {2}", directory.path().display(), program("").display(), copy.display());
    assert!(Command::new("sh").args(["-c", &open]).status().unwrap().success());
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", "--"];
    let output = Command::new("setpriv").args(nobody).arg(copy.join("sandbox")).arg("true").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("run this as root"), "{said}");
    let output =
        Command::new("setpriv").arg("--bounding-set=-sys_admin").arg(program("sandbox")).arg("true").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("give it all privileges"), "{said}");
    let output = Command::new(program("host")).args(["up", "a"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("there are hosts in a sandbox only"), "{said}");
}

#[test]
fn the_programs_are_clean() {
    let programs = ["base", "sandbox", "host", "repository", "../peer/measure", "../peer/resources"].map(program);
    let output = Command::new("shellcheck").args(&programs).output();
    let output = output.unwrap_or_else(|error| panic!("{error}: apt-get install shellcheck"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
