//! Sends the traces and metrics of a run to a collector of OpenTelemetry.

use std::time::{Duration, Instant};

use kilter_fetch::{FetchError, Upload, is_protected, post};
use serde_json::Value as Json;

use crate::render::otlp;
use crate::reported_run::ReportedRun;
use crate::visible::visible;
use crate::{output, signals};

/// Maximum duration of all uploads.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Variable with headers for the collector, which may contain secrets.
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";

/// Sends the traces and metrics. A failure is a warning, and does not change the result of the run.
pub(crate) fn send(collector: &str, run: &ReportedRun<'_>) {
    // The rest of the address may contain a secret.
    let server = collector.split('/').nth(2).and_then(|server| server.rsplit('@').next()).unwrap_or_default();
    // The run has ended. A signal must not wait for the collector.
    if let Err(why) = signals::killable(|| upload(collector, run)) {
        let server = if server.is_empty() { "the collector".to_owned() } else { visible(server) };
        output::warning(format_args!("traces and metrics were not sent to {server}: {}", visible(&why)));
    }
}

fn upload(collector: &str, run: &ReportedRun<'_>) -> Result<(), String> {
    let headers = match std::env::var(HEADERS) {
        Ok(text) => headers(&text).ok_or_else(|| format!("{HEADERS} is not of the form NAME=VALUE,NAME=VALUE"))?,
        Err(std::env::VarError::NotPresent) => Vec::new(),
        Err(std::env::VarError::NotUnicode(_)) => return Err(format!("{HEADERS} is not UTF-8")),
    };
    if !headers.is_empty() && !is_protected(collector) {
        return Err(format!("{HEADERS} would be sent without encryption: use https"));
    }
    let end = Instant::now() + TIMEOUT;
    let base = collector.trim_end_matches('/');
    for (path, body) in [("traces", otlp::traces(run)), ("metrics", otlp::metrics(run))] {
        let upload = Upload {
            url: format!("{base}/v1/{path}"),
            content_type: "application/json",
            headers: headers.clone(),
            body: body.to_string(),
            timeout: end.saturating_duration_since(Instant::now()),
        };
        let answer = post(upload).map_err(|error| match error {
            // The message contains the address.
            FetchError::Url(_) => "its address is invalid: write https://HOST:PORT".to_owned(),
            error => error.to_string(),
        })?;
        rejected(&answer).map_or(Ok(()), |why| Err(format!("it rejected {path}: {why}")))?;
    }
    Ok(())
}

/// Parses headers in the form of W3C Baggage: percent-encoded values, separated by commas.
fn headers(text: &str) -> Option<Vec<(String, String)>> {
    let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    let header = |entry: &str| {
        let (name, value) = entry.split_once('=')?;
        let name = name.trim();
        (!name.is_empty()).then_some((name.to_owned(), decoded(value.trim())?))
    };
    entries.map(header).collect()
}

/// Decodes percent-encoding.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        bytes.push(match byte {
            b'%' => {
                let digits = std::str::from_utf8(after.get(..2)?).ok()?;
                rest = &after[2..];
                u8::from_str_radix(digits, 16).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

/// Returns the reason of a collector that rejected a part of the data.
fn rejected(answer: &[u8]) -> Option<String> {
    let answer: Json = serde_json::from_slice(answer).ok()?;
    let partial = answer.get("partialSuccess")?;
    let count = |key: &str| match &partial[key] {
        Json::String(text) => text.parse().unwrap_or(0),
        other => other.as_u64().unwrap_or(0),
    };
    let rejected: u64 = count("rejectedSpans") + count("rejectedDataPoints");
    let message = partial["errorMessage"].as_str().unwrap_or_default();
    (rejected > 0).then(|| format!("{rejected} of them, {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_decoded() {
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let expected = vec![header("Authorization", "Basic dTpw"), header("x", "a,b=c")];
        assert_eq!(headers("Authorization=Basic%20dTpw, x = a%2Cb=c,"), Some(expected));
        assert_eq!(headers(""), Some(Vec::new()));
        for invalid in ["a", "=b", "a=%2", "a=%zz", "a=%ff"] {
            assert_eq!(headers(invalid), None, "{invalid}");
        }
    }

    #[test]
    fn rejected_parts_are_reported() {
        let answer = br#"{"partialSuccess": {"rejectedSpans": "3", "errorMessage": "too old"}}"#;
        assert_eq!(rejected(answer).as_deref(), Some("3 of them, too old"));
        for accepted in ["", "{}", r#"{"partialSuccess": {}}"#, r#"{"partialSuccess": {"errorMessage": "hint"}}"#] {
            assert_eq!(rejected(accepted.as_bytes()), None, "{accepted}");
        }
    }
}
