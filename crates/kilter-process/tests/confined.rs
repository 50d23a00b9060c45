//! Confined children try to change the machine, and do what a child that only reads has to do.
//!
//! An attempt counts only if it succeeds without confinement: each is made twice.

#![expect(clippy::unwrap_used, reason = "a test may end where it cannot go on")]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use kilter_process::{
    Captured, Confined, Confinement, Event, Identity, Invocation, Output, Status, Termination, can_confine, run,
    run_observed,
};

const NOBODY: u32 = 65534;

/// Mode, owner, inode, times and content of a file.
type FileStatus = (u32, u32, u64, [i64; 4], Vec<u8>);

/// A directory with a file and a directory in it, which belong to the one who tries to change them.
struct ConfinedDir {
    path: PathBuf,
}

impl ConfinedDir {
    fn of(user: u32) -> ConfinedDir {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("confined-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        std::fs::create_dir(path.join("d")).unwrap();
        std::fs::write(path.join("f"), "as it was\n").unwrap();
        for made in [path.clone(), path.join("d"), path.join("f")] {
            chown(&made, Some(user), Some(user)).unwrap();
        }
        ConfinedDir { path }
    }

    /// All that there is to know of its files: times of change tell of modes, owners and attributes too.
    fn state(&self) -> BTreeMap<PathBuf, FileStatus> {
        let mut state = BTreeMap::new();
        let mut left = vec![self.path.clone()];
        while let Some(path) = left.pop() {
            let found = std::fs::symlink_metadata(&path).unwrap();
            let times = [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()];
            let mut content = Vec::new();
            if found.is_dir() {
                left.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            } else if found.is_file() {
                content = std::fs::read(&path).unwrap();
            }
            state.insert(path, (found.mode(), found.uid(), found.ino(), times, content));
        }
        state
    }
}

impl Drop for ConfinedDir {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.path).unwrap();
    }
}

fn bash(script: &str, user: u32) -> Invocation {
    assert!(rustix::process::geteuid().is_root(), "run this test as root: only root can become another user");
    let mut invocation = Invocation::new("bash").args(["-c", script]).captured(64 * 1024);
    invocation.identity = (user != 0).then(|| Identity { uid: user, gid: user, groups: Vec::new() });
    invocation
}

fn free(script: &str, user: u32) -> Output {
    let finished = run(&bash(script, user), None).unwrap();
    assert_eq!(finished.confined, Confined::NotAsked);
    finished
}

fn confined(invocation: Invocation) -> Output {
    let finished = run(&invocation.confined(Confinement::ReadOnly), None).unwrap();
    assert_eq!(
        finished.confined,
        Confined::Fully,
        "this kernel cannot confine: these tests need Linux 6.12 with Landlock"
    );
    finished
}

/// Operations that a user may make on their own files.
const CHANGES: &[&str] = &[
    "echo x > f",
    "echo x >> f",
    ": > f",
    "echo x > new",
    "echo x > d/new",
    "rm f",
    "rmdir d",
    "mkdir new",
    "mv f g",
    "mv f d/f",
    "mv -T d e",
    "ln f g",
    "ln -s f g",
    "cp f g",
    "cp --reflink=auto f g",
    "chmod 600 f",
    "chmod -R go-rwx .",
    "chgrp \"$(id -g)\" f",
    "touch f",
    "touch -d 2001-02-03 f",
    "touch new",
    "truncate -s 3 f",
    "mknod p p",
    "mkfifo p",
    "sed -i s/as/AS/ f",
    "dd if=/dev/zero of=f bs=1 count=1 conv=notrunc status=none",
    "tee f < /etc/passwd",
    "chattr +d f",
    "t=$(mktemp) && { ln $t new; e=$?; rm $t; exit $e; }",
    "t=$(mktemp) && { mv $t new; e=$?; rm -f $t; exit $e; }",
    "python3 -c 'import os; os.write(os.open(\"f\", os.O_WRONLY), b\"x\")'",
    "python3 -c 'import os; os.write(os.open(\"f\", os.O_RDWR | os.O_APPEND), b\"x\")'",
    "python3 -c 'import os; os.open(\"f\", os.O_RDONLY | os.O_TRUNC)'",
    "python3 -c 'import os; os.truncate(\"f\", 1)'",
    "python3 -c 'import os; os.fchmod(os.open(\"f\", os.O_RDONLY), 0o600)'",
    "python3 -c 'import os; os.utime(os.open(\"f\", os.O_RDONLY))'",
    "python3 -c 'import os; os.fchown(os.open(\"f\", os.O_RDONLY), -1, os.getgid())'",
    "python3 -c 'import os; os.chmod(\"f\", 0o600); os.lchown(\"f\", -1, os.getgid())'",
    "python3 -c 'import os; os.setxattr(\"f\", \"user.a\", b\"b\")'",
    "python3 -c 'import os; os.setxattr(os.open(\"f\", os.O_RDONLY), \"user.a\", b\"b\")'",
    "python3 -c 'import os; open(\"/proc/self/fd/%d\" % os.open(\"f\", os.O_RDONLY), \"w\")'",
    "python3 -c 'import os; open(\"/proc/self/root\" + os.getcwd() + \"/f\", \"w\")'",
    "python3 -c 'import os; os.fchmod(os.open(\".\", os.O_RDONLY), 0o700)'",
    "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"s\")'",
    // By descendants of all sorts.
    "sh -c 'sh -c \"echo x > f\"'",
    "setsid -w sh -c 'echo x > f'",
    "env -i /bin/sh -c 'echo x > f'",
    "true | { true; echo x > f; }",
    "python3 -c 'import subprocess; subprocess.run([\"rm\", \"f\"], check=True)'",
    "( sh -c 'echo x > f' & wait $! )",
    "find . -name f -exec rm {} +",
    "echo f | xargs rm",
];

