//! The actors `prescribe` and `choreograph`.

use std::path::PathBuf;

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Value, from_json, to_json_clear};
use kilter_process::Confinement;
use kilter_provider::{Context, Provider};
use serde_json::Value as Json;

use super::directory::Mold;
use super::error::{MoldCause, MoldError, document};
use super::runner::ActorCall;
use crate::convention::beginning;
use crate::discovery::Note;
use crate::secrets;

/// Desired state of a resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Prescribed {
    /// Kind of the resource.
    pub kind: EcoString,
    /// Name of the resource.
    pub name: EcoString,
    /// Desired attributes.
    pub attributes: Attributes,
    /// The document as written.
    pub document: Json,
}

/// A step of a choreography.
#[derive(Clone, Debug, PartialEq)]
pub enum ChoreographyStep {
    /// Bring a resource to its desired state.
    Conform(Prescribed),
    /// Run a one-time action on a resource.
    Act {
        /// Kind of the resource.
        kind: EcoString,
        /// Name of the resource.
        name: EcoString,
        /// The action.
        action: EcoString,
    },
}

/// Reason why an actor gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum ActorError {
    /// The script does not exist.
    #[error("there is no script {}", .0.display())]
    Missing(PathBuf),
    /// The script is unusable.
    #[error("{0}")]
    Unusable(Note),
    /// The script failed or gave an invalid answer.
    #[error(transparent)]
    Failed(#[from] MoldError),
}

impl Mold {
    /// Returns true if the script `actors/choreograph` exists. Otherwise, the engine orders the prescribed
    /// resources.
    pub fn has_choreographer(&self) -> bool {
        self.files().exists(&self.actor("choreograph"))
    }

    /// Asks `actors/prescribe` for the desired state of a machine with these facts.
    ///
    /// # Errors
    /// If the script does not exist or gives no valid prescription.
    pub fn prescribe(&self, cx: &Context<'_>, facts: &Value) -> Result<Vec<Prescribed>, ActorError> {
        self.ask(cx, "prescribe", facts, "a list of prescription documents", |json| {
            let documents = list(json)?;
            let mut prescription: Vec<Prescribed> = Vec::with_capacity(documents.len());
            for (at, document) in documents.iter().enumerate() {
                let one = self.prescribed(document).map_err(|why| eco_format!("[{at}]: {why}"))?;
                if prescription.iter().any(|known| known.kind == one.kind && known.name == one.name) {
                    return Err(eco_format!("[{at}]: {}[{}] is prescribed twice", one.kind, one.name));
                }
                prescription.push(one);
            }
            Ok(prescription)
        })
    }

    /// Asks `actors/choreograph` for the next steps. The input is the `facts`, the `prescription`, and the
    /// `observations` of its resources in the same order.
    ///
    /// # Errors
    /// If the script does not exist or gives no valid steps.
    pub fn choreograph(
        &self,
        cx: &Context<'_>,
        facts: &Value,
        prescription: &[Prescribed],
        observations: &[Json],
    ) -> Result<Vec<ChoreographyStep>, ActorError> {
        let documents = prescription.iter().map(|one| from_json(&one.document));
        let input = Value::hash([
            ("facts", facts.clone()),
            ("prescription", Value::array(documents)),
            ("observations", Value::array(observations.iter().map(from_json))),
        ]);
        self.ask(cx, "choreograph", &input, "a list of steps", |json| {
            let step = |(at, document)| self.step(document).map_err(|why| eco_format!("[{at}]: {why}"));
            list(json)?.iter().enumerate().map(step).collect()
        })
    }

    fn actor(&self, name: &str) -> PathBuf {
        self.directory().join("actors").join(name)
    }

