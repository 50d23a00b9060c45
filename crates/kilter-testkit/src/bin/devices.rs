//! Trial of many devices: 100 appliances in this process, and the transport in Rust.
//!
//! `cargo xtask devices` builds the programs and starts this one. It measures commands with nothing to change, and checks
//! that devices that fail do not affect the others.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use kilter_testkit::appliance::{Appliance, ApplianceFault, PASSWORD, USER};
use serde_json::Value as Json;
use wait4::Wait4 as _;

/// Number of devices.
const DEVICES: usize = 100;

/// Number of measured commands of each kind.
const TIMES: usize = 5;

/// Interval between two samples of the memory.
const SAMPLE: Duration = Duration::from_millis(5);

/// Directory of the transport, its metadata and its manifest.
const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/devices");

fn main() -> ExitCode {
    match programs().and_then(|[kilter, transport]| DeviceTrial::begin(kilter, &transport)?.run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

fn programs() -> Result<[PathBuf; 2], String> {
    match std::env::args().skip(1).collect::<Vec<String>>().as_slice() {
        [option, kilter, other, transport] if option == "--program" && other == "--transport" => {
            Ok([kilter, transport].map(PathBuf::from))
        }
        _ => Err("--program PATH --transport PATH is missing: use `cargo xtask devices`".to_owned()),
    }
}

/// Appliances, and the files of their controller. A drop removes the files.
struct DeviceTrial {
    kilter: PathBuf,
    directory: PathBuf,
    appliances: Vec<Appliance>,
}

/// Result of a command.
struct CommandResult {
    code: i32,
    stdout: String,
    stderr: String,
    wall: Duration,
    /// CPU time of kilter and the processes that it has waited for.
    cpu: Duration,
    /// Maximum resident memory of kilter alone, in bytes.
    own: u64,
    /// Maximum of the sum of the resident memory of kilter and all processes below it, in bytes.
    tree: u64,
}

fn io(error: std::io::Error) -> String {
    error.to_string()
}

/// Fails with the output of a command if a condition does not hold.
fn expect(is_met: bool, what: &str, found: &CommandResult) -> Result<(), String> {
    let CommandResult { code, stdout, stderr, .. } = found;
    if is_met { Ok(()) } else { Err(format!("{what}\nexit code {code}\n{stdout}\n{stderr}")) }
}

fn name(device: usize) -> String {
    format!("box{device:03}")
}

impl DeviceTrial {
    /// Starts the appliances and writes the inventory.
    fn begin(kilter: PathBuf, transport: &Path) -> Result<DeviceTrial, String> {
        let directory = std::env::temp_dir().join(format!("kilter-devices-{}", std::process::id()));
        std::fs::create_dir(&directory).map_err(io)?;
        let appliances = (0..DEVICES).map(|_| Appliance::start()).collect::<std::io::Result<_>>().map_err(io)?;
        let trial = DeviceTrial { kilter, directory, appliances };
        std::fs::create_dir(trial.path("providers")).map_err(io)?;
        std::fs::copy(transport, trial.path("providers/appliance.prov")).map_err(io)?;
        let description = std::fs::read_to_string(format!("{EXAMPLES}/appliance.yaml")).map_err(io)?;
        // A late answer ends the connection after this time.
        let description = description.replace("timeout: 30", "timeout: 2");
        std::fs::write(trial.path("providers/appliance.yaml"), description).map_err(io)?;
        std::fs::copy(format!("{EXAMPLES}/site.yaml"), trial.path("site.yaml")).map_err(io)?;
        trial.write_inventory(None)?;
        Ok(trial)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Writes the inventory, with a wrong password for one device.
    fn write_inventory(&self, refused: Option<usize>) -> Result<(), String> {
        let mut text = "hosts:\n".to_owned();
        for (device, appliance) in self.appliances.iter().enumerate() {
            let password = if refused == Some(device) { "wrong-password" } else { PASSWORD };
            let connection = format!("host: 127.0.0.1, port: {}, password: \"{password}\"", appliance.port());
            text += &format!("  {}: {{transport: {{{connection}}}}}\n", name(device));
        }
        let members: Vec<String> = (0..DEVICES).map(name).collect();
        text += "groups:\n  boxes:\n";
        text += &format!("    transport: {{name: appliance, user: {USER}}}\n    hosts: [{}]\n", members.join(", "));
        let path = self.path("inventory.yaml");
        std::fs::write(&path, text).map_err(io)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(io)
    }

    fn run(&self) -> Result<(), String> {
        let first = self.kilter(&["apply", "--yes", "site.yaml"])?;
        expect(first.code == 0, "the first apply", &first)?;
        show("apply, 4 resources created on each", &[first]);
        for (what, args, code) in [
            ("apply, nothing to change", &["apply", "--yes", "site.yaml"][..], 0),
            ("plan, nothing to change", &["plan", "site.yaml"], 0),
            ("get appliance_vlan", &["get", "appliance_vlan"], 0),
            ("facts os", &["facts", "os"], 0),
        ] {
            let results = (0..TIMES).map(|_| self.kilter(args)).collect::<Result<Vec<CommandResult>, String>>()?;
            results.iter().try_for_each(|result| expect(result.code == code, what, result))?;
            show(what, &results);
        }
        self.faults()
    }

    /// Tries a device that disconnects during a change, one that answers late, and one that refuses the login.
    fn faults(&self) -> Result<(), String> {
        let (cut, late, refused) = (17, 42, 99);
        for appliance in &self.appliances {
            appliance.put("vlan", "7", serde_json::json!({ "label": "by hand", "shutdown": false }));
        }
        self.appliances[cut].fail_next("PUT /vlan/7", ApplianceFault::Disconnect);
        self.appliances[late].fail_next("PUT /vlan/7", ApplianceFault::Late);
        self.write_inventory(Some(refused))?;
        let result = self.kilter(&["apply", "--yes", "site.yaml"])?;
        expect(result.code == 4, "an apply with failures ends with 4", &result)?;
        for text in [
            "PUT /vlan/7: no answer from 127.0.0.1",
            "it did not reply in time and was ended",
            "the appliance refuses the login: check `user` and `password`",
        ] {
            expect(result.stdout.contains(text) || result.stderr.contains(text), text, &result)?;
        }
        let is_repaired = |device: &usize| {
            let vlan = self.appliances[*device].get("vlan", "7").unwrap_or(Json::Null);
            vlan["label"] == "office of A-1001"
        };
        let others = (0..DEVICES).filter(|device| ![cut, late, refused].contains(device));
        let repaired = others.filter(is_repaired).count();
        expect(repaired == DEVICES - 3, "all other devices are changed", &result)?;
        println!("{:<36} {:>7.2}", "apply with three faulty devices", result.wall.as_secs_f64());
        let counts = result.stderr.lines().find(|line| line.contains(" applied, ")).unwrap_or_default();
        println!("  {counts}");
        self.appliances[late].release();
        Ok(())
    }

    fn kilter(&self, args: &[&str]) -> Result<CommandResult, String> {
        let mut command = Command::new(&self.kilter);
        command.args(["--on", "boxes", "-i"]).arg(self.path("inventory.yaml")).args(args);
        command.current_dir(&self.directory).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", &self.directory);
        command.env("KILTER_PROVIDERS", self.path("providers")).env("KILTER_STATE_DIR", self.path("state"));
        command.env("KILTER_CONFIG", "").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let begun = Instant::now();
        let mut child = command.spawn().map_err(io)?;
        let read = |stream: Option<Box<dyn std::io::Read + Send>>| {
            move || stream.map(std::io::read_to_string).transpose().map(Option::unwrap_or_default)
        };
        let stdout = child.stdout.take().map(|stream| Box::new(stream) as Box<dyn std::io::Read + Send>);
        let stderr = child.stderr.take().map(|stream| Box::new(stream) as Box<dyn std::io::Read + Send>);
        std::thread::scope(|scope| {
            let (stdout, stderr) = (scope.spawn(read(stdout)), scope.spawn(read(stderr)));
            let tree = sampled(&child, &|| stderr.is_finished());
            let ended = child.wait4().map_err(io)?;
            let wall = begun.elapsed();
            let text = |thread: std::thread::ScopedJoinHandle<'_, std::io::Result<String>>| {
                thread.join().map_err(|_| "the output cannot be read".to_owned())?.map_err(io)
            };
            Ok(CommandResult {
                code: ended.status.code().unwrap_or(-1),
                stdout: text(stdout)?,
                stderr: text(stderr)?,
                wall,
                cpu: ended.rusage.utime + ended.rusage.stime,
                own: ended.rusage.maxrss,
                tree,
            })
        })
    }
}

impl Drop for DeviceTrial {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Returns the maximum of the resident memory of a process and all below it, until the end of its output.
fn sampled(child: &Child, is_over: &dyn Fn() -> bool) -> u64 {
    let mut most = 0;
    while !is_over() {
        most = most.max(resident(child.id()));
        std::thread::sleep(SAMPLE);
    }
    most
}

/// Returns the resident memory of a process and all below it, in bytes.
fn resident(pid: u32) -> u64 {
    let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let children = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let children: String = children.collect();
    let program = |pid: u32| std::fs::read_link(format!("/proc/{pid}/exe")).ok();
    let own = program(pid);
    let below = children.split_whitespace().filter_map(|pid| pid.parse().ok());
    // A child that has not executed its program yet shares the memory of its parent.
    let below: u64 = below.filter(|child| program(*child) != own).map(resident).sum();
    pages * rustix::param::page_size() as u64 + below
}

/// Prints the best of some results.
fn show(what: &str, results: &[CommandResult]) {
    let best = |of: &dyn Fn(&CommandResult) -> f64| results.iter().map(of).fold(f64::MAX, f64::min);
    let most =
        |of: &dyn Fn(&CommandResult) -> u64| results.iter().map(of).max().unwrap_or(0) as f64 / f64::from(1 << 20);
    println!(
        "{what:<36} {:>7.2} s wall {:>7.2} s CPU {:>7.1} MB of kilter {:>7.1} MB of all processes",
        best(&|result| result.wall.as_secs_f64()),
        best(&|result| result.cpu.as_secs_f64()),
        most(&|result| result.own),
        most(&|result| result.tree)
    );
}
