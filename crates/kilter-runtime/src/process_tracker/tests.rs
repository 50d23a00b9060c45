use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use kilter_model::{ResourceRef, SourceId, Span};

use super::table::SETTLE_TIME;
use super::*;

/// Shell that carries out commands and that is no descendant of this process. It runs until it is dropped.
struct Stranger {
    orders: ChildStdin,
    done: BufReader<ChildStdout>,
    pid: u32,
}

impl Stranger {
    fn begin() -> Stranger {
        let script = "exec 3<&0; (sh -c 'echo $PPID'; while read -r order <&3; do eval \"$order\"; echo done; done) &";
        let pipes = Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut shell = pipes.unwrap();
        let (orders, done) = (shell.stdin.take().unwrap(), BufReader::new(shell.stdout.take().unwrap()));
        shell.wait().unwrap();
        let mut stranger = Stranger { orders, done, pid: 0 };
        stranger.pid = stranger.line().parse().unwrap();
        stranger
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.done.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// Carries out a command, and returns when that is done.
    fn run(&mut self, order: &str) {
        writeln!(self.orders, "{order}").unwrap();
        assert_eq!(self.line(), "done");
    }

    fn append(&mut self, file: &Path) {
        self.run(&format!("echo x >> {}", file.display()));
    }
}

/// Tracker of some paths, whose resources have the numbers of their places.
struct Tracked {
    tracker: ProcessTracker,
    resources: Vec<Arc<Resource>>,
}

impl Tracked {
    fn of(paths: &[&Path]) -> Tracked {
        let resources: Vec<Arc<Resource>> =
            paths.iter().map(|path| Arc::new(resource(path.to_str().unwrap()))).collect();
        let mut tracker = ProcessTracker::default();
        for (at, resource) in resources.iter().enumerate() {
            let watch = WatchSource::Path { path: resource.name.as_str().into(), scope: Scope::This };
            tracker.hold(vertex(at), resource, &[watch]);
        }
        tracker.begin();
        let is_running = tracker.group.as_ref().is_some_and(Result::is_ok);
        assert!(is_running, "run this test as root with CAP_SYS_ADMIN");
        Tracked { tracker, resources }
    }

    fn recorded(&self, at: usize) -> Option<Arc<RecordedProcess>> {
        self.tracker.changed_by(vertex(at), &self.resources[at])
    }

    fn pid(&self, at: usize) -> Option<u32> {
        self.recorded(at)?.process().map(|process| process.pid)
    }

    /// Returns the process with its details.
    fn process(&self, at: usize) -> Option<ChangingProcess> {
        let recorded = self.recorded(at)?;
        until("details", || self.tracker.process(&recorded).is_none() || recorded.process.get().is_some());
        recorded.process()
    }

    fn settle(&self, at: usize, is_drift: bool) {
        self.tracker.settled(vertex(at), &self.resources[at], is_drift, is_drift);
    }

