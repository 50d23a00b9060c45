//! Schema of the type `sysctl`.

use kilter_model::{Behaviour, Comparison, Feature, TypeSchema};

const DESC: &str = "\
Kernel parameters: the live value in `/proc/sys`, and the value for the next boot in `/etc/sysctl.d/zz-kilter.conf`.

```yaml
resources:
  sysctl[net.ipv4.ip_forward]:
    value: 1
  sysctl[net.ipv4.tcp_rmem]:
    value: 4096 131072 6291456
  sysctl[net.ipv4.conf.eth0/7.log_martians]:
    live: 1
  sysctl[net.bridge.bridge-nf-call-iptables]:
    kept: 1
  sysctl[vm.swappiness]:
    exists: false
```

`value` sets both values, `live` and `kept` set one of them. kilter sets the live value first: it does not keep a \
value that the kernel refuses. The resource exists if the file has a value for the parameter. `exists: false` removes \
the value from the file; the live value stays, unless `live` is declared too.

A name is written with dots or with slashes, as for sysctl(8). In the form with dots, a slash stands for a dot within \
a component: `net.ipv4.conf.eth0/7.log_martians` is `net/ipv4/conf/eth0.7/log_martians`. The amount of white space in \
values does not matter.

kilter keeps the lines of other parameters byte for byte, and never changes other files. It replaces the file once for \
all parameters, and removes an empty file. It warns if a file that the system reads later has another value. A list \
has the parameters of the file; others are read by name.

`kilter run` notices writes of other programs, and checks live values every five minutes, because the kernel does not \
report its own changes.";

pub(super) fn schema() -> TypeSchema {
    let text = |schema: TypeSchema, name: &str, desc: &str| {
        schema.attribute(name, "Variant[Integer, String]", Behaviour::Property, desc).compare(Comparison::Words)
    };
    let schema = TypeSchema::new("sysctl", DESC)
        .attribute(
            "name",
            "String[1]",
            Behaviour::Namevar,
            "Parameter, with dots or with slashes: `net.ipv4.ip_forward`, `net/ipv4/ip_forward`.",
        )
        .attribute(
            "exists",
            "Boolean",
            Behaviour::Property,
            "`true` if the file has a value for the next boot; `false` removes that value.",
        );
    let schema = text(
        schema,
        "value",
        "Live value and value for the next boot: `1`, `4096 131072 6291456`. It is read only if both are equal.",
    );
    let schema = text(schema, "live", "Live value: `1`.");
    text(schema, "kept", "Value for the next boot: `1`.").features(&[
        Feature::Canonicalize,
        Feature::CustomInsync,
        Feature::SimpleGetFilter,
        Feature::SupportsNoop,
    ])
}
