//! Conversion of answers to JSON and back.

use std::path::PathBuf;

use ecow::EcoString;
use kilter_manifest::Source;
use kilter_model::{
    Attributes, Because, Difference, Outcome, ResourceRef, State, Unknown, UnknownCause, Value, from_canonical_json,
    to_canonical_json_clear,
};
use kilter_provider::{Insync, Level, Suitability};
use kilter_script::{Found, FoundScript, Note};
use serde_json::{Value as Json, json};

/// Message of a replay for a missing answer.
const MISSING: &str = "the recording does not tell";

/// Answer that can be stored as JSON.
pub(crate) trait Recordable: Sized {
    /// Returns the answer as JSON, with secrets in clear.
    fn keep(&self) -> Json;
    /// Returns the answer of a JSON value; none if the value has another form.
    fn kept(json: &Json) -> Option<Self>;
    /// Returns a placeholder for a missing answer.
    fn missing() -> Self;
    /// Returns true if a recording need not have the answer.
    fn is_optional(what: &str) -> bool {
        what == "columns"
    }
}

impl Recordable for bool {
    fn keep(&self) -> Json {
        (*self).into()
    }

    fn kept(json: &Json) -> Option<bool> {
        json.as_bool()
    }

    fn missing() -> bool {
        false
    }
}

impl Recordable for usize {
    fn keep(&self) -> Json {
        (*self).into()
    }

    fn kept(json: &Json) -> Option<usize> {
        json.as_u64().and_then(|number| usize::try_from(number).ok())
    }

    fn missing() -> usize {
        0
    }
}

impl Recordable for () {
    fn keep(&self) -> Json {
        Json::Null
    }

    fn kept(_: &Json) -> Option<()> {
        Some(())
    }

    fn missing() {}
}

impl Recordable for String {
    fn keep(&self) -> Json {
        self.as_str().into()
    }

    fn kept(json: &Json) -> Option<String> {
        json.as_str().map(str::to_owned)
    }

    fn missing() -> String {
        MISSING.to_owned()
    }
}

impl Recordable for EcoString {
    fn keep(&self) -> Json {
        self.as_str().into()
    }

    fn kept(json: &Json) -> Option<EcoString> {
        json.as_str().map(EcoString::from)
    }

    fn missing() -> EcoString {
        MISSING.into()
    }
}

impl Recordable for Value {
    fn keep(&self) -> Json {
        to_canonical_json_clear(self)
    }

    fn kept(json: &Json) -> Option<Value> {
        from_canonical_json(json).ok()
    }

    fn missing() -> Value {
        Value::Undef
    }
}

/// A value is stored as a list with one element, which distinguishes none from null.
impl<T: Recordable> Recordable for Option<T> {
    fn keep(&self) -> Json {
        self.as_ref().map_or(Json::Null, |value| json!([value.keep()]))
    }

    fn kept(json: &Json) -> Option<Option<T>> {
        match json {
            Json::Null => Some(None),
            json => T::kept(json.as_array()?.first()?).map(Some),
        }
    }

    fn missing() -> Option<T> {
        None
    }
}

impl<T: Recordable> Recordable for Vec<T> {
    fn keep(&self) -> Json {
        self.iter().map(T::keep).collect()
    }

    fn kept(json: &Json) -> Option<Vec<T>> {
        json.as_array()?.iter().map(T::kept).collect()
    }

    fn missing() -> Vec<T> {
        Vec::new()
    }
}

impl<T: Recordable, E: Recordable> Recordable for Result<T, E> {
    fn keep(&self) -> Json {
        match self {
            Ok(value) => json!({ "ok": value.keep() }),
            Err(error) => json!({ "error": error.keep() }),
        }
    }

    fn kept(json: &Json) -> Option<Result<T, E>> {
        match json.get("ok") {
            Some(value) => T::kept(value).map(Ok),
            None => E::kept(json.get("error")?).map(Err),
        }
    }

    fn missing() -> Result<T, E> {
        Err(E::missing())
    }
}

impl<A: Recordable, B: Recordable> Recordable for (A, B) {
    fn keep(&self) -> Json {
        json!([self.0.keep(), self.1.keep()])
    }

    fn kept(json: &Json) -> Option<(A, B)> {
        match json.as_array()?.as_slice() {
            [one, other] => Some((A::kept(one)?, B::kept(other)?)),
            _ => None,
        }
    }

    fn missing() -> (A, B) {
        (A::missing(), B::missing())
    }
}

impl Recordable for Source {
    fn keep(&self) -> Json {
        json!({ "name": self.name.as_str(), "text": self.text.as_str() })
    }

    fn kept(json: &Json) -> Option<Source> {
        Some(Source::new(json.get("name")?.as_str()?, json.get("text")?.as_str()?))
    }

    fn missing() -> Source {
        Source::new("", "")
    }
}

