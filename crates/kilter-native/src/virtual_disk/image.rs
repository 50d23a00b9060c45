//! Images of disks: their headers and their sizes.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};

use ecow::{EcoString, eco_format};
use rustix::fs::OFlags;

/// First bytes of an image in the format qcow2.
const MAGIC: [u8; 4] = *b"QFI\xfb";

/// Length of the common part of the headers of versions 2 and 3 in bytes.
const HEADER_BYTES: usize = 32;

/// Maximum length of the name of a backing image in bytes, by the definition of the format.
const MAX_BACKING_BYTES: u32 = 1023;

/// Size of a sector in bytes, of which the size of a disk is a multiple.
pub(super) const SECTOR: u64 = 512;

/// Units of a size, the largest first.
const UNITS: [(&str, u32); 4] = [("T", 40), ("G", 30), ("M", 20), ("K", 10)];

/// First bytes of images in formats that kilter does not manage: vmdk, vhd, vhdx, vdi, qed.
const OTHER_MAGICS: [&[u8]; 7] =
    [b"KDMV", b"COWD", b"# Disk DescriptorFile", b"conectix", b"vhdxfile", b"<<< ", b"QED\0"];

/// Format of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Qcow2,
    Raw,
}

impl Format {
    /// Returns the format with this name, or else the format that the name of the file stands for.
    pub(super) fn of(name: Option<&str>, path: &str) -> Format {
        match name {
            Some("qcow2") => Format::Qcow2,
            Some(_) => Format::Raw,
            None if path.ends_with(".qcow2") => Format::Qcow2,
            None => Format::Raw,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Format::Qcow2 => "qcow2",
            Format::Raw => "raw",
        }
    }
}

/// An image that exists.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Image {
    pub(super) format: Format,
    /// Size of the disk in bytes.
    pub(super) size: u64,
    /// Path or address of the image below it.
    pub(super) backing: Option<EcoString>,
    /// User who owns the file.
    pub(super) uid: u32,
}

impl Image {
    /// Reads the header of an image. A program that guesses the format would trust a disk whose machine has written a
    /// header into it, so the format is given: by `declared`, or else by the name. Returns none if there is no file.
    ///
    /// # Errors
    /// If the file is not an image of this format, or cannot be read.
    pub(super) fn read(path: &str, declared: Option<&str>) -> Result<Option<Image>, EcoString> {
        let format = Format::of(declared, path);
        // A FIFO or a device must not block.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let failed = |error: io::Error| eco_format!("cannot read {path}: {error}");
        let file = match File::options().read(true).custom_flags(flags).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
                return Err(eco_format!("{path} is a symbolic link: declare the path of its target"));
            }
            opened => opened.map_err(failed)?,
        };
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(eco_format!("{path} is not a regular file"));
        }
        let mut header = [0; HEADER_BYTES];
        match file.read_exact_at(&mut header, 0) {
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(failed(error)),
            _ => {}
        }
        let has_header = header.starts_with(&MAGIC);
        let uid = metadata.uid();
        match (format, has_header) {
            (Format::Raw, _) if declared.is_none() && has_header => Err(eco_format!(
                "{path} begins as an image in the format qcow2 does: declare `qcow2`, or `raw` if a machine has written that"
            )),
            (Format::Raw, _) if declared.is_none() && OTHER_MAGICS.iter().any(|magic| header.starts_with(magic)) => {
                Err(eco_format!("{path} has a format other than qcow2 and raw, and kilter manages only these"))
            }
            (Format::Raw, _) => Ok(Some(Image { format, size: metadata.size(), backing: None, uid })),
            (Format::Qcow2, false) => Err(eco_format!("{path} does not have the format qcow2: declare its format")),
            (Format::Qcow2, true) => {
                let backing = backing(&file, &header).map_err(failed)?.map(|name| below(path, name));
                Ok(Some(Image { format, size: number(&header, 24), backing, uid }))
            }
        }
    }
}

/// Returns the number at a position of a header.
fn number(header: &[u8; HEADER_BYTES], at: usize) -> u64 {
    u64::from_be_bytes(header[at..at + 8].try_into().expect("the header has 32 bytes"))
}

