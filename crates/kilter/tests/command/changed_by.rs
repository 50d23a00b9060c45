//! Processes that change the files of a run: pid, command line and user, kept with the repair.

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value as Json, json};

use crate::run::{Running, content, manifest, rest, wait};
use crate::support::{Place, is_root};

/// Script of a shell that carries out the commands of its standard input.
const SHELL: &str = "while read -r order; do eval \"$order\"; done";

/// Shell that goes on after its changes. It is no descendant of kilter.
struct Shell(Child);

impl Shell {
    fn begin() -> Shell {
        Shell(Command::new("sh").args(["-c", SHELL]).stdin(Stdio::piped()).spawn().unwrap())
    }

    fn run(&mut self, order: &str) {
        writeln!(self.0.stdin.as_mut().unwrap(), "{order}").unwrap();
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}

/// Runs a program to its end. Returns its number.
fn ended(program: &str, args: &[&Path]) -> u32 {
    let mut child = Command::new(program).args(args).spawn().unwrap();
    assert!(child.wait().unwrap().success());
    child.id()
}

/// Returns the results of a resource on record, the newest first.
fn outcomes(place: &Place, resource: &str) -> Vec<Json> {
    let ended = place.run(&["history", resource, "--format", "json"]);
    let events = ended.stdout.lines().map(|line| serde_json::from_str::<Json>(line).unwrap());
    events.filter(|event| event["kind"] == "outcome").collect()
}

/// Waits until a resource has this number of results on record. Returns the newest one.
fn newest(place: &Place, resource: &str, count: usize) -> Json {
    wait("the result", || outcomes(place, resource).len() >= count);
    let outcomes = outcomes(place, resource);
    assert_eq!(outcomes.len(), count, "{outcomes:?}");
    outcomes[0].clone()
}

fn begin(place: &Place, text: &str) -> Running {
    assert!(is_root(), "run this test as root with CAP_SYS_ADMIN: only then does the kernel name the process");
    let running = Running::begin(place, &[&manifest(place, text)]);
    rest(place);
    running
}

#[test]
fn repaired_file_names_the_process_that_changed_it() {
    let place = Place::new();
    let (file, next) = (place.path().join("f"), place.path().join("next"));
    let resource = format!("file[{}]", file.display());
    let running = begin(&place, "resources:\n  file[DIR/f]: {content: declared, mode: \"0644\"}\n");
    assert_eq!(newest(&place, &resource, 1)["process"], Json::Null);

    let mut shell = Shell::begin();
    shell.run(&format!("echo other > {}", file.display()));
    let repair = newest(&place, &resource, 2);
    let process = &repair["process"];
    assert_eq!((&process["pid"], &process["program"]), (&json!(shell.0.id()), &json!("sh")), "{repair}");
    assert_eq!((&process["command"], &process["user"]), (&json!(["sh", "-c", SHELL]), &json!("root")));
    assert_eq!((&process["started_by"], &repair["corrective"]), (&json!("other"), &json!(true)));
    assert!(repair["drift_ms"].is_u64(), "{repair}");

    let chmod = ended("chmod", &[Path::new("600"), &file]);
    assert_eq!(newest(&place, &resource, 3)["process"]["pid"], chmod);

    std::fs::write(&next, "renamed").unwrap();
    let renamed = ended("mv", &[&next, &file]);
    assert_eq!(newest(&place, &resource, 4)["process"]["pid"], renamed);

    let removed = ended("rm", &[&file]);
    assert_eq!(newest(&place, &resource, 5)["process"]["pid"], removed);
    let (_, out, errors) = running.end();
    let text = format!("    changed by sh -c {SHELL} (pid {}, user root", shell.0.id());
    assert!((out + &errors).contains(&text), "{errors}");

    let shown = place.run(&["history", "show", "last"]).stdout;
    assert!(shown.contains(&text) && shown.contains(&format!("(pid {removed}")), "{shown}");
    let drift: Json = serde_json::from_str(&place.run(&["history", "drift", "--format", "json"]).stdout).unwrap();
    assert_eq!((&drift["process"]["pid"], &drift["drift_ms"]["repairs"]), (&json!(removed), &json!(4)), "{drift}");
    let rows = place.run(&["history", "export", "--format", "csv"]).stdout;
    let end = format!(",{},root,\"sh -c {}\"", shell.0.id(), SHELL.replace('"', "\"\""));
    assert!(rows.lines().any(|row| row.ends_with(&end)), "{rows}");
    assert_eq!(place.run(&["history", "report", "-o", "page.html"]).code, 0);
    let html = content(&place.path().join("page.html"));
    assert!(html.contains(&format!("(pid {removed}")), "{html}");
}

#[test]
fn files_of_one_name_and_of_one_directory_name_different_processes() {
    let place = Place::new();
    let [one, other] = ["a", "b"].map(|name| place.path().join(name).join("f"));
    let text = "resources:\n  file[DIR/a]: {ensure: directory, mode: \"0755\"}\n  file[DIR/b]: {ensure: directory}\n  \
                file[DIR/a/f]: {content: declared}\n  file[DIR/b/f]: {content: declared}\n  line[DIR/a/l]: {path: \
                DIR/a/l, line: declared}\n";
    let running = begin(&place, text);
    let reference = |path: &Path| format!("file[{}]", path.display());
    let mut shells = [Shell::begin(), Shell::begin(), Shell::begin()];
    let [first, second, third] = &mut shells;
    second.run(&format!("echo other > {}", other.display()));
    third.run(&format!("echo other > {}/l", place.path().join("a").display()));
    first.run(&format!("echo other > {}/ignored; echo other > {}", place.path().join("a").display(), one.display()));
    assert_eq!(newest(&place, &reference(&one), 2)["process"]["pid"], first.0.id());
    assert_eq!(newest(&place, &reference(&other), 2)["process"]["pid"], second.0.id());
    let line = format!("line[{}/l]", place.path().join("a").display());
    assert_eq!(newest(&place, &line, 2)["process"]["pid"], third.0.id());
    let chmod = ended("chmod", &[Path::new("700"), &place.path().join("a")]);
    assert_eq!(newest(&place, &reference(&place.path().join("a")), 2)["process"]["pid"], chmod);
    running.end();
}

#[test]
fn program_that_kilter_started_is_named_as_one() {
    let place = Place::new();
    let text = "resources:\n  file[DIR/f]: {content: declared}\n  file[DIR/g]: {content: declared}\n  exec[rival]: \
                {command: [sh, -c, \"echo other > DIR/f; echo > DIR/done; exec 3< DIR/pipe\"], refreshonly: true, \
                subscribe: \"file[DIR/g]\"}\n";
    let [pipe, trigger] = ["pipe", "g"].map(|name| place.path().join(name));
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    std::fs::write(&trigger, "declared").unwrap();
    let running = begin(&place, text);
    std::fs::write(&trigger, "other").unwrap();
    // The command waits until this test opens the pipe.
    wait("the change", || place.path().join("done").exists());
    wait("the repair", || content(&place.path().join("f")) == "declared");
    drop(std::fs::OpenOptions::new().write(true).open(&pipe).unwrap());
    let reference = format!("file[{}]", place.path().join("f").display());
    let process = newest(&place, &reference, 2)["process"].clone();
    assert_eq!((&process["program"], &process["started_by"]), (&json!("sh"), &json!("kilter")), "{process}");
    running.end();
}

#[test]
fn run_without_the_capability_says_once_that_the_process_is_unknown() {
    let place = Place::new();
    let file = place.path().join("f");
    let reference = format!("file[{}]", file.display());
    let path = manifest(&place, "resources:\n  file[DIR/f]: {content: declared}\n");
    // Root of a user namespace does not have the capability outside.
    let running = Running::secluded(&place, ":", &[&path]);
    rest(&place);
    std::fs::write(&file, "other").unwrap();
    let repair = newest(&place, &reference, 2);
    assert_eq!(repair["process"], json!({"unknown": "kilter has no CAP_SYS_ADMIN"}), "{repair}");
    std::fs::write(&file, "another").unwrap();
    assert_eq!(newest(&place, &reference, 3)["process"], Json::Null);
    running.end();
    let shown = place.run(&["history", &reference]).stdout;
    assert_eq!(shown.matches("    changed by an unknown process: kilter has no CAP_SYS_ADMIN\n").count(), 1, "{shown}");
}
