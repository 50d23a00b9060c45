//! Tests that need a process, or a user, of their own.

use std::process::Command;

const ALONE: &str = "KILTER_TEST_ALONE";

/// Runs `body` in a process with no other test. `test` is the full name of the test that calls this.
pub(crate) fn alone(test: &str, body: impl FnOnce()) {
    within(&[], test, body);
}

/// Runs `body` in a process with its own user and mount namespaces, so that its settings and mounts affect no other
/// process.
pub(crate) fn secluded(test: &str, body: impl FnOnce()) {
    within(&["unshare", "--user", "--map-root-user", "--mount"], test, body);
}

/// Runs `body` in a process of an unprivileged user.
pub(crate) fn unprivileged(test: &str, body: impl FnOnce()) {
    within(&["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"], test, body);
}

fn within(wrapper: &[&str], test: &str, body: impl FnOnce()) {
    if std::env::var_os(ALONE).is_some_and(|name| name == test) {
        return body();
    }
    let program = std::env::current_exe().unwrap();
    let mut words = wrapper.iter().map(|word| word.into()).chain([program.into_os_string()]);
    let mut command = Command::new(words.next().unwrap());
    command.args(words).args(["--exact", test, "--nocapture", "--test-threads=1"]).env(ALONE, test);
    let output = command.output().expect("unshare and setpriv are there: install util-linux");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{command:?}: {}\n{text}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}
