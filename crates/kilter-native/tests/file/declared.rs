//! Refused declarations, and their canonical forms.

use kilter_model::{Attributes, Value};
use kilter_native::FileProvider;
use kilter_provider::{AutoEdge, Context, Match, Provider, Relations, canonicalize_one};

use crate::harness::*;

fn problems<const N: usize>(name: &str, attributes: [(&str, Value); N]) -> Vec<String> {
    let should: Attributes = attributes.into_iter().collect();
    let problems = FileProvider::new().validate(name, &should, &[]);
    problems.iter().map(ToString::to_string).collect()
}

#[test]
fn invalid_declarations_have_hints() {
    type Attribute = (&'static str, Value);
    let table: [(&str, Vec<Attribute>, &str); 29] = [
        ("etc/motd", vec![], "not an absolute path"),
        ("/etc/../motd", vec![], "not an absolute path"),
        ("/etc//motd", vec![], "not an absolute path"),
        ("/a", vec![("source", text("x/y"))], "source: `x/y` is not an absolute path"),
        ("/a", vec![("content", text("x")), ("source", text("/b"))], "exclude each other"),
        ("/a", vec![("content", text("x")), ("target", text("/b"))], "exclude each other"),
        ("/a", vec![("ensure", text("directory")), ("content", text("x"))], "no meaning with `ensure: directory`"),
        ("/a", vec![("ensure", text("absent")), ("content", text("x"))], "no meaning with `ensure: absent`"),
        ("/a", vec![("ensure", text("link"))], "needs a `target`"),
        ("/a", vec![("ensure", text("link")), ("target", text("/b")), ("mode", text("0644"))], "links have no mode"),
        ("/a", vec![("ensure", text("file")), ("target", text("/b"))], "needs `ensure: link`"),
        ("/a", vec![("mode", text("rwxr-xr-x"))], "is not a mode"),
        ("/a", vec![("mode", text("0999"))], "is not a mode"),
        ("/a", vec![("ensure", text("file")), ("recurse", yes())], "without a directory"),
        ("/a", vec![("ensure", text("directory")), ("source", text("/b"))], "add `recurse: true`"),
        ("/a", vec![("content", text("x")), ("backup", text("../x"))], "is not a suffix"),
        ("/a", vec![("content", Value::sensitive("x".into())), ("backup", yes())], "the backup is not encrypted"),
        ("/a", vec![("content", text("x")), ("checksum", text("mtime"))], "needs a `source`"),
        ("/a", vec![("content", text("x")), ("validate_cmd", text("true"))], "no `%` for the path of the file"),
        ("/a", vec![("validate_cmd", text("true %"))], "needs a content"),
        ("/a", vec![("content", text("x")), ("validate_cmd", text("true '%"))], "the closing ' is missing"),
        ("/a", vec![("content", text("x")), ("validate_cmd", text("true % | cat"))], "needs a shell"),
        ("/a", vec![("owner", text("a:b"))], "neither a name nor a number"),
        ("/a", vec![("owner", text("4294967295"))], "`4294967295` is not an account number"),
        ("/a", vec![("group", Value::Integer(4_294_967_295))], "`4294967295` is not an account number"),
        ("/a", vec![("source", text("/a/"))], "the source is the file itself"),
        ("/a/b", vec![("source", text("/a")), ("recurse", yes())], "lies within its source"),
        ("/a/b", vec![("source", text("/")), ("recurse", yes())], "lies within its source"),
        ("/a", vec![("source", text("/a/b")), ("recurse", yes()), ("purge", yes())], "would be removed"),
    ];
    for (name, attributes, expected) in table {
        let should: Attributes = attributes.into_iter().collect();
        let problems = FileProvider::new().validate(name, &should, &[]);
        let told: Vec<_> = problems.iter().map(ToString::to_string).collect();
        assert!(told.iter().any(|problem| problem.contains(expected)), "{expected}: {told:?}");
        assert!(problems.iter().all(|problem| problem.hint.is_some()), "{told:?}");
    }
}

#[test]
fn unknown_content_counts_as_declared() {
    let should: Attributes = [("source", "/b")].into_iter().collect();
    let problems = FileProvider::new().validate("/a", &should, &["content"]);
    assert!(problems[0].message.contains("exclude each other"), "{problems:?}");
    assert_eq!(problems_of_nothing(), [""; 0]);
}

fn problems_of_nothing() -> Vec<String> {
    problems("/a", [])
}

#[test]
fn equivalent_declarations_canonicalize_equally() {
    let declared = file("/a/", [("path", text("/a/")), ("mode", text("755")), ("owner", Value::from(0))]);
    assert_eq!(declared.should.text("path"), Some("/a"));
    assert_eq!(declared.should.text("mode"), Some("0755"));
    assert_eq!(declared.should.text("owner"), Some("0"));
    assert_eq!(declared.should.text("ensure"), Some("present"));
    let ensure = |declared: DeclaredFile| declared.should.text("ensure").map(str::to_owned).unwrap();
    assert_eq!(ensure(file("/a", [("content", text("x"))])), "file");
    assert_eq!(ensure(file("/a", [("ensure", text("present")), ("content", text("x"))])), "file");
    assert_eq!(ensure(file("/a", [("target", text("x"))])), "link");
    assert_eq!(ensure(file("/a", [("source", text("/b")), ("recurse", yes())])), "directory");
}

#[test]
fn a_file_comes_after_its_directory_mount_owner_group_and_source() {
    let declared = file("/a/b", [("owner", text("app")), ("group", text("7")), ("source", text("/src/"))]);
    let mut edges = Vec::new();
    FileProvider::new().auto_edges(&declared.name, &declared.should, &mut |edge| {
        edges.push(format!("{}[{}] {:?}", edge.type_name, edge.name, edge.by));
    });
    let expected = [
        "file[/a/b] Ancestor",
        "mount[/a/b] Ancestor",
        "vcsrepo[/a/b] Ancestor",
        "archive[/a/b] Ancestor",
        "user[app] Name",
        "group[7] Number",
        "file[/src] Name",
    ];
    assert_eq!(edges, expected);
}

#[test]
fn trailing_slash_of_path_is_removed() {
    let mut said = Vec::new();
    FileProvider::new().identities("/a/", &Attributes::new(), &mut |name| said.push(name.to_owned()));
    assert_eq!(said, ["/a"]);
}

#[test]
fn every_attribute_is_described() {
    let provider = FileProvider::new();
    for attribute in &provider.schema().attributes {
        assert!(attribute.desc.len() > 20, "{}", attribute.name);
    }
}

#[test]
fn a_sensitive_account_is_a_name_or_a_number_like_any_other() {
    let canonical = |owner: Value| {
        let mut should: Attributes = [("owner", owner)].into_iter().collect();
        assert_eq!(FileProvider::new().validate("/a", &should, &[]), []);
        canonicalize_one(&FileProvider::new(), &Context::empty(), &mut "/a".into(), &mut should).unwrap();
        should.get("owner").cloned().unwrap()
    };
    for owner in [Value::Integer(7), text("7"), text("007")] {
        assert_eq!(canonical(Value::sensitive(owner)), Value::sensitive(text("7")));
    }
    assert_eq!(canonical(Value::sensitive(text("daemon"))), Value::sensitive(text("daemon")));
    let edges_of = |owner: Value| {
        let should: Attributes = [("owner", owner)].into_iter().collect();
        let mut names = Vec::new();
        let mut note = |edge: AutoEdge<'_>| names.extend((edge.by != Match::Ancestor).then(|| edge.name.to_owned()));
        FileProvider::new().auto_edges("/a", &should, &mut note);
        names
    };
    assert_eq!(edges_of(Value::sensitive(text("daemon"))), ["daemon"]);
    for owner in [text("7"), text("007"), Value::Integer(7), Value::sensitive(text("7"))] {
        assert_eq!(edges_of(owner), ["7"]);
    }
}
