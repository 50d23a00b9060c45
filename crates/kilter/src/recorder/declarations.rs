//! Comparison of the declarations of a run with those of the run before: a changed attribute is intentional if its
//! declaration changed, and corrective if the machine has drifted.

use std::collections::BTreeSet;
use std::hash::Hasher;
use std::ops::ControlFlow;
use std::sync::Arc;

use ecow::EcoString;
use kilter_history::{
    AttributeDigest, EventKind, History, HistoryError, HistoryEvent, KnownDeclaration, NewEvent, ResourceKey, RunId,
    Selection,
};
use kilter_model::{Resource, Value, to_canonical_json_clear};
use kilter_runtime::{Prepared, SealingKey};
use rustc_hash::FxHashMap;
use serde_json::{Value as Json, json};
// The database keeps these digests. The algorithm of the standard library may change with its version.
use siphasher::sip::SipHasher13;

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

    /// Returns the digest of all declarations, as [`digest`] does.
    fn digest(&self) -> [u8; 8] {
        let mut hasher = SipHasher13::new();
        for one in self.resources() {
            add_resource(&mut hasher, (one.type_name, one.title), one.values);
        }
        hasher.finish().to_le_bytes()
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
    let mut hasher = SipHasher13::new();
    let mut digests = Vec::new();
    for resource in declared(prepared.resources()) {
        attribute_digests(resource, key, &mut digests);
        add_resource(&mut hasher, named(resource), &digests);
    }
    hasher.finish().to_le_bytes()
}

fn add_resource(hasher: &mut SipHasher13, name: (&str, &str), digests: &[AttributeDigest]) {
    add_name(hasher, name);
    for one in digests {
        hasher.write_u32(one.name);
        hasher.write_u64(one.value);
    }
}

/// Returns the digest of the names of all declared resources.
pub(crate) fn names_digest(resources: &[Arc<Resource>]) -> [u8; 8] {
    let mut hasher = SipHasher13::new();
    declared(resources).for_each(|resource| add_name(&mut hasher, named(resource)));
    hasher.finish().to_le_bytes()
}

fn add_name(hasher: &mut SipHasher13, (type_name, title): (&str, &str)) {
    for text in [type_name, title] {
        hasher.write(text.as_bytes());
        hasher.write_u8(0xff);
    }
}

fn name_digest(name: &str) -> u32 {
    let mut hasher = SipHasher13::new();
    hasher.write(name.as_bytes());
    hasher.finish() as u32
}

fn value_digest(value: &Value, key: Option<&SealingKey>) -> u64 {
    let mut hasher = SipHasher13::new();
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
    edited: FxHashMap<(EcoString, EcoString), Edit>,
    /// Resources that left the manifests and stay as they are.
    pub(super) released: Vec<String>,
    /// Digest of all declarations.
    pub(super) digest: [u8; 8],
}

/// Difference between the declaration of a resource and the one of the run before.
pub(super) enum Edit {
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
    pub(super) fn is_known(&self, id: &(EcoString, EcoString)) -> bool {
        self.edit(id).is_none()
    }

    /// Returns the edit of a declaration; none if it is the one of the run before.
    pub(super) fn edit(&self, id: &(EcoString, EcoString)) -> Option<&Edit> {
        self.edited.get(id)
    }
}

impl Edit {
    /// Returns true if it contains the attribute.
    pub(super) fn contains(&self, attribute: &str) -> bool {
        match self {
            Edit::All => true,
            Edit::Attributes(names) => names.contains(&name_digest(attribute)),
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
    let declared = CatalogDigests::of(prepared, key);
    let digest = declared.digest();
    intents.digest = digest;
    let is_same = history.catalog_digest(origin)?.as_deref() == Some(&digest[..]);
    if is_same && !history.has_unsettled(origin)? {
        return Ok(intents);
    }
    let mut known = history.declarations(origin)?;
    let (mut added, mut changed) = (Listed::default(), Listed::default());
    let mut anew = Vec::new();
    for (type_name, title, name, digests) in &declared.resources {
        let before = match known.is_empty() {
            true => None,
            false => known.remove(&(type_name.to_string(), title.to_string())),
        };
        let is_new = before.is_none();
        let edit = edit(before.as_ref(), digests);
        if before.as_ref().is_none_or(|before| before.digests != *digests) {
            anew.push((ResourceKey { type_name, title, name }, digests.as_slice()));
            if is_new { &mut added } else { &mut changed }.add(|| format!("{type_name}[{title}]"));
        }
        if let Some(edit) = edit {
            intents.edited.insert((type_name.clone(), title.clone()), edit);
        }
    }
    let mut batch = history.batch()?;
    batch.declare(origin, run, &anew)?;
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
        let mut removed = Listed::default();
        released.iter().for_each(|((type_name, title), _)| removed.add(|| format!("{type_name}[{title}]")));
        let body = json!({
            "manifests": manifests,
            "added": added.to_json(),
            "changed": changed.to_json(),
            "removed": removed.to_json(),
        });
        let at = super::milliseconds(std::time::SystemTime::now());
        batch.add(run, &NewEvent { at, kind: EventKind::Declared, resource: None, body: &body.to_string() })?;
    }
    batch.commit()?;
    if !is_same {
        // A restoration by `reverse` has the name of the resource instead of its title.
        let kept = released.iter().filter(|((type_name, _), known)| !is_restored(type_name, &known.name));
        for ((type_name, title), known) in kept {
            if stays(history, type_name, title, known)? {
                intents.released.push(format!("{type_name}[{title}]"));
            }
        }
    }
    Ok(intents)
}

/// Returns true if a resource that left the manifests may still be on the machine as they declared it. It was not
/// declared as absent. A run has changed it, or found it in its declared state.
///
/// # Errors
/// If the history cannot be read.
pub(crate) fn stays(
    history: &History,
    type_name: &str,
    title: &str,
    known: &KnownDeclaration,
) -> Result<bool, HistoryError> {
    let absent = AttributeDigest { name: name_digest("ensure"), value: value_digest(&Value::from("absent"), None) };
    if known.digests.contains(&absent) {
        return Ok(false);
    }
    let mut is_applied = known.is_settled;
    let mut look = |event: HistoryEvent| {
        is_applied |= event.kind == EventKind::Outcome && event.body["status"] == "changed";
        if is_applied { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    if !known.is_settled {
        history.timeline(type_name, title, &Selection::default(), &mut look)?;
    }
    Ok(is_applied)
}

/// Number of resources, and the names of the first ones.
#[derive(Default)]
struct Listed {
    count: usize,
    names: Vec<String>,
}

impl Listed {
    fn add(&mut self, name: impl FnOnce() -> String) {
        self.count += 1;
        if self.count <= MAX_LISTED {
            self.names.push(name());
        }
    }

    fn to_json(&self) -> Json {
        json!({ "count": self.count, "resources": self.names })
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_in_the_database_stay_the_same() {
        assert_eq!(name_digest("mode"), 813_131_909);
        assert_eq!(value_digest(&Value::from("0644"), None), 16_198_976_263_427_664_187);
        let mut hasher = SipHasher13::new();
        let values = [AttributeDigest { name: 1, value: 2 }];
        add_resource(&mut hasher, ("file", "/etc/motd"), &values);
        assert_eq!(hasher.finish(), 13_833_791_848_919_329_183);
    }
}
