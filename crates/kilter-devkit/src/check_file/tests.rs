use super::*;
use kilter_model::Behaviour;

fn schema() -> TypeSchema {
    TypeSchema::new("colour", "Colours.")
        .attribute("name", "String[1]", Behaviour::Namevar, "Its name.")
        .attribute("ensure", "Enum[present, absent]", Behaviour::Property, "Whether it is there.")
        .attribute("value", "String", Behaviour::Property, "What it is.")
        .attribute("depth", "Integer[0, 9]", Behaviour::Property, "How deep it is.")
        .attribute("seen", "Boolean", Behaviour::ReadOnly, "Whether it was seen.")
}

fn faults(text: &str) -> String {
    let faults = CheckFile::parse(text, &schema()).unwrap_err();
    faults.iter().map(|fault| format!("{fault}\n")).collect()
}

#[test]
fn check_file_describes_a_complete_subject() {
    let text = "specimens:\n  - {name: sky, present: {value: blue}, changed: [{value: grey}, {depth: 2}]}\n  - name: \
                grass\n    \
                present: {value: green}\n    changed: {value: brown}\n    absent: {ensure: absent}\nunknown: \
                nothing\nfailing: {name: x, \
                present: {depth: 11}}\nslow: {name: y, present: {}, begun: test -e /z}\nwithout: {listing: there is \
                none}\nsparing: \
                {value: it is dear}\nnames: a{hex}-{}\nsetup: |\n  mkdir /a\nignore: [/var/cache/**]\n";
    let file = CheckFile::parse(text, &schema()).unwrap();
    assert_eq!((file.specimens.len(), file.unknown.as_slice()), (2, &["nothing".into()][..]));
    assert!(file.failing.is_some() && file.slow.unwrap().begun == "test -e /z");
    assert_eq!(file.without, [(Unsupported::Listing, "there is none".into())]);
    assert_eq!(file.sparing, [("value".into(), "it is dear".into())]);
    assert_eq!((file.setup.as_deref(), file.ignore.as_slice()), (Some("mkdir /a\n"), &["/var/cache/**".into()][..]));
    let of_hex = CheckFile { names: Some("a{hex}-{}".into()), ..CheckFile::default() };
    assert_eq!((of_hex.name_like("b"), CheckFile::default().name_like("b")), ("a62-b".to_owned(), "b".to_owned()));
}

#[test]
fn empty_check_file_is_valid() {
    assert!(CheckFile::parse("# nothing\n---\n", &schema()).unwrap().specimens.is_empty());
}

#[test]
fn check_file_faults_have_places() {
    let text = "specimens:\n  - {present: {valu: blue}}\n  - {name: [a], present: {depth: 11, seen: true}}\nunknwon: \
                [a]\nwithout: {slow: \
                '', sleep: tired}\nnames: plain\nslow: {name: y}\nsparing: [a]\nsetup: [a]\n";
    assert_eq!(
        faults(text),
        "2:5: the resource has no `name`\n3:12: `name` is a text, not a list\n4:1: unknown key `unknwon` (did you mean \
         `unknown`?)\n5:17: `slow` needs a reason, in words\n5:21: `sleep` is not one of: unknown, failing, slow, \
         listing, \
         removal\n6:8: `names` has `{}` instead of a text, or `{hex}` for its bytes in hexadecimal digits\n7:7: \
         `begun` is missing: a \
         shell command that succeeds while the change runs\n8:10: `sparing` is a mapping to reasons, not a list\n9:8: \
         `setup` is a \
         text, not a list\n"
    );
}

#[test]
fn check_file_attributes_fit_the_type() {
    let text = "specimens:\n  - {name: a, present: {valu: blue}}\n  - {name: b, present: {depth: 11}, changed: {seen: \
                true}}\n";
    let told = faults(text);
    assert!(told.contains("2:25: the type colour has no attribute `valu` (did you mean `value`?)"), "{told}");
    assert!(told.contains("3:32: depth expects") && told.contains("`seen` can only be read"), "{told}");
    assert!(faults("specimens: [{name: a}]").contains("two `specimens`"));
    assert!(faults("specimens: 3").contains("a list, not `3`") && faults("[a]").contains("a mapping, not a list"));
    assert!(faults("setup: x").contains("`specimens` is missing"));
}
