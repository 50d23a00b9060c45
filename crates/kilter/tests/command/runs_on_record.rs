//! The history of runs: records, questions, and a history that cannot be written.

use std::os::unix::fs::PermissionsExt;

use serde_json::Value as Json;

use crate::run::{Running, content, wait};
use crate::support::*;

/// Declares files with contents, each on a line of its own.
fn declare(place: &Place, files: &[(&str, &str)]) -> String {
    let directory = place.path().display();
    let line = |(name, content): &(&str, &str)| {
        format!("    {directory}/{name}: {{ content: \"{content}\\n\", mode: \"0644\" }}\n")
    };
    place.file("site.yaml", format!("resources:\n  file:\n{}", files.iter().map(line).collect::<String>()))
}

fn apply(place: &Place, files: &[(&str, &str)]) {
    let manifest = declare(place, files);
    let ended = place.run(&["apply", &manifest]);
    assert_eq!(ended.code, 0, "{} {}", ended.stdout, ended.stderr);
}

/// Returns the lines of a JSON output.
fn lines(ended: &Ended) -> Vec<Json> {
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn runs(place: &Place, options: &[&str]) -> Vec<Json> {
    lines(&place.run(&[&["history", "--format", "json"], options].concat()))
}

fn timeline(place: &Place, name: &str) -> Vec<Json> {
    let resource = format!("file[{}/{name}]", place.path().display());
    lines(&place.run(&["history", &resource, "--format", "json"]))
}

#[test]
fn edit_is_intentional_and_drift_is_corrective() {
    let place = Place::new();
    apply(&place, &[("a", "one"), ("b", "one")]);
    // A drift of one attribute, and an edit of another file.
    std::fs::set_permissions(place.path().join("a"), PermissionsExt::from_mode(0o666)).unwrap();
    apply(&place, &[("a", "one"), ("b", "two")]);
    // An edit of the content and a drift of the mode of one file.
    std::fs::set_permissions(place.path().join("a"), PermissionsExt::from_mode(0o600)).unwrap();
    apply(&place, &[("a", "three"), ("b", "two")]);
    let corrective = |event: &Json| event["corrective"].clone();
    assert_eq!(timeline(&place, "a").iter().map(corrective).collect::<Vec<_>>(), [false, true, false]);
    assert_eq!(timeline(&place, "b").iter().map(corrective).collect::<Vec<_>>(), [false, false]);
    let last = &timeline(&place, "a")[0];
    let changes: Vec<(&str, bool)> = last["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| (change["attribute"].as_str().unwrap(), change["corrective"] == true))
        .collect();
    assert_eq!(changes, [("content", false), ("mode", true)]);
    assert_eq!((&last["changes"][1]["old"], &last["changes"][1]["new"]), (&"0600".into(), &"0644".into()));
    assert!(last["place"].as_str().unwrap().ends_with("/site.yaml:3"), "{last}");
    assert_eq!(runs(&place, &["--corrective"]).len(), 1);
    assert_eq!(runs(&place, &[]).len(), 3);
    let drift = lines(&place.run(&["history", "drift", "--format", "json"]));
    assert_eq!((drift.len(), &drift[0]["repairs"]), (1, &2.into()));
}

#[test]
fn change_that_failed_at_first_is_intentional() {
    let place = Place::new();
    let manifest =
        place.file("site.yaml", format!("resources: {{file: {{{0}/d/f: {{content: x}}}}}}\n", place.path().display()));
    assert_eq!(place.run(&["apply", &manifest]).code, 4);
    std::fs::create_dir(place.path().join("d")).unwrap();
    assert_eq!(place.run(&["apply", &manifest]).code, 0);
    let events = timeline(&place, "d/f");
    let seen: Vec<(&str, &Json)> =
        events.iter().map(|event| (event["status"].as_str().unwrap(), &event["corrective"])).collect();
    assert_eq!(seen, [("changed", &false.into()), ("failed", &Json::Null)]);
    assert_eq!(runs(&place, &["--failed"]).len(), 1);
}

#[test]
fn runs_without_changes_are_counted_with_the_run_before() {
    let place = Place::new();
    apply(&place, &[("a", "one")]);
    (0..3).for_each(|_| apply(&place, &[("a", "one")]));
    let all = runs(&place, &[]);
    assert_eq!((all.len(), &all[0]["repeated"]["count"]), (1, &3.into()));
    let shown = place.run(&["history"]);
    assert!(shown.stdout.contains("1 changed; 3 more runs without changes until"), "{}", shown.stdout);
    // Other declarations are another record, even without a change.
    std::fs::write(place.path().join("b"), "two\n").unwrap();
    std::fs::set_permissions(place.path().join("b"), PermissionsExt::from_mode(0o644)).unwrap();
    apply(&place, &[("a", "one"), ("b", "two")]);
    assert_eq!(runs(&place, &[]).len(), 2);
}

#[test]
fn blame_names_run_user_line_and_commit() {
    let place = Place::new();
    let git = place.path().join(".git");
    std::fs::create_dir_all(git.join("refs/heads")).unwrap();
    std::fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    std::fs::write(git.join("refs/heads/main"), "0123456789abcdef0123456789abcdef01234567\n").unwrap();
    apply(&place, &[("a", "one"), ("b", "one")]);
    apply(&place, &[("a", "one"), ("b", "two")]);
    let resource = format!("file[{}/b]", place.path().display());
    let ended = place.run(&["blame", &resource, "--format", "json"]);
    let origins: Json = serde_json::from_str(&ended.stdout).unwrap();
    let content = &origins[0];
    assert_eq!((&content["attribute"], &content["value"]), (&"content".into(), &"two\n".into()));
    assert_eq!(content["commit"], "0123456789abcdef0123456789abcdef01234567");
    assert!(content["place"].as_str().unwrap().ends_with("/site.yaml:4"), "{content}");
    assert_eq!(content["command"], "apply");
    let user = std::process::Command::new("id").arg("-un").output().unwrap();
    assert!(content["user"].as_str().unwrap().ends_with(String::from_utf8_lossy(&user.stdout).trim()), "{content}");
    let attributes: Vec<&str> =
        origins.as_array().unwrap().iter().map(|one| one["attribute"].as_str().unwrap()).collect();
    assert_eq!(attributes, ["content", "ensure", "mode"]);
    let of_one = place.run(&["blame", &resource, "mode"]);
    assert!(of_one.stdout.contains("0644") && !of_one.stdout.contains("two"), "{}", of_one.stdout);
    let unknown = place.run(&["blame", "file[/never]"]);
    assert!(unknown.code == 1 && unknown.stderr.contains("does not contain file[/never]"), "{}", unknown.stderr);
}

#[test]
fn difference_between_times_leaves_out_values_that_came_back() {
    let place = Place::new();
    apply(&place, &[("a", "one"), ("b", "one")]);
    let from = runs(&place, &[])[0]["ended"].as_str().unwrap().to_owned();
    apply(&place, &[("a", "two"), ("b", "two")]);
    apply(&place, &[("a", "three"), ("b", "one")]);
    let ended = place.run(&["history", "diff", &from, "--format", "json"]);
    let found: Json = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(found["resources"].as_array().unwrap().len(), 1, "{found}");
    let change = &found["resources"][0]["changes"][0];
    assert_eq!((&change["old"], &change["new"], &change["changes"]), (&"one\n".into(), &"three\n".into(), &2.into()));
}

#[test]
fn difference_between_times_starts_after_the_first_and_includes_the_second() {
    let place = Place::new();
    ["one", "two", "three"].into_iter().for_each(|content| apply(&place, &[("a", content)]));
    let at: Vec<String> =
        timeline(&place, "a").iter().rev().map(|event| event["time"].as_str().unwrap().to_owned()).collect();
    let ended = place.run(&["history", "diff", &at[0], &at[1], "--format", "json"]);
    let found: Json = serde_json::from_str(&ended.stdout).unwrap();
    let change = &found["resources"][0]["changes"][0];
    assert_eq!((&change["old"], &change["new"], &change["changes"]), (&"one\n".into(), &"two\n".into(), &1.into()));
}

#[test]
fn held_machine_records_repairs_and_edits() {
    let place = Place::new();
    let manifest = declare(&place, &[("a", "one")]);
    let running = Running::begin(&place, &[&manifest]);
    let a = place.path().join("a");
    wait("the first content", || a.exists());
    let events = || place.run(&["history", "export"]).stdout.matches("\"kind\":\"outcome\"").count();
    wait("the record of the creation", || events() == 1);
    std::fs::write(&a, "drifted\n").unwrap();
    wait("the record of the repair", || events() == 2);
    declare(&place, &[("a", "two")]);
    wait("the record of the edit", || events() == 3);
    place.file("site.yaml", "resources: {}\n");
    let left = format!("no longer declared, and left as they are: file[{}]", a.display());
    wait("the name of the resource that left", || running.told(&left) == 1);
    running.terminate();
    running.end();
    let corrective = |event: &Json| event["corrective"].clone();
    assert_eq!(timeline(&place, "a").iter().map(corrective).collect::<Vec<_>>(), [false, true, false]);
    let all = runs(&place, &[]);
    assert_eq!((all.len(), &all[0]["command"], &all[0]["state"]), (1, &"run".into(), &"ended".into()));
    assert_eq!(all[0]["counts"]["corrected"], 1);
}

#[test]
fn drift_of_a_machine_that_was_in_sync_at_the_first_run_is_corrective() {
    let place = Place::new();
    let manifest = declare(&place, &[("a", "one")]);
    let a = place.path().join("a");
    std::fs::write(&a, "one\n").unwrap();
    std::fs::set_permissions(&a, PermissionsExt::from_mode(0o644)).unwrap();
    let running = Running::begin(&place, &[&manifest]);
    wait("the record of the declarations", || place.run(&["history", "export"]).stdout.contains("\"declared\""));
    std::fs::write(&a, "drifted\n").unwrap();
    wait("the record of the repair", || place.run(&["history", "export"]).stdout.contains("\"outcome\""));
    running.terminate();
    running.end();
    assert_eq!(timeline(&place, "a")[0]["corrective"], true);
}

#[test]
fn repair_inside_of_an_edited_resource_is_a_drift() {
    let place = Place::new();
    let file = place.path().join("a");
    let apply = |mode: &str| {
        let text = format!("resources: {{file: {{{}: {{content: one, mode: '{mode}'}}}}}}\n", file.display());
        assert_eq!(place.run(&["apply", &place.file("site.yaml", text)]).code, 0);
    };
    apply("0644");
    assert_eq!(place.run(&["history", "drift", "--format", "json"]).stdout, "");
    std::fs::write(&file, "drifted").unwrap();
    apply("0600");
    assert_eq!(timeline(&place, "a")[0]["corrective"], false);
    let drift = lines(&place.run(&["history", "drift", "--format", "json"]));
    assert_eq!((&drift[0]["repairs"], &drift[0]["attributes"]), (&1.into(), &serde_json::json!({"content": 1})));
}

#[test]
fn content_of_a_new_file_is_stored_once_and_shown_as_a_diff() {
    let place = Place::new();
    let file = place.path().join("a");
    for (content, diff) in [
        ("one\\ntwo", "@@ -0,0 +1,2 @@\n      +one\n      +two\n      \\ No newline at end of file\n"),
        ("one\\n+++\\n", "@@ -0,0 +1,2 @@\n      +one\n      ++++\n"),
        ("one\\n", "@@ -0,0 +1,1 @@\n      +one\n"),
    ] {
        let text = format!("resources: {{file: {{{}: {{content: \"{content}\"}}}}}}\n", file.display());
        assert_eq!(place.run(&["apply", &place.file("site.yaml", text)]).code, 0);
        let shown = place.run(&["history", "show", "last"]).stdout;
        assert!(shown.contains(diff), "{content}: {shown}");
        let change = &timeline(&place, "a")[0]["changes"][1];
        assert_eq!((&change["diff"], &change["diff_of"]), (&serde_json::Value::Null, &"new".into()), "{change}");
        std::fs::remove_file(&file).unwrap();
    }
    std::fs::write(&file, "zero\none\n").unwrap();
    assert_eq!(place.run(&["apply", &place.path().join("site.yaml").display().to_string()]).code, 0);
    let change = &timeline(&place, "a")[0]["changes"][0];
    assert!(change["diff"].as_str().is_some_and(|diff| diff.contains("-zero")), "{change}");
}

#[test]
fn export_as_junit_has_a_suite_for_each_run_and_a_case_for_each_result() {
    let place = Place::new();
    let file = place.path().join("a<b>").display().to_string();
    let text = format!(
        "resources:\n  file[{file}]: {{content: \"one\\n\"}}\n  exec[fails]: {{command: [/bin/false]}}\n  \
         exec[after]: {{command: [/bin/true], require: 'exec[fails]'}}\n"
    );
    assert_eq!(place.run(&["apply", &place.file("site.yaml", text)]).code, 4);
    assert_eq!(place.run(&["set", "file", &file, "content=two"]).code, 0);
    let exported = place.run(&["history", "export", "--format", "junit"]).stdout;
    for expected in [
        "<testsuite name=\"run 1: kilter apply\" tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\" time=\"",
        ": kilter set\" tests=\"1\" failures=\"0\" errors=\"0\" skipped=\"0\"",
        "<testcase classname=\"file\" name=\"DIR/a&lt;b&gt;\" time=\"",
        "<failure message=\"`/bin/false` returned 1 instead of 0\" type=\"failed\">",
        "<skipped message=\"skipped\"/>",
        "because of exec[fails]",
        "+one",
    ] {
        assert!(exported.contains(expected), "{expected}: {exported}");
    }
    assert!(exported.ends_with("  </testsuite>\n</testsuites>\n"), "{exported}");
    let failed = place.run(&["history", "export", "--format", "junit", "--failed"]).stdout;
    assert_eq!((failed.matches("<testsuite ").count(), failed.matches("<testcase ").count()), (1, 1), "{failed}");
    let none = place.run(&["history", "export", "--format", "junit", "--until", "2020-01-01"]).stdout;
    assert!(!none.contains("<testsuite ") && none.ends_with("</testsuites>\n"), "{none}");
}

#[test]
fn secret_is_nowhere_in_the_state_directory_and_in_no_output() {
    const SECRET: &str = "planted-secret-of-the-test";
    let place = Place::new();
    let directory = place.path().display();
    let file = place.path().join("s");
    std::fs::write(&file, format!("{SECRET} before\n")).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    let manifest = place.file(
        "site.yaml",
        format!(
            "resources:\n  file:\n    {directory}/s: {{ content: {{ sensitive: \"{SECRET}\\n\" }} }}\n  exec:\n    \
             fails:\n      command: [/bin/sh, -c, 'echo $TOKEN >&2; exit 3']\n      environment: {{ TOKEN: {{ \
             sensitive: {SECRET} }} }}\n"
        ),
    );
    let ended = place.run(&["apply", &manifest]);
    assert_eq!(ended.code, 4, "{} {}", ended.stdout, ended.stderr);
    assert_eq!(content(&file), format!("{SECRET}\n"));
    for words in [&["history", "show", "last"][..], &["history", "export"], &["history", "export", "--format", "csv"]] {
        let shown = place.run(words);
        assert!(shown.code == 0 && !shown.stdout.contains(SECRET), "{words:?}: {}", shown.stdout);
    }
    let mut files = 0;
    for entry in std::fs::read_dir(place.path().join("state/history")).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(!bytes.windows(SECRET.len()).any(|part| part == SECRET.as_bytes()));
        files += 1;
    }
    assert!(files >= 1);
    // The saved state is complete although it is encrypted.
    assert_eq!(place.run(&["undo", &format!("file[{directory}/s]")]).code, 0);
    assert_eq!(content(&file), format!("{SECRET} before\n"));
}

#[test]
fn history_that_cannot_be_written_ends_a_run_before_its_first_change() {
    let place = Place::new();
    std::fs::create_dir_all(place.path().join("state")).unwrap();
    std::fs::set_permissions(place.path().join("state"), PermissionsExt::from_mode(0o700)).unwrap();
    place.file("state/history", "in the way");
    let manifest = declare(&place, &[("a", "one"), ("b", "one")]);
    let ended = place.run(&["apply", &manifest]);
    assert_eq!(ended.code, 4, "{} {}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("--without-history"), "{}", ended.stdout);
    assert!(!place.path().join("a").exists() && !place.path().join("b").exists());
    assert_eq!(place.run(&["apply", "--without-history", &manifest]).code, 0);
    assert_eq!(content(&place.path().join("a")), "one\n");
    // A machine that is held is repaired in any case.
    std::fs::write(place.path().join("a"), "drifted\n").unwrap();
    let running = Running::begin(&place, &[&manifest]);
    wait("the repair", || content(&place.path().join("a")) == "one\n");
    wait("the warning", || running.told("this run is not recorded") > 0);
    running.terminate();
    running.end();
}

#[test]
fn tampering_is_found_and_the_head_can_be_kept_elsewhere() {
    let place = Place::new();
    apply(&place, &[("a", "one")]);
    let verified = place.run(&["history", "verify"]);
    let head = verified.stdout.lines().find_map(|line| line.strip_prefix("head ")).unwrap().to_owned();
    apply(&place, &[("a", "two")]);
    assert_eq!(place.run(&["history", "verify", "--expect", &head]).code, 0);
    let other = place.run(&["history", "verify", "--expect", "01234567"]);
    assert!(other.code == 4 && other.stderr.contains("does not contain the head"), "{}", other.stderr);
    let database = place.path().join("state/history/history.db");
    let sql = "UPDATE event SET body = replace(body, 'two', 'one')";
    assert!(std::process::Command::new("sqlite3").arg(&database).arg(sql).status().unwrap().success());
    let found = place.run(&["history", "verify"]);
    assert!(found.code == 4 && found.stderr.contains("changed after the history was written"), "{}", found.stderr);
}

#[test]
fn run_that_was_killed_is_marked_and_its_history_is_whole() {
    let mut random = fastrand::Rng::with_seed(23);
    let mut cut_off = 0;
    let place = Place::new();
    let names: Vec<String> = (0..200).map(|at| format!("f{at}")).collect();
    let mut text = String::new();
    for round in 0..200 {
        // On a busy machine, some runs end before the kill.
        if round >= 12 && cut_off > 0 {
            break;
        }
        text = format!("round {round}");
        let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), text.as_str())).collect();
        let manifest = declare(&place, &files);
        let mut command = place.command(&["apply", "-q", &manifest]);
        let mut child = command.stdout(std::process::Stdio::null()).spawn().unwrap();
        // The kill comes after a number of changed files, not after a time.
        let at = place.path().join(&names[random.usize(..names.len())]);
        let expected = format!("{text}\n");
        while std::fs::read_to_string(&at).unwrap_or_default() != expected && child.try_wait().unwrap().is_none() {
            std::hint::spin_loop();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(place.run(&["history", "verify"]).code, 0, "round {round}");
        cut_off += runs(&place, &["-n", "1"]).iter().filter(|run| run["state"] == "cut_off").count();
    }
    assert!(cut_off > 0);
    assert!(place.run(&["history"]).stdout.contains("cut off"));
    // What the last run changed is restored, however far it came.
    assert_eq!(place.run(&["undo", "last", "-q"]).code, 0);
    let texts: std::collections::BTreeSet<String> =
        names.iter().map(|name| content(&place.path().join(name))).collect();
    assert!(!texts.contains(&format!("{text}\n")), "{texts:?}");
}

