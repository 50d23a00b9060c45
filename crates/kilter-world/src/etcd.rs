//! Shared store in etcd, through its JSON gateway (`/v3/…`).

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ecow::{EcoString, eco_format};
use kilter_provider::{Shared, Unreachable, World, WorldError};
use serde_json::{Value as Json, json};

use crate::access::{Credentials, Endpoint};
use crate::directory::Directory;
use crate::name::{PartialName, names, part};

/// First and maximum delay between two attempts to watch, in seconds.
const RETRY_DELAYS: (u64, u64) = (1, 30);

/// Maximum size of an answer, in bytes.
const MAX_ANSWER_BYTES: u64 = 256 << 20;

/// Store in etcd, below a key prefix.
///
/// While a caller [follows](World::follow) the store, a thread caches its entries. After a change, the thread
/// writes to a notification file. There is a file for each combination of the first two parts of a key, in a
/// private directory in memory.
pub struct Etcd {
    shared: Arc<Inner>,
    host: EcoString,
    following: OnceLock<()>,
}

struct Inner {
    access: Endpoint,
    /// Prefix of all keys, without the final slash.
    prefix: String,
    notifications: Directory,
    /// Authentication token, if there is a login.
    token: Mutex<Option<String>>,
    /// Cached entries, if known.
    known: Mutex<Option<Known>>,
    /// Keys whose notification files are watched.
    watched: Mutex<BTreeSet<Vec<String>>>,
    /// State of the connection.
    reach: Mutex<ConnectionState>,
    /// True after the store is no longer followed. Locked while a notification file is written.
    left: Mutex<bool>,
}

/// Connection state of the thread that follows etcd.
#[derive(Default)]
struct ConnectionState {
    /// Time of the last response.
    last: Option<SystemTime>,
    /// Reason why etcd does not respond.
    unreachable: Option<Unreachable>,
}

type Known = BTreeMap<Vec<EcoString>, Result<String, WorldError>>;

impl Etcd {
    /// Creates a store below `prefix`. `host` is the name of this machine.
    pub fn new(access: Endpoint, prefix: &str, host: impl Into<EcoString>) -> Etcd {
        let host = host.into();
        let prefix = prefix.trim_matches('/').to_owned();
        let shared = Inner {
            access,
            prefix,
            notifications: Directory::new(private_path(), host.clone()),
            token: Mutex::default(),
            known: Mutex::default(),
            watched: Mutex::default(),
            reach: Mutex::default(),
            left: Mutex::default(),
        };
        Etcd { shared: Arc::new(shared), host, following: OnceLock::new() }
    }
}

/// Returns an unpredictable path, in memory if possible.
fn private_path() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let random = RandomState::new().build_hasher().finish();
    place.join(format!("kilter-world-{}-{random:016x}", std::process::id()))
}

/// A key with its text. kilter writes only UTF-8; other content is replaced by meaningless text.
struct Pair {
    key: String,
    text: String,
}

impl Inner {
    /// Returns the etcd key. The parts are separated by slashes.
    fn key_of(&self, key: &[&str]) -> String {
        let parts = key.iter().flat_map(|part| names(part));
        [self.prefix.clone()].into_iter().chain(parts).collect::<Vec<_>>().join("/")
    }

    /// Returns the parts of a key below the key `above`.
    fn parts(&self, key: &str, above: &str) -> Option<Vec<EcoString>> {
        let below = key.strip_prefix(above)?.strip_prefix('/')?;
        let begun = below.split('/').try_fold(PartialName::default(), |begun, name| begun.and(part(name)?))?;
        begun.finished()
    }

    /// Returns the entry of a pair below the key `above`.
    fn shared(&self, pair: Pair, above: &str) -> Option<Shared> {
        Some(Shared { key: self.parts(&pair.key, above)?, text: Ok(pair.text) })
    }

