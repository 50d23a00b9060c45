//! Edits of mappings and lists in brackets: JSON, and the flow style of YAML.

use super::tree::{TreeNode, indentation, is_first, line_end, line_start, spliced, unit};

/// Comments of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comments {
    /// `//` and `/* */`.
    Slashes,
    /// `#` to the end of the line.
    Hash,
}

/// Place of the members of a mapping or a list.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// On one line.
    Inline,
    /// Each on a line of its own, with this indentation.
    Lines(String),
}

impl Comments {
    /// Returns the end of a comment at an offset. None if there is no comment.
    fn end(self, text: &str, at: usize) -> Option<usize> {
        let rest = &text[at..];
        match self {
            Comments::Hash => rest.starts_with('#').then(|| line_end(text, at)),
            Comments::Slashes if rest.starts_with("//") => Some(line_end(text, at)),
            Comments::Slashes => {
                let inside = rest.strip_prefix("/*")?;
                Some(inside.find("*/").map_or(text.len(), |length| at + 2 + length + 2))
            }
        }
    }

    /// Skips blanks, line breaks and comments.
    pub(super) fn skip(self, text: &str, mut at: usize) -> usize {
        loop {
            let rest = &text[at..];
            at += rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
            match self.end(text, at) {
                Some(end) => at = end,
                None => return at,
            }
        }
    }

    /// Returns the end of the comments that follow on the same line.
    fn on_line(self, text: &str, mut at: usize) -> usize {
        loop {
            let rest = &text[at..];
            let next = at + rest.len() - rest.trim_start_matches([' ', '\t']).len();
            match self.end(text, next).filter(|end| !text[next..*end].contains('\n')) {
                Some(end) => at = end,
                None => return at,
            }
        }
    }
}

/// Returns the place of new members.
pub(super) fn layout(text: &str, node: &TreeNode, comments: Comments) -> Layout {
    if let Some(last) = node.members().last() {
        return match is_first(text, last.start) {
            true => Layout::Lines(indentation(text, last.start).to_owned()),
            false => Layout::Inline,
        };
    }
    let inside = &text[node.span.clone()];
    // A JSON document on several lines has its members on lines of their own.
    let is_spread = comments == Comments::Slashes && (text.trim().contains('\n') || text.trim() == inside);
    match inside.contains('\n') || is_spread {
        true => Layout::Lines(format!("{}{}", indentation(text, node.span.start), unit(text))),
        false => Layout::Inline,
    }
}

/// Adds a member at the end.
pub(super) fn insert(text: &str, node: &TreeNode, member: &str, comments: Comments) -> String {
    let layout = layout(text, node, comments);
    let Some(last) = node.members().pop() else {
        let inside = node.span.start + 1..node.span.end - 1;
        let kept = text[inside.clone()].trim_end();
        let new = match layout {
            Layout::Inline => format!("{kept}{member}"),
            Layout::Lines(indent) => format!("{kept}\n{indent}{member}\n{}", indentation(text, node.span.start)),
        };
        return spliced(text, &[(inside, &new)]);
    };
    let next = comments.skip(text, last.end);
    let has_comma = text[next..].starts_with(',');
    let end = if has_comma { next + 1 } else { last.end };
    match layout {
        Layout::Inline => {
            let new = if has_comma { format!(" {member},") } else { format!(", {member}") };
            spliced(text, &[(end..end, &new)])
        }
        Layout::Lines(indent) => {
            let after = comments.on_line(text, end);
            let (first, second) = if has_comma { ("", ",") } else { (",", "") };
            let new = format!("\n{indent}{member}{second}");
            spliced(text, &[(last.end..last.end, first), (after..after, &new)])
        }
    }
}

/// Removes a member.
pub(super) fn remove(text: &str, node: &TreeNode, index: usize, comments: Comments) -> String {
    let members = node.members();
    let (start, end) = (members[index].start, members[index].end);
    let next = comments.skip(text, end);
    let has_comma = text[next..].starts_with(',');
    let stop = if has_comma { next + 1 } else { end };
    let after = comments.on_line(text, stop);
    let is_line = is_first(text, start) && text[after..line_end(text, after)].trim().is_empty() && after < text.len();
    let before = index.checked_sub(1).map(|before| members[before].end);
    if is_line {
        let line = line_start(text, start)..line_end(text, after) + 1;
        // The member before becomes the last one.
        return match before.filter(|_| !has_comma).map(|before| comments.skip(text, before)) {
            Some(comma) => spliced(text, &[(comma..comma + 1, ""), (line, "")]),
            None => spliced(text, &[(line, "")]),
        };
    }
    let range = match (members.get(index + 1), before) {
        (Some(next), _) => start..next.start,
        (None, Some(before)) => before..end,
        (None, None) => start..stop,
    };
    spliced(text, &[(range, "")])
}
