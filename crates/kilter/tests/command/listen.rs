//! Scripts that tell what changes, for as long as `kilter run` listens.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use crate::run::{Running, content, manifest, wait};
use crate::support::*;

/// Notes are files of a directory, and `watch` says what this does.
pub(crate) fn notes(place: &Place, convention: &str, watch: &str) -> PathBuf {
    let notes = place.path().join("notes");
    std::fs::create_dir_all(&notes).unwrap();
    std::fs::create_dir_all(place.path().join("providers")).unwrap();
    let actions = if convention == "json" { "get, set, watch" } else { "list, find, update, watch" };
    place.file(
        "providers/note.yaml",
        format!(
            "provider:\n  type: note\n  invoke: {convention}\n  actions: [{actions}]\n  suitable: true\n  \
             attributes:\n    name:\n    \
             text: {{type: string}}\n"
        ),
    );
    let simple = "show() { printf 'name: %s\\ntext: %s\\n' \"$1\" \"$(cat \"$1\" 2>/dev/null)\"; }\n\
                  case $ral_action in\n\
                  list) echo '# simple'; for f in *; do show \"$f\"; done ;;\n\
                  find) echo '# simple'; show \"$name\" ;;\n\
                  update) printf %s \"$text\" > \"$name\"; printf '# simple\\nral_derive: true\\n' ;;\n";
    let json = "case $ral_action in\n\
                get) printf '{\"resources\": [{\"name\": \"a\", \"text\": \"%s\"}]}' \"$(cat a)\" ;;\n\
                set) printf declared > a; echo '{\"derive\": true}' ;;\n";
    let rest = if convention == "json" { json } else { simple };
    let script =
        format!("#!/bin/bash\neval \"$@\"\ncd '{}' || exit\n{rest}watch)\n{watch}\n;;\nesac\n", notes.display());
    let path = place.file("providers/note.prov", script);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    notes
}

/// Tells the names that somebody writes into a file.
pub(crate) const EVENTS: &str = "echo '# simple'; tail -n +1 -F ../events | sed -u 's/^/name: /'";

pub(crate) fn begin(place: &Place) -> Running {
    std::fs::write(place.path().join("events"), "").unwrap();
    let path = manifest(place, "resources:\n  note[a]: {text: declared}\n");
    Running::begin(place, &["-I", ".", &path])
}

/// Changes a note as another program would, without an event.
pub(crate) fn change(place: &Place, text: &str) {
    std::fs::write(place.path().join("notes/a"), text).unwrap();
}

pub(crate) fn tell(place: &Place, name: &str) {
    let mut events = std::fs::OpenOptions::new().append(true).open(place.path().join("events")).unwrap();
    std::io::Write::write_all(&mut events, format!("{name}\n").as_bytes()).unwrap();
}

#[test]
fn script_event_causes_immediate_repair() {
    for (convention, watch) in [
        ("simple", EVENTS),
        ("json", "echo '{\"watching\": true}'; tail -n +1 -F ../events | sed -u 's/.*/{\"changed\": [\"b\", \"&\"]}/'"),
        ("simple", "echo '# simple'; tail -n +1 -F ../events | sed -u 's/.*/ral_any: true/'"),
        ("json", "echo '{\"watching\": true}'; tail -n +1 -F ../events | sed -u 's/.*/{\"changed\": true}/'"),
    ] {
        let place = Place::new();
        let note = notes(&place, convention, watch).join("a");
        let running = begin(&place);
        wait("the note", || content(&note) == "declared");
        for text in ["one", "two"] {
            change(&place, text);
            tell(&place, "a");
            wait("the note, mended", || content(&note) == "declared");
        }
        let (code, _, err) = running.end();
        assert!(code == Some(143) && !err.contains("watch"), "{err}");
    }
}

