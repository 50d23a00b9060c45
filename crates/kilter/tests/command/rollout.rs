//! Roll-outs to several hosts: stages, limits of failures, stored state. All hosts are this machine.

use std::path::Path;
use std::process::Command;

use crate::remote::{Sshd, cache};
use crate::run::wait;
use crate::support::*;

/// Several names for this machine, and the files of a roll-out to them.
struct Fleet {
    place: Place,
    inventory: String,
}

impl Fleet {
    fn new(names: &[&str]) -> Fleet {
        let place = Place::new();
        let hosts: String = names.iter().map(|name| format!("    {name}: {{ansible_connection: local}}\n")).collect();
        let inventory = place.file("hosts.yaml", format!("all:\n  hosts:\n{hosts}"));
        Fleet { place, inventory }
    }

    /// Returns a command that works on one host at a time, because all have the same state directory.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.place.command(&[&["-i", &self.inventory, "--parallel", "1"], args].concat());
        command.env("KILTER_CACHE_DIR", cache());
        command
    }

    fn kilter(&self, args: &[&str]) -> Ended {
        self.place.end(&mut self.command(args))
    }

    fn path(&self, name: &str) -> String {
        self.place.path().join(name).display().to_string()
    }

    fn touch(&self, name: &str) {
        std::fs::write(self.path(name), "").unwrap();
    }

    fn has(&self, name: &str) -> bool {
        Path::new(&self.path(name)).exists()
    }

    /// Writes a manifest with a command of /bin/sh for each host. `NAME` is the name of the host. The command runs
    /// unless there is a file `done-NAME`.
    fn site(&self, script: &str) -> String {
        let script = script.replace("NAME", "${facts.inventory.name}");
        let here = self.place.path().display();
        let command = format!("[sh, -c, \"cd {here}; {script}\"], creates: \"{here}/done-${{facts.inventory.name}}\"");
        self.place.file("site.yaml", format!("resources:\n  exec[step]: {{command: {command}}}\n"))
    }

    /// Returns the results of the last roll-out, by host.
    fn results(&self) -> serde_json::Value {
        let shown = self.place.run(&["rollout", "show", "last", "--format", "json"]);
        let mut document: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
        document["results"].take()
    }
}

#[test]
fn roll_out_stops_after_too_many_failures() {
    let sshd = Sshd::start();
    let site = sshd.place.file("bad.yaml", "resources:\n  exec[fail]: {command: [\"false\"]}\n");
    let applied = sshd.kilter("h1,h2,h3,h4", &["apply", "--yes", "--stage", "1,50%,100%", &site]);
    assert_eq!(applied.code, 4, "{}", applied.stderr);
    assert!(applied.stderr.contains("4 hosts: 1 failed (h1), 3 untouched (h2, h3, h4)"), "{}", applied.stderr);
    let applied = sshd.kilter("h1,h2,h3,h4", &["apply", "--yes", "--stage", "1,50%", "--max-failures", "1", &site]);
    assert!(applied.stderr.contains("2 failed (h1, h2), 2 untouched (h3, h4)"), "{}", applied.stderr);
}

#[test]
fn roll_out_of_a_killed_controller_is_resumed() {
    let fleet = Fleet::new(&["a1", "a2", "a3"]);
    let site = fleet.site("echo >>done-NAME; touch begun-NAME; until [ -e go-NAME ]; do sleep 0.02; done");
    fleet.touch("go-a1");
    let mut controller = fleet.command(&["--on", "a1,a2,a3", "apply", "--yes", &site]).spawn().unwrap();
    wait("a2 begins", || fleet.has("begun-a2"));
    let running = fleet.place.run(&["rollout", "list"]);
    assert!(running.stdout.contains("running"), "{}", running.stdout);
    let refused = fleet.place.run(&["rollout", "resume", "last", "--yes"]);
    assert!(refused.code == 1 && refused.stderr.contains("another kilter works on roll-out 1"), "{}", refused.stderr);
    controller.kill().unwrap();
    controller.wait().unwrap();
    let list = fleet.place.run(&["rollout", "list"]);
    assert!(list.stdout.contains("cut off  1 applied, 1 untouched, 1 started"), "{}", list.stdout);
    fleet.touch("go-a2");
    fleet.touch("go-a3");
    let has_ended = |history: &str| history.matches("\"state\":\"ended\"").count() >= 2;
    wait("the run of a2 ends", || has_ended(&fleet.kilter(&["history", "--format", "json"]).stdout));
    let asked = fleet.kilter(&["rollout", "resume", "1"]);
    assert!(asked.code == 1 && asked.stderr.contains("there is no terminal"), "{}", asked.stderr);
    let resumed = fleet.kilter(&["rollout", "resume", "1", "--yes"]);
    assert_eq!(resumed.code, 0, "{} {}", resumed.stdout, resumed.stderr);
    assert!(resumed.stderr.contains("2 hosts: 2 applied"), "{}", resumed.stderr);
    // The command of a2 has ended after the controller, and does not run again.
    for name in ["a1", "a2", "a3"] {
        assert_eq!(crate::run::content(fleet.path(&format!("done-{name}")).as_ref()), "\n", "{name}");
        assert_eq!(fleet.results()[name]["result"], "applied");
    }
    let nothing = fleet.kilter(&["rollout", "resume", "last", "--yes"]);
    assert!(nothing.code == 0 && nothing.stderr.contains("nothing to resume"), "{}", nothing.stderr);
    let none = fleet.kilter(&["--failed-of", "last", "plan", &site]);
    assert!(none.code == 1 && none.stderr.contains("all hosts of roll-out 1 have its changes"), "{}", none.stderr);
}

