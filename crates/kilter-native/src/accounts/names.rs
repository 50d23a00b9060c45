//! Valid names and numbers of accounts.

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Change, Value};
use kilter_provider::{Context, ValidationError};

use crate::builtin::is_absent;

/// Largest number of an account. System calls take the next number for "unchanged", so a process that requests it
/// stays root.
const MAX_ID: u32 = u32::MAX - 1;

/// Returns the number of an account, if the value is a number.
pub(crate) fn number(account: &Value) -> Option<u32> {
    number_of(&account.to_text()?)
}

/// Returns the number of an account from a text of digits.
pub(crate) fn number_of(text: &str) -> Option<u32> {
    let is_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_digits { text.parse().ok().filter(|number| *number <= MAX_ID) } else { None }
}

/// Returns the problem of an account number that is out of range. Does not check names.
pub(crate) fn number_problem(attribute: &str, account: &Value) -> Option<ValidationError> {
    let is_numeric = account.as_str().map_or(account.as_integer().is_some(), is_numeric);
    if !is_numeric || number(account).is_some() {
        return None;
    }
    let problem = ValidationError::with(attribute, format!("`{account}` is not an account number"));
    Some(problem.hint(format!("the largest is {MAX_ID}")))
}

/// Returns true if the C library would read a text as a number. It truncates large numbers, so that 4294967296 means
/// root.
pub(crate) fn is_numeric(text: &str) -> bool {
    let digits = text.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{b}').trim_start_matches(['+', '-']);
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

/// Returns the failure of a resource whose user does not exist.
pub(crate) fn no_user(user: &str) -> EcoString {
    eco_format!("there is no user {user}: declare `user[{user}]`, or another user")
}

/// Fails if a change gives an account a number that another account has and keeps. The tools would refuse it.
pub(crate) fn require_free_number(
    cx: &Context<'_>,
    change: &Change<'_>,
    (kind, attribute): (&str, &str),
    owner: impl Fn(u32) -> Option<EcoString>,
) -> Result<(), EcoString> {
    let should = change.should.filter(|should| should.get_bool("allowdupe") != Some(true));
    let Some(wanted) = should.and_then(|should| should.get(attribute)).and_then(number) else { return Ok(()) };
    let is_other = |name: &EcoString| name != change.name;
    let is_changed = !change.is.exists || change.differs(attribute);
    let Some(owner) = owner(wanted).filter(is_other).filter(|_| is_changed) else { return Ok(()) };
    let leaves = |declared: &Attributes| {
        let other = declared.get(attribute).and_then(number);
        is_absent(declared) || other.is_some_and(|other| other != wanted)
    };
    match cx.preview_context().enforced(kind, &owner).is_some_and(leaves) {
        true => Ok(()),
        false => Err(eco_format!(
            "{attribute}: the {kind} {owner} has the number {wanted}: declare another one, or `allowdupe: true`"
        )),
    }
}

/// Returns the problem of a name that the rules of Debian's shadow tools forbid (useradd(8), "CAVEATS"). They allow
/// more than upstream's, so that every existing account can be named.
pub(crate) fn name_problem(attribute: &str, name: &str) -> Option<ValidationError> {
    let why = if name.is_empty() {
        "is empty"
    } else if name.len() > 32 {
        "is longer than 32 bytes"
    } else if name.starts_with(['-', '+', '~']) {
        "starts with `-`, `+` or `~`"
    } else if name.contains(|c: char| c.is_whitespace() || c.is_control() || matches!(c, ':' | ',' | '/')) {
        "holds white space, `:`, `,` or `/`"
    } else if name == "." || name == ".." {
        "means a directory"
    } else if name.bytes().all(|b| b.is_ascii_digit()) {
        "is a number"
    } else {
        return None;
    };
    let problem = ValidationError::with(attribute, format!("`{name}` cannot name an account: it {why}"));
    Some(problem.hint("names start with a letter or `_` and hold letters, digits, `_`, `-` and `.`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_that_an_account_can_have() {
        for (text, expected) in [("0", Some(0)), ("4294967294", Some(MAX_ID)), ("4294967295", None), ("root", None)] {
            assert_eq!(number(&text.into()), expected, "{text}");
        }
        for text in ["4294967295", "4294967296", " 0", "\t-5", "99999999999999999999"] {
            assert!(number_problem("user", &text.into()).is_some(), "{text}");
        }
        for text in ["0", "4294967294", "root", "7up", "", "DOMAIN\\user name"] {
            assert_eq!(number_problem("user", &text.into()), None, "{text}");
        }
        assert!(number_problem("user", &Value::Integer(4_294_967_295)).is_some());
        assert_eq!(number_problem("user", &Value::Integer(4_294_967_294)), None);
    }

    #[test]
    fn ambiguous_account_names_are_refused() {
        for name in ["", "-r", "+", "~x", "a:b", "a b", "a/b", "..", "1000", "a,b", "a\nb", &"x".repeat(33)] {
            assert!(name_problem("name", name).is_some(), "{name}");
        }
        for name in ["root", "_apt", "systemd-network", "Upper.Case", "www-data", "samba$", "7up"] {
            assert!(name_problem("name", name).is_none(), "{name}");
        }
    }
}
