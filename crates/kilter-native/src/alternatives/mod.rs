//! The type `alternatives`: programs that are chosen among several packages, such as the default editor.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Behaviour, Change, Feature, Outcome, State, TypeSchema, Value};
use kilter_process::Invocation;
use kilter_provider::{
    AutoEdge, Context, Declaration, Effect, Footprint, Insync, Match, Mode, PathState, Predict, Provider,
    ProviderError, Query, Redactor, Relations, Scope, SideEffects, Suitability, ValidationError, Watch, WatchSource,
    redacted_outcome,
};

use crate::accounts::System;
use crate::builtin::is_absent;
use crate::file::atomic_rewrite;
use crate::tool;

const PROGRAM: &str = "update-alternatives";
/// Directories of the records of the groups: of dpkg, and of the program on other distributions.
const RECORDS: [&str; 2] = ["/var/lib/dpkg/alternatives/", "/var/lib/alternatives/"];
/// Directory of the links to the chosen paths.
const CHOSEN: &str = "/etc/alternatives/";

const DEADLINE: Duration = Duration::from_secs(60);

const DESC: &str = "\
Groups of alternatives: programs that are chosen among several packages, such as the editor.

```yaml
resources:
  alternatives[editor]:
    path: /usr/bin/vim.basic
  alternatives[pager]:
    mode: auto
  alternatives[python]:
    link: /usr/bin/python
    path: /usr/bin/python3
    priority: 10
```

With a `path`, the group is in the mode `manual`: updates of packages do not change the choice. In the mode `auto`, \
the path with the highest priority is chosen. With `link` and `priority`, kilter adds the path if the group does not \
have it, or adds the group. Without them, a package must have added the path.

`ensure: absent` removes the `path` from the group, or without a `path` the whole group.

kilter reads the records of `update-alternatives` itself and starts the program only for changes. It cannot add slave \
links, such as manual pages: only packages do so.";

/// Provides the type `alternatives`.
pub struct AlternativesProvider {
    system: System,
    turn: Mutex<()>,
}

/// The record of a group (update-alternatives(1), "FILES").
#[derive(Debug, Default, PartialEq, Eq)]
struct AlternativeGroup {
    is_auto: bool,
    link: EcoString,
    choices: Vec<(EcoString, i64)>,
}

impl AlternativeGroup {
    /// Parses a record: mode, link, names and links of slaves up to an empty line; then path, priority and the paths of
    /// the slaves for each choice, up to another empty line.
    fn parse(text: &str) -> Option<AlternativeGroup> {
        let mut lines = text.lines();
        let is_auto = match lines.next()? {
            "auto" => true,
            "manual" => false,
            _ => return None,
        };
        let mut group = AlternativeGroup { is_auto, link: lines.next()?.into(), choices: Vec::new() };
        let mut slaves = 0;
        while !lines.next()?.is_empty() {
            lines.next()?;
            slaves += 1;
        }
        while let Some(path) = lines.next().filter(|path| !path.is_empty()) {
            group.choices.push((path.into(), lines.next()?.trim().parse().ok()?));
            for _ in 0..slaves {
                lines.next()?;
            }
        }
        Some(group)
    }

    fn priority(&self, path: &str) -> Option<i64> {
        self.choices.iter().find(|(choice, _)| choice == path).map(|(_, priority)| *priority)
    }
}

impl AlternativesProvider {
    /// Creates a provider for the alternatives of a system.
    pub fn new(system: System) -> AlternativesProvider {
        AlternativesProvider { system, turn: Mutex::new(()) }
    }

    fn records(&self) -> String {
        let path = RECORDS.map(|path| self.system.path(path));
        path.iter().find(|path| Path::new(path).is_dir()).unwrap_or(&path[0]).clone()
    }

    fn group(&self, name: &str) -> Result<Option<AlternativeGroup>, EcoString> {
        let path = format!("{}{name}", self.records());
        match atomic_rewrite::read(&path).map_err(|error| eco_format!("{error}"))? {
            None => Ok(None),
            Some(bytes) => {
                let group = AlternativeGroup::parse(&String::from_utf8_lossy(&bytes));
                group.map(Some).ok_or_else(|| eco_format!("{path} is not a record of {PROGRAM}"))
            }
        }
    }

