//! Resources of types that are made of others, in a run that holds a state.

use serde_json::{Value as Json, json};

use crate::run::{Running, content, manifest, wait};
use crate::status::status;
use crate::support::*;

/// `site[good]` is in its state; `site[f-1]`, a part of `farm[f]`, lacks a directory.
const SITES: &str = "types:
  site:
    attributes:
      root: {type: String, default: DIR/no}
    resources:
      \"file[DIR/${self.name}]\": {content: page}
      \"file[${self.root}/${self.name}.conf]\": {content: conf}
      \"file[DIR/${self.name}.after]\": {content: x, require: \"file[${self.root}/${self.name}.conf]\"}
  farm:
    resources:
      \"site[${self.name}-1]\": {}
      \"file[DIR/${self.name}]\": {content: farm}
  empty: {}
resources:
  file[DIR/alone]: {content: x}
  site[good]: {root: DIR}
  farm[f]: {}
  empty[e]: {}
  site[never]: {when: \"false\"}
";

fn begun(place: &Place) -> Running {
    let running = Running::begin(place, &[&manifest(place, SITES)]);
    wait("all", || {
        let counts = &status(place, &[])["counts"];
        (counts["in_sync"] == 6) && (counts["failed"] == 1) && (counts["skipped"] == 1) && (counts["under_way"] == 0)
    });
    running
}

/// The names in what `kilter status` says of resources, or of composites.
fn names(of: &Json) -> Vec<&str> {
    of.as_array().unwrap().iter().map(|one| one["resource"].as_str().unwrap()).collect()
}

#[test]
fn composite_status_is_worst_of_its_members() {
    let place = Place::new();
    let running = begun(&place);
    let good = status(&place, &["site[good]"]);
    let parts = ["file[DIR/good]", "file[DIR/good.conf]", "file[DIR/good.after]"];
    assert_eq!(
        good["composites"],
        json!([{"resource": "site[good]", "state": "in_sync", "counts": {"in_sync": 3}, "parts": parts}])
    );
    assert_eq!(names(&good["resources"]), parts);
    assert!(good["resources"].as_array().unwrap().iter().all(|one| one["owner"] == "site[good]"), "{good}");
    assert_eq!((&good["unknown"], &good["counts"]["total"]), (&json!([]), &8.into()));

    let farm = status(&place, &["farm[f]"]);
    let counts = json!({"failed": 1, "skipped": 1, "in_sync": 2});
    assert_eq!(farm["composites"][0]["counts"].to_string(), counts.to_string(), "the worst is told first");
    let within = ["file[DIR/f-1]", "file[DIR/no/f-1.conf]", "file[DIR/f-1.after]"];
    assert_eq!(
        farm["composites"],
        json!([
            {"resource": "farm[f]", "state": "failed", "counts": counts, "parts": ["site[f-1]", "file[DIR/f]"]},
            {"resource": "site[f-1]", "owner": "farm[f]", "state": "failed",
                "counts": {"failed": 1, "skipped": 1, "in_sync": 1}, "parts": within},
        ])
    );
    assert_eq!(names(&farm["resources"]), [&within[..], &["file[DIR/f]"]].concat());
    let owner = |at: usize| farm["resources"][at]["owner"].as_str();
    assert_eq!((owner(0), owner(3)), (Some("site[f-1]"), Some("farm[f]")));

    std::fs::create_dir(place.path().join("no")).unwrap();
    wait("what failed", || status(&place, &["farm[f]"])["composites"][0]["state"] == "in_sync");
    running.end();
}

#[test]
fn listed_resource_has_its_composites() {
    let place = Place::new();
    let running = begun(&place);
    let notable = status(&place, &[]);
    assert_eq!(names(&notable["composites"]), ["farm[f]", "site[f-1]"]);
    assert_eq!(names(&notable["resources"]), ["file[DIR/no/f-1.conf]", "file[DIR/f-1.after]"]);
    let all = status(&place, &["--all"]);
    assert_eq!(names(&all["composites"]), ["site[good]", "farm[f]", "site[f-1]", "empty[e]"]);
    assert_eq!((all["resources"].as_array().unwrap().len(), &all["resources"][0]["owner"]), (8, &Json::Null));
    assert_eq!(all["composites"][3], json!({"resource": "empty[e]", "state": "in_sync", "counts": {}, "parts": []}));
    // What is named twice, by itself and with what it is a part of, is told once.
    let twice = status(&place, &["file[DIR/f-1]", "site[f-1]", "farm[f]", "site[f-1]"]);
    assert_eq!(names(&twice["composites"]), ["farm[f]", "site[f-1]"]);
    assert_eq!(twice["resources"].as_array().unwrap().len(), 4);
    let part = status(&place, &["file[DIR/f-1]"]);
    assert_eq!((&part["composites"], &part["resources"][0]["owner"]), (&json!([]), &"site[f-1]".into()));
    running.end();
}

#[test]
fn composite_is_reported_before_its_members() {
    let place = Place::new();
    let running = begun(&place);
    let ended = place.run(&["status", "farm[f]", "empty[e]"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (4, ""));
    let (_, told) = ended.stdout.split_once('\n').unwrap();
    assert!(
        told.starts_with(
            "farm[f] failed: 1 failed, 1 skipped, 2 in sync\nsite[f-1] failed: 1 failed, 1 skipped, 1 in sync\n    \
             part of farm[f]\nempty[e] in sync: no parts\nfile[DIR/f-1] in sync\n    part of site[f-1]; watched; \
             changed once"
        ),
        "{told}"
    );
    // What there is not, and what is left out, is said, and all else is told.
    let ended = place.run(&["status", "site[good]", "site[bad]", "site[never]", "farm[good]"]);
    assert_eq!(ended.code, 1);
    for name in ["site[bad]", "site[never]", "farm[good]"] {
        assert!(ended.stderr.contains(&format!("{name} is not a resource of this run\n")), "{ended:?}");
    }
    assert!(ended.stdout.contains("\nsite[good] in sync: 3 in sync\n"), "{ended:?}");
    let metrics = place.run(&["status", "--format", "prometheus"]).stdout;
    assert!(
        !metrics.contains("type=\"site\"") && metrics.contains("{type=\"file\",state=\"failed\"} 1\n"),
        "{metrics}"
    );
    running.end();
}

#[test]
fn composite_status_includes_owners_of_its_parts() {
    let place = Place::new();
    let text = "types:\n  entry: {resources: {\"file_part[${self.name}]\": {path: DIR/no/list, content: \"x\"}}}\n  \
                both: {resources: {\"entry[${self.name}]\": {}, \"file[DIR/b]\": {content: b}}}\nresources:\n  \
                file[DIR/no/list]: {}\n  both[b]: {}\n  entry[e]: {}\n";
    let running = Running::begin(&place, &[&manifest(&place, text)]);
    wait("the failure", || status(&place, &[])["composites"][0]["state"] == "failed");
    assert_eq!(names(&status(&place, &[])["composites"]), ["both[b]", "entry[b]", "entry[e]"]);
    let both = status(&place, &["both[b]"]);
    let list = "file[DIR/no/list]";
    assert_eq!(
        both["composites"][0],
        json!({"resource": "both[b]", "state": "failed", "counts": {"failed": 1, "in_sync": 1},
            "parts": ["entry[b]", "file[DIR/b]"], "entries_in": [list]})
    );
    assert_eq!((&both["composites"][1]["parts"], &both["composites"][1]["entries_in"]), (&json!([]), &json!([list])));
    assert_eq!(names(&both["resources"]), ["file[DIR/b]", list]);
    assert_eq!(both["resources"][1]["owner"], Json::Null);
    let told = place.run(&["status", "both[b]"]).stdout;
    assert!(
        told.contains("\nentry[b] failed: 1 failed\n    part of both[b]; entries in file[DIR/no/list]\n"),
        "{told}"
    );
    std::fs::create_dir(place.path().join("no")).unwrap();
    wait("the directory", || status(&place, &["both[b]"])["composites"][1]["state"] == "in_sync");
    running.end();
}

#[test]
fn edit_of_composite_membership_is_reported() {
    let place = Place::new();
    let before = "resources:\n  file[DIR/a]: {content: a}\n";
    let running = Running::begin(&place, &[&manifest(&place, before)]);
    wait("the file", || content(&place.path().join("a")) == "a");
    let state = || status(&place, &["page[p]"])["composites"][0]["state"].clone();
    assert_eq!(state(), Json::Null);
    manifest(&place, "types:\n  page: {resources: {\"file[DIR/a]\": {content: a}}}\nresources:\n  page[p]: {}\n");
    wait("the edit", || state() == "in_sync");
    let file = status(&place, &["file[DIR/a]"]);
    assert_eq!((&file["resources"][0]["owner"], &file["resources"][0]["changes"]), (&"page[p]".into(), &1.into()));
    manifest(&place, before);
    wait("the edit back", || status(&place, &["file[DIR/a]"])["resources"][0]["owner"].is_null());
    running.end();
}
