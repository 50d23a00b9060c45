use std::time::Duration;

use kilter_model::{Behaviour, Feature, Value};

use super::*;
use crate::condition::ConditionResult;

/// Returns metadata with these lines below `provider:`, and with a `name` unless there are attributes.
fn with(lines: &str) -> String {
    let mut text = String::from("---\nprovider:\n");
    for line in lines.lines() {
        text += &format!("  {line}\n");
    }
    text
}

const SMALLEST: &str = "type: service\ninvoke: simple\nsuitable: true";

fn good(lines: &str) -> Metadata {
    let text = with(lines);
    Metadata::parse(&text, "stem").unwrap_or_else(|faults| panic!("{text}: {}", faults[0]))
}

/// Returns the messages of all faults.
fn wrong(text: &str) -> Vec<String> {
    let faults = Metadata::parse(text, "stem").expect_err(text);
    faults.iter().map(|fault| fault.message.to_string()).collect()
}

#[test]
fn minimal_metadata_is_valid() {
    let metadata = good("type: service\ninvoke: simple\nactions: [list,find,update]\nsuitable: true");
    assert_eq!((metadata.name.as_str(), metadata.convention), ("stem", ConventionName::Simple));
    assert_eq!(metadata.actions, Actions::ALL);
    assert_eq!(metadata.schema.name, "service");
    let name = metadata.schema.find("name").unwrap();
    assert_eq!((name.behaviour, name.data_type.to_string().as_str()), (Behaviour::Namevar, "String"));
    assert!(metadata.schema.has(Feature::SimpleGetFilter) && !metadata.schema.has(Feature::SupportsNoop));
}

#[test]
fn attributes_have_librals_types_and_kinds() {
    let metadata = good(
        "type: service\ninvoke: simple\nsuitable: true\nattributes:\n  name:\n  ensure:\n    type: enum[running, \
         stopped]\n  \
         enable: {type: \"enum[true, false, mask]\", kind: rw}\n  flags:\n    type:  array [ string ]\n  on: {type: \
         boolean, \
         kind: r, desc: whether}\n  mood: {kind: w}",
    );
    let of = |name: &str| metadata.schema.find(name).unwrap();
    assert_eq!(of("ensure").data_type.to_string(), "Enum['running', 'stopped']");
    assert_eq!(of("enable").data_type.to_string(), "Enum['true', 'false', 'mask']");
    assert_eq!(of("flags").data_type.to_string(), "Array[String]");
    assert_eq!((of("on").behaviour, of("on").desc.as_str()), (Behaviour::ReadOnly, "whether"));
    assert_eq!(of("mood").behaviour, Behaviour::Parameter);
}

#[test]
fn attributes_may_have_kilter_types_and_behaviours() {
    let metadata = good(
        "type: t\ninvoke: json\nsuitable: true\nattributes:\n  name: {}\n  size: {type: \"Integer[0, 10]\", default: \
         3}\n  \
         secret: {type: \"Sensitive[String]\", behaviour: init_only}\n  tags: {type: \"Array[String]\", comparison: \
         set, \
         required: true, colour: red}",
    );
    let of = |name: &str| metadata.schema.find(name).unwrap();
    assert_eq!(of("size").default, Some(Value::Integer(3)));
    assert_eq!(of("secret").behaviour, Behaviour::InitOnly);
    assert!(of("tags").required);
    assert_eq!(of("tags").extra.get("colour"), Some(&Value::from("red")));
}

#[test]
fn unknown_keys_are_kept_and_misspelled_ones_reported() {
    let metadata = good(&format!("{SMALLEST}\nvendor: me\nsuitabel: false"));
    assert_eq!(metadata.schema.extra.get("vendor"), Some(&Value::from("me")));
    let warnings: Vec<String> = metadata.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings, ["7:3: the key `suitabel` is unknown; kilter ignores it (did you mean `suitable`?)"]);
}