    /// Returns the chosen path.
    fn chosen(&self, name: &str) -> Option<EcoString> {
        let target = std::fs::read_link(self.system.path(&format!("{CHOSEN}{name}"))).ok()?;
        target.to_str().map(EcoString::from)
    }

    fn state(&self, name: &EcoString, should: Option<&Attributes>) -> Result<State, EcoString> {
        let Some(group) = self.group(name)? else { return Ok(State::absent(name.clone())) };
        let declared = should.and_then(|should| should.text("path"));
        let is_removed = should.is_some_and(is_absent);
        if is_removed && declared.is_some_and(|path| group.priority(path).is_none()) {
            return Ok(State::absent(name.clone()));
        }
        let chosen = self.chosen(name);
        let mut attributes = Attributes::from_iter([("ensure", "present".into()), ("name", name.clone())]);
        attributes.push("mode", if group.is_auto { "auto" } else { "manual" });
        attributes.push("link", group.link.clone());
        if let Some(path) = &chosen {
            attributes.push("path", path.clone());
        }
        if let Some(priority) = declared.or(chosen.as_deref()).and_then(|path| group.priority(path)) {
            attributes.push("priority", Value::Integer(priority));
        }
        attributes.push("choices", Value::strings(group.choices.iter().map(|(path, _)| path.clone())));
        let target = std::fs::read_link(self.system.path(&group.link));
        let is_linked = target.is_ok_and(|target| target == Path::new(CHOSEN).join(name.as_str()));
        attributes.push("linked", is_linked);
        Ok(State::present(name.clone(), attributes))
    }

    fn names(&self) -> Result<Vec<EcoString>, EcoString> {
        let path = self.records();
        let entries = match std::fs::read_dir(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|error| eco_format!("cannot read {path}: {error}"))?,
        };
        let name = |entry: std::fs::DirEntry| entry.file_name().to_str().map(EcoString::from);
        let mut names: Vec<EcoString> = entries.filter_map(|entry| name(entry.ok()?)).collect();
        names.retain(|name| is_name(name) && !name.ends_with(".dpkg-tmp"));
        names.sort_unstable();
        Ok(names)
    }

    fn run(&self, cx: &Context<'_>, words: &[&str]) -> Result<(), EcoString> {
        tool::run(self.system.runner(), cx, Invocation::new(PROGRAM).args(words), DEADLINE)
    }

    fn change(&self, cx: &Context<'_>, change: &Change<'_>) -> Result<(), EcoString> {
        let (name, none) = (change.name.as_str(), Attributes::new());
        let should = change.should.unwrap_or(&none);
        if let Some(problem) = problems(name, should).pop() {
            return Err(eco_format!("{problem}"));
        }
        let path = should.text("path");
        if change.should.is_none_or(is_absent) {
            return match path {
                Some(path) => self.run(cx, &["--remove", name, path]),
                None => self.run(cx, &["--remove-all", name]),
            };
        }
        let group = self.group(name)?;
        if let Some(addition) = addition(name, group.as_ref(), should)? {
            self.run(cx, &["--install", &addition.link, name, &addition.path, &addition.priority.to_string()])?;
        }
        match (should.text("mode"), path) {
            (Some("auto"), _) => self.run(cx, &["--auto", name]),
            (Some(_), Some(path)) => self.run(cx, &["--set", name, path]),
            (Some(_), None) => {
                let chosen =
                    self.chosen(name).ok_or_else(|| eco_format!("nothing is chosen for {name}: add a `path`"))?;
                self.run(cx, &["--set", name, &chosen])
            }
            (None, _) => Ok(()),
        }
    }
}

/// A path that a group does not have in the declared way.
struct Addition {
    link: EcoString,
    path: EcoString,
    priority: i64,
}

