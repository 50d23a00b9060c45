//! A place with a script that misbehaves, and what came of it.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ecow::EcoString;
use kilter_model::{Attributes, Change, Value};
use kilter_provider::{Context, Level, Log, Mode, Provider, Wanted, check_one};
use kilter_script::mold::Mold;
use kilter_script::{Limits, ScriptEnvironment, Scripts};

/// The conventions, in the order of the table.
pub(crate) const CONVENTIONS: [&str; 3] = ["simple", "json", "mold"];

#[derive(Default)]
struct ScriptLog(Mutex<Vec<String>>);

impl Log for ScriptLog {
    fn log(&self, level: Level, type_name: &str, name: &str, message: &str) {
        self.0.lock().unwrap().push(format!("{} {type_name}[{name}] {message}", level.word()));
    }
}

/// Call that the test makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TestedCall {
    Read,
    Update,
    Preview,
}

/// Result of the call.
#[derive(Debug)]
pub(crate) struct Came {
    /// Found state in a few words, or the error.
    pub(crate) result: Result<String, String>,
    /// The lines that were logged, at `warning` and above.
    pub(crate) warnings: Vec<String>,
}

/// A directory with one script in it.
pub(crate) struct ScenarioDir {
    directory: tempfile::TempDir,
    convention: &'static str,
    scenario: String,
}

impl ScenarioDir {
    /// A script that plays the scenario when it reads, or when it changes something.
    pub(crate) fn new(convention: &'static str, phase: TestedCall, scenario: &str) -> ScenarioDir {
        let place = ScenarioDir { directory: tempfile::tempdir().unwrap(), convention, scenario: scenario.to_owned() };
        std::fs::create_dir(place.path("resources")).unwrap();
        let (script, metadata) = (place.script(), place.metadata());
        let played = if phase == TestedCall::Read { "read" } else { "update" };
        let text = format!(
            "#!/bin/sh\nexport KILTER_TEST_PLACE='{}' KILTER_TEST_SCRIPT='{}' KILTER_TEST_METADATA='{}'\n\
             exec '{}' {convention} {played} {scenario} \"$@\"\n",
            place.path("").display(),
            script.display(),
            metadata.display(),
            env!("CARGO_BIN_EXE_misbehave"),
        );
        std::fs::write(&script, text).unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::write(metadata, if convention == "mold" { MOLD.to_owned() } else { provider(convention) }).unwrap();
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(name)
    }

    fn script(&self) -> PathBuf {
        if self.convention == "mold" {
            self.path("resources/tt")
        } else {
            self.path(&format!("{}.prov", self.scenario))
        }
    }

    fn metadata(&self) -> PathBuf {
        if self.convention == "mold" {
            self.path("resources/tt.yaml")
        } else {
            self.path(&format!("{}.yaml", self.scenario))
        }
    }

    pub(crate) fn provider(&self) -> Arc<dyn Provider> {
        let waits = ["hang", "trickle", "ignores-sigterm", "stops-itself"];
        let seconds = if waits.iter().any(|word| self.scenario.contains(word)) { 1 } else { 60 };
        let (read, change) = (Duration::from_secs(seconds), Duration::from_secs(seconds));
        let limits = Limits { read, change, ..Limits::default() };
        let surroundings = Arc::new(ScriptEnvironment { limits, ..ScriptEnvironment::new() });
        if self.convention == "mold" {
            let mold = Mold::open(&self.path(""), surroundings).unwrap();
            let found = mold.provider("tt").unwrap_or_else(|| panic!("{:?}", mold.notes()));
            return Arc::clone(found) as Arc<dyn Provider>;
        }
        let found = Scripts::find(&[self.path("")], None, &surroundings);
        let one = found.providers.into_iter().next();
        one.unwrap_or_else(|| panic!("{:?}", found.notes)) as Arc<dyn Provider>
    }

