//! Validation and canonical form of a declared file.

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Value};
use kilter_provider::{AutoEdge, Declared, Match, ValidationError};

use super::acl_entry::{self, DeclaredEntry};
use super::spec::{expected, source_path};
use super::{mode, open, validate_cmd};
use crate::accounts::{number, number_of, number_problem};
use crate::value_text::{sealed_like, texts};

/// Returns the problems that the schema cannot detect.
pub(super) fn validate(name: &str, should: &Attributes, deferred: &[&str]) -> Vec<ValidationError> {
    let mut problems = Vec::new();
    let given = |attribute: &str| should.get(attribute).is_some() || deferred.contains(&attribute);
    let path = should.text("path").unwrap_or(name);
    if !open::is_normal(path) {
        problems.push(not_normal("path", path));
    }
    if let Some(source) = source_path(should).filter(|source| !open::is_normal(source)) {
        let problem = not_normal("source", source);
        problems.push(match source.starts_with('/') {
            true => problem,
            false => problem.hint(
                "a file beside the manifest is `content: { file: PATH }`; `source` is a path of the machine, from `/`",
            ),
        });
    }
    problems.extend(download(should));
    let fragments = texts(should.get("fragments"));
    problems.extend(
        fragments.iter().filter(|path| !open::is_normal(open::trim(path))).map(|path| not_normal("fragments", path)),
    );
    let own = open::trim(path);
    let within = |fragment: &&EcoString| {
        let fragment = open::trim(fragment);
        fragment == own || open::is_within(own, fragment)
    };
    problems.extend(fragments.iter().find(within).map(|path| {
        let problem = ValidationError::with(
            "fragments",
            eco_format!("the file is itself within `{path}`: it would grow without end"),
        );
        problem.hint(OUTSIDE)
    }));
    problems.extend(entangled(open::trim(path), should));
    exclusions(&given, &mut problems);
    match should.text("ensure") {
        // `owner`, `mode` and the like may be defaults: they apply as soon as the path exists.
        Some("absent") => unused(&given, "absent", &["content", "source", "fragments", "target"], &mut problems),
        Some("directory") => {
            unused(&given, "directory", &["content", "fragments", "target", "validate_cmd"], &mut problems)
        }
        Some("link") => {
            unused(&given, "link", &["content", "source", "fragments", "mode", "acl", "validate_cmd"], &mut problems)
        }
        Some("file") => unused(&given, "file", &["target"], &mut problems),
        _ => {}
    }
    tree(should, &given, &mut problems);
    values(should, &given, &mut problems);
    problems
}

pub(super) fn not_normal(attribute: &str, path: &str) -> ValidationError {
    let problem =
        ValidationError::with(attribute, eco_format!("`{path}` is not an absolute path without `.`, `..` and `//`"));
    match path.starts_with('/') {
        true => problem.hint("write the path without `.`, `..` and double slashes"),
        false => problem.hint("begin the path with `/`"),
    }
}

/// Returns the problems of a source on a server, and of its checksum.
fn download(should: &Attributes) -> Vec<ValidationError> {
    let mut problems = Vec::new();
    let checksum = should.text("checksum");
    let has_expected = checksum.is_some_and(|checksum| expected(checksum).is_some());
    if let Some(checksum) = checksum.filter(|checksum| !is_method(checksum) && expected(checksum).is_none()) {
        let problem = ValidationError::with("checksum", eco_format!("`{checksum}` is no checksum"));
        problems.push(problem.hint("write the 64 digits of SHA-256 or the 128 digits of SHA-512"));
    }
    let Some(url) = should.text("source").filter(|source| kilter_fetch::is_url(source)) else {
        if has_expected {
            let problem = ValidationError::with("checksum", "the digits of a checksum need a `source` on a server");
            problems.push(problem.hint("a local source is compared byte by byte: remove `checksum`"));
        }
        return problems;
    };
    if let Err(problem) = kilter_fetch::check_url(url) {
        problems.push(ValidationError::with("source", problem));
    } else if !has_expected && !kilter_fetch::is_protected(url) {
        let problem = ValidationError::with("source", "anyone on the way can change a content from http://");
        problems.push(problem.hint("write https://, or add `checksum` with the digits of SHA-256"));
    }
    if let Some(method @ ("mtime" | "size")) = checksum {
        let problem = ValidationError::with("checksum", eco_format!("`{method}` compares local files only"));
        problems.push(problem.hint("write the digits of SHA-256, or remove `checksum`"));
    }
    if ["recurse", "purge"].iter().any(|word| should.get_bool(word) == Some(true)) {
        problems.push(ValidationError::with("source", "a server has no directories to copy").hint("remove `recurse`"));
    }
    problems
}

