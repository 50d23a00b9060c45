//! Difference of the managed machine between two times.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use kilter_history::{EventKind, History, HistoryEvent, Order, Selection};
use serde_json::{Value as Json, json};

use super::timeline;
use crate::cli::ReportFormat;
use crate::exit::Exit;
use crate::output;
use crate::past::{refuse, time};
use crate::style::{FAINT, NAME, styled};
use crate::visible::visible;

/// Value of an attribute at the first and at the second time.
struct ValuesAtTimes {
    old: Json,
    new: Json,
    /// True if only the words of the provider are known.
    is_told: bool,
    changes: u64,
}

/// Values by entry and attribute.
type Attributes = BTreeMap<(String, String), ValuesAtTimes>;

/// Attributes by type and title.
type Changes = BTreeMap<(String, String), Attributes>;

/// Shows the difference.
pub(super) fn run(history: &History, from: &str, to: &str, format: ReportFormat) -> Result<Exit, Exit> {
    let (from, to) = (time::parsed(from)?, time::parsed(to)?);
    if from > to {
        return Err(output::fail_with("the first time is later than the second", ["exchange them"]));
    }
    // A change at the first time is part of the machine at this time. The same holds for the second time.
    let [since, until] = [from, to].map(|time| Some(time.saturating_add(1)));
    let selection = Selection { since, until, order: Order::Ascending, ..Selection::default() };
    let mut all = Changes::new();
    let mut add = |event: HistoryEvent| {
        add_changes(&mut all, event);
        ControlFlow::Continue(())
    };
    history.events(&selection, &mut add).map_err(|error| refuse(&error))?;
    // A value that came back is no difference.
    for attributes in all.values_mut() {
        // A resource that did not exist at both times has no attributes.
        let is_absent = attributes
            .get(&(String::new(), "ensure".to_owned()))
            .is_some_and(|ensure| ensure.old == "absent" && ensure.new == "absent");
        attributes.retain(|_, values| values.old != values.new && !is_absent);
    }
    all.retain(|_, attributes| !attributes.is_empty());
    Ok(match format {
        ReportFormat::Json => output::data(&format!("{:#}\n", document(&all, from, to))),
        ReportFormat::Human => {
            if all.is_empty() {
                output::line("no managed resource differs");
            }
            output::data(&all.iter().map(|(resource, attributes)| shown(resource, attributes)).collect::<String>())
        }
    })
}

fn add_changes(all: &mut Changes, event: HistoryEvent) {
    let Some(resource) =
        event.resource.filter(|_| event.kind == EventKind::Outcome && event.body["status"] == "changed")
    else {
        return;
    };
    let attributes = all.entry(resource).or_default();
    for change in event.body["changes"].as_array().into_iter().flatten() {
        let text = |key: &str| change[key].as_str().unwrap_or_default().to_owned();
        let is_told = change["old"].is_null() && change["new"].is_null();
        let (old, new) = match is_told {
            // Only the provider's words are known.
            true => (Json::Null, change["message"].clone()),
            false => (change["old"].clone(), change["new"].clone()),
        };
        let known = attributes.entry((text("entry"), text("attribute")));
        let values = known.or_insert(ValuesAtTimes { old, new: Json::Null, is_told, changes: 0 });
        values.new = new;
        values.changes += 1;
    }
}

fn shown((type_name, title): &(String, String), attributes: &BTreeMap<(String, String), ValuesAtTimes>) -> String {
    let mut text = format!("{}\n", styled(NAME, visible(&format!("{type_name}[{title}]"))));
    for ((entry, attribute), values) in attributes {
        let entry = if entry.is_empty() { String::new() } else { format!("{}: ", visible(entry)) };
        let times = match values.changes {
            1 => String::new(),
            n => styled(FAINT, format!(" ({n} changes)")),
        };
        let change = match values.is_told {
            true => timeline::value(&values.new),
            false => format!("{} → {}", timeline::value(&values.old), timeline::value(&values.new)),
        };
        text += &format!("    {entry}{}: {change}{times}\n", visible(attribute));
    }
    text
}

fn document(all: &Changes, from: i64, to: i64) -> Json {
    let resource = |((type_name, title), attributes): (&(String, String), &Attributes)| {
        let changes = attributes.iter().map(|((entry, attribute), values)| {
            let mut change = json!({
                "attribute": attribute,
                "old": values.old,
                "new": values.new,
                "changes": values.changes,
            });
            if !entry.is_empty() {
                change["entry"] = entry.as_str().into();
            }
            change
        });
        json!({ "resource": format!("{type_name}[{title}]"), "changes": changes.collect::<Vec<_>>() })
    };
    json!({
        "from": time::exact(from),
        "to": time::exact(to),
        "resources": all.iter().map(resource).collect::<Vec<_>>(),
    })
}
