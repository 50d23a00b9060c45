use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use kilter_provider::Found;
use tar::{Builder, EntryType, Header};

use super::*;

mod zip;

/// A directory to unpack to, an archive beside it and a state directory.
struct ArchiveBench {
    home: tempfile::TempDir,
    state: tempfile::TempDir,
    provider: ArchiveProvider,
}

impl ArchiveBench {
    fn new(archive: &[u8]) -> ArchiveBench {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("to")).unwrap();
        fs::write(home.path().join("archive"), archive).unwrap();
        ArchiveBench { home, state: tempfile::tempdir().unwrap(), provider: ArchiveProvider::default() }
    }

    fn to(&self, path: &str) -> PathBuf {
        self.home.path().join("to").join(path)
    }

    fn archive(&self) -> PathBuf {
        self.home.path().join("archive")
    }

    fn content(&self, path: &str) -> String {
        fs::read_to_string(self.to(path)).unwrap()
    }

    fn should(&self, more: &[(&str, Value)]) -> Attributes {
        let to = self.home.path().join("to");
        let mut should =
            Attributes::from_iter([("ensure", Value::from("present")), ("extract_path", to.to_str().unwrap().into())]);
        for (name, value) in more {
            should.set(*name, value.clone());
        }
        should
    }

    fn name(&self) -> EcoString {
        self.archive().to_str().unwrap().into()
    }

    fn found(&self, should: &Attributes) -> Result<Found, EcoString> {
        let cx = Context::empty().with_var_dir(Some(self.state.path()));
        let name = self.name();
        check(&self.provider, &cx, &[Wanted::new(&name, Some(should))]).remove(0).map_err(|error| error.message)
    }

    fn set(&self, should: &Attributes) -> Outcome {
        let cx = Context::empty().with_var_dir(Some(self.state.path()));
        let is = State::absent(self.name());
        let name = self.name();
        self.provider.set(&cx, &[Change::new(&name, &is, Some(should), &[])], Mode::Apply).remove(0)
    }

    #[track_caller]
    fn converge(&self, should: &Attributes) {
        assert_ne!(self.found(should).unwrap().differences, []);
        assert_eq!(self.set(should), Outcome::done());
        assert_eq!(self.found(should).unwrap().differences, []);
    }

    #[track_caller]
    fn differs(&self, should: &Attributes) -> String {
        self.found(should).unwrap().differences.remove(0).message.unwrap_or_default().into()
    }

    /// Expects that the archive is refused, and that nothing is unpacked.
    #[track_caller]
    fn refuses(&self, why: &str) {
        let failure = self.set(&self.should(&[])).failure.unwrap_or_default();
        assert!(failure.contains(why), "{failure}");
        assert_eq!(fs::read_dir(self.to("")).unwrap().count(), 0, "nothing is unpacked");
    }
}

/// Adds a member with any path, as a hostile author does.
fn add(builder: &mut Builder<Vec<u8>>, kind: EntryType, path: &str, link: &str, mode: u32, content: &str) {
    let mut header = Header::new_gnu();
    let fields = header.as_gnu_mut().unwrap();
    fields.name[..path.len()].copy_from_slice(path.as_bytes());
    fields.linkname[..link.len()].copy_from_slice(link.as_bytes());
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(1234);
    header.set_gid(1234);
    header.set_size(content.len() as u64);
    header.set_cksum();
    builder.append(&header, content.as_bytes()).unwrap();
}

fn tarball(members: &[(EntryType, &str, &str, u32, &str)]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (kind, path, link, mode, content) in members {
        add(&mut builder, *kind, path, link, *mode, content);
    }
    builder.into_inner().unwrap()
}

const FILE: EntryType = EntryType::Regular;