#[test]
fn only_named_actions_are_available() {
    let actions = |convention: &str, words: &str| {
        good(&format!("type: t\ninvoke: {convention}\nsuitable: true\nactions: {words}")).actions
    };
    assert_eq!(
        actions("simple", "[list]"),
        Actions { list: true, find: false, update: false, refresh: false, watch: false }
    );
    assert_eq!(
        actions("simple", "[find, update, describe]"),
        Actions { list: false, find: true, update: true, refresh: false, watch: false }
    );
    assert_eq!(actions("json", "[set, get]"), Actions::ALL);
    assert_eq!(
        actions("json", "[get]"),
        Actions { list: true, find: true, update: false, refresh: false, watch: false }
    );
    let text = with(&format!("{SMALLEST}\nactions: [list, updaet]"));
    assert_eq!(
        Metadata::parse(&text, "s").unwrap_err()[0].to_string(),
        "6:19: `updaet` is not an action of the convention simple (did you mean `update`?)"
    );
    assert_eq!(
        wrong(&with(&format!("{SMALLEST}\nactions: [update]"))),
        ["nothing can be read without one of `list` and `find` (with json: `get`)"]
    );
}

struct DebianFacts;

impl crate::condition::ConditionFacts for DebianFacts {
    fn fact(&self, name: &str) -> Option<Value> {
        (name == "osfamily").then(|| "debian".into())
    }

    fn has_command(&self, name: &str) -> bool {
        name == "sh"
    }
}

#[test]
fn suitable_accepts_every_specified_form() {
    let verdict = |form: &str| {
        let metadata = good(&format!("type: t\ninvoke: simple\nsuitable: {form}"));
        metadata.suitable.evaluate(&DebianFacts)
    };
    for holds in [
        "true",
        "yes",
        "'true'",
        "{commands: [sh, not dnf]}",
        "{commands: [ sh,  not   dnf]}",
        "{commands: []}",
        "command(sh)",
        "\n  - command(sh)\n  - osfamily == 'debian'",
        "[]",
        "facts.osfamily == \"debian\"",
    ] {
        assert_eq!(verdict(holds), ConditionResult::Holds, "{holds}");
    }
    assert!(!verdict("false").holds() && !verdict("no").holds() && !verdict("'false'").holds());
    assert_eq!(verdict("{commands: [sh, dnf]}"), ConditionResult::Fails("there is no command dnf".into()));
    assert_eq!(verdict("{commands: [not sh]}"), ConditionResult::Fails("there is the command sh".into()));
    assert_eq!(
        verdict("[command(sh), osfamily = 'redhat']"),
        ConditionResult::Fails("the fact osfamily is debian, not redhat".into())
    );
}

#[test]
fn default_needs_one_true_clause() {
    let default = |form: &str| {
        let metadata = good(&format!("{SMALLEST}\ndefault: {form}"));
        metadata.default.evaluate(&DebianFacts).holds()
    };
    assert!(default("\n  - osfamily = 'archlinux'\n  - osfamily = 'debian' and command(sh)"));
    assert!(!default("\n  - osfamily = 'archlinux'\n  - osfamily = 'redhat' and operatingsystemmajrelease = '7'"));
    assert!(default("true"));
    assert!(!good(SMALLEST).default.evaluate(&DebianFacts).holds());
}

#[test]
fn default_false_makes_a_provider_named_only() {
    let is_named_only = |more: &str| good(&format!("{SMALLEST}{more}")).is_named_only;
    assert!(is_named_only("\ndefault: false"));
    assert!(
        !is_named_only("") && !is_named_only("\ndefault: true") && !is_named_only("\ndefault: osfamily = 'archlinux'")
    );
}

#[test]
fn metadata_may_set_name_timeout_and_noop_support() {
    let metadata = good(&format!("{SMALLEST}\nname: systemd\nnoop_safe: true\ntimeout: 5\noutput: 64"));
    assert_eq!(metadata.name, "systemd");
    assert!(metadata.noop_safe && metadata.schema.has(Feature::SupportsNoop));
    assert_eq!((metadata.timeout, metadata.output), (Some(Duration::from_secs(5)), Some(64 << 20)));
    // libral ignores a name that is not a text.
    assert_eq!(good(&format!("{SMALLEST}\nname: [a]")).name, "stem");
}

