//! The program nft(8).

use std::time::Duration;

use ecow::{EcoString, eco_format};
use kilter_process::Invocation;
use kilter_provider::Context;

use super::text;
use crate::accounts::Runner;
use crate::tool::ending_of;
use crate::tool::{self, RecordedPart};

/// Maximum size of a listing in bytes.
const MAX_LISTING_BYTES: usize = 64 * 1024 * 1024;
const DEADLINE: Duration = Duration::from_secs(60);

/// Loads a text in a new network namespace and lists the table.
const NORMALIZE: &str = "nft -f - && nft -s list table \"$1\" \"$2\"";

fn output(runner: &dyn Runner, cx: &Context<'_>, tool: Invocation) -> Result<String, EcoString> {
    let finished = tool::start(runner, cx, &tool.captured(MAX_LISTING_BYTES).deadline(DEADLINE), RecordedPart::Errors);
    let finished = finished.map_err(|error| error.with_sources())?;
    match finished.is_success() {
        true => Ok(finished.stdout.text().into_owned()),
        false => Err(tool::failure("nft", &finished, DEADLINE, ending_of(&finished.stderr.text()))),
    }
}

/// Returns the tables of this network namespace, without counters: name and content.
pub(super) fn list(runner: &dyn Runner, cx: &Context<'_>) -> Result<Vec<(EcoString, String)>, EcoString> {
    let tool = Invocation::new("nft").args(["-s", "list", "ruleset"]);
    output(runner, cx, tool).map(|listing| text::tables(&listing))
}

/// Returns a declared content as nft lists it. A network namespace of its own has the table meanwhile, so the machine
/// does not change.
///
/// # Errors
/// If the content is invalid.
pub(super) fn normalized(
    runner: &dyn Runner,
    cx: &Context<'_>,
    name: &str,
    content: &str,
) -> Result<String, EcoString> {
    let words = ["--net", "--", "sh", "-c", NORMALIZE, "sh"];
    let tool = Invocation::new("unshare").args(words).args(name.split(' ')).stdin(text::table(name, content));
    let listing = output(runner, cx, tool).map_err(|why| explained(&why))?;
    let table = text::tables(&listing).into_iter().next();
    table.map(|(_, content)| content).ok_or_else(|| eco_format!("nft lists no table {name}"))
}

/// Carries out a text as a single transaction, after a check of the whole text.
pub(super) fn load(runner: &dyn Runner, cx: &Context<'_>, text: &str) -> Result<(), EcoString> {
    for words in [&["-c", "-f", "-"][..], &["-f", "-"]] {
        output(runner, cx, Invocation::new("nft").args(words).stdin(text))?;
    }
    Ok(())
}

/// Adds a remedy to the message of an interface that only the machine has.
fn explained(why: &str) -> EcoString {
    match why.contains("Interface does not exist") {
        true => eco_format!("{why}\n(use `iifname` and `oifname`, which also match interfaces that do not exist yet)"),
        false => why.into(),
    }
}
