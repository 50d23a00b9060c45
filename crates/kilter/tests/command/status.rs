//! `kilter status`: what a run holds, and why anything is not in its state.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::Value as Json;

use crate::run::{Running, content, manifest, rest, wait};
use crate::support::*;

const MANIFEST: &str = "resources:\n  file[DIR/a]: {content: declared}\n  file[DIR/no/b]: {content: x}\n  \
                        file[DIR/c]: {content: x, require: \"file[DIR/no/b]\"}\n  \
                        file[DIR/d]: {content: x, meta: {poll: 60}}\n  exec[slow]: {command: sleep 60}\n  \
                        file[DIR/e]: {content: x, require: \"exec[slow]\"}\n";

const SHORT: &str = "resources:\n  file[DIR/a]: {content: declared}\n  exec[once]: {command: \"true\"}\n";

fn begun(place: &Place) -> Running {
    let running = Running::begin(place, &[&manifest(place, MANIFEST)]);
    wait("the file, the failure and the command", || {
        let state = |name: &str| status(place, &[name])["resources"][0]["state"].clone();
        content(&place.path().join("a")) == "declared"
            && state("exec[slow]") == "changing"
            && content(&place.path().join("d")) == "x"
    });
    running
}

fn state(place: &Place) -> PathBuf {
    place.path().join("state")
}

/// Returns the JSON of `kilter status`; null if the command fails.
pub(crate) fn status(place: &Place, names: &[&str]) -> Json {
    let names: Vec<String> =
        names.iter().map(|name| name.replace("DIR", &place.path().display().to_string())).collect();
    let args = ["status", "--format", "json"].into_iter().chain(names.iter().map(String::as_str));
    let ended = place.run(&args.collect::<Vec<_>>());
    serde_json::from_str(&ended.stdout).unwrap_or(Json::Null)
}

#[test]
fn status_has_state_and_reason_of_each_resource() {
    let place = Place::new();
    let _running = begun(&place);
    let one = |name: &str| status(&place, &[name])["resources"][0].clone();
    wait("what is blocked", || one("file[DIR/c]")["state"] == "skipped");
    let (a, b, c, d, e) =
        (one("file[DIR/a]"), one("file[DIR/no/b]"), one("file[DIR/c]"), one("file[DIR/d]"), one("file[DIR/e]"));
    assert_eq!((&a["state"], &a["watched"], &a["changes"]), (&"in_sync".into(), &"events".into(), &1.into()));
    assert!(a["last_change"]["attributes"].as_array().unwrap().contains(&"content".into()), "{a}");
    // A busy machine may have repeated the check.
    assert!(b["state"] == "failed" && b["failures"].as_u64() >= Some(1), "{b}");
    assert!(b["failure"].as_str().unwrap().contains("no"), "{b}");
    assert_eq!(c["because_of"], "file[DIR/no/b]");
    assert_eq!((&d["watched"], &d["every_ms"]), (&"poll".into(), &60_000.into()));
    assert!(d["next_check_ms"].as_u64().unwrap() <= 60_000, "{d}");
    assert_eq!((&e["state"], &e["because_of"]), (&"waiting".into(), &"exec[slow]".into()));

    let mut notable = Json::Null;
    // While the check of a failed resource is repeated, the next one is ready.
    wait("the states", || {
        notable = status(&place, &[]);
        let states = notable["resources"].as_array().into_iter().flatten().map(|one| &one["state"]);
        states.eq(["failed", "skipped", "changing", "waiting"])
    });
    let count = |key: &str| notable["counts"][key].as_u64().unwrap();
    assert_eq!((count("total"), count("failed"), count("skipped"), count("under_way")), (6, 1, 1, 2));
    assert_eq!(status(&place, &["--all"])["resources"].as_array().unwrap().len(), 6);
    let ended = place.run(&["status"]);
    assert_eq!(ended.code, 4, "{ended:?}");
    assert!(ended.stdout.contains("6 resources") && ended.stdout.contains("waiting for exec[slow]"), "{ended:?}");

    std::fs::create_dir(place.path().join("no")).unwrap();
    wait("what failed, since its directory is there", || one("file[DIR/c]")["state"] == "in_sync");
    assert_eq!(place.run(&["status", "--quiet"]).code, 0);
}

