//! Lists all resources of a mold script.

use ecow::{EcoString, eco_format};
use kilter_model::{State, Value};
use kilter_provider::{Context, ProviderError};
use rustc_hash::FxHashSet;
use serde_json::Value as Json;

use super::document;
use super::error::{self, MoldCause, MoldError};
use super::resource::MoldProvider;
use crate::secrets::of_document;

impl MoldProvider {
    /// Runs `list`, which prints an array of observation documents. An unreadable resource does not affect the
    /// others.
    pub(super) fn list(&self, cx: &Context<'_>) -> Result<Vec<State>, ProviderError> {
        let metadata = self.known();
        if !metadata.actions.list {
            let type_name = &metadata.schema.name;
            return Err(ProviderError::new(eco_format!(
                "the provider `{}` of {type_name} cannot list its resources: it has no action `list`; name the \
                 resources to inspect",
                metadata.name
            )));
        }
        Ok(self.listed(cx)?)
    }

    fn listed(&self, cx: &Context<'_>) -> Result<Vec<State>, MoldError> {
        let kind = self.known().schema.name.as_str();
        // Scripts read a document before they evaluate the action.
        let input = Value::hash([("kind", Value::from(kind))]);
        let nobody = EcoString::new();
        let call = self.call("list", &nobody, &input);
        let finished = self.runner().run(cx, &call)?;
        let fail = |cause| call.error(cause, Some(&finished));
        let list = error::document(&finished, "an array of observation documents", call.output).map_err(fail)?;
        let wrong = |why| fail(MoldCause::Document(why));
        let documents = list.as_array().ok_or_else(|| wrong("it is an array of observation documents".into()))?;
        let mut states = Vec::with_capacity(documents.len());
        let mut undeclared: Vec<EcoString> = Vec::new();
        for (at, document) in documents.iter().enumerate() {
            let name = self.name_in(document).map_err(|why| wrong(eco_format!("[{at}]: {why}")))?;
            match document::state(self.known(), &name, document, &|_| false) {
                Ok((state, passed_over)) => {
                    undeclared.extend(passed_over);
                    if state.exists {
                        states.push(state);
                    }
                }
                Err(cause) => {
                    let secrets = of_document(&[&self.known().schema], document);
                    let cause = match cause.reworded(|why| secrets.redact(why)) {
                        MoldCause::Document(why) => MoldCause::Document(eco_format!("[{at}]: {why}")),
                        other => other,
                    };
                    let why = eco_format!("{}", call.error(cause, None));
                    states.push(State { unreadable: Some(why), ..State::absent(name) });
                }
            }
        }
        if let Some(name) = repeated(&states) {
            return Err(wrong(eco_format!("`{name}` occurs twice")));
        }
        undeclared.sort_unstable();
        undeclared.dedup();
        self.pass_over(cx, "", &undeclared);
        Ok(states)
    }

    /// Returns the name of a resource in a list.
    fn name_in(&self, document: &Json) -> Result<EcoString, EcoString> {
        let entries = document
            .as_object()
            .ok_or_else(|| eco_format!("an object is expected, not {}", document::shown(document)))?;
        let key = self.known().key();
        let text = |key: &str| entries.get(key).and_then(Json::as_str).filter(|text| !text.is_empty());
        let name = text("name").or_else(|| text(key));
        let is_open = self.known().schema.others.is_some();
        let name = name.or_else(|| text("path").filter(|_| is_open));
        name.map(EcoString::from).ok_or_else(|| eco_format!("its `{key}` is missing"))
    }
}

/// Returns a name that two resources share.
fn repeated(states: &[State]) -> Option<&EcoString> {
    let mut seen = FxHashSet::default();
    states.iter().map(|state| &state.name).find(|name| !seen.insert(*name))
}
