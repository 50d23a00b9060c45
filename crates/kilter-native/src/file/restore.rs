//! What was at a path before, as what would have to be declared to bring it back.

use ecow::EcoString;
use kilter_model::{Attributes, State, Value};

use super::mode;

/// What has to be declared to bring back what is there: what kind of file it is, what is in it or where it points to, and what
/// is declared of its owner, group and mode; all of that where it is going to be removed.
///
/// # Errors
/// When it could not be brought back.
pub(super) fn before(should: &Attributes, is: &State) -> Result<Attributes, EcoString> {
    let mut before = Attributes::new();
    if is_tree(should) {
        return Err("what is in a directory is not kept".into());
    }
    if !is.exists {
        // A directory that was made is removed only if nobody has put anything in it.
        before.set("ensure", "absent");
        return Ok(before);
    }
    let kind = is.attributes.text("kind").unwrap_or_default();
    let is_removed = should.text("ensure").is_some_and(|ensure| ensure == "absent");
    let is_another = should.text("ensure").is_some_and(|ensure| ensure != "present" && ensure != kind);
    match kind {
        "directory" if is_another => return Err("what is in a directory is not kept".into()),
        "file" | "directory" | "link" => before.set("ensure", kind),
        _ => return Err("it is neither a file, a directory nor a link".into()),
    }
    let is_written = ["content", "source", "fragments"].iter().any(|attribute| should.get(attribute).is_some());
    if kind == "file" && (is_written || is_another) {
        let content = is.attributes.get("content").ok_or("its content is larger than 64 KiB, or cannot be read")?;
        let declared = should.get("content").unwrap_or(content);
        let is_secret = declared.holds_sensitive() && !content.holds_sensitive();
        before.set("content", if is_secret { Value::sensitive(content.clone()) } else { content.clone() });
    }
    if kind == "link" {
        before.set("target", is.attributes.get("target").ok_or("where it points to cannot be read")?.clone());
    }
    for name in ["owner", "group", "mode"] {
        let is_meant = should.get(name).is_some() || is_another || is_removed;
        if let Some(value) = is.attributes.get(name).filter(|_| is_meant && (name != "mode" || kind != "link")) {
            before.set(name, value.clone());
        }
    }
    if should.get("acl").is_some() && kind != "link" {
        before.set("acl", is.attributes.get("acl").cloned().unwrap_or_else(|| "none".into()));
    }
    // What not everybody may read is shown to nobody.
    let is_private = is.attributes.text("mode").and_then(mode::octal).is_none_or(|mode| mode & 0o004 == 0);
    if kind == "file" && (is_private || should.truth("show_diff") == Some(false)) {
        before.set("show_diff", false);
    }
    Ok(before)
}

fn is_tree(should: &Attributes) -> bool {
    ["recurse", "purge"].iter().any(|word| should.truth(word) == Some(true))
}
