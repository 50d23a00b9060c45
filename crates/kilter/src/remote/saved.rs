//! Plans of several hosts in one file.
//!
//! The file contains the plan that each host has made, unread. The host verifies it with its own key. The digest of the
//! file, and its signature if there is one, cover which plan belongs to which host, and the sources of secrets.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use kilter_runtime::{PlanProvenance, PrivateKey, SealingKey, integrity};
use serde_json::{Value as Json, json};

use super::hosts::Hosts;
use super::plans::{DeclaredAttributes, HostPlan, Planned};
use crate::cli::{Cli, Command, PlanArgs};
use crate::exit::Exit;
use crate::load::Received;
use crate::output_file::{self, FileMode};
use crate::session::Session;
use crate::{output, plan_file};

/// Version of the format.
const VERSION: u64 = 1;

/// First member of the file.
const KEY: &str = "kilter_hosts_plan";

/// Maximum size of the file in bytes.
const MAX_BYTES: u64 = 1 << 30;

/// Plan of a host in a file.
pub(super) struct SavedPlan {
    pub(super) host: String,
    text: String,
    plan: Vec<u8>,
    sources: Vec<Json>,
    declared: DeclaredAttributes,
}

impl SavedPlan {
    /// Returns the plan. Secrets are read again.
    ///
    /// # Errors
    /// If a secret cannot be read; reported.
    pub(super) fn plan(&self, session: &Session) -> Result<HostPlan, Exit> {
        let secrets = Received::of_sources(&self.sources, session)?.secrets_text();
        let SavedPlan { text, plan, sources, declared, .. } = self;
        let (text, plan, sources, declared) = (text.clone(), plan.clone(), sources.clone(), declared.clone());
        Ok(HostPlan::Changes(Box::new(Planned { text, plan, secrets, sources, warnings: Vec::new(), declared })))
    }
}

/// Returns true if the command applies a plan of several hosts.
pub(crate) fn is_applied(cli: &Cli) -> bool {
    let Command::Apply(args) = &cli.command else { return false };
    let [path] = args.input.manifests.as_slice() else { return false };
    let mut head = Vec::new();
    let is_file = std::fs::metadata(path).is_ok_and(|found| found.is_file());
    is_file
        && std::fs::File::open(path).is_ok_and(|file| file.take(64).read_to_end(&mut head).is_ok())
        && is_start(&String::from_utf8_lossy(&head))
}

fn is_start(text: &str) -> bool {
    text.trim_start().strip_prefix('{').is_some_and(|text| text.trim_start().starts_with(&format!("\"{KEY}\"")))
}

/// Writes the plans of the hosts with changes.
///
/// # Errors
/// If that is not possible; reported.
pub(super) fn write(hosts: &Hosts, plans: &[HostPlan], args: &PlanArgs, session: &Session) -> Result<(), Exit> {
    let Some(path) = &args.output else { return Ok(()) };
    let fail = |error: String| output::fail(format_args!("cannot write the plan to {}: {error}", path.display()));
    let signer = plan_file::signer(session, args.sign.as_deref())?;
    let (made, text) = text(hosts, plans, signer.as_ref(), session).map_err(fail)?;
    output_file::write(path, &text, FileMode::Private).map_err(fail)?;
    plan_file::written(&made, path, session);
    Ok(())
}

/// Returns the text of a file with the plans of the hosts with changes.
///
/// # Errors
/// The reason why the state directory has no key.
pub(super) fn text(
    hosts: &Hosts,
    plans: &[HostPlan],
    signer: Option<&PrivateKey>,
    session: &Session,
) -> Result<(PlanProvenance, String), String> {
    let state_dir = session.state_dir_if_any().ok_or("there is no state directory: HOME is not set")?;
    let key = SealingKey::made(&state_dir).map_err(|error| error.to_string())?;
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let made = PlanProvenance::new(session.host(), now).map_err(|error| error.to_string())?;
    let entry = |(host, plan): (usize, &HostPlan)| match plan {
        HostPlan::Changes(planned) => Some(json!({
            "host": hosts.name(host),
            "text": planned.text,
            "plan": String::from_utf8_lossy(&planned.plan),
            "secrets": planned.sources,
            "declared": planned.declared,
        })),
        _ => None,
    };
    let entries: Vec<Json> = plans.iter().enumerate().filter_map(entry).collect();
    let document = json!({
        KEY: VERSION,
        "kilter_version": env!("CARGO_PKG_VERSION"),
        "made": made.json(),
        "hosts": entries,
    });
    let text = integrity::protect(&document, &key, signer);
    Ok((made, text))
}

/// Reads and verifies the plans of a file.
///
/// # Errors
/// If it was changed, or is not trusted; reported.
pub(super) fn read(path: &Path, verify: &[PathBuf], session: &Session) -> Result<Vec<SavedPlan>, Exit> {
    let bytes = session.trust.read(path, MAX_BYTES);
    let bytes = bytes.map_err(|distrust| output::fail(crate::trust::refusal("the plan ", path, &distrust)))?;
    let damaged = || output::fail_with(format_args!("the plan {} is damaged", path.display()), ["make a new plan"]);
    let text = String::from_utf8(bytes).map_err(|_| damaged())?;
    plan_file::check(path, &text, verify, session)?;
    let document: Json = serde_json::from_str(&text).map_err(|_| damaged())?;
    if document[KEY].as_u64() != Some(VERSION) {
        return Err(output::fail_with(
            format_args!("{} is a plan of version {}", path.display(), document[KEY]),
            ["make a new plan with this kilter"],
        ));
    }
    let saved = |entry: &Json| {
        let text = |key: &str| Some(entry[key].as_str()?.to_owned());
        let sources = entry["secrets"].as_array()?.clone();
        let declared = entry["declared"].as_object()?.iter();
        let declared = declared.map(|(name, attributes)| Some((name.clone(), attributes.as_object()?.clone())));
        Some(SavedPlan {
            host: text("host")?,
            text: text("text")?,
            plan: text("plan")?.into_bytes(),
            sources,
            declared: declared.collect::<Option<DeclaredAttributes>>()?,
        })
    };
    let entries = document["hosts"].as_array().ok_or_else(damaged)?;
    entries.iter().map(saved).collect::<Option<Vec<SavedPlan>>>().ok_or_else(damaged)
}

/// Returns the plans of these hosts. Secrets are read again.
///
/// # Errors
/// If a secret cannot be read, or the file has no plan of a host; reported.
pub(super) fn plans(hosts: &Hosts, saved: &[SavedPlan], session: &Session) -> Result<Vec<HostPlan>, Exit> {
    let plan = |host: usize| {
        let name = hosts.name(host);
        let Some(saved) = saved.iter().find(|saved| saved.host == name) else {
            let known: Vec<&str> = saved.iter().map(|saved| saved.host.as_str()).collect();
            let hint = format!("it has plans of {}", known.join(", "));
            return Err(output::fail_with(format_args!("the file has no plan of {name}"), [hint]));
        };
        saved.plan(session)
    };
    (0..hosts.len()).map(plan).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_documents_are_no_plans_of_hosts() {
        assert!(is_start("{\n  \"kilter_hosts_plan\": 1,"));
        assert!(!is_start("{\n  \"kilter_plan\": 4,"));
        assert!(!is_start("resources: {}"));
    }
}