    fn ask<T>(
        &self,
        cx: &Context<'_>,
        name: &str,
        input: &Value,
        expected: &'static str,
        read: impl FnOnce(&Json) -> Result<T, EcoString>,
    ) -> Result<T, ActorError> {
        let path = self.actor(name);
        if !self.files().exists(&path) {
            return Err(ActorError::Missing(path));
        }
        let surroundings = &self.runner().surroundings;
        let unusable = |why| ActorError::Unusable(Note::warning(&path, why));
        self.files().script(&path).and_then(|script| script.ok_or("it is not a file".into())).map_err(unusable)?;
        let manner = self.manner(&path).map_err(ActorError::Unusable)?;
        let schemas = self.schemas();
        let call = ActorCall {
            path: &path,
            role: eco_format!("actors/{name}"),
            keeps: eco_format!("actors/{name}"),
            task: eco_format!("the actor `{name}`"),
            about: ("actors", name),
            action: None,
            input: Some(input),
            confinement: if manner.is_confined { Confinement::ReadOnly } else { Confinement::None },
            // The answer covers all resources.
            output: manner.output.unwrap_or(surroundings.limits.output),
            is_read: true,
            known: secrets::of_document(&schemas, &to_json_clear(input)),
            schemas,
            deadline: manner.timeout.unwrap_or(surroundings.limits.read),
        };
        let finished = self.runner().run(cx, &call)?;
        let fail = |cause| call.error(cause, Some(&finished));
        let json = document(&finished, expected, call.output).map_err(fail)?;
        Ok(read(&json).map_err(|why| fail(MoldCause::Document(why)))?)
    }

    fn prescribed(&self, document: &Json) -> Result<Prescribed, EcoString> {
        let entries =
            document.as_object().ok_or_else(|| eco_format!("an object is expected, not {}", shown(document)))?;
        let text = |key: &str| entries.get(key).and_then(Json::as_str).filter(|text| !text.is_empty());
        let kind = text("kind").ok_or("its `kind` is missing")?;
        let key = self.provider(kind).and_then(|one| one.schema().namevars().next().map(|key| key.name.text().clone()));
        let key = key.as_deref().unwrap_or("name");
        let name = text("name").or_else(|| text(key)).or_else(|| text("path")).ok_or("its `name` is missing")?;
        let is_said = |(at, value): &(&String, &Json)| {
            let is_identity =
                matches!(at.as_str(), "kind" | "name") || at.as_str() == key && value.as_str() == Some(name);
            !is_identity
        };
        let attributes = entries.iter().filter(is_said).map(|(key, value)| (key.clone(), from_json(value))).collect();
        Ok(Prescribed { kind: kind.into(), name: name.into(), attributes, document: document.clone() })
    }

    fn step(&self, document: &Json) -> Result<ChoreographyStep, EcoString> {
        let step = self.prescribed(document)?;
        match document.get("action") {
            None => Ok(ChoreographyStep::Conform(step)),
            Some(Json::String(action)) if crate::metadata::is_action(action) => {
                Ok(ChoreographyStep::Act { kind: step.kind, name: step.name, action: action.into() })
            }
            Some(other) => Err(eco_format!("{} is not a one-time action", shown(other))),
        }
    }
}

/// Converts a prescription to a manifest for the engine.
pub fn manifest_of(prescription: &[Prescribed]) -> Json {
    let resource = |one: &Prescribed| {
        let Json::Object(mut entries) = one.document.clone() else { return (String::new(), Json::Null) };
        entries.retain(|key, _| one.attributes.get(key).is_some());
        (format!("{}[{}]", one.kind, one.name), literal(Json::Object(entries)))
    };
    serde_json::json!({ "resources": prescription.iter().map(resource).collect::<serde_json::Map<_, _>>() })
}

/// Escapes the texts in JSON for use in a manifest.
fn literal(json: Json) -> Json {
    match json {
        Json::String(text) => Json::String(text.replace("${", "$${")),
        Json::Array(values) => values.into_iter().map(literal).collect(),
        Json::Object(entries) => entries.into_iter().map(|(key, value)| (key, literal(value))).collect(),
        other => other,
    }
}

fn list(json: &Json) -> Result<&[Json], EcoString> {
    json.as_array().map(Vec::as_slice).ok_or_else(|| eco_format!("a list is expected, not {}", shown(json)))
}

fn shown(json: &Json) -> EcoString {
    eco_format!("`{}`", beginning(&json.to_string(), 60))
}
