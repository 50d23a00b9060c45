//! World shared by machines: its address, the name of this machine in it, and the collected resources.

use std::cell::{OnceCell, RefCell};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, SystemTime};

use ecow::EcoString;
use kilter_manifest::{Collect, RESERVED};
use kilter_model::{from_canonical_json, is_machine, to_json};
use kilter_process::trust::TrustPolicy;
use kilter_provider::{Shared, World, WorldError};
use kilter_world::{Credentials, Directory, Endpoint, Etcd};
use serde_json::{Map, Value as Json, json};

use crate::cli::Global;
use crate::collected::{Collected, ExportedResource};
use crate::exit::Exit;
use crate::trust::refusal;
use crate::{collected, output, paths, signals};

/// First part of the keys of exported resources. The receiver, the exporting machine, the type and the title
/// follow.
const EXPORTED: &str = "exported";

/// Interval of checks for an interrupt during a wait.
const INTERRUPT_POLL: Duration = Duration::from_millis(50);

/// Certificates that this machine trusts.
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Maximum size in bytes of a file with certificates or a login.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Receiver that stands for all machines.
const EVERYBODY: &str = "*";

/// Opens the world of a command line; without an address, a world of this machine alone.
///
/// # Errors
/// If it cannot be used; reported.
pub(crate) fn open(global: &Global, state_dir: Option<PathBuf>, trust: &TrustPolicy) -> Result<Arc<dyn World>, Exit> {
    let host = global.hostname.clone().unwrap_or_else(hostname);
    if !is_machine(&host) || host == EVERYBODY {
        let hint = "give letters, digits, dots and dashes with --hostname";
        return Err(output::fail_with(format_args!("`{host}` is not a machine name"), [hint]));
    }
    let given = global.world.as_deref().filter(|given| !given.is_empty());
    Ok(match given {
        Some(address) if address.contains("://") => Arc::new(etcd(address, host, trust)?),
        Some(path) => Arc::new(Directory::new(paths::whole(Path::new(path)), host).trusting(trust.clone())),
        None => alone(state_dir, host, trust),
    })
}

/// Returns the world in etcd.
fn etcd(address: &str, host: String, trust: &TrustPolicy) -> Result<Etcd, Exit> {
    let file = |path: &Path| {
        let bytes = trust.read(path, MAX_FILE_BYTES);
        bytes.map_err(|distrust| output::fail(refusal("", path, &distrust)))
    };
    let login = match given("KILTER_WORLD_LOGIN") {
        None => None,
        Some(path) => {
            let text = String::from_utf8_lossy(&file(&path)?).into_owned();
            let odd = || output::fail(format_args!("{} does not hold NAME:PASSWORD", path.display()));
            Some(Credentials::parse(&text).ok_or_else(odd)?)
        }
    };
    let trusted = given("KILTER_WORLD_CA");
    let roots = match (&trusted, address.starts_with("https://")) {
        (Some(path), _) => file(path)?,
        (None, true) => file(Path::new(CERTIFICATES))?,
        (None, false) => Vec::new(),
    };
    let place = trusted.unwrap_or_else(|| CERTIFICATES.into()).display().to_string();
    let (access, prefix) = Endpoint::parse(address, login, (&place, &roots)).map_err(output::fail)?;
    Ok(Etcd::new(access, &prefix, host))
}

