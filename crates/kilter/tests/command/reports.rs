//! Reports in files: `--report` (docs/reference/reports.md).

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::Value;

use crate::support::{Ended, Place, is_root};

/// A manifest whose run has every result: changed, failed, skipped, not checked, unchanged, left out.
const EVERY: &str = "resources:
  file[DIR/changed]: { content: \"one\\n<two>\\n\" }
  file[DIR/same]: { content: \"same\\n\" }
  exec[fails]: { command: \"echo '<b>&' >&2; exit 3\", shell: true }
  exec[after]: { command: \"true\", require: \"exec[fails]\" }
  file[DIR/hidden]: { content: x, meta: { hidden: true } }
  file[DIR/left]: { content: ours, meta: { policy: warn } }
  file[DIR/out]: { content: x, when: false }
";

struct Reported {
    place: Place,
}

impl Reported {
    fn new(manifest: &str) -> Reported {
        let place = Place::new();
        let manifest = manifest.replace("DIR", &place.path().display().to_string());
        place.file("m.yaml", manifest);
        place.file("same", "same\n");
        place.file("changed", "one\n");
        place.file("left", "theirs");
        Reported { place }
    }

    #[track_caller]
    fn ends(&self, code: i32, args: &[&str]) -> Ended {
        let ended = self.place.run(args);
        assert_eq!(ended.code, code, "{args:?} {ended:?}");
        ended
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    #[track_caller]
    fn read(&self, name: &str) -> String {
        let text = fs::read_to_string(self.path(name)).unwrap();
        text.replace(&self.place.path().display().to_string(), "DIR")
    }

    fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.read(name)).unwrap()
    }

    fn mode(&self, name: &str) -> u32 {
        fs::metadata(self.path(name)).unwrap().permissions().mode() & 0o7777
    }
}

#[test]
fn every_format_has_the_results_of_the_run() {
    let reported = Reported::new(EVERY);
    let args = ["apply", "m.yaml", "--report", "r.json", "--report", "r.xml", "--report", "r.html"];
    let ended = reported.ends(4, &args);
    let counts = "6 resources: 1 changed, 1 left out of sync, 1 failed, 1 skipped, 1 not checked, 1 unchanged, 1 left \
                  out by `when`";
    assert!(ended.stdout.contains(counts), "{ended:?}");

    let json = reported.json("r.json");
    assert_eq!((json["counts"]["not_checked"].clone(), json["counts"]["in_sync"].clone()), (1.into(), 1.into()));
    assert_eq!((json["run"]["command"].clone(), json["noop"].clone()), ("apply".into(), false.into()));
    assert_eq!(json["counts"]["corrected"], 0);

    let junit = reported.read("r.xml");
    assert!(junit.contains("tests=\"6\" failures=\"1\" errors=\"0\" skipped=\"3\""), "{junit}");
    assert_eq!(junit.matches("<testcase ").count(), 6, "{junit}");
    for part in [
        "classname=\"file\" name=\"DIR/same\" time=\"0.000\"/>",
        "<failure message=\"`echo &#39;&lt;b&gt;&amp;&#39; &gt;&amp;2; exit 3` returned 3 instead of 0:\" \
         type=\"failed\">",
        "<skipped message=\"skipped because of exec[fails]\"/>",
        "<skipped message=\"not checked: hidden\"/>",
        "<skipped message=\"it would be changed, and is only checked\"/>",
        "+&lt;two&gt;",
    ] {
        assert!(junit.contains(part), "{part}: {junit}");
    }

    let html = reported.read("r.html");
    for part in
        ["<b>1</b> not checked", "+&lt;two&gt;", "echo &#39;&lt;b&gt;&amp;&#39;", "<svg ", "<li>file[DIR/same]</li>"]
    {
        assert!(html.contains(part), "{part}: {html}");
    }
    for part in ["<script", "http://", "https://", "url(", "<b>&", "@import"] {
        assert!(!html.contains(part), "{part}: {html}");
    }
    assert_eq!(["r.json", "r.xml", "r.html"].map(|name| reported.mode(name)), [0o600; 3]);
}

#[test]
fn each_command_with_a_run_writes_reports() {
    let reported = Reported::new("resources:\n  file[DIR/changed]: { content: two }\n");
    let file = reported.path("changed").display().to_string();
    reported.ends(2, &["plan", "m.yaml", "--report", "plan.json", "--report", "plan.html"]);
    assert_eq!(reported.json("plan.json")["counts"]["would_change"], 1);
    let html = reported.read("plan.html");
    assert!(html.contains("Changes are pending") && html.contains("A difference is drift, or follows from"), "{html}");
    reported.ends(2, &["apply", "m.yaml", "--noop", "--report", "noop.json"]);
    assert_eq!(reported.json("noop.json")["noop"], true);
    reported.ends(0, &["set", "file", &file, "mode=0600", "--report", "set.json"]);
    assert_eq!(reported.json("set.json")["counts"]["changed"], 1);
    // There is no declaration before.
    assert!(reported.json("set.json")["counts"].get("corrected").is_none());
    let until = ["--converged-exit", "--converged-timeout", "0"];
    for (format, name) in [("human", "run.json"), ("json", "run2.json")] {
        fs::write(&file, "drifted").unwrap();
        let args =
            [&["run", "m.yaml", "--format", format, "--report", name, "--report", "run.xml"], &until[..]].concat();
        reported.ends(0, &args);
        assert_eq!(
            (&reported.json(name)["counts"]["in_sync"], &reported.json(name)["run"]["command"]),
            (&1.into(), &"run".into())
        );
        assert_eq!(fs::read_to_string(&file).unwrap(), "two");
        assert!(reported.read("run.xml").contains("<testcase classname=\"file\" name=\"DIR/changed\""));
    }
}

#[test]
fn report_of_a_plan_has_the_plan_of_each_deviation() {
    let reported = Reported::new("resources:\n  file[DIR/changed]: { content: two }\n");
    reported.ends(2, &["plan", "m.yaml", "-o", "m.plan", "--report", "plan.xml"]);
    reported.place.file("changed", "edited since");
    reported.ends(4, &["apply", "m.plan", "--report", "r.json"]);
    assert_eq!(reported.json("r.json")["resources"][0]["plan"], "stale");
}

#[test]
fn existing_report_is_replaced_and_keeps_its_mode() {
    let reported = Reported::new("resources: {}\n");
    reported.place.file("r.json", "old");
    fs::set_permissions(reported.path("r.json"), Permissions::from_mode(0o644)).unwrap();
    reported.ends(0, &["apply", "m.yaml", "--report", "r.json"]);
    assert_eq!((reported.mode("r.json"), reported.json("r.json")["counts"]["total"].clone()), (0o644, 0.into()));
    let left: Vec<_> = fs::read_dir(reported.place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().ends_with(".new")), "{left:?}");
}

#[test]
fn unusable_report_is_refused_before_a_change() {
    let reported = Reported::new("resources:\n  file[DIR/changed]: { content: two }\n");
    fs::create_dir(reported.path("directory.json")).unwrap();
    reported.place.file("site.json", "{\"resources\": {\"file[DIR/changed]\": {\"content\": \"two\"}}}");
    for (args, why) in [
        (&["apply", "m.yaml", "--report", "r.txt"][..], "no report has the format of r.txt"),
        (&["apply", "m.yaml", "--report", "report"], "no report has the format of report"),
        (&["apply", "m.yaml", "--report", "missing/r.json"], "cannot write the report missing/r.json: No such file"),
        (
            &["apply", "m.yaml", "--report", "directory.json"],
            "cannot write the report directory.json: it is a directory",
        ),
        (&["apply", "site.json", "--report", "site.json"], "the report would overwrite site.json"),
        (&["apply", "site.json", "--report", "./site.json"], "the report would overwrite site.json"),
        (&["plan", "m.yaml", "-o", "p.json", "--report", "p.json"], "the report would overwrite p.json"),
        (&["run", "m.yaml", "--report", "r.txt"], "no report has the format of r.txt"),
    ] {
        let ended = reported.ends(1, args);
        assert!(ended.stderr.contains(why) && ended.stdout.is_empty(), "{args:?} {ended:?}");
        assert_eq!(reported.read("changed"), "one\n", "{args:?}");
    }
}

#[test]
fn directory_without_write_permission_is_refused_before_a_change() {
    let reported = Reported::new("resources:\n  file[DIR/changed]: { content: two }\n");
    fs::create_dir(reported.path("closed")).unwrap();
    fs::set_permissions(reported.path("closed"), Permissions::from_mode(0o555)).unwrap();
    let ended = reported.place.run_unprivileged(&["apply", "m.yaml", "--report", "closed/r.json"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.stderr.contains("cannot write the report closed/r.json: Permission denied"), "{ended:?}");
    assert_eq!(reported.read("changed"), "one\n");
}

#[test]
fn report_that_cannot_be_written_at_the_end_is_a_failure() {
    let manifest = "resources:\n  exec[away]: { command: [rmdir, DIR/out], onlyif: [[test, -d, DIR/out]] }\n";
    let reported = Reported::new(manifest);
    fs::create_dir(reported.path("out")).unwrap();
    let args = ["apply", "m.yaml", "--report", "out/r.json", "--report", "r.xml"];
    let ended = reported.ends(4, &args);
    assert!(ended.stdout.contains("1 changed"), "{ended:?}");
    assert!(ended.stderr.contains("cannot write the report out/r.json: No such file"), "{ended:?}");
    // The other report is written.
    assert!(reported.read("r.xml").contains("tests=\"1\" failures=\"0\""));
}

#[test]
fn report_of_a_failed_run_keeps_its_exit_code() {
    let reported = Reported::new("resources:\n  exec[no]: { command: [/bin/false] }\n");
    reported.ends(4, &["apply", "m.yaml", "--report", "r.json"]);
    let args = ["apply", "m.yaml", "--detailed-exitcodes", "--report", "r.html"];
    reported.ends(4, &args);
    assert!(reported.read("r.html").contains("Something failed"));
}

#[test]
fn link_of_another_user_is_not_followed() {
    assert!(is_root(), "run this test as root: it makes a link of another user");
    let reported = Reported::new("resources: {}\n");
    reported.place.file("target.json", "kept");
    let link = reported.path("r.json");
    std::os::unix::fs::symlink(reported.path("target.json"), &link).unwrap();
    std::os::unix::fs::lchown(&link, Some(65534), Some(65534)).unwrap();
    let ended = reported.ends(1, &["apply", "m.yaml", "--report", "r.json"]);
    assert!(ended.stderr.contains("r.json is a symbolic link of the user with uid 65534"), "{ended:?}");
    assert_eq!(reported.read("target.json"), "kept");
}

#[test]
fn textfile_has_the_counts_of_the_run() {
    let reported = Reported::new(EVERY);
    reported.ends(4, &["apply", "m.yaml", "--textfile", "kilter.prom"]);
    let text = reported.read("kilter.prom");
    for line in [
        "kilter_last_run_info{command=\"apply\",version=\"0.1.0\"} 1",
        "kilter_last_run_success 0",
        "kilter_last_run_noop 0",
        "kilter_last_run_not_checked 1",
        "kilter_last_run_left_out 1",
        "kilter_last_run_resources{state=\"in_sync\"} 1",
        "kilter_last_run_resources{state=\"refreshed\"} 0",
        "kilter_last_run_resources_by_type{type=\"exec\",state=\"failed\"} 1",
        "kilter_last_run_resources_by_type{type=\"exec\",state=\"skipped\"} 1",
        "kilter_last_run_resources_by_type{type=\"file\",state=\"hidden\"} 1",
    ] {
        assert!(text.lines().any(|known| known == line), "{line} is not in\n{text}");
    }
    // Each family is described before its values, which are adjacent, and no line exists twice.
    let (mut families, mut lines) = (std::collections::BTreeSet::new(), std::collections::BTreeSet::new());
    let mut family = "";
    for line in text.lines() {
        assert!(lines.insert(line), "{line}");
        match line.strip_prefix("# HELP ") {
            Some(help) => {
                family = help.split(' ').next().unwrap();
                assert!(families.insert(family), "{line}");
            }
            None => assert_eq!(line.trim_start_matches("# TYPE ").split(['{', ' ']).next().unwrap(), family, "{line}"),
        }
    }
    let states = text.lines().filter(|line| line.starts_with("kilter_last_run_resources{"));
    let total: u32 = states.map(|line| line.rsplit_once(' ').unwrap().1.parse::<u32>().unwrap()).sum();
    assert_eq!((total, reported.mode("kilter.prom")), (6, 0o644));
    assert!(!text.contains("DIR"), "{text}");
    let ended = reported.ends(1, &["apply", "m.yaml", "--textfile", "kilter.txt"]);
    assert!(ended.stderr.contains("kilter.txt is no name for metrics"), "{ended:?}");
}

#[test]
fn corrected_resources_are_those_that_drifted() {
    let manifest = "resources:\n  file[DIR/changed]: { content: two }\n  file[DIR/same]: { content: other }\n";
    let reported = Reported::new(manifest);
    let args = ["apply", "m.yaml", "--report", "r.json", "--report", "r.html", "--textfile", "r.prom"];
    let first = reported.ends(0, &args);
    assert!(first.stdout.contains("2 resources: 2 changed ("), "{first:?}");
    assert_eq!(reported.json("r.json")["counts"]["corrected"], 0);
    assert!(reported.read("r.html").contains("No resource drifts."));
    // One resource drifts, and the declaration of the other one is edited.
    reported.place.file("changed", "drifted");
    let manifest = manifest.replace("other", "edited").replace("DIR", &reported.place.path().display().to_string());
    reported.place.file("m.yaml", manifest);
    let second = reported.ends(0, &args);
    assert!(second.stdout.contains("2 resources: 2 changed, 1 of them corrected ("), "{second:?}");
    let json = reported.json("r.json");
    assert_eq!(json["counts"]["corrected"], 1);
    let is_corrected = |at: usize| json["resources"][at].get("corrected").is_some();
    assert!(is_corrected(0) && !is_corrected(1), "{json:#}");
    assert!(reported.read("r.html").contains("file[DIR/changed]</a>: repaired: it had drifted"));
    assert!(reported.read("r.prom").contains("\nkilter_last_run_corrected 1\n"));
    // Without the history it is not known.
    reported.place.file("changed", "drifted");
    let without = reported.ends(0, &[&args[..], &["--without-history"]].concat());
    assert!(without.stdout.contains("2 resources: 1 changed, 1 unchanged ("), "{without:?}");
    assert!(reported.json("r.json")["counts"].get("corrected").is_none());
    assert!(!reported.read("r.prom").contains("corrected"));
}

#[test]
fn run_with_a_report_saves_the_state_before_its_changes() {
    let reported = Reported::new("resources:\n  file[DIR/changed]: { content: two }\n");
    reported.ends(0, &["apply", "m.yaml", "--report", "r.json"]);
    assert_eq!(reported.read("changed"), "two");
    reported.ends(0, &["undo", "last"]);
    assert_eq!(reported.read("changed"), "one\n");
}

#[test]
fn run_that_repairs_its_own_changes_again_corrects_them() {
    let reported = Reported::new("resources:\n  file[DIR/changed]: { content: two }\n  file[DIR/same]: {}\n");
    let path = reported.path("changed").display().to_string();
    let args = ["m.yaml", "--format", "json", "--report", "r.json", "--report", "r.html", "--max-runtime", "60"];
    let mut run = reported.place.command(&[&["run"], &args[..]].concat());
    let mut run = run.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut events = std::io::BufRead::lines(std::io::BufReader::new(run.stdout.take().unwrap()));
    let mut next = |name: &str| loop {
        let event: Value = serde_json::from_str(&events.next().unwrap().unwrap()).unwrap();
        if event["event"] == name {
            return event;
        }
    };
    assert_eq!(next("settled")["status"], "changed");
    next("quiet");
    // A write in place could be seen half done.
    reported.place.file("drifted", "drifted");
    fs::rename(reported.path("drifted"), &path).unwrap();
    assert_eq!(next("settled")["status"], "changed");
    next("quiet");
    let id = rustix::process::Pid::from_raw(run.id().cast_signed()).unwrap();
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    next("ended");
    assert_eq!(run.wait().unwrap().code(), Some(143));
    assert_eq!(reported.json("r.json")["counts"]["corrected"], 1);
    let html = reported.read("r.html");
    assert!(html.contains("file[DIR/changed]</a>: repaired: it had drifted"), "{html}");
    assert!(html.contains("2 changes meanwhile") && html.contains("-drifted"), "{html}");
}
