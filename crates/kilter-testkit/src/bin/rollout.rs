//! Trial of roll-outs to eight hosts that systemd has booted, over their real sshd.
//!
//! `cargo xtask rollout` builds the program and starts this one in a sandbox. Each part of the trial applies a change
//! with a known effect, and checks the exit code and the states of all hosts. A part that fails ends the trial.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use kilter_testkit::fleet::{Finished, Fleet, names};
use serde_json::Value as Json;

/// Number of hosts.
const HOSTS: usize = 8;

/// Maximum time for an expected event.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Command that connects a host again.
const NETWORK_UP: &str = "ip link set host0 up; ip route replace default via 10.77.0.1";

fn main() -> ExitCode {
    match program().and_then(|program| FleetTrial(Fleet::boot(program, HOSTS, &[])?).run()) {
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

fn io(error: std::io::Error) -> String {
    error.to_string()
}

/// Part of a trial.
type FleetPart = fn(&FleetTrial) -> Result<(), String>;

/// Hosts, and the parts of the trial.
struct FleetTrial(Fleet);

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

impl FleetTrial {
    fn run(&self) -> Result<(), String> {
        let facts = self.0.kilter(&["--on", "all", "facts", "kernel"]);
        facts.expect(facts.code == 0, "first contact with all hosts")?;
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

    /// Checks the stored states of the hosts of the last roll-out. Each word has the numbers of its hosts.
    fn states(&self, expected: &[(&str, &[usize])]) -> Result<(), String> {
        let shown = self.0.kilter(&["rollout", "show", "last", "--format", "json"]);
        let document: Json = serde_json::from_str(&shown.stdout).map_err(|error| error.to_string())?;
        for (word, numbers) in expected {
            for name in names(numbers.iter().copied()) {
                let found = &document["results"][&name]["result"];
                shown.expect(found == word, &format!("{name} is {found} instead of {word}"))?;
            }
        }
        let count: usize = expected.iter().map(|(_, numbers)| numbers.len()).sum();
        shown.expect(document["results"].as_object().map(|all| all.len()) == Some(count), "other hosts")
    }

    /// Returns the content of a file on a host.
    fn content(&self, host: usize, path: &str) -> String {
        std::fs::read_to_string(self.0.host(host).root().join(path)).unwrap_or_default()
    }

    fn bad_change(&self) -> Result<(), String> {
        self.0.write("bad.yaml", "resources:\n  exec[bad]: {command: [sh, -c, \"touch /var/tried; exit 3\"]}\n")?;
        let applied =
            self.0.kilter(&["--on", "all", "apply", "--yes", "--stage", "2,4,100%", "--max-failures", "1", "bad.yaml"]);
        applied.expect(applied.code == 4, "exit code 4")?;
        let summary = "8 hosts: 2 failed (h1, h2), 6 untouched (h3, h4, h5, h6, h7, h8)";
        applied.expect(applied.stderr.contains(summary), summary)?;
        self.states(&[("failed", &[1, 2]), ("untouched", &[3, 4, 5, 6, 7, 8])])?;
        let is_touched = |host: &usize| self.0.host(*host).root().join("var/tried").exists();
        let touched: Vec<usize> = (1..=HOSTS).filter(is_touched).collect();
        applied.expect(touched == [1, 2], &format!("the change ran on {touched:?}"))
    }

    fn locked_out(&self) -> Result<(), String> {
        let before = self.content(1, "root/.ssh/authorized_keys");
        self.0.write("lock.yaml", "resources:\n  file[/root/.ssh/authorized_keys]: {content: '# none'}\n")?;
        let applied = self.0.kilter(&[
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
        applied.expect(self.content(1, "root/.ssh/authorized_keys") == before, "the key of h1 is back")?;
        println!("  canary reverted within 10 s: the command took {:.1} s", applied.time.as_secs_f64());
        Ok(())
    }

    fn reverted(&self, applied: &Finished) -> Result<(), String> {
        applied.expect(applied.code == 5, "exit code 5")?;
        let summary = "8 hosts: 1 reverted (h1), 7 untouched (h2, h3, h4, h5, h6, h7, h8)";
        applied.expect(applied.stderr.contains(summary), summary)?;
        self.states(&[("reverted", &[1]), ("untouched", &[2, 3, 4, 5, 6, 7, 8])])?;
        let again = self.0.kilter(&["--on", "h1", "facts", "kernel"]);
        again.expect(again.code == 0, "h1 accepts connections again")
    }

    fn broken_sshd(&self) -> Result<(), String> {
        let path = "/etc/ssh/sshd_config.d/kilter.conf";
        let service = format!("service[ssh]: {{ensure: running, subscribe: \"file[{path}]\"}}");
        self.0
            .write("sshd.yaml", &format!("resources:\n  file[{path}]: {{content: \"Port 2222\\n\"}}\n  {service}\n"))?;
        let on = ["--on", "all", "apply", "--yes", "--stage", "1,4,100%", "--confirm-within", "10s", "sshd.yaml"];
        let applied = self.0.kilter(&on);
        self.reverted(&applied)?;
        let is_there = self.0.host(1).root().join(path.trim_start_matches('/')).exists();
        applied.expect(!is_there, "the configuration of h1 is gone")
    }

    fn killed_controller(&self) -> Result<(), String> {
        let step =
            "command: [sh, -c, \"until [ -e /var/go ]; do sleep 0.1; done; echo x >>/var/done\"], creates: /var/done";
        self.0.write(
            "slow.yaml",
            &format!(
                "resources:\n  file[/var/begun]: {{content: x}}\n  exec[step]: {{{step}, \
                 require: \"file[/var/begun]\"}}\n  file[/var/after]: {{content: x, require: \"exec[step]\"}}\n"
            ),
        )?;
        self.0.host(1).bash("touch /var/go");
        let mut controller =
            self.0.start(&["--on", "all", "apply", "--yes", "--stage", "1,3,100%", "--parallel", "2", "slow.yaml"])?;
        let has_begun = |host: usize| self.0.host(host).root().join("var/begun").exists();
        let begun = wait("h2 and h3 begin", || has_begun(2) && has_begun(3));
        controller.kill().map_err(io)?;
        controller.wait().map_err(io)?;
        begun?;
        self.states(&[("applied", &[1]), ("started", &[2, 3]), ("untouched", &[4, 5, 6, 7, 8])])?;
        for host in &self.0.hosts()[1..] {
            host.bash("touch /var/go");
        }
        // The step in flight ends, and nothing follows it.
        let is_done = |host: usize| !self.content(host, "var/done").is_empty();
        wait("the steps of h2 and h3 end", || is_done(2) && is_done(3))?;
        let has_ended = |name: &str| {
            let history = self.0.kilter(&["--on", name, "history", "--format", "json", "--lines", "1"]);
            history.stdout.contains("\"state\":\"ended\"")
        };
        wait("the runs of h2 and h3 end", || has_ended("h2") && has_ended("h3"))?;
        let resumed = self.0.kilter(&["rollout", "resume", "last", "--yes"]);
        resumed.expect(resumed.code == 0, "exit code 0")?;
        self.states(&[("applied", &[1, 2, 3, 4, 5, 6, 7, 8])])?;
        for host in 1..=HOSTS {
            let is_whole = self.content(host, "var/done") == "x\n" && self.content(host, "var/after") == "x";
            resumed.expect(is_whole, &format!("each step of h{host} ran once"))?;
        }
        println!("  resume: {:.1} s", resumed.time.as_secs_f64());
        Ok(())
    }

    fn dying_host(&self) -> Result<(), String> {
        let step =
            "command: [sh, -c, \"until [ -e /var/go2 ]; do sleep 0.1; done; touch /var/done2\"], creates: /var/done2";
        let text = format!(
            "resources:\n  file[/var/begun2]: {{content: x}}\n  exec[step]: {{{step}, \
             require: \"file[/var/begun2]\"}}\n"
        );
        self.0.write("dying.yaml", &text)?;
        for host in self.0.hosts().iter().filter(|host| host.address() != self.0.host(2).address()) {
            host.bash("touch /var/go2");
        }
        let mut controller = self.0.start(&["--on", "all", "apply", "--yes", "--stage", "1,3,100%", "dying.yaml"])?;
        let begun = wait("h2 begins", || self.0.host(2).root().join("var/begun2").exists());
        // After a power cut, no connection is closed.
        self.0.host(2).bash("ip link set host0 down");
        self.0.host(2).crash();
        begun?;
        let ended = Instant::now();
        let code = controller.wait().map_err(io)?.code();
        println!("  loss of the host noticed after {:.1} s", ended.elapsed().as_secs_f64());
        if code != Some(4) {
            return Err(format!("exit code {code:?} instead of 4"));
        }
        self.states(&[("applied", &[1, 3]), ("lost", &[2]), ("untouched", &[4, 5, 6, 7, 8])])?;
        self.0.host(2).start();
        self.0.host(2).bash(&format!("{NETWORK_UP}; touch /var/go2"));
        let failed = self.0.kilter(&["--failed-of", "last", "facts", "kernel"]);
        failed.expect(failed.stdout.starts_with("h2, h4, h5, h6, h7, h8:"), "hosts of --failed-of")?;
        let resumed = self.0.kilter(&["rollout", "resume", "last", "--yes"]);
        resumed.expect(resumed.code == 0, "exit code 0")?;
        self.states(&[("applied", &[1, 2, 3, 4, 5, 6, 7, 8])])
    }

    /// h8 is down, h7 accepts connections and does not answer, and h6 loses its network after the plan.
    fn unreachable(&self) -> Result<(), String> {
        let [.., flapping, slow, down] = self.0.hosts() else { return Err("too few hosts".to_owned()) };
        down.crash();
        slow.bash("systemctl kill --kill-whom=main --signal=STOP ssh");
        self.0.write("more.yaml", "resources:\n  file[/var/more]: {content: x}\n")?;
        let on = ["--on", "all"];
        let plan = self.0.kilter(&[&on[..], &["plan", "more.yaml", "--format", "json"]].concat());
        plan.expect(plan.code == 4, "exit code 4 of the plan")?;
        let document: Json = serde_json::from_str(&plan.stdout).map_err(|error| error.to_string())?;
        let silent: Vec<&str> =
            document["no_answer"].as_array().into_iter().flatten().filter_map(|one| one["host"].as_str()).collect();
        plan.expect(silent == ["h7", "h8"], "h7 and h8 have no answer in the plan")?;
        let saved = self.0.kilter(&[&on[..], &["plan", "more.yaml", "-o", "more.plan"]].concat());
        saved.expect(saved.stderr.contains("8 hosts: 6 with changes, 2 without an answer"), "summary of the plan")?;
        let refused = self.0.kilter(&[&on[..], &["apply", "--yes", "--stage", "1,100%", "more.yaml"]].concat());
        let why = "2 failed, and at most 0 may fail";
        refused.expect(refused.code == 4 && refused.stderr.contains(why), "no host begins without a limit of 2")?;
        self.states(&[("untouched", &[1, 2, 3, 4, 5, 6]), ("no_answer", &[7, 8])])?;
        flapping.bash("ip link set host0 down");
        let applied = self.0.kilter(&["apply", "--yes", "more.plan"]);
        applied.expect(applied.code == 4, "exit code 4 of the apply")?;
        let summary = "6 hosts: 5 applied, 1 without an answer (h6)";
        applied.expect(applied.stderr.contains(summary), summary)?;
        self.states(&[("applied", &[1, 2, 3, 4, 5]), ("no_answer", &[6])])?;
        flapping.bash(NETWORK_UP);
        let resumed = self.0.kilter(&["rollout", "resume", "last", "--yes"]);
        resumed.expect(resumed.code == 0, "exit code 0 after the network is back")?;
        let facts = self.0.kilter(&[&on[..], &["facts", "kernel", "--format", "json"]].concat());
        let document: Json = serde_json::from_str(&facts.stdout).map_err(|error| error.to_string())?;
        let answers = names(1..=HOSTS).iter().map(|name| document[name]["answer"].clone()).collect::<Vec<Json>>();
        let expected: Vec<&str> = [["finished"; 6].as_slice(), &["none"; 2]].concat();
        facts.expect(facts.code == 4 && answers == expected, "answers of all hosts")
    }
}
