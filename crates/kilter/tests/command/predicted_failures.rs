//! A plan predicts certain failures, except those that the run may prevent.

use crate::support::{Ended, Place};

fn planned(place: &Place, resources: &str) -> Ended {
    let resources = resources.replace("DIR", &place.path().display().to_string());
    place.file("m.yaml", format!("resources:\n{resources}"));
    place.run(&["plan", "m.yaml"])
}

/// The failure that a plan and an apply both end with.
#[track_caller]
fn fails(place: &Place, resources: &str, why: &str) {
    let plan = planned(place, resources);
    assert_eq!(plan.code, 4, "{plan:?}");
    assert!(plan.stdout.contains(why), "{plan:?}");
    let apply = place.run(&["apply", "m.yaml"]);
    assert_eq!(apply.code, 4, "{apply:?}");
    assert!(apply.stdout.contains(why), "{apply:?}");
}

#[track_caller]
fn only_changes(place: &Place, resources: &str) {
    let plan = planned(place, resources);
    assert_eq!(plan.code, 2, "{plan:?}");
}

const BELOW: &str = "  file[DIR/a/x]: { content: x }\n";

#[test]
fn certain_failure_appears_in_plan() {
    let place = Place::new();
    fails(&place, BELOW, "there is no directory DIR/a: declare it too, `file[DIR/a]: { ensure: directory }`");
    fails(&place, "  file[DIR/home]: { content: x }\n", "DIR/home is a directory: `force: true`");
    fails(&place, "  file[DIR/x]: { source: DIR/home }\n", "`recurse: true` copies it");
    fails(&place, "  file[DIR/x]: { content: x, owner: nobody-here }\n", "the user `nobody-here` does not exist");
    let guarded = "  exec[x]: { command: 'true', unless: /nonexistent/guard }\n";
    fails(&place, guarded, "the guard `/nonexistent/guard` (unless) has no result: cannot start");
    only_changes(&place, &format!("  exec[install]: {{ command: 'true', creates: DIR/installed }}\n{guarded}"));
}

#[test]
fn missing_archive_and_directory_are_predicted() {
    let place = Place::new();
    let archive = "  archive[DIR/t.tar]: { extract_path: DIR/to }\n";
    fails(&place, archive, "DIR/to does not exist: declare `file[DIR/to]` with `ensure: directory`");
    let directory = "  file[DIR/to]: { ensure: directory }\n";
    let missing = "there is no archive DIR/t.tar";
    let kept = "  file[DIR/keep]: { ensure: directory }\n  archive[DIR/t.tar]: { extract_path: DIR/home }\n";
    fails(&place, kept, missing);
    let later = "  exec[make]: { command: [/bin/true], require: 'archive[DIR/t.tar]' }\n";
    fails(&place, &format!("{directory}{archive}{later}"), missing);
    std::fs::remove_dir(place.path().join("to")).unwrap();
    // An earlier resource may create what is missing.
    only_changes(&place, &format!("{directory}{archive}  file[DIR/t.tar]: {{ source: DIR/m.yaml }}\n"));
    only_changes(&place, &format!("  exec[make]: {{ command: [/bin/true] }}\n{archive}"));
    let mount = "  mount[DIR/home]: { ensure: mounted, device: tmpfs, fstype: tmpfs }\n";
    only_changes(&place, &format!("{mount}{}", archive.replace("DIR/t", "DIR/home/t")));
}

#[test]
fn noop_resource_is_not_predicted_to_fail() {
    let place = Place::new();
    for meta in ["policy: observe", "noop: true"] {
        only_changes(&place, &format!("  file[DIR/a/x]: {{ content: x, meta: {{ {meta} }} }}\n"));
        let apply = place.run(&["apply", "m.yaml"]);
        assert_eq!(apply.code, 0, "{apply:?}");
        assert!(apply.stdout.contains("it could not be changed: there is no directory DIR/a"), "{apply:?}");
    }
}

#[test]
fn dependents_of_predicted_failure_are_skipped() {
    let place = Place::new();
    let plan = planned(&place, &format!("{BELOW}  file[DIR/y]: {{ content: y, require: 'file[DIR/a/x]' }}\n"));
    assert_eq!(plan.code, 4);
    assert!(plan.stdout.contains("skipped") && plan.stdout.contains("file[DIR/a/x]"), "{plan:?}");
}

#[test]
fn obstacle_removed_by_earlier_resource_is_no_failure() {
    let place = Place::new();
    only_changes(&place, &format!("  file[DIR/a]: {{ ensure: directory }}\n{BELOW}"));
    only_changes(&place, "  user[brought]: {}\n  file[DIR/x]: { content: x, owner: brought }\n");
    only_changes(&place, "  file[DIR/s]: { content: x }\n  file[DIR/x]: { source: DIR/s }\n");
}

#[test]
fn earlier_command_prevents_predicted_failure() {
    let place = Place::new();
    let command = "  exec[make]: { command: [/bin/mkdir, DIR/a]";
    only_changes(&place, &format!("{command} }}\n{BELOW}"));
    only_changes(&place, &format!("{command}, before: 'file[DIR/a/x]' }}\n{BELOW}"));
    only_changes(&place, "  exec[make]: { command: [/bin/true] }\n  file[DIR/x]: { source: DIR/s }\n");
    // One that comes later, or has nothing to do, brings nothing.
    let missing = "there is no directory DIR/a";
    fails(&place, &format!("{command}, require: 'file[DIR/a/x]' }}\n{BELOW}"), missing);
    let done = format!("{command}, creates: DIR/home, before: 'file[DIR/a/x]' }}\n{BELOW}");
    fails(&place, &done, missing);
    // Without an order it might be refreshed or its guard might change its mind.
    only_changes(&place, &format!("{command}, creates: DIR/home }}\n{BELOW}"));
}

