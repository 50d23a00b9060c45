//! Inputs that another machine has compiled for this one.

use std::time::Duration;

use kilter_model::{Value, from_canonical_json, to_canonical_json_clear};
use kilter_runtime::PlanInputs;
use serde_json::{Map, Value as Json, json};

use super::KnownInputs;
use super::secrets::{SecretsFrom, source_of};
use crate::exit::Exit;
use crate::session::Session;
use crate::{output, plan_file, signals, streams};

/// Texts, facts and variables of a run, and the secrets that the texts name.
///
/// It passes over standard input, because it may contain secrets.
pub(crate) struct Received(Map<String, Json>);

impl Received {
    /// Creates the document for a host. A secret is the description of its source and its value.
    pub(super) fn of(inputs: &PlanInputs, secrets: Vec<(Json, Value)>) -> Received {
        let mut document = inputs.to_json();
        document.insert("secrets".into(), secrets_json(secrets));
        Received(document)
    }

    /// Returns the text for the standard input of kilter on the host.
    pub(crate) fn text(&self) -> String {
        Json::Object(self.0.clone()).to_string()
    }

    /// Returns the text of the secrets alone, for the apply of a plan; empty if there are none.
    pub(crate) fn secrets_text(&self) -> String {
        match self.0.get("secrets") {
            Some(secrets) if secrets.as_array().is_some_and(|secrets| !secrets.is_empty()) => {
                json!({ "secrets": secrets }).to_string()
            }
            _ => String::new(),
        }
    }

    /// Returns the descriptions of the sources of the secrets.
    pub(crate) fn secret_sources(&self) -> Vec<Json> {
        let secrets = self.0.get("secrets").and_then(Json::as_array).into_iter().flatten();
        secrets.map(|secret| secret["source"].clone()).collect()
    }

    /// Reads secrets from these sources on this machine again.
    ///
    /// # Errors
    /// If a source is none, or cannot be read; reported.
    pub(crate) fn of_sources(sources: &[Json], session: &Session) -> Result<Received, Exit> {
        let secret = |about: &Json| {
            let source = source_of(about).ok_or_else(damaged)?;
            let secrets = SecretsFrom { session, timeout: Duration::from_secs(60), kept: None, noted: None };
            let value = kilter_manifest::Secrets::resolve(&secrets, &source);
            let value = value.map_err(|why| output::fail(format_args!("a secret cannot be read: {why}")))?;
            Ok((about.clone(), value))
        };
        let secrets = sources.iter().map(secret).collect::<Result<Vec<_>, Exit>>()?;
        Ok(Received(Map::from_iter([("secrets".to_owned(), secrets_json(secrets))])))
    }

    /// Reads the document from standard input.
    ///
    /// # Errors
    /// If it is none; reported.
    pub(crate) fn read() -> Result<Received, Exit> {
        let text = signals::killable(|| streams::read_stdin(u64::MAX));
        let text = text.map_err(|error| output::fail(format_args!("cannot read the standard input: {error}")))?;
        match serde_json::from_slice(&text) {
            Ok(Json::Object(document)) => Ok(Received(document)),
            _ => Err(damaged()),
        }
    }

    /// Returns the inputs.
    pub(super) fn inputs(&self) -> Result<KnownInputs, Exit> {
        let inputs = PlanInputs::read(&Json::Object(self.0.clone())).ok_or_else(damaged)?;
        Ok(plan_file::known_inputs(inputs))
    }

    /// Returns the secret of this source.
    pub(super) fn secret(&self, source: &Json) -> Result<Value, String> {
        let secrets = self.0.get("secrets").and_then(Json::as_array).into_iter().flatten();
        let found = secrets
            .into_iter()
            .find(|secret| secret["source"] == *source)
            .and_then(|secret| from_canonical_json(&secret["value"]).ok());
        found.ok_or_else(|| "the machine that runs `kilter --on` has not sent it".to_owned())
    }
}

fn secrets_json(secrets: Vec<(Json, Value)>) -> Json {
    let secret = |(source, value): (Json, Value)| json!({ "source": source, "value": to_canonical_json_clear(&value) });
    secrets.into_iter().map(secret).collect()
}

fn damaged() -> Exit {
    output::fail("the standard input has not the inputs of a run: `--received` is for `kilter --on`")
}