/// Operations for root only.
const CHANGES_OF_ROOT: &[&str] = &[
    "chown 12 f",
    "chown -h 12:34 f",
    "mknod n c 1 3",
    "setpriv --reuid 0 --regid 0 --clear-groups sh -c 'echo x > f'",
    "setpriv --bounding-set=-all chmod 600 f",
    "chroot / sh -c \"cd '$PWD'; echo x > f\"",
    "install -o 12 f g",
];

/// Waits for the next tick of the clock that file systems take their times from: a change in the same tick does not
/// show.
fn until_next_tick() {
    let file = rustix::fs::memfd_create("tick", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let now = || {
        rustix::io::pwrite(&file, b"x", 0).unwrap();
        let found = rustix::fs::fstat(&file).unwrap();
        (found.st_mtime, found.st_mtime_nsec)
    };
    let before = now();
    while now() == before {
        std::thread::yield_now();
    }
}

fn attempt(script: &str, user: u32) {
    let world = ConfinedDir::of(user);
    let before = world.state();
    let refused = confined(bash(script, user).cwd(&world.path));
    let said = refused.stderr.text();
    assert!(!refused.is_success(), "`{script}` by {user} succeeds: {said}");
    assert!(world.state() == before, "`{script}` by {user} changes something: {said}");
    assert!(refused.refusal_hint.is_some(), "`{script}` by {user} is refused without a hint: {said}");

    until_next_tick();
    let done = run(&bash(script, user).cwd(&world.path), None).unwrap();
    assert!(done.is_success(), "`{script}` by {user} is no attempt: {}", done.stderr.text());
    assert!(world.state() != before, "`{script}` by {user} would change nothing anyway");
}

#[test]
fn root_cannot_change_files() {
    CHANGES.iter().chain(CHANGES_OF_ROOT).for_each(|script| attempt(script, 0));
}

#[test]
fn another_user_cannot_change_files_of_their_own() {
    CHANGES.iter().for_each(|script| attempt(script, NOBODY));
}

/// Operations that set a value to its current value.
const SAME_AGAIN: &[&str] = &[
    "python3 -c 'import socket; socket.sethostname(socket.gethostname())'",
    "v=$(cat /proc/sys/vm/swappiness); echo $v > /proc/sys/vm/swappiness",
    "sysctl -w vm.swappiness=$(cat /proc/sys/vm/swappiness)",
    "v=$(cat /proc/$PPID/oom_score_adj); echo $v > /proc/$PPID/oom_score_adj",
    "python3 -c 'import os; os.setpriority(os.PRIO_PROCESS, os.getppid(), 0)'",
    "python3 -c 'import os; os.sched_setaffinity(os.getppid(), os.sched_getaffinity(os.getppid()))'",
    "python3 -c 'import resource, os; p = os.getppid(); resource.prlimit(p, 7, resource.prlimit(p, 7))'",
    // The flags of the loopback interface.
    "python3 -c 'import socket, fcntl; s = socket.socket(); \
        fcntl.ioctl(s, 0x8914, fcntl.ioctl(s, 0x8913, b\"lo\".ljust(32, b\"\\0\")))'",
    // A queue that is gone at once.
    "python3 -c 'import ctypes; c = ctypes.CDLL(None, use_errno=True); q = c.mq_open(b\"/kilter\", 0o102, 0o600, \
     None); \
        e = ctypes.get_errno(); c.mq_unlink(b\"/kilter\"); assert q >= 0, __import__(\"os\").strerror(e)'",
];

#[test]
fn root_cannot_change_the_machine() {
    for script in SAME_AGAIN {
        let refused = confined(bash(script, 0));
        assert!(!refused.is_success() && refused.refusal_hint.is_some(), "`{script}`: {}", refused.stderr.text());
        let done = free(script, 0);
        assert!(done.is_success(), "`{script}` is no attempt: {}", done.stderr.text());
    }
}

#[test]
fn dangerous_calls_of_root_are_refused() {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let number = |call: i64, arguments: &str| format!("c.syscall({call}, {arguments})");
    let mut calls = vec![
        ("settimeofday", number(libc::SYS_settimeofday, "0, 0")),
        ("reboot", number(libc::SYS_reboot, "0, 0, 0, 0")),
        ("delete_module", number(libc::SYS_delete_module, "b'none', 0")),
        ("bpf", number(libc::SYS_bpf, "99, 0, 0")),
        ("add_key", number(libc::SYS_add_key, "b'user', b'none', b'x', 1, -2")),
        ("io_uring_setup", number(425, "1, 0")),
        ("setxattrat", number(463, "-100, b'/', 0, b'user.a', 0, 0")),
        ("file_setattr", number(469, "-100, b'/none', 0, 0, 0")),
        ("mount", "c.mount(b'none', b'/mnt', b'tmpfs', 0, 0)".to_owned()),
        ("umount2", "c.umount2(b'/mnt', 0)".to_owned()),
        ("swapoff", "c.swapoff(b'/none')".to_owned()),
        ("ptrace", "c.ptrace(16, os.getppid(), 0, 0)".to_owned()),
        ("TIOCSTI", "c.ioctl(0, 0x5412, b'x')".to_owned()),
        ("a subvolume", "c.ioctl(0, 0x5000940e, 0)".to_owned()),
        ("a freeze", "c.ioctl(0, 0xc0045877, 0)".to_owned()),
        ("mounting in a namespace", "[c.unshare(0x10020000), c.mount(b'none', b'/mnt', b'tmpfs', 0, 0)][1]".to_owned()),
    ];
    if cfg!(target_arch = "x86_64") {
        calls.push(("an x32 call", number((1 << 30) + libc::SYS_fchmod, "0, 0o600")));
    }
    for (name, call) in calls {
        let script = format!(
            "import ctypes, os; c = ctypes.CDLL(None, use_errno=True); r = {call}; print(r, ctypes.get_errno())"
        );
        let finished = confined(Invocation::new("python3").args(["-c", &script]).captured(4096));
        assert_eq!(finished.stdout.text(), "-1 1\n", "{name}: {}", finished.stderr.text());
    }
    assert_eq!(std::fs::read_to_string("/proc/self/mountinfo").unwrap(), mounts);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_32_bit_call_ends_the_child() {
    // `mov $20, %eax; int $0x80; ret`: getpid, by the number and the way of 32-bit programs.
    let script = "import ctypes, mmap; m = mmap.mmap(-1, 4096, prot=7); \
                  m.write(b'\\xb8\\x14\\0\\0\\0\\xcd\\x80\\xc3'); \
        f = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m))); print(f() > 0)";
    let invocation = Invocation::new("python3").args(["-c", script]).captured(4096);
    assert_eq!(run(&invocation, None).unwrap().stdout.text(), "True\n", "this kernel runs no 32-bit programs");
    assert_eq!(confined(invocation).status, Status::Signal(libc::SIGSYS));
}

#[test]
fn a_caller_without_privileges_can_confine_too() {
    let world = ConfinedDir::of(NOBODY);
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // Of this thread alone.
            let (uid, gid) = (rustix::process::Uid::from_raw(NOBODY), rustix::process::Gid::from_raw(NOBODY));
            rustix::thread::set_thread_groups(&[]).unwrap();
            rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
            rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
            let sh = |script: &str| Invocation::new("sh").args(["-c", script]).captured(4096).cwd(&world.path);
            let before = world.state();
            for script in ["echo x > f", "chmod 600 f", "touch f", "rm f"] {
                assert!(!confined(sh(script)).is_success(), "{script}");
            }
            assert!(world.state() == before);
            let works = confined(sh("cat f; echo tmp > $TMPDIR/x; cat $TMPDIR/x; id -u"));
            assert_eq!(works.stdout.text(), "as it was\ntmp\n65534\n", "{}", works.stderr.text());
            assert!(run(&sh("echo x > f"), None).unwrap().is_success());
        });
        thread.join().unwrap();
    });
}

