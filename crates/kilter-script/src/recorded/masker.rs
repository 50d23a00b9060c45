//! Replaces secrets with stable placeholders.
//!
//! Recordings must stay consistent after the replacement. The input of a script may contain a secret of the
//! manifest, and a command line may contain a part of it. So each line of a secret is replaced separately. If a
//! secret contains another one, the rest of it counts as a secret of its own.

use kilter_model::{Value, base64};

/// Minimum length of a replaced secret, in bytes. Shorter texts would match parts of ordinary words.
const SHORTEST: usize = 4;

/// Words that are never treated as secrets, because replacing them would make recordings unreadable.
const NEVER: [&str; 8] = ["true", "false", "null", "present", "absent", "undef", "name", "ensure"];

/// Masker that replaces secrets with placeholders.
#[derive(Clone, Default)]
pub struct SecretMasker {
    /// Secrets in clear.
    known: Vec<String>,
    /// Search patterns, the longest first, with their replacements.
    forms: Vec<(Vec<u8>, Vec<u8>)>,
    /// For each first byte, the indexes of its patterns in `forms`.
    beginning: Vec<Vec<usize>>,
    /// Number of secrets that are too short.
    short: usize,
}

impl SecretMasker {
    /// Learns all secrets in a value.
    pub fn learn_value(&mut self, value: &Value) {
        self.collect(value, false);
    }

    fn collect(&mut self, value: &Value, sealed: bool) {
        match value {
            Value::Sensitive(inner) => self.collect(inner, true),
            Value::Array(values) => values.iter().for_each(|value| self.collect(value, sealed)),
            Value::Hash(entries) => entries.values().for_each(|value| self.collect(value, sealed)),
            _ if !sealed => {}
            Value::Undef | Value::Boolean(_) | Value::Default => {}
            Value::Binary(bytes) => {
                if let Ok(text) = std::str::from_utf8(bytes) {
                    self.register_secrets(text);
                }
                self.learn_bytes(bytes);
            }
            scalar => self.register_secrets(&scalar.to_string()),
        }
    }

    /// Learns a secret: each of its lines.
    pub fn register_secrets(&mut self, secret: &str) {
        let known = self.known.len();
        for line in secret.lines().map(str::trim).filter(|line| !line.is_empty()) {
            self.learn_line(line);
        }
        if self.known.len() > known || !secret.trim().contains('\n') {
            self.index();
        }
        // The encoding of the whole text differs from that of its lines.
        if secret.contains('\n') {
            self.learn_bytes(secret.as_bytes());
        }
    }

    /// Number of secrets that are too short to be replaced.
    pub fn too_short(&self) -> usize {
        self.short
    }

    /// Number of replaced secrets.
    pub fn count(&self) -> usize {
        self.known.len()
    }

    fn learn_line(&mut self, line: &str) {
        // The line is a known secret in any notation, or a placeholder.
        if NEVER.contains(&line) || self.is_replacement(&self.mask(line)) {
            return;
        }
        if line.len() < SHORTEST {
            self.short += 1;
            return;
        }
        let pieces = self.without_known(line);
        for piece in pieces.iter().map(String::as_str).map(str::trim) {
            if piece.len() >= SHORTEST && !NEVER.contains(&piece) && !self.known.iter().any(|known| known == piece) {
                self.add(piece);
            }
        }
    }

    /// Returns true if a text is a placeholder.
    fn is_replacement(&self, text: &str) -> bool {
        (1..=self.known.len()).any(|number| text == named(number) || text == numbered(number))
    }

    /// Returns the parts of a text between known secrets.
    fn without_known(&self, text: &str) -> Vec<String> {
        let mut longest: Vec<&str> = self.known.iter().map(String::as_str).collect();
        longest.sort_by_key(|known| std::cmp::Reverse(known.len()));
        let mut pieces = vec![text.to_owned()];
        for known in longest {
            pieces = pieces.iter().flat_map(|piece| piece.split(known).map(str::to_owned)).collect();
        }
        pieces
    }

