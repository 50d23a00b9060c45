//! Who takes calls at a socket, on a thread, until it is dropped.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

/// How long no call is taken when the system has no descriptor left.
const EXHAUSTED: Duration = Duration::from_millis(500);

/// Takes calls until it is dropped, which waits until the one that is being taken has been.
pub(crate) struct Attendant {
    closing: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

impl Attendant {
    /// Has `take` take a call whenever there may be one at the listener, which does not block: who has called may have gone again.
    pub(crate) fn new<L: AsFd + Send + 'static>(
        name: &str,
        listener: L,
        mut take: impl FnMut(&L) -> io::Result<()> + Send + 'static,
    ) -> io::Result<Attendant> {
        let closing = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let end = closing.try_clone()?;
        let attend = move || {
            while is_called(&listener, &end) {
                match take(&listener) {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(_) => {
                        // Who waits is still there, and would be told of without end.
                        let timeout = Timespec { tv_sec: 0, tv_nsec: EXHAUSTED.subsec_nanos().into() };
                        let _ = poll(&mut [PollFd::new(&end, PollFlags::IN)], Some(&timeout));
                    }
                }
            }
        };
        let thread = Builder::new().name(name.into()).spawn(attend)?;
        Ok(Attendant { closing, thread: Some(thread) })
    }
}

/// Waits for a call; whether there may be one, and not the end.
fn is_called(listener: &impl AsFd, end: &OwnedFd) -> bool {
    let mut ready = [PollFd::new(listener, PollFlags::IN), PollFd::new(end, PollFlags::IN)];
    match poll(&mut ready, None) {
        Ok(_) | Err(rustix::io::Errno::INTR) => ready[1].revents().is_empty(),
        Err(_) => false,
    }
}

impl Drop for Attendant {
    fn drop(&mut self) {
        // The counter can only be full after 2^64 writes.
        let _ = rustix::io::write(&self.closing, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // Whatever became of it, no call is taken any more.
            let _ = thread.join();
        }
    }
}
