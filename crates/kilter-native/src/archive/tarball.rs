//! Reads tar archives whose author is not trusted.
//!
//! Every path is checked before the caller sees it. The numbers and sizes of members are bounded, and so is the memory
//! of the decompressors. Devices, FIFOs and links that leave the archive are errors.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

use ecow::{EcoString, eco_format};
use kilter_provider::Interrupt;
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};
use tar::{EntryType, PaxExtensions};

use crate::file::unpack::{ArchiveNode, Member};

/// Maximum number of members.
const MAX_MEMBERS: usize = 1_000_000;
/// Maximum size of all members together in bytes.
const MAX_BYTES: u64 = 16 << 30;
/// Maximum size in bytes of a header with a long name or with attributes.
const MAX_HEADER_BYTES: u64 = 64 << 10;
/// Maximum length in bytes of a path.
const MAX_PATH_BYTES: usize = 4000;
/// Maximum number of directories above a member.
const MAX_DEPTH: usize = 100;
/// Maximum memory of the decoder of xz in KiB: that of `xz -9` is 65 MiB.
const MAX_XZ_KIB: u32 = 256 << 10;

/// Reads members until the total size is reached, or the run is interrupted.
struct Bounded<'a, R> {
    inner: R,
    left: u64,
    interrupt: Interrupt<'a>,
}

impl<R: Read> Read for Bounded<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.interrupt.is_raised() {
            return Err(io::Error::other("interrupted"));
        }
        let count = self.inner.read(buffer)?;
        self.left = self.left.checked_sub(count as u64).ok_or_else(|| {
            io::Error::other(format!("the archive is larger than {} GiB when it is unpacked", MAX_BYTES >> 30))
        })?;
        Ok(count)
    }
}

/// Opens the compressed data by its first bytes.
fn decoder(mut file: File) -> Result<Box<dyn Read>, EcoString> {
    let failed = |error: io::Error| eco_format!("cannot read the archive: {error}");
    file.seek(SeekFrom::Start(0)).map_err(failed)?;
    let mut magic = Vec::new();
    Read::by_ref(&mut file).take(6).read_to_end(&mut magic).map_err(failed)?;
    file.seek(SeekFrom::Start(0)).map_err(failed)?;
    let file = BufReader::with_capacity(64 << 10, file);
    Ok(match &magic[..] {
        [0x1f, 0x8b, ..] => Box::new(flate2::bufread::MultiGzDecoder::new(file)),
        [0xfd, b'7', b'z', b'X', b'Z', 0] => Box::new(lzma_rust2::XzReader::new_mem_limit(file, true, MAX_XZ_KIB)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Box::new(ZstdFrames { file: Some(file), frame: None }),
        [b'P', b'K', 3, 4, ..] => return Err(unsupported("zip")),
        [b'B', b'Z', b'h', ..] => return Err(unsupported("bzip2")),
        [b'7', b'z', 0xbc, 0xaf, ..] => return Err(unsupported("7z")),
        _ => Box::new(file),
    })
}

/// Decompresses all frames of a zstd file.
struct ZstdFrames {
    /// Rest of the file; none while a frame is read.
    file: Option<BufReader<File>>,
    frame: Option<StreamingDecoder<BufReader<File>, FrameDecoder>>,
}

impl Read for ZstdFrames {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(frame) = &mut self.frame {
                let count = frame.read(buffer)?;
                if count > 0 || buffer.is_empty() {
                    return Ok(count);
                }
                self.file = self.frame.take().map(StreamingDecoder::into_inner);
            }
            let Some(mut file) = self.file.take() else { return Ok(0) };
            if file.fill_buf()?.is_empty() {
                return Ok(0);
            }
            self.frame = Some(StreamingDecoder::new(file).map_err(io::Error::other)?);
        }
    }
}

fn unsupported(format: &str) -> EcoString {
    eco_format!("{format} archives are not supported: repack it as tar with gzip, xz or zstd")
}

