//! The type `exported`: resources that this machine declares for other machines.

use std::sync::Arc;

use ecow::{EcoString, eco_format};
use kilter_model::{
    AttributeName, Attributes, Behaviour, Change, Feature, Outcome, ResourceRef, State, TypeSchema, Value,
    from_canonical_json, is_machine, to_canonical_json,
};
use kilter_provider::{
    Context, Declaration, Level, Mode, Placement, Provider, ProviderError, Query, Revert, RevertTo, Scheduling, Scope,
    Shared, ValidationError, Wanted, Watch, WatchSource, World,
};
use rustc_hash::FxHashMap;
use serde_json::{Value as Json, json};

/// Key prefix of all exports.
const EXPORTED: &str = "exported";

/// Number of resources from which all exports are read at once.
const READ_ALL_THRESHOLD: usize = 8;

const DESC: &str = "\
Resources that this machine declares for other machines, which collect them.

```yaml
resources:
  host[web1]:
    ip: 10.0.0.7
    meta: { export: [\"*\"] }
```

The metaparameter `export` adds one such resource per listed machine, or one for all machines (`*`), which runs after \
the resource itself: \
`exported[host[web1] for *]`. It contains the declaration, including outputs of other resources. kilter removes an \
export when its resource is no longer declared. `--world` names the store of the exports. kilter does not encrypt \
exports, so secrets are an error. `kilter get exported` lists the exports of all machines.";

fn schema() -> TypeSchema {
    TypeSchema::new("exported", DESC)
        .attribute("ensure", "Enum[present, absent]", Behaviour::Property, "State of the export: `present`, `absent`.")
        .default("present")
        .attribute(
            "name",
            "String[1]",
            Behaviour::Namevar,
            "Resource and collecting machine: `host[web1] for *`, `file[/etc/motd] for web2`. The suffix ` from web1` \
             names the exporting machine; the default is this one. Exports of other machines are read-only.",
        )
        .attribute("attributes", "Hash[String[1], Any]", Behaviour::Property, "Declared attributes of the resource.")
        .attribute("world", "String", Behaviour::Parameter, "Store of the export; must be the one of `--world`.")
        .attribute("from", "String", Behaviour::ReadOnly, "Exporting machine.")
        .features(&[Feature::Canonicalize, Feature::SimpleGetFilter, Feature::SupportsNoop])
}

/// Provides the type `exported`.
pub struct ExportedProvider {
    world: Arc<dyn World>,
}

impl ExportedProvider {
    /// Creates the provider for a world.
    pub fn new(world: Arc<dyn World>) -> ExportedProvider {
        ExportedProvider { world }
    }

    /// Returns all exports. Calls `lost` with the error of each export that cannot be read and has no valid key.
    fn all(&self, lost: &mut dyn FnMut(EcoString)) -> Result<Vec<State>, ProviderError> {
        let found = self.world.below(&[EXPORTED]).map_err(|error| ProviderError::new(error.0))?;
        let state = |Shared { key, text }: Shared| {
            // Other keys belong to other data.
            let [to, from, type_name, title] = &key[..] else {
                text.err().into_iter().for_each(|why| lost(why.0));
                return None;
            };
            let name = ExportName { resource: ResourceRef::new(type_name.as_str(), title.as_str()), to, from }.text();
            Some(match text {
                Ok(text) => state(name, from, &text),
                Err(why) => State { unreadable: Some(why.0), ..State::absent(name) },
            })
        };
        Ok(found.into_iter().filter_map(state).collect())
    }

    fn one(&self, name: &EcoString) -> Result<State, ProviderError> {
        let Ok(parsed) = ExportName::parse(name, self.world.host()) else { return Ok(State::absent(name.clone())) };
        let text = self.world.read(&parsed.key()).map_err(|error| ProviderError::new(error.0))?;
        Ok(text.map_or_else(|| State::absent(name.clone()), |text| state(name.clone(), parsed.from, &text)))
    }

