//! The type `selboolean`: booleans of SELinux.

use std::path::PathBuf;
use std::time::Duration;

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Behaviour, Change, Feature, Outcome, State, TypeSchema, Value};
use kilter_process::Invocation;
use kilter_provider::{
    AutoEdge, Context, Mode, POLL, Predict, Provider, ProviderError, Query, Relations, SideEffects, Suitability,
    ValidationError, Watch, WatchSource, redacted_outcome,
};

use crate::accounts::System;
use crate::tool;

/// Directory of the booleans of the kernel: a file of each with its current and its pending value.
const BOOLEANS: &str = "sys/fs/selinux/booleans";

/// Maximum duration of setsebool(8). With `-P` it builds the policy again, which takes seconds to minutes.
const DEADLINE: Duration = Duration::from_secs(600);

const DESC: &str = "\
Booleans of SELinux: switches in the policy of the machine.

```yaml
resources:
  selboolean[httpd_can_network_connect]:
    value: on
    persistent: true
```

With `persistent: true`, kilter changes the value now and for the next boots. Without it, the value returns to that of \
the policy at the next boot. kilter compares the current value: a boolean that has it already is not changed, and not \
made persistent either. kilter changes all booleans of a batch by one call of `setsebool`, because each persistent \
change builds the policy again.

The type is not suitable if SELinux is not enabled. kilter checks the value every five minutes, because the kernel \
does not report a change.

**Automatic edges.** The resource runs after the declared package `policycoreutils`.";

fn schema() -> TypeSchema {
    TypeSchema::new("selboolean", DESC)
        .attribute("name", "String[1]", Behaviour::Namevar, "Name of the boolean: `httpd_can_network_connect`.")
        .attribute("value", "Enum[on, off]", Behaviour::Property, "State of the boolean: `on`, `off`.")
        .required()
        .attribute("persistent", "Boolean", Behaviour::Parameter, "True to keep a changed value at the next boots.")
        .default(Value::Boolean(false))
        .features(&[Feature::SimpleGetFilter, Feature::SupportsNoop])
}

/// Provides the type `selboolean`.
pub struct SelbooleanProvider {
    system: System,
}

impl SelbooleanProvider {
    /// Creates a provider for a system.
    pub fn new(system: System) -> SelbooleanProvider {
        SelbooleanProvider { system }
    }

    fn directory(&self) -> PathBuf {
        self.system.root().join(BOOLEANS)
    }

    fn state(&self, name: &EcoString) -> State {
        let unknown = State { is_unknown: true, ..State::absent(name.clone()) };
        if problem(name).is_some() {
            return unknown;
        }
        let path = self.directory().join(name.as_str());
        match std::fs::read_to_string(&path) {
            Ok(text) => {
                let value = if text.starts_with('1') { "on" } else { "off" };
                State::present(name.clone(), Attributes::from_iter([("name", name.as_str()), ("value", value)]))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => unknown,
            Err(error) => {
                let why = eco_format!("cannot read {}: {error}", path.display());
                State { unreadable: Some(why), ..State::absent(name.clone()) }
            }
        }
    }

    /// Returns the problem of a change.
    fn refused(&self, change: &Change<'_>) -> Option<EcoString> {
        let name = change.name;
        let value = change.should.and_then(|should| should.text("value"));
        if let Some(problem) = problem(name) {
            return Some(eco_format!("{problem}"));
        }
        if !matches!(value, Some("on" | "off")) {
            return Some("a boolean cannot be removed: declare `value: on` or `value: off`".into());
        }
        let is_missing = !self.directory().join(name.as_str()).exists();
        is_missing.then(|| eco_format!("the policy has no boolean {name}: getsebool -a lists them"))
    }

    /// Changes booleans by one call.
    fn apply(&self, cx: &Context<'_>, changes: &[&Change<'_>], is_persistent: bool) -> Result<(), EcoString> {
        let pair = |change: &&Change<'_>| {
            let is_on = change.should.and_then(|should| should.text("value")) == Some("on");
            format!("{}={}", change.name, u8::from(is_on))
        };
        let option = is_persistent.then(|| "-P".to_owned());
        let words = option.into_iter().chain(changes.iter().map(pair));
        tool::run(self.system.runner(), cx, Invocation::new("setsebool").args(words), DEADLINE)
    }

    fn change(&self, cx: &Context<'_>, changes: &[Change<'_>]) -> Vec<Outcome> {
        let mut outcomes: Vec<Outcome> =
            changes.iter().map(|one| self.refused(one).map_or_else(Outcome::done, Outcome::failed)).collect();
        for is_persistent in [false, true] {
            let is_meant = |change: &Change<'_>| {
                change.should.and_then(|should| should.get_bool("persistent")).unwrap_or_default() == is_persistent
            };
            let of_call: Vec<usize> =
                (0..changes.len()).filter(|at| outcomes[*at].failure.is_none() && is_meant(&changes[*at])).collect();
            let meant: Vec<&Change<'_>> = of_call.iter().map(|at| &changes[*at]).collect();
            if !meant.is_empty()
                && let Err(why) = self.apply(cx, &meant, is_persistent)
            {
                of_call.iter().for_each(|at| outcomes[*at] = Outcome::failed(why.clone()));
            }
        }
        outcomes
    }
}

