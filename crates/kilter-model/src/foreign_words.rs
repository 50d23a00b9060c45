//! Words of Ansible, Chef, Puppet, Salt and mgmt that have another name in kilter.
//!
//! The tables contain only data. Hints by spelling alone would often suggest the opposite: `stopped` is the
//! nearest word to `started`.

use ecow::{EcoString, eco_format};

/// Type of a row that applies to all types.
pub const ANY: &str = "*";

/// Words for types: the words, kilter's type, and an addition to the hint.
pub const TYPES: &[(&[&str], &str, &str)] = &[
    (&["svc", "systemd", "systemd_service", "systemd_unit", "sysvinit", "daemon", "unit"], "service", ""),
    (&["pkg", "apt", "apt_package", "aptpkg", "yum", "dnf", "zypper", "rpm", "pip", "npm", "gem"], "package", ""),
    (
        &["apt::source", "apt_source", "deb822_repository", "apt_key", "apt::key", "apt_repo", "pkgrepo", "ppa"],
        "apt_repository",
        "",
    ),
    (&["template"], "file", " with `content: { template: app.conf.j2 }`"),
    (&["copy", "remote_file", "cookbook_file", "get_url", "assemble", "concat"], "file", ""),
    (&["directory", "dir", "folder", "mkdir", "remote_directory"], "file", " with `ensure: directory`"),
    (&["link", "symlink"], "file", " with `ensure: link` and `target`"),
    (&["concat_fragment", "concat::fragment"], "file_part", ""),
    (&["blockinfile", "marked_block"], "block", ""),
    (&["ini_setting", "ini_file", "inifile", "ini_subsetting"], "ini", ""),
    (
        &[
            "json_file",
            "json_setting",
            "json:edit",
            "yaml_file",
            "json",
            "yaml",
            "toml",
            "yaml_setting",
            "yaml_set",
            "yedit",
            "toml_file",
            "toml_setting",
            "hocon_setting",
        ],
        "structured",
        "",
    ),
    (&["lineinfile", "file_line", "file_replace", "append_if_no_line"], "line", ""),
    (&["command", "cmd", "shell", "script", "bash", "execute", "run", "raw"], "exec", ""),
    (&["account", "useradd", "users"], "user", ""),
    (&["groups", "groupadd"], "group", ""),
    (&["hosts", "hostsfile_entry", "host_entry", "hosts_file"], "host", ""),
    (&["host_name", "system_hostname", "network.system", "machine_name"], "hostname", ""),
    (&["tz", "time_zone", "timezone.system", "localtime"], "timezone", ""),
    (&["locales", "locale_gen", "locale.present", "locale.system", "localegen"], "locale", ""),
    (&["alternative", "alternative_entry", "update_alternatives", "update-alternatives"], "alternatives", ""),
    (
        &["ca_cert", "ca_cert::ca", "ca_certificates", "trusted_ca", "cacert", "trusted_certificate"],
        "ca_certificate",
        "",
    ),
    (
        &[
            "docker:container",
            "docker_container",
            "podman_container",
            "docker::run",
            "docker.running",
            "podman",
            "docker",
            "quadlet",
        ],
        "container",
        "",
    ),
    (&["machinectl", "systemd_nspawn", "nspawn_container"], "nspawn", ""),
    (&["qemu_img", "disk_image", "libvirt_volume", "virt_disk", "qcow2"], "virtual_disk", ""),
    (&["libvirt", "libvirt_domain", "kvm", "vm", "virtual_machine"], "virt", ""),
    (&["docker:image", "docker_image", "podman_image", "docker::image"], "image", ""),
    (&["git", "git_repo", "git.latest", "git.cloned", "gitrepo"], "vcsrepo", ""),
    (&["unarchive", "extract", "archive_file", "untar", "tarball"], "archive", ""),
    (&["nftables", "nft", "nft_table", "nftables::table", "firewall_table"], "firewall", ""),
    (&["iptables", "ufw", "nftables_rule", "nftables::rule", "firewallrule"], "firewall_rule", ""),
    (
        &["sudo", "sudoers", "sudo::conf", "logrotate", "logrotate::rule", "limits", "limits::limits", "pam_limits"],
        "file",
        " with `validate_cmd`: see the guide about sudo, logrotate and limits",
    ),
    (
        &[
            "network_interface",
            "network_config",
            "interface",
            "link",
            "ip_address",
            "network.managed",
            "route",
            "network_route",
        ],
        "net",
        "",
    ),
    (&["mounts", "fstab", "mountpoint", "filesystem", "swap"], "mount", ""),
    (&["cronjob", "cron_job", "crontab", "cron_d"], "cron", ""),
    (&["authorized_key", "authorized_keys", "ssh_auth", "ssh:authorized_key"], "ssh_authorized_key", ""),
    (&["tmpreaper", "tmpwatch", "tmpfiles", "cleanup"], "tidy", ""),
    (&["sshkey", "known_host", "ssh_known_hosts", "ssh_known_hosts_entry"], "known_hosts", ""),
    (&["kmod", "modprobe", "kmod::load", "kernel_modules", "kernelmodule"], "kernel_module", ""),
    (&["power_state", "restart_machine", "shutdown"], "reboot", ""),
    (&["systemd::timer", "systemd_timer_unit", "timers"], "systemd_timer", ""),
    (&["seboolean", "selinux_boolean", "selinux::boolean"], "selboolean", ""),
    (&["sysctl_param", "kernel_parameter"], "sysctl", ""),
    (&["msg", "print", "debug", "log", "echo"], "notify", ""),
    (&["purge"], "resources", " with `purge: true`: `resources[user]`. For a directory, declare `purge` of its `file`"),
    (
        &["yumrepo", "yum_repository", "dnf_repository", "yum_repo"],
        "file",
        " at /etc/yum.repos.d/NAME.repo: there is no type for repositories of yum and dnf",
    ),
    (
        &["zypprepo", "zypper_repository", "zypper_repo"],
        "file",
        " at /etc/zypp/repos.d/NAME.repo: there is no type for repositories of zypper",
    ),
];

