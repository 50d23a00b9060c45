//! Passwords that the user enters when a target is used.

use std::sync::Arc;

use ecow::EcoString;
use kilter_model::{Hash, Value};
use rustc_hash::FxHashMap;

use crate::target::{ConnectionKind, Target};

/// Key of a question in a sensitive value.
const KEY: &str = "prompt";

/// Returns a value that stands for the answer to a question.
pub(crate) fn question(message: &str) -> Value {
    Value::sensitive(Value::hash([(KEY, Value::from(message))]))
}

fn asked(value: &Value) -> Option<EcoString> {
    let Value::Sensitive(inner) = value else { return None };
    let entries = inner.as_hash().filter(|entries| entries.len() == 1)?;
    Some(entries.get(KEY)?.as_str()?.into())
}

/// Asks the user for the passwords of targets that the inventory does not have, and puts the answers into the targets.
/// Asks each question once.
///
/// # Errors
/// The first error of `ask`.
pub fn ask_for_passwords<E>(
    targets: &mut [Arc<Target>],
    ask: &mut dyn FnMut(&str) -> Result<String, E>,
) -> Result<(), E> {
    let mut answers = FxHashMap::<EcoString, Value>::default();
    for target in targets {
        if !has_questions(target) {
            continue;
        }
        let target = Arc::make_mut(target);
        let mut fill = |value: &mut Value| -> Result<(), E> {
            if let Some(message) = asked(value) {
                if !answers.contains_key(&message) {
                    let answer = Value::sensitive(Value::from(ask(&message)?));
                    answers.insert(message.clone(), answer);
                }
                value.clone_from(&answers[&message]);
            }
            Ok(())
        };
        target.password.iter_mut().try_for_each(&mut fill)?;
        target.become_.iter_mut().filter_map(|become_| become_.password.as_mut()).try_for_each(&mut fill)?;
        fill_hash(&mut target.vars, &mut fill)?;
        if let ConnectionKind::Device { attributes, .. } = &mut target.connection {
            fill_hash(attributes, &mut fill)?;
        }
    }
    Ok(())
}

fn fill_hash<E>(entries: &mut Hash, fill: &mut dyn FnMut(&mut Value) -> Result<(), E>) -> Result<(), E> {
    entries.values_mut().try_for_each(fill)
}

fn has_questions(target: &Target) -> bool {
    let become_password = target.become_.as_ref().and_then(|become_| become_.password.as_ref());
    let attributes = match &target.connection {
        ConnectionKind::Device { attributes, .. } => Some(attributes),
        _ => None,
    };
    let hashes = attributes.into_iter().chain([&target.vars]).flat_map(Hash::values);
    target.password.iter().chain(become_password).chain(hashes).any(|value| asked(value).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_question_is_asked_once_and_its_answer_is_sensitive() {
        let mut target = Target::named("a");
        target.password = Some(question("login"));
        target.vars.insert("token".into(), question("token"));
        let mut targets = [Arc::new(target.clone()), Arc::new(target), Arc::new(Target::named("b"))];
        let mut asked = Vec::new();
        let mut ask = |message: &str| {
            asked.push(message.to_owned());
            Ok::<_, ()>(format!("{message}!"))
        };
        ask_for_passwords(&mut targets, &mut ask).unwrap();
        assert_eq!(asked, ["login", "token"]);
        assert_eq!(targets[1].password.as_ref().unwrap().as_str(), Some("login!"));
        assert_eq!(targets[1].password.as_ref().unwrap().to_string(), "[redacted]");
        assert_eq!(targets[0].vars["token"].as_str(), Some("token!"));
        assert_eq!(ask_for_passwords(&mut [Arc::clone(&targets[0])], &mut |_| Err(())), Ok(()));
    }
}
