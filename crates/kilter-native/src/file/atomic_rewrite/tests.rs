use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use rustix::fs::{CWD, FileType, Mode, XattrFlags, getxattr, mknodat, setxattr};

use super::*;

struct WholeFileBench {
    scratch: tempfile::TempDir,
    path: String,
}

impl WholeFileBench {
    fn new() -> WholeFileBench {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("hosts").to_str().unwrap().to_owned();
        std::fs::write(&path, "old").unwrap();
        WholeFileBench { scratch, path }
    }

    fn names(&self) -> Vec<String> {
        let names = std::fs::read_dir(self.scratch.path()).unwrap();
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    fn replace(&self, whole: AtomicRewrite) -> Result<Vec<String>, AtomicRewriteError> {
        whole.replace(b"new", 0o644, &Context::empty())
    }
}

#[test]
fn file_swapped_after_read_is_not_replaced() {
    let bench = WholeFileBench::new();
    let secret = bench.scratch.path().join("shadow");
    std::fs::write(&secret, "secret").unwrap();
    let whole = AtomicRewrite::open(&bench.path).unwrap();
    assert_eq!(whole.bytes(), b"old");
    std::fs::remove_file(&bench.path).unwrap();
    symlink(&secret, &bench.path).unwrap();
    let why = bench.replace(whole).unwrap_err().to_string();
    assert!(why.contains("replaced by another program"), "{why}");
    assert_eq!(std::fs::read(&secret).unwrap(), b"secret");
    assert_eq!(bench.names().len(), 2);
}

#[test]
fn file_written_after_read_is_not_replaced() {
    let bench = WholeFileBench::new();
    let whole = AtomicRewrite::open(&bench.path).unwrap();
    std::fs::write(&bench.path, "older").unwrap();
    assert!(bench.replace(whole).is_err());
    assert_eq!(std::fs::read(&bench.path).unwrap(), b"older");
}

#[test]
fn write_of_same_size_and_time_is_not_replaced() {
    let bench = WholeFileBench::new();
    let whole = AtomicRewrite::open(&bench.path).unwrap();
    let time = std::fs::metadata(&bench.path).unwrap().modified().unwrap();
    std::fs::write(&bench.path, "odd").unwrap();
    std::fs::File::options().write(true).open(&bench.path).unwrap().set_modified(time).unwrap();
    assert!(bench.replace(whole).unwrap_err().is_changed());
    assert_eq!(std::fs::read(&bench.path).unwrap(), b"odd");
}

#[test]
fn file_created_meanwhile_is_not_replaced() {
    let bench = WholeFileBench::new();
    std::fs::remove_file(&bench.path).unwrap();
    let whole = AtomicRewrite::open(&bench.path).unwrap();
    std::fs::write(&bench.path, "theirs").unwrap();
    let why = bench.replace(whole).unwrap_err().to_string();
    assert!(why.contains("appeared"), "{why}");
    assert_eq!(std::fs::read(&bench.path).unwrap(), b"theirs");
}

#[test]
fn file_swapped_at_the_last_moment_is_restored() {
    let bench = WholeFileBench::new();
    let whole = AtomicRewrite::open(&bench.path).unwrap();
    let bits = Ownership { bits: Some(0o644), ..Ownership::default() };
    let staged = stage(&whole.parent, b"hosts", &Data::Bytes(b"new"), bits, None, &AclPolicy::Keep).unwrap();
    let error = staged.temporary.replace_only(b"hosts", |_| false).unwrap_err();
    assert!(matches!(error, FileError::Swapped(_)), "{error}");
    assert_eq!(std::fs::read(&bench.path).unwrap(), b"old");
    assert_eq!(bench.names(), ["hosts"]);
}

#[test]
fn only_the_file_that_was_read_is_removed() {
    let bench = WholeFileBench::new();
    let whole = AtomicRewrite::open(&bench.path).unwrap();
    std::fs::write(&bench.path, "odd").unwrap();
    assert!(whole.remove(&Context::empty()).unwrap_err().is_changed());
    let parent = Rc::new(open::open_parent(&bench.path).unwrap());
    let swapped = remove_only(&parent, b"hosts", |_| false).unwrap_err();
    assert!(matches!(swapped, FileError::Swapped(_)), "{swapped}");
    assert_eq!((std::fs::read(&bench.path).unwrap(), bench.names().len()), (b"odd".to_vec(), 1));
    AtomicRewrite::open(&bench.path).unwrap().remove(&Context::empty()).unwrap();
    assert_eq!(bench.names(), Vec::<String>::new());
    AtomicRewrite::open(&bench.path).unwrap().remove(&Context::empty()).unwrap();
}

#[test]
fn a_fifo_in_its_place_is_refused_at_once() {
    let bench = WholeFileBench::new();
    std::fs::remove_file(&bench.path).unwrap();
    mknodat(CWD, &bench.path, FileType::Fifo, Mode::RWXU, 0).unwrap();
    for refused in [read(&bench.path).err(), AtomicRewrite::open(&bench.path).err()] {
        let why = refused.unwrap().to_string();
        assert!(why.contains("is not a regular file but a fifo"), "{why}");
    }
}

#[test]
fn link_is_read_only_in_closed_directory_and_never_replaced() {
    let bench = WholeFileBench::new();
    let link = format!("{}.link", bench.path);
    symlink(&bench.path, &link).unwrap();
    assert!(AtomicRewrite::open(&link).err().unwrap().to_string().contains("is not a regular file but a link"));
    assert_eq!(read(&link).unwrap().unwrap(), b"old");
    std::fs::set_permissions(bench.scratch.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let why = read(&link).unwrap_err().to_string();
    assert!(why.contains("other users can write to its directory"), "{why}");
}

#[test]
fn rewrite_keeps_attributes_and_removes_old_temporaries() {
    let bench = WholeFileBench::new();
    std::fs::set_permissions(&bench.path, PermissionsExt::from_mode(0o640)).unwrap();
    setxattr(&bench.path, "user.kilter", b"x", XattrFlags::empty()).unwrap();
    // A file of the first process of an earlier boot.
    let litter = bench.scratch.path().join(".kilter.1-0-1-0000000000000001");
    std::fs::write(&litter, "").unwrap();
    std::fs::File::open(&litter).unwrap().set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(bench.replace(AtomicRewrite::open(&bench.path).unwrap()).unwrap(), Vec::<String>::new());
    assert_eq!(std::fs::read(&bench.path).unwrap(), b"new");
    assert_eq!(std::fs::metadata(&bench.path).unwrap().mode() & 0o7777, 0o640);
    let mut value = [0; 8];
    assert_eq!(getxattr(&bench.path, "user.kilter", &mut value[..]), Ok(1));
    assert_eq!(bench.names(), ["hosts"]);
}

#[test]
fn file_that_cannot_be_renamed_is_written_in_place() {
    let bench = WholeFileBench::new();
    let inode = std::fs::metadata(&bench.path).unwrap().ino();
    let whole = AtomicRewrite::open(&bench.path).unwrap();
    whole.write_in_place(whole.old.as_ref().unwrap(), b"n", true).unwrap();
    assert_eq!(std::fs::read(&bench.path).unwrap(), b"n");
    assert_eq!(std::fs::metadata(&bench.path).unwrap().ino(), inode);
}