/// A process of a user that is nobody's child here.
struct Outside(Child);

impl Outside {
    fn of(user: u32) -> Outside {
        let mut cat = Command::new("cat");
        cat.stdin(Stdio::piped()).stdout(Stdio::piped()).uid(user).gid(user);
        Outside(cat.spawn().unwrap())
    }

    /// Returns true if the process answers: the kernel delivers a signal before the process runs on.
    fn is_alive(&mut self) -> bool {
        let (input, output) = (self.0.stdin.as_mut().unwrap(), self.0.stdout.as_mut().unwrap());
        let mut answer = [0; 2];
        input.write_all(b"?\n").is_ok() && output.read_exact(&mut answer).is_ok() && answer == *b"?\n"
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        self.0.wait().unwrap();
    }
}

#[test]
fn no_process_outside_can_be_signalled() {
    for user in [0, NOBODY] {
        let mut outside = Outside::of(user);
        let pid = outside.0.id();
        let by_name = format!("python3 -c 'import os, signal; signal.pidfd_send_signal(os.pidfd_open({pid}), 9)'");
        for script in [format!("kill {pid}"), format!("kill -9 {pid}"), format!("setsid -w kill -9 {pid}"), by_name] {
            let refused = confined(bash(&script, user));
            assert!(!refused.is_success() && refused.refusal_hint.is_some(), "{}", refused.stderr.text());
            assert!(outside.is_alive(), "`{script}` by {user}");
        }
        assert!(free(&format!("kill -9 {pid}"), user).is_success());
        outside.0.wait().unwrap();
    }
}

