//! Plans of random manifests against what their apply does: the same, or the plan said that it does not know.
//!
//! `KILTER_PLANS=1000` tries that many manifests, `KILTER_SEED=1` begins with that seed.

#![expect(clippy::unwrap_used, reason = "a test may end where it cannot go on")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ecow::EcoString;
use fastrand::Rng;
use kilter_model::{
    Attributes, Behaviour, Catalog, Change, Difference, Outcome, Relation, RelationKind, Resource, ResourceRef,
    SourceId, Span, State, TypeSchema, Value,
};
use kilter_native::{ExecProvider, FileProvider, GroupProvider, Runner, System, UserProvider};
use kilter_process::{Cancel, Invocation, Output, SpawnError};
use kilter_provider::{Capabilities, Context, Durability, Owner, Provider, ProviderError, Query, Registry, Strictness};
use kilter_runtime::{
    Deviation, Mode, NullObserver, Options, Plan, Report, ResourceReport, SealingKey, SecretDigests, ShutdownHandle,
    StateDir, Status, plan_of,
};

/// Number of manifests in a normal test run.
const PLANS: u64 = 150;
/// The same for manifests with accounts, whose tools take their time.
const PLANS_WITH_ACCOUNTS: u64 = 30;

/// Files that manifests declare, read and guard commands with.
const FILES: [&str; 12] = ["f0", "f1", "f2", "f3", "d0/a", "d0/b", "d0/s/x", "d1/a", "d1/b", "l0", "e0", "u0"];
/// Directories.
const DIRECTORIES: [&str; 3] = ["d0", "d0/s", "d1"];
const CONTENTS: [&str; 3] = ["a\n", "b\n", ""];
const MODES: [&str; 4] = ["0644", "0600", "0640", "u=rw,go="];
/// Accounts of every Debian system, and one without a name.
const OWNERS: [&str; 4] = ["root", "daemon", "nobody", "7001"];
const GROUPS: [&str; 4] = ["root", "daemon", "nogroup", "7100"];
/// An account that manifests declare in a namespace of their own.
const USER: &str = "kiltau";
const GROUP: &str = "kiltag";
/// Set in the namespace in which accounts may change.
const INSIDE: &str = "KILTER_INSIDE_NAMESPACE";

/// A directory in which one manifest is planned and applied.
struct PlanDir {
    root: PathBuf,
    state: PathBuf,
}

impl PlanDir {
    fn path(&self, name: &str) -> String {
        self.root.join(name).to_str().unwrap().to_owned()
    }

    fn options(&self, mode: Mode) -> Options {
        let state_dir = Some(StateDir::new(&self.state));
        Options { mode, jobs: 3, durability: Durability::Unflushed, strictness: Strictness::Warning, state_dir }
    }

    /// Returns the entries of the directory: kind, mode, owner, group and content by path.
    fn snapshot(&self) -> BTreeMap<PathBuf, (u32, u32, u32, Vec<u8>)> {
        let mut found = BTreeMap::new();
        let mut open = vec![self.root.clone()];
        while let Some(directory) = open.pop() {
            for entry in fs::read_dir(&directory).unwrap() {
                let path = entry.unwrap().path();
                let stat = fs::symlink_metadata(&path).unwrap();
                let content = match stat.file_type() {
                    kind if kind.is_symlink() => fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes(),
                    kind if kind.is_file() => fs::read(&path).unwrap(),
                    _ => Vec::new(),
                };
                if stat.is_dir() {
                    open.push(path.clone());
                }
                found.insert(path, (stat.mode(), stat.uid(), stat.gid(), content));
            }
        }
        found
    }

    /// Leaves files, directories and links at random.
    fn grow(&self, random: &mut Rng) {
        fs::create_dir(&self.root).unwrap();
        for directory in DIRECTORIES {
            if random.u8(..10) > 0 {
                let _ = fs::create_dir(self.root.join(directory));
            }
        }
        for file in FILES {
            if random.u8(..6) > 0 && file != "l0" {
                let path = self.root.join(file);
                if fs::write(&path, random.choice(CONTENTS).unwrap()).is_ok() {
                    let mode = *random.choice(&[0o644, 0o600]).unwrap();
                    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
                }
            }
        }
        if random.u8(..4) > 0 {
            symlink(random.choice(["d0", "d1"]).unwrap(), self.root.join("l0")).unwrap();
        }
    }
}

/// A manifest that grows at random.
struct Growing<'a> {
    place: &'a PlanDir,
    random: &'a mut Rng,
    resources: Vec<Resource>,
    relations: Vec<(usize, usize, RelationKind)>,
    /// The files and directories that it declares.
    declared: Vec<&'static str>,
    /// True if it reads and declares nothing below paths that will be missing, so that nearly all of its changes
    /// succeed.
    is_orderly: bool,
    /// Paths that will be missing, or lead elsewhere.
    going: Vec<&'static str>,
    /// True if it may declare accounts.
    has_accounts: bool,
}

/// Planned kind of a directory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Absent,
    Link,
    Directory { is_purged: bool },
}