    /// Required start of an error.
    pub(crate) fn head(&self, phase: TestedCall) -> String {
        let (convention, provider) = (self.convention, if self.convention == "mold" { "mold" } else { &self.scenario });
        let action = match (convention, phase) {
            ("simple", TestedCall::Read) => "find",
            ("simple", _) => "update",
            ("json", TestedCall::Read) => "get",
            ("json", _) => "set",
            (_, TestedCall::Read) => "inspect",
            (_, _) => "conform",
        };
        format!("{action} of tt[a] by the provider `{provider}` ({convention}, {}): ", self.script().display())
    }
}

/// Has the script do it.
pub(crate) fn play(provider: &dyn Provider, phase: TestedCall) -> Came {
    let (log, name) = (ScriptLog::default(), EcoString::from("a"));
    let cx = Context::empty().with_log(&log);
    let result = match phase {
        TestedCall::Read => read(provider, &cx, &name),
        TestedCall::Update => change(provider, &cx, &name, Mode::Apply),
        TestedCall::Preview => change(provider, &cx, &name, Mode::Preview),
    };
    let mut warnings = log.0.into_inner().unwrap();
    warnings.retain(|line| line.starts_with("warning") || line.starts_with("err"));
    Came { result, warnings }
}

/// Returns the found state: `v=1`, `absent`.
fn read(provider: &dyn Provider, cx: &Context<'_>, name: &EcoString) -> Result<String, String> {
    let found = check_one(provider, cx, Wanted::new(name, None)).map_err(|error| error.message.to_string())?;
    assert_eq!(found.state.name, *name);
    let told = found.state.attributes.iter().filter(|(name, _)| !matches!(name.as_str(), "exists" | "name"));
    let told: Vec<String> = told.map(|(name, value)| format!("{name}={:.40}", value.to_string())).collect();
    Ok(if found.state.exists { told.join(" ") } else { "absent".to_owned() })
}

/// Returns the reported changes, and `again` if the next check finds the resource out of sync.
fn change(provider: &dyn Provider, cx: &Context<'_>, name: &EcoString, mode: Mode) -> Result<String, String> {
    let should: Attributes = [("v".to_owned(), Value::from("2"))].into_iter().collect();
    let found = check_one(provider, cx, Wanted::new(name, Some(&should))).unwrap();
    let differences = &found.differences;
    assert_eq!(differences.len(), 1);
    let change = Change::new(name, &found.state, Some(&should), differences);
    let outcome = provider.set(cx, &[change], mode).remove(0);
    if let Some(why) = outcome.failure {
        return Err(why.into());
    }
    let mut told: Vec<String> =
        outcome.changed.iter().map(|one| format!("{}={:.40}", one.attribute, one.should.to_string())).collect();
    told.truncate(3);
    let again = check_one(provider, cx, Wanted::new(name, Some(&should)));
    match again {
        Ok(again) if again.differences.is_empty() => {}
        Ok(_) => told.push("again".to_owned()),
        Err(error) => return Err(error.message.to_string()),
    }
    Ok(told.join(" "))
}

fn provider(convention: &str) -> String {
    format!(
        "provider:\n  type: tt\n  invoke: {convention}\n  suitable: true\n  noop_safe: true\n  attributes:\n    \
         name:\n    \
         ensure: {{type: \"enum[present, absent]\"}}\n    v: {{type: string}}\n    n: {{type: Integer}}\n    \
         f: {{type: Float}}\n    b: {{type: boolean}}\n    mode: {{type: \"enum[a, b]\"}}\n    r: {{type: string, \
         kind: r}}\n    \
         list: {{type: \"Array[Array[String]]\"}}\n"
    )
}

const MOLD: &str = "attributes:\n  v: {type: String, desc: A text.}\n  n: {type: Integer, desc: A number.}\n  \
    f: {type: Float, desc: A fraction.}\n  b: {type: Boolean, desc: A truth.}\n  mode: {type: \"Enum[a, b]\", desc: A \
    word.}\n  \
    r: {type: String, behaviour: read_only, desc: Not to be set.}\n  list: {type: \"Array[Array[String]]\", desc: \
    Lists.}\n";
