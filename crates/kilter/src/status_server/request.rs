//! Requests to the status server.

use std::time::Duration;

use kilter_model::ResourceRef;
use kilter_runtime::{Pause, StatusFilter};
use serde_json::Value as Json;

use crate::pauses::PauseSelection;

/// Request of a client.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StatusRequest {
    Status(StatusFilter),
    Follow,
    /// Pause, and the caller.
    Pause(Pause, Json),
    Resume(PauseSelection),
    /// Lend the state directory to a command, with the digests of its declarations.
    Lend {
        by: String,
        declared: Json,
    },
}

impl StatusRequest {
    /// Parses a line.
    pub(super) fn parse(line: &str) -> Result<StatusRequest, &'static str> {
        const USAGE: &str = "expected {\"request\": \"status\", \"filter\": \"notable\", \"all\" or [REFERENCE, …]}, \
                             {\"request\": \"follow\"}, {\"request\": \"pause\", \"for_ms\": N, \"why\": TEXT} or \
                             {\"request\": \"resume\"}";
        let json: Json = serde_json::from_str(line).map_err(|_| USAGE)?;
        match (json["request"].as_str(), &json["filter"]) {
            (Some("follow"), _) => Ok(StatusRequest::Follow),
            (Some("resume"), _) => match (&json["id"], &json["session"], json["all"] == true) {
                (_, _, true) => Ok(StatusRequest::Resume(PauseSelection::All)),
                (Json::Null, Json::Null, _) => Ok(StatusRequest::Resume(PauseSelection::All)),
                (Json::Null, session, _) => session
                    .as_str()
                    .map(|session| StatusRequest::Resume(PauseSelection::Session(session.to_owned())))
                    .ok_or(USAGE),
                (id, ..) => id.as_u64().map(|id| StatusRequest::Resume(PauseSelection::One(id))).ok_or(USAGE),
            },
            (Some("pause"), _) => {
                let longest = match &json["for_ms"] {
                    Json::Null => None,
                    given => Some(Duration::from_millis(given.as_u64().ok_or(USAGE)?)),
                };
                let why = match &json["why"] {
                    Json::Null => "",
                    given => given.as_str().ok_or(USAGE)?,
                };
                Ok(StatusRequest::Pause(Pause { longest, why: why.into(), is_loan: false }, json["by"].clone()))
            }
            (Some("lend"), _) => {
                let by = json["by"].as_str().unwrap_or("unknown").chars().take(200).collect();
                Ok(StatusRequest::Lend { by, declared: json["declared"].clone() })
            }
            (Some("status"), Json::Null) => Ok(StatusRequest::Status(StatusFilter::Notable)),
            (Some("status"), Json::String(filter)) if filter == "notable" => {
                Ok(StatusRequest::Status(StatusFilter::Notable))
            }
            (Some("status"), Json::String(filter)) if filter == "all" => Ok(StatusRequest::Status(StatusFilter::All)),
            (Some("status"), Json::Array(names)) => {
                let named = names.iter().map(|name| name.as_str().and_then(|name| name.parse::<ResourceRef>().ok()));
                named.collect::<Option<_>>().map(|named| StatusRequest::Status(StatusFilter::Named(named))).ok_or(USAGE)
            }
            _ => Err(USAGE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_parsed() {
        assert_eq!(StatusRequest::parse("{\"request\": \"follow\"}"), Ok(StatusRequest::Follow));
        assert_eq!(
            StatusRequest::parse("{\"request\": \"status\"}\n"),
            Ok(StatusRequest::Status(StatusFilter::Notable))
        );
        assert_eq!(
            StatusRequest::parse("{\"request\": \"status\", \"filter\": \"all\"}"),
            Ok(StatusRequest::Status(StatusFilter::All))
        );
        let named = StatusFilter::Named(vec!["file[/a b]".parse().unwrap()]);
        assert_eq!(
            StatusRequest::parse("{\"request\": \"status\", \"filter\": [\"file[/a b]\"]}"),
            Ok(StatusRequest::Status(named))
        );
        assert_eq!(
            StatusRequest::parse("{\"request\": \"pause\"}"),
            Ok(StatusRequest::Pause(Pause::default(), Json::Null))
        );
        let pause = Pause { longest: Some(Duration::from_millis(1500)), why: "backup".into(), is_loan: false };
        assert_eq!(
            StatusRequest::parse("{\"request\": \"pause\", \"for_ms\": 1500, \"why\": \"backup\"}"),
            Ok(StatusRequest::Pause(pause, Json::Null))
        );
        assert_eq!(StatusRequest::parse("{\"request\": \"resume\"}"), Ok(StatusRequest::Resume(PauseSelection::All)));
        assert_eq!(
            StatusRequest::parse("{\"request\": \"resume\", \"id\": 3}"),
            Ok(StatusRequest::Resume(PauseSelection::One(3)))
        );
        assert_eq!(
            StatusRequest::parse("{\"request\": \"resume\", \"session\": \"7\"}"),
            Ok(StatusRequest::Resume(PauseSelection::Session("7".into())))
        );
        for wrong in ["{\"request\": \"pause\", \"for_ms\": -1}", "{\"request\": \"pause\", \"why\": 1}"] {
            assert!(StatusRequest::parse(wrong).is_err(), "{wrong}");
        }
        for wrong in [
            "",
            "status",
            "{}",
            "{\"request\": \"status\", \"filter\": [1]}",
            "{\"request\": \"status\", \"filter\": 3}",
        ] {
            assert!(StatusRequest::parse(wrong).is_err(), "{wrong}");
        }
    }
}
