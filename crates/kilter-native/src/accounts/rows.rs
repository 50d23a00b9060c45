//! Parsed account files: passwd(5), group(5), shadow(5).

use ecow::EcoString;
use rustc_hash::FxHashMap;

/// A line of `/etc/passwd`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UserRow {
    pub(crate) name: EcoString,
    /// `x` if the password is in `/etc/shadow`.
    pub(crate) password: EcoString,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) comment: EcoString,
    pub(crate) home: EcoString,
    pub(crate) shell: EcoString,
}

impl UserRow {
    /// Parses `name:password:uid:gid:comment:home:shell`; returns none for other lines, such as those of NIS.
    pub(crate) fn parse(line: &str) -> Option<UserRow> {
        let mut fields = fields(line)?;
        Some(UserRow {
            name: name(fields.next()?)?,
            password: fields.next()?.into(),
            uid: fields.next()?.parse().ok()?,
            gid: fields.next()?.parse().ok()?,
            comment: fields.next()?.into(),
            home: fields.next()?.into(),
            shell: fields.next().unwrap_or_default().into(),
        })
    }
}

/// A line of `/etc/group`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GroupRow {
    pub(crate) name: EcoString,
    pub(crate) gid: u32,
    /// Listed members. Users with this primary group are not included.
    pub(crate) members: Vec<EcoString>,
}

impl GroupRow {
    /// Parses `name:password:gid:member,member`.
    pub(crate) fn parse(line: &str) -> Option<GroupRow> {
        let mut fields = fields(line)?;
        let name = name(fields.next()?)?;
        let gid = fields.nth(1)?.parse().ok()?;
        let members = fields.next().unwrap_or_default().split(',').map(str::trim);
        let mut members: Vec<EcoString> = members.filter(|member| !member.is_empty()).map(EcoString::from).collect();
        members.sort_unstable();
        members.dedup();
        Some(GroupRow { name, gid, members })
    }
}

/// A line of `/etc/shadow`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ShadowRow {
    pub(crate) name: EcoString,
    pub(crate) password: EcoString,
    /// Days; none if the field is empty.
    pub(crate) min_age: Option<i64>,
    pub(crate) max_age: Option<i64>,
    pub(crate) warn_days: Option<i64>,
    /// Days since 1970-01-01.
    pub(crate) expiry: Option<i64>,
}

impl ShadowRow {
    /// Parses `name:password:changed:min:max:warn:inactive:expiry:`.
    pub(crate) fn parse(line: &str) -> Option<ShadowRow> {
        let mut fields = fields(line)?;
        let (name, password) = (name(fields.next()?)?, fields.next()?.into());
        let mut days = fields.map(|field| field.parse().ok().filter(|days| *days >= 0));
        Some(ShadowRow {
            name,
            password,
            min_age: days.nth(1).flatten(),
            max_age: days.next().flatten(),
            warn_days: days.next().flatten(),
            expiry: days.nth(1).flatten(),
        })
    }
}

fn fields(line: &str) -> Option<std::str::Split<'_, char>> {
    (!line.starts_with(['#', '+', '-'])).then(|| line.trim_end().split(':'))
}

fn name(field: &str) -> Option<EcoString> {
    (!field.is_empty()).then(|| field.into())
}

/// Users in the order of the file. The first of several users with the same name counts, as in the C library.
#[derive(Debug, Default)]
pub(crate) struct Users {
    pub(crate) rows: Vec<UserRow>,
    by_name: FxHashMap<EcoString, usize>,
}

impl Users {
    pub(crate) fn parse(text: &str) -> Users {
        let mut users = Users::default();
        for row in text.lines().filter_map(UserRow::parse) {
            if !users.by_name.contains_key(&row.name) {
                users.by_name.insert(row.name.clone(), users.rows.len());
                users.rows.push(row);
            }
        }
        users
    }

    pub(crate) fn find(&self, name: &str) -> Option<&UserRow> {
        self.by_name.get(name).map(|&at| &self.rows[at])
    }

    pub(crate) fn find_uid(&self, uid: u32) -> Option<&UserRow> {
        self.rows.iter().find(|row| row.uid == uid)
    }
}

/// Groups in the order of the file.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    pub(crate) rows: Vec<GroupRow>,
    by_name: FxHashMap<EcoString, usize>,
    by_gid: FxHashMap<u32, usize>,
    by_member: FxHashMap<EcoString, Vec<usize>>,
}

impl Groups {
    pub(crate) fn parse(text: &str) -> Groups {
        let mut groups = Groups::default();
        for row in text.lines().filter_map(GroupRow::parse) {
            let at = groups.rows.len();
            if groups.by_name.contains_key(&row.name) {
                continue;
            }
            groups.by_name.insert(row.name.clone(), at);
            groups.by_gid.entry(row.gid).or_insert(at);
            for member in &row.members {
                groups.by_member.entry(member.clone()).or_default().push(at);
            }
            groups.rows.push(row);
        }
        groups
    }

    pub(crate) fn find(&self, name: &str) -> Option<&GroupRow> {
        self.by_name.get(name).map(|&at| &self.rows[at])
    }

    pub(crate) fn find_gid(&self, gid: u32) -> Option<&GroupRow> {
        self.by_gid.get(&gid).map(|&at| &self.rows[at])
    }

    /// Returns the groups that list a user as a member.
    pub(crate) fn listing(&self, user: &str) -> impl Iterator<Item = &GroupRow> {
        self.by_member.get(user).into_iter().flatten().map(|&at| &self.rows[at])
    }
}

/// Passwords and their ages.
#[derive(Debug, Default)]
pub(crate) struct Shadows {
    by_name: FxHashMap<EcoString, ShadowRow>,
}

impl Shadows {
    pub(crate) fn parse(text: &str) -> Shadows {
        let mut shadows = Shadows::default();
        for row in text.lines().filter_map(ShadowRow::parse) {
            shadows.by_name.entry(row.name.clone()).or_insert(row);
        }
        shadows
    }

    pub(crate) fn find(&self, name: &str) -> Option<&ShadowRow> {
        self.by_name.get(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_without_accounts_are_ignored() {
        let users =
            Users::parse("# comment\n+::::::\n\nroot:x:0:0:root:/root:/bin/bash\nbroken:x:a:b\nroot:x:1:1:::\n");
        assert_eq!(users.rows.len(), 1);
        assert_eq!(users.find("root").map(|row| row.uid), Some(0));
    }

    #[test]
    fn members_are_sorted_and_found_by_user() {
        let groups = Groups::parse("b:x:2:zoe,adam\na:x:1:adam,\nempty:x:3:\n");
        assert_eq!(groups.rows[0].members, ["adam", "zoe"]);
        assert_eq!(groups.listing("adam").map(|row| row.name.as_str()).collect::<Vec<_>>(), ["b", "a"]);
        assert_eq!(groups.find_gid(3).map(|row| row.members.len()), Some(0));
    }

    #[test]
    fn empty_shadow_fields_are_none() {
        let row = ShadowRow::parse("adam:$6$x:19000:0:99999:7::20000:").unwrap();
        assert_eq!((row.min_age, row.max_age, row.warn_days, row.expiry), (Some(0), Some(99999), Some(7), Some(20000)));
        let row = ShadowRow::parse("adam:!:19000::::::").unwrap();
        assert_eq!((row.min_age, row.max_age, row.warn_days, row.expiry), (None, None, None, None));
    }
}
