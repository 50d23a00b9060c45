//! Watches of scripts and commands during edits of the manifest.

use std::path::Path;

use crate::listen::{EVENTS, change, notes, tell};
use crate::run::{Running, content, manifest, rest, wait};
use crate::support::*;

const NOTE: &str = "  note[a]: {text: declared}\n";

/// A command that is checked at events of another one; both log their start.
const TOLD: &str = "  exec[told]: {command: \"false\", unless: \"sh -c 'echo x >> DIR/checks'\", \
                    watch: [sh, -c, \"echo $$ >> DIR/execs; exec tail -n 0 -F DIR/told\"]}\n";

/// One that does not end when it is asked to, nor without what it has begun.
const STUBBORN: &str = "  exec[stubborn]: {command: \"true\", \
                        watch: [sh, -c, \"trap '' TERM; echo $$ >> DIR/execs; echo NUMBER > /dev/null; while :; do \
                        touch DIR/alive.$$; sleep 0.1; done\"]}\n";

/// The notes of a script that writes down each watch that it begins, and is not kept from that.
fn place() -> Place {
    let place = Place::new();
    notes(&place, "simple", &format!("echo $BASHPID >> ../watches; {EVENTS}"));
    let metadata = place.path().join("providers/note.yaml");
    std::fs::write(&metadata, content(&metadata) + "  confine: false\n").unwrap();
    for name in ["events", "told"] {
        std::fs::write(place.path().join(name), "").unwrap();
    }
    place
}

/// Declares these, and a file with this in it.
fn declare(place: &Place, resources: &[&str], content: &str) -> String {
    manifest(place, &format!("resources:\n{}  file[DIR/f]: {{content: {content}}}\n", resources.concat()))
}

fn lines(place: &Place, name: &str) -> Vec<String> {
    content(&place.path().join(name)).lines().map(str::to_owned).collect()
}

fn is_there(process: &str) -> bool {
    Path::new("/proc").join(process).exists()
}

fn edited(place: &Place, to: &str) {
    wait("the edit", || content(&place.path().join("f")) == to);
}

#[test]
fn watch_continues_over_unrelated_edits() {
    let place = place();
    let note = |name: &str| content(&place.path().join("notes").join(name));
    let running = Running::begin(&place, &["-I", ".", &declare(&place, &[NOTE, TOLD], "one")]);
    edited(&place, "one");
    wait("the note", || note("a") == "declared");
    wait("the watches", || lines(&place, "watches").len() == 1 && lines(&place, "execs").len() == 1);
    wait("the check", || lines(&place, "checks").len() == 1);

    declare(&place, &[NOTE, TOLD], "two");
    edited(&place, "two");
    let both = format!("{NOTE}  note[b]: {{text: declared}}\n");
    declare(&place, &[&both, TOLD], "three");
    edited(&place, "three");
    wait("the note that came later", || note("b") == "declared");
    for name in ["a", "b"] {
        std::fs::write(place.path().join("notes").join(name), "changed").unwrap();
        tell(&place, name);
        wait("the note, mended", || note(name) == "declared");
    }
    assert_eq!(lines(&place, "checks").len(), 1, "what is kept is not looked at");
    std::fs::write(place.path().join("told"), "changed\n").unwrap();
    wait("a look at what is told of", || lines(&place, "checks").len() == 2);

    // What is asked of the script is the same, and what is asked of the command is not.
    let otherwise = TOLD.replace("exec tail", "exec  tail");
    declare(&place, &[NOTE, &otherwise], "four");
    edited(&place, "four");
    wait("another watch", || lines(&place, "execs").len() == 2 && !is_there(&lines(&place, "execs")[0]));
    let watches = lines(&place, "watches");
    assert!(watches.len() == 1 && is_there(&watches[0]), "{watches:?}");
    declare(&place, &[&otherwise], "five");
    edited(&place, "five");
    wait("the end of a watch that nobody needs", || !is_there(&watches[0]));
    let (code, _, err) = running.end();
    assert!(code == Some(143) && !err.contains("cannot be watched"), "{err}");
    assert!(lines(&place, "execs").iter().all(|process| !is_there(process)));
}

