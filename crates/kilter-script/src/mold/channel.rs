//! The messages of channel 3: tuples of JSON in netstrings.

use std::io::{self, Read};
use std::ops::ControlFlow;

use ecow::{EcoString, eco_format};
use kilter_model::{base64, from_base64};
use serde_core::Serialize;
use serde_json::{Value as Json, json};

use super::netstring::{self, Decoder, Frame, LONGEST_MESSAGE};
use crate::convention::size::Room;

/// Size of a message above which the number of its values is limited before they are made, in bytes.
const UNCHECKED: usize = 1 << 20;

/// One message: `[name, key, data]` (mold, "channel3 protocol").
///
/// It is kept as it came, whatever its key is; [`Message::said`] is what it means.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// The child that it is about; none for the process that wrote it.
    pub name: Option<EcoString>,
    /// What it tells: a word, or the number of a descriptor.
    pub key: Json,
    /// The details.
    pub data: Json,
}

/// What a message means.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// Something passed through standard input, output or error output (0, 1, 2).
    Stream {
        /// The descriptor's number.
        descriptor: u8,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// A process was started.
    Spawn(Spawn),
    /// A process has returned this code.
    ExitCode(i64),
    /// A process has ended, with a code or by a signal.
    Exit {
        /// The code that it returned.
        code: Option<i64>,
        /// The signal that ended it.
        signal: Option<i64>,
    },
    /// Anything else: a key that is not known, or data of another form than its key has.
    Other,
}

/// What is told of a process that was started. Everything else that is told is in the message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spawn {
    /// The program.
    pub path: Option<String>,
    /// Its arguments, the first one its name.
    pub args: Vec<String>,
    /// The user that it runs as: a name or a number.
    pub user: Option<String>,
    /// The group that it runs as.
    pub group: Option<String>,
}

impl Message {
    /// A message of the process itself.
    pub fn new(key: &str, data: Json) -> Message {
        Message { name: None, key: Json::from(key), data }
    }

    /// A line, or any other part, of a stream: as text where it is UTF-8, as base 64 otherwise.
    pub fn part(key: &str, bytes: &[u8]) -> Message {
        Message::new(
            key,
            match std::str::from_utf8(bytes) {
                Ok(text) => json!({ "line": text }),
                Err(_) => json!({ "line": base64(bytes), "encoding": "base64" }),
            },
        )
    }

    /// The same message of the child `name`, as its parent passes it on: names are joined, `parent.child`.
    #[must_use]
    pub fn of_child(self, name: &str) -> Message {
        let name = match self.name {
            None => name.into(),
            Some(below) => eco_format!("{name}.{below}"),
        };
        Message { name: Some(name), ..self }
    }

    /// The key as text.
    pub fn key_text(&self) -> String {
        self.key.as_str().map_or_else(|| self.key.to_string(), str::to_owned)
    }

    /// What it means.
    pub fn said(&self) -> Said {
        let said = match self.key_text().as_str() {
            "stdin" | "0" => part(0, &self.data),
            "stdout" | "1" => part(1, &self.data),
            "stderr" | "2" => part(2, &self.data),
            "spawn" => spawn(&self.data).map(Said::Spawn),
            "exitcode" => self.data.as_i64().map(Said::ExitCode),
            "exit" => exit(&self.data),
            _ => None,
        };
        said.unwrap_or(Said::Other)
    }

    /// The message as a netstring, in the spelling of mold's text: a space behind each comma and colon.
    pub fn to_netstring(&self) -> Vec<u8> {
        let name = self.name.as_ref().map_or(Json::Null, |name| Json::from(name.as_str()));
        let tuple = Json::Array(vec![name, self.key.clone(), self.data.clone()]);
        let mut content = Vec::new();
        let mut serializer = serde_json::Serializer::with_formatter(&mut content, Spaced);
        tuple.serialize(&mut serializer).expect("a tree of JSON can always be written to memory");
        netstring::encode(&content)
    }

