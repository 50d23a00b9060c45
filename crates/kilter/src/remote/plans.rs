//! Plans of several hosts: equal changes are one group.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kilter_inventory::Target;
use kilter_model::{Hash, Value};
use kilter_process::Stream;
use kilter_provider::Registry;
use kilter_remote::RemoteCall;
use serde_json::{Map, Value as Json, json};

use super::forward;
use super::hosts::{HostAnswer, Hosts};
use crate::cli::ManifestArgs;
use crate::foreign;
use crate::load::{self, ForHost, InputFiles};
use crate::output::{self, BufferedLines};
use crate::session::Session;
use crate::style::{FAILED, NAME, styled};
use crate::target_results::{grouped, indented, without_durations};

/// Name of the plan in the working directory on a host.
pub(super) const PLAN: &str = "host-plan";

/// Plan of a host.
pub(super) enum HostPlan {
    /// Some resources would change.
    Changes(Box<Planned>),
    /// No resource would change. The text says so.
    Unchanged(String),
    /// The manifests have problems with the facts of the host, or the host reported a failure.
    Failed(BufferedLines),
    /// There is no answer.
    NoAnswer(HostAnswer),
}

/// Reason why a host has no plan.
pub(super) enum NoPlan {
    /// The manifests have problems with the facts of the host, or the host reported a failure.
    Failed(BufferedLines),
    /// There is no answer.
    NoAnswer(HostAnswer),
}

impl From<NoPlan> for HostPlan {
    fn from(why: NoPlan) -> HostPlan {
        match why {
            NoPlan::Failed(lines) => HostPlan::Failed(lines),
            NoPlan::NoAnswer(answer) => HostPlan::NoAnswer(answer),
        }
    }
}

/// Result of `plan` on a host.
pub(super) struct Planned {
    /// Output for people, without the duration.
    pub(super) text: String,
    /// The plan file.
    pub(super) plan: Vec<u8>,
    /// Standard input for its apply: the secrets; empty if there are none.
    pub(super) secrets: String,
    /// Descriptions of the sources of the secrets.
    pub(super) sources: Vec<Json>,
    /// Warnings of the host at the plan, which the text contains.
    pub(super) warnings: Vec<String>,
    /// Declared attributes of the resources to change. The text does not show all of them, such as a command.
    pub(super) declared: DeclaredAttributes,
}

/// Declared attributes by resource, without secrets.
pub(super) type DeclaredAttributes = BTreeMap<String, Map<String, Json>>;

/// Maker of the plans of several hosts.
pub(super) struct Planner<'a> {
    pub(super) hosts: &'a Hosts,
    /// Entries of the inventory, one for each host.
    pub(super) targets: &'a [Arc<Target>],
    pub(super) session: &'a Session,
    pub(super) input: &'a ManifestArgs,
    pub(super) registry: &'a Registry,
    /// Options for each `plan` on a host.
    pub(super) options: &'a [String],
}

