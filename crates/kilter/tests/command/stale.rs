//! Plans that are made stale at random: each stale step is refused with its dependents, every other step is done, and
//! nothing foreign is overwritten.
//!
//! `KILTER_STALE_PLANS=1000` sets the number of plans, `KILTER_STALE_SEED=7` the first seed.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use fastrand::Rng;
use serde_json::Value as Json;

use crate::support::Place;

/// Number of plans in a usual run.
const PLANS: u64 = 25;

/// The kinds of resources, and what each is in the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StaleKind {
    Content,
    Copy,
    Tree,
    Fragments,
    Absent,
    Purged,
    Link,
    Command,
}

const KINDS: [StaleKind; 8] = [
    StaleKind::Content,
    StaleKind::Copy,
    StaleKind::Tree,
    StaleKind::Fragments,
    StaleKind::Absent,
    StaleKind::Purged,
    StaleKind::Link,
    StaleKind::Command,
];

/// Entry at the path of a resource when the plan is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    InSync,
    Other,
    /// No entry; a file if the resource is to be absent.
    New,
}

struct Resource {
    kind: StaleKind,
    before: Before,
    requires: Vec<usize>,
    /// Change by another program after the plan was made, and the changed side.
    moved: Option<Side>,
    /// True if its path exists now and did not when the plan was made, or the other way round.
    is_existence_moved: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    /// The source of the change.
    Source,
    /// The entry that the change replaces.
    Target,
}

/// Required result of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExpectedResult {
    Changed,
    InSync,
    NotNeeded,
    /// Changed by a step that was unknown in the plan.
    UnknownChanged,
    /// In its state already when its unknown step has its turn.
    UnknownInSync,
    Stale,
    Skipped,
}

impl Resource {
    fn random(rng: &mut Rng, at: usize) -> Resource {
        let requires = (0..at).filter(|_| rng.u8(..8) == 0).collect();
        let kind = KINDS[rng.usize(..KINDS.len())];
        let before = [Before::InSync, Before::Other, Before::New][rng.usize(..3)];
        // A command has only run or not.
        let before = if kind == StaleKind::Command && before == Before::Other { Before::New } else { before };
        let moved = (rng.u8(..5) < 2).then(|| if rng.bool() { Side::Source } else { Side::Target });
        let moved = moved.map(|side| match kind {
            StaleKind::Copy | StaleKind::Tree | StaleKind::Fragments => side,
            _ => Side::Target,
        });
        Resource { kind, before, requires, moved, is_existence_moved: false }
    }

    fn reference(&self, at: usize) -> String {
        if self.kind == StaleKind::Command { format!("exec[e{at}]") } else { format!("file[DIR/{at}]") }
    }

    fn declaration(&self, at: usize, all: &[Resource]) -> String {
        let requires: Vec<String> =
            self.requires.iter().map(|first| format!("'{}'", all[*first].reference(*first))).collect();
        let attributes = match self.kind {
            StaleKind::Content => format!("content: declared {at}, mode: '0640'"),
            StaleKind::Copy => format!("source: DIR/{at}.source"),
            StaleKind::Tree => format!("ensure: directory, recurse: true, source: DIR/{at}.source"),
            StaleKind::Fragments => format!("fragments: [DIR/{at}.one, DIR/{at}.two]"),
            StaleKind::Absent => "ensure: absent".to_owned(),
            StaleKind::Purged => "ensure: directory, recurse: true, purge: true".to_owned(),
            StaleKind::Link => format!("ensure: link, target: declared-{at}"),
            StaleKind::Command => format!("command: 'echo ran >>DIR/{at}', shell: true, creates: DIR/{at}"),
        };
        format!("  {}: {{ {attributes}, require: [{}] }}\n", self.reference(at), requires.join(", "))
    }

