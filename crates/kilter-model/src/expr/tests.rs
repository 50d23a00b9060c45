//! Tests of the whole language, from text to value.

use super::*;

struct ExampleScope;

impl Scope for ExampleScope {
    fn var(&self, name: &str) -> Lookup {
        Lookup::Found(match name {
            "port" => Value::Integer(8080),
            "ratio" => Value::Float(0.5),
            "name" => "web".into(),
            "on" => Value::Boolean(true),
            "none" => Value::Undef,
            "list" => Value::strings(["a", "b"]),
            "map" => Value::hash([("key", Value::from("value")), ("secret", Value::sensitive("s3cret".into()))]),
            "secret" => Value::sensitive("s3cret".into()),
            "dark" => Value::sensitive(Value::Boolean(true)),
            "number" => Value::sensitive(Value::Integer(7)),
            _ => return Lookup::Missing,
        })
    }

    fn fact(&self, name: &str) -> Lookup {
        match name {
            "os" => Lookup::Found(Value::hash([
                ("family", Value::from("debian")),
                ("release", Value::hash([("major", Value::from("12"))])),
            ])),
            _ => Lookup::Missing,
        }
    }

    fn output(&self, _: &ResourceRef, _: &str) -> Lookup {
        Lookup::Unknown("after exec[token] has run".into())
    }

    fn var_names(&self) -> Vec<EcoString> {
        vec!["port".into(), "name".into()]
    }
}

/// Evaluates an expression and checks its static type.
fn value(text: &str) -> Value {
    let expr = Expr::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    let value = expr.eval(&ExampleScope).unwrap_or_else(|e| panic!("{text}: {e}"));
    let data_type = kind::data_type(&expr.root, &|_, _| DataType::Any);
    assert!(data_type.accepts(&value), "{text}: {value} is no {data_type}");
    value
}

fn refused(text: &str) -> (String, Range<u32>, String) {
    match Expr::parse(text) {
        Err(e) => (e.message.to_string(), e.at, e.hint.unwrap_or_default().to_string()),
        Ok(expr) => match expr.eval(&ExampleScope) {
            Err(EvalError::Failed { message, at, hint }) => {
                (message.to_string(), at, hint.unwrap_or_default().to_string())
            }
            other => panic!("{text}: {other:?}"),
        },
    }
}

fn rendered(text: &str) -> Value {
    Template::parse(text).unwrap().render(&ExampleScope).unwrap()
}

