//! Traces and metrics for a collector of OpenTelemetry: `--otlp` (docs/reference/reports.md).

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;

use serde_json::Value;

use crate::support::{Ended, Place};

/// A collector that answers requests with the next of these statuses and ends.
pub(crate) struct Collector {
    pub(crate) url: String,
    thread: JoinHandle<Vec<(String, String)>>,
}

impl Collector {
    pub(crate) fn new(answers: &[(&'static str, &'static str)]) -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answers = answers.to_vec();
        let thread =
            std::thread::spawn(move || answers.into_iter().map(|answer| received(&listener, answer)).collect());
        Collector { url, thread }
    }

    /// Returns the heads and bodies of all requests.
    pub(crate) fn requests(self) -> Vec<(String, String)> {
        self.thread.join().unwrap()
    }
}

fn received(listener: &TcpListener, (status, answer): (&str, &str)) -> (String, String) {
    let (mut stream, _) = listener.accept().unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).unwrap() > 0, "{head}");
    }
    let length = |line: &str| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok();
    let mut body = vec![0; head.lines().find_map(length).unwrap()];
    reader.read_exact(&mut body).unwrap();
    let length = answer.len();
    let head_of_answer = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    stream.write_all((head_of_answer + answer).as_bytes()).unwrap();
    (head, String::from_utf8(body).unwrap())
}

const ACCEPTS: [(&str, &str); 2] = [("200 OK", "{}"), ("200 OK", "")];

/// A run with a change, a failure, a skipped and an unchanged resource.
fn place() -> Place {
    let place = Place::new();
    let manifest = "resources:\n  file[DIR/a]: { content: new }\n  file[DIR/same]: { content: same }\n  exec[fails]: { \
                    command: [/bin/false], require: \"file[DIR/a]\" }\n  exec[after]: { command: [/bin/true], require: \
                    \"exec[fails]\" }\n";
    place.file("m.yaml", manifest.replace("DIR", &place.path().display().to_string()));
    place.file("a", "old");
    place.file("same", "same");
    place
}

/// Attributes of a span, a point or a resource by their names.
fn attributes(of: &Value) -> BTreeMap<&str, &Value> {
    let attributes = of["attributes"].as_array().unwrap().iter();
    attributes
        .map(|one| (one["key"].as_str().unwrap(), one["value"].as_object().unwrap().values().next().unwrap()))
        .collect()
}