    /// Sends a request, and repeats it with a new token if the old token has expired.
    fn post(&self, path: &str, body: &Json) -> Result<Json, WorldError> {
        let had_token = self.token()?;
        match self.access.post(path, body, had_token.as_deref()) {
            Err(refused) if refused.is_unauthorized() && had_token.is_some() => {
                *lock(&self.token) = None;
                let token = self.token()?;
                let answer = self.access.post(path, body, token.as_deref());
                answer.map_err(|why| self.failed(&why))?.json(MAX_ANSWER_BYTES).map_err(|why| self.failed(&why))
            }
            answer => answer.and_then(|answer| answer.json(MAX_ANSWER_BYTES)).map_err(|why| self.failed(&why)),
        }
    }

    fn token(&self) -> Result<Option<String>, WorldError> {
        let Some(Credentials { user, password }) = self.access.login() else { return Ok(None) };
        let mut token = lock(&self.token);
        if token.is_none() {
            let body = json!({ "name": user, "password": password });
            let answer = self.access.post("/v3/auth/authenticate", &body, None);
            let answer = answer.and_then(|answer| answer.json(MAX_ANSWER_BYTES)).map_err(|why| self.failed(&why))?;
            *token = answer.get("token").and_then(Json::as_str).map(str::to_owned);
        }
        Ok(token.clone())
    }

    fn failed(&self, why: &dyn std::fmt::Display) -> WorldError {
        WorldError(eco_format!("etcd at {}: {why}", self.access.shown()))
    }

    /// Returns all pairs in a range, and the revision of this state.
    fn range(&self, from: &str, to: Option<&str>) -> Result<(Vec<Pair>, i64), WorldError> {
        let mut body = json!({ "key": encoded(from) });
        if let Some(to) = to {
            body["range_end"] = encoded(to).into();
        }
        let answer = self.post("/v3/kv/range", &body)?;
        let revision = number(answer.pointer("/header/revision"));
        let found = answer.get("kvs").and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
        Ok((found.iter().filter_map(pair_of).collect(), revision))
    }

    /// Starts a watch after the given revision, or after a new reading. Returns the response and that revision.
    fn watch(&self, revision: &mut Option<i64>) -> Result<(impl Read + use<>, i64), WorldError> {
        let (from, to) = below(&self.prefix);
        let since = match *revision {
            Some(revision) => revision,
            None => {
                let (pairs, found) = self.range(&from, Some(&to))?;
                self.replace_cache(pairs);
                found
            }
        };
        *revision = None;
        let body = json!({ "create_request": {
            "key": encoded(&from), "range_end": encoded(&to), "start_revision": (since + 1).to_string(),
        } });
        let token = self.token()?;
        let answer = self.access.listen("/v3/watch", &body, token.as_deref());
        Ok((answer.map_err(|why| self.failed(&why))?.lines(), since))
    }

    /// Caches the entries and reports changes until an error occurs.
    fn follow(&self, reader: impl Read, since: i64, revision: &mut Option<i64>) -> Result<(), WorldError> {
        let mut last = since;
        for line in BufReader::new(reader).lines() {
            let Ok(line) = line else {
                // The connection timed out. The next watch starts at the last revision.
                *revision = Some(last);
                return Ok(());
            };
            let told: Json = serde_json::from_str(&line).map_err(|why| self.failed(&why))?;
            if let Some(why) = told.get("error") {
                return Err(self.failed(why));
            }
            if told.pointer("/result/canceled").and_then(Json::as_bool) == Some(true) {
                return Err(self.failed(&"the watch was ended"));
            }
            let revision = told.pointer("/result/header/revision").map(|revision| number(Some(revision)));
            if revision.is_some_and(|revision| revision < last) {
                // The store was wiped or restored, so that the watch would miss its changes. The next one reads it.
                return Err(self.failed(&"its revision is lower than before"));
            }
            let events = told.pointer("/result/events").and_then(Json::as_array).map(Vec::as_slice);
            events.unwrap_or_default().iter().for_each(|event| self.apply_event(event));
            lock(&self.reach).last = Some(SystemTime::now());
            last = revision.unwrap_or(last);
        }
        *revision = Some(last);
        Err(self.failed(&"the connection was closed"))
    }

