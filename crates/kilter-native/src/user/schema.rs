//! Attributes of a user.

use kilter_model::{AttributeSchema, Behaviour, Feature, TypeSchema, Value};

const DESC: &str = "\
Users of the system, through the shadow tools (`useradd`, `usermod`, `userdel`, `chpasswd`, `chage`).

```yaml
resources:
  user[deploy]:
    uid: 1500
    gid: deploy
    groups: [adm, docker]
    home: /srv/deploy
    managehome: true
    shell: /bin/bash
    comment: Deployment
  user[guest]:
    ensure: absent
```

**Automatic edges.** A user runs after its declared groups; with `ensure: absent` it runs before them. \
If a group also lists the user in its `members`, the later resource makes the membership.

An undeclared attribute keeps its value. For a new user it gets the default of `useradd`.

Passwords and their ages are in `/etc/shadow`. If kilter may not read that file, it does not report them, and a user \
with one of these attributes fails.";

/// Attributes in `/etc/shadow`.
pub(super) const IN_SHADOW: [&str; 5] =
    ["password", "expiry", "password_min_age", "password_max_age", "password_warn_days"];

const UID: &str = "Integer[0, 4294967294]";
const GID: &str = "Variant[Integer[0, 4294967294], String[1]]";
const AGE: &str = "Integer[-1, 10000000]";

pub(super) fn schema() -> TypeSchema {
    let schema = TypeSchema::new("user", DESC);
    let schema = identity(schema);
    let schema = password(schema);
    steering(schema).features(&[
        Feature::Canonicalize,
        Feature::CustomInsync,
        Feature::SimpleGetFilter,
        Feature::SupportsNoop,
    ])
}

fn identity(schema: TypeSchema) -> TypeSchema {
    let property = Behaviour::Property;
    schema
        .attribute("ensure", "Enum[present, absent]", property, "State of the user: `present`, `absent`.")
        .default("present")
        .attribute(
            "name",
            "String[1]",
            Behaviour::Namevar,
            "Login name, such as `deploy`: up to 32 bytes without white space, `:`, `,` and `/`. Debian 13 \
             only allows letters, digits, `_`, `.`, `-` and a final `$`.",
        )
        .attribute(
            "uid",
            UID,
            property,
            "Number of the user: `1500`. If it changes, the files below the home directory get the new number; other \
             files keep the old one.",
        )
        .attribute(
            "gid",
            GID,
            property,
            "Primary group, by name or number: `deploy`, `1500`. It must exist when kilter creates the user. \
             Without `gid`, a new user gets the group of the same name, which kilter creates if it is missing.",
        )
        .attribute(
            "groups",
            "Array[String[1]]",
            property,
            "Groups in addition to the primary one, by name: `[adm, docker]`. `membership` decides about others.",
        )
        .attribute(
            "home",
            "String[1]",
            property,
            "Home directory: `/srv/deploy`. kilter creates, moves or removes it only with `managehome`.",
        )
        .attribute("shell", "String", property, "Login shell: `/bin/bash`, `/usr/sbin/nologin`.")
        .attribute("comment", "String", property, "Full name or purpose of the user: `Deployment`.")
}

fn password(schema: TypeSchema) -> TypeSchema {
    let property = Behaviour::Property;
    schema
        .with(AttributeSchema::new(
            "password",
            "Sensitive[String]".parse().expect("the type is a constant"),
            property,
            "Hash of the password, in a format of crypt(5): `$y$…`, `$6$…`; `\"*\"` or `\"!\"` to accept no \
             password. kilter never passes it as an argument of a process. `mkpasswd` creates a hash.",
        ))
        .attribute(
            "expiry",
            "Pattern[/\\A\\d{4}-\\d\\d-\\d\\d\\z/, /\\Aabsent\\z/]",
            property,
            "Day on which the account expires, as YYYY-MM-DD: `2030-12-31`; `absent` for never.",
        )
        .attribute(
            "password_min_age",
            AGE,
            property,
            "Minimum age of a password before the user may change it, in days: `0`; `-1` for no rule.",
        )
        .attribute("password_max_age", AGE, property, "Maximum age of a password, in days: `90`; `-1` for no rule.")
        .attribute(
            "password_warn_days",
            AGE,
            property,
            "Number of days before the maximum age at which the warnings start: `7`; `-1` for none.",
        )
}

fn steering(schema: TypeSchema) -> TypeSchema {
    let parameter = Behaviour::Parameter;
    schema
        .attribute(
            "membership",
            "Enum[minimum, inclusive]",
            parameter,
            "`minimum`: the user is in all `groups`, and kilter removes it from no others. `inclusive`: it is in \
             exactly these.",
        )
        .default("minimum")
        .attribute(
            "managehome",
            "Boolean",
            parameter,
            "Create the home directory with the user (from `/etc/skel`), move it if `home` changes, and remove it \
             with the user: `true`.",
        )
        .default(Value::Boolean(false))
        .attribute(
            "system",
            "Boolean",
            parameter,
            "Create a user without `uid` with a number from the range for system accounts: `true`.",
        )
        .default(Value::Boolean(false))
        .attribute("allowdupe", "Boolean", parameter, "Permit a `uid` that another user already has: `true`.")
        .default(Value::Boolean(false))
}
