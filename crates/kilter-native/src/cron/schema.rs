//! Schema of the type `cron`.

use kilter_model::{Behaviour, Feature, TypeSchema};

/// Packages that bring the program.
const PACKAGES: [&str; 4] = ["cron", "cronie", "bcron", "systemd-cron"];

const DESC: &str = "\
Entries in the crontabs of users.

```yaml
resources:
  cron[backup]:
    command: /usr/local/bin/backup --all
    user: root
    hour: 3
    minute: [15, 45]
  cron[alice:mail]:
    command: fetchmail
    special: daily
    environment: [MAILTO=alice]
  cron[old job]:
    user: root
    ensure: absent
```

The comment above an entry has its name, `# Puppet Name: backup`. Puppet writes the same comment, so each tool finds \
the entries of the other. kilter keeps all other lines byte for byte. It ignores entries without such a comment.

Several users can have entries of the same name. Declare `user`, or put the user before the name: `alice:backup`. \
Without both, kilter searches all crontabs, and a new entry belongs to the user that kilter runs as. kilter refuses a \
new entry of a user that does not exist. If a name itself contains a colon, always put its user before it: \
`root:backup:daily`.

kilter reads each crontab once, and changes it once for all entries, by crontab(1). It does not manage `/etc/crontab` \
and `/etc/cron.d`: use [`file`](file.md) or [`line`](line.md). It does not read a crontab of more than 1 MiB.

**Automatic edges.** The resource runs after its user (before it if both are removed), and after the packages \
that bring crontab(1).";

/// A number, a text, or a list of these.
const TIME: &str = "Variant[Integer[0], String[1], Array[Variant[Integer[0], String[1]], 1]]";

pub(super) fn schema() -> TypeSchema {
    let time = |schema: TypeSchema, name: &str, desc: &str| schema.attribute(name, TIME, Behaviour::Property, desc);
    let schema = TypeSchema::new("cron", DESC)
        .attribute("ensure", "Enum[present, absent]", Behaviour::Property, "State of the entry: `present`, `absent`.")
        .default("present")
        .attribute(
            "name",
            "String[1]",
            Behaviour::Namevar,
            "Name in the comment: `backup`. With a prefix, the entry of that user: `alice:backup`.",
        )
        .attribute(
            "command",
            "String[1]",
            Behaviour::Property,
            "Command on one line: `/usr/local/bin/backup`. cron ends it at a `%` that is not written `\\%`. Required \
             for a new entry.",
        )
        .attribute(
            "user",
            "String[1]",
            Behaviour::InitOnly,
            "User of the crontab: `alice`. An entry cannot be moved to another user.",
        )
        .attribute(
            "target",
            "String[1]",
            Behaviour::Parameter,
            "Crontab by the name of its user, as in Puppet. Use `user` instead.",
        );
    let schema = time(schema, "minute", "Minutes: `*`, `15`, `*/5`, `0,30`. The default for a new entry is `*`.");
    let schema = time(schema, "hour", "Hours, written like the minutes: `3`.");
    let schema = time(schema, "monthday", "Days of the month, written like the minutes: `1`.");
    let schema = time(schema, "month", "Months: `1` to `12`, or `jan` to `dec`.");
    let schema = time(schema, "weekday", "Days of the week: `0` to `7`, or `sun` to `sat`; `0` and `7` are Sunday.");
    schema
        .attribute(
            "special",
            "Enum[none, reboot, yearly, annually, monthly, weekly, daily, midnight, hourly]",
            Behaviour::Property,
            "Schedule in one word instead of the five times: `daily`; `none` for an entry with times.",
        )
        .attribute(
            "environment",
            "Array[String[1]]",
            Behaviour::Property,
            "Lines between the comment and the entry: `[MAILTO=root]`. cron also applies them to all entries below.",
        )
        .autorequire("package", PACKAGES)
        .features(&[Feature::Canonicalize, Feature::SimpleGetFilter, Feature::SupportsNoop])
}