#[test]
fn questions_without_a_history_and_invalid_ones_are_answered_with_a_hint() {
    let place = Place::new();
    for words in [&["history"][..], &["history", "show", "last"], &["undo", "last"], &["blame", "file[/a]"]] {
        let ended = place.run(words);
        assert!(ended.code == 1 && ended.stderr.contains("there is no history in"), "{words:?}: {}", ended.stderr);
    }
    assert!(!place.path().join("state").exists());
    apply(&place, &[("a", "one")]);
    for (words, expected) in [
        (&["history", "show", "99"][..], "there is no run 99"),
        (&["history", "show", "x"], "`x` is no run"),
        (&["history", "--since", "soon"], "`soon` is no time"),
        (&["history", "motd"], "`motd` is no resource"),
        (&["history", "diff", "now", "yesterday"], "the first time is later"),
        (&["undo"], "what to undo is missing"),
        (&["undo", "last", "--to", "1h"], "--to names the time of a resource"),
        (&["confirm"], "no apply waits for a confirmation"),
    ] {
        let ended = place.run(words);
        assert!(ended.code == 1 && ended.stderr.contains(expected), "{words:?}: {}", ended.stderr);
    }
}

#[test]
fn state_directory_that_others_can_use_is_no_source_of_an_undo() {
    let place = Place::new();
    apply(&place, &[("a", "one")]);
    std::fs::set_permissions(place.path().join("state"), PermissionsExt::from_mode(0o777)).unwrap();
    for words in [&["undo", "last"][..], &["history"], &["confirm"], &["blame", "file[/a]"]] {
        let ended = place.run(words);
        assert!(ended.code == 1 && ended.stderr.contains("has mode 0777"), "{words:?}: {}", ended.stderr);
    }
    assert!(place.path().join("a").exists());
}

