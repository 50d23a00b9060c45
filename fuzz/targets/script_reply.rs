//! Fuzzes the decoders of both calling conventions.
//!
//! The first byte determines the convention and the request. The rest is the output of a script. Properties:
//!
//! - It does not panic.
//! - A refusal has a message without control characters except line breaks.
//! - The resources of a reply have different names.
//! - A decoded resource can be requested again.

use kilter_model::Attributes;
use kilter_process::{Captured, Invocation, Output, Status};
use kilter_provider::Mode;
use kilter_script::{Convention, Json, Reply, Request, Simple, Update};

/// Checks the properties for an input.
pub(crate) fn run(data: &[u8]) {
    let Some((choice, output)) = data.split_first() else { return };
    let base = Invocation::new("/x");
    let (simple, json) = (Simple::new(base.clone()), Json::new(base));
    let convention: &dyn Convention = if choice & 1 == 0 { &simple } else { &json };
    let (none, names) = (Attributes::new(), ["a"]);
    let updates = [Update { name: "a", is: None, should: &none, received: &[] }];
    let request = match choice >> 1 & 3 {
        0 => Request::List,
        1 => Request::Find(&names),
        2 => Request::Update(&updates, Mode::Apply),
        _ => Request::Describe,
    };
    let status = Status::Code(i32::from(choice >> 3 & 1));
    let finished = Output { stdout: Captured { bytes: output.to_vec(), dropped: 0 }, ..Output::of(status) };
    match convention.decode(&request, &finished) {
        Ok(Reply::Resources(records)) => {
            let mut names: Vec<&str> = records.iter().map(|record| record.name.as_str()).collect();
            names.sort_unstable();
            assert!(names.windows(2).all(|pair| pair[0] != pair[1]) && names.iter().all(|name| !name.is_empty()));
            for record in &records {
                assert!(
                    convention.encode(&Request::Find(&[record.name.as_str()])).is_ok()
                        || record.name.len() > 100_000
                        || choice & 1 == 1
                );
            }
        }
        Ok(Reply::Changed(report)) => {
            assert!(report.changes.iter().all(|change| !change.attribute.is_empty() || choice & 1 == 1))
        }
        Ok(Reply::Described(text)) => assert!(!text.trim().is_empty()),
        Ok(Reply::Watched) => panic!("nobody asked for a watch"),
        Err(error) => {
            let message = error.to_string();
            assert!(!message.is_empty() && !message.chars().any(|c| c.is_control() && c != '\n'), "{message:?}");
        }
    }
}
