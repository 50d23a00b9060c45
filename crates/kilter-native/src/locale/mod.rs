//! The type `locale`: generated locales, and the default one.

mod gen_file;

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Behaviour, Change, Feature, Outcome, State, TypeSchema};
use kilter_process::Invocation;
use kilter_provider::{
    AutoEdge, Claim, Context, Effect, Footprint, Mode, PathState, Predict, Provider, ProviderError, Query, Redactor,
    Relations, Revert, RevertTo, Scope, SideEffects, Suitability, ValidationError, Watch, WatchSource,
    redacted_outcome,
};
use rustc_hash::FxHashSet;

use crate::accounts::System;
use crate::builtin::is_absent;
use crate::file::atomic_rewrite::{self, AtomicRewrite, AtomicRewriteError};
use crate::shell_settings;
use crate::tool::{self, RecordedPart};
use gen_file::LocaleEntry;

const GENERATOR: &str = "locale-gen";
const LIST: &str = "/etc/locale.gen";
/// Lists of the locales that can be generated, of the distribution and of the administrator.
const SUPPORTED: [&str; 2] = ["/usr/share/i18n/SUPPORTED", "/usr/local/share/i18n/SUPPORTED"];
/// Files with the default locale: of systemd, and of Debian up to version 12. On Debian 13, the second one is a link to
/// the first one, which may be missing.
const DEFAULTS: [&str; 2] = ["/etc/locale.conf", "/etc/default/locale"];
/// Setting with the default locale (locale(7)).
const LANG: &str = "LANG";
/// Directory of the generated locales.
const GENERATED: &str = "/usr/lib/locale";

/// Maximum size of the list of `locale -a` in bytes.
const MAX_LIST_BYTES: usize = 1024 * 1024;
/// Maximum duration of the generation. A locale takes some seconds.
const DEADLINE: Duration = Duration::from_secs(1800);

const DESC: &str = "\
Locales: languages and formats of programs.

```yaml
resources:
  locale[de_DE.UTF-8]:
    default: true
  locale[en_US.UTF-8]: {}
  locale[fr_FR]:
    ensure: absent
```

A locale is present if it has a line in `/etc/locale.gen` and `locale -a` lists it. kilter changes all lines of a \
batch with one write, and then runs `locale-gen` once; locales that exist are not generated again. Other lines stay as \
they are.

With `default: true`, the locale is the value of `LANG` in `/etc/locale.conf`, or in `/etc/default/locale` if that \
file does not exist. A link there, as on Debian 13, stays, and its target has the value. Sessions that start later \
use it. Only one `locale` may have `default: true`.

On Debian, `locale-gen` comes from the package `locales`.";

/// Provides the type `locale`.
pub struct LocaleProvider {
    system: System,
    turn: Mutex<()>,
}

/// Locales on the machine.
struct FoundLocales {
    entries: Vec<LocaleEntry>,
    /// Names as `locale -a` has them.
    generated: FxHashSet<String>,
    default: Option<EcoString>,
}

impl FoundLocales {
    fn has_entry(&self, name: &str) -> bool {
        self.entries.iter().any(|entry| entry.name == name)
    }

    fn is_generated(&self, name: &str) -> bool {
        is_builtin(name) || self.generated.contains(&plain(name))
    }

    /// Returns the generated names of locales. A locale without a character set in its name has a second name with it,
    /// which may be that of another entry.
    fn names_of(&self, locales: &[&str]) -> Vec<String> {
        let of_others = |name: &String| {
            self.entries.iter().any(|entry| plain(&entry.name) == *name && !locales.contains(&entry.name.as_str()))
        };
        let named = self.entries.iter().filter(|entry| locales.contains(&entry.name.as_str()));
        let long = named.map(|entry| match entry.name.split_once('@') {
            Some((language, modifier)) => plain(&format!("{language}.{}@{modifier}", entry.charset)),
            None => plain(&format!("{}.{}", entry.name, entry.charset)),
        });
        let names = locales.iter().map(|name| plain(name)).chain(long);
        let mut names: Vec<String> = names.filter(|name| self.generated.contains(name) && !of_others(name)).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    fn state(&self, name: &EcoString, should: Option<&Attributes>) -> State {
        let (has_entry, is_generated) = (self.has_entry(name), self.is_generated(name));
        let exists = match should.is_some_and(is_absent) {
            true => has_entry || is_generated,
            false => is_generated && (has_entry || is_builtin(name)),
        };
        let mut attributes = Attributes::from_iter([("name", name.clone())]);
        attributes.push("default", self.is_default(name));
        if !exists {
            return State { attributes, ..State::absent(name.clone()) };
        }
        attributes.set("ensure", "present");
        if let Some(entry) = self.entries.iter().find(|entry| entry.name == *name) {
            attributes.push("charset", entry.charset.clone());
        }
        State::present(name.clone(), attributes)
    }

    fn is_default(&self, name: &str) -> bool {
        self.default.as_deref().is_some_and(|default| plain(default) == plain(name))
    }
}

impl LocaleProvider {
    /// Creates a provider for the locales of a system.
    pub fn new(system: System) -> LocaleProvider {
        LocaleProvider { system, turn: Mutex::new(()) }
    }

    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, EcoString> {
        atomic_rewrite::read(&self.system.path(path)).map_err(|error| eco_format!("{error}"))
    }