#[test]
fn all_metadata_problems_are_reported() {
    let attributes = |lines: &str| with(&format!("{SMALLEST}\nattributes:\n  {lines}"));
    for (text, expected) in [
        ("", "there is nothing in it"),
        ("# nothing\n", "there is nothing in it"),
        ("- a\n", "metadata is a mapping, not a list"),
        ("text", "metadata is a mapping, not `text`"),
        ("a: 1\n", "the key `provider` is missing"),
        ("provider: 1\n", "`provider` is a mapping, not `1`"),
        ("provider:\n", "the key `provider` is missing"),
        (&with("invoke: simple\nsuitable: true"), "there is no `type`"),
        (&with("type: t\nsuitable: true"), "there is no `invoke`"),
        (&with("type: t\ninvoke: soap\nsuitable: true"), "there is no calling convention `soap`"),
        (&with("type: t\ninvoke: simple"), "`suitable` is missing"),
        (&with("type: [a]\ninvoke: simple\nsuitable: true"), "`type` is a word, not a list"),
        (
            &with("type: Service\ninvoke: simple\nsuitable: true"),
            "`Service` is not the name of a type: it must begin with a letter and contain only a-z, 0-9 and `_`",
        ),
        (&with("type: t\ninvoke: simple\nsuitable: 1"), "`1` is not a clause of `suitable`: unexpected"),
        (
            &with("type: t\ninvoke: simple\nsuitable: {command: [a]}"),
            "`suitable` takes the key `commands`, or a list of clauses",
        ),
        (&with("type: t\ninvoke: simple\nsuitable: {commands: a}"), "`suitable.commands` is a list of names, not `a`"),
        (
            &with("type: t\ninvoke: simple\nsuitable: {commands: [[a]]}"),
            "an entry of `suitable.commands` is the name of a command, not a list",
        ),
        (&with(&format!("{SMALLEST}\nattributes: [a]")), "`attributes` is a mapping of attributes by name, not a list"),
        (&attributes("size: {type: string}"), "there is no attribute `name`, which every resource has"),
        (&attributes("name: {type: integer}"), "`integer`"),
        (&attributes("name: {type: boolean}"), "`name` is a text, not a Boolean"),
        (&attributes("name: {type: string, kind: rx}"), "`rx` is not a kind"),
        (&attributes("name: {type: string, kind: w}"), "`name` names a resource: it cannot be a parameter"),
        (&attributes("name: {type: [string]}"), "a type is a text, not a list"),
        (&attributes("name: string"), "the attribute `name` is a mapping with `type` and `desc`, not `string`"),
        (
            &attributes("name: {}\n  a b: {}"),
            "`a b` is not the name of an attribute: it must contain only letters, digits and `_`",
        ),
        (&attributes("name: {}\n  ral_noop: {}"), "the name `ral_noop` is reserved"),
        (&attributes("name: {}\n  ral: {}"), "the name `ral` is reserved"),
        (&attributes("name: {}\n  __x: {}"), "the name `__x` is reserved"),
        (&attributes("name: {}\n  title: {}"), "the name `title` is reserved"),
        (
            &attributes("name: {}\n  a: {kind: r, behaviour: property}"),
            "there are both `kind` and `behaviour`: keep one",
        ),
        (&attributes("name: {}\n  a: {type: Integer, default: x}"), "the default does not match the attribute's type"),
        (&with(&format!("{SMALLEST}\nname: a/b")), "`a/b` cannot be the name of a provider"),
        (&with(&format!("{SMALLEST}\ntimeout: 0")), "`timeout` is a number of seconds from 1 to 86400, not `0`"),
        (&with(&format!("{SMALLEST}\noutput: 200 MB")), "`output` is a number of MiB from 1 to 1024, not `200 MB`"),
        (&with(&format!("{SMALLEST}\nnoop_safe: maybe")), "`noop_safe` is true or false, not `maybe`"),
        (&with(&format!("{SMALLEST}\ntype: again")), "the key `type` occurs twice"),
        ("---\na: 1\n---\nb: 2\n", "one document is expected: this is a second one"),
        ("provider: {\n", "not valid YAML"),
    ] {
        let told = wrong(text);
        assert!(told.iter().any(|message| message.starts_with(expected)), "{text}\n{told:?}");
    }
}

