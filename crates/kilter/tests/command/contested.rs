//! Process that undoes the repairs of a contested resource.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command};

use serde_json::Value as Json;

use crate::run::{Running, content, manifest, wait};
use crate::support::{Place, is_root};

/// User without rights.
const NOBODY: u32 = 65534;

/// Returns the contest over the only resource.
fn contest(place: &Place) -> Json {
    let ended = place.run(&["status", "--all", "--format", "json"]);
    let status: Json = serde_json::from_str(&ended.stdout).unwrap_or(Json::Null);
    status["resources"][0]["contested"].clone()
}

/// Changes a file by this process after each repair, until it is contested.
fn fight(place: &Place, file: &Path) {
    wait("the contest", || {
        if content(file) == "declared" {
            std::fs::write(file, "other").unwrap();
        }
        contest(place)["repairs"].as_u64() >= Some(21)
    });
}

/// Changes the mode of the file `f` by `chmod` of another user, until `status` names that process. The process keeps
/// its number and its name until the caller waits for it.
fn named_chmod(place: &Place, mode: &str) -> Child {
    let mut child: Option<(Child, Json)> = None;
    wait("the name of chmod", || {
        let contest = contest(place);
        let known = child.as_ref().is_some_and(|(child, _)| contest["opponent"]["pid"] == child.id());
        // A repair may have replaced the file while chmod had the old one.
        if !known && child.as_ref().is_none_or(|(_, repairs)| *repairs != contest["repairs"]) {
            // The user may be unable to enter the directories above.
            let mut command = Command::new("setpriv");
            command.args(["--reuid", &NOBODY.to_string(), "--regid", &NOBODY.to_string(), "--clear-groups"]);
            let next = command.args(["chmod", mode, "f"]).current_dir(place.path()).spawn().unwrap();
            child.replace((next, contest["repairs"].clone())).map(|(mut former, _)| former.wait());
        }
        known
    });
    child.unwrap().0
}

#[test]
fn contested_file_names_program_and_user_that_change_it() {
    assert!(is_root(), "run this test as root with CAP_SYS_ADMIN: only then does the kernel name the process");
    let place = Place::new();
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let file = place.path().join("f");
    let text = "resources:\n  file[DIR/f]: {content: declared, mode: \"0644\", owner: nobody}\n";
    let running = Running::begin(&place, &[&manifest(&place, text)]);
    fight(&place, &file);

    // The test process is an opponent that goes on.
    let own = std::process::id();
    wait("the name of this process", || {
        if content(&file) == "declared" {
            std::fs::write(&file, "again").unwrap();
        }
        contest(&place)["opponent"]["pid"] == own
    });
    let opponent = contest(&place)["opponent"].clone();
    let name = std::fs::read_to_string("/proc/self/comm").unwrap();
    assert_eq!((&opponent["program"], &opponent["user"]), (&Json::from(name.trim()), &Json::from("root")));

    // So is a program of another user that ends at once.
    let mut child = named_chmod(&place, "600");
    let opponent = contest(&place)["opponent"].clone();
    assert_eq!((&opponent["program"], &opponent["uid"]), (&Json::from("chmod"), &Json::from(NOBODY)), "{opponent}");
    // The command line is known only if chmod still ran.
    let process = format!(" (pid {}, user nobody", child.id());
    let told = place.run(&["status"]).stdout;
    assert!(told.contains("    changed by chmod") && told.contains(&process), "{told}");
    child.wait().unwrap();

    // The next repair names it.
    wait("the next repair", || {
        let errors = content(&place.path().join("errors"));
        errors.lines().any(|line| line.contains("so far, last chmod") && line.contains(&process))
    });
    running.end();
}

#[test]
fn contested_file_does_not_name_kilter_and_its_children() {
    assert!(is_root(), "run this test as root with CAP_SYS_ADMIN: only then does the kernel name the process");
    let place = Place::new();
    let text = "resources:\n  file[DIR/f]: {content: declared, notify: \"exec[rival]\"}\n  exec[rival]: \
                {command: [sh, -c, \"echo two > DIR/f\"], refreshonly: true}\n";
    let running = Running::begin(&place, &[&manifest(&place, text)]);
    wait("the contest", || contest(&place)["repairs"].as_u64() >= Some(22));
    assert_eq!(contest(&place)["opponent"], Json::Null);
    running.end();
}

#[test]
fn contested_file_names_no_process_without_the_capability() {
    let place = Place::new();
    let path = manifest(&place, "resources:\n  file[DIR/f]: {content: declared}\n");
    let file = place.path().join("f");
    // Root of a user namespace does not have the capability outside.
    let running = Running::secluded(&place, ":", &[&path]);
    fight(&place, &file);
    wait("the next repair", || content(&file) == "declared");
    std::fs::write(&file, "again").unwrap();
    wait("the change", || contest(&place)["repairs"].as_u64() >= Some(22));
    let contest = contest(&place);
    assert!(contest.is_object() && contest["opponent"].is_null(), "{contest}");
    running.end();
}