#[test]
fn ended_watch_is_reported_once_and_restarted() {
    let place = Place::new();
    let watch = "echo x >> ../begun; [ \"$(wc -l < ../begun)\" -gt 2 ] || { echo 'it is broken' >&2; exit 3; }\n";
    // What is confined cannot count.
    let note = notes(&place, "simple", &format!("{watch}{EVENTS}")).join("a");
    let metadata = place.path().join("providers/note.yaml");
    std::fs::write(&metadata, content(&metadata) + "  confine: false\n").unwrap();
    let running = begin(&place);
    wait("the note, that nobody watches", || content(&note) == "declared");
    wait("the loss", || running.told("exit code 3") == 1 && running.told("it is broken") > 1);
    change(&place, "meanwhile");
    wait("what was changed before the watch began", || content(&note) == "declared");
    change(&place, "later");
    tell(&place, "a");
    wait("what was changed behind it", || content(&note) == "declared");
    assert_eq!((running.told("1 resource cannot be watched"), running.told("watched again")), (1, 1));
    running.end();
}

#[test]
fn failed_watch_is_shown_as_unwatched() {
    let place = Place::new();
    let text = "resources:\n  exec[deaf]: {command: touch DIR/a, creates: DIR/a, watch: /nonexistent/x}\n";
    let running = Running::begin(
        &place,
        &["--quiet", &place.file("m.yaml", text.replace("DIR", &place.path().display().to_string()))],
    );
    let status = || place.run(&["status", "exec[deaf]"]).stdout;
    wait("the end of the watch", || status().contains("not watched: watch: "));
    assert!(status().contains("polled every 5 min 0 s; next check in "), "{}", status());
    running.end();
}

#[test]
fn last_output_of_watch_is_redacted() {
    let place = Place::new();
    let note = notes(&place, "simple", "echo \"what is in it: $(cat a)\" >&2; exit 3").join("a");
    std::fs::write(&note, "hunter2").unwrap();
    std::fs::write(place.path().join("source"), "hunter2").unwrap();
    let text = "resources:\n  note[a]: {text: {sensitive: {file: DIR/source}}}\n";
    let running = Running::begin(&place, &["-I", ".", &manifest(&place, text)]);
    wait("the loss", || running.told("cannot be watched") == 1);
    let (_, out, err) = running.end();
    assert!(!err.contains("hunter2") && !out.contains("hunter2") && err.contains("exit code 3"), "{err}");
}

#[test]
fn silent_watch_does_not_delay_start() {
    let place = Place::new();
    let note = notes(&place, "simple", "sleep 1000").join("a");
    let running = begin(&place);
    wait("the message", || {
        let before = content(&note);
        let is_given_up = running.told("does not say that it has begun") == 1;
        assert!(is_given_up || before.is_empty(), "nothing is looked at before it is watched");
        is_given_up
    });
    wait("the note", || content(&note) == "declared");
    assert_eq!(running.told("does not say that it has begun"), 1);
    running.end();
}

#[test]
fn invalid_lines_and_floods_of_watch_are_harmless() {
    let place = Place::new();
    let watch = "echo '# simple'; tail -n +1 -F ../events | while read -r line; do echo what; printf '\\377\\n'; \
                 head -c 3000000 /dev/zero; echo; yes 'name: nobody' | head -n 1000000; done";
    let note = notes(&place, "simple", watch).join("a");
    let running = begin(&place);
    wait("the note", || content(&note) == "declared");
    for text in ["one", "two"] {
        change(&place, text);
        tell(&place, "a");
        wait("the note, since anything may have changed", || content(&note) == "declared");
    }
    assert_eq!((running.told("`what`"), running.told("not UTF-8"), running.told("longer than")), (1, 1, 1));
    running.end();
}

