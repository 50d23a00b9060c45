//! Attributes of the type `file`.

use kilter_model::{Behaviour, Feature, TypeSchema};

pub(super) fn schema() -> TypeSchema {
    let schema = TypeSchema::new("file", DESC);
    let schema = what(schema);
    let schema = who(schema);
    let schema = trees(schema);
    let schema = how(schema);
    found(schema).features(&[
        Feature::Canonicalize,
        Feature::CustomInsync,
        Feature::SimpleGetFilter,
        Feature::SupportsNoop,
    ])
}

const DESC: &str = "\
A file, a directory or a symbolic link, with its content, owner, group and mode.

```yaml
file[/etc/motd]:
  content: |
    Welcome.
  mode: \"0644\"
file[/srv/www]:
  ensure: directory
  source: /usr/share/site
  recurse: true
  owner: www-data
file[/etc/localtime]:
  target: /usr/share/zoneinfo/UTC
```

A new content appears at once and whole, with its final owner and mode; whoever reads the file sees
the old content or the new one. A file that is replaced keeps what was not declared: owner, group,
mode, labels and, unless the owner changes, `user.*` attributes. Capabilities were given to the old content and go with
it. `acl` has what happens to access control lists.

The path itself is meant, never what a link at the path points to (Puppet's `links => manage`).
A link among the parents is followed only if it and the directory that holds it belong to root
or to the user that kilter runs as, and nobody else can write there.

**Comes after**, if they are declared: the nearest directory above the path, the `user` that is its
`owner`, by name or number, the `group` likewise, the file that is its `source`, its `fragments`.
Not after what a link points to, nor after a user or group by number that has to wait for the file: a number
can be given to a file without them.";

fn what(schema: TypeSchema) -> TypeSchema {
    schema
        .attribute("path", "String[1]", Behaviour::Namevar, PATH)
        .attribute("ensure", "Enum[present, absent, file, directory, link]", Behaviour::Property, ENSURE)
        .attribute("content", "Variant[String, Binary]", Behaviour::Property, CONTENT)
        .attribute("source", "String[1]", Behaviour::Parameter, SOURCE)
        .attribute("fragments", "Array[String[1], 1]", Behaviour::Parameter, FRAGMENTS)
        .attribute(
            "parts",
            "Hash[String[1], Struct[{content => Variant[String, Binary], Optional[order] => Integer}]]",
            Behaviour::Parameter,
            PARTS,
        )
        .attribute("target", "Variant[String[1], Binary]", Behaviour::Property, TARGET)
}

const PATH: &str = "\
Where it is: an absolute path without `.`, `..` and `//`. The title, unless it is given. A slash at
the end is dropped.";

const ENSURE: &str = "\
What is there.

- `file`: a regular file. A link, a FIFO or a socket in its place is replaced, a directory
  or a device only with `force`. An empty file is created where there is no `content` or `source`.
- `directory`: a directory. A file or link in its place is replaced (after `backup`).
- `link`: a symbolic link to `target`.
- `present`: anything; an empty file is created where there is nothing.
- `absent`: nothing. A directory that is not empty is removed only with `force`.

If it is not given: `file` with `content`, `source`, `fragments` or `parts`, `link` with `target`, `directory` with
`recurse` or `purge`, `present` otherwise.";

const CONTENT: &str = "\
What is in the file, byte by byte: text, or bytes in base 64: `{ base64: \"/wA=\" }`.

```yaml
file[/etc/hostname]:
  content: \"web1\\n\"
```

A value from a secret is never shown: neither the content, nor a diff, nor a checksum.";

const SOURCE: &str = "\
The file on this machine that the content is copied from, or with `recurse: true` the directory that
is copied with everything below. Excludes `content`, `fragments` and `target`.

A copy has the permission bits of its source, unless `mode` is declared; setuid, setgid and sticky
bits are only set by `mode`. Owner and group are not taken over. Links in a tree are copied as
links; devices, FIFOs and sockets are left out.

```yaml
file[/srv/www]:
  source: /usr/share/site
  recurse: true
  mode: \"u=rwX,go=rX\"
```";

const FRAGMENTS: &str = "\
The files that the content is put together from, one after the other; of a directory, those directly in it in the order of
their names. Excludes `content`, `source` and `target`. At most 64 MiB in all.

```yaml
file[/etc/app.conf]:
  fragments: [/etc/app/head.conf, /etc/app/conf.d]
```";

const PARTS: &str = "\
The parts that the content is put together from, by name: those with a lower `order` first (10 where none is given), those with
the same by their names. Each [`file_part`](file_part.md) of the file is one. Excludes `content`, `source`, `fragments` and `target`.

```yaml
file[/etc/motd]:
  parts:
    welcome: { order: 1, content: \"Welcome.\\n\" }
    rules: { content: \"Be kind.\\n\" }
```";

const TARGET: &str = "\
Where the link points to; relative to the directory of the link if it does not begin with `/`. It
need not exist. Bytes that are no text are in base 64, as in `content`. Needs `ensure: link`, or no `ensure`.";

fn who(schema: TypeSchema) -> TypeSchema {
    schema
        .attribute("owner", "Variant[String[1], Integer[0]]", Behaviour::Property, OWNER)
        .attribute("group", "Variant[String[1], Integer[0]]", Behaviour::Property, GROUP)
        .attribute("mode", "String[1]", Behaviour::Property, MODE)
        .attribute("acl", "Variant[Enum[none, keep], Struct[{managed => Array[String[1]]}]]", Behaviour::Property, ACL)
}

const OWNER: &str = "\
The user that it belongs to, by name or number. Left alone if not given; new files then belong to
the user that kilter runs as. Of a link, the link itself.

A change of owner or group takes the setuid and setgid bits of a file away, as the system does it,
and its capabilities. `mode` gives them back where it names them: digits, or symbols such as `u+s`.";

const GROUP: &str = "The group that it belongs to, by name or number. Left alone if not given.";

const MODE: &str = "\
The permissions: octal digits, or the symbols of chmod(1). Quote the digits: YAML reads a plain 0644
as another number.

- `\"0644\"`, `\"4755\"`: exactly these, setuid (4), setgid (2) and sticky (1) included. The number means the
  same for a directory: it does not gain `x` where it has `r`, except with `recurse`.
- `\"u=rwX,g-w,o=,+t\"`: relative to what is there. `X` is `x` for directories and for files that have
  an `x` already. Without `u`, `g`, `o` or `a` all are meant; the umask plays no part. A directory
  keeps setuid and setgid unless they are named.

Not given: left alone; new files get 0644, those with a sensitive content 0600, and new directories 0755,
whatever the umask. Bits that the
file system does not keep are a failure. Links have no mode.

The setuid and setgid bits of a file with several hard links are not set, nor is the owner or
mode of such a file changed in a directory that others can write in: one of its other names could be
a file that was never meant.";

const ACL: &str = "\
The access control list of a file or directory.

- `none`: no list; the mode alone says who has access.
- `managed`: exactly these entries beside the mode, written as for setfacl(1): `user:NAME:rwx`, `group:NAME:r-x`,
  `mask::rwx`. With `default:` before it, an entry is for new files in a directory.
- `keep`: the list is left alone, and new files inherit that of their directory. Not for a sensitive `content`.

```yaml
file[/srv/app/key.pem]:
  source: /etc/ssl/key.pem
  mode: \"0640\"
  acl: { managed: [\"user:www-data:r\"] }
```

The mask limits the named entries and the owning group, and `ls -l` shows it as the group digit of the mode.

- With `mode` in digits, the group digit is the mask and the permissions of the owning group, as in chmod(1) of a file
  with a list. An entry that gives more is an error.
- Without `mode`, kilter sets the mask as setfacl(1) does: to the union of the named entries and the owning group. The
  owning group keeps the permissions of its own entry. The plan shows the change, such as
  `mask: r-- → rw- (the mode 0640 becomes 0660)`.
- With `mode` in symbols, kilter computes the mask as without `mode`. It then applies the symbols to the mask and to the
  owning group.
- With an entry `mask::r-x`, the mask is that. It must agree with `mode`.

If it is not given, and `content`, `source`, `owner`, `group` or `mode` is: a list that gives a named user or group more than the
mode gives to everybody is a difference, and the change removes it. The user that prepared a file keeps no access to it. A list
that gives no more stays. A directory's list for new files is a difference if it names somebody, or lets more write than the
mode of the directory. What kilter creates does not inherit such a list. With `recurse`, all this applies to everything below.

[Decision 13](../../decisions/0013-access-lists-and-extended-attributes.md) has the reasons, and what happens to
capabilities and other extended attributes.";

fn trees(schema: TypeSchema) -> TypeSchema {
    schema
        .attribute("recurse", "Boolean", Behaviour::Parameter, RECURSE)
        .attribute("purge", "Boolean", Behaviour::Parameter, PURGE)
        .attribute("force", "Boolean", Behaviour::Parameter, FORCE)
}

const RECURSE: &str = "\
Whether everything below the directory is meant too. Default: `false`.

- With `source`: the tree is copied; each entry that differs is reported and mended.
- Without `source`: `owner`, `group` and `mode` apply to everything below.

With `recurse`, a `mode` in digits gives directories `x` wherever it gives `r`: `\"0644\"` means 0755 for
them. Entries that are declared as files of their own keep their own declarations. Whatever is
mounted below is left alone, and links are not followed.";

const PURGE: &str = "\
Whether entries of the directory that nobody declared are removed: that are neither files of their own
in the manifest, nor directories or links above such a file, nor in the `source`. A plan lists each of them. Default: `false`.

Without `recurse` only the directory's own entries are meant, and subdirectories only with
`force`; with `recurse` everything below.

```yaml
file[/etc/cron.d]:
  ensure: directory
  purge: true
```";

const FORCE: &str = "\
Whether a directory may be replaced by something else, and removed although it is not empty. Default: `false`.";

fn how(schema: TypeSchema) -> TypeSchema {
    schema
        .attribute("backup", "Variant[Boolean, String[1]]", Behaviour::Parameter, BACKUP)
        .attribute("checksum", "Enum[sha256, sha512, mtime, size, none]", Behaviour::Parameter, CHECKSUM)
        .attribute("replace", "Boolean", Behaviour::Parameter, REPLACE)
        .attribute("create", "Boolean", Behaviour::Parameter, CREATE)
        .attribute("parents", "Boolean", Behaviour::Parameter, PARENTS)
        .attribute("show_diff", "Boolean", Behaviour::Parameter, SHOW_DIFF)
        .attribute("validate_cmd", "Variant[String[1], Array[String, 1]]", Behaviour::Parameter, VALIDATE_CMD)
}

const BACKUP: &str = "\
What becomes of a content that is replaced or removed. Default: `false`.

- `false`: it is gone.
- a suffix such as `\".orig\"`: it stays beside the file under the name with the suffix, with owner and mode
  but without setuid and setgid. An older backup is never replaced: the next ones get the names `.orig.1`,
  `.orig.2` and so on. A content that is already kept there is not kept again.
- `true`: it is kept below kilter's state directory, in `backup/` under its SHA-256, readable by its owner only;
  `backup/index` tells when it was replaced where. It is kept in clear, so not together with a sensitive `content`. The copy gets
  its name when it is on the disk; one of an earlier run counts only if it holds the same. At most 1 GiB: a larger file is
  not replaced.";

const CHECKSUM: &str = "\
How a `source` and its copy are compared. Default: `sha256`.

- `sha256`, `sha512`: by content; reports tell the checksum.
- `mtime`: by size and time of modification, which the copy takes over. Fast for large trees.
- `size`: by size.
- `none`: a copy that exists is not compared.

A declared `content` is always compared byte by byte. Contents of different sizes are not read: reports tell the size
(`{size}4096`) if they are larger than 1 MiB. An interrupt or a `timeout` ends a comparison.";

const REPLACE: &str = "\
Whether a content, or where a link points to, is replaced where it differs. `false` only creates.
Default: `true`.";

const CREATE: &str = "\
Whether it is created where there is nothing. With `false` that is a failure, until somebody else has created it. Default: `true`.";

const PARENTS: &str = "\
Whether directories that are missing above it are made too, with the mode 0755. They are not looked after later. Default: `false`.";

const SHOW_DIFF: &str = "\
Whether reports show how a text changes. `false` for contents that are nobody's business. Default: `true`.
A sensitive `content` is never shown. Neither is a copy of a file (`source`, `fragments`) for which the manifest declares a
sensitive `content`, nor are their checksums.";

const VALIDATE_CMD: &str = "\
A command that must accept a new content before it takes the place of the old one. `%` stands for
the path of the new content. An array holds the program and its arguments; a text is split into
words like that of an `exec`, quotes included. No shell is involved. It is ended after a minute. What it says of a
content that it refuses is told, unless the content holds a secret.

```yaml
file[/etc/sudoers.d/app]:
  content: \"%app ALL=(root) NOPASSWD: /usr/bin/systemctl restart app\\n\"
  mode: \"0440\"
  validate_cmd: visudo -cf %
```";

const CAPABILITIES: &str = "\
Only in reports: `namespaced` if a program has capabilities that were set in a user namespace, where any user can set them. They
are removed if `content`, `source`, `owner`, `group` or `mode` is declared.";

fn found(schema: TypeSchema) -> TypeSchema {
    let kind = "Enum[file, directory, link, fifo, socket, block, char]";
    schema
        .attribute("capabilities", "Enum[none, namespaced]", Behaviour::ReadOnly, CAPABILITIES)
        .attribute("kind", kind, Behaviour::ReadOnly, "What is there, where `ensure` has no word for it as well.")
        .attribute("size", "Integer[0]", Behaviour::ReadOnly, "The size of a file in bytes.")
        .attribute("mtime", "String", Behaviour::ReadOnly, "When the content was last changed, in UTC.")
        .attribute(
            "checksum_value",
            "String",
            Behaviour::ReadOnly,
            "The checksum of the content: `{sha256}…`. Of files of at most 256 MiB.",
        )
}
