//! Ansible's variables for connections.

use std::path::PathBuf;

use ecow::{EcoString, eco_format};
use kilter_model::Value;
use kilter_remote::BecomeMethod;

use super::words;
use crate::destination::{checked_host, checked_user, word};
use crate::problem::{ProblemPlace, Problems};
use crate::target::{Become, ConnectionKind, Target};

/// Applies the variables of a target to its connection.
pub(crate) fn apply(target: &mut Target, place: &ProblemPlace, problems: &mut Problems) {
    let mut vars = Vars { target, place, problems };
    let address = vars.checked(&["ansible_host", "ansible_ssh_host"], &checked_host);
    let user = vars.checked(&["ansible_user", "ansible_ssh_user"], &checked_user);
    let port = vars.port();
    let password = vars.secret(&["ansible_password", "ansible_ssh_password", "ansible_ssh_pass"]);
    let key = vars.text(&["ansible_ssh_private_key_file", "ansible_private_key_file"]);
    let args = [vars.arguments("ansible_ssh_common_args"), vars.arguments("ansible_ssh_extra_args")].concat();
    let connection = vars.connection(address.as_ref());
    let become_ = vars.become_();
    target.address = address.or(target.address.take());
    target.user = user.or(target.user.take());
    target.port = port.or(target.port);
    target.password = password.or(target.password.take());
    target.identity_file = key.map(|key| PathBuf::from(key.as_str())).or(target.identity_file.take());
    if !args.is_empty() {
        target.ssh_args = args;
    }
    if let Some(connection) = connection {
        target.connection = connection;
    }
    if let Some(become_) = become_ {
        target.become_ = become_;
    }
}

struct Vars<'a> {
    target: &'a Target,
    place: &'a ProblemPlace,
    problems: &'a mut Problems,
}

impl Vars<'_> {
    /// Returns the first variable that the target has, with its name.
    fn find<'n>(&self, names: &[&'n str]) -> Option<(&'n str, Value)> {
        let value = |name: &&'n str| self.target.vars.get(*name).map(|value| (*name, value.clone()));
        names.iter().find_map(value).filter(|(_, value)| !value.unwrap_sensitive().is_undef())
    }

    fn error(&mut self, name: &str, message: impl std::fmt::Display, hint: &str) {
        let message = eco_format!("`{name}` of {}: {message}", self.target.name);
        self.problems.error(self.place, message, hint);
    }

    fn text(&mut self, names: &[&str]) -> Option<EcoString> {
        let (name, value) = self.find(names)?;
        let text = value.to_text();
        if text.is_none() {
            self.error(name, "a text is expected", "");
        }
        text.filter(|text| !text.is_empty())
    }

    fn checked(&mut self, names: &[&str], check: &dyn Fn(&str) -> Result<EcoString, EcoString>) -> Option<EcoString> {
        let text = self.text(names)?;
        match check(&text) {
            Ok(text) => Some(text),
            Err(fault) => {
                self.error(names[0], fault, "");
                None
            }
        }
    }

    fn secret(&mut self, names: &[&str]) -> Option<Value> {
        let text = self.text(names)?;
        Some(Value::sensitive(Value::String(text)))
    }

    fn port(&mut self) -> Option<u16> {
        let names = ["ansible_port", "ansible_ssh_port"];
        let text = self.text(&names)?;
        let port = text.parse().ok().filter(|port| *port > 0);
        if port.is_none() {
            self.error(names[0], format_args!("`{text}` is not a port"), "1 to 65535 is expected");
        }
        port
    }

    fn arguments(&mut self, name: &str) -> Vec<String> {
        let Some(text) = self.text(&[name]) else { return Vec::new() };
        words::arguments(&text).unwrap_or_else(|fault| {
            self.error(name, fault, "");
            Vec::new()
        })
    }

    fn connection(&mut self, address: Option<&EcoString>) -> Option<ConnectionKind> {
        let name = "ansible_connection";
        let text = self.text(&[name])?;
        let host = address.unwrap_or(&self.target.name).clone();
        // The last part is the name of the plugin in its collection.
        match text.rsplit('.').next().unwrap_or_default() {
            "ssh" | "smart" | "paramiko" | "paramiko_ssh" => Some(ConnectionKind::Ssh),
            "local" => Some(ConnectionKind::Local),
            "podman" => Some(ConnectionKind::Podman { container: host }),
            "chroot" if host.starts_with('/') => {
                Some(ConnectionKind::Chroot { directory: PathBuf::from(host.as_str()) })
            }
            _ => {
                self.error(
                    name,
                    format_args!("kilter has no connection `{text}`"),
                    "ssh, local, podman and chroot are known",
                );
                None
            }
        }
    }

    /// Returns the change of user; none if the variables do not decide.
    #[expect(clippy::option_option, reason = "not decided, turned off, and turned on are three answers")]
    fn become_(&mut self) -> Option<Option<Become>> {
        let (name, value) = self.find(&["ansible_become"])?;
        let is_on = match value.to_text().map(|text| text.to_ascii_lowercase()).as_deref() {
            Some("true" | "yes" | "on" | "1" | "y" | "t" | "1.0") => true,
            Some("false" | "no" | "off" | "0" | "n" | "f" | "0.0" | "") => false,
            _ => {
                self.error(name, "true or false is expected", "");
                return None;
            }
        };
        if !is_on {
            return Some(None);
        }
        let method = match self.text(&["ansible_become_method"]) {
            None => BecomeMethod::default(),
            Some(text) => match BecomeMethod::of(text.rsplit('.').next().unwrap_or_default()) {
                Some(method) => method,
                None => {
                    let message = format_args!("kilter has no method `{text}`");
                    self.error("ansible_become_method", message, "sudo, doas, su and run0 are known");
                    return None;
                }
            },
        };
        let user = self.checked(&["ansible_become_user"], &|text| word("user", text)).unwrap_or_else(|| "root".into());
        let password = self.secret(&["ansible_become_password", "ansible_become_pass"]);
        Some(Some(Become { method, user, password }))
    }
}
