//! Numbers of users and groups by name, and names by number.

use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

use ecow::EcoString;
use kilter_process::Invocation;
use rustc_hash::FxHashMap;
use rustix::fs::Stat;

/// How long what was read is believed before the file is looked at again: a thousand checks, and
/// less than it takes to run `usermod`.
const FRESH: Duration = Duration::from_millis(10);
/// How long a name that no source knows is not asked for again, unless the file changes.
const MISSING_FRESH: Duration = Duration::from_secs(1);
/// How long answers of other sources than the file are believed.
const FOREIGN_FRESH: Duration = Duration::from_secs(60);

/// The users and groups of this machine: `/etc/passwd` and `/etc/group`, read once, and whatever
/// else `getent` knows.
pub(super) struct Accounts {
    users: Database,
    groups: Database,
    services: Services,
}

/// Knows whether the machine has other sources than the files.
type Services = crate::accounts::Accounts;

impl Accounts {
    /// The accounts of this machine.
    pub(super) fn new() -> Accounts {
        Accounts::with(Services::new(crate::accounts::System::real()))
    }

    fn with(services: Services) -> Accounts {
        Accounts {
            users: Database::new("/etc/passwd", "passwd"),
            groups: Database::new("/etc/group", "group"),
            services,
        }
    }

    /// Whether to tell the number of this user means to ask, and to wait for, another source than the file.
    pub(super) fn user_may_wait(&self, user: &str) -> bool {
        number(user).is_none() && self.users.lacks(user) && self.services.may_wait("passwd")
    }

    /// The same of a group.
    pub(super) fn group_may_wait(&self, group: &str) -> bool {
        number(group).is_none() && self.groups.lacks(group) && self.services.may_wait("group")
    }

    /// Looks at the files again at the next question: before a change nothing old will do.
    pub(super) fn expire(&self) {
        for database in [&self.users, &self.groups] {
            database.loaded.write().unwrap_or_else(PoisonError::into_inner).looked = None;
        }
    }

    /// The number of a user given by name or number.
    pub(super) fn uid(&self, user: &str) -> Option<u32> {
        number(user).or_else(|| self.users.id(&self.services, user))
    }

    /// The number of a group given by name or number.
    pub(super) fn gid(&self, group: &str) -> Option<u32> {
        number(group).or_else(|| self.groups.id(&self.services, group))
    }

    /// The name of a user, or else the number.
    pub(super) fn user(&self, uid: u32) -> EcoString {
        self.users.name(&self.services, uid)
    }

    /// The name of a group, or else the number.
    pub(super) fn group(&self, gid: u32) -> EcoString {
        self.groups.name(&self.services, gid)
    }
}

/// The number that a text of digits stands for. The largest one means "unchanged" to the system
/// and is nobody's.
pub(super) fn number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { text.parse().ok().filter(|number| *number != u32::MAX) } else { None }
}

struct Database {
    file: &'static str,
    getent: &'static str,
    loaded: RwLock<Loaded>,
}

#[derive(Default)]
struct Loaded {
    /// When the file was last looked at, and what it was then.
    looked: Option<Instant>,
    stamp: Option<Stat>,
    by_name: FxHashMap<EcoString, u32>,
    by_id: FxHashMap<u32, EcoString>,
    /// What `getent` said of names and numbers that the file lacks.
    foreign_ids: FxHashMap<EcoString, (Option<u32>, Instant)>,
    foreign_names: FxHashMap<u32, (EcoString, Instant)>,
}

impl Loaded {
    fn is_fresh(&self) -> bool {
        self.looked.is_some_and(|at| at.elapsed() < FRESH)
    }
}

impl Database {
    fn new(file: &'static str, getent: &'static str) -> Database {
        Database { file, getent, loaded: RwLock::default() }
    }

    fn id(&self, services: &Services, name: &str) -> Option<u32> {
        let loaded = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
        if loaded.is_fresh()
            && let Some(id) = loaded.by_name.get(name)
        {
            return Some(*id);
        }
        drop(loaded);
        let mut loaded = self.loaded.write().unwrap_or_else(PoisonError::into_inner);
        self.look(&mut loaded);
        if let Some(id) = loaded.by_name.get(name) {
            return Some(*id);
        }
        if let Some((id, at)) = loaded.foreign_ids.get(name)
            && at.elapsed() < if id.is_some() { FOREIGN_FRESH } else { MISSING_FRESH }
        {
            return *id;
        }
        // Others need not wait for the answer.
        drop(loaded);
        let id = self.ask(services, name).and_then(|line| parse(&line).map(|(_, id)| id));
        let mut loaded = self.loaded.write().unwrap_or_else(PoisonError::into_inner);
        loaded.foreign_ids.insert(name.into(), (id, Instant::now()));
        id
    }

