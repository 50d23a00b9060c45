//! Requests to the status server.

use std::time::Duration;

use kilter_model::ResourceRef;
use kilter_runtime::{Pause, StatusFilter};
use serde_json::Value as Json;

use crate::pauses::Ends;

/// Request of a client.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Request {
    Status(StatusFilter),
    Follow,
    /// Pause, and the caller.
    Pause(Pause, Json),
    Resume(Ends),
}

impl Request {
    /// Parses a line.
    pub(super) fn of(question: &str) -> Result<Request, &'static str> {
        const WHAT: &str = "ask {\"ask\": \"status\", \"which\": \"notable\", \"all\" or [REFERENCE, …]}, {\"ask\": \
                            \"follow\"}, \
             {\"ask\": \"pause\", \"for_ms\": N, \"why\": TEXT} or {\"ask\": \"resume\"}";
        let json: Json = serde_json::from_str(question).map_err(|_| WHAT)?;
        match (json["ask"].as_str(), &json["which"]) {
            (Some("follow"), _) => Ok(Request::Follow),
            (Some("resume"), _) => match (&json["id"], &json["session"], json["all"] == true) {
                (_, _, true) => Ok(Request::Resume(Ends::All)),
                (Json::Null, Json::Null, _) => Ok(Request::Resume(Ends::All)),
                (Json::Null, session, _) => {
                    session.as_str().map(|session| Request::Resume(Ends::Session(session.to_owned()))).ok_or(WHAT)
                }
                (id, ..) => id.as_u64().map(|id| Request::Resume(Ends::One(id))).ok_or(WHAT),
            },
            (Some("pause"), _) => {
                let longest = match &json["for_ms"] {
                    Json::Null => None,
                    given => Some(Duration::from_millis(given.as_u64().ok_or(WHAT)?)),
                };
                let why = match &json["why"] {
                    Json::Null => "",
                    given => given.as_str().ok_or(WHAT)?,
                };
                Ok(Request::Pause(Pause { longest, why: why.into() }, json["by"].clone()))
            }
            (Some("status"), Json::Null) => Ok(Request::Status(StatusFilter::Notable)),
            (Some("status"), Json::String(which)) if which == "notable" => Ok(Request::Status(StatusFilter::Notable)),
            (Some("status"), Json::String(which)) if which == "all" => Ok(Request::Status(StatusFilter::All)),
            (Some("status"), Json::Array(names)) => {
                let named = names.iter().map(|name| name.as_str().and_then(|name| name.parse::<ResourceRef>().ok()));
                named.collect::<Option<_>>().map(|named| Request::Status(StatusFilter::Named(named))).ok_or(WHAT)
            }
            _ => Err(WHAT),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_parsed() {
        assert_eq!(Request::of("{\"ask\": \"follow\"}"), Ok(Request::Follow));
        assert_eq!(Request::of("{\"ask\": \"status\"}\n"), Ok(Request::Status(StatusFilter::Notable)));
        assert_eq!(Request::of("{\"ask\": \"status\", \"which\": \"all\"}"), Ok(Request::Status(StatusFilter::All)));
        let named = StatusFilter::Named(vec!["file[/a b]".parse().unwrap()]);
        assert_eq!(Request::of("{\"ask\": \"status\", \"which\": [\"file[/a b]\"]}"), Ok(Request::Status(named)));
        assert_eq!(Request::of("{\"ask\": \"pause\"}"), Ok(Request::Pause(Pause::default(), Json::Null)));
        let pause = Pause { longest: Some(Duration::from_millis(1500)), why: "backup".into() };
        assert_eq!(
            Request::of("{\"ask\": \"pause\", \"for_ms\": 1500, \"why\": \"backup\"}"),
            Ok(Request::Pause(pause, Json::Null))
        );
        assert_eq!(Request::of("{\"ask\": \"resume\"}"), Ok(Request::Resume(Ends::All)));
        assert_eq!(Request::of("{\"ask\": \"resume\", \"id\": 3}"), Ok(Request::Resume(Ends::One(3))));
        assert_eq!(
            Request::of("{\"ask\": \"resume\", \"session\": \"7\"}"),
            Ok(Request::Resume(Ends::Session("7".into())))
        );
        for wrong in ["{\"ask\": \"pause\", \"for_ms\": -1}", "{\"ask\": \"pause\", \"why\": 1}"] {
            assert!(Request::of(wrong).is_err(), "{wrong}");
        }
        for wrong in
            ["", "status", "{}", "{\"ask\": \"status\", \"which\": [1]}", "{\"ask\": \"status\", \"which\": 3}"]
        {
            assert!(Request::of(wrong).is_err(), "{wrong}");
        }
    }
}