#[test]
fn hosts_without_success_are_selected_and_resumed_with_another_limit() {
    let fleet = Fleet::new(&["a1", "a2", "a3", "a4"]);
    let site = fleet.site("[ NAME != a2 ] && touch done-NAME");
    let on = ["--on", "a1,a2,a3,a4", "apply", "--yes", "--stage", "1,50%,100%", "--var", "pw=planted-secret", &site];
    let applied = fleet.kilter(&on);
    assert!(
        applied.code == 4 && applied.stderr.contains("1 applied, 1 failed (a2), 2 untouched (a3, a4)"),
        "{}",
        applied.stderr
    );
    assert!(applied.stderr.contains("hint: `kilter rollout resume 1` continues"), "{}", applied.stderr);
    let shown = fleet.place.run(&["rollout", "show", "1"]);
    assert!(shown.stdout.contains("  a2: failed: the command ended with 4\n  a3: untouched\n"), "{}", shown.stdout);
    assert!(!shown.stdout.contains("planted-secret"), "{}", shown.stdout);
    let plan = fleet.kilter(&["--failed-of", "last", "plan", &site]);
    assert!(plan.stderr.contains("3 hosts: 3 with changes"), "{} {}", plan.stdout, plan.stderr);
    let both = fleet.kilter(&["--failed-of", "last", "--on", "a1", "plan", &site]);
    assert!(both.code == 1 && both.stderr.contains("leave out --on"), "{}", both.stderr);
    // The failure before counts.
    let again = fleet.kilter(&["rollout", "resume", "last", "--yes"]);
    assert!(again.code == 4 && again.stderr.contains("1 failed, and at most 0 may fail"), "{}", again.stderr);
    assert!(!fleet.has("done-a3"));
    let resumed = fleet.kilter(&["rollout", "resume", "last", "--yes", "--max-failures", "1"]);
    assert!(resumed.code == 4 && resumed.stderr.contains("2 hosts: 2 applied"), "{}", resumed.stderr);
    assert_eq!(fleet.results()["a4"]["result"], "applied");
    assert_eq!(fleet.results()["a2"]["result"], "failed");
}

#[test]
fn hosts_without_a_plan_count_unless_a_person_approves_without_them() {
    let fleet = Fleet::new(&["a1", "a2"]);
    let site = fleet.site("touch done-NAME");
    let on = ["--on", "a1,a2,local.invalid", "apply", "--yes", "--stage", "1,100%", &site];
    let refused = fleet.kilter(&on);
    assert!(refused.code == 4 && refused.stderr.contains("1 failed, and at most 0 may fail"), "{}", refused.stderr);
    assert!(refused.stderr.contains("2 untouched (a1, a2)") && !fleet.has("done-a1"), "{}", refused.stderr);
    assert_eq!(fleet.results()["local.invalid"]["result"], "no_answer");
    let applied = fleet.kilter(&[&on[..], &["--max-failures", "1"]].concat());
    assert!(applied.code == 4 && applied.stderr.contains("2 hosts: 2 applied"), "{}", applied.stderr);
}

