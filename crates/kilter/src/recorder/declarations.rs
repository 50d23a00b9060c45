//! Comparison of the declarations of a run with those of the run before: a changed attribute is intentional if its
//! declaration changed, and corrective if the machine has drifted.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use ecow::EcoString;
use kilter_history::{
    AttributeDigest, EventKind, History, HistoryError, KnownDeclaration, NewEvent, ResourceKey, RunId,
};
use kilter_model::{Resource, Value, to_canonical_json_clear};
use kilter_runtime::{Prepared, SealingKey};
use serde_json::{Value as Json, json};

/// Maximum number of resources that the event lists.
const MAX_LISTED: usize = 1000;

/// Digests of all declarations of a run.
pub(crate) struct CatalogDigests {
    resources: Vec<(EcoString, EcoString, EcoString, Vec<AttributeDigest>)>,
    /// Resources that are restored, because they are no longer declared.
    restored: Vec<(EcoString, EcoString)>,
}

/// Returns the resources that are restored, because they are no longer declared.
pub(super) fn restored(prepared: &Prepared) -> Vec<(EcoString, EcoString)> {
    let restored = prepared.resources().iter().map(|resource| &**resource).filter(|one| one.is_reversal());
    restored.map(id).collect()
}

/// Returns true if a declaration contains a secret.
pub(super) fn has_secrets(prepared: &Prepared) -> bool {
    prepared.resources().iter().any(|one| one.attributes.iter().any(|(_, value)| value.holds_sensitive()))
}

/// Digests of the declaration of a resource.
#[derive(Clone, Copy)]
pub(crate) struct ResourceDigests<'a> {
    pub(crate) type_name: &'a str,
    pub(crate) title: &'a str,
    pub(crate) name: &'a str,
    pub(crate) values: &'a [AttributeDigest],
}

impl CatalogDigests {
    /// Returns the digests of each resource.
    pub(crate) fn resources(&self) -> impl Iterator<Item = ResourceDigests<'_>> {
        self.resources.iter().map(|(type_name, title, name, values)| ResourceDigests { type_name, title, name, values })
    }

    /// Returns the digests for another process with the same state directory.
    pub(crate) fn to_json(&self) -> Json {
        let pairs =
            |values: &[AttributeDigest]| values.iter().map(|one| json!([one.name, one.value])).collect::<Json>();
        self.resources().map(|one| json!([one.type_name, one.title, one.name, pairs(one.values)])).collect()
    }

    /// Reads the digests of another process; none if they are damaged.
    pub(crate) fn from_json(json: &Json) -> Option<CatalogDigests> {
        let digest = |pair: &Json| {
            let name = u32::try_from(pair.get(0)?.as_u64()?).ok()?;
            Some(AttributeDigest { name, value: pair.get(1)?.as_u64()? })
        };
        let resource = |one: &Json| {
            let text = |at: usize| Some(EcoString::from(one.get(at)?.as_str()?));
            let values = one.get(3)?.as_array()?.iter().map(digest).collect::<Option<Vec<_>>>()?;
            Some((text(0)?, text(1)?, text(2)?, values))
        };
        let resources = json.as_array()?.iter().map(resource).collect::<Option<Vec<_>>>()?;
        Some(CatalogDigests { resources, restored: Vec::new() })
    }

    /// Returns the digests of all resources of a run. A digest of a secret needs the key; without it, all secrets are
    /// equal.
    pub(crate) fn of(prepared: &Prepared, key: Option<&SealingKey>) -> CatalogDigests {
        let resources = declared(prepared.resources()).map(|resource| {
            let mut digests = Vec::new();
            attribute_digests(resource, key, &mut digests);
            let (type_name, title) = id(resource);
            (type_name, title, resource.name.clone(), digests)
        });
        CatalogDigests { resources: resources.collect(), restored: restored(prepared) }
    }
}

/// Returns the resources that a manifest declares.
fn declared(resources: &[Arc<Resource>]) -> impl Iterator<Item = &Resource> {
    resources.iter().map(|resource| &**resource).filter(|one| !one.is_hidden() && !one.is_reversal())
}

