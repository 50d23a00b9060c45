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

A user comes after the groups it names, if they are declared too; a user that is to be absent comes before them. \
If a group lists the user in its `members` as well, the resource that runs last makes the membership. \
What nothing is said of stays as it is, or gets the default of `useradd` when the user is created.

Passwords and their ages are in `/etc/shadow`: without the right to read it they are not reported, and a user of which \
they are declared cannot be checked.";

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
    steering(schema).features(&[Feature::Canonicalize, Feature::CustomInsync, Feature::SimpleGetFilter])
}

fn identity(schema: TypeSchema) -> TypeSchema {
    let property = Behaviour::Property;
    schema
        .attribute("ensure", "Enum[present, absent]", property, "Whether the user is there: `present`, `absent`.")
        .default("present")
        .attribute(
            "name",
            "String[1]",
            Behaviour::Namevar,
            "The name to log in with, such as `deploy`: up to 32 bytes without white space, `:`, `,` and `/`.",
        )
        .attribute(
            "uid",
            UID,
            property,
            "The number of the user: `1500`. When it changes, the files below the home follow; others do not.",
        )
        .attribute(
            "gid",
            GID,
            property,
            "The primary group, by name or number: `deploy`, `1500`. It must exist when the user is created. \
             Without it a group of the user's name is taken, and made if there is none.",
        )
        .attribute(
            "groups",
            "Array[String[1]]",
            property,
            "The groups beside the primary one, by name: `[adm, docker]`. Whether others are tolerated says `membership`.",
        )
        .attribute(
            "home",
            "String[1]",
            property,
            "The home directory: `/srv/deploy`. It is only made, moved or removed with `managehome`.",
        )
        .attribute("shell", "String", property, "The program that runs when the user logs in: `/bin/bash`, `/usr/sbin/nologin`.")
        .attribute("comment", "String", property, "The user's full name or purpose: `Deployment`.")
}

fn password(schema: TypeSchema) -> TypeSchema {
    let property = Behaviour::Property;
    schema
        .with(AttributeSchema::new(
            "password",
            "Sensitive[String]".parse().expect("the type is a constant"),
            property,
            "The hash of the password, as crypt(5) describes it: `$y$…`, `$6$…`; `\"*\"` or `\"!\"` for none that \
             would be accepted. It never appears among the arguments of a process. `mkpasswd` makes one.",
        ))
        .attribute(
            "expiry",
            "Pattern[/\\A\\d{4}-\\d\\d-\\d\\d\\z/, /\\Aabsent\\z/]",
            property,
            "The day on which the account expires: `2030-12-31`; `absent` for never.",
        )
        .attribute(
            "password_min_age",
            AGE,
            property,
            "Days before a password may be changed again: `0`; `-1` for no rule.",
        )
        .attribute("password_max_age", AGE, property, "Days after which it must be changed: `90`; `-1` for no rule.")
        .attribute("password_warn_days", AGE, property, "Days of warning before that: `7`; `-1` for none.")
}

fn steering(schema: TypeSchema) -> TypeSchema {
    let parameter = Behaviour::Parameter;
    schema
        .attribute(
            "membership",
            "Enum[minimum, inclusive]",
            parameter,
            "`minimum`: at least `groups`, others are left alone. `inclusive`: those and no others.",
        )
        .default("minimum")
        .attribute(
            "managehome",
            "Boolean",
            parameter,
            "Whether the home directory is made with the user (from `/etc/skel`), moved when `home` changes, and removed \
             with the user: `true`.",
        )
        .default(Value::Boolean(false))
        .attribute(
            "system",
            "Boolean",
            parameter,
            "Whether a new user without `uid` gets a number of the range for system accounts: `true`.",
        )
        .default(Value::Boolean(false))
        .attribute("allowdupe", "Boolean", parameter, "Whether `uid` may be that of another user too: `true`.")
        .default(Value::Boolean(false))
}
