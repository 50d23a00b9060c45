//! The program augtool(1). kilter lets it change only its tree in memory.

use std::time::Duration;

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Value};
use kilter_process::{Invocation, Output};
use kilter_provider::Context;

use super::script::{TreeCondition, commands};
use crate::accounts::System;
use crate::tool::{self, RecordedPart};

pub(super) const PROGRAM: &str = "augtool";

const DEADLINE: Duration = Duration::from_secs(120);
const MAX_OUTPUT_BYTES: usize = 64 << 20;
/// Maximum length of a message of augtool in a report, which may contain a whole grammar.
const MAX_MESSAGE: usize = 300;

/// Command that makes a `save` list the files that it would change.
const NO_SAVE: &str = "set /augeas/save noop";

/// A declared resource, and the system.
pub(super) struct Augtool<'a> {
    pub(super) system: &'a System,
    pub(super) cx: &'a Context<'a>,
    pub(super) should: &'a Attributes,
}

/// Node that does not exist. Its output precedes the content of a file.
const MARK: &str = "/kilter/content";

/// Path of a file in the tree.
const FILES: &str = "/files";

/// Returns the context of relative paths.
pub(super) fn context(should: &Attributes) -> EcoString {
    match (should.text("context"), should.text("incl")) {
        (Some(context), _) => context.into(),
        (None, Some(incl)) => eco_format!("{FILES}{incl}"),
        (None, None) => EcoString::new(),
    }
}

impl Augtool<'_> {
    fn run(&self, script: &str) -> Result<Output, EcoString> {
        let mut tool = Invocation::new(PROGRAM);
        if self.system.root() != std::path::Path::new("/") {
            tool = tool.arg("--root").arg(self.system.root());
        }
        if let Some(load_path) = self.should.get("load_path") {
            tool = tool.arg("--include").arg(crate::value_text::texts(Some(load_path)).join(":"));
        }
        if let (Some(lens), Some(incl)) = (self.should.text("lens"), self.should.text("incl")) {
            tool = tool.args(["--noautoload", "--transform"]).arg(format!("{} incl {incl}", lens_name(lens)));
        }
        let tool = tool.stdin(script).captured(MAX_OUTPUT_BYTES).deadline(DEADLINE);
        let finished = tool::start(self.system.runner(), self.cx, &tool, RecordedPart::Errors)
            .map_err(|error| error.with_sources())?;
        if finished.stdout.is_truncated() {
            return Err("augtool wrote too much".into());
        }
        Ok(finished)
    }

    /// Runs commands that must all succeed.
    fn succeed(&self, script: &str) -> Result<String, EcoString> {
        let finished = self.run(script)?;
        match finished.is_success() {
            true => Ok(finished.stdout.text().into_owned()),
            false => {
                let errors = finished.stderr.text();
                let text: Vec<&str> =
                    errors.lines().filter(|line| *line != "error: Failed to execute command").collect();
                Err(tool::failure(PROGRAM, &finished, DEADLINE, tool::ending_of(&shortened(&text.join("\n")))))
            }
        }
    }

    /// Returns the reason why augtool could not read a declared file or lens.
    fn load_error(&self) -> Result<(), EcoString> {
        let output = self.succeed("print /augeas//error\n")?;
        match message(&output) {
            Some(why) => Err(why),
            None => Ok(()),
        }
    }

    /// Returns a reason, without the parts of a secret that it may contain.
    fn shown(&self, why: EcoString) -> EcoString {
        match self.should.iter().any(|(_, value)| value.holds_sensitive()) {
            true => "augtool cannot make the changes (the reason is hidden: it may contain the secret)".into(),
            false => why,
        }
    }

    /// Returns true if the condition holds.
    pub(super) fn is_wanted(&self) -> Result<bool, EcoString> {
        self.evaluate_condition().map_err(|why| self.shown(why))
    }

    /// Returns the absolute paths of the files that the changes would change.
    pub(super) fn changed_files(&self) -> Result<Vec<EcoString>, EcoString> {
        self.try_changes().map_err(|why| self.shown(why))
    }

    /// Returns the new content of a file.
    pub(super) fn content(&self, file: &str) -> Result<Vec<u8>, EcoString> {
        self.preview(file).map_err(|why| self.shown(why))
    }

    fn evaluate_condition(&self) -> Result<bool, EcoString> {
        let Some(onlyif) = self.should.get("onlyif").and_then(|onlyif| onlyif.expose().to_text()) else {
            return Ok(true);
        };
        let condition = TreeCondition::parse(&context(self.should), &onlyif)?;
        condition.holds(&self.succeed(&format!("{}\n", condition.query))?)
    }

    fn changes(&self) -> Result<String, EcoString> {
        let changes = self.should.get("changes").unwrap_or(&Value::Undef);
        Ok(commands(&context(self.should), changes)?.iter().map(|line| format!("{line}\n")).collect())
    }

    fn try_changes(&self) -> Result<Vec<EcoString>, EcoString> {
        if self.should.text("lens").is_some() {
            self.load_error()?;
        }
        let script = format!("{}{NO_SAVE}\nsave\n", self.changes()?);
        let finished = self.run(&format!("{script}match /augeas/events/saved\n"))?;
        if !finished.is_success() {
            self.succeed(&self.changes()?)?;
            // The changes are possible, so their result has no notation in the file.
            let errors = self.run(&format!("{script}print /augeas//error\n"))?;
            let why = message(&errors.stdout.text()).unwrap_or_else(|| "it gives no reason".into());
            return Err(eco_format!("augtool cannot write the changed tree: {why}"));
        }
        let output = finished.stdout.text();
        let saved = output.lines().filter(|line| line.starts_with("/augeas/events/saved"));
        let files = saved.filter_map(|line| Some(line.split_once(" = ")?.1.strip_prefix(FILES)?.into()));
        Ok(files.collect())
    }

    fn preview(&self, file: &str) -> Result<Vec<u8>, EcoString> {
        let script = format!("{}get {MARK}\npreview {FILES}{}\n", self.changes()?, escaped(file));
        let finished = self.run(&script)?;
        if finished.is_success() {
            // `rm`, `setm` and others report their effect before.
            let mark = format!("{MARK} (o)\n");
            let bytes = &finished.stdout.bytes;
            let at = memchr::memmem::find(bytes, mark.as_bytes()).ok_or("augtool wrote no content")?;
            return Ok(bytes[at + mark.len()..].to_vec());
        }
        let errors = finished.stderr.text();
        Err(match errors.contains("unknown command") {
            true => "augtool is too old: version 1.14 or later is necessary".into(),
            false => tool::failure(PROGRAM, &finished, DEADLINE, tool::ending_of(&shortened(&errors))),
        })
    }
}

