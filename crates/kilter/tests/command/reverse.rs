//! Restoration of undeclared resources (`reverse`), and other metaparameters that concern edits.

use std::os::unix::fs::{PermissionsExt, symlink};

use crate::run::{Running, content, ticks, wait};
use crate::support::*;

fn declare(place: &Place, resources: &str) -> String {
    let text = format!("resources: {{{resources}}}\n");
    place.file("m.yaml", text.replace("DIR", &place.path().display().to_string()))
}

fn apply(place: &Place, resources: &str) -> Ended {
    let path = declare(place, resources);
    place.run(&["apply", &path])
}

const REVERSE: &str = "meta: {reverse: true}";

#[test]
fn reverse_restores_or_removes_content() {
    let place = Place::new();
    let (old, new) = (place.path().join("old"), place.path().join("new"));
    std::fs::write(&old, "theirs\n").unwrap();
    std::fs::set_permissions(&old, PermissionsExt::from_mode(0o640)).unwrap();
    let both = format!(
        "'file[DIR/old]': {{content: mine, mode: '0600', {REVERSE}}}, 'file[DIR/new]': {{content: mine, {REVERSE}}}"
    );
    assert_eq!(apply(&place, &both).code, 0);
    assert_eq!((content(&old).as_str(), content(&new).as_str()), ("mine", "mine"));
    // What was there first counts, however often it is changed.
    assert_eq!(apply(&place, &both.replace("mine", "other")).code, 0);
    let planned = place.run(&["plan", &declare(&place, "")]);
    assert_eq!(planned.code, 2);
    assert!(planned.stdout.contains("file[DIR/new]") && !planned.stdout.contains("theirs"), "{}", planned.stdout);
    let ended = apply(&place, "");
    assert_eq!(ended.code, 0, "{} {}", ended.stdout, ended.stderr);
    assert_eq!(content(&old), "theirs\n");
    assert_eq!(std::fs::metadata(&old).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(!new.exists());
    assert!(ended.stdout.contains("no longer declared"), "{}", ended.stdout);
    // It is restored once.
    std::fs::write(&old, "theirs, later\n").unwrap();
    assert_eq!(apply(&place, "").code, 0);
    assert_eq!(content(&old), "theirs, later\n");
}

#[test]
fn reverse_restores_removed_file() {
    let place = Place::new();
    let (file, link) = (place.path().join("file"), place.path().join("link"));
    std::fs::write(&file, "kept\n").unwrap();
    symlink("somewhere", &link).unwrap();
    let gone =
        format!("'file[DIR/file]': {{ensure: absent, {REVERSE}}}, 'file[DIR/link]': {{ensure: absent, {REVERSE}}}");
    assert_eq!(apply(&place, &gone).code, 0);
    assert!(!file.exists() && std::fs::symlink_metadata(&link).is_err());
    assert_eq!(apply(&place, "").code, 0);
    assert_eq!(content(&file), "kept\n");
    assert_eq!(std::fs::read_link(&link).unwrap().to_str(), Some("somewhere"));
}

#[test]
fn change_without_restorable_state_fails() {
    let place = Place::new();
    let (large, full) = (place.path().join("large"), place.path().join("full"));
    std::fs::write(&large, "x".repeat(17 << 20)).unwrap();
    std::fs::create_dir(&full).unwrap();
    std::fs::write(full.join("inside"), "").unwrap();
    let ended = apply(
        &place,
        &format!(
            "'file[DIR/large]': {{content: mine, {REVERSE}}}, 'file[DIR/full]': {{ensure: absent, force: true, \
             {REVERSE}}}"
        ),
    );
    assert_eq!(ended.code, 4);
    for why in ["too large", "entries of a directory are not saved"] {
        assert!(ended.stdout.contains(why), "{}", ended.stdout);
    }
    assert!(content(&large).starts_with('x') && full.join("inside").exists());
}

#[test]
fn reverse_restores_parts_of_files_and_entries() {
    let place = Place::new();
    let file = |name: &str| content(&place.path().join(name));
    place.file("conf", "first\nport = 80\nlast\n");
    place.file("app.ini", "[a]\nx = 1\n");
    place.file("hosts", "127.0.0.1 localhost\n10.0.0.9 other.example\n");
    let declared = "'line[new]': {path: DIR/conf, line: added, META}, \
         'line[old]': {path: DIR/conf, ensure: absent, line: first, META}, \
         'line[port]': {path: DIR/conf, line: port = 8080, match: '^port', META}, \
         'line[own]': {path: DIR/own, line: own, create: true, META}, \
         'ini[x]': {path: DIR/app.ini, section: a, setting: x, value: 2, META}, \
         'host[www.example]': {ip: 10.0.0.1, target: DIR/hosts, META}, \
         'host[other.example]': {ip: 10.0.0.8, target: DIR/hosts, META}"
        .replace("META", REVERSE);
    let ended = apply(&place, &declared);
    assert_eq!(ended.code, 0, "{} {}", ended.stdout, ended.stderr);
    assert_eq!(file("conf"), "port = 8080\nlast\nadded\n");
    // What was there first counts.
    assert_eq!(apply(&place, &declared.replace("8080", "8081").replace("10.0.0.8", "10.0.0.7")).code, 0);
    let ended = apply(&place, "");
    assert_eq!(ended.code, 0, "{} {}", ended.stdout, ended.stderr);
    let mut lines: Vec<String> = file("conf").lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["first", "last", "port = 80"]);
    assert_eq!(file("app.ini"), "[a]\nx = 1\n");
    assert_eq!(file("hosts"), "127.0.0.1 localhost\n10.0.0.9\tother.example\n");
    assert!(!place.path().join("own").exists());
    assert!(place.run(&["plan", &declare(&place, "")]).stdout.contains("0 resources"), "it is restored once");
}