    /// Creates the entry for the plan.
    fn prepare(&self, place: &Path, at: usize) {
        let path = place.join(at.to_string());
        let write = |suffix: &str, text: &str| fs::write(place.join(format!("{at}{suffix}")), text).unwrap();
        match self.kind {
            StaleKind::Copy => write(".source", &format!("source {at}")),
            StaleKind::Tree => make_tree(&place.join(format!("{at}.source")), at),
            StaleKind::Fragments => {
                write(".one", &format!("one {at}\n"));
                write(".two", &format!("two {at}\n"));
            }
            _ => {}
        }
        match (self.kind, self.before) {
            (StaleKind::Purged | StaleKind::Tree, Before::New) => {}
            (StaleKind::Tree, before) => {
                make_tree(&path, at);
                if before == Before::Other {
                    fs::write(path.join("a"), "other").unwrap();
                }
            }
            (StaleKind::Purged, before) => {
                fs::create_dir(&path).unwrap();
                if before == Before::Other {
                    fs::write(path.join("stray"), "stray").unwrap();
                }
            }
            (StaleKind::Absent, Before::InSync)
            | (StaleKind::Content | StaleKind::Copy | StaleKind::Fragments | StaleKind::Link, Before::New) => {}
            (StaleKind::Absent, _) => write("", "unwanted"),
            (StaleKind::Link, Before::InSync) => symlink(format!("declared-{at}"), &path).unwrap(),
            (StaleKind::Link, _) => symlink("other", &path).unwrap(),
            (StaleKind::Command, Before::InSync) => write("", "ran\n"),
            (StaleKind::Command, _) => {}
            (_, Before::Other) => write("", "other"),
            (StaleKind::Content, _) => {
                write("", &format!("declared {at}"));
                fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
            }
            (StaleKind::Copy, _) => {
                fs::copy(place.join(format!("{at}.source")), &path).unwrap();
            }
            (StaleKind::Fragments, _) => write("", &format!("one {at}\ntwo {at}\n")),
        }
    }

    /// Changes something of it after the plan was made.
    fn make_stale(&self, rng: &mut Rng, place: &Path, at: usize) {
        let path = place.join(at.to_string());
        let foreign = format!("foreign {at}");
        match (self.moved, self.kind) {
            (None, _) => {}
            (Some(Side::Source), StaleKind::Fragments) => fs::write(place.join(format!("{at}.two")), foreign).unwrap(),
            (Some(Side::Source), StaleKind::Tree) => {
                let from = place.join(format!("{at}.source"));
                match rng.u8(..3) {
                    0 => fs::write(from.join("d/added"), foreign).unwrap(),
                    // The copies of removed entries stay.
                    1 if self.before == Before::New => fs::remove_file(from.join("d/b")).unwrap(),
                    _ => fs::write(from.join("a"), foreign).unwrap(),
                }
            }
            (Some(Side::Target), StaleKind::Tree) => {
                let _ = fs::create_dir(&path);
                fs::write(path.join("a"), foreign).unwrap();
            }
            (Some(Side::Source), _) => fs::write(place.join(format!("{at}.source")), foreign).unwrap(),
            (Some(Side::Target), StaleKind::Purged) => {
                let _ = fs::create_dir(&path);
                let name = if self.before == Before::Other && rng.bool() { "stray" } else { "foreign" };
                fs::write(path.join(name), foreign).unwrap();
            }
            (Some(Side::Target), StaleKind::Command) => match self.before {
                Before::InSync => fs::remove_file(&path).unwrap(),
                _ => fs::write(&path, foreign).unwrap(),
            },
            (Some(Side::Target), StaleKind::Link) => {
                let _ = fs::remove_file(&path);
                symlink(foreign, &path).unwrap();
            }
            (Some(Side::Target), _) if path.exists() && self.kind != StaleKind::Absent && rng.u8(..4) == 0 => {
                fs::remove_file(&path).unwrap();
            }
            (Some(Side::Target), _) => fs::write(&path, foreign).unwrap(),
        }
    }

    /// Returns true if a command that will run comes first, because it may write to the source of this resource.
    fn is_unknown(&self, all: &[Resource]) -> bool {
        matches!(self.kind, StaleKind::Copy | StaleKind::Tree | StaleKind::Fragments | StaleKind::Command)
            && self.is_behind_command(all)
    }

    fn is_behind_command(&self, all: &[Resource]) -> bool {
        self.requires.iter().any(|first| all[*first].is_pending_command() || all[*first].is_behind_command(all))
    }