/// Returns a file from an environment variable.
fn given(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Returns the world of this machine alone, in a state directory.
pub(crate) fn of_this_machine(state_dir: Option<PathBuf>, trust: &TrustPolicy) -> Arc<dyn World> {
    alone(state_dir, hostname(), trust)
}

/// Returns the world of one machine, in its state directory.
fn alone(state_dir: Option<PathBuf>, host: String, trust: &TrustPolicy) -> Arc<dyn World> {
    Arc::new(Directory::new(local(state_dir), host).trusting(trust.clone()).of_one_machine())
}

fn local(state_dir: Option<PathBuf>) -> PathBuf {
    let state_dir = state_dir.and_then(|state_dir| std::path::absolute(state_dir).ok());
    state_dir.unwrap_or_else(|| Path::new("/nonexistent").to_owned()).join("world")
}

fn hostname() -> String {
    kilter_facts::machine_name(&rustix::system::uname().nodename().to_string_lossy()).to_owned()
}

/// Returns the paths with an event after each change of collected resources.
pub(crate) fn watched(world: &dyn World) -> [PathBuf; 2] {
    [EVERYBODY, world.host()].map(|to| world.watched(&[EXPORTED, to]))
}

/// Collected resources for one read of the manifests: the world is read once, and each exported resource is used
/// once.
pub(crate) struct Collector {
    world: Arc<dyn World>,
    offered: OnceCell<Result<Collected, String>>,
    /// Used resources: exporting machine, type and title.
    taken: RefCell<HashSet<[EcoString; 3]>>,
    /// State directory with the resources that are collected if the world cannot be reached.
    fallback: Option<PathBuf>,
}

impl Collector {
    /// Creates a collection that uses the resources stored in a state directory while the world is unreachable.
    pub(crate) fn new(world: Arc<dyn World>, fallback: Option<&Path>) -> Collector {
        let fallback = fallback.map(Path::to_owned);
        Collector { world, offered: OnceCell::new(), taken: RefCell::default(), fallback }
    }

    /// Returns the resources read, if the manifests collect any.
    pub(crate) fn into_collected(self) -> Option<Collected> {
        self.offered.into_inner()?.ok()
    }

    /// Reads the world, or the stored resources.
    fn read(&self) -> Result<Collected, String> {
        let at = SystemTime::now();
        let why = match offered(&self.world) {
            Ok(offered) => return Ok(Collected { offered, at, unreachable: None }),
            Err(why) => why,
        };
        let world = &self.world;
        let state_dir = self.fallback.as_deref().filter(|_| world.is_remote() && signals::exit().is_none());
        let Some(state_dir) = state_dir else { return Err(why) };
        let (offered, at) =
            collected::read(state_dir, world.as_ref()).map_err(|nothing| format!("{why}; {nothing}"))?;
        Ok(Collected { offered, at, unreachable: Some(why.into()) })
    }

    /// Returns the requested resources that others export for this machine, as a manifest in JSON; an empty text
    /// for none.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(crate) fn take(&self, wanted: &Collect) -> Result<String, String> {
        let collected = self.offered.get_or_init(|| self.read()).as_ref().map_err(String::clone)?;
        let mut lines = Vec::new();
        for one in &collected.offered {
            let [from, type_name, title] = &one.key[..] else {
                // The entries below an unreadable directory are unknown.
                match &one.text {
                    Err(why)
                        if one.key.first().is_some_and(|from| wanted.is_from(from))
                            && one.key.get(1).is_none_or(|type_name| *type_name == wanted.type_name) =>
                    {
                        return Err(why.clone());
                    }
                    _ => continue,
                }
            };
            if *type_name != wanted.type_name || !wanted.is_meant(from, title) {
                continue;
            }
            let Some(line) = line(wanted, from, title, one.text.as_ref().map_err(String::clone)?)? else { continue };
            // A resource for all and for this machine, or requested by two entries, is used once.
            if self.taken.borrow_mut().insert([from.clone(), type_name.clone(), title.clone()]) {
                lines.push(line);
            }
        }
        Ok(if lines.is_empty() { String::new() } else { format!("[\n{}\n]\n", lines.join(",\n")) })
    }
}

/// Returns the exports for this machine, and then the exports for all machines.
fn offered(world: &Arc<dyn World>) -> Result<Vec<ExportedResource>, String> {
    let world = Arc::clone(world);
    let read = move || {
        let mut offered = Vec::new();
        for to in [world.host(), EVERYBODY] {
            for Shared { key, text } in world.seen_below(&[EXPORTED, to])? {
                if key.first().is_some_and(|from| *from != *world.host()) {
                    offered.push(ExportedResource { key, text: text.map_err(|why| why.to_string()) });
                }
            }
        }
        Ok::<_, WorldError>(offered)
    };
    unless_interrupted(read)?.map_err(|why| why.to_string())
}

/// Runs a call that may block, on another thread, until a signal arrives.
fn unless_interrupted<T: Send + 'static>(wait: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    let (sender, receiver) = channel();
    let thread = thread::Builder::new().name("world".into());
    let asking = thread.spawn(move || drop(sender.send(wait())));
    asking.map_err(|error| format!("cannot start a thread for it: {error}"))?;
    loop {
        match receiver.recv_timeout(INTERRUPT_POLL) {
            Ok(answer) => return Ok(answer),
            Err(RecvTimeoutError::Timeout) if !signals::raised().load(Ordering::Acquire) => {}
            Err(RecvTimeoutError::Timeout) => return Err("it was interrupted".to_owned()),
            Err(RecvTimeoutError::Disconnected) => return Err("it was abandoned: this is a defect".to_owned()),
        }
    }
}

/// Returns one resource with the attributes that the manifest adds; none if the conditions exclude it.
fn line(wanted: &Collect, from: &EcoString, title: &str, text: &str) -> Result<Option<String>, String> {
    let reference = format!("{}[{title}]", wanted.type_name);
    let damaged = || format!("the export {reference} of {from} is damaged: it was not written by kilter");
    let record: Json = serde_json::from_str(text).map_err(|_| damaged())?;
    let said = record.get("attributes").and_then(|said| from_canonical_json(said).ok()).ok_or_else(damaged)?;
    let said = to_json(&said);
    let said = said.as_object().ok_or_else(damaged)?.iter();
    let mut attributes: Map<String, Json> = said
        .filter(|(name, _)| !RESERVED.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    attributes.extend(wanted.set.clone());
    if !wanted.allows(&attributes) {
        return Ok(None);
    }
    let line = json!({ "resource": reference, "from": from.as_str(), "attributes": attributes });
    Ok(Some(line.to_string()))
}