impl Recordable for Attributes {
    fn keep(&self) -> Json {
        self.iter().map(|(name, value)| json!([name.as_str(), value.keep()])).collect()
    }

    fn kept(json: &Json) -> Option<Attributes> {
        let pairs: Vec<(EcoString, Value)> = Vec::kept(json)?;
        Some(pairs.into_iter().collect())
    }

    fn missing() -> Attributes {
        Attributes::new()
    }
}

impl Recordable for Difference {
    fn keep(&self) -> Json {
        json!({
            "attribute": self.attribute.as_str(),
            "entry": self.entry.keep(),
            "is": self.is.keep(),
            "should": self.should.keep(),
            "message": self.message.keep(),
            "diff": self.diff.keep(),
        })
    }

    fn kept(json: &Json) -> Option<Difference> {
        Some(Difference {
            attribute: json.get("attribute")?.as_str()?.into(),
            entry: Option::kept(json.get("entry")?)?,
            is: Value::kept(json.get("is")?)?,
            should: Value::kept(json.get("should")?)?,
            message: Option::kept(json.get("message")?)?,
            diff: Option::kept(json.get("diff")?)?,
        })
    }

    fn missing() -> Difference {
        Difference::new("", Value::Undef, Value::Undef)
    }
}

impl Recordable for State {
    fn keep(&self) -> Json {
        json!({
            "name": self.name.as_str(),
            "title": self.title.keep(),
            "exists": self.exists,
            "is_unknown": self.is_unknown,
            "attributes": self.attributes.keep(),
            "drift": self.drift.keep(),
            "outputs": self.outputs.keep(),
            "unreadable": self.unreadable.keep(),
            "unknown": self.unknown.keep(),
        })
    }

    fn kept(json: &Json) -> Option<State> {
        Some(State {
            name: json.get("name")?.as_str()?.into(),
            title: Option::kept(json.get("title")?)?,
            exists: json.get("exists")?.as_bool()?,
            // Recordings of earlier versions do not have it.
            is_unknown: json.get("is_unknown").and_then(Json::as_bool).unwrap_or(false),
            attributes: Attributes::kept(json.get("attributes")?)?,
            drift: Vec::kept(json.get("drift")?)?,
            outputs: Attributes::kept(json.get("outputs")?)?,
            unreadable: Option::kept(json.get("unreadable")?)?,
            // Recordings of earlier versions have none.
            unknown: json.get("unknown").map_or(Some(Vec::new()), Vec::kept)?,
        })
    }

    fn missing() -> State {
        State { unreadable: Some(MISSING.into()), ..State::default() }
    }
}

impl Recordable for Unknown {
    fn keep(&self) -> Json {
        match &self.because {
            UnknownCause::Resource(because) => json!({
                "attribute": self.attribute.as_str(),
                "type": because.resource.type_name.as_str(),
                "title": because.resource.title.as_str(),
                "is_ordered": because.is_ordered,
            }),
            UnknownCause::Refused(why) => json!({ "attribute": self.attribute.as_str(), "refused": why.as_str() }),
        }
    }

    fn kept(json: &Json) -> Option<Unknown> {
        let because = match json.get("refused") {
            Some(why) => UnknownCause::Refused(why.as_str()?.into()),
            None => {
                let resource = ResourceRef::new(json.get("type")?.as_str()?, json.get("title")?.as_str()?);
                Because { resource, is_ordered: json.get("is_ordered")?.as_bool()? }.into()
            }
        };
        Some(Unknown { attribute: json.get("attribute")?.as_str()?.into(), because })
    }

    fn missing() -> Unknown {
        Unknown { attribute: MISSING.into(), because: UnknownCause::Refused(MISSING.into()) }
    }
}

impl Recordable for Outcome {
    fn keep(&self) -> Json {
        json!({
            "failure": self.failure.keep(),
            "fatal": self.fatal,
            "crashed": self.crashed,
            "changed": self.changed.keep(),
            "refreshed": self.refreshed,
            "outputs": self.outputs.keep(),
            "notes": self.notes.keep(),
            "by": self.by.keep(),
            "document": self.document.as_ref().map(Recordable::keep),
        })
    }

    fn kept(json: &Json) -> Option<Outcome> {
        Some(Outcome {
            failure: Option::kept(json.get("failure")?)?,
            fatal: json.get("fatal")?.as_bool()?,
            // Recordings of earlier versions do not have it.
            crashed: json.get("crashed").and_then(Json::as_bool).unwrap_or(false),
            changed: Vec::kept(json.get("changed")?)?,
            refreshed: json.get("refreshed")?.as_bool()?,
            outputs: Attributes::kept(json.get("outputs")?)?,
            notes: Vec::kept(json.get("notes")?)?,
            // Recordings of earlier versions do not have it.
            by: json.get("by").and_then(EcoString::kept).unwrap_or_default(),
            document: json.get("document").filter(|document| !document.is_null()).and_then(Value::kept),
        })
    }