/// Writes the files that hold accounts; the user and the group of the manifests are there or not.
fn write_accounts(random: &mut Rng) {
    let base = ["root:x:0:0::/root:/bin/sh", "daemon:x:1:1::/:/bin/sh", "nobody:x:65534:65534::/:/bin/sh"];
    let mut passwd = base.join("\n") + "\n";
    let mut group = "root:x:0:\ndaemon:x:1:\nnogroup:x:65534:\n".to_owned();
    let mut shadow = "root:*:19000:0:99999:7:::\n".to_owned();
    if random.bool() {
        passwd += &format!("{USER}:x:7001:7001::/home/{USER}:/bin/sh\n");
        group += &format!("{USER}:x:7001:\n");
        shadow += &format!("{USER}:!:19000:0:99999:7:::\n");
    }
    if random.bool() {
        group += &format!("{GROUP}:x:7100:\n");
    }
    for (file, text) in [("passwd", passwd), ("group", group), ("shadow", shadow), ("gshadow", String::new())] {
        fs::write(format!("/etc/{file}"), text).unwrap();
    }
    let _ = fs::remove_dir_all(format!("/home/{USER}"));
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

impl Growing<'_> {
    fn chance(&mut self, percent: u8) -> bool {
        self.random.u8(..100) < percent
    }

    fn file_name(&mut self) -> &'static str {
        self.random.choice(FILES).unwrap()
    }

    /// Returns true if a path will be there as it is now, apart from its content.
    fn stays(&self, name: &str) -> bool {
        let goes = |gone: &&str| name == *gone || name.strip_prefix(*gone).is_some_and(|rest| rest.starts_with('/'));
        !self.going.iter().any(goes) && self.place.root.join(name).exists()
    }

    /// A path that is read; sometimes one that goes through a link.
    fn read(&mut self) -> String {
        if self.has_accounts && self.chance(8) {
            return (*self.random.choice(&["/etc/passwd", "/etc/group"]).unwrap()).to_owned();
        }
        let link =
            fs::read_link(self.place.root.join("l0")).ok().and_then(|link| link.into_os_string().into_string().ok());
        let is_through = self.random.u8(..12) < 2;
        if !self.is_orderly {
            return self.place.path(if is_through { "l0/a" } else { self.file_name() });
        }
        let entry = link.filter(|_| is_through && !self.declared.contains(&"l0"));
        if let Some(directory) = entry
            && self.stays(&format!("{directory}/b"))
        {
            return self.place.path("l0/b");
        }
        let mut names: Vec<&str> = FILES.into_iter().filter(|name| *name != "l0" && self.stays(name)).collect();
        self.random.shuffle(&mut names);
        names.first().map_or_else(|| self.place.path("f0"), |name| self.place.path(name))
    }

    fn add(&mut self, type_name: &str, name: &str, attributes: Vec<(&str, Value)>) -> usize {
        let mut resource = Resource::new(ResourceRef::new(type_name, name), name, Span::new(SourceId(0), 0, 0));
        for (attribute, value) in attributes {
            resource.attributes.set(attribute, value);
        }
        self.resources.push(resource);
        self.resources.len() - 1
    }

    fn declare_file(&mut self, name: &str) {
        let mut attributes: Vec<(&str, Value)> = Vec::new();
        let is_absent = self.going.contains(&name);
        let what = self.random.u8(..10);
        match if is_absent { 8 } else { what } {
            8 if !is_absent => {}
            0..3 => attributes.push(("content", (*self.random.choice(&CONTENTS).unwrap()).into())),
            3..6 => attributes.push(("source", self.read().into())),
            6..8 => {
                let count = self.random.usize(1..3);
                let mut fragments: Vec<Value> = (0..count).map(|_| self.read().into()).collect();
                if self.chance(30) {
                    fragments.push(self.place.path(self.random.choice(DIRECTORIES).unwrap()).into());
                }
                attributes.push(("fragments", list(fragments)));
            }
            8 => attributes.push(("ensure", "absent".into())),
            _ if self.chance(50) => attributes.push(("target", self.read().into())),
            _ => {}
        }
        let has = |attributes: &[(&str, Value)], name: &str| attributes.iter().any(|(known, _)| *known == name);
        if self.chance(40) && !has(&attributes, "target") && !has(&attributes, "ensure") {
            attributes.push(("mode", (*self.random.choice(&MODES).unwrap()).into()));
        }
        if !has(&attributes, "ensure") {
            self.declare_ownership(&mut attributes);
        }
        if self.is_orderly || self.chance(60) {
            attributes.push(("force", true.into()));
        }
        if self.chance(8) {
            attributes.push(("replace", false.into()));
        }
        if self.chance(8) {
            attributes.push(("backup", ".orig".into()));
        }
        let is_misplaced = || self.place.root.join(name).parent().is_some_and(|directory| !directory.is_dir());
        if (self.is_orderly && is_misplaced() || self.chance(50)) && !has(&attributes, "ensure") {
            attributes.push(("parents", true.into()));
        }
        let path = self.place.path(name);
        self.add("file", &path, attributes);
    }

    fn declare_ownership(&mut self, attributes: &mut Vec<(&str, Value)>) {
        if !is_root() || !self.chance(25) {
            return;
        }
        let is_declared = self.has_accounts && self.chance(60);
        let (owner, group) = match is_declared {
            true => (USER, GROUP),
            false => (*self.random.choice(&OWNERS).unwrap(), *self.random.choice(&GROUPS).unwrap()),
        };
        if self.chance(70) {
            attributes.push(("owner", owner.into()));
        }
        if self.chance(50) {
            attributes.push(("group", group.into()));
        }
    }

    /// The user and the group, which are nearly always there in the end.
    fn declare_accounts(&mut self) {
        if !self.has_accounts {
            return;
        }
        let mut user: Vec<(&str, Value)> = vec![("ensure", "present".into())];
        let mut group = user.clone();
        if self.chance(10) {
            user[0].1 = "absent".into();
        } else {
            if self.chance(50) {
                user.push(("uid", Value::Integer(if self.random.bool() { 7001 } else { 7002 })));
            }
            if self.chance(50) {
                user.push(("shell", "/bin/bash".into()));
            }
            user.push(("managehome", self.random.bool().into()));
        }
        if self.chance(50) {
            group.push(("gid", Value::Integer(if self.random.bool() { 7100 } else { 7101 })));
        }
        self.add("user", USER, user);
        self.add("group", GROUP, group);
    }

    fn declare_directory(&mut self, name: &str, fate: Fate) {
        let mut attributes: Vec<(&str, Value)> = vec![("force", true.into())];
        match fate {
            Fate::Absent => attributes.push(("ensure", "absent".into())),
            Fate::Link => {
                attributes.push(("target", self.place.path(if name == "d0" { "d1" } else { "d0" }).into()));
            }
            Fate::Directory { is_purged } => {
                attributes.push(("ensure", "directory".into()));
                if is_purged {
                    attributes.push(("purge", true.into()));
                }
                if self.chance(50) {
                    attributes.push(("recurse", true.into()));
                    let from = if name == "d1" { "d0" } else { "d1" };
                    if self.chance(33) && (!self.is_orderly || self.stays(from)) {
                        attributes.push(("source", self.place.path(from).into()));
                    }
                }
                if self.chance(30) {
                    attributes.push(("mode", "0750".into()));
                }
                self.declare_ownership(&mut attributes);
            }
        }
        let path = self.place.path(name);
        self.add("file", &path, attributes);
    }

    fn declare_command(&mut self, at: usize) {
        let name = format!("command {at}");
        let text = |text: &str| Value::from(text);
        let path = self.read();
        let mut attributes = vec![("shell", true.into())];
        match self.random.u8(..7) {
            0 => {
                let made = self.place.path("e0");
                attributes.extend([("command", text(&format!("echo made >{made}"))), ("creates", text(&made))]);
            }
            1 => attributes.extend([("command", text("true")), ("verify", false.into()), ("creates", text(&path))]),
            2 => {
                let guard = format!("test -e {path}");
                attributes.extend([("command", text("true")), ("verify", false.into()), ("onlyif", text(&guard))]);
            }
            3 => {
                let guard = format!("grep -q a {path}");
                attributes.extend([("command", text("true")), ("verify", false.into()), ("unless", text(&guard))]);
            }
            4 => attributes.extend([("command", text("true")), ("refreshonly", true.into())]),
            5 => {
                attributes.extend([("command", text("true")), ("verify", false.into())]);
                attributes.extend([("mtimes", list(vec![text(&path)])), ("onlyif", text("false"))]);
            }
            _ => {
                // Nothing declares what it writes: whoever reads that says so with a relation.
                attributes.push(("command", text(&format!("echo written >{}", self.place.path("u0")))));
            }
        }
        self.add("exec", &name, attributes);
    }

    /// Orders resources at random; those that read or manage what commands write come after these or before them.
    fn relate(&mut self) {
        let mut order: Vec<usize> = (0..self.resources.len()).collect();
        if self.chance(50) {
            self.random.shuffle(&mut order);
        }
        let text: Vec<String> = self.resources.iter().map(|resource| format!("{resource:?}")).collect();
        let about = |at: usize, name: &str| text[at].contains(&self.place.path(name));
        let mut relations = Vec::new();
        for (place, &first) in order.iter().enumerate() {
            for &second in &order[place + 1..] {
                let writes =
                    |at: usize, name| self.resources[at].reference.type_name.as_str() == "exec" && about(at, name);
                let is_needed = ["e0", "u0"].iter().any(|name| {
                    writes(first, name) && about(second, name) || writes(second, name) && about(first, name)
                });
                if is_needed || self.random.u8(..100) < 15 {
                    let kinds = [RelationKind::Require, RelationKind::Notify];
                    relations.push((first, second, *self.random.choice(&kinds).unwrap()));
                }
            }
        }
        self.relations = relations;
    }

    fn grow(mut self) -> Catalog {
        self.is_orderly = self.chance(88);
        let mut names: Vec<&str> = FILES.iter().chain(&DIRECTORIES).copied().filter(|name| *name != "u0").collect();
        self.random.shuffle(&mut names);
        names.truncate(self.random.usize(2..7));
        let mut fates = Vec::new();
        for name in names.iter().filter(|name| DIRECTORIES.contains(name)) {
            let fate = match self.random.u8(..6) {
                0 => Fate::Absent,
                1 if *name != "d0/s" => Fate::Link,
                _ => Fate::Directory { is_purged: self.chance(40) },
            };
            match fate {
                Fate::Directory { is_purged: false } => {}
                Fate::Directory { is_purged: true } => {
                    let below = format!("{name}/");
                    let strays = FILES.iter().chain(&DIRECTORIES).filter(|one| one.starts_with(&below));
                    self.going.extend(strays.filter(|stray| !names.contains(stray)));
                }
                Fate::Absent | Fate::Link => self.going.push(name),
            }
            fates.push((*name, fate));
        }
        for name in names.iter().filter(|name| !DIRECTORIES.contains(name)) {
            if self.chance(10) {
                self.going.push(name);
            }
        }
        if self.is_orderly {
            let going = self.going.clone();
            names.retain(|name| !going.iter().any(|gone| name.starts_with(&format!("{gone}/"))));
        }
        self.declared.clone_from(&names);
        self.declare_accounts();
        for name in names {
            match fates.iter().find(|(directory, _)| *directory == name) {
                Some((_, fate)) => self.declare_directory(name, *fate),
                None => self.declare_file(name),
            }
        }
        for at in 0..self.random.usize(..5) {
            self.declare_command(at);
        }
        self.random.shuffle(&mut self.resources);
        self.relate();
        let relations = self.relations.iter().map(|(first, second, kind)| Relation {
            first: *first as u32,
            second: *second as u32,
            kind: *kind,
            span: Span::new(SourceId(0), 0, 0),
        });
        Catalog { relations: relations.collect(), ..Catalog::of(self.resources) }
    }
}

