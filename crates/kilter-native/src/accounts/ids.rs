//! Numbers of users and groups by name, and names by number.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use ecow::EcoString;
use kilter_process::{Cancel, Invocation};
use rustc_hash::FxHashMap;
use rustix::fs::Stat;

use super::Accounts;
use super::names::number_of as number;

/// Time for which a read file is trusted without another check. Long enough for a thousand checks, and shorter than
/// a run of `usermod`.
const FRESH: Duration = Duration::from_millis(10);
/// Time for which an unknown name is not queried again, unless the file changes.
const MISSING_FRESH: Duration = Duration::from_secs(1);
/// Time for which answers of sources other than the file are trusted.
const FOREIGN_FRESH: Duration = Duration::from_secs(60);

/// Cancel flag for queries, never set: a query takes ten seconds at most.
static NEVER: AtomicBool = AtomicBool::new(false);

/// Numbers by name and names by number, for bulk lookups. Unlike [`Accounts`] it does not check the files each time.
pub(crate) struct Ids {
    users: Database,
    groups: Database,
    accounts: Arc<Accounts>,
}

impl Ids {
    /// Creates the lookup tables of these accounts.
    pub(crate) fn new(accounts: Arc<Accounts>) -> Ids {
        let database = |name| Database { name, file: accounts.system.etc(name), loaded: RwLock::default() };
        Ids { users: database("passwd"), groups: database("group"), accounts }
    }

    /// Returns true if the lookup of this user may query, and wait for, another source than the file.
    pub(crate) fn user_may_wait(&self, user: &str) -> bool {
        number(user).is_none() && self.users.lacks(user) && self.accounts.may_wait("passwd")
    }

    /// Returns true if the lookup of this group may query, and wait for, another source than the file.
    pub(crate) fn group_may_wait(&self, group: &str) -> bool {
        number(group).is_none() && self.groups.lacks(group) && self.accounts.may_wait("group")
    }

    /// Forces a check of the files at the next lookup. Changes must not use old data.
    pub(crate) fn expire(&self) {
        for database in [&self.users, &self.groups] {
            database.loaded.write().unwrap_or_else(PoisonError::into_inner).looked = None;
        }
    }

    /// Returns the number of a user given by name or number.
    pub(crate) fn uid(&self, user: &str) -> Option<u32> {
        number(user).or_else(|| self.users.id(&self.accounts, user))
    }

    /// Returns the number of a group given by name or number.
    pub(crate) fn gid(&self, group: &str) -> Option<u32> {
        number(group).or_else(|| self.groups.id(&self.accounts, group))
    }

    /// Returns the name of a user, or the number if there is no name.
    pub(crate) fn user(&self, uid: u32) -> EcoString {
        self.users.name(&self.accounts, uid)
    }

    /// Returns the name of a group, or the number if there is no name.
    pub(crate) fn group(&self, gid: u32) -> EcoString {
        self.groups.name(&self.accounts, gid)
    }
}

struct Database {
    /// Name of the file, and of the `getent` database.
    name: &'static str,
    file: PathBuf,
    loaded: RwLock<AccountTable>,
}

#[derive(Default)]
struct AccountTable {
    /// Time of the last check of the file, and its metadata.
    looked: Option<Instant>,
    stamp: Option<Stat>,
    by_name: FxHashMap<EcoString, u32>,
    by_id: FxHashMap<u32, EcoString>,
    /// Answers of `getent` for names and numbers that the file lacks.
    foreign_ids: FxHashMap<EcoString, (Option<u32>, Instant)>,
    foreign_names: FxHashMap<u32, (EcoString, Instant)>,
}

impl AccountTable {
    fn is_fresh(&self) -> bool {
        self.looked.is_some_and(|at| at.elapsed() < FRESH)
    }
}

impl Database {
    fn id(&self, accounts: &Accounts, name: &str) -> Option<u32> {
        let loaded = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
        if loaded.is_fresh()
            && let Some(id) = loaded.by_name.get(name)
        {
            return Some(*id);
        }
        drop(loaded);
        let mut loaded = self.loaded.write().unwrap_or_else(PoisonError::into_inner);
        self.reload(&mut loaded);
        if let Some(id) = loaded.by_name.get(name) {
            return Some(*id);
        }
        if let Some((id, at)) = loaded.foreign_ids.get(name)
            && at.elapsed() < if id.is_some() { FOREIGN_FRESH } else { MISSING_FRESH }
        {
            return *id;
        }
        // Other threads need not wait for the answer.
        drop(loaded);
        let id = self.query(accounts, name).and_then(|line| parse(&line).map(|(_, id)| id));
        let mut loaded = self.loaded.write().unwrap_or_else(PoisonError::into_inner);
        loaded.foreign_ids.insert(name.into(), (id, Instant::now()));
        id
    }

