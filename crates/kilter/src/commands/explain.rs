//! `kilter explain`: the place of a value, and everything that contributed to it.

use std::fmt::Write;
use std::path::PathBuf;

use kilter_manifest::{Contribution, ExplainedValue, Explanation, Part, Sources, Subject};
use kilter_model::{Span, Value, to_json};
use serde_json::{Value as Json, json};

use crate::cli::{ExplainArgs, ReportFormat};
use crate::exit::Exit;
use crate::session::Session;
use crate::{load, output, providers, signals};

/// Maximum length of a value in text, in characters.
const MAX_SHOWN: usize = 100;

pub(crate) fn run(args: &ExplainArgs, session: &Session) -> Exit {
    if let Err(exit) = signals::listen() {
        return exit;
    }
    let mut input = args.input.clone();
    let attribute = attribute(&args.subject, &mut input.manifests);
    let subject = match args.subject.strip_prefix("vars.") {
        Some(name) => Subject::Variable(name),
        None if args.subject.contains('[') => {
            Subject::Resource { reference: &args.subject, attribute: attribute.as_deref() }
        }
        None => {
            let hints = ["name a variable (vars.port) or a resource ('file[/etc/motd]')"];
            return output::fail_with(format_args!("`{}` is neither a variable nor a resource", args.subject), hints);
        }
    };
    if input.manifests.is_empty() {
        let hint = format!("name one or more: kilter explain '{}' site.yaml", args.subject);
        return output::fail_with("there is no manifest", [hint]);
    }
    let registry = match providers::registry(session) {
        Ok(registry) => registry,
        Err(exit) => return exit,
    };
    match load::explain(session, &input, subject, args.format.into(), &registry) {
        Ok((explanation, sources)) => output::data(&match args.format {
            ReportFormat::Human => text(&explanation, &sources),
            ReportFormat::Json => format!("{:#}\n", document(&explanation, &sources)),
        }),
        Err(exit) => exit,
    }
}

/// Takes the attribute out of the arguments: a name before the manifests of a resource.
fn attribute(subject: &str, manifests: &mut Vec<PathBuf>) -> Option<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let first = manifests.first()?.to_str()?.to_owned();
    let is_attribute = subject.contains('[') && manifests.len() > 1 && first.chars().all(is_name);
    is_attribute.then(|| {
        manifests.remove(0);
        first
    })
}

fn text(explanation: &Explanation, sources: &Sources) -> String {
    let mut text = String::new();
    if let Some(resource) = &explanation.resource {
        let _ = writeln!(text, "{resource}");
        for place in &explanation.declared {
            let at = place.span.map(|span| format!(" at {}", sources.locate(span))).unwrap_or_default();
            let _ = writeln!(text, "    {}{at}", place.what);
        }
    }
    for value in &explanation.values {
        add_value(&mut text, value, sources, 0);
    }
    text
}

fn add_value(text: &mut String, explained: &ExplainedValue, sources: &Sources, depth: usize) {
    let indent = "  ".repeat(depth);
    let ExplainedValue { name, value, reason, rule, tried, uses } = explained;
    let shown = match (value, reason) {
        (Some(value), _) => format!(" = {}", short(value)),
        (None, Some(reason)) => format!(": {reason}"),
        (None, None) => String::new(),
    };
    let _ = writeln!(text, "{indent}{name}{shown}");
    if let Some((rule, span)) = rule {
        let at = span.map(|span| format!(" at {}", sources.locate(span))).unwrap_or_default();
        let _ = writeln!(text, "{indent}    merge rule `{rule}`{at}");
    }
    let is_choice = tried.iter().filter(|place| place.value.is_some()).count() > 1;
    for Contribution { what, span, value, part } in tried {
        let at = span.map(|span| sources.locate(span).to_string()).unwrap_or_default();
        let mark = if *part == Part::Used { '*' } else { ' ' };
        let _ = write!(text, "{indent}  {mark} ");
        let is_file = at.strip_prefix(what.as_str()).is_some_and(|rest| rest.starts_with(':'));
        let _ = match part {
            Part::NoFile => write!(text, "{what}  no such file ({at})"),
            Part::NoKey => write!(text, "{what}  has no `{}` ({at})", name.strip_prefix("vars.").unwrap_or(name)),
            _ if is_file => write!(text, "{at}"),
            _ if at.is_empty() => write!(text, "{what}"),
            _ => write!(text, "{at}  {what}"),
        };
        if *part == Part::Overridden {
            text.push_str("  overridden");
        }
        if let Some(value) = value.as_ref().filter(|_| is_choice) {
            let _ = write!(text, "  {}", short(value));
        }
        text.push('\n');
    }
    for used in uses {
        add_value(text, used, sources, depth + 2);
    }
}

/// Returns a value in one line, without secrets.
fn short(value: &Value) -> String {
    let json = to_json(value).to_string();
    match json.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", &json[..end]),
        None => json,
    }
}

fn document(explanation: &Explanation, sources: &Sources) -> Json {
    let values: Vec<Json> = explanation.values.iter().map(|value| value_document(value, sources)).collect();
    let mut document = json!({ "values": values });
    if let Some(resource) = &explanation.resource {
        document["resource"] = resource.as_str().into();
        document["declared"] = explanation.declared.iter().map(|place| place_document(place, sources)).collect();
    }
    document
}

fn value_document(explained: &ExplainedValue, sources: &Sources) -> Json {
    let ExplainedValue { name, value, reason, rule, tried, uses } = explained;
    let mut document = json!({ "name": name.as_str() });
    if let Some(value) = value {
        document["value"] = to_json(value);
    }
    if let (None, Some(reason)) = (value, reason) {
        document["reason"] = reason.as_str().into();
    }
    if let Some((rule, span)) = rule {
        document["merge"] = located(json!({ "rule": rule.as_str() }), *span, sources);
    }
    let place = |tried: &Contribution| {
        let mut place = place_document(tried, sources);
        place["part"] = tried.part.name().into();
        if let Some(value) = &tried.value {
            place["value"] = to_json(value);
        }
        place
    };
    document["tried"] = tried.iter().map(place).collect();
    document["uses"] = uses.iter().map(|used| value_document(used, sources)).collect();
    document
}

fn place_document(place: &Contribution, sources: &Sources) -> Json {
    located(json!({ "what": place.what.as_str() }), place.span, sources)
}

fn located(mut document: Json, span: Option<Span>, sources: &Sources) -> Json {
    if let Some(span) = span {
        let at = sources.locate(span);
        document["file"] = at.file.as_str().into();
        document["line"] = at.line.into();
        document["column"] = at.column.into();
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attribute_is_a_name_before_the_manifests_of_a_resource() {
        for (subject, given, expected) in [
            ("file[/a]", &["mode", "site.yaml"][..], Some("mode")),
            ("file[/a]", &["site.yaml", "mode"], None),
            ("file[/a]", &["site"], None),
            ("vars.x", &["site", "more"], None),
            ("file[/a]", &[], None),
        ] {
            let mut manifests: Vec<PathBuf> = given.iter().map(PathBuf::from).collect();
            assert_eq!(attribute(subject, &mut manifests).as_deref(), expected, "{subject} {given:?}");
            assert_eq!(manifests.len(), given.len() - usize::from(expected.is_some()));
        }
    }
}
