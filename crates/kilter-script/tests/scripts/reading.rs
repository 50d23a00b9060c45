//! Resources that scripts are asked for.

use kilter_model::Value;
use kilter_process::Environment;
use kilter_provider::{Context, Level, Log, Query, Strictness, Suitability, Wanted, check_one, get_checked};

use kilter_script::Scripts;

use crate::harness::*;

const TYPED: &str = "type: tt\ninvoke: simple\nsuitable: true\nattributes:\n  name:\n  ensure: {type: \"enum[present, \
                     absent]\"}\n  v: \
                     {type: string}\n  flag: {type: boolean}\n  arr: {type: \"array[string]\"}\n  n: {type: \
                     \"Integer[0, 10]\"}";

/// Lists a and b, finds what it is asked for unless it begins with `no`.
const BODY: &str = r#"
echo '# simple'
case "$ral_action" in
list) printf 'name: %s\nensure: present\nv: 1\nflag: true\narr: [x, y]\nn: 7\n' a b;;
find) case "$name" in
      no*) echo "name: $name"; echo "ral_unknown: true";;
      gone*) echo "name: $name"; echo "ensure: absent";;
      nil*) ;;
      bad*) echo "ral_error: cannot look at $name"; echo "ral_eom";;
      odd*) echo "name: $name"; echo "n: 11";;
      *) echo "name: $name"; echo "ensure: present"; echo "v: found";;
      esac;;
esac
"#;

#[test]
fn values_of_a_list_have_the_types_of_the_metadata() {
    let place = ScriptDir::new();
    let provider = place.bash("t", TYPED, BODY);
    let states = all(&*provider, &ScriptTestLog::default()).unwrap();
    assert_eq!(
        short(&states),
        "a(ensure=present v=1 flag=true arr=[x, y] n=7) b(ensure=present v=1 flag=true arr=[x, y] n=7)"
    );
    assert_eq!(states[0].attributes.get("flag"), Some(&Value::Boolean(true)));
    assert_eq!(states[0].attributes.get("arr"), Some(&Value::strings(["x", "y"])));
    assert_eq!(states[0].attributes.get("n"), Some(&Value::Integer(7)));
    assert_eq!(place.calls(), ["ral_action=list"]);
}

#[test]
fn a_resource_is_found_by_its_name() {
    let place = ScriptDir::new();
    let provider = place.bash("t", TYPED, BODY);
    assert_eq!(short(&named(&*provider, &["z"]).unwrap()), "z(ensure=present v=found)");
    assert_eq!(place.calls(), ["name='z' ral_action=find"]);
}

#[test]
fn few_resources_use_find_and_many_use_list() {
    let place = ScriptDir::new();
    let provider = place.bash("t", TYPED, BODY);
    assert_eq!(named(&*provider, &["a", "b"]).unwrap().len(), 2);
    assert_eq!(place.calls().len(), 2);
    let many = named(&*provider, &["a", "b", "x", "y", "nilly"]).unwrap();
    assert_eq!(many.iter().map(|state| state.exists).collect::<Vec<_>>(), [true, true, true, true, false]);
    let mut calls = place.calls();
    assert_eq!(calls.remove(0), "ral_action=list");
    calls.sort();
    assert_eq!(calls, ["name='nilly' ral_action=find", "name='x' ral_action=find", "name='y' ral_action=find"]);
}

#[test]
fn absent_unknown_or_missing_resource_is_absent() {
    let place = ScriptDir::new();
    let provider = place.bash("t", TYPED, BODY);
    let states = named(&*provider, &["gone", "nosuch", "nil"]).unwrap();
    assert_eq!(short(&states), "gone-(ensure=absent) nosuch-() nil-()");
    assert!(states.iter().all(|state| state.unreadable.is_none()));
}

