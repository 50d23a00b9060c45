//! Sandboxes: writes stay inside, and the diff shows them.

#![expect(clippy::unwrap_used, reason = "a test may end where it cannot go on")]

use std::fs;
use std::path::Path;

use kilter_process::world::{Sandbox, SandboxBuilder};
use kilter_process::{Invocation, run};

/// A thread of its own for each test: it does not come back from a sandbox.
fn apart(test: impl FnOnce(&dyn Fn() -> Sandbox) + Send) {
    assert!(rustix::process::geteuid().is_root(), "run the tests as root: these ones mount file systems");
    let worlds = SandboxBuilder::prepare().unwrap();
    let run = || test(&|| worlds.make().unwrap());
    std::thread::scope(|scope| scope.spawn(run).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

/// Sandboxes of a machine on which more is mounted: the script mounts it, and nobody else sees that.
fn apart_with(script: &str, test: impl FnOnce(&dyn Fn() -> Sandbox) + Send) {
    assert!(rustix::process::geteuid().is_root(), "run the tests as root: these ones mount file systems");
    let mounted = || {
        unshare();
        outside(&format!("mount --make-rprivate /; {script}"));
        apart(test);
    };
    std::thread::scope(|scope| scope.spawn(mounted).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

#[expect(deprecated, reason = "it is unsafe with a table of descriptors of its own only")]
fn unshare() {
    use rustix::thread::UnshareFlags;
    rustix::thread::unshare(UnshareFlags::NEWNS | UnshareFlags::FS).unwrap();
}

/// Returns the output of a shell in the namespaces of this thread.
fn outside(script: &str) -> String {
    let finished = run(&Invocation::new("/bin/sh").args(["-euc", script]).captured(1 << 16), None).unwrap();
    assert!(finished.is_success(), "{script}: {}", finished.stderr.text());
    finished.stdout.text().into_owned()
}

/// Returns the output of a shell in a sandbox.
fn shell(world: &Sandbox, script: &str) -> String {
    world.enter().unwrap();
    outside(script)
}

fn traces(world: &Sandbox) -> Vec<String> {
    world.traces(&|_| false).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn sandbox_writes_are_isolated() {
    apart(|make| {
        let (one, other) = (make(), make());
        let name = format!("kilter-test-{}", std::process::id());
        for place in ["/etc", "/tmp", "/dev/shm", "/"].map(|place| Path::new(place).join(&name)) {
            let place = place.display();
            shell(&one, &format!("echo one >{place}"));
            assert_eq!(shell(&other, &format!("test -e {place} || echo no")), "no\n");
            assert_eq!(shell(&one, &format!("cat {place}")), "one\n");
            let path = place.to_string();
            let on_the_machine = std::thread::spawn(move || Path::new("/proc/1/root").join(&path[1..]).exists());
            assert!(!on_the_machine.join().unwrap(), "{place}");
        }
    });
}

#[test]
fn fresh_sandbox_has_no_diff() {
    apart(|make| {
        let world = make();
        shell(&world, "ls -R /etc /root /tmp >/dev/null 2>&1 || true; cat /etc/passwd");
        assert_eq!(traces(&world), Vec::<String>::new());
    });
}

#[test]
fn file_changes_appear_in_diff_without_times() {
    apart(|make| {
        let told = || {
            let world = make();
            shell(
                &world,
                "umask 022; mkdir -p /srv/w/d; printf abc >/srv/w/f; ln -s /etc /srv/w/l; chmod 600 /etc/passwd; rm \
                 /etc/hostname || \
                 rm /etc/group; touch -d 1999-01-01 /srv/w/f",
            );
            traces(&world)
        };
        let lines = told();
        for (begin, end) in [
            ("+ /srv/w/f 0644 0:0 file of 3 bytes, sum ", ""),
            ("+ /srv/w/d 0755 0:0 directory", ""),
            ("+ /srv/w/l 0777 0:0 link to /etc", ""),
            ("~ /etc/passwd 0600 ", ""),
            ("- /etc/", ""),
        ] {
            assert!(lines.iter().any(|line| line.starts_with(begin) && line.ends_with(end)), "{begin}: {lines:#?}");
        }
        assert_eq!(lines, told(), "two worlds made alike have the same traces");
    });
}

#[test]
fn restored_file_has_no_diff() {
    apart(|make| {
        let world = make();
        shell(
            &world,
            "cp -p /etc/passwd /etc/p; rm /etc/passwd; mv /etc/p /etc/passwd; touch /etc/group; chmod 644 /etc/group",
        );
        shell(&world, "mkdir /tmp/d; rmdir /tmp/d; echo x >/etc/new; rm /etc/new");
        assert_eq!(traces(&world), Vec::<String>::new());
    });
}

#[test]
fn moved_or_recreated_directory_is_compared_with_original() {
    let here = directory();
    apart(|make| {
        let world = make();
        shell(&world, &format!("mv {here}/a {here}/b; echo new >{here}/b/two"));
        let lines = traces(&world);
        let told: Vec<String> = lines.iter().map(|line| line.replace(&here, "")).collect();
        let starts = ["+ /b 0755", "- /a", "> /b moved from", "~ /b/two 0644"];
        assert!(
            told.len() == 4 && starts.iter().all(|start| told.iter().any(|line| line.starts_with(start))),
            "{told:#?}"
        );
        let other = make();
        shell(
            &other,
            &format!("cp -rp {here}/a {here}/keep; rm -r {here}/a; mv -T {here}/keep {here}/a; rm {here}/a/one"),
        );
        let told: Vec<String> = traces(&other).iter().map(|line| line.replace(&here, "")).collect();
        assert_eq!(told, ["- /a/one"]);
    });
    fs::remove_dir_all(&here).unwrap();
}

/// A directory with a directory with two files.
fn directory() -> String {
    let here = format!("/var/tmp/kilter-world-{}", std::process::id());
    fs::create_dir_all(format!("{here}/a")).unwrap();
    fs::write(format!("{here}/a/one"), "1").unwrap();
    fs::write(format!("{here}/a/two"), "2").unwrap();
    here
}

#[test]
fn ignored_paths_have_no_diff() {
    apart(|make| {
        let world = make();
        shell(&world, "mkdir -p /srv/cache; echo x >/srv/cache/y; echo x >/srv/z");
        let told = world.traces(&|path| path == "/srv/cache").unwrap();
        assert!(told.starts_with("+ /srv/z ") && told.lines().count() == 1, "{told}");
    });
}

#[test]
fn sandbox_cannot_set_kernel_parameters() {
    let below = "mount -t tmpfs t /sys/fs/cgroup; mkdir /sys/fs/cgroup/below; \
                 mount -t tmpfs t /sys/fs/cgroup/below";
    apart_with(below, |make| {
        let world = make();
        for refused in [
            "echo 1 >/proc/sys/vm/swappiness",
            "echo h >/proc/sysrq-trigger",
            "mkdir /sys/x",
            "mkdir /sys/fs/cgroup/x",
            "mkdir /sys/fs/cgroup/below/x",
            "echo x >/dev/x",
            "chmod 666 /dev/null",
        ] {
            assert_eq!(shell(&world, &format!("( {refused} ) 2>/dev/null || echo no")), "no\n", "{refused}");
        }
        let devices = "echo x >/dev/null; head -c1 /dev/zero | wc -c; test -e /dev/pts && test -e /dev/fd/0";
        assert_eq!(shell(&world, devices).trim(), "1");
    });
}

/// A directory of one test's own, which is on the machine.
fn own(name: &str) -> String {
    let here = format!("/var/tmp/kilter-world-{name}-{}", std::process::id());
    fs::create_dir_all(&here).unwrap();
    here
}

#[test]
fn link_target_at_covered_mount_keeps_content() {
    let here = own("covered");
    fs::write(format!("{here}/victim"), "kept\n").unwrap();
    fs::write(format!("{here}/source"), "").unwrap();
    let covered = format!(
        "mkdir {here}/cov; : >{here}/cov/b; mount --bind {here}/source {here}/cov/b; mount -t tmpfs t {here}/cov; \
         ln -s {here}/victim {here}/cov/b"
    );
    apart_with(&covered, |make| {
        let world = make();
        assert_eq!(shell(&world, &format!("cat {here}/cov/b {here}/victim")), "kept\nkept\n");
        assert_eq!(traces(&world), Vec::<String>::new());
    });
    assert_eq!(fs::read_to_string(format!("{here}/victim")).unwrap(), "kept\n");
    fs::remove_dir_all(&here).unwrap();
}

#[test]
fn mounted_file_is_copied_on_write() {
    let here = own("mounted");
    let mounted = format!(
        "cd {here}; echo source >s; chmod 640 s; mkfifo p; truncate -s 17M large; for f in s p large; do : >on-$f; \
         mount --bind $f on-$f; done"
    );
    apart_with(&mounted, |make| {
        let world = make();
        assert_eq!(shell(&world, &format!("cat {here}/on-s; stat -c %a {here}/on-s")), "source\n640\n");
        assert_eq!(shell(&world, &format!("stat -c '%F %s' {here}/on-p {here}/on-large")).lines().count(), 2);
        assert_eq!(traces(&world), Vec::<String>::new());
        shell(&world, &format!("echo world >>{here}/on-s"));
        let lines = traces(&world);
        assert!(lines.len() == 1 && lines[0].starts_with(&format!("~ {here}/on-s 0640 0:0 file of 13 ")), "{lines:#?}");
    });
    assert_eq!(fs::read_to_string(format!("{here}/s")).unwrap(), "source\n");
    assert_eq!(fs::read_to_string(format!("{here}/on-s")).unwrap(), "");
    fs::remove_dir_all(&here).unwrap();
}

#[test]
fn sandbox_keeps_mount_restrictions() {
    let here = own("limits");
    let mounted = format!(
        "cd {here}; mkdir strict sealed; mount -t tmpfs -o nosuid,nodev,noexec t strict; mount -t tmpfs t sealed; \
         : >sealed/f; mount -o remount,ro t sealed; cp /bin/true strict/true"
    );
    apart_with(&mounted, |make| {
        let world = make();
        let told = shell(
            &world,
            &format!(
                "cd {here}; strict/true 2>/dev/null || echo noexec; (: >sealed/f) 2>/dev/null || echo ro; \
                 grep \" $PWD/strict \" /proc/self/mountinfo | cut -d' ' -f6"
            ),
        );
        assert_eq!(told, "noexec\nro\nrw,nosuid,nodev,noexec,relatime\n");
    });
    fs::remove_dir_all(&here).unwrap();
}