#[test]
fn expressions_have_the_values_of_cel() {
    for (text, wanted) in [
        ("1 + 2 * 3", Value::Integer(7)),
        ("(1 + 2) * 3", Value::Integer(9)),
        ("7 / 2", Value::Integer(3)),
        ("-7 % 3", Value::Integer(-1)),
        ("1 + 0.5", Value::Float(1.5)),
        ("0x1f", Value::Integer(31)),
        ("1e3", Value::Float(1000.0)),
        ("\"a\" + 'b'", "ab".into()),
        (r#""tab\t\x41\u00e9\"""#, "tab\tA\u{e9}\"".into()),
        (r#"r"\d""#, "\\d".into()),
        ("[1] + [2]", Value::array([Value::Integer(1), Value::Integer(2)])),
        ("{'a': 1}.a", Value::Integer(1)),
        ("{'a': [1, 2]}['a'][1]", Value::Integer(2)),
        ("vars.port", Value::Integer(8080)),
        ("vars[\"port\"]", Value::Integer(8080)),
        ("facts.os.release.major", "12".into()),
        ("facts.os['family'] == \"debian\"", true.into()),
        ("1 == 1.0", true.into()),
        ("null == vars.port", false.into()),
        ("'b' > 'a' && 2 >= 2 && 1 < 1.5 && !(1 <= 0)", true.into()),
        ("'a' in vars.list", true.into()),
        ("'key' in vars.map", true.into()),
        ("vars.on ? 'yes' : 'no'", "yes".into()),
        ("false ? 1 : true ? 2 : 3", Value::Integer(2)),
        ("size('äb') + size(vars.list) + vars.map.size()", Value::Integer(6)),
        ("has(facts.os.name)", false.into()),
        ("has(facts.nothing.at.all)", false.into()),
        ("has(facts.os.family)", true.into()),
        ("default(vars.missing, 3)", Value::Integer(3)),
        ("default(vars.none, 3)", Value::Integer(3)),
        ("default(facts.os.family, 'x')", "debian".into()),
        ("string(12) + string(true) + string(1.5)", "12true1.5".into()),
        ("int('42') + int(1.9)", Value::Integer(43)),
        ("double('1.5')", Value::Float(1.5)),
        ("versioncmp('1.10', '1.9')", Value::Integer(1)),
        ("'abc'.startsWith('a') && 'abc'.endsWith('c') && 'abc'.contains('b')", true.into()),
        (r#"'abc12'.matches(r'^[a-c]+\d{2}$')"#, true.into()),
        ("' aB '.trim().upperAscii() + 'X'.lowerAscii()", "ABx".into()),
        ("'a,b'.split(',')", Value::strings(["a", "b"])),
        ("['a', 'b', 1].join('-')", "a-b-1".into()),
        ("'a.b'.replace('.', '/')", "a/b".into()),
    ] {
        assert_eq!(value(text), wanted, "{text}");
    }
}

#[test]
fn expression_error_has_place_and_hint() {
    for (text, message, at, hint) in [
        ("vars.prot", "there is no variable `prot`", 0..9, "did you mean `vars.port`?"),
        ("facts.os.famly", "there is no `famly`", 0..14, "did you mean `family`?"),
        ("1 == 'a'", "a number is never equal to a text", 0..8, "int(x)"),
        ("'a' + 1", "a number cannot be added to a text", 0..7, "string(x)"),
        ("1 +", "the expression ends, expected a value", 3..3, ""),
        ("1 = 1", "unexpected `=`", 2..3, "`==` compares"),
        ("true and false", "unexpected `and`", 5..8, "`&&` means and"),
        ("debian", "`debian` names no variable, fact or output", 0..6, "\"debian\""),
        ("fact.os", "`fact` names no", 0..4, "did you mean `facts`?"),
        ("vars", "`vars` is not followed by a name", 0..4, "vars.NAME"),
        ("sizee('a')", "unknown function `sizee`", 0..5, "did you mean `size`?"),
        ("'a'.startWith('a')", "unknown method `startWith`", 4..13, "did you mean `startsWith`?"),
        ("size()", "wrong number of arguments", 0..6, "size(x)"),
        ("exec[token]", "`exec[token]` is not followed by the name of an output", 0..11, ".OUTPUT"),
        ("Exec[token].stdout", "`Exec` is not the name of a type", 0..11, ""),
        ("'abc", "the text has no closing quote", 0..4, ""),
        (r#""\q""#, "`\\q` is not an escape", 1..3, "r\"…\""),
        ("1 / 0", "division by zero", 0..5, ""),
        ("9223372036854775807 + 1", "the number does not fit in 64 bits", 0..23, ""),
        ("99999999999999999999", "is not a number of 64 bits", 0..20, ""),
        ("vars.list[2]", "the list has 2 elements, counted from 0", 0..12, ""),
        ("vars.port ? 1 : 2", "a number is not a boolean", 0..9, "compare it"),
        ("'a'.matches('(')", "the regular expression does not work", 0..16, ""),
        ("(1 2)", "unexpected `2`, expected `)`", 3..4, ""),
        ("'a' in 'abc'", "`in` looks into a list or a map", 0..12, "contains"),
        ("has(1)", "has() takes a name", 4..5, ""),
    ] {
        let (found, place, advice) = refused(text);
        assert!(found.contains(message), "{text}: {found}");
        assert_eq!(place, at, "{text}: {found}");
        assert!(advice.contains(hint), "{text}: {advice}");
    }
}

#[test]
fn whole_template_expression_keeps_its_type() {
    assert_eq!(rendered("${vars.port}"), Value::Integer(8080));
    assert_eq!(rendered("${vars.list}"), Value::strings(["a", "b"]));
    assert_eq!(rendered("port ${vars.port}, ${vars.on}, ${ {'a': '}'}.a }!"), "port 8080, true, }!".into());
    assert_eq!(rendered("$HOME $5 $$ $(x) $${NAME} $"), "$HOME $5 $$ $(x) ${NAME} $".into());
    assert_eq!(rendered("$${NAME} ${vars.name}"), "${NAME} web".into());
    assert!(Template::parse("a $b").unwrap().is_literal());
    assert!(Template::parse("a $${b}").unwrap().is_literal());
    assert_eq!(Template::parse("a ${vars.b}").unwrap().source(), Some("a ${vars.b}"));
}

#[test]
fn shell_text_is_refused_with_advice() {
    for text in ["${HOME}", "echo ${x:-1}", "${1}", "${#array}", "${@}", "${}"] {
        let error = Template::parse(text).unwrap_err();
        assert!(error.hint.clone().unwrap_or_default().contains("$${"), "{text}: {error:?}");
    }
    assert_eq!(Template::parse("a ${vars.x").unwrap_err().at, 2..4);
    let list = Template::parse("x ${vars.list}").unwrap().render(&ExampleScope).unwrap_err();
    assert!(
        matches!(&list, EvalError::Failed { at, hint: Some(hint), .. } if *at == (4..13) && hint.contains("join")),
        "{list:?}"
    );
}

#[test]
fn a_reference_takes_its_title_as_it_is_written() {
    let template = Template::parse("${exec[test [ -e '}' ] \" x].stdout} ${db::user[a].uid}").unwrap();
    let shown: Vec<String> = template.references().iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["exec[test [ -e '}' ] \" x]", "db::user[a]"]);
    let mut outputs = Vec::new();
    template.names(&mut |name, at| {
        if let Name::Output(_, output) = name {
            outputs.push((output.to_string(), at));
        }
    });
    assert_eq!(outputs, [("stdout".to_owned(), 2..34), ("uid".to_owned(), 38..53)]);
}

#[test]
fn unknown_value_propagates_only_if_needed() {
    for text in ["false && exec[a].x == 1", "exec[a].x == 1 && false", "!(true || exec[a].x == 1)"] {
        assert_eq!(value(text), false.into(), "{text}");
    }
    for text in ["true && exec[a].x == 1", "exec[a].x == 1 || false", "default(exec[a].x, 1)", "exec[a].x ? 1 : 2"] {
        let error = Expr::parse(text).unwrap().eval(&ExampleScope).unwrap_err();
        assert_eq!(error.to_string(), "known after exec[token] has run", "{text}");
    }
}

#[test]
fn template_sensitivity_is_known_before_evaluation() {
    let open = || Template::parse("${vars.secret}").unwrap();
    let literal = || Template::value(Value::sensitive("x".into()));
    for sealed in [
        open().sealed(),
        literal(),
        Template::array(vec![open(), open().sealed()]),
        Template::hash(vec![("open".into(), open()), ("sealed".into(), literal())]),
    ] {
        assert!(sealed.is_sealed(), "{sealed:?}");
    }
    for open in
        [open(), Template::value("x".into()), Template::array(vec![open()]), Template::parse("a ${facts.os}").unwrap()]
    {
        assert!(!open.is_sealed(), "{open:?}");
    }
}

#[test]
fn operators_and_functions_keep_sensitivity() {
    for text in [
        "vars.secret",
        "vars.secret + 'x'",
        "'x' + vars.secret",
        "[vars.secret].join('')",
        "vars.secret == 's3cret'",
        "[vars.secret] == ['s3cret']",
        "'s3cret' in [vars.secret]",
        "vars.secret in ['s3cret']",
        "vars.secret < 'x'",
        "-vars.number",
        "vars.number * 2",
        "!vars.dark",
        "vars.dark && true",
        "vars.dark || false",
        "vars.dark ? 1 : 2",
        "size(vars.secret)",
        "string(vars.number)",
        "int(vars.number)",
        "double(vars.number)",
        "default(vars.secret, 'x')",
        "vars.secret.split('3')",
        "vars.secret.startsWith('s')",
        "vars.secret.matches('s')",
        "'s3cret'.contains(vars.secret)",
        "vars.secret.trim().upperAscii().lowerAscii()",
        "vars.secret.replace('s', 'x')",
        "'x'.replace('x', vars.secret)",
        "versioncmp(vars.secret, '1')",
        "{vars.secret: 1}",
        "{'s3cret': 1}[vars.secret]",
        "vars.list[vars.number - 7]",
        "vars.map.secret",
        "vars.map['secret']",
    ] {
        assert!(matches!(value(text), Value::Sensitive(_)), "{text}");
    }
    assert!(matches!(rendered("password=${vars.secret}"), Value::Sensitive(_)));
    assert!(!value("vars.map.key").holds_sensitive());
    for text in ["int(vars.secret)", "vars.secret + 1", "vars.secret - 1", "vars.map[vars.secret]", "vars.secret.x"] {
        let (message, _, hint) = refused(text);
        assert!(!message.contains("s3cret") && !hint.contains("s3cret"), "{text}: {message} {hint}");
    }
}

#[test]
fn hostile_expression_is_an_error() {
    let deep = 100_000;
    for text in [
        "(".repeat(deep),
        "[".repeat(deep),
        "{'a':".repeat(deep),
        "!".repeat(deep),
        "-".repeat(deep),
        format!("1{}", " + 1".repeat(deep)),
        format!("vars.a{}", ".b".repeat(deep)),
        format!("vars.a{}", "[0]".repeat(deep)),
        "true ? ".repeat(deep),
        format!("{}1", "true ? 1 : ".repeat(deep)),
        "size(".repeat(deep),
        format!("'a'{}", ".trim()".repeat(deep)),
    ] {
        assert!(Expr::parse(&text).is_err(), "{}", &text[..20]);
    }
    let (message, ..) = refused("'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab'.matches(r'^(a|aa|a)*\\1c$')");
    assert!(message.contains("regular expression"), "{message}");
}

#[test]
fn random_text_never_panics() {
    let words = [
        "vars", ".", "a", "[", "]", "(", ")", "{", "}", "\"", "'", "\\", "1", "0x", "1e", "-", "!", "?", ":", "::",
        "in", " ", "exec", "ä", "${", "$", "has", "size", ",", "&&", "|", "r\"", "é", "\u{0}",
    ];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..20_000 {
        let mut text = String::new();
        for _ in 0..12 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            text.push_str(words[(state % words.len() as u64) as usize]);
        }
        let _ = Expr::parse(&text).map(|expr| expr.eval(&ExampleScope));
        let _ = Template::parse(&text).map(|template| template.render(&ExampleScope));
    }
}

#[test]
fn template_type_is_inferred_before_evaluation() {
    let sent = |_: &ResourceRef, output: &str| match output {
        "stdout" => DataType::text(),
        "exit_code" => DataType::Integer(None, None),
        _ => DataType::Any,
    };
    for (text, wanted) in [
        ("plain", "String"),
        ("${exec[x].stdout}", "String"),
        ("${exec[x].exit_code}", "Integer"),
        ("${exec[x].other}", "Any"),
        ("a ${exec[x].exit_code}", "String"),
        ("${int(exec[x].stdout)}", "Integer"),
        ("${double(exec[x].stdout)}", "Float"),
        ("${exec[x].exit_code == 0}", "Boolean"),
        ("${!(exec[x].stdout in vars.list)}", "Boolean"),
        ("${-exec[x].exit_code * 2}", "Numeric"),
        ("${exec[x].stdout.split(',')}", "Array[String]"),
        ("${exec[x].stdout.split(',')[0]}", "Any"),
        ("${vars.on ? exec[x].stdout : exec[x].exit_code}", "Variant[String, Integer]"),
        ("${default(exec[x].stdout, 1)}", "Variant[String, Integer]"),
        ("${{\"given\": (exec[x].stdout)}.given}", "String"),
        ("${{\"given\": (exec[x].stdout)}.other}", "Any"),
        ("${vars.port + exec[x].exit_code}", "Numeric"),
        ("${vars.name + ('-' + exec[x].stdout)}", "String"),
        ("${exec[x].stdout + 1}", "Any"),
        ("${exec[x].other + exec[x].other}", "Variant[Numeric, String, Array[Any]]"),
        ("${[exec[x].stdout]}", "Array[Any]"),
    ] {
        let wanted: DataType = wanted.parse().unwrap();
        let told = Template::parse(text).unwrap().data_type(&sent);
        assert!(wanted.accepts_type(&told) && told.accepts_type(&wanted), "{text}: {told}");
    }
    let sealed = Template::parse("${exec[x].stdout}").unwrap().sealed();
    assert!(sealed.data_type(&sent).is_sensitive());
}