    fn is_pending_command(&self) -> bool {
        self.kind == StaleKind::Command && self.before != Before::InSync
    }

    fn expected(&self, all: &[Resource]) -> ExpectedResult {
        let is_blocked =
            |first: &usize| matches!(all[*first].expected(all), ExpectedResult::Stale | ExpectedResult::Skipped);
        if self.requires.iter().any(is_blocked) {
            return ExpectedResult::Skipped;
        }
        if self.is_unknown(all) {
            let differed = self.before != Before::InSync;
            let differs = match self.kind {
                // Whoever moves it makes or removes what the command makes.
                StaleKind::Command => differed != self.moved.is_some(),
                _ => differed || self.moved.is_some(),
            };
            if self.is_existence_moved && self.kind != StaleKind::Command {
                return ExpectedResult::Stale;
            }
            return if differs { ExpectedResult::UnknownChanged } else { ExpectedResult::UnknownInSync };
        }
        match (self.moved, self.kind, self.before) {
            (None, _, Before::InSync) => ExpectedResult::InSync,
            (None, ..) => ExpectedResult::Changed,
            // Somebody else made what the command makes.
            (Some(_), StaleKind::Command, Before::Other | Before::New) => ExpectedResult::NotNeeded,
            (Some(_), ..) => ExpectedResult::Stale,
        }
    }
}

/// Creates a directory with two files, one of them in a directory of its own.
fn make_tree(path: &Path, at: usize) {
    fs::create_dir_all(path.join("d")).unwrap();
    fs::write(path.join("a"), format!("source {at}")).unwrap();
    fs::write(path.join("d/b"), format!("below {at}")).unwrap();
}

/// Everything below a directory: contents, targets of links, modes.
fn snapshot(place: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![place.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(place).unwrap().display().to_string();
            let stat = fs::symlink_metadata(&path).unwrap();
            let is = if stat.is_symlink() {
                fs::read_link(&path).unwrap().display().to_string()
            } else if stat.is_dir() {
                open.push(path);
                "directory".to_owned()
            } else {
                format!("{:o} {}", stat.permissions().mode(), fs::read_to_string(&path).unwrap())
            };
            found.insert(name, is);
        }
    }
    found
}

/// Returns what belongs to a resource.
fn of(snapshot: &BTreeMap<String, String>, at: usize) -> Vec<(&String, &String)> {
    let (own, below, beside) = (at.to_string(), format!("{at}/"), format!("{at}."));
    let is_own = |name: &str| name == own || name.starts_with(&below) || name.starts_with(&beside);
    snapshot.iter().filter(|(name, _)| is_own(name)).collect()
}

#[derive(Debug, Default)]
struct Figures {
    plans: u64,
    steps: u64,
    stale: u64,
    skipped: u64,
    done: u64,
}