#[test]
fn receiver_sees_changed_inputs_until_in_sync() {
    let place = Place::new();
    let file = |name: &str| place.path().join(name);
    std::fs::create_dir(file("providers")).unwrap();
    place.file(
        "providers/sink.yaml",
        "provider:\n  type: sink\n  invoke: simple\n  actions: [find, update]\n  suitable: true\n  attributes:\n    \
         name:\n    \
         text: {type: string}\n    other: {type: string}\n",
    );
    let script = "#!/bin/bash\neval \"$@\"\ncd 'DIR' || exit\nprintf '# simple\\n'\ncase $ral_action in\n\
                  find) printf 'name: %s\\ntext: %s\\nother: o\\n' \"$name\" \"$(cat sunk 2>/dev/null)\" ;;\n\
                  update) echo \"$text: $ral_received\" >> log\n[ ! -e fail ] || { printf 'ral_error: \
                  no\\nral_eom\\n'; exit 0; }\n\
                  printf %s \"$text\" > sunk; printf 'ral_derive: true\\n' ;;\nesac\n";
    let path = place.file("providers/sink.prov", script.replace("DIR", &place.path().display().to_string()));
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(file("in"), "one").unwrap();
    let text = "resources:\n  exec[read]: {command: cat DIR/in, watchfiles: [DIR/in]}\n  \
                sink[s]: {text: \"got ${exec[read].stdout}\", other: o, meta: {poll: 1, retry: -1, delay: 100}}\n";
    let running = Running::begin(&place, &["-I", ".", &manifest(&place, text)]);
    wait("the first", || content(&file("sunk")) == "got one");
    assert_eq!(content(&file("log")), "got one: text\n");

    std::fs::write(file("fail"), "").unwrap();
    std::fs::write(file("in"), "two").unwrap();
    wait("tries", || content(&file("log")).matches("got two: text\n").count() > 1);
    let status = place.run(&["status", "sink[s]", "--format", "json"]).stdout;
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let received = &status["resources"][0]["received"];
    assert_eq!(received.to_string(), r#"[{"attribute":"text","from":["exec[read].stdout"],"changed":true}]"#);
    std::fs::remove_file(file("fail")).unwrap();
    wait("the second", || content(&file("sunk")) == "got two");
    wait("it to be in its state", || {
        place.run(&["status", "sink[s]"]).stdout.contains("text is from exec[read].stdout\n")
    });

    std::fs::write(file("sunk"), "by somebody else").unwrap();
    wait("what somebody else has changed", || content(&file("sunk")) == "got two");
    assert!(content(&file("log")).ends_with("got two: \n"), "{}", content(&file("log")));
    running.end();
}

#[test]
fn mold_script_event_causes_immediate_repair() {
    let place = Place::new();
    let file = |name: &str| place.path().join(name);
    std::fs::create_dir_all(file("mold/resources")).unwrap();
    place.file(
        "mold/resources/note.yaml",
        "actions: [inspect, conform, watch]\nattributes:\n  text: {type: String, desc: x}\n",
    );
    let script = "#!/bin/sh\ncd 'DIR' || exit\nread -r document\ncase $1 in\n\
                  inspect) printf '{\"kind\": \"note\", \"name\": \"a\", \"exists\": true, \"text\": \"%s\"}\\n' \
                  \"$(cat a)\" ;;\n\
                  conform) printf %s \"$document\" | sed 's/.*\"text\": *\"\\([^\"]*\\)\".*/\\1/' | tr -d '\\n' > a \
                  ;;\n\
                  watch) echo \"$document\" > asked; echo '{\"watching\": true}'; exec tail -n 0 -F events ;;\nesac\n";
    let path = place.file("mold/resources/note", script.replace("DIR", &place.path().display().to_string()));
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(file("a"), "").unwrap();
    std::fs::write(file("events"), "").unwrap();
    // What only reads is kept from writing; this one says what it was asked.
    place.file(
        "mold/resources/note.yaml",
        "actions: [inspect, conform, watch]\nconfine: false\nattributes:\n  text: {type: String, desc: x}\n",
    );
    let running =
        Running::begin(&place, &["--mold", "mold", &manifest(&place, "resources:\n  note[a]: {text: declared}\n")]);
    wait("the note", || content(&file("a")) == "declared");
    assert_eq!(content(&file("asked")), "{\"kind\":\"note\"}\n");
    for text in ["one", "two"] {
        std::fs::write(file("a"), text).unwrap();
        tell(&place, "{\"changed\": [\"a\"]}");
        wait("the note, mended", || content(&file("a")) == "declared");
    }
    let (code, _, err) = running.end();
    assert!(code == Some(143) && !err.contains("watch"), "{err}");
}

#[test]
fn metadata_watches_paths() {
    let place = Place::new();
    let note = notes(&place, "simple", "exit 1").join("a");
    let metadata = std::fs::read_to_string(place.path().join("providers/note.yaml")).unwrap();
    let watches = format!("  watches: {{path: '{}/${{vars.name}}'}}\n  attributes:", note.parent().unwrap().display());
    let metadata = metadata.replace(", watch]", "]").replace("  attributes:", &watches);
    place.file("providers/note.yaml", metadata);
    let running = begin(&place);
    wait("the note", || content(&note) == "declared");
    for text in ["one", "two"] {
        change(&place, text);
        wait("the note, mended", || content(&note) == "declared");
    }
    let status = place.run(&["status", "note[a]", "--format", "json"]).stdout;
    assert!(status.contains("\"watched\": \"events\"") && !status.contains("every_ms"), "{status}");
    assert_eq!(running.end().0, Some(143));
}

/// A provider whose resource is what a command prints, in a world of its own where that is needed.
fn shown(place: &Place, watches: &str, find: &str, update: &str) {
    std::fs::create_dir_all(place.path().join("providers")).unwrap();
    place.file(
        "providers/shown.yaml",
        format!(
            "provider:\n  type: shown\n  invoke: simple\n  actions: [find, update]\n  suitable: true\n  watches: \
             {watches}\n  \
             attributes:\n    name:\n    text: {{type: string}}\n"
        ),
    );
    let script = format!(
        "#!/bin/bash\neval \"$@\"\ncd '{}' || exit\necho '# simple'\ncase $ral_action in\n\
         find) printf 'name: %s\\ntext: %s\\n' \"$name\" \"$({find})\" ;;\n\
         update) {update}\necho 'ral_derive: true' ;;\nesac\n",
        place.path().display()
    );
    let path = place.file("providers/shown.prov", script);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn ended_process_is_restarted_at_once() {
    let place = Place::new();
    let pid_file = place.path().join("pid");
    let watches = format!("{{process: '{}'}}", pid_file.display());
    // What it starts outlives the script, in a session of its own.
    let begin =
        "setsid -f sh -c 'echo $$ > pid; exec sleep 300' >/dev/null 2>&1; until [ -s pid ]; do sleep 0.01; done";
    // One that has ended may be there as long as nobody waits for it.
    shown(&place, &watches, "grep -q '^State:.[^ZX]' \"/proc/$(cat pid)/status\" 2>/dev/null && echo up", begin);
    let text = "resources:\n  shown[x]: {text: up}\n";
    let running = Running::begin(&place, &["-I", ".", &manifest(&place, text)]);
    let another = |than: &str| {
        wait("a process", || content(&pid_file).ends_with('\n') && content(&pid_file) != than);
        content(&pid_file)
    };
    let kill = |number: &str| {
        let process = rustix::process::Pid::from_raw(number.trim().parse().unwrap()).unwrap();
        rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
    };
    let mut last = another("");
    for _ in 0..2 {
        wait("it to be in its state", || place.run(&["status"]).stdout.contains("1 in their state"));
        kill(&last);
        last = another(&last);
    }
    running.end();
    kill(&last);
}

#[test]
fn network_change_is_repaired_at_once() {
    let place = Place::new();
    let find = "ip -o link show \"$name\" | grep -q '<[^>]*UP' && echo up";
    shown(&place, "{network: links}", find, "ip link set \"$name\" up");
    let path = manifest(&place, "resources:\n  shown[lo]: {text: up}\n");
    // A world with nothing but this interface, which is down.
    let script = "\"$@\" > told 2>&1 &\nrun=$!\n\
                  until_up() { for i in $(seq 200); do ip -o link show lo | grep -q '<[^>]*UP' && return; sleep 0.05; \
                  done; cat told; exit 1; }\n\
                  until_up; sleep 0.5; ip link set lo down; until_up; sleep 0.5; ip link set lo down; until_up\nkill \
                  $run; wait $run; echo $?\n";
    let kilter = place.command(&["-I", ".", "run", &path]);
    let mut command = std::process::Command::new("unshare");
    command.args(["--net", "sh", "-c", script, "sh"]).arg(kilter.get_program()).args(kilter.get_args());
    kilter.get_envs().filter_map(|(name, value)| Some((name, value?))).for_each(|(name, value)| {
        command.env(name, value);
    });
    let ended = command.current_dir(place.path()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&ended.stdout), "143\n", "{ended:?}");
}

#[test]
fn resource_that_changes_its_own_source_is_contested() {
    let place = Place::new();
    // Without a process for each value, since the contest needs 20 repairs within a minute.
    let stamps = "read -r id </proc/sys/kernel/random/uuid; echo \"$id\"; echo \"stamp: $id\"";
    let watches =
        format!("{{path: '{}'}}\n  outputs: {{stamp: Another one each time.}}", place.path().join("out").display());
    shown(&place, &watches, stamps, ":");
    let text = "resources:\n  shown[x]: {}\n  file[DIR/out]: {content: \"${shown[x].stamp}\"}\n";
    let running = Running::begin(&place, &["-I", ".", &manifest(&place, text)]);
    wait("it to be given up", || running.told("is contested") >= 1);
    running.end();
}

#[test]
fn poll_interval_applies_in_addition_to_watch() {
    let place = Place::new();
    let note = notes(&place, "simple", EVENTS).join("a");
    let metadata = std::fs::read_to_string(place.path().join("providers/note.yaml")).unwrap();
    place.file("providers/note.yaml", metadata.replace("  attributes:", "  watches: {every: 1}\n  attributes:"));
    let running = begin(&place);
    wait("the note", || content(&note) == "declared");
    for text in ["one", "two"] {
        change(&place, text);
        wait("the note, mended though nobody has told", || content(&note) == "declared");
    }
    running.end();
}

#[test]
fn resource_named_by_output_is_watched() {
    let place = Place::new();
    let path = |name: &str| place.path().join(name);
    std::fs::write(path("source"), "one").unwrap();
    let text = "resources:\n  exec[p]: {command: \"printf DIR/source\", shell: true, creates: DIR/done, done: \"touch \
                DIR/done\"}\n  \
                file[DIR/out]: {source: \"${exec[p].stdout}\"}\n  \
                exec[made]: {command: \"touch DIR/made\", creates: \"${exec[q].stdout}\"}\n  \
                exec[q]: {command: \"printf DIR/made\", shell: true, creates: DIR/asked, done: \"touch DIR/asked\"}\n";
    let running = Running::begin(&place, &[&manifest(&place, text)]);
    wait("the source", || content(&path("out")) == "one" && path("made").exists());
    std::fs::write(path("source"), "two").unwrap();
    wait("another source", || content(&path("out")) == "two");
    std::fs::remove_file(path("made")).unwrap();
    wait("what it creates", || path("made").exists());
    running.end();
}

#[test]
fn unwatchable_resource_is_reported_and_watched_later() {
    let place = Place::new();
    let directory = place.path().display().to_string();
    shown(&place, &format!("[{{path: '{directory}/text'}}, {{every: 1}}]"), "cat text", "echo \"$text\" > text");
    let text = "resources:\n  shown[x]: {text: declared}\n  file[DIR/a]: {content: x}\n  file[DIR/b]: {content: x}\n";
    let limit = "/proc/sys/user/max_inotify_watches";
    let words =
        format!("echo 0 > {limit}; (until [ -e raise ]; do sleep 0.05; done; echo 1000 > {limit}) >/dev/null 2>&1 &");
    let running = Running::secluded(&place, &format!("{words} :"), &["-I", ".", &manifest(&place, text)]);
    wait("the text", || content(&place.path().join("text")) == "declared\n");
    let limited = "no more inotify watches for this user";
    let of = |what: &str| running.told(&format!("{what}: {limited}"));
    assert_eq!(of("3 resources cannot be watched, and are polled every 300 s"), 1);
    assert_eq!(of("the manifest cannot be watched and is polled every 2 s"), 1);
    let told = place.run(&["status"]);
    assert!(told.code == 2 && told.stdout.contains("\n3 resources cannot be watched and are polled\n"), "{told:?}");
    assert!(told.stdout.contains("\nthe manifest cannot be watched and is polled\n"), "{told:?}");
    assert!(told.stdout.contains("    not watched: no more inotify watches: raise the limit by"), "{told:?}");
    place.file("raise", "");
    wait("the watch", || running.told("1 resource is watched again") == 1);
    running.end();
}

#[test]
fn without_inotify_all_resources_are_polled() {
    let place = Place::new();
    let text = "resources:\n  file[DIR/a]: {content: declared}\n";
    let words = "echo 0 > /proc/sys/user/max_inotify_instances";
    let running = Running::secluded(&place, words, &[&manifest(&place, text)]);
    wait("the file", || content(&place.path().join("a")) == "declared");
    assert_eq!(running.told("1 resource cannot be watched, and is polled every 300 s: no inotify instance: "), 1);
    manifest(&place, "resources:\n  file[DIR/b]: {content: declared}\n");
    wait("what is declared now", || content(&place.path().join("b")) == "declared");
    running.end();
}