/// Words for attributes: the type, the words, and kilter's attribute.
pub const ATTRIBUTES: &[(&str, &[&str], &str)] = &[
    (ANY, &["state", "status", "action"], "ensure"),
    ("file", &["dest", "name", "dst", "filename", "location", "file"], "path"),
    ("file", &["src", "from", "source_file", "url"], "source"),
    ("file", &["text", "contents", "data", "body", "line"], "content"),
    ("file", &["user", "uid", "username"], "owner"),
    ("file", &["gid", "groupname"], "group"),
    ("file", &["perms", "permissions", "perm", "chmod", "rights"], "mode"),
    ("file", &["link_target", "to", "symlink"], "target"),
    ("file", &["recursive"], "recurse"),
    ("file", &["makedirs", "mkdirs", "create_parents", "mkdir"], "parents"),
    ("file", &["validate", "verify", "check_cmd"], "validate_cmd"),
    ("file", &["diff", "show_changes"], "show_diff"),
    ("file", &["type", "kind_of"], "ensure"),
    ("file_part", &["dest", "file", "target", "filename"], "path"),
    ("file_part", &["line", "block", "text", "contents"], "content"),
    ("block", &["dest", "file", "target", "filename"], "path"),
    ("block", &["block", "text", "lines", "contents"], "content"),
    ("block", &["insertafter", "after"], "insert_after"),
    ("block", &["insertbefore"], "insert_before"),
    ("block", &["validate", "verify", "check_cmd"], "validate_cmd"),
    ("ini", &["dest", "file", "target", "filename"], "path"),
    ("ini", &["option", "key", "parameter"], "setting"),
    ("ini", &["val", "content"], "value"),
    ("ini", &["key_val_separator", "delimiter"], "separator"),
    ("ini", &["validate", "verify", "check_cmd"], "validate_cmd"),
    ("structured", &["dest", "file", "target", "filename"], "path"),
    ("structured", &["setting", "name", "pointer", "jsonpath", "query"], "key"),
    ("structured", &["val", "content"], "value"),
    ("structured", &["validate", "verify", "check_cmd"], "validate_cmd"),
    ("net", &["addrs", "ip", "ipaddress", "ip_address", "address"], "addresses"),
    ("net", &["default_route", "gw", "defroute"], "gateway"),
    ("net", &["route"], "routes"),
    ("net", &["type"], "kind"),
    ("net", &["bridge"], "master"),
    ("net", &["vlan", "vid", "vlanid"], "vlan_id"),
    ("line", &["dest", "file", "target", "filename"], "path"),
    ("line", &["text", "content", "contents"], "line"),
    ("line", &["regexp", "regex", "pattern", "search_string"], "match"),
    ("line", &["insertafter", "insert_after"], "after"),
    ("line", &["validate", "verify", "check_cmd"], "validate_cmd"),
    ("augeas", &["file", "path", "dest"], "incl"),
    ("augeas", &["commands", "sets", "expr"], "changes"),
    ("container", &["env", "variables"], "environment"),
    ("container", &["cmd", "args", "entrypoint"], "command"),
    ("container", &["publish", "published_ports", "port"], "ports"),
    ("container", &["volume", "mounts", "binds"], "volumes"),
    ("container", &["restart_policy", "restart_service"], "restart"),
    ("container", &["net", "networks", "network_mode"], "network"),
    (
        "container",
        &[
            "extra_parameters",
            "extra_args",
            "user",
            "hostname",
            "privileged",
            "memory",
            "cap_add",
            "capabilities",
            "devices",
        ],
        "options",
    ),
    ("virt", &["ram", "mem", "memory_mb"], "memory"),
    ("virt", &["vcpu", "vcpus", "cpu", "processors"], "cpus"),
    ("virt", &["disk", "volumes", "images", "virt_path"], "disks"),
    ("virt", &["cdrom", "iso"], "cdroms"),
    ("virt", &["network", "interfaces", "nic", "bridge"], "networks"),
    ("virt", &["enable", "onboot", "boot_with_host"], "autostart"),
    ("virt", &["virt_type", "hypervisor"], "kind"),
    ("exec", &["cmd", "argv", "code", "run", "script"], "command"),
    ("exec", &["chdir", "dir", "directory", "workdir", "working_dir", "working_directory"], "cwd"),
    ("exec", &["env", "envvars", "environ", "variables"], "environment"),
    ("exec", &["runas", "run_as", "become_user", "uid", "owner"], "user"),
    ("exec", &["gid"], "group"),
    ("exec", &["not_if", "notif", "nifcmd", "skip_if"], "unless"),
    ("exec", &["only_if", "if", "ifcmd"], "onlyif"),
    ("exec", &["donecmd"], "done"),
    ("exec", &["watchcmd"], "watch"),
    ("exec", &["refresh_only"], "refreshonly"),
    ("exec", &["retries", "attempts"], "tries"),
    ("exec", &["retry_delay", "retry_wait"], "try_sleep"),
    ("exec", &["rc", "exit_codes", "exit_code", "success_codes", "return_code"], "returns"),
    ("exec", &["executable", "interpreter"], "shell"),
    ("exec", &["log_output"], "logoutput"),
    ("exec", &["dest", "makes"], "creates"),
    ("user", &["username", "login", "user"], "name"),
    ("user", &["id"], "uid"),
    ("user", &["group", "primary_group", "pgrp"], "gid"),
    ("user", &["optional_groups", "supplementary_groups", "extra_groups"], "groups"),
    ("user", &["homedir", "home_dir", "home_directory"], "home"),
    ("user", &["create_home", "createhome", "manage_home", "move_home"], "managehome"),
    ("user", &["gecos", "fullname", "full_name", "realname", "description"], "comment"),
    ("user", &["passwd", "pass", "password_hash", "hash"], "password"),
    ("user", &["expires", "expire", "expiration"], "expiry"),
    ("user", &["login_shell"], "shell"),
    ("user", &["non_unique", "allow_duplicate"], "allowdupe"),
    ("user", &["system_user", "is_system"], "system"),
    ("user", &["append"], "membership"),
    ("user", &["password_expire_max", "max_age", "maxdays"], "password_max_age"),
    ("user", &["password_expire_min", "min_age", "mindays"], "password_min_age"),
    ("user", &["password_expire_warn", "warndays"], "password_warn_days"),
    ("group", &["users", "addusers", "member"], "members"),
    ("group", &["id"], "gid"),
    ("group", &["non_unique", "allow_duplicate"], "allowdupe"),
    ("group", &["append"], "auth_membership"),
    ("host", &["aliases", "alias", "names"], "host_aliases"),
    ("host", &["address", "addr", "ipaddress", "ip_address"], "ip"),
    ("host", &["hostname", "host"], "name"),
    ("hostname", &["hostname", "host_name"], "name"),
    ("hostname", &["pretty_hostname", "pretty_name"], "pretty"),
    ("hostname", &["static_hostname", "static_name"], "static"),
    ("hostname", &["transient_hostname", "transient_name"], "transient"),
    ("timezone", &["timezone", "tz"], "name"),
    ("locale", &["is_default", "lang"], "default"),
    ("locale", &["encoding", "codeset", "charmap"], "charset"),
    ("apt_repository", &["uri", "url", "location", "baseurl", "repo"], "uris"),
    ("apt_repository", &["suite", "release", "dist", "distribution"], "suites"),
    ("apt_repository", &["component", "repos"], "components"),
    ("apt_repository", &["architecture", "arch"], "architectures"),
    ("apt_repository", &["type"], "types"),
    ("apt_repository", &["key_url", "gpgkey", "gpg_key"], "key_source"),
    ("apt_repository", &["keyring"], "signed_by"),
    ("alternatives", &["target", "alternative", "value"], "path"),
    ("ca_certificate", &["ca_text", "pem", "text", "cert"], "content"),
    ("ca_certificate", &["path", "file", "src"], "source"),
    ("firewall", &["chains", "ruleset", "text"], "content"),
    ("firewall_rule", &["jump", "dport", "proto", "port", "action", "source"], "rule"),
    ("mount", &["path", "mountpoint", "mount_point", "dir"], "name"),
    ("mount", &["src", "source", "dev"], "device"),
    ("mount", &["type", "fs_type", "fs", "filesystem"], "fstype"),
    ("mount", &["opts", "mount_options", "option"], "options"),
    ("mount", &["freq", "fs_freq"], "dump"),
    ("mount", &["passno", "fs_passno"], "pass"),
    ("package", &["pkg", "package", "package_name", "pkgs"], "name"),
    ("package", &["ver", "release"], "version"),
    ("service", &["service_name", "unit", "svc"], "name"),
    ("service", &["enabled", "startup", "boot", "onboot", "start_mode"], "enable"),
    ("cron", &["job", "cmd", "task"], "command"),
    ("cron", &["day", "dom", "daymonth", "day_of_month"], "monthday"),
    ("cron", &["dow", "dayweek", "day_of_week"], "weekday"),
    ("cron", &["hours"], "hour"),
    ("cron", &["minutes"], "minute"),
    ("cron", &["months"], "month"),
    ("cron", &["special_time", "time"], "special"),
    ("cron", &["env", "environ"], "environment"),
    ("ssh_authorized_key", &["key_type", "keytype", "enc"], "type"),
    ("ssh_authorized_key", &["public_key", "pubkey", "keydata"], "key"),
    ("ssh_authorized_key", &["key_options", "option"], "options"),
    ("ssh_authorized_key", &["username", "owner"], "user"),
    ("ssh_authorized_key", &["comment", "keyname"], "name"),
    ("tidy", &["older_than", "max_age", "min_age", "days"], "age"),
    ("tidy", &["pattern", "patterns", "glob", "match"], "matches"),
    ("tidy", &["recursive"], "recurse"),
    ("tidy", &["age_stamp", "time"], "type"),
    ("tidy", &["dir", "directory", "paths", "name"], "path"),
    ("resources", &["exceptions", "unless", "exclude"], "except"),
    ("known_hosts", &["host", "hostname"], "name"),
    ("known_hosts", &["aliases", "alias"], "host_aliases"),
    ("known_hosts", &["path", "file"], "target"),
    ("kernel_module", &["params", "parameters", "option"], "options"),
    ("kernel_module", &["persistent", "persist", "onboot"], "boot"),
    ("reboot", &["msg", "text"], "message"),
    ("reboot", &["delay", "pre_reboot_delay", "wait"], "timeout"),
    ("selboolean", &["state", "ensure"], "value"),
    ("systemd_timer", &["calendar", "schedule", "time"], "on_calendar"),
    ("sysctl", &["key", "param", "parameter"], "name"),
    ("sysctl", &["val"], "value"),
    (ANY, &["depends_on", "depends", "requires", "requisite", "after", "needs"], "require"),
    (ANY, &["require_in", "required_by"], "before"),
    (ANY, &["notifies", "watch_in", "handler", "triggers"], "notify"),
    (ANY, &["subscribes", "listen", "listens", "onchanges"], "subscribe"),
    (ANY, &["if", "only_if", "condition"], "when"),
    (ANY, &["using"], "provider"),
];

