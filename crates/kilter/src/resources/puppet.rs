//! Resources in the Puppet language.

use kilter_model::{State, TypeSchema, Value};

use super::{SecretHandling, declared, left_out, missing};
use crate::puppet::{string, value};
use crate::visible::visible;

/// Types that kilter and Puppet (with its `_core` modules) share, with the attributes of both.
const SHARED: [(&str, &[&str]); 11] = [
    (
        "cron",
        &["ensure", "command", "user", "minute", "hour", "monthday", "month", "weekday", "special", "environment"],
    ),
    ("file", &["ensure", "content", "source", "target", "owner", "group", "mode"]),
    ("group", &["ensure", "gid", "members"]),
    ("host", &["ensure", "ip", "host_aliases", "comment", "target"]),
    ("known_hosts", &["ensure", "type", "key", "host_aliases"]),
    ("mount", &["ensure", "device", "fstype", "options", "dump", "pass"]),
    ("package", &["ensure", "mark"]),
    ("selboolean", &["value", "persistent"]),
    ("service", &["ensure", "enable"]),
    ("ssh_authorized_key", &["ensure", "user", "type", "key", "options", "target"]),
    (
        "user",
        &[
            "ensure",
            "uid",
            "gid",
            "groups",
            "home",
            "shell",
            "comment",
            "expiry",
            "password",
            "password_min_age",
            "password_max_age",
            "password_warn_days",
        ],
    ),
];

/// Built-in types that Puppet does not have, or that Puppet's modules declare otherwise.
const OWN: [&str; 35] = [
    "alternatives",
    "apt_repository",
    "archive",
    "augeas",
    "block",
    "ca_certificate",
    "container",
    "exported",
    "file_part",
    "firewall",
    "firewall_rule",
    "hostname",
    "image",
    "ini",
    "kernel_module",
    "kv",
    "line",
    "locale",
    "net",
    "noop",
    "nspawn",
    "password",
    "reboot",
    "resources",
    "structured",
    "sysctl",
    "systemd_timer",
    "test",
    "tidy",
    "timer",
    "timezone",
    "value",
    "vcsrepo",
    "virt",
    "virtual_disk",
];

/// Shared types that are actions and no states.
const ACTIONS: [&str; 2] = ["exec", "notify"];

/// Attributes that Puppet does not need: its `ensure` says the same, or they cannot be declared.
const IMPLIED: [(&str, &str); 2] = [("package", "version"), ("package", "latest")];

/// Values of `enable` that last until the next boot, with the state of systemd. Puppet treats the first unit as enabled
/// and the second as disabled, and would change `enable` in each run.
const UNTIL_BOOT: [(&str, &str); 2] = [("false", "enabled-runtime"), ("mask", "masked-runtime")];

/// Returns the resources as declarations of the Puppet language.
///
/// # Errors
/// The reason why Puppet cannot have resources of this type or this provider.
pub(crate) fn puppet(
    schema: &TypeSchema,
    provider: &str,
    states: &[State],
    secrets: SecretHandling,
) -> Result<String, String> {
    let type_name = schema.name.as_str();
    if OWN.contains(&type_name) {
        return Err(format!("Puppet has no type `{type_name}` with these attributes"));
    }
    if ACTIONS.contains(&type_name) {
        return Err(format!("`{type_name}` is an action, which Puppet would repeat in each run"));
    }
    if type_name == "package" && provider != "apt" {
        return Err(format!("Puppet cannot manage packages as kilter's provider `{provider}` does"));
    }
    let shared = SHARED.iter().find(|(name, _)| *name == type_name).map(|(_, attributes)| *attributes);
    let mut text = String::new();
    if shared.is_none() {
        text += &format!("# The type `{}` does not come with Puppet: this needs a module that has it.\n\n", type_name);
    }
    let mut names: Vec<&str> = Vec::new();
    let resources: Vec<String> = states
        .iter()
        .map(|state| {
            let name = name(type_name, state);
            if names.contains(&name) {
                let label = visible(state.label());
                return format!("# {type_name}[{label}] is omitted: Puppet accepts each name only once\n");
            }
            if matches!(type_name, "cron" | "ssh_authorized_key") {
                names.push(name);
            }
            resource(schema, shared, state, name, secrets)
        })
        .collect();
    Ok(text + &resources.join("\n"))
}

