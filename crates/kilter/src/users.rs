//! Names of users.

/// Returns the name of a user from `/etc/passwd`.
pub(crate) fn user_name(uid: u32) -> Option<String> {
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let mut lines = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    lines.find(|parts| parts.get(2) == Some(&uid.to_string().as_str())).map(|parts| parts[0].to_owned())
}
