//! A booted host with kilter, a repository of packages, and the sources of the example.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use kilter_testkit::hosts::{Host, HostOutput};
use serde_json::Value as Json;

/// Name of the host. It is part of files, so all hosts have the same one.
pub(crate) const NAME: &str = "server";

/// Prints the state of a host.
const STATE: &str = include_str!("state.py");

/// Makes the sources of the example: a git repository and an archive.
const SOURCES: &str = r#"
export GIT_AUTHOR_DATE='2026-01-01T00:00:00Z' GIT_COMMITTER_DATE='2026-01-01T00:00:00Z'
cd "$1"
git init -q --bare -b main shop.git
git init -q -b main work
echo 1 >work/version
git -C work add version
git -C work -c user.name=a -c user.email=a@example.com commit -qm one
git -C work push -q ../shop.git main
mkdir theme-1.2
for number in 1 2 3 4 5; do echo "body {}" >theme-1.2/$number.css; done
tar --mtime='2026-01-01' -czf theme-1.2.tar.gz theme-1.2
rm -r work theme-1.2
"#;

/// Makes the repository the only source of packages.
pub(crate) const PREPARE: &str = "rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/*
    echo 'deb [trusted=yes] file:/srv/repository ./' >/etc/apt/sources.list
    apt-get -qq update";

/// Files for each host.
pub(crate) struct Inputs {
    pub(crate) program: PathBuf,
    repository: PathBuf,
    sources: PathBuf,
    state: PathBuf,
    /// Texts of the manifests.
    pub(crate) texts: Vec<String>,
}

impl Inputs {
    /// Reads the manifests, and makes the sources that they name.
    pub(crate) fn new(program: PathBuf, repository: PathBuf, manifests: &Path) -> Result<Inputs, String> {
        let texts = crate::manifests(manifests)?;
        // Only this sandbox has this directory.
        let sources = PathBuf::from("/run/kilter/sources");
        let state = PathBuf::from("/run/kilter/state.py");
        std::fs::create_dir(&sources)
            .map_err(|error| format!("{}: {error}: run this in a sandbox", sources.display()))?;
        std::fs::write(&state, STATE).map_err(|error| format!("{}: {error}", state.display()))?;
        let made = Command::new("bash").args(["-euc", SOURCES, "bash"]).arg(&sources).output();
        let made = made.map_err(|error| format!("bash: {error}"))?;
        if !made.status.success() {
            return Err(format!("the sources: {}", String::from_utf8_lossy(&made.stderr)));
        }
        Ok(Inputs { program, repository, sources, state, texts })
    }

    /// Returns the files of a host without kilter, with their paths there.
    pub(crate) fn files(&self) -> Vec<(&Path, &str)> {
        vec![
            (&self.repository, "/srv/repository"),
            (&self.sources, "/srv/sources"),
            (&self.state, "/srv/sources/state.py"),
        ]
    }
}

/// Lines that describe a host.
pub(crate) struct State(pub(crate) BTreeSet<String>);

impl State {
    fn new(text: &str) -> State {
        State(text.lines().map(str::to_owned).collect())
    }

    /// Fails if the two differ, and names the first differences.
    pub(crate) fn compared(&self, expected: &State) -> Result<(), String> {
        let missing = expected.0.difference(&self.0).map(|line| format!("\n  - {line}"));
        let more = self.0.difference(&expected.0).map(|line| format!("\n  + {line}"));
        let different: Vec<String> = missing.chain(more).collect();
        match different.len() {
            0 => Ok(()),
            count => Err(format!(
                "{count} lines differ{}",
                different.iter().take(40).map(String::as_str).collect::<String>()
            )),
        }
    }
}

/// Graph and plan of the empty host.
pub(crate) struct Preview {
    edges: State,
    steps: State,
}

impl Preview {
    pub(crate) fn edges(&self) -> usize {
        self.edges.0.len()
    }

    pub(crate) fn steps(&self) -> usize {
        self.steps.0.len()
    }

    pub(crate) fn compared(&self, expected: &Preview) -> Result<(), String> {
        self.edges.compared(&expected.edges)?;
        self.steps.compared(&expected.steps)
    }
}

pub(crate) struct EmptyHost(Host);

impl EmptyHost {
    pub(crate) fn boot(inputs: &Inputs) -> Result<EmptyHost, String> {
        let mut files = inputs.files();
        files.push((&inputs.program, "/usr/local/bin/kilter"));
        let host = EmptyHost(Host::up(NAME, &files));
        host.succeeds(&["bash", "-euc", PREPARE])?;
        Ok(host)
    }

    pub(crate) fn down(self) {
        self.0.down();
    }

    /// Returns the graph and the plan of manifests. Makes no changes.
    pub(crate) fn graph_and_plan(&self, texts: &[String]) -> Result<Preview, String> {
        let manifests = self.write(texts)?;
        let kilter = |words: &str| format!("kilter {words} {manifests}");
        let graph = json(&self.succeeds(&["bash", "-c", &kilter("graph --format json")])?)?;
        let vertices = elements(&graph, "resources").map(|vertex| format!("{vertex}"));
        let edges = elements(&graph, "edges").map(|edge| format!("{edge}"));
        let plan = self.0.run(&["bash", "-c", &kilter("plan --format json")]);
        if plan.code != 2 {
            return Err(failed("plan", &plan));
        }
        let plan = json(&plan.stdout)?;
        let steps = elements(&plan, "resources").map(|step| unordered(step).to_string());
        Ok(Preview { edges: State(vertices.chain(edges).collect()), steps: State(steps.collect()) })
    }