    fn put(&self, change: &Change<'_>) -> Result<(), EcoString> {
        let host = self.world.host();
        let name = ExportName::parse(change.name, host)?;
        if name.from != host {
            return Err(eco_format!("only {}, which exports it, can change it", name.from));
        }
        let none = Attributes::new();
        let should = change.should.unwrap_or(&none);
        if change.should.is_none() || should.text("ensure") == Some("absent") {
            return self.world.remove(&name.key()).map_err(|error| error.0);
        }
        // A value from another resource has not been validated before.
        if let Some(problem) = secret(should) {
            return Err(problem.to_string().into());
        }
        let attributes = should.get("attributes").map_or_else(|| json!({}), to_canonical_json);
        let record =
            json!({ "resource": name.resource.to_string(), "from": host, "to": name.to, "attributes": attributes });
        self.world.write(&name.key(), &format!("{record:#}\n")).map_err(|error| error.0)
    }
}

/// Name of an exported resource.
struct ExportName<'a> {
    resource: ResourceRef,
    to: &'a str,
    from: &'a str,
}

impl<'a> ExportName<'a> {
    /// Parses `type[title] for TO`, followed by ` from FROM` if the exporter is not this `host`.
    fn parse(name: &'a str, host: &'a str) -> Result<ExportName<'a>, EcoString> {
        let shape =
            || eco_format!("`{name}` is not of the form `TYPE[TITLE] for MACHINE`, such as `file[/etc/motd] for *`");
        let (resource, rest) = name.rsplit_once("] for ").ok_or_else(shape)?;
        let (to, from) = rest.split_once(" from ").unwrap_or((rest, host));
        let resource: ResourceRef = format!("{resource}]").parse().map_err(|_| shape())?;
        match [to, from].into_iter().find(|name| !is_machine(name)) {
            Some(odd) => Err(eco_format!("`{odd}` is not a machine name")),
            None => Ok(ExportName { resource, to, from }),
        }
    }

    fn text(&self) -> EcoString {
        let ExportName { resource, to, from } = self;
        eco_format!("{resource} for {to} from {from}")
    }

    fn key(&self) -> [&str; 5] {
        [EXPORTED, self.to, self.from, self.resource.type_name.as_str(), self.resource.title.as_str()]
    }
}

/// Returns the state of an export. An unreadable export counts as exported without attributes, so that it is written
/// again.
fn state(name: EcoString, from: &str, text: &str) -> State {
    let record: Json = serde_json::from_str(text).unwrap_or_default();
    let attributes = record.get("attributes").and_then(|attributes| from_canonical_json(attributes).ok());
    let mut found = Attributes::with_capacity(4);
    found.push("ensure", "present");
    found.push("name", name.clone());
    if let Some(attributes) = attributes.filter(|attributes| matches!(attributes, Value::Hash(_))) {
        found.push("attributes", attributes);
    }
    found.push("from", EcoString::from(from));
    State::present(name, found)
}

fn secret(should: &Attributes) -> Option<ValidationError> {
    let is_secret = should.get("attributes").is_some_and(Value::holds_sensitive);
    let problem = || ValidationError::with("attributes", "a secret is not exported");
    is_secret.then(|| problem().hint("other machines can read exports: remove `export` or the secret"))
}

