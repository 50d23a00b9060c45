//! Declares, checks and applies as the engine does.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use ecow::EcoString;
use kilter_model::{Attributes, Change, Difference, Value};
use kilter_native::FileProvider;
use kilter_provider::{Context, Found, Mode, Provider, ProviderError, Session, Wanted, canonicalize_one, check};

/// A directory of a test, on the disk rather than in a tmpfs, with attributes for every file.
pub(crate) fn directory() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("kilter-test").tempdir_in("/var/tmp").expect("/var/tmp is writable")
}

/// A declared file.
pub(crate) struct DeclaredFile {
    pub(crate) name: EcoString,
    pub(crate) should: Attributes,
}

/// Declares a file; the declaration must be right.
pub(crate) fn file<const N: usize>(path: impl AsRef<Path>, attributes: [(&str, Value); N]) -> DeclaredFile {
    let name = EcoString::from(path.as_ref().to_str().expect("paths of tests are UTF-8"));
    let mut should: Attributes = attributes.into_iter().collect();
    let provider = FileProvider::new();
    for (attribute, value) in should.iter() {
        let schema = provider.schema().find(attribute.as_str()).expect("the attribute exists");
        schema.data_type.check(value).expect("the value is of its type");
    }
    assert_eq!(provider.validate(&name, &should, &[]), [], "{name}");
    canonicalize_one(&provider, &Context::empty(), &mut name.clone(), &mut should)
        .expect("the declaration is canonical");
    DeclaredFile { name, should }
}

pub(crate) fn found(cx: &Context<'_>, declared: &DeclaredFile) -> Result<Found, ProviderError> {
    let wanted = Wanted::new(&declared.name, Some(&declared.should));
    check(&FileProvider::new(), cx, &[wanted]).remove(0)
}

/// Returns the differences.
pub(crate) fn plan(declared: &DeclaredFile) -> Vec<Difference> {
    found(&Context::empty(), declared).expect("it can be read").differences
}

/// `attribute` or `attribute of entry` for each difference.
pub(crate) fn told(differences: &[Difference]) -> Vec<String> {
    let tell = |difference: &Difference| match &difference.entry {
        Some(entry) => format!("{} of {entry}: {} -> {}", difference.attribute, difference.is, difference.should),
        None => difference.attribute.to_string(),
    };
    differences.iter().map(tell).collect()
}

/// Checks, applies what differs and checks again, as the engine does. Returns what had differed.
pub(crate) fn apply_in(cx: &Context<'_>, declared: &DeclaredFile) -> Result<Vec<Difference>, String> {
    let provider = FileProvider::new();
    let found = found(cx, declared).map_err(|error| error.to_string())?;
    if found.differences.is_empty() {
        return Ok(Vec::new());
    }
    let change = Change::new(&declared.name, &found.state, Some(&declared.should), &found.differences);
    let outcome = provider.set(cx, &[change], Mode::Apply).remove(0);
    if let Some(failure) = outcome.failure {
        return Err(failure.to_string());
    }
    provider.flush(cx).map_err(|error| error.to_string())?;
    let again = self::found(cx, declared).map_err(|error| error.to_string())?;
    assert_eq!(again.differences, [], "{} is in its state after it was applied", declared.name);
    Ok(found.differences)
}

pub(crate) fn apply(declared: &DeclaredFile) -> Result<Vec<Difference>, String> {
    apply_in(&Context::empty(), declared)
}

/// Applies and expects no failure.
pub(crate) fn converge(declared: &DeclaredFile) -> Vec<Difference> {
    apply(declared).unwrap_or_else(|failure| panic!("{}: {failure}", declared.name))
}

pub(crate) fn text(text: &str) -> Value {
    Value::from(text)
}

pub(crate) fn yes() -> Value {
    Value::from(true)
}

pub(crate) fn path_text(path: &Path) -> Value {
    Value::from(path.to_str().expect("paths of tests are UTF-8"))
}

