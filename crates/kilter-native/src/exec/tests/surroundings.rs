//! Settings for all commands of a resource, and for single commands.

use super::*;

#[test]
fn further_command_has_its_own_settings() {
    let bench = ExecFixture::new();
    let own = bench.path("own");
    std::fs::create_dir(&own).unwrap();
    let log = bench.path("log");
    let here = |shell: Value| {
        mapping(&[("command", format!("pwd >> {log}").into()), ("cwd", own.clone().into()), ("shell", shell)])
    };
    let wanted = should(&[
        ("command", format!("sh -c 'pwd >> {log}'").into()),
        ("onlyif", here(true.into())),
        ("done", here("/bin/sh".into())),
        ("refresh", here("/bin/sh".into())),
    ]);
    assert_eq!(bench.provider.validate("work", &wanted, &[]), []);
    assert_eq!(bench.check(&wanted).len(), 1);
    assert!(bench.set_refreshing(&wanted, true).refreshed);
    assert_eq!(std::fs::read_to_string(&log).unwrap(), format!("{own}\n/\n{own}\n{own}\n"));
    let split = with(with(sh("true"), "cwd", "/"), "onlyif", here(false.into()));
    assert_eq!(bench.provider.validate("work", &split, &[]).len(), 1);
}

#[test]
fn stop_signal_ends_every_command() {
    let bench = ExecFixture::new();
    let log = bench.path("log");
    let waits = format!("trap 'echo hung up >> {log}; exit 0' USR1; while :; do sleep 0.01; done");
    let wanted = with(with(sh(waits.clone()), "timeout", Value::Float(0.3)), "stop_signal", "SIGUSR1");
    assert!(failure(&bench.set(&wanted)).contains("longer than 0.3 s"));
    assert!(bench.checked(&with(wanted, "unless", waits)).unwrap_err().to_string().contains("longer than 0.3 s"));
    assert_eq!(bench.lines("log"), 2);
}

#[test]
fn fallback_outputs_are_used_without_earlier_ones() {
    let provider = ExecProvider::new(System::real());
    let wanted = with(sh("true"), "fallback", mapping(&[("stdout", "none".into()), ("exit_code", Value::Integer(0))]));
    let sent = provider.default_outputs(&wanted);
    assert_eq!(
        (sent.text("stdout"), sent.get("exit_code"), sent.get("output")),
        (Some("none"), Some(&Value::Integer(0)), None)
    );
    assert_eq!(provider.default_outputs(&sh("true")), Attributes::new());
    let secret = with(wanted, "environment", mapping(&[("X", Value::sensitive("hunter2".into()))]));
    assert!(provider.default_outputs(&secret).get("stdout").unwrap().holds_sensitive());
}
