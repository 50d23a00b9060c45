//! What a guard has to print.

use ecow::{EcoString, eco_format};
use kilter_model::Value;
use kilter_process::{Capture, Captured, Finished, Invocation};

use super::command::Declared;
use super::secrets::Secrets;

/// So many line breaks behind the text count as line breaks at its end.
const SPARE: usize = 4096;

/// So many characters of a text are shown.
const SHOWN: usize = 60;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Printed {
    Stdout,
    /// Output and error output.
    Together,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    This,
    AnythingElse,
}

/// The keys of a guard that say what it has to print.
const KEYS: [(&str, Printed, Wanted); 4] = [
    ("stdout", Printed::Stdout, Wanted::This),
    ("output", Printed::Together, Wanted::This),
    ("not_stdout", Printed::Stdout, Wanted::AnythingElse),
    ("not_output", Printed::Together, Wanted::AnythingElse),
];

/// How much of a text counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    All,
    /// All but the line breaks at its end.
    Lines,
}

/// The texts that what a guard prints is held against.
pub(super) struct Expected<'a> {
    texts: Vec<(Printed, Wanted, &'a str)>,
    extent: Extent,
    /// Whether nobody may see what is printed.
    is_hidden: bool,
}

impl<'a> Expected<'a> {
    pub(super) fn of(guard: &Declared<'a>) -> Expected<'a> {
        let given = KEYS.iter().filter_map(|(key, printed, wanted)| Some((*printed, *wanted, guard.key(key)?)));
        let given: Vec<_> = given.collect();
        let is_hidden = guard.is_hidden() || given.iter().any(|(.., text)| text.holds_sensitive());
        let texts = given.into_iter().filter_map(|(printed, wanted, text)| Some((printed, wanted, text.as_str()?)));
        let is_exact = guard.key("exact").and_then(Value::as_bool) == Some(true);
        Expected { texts: texts.collect(), extent: if is_exact { Extent::All } else { Extent::Lines }, is_hidden }
    }

    /// Has as much kept as it takes to compare it.
    pub(super) fn keep(&self, invocation: &mut Invocation) {
        let longest =
            |of: Printed| self.texts.iter().filter(|(printed, ..)| *printed == of).map(|(.., text)| text.len()).max();
        if let Some(length) = longest(Printed::Together) {
            // One pipe for both keeps their order.
            (invocation.stdout, invocation.stderr) = (Capture::Nothing, Capture::Nothing);
            invocation.together = Capture::First(length + SPARE);
        }
        if let Some(length) = longest(Printed::Stdout) {
            invocation.stdout = Capture::First(length + SPARE);
            if invocation.together != Capture::Nothing {
                invocation.stderr = Capture::First(0);
            }
        }
    }

    /// Whether a guard that has succeeded printed what it has to, and what it did, in words.
    pub(super) fn met(&self, finished: &Finished, secrets: &Secrets) -> (bool, EcoString) {
        let mut first = None;
        for (printed, wanted, text) in &self.texts {
            let found = if *printed == Printed::Stdout { &finished.stdout } else { &finished.together };
            let is_this = self.is_same(found, text);
            let said = self.said((*printed, found), text, is_this, secrets);
            if is_this != (*wanted == Wanted::This) {
                return (false, said);
            }
            first.get_or_insert(said);
        }
        (true, first.unwrap_or_else(|| "succeeds".into()))
    }

    fn is_same(&self, printed: &Captured, text: &str) -> bool {
        !printed.is_truncated() && self.counted(&printed.bytes) == self.counted(text.as_bytes())
    }

    fn counted<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        match self.extent {
            Extent::All => bytes,
            Extent::Lines => without_line_breaks(bytes),
        }
    }

    fn said(&self, printed: (Printed, &Captured), text: &str, is_this: bool, secrets: &Secrets) -> EcoString {
        let (which, printed) = printed;
        let shown = |bytes| shown(&secrets.redact(&String::from_utf8_lossy(self.counted(bytes))));
        // A secret of which only the beginning was kept is not known for one, nor is one into which the other output has come.
        let is_cut = (printed.is_truncated() || which == Printed::Together) && !secrets.is_empty();
        match (self.is_hidden || is_cut, is_this) {
            (true, true) => "prints the text it is held against".into(),
            (true, false) => "prints something else than the text it is held against".into(),
            (false, true) => eco_format!("prints {}", shown(text.as_bytes())),
            (false, false) => eco_format!("prints {}, not {}", shown(&printed.bytes), shown(text.as_bytes())),
        }
    }
}

/// Bytes without the line breaks at their end.
pub(super) fn without_line_breaks(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|&byte| byte != b'\n').map_or(0, |last| last + 1);
    &bytes[..end]
}

/// The beginning of a text, on one line.
fn shown(text: &str) -> EcoString {
    if text.is_empty() {
        return "nothing".into();
    }
    let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    let mut characters = text.chars();
    let beginning: String = characters.by_ref().take(SHOWN).map(escaped).collect();
    if beginning.contains(char::REPLACEMENT_CHARACTER) {
        return "bytes that are no text".into();
    }
    eco_format!("`{beginning}{}`", if characters.next().is_some() { "…" } else { "" })
}