#[test]
fn resource_that_cannot_be_created_fails() {
    let place = ScriptDir::new();
    let provider = place.bash("t", TYPED, BODY);
    let why = apply(&*provider, "nosuch", &[("ensure", "present".into())]).unwrap_err();
    assert_eq!(
        place.plain(why),
        "find of tt[nosuch] by the provider `t` (simple, DIR/t.prov): `nosuch` does not exist and cannot be created"
    );
    assert!(apply(&*provider, "nosuch", &[("ensure", "absent".into())]).unwrap().1.is_none());
    assert!(place.calls().iter().all(|call| call.ends_with("find")), "no update was tried");
}

#[test]
fn unreadable_resource_fails_alone() {
    let place = ScriptDir::new();
    let provider = place.bash("t", TYPED, BODY);
    let states = named(&*provider, &["a", "bad", "odd", "z"]).unwrap();
    let why: Vec<_> = states.iter().map(|state| state.unreadable.as_ref().map(|why| place.plain(why))).collect();
    assert_eq!(why[0], None);
    assert_eq!(why[1].as_deref(), Some("find of tt[bad] by the provider `t` (simple, DIR/t.prov): cannot look at bad"));
    let odd = why[2].as_deref().unwrap();
    assert!(
        odd.starts_with(
            "find of tt[odd] by the provider `t` (simple, DIR/t.prov): it returned a value that is not of its type: n \
             expects"
        ),
        "{odd}"
    );
    assert_eq!(why[3], None);
    let (name, cx) = ("bad".into(), Context::empty());
    assert!(check_one(&*provider, &cx, Wanted::new(&name, None)).is_err());
}

#[test]
fn without_find_the_list_is_searched() {
    let place = ScriptDir::new();
    let provider = place.bash("t", &format!("{TYPED}\nactions: [list]"), BODY);
    assert_eq!(short(&named(&*provider, &["b", "z"]).unwrap()), "b(ensure=present v=1 flag=true arr=[x, y] n=7) z-()");
    assert_eq!(place.calls(), ["ral_action=list"]);
}

#[test]
fn without_list_resources_can_only_be_found() {
    let place = ScriptDir::new();
    let provider = place.bash("t", &format!("{TYPED}\nactions: [find]"), BODY);
    assert_eq!(named(&*provider, &["a", "b", "c", "d", "e", "f"]).unwrap().len(), 6);
    assert!(place.calls().iter().all(|call| call.ends_with("find")));
    let why = all(&*provider, &ScriptTestLog::default()).unwrap_err();
    assert_eq!(
        why,
        "the provider `t` of tt cannot list its resources: it has no action `list`; name the resources to find"
    );
}

#[test]
fn invalid_value_in_list_is_omitted_with_warning() {
    let place = ScriptDir::new();
    let body = "echo '# simple'; printf 'name: a\\nn: 99\\nv: 1\\nname: b\\nn: 1\\nnosuch: x\\nv: 1\\nv: 2\\nname: \
                c\\nnosuch: x\\n'";
    let provider = place.bash("t", TYPED, body);
    let log = ScriptTestLog::default();
    assert_eq!(short(&all(&*provider, &log).unwrap()), "a(v=1) b(n=1 v=2) c()");
    let lines = log.taken();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(
        lines[0].starts_with("warning tt[a] the provider `t` (simple, ") && lines[0].ends_with("; kilter omits it"),
        "{}",
        lines[0]
    );
    assert_eq!(
        lines[1],
        "warning tt[b] the provider `t` returned the attribute `nosuch`, which its metadata does not declare: it is \
         passed over"
    );
    assert_eq!(
        lines[2],
        "warning tt[b] the provider `t` returned the attribute `v` more than once: the last value counts"
    );
    let strict = Context::empty().with_strictness(Strictness::Error);
    assert!(get_checked(&*provider, &strict, Query::All).is_err());
}

