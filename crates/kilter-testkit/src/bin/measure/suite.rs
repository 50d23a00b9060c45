//! All measurements.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::loopback_fs::LoopbackFs;
use super::run::{Cost, MeasureSetup, best, calls, once};
use super::table::CostTable;
use super::{baseline, floods, held, outside, peer, scripts, workload};

type Measure = fn(&MeasureSetup, &mut CostTable);

/// Name, flag for measurements that the tests run, and function.
pub(crate) const ALL: &[(&str, bool, Measure)] = &[
    ("start", false, start),
    ("get", false, get),
    ("files", false, files),
    ("tampered", false, tampered),
    ("mixed", false, mixed),
    ("first-apply", false, first_apply),
    ("guards", false, guards),
    ("accounts", false, accounts),
    ("chain", false, chain),
    ("linear", false, linear),
    ("scripts", false, scripts::scripts),
    ("held", false, held::held),
    ("idle", false, held::idle),
    ("repair", false, held::repaired),
    ("storm", false, outside::million),
    ("edits", false, outside::thousand),
    ("calls", true, system_calls),
    ("memory", true, memory),
    ("floods", true, floods::floods),
];

fn applied(bench: &MeasureSetup, name: &str, make: impl Fn(&Path) -> PathBuf) -> (PathBuf, PathBuf) {
    let directory = bench.directory(name);
    let manifest = make(&directory);
    once(bench.apply(&manifest, &["--no-flush"]));
    (directory, manifest)
}

fn unchanged(bench: &MeasureSetup, manifest: &Path) -> Cost {
    best(9, || bench.apply(manifest, &[]))
}

fn start(bench: &MeasureSetup, table: &mut CostTable) {
    table.limit("empty manifest, CPU", empty(bench).cpu, "ms", 4.0);
}

fn empty(bench: &MeasureSetup) -> Cost {
    let manifest = bench.directory("empty").join("empty.yaml");
    std::fs::write(&manifest, "resources: {}\n").expect("there is room");
    best(30, || bench.apply(&manifest, &[]))
}

fn get(bench: &MeasureSetup, table: &mut CostTable) {
    let cost = best(20, || bench.kilter(&["get", "user", "root"]));
    table.limit("`kilter get user root`, CPU", cost.cpu, "ms", 8.0);
}

fn files(bench: &MeasureSetup, table: &mut CostTable) {
    for count in [1000, 5000] {
        let (directory, manifest) = applied(bench, "files", |directory| workload::files(directory, count, false));
        let cost = unchanged(bench, &manifest);
        let bare = baseline::cost(9, "check", || directory.clone(), count);
        let what = format!("{count} files, nothing to change, CPU");
        table.ratio(&what, cost.cpu, bare.cpu, "ms", "floor", 3.0);
        if count == 5000 {
            cfengine(bench, table, &what, cost, count);
        }
    }
}

fn cfengine(bench: &MeasureSetup, table: &mut CostTable, what: &str, cost: Cost, count: usize) {
    let directory = bench.directory("cfengine");
    let policy = workload::cfengine(&directory, count);
    if peer::cfengine(&policy).is_none() {
        return eprintln!("CFEngine is not installed: apt-get install cfengine3");
    }
    let run = || peer::cfengine(&policy).expect("it was found before");
    once(run());
    let peer = best(2, run);
    table.ratio(what, cost.cpu, peer.cpu, "ms", "CFEngine", 0.1);
}

fn tampered(bench: &MeasureSetup, table: &mut CostTable) {
    let count = 1000;
    let (directory, manifest) = applied(bench, "tampered", |directory| workload::files(directory, count, false));
    let intact = unchanged(bench, &manifest);
    let cost = best(7, || {
        for n in (0..count).step_by(100) {
            std::fs::write(directory.join(format!("f{n:05}")), "tampered").expect("the file is there");
        }
        bench.apply(&manifest, &["--no-flush"])
    });
    table.ratio("1000 files, 1 % tampered, CPU", cost.cpu, intact.cpu, "ms", "unchanged", 1.7);
}

fn mixed(bench: &MeasureSetup, table: &mut CostTable) {
    let (_, files) = applied(bench, "plain", |directory| workload::files(directory, 1000, false));
    let (_, manifest) = applied(bench, "mixed", |directory| workload::mixed(directory, 1000));
    let (files, mixed) = (unchanged(bench, &files), unchanged(bench, &manifest));
    table.ratio("1000 files, directories and links, CPU", mixed.cpu, files.cpu, "ms", "files", 1.2);
}

/// Measures the first apply. Floor and kilter run alternately, on a fresh file system if mounting is allowed.
fn first_apply(bench: &MeasureSetup, table: &mut CostTable) {
    let count = 5000;
    let fresh = LoopbackFs::new(bench.scratch());
    let place = fresh.as_ref().map_or(bench.scratch(), LoopbackFs::path);
    let run = |more: &[&str]| {
        let directory = MeasureSetup::directory_in(place, "first");
        let manifest = workload::files(&directory, count, false);
        // A flush also writes the data of other programs, so flush before the measurement.
        once(Command::new("sync"));
        let mut apply = bench.apply(&manifest, more);
        // The first apply of a machine has no history yet.
        apply.env("KILTER_STATE_DIR", manifest.with_extension("state"));
        once(apply)
    };
    let floor = |what| {
        once(Command::new("sync"));
        baseline::cost(1, what, || MeasureSetup::directory_in(place, "bare"), count)
    };
    let turn = |_| [floor("write"), floor("write durably"), run(&["--no-flush"]), run(&[])];
    let turns: Vec<[Cost; 4]> = (0..7).map(turn).collect();
    let [bare, flushed, quick, durable] = [0, 1, 2, 3].map(|at| super::run::least(turns.iter().map(|turn| turn[at])));
    let on = if fresh.is_some() { "a fresh ext4" } else { "the file system of the scratch directory" };
    table.ratio(&format!("{count} files, first apply on {on}, CPU"), quick.cpu, bare.cpu, "ms", "floor", 1.5);
    let what = format!("{count} files, first apply on {on}, durable, wall");
    table.ratio(&what, durable.wall, flushed.wall, "ms", "floor with one `syncfs`", 1.5);
    table.ratio(&what, durable.wall, quick.wall, "ms", "not durable", 1.6);
}

