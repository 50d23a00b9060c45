//! Messages of channel 3 of mold scripts: JSON tuples in netstrings.

mod historian;
mod netstring;

use std::io::{self, Read};
use std::ops::ControlFlow;

use ecow::{EcoString, eco_format};
use kilter_model::{base64, from_base64};
use serde_core::Serialize;
use serde_json::{Value as Json, json};

use self::netstring::Decoder;
use crate::convention::size::MemoryBudget;

pub use historian::{Historian, NoHistorian, RawLog};
pub use netstring::{Frame, Garbage, LONGEST_MESSAGE};

/// Size in bytes of a message above which the number of its values is checked before parsing.
const UNCHECKED: usize = 1 << 20;

/// A message: `[name, key, data]` (mold, "channel3 protocol").
///
/// The message is stored unchanged, with any key. [`Message::event`] interprets it.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Name of the child that the message is about. None for the process that wrote it.
    pub name: Option<EcoString>,
    /// Key: a word, or a descriptor number.
    pub key: Json,
    /// Details.
    pub data: Json,
}

/// Meaning of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum ChannelEvent {
    /// Data on standard input, output or error (0, 1, 2).
    Stream {
        /// Descriptor number.
        descriptor: u8,
        /// The data.
        bytes: Vec<u8>,
    },
    /// A process has started.
    Spawn(Spawn),
    /// A process has returned this code.
    ExitCode(i64),
    /// A process has ended.
    Exit {
        /// Exit code.
        code: Option<i64>,
        /// Signal that ended it.
        signal: Option<i64>,
    },
    /// An unknown key, or data that does not match its key.
    Other,
}

/// Details of a started process. The message contains the remaining details.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spawn {
    /// Program.
    pub path: Option<String>,
    /// Arguments, starting with the program name.
    pub args: Vec<String>,
    /// User name or number.
    pub user: Option<String>,
    /// Group name or number.
    pub group: Option<String>,
}

impl Message {
    /// Creates a message of the process itself.
    pub fn new(key: &str, data: Json) -> Message {
        Message { name: None, key: Json::from(key), data }
    }

    /// Creates a message with a part of a stream: text if it is UTF-8, otherwise base64.
    pub fn part(key: &str, bytes: &[u8]) -> Message {
        Message::new(
            key,
            match std::str::from_utf8(bytes) {
                Ok(text) => json!({ "line": text }),
                Err(_) => json!({ "line": base64(bytes), "encoding": "base64" }),
            },
        )
    }

    /// Returns the message as the parent of the child `name` forwards it. Names are joined: `parent.child`.
    #[must_use]
    pub fn of_child(self, name: &str) -> Message {
        let name = match self.name {
            None => name.into(),
            Some(below) => eco_format!("{name}.{below}"),
        };
        Message { name: Some(name), ..self }
    }

    /// Returns the key as text.
    pub fn key_text(&self) -> String {
        self.key.as_str().map_or_else(|| self.key.to_string(), str::to_owned)
    }

    /// Interprets the message.
    pub fn event(&self) -> ChannelEvent {
        let said = match self.key_text().as_str() {
            "stdin" | "0" => part(0, &self.data),
            "stdout" | "1" => part(1, &self.data),
            "stderr" | "2" => part(2, &self.data),
            "spawn" => spawn(&self.data).map(ChannelEvent::Spawn),
            "exitcode" => self.data.as_i64().map(ChannelEvent::ExitCode),
            "exit" => exit(&self.data),
            _ => None,
        };
        said.unwrap_or(ChannelEvent::Other)
    }

    /// Encodes the message as a netstring with a space after each comma and colon, as in mold's documentation.
    pub fn to_netstring(&self) -> Vec<u8> {
        let name = self.name.as_ref().map_or(Json::Null, |name| Json::from(name.as_str()));
        let tuple = Json::Array(vec![name, self.key.clone(), self.data.clone()]);
        let mut content = Vec::new();
        let mut serializer = serde_json::Serializer::with_formatter(&mut content, Spaced);
        tuple.serialize(&mut serializer).expect("a tree of JSON can always be written to memory");
        netstring::encode(&content)
    }

    /// Parses a tuple. Returns none if it is invalid.
    fn read(content: &[u8]) -> Option<Message> {
        if content.len() > UNCHECKED {
            MemoryBudget::of(content.len()).holds_tree(std::str::from_utf8(content).ok()?).ok()?;
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

fn part(descriptor: u8, data: &Json) -> Option<ChannelEvent> {
    let line = data.get("line")?.as_str()?;
    let bytes = match data.get("encoding") {
        None | Some(Json::Null) => line.as_bytes().to_vec(),
        // Encoders break long lines. mold's documentation names the encoding b64, but its examples use base64.
        Some(Json::String(word)) if matches!(word.as_str(), "b64" | "base64") => {
            from_base64(&line.split_ascii_whitespace().collect::<String>())?
        }
        Some(_) => return None,
    };
    Some(ChannelEvent::Stream { descriptor, bytes })
}

/// Reads the details. With an `executable`, `path` is the working directory; otherwise, it is the program.
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

fn exit(data: &Json) -> Option<ChannelEvent> {
    data.as_object()?;
    let number = |key| data.get(key).and_then(Json::as_i64);
    Some(ChannelEvent::Exit { code: number("code"), signal: number("signal") })
}

/// Decoder for the messages of channel 3. Accepts chunks of any size.
pub struct Channel {
    decoder: Decoder<Message>,
}

impl Channel {
    /// Creates a decoder at the start of a channel.
    pub fn new() -> Channel {
        Channel::with_longest(LONGEST_MESSAGE)
    }

    /// Creates a decoder with a maximum message size of `longest` bytes. A longer message counts as damage.
    pub fn with_longest(longest: usize) -> Channel {
        Channel { decoder: Decoder::new(longest, Message::read) }
    }

    /// Number of buffered bytes: at most one incomplete message.
    pub fn held(&self) -> usize {
        self.decoder.held.len()
    }

    /// Decodes a chunk.
    pub fn feed(&mut self, bytes: &[u8], give: &mut dyn FnMut(Frame<Message>)) {
        self.decoder.feed(bytes, give);
    }

    /// Handles the end of the channel.
    pub fn end(&mut self, give: &mut dyn FnMut(Frame<Message>)) {
        self.decoder.end(give);
    }
}

impl Default for Channel {
    fn default() -> Channel {
        Channel::new()
    }
}

/// Reads the messages and damages of a raw log. The log is read in chunks. `give` receives the frames of each
/// chunk, and ends the reading by returning `Break`.
///
/// # Errors
/// If the log cannot be read.
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

/// JSON formatter with a space after each comma and colon.
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
