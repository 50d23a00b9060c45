//! Subject of a query, and the distinction between reads and changes.

use kilter_script::recorded::RecordedExchange;
use serde_json::Value as Json;

use crate::file::Entry;

/// Subject of a query.
pub(crate) struct RecordedSubject {
    /// Type of the resources; empty if there are none.
    type_name: String,
    /// Names of the resources; empty for all.
    names: Vec<String>,
    /// True if the query changes them.
    pub(crate) is_change: bool,
}

impl RecordedSubject {
    pub(crate) fn of(entry: &Entry) -> RecordedSubject {
        match entry {
            Entry::Query { what, of, .. } if what == "provider" => RecordedSubject::of_provider(of),
            Entry::Query { .. } => RecordedSubject { type_name: String::new(), names: Vec::new(), is_change: false },
            Entry::Exchange { exchange, .. } => RecordedSubject::of_exchange(exchange),
        }
    }

    fn of_provider(of: &Json) -> RecordedSubject {
        let text = |json: &Json, key: &str| json.get(key).and_then(Json::as_str).map(str::to_owned);
        let about = &of["about"];
        let one = text(about, "name").or_else(|| text(&about["of"], "name"));
        let several = about.as_array().into_iter().flatten().filter_map(|each| text(each, "name"));
        RecordedSubject {
            type_name: text(of, "type").unwrap_or_default(),
            names: one.into_iter().chain(several).collect(),
            is_change: matches!(of["call"].as_str(), Some("set" | "refresh" | "act")),
        }
    }

    fn of_exchange(exchange: &RecordedExchange) -> RecordedSubject {
        // Facts and actors of mold have no action.
        let is_read = matches!(exchange.action.as_str(), "" | "describe" | "list" | "find" | "get" | "inspect");
        RecordedSubject { type_name: exchange.type_name.to_string(), names: exchange.names(), is_change: !is_read }
    }

    /// Returns true if both concern the same resource.
    pub(crate) fn concerns(&self, other: &RecordedSubject) -> bool {
        let is_any = self.names.is_empty() || other.names.is_empty();
        self.type_name == other.type_name && (is_any || self.names.iter().any(|name| other.names.contains(name)))
    }
}
