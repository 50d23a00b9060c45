//! Trust rule of a command: the users that may decide what kilter does.

use std::path::Path;

use kilter_process::trust::{Distrust, TrustPolicy, TrustedFile};

use crate::cli::Global;
use crate::exit::Exit;
use crate::{output, paths};

/// Returns the policy of a command line, with the paths of `--trust`.
///
/// # Errors
/// If a path does not exist; reported.
pub(crate) fn policy(global: &Global) -> Result<TrustPolicy, Exit> {
    let mut policy = usual();
    for path in &global.trust {
        policy = policy.with_path(path).map_err(|error| {
            let hint = "name a file or a directory whose owners may control kilter";
            output::fail_with(format_args!("cannot trust {}: {error}", path.display()), [hint])
        })?;
    }
    Ok(policy)
}

/// Returns the default policy. Root trusts itself and, like git, the user who became root by sudo: a user who may
/// run kilter as root already decides what it does.
pub(crate) fn usual() -> TrustPolicy {
    let policy = TrustPolicy::current();
    match sudo_user().filter(|_| paths::is_root()) {
        Some(uid) => policy.with_user(uid),
        None => policy,
    }
}

fn sudo_user() -> Option<u32> {
    std::env::var("SUDO_UID").ok()?.parse().ok()
}

/// Opens a file that decides what kilter does; `what` names its role.
///
/// # Errors
/// One line with the path of the file and the problem.
pub(crate) fn open_as(policy: &TrustPolicy, what: &str, path: &Path) -> Result<TrustedFile, String> {
    policy.open(path).map_err(|distrust| refusal(what, path, &distrust))
}

/// Returns the reason why a file is not used, on one line.
pub(crate) fn refusal(what: &str, path: &Path, distrust: &Distrust) -> String {
    match distrust {
        Distrust::Io { source, .. } => format!("cannot read {what}{}: {source}", path.display()),
        Distrust::Changeable { .. } => format!("{what}{}: {distrust}", path.display()),
    }
}
