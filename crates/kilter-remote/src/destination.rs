//! The way to a host: program, options, and the user to become there.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

/// Reach of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Via {
    /// Through the system's `ssh`.
    Ssh(Ssh),
    /// In a running container of podman, by name.
    Podman(String),
    /// In a running machine of systemd, by name.
    Machine(String),
    /// In a directory with a root file system.
    Chroot(PathBuf),
    /// On this machine.
    #[default]
    Local,
}

/// Options of `ssh`. The configuration of the user supplies all others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ssh {
    /// Name or address, or an alias of `~/.ssh/config`.
    pub host: String,
    /// Login name.
    pub user: Option<String>,
    /// Port.
    pub port: Option<u16>,
    /// File with the private key.
    pub identity_file: Option<PathBuf>,
    /// Hosts to jump over, as `-J` takes them.
    pub jump: Option<String>,
    /// File with the configuration of `ssh`, instead of the usual ones.
    pub config_file: Option<PathBuf>,
    /// More arguments of `ssh`.
    pub args: Vec<OsString>,
}

/// Program that changes the user on the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BecomeMethod {
    /// `sudo`.
    #[default]
    Sudo,
    /// `doas`, without a password.
    Doas,
    /// `su`.
    Su,
    /// `run0`, without a password.
    Run0,
}

impl BecomeMethod {
    /// All methods.
    pub const ALL: [BecomeMethod; 4] = [BecomeMethod::Sudo, BecomeMethod::Doas, BecomeMethod::Su, BecomeMethod::Run0];

    /// Returns the method of a name.
    pub fn of(name: &str) -> Option<BecomeMethod> {
        BecomeMethod::ALL.into_iter().find(|method| method.name() == name)
    }

    /// Returns the name of the program.
    pub fn name(self) -> &'static str {
        match self {
            BecomeMethod::Sudo => "sudo",
            BecomeMethod::Doas => "doas",
            BecomeMethod::Su => "su",
            BecomeMethod::Run0 => "run0",
        }
    }
}

/// User to become on a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Become {
    /// The program.
    pub method: BecomeMethod,
    /// Name of the user.
    pub user: String,
    /// Password for the program, if it asks for one.
    pub password: Option<Password>,
}

/// Password. Its text is in no debug output.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// Creates a password.
    pub fn new(text: impl Into<String>) -> Password {
        Password(text.into())
    }

    /// Returns the text.
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}

/// Script that enters a root directory, in namespaces of its own. The mounts and all processes end with the session:
/// a package that starts a daemon leaves none on the machine.
const ENTER_IMAGE: &str = "set -e; cd \"$1\"; shift; mount -t proc proc proc; mount --rbind /sys sys; mount --rbind \
                        /dev dev; mount -t tmpfs -o mode=0755,nosuid,nodev tmpfs run; exec chroot . \"$@\"";

/// A host and the way to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// Name in messages.
    pub name: String,
    /// The way.
    pub via: Via,
    /// User to become there; none keeps the user of the login.
    pub become_user: Option<Become>,
}

impl Destination {
    /// Returns the program and the arguments that run `script` with the shell of the host. `prompt` marks the request
    /// for a password.
    pub(crate) fn command(&self, script: &str, prompt: &str, is_fresh: bool) -> (OsString, Vec<OsString>) {
        let shell: Vec<OsString> = match &self.become_user {
            None => words(["/bin/sh", "-c", script]),
            Some(Become { method, user, .. }) => {
                let user = user.as_str();
                match method {
                    BecomeMethod::Sudo => {
                        words(["sudo", "-S", "-p", prompt, "-u", user, "--", "/bin/sh", "-c", script])
                    }
                    BecomeMethod::Doas => words(["doas", "-n", "-u", user, "/bin/sh", "-c", script]),
                    BecomeMethod::Su => words(["su", "-s", "/bin/sh", user, "-c", script]),
                    BecomeMethod::Run0 => {
                        let user = format!("--user={user}");
                        // The home directory of the user may not exist.
                        words(["run0", "--no-ask-password", "--pipe", "--chdir=/", &user, "/bin/sh", "-c", script])
                    }
                }
            }
        };
        match &self.via {
            Via::Ssh(ssh) => ("ssh".into(), ssh.args(&shell, is_fresh)),
            Via::Podman(container) => prefixed(&["podman", "exec", "-i", container], shell),
            Via::Machine(machine) => {
                let machine = format!("--machine={machine}");
                prefixed(&["systemd-run", &machine, "--quiet", "--collect", "--wait", "--pipe", "--"], shell)
            }
            Via::Chroot(root) => {
                let mut all = words([
                    "--mount",
                    "--pid",
                    "--fork",
                    "--kill-child",
                    "--propagation=private",
                    "/bin/sh",
                    "-c",
                    ENTER_IMAGE,
                    "sh",
                ]);
                all.push(root.into());
                all.extend(shell);
                ("unshare".into(), all)
            }
            Via::Local => prefixed(&[], shell),
        }
    }
}