/// Returns the mode of a path without following links.
pub(crate) fn mode(path: impl AsRef<Path>) -> u32 {
    std::fs::symlink_metadata(path).expect("it is there").permissions().mode() & 0o7777
}

pub(crate) fn set_mode(path: impl AsRef<Path>, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("it is ours");
}

pub(crate) fn owner(path: impl AsRef<Path>) -> (u32, u32) {
    let metadata = std::fs::symlink_metadata(path).expect("it is there");
    (metadata.uid(), metadata.gid())
}

/// The names in a directory, sorted.
pub(crate) fn names(path: impl AsRef<Path>) -> Vec<String> {
    let entries = std::fs::read_dir(path).expect("it is a directory");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Writes files below a directory, directories included.
pub(crate) fn grow(root: &Path, files: &[(&str, &str)]) {
    for (path, content) in files {
        let path: PathBuf = root.join(path);
        std::fs::create_dir_all(path.parent().expect("below the root")).expect("writable");
        std::fs::write(path, content).expect("writable");
    }
}

/// Gives a path an access control list of tags, permissions and ids.
pub(crate) fn set_access_list(path: &Path, entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut list = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        list.extend([tag.to_le_bytes(), permissions.to_le_bytes()].concat());
        list.extend(id.to_le_bytes());
    }
    rustix::fs::setxattr(path, "system.posix_acl_access", &list, rustix::fs::XattrFlags::empty()).expect("it is ours");
    list
}

/// The access control list of a path.
pub(crate) fn access_list(path: &Path) -> Vec<u8> {
    let mut list = vec![0; 256];
    let count = rustix::fs::getxattr(path, "system.posix_acl_access", &mut list[..]).expect("it has one");
    list.truncate(count);
    list
}

/// Fails unless the test runs as root.
pub(crate) fn need_root() {
    assert!(
        rustix::process::geteuid().is_root(),
        "this test changes owners: run it as root, for example `sudo -E cargo test -p kilter-native`"
    );
}

/// Runs one ignored test of this binary as the unprivileged user `nobody`.
pub(crate) fn as_nobody(test: &str, directory: &Path) {
    need_root();
    let itself = std::env::current_exe().expect("the test knows its program");
    // The build directory may be closed to others.
    let program = directory.join("test-program");
    // Copied by this process, another test could start a child that keeps it from being run.
    let copied = std::process::Command::new("cp").args([&itself, &program]).status();
    assert!(copied.expect("cp is missing: install coreutils").success());
    set_mode(&program, 0o755);
    run_ignored("setpriv", &["--reuid=65534", "--regid=65534", "--clear-groups"], &program, test, directory);
}

/// Runs one ignored test of this binary in a process with this umask, which all tests of one process share.
pub(crate) fn with_umask(umask: &str, test: &str, directory: &Path) {
    let itself = std::env::current_exe().expect("the test knows its program");
    run_ignored("sh", &["-c", &format!("umask {umask}; exec \"$0\" \"$@\"")], &itself, test, directory);
}

/// Runs one ignored test of this binary where its mounts are its own.
pub(crate) fn in_own_mounts(test: &str, directory: &Path) {
    need_root();
    let itself = std::env::current_exe().expect("the test knows its program");
    run_ignored("unshare", &["--mount", "--propagation", "private"], &itself, test, directory);
}

fn run_ignored(tool: &str, options: &[&str], program: &Path, test: &str, directory: &Path) {
    let output = std::process::Command::new(tool)
        .args(options)
        .arg(program)
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env("KILTER_TEST_DIRECTORY", directory)
        .current_dir("/")
        .output()
        .unwrap_or_else(|_| panic!("{tool} is missing: install the package util-linux"));
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

/// The directory that [`as_nobody`], [`with_umask`] or [`in_own_mounts`] gave.
pub(crate) fn given_directory() -> PathBuf {
    std::env::var_os("KILTER_TEST_DIRECTORY").expect("started by another test").into()
}
