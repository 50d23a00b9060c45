//! Parses YAML or JSON to a tree. No other module uses the parser library.

use ecow::{EcoString, eco_format};
use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError, Span as Range};
use kilter_model::SourceId;

use crate::diagnostic::Diagnostic;
use crate::fast_yaml;
use crate::json;
use crate::mgmt::{self, Terms};
use crate::puppet;
use crate::source::Sources;
use crate::tree::{Builder, NodeKind, Tree};

/// Maximum size of a text in bytes. Positions have 32 bits. Programs that need more can write several manifests.
const MAX_BYTES: usize = 256 << 20;

/// Documents of a text, problems, and a flag that is false if a part could not be read.
pub(crate) struct Parsed {
    pub(crate) tree: Tree,
    pub(crate) problems: Vec<Diagnostic>,
    pub(crate) warnings: Vec<Diagnostic>,
    /// Terms of mgmt graphs.
    pub(crate) terms: Terms,
    pub(crate) complete: bool,
}

/// Parses a text in any supported format to the tree of a manifest.
pub(crate) fn parse(id: SourceId, sources: &Sources) -> Parsed {
    let mut parsed = parse_text(id, sources);
    if !parsed.complete {
        // An incomplete graph could be mistaken for another format.
        if mgmt::is_graph(&parsed.tree) || puppet::has_resources(&parsed.tree) {
            parsed.tree.clear();
        }
        return parsed;
    }
    if puppet::has_resources(&parsed.tree) {
        let puppet::Lowered { tree, problems, warnings } = puppet::lower(&parsed.tree, id, sources);
        return Parsed { tree, problems: [parsed.problems, problems].concat(), warnings, ..parsed };
    }
    if !mgmt::is_graph(&parsed.tree) {
        return parsed;
    }
    let mgmt::Graph { tree, problems, warnings, terms } = mgmt::lower(&parsed.tree, id, sources);
    Parsed { tree, problems: [parsed.problems, problems].concat(), warnings, terms, complete: true }
}

/// Parses a text without conversion to a manifest.
pub(crate) fn parse_text(id: SourceId, sources: &Sources) -> Parsed {
    let source = sources.get(id);
    let mut builder = Builder::new(id, sources);
    let text = &*source.text;
    if text.len() > MAX_BYTES {
        builder.report(Diagnostic::new("the manifest is larger than 256 MiB").at(builder.span(0, 0)));
        return finish(builder, false);
    }
    if source.is_json() || text.trim_start().starts_with('{') {
        match json::parse(text, &mut builder) {
            Ok(()) => return finish(builder, true),
            Err(problem) if source.is_json() => {
                let at = builder.span(problem.at, problem.at + 1);
                builder.report(Diagnostic::new(problem.message).at(at).hint_if(problem.hint));
                return finish(builder, false);
            }
            // A YAML flow mapping can look like JSON at its start.
            Err(_) => builder = Builder::new(id, sources),
        }
    }
    if fast_yaml::parse(text, &mut builder).is_some() {
        return finish(builder, true);
    }
    let mut builder = Builder::new(id, sources);
    let Err(error) = events(text, &mut builder) else { return finish(builder, true) };
    builder.report(explained(&error, text, &builder));
    builder.cut();
    Parsed { complete: false, ..finish(builder, true) }
}

fn finish(builder: Builder, complete: bool) -> Parsed {
    let (tree, problems) = builder.finish(complete);
    Parsed { tree, problems, warnings: Vec::new(), terms: Terms::default(), complete }
}

fn events(text: &str, builder: &mut Builder) -> Result<(), ScanError> {
    let options = granit_parser::options! { emit_unresolved_aliases: true };
    for next in Parser::new_from_str_with_options(text, options) {
        let (event, range) = next?;
        let at = range_of(&range, text);
        if let Some(tag) = event.tag() {
            check_tag(tag, at, builder);
        }
        match event {
            Event::DocumentStart(..) => builder.start_document(),
            Event::Alias(anchor) => builder.alias(at, anchor),
            Event::UnresolvedAlias(name) => {
                let message = eco_format!("there is no anchor `&{name}` above");
                let hint = eco_format!("a text that starts with `*` is put in quotes: \"*{name}\"");
                builder.report(Diagnostic::new(message).at(builder.span(at.0, at.1)).hint(hint));
                builder.null(at);
            }
            Event::Scalar(value, style, anchor, ref tag) => {
                if tag.as_ref().is_some_and(|tag| is_binary(tag)) {
                    // Manifests use a key in place of this YAML tag.
                    builder.start(NodeKind::Mapping, at, anchor);
                    builder.owned(NodeKind::Double, at, "base64", 0);
                    builder.owned(NodeKind::Double, at, &value, 0);
                    builder.end();
                    continue;
                }
                let text_tag = tag.as_ref().is_some_and(|tag| tag.is_yaml_core_schema_tag("str"));
                let kind = if text_tag && style == ScalarStyle::Plain { NodeKind::Double } else { kind_of(style) };
                match &value {
                    std::borrow::Cow::Borrowed(part) if offset(part, text).is_some() => {
                        let start = offset(part, text).unwrap_or(0);
                        builder.borrowed(kind, at, (start, start + part.len()), anchor);
                    }
                    value => builder.owned(kind, at, value, anchor),
                }
            }
            Event::SequenceStart(_, anchor, _) => builder.start(NodeKind::Sequence, at, anchor),
            Event::MappingStart(_, anchor, _) => builder.start(NodeKind::Mapping, at, anchor),
            Event::SequenceEnd | Event::MappingEnd => builder.end(),
            _ => {}
        }
    }
    Ok(())
}