fn is_method(checksum: &str) -> bool {
    matches!(checksum, "sha256" | "sha512" | "mtime" | "size" | "none")
}

/// Returns the problem of a source within its copy, or of a copy within its source.
fn entangled(path: &str, should: &Attributes) -> Option<ValidationError> {
    let source = open::trim(source_path(should)?);
    let recurse = should.get_bool("recurse") == Some(true);
    let purge = should.get_bool("purge") == Some(true);
    let (message, hint) = if source == path {
        (eco_format!("the source is the file itself"), "give the path to copy from")
    } else if recurse && open::is_within(path, source) {
        (eco_format!("`{path}` lies within its source `{source}`: the copy would hold itself"), OUTSIDE)
    } else if purge && open::is_within(source, path) {
        (eco_format!("the source `{source}` lies within `{path}`, where it would be removed (purge)"), OUTSIDE)
    } else {
        return None;
    };
    Some(ValidationError::with("source", message).hint(hint))
}

const OUTSIDE: &str = "copy from a directory that lies elsewhere";

fn exclusions(given: &dyn Fn(&str) -> bool, problems: &mut Vec<ValidationError>) {
    let kinds = ["content", "source", "fragments", "target"].into_iter().filter(|attribute| given(attribute));
    let kinds: Vec<_> = kinds.collect();
    if let [first, second, ..] = kinds[..] {
        problems.push(
            ValidationError::with(second, eco_format!("`{first}` and `{second}` exclude each other"))
                .hint("keep the one that the content is to come from"),
        );
    }
}

fn unused(given: &dyn Fn(&str) -> bool, ensure: &str, attributes: &[&str], problems: &mut Vec<ValidationError>) {
    for attribute in attributes.iter().filter(|attribute| given(attribute)) {
        let problem =
            ValidationError::with(attribute, eco_format!("`{attribute}` has no meaning with `ensure: {ensure}`"));
        problems.push(match (ensure, *attribute) {
            ("absent", _) => problem.hint(eco_format!("remove `{attribute}`, or `ensure: absent`")),
            (_, "target") => problem.hint("a link needs `ensure: link`"),
            ("link", "mode") => problem.hint("links have no mode; declare the target"),
            ("link", "acl") => problem.hint("links have no access list; declare the target"),
            _ => problem.hint("`content`, `source`, `fragments` and `validate_cmd` are for `ensure: file`"),
        });
    }
}

fn tree(should: &Attributes, given: &dyn Fn(&str) -> bool, problems: &mut Vec<ValidationError>) {
    let ensure = should.text("ensure");
    let recurse = should.get_bool("recurse") == Some(true);
    for attribute in ["recurse", "purge"] {
        if should.get_bool(attribute) == Some(true) && !may_be_directory(should, given) {
            let problem =
                ValidationError::with(attribute, eco_format!("`{attribute}` has no meaning without a directory"));
            problems.push(problem.hint("add `ensure: directory`"));
        }
    }
    if ensure == Some("directory") && given("source") && !recurse && !given("recurse") {
        let problem = ValidationError::with("source", "a directory is copied only with `recurse`");
        problems.push(problem.hint("add `recurse: true`"));
    }
    if given("target") && ensure.is_none_or(|ensure| ensure == "present") && recurse {
        problems.push(ValidationError::with("target", "`target` is for links").hint("a link needs `ensure: link`"));
    }
    if ensure == Some("link") && !given("target") {
        problems.push(ValidationError::new("a link needs a `target`").hint("add `target: /where/it/points`"));
    }
}