#[test]
fn other_manifest_or_removed_reverse_restores_nothing() {
    let place = Place::new();
    let file = place.path().join("file");
    let declared = format!("'file[DIR/file]': {{content: mine, {REVERSE}}}");
    assert_eq!(apply(&place, &declared).code, 0);
    let other = place.file("other.yaml", "resources: {}\n");
    assert_eq!(place.run(&["apply", &other]).code, 0);
    assert_eq!(content(&file), "mine");
    // From now on it is to stay.
    assert_eq!(apply(&place, "'file[DIR/file]': {content: mine}").code, 0);
    assert_eq!(apply(&place, "").code, 0);
    assert_eq!(content(&file), "mine");
}

#[test]
fn replaced_secret_is_stored_encrypted() {
    let place = Place::new();
    std::fs::write(place.path().join("secret"), "hunter2").unwrap();
    assert_eq!(apply(&place, &format!("'file[DIR/secret]': {{content: {{sensitive: new}}, {REVERSE}}}")).code, 0);
    let kept: Vec<_> = std::fs::read_dir(place.path().join("state/reversals"))
        .unwrap()
        .flat_map(|directory| std::fs::read_dir(directory.unwrap().path()).unwrap())
        .map(|file| std::fs::read(file.unwrap().path()).unwrap())
        .collect();
    assert_eq!(kept.len(), 1);
    assert!(!String::from_utf8_lossy(&kept[0]).contains("hunter2"));
    let ended = apply(&place, "");
    assert!(!ended.stdout.contains("hunter2"), "{}", ended.stdout);
    assert_eq!(content(&place.path().join("secret")), "hunter2");
}

