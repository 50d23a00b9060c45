//! A world in etcd, by its JSON gateway (`/v3/…`).

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ecow::{EcoString, eco_format};
use kilter_provider::{World, WorldError};
use serde_json::{Value as Json, json};

use crate::access::{Access, Login};
use crate::directory::Directory;
use crate::name::{Begun, names, part};

/// The pauses between tries to watch, in seconds: the first, and the longest.
const PAUSES: (u64, u64) = (1, 30);

/// An answer that is longer is refused, in bytes.
const LARGEST: u64 = 256 << 20;

/// Texts in etcd, below a prefix of its keys.
///
/// What changes there is told by a copy in the state directory of this machine, which a thread keeps as long as somebody
/// [follows](World::follow).
pub struct Etcd {
    shared: Arc<Shared>,
    host: EcoString,
    following: OnceLock<()>,
}

struct Shared {
    access: Access,
    /// What all keys begin with, without the slash behind it.
    prefix: String,
    copy: Directory,
    /// What says that we may, where there is a login.
    token: Mutex<Option<String>>,
}

impl Etcd {
    /// The world below `prefix`, which is reached by `access`. `copies` is a directory for what is followed of this world and of
    /// others, and `host` what this machine is called.
    pub fn new(access: Access, prefix: &str, copies: &Path, host: impl Into<EcoString>) -> Etcd {
        let host = host.into();
        let prefix = prefix.trim_matches('/').to_owned();
        let mut copy = copies.to_owned();
        copy.extend(names(&format!("{}/{prefix}", access.shown())));
        let copy = Directory::new(copy, host.clone());
        let shared = Shared { access, prefix, copy, token: Mutex::default() };
        Etcd { shared: Arc::new(shared), host, following: OnceLock::new() }
    }
}

/// What was found under a key.
struct Pair {
    key: String,
    text: String,
}

impl Shared {
    /// The key of etcd, in which parts of keys stand between slashes.
    fn key_of(&self, key: &[&str]) -> String {
        let parts = key.iter().flat_map(|part| names(part));
        [self.prefix.clone()].into_iter().chain(parts).collect::<Vec<_>>().join("/")
    }

    /// The parts of a key below another one of this length.
    fn parts(&self, key: &str, above: &str) -> Option<Vec<EcoString>> {
        let below = key.strip_prefix(above)?.strip_prefix('/')?;
        let begun = below.split('/').try_fold(Begun::default(), |begun, name| begun.and(part(name)?))?;
        begun.finished()
    }

    /// Asks etcd, with a new token if the one that there was is too old.
    fn ask(&self, path: &str, question: &Json) -> Result<Json, WorldError> {
        let had_token = self.token()?;
        match self.access.post(path, question, had_token.as_deref()) {
            Err(refused) if refused.is_unauthorized() && had_token.is_some() => {
                *self.token.lock().unwrap_or_else(PoisonError::into_inner) = None;
                let token = self.token()?;
                let answer = self.access.post(path, question, token.as_deref());
                answer.map_err(|why| self.failed(&why))?.json(LARGEST).map_err(|why| self.failed(&why))
            }
            answer => answer.and_then(|answer| answer.json(LARGEST)).map_err(|why| self.failed(&why)),
        }
    }

    fn token(&self) -> Result<Option<String>, WorldError> {
        let Some(Login { user, password }) = self.access.login() else { return Ok(None) };
        let mut token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        if token.is_none() {
            let question = json!({ "name": user, "password": password });
            let answer = self.access.post("/v3/auth/authenticate", &question, None);
            let answer = answer.and_then(|answer| answer.json(LARGEST)).map_err(|why| self.failed(&why))?;
            *token = answer.get("token").and_then(Json::as_str).map(str::to_owned);
        }
        Ok(token.clone())
    }

    fn failed(&self, why: &dyn std::fmt::Display) -> WorldError {
        WorldError(eco_format!("etcd at {}: {why}", self.access.shown()))
    }

    /// All pairs of a range, and the revision at which they were.
    fn range(&self, from: &str, to: Option<&str>) -> Result<(Vec<Pair>, i64), WorldError> {
        let mut question = json!({ "key": encoded(from) });
        if let Some(to) = to {
            question["range_end"] = encoded(to).into();
        }
        let answer = self.ask("/v3/kv/range", &question)?;
        let revision = number(answer.pointer("/header/revision"));
        let found = answer.get("kvs").and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
        let odd = || WorldError(eco_format!("what is in etcd at {} was not written by kilter", self.access.shown()));
        let pairs = found.iter().map(|pair| pair_of(pair).ok_or_else(odd)).collect::<Result<Vec<_>, _>>()?;
        Ok((pairs, revision))
    }

