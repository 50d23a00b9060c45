//! Report of a period of the history as one HTML page.

use std::fmt::Write;

use super::{MAX_DRIFTING, changed_values, details, diff_block, document, markup, tiles};

/// Layout of the drawing in its units.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 150.0;
const LEFT: f64 = 40.0;
const TOP: f64 = 16.0;
const AXIS: f64 = 22.0;

/// Period of the history with all texts that the page shows.
pub(crate) struct PeriodReport {
    /// Host of the runs.
    pub(crate) host: String,
    /// Begin and end.
    pub(crate) range: String,
    /// Counts with their words and classes.
    pub(crate) counts: Vec<(u64, &'static str, &'static str)>,
    /// Results over the time.
    pub(crate) buckets: Vec<PeriodBucket>,
    /// Duration of a bucket.
    pub(crate) bucket_words: &'static str,
    /// Resources that drift, the most frequent first.
    pub(crate) drift: Vec<DriftRow>,
    /// Runs, the newest first.
    pub(crate) runs: Vec<RecordedRun>,
    /// Parts that the page lacks.
    pub(crate) note: Option<String>,
}

/// Numbers of results in a part of the period.
#[derive(Default)]
pub(crate) struct PeriodBucket {
    /// Begin.
    pub(crate) label: String,
    pub(crate) changed: u64,
    pub(crate) corrected: u64,
    pub(crate) failed: u64,
}

/// Resource that drifts.
pub(crate) struct DriftRow {
    pub(crate) resource: String,
    pub(crate) repairs: u64,
    pub(crate) first: String,
    pub(crate) last: String,
    /// Average time between two repairs.
    pub(crate) interval: String,
    /// Attributes with their numbers of repairs.
    pub(crate) attributes: String,
    /// Time from the drift to its repair.
    pub(crate) repair_time: String,
    /// Process that causes the drift, if it is known.
    pub(crate) process: String,
}

/// Run with its results.
pub(crate) struct RecordedRun {
    pub(crate) id: i64,
    pub(crate) time: String,
    /// Command and user.
    pub(crate) origin: String,
    pub(crate) result: String,
    /// Class of the result.
    pub(crate) class: &'static str,
    /// Manifests and changes of declarations.
    pub(crate) lines: Vec<String>,
    pub(crate) outcomes: Vec<RecordedOutcome>,
}

/// Result of a resource.
pub(crate) struct RecordedOutcome {
    pub(crate) resource: String,
    pub(crate) word: String,
    pub(crate) class: &'static str,
    /// Time and place of the declaration.
    pub(crate) origin: String,
    pub(crate) failure: Option<String>,
    pub(crate) changes: Vec<RecordedDifference>,
    /// Further lines.
    pub(crate) lines: Vec<String>,
    /// Processes of a failed resource.
    pub(crate) processes: Vec<String>,
}

/// Changed attribute.
pub(crate) struct RecordedDifference {
    pub(crate) attribute: String,
    /// Words of the provider, in place of the values.
    pub(crate) message: Option<String>,
    pub(crate) old: String,
    pub(crate) new: String,
    pub(crate) diff: Option<String>,
}

/// Returns the page.
pub(crate) fn page(period: &PeriodReport) -> String {
    let title = format!("kilter history of {}", markup(&period.host));
    let mut body = format!("<p class=\"faint\">{} · kilter {}</p>\n", markup(&period.range), env!("CARGO_PKG_VERSION"));
    if let Some(note) = &period.note {
        let _ = writeln!(body, "<p>{}</p>", markup(note));
    }
    body += "<section>\n<h2>Counts</h2>\n";
    body += &tiles(&period.counts);
    body += "</section>\n";
    body += &timeline(period);
    body += &drift(&period.drift);
    body += &runs(&period.runs);
    document(&title, &body)
}

