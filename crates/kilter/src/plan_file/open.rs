//! Reading and verification of a plan.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use kilter_process::trust::{Distrust, TrustedFile};
use kilter_runtime::{
    Integrity, Maker, PLAN_VERSION, PlanDocument, PlanFormatError, SealingKey, SecretDigests, integrity,
};
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};

use super::{known_inputs, sealed, trust};
use crate::cli::ApplyArgs;
use crate::exit::Exit;
use crate::load::PlanFile;
use crate::session::Session;
use crate::{output, trust as trust_rule};

/// Maximum size of a plan, in bytes.
const MAX_BYTES: u64 = 1 << 30;

/// Returns the plan, if the only input is a plan.
///
/// # Errors
/// If its version is unknown, it was changed, or it is not trusted; reported.
pub(crate) fn read(args: &ApplyArgs, session: &Session) -> Result<Option<PlanFile>, Exit> {
    let not_a_plan = || match args.verify.as_slice() {
        [] => Ok(None),
        _ => Err(output::fail_with(
            "`--verify` is for plans, and a manifest was given",
            ["give a plan alone: `kilter apply PLAN`"],
        )),
    };
    let [path] = args.input.manifests.as_slice() else { return not_a_plan() };
    // The inputs come over the standard input, and a plan is a file.
    if args.input.received && path.as_os_str() == "-" {
        return Ok(None);
    }
    let mut refused = None;
    let ask = || {
        text_of(session, path).unwrap_or_else(|why| {
            refused = Some(why);
            None
        })
    };
    let text = session.record.record_or_replay("plan", || path.to_string_lossy().into(), ask);
    if let Some(why) = refused {
        return Err(output::fail(why));
    }
    let Some(text) = text else { return not_a_plan() };
    let refuse = |error: PlanFormatError| match error {
        PlanFormatError::Damaged => {
            output::fail_with(format_args!("the plan {} {error}", path.display()), ["make a new plan"])
        }
        PlanFormatError::Version(_) => {
            let (version, known) = (env!("CARGO_PKG_VERSION"), PLAN_VERSION);
            let hint = format!("this kilter ({version}) reads version {known}; make a new plan");
            output::fail_with(format_args!("{} {error}", path.display()), [hint])
        }
    };
    let document = PlanDocument::parse(&text).map_err(refuse)?;
    if !args.input.vars.is_empty() || !args.input.facts_dirs.is_empty() {
        return Err(output::fail_with("a plan has its variables and facts already", ["give them to `kilter plan`"]));
    }
    let secrets = believed(path, &text, &args.verify, session)?;
    let unsealed = document.sealed().map(|sealed| sealed::opened(path, sealed, session)).transpose()?;
    let plan = document.steps(secrets).map_err(refuse)?;
    let provenance = document.provenance().map_err(refuse)?;
    let inputs = document.inputs(unsealed.as_ref()).map_err(refuse)?;
    Ok(Some(PlanFile { inputs: known_inputs(inputs), provenance, plan }))
}

/// Verifies a plan; returns how its secrets are compared.
fn believed(path: &Path, text: &str, verify: &[PathBuf], session: &Session) -> Result<SecretDigests, Exit> {
    let mut refused = None;
    let answer = session.record.record_or_replay(
        "plan check",
        || path.to_string_lossy().into(),
        || match check(path, text, verify, session) {
            Ok(SecretDigests::Keyed(_)) => Some("here".to_owned()),
            Ok(_) => Some("elsewhere".to_owned()),
            Err(exit) => {
                refused = Some(exit);
                None
            }
        },
    );
    match (answer.as_deref(), refused) {
        (_, Some(exit)) => Err(exit),
        (None, None) => Err(output::fail("the plan was refused when this was recorded")),
        (Some(_), None) if session.record.is_replay() => Ok(SecretDigests::Replayed),
        (Some("here"), None) => match SealingKey::of(&session.state_dir()?) {
            Ok(key) => Ok(SecretDigests::Keyed(Box::new(key))),
            Err(error) => Err(output::fail(error)),
        },
        (Some(_), None) => Ok(SecretDigests::Foreign),
    }
}

