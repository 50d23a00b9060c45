use super::*;
use crate::convention::ErrorKind;

#[test]
fn header_must_be_first_line() {
    for text in ["# Simple\n", "#simple\n", "---\n", "# simple x\n", "name: a\n# simple\n"] {
        let first = text.lines().next().unwrap();
        assert_eq!(refused(text), format!("line 1 of its output is `{first}`: the first line must be `# simple`"));
    }
}

#[test]
fn space_and_empty_lines_around_the_header_do_not_matter() {
    assert_eq!(list("\n\n  # simple  \nname: a\nv: 1\n"), "a(v=1)");
}

#[test]
fn empty_output_is_an_error() {
    assert_eq!(refused(""), "it printed nothing, where `# simple` is expected");
    assert_eq!(refused("\n \n"), "it printed nothing, where `# simple` is expected");
}

#[test]
fn the_header_alone_is_an_empty_list() {
    assert_eq!(list("# simple\n"), "");
    assert_eq!(list("# simple"), "");
    assert_eq!(found("a", "# simple\n"), Ok(Vec::new()));
}

#[test]
fn a_line_without_colon_is_refused_with_its_number() {
    assert_eq!(
        refused("# simple\n\nname: a\nv 1\n"),
        "line 4 of its output is `v 1`: a line is `KEY: VALUE`, but this line has no `:`"
    );
    assert_eq!(refused("# simple\n: v\n"), "line 2 of its output is `: v`: the key before the `:` is missing");
}

#[test]
fn empty_lines_and_carriage_returns_are_ignored() {
    assert_eq!(list("# simple\r\n\r\nname: a\r\nv: 1\r\n\r\nname: b\r\n"), "a(v=1) b()");
}

#[test]
fn the_last_line_needs_no_end() {
    assert_eq!(list("# simple\nname: a\nv: 1"), "a(v=1)");
}

#[test]
fn a_key_ends_at_the_first_colon_without_the_space_around_it() {
    assert_eq!(list("# simple\nname: a\n  v : x\n"), "a(v=x)");
    assert_eq!(list("# simple\nname: a\nV: x\nv: y\n"), "a(V=x|v=y)");
}

#[test]
fn a_value_is_the_rest_of_the_line_without_the_space_around_it() {
    assert_eq!(list("# simple\nname: a\nv:   x y  \t\n"), "a(v=x y)");
    assert_eq!(list("# simple\nname: a\nv: x:y: z\n"), "a(v=x:y: z)");
    assert_eq!(list("# simple\nname: a\nv:\nw:x\n"), "a(v=|w=x)");
    assert_eq!(list("# simple\nname: a: b\n"), "a: b()");
    assert_eq!(list("# simple\nname: a\nv: \u{a0}é\u{a0}\n"), "a(v=\u{a0}é\u{a0})");
}

#[test]
fn an_attribute_before_any_name_is_refused_in_lists_and_finds() {
    let why = "line 2 of its output is `v: 1`: attributes come after the `name:` of their resource";
    assert_eq!(refused("# simple\nv: 1\nname: a\n"), why);
    assert_eq!(found("a", "# simple\nv: 1\n").unwrap_err().to_string(), why);
}

#[test]
fn a_resource_without_a_name_is_refused() {
    assert_eq!(refused("# simple\nname:\nv: 1\n"), "line 2 of its output is `name:`: a resource has no name");
}

#[test]
fn repeated_attribute_keeps_last_value_with_warning() {
    let records = listed("# simple\nname: a\nv: 1\nw: 2\nv: 3\n").unwrap();
    assert_eq!(short(&records), "a(v=3|w=2)");
    assert_eq!(records[0].repeated, ["v"]);
}

#[test]
fn different_resources_of_one_name_are_refused() {
    assert_eq!(refused("# simple\nname: a\nv: 1\nname: a\nv: 2\n"), "it gave two different resources the name `a`");
    assert_eq!(list("# simple\nname: a\nv: 1\nname: b\nname: a\nv: 1\n"), "a(v=1) b()");
    assert!(found("a", "# simple\nname: a\nv: 1\nname: a\nv: 2\n").is_err());
}

#[test]
fn undeclared_attributes_are_kept_as_texts() {
    assert_eq!(list("# simple\nname: a\nnosuch: 1\nral_foo: 2\n"), "a(nosuch=1|ral_foo=2)");
}

