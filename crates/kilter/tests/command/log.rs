//! The log of kilter's modules.

use crate::support::Place;

const MANIFEST: &str = "resources:\n  exec[go]: { command: [/bin/echo, s3cret] }\n";

#[test]
fn log_shows_programs_with_their_resource_and_without_arguments() {
    let place = Place::new();
    place.file("m.yaml", MANIFEST);
    let silent = place.run(&["apply", "m.yaml"]);
    assert_eq!((silent.code, silent.stderr.as_str()), (0, ""));
    let logged = place.run(&["apply", "m.yaml", "--log", "kilter_process=debug"]);
    assert_eq!((logged.code, logged.stdout.lines().count()), (0, silent.stdout.lines().count()));
    let lines: Vec<&str> = logged.stderr.lines().collect();
    assert!(lines[0].contains("Z DEBUG kilter_process::run [changing exec]: started program=\"/bin/echo\" pid="));
    assert!(lines[1].contains("]: ended program=\"/bin/echo\" pid=") && lines[1].contains(" status="));
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(!place.run(&["apply", "m.yaml", "--log", "trace"]).stderr.contains("s3cret"));
}

#[test]
fn invalid_filter_is_refused_and_the_configuration_file_can_set_it() {
    let place = Place::new();
    let refused = place.run(&["get", "host", "--log", "kilter=loud"]);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("`loud` is not a level: write off, error, warn, info, debug or trace"));
    place.file("kilter.yaml", "log: kilter_process=debug\n");
    place.file("m.yaml", MANIFEST);
    let mut command = place.command(&["apply", "m.yaml"]);
    let configured = place.end(command.env("KILTER_CONFIG", place.path().join("kilter.yaml")));
    assert!(configured.stderr.contains("started program=\"/bin/echo\""), "{}", configured.stderr);
}
