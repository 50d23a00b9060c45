//! An unprivileged account against root's `plan`, `apply` and `run`.
//!
//! The account makes links, FIFOs, hard links, exchanges, access lists, huge files and directories full of them. It
//! makes them at every path that root manages, reads or executes, and at its own `authorized_keys`. It must not make
//! root read or write a file of root, or wait.
//!
//! `KILTER_ATTACK_SECONDS=600 cargo test -p kilter --test attacker -- --nocapture` runs it for ten minutes.
//! `KILTER_ATTACK_PROGRAM` is the path of another kilter, such as one of `cargo xtask dist`, which is faster than a
//! debug build.

#![expect(clippy::unwrap_used, reason = "a test may end where it cannot go on")]

use std::fs::{self, Permissions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, RenameFlags, XattrFlags, mkfifoat, renameat_with, setxattr};

/// The attacker: no account of its own, so that nothing else uses it.
const ATTACKER: u32 = 54_322;

/// Targets of the attacker.
const SECRET: &str = "TOP-SECRET-53d1";

/// Files that no other user may change.
const UNTOUCHED: &str = "untouched\n";

/// Seconds of the normal tests.
const SECONDS: u64 = 4;

/// Permitted additional time of a command compared with a run without the attacker.
const DELAY: Duration = Duration::from_secs(1);

/// The names below `open`, `shared` and `home` that root manages, reads or executes.
const NAMES: [&str; 11] =
    ["content", "secret", "source", "copy", "backed", "tree", "directory", "part.yaml", "program", "plan", "acl"];

const PLACES: [&str; 3] = ["open", "shared", "home"];

/// The account of the attacker, and one whose keys the attacker must not touch; only the tests know them.
const ACCOUNTS: [(&str, u32, &str); 2] =
    [("kilter-mallory", ATTACKER, "home"), ("kilter-victim", 54_323, "root/victim")];

/// A public key that root declares, of which nobody has the private one.
const KEY: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl";

/// A public key that root removes.
const OLD_KEY: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJm";

/// The most files in a directory that the attacker fills.
const MOST_FILES: usize = 200;

struct Arena(tempfile::TempDir);

impl Arena {
    fn new() -> Arena {
        let arena = Arena(tempfile::tempdir().unwrap());
        arena.mode("", 0o755);
        for (name, mode) in [("open", 0o777), ("shared", 0o1777), ("home", 0o755), ("root", 0o755), ("victims", 0o755)]
        {
            fs::create_dir(arena.path(name)).unwrap();
            arena.mode(name, mode);
        }
        chown(arena.path("home"), Some(ATTACKER), Some(ATTACKER)).unwrap();
        arena.file("root/secret", &format!("{SECRET}\n"), 0o600);
        arena.file("victims/file", UNTOUCHED, 0o644);
        fs::create_dir_all(arena.path("root/tree/below")).unwrap();
        for n in 0..5 {
            arena.file(&format!("root/tree/below/f{n}"), "of the tree\n", 0o644);
        }
        let at = arena.path("").display().to_string();
        let at = at.trim_end_matches('/');
        let mut managed = String::from("resources:\n");
        for place in PLACES {
            managed += &format!(
                "  file[{at}/{place}/content]: {{ content: of root, owner: root, mode: '0644' }}\n  \
                 file[{at}/{place}/secret]: {{ content: {{ sensitive: {SECRET} }}, owner: root, group: root, mode: \
                 '0600' }}\n  \
                 file[{at}/{place}/backed]: {{ content: new, backup: true }}\n  \
                 file[{at}/{place}/tree]: {{ ensure: directory, recurse: true, source: {at}/root/tree, purge: true, \
                 force: true }}\n  \
                 file[{at}/{place}/directory]: {{ ensure: directory, recurse: true, owner: root, mode: \
                 'u=rwX,go=rX' }}\n"
            );
        }
        arena.file("root/managed.yaml", &managed, 0o644);
        arena.accounts();
        for place in PLACES {
            let copied =
                format!("resources: {{ 'file[{at}/root/copied]': {{ source: {at}/{place}/source, mode: '0644' }} }}\n");
            arena.file(&format!("root/copies-{place}.yaml"), &copied, 0o644);
            let includes = format!("include: [{at}/{place}/part.yaml]\nresources: {{}}\n");
            arena.file(&format!("root/includes-{place}.yaml"), &includes, 0o644);
        }
        fs::copy(std::env::current_exe().unwrap(), arena.path("attacker")).unwrap();
        arena.mode("attacker", 0o755);
        arena
    }