/// Results of many manifests.
#[derive(Debug, Default)]
struct Tally {
    manifests: u64,
    resources: usize,
    would_change: usize,
    would_refresh: usize,
    in_sync: usize,
    failed: usize,
    unknown: usize,
    /// Unknown resources of which the plan shows differences for certain.
    unknown_with_differences: usize,
    /// Unknown resources that the apply found in their state.
    unknown_in_sync: usize,
    /// Manifests in which a change failed that was planned: what depends on it was not done.
    fell_short: u64,
    /// Steps that were stale, each behind a failure.
    stale: usize,
}

fn registry() -> Registry {
    let providers: [Arc<dyn Provider>; 4] = [
        Arc::new(FileProvider::new()),
        Arc::new(ExecProvider::new(System::real())),
        Arc::new(UserProvider::new(System::real())),
        Arc::new(GroupProvider::new(System::real())),
    ];
    Registry::new(providers).unwrap()
}

fn list(values: Vec<Value>) -> Value {
    Value::Array(values.into_iter().collect())
}

fn by_name(report: &Report) -> BTreeMap<String, &ResourceReport> {
    report.resources.iter().map(|resource| (resource.reference.to_string(), resource)).collect()
}

/// Returns the compared part of a difference. For commands it is only the existence of one, because reasons contain
/// times.
fn shown(of: &str, differences: &[Difference]) -> Vec<String> {
    match of.starts_with("exec[") {
        true => vec![differences.len().to_string()],
        false => differences.iter().map(|difference| format!("{difference:?}")).collect(),
    }
}

/// Returns true if an unknown resource had the kind that the plan found, each difference that the plan shows, and no
/// removal of an entry that the plan does not show.
///
/// The plan shows no difference of an attribute that is unknown, and none if the existence is. Apart from these it
/// shows the entries that may be removed.
fn keeps_known(name: &str, plan: &ResourceReport, done: Option<&ResourceReport>) -> bool {
    let is_unknown = |attribute: &str| plan.unknown.iter().any(|(name, _)| name.is_empty() || name == attribute);
    let is_removal = |one: &&Difference| one.entry.is_some() && one.should.as_str() == Some("absent");
    let is_possible = |one: &Difference| one.message.as_deref() == Some("may be removed");
    let differences = done.map(|done| done.differences.as_slice()).unwrap_or_default();
    let is_shown = |one: &Difference| plan.differences.iter().filter(is_removal).any(|then| then.entry == one.entry);
    if !differences.iter().filter(is_removal).all(is_shown) {
        return false;
    }
    let shown: Vec<&Difference> = plan.differences.iter().filter(|one| !is_possible(one)).collect();
    if plan.unknown.is_empty() || is_unknown("ensure") {
        return shown.is_empty();
    }
    if plan.unknown.iter().all(|(name, _)| name == "refresh") {
        return differences.is_empty();
    }
    let had_kind = || {
        let ensure = differences.iter().find(|one| one.attribute == "ensure" && one.entry.is_none());
        let is_done = done.is_some_and(|done| done.status == Status::Changed);
        match (ensure, &plan.found) {
            (Some(ensure), Some(kind)) => ensure.is == *kind,
            (Some(ensure), None) => ensure.is.as_str() == Some("absent"),
            (None, kind) => kind.is_some() || !is_done,
        }
    };
    let shows_unknown = shown.iter().any(|one| is_unknown(one.attribute.as_str()));
    !shows_unknown && (!name.starts_with("file[") || had_kind()) && shown.iter().all(|one| differences.contains(one))
}

/// Plans and applies one manifest. Returns false if it is none that can be carried out.
fn try_one(seed: u64, tally: &mut Tally) -> Result<bool, String> {
    let home = tempfile::tempdir().unwrap();
    let mut random = Rng::with_seed(seed);
    let place = PlanDir { root: home.path().join("root"), state: home.path().join("state") };
    place.grow(&mut random);
    let has_accounts = std::env::var_os(INSIDE).is_some();
    if has_accounts {
        write_accounts(&mut random);
    }
    let growing = Growing {
        place: &place,
        random: &mut random,
        resources: Vec::new(),
        relations: Vec::new(),
        declared: Vec::new(),
        is_orderly: true,
        going: Vec::new(),
        has_accounts,
    };
    let catalog = growing.grow();
    let registry = registry();
    let relations: Vec<(u32, u32)> = catalog.relations.iter().map(|one| (one.first, one.second)).collect();
    let declared: Vec<String> = catalog
        .resources
        .iter()
        .map(|one| format!("{} {:?}", one.reference, one.attributes.iter().collect::<Vec<_>>()))
        .collect();
    let Ok(prepared) = plan_of(catalog, &registry, &Context::empty()) else { return Ok(false) };
    let prepared = prepared.kept();
    let before = place.snapshot();
    let run =
        |mode| prepared.execute(&place.options(mode), &ShutdownHandle::new().unwrap(), &mut NullObserver).unwrap();
    let plan = run(Mode::Noop);
    if place.snapshot() != before {
        return Err("the plan changed something".to_owned());
    }
    let again = run(Mode::Noop);
    // The plan is carried out as one that was kept in a file, which no plan with a failure is.
    let key = SealingKey::made(&place.state).unwrap();
    let steps = Plan::steps(&plan.resources, &key);
    let kept = Plan::read(&steps, SecretDigests::Keyed(Box::new(key))).unwrap();
    let prepared = if plan.has_failures() { prepared } else { prepared.following(kept) };
    let done =
        prepared.execute(&place.options(Mode::Apply), &ShutdownHandle::new().unwrap(), &mut NullObserver).unwrap();
    let (planned, replanned, done) = (by_name(&plan), by_name(&again), by_name(&done));
    tally.manifests += 1;
    let status = |reports: &BTreeMap<String, &ResourceReport>, name: &str| {
        reports.get(name).map_or(Status::InSync, |report| report.status)
    };
    let names: Vec<String> = prepared.resources().iter().map(|one| one.reference.to_string()).collect();
    let is_short = |name: &String| {
        matches!(status(&done, name), Status::Failed | Status::Skipped)
            && !matches!(status(&planned, name), Status::Failed | Status::Skipped)
    };
    let fell_short = names.iter().any(is_short);
    tally.fell_short += u64::from(fell_short);
    // Nobody else has changed anything: a step is stale only behind one that has failed.
    let has_failed = |name: &String| {
        is_short(name) && done.get(name).is_some_and(|one| one.status == Status::Failed && one.deviation.is_none())
    };
    let fell_short_otherwise = names.iter().any(has_failed);
    for name in &names {
        tally.resources += 1;
        let (was, is) = (status(&planned, name), status(&done, name));
        let next = status(&replanned, name);
        let matches = match (was, is) {
            (Status::InSync, Status::InSync) => true,
            (Status::WouldChange, Status::Changed) => {
                let (plan, done) = (planned[name], done[name]);
                fell_short
                    || shown(name, &plan.differences) == shown(name, &done.differences)
                        && (plan.refreshed == done.refreshed || plan.unknown.iter().any(|(name, _)| name == "refresh"))
            }
            (Status::WouldRefresh, Status::Refreshed) => true,
            (Status::Unknown, _) => fell_short || keeps_known(name, planned[name], done.get(name).copied()),
            (Status::Failed, Status::Failed) | (Status::Skipped, Status::Skipped) => true,
            // Less than planned, since something failed that was to come first.
            (_, Status::Failed | Status::Skipped) => true,
            _ => fell_short && is == Status::InSync,
        };
        match was {
            Status::InSync => tally.in_sync += 1,
            Status::WouldChange => tally.would_change += 1,
            Status::WouldRefresh => tally.would_refresh += 1,
            Status::Unknown => tally.unknown += 1,
            _ => tally.failed += 1,
        }
        let shows = was == Status::Unknown && !planned[name].differences.is_empty();
        tally.unknown_with_differences += usize::from(shows);
        tally.unknown_in_sync += usize::from(was == Status::Unknown && is == Status::InSync);
        let is_stale = done.get(name).is_some_and(|report| report.deviation == Some(Deviation::Stale));
        tally.stale += usize::from(is_stale);
        if !matches || was != next || is_stale && !fell_short_otherwise {
            let tell = |reports: &BTreeMap<String, &ResourceReport>| {
                let lines = reports.iter().map(|(name, one)| {
                    format!("  {name} {:?} {:?} {:?} {:?}", one.status, one.differences, one.unknown, one.failure)
                });
                lines.collect::<Vec<_>>().join("\n")
            };
            let before = before.iter().map(|(path, (mode, uid, gid, content))| {
                format!("  {} {mode:o} {uid}:{gid} {:?}", path.display(), String::from_utf8_lossy(content))
            });
            return Err(format!(
                "{name} was planned as {was:?}, again as {next:?}, and is {is:?}\nmanifest:\n  {}\nrelations: \
                 {relations:?}\nbefore:\n{}\nplan:\n{}\ndone:\n{}",
                declared.join("\n  "),
                before.collect::<Vec<_>>().join("\n"),
                tell(&planned),
                tell(&done)
            ));
        }
    }
    Ok(true)
}

