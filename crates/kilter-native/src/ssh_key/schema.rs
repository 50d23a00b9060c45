//! Schema of the type `ssh_authorized_key`.

use kilter_model::{Behaviour, Feature, TypeSchema};

use super::key_line::KINDS;

const DESC: &str = "\
SSH keys that permit a login, in `~/.ssh/authorized_keys`.

```yaml
resources:
  ssh_authorized_key[me@laptop]:
    user: alice
    type: ssh-ed25519
    key: AAAAC3NzaC1lZDI1NTE5AAAAIHB5dGhvbiBpcyBmdW4gYW5kIHNvIGlzIHJ1c3QhISEh
    options: [no-port-forwarding, 'from=\"10.0.0.*\"']
  ssh_authorized_key[alice:old laptop]:
    ensure: absent
```

The name of a key is its comment. kilter keeps all other lines, including comment lines, byte for byte. It changes the \
file of a user once for all keys, and replaces it atomically; the new file belongs to the user and has mode 0600. A \
missing `~/.ssh` is created with mode 0700. The home directory must exist.

The user controls these files. So kilter follows no link that another user than root could have made, and refuses \
files and directories of other users, files with several names, and files of more than 1 MiB.

The user and the key itself identify a key:

- With `user` and `key`, `ensure: absent` removes the key under any comment. Other keys with the same comment and the \
keys of other users stay.
- Without `user`, `ensure: absent` applies to all users. It removes `key`, or without `key` all keys with this \
comment. If kilter cannot read the file of a user, a key that it finds nowhere else is an error.

The name may contain the user instead of `user`: `alice:me@laptop`. kilter refuses a new key of a user that does not \
exist. If a comment itself contains a colon, always put its user before it: `root:backup:deploy`. kilter ignores keys \
without a comment, except to remove a `key`. If a user has several keys with the same comment, a list has the first \
of them.

**Automatic edges.** The resource runs after its user (before it if both are removed), and after declared files \
at and above its path.";

pub(super) fn schema() -> TypeSchema {
    TypeSchema::new("ssh_authorized_key", DESC)
        .attribute("ensure", "Enum[present, absent]", Behaviour::Property, "State of the key: `present`, `absent`.")
        .default("present")
        .attribute(
            "name",
            "String[1]",
            Behaviour::Namevar,
            "Comment of the key: `me@laptop`. With a prefix, a key of that user: `alice:me@laptop`.",
        )
        .attribute(
            "user",
            "String[1]",
            Behaviour::InitOnly,
            "User who may log in with the key: `alice`. Required for a new key whose name has no user.",
        )
        .attribute(
            "type",
            &format!("Enum['{}']", KINDS.join("', '")),
            Behaviour::Property,
            "Type of the key: `ssh-ed25519`.",
        )
        .attribute(
            "key",
            "String[1]",
            Behaviour::Property,
            "Key in base64, without its type and comment: the second word of the `.pub` file.",
        )
        .attribute(
            "options",
            "Array[String[1]]",
            Behaviour::Property,
            "Options in this order: `[no-pty, 'from=\"10.0.0.*\"']`; `[]` for none.",
        )
        .attribute(
            "target",
            "String[1]",
            Behaviour::ReadOnly,
            "File that contains the key: `/home/alice/.ssh/authorized_keys`.",
        )
        .features(&[Feature::SimpleGetFilter, Feature::SupportsNoop])
}