/// Returns the name of the backing image.
fn backing(file: &File, header: &[u8; HEADER_BYTES]) -> io::Result<Option<EcoString>> {
    let offset = number(header, 8);
    let length = (number(header, 16) >> 32) as u32;
    if offset == 0 || length == 0 {
        return Ok(None);
    }
    if length > MAX_BACKING_BYTES {
        return Err(io::Error::other("the name of its backing image is too long"));
    }
    let mut name = vec![0; length as usize];
    file.read_exact_at(&mut name, offset)?;
    Ok(Some(String::from_utf8_lossy(&name).into()))
}

/// Returns the path of a backing image, which may be relative to the directory of the image.
fn below(path: &str, name: EcoString) -> EcoString {
    match path.rsplit_once('/') {
        Some((directory, _)) if !name.starts_with('/') && !name.contains(':') => eco_format!("{directory}/{name}"),
        _ => name,
    }
}

/// Returns the number of bytes of a size: `20G`, `512`. None if it is invalid.
pub(super) fn bytes_of(size: &str) -> Option<u64> {
    let (number, shift) = match UNITS.iter().find_map(|(unit, shift)| Some((size.strip_suffix(unit)?, *shift))) {
        Some((number, shift)) => (number, shift),
        None => (size, 0),
    };
    let number = number.parse::<u64>().ok().filter(|_| !number.starts_with('+'))?;
    // The limit of files and of qemu-img.
    number.checked_mul(1 << shift).filter(|bytes| i64::try_from(*bytes).is_ok())
}

/// Returns the shortest text for a size.
pub(super) fn size_text(bytes: u64) -> EcoString {
    let unit = UNITS.iter().find(|(_, shift)| bytes > 0 && bytes.is_multiple_of(1 << shift));
    match unit {
        Some((unit, shift)) => eco_format!("{}{unit}", bytes >> shift),
        None => eco_format!("{bytes}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_one_text() {
        for (text, bytes, shortest) in
            [("512", 512, "512"), ("1024K", 1 << 20, "1M"), ("20480M", 20 << 30, "20G"), ("1536M", 1536 << 20, "1536M")]
        {
            assert_eq!(bytes_of(text), Some(bytes), "{text}");
            assert_eq!(size_text(bytes), shortest);
        }
        assert_eq!(size_text(0), "0");
        for wrong in ["", "G", "1.5G", "+1", "-1", "20GB", "20 G", "99999999999T", "8388608T"] {
            assert_eq!(bytes_of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn header_of_an_image_is_bounded() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("disk.qcow2").to_str().unwrap().to_owned();
        let header = |offset: u64, length: u32| {
            let mut bytes = b"QFI\xfb\0\0\0\x03".to_vec();
            bytes.extend(offset.to_be_bytes());
            bytes.extend(length.to_be_bytes());
            bytes.extend(16_u32.to_be_bytes());
            bytes.extend((20_u64 << 30).to_be_bytes());
            bytes
        };
        let read = |bytes: &[u8], format| {
            std::fs::write(&path, bytes).unwrap();
            Image::read(&path, format)
        };
        let (qcow2, raw) = (Some("qcow2"), Some("raw"));
        let image = read(&header(0, 0), None).unwrap().unwrap();
        assert_eq!((image.size, image.backing), (20 << 30, None));
        let image = read(&[header(32, 4), b"base".to_vec()].concat(), qcow2).unwrap().unwrap();
        assert_eq!(image.backing, place.path().join("base").to_str().map(EcoString::from));
        assert!(read(&header(32, 4), qcow2).is_err(), "the name is beyond the end");
        assert!(read(&header(32, u32::MAX), qcow2).unwrap_err().contains("too long"));
        // A machine may have written the header to its disk.
        assert_eq!(read(&header(0, 0), raw).unwrap().unwrap().format, Format::Raw);
        assert!(read(&[0; 1024], qcow2).unwrap_err().contains("does not have the format qcow2"));
        assert_eq!(read(&[0; 1024], raw).unwrap().unwrap().size, 1024);
        assert!(Image::read(place.path().to_str().unwrap(), None).unwrap_err().contains("not a regular file"));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(Image::read(&path, raw), Ok(None));
        let other = place.path().join("disk.img");
        let other = other.to_str().unwrap();
        for (bytes, why) in [(header(0, 0), "declare `qcow2`"), (b"KDMV".repeat(20), "a format other than")] {
            std::fs::write(other, bytes).unwrap();
            assert!(Image::read(other, None).unwrap_err().contains(why));
            assert!(Image::read(other, raw).is_ok());
        }
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        assert!(Image::read(&path, raw).unwrap_err().contains("symbolic link"));
    }
}
