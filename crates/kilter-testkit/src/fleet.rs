//! Hosts that systemd has booted, and a controller outside of them that reaches their real sshd.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::hosts::Host;

/// Directory of the controller. Only this sandbox has it.
const CONTROLLER: &str = "/run/kilter/controller";

/// Hosts `h1`, `h2` and so on, and the files of their controller, which is the sandbox.
#[derive(Debug)]
pub struct Fleet {
    program: PathBuf,
    hosts: Vec<Host>,
}

/// Result of a command of the controller.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Exit code, or -1 after a signal.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// Wall time.
    pub time: Duration,
}

impl Finished {
    /// Fails with the name of the condition and the output of the command if the condition does not hold.
    ///
    /// # Errors
    /// The condition does not hold.
    pub fn expect(&self, is_met: bool, what: &str) -> Result<(), String> {
        let Finished { code, stdout, stderr, .. } = self;
        if is_met { Ok(()) } else { Err(format!("{what}\nexit code {code}\n{stdout}\n{stderr}")) }
    }
}

/// Returns the names of hosts.
pub fn names(numbers: impl IntoIterator<Item = usize>) -> Vec<String> {
    numbers.into_iter().map(|number| format!("h{number}")).collect()
}

fn io(error: std::io::Error) -> String {
    error.to_string()
}

impl Fleet {
    /// Boots `count` hosts at once, with copies of the files, and gives the controller a key for them.
    ///
    /// # Errors
    /// A host does not boot, or a file of the controller cannot be written.
    pub fn boot(program: PathBuf, count: usize, files: &[(&Path, &str)]) -> Result<Fleet, String> {
        let directory = Path::new(CONTROLLER);
        std::fs::create_dir_all(directory.join("home")).map_err(io)?;
        std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o700)).map_err(io)?;
        let key = directory.join("key");
        let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key).status();
        if !made.map_err(io)?.success() {
            return Err("ssh-keygen failed".to_owned());
        }
        let public = directory.join("key.pub");
        let begun = Instant::now();
        let key_file = (public.as_path(), "/root/.ssh/authorized_keys");
        let files: &[(&Path, &str)] = &[&[key_file], files].concat();
        let hosts = std::thread::scope(|scope| {
            let up = |name: String| scope.spawn(move || Host::up(&name, files));
            let threads: Vec<_> = names(1..=count).into_iter().map(up).collect();
            let joined = threads.into_iter().map(|thread| thread.join().map_err(|_| "a host does not boot".to_owned()));
            joined.collect::<Result<Vec<Host>, String>>()
        })?;
        println!("{count} hosts booted: {:.1} s", begun.elapsed().as_secs_f64());
        let mut known = String::new();
        for host in &hosts {
            let key = host.root().join("etc/ssh/ssh_host_ed25519_key.pub");
            known += &format!("{} {}", host.address(), std::fs::read_to_string(key).map_err(io)?);
        }
        let fleet = Fleet { program, hosts };
        fleet.write("known_hosts", &known)?;
        let config = format!(
            "Host *\n User root\n IdentityFile {}\n UserKnownHostsFile {}\n",
            key.display(),
            directory.join("known_hosts").display()
        );
        fleet.write("ssh_config", &config)?;
        let hosts: String =
            fleet.hosts.iter().enumerate().map(|(number, _)| format!("  {}\n", fleet.entry(number + 1))).collect();
        fleet.write("hosts.yaml", &format!("hosts:\n{hosts}"))?;
        Ok(fleet)
    }

    /// Returns all hosts, in the order of their numbers.
    #[must_use]
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// Returns the host of a number, which begins at 1.
    ///
    /// # Panics
    /// If there is no such host.
    #[must_use]
    pub fn host(&self, number: usize) -> &Host {
        &self.hosts[number - 1]
    }

    /// Returns the line of an inventory for a host.
    #[must_use]
    pub fn entry(&self, number: usize) -> String {
        format!("h{number}: {{ssh: {{host: {}}}}}", self.host(number).address())
    }

    /// Writes a file into the directory in which commands run.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, name: &str, text: &str) -> Result<(), String> {
        std::fs::write(Path::new(CONTROLLER).join(name), text).map_err(|error| format!("{name}: {error}"))
    }

    /// Runs `kilter` with the inventory `hosts.yaml` to its end.
    ///
    /// # Panics
    /// If the program cannot be started.
    #[must_use]
    pub fn kilter(&self, args: &[&str]) -> Finished {
        let begun = Instant::now();
        let output = self.command(args).output().expect("the program starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let code = output.status.code().unwrap_or(-1);
        Finished { code, stdout: text(&output.stdout), stderr: text(&output.stderr), time: begun.elapsed() }
    }

    /// Starts `kilter` without its output.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(&self, args: &[&str]) -> Result<Child, String> {
        self.command(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(io)
    }

    fn command(&self, args: &[&str]) -> Command {
        let directory = Path::new(CONTROLLER);
        let mut command = Command::new(&self.program);
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", directory.join("home"));
        command.env("KILTER_STATE_DIR", directory.join("state")).current_dir(directory);
        command.args(["-i", "hosts.yaml", "--ssh-config", "ssh_config", "--connect-timeout", "20s"]).args(args);
        command.stdin(Stdio::null());
        command
    }
}
