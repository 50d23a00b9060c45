//! Variables about kilter and the machine that scripts get.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::support::*;

/// Writes a script to the provider directory, and its metadata if it does not describe itself.
fn script(place: &Place, type_name: &str, convention: &str, text: &str) {
    fs::create_dir_all(place.path().join("providers")).unwrap();
    let path = place.file(&format!("providers/{type_name}.prov"), format!("#!/bin/sh\n{text}"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let metadata = format!(
        "provider:\n  type: {type_name}\n  invoke: {convention}\n  actions: [{}]\n  suitable: true\n  \
         attributes:\n    name:\n    v: {{type: string}}\n",
        match convention {
            "simple" => "find, update",
            "json" => "get, set",
            _ => "inspect, conform",
        }
    );
    fs::write(place.path().join(format!("providers/{type_name}.yaml")), metadata).unwrap();
}

const SEEN: &str = "v=\"$KILTER_PROGRAM on $KILTER_HOSTNAME\"\n";

/// A type per convention, whose resources are the variables that its script gets.
fn told() -> Place {
    let place = Place::new();
    let answers = [
        ("simple", r#"printf '# simple\nname: a\nv: %s\n' "$v""#),
        ("json", r#"printf '{"resources": [{"name": "a", "v": "%s"}]}' "$v""#),
        ("mold", r#"printf '{"kind": "mold_told", "name": "a", "exists": true, "v": "%s"}' "$v""#),
    ];
    for (convention, answer) in answers {
        script(&place, &format!("{convention}_told"), convention, &format!("{SEEN}{answer}\n"));
    }
    place
}

#[test]
fn scripts_get_run_and_host_name() {
    let place = told();
    let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
    for type_name in ["simple_told", "json_told", "mold_told"] {
        let got = |words: &[&str]| place.run(&[&["-I", ".", "get", type_name, "a"], words].concat());
        for (words, host) in [(&["--hostname", "web1"][..], "web1"), (&[], &own)] {
            let got = got(words);
            assert!(got.stdout.ends_with(&format!(" kilter on {host}\n")), "{type_name}: {got:?}");
        }
    }
}

#[test]
fn machine_without_a_host_name_is_localhost() {
    assert!(is_root(), "run this test as root: it sets the host name in a namespace");
    let place = Place::new();
    let set = "echo \"$1\" >/proc/sys/kernel/hostname; shift; exec \"$@\"";
    for name in ["", "(none)"] {
        let unnamed = |words: &[&str]| {
            let kilter = place.command(words);
            let mut command = std::process::Command::new("unshare");
            command.args(["--uts", "sh", "-c", set, "sh", name]).arg(kilter.get_program()).args(kilter.get_args());
            command.current_dir(place.path());
            command.envs(kilter.get_envs().filter_map(|(key, value)| Some((key, value?))));
            place.end(&mut command)
        };
        let fact = unnamed(&["facts", "networking.hostname"]);
        assert_eq!((fact.code, fact.stdout.as_str()), (0, "localhost\n"), "{name:?}: {fact:?}");
        let file = place.path().join("made").display().to_string();
        let set = unnamed(&["set", "file", &file, &format!("content=of {name}")]);
        assert_eq!(set.code, 0, "{name:?}: {set:?}");
        let shown = unnamed(&["history", "show", "last"]);
        assert!(shown.stdout.contains(" on localhost"), "{name:?}: {shown:?}");
    }
}

#[test]
fn replay_uses_recorded_host_name() {
    let place = told();
    for type_name in ["simple_told", "json_told", "mold_told"] {
        let file = format!("{type_name}.jsonl");
        let words = ["--hostname", "web1", "-I", ".", "provider", "record", &file, "get", type_name, "a"];
        let recorded = place.run(&words);
        let replayed = place.run(&["--hostname", "other", "provider", "replay", &file]);
        assert_eq!((replayed.code, &replayed.stdout), (0, &recorded.stdout), "{}", replayed.stderr);
        assert!(recorded.stdout.contains("kilter on web1"), "{recorded:?}");
        let shown = place.run(&["provider", "replay", &file, "--exchange", "1"]).stdout;
        assert!(shown.contains(" KILTER_HOSTNAME=web1 "), "{shown}");
    }
}

#[test]
fn describe_and_exec_get_no_run_variables() {
    let place = Place::new();
    fs::create_dir(place.path().join("providers")).unwrap();
    let text = "#!/bin/bash\neval \"$@\"\nseen=\"${KILTER_PROGRAM-none} ${KILTER_HOSTNAME-none}\"\n\
                cat <<END\nprovider:\n  type: own\n  desc: It was told $seen.\n  invoke: simple\n  actions: [list]\n  \
                suitable: true\n  attributes:\n    name:\nEND\n";
    let path = place.file("providers/own.prov", text);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let described = place.run(&["-I", ".", "types", "own"]);
    assert!(described.stdout.contains("It was told none none."), "{described:?}");
    let manifest = "resources:\n  exec[a]: {command: 'echo ${KILTER_PROGRAM-none} ${KILTER_HOSTNAME-none} > seen', \
                    shell: true, cwd: DIR}\n";
    let manifest =
        place.file("m.yaml", manifest.replace("DIR", &place.path().display().to_string()).replace("${", "$${"));
    let applied = place.run(&["apply", &manifest]);
    assert_eq!(applied.code, 0, "{applied:?}");
    assert_eq!(fs::read_to_string(place.path().join("seen")).unwrap(), "none none\n");
}