#[test]
fn status_and_events_tell_corrections_from_intentional_changes() {
    let place = Place::new();
    let site = |content: &str| manifest(&place, &format!("resources:\n  file[DIR/a]: {{content: {content}}}\n"));
    let running = Running::begin(&place, &["--format", "json", &site("one")]);
    let a = place.path().join("a");
    let one = || status(&place, &["file[DIR/a]"]);
    wait("the file", || content(&a) == "one" && one()["resources"][0]["state"] == "in_sync");
    let of = |status: &Json| (status["corrections"].clone(), status["resources"][0]["corrections"].clone());
    let is_last = |status: &Json| status["resources"][0]["last_change"]["corrected"].clone();
    let first = one();
    assert_eq!((of(&first), is_last(&first)), ((0.into(), 0.into()), false.into()), "{first}");
    // Without a record of the declaration, drift looks like an edit.
    wait("the record", || place.run(&["history"]).stdout.contains("run"));
    std::fs::write(&a, "drifted").unwrap();
    wait("the repair", || content(&a) == "one" && one()["resources"][0]["changes"] == 2);
    let second = one();
    assert_eq!((of(&second), is_last(&second)), ((1.into(), 1.into()), true.into()), "{second}");
    assert!(
        place
            .run(&["status", "file[DIR/a]".replace("DIR", &place.path().display().to_string()).as_str()])
            .stdout
            .contains("1 of them after a drift")
    );
    site("two");
    wait("the edit", || content(&a) == "two" && one()["resources"][0]["state"] == "in_sync");
    let third = one();
    assert_eq!((of(&third), is_last(&third)), ((1.into(), 0.into()), false.into()), "{third}");
    let events = running.end().1;
    let settled = events.lines().filter_map(|line| serde_json::from_str::<Json>(line).ok());
    let settled = settled.filter(|event| event["event"] == "settled" && event["status"] == "changed");
    let corrected: Vec<Json> = settled.map(|event| event["corrected"].clone()).collect();
    assert_eq!(corrected, [false, true, false]);
}