/// Tries as many manifests as the environment asks for.
fn try_many(plans: u64) -> Tally {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let first = number("KILTER_SEED").unwrap_or(1);
    let count = number("KILTER_PLANS").unwrap_or(plans);
    eprintln!("KILTER_SEED={first}");
    let mut tally = Tally::default();
    let mut seed = first;
    while tally.manifests < count {
        if let Err(why) = try_one(seed, &mut tally) {
            panic!("KILTER_SEED={seed}: {why}");
        }
        seed += 1;
    }
    eprintln!("{tally:?}");
    assert!(tally.unknown * 2 < tally.resources, "too much is unknown: {tally:?}");
    assert!(tally.fell_short * 5 < tally.manifests || count < 100, "too many changes fail: {tally:?}");
    tally
}

#[test]
fn plan_of_random_manifests_matches_apply() {
    try_many(PLANS);
}

/// The test starts itself again in a mount namespace in which a copy lies over `/etc`: the machine's accounts stay.
#[test]
fn plan_of_random_manifests_with_accounts_matches_apply() {
    const NAME: &str = "plan_of_random_manifests_with_accounts_matches_apply";
    if std::env::var_os(INSIDE).is_some() {
        try_many(PLANS_WITH_ACCOUNTS);
        return;
    }
    assert!(is_root(), "this test changes accounts in a mount namespace and needs root");
    let before = fs::read("/etc/passwd").unwrap();
    let copy = tempfile::tempdir().unwrap();
    let script = "set -e; cp -a /etc/. \"$1\"; mount --bind \"$1\" /etc; mount -t tmpfs none /home; \
                  mount -t tmpfs none /var/mail; rm -f /etc/.pwd.lock; exec \"$2\" --exact \"$3\" --nocapture";
    let output = std::process::Command::new("unshare")
        .args(["--mount", "--propagation", "private", "--", "sh", "-c", script, "sh"])
        .args([copy.path(), &std::env::current_exe().unwrap()])
        .arg(NAME)
        .env(INSIDE, "1")
        .output()
        .expect("unshare(1) of util-linux starts: apt install util-linux");
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "{}\n{}", said[0], said[1]);
    eprintln!("{}", said[1]);
    assert!(said[0].contains("1 passed"), "{}", said[0]);
    assert_eq!(fs::read("/etc/passwd").unwrap(), before, "the machine's own accounts stay as they are");
}

/// The file `f` and a command that makes it, without an order between them.
fn planned_without_order(ensure: &str, is_there: bool, command_first: bool) -> (Status, Status) {
    let home = tempfile::tempdir().unwrap();
    let place = PlanDir { root: home.path().join("root"), state: home.path().join("state") };
    fs::create_dir(&place.root).unwrap();
    let path = place.path("f");
    if is_there {
        fs::write(&path, "").unwrap();
    }
    let resource = |type_name: &str, name: &str, attributes: [(&str, &str); 2]| {
        let mut resource = Resource::new(ResourceRef::new(type_name, name), name, Span::new(SourceId(0), 0, 0));
        attributes.iter().for_each(|(attribute, value)| resource.attributes.set(*attribute, Value::from(*value)));
        resource
    };
    let file = resource("file", &path, [("ensure", ensure), ("path", &path)]);
    let command = format!("/bin/touch {path}");
    let command = resource("exec", "make", [("command", &command), ("creates", &path)]);
    let resources = if command_first { vec![command, file] } else { vec![file, command] };
    let registry = registry();
    let prepared = plan_of(Catalog::of(resources), &registry, &Context::empty())
        .unwrap_or_else(|rejected| panic!("{:?}", rejected.problems));
    let plan =
        prepared.execute(&place.options(Mode::Noop), &ShutdownHandle::new().unwrap(), &mut NullObserver).unwrap();
    let found = by_name(&plan);
    let status = |name: &str| found.get(name).map_or(Status::InSync, |one| one.status);
    (status(&format!("file[{path}]")), status("exec[make]"))
}

#[test]
fn plan_of_file_and_command_without_order_does_not_depend_on_which_is_declared_first() {
    for command_first in [false, true] {
        let planned = |ensure, is_there| planned_without_order(ensure, is_there, command_first);
        assert_eq!(planned("absent", true), (Status::WouldChange, Status::Unknown), "{command_first}");
        assert_eq!(planned("present", true), (Status::InSync, Status::InSync), "{command_first}");
        assert_eq!(planned("present", false), (Status::Unknown, Status::Unknown), "{command_first}");
    }
}

/// A package that brings one file when it is installed.
struct Packages {
    schema: TypeSchema,
    /// File that the package installs, and its content.
    brings: (PathBuf, &'static str),
    is_installed: AtomicBool,
}

impl Packages {
    fn bringing(path: &str, content: &'static str) -> Arc<Packages> {
        let ensure = "Whether it is installed.";
        let schema = TypeSchema::new("package", "Packages.")
            .attribute("ensure", "Enum[present, absent]", Behaviour::Property, ensure)
            .attribute("name", "String", Behaviour::Namevar, "Its name.");
        Arc::new(Packages { schema, brings: (path.into(), content), is_installed: AtomicBool::new(false) })
    }
}

impl Provider for Packages {
    fn schema(&self) -> &TypeSchema {
        &self.schema
    }

    fn name(&self) -> &'static str {
        "memory"
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities { owner: Some(self), ..Capabilities::default() }
    }

    fn get(&self, _: &Context<'_>, _: Query<'_>) -> Result<Vec<State>, ProviderError> {
        let attributes = || [("ensure", "present"), ("name", "pack")].into_iter().collect();
        let state = self.is_installed.load(Ordering::Relaxed).then(|| State::present("pack", attributes()));
        Ok(state.into_iter().collect())
    }

    fn set(&self, _: &Context<'_>, changes: &[Change<'_>], _: kilter_provider::Mode) -> Vec<Outcome> {
        fs::write(&self.brings.0, self.brings.1).unwrap();
        self.is_installed.store(true, Ordering::Relaxed);
        changes.iter().map(|_| Outcome::done()).collect()
    }
}

