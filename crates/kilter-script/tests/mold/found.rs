//! Scripts of mold's convention that are files `*.prov`, and what lists its resources.

use ecow::EcoString;
use kilter_model::{Attributes, Behaviour, Change, Feature, Outcome, State};
use kilter_provider::{Context, Level, Mode, Preference, Provider, Query, Suitability, Wanted, actions, get_checked};
use kilter_script::{Script, Scripts};

use crate::harness::{MoldDir, MoldTestLog, attributes};

/// Keeps `size` of things below `kept`, beside itself.
const KEEPER: &str = r#"#!/usr/bin/python3 -IS
import json, os, sys
os.chdir(os.path.dirname(os.path.realpath(sys.argv[0])))
asked = json.load(sys.stdin)
def observed(path):
    if not os.path.exists("kept/" + path):
        return {"kind": "thing", "path": path, "exists": False}
    return {"kind": "thing", "path": path, "size": int(open("kept/" + path).read())}
match sys.argv[1]:
    case "list":
        assert asked == {"kind": "thing"}, asked
        print(json.dumps([observed(path) for path in sorted(os.listdir("kept"))]))
    case "inspect":
        print(json.dumps(observed(asked["path"])))
    case "conform":
        assert not asked.get("ral_noop"), asked
        os.makedirs("kept", exist_ok=True)
        open("kept/" + asked["path"], "w").write(str(asked["size"]))
    case "shake":
        print("shaken")
    case other:
        sys.exit(f"there is no action {other}")
"#;

const METADATA: &str = "provider:
  type: thing
  desc: Things.
  invoke: mold
  actions: [list, shake]
  key: path
  refresh: shake
  suitable: {commands: [sh]}
  default: true
  attributes:
    size: {type: \"Integer[0, 9]\", desc: How large it is.}
";

fn found(place: &MoldDir) -> (Vec<std::sync::Arc<dyn Script>>, Vec<String>) {
    let scripts = Scripts::find(&[place.path().to_owned()], None, &place.surroundings().into());
    let notes = scripts.notes.iter().map(|note| place.plain(note)).collect();
    (scripts.providers, notes)
}

fn one(place: &MoldDir) -> std::sync::Arc<dyn Script> {
    let (mut providers, notes) = found(place);
    assert_eq!((providers.len(), notes), (1, Vec::new()));
    providers.remove(0)
}

fn keeper(metadata: &str) -> MoldDir {
    let place = MoldDir::new();
    place.script("keeper.prov", KEEPER);
    place.file("keeper.yaml", metadata);
    place
}

fn all(provider: &dyn Provider) -> Result<Vec<State>, String> {
    provider.get(&Context::empty(), Query::All).map_err(|error| error.to_string())
}

fn set(provider: &dyn Provider, name: &str, should: &Attributes, mode: Mode) -> Outcome {
    let (name, is) = (EcoString::from(name), State::absent(name));
    let change = Change::new(&name, &is, Some(should), &[]);
    provider.set(&Context::empty(), &[change], mode).remove(0)
}

#[test]
fn mold_script_with_metadata_is_a_provider() {
    let place = keeper(METADATA);
    let provider = one(&place);
    let schema = provider.schema();
    assert_eq!(
        (schema.name.as_str(), provider.name(), provider.preference()),
        ("thing", "keeper", Preference::Default)
    );
    assert!(provider.suitable().is_suitable() && provider.is_external() && schema.has(Feature::Refresh));
    let names: Vec<&str> = schema.attributes.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["path", "exists", "size"]);
    assert_eq!(schema.attributes[0].behaviour, Behaviour::Namevar);

    assert!(set(&*provider, "a", &attributes(&[("size", 3.into())]), Mode::Apply).is_done());
    let name = EcoString::from("a");
    let wanted = [Wanted::new(&name, None)];
    let read = get_checked(&*provider, &Context::empty(), Query::Named(&wanted)).unwrap();
    assert_eq!(read[0].attributes.get("size"), Some(&3.into()));
    let refreshed = provider.capabilities().refresh.unwrap().refresh(&Context::empty(), wanted[0]);
    assert_eq!((refreshed.failure, refreshed.notes.as_slice()), (None, &["shaken".into()][..]));
    assert!(actions(&*provider, "explode").is_err() && actions(&*provider, "list").is_err());

    let heard = place.heard.lines();
    assert!(heard.iter().any(|line| line.starts_with("providers/keeper#1 spawn ")), "{heard:?}");
    assert!(heard.iter().any(|line| line == "providers/keeper#3 stdout {\"line\":\"shaken\\n\"}"), "{heard:?}");
}

#[test]
fn list_returns_all_resources() {
    let place = keeper(METADATA);
    for name in ["a", "b", "zero"] {
        assert!(set(&*one(&place), name, &attributes(&[("size", 1.into())]), Mode::Apply).is_done());
    }
    let states = all(&*one(&place)).unwrap();
    assert_eq!(states.iter().map(|state| state.name.as_str()).collect::<Vec<_>>(), ["a", "b", "zero"]);
    assert!(states.iter().all(|state| state.exists && state.attributes.get("size") == Some(&1.into())));
}