fn may_be_directory(should: &Attributes, given: &dyn Fn(&str) -> bool) -> bool {
    match should.text("ensure") {
        Some("directory" | "absent") => true,
        Some("file" | "link") => false,
        _ => !given("content") && !given("fragments") && !given("target"),
    }
}

fn values(should: &Attributes, given: &dyn Fn(&str) -> bool, problems: &mut Vec<ValidationError>) {
    if let Some(text) = should.text("mode")
        && mode::DeclaredMode::parse(text).is_none()
    {
        let problem = ValidationError::with("mode", eco_format!("`{text}` is not a mode"));
        problems.push(problem.hint("octal digits such as \"0644\", or symbols such as \"u=rwX,g=rX,o=\""));
    }
    problems.extend(backup_suffix(should));
    if should.get_bool("backup") == Some(true) && should.get("content").is_some_and(Value::holds_sensitive) {
        let message = "a sensitive content is not backed up, because the backup is not encrypted";
        problems.push(ValidationError::with("backup", message).hint("a suffix such as \".orig\", or false"));
    }
    if let Some(checksum) = should.text("checksum")
        && matches!(checksum, "mtime" | "size" | "none")
        && !given("source")
    {
        let problem = ValidationError::with("checksum", eco_format!("`checksum: {checksum}` needs a `source`"));
        problems.push(problem.hint("declared content is always compared byte by byte"));
    }
    if let Some(target) = should.get("target").and_then(Value::as_bytes)
        && (target.is_empty() || target.contains(&0))
    {
        problems
            .push(ValidationError::with("target", "a link cannot point to nothing").hint("give the path it points to"));
    }
    acl(should, problems);
    accounts(should, problems);
    validate_cmd(should, given, problems);
}

fn acl(should: &Attributes, problems: &mut Vec<ValidationError>) {
    let Some(acl) = should.get("acl") else { return };
    if acl.as_str() == Some("keep") && should.get("content").is_some_and(Value::holds_sensitive) {
        let message = "with a sensitive content, an undeclared list cannot be kept";
        problems
            .push(ValidationError::with("acl", message).hint("name the permitted users: `acl: { managed: [...] }`"));
    }
    let entries: Vec<_> = acl_entry::managed(acl).iter().filter_map(|text| DeclaredEntry::parse(text)).collect();
    let has_mask = entries.iter().any(DeclaredEntry::is_mask);
    let names_anybody = entries.iter().any(DeclaredEntry::names_access);
    let digit = |bits: u32| bits >> 3 & 7;
    // The least and the most that the mode leaves to the mask.
    let limits = should.text("mode").and_then(mode::DeclaredMode::parse).map(|mode| {
        let of = |current| digit(mode.apply(current, true));
        (of(0), of(0o777))
    });
    let is_directory = should.text("ensure") == Some("directory")
        || ["recurse", "purge"].iter().any(|word| should.get_bool(word) == Some(true));
    let mut seen: Vec<EcoString> = Vec::new();
    for text in acl_entry::managed(acl) {
        let Some(entry) = DeclaredEntry::parse(&text) else {
            let problem = ValidationError::with("acl", eco_format!("`{text}` is not an entry of an access list"));
            problems.push(problem.hint(
                "an entry is `user:NAME:rwx` or `group:NAME:r-x`, with `default:` before it for new files; the mode \
                 has the rest",
            ));
            continue;
        };
        if entry.is_default && !is_directory {
            let problem = ValidationError::with("acl", eco_format!("`{text}` is for new files in a directory"));
            problems.push(problem.hint("add `ensure: directory`, or take `default:` out"));
        }
        let mode = should.text("mode").unwrap_or_default();
        if entry.is_mask() && !names_anybody {
            let problem = ValidationError::with("acl", eco_format!("`{text}` limits no entry of a user or group"));
            problems.push(problem.hint("add the entries, or declare the permissions of the group with `mode`"));
        } else if entry.is_mask()
            && let Some((least, most)) = limits
            && (least & !entry.permissions != 0 || entry.permissions & !most != 0)
        {
            let problem = ValidationError::with("acl", eco_format!("`{text}` contradicts the mode {mode}"));
            problems.push(problem.hint("the group digit of the mode is the mask; declare one of both"));
        }
        if let Some((_, group)) = limits
            && entry.names_access()
            && !has_mask
            && entry.permissions & !group != 0
        {
            let message = match mode::octal(mode) {
                Some(_) => eco_format!(
                    "`{text}` gives more than the mask, which is the group digit {group} of the mode {mode}"
                ),
                None => eco_format!("`{text}` gives more than the mode {mode} leaves to the mask"),
            };
            let problem = ValidationError::with("acl", message);
            problems.push(problem.hint("a higher group digit, or fewer permissions in the entry"));
        }
        let canonical = entry.text();
        let whom: EcoString = canonical.rsplit_once(':').map_or("", |(whom, _)| whom).into();
        if seen.contains(&whom) {
            problems.push(
                ValidationError::with("acl", eco_format!("`{whom}` is declared twice"))
                    .hint("keep one of both entries"),
            );
        }
        seen.push(whom);
    }
}

