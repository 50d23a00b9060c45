//! The type `timezone`: the time zone of the machine.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Behaviour, Change, Feature, Outcome, State, TypeSchema};
use kilter_provider::{
    AutoEdge, Claim, Context, Declaration, Effect, Footprint, Insync, Match, Mode, PathState, Placement, Predict,
    Provider, ProviderError, Query, Redactor, Relations, Scheduling, Scope, SideEffects, ValidationError, Watch,
    WatchSource, redacted_outcome,
};

use crate::file::atomic_rewrite::{self, AtomicRewrite};
use crate::file::lone;

const LINK: &str = "/etc/localtime";
const NAME_FILE: &str = "/etc/timezone";
const ZONES: &str = "/usr/share/zoneinfo/";
/// Rules of all zones, and their other names, in the source form of zic(8).
const RULES: &str = "/usr/share/zoneinfo/tzdata.zi";
/// Debian's packages with zones. Since Debian 13, the second one has former names such as US/Eastern.
const PACKAGES: [&str; 2] = ["tzdata", "tzdata-legacy"];

/// First bytes of a file with the rules of a zone (tzfile(5)).
const MAGIC: &[u8] = b"TZif";

const DESC: &str = "\
Time zone of the machine.

```yaml
resources:
  timezone[Europe/Berlin]: {}
```

A machine has one time zone, so kilter refuses a second `timezone`. kilter replaces the link `/etc/localtime`, and the \
content of `/etc/timezone` where that file exists, as on Debian. The zone must exist below `/usr/share/zoneinfo`: on \
Debian it comes from the package `tzdata`. Debian 13 has former names, such as `US/Eastern`, in the package \
`tzdata-legacy`.

Running programs keep the time zone that they have read at their start: let the resource `notify` services that need \
the new one.";

/// Provides the type `timezone`.
pub struct TimezoneProvider {
    root: PathBuf,
    turn: Mutex<()>,
}

impl Default for TimezoneProvider {
    fn default() -> TimezoneProvider {
        TimezoneProvider::new("/")
    }
}

impl TimezoneProvider {
    /// Creates a provider for the files below `root`.
    pub fn new(root: impl Into<PathBuf>) -> TimezoneProvider {
        TimezoneProvider { root: root.into(), turn: Mutex::new(()) }
    }

    fn path(&self, path: &str) -> String {
        self.root.join(path.trim_start_matches('/')).to_string_lossy().into_owned()
    }

    /// Returns the zone that the link names. A relative link begins with `../`.
    fn zone(&self) -> Option<EcoString> {
        let target = std::fs::read_link(self.path(LINK)).ok()?;
        let target = target.to_str()?;
        target.strip_prefix(ZONES).or_else(|| target.strip_prefix("..")?.strip_prefix(ZONES)).map(EcoString::from)
    }

    /// Returns the zone in the file with the name. None if there is no such file.
    fn name(&self) -> Result<Option<EcoString>, ProviderError> {
        let read =
            atomic_rewrite::read(&self.path(NAME_FILE)).map_err(|error| ProviderError::new(error.to_string()))?;
        Ok(read.map(|bytes| String::from_utf8_lossy(&bytes).trim().into()))
    }

    fn state(&self, name: EcoString) -> Result<State, ProviderError> {
        let mut attributes = Attributes::from_iter([("name", name.clone())]);
        if let Some(zone) = self.zone() {
            attributes.push("zone", zone);
        }
        if let Some(zone) = self.name()? {
            attributes.push("name_file", zone);
        }
        Ok(State::present(name, attributes))
    }

    /// Fails if the zone does not exist.
    fn exists(&self, zone: &str) -> Result<(), EcoString> {
        if !is_zone_name(zone) {
            return Err(eco_format!("{}", problem("zone", zone)));
        }
        let path = self.path(&format!("{ZONES}{zone}"));
        match std::fs::read(&path) {
            Ok(bytes) if bytes.starts_with(MAGIC) => Ok(()),
            Ok(_) => Err(eco_format!("{path} is not the file of a time zone")),
            Err(error) => {
                let hint = self.remedy(zone).unwrap_or_else(|| {
                    "names are as in `timedatectl list-timezones`; the package tzdata has them".into()
                });
                Err(eco_format!("there is no time zone `{zone}`: {path}: {error} ({hint})"))
            }
        }
    }