#[test]
fn lines_on_standard_error_are_logged_by_their_level() {
    let place = ScriptDir::new();
    let body = "printf '%s\\n' plain 'debug: one' 'INFO: two' 'warn:three' 'Error: four' 'warning: five' 'information \
                x' 'DEBUGdl' '  ' >&2; \
                echo '# simple'";
    let provider = place.bash("t", TYPED, body);
    let log = ScriptTestLog::default();
    assert_eq!(all(&*provider, &log), Ok(Vec::new()));
    assert_eq!(
        log.taken(),
        [
            "warning tt[] plain",
            "debug tt[] one",
            "info tt[] two",
            "warning tt[] three",
            "err tt[] four",
            "warning tt[] five",
            "warning tt[] information x",
            "warning tt[] DEBUGdl",
        ]
    );
}

#[test]
fn script_has_documented_environment_and_empty_stdin() {
    let mut place = ScriptDir::new();
    place.surroundings.environment = Environment::new().set("HOME", "/nonexistent/home");
    place.surroundings.hostname = Some("web1".into());
    let body = r#"
echo '# simple'
echo "name: a"
echo "v: $(env | grep -vE '^(_|SHLVL|PWD|OLDPWD)=' | sort | tr '\n' ' ')$(wc -c </dev/stdin)"
"#;
    let provider = place.bash("t", TYPED, body);
    let text = all(&*provider, &ScriptTestLog::default()).unwrap()[0].attributes.text("v").unwrap().to_owned();
    // A directory of its own, where it can be kept from writing anywhere else.
    let kept: Vec<&str> = text.split(' ').filter(|word| !word.starts_with("TMPDIR=")).collect();
    assert_eq!(
        kept.join(" "),
        "HOME=/nonexistent/home KILTER_HOSTNAME=web1 KILTER_PROGRAM=kilter KILTER_VAR_DIR=/dev/null/none LANG=C.UTF-8 \
         LC_ALL=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin 0"
    );
}

#[test]
fn augeas_lenses_of_script_directory_are_used() {
    let place = ScriptDir::new();
    std::fs::create_dir_all(place.path().join("data/lenses")).unwrap();
    let body = "echo '# simple'; echo \"name: a\"; echo \"v: $AUGEAS_LENS_LIB\"";
    place.script("data/providers/t", &format!("{BASH}{body}"));
    place.file(
        "data/providers/t.yaml",
        "provider: {type: tt, invoke: simple, suitable: true, attributes: {name: {}, v: {}}}",
    );
    let found = Scripts::find(&[place.path().join("data")], None, &Default::default());
    let states = all(&*found.providers[0], &ScriptTestLog::default()).unwrap();
    assert_eq!(place.plain(states[0].attributes.text("v").unwrap()), "DIR/data/lenses");
}

#[test]
fn suitability_depends_on_the_machine() {
    let place = ScriptDir::new();
    let body = "exit 1";
    let suitable = |name: &str, clause: &str| {
        let metadata = TYPED.replace("suitable: true", &format!("suitable: {clause}"));
        place.bash(name, &metadata, body).suitable()
    };
    assert_eq!(suitable("a", "{commands: [sh, /bin/sh, not nosuchcommand]}"), Suitability::Suitable);
    assert_eq!(suitable("b", "{commands: [cd]}"), Suitability::Unsuitable("there is no command cd".into()));
    assert_eq!(
        suitable("c", "[command(nosuchcommand)]"),
        Suitability::Unsuitable("there is no command nosuchcommand".into())
    );
}

/// A log that creates a file at the first line.
struct Noting(std::path::PathBuf);

impl Log for Noting {
    fn log(&self, _: Level, _: &str, _: &str, message: &str) {
        std::fs::write(&self.0, message).unwrap();
    }
}

#[test]
fn script_output_is_logged_while_it_runs() {
    let place = ScriptDir::new();
    // It ends when its line has been logged, or when its time is up.
    let body = "echo 'info: at work' >&2\nuntil [ -s noted ]; do sleep 0.05; done\necho '# simple'\necho name: a";
    let provider = place.bash("t", TYPED, body);
    let log = Noting(place.path().join("noted"));
    let states = provider.get(&Context::empty().with_log(&log), Query::All).unwrap();
    assert_eq!(short(&states), "a()");
    assert_eq!(std::fs::read_to_string(&log.0).unwrap(), "at work");
}