#[test]
fn list_omits_absent_and_invalid_resources() {
    let list = |printed: &str| {
        let place = MoldDir::new();
        place.script("keeper.prov", format!("#!/bin/sh\necho '{printed}'\n"));
        place.file("keeper.yaml", METADATA);
        all(&*one(&place)).map_err(|error| place.plain(error))
    };
    let states = list(
        r#"[{"path": "a", "size": 1}, {"path": "b", "exists": false}, {"name": "c", "size": 20},
        {"path": "d", "error": "locked"}]"#,
    )
    .unwrap();
    let names: Vec<&str> = states.iter().map(|state| state.name.as_str()).collect();
    assert_eq!(names, ["a", "c", "d"]);
    assert!(states[1].unreadable.as_ref().is_some_and(|why| why.contains("[2]: it is not of its type: size")));
    assert!(states[2].unreadable.as_ref().is_some_and(|why| why.contains("it says: locked")));
    assert_eq!(list("[]").unwrap(), []);
    for (printed, expected) in [
        (r#"{"path": "a"}"#, "its document is not as it should be: it is an array of observation documents"),
        (r#"["a"]"#, "[0]: an object is expected, not `\"a\"`"),
        (r#"[{"size": 1}]"#, "[0]: its `path` is missing"),
        (r#"[{"path": "a"}, {"path": "a"}]"#, "`a` occurs twice"),
        ("", "list of thing by the provider `keeper` (mold, DIR/keeper.prov): it printed nothing"),
        ("[", "its output is not JSON"),
    ] {
        let told = list(printed).unwrap_err();
        assert!(told.contains(expected), "{printed}: {told}");
    }
}

#[test]
fn script_lists_if_metadata_has_the_action() {
    let place = MoldDir::new();
    place.script("resources/thing", KEEPER);
    std::fs::create_dir(place.path().join("resources/kept")).unwrap();
    place.file("resources/kept/a", "5");
    place.file("resources/thing.yaml", "key: path\nattributes: {size: {type: Integer, desc: How large.}}\n");
    let refused = all(&*place.provider("thing")).unwrap_err();
    assert_eq!(
        refused,
        "the provider `mold` of thing cannot list its resources: it has no action `list`; name the resources to inspect"
    );
    place.file("resources/thing.yaml", "key: path\nactions: [list]\nattributes: {size: {type: Integer, desc: x}}\n");
    assert_eq!(all(&*place.provider("thing")).unwrap()[0].attributes.get("size"), Some(&5.into()));
}

#[test]
fn list_is_confined_unless_metadata_permits_writes() {
    let writing = "#!/bin/sh\necho x >\"${0%/*}/written\" 2>/dev/null\necho '[]'\n";
    for (confine, is_written) in [("", false), ("  confine: false\n", true)] {
        let place = MoldDir::new();
        place.script("keeper.prov", writing);
        place.file("keeper.yaml", format!("{METADATA}{confine}"));
        all(&*one(&place)).unwrap();
        assert_eq!(place.path().join("written").exists(), is_written, "{confine}");
    }
}

#[test]
fn conditions_and_noop_support_equal_other_conventions() {
    let place = keeper(&METADATA.replace("[sh]", "[no-such-command]").replace("default: true", "default: false"));
    let provider = one(&place);
    assert!(matches!(provider.suitable(), Suitability::Unsuitable(why) if why.contains("no-such-command")));
    assert_eq!(provider.preference(), Preference::NamedOnly);

    let place = keeper(&METADATA.replace("[list, shake]", "[inspect, list, shake]"));
    for mode in [Mode::Apply, Mode::Preview] {
        let outcome = set(&*one(&place), "a", &attributes(&[("size", 1.into())]), mode);
        let expected = "the provider `keeper` of thing can only read: it has no action `conform`";
        assert_eq!(outcome.failure.as_deref(), Some(expected));
    }
    assert!(one(&place).schema().has(Feature::SupportsNoop), "or else nobody would ask for a preview");
    assert!(place.heard.lines().is_empty(), "nothing is run");
}

#[test]
fn preview_needs_noop_support() {
    let should = attributes(&[("size", 1.into())]);
    let place = keeper(METADATA);
    assert!(set(&*one(&place), "a", &should, Mode::Preview).is_done());
    assert!(place.heard.lines().is_empty(), "nothing is run");

    let telling = "#!/bin/sh\ntouch \"${0%/*}/touched\" 2>/dev/null\n\
                   grep -q '\"ral_noop\":true' && echo '{\"changed\": {\"size\": {\"was\": 0, \"is\": 1}}}'\n";
    let place = MoldDir::new();
    place.script("keeper.prov", telling);
    place.file("keeper.yaml", format!("{METADATA}  noop_safe: true\n"));
    let outcome = set(&*one(&place), "a", &should, Mode::Preview);
    assert_eq!((outcome.failure, outcome.changed.len()), (None, 1));
    assert!(!place.path().join("touched").exists(), "it cannot change anything, whatever it promised");
}

#[test]
fn mold_script_without_metadata_has_hint() {
    let place = MoldDir::new();
    place.script("keeper.prov", KEEPER);
    let (providers, notes) = found(&place);
    assert!(providers.is_empty());
    assert!(
        notes[0].ends_with("; a script with mold's convention needs keeper.yaml in the same directory"),
        "{notes:?}"
    );

    let place = MoldDir::new();
    place.script("keeper.prov", format!("#!/bin/sh\ncat <<'END'\n{METADATA}END\n"));
    assert_eq!(
        found(&place).1,
        ["DIR/keeper.prov: not used: its metadata is wrong: 4:11: the convention mold has no word for a script to \
             describe \
          itself (write it to keeper.yaml in the directory of the script)"]
    );
}

#[test]
fn unknown_attributes_are_reported_once() {
    let place = MoldDir::new();
    place.script("keeper.prov", "#!/bin/sh\necho '[{\"path\": \"a\", \"hue\": 1}, {\"path\": \"b\", \"hue\": 2}]'\n");
    place.file("keeper.yaml", METADATA);
    let lines = MoldTestLog::default();
    one(&place).get(&Context::empty().with_log(&lines), Query::All).unwrap();
    let level = Level::Debug.word();
    let expected = format!("{level} thing[] attributes that the type does not have are passed over: hue");
    assert_eq!(*lines.0.lock().unwrap(), [expected]);
}