#[test]
fn limit_of_a_stage_ends_the_roll_out() {
    let fleet = Fleet::new(&["a1", "a2", "a3", "a4"]);
    let site = fleet.site("touch tried-NAME; false");
    let on = ["--on", "a1,a2,a3,a4", "apply", "--yes", "--stage", "2,4", "--max-failures-per-stage", "25%", &site];
    let applied = fleet.kilter(&on);
    assert!(
        applied.stderr.contains("1 failed, and at most 0 may fail (--max-failures-per-stage)"),
        "{}",
        applied.stderr
    );
    assert!(applied.code == 4 && applied.stderr.contains("3 untouched (a2, a3, a4)"), "{}", applied.stderr);
    // One failure in each stage is within this limit, and two in all are not within the other one.
    let applied = fleet
        .kilter(&[&on[..5], &["1,2,3,4", "--max-failures-per-stage", "1", "--max-failures", "25%", &site]].concat());
    assert!(applied.stderr.contains("2 failed (a1, a2), 2 untouched (a3, a4)"), "{}", applied.stderr);
    assert!(applied.stderr.contains("at most 1 may fail (--max-failures)"), "{}", applied.stderr);
}

#[test]
fn host_that_is_not_healthy_after_its_stage_counts_as_failed() {
    let fleet = Fleet::new(&["a1", "a2"]);
    let site = fleet.site("touch done-NAME");
    let on = ["--on", "a1,a2", "apply", "--yes", "--stage", "1,2", "--healthy-for", "1s", &site];
    let with = |options: &[&str]| {
        ["a1", "a2"].iter().for_each(|name| drop(std::fs::remove_file(fleet.path(&format!("done-{name}")))));
        fleet.kilter(&[&on[..], options].concat())
    };
    let ended = with(&["--healthy-command", "[ $KILTER_HOST $KILTER_ADDRESS = x ]"]);
    assert!(ended.code == 4 && ended.stderr.contains("1 unhealthy (a1), 1 untouched (a2)"), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("a1: not healthy: `[ $KILTER_HOST $KILTER_ADDRESS = x ]` ended with 2"),
        "{}",
        ended.stderr
    );
    assert_eq!(fleet.results()["a1"]["result"], "unhealthy");
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let url = format!("http://{{host}}:{port}/health");
    std::thread::spawn(move || {
        for status in ["200 OK"].iter().chain(&["503 Service Unavailable"; 9]) {
            use std::io::{Read as _, Write as _};
            let (mut client, _) = server.accept().unwrap();
            let _ = client.read(&mut [0; 4096]);
            let _ = write!(client, "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    let ended = with(&["--healthy-url", &url]);
    assert!(ended.code == 4 && ended.stderr.contains("no longer healthy: http://localhost:"), "{}", ended.stderr);
    assert!(ended.stderr.contains("the server replied with status 503"), "{}", ended.stderr);
    let ended = with(&["--healthy-url", "http://web1/health"]);
    assert!(ended.code == 1 && ended.stderr.contains("it contains {host}"), "{}", ended.stderr);
    let ended = with(&[]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
}

#[test]
fn host_that_drifts_after_its_stage_is_not_healthy() {
    let fleet = Fleet::new(&["a1", "a2"]);
    let file = fleet.path("file");
    let here = fleet.place.path().display().to_string();
    // Another program changes the file later.
    let drift = format!(
        "exec[drift]: {{command: [sh, -c, \"echo b >file\"], unless: [[grep, -q, b, file]], cwd: {here}, \
         require: \"file[{file}]\"}}"
    );
    let site = fleet.place.file("drift.yaml", format!("resources:\n  file[{file}]: {{content: a}}\n  {drift}\n"));
    let ended = fleet.kilter(&["--on", "a1,a2", "apply", "--yes", "--stage", "1,2", "--healthy-for", "1s", &site]);
    assert!(ended.stderr.contains("a1: not healthy: it is no longer in sync"), "{}", ended.stderr);
    assert!(ended.code == 4 && ended.stderr.contains("1 unhealthy (a1), 1 untouched (a2)"), "{}", ended.stderr);
}

#[test]
fn approval_of_each_stage_needs_a_terminal() {
    let fleet = Fleet::new(&["a1", "a2"]);
    let site = fleet.site("touch done-NAME");
    let on = ["--on", "a1,a2", "apply", "--yes", &site];
    for (options, message) in [
        (&["--ask-each-stage", "--stage", "1,2"][..], "there is no terminal to ask for the approval of each stage"),
        (&["--ask-each-stage"], "--ask-each-stage needs --stage"),
        (&["--pause", "1s"], "--pause needs --stage"),
        (&["--healthy-command", "true"], "need --healthy-for"),
    ] {
        let refused = fleet.kilter(&[&on[..], options].concat());
        assert!(refused.code == 1 && refused.stderr.contains(message), "{}", refused.stderr);
    }
    assert!(!fleet.has("done-a1"));
    let paused = fleet.kilter(&[&on[..], &["--stage", "1,2", "--pause", "1s"]].concat());
    assert!(paused.code == 0 && paused.stderr.contains("pause of 1 s before stage 2 of 2"), "{}", paused.stderr);
}

#[test]
fn host_outside_of_its_maintenance_window_is_not_changed() {
    let fleet = Fleet::new(&["a1", "a2", "a3"]);
    let seconds = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let hour = |later: u64| (seconds / 3600 + later) % 24;
    let closed = format!("{:02}:00-{:02}:00 UTC", hour(2), hour(3));
    let vars =
        |name: &str, window: &str| format!("    {name}: {{ansible_connection: local, maintenance_window: {window}}}\n");
    let inventory = |windows: [&str; 3]| {
        let hosts: String = ["a1", "a2", "a3"].iter().zip(windows).map(|(name, window)| vars(name, window)).collect();
        fleet.place.file("hosts.yaml", format!("all:\n  hosts:\n{hosts}"))
    };
    let site = fleet.site("touch done-NAME");
    let on = ["--on", "a1,a2,a3", "apply", "--yes", "--stage", "1,2,3", &site];
    inventory([&format!("'{closed}'"), "[Mon..Sun 00:00-24:00 Europe/Berlin]", "22:00-23:00"]);
    let refused = fleet.kilter(&on);
    assert!(
        refused.code == 1 && refused.stderr.contains("the host a3: its variable maintenance_window"),
        "{}",
        refused.stderr
    );
    inventory([
        &format!("'{closed}'"),
        "[Mon..Sun 00:00-24:00 Europe/Berlin]",
        &format!("['{closed}', 00:00-24:00 UTC]"),
    ]);
    let applied = fleet.kilter(&on);
    assert!(applied.code == 4 && applied.stderr.contains("2 applied, 1 outside the window (a1)"), "{}", applied.stderr);
    // Another host takes its place in the first stage.
    assert!(applied.stderr.contains("stage 1 of 3: a1\nstage 1 of 3: a2\nstage 2 of 3: a3\n"), "{}", applied.stderr);
    assert!(!fleet.has("done-a1") && fleet.has("done-a2"));
    assert_eq!(fleet.results()["a1"]["result"], "outside_window");
    let plan = fleet.kilter(&["--failed-of", "last", "plan", &site]);
    assert!(plan.code == 2 && plan.stderr.contains("1 host: 1 with changes"), "{}", plan.stderr);
    let resumed = fleet.kilter(&["rollout", "resume", "last", "--yes", "--outside-window"]);
    assert_eq!((resumed.code, fleet.has("done-a1")), (0, true), "{}", resumed.stderr);
    let here = fleet.place.run(&["apply", "--maintenance-window", &closed, &site]);
    assert!(here.code == 7 && here.stderr.contains("is outside of the maintenance window"), "{}", here.stderr);
    let wrong = fleet.place.run(&["apply", "--maintenance-window", "22:00-23:00 Mars/Base", &site]);
    assert!(wrong.code == 1 && wrong.stderr.contains("there is no time zone `Mars/Base`"), "{}", wrong.stderr);
}

#[test]
fn host_without_a_result_in_time_is_lost_and_counts_as_failed() {
    let fleet = Fleet::new(&["a1", "a2"]);
    let site = fleet.site("[ -e go ] || exec sleep 600; touch done-NAME");
    let on = ["--on", "a1,a2", "apply", "--yes", "--stage", "1,2", "--host-timeout", "1s", &site];
    let applied = fleet.kilter(&on);
    assert!(applied.code == 4 && applied.stderr.contains("1 lost (a1), 1 untouched (a2)"), "{}", applied.stderr);
    assert!(applied.stderr.contains("there was no result within 1 s"), "{}", applied.stderr);
    fleet.touch("go");
    let resumed = fleet.kilter(&["rollout", "resume", "last", "--yes", "--max-failures", "1", "--host-timeout", "10m"]);
    assert!(resumed.code != 1 && fleet.has("done-a2"), "{}", resumed.stderr);
}

#[test]
fn interrupted_roll_out_is_resumed() {
    let fleet = Fleet::new(&["a1", "a2"]);
    let site = fleet.site("touch begun-NAME; until [ -e go ]; do sleep 0.02; done; touch done-NAME");
    let mut controller = fleet.command(&["--on", "a1,a2", "apply", "--yes", &site]).spawn().unwrap();
    wait("a1 begins", || fleet.has("begun-a1"));
    let pid = controller.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    fleet.touch("go");
    assert_eq!(controller.wait().unwrap().code(), Some(143));
    assert_eq!(fleet.results()["a2"]["result"], "untouched");
    let resumed = fleet.kilter(&["rollout", "resume", "last", "--yes"]);
    assert_eq!((resumed.code, fleet.has("done-a2")), (0, true), "{}", resumed.stderr);
    assert_eq!(fleet.results()["a1"]["result"], "applied");
}
