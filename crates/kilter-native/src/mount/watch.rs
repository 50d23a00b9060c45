//! Watch of the kernel's lists of mounts and of swap areas.

use std::path::Path;

use kilter_provider::{Context, WatchSink};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

/// Lists below `/proc` that have an exceptional condition after each change (proc_pid_mountinfo(5)). A kernel without
/// swap areas lacks the second.
const LISTS: [&str; 2] = ["self/mountinfo", "swaps"];

/// Reports each change of the lists until the watch is interrupted.
pub(super) fn follow(proc: &Path, cx: &Context<'_>, tell: &dyn WatchSink) -> Result<(), Errno> {
    let lists = LISTS.map(|name| open(proc.join(name), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()));
    let lists: Vec<OwnedFd> = match lists {
        [Ok(mounts), swaps] => std::iter::once(mounts).chain(swaps).collect(),
        [Err(errno), _] => return Err(errno),
    };
    let interrupt = cx.interrupt();
    tell.watching();
    while !interrupt.is_raised() {
        let mut polled: Vec<PollFd<'_>> = lists.iter().map(|list| PollFd::new(list, PollFlags::PRI)).collect();
        polled.extend(interrupt.fd().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        match poll(&mut polled, None) {
            Ok(_) if polled.iter().any(|list| list.revents().contains(PollFlags::PRI)) => tell.all_changed(),
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
