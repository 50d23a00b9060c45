//! Saves the state of a path before a change, as a declaration that restores it.

use ecow::EcoString;
use kilter_model::{Attributes, State, Value};

use super::mode;

/// Returns the declaration that restores the present state.
///
/// It contains the kind and the content or target of the file. It contains owner, group and mode as far as they are
/// declared, or completely if the file is going to be removed.
///
/// # Errors
/// If the state could not be restored.
pub(super) fn revert_state(should: &Attributes, is: &State) -> Result<Attributes, EcoString> {
    let mut before = Attributes::new();
    if is_tree(should) {
        return Err("entries of a directory are not saved".into());
    }
    if !is.exists {
        // A created directory is removed later only if it is still empty.
        before.set("ensure", "absent");
        return Ok(before);
    }
    let kind = is.attributes.text("kind").unwrap_or_default();
    let is_removed = should.text("ensure").is_some_and(|ensure| ensure == "absent");
    let is_another = should.text("ensure").is_some_and(|ensure| ensure != "present" && ensure != kind);
    match kind {
        // Without `force`, only an empty directory is removed.
        "directory" if is_another && !(is_removed && should.get_bool("force") != Some(true)) => {
            return Err("entries of a directory are not saved".into());
        }
        "file" | "directory" | "link" => before.set("ensure", kind),
        _ => return Err("it is neither a file, a directory nor a link".into()),
    }
    let is_written = ["content", "source", "fragments"].iter().any(|attribute| should.get(attribute).is_some());
    if kind == "file" && (is_written || is_another) {
        let content = is.attributes.get("content").ok_or("its content is too large, or cannot be read")?;
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
    // Content that is not readable by everybody is not shown.
    let is_private = is.attributes.text("mode").and_then(mode::octal).is_none_or(|mode| mode & 0o004 == 0);
    if kind == "file" && (is_private || should.get_bool("show_diff") == Some(false)) {
        before.set("show_diff", false);
    }
    Ok(before)
}

fn is_tree(should: &Attributes) -> bool {
    ["recurse", "purge"].iter().any(|word| should.get_bool(word) == Some(true))
}
