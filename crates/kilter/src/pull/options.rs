//! Options of the command line for a source.

use std::path::{Component, Path, PathBuf};

use super::git::GitCopy;
use super::store::PullStore;
use super::{Signers, VersionOrigin};
use crate::cli::SourceArgs;
use crate::exit::Exit;
use crate::session::Session;
use crate::{durable, output, trust};

/// Maximum size of the file with the allowed signers in bytes.
const MAX_SIGNERS_BYTES: u64 = 1 << 20;

/// Refuses options that decide the manifests as well.
pub(super) fn refuse_others(session: &Session) -> Result<(), Exit> {
    if session.global.mold.is_some() {
        return Err(output::fail_with(
            "--from cannot be used with --mold",
            ["fetch the directory of mold by another program"],
        ));
    }
    if session.record.is_recorded() {
        return Err(output::fail_with(
            "--from cannot be recorded or replayed",
            ["record a command with a manifest of a checkout"],
        ));
    }
    Ok(())
}

/// Refuses options that only git repositories have.
pub(super) fn refuse_git_options(args: &SourceArgs) -> Result<(), Exit> {
    if args.signed_by.is_some() {
        return Err(output::fail_with(
            "--signed-by needs a git repository: a directory has no signatures",
            ["write git+file:// and the path of a repository"],
        ));
    }
    Ok(())
}

/// Returns a git repository as the origin of manifests.
///
/// # Errors
/// If an option cannot be used; reported.
pub(super) fn git_origin(
    args: &SourceArgs,
    (url, protocol): (String, &'static str),
    session: &Session,
    store: &PullStore,
    max_bytes: u64,
) -> Result<VersionOrigin, Exit> {
    let reference = args.reference.clone();
    if !kilter_native::is_git_reference(&reference) {
        let hint = "write the name of a branch or a tag, such as main or v1.0";
        return Err(output::fail_with(format_args!("`{reference}` is no name of a branch or a tag (--ref)"), [hint]));
    }
    let mut is_trusted_directory = false;
    if let Some(path) = url.strip_prefix("file://") {
        // git decodes the URL itself: an encoded path is not checked here, and git refuses other users' repositories.
        match session.trust.directory(Path::new(path)) {
            Ok(_) => is_trusted_directory = true,
            Err(distrust) if distrust.is_missing() => {}
            Err(distrust) => return Err(output::fail(trust::refusal("the repository ", Path::new(path), &distrust))),
        }
    }
    let ssh_config = session.global.remote.ssh_config.as_deref().map(std::path::absolute).transpose();
    let ssh_config = ssh_config.map_err(|error| output::fail(format_args!("--ssh-config: {error}")))?;
    let signers = args.signed_by.as_deref().map(|given| read_signers(given, session, store)).transpose()?;
    let copy = GitCopy::new(store.path("repo.git"), (url, protocol), ssh_config, is_trusted_directory, max_bytes);
    Ok(VersionOrigin::Git { copy, reference, signers, may_rewind: args.allow_rewind })
}

/// Copies the file with the allowed signers, so that git reads the content that was checked.
fn read_signers(given: &Path, session: &Session, store: &PullStore) -> Result<Signers, Exit> {
    let what = "the file of the signers ";
    let bytes = session
        .trust
        .read(given, MAX_SIGNERS_BYTES)
        .map_err(|distrust| output::fail(trust::refusal(what, given, &distrust)))?;
    let is_entry = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    if !String::from_utf8_lossy(&bytes).lines().any(is_entry) {
        return Err(output::fail_with(
            format_args!("{} has no signer (--signed-by)", given.display()),
            ["a line is an address and a public key, such as: ops@example.com ssh-ed25519 AAAA…"],
        ));
    }
    let copy = store.path("signers");
    durable::replace(&copy, &bytes)
        .map_err(|error| output::fail(format_args!("cannot write {}: {error}", copy.display())))?;
    Ok(Signers { given: given.to_owned(), copy })
}

/// Returns a path in the source without `.`.
pub(super) fn relative(path: &Path) -> Result<PathBuf, Exit> {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(part) => clean.push(part),
            Component::CurDir => {}
            _ => {
                let hint = "it is relative to the top of the source, such as web/site.yaml";
                return Err(output::fail_with(
                    format_args!("{} leads out of the source (--path)", path.display()),
                    [hint],
                ));
            }
        }
    }
    Ok(if clean.as_os_str().is_empty() { PathBuf::from(".") } else { clean })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_stays_in_the_source() {
        assert_eq!(relative(Path::new("./a//b.yaml")), Ok("a/b.yaml".into()));
        assert_eq!(relative(Path::new(".")), Ok(".".into()));
        for outside in ["/etc/site.yaml", "../site.yaml", "a/../../b"] {
            assert!(relative(Path::new(outside)).is_err(), "{outside}");
        }
    }
}
