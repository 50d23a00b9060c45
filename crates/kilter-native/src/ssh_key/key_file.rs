//! The authorized_keys file of a user.

use std::fmt;

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Value};
use kilter_provider::{Context, ValidationError};

use super::key_line::{self, KINDS, KeyLine};
use crate::accounts::UserRow;
use crate::file::atomic_rewrite::{self, AtomicRewrite, AtomicRewriteError, FileOwner, RewriteError};
use crate::user_files::{EntryFile, MAX_FILE_BYTES};
use crate::value_text::texts;

/// The lines of a file.
pub(super) struct KeyFile {
    lines: Vec<Vec<u8>>,
    /// Keys with the numbers of their lines.
    keys: Vec<(KeyLine, usize)>,
}

impl EntryFile for KeyFile {
    const TYPE: &'static str = "ssh_authorized_key";
    const NOUN: &'static str = "the comment of a key";
    const PLACE: &'static str = "among the keys";

    fn names(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(|(key, _)| key.comment.as_str()).filter(|comment| !comment.is_empty())
    }
}

/// Returns the path of the file of a user.
pub(super) fn path(user: &UserRow) -> EcoString {
    path_in(&user.home)
}

/// Returns the path of the file in a home.
pub(super) fn path_in(home: &str) -> EcoString {
    eco_format!("{}/.ssh/authorized_keys", home.trim_end_matches('/'))
}

fn owner(user: &UserRow) -> FileOwner {
    FileOwner { uid: user.uid, gid: user.gid }
}

/// Reads the file of a user.
fn open(user: &UserRow) -> Result<AtomicRewrite, AtomicRewriteError> {
    AtomicRewrite::open_owned(&path(user), owner(user), MAX_FILE_BYTES)
}

impl KeyFile {
    /// Reads the keys of a user. A missing file has none.
    pub(super) fn read(user: &UserRow) -> Result<KeyFile, EcoString> {
        match open(user) {
            Ok(file) => Ok(KeyFile::parse(file.bytes())),
            Err(error) if error.is_missing() => Ok(KeyFile::parse(b"")),
            Err(error) => Err(eco_format!("{error}")),
        }
    }

    /// Changes the file of a user, and creates it with its directory if there is a key to add. Returns properties of
    /// the file that could not be kept.
    pub(super) fn rewrite<T>(
        user: &UserRow,
        cx: &Context<'_>,
        change: impl FnOnce(&mut KeyFile) -> T,
    ) -> Result<(T, Vec<String>), RewriteError> {
        let mut file = open(user);
        let is_new = file.as_ref().is_err_and(AtomicRewriteError::is_missing);
        let mut keys = match &file {
            Ok(file) => KeyFile::parse(file.bytes()),
            Err(_) if is_new => KeyFile::parse(b""),
            Err(_) => return Err(file.err().expect("the file was not opened").into()),
        };
        let before = keys.bytes();
        let done = change(&mut keys);
        let bytes = keys.bytes();
        if bytes == before {
            return Ok((done, Vec::new()));
        }
        if is_new {
            let path = path(user);
            let directory = path.rsplit_once('/').map_or("/", |(directory, _)| directory);
            atomic_rewrite::create_private(directory, owner(user))?;
            file = open(user);
        }
        Ok((done, file?.replace(&bytes, 0o600, cx)?))
    }

