//! Transports: connections to devices that cannot run kilter (Puppet Resource API, "Transports").
//!
//! A [`TransportType`] connects to devices of one kind. Its [`TransportSchema`] describes the connection info: host,
//! user, password. A [`Device`] is one such device. Providers of its types reach it through
//! [`Context::transport`](crate::Context::transport).

use std::any::Any;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use ecow::{EcoString, eco_format};
use kilter_model::suggest::nearest;
use kilter_model::{AttributeSchema, Attributes, Hash};

use crate::context::{Context, Level};
use crate::contract::{ProviderError, ValidationError};
use crate::redact::Redactor;

/// Keys that no connection info has, because Bolt uses them for itself.
const RESERVED: [&str; 5] = ["implementations", "name", "path", "query", "run-on"];

/// Prefix of further reserved keys.
const RESERVED_PREFIX: &str = "remote-";

/// Maximum time for attempts to connect to a device.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Delay before the second attempt to connect. It doubles after each attempt.
const FIRST_DELAY: Duration = Duration::from_millis(500);

/// Interval of checks for an interrupt during a delay.
const INTERRUPT_POLL: Duration = Duration::from_millis(50);

/// Schema of a transport: its connection info.
#[derive(Clone, Debug, PartialEq)]
pub struct TransportSchema {
    /// Name of the transport.
    pub name: EcoString,
    /// Description in Markdown.
    pub desc: EcoString,
    /// Keys of the connection info. The type of a sensitive key is `Sensitive[…]`.
    pub connection_info: Vec<AttributeSchema>,
}

impl TransportSchema {
    /// Returns the reason why a key is not allowed in a connection info.
    pub fn reserved(key: &str) -> Option<EcoString> {
        let is_reserved = RESERVED.contains(&key) || key.starts_with(RESERVED_PREFIX);
        is_reserved.then(|| eco_format!("the key `{key}` is reserved"))
    }

    /// Returns the schema of a key.
    pub fn find(&self, key: &str) -> Option<&AttributeSchema> {
        self.connection_info.iter().find(|known| known.name == *key)
    }

    /// Validates a connection info. Returns it with defaults, and with sensitive values marked.
    ///
    /// # Errors
    /// All problems, without values of sensitive keys.
    pub fn validate(&self, given: &Attributes) -> Result<Attributes, Vec<ValidationError>> {
        let (mut valid, mut problems) = (Attributes::new(), Vec::new());
        for (key, value) in given.iter() {
            let Some(known) = self.find(key.as_str()) else {
                problems.push(self.unknown(key.as_str()));
                continue;
            };
            let value = known.data_type.sealed(value.clone());
            match known.data_type.check(&value) {
                Ok(()) => valid.push(key.clone(), value),
                Err(mismatch) => {
                    let seal = Redactor::of_values([&value]);
                    let message = seal.redact(eco_format!("{mismatch}"));
                    problems.push(ValidationError::with(key.as_str(), message));
                }
            }
        }
        for known in self.connection_info.iter().filter(|known| given.get(known.name.as_str()).is_none()) {
            match &known.default {
                Some(default) => valid.push(known.name.clone(), known.data_type.sealed(default.clone())),
                None if !known.required => {}
                None => {
                    let message = eco_format!("is missing: the transport `{}` needs it", self.name);
                    problems.push(ValidationError::with(known.name.as_str(), message));
                }
            }
        }
        if problems.is_empty() { Ok(valid) } else { Err(problems) }
    }

    fn unknown(&self, key: &str) -> ValidationError {
        let known: Vec<&str> = self.connection_info.iter().map(|known| known.name.as_str()).collect();
        let hint = match nearest(key, known.iter().copied()) {
            Some(near) => eco_format!("did you mean `{near}`?"),
            None => eco_format!("its keys are {}", known.join(", ")),
        };
        let problem = ValidationError::with(key, eco_format!("the transport `{}` has no such key", self.name));
        problem.hint(hint)
    }
}

/// Error of a transport.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TransportError {
    /// The failed operation and the reason.
    pub message: EcoString,
    /// True if another attempt may succeed, because the device did not answer. A refused login is permanent.
    pub is_transient: bool,
}

impl TransportError {
    /// Creates an error that another attempt would repeat.
    pub fn permanent(message: impl Into<EcoString>) -> TransportError {
        TransportError { message: message.into(), is_transient: false }
    }

    /// Creates an error that another attempt may avoid.
    pub fn transient(message: impl Into<EcoString>) -> TransportError {
        TransportError { message: message.into(), is_transient: true }
    }
}

/// A kind of transport, which connects to devices.
pub trait TransportType: Send + Sync {
    /// Returns the schema of the connection info.
    fn schema(&self) -> &TransportSchema;