    /// Lets a process change a file until the directory is marked.
    fn mark(&self, at: usize, stranger: &mut Stranger) {
        until("the mark", || {
            stranger.append(Path::new(self.resources[at].name.as_str()));
            self.pid(at) == Some(stranger.pid)
        });
    }
}

/// Returns a resource with this name. One of a directory declares so.
fn resource(name: &str) -> Resource {
    let mut resource = Resource::new(ResourceRef::new("file", name), name, Span::new(SourceId(0), 0, 0));
    resource.attributes.push("ensure", if Path::new(name).is_dir() { "directory" } else { "present" });
    resource
}

fn vertex(at: usize) -> ResourceId {
    ResourceId::first(at as u32)
}

fn until(what: &str, mut is_reached: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_reached() {
        assert!(begun.elapsed().as_secs() < 60, "{what}");
        thread::yield_now();
    }
}

#[test]
fn source_and_listed_inputs_are_not_the_own_path() {
    let path = |path: &str, scope| WatchSource::Path { path: path.into(), scope };
    let file = [path("/etc/f", Scope::This), path("/srv/source", Scope::This), path("/srv/parts", Scope::Entries)];
    let kind = |name: &str, watches: &[WatchSource]| HeldPath::of(&resource(name), watches).map(|held| held.kind);
    assert_eq!(kind("/etc/f", &file), Some(PathKind::File));
    assert_eq!(kind("/srv/d", &[path("/srv/d", Scope::Tree)]), Some(PathKind::Tree));
    for name in ["/srv/parts", "/etc/g", "etc/f", "f"] {
        assert_eq!(kind(name, &file), None, "{name}");
    }
    let mut line = resource("a line");
    line.attributes.push("path", "/etc/f");
    assert_eq!(HeldPath::of(&line, &file), Some(HeldPath { kind: PathKind::File, source: PathSource::Path }));
}

#[test]
fn last_process_is_kept_for_each_of_two_files_with_one_name() {
    let place = tempfile::tempdir().unwrap();
    let [d, e] = ["d", "e"].map(|name| place.path().join(name));
    std::fs::create_dir(&d).and_then(|()| std::fs::create_dir(&e)).unwrap();
    let tracked = Tracked::of(&[&d.join("f"), &e.join("f")]);
    let (mut one, mut other) = (Stranger::begin(), Stranger::begin());
    tracked.mark(0, &mut one);
    assert_eq!(tracked.pid(1), None);
    tracked.mark(1, &mut other);
    other.append(&d.join("other"));
    assert_eq!((tracked.pid(0), tracked.pid(1)), (Some(one.pid), Some(other.pid)));
    other.append(&d.join("f"));
    assert_eq!(tracked.pid(0), Some(other.pid));
    let process = tracked.process(0).unwrap();
    let details = process.details.as_ref().unwrap();
    assert!(process.is_foreign() && details.program == "sh" && details.command[0] == "sh", "{process:?}");
}

#[test]
fn rename_and_removal_name_their_process() {
    let place = tempfile::tempdir().unwrap();
    let (file, next) = (place.path().join("f"), place.path().join("next"));
    let tracked = Tracked::of(&[&file]);
    let (mut one, mut other) = (Stranger::begin(), Stranger::begin());
    tracked.mark(0, &mut one);
    let short_lived = |order: String, stranger: &mut Stranger| {
        let before = tracked.pid(0);
        stranger.run(&order);
        assert_ne!(tracked.pid(0), before, "{order}");
    };
    one.append(&next);
    short_lived(format!("mv {} {}", next.display(), file.display()), &mut other);
    one.append(&file);
    assert_eq!(tracked.pid(0), Some(one.pid));
    short_lived(format!("chmod 600 {}", file.display()), &mut other);
    short_lived(format!("rm {}", file.display()), &mut one);
}

#[test]
fn process_is_forgotten_after_a_check_without_a_difference() {
    let place = tempfile::tempdir().unwrap();
    let tracked = Tracked::of(&[&place.path().join("f")]);
    let mut stranger = Stranger::begin();
    tracked.mark(0, &mut stranger);
    let begun = Instant::now();
    tracked.settle(0, false);
    let pid = tracked.pid(0);
    // The event of the hub may come after the check. A busy machine may be late.
    assert!(pid == Some(stranger.pid) || begun.elapsed() >= SETTLE_TIME, "{pid:?}");
    until("the end of the time", || tracked.pid(0).is_none());
    tracked.mark(0, &mut stranger);
}

#[test]
fn moved_directory_is_no_longer_that_of_the_file() {
    let place = tempfile::tempdir().unwrap();
    let (directory, moved) = (place.path().join("d"), place.path().join("moved"));
    let file = directory.join("f");
    std::fs::create_dir(&directory).unwrap();
    let tracked = Tracked::of(&[&file]);
    let (mut one, mut other) = (Stranger::begin(), Stranger::begin());
    tracked.mark(0, &mut one);
    std::fs::rename(&directory, &moved).unwrap();
    std::fs::create_dir(&directory).unwrap();
    other.append(&moved.join("f"));
    assert_eq!(tracked.process(0), None);
    // The repair of the drift marks the next directory.
    tracked.settle(0, true);
    tracked.mark(0, &mut other);
    until("the end of the mark", || {
        one.append(&moved.join("f"));
        tracked.process(0).is_some_and(|process| process.pid == other.pid)
    });
}

#[test]
fn process_that_moves_a_directory_has_changed_its_files() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("d");
    let file = directory.join("f");
    std::fs::create_dir(&directory).unwrap();
    let tracked = Tracked::of(&[&directory, &file]);
    let (mut one, mut other) = (Stranger::begin(), Stranger::begin());
    tracked.mark(1, &mut one);
    // The change of a directory itself is reported in another way than that of a file.
    one.run(&format!("chmod 700 {}", directory.display()));
    let chmod = tracked.pid(0);
    assert!(chmod.is_some_and(|pid| pid != one.pid));
    other.run(&format!("mv {} {}", directory.display(), place.path().join("moved").display()));
    assert!(tracked.pid(0).is_some_and(|pid| Some(pid) != chmod));
    tracked.settle(1, false);
    until("the process of the directory above", || tracked.pid(1) == tracked.pid(0));
    // Another directory with this name is marked at once.
    std::fs::create_dir(&directory).unwrap();
    tracked.mark(1, &mut other);
}

