//! Targets of a command line: the inventory, the device configuration, and the selection by `--on`.

use std::collections::HashMap;
use std::sync::Arc;

use kilter_inventory::{ConnectionKind, Inventory, Selector, Target, ask_for_passwords};
use kilter_model::expr::Lookup;
use kilter_model::{Hash, Value};
use kilter_remote::{Become, Destination, Password, Ssh, Via};

use super::ask;
use super::device_calls::DeviceCalls;
use super::hosts::{HostTarget, Hosts};
use crate::cli::{Global, RemoteArgs};
use crate::devices::{self, DeviceTarget};
use crate::exit::Exit;
use crate::{inventory, output, trust};

/// Chosen hosts, before any connection.
pub(super) struct HostSelection {
    inventory: Inventory,
    selectors: Vec<Selector>,
    /// Candidates in the order of the command line, each once.
    targets: Vec<Arc<Target>>,
    /// Devices of the device configuration.
    devices: HashMap<String, DeviceTarget>,
}

impl HostSelection {
    /// Reads the inventory and the device configuration, and selects the targets, as far as it is possible without
    /// their facts.
    ///
    /// # Errors
    /// If the inventory has problems, or no target is selected; reported.
    pub(super) fn read(global: &Global) -> Result<HostSelection, Exit> {
        let args = &global.remote;
        let inventory = inventory::open(args.inventory.as_deref(), &trust::policy(global)?)?.unwrap_or_default();
        let devices: HashMap<String, DeviceTarget> =
            devices::configured(global)?.into_iter().map(|device| (device.name.clone(), device)).collect();
        let inventory = inventory.with_outside(devices.values().map(configured));
        let (mut selectors, mut targets) = (Vec::new(), Vec::<Arc<Target>>::new());
        for text in &args.on {
            let refuse = |error: kilter_inventory::SelectError| {
                output::fail_with(format_args!("--on `{text}`: {}", error.message), error.hint)
            };
            let selector = Selector::parse(text).map_err(refuse)?;
            for target in selector.select(&inventory).map_err(refuse)? {
                if targets.iter().all(|known| known.name != target.name) {
                    targets.push(with_configuration(target, &devices)?);
                }
            }
            selectors.push(selector);
        }
        match targets.is_empty() {
            true => Err(output::fail(format_args!("--on `{}` selects no host", args.on.join(" ")))),
            false => Ok(HostSelection { inventory, selectors, targets, devices }),
        }
    }

    /// Asks for the passwords that the inventory does not have.
    ///
    /// # Errors
    /// If no connection can reach a host, or there is no terminal; reported.
    pub(super) fn ask_for_passwords(&mut self, args: &RemoteArgs) -> Result<(), Exit> {
        // A host that no connection can reach needs no password.
        let is_host = |target: &&Arc<Target>| !matches!(target.connection, ConnectionKind::Device { .. });
        self.targets.iter().filter(is_host).try_for_each(|target| reachable(target, args).map(drop))?;
        ask_for_passwords(&mut self.targets, &mut |question| {
            ask::password(&format!("{question}: ")).map(|password| password.text().to_owned())
        })
    }

    /// Returns the ways to the targets.
    ///
    /// # Errors
    /// If there is none to a target; reported.
    pub(super) fn host_targets(&mut self, global: &Global) -> Result<Vec<HostTarget>, Exit> {
        let args = &global.remote;
        let asked = become_user(args)?;
        let mut devices = std::mem::take(&mut self.devices);
        let destination = |target: &Arc<Target>| {
            if let ConnectionKind::Device { transport, attributes } = &target.connection {
                let device = match devices.remove(target.name.as_str()) {
                    Some(device) => Ok(device),
                    None => DeviceTarget::of_inventory(&target.name, transport, attributes.clone()),
                };
                let device = device.map_err(|why| output::fail(format_args!("the device {}: {why}", target.name)))?;
                let address = attributes.get("host").and_then(Value::as_str).unwrap_or(&target.name);
                return Ok(HostTarget::Device(DeviceCalls::new(device, address.to_owned(), global)));
            }
            let mut destination = reachable(target, args)?;
            // The command line has priority, and may supply only the password.
            if let Some(asked) = &asked {
                let is_only_password = !args.is_become && args.become_user.is_none();
                let by = destination.become_user.take().filter(|_| is_only_password);
                let by = by.unwrap_or_else(|| asked.clone());
                let password = asked.password.clone().or(by.password);
                destination.become_user = Some(Become { password, ..by });
            }
            Ok(HostTarget::host(destination))
        };
        self.targets.iter().map(destination).collect()
    }

    /// Returns the targets, in the order of the destinations.
    pub(super) fn targets(&self) -> &[Arc<Target>] {
        &self.targets
    }

    /// Removes the hosts that the conditions exclude because of their facts. Hosts without an answer stay.
    ///
    /// # Errors
    /// If a condition fails, or no host is left; reported.
    pub(super) fn decide(&mut self, hosts: &mut Hosts) -> Result<(), Exit> {
        if !self.selectors.iter().any(Selector::needs_facts) {
            return Ok(());
        }
        let facts = hosts.each(&hosts.all(), |host| {
            let facts = hosts.facts(host);
            hosts.rest(host);
            facts
        });
        let mut kept = Vec::new();
        for (target, facts) in self.targets.iter().zip(&facts) {
            let Ok(facts) = facts else {
                kept.push(true);
                continue;
            };
            let fact = |name: &str| facts.get(name).cloned().map_or(Lookup::Missing, Lookup::Found);
            let mut is_selected = false;
            for selector in &self.selectors {
                let matches = selector.matches(&self.inventory, target, &fact);
                is_selected |= matches.map_err(|error| output::fail_with(error.message, error.hint))?;
            }
            kept.push(is_selected);
        }
        hosts.retain(&kept);
        let mut keep = kept.into_iter();
        self.targets.retain(|_| keep.next().unwrap_or_default());
        match self.targets.is_empty() {
            true => Err(output::fail("the conditions of --on select no host")),
            false => Ok(()),
        }
    }
}

