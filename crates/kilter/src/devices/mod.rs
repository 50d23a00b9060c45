//! Devices: targets that cannot run kilter, reached through a transport.

mod config;
mod hocon;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use kilter_model::{Attributes, Hash, Value};
use kilter_process::trust::{Distrust, TrustPolicy};
use kilter_provider::{Context, Device, Level, TransportError, TransportSchema, TransportType};

use crate::cli::{Command, Global};
use crate::exit::Exit;
use crate::render::progress::PrintedLog;
use crate::session::Session;
use crate::trust::refusal;
use crate::{output, paths, providers, signals, streams, trust};

use config::DeviceEntry;

/// Maximum size of `device.conf` in bytes.
const MAX_CONFIG_BYTES: u64 = 4 << 20;

/// Maximum size of a file with a connection info in bytes.
const MAX_INFO_BYTES: u64 = 64 << 10;

/// Directory with the connection infos of devices without `url`, beside `device.conf`.
const INFO_DIR: &str = "devices";

/// A device, and the connection to it.
#[derive(Debug)]
pub(crate) struct DeviceTarget {
    /// Name of the device.
    pub(crate) name: String,
    /// Name of its transport.
    transport: String,
    info: InfoSource,
    /// True if the log lines of its transport are shown.
    is_debugged: bool,
    /// Connection, from the first command until [`DeviceTarget::close`].
    connection: Mutex<Option<OpenDevice>>,
    /// Reason why the device has not answered the last command.
    silence: Mutex<Option<TransportError>>,
}

/// Origin of the connection info of a device.
#[derive(Clone, Debug)]
enum InfoSource {
    /// A file that a section of the device configuration names.
    File { config: PathBuf, line: usize, url: Option<String> },
    /// The inventory.
    Inventory(Hash),
}

/// A device with an open connection.
#[derive(Clone, Debug)]
pub(crate) struct OpenDevice {
    /// The device.
    pub(crate) device: Arc<Device>,
    /// Its facts.
    pub(crate) facts: Hash,
}

/// Use of a device by a command.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeviceUse {
    /// The command connects.
    Connected,
    /// The command uses only the state directory of the device.
    Stored,
    /// The command does not work on devices.
    Unsupported,
}

impl DeviceUse {
    /// Returns the use of a device by a command.
    pub(crate) fn of(command: &Command) -> DeviceUse {
        match command {
            Command::Apply(_) | Command::Plan(_) | Command::Check(_) | Command::Undo(_) => DeviceUse::Connected,
            // A run is repeated applies.
            Command::Run(_) => DeviceUse::Connected,
            Command::Facts(_) | Command::Get(_) | Command::Set(_) | Command::Types(_) => DeviceUse::Connected,
            Command::History(_) | Command::Blame(_) => DeviceUse::Stored,
            _ => DeviceUse::Unsupported,
        }
    }
}

impl DeviceTarget {
    fn new(name: String, transport: String, info: InfoSource, is_debugged: bool) -> DeviceTarget {
        let (connection, silence) = (Mutex::default(), Mutex::default());
        DeviceTarget { name, transport, info, is_debugged, connection, silence }
    }

    /// Returns a device of the inventory.
    ///
    /// # Errors
    /// If its name could not be the name of a directory.
    pub(crate) fn of_inventory(name: &str, transport: &str, info: Hash) -> Result<DeviceTarget, String> {
        match config::is_name(name) {
            true => Ok(DeviceTarget::new(name.to_owned(), transport.to_owned(), InfoSource::Inventory(info), false)),
            false => {
                Err("the name of a device has letters, digits, `_`, `.` and `-`, and begins with none of the last \
                          two"
                .to_owned())
            }
        }
    }

    /// Returns the name of the transport.
    pub(crate) fn transport(&self) -> &str {
        &self.transport
    }

    /// Closes the connection, if there is one. The next command connects again.
    pub(crate) fn close(&self) {
        let open = self.connection.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(open) = open {
            let log = PrintedLog { from: Level::Warning };
            open.device.close(&Context::empty().with_log(&log));
        }
    }