    /// Connects to the device `name`. `info` is valid by the schema. A transport for a service without connections
    /// may do nothing here.
    ///
    /// The call should end within the timeout of `cx` ([`CONNECT_TIMEOUT`]). The caller repeats it after a transient
    /// error.
    ///
    /// # Errors
    /// If the device does not answer, refuses the login, or if `info` contradicts itself.
    fn connect(&self, cx: &Context<'_>, name: &str, info: &Attributes) -> Result<Box<dyn Transport>, TransportError>;
}

/// A connection to a device.
pub trait Transport: Send + Sync {
    /// Checks that the device answers.
    ///
    /// # Errors
    /// If it does not.
    fn verify(&self, cx: &Context<'_>) -> Result<(), TransportError>;

    /// Reads the facts of the device.
    ///
    /// # Errors
    /// If the device does not answer.
    fn facts(&self, cx: &Context<'_>) -> Result<Hash, TransportError>;

    /// Closes the connection and frees its resources. There are no calls afterwards.
    fn close(&self, cx: &Context<'_>);

    /// Returns the connection for its providers, which know its type and its other methods.
    fn as_any(&self) -> &dyn Any;
}

/// A device and the connection to it, which is opened when it is first needed.
pub struct Device {
    name: EcoString,
    kind: Arc<dyn TransportType>,
    info: Attributes,
    connection: OnceLock<Result<Box<dyn Transport>, TransportError>>,
}

impl Device {
    /// Creates a device from its connection info.
    ///
    /// # Errors
    /// All problems of the connection info.
    pub fn new(
        name: impl Into<EcoString>,
        kind: Arc<dyn TransportType>,
        info: &Attributes,
    ) -> Result<Device, Vec<ValidationError>> {
        let info = kind.schema().validate(info)?;
        Ok(Device { name: name.into(), kind, info, connection: OnceLock::new() })
    }

    /// Returns the name of the device.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the name of its transport.
    pub fn transport_name(&self) -> &str {
        &self.kind.schema().name
    }

    /// Returns the connection. The first call connects and verifies the connection. After a transient error it
    /// retries until [`CONNECT_TIMEOUT`] has passed, and logs each retry at notice.
    ///
    /// # Errors
    /// If the device does not answer or refuses the login. Later calls return the same error.
    pub fn connect(&self, cx: &Context<'_>) -> Result<&dyn Transport, TransportError> {
        let connection = self.connection.get_or_init(|| self.connect_within(cx, CONNECT_TIMEOUT, FIRST_DELAY));
        connection.as_deref().map_err(TransportError::clone)
    }

    fn connect_within(
        &self,
        cx: &Context<'_>,
        limit: Duration,
        mut delay: Duration,
    ) -> Result<Box<dyn Transport>, TransportError> {
        let begun = Instant::now();
        loop {
            let error = match self.connect_once(cx) {
                Ok(transport) => return Ok(transport),
                Err(error) => error,
            };
            let message = Redactor::of(&self.info).redact(error.message);
            let left = limit.saturating_sub(begun.elapsed());
            if !error.is_transient || left.is_zero() || cx.interrupt().is_raised() {
                return Err(TransportError { message, ..error });
            }
            delay = delay.min(left);
            let text = eco_format!("{message}; retry in {} s", (delay.as_millis() as f64 / 100.0).round() / 10.0);
            cx.log(Level::Notice, self.transport_name(), &self.name, &text);
            wait(cx, delay);
            delay *= 2;
        }
    }

    fn connect_once(&self, cx: &Context<'_>) -> Result<Box<dyn Transport>, TransportError> {
        let transport = self.kind.connect(cx, &self.name, &self.info)?;
        match transport.verify(cx) {
            Ok(()) => Ok(transport),
            Err(error) => {
                transport.close(cx);
                Err(error)
            }
        }
    }

    /// Closes the connection, if there is one.
    pub fn close(&self, cx: &Context<'_>) {
        if let Some(Ok(transport)) = self.connection.get() {
            transport.close(cx);
        }
    }
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Device({})", self.name)
    }
}

/// Waits, unless the run is interrupted.
fn wait(cx: &Context<'_>, delay: Duration) {
    let until = Instant::now() + delay;
    while !cx.interrupt().is_raised() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(INTERRUPT_POLL));
    }
}

/// Returns the connection to the device of a context.
///
/// # Errors
/// If there is no device, or no connection to it.
pub(crate) fn of_context<'a>(device: Option<&'a Device>, cx: &Context<'_>) -> Result<&'a dyn Transport, ProviderError> {
    let device = device.ok_or_else(|| ProviderError::new("there is no device: name one with --on"))?;
    device.connect(cx).map_err(|error| ProviderError::new(eco_format!("{}: {error}", device.name)))
}

#[cfg(test)]
mod tests;
