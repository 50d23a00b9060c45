//! The type `augeas`: edits of configuration files through the lenses of Augeas.

mod augtool;
mod script;

use std::sync::{Mutex, PoisonError};

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Behaviour, Change, Difference, Feature, Outcome, State, TypeSchema, Value};
use kilter_provider::{
    AutoEdge, Content, Context, Effect, Footprint, Match, Mode, POLL, PathState, Predict, Provider, ProviderError,
    Query, Redactor, Relations, Scope, SideEffects, Suitability, ValidationError, Wanted, Watch, WatchSource,
    redacted_outcome,
};

use crate::accounts::System;
use crate::file::{atomic_rewrite, text_diff};
use atomic_rewrite::{AtomicRewrite, RewriteError};
use augtool::{Augtool, PROGRAM, context};

const PACKAGE: &str = "augeas-tools";

const DESC: &str = "\
Edits of configuration files by Augeas, which parses a file to a tree with a grammar (a lens).

```yaml
resources:
  augeas[sshd]:
    lens: Sshd.lns
    incl: /etc/ssh/sshd_config
    changes:
      - set PermitRootLogin no
      - rm X11Forwarding
  augeas[web in the hosts file]:
    lens: Hosts.lns
    incl: /etc/hosts
    onlyif: match *[canonical = 'web'] size == 0
    changes: |
      set 01/ipaddr 10.0.0.7
      set 01/canonical web
```

The attributes are those of Puppet. The type needs the program `augtool` 1.14 or later (Debian: package \
`augeas-tools`). For values in JSON, YAML, TOML and INI files, [structured](structured.md) and [ini](ini.md) need no \
program.

augtool makes the changes only in its memory. The resource is in sync if no file would change. Otherwise kilter shows \
the difference, takes the new content from augtool and replaces the file atomically. The file keeps owner, mode, \
access list and extended attributes. If another program changes the file meanwhile, kilter tries again.

Changes must have no effect the second time. If the file would change again after a change, the resource fails. Use \
`onlyif` for changes such as `ins`.

**Without `lens` and `incl`**, augtool parses all files that it knows, which takes about half a second for each \
resource. Declare both.

| change | does |
|---|---|
| `set PATH VALUE` | sets the value of a node, which is created if it is missing |
| `setm PATH SUBPATH VALUE` | sets the values of several nodes |
| `rm PATH` | removes nodes |
| `clear PATH`, `clearm PATH SUBPATH` | creates nodes, without a value |
| `touch PATH` | creates a node |
| `ins LABEL before PATH`, `ins LABEL after PATH` | inserts a node |
| `mv PATH PATH`, `rename PATH LABEL` | moves or renames a node |
| `defvar NAME PATH`, `defnode NAME PATH VALUE` | defines `$NAME` |

| condition | holds |
|---|---|
| `get PATH COMPARATOR VALUE` | if the value compares so: `==`, `!=`, `<`, `<=`, `>`, `>=`, `=~` |
| `match PATH size COMPARATOR NUMBER` | if the number of nodes compares so |
| `match PATH include PATH`, `not_include` | if the paths of the nodes contain the text, or not |
| `values PATH include VALUE`, `not_include` | if the values of the nodes contain the text, or not |
| `match PATH == [\"a\", \"b\"]`, `values PATH != […]` | if the list is the same, or not |

kilter does not create or remove files: declare the `file`. A file must end with a line break.

**Automatic edges.** The resource runs after the `file` at `incl`, or after the nearest declared directory above, and \
after the package `augeas-tools`.";