    /// Adds the accounts, their homes, and the keys that root declares.
    fn accounts(&self) {
        let mut passwd = fs::read_to_string("/etc/passwd").unwrap();
        let mut keys = String::from("resources:\n");
        for (name, uid, home) in ACCOUNTS {
            let home = self.path(home);
            passwd += &format!("{name}:x:{uid}:{uid}::{}:/bin/sh\n", home.display());
            fs::create_dir_all(&home).unwrap();
            chown(&home, Some(uid), Some(uid)).unwrap();
            for (comment, key, ensure) in [("work", KEY, "present"), ("old", OLD_KEY, "absent")] {
                keys += &format!(
                    "  ssh_authorized_key[{name}:{comment}]: {{ ensure: {ensure}, user: {name}, type: ssh-ed25519, \
                     key: {key} }}\n"
                );
            }
        }
        self.file("root/passwd", &passwd, 0o644);
        self.file("root/keys.yaml", &keys, 0o644);
    }

    /// Gives the attacker empty directories: what root made there is in the attacker's way.
    fn clear(&self, round: usize) {
        for place in ["open", "home"] {
            let away = self.path(&format!("root/{place}-{round}"));
            let found = fs::metadata(self.path(place)).unwrap();
            fs::rename(self.path(place), &away).unwrap();
            fs::create_dir(self.path(place)).unwrap();
            fs::set_permissions(self.path(place), found.permissions()).unwrap();
            chown(self.path(place), Some(found.uid()), Some(found.gid())).unwrap();
            // The attacker may still be writing there.
            let _ = fs::remove_dir_all(away);
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), Permissions::from_mode(mode)).unwrap();
    }

    fn file(&self, name: &str, text: &str, mode: u32) {
        fs::write(self.path(name), text).unwrap();
        self.mode(name, mode);
    }

    fn kilter(&self, args: &[&str]) -> Command {
        // The machine knows the accounts in this process alone.
        let mut command = Command::new("unshare");
        command.args([
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-euc",
            "mount --bind \"$0\" /etc/passwd; exec \"$@\"",
        ]);
        let kilter = std::env::var_os("KILTER_ATTACK_PROGRAM").unwrap_or_else(|| env!("CARGO_BIN_EXE_kilter").into());
        command.arg(self.path("root/passwd")).arg(kilter);
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").current_dir(self.path("")).args(args);
        command.arg("--state-dir").arg(self.path("root/state")).stdin(Stdio::null());
        command
    }

    /// Commands of root in one round.
    fn commands(&self) -> Vec<Vec<String>> {
        let of_root = |name: &str| vec!["apply".to_owned(), format!("root/{name}.yaml")];
        let mut commands = vec![of_root("managed"), of_root("keys")];
        for place in PLACES {
            commands.push(vec!["apply".to_owned(), format!("root/copies-{place}.yaml")]);
            commands.push(vec!["plan".to_owned(), format!("root/includes-{place}.yaml")]);
            commands.push(vec!["apply".to_owned(), format!("{place}/program")]);
            commands.push(vec!["plan".to_owned(), "root/managed.yaml".into(), "-o".into(), format!("{place}/plan")]);
            commands.push(vec!["apply".to_owned(), format!("{place}/plan")]);
        }
        commands
    }

    /// Runs a command of root; how long it took.
    fn run(&self, args: &[String]) -> Duration {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let begun = Instant::now();
        let output = self.kilter(&args).output().unwrap();
        let took = begun.elapsed();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(!said.contains(SECRET), "{args:?} shows the secret: {said}");
        assert!(!said.contains("there is a defect"), "{args:?}: {said}");
        if args == ["apply", "root/keys.yaml"] {
            let [_, (name, _, home)] = ACCOUNTS;
            let keys = fs::read_to_string(self.path(home).join(".ssh/authorized_keys")).unwrap_or_default();
            assert_eq!(keys, format!("ssh-ed25519 {KEY} work\n"), "the attacker is in the way of {name}: {said}");
        }
        self.check(&args);
        took
    }

    /// Nothing of root was written, executed or copied to where others can read it.
    fn check(&self, args: &[&str]) {
        assert_eq!(fs::read_to_string(self.path("victims/file")).unwrap(), UNTOUCHED, "{args:?}");
        let found = fs::metadata(self.path("victims/file")).unwrap();
        assert_eq!((found.uid(), found.mode() & 0o7777), (0, 0o644), "{args:?}");
        let names: Vec<_> =
            fs::read_dir(self.path("victims")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["file"], "{args:?} wrote behind a link");
        let secret = fs::symlink_metadata(self.path("root/secret")).unwrap();
        assert_eq!((secret.uid(), secret.mode() & 0o7777), (0, 0o600), "{args:?}");
        let copied = fs::read_to_string(self.path("root/copied")).unwrap_or_default();
        assert!(!copied.contains(SECRET), "{args:?} copied the secret");
        let mark = fs::symlink_metadata(self.path("open/ran-as-0"));
        assert!(mark.is_err(), "{args:?} executed the attacker's program as root");
    }

    fn attacker(&self) -> Child {
        let mut command = Command::new(self.path("attacker"));
        command.args(["--exact", "attack", "--ignored", "--nocapture"]).env_clear().env("KILTER_ARENA", self.path(""));
        command.uid(ATTACKER).gid(ATTACKER).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap()
    }
}