fn tool() -> Vec<u8> {
    tarball(&[
        (EntryType::Directory, "tool-1/", "", 0o777, ""),
        (FILE, "tool-1/bin/tool", "", 0o4775, "program"),
        (FILE, "tool-1/README", "", 0o644, "text"),
        (EntryType::Symlink, "tool-1/link", "bin/tool", 0, ""),
        (EntryType::Link, "tool-1/copy", "tool-1/bin/tool", 0o755, ""),
    ])
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Sets an access list that gives user 4711 all rights, as far as the mask permits them.
fn open_to_stranger(path: &Path, name: &str) {
    use kilter_process::acl::{AclEntry, GROUP_OBJ, MASK, NO_ID, OTHER, USER, USER_OBJ, encode};
    let entries = [(USER_OBJ, 7, NO_ID), (USER, 7, 4711), (GROUP_OBJ, 5, NO_ID), (MASK, 7, NO_ID), (OTHER, 0, NO_ID)];
    let list: Vec<_> = entries.iter().map(|&(tag, permissions, id)| AclEntry { tag, permissions, id }).collect();
    rustix::fs::setxattr(path, name, &encode(&list), rustix::fs::XattrFlags::empty()).unwrap();
}

fn has_list(path: &Path) -> bool {
    ["access", "default"]
        .iter()
        .any(|which| rustix::fs::getxattr(path, format!("system.posix_acl_{which}"), &mut [0_u8; 256][..]).is_ok())
}

#[test]
fn members_have_no_access_lists_of_another_user() {
    let members = [
        (EntryType::Directory, "d/", "", 0o750, ""),
        (FILE, "d/secret", "", 0o640, "s"),
        (FILE, "other", "", 0o600, ""),
    ];
    let bench = ArchiveBench::new(&tarball(&members));
    let should = bench.should(&[]);
    let all = || [bench.to("d"), bench.to("d/secret"), bench.to("other")];
    open_to_stranger(&bench.to(""), "system.posix_acl_default");
    bench.converge(&should);
    assert!(all().iter().all(|path| !has_list(path)), "a new member inherits no list");
    for path in [bench.to("d"), bench.to("d/secret")] {
        let mode = mode(&path);
        open_to_stranger(&path, "system.posix_acl_access");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        bench.converge(&should);
        assert!(!has_list(&path), "{}", path.display());
    }
}

#[test]
fn archive_is_unpacked_and_damages_are_repaired() {
    let bench = ArchiveBench::new(&tool());
    let should = bench.should(&[("strip_components", 1.into())]);
    bench.converge(&should);
    assert_eq!(
        (bench.content("bin/tool"), bench.content("link"), bench.content("copy")),
        ("program".into(), "program".into(), "program".into())
    );
    assert_eq!((mode(&bench.to("bin/tool")), mode(&bench.to("bin")), mode(&bench.to("README"))), (0o755, 0o755, 0o644));
    assert_eq!(fs::metadata(bench.to("README")).unwrap().uid(), rustix::process::geteuid().as_raw());
    fs::write(bench.to("own"), "stays").unwrap();
    for damage in [
        (|bench: &ArchiveBench| fs::write(bench.to("README"), "TEXT").unwrap()) as fn(&ArchiveBench),
        |bench| fs::remove_file(bench.to("link")).unwrap(),
        |bench| fs::set_permissions(bench.to("bin/tool"), PermissionsExt::from_mode(0o4755)).unwrap(),
        |bench| fs::remove_dir_all(bench.to("bin")).unwrap(),
        |bench| {
            fs::remove_file(bench.to("README")).unwrap();
            symlink("/etc/passwd", bench.to("README")).unwrap();
        },
    ] {
        damage(&bench);
        assert!(bench.differs(&should).starts_with("differing files: "));
        bench.converge(&should);
    }
    assert_eq!((bench.content("README"), bench.content("own")), ("text".into(), "stays".into()));
    assert!(!bench.home.path().join("to/tool-1").exists());
}

#[test]
fn archive_without_any_file_in_its_directory_is_absent() {
    let bench = ArchiveBench::new(&tool());
    let should = bench.should(&[("strip_components", 1.into())]);
    let missing = bench.differs(&should);
    fs::create_dir_all(bench.to("")).unwrap();
    fs::write(bench.to("own"), "stays").unwrap();
    assert_eq!(bench.differs(&should), missing);
    fs::write(bench.to("README"), "other").unwrap();
    assert!(bench.differs(&should).starts_with("differing files: "));
}

#[test]
fn formats_are_recognised_by_their_content() {
    let plain = tool();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(&plain).unwrap();
    let zstd = |bytes: &[u8]| ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest);
    let (first, second) = plain.split_at(1000);
    let xz = {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("x"), &plain).unwrap();
        let status = std::process::Command::new("xz").arg(place.path().join("x")).status().expect("xz is installed");
        assert!(status.success());
        fs::read(place.path().join("x.xz")).unwrap()
    };
    for archive in [plain.clone(), gzip.finish().unwrap(), xz, zstd(&plain), [zstd(first), zstd(second)].concat()] {
        let bench = ArchiveBench::new(&archive);
        bench.converge(&bench.should(&[]));
        assert_eq!(bench.content("tool-1/copy"), "program");
    }
    for (magic, why) in [
        (&b"PK\x03\x04...."[..], "it has no central directory"),
        (b"BZh91AY", "bzip2 archives"),
        (b"", "is no tar or zip archive"),
    ] {
        ArchiveBench::new(magic).refuses(why);
    }
    let mut damaged = gzip_of(&plain);
    damaged.truncate(60);
    ArchiveBench::new(&damaged).refuses("the archive is damaged");
}

