//! Units of a system that does not run, such as an image: only their start at boot is managed.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ecow::EcoString;
use kilter_model::{Attributes, Change, Outcome, State};
use kilter_process::Invocation;
use kilter_provider::{
    Context, Insync, Level, Mode, Preference, Provider, ProviderError, Query, Refresh, Suitability, ValidationError,
    Wanted, redacted_outcome,
};

use super::{schema, unit};
use crate::accounts::{RealRunner, Runner};
use crate::tool;

/// Maximum size of a list of units in bytes.
const MAX_OUTPUT_BYTES: usize = 4 << 20;

/// Timeout of systemctl, which only reads and writes files here.
const DEADLINE: Duration = Duration::from_secs(60);

/// Provides the type `service` where systemd is installed and does not run.
pub struct OfflineServiceProvider {
    /// Directory that exists if systemd runs (sd_booted(3)).
    booted: PathBuf,
    /// Root directory of the system.
    root: PathBuf,
    runner: Arc<dyn Runner>,
    /// Units for which a warning has said that they are not started.
    warned: Mutex<BTreeSet<EcoString>>,
}

impl OfflineServiceProvider {
    /// Creates a provider for the units below `/`.
    pub fn new() -> OfflineServiceProvider {
        OfflineServiceProvider::on("/run/systemd/system".into(), "/".into())
    }

    fn on(booted: PathBuf, root: PathBuf) -> OfflineServiceProvider {
        OfflineServiceProvider { booted, root, runner: Arc::new(RealRunner), warned: Mutex::default() }
    }

    fn systemctl(&self, args: &[&str]) -> Invocation {
        let root = format!("--root={}", self.root.display());
        Invocation::new("systemctl").args([root.as_str()]).args(args)
    }

    /// Returns the output of a systemctl that reads.
    fn read(&self, cx: &Context<'_>, args: &[&str]) -> Result<String, ProviderError> {
        let systemctl = self.systemctl(args).captured(MAX_OUTPUT_BYTES).deadline(DEADLINE);
        let output = tool::start(&*self.runner, cx, &systemctl, tool::RecordedPart::Errors);
        Ok(output.map_err(|error| ProviderError::new(error.with_sources()))?.stdout.text().into_owned())
    }

    fn named(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Result<State, ProviderError> {
        // It fails for units that are not enabled, and prints nothing for units that do not exist.
        let file = self.read(cx, &["is-enabled", "--", wanted.name])?;
        let found = state(wanted.name, file.trim());
        let starts = wanted.should.is_some_and(|should| should.text("ensure").is_some());
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if found.exists && starts && warned.insert(wanted.name.clone()) {
            let message = "systemd does not run here: the unit is neither started nor stopped";
            cx.log(Level::Warning, "service", wanted.name, message);
        }
        Ok(found)
    }

    fn change(&self, cx: &Context<'_>, change: &Change<'_>) -> Result<(), EcoString> {
        if !change.is.exists {
            return Err(super::missing_unit(change.name));
        }
        let Some(should) = change.should.and_then(|should| should.text("enable")) else { return Ok(()) };
        let is_masked = change.is.attributes.text("enable") == Some("mask");
        let verbs: &[&str] = match should {
            "true" if is_masked => &["unmask", "enable"],
            "true" => &["enable"],
            "false" => &["disable"],
            "mask" => &["mask"],
            _ => &["unmask"],
        };
        verbs
            .iter()
            .try_for_each(|verb| tool::run(&*self.runner, cx, self.systemctl(&[verb, "--", change.name]), DEADLINE))
    }
}

impl Default for OfflineServiceProvider {
    fn default() -> OfflineServiceProvider {
        OfflineServiceProvider::new()
    }
}

/// Returns the state of a unit, by the word of systemctl for the state of its file.
fn state(name: &EcoString, file: &str) -> State {
    let enable = match file {
        "" | "not-found" => return State { is_unknown: true, ..State::absent(name.clone()) },
        "enabled" => "true",
        "static" | "indirect" | "generated" | "alias" => "static",
        "masked" | "masked-runtime" => "mask",
        _ => "false",
    };
    let attributes = [("name", name.as_str()), ("enable", enable), ("unit_file", file)];
    State::present(name.clone(), Attributes::from_iter(attributes))
}

impl Provider for OfflineServiceProvider {
    crate::builtin::describe!("service", "offline", schema::offline, [refresh]);

    fn suitable(&self) -> Suitability {
        if self.booted.is_dir() {
            return Suitability::Unsuitable("systemd runs: the provider `systemd` is for this system".into());
        }
        tool::installed(&["systemctl"], None)
    }

    /// A script for another init system precedes it.
    fn preference(&self) -> Preference {
        Preference::Last
    }

