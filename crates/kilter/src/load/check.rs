//! All problems and warnings of manifests.

use kilter_manifest::{Compiled, MAX_SHOWN_PROBLEMS, lint, render, render_warnings, to_json};
use kilter_provider::Registry;
use kilter_runtime::plan_of;

use super::{ErrorFormat, InputFiles, ManifestKind, Texts, compile_texts, diagnostics, ineffective, manifests};
use crate::cli::ManifestArgs;
use crate::exit::Exit;
use crate::session::Session;
use crate::{output, providers};

/// Reads and compiles manifests, and reports all their problems and warnings. Reads no resource.
///
/// # Errors
/// If a manifest could not be read, which has been reported.
pub(crate) fn check(
    session: &Session,
    args: &ManifestArgs,
    audience: ErrorFormat,
    is_strict: bool,
    registry: &Registry,
) -> Result<Exit, Exit> {
    let noted = InputFiles::default();
    let report = |texts: Texts<'_>| Ok(checked(session, texts, audience, is_strict, registry));
    manifests(session, args, &noted, None, ManifestKind::FileOrPipe, report).map(|(exit, _)| exit)
}

fn checked(session: &Session, texts: Texts<'_>, audience: ErrorFormat, is_strict: bool, registry: &Registry) -> Exit {
    let (sources, mut compiled, mut problems) = compile_texts(session, &texts, registry);
    let mut warnings = std::mem::take(&mut compiled.warnings);
    let count = compiled.catalog.resources.len();
    if problems.is_empty() {
        let Compiled { catalog, mut places, .. } = compiled;
        match plan_of(catalog, registry, &providers::declaring(registry.hostname())) {
            Ok(prepared) => warnings.extend(prepared.ineffective_notifications().iter().map(ineffective)),
            Err(rejected) => problems = diagnostics::problems(&rejected, &mut places, &sources),
        }
    } else {
        problems = diagnostics::with_others(problems, compiled, &sources, registry);
    }
    // A name that is missing because of a problem could look unused.
    if problems.is_empty() {
        warnings.extend(lint(&sources, texts.given.len()));
        warnings.sort_by_key(|warning| warning.span);
    }
    if audience == ErrorFormat::Programs {
        let mut document = serde_json::json!({
            "resources": count,
            "problems": to_json(&problems, &sources),
            "warnings": to_json(&warnings, &sources),
        });
        if problems.len() > MAX_SHOWN_PROBLEMS {
            document["more"] = (problems.len() - MAX_SHOWN_PROBLEMS).into();
        }
        output::data(&format!("{document:#}\n"));
    }
    for text in [render(&problems, &sources, true), render_warnings(&warnings, &sources, true)] {
        if !text.is_empty() {
            output::line(text.trim_end());
        }
    }
    let number = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let (of_problems, of_warnings) = (number(problems.len(), "problem"), number(warnings.len(), "warning"));
    let summary = format!("{}: {of_problems}, {of_warnings}\n", number(count, "resource"));
    if audience == ErrorFormat::People {
        output::data(&summary);
    }
    match problems.is_empty() && (warnings.is_empty() || !is_strict) {
        true => Exit::Done,
        false => Exit::NotStarted,
    }
}
