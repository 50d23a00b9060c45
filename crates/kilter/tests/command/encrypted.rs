//! Secrets in encrypted files.

use std::process::Command;

use crate::run::{content, manifest};
use crate::support::*;

/// A place with an identity of age and a secret that is encrypted for it.
fn place() -> Place {
    let place = Place::new();
    std::fs::create_dir(place.path().join("site")).unwrap();
    let run = |args: &[&str]| {
        let output = Command::new(args[0]).args(&args[1..]).current_dir(place.path()).output();
        let output = output.unwrap_or_else(|error| panic!("{}: {error}: install the package age", args[0]));
        assert!(output.status.success(), "{args:?} {output:?}");
    };
    run(&["age-keygen", "-o", "age.key"]);
    place.file("plain", "hunter2\n");
    run(&["sh", "-c", "age -r $(age-keygen -y age.key) -o site/db.age plain"]);
    std::fs::remove_file(place.path().join("plain")).unwrap();
    place
}

#[test]
fn secret_of_age_is_decrypted_and_shown_nowhere() {
    let place = place();
    let text =
        "resources:\n  file[DIR/a]: { content: { sensitive: { age: { file: db.age, identity: DIR/age.key } } } }\n";
    place.file("site/m.yaml", text.replace("DIR", &place.path().display().to_string()));
    for args in [["plan", "site/m.yaml"], ["apply", "site/m.yaml"]] {
        let ended = place.run(&args);
        assert!(!format!("{ended:?}").contains("hunter2"), "{ended:?}");
    }
    assert_eq!(content(&place.path().join("a")), "hunter2");
}

#[test]
fn arguments_of_the_program_contain_no_secret() {
    let place = place();
    place.file(
        "m.yaml",
        format!(
            "vars: {{ pw: {{ sensitive: {{ age: {{ file: site/db.age, identity: {}/age.key }} }} }} }}\nresources:\n  \
             notify[n]: {{ message: \"${{string(size(vars.pw))}}\" }}\n",
            place.path().display()
        ),
    );
    let kilter = place.command(&["check", "m.yaml"]);
    let mut strace = Command::new("strace");
    strace.args(["-f", "-e", "trace=execve", "-s", "4096", "-o"]).arg(place.path().join("trace"));
    strace.arg(kilter.get_program()).args(kilter.get_args()).env_clear().current_dir(place.path());
    strace.envs(kilter.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = strace.output().expect("the package strace is installed");
    assert!(output.status.success(), "{output:?}");
    let trace = content(&place.path().join("trace"));
    assert!(trace.contains("\"--decrypt\", \"--identity\"") && !trace.contains("hunter2"), "{trace}");
}

#[test]
fn failures_name_the_file_and_the_reason() {
    let place = place();
    place.file("other.key", "AGE-SECRET-KEY-1QQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQ\n");
    for (source, expected) in [
        ("{ age: { file: site/db.age, identity: DIR/none.key } }", "none.key"),
        ("{ age: { file: none.age, identity: DIR/age.key } }", "cannot read DIR/none.age"),
        ("{ age: { file: age.key, identity: DIR/age.key } }", "age DIR/age.key: it ended with"),
        ("{ age: { path: site/db.age } }", "`age` is the path of an encrypted file"),
        ("{ agee: site/db.age }", "did you mean `age`?"),
    ] {
        let text = format!("resources:\n  file[DIR/a]: {{ content: {{ sensitive: {source} }} }}\n");
        let path = manifest(&place, &text);
        let ended = place.run(&["plan", &path]);
        assert!(ended.code == 1 && ended.stderr.contains(expected), "{source} {ended:?}");
    }
}

#[test]
fn secret_of_systemd_creds_is_decrypted() {
    // systemd keeps the key of the host in this directory, and the test must not create one.
    assert!(is_root(), "the test mounts a file system: run it as root");
    let place = Place::new();
    let path = manifest(&place, "resources:\n  file[DIR/a]: { content: { sensitive: { systemd_creds: db.cred } } }\n");
    let kilter = place.command(&["apply", &path]);
    let words = "mount -t tmpfs tmpfs /var/lib/systemd && \
                 printf hunter2 | systemd-creds encrypt --with-key=host --name=db - db.cred && exec \"$0\" \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", words]).arg(kilter.get_program()).args(kilter.get_args());
    command.env_clear().envs(kilter.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = command.current_dir(place.path()).output().expect("the package util-linux is installed");
    let shown = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success() && !shown.contains("hunter2"), "{shown}");
    assert_eq!(content(&place.path().join("a")), "hunter2");
}
