//! Reads zip archives whose author is not trusted.
//!
//! Only the central directory at the end of the file names the members, so that there are no two descriptions that
//! could differ. The header before the data of a member gives nothing but the place of the data. The numbers of
//! sections are those of APPNOTE.TXT of PKWARE.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;

use ecow::{EcoString, eco_format};
use flate2::Crc;
use flate2::bufread::DeflateDecoder;
use kilter_provider::Interrupt;

use super::members::{Bounded, MAX_BYTES, MAX_PATH_BYTES, TakeMember, check_link, cleaned, damaged, refused};
use crate::file::unpack::{ArchiveNode, Member};

/// Length in bytes of the header before the data of a member (4.3.7), without the variable fields.
const LOCAL_BYTES: u64 = 30;
/// Length in bytes of a header of the central directory (4.3.12), without the variable fields.
const CENTRAL_BYTES: usize = 46;
/// Length in bytes of the end of the central directory (4.3.16), without the comment.
const END_BYTES: usize = 22;
/// Maximum length in bytes of the comment at the end.
const MAX_COMMENT_BYTES: usize = u16::MAX as usize;

/// Value of a field whose true value is in an extension (4.4.1.4).
const ZIP64: u32 = u32::MAX;

/// System that stores the mode of a file in the upper half of the external attributes (4.4.2).
const UNIX: u8 = 3;

/// Bit of an encrypted member (4.4.4).
const ENCRYPTED: u16 = 1;

const STORED: u16 = 0;
const DEFLATED: u16 = 8;

/// Mask of the kind of a file in a mode, and the kinds (inode(7)).
const KIND: u32 = 0o170_000;
const DIRECTORY: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_000;
const CHARACTER_DEVICE: u32 = 0o020_000;
const BLOCK_DEVICE: u32 = 0o060_000;
const FIFO: u32 = 0o010_000;

/// Returns true if the file begins with a member, or is an empty zip archive.
pub(super) fn is_zip(file: &File) -> bool {
    let mut magic = [0; 4];
    file.read_exact_at(&mut magic, 0).is_ok() && matches!(&magic, b"PK\x03\x04" | b"PK\x05\x06")
}

/// Passes each member to `take`, as the function of the parent module does.
///
/// # Errors
/// If the archive is damaged, exceeds a limit, or has a member that must not be unpacked.
pub(super) fn each(
    file: &File,
    strip: usize,
    interrupt: Interrupt<'_>,
    take: &mut TakeMember<'_>,
) -> Result<(), EcoString> {
    let damaged = |error: io::Error| damaged(interrupt, &error);
    let (count, directory) = central_directory(file).map_err(damaged)?;
    let data_end = directory.at;
    let mut entries = BufReader::new(directory);
    let mut left = MAX_BYTES;
    let mut paths = BTreeSet::new();
    for _ in 0..count {
        let entry = ZipEntry::read(&mut entries).map_err(damaged)?;
        let path = &entry.path[..];
        if let Some(why) = entry.problem() {
            return Err(refused(path, &why));
        }
        let Some(clean) = cleaned(path, strip)? else { continue };
        let content = Bounded { inner: entry.decoder(file, data_end).map_err(damaged)?, left, interrupt };
        let mut content = Checked { inner: content, crc: Crc::new(), size: entry.size, expected: entry.crc };
        let kind = if path.ends_with(b"/") { DIRECTORY } else { entry.mode & KIND };
        if kind != DIRECTORY && !paths.insert(clean.clone()) {
            return Err(refused(path, "the archive has two members of this name"));
        }
        let mut target = Vec::new();
        let (mode, node) = match kind {
            DIRECTORY => (entry.permissions(0o755) | 0o700, ArchiveNode::Directory),
            FILE | 0 => (entry.permissions(0o644) | 0o600, ArchiveNode::File(&mut content)),
            LINK => {
                (&mut content).take(MAX_PATH_BYTES as u64 + 1).read_to_end(&mut target).map_err(damaged)?;
                check_link(&clean, &target).map_err(|why| refused(path, why))?;
                (0, ArchiveNode::Link(&target))
            }
            CHARACTER_DEVICE | BLOCK_DEVICE => return Err(refused(path, "it is a device")),
            FIFO => return Err(refused(path, "it is a FIFO")),
            _ => return Err(refused(path, "it is of an unknown kind")),
        };
        if !take(&mut Member { path: &clean, mode, size: entry.size, node })? {
            return Ok(());
        }
        // The end of the content has its checksum.
        io::copy(&mut content, &mut io::sink()).map_err(damaged)?;
        left = content.inner.left;
    }
    match count {
        0 => Err("the archive is empty".into()),
        _ => Ok(()),
    }
}

/// A part of a file.
struct Section<'f> {
    file: &'f File,
    at: u64,
    end: u64,
}

