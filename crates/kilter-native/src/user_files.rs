//! Files of users with named entries: crontabs, authorized keys. A title is the name of an entry, or `USER:NAME`.

use std::collections::BTreeMap;

use ecow::{EcoString, eco_format};
use kilter_provider::{Context, Level, ProviderError};
use rustc_hash::FxHashMap;

use crate::accounts::Accounts;

/// Maximum size in bytes of a user's file. The files of all users are held in memory.
pub(crate) const MAX_FILE_BYTES: u64 = 1 << 20;

/// A file with named entries.
pub(crate) trait EntryFile {
    /// Name of the type.
    const TYPE: &'static str;
    /// An entry with a name, as a message has it: `an entry`, `the comment of a key`.
    const NOUN: &'static str;
    /// The place of entries in messages: `in the crontab`, `among the keys`.
    const PLACE: &'static str;

    /// Returns the names of the entries in order. A name can occur several times.
    fn names(&self) -> impl Iterator<Item = &str>;
}

/// Returns the name of the user that kilter runs as.
pub(crate) fn own_name(accounts: &Accounts) -> Result<EcoString, ProviderError> {
    let uid = rustix::process::geteuid().as_raw();
    let users = accounts.users()?;
    Ok(users.rows.iter().find(|row| row.uid == uid).map_or_else(|| eco_format!("{uid}"), |row| row.name.clone()))
}

/// Returns the part of a title before the colon, which is a user unless another one is declared, and the rest.
pub(crate) fn prefix(title: &str) -> Option<(&str, &str)> {
    title.split_once(':').filter(|(user, name)| !user.is_empty() && !name.is_empty())
}

/// Returns the user and the name of a declared entry. The first part of a title counts as the user if no other user
/// is declared.
pub(crate) fn declared_entry<'u, 't: 'u>(title: &'t str, user: Option<&'u str>) -> (Option<&'u str>, &'t str) {
    match (prefix(title), user) {
        (Some((first, name)), user) if user.is_none_or(|user| user == first) => (Some(first), name),
        _ => (user, title),
    }
}

/// A title, resolved to the user and the name of an entry.
#[derive(Debug)]
pub(crate) struct EntryTitle<'t> {
    title: &'t str,
    /// User in the title, or else the declared one.
    pub(crate) user: Option<EcoString>,
    /// Name of the entry in the file.
    pub(crate) name: &'t str,
}

impl<'t> EntryTitle<'t> {
    /// Splits a title. Its first part is a user, who may be missing, so that no new entry gets another user. If another
    /// user is declared, or for a read or a removal (`is_new` is false), it is a user only if that user exists.
    ///
    /// # Errors
    /// If the title and the declaration name different users.
    pub(crate) fn resolve<F: EntryFile>(
        accounts: &Accounts,
        cx: &Context<'_>,
        title: &'t str,
        declared: Option<&str>,
        is_new: bool,
    ) -> Result<EntryTitle<'t>, EcoString> {
        let (user, name) = match (prefix(title), declared) {
            (Some((user, _)), None) if !is_new && !is_user(accounts, cx, user)? => (None, title),
            _ => declared_entry(title, declared),
        };
        if let (Some((user, _)), Some(declared)) = (prefix(title), declared)
            && user != declared
            && is_user(accounts, cx, user)?
        {
            return Err(eco_format!(
                "the name says {user}, `user` says {declared}; {} with this whole name is written {declared}:{title}",
                F::NOUN
            ));
        }
        Ok(EntryTitle { title, user: user.map(EcoString::from), name })
    }

    fn names_user(&self) -> bool {
        self.name.len() < self.title.len()
    }
}

fn is_user(accounts: &Accounts, cx: &Context<'_>, user: &str) -> Result<bool, EcoString> {
    Ok(accounts.user(cx, user).map_err(|error| error.message)?.is_some())
}

/// The files by user. A file that could not be read has the reason.
pub(crate) struct UserFiles<F>(BTreeMap<EcoString, Result<F, EcoString>>);

impl<F: EntryFile> FromIterator<(EcoString, Result<F, EcoString>)> for UserFiles<F> {
    fn from_iter<I: IntoIterator<Item = (EcoString, Result<F, EcoString>)>>(files: I) -> UserFiles<F> {
        UserFiles(files.into_iter().collect())
    }
}

impl<F: EntryFile> UserFiles<F> {
    /// Returns the file of a user, which may be missing.
    pub(crate) fn file(&self, user: &str) -> Option<&Result<F, EcoString>> {
        self.0.get(user)
    }

    pub(crate) fn insert(&mut self, user: EcoString, file: Result<F, EcoString>) {
        self.0.insert(user, file);
    }