#[test]
fn unprivileged_user_cannot_read_write_or_delay_root() {
    assert!(rustix::process::geteuid().is_root(), "run this test as root: it runs kilter against another user");
    let seconds = std::env::var("KILTER_ATTACK_SECONDS").ok().and_then(|text| text.parse().ok());
    // The same commands at the same time, where no attacker is.
    let arenas = [Arena::new(), Arena::new()];
    let [arena, _] = &arenas;
    let mut attackers = [arena.attacker(), arena.attacker()];
    let until = Instant::now() + Duration::from_secs(seconds.unwrap_or(SECONDS));
    let (commands, mut rounds) = (arena.commands(), 0);
    // The longest time of each command, with and without an attacker.
    let mut longest = vec![[Duration::ZERO; 2]; commands.len()];
    while Instant::now() < until {
        for (args, longest) in commands.iter().zip(&mut longest) {
            for (arena, longest) in arenas.iter().zip(longest) {
                *longest = arena.run(args).max(*longest);
            }
        }
        rounds += 1;
        for manifest in ["root/managed.yaml", "root/keys.yaml"] {
            hold(arena, manifest);
        }
        arenas.iter().for_each(|arena| arena.clear(rounds));
    }
    attackers.iter_mut().for_each(end);
    let by_delay = |[attacked, calm]: &[Duration; 2]| attacked.saturating_sub(*calm);
    for ([attacked, calm], args) in longest.iter().zip(&commands) {
        println!("at most {attacked:?}, without an attacker {calm:?}: {}", args.join(" "));
    }
    let delay = longest.iter().map(by_delay).max().unwrap();
    println!("{rounds} rounds of {} commands, delayed by at most {delay:?}", commands.len());
    // A few seconds on a busy machine measure the machine: there only a wait without end counts.
    let most = if seconds.is_some() { DELAY } else { DELAY * 20 };
    assert!(delay < most, "a command took {delay:?} longer than without an attacker");
}

/// Ends an attacker, which has read nothing of root.
fn end(attacker: &mut Child) {
    attacker.kill().unwrap();
    let mut said = String::new();
    attacker.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    attacker.wait().unwrap();
    assert!(!said.contains("LEAK"), "the attacker has read it: {said}");
}

/// Holds the state for a second, and ends it.
fn hold(arena: &Arena, manifest: &str) {
    let args = ["run", manifest, "--max-runtime", "1", "--quiet"];
    let begun = Instant::now();
    let output = arena.kilter(&args).output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(!said.contains(SECRET) && !said.contains("there is a defect"), "{said}");
    assert!(begun.elapsed() < Duration::from_secs(20), "a run of one second took {:?}", begun.elapsed());
    arena.check(&args);
}

#[test]
#[ignore = "it is the attacker of the test above, in a process of another user"]
fn attack() {
    let Some(arena) = std::env::var_os("KILTER_ARENA").map(PathBuf::from) else { return };
    assert!(!rustix::process::geteuid().is_root());
    let own = arena.join("home");
    let mut random = fastrand::Rng::new();
    loop {
        if random.usize(..8) == 0 {
            let _ = replace_keys(&arena, &mut random);
        }
        let place = arena.join(PLACES[random.usize(..PLACES.len())]);
        let name = NAMES[random.usize(..NAMES.len())];
        let path = place.join(name);
        let new = place.join(format!(".mine-{}-{}", std::process::id(), random.u32(..4)));
        // What fails was root's, or is in the way: the next one is tried.
        let _ = prepare(&arena, &new, &mut random);
        // A source of 8 TiB that the manifest names is copied, however long that takes.
        if name == "source" && fs::symlink_metadata(&new).is_ok_and(|found| found.len() > 1 << 20) {
            continue;
        }
        let _ = match random.usize(..if name == "source" { 3 } else { 4 }) {
            0 => fs::rename(&new, &path),
            1 => renameat_with(CWD, &new, CWD, &path, RenameFlags::EXCHANGE).map_err(Into::into),
            2 => fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path)).and_then(|()| fs::rename(&new, &path)),
            _ => renameat_with(CWD, &path, CWD, own.join("moved"), RenameFlags::EXCHANGE).map_err(Into::into),
        };
        look(&path);
        look(&new);
    }
}