    fn validate(&self, name: &str, _: &Attributes, _: &[&str]) -> Vec<ValidationError> {
        unit::problem(name).map(|problem| ValidationError::with("name", problem)).into_iter().collect()
    }

    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        match query {
            Query::All => {
                let list = self.read(cx, &["list-unit-files", "--type=service", "--no-legend", "--no-pager"])?;
                let words = list.lines().map(|line| line.split_whitespace().take(2).collect::<Vec<_>>());
                Ok(words
                    .filter_map(|words| match words[..] {
                        // A template is no unit.
                        [unit, file] if !unit.contains("@.") => {
                            Some(state(&unit.strip_suffix(".service").unwrap_or(unit).into(), file))
                        }
                        _ => None,
                    })
                    .collect())
            }
            Query::Named(wanted) => wanted.iter().map(|wanted| self.named(cx, *wanted)).collect(),
        }
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        let change = |change: &Change<'_>| match mode {
            Mode::Preview => super::preview(cx, change, !change.is.exists),
            Mode::Apply => self.change(cx, change).map_or_else(Outcome::failed, |()| Outcome::done()),
        };
        changes.iter().map(|each| redacted_outcome(each, change(each))).collect()
    }

    fn insync(&self, _: &Context<'_>, attribute: &str, is: &State, should: &Attributes) -> Insync {
        match attribute {
            // A unit that does not exist would not start on the running system either.
            "ensure" if !is.exists && should.text("ensure") == Some("running") => Insync::Default,
            // Nothing runs here.
            "ensure" => Insync::Same,
            _ => super::enable_insync(attribute, is, should),
        }
    }
}

/// No unit runs here, so that a refresh has no effect, as for a stopped unit.
impl Refresh for OfflineServiceProvider {
    fn refresh(&self, _: &Context<'_>, _: Wanted<'_>) -> Outcome {
        Outcome::done()
    }

    fn acts_on_refresh(&self, _: &State, _: &Attributes) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use kilter_provider::{Found, check};

    use super::*;

    const UNIT: &str = "[Service]\nExecStart=/bin/true\n";

    struct Image {
        provider: OfflineServiceProvider,
        root: tempfile::TempDir,
    }

    impl Image {
        fn new() -> Image {
            let root = tempfile::tempdir().unwrap();
            let units = root.path().join("usr/lib/systemd/system");
            std::fs::create_dir_all(&units).unwrap();
            std::fs::create_dir_all(root.path().join("etc/systemd/system")).unwrap();
            std::fs::write(units.join("app.service"), format!("{UNIT}[Install]\nWantedBy=multi-user.target\n"))
                .unwrap();
            std::fs::write(units.join("helper.service"), UNIT).unwrap();
            let provider = OfflineServiceProvider::on(root.path().join("booted"), root.path().to_owned());
            Image { provider, root }
        }

        fn get(&self, name: &str) -> State {
            let name = name.into();
            self.provider.get(&Context::empty(), Query::Named(&[Wanted::new(&name, None)])).unwrap().remove(0)
        }

        fn checked(&self, name: &str, should: &Attributes) -> Found {
            let name = name.into();
            check(&self.provider, &Context::empty(), &[Wanted::new(&name, Some(should))]).remove(0).unwrap()
        }

        fn enable(&self, name: &str, enable: &str) -> Outcome {
            self.set(name, &Attributes::from_iter([("enable", enable)]))
        }

        fn set(&self, name: &str, should: &Attributes) -> Outcome {
            let (is, name) = (self.get(name), EcoString::from(name));
            let change = Change::new(&name, &is, Some(should), &[]);
            self.provider.set(&Context::empty(), &[change], Mode::Apply).remove(0)
        }
    }

    fn enabled(state: &State) -> Option<&str> {
        state.attributes.text("enable")
    }

    #[test]
    fn units_of_an_image_are_enabled_disabled_and_masked() {
        let image = Image::new();
        let link = image.root.path().join("etc/systemd/system/multi-user.target.wants/app.service");
        for (enable, found, is_linked) in
            [("true", "true", true), ("false", "false", false), ("mask", "mask", false), ("true", "true", true)]
        {
            let outcome = image.enable("app", enable);
            assert!(outcome.is_done(), "{outcome:?}");
            assert_eq!(enabled(&image.get("app")), Some(found));
            assert_eq!(link.symlink_metadata().is_ok(), is_linked, "{enable}");
        }
        assert_eq!(enabled(&image.get("helper")), Some("static"));
        let all = image.provider.get(&Context::empty(), Query::All).unwrap();
        let listed: Vec<_> = all.iter().map(|state| (state.name.as_str(), enabled(state))).collect();
        assert_eq!(listed, [("app", Some("true")), ("helper", Some("static"))]);
    }

    #[test]
    fn unknown_unit_fails() {
        let image = Image::new();
        assert!(!image.get("gone").exists);
        for declared in [("enable", "true"), ("ensure", "running")] {
            let should = Attributes::from_iter([declared]);
            let found = image.checked("gone", &should);
            assert_eq!(found.differences.len(), 1, "{declared:?}");
            let failure = image.set("gone", &should).failure;
            assert_eq!(failure.as_deref(), Some("there is no unit gone"), "{declared:?}");
        }
        let should = Attributes::from_iter([("ensure", "stopped"), ("enable", "false")]);
        assert_eq!(image.checked("gone", &should).differences, []);
    }

    #[test]
    fn activity_is_not_compared() {
        let image = Image::new();
        let should = Attributes::from_iter([("ensure", "running"), ("enable", "true")]);
        let is = image.get("app");
        assert!(matches!(image.provider.insync(&Context::empty(), "ensure", &is, &should), Insync::Same));
        assert!(matches!(image.provider.insync(&Context::empty(), "enable", &is, &should), Insync::Default));
    }
}
