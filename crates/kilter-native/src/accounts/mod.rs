//! Users and groups of the system, shared by [`user`](crate::user), [`group`](crate::group), [`exec`](crate::exec)
//! and [`file`](crate::file).
//!
//! This module reads the files, and only the shadow tools change them. It parses a file again only if a `stat` shows
//! a change.

mod cached;
pub(crate) mod date;
#[cfg(test)]
pub(crate) mod fake;
mod identity;
mod ids;
pub(crate) mod membership;
mod names;
pub(crate) mod predict;
mod rows;
mod system;
mod tools;

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use ecow::EcoString;
use kilter_process::Invocation;
use kilter_provider::{Context, ProviderError};
use rustc_hash::FxHashMap;

use cached::Cached;
pub(crate) use ids::Ids;
pub(crate) use names::{is_numeric, name_problem, no_user, number, number_of, number_problem, require_free_number};
pub(crate) use rows::{GroupRow, Groups, Shadows, UserRow, Users};
pub use system::{RealRunner, Runner, System};

/// Accounts of a system.
pub(crate) struct Accounts {
    system: System,
    users: Cached<Users>,
    groups: Cached<Groups>,
    shadows: Cached<Shadows>,
    /// Databases with other sources than the files, from `/etc/nsswitch.conf`.
    services: Cached<Services>,
    /// Serialises the tools. Their own file locks wait whole seconds.
    turn: Mutex<()>,
}

impl Accounts {
    /// Returns the watches for these files in `/etc`.
    pub(crate) fn watches(&self, names: &[&str]) -> Vec<kilter_provider::WatchSource> {
        let watch = |name: &&str| kilter_provider::WatchSource::Path {
            path: self.system.etc(name),
            scope: kilter_provider::Scope::This,
        };
        names.iter().map(watch).collect()
    }

    pub(crate) fn new(system: System) -> Accounts {
        Accounts {
            users: Cached::new(system.etc("passwd"), Users::parse),
            groups: Cached::new(system.etc("group"), Groups::parse),
            shadows: Cached::new(system.etc("shadow"), Shadows::parse),
            services: Cached::new(system.etc("nsswitch.conf"), Services::parse),
            system,
            turn: Mutex::new(()),
        }
    }

    pub(crate) fn users(&self) -> Result<Arc<Users>, ProviderError> {
        self.users.get().map_err(|error| self.unreadable("passwd", &error))
    }

    pub(crate) fn groups(&self) -> Result<Arc<Groups>, ProviderError> {
        self.groups.get().map_err(|error| self.unreadable("group", &error))
    }

    /// Returns passwords and ages; none if the caller may not read them.
    pub(crate) fn shadows(&self) -> Result<Option<Arc<Shadows>>, ProviderError> {
        match self.shadows.get() {
            Ok(shadows) => Ok(Some(shadows)),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(None),
            Err(error) => Err(self.unreadable("shadow", &error)),
        }
    }

    fn unreadable(&self, file: &str, error: &io::Error) -> ProviderError {
        ProviderError::new(format!("cannot read {}: {error}", self.system.etc(file).display()))
    }

    /// Returns a user by name, from the files or from other configured sources.
    pub(crate) fn user(&self, cx: &Context<'_>, name: &str) -> Result<Option<UserRow>, ProviderError> {
        match self.users()?.find(name) {
            Some(row) => Ok(Some(row.clone())),
            None => Ok(self.ask(cx, "passwd", name)?.and_then(|line| UserRow::parse(&line))),
        }
    }

    /// Returns a group by name, from the files or from other configured sources.
    pub(crate) fn group(&self, cx: &Context<'_>, name: &str) -> Result<Option<GroupRow>, ProviderError> {
        match self.groups()?.find(name) {
            Some(row) => Ok(Some(row.clone())),
            None => Ok(self.ask(cx, "group", name)?.and_then(|line| GroupRow::parse(&line))),
        }
    }

    /// Returns the numbers of all supplementary groups of a user.
    pub(crate) fn supplementary(&self, cx: &Context<'_>, user: &str) -> Result<Vec<u32>, ProviderError> {
        let listed = self.groups()?.listing(user).map(|group| group.gid).collect();
        let Some(line) = self.ask(cx, "initgroups", user)? else { return Ok(listed) };
        Ok(line.split_ascii_whitespace().skip(1).filter_map(|gid| gid.parse().ok()).collect())
    }

    /// Queries the name service if it has other sources than the files. A query costs a process.
    fn ask(&self, cx: &Context<'_>, database: &str, key: &str) -> Result<Option<String>, ProviderError> {
        let services = self.services.get().map_err(|error| self.unreadable("nsswitch.conf", &error))?;
        // The name service would treat a numeric key as an id, and truncate large numbers.
        if !services.has_more_than_files(database) || key.starts_with('-') || is_numeric(key) {
            return Ok(None);
        }
        let finished = self.query(cx, &Invocation::new("getent").args([database, key]))?;
        Ok(finished.is_success().then(|| finished.stdout.text().trim_end().to_owned()))
    }

    /// Returns true if names that the files lack are looked up elsewhere.
    pub(crate) fn may_wait(&self, database: &str) -> bool {
        self.services.get().is_ok_and(|services| services.has_more_than_files(database))
    }

    /// Returns the directory that represents `/`.
    pub(crate) fn root(&self) -> &Path {
        self.system.root()
    }

    /// Clears the caches before a change.
    fn forget(&self) {
        self.users.forget();
        self.groups.forget();
        self.shadows.forget();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `/etc/nsswitch.conf`: databases and their services.
#[derive(Debug, Default)]
struct Services(FxHashMap<EcoString, bool>);

impl Services {
    fn parse(text: &str) -> Services {
        let lines = text.lines().filter_map(|line| line.split('#').next()?.split_once(':'));
        let beyond = |service: &str| !matches!(service, "files" | "compat" | "systemd") && !service.starts_with('[');
        Services(lines.map(|(name, rest)| (name.trim().into(), rest.split_ascii_whitespace().any(beyond))).collect())
    }

    fn has_more_than_files(&self, database: &str) -> bool {
        let of = |name: &str| self.0.get(name).copied();
        match database {
            "initgroups" => of("initgroups").or_else(|| of("group")),
            other => of(other),
        }
        .unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sources_besides_files_are_queried() {
        let services =
            Services::parse("passwd: files systemd\ngroup: files [NOTFOUND=return] sss # directory\n# hosts: dns\n");
        assert!(!services.has_more_than_files("passwd"));
        assert!(services.has_more_than_files("group"));
        assert!(services.has_more_than_files("initgroups"));
        assert!(!services.has_more_than_files("hosts"));
    }
}