fn schema() -> TypeSchema {
    let parameter = Behaviour::Parameter;
    let texts = "Variant[String[1], Array[String[1]]]";
    TypeSchema::new("augeas", DESC)
        .attribute("name", "String[1]", Behaviour::Namevar, "Name of the resource.")
        .attribute(
            "changes",
            texts,
            parameter,
            "Changes, as a list or as a text with one in each line: `[set PermitRootLogin no]`.",
        )
        .required()
        .attribute("lens", "String[1]", parameter, "Lens that parses the file: `Sshd.lns`. Requires `incl`.")
        .attribute(
            "incl",
            "String[1]",
            parameter,
            "Absolute path of the file, which may contain `*`: `/etc/ssh/sshd_config`. Requires `lens`.",
        )
        .attribute(
            "context",
            "String[1]",
            parameter,
            "Path in the tree that precedes relative paths: `/files/etc/hosts`. The default is `/files` and `incl`.",
        )
        .attribute("onlyif", "String[1]", parameter, "Condition for the changes: `get PermitRootLogin != no`.")
        .attribute("load_path", texts, parameter, "Directories with further lenses: `/srv/lenses`.")
        .attribute(
            "show_diff",
            "Boolean",
            parameter,
            "Show the change of a file as a diff. kilter never shows the diff of a change with a secret.",
        )
        .default(true)
        .features(&[Feature::SimpleGetFilter, Feature::SupportsNoop])
}

/// Provides the type `augeas` through augtool.
pub struct AugeasProvider {
    system: System,
    turn: Mutex<()>,
}

fn has_secret(should: &Attributes) -> bool {
    should.iter().any(|(_, value)| value.holds_sensitive())
}

impl AugeasProvider {
    /// Creates a provider for the files of a system.
    pub fn new(system: System) -> AugeasProvider {
        AugeasProvider { system, turn: Mutex::new(()) }
    }

    fn state(&self, cx: &Context<'_>, wanted: &Wanted<'_>) -> Result<State, EcoString> {
        let Some(should) = wanted.should else {
            return Err(
                "an edit is found only by its declaration: declare it in a manifest, and use `kilter plan`".into()
            );
        };
        check(should)?;
        let mut state = State::present(wanted.name.clone(), Attributes::from_iter([("name", wanted.name.clone())]));
        let augtool = Augtool { system: &self.system, cx, should };
        if !augtool.is_wanted()? {
            return Ok(state);
        }
        for file in augtool.changed_files()? {
            let old = AtomicRewrite::open(&self.system.path(&file)).map_err(|error| eco_format!("{error}"))?;
            let new = new_content(&augtool, &file, old.bytes())?;
            if new == old.bytes() {
                continue;
            }
            let difference = Difference::new("changes", Value::Undef, Value::Undef).of_entry(file.clone());
            let difference = difference.saying("the file would change");
            let shows = should.get_bool("show_diff") != Some(false) && !has_secret(should);
            let texts = (std::str::from_utf8(old.bytes()), std::str::from_utf8(&new));
            let diff = match texts {
                (Ok(old), Ok(new)) if shows => text_diff(&file, old, new),
                _ => None,
            };
            state.drift.push(match diff {
                Some(diff) => difference.showing(diff),
                None => difference,
            });
        }
        Ok(state)
    }

    fn change(&self, cx: &Context<'_>, change: &Change<'_>) -> Result<Vec<EcoString>, EcoString> {
        let Some(should) = change.should else {
            return Err("an edit cannot be removed: declare changes that undo it".into());
        };
        check(should)?;
        let augtool = Augtool { system: &self.system, cx, should };
        atomic_rewrite::rewritten(|| self.attempt(&augtool))
    }

    /// Replaces the files. Returns notes.
    fn attempt(&self, augtool: &Augtool<'_>) -> Result<Vec<EcoString>, RewriteError> {
        let mut notes = Vec::new();
        if !augtool.is_wanted()? {
            return Ok(notes);
        }
        let mut planned = Vec::new();
        for file in augtool.changed_files()? {
            // augtool reads the file after this read. If the contents differ, the replacement fails.
            let old = AtomicRewrite::open(&self.system.path(&file))?;
            let new = new_content(augtool, &file, old.bytes())?;
            planned.push((file, old, new));
        }
        for (file, old, new) in planned {
            if new == old.bytes() {
                continue;
            }
            let lost = old.replace(&new, 0o600, augtool.cx)?;
            if !lost.is_empty() {
                notes.push(eco_format!("{file}: could not keep {}", lost.join(", ")));
            }
        }
        Ok(notes)
    }
}

