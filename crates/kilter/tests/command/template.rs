//! Templates: from the files to the machine.

use std::os::unix::fs::PermissionsExt;

use crate::run::{Running, content, manifest, wait};
use crate::support::*;

#[test]
fn template_of_outputs_is_unknown_in_the_plan_and_made_by_apply() {
    let place = Place::new();
    std::fs::create_dir(place.path().join("site")).unwrap();
    place.file(
        "site/app.j2",
        "{% for port in vars.ports %}\nlisten {{ port }} {{ exec[\"token\"].stdout }}\n{% endfor %}\n",
    );
    let text = "vars: { ports: [80, 443] }\nresources:\n  exec[token]: { command: \"touch DIR/ran; printf secret\", \
                shell: true, creates: DIR/ran }\n  file[DIR/a]: { content: { template: app.j2 } }\n";
    place.file("site/m.yaml", text.replace("DIR", &place.path().display().to_string()));
    let plan = place.run(&["plan", "site/m.yaml"]);
    assert!(plan.code == 2 && plan.stdout.contains("exec[token]"), "{plan:?}");
    assert!(!plan.stdout.contains("listen 80"), "{plan:?}");
    let applied = place.run(&["apply", "site/m.yaml"]);
    assert_eq!(applied.code, 0, "{applied:?}");
    assert_eq!(content(&place.path().join("a")), "listen 80 secret\nlisten 443 secret\n");
    let again = place.run(&["apply", "site/m.yaml"]);
    assert!(again.code == 0 && again.stdout.contains("2 unchanged"), "{again:?}");
}

#[test]
fn plan_contains_its_templates() {
    let place = Place::new();
    place.file("inner.j2", "inner {{ vars.x }}\n");
    place.file("a.j2", "{% include \"inner.j2\" %}\n{% include \"none.j2\" ignore missing %}\nend\n");
    let path = manifest(&place, "vars: { x: 1 }\nresources:\n  file[DIR/a]: { content: { template: a.j2 } }\n");
    assert_eq!(place.run(&["plan", "-o", "plan", &path]).code, 2);
    for name in ["inner.j2", "a.j2"] {
        std::fs::remove_file(place.path().join(name)).unwrap();
    }
    place.file("none.j2", "made after the plan\n");
    let applied = place.run(&["apply", "plan"]);
    assert_eq!(applied.code, 0, "{applied:?}");
    assert_eq!(content(&place.path().join("a")), "inner 1\nend\n");
}

#[test]
fn edited_template_is_an_edit_of_the_manifest() {
    let place = Place::new();
    place.file("a.j2", "one\n");
    let path = manifest(&place, "resources:\n  file[DIR/a]: { content: { template: a.j2 } }\n");
    let running = Running::begin(&place, &[&path]);
    let made = place.path().join("a");
    wait("the first", || content(&made) == "one\n");
    place.file("a.j2", "two {% include \"b.j2\" ignore missing %}\n");
    wait("the second", || content(&made) == "two ");
    place.file("a.j2", "{{ wrong\n");
    wait("the problem", || running.told("a.j2:1:") == 1);
    std::fs::write(&made, "changed").unwrap();
    wait("the repair", || content(&made) == "two ");
    place.file("a.j2", "three\n");
    wait("the third", || content(&made) == "three\n");
    assert_eq!(running.end().0, Some(143));
}

#[test]
fn secret_of_a_template_is_shown_nowhere() {
    let place = Place::new();
    place.file("a.j2", "password={{ vars.pw }}\n");
    let path = manifest(
        &place,
        "vars: { pw: { sensitive: { command: [printf, hunter2] } } }\nresources:\n  file[DIR/a]: { content: { \
         template: a.j2 } }\n",
    );
    for args in [&["plan", &path][..], &["plan", "--format", "json", &path], &["apply", &path]] {
        let ended = place.run(args);
        assert!(!format!("{ended:?}").contains("hunter2"), "{ended:?}");
    }
    let made = place.path().join("a");
    assert_eq!(content(&made), "password=hunter2\n");
    assert_eq!(std::fs::metadata(&made).unwrap().permissions().mode() & 0o7777, 0o600);
}

#[test]
fn check_and_lint_know_templates() {
    let place = Place::new();
    place.file("a.j2", "{{ vars.used }}\n");
    let path = manifest(
        &place,
        "vars: { used: 1, idle: 2 }\nresources:\n  file[DIR/a]: { content: { template: a.j2 } }\n  file[DIR/b]: { \
         template: a.j2 }\n  template[DIR/c]: {}\n",
    );
    let ended = place.run(&["check", &path]);
    assert!(ended.stderr.contains("a template is a value: content: { template: app.conf.j2 }"), "{ended:?}");
    assert!(ended.stderr.contains("kilter's type is `file` with `content: { template:"), "{ended:?}");
    let path =
        manifest(&place, "vars: { used: 1, idle: 2 }\nresources:\n  file[DIR/a]: { content: { template: a.j2 } }\n");
    let ended = place.run(&["check", &path]);
    assert!(ended.stderr.contains("variable `idle`") && !ended.stderr.contains("variable `used`"), "{ended:?}");
}

#[test]
fn template_that_others_can_write_is_refused() {
    assert!(is_root(), "run this test as root: only root refuses files that others can write");
    let place = Place::new();
    place.file("a.j2", "one\n");
    std::fs::set_permissions(place.path().join("a.j2"), std::fs::Permissions::from_mode(0o666)).unwrap();
    let path = manifest(&place, "resources:\n  file[DIR/a]: { content: { template: a.j2 } }\n");
    let ended = place.run(&["plan", &path]);
    assert!(ended.code == 1 && ended.stderr.contains("can be written by everybody"), "{ended:?}");
}