/// Replaces `--root` by the destination of its directory.
///
/// # Errors
/// If `--on` selects hosts too, or the directory has no root file system; reported.
pub(crate) fn select_root(global: &mut Global) -> Result<(), Exit> {
    let Some(given) = global.remote.root.take() else { return Ok(()) };
    if !global.remote.on.is_empty() {
        return Err(output::fail("--root selects the system: leave out --on and --failed-of"));
    }
    let refuse = |why: &dyn std::fmt::Display| output::fail(format_args!("--root {}: {why}", given.display()));
    let directory = given.canonicalize().map_err(|error| refuse(&error))?;
    if let Some(missing) = ["proc", "sys", "dev", "run"].into_iter().find(|name| !directory.join(name).is_dir()) {
        let why = format!("it is no root file system, because it has no directory `{missing}`");
        return Err(refuse(&why));
    }
    let text = directory.to_str().filter(|text| !text.contains(','));
    let text = text.ok_or_else(|| refuse(&"a path in UTF-8 without commas is expected"))?;
    global.remote.on = vec![format!("chroot://{text}")];
    Ok(())
}

/// Returns a device of the device configuration as a target.
fn configured(device: &DeviceTarget) -> Target {
    let connection = ConnectionKind::Device { transport: device.transport().into(), attributes: Hash::default() };
    Target { connection, ..Target::named(device.name.as_str()) }
}

/// Returns a target of the inventory with its connection in the device configuration, if it has one.
fn with_configuration(target: Arc<Target>, devices: &HashMap<String, DeviceTarget>) -> Result<Arc<Target>, Exit> {
    let Some(device) = devices.get(target.name.as_str()) else { return Ok(target) };
    let configured = configured(device);
    match &target.connection {
        ConnectionKind::Ssh => Ok(Arc::new(Target { connection: configured.connection, ..(*target).clone() })),
        connection if *connection == configured.connection => Ok(target),
        _ => Err(output::fail_with(
            format_args!("{} has a connection in the inventory and in the device configuration", target.name),
            ["remove one of them"],
        )),
    }
}

/// Returns the way to a host that is in no inventory.
///
/// # Errors
/// If the text is no host.
pub(super) fn of_name(name: &str, args: &RemoteArgs) -> Result<Destination, String> {
    let selected = Selector::parse(name).and_then(|selector| selector.select(&Inventory::default()));
    let targets = selected.map_err(|error| error.message.to_string())?;
    let [target] = targets.as_slice() else { return Err("one host is expected".to_owned()) };
    let by = Become { method: args.method(), user: "root".to_owned(), password: None };
    Ok(Destination { become_user: args.changes_user().then_some(by), ..destination(target, args)? })
}

/// Returns the user of the command line.
fn become_user(args: &RemoteArgs) -> Result<Option<Become>, Exit> {
    if !args.changes_user() {
        return Ok(None);
    }
    let user = args.become_user.clone().unwrap_or_else(|| "root".to_owned());
    let user = user_name(user).map_err(output::fail)?;
    let question = format!("password of {} on the hosts: ", args.method().name());
    let password = args.ask_become_pass.then(|| ask::password(&question)).transpose()?;
    Ok(Some(Become { method: args.method(), user, password }))
}

/// Returns a name that is no option and needs no quotes.
fn user_name(name: String) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-@$+".contains(c);
    match !name.is_empty() && !name.starts_with('-') && name.chars().all(is_plain) {
        true => Ok(name),
        false => Err(format!("`{name}` is no name of a user")),
    }
}

fn reachable(target: &Target, args: &RemoteArgs) -> Result<Destination, Exit> {
    destination(target, args).map_err(|why| output::fail(format_args!("the host {}: {why}", target.name)))
}

fn destination(target: &Target, args: &RemoteArgs) -> Result<Destination, String> {
    if target.password.is_some() {
        return Err(
            "its inventory has a password for the login, and kilter logs in with keys only: remove it".to_owned()
        );
    }
    let via = match &target.connection {
        ConnectionKind::Ssh => Via::Ssh(Ssh {
            host: target.host().to_string(),
            user: target.user.as_ref().map(ToString::to_string),
            port: target.port,
            identity_file: target.identity_file.clone(),
            jump: target.jump.as_ref().map(ToString::to_string),
            config_file: target.config.clone().or_else(|| args.ssh_config.clone()),
            args: target.ssh_args.iter().map(Into::into).collect(),
        }),
        ConnectionKind::Local => Via::Local,
        ConnectionKind::Podman { container } => Via::Podman(container.to_string()),
        ConnectionKind::Nspawn { machine } => Via::Machine(machine.to_string()),
        ConnectionKind::Chroot { directory } => Via::Chroot(directory.clone()),
        ConnectionKind::Device { .. } => return Err("it is a device, and ralsh works on hosts only".to_owned()),
    };
    let become_user = target.become_.as_ref().map(|by| -> Result<Become, String> {
        let password = by.password.as_ref().and_then(secret_text).map(Password::new);
        Ok(Become { method: by.method, user: user_name(by.user.to_string())?, password })
    });
    Ok(Destination { name: target.name.to_string(), via, become_user: become_user.transpose()? })
}

/// Returns the text of a sensitive value.
fn secret_text(value: &Value) -> Option<String> {
    match value {
        Value::Sensitive(inner) => secret_text(inner),
        Value::String(text) => Some(text.to_string()),
        _ => None,
    }
}
