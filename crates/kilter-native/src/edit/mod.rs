//! Edits of parts of files that others own too: the common provider of `line`, `block`, `ini` and
//! `structured`.
//!
//! A check makes the declared edit in memory ([`edits`]): a resource without an edit is in sync. So a check, a plan and
//! a change cannot disagree. A change reads a file once for all resources of a batch, makes all edits, and replaces the
//! file atomically ([`AtomicRewrite`]). If another program changed the file meanwhile, the edits are made again on the
//! new content.

mod edits;
mod pattern;
mod schema;
mod text;
mod undo;

use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Change, Outcome, State, TypeSchema, Unknown, Value};
use kilter_provider::{
    AllDeclared, AutoEdge, Capabilities, Claim, Content, Context, Declared, Direction, Effect, Explain, Footprint,
    Forecast, Insync, Match, Mode, Opposites, PathState, Predict, Provider, ProviderError, Query, Redactor, Relations,
    Scheduling, Scope, SideEffects, ValidationError, Wanted, Watch, WatchSource,
};
use rustc_hash::FxHashMap;

use crate::builtin::is_absent;
use crate::file;
use crate::file::atomic_rewrite::{self, AtomicRewrite, Precautions, RewriteError};
pub(crate) use edits::{Edits, Position};
pub(crate) use pattern::{LinePattern, pattern, pattern_problem};
pub(crate) use schema::{about_files, common};
pub(crate) use text::{Probe, TextFile};

/// Mode of a new file, and of a new file with a secret.
const NEW_FILE: u32 = 0o644;
const NEW_SECRET_FILE: u32 = 0o600;
/// The types of this module. Their changes of a file do not affect each other's predictions.
const TYPES: [&str; 4] = ["line", "block", "ini", "structured"];

/// Serialises the changes of all types of this module, because they may change the same file.
pub(crate) type Turn = Arc<Mutex<()>>;

/// Part of a file before the edit.
pub struct FoundPart {
    /// True if the resource exists.
    pub(crate) exists: bool,
    /// Value of the main property; none if there is nothing to compare.
    pub(crate) value: Option<Value>,
}

impl FoundPart {
    pub(crate) const ABSENT: FoundPart = FoundPart { exists: false, value: None };

    /// Returns an existing part with a text of the file.
    pub(crate) fn text(bytes: &[u8]) -> FoundPart {
        FoundPart { exists: true, value: Some(String::from_utf8_lossy(bytes).into_owned().into()) }
    }
}

