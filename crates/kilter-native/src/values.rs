//! Storage of values by key: the state directory, or a world that machines share.

use ecow::{EcoString, eco_format};
use kilter_provider::{Context, Scope, WatchSource, World, WorldError};

use crate::state_files::{self, StateFiles};

/// Kind of values that belong to all machines.
const KIND: &str = "kv";

/// Kind of values that belong to a single machine.
const MAPPED: &str = "kv.mapped";

/// Values of a kind.
pub(crate) enum Values<'a> {
    /// Values on this machine.
    Here(StateFiles<'a>, &'static str),
    /// Values in a shared world. With the name of this machine, only its own values.
    Shared(&'a dyn World, Option<&'a str>),
}

impl<'a> Values<'a> {
    pub(crate) fn of(cx: &'a Context<'a>, world: &'a dyn World, is_mapped: bool) -> Values<'a> {
        let kind = if is_mapped { MAPPED } else { KIND };
        match world.is_shared() {
            true => Values::Shared(world, is_mapped.then(|| world.host())),
            false => Values::Here(StateFiles::of(cx, kind), kind),
        }
    }

    /// Returns the value of a key, if there is one.
    pub(crate) fn read(&self, key: &str) -> Result<Option<EcoString>, EcoString> {
        match self {
            Values::Here(files, _) => {
                let text = files.read(key)?.map(|bytes| String::from_utf8(bytes).map(EcoString::from)).transpose();
                text.map_err(|_| eco_format!("the value under `{key}` is not text: it was not written by kilter"))
            }
            Values::Shared(world, host) => Ok(world.read(&parts(key, *host)).map_err(why)?.map(EcoString::from)),
        }
    }

    /// Replaces the value of a key if it equals `expected`. Returns true if it did.
    pub(crate) fn replace(&self, key: &str, expected: Option<&str>, value: &str) -> Result<bool, EcoString> {
        match self {
            // The caller holds the lock for writes on this machine.
            Values::Here(files, _) => files.write(key, value.as_bytes()).map(|()| true),
            Values::Shared(world, host) => world.replace(&parts(key, *host), expected, value).map_err(why),
        }
    }

    pub(crate) fn remove(&self, key: &str) -> Result<(), EcoString> {
        match self {
            Values::Here(files, _) => files.remove(key),
            Values::Shared(world, host) => world.remove(&parts(key, *host)).map_err(why),
        }
    }

    /// Returns the keys with a value.
    pub(crate) fn names(&self) -> Result<Vec<EcoString>, EcoString> {
        match self {
            Values::Here(files, _) => files.names(),
            Values::Shared(world, _) => {
                let found = world.below(&[KIND]).map_err(why)?.into_iter().filter(|one| one.text.is_ok());
                Ok(found.filter_map(|one| <[EcoString; 1]>::try_from(one.key).ok()).map(|[key]| key).collect())
            }
        }
    }

    /// Returns a watch for changes of a key.
    pub(crate) fn watch(&self, key: &str) -> WatchSource {
        match self {
            Values::Here(_, kind) => WatchSource::StateFile(state_files::path_of(kind, key)),
            Values::Shared(world, host) => {
                world.follow();
                WatchSource::Path { path: world.watched(&parts(key, *host)), scope: Scope::This }
            }
        }
    }
}

fn parts<'k>(key: &'k str, host: Option<&'k str>) -> Vec<&'k str> {
    let kind = if host.is_some() { MAPPED } else { KIND };
    [kind, key].into_iter().chain(host).collect()
}

fn why(error: WorldError) -> EcoString {
    error.0
}
