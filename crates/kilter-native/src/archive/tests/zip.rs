use flate2::Crc;
use flate2::write::DeflateEncoder;

use super::*;

/// A member of a zip archive, as a hostile author may describe it.
struct ZipMember {
    path: &'static str,
    /// Mode with the kind of file; 0 for one of another system.
    mode: u32,
    content: Vec<u8>,
    flags: u16,
    method: u16,
    /// Added to the checksum.
    crc_error: u32,
    /// Added to the size.
    size_error: u32,
}

fn member(path: &'static str, mode: u32, content: &str) -> ZipMember {
    ZipMember { path, mode, content: content.into(), flags: 0, method: 8, crc_error: 0, size_error: 0 }
}

fn file(path: &'static str) -> ZipMember {
    member(path, 0o100_644, "x")
}

fn zip(members: &[ZipMember]) -> Vec<u8> {
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    for one in members {
        let mut crc = Crc::new();
        crc.update(&one.content);
        let mut data = one.content.clone();
        if one.method == 8 {
            let mut deflate = DeflateEncoder::new(Vec::new(), flate2::Compression::default());
            deflate.write_all(&one.content).unwrap();
            data = deflate.finish().unwrap();
        }
        let header = u32::try_from(archive.len()).unwrap();
        let size = u32::try_from(one.content.len()).unwrap() + one.size_error;
        let mut common = Vec::new();
        for field in [20, one.flags, one.method, 0, 0] {
            common.extend(u16::to_le_bytes(field));
        }
        for field in [crc.sum().wrapping_add(one.crc_error), u32::try_from(data.len()).unwrap(), size] {
            common.extend(u32::to_le_bytes(field));
        }
        common.extend(u16::to_le_bytes(u16::try_from(one.path.len()).unwrap()));
        common.extend([0; 2]);
        archive.extend(b"PK\x03\x04");
        archive.extend(&common);
        archive.extend(one.path.bytes());
        archive.extend(data);
        let host = if one.mode == 0 { 0 } else { 3 };
        directory.extend(b"PK\x01\x02");
        directory.extend([30, host]);
        directory.extend(&common);
        directory.extend([0; 6]);
        directory.extend(u32::to_le_bytes(one.mode << 16));
        directory.extend(u32::to_le_bytes(header));
        directory.extend(one.path.bytes());
    }
    let at = u32::try_from(archive.len()).unwrap();
    let count = u16::try_from(members.len()).unwrap();
    let size = u32::try_from(directory.len()).unwrap();
    archive.extend(directory);
    archive.extend(b"PK\x05\x06\0\0\0\0");
    archive.extend([count.to_le_bytes(), count.to_le_bytes()].concat());
    archive.extend([size.to_le_bytes(), at.to_le_bytes()].concat());
    archive.extend(b"\x03\0end");
    archive
}

#[test]
fn zip_is_unpacked_and_damages_are_repaired() {
    let bench = ArchiveBench::new(&zip(&[
        member("tool-1/", 0o040_777, ""),
        member("tool-1/bin/tool", 0o104_775, "program"),
        ZipMember { method: 0, ..member("tool-1/README", 0o100_644, "text") },
        member("tool-1/link", 0o120_777, "bin/tool"),
        member("tool-1/windows/", 0, ""),
        member("tool-1/windows.txt", 0, "no mode"),
        member("tool-1/empty", 0o100_600, ""),
    ]));
    let should = bench.should(&[("strip_components", 1.into())]);
    bench.converge(&should);
    assert_eq!((bench.content("link"), bench.content("windows.txt")), ("program".into(), "no mode".into()));
    let modes = ["bin/tool", "README", "windows", "windows.txt", "empty"].map(|path| mode(&bench.to(path)));
    assert_eq!(modes, [0o755, 0o644, 0o755, 0o644, 0o600]);
    for damage in [
        (|bench: &ArchiveBench| fs::write(bench.to("README"), "TEXT").unwrap()) as fn(&ArchiveBench),
        |bench| fs::remove_file(bench.to("link")).unwrap(),
        |bench| fs::set_permissions(bench.to("bin/tool"), PermissionsExt::from_mode(0o4755)).unwrap(),
        |bench| fs::write(bench.to("empty"), "longer").unwrap(),
    ] {
        damage(&bench);
        assert!(bench.differs(&should).starts_with("differing files: "));
        bench.converge(&should);
    }
}

#[test]
fn zip_of_the_program_zip_is_unpacked() {
    let place = tempfile::tempdir().unwrap();
    let big = "0123456789".repeat(100_000);
    fs::create_dir(place.path().join("a")).unwrap();
    fs::write(place.path().join("a/big"), &big).unwrap();
    fs::write(place.path().join("a/ä ö"), "umlauts").unwrap();
    symlink("big", place.path().join("a/link")).unwrap();
    let mut zip = std::process::Command::new("zip");
    let status = zip.current_dir(&place).args(["-q", "-r", "-y", "a.zip", "a"]).status().expect("zip is installed");
    assert!(status.success());
    let bench = ArchiveBench::new(&fs::read(place.path().join("a.zip")).unwrap());
    bench.converge(&bench.should(&[]));
    assert_eq!((bench.content("a/link"), bench.content("a/ä ö")), (big, "umlauts".into()));
    assert_eq!(fs::read_link(bench.to("a/link")).unwrap(), Path::new("big"));
}

#[test]
fn hostile_zip_members_are_refused() {
    let good = || file("good");
    for (member, why) in [
        (file("/etc/evil"), "its path is absolute"),
        (file("../evil"), "contains `..`"),
        (file("a/../../evil"), "contains `..`"),
        (member("a", 0o120_777, "/etc"), "leaves the directory"),
        (member("a/b", 0o120_777, "../../etc"), "leaves the directory"),
        (member("a", 0o120_777, ""), "leaves the directory"),
        (member("a", 0o020_666, ""), "it is a device"),
        (member("a", 0o060_666, ""), "it is a device"),
        (member("a", 0o010_666, ""), "it is a FIFO"),
        (member("a", 0o140_666, ""), "it is of an unknown kind"),
        (member("..\\evil", 0, "x"), "its path contains `\\`"),
        (ZipMember { flags: 1, ..file("a") }, "it is encrypted"),
        (ZipMember { method: 12, ..file("a") }, "its compression method 12 is not supported"),
        (ZipMember { crc_error: 1, ..file("a") }, "another size or checksum"),
        (ZipMember { size_error: 1, ..file("a") }, "another size or checksum"),
        (ZipMember { size_error: u32::MAX - 1, ..file("a") }, "zip64"),
        (file("good"), "two members of this name"),
    ] {
        ArchiveBench::new(&zip(&[good(), member])).refuses(why);
    }
    ArchiveBench::new(&zip(&[])).refuses("the archive is empty");
}

#[test]
fn damaged_zip_is_refused_whole() {
    let archive = zip(&[file("a"), file("b")]);
    let mut without_end = archive.clone();
    without_end.truncate(archive.len() - 4);
    ArchiveBench::new(&without_end).refuses("no central directory");
    ArchiveBench::new(&archive[..40]).refuses("no central directory");
    // Every byte that is changed gives an error or an equal archive, and never a panic.
    for at in 0..archive.len() {
        let mut changed = archive.clone();
        changed[at] ^= 0xff;
        let bench = ArchiveBench::new(&changed);
        let outcome = bench.set(&bench.should(&[]));
        let count = fs::read_dir(bench.to("")).unwrap().count();
        assert_eq!(count, if outcome.failure.is_some() { 0 } else { 2 }, "byte {at}: {outcome:?}");
    }
}