    /// Returns the reason why the device has not answered the last command.
    pub(crate) fn take_silence(&self) -> Option<TransportError> {
        self.silence.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Returns the devices of the device configuration. Without `--device-config`, the default file may be missing.
///
/// # Errors
/// If the file is invalid; reported.
pub(crate) fn configured(global: &Global) -> Result<Vec<DeviceTarget>, Exit> {
    let is_given = global.device_config.is_some();
    let given = global.device_config.clone().or_else(paths::device_config);
    let Some(path) = given.filter(|path| is_given || path.exists()) else { return Ok(Vec::new()) };
    let entries = entries(&path, &trust::policy(global)?)?;
    let target = |entry: DeviceEntry| {
        let info = InfoSource::File { config: path.clone(), line: entry.line, url: entry.url };
        DeviceTarget::new(entry.name, entry.transport, info, entry.is_debugged)
    };
    Ok(entries.into_iter().map(target).collect())
}

/// Reads a device configuration.
fn entries(path: &Path, trust: &TrustPolicy) -> Result<Vec<DeviceEntry>, Exit> {
    let text = read(trust, "the device configuration ", path, MAX_CONFIG_BYTES)?;
    config::parse(&text).map_err(|problems| {
        for (line, why) in problems {
            output::error(format_args!("{}:{line}: {why}", path.display()));
        }
        Exit::NotStarted
    })
}

/// Connects to the device of the session, unless an earlier command has left the connection open.
///
/// # Errors
/// If its configuration is invalid, or the device does not answer; reported.
pub(crate) fn open(session: &Session, target: &DeviceTarget) -> Result<(), Exit> {
    let mut connection = target.connection.lock().unwrap_or_else(PoisonError::into_inner);
    let open = match &*connection {
        Some(open) => open.clone(),
        None => connect(session, target)?,
    };
    session.set_device(connection.insert(open).clone());
    Ok(())
}

fn connect(session: &Session, target: &DeviceTarget) -> Result<OpenDevice, Exit> {
    let transport = transport(session, target)?;
    let (place, info) = connection_info(session, target, transport.schema())?;
    let device = Device::new(target.name.as_str(), transport, &info).map_err(|problems| {
        for problem in problems {
            output::error(format_args!("{place}: {problem}"));
        }
        Exit::NotStarted
    })?;
    let level = match (session.global.quiet, session.global.verbose || target.is_debugged) {
        (true, _) => Level::Warning,
        (_, true) => Level::Debug,
        _ => Level::Notice,
    };
    let log = PrintedLog { from: level };
    let cx = session.context(&log);
    // The user sees at once that kilter retries.
    let connect = || streams::of_process(|| device.connect(&cx).and_then(|transport| transport.facts(&cx)));
    let facts = signals::interruptible(connect).and_then(|connected| {
        connected.map_err(|error| {
            let exit = output::fail(&error);
            *target.silence.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            exit
        })
    });
    let facts = facts.inspect_err(|_| device.close(&cx))?;
    Ok(OpenDevice { device: Arc::new(device), facts })
}

/// Returns the transport of a device.
fn transport(session: &Session, target: &DeviceTarget) -> Result<Arc<dyn TransportType>, Exit> {
    let providers = providers::all(session, None)?;
    if let Some(transport) = providers.registry.transport(&target.transport) {
        return Ok(Arc::clone(transport));
    }
    for note in providers.notes.iter().filter(|note| note.level >= Level::Warning) {
        output::warning(note);
    }
    let known: Vec<&str> = providers.registry.transports().iter().map(|one| one.schema().name.as_str()).collect();
    let hint = match known.is_empty() {
        true => "a transport is a program *.prov in a directory of providers".to_owned(),
        false => format!("there are {}", known.join(", ")),
    };
    let message = format!("there is no transport `{}`, which the device `{}` needs", target.transport, target.name);
    Err(output::fail_with(message, [hint]))
}

/// Returns the connection info of a device, and its place.
fn connection_info(
    session: &Session,
    target: &DeviceTarget,
    schema: &TransportSchema,
) -> Result<(String, Attributes), Exit> {
    match &target.info {
        InfoSource::Inventory(info) => {
            let mut info: Attributes = info.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
            // The name of a target is its address, unless another one is given.
            let has_address = info.get("host").is_some() || info.get("uri").is_some();
            if !has_address && schema.find("host").is_some() {
                info.push("host", Value::from(target.name.as_str()));
            }
            Ok((format!("the inventory, device {}", target.name), info))
        }
        InfoSource::File { config, line, url } => {
            let path = info_path(target, config, *line, url.as_deref())?;
            let info = info_of_file(session, &path, schema)?;
            Ok((path.display().to_string(), info))
        }
    }
}

/// Returns the path of the connection info of a device.
fn info_path(target: &DeviceTarget, config: &Path, line: usize, url: Option<&str>) -> Result<PathBuf, Exit> {
    let name = &target.name;
    let Some(url) = url else {
        return Ok(config.parent().unwrap_or(Path::new("/")).join(INFO_DIR).join(format!("{name}.conf")));
    };
    match url.strip_prefix("file://").filter(|path| path.starts_with('/')) {
        Some(path) => match kilter_provider::percent_decode(path) {
            Some(path) => Ok(PathBuf::from(OsString::from_vec(path))),
            None => Err(output::fail(format_args!("{name}: a `%` in its `url` is invalid"))),
        },
        // The URL may contain a password.
        None => {
            let message = format!("{}:{line}: the `url` of `{name}` is not a file", config.display());
            Err(output::fail_with(message, ["write file:///PATH"]))
        }
    }
}

/// Reads a connection info from its file.
fn info_of_file(session: &Session, path: &Path, schema: &TransportSchema) -> Result<Attributes, Exit> {
    let read = session.trust.open(path).and_then(|file| {
        let bytes = file.read(MAX_INFO_BYTES).map_err(|source| Distrust::Io { path: path.to_owned(), source })?;
        Ok((file.metadata().mode(), bytes))
    });
    let (mode, bytes) = read.map_err(|distrust| output::fail(refusal("the connection info ", path, &distrust)))?;
    let text =
        String::from_utf8(bytes).map_err(|_| output::fail(format_args!("{}: it is not UTF-8", path.display())))?;
    let object = hocon::parse(&text).map_err(|error| output::fail(format_args!("{}:{error}", path.display())))?;
    let info: Attributes = object.into_iter().filter(|(_, value)| !value.is_undef()).collect();
    let is_secret = |key: &str| schema.find(key).is_some_and(|known| known.data_type.may_hold_secrets());
    if mode & 0o004 != 0 && info.iter().any(|(key, _)| is_secret(key.as_str())) {
        let message = format!("{}: it contains secrets, and other users can read it", path.display());
        return Err(output::fail_with(message, [format!("chmod 600 {}", path.display())]));
    }
    Ok(info)
}

fn read(trust: &TrustPolicy, what: &str, path: &Path, limit: u64) -> Result<String, Exit> {
    let bytes = trust.read(path, limit).map_err(|distrust| output::fail(refusal(what, path, &distrust)))?;
    String::from_utf8(bytes).map_err(|_| output::fail(format_args!("{}: it is not UTF-8", path.display())))
}