/// A type whose resources are parts of files.
pub trait PartType: Send + Sync + 'static {
    /// Name of the type.
    const NAME: &'static str;
    /// Property with the text of the part.
    const PROPERTY: &'static str;
    /// The part in messages, with an article: `a line`.
    const NOUN: &'static str;
    /// Parameter that keeps the undeclared parts of a value.
    const MERGE: Option<&'static str> = None;

    fn schema() -> &'static TypeSchema;

    /// Returns the searches of an edit.
    fn probes(name: &str, should: &Attributes) -> Vec<Probe>;

    /// Makes the declared edit, if the part is not as declared. Returns the part as it was before.
    ///
    /// # Errors
    /// If the edit is impossible. Nothing is edited then.
    fn edit(name: &str, should: &Attributes, edits: &mut Edits<'_>) -> Result<FoundPart, EcoString>;

    /// Returns the problems of the attributes that only this type has.
    fn validate(name: &str, should: &Attributes, deferred: &[&str]) -> Vec<ValidationError>;

    /// Compares the property of an existing part.
    fn insync(is: Option<&Value>, should: &Attributes) -> Insync;

    /// Lists the parts of the file that a resource sets.
    fn claims(name: &str, should: &Attributes, say: &mut dyn FnMut(Claim<'_>));

    /// Returns the pairs of resources that would undo each other in every run.
    fn opposites(all: AllDeclared<'_>) -> Vec<Opposites> {
        let _ = all;
        Vec::new()
    }

    /// Returns true if a file has no content besides the form that its format needs.
    fn is_empty(bytes: &[u8]) -> bool {
        bytes.trim_ascii().is_empty()
    }
}

/// Provider of a type whose resources are parts of files.
pub struct PartProvider<T> {
    turn: Turn,
    part: PhantomData<T>,
}

impl<T: PartType> Default for PartProvider<T> {
    fn default() -> PartProvider<T> {
        PartProvider::sharing(Turn::default())
    }
}

impl<T: PartType> PartProvider<T> {
    /// Creates a provider that takes turns with others.
    pub(crate) fn sharing(turn: Turn) -> PartProvider<T> {
        PartProvider { turn, part: PhantomData }
    }
}

/// Returns the problem of a text that is not one line.
pub(crate) fn line_problem(attribute: &str, text: &str) -> Option<ValidationError> {
    text.contains(['\n', '\r', '\0']).then(|| ValidationError::with(attribute, "the text must be a single line"))
}

pub(crate) fn path_of(should: &Attributes) -> &str {
    should.text("path").unwrap_or_default()
}

fn may_create(should: &Attributes) -> bool {
    should.get_bool("create") == Some(true)
}

fn not_created(path: &str) -> EcoString {
    eco_format!("{path} does not exist, and `create` is false")
}

fn has_secret(should: &Attributes) -> bool {
    should.iter().any(|(_, value)| value.holds_sensitive())
}

/// Content of a file for a check.
enum EditBase<'b> {
    Bytes(&'b [u8]),
    Missing,
    Unknown(Unknown),
}

fn unknown(because: kilter_model::Because) -> EditBase<'static> {
    EditBase::Unknown(Unknown { attribute: "ensure".into(), because: because.into() })
}

/// Returns the content that a resource will find: in a plan, an earlier resource may change the file.
fn base<'b>(
    cx: &'b Context<'_>,
    wanted: &Wanted<'_>,
    path: &str,
    found: Option<&'b [u8]>,
    out: &'b mut Value,
) -> EditBase<'b> {
    let now = || found.map_or(EditBase::Missing, EditBase::Bytes);
    if !cx.is_noop() {
        return now();
    }
    let is_part = |because: &kilter_model::Because| TYPES.contains(&because.resource.type_name.as_str());
    match cx.preview_context().node(wanted.name, path) {
        Forecast::Changed(PathState::File { content: Content::Bytes(bytes), .. }, _) => {
            *out = bytes;
            return EditBase::Bytes(out.as_bytes().unwrap_or_default());
        }
        Forecast::Changed(PathState::Kept | PathState::File { content: Content::Kept, .. }, _)
        | Forecast::Unchanged => {}
        Forecast::Changed(PathState::Absent, _) => return EditBase::Missing,
        Forecast::Changed(_, because) | Forecast::Unknown(because) if !is_part(&because) => return unknown(because),
        Forecast::Changed(_, because) | Forecast::Unknown(because) if found.is_none() => {
            // Another part of the same file comes first. The file itself may be declared.
            let is_made = |file: &&Attributes| file.text("ensure") != Some("absent");
            return match cx.preview_context().declared("file", path).filter(is_made) {
                Some(file) => {
                    *out = file.get("content").cloned().unwrap_or_else(|| "".into());
                    EditBase::Bytes(out.as_bytes().unwrap_or_default())
                }
                None if wanted.should.is_some_and(may_create) => EditBase::Bytes(b""),
                None => unknown(because),
            };
        }
        Forecast::Changed(..) | Forecast::Unknown(_) => {}
    }
    match (found, cx.preview_context().bringer(wanted.name)) {
        (None, Some(because)) => unknown(because),
        _ => now(),
    }
}

