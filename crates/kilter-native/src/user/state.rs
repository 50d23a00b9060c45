//! State of users.

use kilter_model::{Attributes, State, Value};
use kilter_provider::{Context, ProviderError, Wanted};

use super::schema::IN_SHADOW;
use crate::accounts::{Accounts, Groups, Shadows, UserRow, date};

/// Returns the states of all users in the files.
pub(super) fn all(accounts: &Accounts) -> Result<Vec<State>, ProviderError> {
    let (users, groups, shadows) = (accounts.users()?, accounts.groups()?, accounts.shadows()?);
    Ok(users.rows.iter().map(|row| state(row, &groups, shadows.as_deref())).collect())
}

/// Returns the state of a user.
pub(super) fn one(accounts: &Accounts, cx: &Context<'_>, wanted: Wanted<'_>) -> Result<State, ProviderError> {
    let Some(row) = accounts.user(cx, wanted.name)? else { return Ok(State::absent(wanted.name.clone())) };
    let is_declared = |should: &Attributes| IN_SHADOW.iter().any(|name| should.get(name).is_some());
    let shadows = match wanted.should {
        Some(should) if !is_declared(should) => None,
        _ => accounts.shadows()?,
    };
    if shadows.is_none() && wanted.should.is_some_and(is_declared) {
        let why = "cannot read /etc/shadow, which has passwords and their ages: only root may";
        return Err(ProviderError::new(why));
    }
    Ok(state(&row, &*accounts.groups()?, shadows.as_deref()))
}

fn state(row: &UserRow, groups: &Groups, shadows: Option<&Shadows>) -> State {
    let mut attributes = Attributes::with_capacity(13);
    attributes.push("ensure", "present");
    attributes.push("name", row.name.clone());
    attributes.push("uid", i64::from(row.uid));
    attributes.push("gid", i64::from(row.gid));
    let mut names: Vec<_> = groups.listing(&row.name).map(|group| group.name.clone()).collect();
    names.sort_unstable();
    attributes.push("groups", Value::strings(names));
    if !row.home.is_empty() {
        attributes.push("home", row.home.clone());
    }
    attributes.push("shell", row.shell.clone());
    attributes.push("comment", row.comment.clone());
    push_shadow(&mut attributes, row, shadows);
    State::present(row.name.clone(), attributes)
}

fn push_shadow(attributes: &mut Attributes, row: &UserRow, shadows: Option<&Shadows>) {
    let shadow = shadows.and_then(|shadows| shadows.find(&row.name));
    // A password outside of /etc/shadow replaces the `x`.
    let password = if row.password == "x" { shadow.map(|shadow| &shadow.password) } else { Some(&row.password) };
    if let Some(password) = password.filter(|_| shadows.is_some()) {
        attributes.push("password", Value::sensitive(Value::String(password.clone())));
    }
    let Some(shadow) = shadow else { return };
    attributes.push("expiry", shadow.expiry.map_or_else(|| "absent".to_owned(), date::date));
    attributes.push("password_min_age", shadow.min_age.unwrap_or(-1));
    attributes.push("password_max_age", shadow.max_age.unwrap_or(-1));
    attributes.push("password_warn_days", shadow.warn_days.unwrap_or(-1));
}
