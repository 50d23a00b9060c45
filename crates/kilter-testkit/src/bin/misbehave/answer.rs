//! Requests and answers.

use std::io::{Read, Write};

/// Calling convention.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Convention {
    Simple,
    Json,
    Mold,
}

impl Convention {
    pub(crate) fn of(word: &str) -> Option<Convention> {
        match word {
            "simple" => Some(Convention::Simple),
            "json" => Some(Convention::Json),
            "mold" => Some(Convention::Mold),
            _ => None,
        }
    }
}

/// Kind of request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Read,
    Update,
}

pub(crate) struct ScriptRequest {
    pub(crate) convention: Convention,
    pub(crate) action: Action,
    /// Requested names; `a` if there are none.
    pub(crate) names: Vec<String>,
}

impl ScriptRequest {
    /// Parses the arguments, and standard input if the request has one.
    pub(crate) fn read(convention: Convention, reads: bool, words: &[String]) -> Option<ScriptRequest> {
        let action = match convention {
            Convention::Mold if words.first()? == "inspect" => Action::Read,
            // `conform`, and actions with any name.
            Convention::Mold => Action::Update,
            _ => match words.iter().find_map(|word| word.strip_prefix("ral_action="))? {
                "list" | "find" | "get" => Action::Read,
                "update" | "set" => Action::Update,
                _ => return None,
            },
        };
        let mut given = String::new();
        if convention != Convention::Simple && reads {
            std::io::stdin().read_to_string(&mut given).ok()?;
        }
        let mut names = match convention {
            Convention::Simple => words
                .iter()
                .filter_map(|word| word.strip_prefix("name='")?.strip_suffix('\''))
                .map(str::to_owned)
                .collect(),
            Convention::Json => listed(&given),
            Convention::Mold => given.split_once("\"name\":\"").map(|(_, rest)| up_to(rest, '"')).into_iter().collect(),
        };
        names.retain(|name: &String| !name.is_empty());
        if names.is_empty() {
            names.push("a".to_owned());
        }
        Some(ScriptRequest { convention, action, names })
    }

    /// Returns the text for the convention.
    pub(crate) fn either<'t>(&self, simple: &'t str, json: &'t str, mold: &'t str) -> &'t str {
        match self.convention {
            Convention::Simple => simple,
            Convention::Json => json,
            Convention::Mold => mold,
        }
    }
}

/// Returns the names in a `get` request.
fn listed(given: &str) -> Vec<String> {
    let listed = given.split_once("\"names\":[").map(|(_, rest)| up_to(rest, ']')).unwrap_or_default();
    listed.split(',').map(|name| name.trim_matches('"').to_owned()).collect()
}

fn up_to(text: &str, end: char) -> String {
    text.split(end).next().unwrap_or_default().to_owned()
}

/// Writes to standard output. Returns false if the reader has closed it.
pub(crate) fn print(text: impl AsRef<[u8]>) -> bool {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_ref()).and_then(|()| stdout.flush()).is_ok()
}

/// An attribute with its value in each format.
pub(crate) struct ReportedAttribute<'t> {
    pub(crate) key: &'t str,
    /// As a line.
    pub(crate) text: &'t str,
    /// As JSON.
    pub(crate) json: &'t str,
}

impl<'t> ReportedAttribute<'t> {
    pub(crate) fn new(key: &'t str, text: &'t str, json: &'t str) -> ReportedAttribute<'t> {
        ReportedAttribute { key, text, json }
    }
}

/// Returns an answer with these attributes for all names: the current state, or the changes.
pub(crate) fn telling(request: &ScriptRequest, told: &[ReportedAttribute<'_>]) -> String {
    of_names(request, &request.names, told)
}

/// Returns an answer with these attributes for some names.
pub(crate) fn of_names(request: &ScriptRequest, names: &[impl AsRef<str>], told: &[ReportedAttribute<'_>]) -> String {
    let names = names.iter().map(AsRef::as_ref);
    let is_read = request.action == Action::Read;
    let entry = |one: &ReportedAttribute<'_>| match (is_read, request.convention) {
        (true, Convention::Simple) => format!("{}: {}\n", one.key, one.text),
        (false, Convention::Simple) => format!("{}: {}\nral_was: 1\n", one.key, one.text),
        (true, _) => format!(",\"{}\":{}", one.key, one.json),
        (false, _) => format!(",\"{}\":{{\"is\":{},\"was\":\"1\"}}", one.key, one.json),
    };
    let entries: String = told.iter().map(entry).collect();
    match request.convention {
        Convention::Simple => {
            format!("# simple\n{}", names.map(|name| format!("name: {name}\n{entries}")).collect::<String>())
        }
        Convention::Json => {
            let all: Vec<String> = names.map(|name| format!("{{\"name\":\"{name}\"{entries}}}")).collect();
            let key = if is_read { "resources" } else { "changes" };
            format!("{{\"{key}\":[{}]}}", all.join(","))
        }
        Convention::Mold => {
            let name = names.last().unwrap_or_default();
            match is_read {
                true => format!("{{\"name\":\"{name}\"{entries}}}\n"),
                false => {
                    let entries = entries.strip_prefix(',').unwrap_or(&entries);
                    format!("{{\"name\":\"{name}\",\"changed\":{{{entries}}}}}\n")
                }
            }
        }
    }
}

/// Returns the correct answer.
pub(crate) fn right(request: &ScriptRequest) -> String {
    match (request.action, request.convention) {
        (Action::Read, _) => telling(request, &[ReportedAttribute::new("v", "1", "\"1\"")]),
        (Action::Update, Convention::Simple) => "# simple\nral_derive: true\n".to_owned(),
        (Action::Update, Convention::Json) => "{\"derive\":true}".to_owned(),
        (Action::Update, Convention::Mold) => telling(request, &[ReportedAttribute::new("v", "2", "\"2\"")]),
    }
}

/// Prints the correct answer.
pub(crate) fn good(request: &ScriptRequest) {
    print(right(request));
}
