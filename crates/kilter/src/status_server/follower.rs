//! Followers of the events of a run.

use std::io::Write;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::json;

use crate::render::status::line;
use crate::server::Stream;

/// Interval at which an idle follower connection is checked.
const FOLLOW_POLL: Duration = Duration::from_secs(1);

/// Maximum number of events in the queue of a follower. It loses further events, and gets their number.
const FOLLOWER_QUEUE_LEN: usize = 4096;

/// Followers of a run.
#[derive(Default)]
pub(super) struct Followers(Mutex<FollowerList>);

#[derive(Default)]
struct FollowerList {
    followers: Vec<Follower>,
    /// Number of followers so far.
    followed: u64,
    /// First line of a new follower, if there is one: the conditions of the run.
    first: Option<Arc<str>>,
}

/// Connected follower.
struct Follower {
    number: u64,
    lines: SyncSender<Arc<str>>,
    /// Number of lost events.
    lost: u64,
}

impl Followers {
    fn state(&self) -> MutexGuard<'_, FollowerList> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a line to all followers, if there are any.
    pub(super) fn broadcast(&self, line: impl FnOnce() -> Option<String>) {
        let mut state = self.state();
        if state.followers.is_empty() {
            return;
        }
        let Some(line) = line() else { return };
        let line: Arc<str> = line.into();
        state.followers.retain_mut(|follower| follower.send(&line));
    }

    /// Sets the first line of new followers.
    pub(super) fn set_first(&self, line: Option<String>) {
        self.state().first = line.map(Arc::from);
    }

    /// Ends all followers after the lines in their queues.
    pub(super) fn end(&self) {
        self.state().followers.clear();
    }

    /// Sends lines to a client until the run ends or the client is gone.
    pub(super) fn serve(&self, stream: &Stream) {
        let (lines, receiver) = sync_channel(FOLLOWER_QUEUE_LEN);
        let number = {
            let mut state = self.state();
            state.followed += 1;
            let number = state.followed;
            let mut follower = Follower { number, lines, lost: 0 };
            if let Some(first) = &state.first {
                follower.send(first);
            }
            state.followers.push(follower);
            number
        };
        follow(stream, &receiver);
        self.state().followers.retain(|follower| follower.number != number);
    }
}

impl Follower {
    /// Sends a line; returns true if the follower is still connected.
    fn send(&mut self, line: &Arc<str>) -> bool {
        if self.lost > 0 {
            let missed: Arc<str> = format!("{}\n", json!({"event": "lost", "events": self.lost})).into();
            match self.lines.try_send(missed) {
                Ok(()) => self.lost = 0,
                Err(TrySendError::Full(_)) => {
                    self.lost += 1;
                    return true;
                }
                Err(TrySendError::Disconnected(_)) => return false,
            }
        }
        match self.lines.try_send(Arc::clone(line)) {
            Ok(()) => true,
            Err(TrySendError::Full(_)) => {
                self.lost += 1;
                true
            }
            Err(TrySendError::Disconnected(_)) => false,
        }
    }
}

/// Sends lines until the run ends or the client is gone.
fn follow(mut stream: &Stream, lines: &Receiver<Arc<str>>) {
    loop {
        match lines.recv_timeout(FOLLOW_POLL) {
            Ok(line) if stream.write_all(line.as_bytes()).is_ok() => {}
            Err(RecvTimeoutError::Timeout) if is_there(stream) => {}
            Err(RecvTimeoutError::Disconnected) => {
                // The client may be gone.
                let _ = stream.write_all(line(&json!({"event": "end"})).as_bytes());
                return;
            }
            Ok(_) | Err(RecvTimeoutError::Timeout) => return,
        }
    }
}

/// Returns true if the client has not closed its end.
fn is_there(stream: &Stream) -> bool {
    let mut ready = [PollFd::new(stream, PollFlags::RDHUP)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    match poll(&mut ready, Some(&now)) {
        Ok(_) => ready[0].revents().is_empty(),
        Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_follower_gets_count_of_missed_events() {
        let (lines, receiver) = sync_channel(2);
        let mut follower = Follower { number: 0, lines, lost: 0 };
        let line = |text: &str| Arc::from(text);
        assert!(["a", "b", "c", "d"].into_iter().all(|text| follower.send(&line(text))));
        assert_eq!((&*receiver.recv().unwrap(), &*receiver.recv().unwrap()), ("a", "b"));
        assert!(follower.send(&line("e")));
        assert_eq!(&*receiver.recv().unwrap(), "{\"event\":\"lost\",\"events\":2}\n");
        assert_eq!(&*receiver.recv().unwrap(), "e");
        drop(receiver);
        assert!(!follower.send(&line("f")));
    }
}
