//! What resources were before they were changed, to be restored when they are declared no longer (`reverse`).
//!
//! It is kept in the state directory, a file each, mode 0600 and sealed with the key of the state directory: what is
//! replaced may have been a secret. It belongs to the manifests that declared the resource: others that do not declare it
//! restore nothing.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ecow::{EcoString, eco_format};
use kilter_model::{
    Catalog, Resource, ResourceRef, SourceId, Span, State, Value, from_canonical_json, to_canonical_json_clear,
};
use kilter_provider::{Context, Provider, Query, Wanted};
use rustc_hash::FxHashSet;
use serde_json::{Map, Value as Json, json};

use crate::sealing::{SealingKey, bound};
use crate::state_dir::StateDir;

/// What else is sealed or bound with the key is none of these.
const PURPOSE: &str = "kilter reversals 1";

/// What the resources of some manifests were before.
#[derive(Clone, Debug)]
pub struct Reversals {
    state: PathBuf,
    directory: PathBuf,
}

impl Reversals {
    /// Those of the manifests of this [origin](Catalog::origin); none where there is no origin.
    pub fn of(state_dir: &StateDir, origin: &str) -> Option<Reversals> {
        let name = format!("{:08x}", crc32fast::hash(origin.as_bytes()));
        let directory = state_dir.path().join("reversals").join(name);
        (!origin.is_empty()).then(|| Reversals { state: state_dir.path().to_owned(), directory })
    }

    /// Whether anything was ever kept.
    pub(crate) fn exists(&self) -> bool {
        self.directory.is_dir()
    }

    /// Adds to a catalog what is declared in it no longer and has to be restored. Returns what cannot be read of what is
    /// kept, each with its reason.
    pub fn append(&self, catalog: &mut Catalog) -> Vec<EcoString> {
        let Ok(entries) = fs::read_dir(&self.directory) else { return Vec::new() };
        let declared: FxHashSet<String> = catalog.resources.iter().map(|one| one.reference.to_string()).collect();
        let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.retain(|path| path.extension().is_none());
        paths.sort_unstable();
        let mut unreadable = Vec::new();
        for path in paths {
            match self.read(&path) {
                Ok((reference, _)) if declared.contains(&reference.to_string()) => {}
                Ok((_, resource)) => catalog.resources.push(resource),
                Err(why) => unreadable.push(eco_format!("{}: {why}", path.display())),
            }
        }
        unreadable
    }

    fn read(&self, path: &Path) -> Result<(ResourceRef, Resource), EcoString> {
        let bytes = fs::read(path).map_err(|error| eco_format!("it cannot be read: {error}"))?;
        let record: Json = serde_json::from_slice(&bytes).map_err(|_| EcoString::from("it is damaged"))?;
        let text = |key: &str| record.get(key).and_then(Json::as_str).ok_or(EcoString::from("it is damaged"));
        let reference: ResourceRef = text("resource")?.parse().map_err(|error| eco_format!("{error}"))?;
        let key = SealingKey::of(&self.state).map_err(|error| eco_format!("it is sealed: {error}"))?;
        let opened = key.open(text("sealed")?, &Self::bound_to(&reference));
        let opened = opened.ok_or("it was sealed with another key, or was changed")?;
        let before: Json = serde_json::from_slice(&opened).map_err(|_| EcoString::from("it is damaged"))?;
        let nowhere = Span { source: SourceId(0), start: 0, end: 0 };
        let mut resource = Resource::new(reference.clone(), text("name")?, nowhere);
        for (part, is_secret) in [("clear", false), ("secret", true)] {
            for (name, value) in before.get(part).and_then(Json::as_object).ok_or("it is damaged")? {
                let value = from_canonical_json(value).map_err(|_| EcoString::from("it is damaged"))?;
                resource.attributes.push(name.as_str(), if is_secret { Value::sensitive(value) } else { value });
            }
        }
        let particulars = resource.particulars_mut();
        particulars.provider = Some(text("provider")?.into());
        particulars.is_reversal = true;
        Ok((reference, resource))
    }

    /// Keeps what a resource is, unless something is kept of it already.
    ///
    /// # Errors
    /// When it cannot be kept, or could not be restored. Then it is not to be changed.
    pub(crate) fn keep(&self, cx: &Context<'_>, provider: &dyn Provider, resource: &Resource) -> Result<(), EcoString> {
        let path = self.path(&resource.reference);
        if path.exists() {
            return Ok(());
        }
        let wanted = Wanted { name: &resource.name, namevars: Some(&resource.attributes), should: None };
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
        let sealed = key.seal(&parts.to_string(), &Self::bound_to(&resource.reference));
        let sealed = sealed.map_err(|error| eco_format!("{error}"))?;
        let record = json!({
            "resource": resource.reference.to_string(),
            "name": resource.name.as_str(),
            "provider": provider.name(),
            "sealed": sealed,
        });
        self.write(&path, &record).map_err(|error| eco_format!("cannot write {}: {error}", path.display()))
    }

    fn write(&self, path: &Path, record: &Json) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        let new = path.with_extension("new");
        let _ = fs::remove_file(&new);
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(format!("{record}\n").as_bytes()).and_then(|()| file.sync_data())?;
        fs::rename(&new, path)?;
        fs::File::open(&self.directory)?.sync_all()
    }

    /// What a resource was is restored, or nobody wants it to be any more.
    pub(crate) fn forget(&self, reference: &ResourceRef) {
        let _ = fs::remove_file(self.path(reference));
    }

    fn path(&self, reference: &ResourceRef) -> PathBuf {
        let text = reference.to_string();
        let harmless = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let name: String = text.chars().map(harmless).take(80).collect();
        self.directory.join(format!("{name}-{:08x}", crc32fast::hash(text.as_bytes())))
    }

    fn bound_to(reference: &ResourceRef) -> Vec<u8> {
        bound([PURPOSE, &reference.to_string()])
    }
}