impl<T: PartType> PartProvider<T> {
    /// Checks resources of one file.
    fn check(&self, cx: &Context<'_>, path: &str, wanted: &[&Wanted<'_>]) -> Vec<State> {
        let read = match AtomicRewrite::open(path) {
            Ok(file) => Ok(Some(file).filter(AtomicRewrite::exists)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(eco_format!("{error}")),
        };
        let unreadable = |wanted: &&Wanted<'_>, why: &EcoString| {
            let why = wanted.should.map_or(why.clone(), |should| Redactor::of(should).redact(why.clone()));
            State { unreadable: Some(why), ..State::absent(wanted.name.clone()) }
        };
        let file = match &read {
            Ok(file) => file.as_ref(),
            Err(why) => return wanted.iter().map(|wanted| unreadable(wanted, why)).collect(),
        };
        let nothing = Attributes::new();
        let probes = || wanted.iter().flat_map(|one| T::probes(one.name, one.should.unwrap_or(&nothing)));
        let text = file.map(|file| {
            TextFile::parse(path, file.bytes()).map(|mut text| {
                text.index(probes());
                text
            })
        });
        let check = |one: &&Wanted<'_>| -> Result<State, EcoString> {
            let Some(should) = one.should else { return Err(undeclared::<T>()) };
            let mut predicted = Value::Undef;
            let found = file.map(AtomicRewrite::bytes);
            match base(cx, one, path, found, &mut predicted) {
                EditBase::Unknown(unknown) => Ok(State { unknown: vec![unknown], ..State::absent(one.name.clone()) }),
                EditBase::Missing if !is_absent(should) && !may_create(should) => Err(not_created(path)),
                EditBase::Missing => self.state(one.name, path, should, &TextFile::parse(path, b"")?),
                EditBase::Bytes(bytes) => match &text {
                    // The file is parsed once for all.
                    Some(text) if found.is_some_and(|found| std::ptr::eq(found, bytes)) => {
                        self.state(one.name, path, should, text.as_ref().map_err(Clone::clone)?)
                    }
                    _ => self.state(one.name, path, should, &TextFile::parse(path, bytes)?),
                },
            }
        };
        wanted.iter().map(|one| check(one).unwrap_or_else(|why| unreadable(one, &why))).collect()
    }

    /// Compares a part of a file with its declaration.
    fn state(
        &self,
        name: &EcoString,
        path: &str,
        should: &Attributes,
        text: &TextFile<'_>,
    ) -> Result<State, EcoString> {
        let mut edits = Edits::new(text);
        let found = T::edit(name, should, &mut edits).map_err(|why| eco_format!("{path}: {why}"))?;
        let mut attributes = Attributes::with_capacity(4);
        if found.exists {
            attributes.push("ensure", "present");
            attributes.push("name", name.clone());
        }
        if let Some(value) = found.value {
            attributes.push(T::PROPERTY, value);
        }
        if should.get_bool("show_diff") != Some(false)
            && !has_secret(should)
            && let Some(diff) = edits.diff(path)
        {
            attributes.push("change", diff);
        }
        Ok(State { name: name.clone(), exists: found.exists, attributes, ..State::default() })
    }

    /// Makes the changes of a file together. Returns an outcome for each.
    ///
    /// # Errors
    /// If the file as a whole cannot be changed.
    fn change(&self, cx: &Context<'_>, path: &str, changes: &[&Change<'_>]) -> Result<Vec<Outcome>, EcoString> {
        atomic_rewrite::rewritten(|| self.attempt(cx, path, changes))
    }

    fn attempt(&self, cx: &Context<'_>, path: &str, changes: &[&Change<'_>]) -> Result<Vec<Outcome>, RewriteError> {
        let file = AtomicRewrite::open(path)?;
        let mut text = TextFile::parse(path, file.bytes())?;
        let declared = || changes.iter().filter_map(|change| Some((change.name, change.should?)));
        text.index(declared().flat_map(|(name, should)| T::probes(name, should)));
        let mut edits = Edits::new(&text);
        let mut made: Vec<&Attributes> = Vec::new();
        let mut outcomes: Vec<Outcome> = Vec::with_capacity(changes.len());
        for change in changes {
            let result = match change.should {
                None => Err(undeclared::<T>()),
                Some(should) if !file.exists() && !may_create(should) && !is_absent(should) => Err(not_created(path)),
                Some(should) => T::edit(change.name, should, &mut edits)
                    .map(|_| made.push(should))
                    .map_err(|why| eco_format!("{path}: {why}")),
            };
            outcomes.push(result.map_or_else(Outcome::failed, |()| Outcome::done()));
        }
        let bytes = edits.bytes();
        if edits.is_empty() || bytes == file.bytes() && file.exists() {
            return Ok(outcomes);
        }
        let is_secret = made.iter().any(|should| has_secret(should));
        let precautions =
            Precautions { commands: &distinct(&made, "validate_cmd"), backups: &distinct(&made, "backup"), is_secret };
        let mode = if is_secret { NEW_SECRET_FILE } else { NEW_FILE };
        // With `create`, the file exists as long as it has a content.
        let is_over = made.iter().all(|should| is_absent(should)) && made.iter().any(|should| may_create(should));
        if is_over && file.exists() && T::is_empty(&bytes) {
            file.remove(cx)?;
            return Ok(outcomes);
        }
        let lost = file.replace_checked(&bytes, mode, &precautions, cx)?;
        if let Some(first) = outcomes.first_mut().filter(|_| !lost.is_empty()) {
            first.notes.push(eco_format!("{path}: could not keep {}", lost.join(", ")));
        }
        Ok(outcomes)
    }
}

