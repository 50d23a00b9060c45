//! Traces and metrics of a finished run in the JSON encoding of OTLP (OpenTelemetry protocol 1.x).

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, UNIX_EPOCH};

use kilter_runtime::Status;
use serde_json::{Value as Json, json};

use super::tally::tally;
use crate::reported_run::ReportedRun;
use crate::trace::TracedCall;

/// Kind of a span that is neither a client nor a server (`SPAN_KIND_INTERNAL`).
const INTERNAL: u8 = 1;
/// Status codes of spans.
const OK: u8 = 1;
const ERROR: u8 = 2;

/// Returns the request with the spans: one for the run, one for each resource that was not simply in sync, and one for
/// each call on a worker.
pub(crate) fn traces(run: &ReportedRun<'_>) -> Json {
    let spans = Spans::new(run);
    json!({
        "resourceSpans": [{
            "resource": origin(run),
            "scopeSpans": [{ "scope": scope(), "spans": spans.all() }],
        }],
    })
}

/// Returns the request with the metrics.
pub(crate) fn metrics(run: &ReportedRun<'_>) -> Json {
    let (start, end) = (time(run, Duration::ZERO), time(run, run.report.duration));
    let point = |value: Json, attributes: Vec<Json>| {
        let mut point = json!({ "startTimeUnixNano": start, "timeUnixNano": end, "attributes": attributes });
        point.as_object_mut().into_iter().zip(value.as_object()).for_each(|(point, value)| point.extend(value.clone()));
        point
    };
    let gauge = |name: &str, unit: &str, description: &str, points: Vec<Json>| {
        let gauge = json!({ "dataPoints": points });
        json!({ "name": name, "unit": unit, "description": description, "gauge": gauge })
    };
    let integer = |count: usize| json!({ "asInt": count.to_string() });
    let of_run = || vec![text("kilter.command", run.command), flag("kilter.noop", run.noop)];
    let single = |value: Json| vec![point(value, of_run())];
    let resources = tally(run).into_iter().map(|((type_name, state), count)| {
        let attributes = [text("kilter.type", type_name), text("kilter.status", state)];
        point(integer(count), of_run().into_iter().chain(attributes).collect())
    });
    let is_success = usize::from(!run.report.has_failures() && !run.report.interrupted);
    let mut metrics = vec![
        gauge("kilter.run.duration", "s", "Duration of the run", {
            single(json!({ "asDouble": run.report.duration.as_secs_f64() }))
        }),
        gauge("kilter.run.success", "1", "1 if nothing failed, and nothing interrupted the run", {
            single(integer(is_success))
        }),
        gauge("kilter.run.resources", "{resource}", "Resources by type and result", resources.collect()),
        gauge("kilter.run.not_checked", "{resource}", "Resources that the run did not check", {
            single(integer(run.report.not_checked()))
        }),
        gauge("kilter.run.left_out", "{resource}", "Resources whose `when` was false", {
            single(integer(run.report.counts.left_out))
        }),
    ];
    if let Some(corrected) = &run.report.corrected {
        let points = single(integer(corrected.len()));
        metrics.push(gauge("kilter.run.corrected", "{resource}", "Changed resources that had drifted", points));
    }
    json!({
        "resourceMetrics": [{
            "resource": origin(run),
            "scopeMetrics": [{ "scope": scope(), "metrics": metrics }],
        }],
    })
}

fn origin(run: &ReportedRun<'_>) -> Json {
    let attributes = [
        text("service.name", "kilter"),
        text("service.version", env!("CARGO_PKG_VERSION")),
        text("host.name", run.host),
    ];
    json!({ "attributes": attributes })
}

fn scope() -> Json {
    json!({ "name": "kilter", "version": env!("CARGO_PKG_VERSION") })
}

/// Returns a time of the run in nanoseconds since 1970. Integers of 64 bits are texts in the JSON of protocol buffers.
fn time(run: &ReportedRun<'_>, at: Duration) -> String {
    let start = run.trace.started.duration_since(UNIX_EPOCH).unwrap_or_default();
    (start + at).as_nanos().to_string()
}

