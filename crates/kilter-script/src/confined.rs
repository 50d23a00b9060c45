//! What is said of a script that is not to change the machine.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use kilter_process::{Confined, Finished};
use kilter_provider::Level;

/// Says what there is to say of calls that are confined.
#[derive(Default)]
pub(crate) struct Watch {
    /// Of whom it was told; of the kernel, which is the same for all, without a name. Once is enough.
    told: Mutex<BTreeSet<String>>,
}

impl Watch {
    /// What there is to say of a call by `who`, if anything.
    pub(crate) fn note(&self, who: &str, finished: &Finished) -> Option<(Level, String)> {
        match (&finished.confined, &finished.refusal_hint) {
            (Confined::NotAsked, _) => None,
            (confined @ Confined::No { .. }, _) => {
                self.is_news("").then(|| (Level::Warning, format!("{who} could change the machine: {confined}")))
            }
            (_, Some(hint)) => self.is_news(who).then(|| (
                Level::Warning,
                format!(
                    "{who} seems to have tried to change the machine in a call that must not, and could not ({hint}); \
                     `confine: false` in its metadata lets it while it reads"
                ),
            )),
            (confined, None) => (!confined.is_as_asked()).then(|| (Level::Debug, confined.to_string())),
        }
    }

    fn is_news(&self, who: &str) -> bool {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).insert(who.to_owned())
    }
}
