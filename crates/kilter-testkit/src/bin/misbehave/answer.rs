//! Requests, and how they are answered well.

use std::io::{Read, Write};

/// The calling convention.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Convention {
    Simple,
    Json,
}

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Read,
    Update,
}

/// A request.
pub(crate) struct Request {
    pub(crate) convention: Convention,
    pub(crate) action: Action,
    /// The names that are asked for; `a` when there are none.
    pub(crate) names: Vec<String>,
}

impl Request {
    /// Reads the words, and standard input where there is something to be read.
    pub(crate) fn read(convention: Convention, reads: bool, words: &[String]) -> Option<Request> {
        let action = words.iter().find_map(|word| word.strip_prefix("ral_action="))?;
        let action = match action {
            "list" | "find" | "get" => Action::Read,
            "update" | "set" => Action::Update,
            _ => return None,
        };
        let mut given = String::new();
        if convention == Convention::Json && reads {
            std::io::stdin().read_to_string(&mut given).ok()?;
        }
        let named = words.iter().find_map(|word| word.strip_prefix("name='")?.strip_suffix('\''));
        let listed = given.split_once("\"names\":[").and_then(|(_, rest)| rest.split_once(']'));
        let listed = listed.map(|(names, _)| names.split(',').map(|name| name.trim_matches('"').to_owned()));
        let mut names: Vec<String> = listed.into_iter().flatten().chain(named.map(str::to_owned)).collect();
        names.retain(|name| !name.is_empty());
        if names.is_empty() {
            names.push("a".to_owned());
        }
        Some(Request { convention, action, names })
    }
}

/// Writes to standard output; whoever does not read on is not waited for.
pub(crate) fn print(text: impl AsRef<[u8]>) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(text.as_ref());
    let _ = stdout.flush();
}

/// Resources with these attributes: lines of `simple`, or members of an object.
pub(crate) fn resources(request: &Request, simple: &str, json: &str) -> String {
    let names = request.names.iter();
    match request.convention {
        Convention::Simple => {
            let each: String = names.map(|name| format!("name: {name}\n{simple}")).collect();
            format!("# simple\n{each}")
        }
        Convention::Json => {
            let each: Vec<String> = names.map(|name| format!("{{\"name\":\"{name}\"{json}}}")).collect();
            format!("{{\"resources\":[{}]}}", each.join(","))
        }
    }
}

/// The right answer.
pub(crate) fn good(request: &Request) {
    print(match (request.action, request.convention) {
        (Action::Read, _) => resources(request, "v: 1\n", ",\"v\":\"1\""),
        (Action::Update, Convention::Simple) => "# simple\nral_derive: true\n".to_owned(),
        (Action::Update, Convention::Json) => "{\"derive\":true}".to_owned(),
    });
}
