//! Scripts without a file.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::{Errno, fcntl_dupfd_cloexec};

/// Lowest number of the descriptor. Scripts use lower numbers themselves.
const LOWEST_FD: RawFd = 32;

/// A script in a sealed memory file.
pub(crate) struct MemoryScript {
    /// The interpreter.
    pub(crate) interpreter: PathBuf,
    /// Argument on the first line of the script.
    argument: Option<&'static str>,
    /// Descriptor of the text, closed on exec. The child has to inherit it.
    pub(crate) fd: Arc<OwnedFd>,
}

impl MemoryScript {
    /// Writes a script to memory.
    ///
    /// # Errors
    /// If its first line names no interpreter, or the kernel has no memory for it.
    pub(crate) fn new(text: &'static str) -> io::Result<MemoryScript> {
        let line = text.lines().next().and_then(|line| line.strip_prefix("#!")).unwrap_or_default().trim();
        let (interpreter, argument) =
            line.split_once(' ').map_or((line, None), |(path, rest)| (path, Some(rest.trim())));
        if interpreter.is_empty() {
            return Err(Errno::NOEXEC.into());
        }
        let fd = Arc::new(sealed(text.as_bytes())?);
        Ok(MemoryScript { interpreter: interpreter.into(), argument, fd })
    }

    /// Returns the arguments of the interpreter.
    pub(crate) fn args(&self) -> impl Iterator<Item = OsString> {
        let path = format!("/proc/self/fd/{}", self.fd.as_raw_fd());
        self.argument.map(OsString::from).into_iter().chain([path.into()])
    }
}

/// Returns a memory file with this content that can no longer change.
fn sealed(content: &[u8]) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // The interpreter only reads it. Kernels before Linux 6.3 do not have the flag.
    let created = match memfd_create("kilter-script", flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => memfd_create("kilter-script", flags),
        created => created,
    };
    let fd = fcntl_dupfd_cloexec(created?, LOWEST_FD)?;
    let mut rest = content;
    while !rest.is_empty() {
        rest = &rest[rustix::io::retry_on_intr(|| rustix::io::write(&fd, rest))?..];
    }
    fcntl_add_seals(&fd, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use std::fs::{File, OpenOptions};
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn content_is_readable_and_unchangeable() {
        let script = MemoryScript::new("#!/bin/sh -e\necho hello\n").unwrap();
        assert_eq!(script.interpreter, PathBuf::from("/bin/sh"));
        let args: Vec<OsString> = script.args().collect();
        assert_eq!(args[0], "-e");
        let mut text = String::new();
        File::open(&args[1]).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "#!/bin/sh -e\necho hello\n");
        let written = OpenOptions::new().write(true).open(&args[1]).and_then(|mut file| file.write_all(b"x"));
        assert!(written.is_err() && OpenOptions::new().write(true).truncate(true).open(&args[1]).is_err());
    }

    #[test]
    fn text_without_an_interpreter_is_refused() {
        assert!(MemoryScript::new("echo hello\n").is_err() && MemoryScript::new("#!\n").is_err());
    }
}
