//! Targets: hosts, containers and devices, with the options of their connections.

use std::path::PathBuf;

use ecow::EcoString;
use kilter_model::{Hash, Value};
use kilter_remote::BecomeMethod;

/// A host, a container or a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Name in the inventory, which reports show.
    pub name: EcoString,
    /// Host to connect to; the name if none. Never begins with `-`.
    pub address: Option<EcoString>,
    /// User to log in as; that of ssh's configuration if none.
    pub user: Option<EcoString>,
    /// Port of sshd; that of ssh's configuration if none.
    pub port: Option<u16>,
    /// Password to log in with: a sensitive text.
    pub password: Option<Value>,
    /// File of the private key.
    pub identity_file: Option<PathBuf>,
    /// Jump hosts, as in ssh's `ProxyJump`.
    pub jump: Option<EcoString>,
    /// Configuration file in place of ssh's own.
    pub config: Option<PathBuf>,
    /// More arguments of ssh, before the destination.
    pub ssh_args: Vec<String>,
    /// The way to reach it.
    pub connection: ConnectionKind,
    /// Change of user after the login.
    pub become_: Option<Become>,
    /// Names of all its groups, the most specific one last. `all` is the first one.
    pub groups: Vec<EcoString>,
    /// Variables, after the precedence of groups. Passwords in them are sensitive.
    pub vars: Hash,
    /// Facts that the inventory gives (Bolt).
    pub facts: Hash,
    /// Features that the inventory gives (Bolt).
    pub features: Vec<EcoString>,
}

impl Target {
    /// Creates a target with the defaults of ssh and without groups.
    pub fn named(name: impl Into<EcoString>) -> Target {
        Target {
            name: name.into(),
            address: None,
            user: None,
            port: None,
            password: None,
            identity_file: None,
            jump: None,
            config: None,
            ssh_args: Vec::new(),
            connection: ConnectionKind::Ssh,
            become_: None,
            groups: Vec::new(),
            vars: Hash::default(),
            facts: Hash::default(),
            features: Vec::new(),
        }
    }

    /// Returns the host to connect to.
    pub fn host(&self) -> &EcoString {
        self.address.as_ref().unwrap_or(&self.name)
    }
}

/// The way to reach a target.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ConnectionKind {
    /// By the program `ssh`.
    #[default]
    Ssh,
    /// This machine itself.
    Local,
    /// A container of podman.
    Podman {
        /// Name or id.
        container: EcoString,
    },
    /// A container of systemd-nspawn.
    Nspawn {
        /// Name of the machine.
        machine: EcoString,
    },
    /// The root directory of a system.
    Chroot {
        /// Absolute path.
        directory: PathBuf,
    },
    /// A device that a transport reaches.
    Device {
        /// Name of the transport.
        transport: EcoString,
        /// Attributes of the connection. Passwords in them are sensitive.
        attributes: Hash,
    },
}

impl ConnectionKind {
    /// Returns the word for the kind: `ssh`, `local`, `podman`, `nspawn`, `chroot` or `device`.
    pub fn word(&self) -> &'static str {
        match self {
            ConnectionKind::Ssh => "ssh",
            ConnectionKind::Local => "local",
            ConnectionKind::Podman { .. } => "podman",
            ConnectionKind::Nspawn { .. } => "nspawn",
            ConnectionKind::Chroot { .. } => "chroot",
            ConnectionKind::Device { .. } => "device",
        }
    }
}

/// Change of user after the login.
#[derive(Clone, Debug, PartialEq)]
pub struct Become {
    /// Program that changes the user.
    pub method: BecomeMethod,
    /// User to become.
    pub user: EcoString,
    /// Password that the program asks for: a sensitive text.
    pub password: Option<Value>,
}