impl Planner<'_> {
    /// Makes the plans of all hosts, in their order.
    pub(super) fn plans(&self) -> Vec<HostPlan> {
        self.hosts.each(&self.hosts.all(), |host| {
            let plan = self.plan(host).unwrap_or_else(HostPlan::from);
            self.hosts.rest(host);
            plan
        })
    }

    fn plan(&self, host: usize) -> Result<HostPlan, NoPlan> {
        let facts = self.facts(host)?;
        let (ForHost { received, mut declared, .. }, reported) = self.compile(host, facts, &InputFiles::default())?;
        let mut args = self.options.to_vec();
        args.extend(["plan", "--received", "-", "--output", PLAN].map(str::to_owned));
        let call = RemoteCall {
            args,
            stdin: received.text().into_bytes(),
            returns: vec![PLAN.to_owned()],
            ..RemoteCall::default()
        };
        let (finished, stdout, stderr) = self.finished(host, &call)?;
        let warnings = warnings(&stderr);
        let text = with_warnings(comparable(&stdout), &warnings, &reported);
        match (finished.code, finished.files.into_iter().next()) {
            (0, _) => Ok(HostPlan::Unchanged(text)),
            (2, Some((_, plan))) => {
                let steps = steps(&plan);
                let steps = steps.as_array().into_iter().flatten().filter_map(|step| step["resource"].as_str());
                let declared = steps.filter_map(|name| declared.remove_entry(name)).collect();
                let (secrets, sources) = (received.secrets_text(), received.secret_sources());
                Ok(HostPlan::Changes(Planned { text, plan, secrets, sources, warnings, declared }.into()))
            }
            (code, _) => Err(NoPlan::Failed(failure(code, &stdout, &stderr))),
        }
    }

    /// Returns the facts of a host, with its place in the inventory.
    ///
    /// # Errors
    /// The failure, or the missing answer.
    pub(super) fn facts(&self, host: usize) -> Result<Hash, NoPlan> {
        let mut facts = self.hosts.facts(host).map_err(|answer| match answer {
            HostAnswer::Finished { finished, stderr, .. } => NoPlan::Failed(failure(finished.code, b"", &stderr)),
            answer => NoPlan::NoAnswer(answer),
        })?;
        let target = &self.targets[host];
        let groups = Value::Array(target.groups.iter().map(|group| Value::from(group.clone())).collect());
        facts.insert("inventory".into(), Value::hash([("name", Value::from(target.name.clone())), ("groups", groups)]));
        Ok(facts)
    }

    fn finished(&self, host: usize, call: &RemoteCall) -> Result<(kilter_remote::Finished, Vec<u8>, Vec<u8>), NoPlan> {
        match self.hosts.call(host, call) {
            HostAnswer::Finished { finished, stdout, stderr } => Ok((finished, stdout, stderr)),
            answer => Err(NoPlan::NoAnswer(answer)),
        }
    }

    /// Compiles the manifests with the facts of a host. Returns also the lines that it has reported. `noted` gets the
    /// files that are read.
    ///
    /// # Errors
    /// The problems of the manifests.
    pub(super) fn compile(
        &self,
        host: usize,
        facts: Hash,
        noted: &InputFiles,
    ) -> Result<(ForHost, Vec<String>), NoPlan> {
        let vars = &self.targets[host].vars;
        // The providers of this machine do not work on devices.
        let finds_others = !self.hosts.is_device(host);
        let (made, lines) = output::buffered(|| {
            load::for_host(self.session, self.input, facts, vars, self.registry, noted, finds_others)
        });
        match made {
            Ok(made) => {
                lines.lines.iter().for_each(output::line);
                let plain = |line: &String| anstream::adapter::strip_str(line).to_string();
                let reported = lines.lines.iter().map(plain).collect::<Vec<_>>().join("\n");
                Ok((made, reported.lines().map(str::to_owned).collect()))
            }
            Err(_) => Err(NoPlan::Failed(lines)),
        }
    }
}

fn failure(code: u8, stdout: &[u8], stderr: &[u8]) -> BufferedLines {
    let text = [comparable(stdout), comparable(stderr)].join("\n");
    // The name of the plan on the host means nothing to the user.
    let about_file = format!("was not written to {PLAN}");
    let mut lines: Vec<String> =
        text.trim().lines().filter(|line| !line.ends_with(&about_file)).map(foreign::line).collect();
    if lines.is_empty() {
        lines.push(format!("kilter ended with {code} on the host"));
    }
    BufferedLines { lines, errors: 1 }
}

/// Returns output for people without its durations, which differ between hosts.
pub(super) fn comparable(output: &[u8]) -> String {
    without_durations(&String::from_utf8_lossy(output)).trim_end().to_owned()
}

/// Returns the warnings in the messages of a host, with their hints.
pub(super) fn warnings(stderr: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(stderr);
    let mut is_kept = false;
    let mut kept = Vec::new();
    for line in text.lines() {
        is_kept = line.starts_with("warning: ") || is_kept && line.starts_with(' ');
        if is_kept {
            kept.push(line.to_owned());
        }
    }
    kept
}