    fn add(&mut self, secret: &str) {
        self.known.push(secret.to_owned());
        let number = self.known.len();
        let is_number = secret.bytes().all(|byte| byte.is_ascii_digit());
        let other = if is_number { numbered(number) } else { named(number) };
        for form in written(secret) {
            self.forms.push((form.into_bytes(), other.clone().into_bytes()));
        }
        for (form, other) in encoded(secret.as_bytes()).into_iter().zip(encoded(other.as_bytes())) {
            self.forms.push((form.into_bytes(), other.into_bytes()));
        }
        // Patterns for the secret inside longer base64 data.
        for skipped in 0..3 {
            let core = |text: &str| base64_within(text.as_bytes(), skipped);
            if secret.len() > 5 {
                self.forms.push((core(secret).into_bytes(), core(&other).into_bytes()));
            }
        }
        self.index();
    }

    /// Learns bytes as a whole, with their encodings.
    fn learn_bytes(&mut self, secret: &[u8]) {
        let text = std::str::from_utf8(secret).ok();
        if secret.len() < SHORTEST {
            // A short text has already been counted with its lines.
            self.short += usize::from(text.is_none());
            return;
        }
        let mut hidden = self.mask_bytes(secret);
        if hidden == secret {
            hidden = named(self.known.len() + 1).into_bytes();
            self.known.push(text.map_or_else(|| base64(secret), str::to_owned));
        }
        for (form, other) in encoded(secret).into_iter().zip(encoded(&hidden)) {
            self.forms.push((form.into_bytes(), other.into_bytes()));
        }
        self.forms.push((secret.to_vec(), hidden));
        self.index();
    }

    fn index(&mut self) {
        self.forms.retain(|(form, _)| form.len() >= SHORTEST);
        self.forms.sort_by(|(one, _), (other, _)| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        self.forms.dedup_by(|(later, _), (earlier, _)| later == earlier);
        self.beginning = vec![Vec::new(); 256];
        for (at, (form, _)) in self.forms.iter().enumerate() {
            self.beginning[usize::from(form[0])].push(at);
        }
    }

    /// Replaces the secrets in a text.
    pub fn mask(&self, text: &str) -> String {
        match self.holds(text.as_bytes()) {
            true => String::from_utf8_lossy(&self.mask_bytes(text.as_bytes())).into_owned(),
            false => text.to_owned(),
        }
    }

    /// Returns true if the bytes contain a secret.
    pub fn holds(&self, bytes: &[u8]) -> bool {
        !self.forms.is_empty() && (0..bytes.len()).any(|at| self.at(bytes, at).is_some())
    }

    /// Replaces the secrets in a byte string.
    pub fn mask_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        if self.forms.is_empty() {
            return bytes.to_vec();
        }
        let mut hidden = Vec::with_capacity(bytes.len());
        let mut at = 0;
        while at < bytes.len() {
            match self.at(bytes, at) {
                None => {
                    hidden.push(bytes[at]);
                    at += 1;
                }
                Some((length, other)) => {
                    hidden.extend_from_slice(other);
                    at = self.end(bytes, at, at + length);
                }
            }
        }
        hidden
    }

    /// Returns the end of a secret, including secrets that overlap it.
    fn end(&self, bytes: &[u8], start: usize, mut end: usize) -> usize {
        let mut at = start + 1;
        while at < end {
            if let Some((length, _)) = self.at(bytes, at) {
                end = end.max(at + length);
            }
            at += 1;
        }
        end
    }

    /// Returns the longest pattern that matches at a position.
    fn at(&self, bytes: &[u8], at: usize) -> Option<(usize, &[u8])> {
        let candidates = self.beginning[usize::from(bytes[at])].iter().map(|at| &self.forms[*at]);
        let found = candidates.into_iter().find(|(form, _)| bytes[at..].starts_with(form));
        found.map(|(form, other)| (form.len(), other.as_slice()))
    }