#[test]
fn attributes_may_come_in_another_order_in_each_resource() {
    assert_eq!(
        list("# simple\nname: a\nv: 1\nw: 2\nname: b\nw: 3\nx: 4\nv: 5\nname: c\nv: 6\n"),
        "a(v=1|w=2) b(w=3|x=4|v=5) c(v=6)"
    );
}

#[test]
fn unknown_marker_is_read() {
    assert_eq!(list("# simple\nname: a\nral_unknown: true\nname: b\nral_unknown: false\n"), "a!() b()");
    let records = found("a", "# simple\nname: a\nral_unknown: true\n").unwrap();
    let error = records[0].error.as_ref().unwrap();
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Unknown, "`a` does not exist and cannot be created"));
}

#[test]
fn find_returns_the_requested_name() {
    assert_eq!(short(&found("a", "# simple\nname: a\nv: 1\n").unwrap()), "a(v=1)");
    assert_eq!(short(&found("a", "# simple\nname: b\nname: a\nv: 1\n").unwrap()), "a(v=1)");
    let error = found("ssh.service", "# simple\nname: ssh\n").unwrap_err();
    assert_eq!(error.to_string(), "it returned `ssh` for the request for `ssh.service`");
    assert_eq!(short(&found("a", "# simple\nname: a\nensure: absent\n").unwrap()), "a(ensure=absent)");
    // The name of an unknown resource does not matter.
    assert_eq!(short(&found("a.service", "# simple\nname: a\nral_unknown: true\n").unwrap()), "a.service!()");
}

#[test]
fn error_overrides_other_output() {
    let message = "# simple\nname: a\nral_error: bad things\nmore detail\n\nthe end\nral_eom\nname: b\n";
    assert_eq!(refused(message), "bad things\nmore detail\n\nthe end");
    assert_eq!(refused("ral_error: before the header\nral_eom\n"), "before the header");
    assert_eq!(refused("# simple\nno colon\nral_error: x\nral_eom\n"), "x");
    assert_eq!(refused("# simple\nral_error:\nral_eom\n"), "it failed without a reason");
    assert_eq!(refused("  ral_error : x  \n  ral_eom  \n"), "x");
}

#[test]
fn unterminated_error_is_an_error() {
    assert_eq!(refused("# simple\nname: a\nral_error: half"), "half (the message does not end with ral_eom)");
}

#[test]
fn empty_error_key_is_not_an_error() {
    assert_eq!(list("# simple\nname: a\nv: ral_error: x\n"), "a(v=ral_error: x)");
    assert_eq!(list("# simple\nname: a\nral_errors: x\n"), "a(ral_errors=x)");
}

#[test]
fn failed_process_output_is_ignored() {
    let decode = |code, text: &str| simple().decode(&Request::List, &ended(code, text)).unwrap_err().to_string();
    assert_eq!(decode(3, "# simple\nname: a\n"), "it failed with exit code 3");
    assert_eq!(decode(1, "ral_error: said\nral_eom\n"), "said");
    assert_eq!(decode(1, "ral_error: not implemented\n"), "not implemented (the message does not end with ral_eom)");
    let mut killed = ended(0, "# simple\n");
    killed.status = Status::Signal(9);
    assert_eq!(simple().decode(&Request::List, &killed).unwrap_err().to_string(), "it failed with signal 9");
    for (ending, why) in [
        (Termination::Deadline, "it did not reply in time and was ended"),
        (
            Termination::OutputLimit,
            "it was ended because it exceeded the output limit: 9 bytes (`output` in its metadata allows more)",
        ),
        (Termination::Cancelled, "it was ended because the run was interrupted"),
    ] {
        let finished = Output { ending, ..ended(0, "# simple\n") };
        assert_eq!(simple().decode(&Request::List, &finished).unwrap_err().to_string(), why);
    }
}

#[test]
fn invalid_utf8_is_refused_with_line() {
    assert_eq!(refused(b"# simple\nname: \xff\n"), "line 2 of its output is not UTF-8 (byte 0xff)");
    assert_eq!(refused(b"# simple\nname: a\nv: x\0y\n"), "line 3 of its output holds a NUL byte");
}

#[test]
fn long_line_is_shown_shortened_and_escaped() {
    let told = refused(format!("# simple\n\u{1b}[2J{}\n", "x".repeat(1000)));
    assert!(told.contains("`\u{fffd}[2Jxxx") && told.contains("x…`") && told.len() < 250, "{told}");
}
