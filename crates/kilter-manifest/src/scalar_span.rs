//! Maps an offset in the value of a scalar to its position in the source.

use kilter_model::Span;

use crate::tree::{NodeKind, View};

/// Returns the position of a range of bytes of a scalar's text.
pub(crate) fn place(scalar: View<'_>, from: u32, to: u32) -> Span {
    let written = scalar.written();
    let span = scalar.span();
    let start = offset(scalar.kind(), written, scalar.text(), from as usize);
    let end = if to > from { offset(scalar.kind(), written, scalar.text(), to as usize).max(start) } else { start };
    let clip = |n: usize| u32::try_from(n.min(written.len())).unwrap_or(u32::MAX);
    span.part(clip(start), clip(end))
}

/// Walks along the text and its written form in parallel, up to `target` bytes of the text.
fn offset(kind: NodeKind, written: &str, text: &str, target: usize) -> usize {
    let quoted = matches!(kind, NodeKind::Single | NodeKind::Double);
    let mut rest = if quoted { written.get(1..).unwrap_or_default() } else { written };
    let here = |rest: &str| written.len() - rest.len();
    for (at, c) in text.char_indices() {
        if at >= target {
            break;
        }
        // An escaped line break has no value. It also removes the indentation of the next line.
        while let Some(after) = rest.strip_prefix("\\\n").filter(|_| kind == NodeKind::Double) {
            rest = after.trim_start_matches([' ', '\t']);
        }
        let Some(next) = rest.chars().next() else { return here(rest) };
        let step = match (kind, next) {
            (NodeKind::Double, '\\') => escape_length(rest),
            (NodeKind::Single, '\'') if rest.starts_with("''") => 2,
            _ if next == c => next.len_utf8(),
            // Line breaks are folded, and indentation is removed.
            _ if c.is_whitespace() && next.is_whitespace() => rest.len() - rest.trim_start().len(),
            _ if next.is_whitespace() => {
                let indent = rest.len() - rest.trim_start().len();
                indent + rest[indent..].chars().next().map_or(0, char::len_utf8)
            }
            _ => next.len_utf8(),
        };
        rest = rest.get(step..).unwrap_or_default();
    }
    // The next character may follow the indentation of a new line.
    let wanted = text.get(target..).and_then(|rest| rest.chars().next());
    if rest.starts_with(char::is_whitespace) && wanted.is_some_and(|c| !c.is_whitespace()) {
        rest = rest.trim_start();
    }
    here(rest)
}

fn escape_length(rest: &str) -> usize {
    match rest.as_bytes().get(1) {
        Some(b'x') => 4,
        Some(b'u') => 6,
        Some(b'U') => 10,
        Some(_) => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
        None => 1,
    }
}