    fn missing() -> Outcome {
        Outcome::failed(MISSING)
    }
}

impl Recordable for Suitability {
    fn keep(&self) -> Json {
        match self {
            Suitability::Suitable => true.into(),
            Suitability::Unsuitable(why) => why.keep(),
        }
    }

    fn kept(json: &Json) -> Option<Suitability> {
        match json {
            Json::Bool(true) => Some(Suitability::Suitable),
            json => EcoString::kept(json).map(Suitability::Unsuitable),
        }
    }

    fn missing() -> Suitability {
        Suitability::Unsuitable(MISSING.into())
    }
}

impl Recordable for Insync {
    fn keep(&self) -> Json {
        match self {
            Insync::Default => json!("default"),
            Insync::Same => json!("same"),
            Insync::Differs(message) => json!({ "differs": message.keep() }),
            Insync::Failed(why) => json!({ "failed": why.keep() }),
        }
    }

    fn kept(json: &Json) -> Option<Insync> {
        match json.as_str() {
            Some("default") => return Some(Insync::Default),
            Some("same") => return Some(Insync::Same),
            Some(_) => return None,
            None => {}
        }
        match json.get("differs") {
            Some(message) => Option::kept(message).map(Insync::Differs),
            None => EcoString::kept(json.get("failed")?).map(Insync::Failed),
        }
    }

    fn missing() -> Insync {
        Insync::Failed(MISSING.into())
    }
}

impl Recordable for ResourceRef {
    fn keep(&self) -> Json {
        self.to_string().into()
    }

    fn kept(json: &Json) -> Option<ResourceRef> {
        let (type_name, title) = ResourceRef::split(json.as_str()?).ok()?;
        Some(ResourceRef::new(type_name, title))
    }

    fn missing() -> ResourceRef {
        ResourceRef::new("", "")
    }
}

const LEVELS: [Level; 8] =
    [Level::Debug, Level::Info, Level::Notice, Level::Warning, Level::Err, Level::Critical, Level::Alert, Level::Emerg];

impl Recordable for Level {
    fn keep(&self) -> Json {
        self.word().into()
    }

    fn kept(json: &Json) -> Option<Level> {
        LEVELS.into_iter().find(|level| Some(level.word()) == json.as_str())
    }

    fn missing() -> Level {
        Level::Debug
    }
}

impl Recordable for PathBuf {
    fn keep(&self) -> Json {
        // The path of a provider is always valid text; other paths are only shown.
        self.to_string_lossy().into()
    }

    fn kept(json: &Json) -> Option<PathBuf> {
        json.as_str().map(PathBuf::from)
    }

    fn missing() -> PathBuf {
        PathBuf::new()
    }
}

impl Recordable for Note {
    fn keep(&self) -> Json {
        json!({ "file": self.file.keep(), "level": self.level.keep(), "message": self.message.keep() })
    }

    fn kept(json: &Json) -> Option<Note> {
        Some(Note {
            file: PathBuf::kept(json.get("file")?)?,
            level: Level::kept(json.get("level")?)?,
            message: EcoString::kept(json.get("message")?)?,
        })
    }

    fn missing() -> Note {
        Note { file: PathBuf::new(), level: Level::Debug, message: EcoString::new() }
    }
}

impl Recordable for FoundScript {
    fn keep(&self) -> Json {
        json!({
            "path": self.path.keep(),
            "stem": self.stem.keep(),
            "file": self.file.keep(),
            "described": self.described.keep(),
            "notes": self.notes.keep(),
            "is_cached": self.is_cached,
        })
    }

    fn kept(json: &Json) -> Option<FoundScript> {
        Some(FoundScript {
            path: PathBuf::kept(json.get("path")?)?,
            stem: EcoString::kept(json.get("stem")?)?,
            file: PathBuf::kept(json.get("file")?)?,
            described: Result::kept(json.get("described")?)?,
            notes: Vec::kept(json.get("notes")?)?,
            // Recordings of earlier versions do not have it.
            is_cached: json.get("is_cached").and_then(Json::as_bool).unwrap_or(false),
        })
    }

    fn missing() -> FoundScript {
        let described = Err(MISSING.into());
        FoundScript {
            path: PathBuf::new(),
            stem: EcoString::new(),
            file: PathBuf::new(),
            described,
            notes: Vec::new(),
            is_cached: false,
        }
    }
}

impl Recordable for Found {
    fn keep(&self) -> Json {
        json!({ "scripts": self.scripts.keep(), "notes": self.notes.keep() })
    }

    fn kept(json: &Json) -> Option<Found> {
        Some(Found { scripts: Vec::kept(json.get("scripts")?)?, notes: Vec::kept(json.get("notes")?)? })
    }

    fn missing() -> Found {
        Found::default()
    }
}