/// Words for attributes that kilter handles in another way: the type, the words, and the hint.
const ANSWERS: &[(&str, &[&str], &str)] = &[
    ("cron", &["schedule"], "write `minute`, `hour`, `monthday`, `month` and `weekday`, or `special: daily`"),
    (
        ANY,
        &["onlyif", "unless", "creates", "ifcmd", "not_if", "guard"],
        "guards belong to `exec`; `when:` leaves a resource out by facts and variables",
    ),
    (
        ANY,
        &["loop", "with_items", "with_dict", "foreach", "count"],
        "write `for_each: [a, b]`, and `${each.value}` in the title and the attributes",
    ),
    (ANY, &["template"], "a template is a value: content: { template: app.conf.j2 }"),
    (ANY, &["register", "output"], "a resource refers to the output of another: ${exec[title].stdout}"),
    (ANY, &["become", "sudo", "become_method"], "remove it: kilter works with the rights of the user that runs it"),
    (ANY, &["ignore_errors", "failed_when"], "remove it: a failure stops only the resources that depend on it"),
    (ANY, &["changed_when"], "remove it: kilter compares the state, and a guard decides about an `exec`"),
    (ANY, &["alias", "tag", "tags", "loglevel", "audit", "schedule", "stage"], "remove it: kilter has no equivalent"),
    (
        ANY,
        &["hasrestart", "hasstatus", "daemon_reload", "update_cache", "cache_valid_time"],
        "remove it: the provider does this automatically",
    ),
    (ANY, &["removes"], "write a guard: onlyif: [test, -e, PATH]"),
];

