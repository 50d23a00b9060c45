//! Answers of providers and scripts: resources, changes, metadata.

use std::path::PathBuf;

use ecow::EcoString;
use kilter_model::{Attributes, Because, Difference, Outcome, ResourceRef, State, Unknown, UnknownCause, Value};
use kilter_provider::{Insync, Level, Preference, Suitability};
use kilter_script::{Found, FoundScript, Note};
use serde_json::{Value as Json, json};

use crate::recordable::{MISSING, Recordable};

impl Recordable for Attributes {
    fn to_json(&self) -> Json {
        self.iter().map(|(name, value)| json!([name.as_str(), value.to_json()])).collect()
    }

    fn from_json(json: &Json) -> Option<Attributes> {
        let pairs: Vec<(EcoString, Value)> = Vec::from_json(json)?;
        Some(pairs.into_iter().collect())
    }

    fn missing() -> Attributes {
        Attributes::new()
    }
}

impl Recordable for Difference {
    fn to_json(&self) -> Json {
        json!({
            "attribute": self.attribute.as_str(),
            "entry": self.entry.to_json(),
            "is": self.is.to_json(),
            "should": self.should.to_json(),
            "message": self.message.to_json(),
            "diff": self.diff.to_json(),
        })
    }

    fn from_json(json: &Json) -> Option<Difference> {
        Some(Difference {
            attribute: json.get("attribute")?.as_str()?.into(),
            entry: Option::from_json(json.get("entry")?)?,
            is: Value::from_json(json.get("is")?)?,
            should: Value::from_json(json.get("should")?)?,
            message: Option::from_json(json.get("message")?)?,
            diff: Option::from_json(json.get("diff")?)?,
        })
    }

    fn missing() -> Difference {
        Difference::new("", Value::Undef, Value::Undef)
    }
}

impl Recordable for State {
    fn to_json(&self) -> Json {
        json!({
            "name": self.name.as_str(),
            "title": self.title.to_json(),
            "exists": self.exists,
            "is_unknown": self.is_unknown,
            "attributes": self.attributes.to_json(),
            "drift": self.drift.to_json(),
            "outputs": self.outputs.to_json(),
            "unreadable": self.unreadable.to_json(),
            "unknown": self.unknown.to_json(),
        })
    }

    fn from_json(json: &Json) -> Option<State> {
        Some(State {
            name: json.get("name")?.as_str()?.into(),
            title: Option::from_json(json.get("title")?)?,
            exists: json.get("exists")?.as_bool()?,
            // Recordings of earlier versions do not have it.
            is_unknown: json.get("is_unknown").and_then(Json::as_bool).unwrap_or(false),
            attributes: Attributes::from_json(json.get("attributes")?)?,
            drift: Vec::from_json(json.get("drift")?)?,
            outputs: Attributes::from_json(json.get("outputs")?)?,
            unreadable: Option::from_json(json.get("unreadable")?)?,
            // Recordings of earlier versions have none.
            unknown: json.get("unknown").map_or(Some(Vec::new()), Vec::from_json)?,
        })
    }

    fn missing() -> State {
        State { unreadable: Some(MISSING.into()), ..State::default() }
    }
}

