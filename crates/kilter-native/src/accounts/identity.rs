//! User and groups of a process that runs as another user.

use ecow::EcoString;
use kilter_model::Value;
use kilter_process::Identity;
use kilter_provider::Context;

use super::{Accounts, number};
use crate::value_text::word;

impl Accounts {
    /// Returns the user and the groups of a process, given by names or numbers. The group defaults to the user's
    /// primary group. None if kilter itself has them.
    ///
    /// # Errors
    /// If an account does not exist.
    pub(crate) fn identity(
        &self,
        cx: &Context<'_>,
        user: Option<&Value>,
        group: Option<&Value>,
    ) -> Result<Option<Identity>, EcoString> {
        let gid = group.map(|group| self.gid_of(cx, group)).transpose()?;
        let identity = match (user, gid) {
            (None, None) => return Ok(None),
            (None, Some(gid)) => Identity { uid: rustix::process::geteuid().as_raw(), gid, groups: vec![gid] },
            (Some(user), gid) => self.identity_of(cx, user, gid)?,
        };
        let (uid, own_gid) = (rustix::process::geteuid(), rustix::process::getegid());
        if !uid.is_root() && uid.as_raw() == identity.uid && own_gid.as_raw() == identity.gid {
            return Ok(None);
        }
        Ok(Some(identity))
    }

    fn identity_of(&self, cx: &Context<'_>, user: &Value, gid: Option<u32>) -> Result<Identity, EcoString> {
        let row = match number(user) {
            Some(uid) => self.users().map_err(|error| error.message)?.find_uid(uid).cloned(),
            None => self.user(cx, &word(user)).map_err(|error| error.message)?,
        };
        match (row, number(user)) {
            (Some(row), _) => {
                let groups = self.supplementary(cx, &row.name).map_err(|error| error.message)?;
                Ok(Identity { uid: row.uid, gid: gid.unwrap_or(row.gid), groups })
            }
            // A number without an account is valid, but then there is no default for the group.
            (None, Some(uid)) => {
                let gid = gid.ok_or_else(|| format!("user: the user {uid} is unknown, so `group` is required"))?;
                Ok(Identity { uid, gid, groups: vec![gid] })
            }
            (None, None) => Err(format!("user: there is no user `{user}`").into()),
        }
    }

    /// Returns the number of a group given by name or number.
    ///
    /// # Errors
    /// If the group does not exist.
    pub(crate) fn gid_of(&self, cx: &Context<'_>, group: &Value) -> Result<u32, EcoString> {
        if let Some(gid) = number(group) {
            return Ok(gid);
        }
        let row = self.group(cx, &word(group)).map_err(|error| error.message)?;
        row.map(|row| row.gid).ok_or_else(|| format!("group: there is no group `{group}`").into())
    }
}