/// Operations that a confined child must be able to make; each prints `done`.
const HARMLESS: &[&str] = &[
    "read -r line < /etc/passwd; test -n \"$line\"; echo done",
    "ls -lR /etc >/dev/null; id >/dev/null; echo done",
    "ps -e >/dev/null && grep -q MemTotal /proc/meminfo && echo done",
    "echo done | cat | tee /dev/null",
    "echo done > /dev/stdout; echo note > /dev/stderr",
    "echo done > /dev/fd/1",
    "cat <(echo done)",
    "echo > /dev/null; echo >> /dev/null; head -c 9 /dev/zero > /dev/null; echo done",
    "cat <<END\ndone\nEND",
    // Too long for a pipe: a file it is.
    "x=$(printf '%0200000d' 0); test $(cat <<END | wc -c\n$x\nEND\n) = 200001 && echo done",
    "cat > $TMPDIR/a && echo done > $TMPDIR/a && mv $TMPDIR/a $TMPDIR/b && ln $TMPDIR/b $TMPDIR/c && cat $TMPDIR/c",
    "mkdir $TMPDIR/x $TMPDIR/y && echo done > $TMPDIR/x/f && mv $TMPDIR/x/f $TMPDIR/y && cat $TMPDIR/y/f && rm -r \
     $TMPDIR/y",
    "t=$(mktemp) && d=$(mktemp -d) && mkfifo $d/p && { echo done > $d/p & cat $d/p; } && rm -r $t $d",
    "seq 300000 | sort -rn -S 1M | tail -n 1 >/dev/null; echo done",
    "python3 -c 'import tempfile; f = tempfile.TemporaryFile(); f.write(b\"x\"); print(\"done\")'",
    "python3 -c 'import os, pty; a, b = pty.openpty(); os.write(b, b\"done\\n\"); print(os.read(a, \
     9).split()[0].decode())'",
    "python3 -c 'import threading, subprocess; t = threading.Thread(target=lambda: subprocess.run([\"echo\", \
     \"done\"])); t.start(); t.join()'",
    "sleep 60 & kill $!; wait $!; test $? = 143 && echo done",
    "sleep 60 & disown; kill -9 $!; echo done",
    "nice -n 5 true && ulimit -n 100 && umask 077 && cd / && echo done",
    "exec 3<>$TMPDIR/lock; flock 3; echo done",
    "trap 'echo done' EXIT; exit 0",
    "find / -maxdepth 2 >/dev/null; df >/dev/null; uname -a >/dev/null; echo done",
];