/// Words for values: the type, the attribute, the words, and kilter's value or a hint.
pub const VALUES: &[(&str, &str, &[&str], &str)] = &[
    (
        "service",
        "ensure",
        &["started", "start", "up", "active", "alive", "true", "yes", "on", "run", "present"],
        "running",
    ),
    (
        "service",
        "ensure",
        &["restarted", "reloaded", "restart", "reload"],
        "write `ensure: running`; `subscribe` restarts the service when another resource changes",
    ),
    ("service", "ensure", &["stop", "down", "inactive", "dead", "false", "no", "off", "absent"], "stopped"),
    (
        "service",
        "ensure",
        &["enabled", "disabled", "masked"],
        "whether it starts with the machine is another attribute, `enable`: true, false or mask",
    ),
    ("service", "enable", &["enabled", "yes", "on", "auto", "automatic", "started", "running"], "true"),
    ("service", "enable", &["disabled", "no", "off", "manual", "stopped"], "false"),
    ("service", "enable", &["masked"], "mask"),
    ("service", "enable", &["unmasked"], "false"),
    ("package", "ensure", &["installed", "install", "held", "hold", "true", "yes", "newest_installed"], "present"),
    ("package", "ensure", &["latest", "upgrade", "upgraded", "newest", "updated"], "write `latest: true`"),
    ("package", "ensure", &["purged", "purge"], "write `ensure: absent` and `purge: true`"),
    ("package", "ensure", &["removed", "remove", "uninstalled", "uninstall", "false", "no", "disabled"], "absent"),
    ("file", "ensure", &["dir", "folder", "directories", "mkdir"], "directory"),
    ("file", "ensure", &["symlink", "symboliclink", "soft", "softlink", "ln"], "link"),
    ("file", "ensure", &["touch", "touched", "regular", "created", "create", "copy", "template"], "file"),
    ("file", "ensure", &["hard", "hardlink"], "kilter makes no hard links; `ensure: link` makes a symbolic one"),
    ("user", "membership", &["append", "true", "yes"], "minimum"),
    ("user", "membership", &["false", "no", "exclusive", "exact"], "inclusive"),
    ("cron", "special", &["@reboot", "startup", "boot"], "reboot"),
    ("cron", "special", &["@hourly"], "hourly"),
    ("cron", "special", &["@daily", "@midnight"], "daily"),
    ("cron", "special", &["@weekly"], "weekly"),
    ("cron", "special", &["@monthly"], "monthly"),
    ("cron", "special", &["@yearly", "@annually"], "yearly"),
    (
        ANY,
        "ensure",
        &[
            "exists",
            "exist",
            "existing",
            "created",
            "create",
            "add",
            "added",
            "true",
            "yes",
            "on",
            "enabled",
            "installed",
        ],
        "present",
    ),
    (
        ANY,
        "ensure",
        &[
            "removed",
            "remove",
            "deleted",
            "delete",
            "del",
            "destroyed",
            "missing",
            "gone",
            "purged",
            "false",
            "no",
            "off",
            "disabled",
            "uninstalled",
            "nonexistent",
            "none",
        ],
        "absent",
    ),
];

