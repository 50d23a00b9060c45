//! Events as JSON, for histories and programs.

use serde_json::{Map, Value as Json};

use super::event::{Happening, ProviderEvent};
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

impl Happening<'_> {
    /// Returns the keyword in JSON.
    pub fn word(&self) -> &'static str {
        match self {
            Happening::Message(_) => "message",
            Happening::Unmanaged(_) => "unmanaged",
            Happening::Started => "started",
            Happening::Finished { .. } => "finished",
            Happening::Failed { .. } => "failed",
            Happening::Ended { .. } => "ended",
            Happening::AttributeChanged(_) => "attribute_changed",
            Happening::Misuse(_) => "misuse",
            Happening::Aborted { .. } => "aborted",
        }
    }

    fn add_to(&self, keys: &mut Map<String, Json>) {
        let mut add = |key: &str, value: Json| keys.insert(key.into(), value);
        match self {
            Happening::Started => {}
            Happening::Message(message) | Happening::Unmanaged(message) => {
                add("message", (*message).into());
            }
            Happening::Finished { duration, status } => {
                add("status", status.word().into());
                add("duration_us", (duration.as_micros() as u64).into());
            }
            Happening::Failed { duration, why, fatal } => {
                add("status", "failed".into());
                add("duration_us", (duration.as_micros() as u64).into());
                if let Some(why) = why {
                    add("message", (*why).into());
                }
                add("fatal", (*fatal).into());
            }
            Happening::Ended { status, message } => {
                add("status", status.word().into());
                add("message", (*message).into());
            }
            Happening::AttributeChanged(difference) => {
                add("attribute", difference.attribute.as_str().into());
                add("is", kilter_model::to_json(&difference.is));
                add("should", kilter_model::to_json(&difference.should));
                if let Some(message) = &difference.message {
                    add("message", message.as_str().into());
                }
            }
            Happening::Misuse(misuse) => {
                add("method", misuse.method.into());
                if let Some(title) = &misuse.title {
                    add("title", title.as_str().into());
                }
            }
            Happening::Aborted { why, fatal } => {
                add("message", (*why).into());
                add("fatal", (*fatal).into());
            }
        }
    }
}
