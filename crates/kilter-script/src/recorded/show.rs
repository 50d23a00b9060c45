//! Formats recorded calls for people.

use std::os::unix::ffi::OsStrExt;

use super::call::RecordedExchange;
use super::shell::{needs_escape, shell_quoted};

impl RecordedExchange {
    /// Returns a bash command that repeats the call in its working directory, with its environment and input.
    pub fn command_line(&self) -> String {
        let mut line = String::new();
        if let Some(cwd) = &self.cwd {
            line += &format!("cd {} && ", shell_quoted(cwd.as_os_str().as_bytes()));
        }
        match self.stdin.as_deref() {
            None => {}
            Some(stdin) => line += &format!("printf %s {} | ", shell_quoted(stdin)),
        }
        line += "env -i";
        for (name, value) in &self.env {
            let pair = [name.as_bytes(), b"=", value.as_bytes()].concat();
            line += &format!(" {}", shell_quoted(&pair));
        }
        for word in &self.argv {
            line += &format!(" {}", shell_quoted(word.as_bytes()));
        }
        if self.stdin.is_none() {
            line += " </dev/null";
        }
        line
    }

    /// Returns the command line without context, quoted for bash.
    pub fn words(&self) -> String {
        let words: Vec<String> = self.argv.iter().map(|word| shell_quoted(word.as_bytes())).collect();
        words.join(" ")
    }

    /// Returns a summary in one line: provider, action and result.
    pub fn summary(&self) -> String {
        let of = if self.type_name.is_empty() { String::new() } else { format!(" of {}", self.type_name) };
        let provider = visible(&self.provider);
        format!(
            "{}{of} by `{provider}` ({}): {}, {} ms",
            visible(if self.action.is_empty() { "run" } else { &self.action }),
            self.convention,
            self.ended(),
            self.duration.as_millis()
        )
    }

    /// Returns the whole call: a bash command, the input and the output, with at most `most` bytes each.
    /// Invisible characters are escaped.
    pub fn shown(&self, most: usize) -> String {
        let mut text = format!("{}\n  $ {}\n", self.summary(), clipped(&self.command_line(), most));
        match &self.answer {
            Err(why) => text += &format!("  not started: {}\n", visible(why)),
            Ok(finished) => {
                if let Some(stdin) = &self.stdin {
                    stream(&mut text, "stdin", stdin, 0, most);
                }
                stream(&mut text, "stdout", &finished.stdout.bytes, finished.stdout.dropped, most);
                stream(&mut text, "stderr", &finished.stderr.bytes, finished.stderr.dropped, most);
                if !finished.channel.bytes.is_empty() {
                    stream(&mut text, "descriptor 3", &finished.channel.bytes, finished.channel.dropped, most);
                }
                text += &format!("  {}, {}\n", finished.status, finished.confined);
                if !finished.attempts.is_empty() {
                    text += &format!("  it tried to {}\n", visible(&finished.attempts.to_string()));
                }
            }
        }
        text
    }
}

fn clipped(text: &str, most: usize) -> String {
    match text.char_indices().map(|(at, _)| at).find(|at| *at >= most) {
        Some(end) => format!("{}… ({} bytes more)", &text[..end], text.len() - end),
        None => text.to_owned(),
    }
}

fn stream(text: &mut String, name: &str, bytes: &[u8], dropped: u64, most: usize) {
    if bytes.is_empty() && dropped == 0 {
        *text += &format!("  {name}: nothing\n");
        return;
    }
    let shown = &bytes[..bytes.len().min(most)];
    *text += &format!("  {name}:\n");
    for line in shown.split_inclusive(|byte| *byte == b'\n') {
        let (line, end) = match line.strip_suffix(b"\n") {
            Some(line) => (line, ""),
            None if shown.len() == bytes.len() => (line, "   (no line break)"),
            None => (line, "…"),
        };
        *text += &format!("    {}{end}\n", visible_bytes(line));
    }
    let more = dropped.saturating_add((bytes.len() - shown.len()) as u64);
    if more > 0 {
        *text += &format!("    … {more} bytes more\n");
    }
}

fn visible(text: &str) -> String {
    visible_bytes(text.as_bytes())
}

/// Escapes invisible characters and invalid UTF-8.
fn visible_bytes(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\t' => text.push(c),
                c if needs_escape(c) => text.extend(c.escape_default()),
                c => text.push(c),
            }
        }
        chunk.invalid().iter().for_each(|byte| text += &format!("\\x{byte:02x}"));
    }
    text
}

impl RecordedExchange {
    /// Returns the names of the resources in the call, if it contains them.
    pub fn names(&self) -> Vec<String> {
        let of_word = |word: &std::ffi::OsString| {
            let text = word.to_str()?.strip_prefix("name='")?.strip_suffix('\'')?;
            Some(text.replace("'\\''", "'"))
        };
        let words: Vec<String> = self.argv.iter().filter_map(of_word).collect();
        if !words.is_empty() {
            return words;
        }
        let json: serde_json::Value =
            self.stdin.as_deref().and_then(|stdin| serde_json::from_slice(stdin).ok()).unwrap_or_default();
        let text = |json: &serde_json::Value| json.as_str().map(str::to_owned);
        if let Some(names) = json.get("names").and_then(serde_json::Value::as_array) {
            return names.iter().filter_map(text).collect();
        }
        let updates = json.get("updates").or_else(|| json.get("refreshes"));
        if let Some(updates) = updates.and_then(serde_json::Value::as_array) {
            return updates.iter().filter_map(|update| text(update.get("name")?)).collect();
        }
        json.get("name").and_then(text).into_iter().collect()
    }
}
