//! Layout of manifests in YAML: `kilter fmt`.

use granit_parser::{Event, Parser, ScalarStyle};
use kilter_model::SourceId;
use pretty_yaml::config::{FormatOptions, LayoutOptions};

use crate::diagnostic::Diagnostic;
use crate::source::Sources;
use crate::yaml;

/// Maximum width of a line in columns, unless a single value is longer.
const WIDTH: usize = 100;

/// Returns a text in YAML with uniform indentation, quotes and spaces. Values, their order and comments stay the same.
///
/// # Errors
/// The problems of a text that is not valid, or one problem if the text is JSON, or if the formatter would change a
/// value or a comment.
pub fn format(id: SourceId, sources: &Sources) -> Result<String, Vec<Diagnostic>> {
    let source = sources.get(id);
    let parsed = yaml::parse_text(id, sources);
    if !parsed.problems.is_empty() {
        return Err(parsed.problems);
    }
    if source.is_json() {
        return Err(vec![Diagnostic::new(ecow::eco_format!("{} is JSON, and only YAML has a layout", source.name))]);
    }
    let layout = LayoutOptions { print_width: WIDTH, ..LayoutOptions::default() };
    let options = FormatOptions { layout, ..FormatOptions::default() };
    let unchanged = |formatted: &String| FormatContent::of(formatted) == FormatContent::of(&source.text);
    match pretty_yaml::format_text(&source.text, &options) {
        Ok(formatted) if unchanged(&formatted) => Ok(formatted),
        _ => Err(vec![
            Diagnostic::new(ecow::eco_format!("{} has a form of YAML that the formatter cannot keep", source.name))
                .hint("lay this file out by hand; nothing was written"),
        ]),
    }
}

/// Content of a text without its layout.
#[derive(Debug, PartialEq, Eq)]
struct FormatContent {
    /// Values in their order. A plain text differs from a quoted one, because `yes` differs from `"yes"`.
    values: Vec<String>,
    /// Comments in alphabetical order, because the layout may move one to the next line.
    comments: Vec<String>,
}

impl FormatContent {
    /// Reads a text; none if it is not YAML.
    fn of(text: &str) -> Option<FormatContent> {
        let options = granit_parser::options! { emit_unresolved_aliases: true, emit_comments: true };
        let (mut values, mut comments) = (Vec::new(), Vec::new());
        for next in Parser::new_from_str_with_options(text, options) {
            match next.ok()?.0 {
                Event::Comment(comment, ..) => comments.push(comment.trim().to_owned()),
                Event::Scalar(value, style, anchor, tag) => {
                    let is_plain = style == ScalarStyle::Plain;
                    values.push(format!("{value:?} {is_plain} {anchor} {tag:?}"));
                }
                Event::DocumentStart(..) => values.push("document".to_owned()),
                Event::SequenceStart(_, anchor, tag) => values.push(format!("sequence {anchor} {tag:?}")),
                Event::MappingStart(_, anchor, tag) => values.push(format!("mapping {anchor} {tag:?}")),
                event => values.push(format!("{event:?}")),
            }
        }
        comments.sort_unstable();
        Some(FormatContent { values, comments })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;

    fn formatted(name: &str, text: &str) -> Result<String, Vec<String>> {
        let mut sources = Sources::new();
        let id = sources.add(Source::new(name, text));
        format(id, &sources).map_err(|problems| problems.iter().map(|one| one.message.to_string()).collect())
    }

    #[test]
    fn layout_is_uniform_and_stable() {
        let text = "# top\nresources:\n    file[/a]:   {ensure: directory,mode: '0755'} # why\n\n\n\n    \
                    'exec[b]':\n        command:  [ echo , 'a\"b' ]\n        # kept\n        unless: |\n          test \
                    -e /x\n";
        let expected = "# top\nresources:\n  file[/a]: { ensure: directory, mode: \"0755\" } # why\n\n  \
                        \"exec[b]\":\n    command: [echo, 'a\"b']\n    # kept\n    unless: |\n      test -e /x\n";
        assert_eq!(formatted("a.yaml", text).unwrap(), expected);
        assert_eq!(formatted("a.yaml", expected).unwrap(), expected);
    }

    #[test]
    fn invalid_text_and_json_are_refused() {
        assert!(formatted("a.yaml", "resources: {\n").is_err());
        assert!(formatted("a.json", "{}").unwrap_err()[0].contains("JSON"));
    }

    #[test]
    fn content_distinguishes_values_and_comments() {
        let of = |text: &str| FormatContent::of(text).unwrap();
        assert_eq!(of("a: [1, 2] # x"), of("# x\na:\n  - 1\n  - 2\n"));
        for other in ["a: ['1', 2] # x", "a: [1, 2]", "a: [1, 2] # y", "a: [2, 1] # x", "b: [1, 2] # x"] {
            assert_ne!(of("a: [1, 2] # x"), of(other), "{other}");
        }
    }
}
