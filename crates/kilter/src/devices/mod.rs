//! Devices: targets that cannot run kilter, reached through a transport.

mod config;
mod hocon;
mod many;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kilter_model::{Attributes, Hash};
use kilter_process::trust::{Distrust, TrustPolicy};
use kilter_provider::{Device, Level, TransportSchema, TransportType};

use crate::cli::{Command, Global};
use crate::exit::Exit;
use crate::render::progress::PrintedLog;
use crate::session::Session;
use crate::trust::refusal;
use crate::{output, paths, providers, signals, trust};

pub(crate) use config::DeviceEntry;
pub(crate) use many::run_on_each;

/// Maximum size of `device.conf` in bytes.
const MAX_CONFIG_BYTES: u64 = 4 << 20;

/// Maximum size of a file with a connection info in bytes.
const MAX_INFO_BYTES: u64 = 64 << 10;

/// Directory with the connection infos of devices without `url`, beside `device.conf`.
const INFO_DIR: &str = "devices";

/// A device with an open connection.
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
            Command::Apply(args) if args.confirm_within.is_some() || args.health.is_some() => DeviceUse::Unsupported,
            Command::Apply(_) | Command::Plan(_) | Command::Check(_) | Command::Facts(_) => DeviceUse::Connected,
            Command::Get(_) | Command::Set(_) => DeviceUse::Connected,
            Command::History(_) | Command::Blame(_) => DeviceUse::Stored,
            _ => DeviceUse::Unsupported,
        }
    }
}

/// Returns the devices that `--on` names. None if it names hosts, or nothing.
///
/// # Errors
/// If the device configuration is invalid, or `--on` names devices and hosts; reported.
pub(crate) fn named(global: &Global) -> Result<Vec<String>, Exit> {
    let mut names: Vec<String> = Vec::new();
    for name in global.remote.on.iter().flat_map(|words| words.split(',')).map(str::trim) {
        if !name.is_empty() && names.iter().all(|known| known != name) {
            names.push(name.to_owned());
        }
    }
    let is_given = global.device_config.is_some();
    if names.is_empty() || !is_given && paths::device_config().is_none_or(|path| !path.exists()) {
        return Ok(Vec::new());
    }
    let entries = entries(global, &trust::policy(global)?)?;
    let (devices, others): (Vec<String>, Vec<String>) =
        names.into_iter().partition(|name| entries.iter().any(|entry| entry.name == *name));
    match (devices.first(), others.first()) {
        (Some(device), Some(other)) => {
            let message = format!("--on names the device `{device}` and `{other}`, which is no device");
            Err(output::fail_with(message, ["run one command for devices and one for hosts"]))
        }
        _ => Ok(devices),
    }
}

/// Refuses a command that does not work on devices.
pub(crate) fn unsupported() -> Exit {
    let hint = "a device supports plan, apply (without --confirm-within), check, get, set, facts, history and blame";
    output::fail_with("this command does not work on devices", [hint])
}

/// Returns the configuration of a device.
///
/// # Errors
/// If the file is invalid or does not define the device; reported.
pub(crate) fn entry(global: &Global, name: &str, trust: &TrustPolicy) -> Result<DeviceEntry, Exit> {
    let found = entries(global, trust)?.into_iter().find(|entry| entry.name == name);
    found.ok_or_else(|| output::fail(format_args!("there is no device `{name}`")))
}

/// Returns the devices of the configuration.
fn entries(global: &Global, trust: &TrustPolicy) -> Result<Vec<DeviceEntry>, Exit> {
    let path = config_path(global)?;
    let text = read(trust, "the device configuration ", &path, MAX_CONFIG_BYTES)?;
    config::parse(&text).map_err(|problems| {
        for (line, why) in problems {
            output::error(format_args!("{}:{line}: {why}", path.display()));
        }
        Exit::NotStarted
    })
}

