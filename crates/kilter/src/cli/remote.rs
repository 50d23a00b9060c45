//! Options for commands on other hosts and on devices.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use kilter_remote::BecomeMethod;

/// Options for commands on other hosts.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = super::HOSTS)]
pub(crate) struct RemoteArgs {
    /// Run the command on these hosts over ssh, and on these devices, instead of this machine; repeatable. HOSTS has
    /// names of hosts, devices and groups with patterns, such as `web1,db*` or `web:!web3`, or a condition, such as
    /// `"web" in groups && facts.os.family == "debian"`. A host in no inventory is written as for ssh, such as
    /// `ops@10.0.0.7:2222`
    #[arg(long, global = true, value_name = "HOSTS")]
    pub(crate) on: Vec<String>,
    /// Run the command on the hosts of a stored roll-out that failed, have undone the changes, had no answer or were
    /// not reached: its number, or `last`
    #[arg(long, global = true, value_name = "ID")]
    pub(crate) failed_of: Option<String>,
    /// Run the command on the system in this directory, which does not run: an image or a mounted disk. It is the
    /// same as `--on chroot://DIR` and needs root
    #[arg(long, global = true, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) root: Option<PathBuf>,
    /// Inventory of hosts and devices: a file, a directory or a program, in the format of kilter, Bolt or Ansible
    /// [default: /etc/kilter/inventory.yaml for root, ~/.config/kilter/inventory.yaml otherwise, if it exists]
    #[arg(short = 'i', long, global = true, value_name = "PATH", value_hint = clap::ValueHint::AnyPath,
          env = "KILTER_INVENTORY", hide_env_values = true)]
    pub(crate) inventory: Option<PathBuf>,
    /// With --on: become root on the hosts
    #[arg(long = "become", global = true)]
    pub(crate) is_become: bool,
    /// With --on: become this user
    #[arg(long, global = true, value_name = "USER")]
    pub(crate) become_user: Option<String>,
    /// With --on: become root, or the user of --become-user, with this program: sudo, doas, su or run0. doas and run0
    /// must need no password
    #[arg(long, global = true, value_name = "PROGRAM", value_parser = method)]
    pub(crate) become_method: Option<BecomeMethod>,
    /// With --on: ask for the password of sudo or su, once for all hosts
    #[arg(short = 'K', long, global = true)]
    pub(crate) ask_become_pass: bool,
    /// With --on: maximum number of hosts at the same time
    #[arg(long, global = true, value_name = "N", default_value_t = 20, hide_default_value = true,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) parallel: u32,
    /// With --on: maximum time until a host answers, such as 30s
    #[arg(long, global = true, value_name = "TIME", default_value = "60s", hide_default_value = true,
          value_parser = super::runs::duration)]
    pub(crate) connect_timeout: Duration,
    /// With --on or --from git+ssh: configuration file of ssh, instead of the usual ones
    #[arg(long, global = true, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) ssh_config: Option<PathBuf>,
    /// With --on: directory with the programs for other kinds of machines than this one: `kilter-aarch64` and others,
    /// by the name that `uname -m` prints there [default: /usr/lib/kilter]
    #[arg(long, global = true, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) programs: Option<PathBuf>,
    /// With --on: leave nothing on the hosts. kilter is then sent again by the next command
    #[arg(long, global = true)]
    pub(crate) no_cache: bool,
}

impl RemoteArgs {
    /// Returns true if an option asks for another user on the hosts.
    pub(crate) fn changes_user(&self) -> bool {
        self.is_become || self.become_user.is_some() || self.become_method.is_some() || self.ask_become_pass
    }

    /// Returns the program that changes the user.
    pub(crate) fn method(&self) -> BecomeMethod {
        self.become_method.unwrap_or(BecomeMethod::Sudo)
    }
}

impl Default for RemoteArgs {
    fn default() -> RemoteArgs {
        RemoteArgs {
            on: Vec::new(),
            failed_of: None,
            root: None,
            inventory: None,
            is_become: false,
            become_user: None,
            become_method: None,
            ask_become_pass: false,
            parallel: 20,
            connect_timeout: Duration::from_secs(60),
            ssh_config: None,
            programs: None,
            no_cache: false,
        }
    }
}

/// Options of this module that take a value, the colour, which this process decides, the directories of scripts, which
/// it sends, and the paths of this machine that it trusts.
const WITH_VALUE: [&str; 16] = [
    "--color",
    "-I",
    "--include",
    "--mold",
    "--trust",
    "--on",
    "--failed-of",
    "--root",
    "-i",
    "--inventory",
    "--become-user",
    "--become-method",
    "--parallel",
    "--connect-timeout",
    "--ssh-config",
    "--programs",
];

/// Options of this module without a value.
const FLAGS: [&str; 4] = ["--become", "-K", "--ask-become-pass", "--no-cache"];

impl RemoteArgs {
    /// Returns the words of a command line without the options of this module and without the colour.
    pub(crate) fn removed_from(words: impl IntoIterator<Item = String>) -> Vec<String> {
        let mut kept = Vec::new();
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            if word == "--" {
                kept.push(word);
                kept.extend(words);
                break;
            }
            let is_joined = word.split_once('=').is_some_and(|(name, _)| WITH_VALUE.contains(&name))
                || ["-i", "-I"].iter().any(|name| word.strip_prefix(name).is_some_and(|path| !path.is_empty()));
            if WITH_VALUE.contains(&word.as_str()) {
                words.next();
            } else if !is_joined && !FLAGS.contains(&word.as_str()) {
                kept.push(word);
            }
        }
        kept
    }
}

fn method(text: &str) -> Result<BecomeMethod, String> {
    BecomeMethod::of(text).ok_or_else(|| "it is one of sudo, doas, su and run0".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_gets_all_other_words() {
        let words = [
            "--on",
            "web1",
            "-K",
            "-i/etc/hosts.ini",
            "-Iscripts",
            "get",
            "-I",
            "more",
            "--trust=/srv",
            "--parallel=3",
            "user",
            "--become-user",
            "app",
            "--",
            "--on",
        ];
        assert_eq!(RemoteArgs::removed_from(words.map(str::to_owned)), ["get", "user", "--", "--on"]);
    }
}
