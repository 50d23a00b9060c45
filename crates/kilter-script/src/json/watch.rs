//! Lines of a watch.

use ecow::EcoString;
use serde_json::Value as Json;

use crate::convention::{LineParser, ProtocolError, WatchLine};

/// Expectation in messages.
const EXPECTED: &str =
    "a watch prints {\"watching\": true} first, then {\"changed\": [NAME, …]} or {\"changed\": true} for any";

/// Returns the parser. `{"watching": true}` starts the watch. `{"changed": ["a", "b"]}` reports changes of
/// these resources, and `{"changed": true}` of any resource.
pub(crate) fn listener() -> LineParser {
    let mut watches = false;
    Box::new(move |number, line| {
        if line.trim().is_empty() {
            return Ok(WatchLine::Nothing);
        }
        let heard = parse_line(line).filter(|heard| watches || *heard == WatchLine::Watching);
        watches |= heard.is_some();
        heard.ok_or_else(|| ProtocolError::line(number, line, EXPECTED))
    })
}

fn parse_line(line: &str) -> Option<WatchLine> {
    let Json::Object(said) = serde_json::from_str(line).ok()? else { return None };
    match (said.get("watching"), said.get("changed")) {
        (Some(Json::Bool(true)), None) => Some(WatchLine::Watching),
        (None, Some(Json::Bool(any))) => Some(if *any { WatchLine::Anything } else { WatchLine::Nothing }),
        (None, Some(Json::Array(names))) => {
            let names = names.iter().map(|name| name.as_str().map(EcoString::from));
            Some(WatchLine::Changed(names.collect::<Option<_>>()?))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watch_lines_name_changed_resources() {
        let mut listener = listener();
        for line in ["{\"changed\": true}", "[]", "{", "{\"watching\": 1}"] {
            assert!(listener(3, line).unwrap_err().to_string().contains("line 3"), "{line}");
        }
        let mut said = |line: &str| listener(1, line);
        assert_eq!(said(" "), Ok(WatchLine::Nothing));
        assert_eq!(said("{\"watching\": true}"), Ok(WatchLine::Watching));
        assert_eq!(said("{\"changed\": [\"a\", \"b\"]}"), Ok(WatchLine::Changed(vec!["a".into(), "b".into()])));
        assert_eq!(said("{\"changed\": true}"), Ok(WatchLine::Anything));
        assert!(said("{\"changed\": [1]}").is_err() && said("{\"name\": \"a\"}").is_err());
    }
}
