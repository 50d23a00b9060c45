//! `ssh`: the host's public keys.

use kilter_model::Value;

use crate::system::FactSource;

/// Name of the key in the fact, and in its file name.
const KEYS: [(&str, &str); 3] = [("ecdsa", "ecdsa"), ("ed25519", "ed25519"), ("rsa", "rsa")];

pub(super) fn ssh(system: &FactSource) -> Option<Value> {
    let keys: Vec<(&str, Value)> =
        KEYS.into_iter().filter_map(|(name, file)| Some((name, key(system, file)?))).collect();
    (!keys.is_empty()).then(|| Value::hash(keys))
}

/// Returns the type and text of `/etc/ssh/ssh_host_…_key.pub`.
fn key(system: &FactSource, file: &str) -> Option<Value> {
    let line = system.line(&format!("/etc/ssh/ssh_host_{file}_key.pub"))?;
    let mut words = line.split_whitespace();
    let (kind, key) = (words.next()?, words.next()?);
    Some(Value::hash([("key", Value::from(key)), ("type", Value::from(kind))]))
}
