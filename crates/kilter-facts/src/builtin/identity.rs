//! `identity`: user and group of this process. Names come from local files only.

use kilter_model::Value;

use super::parts;
use crate::system::FactSource;

pub(super) fn identity(system: &FactSource) -> Option<Value> {
    let ids = system.kernel().ids();
    parts([
        ("gid", Some(Value::from(i64::from(ids.gid)))),
        ("group", name_of(system, "/etc/group", ids.gid)),
        ("privileged", Some(Value::from(ids.uid == 0))),
        ("uid", Some(Value::from(i64::from(ids.uid)))),
        ("user", name_of(system, "/etc/passwd", ids.uid)),
    ])
}

/// Returns the name of an id from a file of the form `name:password:id:…`.
fn name_of(system: &FactSource, path: &str, id: u32) -> Option<Value> {
    let text = system.text(path)?;
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(id)).then(|| Value::from(name))
    })
}
