//! The transport in Rust answers as the example in Python.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use kilter_testkit::appliance::{Appliance, ApplianceFault, PASSWORD, USER};
use serde_json::{Value as Json, json};

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/devices/appliance.prov");

/// A transport and the appliance to which it connects.
struct Conversation {
    appliance: Appliance,
    transport: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Conversation {
    fn begin(program: &str) -> Conversation {
        let mut command = Command::new(program);
        command.arg("ral_action=connect").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut transport = command.spawn().unwrap();
        let (requests, answers) = (transport.stdin.take().unwrap(), BufReader::new(transport.stdout.take().unwrap()));
        Conversation { appliance: Appliance::start().unwrap(), transport, requests, answers }
    }

    fn connect(&mut self, password: &str) -> Json {
        let info = json!({ "host": "127.0.0.1", "port": self.appliance.port(), "user": USER, "password": password });
        self.ask(json!({ "action": "connect", "target": "box1", "connection_info": info }))
    }

    /// Sends a request and returns the answer, without the port.
    fn ask(&mut self, mut request: Json) -> Json {
        request["id"] = 7.into();
        writeln!(self.requests, "{request}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        let answer: Json = serde_json::from_str(&line.replace(&self.appliance.port().to_string(), "PORT")).unwrap();
        assert_eq!(answer["id"], 7);
        without_system_errors(answer)
    }

    fn end(self) {
        let Conversation { requests, mut transport, .. } = self;
        drop(requests);
        assert!(transport.wait().unwrap().success());
    }
}

/// Cuts messages after the address of the appliance: the texts of system errors differ.
fn without_system_errors(mut answer: Json) -> Json {
    fn cut(value: &mut Json) {
        match value {
            Json::String(text) => {
                if let Some((start, _)) = text.clone().split_once(":PORT: ") {
                    *text = start.to_owned();
                }
            }
            Json::Array(values) => values.iter_mut().for_each(cut),
            Json::Object(entries) => entries.values_mut().for_each(cut),
            _ => {}
        }
    }
    cut(&mut answer);
    answer
}

/// Returns the answers of a transport to all kinds of requests.
fn answers(program: &str) -> Vec<Json> {
    let mut talk = Conversation::begin(program);
    let mut answers = vec![talk.connect(PASSWORD), talk.ask(json!({ "action": "verify" }))];
    answers.push(talk.ask(json!({ "action": "facts" })));
    let update = |name: &str, is: Json, should: Json| json!({ "name": name, "is": is, "should": should });
    let absent = json!({ "ensure": "absent" });
    let present = json!({ "ensure": "present", "label": "\"a\" $(b)\n\u{e9}", "shutdown": true });
    let set = |updates: Json| json!({ "action": "set", "type": "appliance_vlan", "updates": updates });
    answers.push(talk.ask(set(json!([update("7", absent.clone(), present.clone()), update("9", absent, present)]))));
    let get = |kind: &str, names: Json| json!({ "action": "get", "type": kind, "names": names });
    answers.push(talk.ask(get("appliance_vlan", json!([]))));
    answers.push(talk.ask(get("appliance_vlan", json!(["9", "8"]))));
    let removed = update("9", json!({ "ensure": "present" }), json!({ "ensure": "absent" }));
    answers.push(talk.ask(set(json!([removed]))));
    answers.push(json!([talk.appliance.get("vlan", "7"), talk.appliance.get("vlan", "9")]));
    talk.appliance.put("setting", "banner", json!({ "value": "x" }));
    answers.push(talk.ask(get("appliance_setting", json!([]))));
    talk.appliance.fail_next("GET /user", ApplianceFault::Status(503));
    answers.push(talk.ask(get("appliance_user", json!([]))));
    talk.appliance.fail_next("PUT /vlan/8", ApplianceFault::Disconnect);
    let change = |name: &str| update(name, json!({ "label": "a" }), json!({ "label": "b" }));
    answers.push(talk.ask(set(json!([change("8"), change("7")]))));
    talk.appliance.fail_next("GET /facts", ApplianceFault::Disconnect);
    answers.push(talk.ask(json!({ "action": "verify" })));
    answers.push(talk.ask(json!({ "action": "close" })));
    answers.push(talk.connect("wrong"));
    answers.push(talk.ask(json!({ "action": "verify" })));
    talk.end();
    answers
}

#[test]
fn transport_in_rust_answers_as_the_example() {
    let expected = answers(EXAMPLE);
    let kinds: Vec<&str> = expected.iter().filter_map(|answer| answer["error"]["kind"].as_str()).collect();
    assert_eq!(kinds, ["failed", "unreachable", "forbidden"]);
    assert_eq!(answers(env!("CARGO_BIN_EXE_appliance_transport")), expected);
}