/// Returns the output of a host with its warnings, without those that were `reported` before.
pub(super) fn with_warnings(output: String, warnings: &[String], reported: &[String]) -> String {
    let new = warnings.iter().filter(|line| !reported.contains(line)).map(String::as_str);
    new.chain([output.as_str()]).filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Hosts with equal changes.
pub(super) struct HostGroup {
    /// Positions of the hosts.
    pub(super) hosts: Vec<usize>,
    pub(super) text: String,
}

/// Returns the groups of equal texts, the largest first.
pub(super) fn groups(texts: impl Iterator<Item = (usize, String)>) -> Vec<HostGroup> {
    let groups = grouped(texts.map(|(host, text)| (text, host))).into_iter();
    let mut groups: Vec<HostGroup> = groups.map(|(text, hosts)| HostGroup { hosts, text }).collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.hosts.len()));
    groups
}

/// Returns the groups of hosts with changes. If equal texts stand for different declarations, the texts are extended by
/// the attributes that differ.
pub(super) fn changes(plans: &[HostPlan]) -> Vec<HostGroup> {
    let planned: Vec<(usize, &Planned)> = plans
        .iter()
        .enumerate()
        .filter_map(|(host, plan)| match plan {
            HostPlan::Changes(planned) => Some((host, &**planned)),
            _ => None,
        })
        .collect();
    let by_text = grouped(planned.into_iter().map(|(host, planned)| (planned.text.as_str(), (host, planned))));
    groups(by_text.into_iter().flat_map(|(text, planned)| {
        let declared: Vec<&DeclaredAttributes> = planned.iter().map(|(_, planned)| &planned.declared).collect();
        let notes: Vec<String> = declared.iter().map(|one| differing(one, &declared)).collect();
        planned.into_iter().zip(notes).map(move |((host, _), notes)| (host, format!("{text}{notes}")))
    }))
}

/// Returns a line for each attribute that is not equal in all declarations.
fn differing(one: &DeclaredAttributes, all: &[&DeclaredAttributes]) -> String {
    let mut lines = String::new();
    for (resource, attributes) in one {
        for (name, value) in attributes {
            let is_equal =
                |other: &&DeclaredAttributes| other.get(resource).and_then(|found| found.get(name)) == Some(value);
            if !all.iter().all(is_equal) {
                lines.push_str(&format!("\n{resource}: {name} is {value}"));
            }
        }
    }
    lines
}

/// Shows the groups, and the hosts without changes or without a plan.
pub(super) fn show(hosts: &Hosts, plans: &[HostPlan]) {
    let groups_of_changes = changes(plans);
    let common = common(&groups_of_changes);
    if !common.is_empty() {
        let mut all: Vec<usize> = groups_of_changes.iter().flat_map(|group| group.hosts.iter().copied()).collect();
        all.sort_unstable();
        show_text(&format!("common to {}", names(hosts, &all)), &common.join("\n"));
    }
    for group in &groups_of_changes {
        let own = parts(&group.text).into_iter().filter(|part| !common.contains(part)).collect::<Vec<&str>>();
        show_text(&names(hosts, &group.hosts), &own.join("\n"));
    }
    let unchanged = groups(plans.iter().enumerate().filter_map(|(host, plan)| match plan {
        HostPlan::Unchanged(text) => Some((host, text.clone())),
        _ => None,
    }));
    for group in &unchanged {
        show_group(hosts, group);
    }
    let failed = groups(plans.iter().enumerate().filter_map(|(host, plan)| match plan {
        HostPlan::Failed(lines) => Some((host, lines.lines.join("\n"))),
        _ => None,
    }));
    for HostGroup { hosts: failed, text } in &failed {
        show_failed(&names(hosts, failed), text);
    }
    for (host, plan) in plans.iter().enumerate() {
        if let HostPlan::NoAnswer(answer) = plan {
            forward::report(hosts.name(host), answer);
        }
    }
    let count = |is: fn(&HostPlan) -> bool| plans.iter().filter(|plan| is(plan)).count();
    let parts = [
        (count(|plan| matches!(plan, HostPlan::Changes(_))), "with changes"),
        (count(|plan| matches!(plan, HostPlan::Unchanged(_))), "unchanged"),
        (count(|plan| matches!(plan, HostPlan::Failed(_))), "failed"),
        (count(|plan| matches!(plan, HostPlan::NoAnswer(_))), "without an answer"),
    ];
    let in_groups = match groups_of_changes.len() {
        0 | 1 => String::new(),
        count => format!(" in {count} groups"),
    };
    let text = parts
        .iter()
        .enumerate()
        .filter(|(_, (count, _))| *count > 0)
        .map(|(at, (count, what))| format!("{count} {what}{}", if at == 0 { in_groups.as_str() } else { "" }));
    let text = text.collect::<Vec<String>>().join(", ");
    output::line(format_args!("{}: {text}", number_of_hosts(plans.len())));
}

