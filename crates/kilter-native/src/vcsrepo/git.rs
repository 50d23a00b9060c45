//! Calls of the program git.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ecow::{EcoString, eco_format};
use kilter_process::{Capture, Environment, Identity, Invocation, Output};
use kilter_provider::Context;

use crate::accounts::{Accounts, Runner};
use crate::tool::failure;
use crate::tool::{self, RecordedPart, ending_of};

/// Maximum duration of a call that reads the repository or asks the source for its revisions.
const QUERY_DEADLINE: Duration = Duration::from_secs(300);
/// Maximum duration of a fetch or a checkout.
const DEADLINE: Duration = Duration::from_secs(3600);
/// Maximum size of an output in bytes.
const MAX_OUTPUT_BYTES: usize = 16 << 20;
const MAX_ERROR_BYTES: usize = 16 << 10;

/// Settings of every call. No setting of the machine and no file of a repository may start a program.
const SETTINGS: [&str; 7] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "protocol.ext.allow=never",
    // A dead source ends the call.
    "http.lowSpeedLimit=1000",
    "http.lowSpeedTime=60",
    "advice.detachedHead=false",
    "gc.autoDetach=false",
];

/// git, as a user.
pub(super) struct Git<'a> {
    pub(super) runner: &'a dyn Runner,
    /// Names of users for messages.
    pub(super) accounts: &'a Accounts,
    pub(super) cx: &'a Context<'a>,
    /// None if git runs with the identity of kilter.
    pub(super) identity: Option<Identity>,
    /// File with the private SSH key.
    pub(super) key: Option<&'a str>,
}

/// git in the directory of a repository.
pub(super) struct RepositoryGit<'a> {
    pub(super) git: &'a Git<'a>,
    pub(super) path: &'a str,
    /// True if the repository has no work tree.
    pub(super) is_bare: bool,
    /// True if the repository belongs to root, whose files every user trusts.
    pub(super) is_of_root: bool,
    /// Directory with the objects of another repository, which git reads too.
    pub(super) more_objects: Option<PathBuf>,
}

/// Quotes a text for a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