    /// Returns the files that may contain an entry: that of its user, or else all that could be read.
    ///
    /// # Errors
    /// If the file of the user could not be read.
    pub(crate) fn of(&self, title: &EntryTitle<'_>) -> Result<Vec<(&EcoString, &F)>, EcoString> {
        match &title.user {
            Some(user) => match self.0.get_key_value(user) {
                Some((user, file)) => Ok(vec![(user, file.as_ref().map_err(Clone::clone)?)]),
                None => Ok(Vec::new()),
            },
            None => Ok(self.0.iter().filter_map(|(user, file)| Some((user, file.as_ref().ok()?))).collect()),
        }
    }

    /// Returns the user whose file has the only entry with a name; none if there is no entry. With `any`, several
    /// entries of one user are enough.
    ///
    /// # Errors
    /// If there are several entries, or none is found and a file could not be read.
    pub(crate) fn owner(&self, title: &EntryTitle<'_>, any: bool) -> Result<Option<&EcoString>, EcoString> {
        let mut places: Vec<&EcoString> = Vec::new();
        for (user, file) in self.of(title)? {
            places.extend(file.names().filter(|name| *name == title.name).map(|_| user));
        }
        let count = places.len();
        places.dedup();
        match places[..] {
            [user] if count == 1 || any => Ok(Some(user)),
            [] => self.not_found(title).map(|()| None),
            _ => Err(several::<F>(title.name, count, &places)),
        }
    }

    /// Fails if an entry that was not found may be in a file that could not be read.
    pub(crate) fn not_found(&self, title: &EntryTitle<'_>) -> Result<(), EcoString> {
        let unread: Vec<&str> = self.0.values().filter_map(|file| file.as_ref().err()).map(EcoString::as_str).collect();
        match title.user.is_none() && !unread.is_empty() {
            false => Ok(()),
            true => Err(eco_format!(
                "`{}` may be in a file that is not known: {}; declare `user`, or correct that",
                title.name,
                unread.join("; ")
            )),
        }
    }

    /// Reports an entry whose name is the whole title, so that it does not count as absent. An entry of another user
    /// must not block this one.
    ///
    /// # Errors
    /// If the user that kilter runs as has such an entry.
    pub(crate) fn refuse_whole(&self, cx: &Context<'_>, title: &EntryTitle<'_>, own: &str) -> Result<(), EcoString> {
        if !title.names_user() {
            return Ok(());
        }
        for (user, file) in &self.0 {
            let Ok(file) = file else { continue };
            if file.names().any(|name| name == title.title) {
                let (whole, noun) = (title.title, F::NOUN);
                let message = eco_format!("`{whole}` as a whole is {noun} of {user}, which is written {user}:{whole}");
                if user == own {
                    return Err(message);
                }
                cx.log(Level::Warning, F::TYPE, whole, &message);
            }
        }
        Ok(())
    }

    /// Returns the title and the user of each entry. A title has the user if the name is ambiguous or looks like
    /// `USER:NAME`.
    pub(crate) fn titles(
        &self,
        accounts: &Accounts,
        cx: &Context<'_>,
    ) -> Result<Vec<(EcoString, EcoString)>, EcoString> {
        let files = self.0.iter().filter_map(|(user, file)| Some((user, file.as_ref().ok()?)));
        let places: Vec<(&EcoString, &str)> =
            files.flat_map(|(user, file)| file.names().map(move |name| (user, name))).collect();
        let mut times: FxHashMap<&str, usize> = FxHashMap::default();
        for (_, name) in &places {
            *times.entry(name).or_default() += 1;
        }
        let mut titles = Vec::with_capacity(places.len());
        let mut seen = rustc_hash::FxHashSet::default();
        for (user, name) in places.into_iter().filter(|place| seen.insert(*place)) {
            // Together with the listed user, another title is the whole name.
            let looks_split = match prefix(name) {
                Some((user, _)) => is_user(accounts, cx, user)?,
                None => false,
            };
            let is_plain = times[name] == 1 && !looks_split;
            titles.push((if is_plain { name.into() } else { eco_format!("{user}:{name}") }, user.clone()));
        }
        Ok(titles)
    }
}