/// Returns the different values of an attribute, except `false`.
fn distinct<'a>(declared: &[&'a Attributes], attribute: &str) -> Vec<&'a Value> {
    let mut values: Vec<&Value> = Vec::new();
    for value in declared.iter().filter_map(|should| should.get(attribute)) {
        if !value.is_undef() && value.as_bool() != Some(false) && !values.contains(&value) {
            values.push(value);
        }
    }
    values
}

fn undeclared<T: PartType>() -> EcoString {
    eco_format!(
        "{} is found only by its declaration: declare it in a manifest with its `path`, and use `kilter plan`",
        T::NOUN
    )
}

impl<T: PartType> Provider for PartProvider<T> {
    #[cold]
    fn schema(&self) -> &TypeSchema {
        T::schema()
    }

    #[cold]
    fn type_name(&self) -> &str {
        T::NAME
    }

    #[cold]
    fn name(&self) -> &'static str {
        "files"
    }

    #[cold]
    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities {
            relations: Some(self),
            predict: Some(self),
            explain: Some(self),
            watch: Some(self),
            revert: Some(self),
            scheduling: Some(self),
            ..Capabilities::default()
        }
    }

    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        let Query::Named(wanted) = query else { return Err(ProviderError::new(undeclared::<T>())) };
        let mut by_path: FxHashMap<&str, Vec<&Wanted<'_>>> = FxHashMap::default();
        let mut states = Vec::with_capacity(wanted.len());
        for one in wanted {
            match one.should {
                Some(should) => by_path.entry(path_of(should)).or_default().push(one),
                None => {
                    let why = Some(undeclared::<T>());
                    states.push(State { unreadable: why, ..State::absent(one.name.clone()) });
                }
            }
        }
        for (path, wanted) in by_path {
            states.extend(self.check(cx, path, &wanted));
        }
        Ok(states)
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        if mode == Mode::Preview {
            return changes.iter().map(|_| Outcome::done()).collect();
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let path = |should: Option<_>| should.map(path_of).unwrap_or_default();
        atomic_rewrite::change_files(cx, changes, path, |path, changes| self.change(cx, path, changes))
    }

    fn validate(&self, name: &str, should: &Attributes, deferred: &[&str]) -> Vec<ValidationError> {
        let mut problems = file::edit_problems(should);
        problems.extend(T::validate(name, should, deferred));
        if should.get_bool("backup") == Some(true) && has_secret(should) {
            let message = "a file with a secret is not backed up, because the backup is not encrypted";
            problems.push(ValidationError::with("backup", message).hint("a suffix such as \".orig\", or false"));
        }
        let seal = Redactor::of(should);
        problems.into_iter().map(|problem| seal.problem(problem)).collect()
    }

    fn insync(&self, _: &Context<'_>, attribute: &str, is: &State, should: &Attributes) -> Insync {
        match attribute {
            _ if attribute == T::PROPERTY => T::insync(is.attributes.get(T::PROPERTY), should),
            _ => Insync::Default,
        }
    }
}

