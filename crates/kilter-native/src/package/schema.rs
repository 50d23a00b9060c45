//! Schema of the type `package`.

use std::time::Duration;

use kilter_model::{Attributes, Behaviour, Feature, TypeSchema, Value};

const DESC: &str = "\
Packages of Debian and derived distributions, by dpkg and apt. [Other package managers](package-managers.md) have \
providers of their own.

```yaml
resources:
  package[nginx]: {}
  package[openssl]: { ensure: latest }
  package[postgresql-15]: { ensure: 15.8-0+deb12u1, mark: hold }
  package[telnetd]: { ensure: purged }
  package[agent]: { source: /srv/packages/agent_2.0_amd64.deb }
```

kilter reads dpkg's database directly. All changes that are ready at the same time are one transaction of apt-get. \
If the transaction fails, kilter repeats it for each package, so that one bad package does not stop the others.

- **Nothing else is removed.** kilter refuses an installation for which apt would remove a package that is not \
declared `absent`. A removal also removes the dependent packages, as apt does. kilter names them, and refuses the \
removal if one of them is declared `present`. Beside an installation, which may replace the removed package, it only \
warns.
- **Holds.** kilter changes a package on hold only if the resource declares `mark`.
- **Configuration files** that were edited stay, unless `configfiles` is `replace`.
- **Virtual packages.** `package[mail-transport-agent]` is `present` if an installed package provides it. If one \
package provides it, kilter installs that package. If several do, the message names them.
- **Locks.** If another program holds the lock of dpkg, kilter names it and waits up to ten minutes.
- **Unattended.** Packages ask no questions, and needrestart restarts no services.

**Automatic edges.** A package runs before the service with its name, before the resources at paths that it owns, \
before services whose unit file it owns, and before commands whose program it owns. An absent package runs after \
its service. A package with a `source` runs after the file. A package runs after all `apt_repository` resources, \
except after those that require it.";

/// Pattern of a version.
const VERSION: &str = r"Pattern[/\A[0-9]([A-Za-z0-9.+:~-]*[A-Za-z0-9.+~])?\z/]";

/// Returns the schema.
pub(super) fn schema() -> TypeSchema {
    let (property, parameter) = (Behaviour::Property, Behaviour::Parameter);
    TypeSchema::new("package", DESC)
        .attribute(
            "ensure",
            &format!("Variant[Enum[present, installed, absent, purged, latest, held, broken], {VERSION}]"),
            property,
            "State of the package: `present`, `absent`. Short forms: `purged` is `absent` with `purge: true`, \
             `latest` is \
             `present` with `latest: true`, `held` is `present` with `mark: hold`, and a version is `present` with \
             that \
             `version`; `installed` is `present`. A package of which only configuration files are left is `absent`. \
             `broken` is the state of a package that dpkg has installed only partly; it cannot be declared.",
        )
        .default("present")
        .attribute(
            "name",
            r"Pattern[/\A[a-z0-9][a-z0-9+.-]*(:[a-z0-9-]+)?\z/]",
            Behaviour::Namevar,
            "Package: `libc6`, or with another architecture than that of the machine, `libc6:i386`.",
        )
        .attribute(
            "version",
            VERSION,
            property,
            "Version, as dpkg writes it: `1.22.1-9+deb12u1`. kilter compares versions as dpkg does, and also replaces \
             a newer version by the declared one.",
        )
        .attribute(
            "latest",
            "Boolean",
            property,
            "`true` if apt, by its lists and pins, would install no newer version. A version that is newer than the \
             one that a pin prefers counts as the latest; declare `version` to go back. `false` cannot be declared.",
        )
        .lazy()
        .attribute(
            "mark",
            "Enum[hold, none]",
            property,
            "`hold`: apt and other tools do not change the package. `none`: they may. With a declared `mark`, kilter \
             itself may change a package on hold, and sets the mark again.",
        )
        .attribute(
            "purge",
            "Boolean",
            parameter,
            "`true`: with `ensure: absent`, remove the configuration files too, also of a package that is already \
             removed.",
        )
        .default(Value::Boolean(false))
        .attribute(
            "source",
            "String[1]",
            parameter,
            "Absolute path of a package file (`.deb`) to install from, instead of a repository: \
             `/srv/packages/agent_2.0_amd64.deb`. kilter uses it for an installation, for another `version`, and with \
             `latest: true` if the file has a newer version. As root, kilter refuses a file that another user can \
             change.",
        )
        .attribute(
            "install_options",
            "Array[String[1]]",
            parameter,
            "Further arguments of apt-get for an installation: `[--no-install-recommends, -t, bookworm-backports]`.",
        )
        .attribute(
            "configfiles",
            "Enum[keep, replace]",
            parameter,
            "Treatment of edited configuration files in an upgrade: `keep` them, or `replace` them by those of the \
             package.",
        )
        .default("keep")
        .attribute(
            "refresh_lists",
            r"Variant[Integer[0], Pattern[/\A[0-9]+[smhd]\z/]]",
            parameter,
            "Maximum age of the package lists for an installation, in seconds or with a unit: `3600`, `1h`, `2d`. If \
             they \
             are older, kilter runs `apt-get update` before the transaction. Without it, kilter uses the lists as they \
             are.",
        )
        .attribute("architecture", "String", Behaviour::ReadOnly, "Architecture of the package, or `all`.")
        .attribute(
            "provided_by",
            "Array[String]",
            Behaviour::ReadOnly,
            "Installed packages that provide a virtual package.",
        )
        .attribute(
            "config_files",
            "Boolean",
            Behaviour::ReadOnly,
            "`true` if the package was removed and its configuration files are left.",
        )
        .features(&[Feature::Canonicalize, Feature::CustomInsync, Feature::SimpleGetFilter, Feature::SupportsNoop])
}

/// Returns the duration of `refresh_lists`.
pub(super) fn maximum_age(should: &Attributes) -> Option<Duration> {
    let value = should.get("refresh_lists")?.to_text()?;
    let (digits, unit) = value.split_at(value.trim_end_matches(|c: char| c.is_ascii_alphabetic()).len());
    let seconds = match unit {
        "m" => 60,
        "h" => 3600,
        "d" => 24 * 3600,
        _ => 1,
    };
    Some(Duration::from_secs(digits.parse::<u64>().ok()?.saturating_mul(seconds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_units() {
        let age = |value: Value| maximum_age(&Attributes::from_iter([("refresh_lists", value)])).unwrap().as_secs();
        assert_eq!((age(Value::Integer(90)), age("30s".into()), age("2m".into())), (90, 30, 120));
        assert_eq!((age("1h".into()), age("2d".into())), (3600, 172_800));
        assert_eq!(maximum_age(&Attributes::new()), None);
    }
}