fn gzip_of(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

#[test]
fn hostile_members_are_refused() {
    let good = (FILE, "good", "", 0o644, "good");
    for (member, why) in [
        ((FILE, "/etc/evil", "", 0o644, "x"), "its path is absolute"),
        ((FILE, "../evil", "", 0o644, "x"), "contains `..`"),
        ((FILE, "a/../../evil", "", 0o644, "x"), "contains `..`"),
        ((EntryType::Symlink, "a", "/etc", 0, ""), "leaves the directory"),
        ((EntryType::Symlink, "a/b", "../../etc", 0, ""), "leaves the directory"),
        ((EntryType::Link, "a", "/etc/shadow", 0, ""), "its path is absolute"),
        ((EntryType::Link, "a", "../shadow", 0, ""), "contains `..`"),
        ((EntryType::Char, "a", "", 0o666, ""), "it is a device"),
        ((EntryType::Block, "a", "", 0o666, ""), "it is a device"),
        ((EntryType::Fifo, "a", "", 0o666, ""), "it is a FIFO"),
        ((EntryType::GNUSparse, "a", "", 0o666, ""), "sparse"),
    ] {
        ArchiveBench::new(&tarball(&[good, member])).refuses(why);
    }
    // A long name is bounded, and a second size smuggles no member.
    let mut builder = Builder::new(Vec::new());
    add(&mut builder, EntryType::GNULongName, "././@LongLink", "", 0o644, &"x".repeat(100_000));
    ArchiveBench::new(&builder.into_inner().unwrap()).refuses("a header is longer than");
    let mut builder = Builder::new(Vec::new());
    add(&mut builder, EntryType::XHeader, "pax", "", 0o644, "12 size=512\n");
    add(&mut builder, FILE, "a", "", 0o644, "x");
    ArchiveBench::new(&builder.into_inner().unwrap()).refuses("has two sizes");
}

#[test]
fn members_are_not_written_through_links() {
    let bench = ArchiveBench::new(&tarball(&[
        (EntryType::Symlink, "a", "b", 0, ""),
        (FILE, "b/x", "", 0o644, "first"),
        (FILE, "a/x", "", 0o644, "through"),
    ]));
    let failure = bench.set(&bench.should(&[])).failure.unwrap();
    assert!(failure.contains("/to/a"), "{failure}");
    assert_eq!(bench.content("b/x"), "first");
    // A user of the directory plants links.
    let bench = ArchiveBench::new(&tarball(&[(FILE, "a/x", "", 0o644, "new"), (FILE, "y", "", 0o644, "new")]));
    let outside = bench.home.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("x"), "precious").unwrap();
    symlink(&outside, bench.to("a")).unwrap();
    symlink(outside.join("x"), bench.to("y")).unwrap();
    assert!(bench.set(&bench.should(&[])).failure.is_some());
    fs::remove_file(bench.to("a")).unwrap();
    bench.converge(&bench.should(&[]));
    assert_eq!(fs::read_to_string(outside.join("x")).unwrap(), "precious");
    assert_eq!(bench.content("y"), "new");
    // A link in place of the directory.
    let bench = ArchiveBench::new(&tool());
    fs::remove_dir(bench.to("")).unwrap();
    symlink("/var/tmp", bench.home.path().join("to")).unwrap();
    assert!(bench.set(&bench.should(&[])).failure.is_some());
}