const HARMLESS_OF_ROOT: &[&str] = &[
    "test -n \"$(cat /etc/shadow)\" && echo done",
    "setpriv --reuid 65534 --regid 65534 --clear-groups sh -c 'test $(id -u) = 65534 && echo done'",
    // The modes of files do not stop root from reading.
    "cd $TMPDIR && umask 777 && : > f && cat f && echo done",
];

#[test]
fn reading_running_programs_and_temporary_files_work() {
    let of = |scripts: &'static [&str], user| scripts.iter().map(move |script| (script, user));
    for (script, user) in of(HARMLESS, 0).chain(of(HARMLESS_OF_ROOT, 0)).chain(of(HARMLESS, NOBODY)) {
        let finished = confined(bash(script, user).stdin(""));
        let (out, err) = (finished.stdout.text(), finished.stderr.text());
        assert!(finished.is_success() && out == "done\n", "`{script}` by {user}: {out}{err}{}", finished.status);
    }
}

#[test]
fn script_without_a_file_runs_confined() {
    for user in [0, NOBODY] {
        let text = "#!/usr/bin/python3 -I\nimport sys; print(sys.argv[1:]); open('/etc/kilter-wrote', 'w')\n";
        let invocation = Invocation::new("told.prov").script(text).arg("a").captured(4096);
        let identity = (user != 0).then(|| Identity { uid: user, gid: user, groups: Vec::new() });
        let ended = confined(Invocation { identity, ..invocation });
        assert_eq!(ended.stdout.text(), "['a']\n", "{ended:?}");
        assert!(ended.stderr.text().contains("Permission denied"), "{ended:?}");
    }
}

#[test]
fn temporary_directory_is_private_and_removed() {
    for user in [0, NOBODY] {
        for ending in [Termination::Exited, Termination::Deadline] {
            let script = "mkdir -p $TMPDIR/a/b; : > $TMPDIR/a/b/c; stat -c '%a %u %n' $TMPDIR; test -z $0 || sleep 60";
            let mut invocation = bash(script, user).env("TMPDIR", "/nowhere");
            if ending == Termination::Deadline {
                invocation = invocation.arg("wait").deadline(Duration::from_millis(500));
            } else {
                invocation = invocation.arg("");
            }
            let finished = confined(invocation);
            assert_eq!(finished.ending, ending);
            let said = finished.stdout.text();
            let path = said.trim_end().strip_prefix(&format!("700 {user} ")).unwrap_or_else(|| panic!("{said}"));
            assert!(path.starts_with('/') && !Path::new(path).exists(), "{path}");
        }
    }
}

#[test]
fn confinement_affects_only_its_child() {
    let world = ConfinedDir::of(0);
    let before = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    assert!(!confined(bash("echo x > f", 0).cwd(&world.path)).is_success());
    let held = |status: &str| -> Vec<String> {
        let names = ["NoNewPrivs", "Seccomp", "Cap"];
        status.lines().filter(|line| names.iter().any(|name| line.starts_with(name))).map(str::to_owned).collect()
    };
    let after = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    assert_eq!(held(&before), held(&after));
    std::fs::write(world.path.join("f"), "by the caller").unwrap();
    std::fs::set_permissions(world.path.join("f"), PermissionsExt::from_mode(0o600)).unwrap();
    assert!(run(&bash("echo x > f; chmod 644 f", 0).cwd(&world.path), None).unwrap().is_success());
    let of_another_thread = std::thread::scope(|scope| {
        scope.spawn(|| std::fs::write(world.path.join("g"), "by another thread")).join().unwrap()
    });
    of_another_thread.unwrap();
}