    /// Returns the remedy for a missing zone if its rules are on this machine.
    fn remedy(&self, zone: &str) -> Option<EcoString> {
        let rules = std::fs::read_to_string(self.path(RULES)).ok()?;
        let legacy = PACKAGES[1];
        let bare = ["posix/", "right/"].iter().find_map(|directory| zone.strip_prefix(directory));
        let name = bare.unwrap_or(zone);
        rules.lines().find_map(|line| {
            let mut words = line.split_ascii_whitespace();
            match (words.next()?, words.next()?, words.next()?) {
                ("L", target, link) if link == name && bare.is_none() => Some(eco_format!(
                    "`{zone}` is a former name of `{target}`: write that name, or install the package {legacy}"
                )),
                ("L", _, known) | ("Z", known, _) if known == name => Some(eco_format!("install the package {legacy}")),
                _ => None,
            }
        })
    }

    fn change(&self, cx: &Context<'_>, change: &Change<'_>) -> Result<Outcome, EcoString> {
        let should = change.should.ok_or("a machine always has a time zone: it cannot be removed")?;
        let Some(zone) = should.text("zone") else { return Ok(Outcome::done()) };
        self.exists(zone)?;
        let path = self.path(NAME_FILE);
        atomic_rewrite::rewritten(|| {
            let file = AtomicRewrite::open(&path)?;
            let new = format!("{zone}\n");
            if file.exists() && file.bytes() != new.as_bytes() {
                file.replace(new.as_bytes(), 0o644, cx)?;
            }
            Ok(())
        })?;
        if self.zone().as_deref() != Some(zone) {
            lone::link(&self.path(LINK), &format!("{ZONES}{zone}"), cx).map_err(|error| eco_format!("{error}"))?;
        }
        Ok(Outcome::done())
    }
}

fn schema() -> TypeSchema {
    TypeSchema::new("timezone", DESC)
        .attribute("name", "String[1]", Behaviour::Namevar, "Time zone: `Europe/Berlin`, `UTC`.")
        .attribute(
            "zone",
            "String[1]",
            Behaviour::Property,
            "Time zone, if the resource has another name: `Etc/UTC`. The default is the name.",
        )
        .attribute(
            "name_file",
            "String",
            Behaviour::ReadOnly,
            "Time zone in `/etc/timezone`, if that file exists: `Etc/UTC`.",
        )
        .features(&[Feature::Canonicalize, Feature::CustomInsync, Feature::SimpleGetFilter, Feature::SupportsNoop])
}

fn is_zone_name(zone: &str) -> bool {
    let is_part = |part: &str| {
        !matches!(part, "" | "." | "..")
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-_.".contains(&byte))
    };
    zone.len() < 256 && zone.split('/').all(is_part)
}

fn problem(attribute: &str, zone: &str) -> ValidationError {
    let problem = ValidationError::with(attribute, format!("`{zone}` is not the name of a time zone"));
    problem.hint("write a name such as Europe/Berlin or UTC")
}

impl Provider for TimezoneProvider {
    crate::builtin::describe!("timezone", "zoneinfo", schema, [scheduling, relations, predict, watch]);

    fn get(&self, _: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        match query {
            Query::All => match self.zone().map_or_else(|| self.name(), |zone| Ok(Some(zone)))? {
                Some(zone) => Ok(vec![self.state(zone)?]),
                None => Ok(Vec::new()),
            },
            Query::Named(wanted) => wanted.iter().map(|one| self.state(one.name.clone())).collect(),
        }
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let made = |change: &Change<'_>| {
            let zone = change.should.and_then(|should| should.text("zone"));
            let outcome = match (mode, zone) {
                (Mode::Apply, _) => self.change(cx, change),
                (Mode::Preview, Some(zone)) if !cx.preview_context().may_change_before(change.name) => {
                    self.exists(zone).map(|()| Outcome::done())
                }
                (Mode::Preview, _) => Ok(Outcome::done()),
            };
            let outcome = outcome.unwrap_or_else(Outcome::failed);
            redacted_outcome(change, outcome)
        };
        changes.iter().map(made).collect()
    }

    fn validate(&self, name: &str, should: &Attributes, deferred: &[&str]) -> Vec<ValidationError> {
        let given = match should.text("zone") {
            Some(zone) => Some(("zone", zone)),
            None if deferred.contains(&"zone") => None,
            None => Some(("name", name)),
        };
        let invalid = given.filter(|(_, zone)| !is_zone_name(zone));
        invalid.map(|(attribute, zone)| Redactor::of(should).problem(problem(attribute, zone))).into_iter().collect()
    }

    fn canonicalize(&self, _: &Context<'_>, resources: &mut [Declaration<'_>]) -> Vec<Vec<ValidationError>> {
        for Declaration { name, should } in resources.iter_mut() {
            if should.get("zone").is_none() {
                should.set("zone", EcoString::clone(name));
            }
        }
        vec![Vec::new(); resources.len()]
    }

    fn insync(&self, _: &Context<'_>, attribute: &str, is: &State, should: &Attributes) -> Insync {
        let zone = should.text("zone");
        match (attribute, is.attributes.text("name_file")) {
            ("zone", Some(name)) if is.attributes.text("zone") == zone && Some(name) != zone => {
                Insync::Differs(Some(eco_format!("{NAME_FILE} has `{name}`")))
            }
            _ => Insync::Default,
        }
    }
}