#[test]
fn restored_resource_is_not_named_as_left() {
    let place = Place::new();
    let directory = place.path().join("d");
    std::fs::create_dir(&directory).unwrap();
    // The first one has its path as its title, the second one another title.
    let declared = format!(
        "'file[DIR/d/a]': {{content: mine, {REVERSE}}}, 'file[b]': {{path: DIR/d/b, content: mine, {REVERSE}}}, \
         'file[DIR/d/c]': {{content: mine}}"
    );
    assert_eq!(apply(&place, &declared).code, 0);
    let left = format!("no longer declared, and left as they are: file[{}/c]\n", directory.display());
    let left = left.replace(&place.path().display().to_string(), "DIR");
    assert_eq!(place.run(&["plan", &declare(&place, "")]).stderr, left);
    // The restoration fails: the paths are directories that are not empty.
    for name in ["a", "b"] {
        std::fs::remove_file(directory.join(name)).unwrap();
        std::fs::create_dir_all(directory.join(name).join("inside")).unwrap();
    }
    let ended = apply(&place, "");
    assert_eq!((ended.code, ended.stderr), (4, left));
    for name in ["a", "b"] {
        std::fs::remove_dir(directory.join(name).join("inside")).unwrap();
    }
    let ended = apply(&place, "");
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{}", ended.stdout);
    assert!(!directory.join("a").exists() && !directory.join("b").exists());
}

#[test]
fn run_does_not_name_a_restored_resource_as_left() {
    let place = Place::new();
    let restored = format!("'file[b]': {{path: DIR/b, content: mine, {REVERSE}}}");
    let path = declare(&place, &format!("{restored}, 'file[DIR/c]': {{content: mine}}"));
    let running = Running::begin(&place, &[&path]);
    wait("the files", || place.path().join("c").exists() && place.path().join("b").exists());
    declare(&place, "");
    wait("the restoration", || !place.path().join("b").exists());
    wait("the line", || running.told("left as they are: file[") > 0);
    assert_eq!(running.told("/c], file[b]"), 0);
    running.end();
}

/// The one record that is kept.
fn record(place: &Place) -> std::path::PathBuf {
    let directory = std::fs::read_dir(place.path().join("state/reversals")).unwrap().next().unwrap().unwrap().path();
    std::fs::read_dir(&directory).unwrap().next().unwrap().unwrap().path()
}

#[test]
fn modified_record_is_reported_and_not_restored() {
    let place = Place::new();
    let declared = format!("'file[DIR/file]': {{content: mine, {REVERSE}}}");
    assert_eq!(apply(&place, &declared).code, 0);
    let record = record(&place);
    let text = content(&record).replace("file\",", "file2\",");
    std::fs::write(&record, text).unwrap();
    let ended = apply(&place, "");
    assert_eq!(ended.code, 0);
    assert!(ended.stderr.contains("cannot be restored"), "{}", ended.stderr);
    assert_eq!(content(&place.path().join("file")), "mine");
    // Nor is anything changed that could not be restored.
    let ended = apply(&place, &declared.replace("mine", "other"));
    assert_eq!(ended.code, 4);
    assert_eq!(content(&place.path().join("file")), "mine");
}

#[test]
fn state_at_first_check_is_restored() {
    let place = Place::new();
    let file = place.path().join("file");
    std::fs::write(&file, "mine").unwrap();
    let declared = format!("'file[DIR/file]': {{content: mine, {REVERSE}}}");
    assert_eq!(apply(&place, &declared).code, 0);
    std::fs::write(&file, "evil").unwrap();
    assert_eq!(apply(&place, &declared).code, 0);
    assert_eq!(apply(&place, "").code, 0);
    assert_eq!(content(&file), "mine");
}

#[test]
fn reverse_is_refused_without_a_restorable_state() {
    let place = Place::new();
    for (resources, why) in [
        (format!("'exec[a]': {{command: 'true', {REVERSE}}}"), "a resource of the type `exec` cannot be restored"),
        (
            format!("'exec[e]': {{command: echo x}}, 'file[DIR/f]': {{content: '${{exec[e].stdout}}', {REVERSE}}}"),
            "it receives outputs of other resources",
        ),
    ] {
        let ended = apply(&place, &resources);
        assert_eq!(ended.code, 1);
        assert!(ended.stderr.contains(why), "{}", ended.stderr);
    }
    let tree = format!("'file[DIR/copy]': {{ensure: directory, source: DIR/home, recurse: true, {REVERSE}}}");
    let ended = apply(&place, &tree);
    assert_eq!(ended.code, 4);
    assert!(ended.stdout.contains("entries of a directory are not saved"), "{}", ended.stdout);
    assert!(!place.path().join("copy").exists());
}