    pub(super) fn parse(bytes: &[u8]) -> KeyFile {
        let lines: Vec<Vec<u8>> = bytes.split_inclusive(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
        let keys = |(at, line): (usize, &Vec<u8>)| Some((KeyLine::parse(&String::from_utf8_lossy(line))?, at));
        KeyFile { keys: lines.iter().enumerate().filter_map(keys).collect(), lines }
    }

    fn bytes(&self) -> Vec<u8> {
        self.lines.concat()
    }

    /// Returns the lines of the keys that a declaration means, by their numbers in `keys`.
    ///
    /// A key to be absent is the declared key under any comment, because it permits a login under each. Another key
    /// with the same comment permits the login of another person.
    pub(super) fn places(&self, name: &str, should: &Attributes) -> Vec<usize> {
        let key = should.text("key");
        let is_absent = should.text("ensure") == Some("absent");
        let with = |is_meant: &dyn Fn(&KeyLine) -> bool| -> Vec<usize> {
            let meant = self.keys.iter().enumerate().filter(|(_, (line, _))| is_meant(line));
            meant.map(|(at, _)| at).collect()
        };
        let is_named = |line: &KeyLine| !name.is_empty() && line.comment == name;
        match key {
            Some(key) if is_absent => with(&|line| line.key == key),
            Some(key) => {
                let exact = with(&|line| is_named(line) && line.key == key);
                if exact.is_empty() { with(&is_named) } else { exact }
            }
            None => with(&is_named),
        }
    }

    pub(super) fn key(&self, place: usize) -> &KeyLine {
        &self.keys[place].0
    }

    /// Replaces the line of a key, or adds one at the end.
    ///
    /// # Errors
    /// If the old line has bytes that are not text, which would be lost.
    pub(super) fn put(&mut self, place: Option<usize>, key: &KeyLine) -> Result<(), EcoString> {
        let line = key.line().into_bytes();
        match place.map(|place| self.keys[place].1) {
            Some(at) if std::str::from_utf8(&self.lines[at]).is_err() => {
                return Err("the line has bytes that are not text: remove it, or edit it by hand".into());
            }
            Some(at) => self.lines[at] = line,
            None => {
                if let Some(last) = self.lines.last_mut()
                    && !last.ends_with(b"\n")
                {
                    last.push(b'\n');
                }
                self.lines.push(line);
            }
        }
        *self = KeyFile::parse(&self.bytes());
        Ok(())
    }

    /// Removes the lines of keys.
    pub(super) fn remove(&mut self, places: &[usize]) {
        let gone: Vec<usize> = places.iter().map(|&place| self.keys[place].1).collect();
        let mut at = 0;
        self.lines.retain(|_| {
            at += 1;
            !gone.contains(&(at - 1))
        });
        *self = KeyFile::parse(&self.bytes());
    }
}

impl fmt::Debug for KeyFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.keys).finish()
    }
}

/// Returns the problems of declared values.
pub(super) fn problems(name: &str, should: &Attributes) -> Vec<ValidationError> {
    let mut found = Vec::new();
    if name.trim().is_empty() || name.trim() != name || name.contains(char::is_control) {
        let message = eco_format!("`{name}` cannot be the comment of a key");
        found.push(ValidationError::with("name", message).hint("a comment is one line, without blanks at its ends"));
    }
    if let (Some(kind), Some(key)) = (should.text("type"), should.text("key"))
        && !key_line::is_key_of(kind, key)
    {
        let other = KINDS.iter().find(|other| key_line::is_key_of(other, key));
        let message = eco_format!("that is no key of the kind {kind}");
        let hint = match other {
            Some(other) => eco_format!("it is one of the kind {other}: write `type: {other}`"),
            None => "write the second word of the line in the `.pub` file".into(),
        };
        found.push(ValidationError::with("key", message).hint(hint));
    }
    for option in texts(should.get("options")) {
        if !key_line::is_option(&option) {
            let message = eco_format!("`{option}` is no option");
            let hint = "an option is no-pty, or from=\"10.0.0.*\": one for each entry of the list";
            found.push(ValidationError::with("options", message).hint(hint));
        }
    }
    found
}

/// Returns the line with the declared attributes, and those of the old line.
///
/// # Errors
/// If an attribute is missing or invalid. Values from other resources have not been validated before.
pub(super) fn merged(name: &str, old: Option<&KeyLine>, should: &Attributes) -> Result<KeyLine, EcoString> {
    let mut key = old.cloned().unwrap_or_default();
    key.comment = name.into();
    for (attribute, part) in [("type", &mut key.kind), ("key", &mut key.key)] {
        if let Some(text) = should.text(attribute) {
            *part = text.into();
        }
    }
    if let Some(options) = should.get("options").filter(|options| !options.is_undef()) {
        key.options = texts(Some(options));
    }
    if key.kind.is_empty() || key.key.is_empty() {
        return Err("a new key needs `user`, `type` and `key`".into());
    }
    let attributes = Attributes::from_iter([
        ("type", Value::String(key.kind.clone())),
        ("key", Value::String(key.key.clone())),
        ("options", Value::strings(key.options.iter().cloned())),
    ]);
    match problems(name, &attributes).into_iter().next() {
        Some(problem) => Err(problem.to_string().into()),
        None if KeyLine::parse(&key.line()).as_ref() == Some(&key) => Ok(key),
        None => Err(eco_format!("`{name}` cannot be the comment of a key")),
    }
}

/// Returns the attributes of a key.
pub(super) fn attributes(key: &KeyLine, user: &UserRow) -> Attributes {
    let mut attributes = Attributes::with_capacity(6);
    attributes.push("ensure", "present");
    attributes.push("user", user.name.clone());
    attributes.push("type", key.kind.clone());
    attributes.push("key", key.key.clone());
    attributes.push("options", Value::strings(key.options.iter().cloned()));
    attributes.push("target", path(user));
    attributes
}
