//! The type `password`: a random password that is generated once.

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Behaviour, Change, Difference, Feature, Outcome, State, TypeSchema, Value};
use kilter_provider::{
    Context, Mode, Placement, Provider, ProviderError, Query, ReadOne, Refresh, Scheduling, Wanted, Watch, WatchSource,
    get_each,
};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::builtin::present;
use crate::state_files::{self, StateFiles};

const KIND: &str = "password";

/// First bytes of a record. The length of the password follows.
const HEAD: &str = "kilter password 1 ";

/// Characters without a special meaning in shells, URLs and YAML.
const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

const DESC: &str = "\
Random passwords for other resources, each generated once.

```yaml
resources:
  password[database]:
    length: 32
  file[/etc/app/secret]:
    content: \"${password[database].password}\\n\"
```

A password has letters and digits: 62 characters, almost six bits each. It is sensitive, so kilter never shows it. \
Later runs use the \
same password: kilter [stores outputs](../secrets.md) encrypted. A refresh generates a new password.";

fn schema() -> TypeSchema {
    TypeSchema::new("password", DESC)
        .attribute("name", "String[1]", Behaviour::Namevar, "Name of the resource.")
        .attribute("length", "Integer[1, 65535]", Behaviour::Parameter, "Number of characters: `32`.")
        .default(Value::Integer(64))
        .attribute(
            "saved",
            "Boolean",
            Behaviour::Parameter,
            "Store the password also in clear text, in the state directory, readable by its owner only. It is then \
             available even \
             if the encrypted output is not.",
        )
        .default(Value::Boolean(false))
        .attribute(
            "check_recovery",
            "Boolean",
            Behaviour::Parameter,
            "Generate a new password if the stored record is damaged or has another length. \
             With `false`, this is a failure.",
        )
        .default(Value::Boolean(false))
        .features(&[Feature::Refresh, Feature::SimpleGetFilter, Feature::SupportsNoop])
        .output("password", "Sensitive[String]", "Password.")
}

/// Provides the type `password`.
pub struct PasswordProvider;

/// Record of a password: its length, and the password itself if it is stored in clear text.
struct PasswordRecord {
    length: usize,
    password: Option<EcoString>,
}

impl PasswordRecord {
    fn of(bytes: &[u8]) -> Option<PasswordRecord> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (length, password) = text.strip_prefix(HEAD)?.split_once('\n')?;
        let length = length.parse().ok()?;
        let password = password.strip_suffix('\n').map(EcoString::from);
        let is_whole = password.as_ref().is_none_or(|password| password.len() == length);
        is_whole.then_some(PasswordRecord { length, password })
    }
}

impl PasswordProvider {
    /// Checks the record of a password. The inner result is the password if it is stored in clear text, or the
    /// reason why a new one is needed.
    ///
    /// # Errors
    /// If a new one is needed but `check_recovery` is not set, or the record cannot be read.
    fn look(
        cx: &Context<'_>,
        name: &str,
        should: &Attributes,
    ) -> Result<Result<Option<EcoString>, EcoString>, EcoString> {
        let Some(bytes) = StateFiles::of(cx, KIND).read(name)? else {
            return Ok(Err("no password has been generated yet".into()));
        };
        let (wanted, is_saved) = (length(should), should.get_bool("saved") == Some(true));
        let why = match PasswordRecord::of(&bytes) {
            None => "the stored record is damaged".into(),
            Some(record) if record.length != wanted => {
                eco_format!("the stored password has {} characters, not {wanted}", record.length)
            }
            Some(PasswordRecord { password: None, .. }) if is_saved => {
                "the stored record does not contain the password".into()
            }
            Some(PasswordRecord { password: Some(_), .. }) if !is_saved => {
                return Ok(Err("it is stored in clear text, but `saved` is false".into()));
            }
            Some(record) => return Ok(Ok(record.password)),
        };
        match should.get_bool("check_recovery") {
            Some(true) => Ok(Err(why)),
            _ => Err(eco_format!("{why}: a refresh or `check_recovery: true` generates a new password")),
        }
    }