#[test]
fn isolated_child_has_no_network() {
    let listener = ConfinedDir::of(0);
    let socket = listener.path.join("s");
    let _open = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let connect = format!("import socket; socket.socket(socket.AF_UNIX).connect('{}')", socket.display());
    let udp = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(('127.0.0.1', 9))".to_owned();
    let pair = "import socket; a, b = socket.socketpair(); a.send(b'x'); b.recv(1)".to_owned();
    let netlink =
        "import socket; socket.if_nameindex(); socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)".to_owned();
    let outcome = |script: &str, confinement| {
        let invocation = Invocation::new("python3").args(["-c", script]).captured(4096).confined(confinement);
        let finished = run(&invocation, None).unwrap();
        assert_eq!(finished.confined, Confined::Fully);
        finished.status
    };
    for (script, alone) in [(&connect, 1), (&udp, 1), (&pair, 0), (&netlink, 0)] {
        assert_eq!(outcome(script, Confinement::ReadOnlyAlone), Status::Code(alone), "{script}");
        assert_eq!(outcome(script, Confinement::ReadOnly), Status::Code(0), "{script}");
    }
    let world = ConfinedDir::of(0);
    let write = format!("open('{}', 'w')", world.path.join("f").display());
    assert_eq!(outcome(&write, Confinement::ReadOnlyAlone), Status::Code(1));
}

#[test]
fn abstract_sockets_and_foreign_process_memory_are_refused() {
    let name = format!("confined-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let _open = std::os::unix::net::UnixListener::bind_addr(&address).unwrap();
    let outside = Outside::of(0);
    let connect = format!("python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"\\0{name}\")'");
    let pid = outside.0.id();
    for script in [connect, format!("cat /proc/{pid}/environ"), format!("ls -l /proc/{pid}/fd/")] {
        let refused = confined(bash(&script, 0));
        assert!(!refused.is_success() && refused.refusal_hint.is_some(), "`{script}`: {}", refused.stderr.text());
        let done = free(&script, 0);
        assert!(done.is_success(), "`{script}`: {}", done.stderr.text());
    }
}

#[test]
fn confined_process_group_ends_at_deadline() {
    let invocation = bash("trap '' TERM; (trap '' TERM; sleep 16.1803) & sleep 16.1803; sleep 16.1803", 0);
    let mut invocation = invocation.deadline(Duration::from_millis(300));
    invocation.grace = Duration::from_millis(100);
    let finished = confined(invocation);
    assert_eq!((finished.ending, finished.status), (Termination::Deadline, Status::Signal(9)));
}

#[test]
fn observer_gets_confinement_at_start() {
    let mut told = Vec::new();
    let invocation = Invocation::new("true").confined(Confinement::ReadOnly);
    run_observed(&invocation, None, &mut |event| {
        if let Event::Spawned { confined, .. } = event {
            told.push(confined.clone());
        }
    })
    .unwrap();
    assert_eq!(told, [Confined::Fully]);
    assert_eq!(can_confine(Confinement::ReadOnly), Confined::Fully);
    assert_eq!(can_confine(Confinement::None), Confined::NotAsked);
}

#[test]
fn kernel_without_landlock_runs_child_unconfined() {
    let world = ConfinedDir::of(0);
    let finished = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // A kernel without it, as far as this thread and its children can tell.
            let rules = [(libc::SYS_landlock_create_ruleset, Vec::new())].into_iter().collect();
            let missing = seccompiler::SeccompAction::Errno(libc::ENOSYS as u32);
            let target = std::env::consts::ARCH.try_into().unwrap();
            let filter = seccompiler::SeccompFilter::new(rules, seccompiler::SeccompAction::Allow, missing, target);
            let filter: seccompiler::BpfProgram = filter.unwrap().try_into().unwrap();
            seccompiler::apply_filter(&filter).unwrap();
            let invocation = bash("echo x > f; chmod 600 f; kill -0 $PPID", 0).cwd(&world.path);
            run(&invocation.confined(Confinement::ReadOnly), None).unwrap()
        });
        thread.join().unwrap()
    });
    let Confined::No { why } = &finished.confined else { panic!("{:?}", finished.confined) };
    assert_eq!(why, "this kernel has no Landlock, or it is switched off");
    assert!(finished.is_success(), "{}", finished.stderr.text());
    assert_eq!(finished.refusal_hint, None);
    assert_eq!(std::fs::read(world.path.join("f")).unwrap(), b"x\n");
}

#[test]
fn confined_start_failure_has_reason() {
    let of = |invocation: Invocation| run(&invocation.confined(Confinement::ReadOnly), None).unwrap_err().to_string();
    assert_eq!(of(Invocation::new("/no/such/program")), "cannot start `/no/such/program`");
    let nowhere = of(Invocation::new("true").cwd("/no/such/dir"));
    assert_eq!(nowhere, "cannot enter the working directory /no/such/dir");
}

#[test]
fn synthetic_output_is_not_confined() {
    let made_up = Output::of(Status::Code(3));
    assert_eq!((made_up.confined, made_up.stdout), (Confined::NotAsked, Captured::default()));
}