    fn default_file(&self) -> &'static str {
        let is_file = |path: &&&str| Path::new(&self.system.path(path)).is_file();
        DEFAULTS.iter().find(is_file).unwrap_or(&DEFAULTS[1])
    }

    fn found(&self, cx: &Context<'_>) -> Result<FoundLocales, EcoString> {
        let entries = gen_file::entries(&self.read(LIST)?.unwrap_or_default());
        let default = shell_settings::get(&self.read(self.default_file())?.unwrap_or_default(), LANG);
        let tool = Invocation::new("locale").arg("-a").captured(MAX_LIST_BYTES).deadline(Duration::from_secs(60));
        let listed =
            tool::start(self.system.runner(), cx, &tool, RecordedPart::Errors).map_err(|error| error.with_sources())?;
        if !listed.is_success() {
            return Err(tool::failure("locale", &listed, Duration::from_secs(60), None));
        }
        let generated = listed.stdout.text().lines().map(plain).collect();
        Ok(FoundLocales { entries, generated, default })
    }

    /// Returns the default of the machine, unless it is this locale.
    fn other_default(&self, name: &str) -> Result<Option<EcoString>, EcoString> {
        let default = shell_settings::get(&self.read(self.default_file())?.unwrap_or_default(), LANG);
        Ok(default.filter(|default| plain(default) != plain(name) && is_name(default)))
    }

    /// Returns the character set of a locale, which its entry and its generation need.
    fn charset(&self, name: &str, should: &Attributes) -> Result<EcoString, EcoString> {
        let mut lists = Vec::new();
        for path in SUPPORTED {
            lists.extend(self.read(path)?.map(|bytes| gen_file::entries(&bytes)));
        }
        let known = lists.iter().flatten().find(|entry| entry.name == name);
        let declared = should.text("charset").map(EcoString::from);
        match (declared.or(known.map(|entry| entry.charset.clone())), known.is_some() || lists.is_empty()) {
            (Some(charset), true) => Ok(charset),
            (None, true) => {
                charset_in(name).ok_or_else(|| eco_format!("`{name}` names no character set: add `charset`"))
            }
            (_, false) => Err(eco_format!(
                "`{name}` is not a supported locale: {} does not have it (names are such as de_DE.UTF-8)",
                SUPPORTED[0]
            )),
        }
    }

    /// Replaces a file if its content changes.
    fn rewrite(
        &self,
        cx: &Context<'_>,
        open: impl Fn() -> Result<AtomicRewrite, AtomicRewriteError>,
        new: impl Fn(&[u8]) -> Vec<u8>,
    ) -> Result<(), EcoString> {
        atomic_rewrite::rewritten(|| {
            let file = open()?;
            let bytes = new(file.bytes());
            if bytes != file.bytes() {
                file.replace(&bytes, 0o644, cx)?;
            }
            Ok(())
        })
    }

