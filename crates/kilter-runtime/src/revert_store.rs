//! Saved pre-change state of resources with `reverse`, restored when a resource is no longer declared.
//!
//! The state directory has a file for each resource, of mode 0600 and encrypted with the key of the state
//! directory, because the replaced state may be secret. A saved state belongs to the manifests that declared the
//! resource. Other manifests never restore it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use ecow::{EcoString, eco_format};
use kilter_model::{Resource, ResourceRef, SourceId, Span, Title, Value, from_canonical_json, to_canonical_json_clear};
use kilter_provider::{Context, Provider, Wanted, check};
use serde_json::{Map, Value as Json, json};

use crate::pending_change::PendingChange;
use crate::records;
use crate::sealing::{SealingKey, bound};
use crate::state_dir::StateDir;

/// Domain of the encryption, which separates saved states from other uses of the key.
const PURPOSE: &str = "kilter reversals 1";

/// Saved states of the resources of some manifests.
#[derive(Clone, Debug)]
pub struct RevertStore {
    state: PathBuf,
    directory: PathBuf,
    /// Origin of these manifests.
    origin: EcoString,
}

impl RevertStore {
    /// Returns the saved states of manifests with this [origin](kilter_model::Catalog::origin); none without an
    /// origin.
    pub fn of(state_dir: &StateDir, origin: &str) -> Option<RevertStore> {
        let name = format!("{:08x}", crc32fast::hash(origin.as_bytes()));
        let directory = state_dir.path().join("reversals").join(name);
        (!origin.is_empty()).then(|| RevertStore {
            state: state_dir.path().to_owned(),
            directory,
            origin: origin.into(),
        })
    }

    /// Returns true if a state was ever saved.
    pub fn exists(&self) -> bool {
        self.directory.is_dir()
    }

    /// Returns the files in order.
    pub(crate) fn paths(&self) -> BTreeSet<PathBuf> {
        let Ok(entries) = fs::read_dir(&self.directory) else { return BTreeSet::new() };
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| !records::is_partial(path)).collect()
    }

    /// Returns the saved resources for which `is_declared` is false, given their type and name, and the reasons of
    /// unreadable files. The resources are to be declared for the restoration.
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
            return Err("it is not a file".into());
        }
        let bytes = records::read(path).map_err(|error| eco_format!("it cannot be read: {error}"))?;
        let record: Json = serde_json::from_slice(&bytes).map_err(|_| damaged())?;
        let text = |key: &str| record.get(key).and_then(Json::as_str).ok_or_else(damaged);
        let (type_name, name, provider) = (text("type")?, text("name")?, text("provider")?);
        let key = SealingKey::of(&self.state).map_err(|error| eco_format!("it is encrypted: {error}"))?;
        let opened = key.open(text("sealed")?, &self.bound_to(type_name, name, provider));
        let opened = opened.ok_or("it was encrypted with another key, belongs to other manifests, or was changed")?;
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

    /// Saves the state of a resource, unless one is saved already.
    ///
    /// # Errors
    /// If the state cannot be saved, or could not be restored. The resource must then not be changed.
    pub(crate) fn keep(&self, cx: &Context<'_>, provider: &dyn Provider, resource: &Resource) -> Result<(), EcoString> {
        let path = self.path(provider, resource);
        if path.exists() {
            return self.read(&path).map(drop).map_err(|why| eco_format!("{}: {why}", path.display()));
        }
        let should = &resource.attributes;
        let found = check(provider, cx, &[Wanted::new(&resource.name, Some(should))]).remove(0);
        let found = found.map_err(|error| error.message)?;
        let hostname = cx.hostname();
        let before = PendingChange { resource, should, found: &found, provider, hostname, is_whole: true }.undone()?;
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

    /// Removes a saved state that was restored or is no longer needed.
    pub(crate) fn forget(&self, provider: &dyn Provider, resource: &Resource) {
        records::remove(&self.path(provider, resource));
    }

    /// Returns the file of a resource.
    pub(crate) fn path(&self, provider: &dyn Provider, resource: &Resource) -> PathBuf {
        let (type_name, name) = (resource.reference.type_name.as_str(), resource.name.as_str());
        let of_place = provider
            .capabilities()
            .revert
            .and_then(|revert| revert.revert_scope())
            .map(|place| format!(" in {place}"))
            .unwrap_or_default();
        records::path(&self.directory, &format!("{type_name}[{name}]{of_place}"))
    }

    /// Returns the associated data of the encryption: a saved state is valid only for its resource and its
    /// manifests.
    fn bound_to(&self, type_name: &str, name: &str, provider: &str) -> Vec<u8> {
        bound([PURPOSE, &self.origin, type_name, name, provider])
    }
}
