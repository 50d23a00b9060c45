//! Options of connections, as one level of an inventory gives them, and their precedence.

use std::path::PathBuf;

use ecow::EcoString;
use kilter_model::{Hash, Value};
use kilter_remote::BecomeMethod;

use crate::target::{Become, ConnectionKind, Target};

/// Options of one host, or of one group.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub(crate) address: Option<EcoString>,
    pub(crate) user: Option<EcoString>,
    pub(crate) port: Option<u16>,
    pub(crate) password: Option<Value>,
    pub(crate) identity_file: Option<PathBuf>,
    pub(crate) jump: Option<EcoString>,
    pub(crate) config: Option<PathBuf>,
    pub(crate) ssh_args: Option<Vec<String>>,
    /// False if the level turns it off.
    pub(crate) is_become: Option<bool>,
    pub(crate) become_method: Option<BecomeMethod>,
    pub(crate) become_user: Option<EcoString>,
    pub(crate) become_password: Option<Value>,
    pub(crate) route: Option<Route>,
    /// Attributes for the transport of a device.
    pub(crate) attributes: Hash,
}

/// The way to reach a target, as one level gives it. Without a name, the name of the target is used.
#[derive(Clone, Debug)]
pub(crate) enum Route {
    Ssh,
    Local,
    Podman(Option<EcoString>),
    Nspawn(Option<EcoString>),
    Chroot(PathBuf),
    Device(EcoString),
}

impl Options {
    /// Replaces the options that a more specific level gives.
    pub(crate) fn apply(&mut self, level: &Options) {
        fn set<T: Clone>(old: &mut Option<T>, new: &Option<T>) {
            if new.is_some() {
                old.clone_from(new);
            }
        }
        set(&mut self.address, &level.address);
        set(&mut self.user, &level.user);
        set(&mut self.port, &level.port);
        set(&mut self.password, &level.password);
        set(&mut self.identity_file, &level.identity_file);
        set(&mut self.jump, &level.jump);
        set(&mut self.config, &level.config);
        set(&mut self.ssh_args, &level.ssh_args);
        set(&mut self.is_become, &level.is_become);
        set(&mut self.become_method, &level.become_method);
        set(&mut self.become_user, &level.become_user);
        set(&mut self.become_password, &level.become_password);
        set(&mut self.route, &level.route);
        self.attributes.extend(level.attributes.iter().map(|(key, value)| (key.clone(), value.clone())));
    }

    /// Returns a target with these options.
    pub(crate) fn target(self, name: EcoString) -> Target {
        let become_ = self.is_become.unwrap_or(false).then(|| Become {
            method: self.become_method.unwrap_or_default(),
            user: self.become_user.unwrap_or_else(|| "root".into()),
            password: self.become_password,
        });
        let connection = match self.route {
            None | Some(Route::Ssh) => ConnectionKind::Ssh,
            Some(Route::Local) => ConnectionKind::Local,
            Some(Route::Podman(container)) => {
                ConnectionKind::Podman { container: container.unwrap_or_else(|| name.clone()) }
            }
            Some(Route::Nspawn(machine)) => ConnectionKind::Nspawn { machine: machine.unwrap_or_else(|| name.clone()) },
            Some(Route::Chroot(directory)) => ConnectionKind::Chroot { directory },
            Some(Route::Device(transport)) => ConnectionKind::Device { transport, attributes: self.attributes },
        };
        Target {
            address: self.address,
            user: self.user,
            port: self.port,
            password: self.password,
            identity_file: self.identity_file,
            jump: self.jump,
            config: self.config,
            ssh_args: self.ssh_args.unwrap_or_default(),
            connection,
            become_,
            ..Target::named(name)
        }
    }
}