/// Returns the type and the title. They share the memory of the resource.
fn id(resource: &Resource) -> (EcoString, EcoString) {
    (resource.reference.type_name.text().clone(), resource.reference.title.text().clone())
}

fn named(resource: &Resource) -> (&str, &str) {
    (resource.reference.type_name.as_str(), resource.reference.title.as_str())
}

fn attribute_digests(resource: &Resource, key: Option<&SealingKey>, digests: &mut Vec<AttributeDigest>) {
    digests.clear();
    let attributes = resource.attributes.iter();
    digests.extend(
        attributes
            .map(|(name, value)| AttributeDigest { name: name_digest(name.as_str()), value: value_digest(value, key) }),
    );
    digests.sort_unstable();
}

/// Returns the digest of all declarations of a run.
pub(super) fn digest(prepared: &Prepared, key: Option<&SealingKey>) -> [u8; 8] {
    let mut hasher = DefaultHasher::new();
    let mut digests = Vec::new();
    for resource in declared(prepared.resources()) {
        attribute_digests(resource, key, &mut digests);
        add_name(&mut hasher, resource);
        for one in &digests {
            hasher.write_u32(one.name);
            hasher.write_u64(one.value);
        }
    }
    hasher.finish().to_le_bytes()
}

/// Returns the digest of the names of all declared resources.
pub(crate) fn names_digest(resources: &[Arc<Resource>]) -> [u8; 8] {
    let mut hasher = DefaultHasher::new();
    declared(resources).for_each(|resource| add_name(&mut hasher, resource));
    hasher.finish().to_le_bytes()
}

fn add_name(hasher: &mut DefaultHasher, resource: &Resource) {
    let (type_name, title) = named(resource);
    for text in [type_name, title] {
        hasher.write(text.as_bytes());
        hasher.write_u8(0xff);
    }
}

fn name_digest(name: &str) -> u32 {
    let mut hasher = DefaultHasher::new();
    hasher.write(name.as_bytes());
    hasher.finish() as u32
}

fn value_digest(value: &Value, key: Option<&SealingKey>) -> u64 {
    let mut hasher = DefaultHasher::new();
    match value {
        value if value.holds_sensitive() => {
            // Guesses cannot be tested without the key.
            let text = to_canonical_json_clear(value).to_string();
            let digest = key.map(|key| key.digest([&b"kilter declarations 1"[..], text.as_bytes()]));
            hasher.write(digest.unwrap_or_default().as_bytes());
        }
        Value::String(_) | Value::Binary(_) => hasher.write(value.as_bytes().unwrap_or_default()),
        value => hasher.write(to_canonical_json_clear(value).to_string().as_bytes()),
    }
    hasher.write(value.kind().as_bytes());
    hasher.finish()
}

/// Resources whose declarations differ from those of the run before.
#[derive(Default)]
pub(super) struct Intents {
    edited: HashMap<(EcoString, EcoString), Edit>,
    /// Resources that left the manifests and stay as they are.
    pub(super) released: Vec<String>,
}

enum Edit {
    /// The resource is new, or has never been in its declared state.
    All,
    /// Digests of the names of changed attributes.
    Attributes(BTreeSet<u32>),
}

impl Intents {
    /// Returns true if no declaration differs.
    pub(super) fn is_empty(&self) -> bool {
        self.edited.is_empty()
    }

    /// Records that a resource is in its declared state: the next change repairs a drift.
    pub(super) fn settle(&mut self, id: &(EcoString, EcoString)) {
        self.edited.remove(id);
    }

    /// Records that all resources are in their declared states, except some.
    pub(super) fn settle_all(&mut self, except: &super::ResourceNames) {
        self.edited.retain(|id, _| except.contains(id));
        self.edited.shrink_to_fit();
    }

    /// Returns true if the whole declaration is the one of the run before.
    pub(super) fn is_known(&self, type_name: &str, title: &str) -> bool {
        !self.edited.contains_key(&(type_name.into(), title.into()))
    }

