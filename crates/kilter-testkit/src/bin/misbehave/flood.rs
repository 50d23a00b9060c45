//! Floods: excessive output.

use std::fs::File;
use std::io::Write;

use super::answer::{Action, Convention, ReportedAttribute, ScriptRequest, print, right, telling};

/// A gigabyte in bytes.
pub(crate) const GIGABYTE: usize = 1 << 30;

/// Writes the same text until the reader closes the pipe.
pub(crate) fn forever(part: &[u8]) {
    let chunk = part.repeat((64 << 10) / part.len() + 1);
    while print(&chunk) {}
}

/// Writes resources, or changes, without end.
pub(crate) fn of_resources(request: &ScriptRequest) {
    let is_read = request.action == Action::Read;
    print(match (request.convention, is_read) {
        (Convention::Simple, _) => "# simple\n",
        (Convention::Json, true) => "{\"resources\":[{\"name\":\"a\"}",
        (Convention::Json, false) => "{\"changes\":[{\"name\":\"a\"}",
        (Convention::Mold, true) => "{\"name\":\"a\"",
        (Convention::Mold, false) => "{\"name\":\"a\",\"changed\":{\"v\":{}",
    });
    let mut part = String::new();
    for number in 0_u64.. {
        part += &match (request.convention, is_read) {
            (Convention::Simple, true) => format!("name: n{number}\nv: {number}\n"),
            (Convention::Simple, false) => format!("v{number}: {number}\n"),
            (Convention::Json, true) => format!(",{{\"name\":\"n{number}\",\"v\":\"{number}\"}}"),
            (Convention::Json, false) => format!(",{{\"name\":\"n{number}\",\"v\":{{\"is\":1,\"was\":2}}}}"),
            (Convention::Mold, true) => format!(",\"v{number}\":\"{number}\""),
            (Convention::Mold, false) => format!(",\"v{number}\":{{\"is\":1,\"was\":2}}"),
        };
        if part.len() > 64 << 10 {
            if !print(&part) {
                return;
            }
            part.clear();
        }
    }
}

/// Writes a correct answer of `bytes` bytes with as many values as possible.
pub(crate) fn dense(request: &ScriptRequest, bytes: usize) {
    let is_read = request.action == Action::Read;
    let mut text = String::with_capacity(bytes + 64);
    text += match (request.convention, is_read) {
        (Convention::Simple, _) => "# simple\nname:a\n",
        (Convention::Json, true) => "{\"resources\":[{\"name\":\"a\"}",
        (Convention::Json, false) => "{\"changes\":[{\"name\":\"a\"}",
        (Convention::Mold, _) => "{\"list\":[[]",
    };
    let mut number = 0_u64;
    while text.len() < bytes {
        match (request.convention, is_read) {
            (Convention::Simple, true) => text += &format!("name:{number}\n"),
            (Convention::Simple, false) => text += &format!("{number}:\n"),
            (Convention::Json, true) => text += &format!(",{{\"name\":\"{number}\"}}"),
            (Convention::Json, false) => text += &format!(",{{\"name\":\"{number}\",\"v\":{{\"is\":1,\"was\":1}}}}"),
            (Convention::Mold, _) => text += ",{\"a\":1}",
        }
        number += 1;
    }
    text += match request.convention {
        Convention::Simple => "",
        Convention::Json | Convention::Mold => "]}",
    };
    print(text);
}

/// Answers with a value of `bytes` bytes.
pub(crate) fn of_a_value(request: &ScriptRequest, bytes: usize) {
    let whole = telling(request, &[ReportedAttribute::new("v", "VALUE", "\"VALUE\"")]);
    let (before, behind) = whole.split_once("VALUE").unwrap_or_default();
    print(before);
    let chunk = "x".repeat(64 << 10);
    for _ in 0..bytes / chunk.len() {
        if !print(&chunk) {
            return;
        }
    }
    print(behind);
}

/// Writes `bytes` bytes to standard error, and answers.
pub(crate) fn of_errors(request: &ScriptRequest, part: &str, bytes: usize) {
    let chunk = part.repeat((64 << 10) / part.len() + 1);
    let mut stderr = std::io::stderr().lock();
    for _ in 0..bytes / chunk.len() {
        if stderr.write_all(chunk.as_bytes()).is_err() {
            break;
        }
    }
    drop(stderr);
    eprintln!("\nlast words of the flood");
    print(right(request));
}

/// Writes `bytes` bytes to descriptor 3, and answers. A missing descriptor does no harm.
pub(crate) fn of_channel(request: &ScriptRequest, part: &str, bytes: usize) {
    let chunk = part.repeat((64 << 10) / part.len() + 1);
    if let Ok(mut channel) = File::options().write(true).open("/dev/fd/3") {
        for _ in 0..bytes.div_ceil(chunk.len()) {
            if channel.write_all(chunk.as_bytes()).is_err() {
                break;
            }
        }
    }
    print(right(request));
}

/// Writes to descriptor 3, and answers.
pub(crate) fn to_channel(request: &ScriptRequest, text: &str) {
    if let Ok(mut channel) = File::options().write(true).open("/dev/fd/3") {
        let _ = channel.write_all(text.as_bytes());
    }
    print(right(request));
}