fn text(key: &str, value: &str) -> Json {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn flag(key: &str, value: bool) -> Json {
    json!({ "key": key, "value": { "boolValue": value } })
}

fn integer(key: &str, value: usize) -> Json {
    json!({ "key": key, "value": { "intValue": value.to_string() } })
}

/// Spans of a run.
struct Spans<'a> {
    run: &'a ReportedRun<'a>,
    trace_id: String,
    /// Random numbers: each key gives another one.
    random: RandomState,
    root: String,
}

impl<'a> Spans<'a> {
    fn new(run: &'a ReportedRun<'a>) -> Spans<'a> {
        let random = RandomState::new();
        let id = |key: &str| format!("{:016x}", random.hash_one((key, run.trace.started)));
        let (trace_id, root) = (format!("{}{}", id("first"), id("second")), id("run"));
        Spans { run, trace_id, random, root }
    }

    fn all(&self) -> Vec<Json> {
        let run = self.run;
        let report = run.report;
        let status = if report.has_failures() { json!({ "code": ERROR }) } else { json!({ "code": OK }) };
        let attributes = vec![
            text("kilter.command", run.command),
            flag("kilter.noop", run.noop),
            flag("kilter.interrupted", report.interrupted),
            integer("kilter.resources", report.counts.total),
        ];
        let name = format!("kilter {}", run.command);
        let mut spans =
            vec![self.span((&self.root, None), &name, (Duration::ZERO, run.trace.end(report)), attributes, status)];
        let (results, others) = run.trace.spans(report);
        for (at, one) in results.into_iter().enumerate() {
            let id = self.id(("resource", at));
            let parts: Vec<Json> =
                one.report.differences.iter().map(|one| json!({ "stringValue": one.attribute.as_str() })).collect();
            let mut attributes = vec![
                text("kilter.type", one.report.reference.type_name.as_str()),
                text("kilter.title", one.report.reference.title.as_str()),
                text("kilter.status", one.report.status.word()),
                json!({ "key": "kilter.attributes", "value": { "arrayValue": { "values": parts } } }),
            ];
            if let Some(cause) = &one.report.because_of {
                attributes.push(text("kilter.because_of", &cause.to_string()));
            }
            let status = match (&one.report.failure, one.report.status) {
                (Some(failure), _) => json!({ "code": ERROR, "message": failure.lines().next().unwrap_or_default() }),
                (None, Status::Failed) => json!({ "code": ERROR }),
                (None, _) => json!({}),
            };
            let name = one.report.reference.to_string();
            spans.push(self.span((&id, Some(&self.root)), &name, (one.start, one.end), attributes, status));
            for call in one.calls {
                spans.push(self.call(call, &id, spans.len()));
            }
        }
        for call in others {
            spans.push(self.call(call, &self.root, spans.len()));
        }
        spans
    }

    fn call(&self, call: &TracedCall, parent: &str, at: usize) -> Json {
        let name = match call.resources {
            1 => format!("{} {}", call.doing, call.reference),
            count => format!("{} {count} {}", call.doing, call.reference.type_name),
        };
        let attributes = vec![
            text("kilter.call", call.doing),
            text("kilter.type", call.reference.type_name.as_str()),
            integer("kilter.resources", call.resources),
        ];
        self.span((&self.id(("call", at)), Some(parent)), &name, (call.start, call.end), attributes, json!({}))
    }

    /// Returns a random id of 8 bytes.
    fn id(&self, key: (&str, usize)) -> String {
        format!("{:016x}", self.random.hash_one(key).max(1))
    }

    fn span(
        &self,
        (id, parent): (&str, Option<&str>),
        name: &str,
        (start, end): (Duration, Duration),
        attributes: Vec<Json>,
        status: Json,
    ) -> Json {
        let mut span = json!({
            "traceId": self.trace_id,
            "spanId": id,
            "name": name,
            "kind": INTERNAL,
            "startTimeUnixNano": time(self.run, start),
            "endTimeUnixNano": time(self.run, end),
            "attributes": attributes,
            "status": status,
        });
        if let Some(parent) = parent {
            span["parentSpanId"] = parent.into();
        }
        span
    }
}