    /// Returns true if the declaration of an attribute is the one of the run before.
    pub(super) fn is_corrective(&self, type_name: &str, title: &str, attribute: &str) -> bool {
        match self.edited.get(&(type_name.into(), title.into())) {
            None => true,
            Some(Edit::All) => false,
            Some(Edit::Attributes(names)) => !names.contains(&name_digest(attribute)),
        }
    }
}

/// Compares the declarations of a run with those before, and records the difference.
///
/// # Errors
/// If the history cannot be read or written.
pub(super) fn record(
    history: &mut History,
    run: RunId,
    prepared: &Prepared,
    key: Option<&SealingKey>,
    manifests: &Json,
) -> Result<Intents, HistoryError> {
    let origin = prepared.origin().as_str();
    let mut intents = Intents::default();
    if origin.is_empty() {
        return Ok(intents);
    }
    intents.edited.extend(restored(prepared).into_iter().map(|id| (id, Edit::All)));
    let digest = digest(prepared, key);
    let is_same = history.catalog_digest(origin)?.as_deref() == Some(&digest[..]);
    if is_same && !history.has_unsettled(origin)? {
        return Ok(intents);
    }
    let declared = CatalogDigests::of(prepared, key);
    let mut known = history.declarations(origin)?;
    let (mut added, mut changed) = (Vec::new(), Vec::new());
    let mut batch = history.batch()?;
    for (type_name, title, name, digests) in &declared.resources {
        let before = known.remove(&(type_name.to_string(), title.to_string()));
        let is_new = before.is_none();
        let edit = edit(before.as_ref(), digests);
        if before.as_ref().is_none_or(|before| before.digests != *digests) {
            batch.declare(origin, run, ResourceKey { type_name, title, name }, digests)?;
            if is_new { &mut added } else { &mut changed }.push(format!("{type_name}[{title}]"));
        }
        if let Some(edit) = edit {
            intents.edited.insert((type_name.clone(), title.clone()), edit);
        }
    }
    let mut released: Vec<((String, String), KnownDeclaration)> = known.into_iter().collect();
    released.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    let is_restored = |type_name: &str, word: &str| {
        declared.restored.iter().any(|(restored_type, restored)| restored_type == type_name && restored == word)
    };
    // Those that this run restores leave at its end.
    released.retain(|((type_name, title), _)| !is_restored(type_name, title));
    for ((type_name, title), _) in &released {
        batch.release(ResourceKey { type_name, title, name: title })?;
    }
    if !is_same {
        batch.set_catalog_digest(origin, &digest)?;
        let reference = |(type_name, title): &(String, String)| format!("{type_name}[{title}]");
        let removed: Vec<String> = released.iter().map(|(key, _)| reference(key)).collect();
        // A restoration by `reverse` has the name of the resource instead of its title.
        let kept = released.iter().filter(|((type_name, _), known)| !is_restored(type_name, &known.name));
        intents.released = kept.map(|(key, _)| reference(key)).collect();
        let body = json!({
            "manifests": manifests,
            "added": listed(added),
            "changed": listed(changed),
            "removed": listed(removed),
        });
        let at = super::milliseconds(std::time::SystemTime::now());
        batch.add(run, &NewEvent { at, kind: EventKind::Declared, resource: None, body: &body.to_string() })?;
    }
    batch.commit()?;
    Ok(intents)
}

fn listed(mut names: Vec<String>) -> Json {
    let count = names.len();
    names.truncate(MAX_LISTED);
    json!({ "count": count, "resources": names })
}

fn edit(before: Option<&KnownDeclaration>, digests: &[AttributeDigest]) -> Option<Edit> {
    let Some(before) = before.filter(|before| before.is_settled) else { return Some(Edit::All) };
    if before.digests == digests {
        return None;
    }
    let differs = |one: &&AttributeDigest, others: &[AttributeDigest]| !others.contains(one);
    let names = digests.iter().filter(|one| differs(one, &before.digests));
    let gone = before.digests.iter().filter(|one| differs(one, digests));
    Some(Edit::Attributes(names.chain(gone).map(|one| one.name).collect()))
}