    /// Applies the manifests twice. The second pass must change nothing. Returns the state of the host.
    pub(crate) fn converge(&self, texts: &[String]) -> Result<State, String> {
        let manifests = self.write(texts)?;
        for (pass, options) in [("first pass", ""), ("second pass", "--detailed-exitcodes")] {
            let apply = self.0.run(&["bash", "-c", &format!("kilter apply {options} {manifests}")]);
            if apply.code != 0 {
                return Err(failed(pass, &apply));
            }
            println!("{pass}: {}", apply.stdout.lines().last().unwrap_or_default());
        }
        Ok(State::new(&self.succeeds(&["python3", "/srv/sources/state.py"])?))
    }

    /// Installs packages with apt-get, and returns the files of the host.
    pub(crate) fn apt_get(&self, packages: &[&str]) -> Result<State, String> {
        let install =
            ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "--yes", "--no-install-recommends", "install"];
        self.succeeds(&[&install, packages].concat())?;
        self.files()
    }

    /// Returns the names of the installed packages.
    pub(crate) fn packages(&self) -> Result<State, String> {
        Ok(State::new(&self.succeeds(&["dpkg-query", "-W", "-f", "${Package}\\n"])?))
    }

    /// Removes packages and their configuration files with apt-get, and returns the files of the host.
    pub(crate) fn purge(&self, packages: &[&str]) -> Result<State, String> {
        let purge = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "--yes", "purge"];
        self.succeeds(&[&purge, packages].concat())?;
        self.files()
    }

    /// Debian refuses to remove sudo if root has no password.
    pub(crate) fn set_password_of_root(&self) -> Result<(), String> {
        self.succeeds(&["bash", "-c", "echo root:secret | chpasswd"]).map(drop)
    }

    /// Returns the names of all accounts.
    pub(crate) fn accounts(&self) -> Result<State, String> {
        let names = "for file in passwd group; do cut -d: -f1 /etc/$file | sed \"s/^/$file /\"; done";
        Ok(State::new(&self.succeeds(&["bash", "-euc", names])?))
    }

    /// Undoes the last run with an option, which ends with an exit code. Returns the output.
    pub(crate) fn undo(&self, option: &str, code: i32) -> Result<String, String> {
        let undo = self.0.run(&["bash", "-c", &format!("kilter undo last {option}")]);
        if undo.code == code { Ok(undo.stdout) } else { Err(failed("undo", &undo)) }
    }

    /// Applies the manifests once.
    pub(crate) fn apply(&self, texts: &[String]) -> Result<(), String> {
        let manifests = self.write(texts)?;
        self.succeeds(&["bash", "-c", &format!("kilter apply {manifests}")]).map(drop)
    }

    /// Runs a script in Python with the words of a command that name the manifests. Returns its output.
    pub(crate) fn tried(&self, script: &str, texts: &[String]) -> Result<String, String> {
        let manifests = self.write(texts)?;
        let path = self.0.root().join("srv/trial.py");
        std::fs::write(&path, script).map_err(|error| format!("{}: {error}", path.display()))?;
        self.succeeds(&["bash", "-c", &format!("python3 /srv/trial.py {manifests}")])
    }

    /// Returns the files of the host.
    pub(crate) fn files(&self) -> Result<State, String> {
        Ok(State::new(&self.succeeds(&["python3", "/srv/sources/state.py", "files"])?))
    }

    /// Writes the manifests to the host and returns the words of a command that name them.
    fn write(&self, texts: &[String]) -> Result<String, String> {
        let directory = self.0.root().join("srv/manifests");
        let wrong = |error: std::io::Error| format!("{}: {error}", directory.display());
        if directory.exists() {
            std::fs::remove_dir_all(&directory).map_err(wrong)?;
        }
        std::fs::create_dir(&directory).map_err(wrong)?;
        for (number, text) in texts.iter().enumerate() {
            std::fs::write(directory.join(format!("{number}.yaml")), text).map_err(wrong)?;
        }
        Ok("/srv/manifests/*.yaml --var repository=/srv/sources/shop.git --var theme=/srv/sources/theme-1.2.tar.gz"
            .to_owned())
    }

    fn succeeds(&self, command: &[&str]) -> Result<String, String> {
        let output = self.0.run(command);
        if output.code == 0 { Ok(output.stdout) } else { Err(failed(&command.join(" "), &output)) }
    }
}

fn failed(what: &str, HostOutput { code, stdout, stderr }: &HostOutput) -> String {
    format!("{what}: exit code {code}\n{stdout}{stderr}")
}

pub(crate) fn json(text: &str) -> Result<Json, String> {
    serde_json::from_str(text).map_err(|error| format!("{error}: {text}"))
}

/// Sorts the lists of a step. Removes its duration, and the reasons of unknown values: each of several unrelated
/// resources can be the reason.
fn unordered(step: &Json) -> Json {
    let mut step = step.clone();
    for unknown in step["unknown"].as_array_mut().into_iter().flatten() {
        *unknown = unknown["attribute"].take();
    }
    for (_, value) in step.as_object_mut().into_iter().flatten() {
        if let Json::Array(elements) = value {
            elements.sort_by_key(Json::to_string);
        }
    }
    for key in ["duration_ms", "because_of"] {
        step[key].take();
    }
    step
}

fn elements<'j>(document: &'j Json, key: &str) -> impl Iterator<Item = &'j Json> {
    document[key].as_array().into_iter().flatten()
}