impl Git<'_> {
    /// Returns the number of the user that git runs as.
    pub(super) fn uid(&self) -> u32 {
        self.identity.as_ref().map_or_else(|| rustix::process::geteuid().as_raw(), |identity| identity.uid)
    }

    fn invocation(&self, cwd: &str, settings: &[&str]) -> Invocation {
        let environment = Environment::new()
            .user(self.uid())
            .set("GIT_TERMINAL_PROMPT", "0")
            .set("GIT_CONFIG_NOSYSTEM", "1")
            .set("GIT_OPTIONAL_LOCKS", "0");
        let mut ssh = "ssh -oBatchMode=yes -oConnectTimeout=30".to_owned();
        if let Some(key) = self.key {
            ssh.push_str(&format!(" -oIdentitiesOnly=yes -i {}", quoted(key)));
        }
        let ssh = format!("core.sshCommand={ssh}");
        let mut invocation = Invocation::new("git").environment(&environment).cwd(cwd);
        for setting in SETTINGS.iter().chain(settings).copied().chain([&*ssh]) {
            invocation = invocation.args(["-c", setting]);
        }
        invocation.identity = self.identity.clone();
        invocation.umask = Some(0o022);
        invocation
    }

    fn run(&self, mut invocation: Invocation, deadline: Duration) -> Result<Output, EcoString> {
        invocation.stdout = Capture::First(MAX_OUTPUT_BYTES);
        invocation.stderr = Capture::Last(MAX_ERROR_BYTES);
        let finished = tool::start(self.runner, self.cx, &invocation.deadline(deadline), RecordedPart::Errors);
        finished.map_err(|error| error.with_sources().into())
    }

    /// Returns the name of a user, or the number if there is none.
    pub(super) fn user_name(&self, uid: u32) -> EcoString {
        let users = self.accounts.users().ok();
        users.and_then(|users| Some(users.find_uid(uid)?.name.clone())).unwrap_or_else(|| eco_format!("{uid}"))
    }

    /// Describes a call that failed, in the directory of a repository if it is given.
    fn failed(&self, action: &str, repository: Option<&str>, finished: &Output, deadline: Duration) -> EcoString {
        let errors = finished.stderr.text();
        let usual = || failure(&format!("git {action}"), finished, deadline, ending_of(&errors));
        self.foreign_owner(&errors, repository).unwrap_or_else(usual)
    }

    /// Returns the reason why git refuses a repository of another user; none if it has failed otherwise.
    fn foreign_owner(&self, errors: &str, repository: Option<&str>) -> Option<EcoString> {
        let path = match errors.split_once("dubious ownership in repository at '") {
            Some((_, rest)) => rest.split_once('\'')?.0,
            // git-config(1) takes such a directory for no repository.
            None if errors.contains("can only be used inside a git repository") => repository?,
            None => return None,
        };
        let mut parts = [Path::new(path).to_owned(), Path::new(path).join(".git")].into_iter();
        let (part, owner) = parts.find_map(|part| {
            let uid = std::fs::symlink_metadata(&part).ok()?.uid();
            (uid != self.uid()).then_some((part, uid))
        })?;
        let (user, owner, part) = (self.user_name(self.uid()), self.user_name(owner), part.display());
        Some(eco_format!(
            "git does not run as {user} in {path}, because {part} belongs to {owner}: run `chown -R {user} {path}`, or \
             declare `user: {owner}` if all its files belong to {owner}"
        ))
    }

    /// Asks a source for its branches and tags. Each line of the answer has an object and a name.
    ///
    /// # Errors
    /// If the source does not answer.
    pub(super) fn ls_remote(&self, source: &GitSource<'_>, names: &[String]) -> Result<String, EcoString> {
        let invocation = self.invocation("/", &[]).args(["ls-remote", "--symref"]).args(source.options());
        let finished = self.run(invocation.arg("--").arg(source.address).args(names), QUERY_DEADLINE)?;
        match finished.is_success() {
            true => Ok(finished.stdout.text().into_owned()),
            false => Err(self.failed("ls-remote", None, &finished, QUERY_DEADLINE)),
        }
    }
}

/// A repository to fetch from.
#[derive(Clone, Copy)]
pub(super) struct GitSource<'a> {
    pub(super) address: &'a str,
    /// True for a directory of this machine that root and the user of git alone can change.
    pub(super) is_trusted_directory: bool,
}

impl GitSource<'_> {
    /// Returns the options of a call that reads the source. git refuses a directory of another user, root included,
    /// and passes no setting to the program that reads the source.
    fn options(&self) -> Vec<&'static str> {
        match self.is_trusted_directory {
            true => vec!["--upload-pack", "git -c 'safe.directory=*' upload-pack"],
            false => Vec::new(),
        }
    }
}