#[test]
fn invalid_libral_types_are_refused() {
    for bad in [
        "enum",
        "enum yes,no]",
        "\"enum[yes,no\"",
        "\"enum[ ]\"",
        "\"enum[, ]\"",
        "\"enum[yes, ]\"",
        "gibberish",
        "\"enumfoo[a]bar\"",
        "\"array[boolean]\"",
    ] {
        let text = with(&format!("{SMALLEST}\nattributes:\n  name: {{type: {bad}}}"));
        assert!(Metadata::parse(&text, "s").is_err(), "{bad}");
    }
    for good_type in ["enum[yes,no]", "enum[yes, no]", "  enum\\t [yes,no]", "enum[  yes,   no\\t]  \\t"] {
        let metadata = good(&format!("{SMALLEST}\nattributes:\n  name: {{}}\n  a: {{type: \"{good_type}\"}}"));
        assert_eq!(metadata.schema.find("a").unwrap().data_type.allowed(), ["yes", "no"]);
    }
}

#[test]
fn metadata_problems_have_places_in_order() {
    let text =
        with("type: t\ninvoke: soap\nsuitable: true\nattributes:\n  name: {}\n  a:\n    type: gibberish\n    kind: x");
    let told: Vec<String> = Metadata::parse(&text, "s")
        .unwrap_err()
        .iter()
        .map(|fault| format!("{:?}", (fault.at.line, fault.at.column)))
        .collect();
    assert_eq!(told, ["(4, 11)", "(9, 13)", "(10, 13)"]);
}

#[test]
fn aliases_of_yaml_are_followed_but_do_not_multiply() {
    let metadata = good(&format!("{SMALLEST}\nattributes:\n  name: &a {{type: string}}\n  other: *a"));
    assert!(metadata.schema.find("other").is_some());
    let mut bomb = String::from("a: &a [x, x, x, x, x, x, x, x, x]\n");
    for (this, last) in ('b'..='k').zip('a'..) {
        bomb += &format!("{this}: &{this} [*{last}, *{last}, *{last}, *{last}, *{last}, *{last}, *{last}, *{last}]\n");
    }
    assert!(wrong(&bomb)[0].contains("aliases followed"));
    assert!(Metadata::parse(&format!("a: {}", "[".repeat(5_000)), "s").is_err());
    assert!(wrong(&format!("a: {}{}", "[".repeat(80), "]".repeat(80)))[0].contains("nested"));
}

#[test]
fn ensure_of_present_and_absent_defaults_to_present() {
    let default = |ensure: &str| {
        let metadata = good(&format!("{SMALLEST}\nattributes:\n  name:\n  ensure: {ensure}"));
        metadata.schema.find("ensure").unwrap().default.clone()
    };
    assert_eq!(default("{type: \"enum[absent, present]\"}"), Some("present".into()));
    assert_eq!(default("{type: \"enum[present, absent]\", default: absent}"), Some("absent".into()));
    for other in ["{type: \"enum[present, absent, latest]\"}", "{type: \"enum[running, stopped]\"}", "{type: string}"] {
        assert_eq!(default(other), None, "{other}");
    }
    assert_eq!(default("{type: \"Optional[Enum[present, absent]]\"}"), None);
    assert_eq!(default("{type: \"enum[present, absent]\", kind: r}"), None);
}