    fn change(&self, cx: &Context<'_>, changes: &[Change<'_>]) -> Result<Vec<Outcome>, EcoString> {
        let mut outcomes = vec![Outcome::done(); changes.len()];
        let before = self.found(cx)?;
        let (mut wanted, mut unwanted) = (Vec::new(), Vec::new());
        for (outcome, change) in outcomes.iter_mut().zip(changes) {
            let should = change.should.filter(|should| !is_absent(should));
            match should.map(|should| self.charset(change.name, should)) {
                _ if is_builtin(change.name) => {}
                Some(Ok(charset)) => wanted.push(LocaleEntry { name: change.name.clone(), charset }),
                Some(Err(why)) => *outcome = Outcome::failed(why),
                None => unwanted.push(change.name.as_str()),
            }
        }
        self.rewrite(
            cx,
            || AtomicRewrite::open(&self.system.path(LIST)),
            |old| gen_file::with(old, &wanted, &unwanted),
        )?;
        let unwanted = before.names_of(&unwanted);
        if !unwanted.is_empty() {
            let tool = Invocation::new("localedef").arg("--delete-from-archive").args(unwanted);
            tool::run(self.system.runner(), cx, tool, DEADLINE)?;
        }
        if wanted.iter().any(|entry| !before.is_generated(&entry.name)) {
            let tool = Invocation::new(GENERATOR).arg("--keep-existing");
            tool::run(self.system.runner(), cx, tool, DEADLINE)?;
        }
        let after = self.found(cx)?;
        for (outcome, change) in outcomes.iter_mut().zip(changes).filter(|(outcome, _)| outcome.is_done()) {
            let is_present = change.should.is_some_and(|should| !is_absent(should));
            if after.is_generated(change.name) != is_present {
                *outcome = Outcome::failed(match is_present {
                    true => eco_format!("{GENERATOR} did not generate `{}`", change.name),
                    false => eco_format!("`{}` is still in {GENERATED}: its package has to remove it", change.name),
                });
            } else if let Err(why) = self.set_default(cx, change, &after) {
                *outcome = Outcome::failed(why);
            }
        }
        Ok(outcomes)
    }

    /// Makes a locale the default, or not the default.
    fn set_default(&self, cx: &Context<'_>, change: &Change<'_>, found: &FoundLocales) -> Result<(), EcoString> {
        let should = change.should.filter(|should| !is_absent(should));
        let is_default = match should {
            Some(should) => should.get_bool("default"),
            None => Some(false),
        };
        match is_default {
            Some(true) if !found.is_default(change.name) => self.rewrite_default(cx, Some(change.name)),
            Some(false) if found.is_default(change.name) => {
                self.rewrite_default(cx, change.should.and_then(|should| should.text("other_default")))
            }
            _ => Ok(()),
        }
    }

    fn rewrite_default(&self, cx: &Context<'_>, locale: Option<&str>) -> Result<(), EcoString> {
        let path = self.system.path(self.default_file());
        self.rewrite(cx, || AtomicRewrite::open_followed(&path), |old| shell_settings::with(old, LANG, locale))
    }
}

/// Returns true for locales that the C library has without files.
fn is_builtin(name: &str) -> bool {
    matches!(name, "C" | "POSIX" | "C.UTF-8" | "C.utf8")
}

/// Returns a name as `locale -a` writes it: its character set in lower case and without punctuation.
fn plain(name: &str) -> String {
    let (rest, modifier) = name.split_once('@').map_or((name, ""), |(rest, modifier)| (rest, modifier));
    let mut plain = match rest.split_once('.') {
        Some((language, charset)) => {
            let charset = charset.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase());
            format!("{language}.{}", charset.collect::<String>())
        }
        None => rest.to_owned(),
    };
    if !modifier.is_empty() {
        plain.push('@');
        plain.push_str(modifier);
    }
    plain
}

fn charset_in(name: &str) -> Option<EcoString> {
    let (_, charset) = name.split_once('.')?;
    Some(charset.split('@').next().unwrap_or(charset).into())
}

fn schema() -> TypeSchema {
    TypeSchema::new("locale", DESC)
        .attribute("ensure", "Enum[present, absent]", Behaviour::Property, "State: `present`, `absent`.")
        .default("present")
        .attribute("name", "String[1]", Behaviour::Namevar, "Name of the locale: `de_DE.UTF-8`.")
        .attribute(
            "default",
            "Boolean",
            Behaviour::Property,
            "True if the locale is the default of the machine (`LANG`). Without it, kilter does not change the \
             default.",
        )
        .attribute(
            "other_default",
            "String[1]",
            Behaviour::Parameter,
            "Default of the machine instead of this locale, if `default` is `false` or the locale is removed: \
             `en_US.UTF-8`. Without it, the machine then has no default. An undo restores the former default by it.",
        )
        .attribute(
            "charset",
            "String[1]",
            Behaviour::Parameter,
            "Character set, for a locale that `/usr/share/i18n/SUPPORTED` does not have: `ISO-8859-1`.",
        )
        .features(&[Feature::SimpleGetFilter, Feature::SupportsNoop])
}

fn is_name(name: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-@".contains(&byte);
    name.len() < 100 && name.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic()) && name.bytes().all(is_word)
}

impl Provider for LocaleProvider {
    crate::builtin::describe!("locale", "debian", schema, [relations, predict, watch, revert]);

