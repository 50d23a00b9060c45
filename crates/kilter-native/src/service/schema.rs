//! Schema of the type `service`.

use kilter_model::{Behaviour, Feature, TypeSchema};

const DESC: &str = "\
Units of systemd.

The name is the name of a unit: `nginx` and `nginx.service` are the same unit, `getty@tty1` is an instance, and \
`backup.timer` is a unit of another type. `kilter get` lists all services; it finds other units by name. kilter \
reloads a changed unit file before it starts the unit.

A refresh restarts a running unit, or reloads it with `refresh: reload`. It does not start a stopped unit, but the \
next run starts a unit that failed in a refresh. It does not restart a unit that the same run has started.

If a unit ends directly after its start, the resource fails with the last lines of its journal. For a unit that counts \
as started at once (`Type=simple`, `exec`, `idle`), kilter waits 0.25 s to detect that. If systemd restarts the unit \
automatically (`Restart=`), it is a warning instead.

```yaml
resources:
  file[/etc/nginx/nginx.conf]: {source: files/nginx.conf, notify: \"service[nginx]\"}
  service[nginx]: {ensure: running, enable: true, refresh: reload}
  service[rpcbind.socket]: {ensure: stopped, enable: mask}
```

A unit that does not exist is stopped and not enabled: it is in sync with `ensure: stopped` and `enable: false`, and \
can be masked. With `ensure: running` or `enable: true`, a plan fails, unless an earlier resource may create the unit.

Where systemd is installed and does not run, such as in an image, the provider `offline` manages `enable` alone: it \
accepts `ensure` with a warning, and does not compare it. A unit that does not exist fails with `ensure: running`.

**Limits.** kilter does not manage the units of a user (`systemctl --user`). It reports an error after it has stopped \
a transient unit (`systemd-run`), because such a unit then disappears. It does not distinguish a mask until the next \
boot from a permanent one. The call of a start or a stop waits until systemd has finished it, at most an hour or the \
metaparameter `timeout`; systemd continues after that.";

/// Directories of unit files that manifests declare.
const FILES: [&str; 8] = [
    "/etc/systemd/system/${vars.name}",
    "/etc/systemd/system/${vars.name}.service",
    "/usr/lib/systemd/system/${vars.name}",
    "/usr/lib/systemd/system/${vars.name}.service",
    "/lib/systemd/system/${vars.name}",
    "/lib/systemd/system/${vars.name}.service",
    "/etc/systemd/system/${vars.name}.d",
    "/etc/systemd/system/${vars.name}.service.d",
];

const OFFLINE_DESC: &str = "\
Units of systemd on a system that does not run, such as an image or a container without systemd.

kilter manages `enable` by `systemctl --root=/`. It neither starts nor stops units: it accepts `ensure`, warns, and \
does not compare it. A unit that does not exist fails with `ensure: running`, and is in sync with `enable: false`. A \
refresh has no effect.

```yaml
resources:
  service[nginx]: {enable: true}
  service[apt-daily.timer]: {enable: false}
```";

pub(super) fn schema() -> TypeSchema {
    described(DESC)
}

pub(super) fn offline() -> TypeSchema {
    described(OFFLINE_DESC)
}

fn described(desc: &str) -> TypeSchema {
    TypeSchema::new("service", desc)
        .attribute("name", "String[1]", Behaviour::Namevar, "Unit; `.service` is optional.")
        .attribute(
            "ensure",
            "Enum[running, stopped]",
            Behaviour::Property,
            "Activity of the unit. `running` includes a unit that is starting or waiting for a restart; `stopped` \
             includes a failed unit.",
        )
        .attribute(
            "enable",
            "Enum['true', 'false', mask, static]",
            Behaviour::Property,
            "Start at boot. `mask` also prevents a manual start. `true` and `static` remove the mask, and `false` \
             together with `ensure: running` does. A masked unit is in sync with `false`. A unit is `static` if it has \
             no section `[Install]`, is generated, or only refers to other units. kilter can mask such a unit, but \
             neither enable nor disable it, so that it is in sync with `true` and `false`.",
        )
        .attribute(
            "unit_file",
            "String",
            Behaviour::ReadOnly,
            "State of the unit file in the terms of systemd, such as `enabled`, `indirect` or `enabled-runtime`. With \
             `enabled-runtime` the unit is enabled until the next boot, and `enable` is `false`; or a generator \
             enables it at each boot, and `enable` is `true`.",
        )
        .attribute(
            "refresh",
            "Enum[restart, reload]",
            Behaviour::Parameter,
            "Effect of a refresh; by default `restart`. With `reload` the unit reads its configuration again without a \
             restart. kilter restarts a unit that cannot reload.",
        )
        .autorequire("file", FILES)
        .features(&[Feature::CustomInsync, Feature::Refresh, Feature::SimpleGetFilter, Feature::SupportsNoop])
}