fn try_one(seed: u64, figures: &mut Figures) {
    let mut rng = Rng::with_seed(seed);
    let count = rng.usize(3..15);
    let mut all: Vec<Resource> = (0..count).map(|at| Resource::random(&mut rng, at)).collect();
    let place = Place::new();
    let work = place.path().join("work");
    fs::create_dir(&work).unwrap();
    let declared: String = all.iter().enumerate().map(|(at, one)| one.declaration(at, &all)).collect();
    place.file("m.yaml", format!("resources:\n{declared}").replace("DIR", &work.display().to_string()));
    all.iter().enumerate().for_each(|(at, one)| one.prepare(&work, at));
    let planned = place.run(&["plan", "m.yaml", "-o", "p"]);
    assert!(matches!(planned.code, 0 | 2), "seed {seed}: {planned:?}");
    for (at, one) in all.iter_mut().enumerate() {
        let exists = || work.join(at.to_string()).exists();
        let did_exist = exists();
        one.make_stale(&mut rng, &work, at);
        one.is_existence_moved = exists() != did_exist;
    }

    let before = snapshot(&work);
    let applied = place.run(&["apply", "p", "--format", "json"]);
    let after = snapshot(&work);
    let report: Json = serde_json::from_str(&applied.stdout).unwrap_or_else(|_| panic!("seed {seed}: {applied:?}"));
    let expected: Vec<ExpectedResult> = all.iter().map(|one| one.expected(&all)).collect();
    for (at, expected) in expected.iter().enumerate() {
        let reference = all[at].reference(at).replace("DIR", &work.display().to_string());
        let told = report["resources"].as_array().unwrap().iter();
        let reference = reference.replace(&place.path().display().to_string(), "DIR");
        let told =
            told.filter(|one| one["resource"] == *reference).map(|one| (one["status"].clone(), one["plan"].clone()));
        let told: Vec<(Json, Json)> = told.collect();
        let wanted = match expected {
            ExpectedResult::Changed => vec![("changed".into(), Json::Null)],
            ExpectedResult::InSync => vec![],
            ExpectedResult::NotNeeded => vec![("in_sync".into(), "not_needed".into())],
            ExpectedResult::UnknownChanged => vec![("changed".into(), "unknown".into())],
            ExpectedResult::UnknownInSync => vec![("in_sync".into(), "unknown".into())],
            ExpectedResult::Stale => vec![("failed".into(), "stale".into())],
            ExpectedResult::Skipped => vec![("skipped".into(), Json::Null)],
        };
        let about = || {
            format!(
                "seed {seed}, {at}: {:?}, {:?}, moved {:?}: {report:#}",
                all[at].kind, all[at].before, all[at].moved
            )
        };
        assert_eq!(told, wanted, "{}", about());
        match expected {
            ExpectedResult::Changed | ExpectedResult::UnknownChanged => check_declared(&work, at, all[at].kind, &about),
            // What somebody else has made is as that one has left it.
            _ => assert_eq!(of(&after, at), of(&before, at), "{}", about()),
        }
    }
    let count = |of: ExpectedResult| expected.iter().filter(|one| **one == of).count() as u64;
    let failures = count(ExpectedResult::Stale) > 0;
    assert_eq!(applied.code, if failures { 4 } else { 0 }, "seed {seed}: {applied:?}");
    figures.plans += 1;
    figures.steps += expected.len() as u64;
    figures.stale += count(ExpectedResult::Stale);
    figures.skipped += count(ExpectedResult::Skipped);
    figures.done += count(ExpectedResult::Changed);
}

/// A step that was carried out has made what the manifest declares.
fn check_declared(place: &Path, at: usize, kind: StaleKind, about: &dyn Fn() -> String) {
    let path = place.join(at.to_string());
    let text = || fs::read_to_string(&path).unwrap_or_default();
    let read = |suffix: &str| fs::read_to_string(place.join(format!("{at}{suffix}"))).unwrap();
    let is_right = match kind {
        StaleKind::Content => text() == format!("declared {at}"),
        StaleKind::Copy => text() == read(".source"),
        StaleKind::Tree => {
            let copy = snapshot(&path);
            let source = snapshot(&place.join(format!("{at}.source")));
            source.iter().all(|(name, is)| copy.get(name) == Some(is))
        }
        StaleKind::Fragments => text() == read(".one") + &read(".two"),
        StaleKind::Absent => fs::symlink_metadata(&path).is_err(),
        StaleKind::Purged => fs::read_dir(&path).unwrap().count() == 0,
        StaleKind::Link => fs::read_link(&path).unwrap() == Path::new(&format!("declared-{at}")),
        StaleKind::Command => text() == "ran\n",
    };
    assert!(is_right, "{}", about());
}

#[test]
fn only_stale_steps_are_refused_after_random_changes() {
    let number = |name: &str, otherwise| std::env::var(name).map_or(otherwise, |text| text.parse().unwrap());
    let (plans, first) = (number("KILTER_STALE_PLANS", PLANS), number("KILTER_STALE_SEED", 0));
    let mut figures = Figures::default();
    (first..first + plans).for_each(|seed| try_one(seed, &mut figures));
    println!("{figures:?}");
    assert!(figures.plans == plans && (plans < 10 || figures.stale > 0 && figures.skipped > 0 && figures.done > 0));
}