    /// Replaces the cache and reports the differences.
    fn replace_cache(&self, pairs: Vec<Pair>) {
        let found = pairs.into_iter().filter_map(|pair| self.shared(pair, &self.prefix));
        let found: Known = found.map(|one| (one.key, one.text)).collect();
        let former = lock(&self.known).replace(found.clone());
        if former.is_none() {
            // Before the first reading, even an empty store is news.
            self.notify_all();
        }
        let former = former.unwrap_or_default();
        let differs = |(key, text): &(&Vec<EcoString>, &Result<String, WorldError>)| former.get(*key) != Some(text);
        let gone = former.keys().filter(|key| !found.contains_key(*key));
        let other = found.iter().filter(differs).map(|(key, _)| key);
        let changed: BTreeSet<Vec<&str>> = gone.chain(other).map(|key| notify_key(&words(key)).to_vec()).collect();
        changed.iter().for_each(|key| self.notify(key));
    }

    fn apply_event(&self, event: &Json) {
        let is_gone = event.get("type").and_then(Json::as_str) == Some("DELETE");
        let Some(Shared { key, text }) =
            event.get("kv").and_then(pair_of).and_then(|pair| self.shared(pair, &self.prefix))
        else {
            return;
        };
        if let Some(known) = &mut *lock(&self.known) {
            if is_gone {
                known.remove(&key)
            } else {
                known.insert(key.clone(), text)
            };
        }
        self.notify(notify_key(&words(&key)));
    }

    /// Records that etcd responds.
    fn reached(&self) {
        let mut reach = lock(&self.reach);
        reach.last = Some(SystemTime::now());
        let was_unreachable = reach.unreachable.take().is_some();
        drop(reach);
        if was_unreachable {
            self.notify_all();
        }
    }

    /// Records that etcd does not respond.
    fn missed(&self, why: WorldError) {
        let mut reach = lock(&self.reach);
        let since = reach.last.unwrap_or_else(SystemTime::now);
        let is_news = reach.unreachable.replace(Unreachable { since, why }).is_none();
        drop(reach);
        if is_news {
            self.notify_all();
        }
    }

    /// Writes the notification files of all watched keys.
    fn notify_all(&self) {
        let watched = lock(&self.watched).clone();
        watched.iter().for_each(|key| self.notify(&key.iter().map(String::as_str).collect::<Vec<_>>()));
    }

    /// Writes the notification file of a key. Changes that have no file are found when the manifest is
    /// reloaded.
    fn notify(&self, key: &[&str]) {
        let left = lock(&self.left);
        // Keys with one part have no watchers, and their file would conflict with the directory of longer keys.
        if !*left && key.len() == NOTIFY_KEY_PARTS {
            let _ = self.notifications.write(key, "");
        }
    }
}

/// Number of key parts that have a notification file.
const NOTIFY_KEY_PARTS: usize = 2;

