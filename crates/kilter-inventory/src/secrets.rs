//! Detection of passwords by the names of their keys.

use std::sync::Arc;

use kilter_model::{Hash, Value};

/// Returns true if a key names a password: `password`, `ansible_become_pass`, `db-passphrase`.
pub(crate) fn is_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    let ends = |word: &str| key.ends_with(word);
    ends("password") || ends("passwd") || ends("passphrase") || key.split(['_', '-']).next_back() == Some("pass")
}

/// Makes the passwords in a value sensitive, at any depth.
pub(crate) fn sealed(key: &str, value: Value) -> Value {
    if is_secret(key) && !value.is_undef() {
        return Value::sensitive(value);
    }
    match value {
        Value::Hash(entries) => Value::Hash(Arc::new(sealed_all((*entries).clone()))),
        Value::Array(values) => Value::Array(values.iter().map(|value| sealed("", value.clone())).collect()),
        value => value,
    }
}

/// Makes the passwords in entries sensitive.
pub(crate) fn sealed_all(entries: Hash) -> Hash {
    entries
        .into_iter()
        .map(|(key, value)| {
            let value = sealed(&key, value);
            (key, value)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_passwords_are_secret() {
        for key in ["password", "ansible_password", "ansible_ssh_pass", "sudo-password", "key_passphrase", "PASSWD"] {
            assert!(is_secret(key), "{key}");
        }
        for key in ["compass", "bypass", "passwords_max_age", "user", "passport"] {
            assert!(!is_secret(key), "{key}");
        }
        let value = sealed("db", Value::hash([("password", Value::from("s3")), ("user", Value::from("u"))]));
        assert_eq!(value.to_string(), "{password: [redacted], user: u}");
    }
}