fn accounts(should: &Attributes, problems: &mut Vec<ValidationError>) {
    for attribute in ["owner", "group"] {
        let Some(account) = should.get(attribute) else { continue };
        let is_name = |text: &str| !text.is_empty() && !text.contains([':', '\0', '\n']);
        if account.as_str().is_some_and(|text| !is_name(text)) {
            let problem = ValidationError::with(attribute, eco_format!("`{attribute}` is neither a name nor a number"));
            problems.push(problem.hint("a name such as `root`, or a number from 0 to 4294967294"));
        } else {
            problems.extend(number_problem(attribute, account));
        }
    }
}

fn validate_cmd(should: &Attributes, given: &dyn Fn(&str) -> bool, problems: &mut Vec<ValidationError>) {
    let Some(command) = should.get("validate_cmd") else { return };
    if !given("content") && !given("source") && !given("fragments") {
        let problem = ValidationError::with("validate_cmd", "`validate_cmd` needs a content");
        problems.push(problem.hint("add `content`, `source` or `fragments`"));
    }
    command_words(command, problems);
}

/// Returns the problem of a `backup` that is no suffix.
pub(super) fn backup_suffix(should: &Attributes) -> Option<ValidationError> {
    let suffix = should.text("backup").filter(|suffix| suffix.is_empty() || suffix.contains(['/', '\0']))?;
    let problem = ValidationError::with("backup", eco_format!("`{suffix}` is not a suffix"));
    Some(problem.hint("a text such as \".orig\" that is added to the file's name, true or false"))
}

/// Reports the problems of the words of a `validate_cmd`.
pub(super) fn command_words(command: &Value, problems: &mut Vec<ValidationError>) {
    if let Err(error) = validate_cmd::words(command) {
        let problem = ValidationError::with("validate_cmd", eco_format!("{error}"));
        problems.push(problem.hint("write the command as an array of its words; no shell is involved"));
    }
    let words = command.as_list();
    if !words.iter().any(|word| word.as_str().is_some_and(|word| word.contains('%'))) {
        let problem = ValidationError::with("validate_cmd", "the command has no `%` for the path of the file");
        problems.push(problem.hint("write `%` in its place: \"visudo -cf %\""));
    }
}

/// Converts declared values to the form that `get` returns, and adds implied attributes.
pub(super) fn canonicalize(should: &mut Attributes) {
    for attribute in ["path", "source"] {
        if let Some(given) = should.get(attribute)
            && let Some(text) = given.as_str()
            && !kilter_fetch::is_url(text)
            && open::trim(text) != text
        {
            let trimmed = sealed_like(given, EcoString::from(open::trim(text)));
            should.set(attribute, trimmed);
        }
    }
    ensure(should);
    if let Some(given) = should.get("acl")
        && given.as_hash().is_some()
    {
        let mut entries: Vec<EcoString> =
            acl_entry::managed(given).iter().filter_map(|text| Some(DeclaredEntry::parse(text)?.text())).collect();
        entries.sort_unstable();
        entries.dedup();
        let canonical = sealed_like(given, acl_entry::value_of(&entries));
        should.set("acl", canonical);
    }
    if let Some(given) = should.get("mode")
        && let Some(text) = given.as_str()
        && let Some(bits) = mode::octal(text)
        && text.len() != 4
    {
        let mode = sealed_like(given, mode::text(bits));
        should.set("mode", mode);
    }
    for attribute in ["owner", "group"] {
        let Some(account) = should.get(attribute) else { continue };
        if let Some(number) = number(account)
            && account.as_str() != Some(&eco_format!("{number}"))
        {
            let digits = sealed_like(account, eco_format!("{number}"));
            should.set(attribute, digits);
        }
    }
}