/// Words with opposite meanings. A word on one side of a row is never suggested as a correction of a word on
/// the other side.
const OPPOSITES: &[(&[&str], &[&str])] = &[
    (
        &["started", "start", "running", "run", "up", "active", "alive", "restarted", "restart", "reloaded", "reload"],
        &["stopped", "stop", "down", "inactive", "dead"],
    ),
    (
        &["true", "yes", "on", "enabled", "enable", "active"],
        &["false", "no", "off", "disabled", "disable", "none", "mask", "masked"],
    ),
    (
        &["present", "installed", "install", "latest", "exists", "created", "create", "added"],
        &["absent", "uninstalled", "uninstall", "removed", "remove", "deleted", "purged", "missing", "broken"],
    ),
    (&["mounted", "mount"], &["unmounted", "umounted", "unmount", "umount", "absent"]),
    (&["allow", "allowed", "accept", "permit"], &["deny", "denied", "reject", "drop", "forbid"]),
    (&["before", "require_in"], &["after", "require"]),
    (&["first", "min", "minimum", "minimal"], &["last", "max", "maximum", "maximal"]),
    (&["locked", "lock", "held", "hold"], &["unlocked", "unlock", "unheld", "unhold"]),
    (&["inclusive", "included", "include"], &["exclusive", "excluded", "exclude"]),
];

