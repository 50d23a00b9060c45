//! Environment of a child.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Default search path for programs.
pub const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Locale of children, so that their output has the same language on every machine.
pub const LOCALE: &str = "C.UTF-8";

/// Variables with the same value in every child.
const PINNED: [(&str, &str); 3] = [("PATH", DEFAULT_PATH), ("LANG", LOCALE), ("LC_ALL", LOCALE)];

/// Complete environment of a child: `PATH`, `LANG`, `LC_ALL`, and variables added by name.
///
/// A child inherits no variable from kilter except those that [`allow`](Environment::allow) names. So a run from a
/// shell, from cron or as a service gives the child the same environment. No variable of a login session
/// (`LD_PRELOAD`, `BASH_ENV`, `PYTHONPATH`, `IFS`) changes the behaviour of a program.
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
    /// Creates an environment with `PATH` = [`DEFAULT_PATH`] and `LANG` = `LC_ALL` = [`LOCALE`] only.
    pub fn new() -> Environment {
        Environment { variables: PINNED.map(|(name, value)| (name.into(), value.into())).into() }
    }

    /// Adds `HOME`, `USER` and `LOGNAME` of the user with this number, read from `/etc/passwd`. Adds none of them if
    /// `/etc/passwd` has no such user. The caller's own variables are not used, because they may belong to another
    /// user.
    #[must_use]
    pub fn user(self, uid: u32) -> Environment {
        match std::fs::read("/etc/passwd").ok().and_then(|accounts| account(&accounts, uid)) {
            Some((name, home)) => self.set("HOME", home).set("USER", name.clone()).set("LOGNAME", name),
            None => self,
        }
    }

    /// Passes on the named variables that are set for kilter itself. Never changes `PATH`, `LANG` and `LC_ALL`.
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
            // Invalid names must not reach `std::env::var_os`.
            if !is_name(name) || PINNED.iter().any(|(pinned, _)| name == *pinned) {
                continue;
            }
            if let Some(value) = of_kilter(name) {
                self = self.set(name, value);
            }
        }
        self
    }

    /// Sets a variable, and replaces an earlier value, also of a pinned variable.
    #[must_use]
    pub fn set(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Environment {
        let (name, value) = (name.into(), value.into());
        match self.variables.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => *old = value,
            None => self.variables.push((name, value)),
        }
        self
    }

    /// Returns all variables, pinned ones first.
    pub fn variables(&self) -> &[(OsString, OsString)] {
        &self.variables
    }
}

impl Default for Environment {
    fn default() -> Environment {
        Environment::new()
    }
}

/// Prints the names only, because values may be secrets.
impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.variables.iter().map(|(name, _)| name)).finish()
    }
}

/// Returns true if the name is valid for a variable (environ(7)).
pub(crate) fn is_name(name: &OsStr) -> bool {
    !name.is_empty() && !name.as_bytes().iter().any(|&b| b == b'=' || b == 0)
}

/// Returns name and home directory of a user from the text of passwd(5): `NAME:PASSWORD:UID:GID:GECOS:HOME:SHELL`.
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
    fn only_named_variables_pass_and_pinned_ones_win() {
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
