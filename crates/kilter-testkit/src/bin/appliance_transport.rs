//! Transport for the [appliance](kilter_testkit::appliance), as `examples/devices/appliance.prov`. A process of it needs
//! less than a tenth of the memory of Python.
//!
//! To use it, copy it to a directory of providers as `appliance.prov`, and `examples/devices/appliance.yaml` beside it.

use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Map, Value as Json, json};

/// Maximum time for an answer of the appliance. Less than the timeout of the transport, so that the user reads this
/// program's message.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// Maximum size of an answer in bytes.
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// Error for the user.
struct ApplianceError {
    message: String,
    kind: &'static str,
}

impl ApplianceError {
    fn new(message: impl Into<String>) -> ApplianceError {
        ApplianceError { message: message.into(), kind: "failed" }
    }

    fn json(&self) -> Json {
        json!({ "message": self.message, "kind": self.kind })
    }
}

/// A connection to the appliance, which stays open.
struct ApplianceConnection {
    host: String,
    port: u16,
    authorization: String,
    stream: Option<BufReader<TcpStream>>,
}

impl ApplianceConnection {
    fn new(info: &Json) -> ApplianceConnection {
        let text = |key: &str| info[key].as_str().unwrap_or_default();
        let login = format!("{}:{}", text("user"), text("password"));
        let authorization = format!("Basic {}", kilter_model::base64(login.as_bytes()));
        let port = info["port"].as_u64().and_then(|port| port.try_into().ok()).unwrap_or(80);
        ApplianceConnection { host: text("host").to_owned(), port, authorization, stream: None }
    }

    /// Sends a request and returns the answer.
    fn request(&mut self, method: &str, path: &str, value: Option<&Json>) -> Result<Json, ApplianceError> {
        let body = value.map(Json::to_string).unwrap_or_default();
        let (status, body) = self.exchange(method, path, &body).map_err(|error| {
            self.stream = None;
            let message = format!("{method} {path}: no answer from {}:{}: {error}", self.host, self.port);
            ApplianceError { message, kind: "unreachable" }
        })?;
        match status {
            200 => serde_json::from_slice(&body)
                .map_err(|error| ApplianceError::new(format!("{method} {path}: the answer is not JSON: {error}"))),
            401 => {
                let message = "the appliance refuses the login: check `user` and `password`".to_owned();
                Err(ApplianceError { message, kind: "forbidden" })
            }
            status => {
                let text: String = String::from_utf8_lossy(&body).chars().take(200).collect();
                Err(ApplianceError::new(format!("{method} {path}: status {status}: {text}")))
            }
        }
    }

    fn exchange(&mut self, method: &str, path: &str, body: &str) -> io::Result<(u16, Vec<u8>)> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            None => self.stream.insert(BufReader::new(connected(&self.host, self.port)?)),
        };
        let (host, authorization, length) = (&self.host, &self.authorization, body.len());
        let head = format!("Host: {host}\r\nAuthorization: {authorization}\r\nContent-Length: {length}\r\n\r\n");
        stream.get_mut().write_all(format!("{method} {path} HTTP/1.1\r\n{head}{body}").as_bytes())?;
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let status = line.split_whitespace().nth(1).and_then(|word| word.parse().ok());
        let status = status.ok_or_else(|| io::Error::other("it closed the connection"))?;
        let mut length = 0;
        loop {
            line.clear();
            stream.read_line(&mut line)?;
            let Some((name, value)) = line.trim().split_once(':') else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().map_err(io::Error::other)?;
            }
        }
        let mut body = vec![0; MAX_ANSWER_BYTES.min(length)];
        stream.read_exact(&mut body)?;
        Ok((status, body))
    }

    /// Returns the resources of a kind, all or those with these names.
    fn resources(&mut self, kind: &str, names: &Json) -> Result<Json, ApplianceError> {
        let Json::Object(mut found) = self.request("GET", &format!("/{kind}"), None)? else {
            return Err(ApplianceError::new(format!("GET /{kind}: the answer is not an object")));
        };
        if let Some(names) = names.as_array().filter(|names| !names.is_empty()) {
            found.retain(|name, _| names.contains(&Json::from(name.as_str())));
        }
        let resource = |(name, value): (String, Json)| {
            let mut resource = Map::from_iter([("name".to_owned(), Json::from(name))]);
            if kind != "setting" {
                resource.insert("ensure".to_owned(), "present".into());
            }
            resource.extend(object(&value));
            resource
        };
        Ok(json!({ "resources": found.into_iter().map(resource).collect::<Vec<_>>() }))
    }

    /// Makes the changes. An error of one resource does not affect the others.
    fn change_all(&mut self, kind: &str, updates: &Json) -> Json {
        let change = |update: &Json| {
            let name = update["name"].as_str().unwrap_or_default();
            match self.change(kind, name, update) {
                Ok(_) => json!({ "name": name }),
                // kilter does not repeat a change.
                Err(error) => json!({ "name": name, "error": { "message": error.message, "kind": "failed" } }),
            }
        };
        let changes: Vec<Json> = updates.as_array().into_iter().flatten().map(change).collect();
        json!({ "derive": true, "changes": changes })
    }

    fn change(&mut self, kind: &str, name: &str, update: &Json) -> Result<Json, ApplianceError> {
        let path = format!("/{kind}/{name}");
        if update["should"]["ensure"] == "absent" {
            return self.request("DELETE", &path, None);
        }
        let mut value: Map<String, Json> = object(&update["is"]).chain(object(&update["should"])).collect();
        value.remove("ensure");
        self.request("PUT", &path, Some(&Json::Object(value)))
    }
}

/// Returns the members of an object, and none of another value.
fn object(value: &Json) -> impl Iterator<Item = (String, Json)> + use<> {
    value.as_object().cloned().unwrap_or_default().into_iter()
}

fn connected(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut error = io::Error::other("the name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, ANSWER_TIMEOUT) {
            Ok(stream) => {
                stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
                stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(failed) => error = failed,
        }
    }
    Err(error)
}

/// Answers a request.
fn answer(connection: &mut ApplianceConnection, request: &Json) -> Result<Json, ApplianceError> {
    let kind = request["type"].as_str().unwrap_or_default().trim_start_matches("appliance_");
    match request["action"].as_str().unwrap_or_default() {
        "verify" => connection.request("GET", "/facts", None).map(|_| json!({})),
        "facts" => Ok(json!({ "facts": connection.request("GET", "/facts", None)? })),
        "get" => connection.resources(kind, &request["names"]),
        "set" => Ok(connection.change_all(kind, &request["updates"])),
        _ => Ok(json!({})),
    }
}

fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        // kilter has ended the connection.
        Err(_) => ExitCode::FAILURE,
    }
}

fn serve() -> io::Result<()> {
    let mut connection = ApplianceConnection::new(&Json::Null);
    let mut output = BufWriter::new(io::stdout());
    for line in io::stdin().lock().lines() {
        let request: Json = serde_json::from_str(&line?)?;
        if request["action"] == "connect" {
            connection = ApplianceConnection::new(&request["connection_info"]);
        }
        let mut reply = answer(&mut connection, &request).unwrap_or_else(|error| json!({ "error": error.json() }));
        reply["id"] = request["id"].clone();
        writeln!(output, "{reply}")?;
        output.flush()?;
    }
    Ok(())
}