#[test]
fn run_is_sent_as_spans_and_metrics() {
    let place = place();
    let collector = Collector::new(&ACCEPTS);
    let ended = place.run(&["apply", "m.yaml", "--otlp", &collector.url]);
    assert_eq!((ended.code, ended.stderr.as_str()), (4, ""));
    let requests = collector.requests();
    assert!(requests[0].0.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{}", requests[0].0);
    assert!(requests[1].0.starts_with("POST /v1/metrics HTTP/1.1\r\n"), "{}", requests[1].0);
    assert!(requests[0].0.to_ascii_lowercase().contains("content-type: application/json\r\n"), "{}", requests[0].0);

    let traces: Value = serde_json::from_str(&requests[0].1).unwrap();
    let of_host = &traces["resourceSpans"][0];
    assert_eq!(attributes(&of_host["resource"])["service.name"], "kilter");
    let spans = of_host["scopeSpans"][0]["spans"].as_array().unwrap();
    let root = &spans[0];
    assert!(root.get("parentSpanId").is_none());
    assert_eq!((&root["name"], &root["status"]["code"], &root["kind"]), (&"kilter apply".into(), &2.into(), &1.into()));
    let is_id = |id: &Value, digits: usize| {
        let id = id.as_str().unwrap();
        id.len() == digits && id.bytes().all(|byte| byte.is_ascii_hexdigit()) && id.bytes().any(|byte| byte != b'0')
    };
    let time = |span: &Value, key: &str| span[key].as_str().unwrap().parse::<u64>().unwrap();
    let mut ids = std::collections::BTreeSet::new();
    for span in spans {
        assert!(is_id(&span["traceId"], 32) && is_id(&span["spanId"], 16), "{span}");
        assert_eq!(span["traceId"], root["traceId"]);
        assert!(ids.insert(span["spanId"].as_str().unwrap()), "{span}");
        let (start, end) = (time(span, "startTimeUnixNano"), time(span, "endTimeUnixNano"));
        assert!(
            time(root, "startTimeUnixNano") <= start && start <= end && end <= time(root, "endTimeUnixNano"),
            "{span}"
        );
    }
    let span =
        |name: &str| spans.iter().find(|span| span["name"] == name).unwrap_or_else(|| panic!("{name}: {spans:?}"));
    let (changed, failed, skipped) =
        (span(&format!("file[{}]", place.path().join("a").display())), span("exec[fails]"), span("exec[after]"));
    for (span, status) in [(changed, "changed"), (failed, "failed"), (skipped, "skipped")] {
        assert_eq!((attributes(span)["kilter.status"], &span["parentSpanId"]), (&status.into(), &root["spanId"]));
    }
    assert_eq!(attributes(changed)["kilter.attributes"]["values"][0]["stringValue"], "content");
    assert_eq!(failed["status"]["code"], 2);
    assert!(failed["status"]["message"].as_str().unwrap().contains("returned 1"), "{failed}");
    assert_eq!(attributes(skipped)["kilter.because_of"], "exec[fails]");
    let call = span("changing exec[fails]");
    assert_eq!(call["parentSpanId"], failed["spanId"]);

    let metrics: Value = serde_json::from_str(&requests[1].1).unwrap();
    let metrics = metrics["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
    let points = |name: &str| {
        let metric = metrics.iter().find(|metric| metric["name"] == name).unwrap();
        metric["gauge"]["dataPoints"].as_array().unwrap()
    };
    assert!(points("kilter.run.duration")[0]["asDouble"].as_f64().unwrap() > 0.0);
    assert_eq!(points("kilter.run.success")[0]["asInt"], "0");
    let counts: BTreeMap<(&str, &str), &str> = points("kilter.run.resources")
        .iter()
        .map(|point| {
            let attributes = attributes(point);
            let text = |key: &str| attributes[key].as_str().unwrap();
            ((text("kilter.type"), text("kilter.status")), point["asInt"].as_str().unwrap())
        })
        .collect();
    let expected =
        [(("exec", "failed"), "1"), (("exec", "skipped"), "1"), (("file", "changed"), "1"), (("file", "in_sync"), "1")];
    assert_eq!(counts, BTreeMap::from(expected));
}

/// Runs with the variables of OpenTelemetry.
fn run_with(place: &Place, args: &[&str], endpoint: &str, headers: &str) -> Ended {
    let mut command = place.command(args);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint).env("OTEL_EXPORTER_OTLP_HEADERS", headers);
    place.end(&mut command)
}

#[test]
fn variables_set_the_endpoint_and_the_headers() {
    let place = place();
    let collector = Collector::new(&ACCEPTS);
    let endpoint = format!("{}/", collector.url);
    let ended = run_with(&place, &["plan", "m.yaml"], &endpoint, "Authorization=Bearer%20s3cret,x-scope=a");
    assert_eq!((ended.code, ended.stderr.as_str()), (2, ""));
    for (head, body) in collector.requests() {
        let head = head.to_ascii_lowercase();
        assert!(head.contains("authorization: bearer s3cret\r\n") && head.contains("x-scope: a\r\n"), "{head}");
        assert!(!body.contains("s3cret"), "{body}");
    }
    // The help and an empty variable reveal and need nothing.
    let help = run_with(&place, &["plan", "--help"], "http://127.0.0.1:1/token", "a=s3cret");
    assert!(!help.stdout.contains("token"), "{help:?}");
    assert_eq!(run_with(&place, &["plan", "m.yaml"], "", "").stderr, "");
}

#[test]
fn failing_collector_is_a_warning() {
    let place = place();
    let unused = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = format!("http://{}", unused.local_addr().unwrap());
    drop(unused);
    let sends = |url: &str, headers: &str, why: &str| {
        let ended = run_with(&place, &["plan", "m.yaml"], url, headers);
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(ended.stderr.starts_with("warning: traces and metrics were not sent to "), "{ended:?}");
        assert!(ended.stderr.contains(why) && !ended.stderr.contains("s3cret"), "{ended:?}");
    };
    sends(&closed, "", "127.0.0.1");
    let refusing = Collector::new(&[("500 Internal Server Error", "")]);
    sends(&refusing.url, "", "the server replied with status 500");
    assert_eq!(refusing.requests().len(), 1);
    let rejecting =
        Collector::new(&[("200 OK", "{\"partialSuccess\": {\"rejectedSpans\": \"2\", \"errorMessage\": \"old\"}}")]);
    sends(&rejecting.url, "", "it rejected traces: 2 of them, old");
    rejecting.requests();
    sends("https://user:s3cret@127.0.0.1:1", "", "its address is invalid");
    sends("nowhere", "", "its address is invalid");
    sends(&closed, "s3cret", "is not of the form NAME=VALUE");
    sends("http://192.0.2.1:4318", "a=s3cret", "would be sent without encryption");
}

#[test]
fn replay_sends_nothing() {
    let place = place();
    let recorded = place.run(&["provider", "record", "m.rec", "plan", "m.yaml"]);
    assert_eq!(recorded.code, 2, "{recorded:?}");
    let replayed = run_with(&place, &["provider", "replay", "m.rec"], "http://127.0.0.1:1", "");
    assert!(replayed.code == 2 && !replayed.stderr.contains("traces"), "{replayed:?}");
}
