//! Accept loop on its own thread; stops when dropped.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

/// Pause of the accept loop if the system has no descriptor left.
const EXHAUSTED: Duration = Duration::from_millis(500);

/// Accept loop. Dropping it waits for the current connection.
pub(crate) struct AcceptLoop {
    closing: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

impl AcceptLoop {
    /// Starts a thread that calls `take` when a connection may be waiting at the listener. The listener must not
    /// block, because the client may have gone.
    pub(crate) fn new<L: AsFd + Send + 'static>(
        name: &str,
        listener: L,
        mut take: impl FnMut(&L) -> io::Result<()> + Send + 'static,
    ) -> io::Result<AcceptLoop> {
        let closing = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let end = closing.try_clone()?;
        let attend = move || {
            while is_called(&listener, &end) {
                match take(&listener) {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(_) => {
                        // The connection is still waiting, so that the next poll would return at once.
                        let timeout = Timespec { tv_sec: 0, tv_nsec: EXHAUSTED.subsec_nanos().into() };
                        let _ = poll(&mut [PollFd::new(&end, PollFlags::IN)], Some(&timeout));
                    }
                }
            }
        };
        let thread = Builder::new().name(name.into()).spawn(attend)?;
        Ok(AcceptLoop { closing, thread: Some(thread) })
    }
}

/// Waits for a connection or the end; returns false at the end.
fn is_called(listener: &impl AsFd, end: &OwnedFd) -> bool {
    let mut ready = [PollFd::new(listener, PollFlags::IN), PollFd::new(end, PollFlags::IN)];
    match poll(&mut ready, None) {
        Ok(_) | Err(rustix::io::Errno::INTR) => ready[1].revents().is_empty(),
        Err(_) => false,
    }
}

impl Drop for AcceptLoop {
    fn drop(&mut self) {
        // The counter can only be full after 2^64 writes.
        let _ = rustix::io::write(&self.closing, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread changes nothing here.
            let _ = thread.join();
        }
    }
}