/// Returns the message about an entry that exists several times.
pub(crate) fn several<F: EntryFile>(name: &str, count: usize, users: &[&EcoString]) -> EcoString {
    let hint = match users {
        [first, _, ..] => eco_format!("write it with its user, {first}:{name}, or declare `user`"),
        _ => "remove all but one".into(),
    };
    let of = users.iter().map(|user| user.as_str()).collect::<Vec<_>>().join(", ");
    eco_format!("`{name}` is there {count} times, {} of {of}: {hint}", F::PLACE)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use kilter_provider::Log;

    use super::*;
    use crate::accounts::fake::Fake;

    struct UserNames(Vec<&'static str>);

    impl EntryFile for UserNames {
        const TYPE: &'static str = "entry";
        const NOUN: &'static str = "an entry";
        const PLACE: &'static str = "in the files";

        fn names(&self) -> impl Iterator<Item = &str> {
            self.0.iter().copied()
        }
    }

    const PASSWD: &str = "root:x:0:0::/root:/bin/sh\neve:x:1:1::/home/eve:/bin/sh\n";

    fn bench() -> (Fake, Accounts, UserFiles<UserNames>) {
        let fake = Fake::new(PASSWD, "", "");
        let accounts = Accounts::new(fake.system());
        let root = UserNames(vec!["both", "eve:daily", "twice", "twice"]);
        let files = [("root", Ok(root)), ("eve", Ok(UserNames(vec!["both", "mine", "nobody:x"])))];
        (fake, accounts, files.into_iter().map(|(user, file)| (user.into(), file)).collect())
    }

    fn resolved<'t>(accounts: &Accounts, title: &'t str, user: Option<&str>) -> Result<EntryTitle<'t>, EcoString> {
        EntryTitle::resolve::<UserNames>(accounts, &Context::empty(), title, user, true)
    }

    #[derive(Default)]
    struct Lines(Mutex<Vec<String>>);

    impl Log for Lines {
        fn log(&self, _: Level, _: &str, _: &str, message: &str) {
            self.0.lock().unwrap().push(message.to_owned());
        }
    }

    #[test]
    fn first_part_of_a_title_is_a_user_unless_another_is_declared() {
        let (_fake, accounts, _) = bench();
        let split = |title, declared| {
            let title = resolved(&accounts, title, declared).unwrap();
            (title.user.map_or_else(String::new, String::from), title.name.to_owned())
        };
        let pair = |user: &str, name: &str| (user.to_owned(), name.to_owned());
        assert_eq!(split("eve:mail", None), pair("eve", "mail"));
        assert_eq!(split("nosuch:mail", None), pair("nosuch", "mail"));
        assert_eq!(split("nosuch:mail", Some("nosuch")), pair("nosuch", "mail"));
        assert_eq!(split("nosuch:mail", Some("eve")), pair("eve", "nosuch:mail"));
        assert_eq!(split("mail", None), pair("", "mail"));
        let read = EntryTitle::resolve::<UserNames>(&accounts, &Context::empty(), "nosuch:mail", None, false).unwrap();
        assert_eq!((read.user, read.name), (None, "nosuch:mail"));
        let why = resolved(&accounts, "eve:daily", Some("root")).unwrap_err();
        assert!(
            why.contains("the name says eve, `user` says root") && why.contains("is written root:eve:daily"),
            "{why}"
        );
    }

    #[test]
    fn owner_is_the_only_user_with_the_entry() {
        let (_fake, accounts, mut files) = bench();
        let owner = |files: &UserFiles<UserNames>, title, user| {
            files.owner(&resolved(&accounts, title, user).unwrap(), false).map(|owner| owner.cloned())
        };
        assert_eq!(owner(&files, "mine", None), Ok(Some("eve".into())));
        assert_eq!(owner(&files, "eve:both", None), Ok(Some("eve".into())));
        assert_eq!(owner(&files, "both", Some("root")), Ok(Some("root".into())));
        assert_eq!(owner(&files, "nothing", None), Ok(None));
        assert!(owner(&files, "both", None).unwrap_err().contains("write it with its user, eve:both"));
        assert!(
            owner(&files, "twice", None).unwrap_err().contains("is there 2 times, in the files of root: remove all")
        );
        let twice = resolved(&accounts, "twice", None).unwrap();
        assert_eq!(files.owner(&twice, true), Ok(Some(&"root".into())));
        files.insert("far".into(), Err("far cannot be read".into()));
        assert_eq!(owner(&files, "mine", None), Ok(Some("eve".into())));
        assert!(owner(&files, "nothing", None).unwrap_err().contains("not known: far cannot be read; declare `user`"));
        assert_eq!(owner(&files, "nothing", Some("eve")), Ok(None));
        assert_eq!(owner(&files, "nothing", Some("far")), Err("far cannot be read".into()));
    }

    #[test]
    fn whole_title_of_another_user_is_a_warning_and_of_the_own_user_an_error() {
        let (_fake, accounts, files) = bench();
        let title = resolved(&accounts, "eve:daily", None).unwrap();
        let lines = Lines::default();
        let cx = Context::empty().with_log(&lines);
        assert!(files.refuse_whole(&cx, &title, "root").unwrap_err().contains("is written root:eve:daily"));
        assert_eq!(files.refuse_whole(&cx, &title, "eve"), Ok(()));
        assert_eq!(lines.0.lock().unwrap().len(), 1);
        assert_eq!(files.refuse_whole(&cx, &resolved(&accounts, "both", None).unwrap(), "root"), Ok(()));
    }

    #[test]
    fn each_title_finds_its_entry() {
        let (_fake, accounts, files) = bench();
        let titles = files.titles(&accounts, &Context::empty()).unwrap();
        let titles: Vec<&str> = titles.iter().map(|(title, _)| title.as_str()).collect();
        assert_eq!(titles, ["eve:both", "mine", "nobody:x", "root:both", "root:eve:daily", "root:twice"]);
    }
}