impl Provider for ExportedProvider {
    crate::builtin::describe!("exported", "world", schema, [scheduling, watch, revert], InProcess: [predict]);

    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        let wanted = match query {
            Query::All => {
                let tell = |name: &str, why: &str| cx.log(Level::Warning, "exported", name, why);
                let mut all = self.all(&mut |why| tell("", &why))?;
                // An unreadable export must not hide the others.
                all.retain(|one| {
                    let why = one.unreadable.as_ref();
                    why.inspect(|why| tell(&one.name, why)).is_none()
                });
                return Ok(all);
            }
            Query::Named(wanted) if wanted.len() < READ_ALL_THRESHOLD => wanted,
            Query::Named(wanted) => {
                let mut is_all = true;
                let all = self.all(&mut |_| is_all = false)?.into_iter().map(|one| (one.name.clone(), one));
                let mut all: FxHashMap<EcoString, State> = all.collect();
                let one = |wanted: &Wanted<'_>| match all.remove(wanted.name) {
                    Some(state) => Ok(state),
                    None if is_all => Ok(State::absent(wanted.name.clone())),
                    // It may be an unreadable export.
                    None => self.one(wanted.name),
                };
                return wanted.iter().map(one).collect();
            }
        };
        wanted.iter().map(|wanted| self.one(wanted.name)).collect()
    }

    fn set(&self, _: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        let put = |change: &Change<'_>| match mode {
            Mode::Preview => Outcome::done(),
            Mode::Apply => self.put(change).map_or_else(Outcome::failed, |()| Outcome::done()),
        };
        changes.iter().map(put).collect()
    }

    fn validate(&self, name: &str, should: &Attributes, _: &[&str]) -> Vec<ValidationError> {
        let host = self.world.host();
        let is_others = |name: ExportName<'_>| {
            let problem =
                || ValidationError::with("name", eco_format!("{} exports it, but this machine is {host}", name.from));
            (name.from != host).then(problem)
        };
        let odd = ExportName::parse(name, host).map_or_else(|why| Some(ValidationError::with("name", why)), is_others);
        let elsewhere = should.text("world").filter(|world| *world != self.world.id()).map(|world| {
            ValidationError::with(
                "world",
                eco_format!("it was exported to {world}, but this world is {}", self.world.id()),
            )
        });
        odd.into_iter().chain(elsewhere).chain(secret(should)).collect()
    }

    /// Adds the exporter to the name, so that it is complete on every machine.
    fn canonicalize(&self, _: &Context<'_>, resources: &mut [Declaration<'_>]) -> Vec<Vec<ValidationError>> {
        let host = self.world.host();
        let canonicalize = |one: &mut Declaration<'_>| {
            let name = one.should.text("name").map_or_else(|| one.name.clone(), EcoString::from);
            match ExportName::parse(&name, host) {
                Ok(parsed) => {
                    one.should.set(AttributeName::from("name"), Value::String(parsed.text()));
                    Vec::new()
                }
                Err(why) => vec![ValidationError::with("name", why)],
            }
        };
        resources.iter_mut().map(canonicalize).collect()
    }
}

impl Scheduling for ExportedProvider {
    fn placement(&self, _: &Attributes) -> Placement {
        Placement::Worker
    }
}

impl Watch for ExportedProvider {
    fn watches(&self, name: &str, _: &Attributes) -> Vec<WatchSource> {
        self.world.follow();
        let name = ExportName::parse(name, self.world.host()).ok();
        let path = name.map(|name| WatchSource::Path { path: self.world.watched(&name.key()), scope: Scope::This });
        path.into_iter().collect()
    }
}

impl Revert for ExportedProvider {
    fn revert_to(&self) -> RevertTo {
        RevertTo::Absence
    }

    /// Returns the world, because a saved state is valid for its world only.
    fn revert_scope(&self) -> Option<String> {
        Some(self.world.id())
    }

    /// Returns the state to restore when the resource is no longer declared: absent, independently of the earlier
    /// state.
    fn revert_state(&self, _: &Attributes, _: &State) -> Result<Attributes, EcoString> {
        let world = EcoString::from(self.world.id());
        Ok(Attributes::from_iter([("ensure", Value::from("absent")), ("world", Value::String(world))]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn export_name_has_resource_target_and_source() {
        for (name, expected) in [
            ("file[/etc/motd] for *", ("file[/etc/motd]", "*", "here")),
            ("file[a] for b] for web2", ("file[a] for b]", "web2", "here")),
            ("host[web1] for * from web1.example", ("host[web1]", "*", "web1.example")),
        ] {
            let ExportName { resource, to, from } = ExportName::parse(name, "here").unwrap();
            assert_eq!((resource.to_string().as_str(), to, from), expected);
            let full = ExportName { resource, to, from }.text();
            assert!(full.starts_with(name) && ExportName::parse(&full, "there").unwrap().from == from, "{full}");
        }
        for odd in ["file[x]", "x for *", "file[] for *", "file[x] for ", "file[x] for a b", "file[x] for * from ../x"]
        {
            assert!(ExportName::parse(odd, "here").is_err(), "{odd}");
        }
    }
}
