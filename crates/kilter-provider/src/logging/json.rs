//! Events as JSON, for histories and programs.

use serde_json::{Map, Value as Json};

use super::event::{EventKind, ProviderEvent};
use crate::contract::Mode;

impl ProviderEvent<'_> {
    /// Converts the event to JSON. Secrets are redacted, and keys without a value are omitted.
    ///
    /// Keys that are always present: `event`, `level`, `severity` (RFC 5424), `type`, `provider`, `titles`,
    /// `noop` and `text`. Optional keys: `action` and `label` of the block, `attribute`, `is`, `should`,
    /// `status`, `message`, `fatal`. `duration_us` is in microseconds. A provider error has `method` and
    /// `title`.
    pub fn to_json(&self) -> Json {
        let mut keys = Map::new();
        keys.insert("event".into(), self.what.word().into());
        keys.insert("level".into(), self.level.word().into());
        keys.insert("severity".into(), self.level.severity().into());
        keys.insert("type".into(), self.type_name.into());
        keys.insert("provider".into(), self.provider.into());
        keys.insert("titles".into(), self.titles.iter().map(|title| title.as_str()).collect());
        keys.insert("noop".into(), (self.mode == Mode::Preview).into());
        if let Some(block) = self.block {
            keys.insert("action".into(), block.action.word().into());
            keys.insert("label".into(), block.label.as_str().into());
        }
        self.what.add_to(&mut keys);
        keys.insert("text".into(), self.text().into());
        Json::Object(keys)
    }
}

impl EventKind<'_> {
    /// Returns the keyword in JSON.
    pub fn word(&self) -> &'static str {
        match self {
            EventKind::Message(_) => "message",
            EventKind::Unmanaged(_) => "unmanaged",
            EventKind::Started => "started",
            EventKind::Finished { .. } => "finished",
            EventKind::Failed { .. } => "failed",
            EventKind::Ended { .. } => "ended",
            EventKind::AttributeChanged(_) => "attribute_changed",
            EventKind::Misuse(_) => "misuse",
            EventKind::Aborted { .. } => "aborted",
        }
    }

    fn add_to(&self, keys: &mut Map<String, Json>) {
        let mut add = |key: &str, value: Json| keys.insert(key.into(), value);
        match self {
            EventKind::Started => {}
            EventKind::Message(message) | EventKind::Unmanaged(message) => {
                add("message", (*message).into());
            }
            EventKind::Finished { duration, status } => {
                add("status", status.word().into());
                add("duration_us", (duration.as_micros() as u64).into());
            }
            EventKind::Failed { duration, why, fatal } => {
                add("status", "failed".into());
                add("duration_us", (duration.as_micros() as u64).into());
                if let Some(why) = why {
                    add("message", (*why).into());
                }
                add("fatal", (*fatal).into());
            }
            EventKind::Ended { status, message } => {
                add("status", status.word().into());
                add("message", (*message).into());
            }
            EventKind::AttributeChanged(difference) => {
                add("attribute", difference.attribute.as_str().into());
                add("is", kilter_model::to_json(&difference.is));
                add("should", kilter_model::to_json(&difference.should));
                if let Some(message) = &difference.message {
                    add("message", message.as_str().into());
                }
            }
            EventKind::Misuse(misuse) => {
                add("method", misuse.method.into());
                if let Some(title) = &misuse.title {
                    add("title", title.as_str().into());
                }
            }
            EventKind::Aborted { why, fatal } => {
                add("message", (*why).into());
                add("fatal", (*fatal).into());
            }
        }
    }
}