/// Shows the messages of hosts that have no plan.
pub(super) fn show_failed(names: &str, text: &str) {
    output::line(format_args!("{} {names}", styled(FAILED, "failed:")));
    text.lines().for_each(|line| output::line(format_args!("  {line}")));
}

pub(super) fn show_group(hosts: &Hosts, group: &HostGroup) {
    show_text(&names(hosts, &group.hosts), &group.text);
}

fn show_text(title: &str, text: &str) {
    let _ = output::write(&format!("{}\n", styled(NAME, format!("{title}:"))));
    foreign::write(Stream::Stdout, &indented(text.as_bytes()));
}

/// Returns the parts of a plan: a line with the indented lines after it.
fn parts(text: &str) -> Vec<&str> {
    let begins = text.match_indices('\n').map(|(at, _)| at + 1).filter(|at| !text[*at..].starts_with([' ', '\n']));
    let mut parts = Vec::new();
    let mut begin = 0;
    for end in begins.chain([text.len()]) {
        parts.push(text[begin..end].trim_end_matches('\n'));
        begin = end;
    }
    parts
}

/// Returns the changes of resources that are equal in all of several groups.
fn common<'a>(groups: &'a [HostGroup]) -> Vec<&'a str> {
    let [first, others @ ..] = groups else { return Vec::new() };
    let others: Vec<Vec<&str>> = others.iter().map(|group| parts(&group.text)).collect();
    let is_change = |part: &&'a str| part.contains('\n') || part.contains('[');
    let is_common = |part: &&'a str| others.iter().all(|other| other.contains(part));
    match others.is_empty() {
        true => Vec::new(),
        false => parts(&first.text).into_iter().filter(is_change).filter(is_common).collect(),
    }
}

/// Returns the names of hosts, with their number if there are several.
pub(super) fn names(hosts: &Hosts, of: &[usize]) -> String {
    let names = of.iter().map(|host| hosts.name(*host)).collect::<Vec<_>>().join(", ");
    if of.len() > 1 { format!("{names} ({} hosts)", of.len()) } else { names }
}

pub(super) fn number_of_hosts(count: usize) -> String {
    format!("{count} host{}", if count == 1 { "" } else { "s" })
}

/// Returns the plans as JSON.
pub(super) fn json(hosts: &Hosts, plans: &[HostPlan]) -> Json {
    let names = |of: &[usize]| of.iter().map(|host| Json::from(hosts.name(*host))).collect::<Vec<Json>>();
    let of = |is: &dyn Fn(&HostPlan) -> Option<Json>| -> Vec<Json> {
        let entry = |(host, plan): (usize, &HostPlan)| {
            is(plan).map(|error| json!({ "host": hosts.name(host), "error": error }))
        };
        plans.iter().enumerate().filter_map(entry).collect()
    };
    let unchanged: Vec<usize> =
        (0..plans.len()).filter(|host| matches!(plans[*host], HostPlan::Unchanged(_))).collect();
    let group = |group: &HostGroup| {
        let steps = match &plans[group.hosts[0]] {
            HostPlan::Changes(planned) => steps(&planned.plan),
            _ => Json::Null,
        };
        json!({ "hosts": names(&group.hosts), "steps": steps })
    };
    json!({
        "groups": changes(plans).iter().map(group).collect::<Vec<Json>>(),
        "unchanged": names(&unchanged),
        "failed": of(&|plan| match plan {
            HostPlan::Failed(lines) => Some(anstream::adapter::strip_str(&lines.lines.join("\n")).to_string().into()),
            _ => None,
        }),
        "no_answer": of(&|plan| match plan {
            HostPlan::NoAnswer(answer) => Some(answer.reason().into()),
            _ => None,
        }),
    })
}