#[test]
fn mold_metadata_has_common_and_own_keys() {
    let metadata = good(
        "type: file\ninvoke: mold\nsuitable: true\nkey: path\nactions: [list, touch]\nrefresh: touch\nattributes:\n  \
         mode: {type: string}\n  path: {desc: Where.}",
    );
    assert_eq!((metadata.convention, metadata.key()), (ConventionName::Mold, "path"));
    assert_eq!((metadata.actions, metadata.one_time.as_deref()), (Actions::ALL, Some(&["touch".into()][..])));
    assert_eq!(metadata.refresh.as_deref(), Some("touch"));
    assert!(metadata.schema.others.is_none() && metadata.schema.has(Feature::Refresh));
    assert_eq!(metadata.schema.find("exists").unwrap().data_type.to_string(), "Boolean");
    assert_eq!(metadata.warnings, []);

    let least = good("type: file\ninvoke: mold\nsuitable: true");
    assert_eq!((least.key(), least.one_time.as_deref()), ("name", None));
    assert_eq!(least.actions, Actions { list: false, find: true, update: true, refresh: false, watch: false });
    assert!(least.schema.others.is_some() && least.schema.find("name").is_some());
    let closed = good("type: file\ninvoke: mold\nsuitable: true\nopen: false");
    assert!(closed.schema.others.is_none());
}

#[test]
fn mold_metadata_problems_have_places() {
    let mold = |lines: &str| with(&format!("type: file\ninvoke: mold\nsuitable: true\n{lines}"));
    for (lines, expected) in [
        (
            "actions: [two words]",
            "6:13: `two words` is not an action: an action is one word of letters, digits, `_` and `-`",
        ),
        ("actions: [a]\nrefresh: b", "7:12: `refresh` is `b`, which is none of the `actions`"),
        ("refresh: list", "6:12: `list` cannot be a one-time action, which `refresh` is"),
        ("key: [a]", "6:8: `key` is the attribute that names a resource, not a list"),
        ("key: exists", "6:8: `key` is the attribute that names a resource, not `exists`"),
        ("open: maybe", "6:9: `open` is true or false, not `maybe`"),
        ("attributes: {kind: {}}", "6:16: mold's documents use the key `kind` for themselves"),
        ("attributes: {exists: {type: string}}", "6:24: `exists` is true or false: a Boolean, not a String"),
        (
            "attributes: {path: {behaviour: namevar}}",
            "6:22: one attribute names a resource, which is `name` (write `key: path` if it is this one)",
        ),
    ] {
        let faults = Metadata::parse(&mold(lines), "stem").expect_err(lines);
        assert_eq!(faults[0].to_string(), expected, "{lines}");
    }
    let odd = good(&format!("{SMALLEST}\nrefresh: restart"));
    assert_eq!(
        odd.warnings[0].to_string(),
        "6:3: the key `refresh` is valid only with `invoke: mold`; name `refresh` among the `actions`"
    );
}

#[test]
fn type_with_multibyte_first_letter_is_reported() {
    let wrong = wrong(&with(&format!("{SMALLEST}\nattributes: {{name: , n: {{type: ցIg}}}}")));
    assert!(wrong[0].starts_with("`ցIg` is not a type") || wrong[0].starts_with("there is no type"), "{wrong:?}");
}

