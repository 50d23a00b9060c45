//! Resources in the format of `puppet resource TYPE --to_yaml`, below `resources` of a manifest.
//!
//! Puppet's format is `TYPE: {TITLE: {ATTRIBUTE: VALUE}}`. A key below `resources` has this format if it is a name
//! without brackets and all its values are mappings. The tree of such a manifest is copied. These resources become
//! `TYPE[TITLE]: {…}`, with kilter's attributes, each at its position in the text.

use std::collections::BTreeMap;

use ecow::{EcoString, eco_format};
use kilter_model::{SourceId, Span};

use crate::diagnostic::{Diagnostic, here_and_more};
use crate::source::Sources;
use crate::tree::{Builder, NodeKind, Tree, View};

/// A tree without resources in Puppet's shape.
pub(crate) struct Lowered {
    pub(crate) tree: Tree,
    pub(crate) problems: Vec<Diagnostic>,
    pub(crate) warnings: Vec<Diagnostic>,
}

/// Types that Puppet and kilter share. The listed attributes only select Puppet's implementation, or cannot be
/// declared.
const SHARED: [(&str, &[&str]); 13] = [
    ("cron", &["provider"]),
    ("exec", &["provider"]),
    ("file", &["provider", "ctime", "mtime", "type"]),
    ("group", &["provider"]),
    ("host", &["provider"]),
    ("mount", &["provider"]),
    ("notify", &["provider"]),
    ("package", &["provider"]),
    ("selboolean", &["provider"]),
    ("service", &["provider"]),
    ("ssh_authorized_key", &["provider"]),
    ("sshkey", &["provider"]),
    ("user", &["provider"]),
];

/// Package providers with their names in kilter. Those without a name belong to the system.
const PACKAGES: [(&str, Option<&str>); 7] = [
    ("pip", Some("pip")),
    ("pip2", Some("pip")),
    ("pip3", Some("pip")),
    ("npm", Some("npm")),
    ("apt", None),
    ("aptitude", None),
    ("dpkg", None),
];

/// Returns true if a key below `resources` is a type of Puppet's shape.
pub(crate) fn is_type(key: View<'_>, titles: View<'_>) -> bool {
    let name = key.text();
    let is_name = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    if !is_name {
        return false;
    }
    let is_body = |(_, body): (View<'_>, View<'_>)| body.is_mapping() || body.is_null();
    match titles.is_mapping() && titles.count() > 0 {
        true => titles.entries().all(is_body),
        // Puppet prints a type without resources in this form.
        false => (titles.is_null() || titles.is_mapping()) && SHARED.iter().any(|(shared, _)| *shared == name),
    }
}

/// Returns true if a manifest has resources in Puppet's shape.
pub(crate) fn has_resources(tree: &Tree) -> bool {
    let resources = tree.roots().filter_map(|root| root.get("resources"));
    resources.flat_map(View::entries).any(|(key, titles)| is_type(key, titles))
}

/// Replaces resources in Puppet's shape.
pub(crate) fn lower(tree: &Tree, id: SourceId, sources: &Sources) -> Lowered {
    let left = tree.len().saturating_mul(2).saturating_add(100_000);
    let mut writer = PuppetWriter { builder: Builder::new(id, sources), left, warnings: BTreeMap::new() };
    for root in tree.roots() {
        writer.builder.start_document();
        if !root.is_mapping() {
            writer.copy(root, false);
            continue;
        }
        writer.start(NodeKind::Mapping, root.span());
        for (key, value) in root.entries() {
            writer.copy(key, false);
            match key.text() == "resources" && value.is_mapping() {
                true => writer.resources(value),
                false => writer.copy(value, false),
            }
        }
        writer.builder.end();
    }
    let PuppetWriter { builder, warnings, .. } = writer;
    let warning = |(message, (at, count)): (EcoString, (Span, u32))| {
        let times = if count > 1 { eco_format!(" ({})", here_and_more(count)) } else { EcoString::new() };
        Diagnostic::new(eco_format!("{message}{times}")).at(at)
    };
    let mut warnings: Vec<Diagnostic> = warnings.into_iter().map(warning).collect();
    warnings.sort_by_key(|warning| warning.span);
    let (tree, problems) = builder.finish(true);
    Lowered { tree, problems, warnings }
}

struct PuppetWriter {
    builder: Builder,
    /// Number of nodes that may still be written. Aliases can multiply nodes without limit.
    left: usize,
    /// Warnings with their first position and their number.
    warnings: BTreeMap<EcoString, (Span, u32)>,
}

impl PuppetWriter {
    fn start(&mut self, kind: NodeKind, at: Span) {
        self.builder.start(kind, range(at), 0);
    }

