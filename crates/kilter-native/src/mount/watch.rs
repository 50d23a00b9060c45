//! Watch of the kernel's list of mounts.

use std::path::Path;

use kilter_provider::{Context, WatchSink};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

/// Reports each change of the list of mounts until the watch is interrupted (proc_pid_mountinfo(5)).
pub(super) fn follow(path: &Path, cx: &Context<'_>, tell: &dyn WatchSink) -> Result<(), Errno> {
    let mounts = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let interrupt = cx.interrupt();
    tell.watching();
    while !interrupt.is_raised() {
        let mut polled = vec![PollFd::new(&mounts, PollFlags::PRI)];
        polled.extend(interrupt.fd().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        match poll(&mut polled, None) {
            Ok(_) if polled[0].revents().contains(PollFlags::PRI) => tell.all_changed(),
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
