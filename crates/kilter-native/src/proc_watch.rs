//! Watch of files below `/proc` that the kernel reports by an exceptional condition: mounts, swap areas, the host name.

use std::path::{Path, PathBuf};

use kilter_provider::{Context, WatchSink};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

/// Reports each change of the files until the watch is interrupted. The first file must exist; a kernel may lack the
/// others.
pub(crate) fn follow(files: &[PathBuf], cx: &Context<'_>, tell: &dyn WatchSink) -> Result<(), Errno> {
    let opened = |path: &Path| open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let mut watched: Vec<OwnedFd> = Vec::new();
    for (at, path) in files.iter().enumerate() {
        match opened(path) {
            Ok(file) => watched.push(file),
            Err(errno) if at == 0 => return Err(errno),
            Err(_) => {}
        }
    }
    let interrupt = cx.interrupt();
    tell.watching();
    while !interrupt.is_raised() {
        let mut polled: Vec<PollFd<'_>> = watched.iter().map(|file| PollFd::new(file, PollFlags::PRI)).collect();
        polled.extend(interrupt.fd().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        match poll(&mut polled, None) {
            Ok(_) if polled.iter().any(|file| file.revents().contains(PollFlags::PRI)) => tell.all_changed(),
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
