//! Hosts of a command line: the inventory, and the selection by `--on`.

use std::sync::Arc;

use kilter_inventory::{ConnectionKind, Inventory, Selector, Target, ask_for_passwords};
use kilter_model::Value;
use kilter_model::expr::Lookup;
use kilter_remote::{Become, Destination, Password, Ssh, Via};

use super::ask;
use super::hosts::Hosts;
use crate::cli::{Global, RemoteArgs};
use crate::exit::Exit;
use crate::{inventory, output, trust};

/// Chosen hosts, before any connection.
pub(super) struct HostSelection {
    inventory: Inventory,
    selectors: Vec<Selector>,
    /// Candidates in the order of the command line, each once.
    targets: Vec<Arc<Target>>,
}

impl HostSelection {
    /// Reads the inventory and selects the hosts, as far as it is possible without their facts.
    ///
    /// # Errors
    /// If the inventory has problems, or no host is selected; reported.
    pub(super) fn read(args: &RemoteArgs) -> Result<HostSelection, Exit> {
        let inventory = inventory::open(args.inventory.as_deref(), &trust::usual())?.unwrap_or_default();
        let (mut selectors, mut targets) = (Vec::new(), Vec::<Arc<Target>>::new());
        for text in &args.on {
            let refuse = |error: kilter_inventory::SelectError| {
                output::fail_with(format_args!("--on `{text}`: {}", error.message), error.hint)
            };
            let selector = Selector::parse(text).map_err(refuse)?;
            for target in selector.select(&inventory).map_err(refuse)? {
                if targets.iter().all(|known| known.name != target.name) {
                    targets.push(target);
                }
            }
            selectors.push(selector);
        }
        // A host that no connection can reach needs no password.
        targets.iter().try_for_each(|target| reachable(target, args).map(drop))?;
        ask_for_passwords(&mut targets, &mut |question| {
            ask::password(&format!("{question}: ")).map(|password| password.text().to_owned())
        })?;
        match targets.is_empty() {
            true => Err(output::fail(format_args!("--on `{}` selects no host", args.on.join(" ")))),
            false => Ok(HostSelection { inventory, selectors, targets }),
        }
    }

    /// Returns the ways to the hosts.
    ///
    /// # Errors
    /// If there is none to a host; reported.
    pub(super) fn destinations(&self, args: &RemoteArgs) -> Result<Vec<Destination>, Exit> {
        let asked = become_user(args)?;
        let destination = |target: &Arc<Target>| {
            let mut destination = reachable(target, args)?;
            // The command line has priority, and may supply only the password.
            if let Some(asked) = &asked {
                let is_only_password = !args.is_become && args.become_user.is_none();
                let by = destination.become_user.take().filter(|_| is_only_password);
                let by = by.unwrap_or_else(|| asked.clone());
                let password = asked.password.clone().or(by.password);
                destination.become_user = Some(Become { password, ..by });
            }
            Ok(destination)
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
        let facts = hosts.each(&hosts.all(), |host| hosts.facts(host));
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

/// Returns the way to a host that is in no inventory.
///
/// # Errors
/// If the text is no host.
pub(super) fn of_name(name: &str, args: &RemoteArgs) -> Result<Destination, String> {
    let selected = Selector::parse(name).and_then(|selector| selector.select(&Inventory::default()));
    let targets = selected.map_err(|error| error.message.to_string())?;
    let [target] = targets.as_slice() else { return Err("one host is expected".to_owned()) };
    let by = Become { method: args.become_method, user: "root".to_owned(), password: None };
    Ok(Destination { become_user: args.is_become.then_some(by), ..destination(target, args)? })
}

/// Returns the user of the command line.
fn become_user(args: &RemoteArgs) -> Result<Option<Become>, Exit> {
    if !args.is_become && args.become_user.is_none() && !args.ask_become_pass {
        return Ok(None);
    }
    let user = args.become_user.clone().unwrap_or_else(|| "root".to_owned());
    let user = user_name(user).map_err(output::fail)?;
    let question = format!("password of {} on the hosts: ", args.become_method.name());
    let password = args.ask_become_pass.then(|| ask::password(&question)).transpose()?;
    Ok(Some(Become { method: args.become_method, user, password }))
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
        ConnectionKind::Device { .. } => return Err("it is a device, and this command is for hosts".to_owned()),
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