/// Derives `ensure` from the other attributes if it is not declared.
fn ensure(should: &mut Attributes) {
    if should.text("ensure").is_some_and(|ensure| ensure != "present") {
        return;
    }
    let recurse = should.get_bool("recurse") == Some(true) || should.get_bool("purge") == Some(true);
    let follows = if recurse {
        "directory"
    } else if ["content", "source", "fragments"].iter().any(|attribute| should.get(attribute).is_some()) {
        "file"
    } else if should.get("target").is_some() {
        "link"
    } else {
        "present"
    };
    if should.text("ensure") != Some(follows) {
        should.set("ensure", follows);
    }
}

/// Returns contradictions between a file and the declarations of the directories above it.
pub(super) fn conflicts(name: &str, should: &Attributes, declared: Declared<'_>) -> Vec<ValidationError> {
    let is_there = should.text("ensure").is_some_and(|ensure| ensure != "absent")
        || ["content", "source", "target"].iter().any(|attribute| should.get(attribute).is_some());
    if !is_there || should.text("ensure") == Some("absent") {
        return Vec::new();
    }
    let mut path = open::trim(name);
    while let Some(slash) = path.rfind('/').filter(|slash| *slash > 0) {
        path = &path[..slash];
        let Some(above) = declared("file", path) else { continue };
        let is_file = || ["content", "target"].iter().any(|attribute| above.get(attribute).is_some());
        let other = match above.text("ensure") {
            Some("absent") => "absent",
            Some("file") => "a file",
            Some("link" | "directory") => continue,
            _ if is_file() => "a file",
            _ => continue,
        };
        let problem = ValidationError::new(eco_format!("file[{path}] above it is declared as {other}"));
        return vec![problem.hint("remove one of them: only a directory can contain entries")];
    }
    Vec::new()
}

/// Requests the automatic edges of a file (Puppet's autorequire): the autorequire of a file's owner, of its group,
/// and of the directory, source and fragments.
pub(super) fn auto_edges(name: &str, should: &Attributes, add: &mut dyn FnMut(AutoEdge<'_>)) {
    let path = open::trim(name);
    add(AutoEdge { by: Match::Ancestor, ..AutoEdge::require("file", path) });
    add(AutoEdge { by: Match::Ancestor, ..AutoEdge::require("mount", path) });
    add(AutoEdge { by: Match::Ancestor, ..AutoEdge::require("vcsrepo", path) });
    add(AutoEdge { by: Match::Ancestor, ..AutoEdge::require("archive", path) });
    for (attribute, type_name) in [("owner", "user"), ("group", "group")] {
        if let Some(account) = should.get(attribute) {
            // An account with this number matches too, however it is written here. A file can get a number without
            // an account.
            match number(account) {
                Some(number) => {
                    add(AutoEdge { by: Match::Number, ..AutoEdge::require(type_name, &number.to_string()) })
                }
                None => add(AutoEdge::require(type_name, account.as_str().unwrap_or_default())),
            }
        }
    }
    for text in should.get("acl").map(acl_entry::managed).unwrap_or_default() {
        let Some(entry) = DeclaredEntry::parse(&text).filter(|entry| !entry.name.is_empty()) else { continue };
        let type_name = if entry.is_user() { "user" } else { "group" };
        match number_of(&entry.name) {
            Some(number) => add(AutoEdge { by: Match::Number, ..AutoEdge::require(type_name, &number.to_string()) }),
            None => add(AutoEdge::require(type_name, &entry.name)),
        }
    }
    if let Some(source) = source_path(should) {
        add(AutoEdge::require("file", open::trim(source)));
    }
    for fragment in texts(should.get("fragments")) {
        add(AutoEdge::require("file", open::trim(&fragment)));
    }
}
