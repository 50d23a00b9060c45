use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::Mutex;

use super::*;

/// A server that answers each request with the next of these responses. Returns its address and the requests.
fn serve(responses: Vec<Vec<u8>>) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let requests: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&requests);
    std::thread::spawn(move || {
        for response in responses {
            let (mut stream, _) = listener.accept().unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
            let request: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
            seen.lock().unwrap().push(request.join("\n"));
            let _ = stream.write_all(&response);
        }
    });
    (address, requests)
}

fn response(status: &str, headers: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len()).into()
}

fn fetch(url: &str, known: Option<&Validators>, max_bytes: u64) -> Result<(Answer, Vec<u8>), String> {
    let mut content = Vec::new();
    let request = Request { url, known, max_bytes, timeout: Duration::from_secs(20) };
    let answer = get(&request, &AtomicBool::new(false), &mut |chunk| {
        content.extend_from_slice(chunk);
        Ok(())
    });
    answer.map(|answer| (answer, content)).map_err(|error| error.to_string())
}

#[test]
fn content_arrives_with_its_validators() {
    let body = "x".repeat(300_000);
    let (url, _) = serve(vec![response("200 OK", "ETag: \"v1\"\r\n", &body)]);
    let (answer, content) = fetch(&url, None, 1 << 20).unwrap();
    assert_eq!(answer, Answer::Content(Validators { etag: Some("\"v1\"".into()), last_modified: None }));
    assert_eq!(content, body.as_bytes());
}

#[test]
fn known_version_is_not_transferred_again() {
    let known = Validators { etag: Some("\"v1\"".into()), last_modified: Some("Thu, 26 Nov 2026 00:00:00 GMT".into()) };
    let (url, requests) = serve(vec![b"HTTP/1.1 304 Not Modified\r\nConnection: close\r\n\r\n".to_vec()]);
    assert_eq!(fetch(&url, Some(&known), 10).unwrap(), (Answer::Unchanged, Vec::new()));
    let request = requests.lock().unwrap().remove(0).to_ascii_lowercase();
    assert!(request.contains("if-none-match: \"v1\"") && request.contains("if-modified-since: thu"), "{request}");
}

#[test]
fn redirects_are_followed_up_to_the_limit() {
    let moved = response("302 Found", "Location: /next\r\n", "");
    let (url, requests) = serve(vec![moved.clone(), response("200 OK", "", "here")]);
    assert_eq!(fetch(&format!("{url}/first"), None, 10).unwrap().1, b"here");
    assert!(requests.lock().unwrap()[1].starts_with("GET /next "));
    let (url, requests) = serve(vec![moved; MAX_REDIRECTS + 2]);
    assert!(fetch(&url, None, 10).unwrap_err().contains("more than 5 times"));
    assert_eq!(requests.lock().unwrap().len(), MAX_REDIRECTS + 1);
}

#[test]
fn large_truncated_and_failing_answers_are_errors() {
    let (url, _) = serve(vec![response("200 OK", "", "0123456789x")]);
    assert!(fetch(&url, None, 10).unwrap_err().contains("larger than 10 bytes"));
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n0123456789x\r\n0\r\n\r\n".to_vec();
    let (url, _) = serve(vec![chunked]);
    assert!(fetch(&url, None, 10).unwrap_err().contains("larger than 10 bytes"));
    let (url, _) = serve(vec![b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123".to_vec()]);
    assert!(fetch(&url, None, 10).is_err());
    let (url, _) = serve(vec![response("404 Not Found", "", "no")]);
    assert!(fetch(&url, None, 10).unwrap_err().contains("status 404"));
    let (url, _) = serve(vec![]);
    assert!(fetch(&url, None, 10).is_err());
}

#[test]
fn cancel_ends_a_download_that_stalls() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let request = Request { url: &url, known: None, max_bytes: 10, timeout: Duration::from_secs(20) };
    let cancel = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let download = scope.spawn(|| get(&request, &cancel, &mut |_| Ok(())));
        let _stalled = listener.accept().unwrap();
        cancel.store(true, Ordering::Release);
        assert!(matches!(download.join().unwrap(), Err(FetchError::Cancelled)));
    });
}

#[test]
fn failure_of_the_caller_ends_the_download() {
    let (url, _) = serve(vec![response("200 OK", "", "content")]);
    let request = Request { url: &url, known: None, max_bytes: 10, timeout: Duration::from_secs(20) };
    let full = &mut |_: &[u8]| Err(io::Error::from(io::ErrorKind::StorageFull));
    assert!(matches!(get(&request, &AtomicBool::new(false), full), Err(FetchError::Write(_))));
}

/// A server that answers one request, of which it returns the head and the body.
fn receive_upload(response: Vec<u8>) -> (String, std::thread::JoinHandle<(String, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1/traces", listener.local_addr().unwrap());
    let received = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(reader.read_line(&mut head).unwrap() > 0, "{head}");
        }
        let length = |line: &str| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok();
        let mut body = vec![0; head.lines().find_map(length).unwrap()];
        reader.read_exact(&mut body).unwrap();
        stream.write_all(&response).unwrap();
        (head, String::from_utf8(body).unwrap())
    });
    (url, received)
}

fn upload(url: &str, timeout: Duration) -> Upload {
    let headers = vec![("Authorization".to_owned(), "Bearer s3cret".to_owned())];
    Upload { url: url.to_owned(), content_type: "application/json", headers, body: "{\"a\": 1}".into(), timeout }
}

#[test]
fn upload_arrives_with_its_headers() {
    let (url, received) = receive_upload(response("200 OK", "", "{}"));
    assert_eq!(post(upload(&url, Duration::from_secs(20))).unwrap(), b"{}");
    let (head, body) = received.join().unwrap();
    assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
    let head = head.to_ascii_lowercase();
    assert!(head.contains("content-type: application/json") && head.contains("authorization: bearer s3cret"), "{head}");
    assert_eq!(body, "{\"a\": 1}");
}

#[test]
fn refused_upload_is_an_error_without_its_headers() {
    for (response, why) in [
        (response("503 Service Unavailable", "", ""), "status 503"),
        (response("302 Found", "Location: http://127.0.0.1:1/\r\n", ""), "status 302"),
    ] {
        let (url, received) = receive_upload(response);
        let error = post(upload(&url, Duration::from_secs(20))).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
        received.join().unwrap();
    }
    let mut invalid = upload("http://127.0.0.1:1/", Duration::from_secs(20));
    invalid.headers = vec![("Authorization".to_owned(), "s3cret\nX: y".to_owned())];
    let error = post(invalid).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
    assert!(matches!(post(upload("ftp://127.0.0.1/", Duration::from_secs(1))), Err(FetchError::Url(_))));
}

#[test]
fn silent_server_ends_an_upload_at_its_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    assert!(matches!(post(upload(&url, Duration::from_millis(100))), Err(FetchError::Transport(_))));
}
