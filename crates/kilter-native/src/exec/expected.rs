//! Expected output of a guard.

use ecow::{EcoString, eco_format};
use kilter_model::Value;
use kilter_process::{Capture, Captured, Invocation, Output};

use super::command::DeclaredCommand;
use super::secrets::SensitiveTexts;

/// Maximum number of line breaks after the text that still count as trailing.
const SPARE: usize = 4096;

/// Maximum number of characters of a text in messages.
const MAX_SHOWN_CHARS: usize = 60;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Printed {
    Stdout,
    /// Standard output and standard error.
    Together,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ExpectedResult {
    This,
    AnythingElse,
}

/// Keys of a guard that declare its output.
const KEYS: [(&str, Printed, ExpectedResult); 4] = [
    ("stdout", Printed::Stdout, ExpectedResult::This),
    ("output", Printed::Together, ExpectedResult::This),
    ("not_stdout", Printed::Stdout, ExpectedResult::AnythingElse),
    ("not_output", Printed::Together, ExpectedResult::AnythingElse),
];

/// Part of a text to compare.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    All,
    /// Everything except trailing line breaks.
    Lines,
}

/// Texts to compare with the output of a guard.
pub(super) struct Expected<'a> {
    texts: Vec<(Printed, ExpectedResult, &'a str)>,
    extent: Extent,
    /// True if the output is hidden.
    is_hidden: bool,
}

impl<'a> Expected<'a> {
    pub(super) fn of(guard: &DeclaredCommand<'a>) -> Expected<'a> {
        let given = KEYS.iter().filter_map(|(key, printed, wanted)| Some((*printed, *wanted, guard.key(key)?)));
        let given: Vec<_> = given.collect();
        let is_hidden = guard.is_hidden() || given.iter().any(|(.., text)| text.holds_sensitive());
        let texts = given.into_iter().filter_map(|(printed, wanted, text)| Some((printed, wanted, text.as_str()?)));
        let is_exact = guard.key("exact").and_then(Value::as_bool) == Some(true);
        Expected { texts: texts.collect(), extent: if is_exact { Extent::All } else { Extent::Lines }, is_hidden }
    }

    /// Sets the captures as the comparison needs them.
    pub(super) fn keep(&self, invocation: &mut Invocation) {
        let longest =
            |of: Printed| self.texts.iter().filter(|(printed, ..)| *printed == of).map(|(.., text)| text.len()).max();
        if let Some(length) = longest(Printed::Together) {
            // A common pipe preserves the order of both outputs.
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

    /// Returns true if a successful guard printed the expected output, with a description.
    pub(super) fn met(&self, finished: &Output, secrets: &SensitiveTexts) -> (bool, EcoString) {
        let mut first = None;
        for (printed, wanted, text) in &self.texts {
            let found = if *printed == Printed::Stdout { &finished.stdout } else { &finished.together };
            let is_this = self.is_same(found, text);
            let said = self.mismatch_text((*printed, found), text, is_this, secrets);
            if is_this != (*wanted == ExpectedResult::This) {
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

    fn mismatch_text(
        &self,
        printed: (Printed, &Captured),
        text: &str,
        is_this: bool,
        secrets: &SensitiveTexts,
    ) -> EcoString {
        let (which, printed) = printed;
        let shown = |bytes| shown(&secrets.redact(&String::from_utf8_lossy(self.counted(bytes))));
        // A truncated secret, or a secret mixed with the other output, cannot be recognised for redaction.
        let is_cut = (printed.is_truncated() || which == Printed::Together) && !secrets.is_empty();
        match (self.is_hidden || is_cut, is_this) {
            (true, true) => "prints the declared text".into(),
            (true, false) => "prints another text than the declared one".into(),
            (false, true) => eco_format!("prints {}", shown(text.as_bytes())),
            (false, false) => eco_format!("prints {}, not {}", shown(&printed.bytes), shown(text.as_bytes())),
        }
    }
}

/// Returns the bytes without trailing line breaks.
pub(super) fn without_line_breaks(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|&byte| byte != b'\n').map_or(0, |last| last + 1);
    &bytes[..end]
}

/// Returns the beginning of a text on one line.
fn shown(text: &str) -> EcoString {
    if text.is_empty() {
        return "nothing".into();
    }
    let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    let mut characters = text.chars();
    let beginning: String = characters.by_ref().take(MAX_SHOWN_CHARS).map(escaped).collect();
    if beginning.contains(char::REPLACEMENT_CHARACTER) {
        return "bytes that are not text".into();
    }
    eco_format!("`{beginning}{}`", if characters.next().is_some() { "…" } else { "" })
}