#[test]
fn creates_decides_without_the_archive() {
    let bench = ArchiveBench::new(&tool());
    let creates = ("creates", Value::from(bench.to("tool-1/README").to_str().unwrap()));
    let should = bench.should(&[creates]);
    bench.converge(&should);
    fs::write(bench.to("tool-1/README"), "other").unwrap();
    fs::remove_file(bench.archive()).unwrap();
    assert_eq!(bench.found(&should).unwrap().differences, []);
    fs::remove_file(bench.to("tool-1/README")).unwrap();
    let failure = bench.set(&should).failure.unwrap();
    assert!(failure.contains("there is no archive"), "{failure}");
}

#[test]
fn archive_without_the_path_of_creates_fails() {
    let bench = ArchiveBench::new(&tool());
    let gone = bench.to("gone").to_str().unwrap().to_owned();
    let failure = bench.set(&bench.should(&[("creates", gone.as_str().into())])).failure.unwrap();
    assert_eq!(failure, format!("the archive is unpacked, and {gone} does not exist: correct `creates`"));
}

#[test]
fn unfinished_change_is_out_of_sync() {
    // The last member fails, because a directory is in its way.
    let bench = ArchiveBench::new(&tarball(&[(FILE, "a", "", 0o644, "a"), (FILE, "b", "", 0o644, "b")]));
    fs::create_dir(bench.to("b")).unwrap();
    let should = bench.should(&[("creates", bench.to("a").to_str().unwrap().into())]);
    let failure = bench.set(&should).failure.unwrap();
    assert!(failure.contains("/to/b is a directory"), "{failure}");
    assert!(bench.to("a").exists());
    assert_ne!(bench.found(&should).unwrap().differences, []);
    fs::remove_dir(bench.to("b")).unwrap();
    bench.converge(&should);
}

#[test]
fn absent_removes_the_archive_and_keeps_the_files() {
    let bench = ArchiveBench::new(&tool());
    bench.converge(&bench.should(&[]));
    bench.converge(&Attributes::from_iter([("ensure", "absent")]));
    assert!(!bench.archive().exists() && bench.to("tool-1/README").exists());
    fs::create_dir(bench.archive()).unwrap();
    assert!(bench.set(&Attributes::from_iter([("ensure", "absent")])).failure.unwrap().contains("is a directory"));
    fs::remove_dir(bench.archive()).unwrap();
    // A link at the path is removed, and not its target.
    symlink(bench.to("tool-1/README"), bench.archive()).unwrap();
    bench.converge(&Attributes::from_iter([("ensure", "absent")]));
    assert!(bench.to("tool-1/README").exists());
}

#[test]
fn remove_files_removes_what_is_as_in_the_archive() {
    let bench = ArchiveBench::new(&tool());
    bench.converge(&bench.should(&[]));
    let names = || {
        let mut names: Vec<String> = walk(&bench.to(""));
        names.sort();
        names
    };
    let unpacked = names();
    assert!(unpacked.len() > 2, "{unpacked:?}");
    fs::write(bench.to("tool-1/README"), "edited").unwrap();
    bench.converge(&bench.should(&[("ensure", "absent".into()), ("remove_files", true.into())]));
    assert_eq!(names(), ["tool-1", "tool-1/README"], "an edited file stays, with its directory");
    assert!(bench.archive().exists());
    fs::remove_file(bench.to("tool-1/README")).unwrap();
    bench.converge(&bench.should(&[]));
    assert_eq!(names(), unpacked);
    bench.converge(&bench.should(&[("ensure", "absent".into()), ("remove_files", true.into())]));
    assert_eq!(names(), [""; 0]);
}

/// Returns the paths below a directory.
fn walk(root: &Path) -> Vec<String> {
    fn add(root: &Path, at: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(at).unwrap().flatten() {
            found.push(entry.path().strip_prefix(root).unwrap().display().to_string());
            if entry.file_type().unwrap().is_dir() {
                add(root, &entry.path(), found);
            }
        }
    }
    let mut found = Vec::new();
    add(root, root, &mut found);
    found
}