/// Encodes a message of channel 3 as the text of mold does.
fn netstring(content: &str) -> String {
    format!("{}:{content},", content.len())
}

#[test]
fn raw_log_of_mold_is_imported_and_exported_with_every_nesting() {
    let place = Place::new();
    // The examples of the text, its keys, and names of nested processes.
    let messages = [
        r#"["jim", "stdout", {"line": "This is a line of stdout\n"}]"#,
        r#"["joe", "stderr", {"line": "AAH/\n", "encoding": "base64"}]"#,
        r#"["jim.bob.sue", "spawn", {"path": "/bin/ls", "env": {"A": "1"}, "args": ["ls", "-l"], "user": "u"}]"#,
        r#"["jim.bob.sue", 1, {"line": "ü \u001b[31m"}]"#,
        r#"["jim.bob.sue", "exitcode", 0]"#,
        r#"[null, "own key", [1, {"deep": null}]]"#,
    ];
    let log: String = messages.iter().map(|message| netstring(message)).collect();
    let path = place.file("raw", &log);
    let ended = place.run(&["history", "import", &path]);
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{}", ended.stdout);
    assert!(ended.stdout.contains("6 messages"), "{}", ended.stdout);
    let exported = place.run(&["history", "export", "--format", "netstrings"]).stdout;
    let parsed = |log: &str| -> Vec<Json> {
        let mut rest = log;
        let mut all = Vec::new();
        while let Some((length, after)) = rest.split_once(':') {
            let (content, after) = after.split_at(length.parse().unwrap());
            all.push(serde_json::from_str(content).unwrap());
            rest = after.strip_prefix(',').unwrap();
        }
        all
    };
    assert_eq!(parsed(&exported), parsed(&log));
    assert!(
        exported.starts_with("57:[\"jim\", \"stdout\", {\"line\": \"This is a line of stdout\\n\"}],"),
        "{exported}"
    );
    let shown = place.run(&["history", "show", "last"]).stdout;
    for expected in ["import", "jim.bob.sue", "/bin/ls -l (as u:)", "exitcode", "This is a line of stdout"] {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
    assert!(!shown.contains('\u{1b}'), "{shown}");
    assert!(place.run(&["history"]).stdout.contains("6 messages"));
    assert_eq!(place.run(&["history", "verify"]).code, 0);
    // Damage between messages is reported, and the messages are kept.
    let path = place.file("raw", format!("{}garbage{}", netstring(messages[0]), netstring(messages[4])));
    let ended = place.run(&["history", "import", &path]);
    assert_eq!(ended.code, 4, "{}", ended.stdout);
    assert!(ended.stderr.contains("at byte 61") && ended.stdout.contains("2 messages"), "{ended:?}");
    // An empty log makes no run.
    let runs = place.run(&["history"]).stdout;
    place.file("raw", "");
    assert_eq!(place.run(&["history", "import", &path]).code, 0);
    assert_eq!(place.run(&["history"]).stdout, runs);
}

#[test]
fn report_of_a_period_is_one_page_with_counts_drift_and_changes() {
    let place = Place::new();
    apply(&place, &[("a", "one <b>bold</b>"), ("b", "one")]);
    for _ in 0..3 {
        std::fs::set_permissions(place.path().join("b"), PermissionsExt::from_mode(0o666)).unwrap();
        apply(&place, &[("a", "one <b>bold</b>"), ("b", "one")]);
    }
    let failing = place.file("bad.yaml", "resources:\n  exec[x]: {command: \"echo '<i>'; exit 3\", shell: true}\n");
    assert_eq!(place.run(&["apply", &failing]).code, 4);
    let written = place.run(&["history", "report", "--since", "1h", "-o", "page.html"]);
    assert_eq!((written.code, written.stdout.as_str(), written.stderr.as_str()), (0, "", ""));
    let path = place.path().join("page.html");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let page = std::fs::read_to_string(path).unwrap();
    for expected in [
        "<li><b>5</b> runs</li>",
        "<li class=\"done\"><b>2</b> changed</li>\n<li class=\"todo\"><b>3</b> corrected</li>\n\
         <li class=\"bad\"><b>1</b> failed",
        "<td class=\"number\">3</td>",
        "<td>mode (3)</td>",
        "<b>mode</b> <del>0666</del> → <ins>0644</ins>",
        "<span class=\"added\">+one &lt;b&gt;bold&lt;/b&gt;</span>",
        "stdout | &lt;i&gt;",
        "Results per minute",
    ] {
        assert!(page.contains(expected), "{expected}: {page}");
    }
    for forbidden in ["http:", "https:", "<script", "<b>bold", "<i>'"] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    // A filter applies to all parts.
    let written = place.run(&["history", "report", "--corrective", "-o", "page.html"]);
    assert_eq!(written.code, 0, "{}", written.stderr);
    let page = std::fs::read_to_string(place.path().join("page.html")).unwrap();
    assert!(page.contains("<b>3</b> corrected") && !page.contains("failed</li>"), "{page}");
    let refused = place.run(&["history", "report", "-o", "missing/page.html"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (1, ""));
    assert!(refused.stderr.starts_with("error: cannot write the report missing/page.html: "), "{}", refused.stderr);
    // A period without runs has a page, too.
    let written = place.run(&["history", "report", "--until", "2001-01-01", "-o", "page.html"]);
    assert_eq!(written.code, 0, "{}", written.stderr);
    let page = std::fs::read_to_string(place.path().join("page.html")).unwrap();
    assert!(page.contains("<b>0</b> runs") && page.contains("No repair of a drift is on record."), "{page}");
}

#[test]
fn lines_of_a_failure_are_shown_as_lines() {
    let place = Place::new();
    let command = "printf 'one\\ntw\\033[2Jo\\n' >&2; exit 3";
    let text = format!("resources:\n  exec[fail]: {{command: {command:?}, shell: true}}\n");
    assert_eq!(place.run(&["apply", &place.file("fail.yaml", text)]).code, 4);
    for words in [&["history", "show", "last"][..], &["history", "exec[fail]"]] {
        let shown = place.run(words).stdout;
        let error: Vec<&str> = shown.lines().skip_while(|line| !line.starts_with("    error: ")).take(3).collect();
        assert_eq!(error[1..], ["      one", "      tw\\u{1b}[2Jo"], "{words:?}: {shown}");
        assert!(!shown.contains('\u{1b}'), "{words:?}: {shown}");
    }
}