impl Scheduling for TimezoneProvider {
    fn placement(&self, _: &Attributes) -> Placement {
        Placement::Inline
    }

    fn set_placement(&self, _: &Attributes) -> Placement {
        Placement::Worker
    }
}

impl Relations for TimezoneProvider {
    fn claims(&self, _: &str, _: &Attributes, say: &mut dyn FnMut(Claim<'_>)) {
        say(Claim::whole(LINK));
    }

    fn auto_edges(&self, name: &str, should: &Attributes, add: &mut dyn FnMut(AutoEdge<'_>)) {
        let zone = format!("{ZONES}{}", should.text("zone").unwrap_or(name));
        add(AutoEdge { by: Match::PathOrAncestor, ..AutoEdge::require("file", &zone) });
        PACKAGES.iter().for_each(|package| add(AutoEdge::require("package", package)));
        [LINK, NAME_FILE].iter().for_each(|path| add(AutoEdge::require("file", path)));
    }
}

impl Predict for TimezoneProvider {
    fn side_effects(&self, _: &Attributes) -> SideEffects {
        SideEffects::Own
    }

    fn effects(&self, _: &Context<'_>, _: &Change<'_>) -> Option<Vec<Effect>> {
        let unknown = |path: &str| Effect::Path { path: path.into(), node: PathState::Unknown };
        Some([LINK, NAME_FILE].map(unknown).into())
    }

    fn footprint(&self, _: &str, _: &Attributes, say: &mut dyn FnMut(Footprint<'_>)) {
        [LINK, NAME_FILE].iter().for_each(|path| say(Footprint::Writes { path, is_whole: false }));
    }
}

impl Watch for TimezoneProvider {
    fn watches(&self, _: &str, _: &Attributes) -> Vec<WatchSource> {
        [LINK, NAME_FILE].map(|path| WatchSource::Path { path: self.path(path).into(), scope: Scope::This }).into()
    }
}

#[cfg(test)]
mod tests {
    use kilter_model::{Difference, Value};
    use kilter_provider::{Wanted, check};

    use super::*;

    struct TimezoneFixture {
        root: tempfile::TempDir,
        provider: TimezoneProvider,
    }

    impl TimezoneFixture {
        fn new() -> TimezoneFixture {
            let root = tempfile::tempdir().unwrap();
            for directory in ["etc", "usr/share/zoneinfo/Europe", "usr/share/zoneinfo/Etc"] {
                std::fs::create_dir_all(root.path().join(directory)).unwrap();
            }
            for zone in ["Europe/Berlin", "Etc/UTC"] {
                std::fs::write(root.path().join("usr/share/zoneinfo").join(zone), "TZif2").unwrap();
            }
            std::fs::write(root.path().join("usr/share/zoneinfo/zone.tab"), "# text").unwrap();
            let provider = TimezoneProvider::new(root.path());
            TimezoneFixture { root, provider }
        }

        fn link(&self) -> String {
            std::fs::read_link(self.root.path().join("etc/localtime")).unwrap().to_str().unwrap().to_owned()
        }

        fn differences(&self, zone: &str) -> Vec<Difference> {
            let (name, should) = (zone.into(), Attributes::from_iter([("zone", zone)]));
            let wanted = Wanted::new(&name, Some(&should));
            check(&self.provider, &Context::empty(), &[wanted]).remove(0).unwrap().differences
        }

        fn set(&self, zone: &str, mode: Mode) -> Outcome {
            let (name, should) = (zone.into(), Attributes::from_iter([("zone", Value::from(zone))]));
            let is = State::absent(EcoString::clone(&name));
            let change = Change::new(&name, &is, Some(&should), &[]);
            self.provider.set(&Context::empty(), &[change], mode).remove(0)
        }
    }

    #[test]
    fn link_and_file_change_together() {
        let machine = TimezoneFixture::new();
        let file = machine.root.path().join("etc/timezone");
        assert!(machine.set("Etc/UTC", Mode::Apply).is_done());
        assert!(!file.exists(), "a machine without /etc/timezone gets none");
        std::fs::write(&file, "Etc/UTC\n").unwrap();
        assert!(machine.set("Europe/Berlin", Mode::Apply).is_done());
        assert_eq!(machine.link(), "/usr/share/zoneinfo/Europe/Berlin");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "Europe/Berlin\n");
        assert_eq!(machine.differences("Europe/Berlin"), []);
        std::fs::write(&file, "Etc/UTC\n").unwrap();
        let differences = machine.differences("Europe/Berlin");
        assert_eq!(differences[0].message.as_deref(), Some("/etc/timezone has `Etc/UTC`"));
        assert!(machine.set("Europe/Berlin", Mode::Apply).is_done());
        assert_eq!(machine.differences("Europe/Berlin"), []);
    }

    #[test]
    fn relative_link_and_copy_are_understood() {
        let machine = TimezoneFixture::new();
        let link = machine.root.path().join("etc/localtime");
        std::os::unix::fs::symlink("../usr/share/zoneinfo/Etc/UTC", &link).unwrap();
        assert_eq!(machine.differences("Etc/UTC"), []);
        std::fs::remove_file(&link).unwrap();
        std::fs::write(&link, "TZif2").unwrap();
        assert_eq!(machine.differences("Etc/UTC").len(), 1);
        assert!(machine.set("Etc/UTC", Mode::Apply).is_done());
        assert_eq!(machine.link(), "/usr/share/zoneinfo/Etc/UTC");
    }

    #[test]
    fn former_name_without_a_file_names_the_package_and_the_present_name() {
        let machine = TimezoneFixture::new();
        let rules = "# version 2026f\nR C 1 1 0 ...\nZ America/New_York -4:56:2 - LMT\nL America/New_York US/Eastern\n";
        std::fs::write(machine.root.path().join("usr/share/zoneinfo/tzdata.zi"), rules).unwrap();
        for mode in [Mode::Preview, Mode::Apply] {
            let outcome = format!("{:?}", machine.set("US/Eastern", mode));
            let hint = "`US/Eastern` is a former name of `America/New_York`: write that name, or install the package \
                        tzdata-legacy";
            assert!(outcome.contains(hint), "{outcome}");
        }
        for zone in ["right/US/Eastern", "posix/America/New_York"] {
            let outcome = format!("{:?}", machine.set(zone, Mode::Apply));
            assert!(outcome.contains("(install the package tzdata-legacy)"), "{outcome}");
        }
        let outcome = format!("{:?}", machine.set("US/Eastem", Mode::Apply));
        assert!(outcome.contains("the package tzdata has them"), "{outcome}");
    }

    #[test]
    fn unknown_zone_is_refused() {
        let machine = TimezoneFixture::new();
        for mode in [Mode::Preview, Mode::Apply] {
            let outcome = format!("{:?}", machine.set("Europe/Berlim", mode));
            assert!(outcome.contains("there is no time zone `Europe/Berlim`"), "{outcome}");
            let outcome = format!("{:?}", machine.set("zone.tab", mode));
            assert!(outcome.contains("is not the file of a time zone"), "{outcome}");
        }
        for name in ["../../etc/shadow", "/etc/x", "a//b", "", "Europe/Ber lin", "Europe/"] {
            assert!(!machine.provider.validate(name, &Attributes::new(), &[]).is_empty(), "{name}");
        }
        for name in ["UTC", "Etc/GMT+5", "America/Argentina/Buenos_Aires", "posixrules"] {
            assert!(machine.provider.validate(name, &Attributes::new(), &[]).is_empty(), "{name}");
        }
    }
}
