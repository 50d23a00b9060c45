//! Attributes of the type `file`.

use kilter_model::{Behaviour, Feature, TypeSchema};

pub(super) fn schema() -> TypeSchema {
    let schema = TypeSchema::new("file", DESC);
    let schema = contents(schema);
    let schema = ownership(schema);
    let schema = trees(schema);
    let schema = settings(schema);
    reported(schema).features(&[
        Feature::Canonicalize,
        Feature::CustomInsync,
        Feature::SimpleGetFilter,
        Feature::SupportsNoop,
    ])
}

const DESC: &str = "\
Files, directories and symbolic links, with content, owner, group and mode.

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

**Replacement.** kilter writes new content to a temporary file with its final owner and mode, and renames it to the \
path. A reader
sees the old content or the new content, never a part. The new file keeps undeclared properties of the old one: \
owner, group, mode, labels and,
unless the owner changes, `user.*` attributes. It does not keep capabilities, because they belong to the old content. \
`acl` describes access control lists.

**Links.** The resource is the path itself, not the target of a link at the path (Puppet's `links => manage`).
kilter follows a link in a parent directory only if the link and its directory belong to root or to the user of \
kilter, and
no other user can write to that directory.

**Automatic edges.** The resource runs after the nearest directory above its path, its `owner`, its `group`, its \
`source` and its `fragments`, if
they are declared. There is no edge to the target of a link. There is also no edge to a user or group by number that \
itself
depends on the file, because kilter can set a number before that user exists.";

fn contents(schema: TypeSchema) -> TypeSchema {
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
Absolute path without `.`, `..` and `//`; by default the title. kilter removes a slash at the end.";

const ENSURE: &str = "\
Kind of the entry.

- `file`: a regular file. It replaces a link, a FIFO or a socket; with `force` also a directory
  or a device. A new file without a declared content is empty.
- `directory`: a directory. It replaces a file or a link, after `backup`.
- `link`: a symbolic link to `target`.
- `present`: any kind. If the path does not exist, kilter creates an empty file.
- `absent`: no entry. kilter removes a directory that is not empty only with `force`.

Default: `file` with `content`, `source`, `fragments` or `parts`; `link` with `target`; `directory` with
`recurse` or `purge`; else `present`.";

const CONTENT: &str = "\
Content of the file, byte by byte: text, or bytes in base64: `{ base64: \"/wA=\" }`.

```yaml
file[/etc/hostname]:
  content: \"web1\\n\"
```

`content: { template: app.conf.j2 }` takes the text of a template with loops and conditions.

Reports never show a sensitive content, its diff or its checksum.";

const SOURCE: &str = "\
Local file to copy the content from; with `recurse: true` the directory to copy with all entries below it.
Or the address of a file on a server: `https://…`, `http://…`. Excludes `content`, `fragments` and `target`.

A copy has the permission bits of its source, unless `mode` is declared. Only `mode` sets setuid, setgid and sticky
bits. A copy does not get the owner and group of its source. In a tree, kilter copies links as
links and omits devices, FIFOs and sockets.

```yaml
file[/srv/www]:
  source: /usr/share/site
  recurse: true
  mode: \"u=rwX,go=rX\"
file[/usr/local/bin/tool]:
  source: https://example.org/tool-1.2
  checksum: 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae
  mode: \"0755\"
```

If a file from a server has the declared `checksum`, kilter sends no request. Without a `checksum`, each check, also \
that of a plan, asks the server for another version (`ETag`, `Last-Modified`), and downloads it if the server has \
none of these headers. A content has at most 1 GiB. kilter follows five redirects, and none from https to http. It \
uses the certificates of the system and no proxy. Addresses without encryption need a `checksum`.";

const FRAGMENTS: &str = "\
Files to concatenate to the content. A directory stands for its direct entries in the order of
their names. At most 64 MiB in total. Excludes `content`, `source` and `target`.

```yaml
file[/etc/app.conf]:
  fragments: [/etc/app/head.conf, /etc/app/conf.d]
```";

const PARTS: &str = "\
Texts to concatenate to the content, by name. Parts with a lower `order` come first (default 10), parts with
the same `order` in the order of their names. Each [`file_part`](file_part.md) of the file adds a part. Excludes \
`content`, `source`, `fragments` and `target`.

```yaml
file[/etc/motd]:
  parts:
    welcome: { order: 1, content: \"Welcome.\\n\" }
    rules: { content: \"Be kind.\\n\" }
```";

const TARGET: &str = "\
Target of the link. A path without a leading `/` is relative to the directory of the link. The target need not
exist. Bytes that are not text are in base64, as in `content`. Requires `ensure: link`, or no `ensure`.";

fn ownership(schema: TypeSchema) -> TypeSchema {
    schema
        .attribute("owner", "Variant[String[1], Integer[0]]", Behaviour::Property, OWNER)
        .attribute("group", "Variant[String[1], Integer[0]]", Behaviour::Property, GROUP)
        .attribute("mode", "String[1]", Behaviour::Property, MODE)
        .attribute("acl", "Variant[Enum[none, keep], Struct[{managed => Array[String[1]]}]]", Behaviour::Property, ACL)
}

const OWNER: &str = "\
Owner, by name or number. Without it, an existing file keeps its owner, and a new file belongs to
the user of kilter. The owner of a link is that of the link itself.

If the owner or group of a file changes, the kernel removes its setuid and setgid bits and its capabilities.
kilter sets the bits again if `mode` names them: in digits, or as symbols such as `u+s`.";

const GROUP: &str = "Group, by name or number. Without it, an existing file keeps its group.";

const MODE: &str = "\
Permissions: octal digits, or the symbols of chmod(1). kilter reads 0644 and \"0644\" alike. Quote the digits,
because other readers of YAML take 0644 as a number.

- `\"0644\"`, `\"4755\"`: exactly these bits, including setuid (4), setgid (2) and sticky (1). The digits mean the
  same for a directory; only `recurse` adds `x` to `r`.
- `\"u=rwX,g-w,o=,+t\"`: relative to the found mode. `X` means `x` for directories and for files that already have
  an `x`. A symbol without `u`, `g`, `o` or `a` applies to all three; kilter ignores the umask. A directory
  keeps setuid and setgid unless the symbols name them.

Without `mode`, an existing entry keeps its mode. A new file gets 0644, a new file with a sensitive content 0600, and \
a new directory 0755,
regardless of the umask. If the file system does not store the bits, the resource fails. Links have no mode.

Two restrictions apply to a file with several hard links, because another name could be an unrelated file of another \
user:

- kilter does not set its setuid and setgid bits.
- In a directory that other users can write to, kilter does not change its owner or mode.";

const ACL: &str = "\
Access control list of a file or directory.

- `none`: no list; only the mode grants access.
- `managed`: exactly these entries in addition to the mode, in the syntax of setfacl(1): `user:NAME:rwx`, \
`group:NAME:r-x`,
  `mask::rwx`. An entry with the prefix `default:` applies to new files in a directory.
- `keep`: kilter does not change the list, and new files inherit the list of their directory. Not for a sensitive \
`content`.

```yaml
file[/srv/app/key.pem]:
  source: /etc/ssl/key.pem
  mode: \"0640\"
  acl: { managed: [\"user:www-data:r\"] }
```

The mask limits the named entries and the owning group. `ls -l` shows it as the group digit of the mode.

- With `mode` in digits, the group digit is the mask and the permissions of the owning group, as with chmod(1) on a file
  with a list. An entry with more permissions is an error.
- Without `mode`, kilter sets the mask as setfacl(1) does: to the union of the named entries and the owning group. The
  owning group keeps the permissions of its own entry. The plan shows the change, such as
  `mask: r-- → rw- (the mode 0640 becomes 0660)`.
- With `mode` in symbols, kilter computes the mask as without `mode`. It then applies the symbols to the mask and to the
  owning group.
- An entry `mask::r-x` sets the mask. It must agree with `mode`.

Without `acl`, the list matters if `content`, `source`, `owner`, `group` or `mode` is declared:

- kilter removes a list that gives a named user or group more than the mode gives to others. So the user who
  prepared a file keeps no access to it. A list that gives no more stays.
- kilter removes a directory's list for new files if it names a user or group, or if it permits more writing than the
  mode of the directory.
- An entry that kilter creates does not inherit such a list.
- With `recurse`, these rules apply to all entries below.

[Decision 13](../../decisions/0013-access-lists-and-extended-attributes.md) has the reasons. It also describes
capabilities and other extended attributes.";

fn trees(schema: TypeSchema) -> TypeSchema {
    schema
        .attribute("recurse", "Boolean", Behaviour::Parameter, RECURSE)
        .attribute("purge", "Boolean", Behaviour::Parameter, PURGE)
        .attribute("force", "Boolean", Behaviour::Parameter, FORCE)
}

const RECURSE: &str = "\
Apply the declaration to all entries below the directory. Default: `false`.

- With `source`: kilter copies the tree, and reports and repairs each entry that differs.
- Without `source`: `owner`, `group` and `mode` apply to all entries below.

With `recurse`, a `mode` in digits adds `x` to each `r` for directories: `\"0644\"` means 0755 for
them. An entry that is declared as its own file has its own declaration. kilter does not enter other mounted
file systems, and does not follow links.";

const PURGE: &str = "\
Remove undeclared entries of the directory. Declared are the files of the manifest, the directories and links above \
them, and
the entries of `source`. A plan lists each removal. Default: `false`.

Without `recurse`, kilter removes only direct entries of the directory, and subdirectories only with
`force`. With `recurse`, it removes entries at all levels.

```yaml
file[/etc/cron.d]:
  ensure: directory
  purge: true
```";

const FORCE: &str = "\
Permit the replacement of a directory by another kind, and the removal of a directory that is not empty. Default: \
`false`.";

fn settings(schema: TypeSchema) -> TypeSchema {
    schema
        .attribute("backup", "Variant[Boolean, String[1]]", Behaviour::Parameter, BACKUP)
        .attribute(
            "checksum",
            "Variant[Enum[sha256, sha512, mtime, size, none], String[64]]",
            Behaviour::Parameter,
            CHECKSUM,
        )
        .attribute("replace", "Boolean", Behaviour::Parameter, REPLACE)
        .attribute("create", "Boolean", Behaviour::Parameter, CREATE)
        .attribute("parents", "Boolean", Behaviour::Parameter, PARENTS)
        .attribute("show_diff", "Boolean", Behaviour::Parameter, SHOW_DIFF)
        .attribute("validate_cmd", "Variant[String[1], Array[String, 1]]", Behaviour::Parameter, VALIDATE_CMD)
}

const BACKUP: &str = "\
Backup of content that is replaced or removed. Default: `false`.

- `false`: no backup.
- a suffix such as `\".orig\"`: kilter keeps the old file in the same directory, under its name with the suffix. The \
backup keeps owner and mode,
  but not setuid and setgid. kilter never replaces a backup: further backups get the names `.orig.1`,
  `.orig.2` and so on. It makes no second backup of equal content.
- `true`: kilter stores the content in `backup/` below its state directory, under its SHA-256. Only the owner of the \
state directory can read it.
  `backup/index` has the time and path of each replacement. The backup is not encrypted, so it is an error with a \
  sensitive `content`. The maximum size
  is 1 GiB. A lower limit applies to files that a user other than root and the user of kilter can write: 16 MiB in
  total for one change. Each of these files counts as at least 4 KiB. kilter does not replace or remove a file beyond \
  a limit.";

const CHECKSUM: &str = "\
Comparison of a `source` and its copy, or the declared checksum of a content from a server. Default: `sha256`.

- `sha256`, `sha512`: by content; reports show the checksum.
- `mtime`: by size and modification time; the copy gets the modification time of the source. Fast for large trees.
- `size`: by size.
- `none`: kilter does not compare an existing copy.
- 64 or 128 hexadecimal digits: the SHA-256 or SHA-512 of a content from a server. Other content is not installed.

kilter always compares a declared `content` byte by byte. It does not read files of different sizes; if they are \
larger than 1 MiB, reports show the size
(`{size}4096`). An interrupt or a `timeout` ends a comparison.";

const REPLACE: &str = "\
Replace a different content, or a different target of a link. With `false`, kilter only creates missing files.
Default: `true`.";

const CREATE: &str = "\
Create the entry if it does not exist. With `false`, a missing entry is a failure. Default: `true`.";

const PARENTS: &str = "\
Create missing directories above the path, with mode 0755. kilter does not manage them later. Default: `false`.";

const SHOW_DIFF: &str = "\
Show the diff of a text in reports: `false` for private contents. Default: `true`.
Reports never show a sensitive `content`. If a file has a sensitive `content`, reports also show neither the text nor \
the checksum of its copies
(`source`, `fragments`).";

const VALIDATE_CMD: &str = "\
Command that checks new content before it replaces the old content; a failure of the command is a failure of the \
resource. `%` stands for
the path of the new content. An array has the program and its arguments. kilter splits a text into
words as for `exec`, with quotes. It uses no shell. The timeout is one minute. The error shows the output of the \
command, unless
the content holds a secret.

```yaml
file[/etc/sudoers.d/app]:
  content: \"%app ALL=(root) NOPASSWD: /usr/bin/systemctl restart app\\n\"
  mode: \"0440\"
  validate_cmd: visudo -cf %
```";

const CAPABILITIES: &str = "\
`namespaced`: the file has capabilities that were set in a user namespace. Any user can set such capabilities. Only \
reports have this attribute. kilter
removes the capabilities if `content`, `source`, `owner`, `group` or `mode` is declared.";

fn reported(schema: TypeSchema) -> TypeSchema {
    let kind = "Enum[file, directory, link, fifo, socket, block, char]";
    schema
        .attribute("capabilities", "Enum[none, namespaced]", Behaviour::ReadOnly, CAPABILITIES)
        .attribute("kind", kind, Behaviour::ReadOnly, "Kind of the found entry, also if `ensure` has no word for it.")
        .attribute("size", "Integer[0]", Behaviour::ReadOnly, "Size of a file in bytes.")
        .attribute("mtime", "String", Behaviour::ReadOnly, "Time of the last change of the content, in UTC.")
        .attribute(
            "checksum_value",
            "String",
            Behaviour::ReadOnly,
            "Checksum of the content of a file of at most 256 MiB: `{sha256}…`.",
        )
}