    fn suitable(&self) -> Suitability {
        tool::installed(&[GENERATOR], Some("locales"))
    }

    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        let found = self.found(cx).map_err(ProviderError::new)?;
        Ok(match query {
            Query::All => {
                let names = found.entries.iter().map(|entry| &entry.name);
                names.map(|name| found.state(name, None)).filter(|state| state.exists).collect()
            }
            Query::Named(wanted) => wanted.iter().map(|one| found.state(one.name, one.should)).collect(),
        })
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let outcomes = match mode {
            Mode::Apply => {
                let outcomes = self.change(cx, changes);
                outcomes.unwrap_or_else(|why| vec![Outcome::failed(why); changes.len()])
            }
            Mode::Preview => {
                let known = |change: &Change<'_>| match change.should.filter(|should| !is_absent(should)) {
                    Some(should)
                        if !cx.preview_context().may_change_before(change.name) && !is_builtin(change.name) =>
                    {
                        self.charset(change.name, should).map(drop)
                    }
                    _ => Ok(()),
                };
                changes.iter().map(|one| known(one).map_or_else(Outcome::failed, |()| Outcome::done())).collect()
            }
        };
        outcomes.into_iter().zip(changes).map(|(outcome, change)| redacted_outcome(change, outcome)).collect()
    }

    fn validate(&self, name: &str, should: &Attributes, _: &[&str]) -> Vec<ValidationError> {
        let mut found = Vec::new();
        if !is_name(name) {
            let problem = ValidationError::with("name", format!("`{name}` is not the name of a locale"));
            found.push(problem.hint("write a name such as de_DE.UTF-8"));
        }
        if let Some(charset) = should.text("charset").filter(|charset| !is_name(charset)) {
            let problem = ValidationError::with("charset", format!("`{charset}` is not a character set"));
            found.push(problem.hint("write a name such as UTF-8 or ISO-8859-1"));
        }
        if let Some(other) = should.text("other_default").filter(|other| !is_name(other)) {
            let problem = ValidationError::with("other_default", format!("`{other}` is not the name of a locale"));
            found.push(problem.hint("write a name such as de_DE.UTF-8"));
        }
        if is_absent(should) && is_builtin(name) {
            let problem = ValidationError::with("ensure", format!("the C library always has the locale `{name}`"));
            found.push(problem.hint("remove the resource"));
        }
        if is_absent(should) && should.get_bool("default") == Some(true) {
            let problem = ValidationError::with("default", "an absent locale cannot be the default");
            found.push(problem.hint("remove `default`, or `ensure: absent`"));
        }
        let seal = Redactor::of(should);
        found.into_iter().map(|problem| seal.problem(problem)).collect()
    }
}

impl Relations for LocaleProvider {
    fn claims(&self, _: &str, should: &Attributes, say: &mut dyn FnMut(Claim<'_>)) {
        if should.get_bool("default") == Some(true) {
            say(Claim::whole(LANG));
        }
    }

    fn auto_edges(&self, _: &str, _: &Attributes, add: &mut dyn FnMut(AutoEdge<'_>)) {
        let files = [LIST].iter().chain(&DEFAULTS).chain(&SUPPORTED);
        files.for_each(|path| add(AutoEdge::require("file", path)));
        add(AutoEdge::require("package", "locales"));
    }
}

impl Predict for LocaleProvider {
    fn side_effects(&self, _: &Attributes) -> SideEffects {
        SideEffects::Own
    }

    fn effects(&self, _: &Context<'_>, _: &Change<'_>) -> Option<Vec<Effect>> {
        let unknown = |path: &str| Effect::Path { path: path.into(), node: PathState::Unknown };
        Some([LIST, DEFAULTS[0], DEFAULTS[1], GENERATED].map(unknown).into())
    }

    fn footprint(&self, _: &str, _: &Attributes, say: &mut dyn FnMut(Footprint<'_>)) {
        [LIST, DEFAULTS[0], DEFAULTS[1]].iter().for_each(|path| say(Footprint::Writes { path, is_whole: false }));
    }
}

impl Revert for LocaleProvider {
    fn revert_to(&self) -> RevertTo {
        RevertTo::Values
    }

    fn revert_values(&self, should: &Attributes, is: &State, before: &mut Attributes) -> Result<(), EcoString> {
        if should.get_bool("default") == Some(true)
            && let Some(other) = self.other_default(&is.name)?
        {
            before.set("other_default", other);
        }
        Ok(())
    }

    fn revert_creation(&self, is: &State, removal: &mut Attributes) -> Result<(), EcoString> {
        if removal.remove("default").is_some_and(|default| default.as_bool() == Some(true))
            && let Some(other) = self.other_default(&is.name)?
        {
            removal.set("other_default", other);
        }
        Ok(())
    }
}

impl Watch for LocaleProvider {
    fn watches(&self, _: &str, _: &Attributes) -> Vec<WatchSource> {
        let watch = |path: &str, scope| WatchSource::Path { path: self.system.path(path).into(), scope };
        let files = [LIST, DEFAULTS[0], DEFAULTS[1]].map(|path| watch(path, Scope::This));
        files.into_iter().chain([watch(GENERATED, Scope::Entries)]).collect()
    }
}

#[cfg(test)]
mod tests;