impl Owner for Packages {
    fn owned(&self, _: &str, _: &Attributes, is_wanted: &dyn Fn(&str) -> bool) -> Vec<EcoString> {
        let path = self.brings.0.to_str().unwrap();
        // Before it is installed nothing is known of what it brings.
        let is_known = self.brings.0.exists() && is_wanted(path);
        is_known.then(|| path.into()).into_iter().collect()
    }
}

/// Tools that no plan starts.
struct NoTools;

impl Runner for NoTools {
    fn run(&self, invocation: &Invocation, _: Cancel<'_>) -> Result<Output, SpawnError> {
        panic!("a plan starts {:?}", invocation.program)
    }
}

/// A directory for one manifest, which is written out.
struct Scene {
    _home: tempfile::TempDir,
    place: PlanDir,
    registry: Registry,
    resources: Vec<Resource>,
    relations: Vec<Relation>,
}

impl Scene {
    fn new(more: impl IntoIterator<Item = Arc<dyn Provider>>) -> Scene {
        let home = tempfile::tempdir().unwrap();
        let place = PlanDir { root: home.path().join("root"), state: home.path().join("state") };
        fs::create_dir(&place.root).unwrap();
        let providers: [Arc<dyn Provider>; 2] =
            [Arc::new(FileProvider::new()), Arc::new(ExecProvider::new(System::real()))];
        let registry = Registry::new(providers.into_iter().chain(more)).unwrap();
        Scene { _home: home, place, registry, resources: Vec::new(), relations: Vec::new() }
    }

    /// Declares the file `f` after a package that brings the file `brought`.
    fn after_package(brought: &str, attributes: &[(&str, Value)]) -> Scene {
        let mut scene = Scene::new([]);
        scene.registry = Registry::new([
            Packages::bringing(&scene.path(brought), "default\n") as Arc<dyn Provider>,
            Arc::new(FileProvider::new()),
        ])
        .unwrap();
        let package = scene.declare("package", "pack", &[("ensure", "present".into())]);
        let file = scene.declare("file", "@/f", attributes);
        scene.order(package, file);
        scene
    }

    fn path(&self, name: &str) -> String {
        self.place.path(name)
    }