    /// Replaces the secrets in JSON, including keys.
    pub fn mask_json(&self, json: serde_json::Value) -> serde_json::Value {
        use serde_json::Value as Json;
        if self.forms.is_empty() {
            return json;
        }
        match json {
            Json::String(text) => Json::String(self.mask(&text)),
            Json::Number(number) => self.hide_number(number),
            Json::Array(values) => values.into_iter().map(|value| self.mask_json(value)).collect(),
            Json::Object(entries) => {
                let hide = |(key, value): (String, Json)| (self.mask(&key), self.mask_json(value));
                Json::Object(entries.into_iter().map(hide).collect())
            }
            other => other,
        }
    }

    fn hide_number(&self, number: serde_json::Number) -> serde_json::Value {
        let text = number.to_string();
        let at = self.known.iter().position(|known| *known == text);
        let other = at.and_then(|at| numbered(at + 1).parse::<u64>().ok());
        other.map_or(serde_json::Value::Number(number), serde_json::Value::from)
    }
}

/// Shows only the number of secrets.
impl std::fmt::Debug for SecretMasker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Masker of {} secrets", self.known.len())
    }
}

/// Returns the placeholder of a secret. It needs no quotes or escapes in any format.
fn named(number: usize) -> String {
    format!("secret-{number}")
}

/// Returns the placeholder of a numeric secret.
fn numbered(number: usize) -> String {
    (7_000_000 + number).to_string()
}

/// Returns the notations of a text: plain, quoted for a shell or YAML, in JSON, in a URL.
fn written(text: &str) -> Vec<String> {
    let shell = text.replace('\'', "'\\''");
    let json = in_json(text);
    let mut forms = vec![
        text.to_owned(),
        shell.clone(),
        in_json(&shell),
        text.replace('\'', "''"),
        json.clone(),
        json.replace('/', "\\/"),
        in_json(&json),
        ascii_json(text),
    ];
    forms.push(percent(text, "%20", false));
    forms.push(percent(text, "+", false));
    forms.push(percent(text, "%20", true));
    forms.dedup();
    forms
}

/// Returns a text as in JSON, without the quotes.
fn in_json(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Returns a text as in ASCII-only JSON, without the quotes.
fn ascii_json(text: &str) -> String {
    let mut written = String::new();
    for c in in_json(text).chars() {
        if c.is_ascii() {
            written.push(c);
        } else {
            let mut units = [0; 2];
            c.encode_utf16(&mut units).iter().for_each(|unit| written += &format!("\\u{unit:04x}"));
        }
    }
    written
}

fn percent(text: &str, blank: &str, lower: bool) -> String {
    let byte = |byte: u8| match byte {
        b' ' => blank.to_owned(),
        byte if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) => char::from(byte).to_string(),
        byte if lower => format!("%{byte:02x}"),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// Returns the encodings of bytes, always in the same number and order.
fn encoded(bytes: &[u8]) -> Vec<String> {
    let with_end = [bytes, b"\n"].concat();
    let standard = base64(bytes);
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let without = |text: &str| text.trim_end_matches('=').to_owned();
    let with_end = base64(&with_end);
    let url = standard.replace('+', "-").replace('/', "_");
    vec![without(&standard), without(&with_end), without(&url), standard, with_end, url, hex.to_uppercase(), hex]
}

/// Returns the part of a base64 encoding that does not depend on the surrounding data, for an offset of
/// `skipped` bytes in a group.
fn base64_within(text: &[u8], skipped: usize) -> String {
    let before = vec![0; skipped];
    let all = base64(&[&before[..], text].concat());
    let whole = all.trim_end_matches('=');
    let end = if (skipped + text.len()).is_multiple_of(3) { whole.len() } else { whole.len() - 1 };
    let start = if skipped == 0 { 0 } else { skipped + 1 };
    whole[start..end].to_owned()
}