fn guards(bench: &MeasureSetup, table: &mut CostTable) {
    let count = 500;
    let directory = bench.directory("guards");
    let manifest = workload::guarded(&directory, count, "onlyif: [[/usr/bin/test, \"!\", -e, /etc/passwd]]");
    let cost = best(5, || bench.apply(&manifest, &[]));
    let bare = baseline::cost(5, "spawn", || directory.clone(), count);
    table.ratio("500 spawned guards, CPU", cost.cpu, bare.cpu, "ms", "floor", 1.3);
    table.ratio("500 spawned guards, wall", cost.wall, bare.wall, "ms", "floor", 1.0);
    let directory = bench.directory("creates");
    let manifest = workload::guarded(&directory, count, "creates: /etc/passwd");
    let cost = best(9, || bench.apply(&manifest, &[]));
    table.ratio("500 in-process guards, CPU", cost.cpu, bare.cpu, "ms", "floor of spawned guards", 0.03);
}

fn accounts(bench: &MeasureSetup, table: &mut CostTable) {
    let directory = bench.directory("accounts");
    let manifest = directory.join("accounts.yaml");
    let mut text = String::new();
    for kind in ["user", "group"] {
        let export = bench.kilter(&["get", kind, "--format", "yaml"]).output().expect("kilter runs");
        assert!(export.status.success(), "kilter get {kind} failed");
        let export = String::from_utf8(export.stdout).expect("YAML is text");
        let path = directory.join(format!("{kind}.yaml"));
        std::fs::write(&path, export).expect("there is room");
        text.push_str(&format!("  - {}\n", path.display()));
    }
    std::fs::write(&manifest, format!("include:\n{text}")).expect("there is room");
    table.limit("all users and groups, nothing to change, CPU", unchanged(bench, &manifest).cpu, "ms", 8.0);
}

fn chain(bench: &MeasureSetup, table: &mut CostTable) {
    // The same files, so that only the relations differ.
    let (directory, apart) = applied(bench, "apart", |directory| workload::files(directory, 1000, false));
    let kept = directory.join("apart.yaml");
    std::fs::rename(&apart, &kept).expect("both are in one directory");
    let (apart, chain) = (kept, workload::files(&directory, 1000, true));
    let (mut one, mut other) = (unchanged(bench, &apart), unchanged(bench, &chain));
    // The limit of a tenth is below the variation of two single runs.
    for _ in 0..15 {
        one = super::run::least([one, unchanged(bench, &apart)].into_iter());
        other = super::run::least([other, unchanged(bench, &chain)].into_iter());
    }
    table.ratio("chain of 1000 files, CPU", other.cpu, one.cpu, "ms", "independent", 1.2);
}

fn linear(bench: &MeasureSetup, table: &mut CostTable) {
    let cost = |count: usize| {
        let (_, manifest) = applied(bench, "linear", |directory| workload::files(directory, count, false));
        best(3, || bench.apply(&manifest, &[])).cpu * 1e3 / count as f64
    };
    let (thousand, many) = (cost(1000), cost(100_000));
    table.ratio("100,000 files, CPU a file", many, thousand, "µs", "of 1,000", 1.5);
}

fn system_calls(bench: &MeasureSetup, table: &mut CostTable) {
    let count = |files: usize| {
        let (_, manifest) = applied(bench, "calls", |directory| workload::files(directory, files, false));
        calls(bench, &bench.apply(&manifest, &[]))
    };
    let ((few, few_started), (many, many_started)) = (count(100), count(1100));
    table.limit("system calls a file, nothing to change", (many - few) / 1000.0, "calls", 5.0);
    table.limit("processes a file, nothing to change", (many_started - few_started) / 1000.0, "processes", 0.0);
    let guards = |count: usize| {
        // The first run of a manifest writes its record.
        let guarded = |directory: &Path| workload::guarded(directory, count, "creates: /etc/passwd");
        let (_, manifest) = applied(bench, "guard-calls", guarded);
        calls(bench, &bench.apply(&manifest, &[]))
    };
    let ((few, few_started), (many, many_started)) = (guards(100), guards(1100));
    table.limit("system calls an in-process guard", (many - few) / 1000.0, "calls", 1.1);
    table.limit("processes an in-process guard", (many_started - few_started) / 1000.0, "processes", 0.0);
}

fn memory(bench: &MeasureSetup, table: &mut CostTable) {
    let peak = |count: usize| {
        let (_, manifest) = applied(bench, "memory", |directory| workload::files(directory, count, false));
        best(3, || bench.apply(&manifest, &[])).memory
    };
    // Most of it is pages of the program file. A new order of its functions (`cargo xtask dist --order`) makes up for
    // code that a change added to each run (docs/performance.md).
    table.limit("empty manifest, memory", empty(bench).memory / 1024.0, "MB", 7.5);
    for count in [1000, 11_000] {
        let allowed = 7.5 + 1.1 * count as f64 / 1000.0;
        table.limit(&format!("memory of {count} files, nothing to change"), peak(count) / 1024.0, "MB", allowed);
    }
}