impl<T: PartType> Scheduling for PartProvider<T> {
    fn reads_ahead(&self) -> bool {
        false
    }
}

impl<T: PartType> Relations for PartProvider<T> {
    fn claims(&self, name: &str, should: &Attributes, say: &mut dyn FnMut(Claim<'_>)) {
        let path = path_of(should);
        // Without a path, the resource receives it from another one.
        if !path.is_empty() {
            T::claims(name, should, &mut |claim| say(Claim { target: &format!("{path} {}", claim.target), ..claim }));
        }
    }

    fn auto_edges(&self, _: &str, should: &Attributes, add: &mut dyn FnMut(AutoEdge<'_>)) {
        let name = path_of(should);
        add(AutoEdge { type_name: "file", name, by: Match::PathOrAncestor, direction: Direction::Before });
    }

    fn opposites(&self, all: AllDeclared<'_>) -> Vec<Opposites> {
        T::opposites(all)
    }

    fn conflicts(&self, _: &str, should: &Attributes, declared: Declared<'_>) -> Vec<ValidationError> {
        let path = path_of(should);
        let Some(file) = declared("file", path) else {
            return Vec::new();
        };
        let given = |attribute: &&&str| file.get(attribute).is_some_and(|value| !value.is_undef());
        let whole = ["content", "source", "fragments", "parts"];
        let other = match file.text("ensure") {
            Some("absent") if !is_absent(should) => "is declared as absent".to_owned(),
            Some(kind @ ("directory" | "link")) => format!("is declared as a {kind}"),
            _ if file.get_bool("replace") == Some(false) => return Vec::new(),
            _ => match whole.iter().find(given) {
                Some(attribute) => format!("declares its whole content (`{attribute}`)"),
                None => return Vec::new(),
            },
        };
        let problem = ValidationError::new(eco_format!("file[{path}] {other}, and {} in it would undo that", T::NOUN));
        vec![problem.hint("remove one of the two, or declare the file without a content")]
    }
}

impl<T: PartType> Predict for PartProvider<T> {
    fn effects(&self, _: &Context<'_>, change: &Change<'_>) -> Option<Vec<Effect>> {
        let node = PathState::File { content: Content::Unknown, mode: None };
        Some(vec![Effect::Path { path: change.should.map(path_of).unwrap_or_default().into(), node }])
    }

    fn footprint(&self, _: &str, should: &Attributes, say: &mut dyn FnMut(Footprint<'_>)) {
        let path = path_of(should);
        say(Footprint::Writes { path, is_whole: false });
        if let Some(suffix) = should.text("backup") {
            say(Footprint::Creates { path: &format!("{path}{suffix}") });
        }
    }

    fn side_effects(&self, _: &Attributes) -> SideEffects {
        SideEffects::Own
    }
}

impl<T: PartType> Explain for PartProvider<T> {
    /// Returns the change of the file, once for each resource.
    fn diff(&self, attribute: &str, is: &State, should: &Attributes) -> Option<EcoString> {
        let shown = if is_absent(should) { "ensure" } else { T::PROPERTY };
        let change = is.attributes.text("change").filter(|_| attribute == shown)?;
        Some(change.into())
    }
}

impl<T: PartType> Watch for PartProvider<T> {
    /// Returns the watch for the file.
    fn watches(&self, _: &str, should: &Attributes) -> Vec<WatchSource> {
        vec![WatchSource::Path { path: path_of(should).into(), scope: Scope::This }]
    }
}

#[cfg(test)]
pub(crate) mod tests;