impl Read for Section<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX).min(buffer.len());
        let count = self.file.read_at(&mut buffer[..left], self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

fn wrong(why: &'static str) -> io::Error {
    io::Error::other(why)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

/// Finds the central directory. Returns its number of members and its place.
fn central_directory(file: &File) -> io::Result<(u16, Section<'_>)> {
    let length = file.metadata()?.len();
    let start = length.saturating_sub((END_BYTES + MAX_COMMENT_BYTES) as u64);
    let mut tail = Vec::new();
    Section { file, at: start, end: length }.read_to_end(&mut tail)?;
    let is_end = |at: &usize| {
        let end = &tail[*at..];
        end.starts_with(b"PK\x05\x06") && END_BYTES + usize::from(u16_at(end, 20)) == end.len()
    };
    let places = 0..(tail.len() + 1).saturating_sub(END_BYTES);
    let at = places.rev().find(is_end).ok_or_else(|| wrong("it has no central directory"))?;
    let end = &tail[at..];
    let (count, size, offset) = (u16_at(end, 10), u32_at(end, 12), u32_at(end, 16));
    if count == u16::MAX || size == ZIP64 || offset == ZIP64 {
        return Err(wrong(
            "it has more than 4 GiB or 65,534 members (zip64), which is not supported: repack it as tar",
        ));
    }
    if u16_at(end, 4) != 0 || u16_at(end, 8) != count {
        return Err(wrong("it is one of several parts"));
    }
    if u64::from(offset) + u64::from(size) != start + at as u64 {
        return Err(wrong("its central directory is not at its end"));
    }
    Ok((count, Section { file, at: offset.into(), end: start + at as u64 }))
}

/// A member, as the central directory describes it.
struct ZipEntry {
    path: Vec<u8>,
    is_unix: bool,
    flags: u16,
    method: u16,
    crc: u32,
    compressed: u32,
    size: u64,
    /// Mode of Unix; 0 if there is none.
    mode: u32,
    /// Place of the header before the data.
    header: u32,
}

impl ZipEntry {
    fn read(entries: &mut dyn Read) -> io::Result<ZipEntry> {
        let mut fixed = [0; CENTRAL_BYTES];
        entries.read_exact(&mut fixed)?;
        if !fixed.starts_with(b"PK\x01\x02") {
            return Err(wrong("its central directory has no member at the expected place"));
        }
        let mut path = vec![0; u16_at(&fixed, 28).into()];
        entries.read_exact(&mut path)?;
        let rest = u64::from(u16_at(&fixed, 30)) + u64::from(u16_at(&fixed, 32));
        io::copy(&mut entries.take(rest), &mut io::sink())?;
        let is_unix = fixed[5] == UNIX;
        Ok(ZipEntry {
            path,
            is_unix,
            flags: u16_at(&fixed, 8),
            method: u16_at(&fixed, 10),
            crc: u32_at(&fixed, 16),
            compressed: u32_at(&fixed, 20),
            size: u32_at(&fixed, 24).into(),
            mode: if is_unix { u32_at(&fixed, 38) >> 16 } else { 0 },
            header: u32_at(&fixed, 42),
        })
    }

    /// Returns the reason why a member cannot be unpacked.
    fn problem(&self) -> Option<EcoString> {
        if self.flags & ENCRYPTED != 0 {
            return Some("it is encrypted".into());
        }
        if self.compressed == ZIP64 || self.size == u64::from(ZIP64) || self.header == ZIP64 {
            return Some("it has more than 4 GiB (zip64): repack the archive as tar".into());
        }
        if !matches!(self.method, STORED | DEFLATED) {
            return Some(eco_format!("its compression method {} is not supported: repack the archive", self.method));
        }
        (!self.is_unix && self.path.contains(&b'\\')).then(|| "its path contains `\\`".into())
    }

    /// Returns the declared permissions without the dangerous ones, or the default.
    fn permissions(&self, default: u32) -> u32 {
        if self.mode == 0 { default } else { self.mode & 0o755 }
    }

    /// Opens the data, which lie before `data_end`.
    fn decoder<'f>(&self, file: &'f File, data_end: u64) -> io::Result<Box<dyn Read + 'f>> {
        let mut local = [0; LOCAL_BYTES as usize];
        file.read_exact_at(&mut local, self.header.into())?;
        let at = u64::from(self.header) + LOCAL_BYTES + u64::from(u16_at(&local, 26)) + u64::from(u16_at(&local, 28));
        let end = at + u64::from(self.compressed);
        if !local.starts_with(b"PK\x03\x04") || end > data_end {
            return Err(wrong("the data of a member are not at the expected place"));
        }
        let data = Section { file, at, end };
        Ok(match self.method {
            STORED => Box::new(data),
            _ => Box::new(DeflateDecoder::new(BufReader::new(data))),
        })
    }
}

/// Reads the content of a member. Its end is an error if the size or the checksum differs.
struct Checked<R> {
    inner: R,
    crc: Crc,
    size: u64,
    expected: u32,
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.crc.update(&buffer[..count]);
        let read = u64::from(self.crc.amount());
        let is_wrong = read > self.size
            || count == 0 && !buffer.is_empty() && (read != self.size || self.crc.sum() != self.expected);
        if is_wrong {
            return Err(wrong("a member has another size or checksum than the directory says"));
        }
        Ok(count)
    }
}