#[test]
fn default_reverse_applies_to_restorable_files() {
    let place = Place::new();
    place.file("file", "mine");
    let defaults = "defaults: {\"*\": {meta: {reverse: true}}}\n";
    let path = declare(
        &place,
        "'file[DIR/file]': {content: ours}, 'exec[e]': {command: 'true'}, 'exec[x]': {command: echo x}, \
                                'file[DIR/other]': {content: '${exec[x].stdout}'}",
    );
    let text = content(&place.path().join(&path));
    place.file(&path, format!("{defaults}{text}"));
    let ended = place.run(&["apply", &path]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let own = text.replace("command: 'true'", "command: 'true', meta: {reverse: true}");
    place.file(&path, format!("{defaults}{own}"));
    let refused = place.run(&["apply", &path]);
    assert!(refused.code == 1 && refused.stderr.matches("error:").count() == 1, "{refused:?}");
    assert!(refused.stderr.contains("a resource of the type `exec` cannot be restored"), "{refused:?}");
    assert_eq!(apply(&place, "").code, 0);
    assert_eq!(content(&place.path().join("file")), "mine");
}

#[test]
fn a_file_under_another_title_is_the_same_file() {
    let place = Place::new();
    let file = place.path().join("file");
    std::fs::write(&file, "theirs").unwrap();
    assert_eq!(apply(&place, &format!("'file[DIR/file]': {{content: mine, {REVERSE}}}")).code, 0);
    for other in ["'file[conf]': {path: DIR/file, content: other, META}", "'file[DIR/file/]': {content: last, META}"] {
        let ended = apply(&place, &other.replace("META", REVERSE));
        assert_eq!(ended.code, 0, "{} {}", ended.stdout, ended.stderr);
    }
    assert_eq!(content(&file), "last");
    assert_eq!(apply(&place, "").code, 0);
    assert_eq!(content(&file), "theirs");
}

#[test]
fn contradicting_restoration_is_skipped_with_warning() {
    let place = Place::new();
    let directory = place.path().join("d");
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("x"), "theirs").unwrap();
    assert_eq!(apply(&place, &format!("'file[DIR/d/x]': {{content: mine, {REVERSE}}}")).code, 0);
    let ended = apply(&place, "'file[DIR/d]': {ensure: absent, force: true}");
    assert_eq!(ended.code, 0, "{} {}", ended.stdout, ended.stderr);
    assert!(ended.stderr.contains("is not restored"), "{}", ended.stderr);
    assert!(!directory.exists());
}

#[test]
fn plan_belongs_to_its_manifest_paths() {
    let place = Place::new();
    let (file, elsewhere) = (place.path().join("file"), place.path().join("elsewhere"));
    std::fs::create_dir(&elsewhere).unwrap();
    let path = declare(&place, &format!("'file[DIR/file]': {{content: mine, {REVERSE}}}"));
    assert_eq!(place.run(&["plan", "m.yaml", "-o", "p"]).code, 2);
    std::fs::write(elsewhere.join("m.yaml"), "resources: {}\n").unwrap();
    let there = |args: &[&str]| place.command(args).current_dir(&elsewhere).output().unwrap().status.code();
    assert_eq!(there(&["apply", "../p"]), Some(0));
    assert_eq!(there(&["apply", "m.yaml"]), Some(0));
    assert_eq!(content(&file), "mine");
    declare(&place, "");
    assert_eq!(there(&["apply", &path]), Some(0));
    assert!(!file.exists());
}

