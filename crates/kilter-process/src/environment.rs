//! The environment of a child: what it gets, from where, and what never.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Where programs are found unless something else is asked for.
pub const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The locale of children, so that their output can be read on every machine.
pub const LOCALE: &str = "C.UTF-8";

/// What is the same wherever kilter was started from.
const PINNED: [(&str, &str); 3] = [("PATH", DEFAULT_PATH), ("LANG", LOCALE), ("LC_ALL", LOCALE)];

/// The whole environment of a child: `PATH`, `LANG` and `LC_ALL`, and what is added by name.
///
/// Nothing comes from kilter's own environment but what [`allow`](Environment::allow) names. A run from a shell,
/// from cron and as a service then gives a child the same, and no variable of a login session
/// (`LD_PRELOAD`, `BASH_ENV`, `PYTHONPATH`, `IFS`) changes what a program does.
///
/// ```
/// use kilter_process::{Environment, Invocation};
///
/// let environment = Environment::new().user(0).allow(["https_proxy", "no_proxy"]).set("KILTER_ACTION", "get");
/// let invocation = Invocation::new("env").environment(&environment);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Environment {
    variables: Vec<(OsString, OsString)>,
}

impl Environment {
    /// `PATH` is [`DEFAULT_PATH`], `LANG` and `LC_ALL` are [`LOCALE`]; nothing else.
    pub fn new() -> Environment {
        Environment { variables: PINNED.map(|(name, value)| (name.into(), value.into())).into() }
    }

    /// Adds `HOME`, `USER` and `LOGNAME` of the user with this number, as `/etc/passwd` has them; nothing if
    /// it has none such. The variables of kilter's caller are not asked: they may be another user's.
    #[must_use]
    pub fn user(self, uid: u32) -> Environment {
        match std::fs::read("/etc/passwd").ok().and_then(|accounts| account(&accounts, uid)) {
            Some((name, home)) => self.set("HOME", home).set("USER", name.clone()).set("LOGNAME", name),
            None => self,
        }
    }

    /// Passes on those of the named variables that kilter itself has. `PATH`, `LANG` and `LC_ALL` stay as
    /// they are, whatever is named.
    #[must_use]
    pub fn allow<T: AsRef<OsStr>>(self, names: impl IntoIterator<Item = T>) -> Environment {
        self.allow_from(names, |name| std::env::var_os(name))
    }

    fn allow_from<T: AsRef<OsStr>>(
        mut self,
        names: impl IntoIterator<Item = T>,
        of_kilter: impl Fn(&OsStr) -> Option<OsString>,
    ) -> Environment {
        for name in names {
            let name = name.as_ref();
            // The system panics over names that cannot be asked for.
            if !is_name(name) || PINNED.iter().any(|(pinned, _)| name == *pinned) {
                continue;
            }
            if let Some(value) = of_kilter(name) {
                self = self.set(name, value);
            }
        }
        self
    }

    /// Sets a variable, whatever it was before. This is how a pinned one is changed.
    #[must_use]
    pub fn set(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Environment {
        let (name, value) = (name.into(), value.into());
        match self.variables.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => *old = value,
            None => self.variables.push((name, value)),
        }
        self
    }

    /// All of it, pinned variables first.
    pub fn variables(&self) -> &[(OsString, OsString)] {
        &self.variables
    }
}

impl Default for Environment {
    fn default() -> Environment {
        Environment::new()
    }
}

/// Shows the names only: values may be secrets.
impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.variables.iter().map(|(name, _)| name)).finish()
    }
}

/// Whether a variable can have this name (environ(7)).
pub(crate) fn is_name(name: &OsStr) -> bool {
    !name.is_empty() && !name.as_bytes().iter().any(|&b| b == b'=' || b == 0)
}

/// Name and home directory of a user in the text of passwd(5): `NAME:PASSWORD:UID:GID:GECOS:HOME:SHELL`.
fn account(accounts: &[u8], uid: u32) -> Option<(OsString, OsString)> {
    accounts.split(|&b| b == b'\n').find_map(|line| {
        let fields: Vec<&[u8]> = line.split(|&b| b == b':').collect();
        let [name, _, number, _, _, home, _] = fields.as_slice() else { return None };
        let is_it = std::str::from_utf8(number).is_ok_and(|number| number.parse() == Ok(uid));
        (is_it && !name.is_empty()).then(|| (OsString::from_vec(name.to_vec()), OsString::from_vec(home.to_vec())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(environment: &Environment) -> Vec<String> {
        let of = |(name, value): &(OsString, OsString)| format!("{}={}", name.display(), value.display());
        environment.variables().iter().map(of).collect()
    }

    #[test]
    fn only_what_is_named_is_passed_on_and_what_is_pinned_stays() {
        let of_kilter = |name: &OsStr| (name != "MISSING").then(|| OsString::from("kilter's"));
        let names = ["PATH", "LC_ALL", "TZ", "MISSING", "", "A=B", "A\0"];
        let environment = Environment::new().allow_from(names, of_kilter);
        let path = format!("PATH={DEFAULT_PATH}");
        assert_eq!(text(&environment), [&path, "LANG=C.UTF-8", "LC_ALL=C.UTF-8", "TZ=kilter's"]);
        assert_eq!(text(&environment.set("PATH", "/bin"))[0], "PATH=/bin");
    }

    #[test]
    fn a_user_is_found_by_number() {
        let accounts = b"root:x:0:0:root:/root:/bin/sh\nbroken:x:7\nann:x:1000:100:Ann,,,:/home/ann:/bin/bash\n";
        assert_eq!(account(accounts, 1000), Some(("ann".into(), "/home/ann".into())));
        assert_eq!(account(accounts, 7), None);
        let root = Environment::new().user(0);
        assert!(text(&root).contains(&"USER=root".into()) && text(&root).contains(&"LOGNAME=root".into()));
        assert_eq!(Environment::new().user(u32::MAX - 1), Environment::new());
    }

    #[test]
    fn values_are_not_shown() {
        let shown = format!("{:?}", Environment::new().set("TOKEN", "hunter2"));
        assert!(shown.contains("TOKEN") && !shown.contains("hunter2"), "{shown}");
    }
}
