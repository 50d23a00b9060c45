//! A systemd for tests: it speaks D-Bus at a socket, and keeps units in memory.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kilter_provider::WatchSink;

use super::bus::{Body, BusMessage, MessageKind, Sockets};
use super::{ServiceHost, ServiceProvider, unit};
use crate::accounts::fake::FakeRunner;

/// A unit of the fake.
#[derive(Clone, Debug, Default)]
pub(crate) struct FakeUnit {
    /// State of its file; empty if there is none.
    pub(crate) file: String,
    pub(crate) active: String,
    /// Result of the jobs that start it.
    pub(crate) result: String,
    pub(crate) service_type: String,
    /// True after its file has changed.
    pub(crate) needs_reload: bool,
    pub(crate) can_reload: bool,
    /// True if its file has a section `[Install]`.
    pub(crate) has_install: bool,
    /// Path of the command of its `ExecStartPre` that fails.
    pub(crate) failed_pre: Option<&'static str>,
    /// True if a signal has ended its program.
    pub(crate) is_killed: bool,
}

impl FakeUnit {
    /// Returns a stopped service that can be enabled.
    pub(crate) fn disabled() -> FakeUnit {
        let (file, active, result) = ("disabled".into(), "inactive".into(), "done".into());
        FakeUnit { file, active, result, service_type: "notify".into(), has_install: true, ..FakeUnit::default() }
    }
}

#[derive(Default)]
struct FakeState {
    units: Mutex<BTreeMap<String, FakeUnit>>,
    /// Other names of units.
    aliases: Mutex<BTreeMap<String, String>>,
    calls: Mutex<Vec<String>>,
    directories: Mutex<Vec<String>>,
    connections: Mutex<Vec<UnixStream>>,
    opened: AtomicUsize,
}

pub(crate) struct FakeSystemd {
    inner: Arc<FakeState>,
    pub(super) root: tempfile::TempDir,
    pub(super) runner: Arc<FakeRunner>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FakeSystemd {
    pub(crate) fn new(units: impl IntoIterator<Item = (&'static str, FakeUnit)>) -> FakeSystemd {
        let root = tempfile::tempdir().expect("there is room for a directory");
        let inner = Arc::new(FakeState::default());
        *lock(&inner.units) = units.into_iter().map(|(name, unit)| (name.to_owned(), unit)).collect();
        std::fs::create_dir(root.path().join("system")).expect("the directory is new");
        for (name, _) in lock(&inner.units).iter().filter(|(_, unit)| !unit.file.is_empty()) {
            // The continued line leaves the state to systemd.
            let text = "[Install]\nAlso=other.service \\\n";
            std::fs::write(root.path().join("system").join(name), text).expect("the directory is new");
        }
        *lock(&inner.directories) = vec![root.path().join("system").display().to_string()];
        let listener = UnixListener::bind(root.path().join("socket")).expect("the directory is new");
        let of_thread = Arc::clone(&inner);
        // It ends with the process of the tests.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                of_thread.opened.fetch_add(1, Ordering::AcqRel);
                let inner = Arc::clone(&of_thread);
                std::thread::spawn(move || serve(&inner, stream));
            }
        });
        FakeSystemd { inner, root, runner: Arc::default() }
    }

    pub(crate) fn provider(&self) -> ServiceProvider {
        let socket = self.root.path().join("socket");
        ServiceProvider::on(ServiceHost {
            sockets: Sockets { private: socket.clone(), bus: socket },
            booted: self.root.path().to_owned(),
            run: self.root.path().to_owned(),
            links: self.root.path().join("system"),
            runner: self.runner.clone(),
        })
    }

    /// Adds a directory whose unit files a reload loads.
    pub(crate) fn load_from(&self, directory: &Path) {
        lock(&self.inner.directories).push(directory.display().to_string());
    }

    pub(super) fn alias(&self, alias: &str, unit: &str) {
        lock(&self.inner.aliases).insert(alias.into(), unit.into());
    }

    pub(crate) fn unit(&self, name: &str) -> FakeUnit {
        lock(&self.inner.units)[name].clone()
    }

    pub(crate) fn change(&self, name: &str, change: impl FnOnce(&mut FakeUnit)) {
        change(lock(&self.inner.units).get_mut(name).expect("the test names a unit"));
    }

    /// Returns the changes that were requested since the last call.
    pub(crate) fn calls(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.inner.calls))
    }

    /// Number of connections until now.
    pub(super) fn opened(&self) -> usize {
        self.inner.opened.load(Ordering::Acquire)
    }

    /// Closes all connections, as systemd does when it executes itself again.
    pub(super) fn close_all(&self) {
        for connection in lock(&self.inner.connections).drain(..) {
            let _ = connection.shutdown(std::net::Shutdown::Both);
        }
    }

    /// Sends a signal over all connections.
    pub(super) fn signal(&self, signal: &BusMessage) {
        let bytes = signal.encode();
        for connection in lock(&self.inner.connections).iter_mut() {
            let _ = connection.write_all(&bytes);
        }
    }

    /// Reports the change of a unit to all connections.
    pub(crate) fn report(&self, unit: &str) {
        self.signal(&changed(unit));
    }

    /// Returns the state of all units as text.
    pub(crate) fn fingerprint(&self) -> String {
        format!("{:#?}", lock(&self.inner.units))
    }
}