/// Returns true if the two words have opposite meanings.
pub(crate) fn are_opposites(one: &str, other: &str) -> bool {
    let (one, other) = (one.to_lowercase(), other.to_lowercase());
    let is_negated = |one: &str, other: &str| {
        ["un", "dis", "in", "non", "no", "not", "no_", "not_", "non-"]
            .iter()
            .any(|prefix| one.strip_prefix(prefix) == Some(other))
    };
    let in_row = |(left, right): &(&[&str], &[&str])| {
        let is_pair = |one: &str, other: &str| left.contains(&one) && right.contains(&other);
        is_pair(&one, &other) || is_pair(&other, &one)
    };
    is_negated(&one, &other) || is_negated(&other, &one) || OPPOSITES.iter().any(in_row)
}

/// Returns the hint for a type of another tool if kilter has it under another name. `has` returns true for
/// existing types.
pub fn type_hint(word: &str, has: &dyn Fn(&str) -> bool) -> Option<EcoString> {
    let word = word.to_lowercase();
    // Puppet and Ansible put the collection in front of the name.
    let last = word.rsplit(['.', ':']).next().unwrap_or_default();
    let found = |(words, ..): &&(&[&str], &str, &str)| words.contains(&word.as_str()) || words.contains(&last);
    let (_, name, addition) = TYPES.iter().filter(found).find(|(_, name, _)| has(name))?;
    Some(eco_format!("kilter's type is `{name}`{addition}"))
}

/// Returns the hint for an attribute of another tool. `has` returns true for existing attributes and relations.
pub fn attribute_hint(type_name: &str, word: &str, has: &dyn Fn(&str) -> bool) -> Option<EcoString> {
    let word = word.to_lowercase();
    let found = |(of, words, name): &&(&str, &[&str], &str)| {
        (*of == type_name || *of == ANY) && words.contains(&word.as_str()) && has(name)
    };
    let name = ATTRIBUTES.iter().find(found).map(|(.., name)| eco_format!("kilter's attribute is `{name}`"));
    let applies =
        |(of, words, _): &&(&str, &[&str], &str)| (*of == type_name || *of == ANY) && words.contains(&word.as_str());
    let answer = || ANSWERS.iter().find(applies).map(|(.., hint)| (*hint).into());
    name.or_else(answer)
}

