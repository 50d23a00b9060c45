//! Reads and writes crontabs.

use std::path::PathBuf;
use std::time::Duration;

use ecow::{EcoString, eco_format};
use kilter_process::Invocation;
use kilter_provider::Context;

use super::crontab::Crontab;
use crate::accounts::{Accounts, System};
use crate::file::atomic_rewrite;
use crate::tool::{self, RecordedPart};
use crate::user_files::{MAX_FILE_BYTES, UserFiles, own_name};

/// Directories with crontabs, each named like its user. The first that exists counts.
const DIRECTORIES: [&str; 3] = ["var/spool/cron/crontabs", "var/spool/cron/tabs", "var/spool/cron"];

/// Maximum duration of crontab(1).
const DEADLINE: Duration = Duration::from_secs(60);

/// The crontabs of a system.
pub(super) struct Spool<'a> {
    system: &'a System,
    accounts: &'a Accounts,
}

impl<'a> Spool<'a> {
    pub(super) fn new(system: &'a System, accounts: &'a Accounts) -> Spool<'a> {
        Spool { system, accounts }
    }

    /// Returns the directory of the crontabs.
    pub(super) fn directory(&self) -> PathBuf {
        let paths = DIRECTORIES.map(|directory| self.system.root().join(directory));
        paths.iter().find(|path| path.is_dir()).unwrap_or(&paths[0]).clone()
    }

    /// Reads the crontabs of all users. Only root can read those of others.
    pub(super) fn read_all(&self, cx: &Context<'_>) -> Result<UserFiles<Crontab>, EcoString> {
        if !rustix::process::geteuid().is_root() {
            let own = own_name(self.accounts).map_err(|error| error.message)?;
            let tab = self.ask(cx, &own);
            return Ok([(own, tab)].into_iter().collect());
        }
        let directory = self.directory();
        let entries = match std::fs::read_dir(&directory) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(UserFiles::from_iter([])),
            entries => entries.map_err(|error| eco_format!("cannot read {}: {error}", directory.display()))?,
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let names = names.map(EcoString::from).filter(|name| !name.starts_with('.'));
        let mut tabs = Vec::new();
        for user in names {
            // Files of former users, and other files, are no crontabs.
            if self.accounts.user(cx, &user).map_err(|error| error.message)?.is_some() {
                let tab = self.read(cx, &user);
                tabs.push((user, tab));
            }
        }
        Ok(tabs.into_iter().collect())
    }

    /// Reads the crontab of a user, which may be missing.
    pub(super) fn read(&self, cx: &Context<'_>, user: &str) -> Result<Crontab, EcoString> {
        if !rustix::process::geteuid().is_root() {
            return self.ask(cx, user);
        }
        let path = self.directory().join(user).to_string_lossy().into_owned();
        let bytes = atomic_rewrite::read_within(&path, MAX_FILE_BYTES);
        let bytes = bytes.map_err(|error| eco_format!("the crontab of {user} is not read: {error}"))?;
        Ok(Crontab::parse(&bytes.unwrap_or_default()))
    }

    /// Reads a crontab by crontab(1), which only lists that of its caller.
    fn ask(&self, cx: &Context<'_>, user: &str) -> Result<Crontab, EcoString> {
        let limit = usize::try_from(MAX_FILE_BYTES).unwrap_or(usize::MAX);
        let list = self.crontab(user)?.arg("-l").captured(limit).deadline(DEADLINE);
        let finished =
            tool::start(self.system.runner(), cx, &list, RecordedPart::Errors).map_err(|error| error.with_sources())?;
        let said = finished.stderr.text();
        match finished.is_success() {
            true => Ok(Crontab::parse(&finished.stdout.bytes)),
            false if said.trim_start().starts_with("no crontab for") => Ok(Crontab::parse(b"")),
            false => {
                let said = Some(said.trim().to_owned());
                Err(eco_format!("crontab of {user}: {}", tool::failure("crontab -l", &finished, DEADLINE, said)))
            }
        }
    }

    /// Replaces a crontab. crontab(1) refuses one that cron cannot read.
    pub(super) fn write(&self, cx: &Context<'_>, user: &str, tab: &Crontab) -> Result<(), EcoString> {
        let bytes = tab.bytes();
        let tool = match bytes.is_empty() {
            true => self.crontab(user)?.arg("-r"),
            false => self.crontab(user)?.arg("-").stdin(bytes),
        };
        let done = tool::run(self.system.runner(), cx, tool, DEADLINE);
        done.map_err(|why| eco_format!("crontab of {user}: {why}"))
    }

    /// Starts the arguments of crontab(1) for a user. Only root may name another one.
    fn crontab(&self, user: &str) -> Result<Invocation, EcoString> {
        let own = own_name(self.accounts).map_err(|error| error.message)?;
        let tool = Invocation::new("crontab");
        Ok(if user == own { tool } else { tool.args(["-u", user]) })
    }
}