/// Returns the signal that a property of a unit has changed.
pub(super) fn changed(unit: &str) -> BusMessage {
    let mut body = Body::default();
    body.string("org.freedesktop.systemd1.Unit");
    BusMessage {
        kind: MessageKind::Signal,
        serial: 1,
        path: unit::path_of(unit),
        interface: "org.freedesktop.DBus.Properties".into(),
        member: "PropertiesChanged".into(),
        signature: "s".into(),
        body: body.bytes,
        ..BusMessage::default()
    }
}

/// Returns a signal of the manager with a boolean.
pub(super) fn of_manager(member: &str, value: bool) -> BusMessage {
    let mut body = Body::default();
    body.u32(value.into());
    BusMessage {
        kind: MessageKind::Signal,
        serial: 1,
        path: "/org/freedesktop/systemd1".into(),
        interface: "org.freedesktop.systemd1.Manager".into(),
        member: member.into(),
        signature: "b".into(),
        body: body.bytes,
        ..BusMessage::default()
    }
}

/// Serves a connection until it ends.
fn serve(inner: &FakeState, mut stream: UnixStream) {
    let mut line = Vec::new();
    let mut byte = [0];
    for answer in [&b"OK 0123456789abcdef0123456789abcdef\r\n"[..], b""] {
        line.clear();
        while !line.ends_with(b"\r\n") {
            match stream.read(&mut byte) {
                Ok(1) => line.push(byte[0]),
                _ => return,
            }
        }
        if stream.write_all(answer).is_err() {
            return;
        }
    }
    lock(&inner.connections).push(stream.try_clone().expect("there are descriptors"));
    let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
    while let Ok(read @ 1..) = stream.read(&mut chunk) {
        bytes.extend_from_slice(&chunk[..read]);
        while let Ok(Some(call)) = BusMessage::take(&mut bytes) {
            let sent: Vec<u8> = inner.answer(&call).iter().flat_map(BusMessage::encode).collect();
            let _turn = lock(&inner.connections);
            if stream.write_all(&sent).is_err() {
                return;
            }
        }
    }
}

fn answer(call: &BusMessage, signature: &str, body: Body) -> BusMessage {
    BusMessage {
        kind: MessageKind::Return,
        serial: 1,
        answers: call.serial,
        signature: signature.into(),
        body: body.bytes,
        ..BusMessage::default()
    }
}