/// Returns the hint for a value of another tool. `allowed` are the values of the attribute.
pub fn value_hint(type_name: &str, attribute: &str, word: &str, allowed: &[&str]) -> Option<EcoString> {
    let word = word.to_lowercase();
    let is_version = word.starts_with(|c: char| c.is_ascii_digit()) || word.starts_with(['=', '>', '<']);
    if (type_name, attribute) == ("package", "ensure") && is_version {
        let version = word.trim_start_matches(['=', '>', '<', ' ']);
        return Some(eco_format!("write `version: \"{version}\"`"));
    }
    let found = |(of, name, words, answer): &&(&str, &str, &[&str], &str)| {
        (*of == type_name || *of == ANY)
            && *name == attribute
            && words.contains(&word.as_str())
            && (answer.contains(' ') || allowed.contains(answer))
    };
    VALUES.iter().find(found).map(|(.., answer)| match answer.contains(' ') {
        true => (*answer).into(),
        false => eco_format!("kilter's term is `{answer}`"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn term_of_another_tool_suggests_kilter_term() {
        let service = ["running", "stopped"];
        let hint = |of: &str, name: &str, word: &str, allowed: &[&str]| value_hint(of, name, word, allowed).unwrap();
        assert_eq!(hint("service", "ensure", "started", &service), "kilter's term is `running`");
        assert_eq!(hint("service", "ensure", "Stop", &service), "kilter's term is `stopped`");
        assert_eq!(hint("package", "ensure", "latest", &["present", "absent"]), "write `latest: true`");
        assert_eq!(hint("package", "ensure", "1.18.0-6", &["present"]), "write `version: \"1.18.0-6\"`");
        assert_eq!(hint("host", "ensure", "deleted", &["present", "absent"]), "kilter's term is `absent`");
        assert_eq!(value_hint("other", "ensure", "deleted", &["up"]), None, "a word that the type does not have");
        let all = |_: &str| true;
        assert_eq!(attribute_hint("file", "dest", &all).unwrap(), "kilter's attribute is `path`");
        assert_eq!(attribute_hint("user", "state", &all).unwrap(), "kilter's attribute is `ensure`");
        assert!(attribute_hint("file", "onlyif", &|_| false).unwrap().contains("`exec`"));
        assert_eq!(type_hint("ansible.builtin.copy", &all).unwrap(), "kilter's type is `file`");
        assert_eq!(type_hint("directory", &all).unwrap(), "kilter's type is `file` with `ensure: directory`");
        assert_eq!(type_hint("ansible.builtin.git", &all).unwrap(), "kilter's type is `vcsrepo`");
        assert_eq!(type_hint("unarchive", &all).unwrap(), "kilter's type is `archive`");
        assert!(attribute_hint("cron", "schedule", &all).unwrap().contains("`minute`"));
        assert!(attribute_hint("file", "schedule", &all).unwrap().starts_with("remove it"));
        assert_eq!(type_hint("community.docker.docker_container", &all).unwrap(), "kilter's type is `container`");
        assert!(attribute_hint("user", "with_items", &all).unwrap().contains("`for_each: [a, b]`"));
        assert_eq!(type_hint("svc", &|_| false), None);
        assert!(type_hint("purge", &all).unwrap().starts_with("kilter's type is `resources` with `purge: true`"));
        assert!(type_hint("yumrepo", &all).unwrap().contains("`file` at /etc/yum.repos.d/NAME.repo"));
    }

    #[test]
    fn opposites_are_found_in_the_table_and_by_a_prefix() {
        for (one, other) in [
            ("started", "stopped"),
            ("Enabled", "disabled"),
            ("mounted", "unmounted"),
            ("absent", "present"),
            ("masked", "unmasked"),
        ] {
            assert!(are_opposites(one, other) && are_opposites(other, one), "{one} {other}");
        }
        assert!(!are_opposites("start", "started") && !are_opposites("mode", "node"));
    }
}
