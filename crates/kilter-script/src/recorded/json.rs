//! Converts recorded calls to and from JSON.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

use ecow::EcoString;
use kilter_model::{base64, from_base64};
use kilter_process::{Attempt, Attempts, Captured, Output, Status};
use serde_json::{Map, Value as Json, json};

use super::call::RecordedExchange;
use super::words;

impl RecordedExchange {
    /// Converts the call to JSON. Bytes that are not text become `{"base64": …}`.
    pub fn to_json(&self) -> Json {
        let mut json = json!({
            "type": self.type_name.as_str(),
            "provider": self.provider.as_str(),
            "convention": self.convention.as_str(),
            "action": self.action.as_str(),
            "path": bytes(self.path.as_os_str().as_bytes()),
            "argv": self.argv.iter().map(|word| bytes(word.as_bytes())).collect::<Vec<_>>(),
            "env": self.env.iter().map(|(name, value)| json!([os(name), os(value)])).collect::<Vec<_>>(),
            "cwd": self.cwd.as_ref().map(|cwd| os(cwd.as_os_str())),
            "stdin": self.stdin.as_deref().map(bytes),
            "deadline_ms": self.deadline.map(milliseconds),
            "confinement": words::confinement(self.confinement),
            "duration_ms": milliseconds(self.duration),
        });
        let answer = match &self.answer {
            Err(why) => json!({ "not_started": why }),
            Ok(finished) => answer(finished, &self.stderr_head),
        };
        if let (Some(json), Json::Object(answer)) = (json.as_object_mut(), answer) {
            json.extend(answer);
        }
        json
    }

    /// Parses a call. Returns none if the JSON is invalid.
    pub fn from_json(json: &Json) -> Option<RecordedExchange> {
        let text = |key: &str| Some(EcoString::from(json.get(key)?.as_str()?));
        let word = |json: &Json| to_bytes(json).map(OsString::from_vec);
        let pair = |json: &Json| match json.as_array()?.as_slice() {
            [name, value] => Some((word(name)?, word(value)?)),
            _ => None,
        };
        let optional = |key: &str| json.get(key).filter(|json| !json.is_null());
        let argv: Vec<OsString> = json.get("argv")?.as_array()?.iter().map(word).collect::<Option<_>>()?;
        Some(RecordedExchange {
            type_name: text("type")?,
            provider: text("provider")?,
            convention: text("convention")?,
            action: text("action")?,
            path: PathBuf::from(word(json.get("path")?)?),
            argv: Some(argv).filter(|argv| !argv.is_empty())?,
            env: json.get("env")?.as_array()?.iter().map(pair).collect::<Option<_>>()?,
            cwd: optional("cwd").map(|json| word(json).map(PathBuf::from).ok_or(())).transpose().ok()?,
            stdin: optional("stdin").map(|json| to_bytes(json).ok_or(())).transpose().ok()?,
            deadline: optional("deadline_ms").and_then(Json::as_u64).map(Duration::from_millis),
            confinement: words::to_confinement(json.get("confinement")?.as_str()?)?,
            duration: Duration::from_millis(json.get("duration_ms")?.as_u64()?),
            stderr_head: optional("stderr_head").map_or(Some(Vec::new()), to_bytes)?,
            answer: match json.get("not_started") {
                Some(why) => Err(why.as_str()?.to_owned()),
                None => Ok(to_finished(json)?),
            },
        })
    }
}

fn answer(finished: &Output, stderr_head: &[u8]) -> Json {
    let mut json = Map::new();
    let (kind, number) = match finished.status {
        Status::Code(code) => ("code", code),
        Status::Signal(signal) => ("signal", signal),
    };
    json.insert("status".into(), json!({ kind: number }));
    json.insert("ending".into(), words::ending(finished.ending).into());
    for (name, captured) in [("stdout", &finished.stdout), ("stderr", &finished.stderr), ("channel", &finished.channel)]
    {
        json.insert(name.into(), bytes(&captured.bytes));
        if captured.is_truncated() {
            json.insert(format!("{name}_dropped"), captured.dropped.into());
        }
    }
    if !stderr_head.is_empty() {
        json.insert("stderr_head".into(), bytes(stderr_head));
    }
    json.insert("leaked".into(), finished.leaked.into());
    json.insert("confined".into(), words::confined(&finished.confined));
    if !finished.attempts.is_empty() {
        json.insert("attempts".into(), finished.attempts.first.iter().map(attempt).collect());
        json.insert("attempts_more".into(), finished.attempts.more.into());
    }
    json.insert("refusal_hint".into(), finished.refusal_hint.clone().into());
    Json::Object(json)
}

fn to_finished(json: &Json) -> Option<Output> {
    let status = json.get("status")?;
    let number = |key: &str| status.get(key)?.as_i64().and_then(|number| i32::try_from(number).ok());
    let captured = |key: &str| {
        let dropped = json.get(format!("{key}_dropped")).map_or(Some(0), Json::as_u64)?;
        Some(Captured { bytes: to_bytes(json.get(key)?)?, dropped })
    };
    Some(Output {
        ending: words::to_ending(json.get("ending")?.as_str()?)?,
        stdout: captured("stdout")?,
        stderr: captured("stderr")?,
        channel: captured("channel")?,
        leaked: json.get("leaked")?.as_bool()?,
        confined: words::to_confined(json.get("confined")?)?,
        attempts: to_attempts(json)?,
        refusal_hint: json.get("refusal_hint").and_then(Json::as_str).map(str::to_owned),
        ..Output::of(number("code").map(Status::Code).or_else(|| number("signal").map(Status::Signal))?)
    })
}

fn attempt(of: &Attempt) -> Json {
    json!({ "operation": words::operation(of.operation), "path": of.path.as_ref().map(|path| os(path.as_os_str())) })
}

/// Attempts are missing if they could not be observed, and in recordings of older versions.
fn to_attempts(json: &Json) -> Option<Attempts> {
    let Some(first) = json.get("attempts") else { return Some(Attempts::default()) };
    let one = |json: &Json| {
        let path = json.get("path").filter(|path| !path.is_null());
        let path = path.map(|path| to_bytes(path).ok_or(())).transpose().ok()?;
        // Recordings of older versions have the key `deed`.
        let operation = json.get("operation").or_else(|| json.get("deed"))?;
        let operation = words::to_operation(operation.as_str()?)?;
        Some(Attempt { operation, path: path.map(|path| OsString::from_vec(path).into()) })
    };
    let more = json.get("attempts_more").and_then(Json::as_u64).unwrap_or_default();
    let first = first.as_array()?.iter().map(one).collect::<Option<_>>()?;
    Some(Attempts { first, more: u32::try_from(more).unwrap_or(u32::MAX) })
}

fn os(text: &OsStr) -> Json {
    bytes(text.as_bytes())
}

/// Converts bytes to a text if they are UTF-8.
fn bytes(bytes: &[u8]) -> Json {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => json!({ "base64": base64(bytes) }),
    }
}

fn to_bytes(json: &Json) -> Option<Vec<u8>> {
    match json {
        Json::String(text) => Some(text.as_bytes().to_vec()),
        other => from_base64(other.get("base64")?.as_str()?),
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
