mod calls;
mod lists;
mod updates;

use kilter_model::Value;
use kilter_process::{Captured, Invocation, Output, Status, Termination};

use super::Simple;
use crate::convention::{Convention, ProtocolError, Record, Reply, Request};

fn simple() -> Simple {
    Simple::new(Invocation::new("/x.prov"))
}

/// Returns a finished process with this exit code and output.
fn ended(code: i32, stdout: impl AsRef<[u8]>) -> Output {
    Output { stdout: Captured { bytes: stdout.as_ref().to_vec(), dropped: 0 }, ..Output::of(Status::Code(code)) }
}

fn listed(stdout: impl AsRef<[u8]>) -> Result<Vec<Record>, ProtocolError> {
    resources(simple().decode(&Request::List, &ended(0, stdout)))
}

fn found(name: &str, stdout: &str) -> Result<Vec<Record>, ProtocolError> {
    resources(simple().decode(&Request::Find(&[name]), &ended(0, stdout)))
}

fn resources(reply: Result<Reply, ProtocolError>) -> Result<Vec<Record>, ProtocolError> {
    match reply? {
        Reply::Resources(records) => Ok(records),
        other => panic!("{other:?}"),
    }
}

/// Formats resources: `a(v=1 w=2)`.
fn short(records: &[Record]) -> String {
    let one = |record: &Record| {
        let attributes: Vec<String> = record
            .attributes
            .iter()
            .map(|(name, value)| {
                format!(
                    "{name}={}",
                    match value {
                        Value::String(text) => text.as_str(),
                        other => panic!("{other}"),
                    }
                )
            })
            .collect();
        let error = if record.error.is_some() { "!" } else { "" };
        format!("{}{error}({})", record.name, attributes.join("|"))
    };
    records.iter().map(one).collect::<Vec<_>>().join(" ")
}

fn list(stdout: &str) -> String {
    short(&listed(stdout).unwrap_or_else(|error| panic!("{stdout:?}: {error}")))
}

fn refused(stdout: impl AsRef<[u8]>) -> String {
    listed(stdout).expect_err("it is no list").to_string()
}