#[test]
fn owned_paths_are_read_from_lists_named_by_attributes() {
    let owns = |said: &str| with(&format!("{SMALLEST}\nowns: {said}"));
    for said in
        ["/l/${vars.name}", "['/l/${vars.name}', $name]", "{lists: $name, shared: [/etc, '/usr/**']}", "{lists: $name}"]
    {
        assert!(good(&format!("{SMALLEST}\nowns: {said}")).owns.is_some(), "{said}");
    }
    assert!(good(SMALLEST).owns.is_none());
    for (said, message) in [
        ("/var/lib/list", "`owns`: `/var/lib/list` would be the list of every resource"),
        ("$path", "`owns`: there is no attribute `path`"),
        ("{shared: /etc}", "`owns` needs `lists`: files with one path per line"),
        ("{lists: $name, shard: /etc}", "`owns` has `lists` and `shared`, and no `shard`"),
        (
            "{lists: $name, shared: etc}",
            "`owns`: an entry of `shared` is a path such as /etc, /etc/*.d or /usr/**, not `etc`",
        ),
        (
            "{lists: $name, shared: '/a/**/b'}",
            "`owns`: an entry of `shared` is a path such as /etc, /etc/*.d or /usr/**, not `/a/**/b`",
        ),
        ("3", "`owns` are texts, not Integer"),
    ] {
        assert_eq!(wrong(&owns(said)), [message], "{said}");
    }
}

#[test]
fn change_that_creates_a_resource_makes_its_refresh_needless_only_if_its_type_names_stopped() {
    let acts = |data_type: &str, wanted: &str| {
        let lines = format!("{SMALLEST}\nattributes:\n  name:\n  ensure: {{type: \"{data_type}\"}}");
        let should: Attributes = [("ensure", Value::from(wanted))].into_iter().collect();
        good(&lines).acts_on_refresh(&State::absent("x"), &should)
    };
    assert!(!acts("enum[running, stopped]", "running"));
    assert!(!acts("Optional[Enum[running, stopped]]", "running"));
    for data_type in ["string", "Any", "Pattern[/^[a-z0-9.]+$/]", "String[1, 9]", "enum[present, absent, latest]"] {
        assert!(acts(data_type, "latest"), "{data_type}");
    }
}

#[test]
fn in_sync_condition_accepts_other_found_values() {
    let lines = |condition: &str, invoke: &str| {
        format!(
            "type: service\ninvoke: {invoke}\nsuitable: true\nattributes:\n  name:\n  sort: {{type: string, kind: \
             r}}\n  enable: {{type: string, in_sync: '{condition}'}}"
        )
    };
    let metadata = good(&lines(r#"vars.is.sort == "fixed" && vars.should.enable != "mask""#, "simple"));
    assert!(metadata.schema.has(Feature::CustomInsync));
    let compare = |metadata: &Metadata, kind: Option<&str>, wanted: &str| {
        let found = kind.into_iter().map(|kind| ("sort", Value::from(kind)));
        let is = State::present("x", found.collect::<Attributes>());
        let should: Attributes = [("enable", Value::from(wanted))].into_iter().collect();
        metadata.compare("enable", &is, &should)
    };
    assert_eq!(compare(&metadata, Some("fixed"), "on"), Insync::Same);
    assert_eq!(compare(&metadata, Some("fixed"), "mask"), Insync::Default);
    assert_eq!(compare(&metadata, None, "on"), Insync::Default);
    let is = State::present("x", Attributes::new());
    assert_eq!(metadata.compare("sort", &is, &Attributes::new()), Insync::Default, "it has no condition");

    for (condition, message) in [
        ("vars.is.sort", "`in_sync` is String, not true or false: vars.is.sort"),
        ("vars.is.srt == null", "`in_sync`: there is no `srt`: vars.is.srt == null"),
    ] {
        assert_eq!(compare(&good(&lines(condition, "json")), Some("x"), "on"), Insync::Failed(message.into()));
    }
    assert_eq!(
        wrong(&with(&lines("facts.os.name == null", "simple"))),
        ["`in_sync`: only vars.is.ATTRIBUTE and vars.should.ATTRIBUTE may be used"]
    );
    assert_eq!(wrong(&with(&lines("true", "mold"))), ["`in_sync` is for the conventions simple and json"]);
    let parameter = format!("{SMALLEST}\nattributes:\n  name:\n  how: {{kind: w, in_sync: 'true'}}");
    assert_eq!(wrong(&with(&parameter)), ["`in_sync`: kilter never compares `how`"]);
    assert!(!good(SMALLEST).schema.has(Feature::CustomInsync));
}