/// Returns the start of `part` within `text`, if it is a slice of it.
fn offset(part: &str, text: &str) -> Option<usize> {
    let start = (part.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
    (start + part.len() <= text.len()).then_some(start)
}

fn range_of(range: &Range, text: &str) -> (usize, usize) {
    let found = range.byte_range().unwrap_or(0..0);
    let start = found.start.min(text.len());
    (start, found.end.clamp(start, text.len()))
}

fn kind_of(style: ScalarStyle) -> NodeKind {
    match style {
        ScalarStyle::Plain => NodeKind::Plain,
        ScalarStyle::SingleQuoted => NodeKind::Single,
        ScalarStyle::DoubleQuoted => NodeKind::Double,
        ScalarStyle::Literal => NodeKind::Literal,
        ScalarStyle::Folded => NodeKind::Folded,
    }
}

/// Returns true for the tag `!!binary` (yaml.org/type/binary), which is not part of the core schema.
fn is_binary(tag: &granit_parser::Tag) -> bool {
    tag.suffix_in_namespace("tag:yaml.org,2002:").is_some_and(|name| name == "binary")
}

fn check_tag(tag: &granit_parser::Tag, at: (usize, usize), builder: &mut Builder) {
    let known = ["str", "map", "seq"].iter().any(|name| tag.is_yaml_core_schema_tag(name)) || is_binary(tag);
    let plain = tag.handle() == "!" && tag.suffix().is_empty() || tag.handle().is_empty() && tag.suffix() == "!";
    if !known && !plain {
        let message = eco_format!("the tag `{}{}` is not known", tag.original_handle(), tag.suffix());
        let hint = "leave it out; a secret is written { sensitive: … }";
        builder.report(Diagnostic::new(message).at(builder.span(at.0, at.1)).hint(hint));
    }
}

/// Translates an error of the parser to a helpful message.
fn explained(error: &ScanError, text: &str, builder: &Builder) -> Diagnostic {
    let mut at = crate::source::floor(text, error.marker().byte_offset().unwrap_or(0));
    let tab = format!("{:?}", error.kind()).contains("Tab") || text[at..].starts_with('\t');
    if tab && text[..at].ends_with('\t') {
        at -= 1;
    }
    let next = text[at..].chars().next();
    let before = &text[..at];
    let (message, hint): (EcoString, Option<EcoString>) = match error.kind() {
        _ if next == Some('{') && before.ends_with('$') => (
            "`${` is not put in quotes".into(),
            Some("within { } and [ ], a text that holds `${…}` is put in quotes".into()),
        ),
        _ if next == Some('[') && before.ends_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit()) => (
            "unexpected `[`".into(),
            Some("within { } and [ ], a reference is put in quotes: \"service[nginx]\"".into()),
        ),
        ErrorKind::UnexpectedCharacter { character } if !character.is_control() => {
            (eco_format!("a text cannot start with `{character}`"), Some("put the text in quotes".into()))
        }
        ErrorKind::MappingValueNotAllowed
            if before.lines().any(|line| line.starts_with(' ') && line.trim() == "---") =>
        {
            (
                "unexpected `:`".into(),
                Some("take the line `---` out: a document begins with it only in the first column".into()),
            )
        }
        ErrorKind::MappingValueNotAllowed => (
            "unexpected `:`".into(),
            Some("a text that holds `: ` is put in quotes; keys of one mapping start in one column".into()),
        ),
        _ => {
            let hint = tab.then(|| "indent with spaces, not with tabs".into());
            (eco_format!("not valid YAML: {}", error.info()), hint)
        }
    };
    Diagnostic::new(message).at(builder.span(at, at + next.map_or(0, char::len_utf8))).hint_if(hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;
    use crate::tree::View;

    /// Prints the tree on one line: kinds, texts and positions. Omits the positions of sequences and nulls, which
    /// the parser defines differently.
    fn shown(view: View<'_>, text: &mut String) {
        let (kind, start) = (view.kind(), view.span().start);
        match kind {
            NodeKind::Sequence => {
                text.push('[');
                view.elements().for_each(|v| shown(v, text));
                text.push(']');
            }
            NodeKind::Mapping => {
                text.push_str(&format!("{{{start} "));
                for (key, value) in view.entries() {
                    shown(key, text);
                    shown(value, text);
                }
                text.push('}');
            }
            _ if view.is_null() => text.push_str("null "),
            kind => {
                let end = if kind == NodeKind::Literal { 0 } else { view.span().end };
                text.push_str(&format!("{kind:?}({:?})@{start}..{end} ", view.text()));
            }
        }
    }

    fn dump(tree: &Tree, problems: &[Diagnostic]) -> String {
        let mut text = format!("{problems:?}");
        tree.roots().for_each(|root| shown(root, &mut text));
        text
    }

    /// Returns true if the fast parser accepts the text. Panics if the full parser returns another tree.
    fn compare(text: &str) -> bool {
        let mut sources = Sources::new();
        let id = sources.add(Source::new("x.yaml", text));
        let mut fast = Builder::new(id, &sources);
        if fast_yaml::parse(text, &mut fast).is_none() {
            return false;
        }
        let mut full = Builder::new(id, &sources);
        if let Err(error) = events(text, &mut full) {
            panic!("the parser refuses {text:?}: {error}");
        }
        let ((fast, fast_problems), (full, full_problems)) = (fast.finish(true), full.finish(true));
        assert_eq!(dump(&fast, &fast_problems), dump(&full, &full_problems), "{text:?}");
        true
    }

    const COMMON: &str = "# a comment\nvars:\n  port: 8080 # of the server\n  empty:\n  list:\n  - a\n  -\n    b: \
                          1\n  - 'it''s'\n  - \"x\\ty\\n\"\n\nresources:\n  package[nginx]: {}\n  file[/etc/a \
                          b]:\n    content: |\n      server { listen ${vars.port}; }\n\n        more\n\n    mode: \
                          \"0644\"\n    tags: [a, 'b c', 1.5, -1, { x: y }]\n    other: |-\n     x\n  \"exec[t: \
                          x]\":\n    command: openssl rand -hex 16\n    url: http://x/y#z\n  service[s]:\n    meta: { \
                          retry: 3, delay: 500 }\n    notify:\n      - service[nginx]\n      - file[/etc/a b] # \
                          c\n    \u{e9}: \u{1f600}\n";

    #[test]
    fn fast_reader_accepts_common_manifests_with_equal_result() {
        assert!(compare(COMMON));
        for text in [
            "a: 1\n",
            "- 1\n- 2\n",
            "a:\n- 1\nb: 2\n",
            "a: -1\n",
            "a: b:c\n",
            "a:\n  b:\n    c:\n  d: 1\ne: 2\n",
            "a: x y  \n",
        ] {
            assert!(compare(text), "{text:?}");
        }
    }

    #[test]
    fn fast_reader_declines_uncommon_yaml() {
        for text in [
            "a: &x 1\nb: *x\n",
            "a: !x y\n",
            "a: >\n  x\n",
            "a: x\n  y\n",
            "a: \"x\n  y\"\n",
            "\ta: 1\n",
            "a: 1\n---\nb: 2\n",
            "a: b: c\n",
            "a: [1,\n 2]\n",
            "a: 1\n b: 2\n",
            "- a: 1\n",
            "a: {b: 1,}\n",
            "? a\n: b\n",
            "a: 1",
            "a: \"\\u00e9\"\n",
            "a: @x\n",
            "a: |+\n  x\n",
            "text\n",
            "",
            "a:\n    b: 1\n  c: 2\n",
            "a: {\n",
        ] {
            assert!(!compare(text), "{text:?}");
        }
    }

    #[test]
    fn fast_reader_equals_parser_on_random_texts() {
        let pieces = [
            "\n",
            " ",
            "  ",
            ":",
            ": ",
            "- ",
            "-",
            "[",
            "]",
            "{",
            "}",
            "\"",
            "'",
            "''",
            "|",
            "|-",
            " #",
            "#",
            "a",
            "b: 1",
            "\n  ",
            "\n    ",
            "\n- ",
            "\n\n",
            ",",
            ", ",
            "\\n",
            "\\",
            "~",
            "null",
            "?",
            "&",
            "*",
            "!",
            "%",
            "@",
            "`",
            ">",
            "...",
            "---",
            "<<",
            "\u{e9}",
            "0",
            ".",
            "x: |\n      y\n",
        ];
        let mut state = 0x1234_5678_9abc_def1_u64;
        let mut random = move |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % below as u64) as usize
        };
        let mut taken = 0;
        for _ in 0..60_000 {
            let mut text: Vec<char> = COMMON.chars().collect();
            // A window of complete lines, so that most of the text stays valid.
            let lines: Vec<usize> =
                text.iter().enumerate().filter(|(_, c)| **c == '\n').map(|(at, _)| at + 1).collect();
            let from = random(lines.len());
            let to = (from + 1 + random(8)).min(lines.len() - 1).max(from);
            text = text[lines[from]..lines[to]].to_vec();
            for _ in 0..=random(3) {
                let at = random(text.len() + 1);
                if random(3) == 0 {
                    let end = (at + random(4)).min(text.len());
                    text.drain(at.min(end)..end);
                } else {
                    text.splice(at..at, pieces[random(pieces.len())].chars());
                }
            }
            taken += usize::from(compare(&text.into_iter().collect::<String>()));
        }
        assert!(taken > 5_000, "only {taken}");
    }
}