fn problem(name: &str) -> Option<ValidationError> {
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
    let problem = || ValidationError::with("name", eco_format!("`{name}` is not the name of a boolean"));
    (!is_name || name.starts_with(['.', '-'])).then(|| problem().hint("write the name as `getsebool -a` shows it"))
}

impl Provider for SelbooleanProvider {
    crate::builtin::describe!("selboolean", "selinuxfs", schema, [relations, predict, watch]);

    fn suitable(&self) -> Suitability {
        match self.directory().is_dir() {
            true => Suitability::Suitable,
            false => Suitability::Unsuitable(eco_format!("SELinux is not enabled: there is no /{BOOLEANS}")),
        }
    }

    fn get(&self, _: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        match query {
            Query::Named(wanted) => Ok(wanted.iter().map(|one| self.state(one.name)).collect()),
            Query::All => {
                let entries = std::fs::read_dir(self.directory());
                let entries = entries.map_err(|error| {
                    ProviderError::new(eco_format!("cannot read {}: {error}", self.directory().display()))
                })?;
                let names = entries.filter_map(|entry| Some(EcoString::from(entry.ok()?.file_name().to_str()?)));
                let mut states: Vec<State> = names.map(|name| self.state(&name)).collect();
                states.sort_by(|one, other| one.name.cmp(&other.name));
                Ok(states)
            }
        }
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        let preview = |change| match self.refused(change) {
            // An earlier resource may load a module of the policy.
            Some(why) if !cx.preview_context().may_change_before(change.name) => Outcome::failed(why),
            _ => Outcome::done(),
        };
        let outcomes = match mode {
            Mode::Apply => self.change(cx, changes),
            Mode::Preview => changes.iter().map(preview).collect(),
        };
        outcomes.into_iter().zip(changes).map(|(outcome, change)| redacted_outcome(change, outcome)).collect()
    }

    fn validate(&self, name: &str, _: &Attributes, _: &[&str]) -> Vec<ValidationError> {
        problem(name).into_iter().collect()
    }
}

impl Relations for SelbooleanProvider {
    fn auto_edges(&self, _: &str, _: &Attributes, add: &mut dyn FnMut(AutoEdge<'_>)) {
        add(AutoEdge::require("package", "policycoreutils"));
    }
}

impl Predict for SelbooleanProvider {
    fn side_effects(&self, _: &Attributes) -> SideEffects {
        SideEffects::Own
    }
}

impl Watch for SelbooleanProvider {
    fn watches(&self, _: &str, _: &Attributes) -> Vec<WatchSource> {
        vec![WatchSource::Poll(POLL)]
    }
}