    fn write(&self, name: &str, content: &str) {
        let path = self.place.root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Declares a resource. `@/` in texts stands for the directory.
    fn declare(&mut self, type_name: &str, name: &str, attributes: &[(&str, Value)]) -> u32 {
        let full = |text: &str| text.replace("@/", &format!("{}/", self.place.root.display()));
        let name = full(name);
        let mut resource = Resource::new(ResourceRef::new(type_name, &*name), &*name, Span::new(SourceId(0), 0, 0));
        for (attribute, value) in attributes {
            let value = value.as_str().map_or_else(|| value.clone(), |text| Value::from(&*full(text)));
            resource.attributes.set(*attribute, value);
        }
        self.resources.push(resource);
        self.resources.len() as u32 - 1
    }

    fn order(&mut self, first: u32, second: u32) {
        let span = Span::new(SourceId(0), 0, 0);
        self.relations.push(Relation { first, second, kind: RelationKind::Require, span });
    }

    /// Plans, and returns the status of each resource in the plan; then carries the plan out if `apply` asks for it.
    fn run(mut self, apply: bool) -> (Vec<Status>, Vec<(Status, Option<Deviation>)>) {
        self.run_after(apply, |_| ())
    }

    /// Plans, and returns the report.
    fn plan(&self) -> Report {
        let (resources, relations) = (self.resources.clone(), self.relations.clone());
        let catalog = Catalog { relations, ..Catalog::of(resources) };
        let prepared = plan_of(catalog, &self.registry, &Context::empty())
            .unwrap_or_else(|rejected| panic!("{:?}", rejected.problems));
        let options = self.place.options(Mode::Noop);
        prepared.execute(&options, &ShutdownHandle::new().unwrap(), &mut NullObserver).unwrap()
    }

    /// As `run`, with a change by another program between the plan and its execution.
    fn run_after(
        &mut self,
        apply: bool,
        between: impl FnOnce(&Path),
    ) -> (Vec<Status>, Vec<(Status, Option<Deviation>)>) {
        let (resources, relations) = (std::mem::take(&mut self.resources), std::mem::take(&mut self.relations));
        let catalog = Catalog { relations, ..Catalog::of(resources) };
        let prepared = plan_of(catalog, &self.registry, &Context::empty())
            .unwrap_or_else(|rejected| panic!("{:?}", rejected.problems));
        let prepared = prepared.kept();
        let names: Vec<String> = prepared.resources().iter().map(|one| one.reference.to_string()).collect();
        let plan = prepared
            .execute(&self.place.options(Mode::Noop), &ShutdownHandle::new().unwrap(), &mut NullObserver)
            .unwrap();
        let planned = by_name(&plan);
        let planned = names.iter().map(|name| planned.get(name).map_or(Status::InSync, |one| one.status)).collect();
        if !apply {
            return (planned, Vec::new());
        }
        let key = SealingKey::made(&self.place.state).unwrap();
        let kept = Plan::read(&Plan::steps(&plan.resources, &key), SecretDigests::Keyed(Box::new(key))).unwrap();
        let prepared = prepared.following(kept);
        between(&self.place.root);
        let done = prepared
            .execute(&self.place.options(Mode::Apply), &ShutdownHandle::new().unwrap(), &mut NullObserver)
            .unwrap();
        let done = by_name(&done);
        let of = |name| done.get(name).map_or((Status::InSync, None), |one| (one.status, one.deviation));
        (planned, names.iter().map(of).collect())
    }
}

#[test]
fn plan_of_directories_that_become_links_to_each_other_is_unknown_if_an_entry_lands_in_one() {
    let mut scene = Scene::new([]);
    scene.write("d0/b", "");
    scene.write("d1/b", "");
    let link = |target: &str| [("target", target.into()), ("force", true.into())];
    scene.declare("file", "@/d0", &link("@/d1"));
    scene.declare("file", "@/d1", &link("@/d0"));
    scene.declare("file", "@/d0/b", &[("content", "a\n".into())]);
    let (planned, done) = scene.run(true);
    assert_eq!(planned, [Status::WouldChange, Status::Unknown, Status::Unknown]);
    assert!(done.iter().all(|(_, deviation)| *deviation != Some(Deviation::Stale)), "{done:?}");
}

#[test]
fn plan_of_file_that_earlier_command_names_is_unknown() {
    let planned = |command: &str, cwd: Option<&str>, is_ordered| {
        let mut scene = Scene::new([]);
        scene.write("f", "a\n");
        let mut attributes = vec![("command", Value::from(command)), ("shell", true.into())];
        attributes.extend(cwd.map(|cwd| ("cwd", cwd.into())));
        let command = scene.declare("exec", "command", &attributes);
        let between = scene.declare("exec", "between", &[("command", "true".into()), ("refreshonly", true.into())]);
        let file = scene.declare("file", "@/f", &[("content", "a\n".into())]);
        if is_ordered {
            scene.order(command, between);
            scene.order(between, file);
        }
        scene.run(false).0[file as usize]
    };
    assert_eq!(planned("echo b >@/f", None, true), Status::Unknown);
    assert_eq!(planned("chmod -R go= @/", None, true), Status::Unknown, "a directory above");
    assert_eq!(planned("touch x", Some("@/"), true), Status::Unknown, "its own directory");
    assert_eq!(planned("true", None, true), Status::InSync);
    assert_eq!(planned("cat @/g / /etc", None, true), Status::InSync);
    assert_eq!(planned("echo b >@/f", None, false), Status::InSync, "no relation");
}

#[test]
fn plan_of_purged_directory_is_unknown_if_earlier_command_names_an_entry() {
    let mut scene = Scene::new([]);
    fs::create_dir(scene.path("d")).unwrap();
    let command = scene.declare("exec", "touch @/d/y", &[]);
    let purged = [("ensure", "directory".into()), ("recurse", true.into()), ("purge", true.into())];
    let directory = scene.declare("file", "@/d", &purged);
    scene.order(command, directory);
    assert_eq!(scene.run(false).0, [Status::WouldChange, Status::Unknown]);
}

#[test]
fn unknown_step_of_a_directory_removes_no_entry_that_it_does_not_show() {
    for shows_entry in [true, false] {
        let mut scene = Scene::new([]);
        fs::create_dir(scene.path("d")).unwrap();
        if shows_entry {
            scene.write("d/shown", "");
        }
        let command = scene.declare("exec", "make", &[("command", "touch @/d/y".into())]);
        let purged = [("ensure", "directory".into()), ("recurse", true.into()), ("purge", true.into())];
        let directory = scene.declare("file", "@/d", &purged);
        scene.order(command, directory);
        let (planned, done) = scene.run_after(true, |root| fs::write(root.join("d/data"), "foreign\n").unwrap());
        assert_eq!(planned, [Status::WouldChange, Status::Unknown]);
        assert_eq!(done[1], (Status::Failed, Some(Deviation::Stale)), "{shows_entry}");
        assert_eq!(fs::read_to_string(scene.path("d/data")).unwrap(), "foreign\n");
    }
}

#[test]
fn unknown_step_of_a_directory_removes_the_entries_that_it_shows() {
    let purged = |source: &str| {
        let mut attributes = vec![("ensure", "directory".into()), ("recurse", true.into()), ("purge", true.into())];
        attributes.extend((!source.is_empty()).then(|| ("source", source.into())));
        attributes
    };
    let is_left = |scene: &Scene, name: &str| fs::exists(scene.path(name)).unwrap();
    let unknown = (Status::Changed, Some(Deviation::Unknown));

    // A command creates an entry and names it.
    let mut scene = Scene::new([]);
    scene.write("d/stray/x", "");
    let command = scene.declare("exec", "make", &[("command", "mkdir -p @/d/new/deep".into())]);
    let directory = scene.declare("file", "@/d", &purged(""));
    scene.order(command, directory);
    let (planned, done) = scene.run_after(true, |_| ());
    assert_eq!((planned[1], done[1]), (Status::Unknown, unknown));
    assert!(!is_left(&scene, "d/stray") && !is_left(&scene, "d/new"));

    // A resource removes the source of an entry. The other entry of the source stays.
    let mut scene = Scene::new([]);
    for name in ["from/a/x", "from/b", "d/a/x", "d/b", "d/stray"] {
        scene.write(name, "");
    }
    let source = scene.declare("file", "@/from/a", &[("ensure", "absent".into()), ("force", true.into())]);
    let directory = scene.declare("file", "@/d", &purged("@/from"));
    scene.order(source, directory);
    let plan = scene.plan();
    let of = by_name(&plan)[&format!("file[{}]", scene.path("d"))];
    let shown: Vec<&str> = of.differences.iter().filter_map(|one| one.entry.as_deref()).collect();
    assert_eq!(shown, ["a/x", "a", "stray"], "{of:?}");
    assert!(of.differences.iter().all(|one| one.message.as_deref() == Some("may be removed")), "{of:?}");
    let (planned, done) = scene.run_after(true, |_| ());
    assert_eq!((planned[1], done[1]), (Status::Unknown, unknown));
    assert!(!is_left(&scene, "d/a") && !is_left(&scene, "d/stray") && is_left(&scene, "d/b"));
}

#[test]
fn plan_of_directory_with_unknown_owner_shows_the_entries_that_differ() {
    let (_accounts, mut scene, user) = new_user_with_home([]);
    for name in ["from/a", "from/b", "d/b", "d/stray"] {
        scene.write(name, name);
    }
    let attributes = [("source", "@/from".into()), ("recurse", true.into()), ("purge", true.into())];
    let attributes = [&attributes[..], &[("ensure", "directory".into()), ("owner", "eve".into())]].concat();
    let directory = scene.declare("file", "@/d", &attributes);
    scene.order(user, directory);
    let plan = scene.plan();
    let of = by_name(&plan)[&format!("file[{}]", scene.path("d"))];
    let shown = of.differences.iter().map(|one| (one.entry.as_deref().unwrap_or_default(), one.attribute.as_str()));
    let shown: Vec<_> = shown.collect();
    assert_eq!(of.status, Status::Unknown);
    assert_eq!(shown, [("a", "ensure"), ("b", "content"), ("stray", "ensure")], "{of:?}");
}

/// Creates the user `daemon` in a copy of the accounts. The real system already has this user.
struct CreatesDaemon(PathBuf);

impl Runner for CreatesDaemon {
    fn run(&self, _: &Invocation, _: Cancel<'_>) -> Result<Output, SpawnError> {
        fs::write(self.0.join("etc/passwd"), "daemon:x:1:1::/:/bin/sh\n").unwrap();
        Ok(Output::of(kilter_process::Status::Code(0)))
    }
}

/// Plans a directory whose owner is a new user, and applies the plan after a change by another program. The directory
/// is a purged copy of `from`.
fn tree_of_new_user_after(
    before: &[&str],
    between: impl FnOnce(&Path),
) -> (Scene, Status, (Status, Option<Deviation>)) {
    assert!(is_root(), "this test changes owners and needs root");
    let accounts = tempfile::tempdir().unwrap();
    let etc = accounts.path().join("etc");
    fs::create_dir(&etc).unwrap();
    for (file, content) in [("passwd", ""), ("group", "daemon:x:1:\n")] {
        fs::write(etc.join(file), content).unwrap();
    }
    let system = System::new(accounts.path(), Arc::new(CreatesDaemon(accounts.path().to_owned())));
    let mut scene = Scene::new([Arc::new(UserProvider::new(system)) as Arc<dyn Provider>]);
    before.iter().for_each(|name| scene.write(name, "planned\n"));
    let user = scene.declare("user", "daemon", &[("ensure", "present".into())]);
    let attributes = [("source", "@/from".into()), ("recurse", true.into()), ("purge", true.into())];
    let attributes = [&attributes[..], &[("ensure", "directory".into()), ("owner", "daemon".into())]].concat();
    let directory = scene.declare("file", "@/d", &attributes);
    scene.order(user, directory);
    let (planned, done) = scene.run_after(true, between);
    assert_eq!((planned[0], done[0].0), (Status::WouldChange, Status::Changed));
    (scene, planned[1], done[1])
}

#[test]
fn tree_of_new_user_is_copied_and_purged_as_planned() {
    for (before, expected) in [
        (&["from/a", "d/a", "d/stray"][..], (Status::Unknown, (Status::Changed, Some(Deviation::Unknown)))),
        (&["from/a", "d/stray"], (Status::Unknown, (Status::Changed, Some(Deviation::Unknown)))),
        (&["from/a"], (Status::WouldChange, (Status::Changed, None))),
    ] {
        let (scene, planned, done) = tree_of_new_user_after(before, |_| ());
        assert_eq!((planned, done), expected, "{before:?}");
        assert!(!fs::exists(scene.path("d/stray")).unwrap());
        assert_eq!(fs::metadata(scene.path("d/a")).unwrap().uid(), 1);
    }
}

#[test]
fn tree_of_new_user_is_stale_if_its_source_or_a_removed_entry_has_changed() {
    for (before, changed) in [
        (&["from/a", "from/b", "d/a"][..], "from/b"),
        (&["from/a", "d/a", "d/stray"], "d/stray"),
        (&["from/a"], "from/a"),
        (&["from/a"], "from/b"),
    ] {
        let foreign = |root: &Path| fs::write(root.join(changed), "foreign\n").unwrap();
        let (scene, _, done) = tree_of_new_user_after(before, foreign);
        assert_eq!(done, (Status::Failed, Some(Deviation::Stale)), "{before:?} {changed}");
        assert_eq!(fs::read_to_string(scene.path(changed)).unwrap(), "foreign\n");
        assert!(!fs::exists(scene.path("d/b")).unwrap(), "{before:?} {changed}");
    }
}

#[test]
fn plan_of_link_that_becomes_a_copy_is_unknown_if_a_command_writes_the_source() {
    let mut scene = Scene::new([]);
    scene.write("from/a", "old\n");
    for (link, target) in [("file", "from/a"), ("tree", "from")] {
        symlink(target, scene.place.root.join(link)).unwrap();
    }
    let command = [("command", "echo new >@/from/a".into()), ("shell", true.into())];
    let command = scene.declare("exec", "make", &command);
    let file = scene.declare("file", "@/file", &[("source", "@/from/a".into())]);
    let tree = scene.declare("file", "@/tree", &[("source", "@/from".into()), ("recurse", true.into())]);
    scene.order(command, file);
    scene.order(command, tree);
    let (planned, done) = scene.run_after(true, |_| ());
    assert_eq!(planned, [Status::WouldChange, Status::Unknown, Status::Unknown]);
    let unknown = (Status::Changed, Some(Deviation::Unknown));
    assert_eq!(done, [(Status::Changed, None), unknown, unknown]);
    for copy in ["file", "tree/a"] {
        assert_eq!(fs::read_to_string(scene.path(copy)).unwrap(), "new\n");
    }
}

#[test]
fn unknown_step_of_a_directory_removes_no_entry_that_has_changed() {
    let mut scene = Scene::new([]);
    for name in ["from/a", "d/stray", "d/sub/x"] {
        scene.write(name, "planned\n");
    }
    let source = scene.declare("file", "@/from/a", &[("content", "new\n".into())]);
    let attributes = [("source", "@/from".into()), ("recurse", true.into()), ("purge", true.into())];
    let attributes = [&attributes[..], &[("ensure", "directory".into())]].concat();
    let directory = scene.declare("file", "@/d", &attributes);
    scene.order(source, directory);
    let (planned, done) = scene.run_after(true, |root| fs::write(root.join("d/stray"), "foreign\n").unwrap());
    assert_eq!(planned, [Status::WouldChange, Status::Unknown]);
    assert_eq!(done[1], (Status::Failed, Some(Deviation::Stale)));
    assert_eq!(fs::read_to_string(scene.path("d/stray")).unwrap(), "foreign\n");
}

#[test]
fn plan_of_reader_of_accounts_is_unknown_if_a_user_is_created() {
    for user_first in [true, false] {
        let accounts = tempfile::tempdir().unwrap();
        let etc = accounts.path().join("etc");
        fs::create_dir_all(etc.join("skel")).unwrap();
        fs::create_dir(accounts.path().join("home")).unwrap();
        fs::write(etc.join("skel/.profile"), "").unwrap();
        for (file, line) in [("passwd", "root:x:0:0::/root:/bin/sh\n"), ("group", "root:x:0:\n"), ("shadow", "")] {
            fs::write(etc.join(file), line).unwrap();
            fs::set_permissions(etc.join(file), fs::Permissions::from_mode(0o644)).unwrap();
        }
        let system = System::new(accounts.path(), Arc::new(NoTools));
        let mut scene = Scene::new([Arc::new(UserProvider::new(system)) as Arc<dyn Provider>]);
        let at = |path: &str| accounts.path().join(path).to_str().unwrap().to_owned();
        let user = |scene: &mut Scene| {
            scene.declare("user", "eve", &[("ensure", "present".into()), ("managehome", true.into())]);
        };
        if user_first {
            user(&mut scene);
        }
        let guard = format!("grep -q eve {}", at("etc/passwd"));
        scene.declare("exec", "guarded", &[("command", "true".into()), ("unless", guard.as_str().into())]);
        scene.declare("exec", "present", &[("command", "true".into()), ("creates", at("etc/passwd").as_str().into())]);
        scene.declare("file", "@/copy", &[("source", at("etc/group").as_str().into())]);
        scene.declare("file", &at("etc/passwd"), &[("mode", "0644".into())]);
        scene.declare("file", &at("etc/shadow"), &[("mode", "0640".into())]);
        let first = user_first as usize;
        if !user_first {
            user(&mut scene);
        }
        let (planned, _) = scene.run(false);
        let expected = [Status::Unknown, Status::InSync, Status::Unknown, Status::InSync, Status::WouldChange];
        assert_eq!(planned[first..first + 5], expected, "{user_first}");
    }
}

/// Accounts with an empty skeleton directory, and a new user with a managed home.
fn new_user_with_home(more: impl IntoIterator<Item = Arc<dyn Provider>>) -> (tempfile::TempDir, Scene, u32) {
    let accounts = tempfile::tempdir().unwrap();
    let etc = accounts.path().join("etc");
    fs::create_dir_all(etc.join("skel")).unwrap();
    fs::create_dir(accounts.path().join("home")).unwrap();
    fs::write(etc.join("passwd"), "").unwrap();
    fs::write(etc.join("group"), "").unwrap();
    let system = System::new(accounts.path(), Arc::new(NoTools));
    let mut scene = Scene::new([Arc::new(UserProvider::new(system)) as Arc<dyn Provider>].into_iter().chain(more));
    let user = scene.declare("user", "eve", &[("ensure", "present".into()), ("managehome", true.into())]);
    (accounts, scene, user)
}

#[test]
fn plan_of_new_home_predicts_missing_files() {
    let (accounts, mut scene, user) = new_user_with_home([]);
    let at = |path: &str| accounts.path().join(path).to_str().unwrap().to_owned();
    fs::write(at("etc/skel/.profile"), "").unwrap();
    for name in ["home/eve/.vimrc", "home/eve/.profile"] {
        let file = scene.declare("file", &at(name), &[("content", "".into())]);
        scene.order(user, file);
    }
    assert_eq!(scene.run(false).0, [Status::WouldChange, Status::WouldChange, Status::Unknown]);
}

#[test]
fn plan_of_new_home_is_unknown_if_the_skeleton_changes() {
    for is_ordered in [true, false] {
        let (accounts, mut scene, user) = new_user_with_home([]);
        let at = |path: &str| accounts.path().join(path).to_str().unwrap().to_owned();
        let entry = scene.declare("file", &at("etc/skel/.profile"), &[("content", "skeleton\n".into())]);
        let file = scene.declare("file", &at("home/eve/.profile"), &[("content", "".into())]);
        scene.order(user, file);
        if is_ordered {
            scene.order(entry, user);
        }
        let expected = [Status::WouldChange, Status::WouldChange, Status::Unknown];
        assert_eq!(scene.run(false).0, expected, "{is_ordered}");
    }
}

#[test]
fn plan_of_new_home_is_unknown_if_the_defaults_of_useradd_change() {
    for is_ordered in [true, false] {
        for home in [None, Some("/home/eve")] {
            let (accounts, mut scene, _) = new_user_with_home([]);
            let at = |path: &str| accounts.path().join(path).to_str().unwrap().to_owned();
            fs::create_dir(at("etc/default")).unwrap();
            if let Some(home) = home {
                scene.resources[0].attributes.set("home", home);
            }
            let defaults = scene.declare("file", &at("etc/default/useradd"), &[("content", "HOME=/srv\n".into())]);
            let file = scene.declare("file", &at("home/eve/.profile"), &[("content", "".into())]);
            scene.order(0, file);
            if is_ordered {
                scene.order(defaults, 0);
            }
            let expected = [Status::WouldChange, Status::WouldChange, Status::Unknown];
            assert_eq!(scene.run(false).0, expected, "{is_ordered} {home:?}");
        }
    }
}

#[test]
fn plan_of_reader_of_a_backup_is_unknown_in_any_order() {
    for reader_first in [true, false] {
        let mut scene = Scene::new([]);
        scene.write("f", "old\n");
        let mut declare = |is_reader: bool| match is_reader {
            true => scene.declare("exec", "true", &[("creates", "@/f.orig".into())]),
            false => scene.declare("file", "@/f", &[("content", "new\n".into()), ("backup", ".orig".into())]),
        };
        let (first, second) = (declare(reader_first), declare(!reader_first));
        let reader = if reader_first { first } else { second };
        assert_eq!(scene.run(false).0[reader as usize], Status::Unknown, "{reader_first}");
    }
}

#[test]
fn file_from_an_earlier_package_is_created_as_planned() {
    for brought in ["f", "g"] {
        let scene = Scene::after_package(brought, &[("content", "declared\n".into())]);
        let (planned, done) = scene.run(true);
        assert_eq!(planned, [Status::WouldChange, Status::WouldChange]);
        let deviation = (brought == "f").then_some(Deviation::Unknown);
        assert_eq!(done, [(Status::Changed, None), (Status::Changed, deviation)], "{brought}");
    }
}

#[test]
fn removal_of_a_file_that_an_earlier_package_may_bring_is_unknown() {
    for (brought, foreign, expected) in [
        ("f", None, (Status::Changed, Some(Deviation::Unknown))),
        ("g", None, (Status::InSync, Some(Deviation::Unknown))),
        // The package writes the file, but another program had made it before.
        ("f", Some("foreign\n"), (Status::Failed, Some(Deviation::Stale))),
        ("g", Some("foreign\n"), (Status::Failed, Some(Deviation::Stale))),
    ] {
        let mut scene = Scene::after_package(brought, &[("ensure", "absent".into())]);
        let between = |root: &Path| foreign.into_iter().for_each(|text| fs::write(root.join("f"), text).unwrap());
        let (planned, done) = scene.run_after(true, between);
        assert_eq!(planned, [Status::WouldChange, Status::Unknown]);
        assert_eq!(done[1], expected, "{brought} {foreign:?}");
        assert_eq!(Path::new(&scene.path("f")).exists(), foreign.is_some(), "{brought}");
    }
}

/// Plans the file `f` after a package that brings the file `brought`. Applies the plan after another program has
/// made a change.
fn scene_after_foreign_change(
    brought: &str,
    attributes: &[(&str, Value)],
    between: impl FnOnce(&Path),
) -> (Scene, (Status, Option<Deviation>)) {
    let mut scene = Scene::after_package(brought, attributes);
    scene.write("source/s", "planned\n");
    let (planned, done) = scene.run_after(true, between);
    assert_eq!(planned, [Status::WouldChange, Status::WouldChange]);
    assert_eq!(done[0].0, Status::Changed);
    (scene, done[1])
}

#[test]
fn creation_after_a_package_is_stale_if_another_program_has_made_the_file() {
    for brought in ["g", "f"] {
        let foreign = |root: &Path| fs::write(root.join("f"), "foreign\n").unwrap();
        let (scene, done) = scene_after_foreign_change(brought, &[("content", "declared\n".into())], foreign);
        assert_eq!(done, (Status::Failed, Some(Deviation::Stale)), "{brought}");
        let left = if brought == "f" { "default\n" } else { "foreign\n" };
        assert_eq!(fs::read_to_string(scene.path("f")).unwrap(), left);
    }
}

#[test]
fn unknown_creation_after_a_package_permits_only_a_file_of_the_package() {
    for (brought, foreign, expected) in [
        ("g", None, (Status::Changed, Some(Deviation::Unknown))),
        ("f", None, (Status::Changed, Some(Deviation::Unknown))),
        ("g", Some("foreign\n"), (Status::Failed, Some(Deviation::Stale))),
    ] {
        let mut scene = Scene::new([]);
        scene.write("part", "a\n");
        scene.registry = Registry::new([
            Packages::bringing(&scene.path(brought), "default\n") as Arc<dyn Provider>,
            Arc::new(FileProvider::new()),
            Arc::new(ExecProvider::new(System::real())),
        ])
        .unwrap();
        let package = scene.declare("package", "pack", &[("ensure", "present".into())]);
        let command = scene.declare("exec", "make", &[("command", "echo b >@/part".into()), ("shell", true.into())]);
        let parts = Value::strings([EcoString::from(scene.path("part"))]);
        let file = scene.declare("file", "@/f", &[("fragments", parts)]);
        scene.order(package, file);
        scene.order(command, file);
        let (planned, done) = scene.run_after(true, |root| {
            if let Some(foreign) = foreign {
                fs::write(root.join("f"), foreign).unwrap();
            }
        });
        assert_eq!(planned, [Status::WouldChange, Status::WouldChange, Status::Unknown]);
        assert_eq!(done[2], expected, "{brought} {foreign:?}");
        assert_eq!(fs::read_to_string(scene.path("f")).unwrap(), foreign.unwrap_or("b\n"));
    }
}

#[test]
fn creation_after_a_package_purges_no_directory_of_another_program() {
    let foreign = |root: &Path| {
        fs::create_dir(root.join("f")).unwrap();
        fs::write(root.join("f/data"), "foreign\n").unwrap();
    };
    let purged = [("ensure", "directory".into()), ("recurse", true.into()), ("purge", true.into())];
    let (scene, done) = scene_after_foreign_change("g", &purged, foreign);
    assert_eq!(done, (Status::Failed, Some(Deviation::Stale)));
    assert_eq!(fs::read_to_string(scene.path("f/data")).unwrap(), "foreign\n");
    // The package brings an entry of the directory.
    let (scene, done) = scene_after_foreign_change("f/g", &purged, foreign);
    assert_eq!(done, (Status::Failed, Some(Deviation::Stale)));
    assert!(fs::exists(scene.path("f/data")).unwrap() && fs::exists(scene.path("f/g")).unwrap());
}

#[test]
fn creation_after_a_package_is_stale_if_its_source_has_moved() {
    for brought in ["g", "f"] {
        let exchange = |root: &Path| fs::write(root.join("source/s"), "exchanged\n").unwrap();
        let (scene, done) = scene_after_foreign_change(brought, &[("source", "@/source/s".into())], exchange);
        assert_eq!(done, (Status::Failed, Some(Deviation::Stale)), "{brought}");
        assert_ne!(fs::read_to_string(scene.path("f")).unwrap_or_default(), "exchanged\n");
    }
}

#[test]
fn plan_of_reader_of_a_file_that_a_package_may_bring_is_unknown() {
    let mut scene = Scene::new([]);
    scene.registry = Registry::new([
        Packages::bringing(&scene.path("f"), "default\n") as Arc<dyn Provider>,
        Arc::new(FileProvider::new()),
    ])
    .unwrap();
    let package = scene.declare("package", "pack", &[("ensure", "present".into())]);
    let file = scene.declare("file", "@/f", &[("ensure", "file".into()), ("mode", "0600".into())]);
    let copy = scene.declare("file", "@/copy", &[("source", "@/f".into())]);
    scene.order(package, file);
    scene.order(file, copy);
    let (planned, done) = scene.run_after(true, |_| ());
    assert_eq!(planned, [Status::WouldChange, Status::WouldChange, Status::Unknown]);
    assert_eq!(done[2], (Status::Changed, Some(Deviation::Unknown)));
    assert_eq!(fs::read_to_string(scene.path("copy")).unwrap(), "default\n");
}

#[test]
fn plan_of_new_user_after_a_package_is_unknown_and_so_is_its_file() {
    for comes_after in [true, false] {
        let packages: Arc<dyn Provider> = Packages::bringing("/nonexistent/file", "");
        let (_accounts, mut scene, user) = new_user_with_home([packages]);
        scene.write("f", "");
        let package = scene.declare("package", "pack", &[("ensure", "present".into())]);
        let file = scene.declare("file", "@/f", &[("owner", "eve".into())]);
        if comes_after {
            scene.order(package, user);
        }
        scene.order(user, file);
        let (planned, _) = scene.run(false);
        let of_user = if comes_after { Status::Unknown } else { Status::WouldChange };
        assert_eq!(planned[user as usize], of_user);
        assert_eq!((planned[package as usize], planned[file as usize]), (Status::WouldChange, of_user));
    }
}

#[test]
fn plan_of_reader_of_a_pending_package_is_unknown_in_any_order() {
    for reader_first in [true, false] {
        let mut scene = Scene::new([]);
        scene.write("f", "old\n");
        scene.registry = Registry::new([
            Packages::bringing(&scene.path("f"), "new\n") as Arc<dyn Provider>,
            Arc::new(FileProvider::new()),
        ])
        .unwrap();
        let mut declare = |is_reader: bool| match is_reader {
            true => scene.declare("file", "@/copy", &[("source", "@/f".into())]),
            false => scene.declare("package", "pack", &[("ensure", "present".into())]),
        };
        let (first, second) = (declare(reader_first), declare(!reader_first));
        let reader = if reader_first { first } else { second };
        assert_eq!(scene.run(false).0[reader as usize], Status::Unknown, "{reader_first}");
    }
}
