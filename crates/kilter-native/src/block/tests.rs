use kilter_model::Outcome;
use kilter_provider::Provider;

use super::*;

type BlockBench = crate::edit::tests::EditBench<Block>;

/// The markers of the resource `x`, with lines between them.
fn block(lines: &str) -> String {
    format!("# BEGIN kilter x\n{lines}# END kilter x\n")
}

fn content(text: &str) -> (&'static str, Value) {
    ("content", text.into())
}

#[test]
fn block_is_added_changed_and_removed() {
    let bench = BlockBench::new("a\nb");
    assert_eq!(bench.converge(&[content("one\ntwo")]), format!("a\nb\n{}", block("one\ntwo\n")));
    bench.is_in_sync(&[content("one\ntwo\n")]);
    assert_eq!(bench.converge(&[content("three\n\n")]), format!("a\nb\n{}", block("three\n\n")));
    assert_eq!(bench.converge(&[content("")]), format!("a\nb\n{}", block("")));
    assert_eq!(bench.converge(&[("ensure", "absent".into())]), "a\nb\n");
    bench.is_in_sync(&[("ensure", "absent".into())]);
}

#[test]
fn new_block_is_inserted_at_its_place() {
    let lines = || content("x\n");
    let after = |pattern: &str| ("insert_after", Value::from(pattern));
    let before = |pattern: &str| ("insert_before", Value::from(pattern));
    let own = block("x\n");
    assert_eq!(BlockBench::new("a\nb\na\nc\n").converge(&[lines(), after("^a")]), format!("a\nb\na\n{own}c\n"));
    assert_eq!(BlockBench::new("a\nb\na\nc\n").converge(&[lines(), before("^[bc]")]), format!("a\n{own}b\na\nc\n"));
    assert_eq!(BlockBench::new("a\n").converge(&[lines(), before("^")]), format!("{own}a\n"));
    assert_eq!(BlockBench::new("a\n").converge(&[lines(), after("^z")]), format!("a\n{own}"));
    assert_eq!(BlockBench::new("a").converge(&[lines(), after("^a")]), format!("a\n{own}"));
}

#[test]
fn change_keeps_place_and_line_breaks() {
    let bench = BlockBench::new(&format!("a\n{}c\n", block("old\n")).replace('\n', "\r\n"));
    let changed = bench.converge(&[content("new\nnewer\n"), ("insert_after", "^c".into())]);
    assert_eq!(changed, format!("a\n{}c\n", block("new\nnewer\n")).replace('\n', "\r\n"));
}

#[test]
fn difference_shows_both_contents_and_the_file() {
    let bench = BlockBench::new(&format!("a\n{}", block("old\n")));
    let differences = bench.differences(&bench.should(&[content("new\n")])).unwrap();
    assert_eq!(differences.len(), 1);
    assert_eq!((&differences[0].is, &differences[0].should), (&"old\n".into(), &"new\n".into()));
    let diff = differences[0].diff.as_ref().unwrap();
    assert!(diff.contains("@@ -3,1 +3,1 @@\n-old\n+new\n"), "{diff}");
}

#[test]
fn damaged_markers_are_an_error_and_change_nothing() {
    for damaged in ["# BEGIN kilter x\na\n", "# END kilter x\n# BEGIN kilter x\n", &block("").repeat(2)] {
        let bench = BlockBench::new(damaged);
        let should = bench.should(&[content("new\n")]);
        let why = bench.differences(&should).unwrap_err();
        assert!(why.contains("the markers of the block are damaged"), "{why}");
        assert!(!bench.set(&[&should])[0].is_done());
        assert_eq!(bench.content(), damaged);
    }
}

#[test]
fn blocks_of_a_file_are_independent() {
    let bench = BlockBench::new("a\n");
    let shoulds = [bench.should(&[content("one\n")]), bench.should(&[content("two\n")])];
    assert_eq!(bench.set(&shoulds.iter().collect::<Vec<_>>()), vec![Outcome::done(); 2]);
    let own = |name: &str, line: &str| format!("# BEGIN kilter {name}\n{line}\n# END kilter {name}\n");
    assert_eq!(bench.content(), format!("a\n{}{}", own("0", "one"), own("1", "two")));
}

#[test]
fn invalid_block_is_refused() {
    let bench = BlockBench::new("");
    let refused = |attributes: &[(&str, Value)]| bench.provider.validate("x", &bench.should(attributes), &[]).len();
    assert_eq!(refused(&[]), 1, "no content");
    assert_eq!(refused(&[content("a\n# END kilter x\n")]), 1);
    assert_eq!(refused(&[content("a\0")]), 1);
    assert_eq!(refused(&[content("a"), ("marker", "# {name}".into())]), 1);
    assert_eq!(refused(&[content("a"), ("insert_after", "a".into()), ("insert_before", "(".into())]), 2);
    assert_eq!(bench.provider.validate("a\nb", &bench.should(&[content("a")]), &[]).len(), 1);
    assert_eq!(refused(&[content("a"), ("marker", "// {mark} {name}".into())]), 0);
}
