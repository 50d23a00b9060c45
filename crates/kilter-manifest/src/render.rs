//! Prints problems for people and for programs.

use annotate_snippets::{AnnotationKind, Element, Group, Level, Message, Renderer, Snippet, renderer::DecorStyle};
use ecow::EcoString;
use kilter_model::{SourceId, Span};
use serde_json::json;

use crate::diagnostic::Diagnostic;
use crate::source::{Sources, floor, line_of};

/// Maximum number of problems before "and N more".
pub const MAX_SHOWN_PROBLEMS: usize = 50;

/// Maximum distance in lines of two positions in the same snippet.
const NEAR: usize = 12;

/// Prints problems with their source lines, file:line:column and hints.
pub fn render(problems: &[Diagnostic], sources: &Sources, color: bool) -> String {
    render_as(Level::ERROR, problems, sources, color)
}

/// Prints warnings in the same way as [`render`].
pub fn render_warnings(warnings: &[Diagnostic], sources: &Sources, color: bool) -> String {
    render_as(Level::WARNING, warnings, sources, color)
}

fn render_as(level: Level<'static>, problems: &[Diagnostic], sources: &Sources, color: bool) -> String {
    let renderer = if color { Renderer::styled() } else { Renderer::plain() };
    let renderer = renderer.decor_style(DecorStyle::Ascii);
    let mut text = String::new();
    for problem in problems.iter().take(MAX_SHOWN_PROBLEMS) {
        text.push_str(&renderer.render(&[group(level.clone(), problem, sources)]));
        text.push_str("\n\n");
    }
    if problems.len() > MAX_SHOWN_PROBLEMS {
        text.push_str(&format!("and {} more\n", problems.len() - MAX_SHOWN_PROBLEMS));
    } else {
        text.pop();
    }
    text
}

/// Returns the problems for programs: an array of `{file, line, column, message, hint, related}` with at most
/// [`MAX_SHOWN_PROBLEMS`] elements.
pub fn to_json(problems: &[Diagnostic], sources: &Sources) -> serde_json::Value {
    let place = |span: Span| {
        let found = sources.locate(span);
        (found.file, found.line, found.column)
    };
    problems
        .iter()
        .take(MAX_SHOWN_PROBLEMS)
        .map(|problem| {
            let mut object = serde_json::Map::new();
            if let Some((file, line, column)) = problem.span.map(place) {
                object.insert("file".into(), file.as_str().into());
                object.insert("line".into(), line.into());
                object.insert("column".into(), column.into());
            }
            object.insert("message".into(), problem.message.as_str().into());
            if !problem.hints.is_empty() {
                object.insert("hint".into(), problem.hints.join("; ").into());
            }
            if !problem.labels.is_empty() {
                let related = problem.labels.iter().map(|(span, label)| {
                    let (file, line, column) = place(*span);
                    json!({"file": file.as_str(), "line": line, "column": column, "message": label.as_str()})
                });
                object.insert("related".into(), related.collect());
            }
            serde_json::Value::Object(object)
        })
        .collect()
}

fn group<'a>(level: Level<'a>, problem: &'a Diagnostic, sources: &'a Sources) -> Group<'a> {
    let mut group = level.primary_title(problem.message.as_str()).elements(Vec::<Element<'_>>::new());
    let marks = problem.span.iter().map(|span| (*span, None));
    let marks = marks.chain(problem.labels.iter().map(|(span, label)| (*span, Some(label)))).collect::<Vec<_>>();
    for window in windows(marks, sources) {
        group = group.element(window.snippet(sources));
    }
    let hints: Vec<Message<'a>> = problem.hints.iter().map(|hint| Level::HELP.message(hint.as_str())).collect();
    group.elements(hints)
}

/// Some lines of a text and the ranges to mark in them. The first mark is the problem's own position.
struct SourceExcerpt<'a> {
    source: SourceId,
    lines: (usize, usize),
    marks: Vec<(Span, Option<&'a EcoString>)>,
}

fn windows<'a>(marks: Vec<(Span, Option<&'a EcoString>)>, sources: &Sources) -> Vec<SourceExcerpt<'a>> {
    let mut windows: Vec<SourceExcerpt<'a>> = Vec::new();
    for (span, label) in marks {
        let line = line_of(&sources.get(span.source).text, span.start as usize).1;
        let near = windows.iter_mut().find(|window| {
            window.source == span.source && line + NEAR > window.lines.0 && line < window.lines.1 + NEAR
        });
        match near {
            Some(window) => {
                window.lines = (window.lines.0.min(line), window.lines.1.max(line));
                window.marks.push((span, label));
            }
            None => {
                windows.push(SourceExcerpt { source: span.source, lines: (line, line), marks: vec![(span, label)] })
            }
        }
    }
    windows
}

impl<'a> SourceExcerpt<'a> {
    fn snippet(&self, sources: &'a Sources) -> Element<'a> {
        let source = sources.get(self.source);
        let starts = self.marks.iter().map(|(span, _)| span.start as usize);
        let first = starts.clone().min().unwrap_or(0);
        let last = starts.max().unwrap_or(0);
        let from = line_of(&source.text, first).0;
        let to = source.text[floor(&source.text, last)..]
            .find('\n')
            .map_or(source.text.len(), |n| floor(&source.text, last) + n);
        let mut shown = masked(sources, self.source, from, to);
        let length = shown.len();
        if shown.is_empty() {
            shown.push(' ');
        }
        let mut snippet = Snippet::source(shown).line_start(self.lines.0).path(source.name.as_str());
        for (index, (span, label)) in self.marks.iter().enumerate() {
            let kind = if index == 0 && label.is_none() { AnnotationKind::Primary } else { AnnotationKind::Context };
            let range = clip(&source.text, *span);
            let (start, end) = (range.0.saturating_sub(from).min(length), range.1.saturating_sub(from).min(length));
            snippet = snippet.annotation(kind.span(start..end.max(start)).label(label.map(|l| l.as_str())));
        }
        snippet.into()
    }
}

/// Returns the part of a span on its first line.
fn clip(text: &str, span: Span) -> (usize, usize) {
    let start = floor(text, span.start as usize);
    let end = floor(text, (span.end as usize).max(start));
    let line_end = text[start..].find('\n').map_or(text.len(), |n| start + n);
    (start, end.min(line_end))
}

/// Returns a part of a text with secrets replaced by asterisks.
fn masked(sources: &Sources, id: SourceId, from: usize, to: usize) -> String {
    let text = &sources.get(id).text;
    let mut shown = text[from..to].as_bytes().to_vec();
    for secret in sources.secrets.iter().filter(|secret| secret.source == id) {
        let (start, end) = (floor(text, secret.start as usize), floor(text, secret.end as usize));
        for at in start.max(from)..end.min(to) {
            let byte = &mut shown[at - from];
            if !byte.is_ascii_whitespace() {
                *byte = b'*';
            }
        }
    }
    String::from_utf8(shown).unwrap_or_else(|_| "*".repeat(to - from))
}
