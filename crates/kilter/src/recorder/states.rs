//! States of resources before their changes.

use std::collections::BTreeMap;
use std::time::SystemTime;

use ecow::{EcoString, eco_format};
use kilter_history::{EventKind, HistoryError, NewEvent};
use kilter_model::Attributes;
use kilter_runtime::{PendingChange, SavedState, SealingKey};
use serde_json::json;

use super::body::json_text;
use super::{OnFailure, Recorder, key, milliseconds};
use crate::output;

/// Maximum size in bytes of the state of one resource that is saved before a change.
const MAX_STATE_BYTES: usize = 64 << 20;

impl Recorder {
    /// Saves the state of resources before they are changed.
    ///
    /// # Errors
    /// The reason why they must not be changed.
    pub(crate) fn before_changes(&mut self, changes: &[PendingChange<'_>]) -> Result<(), EcoString> {
        match self.save(changes) {
            Ok(()) => {
                self.works();
                Ok(())
            }
            Err(error) if self.on_failure == OnFailure::End => {
                self.failure = Some(eco_format!("{error}"));
                Err(eco_format!("not changed: {error}. `--without-history` makes changes without a record"))
            }
            Err(error) => {
                self.fails(&error);
                Ok(())
            }
        }
    }

    /// Saves the state of resources before a change. It is durable when this returns.
    fn save(&mut self, changes: &[PendingChange<'_>]) -> Result<(), HistoryError> {
        let (state_dir, is_held) = (self.state_dir.clone(), self.origin.command == "run");
        let at = milliseconds(SystemTime::now()).max(self.saved_at + 1);
        self.saved_at = at;
        let run = self.opened()?;
        let mut no_key = None;
        let mut created: Vec<[&str; 2]> = Vec::new();
        let mut saved = Vec::new();
        for change in changes {
            let reference = &change.resource().reference;
            // Another user may cause any number of repairs, of files of any size.
            if is_held && run.intents.is_known(&(reference.type_name.text().clone(), reference.title.text().clone())) {
                continue;
            }
            let undone = change.undone();
            if let Ok(attributes) = &undone
                && !change.exists()
                && is_absence(attributes)
            {
                created.push([reference.type_name.as_str(), reference.title.as_str()]);
                continue;
            }
            let state = undone.and_then(|attributes| {
                if run.key.is_none() {
                    let made = SealingKey::made(&state_dir).map_err(|error| eco_format!("{error}"));
                    run.key = Some(made.inspect_err(|why| _ = no_key.get_or_insert_with(|| why.clone()))?);
                }
                let key = run.key.as_ref().ok_or("there is no key to encrypt it")?;
                let state = SavedState { provider: change.provider().into(), attributes };
                let sealed = state.seal(key).map_err(|error| eco_format!("{error}"))?;
                match sealed.1.len() > MAX_STATE_BYTES {
                    true => Err("its state is larger than 64 MiB".into()),
                    false => Ok(sealed),
                }
            });
            saved.push((reference, state));
        }
        if let Some(why) = no_key.filter(|_| !self.is_warned) {
            self.is_warned = true;
            output::warning(format_args!("changes of this run cannot be undone: {why}"));
        }
        if created.is_empty() && saved.is_empty() {
            return Ok(());
        }
        self.written(|batch, id, _, _| {
            if !created.is_empty() {
                let body = json_text(&mut Vec::new(), &BTreeMap::from([("created", &created)]));
                batch.add(id, &NewEvent { at, kind: EventKind::Before, resource: None, body: &body })?;
            }
            for (reference, state) in &saved {
                let body = match state {
                    Ok((digest, bytes)) => {
                        batch.keep_state(digest, at, bytes)?;
                        json!({ "state": digest, "bytes": bytes.len() })
                    }
                    Err(why) => json!({ "cannot": why.as_str() }),
                };
                let resource = Some(key(reference.type_name.as_str(), reference.title.as_str()));
                batch.add(id, &NewEvent { at, kind: EventKind::Before, resource, body: &body.to_string() })?;
            }
            Ok(())
        })
    }
}

/// Returns true if a declaration only removes a resource.
fn is_absence(attributes: &Attributes) -> bool {
    attributes.len() == 1 && attributes.text("ensure") == Some("absent")
}
