//! Edits the manifest of a run many times, and measures the resources that remain in use.
//!
//! Each edit declares different directories, files, commands with refreshes, failures, limits, polls and semaphores.
//! It also declares resources of a script with a watch, and many files that stay. Resources of the previous edit are
//! no longer declared. Every other time their files are removed. The run must no longer watch the remaining ones.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use crate::kilter_process::{Held, KilterProcess, wait};

/// Number of files that each edit declares for the first time.
const NEW: usize = 10;

/// Maximum duration of an edit.
const MAX_EDIT_TIME: Duration = Duration::from_secs(60);

/// A script with a watch that reports no events.
const SCRIPT: &str = "#!/bin/sh\neval \"$@\"\ncase $ral_action in\n\
                      find) printf '# simple\\nname: %s\\nensure: present\\n' \"$name\" ;;\n\
                      watch) echo '# simple'; exec sleep 1000000 ;;\nesac\n";
const METADATA: &str = "provider:\n  type: told\n  invoke: simple\n  actions: [find, watch]\n  suitable: true\n  \
                        attributes:\n    \
                        name:\n    ensure: {type: \"enum[present, absent]\"}\n";

/// Size of a series of edits.
#[derive(Clone, Copy, Debug)]
pub struct Edits {
    /// Number of files that stay.
    pub files: usize,
    /// Number of edits before the first measurement.
    pub first: usize,
    /// Number of edits after the first measurement.
    pub further: usize,
}

/// System resources of a run after the first edits, and after all edits.
#[derive(Clone, Copy, Debug)]
pub struct Lasted {
    /// After the first edits.
    pub before: Held,
    /// After all edits.
    pub behind: Held,
    /// Average time until an edit is held.
    pub each: Duration,
    /// Average number of checks per edit. A few checks per changed resource are expected.
    pub looks: u64,
}

struct EditedManifest<'a> {
    directory: &'a Path,
    files: usize,
}

impl EditedManifest<'_> {
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

    /// Declares other resources and waits until they are held. Every other time, removes the files of the previous
    /// edit.
    fn edit(&self, edit: usize, running: Option<&KilterProcess>) {
        let new = self.path("m.new");
        fs::write(&new, self.text(edit)).expect("there is room");
        fs::rename(&new, self.path("m.yaml")).expect("both are in one directory");
        let Some(running) = running else { return };
        wait("an edit", MAX_EDIT_TIME, || self.is_held(edit));
        let told = format!("told[{edit}]");
        let is_in_sync = || {
            let status = running.status(vec![told.clone()]);
            status.is_some_and(|status| status["resources"][0]["state"] == "in_sync")
        };
        wait("the resource of a script", MAX_EDIT_TIME, is_in_sync);
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

/// Returns the system resources of the run while it answers no query and has released the previous graph.
fn at_rest(running: &KilterProcess, wanted: Option<Held>) -> Held {
    let counts = |held: &Held| [held.descriptors, held.threads, held.watches, held.children];
    let mut last = running.held();
    let mut same = 0;
    // A background thread releases the old graph, and another thread answers queries. Neither takes long.
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

/// Returns the number of settlements so far.
fn settled(running: &KilterProcess) -> u64 {
    let status = running.status("notable").expect("it listens");
    status["settled"].as_object().into_iter().flat_map(|settled| settled.values()).filter_map(Json::as_u64).sum()
}

/// Holds a state through a series of edits.
///
/// `kilter` creates the command with these arguments, whose state is in `state`. All other files are created in
/// `directory`.
///
/// # Panics
/// If an edit is not held.
pub fn edits(edits: Edits, kilter: impl Fn(&[&str]) -> Command, directory: &Path, state: &Path) -> Lasted {
    let Edits { files, first, further } = edits;
    let place = EditedManifest { directory, files };
    for name in ["stay", "scripts"] {
        fs::create_dir(place.path(name)).expect("there is room");
    }
    fs::write(place.path("scripts/told.yaml"), METADATA).expect("there is room");
    let script = place.path("scripts/told.prov");
    fs::write(&script, SCRIPT).expect("there is room");
    fs::set_permissions(&script, Permissions::from_mode(0o755)).expect("it is there");
    place.edit(0, None);
    let path = |name: &str| place.path(name).display().to_string();
    // One worker, because the number of workers depends on the load.
    let running = KilterProcess::begin(
        &mut kilter(&["-I", &path("scripts"), "run", "--quiet", "--jobs", "1", &path("m.yaml")]),
        state,
    );
    wait("the first state", MAX_EDIT_TIME, || place.is_held(0));
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
