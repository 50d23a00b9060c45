//! Guards with expected output, or with their own settings.

use super::*;

#[test]
fn guard_compares_declared_output() {
    let bench = ExecFixture::new();
    let says = "printf 'one\\n\\n'; printf 'two\\n' >&2";
    for (key, text, exact, holds) in [
        ("stdout", "one", false, true),
        ("stdout", "one\n", false, true),
        ("stdout", "one\n\n", true, true),
        ("stdout", "one\n", true, false),
        ("stdout", "one two", false, false),
        ("stdout", "", false, false),
        ("output", "one\n\ntwo", false, true),
        ("output", "one", false, false),
        ("not_stdout", "one", false, false),
        ("not_stdout", "two", false, true),
        ("not_output", "one\n\ntwo\n", true, false),
        ("not_output", "one\n\ntwo", true, true),
    ] {
        let entries =
            [("command", Value::from(says)), ("shell", true.into()), (key, text.into()), ("exact", exact.into())];
        let asks = |attribute: &str| {
            !bench.check(&should(&[("command", "true".into()), (attribute, mapping(&entries))])).is_empty()
        };
        assert_eq!((asks("onlyif"), asks("unless")), (holds, !holds), "{key} {text:?} {exact}");
    }
}

#[test]
fn failed_guard_ignores_output() {
    let bench = ExecFixture::new();
    for key in ["stdout", "not_stdout", "not_output"] {
        let entries = [("command", "sh -c 'echo a; exit 1'".into()), (key, "a".into())];
        let onlyif = should(&[("command", "true".into()), ("onlyif", mapping(&entries))]);
        assert_eq!(bench.check(&onlyif), [], "{key}");
        let unless = should(&[("command", "true".into()), ("unless", mapping(&entries))]);
        assert!(why(&bench, &unless).ends_with("(unless) fails"), "{key}");
    }
}

fn why(bench: &ExecFixture, should: &Attributes) -> EcoString {
    bench.check(should)[0].message.clone().unwrap()
}

#[test]
fn plan_shows_found_and_declared_guard_output() {
    let bench = ExecFixture::new();
    let asked = |attribute: &str, says: &str, key: &str, text: Value| {
        let entries = [("command", Value::strings(["printf", says])), (key, text)];
        why(&bench, &should(&[("command", "true".into()), (attribute, mapping(&entries))]))
    };
    assert_eq!(asked("unless", "1.1", "stdout", "1.2".into()), "`printf 1.1` (unless) prints `1.1`, not `1.2`");
    assert_eq!(asked("unless", "1.1", "not_stdout", "1.1".into()), "`printf 1.1` (unless) prints `1.1`");
    assert_eq!(asked("onlyif", "1.1", "stdout", "1.1".into()), "`printf 1.1` (onlyif) prints `1.1`");
    assert!(asked("onlyif", "", "not_output", "a\nb".into()).ends_with("prints nothing, not `a\\nb`"));
    let long = asked("unless", &"x".repeat(99), "stdout", "".into());
    assert!(long.ends_with(&format!("prints `{}…`, not nothing", "x".repeat(60))), "{long}");
    let secret = asked("unless", "near hunter1", "stdout", Value::sensitive("hunter2".into()));
    assert!(secret.ends_with("prints another text than the declared one"), "{secret}");
    let entries = [("command", "echo here".into()), ("not_stdout", "".into())];
    let silent = should(&[("command", "true".into()), ("onlyif", mapping(&entries)), ("logoutput", false.into())]);
    assert!(why(&bench, &silent).ends_with("prints another text than the declared one"));
}

#[test]
fn flooding_guard_differs_from_declared_output() {
    let bench = ExecFixture::new();
    let flood = |count: &str| {
        let entries = [("command", Value::strings(["head", "-c", count, "/dev/zero"])), ("output", "x".into())];
        why(&bench, &should(&[("command", "true".into()), ("unless", mapping(&entries))]))
    };
    assert!(flood("30000000").ends_with("…`, not `x`"));
    // The rest of a truncated secret could not be recognised.
    let secret = "s".repeat(9999);
    let entries = [("command", "printenv SECRET".into()), ("stdout", "x".into())];
    let wanted = should(&[("command", "true".into()), ("unless", mapping(&entries))]);
    let environment = mapping(&[("SECRET", Value::sensitive(secret.into()))]);
    let told = why(&bench, &with(wanted, "environment", environment));
    assert!(!told.contains("sss"), "{told}");
}

#[test]
fn guard_with_missing_own_cwd_requires_the_command() {
    let bench = ExecFixture::new();
    let (missing, cwd) = (bench.path("missing"), bench.path("cwd"));
    let entries = |cwd: &str| mapping(&[("command", "true".into()), ("cwd", cwd.into())]);
    let wanted = should(&[("command", Value::strings(["mkdir", &missing])), ("unless", entries(&missing))]);
    assert_eq!(why(&bench, &wanted), format!("its working directory {missing} does not exist yet"));
    assert!(bench.set(&wanted).is_done());
    assert_eq!(bench.check(&wanted), []);
    // The command's own directory does not affect the guard.
    assert_eq!(bench.check(&with(with(sh("true"), "cwd", cwd), "unless", entries("/"))), []);
}

#[test]
fn combined_guard_output_keeps_order() {
    let bench = ExecFixture::new();
    let entries =
        [("command", Value::strings(["sh", "-c", "echo a; echo b >&2; echo c"])), ("output", "a\nb\nc".into())];
    for _ in 0..50 {
        assert_eq!(bench.check(&should(&[("command", "true".into()), ("unless", mapping(&entries))])), []);
    }
}

#[test]
fn secret_split_by_other_stream_is_redacted() {
    let bench = ExecFixture::new();
    let says = "printf %s \"$1\"; sleep 0.05; echo warn >&2; sleep 0.05; printf '%s\\n' \"$2\"";
    let says = |more: &str| Value::strings(["sh", "-c", &format!("{says}{more}"), "x", "hunter2se", "cretword"]);
    let environment = mapping(&[("SECRET", Value::sensitive("hunter2secretword".into()))]);
    let entries = [("command", says("")), ("output", "ok".into())];
    let guarded = should(&[("command", "true".into()), ("unless", mapping(&entries))]);
    assert!(
        why(&bench, &with(guarded, "environment", environment.clone()))
            .ends_with("prints another text than the declared one")
    );
    let loud = should(&[("command", says("")), ("logoutput", true.into()), ("environment", environment)]);
    let notes = bench.set(&loud).notes.join("\n");
    assert!(notes.contains("[redacted]") && !notes.contains("hunter"), "{notes}");
}

#[test]
fn sensitive_guard_is_redacted_in_every_form() {
    let bench = ExecFixture::new();
    let whole = mapping(&[("command", "no-such-hunter2".into()), ("cwd", "/".into())]);
    for unless in [Value::sensitive("no-such-hunter2 -x".into()), Value::sensitive(whole)] {
        let error = bench.checked(&should(&[("command", "true".into()), ("unless", unless)])).unwrap_err().to_string();
        assert!(error.contains("[redacted]") && !error.contains("hunter2"), "{error}");
    }
}
