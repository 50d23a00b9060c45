//! Schema and validation of the type `virtual_disk`.

use ecow::eco_format;
use kilter_model::{Attributes, Behaviour, Feature, TypeSchema, Value};
use kilter_provider::{Redactor, ValidationError};

use super::image::{Format, SECTOR, bytes_of};
use crate::file::atomic_rewrite::is_normal;

const DESC: &str = "\
Images of the disks of virtual machines.

```yaml
resources:
  virtual_disk:
    /var/lib/libvirt/images/web.qcow2:
      size: 20G
      backing: /var/lib/libvirt/images/debian-12.qcow2
    /var/lib/libvirt/images/data.img:
      size: 100G
  virt[web]:
    memory: 2048
    disks: [/var/lib/libvirt/images/web.qcow2, /var/lib/libvirt/images/data.img]
```

A new image has mode 0600 and needs no space for what is not written yet. kilter can make it from another image: with \
`backing` it stores only the differences, with `source` it is a copy.

kilter makes an image larger, but never smaller, and changes neither its format nor its backing image. libvirt gives \
the images of a running machine to another user, so kilter only makes images larger that no other user can change, and \
removes only its own: shut the machine down first. For the same reason, the directory and the image of `backing` or \
`source` must be such that no other user can change them.

kilter reads the header of an image itself, and only in the format that is declared or that the name stands for. A \
machine can write the header of another format to its disk. If kilter finds one in an image without a declared \
`format`, it refuses the image.

`ensure: absent`, `reverse`, and the undo of a creation remove the image with its data, and nothing restores it. A \
[`file`](file.md) with `purge` removes images below its directory, as it removes everything that is not declared as a \
`file`.

**Automatic edges.** The image comes after the declared package `qemu-utils`, after the file or mount of a directory \
above, and after the resources of its `backing` and `source`. [`virt`](virt.md) comes after its disks. `file[PATH]`, \
which can set owner and mode, comes after the image.

`kilter get` cannot list such resources.";

pub(super) fn schema() -> TypeSchema {
    let property = Behaviour::Property;
    TypeSchema::new("virtual_disk", DESC)
        .attribute("ensure", "Enum[present, absent]", property, "State of the image.")
        .default("present")
        .attribute("path", "String[1]", Behaviour::Namevar, "Path of the image: `/var/lib/libvirt/images/web.qcow2`.")
        .attribute(
            "format",
            "Enum[qcow2, raw]",
            property,
            "Format. The default is `qcow2` for a name that ends with `.qcow2`, otherwise `raw`.",
        )
        .attribute(
            "size",
            r"Variant[Integer[512], Pattern[/\A[1-9][0-9]*[KMGT]?\z/]]",
            property,
            "Size of the disk: `20G`. The units K, M, G and T are powers of 1024. A new image needs it, unless it has \
             `backing` or `source`.",
        )
        .attribute(
            "backing",
            "String[1]",
            property,
            "Path of an image that a new image is based on. It must not change afterwards. Only for `qcow2`.",
        )
        .attribute("source", "String[1]", Behaviour::Parameter, "Path of an image that a new image is a copy of.")
        .attribute(
            "base_format",
            "Enum[qcow2, raw]",
            Behaviour::Parameter,
            "Format of `backing` or `source`. The default follows from its name, as for `format`.",
        )
        .features(&[Feature::Canonicalize, Feature::SimpleGetFilter, Feature::SupportsNoop])
}

pub(super) fn problems(path: &str, should: &Attributes) -> Vec<ValidationError> {
    let mut found = Vec::new();
    let paths = ["backing", "source"].map(|name| (name, should.text(name)));
    for (name, path) in [("path", Some(path))].into_iter().chain(paths) {
        if let Some(path) = path.filter(|path| !is_normal(path) || path.ends_with('/')) {
            let problem = ValidationError::with(name, eco_format!("`{path}` is not an absolute path"));
            found.push(problem.hint("write a path without `.`, `..` and `//`: /var/lib/libvirt/images/web.qcow2"));
        }
    }
    for (attribute, _) in should.iter().filter(|(_, value)| value.holds_sensitive()) {
        let problem = ValidationError::with(attribute.as_str(), "an image cannot hold a secret");
        found.push(problem.hint("use a value that is not secret"));
    }
    if let Some(size) = should.get("size").and_then(Value::to_text) {
        match bytes_of(&size) {
            None => found.push(ValidationError::with("size", eco_format!("`{size}` is too large"))),
            Some(bytes) if !bytes.is_multiple_of(SECTOR) => {
                let problem = ValidationError::with("size", eco_format!("`{size}` is not a multiple of 512 bytes"));
                found.push(problem.hint("write a size with a unit: 20G"));
            }
            Some(_) => {}
        }
    }
    let base = should.text("backing").or(should.text("source"));
    if base == Some(path) {
        found.push(ValidationError::new("an image cannot be made from itself"));
    }
    if base.is_none() && should.get("base_format").is_some() {
        let problem = ValidationError::with("base_format", "there is no `backing` and no `source`");
        found.push(problem.hint("declare `format` for the format of the new image"));
    }
    if should.get("backing").is_some() {
        if Format::of(should.text("format"), path) == Format::Raw {
            let problem = ValidationError::with("backing", "an image in the format `raw` has no backing image");
            found.push(problem.hint("declare `format: qcow2`, or `source` for a copy"));
        }
        if should.get("source").is_some() {
            let problem = ValidationError::with("source", "a new image has either a `backing` or a `source`");
            found.push(problem.hint("remove one of them"));
        }
    }
    let seal = Redactor::of(should);
    found.into_iter().map(|problem| seal.problem(problem)).collect()
}