    fn name(&self, services: &Services, id: u32) -> EcoString {
        let loaded = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
        if loaded.is_fresh()
            && let Some(name) = loaded.by_id.get(&id)
        {
            return name.clone();
        }
        drop(loaded);
        let mut loaded = self.loaded.write().unwrap_or_else(PoisonError::into_inner);
        self.look(&mut loaded);
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
            self.ask(services, &digits).and_then(|line| parse(&line).map(|(name, _)| name.into())).unwrap_or(digits);
        let mut loaded = self.loaded.write().unwrap_or_else(PoisonError::into_inner);
        loaded.foreign_names.insert(id, (name.clone(), Instant::now()));
        name
    }

    /// Reads the file again if it is another one than last time.
    fn look(&self, loaded: &mut Loaded) {
        loaded.looked = Some(Instant::now());
        let stamp = rustix::fs::stat(self.file).ok();
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
        for line in String::from_utf8_lossy(&std::fs::read(self.file).unwrap_or_default()).lines() {
            let Some((name, id)) = parse(line) else { continue };
            // The first entry of a name or a number wins, as in the C library.
            loaded.by_name.entry(name.into()).or_insert(id);
            loaded.by_id.entry(id).or_insert_with(|| name.into());
        }
    }

    /// Whether a name is not in the file.
    fn lacks(&self, name: &str) -> bool {
        let loaded = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
        if loaded.is_fresh() {
            return !loaded.by_name.contains_key(name);
        }
        drop(loaded);
        let mut loaded = self.loaded.write().unwrap_or_else(PoisonError::into_inner);
        self.look(&mut loaded);
        !loaded.by_name.contains_key(name)
    }

    /// Asks every source that the machine is configured for (directory services, …), if it has more
    /// than the files: that costs a process.
    fn ask(&self, services: &Services, key: &str) -> Option<String> {
        if !services.may_wait(self.getent) {
            return None;
        }
        if key.is_empty() || key.starts_with('-') || key.contains(['\0', '\n', ':']) {
            return None;
        }
        let invocation = Invocation::new("getent").arg(self.getent).arg(key).captured(4096);
        let invocation = invocation.deadline(Duration::from_secs(10));
        let finished = kilter_process::run(&invocation, None).ok()?;
        finished.is_success().then(|| finished.stdout.text().into_owned())
    }
}

fn unchanged(now: &Stat, then: &Stat) -> bool {
    let stamp = |stat: &Stat| (stat.st_ino, stat.st_size, stat.st_mtime, stat.st_mtime_nsec);
    stamp(now) == stamp(then)
}

/// The name and the number of a line of `passwd` or `group`.
fn parse(line: &str) -> Option<(&str, u32)> {
    let mut fields = line.split(':');
    let name = fields.next().filter(|name| !name.is_empty() && !name.starts_with('#'))?;
    Some((name, number(fields.nth(1)?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_passwd_and_group_give_name_and_number() {
        assert_eq!(parse("root:x:0:0:root:/root:/bin/bash"), Some(("root", 0)));
        assert_eq!(parse("staff:x:50:"), Some(("staff", 50)));
        assert_eq!(parse("+::::::"), None);
        assert_eq!(parse("#x:x:1:1"), None);
    }

    #[test]
    fn only_a_name_that_another_source_may_know_is_waited_for() {
        let fake = crate::accounts::fake::Fake::new("", "", "");
        fake.write("nsswitch.conf", "passwd: files sss\ngroup: files\n");
        let accounts = Accounts::with(Services::new(fake.system()));
        let waits = ["no-such-user-here", "root", "77"].map(|user| accounts.user_may_wait(user));
        assert_eq!(waits, [true, false, false]);
        assert!(!accounts.group_may_wait("no-such-group-here"), "there are only the files");
    }

    #[test]
    fn root_is_number_0_and_a_name_that_nobody_has_is_none() {
        let accounts = Accounts::new();
        assert_eq!(accounts.uid("root"), Some(0));
        assert_eq!(accounts.user(0), "root");
        assert_eq!(accounts.gid("0"), Some(0));
        assert_eq!(accounts.uid("no-such-user-here"), None);
        assert_eq!(accounts.user(3_999_999_999), "3999999999");
    }
}
