//! Bolt's `config`: the transport of a target and its options.

use std::path::PathBuf;

use ecow::{EcoString, eco_format};
use kilter_model::{Hash, Value, suggest};
use kilter_remote::BecomeMethod;
use kilter_script::yaml::Node;

use crate::destination::{checked_host, checked_user, host_and_port, word};
use crate::problem::{ProblemPlace, Problems};
use crate::secrets;
use crate::target::{Become, ConnectionKind, Target};

/// Transports of Bolt that kilter has.
const TRANSPORTS: [&str; 4] = ["ssh", "local", "podman", "remote"];
/// Transports of Bolt that kilter does not have.
const OTHERS: [&str; 5] = ["winrm", "docker", "lxd", "jail", "pcp"];

/// Options of ssh that have an effect.
const USED: [&str; 12] = [
    "host",
    "port",
    "user",
    "password",
    "private-key",
    "proxyjump",
    "host-key-check",
    "connect-timeout",
    "run-as",
    "sudo-password",
    "sudo-executable",
    "load-config",
];
/// Options of ssh that concern only how Bolt runs its tasks.
const UNUSED: [&str; 17] = [
    "disconnect-timeout",
    "tmpdir",
    "script-dir",
    "tty",
    "interpreters",
    "native-ssh",
    "copy-command",
    "cleanup",
    "batch-mode",
    "basename",
    "bundled-ruby",
    "login-shell",
    "extensions",
    "file-protocol",
    "encryption-algorithms",
    "host-key-algorithms",
    "kex-algorithms",
];

/// Checks the keys of a `config`.
pub(super) fn check(config: &Node, file: &ProblemPlace, problems: &mut Problems) {
    for (key, value) in config.entries().unwrap_or_default() {
        let name = key.text().map_or("", EcoString::as_str);
        let place = file.at(key.at);
        if name == "transport" {
            if let Some(transport) = value.text() {
                check_transport(transport, &file.at(value.at), problems);
            }
        } else if name == "ssh" {
            for (key, _) in value.entries().unwrap_or_default() {
                check_option(key.text().map_or("", EcoString::as_str), &file.at(key.at), problems);
            }
        } else if !TRANSPORTS.contains(&name) && !OTHERS.contains(&name) {
            let message = eco_format!("Bolt has no transport `{name}`");
            problems.error(&place, message, near(name, TRANSPORTS.iter().chain(&["transport"]).copied()));
        }
    }
}

fn near(name: &str, known: impl Iterator<Item = &'static str>) -> EcoString {
    suggest::nearest(name, known).map(|near| eco_format!("did you mean `{near}`?")).unwrap_or_default()
}

fn check_transport(transport: &str, place: &ProblemPlace, problems: &mut Problems) {
    if !TRANSPORTS.contains(&transport) {
        let message = eco_format!("kilter has no transport `{transport}` of Bolt");
        problems.error(place, message, eco_format!("known are {}", TRANSPORTS.join(", ")));
    }
}

fn check_option(name: &str, place: &ProblemPlace, problems: &mut Problems) {
    if USED.contains(&name) {
        return;
    }
    match UNUSED.contains(&name) {
        true => problems.warning(place, eco_format!("the option `{name}` of ssh has no effect"), ""),
        false => problems.error(
            place,
            eco_format!("kilter has no option `{name}` of Bolt's transport ssh"),
            near(name, USED.iter().copied()),
        ),
    }
}

/// Returns a target with the options of its uri and its config.
///
/// # Errors
/// The value, and what is expected instead.
pub(super) fn target(name: &EcoString, uri: Option<&str>, config: &Hash) -> Result<Target, EcoString> {
    let uri = Uri::parse(uri.unwrap_or_default())?;
    let mut target = Target::named(word("name of a target", name)?);
    let configured = config.get("transport").and_then(Value::as_str);
    let transport = uri.scheme.or(configured).unwrap_or("ssh");
    // With `remote`, the scheme of the uri belongs to the transport of the device.
    let transport = if configured == Some("remote") { "remote" } else { transport };
    let empty = Hash::default();
    let options = config.get(transport).and_then(Value::as_hash).unwrap_or(&empty);
    let host = uri.host.map(EcoString::from).or_else(|| text(options, "host"));
    match transport {
        "ssh" => ssh(&mut target, options)?,
        "local" => target.connection = ConnectionKind::Local,
        "podman" => {
            let container = word("container", host.as_ref().unwrap_or(name))?;
            target.connection = ConnectionKind::Podman { container };
            return Ok(target);
        }
        "remote" => target.connection = device(options, &uri)?,
        other => {
            return Err(eco_format!("kilter has no transport `{other}` of Bolt: {} are known", TRANSPORTS.join(", ")));
        }
    }
    target.address = host.filter(|host| host != name).map(|host| checked_host(&host)).transpose()?;
    if let Some(user) = uri.user {
        target.user = Some(checked_user(user)?);
    }
    target.port = uri.port.or(target.port);
    Ok(target)
}

