//! Passwords and secrets of a session on another host: they are in no argument, no environment and no file.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::mpsc::{TryRecvError, channel};
use std::time::SystemTime;

use kilter_testkit::fleet::Fleet;
use kilter_testkit::hosts::{Host, sandboxed};

use crate::KILTER;

/// The password of `sudo`, and the content of a file. The lines of `/etc/patterns` on the host.
const SECRETS: [&str; 2] = ["Sudo-pa55 of ops", "planted-content-0815"];

/// Places of the host in which a session could leave something. The declared file has the content.
const SEARCH: &str = "grep --recursive --files-with-matches --text --fixed-strings --no-messages --devices=skip \
                      --file=/etc/patterns --exclude=secret.conf /dev/shm /etc/sudoers.d /home /opt /root /run /srv /tmp \
                      /var /proc/[0-9]*/cmdline /proc/[0-9]*/environ || true";

fn found_on(host: &Host) -> BTreeSet<String> {
    host.bash(SEARCH).lines().map(str::to_owned).collect()
}

fn contains(path: &Path, secret: &str) -> bool {
    let bytes = std::fs::read(path).unwrap_or_default();
    bytes.windows(secret.len()).any(|window| window == secret.as_bytes())
}

/// Searches a directory of the controller, without its inputs.
fn found_below(directory: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_input = ["hosts.yaml", "content", "patterns"].iter().any(|name| path.ends_with(name));
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            found_below(&path, found);
        } else if kind.is_file() && !is_input && SECRETS.iter().any(|secret| contains(&path, secret)) {
            found.insert(path.display().to_string());
        }
    }
}

/// Searches the arguments and environments of all processes, those of hosts included, and the files of the controller.
/// In directories that others use too, it searches only what is younger than `start`.
fn found_here(start: SystemTime) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        for path in ["cmdline", "environ"].map(|name| process.path().join(name)) {
            if SECRETS.iter().any(|secret| contains(&path, secret)) {
                found.insert(path.display().to_string());
            }
        }
    }
    found_below(Path::new("/run/kilter/controller"), &mut found);
    for directory in ["/tmp", "/var/tmp", "/dev/shm"] {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let is_new = entry.metadata().and_then(|found| found.created()).is_ok_and(|created| created >= start);
            if is_new && entry.path().is_dir() {
                found_below(&entry.path(), &mut found);
            } else if is_new && entry.path().is_file() && SECRETS.iter().any(|secret| contains(&entry.path(), secret)) {
                found.insert(entry.path().display().to_string());
            }
        }
    }
    found
}

#[test]
fn password_of_sudo_and_secret_content_are_in_no_process_and_no_file() {
    sandboxed("secrets::password_of_sudo_and_secret_content_are_in_no_process_and_no_file", || {
        let start = SystemTime::now();
        let fleet = &Fleet::boot(KILTER.into(), 1, &[]).unwrap();
        let host = fleet.host(1);
        fleet.write("patterns", &format!("{}\n", SECRETS.join("\n"))).unwrap();
        fleet.write("content", &format!("{}\n", SECRETS[1])).unwrap();
        host.copy(&[(Path::new("/run/kilter/controller/patterns"), "/etc/patterns")]);
        host.bash(
            "useradd --create-home --shell /bin/bash ops
            (printf ops:; head -n 1 /etc/patterns) | chpasswd
            echo 'ops ALL=(ALL) ALL' >/etc/sudoers.d/ops
            install -d -m 700 -o ops -g ops /home/ops/.ssh
            install -m 600 -o ops -g ops /root/.ssh/authorized_keys /home/ops/.ssh",
        );
        // The search finds an argument and a file.
        let control =
            "xargs -a /etc/patterns -d '\\n' sh -c 'sleep 600' >/dev/null 2>&1 & cp /etc/patterns /var/tmp/control";
        host.bash(&format!(
            "systemd-run --quiet --unit=control bash -c {}; sleep 1",
            shell_word(&format!("{control}; wait"))
        ));
        let found = found_on(host);
        assert!(found.contains("/var/tmp/control") && found.iter().any(|path| path.ends_with("/cmdline")), "{found:?}");
        assert!(!found_here(start).is_empty());
        host.bash("systemctl stop control; rm /var/tmp/control");

        let become_user = format!("become: {{method: sudo, password: {}}}", SECRETS[0]);
        let ssh = format!("ssh: {{user: ops, host: {}}}", host.address());
        fleet.write("hosts.yaml", &format!("hosts:\n  h1: {{{ssh}, {become_user}}}\n")).unwrap();
        fleet
            .write(
                "site.yaml",
                "vars: {password: {sensitive: {file: content}}}\nresources:\n  \
                 file[/srv/secret.conf]: {content: 'password = ${vars.password}', mode: '0600'}\n  \
                 exec[reload]: {command: [sleep, '1'], subscribe: 'file[/srv/secret.conf]', refreshonly: true}\n",
            )
            .unwrap();
        let (commands_run, commands_end) = channel::<()>();
        let (searches, found) = std::thread::scope(move |scope| {
            // A failure drops it, too.
            let commands_run = commands_run;
            let search = scope.spawn(move || {
                let (mut searches, mut found) = (0, BTreeSet::new());
                while commands_end.try_recv() != Err(TryRecvError::Disconnected) {
                    found.extend(found_here(start));
                    found.extend(found_on(host));
                    searches += 1;
                }
                (searches, found)
            });
            for round in 0..4 {
                let commands: [(i32, &[&str]); 6] = [
                    (2, &["--on", "h1", "plan", "site.yaml", "-o", "h1.plan"]),
                    (0, &["apply", "--yes", "--confirm-within", "60s", "h1.plan"]),
                    (0, &["--on", "h1", "run", "--converged-exit", "--converged-timeout", "0", "site.yaml"]),
                    (0, &["--on", "h1", "history", "show", "last", "--processes"]),
                    (0, &["--on", "h1", "--no-cache", "get", "file", "/srv/secret.conf"]),
                    (0, &["--on", "h1", "set", "file", "/srv/secret.conf", "ensure=absent"]),
                ];
                for (code, args) in commands {
                    let ended = fleet.kilter(args);
                    assert_eq!(ended.code, code, "round {round}: {args:?}: {}{}", ended.stdout, ended.stderr);
                    let shown = [&*ended.stdout, &*ended.stderr].concat();
                    // `get` shows the content of a file to root.
                    let is_get = args.contains(&"get");
                    assert!(is_get || !SECRETS.iter().any(|secret| shown.contains(secret)), "{args:?}: {shown}");
                }
            }
            drop(commands_run);
            search.join().unwrap()
        });
        println!("{searches} searches during 24 commands");
        assert!(searches >= 4 && found.is_empty(), "{searches} searches: {found:?}");
        assert_eq!(found_on(host), BTreeSet::new());
    });
}

/// Returns a text as one word of a shell.
fn shell_word(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}