#[test]
fn edit_during_run_restores() {
    let place = Place::new();
    let (file, other) = (place.path().join("file"), place.path().join("other"));
    let path = declare(&place, &format!("'file[DIR/file]': {{content: mine, {REVERSE}}}"));
    let running = Running::begin(&place, &[&path]);
    wait("the file", || content(&file) == "mine");
    declare(&place, "'file[DIR/other]': {content: mine}");
    wait("the other, and nothing of the first", || content(&other) == "mine" && !file.exists());
    // It is restored once, and then nobody's.
    std::fs::write(&file, "theirs").unwrap();
    std::fs::write(&other, "drift").unwrap();
    wait("what is held", || content(&other) == "mine");
    assert_eq!(content(&file), "theirs");
    running.end();
}

#[test]
fn hidden_resource_only_orders_others() {
    let place = Place::new();
    let resources = "'file[DIR/first]': {content: x}, 'file[DIR/hidden]': {content: x, mode: nonsense, require: \
                     'file[DIR/first]', \
                     meta: {hidden: true}}, 'file[DIR/last]': {content: x, require: 'file[DIR/hidden]'}";
    let ended = apply(&place, resources);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(place.path().join("first").exists() && place.path().join("last").exists());
    assert!(!place.path().join("hidden").exists());
    assert!(ended.stdout.contains("3 resources: 2 changed, 1 not checked ("), "{}", ended.stdout);
    let held = place.run(&["run", &declare(&place, resources), "--converged-exit", "--converged-timeout", "0"]);
    assert!(held.code == 0 && held.stdout.contains("3 resources: 1 not checked, 2 unchanged ("), "{held:?}");
    let order = place.run(&["graph", &declare(&place, resources)]);
    assert_eq!(order.stdout.matches("file[DIR/hidden]").count(), 2, "{}", order.stdout);
    let sends = "'exec[a]': {command: echo x, meta: {hidden: true}}, 'file[DIR/b]': {content: \"${exec[a].stdout}\"}";
    let refused = apply(&place, sends);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("exec[a] is hidden, and sends nothing"), "{}", refused.stderr);
}

const HIDDEN: &str = "meta: {hidden: true}";

#[test]
fn hidden_resource_may_share_its_name() {
    let place = Place::new();
    let file = place.path().join("p");
    for (title, path) in [("DIR/p", "DIR/p"), ("DIR/p/", "DIR/p"), ("DIR/p", "DIR/p/")] {
        let resources = format!(
            "'file[{title}]': {{content: a, {HIDDEN}}}, 'file[h2]': {{path: {path}, content: b}}, \
             'file[h3]': {{path: DIR/p, content: c, {HIDDEN}}}"
        );
        let ended = apply(&place, &resources);
        assert_eq!((ended.code, content(&file).as_str()), (0, "b"), "{} {}", ended.stdout, ended.stderr);
        assert_eq!(place.run(&["plan", &declare(&place, &resources)]).code, 0);
        std::fs::remove_file(&file).unwrap();
    }
    let refused = apply(&place, "'file[DIR/p]': {content: a}, 'file[DIR/p/]': {content: b}");
    assert!(refused.code == 1 && refused.stderr.contains("manages the same"), "{}", refused.stderr);
}

#[test]
fn hidden_resource_has_no_conflicts_or_automatic_edges() {
    let place = Place::new();
    let below = "'file[DIR/d/x]': {content: x}";
    let gone = format!("'file[h]': {{path: DIR/d, ensure: absent, {HIDDEN}}}");
    let there = "'file[DIR/d]': {ensure: directory}";
    for resources in [format!("{gone}, {there}, {below}"), format!("{below}, {there}, {gone}")] {
        let ended = apply(&place, &resources);
        assert_eq!(ended.code, 0, "{} {}", ended.stdout, ended.stderr);
        let graph = place.run(&["graph", &declare(&place, &resources)]).stdout;
        let edges: Vec<&str> = graph.lines().filter(|line| line.contains(" after ")).collect();
        assert!(matches!(edges[..], [edge] if edge.contains("after file[DIR/d] ")), "{graph}");
        std::fs::remove_dir_all(place.path().join("d")).unwrap();
    }
    std::fs::create_dir(place.path().join("d")).unwrap();
    assert_eq!(apply(&place, &format!("{gone}, {below}")).code, 0);
}