/// Passes each member to `take`, until it returns false. The first `strip` directories of each path are dropped, and
/// members without a further name are omitted.
///
/// # Errors
/// If the archive is damaged, exceeds a limit, or has a member that must not be unpacked.
pub(super) fn each(
    file: File,
    strip: usize,
    interrupt: Interrupt<'_>,
    take: &mut dyn FnMut(&mut Member<'_>) -> Result<bool, EcoString>,
) -> Result<(), EcoString> {
    let reader = Bounded { inner: decoder(file)?, left: MAX_BYTES, interrupt };
    let mut archive = tar::Archive::new(reader);
    let damaged = |error: io::Error| match interrupt.is_raised() {
        true => EcoString::from("interrupted"),
        false => eco_format!("the archive is damaged: {error}"),
    };
    let mut extended = Extended::default();
    let mut count = 0;
    for entry in archive.entries().map_err(damaged)?.raw(true) {
        let mut entry = entry.map_err(damaged)?;
        count += 1;
        if count > MAX_MEMBERS {
            return Err(eco_format!("the archive has more than {MAX_MEMBERS} members"));
        }
        let kind = entry.header().entry_type();
        if let Some(header) = extended_kind(kind) {
            extended.read(header, &mut entry).map_err(damaged)?;
            continue;
        }
        let extended = std::mem::take(&mut extended);
        let path = extended.path.unwrap_or_else(|| entry.header().path_bytes().into_owned());
        let size = entry.header().entry_size().map_err(damaged)?;
        if extended.size.is_some_and(|declared| declared != size) || extended.is_sparse || kind.is_gnu_sparse() {
            return Err(refused(&path, "it is a sparse file, or has two sizes"));
        }
        let mode = entry.header().mode().map_err(damaged)?;
        let link = extended.link.or_else(|| entry.header().link_name_bytes().map(|link| link.into_owned()));
        let Some(clean) = cleaned(&path, strip)? else { continue };
        let link = link.unwrap_or_default();
        let target;
        let (mode, node) = match kind {
            EntryType::Regular | EntryType::Continuous if path.ends_with(b"/") => {
                (mode & 0o755 | 0o700, ArchiveNode::Directory)
            }
            EntryType::Regular | EntryType::Continuous => (mode & 0o755 | 0o600, ArchiveNode::File(&mut entry)),
            EntryType::Directory => (mode & 0o755 | 0o700, ArchiveNode::Directory),
            EntryType::Symlink => {
                check_link(&clean, &link).map_err(|why| refused(&path, why))?;
                (0, ArchiveNode::Link(&link))
            }
            EntryType::Link => {
                target = cleaned(&link, strip)?.ok_or_else(|| refused(&path, "it is a link to an omitted member"))?;
                (mode & 0o755 | 0o600, ArchiveNode::Copy(&target))
            }
            EntryType::Char | EntryType::Block => return Err(refused(&path, "it is a device")),
            EntryType::Fifo => return Err(refused(&path, "it is a FIFO")),
            _ => return Err(refused(&path, "it is of an unknown kind")),
        };
        if !take(&mut Member { path: &clean, mode, size, node })? {
            return Ok(());
        }
    }
    match count {
        0 => Err("the file is no tar archive, or is empty".into()),
        _ => Ok(()),
    }
}

fn refused(path: &[u8], why: &str) -> EcoString {
    eco_format!("the archive has the member `{}`, which is not unpacked: {why}", String::from_utf8_lossy(path))
}

/// A header that describes the next member.
#[derive(Clone, Copy)]
enum HeaderKind {
    LongName,
    LongLink,
    Pax,
    /// Attributes of all members: a comment in archives of git.
    Global,
}

fn extended_kind(kind: EntryType) -> Option<HeaderKind> {
    match kind {
        EntryType::GNULongName => Some(HeaderKind::LongName),
        EntryType::GNULongLink => Some(HeaderKind::LongLink),
        EntryType::XHeader => Some(HeaderKind::Pax),
        EntryType::XGlobalHeader => Some(HeaderKind::Global),
        _ => None,
    }
}

/// Values of the headers before a member.
#[derive(Default)]
struct Extended {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
    is_sparse: bool,
}

impl Extended {
    fn read(&mut self, kind: HeaderKind, entry: &mut dyn Read) -> io::Result<()> {
        let mut bytes = Vec::new();
        entry.take(MAX_HEADER_BYTES + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_HEADER_BYTES {
            return Err(io::Error::other(format!("a header is longer than {MAX_HEADER_BYTES} bytes")));
        }
        let name = |mut bytes: Vec<u8>| {
            bytes.truncate(bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len()));
            bytes
        };
        match kind {
            HeaderKind::LongName => self.path = Some(name(bytes)),
            HeaderKind::LongLink => self.link = Some(name(bytes)),
            HeaderKind::Global => {}
            HeaderKind::Pax => {
                for extension in PaxExtensions::new(&bytes) {
                    let extension = extension?;
                    let value = extension.value_bytes();
                    match extension.key_bytes() {
                        b"path" => self.path = Some(value.to_vec()),
                        b"linkpath" => self.link = Some(value.to_vec()),
                        b"size" => {
                            let size = std::str::from_utf8(value).ok().and_then(|size| size.parse().ok());
                            self.size = Some(size.ok_or_else(|| io::Error::other("a size is no number"))?);
                        }
                        key if key.starts_with(b"GNU.sparse") => self.is_sparse = true,
                        _ => {}
                    }
                }
            }
        }
        Ok(())
    }
}

/// Returns the path without its first directories; none if there is no further name.
fn cleaned(path: &[u8], strip: usize) -> Result<Option<Vec<u8>>, EcoString> {
    if path.starts_with(b"/") {
        return Err(refused(path, "its path is absolute"));
    }
    if path.contains(&0) || path.len() > MAX_PATH_BYTES {
        return Err(refused(path, "its path is too long, or has a NUL"));
    }
    let parts: Vec<&[u8]> = path.split(|&byte| byte == b'/').filter(|part| !matches!(*part, b"" | b".")).collect();
    if parts.contains(&&b".."[..]) {
        return Err(refused(path, "its path contains `..`"));
    }
    if parts.len() > MAX_DEPTH {
        return Err(refused(path, "it is below too many directories"));
    }
    let rest = parts.get(strip..).unwrap_or_default();
    Ok((!rest.is_empty()).then(|| rest.join(&b'/')))
}

/// Checks that a symbolic link leads to a path of the archive.
fn check_link(path: &[u8], target: &[u8]) -> Result<(), &'static str> {
    const OUTSIDE: &str = "it is a link that leaves the directory";
    if target.is_empty() || target.starts_with(b"/") || target.contains(&0) {
        return Err(OUTSIDE);
    }
    let mut depth = path.iter().filter(|&&byte| byte == b'/').count();
    for part in target.split(|&byte| byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => depth = depth.checked_sub(1).ok_or(OUTSIDE)?,
            _ => depth += 1,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_relative_and_stripped() {
        let clean =
            |path: &[u8], strip| cleaned(path, strip).map(|path| path.map(|path| String::from_utf8(path).unwrap()));
        assert_eq!(clean(b"./a//b/", 0), Ok(Some("a/b".into())));
        assert_eq!(clean(b"a/b/c", 1), Ok(Some("b/c".into())));
        assert_eq!(clean(b"a/", 1), Ok(None));
        assert_eq!(clean(b"a", 3), Ok(None));
        for bad in [&b"/etc/passwd"[..], b"../x", b"a/../../x", b"a/..", &b"x/".repeat(101), &[b'x'; 5000], b"a\0b"] {
            assert!(clean(bad, 0).is_err());
        }
    }

    #[test]
    fn links_stay_below_the_directory() {
        for (path, target) in [(&b"a/b"[..], &b"../c"[..]), (b"a", b"b/c"), (b"a/b/c", b"../../d"), (b"a", b"b/../c")] {
            assert_eq!(check_link(path, target), Ok(()));
        }
        for (path, target) in
            [(&b"a"[..], &b"/etc/shadow"[..]), (b"a", b"../x"), (b"a/b", b"../../x"), (b"a", b"b/../../x"), (b"a", b"")]
        {
            assert!(check_link(path, target).is_err());
        }
    }
}