#[test]
fn stuck_watch_does_not_delay_edit() {
    let place = place();
    let numbered = |number: &str| STUBBORN.replace("NUMBER", number);
    let running = Running::begin(&place, &["-I", ".", &declare(&place, &[&numbered("0")], "0")]);
    let written = |name: &str| std::fs::metadata(place.path().join(name)).unwrap().modified().unwrap();
    for number in ["1", "2", "3"] {
        wait("the watch", || lines(&place, "execs").len() == number.parse::<usize>().unwrap());
        declare(&place, &[&numbered(number)], number);
        edited(&place, number);
        let (at, old) = (written("f"), lines(&place, "execs").swap_remove(number.parse::<usize>().unwrap() - 1));
        wait("the end of the old watch", || !is_there(&old));
        assert!(written(&format!("alive.{old}")) > at, "the edit was held up until the old watch had ended");
    }
    wait("the last watch", || lines(&place, "execs").len() == 4);
    wait("the end of the others", || lines(&place, "execs")[..3].iter().all(|process| !is_there(process)));
    declare(&place, &[], "4");
    edited(&place, "4");
    assert_eq!(running.end().0, Some(143));
    assert!(lines(&place, "execs").iter().all(|process| !is_there(process)), "nothing is left running");
}

#[test]
fn event_during_edit_is_handled() {
    let place = place();
    let note = place.path().join("notes/a");
    let running = Running::begin(&place, &["-I", ".", &declare(&place, &[NOTE], "x")]);
    edited(&place, "x");
    for number in 0..16 {
        wait("the note", || content(&note) == "declared");
        let other = format!("{NOTE}  note[n{number}]: {{text: declared}}\n");
        declare(&place, &[&other], &format!("x{number}"));
        // The change comes before the reload, during it or after it.
        match number % 3 {
            0 => {}
            1 => wait("the reload", || running.told("the manifest has changed") > number),
            _ => edited(&place, &format!("x{number}")),
        }
        change(&place, "changed");
        tell(&place, "a");
        wait("the note, mended", || content(&note) == "declared");
        edited(&place, &format!("x{number}"));
    }
    assert_eq!(lines(&place, "watches").len(), 1);
    running.end();
}

#[test]
fn ended_watch_restarts_at_edit() {
    let place = Place::new();
    // The line comes after the decision: the third one says that the third try has failed.
    let begun = "may=no; [ ! -e ../may ] || may=yes; date +%s%N >> ../watches; [ $may = yes ] || exit 3";
    let note = notes(&place, "simple", &format!("{begun}; {EVENTS}")).join("a");
    let metadata = place.path().join("providers/note.yaml");
    std::fs::write(&metadata, content(&metadata) + "  confine: false\n").unwrap();
    std::fs::write(place.path().join("events"), "").unwrap();
    let running = Running::begin(&place, &["-I", ".", &declare(&place, &[NOTE], "one")]);
    wait("several tries", || lines(&place, "watches").len() == 3);
    std::fs::write(place.path().join("may"), "").unwrap();
    declare(&place, &[NOTE], "two");
    wait("the watch", || running.told("watched again") == 1);
    let at: Vec<u64> = lines(&place, "watches").iter().map(|line| line.parse().unwrap()).collect();
    // By itself it would be tried again after four seconds.
    assert!(at[3] - at[2] < 4_000_000_000, "it was left alone: {at:?}");
    change(&place, "changed");
    tell(&place, "a");
    wait("the note, mended", || content(&note) == "declared");
    assert_eq!(running.told("cannot be watched"), 1);
    running.end();
}

#[test]
fn many_edits_leak_no_watches() {
    let place = place();
    let resources = |number: usize| {
        let stubborn = STUBBORN.replace("NUMBER", &number.to_string());
        let told = TOLD.replace("exec tail", &format!("exec{}tail", " ".repeat(number + 1)));
        if number.is_multiple_of(3) { format!("{told}{stubborn}") } else { format!("{NOTE}{told}{stubborn}") }
    };
    let running = Running::begin(&place, &["-I", ".", "--jobs", "1", &declare(&place, &[&resources(1)], "x1")]);
    let held =
        || ["fd", "task"].map(|what| std::fs::read_dir(format!("/proc/{}/{what}", running.id())).unwrap().count());
    let (mut first, mut watched) = (None, 0);
    for number in 1..=10 {
        declare(&place, &[&resources(number)], &format!("x{number}"));
        edited(&place, &format!("x{number}"));
        watched += 2;
        wait("the watches", || lines(&place, "execs").len() == watched);
        if number == 1 || number == 10 {
            let is_at_rest = || {
                let execs = lines(&place, "execs");
                execs[..watched - 2].iter().all(|process| !is_there(process))
            };
            wait("the end of former watches", is_at_rest);
        }
        if number == 1 {
            wait("the script", || lines(&place, "watches").len() == 1);
            rest(&place);
            first = Some(held());
        }
    }
    wait("as many descriptors and threads as at first", || Some(held()) == first);
    running.end();
}
