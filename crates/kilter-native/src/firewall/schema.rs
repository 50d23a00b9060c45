//! Schemas of the types `firewall` and `firewall_rule`.

use kilter_model::{Behaviour, Feature, TypeSchema};

const DESC: &str = "\
Tables of the firewall (nftables).

```yaml
resources:
  firewall[inet filter]:
    content: |
      chain input {
        type filter hook input priority filter; policy drop;
        ct state established,related accept
        iifname \"lo\" accept
        meta l4proto { icmp, ipv6-icmp } accept
      }
  firewall_rule[ssh]:
    table: inet filter
    chain: input
    rule: tcp dport 22 accept
```

The name is the family and the name of the table. The content is the text between the braces of `table inet filter \
{ … }` in a file of nft(8): sets, maps, chains and rules. Resources [`firewall_rule`](firewall_rule.md) add rules to \
its chains, so that each part of a manifest can open its own ports.

kilter replaces a table as a whole, and all tables of a batch in one transaction: at no time is only a part of the \
rules in effect. nft checks the whole text first. If a table is invalid, its resource fails, and kilter replaces the others.

A declared table belongs to kilter, which removes rules of others from it. Tables that are not declared, such as those \
of Docker and fail2ban, stay as they are: declare no table that another program writes. A change of a table resets its \
counters, and removes the elements that the kernel has added to its dynamic sets. Such elements (of sets with the flag \
`dynamic` or `timeout`) are no difference.

With `persist`, kilter writes the table to `/etc/nftables.d`, and includes that file in `/etc/nftables.conf`, which \
the unit `nftables.service` loads at the boot. Enable the unit: `service[nftables]: { enable: true }`.

To compare, kilter loads the declared table in an empty network namespace and lists it there. So the plan shows rules \
as nft lists them, and different notations of a rule are equal. Write `iifname` instead of `iif`, because the \
namespace has no interface but `lo`. All this needs root.";

const RULE_DESC: &str = "\
Rules of a declared table of the firewall.

```yaml
resources:
  firewall[inet filter]:
    content: |
      chain input {
        type filter hook input priority filter; policy drop;
        ct state established,related accept
        iifname \"lo\" accept
      }
  firewall_rule[web]:
    table: inet filter
    chain: input
    rule: tcp dport { 80, 443 } accept
  firewall_rule[log the rest]:
    table: inet filter
    chain: input
    order: 90
    rule: 'limit rate 5/minute log prefix \"dropped: \"'
```

The table must be declared as a [`firewall`](firewall.md) resource that has the chain. The rules follow those of the \
content, by `order`, and by name if the order is equal. The name is the comment of the rule in the table.

A rule is not a resource in the graph. A relation to a rule is a relation to the table. kilter ignores its `meta` \
except `hidden` and `export`.";

pub(super) fn schema() -> TypeSchema {
    TypeSchema::new("firewall", DESC)
        .attribute("ensure", "Enum[present, absent]", Behaviour::Property, "State: `present`, `absent`.")
        .default("present")
        .attribute(
            "name",
            "String[1]",
            Behaviour::Namevar,
            "Family and name of the table: `inet filter`. Families are `inet`, `ip`, `ip6`, `arp`, `bridge`, `netdev`.",
        )
        .attribute(
            "content",
            "String",
            Behaviour::Property,
            "Sets, maps, chains and rules of the table, in the language of nft(8). Required unless `ensure` is \
             `absent`.",
        )
        .attribute(
            "rules",
            "Hash[String[1], Struct[{chain => String[1], rule => String[1], Optional[order] => Integer}]]",
            Behaviour::Parameter,
            "Further rules by name, as with [`firewall_rule`](firewall_rule.md): `{ssh: {chain: input, rule: tcp dport \
             22 accept}}`.",
        )
        .attribute("persist", "Boolean", Behaviour::Property, "True if the table exists after the next boot.")
        .default(true)
        .features(&[Feature::Canonicalize, Feature::CustomInsync, Feature::SimpleGetFilter, Feature::SupportsNoop])
}

pub(super) fn rule_schema() -> TypeSchema {
    TypeSchema::new("firewall_rule", RULE_DESC)
        .attribute("name", "String[1]", Behaviour::Namevar, "Name of the rule: `ssh`, `100 allow ssh`.")
        .attribute("table", "String[1]", Behaviour::Parameter, "Family and name of the table: `inet filter`.")
        .required()
        .attribute("chain", "String[1]", Behaviour::Parameter, "Chain of the table: `input`.")
        .required()
        .attribute("rule", "String[1]", Behaviour::Parameter, "Rule in the language of nft(8): `tcp dport 22 accept`.")
        .required()
        .attribute(
            "order",
            "Integer",
            Behaviour::Parameter,
            "Position: rules with a lower number come first. The default is 10.",
        )
        .part_of("firewall", "table", "rules")
        .features(&[Feature::SimpleGetFilter])
}