/// Returns the name of a lens with its module, as in `Hosts.lns`.
fn lens_name(lens: &str) -> EcoString {
    let lens = lens.strip_prefix('@').unwrap_or(lens);
    if lens.contains('.') { lens.into() } else { eco_format!("{lens}.lns") }
}

/// Escapes the characters of a file name that have a meaning in path expressions.
fn escaped(file: &str) -> String {
    let mut escaped = String::with_capacity(file.len());
    for c in file.chars() {
        if " \t[]()='\",|!*".contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_MESSAGE) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// Returns the first error in the output of `print /augeas//error`.
fn message(output: &str) -> Option<EcoString> {
    let mut lines = output.lines().filter_map(|line| line.split_once(" = "));
    let (path, kind) = lines.find(|(path, _)| path.ends_with("/error"))?;
    let unquoted = |value: &str| value.trim_matches('"').replace("\\n", " ").replace("\\\"", "\"");
    let details: Vec<(&str, &str)> = lines.take_while(|(other, _)| other.starts_with(path)).collect();
    let detail = |name: &str| {
        let is_it = |(other, _): &&(&str, &str)| other.strip_prefix(path) == Some(name);
        details.iter().find(is_it).map(|(_, value)| unquoted(value))
    };
    let file = path.strip_prefix("/augeas/files").and_then(|path| path.strip_suffix("/error"));
    let place = match (file, detail("/line")) {
        (Some(file), Some(line)) => format!("{file}, line {line}: "),
        (Some(file), None) => format!("{file}: "),
        _ => String::new(),
    };
    let what = detail("/message").unwrap_or_else(|| unquoted(kind));
    Some(eco_format!("{place}{}", shortened(what.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_tree_are_short() {
        let output = "/augeas/files/etc/x/error = \"parse_failed\"\n/augeas/files/etc/x/error/line = \"3\"\n\
                      /augeas/files/etc/x/error/message = \"Iterated lens matched less than it should\"\n";
        assert_eq!(message(output).as_deref(), Some("/etc/x, line 3: Iterated lens matched less than it should"));
        let output = "/augeas/load/Nolens/error = \"Can not find lens Nolens.lns\"\n";
        assert_eq!(message(output).as_deref(), Some("Can not find lens Nolens.lns"));
        assert_eq!(message("  (no matches)\n"), None);
        assert!(message(&format!("/augeas/x/error = \"{}\"\n", "é".repeat(999))).unwrap().chars().count() < 310);
    }
}