/// Returns the new content of a file that exists.
fn new_content(augtool: &Augtool<'_>, file: &str, old: &[u8]) -> Result<Vec<u8>, EcoString> {
    match old.last() {
        None => Err(eco_format!("{file} does not exist or is empty: declare `file[{file}]` with a content")),
        Some(b'\n') => augtool.content(file),
        Some(_) => Err(eco_format!("{file} does not end with a line break, which Augeas needs: add it")),
    }
}

fn problems(should: &Attributes, deferred: &[&str]) -> Vec<ValidationError> {
    let mut found = Vec::new();
    let is_given = |attribute| should.get(attribute).is_some() || deferred.contains(&attribute);
    for (attribute, other) in [("lens", "incl"), ("incl", "lens")] {
        if is_given(attribute) && !is_given(other) {
            found.push(ValidationError::with(attribute, format!("`{attribute}` needs `{other}`")).hint(match other {
                "incl" => "add the file: `incl: /etc/ssh/sshd_config`",
                _ => "add the lens of the file: `lens: Sshd.lns`",
            }));
        }
    }
    let is_name = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "_.@".contains(c));
    if let Some(lens) = should.text("lens").filter(|lens| !is_name(lens)) {
        found.push(ValidationError::with("lens", format!("`{lens}` is not a lens")).hint("write a name: `Sshd.lns`"));
    }
    let is_plain = |path: &str| atomic_rewrite::is_normal(path) && !path.contains(char::is_whitespace);
    if let Some(incl) = should.text("incl").filter(|incl| !is_plain(incl)) {
        let problem = ValidationError::with("incl", format!("`{incl}` is not an absolute path without white space"));
        found.push(problem.hint("write the path of the file: `/etc/ssh/sshd_config`"));
    }
    if let Some(context) = should.text("context").filter(|context| !context.starts_with(['/', '$'])) {
        let problem = ValidationError::with("context", format!("`{context}` is not a path in the tree"));
        found.push(problem.hint("begin with `/files` and the path of the file: `/files/etc/hosts`"));
    }
    for path in crate::value_text::texts(should.get("load_path")) {
        if path.split(':').any(|path| !atomic_rewrite::is_normal(path)) {
            let problem = ValidationError::with("load_path", format!("`{path}` is not an absolute path"));
            found.push(problem.hint("write the directory of the lenses: `/srv/lenses`"));
        }
    }
    for attribute in ["lens", "incl", "context", "load_path"] {
        if should.get(attribute).is_some_and(Value::holds_sensitive) {
            let problem = ValidationError::with(attribute, "only `changes` and `onlyif` can hold a secret");
            found.push(problem.hint("use a value that is not secret"));
        }
    }
    let context = context(should);
    // A message could contain a part of the secret.
    let shown = |attribute: &str, why: EcoString| match should.get(attribute).is_some_and(Value::holds_sensitive) {
        true => "the notation is wrong (the reason is hidden: it may contain the secret)".into(),
        false => why,
    };
    if let Some(why) = should.get("changes").and_then(|changes| script::commands(&context, changes).err()) {
        let why = shown("changes", why);
        found.push(ValidationError::with("changes", why).hint("write changes such as `set PermitRootLogin no`"));
    }
    let onlyif = should.get("onlyif").and_then(|onlyif| onlyif.expose().to_text());
    if let Some(why) = onlyif.and_then(|onlyif| script::TreeCondition::parse(&context, &onlyif).err()) {
        let why = shown("onlyif", why);
        found
            .push(ValidationError::with("onlyif", why).hint("write a condition such as `match */canonical size == 0`"));
    }
    found
}

/// Fails if a value is invalid. Values from other resources have not been validated before.
fn check(should: &Attributes) -> Result<(), EcoString> {
    problems(should, &[]).pop().map_or(Ok(()), |problem| Err(eco_format!("{problem}")))
}