impl Recordable for Unknown {
    fn to_json(&self) -> Json {
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

    fn from_json(json: &Json) -> Option<Unknown> {
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
    fn to_json(&self) -> Json {
        json!({
            "failure": self.failure.to_json(),
            "fatal": self.fatal,
            "crashed": self.crashed,
            "changed": self.changed.to_json(),
            "refreshed": self.refreshed,
            "outputs": self.outputs.to_json(),
            "notes": self.notes.to_json(),
            "by": self.by.to_json(),
            "document": self.document.as_ref().map(Recordable::to_json),
        })
    }

    fn from_json(json: &Json) -> Option<Outcome> {
        Some(Outcome {
            failure: Option::from_json(json.get("failure")?)?,
            fatal: json.get("fatal")?.as_bool()?,
            // Recordings of earlier versions do not have it.
            crashed: json.get("crashed").and_then(Json::as_bool).unwrap_or(false),
            changed: Vec::from_json(json.get("changed")?)?,
            refreshed: json.get("refreshed")?.as_bool()?,
            outputs: Attributes::from_json(json.get("outputs")?)?,
            notes: Vec::from_json(json.get("notes")?)?,
            // Recordings of earlier versions do not have it.
            by: json.get("by").and_then(EcoString::from_json).unwrap_or_default(),
            document: json.get("document").filter(|document| !document.is_null()).and_then(Value::from_json),
        })
    }

    fn missing() -> Outcome {
        Outcome::failed(MISSING)
    }
}

impl Recordable for Preference {
    fn to_json(&self) -> Json {
        match self {
            Preference::Default => true.into(),
            Preference::Normal => Json::Null,
            Preference::Last => "last".into(),
            Preference::NamedOnly => false.into(),
        }
    }

    fn from_json(json: &Json) -> Option<Preference> {
        Some(match json {
            Json::Bool(true) => Preference::Default,
            Json::Bool(false) => Preference::NamedOnly,
            Json::String(_) => Preference::Last,
            _ => Preference::Normal,
        })
    }

    fn missing() -> Preference {
        Preference::Normal
    }
}

impl Recordable for Suitability {
    fn to_json(&self) -> Json {
        match self {
            Suitability::Suitable => true.into(),
            Suitability::Unsuitable(why) => why.to_json(),
        }
    }

    fn from_json(json: &Json) -> Option<Suitability> {
        match json {
            Json::Bool(true) => Some(Suitability::Suitable),
            json => EcoString::from_json(json).map(Suitability::Unsuitable),
        }
    }

    fn missing() -> Suitability {
        Suitability::Unsuitable(MISSING.into())
    }
}

impl Recordable for Insync {
    fn to_json(&self) -> Json {
        match self {
            Insync::Default => json!("default"),
            Insync::Same => json!("same"),
            Insync::Differs(message) => json!({ "differs": message.to_json() }),
            Insync::Failed(why) => json!({ "failed": why.to_json() }),
        }
    }

    fn from_json(json: &Json) -> Option<Insync> {
        match json.as_str() {
            Some("default") => return Some(Insync::Default),
            Some("same") => return Some(Insync::Same),
            Some(_) => return None,
            None => {}
        }
        match json.get("differs") {
            Some(message) => Option::from_json(message).map(Insync::Differs),
            None => EcoString::from_json(json.get("failed")?).map(Insync::Failed),
        }
    }

    fn missing() -> Insync {
        Insync::Failed(MISSING.into())
    }
}

impl Recordable for ResourceRef {
    fn to_json(&self) -> Json {
        self.to_string().into()
    }

    fn from_json(json: &Json) -> Option<ResourceRef> {
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
    fn to_json(&self) -> Json {
        self.word().into()
    }

    fn from_json(json: &Json) -> Option<Level> {
        LEVELS.into_iter().find(|level| Some(level.word()) == json.as_str())
    }

    fn missing() -> Level {
        Level::Debug
    }
}

impl Recordable for Note {
    fn to_json(&self) -> Json {
        json!({ "file": self.file.to_json(), "level": self.level.to_json(), "message": self.message.to_json() })
    }

    fn from_json(json: &Json) -> Option<Note> {
        Some(Note {
            file: PathBuf::from_json(json.get("file")?)?,
            level: Level::from_json(json.get("level")?)?,
            message: EcoString::from_json(json.get("message")?)?,
        })
    }

    fn missing() -> Note {
        Note { file: PathBuf::new(), level: Level::Debug, message: EcoString::new() }
    }
}

impl Recordable for FoundScript {
    fn to_json(&self) -> Json {
        json!({
            "path": self.path.to_json(),
            "stem": self.stem.to_json(),
            "file": self.file.to_json(),
            "described": self.described.to_json(),
            "notes": self.notes.to_json(),
            "is_cached": self.is_cached,
        })
    }

    fn from_json(json: &Json) -> Option<FoundScript> {
        Some(FoundScript {
            path: PathBuf::from_json(json.get("path")?)?,
            stem: EcoString::from_json(json.get("stem")?)?,
            file: PathBuf::from_json(json.get("file")?)?,
            described: Result::from_json(json.get("described")?)?,
            notes: Vec::from_json(json.get("notes")?)?,
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
    fn to_json(&self) -> Json {
        json!({ "scripts": self.scripts.to_json(), "notes": self.notes.to_json() })
    }

    fn from_json(json: &Json) -> Option<Found> {
        Some(Found { scripts: Vec::from_json(json.get("scripts")?)?, notes: Vec::from_json(json.get("notes")?)? })
    }

    fn missing() -> Found {
        Found::default()
    }
}
