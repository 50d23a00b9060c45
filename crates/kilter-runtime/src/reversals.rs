//! What resources were before they were changed, to be restored when they are declared no longer (`reverse`).
//!
//! It is kept in the state directory, a file each, mode 0600 and sealed with the key of the state directory: what is
//! replaced may have been a secret. It belongs to the manifests that declared the resource: others that do not declare it
//! restore nothing.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use ecow::{EcoString, eco_format};
use kilter_model::{
    Resource, ResourceRef, SourceId, Span, State, Title, Value, from_canonical_json, to_canonical_json_clear,
};
use kilter_provider::{Context, Provider, Query, Wanted};
use serde_json::{Map, Value as Json, json};

use crate::records;
use crate::sealing::{SealingKey, bound};
use crate::state_dir::StateDir;

/// What else is sealed or bound with the key is none of these.
const PURPOSE: &str = "kilter reversals 1";

/// What the resources of some manifests were before.
#[derive(Clone, Debug)]
pub struct Reversals {
    state: PathBuf,
    directory: PathBuf,
    /// Whose they are.
    origin: EcoString,
}

impl Reversals {
    /// Those of the manifests of this [origin](kilter_model::Catalog::origin); none where there is no origin.
    pub fn of(state_dir: &StateDir, origin: &str) -> Option<Reversals> {
        let name = format!("{:08x}", crc32fast::hash(origin.as_bytes()));
        let directory = state_dir.path().join("reversals").join(name);
        (!origin.is_empty()).then(|| Reversals { state: state_dir.path().to_owned(), directory, origin: origin.into() })
    }

    /// Whether anything was ever kept.
    pub fn exists(&self) -> bool {
        self.directory.is_dir()
    }

    /// Where something is kept, in order.
    pub(crate) fn paths(&self) -> BTreeSet<PathBuf> {
        let Ok(entries) = fs::read_dir(&self.directory) else { return BTreeSet::new() };
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| !records::is_begun(path)).collect()
    }

    /// What is kept and is of no resource that `is_declared`, by its type and its name on the system: to be declared in its
    /// place. With it what cannot be read of what is kept, each with its reason.
    pub fn pending(&self, is_declared: &dyn Fn(&str, &str) -> bool) -> (Vec<Resource>, Vec<EcoString>) {
        let (mut pending, mut unreadable) = (Vec::new(), Vec::new());
        for path in self.paths() {
            match self.read(&path) {
                Ok(resource) if is_declared(resource.reference.type_name.as_str(), &resource.name) => {}
                Ok(resource) => pending.push(resource),
                Err(why) => unreadable.push(eco_format!("{}: {why}", path.display())),
            }
        }
        (pending, unreadable)
    }

    fn read(&self, path: &Path) -> Result<Resource, EcoString> {
        let damaged = || EcoString::from("it is damaged");
        if !fs::symlink_metadata(path).is_ok_and(|found| found.is_file()) {
            return Err("it is no file".into());
        }
        let bytes = records::read(path).map_err(|error| eco_format!("it cannot be read: {error}"))?;
        let record: Json = serde_json::from_slice(&bytes).map_err(|_| damaged())?;
        let text = |key: &str| record.get(key).and_then(Json::as_str).ok_or_else(damaged);
        let (type_name, name, provider) = (text("type")?, text("name")?, text("provider")?);
        let key = SealingKey::of(&self.state).map_err(|error| eco_format!("it is sealed: {error}"))?;
        let opened = key.open(text("sealed")?, &self.bound_to(type_name, name, provider));
        let opened = opened.ok_or("it was sealed with another key, is of other manifests, or was changed")?;
        let before: Json = serde_json::from_slice(&opened).map_err(|_| damaged())?;
        let nowhere = Span { source: SourceId(0), start: 0, end: 0 };
        let reference = ResourceRef { type_name: type_name.into(), title: Title::from(EcoString::from(name)) };
        let mut resource = Resource::new(reference, name, nowhere);
        for (part, is_secret) in [("clear", false), ("secret", true)] {
            for (name, value) in before.get(part).and_then(Json::as_object).ok_or_else(damaged)? {
                let value = from_canonical_json(value).map_err(|_| damaged())?;
                resource.attributes.push(name.as_str(), if is_secret { Value::sensitive(value) } else { value });
            }
        }
        let particulars = resource.particulars_mut();
        particulars.provider = Some(provider.into());
        particulars.is_reversal = true;
        Ok(resource)
    }

    /// Keeps what a resource is, unless something is kept of it already.
    ///
    /// # Errors
    /// When it cannot be kept, or could not be restored. Then it is not to be changed.
    pub(crate) fn keep(&self, cx: &Context<'_>, provider: &dyn Provider, resource: &Resource) -> Result<(), EcoString> {
        let path = self.path(provider, resource);
        if path.exists() {
            return self.read(&path).map(drop).map_err(|why| eco_format!("{}: {why}", path.display()));
        }
        let wanted = Wanted {
            name: &resource.name,
            namevars: Some(&resource.attributes),
            should: None,
            received: &[],
            noop: false,
        };
        let found = provider.get(cx, Query::Named(&[wanted])).map_err(|error| error.message)?;
        let is = found.into_iter().find(|state| state.name == resource.name);
        let is = is.unwrap_or_else(|| State::absent(resource.name.clone()));
        let before = provider.before(&resource.attributes, &is)?;
        let key = SealingKey::made(&self.state).map_err(|error| eco_format!("{error}"))?;
        let part = |is_secret: bool| -> Map<String, Json> {
            let of_part = before.iter().filter(|(_, value)| value.holds_sensitive() == is_secret);
            of_part.map(|(name, value)| (name.to_string(), to_canonical_json_clear(value))).collect()
        };
        let parts = json!({ "clear": part(false), "secret": part(true) });
        let (type_name, name) = (resource.reference.type_name.as_str(), resource.name.as_str());
        let sealed = key.seal(&parts.to_string(), &self.bound_to(type_name, name, provider.name()));
        let sealed = sealed.map_err(|error| eco_format!("{error}"))?;
        let record = json!({ "type": type_name, "name": name, "provider": provider.name(), "sealed": sealed });
        let written = records::write(&path, &format!("{record}\n")).and_then(|()| records::sync_directory(&path));
        written.map_err(|error| eco_format!("cannot write {}: {error}", path.display()))
    }

    /// What a resource was is restored, or nobody wants it to be any more.
    pub(crate) fn forget(&self, provider: &dyn Provider, resource: &Resource) {
        records::remove(&self.path(provider, resource));
    }

    /// Where it is kept what a resource was.
    pub(crate) fn path(&self, provider: &dyn Provider, resource: &Resource) -> PathBuf {
        let (type_name, name) = (resource.reference.type_name.as_str(), resource.name.as_str());
        let of_place = provider.before_where().map(|place| format!(" in {place}")).unwrap_or_default();
        records::path(&self.directory, &format!("{type_name}[{name}]{of_place}"))
    }

    /// It is nothing as what another resource was, or of other manifests.
    fn bound_to(&self, type_name: &str, name: &str, provider: &str) -> Vec<u8> {
        bound([PURPOSE, &self.origin, type_name, name, provider])
    }
}