/// Returns the file that a resource edits if the declaration alone tells it.
fn file_of(should: &Attributes) -> Option<EcoString> {
    match should.text("incl") {
        Some(incl) => Some(incl).filter(|incl| !incl.contains(['*', '?', '['])).map(EcoString::from),
        None => {
            // The context is a file, a node of a file, or a directory.
            let mut path = should.text("context")?.strip_prefix("/files")?.trim_end_matches('/');
            while !path.is_empty() && !std::path::Path::new(path).is_file() {
                path = path.rsplit_once('/')?.0;
            }
            (!path.is_empty()).then(|| path.into())
        }
    }
}

impl Provider for AugeasProvider {
    crate::builtin::describe!("augeas", "augtool", schema, [relations, predict, watch]);

    fn suitable(&self) -> Suitability {
        match kilter_process::which(PROGRAM.as_ref(), kilter_process::DEFAULT_PATH.as_ref()) {
            Some(_) => Suitability::Suitable,
            None => {
                Suitability::Unsuitable(eco_format!("there is no command {PROGRAM}: install the package {PACKAGE}"))
            }
        }
    }

    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        let Query::Named(wanted) = query else {
            return Err(ProviderError::new(
                "edits cannot be listed: declare them in a manifest, and use `kilter plan`",
            ));
        };
        let state = |one: &Wanted<'_>| {
            self.state(cx, one).unwrap_or_else(|why| {
                let why = one.should.map_or(why.clone(), |should| Redactor::of(should).redact(why));
                State { unreadable: Some(why), ..State::absent(one.name.clone()) }
            })
        };
        Ok(wanted.iter().map(state).collect())
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        if mode == Mode::Preview {
            return vec![Outcome::done(); changes.len()];
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let one = |change: &Change<'_>| {
            let made = self.change(cx, change);
            let outcome = made.map_or_else(Outcome::failed, |notes| Outcome { notes, ..Outcome::done() });
            redacted_outcome(change, outcome)
        };
        changes.iter().map(one).collect()
    }

    fn validate(&self, _: &str, should: &Attributes, deferred: &[&str]) -> Vec<ValidationError> {
        let seal = Redactor::of(should);
        problems(should, deferred).into_iter().map(|problem| seal.problem(problem)).collect()
    }
}

impl Relations for AugeasProvider {
    fn auto_edges(&self, _: &str, should: &Attributes, add: &mut dyn FnMut(AutoEdge<'_>)) {
        add(AutoEdge::require("package", PACKAGE));
        let Some(file) = file_of(should) else { return };
        add(AutoEdge { by: Match::PathOrAncestor, ..AutoEdge::require("file", &file) });
        add(AutoEdge { by: Match::Ancestor, ..AutoEdge::require("mount", &file) });
    }
}

impl Predict for AugeasProvider {
    fn side_effects(&self, _: &Attributes) -> SideEffects {
        SideEffects::Own
    }

    fn effects(&self, _: &Context<'_>, change: &Change<'_>) -> Option<Vec<Effect>> {
        let node = PathState::File { content: Content::Unknown, mode: None };
        let drift = change.differences.iter().filter_map(|difference| difference.entry.clone());
        Some(drift.map(|path| Effect::Path { path, node: node.clone() }).collect())
    }

    fn footprint(&self, _: &str, should: &Attributes, say: &mut dyn FnMut(Footprint<'_>)) {
        if let Some(file) = file_of(should) {
            say(Footprint::Writes { path: &file, is_whole: false });
        }
    }
}

impl Watch for AugeasProvider {
    fn watches(&self, _: &str, should: &Attributes) -> Vec<WatchSource> {
        match file_of(should) {
            Some(file) => vec![WatchSource::Path { path: self.system.path(&file).into(), scope: Scope::This }],
            None => vec![WatchSource::Poll(POLL)],
        }
    }
}

#[cfg(test)]
mod tests;
