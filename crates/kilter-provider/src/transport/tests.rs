use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use kilter_model::{Behaviour, DataType, Value};

use super::*;
use crate::context::{Interrupt, Log};

fn key(name: &str, data_type: &str, default: Option<Value>) -> AttributeSchema {
    let data_type: DataType = data_type.parse().unwrap();
    let required = default.is_none() && data_type.check(&Value::Undef).is_err();
    AttributeSchema { default, required, ..AttributeSchema::new(name, data_type, Behaviour::Parameter, "") }
}

fn schema() -> TransportSchema {
    let connection_info = vec![
        key("host", "String", None),
        key("port", "Integer[1, 65535]", Some(Value::Integer(443))),
        key("user", "Optional[String]", None),
        key("password", "Sensitive[String[8]]", None),
    ];
    TransportSchema { name: "box".into(), desc: "A box".into(), connection_info }
}

fn info(password: &str) -> Attributes {
    [("host", "edge1"), ("password", password)].into_iter().collect()
}

/// Transport whose first attempts fail.
struct Fake {
    schema: TransportSchema,
    failures: Vec<TransportError>,
    attempts: AtomicUsize,
    closed: Arc<AtomicBool>,
    verified: Result<(), TransportError>,
}

impl Fake {
    fn new(failures: Vec<TransportError>) -> Fake {
        Fake { schema: schema(), failures, attempts: AtomicUsize::new(0), closed: Arc::default(), verified: Ok(()) }
    }
}

impl TransportType for Fake {
    fn schema(&self) -> &TransportSchema {
        &self.schema
    }

    fn connect(&self, _: &Context<'_>, _: &str, info: &Attributes) -> Result<Box<dyn Transport>, TransportError> {
        assert!(matches!(info.get("password"), Some(Value::Sensitive(_))), "the transport gets a marked secret");
        match self.failures.get(self.attempts.fetch_add(1, Ordering::Relaxed)) {
            Some(error) => Err(error.clone()),
            None => Ok(Box::new(FakeConnection(Arc::clone(&self.closed), self.verified.clone()))),
        }
    }
}

struct FakeConnection(Arc<AtomicBool>, Result<(), TransportError>);

impl Transport for FakeConnection {
    fn verify(&self, _: &Context<'_>) -> Result<(), TransportError> {
        self.1.clone()
    }

    fn facts(&self, _: &Context<'_>) -> Result<Hash, TransportError> {
        Ok(Hash::default())
    }

    fn close(&self, _: &Context<'_>) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[derive(Default)]
struct TransportLog(Mutex<Vec<String>>);

impl Log for TransportLog {
    fn log(&self, level: Level, type_name: &str, name: &str, message: &str) {
        self.0.lock().unwrap().push(format!("{} {type_name}[{name}]: {message}", level.word()));
    }
}

fn device(fake: Fake) -> (Device, Arc<Fake>) {
    let fake = Arc::new(fake);
    let kind = Arc::clone(&fake) as Arc<dyn TransportType>;
    (Device::new("edge1", kind, &info("hunter2secret")).unwrap(), fake)
}

#[test]
fn valid_connection_info_gets_defaults_and_marked_secrets() {
    let valid = schema().validate(&info("hunter2secret")).unwrap();
    assert_eq!(valid.get("port"), Some(&Value::Integer(443)));
    assert!(matches!(valid.get("password"), Some(Value::Sensitive(_))));
    assert_eq!((valid.text("host"), valid.get("user")), (Some("edge1"), None));
}

#[test]
fn all_problems_of_a_connection_info_are_reported_without_secrets() {
    let given: Attributes = [("hosst", "edge1"), ("port", "https"), ("password", "short")].into_iter().collect();
    let problems: Vec<String> = schema().validate(&given).unwrap_err().iter().map(ToString::to_string).collect();
    assert_eq!(problems[0], "hosst: the transport `box` has no such key (did you mean `host`?)");
    assert!(problems[1].starts_with("port: expects an Integer"), "{problems:?}");
    assert!(problems[2].starts_with("password: expects a Sensitive"), "{problems:?}");
    assert_eq!(problems[3], "host: is missing: the transport `box` needs it");
    assert!(!problems.iter().any(|problem| problem.contains("short")), "{problems:?}");
}

#[test]
fn reserved_keys_are_named() {
    for key in ["implementations", "name", "path", "query", "run-on", "remote-transport", "remote-x"] {
        assert!(TransportSchema::reserved(key).is_some(), "{key}");
    }
    for key in ["uri", "protocol", "host", "port", "user", "password", "names", "remote"] {
        assert_eq!(TransportSchema::reserved(key), None, "{key}");
    }
}

#[test]
fn transient_errors_are_retried_and_logged_at_notice() {
    let refused = || TransportError::transient("no answer, hunter2secret");
    let (device, fake) = device(Fake::new(vec![refused(), refused()]));
    let lines = TransportLog::default();
    let cx = Context::empty().with_log(&lines);
    assert!(device.connect_within(&cx, CONNECT_TIMEOUT, Duration::ZERO).is_ok());
    assert_eq!(fake.attempts.load(Ordering::Relaxed), 3);
    let line = "notice box[edge1]: no answer, [redacted]; retry in 0 s".to_owned();
    assert_eq!(*lines.0.lock().unwrap(), [line.clone(), line]);
}

#[test]
fn refused_login_is_not_retried_and_its_error_is_kept() {
    let (device, fake) = device(Fake::new(vec![TransportError::permanent("login with hunter2secret refused")]));
    for _ in 0..2 {
        let error = device.connect(&Context::empty()).err().unwrap();
        assert_eq!(error.message, "login with [redacted] refused");
    }
    assert_eq!(fake.attempts.load(Ordering::Relaxed), 1);
}

#[test]
fn retries_end_with_the_time_limit_or_an_interrupt() {
    let failures = vec![TransportError::transient("no answer"); 3];
    let (late, fake) = device(Fake::new(failures.clone()));
    assert!(late.connect_within(&Context::empty(), Duration::ZERO, Duration::ZERO).is_err());
    assert_eq!(fake.attempts.load(Ordering::Relaxed), 1);
    let (interrupted, fake) = device(Fake::new(failures));
    let raised = AtomicBool::new(true);
    let cx = Context::empty().with_interrupt(Interrupt::new(&raised, None));
    assert!(interrupted.connect(&cx).is_err());
    assert_eq!(fake.attempts.load(Ordering::Relaxed), 1);
}

#[test]
fn connection_that_fails_verification_is_closed() {
    let fake = Fake { verified: Err(TransportError::permanent("login refused")), ..Fake::new(Vec::new()) };
    let (device, fake) = device(fake);
    assert_eq!(device.connect(&Context::empty()).err().unwrap().message, "login refused");
    assert!(fake.closed.load(Ordering::Relaxed));
}

#[test]
fn context_without_device_has_no_transport() {
    let error = Context::empty().transport().err().unwrap();
    assert_eq!(error.message, "there is no device: name one with --on");
}

#[test]
fn device_is_connected_by_its_first_use_and_closed_once() {
    let (device, fake) = device(Fake::new(Vec::new()));
    device.close(&Context::empty());
    assert!(!fake.closed.load(Ordering::Relaxed), "there is no connection yet");
    let cx = Context::empty().with_device(Some(&device));
    assert!(cx.transport().is_ok() && cx.transport().is_ok());
    assert_eq!(fake.attempts.load(Ordering::Relaxed), 1);
    device.close(&cx);
    assert!(fake.closed.load(Ordering::Relaxed));
}