/// Returns the path to add to a group.
///
/// # Errors
/// If the declaration does not say how to add it.
fn addition(name: &str, group: Option<&AlternativeGroup>, should: &Attributes) -> Result<Option<Addition>, EcoString> {
    let Some(path) = should.text("path") else {
        return match group {
            Some(_) => Ok(None),
            None => Err(eco_format!(
                "there are no alternatives `{name}`: install a package that has them, or add `link`, `path` and \
                 `priority`"
            )),
        };
    };
    let there = group.and_then(|group| Some((group.link.clone(), group.priority(path)?)));
    let link = should.text("link").map(EcoString::from).or_else(|| group.map(|group| group.link.clone()));
    let priority = should.get("priority").and_then(Value::as_integer).or(there.as_ref().map(|(_, priority)| *priority));
    match (there, link, priority) {
        (Some(there), Some(link), Some(priority)) if there == (link.clone(), priority) => Ok(None),
        (_, Some(link), Some(priority)) => Ok(Some(Addition { link, path: path.into(), priority })),
        (Some(_), ..) => Ok(None),
        (None, ..) => {
            let choices = group.map(|group| group.choices.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>());
            let known =
                choices.map_or("the group does not exist".to_owned(), |known| format!("it has {}", known.join(", ")));
            Err(eco_format!(
                "`{path}` is not an alternative of `{name}`: {known} (install its package, or add `link` and \
                 `priority`)"
            ))
        }
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(['-', '.'])
        && !name.contains(|c: char| c == '/' || c.is_whitespace() || c.is_control())
}

fn problems(name: &str, should: &Attributes) -> Vec<ValidationError> {
    let mut found = Vec::new();
    if !is_name(name) {
        let problem = ValidationError::with("name", format!("`{name}` is not the name of a group of alternatives"));
        found.push(problem.hint("write a name as in `update-alternatives --get-selections`, such as editor"));
    }
    for attribute in ["path", "link"] {
        let is_bad = |path: &&str| !atomic_rewrite::is_normal(path) || path.contains(char::is_whitespace);
        if let Some(path) = should.text(attribute).filter(is_bad) {
            found.push(ValidationError::with(
                attribute,
                format!("`{path}` is not an absolute path without white space"),
            ));
        }
    }
    found
}

fn schema() -> TypeSchema {
    TypeSchema::new("alternatives", DESC)
        .attribute("ensure", "Enum[present, absent]", Behaviour::Property, "State: `present`, `absent`.")
        .default("present")
        .attribute("name", "String[1]", Behaviour::Namevar, "Name of the group: `editor`.")
        .attribute("path", "String[1]", Behaviour::Property, "Chosen path: `/usr/bin/vim.basic`.")
        .attribute(
            "mode",
            "Enum[auto, manual]",
            Behaviour::Property,
            "`manual` keeps the choice, `auto` chooses the path with the highest priority. The default is `manual` \
             with a `path`.",
        )
        .attribute(
            "link",
            "String[1]",
            Behaviour::Property,
            "Link that programs use: `/usr/bin/editor`. Required for a new group.",
        )
        .attribute(
            "priority",
            "Integer",
            Behaviour::Property,
            "Priority of the `path` in the mode `auto`: `50`. Required to add the path.",
        )
        .attribute(
            "choices",
            "Array[String]",
            Behaviour::ReadOnly,
            "Paths of the group: `[/bin/nano, /usr/bin/vim.basic]`.",
        )
        .attribute("linked", "Boolean", Behaviour::ReadOnly, "False if something else is in the place of the link.")
        .features(&[Feature::Canonicalize, Feature::CustomInsync, Feature::SimpleGetFilter, Feature::SupportsNoop])
}

impl Provider for AlternativesProvider {
    crate::builtin::describe!("alternatives", "dpkg", schema, [relations, predict, watch]);

    fn suitable(&self) -> Suitability {
        tool::installed(&[PROGRAM], None)
    }

    fn get(&self, _: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        let state = |name: &EcoString, should| {
            let unreadable = |why| State { unreadable: Some(why), ..State::absent(name.clone()) };
            self.state(name, should).unwrap_or_else(unreadable)
        };
        Ok(match query {
            Query::All => self.names().map_err(ProviderError::new)?.iter().map(|name| state(name, None)).collect(),
            Query::Named(wanted) => wanted.iter().map(|one| state(one.name, one.should)).collect(),
        })
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let made = |change: &Change<'_>| {
            let made = match (mode, change.should.filter(|should| !is_absent(should))) {
                (Mode::Apply, _) => self.change(cx, change),
                (Mode::Preview, Some(should)) if !cx.preview_context().may_change_before(change.name) => {
                    self.group(change.name).and_then(|group| addition(change.name, group.as_ref(), should)).map(drop)
                }
                (Mode::Preview, _) => Ok(()),
            };
            let outcome = made.map_or_else(Outcome::failed, |()| Outcome::done());
            redacted_outcome(change, outcome)
        };
        changes.iter().map(made).collect()
    }

    fn validate(&self, name: &str, should: &Attributes, _: &[&str]) -> Vec<ValidationError> {
        let seal = Redactor::of(should);
        problems(name, should).into_iter().map(|problem| seal.problem(problem)).collect()
    }

    fn canonicalize(&self, _: &Context<'_>, resources: &mut [Declaration<'_>]) -> Vec<Vec<ValidationError>> {
        for Declaration { should, .. } in resources.iter_mut() {
            if should.get("path").is_some() && should.get("mode").is_none() && !is_absent(should) {
                should.set("mode", "manual");
            }
        }
        vec![Vec::new(); resources.len()]
    }

    fn insync(&self, _: &Context<'_>, attribute: &str, is: &State, should: &Attributes) -> Insync {
        if !is.exists {
            return Insync::Default;
        }
        let is_auto = should.text("mode") == Some("auto");
        match attribute {
            "mode"
                if is.attributes.get_bool("linked") == Some(false)
                    && is.attributes.text("mode") == should.text("mode") =>
            {
                let link = is.attributes.text("link").unwrap_or_default();
                Insync::Differs(Some(eco_format!("{link} is not the link of the group")))
            }
            // In this mode, the path is a choice, which the priority may prefer.
            "path" if is_auto => {
                let choices = is.attributes.get("choices").map(Value::as_list).unwrap_or_default();
                match choices.iter().any(|choice| choice.as_str() == should.text("path")) {
                    true => Insync::Same,
                    false => Insync::Differs(None),
                }
            }
            _ => Insync::Default,
        }
    }
}