/// Returns the steps of a plan file.
fn steps(plan: &[u8]) -> Json {
    serde_json::from_slice::<Json>(plan).ok().map(|mut plan| plan["steps"].take()).unwrap_or_default()
}

/// Returns the manifests of a command line. There has to be one.
pub(super) fn manifests(input: &ManifestArgs) -> Result<&[PathBuf], &'static str> {
    match input.manifests.as_slice() {
        [] => Err("no manifest is given"),
        [path] if path == Path::new("-") => Err("a manifest for other hosts is a file"),
        manifests => Ok(manifests),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn largest_group_is_first() {
        let texts = ["a", "b", "b"].map(str::to_owned);
        let groups = groups(texts.into_iter().enumerate());
        let hosts: Vec<&[usize]> = groups.iter().map(|group| group.hosts.as_slice()).collect();
        assert_eq!(hosts, [&[1, 2][..], &[0]]);
    }

    #[test]
    fn equal_changes_of_different_groups_are_common() {
        let group = |text: &str| HostGroup { hosts: Vec::new(), text: text.to_owned() };
        let same = "+ file[/a]\n    content: x\n\n      y\n↻ service[b] refreshed";
        let one = group(&format!("{same}\n~ file[/c]\n    content: 1\n3 resources: 3 to change"));
        let other = group(&format!("~ file[/c]\n    content: 2\n{same}\n3 resources: 3 to change"));
        let expected = ["+ file[/a]\n    content: x\n\n      y", "↻ service[b] refreshed"];
        assert_eq!(common(&[group(&one.text), other]), expected);
        assert_eq!(common(&[one]), Vec::<&str>::new());
        assert_eq!(common(&[]), Vec::<&str>::new());
    }

    #[test]
    fn warnings_of_a_host_are_shown_once() {
        let stderr = b"plan 1\nwarning: a\n  hint: b\nnote\nwarning: c\n";
        let warnings = warnings(stderr);
        assert_eq!(warnings, ["warning: a", "  hint: b", "warning: c"]);
        assert_eq!(with_warnings("~ x".to_owned(), &warnings, &warnings[..2]), "warning: c\n~ x");
        assert_eq!(with_warnings(String::new(), &[], &[]), "");
    }

    #[test]
    fn equal_texts_of_different_commands_are_two_groups() {
        let plan = |command: &str| {
            let attributes = Map::from_iter([("command".to_owned(), Json::from(command))]);
            let declared = DeclaredAttributes::from([("exec[x]".to_owned(), attributes)]);
            let text = "~ exec[x]".to_owned();
            HostPlan::Changes(Box::new(Planned {
                text,
                plan: Vec::new(),
                secrets: String::new(),
                sources: Vec::new(),
                warnings: Vec::new(),
                declared,
            }))
        };
        let groups = changes(&[plan("a"), plan("b"), plan("b")]);
        let shown: Vec<(&[usize], &str)> =
            groups.iter().map(|group| (group.hosts.as_slice(), group.text.as_str())).collect();
        let command = |name: &str| format!("~ exec[x]\nexec[x]: command is \"{name}\"");
        assert_eq!(shown, [(&[1, 2][..], command("b").as_str()), (&[0], &command("a"))]);
        assert_eq!(changes(&[plan("a"), plan("a")])[0].text, "~ exec[x]");
    }
}
