//! Entries that declare several resources, defaults and collectors, in all commands.

use crate::support::*;

const MANIFEST: &str = "include: base.yaml
vars:
  sites: { blog: 8080, shop: 8081 }
defaults:
  file: { mode: \"0640\" }
resources:
  file:
    titles: [out, out/log]
    ensure: directory
    mode: \"0750\"
  file[out/${each.key}]:
    for_each: ${vars.sites}
    content: \"port ${each.value}\\n\"
  exec[done]:
    command: touch out/done
    creates: out/done
    require: [\"file[*]\", \"notify[*]\"]
";

fn place() -> Place {
    let place = Place::new();
    let root = place.path().join("out");
    place.file("base.yaml", "resources:\n  notify[${each.value}]: { for_each: [hello] }\n");
    place.file("m.yaml", MANIFEST.replace("out", root.to_str().unwrap()));
    place
}

#[test]
fn saved_plan_of_several_resources_is_applied() {
    let place = place();
    let planned = place.run(&["plan", "m.yaml", "-o", "m.plan"]);
    assert_eq!(planned.code, 2, "{planned:?}");
    for name in ["out]", "out/log]", "out/blog]", "out/shop]"] {
        assert!(planned.stdout.contains(name), "{name}: {planned:?}");
    }
    let applied = place.run(&["apply", "m.plan"]);
    assert_eq!(applied.code, 0, "{applied:?}");
    let path = |name: &str| place.path().join("out").join(name);
    assert_eq!(std::fs::read_to_string(path("shop")).unwrap(), "port 8081\n");
    let mode = |name: &str| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::metadata(path(name)).unwrap().permissions().mode() & 0o777
    };
    assert_eq!((mode("shop"), mode("log")), (0o640, 0o750));
    assert!(path("done").exists());
    let again = place.run(&["plan", "m.yaml"]);
    assert!(again.code == 0 || again.stdout.contains("notify[hello]"), "{again:?}");
}

#[test]
fn graph_names_each_resource() {
    let graph = place().run(&["graph", "m.yaml"]);
    assert_eq!(graph.code, 0, "{graph:?}");
    for name in ["out/blog]", "out/shop]", "notify[hello]", "exec[done]"] {
        assert!(graph.stdout.contains(name), "{name}: {graph:?}");
    }
}

#[test]
fn problem_of_a_provider_is_at_the_default() {
    let place = Place::new();
    place.file(
        "m.yaml",
        "defaults:\n  file: { mode: \"9\" }\nresources:\n  file: [/a, { titles: [/b], mode: \"8\" }]\n",
    );
    let ended = place.run(&["plan", "m.yaml"]);
    assert_eq!(ended.code, 1);
    assert!(ended.stderr.contains("file[/a]: mode: `9` is not a mode"), "{ended:?}");
    assert!(ended.stderr.contains("m.yaml:2:17"), "{ended:?}");
    assert!(ended.stderr.contains("file[/b]: mode: `8` is not a mode"), "{ended:?}");
    assert!(ended.stderr.contains("m.yaml:4:36"), "{ended:?}");
    assert!(ended.stderr.contains("`mode: null` removes this default from file[/a]"), "{ended:?}");
    assert!(!ended.stderr.contains("from file[/b]"), "{ended:?}");
}

#[test]
fn defaults_do_not_prevent_absent_files() {
    let place = Place::new();
    let defaults = "defaults:\n  file: { owner: root, mode: \"0644\", acl: none, create: false, parents: true }\n";
    let file = place.file("x", "");
    place.file("m.yaml", format!("{defaults}resources:\n  file[{file}]: {{ ensure: absent }}\n"));
    for code in [2, 0] {
        let ended = place.run(&["plan", "m.yaml"]);
        assert_eq!(ended.code, code, "{ended:?}");
        let ended = place.run(&["apply", "m.yaml"]);
        assert_eq!(ended.code, 0, "{ended:?}");
    }
    place.file("m.yaml", "defaults: { file: { content: x } }\nresources:\n  file[/none]: { ensure: absent }\n");
    let ended = place.run(&["plan", "m.yaml"]);
    assert!(ended.code == 1 && ended.stderr.contains("`content: null` removes this default"), "{ended:?}");
}
