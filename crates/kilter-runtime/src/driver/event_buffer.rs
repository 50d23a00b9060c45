//! Queue of the hub's events for the driver.
//!
//! The driver may be busy while events arrive. The queue holds each subscriber once, so that a storm of events
//! costs no memory.

use std::collections::BTreeSet;
use std::mem::take;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use super::message::Message;
use crate::watch::{Subscriber, WatchEvent, WatchLost};

/// Events of the hub that the driver has not taken yet.
#[derive(Clone, Debug, Default)]
pub(super) struct EventBuffer(Arc<Mutex<Pending>>);

#[derive(Debug, Default)]
struct Pending {
    everything: bool,
    changed: BTreeSet<Subscriber>,
    lost: Vec<WatchLost>,
}

impl EventBuffer {
    /// Adds an event. The driver gets one message for all events until it takes them.
    pub(super) fn add(&self, told: WatchEvent, driver: &Sender<Message>) {
        let mut untaken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = untaken.is_empty();
        untaken.add(told);
        if is_first && !untaken.is_empty() {
            // Without a driver there is no receiver.
            let _ = driver.send(Message::WatchEvents);
        }
    }

    /// Takes all events, lost watches first.
    pub(super) fn take(&self) -> Vec<WatchEvent> {
        take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_told()
    }
}

impl Pending {
    fn is_empty(&self) -> bool {
        !self.everything && self.changed.is_empty() && self.lost.is_empty()
    }

    fn add(&mut self, told: WatchEvent) {
        match told {
            WatchEvent::Changed(subscribers) => self.changed.extend(subscribers),
            WatchEvent::Everything => self.everything = true,
            WatchEvent::Lost(WatchLost { subscribers, why }) => {
                match self.lost.iter_mut().find(|known| known.why == why) {
                    Some(known) => {
                        known.subscribers.extend(subscribers);
                        known.subscribers.sort_unstable();
                        known.subscribers.dedup();
                    }
                    None => self.lost.push(WatchLost { subscribers, why }),
                }
            }
        }
    }

    /// An event for everything replaces events for single subscribers.
    fn into_told(self) -> Vec<WatchEvent> {
        let mut all: Vec<WatchEvent> = self.lost.into_iter().map(WatchEvent::Lost).collect();
        if self.everything {
            all.push(WatchEvent::Everything);
        } else if !self.changed.is_empty() {
            all.push(WatchEvent::Changed(self.changed.into_iter().collect()));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::watch::WatchError;

    fn changed(numbers: &[u64]) -> WatchEvent {
        WatchEvent::Changed(numbers.iter().copied().map(Subscriber).collect())
    }

    fn lost(numbers: &[u64], why: WatchError) -> WatchEvent {
        WatchEvent::Lost(WatchLost { subscribers: numbers.iter().copied().map(Subscriber).collect(), why })
    }

    #[test]
    fn untaken_events_are_merged() {
        let (sender, receiver) = channel();
        let watch_events = EventBuffer::default();
        for at in 0..10_000 {
            watch_events.add(changed(&[at % 7, 3]), &sender);
            watch_events.add(lost(&[at % 2], WatchError::LimitOfUser), &sender);
        }
        watch_events.add(lost(&[5], WatchError::Memory), &sender);
        assert_eq!(receiver.try_iter().count(), 1);
        let all =
            [lost(&[0, 1], WatchError::LimitOfUser), lost(&[5], WatchError::Memory), changed(&[0, 1, 2, 3, 4, 5, 6])];
        assert_eq!(watch_events.take(), all);
    }

    #[test]
    fn event_after_take_is_announced_again() {
        let (sender, receiver) = channel();
        let watch_events = EventBuffer::default();
        watch_events.add(changed(&[1]), &sender);
        watch_events.add(WatchEvent::Everything, &sender);
        assert_eq!(watch_events.take(), [WatchEvent::Everything]);
        assert_eq!(watch_events.take(), []);
        watch_events.add(changed(&[2]), &sender);
        assert_eq!(receiver.try_iter().count(), 2);
        assert_eq!(watch_events.take(), [changed(&[2])]);
    }
}