    /// Stores a password: the present one if it `may_stay` and has the right length, otherwise a new one.
    fn make(cx: &Context<'_>, name: &EcoString, should: &Attributes, may_stay: bool) -> Outcome {
        let kept = || PasswordRecord::of(&StateFiles::of(cx, KIND).read(name).ok()??)?.password;
        let old = may_stay.then(kept).flatten().filter(|password| password.len() == length(should));
        let made = old.map_or_else(|| random(length(should)), Ok).and_then(|password| {
            let is_saved = should.get_bool("saved") == Some(true);
            let saved = if is_saved { format!("{password}\n") } else { String::new() };
            StateFiles::of(cx, KIND).write(name, format!("{HEAD}{}\n{saved}", password.len()).as_bytes())?;
            Ok(password)
        });
        match made {
            Ok(password) => {
                let outputs = Attributes::from_iter([("password", Value::sensitive(Value::String(password)))]);
                Outcome { outputs, ..Outcome::done() }
            }
            Err(why) => Outcome::failed(why),
        }
    }
}

fn length(should: &Attributes) -> usize {
    let length = should.get("length").and_then(Value::as_integer).unwrap_or(64);
    usize::try_from(length.max(1)).unwrap_or(64)
}

/// Returns random letters and digits with a uniform distribution.
fn random(length: usize) -> Result<EcoString, EcoString> {
    let mut password = EcoString::with_capacity(length);
    let mut bytes = [0_u8; 256];
    while password.len() < length {
        let count = getrandom(&mut bytes, GetRandomFlags::empty())
            .map_err(|errno| eco_format!("cannot get random numbers: {errno}"))?;
        // Bytes from 248 on would favour the first letters.
        let fair = bytes[..count].iter().filter(|byte| usize::from(**byte) < 4 * LETTERS.len());
        for byte in fair.take(length - password.len()) {
            password.push(char::from(LETTERS[usize::from(*byte) % LETTERS.len()]));
        }
    }
    bytes.fill(0);
    Ok(password)
}

impl Provider for PasswordProvider {
    crate::builtin::describe!(
        "password",
        "local",
        schema,
        [read_one, scheduling, refresh, watch],
        InProcess: [predict]
    );

    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        get_each(self, cx, query, || StateFiles::of(cx, KIND).names().map_err(ProviderError::new))
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        let make = |change: &Change<'_>| match (change.should, mode) {
            (_, Mode::Preview) => Outcome::done(),
            // A new password also serves a pending refresh.
            (Some(should), _) => {
                let outcome = Self::make(cx, change.name, should, !change.refresh);
                Outcome { refreshed: change.refresh && outcome.is_done(), ..outcome }
            }
            (None, _) => match StateFiles::of(cx, KIND).remove(change.name) {
                Ok(()) => Outcome::done(),
                Err(why) => Outcome::failed(why),
            },
        };
        changes.iter().map(make).collect()
    }
}

impl ReadOne for PasswordProvider {
    fn get_one(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Result<State, ProviderError> {
        let mut state = present(wanted.name);
        let Some(should) = wanted.should else {
            let kept = StateFiles::of(cx, KIND).read(wanted.name).map_err(ProviderError::new)?;
            return Ok(if kept.is_some() { state } else { State::absent(wanted.name.clone()) });
        };
        match Self::look(cx, wanted.name, should).map_err(ProviderError::new)? {
            Ok(None) => {}
            Ok(Some(password)) => state.outputs.push("password", Value::sensitive(Value::String(password))),
            Err(why) => state.drift.push(Difference::new("password", Value::Undef, Value::Undef).saying(why)),
        }
        Ok(state)
    }
}

impl Scheduling for PasswordProvider {
    fn placement(&self, _: &Attributes) -> Placement {
        Placement::Inline
    }

