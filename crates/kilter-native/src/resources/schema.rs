//! Schema of the type `resources`, and its problems.

use kilter_model::{Attributes, Behaviour, Feature, TypeSchema, Value};
use kilter_provider::ValidationError;

const DESC: &str = "\
Removes the resources of a type that are not declared: users, groups, packages, SSH keys, entries of the hosts file, \
or cron entries. Stops and disables services that are not declared.

```yaml
resources:
  resources[cron]:
    purge: true
  resources[host]:
    purge: true
    except: [printer.example.org]
  resources[user]:
    purge: true
    unless_uid: [1000]
    meta: { noop: true }
  resources[package]:
    purge: true
    except: [vim, strace]
    meta: { noop: true }
  host[db.example.org]:
    ip: 10.0.0.7
```

The title is the name of the type. Each removal is an entry of the plan: read the plan first. With `meta: { \
noop: true }`, kilter reports the undeclared resources and removes none. A resource that is declared in any way \
stays: also with `noop`, `hidden` or a `policy`. A resource that `when` leaves out is not declared. `kilter run` also \
removes at once a package or another resource that a user adds by hand.

kilter never removes what belongs to the system:

- `user`: users outside of the range for people in `/etc/login.defs` (`UID_MIN` to `UID_MAX`), and the user of \
kilter. Also users that a declared resource refers to by an automatic edge, such as the `owner` of a file or the \
`user` of a timer. Home directories stay. The program `userdel` refuses to remove a user who is logged in.
- `group`: groups outside of `GID_MIN` to `GID_MAX`, primary groups of existing users, and groups that a declared \
resource refers to by an automatic edge.
- `host`: loopback and multicast addresses, such as those of `localhost` and of the machine itself.
- `cron`: entries without a name, and `/etc/crontab` and `/etc/cron.d`.
- `ssh_authorized_key`: keys without a comment, and keys of users outside of the range for people. kilter removes keys \
of root only if the manifest declares a key of root.
- `package` (dpkg): essential and protected packages, packages of the priorities `required`, `important` and \
`standard`, packages on hold, kernels, and packages for the boot, the disks, the network and the SSH server. Further \
packages that contain the unit of a declared service, programs that a declared resource needs, such as `git` for \
`vcsrepo`, and all packages that a remaining package depends on or recommends. Configuration files stay.
- `service`: services whose unit file is not in `/etc/systemd/system`. A package has brought these: purge \
packages. Also services that a declared socket, path or timer starts, instances of templates, and the service of \
kilter. The unit files stay.

Other types cannot be purged. For mounts and others, declare `ensure: absent`. For files, declare `purge` of \
[`file`](file.md).

**Automatic edges.** Cron entries and SSH keys are removed before users, and users before groups. Packages and SSH \
keys are removed after the declared ones exist.";

pub(super) fn schema() -> TypeSchema {
    TypeSchema::new("resources", DESC)
        .attribute(
            "name",
            "Enum[cron, group, host, package, service, ssh_authorized_key, user]",
            Behaviour::Namevar,
            "Type of the resources: `user`.",
        )
        .attribute("purge", "Boolean", Behaviour::Parameter, "True to remove undeclared resources.")
        .default(Value::Boolean(false))
        .attribute(
            "except",
            "Variant[String[1], Array[String[1]]]",
            Behaviour::Parameter,
            "Names of resources that stay without a declaration: `[alice, bob]`.",
        )
        .attribute(
            "unless_system_user",
            "Variant[Boolean, Integer[0]]",
            Behaviour::Parameter,
            "Largest uid that stays, if it is larger than the limit of the system: `1099`. Only for `user`. System \
             users always stay.",
        )
        .default(Value::Boolean(true))
        .attribute(
            "unless_uid",
            "Variant[Integer[0], Array[Integer[0]]]",
            Behaviour::Parameter,
            "Numbers of users that stay: `[1000, 1001]`. Only for `user`.",
        )
        .features(&[Feature::CustomGenerate, Feature::SimpleGetFilter, Feature::SupportsNoop])
}

/// Returns the problems that the schema cannot detect.
pub(super) fn problems(name: &str, should: &Attributes) -> Vec<ValidationError> {
    let mut problems = Vec::new();
    if should.get_bool("unless_system_user") == Some(false) {
        let problem = ValidationError::with("unless_system_user", "kilter never purges system users");
        problems.push(problem.hint("to remove one, declare it with `ensure: absent`"));
    }
    let is_number = should.get("unless_system_user").is_some_and(|limit| limit.as_integer().is_some());
    for (attribute, is_given) in [("unless_system_user", is_number), ("unless_uid", should.get("unless_uid").is_some())]
    {
        if is_given && name != "user" {
            problems.push(ValidationError::with(attribute, "it applies only to `resources[user]`"));
        }
    }
    problems
}