    fn name(&self, accounts: &Accounts, id: u32) -> EcoString {
        let loaded = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
        if loaded.is_fresh()
            && let Some(name) = loaded.by_id.get(&id)
        {
            return name.clone();
        }
        drop(loaded);
        let mut loaded = self.loaded.write().unwrap_or_else(PoisonError::into_inner);
        self.reload(&mut loaded);
        if let Some(name) = loaded.by_id.get(&id) {
            return name.clone();
        }
        if let Some((name, at)) = loaded.foreign_names.get(&id)
            && at.elapsed() < FOREIGN_FRESH
        {
            return name.clone();
        }
        drop(loaded);
        let digits = ecow::eco_format!("{id}");
        let name =
            self.query(accounts, &digits).and_then(|line| parse(&line).map(|(name, _)| name.into())).unwrap_or(digits);
        let mut loaded = self.loaded.write().unwrap_or_else(PoisonError::into_inner);
        loaded.foreign_names.insert(id, (name.clone(), Instant::now()));
        name
    }

    /// Reads the file again if it has changed.
    fn reload(&self, loaded: &mut AccountTable) {
        loaded.looked = Some(Instant::now());
        let stamp = rustix::fs::stat(&self.file).ok();
        if let (Some(now), Some(then)) = (&stamp, &loaded.stamp)
            && unchanged(now, then)
        {
            return;
        }
        loaded.stamp = stamp;
        loaded.by_name.clear();
        loaded.by_id.clear();
        loaded.foreign_ids.clear();
        loaded.foreign_names.clear();
        for line in String::from_utf8_lossy(&std::fs::read(&self.file).unwrap_or_default()).lines() {
            let Some((name, id)) = parse(line) else { continue };
            // The first entry of a name or a number wins, as in the C library.
            loaded.by_name.entry(name.into()).or_insert(id);
            loaded.by_id.entry(id).or_insert_with(|| name.into());
        }
    }

    /// Returns true if the file lacks a name.
    fn lacks(&self, name: &str) -> bool {
        let loaded = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
        if loaded.is_fresh() {
            return !loaded.by_name.contains_key(name);
        }
        drop(loaded);
        let mut loaded = self.loaded.write().unwrap_or_else(PoisonError::into_inner);
        self.reload(&mut loaded);
        !loaded.by_name.contains_key(name)
    }

    /// Queries all configured sources (directory services, …) if there are others than the files. A query costs a
    /// process.
    fn query(&self, accounts: &Accounts, key: &str) -> Option<String> {
        if !accounts.may_wait(self.name) {
            return None;
        }
        if key.is_empty() || key.starts_with('-') || key.contains(['\0', '\n', ':']) {
            return None;
        }
        let invocation = Invocation::new("getent").args([self.name, key]).captured(4096);
        let invocation = invocation.deadline(Duration::from_secs(10));
        let finished = accounts.system.runner().run(&invocation, Cancel::new(&NEVER)).ok()?;
        finished.is_success().then(|| finished.stdout.text().into_owned())
    }
}

fn unchanged(now: &Stat, then: &Stat) -> bool {
    let stamp = |stat: &Stat| (stat.st_ino, stat.st_size, stat.st_mtime, stat.st_mtime_nsec);
    stamp(now) == stamp(then)
}

/// Returns name and number in a line of `passwd` or `group`.
fn parse(line: &str) -> Option<(&str, u32)> {
    let mut fields = line.split(':');
    let name = fields.next().filter(|name| !name.is_empty() && !name.starts_with('#'))?;
    Some((name, number(fields.nth(1)?)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::fake::Fake;

    #[test]
    fn lines_of_passwd_and_group_give_name_and_number() {
        assert_eq!(parse("root:x:0:0:root:/root:/bin/bash"), Some(("root", 0)));
        assert_eq!(parse("staff:x:50:"), Some(("staff", 50)));
        assert_eq!(parse("+::::::"), None);
        assert_eq!(parse("#x:x:1:1"), None);
    }

    #[test]
    fn only_names_unknown_to_files_may_wait() {
        let fake = Fake::new("root:x:0:0:root:/root:/bin/sh\n", "root:x:0:\n", "");
        fake.write("nsswitch.conf", "passwd: files sss\ngroup: files\n");
        let ids = ids(&fake);
        let waits = ["no-such-user-here", "root", "77"].map(|user| ids.user_may_wait(user));
        assert_eq!(waits, [true, false, false]);
        assert!(!ids.group_may_wait("no-such-group-here"), "there are only the files");
        *fake.log.answer.lock().unwrap() = (0, "far:x:4000:4000::/:/bin/sh\n".to_owned());
        assert_eq!((ids.uid("far"), ids.uid("far"), ids.gid("far")), (Some(4000), Some(4000), None));
        assert_eq!(fake.argvs(), ["getent passwd far"], "the answer is kept, and the files have no other source");
    }

    #[test]
    fn root_is_0_and_unknown_name_is_none() {
        let fake = Fake::new("root:x:0:0:root:/root:/bin/sh\n", "root:x:0:\n", "");
        let ids = ids(&fake);
        assert_eq!(ids.uid("root"), Some(0));
        assert_eq!(ids.user(0), "root");
        assert_eq!(ids.gid("0"), Some(0));
        assert_eq!(ids.uid("no-such-user-here"), None);
        assert_eq!(ids.user(3_999_999_999), "3999999999");
        assert_eq!(ids.uid("4294967295"), None, "it means \"as before\" to the system");
    }

    fn ids(fake: &Fake) -> Ids {
        Ids::new(Arc::new(Accounts::new(fake.system())))
    }
}
