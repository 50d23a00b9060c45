//! The type `mount` with real file systems.

use std::path::Path;

use kilter_testkit::hosts::sandboxed;

use crate::host_with_kilter;

#[test]
fn mounts_converge_and_are_held() {
    sandboxed("mounts::mounts_converge_and_are_held", || {
        let host = host_with_kilter("keeper");
        let path = |of: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join(of).canonicalize().unwrap();
        let (test, functions) = (path("tests/host/mounts.test"), path("../../providers/testing.bash"));
        host.copy(&[(&test, "/srv/providers/mounts.test"), (&functions, "/srv/providers/testing.bash")]);
        let answer = host.run(&["env", "KILTER=/usr/local/bin/kilter", "bash", "/srv/providers/mounts.test"]);
        assert_eq!(answer.code, 0, "{}{}", answer.stdout, answer.stderr);
        // A test that ended before its end has held nothing.
        let checks = answer.stdout.lines().last().and_then(|line| line.strip_suffix(" checks, 0 failed"));
        let is_complete = checks.is_some_and(|checks| checks.parse::<u32>().is_ok_and(|checks| checks > 40));
        assert!(is_complete, "{}{}", answer.stdout, answer.stderr);
    });
}
