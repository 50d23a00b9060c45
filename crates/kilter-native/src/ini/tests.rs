use kilter_provider::Provider;

use super::*;

type IniBench = crate::edit::tests::EditBench<Ini>;

const CONF: &str = "; head\nglobal=1\n\n[one]\n# a = 0\na=1\n  b  =  2  \n\n; about two\n[two]\na = \n[empty]\n";

fn given(section: &'static str, setting: &'static str) -> Vec<(&'static str, Value)> {
    vec![("section", section.into()), ("setting", setting.into())]
}

fn with(section: &'static str, setting: &'static str, value: impl Into<Value>) -> Vec<(&'static str, Value)> {
    [given(section, setting), vec![("value", value.into())]].concat()
}

#[track_caller]
fn changes(declared: &[(&str, Value)], old: &str, new: &str) {
    let expected = CONF.replacen(old, new, 1);
    assert_ne!(expected, CONF);
    assert_eq!(IniBench::new(CONF).converge(declared), expected);
}

#[test]
fn value_is_replaced_and_the_rest_of_the_line_stays() {
    changes(&with("one", "a", "2"), "a=1", "a=2");
    changes(&with("one", "b", 3), "  b  =  2  ", "  b  =  3");
    changes(&with("two", "a", true), "[two]\na = \n", "[two]\na = true\n");
    changes(&with("", "global", "x y"), "global=1", "global=x y");
    changes(&with("one", "a", ""), "a=1", "a=");
}

#[test]
fn new_setting_comes_after_the_last_of_its_section() {
    changes(&with("one", "c", "3"), "  b  =  2  \n", "  b  =  2  \nc = 3\n");
    changes(&with("empty", "c", "3"), "[empty]\n", "[empty]\nc = 3\n");
    changes(&with("", "c", "3"), "global=1\n", "global=1\nc = 3\n");
    changes(&with("three", "c", "3"), "[empty]\n", "[empty]\n\n[three]\nc = 3\n");
    assert_eq!(IniBench::new("[a]\n").converge(&with("", "c", "3")), "c = 3\n[a]\n");
    assert_eq!(IniBench::new("").converge(&with("a", "c", "3")), "[a]\nc = 3\n");
    assert_eq!(IniBench::new("").converge(&with("", "c", "3")), "c = 3\n");
}

#[test]
fn same_value_is_in_sync_in_any_spacing() {
    let bench = IniBench::new(CONF);
    bench.is_in_sync(&with("one", "b", "2"));
    bench.is_in_sync(&with("one", "b", 2));
    bench.is_in_sync(&with("two", "a", ""));
    let differences = bench.differences(&bench.should(&with("one", "b", "3"))).unwrap();
    assert_eq!((&differences[0].is, &differences[0].should), (&"2".into(), &"3".into()));
    assert!(differences[0].diff.as_ref().unwrap().contains("-  b  =  2  \n+  b  =  3\n"));
}

#[test]
fn absent_setting_is_removed_and_its_section_stays() {
    let absent = |section, setting| [given(section, setting), vec![("ensure", "absent".into())]].concat();
    changes(&absent("one", "a"), "a=1\n", "");
    changes(&absent("two", "a"), "[two]\na = \n", "[two]\n");
    IniBench::new(CONF).is_in_sync(&absent("one", "c"));
    IniBench::new(CONF).is_in_sync(&absent("none", "a"));
}

#[test]
fn last_of_several_settings_counts() {
    let bench = IniBench::new("[s]\na=1\na=2\n");
    bench.is_in_sync(&with("s", "a", "2"));
    assert_eq!(bench.converge(&with("s", "a", "3")), "[s]\na=1\na=3\n");
    assert_eq!(bench.converge(&[given("s", "a"), vec![("ensure", "absent".into())]].concat()), "[s]\n");
}

#[test]
fn other_separators_are_supported() {
    let separated = |separator: &'static str| [with("", "a", "2"), vec![("separator", separator.into())]].concat();
    assert_eq!(IniBench::new("a: 1\n").converge(&separated(": ")), "a: 2\n");
    assert_eq!(IniBench::new("b: 1\n").converge(&separated(": ")), "b: 1\na: 2\n");
    assert_eq!(IniBench::new("a\t 1\n").converge(&separated(" ")), "a\t 2\n");
    assert_eq!(IniBench::new("b=1\r\n").converge(&separated("=")), "b=1\r\na=2\r\n");
}

#[test]
fn invalid_setting_is_refused() {
    let bench = IniBench::new("");
    let refused = |attributes: &[(&str, Value)]| bench.provider.validate("x", &bench.should(attributes), &[]).len();
    assert_eq!(refused(&given("s", "a")), 1, "no value");
    assert_eq!(refused(&with("s", "a", "1\n2")), 1);
    assert_eq!(refused(&with("s", "a", " 1")), 1);
    assert_eq!(refused(&with("[s]", "a", "1")), 1);
    for setting in ["a=b", "#a", "[a]", "a "] {
        assert_eq!(refused(&with("s", setting, "1")), 1, "{setting}");
    }
    assert_eq!(refused(&with("s", "a", "1")), 0);
}
