//! `kilter graph`.

use crate::support::{Place, snapshot};

const MANIFEST: &str = "\
resources:
  file[/kilter/conf.d/app]:
    content: ${exec[token].stdout}
    notify: exec[reload]
  exec[reload]: { command: [/bin/true], refreshonly: true }
  file[/kilter/conf.d]: { ensure: directory }
  file[/kilter]: { ensure: directory }
  exec[token]: { command: [/bin/echo, x], before: 'notify[done]' }
  notify[done]: { require: 'exec[reload]' }
  notify[alone]: {}
";

#[test]
fn a_manifest_is_drawn_in_every_format() {
    let place = Place::new();
    let manifest = place.file("m.yaml", MANIFEST);
    for (format, name) in [
        ("human", "graph.txt"),
        ("json", "graph.json"),
        ("dot", "graph.dot"),
        ("mermaid", "graph.mmd"),
        ("svg", "graph.svg"),
    ] {
        let ended = place.run(&["graph", &manifest, "--format", format]);
        assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{format}");
        snapshot(name, &ended.stdout);
    }
}

#[test]
fn a_wrong_manifest_is_not_drawn() {
    let place = Place::new();
    let manifest = place.file("m.yaml", "resources:\n  fiel[/x]: {}\n");
    let ended = place.run(&["graph", &manifest]);
    assert_eq!((ended.code, ended.stdout.as_str()), (1, ""));
    assert!(ended.stderr.contains("unknown type `fiel`"), "{}", ended.stderr);
}
