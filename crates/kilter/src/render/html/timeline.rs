//! Timeline of a run, as a drawing in SVG.

use std::fmt::Write;
use std::time::Duration;

use super::{markup, report, result};
use crate::reported_run::ReportedRun;
use crate::trace::TracedCall;

/// Maximum number of rows. The drawing has the longest ones.
const MAX_ROWS: usize = 100;

/// Maximum number of calls in a row.
const MAX_CALLS: usize = 200;

/// Maximum number of characters of a name.
const MAX_NAME_CHARS: usize = 46;

/// Layout in units of the drawing.
const WIDTH: f64 = 1000.0;
const NAMES: f64 = 320.0;
const ROW: f64 = 22.0;
const AXIS: f64 = 24.0;

/// Row of the timeline.
struct TimelineRow<'a> {
    name: String,
    class: &'static str,
    start: Duration,
    end: Duration,
    calls: Vec<&'a TracedCall>,
}

/// Returns the section with the timeline; empty if nothing took part in it.
pub(super) fn section(run: &ReportedRun<'_>) -> String {
    let mut rows = rows(run);
    if rows.is_empty() {
        return String::new();
    }
    let count = rows.len();
    // A stable sort keeps the manifest order of equal rows.
    rows.sort_by_key(|row| std::cmp::Reverse(row.end - row.start));
    rows.truncate(MAX_ROWS);
    rows.sort_by_key(|row| (row.start, row.end));
    let which = if count > MAX_ROWS { format!(", the {MAX_ROWS} longest of {count} rows") } else { String::new() };
    let total = run.trace.end(run.report);
    format!(
        "<section>\n<h2>Timeline</h2>\n<p class=\"faint\">Work on each resource until its result, with its \
         calls{which}. Hold the pointer over a bar for its times.</p>\n<div class=\"timeline\">\n{}</div>\n\
         </section>\n",
        drawing(&rows, total)
    )
}

/// Returns a row for each reported resource, and one for all other calls of a type.
fn rows<'a>(run: &ReportedRun<'a>) -> Vec<TimelineRow<'a>> {
    let (spans, calls) = run.trace.spans(run.report);
    let mut others: Vec<TimelineRow<'a>> = Vec::new();
    for call in calls {
        let name = format!("{}: other calls", call.reference.type_name);
        match others.iter_mut().find(|row| row.name == name) {
            Some(row) => {
                (row.start, row.end) = (row.start.min(call.start), row.end.max(call.end));
                row.calls.push(call);
            }
            None => {
                others.push(TimelineRow { name, class: "none", start: call.start, end: call.end, calls: vec![call] });
            }
        }
    }
    let of_resources = spans.into_iter().map(|span| {
        let (name, class) = (span.report.reference.to_string(), result(span.report).1);
        TimelineRow { name, class, start: span.start, end: span.end, calls: span.calls }
    });
    of_resources.chain(others).collect()
}

fn drawing(rows: &[TimelineRow<'_>], total: Duration) -> String {
    let height = AXIS + ROW * rows.len() as f64;
    let mut text = format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"Timeline of the run\">\n");
    let x = |at: Duration| {
        let share = if total.is_zero() { 0.0 } else { at.as_secs_f64() / total.as_secs_f64() };
        NAMES + share * (WIDTH - NAMES - 60.0)
    };
    for step in 0..=4 {
        let at = total * step / 4;
        let _ = writeln!(
            text,
            "<line class=\"axis\" x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"{AXIS}\" y2=\"{height}\"/>\
             <text class=\"faint\" x=\"{0:.1}\" y=\"14\">{1}</text>",
            x(at),
            report::seconds(at)
        );
    }
    for (at, row) in rows.iter().enumerate() {
        let top = AXIS + ROW * at as f64;
        let bar = |start: Duration, end: Duration, class: &str, title: &str| {
            let (left, right) = (x(start), x(end));
            format!(
                "<rect class=\"{class}\" x=\"{left:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"2\">\
                 <title>{title}</title></rect>",
                top + 5.0,
                (right - left).max(2.0),
                ROW - 10.0
            )
        };
        let name = markup(&row.name);
        let took = report::seconds(row.end - row.start);
        let _ = writeln!(
            text,
            "<g class=\"{}\"><text x=\"0\" y=\"{:.1}\">{}<title>{name}</title></text>{}",
            row.class,
            top + 15.0,
            markup(&cut(&row.name)),
            bar(
                row.start,
                row.end,
                if row.calls.is_empty() { "call" } else { "work" },
                &format!("{name}: from {} for {took}", report::seconds(row.start))
            )
        );
        for call in row.calls.iter().take(MAX_CALLS) {
            let took = report::seconds(call.end - call.start);
            let many = if call.resources > 1 { format!(" {} resources", call.resources) } else { String::new() };
            let title = format!("{}{many}: from {} for {took}", call.doing, report::seconds(call.start));
            text += &bar(call.start, call.end, "call", &title);
        }
        text += "</g>\n";
    }
    text + "</svg>\n"
}

/// Returns a name that fits before the bars.
fn cut(name: &str) -> String {
    let count = name.chars().count();
    if count <= MAX_NAME_CHARS {
        return name.to_owned();
    }
    let first: String = name.chars().take(20).collect();
    let last: String = name.chars().skip(count - (MAX_NAME_CHARS - 21)).collect();
    format!("{first}…{last}")
}
