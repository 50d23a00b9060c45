//! `kilter fmt`: the layout of manifests.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use crate::support::*;

const UGLY: &str = "resources:\n    file[/a]:   {ensure: directory,mode: '0755'} # why\n";
const FORMATTED: &str = "resources:\n  file[/a]: { ensure: directory, mode: \"0755\" } # why\n";

#[test]
fn file_is_replaced_with_its_permissions_and_named() {
    let place = Place::new();
    let path = place.file("site.yaml", UGLY);
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
    let link = place.path().join("link.yaml");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let checked = place.run(&["fmt", "--check", &path]);
    assert_eq!((checked.code, &*checked.stdout), (1, "DIR/site.yaml\n"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), UGLY);
    let ended = place.run(&["fmt", link.to_str().unwrap()]);
    assert_eq!((ended.code, &*ended.stderr), (0, ""), "{ended:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), FORMATTED);
    assert!(link.is_symlink());
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o640);
    let again = place.run(&["fmt", "--check", &path]);
    assert_eq!((again.code, &*again.stdout, &*again.stderr), (0, "", ""));
}

#[test]
fn directories_are_searched_for_yaml_only() {
    let place = Place::new();
    std::fs::create_dir_all(place.path().join("all/deep/.hidden")).unwrap();
    for name in ["all/a.yaml", "all/deep/b.yml", "all/deep/c.txt", "all/deep/.hidden/d.yaml"] {
        place.file(name, UGLY);
    }
    let ended = place.run(&["fmt", "all"]);
    assert_eq!((ended.code, &*ended.stdout), (0, "all/a.yaml\nall/deep/b.yml\n"), "{ended:?}");
    assert_eq!(std::fs::read_to_string(place.path().join("all/deep/c.txt")).unwrap(), UGLY);
}

#[test]
fn standard_input_is_printed() {
    let place = Place::new();
    let mut child = place.command(&["fmt"]);
    let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(UGLY.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), FORMATTED);
}

#[test]
fn wrong_files_stay_as_they_are() {
    let place = Place::new();
    for (name, text, why) in [
        ("a.yaml", "resources: {\n", "a.yaml:"),
        ("b.json", "{}", "JSON"),
        ("c.yaml", "#!/bin/sh\necho\n", "a program"),
    ] {
        let path = place.file(name, text);
        let ended = place.run(&["fmt", &path]);
        assert_eq!((ended.code, ended.stdout.as_str()), (1, ""), "{ended:?}");
        assert!(ended.stderr.contains(why), "{ended:?}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
    let ended = place.run(&["fmt", "missing.yaml"]);
    assert!(ended.code == 1 && ended.stderr.contains("missing.yaml"), "{ended:?}");
}