#[test]
fn children_are_named_as_own_processes() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("f");
    let tracked = Tracked::of(&[&file]);
    let mut stranger = Stranger::begin();
    tracked.mark(0, &mut stranger);
    let mut child = Command::new("sh");
    child.args(["-c", "echo x >> \"$0\"; read -r _"]).arg(&file);
    let mut child = child.stdin(Stdio::piped()).spawn().unwrap();
    until("the child", || tracked.pid(0) == Some(child.id()));
    assert_eq!(tracked.process(0).map(|process| process.is_own), Some(Some(true)));
    std::fs::write(&file, "by this process").unwrap();
    assert_eq!(tracked.pid(0), Some(child.id()));
    drop(child.stdin.take());
    child.wait().unwrap();
}

#[test]
fn released_path_has_no_process() {
    let place = tempfile::tempdir().unwrap();
    let [f, g] = ["f", "g"].map(|name| place.path().join(name));
    let mut tracked = Tracked::of(&[&f, &g]);
    let mut stranger = Stranger::begin();
    tracked.mark(0, &mut stranger);
    tracked.tracker.release(ResourceId::first(0), &tracked.resources[0]);
    tracked.tracker.begin();
    stranger.append(&f);
    assert_eq!(tracked.pid(0), None);
    tracked.mark(1, &mut stranger);
}

#[test]
fn process_is_unknown_after_the_kernel_has_dropped_events() {
    let place = tempfile::tempdir().unwrap();
    let mut tracked = Tracked::of(&[&place.path().join("f")]);
    let mut stranger = Stranger::begin();
    tracked.mark(0, &mut stranger);
    let limit = std::fs::read_to_string("/proc/sys/fs/fanotify/max_queued_events").unwrap();
    let shared = Arc::clone(&tracked.tracker.thread().unwrap().shared);
    let table = shared.table();
    let others = place.path().join("other");
    // Nobody reads the events meanwhile. Each file has an event of its own.
    stranger.run(&format!("i=0; while [ $i -le {} ]; do : > {}$i; i=$((i + 1)); done", limit.trim(), others.display()));
    drop(table);
    until("the loss", || tracked.pid(0).is_none());
    let news = tracked.tracker.news_of_unknown(vertex(0), &tracked.resources[0]);
    assert_eq!(news.as_deref(), Some("the kernel has dropped events"));
    tracked.mark(0, &mut stranger);
}

#[test]
fn reason_of_an_unknown_process_is_reported_once() {
    let held = HeldPath { kind: PathKind::File, source: PathSource::Name };
    let mut tracker = ProcessTracker { held: vec![Some(held)], ..ProcessTracker::default() };
    tracker.group = Some(Err("no right".into()));
    let mut news = || tracker.news_of_unknown(ResourceId::first(0), &resource("/etc/f"));
    assert_eq!((news(), news()), (Some("no right".into()), None));
}