fn device(options: &Hash, uri: &Uri<'_>) -> Result<ConnectionKind, EcoString> {
    let Some(transport) = text(options, "remote-transport") else {
        return Err("a remote target has no `remote-transport`: add it below config.remote".into());
    };
    if let Some(on) = text(options, "run-on").filter(|on| on != "localhost") {
        return Err(eco_format!("`run-on: {on}`: kilter reaches devices from this machine only"));
    }
    let mut attributes = Hash::default();
    let given = [
        ("host", uri.host.map(Value::from)),
        ("user", uri.user.map(Value::from)),
        ("port", uri.port.map(|port| Value::Integer(port.into()))),
    ];
    attributes.extend(given.into_iter().filter_map(|(key, value)| Some((key.into(), value?))));
    let rest = options.iter().filter(|(key, _)| !matches!(key.as_str(), "remote-transport" | "run-on"));
    attributes.extend(rest.map(|(key, value)| (key.clone(), value.clone())));
    Ok(ConnectionKind::Device {
        transport: word("transport", &transport)?,
        attributes: secrets::sealed_all(attributes),
    })
}

fn ssh(target: &mut Target, options: &Hash) -> Result<(), EcoString> {
    target.user = text(options, "user").map(|user| checked_user(&user)).transpose()?;
    target.port = match options.get("port") {
        None | Some(Value::Undef) => None,
        Some(port) => {
            let number = port.to_text().and_then(|port| port.parse().ok()).filter(|port| *port > 0);
            Some(number.ok_or_else(|| eco_format!("`{port}` is not a port: 1 to 65535 is expected"))?)
        }
    };
    target.password = secret(options, "password");
    target.identity_file = match options.get("private-key") {
        None | Some(Value::Undef) => None,
        Some(Value::String(path)) => Some(PathBuf::from(path.as_str())),
        Some(_) => {
            return Err(
                "`private-key` with key-data is not supported: write the key to a file, and name the file".into()
            );
        }
    };
    target.jump = text(options, "proxyjump").map(|jump| word("jump host", &jump)).transpose()?;
    if options.get("host-key-check").and_then(Value::as_bool) == Some(false) {
        target.ssh_args.extend(["-oStrictHostKeyChecking=no".into(), "-oUserKnownHostsFile=/dev/null".into()]);
    }
    match options.get("connect-timeout") {
        None | Some(Value::Undef) => {}
        Some(Value::Integer(seconds)) if *seconds > 0 => target.ssh_args.push(format!("-oConnectTimeout={seconds}")),
        Some(other) => return Err(eco_format!("`connect-timeout` is a number of seconds, not `{other}`")),
    }
    if options.get("load-config").and_then(Value::as_bool) == Some(false) {
        target.config = Some(PathBuf::from("none"));
    }
    if let Some(user) = text(options, "run-as") {
        let method = match text(options, "sudo-executable") {
            None => BecomeMethod::Sudo,
            Some(program) => BecomeMethod::of(program.rsplit('/').next().unwrap_or_default())
                .ok_or_else(|| eco_format!("`sudo-executable` is sudo, doas, su or run0, not `{program}`"))?,
        };
        target.become_ =
            Some(Become { method, user: checked_user(&user)?, password: secret(options, "sudo-password") });
    }
    Ok(())
}

fn text(options: &Hash, key: &str) -> Option<EcoString> {
    options.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(EcoString::from)
}

fn secret(options: &Hash, key: &str) -> Option<Value> {
    options.get(key).filter(|value| !value.unwrap_sensitive().is_undef()).map(|value| Value::sensitive(value.clone()))
}

/// Parts of a uri.
struct Uri<'u> {
    scheme: Option<&'u str>,
    user: Option<&'u str>,
    host: Option<&'u str>,
    port: Option<u16>,
}

impl<'u> Uri<'u> {
    fn parse(text: &'u str) -> Result<Uri<'u>, EcoString> {
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme, rest)) => (Some(scheme), rest),
            None => (None, text),
        };
        let rest = rest.split('/').next().unwrap_or_default();
        let (user, host) = match rest.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, rest),
        };
        if user.is_some_and(|user| user.contains(':')) {
            return Err(
                "a password in a uri is not supported: write it below config, or let the plugin prompt ask for it"
                    .into(),
            );
        }
        let (host, port) = host_and_port(host)?;
        Ok(Uri { scheme, user, host: Some(host).filter(|host| !host.is_empty()), port })
    }
}