/// Lays something in wait.
fn prepare(arena: &Path, new: &Path, random: &mut fastrand::Rng) -> std::io::Result<()> {
    let _ = fs::remove_file(new).or_else(|_| fs::remove_dir_all(new));
    match random.usize(..10) {
        0 => symlink(arena.join("root/secret"), new),
        1 => symlink(arena.join("victims/file"), new),
        2 => symlink(arena.join("victims"), new),
        3 => Ok(mkfifoat(CWD, new, Mode::from_raw_mode(0o666))?),
        4 => fs::hard_link(arena.join("victims/file"), new),
        5 if random.bool() => fs::write(new, "\n".repeat(1 << 20)),
        5 => fs::File::create(new)?.set_len(huge(random)),
        6 => {
            let program = format!("#!/bin/sh\n>{}/open/ran-as-$(id -u)\necho 'resources: {{}}'\n", arena.display());
            fs::write(new, program)?;
            fs::set_permissions(new, Permissions::from_mode(0o755))
        }
        7 => {
            fs::create_dir(new)?;
            symlink(arena.join("victims"), new.join("below"))?;
            Ok(setxattr(new, "system.posix_acl_default", &access_list(), XattrFlags::empty())?)
        }
        8 => {
            // Some have the names, and some also the sizes, of files of root's tree.
            fs::create_dir_all(new.join("below"))?;
            for n in 0..random.usize(..MOST_FILES) {
                let name = if n < 5 { format!("below/f{n}") } else { format!("mine-{n}") };
                fs::File::create(new.join(name))?.set_len(if n == 0 { 12 } else { huge(random) })?;
            }
            Ok(())
        }
        _ => {
            fs::write(new, "mine")?;
            Ok(setxattr(new, "system.posix_acl_access", &access_list(), XattrFlags::empty())?)
        }
    }
}

/// The size of a sparse file: too large for any limit, or just below one.
fn huge(random: &mut fastrand::Rng) -> u64 {
    [8 << 40, 1 << 30, 16 << 20, 1 << 20][random.usize(..4)]
}

/// Exchanges the keys of the attacker, or the directory that has them.
fn replace_keys(arena: &Path, random: &mut fastrand::Rng) -> std::io::Result<()> {
    let home = arena.join("home");
    let (directory, new) = (home.join(".ssh"), home.join(format!(".keys-{}", std::process::id())));
    let _ = fs::remove_file(&new).or_else(|_| fs::remove_dir_all(&new));
    if random.usize(..4) == 0 {
        match random.usize(..3) {
            0 => fs::create_dir(&new)?,
            1 => symlink(arena.join("victims"), &new)?,
            _ => symlink(arena.join("root/victim/.ssh"), &new)?,
        }
        return Ok(renameat_with(CWD, &new, CWD, &directory, RenameFlags::EXCHANGE)
            .or_else(|_| rustix::fs::rename(&new, &directory))?);
    }
    match random.usize(..10) {
        0 => symlink(arena.join("root/secret"), &new)?,
        1 => symlink(arena.join("victims/file"), &new)?,
        2 => mkfifoat(CWD, &new, Mode::from_raw_mode(0o666))?,
        3 => fs::write(&new, "mine\n").and_then(|()| fs::hard_link(&new, home.join(".keys-twice")))?,
        4 => fs::File::create(&new)?.set_len(huge(random))?,
        // Lines that are as long, or as many, as a file that is still read may have.
        5 => fs::write(&new, ["a", ",", "\"a\"", "\"", "a\\\"", " "][random.usize(..6)].repeat((1 << 20) / 3))?,
        6 => fs::write(&new, format!("{} ssh-ed25519 {KEY} work\n", ["a"; 1 << 18].join(",")))?,
        7 => fs::write(&new, "a\n".repeat(1 << 19))?,
        8 => fs::write(&new, format!("ssh-ed25519 {OLD_KEY} work\n").repeat((1 << 20) / 90))?,
        _ => {
            fs::write(&new, format!("ssh-ed25519 {KEY} kilter-victim:work\ncommand=\"x\" ssh-ed25519 {OLD_KEY} old\n"))?
        }
    }
    fs::rename(&new, directory.join("authorized_keys"))
}

/// An access control list that lets the attacker read and write.
fn access_list() -> Vec<u8> {
    let none = u32::MAX;
    let entries = [(1u16, 6u16, none), (2, 6, ATTACKER), (4, 4, none), (16, 6, none), (32, 4, none)];
    let entry = |(tag, permissions, id): (u16, u16, u32)| {
        [&tag.to_le_bytes()[..], &permissions.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    [2u32.to_le_bytes().to_vec(), entries.map(entry).concat()].concat()
}

/// Reads what can be read, and reports the secret.
fn look(path: &Path) {
    if !fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() < 1 << 16) {
        return;
    }
    if let Ok(text) = fs::read_to_string(path)
        && text.contains(SECRET)
    {
        println!("LEAK {}", path.display());
    }
}