#[test]
fn status_without_run_is_an_error() {
    let place = Place::new();
    let ended = place.run(&["status"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.stderr.contains("no `kilter run` is active") && ended.stderr.contains("--state-dir"), "{ended:?}");
    let running = Running::begin(&place, &[&manifest(&place, SHORT)]);
    wait("the run", || place.run(&["status"]).code == 0);
    let ended = place.run(&["status", "file[/nowhere]", "exec[once]"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(
        ended.stderr.contains("file[/nowhere] is not a resource of this run") && ended.stdout.contains("exec[once]")
    );
    assert_eq!(place.run(&["status", "nothing"]).code, 1);
    let socket = state(&place).join("status.sock");
    let found = std::fs::symlink_metadata(&socket).unwrap();
    assert!(found.file_type().is_socket() && found.mode() & 0o777 == 0o600, "{found:?}");
    running.end();
    assert!(!socket.exists());
    assert_eq!(place.run(&["status"]).code, 1);
}

#[test]
fn stale_socket_of_killed_run_is_not_a_run() {
    let place = Place::new();
    drop(begun(&place));
    assert!(state(&place).join("status.sock").exists());
    assert_eq!(place.run(&["status"]).code, 1);
    let _running = begun(&place);
}

#[test]
fn removed_status_socket_is_recreated() {
    let place = Place::new();
    let running = Running::begin(&place, &[&manifest(&place, SHORT)]);
    wait("the run", || place.run(&["status"]).code == 0);
    let socket = state(&place).join("status.sock");
    let count = || std::fs::read_dir(format!("/proc/{}/fd", running.id())).unwrap().count();
    let is_there = || std::fs::symlink_metadata(&socket).is_ok_and(|found| found.mode() & 0o777 == 0o600);
    rest(&place);
    let before = count();
    for _ in 0..3 {
        std::fs::remove_file(&socket).unwrap();
        wait("the socket", is_there);
        wait("an answer", || place.run(&["status"]).code == 0);
    }
    // What is declared in another way has nothing to do with it.
    manifest(&place, &SHORT.replace("content: declared", "content: other"));
    wait("the edit", || content(&place.path().join("a")) == "other");
    std::fs::rename(&socket, state(&place).join("moved")).unwrap();
    wait("another one", || is_there() && place.run(&["status"]).code == 0);
    // One of them may have been that of a question that was answered just before.
    wait("as many descriptors as before", || count() <= before);

    // Somebody else's is left alone, also at the end.
    std::fs::write(state(&place).join("others"), "x").unwrap();
    std::fs::rename(state(&place).join("others"), &socket).unwrap();
    std::fs::write(place.path().join("a"), "changed").unwrap();
    wait("the file", || content(&place.path().join("a")) == "other");
    running.end();
    assert_eq!(content(&socket), "x");
}

#[test]
fn events_are_followed_as_they_happen() {
    let place = Place::new();
    let running = Running::begin(&place, &[&manifest(&place, SHORT)]);
    // The creation of the file is no event of the follower.
    rest(&place);
    let mut follower = place.command(&["status", "--follow"]);
    let mut follower = follower.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    // It says nothing until something happens, so something happens until it has begun to listen.
    let a = place.path().join("a");
    let (settled, quiet) = std::thread::scope(|scope| {
        let seen = scope.spawn(|| {
            let mut events = lines.by_ref().map(|line| serde_json::from_str::<Json>(&line.unwrap()).unwrap());
            let settled = events.find(|event| event["event"] == "settled").unwrap();
            (settled, events.find(|event| event["event"] == "quiet"))
        });
        wait("the events", || {
            if !seen.is_finished() {
                std::fs::write(&a, "changed").unwrap();
                wait("the repair", || content(&a) == "declared");
                rest(&place);
            }
            seen.is_finished()
        });
        seen.join().unwrap()
    });
    // How all stands is told again behind whatever was done.
    assert_eq!(quiet.expect("it is quiet again")["counts"]["total"], 2);
    assert_eq!((&settled["status"], &settled["differences"][0]["attribute"]), (&"changed".into(), &"content".into()));
    assert!(settled["resource"].as_str().unwrap().ends_with("/a]") && settled["unix_ms"].is_u64(), "{settled}");
    running.end();
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(rest.iter().any(|line| line.contains("\"interrupted\"")), "{rest:?}");
    assert_eq!(follower.wait().unwrap().code(), Some(0));
}

#[test]
fn run_prints_events_as_json_and_its_report_last() {
    let place = Place::new();
    let kept = manifest(&place, "resources:\n  file[DIR/a]: {content: declared}\n");
    let args = ["run", "--format", "json", "--quiet", "--converged-exit", "--converged-timeout", "0", &*kept];
    let ended = place.run(&args);
    assert_eq!((ended.code, &*ended.stderr), (0, ""), "{ended:?}");
    let lines: Vec<Json> = ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |word: &str| lines.iter().find(|json| json["event"] == word).cloned().unwrap_or_default();
    assert_eq!(of("settled")["resource"], "file[DIR/a]");
    assert_eq!(of("converged")["converged"], true, "{ended:?}");
    let last = lines.last().unwrap();
    assert_eq!((&last["event"], &last["report"]["counts"]["in_sync"]), (&"ended".into(), &1.into()));
    assert!(lines.iter().all(|json| json["unix_ms"].is_u64()), "{ended:?}");
}

#[test]
fn ended_followers_leave_no_resources() {
    let place = Place::new();
    let running = Running::begin(&place, &[&manifest(&place, SHORT)]);
    wait("the run", || place.run(&["status"]).code == 0);
    let process = status(&place, &[])["process"].to_string();
    let count = || ["fd", "task"].map(|kind| std::fs::read_dir(format!("/proc/{process}/{kind}")).unwrap().count());
    rest(&place);
    let before = count();
    for _ in 0..24 {
        let mut follower =
            place.command(&["status", "--follow"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let descriptors = format!("/proc/{}/fd", follower.id());
        wait("the connection", || {
            let all = std::fs::read_dir(&descriptors).unwrap();
            let mut targets = all.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
            targets.any(|target| target.display().to_string().starts_with("socket:"))
        });
        follower.kill().unwrap();
        follower.wait().unwrap();
    }
    wait("all to be forgotten, though nothing happens", || {
        count().iter().zip(&before).all(|(now, before)| now <= before)
    });
    running.end();
}

#[test]
fn status_redacts_secrets() {
    let place = Place::new();
    let secret = "{content: {sensitive: {file: DIR/source}}, mode: \"0600\"}";
    std::fs::write(place.path().join("source"), "hunter2").unwrap();
    let text = format!("resources:\n  file[DIR/no/s]: {secret}\n  file[DIR/s]: {secret}\n");
    let running = Running::begin(&place, &[&manifest(&place, &text)]);
    wait("the file", || content(&place.path().join("s")) == "hunter2");
    wait("the failure", || status(&place, &[])["counts"]["failed"] == 1);
    let told = status(&place, &["--all"]).to_string() + &place.run(&["status", "--all"]).stdout;
    assert!(told.contains("/no/s]") && !told.contains("hunter2"), "{told}");
    running.end();
}

#[test]
fn metrics_are_served_by_http_and_command() {
    let place = Place::new();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let path = manifest(&place, MANIFEST);
    let _running = Running::begin(&place, &["--metrics", &free.to_string(), &path]);
    let get = |page: &str| {
        let Ok(mut stream) = std::net::TcpStream::connect(free) else { return String::new() };
        let asked =
            std::io::Write::write_all(&mut stream, format!("GET {page} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
        let mut answer = String::new();
        let _ = asked.and_then(|()| std::io::Read::read_to_string(&mut stream, &mut answer));
        answer
    };
    let notable = "kilter_resources_notable{type=\"file\",state=\"failed\"} 1\n";
    wait("what has failed", || get("/metrics").contains(notable));
    let answer = get("/metrics");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(get("/").starts_with("HTTP/1.1 404 "));
    let told = place.run(&["status", "--format", "prometheus"]).stdout;
    assert!(told.contains(notable) && told.contains("kilter_resources{state=\"failed\"} 1\n"), "{told}");
    // Who connects and says nothing holds nobody up for long, and ends with the run.
    let _silent = std::net::TcpStream::connect(free).unwrap();
    wait("another answer", || get("/metrics").contains(notable));
    let again = place.run(&["run", "--metrics", &free.to_string(), "--state-dir", "other", &path]);
    assert_eq!(again.code, 1);
    assert!(again.stderr.contains("cannot serve metrics at"), "{}", again.stderr);
    let chosen = Running::begin(&place, &["--metrics", "127.0.0.1:0", "--state-dir", "other", &path]);
    wait("the port", || chosen.told("metrics are served at http://127.0.0.1:") > 0);
}

#[test]
fn graph_is_drawn_with_status() {
    let place = Place::new();
    let path = manifest(&place, MANIFEST);
    let none = place.run(&["graph", "--live", &path]);
    assert_eq!(none.code, 1);
    assert!(none.stderr.contains("no `kilter run` is active"), "{}", none.stderr);
    let _running = begun(&place);
    let drawn = || place.run(&["graph", "--live", &path]).stdout;
    wait("what is blocked", || drawn().contains("file[DIR/c]: skipped\n"));
    let text = drawn();
    for line in ["file[DIR/a]: in_sync\n", "exec[slow]: changing\n", "file[DIR/e]: waiting\n"] {
        assert!(text.contains(line), "{text}");
    }
    let other = place.file("other.yaml", "resources:\n  noop[elsewhere]: {}\n");
    let json: Json = serde_json::from_str(&place.run(&["graph", "--live", "--format", "json", &other]).stdout).unwrap();
    assert_eq!(json["states"]["noop[elsewhere]"], "not held");
}

#[test]
fn metrics_cover_all_resources() {
    let place = Place::new();
    for (args, what) in [(["--follow"], "`--follow`"), (["file[/a]"], "a resource")] {
        let ended = place.run(&[&["status", "--format", "prometheus"], &args[..]].concat());
        assert_eq!((ended.code, ended.stdout.as_str()), (1, ""));
        assert_eq!(
            ended.stderr,
            format!("error: metrics cover all resources: {what} cannot be used with `--format prometheus`\n")
        );
    }
}

/// Exit code of `kilter status`, and its document.
fn coded(place: &Place) -> (i32, Json) {
    let ended = place.run(&["status", "--format", "json"]);
    (ended.code, serde_json::from_str(&ended.stdout).unwrap_or(Json::Null))
}

#[test]
fn status_of_a_broken_manifest_is_not_green() {
    let place = Place::new();
    let socket = std::os::unix::net::UnixDatagram::bind(place.path().join("notify")).unwrap();
    let path = manifest(&place, SHORT);
    let mut command = place.command(&["run", &path]);
    command.env("NOTIFY_SOCKET", place.path().join("notify")).stdout(Stdio::null()).stderr(Stdio::null());
    let mut running = command.spawn().unwrap();
    wait("the first", || status(&place, &[])["quiet_for_ms"].is_u64());
    assert_eq!((coded(&place).0, &coded(&place).1["outdated"]), (0, &Json::Null));
    let mut follow = place.command(&["status", "--follow"]);
    let mut follow = follow.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines();

    for (breaks, errors, text) in [(true, 2, "has no attribute"), (false, 1, "cannot read the manifest")] {
        match breaks {
            true => drop(manifest(&place, &format!("{SHORT}  file[DIR/x]: {{foo: 1, bar: 2}}\n"))),
            false => std::fs::remove_file(&path).unwrap(),
        }
        wait("the errors", || coded(&place).1["outdated"]["errors"] == errors);
        let (code, told) = coded(&place);
        assert_eq!(code, 4, "{told}");
        assert!(told["outdated"]["messages"].to_string().contains(text), "{told}");
        let held = told["outdated"]["held_unix_ms"].as_u64().unwrap();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as u64;
        assert!(held <= now && now - held < 600_000, "{held}");
        let shown = place.run(&["status"]).stdout;
        let s = if errors == 1 { "" } else { "s" };
        assert!(shown.contains("holding the state of 20"), "{shown}");
        assert!(shown.contains(&format!("Z; the manifest has {errors} error{s}\n")), "{shown}");
        let metrics = place.run(&["status", "--format", "prometheus"]).stdout;
        assert!(metrics.contains(&format!("\nkilter_manifest_errors {errors}\n")), "{metrics}");
        let event = lines.by_ref().map(Result::unwrap).find(|line| line.contains("\"event\":\"conditions\""));
        let event: Json = serde_json::from_str(&event.unwrap()).unwrap();
        assert_eq!(event["outdated"]["errors"], errors);
        let mut late = place.command(&["status", "--follow"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut first = String::new();
        BufReader::new(late.stdout.take().unwrap()).read_line(&mut first).unwrap();
        let first: Json = serde_json::from_str(&first).unwrap();
        assert_eq!((&first["event"], &first["outdated"]["errors"]), (&"conditions".into(), &errors.into()));
        late.kill().and_then(|()| late.wait()).unwrap();
        let mut buffer = [0; 4096];
        loop {
            let count = socket.recv(&mut buffer).unwrap();
            let told = String::from_utf8_lossy(&buffer[..count]).into_owned();
            if told.contains(&format!("Z; the manifest has {errors} error{s}; ")) {
                assert!(told.contains("STATUS=holding the state of 20"), "{told}");
                break;
            }
        }
    }
    // A pipe without a writer, which would block a read forever.
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR).unwrap();
    wait("the pipe", || coded(&place).1["outdated"]["messages"].to_string().contains("is not a file"));
    assert_eq!(coded(&place).0, 4);
    std::fs::remove_file(&path).unwrap();
    manifest(&place, SHORT);
    wait("the manifest", || coded(&place).1["outdated"].is_null());
    assert_eq!(coded(&place).0, 0);
    running.kill().unwrap();
    running.wait().unwrap();
    follow.wait().unwrap();
}

#[test]
fn status_of_a_polled_guard_has_the_age_of_its_check() {
    let place = Place::new();
    let text = "resources:\n  exec[x]: {command: \"true\", unless: \"true\"}\n  file[DIR/a]: {content: x}\n";
    let _running = Running::begin(&place, &[&manifest(&place, text)]);
    wait("the first", || status(&place, &[])["quiet_for_ms"].is_u64());
    let one = |name: &str| status(&place, &[name])["resources"][0].clone();
    let guard = one("exec[x]");
    assert!(guard["last_check_ms"].is_u64() && guard["every_ms"] == 300_000, "{guard}");
    assert!(one("file[DIR/a]")["last_check_ms"].is_u64());
    let (code, told) = coded(&place);
    assert_eq!((code, &told["counts"]["polled"]), (0, &1.into()));
    assert!(told["oldest_check_ms"].is_u64(), "{told}");
    let shown = place.run(&["status"]).stdout;
    assert!(shown.contains("\n1 resource is polled, not watched: the oldest check is "), "{shown}");
    assert!(place.run(&["status", "exec[x]"]).stdout.contains("; last check "));
}

#[test]
fn full_state_directory_stops_only_changes_with_refresh() {
    let place = Place::new();
    let file = |name: &str| place.path().join(name);
    std::fs::create_dir(state(&place)).unwrap();
    let text = "resources:\n  file[DIR/a]: {content: declared}\n  file[DIR/b]: {content: x, notify: \"exec[r]\"}\n  \
                exec[r]: {command: \"echo x >> DIR/r\", shell: true, refreshonly: true}\n";
    let words =
        "mount -t tmpfs -o size=64k,mode=0700 none state && head -c 1M /dev/zero > state/fill 2>/dev/null; true";
    let path = manifest(&place, text);
    let running = Running::in_namespaces(&place, &["--user", "--map-root-user", "--mount"], words, &[&path]);
    wait("the file that owes nothing", || content(&file("a")) == "declared");
    let inside = |program: &str, args: &[&str]| {
        let (kilter, run) = (place.command(args), running.id().to_string());
        let mut command = std::process::Command::new("nsenter");
        command.args(["--preserve-credentials", "--user", "--mount", "--target", &run, program]);
        command.args(args).env_clear().envs(kilter.get_envs().filter_map(|(name, value)| Some((name, value?))));
        place.ended(command.current_dir(place.path()).output().unwrap())
    };
    let coded = || {
        let ended = inside(env!("CARGO_BIN_EXE_kilter"), &["status", "--format", "json"]);
        (ended.code, serde_json::from_str::<Json>(&ended.stdout).unwrap_or(Json::Null))
    };
    wait("the failure", || coded().1["journal"].is_string());
    let (code, told) = coded();
    assert!(code == 4 && told["journal"].to_string().contains("No space left on device"), "{told}");
    assert!(told["resources"][0]["failure"].as_str().unwrap().contains("its refreshes cannot be recorded"), "{told}");
    assert!(!file("b").exists() && !file("r").exists(), "a change was made whose refresh is not recorded");
    let shown = inside(env!("CARGO_BIN_EXE_kilter"), &["status"]).stdout;
    assert!(shown.contains("\nchanges that notify other resources wait: cannot append to the journal "), "{shown}");
    std::fs::write(file("a"), "changed").unwrap();
    wait("the repair", || content(&file("a")) == "declared");

    assert_eq!(inside("rm", &[&state(&place).join("fill").display().to_string()]).code, 0);
    wait("the change and its refresh", || content(&file("b")) == "x" && content(&file("r")) == "x\n");
    wait("the end of it", || coded().0 == 0);
    assert!(coded().1["journal"].is_null());
    assert_eq!(running.told("Changes that owe a refresh wait"), 1);
    assert_eq!(running.end().0, Some(143));
}

#[test]
fn apply_with_full_state_directory_refuses_only_changes_with_refresh() {
    let place = Place::new();
    let file = |name: &str| place.path().join(name);
    std::fs::create_dir(state(&place)).unwrap();
    let path = manifest(
        &place,
        "resources:\n  file[DIR/b]: {content: x, notify: \"exec[r]\"}\n  file[DIR/a]: {content: declared}\n  \
                file[DIR/c]: {content: y, require: \"file[DIR/a]\"}\n  file[DIR/d]: {content: z, require: \
                \"file[DIR/b]\"}\n  \
                exec[r]: {command: \"echo x >> DIR/r\", shell: true, refreshonly: true}\n",
    );
    let words = "mount -t tmpfs -o size=64k,mode=0700 none state && { head -c 1M /dev/zero > state/fill 2>/dev/null; \
                 \"$0\" \"$@\"; echo code $?; ls; rm state/fill; \"$0\" \"$@\"; echo code $?; }";
    let ended = place.run_in_own_mounts(words, &["apply", "--without-history", &path]);
    let (first, second) = ended.stdout.split_once("code 4\n").unwrap_or_else(|| panic!("{ended:?}"));
    assert!(first.contains("not begun, because its refreshes cannot be recorded: "), "{first}");
    assert!(first.contains("5 resources: 2 changed, 1 failed, 2 skipped"), "{first}");
    assert!(first.contains("No space left on device") && !first.contains("still to be refreshed"), "{first}");
    let made: Vec<&str> = second.lines().take_while(|line| line.len() == 1).collect();
    assert_eq!(made, ["a", "c"], "a change was made whose refresh is not recorded");
    assert!(second.contains("5 resources: 2 changed, 1 refreshed") && second.ends_with("code 0\n"), "{second}");
    assert_eq!(content(&file("r")), "x\n");
    assert_eq!(ended.stderr.matches("Changes that owe a refresh are not made; everything else goes on").count(), 1);
}

#[test]
fn unreadable_journal_stops_neither_a_plan_nor_a_run_at_an_edit() {
    let place = Place::new();
    let text = "resources:\n  file[DIR/b]: {content: x, notify: \"exec[r]\"}\n  \
                exec[r]: {command: \"echo x >> DIR/r\", shell: true, refreshonly: true}\n";
    let path = manifest(&place, text);
    let running = Running::begin(&place, &[&path]);
    let refreshed = || content(&place.path().join("r"));
    wait("the refresh", || refreshed() == "x\n" && status(&place, &[])["quiet_for_ms"].is_u64());
    let journal = state(&place).join("journal");
    std::fs::write(&journal, "rubbish\n").unwrap();
    let planned = place.run(&["plan", &path]);
    assert_eq!(planned.code, 0, "{planned:?}");
    assert!(planned.stderr.contains("is damaged at line 1"), "{planned:?}");
    assert!(planned.stderr.contains("Refreshes that earlier runs owe are not shown"), "{planned:?}");
    manifest(&place, &text.replace("content: x", "content: edited"));
    wait("the edit and its refresh", || content(&place.path().join("b")) == "edited" && refreshed() == "x\nx\n");
    std::fs::write(place.path().join("b"), "changed").unwrap();
    wait("the refresh of a repair", || refreshed() == "x\nx\nx\n");
    wait("an orderly state", || place.run(&["status"]).code == 0);
    assert_eq!(running.end().0, Some(143));
}

#[test]
fn removed_state_directory_is_made_again_and_stays_locked() {
    let place = Place::new();
    let path = manifest(
        &place,
        "resources:\n  file[DIR/b]: {content: x, notify: \"exec[r]\"}\n  \
                exec[r]: {command: \"echo x >> DIR/r\", shell: true, refreshonly: true}\n",
    );
    let running = Running::begin(&place, &[&path]);
    wait("the refresh", || content(&place.path().join("r")) == "x\n" && status(&place, &[])["quiet_for_ms"].is_u64());
    for _ in 0..5 {
        // The run makes it again while it is removed.
        let _ = std::fs::remove_dir_all(state(&place));
        let other = place.run(&["run", &path]);
        assert!(other.code == 1 && other.stderr.contains("another run holds the lock"), "{other:?}");
    }
    wait("its state directory", || status(&place, &[])["quiet_for_ms"].is_u64());
    std::fs::write(place.path().join("b"), "changed").unwrap();
    wait("the refresh of a repair", || content(&place.path().join("r")) == "x\nx\n");
    assert_eq!(std::fs::metadata(state(&place)).unwrap().mode() & 0o7777, 0o700);
    assert_eq!(running.end().0, Some(143));
    assert_eq!(place.run(&["apply", &path]).code, 0);
}