fn refused(call: &BusMessage, name: &str, text: &str) -> BusMessage {
    let mut body = Body::default();
    body.string(text);
    BusMessage { kind: MessageKind::Error, error: name.into(), ..answer(call, "s", body) }
}

fn variant(signature: &str, write: impl FnOnce(&mut Body)) -> Body {
    let mut body = Body::default();
    body.signature(signature);
    write(&mut body);
    body
}

impl FakeState {
    fn name_of(&self, name: &str) -> String {
        lock(&self.aliases).get(name).cloned().unwrap_or_else(|| name.to_owned())
    }

    fn put(&self, body: &mut Body, name: &str) {
        let id = self.name_of(name);
        let units = lock(&self.units);
        let unit = units.get(&id);
        body.structure();
        let load = match unit.map(|unit| unit.file.as_str()) {
            None => "not-found",
            Some("masked" | "masked-runtime") => "masked",
            Some(_) => "loaded",
        };
        let active = unit.map_or("inactive", |unit| unit.active.as_str());
        [&id, "", load, active, "", "", "/"].into_iter().for_each(|text| body.string(text));
        body.u32(0);
        ["", "/"].into_iter().for_each(|text| body.string(text));
    }

    fn answer(&self, call: &BusMessage) -> Vec<BusMessage> {
        let text = || call.first("s").and_then(|mut reader| reader.string().map(str::to_owned)).unwrap_or_default();
        let names = || {
            let mut reader = call.first("as").expect("the client sends the documented types");
            let names = reader.strings().expect("the client sends whole messages");
            names.into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        let list = |names: &[String]| {
            let mut body = Body::default();
            body.array(8, |body| names.iter().for_each(|name| self.put(body, name)));
            answer(call, "a(ssssssouso)", body)
        };
        vec![match call.member.as_str() {
            "Hello" | "AddMatch" | "Subscribe" => answer(call, "", Body::default()),
            "ListUnits" => {
                let names: Vec<String> = lock(&self.units).keys().cloned().collect();
                list(&names)
            }
            "ListUnitsByNames" => list(&names()),
            "GetUnitFileState" => match lock(&self.units).get(&text()) {
                Some(unit) if !unit.file.is_empty() => {
                    let mut body = Body::default();
                    body.string(&unit.file);
                    answer(call, "s", body)
                }
                _ => refused(call, "org.freedesktop.DBus.Error.FileNotFound", "No such file or directory"),
            },
            "Get" => self.property(call),
            "Reload" => {
                lock(&self.calls).push("reload".into());
                let directories = lock(&self.directories).clone();
                let files = directories.iter().flat_map(std::fs::read_dir).flatten().flatten();
                let files: Vec<String> = files.filter_map(|file| file.file_name().into_string().ok()).collect();
                let mut units = lock(&self.units);
                for file in files.into_iter().filter(|file| unit::has_type(file)) {
                    units.entry(file).or_insert_with(FakeUnit::disabled);
                }
                units.values_mut().for_each(|unit| unit.needs_reload = false);
                answer(call, "", Body::default())
            }
            "EnableUnitFiles" | "DisableUnitFiles" | "MaskUnitFiles" | "UnmaskUnitFiles" => {
                let mut units = lock(&self.units);
                for name in names() {
                    lock(&self.calls).push(format!("{} {name}", call.member.replace("UnitFiles", "").to_lowercase()));
                    let unit = units.entry(name).or_default();
                    unit.file = match call.member.as_str() {
                        "EnableUnitFiles" => "enabled",
                        "MaskUnitFiles" => "masked",
                        _ if unit.has_install => "disabled",
                        _ => "static",
                    }
                    .into();
                }
                answer(call, "", Body::default())
            }
            _ => return self.job(call, &text()),
        }]
    }

    /// Answers a call that queues a job. The signal of its end comes first, as it may.
    fn job(&self, call: &BusMessage, name: &str) -> Vec<BusMessage> {
        let verb = call.member.replace("Unit", "").to_lowercase();
        lock(&self.calls).push(format!("{verb} {name}"));
        let mut units = lock(&self.units);
        let Some(unit) = units.get_mut(name) else {
            return vec![refused(call, "org.freedesktop.systemd1.NoSuchUnit", &format!("Unit {name} not found."))];
        };
        if unit.file == "masked" && verb != "stop" {
            return vec![refused(call, "org.freedesktop.systemd1.UnitMasked", &format!("Unit {name} is masked."))];
        }
        let result = if verb == "stop" { "done".to_owned() } else { unit.result.clone() };
        unit.active = match (verb.as_str(), result.as_str()) {
            ("stop", _) => "inactive",
            (_, "done") => "active",
            (_, "never") => "activating",
            _ => "failed",
        }
        .into();
        let mut job = Body::default();
        job.string("/org/freedesktop/systemd1/job/7");
        let queued = answer(call, "o", job);
        if result == "never" {
            return vec![queued];
        }
        let mut body = Body::default();
        body.u32(7);
        ["/org/freedesktop/systemd1/job/7", name, &result].into_iter().for_each(|text| body.string(text));
        let ended = BusMessage { signature: "uoss".into(), body: body.bytes, ..of_manager("JobRemoved", true) };
        vec![ended, queued]
    }

    fn property(&self, call: &BusMessage) -> BusMessage {
        let mut reader = call.reader("ss").expect("the client sends the documented types");
        let (_, name) = (reader.string(), reader.string().expect("the client sends whole messages"));
        if name == "UnitPath" {
            let directories = lock(&self.directories);
            let texts: Vec<&str> = directories.iter().map(String::as_str).collect();
            return answer(call, "v", variant("as", |body| body.strings(&texts)));
        }
        let id = self.name_of(&unit::of_path(&call.path).unwrap_or_default());
        let units = lock(&self.units);
        let unit = units.get(&id).cloned().unwrap_or_default();
        let text = |text: &str| variant("s", |body| body.string(text));
        let boolean = |value: bool| variant("b", |body| body.u32(value.into()));
        let body = match name {
            "UnitFileState" => text(&unit.file),
            "ActiveState" => text(&unit.active),
            "SubState" | "SourcePath" => text(""),
            "Type" => text(&unit.service_type),
            "Result" => text("exit-code"),
            "NeedDaemonReload" => boolean(unit.needs_reload),
            "CanReload" => boolean(unit.can_reload),
            "ExecMainCode" => variant("i", |body| body.u32(if unit.is_killed { 2 } else { 1 })),
            "ExecMainStatus" => variant("i", |body| body.u32(if unit.failed_pre.is_some() { 0 } else { 3 })),
            "ExecStartPre" => variant("a(sasbttttuii)", |body| {
                body.array(8, |body| {
                    for (path, status) in unit.failed_pre.iter().flat_map(|path| [("/bin/true", 0), (path, 4)]) {
                        body.structure();
                        body.string(path);
                        body.strings(&[path, "-x"]);
                        body.u32(0);
                        body.structure();
                        body.bytes.extend([0; 32]);
                        [7, 1, status].into_iter().for_each(|number| body.u32(number));
                    }
                });
            }),
            "InactiveExitTimestamp" => {
                variant("t", |body| body.bytes.extend([0, 0, 0, 0, 0].into_iter().chain(5_000_000_u64.to_le_bytes())))
            }
            _ => return refused(call, "org.freedesktop.DBus.Error.UnknownProperty", "Unknown property"),
        };
        answer(call, "v", body)
    }
}

/// Receiver of events that passes them on.
pub(crate) struct ToldEvents(pub(crate) Sender<String>);

impl WatchSink for ToldEvents {
    fn watching(&self) {
        let _ = self.0.send("watching".into());
    }

    fn changed(&self, name: &str) {
        let _ = self.0.send(name.into());
    }

    fn all_changed(&self) {
        let _ = self.0.send("all".into());
    }
}
