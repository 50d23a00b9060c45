//! Attributes and texts that all types of this module have.

use kilter_model::{Behaviour, TypeSchema};

/// Adds the attributes that all types of this module have.
pub(crate) fn common(schema: TypeSchema) -> TypeSchema {
    schema
        .attribute("path", "String[1]", Behaviour::Parameter, "Absolute path of the file, without `.`, `..` and `//`.")
        .required()
        .attribute(
            "create",
            "Boolean",
            Behaviour::Parameter,
            "Create the file if it does not exist, with mode 0644, or 0600 for a secret. With `false`, a missing file \
             is a failure, unless `ensure` is `absent`. With `true` and `ensure: absent`, kilter removes the file if \
             nothing is left in it.",
        )
        .default(false)
        .attribute(
            "validate_cmd",
            "Variant[String[1], Array[String, 1]]",
            Behaviour::Parameter,
            "Command that checks the new content before it replaces the file: `visudo -cf %`. `%` stands for the path \
             of the new content. kilter uses no shell. The command runs once for all changes of a file.",
        )
        .attribute(
            "backup",
            "Variant[Boolean, String[1]]",
            Behaviour::Parameter,
            "Backup of the old file, as in [`file`](file.md): `false`, a suffix such as `.orig`, or `true` for the \
             state directory.",
        )
        .default(false)
        .attribute(
            "show_diff",
            "Boolean",
            Behaviour::Parameter,
            "Show the change of the file as a diff. The diff has no unchanged lines around the change, because they \
             may contain secrets. kilter never shows the diff of a change with a secret.",
        )
        .default(true)
        .attribute(
            "change",
            "String",
            Behaviour::ReadOnly,
            "Change of the file as a unified diff, if the resource is out of sync.",
        )
}

/// Text on the pages of all types of this module.
macro_rules! about_files {
    () => {
        "\n\n\
**Files.** kilter reads a file once for all resources of the type that are ready, and replaces it once, atomically. It \
does not change any byte of the other lines. The new file keeps owner, mode, access list and extended attributes. If \
another program changes the file meanwhile, kilter makes its edits again on the new content. kilter refuses a symbolic \
link: declare the path of its target. A file must be text without NUL bytes, at most 64 MiB. New lines have the line \
break of the first line (LF or CR LF). If the last line has no line break, kilter adds a line break before it appends.

**Automatic edges.** The resource runs after `file[PATH]`, or after the `file` of the nearest declared directory \
above. If `file[PATH]` declares its whole content (`content`, `source`, `fragments` or `parts`), kilter refuses this \
resource, unless the file has `replace: false`. It also refuses two resources that set the same part of a file.

`kilter get` cannot list such resources, and cannot read an undeclared one."
    };
}
pub(crate) use about_files;
