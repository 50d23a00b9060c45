//! Trial of roll-outs to eight hosts that systemd has booted, over their real sshd.
//!
//! `cargo xtask rollout` builds the program and starts this one in a sandbox. Each part of the trial applies a change with
//! a known effect, and checks the exit code and the states of all hosts. A part that fails ends the trial.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use kilter_testkit::hosts::Host;
use serde_json::Value as Json;

/// Number of hosts.
const HOSTS: usize = 8;

/// Maximum time for an expected event.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Command that connects a host again.
const NETWORK_UP: &str = "ip link set host0 up; ip route replace default via 10.77.0.1";

fn main() -> ExitCode {
    match program().and_then(|program| FleetTrial::begin(program)?.run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

fn program() -> Result<PathBuf, String> {
    match std::env::args().skip(1).collect::<Vec<String>>().as_slice() {
        [option, path] if option == "--program" => Ok(PathBuf::from(path)),
        _ => Err("--program PATH is missing: use `cargo xtask rollout`".to_owned()),
    }
}

/// Part of a trial.
type FleetPart = fn(&FleetTrial) -> Result<(), String>;

/// Hosts and the files of their controller, which is the sandbox.
struct FleetTrial {
    program: PathBuf,
    directory: PathBuf,
    hosts: Vec<Host>,
}

/// Result of a command of the controller.
struct Finished {
    code: i32,
    stdout: String,
    stderr: String,
    time: Duration,
}

fn io(error: std::io::Error) -> String {
    error.to_string()
}

/// Fails with the output of a command if a condition does not hold.
fn expect(is_met: bool, what: &str, found: &Finished) -> Result<(), String> {
    let Finished { code, stdout, stderr, .. } = found;
    if is_met { Ok(()) } else { Err(format!("{what}\nexit code {code}\n{stdout}\n{stderr}")) }
}

fn wait(what: &str, condition: impl Fn() -> bool) -> Result<(), String> {
    let until = Instant::now() + TIMEOUT;
    while !condition() {
        if Instant::now() > until {
            return Err(format!("{what}: not within {} s", TIMEOUT.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

fn names(numbers: impl IntoIterator<Item = usize>) -> Vec<String> {
    numbers.into_iter().map(|number| format!("h{number}")).collect()
}

impl FleetTrial {
    /// Boots the hosts and writes the inventory.
    fn begin(program: PathBuf) -> Result<FleetTrial, String> {
        let directory = PathBuf::from("/run/kilter/controller");
        std::fs::create_dir_all(directory.join("home")).map_err(io)?;
        std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o700)).map_err(io)?;
        let key = directory.join("key");
        let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key).status();
        expect_status(made.map_err(io)?.success(), "ssh-keygen")?;
        let public = directory.join("key.pub");
        let begun = Instant::now();
        let files: &[(&Path, &str)] = &[(&public, "/root/.ssh/authorized_keys")];
        let hosts = std::thread::scope(|scope| {
            let up = |name: String| scope.spawn(move || Host::up(&name, files));
            let threads: Vec<_> = names(1..=HOSTS).into_iter().map(up).collect();
            let joined = threads.into_iter().map(|thread| thread.join().map_err(|_| "a host does not boot".to_owned()));
            joined.collect::<Result<Vec<Host>, String>>()
        })?;
        println!("{HOSTS} hosts booted: {:.1} s", begun.elapsed().as_secs_f64());
        let (mut known, mut inventory) = (String::new(), "hosts:\n".to_owned());
        for (host, name) in hosts.iter().zip(names(1..=HOSTS)) {
            let key = host.root().join("etc/ssh/ssh_host_ed25519_key.pub");
            known += &format!("{} {}", host.address(), std::fs::read_to_string(key).map_err(io)?);
            inventory += &format!("  {name}: {{ssh: {{host: {}}}}}\n", host.address());
        }
        let at = |name: &str| directory.join(name);
        std::fs::write(at("known_hosts"), known).map_err(io)?;
        std::fs::write(at("hosts.yaml"), inventory).map_err(io)?;
        let config = format!(
            "Host *\n User root\n IdentityFile {}\n UserKnownHostsFile {}\n",
            key.display(),
            at("known_hosts").display()
        );
        std::fs::write(at("ssh_config"), config).map_err(io)?;
        Ok(FleetTrial { program, directory, hosts })
    }

    fn run(&self) -> Result<(), String> {
        let facts = self.kilter(&["--on", "all", "facts", "kernel"]);
        expect(facts.code == 0, "first contact with all hosts", &facts)?;
        println!("first contact with {HOSTS} hosts: {:.1} s", facts.time.as_secs_f64());
        let parts: [(&str, FleetPart); 6] = [
            ("bad change is stopped at its limit", FleetTrial::bad_change),
            ("change that locks the controller out is undone", FleetTrial::locked_out),
            ("change that breaks sshd is undone", FleetTrial::broken_sshd),
            ("killed controller is resumed", FleetTrial::killed_controller),
            ("host that dies is resumed", FleetTrial::dying_host),
            ("hosts that are down, slow or flap are counted", FleetTrial::unreachable),
        ];
        for (name, part) in parts {
            let begun = Instant::now();
            part(self).map_err(|why| format!("{name}: {why}"))?;
            println!("{name}: {:.1} s", begun.elapsed().as_secs_f64());
        }
        Ok(())
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", self.directory.join("home"));
        command.env("KILTER_STATE_DIR", self.directory.join("state")).current_dir(&self.directory);
        command.args(["-i", "hosts.yaml", "--ssh-config", "ssh_config", "--connect-timeout", "20s"]).args(args);
        command.stdin(Stdio::null());
        command
    }

    fn kilter(&self, args: &[&str]) -> Finished {
        let begun = Instant::now();
        let output = self.command(args).output().expect("the program starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let code = output.status.code().unwrap_or(-1);
        Finished { code, stdout: text(&output.stdout), stderr: text(&output.stderr), time: begun.elapsed() }
    }

    fn start(&self, args: &[&str]) -> Result<Child, String> {
        self.command(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(io)
    }

    fn manifest(&self, name: &str, text: &str) -> Result<(), String> {
        std::fs::write(self.directory.join(name), text).map_err(io)
    }

    /// Checks the stored states of the hosts of the last roll-out. Each word has the numbers of its hosts.
    fn states(&self, expected: &[(&str, &[usize])]) -> Result<(), String> {
        let shown = self.kilter(&["rollout", "show", "last", "--format", "json"]);
        let document: Json = serde_json::from_str(&shown.stdout).map_err(|error| error.to_string())?;
        for (word, numbers) in expected {
            for name in names(numbers.iter().copied()) {
                let found = &document["results"][&name]["result"];
                expect(found == word, &format!("{name} is {found} instead of {word}"), &shown)?;
            }
        }
        let count: usize = expected.iter().map(|(_, numbers)| numbers.len()).sum();
        expect(document["results"].as_object().map(|all| all.len()) == Some(count), "other hosts", &shown)
    }

    /// Returns the content of a file on a host.
    fn content(&self, host: usize, path: &str) -> String {
        std::fs::read_to_string(self.hosts[host - 1].root().join(path)).unwrap_or_default()
    }

    fn bad_change(&self) -> Result<(), String> {
        self.manifest("bad.yaml", "resources:\n  exec[bad]: {command: [sh, -c, \"touch /var/tried; exit 3\"]}\n")?;
        let applied =
            self.kilter(&["--on", "all", "apply", "--yes", "--stage", "2,4,100%", "--max-failures", "1", "bad.yaml"]);
        expect(applied.code == 4, "exit code 4", &applied)?;
        let summary = "8 hosts: 2 failed (h1, h2), 6 untouched (h3, h4, h5, h6, h7, h8)";
        expect(applied.stderr.contains(summary), summary, &applied)?;
        self.states(&[("failed", &[1, 2]), ("untouched", &[3, 4, 5, 6, 7, 8])])?;
        let is_touched = |host: &usize| self.hosts[host - 1].root().join("var/tried").exists();
        let touched: Vec<usize> = (1..=HOSTS).filter(is_touched).collect();
        expect(touched == [1, 2], &format!("the change ran on {touched:?}"), &applied)
    }

    fn locked_out(&self) -> Result<(), String> {
        let before = self.content(1, "root/.ssh/authorized_keys");
        self.manifest("lock.yaml", "resources:\n  file[/root/.ssh/authorized_keys]: {content: '# none'}\n")?;
        let applied = self.kilter(&[
            "--on",
            "all",
            "apply",
            "--yes",
            "--stage",
            "1,4,100%",
            "--confirm-within",
            "10s",
            "lock.yaml",
        ]);
        self.reverted(&applied)?;
        expect(self.content(1, "root/.ssh/authorized_keys") == before, "the key of h1 is back", &applied)?;
        println!("  canary reverted within 10 s: the command took {:.1} s", applied.time.as_secs_f64());
        Ok(())
    }

    fn reverted(&self, applied: &Finished) -> Result<(), String> {
        expect(applied.code == 5, "exit code 5", applied)?;
        let summary = "8 hosts: 1 reverted (h1), 7 untouched (h2, h3, h4, h5, h6, h7, h8)";
        expect(applied.stderr.contains(summary), summary, applied)?;
        self.states(&[("reverted", &[1]), ("untouched", &[2, 3, 4, 5, 6, 7, 8])])?;
        let again = self.kilter(&["--on", "h1", "facts", "kernel"]);
        expect(again.code == 0, "h1 accepts connections again", &again)
    }

    fn broken_sshd(&self) -> Result<(), String> {
        let path = "/etc/ssh/sshd_config.d/kilter.conf";
        let service = format!("service[ssh]: {{ensure: running, subscribe: \"file[{path}]\"}}");
        self.manifest(
            "sshd.yaml",
            &format!("resources:\n  file[{path}]: {{content: \"Port 2222\\n\"}}\n  {service}\n"),
        )?;
        let on = ["--on", "all", "apply", "--yes", "--stage", "1,4,100%", "--confirm-within", "10s", "sshd.yaml"];
        let applied = self.kilter(&on);
        self.reverted(&applied)?;
        let is_there = self.hosts[0].root().join(path.trim_start_matches('/')).exists();
        expect(!is_there, "the configuration of h1 is gone", &applied)
    }

    fn killed_controller(&self) -> Result<(), String> {
        let step =
            "command: [sh, -c, \"until [ -e /var/go ]; do sleep 0.1; done; echo x >>/var/done\"], creates: /var/done";
        self.manifest(
            "slow.yaml",
            &format!(
                "resources:\n  file[/var/begun]: {{content: x}}\n  exec[step]: {{{step}, require: \"file[/var/begun]\"}}\n  \
                 file[/var/after]: {{content: x, require: \"exec[step]\"}}\n"
            ),
        )?;
        self.hosts[0].bash("touch /var/go");
        let mut controller =
            self.start(&["--on", "all", "apply", "--yes", "--stage", "1,3,100%", "--parallel", "2", "slow.yaml"])?;
        let has_begun = |host: usize| self.hosts[host - 1].root().join("var/begun").exists();
        let begun = wait("h2 and h3 begin", || has_begun(2) && has_begun(3));
        controller.kill().map_err(io)?;
        controller.wait().map_err(io)?;
        begun?;
        self.states(&[("applied", &[1]), ("started", &[2, 3]), ("untouched", &[4, 5, 6, 7, 8])])?;
        for host in &self.hosts[1..] {
            host.bash("touch /var/go");
        }
        // The step in flight ends, and nothing follows it.
        let is_done = |host: usize| !self.content(host, "var/done").is_empty();
        wait("the steps of h2 and h3 end", || is_done(2) && is_done(3))?;
        let has_ended = |name: &str| {
            let history = self.kilter(&["--on", name, "history", "--format", "json", "--lines", "1"]);
            history.stdout.contains("\"state\":\"ended\"")
        };
        wait("the runs of h2 and h3 end", || has_ended("h2") && has_ended("h3"))?;
        let resumed = self.kilter(&["rollout", "resume", "last", "--yes"]);
        expect(resumed.code == 0, "exit code 0", &resumed)?;
        self.states(&[("applied", &[1, 2, 3, 4, 5, 6, 7, 8])])?;
        for host in 1..=HOSTS {
            let is_whole = self.content(host, "var/done") == "x\n" && self.content(host, "var/after") == "x";
            expect(is_whole, &format!("each step of h{host} ran once"), &resumed)?;
        }
        println!("  resume: {:.1} s", resumed.time.as_secs_f64());
        Ok(())
    }

    fn dying_host(&self) -> Result<(), String> {
        let step =
            "command: [sh, -c, \"until [ -e /var/go2 ]; do sleep 0.1; done; touch /var/done2\"], creates: /var/done2";
        let text = format!(
            "resources:\n  file[/var/begun2]: {{content: x}}\n  exec[step]: {{{step}, require: \"file[/var/begun2]\"}}\n"
        );
        self.manifest("dying.yaml", &text)?;
        for host in self.hosts.iter().filter(|host| host.address() != self.hosts[1].address()) {
            host.bash("touch /var/go2");
        }
        let mut controller = self.start(&["--on", "all", "apply", "--yes", "--stage", "1,3,100%", "dying.yaml"])?;
        let begun = wait("h2 begins", || self.hosts[1].root().join("var/begun2").exists());
        // After a power cut, no connection is closed.
        self.hosts[1].bash("ip link set host0 down");
        self.hosts[1].crash();
        begun?;
        let ended = Instant::now();
        let code = controller.wait().map_err(io)?.code();
        println!("  loss of the host noticed after {:.1} s", ended.elapsed().as_secs_f64());
        if code != Some(4) {
            return Err(format!("exit code {code:?} instead of 4"));
        }
        self.states(&[("applied", &[1, 3]), ("lost", &[2]), ("untouched", &[4, 5, 6, 7, 8])])?;
        self.hosts[1].start();
        self.hosts[1].bash(&format!("{NETWORK_UP}; touch /var/go2"));
        let failed = self.kilter(&["--failed-of", "last", "facts", "kernel"]);
        expect(failed.stdout.starts_with("h2, h4, h5, h6, h7, h8:"), "hosts of --failed-of", &failed)?;
        let resumed = self.kilter(&["rollout", "resume", "last", "--yes"]);
        expect(resumed.code == 0, "exit code 0", &resumed)?;
        self.states(&[("applied", &[1, 2, 3, 4, 5, 6, 7, 8])])
    }

    /// h8 is down, h7 accepts connections and does not answer, and h6 loses its network after the plan.
    fn unreachable(&self) -> Result<(), String> {
        let [.., flapping, slow, down] = self.hosts.as_slice() else { return Err("too few hosts".to_owned()) };
        down.crash();
        slow.bash("systemctl kill --kill-whom=main --signal=STOP ssh");
        self.manifest("more.yaml", "resources:\n  file[/var/more]: {content: x}\n")?;
        let on = ["--on", "all"];
        let plan = self.kilter(&[&on[..], &["plan", "more.yaml", "--format", "json"]].concat());
        expect(plan.code == 4, "exit code 4 of the plan", &plan)?;
        let document: Json = serde_json::from_str(&plan.stdout).map_err(|error| error.to_string())?;
        let silent: Vec<&str> =
            document["no_answer"].as_array().into_iter().flatten().filter_map(|one| one["host"].as_str()).collect();
        expect(silent == ["h7", "h8"], "h7 and h8 have no answer in the plan", &plan)?;
        let saved = self.kilter(&[&on[..], &["plan", "more.yaml", "-o", "more.plan"]].concat());
        expect(saved.stderr.contains("8 hosts: 6 with changes, 2 without an answer"), "summary of the plan", &saved)?;
        let refused = self.kilter(&[&on[..], &["apply", "--yes", "--stage", "1,100%", "more.yaml"]].concat());
        let why = "2 failed, and at most 0 may fail";
        expect(refused.code == 4 && refused.stderr.contains(why), "no host begins without a limit of 2", &refused)?;
        self.states(&[("untouched", &[1, 2, 3, 4, 5, 6]), ("no_answer", &[7, 8])])?;
        flapping.bash("ip link set host0 down");
        let applied = self.kilter(&["apply", "--yes", "more.plan"]);
        expect(applied.code == 4, "exit code 4 of the apply", &applied)?;
        let summary = "6 hosts: 5 applied, 1 without an answer (h6)";
        expect(applied.stderr.contains(summary), summary, &applied)?;
        self.states(&[("applied", &[1, 2, 3, 4, 5]), ("no_answer", &[6])])?;
        flapping.bash(NETWORK_UP);
        let resumed = self.kilter(&["rollout", "resume", "last", "--yes"]);
        expect(resumed.code == 0, "exit code 0 after the network is back", &resumed)?;
        let facts = self.kilter(&[&on[..], &["facts", "kernel", "--format", "json"]].concat());
        let document: Json = serde_json::from_str(&facts.stdout).map_err(|error| error.to_string())?;
        let answers = names(1..=HOSTS).iter().map(|name| document[name]["answer"].clone()).collect::<Vec<Json>>();
        let expected: Vec<&str> = [["finished"; 6].as_slice(), &["none"; 2]].concat();
        expect(facts.code == 4 && answers == expected, "answers of all hosts", &facts)
    }
}

fn expect_status(is_met: bool, what: &str) -> Result<(), String> {
    if is_met { Ok(()) } else { Err(format!("{what} failed")) }
}