/// Returns the name without the user that distinguishes it from those of other users.
fn name<'a>(type_name: &str, state: &'a State) -> &'a str {
    let label = state.label();
    if !matches!(type_name, "cron" | "ssh_authorized_key") {
        return label;
    }
    let user = state.attributes.get("user").and_then(Value::as_str);
    user.and_then(|user| label.strip_prefix(user)?.strip_prefix(':')).unwrap_or(label)
}

fn resource(
    schema: &TypeSchema,
    shared: Option<&[&str]>,
    state: &State,
    name: &str,
    secrets: SecretHandling,
) -> String {
    let type_name = schema.name.as_str();
    if let Some(why) = missing(schema, state) {
        return format!("# {type_name}[{}] {why}\n", visible(state.label()));
    }
    if state.attributes.get("ensure").and_then(Value::as_str) == Some("broken") {
        return format!("# {type_name}[{}] is left out: it is half installed\n", visible(state.label()));
    }
    if type_name == "host" && name.chars().nth(1).is_none() {
        return format!("# host[{}] is left out: Puppet reads no name of one character\n", visible(state.label()));
    }
    let declared = declared(schema, state, secrets);
    let mut attributes: Vec<(&str, String)> = Vec::new();
    if name != state.label() {
        attributes.push(("name", string(name)));
    }
    if !state.exists {
        attributes.push(("ensure", string("absent")));
    }
    let mut unknown: Vec<&str> = Vec::new();
    for (attribute, found) in &declared.attributes {
        match shared.is_none_or(|shared| shared.contains(&attribute.as_str())) {
            true => attributes.extend(in_puppet(type_name, state, attribute.as_str(), found)),
            false if IMPLIED.contains(&(type_name, attribute.as_str())) => {}
            false => unknown.push(attribute.as_str()),
        }
    }
    let widest = attributes.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let puppets = if type_name == "known_hosts" { "sshkey" } else { type_name };
    let mut text = format!("{puppets} {{ {}:\n", string(state.label()));
    for (name, shown) in attributes {
        text += &format!("  {name:widest$} => {shown},\n");
    }
    if !declared.left_out.is_empty() {
        text += &format!("  # {}\n", left_out(&declared.left_out));
    }
    if !unknown.is_empty() {
        text += &format!("  # left out, since Puppet's `{type_name}` has nothing like it: {}\n", unknown.join(", "));
    }
    text + "}\n"
}

fn is_until_boot(state: &State) -> bool {
    let text = |name: &str| state.attributes.text(name);
    text("enable").zip(text("unit_file")).is_some_and(|words| UNTIL_BOOT.contains(&words))
}

/// Returns an attribute for Puppet; none if Puppet does not need it.
fn in_puppet<'a>(type_name: &str, state: &State, name: &'a str, found: &Value) -> Option<(&'a str, String)> {
    let text = found.as_str();
    let is_special = || state.attributes.get("special").and_then(Value::as_str).is_some_and(|word| word != "none");
    let is_empty = matches!(found, Value::Array(values) if values.is_empty());
    match (type_name, name) {
        ("package", "ensure") => {
            let version = state.attributes.get("version").and_then(Value::as_str);
            Some((name, version.map_or_else(|| value(found), string)))
        }
        ("package", "mark") if text == Some("none") => None,
        // Puppet has no word for a unit that can be neither enabled nor disabled.
        ("service", "enable") if text == Some("static") => None,
        ("service", "enable") if is_until_boot(state) => None,
        ("cron", "special") if text == Some("none") => None,
        ("cron", "minute" | "hour" | "monthday" | "month" | "weekday") if is_special() => None,
        ("cron", "minute" | "hour" | "monthday" | "month" | "weekday") => {
            let times: Vec<String> = text?.split(',').map(string).collect();
            Some((name, if let [one] = times.as_slice() { one.clone() } else { format!("[{}]", times.join(", ")) }))
        }
        ("cron", "environment") | ("ssh_authorized_key", "options") | ("known_hosts", "host_aliases") if is_empty => {
            None
        }
        _ => Some((name, value(found))),
    }
}