impl RepositoryGit<'_> {
    fn invocation(&self) -> Invocation {
        let mut settings = Vec::new();
        if self.is_of_root {
            settings.push("safe.directory=*");
        }
        // A directory of the repository may look like a bare repository with its own configuration.
        if !self.is_bare {
            settings.push("safe.bareRepository=explicit");
        }
        let invocation = self.git.invocation(self.path, &settings);
        let above = Path::new(self.path).parent().unwrap_or(Path::new("/"));
        // git must not take a repository above for this one.
        let invocation = invocation.env("GIT_CEILING_DIRECTORIES", above);
        match &self.more_objects {
            Some(objects) => invocation.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", objects),
            None => invocation,
        }
    }

    /// Returns the output of a call; none if it exits with 1, for "no".
    ///
    /// # Errors
    /// If the call fails otherwise.
    pub(super) fn ask(&self, args: &[&str]) -> Result<Option<Vec<u8>>, EcoString> {
        let finished = self.git.run(self.invocation().args(args), QUERY_DEADLINE)?;
        match (finished.is_success(), finished.status.code()) {
            (true, _) if finished.stdout.is_truncated() => Err(eco_format!("git {}: its output is too long", args[0])),
            (true, _) => Ok(Some(finished.stdout.bytes)),
            (false, Some(1)) => Ok(None),
            _ => Err(self.git.failed(args[0], Some(self.path), &finished, QUERY_DEADLINE)),
        }
    }

    /// Returns the first line of the output of a call; none if it exits with 1.
    ///
    /// # Errors
    /// If the call fails otherwise.
    pub(super) fn line(&self, args: &[&str]) -> Result<Option<EcoString>, EcoString> {
        let output = self.ask(args)?;
        Ok(output.map(|bytes| String::from_utf8_lossy(&bytes).lines().next().unwrap_or_default().into()))
    }

    /// Returns the paths that a call lists with `-z`.
    ///
    /// # Errors
    /// If the call fails.
    pub(super) fn paths(&self, args: &[&str]) -> Result<Vec<EcoString>, EcoString> {
        let output = self.ask(args)?.unwrap_or_default();
        let paths = output.split(|&byte| byte == 0).filter(|path| !path.is_empty());
        Ok(paths.map(|path| String::from_utf8_lossy(path).as_ref().into()).collect())
    }

    /// Returns the commit of a revision; none if the repository does not have it.
    ///
    /// # Errors
    /// If git fails.
    pub(super) fn commit(&self, revision: &str) -> Result<Option<EcoString>, EcoString> {
        self.line(&["rev-parse", "--quiet", "--verify", &format!("{revision}^{{commit}}")])
    }

    /// Returns the address of a remote; none if the repository has no such remote.
    ///
    /// # Errors
    /// If git fails.
    pub(super) fn address(&self, remote: &str) -> Result<Option<EcoString>, EcoString> {
        self.line(&["config", "--local", "--get", &format!("remote.{remote}.url")])
    }

    /// Returns the number of commits that the arguments of rev-list(1) select.
    ///
    /// # Errors
    /// If git fails.
    pub(super) fn count(&self, args: &[&str]) -> Result<u64, EcoString> {
        let count = self.line(&[&["rev-list", "--count"], args].concat())?;
        Ok(count.and_then(|count| count.parse().ok()).unwrap_or(0))
    }

    /// Returns true if a commit is the ancestor of another one, or the same.
    ///
    /// # Errors
    /// If git fails.
    pub(super) fn is_ancestor(&self, old: &str, new: &str) -> Result<bool, EcoString> {
        self.ask(&["merge-base", "--is-ancestor", old, new]).map(|answer| answer.is_some())
    }

    /// Changes the repository.
    ///
    /// # Errors
    /// Contains the end of git's errors.
    pub(super) fn run(&self, args: &[&str]) -> Result<(), EcoString> {
        self.run_with(args, None)
    }

    /// Changes the repository, with a text as input.
    ///
    /// # Errors
    /// Contains the end of git's errors.
    pub(super) fn run_with(&self, args: &[&str], stdin: Option<Vec<u8>>) -> Result<(), EcoString> {
        let mut invocation = self.invocation().args(args);
        invocation.stdin = stdin;
        let finished = self.git.run(invocation, DEADLINE)?;
        match finished.is_success() {
            true => Ok(()),
            false => Err(self.git.failed(args[0], Some(self.path), &finished, DEADLINE)),
        }
    }

    /// Fetches from a source.
    ///
    /// # Errors
    /// Contains the end of git's errors.
    pub(super) fn fetch(&self, source: &GitSource<'_>, options: &[&str], refspecs: &[&str]) -> Result<(), EcoString> {
        let options = [&["fetch", "--quiet", "--no-recurse-submodules"], options, &source.options()].concat();
        self.run(&[&options[..], &["--", source.address], refspecs].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_one_word_for_a_shell() {
        assert_eq!(quoted("/a b'c"), r"'/a b'\''c'");
    }
}
