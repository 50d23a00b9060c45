//! Content that is assembled from declared parts.

use std::borrow::Cow;

use kilter_model::{AttributeName, Attributes, Value};
use kilter_provider::ValidationError;

/// Default order of a part.
const ORDER: i64 = 10;

/// Replaces the parts in a declaration by their assembled content.
pub(super) fn put_together(should: &mut Attributes) {
    let Some(parts) = should.get("parts").cloned() else { return };
    should.remove("parts");
    should.set(AttributeName::from("content"), content(&parts));
}

/// Returns the declaration with `parts` treated as `content`, for validation.
pub(super) fn as_content<'a, 'd>(
    should: &'a Attributes,
    deferred: &'a [&'d str],
) -> (Cow<'a, Attributes>, Cow<'a, [&'d str]>, Option<ValidationError>) {
    let is_given = |name: &str| should.get(name).is_some() || deferred.contains(&name);
    let problem = (is_given("parts") && is_given("content")).then(|| {
        ValidationError::with("parts", "`content` and `parts` exclude each other")
            .hint("make the content a part, or remove the parts, including file_part[…]")
    });
    if !is_given("parts") || problem.is_some() {
        return (Cow::Borrowed(should), Cow::Borrowed(deferred), problem);
    }
    let mut whole = should.clone();
    put_together(&mut whole);
    let deferred = deferred.iter().map(|name| if *name == "parts" { "content" } else { name }).collect();
    (Cow::Owned(whole), Cow::Owned(deferred), None)
}

/// Assembles the parts by order and name. The content is a secret if any part is.
fn content(parts: &Value) -> Value {
    let is_secret = parts.holds_sensitive();
    let mut entries: Vec<(i64, &str, &Value)> = Vec::new();
    for (title, part) in parts.unwrap_sensitive().as_hash().into_iter().flatten() {
        let part = part.unwrap_sensitive();
        let said = |name: &str| part.as_hash().and_then(|part| part.get(name)).map(Value::unwrap_sensitive);
        let order = said("order").and_then(Value::as_integer).unwrap_or(ORDER);
        if let Some(content) = said("content") {
            entries.push((order, title, content));
        }
    }
    entries.sort_unstable_by(|one, other| (one.0, one.1).cmp(&(other.0, other.1)));
    let bytes: Vec<u8> =
        entries.iter().flat_map(|(_, _, content)| content.as_bytes().unwrap_or_default()).copied().collect();
    let content = Value::from_bytes(&bytes);
    if is_secret { Value::sensitive(content) } else { content }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_ordered_and_secret_part_makes_content_sensitive() {
        let part = |order: i64, content: Value| Value::hash([("order", Value::Integer(order)), ("content", content)]);
        let of = |second: Value| {
            Value::hash([
                ("z", part(-1, "first ".into())),
                ("b", Value::hash([("content", second)])),
                ("a", part(10, Value::from_bytes(b"\xff "))),
            ])
        };
        assert_eq!(content(&of("last".into())).as_bytes(), Some(&b"first \xff last"[..]));
        assert!(content(&of(Value::sensitive("last".into()))).holds_sensitive());
        assert_eq!(content(&Value::Hash(Default::default())), Value::from(""));
    }
}
