//! Reads tar archives whose author is not trusted.
//!
//! The memory of the decompressors is bounded.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

use ecow::{EcoString, eco_format};
use kilter_provider::Interrupt;
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};
use tar::{EntryType, PaxExtensions};

use super::members::{Bounded, MAX_BYTES, MAX_MEMBERS, TakeMember, check_link, cleaned, damaged, refused};
use crate::file::unpack::{ArchiveNode, Member};

/// Maximum size in bytes of a header with a long name or with attributes.
const MAX_HEADER_BYTES: u64 = 64 << 10;
/// Maximum memory of the decoder of xz in KiB: that of `xz -9` is 65 MiB.
const MAX_XZ_KIB: u32 = 256 << 10;

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
    eco_format!("{format} archives are not supported: repack it as zip, or as tar with gzip, xz or zstd")
}

/// Passes each member to `take`, as the function of the parent module does.
///
/// # Errors
/// If the archive is damaged, exceeds a limit, or has a member that must not be unpacked.
pub(super) fn each(
    file: File,
    strip: usize,
    interrupt: Interrupt<'_>,
    take: &mut TakeMember<'_>,
) -> Result<(), EcoString> {
    let reader = Bounded { inner: decoder(file)?, left: MAX_BYTES, interrupt };
    let mut archive = tar::Archive::new(reader);
    let damaged = |error: io::Error| damaged(interrupt, &error);
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
        0 => Err("the file is no tar or zip archive, or is empty".into()),
        _ => Ok(()),
    }
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