    fn set_placement(&self, _: &Attributes) -> Placement {
        Placement::Worker
    }
}

impl Refresh for PasswordProvider {
    fn refresh(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Outcome {
        let none = Attributes::new();
        let outcome = Self::make(cx, wanted.name, wanted.should.unwrap_or(&none), false);
        Outcome { refreshed: outcome.is_done(), ..outcome }
    }
}

impl Watch for PasswordProvider {
    fn watches(&self, name: &str, _: &Attributes) -> Vec<WatchSource> {
        vec![WatchSource::StateFile(state_files::path_of(KIND, name))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(cx: &Context<'_>, should: &Attributes) -> Outcome {
        let is = State::present("db", Attributes::new());
        let name = EcoString::from("db");
        let change = Change::new(&name, &is, Some(should), &[]);
        PasswordProvider.set(cx, &[change], Mode::Apply).remove(0)
    }

    fn look(cx: &Context<'_>, should: &Attributes) -> Result<State, ProviderError> {
        PasswordProvider.get_one(cx, Wanted::new(&"db".into(), Some(should)))
    }

    fn wanted(length: i64, saved: bool, check_recovery: bool) -> Attributes {
        let values = [Value::Integer(length), Value::Boolean(saved), Value::Boolean(check_recovery)];
        Attributes::from_iter(["length", "saved", "check_recovery"].into_iter().zip(values))
    }

    #[test]
    fn password_is_generated_once_and_stored_in_clear_on_request() {
        let state = tempfile::tempdir().unwrap();
        let cx = Context::empty().with_var_dir(Some(state.path()));
        for (saved, name) in [(false, "sealed"), (true, "saved")] {
            StateFiles::of(&cx, KIND).remove("db").unwrap();
            let should = wanted(20, saved, false);
            assert_eq!(look(&cx, &should).unwrap().drift.len(), 1, "{name}");
            let outcome = change(&cx, &should);
            let sent = outcome.outputs.get("password").unwrap();
            let Value::Sensitive(_) = sent else { panic!("{sent:?} is shown to everybody") };
            let password = sent.unwrap_sensitive().as_str().unwrap();
            assert_eq!(password.len(), 20);
            let found = look(&cx, &should).unwrap();
            assert!(found.drift.is_empty());
            assert_eq!(found.outputs.get("password"), saved.then_some(sent), "{name}");
            let kept = StateFiles::of(&cx, KIND).read("db").unwrap().unwrap();
            assert_eq!(String::from_utf8(kept).unwrap().contains(password), saved, "{name}");
        }
    }

    #[test]
    fn unsaving_keeps_the_password() {
        let state = tempfile::tempdir().unwrap();
        let cx = Context::empty().with_var_dir(Some(state.path()));
        let sent = change(&cx, &wanted(20, true, false)).outputs;
        let should = wanted(20, false, false);
        assert_eq!(look(&cx, &should).unwrap().drift.len(), 1);
        assert_eq!(change(&cx, &should).outputs, sent);
        assert!(look(&cx, &should).unwrap().drift.is_empty());
        let kept = StateFiles::of(&cx, KIND).read("db").unwrap().unwrap();
        assert_eq!(kept, b"kilter password 1 20\n");
    }

    #[test]
    fn unsuitable_password_is_replaced_only_with_check_recovery() {
        let state = tempfile::tempdir().unwrap();
        let cx = Context::empty().with_var_dir(Some(state.path()));
        change(&cx, &wanted(20, false, false));
        for (length, saved, why) in
            [(21, false, "has 20 characters, not 21"), (20, true, "does not contain the password")]
        {
            let error = look(&cx, &wanted(length, saved, false)).unwrap_err();
            assert!(error.message.contains(why), "{error}");
            assert_eq!(look(&cx, &wanted(length, saved, true)).unwrap().drift.len(), 1);
        }
        for damaged in [&b"kilter password 1 20\nshort\n"[..], b"", b"\xff", b"kilter password 1 x\n"] {
            StateFiles::of(&cx, KIND).write("db", damaged).unwrap();
            assert!(look(&cx, &wanted(20, false, false)).unwrap_err().message.contains("damaged"));
        }
    }

    #[test]
    fn refresh_generates_new_password() {
        let state = tempfile::tempdir().unwrap();
        let cx = Context::empty().with_var_dir(Some(state.path()));
        let should = wanted(64, true, false);
        let first = change(&cx, &should).outputs;
        let second = PasswordProvider.refresh(&cx, Wanted::new(&"db".into(), Some(&should)));
        assert!(second.refreshed && second.outputs != first);
        assert_eq!(look(&cx, &should).unwrap().outputs, second.outputs);
    }
}