#[test]
fn archive_with_another_checksum_is_not_unpacked() {
    let bench = ArchiveBench::new(&tool());
    let failure = bench.set(&bench.should(&[("checksum", "0".repeat(64).as_str().into())])).failure.unwrap();
    assert!(failure.contains("the archive has the checksum {sha256}"), "{failure}");
    assert_eq!(fs::read_dir(bench.to("")).unwrap().count(), 0);
    let sum = crate::file::unpack::checksum(
        &unpack::open_archive(&bench.name()).unwrap().unwrap(),
        "",
        Context::empty().interrupt(),
    );
    bench.converge(&bench.should(&[("checksum", sum.unwrap().into())]));
}

#[test]
fn files_belong_to_the_declared_user() {
    assert!(rustix::process::geteuid().is_root(), "this test acts as other users and needs root");
    let bench = ArchiveBench::new(&tool());
    let should = bench.should(&[("user", "nobody".into())]);
    bench.converge(&should);
    for path in ["tool-1", "tool-1/bin", "tool-1/bin/tool", "tool-1/link", "tool-1/copy"] {
        assert_eq!(fs::symlink_metadata(bench.to(path)).unwrap().uid(), 65534, "{path}");
    }
    std::os::unix::fs::chown(bench.to("tool-1/README"), Some(0), None).unwrap();
    bench.converge(&should);
}

#[test]
fn downloaded_archive_is_kept_or_needs_creates() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/tool.tar", listener.local_addr().unwrap());
    let body = tool();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let lines = std::io::BufRead::lines(std::io::BufReader::new(stream.try_clone().unwrap()));
            lines.map_while(Result::ok).take_while(|line| !line.is_empty()).for_each(drop);
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            let _ = stream.write_all(&[head.as_bytes(), &body].concat());
        }
    });
    let bench = ArchiveBench::new(b"");
    fs::remove_file(bench.archive()).unwrap();
    let source = ("source", Value::from(url));
    let problems = bench.provider.validate(&bench.name(), &bench.should(std::slice::from_ref(&source)), &[]);
    assert!(problems[0].to_string().contains("add `creates`, or `cleanup: false`"), "{problems:?}");
    let should = bench.should(&[source.clone(), ("cleanup", false.into())]);
    bench.converge(&should);
    assert!(bench.archive().exists());
    fs::remove_file(bench.to("tool-1/README")).unwrap();
    bench.converge(&should);
    // A user who can replace the archive must not decide what root unpacks.
    std::os::unix::fs::chown(bench.archive(), Some(65534), None).unwrap();
    let refused = bench.found(&should).unwrap_err();
    assert!(refused.contains("may not be what the server sent"), "{refused}");
    std::os::unix::fs::chown(bench.archive(), Some(0), None).unwrap();
    fs::remove_file(bench.archive()).unwrap();
    fs::remove_dir_all(bench.to("tool-1")).unwrap();
    bench.converge(&bench.should(&[source, ("creates", bench.to("tool-1").to_str().unwrap().into())]));
    assert!(!bench.archive().exists());
}

#[test]
fn invalid_values_are_refused_with_a_remedy() {
    let provider = ArchiveProvider::default();
    for (path, should, why) in [
        ("x", vec![("extract_path", Value::from("/opt"))], "`x` is no absolute path"),
        ("/x", vec![], "extract_path: `` is no absolute path"),
        ("/x", vec![("extract_path", "/opt".into()), ("checksum", "12".into())], "is no such checksum"),
        (
            "/x",
            vec![
                ("extract_path", "/opt".into()),
                ("checksum", "0".repeat(64).as_str().into()),
                ("checksum_type", "sha512".into()),
            ],
            "is no such checksum",
        ),
        (
            "/x",
            vec![
                ("extract_path", "/opt".into()),
                ("source", "http://example.org/x".into()),
                ("creates", "/opt/x".into()),
            ],
            "add `checksum`",
        ),
    ] {
        let should = should.into_iter().collect();
        let problems = provider.validate(path, &should, &[]);
        let found: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert!(found.join("\n").contains(why), "{found:?}");
    }
}
