//! Random changes of a small tree: a subscriber whose path differs between two quiet points has been notified in
//! between.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use fastrand::Rng;
use kilter_runtime::watch::{PathWatch, Scope, Subscriber};

use crate::fixture::Fixture;

const SUBSCRIBERS: u64 = 24;

/// Mode, owner and content.
type FileState = (u32, u32, Vec<u8>);

/// State of a path as a subscriber sees it.
#[derive(Debug, PartialEq, Eq)]
struct Looks {
    itself: Option<FileState>,
    followed: Option<FileState>,
    below: BTreeMap<PathBuf, Option<FileState>>,
}

fn itself(path: &Path) -> Option<FileState> {
    let found = fs::symlink_metadata(path).ok()?;
    let content = match fs::read_link(path) {
        Ok(target) => target.into_os_string().into_encoded_bytes(),
        Err(_) => fs::read(path).unwrap_or_default(),
    };
    Some((found.mode(), found.uid(), content))
}

fn followed(path: &Path) -> Option<FileState> {
    let found = fs::metadata(path).ok()?;
    Some((found.mode(), found.uid(), fs::read(path).unwrap_or_default()))
}

fn below(path: &Path, deep: bool, into: &mut BTreeMap<PathBuf, Option<FileState>>) {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        let path = entry.path();
        into.insert(path.clone(), itself(&path));
        if deep && entry.file_type().unwrap().is_dir() {
            below(&path, deep, into);
        }
    }
}

fn looks(watch: &PathWatch) -> Looks {
    let mut all = BTreeMap::new();
    if watch.scope != Scope::This {
        below(&watch.path, watch.scope == Scope::Tree, &mut all);
    }
    Looks { itself: itself(&watch.path), followed: followed(&watch.path), below: all }
}

struct Play<'a> {
    f: &'a Fixture,
    rng: Rng,
    open: Vec<File>,
}

impl Play<'_> {
    fn any(&mut self) -> String {
        let depth = self.rng.usize(1..=4).min(self.rng.usize(1..=4));
        (0..depth).map(|_| ["a", "b", "c"][self.rng.usize(..3)]).collect::<Vec<_>>().join("/")
    }

    /// A path that does not lead out of the place to play in.
    fn place(&mut self) -> Option<PathBuf> {
        let below = self.any();
        let path = self.f.path(&below);
        let inside = self.f.root().canonicalize().unwrap().join("base");
        let is_inside = path.ancestors().find_map(|path| path.canonicalize().ok())?.starts_with(&inside);
        is_inside.then_some(path)
    }

    fn target(&mut self) -> PathBuf {
        match self.rng.u8(..4) {
            0 => self.f.path(&self.any()),
            1 => Path::new("..").join(self.any()),
            2 => ".".into(),
            _ => self.any().into(),
        }
    }

    /// Makes one change; those that are not possible are none.
    fn change(&mut self) -> Option<String> {
        let (at, other) = (self.place()?, self.place()?);
        let text = self.rng.u32(..).to_string();
        let kind = self.rng.u8(..13);
        let is_inside = |path: &Path| fs::symlink_metadata(path).is_ok_and(|found| !found.is_symlink());
        match kind {
            0 | 1 => fs::write(&at, text).ok()?,
            2 => File::options().append(true).open(&at).ok()?.write_all(text.as_bytes()).ok()?,
            3 if is_inside(&at) => {
                fs::set_permissions(&at, Permissions::from_mode(0o700 | self.rng.u32(..0o100))).ok()?;
            }
            4 | 5 => fs::rename(&at, &other).ok()?,
            6 => fs::remove_file(&at).ok()?,
            7 if is_inside(&at) => fs::remove_dir_all(&at).ok()?,
            8 | 9 => fs::create_dir_all(&at).ok()?,
            10 => symlink(self.target(), &at).ok()?,
            11 => {
                let beside = self.f.path("new");
                symlink(self.target(), &beside).ok()?;
                if fs::rename(&beside, &at).is_err() {
                    fs::remove_file(&beside).ok()?;
                }
            }
            12 => {
                if self.open.len() < 4 {
                    self.open.push(File::options().append(true).open(&at).ok()?);
                }
                let which = self.rng.usize(..self.open.len());
                self.open[which].write_all(text.as_bytes()).ok()?;
                if self.rng.u8(..8) == 0 {
                    self.open.swap_remove(which);
                }
            }
            _ => return None,
        }
        Some(format!("{kind}: {} {}", at.display(), other.display()))
    }
}

fn watch_for(play: &mut Play<'_>) -> PathWatch {
    let scope = [Scope::This, Scope::This, Scope::Entries, Scope::Tree][play.rng.usize(..4)];
    let below = play.any();
    PathWatch { path: play.f.path(&below), scope }
}

fn rounds(seed: u64, rounds: usize) -> usize {
    let f = Fixture::new();
    let before = f.hub.counts();
    let mut play = Play { f: &f, rng: Rng::with_seed(seed), open: Vec::new() };
    let mut watched: BTreeMap<u64, (PathWatch, Looks)> = BTreeMap::new();
    let mut changes = 0;
    for round in 0..rounds {
        for _ in 0..if round == 0 { SUBSCRIBERS } else { play.rng.u64(..3) } {
            let (subscriber, watch) = (play.rng.u64(..SUBSCRIBERS), watch_for(&mut play));
            assert_eq!(f.hub.watch(Subscriber(subscriber), vec![watch.clone()]), []);
            let looks = looks(&watch);
            watched.insert(subscriber, (watch, looks));
        }
        f.quiet();
        let done: Vec<String> = (0..play.rng.usize(1..24)).filter_map(|_| play.change()).collect();
        let heard = f.quiet();
        assert!(heard.lost.is_empty(), "seed {seed}: {heard:?}");
        for (subscriber, (watch, before)) in &mut watched {
            let now = looks(watch);
            if now != *before {
                changes += 1;
                let is_told = heard.changed.contains(subscriber) || heard.everything;
                assert!(is_told, "seed {seed}, round {round}: {watch:?} was not told\n{done:#?}\n{before:?}\n{now:?}");
            }
            *before = now;
        }
    }
    for subscriber in 0..SUBSCRIBERS {
        f.hub.unwatch(Subscriber(subscriber));
    }
    assert_eq!(f.hub.counts(), before, "seed {seed}: something is left");
    changes
}

#[test]
fn random_changes_all_cause_events() {
    let first = std::env::var("KILTER_WATCH_SEED").ok().map(|seed| seed.parse::<u64>().unwrap());
    let seeds = first.map_or(0..60, |seed| seed..seed + 1);
    let count: usize = std::env::var("KILTER_WATCH_ROUNDS").map_or(60, |rounds| rounds.parse().unwrap());
    let mut changes = 0;
    for seed in seeds.clone() {
        changes += rounds(seed, count);
    }
    println!("seeds {seeds:?}, {count} rounds each: {changes} paths were different and told");
    assert!(first.is_some() || changes > 5000, "only {changes} paths were different: too few to say anything");
}
