//! Encrypted part of a plan.

use std::path::Path;

use ecow::EcoString;
use kilter_model::AttributeSchema;
use kilter_provider::Registry;
use kilter_runtime::{PlanDocument, SealingKey};
use serde_json::Value as Json;

use crate::exit::Exit;
use crate::load::{Loaded, Types};
use crate::output;
use crate::session::Session;
use kilter_manifest::Schemas;

/// Returns true if the inputs of a run may contain a secret. It errs on the safe side: the name of a sensitive
/// attribute in a comment suffices.
pub(super) fn may_hold_secrets(loaded: &Loaded, registry: &Registry) -> bool {
    let sealed = |attribute: &&AttributeSchema| attribute.data_type.may_hold_secrets();
    let schemas = Types(registry);
    let types = schemas.names().into_iter().flat_map(|name| schemas.variants(name));
    let names = types.flat_map(|schema| schema.attributes.iter().filter(sealed)).map(|each| each.name.text().clone());
    let words: Vec<EcoString> = names.chain(["sensitive".into()]).collect();
    let texts = loaded.given.iter().chain(loaded.includes.values()).map(|source| &source.text);
    // Escapes may hide a word.
    let words: Vec<&str> = words.iter().map(EcoString::as_str).chain(["\\x", "\\u", "\\U"]).collect();
    texts.into_iter().any(|text| words.iter().any(|word| text.contains(word)))
        || loaded.vars.iter().any(|(_, value)| value.holds_sensitive())
        || loaded.prepared.resources().iter().any(|resource| {
            resource.attributes.iter().any(|(_, value)| value.holds_sensitive())
                || resource.deferred().iter().any(|deferred| deferred.sensitive || deferred.template.is_sealed())
        })
}

/// Decrypts the encrypted part of a plan.
///
/// # Errors
/// If it cannot be decrypted; reported.
pub(super) fn opened(path: &Path, sealed: &str, session: &Session) -> Result<Json, Exit> {
    let mut refused = None;
    let about = || path.to_string_lossy().into();
    let text = session.record.record_or_replay("sealed plan", about, || match live(path, sealed, session) {
        Ok(json) => Some(json.to_string()),
        Err(exit) => {
            refused = Some(exit);
            None
        }
    });
    text.and_then(|text| serde_json::from_str(&text).ok())
        .ok_or_else(|| refused.unwrap_or_else(|| output::fail("the plan could not be opened when this was recorded")))
}

fn live(path: &Path, sealed: &str, session: &Session) -> Result<Json, Exit> {
    let state = session.state_dir()?;
    let cannot = |why: &str| {
        let hint = "apply it on the machine and with the state directory of its origin, or make a new plan";
        output::fail_with(format_args!("the plan {} is sealed, and {why}", path.display()), [hint])
    };
    let key = SealingKey::of(&state).map_err(|error| cannot(&error.to_string()))?;
    PlanDocument::unseal(sealed, &key).ok_or_else(|| {
        let key = SealingKey::path(&state);
        cannot(&format!("cannot be opened with the key {}: that is another one, or the plan is damaged", key.display()))
    })
}