    /// Writes a text without expressions.
    fn text(&mut self, text: &str, at: Span) {
        self.builder.owned(NodeKind::Double, range(at), &text.replace("${", "$${"), 0);
    }

    fn plain(&mut self, text: &str, at: Span) {
        self.builder.owned(NodeKind::Plain, range(at), text, 0);
    }

    /// Copies a value. Values in Puppet's resources contain no expressions.
    fn copy(&mut self, view: View<'_>, is_puppets: bool) {
        let at = view.span();
        let Some(left) = self.left.checked_sub(1) else {
            if self.left == 0 && self.builder.problems.is_empty() {
                self.builder.report(Diagnostic::new("aliases add up to too much").at(at));
            }
            return self.builder.null(range(at));
        };
        self.left = left;
        match view.kind() {
            kind @ NodeKind::Sequence => {
                self.start(kind, at);
                view.elements().for_each(|element| self.copy(element, is_puppets));
                self.builder.end();
            }
            kind @ NodeKind::Mapping => {
                self.start(kind, at);
                for (key, value) in view.entries() {
                    self.copy(key, is_puppets);
                    self.copy(value, is_puppets);
                }
                self.builder.end();
            }
            kind if is_puppets && view.text().contains("${") => {
                self.builder.owned(kind, range(at), &view.text().replace("${", "$${"), 0);
            }
            kind => self.builder.owned(kind, range(at), view.text(), 0),
        }
    }

    fn warn(&mut self, message: EcoString, at: Span) {
        self.warnings.entry(message).or_insert((at, 0)).1 += 1;
    }

    fn resources(&mut self, resources: View<'_>) {
        self.start(NodeKind::Mapping, resources.span());
        for (key, value) in resources.entries() {
            if !is_type(key, value) {
                self.copy(key, false);
                self.copy(value, false);
                continue;
            }
            for (title, body) in value.entries() {
                self.resource(key.text(), title, body);
            }
        }
        self.builder.end();
    }

    fn resource(&mut self, type_name: &str, title: View<'_>, body: View<'_>) {
        let provider = body.get("provider").filter(|provider| provider.is_scalar() && !provider.is_null());
        let mut named = None;
        if let ("package", Some(provider)) = (type_name, provider) {
            let Some((_, here)) = PACKAGES.iter().find(|(name, _)| *name == provider.text()) else {
                let message = eco_format!("packages of Puppet's provider `{}` are left out", provider.text());
                return self.warn(message, provider.span());
            };
            named = here.map(|here| (here, provider.span()));
        }
        let ensure = body.get("ensure").map_or("", View::text);
        if let Some(why) = left_out(type_name, title.text(), ensure) {
            return self.warn(why.into(), title.span());
        }
        let here = if type_name == "sshkey" { "known_hosts" } else { type_name };
        self.text(&eco_format!("{here}[{}]", title.text()), title.span());
        self.start(NodeKind::Mapping, title.span());
        let shared = SHARED.iter().find(|(name, _)| *name == type_name);
        let dropped = shared.map_or(&[][..], |(_, dropped)| dropped);
        let user = body.get("user").map(View::text);
        let is_link = type_name == "file" && body.get("ensure").is_some_and(|ensure| ensure.text() == "link");
        for (name, value) in body.entries().filter(|(name, _)| !dropped.contains(&name.text())) {
            if let ("cron" | "ssh_authorized_key", "target") = (type_name, name.text()) {
                if !is_default_target(type_name, value.text(), user) {
                    let message = eco_format!(
                        "`target: {}` is not supported: {type_name} uses the file of its `user`",
                        value.text()
                    );
                    self.builder.report(Diagnostic::new(message).at(value.span()));
                }
                continue;
            }
            // All links have the same mode, which Puppet prints and which cannot be set.
            if !is_link || name.text() != "mode" {
                self.attribute(type_name, name, value);
            }
        }
        if let Some((provider, at)) = named {
            self.text("provider", at);
            self.text(provider, at);
        }
        self.builder.end();
    }