/// Returns the parts of a key that determine its notification file.
fn notify_key<'k, 'p>(key: &'p [&'k str]) -> &'p [&'k str] {
    &key[..key.len().min(NOTIFY_KEY_PARTS)]
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn words(parts: &[EcoString]) -> Vec<&str> {
    parts.iter().map(EcoString::as_str).collect()
}

/// Returns the range of all keys below a key: `0` is the character after the slash.
fn below(key: &str) -> (String, String) {
    (format!("{key}/"), format!("{key}0"))
}

fn encoded(text: &str) -> String {
    BASE64_STANDARD.encode(text)
}

fn decoded(json: Option<&Json>) -> Option<Vec<u8>> {
    let Some(text) = json else { return Some(Vec::new()) };
    BASE64_STANDARD.decode(text.as_str()?).ok()
}

fn pair_of(pair: &Json) -> Option<Pair> {
    let text = String::from_utf8_lossy(&decoded(pair.get("value"))?).into_owned();
    Some(Pair { key: String::from_utf8(decoded(pair.get("key"))?).ok()?, text })
}

/// Parses a number. The gateway encodes 64-bit numbers as texts.
fn number(json: Option<&Json>) -> i64 {
    json.and_then(|json| json.as_i64().or_else(|| json.as_str()?.parse().ok())).unwrap_or(0)
}

impl World for Etcd {
    fn host(&self) -> &str {
        &self.host
    }

    /// Returns the identity without the servers, because the members of a cluster change.
    fn id(&self) -> String {
        format!("etcd {}", self.shared.prefix)
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn unreachable(&self) -> Option<Unreachable> {
        lock(&self.shared.reach).unreachable.clone()
    }

    fn read(&self, key: &[&str]) -> Result<Option<String>, WorldError> {
        let (pairs, _) = self.shared.range(&self.shared.key_of(key), None)?;
        Ok(pairs.into_iter().next().map(|pair| pair.text))
    }

    fn below(&self, key: &[&str]) -> Result<Vec<Shared>, WorldError> {
        let above = self.shared.key_of(key);
        let (from, to) = below(&above);
        let (pairs, _) = self.shared.range(&from, Some(&to))?;
        let mut found: Vec<_> = pairs.into_iter().filter_map(|pair| self.shared.shared(pair, &above)).collect();
        found.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        Ok(found)
    }

    fn seen_below(&self, key: &[&str]) -> Result<Vec<Shared>, WorldError> {
        let known = lock(&self.shared.known);
        let Some(known) = known.as_ref() else {
            drop(known);
            return self.below(key);
        };
        let below = known.iter().filter_map(|(found, text)| {
            let below = found.get(key.len()..).filter(|below| !below.is_empty())?;
            let is_below = found.iter().zip(key).all(|(found, key)| found == key);
            is_below.then(|| Shared { key: below.to_vec(), text: text.clone() })
        });
        Ok(below.collect())
    }

    fn write(&self, key: &[&str], text: &str) -> Result<(), WorldError> {
        let body = json!({ "key": encoded(&self.shared.key_of(key)), "value": encoded(text) });
        self.shared.post("/v3/kv/put", &body).map(drop)
    }

    fn replace(&self, key: &[&str], expected: Option<&str>, text: &str) -> Result<bool, WorldError> {
        let key = encoded(&self.shared.key_of(key));
        let compare = match expected {
            Some(expected) => json!({ "key": key, "target": "VALUE", "result": "EQUAL", "value": encoded(expected) }),
            // A missing key has version 0.
            None => json!({ "key": key, "target": "VERSION", "result": "EQUAL", "version": "0" }),
        };
        let put = json!({ "request_put": { "key": key, "value": encoded(text) } });
        let answer = self.shared.post("/v3/kv/txn", &json!({ "compare": [compare], "success": [put] }))?;
        Ok(answer.get("succeeded").and_then(Json::as_bool) == Some(true))
    }

    fn remove(&self, key: &[&str]) -> Result<(), WorldError> {
        let body = json!({ "key": encoded(&self.shared.key_of(key)) });
        self.shared.post("/v3/kv/deleterange", &body).map(drop)
    }

    fn watched(&self, key: &[&str]) -> PathBuf {
        let key = notify_key(key);
        lock(&self.shared.watched).insert(key.iter().map(|part| (*part).to_owned()).collect());
        self.shared.notifications.watched(key)
    }

    fn follow(&self) {
        self.following.get_or_init(|| {
            let shared = Arc::clone(&self.shared);
            let following = move || {
                let (mut revision, mut pause) = (None, RETRY_DELAYS.0);
                while !*lock(&shared.left) {
                    let failed = match shared.watch(&mut revision) {
                        Ok((reader, since)) => {
                            shared.reached();
                            let begun = Instant::now();
                            // A lost connection is retried once before etcd counts as unreachable.
                            let failed = shared.follow(reader, since, &mut revision).is_err();
                            if !failed || begun.elapsed() > Duration::from_secs(pause) {
                                pause = RETRY_DELAYS.0;
                            }
                            failed
                        }
                        Err(why) => {
                            shared.missed(why);
                            true
                        }
                    };
                    if failed {
                        thread::sleep(Duration::from_secs(pause));
                        pause = (pause * 2).min(RETRY_DELAYS.1);
                    }
                }
            };
            // Without a thread there are no notifications. Shared values are then read when the manifest is
            // reloaded.
            drop(thread::Builder::new().name("world".into()).spawn(following));
        });
    }

    fn leave(&self) {
        let mut left = lock(&self.shared.left);
        *left = true;
        // The directory exists only if the store was followed.
        let _ = std::fs::remove_dir_all(self.shared.notifications.path());
    }
}
