//! Schema of the type `mount`.

use kilter_model::{Behaviour, Feature, TypeSchema};

const DESC: &str = "\
Mounted file systems and swap areas, and their entries in `/etc/fstab`.

```yaml
resources:
  mount[/srv/data]:
    device: /dev/disk/by-label/data
    fstype: ext4
    options: noatime,nodev
    pass: 2
  mount[/srv/cache]:
    device: tmpfs
    fstype: tmpfs
    options: size=64m,mode=0755
  mount[/srv/www]:
    device: /srv/data/www
    fstype: none
    options: bind,ro
  mount[/mnt/old]:
    ensure: absent
```

The name is the mount point. The mount point must exist, for example as a `file` resource with `ensure: directory`. \
A swap area has `fstype: swap`, and its device is the name.

kilter keeps all other lines of `/etc/fstab` byte for byte. It unmounts before it removes an entry, and mounts after \
it has written one. If only the options of a mounted file system change, kilter remounts it, as at a refresh; with \
another device or type, it unmounts and mounts again. It also remounts if a declared flag is not in effect: `ro`, \
`rw`, `nosuid`, `nodev`, `noexec` or an opposite of these. It never unmounts a busy file system by force. If a \
mount fails, kilter removes the new line or restores the previous one, because an entry that cannot be mounted can \
stop the next boot. A mount also fails if mount(8) succeeds without a mounted file system, as with `nofail` and a \
missing device. For a device that may be missing, declare `ensure: defined`. A list has the entries of `/etc/fstab`; \
other mounts are read by name.

Every user can read `/etc/fstab`, and the options of a remount while mount(8) runs: name a file with the password \
(`credentials=` of cifs) instead of the password.

Resources below the mount point are changed after the mount.";

pub(super) fn schema() -> TypeSchema {
    TypeSchema::new("mount", DESC)
        .attribute(
            "ensure",
            "Enum[mounted, unmounted, defined, present, absent, ghost]",
            Behaviour::Property,
            "State: `mounted` has an entry and is mounted, `unmounted` has an entry only. `defined` (or `present`) has \
             an entry and may be mounted. `absent` is neither. `ghost` is mounted without an entry; it cannot be \
             declared.",
        )
        .default("mounted")
        .attribute(
            "name",
            "String[1]",
            Behaviour::Namevar,
            "Mount point: `/srv/data`. Of a swap area the device: `/swapfile`.",
        )
        .attribute(
            "device",
            "String[1]",
            Behaviour::Property,
            "Device, label, network path or directory: `/dev/sdb1`, `UUID=3e6be9de`, `nas:/export`, `tmpfs`. Required \
             for a new entry, unless the type is `swap`.",
        )
        .attribute(
            "fstype",
            "String[1]",
            Behaviour::Property,
            "Type of the file system: `ext4`, `nfs`, `tmpfs`, `swap`, `none` for a bind mount. Required for a new \
             entry.",
        )
        .attribute(
            "options",
            "String[1]",
            Behaviour::Property,
            "Options, separated by commas: `noatime,nodev`. Their order does not matter. A new entry has `defaults`.",
        )
        .attribute("dump", "Integer[0, 1]", Behaviour::Property, "1 if dump(8) includes the file system: `0`, `1`.")
        .attribute(
            "pass",
            "Integer[0, 9]",
            Behaviour::Property,
            "Order of the checks at boot: `1` for `/`, `2` for others, `0` for no check.",
        )
        .attribute(
            "remounts",
            "Boolean",
            Behaviour::Parameter,
            "False if the file system cannot be remounted: kilter unmounts and mounts it instead.",
        )
        .default(true)
        .attribute(
            "active_options",
            "String",
            Behaviour::ReadOnly,
            "Options that the kernel shows for the mount: `rw,noatime`.",
        )
        .features(&[Feature::CustomInsync, Feature::Refresh, Feature::SimpleGetFilter, Feature::SupportsNoop])
}