    /// Keeps the copy as etcd is, and tells so, until something goes wrong.
    fn follow(&self, revision: &mut Option<i64>) -> Result<(), WorldError> {
        let (from, to) = below(&self.prefix);
        let since = match *revision {
            Some(revision) => revision,
            None => {
                let (pairs, found) = self.range(&from, Some(&to))?;
                self.copy_all(&pairs)?;
                found
            }
        };
        *revision = None;
        let question = json!({ "create_request": {
            "key": encoded(&from), "range_end": encoded(&to), "start_revision": (since + 1).to_string(),
        } });
        let token = self.token()?;
        let answer = self.access.listen("/v3/watch", &question, token.as_deref());
        let reader = answer.map_err(|why| self.failed(&why))?.lines();
        let mut last = since;
        for line in BufReader::new(reader).lines() {
            let Ok(line) = line else {
                // Nothing has come for a while: what comes next begins where this has ended.
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
            let events = told.pointer("/result/events").and_then(Json::as_array).map(Vec::as_slice);
            for event in events.unwrap_or_default() {
                self.copy_one(event)?;
            }
            last = last.max(number(told.pointer("/result/header/revision")));
        }
        *revision = Some(last);
        Err(self.failed(&"the connection was closed"))
    }

    fn copy_all(&self, pairs: &[Pair]) -> Result<(), WorldError> {
        let mut had: Vec<(Vec<EcoString>, String)> = self.copy.below(&[])?;
        for Pair { key, text } in pairs {
            let Some(parts) = self.parts(key, &self.prefix) else { continue };
            match had.iter().position(|(had, _)| *had == parts) {
                Some(at) if had[at].1 == *text => drop(had.swap_remove(at)),
                at => {
                    at.map(|at| had.swap_remove(at));
                    self.copy.write(&words(&parts), text)?;
                }
            }
        }
        had.iter().try_for_each(|(gone, _)| self.copy.remove(&words(gone)))
    }

    fn copy_one(&self, event: &Json) -> Result<(), WorldError> {
        let is_gone = event.get("type").and_then(Json::as_str) == Some("DELETE");
        let Some(pair) = event.get("kv").and_then(pair_of) else { return Ok(()) };
        let Some(parts) = self.parts(&pair.key, &self.prefix) else { return Ok(()) };
        if is_gone { self.copy.remove(&words(&parts)) } else { self.copy.write(&words(&parts), &pair.text) }
    }
}

fn words(parts: &[EcoString]) -> Vec<&str> {
    parts.iter().map(EcoString::as_str).collect()
}

/// The range of all keys below one: what follows the slash is `0`.
fn below(key: &str) -> (String, String) {
    (format!("{key}/"), format!("{key}0"))
}

fn encoded(text: &str) -> String {
    BASE64_STANDARD.encode(text)
}

fn decoded(json: Option<&Json>) -> Option<String> {
    let Some(text) = json else { return Some(String::new()) };
    String::from_utf8(BASE64_STANDARD.decode(text.as_str()?).ok()?).ok()
}

fn pair_of(pair: &Json) -> Option<Pair> {
    Some(Pair { key: decoded(pair.get("key"))?, text: decoded(pair.get("value"))? })
}

/// Numbers of 64 bits are texts in JSON.
fn number(json: Option<&Json>) -> i64 {
    json.and_then(|json| json.as_i64().or_else(|| json.as_str()?.parse().ok())).unwrap_or(0)
}

impl World for Etcd {
    fn host(&self) -> &str {
        &self.host
    }

    fn place(&self) -> String {
        format!("{}/{}", self.shared.access.shown(), self.shared.prefix)
    }

    fn read(&self, key: &[&str]) -> Result<Option<String>, WorldError> {
        let (pairs, _) = self.shared.range(&self.shared.key_of(key), None)?;
        Ok(pairs.into_iter().next().map(|pair| pair.text))
    }

    fn below(&self, key: &[&str]) -> Result<Vec<(Vec<EcoString>, String)>, WorldError> {
        let above = self.shared.key_of(key);
        let (from, to) = below(&above);
        let (pairs, _) = self.shared.range(&from, Some(&to))?;
        let pair = |pair: Pair| Some((self.shared.parts(&pair.key, &above)?, pair.text));
        let mut found: Vec<_> = pairs.into_iter().filter_map(pair).collect();
        found.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        Ok(found)
    }

    fn write(&self, key: &[&str], text: &str) -> Result<(), WorldError> {
        let question = json!({ "key": encoded(&self.shared.key_of(key)), "value": encoded(text) });
        self.shared.ask("/v3/kv/put", &question).map(drop)
    }

    fn replace(&self, key: &[&str], expected: Option<&str>, text: &str) -> Result<bool, WorldError> {
        let key = encoded(&self.shared.key_of(key));
        let compare = match expected {
            Some(expected) => json!({ "key": key, "target": "VALUE", "result": "EQUAL", "value": encoded(expected) }),
            // What is not there has the version 0.
            None => json!({ "key": key, "target": "VERSION", "result": "EQUAL", "version": "0" }),
        };
        let put = json!({ "request_put": { "key": key, "value": encoded(text) } });
        let answer = self.shared.ask("/v3/kv/txn", &json!({ "compare": [compare], "success": [put] }))?;
        Ok(answer.get("succeeded").and_then(Json::as_bool) == Some(true))
    }

    fn remove(&self, key: &[&str]) -> Result<(), WorldError> {
        let question = json!({ "key": encoded(&self.shared.key_of(key)) });
        self.shared.ask("/v3/kv/deleterange", &question).map(drop)
    }

    fn watched(&self, key: &[&str]) -> PathBuf {
        self.shared.copy.watched(key)
    }

    fn follow(&self) {
        self.following.get_or_init(|| {
            let shared = Arc::clone(&self.shared);
            let following = move || {
                let (mut revision, mut pause) = (None, PAUSES.0);
                loop {
                    match shared.follow(&mut revision) {
                        Ok(()) => pause = PAUSES.0,
                        Err(_) => {
                            thread::sleep(Duration::from_secs(pause));
                            pause = (pause * 2).min(PAUSES.1);
                        }
                    }
                }
            };
            // Without a thread nothing tells: what is exported and collected is looked at when the manifest is read.
            drop(thread::Builder::new().name("world".into()).spawn(following));
        });
    }
}
