//! Manifests as answers in a recording.

use kilter_manifest::Source;
use kilter_recording::Recordable;
use serde_json::{Value as Json, json};

/// Text of a manifest in a recording.
pub(super) struct RecordedSource(pub(super) Source);

impl Recordable for RecordedSource {
    fn to_json(&self) -> Json {
        json!({ "name": self.0.name.as_str(), "text": self.0.text.as_str() })
    }

    fn from_json(json: &Json) -> Option<RecordedSource> {
        Some(RecordedSource(Source::new(json.get("name")?.as_str()?, json.get("text")?.as_str()?)))
    }

    fn missing() -> RecordedSource {
        RecordedSource(Source::new("", ""))
    }
}