    /// Writes the equivalent of a Puppet attribute.
    fn attribute(&mut self, type_name: &str, name: View<'_>, value: View<'_>) {
        let at = value.span();
        let one = value.elements().next().filter(|_| value.count() == 1).unwrap_or(value);
        match (type_name, name.text()) {
            ("package", "ensure") => return self.package(name.span(), one),
            // Without a content kilter would make an empty file elsewhere.
            ("file", "content") if is_checksum(value.text()) => {
                let problem =
                    Diagnostic::new("this is the checksum of a content, not the content, which Puppet does not print");
                let hint = "write `content: …` or `source: PATH`; or remove it: the content then stays unchanged, and \
                            a missing file is created empty";
                return self.builder.report(problem.at(at).hint(hint));
            }
            ("host", "target") if value.text() == "/etc/hosts" => return,
            ("sshkey", "target") if matches!(value.text(), "/etc/ssh/ssh_known_hosts" | "") => return,
            ("mount", "target") if value.text() == "/etc/fstab" => return,
            // Puppet prints numbers as texts.
            ("mount", "dump" | "pass") if value.is_scalar() => {
                self.text(name.text(), name.span());
                return self.plain(value.text(), at);
            }
            ("cron" | "ssh_authorized_key" | "sshkey", _) if one.text() == "absent" && name.text() != "ensure" => {
                return;
            }
            ("cron", "minute" | "hour" | "monthday" | "month" | "weekday") => {
                let times: Vec<&str> = match value.is_scalar() {
                    true => vec![value.text()],
                    false => value.elements().map(View::text).collect(),
                };
                self.text(name.text(), name.span());
                return self.text(&times.join(","), at);
            }
            ("cron", "environment") | ("ssh_authorized_key", "options") | ("sshkey", "host_aliases")
                if value.is_scalar() =>
            {
                self.text(name.text(), name.span());
                self.start(NodeKind::Sequence, at);
                self.copy(value, true);
                return self.builder.end();
            }
            ("ssh_authorized_key" | "sshkey", "type") => {
                self.text(name.text(), name.span());
                return self.text(key_type(value.text()), at);
            }
            ("user", "password") if value.is_scalar() => {
                self.text(name.text(), name.span());
                self.start(NodeKind::Mapping, at);
                self.text("sensitive", at);
                self.copy(value, true);
                return self.builder.end();
            }
            _ => {}
        }
        self.copy(name, true);
        self.copy(value, true);
    }

    /// Translates the `ensure` of a package, which corresponds to up to three attributes in kilter.
    fn package(&mut self, name: Span, value: View<'_>) {
        let at = value.span();
        let (ensure, more) = match value.text() {
            "held" => {
                self.text("mark", name);
                self.text("hold", at);
                ("present", None)
            }
            "present" | "installed" => ("present", None),
            "absent" => ("absent", None),
            "latest" => ("present", Some(("latest", "true"))),
            "purged" => ("absent", Some(("purge", "true"))),
            version => {
                self.text("version", name);
                self.text(version, at);
                ("present", None)
            }
        };
        self.text("ensure", name);
        self.text(ensure, at);
        if let Some((name_here, truth)) = more {
            self.text(name_here, name);
            self.plain(truth, at);
        }
    }
}

/// Returns the reason why a resource that Puppet lists is left out. Declared, it would be another one.
fn left_out(type_name: &str, title: &str, ensure: &str) -> Option<&'static str> {
    match type_name {
        "service" if title.ends_with("@.service") || title.ends_with('@') => {
            Some("templates of units are left out: they are no services; declare an instance, `getty@tty1`")
        }
        "cron" if title.starts_with("unmanaged:") => {
            Some("entries that Puppet does not manage are left out: they have no name, and would be added once more")
        }
        "mount" if ensure == "ghost" => Some("mounts without an entry in /etc/fstab are left out"),
        _ => None,
    }
}

/// Returns true if a target is kilter's default location: the table of the resource's user, or
/// `~/.ssh/authorized_keys`. The home directory is not known here.
fn is_default_target(type_name: &str, target: &str, user: Option<&str>) -> bool {
    match (type_name, target) {
        (_, "absent" | "") => true,
        ("cron", _) => user.unwrap_or("root") == target,
        _ if user == Some("root") => target == "/root/.ssh/authorized_keys",
        _ => target.ends_with("/.ssh/authorized_keys"),
    }
}

/// Returns true if a content is only a checksum, such as `{sha256}54bc…`.
fn is_checksum(content: &str) -> bool {
    let Some((kind, digest)) = content.strip_prefix('{').and_then(|rest| rest.split_once('}')) else { return false };
    let is_kind = ["md5", "md5lite", "sha224", "sha256", "sha256lite", "sha384", "sha512", "mtime", "ctime"];
    is_kind.contains(&kind) && !digest.contains(char::is_whitespace)
}

/// Returns the full name of a key type that Puppet may abbreviate.
fn key_type(name: &str) -> &str {
    match name {
        "rsa" => "ssh-rsa",
        "dsa" | "dss" => "ssh-dss",
        "ed25519" => "ssh-ed25519",
        name => name,
    }
}

fn range(at: Span) -> (usize, usize) {
    (at.start as usize, at.end as usize)
}