impl Ssh {
    fn args(&self, shell: &[OsString], is_fresh: bool) -> Vec<OsString> {
        let mut args = words(["-T", "-oBatchMode=yes", "-oServerAliveInterval=15", "-oServerAliveCountMax=4"]);
        // The first value of an option counts, also for those of the configuration.
        args.push("-oConnectTimeout=20".into());
        if is_fresh {
            args.extend(words(["-oControlMaster=no", "-oControlPath=none"]));
        }
        let mut option = |name: &str, value: Option<OsString>| args.extend(value.map(|value| joined(name, &value)));
        option("-F", self.config_file.clone().map(OsString::from));
        option("-p", self.port.map(|port| port.to_string().into()));
        option("-l", self.user.clone().map(OsString::from));
        option("-i", self.identity_file.clone().map(OsString::from));
        option("-J", self.jump.clone().map(OsString::from));
        args.extend(self.args.iter().cloned());
        args.push("--".into());
        args.push(self.host.clone().into());
        // `exec` lets the shell of the login end. All shells know it, and quotes of this kind.
        let mut line = OsString::from("exec");
        for word in shell {
            line.push(" ");
            line.push(quoted(word));
        }
        args.push(line);
        args
    }
}

/// Quotes a word for the shells of Bourne, csh and fish. The words of this module contain no quote, no backslash
/// before one, no line break and no exclamation mark.
fn quoted(word: &OsString) -> OsString {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_./:=,@%+".contains(byte);
    if word.as_encoded_bytes().iter().all(is_plain) && !word.is_empty() {
        return word.clone();
    }
    let mut quoted = OsString::from("'");
    quoted.push(word);
    quoted.push("'");
    quoted
}

fn joined(name: &str, value: &OsString) -> OsString {
    let mut joined = OsString::from(name);
    joined.push(value);
    joined
}

fn words<const N: usize>(words: [&str; N]) -> Vec<OsString> {
    words.into_iter().map(OsString::from).collect()
}

fn prefixed(prefix: &[&str], shell: Vec<OsString>) -> (OsString, Vec<OsString>) {
    let mut all = prefix.iter().map(OsString::from).chain(shell);
    (all.next().unwrap_or_default(), all.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(become_user: Option<Become>) -> Vec<String> {
        let via = Via::Ssh(Ssh { host: "web1".into(), port: Some(2222), user: Some("ops".into()), ..Ssh::default() });
        let (program, args) =
            Destination { name: "web1".into(), via, become_user }.command("umask 077;id", "p:", false);
        assert_eq!(program, "ssh");
        args.into_iter().map(|arg| arg.into_string().unwrap()).collect()
    }

    #[test]
    fn script_reaches_the_login_shell_as_one_word() {
        let args = line(None);
        assert_eq!(args[args.len() - 5..], ["-p2222", "-lops", "--", "web1", "exec /bin/sh -c 'umask 077;id'"]);
    }

    #[test]
    fn password_is_in_no_argument() {
        let password = Some(Password::new("hunter2"));
        for method in BecomeMethod::ALL {
            let args = line(Some(Become { method, user: "root".into(), password: password.clone() }));
            assert!(args.last().unwrap().starts_with(&format!("exec {} ", method.name())), "{args:?}");
            assert!(!args.concat().contains("hunter2"));
        }
        assert_eq!(format!("{password:?}"), "Some(Password(…))");
    }
}
