//! Keys that sign plans, and trusted keys.

use std::path::{Path, PathBuf};

use kilter_runtime::{PlanKeyError, PrivateKey, PublicKey};

use crate::exit::Exit;
use crate::session::Session;
use crate::{output, paths, trust};

/// Maximum size of the file of a key, in bytes.
const MAX_BYTES: u64 = 64 << 10;

/// Public keys whose signatures are accepted.
pub(super) struct Trusted {
    /// The keys.
    pub(super) keys: Vec<PublicKey>,
    /// Directory of the permanently trusted keys.
    pub(super) place: String,
}

/// Returns the key that signs plans.
///
/// # Errors
/// If it cannot be used; reported.
pub(crate) fn signer(session: &Session, path: Option<&Path>) -> Result<Option<PrivateKey>, Exit> {
    let Some(path) = path else { return Ok(None) };
    let checked = trust::open_as(&session.trust, "the key ", path).map_err(output::fail)?;
    let key = match checked.metadata().is_file() {
        false => Err(PlanKeyError::Refused { path: path.to_owned(), why: "is not a file".to_owned() }),
        true => checked
            .open()
            .map_err(|source| PlanKeyError::Io { path: path.to_owned(), source })
            .and_then(|file| PrivateKey::read(path, file)),
    };
    key.map(Some).map_err(|error| {
        output::fail_with(error, ["make one: `openssl genpkey -algorithm ed25519 -out plan.key` with `umask 077`"])
    })
}

/// Returns the named keys, or those in the directory of trusted keys.
///
/// # Errors
/// If a key cannot be used; reported.
pub(super) fn trusted(session: &Session, named: &[PathBuf]) -> Result<Trusted, Exit> {
    let directory = paths::plan_keys_dir();
    let place =
        directory.as_deref().map_or_else(|| "~/.config/kilter/plan-keys".to_owned(), |path| path.display().to_string());
    let paths = match (named, directory) {
        ([], Some(directory)) => listed(session, &directory)?,
        (named, _) => named.to_vec(),
    };
    let keys = paths.iter().map(|path| {
        let text =
            session.trust.read(path, MAX_BYTES).map_err(|why| output::fail(trust::refusal("the key ", path, &why)))?;
        PublicKey::parse(path, &String::from_utf8_lossy(&text))
            .map_err(|error| output::fail_with(error, ["`openssl pkey -in plan.key -pubout -out plan.pub` makes one"]))
    });
    Ok(Trusted { keys: keys.collect::<Result<_, _>>()?, place })
}

/// Returns the files `*.pub` and `*.pem` of a directory, in order.
fn listed(session: &Session, directory: &Path) -> Result<Vec<PathBuf>, Exit> {
    let fail = |error: std::io::Error| output::fail(format_args!("cannot read {}: {error}", directory.display()));
    match session.trust.directory(directory) {
        Ok(_) => {}
        Err(error) if error.is_missing() => return Ok(Vec::new()),
        Err(error) => return Err(output::fail(trust::refusal("the directory of keys ", directory, &error))),
    }
    let entries = std::fs::read_dir(directory).map_err(fail)?;
    let is_key = |path: &PathBuf| path.extension().is_some_and(|end| end == "pub" || end == "pem");
    let paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>().map_err(fail)?;
    let mut paths: Vec<PathBuf> = paths.into_iter().filter(is_key).collect();
    paths.sort_unstable();
    Ok(paths)
}
