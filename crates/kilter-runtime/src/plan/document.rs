//! Format of a plan file: the steps of a dry run, and all its inputs.
//!
//! The inputs are encrypted with the key of the state directory if they may contain a secret. [`integrity`] covers
//! every byte.

use ecow::EcoString;
use kilter_model::{Value, from_canonical_json, to_canonical_json_clear};
use serde_json::{Map, Value as Json, json};

use super::integrity;
use super::keys::PrivateKey;
use super::provenance::PlanProvenance;
use super::{Plan, SecretDigests};
use crate::report::ResourceReport;
use crate::sealing::{SealingKey, bound};

/// Version of the format.
pub const PLAN_VERSION: u64 = 4;

/// Domain of the encryption, which separates plans from other uses of the key.
const PURPOSE: &str = "kilter plan 4";

/// Number of characters in which a plan is recognised.
const HEAD_CHARS: usize = 64;

/// Text of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanSource {
    /// Path as the user wrote it.
    pub name: EcoString,
    /// The text.
    pub text: String,
    /// True if obsolete keys are accepted with a warning.
    pub is_lenient: bool,
    /// Absolute path of its file, and the names and values of its version, such as `commit`; none if it was no file.
    pub origin: Option<(EcoString, Vec<(EcoString, EcoString)>)>,
}

/// Inputs of the run that made a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlanInputs {
    /// Manifests of the command line, in order.
    pub sources: Vec<PlanSource>,
    /// Origin of these manifests, if resources have to be restored, now or later.
    pub origin: EcoString,
    /// Included texts, by the including file and the written path.
    pub includes: Vec<((EcoString, EcoString), PlanSource)>,
    /// Facts that the manifests use.
    pub facts: Vec<(EcoString, Value)>,
    /// Variables of the command line.
    pub vars: Vec<(EcoString, Value)>,
}

/// Confidentiality of the inputs of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputSecrecy {
    /// They contain no secret.
    Public,
    /// They may contain a secret, and are encrypted.
    Secret,
}

/// Reason why a text is not a plan that this version reads.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlanFormatError {
    /// It has not the form of a plan.
    #[error("is damaged")]
    Damaged,
    /// It is a plan of another version.
    #[error("is a plan of version {0}")]
    Version(Json),
}

/// Parsed plan. Its integrity has not been verified.
#[derive(Debug)]
pub struct PlanDocument(Json);

impl PlanSource {
    fn to_json(&self) -> Json {
        let PlanSource { name, text, is_lenient, origin } = self;
        let mut json = json!({ "name": name.as_str(), "text": text });
        if *is_lenient {
            json["lenient"] = true.into();
        }
        if let Some((path, version)) = origin {
            let version: Map<String, Json> =
                version.iter().map(|(name, value)| (name.to_string(), value.as_str().into())).collect();
            json["origin"] = json!({ "path": path.as_str(), "version": version });
        }
        json
    }

    fn read(json: &Json) -> Option<PlanSource> {
        let is_lenient = json.get("lenient").and_then(Json::as_bool).unwrap_or(false);
        let name = json.get("name")?.as_str()?.into();
        let origin = json.get("origin").and_then(|origin| {
            let version = origin["version"].as_object().into_iter().flatten();
            let version = version.filter_map(|(name, value)| Some((name.into(), value.as_str()?.into()))).collect();
            Some((origin["path"].as_str()?.into(), version))
        });
        Some(PlanSource { name, text: json.get("text")?.as_str()?.to_owned(), is_lenient, origin })
    }
}

impl PlanInputs {
    /// Returns the members of the inputs in a plan. They may contain secrets.
    pub fn to_json(&self) -> Map<String, Json> {
        let values = |values: &[(EcoString, Value)]| -> Map<String, Json> {
            values.iter().map(|(name, value)| (name.to_string(), to_canonical_json_clear(value))).collect()
        };
        let include = |include: &((EcoString, EcoString), PlanSource)| {
            let ((from, path), source) = include;
            json!({ "from": from.as_str(), "path": path.as_str(), "source": source.to_json() })
        };
        let mut inputs = Map::new();
        inputs.insert("sources".into(), self.sources.iter().map(PlanSource::to_json).collect());
        if !self.origin.is_empty() {
            inputs.insert("origin".into(), self.origin.as_str().into());
        }
        inputs.insert("includes".into(), self.includes.iter().map(include).collect());
        inputs.insert("facts".into(), values(&self.facts).into());
        inputs.insert("vars".into(), values(&self.vars).into());
        inputs
    }

    /// Reads the members of the inputs in a plan; none if they have another form.
    pub fn read(inputs: &Json) -> Option<PlanInputs> {
        let include = |json: &Json| {
            let text = |key: &str| Some(EcoString::from(json.get(key)?.as_str()?));
            Some(((text("from")?, text("path")?), PlanSource::read(json.get("source")?)?))
        };
        let values = |key: &str| {
            let entries = inputs.get(key)?.as_object()?.iter();
            let values = entries.map(|(name, value)| Some((EcoString::from(name), from_canonical_json(value).ok()?)));
            values.collect::<Option<Vec<_>>>()
        };
        Some(PlanInputs {
            sources: inputs.get("sources")?.as_array()?.iter().map(PlanSource::read).collect::<Option<_>>()?,
            origin: inputs.get("origin").and_then(Json::as_str).unwrap_or_default().into(),
            includes: inputs.get("includes")?.as_array()?.iter().map(include).collect::<Option<_>>()?,
            facts: values("facts")?,
            vars: values("vars")?,
        })
    }
}

