//! The scripts of docs/guides/script-provider.md, as they stand there.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use crate::run::{Running, content, wait};
use crate::support::{Ended, Place};

/// The text of the fenced block that begins with these words.
fn fence(words: &str) -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/script-provider.md");
    let guide = std::fs::read_to_string(path).unwrap();
    let (_, rest) = guide.split_once(&format!("```{words}\n")).unwrap_or_else(|| panic!("the guide has no ```{words}"));
    rest.split_once("```\n").unwrap().0.to_owned()
}

fn with(words: &str, name: &str) -> Place {
    let place = Place::new();
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::create_dir(place.path().join("providers")).unwrap();
    // The home of whoever runs the test is not to be touched.
    let home = place.path().join("home").display().to_string();
    let script = fence(words).replace("$HOME", &home).replace("os.environ[\"HOME\"]", &format!("{home:?}"));
    let path = place.file(&format!("providers/{name}.prov"), script);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    place
}

/// Puts a block of the guide where the guide says that it is put: before the one line that begins the answer.
fn with_watch(words: &str) -> Place {
    let place = with("bash prov files", "files");
    let home = place.path().join("home").display().to_string();
    let watch = fence(words).replace("$HOME", &home).replace("--system", &format!("--address unix:path={home}/bus"));
    let script = std::fs::read_to_string(place.path().join("providers/files.prov")).unwrap();
    let [before, behind] = script.split("echo \"# simple\"\n").collect::<Vec<_>>()[..] else {
        panic!("there is one place where it fits: {script}")
    };
    let before = before.replace("list, find, update]", "list, find, update, watch]");
    place.file("providers/files.prov", format!("{before}{watch}echo \"# simple\"\n{behind}"));
    place
}

fn run(place: &Place, args: &[&str]) -> Ended {
    let ended = place.run(&[&["-I", "."], args].concat());
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{}", ended.stdout);
    ended
}

#[test]
fn guide_bash_script_works() {
    let place = with("bash prov files", "files");
    assert!(run(&place, &["types", "note"]).stdout.contains("A text that is kept in a file below ~/notes."));
    run(&place, &["set", "note", "shopping", "ensure=present", "text=milk & bread, it's $(id)"]);
    let note = place.path().join("home/notes/shopping");
    assert_eq!(std::fs::read_to_string(&note).unwrap(), "milk & bread, it's $(id)\n");
    assert!(run(&place, &["get", "note"]).stdout.contains("milk & bread, it's $(id)"));
    let manifest = place.file("m.yaml", fence("yaml manifest"));
    assert!(run(&place, &["apply", &manifest]).stdout.contains("1 changed"));
    assert!(run(&place, &["apply", &manifest]).stdout.contains("1 unchanged"));
    run(&place, &["set", "note", "shopping", "ensure=absent"]);
    assert!(!note.exists());
    let refused = place.run(&["-I", ".", "set", "note", "../x", "ensure=present"]);
    assert_eq!(refused.code, 4);
    assert!(refused.stdout.contains("a note has no slash in its name"), "{}", refused.stdout);
}

#[test]
fn guide_bash_watch_works() {
    assert!(fence("bash watch").lines().count() <= 10, "it is short");
    let place = with_watch("bash watch");
    let manifest = place.file("m.yaml", fence("yaml manifest"));
    let note = place.path().join("home/notes/shopping");
    let running = Running::begin(&place, &["-I", ".", &manifest]);
    // Before there is a note there is no directory to watch: the watch is begun again, and the note is checked then.
    wait("the note", || content(&note) == "milk & bread\n");
    std::fs::write(&note, "changed").unwrap();
    wait("the note, watched", || content(&note) == "milk & bread\n");
    std::fs::remove_file(&note).unwrap();
    wait("the note that was removed", || content(&note) == "milk & bread\n");
    // The directory in the place of one that was removed is another one.
    // It may get a note anew before it has gone.
    wait("the directory, removed", || std::fs::remove_dir_all(note.parent().unwrap()).is_ok());
    wait("the note in a directory made anew", || content(&note) == "milk & bread\n");
    std::fs::write(&note, "beer").unwrap();
    wait("the note in another directory, watched", || content(&note) == "milk & bread\n");
    // Killed, it would leave the watch behind until that writes.
    running.end();
}