    /// The message that a tuple stands for; none if it is no such tuple.
    fn read(content: &[u8]) -> Option<Message> {
        if content.len() > UNCHECKED {
            Room::of(content.len()).holds_tree(std::str::from_utf8(content).ok()?).ok()?;
        }
        let Json::Array(tuple) = serde_json::from_slice(content).ok()? else { return None };
        let [name, key, data]: [Json; 3] = tuple.try_into().ok()?;
        let name = match name {
            Json::Null => None,
            Json::String(name) => Some(name.into()),
            _ => return None,
        };
        (key.is_string() || key.is_u64()).then_some(Message { name, key, data })
    }
}

fn part(descriptor: u8, data: &Json) -> Option<Said> {
    let line = data.get("line")?.as_str()?;
    let bytes = match data.get("encoding") {
        None | Some(Json::Null) => line.as_bytes().to_vec(),
        // Encoders break long lines; the text of mold calls the encoding b64, and shows base64.
        Some(Json::String(word)) if matches!(word.as_str(), "b64" | "base64") => {
            from_base64(&line.split_ascii_whitespace().collect::<String>())?
        }
        Some(_) => return None,
    };
    Some(Said::Stream { descriptor, bytes })
}

/// `path` is the program where there is no `executable`, which goes before it: then `path` is the working directory.
fn spawn(data: &Json) -> Option<Spawn> {
    data.as_object()?;
    let text = |keys: &[&str]| {
        keys.iter().find_map(|key| match data.get(key)? {
            Json::String(text) => Some(text.clone()),
            Json::Number(number) => Some(number.to_string()),
            _ => None,
        })
    };
    let args = data.get("args").and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
    Some(Spawn {
        path: text(&["executable", "path"]),
        args: args.iter().map(|arg| arg.as_str().map_or_else(|| arg.to_string(), str::to_owned)).collect(),
        user: text(&["user", "uid"]),
        group: text(&["group", "gid"]),
    })
}

fn exit(data: &Json) -> Option<Said> {
    data.as_object()?;
    let number = |key| data.get(key).and_then(Json::as_i64);
    Some(Said::Exit { code: number("code"), signal: number("signal") })
}

/// Takes the messages out of what comes through channel 3, in parts cut anywhere.
pub struct Channel {
    decoder: Decoder<Message>,
}

impl Channel {
    /// A channel at its beginning.
    pub fn new() -> Channel {
        Channel::with_longest(LONGEST_MESSAGE)
    }

    /// A channel whose messages have at most `longest` bytes; longer ones count as damage.
    pub fn with_longest(longest: usize) -> Channel {
        Channel { decoder: Decoder::new(longest, Message::read) }
    }

    /// How many bytes it holds: those of one message that is not whole yet, at most, however much it was given.
    pub fn held(&self) -> usize {
        self.decoder.held.len()
    }

    /// Takes a part.
    pub fn feed(&mut self, bytes: &[u8], give: &mut dyn FnMut(Frame<Message>)) {
        self.decoder.feed(bytes, give);
    }

    /// The channel has ended.
    pub fn end(&mut self, give: &mut dyn FnMut(Frame<Message>)) {
        self.decoder.end(give);
    }
}

impl Default for Channel {
    fn default() -> Channel {
        Channel::new()
    }
}

/// Reads a raw log: all messages, and what is damaged. It is read in parts, and `give` takes what each of them completes, until it
/// says that this was enough.
///
/// # Errors
/// When it cannot be read.
pub fn read_log(mut log: impl Read, give: &mut dyn FnMut(Vec<Frame<Message>>) -> ControlFlow<()>) -> io::Result<()> {
    let mut channel = Channel::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        match log.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => {
                let mut frames = Vec::new();
                channel.feed(&buffer[..count], &mut |frame| frames.push(frame));
                if give(frames).is_break() {
                    return Ok(());
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let mut frames = Vec::new();
    channel.end(&mut |frame| frames.push(frame));
    let _ = give(frames);
    Ok(())
}

/// JSON with a space behind each comma and colon.
struct Spaced;

impl serde_json::ser::Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

#[cfg(test)]
mod tests;