#[test]
fn a_link_above_a_declared_file_is_not_purged() {
    let place = Place::new();
    std::fs::create_dir_all(place.path().join("d")).unwrap();
    std::os::unix::fs::symlink("../home", place.path().join("d/link")).unwrap();
    std::os::unix::fs::symlink("../home", place.path().join("d/other")).unwrap();
    let resources = "  file[DIR/d]: { ensure: directory, purge: true }\n  file[DIR/d/link/x]: { content: x }\n";
    only_changes(&place, resources);
    let apply = place.run(&["apply", "m.yaml"]);
    assert_eq!(apply.code, 0, "{apply:?}");
    assert_eq!(std::fs::read_to_string(place.path().join("home/x")).unwrap(), "x");
    assert!(!place.path().join("d/other").is_symlink());
}

#[test]
fn conflicting_user_and_group_are_one_problem() {
    let place = Place::new();
    let plan = planned(&place, "  user[adam]: { groups: [wheel] }\n  group[wheel]: { members: [] }\n");
    assert_eq!(plan.code, 1, "{plan:?}");
    assert!(plan.stderr.contains("user[adam] is declared to be in `wheel`, and group[wheel] to be without `adam`"));
    assert!(plan.stderr.contains("1 problem; nothing was touched"), "{plan:?}");
}

#[test]
fn removal_of_a_primary_group_is_refused_or_predicted_to_fail() {
    let place = Place::new();
    for gid in ["wheel", "1500"] {
        let both = format!("  user[adam]: {{ gid: {gid} }}\n  group[wheel]: {{ gid: 1500, ensure: absent }}\n");
        let plan = planned(&place, &both);
        let message = format!("user[adam] has the primary group `{gid}`, which is declared to be absent");
        assert!(plan.code == 1 && plan.stderr.contains(&message), "{plan:?}");
    }
    // On Debian, the user `daemon` has a group of the same name. The test only makes plans.
    let group = "  group[daemon]: { ensure: absent }\n";
    let plan = planned(&place, group);
    assert!(plan.code == 4 && plan.stdout.contains("it is the primary group of the user daemon"), "{plan:?}");
    only_changes(&place, &format!("{group}  user[daemon]: {{ ensure: absent }}\n"));
    let order = place.run(&["graph", "m.yaml"]);
    assert!(order.stdout.find("user[daemon]") < order.stdout.find("group[daemon]"), "{order:?}");
}

#[test]
fn fallback_output_is_not_used_for_refreshed_or_changed_command() {
    let place = Place::new();
    let fed = "  file[DIR/in]: {content: v1}\n  exec[r]: {command: [cat, DIR/in], refreshonly: true, subscribe: \
               'file[DIR/in]', fallback: {stdout: none}}\n  \
               file[DIR/out]: {content: \"${exec[r].stdout}\"}\n";
    let plan = planned(&place, fed);
    assert!(plan.stdout.contains("? file[DIR/out] not known yet"), "{}", plan.stdout);
    let out = || std::fs::read_to_string(place.path().join("out")).unwrap_or_default();
    assert_eq!((place.run(&["apply", "m.yaml"]).code, out().as_str()), (0, "v1"));
    let made = "  exec[f]: {command: 'touch DIR/made', shell: true, creates: DIR/made, fallback: {stdout: none}}\n  \
                file[DIR/out]: {content: \"${exec[f].stdout}\"}\n";
    // What it has sent is known still when only that is declared otherwise which has nothing to do with it.
    for (command, more, expected) in
        [("echo real; touch DIR/made", "", "real"), ("echo real; touch DIR/made", "stop_signal: SIGINT, ", "real")]
    {
        planned(&place, &made.replace("touch DIR/made", command).replace("creates", &format!("{more}creates")));
        assert_eq!((place.run(&["apply", "m.yaml"]).code, out().as_str()), (0, expected));
    }
    planned(
        &place,
        &made.replace("touch DIR/made", "echo real; touch DIR/made").replace("stdout: none", "stdout: other"),
    );
    assert_eq!((place.run(&["apply", "m.yaml"]).code, out().as_str()), (0, "real"));
    // As another command it has sent nothing that is known.
    planned(&place, &made.replace("touch DIR/made", "echo else; touch DIR/made"));
    assert_eq!((place.run(&["apply", "m.yaml"]).code, out().as_str()), (4, "real"));
}

#[test]
fn missing_mount_point_is_predicted_unless_it_is_declared() {
    let place = Place::new();
    let mount = "  mount[DIR/missing]: {ensure: mounted, device: tmpfs, fstype: tmpfs}\n";
    let plan = planned(&place, mount);
    assert!(plan.code == 4 && plan.stdout.contains("missing is not a directory: declare `file["), "{plan:?}");
    only_changes(&place, &format!("{mount}  file[DIR/missing]: {{ensure: directory}}\n"));
}