impl Relations for AlternativesProvider {
    fn auto_edges(&self, _: &str, should: &Attributes, add: &mut dyn FnMut(AutoEdge<'_>)) {
        let direction = match is_absent(should) {
            true => kilter_provider::Direction::After,
            false => kilter_provider::Direction::Before,
        };
        if let Some(path) = should.text("path") {
            add(AutoEdge { by: Match::PathOrAncestor, direction, ..AutoEdge::require("file", path) });
        }
    }
}

impl Predict for AlternativesProvider {
    fn side_effects(&self, _: &Attributes) -> SideEffects {
        SideEffects::Own
    }

    fn effects(&self, _: &Context<'_>, change: &Change<'_>) -> Option<Vec<Effect>> {
        let unknown = |path: EcoString| Effect::Path { path, node: PathState::Unknown };
        let link = change.should.and_then(|should| should.text("link")).map(EcoString::from);
        let link = link.or_else(|| change.is.attributes.text("link").map(EcoString::from));
        Some([eco_format!("{CHOSEN}{}", change.name)].into_iter().chain(link).map(unknown).collect())
    }

    fn footprint(&self, name: &str, should: &Attributes, say: &mut dyn FnMut(Footprint<'_>)) {
        say(Footprint::Writes { path: &format!("{CHOSEN}{name}"), is_whole: false });
        if let Some(path) = should.text("link") {
            say(Footprint::Writes { path, is_whole: false });
        }
    }
}

impl Watch for AlternativesProvider {
    fn watches(&self, name: &str, should: &Attributes) -> Vec<WatchSource> {
        let link = should.text("link").map(EcoString::from);
        let link = link.or_else(|| Some(self.group(name).ok()??.link));
        let paths = [format!("{}{name}", self.records()), self.system.path(&format!("{CHOSEN}{name}"))];
        let paths = paths.into_iter().chain(link.map(|link| self.system.path(&link)));
        paths.map(|path| WatchSource::Path { path: path.into(), scope: Scope::This }).collect()
    }
}

#[cfg(test)]
mod tests;
