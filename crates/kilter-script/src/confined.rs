//! What is said of a script that is not to change the machine.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use kilter_process::{Confined, Finished};
use kilter_provider::Level;

/// Who can let a script write in a call that is confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifted {
    /// Its metadata, with `confine: false`.
    ByMetadata,
    /// Nobody: it previews, or describes itself.
    Never,
}

/// Says what there is to say of calls that are confined.
#[derive(Default)]
pub(crate) struct Watch {
    /// Of whom it was told; of the kernel, which is the same for all, without a name. Once is enough.
    told: Mutex<BTreeSet<String>>,
}

impl Watch {
    /// What there is to say of a call by `who`, if anything.
    pub(crate) fn note(&self, who: &str, lifted: Lifted, finished: &Finished) -> Option<(Level, String)> {
        match (&finished.confined, &finished.refusal_hint) {
            (Confined::NotAsked, _) => None,
            (confined @ Confined::No { .. }, _) => {
                self.is_news("").then(|| (Level::Warning, format!("{who} could change the machine: {confined}")))
            }
            (_, Some(hint)) => self.is_news(who).then(|| {
                let way = match lifted {
                    Lifted::ByMetadata => "; `confine: false` in its metadata lets it while it reads",
                    Lifted::Never => "",
                };
                let tried = "seems to have tried to change the machine in a call that must not, and could not";
                (Level::Warning, format!("{who} {tried} ({hint}){way}"))
            }),
            (confined, None) => (!confined.is_as_asked()).then(|| (Level::Debug, confined.to_string())),
        }
    }

    fn is_news(&self, who: &str) -> bool {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).insert(who.to_owned())
    }
}