#[test]
fn edit_moves_state_to_formerly_hidden_resource() {
    let place = Place::new();
    let file = place.path().join("p");
    let both = |one: &str, two: &str| {
        format!("'file[DIR/p]': {{content: a{one}}}, 'file[h2]': {{path: DIR/p, content: b{two}}}")
    };
    let hidden = format!(", {HIDDEN}");
    let path = declare(&place, &both(&hidden, ""));
    let running = Running::begin(&place, &[&path]);
    for (resources, expected) in [(None, "b"), (Some(both("", &hidden)), "a"), (Some(both(&hidden, "")), "b")] {
        resources.iter().for_each(|resources| _ = declare(&place, resources));
        wait("what is declared", || content(&file) == expected);
        std::fs::write(&file, "drift").unwrap();
        wait("what is held", || content(&file) == expected);
    }
    // Both at once are refused, and what was declared before is held.
    declare(&place, &both("", ""));
    wait("what is wrong", || running.told("two resources manage the file") == 1);
    std::fs::write(&file, "drift").unwrap();
    wait("what is held", || content(&file) == "b");
    running.end();
}

#[test]
fn edit_waits_for_realize() {
    for (meta, expected) in [("meta: {realize: true}", true), ("meta: {realize: false}", false)] {
        let place = Place::new();
        // The second waits for the first, which takes until somebody lets it end.
        let slow = format!(
            "'exec[slow]': {{command: 'touch DIR/begun; until test -e DIR/go; do sleep 0.01; done', shell: true}}, \
             'file[DIR/brief]': {{content: x, require: 'exec[slow]', {meta}}}, \
             'exec[tick]': {{command: 'true', unless: [[sh, -c, 'echo x >> DIR/ticks']], meta: {{poll: 1}}}}"
        );
        let path = declare(&place, &slow);
        let running = Running::begin(&place, &[&path]);
        wait("the slow one", || place.path().join("begun").exists());
        declare(&place, "'file[DIR/next]': {content: x}");
        // What nothing waits for is taken up at once; what is waited for is not, however long that takes.
        if expected {
            ticks(&place, 2);
        } else {
            wait("the edit", || running.told("reloading") == 1);
        }
        place.file("go", "");
        wait("what is declared next", || place.path().join("next").exists());
        assert_eq!(place.path().join("brief").exists(), expected, "{meta}");
        running.end();
    }
}

#[test]
fn edit_waits_for_retries_of_realize() {
    let place = Place::new();
    let trying = "'exec[a]': {command: 'echo tried >> DIR/tries; test -e DIR/may', shell: true, meta: {realize: true, \
                  retry: 1000, delay: 50}}";
    let path = declare(&place, trying);
    let running = Running::begin(&place, &["--quiet", &path]);
    let tries = || content(&place.path().join("tries")).lines().count();
    wait("a try", || tries() > 1);
    declare(&place, "'file[DIR/next]': {content: x}");
    // Long after it would have been read.
    let before = tries();
    wait("more tries", || tries() > before + 20);
    assert!(!place.path().join("next").exists());
    place.file("may", "");
    wait("what is declared next", || place.path().join("next").exists());
    running.end();
}

#[test]
fn edit_does_not_wait_for_blocked_realize() {
    let place = Place::new();
    let failing = "'exec[a]': {command: 'echo tried >> DIR/tries; false', shell: true, meta: {retry: -1, delay: 300}}, \
                   'file[DIR/b]': {content: x, require: 'exec[a]', meta: {realize: true}}";
    let path = declare(&place, failing);
    let running = Running::begin(&place, &["--quiet", &path]);
    wait("a failure", || content(&place.path().join("tries")).lines().count() > 1);
    declare(&place, &failing.replace("; false'", "'"));
    wait("what is mended", || place.path().join("b").exists());
    running.end();
}