/// Verifies that a plan is complete, and that it was made here or signed with a trusted key.
pub(crate) fn check(path: &Path, text: &str, verify: &[PathBuf], session: &Session) -> Result<SecretDigests, Exit> {
    let shown = path.display();
    let state = session.state_dir()?;
    let key = match SealingKey::of(&state) {
        Ok(key) => Some(key),
        Err(kilter_runtime::SealingKeyError::Missing { .. }) => None,
        Err(error) => return Err(output::fail(error)),
    };
    let Integrity { maker, signed_by } = integrity::verify(text, key.as_ref())
        .map_err(|error| output::fail_with(format_args!("the plan {shown} {error}"), ["make a new plan"]))?;
    let secrets = match (maker, key) {
        (Maker::Here, Some(key)) => SecretDigests::Keyed(Box::new(key)),
        _ => SecretDigests::Foreign,
    };
    let made_here = matches!(secrets, SecretDigests::Keyed(_));
    if made_here && verify.is_empty() {
        return Ok(secrets);
    }
    let Some(by) = signed_by else {
        let (why, hint) = match made_here {
            true => (
                "is not signed, but `--verify` requires a signature".to_owned(),
                "sign it: `kilter plan --sign KEY -o FILE`",
            ),
            false => {
                let key = SealingKey::path(&state);
                let why = format!(
                    "was made on another machine, by another user or with another state directory, and is not signed: \
                                   the key of its digest is not {}",
                    key.display()
                );
                (why, "apply it on its machine, make a new plan here, or sign it: `kilter plan --sign KEY -o FILE`")
            }
        };
        return Err(output::fail_with(format_args!("the plan {shown} {why}"), [hint]));
    };
    let trusted = trust::trusted(session, verify)?;
    if trusted.keys.contains(&by) {
        return Ok(secrets);
    }
    let hint = match (verify, trusted.keys.as_slice()) {
        ([], []) => format!(
            "no key is trusted: put the public key into a file {}/NAME.pub, or name it with `--verify`",
            trusted.place
        ),
        ([], _) => format!(
            "if you trust it, put the public key into a file {}/NAME.pub, or name it with `--verify`",
            trusted.place
        ),
        _ => "name the public key that belongs to it with `--verify`".to_owned(),
    };
    Err(output::fail_with(
        format_args!("the plan {shown} is signed with a key that is not trusted: {}", by.text()),
        [hint],
    ))
}

/// Returns the text of a regular file that starts as a plan. It reads no other files: an executable manifest or a
/// pipe is no plan.
///
/// # Errors
/// If it starts as a plan, and another user can change it. For other files, the reader of manifests reports that.
fn text_of(session: &Session, path: &Path) -> Result<Option<String>, String> {
    match session.trust.open(path) {
        Ok(checked) => Ok(plan_text(&checked)),
        Err(distrust @ Distrust::Changeable { .. }) if starts_as_plan(path) => {
            Err(trust_rule::refusal("the plan ", path, &distrust))
        }
        Err(_) => Ok(None),
    }
}

/// Returns true if a path is a regular file that starts as a plan. The content is not used for any other purpose.
fn starts_as_plan(path: &Path) -> bool {
    // The descriptor keeps the examined file, so that the second open cannot open a device.
    let Ok(found) = openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) else { return false };
    let is_file = fstat(&found).is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::RegularFile);
    let mut head = Vec::new();
    let opened = is_file.then(|| File::open(format!("/proc/self/fd/{}", found.as_raw_fd())).ok()).flatten();
    opened.is_some_and(|file| file.take(24).read_to_end(&mut head).is_ok())
        && PlanDocument::is_start(&String::from_utf8_lossy(&head))
}

/// Reads a checked file, if it is a plan.
fn plan_text(checked: &TrustedFile) -> Option<String> {
    let file = Some(checked).filter(|file| file.metadata().is_file())?.open().ok()?;
    let mut text = Vec::new();
    (&file).take(24).read_to_end(&mut text).ok()?;
    if !PlanDocument::is_start(&String::from_utf8_lossy(&text)) {
        return None;
    }
    file.take(MAX_BYTES).read_to_end(&mut text).ok()?;
    // If it is no text, the reader of manifests reports that.
    String::from_utf8(text).ok()
}