/// Connects to the device of the session.
///
/// # Errors
/// If its configuration is invalid, or the device does not answer; reported.
pub(crate) fn open(session: &Session, entry: &DeviceEntry) -> Result<(), Exit> {
    let transport = transport(session, entry)?;
    let (path, info) = connection_info(session, entry, transport.schema())?;
    let device = Device::new(entry.name.as_str(), transport, &info).map_err(|problems| {
        for problem in problems {
            output::error(format_args!("{}: {problem}", path.display()));
        }
        Exit::NotStarted
    })?;
    let level = match (session.global.quiet, session.global.verbose || entry.is_debugged) {
        (true, _) => Level::Warning,
        (_, true) => Level::Debug,
        _ => Level::Notice,
    };
    let log = PrintedLog { from: level };
    let cx = session.context(&log);
    let connect = || device.connect(&cx).and_then(|transport| transport.facts(&cx));
    let facts = signals::interruptible(connect)
        .and_then(|connected| connected.map_err(|error| output::fail(format_args!("{}: {error}", entry.name))));
    let facts = facts.inspect_err(|_| device.close(&cx))?;
    session.set_device(OpenDevice { device: Arc::new(device), facts });
    Ok(())
}

/// Closes the connection to the device of the session, if there is one.
pub(crate) fn close(session: &Session) {
    if let Some(open) = session.device() {
        let log = PrintedLog { from: Level::Warning };
        open.device.close(&session.context(&log));
    }
}

/// Returns the transport of a device.
fn transport(session: &Session, entry: &DeviceEntry) -> Result<Arc<dyn TransportType>, Exit> {
    let providers = providers::all(session, None)?;
    if let Some(transport) = providers.registry.transport(&entry.transport) {
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
    let message = format!("there is no transport `{}`, which the device `{}` needs", entry.transport, entry.name);
    Err(output::fail_with(message, [hint]))
}

/// Returns the connection info of a device, and its file.
fn connection_info(
    session: &Session,
    entry: &DeviceEntry,
    schema: &TransportSchema,
) -> Result<(PathBuf, Attributes), Exit> {
    let config = config_path(&session.global)?;
    let path = match &entry.url {
        None => config.parent().unwrap_or(Path::new("/")).join(INFO_DIR).join(format!("{}.conf", entry.name)),
        Some(url) => match url.strip_prefix("file://").filter(|path| path.starts_with('/')) {
            Some(path) => match kilter_provider::percent_decode(path) {
                Some(path) => PathBuf::from(OsString::from_vec(path)),
                None => return Err(output::fail(format_args!("{}: a `%` in its `url` is invalid", entry.name))),
            },
            // The URL may contain a password.
            None => {
                let message =
                    format!("{}:{}: the `url` of `{}` is not a file", config.display(), entry.line, entry.name);
                return Err(output::fail_with(message, ["write file:///PATH"]));
            }
        },
    };
    let read = session.trust.open(&path).and_then(|file| {
        let bytes = file.read(MAX_INFO_BYTES).map_err(|source| Distrust::Io { path: path.clone(), source })?;
        Ok((file.metadata().mode(), bytes))
    });
    let (mode, bytes) = read.map_err(|distrust| output::fail(refusal("the connection info ", &path, &distrust)))?;
    let text =
        String::from_utf8(bytes).map_err(|_| output::fail(format_args!("{}: it is not UTF-8", path.display())))?;
    let object = hocon::parse(&text).map_err(|error| output::fail(format_args!("{}:{error}", path.display())))?;
    let info: Attributes = object.into_iter().filter(|(_, value)| !value.is_undef()).collect();
    let is_secret = |key: &str| schema.find(key).is_some_and(|known| known.data_type.may_hold_secrets());
    if mode & 0o004 != 0 && info.iter().any(|(key, _)| is_secret(key.as_str())) {
        let message = format!("{}: it contains secrets, and other users can read it", path.display());
        return Err(output::fail_with(message, [format!("chmod 600 {}", path.display())]));
    }
    Ok((path, info))
}

/// Returns the path of `device.conf`.
fn config_path(global: &Global) -> Result<PathBuf, Exit> {
    let given = global.device_config.clone().or_else(paths::device_config);
    given.ok_or_else(|| output::fail("there is no device configuration: give one with --device-config"))
}

fn read(trust: &TrustPolicy, what: &str, path: &Path, limit: u64) -> Result<String, Exit> {
    let bytes = trust.read(path, limit).map_err(|distrust| output::fail(refusal(what, path, &distrust)))?;
    String::from_utf8(bytes).map_err(|_| output::fail(format_args!("{}: it is not UTF-8", path.display())))
}
