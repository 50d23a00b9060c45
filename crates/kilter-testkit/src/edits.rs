//! Many edits of what a run holds, and what they leave behind.
//!
//! Each edit declares other directories, files, commands with refreshes, failures, limits, polls, semaphores and resources of a
//! script that tells what changes, beside many files that stay; what the edit before declared is declared no longer. Half of that is
//! removed: what is not must not be watched any more.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use crate::outside::{Held, Running, wait};

/// Files that each edit declares anew.
const NEW: usize = 10;

/// How long an edit may take.
const LONGEST: Duration = Duration::from_secs(60);

/// A script that tells what changes, which is nothing.
const SCRIPT: &str = "#!/bin/sh\neval \"$@\"\ncase $ral_action in\n\
                      find) printf '# simple\\nname: %s\\nensure: present\\n' \"$name\" ;;\n\
                      watch) echo '# simple'; exec sleep 1000000 ;;\nesac\n";
const METADATA: &str = "provider:\n  type: told\n  invoke: simple\n  actions: [find, watch]\n  suitable: true\n  attributes:\n    \
                        name:\n    ensure: {type: \"enum[present, absent]\"}\n";

/// How many edits there are, and of how much.
#[derive(Clone, Copy, Debug)]
pub struct Edits {
    /// Files that stay.
    pub files: usize,
    /// Edits before it is looked what the run has.
    pub first: usize,
    /// Edits behind that.
    pub further: usize,
}

/// What a run had behind the first edits, and behind all.
#[derive(Clone, Copy, Debug)]
pub struct Lasted {
    /// Behind the first edits.
    pub before: Held,
    /// Behind all of them.
    pub behind: Held,
    /// How long an edit took until it was held, on the average.
    pub each: Duration,
    /// How often anything was looked at for an edit, on the average: no more than is declared in another way, a few times.
    pub looks: u64,
}

struct Place<'a> {
    directory: &'a Path,
    files: usize,
}

impl Place<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn text(&self, edit: usize) -> String {
        let directory = self.directory.display();
        let stays = (0..self.files).map(|at| format!("  file[{directory}/stay/{at}]: {{content: x}}\n"));
        let new = (0..NEW).map(|at| {
            format!("  file[{directory}/{edit}/{at}]: {{content: \"{edit}\", notify: \"exec[note {edit}]\"}}\n")
        });
        let others = format!(
            "  file[{directory}/{edit}]: {{ensure: directory}}\n  \
             exec[note {edit}]: {{command: [sh, -c, \"echo {edit} >> {directory}/log\"], refreshonly: true}}\n  \
             exec[alone {edit}]: {{command: \"true\", meta: {{sema: [\"one:1\"]}}}}\n  \
             file[{directory}/missing/{edit}/f]: {{content: x}}\n  \
             file[{directory}/behind-{edit}]: {{content: x, require: \"file[{directory}/missing/{edit}/f]\"}}\n  \
             file[{directory}/{edit}/limited]: {{content: x, meta: {{limit: 1, burst: 1}}}}\n  \
             file[{directory}/{edit}/polled]: {{content: x, meta: {{poll: 60}}}}\n  \
             told[{edit}]: {{}}\n"
        );
        format!("resources:\n{}{}{others}", stays.collect::<String>(), new.collect::<String>())
    }

    /// Declares something else, waits until that is held, and removes what was declared before every other time.
    fn edit(&self, edit: usize, running: Option<&Running>) {
        let new = self.path("m.new");
        fs::write(&new, self.text(edit)).expect("there is room");
        fs::rename(&new, self.path("m.yaml")).expect("both are in one directory");
        let Some(running) = running else { return };
        wait("an edit", LONGEST, || self.is_held(edit));
        let told = format!("told[{edit}]");
        let is_in_sync = || {
            let status = running.status(vec![told.clone()]);
            status.is_some_and(|status| status["resources"][0]["state"] == "in_sync")
        };
        wait("the resource of a script", LONGEST, is_in_sync);
        if edit.is_multiple_of(2) {
            fs::remove_dir_all(self.path(&(edit - 1).to_string())).expect("it was held");
        }
    }

    fn is_held(&self, edit: usize) -> bool {
        let is_there = |name: &str| self.path(&format!("{edit}/{name}")).exists();
        let noted = fs::read_to_string(self.path("log")).unwrap_or_default();
        (0..NEW).all(|at| is_there(&at.to_string()))
            && is_there("limited")
            && is_there("polled")
            && noted.lines().next_back() == Some(&edit.to_string())
    }
}

/// What the run has when it answers no question, and nothing of the graph before is left.
fn at_rest(running: &Running, wanted: Option<Held>) -> Held {
    let counts = |held: &Held| [held.descriptors, held.threads, held.watches, held.children];
    let mut last = running.held();
    let mut same = 0;
    // What was held before is taken apart aside, and what is asked is answered by a thread: neither takes long.
    for _ in 0..500 {
        std::thread::sleep(Duration::from_millis(20));
        let held = running.held();
        same = if counts(&held) == counts(&last) { same + 1 } else { 0 };
        last = held;
        if wanted.map_or(same > 25, |wanted| counts(&wanted) == counts(&held)) {
            break;
        }
    }
    last
}

/// How often anything has settled.
fn settled(running: &Running) -> u64 {
    let status = running.status("notable").expect("it listens");
    status["settled"].as_object().into_iter().flat_map(|settled| settled.values()).filter_map(Json::as_u64).sum()
}

/// Holds what is edited so often.
///
/// `kilter` makes the command with these arguments, which has its state in `state`; everything else is made in `directory`.
///
/// # Panics
/// When an edit is not held.
pub fn edits(edits: Edits, kilter: impl Fn(&[&str]) -> Command, directory: &Path, state: &Path) -> Lasted {
    let Edits { files, first, further } = edits;
    let place = Place { directory, files };
    for name in ["stay", "scripts"] {
        fs::create_dir(place.path(name)).expect("there is room");
    }
    fs::write(place.path("scripts/told.yaml"), METADATA).expect("there is room");
    let script = place.path("scripts/told.prov");
    fs::write(&script, SCRIPT).expect("there is room");
    fs::set_permissions(&script, Permissions::from_mode(0o755)).expect("it is there");
    place.edit(0, None);
    let path = |name: &str| place.path(name).display().to_string();
    // One worker: how many there are depends on how much there was to do at once.
    let running =
        Running::begin(&mut kilter(&["-I", &path("scripts"), "run", "--quiet", "--jobs", "1", &path("m.yaml")]), state);
    wait("the first state", LONGEST, || place.is_held(0));
    (1..=first).for_each(|edit| place.edit(edit, Some(&running)));
    let before = at_rest(&running, None);
    let looked = settled(&running);
    let begun = Instant::now();
    (first + 1..=first + further).for_each(|edit| place.edit(edit, Some(&running)));
    let each = begun.elapsed() / u32::try_from(further).expect("nobody waits for so many");
    let looks = (settled(&running) - looked) / further as u64;
    let behind = at_rest(&running, Some(before));
    assert_eq!(running.end(), Some(143));
    Lasted { before, behind, each, looks }
}
