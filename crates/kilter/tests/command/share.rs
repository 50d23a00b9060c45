//! Exports between machines.

use std::path::PathBuf;

use crate::run::{Running, content, wait};
use crate::support::*;

/// Machines that share a directory.
struct Machines(Place);

impl Machines {
    fn new() -> Machines {
        Machines(Place::new())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes the manifest of a machine.
    fn declare(&self, host: &str, text: &str) -> String {
        // A run that starts just now reads the former text or this one, and never an empty file.
        let new = self.0.file(&format!("{host}.new"), text.replace("DIR", &self.0.path().display().to_string()));
        let path = self.path(&format!("{host}.yaml"));
        std::fs::rename(new, &path).unwrap();
        path.display().to_string()
    }

    fn options(&self, host: &str) -> Vec<String> {
        let path = |name: String| self.path(&name).display().to_string();
        let [world, state] = [path("world".into()), path(format!("state-{host}"))];
        ["--world", &world, "--state-dir", &state, "--hostname", host].map(str::to_owned).to_vec()
    }

    /// Runs a command as a machine, with its manifest if the command needs one.
    fn run(&self, host: &str, args: &[&str]) -> Ended {
        let options = self.options(host);
        let manifest = self.path(&format!("{host}.yaml")).display().to_string();
        let args = args.iter().map(|word| if *word == "M" { manifest.as_str() } else { word });
        self.0.run(&args.chain(options.iter().map(String::as_str)).collect::<Vec<_>>())
    }

    fn apply(&self, host: &str) -> Ended {
        let ended = self.run(host, &["apply", "M"]);
        assert_eq!(ended.code, 0, "{} {}", ended.stdout, ended.stderr);
        ended
    }

    fn hold(&self, host: &str) -> Running {
        let (manifest, options) = (self.path(&format!("{host}.yaml")).display().to_string(), self.options(host));
        let args: Vec<&str> = [manifest.as_str()].into_iter().chain(options.iter().map(String::as_str)).collect();
        Running::begin(&self.0, &args)
    }

    /// Returns the exports, one per line.
    fn exported(&self) -> String {
        self.run("nobody", &["get", "exported", "--format", "json"]).stdout
    }
}

const COLLECTS: &str = "collect: [{type: file, from: 'web*', set: {notify: 'notify[new]'}}]\nresources: \
                        {'notify[new]': {refreshonly: true}}\n";

#[test]
fn exported_resource_is_collected() {
    let all = Machines::new();
    all.declare(
        "web1",
        "resources:\n  exec[key]: {command: echo of web1, creates: DIR/none}\n  file[DIR/known]: {content: \"key \
         ${exec[key].stdout}\", meta: {hidden: true, export: [db]}}\n",
    );
    all.declare("db", COLLECTS);
    all.declare("mail", COLLECTS);
    assert_eq!(all.run("db", &["plan", "M"]).code, 0);
    let planned = all.run("web1", &["plan", "M"]);
    assert!(planned.stdout.contains("exported[file[DIR/known] for db] not known yet"), "{}", planned.stdout);
    // Guards that still ask for the command have it fail: then nothing is exported either.
    assert_eq!(all.run("web1", &["apply", "M"]).code, 4);
    assert!(!all.exported().contains("known"));
    let guard = format!(", creates: {}/none", all.0.path().display());
    all.declare("web1", &content(&all.path("web1.yaml")).replace(&guard, ""));
    let applied = all.apply("web1");
    assert!(applied.stdout.contains("+ exported[file[DIR/known] for db]"), "{}", applied.stdout);
    assert!(!all.path("known").exists(), "it is for others alone");
    assert!(!all.apply("web1").stdout.contains("exported["), "it is exported once");

    let planned = all.run("db", &["plan", "M", "-o", &all.path("plan").display().to_string()]);
    assert!(planned.code == 2 && planned.stdout.contains("+ file[DIR/known]"), "{}", planned.stdout);
    assert!(!all.apply("mail").stdout.contains("known"), "it is not for this machine");
    // A plan is carried out as it was made.
    std::fs::rename(all.path("world"), all.path("elsewhere")).unwrap();
    let options = all.options("db");
    let plan = all.path("plan").display().to_string();
    let args: Vec<&str> = ["apply", &plan].into_iter().chain(options.iter().map(String::as_str)).collect();
    let applied = all.0.run(&args);
    assert_eq!((applied.code, content(&all.path("known")).as_str()), (0, "key of web1"), "{}", applied.stderr);
    assert!(applied.stdout.contains("refreshed by file[DIR/known]"), "{}", applied.stdout);
    std::fs::rename(all.path("elsewhere"), all.path("world")).unwrap();
    assert!(!all.apply("db").stdout.contains("known"), "it is in its state");
}

#[test]
fn undeclared_export_is_removed_and_noop_exports_nothing() {
    let all = Machines::new();
    let declared = "resources:\n  file[DIR/a]: {content: a, meta: {export: ['*', db]}}\n  file[DIR/b]: {content: b, \
                    meta: {export: [db], noop: true}}\n";
    all.declare("web1", declared);
    assert_eq!(all.run("web1", &["apply", "M", "--noop"]).code, 2);
    assert!(!all.path("world").exists() && !all.path("state-web1").exists());
    assert_eq!(all.run("web1", &["apply", "M"]).code, 0);
    let exported = all.exported();
    assert!(exported.contains("a] for * from web1") && exported.contains("a] for db from web1"), "{exported}");
    assert!(!exported.contains("/b]"), "{exported}");
    // Another manifest of the same machine says nothing of it.
    let other = all.0.file("other.yaml", "resources: {}\n");
    assert_eq!(all.run("web1", &["apply", &other]).code, 0);
    assert_eq!(all.exported(), exported);
    all.declare("web1", &declared.replace("['*', db]", "[db]"));
    let applied = all.apply("web1");
    assert!(
        applied.stdout.contains("- exported[file[DIR/a] for * from web1]")
            && applied.stdout.contains("it is no longer declared")
    );
    assert!(!all.exported().contains("for *") && all.exported().contains("a] for db"));
    all.declare("web1", "resources: {}\n");
    all.apply("web1");
    assert!(!all.exported().contains("web1"));
}

#[test]
fn run_follows_collected_exports() {
    let all = Machines::new();
    let declared = "resources:\n  file[DIR/known]: {content: one, meta: {hidden: true, export: ['*']}}\n";
    all.declare("web1", declared);
    all.declare("db", COLLECTS);
    let db = all.hold("db");
    let web = all.hold("web1");
    let known = all.path("known");
    wait("what is exported", || content(&known) == "one");
    all.declare("web1", &declared.replace("one", "two"));
    wait("what is exported anew", || content(&known) == "two");
    // Somebody removes it: it is exported again, and what was collected stays meanwhile or comes back.
    let record = all.path("world/exported/*/web1/file");
    let record = std::fs::read_dir(record).unwrap().next().unwrap().unwrap().path();
    std::fs::remove_file(record).unwrap();
    wait("what is exported again", || all.exported().contains("two"));
    wait("what was collected", || content(&known) == "two");
    // The end of a run is no reason to take anything back.
    assert_eq!(web.end().0, Some(143));
    assert!(all.exported().contains("two"));
    let web = all.hold("web1");
    all.declare("web1", "resources: {}\n");
    wait("nothing", || !all.exported().contains("two"));
    wait("that it is declared by nobody", || {
        let held = all.run("db", &["status", "--format", "json"]).stdout;
        serde_json::from_str(&held).is_ok_and(|held: serde_json::Value| held["counts"]["total"] == 1)
    });
    std::fs::write(&known, "by somebody").unwrap();
    // Each edit of what is declared is taken up after what happened before it.
    all.declare(
        "db",
        &format!("{COLLECTS}# another comment\n").replace("{'notify", "{'file[DIR/later]': {content: x}, 'notify"),
    );
    wait("the edit", || content(&all.path("later")) == "x");
    assert_eq!(content(&known), "by somebody");
    assert_eq!((web.end().0, db.end().0), (Some(143), Some(143)));
}

#[test]
fn collected_resource_has_only_plain_attributes() {
    let all = Machines::new();
    all.declare("web1", "resources:\n  file[DIR/known]: {content: '${x', meta: {hidden: true, export: ['*']}}\n");
    all.declare(
        "db",
        "collect: [{type: file}]\nresources: {'exec[x]': {command: 'touch DIR/touched', refreshonly: true}}\n",
    );
    // An expression would not be taken for a text.
    assert_eq!(all.run("web1", &["apply", "M"]).code, 1);
    all.declare(
        "web1",
        "resources:\n  file[DIR/known]: {content: '$${facts.os}', meta: {hidden: true, export: ['*']}}\n",
    );
    all.apply("web1");
    let world = all.path("world/exported/*/web1/file");
    let record = std::fs::read_dir(&world).unwrap().next().unwrap().unwrap().path();
    let told = content(&record).replace(
        "\"attributes\": {",
        "\"attributes\": {\"notify\": \"exec[x]\", \"meta\": {\"noop\": true}, \"when\": \"false\",",
    );
    std::fs::write(&record, &told).unwrap();
    let applied = all.apply("db");
    assert_eq!(content(&all.path("known")), "${facts.os}", "{}", applied.stdout);
    assert!(!all.path("touched").exists());
    for (text, said) in [
        (told.replace("content", "contents"), "`file` has no attribute `contents`"),
        (told.replace("{", "["), "the export file[DIR/known] of web1 is damaged"),
        (String::new(), "the export file[DIR/known] of web1 is damaged"),
    ] {
        std::fs::write(&record, text).unwrap();
        let ended = all.run("db", &["apply", "M"]);
        assert!(ended.code == 1 && ended.stderr.contains(said), "{said}: {}", ended.stderr);
    }
    // What is damaged is written anew by whose it is.
    assert!(all.apply("web1").stdout.contains("exported["));
    all.apply("db");
}

#[test]
fn secret_output_is_not_exported() {
    let all = Machines::new();
    all.declare(
        "web1",
        "resources:\n  exec[key]: {command: {sensitive: 'echo hunter2'}}\n  file[DIR/known]: {content: \
         \"${exec[key].stdout}\", meta: {hidden: true, export: ['*']}}\n",
    );
    let ended = all.run("web1", &["apply", "M"]);
    assert_eq!(ended.code, 4, "{} {}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("other machines can read exports"), "{}", ended.stdout);
    assert!(!format!("{ended:?}{}", all.exported()).contains("hunter2"));
}

#[test]
fn collect_patterns_match_title_and_name() {
    let all = Machines::new();
    all.declare(
        "web1",
        "resources:\n  file[DIR/conf.d/a]: {path: DIR/shadow, content: x, meta: {hidden: true, export: [db]}}\n  \
         file[DIR/conf.d/b]: {content: x, meta: {hidden: true, export: [db, '*']}}\n  \
         file_part[web1]: {path: DIR/sudoers, content: x, meta: {hidden: true, export: [db]}}\n",
    );
    all.apply("web1");
    all.declare(
        "db",
        "collect:\n- {type: file, title: DIR/conf.d/*}\n- {type: file, from: web*, title: '*/b'}\n- {type: file_part, \
         of: DIR/motd}\n\
         resources: {'file[DIR/motd]': {parts: {}}, 'file[DIR/sudoers]': {mode: '0400'}, 'file[DIR/conf.d]': {ensure: \
         directory}}\n",
    );
    let applied = all.apply("db");
    assert!(!all.path("shadow").exists() && content(&all.path("sudoers")).is_empty(), "{}", applied.stdout);
    assert_eq!(content(&all.path("conf.d/b")), "x", "once, whether it is for all too, or meant twice");
    all.declare("db", "collect:\n- {type: file_part, from: web1}\n");
    let ended = all.run("db", &["plan", "M"]);
    assert!(
        ended.code == 1 && ended.stderr.contains("this lets others choose the file that they add to"),
        "{}",
        ended.stderr
    );
}

#[test]
fn export_under_other_host_or_world_is_kept_with_warning() {
    let all = Machines::new();
    all.declare("web1", "resources:\n  file[DIR/a]: {content: a, meta: {export: ['*']}}\n");
    all.apply("web1");
    all.declare("web1", "resources: {}\n");
    let manifest = all.path("web1.yaml").display().to_string();
    let as_another = |host: &str, world: &str| {
        let (world, state) = (all.path(world).display().to_string(), all.path("state-web1").display().to_string());
        all.0.run(&["apply", &manifest, "--hostname", host, "--world", &world, "--state-dir", &state])
    };
    for (host, world, why) in [
        ("web2", "world", "web1 exports it, but this machine is web2"),
        ("web1", "world2", "it was exported to DIR/world, but this world is DIR/world2"),
    ] {
        let ended = as_another(host, world);
        assert!(ended.code == 0 && ended.stderr.contains(why), "{why}: {}", ended.stderr);
        assert!(all.exported().contains("for * from web1"));
    }
    assert!(all.apply("web1").stdout.contains("no longer declared"));
    assert!(!all.exported().contains("web1"));
    // What is exported to two worlds is taken back from each.
    all.declare("web1", "resources:\n  file[DIR/a]: {content: a, meta: {export: ['*']}}\n");
    assert_eq!((all.apply("web1").code, as_another("web1", "world2").code), (0, 0));
    all.declare("web1", "resources: {}\n");
    for (world, other) in [("../DIR/world2/", "world"), ("world", "world2")] {
        let world = world.replace("../DIR", &format!("../{}", all.0.path().file_name().unwrap().to_str().unwrap()));
        let ended = as_another("web1", &world);
        assert!(ended.stdout.contains("no longer declared"), "{world}: {} {}", ended.stdout, ended.stderr);
        assert_eq!(ended.stderr.contains("it was exported to DIR/world, but"), other == "world", "{}", ended.stderr);
    }
    assert!(!all.exported().contains("web1") && !all.path("world2/exported").exists());
    let twice = "resources: {'exported[file[/x] for *]': {}, 'exported[file[/x] for * from web1]': {}}\n";
    all.declare("web1", twice);
    let ended = all.run("web1", &["plan", "M"]);
    assert!(ended.code == 1 && ended.stderr.contains("file[/x] for * from web1"), "{}", ended.stderr);
}

#[test]
fn endless_export_does_not_block_collection() {
    let all = Machines::new();
    all.declare("web1", "resources:\n  file[DIR/known]: {content: one, meta: {hidden: true, export: ['*']}}\n");
    all.declare("db", COLLECTS);
    let db = all.hold("db");
    wait("the journal of the run", || all.path("state-db/lock").exists());
    let place = all.path("world/exported/*/chatty/kv");
    std::fs::create_dir_all(&place).unwrap();
    let mut number = 0;
    let mut applied = false;
    wait("what is exported meanwhile", || {
        number += 1;
        std::fs::write(place.join("x"), number.to_string()).unwrap();
        if number == 100 && !std::mem::replace(&mut applied, true) {
            all.apply("web1");
        }
        content(&all.path("known")) == "one"
    });
    // What nobody can read of another one is no reason to know nothing, and what was made unreadable is written anew.
    std::fs::write(place.join("x"), b"\xff").unwrap();
    all.declare("web1", "resources:\n  file[DIR/known]: {content: two, meta: {hidden: true, export: ['*']}}\n");
    all.apply("web1");
    wait("what is exported beside it", || content(&all.path("known")) == "two");
    assert!(all.exported().contains("from web1"));
    assert_eq!(db.end().0, Some(143));
    let record = all.path("world/exported/*/web1/file");
    let record = std::fs::read_dir(record).unwrap().next().unwrap().unwrap().path();
    std::fs::write(&record, b"\xff").unwrap();
    assert!(all.apply("web1").stdout.contains("exported[") && content(&record).contains("two"));
}

#[test]
fn unreadable_export_is_not_absent() {
    let all = Machines::new();
    let files: String = (0..12)
        .map(|number| format!("  file[DIR/{number}]: {{content: x, meta: {{hidden: true, export: ['*']}}}}\n"))
        .collect();
    all.declare("ten", &format!("resources:\n{files}"));
    all.apply("ten");
    all.declare("ten", "resources: {}\n");
    assert!(is_root(), "run this test as root: only root doubts");
    let place = all.path("world/exported/*/ten/file");
    let mode = |mode| std::fs::set_permissions(&place, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    mode(0o777);
    let ended = all.run("ten", &["apply", "M"]);
    assert!(ended.code == 4 && ended.stdout.contains("can be written by everybody"), "{}", ended.stdout);
    assert!(all.run("db", &["get", "exported"]).stderr.contains("can be written by everybody"));
    // What is of another type does no harm.
    all.declare("db", "collect: [{type: user, from: ten}]\n");
    assert_eq!(all.run("db", &["plan", "M"]).code, 0);
    mode(0o700);
    assert!(all.apply("ten").stdout.contains("12 changed") && !all.exported().contains("ten"));
}

#[test]
fn duplicate_export_error_names_both_machines() {
    let all = Machines::new();
    for host in ["web1", "web2"] {
        all.declare(host, "resources:\n  file[DIR/known]: {content: x, meta: {hidden: true, export: ['*']}}\n");
        all.apply(host);
    }
    all.declare("db", COLLECTS);
    let ended = all.run("db", &["apply", "M"]);
    assert_eq!(ended.code, 1);
    assert!(
        ended.stderr.contains("\"from\":\"web1\"") && ended.stderr.contains("\"from\":\"web2\""),
        "{}",
        ended.stderr
    );
    all.declare("db", &COLLECTS.replace("web*", "*2"));
    all.apply("db");
}

#[test]
fn file_parts_of_several_machines_are_joined() {
    let all = Machines::new();
    for (host, port) in [("web2", 82), ("web1", 81)] {
        all.declare(
            host,
            &format!(
                "resources:\n  file_part[{host}]: {{path: DIR/proxy, content: \"server {host} {port}\\n\", meta: \
                      {{hidden: true, export: [lb]}}}}\n"
            ),
        );
        all.apply(host);
    }
    let declared = "collect: [{type: file_part, title: 'web*', of: DIR/pro*}]\nresources:\n  file[DIR/proxy]: {parts: \
                    {head: {order: 1, content: \"# proxy\\n\"}}}\n";
    all.declare("lb", declared);
    let applied = all.apply("lb");
    assert!(applied.stdout.contains("1 resource: 1 changed"), "{}", applied.stdout);
    assert_eq!(content(&all.path("proxy")), "# proxy\nserver web1 81\nserver web2 82\n");
    let held = all.hold("lb");
    all.declare("web1", "resources: {}\n");
    all.apply("web1");
    wait("the file without it", || content(&all.path("proxy")) == "# proxy\nserver web2 82\n");
    all.declare("web2", "resources: {}\n");
    all.apply("web2");
    wait("the file without any", || content(&all.path("proxy")) == "# proxy\n");
    assert_eq!(held.end().0, Some(143));
}

#[test]
fn kv_is_shared_in_world() {
    let all = Machines::new();
    let stage = |value: u32| {
        format!(
            "resources:\n  kv[stage]: {{value: \"{value}\", skiplessthan: true}}\n  kv[own]: {{value: \"{value}\", \
             mapped: true}}\n"
        )
    };
    all.declare("web1", &stage(9));
    all.declare("web2", &stage(10));
    let told = "resources:\n  kv[stage]: {}\n  file[DIR/stage]: {content: \"${kv[stage].value}\"}\n";
    all.declare("db", told);
    for host in ["web1", "web2", "web1"] {
        all.apply(host);
    }
    let values = |host: &str| all.run(host, &["get", "kv", "--format", "json"]).stdout;
    assert!(values("db").contains("\"10\"") && !values("db").contains("own"), "{}", values("db"));
    assert!(!all.apply("web1").stdout.contains("kv["), "a greater one is left, and its own is its own");
    let held = all.hold("db");
    let path = all.path("stage");
    wait("the value", || content(&path) == "10");
    all.declare("web1", &stage(11));
    all.apply("web1");
    wait("the value that another machine has set", || content(&path) == "11");
    assert_eq!(held.end().0, Some(143));
}

#[test]
fn mgmt_graphs_exchange_exports() {
    let all = Machines::new();
    for host in ["a", "b"] {
        all.declare(
            host,
            &format!(
                "graph: mygraph\nresources:\n  file:\n  - name: '@@f{host}'\n    path: DIR/{host}/f\n    content: \
                 |\n      i am f, exported from {host}\n    state: exists\ncollect:\n- kind: file\nedges: []\n"
            ),
        );
        std::fs::create_dir(all.path(host)).unwrap();
    }
    all.apply("a");
    let applied = all.apply("b");
    assert!(applied.stdout.contains("+ file[fb]") && !applied.stdout.contains("+ file[fa]"), "{}", applied.stdout);
    std::fs::remove_file(all.path("b/f")).unwrap();
    let applied = all.apply("a");
    assert!(applied.stdout.contains("+ file[fb]"), "{}", applied.stdout);
    assert_eq!(content(&all.path("b/f")), "i am f, exported from b\n");
}

#[test]
fn invalid_machine_name_is_refused() {
    let all = Machines::new();
    all.declare("web1", "resources: {}\n");
    for odd in ["a/b", "*", "a b"] {
        let ended = all.0.run(&["plan", &all.path("web1.yaml").display().to_string(), "--hostname", odd]);
        assert!(ended.code == 1 && ended.stderr.contains("is not a machine name"), "{odd}: {}", ended.stderr);
    }
    let ended = all.run("web1", &["set", "exported", "file[/x] for * from db", "ensure=absent"]);
    assert!(ended.code == 1 && ended.stderr.contains("db exports it, but this machine is web1"), "{}", ended.stderr);
    let ended = all.run("web1", &["set", "exported", "file[/x]", "ensure=present"]);
    assert!(ended.code == 1 && ended.stderr.contains("such as `file[/etc/motd] for *`"), "{}", ended.stderr);
}