#[test]
fn guide_bus_watch_works() {
    let place = with_watch("bash bus watch");
    let home = place.path().join("home").display().to_string();
    let bus = format!("unix:path={home}/bus");
    let anybody = "<allow send_destination=\"*\" eavesdrop=\"true\"/><allow eavesdrop=\"true\"/><allow own=\"*\"/>";
    let config = format!(
        "<busconfig><type>session</type><listen>{bus}</listen><policy \
         context=\"default\">{anybody}</policy></busconfig>"
    );
    let config = format!("--config-file={}", place.file("bus.conf", config));
    let daemon = Command::new("dbus-daemon").args([&config, "--nofork"]).stderr(Stdio::null()).spawn();
    let _daemon = KillOnDrop(daemon.expect("dbus-daemon is installed"));
    wait("the bus", || place.path().join("home/bus").exists());
    let manifest = place.file("m.yaml", fence("yaml manifest"));
    let note = place.path().join("home/notes/shopping");
    let running = Running::begin(&place, &["-I", ".", &manifest]);
    wait("the note", || content(&note) == "milk & bread\n");
    std::fs::write(&note, "changed").unwrap();
    // The watch may not have subscribed to the first signal yet.
    wait("the note, of which the bus has told", || {
        let told = Command::new("dbus-send")
            .args([&format!("--bus={bus}"), "/thing/shopping", "org.example.Thing.Changed"])
            .status();
        assert!(told.unwrap().success());
        content(&note) == "milk & bread\n"
    });
    running.end();
}

/// A program that is ended when this is dropped.
struct KillOnDrop(std::process::Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn guide_bash_script_breaks_shown_laws() {
    let place = with("bash prov files", "files");
    let guide = include_str!("../../../../docs/guides/script-provider.md");
    let broken = |text: &str| -> Vec<String> {
        let broken = text.lines().filter(|line| line.starts_with("  BROKEN "));
        broken.map(|line| line.split(':').next().unwrap().to_owned()).collect()
    };
    let checked = place.run(&["provider", "check", "providers/files.prov"]);
    assert_eq!(broken(&checked.stdout), broken(guide), "{}", checked.stdout);
    assert_eq!(broken(guide).len(), 1);
}

#[test]
fn guide_recording_and_replay_work() {
    let place = with("bash prov files", "files");
    run(&place, &["set", "note", "shopping", "ensure=present", "text=milk"]);
    let lines: Vec<Ended> =
        fence("sh recorded").lines().map(|line| place.run(&line.split(' ').skip(1).collect::<Vec<_>>())).collect();
    let [recorded, listed, shown, replayed] = lines.as_slice() else { panic!("the guide has four lines") };
    assert!(lines.iter().all(|ended| ended.code == 0), "{lines:?}");
    assert!(listed.stdout.contains("shopping") && shown.stdout.contains("ral_action=find"), "{lines:?}");
    assert_eq!((replayed.stdout.as_str(), replayed.stderr.as_str()), (recorded.stdout.as_str(), ""));
}

#[test]
fn guide_python_script_works() {
    let place = with("python prov store", "store");
    run(&place, &["set", "setting", "port", "ensure=present", "value=8080"]);
    run(&place, &["set", "setting", "text", "ensure=present", "value=[1, {\"a\": \"two\\nlines\"}]"]);
    let kept = std::fs::read_to_string(place.path().join("home/settings.json")).unwrap();
    assert_eq!(kept, r#"{"port": "8080", "text": [1, {"a": "two\nlines"}]}"#);
    let exported = run(&place, &["get", "setting", "--format", "yaml"]).stdout;
    let manifest = place.file("m.yaml", exported);
    assert!(run(&place, &["apply", &manifest]).stdout.contains("2 unchanged"));
    run(&place, &["set", "setting", "port", "ensure=absent"]);
    assert!(!run(&place, &["get", "setting"]).stdout.contains("port"));
}

#[test]
fn guide_lines_for_other_languages_are_tested() {
    let tested = include_str!("../../../kilter-script/tests/scripts/injection.rs").replace('\'', "\"");
    for words in ["python decoder", "ruby decoder"] {
        let text = fence(words);
        let line = text.lines().find(|line| line.starts_with("args")).unwrap().replace('\'', "\"");
        assert!(tested.contains(&line), "{line}");
    }
}
