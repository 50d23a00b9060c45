//! Parses resources from lines.

use ecow::{EcoString, eco_format};
use kilter_model::{AttributeName, Attributes, Value};

use crate::convention::size::{AllocationCounter, MemoryBudget, count};
use crate::convention::{ErrorKind, Keys, ProtocolError, Record, RecordError, beginning, message_text, unique};

/// Maximum number of attributes of a resource, because each key is compared with all earlier keys.
pub(super) const MOST: usize = 1000;

/// Maximum number of resources for which memory is reserved in advance.
const FIRST: usize = 4096;

/// Required first line.
const HEADER: &str = "# simple";

/// Trims ASCII white space. Other white space belongs to the value.
pub(super) fn trim(line: &str) -> &str {
    let is_space = |byte: &u8| is_space(char::from(*byte));
    match line.as_bytes() {
        // Fast path for nearly all lines.
        [first, .., last] if !is_space(first) && !is_space(last) => line,
        _ => line.trim_matches(self::is_space),
    }
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\u{b}' | '\u{c}')
}

/// Returns the non-empty lines with their numbers.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let (mut rest, mut number) = (Some(text), 0);
    let lines = std::iter::from_fn(move || {
        let whole = rest?;
        // For short lines, a simple loop is faster than `memchr`, which has a higher start-up cost and first
        // queries the processor features. A virtual machine answers this query slowly.
        let end = whole.bytes().position(|byte| byte == b'\n');
        rest = end.map(|end| &whole[end + 1..]);
        number += 1;
        Some((number, trim(&whole[..end.unwrap_or(whole.len())])))
    });
    lines.filter(|(_, line)| !line.is_empty())
}

/// Returns the key and the value of a line.
pub(super) fn entry(number: usize, line: &str) -> Result<(&str, &str), ProtocolError> {
    let Some(colon) = line.bytes().position(|byte| byte == b':') else {
        return Err(ProtocolError::line(number, line, "a line is `KEY: VALUE`, but this line has no `:`"));
    };
    let (key, value) = (&line[..colon], &line[colon + 1..]);
    match (key.trim_end_matches(is_space), value.trim_start_matches(is_space)) {
        ("", _) => Err(ProtocolError::line(number, line, "the key before the `:` is missing")),
        entry => Ok(entry),
    }
}

/// Returns the lines after the first, which must be `# simple`.
pub(super) fn body(text: &str) -> Result<impl Iterator<Item = (usize, &str)>, ProtocolError> {
    let mut lines = lines(text);
    match lines.next() {
        Some((_, HEADER)) => Ok(lines),
        Some((number, line)) => Err(ProtocolError::line(number, line, "the first line must be `# simple`")),
        None => Err(ProtocolError::Nothing { expected: "`# simple`" }),
    }
}

/// Returns the error in an output, at any position. It overrides all other lines.
pub(super) fn told_error(text: &str) -> Option<ProtocolError> {
    // Most outputs contain no error, and this test is fast.
    if !text.contains("ral_error") {
        return None;
    }
    let mut lines = text.split('\n').map(trim);
    let first = lines.by_ref().find_map(|line| {
        let rest = line.strip_prefix("ral_error")?.trim_start_matches(is_space);
        Some(rest.strip_prefix(':')?.trim_start_matches(is_space))
    })?;
    let mut message = EcoString::from(first);
    let mut ended = false;
    for line in lines {
        if line == "ral_eom" {
            ended = true;
            break;
        }
        message.push('\n');
        message.push_str(line);
    }
    let mut message = message_text(message.trim());
    if message.is_empty() {
        message = "it failed without a reason".into();
    }
    if !ended {
        message.push_str(" (the message does not end with ral_eom)");
    }
    Some(ProtocolError::Reported { kind: ErrorKind::Failed, message })
}

/// Parses the resources of an output.
pub(super) fn records(text: &str, room: MemoryBudget) -> Result<Vec<Record>, ProtocolError> {
    // Most resources have at least three lines. Unused reserved memory is never touched.
    let mut records: Vec<Record> = Vec::with_capacity((count(text, |byte| byte == b'\n') / 3).min(FIRST));
    let (mut keys, mut made) = (Keys::default(), AllocationCounter::new(room, text));
    for (number, line) in body(text)? {
        let (key, value) = entry(number, line)?;
        if key == "name" {
            if value.is_empty() {
                return Err(ProtocolError::line(number, line, "a resource has no name"));
            }
            made.resource()?;
            let attributes = Attributes::with_capacity(records.last().map_or(4, |last| last.attributes.len()));
            records.push(Record { name: value.into(), attributes, ..Record::default() });
            keys.begin();
            continue;
        }
        let Some(record) = records.last_mut() else {
            return Err(ProtocolError::line(number, line, "attributes come after the `name:` of their resource"));
        };
        match key {
            "ral_unknown" if !value.eq_ignore_ascii_case("false") => record.error = Some(unknown(&record.name)),
            "ral_unknown" => {}
            _ if record.attributes.len() >= MOST => return Err(too_many(number, line)),
            key => {
                made.value()?;
                add(record, keys.get(key), value);
            }
        }
    }
    Ok(records)
}

pub(super) fn too_many(number: usize, line: &str) -> ProtocolError {
    ProtocolError::line(number, line, eco_format!("a resource has at most {MOST} attributes"))
}

fn add(record: &mut Record, key: AttributeName, value: &str) {
    let value = Value::String(value.into());
    if record.attributes.iter().any(|(known, _)| *known == key) {
        record.repeated.push(key.text().clone());
        record.attributes.set(key, value);
    } else {
        record.attributes.push(key, value);
    }
}

/// Returns the error for a resource that does not exist and cannot be created.
pub(super) fn unknown(name: &str) -> RecordError {
    let message = eco_format!("`{}` does not exist and cannot be created", beginning(name, 80));
    RecordError { kind: ErrorKind::Unknown, message }
}

/// Returns the answer to `find`: the resource with that name, or an empty list. Another name is an error,
/// unless the answer only says that the resource is unknown. Scripts shorten `ssh.service` to `ssh` before they
/// search.
pub(super) fn found(records: Vec<Record>, asked: &EcoString) -> Result<Vec<Record>, ProtocolError> {
    let first = records.first().map(|record| record.name.clone());
    let records = unique(records)?;
    let is_unknown = records.iter().all(|record| record.error.is_some());
    let of_name: Vec<Record> = records.into_iter().filter(|record| record.name == *asked).collect();
    match (of_name.is_empty(), first) {
        (true, Some(_)) if is_unknown => {
            Ok(vec![Record { name: asked.clone(), error: Some(unknown(asked)), ..Record::default() }])
        }
        (true, Some(told)) => Err(ProtocolError::OtherName { told: beginning(&told, 80), asked: beginning(asked, 80) }),
        _ => Ok(of_name),
    }
}
