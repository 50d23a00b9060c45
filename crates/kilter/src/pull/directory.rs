//! A directory as a source of manifests. Its file `SHA256SUMS` lists all files of a version with their digests, so that
//! a version is complete only if each file has its digest, in whatever order another program writes them.

use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use kilter_process::trust::TrustPolicy;

use super::FetchError;
use crate::trust;

/// Name of the file with the digests.
pub(super) const SUMS: &str = "SHA256SUMS";
/// Maximum size of the file with the digests in bytes.
const MAX_SUMS_BYTES: u64 = 16 << 20;

/// Digest and relative path of each file of a version.
#[derive(Debug)]
pub(super) struct FileSums {
    files: Vec<(String, PathBuf)>,
    /// Digest of the list, which identifies the version.
    pub(super) digest: String,
}

/// Reads the digests of a directory.
pub(super) fn sums(directory: &Path, trust: &TrustPolicy) -> Result<FileSums, FetchError> {
    let path = directory.join(SUMS);
    let bytes = trust.read(&path, MAX_SUMS_BYTES).map_err(|distrust| match distrust.is_missing() {
        true => FetchError::unavailable(format!(
            "{} does not exist; write it after each change: find . -type f ! -name {SUMS} -exec sha256sum {{}} + \
             >{SUMS}",
            path.display()
        )),
        false => FetchError::unavailable(trust::refusal("", &path, &distrust)),
    })?;
    let digest = kilter_history::sha256(&bytes);
    let wrong = |line: usize| {
        FetchError::unavailable(format!(
            "{}:{line}: a line is a SHA-256 digest, two spaces and a path below the directory",
            path.display()
        ))
    };
    let text = String::from_utf8(bytes).map_err(|_| wrong(1))?;
    let parse = |(at, line): (usize, &str)| parse(line).ok_or_else(|| wrong(at + 1));
    let files = text.lines().enumerate().map(parse).collect::<Result<Vec<_>, FetchError>>()?;
    match files.is_empty() {
        true => Err(FetchError::unavailable(format!("{} lists no file", path.display()))),
        false => Ok(FileSums { files, digest }),
    }
}

/// Parses a line of sha256sum(1). It marks names with a line break by a backslash, which is refused.
fn parse(line: &str) -> Option<(String, PathBuf)> {
    let (digest, rest) = line.split_at_checked(64)?;
    let name = rest.strip_prefix("  ").or_else(|| rest.strip_prefix(" *"))?;
    let is_digest = digest.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    let mut path = PathBuf::new();
    for component in Path::new(name).components() {
        match component {
            Component::Normal(part) => path.push(part),
            Component::CurDir => {}
            _ => return None,
        }
    }
    (is_digest && !path.as_os_str().is_empty()).then(|| (digest.to_owned(), path))
}

/// Copies the files of a version.
///
/// # Errors
/// If a file does not have its digest, or the version has more than `max_bytes`.
pub(super) fn copy(
    sums: &FileSums,
    from: &Path,
    to: &Path,
    trust: &TrustPolicy,
    max_bytes: u64,
) -> Result<(), FetchError> {
    let mut left = max_bytes;
    for (digest, path) in &sums.files {
        let source = from.join(path);
        let cannot =
            |why: &dyn std::fmt::Display| FetchError::unavailable(format!("cannot read {}: {why}", source.display()));
        let opened = trust.open(&source).map_err(|why| FetchError::unavailable(trust::refusal("", &source, &why)))?;
        let is_program = opened.metadata().permissions().mode() & 0o111 != 0;
        if opened.metadata().len() > left {
            return Err(FetchError::rejected(format!("its files have more than {} MiB (--max-size)", max_bytes >> 20)));
        }
        let bytes = opened.read(left).map_err(|error| cannot(&error))?;
        left = left.saturating_sub(bytes.len() as u64);
        if kilter_history::sha256(&bytes) != *digest {
            return Err(FetchError::unavailable(format!(
                "{} is not complete: {} does not have its digest in {SUMS}; an update may be in progress",
                from.display(),
                path.display()
            )));
        }
        let target = to.join(path);
        let written = target.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| {
            let mode = if is_program { 0o700 } else { 0o600 };
            let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&target)?;
            file.write_all(&bytes)
        });
        written.map_err(|error| FetchError::unavailable(format!("cannot write {}: {error}", target.display())))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_sha256sum() {
        let digest = "0123456789abcdef".repeat(4);
        for name in ["  site.yaml", " *site.yaml", "  ./site.yaml"] {
            assert_eq!(parse(&format!("{digest}{name}")), Some((digest.clone(), "site.yaml".into())), "{name}");
        }
        for line in ["", "../a", "  /a", "  ../a", "  a/../../b", "  .", " a", "\\"] {
            assert_eq!(parse(&format!("{digest}{line}")), None, "{line}");
        }
        assert_eq!(parse(&format!("{}  a", "x".repeat(64))), None);
    }

    #[test]
    fn version_is_complete_only_with_all_digests() {
        let place = tempfile::tempdir().unwrap();
        let (from, trust) = (place.path().join("from"), TrustPolicy::current());
        std::fs::create_dir_all(from.join("sub")).unwrap();
        assert!(sums(&from, &trust).unwrap_err().why.contains("sha256sum"));
        std::fs::write(from.join("a"), "one").unwrap();
        std::fs::write(from.join("sub/b"), "two").unwrap();
        let line = |name: &str, text: &str| format!("{}  ./{name}\n", kilter_history::sha256(text.as_bytes()));
        std::fs::write(from.join(SUMS), line("a", "one") + &line("sub/b", "new")).unwrap();
        let to = |name: &str| {
            let to = place.path().join(name);
            std::fs::create_dir(&to).unwrap();
            to
        };
        let incomplete = copy(&sums(&from, &trust).unwrap(), &from, &to("1"), &trust, 100).unwrap_err();
        assert!(
            !incomplete.is_rejected && incomplete.why.contains("sub/b does not have its digest"),
            "{}",
            incomplete.why
        );
        std::fs::write(from.join("sub/b"), "new").unwrap();
        let all = sums(&from, &trust).unwrap();
        let target = to("2");
        copy(&all, &from, &target, &trust, 6).unwrap();
        assert_eq!(std::fs::read(target.join("sub/b")).unwrap(), b"new");
        assert!(copy(&all, &from, &to("3"), &trust, 5).unwrap_err().is_rejected);
    }
}