fn timeline(period: &PeriodReport) -> String {
    let total = |bucket: &PeriodBucket| bucket.changed + bucket.corrected + bucket.failed;
    let highest = period.buckets.iter().map(total).max().unwrap_or_default();
    if highest == 0 {
        return String::new();
    }
    let height = TOP + HEIGHT + AXIS;
    let mut text = format!(
        "<section>\n<h2>Timeline</h2>\n<p class=\"faint\">Results per {}: <span class=\"done\">■ changed</span> \
         <span class=\"todo\">■ corrected</span> <span class=\"bad\">■ failed</span>. Hold the pointer over a bar for \
         its numbers.</p>\n<div class=\"timeline\">\n\
         <svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"Results over the time\">\n",
        period.bucket_words
    );
    let y = |count: u64| TOP + HEIGHT - HEIGHT * count as f64 / highest as f64;
    for count in if highest == 1 { vec![0, 1] } else { vec![0, highest / 2, highest] } {
        let _ = writeln!(
            text,
            "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{0:.1}\" y2=\"{0:.1}\"/>\
             <text class=\"faint\" x=\"{1}\" y=\"{2:.1}\" text-anchor=\"end\">{count}</text>",
            y(count),
            LEFT - 6.0,
            y(count) + 4.0
        );
    }
    let step = (WIDTH - LEFT) / period.buckets.len() as f64;
    for (at, bucket) in period.buckets.iter().enumerate() {
        let left = LEFT + step * at as f64;
        if at % period.buckets.len().div_ceil(6) == 0 {
            let label = markup(&bucket.label);
            let _ = writeln!(text, "<text class=\"faint\" x=\"{left:.1}\" y=\"{:.1}\">{label}</text>", height - 6.0);
        }
        if total(bucket) == 0 {
            continue;
        }
        let _ = write!(
            text,
            "<g><title>{}: {} changed, {} corrected, {} failed</title>",
            markup(&bucket.label),
            bucket.changed,
            bucket.corrected,
            bucket.failed
        );
        let mut below = 0;
        for (count, class) in [(bucket.changed, "done"), (bucket.corrected, "todo"), (bucket.failed, "bad")] {
            if count > 0 {
                let _ = write!(
                    text,
                    "<rect class=\"{class}\" x=\"{left:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
                    y(below + count),
                    (step - 2.0).max(1.5),
                    (y(below) - y(below + count)).max(1.0)
                );
            }
            below += count;
        }
        text += "</g>\n";
    }
    text + "</svg>\n</div>\n</section>\n"
}

fn drift(rows: &[DriftRow]) -> String {
    let mut text = "<section>\n<h2>What drifts</h2>\n".to_owned();
    if rows.is_empty() {
        return text + "<p class=\"faint\">No repair of a drift is on record.</p>\n</section>\n";
    }
    text += "<div class=\"timeline\">\n<table>\n<tr><th>Resource</th><th>Repairs</th><th>First</th><th>Last</th>\
             <th>Average interval</th><th>Attributes</th><th>Repaired after</th><th>Changed by</th></tr>\n";
    for row in rows.iter().take(MAX_DRIFTING) {
        let cells = [&row.first, &row.last, &row.interval, &row.attributes, &row.repair_time, &row.process];
        let cells = cells.map(|cell| markup(cell));
        let _ = writeln!(
            text,
            "<tr><td class=\"name\">{}</td><td class=\"number\">{}</td><td>{}</td></tr>",
            markup(&row.resource),
            row.repairs,
            cells.join("</td><td>")
        );
    }
    text += "</table>\n</div>\n";
    if let Some(more) = rows.len().checked_sub(MAX_DRIFTING).filter(|more| *more > 0) {
        let _ = writeln!(text, "<p class=\"faint\">and {more} more: <code>kilter history drift</code></p>");
    }
    text + "</section>\n"
}

fn runs(runs: &[RecordedRun]) -> String {
    if runs.is_empty() {
        return String::new();
    }
    let runs: String = runs.iter().map(run).collect();
    format!("<section>\n<h2>Runs</h2>\n{runs}</section>\n")
}

fn run(run: &RecordedRun) -> String {
    let mut body = String::new();
    for line in &run.lines {
        let _ = writeln!(body, "<p class=\"faint\">{}</p>", markup(line));
    }
    body.extend(run.outcomes.iter().map(outcome));
    let summary = format!(
        "{} {} <span class=\"{}\">{}</span> <span class=\"faint\">run {}</span>",
        markup(&run.time),
        markup(&run.origin),
        run.class,
        markup(&run.result),
        run.id
    );
    details(&format!("run{}", run.id), false, &summary, &body)
}

fn outcome(one: &RecordedOutcome) -> String {
    let mut text = format!(
        "<div class=\"outcome\">\n<p><span class=\"mark {}\">{}</span> {} <span class=\"faint\">{}</span></p>\n",
        one.class,
        markup(&one.word),
        markup(&one.resource),
        markup(&one.origin)
    );
    if let Some(failure) = &one.failure {
        let _ = writeln!(text, "<pre class=\"error\">{}</pre>", markup(failure));
    }
    for change in &one.changes {
        let words = match &change.message {
            Some(message) => format!("<span>{}</span>", markup(message)),
            None => changed_values(&change.old, &change.new),
        };
        let _ = writeln!(text, "<p class=\"difference\"><b>{}</b> {words}</p>", markup(&change.attribute));
        text.extend(change.diff.as_deref().map(diff_block));
    }
    for line in &one.lines {
        let _ = writeln!(text, "<p>{}</p>", markup(line));
    }
    if !one.processes.is_empty() {
        let _ = writeln!(text, "<pre>{}</pre>", markup(&one.processes.join("\n")));
    }
    text + "</div>\n"
}