impl PlanDocument {
    /// Returns the text of a plan file. The key protects and encrypts it.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn text(
        resources: &[ResourceReport],
        inputs: &PlanInputs,
        secrecy: InputSecrecy,
        provenance: &PlanProvenance,
        key: &SealingKey,
        signer: Option<&PrivateKey>,
    ) -> std::io::Result<String> {
        let inputs = inputs.to_json();
        let mut plan = Map::new();
        plan.insert("kilter_plan".into(), PLAN_VERSION.into());
        plan.insert("kilter_version".into(), env!("CARGO_PKG_VERSION").into());
        plan.insert("made".into(), provenance.json());
        plan.insert("steps".into(), Plan::steps(resources, key).into());
        match secrecy {
            InputSecrecy::Secret => {
                let sealed = key.seal(&Json::Object(inputs).to_string(), &bound([PURPOSE]))?;
                plan.insert("sealed".into(), sealed.into());
            }
            InputSecrecy::Public => plan.extend(inputs),
        }
        Ok(integrity::protect(&Json::Object(plan), key, signer))
    }

    /// Returns true if a text starts as a plan.
    pub fn is_start(text: &str) -> bool {
        let head: String = text.chars().take(HEAD_CHARS).filter(|c| !c.is_whitespace()).collect();
        head.starts_with("{\"kilter_plan\"")
    }

    /// Parses the text of a plan file.
    ///
    /// # Errors
    /// If it is not a plan of [`PLAN_VERSION`].
    pub fn parse(text: &str) -> Result<PlanDocument, PlanFormatError> {
        let json = serde_json::from_str::<Json>(text).map_err(|_| PlanFormatError::Damaged)?;
        let version = json.get("kilter_plan").ok_or(PlanFormatError::Damaged)?;
        match version.as_u64() {
            Some(PLAN_VERSION) => Ok(PlanDocument(json)),
            _ => Err(PlanFormatError::Version(version.clone())),
        }
    }

    /// Returns the encrypted inputs, if they are encrypted.
    pub fn sealed(&self) -> Option<&str> {
        self.0.get("sealed").map(|sealed| sealed.as_str().unwrap_or_default())
    }

    /// Decrypts inputs; none if the key is another one, or if they are damaged.
    pub fn unseal(sealed: &str, key: &SealingKey) -> Option<Json> {
        serde_json::from_slice(&key.open(sealed, &bound([PURPOSE]))?).ok()
    }

    /// Returns the inputs. If they are encrypted, `unsealed` are the decrypted ones.
    ///
    /// # Errors
    /// If they do not have the form of inputs.
    pub fn inputs(&self, unsealed: Option<&Json>) -> Result<PlanInputs, PlanFormatError> {
        PlanInputs::read(unsealed.unwrap_or(&self.0)).ok_or(PlanFormatError::Damaged)
    }

    /// Returns the steps.
    ///
    /// # Errors
    /// If they do not have the form of steps.
    pub fn steps(&self, secrets: SecretDigests) -> Result<Plan, PlanFormatError> {
        let steps = self.0.get("steps").and_then(Json::as_array);
        steps.and_then(|steps| Plan::read(steps, secrets)).ok_or(PlanFormatError::Damaged)
    }

    /// Returns the host and the time at which it was made; none in plans of earlier versions of kilter.
    ///
    /// # Errors
    /// If they do not have the form of a provenance.
    pub fn provenance(&self) -> Result<Option<PlanProvenance>, PlanFormatError> {
        let made = self.0.get("made").map(|made| PlanProvenance::read(made).ok_or(PlanFormatError::Damaged));
        made.transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs() -> PlanInputs {
        let source = |text: &str| PlanSource {
            name: "site.yaml".into(),
            text: text.into(),
            is_lenient: false,
            origin: Some(("/srv/site.yaml".into(), vec![("commit".into(), "0123".into())])),
        };
        PlanInputs {
            sources: vec![source("a: 1\n"), PlanSource { is_lenient: true, ..source("b: 2\n") }],
            origin: "/srv/site.yaml".into(),
            includes: vec![(("site.yaml".into(), "more.yaml".into()), source("c: 3\n"))],
            facts: vec![("kernel".into(), Value::from("Linux"))],
            vars: vec![("port".into(), Value::from("80"))],
        }
    }

    #[test]
    fn inputs_written_and_read_are_equal() {
        let json = Json::Object(inputs().to_json());
        assert_eq!(PlanInputs::read(&json), Some(inputs()));
        for key in ["sources", "includes", "facts", "vars"] {
            let mut without = json.clone();
            without.as_object_mut().unwrap().remove(key);
            assert_eq!(PlanInputs::read(&without), None, "{key}");
        }
    }

    #[test]
    fn other_text_or_version_is_refused() {
        let error = |text: &str| PlanDocument::parse(text).unwrap_err();
        assert_eq!(error("{\"kilter_plan\": 4"), PlanFormatError::Damaged);
        assert_eq!(error("{}"), PlanFormatError::Damaged);
        assert_eq!(error("{\"kilter_plan\": 2}"), PlanFormatError::Version(2.into()));
        assert!(PlanDocument::parse("{\"kilter_plan\": 4}").unwrap().steps(SecretDigests::Foreign).is_err());
        assert!(PlanDocument::is_start("{\n  \"kilter_plan\": 9"));
        assert!(!PlanDocument::is_start("resources:"));
    }
}
